//! JSON (RFC 8259) as it is skipped: where a value ends, and that it is one.

use std::borrow::Cow;

use inrush_event::SimdBlock;

/// Levels of arrays and objects in a value of an object at most: with the object itself 127, which
/// is where `serde_json` ends too.
const DEPTH_MAX: u32 = 126;

/// Reason why a value has no end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JsonStop {
    /// The bytes end before it.
    Incomplete,
    /// It is no JSON, or nested too deep.
    Invalid,
}

/// A text of a JSON string, without its quotes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RawText {
    /// Offset of its first byte.
    pub(crate) start: usize,
    /// Offset of the closing quote.
    pub(crate) end: usize,
    /// Offset of its first escape; that of the closing quote if it has none.
    pub(crate) escape: usize,
}

impl RawText {
    /// True if it has escapes, so that its bytes are not the text yet.
    #[inline]
    pub(crate) fn escaped(self) -> bool {
        self.escape < self.end
    }

    /// The text, its escapes resolved.
    pub(crate) fn resolved(self, bytes: &[u8]) -> Cow<'_, [u8]> {
        let raw = &bytes[self.start..self.end];
        match self.escaped() {
            false => raw.into(),
            true => {
                let mut text = Vec::new();
                unescape(raw, &mut text);
                text.into()
            }
        }
    }
}

/// Offset of the first byte from `at` on that is no white space.
#[inline]
pub(crate) fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = bytes.get(at) {
        at += 1;
    }
    at
}

/// Offset after the value that begins at `at`. A number that touches the end of the bytes may go
/// on, and counts as incomplete.
pub(crate) fn skip_value(bytes: &[u8], at: usize) -> Result<usize, JsonStop> {
    let mut nest = JsonNesting::default();
    let mut at = at;
    loop {
        at = match bytes.get(at).ok_or(JsonStop::Incomplete)? {
            b'"' => text(bytes, at)?.end + 1,
            b'{' => {
                nest.open(true)?;
                at = skip_space(bytes, at + 1);
                match bytes.get(at).ok_or(JsonStop::Incomplete)? {
                    b'}' => nest.close(at),
                    _ => {
                        at = skip_key(bytes, at)?;
                        continue;
                    }
                }
            }
            b'[' => {
                nest.open(false)?;
                at = skip_space(bytes, at + 1);
                match bytes.get(at).ok_or(JsonStop::Incomplete)? {
                    b']' => nest.close(at),
                    _ => continue,
                }
            }
            b't' => literal(bytes, at, b"true")?,
            b'f' => literal(bytes, at, b"false")?,
            b'n' => literal(bytes, at, b"null")?,
            b'-' | b'0'..=b'9' => number(bytes, at)?,
            _ => return Err(JsonStop::Invalid),
        };
        // After a value: the next one of its container, or the container's end.
        loop {
            if nest.depth == 0 {
                return Ok(at);
            }
            at = skip_space(bytes, at);
            match (bytes.get(at).ok_or(JsonStop::Incomplete)?, nest.in_object()) {
                (b',', true) => {
                    at = skip_key(bytes, skip_space(bytes, at + 1))?;
                    break;
                }
                (b',', false) => {
                    at = skip_space(bytes, at + 1);
                    break;
                }
                (b'}', true) | (b']', false) => at = nest.close(at),
                _ => return Err(JsonStop::Invalid),
            }
        }
    }
}

/// The containers around a value, a bit each.
#[derive(Default)]
struct JsonNesting {
    depth: u32,
    objects: u128,
}

impl JsonNesting {
    fn open(&mut self, object: bool) -> Result<(), JsonStop> {
        if self.depth == DEPTH_MAX {
            return Err(JsonStop::Invalid);
        }
        self.depth += 1;
        self.objects = self.objects << 1 | u128::from(object);
        Ok(())
    }

    /// Ends the innermost; the offset after it.
    fn close(&mut self, at: usize) -> usize {
        self.depth -= 1;
        self.objects >>= 1;
        at + 1
    }

    fn in_object(&self) -> bool {
        self.objects & 1 == 1
    }
}

/// Offset of the value behind the key at `at`.
fn skip_key(bytes: &[u8], at: usize) -> Result<usize, JsonStop> {
    let key = text(bytes, at)?;
    value_of(bytes, key)
}

/// Offset of the value behind a key.
#[inline]
pub(crate) fn value_of(bytes: &[u8], key: RawText) -> Result<usize, JsonStop> {
    let colon = skip_space(bytes, key.end + 1);
    match bytes.get(colon) {
        Some(b':') => Ok(skip_space(bytes, colon + 1)),
        Some(_) => Err(JsonStop::Invalid),
        None => Err(JsonStop::Incomplete),
    }
}

