//! Decoder of a log: its bytes become lines, its lines events.
//!
//! # What it guarantees
//! * An event is a span of what was read, unless it has several pieces or lines, or another
//!   encoding.
//! * Standard output and standard error never mix, nor do pieces of two logs.
//! * A line that is too long costs that line: it is cut, flagged and counted.
//! * A line in another form than its file's is an event as it is, flagged and counted.
//! * Zero bytes before a line are no part of it, however many: a hole of the file.
//! * [`StreamDecoder::position`] says at every moment from where a new process has to go on, so
//!   that no event is lost or comes twice.
//!
//! # States
//! At the beginning of a generation, until its first bytes say its encoding; then within a line, or
//! skipping the rest of one that is too long. For each stream beside: no event open, or one that
//! waits for its next piece or line.
//!
//! # Limits
//! [`LogForm::event_bytes_max`] an event. A line has as many, and what its form adds. An open line
//! waits [`JoinBounds::age_max`](inrush_codec::container::JoinBounds) while nothing comes, an event
//! of several lines as long as its rule says.
//!
//! # After a crash
//! What was taken and is in no durable batch is read again. Of a generation that was read by then,
//! only the pieces and lines of events that were open are taken: their joiners become what they
//! were.

mod joiners;
mod taker;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use inrush_codec::container::{
    ContainerFormat, LinePiece, LogStream, PieceText, detect, parse_cri, parse_docker,
};
use inrush_codec::lines::{LineEncoding, LineSplitter, SplitLine, without_carriage_return};
use inrush_codec::multiline::{LineFacts, MultilineRule};
use inrush_event::{Anomalies, ClassInfo, Counter, Record, Span, Timestamp};
use inrush_ingest::batch_writer::FrameIntake;
use inrush_ingest::batch_writer::acks::PendingAcks;
use inrush_ingest::batch_writer::stream::StreamDecoder;
use inrush_kubernetes::{EventEdits, FilterReason};
use inrush_transport::files::identity::FileIdentity;

use super::counts::FileCounts;
use super::options::{FileEncoding, FileFormat};
use super::place::LogPlace;
use joiners::{OpenEnd, StreamJoiners};
use taker::{EventTaker, TakenText};

/// Bytes that the form of a line may add to its text, at least: pieces of Docker have up to six
/// times 16 KiB with their escapes.
const FORM_BYTES: usize = 128 * 1024;

/// Bytes of a converted line that are kept for the next one, at most.
const KEPT_BYTES_MAX: usize = 4096;

/// Maker of what the events of a stream share, by the path of the log; `None`: those of lines that
/// have no stream.
pub(super) type StreamFormMaker = Box<dyn Fn(&str, Option<usize>) -> StreamForm + Send + Sync>;

/// Form of a log, and the path by which its streams' forms are made: logs may share the form.
pub(super) type NamedForm = (Arc<LogForm>, Arc<Path>);

/// Form of the lines of a log, and what all its events have in common. Idle logs have it too, so
/// the forms of streams are made once a line needs them.
pub(super) struct LogForm {
    /// Form of its lines; `None`: its first line says.
    pub(super) format: Option<LineForm>,
    /// Encoding of its characters.
    pub(super) encoding: FileEncoding,
    /// Bytes of an event, at most.
    pub(super) event_bytes_max: usize,
    /// Rules by which lines are put together to events, by stream; `None`: a line is an event.
    pub(super) multiline: [Option<Arc<MultilineRule>>; 2],
    /// Maker of the forms of its streams.
    pub(super) stream: StreamFormMaker,
    /// Time until which it waits for metadata, and is not read.
    pub(super) held_until: Option<Instant>,
    /// True if its events go without the metadata of their container.
    pub(super) lacks_metadata: bool,
    /// True if nothing of it is wanted: it is passed over.
    pub(super) is_excluded: bool,
    /// Bytes a second that are read of it at most.
    pub(super) rate_bytes: Option<u64>,
}

/// Properties that the events of a stream share.
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

