//! XML documents, flattened: `root.child` for text, `root.child._name` for attributes.

use quick_xml::Reader;
use quick_xml::events::Event as Node;

use crate::event::Event;

/// Elements within elements, at most; what lies deeper is passed over.
const DEPTH_MAX: usize = 32;

/// Reads a document; `false` if there is no element.
pub(super) fn read(bytes: &[u8], keep: bool, event: &mut Event<'_>) -> bool {
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
