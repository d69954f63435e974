//! RFC 3164 as it is really sent.
//!
//! # What it guarantees
//! Every record with a PRI or a time is read, at the least as one message. Forms that few senders
//! write are looked for only where the usual ones do not fit: the usual ones cost nothing for them.
//!
//! # The forms
//! ```text
//! [cisco] [mark] [time [AM|PM] [zone] [year] [:]] [host] [tag [ '[' pid ']' ] [:]] message
//! cisco = [number ": "] [host ": "] [number ": "]      mark = "*" | "."
//!       | number ": " [host " "] node ":"
//! ```
//! Each part may be missing, and blanks are spaces or tabs. A word after the time is the host
//! unless it looks like a tag (it ends in a colon, has a bracket or begins with `%`; IPv6 addresses
//! may), like the start of a text of another kind (JSON, CSV, key=value), or is the last word.
//! Without a time there is no host. A syslogd's own words have neither (`odd_host`).
//!
//! # What it guarantees
//! * A record behind a PRI is always read as something; one without a PRI only if it has a time.
//! * The message begins after the tag, its colon and one space. From the tag's first byte to the
//!   end of the message the bytes stand as they were received, so an encoder can take
//!   `app.start..message.end` in one slice.
//!
//! # Limits
//! A tag, a PID, an IOS XR node and a sequence number are looked for in so many bytes as the
//! constants below say. A host may have any length.

use inrush_event::{Anomalies, Format, Record, Span, Timestamp};

use super::behind_time;
use super::odd_host::{from_host, may_be_host, may_be_own, odd_host, own_words};
use super::scan::{
    digit_count, first_of, is_blank, is_ipv6_like, is_name, name_len, skip_blanks, skip_spaces,
    tag_len, word_end,
};
use super::time::{ParsedTimestamp, ReadZone, TimestampParser, epoch};

/// Bytes that RFC 1035 allows for a host name; longer ones are kept and flagged.
const HOST_BYTES_MAX: usize = 255;
/// Bytes of the longest tag that is taken for one.
const TAG_BYTES_MAX: usize = 128;
/// Bytes of the longest `[pid]` that is taken for one.
const PID_BYTES_MAX: usize = 128;
/// Bytes of the longest IOS XR node name, with its colon.
const NODE_BYTES_MAX: usize = 32;
/// Digits of the longest Cisco sequence number.
const SEQUENCE_DIGITS_MAX: usize = 10;

/// Parts of a header before the host.
struct HeaderPrefix {
    /// `None` where a Cisco device sent no date.
    time: Option<ParsedTimestamp>,
    /// Offset after it.
    end: usize,
    /// A host that Cisco puts before the time.
    host: Span,
    cisco: bool,
    unsynced: bool,
}

/// Fills the record from `at` on, which is no space; `bytes` end where the record ends. Without a
/// time that is only done if the record is `certain` to be syslog; false if nothing was done.
#[inline]
pub(super) fn parse(
    clock: &mut TimestampParser,
    bytes: &[u8],
    at: usize,
    certain: bool,
    record: &mut Record,
) -> bool {
    match clock.read(bytes, at, record.received) {
        Some(time) => {
            record.format = Format::Rfc3164;
            let at = after_time(clock, bytes, &time, record);
            host_and_rest(bytes, at, record);
            true
        }
        None => parse_rare(clock, bytes, at, certain, record),
    }
}

/// A record that does not begin with a date.
#[cold]
fn parse_rare(
    clock: &mut TimestampParser,
    bytes: &[u8],
    at: usize,
    certain: bool,
    record: &mut Record,
) -> bool {
    let Some(head) = rare_head(clock, bytes, at, certain, record) else {
        if certain {
            record.format = Format::Rfc3164;
            let missing = Anomalies::NO_TIME.union(Anomalies::NO_HOST);
            record.anomalies.insert(missing);
            tag_and_message(bytes, at, true, record);
        }
        return certain;
    };
    record.format = match head.cisco {
        true => Format::Cisco,
        false => Format::Rfc3164,
    };
    if head.unsynced {
        record.anomalies.insert(Anomalies::CLOCK_UNSYNCED);
    }
    let at = match head.time {
        Some(time) if head.cisco => after_words(clock, bytes, time, true, record),
        Some(time) => after_time(clock, bytes, &time, record),
        None => {
            record.anomalies.insert(Anomalies::NO_TIME);
            head.end
        }
    };
    record.host = head.host;
    match head.time {
        Some(_) if head.host.is_empty() => host_and_rest(bytes, at, record),
        _ => rest(bytes, skip_spaces(bytes, at), record),
    }
    true
}