impl FileFormat {
    /// The form, if it is not found out by the first line.
    pub(super) fn fixed(self) -> Option<LineForm> {
        Some(match self {
            Self::Auto => return None,
            Self::Lines => LineForm::Plain,
            Self::Docker => LineForm::Container(ContainerFormat::Docker),
            Self::Cri => LineForm::Container(ContainerFormat::Cri),
        })
    }
}

/// Stream of the lines of a plain file.
const PLAIN_STREAM: usize = LogStream::Stdout as usize;

/// Forms of the streams that lines came of, and of lines without one.
#[derive(Default)]
struct MadeForms([Option<Box<StreamForm>>; 3]);

impl MadeForms {
    #[inline]
    fn of(&mut self, form: &LogForm, path: &Path, stream: Option<usize>) -> &StreamForm {
        let made = &mut self.0[stream.unwrap_or(2)];
        made.get_or_insert_with(|| Box::new((form.stream)(&path.to_string_lossy(), stream)))
    }
}

/// Memory that a log needs only while something is read, or open.
struct DecoderMemory {
    joiners: [StreamJoiners; 2],
    made: MadeForms,
    /// Text of a line that was converted.
    converted: Vec<u8>,
    /// Memory for edited texts.
    edited: Vec<u8>,
}

/// Decoder of one log.
pub(super) struct LogDecoder {
    form: Arc<LogForm>,
    path: Arc<Path>,
    counts: Arc<FileCounts>,
    /// Form of its lines, once it is known.
    known_form: Option<LineForm>,
    /// Place that it has come to.
    pub(super) place: LogPlace,
    /// Splitter of the present generation; `None` until its first bytes say its encoding.
    splitter: Option<LineSplitter>,
    /// True if the last bytes were zero, and no line has begun behind them.
    in_hole: bool,
    /// `None` while nothing is open, and none was needed since the log was idle.
    memory: Option<Box<DecoderMemory>>,
    /// True if the joiners are to follow another form.
    is_changed: bool,
    /// Time of the present read.
    pub(super) now: Instant,
    /// True if there was nothing more to read: open events may be too old.
    pub(super) at_end: bool,
    /// True if the log ends with its present bytes.
    pub(super) is_last: bool,
    cut_bytes: u64,
}

/// Piece of a line of a container, and where its text stands.
struct TakenPiece<'a> {
    piece: LinePiece<'a>,
    stream: LogStream,
    zone: i16,
    text: Span,
}

impl<'a> TakenPiece<'a> {
    /// The piece in a line of a container, which stands at `line`.
    fn of(
        format: ContainerFormat,
        bytes: &'a [u8],
        line: Span,
        origin: u64,
    ) -> Option<TakenPiece<'a>> {
        let at = |text: Span| Span::new(line.start() + text.start(), line.start() + text.end());
        let piece = |text: PieceText<'a>, partial, time| LinePiece {
            text,
            partial,
            time,
            origin,
        };
        Some(match format {
            ContainerFormat::Cri => {
                let found = parse_cri(bytes).ok()?;
                Self {
                    piece: piece(found.text(bytes), found.partial, found.time),
                    stream: found.stream,
                    zone: found.zone_minutes,
                    text: at(found.text),
                }
            }
            ContainerFormat::Docker => {
                let found = parse_docker(bytes).ok()?;
                Self {
                    piece: piece(found.text(bytes), !found.complete, found.time),
                    stream: found.stream,
                    zone: 0,
                    text: at(found.log),
                }
            }
        })
    }
}

/// Taker of events of a stream, from the parts of a decoder that its joiners do not have.
macro_rules! taker {
    ($decoder:ident, $memory:ident, $arena:expr, $stream:expr, $frames:expr) => {
        &mut EventTaker {
            arena: $arena,
            form: &$decoder.form,
            of: $memory.made.of(&$decoder.form, &$decoder.path, $stream),
            log: $decoder.place.stream(),
            counts: &$decoder.counts,
            cut_bytes: &mut $decoder.cut_bytes,
            edited: &mut $memory.edited,
            frames: $frames,
        }
    };
}

