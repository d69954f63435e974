//! Parsers of Common Event Format (ArcSight, version 25) and Log Event Extended Format (QRadar).
//!
//! # What it guarantees
//! * Both parsers accept any bytes, and return false for an incomplete header.
//! * The last pair of a name counts.
//! * Pairs stay unparsed unless all values are wanted: a look-up searches the noted `=` signs. Its
//!   value keeps backslashes, and `Label` keys rename nothing.
//!
//! # States
//! An event has one set of unparsed pairs, which the next CEF or LEEF step replaces.
//!
//! # Limits
//! At most `LABELS_MAX` labels rename values of an event. Bars separate LEEF 1 attributes that have
//! fewer than `LEEF_TABS_MIN` tabs.

use std::borrow::Cow;
use std::sync::LazyLock;

use inrush_event::{SimdBlock, Span};
use memchr::{memchr, memmem};

use crate::event::Event;
use crate::mark::NameFingerprint;
use inrush_multipattern::same;

const CEF_NAMES: [&str; 7] = [
    "cef.format",
    "cef.vendor",
    "cef.product",
    "cef.version",
    "cef.class",
    "cef.name",
    "cef.severity",
];

static CEF: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new("CEF:"));
static LEEF: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new("LEEF:"));

/// Reads `CEF:0|vendor|product|version|class|name|severity|extension`. The prefix may be missing:
/// where a header was read, `CEF` was taken for the program.
pub(super) fn cef(bytes: &[u8], span: Span, keep: bool, event: &mut Event<'_>) -> bool {
    let mut at = match bytes {
        // The program was `CEF`.
        [digit, b'|', ..] if digit.is_ascii_digit() => 0,
        _ => CEF.find(bytes).map_or(0, |found| found + 4),
    };
    at += blanks(&bytes[at..]);
    if !bytes.get(at).is_some_and(u8::is_ascii_digit) {
        return false;
    }
    for name in CEF_NAMES {
        let Some(end) = bar(bytes, at) else {
            // A severity at the end needs no bar behind it.
            if name == CEF_NAMES[6] {
                add(event, name, bytes, (at, bytes.len()), span);
                return true;
            }
            return false;
        };
        add(event, name, bytes, (at, end), span);
        at = end + 1;
    }
    if event.only.is_some() {
        // Most of it is asked for by nothing.
        let ext = Span::new(span.start() + at, span.start() + bytes.len());
        event.pairs = Some(LazyPairs::new(
            ext,
            None,
            &bytes[at..],
            &mut event.scratch.equals,
        ));
    } else {
        extension(bytes, at, span, keep, event);
    }
    true
}

/// The `=` of a pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EqualsSign {
    /// From the beginning of the pairs.
    at: u32,
    /// The byte before it: the last one of a name.
    before: u8,
}

impl EqualsSign {
    fn new(bytes: &[u8], at: usize) -> Self {
        let before = at.checked_sub(1).map_or(b' ', |before| bytes[before]);
        let at = at as u32;
        Self { at, before }
    }
}

/// Pairs that are taken apart only as far as they are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LazyPairs {
    /// Span of the pairs.
    pub(crate) span: Span,
    /// Separator of the pairs; `None`: a blank, and values may hold blanks too.
    separator: Option<u8>,
}

impl LazyPairs {
    /// Pairs in `bytes`, which are those of the span. Where their signs stand is put into `equals`:
    /// what is asked for is looked for there, since each event is asked for several.
    fn new(span: Span, separator: Option<u8>, bytes: &[u8], equals: &mut Vec<EqualsSign>) -> Self {
        let pairs = Self { span, separator };
        pairs.find_signs(bytes, equals);
        pairs
    }

    /// Finds the signs again, once those of other pairs were found.
    pub(crate) fn find_signs(&self, bytes: &[u8], equals: &mut Vec<EqualsSign>) {
        equals.clear();
        for block_at in (0..bytes.len()).step_by(SimdBlock::BYTES) {
            let mut signs = SimdBlock::at(bytes, block_at).equal(b'=');
            while signs != 0 {
                equals.push(EqualsSign::new(
                    bytes,
                    block_at + signs.trailing_zeros() as usize,
                ));
                signs &= signs - 1;
            }
        }
    }