/// The host that follows a time, if one does, and what follows it.
#[inline]
fn host_and_rest(bytes: &[u8], at: usize, record: &mut Record) {
    let at = host_word(bytes, skip_spaces(bytes, at), record);
    rest(bytes, at, record);
}

/// Reads tag and message behind the host.
#[inline]
fn rest(bytes: &[u8], at: usize, record: &mut Record) {
    if record.host.is_empty() {
        record.anomalies.insert(Anomalies::NO_HOST);
    }
    tag_and_message(bytes, at, false, record);
}

fn rare_head(
    clock: &mut TimestampParser,
    bytes: &[u8],
    at: usize,
    certain: bool,
    record: &Record,
) -> Option<HeaderPrefix> {
    let plain = |time: ParsedTimestamp| HeaderPrefix {
        time: Some(time),
        end: time.end,
        host: Span::EMPTY,
        cisco: false,
        unsynced: false,
    };
    // Log lines of other kinds begin with such a number too, so a PRI must have been there.
    // Cisco Meraki puts an RFC 5424 version before it.
    let meraki = at
        + if bytes.get(at..at + 2) == Some(b"1 ") {
            2
        } else {
            0
        };
    match epoch(bytes, meraki).filter(|_| certain) {
        Some(time) => Some(plain(time)),
        None => cisco_head(clock, bytes, at, record).or_else(|| {
            let may_be_day = matches!(bytes.get(at)?, b'M' | b'T' | b'W' | b'F' | b'S' | b'\t');
            let time = may_be_day.then(|| odd_time(clock, bytes, at, record.received))?;
            time.map(plain)
        }),
    }
}

/// A time behind a tab or the name of its day.
#[cold]
fn odd_time(
    clock: &mut TimestampParser,
    bytes: &[u8],
    at: usize,
    received: Timestamp,
) -> Option<ParsedTimestamp> {
    const DAYS: [&[u8; 3]; 7] = [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];
    let start = skip_blanks(bytes, at);
    let name = bytes.get(start..start + 3)?;
    let is_day = DAYS.iter().any(|day| day.as_slice() == name);
    let behind = start + 3 + usize::from(bytes.get(start + 3) == Some(&b','));
    let time_at = if is_day {
        skip_blanks(bytes, behind)
    } else {
        start
    };
    if time_at == at || is_day && time_at == behind {
        return None;
    }
    clock.read(bytes, time_at, received)
}

/// Sequence numbers, a host with a colon, and the marks of a clock that is not synchronised.
fn cisco_head(
    clock: &mut TimestampParser,
    bytes: &[u8],
    at: usize,
    record: &Record,
) -> Option<HeaderPrefix> {
    let first = sequence_end(bytes, at);
    let (host, end) = cisco_host(bytes, first.unwrap_or(at), first.is_some());
    let second = if host.is_empty() {
        None
    } else {
        sequence_end(bytes, end)
    };
    let mut end = second.unwrap_or(end);
    let unsynced = matches!(bytes.get(end), Some(b'*' | b'.'));
    let sequence = first.or(second).is_some();
    if !sequence && !unsynced {
        return None;
    }
    let time_at = end + usize::from(unsynced);
    let time = clock.read(bytes, time_at, record.received);
    if time.is_none() {
        // `00:01:01: ` since it started is no date; and with no time at all, its `%` must follow.
        end = uptime_end(bytes, time_at).unwrap_or(end);
        if !sequence || bytes.get(end) != Some(&b'%') {
            return None;
        }
    }
    Some(HeaderPrefix {
        time,
        end,
        host,
        cisco: true,
        unsynced,
    })
}

