//! Decoder of a log: its bytes become lines, its lines events.
//!
//! # What it guarantees
//! * An event is a span of what was read, unless it has several pieces with headers between them.
//! * Standard output and standard error never mix, nor do pieces of two logs.
//! * A line that is too long costs that line: it is cut, flagged and counted.
//! * A line in another form than its file's is an event as it is, flagged and counted.
//! * [`StreamDecoder::position`] says at every moment from where a new process has to go on, so
//!   that no event is lost or comes twice.
//!
//! # States
//! Within a line, or skipping the rest of one that is too long. For each stream beside: no event
//! open, or one that waits for its next piece.
//!
//! # Limits
//! [`LogForm::event_bytes_max`] an event. A line has as many, and what its form adds. An open event
//! waits [`JoinBounds::age_max`](inrush_codec::container::JoinBounds) while nothing comes.
//!
//! # After a crash
//! What was taken and is in no durable batch is read again. Of a generation that was read by then,
//! only the pieces of events that were open are taken.

use std::sync::Arc;
use std::time::Instant;

use inrush_codec::Frame;
use inrush_codec::container::{
    ContainerFormat, JoinBounds, JoinEnd, JoinedLine, LinePiece, LogStream, PieceJoiner, PieceText,
    detect, parse_cri, parse_docker,
};
use inrush_event::{Anomalies, ClassInfo, Record, Span, Timestamp};
use inrush_ingest::batch_writer::FrameIntake;
use inrush_ingest::batch_writer::acks::PendingAcks;
use inrush_ingest::batch_writer::decoded::AppendedPart;
use inrush_ingest::batch_writer::stream::StreamDecoder;
use inrush_transport::files::identity::FileIdentity;
use memchr::memchr;

use super::counts::FileCounts;
use super::place::LogPlace;

/// Bytes that the form of a line may add to its text, at least: pieces of Docker have up to six
/// times 16 KiB with their escapes.
const FORM_BYTES: usize = 128 * 1024;

/// Form of the lines of a log, and what all its events have in common.
#[derive(Debug)]
pub(super) struct LogForm {
    /// Form of its lines; `None`: its first line says.
    pub(super) format: Option<LineForm>,
    /// Bytes of an event, at most.
    pub(super) event_bytes_max: usize,
    /// Class of its lines that have no stream.
    pub(super) plain: Arc<ClassInfo>,
    /// Classes of standard output and standard error.
    pub(super) streams: [Arc<ClassInfo>; 2],
    /// Host of its events.
    pub(super) host: Box<[u8]>,
}

/// Form of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LineForm {
    /// Text.
    Plain,
    /// One of a container's.
    Container(ContainerFormat),
}

/// Decoder of one log.
pub(super) struct LogDecoder {
    form: Arc<LogForm>,
    counts: Arc<FileCounts>,
    /// Form of its lines, once it is known.
    known_form: Option<LineForm>,
    /// Place that it has come to.
    pub(super) place: LogPlace,
    /// Bytes of the unfinished line that have no end of line.
    scanned: usize,
    joiners: [PieceJoiner; 2],
    /// Time of the present read.
    pub(super) now: Instant,
    /// True if there was nothing more to read: open events may be too old.
    pub(super) at_end: bool,
    /// True if the log ends with its present bytes.
    pub(super) is_last: bool,
    cut_bytes: u64,
}

fn is_utf8(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok()
}

/// Takes events into a batch.
struct EventTaker<'t, 'f> {
    form: &'t LogForm,
    counts: &'t FileCounts,
    cut_bytes: &'t mut u64,
    frames: &'t mut FrameIntake<'f>,
}