    /// Span of the value of that name in `bytes`, which are those of the span; the last one counts.
    /// Empty if there is none.
    pub(crate) fn find(&self, name: &[u8], bytes: &[u8], equals: &[EqualsSign]) -> Span {
        let Some(last) = name.last() else {
            return Span::EMPTY;
        };
        let behind = equals.iter().rev().filter(|equals| equals.before == *last);
        for at in behind.map(|equals| equals.at as usize) {
            let Some(found) = at.checked_sub(name.len()) else {
                return Span::EMPTY;
            };
            if !same(&bytes[found..at], name) {
                continue;
            }
            let before = found.checked_sub(1).map(|before| bytes[before]);
            let begins = |byte: u8| match self.separator {
                Some(separator) => byte == separator,
                None => byte.is_ascii_whitespace(),
            };
            if !before.is_none_or(begins) {
                continue;
            }
            let from = at + 1;
            let to = match self.separator {
                Some(separator) => {
                    memchr(separator, &bytes[from..]).map_or(bytes.len(), |end| from + end)
                }
                None => value_end(bytes, from),
            };
            return Span::new(self.span.start() + from, self.span.start() + to);
        }
        Span::EMPTY
    }
}

/// End of a value that begins at `from`: before the blank in front of the next key.
fn value_end(bytes: &[u8], from: usize) -> usize {
    // The last blank so far: what was looked through is not looked through again.
    let (mut at, mut blank) = (from, None);
    while let Some(equals) = memchr(b'=', &bytes[at..]).map(|n| at + n) {
        let last = memchr::memrchr(b' ', &bytes[at..equals]).map(|n| at + n);
        blank = last.or(blank);
        at = equals + 1;
        if let Some(blank) = blank
            && bytes[equals - 1] != b'\\'
            && blank + 1 < equals
        {
            return from + bytes[from..blank].trim_ascii_end().len();
        }
    }
    from + bytes[from..].trim_ascii_end().len()
}

/// Reads `LEEF:1.0|vendor|product|version|event|attributes`, or 2.0 with the separator before the
/// attributes.
pub(super) fn leef(bytes: &[u8], span: Span, keep: bool, event: &mut Event<'_>) -> bool {
    let mut at = match bytes {
        // The program was `LEEF`; what an attribute says is none of it.
        [major, b'.', minor, b'|', ..] if major.is_ascii_digit() && minor.is_ascii_digit() => 0,
        _ => LEEF.find(bytes).map_or(0, |found| found + 5),
    };
    if !bytes.get(at).is_some_and(u8::is_ascii_digit) {
        return false;
    }
    let two = bytes[at] == b'2';
    for name in [
        "leef.version",
        "leef.vendor",
        "leef.product",
        "leef.product_version",
        "leef.event",
    ] {
        let Some(end) = memchr(b'|', &bytes[at..]).map(|n| at + n) else {
            return false;
        };
        add(event, name, bytes, (at, end), span);
        at = end + 1;
    }
    let mut separator = b'\t';
    if two
        && let Some(end) = memchr(b'|', &bytes[at..]).map(|n| at + n)
        && let Some(given) = separator_of(&bytes[at..end])
    {
        separator = given.unwrap_or(separator);
        at = end + 1;
    }
    if event.wants(b"leef.separator") {
        let hex = format!("{separator:02x}");
        let hex = event.keep(hex.as_bytes());
        event.add_wanted(b"leef.separator", hex, false, false);
    }
    let mut ext = Span::new(span.start() + at, span.start() + bytes.len());
    let mut attributes = Cow::Borrowed(&bytes[at..]);
    if !two && is_barred(&attributes) {
        for byte in attributes.to_mut() {
            if *byte == b'|' {
                *byte = separator;
            }
        }
        ext = event.keep(&attributes);
    }
    event.add(b"leef.attributes", ext, false, false);
    if event.only.is_some() {
        let equals = &mut event.scratch.equals;
        event.pairs = Some(LazyPairs::new(ext, Some(separator), &attributes, equals));
        return true;
    }
    for pair in pairs(&attributes, separator) {
        let (from, to) = pair;
        let Some(equals) = memchr(b'=', &attributes[from..to]).map(|n| from + n) else {
            continue;
        };
        let key = attributes[from..equals].trim_ascii();
        if !key.is_empty() {
            let text = Span::new(ext.start() + equals + 1, ext.start() + to);
            event.add(key, text, keep, false);
        }
    }
    true
}

