//! Hosts that a blank does not end, or that end in a colon: tabs as separators, IPv6 addresses in
//! every form of RFC 5952 and RFC 3986, and the words of a syslogd that are none.

use std::net::Ipv6Addr;

use inrush_event::{Anomalies, Record, Span};

use super::rfc3164::{is_host, tag_and_message};
use super::scan::{first_of, is_blank, is_name, name_len, skip_blanks};

/// Words of AIX's syslogd before a message of another host.
const FORWARDED: &[u8] = b"Message forwarded from ";
/// The short form of it.
const FROM: &[u8] = b"From ";

/// Beginnings of what a syslogd writes in place of a message, behind the dashes that some put
/// there. It has no program.
const OWN_WORDS: [&[u8]; 6] = [
    b"last message repeated ",
    b"last message buffered ",
    b"above message repeats ",
    b"message repeated ",
    b"exiting on signal ",
    b"-- MARK --",
];

/// False for most words that [`odd_host`] finds no host in, at the cost of a few bytes. The first
/// `len` bytes of `rest` are those of a name.
#[inline]
pub(super) fn may_be_host(rest: &[u8], len: usize) -> bool {
    match rest.get(len) {
        Some(b' ' | b'\t') => len > 0 || may_follow_blanks(rest),
        Some(b':') => may_be_address(rest, len),
        Some(b'[') => len == 0 && may_be_address(&rest[1..], hex_len(&rest[1..])),
        _ => false,
    }
}

/// [`may_be_host`] behind blanks.
#[cold]
fn may_follow_blanks(rest: &[u8]) -> bool {
    let word = &rest[skip_blanks(rest, 0)..];
    let len = name_len(word);
    match word.get(len) {
        Some(&byte) if is_blank(byte) => true,
        _ => may_be_host(word, len),
    }
}

/// True if the `len` bytes before the first colon of a word, and those up to a second one, may be
/// parts of an address.
fn may_be_address(word: &[u8], len: usize) -> bool {
    let in_part = |byte: &u8| byte.is_ascii_hexdigit() || *byte == b'.';
    let mut behind = word.iter().skip(len + 1);
    word[..len].iter().all(in_part)
        && word.get(len) == Some(&b':')
        && behind.find(|byte| !in_part(byte)) == Some(&b':')
}

fn hex_len(bytes: &[u8]) -> usize {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_hexdigit());
    digits.count()
}

/// The host at `at`, where the word up to the next blank cannot be one; and the offset of what
/// follows it.
#[cold]
pub(super) fn odd_host(bytes: &[u8], at: usize) -> Option<(Span, usize)> {
    let start = skip_blanks(bytes, at);
    let rest = bytes.get(start..)?;
    let end = start + first_of(rest, b' ', b'\t')?;
    let word = &bytes[start..end];
    let (from, len) = if is_host(word) && word.last() != Some(&b':') {
        (0, word.len())
    } else {
        address(word)?
    };
    let next = skip_blanks(bytes, end);
    (next < bytes.len()).then(|| (Span::new(start + from, start + from + len), next))
}

/// The IPv6 address that a word is, in brackets with a port, or with a colon behind it: where it
/// begins in the word, and its length.
fn address(word: &[u8]) -> Option<(usize, usize)> {
    if let Some(inside) = word.strip_prefix(b"[") {
        let len = inside.iter().position(|&byte| byte == b']')?;
        let port = inside[len + 1..].strip_prefix(b":");
        let is_port = port.map_or(inside.len() == len + 1, |port| {
            port.iter().all(u8::is_ascii_digit)
        });
        return (is_port && is_address(&inside[..len])).then_some((1, len));
    }
    if is_address(word) {
        return Some((0, word.len()));
    }
    let name = word.strip_suffix(b":")?;
    is_address(name).then_some((0, name.len()))
}