impl LogDecoder {
    /// A decoder that goes on from `place`. `head`: the first bytes of its file, if the place is
    /// not at its beginning.
    pub(super) fn new(
        (form, path): NamedForm,
        counts: Arc<FileCounts>,
        place: LogPlace,
        head: &[u8],
    ) -> Self {
        let mut decoder = Self {
            known_form: form.format,
            memory: None,
            form,
            path,
            counts,
            place,
            splitter: None,
            in_hole: false,
            is_changed: false,
            now: Instant::now(),
            at_end: false,
            is_last: false,
            cut_bytes: 0,
        };
        if decoder.place.taken() > 0 {
            let (encoding, _) = decoder.encoding(head, true).unwrap_or_default();
            decoder.split_as(encoding);
        }
        decoder
    }

    /// Time at which an open event has waited long enough.
    pub(super) fn due(&self) -> Option<Instant> {
        let joiners = self.memory.iter().flat_map(|memory| &memory.joiners);
        joiners.filter_map(StreamJoiners::due).min()
    }

    /// The next generation begins, of which `known` bytes were taken by an earlier process.
    pub(super) fn begin_next(&mut self, identity: FileIdentity, known: u64) {
        self.place.begin_next(identity, known, self.open_origins());
        self.begin_anew();
    }

    /// Origins of open events, by stream.
    fn open_origins(&self) -> [Option<u64>; 2] {
        let memory = self.memory.as_ref();
        [0, 1].map(|stream| memory.and_then(|memory| memory.joiners[stream].origin()))
    }

    /// Forgets the unfinished line: its file became shorter.
    pub(super) fn restart(&mut self) {
        self.place.restart();
        self.begin_anew();
    }

    /// The bytes that come are the first ones of a file.
    fn begin_anew(&mut self) {
        if let Some(splitter) = self.splitter.take() {
            self.cut_bytes += splitter.cut_bytes();
        }
        self.in_hole = false;
    }

    /// Takes on another form, from the next line on.
    pub(super) fn replace_form(&mut self, (form, path): NamedForm) {
        self.known_form = form.format.or(self.known_form);
        (self.form, self.path) = (form, path);
        self.is_changed = true;
    }

    /// Gives back the memory that is needed only while something is read.
    pub(super) fn rest(&mut self) {
        if self.open_origins() == [None, None] {
            self.memory = None;
        }
        if let Some(memory) = &mut self.memory {
            memory.made = MadeForms::default();
            (memory.converted, memory.edited) = (Vec::new(), Vec::new());
        }
    }

    /// Form of the log now.
    pub(super) fn form(&self) -> &LogForm {
        &self.form
    }

    /// All before an offset of the generation is passed over, once what was open is ended. `skips`:
    /// it lies within a line; `head`: the first bytes of the file.
    pub(super) fn pass(&mut self, to: u64, skips: bool, head: &[u8]) {
        self.begin_anew();
        self.place.pass(to, skips);
        let (encoding, _) = self.encoding(head, true).unwrap_or_default();
        self.split_as(encoding);
    }

    /// Has the joiners follow another form, if there is one.
    fn follow_form(&mut self, frames: &mut FrameIntake<'_>) {
        if !std::mem::take(&mut self.is_changed) {
            return;
        }
        if let Some(splitter) = &mut self.splitter {
            splitter.bound(line_bytes_max(splitter.encoding(), &self.form));
        }
        let Some(memory) = self.memory.as_deref_mut() else {
            return;
        };
        memory.made = MadeForms::default();
        for (stream, joiners) in memory.joiners.iter_mut().enumerate() {
            let of = stream_of(self.known_form, stream);
            joiners.follow(stream, taker!(self, memory, &[], of, frames));
        }
    }

