//! Head of a request that comes in pieces, which may be a byte each.
//!
//! # What it guarantees
//! * A head costs as much as its bytes, in whatever pieces they come: it is parsed once its end has
//!   come, and before that each time it has doubled, so that a bad one is refused early.
//!
//! # Limits
//! It keeps no more than a head's [`HEAD_BYTES_MAX`] and the last piece.

use super::head::{HEAD_BYTES_MAX, HeadParse, parse_head};

/// Bytes of a head so far.
#[derive(Debug, Default)]
pub struct UnfinishedHead {
    bytes: Vec<u8>,
    /// Bytes that were there when it was parsed last.
    parsed: usize,
    /// Bytes in which its end was looked for.
    searched: usize,
    /// Empty lines in front of the request (RFC 9112 section 2.2): they do not end its head.
    lines_before: usize,
}

impl UnfinishedHead {
    /// True if nothing of a head has come.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes that have come, with those behind the head.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of memory that it keeps.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Takes the next bytes; they may go on behind the head.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.lines_before == self.bytes.len() {
            let is_break = |byte: &&u8| matches!(byte, b'\r' | b'\n');
            self.lines_before += bytes.iter().take_while(is_break).count();
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Reads what has come, if something can have changed since the last time.
    pub fn parse(&mut self) -> HeadParse<'_> {
        let length = self.bytes.len();
        if !self.has_new_end() && length < (2 * self.parsed).min(HEAD_BYTES_MAX) {
            return HeadParse::NeedMore;
        }
        self.parsed = length;
        parse_head(&self.bytes)
    }

    /// True if an empty line has come since the last look, of which a part was there before.
    fn has_new_end(&mut self) -> bool {
        let from = self.searched.saturating_sub(3).max(self.lines_before);
        self.searched = self.bytes.len();
        let lines = self.bytes[from..].split_inclusive(|byte| *byte == b'\n');
        lines.skip(1).any(|line| matches!(line, b"\n" | b"\r\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::head::HeadFault;
    use super::*;

    /// Times that a text which comes byte by byte is parsed, and how it ends.
    fn dripped(text: &[u8]) -> (usize, Option<usize>, Option<HeadFault>) {
        let (mut head, mut parsed) = (UnfinishedHead::default(), 0);
        for (at, byte) in text.iter().enumerate() {
            head.push(&[*byte]);
            let outcome = match head.parse() {
                HeadParse::NeedMore => None,
                HeadParse::Head(_, used) => Some((Some(used), None)),
                HeadParse::Bad(fault) => Some((None, Some(fault))),
            };
            parsed += usize::from(head.parsed == at + 1);
            if let Some((used, fault)) = outcome {
                return (parsed, used, fault);
            }
        }
        (parsed, None, None)
    }

    #[test]
    fn a_head_that_drips_is_parsed_a_few_times_and_ends_where_it_ends() {
        let fields = "X-Filler: some value\r\n".repeat(90);
        for before in ["", "\r\n\r\n\n", "\n"] {
            let text = format!("{before}POST /x HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
            let (parsed, used, _) = dripped(text.as_bytes());
            assert_eq!(used, Some(text.len()));
            assert!(parsed < 20, "{parsed}");
        }
        let (parsed, ..) = dripped("\r\n".repeat(HEAD_BYTES_MAX / 2 - 1).as_bytes());
        assert!(parsed < 40, "{parsed}");
    }

    #[test]
    fn a_bad_head_is_refused_by_twice_its_bytes_and_a_long_one_at_its_bound() {
        let bad = [b"POST /x HTTP/1.1\r\nX : y\r\n".to_vec(), vec![b'z'; 1000]].concat();
        let mut head = UnfinishedHead::default();
        let refused = bad.iter().position(|byte| {
            head.push(&[*byte]);
            matches!(head.parse(), HeadParse::Bad(HeadFault::Syntax))
        });
        assert!(refused.is_some_and(|at| at < 64), "{refused:?}");
        let long = [
            b"GET / HTTP/1.1\r\nX: ".to_vec(),
            vec![b'x'; HEAD_BYTES_MAX],
        ]
        .concat();
        let (parsed, _, fault) = dripped(&long);
        assert_eq!(fault, Some(HeadFault::TooLong));
        assert!(parsed < 20, "{parsed}");
        // Two line ends that no reader would see as one end.
        let (_, used, fault) = dripped(b"GET / HTTP/1.1\r\nX: y\n\n");
        assert_eq!((used, fault), (None, Some(HeadFault::Syntax)));
    }
}