/// Pairs behind tabs that a LEEF 1 event has at least, if it uses them.
const LEEF_TABS_MIN: usize = 3;

/// True if bars stand between the attributes of a LEEF 1 event, as of some senders.
fn is_barred(attributes: &[u8]) -> bool {
    memchr(b'|', attributes).is_some()
        && memchr::memchr_iter(b'\t', attributes)
            .take(LEEF_TABS_MIN)
            .count()
            < LEEF_TABS_MIN
}

/// The separator that is named: a character, `x5E` or `0x5E`; `Some(None)`: none is. `None` if this
/// cannot be the separator's field.
fn separator_of(text: &[u8]) -> Option<Option<u8>> {
    let digits = text
        .strip_prefix(b"0x")
        .or_else(|| text.strip_prefix(b"x"))
        .filter(|digits| !digits.is_empty());
    match (text, digits) {
        ([], _) => Some(None),
        ([one], _) => Some(Some(*one)),
        (_, Some(digits)) => {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 16).ok().map(Some)
        }
        _ => None,
    }
}

fn pairs(bytes: &[u8], separator: u8) -> impl Iterator<Item = (usize, usize)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        if from >= bytes.len() {
            return None;
        }
        let end = memchr(separator, &bytes[from..]).map_or(bytes.len(), |n| from + n);
        let pair = (from, end);
        from = end + 1;
        Some(pair)
    })
}

fn blanks(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| **byte == b' ').count()
}

/// The next bar that no backslash takes the meaning of.
fn bar(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let found = at + memchr::memchr2(b'|', b'\\', bytes.get(at..)?)?;
        if bytes[found] == b'|' {
            return Some(found);
        }
        at = found + 2;
    }
}

fn add(event: &mut Event<'_>, name: &str, bytes: &[u8], (from, to): (usize, usize), span: Span) {
    if !event.wants(name.as_bytes()) {
        return;
    }
    let text = if memchr(b'\\', &bytes[from..to]).is_some() {
        unescaped(&bytes[from..to], event)
    } else {
        Span::new(span.start() + from, span.start() + to)
    };
    event.add_wanted(name.as_bytes(), text, false, false);
}

/// Keeps the text without the backslashes that take the meaning from what follows.
fn unescaped(text: &[u8], event: &mut Event<'_>) -> Span {
    let start = event.here();
    let plain = &mut event.scratch.bytes;
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match (byte, bytes.as_slice().first()) {
            (b'\\', Some(b'n')) => {
                bytes.next();
                plain.push(b'\n');
            }
            (b'\\', Some(next @ (b'|' | b'=' | b'\\'))) => {
                bytes.next();
                plain.push(*next);
            }
            _ => plain.push(*byte),
        }
    }
    Span::new(start, event.here())
}

/// Bytes that a key can have.
const KEY: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        let known = byte as u8;
        table[byte] = known.is_ascii_alphanumeric() || matches!(known, b'_' | b'.' | b'-');
        byte += 1;
    }
    table
};

/// A key that was found: where it begins, where its `=` stands, and whether there is a backslash
/// behind that.
#[derive(Clone, Copy)]
struct PairKey {
    key_at: usize,
    equals: usize,
    escaped: bool,
}

/// Reads `key=value` pairs whose values may hold blanks: a value ends where the next key begins.
/// `cs1Label=User cs1=ann` makes `User`.
fn extension(bytes: &[u8], start: usize, span: Span, keep: bool, event: &mut Event<'_>) {
    let first = event.scratch.values.len();
    let mut pending: Option<PairKey> = None;
    for at in memchr::memchr2_iter(b'=', b'\\', &bytes[start..]) {
        let at = start + at;
        if bytes[at] == b'\\' {
            pending
                .iter_mut()
                .for_each(|pending| pending.escaped = true);
            continue;
        }
        let equals = at;
        if bytes[equals.saturating_sub(1)] == b'\\' {
            continue;
        }
        let before = &bytes[start..equals];
        let others = before.iter().rposition(|byte| !KEY[usize::from(*byte)]);
        let key_at = others.map_or(0, |n| n + 1);
        let boundary = key_at == 0 || before[key_at - 1].is_ascii_whitespace();
        if key_at == before.len() || !boundary {
            continue;
        }
        let key_at = start + key_at;
        finish(bytes, pending, key_at, span, keep, event);
        pending = Some(PairKey {
            key_at,
            equals,
            escaped: false,
        });
    }
    finish(bytes, pending, bytes.len(), span, keep, event);
    labels(first, event);
}