    /// Encoding of a file that begins with these bytes, and the bytes of its mark; `None` if more
    /// are needed. `all`: no more will come.
    fn encoding(&self, head: &[u8], all: bool) -> Option<(LineEncoding, usize)> {
        let found = match LineEncoding::of_head(head) {
            None if !all => return None,
            found => found.unwrap_or_default(),
        };
        Some(match (self.form.encoding, found.0) {
            (FileEncoding::Utf16, _) | (_, LineEncoding::Bytes) => found,
            (FileEncoding::Utf8, _) => (LineEncoding::Bytes, 0),
        })
    }

    fn split_as(&mut self, encoding: LineEncoding) {
        let most = line_bytes_max(encoding, &self.form);
        let splitter = LineSplitter::resume(encoding, most, self.place.skips);
        self.splitter = Some(splitter);
    }

    /// Takes the mark of a file, and the zeros before a line. Returns the offset behind them, and
    /// the splitter; `None` if the mark is not there yet.
    fn begin(&mut self, arena: &[u8], start: usize, all: bool) -> Option<(usize, LineSplitter)> {
        let mut at = start;
        if self.splitter.is_none() {
            let head = arena.get(start..).unwrap_or_default();
            let (encoding, mark) = self.encoding(head, all)?;
            self.split_as(encoding);
            self.place.advance(mark);
            at += mark;
        }
        let mut splitter = self.splitter.take()?;
        if !splitter.is_skipping() && arena.get(at) == Some(&0) {
            let unit = splitter.encoding().unit_bytes();
            let zeros = zeros_of(arena.get(at..).unwrap_or_default()) / unit * unit;
            if zeros > 0 {
                self.note_hole();
                splitter.go_on(false);
                self.place.advance(zeros);
                at += zeros;
            }
        }
        self.in_hole &= at == arena.len();
        Some((at, splitter))
    }

    /// Counts a run of zeros, if it is not the rest of one.
    fn note_hole(&mut self) {
        if !std::mem::replace(&mut self.in_hole, true) && !self.place.is_known() {
            self.counts.holes_skipped.add(1);
        }
    }

    /// So many bytes of a hole are not read.
    pub(super) fn skip_hole(&mut self, bytes: u64) {
        self.note_hole();
        self.place
            .advance(usize::try_from(bytes).unwrap_or(usize::MAX));
    }

    /// Form of a line. The first one that is whole, or a container's, says it for all.
    fn form_of(&mut self, line: &[u8], anomalies: Anomalies) -> LineForm {
        let form = self.known_form.unwrap_or_else(|| match detect(line) {
            Some(format) => LineForm::Container(format),
            None => LineForm::Plain,
        });
        if anomalies.is_empty() || form != LineForm::Plain {
            self.known_form = Some(form);
        }
        form
    }

    /// Takes a line that was split off; the place is at `at`.
    fn split(
        &mut self,
        arena: &[u8],
        at: &mut usize,
        line: SplitLine,
        encoding: LineEncoding,
        frames: &mut FrameIntake<'_>,
    ) {
        let anomalies = match (line.cut, line.open) {
            (true, _) => Anomalies::OVERSIZE,
            (false, true) => Anomalies::UNTERMINATED,
            (false, false) => Anomalies::NONE,
        };
        let mut start = line.span.start();
        if line.span.of(arena).first() == Some(&0) {
            let unit = encoding.unit_bytes();
            let zeros = zeros_of(line.span.of(arena)) / unit * unit;
            if zeros > 0 {
                self.note_hole();
            }
            start += zeros;
        }
        self.in_hole = false;
        // Behind the rest of a line that was cut, and behind a hole: a position may be within it.
        self.place.advance(start - *at);
        let text = Span::new(start, line.span.end());
        self.encoded(arena, text, encoding, anomalies, frames);
        self.place.advance(line.end - start);
        *at = line.end;
    }

