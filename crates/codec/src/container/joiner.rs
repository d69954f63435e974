//! Lines that were written in pieces, put together: one joiner a stream of a container.
//!
//! # What it guarantees
//! * The text of a line is the texts of its pieces, one behind the other, with nothing between.
//! * A line of one piece is handed on as it came: nothing is copied or allocated.
//! * Each piece that was pushed is in exactly one line, or its bytes are counted in `cut_bytes` of
//!   one.
//! * A line has the time and the origin of its first piece.
//!
//! # States
//! Idle (nothing is kept, not even memory) → open (pieces came, the last one has not) → idle.
//!
//! # Limits
//! A text has at most [`JoinBounds::bytes_max`] bytes; the rest is cut, at a border between
//! characters if it is UTF-8, and the line still ends with its last piece. A line stays open for
//! at most [`JoinBounds::age_max`], if [`PieceJoiner::expire`] is called.
//!
//! # After a crash
//! The joiner is rebuilt by pushing the pieces again from [`OpenLine::origin`] on, of this stream
//! alone: its state is what the pieces of one open line make of an idle joiner.

use std::time::{Duration, Instant};

use inrush_event::Timestamp;

use super::text::PieceText;
use crate::lines::character_border;

/// Bounds of a line that is put together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JoinBounds {
    /// Bytes of a text, at most.
    pub bytes_max: usize,
    /// Time from the first piece on, by the reader's clock, that the last one is waited for.
    pub age_max: Duration,
}

impl Default for JoinBounds {
    /// 1 MiB and 30 seconds.
    fn default() -> Self {
        Self {
            bytes_max: 1 << 20,
            age_max: Duration::from_secs(30),
        }
    }
}

/// Reason why a line was handed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum JoinEnd {
    /// Its last piece came.
    Complete,
    /// It was longer than it may be.
    Size,
    /// Its last piece did not come in time.
    Age,
    /// Its stream has ended: the container was started anew, or its log is gone.
    Ended,
    /// It was given up for want of memory.
    Memory,
}

impl JoinEnd {
    /// A word for counters and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Size => "size",
            Self::Age => "age",
            Self::Ended => "end",
            Self::Memory => "memory",
        }
    }
}

/// One piece of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinePiece<'a> {
    /// Its text.
    pub text: PieceText<'a>,
    /// True if more pieces of the same line follow.
    pub partial: bool,
    /// Its time.
    pub time: Timestamp,
    /// Place that it was read from, in the caller's own form: the offset in the file, for example.
    pub origin: u64,
}

/// A line whose last piece came, or that waited for it in vain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JoinedLine<'a> {
    /// Its text.
    pub text: PieceText<'a>,
    /// Time of its first piece.
    pub time: Timestamp,
    /// Origin of its first piece.
    pub origin: u64,
    /// Number of its pieces.
    pub pieces: u32,
    /// Bytes of its text that were cut off.
    pub cut_bytes: u64,
    /// Reason why it was handed on. [`JoinEnd::Size`] if its last piece came and bytes were cut.
    pub end: JoinEnd,
}

/// A line whose last piece has not come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenLine {
    /// Time of its first piece.
    pub time: Timestamp,
    /// Origin of its first piece.
    pub origin: u64,
    /// Number of its pieces so far.
    pub pieces: u32,
    /// The reader's clock when its first piece came.
    pub since: Instant,
}

/// Puts the pieces of one stream of one container together.
#[derive(Debug)]
pub struct PieceJoiner {
    bounds: JoinBounds,
    open: Option<Box<OpenText>>,
}

#[derive(Debug)]
struct OpenText {
    line: OpenLine,
    text: BoundedText,
}

impl PieceJoiner {
    /// An idle joiner.
    pub const fn new(bounds: JoinBounds) -> Self {
        Self { bounds, open: None }
    }

