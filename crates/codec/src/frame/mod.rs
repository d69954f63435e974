//! Framing: the borders between the messages of a stream (RFC 6587, RFC 5425).
//!
//! # What it guarantees
//! * A [`FrameDecoder`] never fails and never asks for a connection to be closed: a broken octet
//!   count costs the bytes up to the next newline or the next believable count, and those bytes
//!   come out as a record of their own ([`Anomalies::BAD_FRAME`]).
//! * The frames do not depend on how the stream was cut into reads, and every byte of it is in a
//!   frame, or is framing (terminators, counts), or was cut off an oversize message and counted.
//! * What has to be kept between two reads is at most `max_message_bytes` + 32 bytes.
//! * A byte that was searched is not searched again, so a sender of single bytes costs as much
//!   per byte as one of large writes.
//!
//! # Framings
//! * **Newline**: LF, CRLF or NUL end a message; nothing between two terminators is no message. A
//!   NUL is text where the connection ends its lines with LF, begins each with a PRI, and does not
//!   begin one behind the NUL (RFC 6587 section 3.4.2).
//! * **Octet counting**: `MSG-LEN SP MSG`. The body is not looked at, except that terminators at
//!   its end, and between two messages, are taken for framing.
//! * **Auto**, decided message by message: digits, a space and `<` begin an octet-counted
//!   message; while a connection has sent nothing else, digits and a space suffice. Everything
//!   else is a line.
//!
//! # Counts that are not believed
//! Whoever has bytes of its own at the start of a line that others relay can write a count there.
//! It must not take the lines that follow. So in **auto** a count is broken
//! * if it is larger than `max_message_bytes`, unless the connection has only ever counted;
//! * where the connection has sent lines before, if a line begins inside its message: with a PRI,
//!   with another count, or, where a line had no PRI, with anything but a blank.
//!
//! The first count of a connection is believed up to `max_message_bytes`: who counts may send what
//! looks like a line inside a message, and others must not make an event of it.
//!
//! A broken count costs its own line, which is kept as a record with [`Anomalies::BAD_FRAME`].

mod count;
#[cfg(test)]
mod tests;

use inrush_event::{Anomalies, Span};
use memchr::{memchr2, memchr3};

use crate::config::StreamFraming;
use count::{CountedStart, OctetCount, opens_pri, read_count, start_before};

/// Bytes beyond `max_message_bytes` that an octet count may claim and still be waited for whole:
/// a CRLF inside the count does not make a message oversize.
const COUNTED_SLACK: usize = 2;

/// Bytes beyond `max_message_bytes` that garbage may reach before it is cut, and that are kept of
/// garbage already cut: the longest start of a counted message that is not yet certain
/// (8 digits, a space, `<191>`), and the byte before it.
const GARBAGE_SLACK: usize = 16;

/// One message of a stream, without its framing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Span of its bytes in the arena that was given.
    pub span: Span,
    /// Anomalies of its framing.
    pub anomalies: Anomalies,
}

/// Kind of the bytes at the start of the undecoded part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FrameState {
    /// The first byte of a frame of a kind not yet decided.
    Start,
    /// A line that has not ended.
    Line,
    /// Bytes where a count should be; `broken` if there was one that is too large.
    Garbage { broken: bool },
    /// A count of `header` bytes (with its space) before a message of `body` bytes.
    Counted { header: usize, body: usize },
    /// The rest of an oversize line.
    SkipLine,
    /// The rest of oversize garbage; `first` is its first byte, if it may have been a line, or 0.
    SkipGarbage { first: u8 },
    /// The rest of an oversize counted message, `left` bytes.
    SkipCounted { left: usize },
}

/// Offset at which decoding goes on.
enum FrameStep {
    /// At this offset, with the state as it is now.
    On(usize),
    /// Offset from which bytes must be kept; decoding goes on when more are there.
    Wait(usize),
}

/// End of garbage.
enum Resync {
    /// At the terminator at this offset.
    Terminator(usize),
    /// Before the counted message that begins at this offset.
    Count(usize),
    /// Not yet; all before this offset has been searched.
    Open(usize),
}

/// Result of the search for a line that begins inside a counted message.
enum InnerLine {
    Line,
    /// Not in what is there; all before this offset has been searched.
    Not(usize),
}

/// Meaning of a NUL in a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NulByte {
    /// It ends the line.
    End,
    /// It is text.
    Text,
    /// The bytes behind it decide, which have not come yet.
    Open,
}

