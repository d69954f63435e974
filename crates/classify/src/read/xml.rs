//! XML documents, flattened: `root.child` for text, `root.child._name` for attributes.

use quick_xml::Reader;
use quick_xml::events::Event as Node;

use crate::event::Event;

/// Elements within elements, at most; what lies deeper is passed over.
const DEPTH_MAX: usize = 32;

/// Reads a document; `false` if there is no element.
pub(super) fn read(bytes: &[u8], keep: bool, event: &mut Event<'_>) -> bool {
    let first = event.scratch.values.len();
    let found = walk(bytes, keep, event);
    if keep {
        join_equal(first, event);
    }
    found
}

fn walk(bytes: &[u8], keep: bool, event: &mut Event<'_>) -> bool {
    let Some(start) = memchr::memchr(b'<', bytes) else {
        return false;
    };
    let mut reader = Reader::from_reader(&bytes[start..]);
    reader.config_mut().check_end_names = false;
    let mut path: Vec<u8> = Vec::new();
    let mut lengths = Vec::new();
    let mut found = false;
    loop {
        match reader.read_event() {
            Ok(Node::Start(element)) if lengths.len() < DEPTH_MAX => {
                found = true;
                lengths.push(path.len());
                enter(&mut path, element.name().as_ref());
                attributes(&element, &mut path, keep, event);
            }
            Ok(Node::Empty(element)) => {
                found = true;
                let length = path.len();
                enter(&mut path, element.name().as_ref());
                attributes(&element, &mut path, keep, event);
                path.truncate(length);
            }
            Ok(Node::End(_)) => {
                if let Some(length) = lengths.pop() {
                    path.truncate(length);
                }
                if lengths.is_empty() {
                    return found;
                }
            }
            Ok(Node::Text(text)) if !path.is_empty() => {
                let plain = text.trim_ascii();
                if !plain.is_empty() {
                    let span = event.keep(plain);
                    event.add(&path, span, keep, false);
                }
            }
            Ok(Node::CData(text)) if !path.is_empty() => {
                let span = event.keep(&text);
                event.add(&path, span, keep, false);
            }
            Ok(Node::Eof) | Err(_) => return found,
            Ok(_) => {}
        }
    }
}

/// Of values with one name the first becomes a list of all, as JSON, and only that counts among the
/// event's values. Asked for by name it is still the last.
fn join_equal(first: usize, event: &mut Event<'_>) {
    let lists: Vec<(Vec<usize>, Vec<u8>)> = {
        let values = &event.scratch.values;
        let name = |at: usize| event.bytes(values[at].name);
        let text = |at: &usize| String::from_utf8_lossy(event.bytes(values[*at].text));
        let list = |same: &[usize]| {
            let texts: Vec<_> = same.iter().map(text).collect();
            let list = serde_json::to_vec(&texts).unwrap_or_default();
            (same.to_vec(), list)
        };
        let mut order: Vec<usize> = (first..values.len()).collect();
        order.sort_by(|a, b| name(*a).cmp(name(*b)));
        order
            .chunk_by(|a, b| name(*a) == name(*b))
            .filter(|same| same.len() > 1)
            .map(list)
            .collect()
    };
    for (same, list) in lists {
        let text = event.keep(&list);
        for at in &same[1..] {
            event.scratch.values[*at].keep = false;
        }
        let value = &mut event.scratch.values[same[0]];
        (value.text, value.json) = (text, true);
    }
}

fn enter(path: &mut Vec<u8>, name: &[u8]) {
    if !path.is_empty() {
        path.push(b'.');
    }
    path.extend_from_slice(name);
}

fn attributes(
    element: &quick_xml::events::BytesStart<'_>,
    path: &mut Vec<u8>,
    keep: bool,
    event: &mut Event<'_>,
) {
    let length = path.len();
    for attribute in element.attributes().with_checks(false).flatten() {
        path.extend_from_slice(b"._");
        path.extend_from_slice(attribute.key.as_ref());
        let span = event.keep(&attribute.value);
        event.add(path, span, keep, false);
        path.truncate(length);
    }
}