fn finish(
    bytes: &[u8],
    pending: Option<PairKey>,
    end: usize,
    span: Span,
    keep: bool,
    event: &mut Event<'_>,
) {
    let Some(pending) = pending else {
        return;
    };
    let from = pending.equals + 1;
    let to = from + bytes[from..end.max(from)].trim_ascii_end().len();
    let (key, key_at) = (&bytes[pending.key_at..pending.equals], pending.key_at);
    if pending.escaped {
        let text = unescaped(&bytes[from..to], event);
        event.add(key, text, keep, false);
    } else {
        let text = Span::new(span.start() + from, span.start() + to);
        event.add_there(key, span.start() + key_at, text, keep);
    }
}

/// Labels that are looked at: twice what the format has.
const LABELS_MAX: usize = 64;

/// Gives values the names that their labels say.
fn labels(first: usize, event: &mut Event<'_>) {
    let mut left = LABELS_MAX;
    for index in first..event.scratch.values.len() {
        if left == 0 {
            return;
        }
        let label = event.scratch.values[index];
        // The last byte of the name is the mark's last.
        if label.mark.last() != b'l' {
            continue;
        }
        let name = event.bytes(label.name);
        let Some(of) = name.strip_suffix(b"Label") else {
            continue;
        };
        left -= 1;
        let wanted = NameFingerprint::of(of);
        let named = (first..event.scratch.values.len()).find(|i| {
            let value = &event.scratch.values[*i];
            value.mark == wanted && event.bytes(value.name) == of
        });
        if let Some(named) = named
            && !label.text.is_empty()
        {
            event.scratch.values[named].name = label.text;
            event.scratch.values[named].mark = NameFingerprint::of(event.bytes(label.text));
            event.scratch.values[index].keep = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use inrush_event::Span;

    use super::{LazyPairs, value_end};

    #[test]
    fn of_pairs_with_one_name_the_last_counts() {
        let find = |separator: Option<u8>, text: &str, name: &str| {
            let span = Span::new(100, 100 + text.len());
            let mut equals = Vec::new();
            let pairs = LazyPairs::new(span, separator, text.as_bytes(), &mut equals);
            let found = pairs.find(name.as_bytes(), text.as_bytes(), &equals);
            text.get(found.start().saturating_sub(100)..found.end().saturating_sub(100))
                .map(str::to_owned)
        };
        for (text, value) in [
            ("rt=1 src=a rt=2 dst=b", "2"),
            ("rt=one two src=a", "one two"),
            ("art=1 rt=2", "2"),
            ("rt=1 art=2 start=3", "1"),
            ("src=a\trt=7", "7"),
            ("msg=rt rt = 3 rt=4 ", "4"),
            ("rt", ""),
            ("src=a", ""),
        ] {
            assert_eq!(find(None, text, "rt").as_deref(), Some(value), "{text}");
        }
        let leef = find(Some(b'^'), "rt=1^x rt=3^rt=2", "rt");
        assert_eq!(leef.as_deref(), Some("2"));
    }

    /// The same as it is defined: before the blank in front of the first key behind it.
    fn defined(text: &[u8]) -> usize {
        let equals = (0..text.len()).filter(|at| text[*at] == b'=');
        for equals in equals.filter(|at| *at > 0 && text[*at - 1] != b'\\') {
            let blank = text[..equals].iter().rposition(|byte| *byte == b' ');
            if let Some(blank) = blank.filter(|blank| blank + 1 < equals) {
                return text[..blank].trim_ascii_end().len();
            }
        }
        text.trim_ascii_end().len()
    }

    proptest! {
        #[test]
        fn a_value_ends_before_the_next_key(text in "[ab=\\\\ ]{0,24}") {
            prop_assert_eq!(value_end(text.as_bytes(), 0), defined(text.as_bytes()));
        }
    }
}
