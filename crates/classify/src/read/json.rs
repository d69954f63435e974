//! JSON objects, flattened in one pass.

use std::fmt;

use inrush_event::Span;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use crate::event::Event;

/// Reads an object and says where it lies: at `span`, or beside the message where control
/// characters had to be escaped. `None` if it is none; objects nested deeper than 128 levels are
/// none (`serde_json`'s bound).
pub(super) fn read(bytes: &[u8], span: Span, keep: bool, event: &mut Event<'_>) -> Option<Span> {
    if bytes.first() != Some(&b'{') {
        return None;
    }
    let before = event.scratch.values.len();
    if members(bytes, keep, event) {
        return Some(span);
    }
    let text = without_raw_controls(bytes)?;
    event.scratch.values.truncate(before);
    let span = event.keep(&text);
    members(&text, keep, event).then_some(span)
}

fn members(bytes: &[u8], keep: bool, event: &mut Event<'_>) -> bool {
    let mut path = Vec::new();
    let member = MemberValueSeed {
        path: &mut path,
        keep,
        event,
    };
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    member.deserialize(&mut reader).is_ok() && reader.end().is_ok()
}

/// The text with the control characters inside its strings escaped, which JSON asks for and many
/// do not do; `None` if there are none.
#[cold]
fn without_raw_controls(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(bytes.len() + 16);
    let (mut inside, mut escaped, mut found) = (false, false, false);
    for &byte in bytes {
        if inside && byte < b' ' {
            found = true;
            let _ = std::io::Write::write_fmt(&mut text, format_args!("\\u{byte:04x}"));
            escaped = false;
            continue;
        }
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = inside,
            b'"' => inside = !inside,
            _ => {}
        }
        text.push(byte);
    }
    found.then_some(text)
}

/// The name of a member, which is put behind the path to its object.
struct MemberNameSeed<'v>(&'v mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for MemberNameSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for MemberNameSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<(), E> {
        if !self.0.is_empty() {
            self.0.push(b'.');
        }
        self.0.extend_from_slice(name.as_bytes());
        Ok(())
    }
}

/// Value at a path of the JSON document.
struct MemberValueSeed<'v, 'a> {
    path: &'v mut Vec<u8>,
    keep: bool,
    event: &'v mut Event<'a>,
}

impl MemberValueSeed<'_, '_> {
    fn text(self, text: &[u8]) {
        let span = self.event.keep(text);
        self.event.add(self.path, span, self.keep, false);
    }

    fn literal(self, text: &[u8]) {
        let span = self.event.keep(text);
        self.event.add(self.path, span, self.keep, true);
    }
}

impl<'de> DeserializeSeed<'de> for MemberValueSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for MemberValueSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let length = self.path.len();
        while map.next_key_seed(MemberNameSeed(self.path))?.is_some() {
            let only = self.event.only;
            if only.is_some_and(|only| !only.leads_on(self.path)) {
                self.path.truncate(length);
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            map.next_value_seed(MemberValueSeed {
                path: self.path,
                keep: self.keep,
                event: self.event,
            })?;
            self.path.truncate(length);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<(), A::Error> {
        let list = serde_json::Value::deserialize(SeqAccessDeserializer::new(list))?;
        self.literal(list.to_string().as_bytes());
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.text(text.as_bytes());
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.literal(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.literal(value.to_string().as_bytes());
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.literal(value.to_string().as_bytes());
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        let number = serde_json::Number::from_f64(value);
        let text = number.map_or_else(|| "null".to_owned(), |number| number.to_string());
        self.literal(text.as_bytes());
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.literal(b"null");
        Ok(())
    }
}
