//! `key=value` pairs.

use inrush_event::Span;
use memchr::memchr;

use crate::event::Event;
use inrush_multipattern::same;

/// Format of pairs.
#[derive(Clone, Debug)]
pub struct Kv {
    /// Between pairs; a blank stands for any white space.
    pub pair: Vec<u8>,
    /// Between a key and its value.
    pub value: u8,
    /// The characters that a value may stand in.
    pub quotes: Vec<u8>,
    /// Once all of these have a value, reading ends: what stands behind is not looked at. Empty: to
    /// the end of the text.
    pub until: Vec<String>,
}

/// The names that have no value yet. If there are more than bits, none is ever the last one.
struct MissingKeys<'n> {
    names: &'n [String],
    bits: u32,
}

impl<'n> MissingKeys<'n> {
    fn new(names: &'n [String]) -> Self {
        let bits = match names.len() {
            0 => 0,
            few @ 1..=32 => u32::MAX >> (32 - few),
            _ => 0,
        };
        Self { names, bits }
    }

    /// True if that name was the last one that was left.
    fn is_last(&mut self, name: &[u8]) -> bool {
        if self.bits == 0 {
            return false;
        }
        let mut bits = self.bits;
        while bits != 0 {
            let at = bits.trailing_zeros();
            if same(self.names[at as usize].as_bytes(), name) {
                self.bits &= !(1 << at);
                return self.bits == 0;
            }
            bits &= bits - 1;
        }
        false
    }
}

impl Kv {
    /// Reads the pairs; there must be one.
    pub(super) fn read(&self, bytes: &[u8], span: Span, keep: bool, event: &mut Event<'_>) -> bool {
        let mut at = 0;
        let mut found = false;
        let mut left = MissingKeys::new(&self.until);
        while let Some(equals) = memchr(self.value, &bytes[at..]).map(|n| at + n) {
            let (key, key_at) = self.key(&bytes[at..equals]);
            let value_at = equals + 1;
            let (from, to, next) = self.value(bytes, value_at);
            if !key.is_empty() {
                found = true;
                let text = Span::new(span.start() + from, span.start() + to);
                let added = event.add_there(key, span.start() + at + key_at, text, keep);
                if added && left.is_last(key) {
                    return true;
                }
            }
            at = next.max(value_at).min(bytes.len());
        }
        found
    }

    /// The key at the end of what stands before the separator, and where it begins there.
    fn key<'t>(&self, before: &'t [u8]) -> (&'t [u8], usize) {
        let mut before = before.trim_ascii_end();
        if let Some(inner) = before
            .split_last()
            .filter(|(last, _)| self.quotes.contains(last))
        {
            before = inner.1;
        }
        let part = |byte: &u8| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'@' | b'$')
        };
        let start = before.iter().rposition(|byte| !part(byte));
        let start = start.map_or(0, |at| at + 1);
        (&before[start..], start)
    }

    /// Offset of the next separator of pairs.
    fn pair_at(&self, rest: &[u8]) -> Option<usize> {
        let first = *self.pair.first()?;
        let mut begins = memchr::memchr_iter(first, rest);
        begins.find(|at| rest[*at..].starts_with(&self.pair))
    }

    /// Start and end of the value that begins at `at`, and the offset at which the next pair may
    /// begin.
    fn value(&self, bytes: &[u8], at: usize) -> (usize, usize, usize) {
        if let Some(quote) = bytes.get(at).filter(|byte| self.quotes.contains(byte)) {
            let mut end = at + 1;
            while let Some(found) = bytes.get(end..).and_then(|rest| memchr(*quote, rest)) {
                end += found;
                if bytes[end - 1] != b'\\' || end - 1 == at {
                    return (at + 1, end, end + 1);
                }
                end += 1;
            }
        }
        let rest = &bytes[at.min(bytes.len())..];
        let length = if self.pair == b" " {
            rest.iter().position(u8::is_ascii_whitespace)
        } else {
            self.pair_at(rest)
        };
        let length = length.unwrap_or(rest.len());
        let next = at + length;
        let value = &rest[..length];
        let from = at + length - value.trim_ascii_start().len();
        (
            from.min(next),
            at + value.trim_ascii_end().len().max(from - at),
            next,
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_last_one_left_is_the_last_one_found(
            names in prop::collection::vec("[a-f]", 0..40),
            found in prop::collection::vec("[a-g]", 0..80),
        ) {
            let mut left = MissingKeys::new(&names);
            let mut open: Vec<&String> = names.iter().collect();
            let many = names.len() > 32;
            for name in &found {
                let place = open.iter().position(|open| *open == name);
                let last = place.is_some() && open.len() == 1;
                place.map(|place| open.remove(place));
                prop_assert_eq!(left.is_last(name.as_bytes()), last && !many);
            }
        }
    }
}
