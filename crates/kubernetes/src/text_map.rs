//! Labels and annotations as they are read: a map of texts, bounded.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

/// Bytes of a key that are kept: Kubernetes allows 253 of a prefix, `/` and 63 of a name.
pub(crate) const KEY_BYTES_MAX: usize = 512;
/// Bytes of a value that are kept. A label has 63 at most; an annotation that Inrush reads has a
/// glob or a regular expression.
pub(crate) const VALUE_BYTES_MAX: usize = 16 << 10;
/// Entries of one object that are kept.
pub(crate) const ENTRIES_MAX: usize = 1000;
/// Annotation with a copy of the whole object, which `kubectl apply` adds. No one searches for it,
/// so it is left out without a count.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Labels or annotations of an object.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TextMap {
    /// The entries that are kept, by key.
    pub entries: BTreeMap<Box<str>, Box<str>>,
    /// Entries left out: too long, too many, or no texts.
    pub skipped: u32,
}

impl TextMap {
    /// Value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.entries.get(key).map(|value| &**value)
    }

    fn add(&mut self, key: &str, value: Option<&str>) {
        if key == LAST_APPLIED {
            return;
        }
        let value = value.filter(|value| value.len() <= VALUE_BYTES_MAX);
        let has_room = self.entries.len() < ENTRIES_MAX && key.len() <= KEY_BYTES_MAX;
        match value.filter(|_| has_room) {
            Some(value) => {
                self.entries.insert(key.into(), value.into());
            }
            None => self.skipped = self.skipped.saturating_add(1),
        }
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for TextMap {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        for (key, value) in entries {
            map.add(key.as_ref(), Some(value.as_ref()));
        }
        map
    }
}

impl<'de> Deserialize<'de> for TextMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MapVisitor)
    }
}

struct MapVisitor;

impl<'de> Visitor<'de> for MapVisitor {
    type Value = TextMap;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of texts")
    }

    fn visit_unit<E>(self) -> Result<TextMap, E> {
        Ok(TextMap::default())
    }

    fn visit_none<E>(self) -> Result<TextMap, E> {
        Ok(TextMap::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TextMap, A::Error> {
        let mut texts = TextMap::default();
        while let Some(key) = map.next_key::<String>()? {
            match map.next_value::<TextOrOther>()? {
                TextOrOther::Text(value) => texts.add(&key, Some(&value)),
                TextOrOther::Other(IgnoredAny) => texts.add(&key, None),
            }
        }
        Ok(texts)
    }
}

/// Value of an entry: hostile ones are anything.
#[derive(Deserialize)]
#[serde(untagged)]
enum TextOrOther {
    Text(String),
    Other(IgnoredAny),
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(json: &str) -> TextMap {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn texts_are_kept_and_the_rest_is_counted() {
        let map = read(r#"{"a":"1","b":2,"c":null,"d":{"e":["f"]},"g":""}"#);
        assert_eq!(map.get("a"), Some("1"));
        assert_eq!(map.get("g"), Some(""));
        assert_eq!((map.entries.len(), map.skipped), (2, 3));
        assert_eq!(read("null"), TextMap::default());
        assert!(serde_json::from_str::<TextMap>("[1]").is_err());
    }

    #[test]
    fn long_texts_and_many_entries_are_counted() {
        let long = "x".repeat(256 << 10);
        let map = read(&format!(r#"{{"a":"{long}","{long}":"b","c":"d"}}"#));
        assert_eq!((map.entries.len(), map.skipped), (1, 2));
        let many = (0..ENTRIES_MAX + 7).map(|number| (number.to_string(), "x"));
        let map = many.collect::<TextMap>();
        assert_eq!((map.entries.len(), map.skipped), (ENTRIES_MAX, 7));
        let map = read(&format!(r#"{{"{LAST_APPLIED}":"{long}"}}"#));
        assert_eq!(map, TextMap::default());
    }
}
