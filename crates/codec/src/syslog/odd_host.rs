//! Hosts that a blank does not end, or that end in a colon: tabs as separators, IPv6 addresses in
//! every form of RFC 5952 and RFC 3986, and the words of a syslogd that are none.

use std::net::Ipv6Addr;

use inrush_event::{Anomalies, Record, Span};

use super::rfc3164::{is_host, tag_and_message};
use super::scan::{first_of, is_blank, is_name, skip_blanks};

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
