//! One JSON object a record.

use inrush_codec::encode::push_rfc3339_ns;
use inrush_event::{Timestamp, facility_name, severity_name};
use inrush_ingest::timezone::offset;
use serde_json::{Map, Value, json};

use super::{RULE, RecordExplanation, reason};

pub(super) fn object(explained: &RecordExplanation) -> Result<Vec<u8>, serde_json::Error> {
    let mut object = Map::new();
    header(explained, &mut object);
    time(explained, &mut object);
    let anomaly = |(name, meaning)| json!({ "name": name, "meaning": meaning });
    object.insert(
        "anomalies".into(),
        explained.anomalies().map(anomaly).collect(),
    );
    decision(explained, &mut object);
    event(explained, &mut object);
    let mut text = serde_json::to_vec(&object)?;
    text.pop();
    if explained.hec.is_empty() {
        text.extend_from_slice(b",\"hec\":null");
        envelopes(&explained.envelopes, &mut text);
        return Ok(text);
    }
    text.extend_from_slice(b",\"hec\":");
    text.extend_from_slice(&explained.hec);
    envelopes(&explained.envelopes, &mut text);
    Ok(text)
}

/// Ends an object with the list of envelopes, the very texts that would be sent.
fn envelopes(envelopes: &[Vec<u8>], text: &mut Vec<u8>) {
    text.extend_from_slice(b",\"envelope\":[");
    text.extend_from_slice(&envelopes.join(&b","[..]));
    text.extend_from_slice(b"]}");
}

/// Envelopes that waited at the end of the input for parts that did not come, as one JSON object.
pub fn rest(waited: &[Vec<u8>]) -> Vec<u8> {
    let why = "the input ended; these waited for further parts";
    let mut text = json!({ "record": null, "why": why })
        .to_string()
        .into_bytes();
    text.pop();
    envelopes(waited, &mut text);
    text
}

fn header(explained: &RecordExplanation, object: &mut Map<String, Value>) {
    let record = &explained.record;
    object.insert("record".into(), explained.number.into());
    object.insert("format".into(), record.format.name().into());
    object.insert(
        "facility".into(),
        record.facility().map(facility_name).into(),
    );
    object.insert(
        "severity".into(),
        record.severity().map(severity_name).into(),
    );
    for (name, bytes) in explained.fields() {
        object.insert(name.into(), bytes.map(String::from_utf8_lossy).into());
    }
}

/// Values of an event of a collector, and the places that they come from.
fn event(explained: &RecordExplanation, object: &mut Map<String, Value>) {
    let Some(values) = &explained.values else {
        return;
    };
    let value = |one: &super::collector::EventValue| {
        let text = String::from_utf8_lossy(&one.value);
        (
            one.name.to_owned(),
            json!({ "value": text, "from": one.from }),
        )
    };
    if let Some(lines) = &explained.lines {
        object.insert(
            "lines".into(),
            json!({
                "first": lines.first,
                "last": lines.last,
                "pieces": lines.pieces,
                "stream": lines.stream,
                "fault": lines.fault,
            }),
        );
        let fields = explained.class_fields().iter();
        let fields = fields.map(|(name, value)| (name.clone(), Value::from(value.as_str())));
        object.insert("class_fields".into(), Value::Object(fields.collect()));
    }
    object.insert("event_number".into(), explained.event_number().into());
    object.insert(
        "values".into(),
        Value::Object(values.iter().map(value).collect()),
    );
    let written = |bytes: &[u8]| -> Value {
        let lossy = || String::from_utf8_lossy(bytes).into_owned().into();
        serde_json::from_slice(bytes).unwrap_or_else(|_| lossy())
    };
    object.insert("event".into(), explained.event().map(written).into());
    let fields = explained.indexed_fields().map(written);
    object.insert("indexed_fields".into(), fields.into());
}

fn time(explained: &RecordExplanation, object: &mut Map<String, Value>) {
    let record = &explained.record;
    let zone = (record.zone_minutes != inrush_event::Record::ZONE_NONE)
        .then(|| offset(record.zone_minutes));
    object.insert("event_time".into(), rfc3339(record.event_time).into());
    object.insert("zone".into(), zone.into());
    object.insert("time_notes".into(), explained.time_notes().into());
    object.insert("received".into(), rfc3339(record.received).into());
}

fn decision(explained: &RecordExplanation, object: &mut Map<String, Value>) {
    let source = explained.batch.source();
    let names = explained.batch.names(&explained.record);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let rules = explained.rules();
    let rule = match (&explained.filtered, rules) {
        (Some(rule), _) => rule,
        (None, "") => RULE,
        (None, rules) => rules,
    };
    object.insert("class".into(), explained.class().into());
    object.insert("rule".into(), rule.into());
    object.insert("why".into(), explained.why().into());
    object.insert("index".into(), text(names.index).into());
    object.insert("sourcetype".into(), text(names.sourcetype).into());
    object.insert("filtered".into(), explained.filtered.is_some().into());
    object.insert("transforms".into(), explained.transforms.clone().into());
    object.insert("destinations".into(), explained.destinations.clone().into());
    if let Some((rule, fate)) = &explained.part {
        object.insert("part".into(), json!({ "rule": rule, "fate": fate.name() }));
    }
    let considered = explained.considered.iter().flatten().map(|one| {
        json!({
            "rule": one.rule, "stage": one.stage, "taken": reason(&one.outcome).is_none(),
            "reason": reason(&one.outcome),
        })
    });
    object.insert("considered".into(), considered.collect());
    let fields = explained.fields().into_iter();
    let fields = fields.filter_map(|(name, bytes)| Some((name.to_owned(), text(bytes?).into())));
    object.insert("fields".into(), Value::Object(fields.collect()));
    let spans = explained.spans().into_iter();
    let spans = spans.map(|(name, span)| (name.to_owned(), json!([span.start(), span.end()])));
    object.insert("spans".into(), Value::Object(spans.collect()));
    object.insert("source".into(), source.name.as_str().into());
    let peer = explained.peer();
    object.insert("sender".into(), peer.map(|peer| peer.ip.to_string()).into());
    object.insert(
        "protocol".into(),
        peer.map(|peer| peer.protocol.name()).into(),
    );
    if let Some(client) = peer.and_then(|peer| peer.client.as_deref()) {
        object.insert("tls_client".into(), client.into());
    }
}

/// RFC 3339 in UTC with nanoseconds.
pub fn rfc3339(at: Timestamp) -> Option<String> {
    at.is_some().then(|| {
        let mut text = Vec::new();
        push_rfc3339_ns(at, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    })
}
