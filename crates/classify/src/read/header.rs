//! Headers that rules have laid bare: `program[pid]: message`, or all of RFC 3164 (section 4.1).

use std::sync::LazyLock;

use inrush_event::{Format, Span};

use crate::event::Event;
use crate::read::TimeFormats;

/// Reads `program[pid]: message`. A text that begins with a blank has no program. What had no
/// header until a rule laid one bare has one then.
pub(super) fn tag(bytes: &[u8], span: Span, event: &mut Event<'_>) {
    let within = |from: usize, to: usize| Span::new(span.start() + from, span.start() + to);
    let end = bytes
        .iter()
        .position(|byte| matches!(byte, b' ' | b'[' | b':'))
        .unwrap_or(bytes.len());
    if event.record.format == Format::Unparsed {
        event.record.format = Format::Rfc3164;
    }
    event.record.app = within(0, end);
    event.record.proc_id = Span::EMPTY;
    let mut at = end;
    if bytes.get(at) == Some(&b'[')
        && let Some(close) = memchr::memchr(b']', &bytes[at..])
    {
        event.record.proc_id = within(at + 1, at + close);
        at += close + 1;
    }
    if bytes.get(at) == Some(&b':') {
        at += 1;
    }
    if bytes.get(at) == Some(&b' ') {
        at += 1;
    }
    event.record.message = within(at, bytes.len());
}

/// The times that a header may begin with.
const TIMES: [&str; 5] = [
    "%Y-%m-%dT%H:%M:%S%f%z",
    "%b %e %H:%M:%S%f",
    "%b %e %Y %H:%M:%S%f",
    "%Y-%m-%d %H:%M:%S%f%z",
    "%Y-%m-%dT%H:%M:%S%f",
];

/// The same, ready to be read with.
static FORMATS: LazyLock<TimeFormats> = LazyLock::new(|| TimeFormats::fixed(&TIMES));

/// Reads time, host, tag and message; `false` if there is no time.
pub(super) fn whole(bytes: &[u8], span: Span, event: &mut Event<'_>) -> bool {
    let at = bytes.iter().take_while(|byte| **byte == b' ').count();
    let zone = event.zone.unwrap_or(event.source_zone);
    let received = event.record.received;
    let Some((time, end)) = FORMATS.prefix(&bytes[at..], zone, received) else {
        return false;
    };
    time.stamp(&mut event.record, event.zone.is_some());
    let rest = &bytes[at + end..];
    let from = at + end + rest.iter().take_while(|byte| **byte == b' ').count();
    let to = memchr::memchr(b' ', &bytes[from..]).map_or(bytes.len(), |n| from + n);
    event.record.host = Span::new(span.start() + from, span.start() + to);
    let tag_at = (to + 1).min(bytes.len());
    let tagged = Span::new(span.start() + tag_at, span.start() + bytes.len());
    tag(&bytes[tag_at..], tagged, event);
    event.record.format = Format::Rfc3164;
    true
}
