//! Samples: events and what must come of them.

use inrush_classify::pack::{Expectation, PackSample};
use inrush_yaml::{NodeKind, YamlNode, quoted};
use serde_json::Value;

use crate::field::PackReader;
use crate::rule::place;

pub(crate) const SAMPLE: &[&str] = &[
    "raw", "expect", "listener", "hint", "sender", "received", "options", "zone",
];
pub(crate) const EXPECT: &[&str] = &[
    "index",
    "sourcetype",
    "source",
    "host",
    "event",
    "time",
    "class",
    "vendor",
    "product",
    "fields",
    "dropped",
];

pub(crate) fn sample(node: &YamlNode, reader: &mut PackReader<'_>) -> Option<PackSample> {
    let mut sample = PackSample {
        at: place(node.at),
        ..PackSample::default()
    };
    for entry in reader.entries(node, "a sample", SAMPLE)? {
        let value = &entry.value;
        let text = |reader: &mut PackReader<'_>| reader.text(value, &entry.key).map(str::to_owned);
        match entry.key.as_str() {
            "raw" => {
                let texts = reader.texts(value, "raw").into_iter();
                sample.raw = texts.map(|(text, _)| text.to_owned()).collect();
            }
            "listener" => sample.listener = text(reader),
            "hint" => {
                let text = text(reader)?;
                sample.hint = reader.product(&text, value.at);
            }
            "sender" => sample.sender = read(text(reader)?, value, "an address", reader),
            "received" => sample.received = read(text(reader)?, value, "a time (RFC 3339)", reader),
            "options" => {
                for option in reader.map(value, "`options`").unwrap_or_default() {
                    let given = reader.text(&option.value, &option.key);
                    let pair = given.map(|given| (option.key.clone(), given.to_owned()));
                    sample.options.extend(pair);
                }
            }
            "expect" => expect(value, &mut sample, reader),
            _ => {}
        }
    }
    if sample.raw.is_empty() {
        reader.findings.add(
            node.at,
            "a sample needs a `raw`: a record, or a list of them",
        );
    }
    if sample.expect.is_empty() {
        reader
            .findings
            .add(node.at, "a sample needs an `expect` with something in it");
    }
    Some(sample)
}

fn read<T: std::str::FromStr>(
    text: String,
    node: &YamlNode,
    what: &str,
    reader: &mut PackReader<'_>,
) -> Option<T> {
    let read = text.parse().ok();
    if read.is_none() {
        reader
            .findings
            .add(node.at, format!("{} is not {what}", quoted(&text)));
    }
    read
}

fn expect(node: &YamlNode, sample: &mut PackSample, reader: &mut PackReader<'_>) {
    for entry in reader.entries(node, "`expect`", EXPECT).unwrap_or_default() {
        if entry.key == "fields" {
            for field in reader.map(&entry.value, "`fields`").unwrap_or_default() {
                sample.expect.push(Expectation {
                    at: place(field.key_at),
                    name: format!("fields.{}", field.key),
                    value: json(&field.value),
                });
            }
            continue;
        }
        sample.expect.push(Expectation {
            at: place(entry.key_at),
            name: entry.key.clone(),
            value: json(&entry.value),
        });
    }
}

/// A value as JSON.
fn json(node: &YamlNode) -> Value {
    match &node.kind {
        NodeKind::Map(entries) => {
            let members = entries.iter();
            Value::Object(members.map(|e| (e.key.clone(), json(&e.value))).collect())
        }
        NodeKind::List(items) => items.iter().map(json).collect(),
        NodeKind::Scalar(scalar) if scalar.is_null() => Value::Null,
        NodeKind::Scalar(scalar) => match (scalar.as_bool(), scalar.plain) {
            (Some(flag), _) => flag.into(),
            (None, true) => serde_json::from_str::<serde_json::Number>(&scalar.text)
                .map_or_else(|_| scalar.text.clone().into(), Value::Number),
            (None, false) => scalar.text.clone().into(),
        },
        NodeKind::Unresolved => Value::Null,
    }
}