/// True for an IPv6 address (RFC 4291 section 2.2), with or without the zone of RFC 4007.
fn is_address(word: &[u8]) -> bool {
    let first = word.first().copied().unwrap_or_default();
    if !first.is_ascii_hexdigit() && first != b':' {
        return false;
    }
    let mut parts = word.splitn(2, |&byte| byte == b'%');
    let text = parts.next().and_then(|text| std::str::from_utf8(text).ok());
    let is_zone = parts.next().is_none_or(is_name);
    is_zone && text.is_some_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

/// The host in `From HOST: ` at `at`, and the offset after it.
#[cold]
pub(super) fn from_host(bytes: &[u8], at: usize) -> Option<(Span, usize)> {
    relayed(bytes, at, FROM)
}

fn relayed(bytes: &[u8], at: usize, prefix: &[u8]) -> Option<(Span, usize)> {
    let rest = bytes.get(at..)?.strip_prefix(prefix)?;
    let len = rest.iter().position(|&byte| is_blank(byte))?;
    let name = rest[..len].strip_suffix(b":")?;
    let begin = at + prefix.len();
    let span = Span::new(begin, begin + name.len());
    is_host(name).then(|| (span, skip_blanks(bytes, begin + len)))
}

/// True for the word at `at` wherever [`own_words`] finds any: their first one, or their second
/// one if the first was taken for a host.
#[inline]
pub(super) fn may_be_own(word: &[u8]) -> bool {
    matches!(
        word,
        b"last"
            | b"above"
            | b"message"
            | b"exiting"
            | b"--"
            | b"---"
            | b"Message"
            | b"repeated"
            | b"on"
            | b"MARK"
            | b"forwarded"
    )
}

/// Fills the record if a syslogd's own words stand at `at`, or where its host was thought to be;
/// false if nothing was done.
#[cold]
pub(super) fn own_words(bytes: &[u8], at: usize, strict: bool, record: &mut Record) -> bool {
    let between = bytes.get(record.host.end()..at).unwrap_or_default();
    let follows = !record.host.is_empty() && between.iter().all(|&byte| is_blank(byte));
    let start = if follows { record.host.start() } else { at };
    for at in [start, at] {
        if let Some((host, end)) = forwarded(bytes, at) {
            record.host = host;
            let bits = record.anomalies.bits() & !Anomalies::NO_HOST.bits();
            record.anomalies = Anomalies::from_bits(bits);
            tag_and_message(bytes, end, strict, record);
            return true;
        }
        if is_own(&bytes[at..]) {
            if at == start && follows {
                record.host = Span::EMPTY;
                record.anomalies.insert(Anomalies::NO_HOST);
            }
            record.message = Span::new(at, bytes.len());
            return true;
        }
    }
    false
}

/// The host that the last of several relays names, and the offset after it.
fn forwarded(bytes: &[u8], at: usize) -> Option<(Span, usize)> {
    let mut last = relayed(bytes, at, FORWARDED)?;
    while let Some(next) = relayed(bytes, last.1, FORWARDED) {
        last = next;
    }
    Some(last)
}

fn is_own(text: &[u8]) -> bool {
    if !matches!(text.first(), Some(b'l' | b'a' | b'm' | b'e' | b'-')) {
        return false;
    }
    let text = text.strip_prefix(b"--- ").unwrap_or(text);
    let number = |text: &[u8]| text.first().is_none_or(u8::is_ascii_digit);
    let own = OWN_WORDS.iter().find_map(|words| text.strip_prefix(*words));
    own.is_some_and(number)
}

#[cfg(test)]
mod tests {
    use inrush_event::Timestamp;
    use proptest::prelude::*;

    use super::*;
    use crate::syslog::scan::{skip_spaces, tag_len};

    /// Pieces of hosts and of what a syslogd writes itself.
    fn text() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop::sample::select(
            &[
                " ",
                "\t",
                ":",
                "::",
                ".",
                "%",
                "[",
                "]",
                "1",
                "fe80",
                "dead",
                "CEF",
                "a",
                "host",
                "-",
                "--",
                "--- ",
                "last ",
                "message ",
                "above ",
                "repeated ",
                "repeats ",
                "buffered ",
                "exiting ",
                "on ",
                "signal ",
                "MARK --",
                "Message ",
                "forwarded ",
                "from ",
                "7",
            ][..],
        );
        let pieces = prop::collection::vec(piece, 0..9);
        pieces.prop_map(|pieces| pieces.concat().into_bytes())
    }

    proptest! {
        #[test]
        fn no_host_is_passed_over_by_its_first_bytes(bytes in text()) {
            let at = skip_spaces(&bytes, 0);
            let rest = &bytes[at..];
            let found = odd_host(&bytes, at);
            let seen = may_be_host(rest, name_len(rest));
            prop_assert!(seen || found.is_none(), "{found:?}");
        }

        #[test]
        fn no_words_of_a_syslogd_are_passed_over_by_their_first(
            bytes in text(),
            has_host in any::<bool>(),
        ) {
            let none = Record::unparsed(Span::EMPTY, Timestamp::NONE, 0, Anomalies::NONE);
            let (mut record, mut at) = (none, 0);
            if has_host {
                let len = name_len(&bytes);
                record.host = Span::new(0, len);
                at = skip_spaces(&bytes, len);
                prop_assume!(len > 0 && bytes.get(len) == Some(&b' '));
            }
            let Some(len) = tag_len(&bytes[at..]) else { return Ok(()) };
            let seen = may_be_own(&bytes[at..at + len]);
            prop_assert!(seen || !own_words(&bytes, at, false, &mut record));
        }
    }
}