impl EventTaker<'_, '_> {
    /// Takes a text that stands in what was read.
    fn span(
        &mut self,
        arena: &[u8],
        span: Span,
        class: &Arc<ClassInfo>,
        anomalies: Anomalies,
        fill: impl FnOnce(&mut Record),
    ) {
        let (span, anomalies) = self.bounded(span, anomalies);
        if span.is_empty() {
            return self.frames.note_empty();
        }
        let host = &self.form.host;
        let broken = !is_utf8(span.of(arena));
        self.frames
            .take_classed(Frame { span, anomalies }, class, |mut event| {
                fill(event.record);
                if broken {
                    event.record.anomalies.insert(Anomalies::NOT_UTF8);
                }
                event.append(AppendedPart::Host, |out| out.extend_from_slice(host));
            });
    }

    fn bounded(&mut self, span: Span, mut anomalies: Anomalies) -> (Span, Anomalies) {
        let most = self.form.event_bytes_max;
        if span.len() <= most {
            return (span, anomalies);
        }
        anomalies.insert(Anomalies::OVERSIZE);
        self.counts.lines_cut.add(1);
        *self.cut_bytes += (span.len() - most) as u64;
        (Span::new(span.start(), span.start() + most), anomalies)
    }

    /// Takes a line of a container. `text` is where its only piece stands.
    fn joined(
        &mut self,
        arena: &[u8],
        line: &JoinedLine<'_>,
        text: Span,
        zone: i16,
        class: &Arc<ClassInfo>,
    ) {
        let time = line.time;
        let set = |record: &mut Record| {
            record.event_time = time;
            record.zone_minutes = zone;
            if !time.is_some() {
                record.anomalies.insert(Anomalies::BAD_TIME);
            }
        };
        let is_span = line.pieces == 1 && line.cut_bytes == 0;
        if let (true, PieceText::Raw(_)) = (is_span, line.text) {
            return self.span(arena, text, class, Anomalies::NONE, set);
        }
        let mut anomalies = Anomalies::NONE;
        if line.cut_bytes > 0 {
            anomalies.insert(Anomalies::OVERSIZE);
            self.counts.lines_cut.add(1);
            *self.cut_bytes += line.cut_bytes;
        }
        if !matches!(line.end, JoinEnd::Complete | JoinEnd::Size) {
            anomalies.insert(Anomalies::UNTERMINATED);
        }
        self.counts.flushed(line.end);
        if !is_utf8(line.text.written()) {
            anomalies.insert(Anomalies::NOT_UTF8);
        }
        let host = &self.form.host;
        let span = Span::new(text.start(), text.start());
        self.frames
            .take_classed(Frame { span, anomalies }, class, |mut event| {
                set(event.record);
                event.append(AppendedPart::Text, |out| line.text.push(out));
                event.append(AppendedPart::Host, |out| out.extend_from_slice(host));
            });
    }
}

/// Piece of a line of a container, and where its text stands.
struct TakenPiece<'a> {
    piece: LinePiece<'a>,
    stream: LogStream,
    zone: i16,
    text: Span,
}

impl LogDecoder {
    /// A decoder that goes on from `place`.
    pub(super) fn new(form: Arc<LogForm>, counts: Arc<FileCounts>, place: LogPlace) -> Self {
        let bounds = JoinBounds {
            bytes_max: form.event_bytes_max,
            ..JoinBounds::default()
        };
        Self {
            known_form: form.format,
            form,
            counts,
            place,
            scanned: 0,
            joiners: [PieceJoiner::new(bounds), PieceJoiner::new(bounds)],
            now: Instant::now(),
            at_end: false,
            is_last: false,
            cut_bytes: 0,
        }
    }

    /// Time at which an open event has waited long enough.
    pub(super) fn due(&self) -> Option<Instant> {
        self.joiners.iter().filter_map(PieceJoiner::due).min()
    }

    /// The next generation begins, of which `known` bytes were taken by an earlier process.
    pub(super) fn begin_next(&mut self, identity: FileIdentity, known: u64) {
        self.place.begin_next(identity, known, self.open_origins());
    }

    /// Origins of open events, by stream.
    fn open_origins(&self) -> [Option<u64>; 2] {
        [0, 1].map(|stream| self.joiners[stream].open().map(|line| line.origin))
    }