    /// Takes the next piece of the stream, read at `now`, and hands its line to `emit` if this is
    /// the last one.
    ///
    /// A line is not given up here, however old it is: a piece that comes late is still its own.
    #[inline]
    pub fn push(&mut self, piece: LinePiece<'_>, now: Instant, emit: impl FnOnce(JoinedLine<'_>)) {
        let single = self.open.is_none() && !piece.partial;
        if single && piece.text.written().len() <= self.bounds.bytes_max {
            return emit(JoinedLine {
                text: piece.text,
                time: piece.time,
                origin: piece.origin,
                pieces: 1,
                cut_bytes: 0,
                end: JoinEnd::Complete,
            });
        }
        self.join(piece, now);
        if !piece.partial {
            self.flush(JoinEnd::Complete, emit);
        }
    }

    fn join(&mut self, piece: LinePiece<'_>, now: Instant) {
        let bytes_max = self.bounds.bytes_max;
        let open = self.open.get_or_insert_with(|| {
            let line = OpenLine {
                time: piece.time,
                origin: piece.origin,
                pieces: 0,
                since: now,
            };
            let text = BoundedText::new(bytes_max);
            Box::new(OpenText { line, text })
        });
        open.line.pieces = open.line.pieces.saturating_add(1);
        open.text.reserve(piece.text.written().len());
        piece.text.each(|part| open.text.append(part));
    }

    /// Hands an open line to `emit` if it is too old. To be called while there is nothing more to
    /// read: its last piece may stand in what was not read yet.
    pub fn expire(&mut self, now: Instant, emit: impl FnOnce(JoinedLine<'_>)) {
        if self.due().is_some_and(|due| due <= now) {
            self.flush(JoinEnd::Age, emit);
        }
    }

    /// Ends the stream: an open line is handed to `emit`.
    pub fn finish(&mut self, emit: impl FnOnce(JoinedLine<'_>)) {
        self.flush(JoinEnd::Ended, emit);
    }

    /// Gives up an open line for want of memory: what there is of it is handed to `emit`, and the
    /// next piece begins another line.
    pub fn give_up(&mut self, emit: impl FnOnce(JoinedLine<'_>)) {
        self.flush(JoinEnd::Memory, emit);
    }

    fn flush(&mut self, end: JoinEnd, emit: impl FnOnce(JoinedLine<'_>)) {
        let Some(open) = self.open.take() else {
            return;
        };
        let end = match end {
            JoinEnd::Complete if open.text.cut_bytes > 0 => JoinEnd::Size,
            end => end,
        };
        emit(JoinedLine {
            text: PieceText::Raw(&open.text.bytes),
            time: open.line.time,
            origin: open.line.origin,
            pieces: open.line.pieces,
            cut_bytes: open.text.cut_bytes,
            end,
        });
    }

    /// The open line.
    pub fn open(&self) -> Option<OpenLine> {
        self.open.as_ref().map(|open| open.line)
    }

    /// The reader's clock when the open line is too old.
    pub fn due(&self) -> Option<Instant> {
        let since = self.open.as_ref()?.line.since;
        since.checked_add(self.bounds.age_max)
    }

    /// Bytes of memory that the open line takes; 0 if there is none.
    pub fn memory_bytes(&self) -> usize {
        let open = self.open.as_ref();
        open.map_or(0, |open| size_of::<OpenText>() + open.text.bytes.capacity())
    }
}

/// A text that is cut where it would be too long.
#[derive(Debug)]
struct BoundedText {
    bytes: Vec<u8>,
    bytes_max: usize,
    cut_bytes: u64,
}

impl BoundedText {
    fn new(bytes_max: usize) -> Self {
        Self {
            bytes: Vec::new(),
            bytes_max,
            cut_bytes: 0,
        }
    }

    /// Makes room for that many bytes more, at least double of what there was, at most what the
    /// text may have and the byte that shows where a character ends.
    fn reserve(&mut self, more: usize) {
        let most = self.bytes_max.saturating_add(1);
        let wanted = self.bytes.len().saturating_add(more).min(most);
        if wanted > self.bytes.capacity() {
            let room = wanted.max(self.bytes.capacity() * 2).min(most);
            self.bytes.reserve_exact(room - self.bytes.len());
        }
    }

    fn append(&mut self, part: &[u8]) {
        if self.cut_bytes > 0 {
            self.cut_bytes += part.len() as u64;
            return;
        }
        let room = self.bytes_max.saturating_add(1) - self.bytes.len();
        let taken = &part[..part.len().min(room)];
        self.bytes.extend_from_slice(taken);
        if self.bytes.len() > self.bytes_max {
            let end = character_border(&self.bytes, self.bytes_max);
            let whole = self.bytes.len() - end + (part.len() - taken.len());
            self.cut_bytes = whole as u64;
            self.bytes.truncate(end);
        }
    }
}