    /// Takes one line of an encoding, which begins at the place.
    fn encoded(
        &mut self,
        arena: &[u8],
        line: Span,
        encoding: LineEncoding,
        anomalies: Anomalies,
        frames: &mut FrameIntake<'_>,
    ) {
        match encoding {
            LineEncoding::Bytes => self.line(arena, line, anomalies, frames),
            _ => self.converted(arena, line, encoding, anomalies, frames),
        }
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
        let LineForm::Container(format) = self.form_of(bytes, anomalies) else {
            return self.plain(arena, line, anomalies, frames);
        };
        match TakenPiece::of(format, bytes, line, self.place.origin()) {
            Some(taken) => self.piece(arena, taken, frames),
            None => self.malformed(arena, line, anomalies, frames),
        }
    }

    fn piece(&mut self, arena: &[u8], taken: TakenPiece<'_>, frames: &mut FrameIntake<'_>) {
        let stream = taken.stream as usize;
        if !self.place.takes(stream, taken.piece.origin) {
            return;
        }
        let memory = memory_of(&mut self.memory, &self.form);
        let taker = taker!(self, memory, arena, Some(stream), frames);
        memory.joiners[stream].piece(taken.piece, (taken.text, taken.zone), self.now, taker);
    }

    fn facts(&self, anomalies: Anomalies) -> LineFacts {
        LineFacts {
            time: Timestamp::NONE,
            zone_minutes: Record::ZONE_NONE,
            origin: self.place.origin(),
            anomalies,
        }
    }

    /// Takes a line that is none of its container's: an event as it is.
    fn malformed(
        &mut self,
        arena: &[u8],
        line: Span,
        anomalies: Anomalies,
        frames: &mut FrameIntake<'_>,
    ) {
        if self.place.is_known() {
            return;
        }
        self.counts.malformed_lines.add(1);
        let mut facts = self.facts(anomalies.union(Anomalies::BAD_FRAME));
        let memory = memory_of(&mut self.memory, &self.form);
        let taker = taker!(self, memory, arena, None, frames);
        let text = without_carriage_return(line.of(arena));
        let end = taker.bound(text, &mut facts.anomalies);
        let text = Span::new(line.start(), line.start() + end);
        taker.event(TakenText::Read(text), &facts);
    }

    /// Takes a line of a plain file.
    fn plain(
        &mut self,
        arena: &[u8],
        line: Span,
        anomalies: Anomalies,
        frames: &mut FrameIntake<'_>,
    ) {
        let mut facts = self.facts(anomalies);
        if !self.place.takes(PLAIN_STREAM, facts.origin) {
            return;
        }
        let memory = memory_of(&mut self.memory, &self.form);
        let taker = taker!(self, memory, arena, None, frames);
        let text = without_carriage_return(line.of(arena));
        let end = taker.bound(text, &mut facts.anomalies);
        let text = TakenText::Read(Span::new(line.start(), line.start() + end));
        memory.joiners[PLAIN_STREAM].line(text, &facts, self.now, taker);
    }

    /// Takes a line of UTF-16, which only plain files have.
    fn converted(
        &mut self,
        arena: &[u8],
        line: Span,
        encoding: LineEncoding,
        anomalies: Anomalies,
        frames: &mut FrameIntake<'_>,
    ) {
        let mut facts = self.facts(anomalies.union(Anomalies::CONVERTED));
        if !self.place.takes(PLAIN_STREAM, facts.origin) {
            return;
        }
        let memory = memory_of(&mut self.memory, &self.form);
        memory.converted.clear();
        let is_whole = encoding.push_text(line.of(arena), &mut memory.converted);
        let text = without_carriage_return(&memory.converted);
        let taker = taker!(self, memory, arena, None, frames);
        let text = &text[..taker.bound(text, &mut facts.anomalies)];
        let text = match is_whole {
            true => TakenText::Made(PieceText::Raw(text)),
            false => TakenText::Replaced(text, line),
        };
        if !is_whole {
            facts.anomalies.insert(Anomalies::NOT_UTF8);
        }
        memory.joiners[PLAIN_STREAM].line(text, &facts, self.now, taker);
        if memory.converted.capacity() > KEPT_BYTES_MAX {
            memory.converted = Vec::new();
        }
    }