/// Cuts the stream of one connection into messages.
#[derive(Debug)]
pub struct FrameDecoder {
    framing: StreamFraming,
    max_message_bytes: usize,
    /// Auto: whether this connection has sent an octet-counted message.
    counted_seen: bool,
    /// Auto: whether it has sent a line, and one that does not begin with `<`.
    lines_seen: bool,
    bare_lines_seen: bool,
    /// True if LF has ended a line; and true if NUL has ended one after that.
    lf_ends: bool,
    nul_ends: bool,
    /// The last frame was a counted message, and no terminator came after it.
    after_counted: bool,
    glued: bool,
    state: FrameState,
    /// Bytes from the start of the undecoded part in which no terminator was found.
    searched: usize,
    cut_bytes: u64,
}

impl FrameDecoder {
    /// A decoder for a new connection. Messages are cut at `max_message_bytes`.
    pub fn new(framing: StreamFraming, max_message_bytes: usize) -> Self {
        Self {
            framing,
            max_message_bytes,
            counted_seen: false,
            lines_seen: false,
            bare_lines_seen: false,
            lf_ends: false,
            nul_ends: false,
            after_counted: false,
            glued: false,
            state: FrameState::Start,
            searched: 0,
            cut_bytes: 0,
        }
    }

    /// Takes all complete frames out of `arena[start..]` and returns the offset from which bytes
    /// must be kept: those of a message that is not complete.
    ///
    /// The next call's `start` must point at these same bytes, at whatever offset of whatever
    /// arena, followed by newer ones.
    pub fn decode(&mut self, arena: &[u8], start: usize, mut emit: impl FnMut(Frame)) -> usize {
        self.advance(arena, start, &mut emit)
    }

    /// Ends the stream: what is left becomes an [`Anomalies::UNTERMINATED`] frame. The decoder is
    /// then as new, but for its count of bytes cut.
    pub fn finish(&mut self, arena: &[u8], start: usize, mut emit: impl FnMut(Frame)) {
        let at = self.advance(arena, start, &mut emit);
        let mut flags = Anomalies::UNTERMINATED;
        if self.framing == StreamFraming::OctetCounting {
            flags.insert(Anomalies::BAD_FRAME);
        }
        match self.state {
            // A NUL for which more bytes were awaited.
            FrameState::Line if arena[at..].last() == Some(&0) => {
                self.line(arena, at, arena.len() - 1, Anomalies::NONE, &mut emit);
            }
            FrameState::Start | FrameState::Line => {
                self.line(arena, at, arena.len(), flags, &mut emit)
            }
            FrameState::Garbage { broken } => {
                if broken {
                    flags.insert(Anomalies::BAD_FRAME);
                }
                self.garbage(arena, at, arena.len(), flags, &mut emit);
            }
            FrameState::Counted { header, .. } => {
                let body = (at + header).min(arena.len());
                self.counted(arena, body, arena.len(), Anomalies::UNTERMINATED, &mut emit);
            }
            FrameState::SkipGarbage { .. } => self.cut_bytes += (arena.len() - at) as u64,
            FrameState::SkipLine | FrameState::SkipCounted { .. } => {}
        }
        *self = Self {
            cut_bytes: self.cut_bytes,
            ..Self::new(self.framing, self.max_message_bytes)
        };
    }

    /// Gives up a message that is not complete, for want of memory: what there is of it becomes an
    /// [`Anomalies::MEMORY_CUT`] frame, its rest is cut when it comes. Nothing has to be kept.
    pub fn give_up(&mut self, arena: &[u8], start: usize, mut emit: impl FnMut(Frame)) {
        let at = self.advance(arena, start, &mut emit);
        let flags = Anomalies::MEMORY_CUT;
        match self.state {
            FrameState::Line if arena[at..].last() == Some(&0) => {
                self.line(arena, at, arena.len() - 1, Anomalies::NONE, &mut emit);
                self.state = FrameState::Start;
            }
            FrameState::Start | FrameState::Line => {
                let Some(first) = arena.get(at) else { return };
                self.note_line(*first);
                self.line(arena, at, arena.len(), flags, &mut emit);
                self.state = FrameState::SkipLine;
            }
            FrameState::Garbage { .. } => {
                let flags = flags.union(Anomalies::BAD_FRAME);
                self.line(arena, at, arena.len(), flags, &mut emit);
                self.state = FrameState::SkipGarbage { first: 0 };
            }
            FrameState::Counted { header, body } => {
                let begin = (at + header).min(arena.len());
                self.counted(arena, begin, arena.len(), flags, &mut emit);
                let left = body - (arena.len() - begin);
                self.state = FrameState::SkipCounted { left };
                (self.counted_seen, self.after_counted) = (true, true);
            }
            FrameState::SkipGarbage { .. } => self.cut_bytes += (arena.len() - at) as u64,
            FrameState::SkipLine | FrameState::SkipCounted { .. } => {}
        }
        self.searched = 0;
    }

