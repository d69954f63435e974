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
use inrush_event::{Anomalies, ClassInfo, Counter, Record, Span, Timestamp};
use inrush_ingest::batch_writer::FrameIntake;
use inrush_ingest::batch_writer::acks::PendingAcks;
use inrush_ingest::batch_writer::decoded::AppendedPart;
use inrush_ingest::batch_writer::stream::StreamDecoder;
use inrush_kubernetes::{EditOutcome, EventEdits, FilterReason};
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
    /// Its lines that have no stream.
    pub(super) plain: StreamForm,
    /// Standard output and standard error.
    pub(super) streams: [StreamForm; 2],
    /// Time until which it waits for metadata, and is not read.
    pub(super) held_until: Option<Instant>,
    /// True if its events go without the metadata of their container.
    pub(super) lacks_metadata: bool,
    /// True if nothing of it is wanted: it is passed over.
    pub(super) is_excluded: bool,
    /// Bytes a second that are read of it at most.
    pub(super) rate_bytes: Option<u64>,
}

/// Properties that the events of a stream have in common.
#[derive(Debug)]
pub(super) struct StreamForm {
    /// Their class.
    pub(super) class: Arc<ClassInfo>,
    /// Their host.
    pub(super) host: Box<[u8]>,
    /// Edits of their texts, if there are some.
    pub(super) edits: Option<StreamEdits>,
}

/// Edits of the events of a stream.
#[derive(Debug)]
pub(super) struct StreamEdits {
    /// The edits.
    pub(super) edits: EventEdits,
    /// Counts of the events that are left out, by [`FilterReason`].
    pub(super) filtered: [Arc<Counter>; FilterReason::ALL.len()],
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
    /// Memory for edited texts.
    edited: Vec<u8>,
}

fn is_utf8(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok()
}

/// Takes events into a batch.
struct EventTaker<'t, 'f> {
    form: &'t LogForm,
    counts: &'t FileCounts,
    cut_bytes: &'t mut u64,
    /// Memory for edited texts.
    edited: &'t mut Vec<u8>,
    frames: &'t mut FrameIntake<'f>,
}

/// A text, and what is known of it.
struct TakenText<'a> {
    /// The text.
    bytes: &'a [u8],
    /// Its place in what was read; `None`: it does not stand there as a whole.
    span: Option<Span>,
    anomalies: Anomalies,
    /// A number of the event that is the same whenever it is read.
    place: u64,
}

