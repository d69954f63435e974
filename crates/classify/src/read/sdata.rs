//! Parameters of structured data (RFC 5424 section 6.3), as `id.name`.

use inrush_event::{SdataCursor, Span};
use memchr::memchr;

use crate::event::Event;

/// Reads every element; `false` if there is none.
pub(super) fn read(bytes: &[u8], span: Span, keep: bool, event: &mut Event<'_>) -> bool {
    let mut at = 0;
    let mut found = false;
    let mut name = Vec::new();
    let mut cursor = SdataCursor::new(bytes, 0);
    while bytes.get(at) == Some(&b'[') {
        at += 1;
        let id = word(bytes, &mut at, &mut cursor);
        if id.is_empty() {
            return found;
        }
        found = true;
        name.clear();
        name.extend_from_slice(id);
        name.push(b'.');
        let before = name.len();
        loop {
            at += bytes[at..].iter().take_while(|byte| **byte == b' ').count();
            let key = word(bytes, &mut at, &mut cursor);
            if key.is_empty() || bytes.get(at) != Some(&b'=') || bytes.get(at + 1) != Some(&b'"') {
                break;
            }
            let start = at + 2;
            let Some(end) = cursor.value_end(start) else {
                return found;
            };
            name.truncate(before);
            name.extend_from_slice(key);
            if event.wants(&name) {
                let text = text(bytes, (start, end), span, event);
                event.add_wanted(&name, text, keep, false);
            }
            at = end + 1;
        }
        match memchr(b']', &bytes[at..]) {
            Some(end) => at += end + 1,
            None => return found,
        }
    }
    found
}

/// A name: control characters are let pass.
fn word<'b>(bytes: &'b [u8], at: &mut usize, cursor: &mut SdataCursor<'_>) -> &'b [u8] {
    let begin = *at;
    *at = loop {
        match cursor.name_end(*at) {
            Some(end) if matches!(bytes[end], b' ' | b'=' | b']' | b'"') => break end,
            Some(end) => *at = end + 1,
            None => break bytes.len(),
        }
    };
    bytes.get(begin..*at).unwrap_or_default()
}

fn text(bytes: &[u8], (from, to): (usize, usize), span: Span, event: &mut Event<'_>) -> Span {
    let value = &bytes[from..to];
    if memchr(b'\\', value).is_none() {
        return Span::new(span.start() + from, span.start() + to);
    }
    let mut plain = Vec::with_capacity(value.len());
    let mut escaped = false;
    for byte in value {
        if *byte == b'\\' && !escaped {
            escaped = true;
            continue;
        }
        if escaped && !matches!(byte, b'"' | b'\\' | b']') {
            plain.push(b'\\');
        }
        escaped = false;
        plain.push(*byte);
    }
    event.keep(&plain)
}