    /// Bytes cut off oversize messages so far, their terminators not counted.
    pub fn cut_bytes(&self) -> u64 {
        self.cut_bytes
    }

    fn advance(&mut self, arena: &[u8], start: usize, emit: &mut impl FnMut(Frame)) -> usize {
        let mut at = start;
        while at < arena.len() {
            let step = match self.state {
                FrameState::Start => self.begin(arena, at),
                FrameState::Line => self.lines(arena, at, emit),
                FrameState::Garbage { broken } => self.resync(arena, at, broken, emit),
                FrameState::Counted { header, body } => self.message(arena, at, header, body, emit),
                FrameState::SkipLine => self.skip_line(arena, at),
                FrameState::SkipGarbage { first } => self.skip_garbage(arena, at, first),
                FrameState::SkipCounted { left } => self.skip_counted(arena, at, left),
            };
            match step {
                FrameStep::On(next) => at = next,
                FrameStep::Wait(keep) => return keep,
            }
        }
        at
    }

    /// True if a frame must begin with a count, `<` after it or not, and the count is believed.
    fn counting(&self) -> bool {
        self.framing == StreamFraming::OctetCounting || (self.counted_seen && !self.lines_seen)
    }

    /// A line that begins with this byte has been seen where lines begin.
    fn note_line(&mut self, first: u8) {
        let empty = is_terminator(first);
        self.lines_seen |= !empty;
        self.bare_lines_seen |= !empty && first != b'<';
    }

    fn enter(&mut self, state: FrameState, at: usize) -> FrameStep {
        self.state = state;
        self.searched = 0;
        FrameStep::On(at)
    }

    /// Decides what kind of frame begins here.
    fn begin(&mut self, arena: &[u8], at: usize) -> FrameStep {
        if self.framing == StreamFraming::Newline {
            return self.enter(FrameState::Line, at);
        }
        let at = self.skip_terminators(arena, at);
        let (header, body) = match read_count(&arena[at..]) {
            OctetCount::Of { header, body } => (header, body),
            OctetCount::Open => return FrameStep::Wait(at),
            OctetCount::Broken => return self.uncounted(at),
        };
        if self.counting() {
            return self.enter(FrameState::Counted { header, body }, at);
        }
        match arena.get(at + header) {
            None => FrameStep::Wait(at),
            Some(b'<') if body <= self.max_message_bytes + COUNTED_SLACK => {
                self.enter(FrameState::Counted { header, body }, at)
            }
            Some(b'<') => match opens_pri(&arena[at + header..]) {
                None => FrameStep::Wait(at),
                Some(true) => {
                    self.after_counted = false;
                    self.enter(FrameState::Garbage { broken: true }, at)
                }
                Some(false) => self.uncounted(at),
            },
            Some(_) => self.uncounted(at),
        }
    }

    /// No count is here.
    fn uncounted(&mut self, at: usize) -> FrameStep {
        // What follows a counted message without a terminator is its rest, if its count lied.
        let state = match self.counting() || self.glued {
            true => FrameState::Garbage { broken: false },
            false => FrameState::Line,
        };
        self.after_counted = false;
        self.enter(state, at)
    }

    /// Terminators between counted messages are framing.
    fn skip_terminators(&mut self, arena: &[u8], at: usize) -> usize {
        if !self.counting() && !self.after_counted {
            return at;
        }
        let next = arena[at..]
            .iter()
            .position(|&byte| !is_terminator(byte))
            .map_or(arena.len(), |n| at + n);
        self.glued &= next == at;
        next
    }

