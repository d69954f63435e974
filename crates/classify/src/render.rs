//! Texts made of an event's values.

use inrush_event::Span;

use crate::event::{Event, ExtractedValue};
use crate::template::TextTemplate;

/// Values of an event that is not taken for a simple one whatever they are named.
const SIMPLE_MAX: usize = 128;

/// The event's values as a JSON object: dots in names make objects within objects, and the last
/// one of a name counts.
pub(crate) fn json_values(event: &mut Event<'_>) -> Span {
    let mut kept = std::mem::take(&mut event.scratch.kept);
    kept.clear();
    kept.extend(event.scratch.values.iter().filter(|value| value.keep));
    let same = |a: &ExtractedValue, b: &ExtractedValue| {
        a.mark == b.mark && event.bytes(a.name) == event.bytes(b.name)
    };
    // Most marks were not met before: a bit tells.
    let mut met = [0u64; 4];
    let twice = |at: usize| {
        let place = kept[at].mark.hash();
        let bits = &mut met[place >> 6];
        let known = *bits >> (place & 63) & 1 == 1;
        *bits |= 1 << (place & 63);
        known && kept[..at].iter().any(|other| same(other, &kept[at]))
    };
    let deep = |value: &ExtractedValue| {
        let name = event.bytes(value.name);
        name.iter().any(|byte| *byte == b'.' || !byte.is_ascii())
    };
    let simple = kept.len() <= SIMPLE_MAX && !(0..kept.len()).any(twice) && !kept.iter().any(deep);
    let span = if simple {
        flat(event, &kept)
    } else {
        nested(event)
    };
    event.scratch.kept = kept;
    span
}

/// Values as members of one object.
fn flat(event: &mut Event<'_>, values: &[ExtractedValue]) -> Span {
    let start = event.here();
    let mut next = b'{';
    for value in values {
        event.scratch.bytes.push(next);
        next = b',';
        string(event, value.name);
        event.scratch.bytes.push(b':');
        if value.json {
            let text = json(event, *value);
            // Writing to a Vec cannot fail.
            let _ = serde_json::to_writer(&mut event.scratch.bytes, &text);
        } else {
            string(event, value.text);
        }
    }
    if values.is_empty() {
        event.scratch.bytes.push(b'{');
    }
    event.scratch.bytes.push(b'}');
    Span::new(start, event.here())
}

/// Appends a text as JSON; what is not UTF-8 is replaced.
fn string(event: &mut Event<'_>, span: Span) {
    let plain = |byte: &u8| matches!(byte, b' '..=b'~') & !matches!(byte, b'"' | b'\\');
    // Without a way out before the end it is done for many bytes at once.
    if event
        .bytes(span)
        .iter()
        .fold(true, |all, byte| all & plain(byte))
    {
        event.scratch.bytes.push(b'"');
        event.copy(span);
        event.scratch.bytes.push(b'"');
    } else {
        let value = String::from_utf8_lossy(event.bytes(span)).into_owned();
        // Writing to a Vec cannot fail.
        let _ = serde_json::to_writer(&mut event.scratch.bytes, &value);
    }
}

/// The same where a name has dots, or comes twice.
fn nested(event: &mut Event<'_>) -> Span {
    let mut object = serde_json::Map::new();
    for index in 0..event.scratch.values.len() {
        let value = event.scratch.values[index];
        if !value.keep {
            continue;
        }
        let name = String::from_utf8_lossy(event.bytes(value.name)).into_owned();
        insert(&mut object, &name, json(event, value));
    }
    let text = serde_json::to_vec(&object).unwrap_or_default();
    event.keep(&text)
}

fn insert(
    object: &mut serde_json::Map<String, serde_json::Value>,
    name: &str,
    value: serde_json::Value,
) {
    if let Some((first, rest)) = name.split_once('.')
        && !first.is_empty()
        && !rest.is_empty()
    {
        let inner = object
            .entry(first)
            .or_insert_with(|| serde_json::Value::Object(serde_json::Map::new()));
        if let serde_json::Value::Object(inner) = inner {
            return insert(inner, rest, value);
        }
    }
    object.insert(name.to_owned(), value);
}

fn json(event: &Event<'_>, value: ExtractedValue) -> serde_json::Value {
    let text = event.bytes(value.text);
    let literal = value
        .json
        .then(|| serde_json::from_slice(text).ok())
        .flatten();
    literal.unwrap_or_else(|| String::from_utf8_lossy(text).into_owned().into())
}

/// The event's values as `name=value` (WELF), `id` first and the others in the order of their names
/// as syslog-ng's `format-welf` has them; the last one of a name counts. A value with a blank or a
/// quote stands in quotes.
pub(crate) fn kv_values(event: &mut Event<'_>) -> Span {
    let mut kept = std::mem::take(&mut event.scratch.kept);
    kept.clear();
    kept.extend(event.scratch.values.iter().rev().filter(|value| value.keep));
    let name = |value: &ExtractedValue| event.bytes(value.name);
    kept.sort_by_key(|value| (name(value) != b"id", name(value)));
    kept.dedup_by(|later, first| name(later) == name(first));
    let mut text = Vec::new();
    for value in &kept {
        if !text.is_empty() {
            text.push(b' ');
        }
        text.extend_from_slice(event.bytes(value.name));
        text.push(b'=');
        let value = event.bytes(value.text);
        let quoted = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'');
        if value.iter().any(quoted) {
            text.push(b'"');
            for byte in value {
                if matches!(byte, b'"' | b'\\') {
                    text.push(b'\\');
                }
                text.push(*byte);
            }
            text.push(b'"');
        } else {
            text.extend_from_slice(value);
        }
    }
    event.scratch.kept = kept;
    event.keep(&text)
}

/// Indexed fields, each as `,"name":"value"`; an empty one is left out.
pub(crate) fn fields(fields: &[(String, TextTemplate)], event: &mut Event<'_>) -> Span {
    // The values first: they may be put together at the end of the scratch bytes, too.
    let mut values = std::mem::take(&mut event.scratch.spans);
    values.extend(fields.iter().map(|(_, text)| event.eval(text)));
    let start = event.here();
    for (span, (name, _)) in values.drain(..).zip(fields) {
        if span.is_empty() {
            continue;
        }
        let bytes = &mut event.scratch.bytes;
        bytes.push(b',');
        // Writing to a Vec cannot fail.
        let _ = serde_json::to_writer(&mut *bytes, name);
        bytes.push(b':');
        string(event, span);
    }
    event.scratch.spans = values;
    if let Some((formats, span)) = event.unread {
        unread(formats.written(), span, event);
    }
    Span::new(start, event.here())
}

/// Bytes of a time that nobody could read which are said.
const UNREAD_BYTES_MAX: usize = 256;

/// Adds the error text that SC4S gives where no format of a product's time fits.
fn unread(written: &str, span: Span, event: &mut Event<'_>) {
    let text = event.bytes(span);
    let text = &text[..text.len().min(UNREAD_BYTES_MAX)];
    let said = format!(
        "dtparse: Expected {written} Actual {}",
        String::from_utf8_lossy(text)
    );
    let bytes = &mut event.scratch.bytes;
    bytes.extend_from_slice(b",\"sc4s_error\":");
    // Writing to a Vec cannot fail.
    let _ = serde_json::to_writer(&mut *bytes, &said);
}