/// The string that begins with the quote at `at`. Bytes that are no UTF-8 and halves of surrogate
/// pairs are left to who reads the text.
#[inline]
pub(crate) fn text(bytes: &[u8], at: usize) -> Result<RawText, JsonStop> {
    match bytes.get(at) {
        Some(b'"') => {}
        Some(_) => return Err(JsonStop::Invalid),
        None => return Err(JsonStop::Incomplete),
    }
    let start = at + 1;
    let mut escape = usize::MAX;
    let mut block_at = start;
    while block_at < bytes.len() {
        let block = SimdBlock::at(bytes, block_at);
        // A quote, an escape, or a control byte, which may not stand in a string.
        let mut special = block.equal_any_or_most([b'"', b'\\'], 0x1f);
        block_at += loop {
            if special == 0 {
                break SimdBlock::BYTES;
            }
            let end = block_at + special.trailing_zeros() as usize;
            match bytes[end] {
                b'"' => {
                    return Ok(RawText {
                        start,
                        end,
                        escape: escape.min(end),
                    });
                }
                b'\\' => {}
                _ => return Err(JsonStop::Invalid),
            }
            escape = escape.min(end);
            let used = skip_escape(bytes, end)? - block_at;
            if used >= SimdBlock::BYTES {
                break used;
            }
            special &= u64::MAX << used;
        };
    }
    Err(JsonStop::Incomplete)
}

/// Offset after the escape at `at`.
fn skip_escape(bytes: &[u8], at: usize) -> Result<usize, JsonStop> {
    match bytes.get(at + 1).ok_or(JsonStop::Incomplete)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(at + 2),
        b'u' => {
            let rest = bytes.get(at + 2..).unwrap_or_default();
            let digits = &rest[..rest.len().min(4)];
            match digits.iter().all(u8::is_ascii_hexdigit) {
                false => Err(JsonStop::Invalid),
                true if digits.len() < 4 => Err(JsonStop::Incomplete),
                true => Ok(at + 6),
            }
        }
        _ => Err(JsonStop::Invalid),
    }
}

fn literal(bytes: &[u8], at: usize, word: &[u8]) -> Result<usize, JsonStop> {
    let rest = &bytes[at..];
    let there = rest.len().min(word.len());
    match rest[..there] == word[..there] {
        false => Err(JsonStop::Invalid),
        true if there < word.len() => Err(JsonStop::Incomplete),
        true => Ok(at + word.len()),
    }
}

fn number(bytes: &[u8], at: usize) -> Result<usize, JsonStop> {
    let digits = |from: usize| {
        let rest = bytes.get(from..).unwrap_or_default();
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        match count {
            0 if rest.is_empty() => Err(JsonStop::Incomplete),
            0 => Err(JsonStop::Invalid),
            _ => Ok(from + count),
        }
    };
    let whole = at + usize::from(bytes[at] == b'-');
    let mut end = match bytes.get(whole) {
        Some(b'0') => whole + 1,
        _ => digits(whole)?,
    };
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1)?;
    }
    if let Some(b'e' | b'E') = bytes.get(end) {
        let sign = matches!(bytes.get(end + 1), Some(b'+' | b'-'));
        end = digits(end + 1 + usize::from(sign))?;
    }
    match bytes.get(end) {
        Some(_) => Ok(end),
        None => Err(JsonStop::Incomplete),
    }
}

/// Appends the text of a JSON string, its escapes resolved. Half of a surrogate pair has no text,
/// and stays as it was written.
pub(crate) fn unescape(raw: &[u8], out: &mut Vec<u8>) {
    unescape_each(raw, |part| out.extend_from_slice(part));
}

/// Hands the same text to `part`, part by part.
#[inline]
pub(crate) fn unescape_each(raw: &[u8], mut part: impl FnMut(&[u8])) {
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        part(&rest[..at]);
        let (text, used) = escaped_char(&rest[at..]);
        match text {
            Some(text) => part(text.encode_utf8(&mut [0; 4]).as_bytes()),
            None => part(&rest[at..at + used]),
        }
        rest = &rest[at + used..];
    }
    part(rest);
}

/// The character of the escape that `raw` begins with, and the bytes that it takes.
fn escaped_char(raw: &[u8]) -> (Option<char>, usize) {
    let unit = |at: usize| {
        let digits = raw.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u32::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
    };
    let one = match raw.get(1) {
        Some(b'u') => {
            let Some(high) = unit(0) else {
                return (None, raw.len().min(2));
            };
            if let Some(text) = char::from_u32(high) {
                return (Some(text), 6);
            }
            let low = unit(6).filter(|low| (0xdc00..0xe000).contains(low));
            let Some(low) = low.filter(|_| high < 0xdc00) else {
                return (None, 6);
            };
            let wide = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
            return (char::from_u32(wide), 12);
        }
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(other) => char::from(*other),
        None => return (None, 1),
    };
    (Some(one), 2)
}