    /// The hot loop of newline framing: one search a record, and one look at its first byte.
    fn lines(&mut self, arena: &[u8], at: usize, emit: &mut impl FnMut(Frame)) -> FrameStep {
        let detecting = self.framing == StreamFraming::Auto;
        let mut frame = at;
        let mut from = at + self.searched;
        self.note_line(arena[frame]);
        while let Some(found) = memchr2(b'\n', 0, &arena[from..]) {
            let end = from + found;
            if arena[end] == b'\n' {
                self.lf_ends = true;
            } else {
                match self.nul(arena, end) {
                    NulByte::End => {}
                    NulByte::Text => {
                        from = end + 1;
                        continue;
                    }
                    NulByte::Open => return self.await_line(frame, end - frame, emit),
                }
            }
            self.line(arena, frame, end, Anomalies::NONE, emit);
            frame = end + 1;
            from = frame;
            match arena.get(frame) {
                Some(b'<') => self.lines_seen = true,
                // Only a digit can begin a count; at the end of the bytes it is not yet known.
                first if detecting && first.is_none_or(u8::is_ascii_digit) => {
                    return self.enter(FrameState::Start, frame);
                }
                Some(&first) => self.note_line(first),
                None => {}
            }
        }
        self.await_line(frame, arena.len() - frame, emit)
    }

    /// The line at `frame` has no end within its first `searched` bytes.
    fn await_line(
        &mut self,
        frame: usize,
        searched: usize,
        emit: &mut impl FnMut(Frame),
    ) -> FrameStep {
        self.searched = searched;
        // One byte more than allowed may be the CR of a CRLF.
        if searched <= self.max_message_bytes + 1 {
            return FrameStep::Wait(frame);
        }
        self.emit_cut(frame, Anomalies::NONE, emit);
        self.enter(FrameState::SkipLine, frame + self.max_message_bytes)
    }

    /// Decides on the NUL at `at` by what this connection has sent, and by what follows.
    #[cold]
    fn nul(&mut self, arena: &[u8], at: usize) -> NulByte {
        if !self.lf_ends || self.nul_ends || self.bare_lines_seen {
            return NulByte::End;
        }
        let behind = &arena[at + 1..];
        let begins_line = match behind.first() {
            None => None,
            Some(&first) if first == b'<' || is_terminator(first) => Some(true),
            Some(_) => match read_count(behind) {
                OctetCount::Of { header, .. } => behind.get(header).map(|&byte| byte == b'<'),
                OctetCount::Open => None,
                OctetCount::Broken => Some(false),
            },
        };
        match begins_line {
            None => NulByte::Open,
            Some(false) => NulByte::Text,
            Some(true) => {
                self.nul_ends |= !is_terminator(behind[0]);
                NulByte::End
            }
        }
    }

    /// Garbage up to where framing can be found again.
    fn resync(
        &mut self,
        arena: &[u8],
        at: usize,
        broken: bool,
        emit: &mut impl FnMut(Frame),
    ) -> FrameStep {
        let bad = broken || self.framing == StreamFraming::OctetCounting;
        let is_line = !broken && (!self.glued || arena[at] == b'<');
        let first = if is_line { arena[at] } else { 0 };
        match find_resync(arena, at, at + self.searched) {
            Resync::Terminator(end) => {
                // Where lines are allowed, this was one.
                let flags = if bad {
                    Anomalies::BAD_FRAME
                } else {
                    Anomalies::NONE
                };
                self.end_garbage(first);
                self.garbage(arena, at, end, flags, emit);
                self.enter(FrameState::Start, end + 1)
            }
            Resync::Count(begin) => {
                self.garbage(arena, at, begin, Anomalies::BAD_FRAME, emit);
                self.enter(FrameState::Start, begin)
            }
            Resync::Open(searched)
                if arena.len() - at <= self.max_message_bytes + GARBAGE_SLACK =>
            {
                self.searched = searched - at;
                FrameStep::Wait(at)
            }
            Resync::Open(_) => {
                self.emit_cut(at, Anomalies::BAD_FRAME, emit);
                self.enter(
                    FrameState::SkipGarbage { first },
                    at + self.max_message_bytes,
                )
            }
        }
    }