    /// Hands open events on that end now.
    fn end_open(&mut self, why: OpenEnd, frames: &mut FrameIntake<'_>) {
        let Some(memory) = self.memory.as_deref_mut() else {
            return;
        };
        for (stream, joiners) in memory.joiners.iter_mut().enumerate() {
            let of = stream_of(self.known_form, stream);
            joiners.end(why, self.now, taker!(self, memory, &[], of, frames));
        }
    }
}

/// Zero bytes that a text begins with.
fn zeros_of(text: &[u8]) -> usize {
    text.iter().take_while(|byte| **byte == 0).count()
}

/// Stream of the events of a joiner; `None` where lines have none.
fn stream_of(known: Option<LineForm>, stream: usize) -> Option<usize> {
    matches!(known, Some(LineForm::Container(_))).then_some(stream)
}

fn memory_of<'m>(
    memory: &'m mut Option<Box<DecoderMemory>>,
    form: &LogForm,
) -> &'m mut DecoderMemory {
    memory.get_or_insert_with(|| {
        Box::new(DecoderMemory {
            joiners: [0, 1].map(|stream| StreamJoiners::new(form, stream)),
            made: MadeForms::default(),
            converted: Vec::new(),
            edited: Vec::new(),
        })
    })
}

/// Bytes of a line that are kept, at most.
fn line_bytes_max(encoding: LineEncoding, form: &LogForm) -> usize {
    form.event_bytes_max * encoding.unit_bytes() + FORM_BYTES
}

impl StreamDecoder for LogDecoder {
    fn decode(
        &mut self,
        arena: &[u8],
        start: usize,
        frames: &mut FrameIntake<'_>,
        _: &mut PendingAcks,
    ) -> usize {
        self.follow_form(frames);
        let Some((mut at, mut splitter)) = self.begin(arena, start, false) else {
            return start;
        };
        let encoding = splitter.encoding();
        let keep = splitter.decode(arena, at, |line| {
            self.split(arena, &mut at, line, encoding, frames);
        });
        self.place.advance(keep - at);
        self.place.skips = splitter.is_skipping();
        self.splitter = Some(splitter);
        if std::mem::take(&mut self.at_end) {
            self.end_open(OpenEnd::Due, frames);
        }
        keep
    }

    /// Takes the unfinished line at the end of a generation, and open events at the end of the log.
    fn finish(&mut self, arena: &[u8], start: usize, frames: &mut FrameIntake<'_>) {
        self.follow_form(frames);
        if let Some((mut at, mut splitter)) = self.begin(arena, start, true) {
            let encoding = splitter.encoding();
            splitter.finish(arena, at, |line| {
                self.split(arena, &mut at, line, encoding, frames);
            });
            self.place.advance(arena.len() - at);
            self.splitter = Some(splitter);
        }
        self.place.skips = false;
        if self.is_last {
            self.end_open(OpenEnd::Ended, frames);
        }
    }

    fn give_up(&mut self, arena: &[u8], start: usize, frames: &mut FrameIntake<'_>) {
        self.follow_form(frames);
        if start < arena.len()
            && let Some((at, mut splitter)) = self.begin(arena, start, true)
        {
            let encoding = splitter.encoding();
            // Half of a unit is read again.
            let there = (arena.len() - at) / encoding.unit_bytes() * encoding.unit_bytes();
            if there > 0 {
                let rest = Span::new(at, at + there);
                self.encoded(arena, rest, encoding, Anomalies::MEMORY_CUT, frames);
                self.place.advance(there);
                self.place.skips = true;
                splitter.go_on(true);
            }
            self.splitter = Some(splitter);
        }
        self.end_open(OpenEnd::Memory, frames);
    }

    fn cut_bytes(&self) -> [u64; 3] {
        let split = self.splitter.as_ref().map_or(0, LineSplitter::cut_bytes);
        [self.cut_bytes + split, 0, 0]
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
        let Some(memory) = &self.memory else {
            return 0;
        };
        let open: usize = memory.joiners.iter().map(StreamJoiners::memory_bytes).sum();
        open + memory.converted.capacity() + memory.edited.capacity()
    }
}
