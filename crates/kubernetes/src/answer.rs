//! Answers of the API: pages of lists, and events of watches.
//!
//! # What it guarantees
//! * A page is read object by object. Memory is that of one object and of what is kept.
//! * Any bytes are an object, a named error, or a named anomaly.
//!
//! # Limits
//! An object of a list with more than [`OBJECT_BYTES_MAX`] bytes is skipped and counted. One of
//! more than [`LIST_OBJECT_BYTES_MAX`] ends the list with an error; a server with objects like
//! these has none that it could have stored.

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufReader, Read};

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::anomaly::{ObjectAnomaly, ObjectAnomalyCounts};
use crate::lines::OBJECT_BYTES_MAX;
use crate::objects::WatchedObject;

/// Bytes of an object beyond which its list is given up.
pub(crate) const LIST_OBJECT_BYTES_MAX: usize = 32 << 20;
/// Bytes asked of the connection at once.
const READ_BYTES: usize = 64 << 10;
/// Bytes of a message of the API that are shown.
const MESSAGE_BYTES_SHOWN: usize = 300;

/// One page of a list, beside its objects.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct ListPage {
    /// Version of the list, from which a watch goes on.
    pub(crate) version: String,
    /// Token for the next page; empty on the last one.
    pub(crate) next: String,
}

/// Event of a watch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum WatchEvent<T> {
    /// Added or changed.
    Applied(T),
    /// Removed; the object as it was.
    Deleted(T),
    /// Nothing happened up to its version.
    Bookmark,
    /// The watch is over.
    Failed(StatusAnswer),
    /// Of a type that is not known.
    Unknown,
}

/// Error of the API (`meta/v1` Status).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct StatusAnswer {
    /// As a status of HTTP: 410 if the version is too old.
    pub(crate) code: u16,
    /// The message, for people.
    pub(crate) message: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ListMetaWire {
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    next: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct HeadWire {
    #[serde(rename = "type")]
    kind: Option<String>,
    object: Option<HeadObjectWire>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct HeadObjectWire {
    metadata: Option<ListMetaWire>,
    code: Option<u16>,
    message: Option<String>,
}

#[derive(Deserialize)]
struct BodyWire<T> {
    object: T,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct StatusWire {
    code: Option<u16>,
    message: Option<String>,
}

/// Reads the body of an answer that is no success.
pub(crate) fn read_status(code: u16, body: &[u8]) -> StatusAnswer {
    let wire: StatusWire = serde_json::from_slice(body).unwrap_or_default();
    StatusAnswer {
        code,
        message: shortened(wire.message.unwrap_or_default()),
    }
}

/// A message that fits into a line of a log.
fn shortened(message: String) -> String {
    let plain: String = message.chars().filter(|c| !c.is_control()).collect();
    let cut = (0..=MESSAGE_BYTES_SHOWN.min(plain.len())).rev();
    let end = cut.into_iter().find(|&at| plain.is_char_boundary(at));
    plain[..end.unwrap_or_default()].to_owned()
}

/// Reads one event of a watch, and the version of its object; an empty one if it has none.
///
/// # Errors
/// It is no JSON of the expected shape.
pub(crate) fn read_event<T: WatchedObject>(
    line: &[u8],
) -> Result<(WatchEvent<T>, String), serde_json::Error> {
    let head: HeadWire = serde_json::from_slice(line)?;
    let object = head.object.unwrap_or_default();
    let version = object.metadata.unwrap_or_default().resource_version;
    let body = || serde_json::from_slice::<BodyWire<T>>(line).map(|body| body.object);
    let event = match head.kind.as_deref() {
        Some("ADDED" | "MODIFIED") => WatchEvent::Applied(body()?),
        Some("DELETED") => WatchEvent::Deleted(body()?),
        Some("BOOKMARK") => WatchEvent::Bookmark,
        Some("ERROR") => WatchEvent::Failed(StatusAnswer {
            code: object.code.unwrap_or_default(),
            message: shortened(object.message.unwrap_or_default()),
        }),
        _ => WatchEvent::Unknown,
    };
    Ok((event, version.unwrap_or_default()))
}

/// Reads a page of a list; `take` gets each object.
///
/// # Errors
/// The body breaks off, is no list, or has an object beyond [`LIST_OBJECT_BYTES_MAX`].
pub(crate) fn read_list<T: WatchedObject>(
    body: impl Read,
    anomalies: &ObjectAnomalyCounts,
    take: &mut dyn FnMut(T),
) -> Result<ListPage, serde_json::Error> {
    let count = Cell::new(0);
    let reader = CountingReader {
        inner: BufReader::with_capacity(READ_BYTES, body),
        count: &count,
    };
    let mut json = serde_json::Deserializer::from_reader(reader);
    let seed = ListSeed {
        count: &count,
        anomalies,
        take,
    };
    let page = seed.deserialize(&mut json)?;
    json.end()?;
    Ok(page)
}

/// Counts the bytes of the current object.
struct CountingReader<'c, R> {
    inner: BufReader<R>,
    count: &'c Cell<usize>,
}

impl<R: Read> Read for CountingReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let count = self.count.get().saturating_add(read);
        self.count.set(count);
        match count > LIST_OBJECT_BYTES_MAX {
            true => Err(io::Error::other("an object of the list is too large")),
            false => Ok(read),
        }
    }
}

struct ListSeed<'a, T> {
    count: &'a Cell<usize>,
    anomalies: &'a ObjectAnomalyCounts,
    take: &'a mut dyn FnMut(T),
}

impl<'de, T: WatchedObject> DeserializeSeed<'de> for ListSeed<'_, T> {
    type Value = ListPage;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<ListPage, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, T: WatchedObject> Visitor<'de> for ListSeed<'_, T> {
    type Value = ListPage;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of the Kubernetes API")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ListPage, A::Error> {
        let (mut page, mut has_items) = (ListPage::default(), false);
        while let Some(key) = map.next_key::<String>()? {
            self.count.set(0);
            match key.as_str() {
                "metadata" => {
                    let meta = map
                        .next_value::<Option<ListMetaWire>>()?
                        .unwrap_or_default();
                    page.version = meta.resource_version.unwrap_or_default();
                    page.next = meta.next.unwrap_or_default();
                }
                "items" => {
                    has_items = true;
                    map.next_value_seed(ItemsSeed {
                        count: self.count,
                        anomalies: self.anomalies,
                        take: &mut *self.take,
                    })?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        match has_items && !page.version.is_empty() {
            true => Ok(page),
            false => Err(serde::de::Error::custom(
                "no list: `items` or its version is missing",
            )),
        }
    }
}

/// The objects of a list, or `null` for none.
struct ItemsSeed<'a, T> {
    count: &'a Cell<usize>,
    anomalies: &'a ObjectAnomalyCounts,
    take: &'a mut dyn FnMut(T),
}

impl<'de, T: WatchedObject> DeserializeSeed<'de> for ItemsSeed<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: WatchedObject> Visitor<'de> for ItemsSeed<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("objects")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        loop {
            self.count.set(0);
            let Some(object) = items.next_element::<T>()? else {
                return Ok(());
            };
            if self.count.get() > OBJECT_BYTES_MAX {
                self.anomalies.count(ObjectAnomaly::ObjectTooLarge);
            } else if object.is_named() {
                let skipped = u64::from(object.skipped());
                self.anomalies.add(ObjectAnomaly::PartSkipped, skipped);
                (self.take)(object);
            } else {
                self.anomalies.count(ObjectAnomaly::UnnamedObject);
            }
        }
    }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