impl EventTaker<'_, '_> {
    /// Takes a text that stands in what was read.
    fn span(
        &mut self,
        arena: &[u8],
        span: Span,
        of: &StreamForm,
        (anomalies, place): (Anomalies, u64),
        fill: impl FnOnce(&mut Record),
    ) {
        let (span, anomalies) = self.bounded(span, anomalies);
        let text = TakenText {
            bytes: span.of(arena),
            span: Some(span),
            anomalies,
            place,
        };
        self.text(text, of, fill);
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

    /// Edits a text, and takes what becomes of it.
    fn text(&mut self, mut text: TakenText<'_>, of: &StreamForm, fill: impl FnOnce(&mut Record)) {
        if text.bytes.is_empty() {
            return self.frames.note_empty();
        }
        let Some(StreamEdits { edits, filtered }) = &of.edits else {
            return self.put(text, of, fill);
        };
        let mut edited = std::mem::take(self.edited);
        let most = self.form.event_bytes_max;
        match edits.apply(text.bytes, text.place, most, &mut edited) {
            EditOutcome::Same => self.put(text, of, fill),
            EditOutcome::Left(reason) => {
                let rule = FilterReason::ALL.iter().zip(filtered);
                let rule = rule.into_iter().find(|(one, _)| **one == reason);
                if let Some((_, rule)) = rule {
                    self.frames.note_filtered(text.bytes.len(), rule);
                }
            }
            EditOutcome::Changed { .. } if edited.is_empty() => self.frames.note_empty(),
            EditOutcome::Changed { cut_bytes } => {
                if cut_bytes > 0 {
                    text.anomalies.insert(Anomalies::OVERSIZE);
                    self.counts.lines_cut.add(1);
                    *self.cut_bytes += cut_bytes as u64;
                }
                let anomalies = text.anomalies;
                let new = TakenText {
                    bytes: &edited,
                    span: None,
                    anomalies,
                    place: text.place,
                };
                self.put(new, of, fill);
            }
        }
        *self.edited = edited;
    }

    fn put(&mut self, text: TakenText<'_>, of: &StreamForm, fill: impl FnOnce(&mut Record)) {
        self.note_metadata();
        let mut anomalies = text.anomalies;
        if !is_utf8(text.bytes) {
            anomalies.insert(Anomalies::NOT_UTF8);
        }
        let span = text.span.unwrap_or(Span::EMPTY);
        let frame = Frame { span, anomalies };
        self.frames.take_classed(frame, &of.class, |mut event| {
            fill(event.record);
            if text.span.is_none() {
                event.append(AppendedPart::Text, |out| out.extend_from_slice(text.bytes));
            }
            event.append(AppendedPart::Host, |out| out.extend_from_slice(&of.host));
        });
    }

    /// Takes a line of a container. `text` is where its only piece stands.
    fn joined(
        &mut self,
        arena: &[u8],
        line: &JoinedLine<'_>,
        (text, place): (Span, u64),
        zone: i16,
        of: &StreamForm,
    ) {
        let time = line.time;
        let set = |record: &mut Record| {
            record.event_time = time;
            record.zone_minutes = zone;
            if !time.is_some() {
                record.anomalies.insert(Anomalies::BAD_TIME);
            }
        };
        // A lone piece whose line never ended is not in what was read.
        let is_whole = line.end == JoinEnd::Complete;
        let is_span = line.pieces == 1 && line.cut_bytes == 0 && is_whole;
        if let (true, PieceText::Raw(_)) = (is_span, line.text) {
            return self.span(arena, text, of, (Anomalies::NONE, place), set);
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
        if line.pieces > 1 {
            self.counts.joined_events.add(1);
        }
        if of.edits.is_some() {
            let mut bytes = Vec::new();
            line.text.push(&mut bytes);
            let text = TakenText {
                bytes: &bytes,
                span: None,
                anomalies,
                place,
            };
            return self.text(text, of, set);
        }
        self.note_metadata();
        if !is_utf8(line.text.written()) {
            anomalies.insert(Anomalies::NOT_UTF8);
        }
        let span = Span::new(text.start(), text.start());
        let frame = Frame { span, anomalies };
        self.frames.take_classed(frame, &of.class, |mut event| {
            set(event.record);
            event.append(AppendedPart::Text, |out| line.text.push(out));
            event.append(AppendedPart::Host, |out| out.extend_from_slice(&of.host));
        });
    }

    fn note_metadata(&self) {
        if self.form.lacks_metadata {
            self.counts.metadata_missing.add(1);
        }
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
            edited: Vec::new(),
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

    /// Form of the log now.
    pub(super) fn form(&self) -> &LogForm {
        &self.form
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
        let of = &self.form.streams[stream];
        let log = self.place.stream();
        let mut taker = EventTaker {
            form: &self.form,
            counts: &self.counts,
            cut_bytes: &mut self.cut_bytes,
            edited: &mut self.edited,
            frames,
        };
        self.joiners[stream].push(taken.piece, self.now, |joined| {
            let place = LogPlace::number_of_event(log, joined.origin);
            taker.joined(arena, &joined, (taken.text, place), taken.zone, of);
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
        let of = &self.form.plain;
        let place = LogPlace::number_of_event(self.place.stream(), self.place.origin());
        let mut taker = EventTaker {
            form: &self.form,
            counts: &self.counts,
            cut_bytes: &mut self.cut_bytes,
            edited: &mut self.edited,
            frames,
        };
        taker.span(arena, span, of, (anomalies, place), |record| {
            record.event_time = Timestamp::NONE;
        });
    }

    /// Hands open events on that `end` says.
    fn end_open(
        &mut self,
        frames: &mut FrameIntake<'_>,
        end: impl Fn(&mut PieceJoiner, &mut dyn FnMut(JoinedLine<'_>)),
    ) {
        let log = self.place.stream();
        for (joiner, of) in self.joiners.iter_mut().zip(&self.form.streams) {
            let mut taker = EventTaker {
                form: &self.form,
                counts: &self.counts,
                cut_bytes: &mut self.cut_bytes,
                edited: &mut self.edited,
                frames,
            };
            end(joiner, &mut |joined| {
                let place = LogPlace::number_of_event(log, joined.origin);
                taker.joined(&[], &joined, (Span::EMPTY, place), Record::ZONE_NONE, of);
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
