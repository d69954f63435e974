//! Along the parameters of structured data (RFC 5424 section 6.3).

use crate::block::SimdBlock;

/// Looks for the ends of names and values, from one to the next.
pub struct SdataCursor<'t> {
    text: &'t [u8],
    /// Offset of the block whose masks are known.
    at: usize,
    /// Mask of the bytes that end a name: a space, a control character, `=`, `]` or `"`.
    ends: u64,
    /// `"` and `\`.
    quotes: u64,
}

impl<'t> SdataCursor<'t> {
    /// A cursor that begins at `at`.
    pub fn new(text: &'t [u8], at: usize) -> Self {
        let mut cursor = Self {
            text,
            at,
            ends: 0,
            quotes: 0,
        };
        cursor.load(at);
        cursor
    }

    #[inline]
    fn load(&mut self, at: usize) {
        let block = SimdBlock::at(self.text, at);
        self.at = at;
        self.ends = block.equal_any_or_most([b'=', b']', b'"'], b' ');
        self.quotes = block.equal(b'"') | block.equal(b'\\');
    }

    /// The first place from `at` on that is in the mask; `at` only grows.
    #[inline]
    fn find(&mut self, at: usize, mask: impl Fn(&Self) -> u64) -> Option<usize> {
        let mut from = at;
        loop {
            let ahead = from - self.at;
            if ahead < SimdBlock::BYTES {
                let mask = mask(self) >> ahead;
                if mask != 0 {
                    return Some(from + mask.trailing_zeros() as usize);
                }
                from = self.at + SimdBlock::BYTES;
            }
            if from >= self.text.len() {
                return None;
            }
            self.load(from);
        }
    }

    /// Offset at which a name that begins at `at` ends: a space, a control character, `=`, `]` or
    /// `"`. `None` if none of these follows.
    #[inline]
    pub fn name_end(&mut self, at: usize) -> Option<usize> {
        self.find(at, |cursor| cursor.ends)
    }

    /// The quote that closes a value that begins at `at`. A backslash takes the byte after it
    /// along. A bare `]` inside, which the RFC forbids and many send, is let pass.
    #[inline]
    pub fn value_end(&mut self, at: usize) -> Option<usize> {
        let mut at = at;
        loop {
            at = self.find(at, |cursor| cursor.quotes)?;
            if self.text[at] == b'"' {
                return Some(at);
            }
            at += 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_found_wherever_they_lie() {
        for len in 0..150 {
            for (tail, is_name_end) in [
                (&b"=\"x\" and more"[..], true),
                (b"]", true),
                (b" ", true),
                (b"\x1f", true),
                (b"\"", true),
                (b"\0 followed", true),
                (b"", false),
                (b"\x7f\xff~", false),
            ] {
                let text = [&vec![b'\xa1'; len][..], tail].concat();
                for at in [0, len / 2, len] {
                    let found = SdataCursor::new(&text, 0).name_end(at);
                    assert_eq!(found, is_name_end.then_some(len), "{}", text.escape_ascii());
                }
            }
        }
    }

    #[test]
    fn values_end_at_a_quote_that_no_backslash_takes() {
        for len in 0..150 {
            for (tail, end) in [
                (&b"\" and \""[..], Some(0)),
                (b"\\\"\"", Some(2)),
                (b"\\\\\"", Some(2)),
                (b"\\", None),
                (b"]=", None),
            ] {
                let text = [&vec![b'='; len][..], tail].concat();
                let found = SdataCursor::new(&text, 0).value_end(0);
                let end = end.map(|end| len + end);
                assert_eq!(found, end, "{}", text.escape_ascii());
            }
        }
    }
}
