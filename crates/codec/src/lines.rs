//! Lines of a file, in place: they end with LF and nothing else.
//!
//! Plain files, container logs and both encodings of them are split here and nowhere else.
//!
//! # What it guarantees
//! * Every byte of a line is in its span, a CR, a NUL and what is no UTF-8 as well.
//!   [`FrameDecoder`](crate::FrameDecoder) takes CR and NUL for framing, which a file is not.
//! * Lines do not depend on how the file was cut into reads, and each byte is searched once.
//! * A line that is longer than it may be keeps its start. Its rest is counted and cut, up to its
//!   LF, and no other line is touched.
//! * A reader that stops behind any line goes on from there with [`LineSplitter::resume`].
//!
//! # Limits
//! Bytes that must be shown again: one line of at most `line_bytes_max`.

use std::borrow::Cow;

use inrush_event::Span;

/// Encoding of the characters of a file, as far as it decides where a line ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum LineEncoding {
    /// One with ASCII as its part: UTF-8 and all older ones.
    #[default]
    Bytes,
    /// UTF-16, the lower byte first.
    Utf16Le,
    /// UTF-16, the higher byte first.
    Utf16Be,
}

impl LineEncoding {
    /// The encoding that the byte order mark at the start of a file tells, and the bytes of that
    /// mark. `None` while these bytes may become one: it is asked again with more of the file.
    pub fn of_head(head: &[u8]) -> Option<(Self, usize)> {
        match head {
            [0xff, 0xfe, ..] => Some((Self::Utf16Le, 2)),
            [0xfe, 0xff, ..] => Some((Self::Utf16Be, 2)),
            [0xef, 0xbb, 0xbf, ..] => Some((Self::Bytes, 3)),
            [] | [0xff] | [0xfe] | [0xef] | [0xef, 0xbb] => None,
            _ => Some((Self::Bytes, 0)),
        }
    }

    /// Bytes of a unit; a line begins and ends between two.
    pub const fn unit_bytes(self) -> usize {
        match self {
            Self::Bytes => 1,
            Self::Utf16Le | Self::Utf16Be => 2,
        }
    }

    /// Offset of the LF from `from` on in a line that begins at `start`.
    #[inline]
    fn line_end(self, arena: &[u8], start: usize, from: usize) -> Option<usize> {
        if self == Self::Bytes {
            return Some(from + memchr::memchr(b'\n', arena.get(from..)?)?);
        }
        let mut from = from;
        loop {
            let found = from + memchr::memchr(b'\n', arena.get(from..)?)?;
            let is_low = (found - start).is_multiple_of(2) == (self == Self::Utf16Le);
            let unit = match self {
                Self::Utf16Le => found,
                _ => found.saturating_sub(1),
            };
            let high = arena.get(unit + usize::from(self == Self::Utf16Le));
            if is_low && high == Some(&0) {
                return Some(unit);
            }
            from = found + 1;
        }
    }

    /// Appends the text of a line as UTF-8; false if a part of it is no character, which U+FFFD
    /// stands for then. [`LineEncoding::Bytes`] are appended as they are.
    pub fn push_text(self, line: &[u8], out: &mut Vec<u8>) -> bool {
        let unit = match self {
            Self::Bytes => {
                out.extend_from_slice(line);
                return true;
            }
            Self::Utf16Le => u16::from_le_bytes,
            Self::Utf16Be => u16::from_be_bytes,
        };
        let (pairs, half) = line.as_chunks::<2>();
        let mut whole = half.is_empty();
        for unit in char::decode_utf16(pairs.iter().map(|pair| unit(*pair))) {
            whole &= unit.is_ok();
            push_char(unit.unwrap_or(char::REPLACEMENT_CHARACTER), out);
        }
        if !half.is_empty() {
            push_char(char::REPLACEMENT_CHARACTER, out);
        }
        whole
    }

    /// The text of a line, as [`Self::push_text`] gives it.
    pub fn text(self, line: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Self::Bytes => line.into(),
            _ => {
                let mut text = Vec::with_capacity(line.len() / 2);
                self.push_text(line, &mut text);
                text.into()
            }
        }
    }

    /// The last place up to `at` where a line may be cut.
    fn border(self, line: &[u8], at: usize) -> usize {
        let high = match self {
            Self::Bytes => return character_border(line, at),
            Self::Utf16Le => line.get(at + 1),
            Self::Utf16Be => line.get(at),
        };
        // The second half of a pair stays with the first.
        match high {
            Some(0xdc..=0xdf) => at.saturating_sub(2),
            _ => at,
        }
    }
}

fn push_char(char: char, out: &mut Vec<u8>) {
    out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
}

/// The last border between characters of UTF-8 up to `at`; `at` itself where there is no UTF-8.
pub fn character_border(bytes: &[u8], at: usize) -> usize {
    const CHARACTER_BYTES_MAX: usize = 4;
    let is_inside = |at: &usize| matches!(bytes.get(*at), Some(0x80..=0xbf));
    let mut borders = (0..CHARACTER_BYTES_MAX).map_while(|back| at.checked_sub(back));
    borders.find(|border| !is_inside(border)).unwrap_or(at)
}

