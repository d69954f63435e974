//! Event object of the API (core/v1), and the event that Inrush makes of it.
//!
//! core/v1 and not events.k8s.io/v1: the server keeps one object for both, and core/v1 has the
//! names that searches and tools use (`involvedObject`, `message`, `count`, `lastTimestamp`).
//! The other one calls the last two deprecated, and both are in use.
//!
//! # What it guarantees
//! * The text is the object as the API has it, but for `metadata.managedFields`: nobody reads it.
//! * Fields name the object that the event is about. Each has at most [`FIELD_BYTES_MAX`] bytes.
//! * The time is that at which the event was last seen, by the clock of its reporter.

use inrush_event::Timestamp;
use jiff::Timestamp as Instant;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::objects::WatchedObject;

/// Bytes of a field's value; names of objects have 253.
const FIELD_BYTES_MAX: usize = 1024;

/// Indexed fields, each with its path in the object. The names are those of OpenTelemetry's
/// receiver of Kubernetes events, as Splunk's collector sends them.
const FIELDS: [(&str, &[&str]); 11] = [
    ("k8s.namespace.name", &["involvedObject", "namespace"]),
    ("k8s.object.kind", &["involvedObject", "kind"]),
    ("k8s.object.name", &["involvedObject", "name"]),
    ("k8s.object.uid", &["involvedObject", "uid"]),
    ("k8s.object.api_version", &["involvedObject", "apiVersion"]),
    ("k8s.object.fieldpath", &["involvedObject", "fieldPath"]),
    ("k8s.event.reason", &["reason"]),
    ("k8s.event.action", &["action"]),
    ("k8s.event.name", &["metadata", "name"]),
    ("k8s.event.uid", &["metadata", "uid"]),
    ("k8s.event.type", &["type"]),
];

/// Times of an event, the one that counts first.
const TIMES: [&[&str]; 5] = [
    &["series", "lastObservedTime"],
    &["lastTimestamp"],
    &["eventTime"],
    &["firstTimestamp"],
    &["metadata", "creationTimestamp"],
];

/// Event of the cluster, at one version.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClusterEvent {
    /// The object as JSON.
    pub text: Vec<u8>,
    /// Indexed fields: a JSON object.
    pub fields: Vec<u8>,
    /// Time at which it was last seen.
    pub time: Timestamp,
    /// Node of the reporter, if it names one.
    pub host: String,
    /// True for the type `Warning`.
    pub is_warning: bool,
    /// Identity of the object.
    pub uid: String,
    /// `metadata.resourceVersion`; `None`: it is no number, or missing.
    pub version: Option<u64>,
}

impl<'de> Deserialize<'de> for ClusterEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = Map::deserialize(deserializer)?;
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            metadata.remove("managedFields");
        }
        Ok(Self::of(&object))
    }
}

impl ClusterEvent {
    fn of(object: &Map<String, Value>) -> Self {
        let mut fields = Map::new();
        for (name, path) in FIELDS {
            if let Some(text) = text_at(object, path).filter(|text| !text.is_empty()) {
                fields.insert(name.to_owned(), shortened(text).into());
            }
        }
        if let Some(count) = object.get("count").and_then(Value::as_u64) {
            fields.insert("k8s.event.count".to_owned(), count.to_string().into());
        }
        let times = TIMES.iter().filter_map(|path| text_at(object, path));
        let time = times.filter_map(time_of).next();
        let host = text_at(object, &["source", "host"]).unwrap_or_default();
        let version = text_at(object, &["metadata", "resourceVersion"]);
        Self {
            text: serde_json::to_vec(object).unwrap_or_default(),
            fields: serde_json::to_vec(&fields).unwrap_or_default(),
            time: time.unwrap_or(Timestamp::NONE),
            host: shortened(host).to_owned(),
            is_warning: text_at(object, &["type"]) == Some("Warning"),
            uid: text_at(object, &["metadata", "uid"])
                .map(shortened)
                .unwrap_or_default()
                .to_owned(),
            version: version.and_then(|version| version.parse().ok()),
        }
    }
}

impl WatchedObject for ClusterEvent {
    fn is_named(&self) -> bool {
        !self.uid.is_empty() && self.version.is_some()
    }

    fn skipped(&self) -> u32 {
        0
    }
}

fn text_at<'o>(object: &'o Map<String, Value>, path: &[&str]) -> Option<&'o str> {
    let (first, rest) = path.split_first()?;
    let mut value = object.get(*first)?;
    for name in rest {
        value = value.get(name)?;
    }
    value.as_str()
}