/// The host that Cisco puts before the time, empty if there is none, and the offset after it: IOS
/// sends `host: `; IOS XR, after a sequence number, `host node:` or `node:`.
fn cisco_host(bytes: &[u8], at: usize, sequence: bool) -> (Span, usize) {
    let word = word_end(bytes, at);
    if let Some(name) = bytes[at..word].strip_suffix(b":")
        && is_host(name)
        && uptime_end(bytes, at).is_none()
        && node_end(bytes, at).is_none()
    {
        return (Span::new(at, word - 1), skip_spaces(bytes, word));
    }
    if !sequence {
        return (Span::EMPTY, at);
    }
    if is_host(&bytes[at..word])
        && let Some(end) = node_end(bytes, skip_spaces(bytes, word))
    {
        return (Span::new(at, word), end);
    }
    (Span::EMPTY, node_end(bytes, at).unwrap_or(at))
}

/// Offset after `123: ` or `:`, the space of which may be missing before a month.
fn sequence_end(bytes: &[u8], at: usize) -> Option<usize> {
    let colon = at + digit_count(bytes, at, SEQUENCE_DIGITS_MAX);
    let follows = matches!(
        bytes.get(colon..colon + 2),
        Some([b':', b' ' | b'A'..=b'Z'])
    );
    follows.then(|| skip_spaces(bytes, colon + 1))
}

/// Offset after `RP/0/RSP0/CPU0:`, the node that IOS XR puts right before the time.
fn node_end(bytes: &[u8], at: usize) -> Option<usize> {
    let near = bytes.get(at..)?.iter().take(NODE_BYTES_MAX);
    let len = near.clone().position(|&byte| matches!(byte, b':' | b' '))?;
    let is_node = bytes[at + len] == b':' && near.take(len).any(|&byte| byte == b'/');
    is_node.then_some(at + len + 1)
}

/// Offset after `00:01:01: ` or `1w2d: `.
fn uptime_end(bytes: &[u8], at: usize) -> Option<usize> {
    let word = word_end(bytes, at);
    let inside = bytes.get(at..word)?.strip_suffix(b":")?;
    let is_uptime = inside.first()?.is_ascii_digit()
        && inside
            .iter()
            .all(|b| matches!(b, b'0'..=b'9' | b':' | b'y' | b'w' | b'd' | b'h' | b'.'));
    is_uptime.then(|| skip_spaces(bytes, word))
}

/// Settles the time with what may follow it; offset after both and their colon.
#[inline]
fn after_time(
    clock: &mut TimestampParser,
    bytes: &[u8],
    time: &ParsedTimestamp,
    record: &mut Record,
) -> usize {
    if time.zone == ReadZone::Absent && behind_time::may_follow(bytes, time.end) {
        return after_words(clock, bytes, *time, false, record);
    }
    clock.settle(time, record);
    time.end + usize::from(bytes.get(time.end) == Some(&b':'))
}

/// [`after_time`] where words follow, for Cisco `any_word` as a zone.
#[inline(never)]
fn after_words(
    clock: &mut TimestampParser,
    bytes: &[u8],
    mut time: ParsedTimestamp,
    any_word: bool,
    record: &mut Record,
) -> usize {
    if time.zone == ReadZone::Absent {
        behind_time::read(bytes, &mut time, any_word);
    }
    clock.settle(&time, record);
    time.end + usize::from(bytes.get(time.end) == Some(&b':'))
}

pub(super) fn is_host(word: &[u8]) -> bool {
    word.first().is_some_and(|&byte| byte != b'%') && (is_name(word) || is_ipv6_like(word))
}

/// Takes the word at `at` as the host if it can be one; offset of what follows.
#[inline]
pub(super) fn host_word(bytes: &[u8], at: usize, record: &mut Record) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    let len = name_len(rest);
    // One letter may be a dash, and an F the first of `From`.
    if (2..=HOST_BYTES_MAX).contains(&len)
        && rest.get(len) == Some(&b' ')
        && !matches!(rest[0], b'%' | b'F')
    {
        let end = at + len;
        let next = skip_spaces(bytes, end);
        // The last word of a record is its message.
        if next < bytes.len() {
            record.host = Span::new(at, end);
            return next;
        }
    }
    rare_host_word(bytes, at, len, record)
}