    /// Forgets the unfinished line: its file became shorter.
    pub(super) fn restart(&mut self) {
        self.scanned = 0;
        self.place.restart();
    }

    /// Takes on another form, from the next line on.
    pub(super) fn replace_form(&mut self, form: Arc<LogForm>) {
        self.known_form = form.format.or(self.known_form);
        self.form = form;
    }

    fn line_bytes_max(&self) -> usize {
        self.form.event_bytes_max + FORM_BYTES
    }

    /// End of the line that begins at `at`; `None` if it is not there yet.
    fn line_end(&mut self, arena: &[u8], at: usize) -> Option<usize> {
        let from = at + self.scanned;
        let found = arena.get(from..).and_then(|rest| memchr(b'\n', rest));
        match found {
            Some(length) => {
                self.scanned = 0;
                Some(from + length)
            }
            None => {
                self.scanned = arena.len() - at;
                None
            }
        }
    }

    fn form_of(&mut self, line: &[u8]) -> LineForm {
        *self.known_form.get_or_insert_with(|| match detect(line) {
            Some(format) => LineForm::Container(format),
            None => LineForm::Plain,
        })
    }

    /// Takes one line, which begins at the place.
    fn line(
        &mut self,
        arena: &[u8],
        line: Span,
        anomalies: Anomalies,
        frames: &mut FrameIntake<'_>,
    ) {
        let bytes = line.of(arena);
        let parsed = match self.form_of(bytes) {
            LineForm::Plain => return self.plain(arena, line, anomalies, frames),
            LineForm::Container(ContainerFormat::Cri) => parse_cri(bytes).ok().map(|found| {
                let text = found.text(bytes);
                (
                    found.stream,
                    found.partial,
                    found.time,
                    found.zone_minutes,
                    found.text,
                    text,
                )
            }),
            LineForm::Container(ContainerFormat::Docker) => parse_docker(bytes).ok().map(|found| {
                let text = found.text(bytes);
                (
                    found.stream,
                    !found.complete,
                    found.time,
                    0,
                    found.log,
                    text,
                )
            }),
        };
        let Some((stream, partial, time, zone, span, text)) = parsed else {
            self.counts.malformed_lines.add(1);
            return self.plain(arena, line, anomalies.union(Anomalies::BAD_FRAME), frames);
        };
        let piece = LinePiece {
            text,
            partial,
            time,
            origin: self.place.origin(),
        };
        let text = Span::new(line.start() + span.start(), line.start() + span.end());
        let taken = TakenPiece {
            piece,
            stream,
            zone,
            text,
        };
        self.piece(arena, taken, frames);
    }

    fn piece(&mut self, arena: &[u8], taken: TakenPiece<'_>, frames: &mut FrameIntake<'_>) {
        let stream = taken.stream as usize;
        if !self.place.takes(stream, taken.piece.origin) {
            return;
        }
        let class = &self.form.streams[stream];
        let mut taker = EventTaker {
            form: &self.form,
            counts: &self.counts,
            cut_bytes: &mut self.cut_bytes,
            frames,
        };
        self.joiners[stream].push(taken.piece, self.now, |joined| {
            taker.joined(arena, &joined, taken.text, taken.zone, class);
        });
    }

    fn plain(
        &mut self,
        arena: &[u8],
        line: Span,
        anomalies: Anomalies,
        frames: &mut FrameIntake<'_>,
    ) {
        if self.place.is_known() {
            return;
        }
        let text = line.of(arena);
        let zeros = text.iter().take_while(|byte| **byte == 0).count();
        if zeros > 0 {
            self.counts.holes_skipped.add(1);
        }
        let end = match text.last() {
            Some(b'\r') if text.len() > zeros => line.end() - 1,
            _ => line.end(),
        };
        let span = Span::new(line.start() + zeros, end);
        let class = &self.form.plain;
        let mut taker = EventTaker {
            form: &self.form,
            counts: &self.counts,
            cut_bytes: &mut self.cut_bytes,
            frames,
        };
        taker.span(arena, span, class, anomalies, |record| {
            record.event_time = Timestamp::NONE;
        });
    }