/// RFC 3339, as the API writes times; one of year 1 stands for none there.
fn time_of(text: &str) -> Option<Timestamp> {
    let time: Instant = text.parse().ok()?;
    let nanoseconds = i64::try_from(time.as_nanosecond()).ok()?;
    (nanoseconds > 0).then_some(Timestamp(nanoseconds))
}

fn shortened(text: &str) -> &str {
    let end = (0..=FIELD_BYTES_MAX.min(text.len())).rev();
    let end = end.into_iter().find(|&at| text.is_char_boundary(at));
    text.get(..end.unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const EVENT: &str = r#"{"metadata":{"name":"web.17a","namespace":"shop","uid":"u-1",
        "resourceVersion":"77","creationTimestamp":"2026-03-04T05:06:07Z",
        "managedFields":[{"manager":"kubelet"}]},
        "involvedObject":{"kind":"Pod","namespace":"shop","name":"web","uid":"u-2",
        "apiVersion":"v1","fieldPath":"spec.containers{web}"},
        "reason":"BackOff","message":"Back-off restarting","count":3,"type":"Warning",
        "source":{"component":"kubelet","host":"node-1"},
        "firstTimestamp":"2026-03-04T05:06:07Z","lastTimestamp":"2026-03-04T05:10:00Z",
        "eventTime":null}"#;

    fn read(text: &str) -> ClusterEvent {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn an_event_has_the_object_that_it_is_about_as_fields() {
        let event = read(EVENT);
        let fields: Value = serde_json::from_slice(&event.fields).unwrap();
        let expected = serde_json::json!({
            "k8s.namespace.name": "shop", "k8s.object.kind": "Pod", "k8s.object.name": "web",
            "k8s.object.uid": "u-2", "k8s.object.api_version": "v1",
            "k8s.object.fieldpath": "spec.containers{web}", "k8s.event.reason": "BackOff",
            "k8s.event.name": "web.17a", "k8s.event.uid": "u-1", "k8s.event.type": "Warning",
            "k8s.event.count": "3",
        });
        assert_eq!(fields, expected);
        let text: Value = serde_json::from_slice(&event.text).unwrap();
        assert_eq!(text["message"], "Back-off restarting");
        assert_eq!(text["metadata"].get("managedFields"), None);
        assert_eq!(event.time, Timestamp(1_772_601_000_000_000_000));
        assert_eq!((event.host.as_str(), event.is_warning), ("node-1", true));
        assert_eq!((event.uid.as_str(), event.version), ("u-1", Some(77)));
        assert!(event.is_named());
    }

    #[test]
    fn the_last_time_counts_and_a_series_has_its_own() {
        let seconds = |times: &str| {
            let text =
                format!(r#"{{"metadata":{{"creationTimestamp":"1970-01-01T00:00:09Z"}}{times}}}"#);
            read(&text).time.0 / 1_000_000_000
        };
        assert_eq!(seconds(""), 9);
        assert_eq!(seconds(r#","eventTime":"1970-01-01T00:00:08.5Z""#), 8);
        assert_eq!(seconds(r#","eventTime":"0001-01-01T00:00:00Z""#), 9);
        let both = r#","eventTime":"1970-01-01T00:00:08Z","lastTimestamp":"1970-01-01T00:00:07Z""#;
        assert_eq!(seconds(both), 7);
        let series = format!(r#"{both},"series":{{"lastObservedTime":"1970-01-01T00:01:00Z"}}"#);
        assert_eq!(seconds(&series), 60);
    }

    #[test]
    fn odd_objects_are_events_without_what_they_lack() {
        for text in [
            "{}",
            r#"{"metadata":7,"involvedObject":[],"count":-1,"type":null}"#,
        ] {
            let event = read(text);
            assert!(!event.is_named());
            assert_eq!(
                (event.time, event.fields.as_slice()),
                (Timestamp::NONE, &b"{}"[..])
            );
        }
        let unnumbered = read(r#"{"metadata":{"uid":"u","resourceVersion":"1x"}}"#);
        assert!(!unnumbered.is_named());
        let long = "ä".repeat(FIELD_BYTES_MAX);
        let event = read(&format!(r#"{{"reason":"{long}"}}"#));
        let fields: Value = serde_json::from_slice(&event.fields).unwrap();
        assert_eq!(
            fields["k8s.event.reason"].as_str().unwrap().len(),
            FIELD_BYTES_MAX
        );
    }
}