/// A line without the CR at its end; only a text that is UTF-8, or [`LineEncoding::Bytes`].
pub fn without_carriage_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// One line of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SplitLine {
    /// Its bytes in the arena, without its LF and without what was cut; may be empty.
    pub span: Span,
    /// Offset in the arena behind what has been read of it: behind its LF, unless it is `open`.
    pub end: usize,
    /// True if it was longer than it may be.
    pub cut: bool,
    /// True if its LF has not come. A reader that goes on from `end` skips to it, if the line was
    /// `cut`.
    pub open: bool,
}

/// Splits a file into lines.
#[derive(Clone, Debug)]
pub struct LineSplitter {
    encoding: LineEncoding,
    line_bytes_max: usize,
    /// The bytes that come are the rest of a line that was cut.
    skipping: bool,
    /// Bytes from the start of the unfinished line in which there is no LF.
    searched: usize,
    cut_bytes: u64,
}

impl LineSplitter {
    /// A splitter from the start of a line on. Of a line that many bytes are kept, and a unit of
    /// its encoding at least.
    pub fn new(encoding: LineEncoding, line_bytes_max: usize) -> Self {
        Self::resume(encoding, line_bytes_max, false)
    }

    /// A splitter from the place where another one stopped; with `skipping` inside of a line that
    /// was cut.
    pub fn resume(encoding: LineEncoding, line_bytes_max: usize, skipping: bool) -> Self {
        let mut splitter = Self {
            encoding,
            line_bytes_max: 0,
            skipping,
            searched: 0,
            cut_bytes: 0,
        };
        splitter.bound(line_bytes_max);
        splitter
    }

    /// Takes all lines out of `arena[start..]` that have ended, and the start of one that is too
    /// long. Returns the offset from which bytes must be kept.
    ///
    /// The next call's `start` must point at these same bytes, at whatever offset of whatever
    /// arena, followed by newer ones.
    pub fn decode(&mut self, arena: &[u8], start: usize, mut emit: impl FnMut(SplitLine)) -> usize {
        self.advance(arena, start, &mut emit)
    }

    fn advance(&mut self, arena: &[u8], start: usize, emit: &mut impl FnMut(SplitLine)) -> usize {
        let unit = self.encoding.unit_bytes();
        let (mut at, mut from) = (start, start + self.searched);
        self.searched = 0;
        while let Some(end) = self.encoding.line_end(arena, at, from) {
            self.line(arena, (at, end), end + unit, false, emit);
            self.skipping = false;
            at = end + unit;
            from = at;
        }
        let there = arena.len().saturating_sub(at) / unit * unit;
        let end = at + there;
        if self.skipping || there > self.line_bytes_max {
            self.line(arena, (at, end), end, true, emit);
            self.skipping = true;
            return end;
        }
        self.searched = there;
        at
    }

    /// The line of these bytes, behind whose end the file goes on at `next`.
    #[inline]
    fn line(
        &mut self,
        arena: &[u8],
        (at, end): (usize, usize),
        next: usize,
        open: bool,
        emit: &mut impl FnMut(SplitLine),
    ) {
        if self.skipping {
            self.cut_bytes += (end - at) as u64;
            return;
        }
        let cut = end - at > self.line_bytes_max;
        let mut stop = end;
        if cut {
            let line = arena.get(at..end).unwrap_or_default();
            let kept = self.encoding.border(line, self.line_bytes_max);
            stop = at + kept;
            self.cut_bytes += (end - stop) as u64;
        }
        emit(SplitLine {
            span: Span::new(at, stop),
            end: next,
            cut,
            open,
        });
    }

    /// Ends the file: what is left is a line that is `open`. The splitter is then as new, but for
    /// its count of bytes cut.
    pub fn finish(&mut self, arena: &[u8], start: usize, mut emit: impl FnMut(SplitLine)) {
        let at = self.advance(arena, start, &mut emit);
        if at < arena.len() {
            self.line(arena, (at, arena.len()), arena.len(), true, &mut emit);
        }
        (self.skipping, self.searched) = (false, 0);
    }

    /// The encoding that it splits.
    pub fn encoding(&self) -> LineEncoding {
        self.encoding
    }

    /// Keeps as many bytes of a line from now on as a new splitter would.
    pub fn bound(&mut self, line_bytes_max: usize) {
        let unit = self.encoding.unit_bytes();
        self.line_bytes_max = (line_bytes_max / unit * unit).max(unit);
    }

    /// Has the unfinished line begin at the next `start` that it is given, with `skipping` as in
    /// [`LineSplitter::resume`]: its reader has taken what was there of it.
    pub fn go_on(&mut self, skipping: bool) {
        (self.skipping, self.searched) = (skipping, 0);
    }

    /// True if the bytes that come are the rest of a line that was cut.
    pub fn is_skipping(&self) -> bool {
        self.skipping
    }

    /// Bytes cut off lines that are too long so far, their LF not counted.
    pub fn cut_bytes(&self) -> u64 {
        self.cut_bytes
    }
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
