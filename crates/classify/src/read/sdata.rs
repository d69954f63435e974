//! Parameters of structured data (RFC 5424 section 6.3), as `id.name`.

use inrush_event::Span;
use memchr::memchr;

use crate::event::Event;

/// Reads every element; `false` if there is none.
pub(super) fn read(bytes: &[u8], span: Span, keep: bool, event: &mut Event<'_>) -> bool {
    let mut at = 0;
    let mut found = false;
    let mut name = Vec::new();
    while bytes.get(at) == Some(&b'[') {
        at += 1;
        let id = word(bytes, &mut at);
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
            let key = word(bytes, &mut at);
            if key.is_empty() || bytes.get(at) != Some(&b'=') || bytes.get(at + 1) != Some(&b'"') {
                break;
            }
            let start = at + 2;
            let Some(end) = close(bytes, start) else {
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

fn word<'b>(bytes: &'b [u8], at: &mut usize) -> &'b [u8] {
    let rest = &bytes[(*at).min(bytes.len())..];
    let end = rest
        .iter()
        .position(|byte| matches!(byte, b' ' | b'=' | b']' | b'"'));
    let word = &rest[..end.unwrap_or(rest.len())];
    *at += word.len();
    word
}

/// The quote that closes the value.
fn close(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let found = at + memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[found] == b'"' {
            return Some(found);
        }
        at = found + 2;
    }
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