/// [`host_word`] for a word that begins with `len` bytes of a name, and for that which is none.
#[inline(never)]
fn rare_host_word(bytes: &[u8], at: usize, len: usize, record: &mut Record) -> usize {
    // What is no name before its space (an IPv6 address, a colon behind it) is looked at closely.
    let rest = bytes.get(at..).unwrap_or_default();
    let named = len > 0 && rest.get(len) == Some(&b' ') && rest[0] != b'%';
    let end = match named {
        true => at + len,
        false => word_end(bytes, at),
    };
    let word = &bytes[at..end];
    let next = skip_spaces(bytes, end);
    if next == bytes.len() || !named && (word.last() == Some(&b':') || !is_host(word)) {
        let odd = may_be_host(rest, len).then(|| odd_host(bytes, at));
        let Some((host, next)) = odd.flatten() else {
            return at;
        };
        record.host = host;
        return next;
    }
    if word == b"From"
        && let Some((host, next)) = from_host(bytes, at)
    {
        record.host = host;
        return next;
    }
    if word != b"-" {
        record.host = Span::new(at, end);
    }
    if word.len() > HOST_BYTES_MAX {
        record.anomalies.insert(Anomalies::LONG_FIELD);
    }
    next
}

/// Divides the rest into tag, PID and message. Where no time was found (`strict`) the first word
/// of a sentence is no tag: a colon or a PID must follow.
#[inline]
pub(super) fn tag_and_message(bytes: &[u8], at: usize, strict: bool, record: &mut Record) {
    let at = match bytes.get(at) {
        Some(b':') => behind_lone_colon(bytes, at),
        _ => at,
    };
    record.message = Span::new(at, bytes.len());
    let Some(len) = tag_len(&bytes[at..bytes.len().min(at + TAG_BYTES_MAX + 1)]) else {
        return;
    };
    let end = at + len;
    if len == 0 || len > TAG_BYTES_MAX || is_payload_mark(&bytes[at..], len) {
        return;
    }
    let pid = pid(bytes, end);
    let after_pid = pid.map_or(end, |pid| pid.end() + 1);
    let colon = bytes.get(after_pid) == Some(&b':');
    if !colon && pid.is_none() {
        let own = may_be_own(&bytes[at..end]) && own_words(bytes, at, strict, record);
        if own || strict || end == bytes.len() {
            return;
        }
    }
    let after_colon = after_pid + usize::from(colon);
    let begin = after_colon + usize::from(bytes.get(after_colon).copied().is_some_and(is_blank));
    record.app = Span::new(at, end);
    record.proc_id = pid.unwrap_or(Span::EMPTY);
    record.message = Span::new(begin, bytes.len());
}

/// Offset of the `%` behind `: ` in `host : %ASA-…`, where the colon belongs to nothing; else `at`:
/// the colon belongs to the text, which has no tag.
#[cold]
fn behind_lone_colon(bytes: &[u8], at: usize) -> usize {
    let behind = skip_spaces(bytes, at + 1);
    let is_lone = behind > at + 1 && bytes.get(behind) == Some(&b'%');
    if is_lone { behind } else { at }
}

/// True if the name and colon open a CEF or LEEF payload: they belong to the message.
#[inline]
fn is_payload_mark(bytes: &[u8], len: usize) -> bool {
    (len == 3 && bytes.starts_with(b"CEF:")) || (len == 4 && bytes.starts_with(b"LEEF:"))
}

/// The bytes inside `[…]` at `at`.
#[inline]
fn pid(bytes: &[u8], at: usize) -> Option<Span> {
    if bytes.get(at) != Some(&b'[') {
        return None;
    }
    let inside = &bytes[at + 1..bytes.len().min(at + 2 + PID_BYTES_MAX)];
    let len = first_of(inside, b']', b' ')?;
    (len > 0 && inside[len] == b']').then(|| Span::new(at + 1, at + 1 + len))
}