    /// A counted message, as soon as it, or as much of it as is kept, is there.
    fn message(
        &mut self,
        arena: &[u8],
        at: usize,
        header: usize,
        body: usize,
        emit: &mut impl FnMut(Frame),
    ) -> FrameStep {
        let oversize = body > self.max_message_bytes + COUNTED_SLACK;
        let wanted = if oversize {
            self.max_message_bytes
        } else {
            body
        };
        let begin = at + header;
        if self.lines_seen && !self.counting() {
            match self.inner_line(arena, at, begin, body) {
                InnerLine::Line => return self.disbelieve(arena, at, begin, emit),
                InnerLine::Not(searched) => self.searched = searched - at,
            }
        }
        if arena.len() < begin + wanted {
            return FrameStep::Wait(at);
        }
        self.counted_seen = true;
        self.after_counted = true;
        self.glued = !is_terminator(arena[begin + wanted - 1]);
        if oversize {
            self.emit_cut(begin, Anomalies::NONE, emit);
            return self.enter(
                FrameState::SkipCounted {
                    left: body - wanted,
                },
                begin + wanted,
            );
        }
        self.counted(arena, begin, begin + body, Anomalies::NONE, emit);
        self.enter(FrameState::Start, begin + body)
    }

    /// Looks for a line that begins inside the counted message at `begin`.
    fn inner_line(&self, arena: &[u8], at: usize, begin: usize, body: usize) -> InnerLine {
        let end = (begin + body).min(arena.len());
        let whole = arena.len() >= begin + body;
        let mut from = begin.max(at + self.searched);
        while let Some(found) = memchr2(b'\n', 0, &arena[from..end]) {
            let next = from + found + 1;
            match self.begins_line(&arena[next..end]) {
                Some(true) => return InnerLine::Line,
                Some(false) => from = next,
                None if !whole => return InnerLine::Not(next - 1),
                // Of a line that begins with `<` not a byte is taken.
                None if arena[next..end].first() == Some(&b'<') => return InnerLine::Line,
                None => from = next,
            }
        }
        InnerLine::Not(end)
    }

    /// True if `bytes`, which follow a terminator, begin a line as this connection sends them;
    /// `None` while that is open.
    fn begins_line(&self, bytes: &[u8]) -> Option<bool> {
        let first = *bytes.first()?;
        if is_terminator(first) {
            return Some(false);
        }
        if self.bare_lines_seen && !matches!(first, b' ' | b'\t') {
            return Some(true);
        }
        if first == b'<' {
            return opens_pri(bytes);
        }
        match read_count(bytes) {
            OctetCount::Open => None,
            OctetCount::Of { header, .. } => bytes.get(header).map(|&byte| byte == b'<'),
            OctetCount::Broken => Some(false),
        }
    }

    /// The count at `at` would take lines that follow: its own line alone is a record.
    fn disbelieve(
        &mut self,
        arena: &[u8],
        at: usize,
        begin: usize,
        emit: &mut impl FnMut(Frame),
    ) -> FrameStep {
        let end = memchr2(b'\n', 0, &arena[begin..]).map_or(arena.len(), |n| begin + n);
        (self.after_counted, self.glued) = (false, false);
        self.line(arena, at, end, Anomalies::BAD_FRAME, emit);
        self.enter(FrameState::Start, arena.len().min(end + 1))
    }

    fn skip_line(&mut self, arena: &[u8], at: usize) -> FrameStep {
        let mut from = at;
        while let Some(found) = memchr2(b'\n', 0, &arena[from..]) {
            let end = from + found;
            let nul = match arena[end] {
                0 => self.nul(arena, end),
                _ => NulByte::End,
            };
            match nul {
                NulByte::Text => from = end + 1,
                NulByte::Open => {
                    self.cut_bytes += (end - at) as u64;
                    return FrameStep::Wait(end);
                }
                NulByte::End => {
                    self.lf_ends |= arena[end] == b'\n';
                    self.cut_bytes += (end - at) as u64;
                    return self.enter(FrameState::Start, end + 1);
                }
            }
        }
        self.cut_bytes += (arena.len() - at) as u64;
        FrameStep::Wait(arena.len())
    }

    /// A terminator ends garbage: it was a line if `first` is not 0.
    fn end_garbage(&mut self, first: u8) {
        self.note_line(first);
        self.glued = false;
    }

    fn skip_garbage(&mut self, arena: &[u8], at: usize, first: u8) -> FrameStep {
        match find_resync(arena, at, at + self.searched) {
            Resync::Terminator(end) => {
                self.end_garbage(first);
                self.cut_bytes += (end - at) as u64;
                self.enter(FrameState::Start, end + 1)
            }
            Resync::Count(begin) => {
                self.cut_bytes += (begin - at) as u64;
                self.enter(FrameState::Start, begin)
            }
            Resync::Open(searched) => {
                let keep = at.max(arena.len().saturating_sub(GARBAGE_SLACK));
                self.cut_bytes += (keep - at) as u64;
                self.searched = searched.saturating_sub(keep);
                FrameStep::Wait(keep)
            }
        }
    }

