//! Lines of a watch: one event each, in JSON.
//!
//! # What it guarantees
//! * However the bytes are cut into pieces, the lines are the same.
//! * A line of more than the bound is skipped to its end, and takes no memory beyond the bound.

/// Bytes of one event that are read. etcd takes objects of 1.5 MiB, and JSON escapes grow them.
pub(crate) const OBJECT_BYTES_MAX: usize = 8 << 20;
/// Bytes of memory that are kept between lines.
const BUFFER_BYTES_KEPT: usize = 256 << 10;

/// Splitter of a watch's bytes.
#[derive(Debug)]
pub(crate) struct EventSplitter {
    buffer: Vec<u8>,
    /// Bytes at the beginning that were given out.
    start: usize,
    /// Bytes that were searched for a line feed.
    searched: usize,
    /// The rest of a line that is too long comes next.
    skips: bool,
    line_bytes_max: usize,
}

/// Line of a watch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EventLine<'a> {
    /// Its bytes, without the line feed.
    Whole(&'a [u8]),
    /// It was too long.
    TooLong,
}

impl Default for EventSplitter {
    fn default() -> Self {
        Self::new(OBJECT_BYTES_MAX)
    }
}

impl EventSplitter {
    /// Splits lines of up to `line_bytes_max` bytes.
    pub(crate) fn new(line_bytes_max: usize) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            skips: false,
            line_bytes_max,
        }
    }

    /// Adds bytes that came. All lines before must have been taken.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        if self.buffer.capacity() > BUFFER_BYTES_KEPT && self.buffer.len() < BUFFER_BYTES_KEPT {
            self.buffer.shrink_to(BUFFER_BYTES_KEPT);
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next line that has ended, but no empty one.
    pub(crate) fn next_line(&mut self) -> Option<EventLine<'_>> {
        loop {
            let found = self.buffer[self.searched..]
                .iter()
                .position(|&b| b == b'\n');
            let Some(found) = found else {
                self.searched = self.buffer.len();
                self.drop_too_long();
                return None;
            };
            let (from, end) = (self.start, self.searched + found);
            self.start = end + 1;
            self.searched = end + 1;
            let skipped = std::mem::take(&mut self.skips);
            if skipped || end - from > self.line_bytes_max {
                return Some(EventLine::TooLong);
            }
            if end > from {
                return Some(EventLine::Whole(&self.buffer[from..end]));
            }
        }
    }

    /// True if a line has begun and not ended.
    pub(crate) fn has_rest(&self) -> bool {
        self.skips || self.start < self.buffer.len()
    }

    /// Begins to skip a line that is too long before its end has come.
    fn drop_too_long(&mut self) {
        let is_too_long = self.buffer.len() - self.start > self.line_bytes_max;
        if self.skips || is_too_long {
            self.skips = true;
            self.buffer.clear();
            self.start = 0;
            self.searched = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The lines of `pieces`, a line that is too long as `None`; and if one had begun.
    fn lines(pieces: &[&[u8]], max: usize) -> (Vec<Option<Vec<u8>>>, bool) {
        let mut splitter = EventSplitter::new(max);
        let mut found = Vec::new();
        for piece in pieces {
            splitter.push(piece);
            while let Some(line) = splitter.next_line() {
                found.push(match line {
                    EventLine::Whole(line) => Some(line.to_vec()),
                    EventLine::TooLong => None,
                });
            }
            assert!(splitter.buffer.len() - splitter.start <= max);
        }
        (found, splitter.has_rest())
    }

    #[test]
    fn lines_are_split_whatever_their_pieces() {
        let whole = |text: &str| Some(text.as_bytes().to_vec());
        assert_eq!(
            lines(&[b"a\nbc\n"], 8),
            (vec![whole("a"), whole("bc")], false)
        );
        assert_eq!(
            lines(&[b"a\nb", b"c", b"\n\n\nd"], 8),
            (vec![whole("a"), whole("bc")], true)
        );
        assert_eq!(
            lines(&[b"12345678\n1\n"], 8),
            (vec![whole("12345678"), whole("1")], false)
        );
        assert_eq!(
            lines(&[b"123456789\n1\n"], 8),
            (vec![None, whole("1")], false)
        );
        assert_eq!(
            lines(&[b"1234567", b"890", b"x", b"\n1\n"], 8),
            (vec![None, whole("1")], false)
        );
        assert_eq!(lines(&[b"1234567890"], 8), (vec![], true));
    }

    #[test]
    fn memory_is_given_back_after_a_long_line() {
        let mut splitter = EventSplitter::default();
        splitter.push(&vec![b'x'; 4 << 20]);
        assert_eq!(splitter.next_line(), None);
        splitter.push(b"\n");
        assert!(
            matches!(splitter.next_line(), Some(EventLine::Whole(line)) if line.len() == 4 << 20)
        );
        splitter.push(b"y");
        assert!(splitter.buffer.capacity() <= BUFFER_BYTES_KEPT);
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'a')], 0..200),
            cuts in proptest::collection::vec(0usize..200, 0..20),
            max in 0usize..12,
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.push(bytes.len());
            cuts.sort_unstable();
            let mut at = 0;
            let pieces = cuts.iter().map(|&cut| {
                let piece = &bytes[at..cut];
                at = cut;
                piece
            });
            let pieces: Vec<&[u8]> = pieces.collect();
            prop_assert_eq!(lines(&pieces, max), lines(&[&bytes], max));
        }
    }
}
