//! RFC 5424, and what is sent under its name.

use inrush_event::{Anomalies, Format, Record, SdataCursor, Span};

use super::scan::{digit_count, skip_spaces, word_end};
use super::time::TimestampParser;
use crate::rfc3339::looks_like_iso;

// Bytes that RFC 5424 section 6 allows for each field; longer ones are kept and flagged.
const HOST_BYTES_MAX: usize = 255;
const APP_BYTES_MAX: usize = 48;
const PROC_ID_BYTES_MAX: usize = 128;
const MSG_ID_BYTES_MAX: usize = 32;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// A version and what follows it look like RFC 5424.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct VersionField {
    /// True if it is version 1.
    pub(super) known: bool,
    /// Offset of the timestamp.
    pub(super) end: usize,
}

/// The version at `at`, if a timestamp or, after a PRI (`certain`), its nil value follows: a `1`
/// alone may be anything, and so may a `1 -`.
#[inline]
pub(super) fn version(bytes: &[u8], at: usize, certain: bool) -> Option<VersionField> {
    if !bytes.get(at).is_some_and(u8::is_ascii_digit) {
        return None;
    }
    let digits = digit_count(bytes, at, 3);
    if !(1..=2).contains(&digits) || bytes.get(at + digits) != Some(&b' ') {
        return None;
    }
    let known = digits == 1 && bytes[at] == b'1';
    let end = skip_spaces(bytes, at + digits);
    let nil = known && certain && is_nil(bytes, end);
    (nil || looks_like_iso(bytes, end)).then_some(VersionField { known, end })
}

/// Fills the record from the timestamp at `at` on; `bytes` end where the record ends.
pub(super) fn parse(clock: &mut TimestampParser, bytes: &[u8], at: usize, record: &mut Record) {
    record.format = Format::Rfc5424;
    let mut odd = Anomalies::NONE;
    let at = timestamp(clock, bytes, at, record);
    let (host, at) = field(bytes, at, HOST_BYTES_MAX, &mut odd);
    let (app, at) = field(bytes, at, APP_BYTES_MAX, &mut odd);
    let (proc_id, at) = field(bytes, at, PROC_ID_BYTES_MAX, &mut odd);
    let (msg_id, at) = field(bytes, at, MSG_ID_BYTES_MAX, &mut odd);
    if host.is_empty() {
        odd.insert(Anomalies::NO_HOST);
    }
    let (sdata, at) = structured_data(bytes, at, &mut odd);
    let bom = if bytes[at..].starts_with(BOM) {
        BOM.len()
    } else {
        0
    };
    record.host = host;
    record.app = app;
    record.proc_id = proc_id;
    record.msg_id = msg_id;
    record.sdata = sdata;
    record.message = Span::new(at + bom, bytes.len());
    record.anomalies.insert(odd);
}

fn is_nil(bytes: &[u8], at: usize) -> bool {
    bytes.get(at) == Some(&b'-') && matches!(bytes.get(at + 1), None | Some(b' '))
}

/// Reads the timestamp; offset of the field after it.
#[inline]
fn timestamp(clock: &mut TimestampParser, bytes: &[u8], at: usize, record: &mut Record) -> usize {
    match clock.iso(bytes, at) {
        Some(reading) if matches!(bytes.get(reading.end), None | Some(b' ')) => {
            clock.settle(&reading, record);
            return skip_spaces(bytes, reading.end);
        }
        _ if is_nil(bytes, at) => record.anomalies.insert(Anomalies::NO_TIME),
        _ => record.anomalies.insert(Anomalies::BAD_TIME),
    }
    skip_spaces(bytes, word_end(bytes, at))
}

/// The field at `at`, empty for the nil value, and the offset of what follows.
#[inline]
fn field(bytes: &[u8], at: usize, bytes_max: usize, odd: &mut Anomalies) -> (Span, usize) {
    let end = word_end(bytes, at);
    let next = skip_spaces(bytes, end);
    if end - at > bytes_max {
        odd.insert(Anomalies::LONG_FIELD);
    }
    if end - at == 1 && bytes[at] == b'-' {
        return (Span::EMPTY, next);
    }
    (Span::new(at, end), next)
}

/// The structured data at `at` and the offset of the message.
#[inline]
fn structured_data(bytes: &[u8], at: usize, odd: &mut Anomalies) -> (Span, usize) {
    if bytes.get(at) == Some(&b'[') {
        return match elements_end(bytes, at) {
            Some(end) => (Span::new(at, end), after_space(bytes, end)),
            None => {
                odd.insert(Anomalies::BAD_SDATA);
                (Span::EMPTY, at)
            }
        };
    }
    if is_nil(bytes, at) {
        return (Span::EMPTY, after_space(bytes, at + 1));
    }
    odd.insert(Anomalies::NO_SDATA);
    (Span::EMPTY, at)
}

fn after_space(bytes: &[u8], at: usize) -> usize {
    at + usize::from(bytes.get(at) == Some(&b' '))
}

/// Offset after the elements that begin at `at`; `None` unless they are whole and a space or the
/// end follows.
#[inline]
fn elements_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut cursor = SdataCursor::new(bytes, at);
    let mut at = at;
    while bytes.get(at) == Some(&b'[') {
        at = element_end(bytes, at + 1, &mut cursor)?;
    }
    matches!(bytes.get(at), None | Some(b' ')).then_some(at)
}

/// Offset after the `]` of the element whose id is at `at`.
#[inline]
fn element_end(bytes: &[u8], at: usize, cursor: &mut SdataCursor<'_>) -> Option<usize> {
    let mut at = name_end(bytes, at, cursor)?;
    loop {
        match bytes.get(at)? {
            b']' => return Some(at + 1),
            b' ' => at = skip_spaces(bytes, at),
            _ => return None,
        }
        if bytes.get(at)? == &b']' {
            continue;
        }
        at = name_end(bytes, at, cursor)?;
        if bytes.get(at..at + 2)? != b"=\"" {
            return None;
        }
        at = cursor.value_end(at + 2)? + 1;
    }
}

/// Offset after an SD-NAME of at least one byte. Tabs before it are let pass, as part of it.
#[inline]
fn name_end(bytes: &[u8], at: usize, cursor: &mut SdataCursor<'_>) -> Option<usize> {
    let mut begin = at;
    while bytes.get(begin) == Some(&b'\t') {
        begin += 1;
    }
    cursor.name_end(begin).filter(|&end| end > begin)
}