    fn skip_counted(&mut self, arena: &[u8], at: usize, left: usize) -> FrameStep {
        let skipped = left.min(arena.len() - at);
        self.cut_bytes += skipped as u64;
        self.glued = skipped > 0 && !is_terminator(arena[at + skipped - 1]);
        let left = left - skipped;
        let next = if left == 0 {
            FrameState::Start
        } else {
            FrameState::SkipCounted { left }
        };
        self.enter(next, at + skipped)
    }

    /// The first bytes of a message known to be oversize before its end has come.
    fn emit_cut(&self, start: usize, mut anomalies: Anomalies, emit: &mut impl FnMut(Frame)) {
        anomalies.insert(Anomalies::OVERSIZE);
        emit(Frame {
            span: Span::new(start, start + self.max_message_bytes),
            anomalies,
        });
    }

    /// `arena[start..end]` is a line, perhaps with a CR at its end.
    #[inline]
    fn line(
        &mut self,
        arena: &[u8],
        start: usize,
        end: usize,
        anomalies: Anomalies,
        emit: &mut impl FnMut(Frame),
    ) {
        let carriage_return = end > start && arena[end - 1] == b'\r';
        let stop = end - usize::from(carriage_return);
        self.emit_limited(start, stop, end, anomalies, emit);
    }

    /// `arena[start..end]` stands where a count should be. Oversize garbage is always flagged,
    /// because it comes out before it is known how it ends.
    fn garbage(
        &mut self,
        arena: &[u8],
        start: usize,
        end: usize,
        mut anomalies: Anomalies,
        emit: &mut impl FnMut(Frame),
    ) {
        if end - start > self.max_message_bytes + 1 {
            anomalies.insert(Anomalies::BAD_FRAME);
        }
        self.line(arena, start, end, anomalies, emit);
    }

    /// `arena[start..end]` is a counted message, perhaps with terminators at its end.
    fn counted(
        &mut self,
        arena: &[u8],
        start: usize,
        end: usize,
        anomalies: Anomalies,
        emit: &mut impl FnMut(Frame),
    ) {
        let stop = start + trimmed_len(&arena[start..end]);
        self.emit_limited(start, stop, end, anomalies, emit);
    }

    /// `arena[start..stop]` is a message; up to `end` is what belongs to it.
    #[inline]
    fn emit_limited(
        &mut self,
        start: usize,
        stop: usize,
        end: usize,
        mut anomalies: Anomalies,
        emit: &mut impl FnMut(Frame),
    ) {
        if stop == start {
            return;
        }
        let mut stop = stop;
        if stop - start > self.max_message_bytes {
            stop = start + self.max_message_bytes;
            self.cut_bytes += (end - stop) as u64;
            anomalies.insert(Anomalies::OVERSIZE);
        }
        emit(Frame {
            span: Span::new(start, stop),
            anomalies,
        });
    }
}

/// The message of a datagram (RFC 5426): `span` without the LF, CR and NUL at its end; `None` if
/// nothing else is there.
pub fn datagram(arena: &[u8], span: Span) -> Option<Span> {
    let len = trimmed_len(span.of(arena));
    (len > 0).then(|| Span::new(span.start(), span.start() + len))
}

const fn is_terminator(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r' | 0)
}

/// Length in bytes without the terminators at the end.
fn trimmed_len(message: &[u8]) -> usize {
    message
        .iter()
        .rposition(|&byte| !is_terminator(byte))
        .map_or(0, |last| last + 1)
}

/// End of the garbage that begins at `at` and is searched up to `from`.
fn find_resync(arena: &[u8], at: usize, from: usize) -> Resync {
    let mut from = from;
    while let Some(found) = memchr3(b'\n', 0, b'<', &arena[from..]) {
        let hit = from + found;
        if arena[hit] != b'<' {
            return Resync::Terminator(hit);
        }
        match start_before(arena, at, hit) {
            CountedStart::At(begin) => return Resync::Count(begin),
            CountedStart::Open => return Resync::Open(hit),
            CountedStart::No => from = hit + 1,
        }
    }
    Resync::Open(arena.len())
}