    /// Hands open events on that `end` says.
    fn end_open(
        &mut self,
        frames: &mut FrameIntake<'_>,
        end: impl Fn(&mut PieceJoiner, &mut dyn FnMut(JoinedLine<'_>)),
    ) {
        for (joiner, class) in self.joiners.iter_mut().zip(&self.form.streams) {
            let mut taker = EventTaker {
                form: &self.form,
                counts: &self.counts,
                cut_bytes: &mut self.cut_bytes,
                frames,
            };
            end(joiner, &mut |joined| {
                taker.joined(&[], &joined, Span::EMPTY, Record::ZONE_NONE, class);
            });
        }
    }

    /// Gives up the rest of a line that is too long: `rest` bytes of it are there.
    fn skip(&mut self, rest: usize) {
        self.cut_bytes += rest as u64;
        self.scanned = 0;
        self.place.advance(rest);
    }
}

impl StreamDecoder for LogDecoder {
    fn decode(
        &mut self,
        arena: &[u8],
        start: usize,
        frames: &mut FrameIntake<'_>,
        _: &mut PendingAcks,
    ) -> usize {
        let mut at = start;
        while let Some(end) = self.line_end(arena, at) {
            match std::mem::take(&mut self.place.skips) {
                true => self.cut_bytes += (end - at) as u64,
                false => self.line(arena, Span::new(at, end), Anomalies::NONE, frames),
            }
            self.place.advance(end + 1 - at);
            at = end + 1;
        }
        let rest = arena.len() - at;
        let most = self.line_bytes_max();
        if !self.place.skips && rest > most {
            self.line(arena, Span::new(at, at + most), Anomalies::OVERSIZE, frames);
            self.place.advance(most);
            self.place.skips = true;
            self.skip(rest - most);
            at = arena.len();
        } else if self.place.skips {
            self.skip(rest);
            at = arena.len();
        }
        if std::mem::take(&mut self.at_end) {
            let now = self.now;
            self.end_open(frames, |joiner, emit| joiner.expire(now, emit));
        }
        at
    }

    /// Takes the unfinished line at the end of a generation, and open events at the end of the log.
    fn finish(&mut self, arena: &[u8], start: usize, frames: &mut FrameIntake<'_>) {
        if start < arena.len() {
            if !self.place.skips {
                let rest = Span::new(start, arena.len());
                self.line(arena, rest, Anomalies::UNTERMINATED, frames);
            }
            self.place.advance(arena.len() - start);
        }
        self.place.skips = false;
        self.scanned = 0;
        if self.is_last {
            self.end_open(frames, |joiner, emit| joiner.finish(emit));
        }
    }

    fn give_up(&mut self, arena: &[u8], start: usize, frames: &mut FrameIntake<'_>) {
        if start < arena.len() {
            let rest = Span::new(start, arena.len());
            self.line(arena, rest, Anomalies::MEMORY_CUT, frames);
            self.place.advance(arena.len() - start);
            self.place.skips = true;
            self.scanned = 0;
        }
        self.end_open(frames, |joiner, emit| joiner.give_up(emit));
    }

    fn cut_bytes(&self) -> [u64; 3] {
        [self.cut_bytes, 0, 0]
    }

    /// Its file keeps what is in no durable batch.
    fn answers(&self) -> bool {
        true
    }

    fn is_due(&self) -> bool {
        self.at_end
    }

    fn position(&self) -> Option<(u64, Vec<u8>)> {
        self.place.position(self.open_origins())
    }

    fn buffered_bytes(&self) -> usize {
        self.joiners.iter().map(PieceJoiner::memory_bytes).sum()
    }
}
