//! One JSON object a line, every field that the event has under its own name.

use inrush_event::{
    Anomalies, Batch, Format, Origin, Record, Timestamp, facility_name, severity_name,
};

use super::epoch::{RenderedSecond, push_ip};
use super::escape::{clear_broken, is_broken};
use super::{json_escape, push_base64};

/// Encodes events as JSON lines. Keep one a thread: it remembers the second it last rendered.
///
/// Fields, in this order, absent ones left out: `time` (the event's own time, RFC 3339 in UTC
/// with milliseconds; the receive time where the sender gave none), `received` (nanoseconds),
/// `host` (the sender's address where none was sent), `source`, `event_source` (the one that a
/// client of an HTTP Event Collector gave), `sourcetype`, `index`, `vendor`, `product`,
/// `class`, `app`, `proc_id`, `msg_id`, `facility`, `severity` (keywords), `sdata`, `fields`
/// (of an event of an HTTP Event Collector, as they were written; of a line of a container, those
/// of its pod and stream), `message`, `raw`, `sender`,
/// `protocol`, `tls_client` (the name in the client's certificate, which was verified),
/// `format`, `anomalies` (a list of names), `raw_base64` (the record as it was received, where
/// it is not UTF-8).
#[derive(Default)]
pub struct JsonLines {
    event_second: RenderedSecond,
    received_second: RenderedSecond,
}

impl JsonLines {
    /// A new encoder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends one event as a line with its line feed.
    pub fn encode(&mut self, batch: &Batch, record: &Record, out: &mut Vec<u8>) {
        self.push_times(batch.time(record), record, out);
        push_names(batch, record, out);
        push_header(batch, record, out);
        clear_broken();
        push_text(out, b",\"raw\":\"", batch.get(record.raw));
        push_arrival(batch, record, out);
        let mut anomalies = record.anomalies;
        if is_broken() {
            anomalies.insert(Anomalies::NOT_UTF8);
        }
        push_anomalies(anomalies, out);
        if anomalies.contains(Anomalies::NOT_UTF8) {
            push_base64(batch.get(record.raw), out);
        }
        out.extend_from_slice(b"}\n");
    }

    fn push_times(&mut self, time: Timestamp, record: &Record, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"time\":\"");
        self.event_second.push_rfc3339(known(time), 3, out);
        out.extend_from_slice(b"\",\"received\":\"");
        self.received_second
            .push_rfc3339(known(record.received), 9, out);
        out.push(b'"');
    }
}

/// 1970 stands in for a record that was given no time at all, which no source produces.
fn known(at: Timestamp) -> Timestamp {
    at.or(Timestamp(0))
}

fn push_names(batch: &Batch, record: &Record, out: &mut Vec<u8>) {
    let names = batch.names(record);
    match (record.host.is_empty(), batch.peer(record)) {
        (true, Some(peer)) => {
            out.extend_from_slice(b",\"host\":\"");
            push_ip(peer.ip, out);
            out.push(b'"');
        }
        _ => push_text(out, b",\"host\":\"", batch.get(record.host)),
    }
    push_text(out, b",\"source\":\"", batch.source().name.as_bytes());
    push_text(out, b",\"event_source\":\"", batch.event_source(record));
    push_text(out, b",\"sourcetype\":\"", names.sourcetype);
    push_text(out, b",\"index\":\"", names.index);
    push_text(out, b",\"vendor\":\"", names.vendor);
    push_text(out, b",\"product\":\"", names.product);
    push_text(out, b",\"class\":\"", names.class);
}

fn push_header(batch: &Batch, record: &Record, out: &mut Vec<u8>) {
    push_text(out, b",\"app\":\"", batch.get(record.app));
    if record.format == Format::Hec {
        push_fields(batch.get(record.sdata), out);
        return push_text(out, b",\"message\":\"", batch.get(record.message));
    }
    let has_fields = record.format.has_json_fields();
    push_text(out, b",\"proc_id\":\"", batch.get(record.proc_id));
    push_text(out, b",\"msg_id\":\"", batch.get(record.msg_id));
    if let (Some(facility), Some(severity)) = (record.facility(), record.severity()) {
        push_text(out, b",\"facility\":\"", facility_name(facility).as_bytes());
        push_text(out, b",\"severity\":\"", severity_name(severity).as_bytes());
    }
    match has_fields {
        true => push_fields(batch.get(record.sdata), out),
        false => push_text(out, b",\"sdata\":\"", batch.get(record.sdata)),
    }
    if let Some(Origin::File(_)) = batch.origin(record) {
        push_class_fields(batch, record, out);
    }
    push_text(out, b",\"message\":\"", batch.get(record.message));
}

/// Appends the indexed fields of an event of a collector, which are a JSON object.
fn push_fields(fields: &[u8], out: &mut Vec<u8>) {
    if !fields.is_empty() {
        out.extend_from_slice(b",\"fields\":");
        out.extend_from_slice(String::from_utf8_lossy(fields).as_bytes());
    }
}

/// Appends the indexed fields that all lines of a log have in common.
fn push_class_fields(batch: &Batch, record: &Record, out: &mut Vec<u8>) {
    let fields = batch.class(record).map_or(&[][..], |class| &class.fields);
    for (number, (name, value)) in fields.iter().enumerate() {
        out.extend_from_slice(match number {
            0 => b",\"fields\":{\"",
            _ => b",\"",
        });
        json_escape(name.as_bytes(), out);
        out.extend_from_slice(b"\":\"");
        json_escape(value.as_bytes(), out);
        out.push(b'"');
    }
    if !fields.is_empty() {
        out.push(b'}');
    }
}

fn push_arrival(batch: &Batch, record: &Record, out: &mut Vec<u8>) {
    if let Some(peer) = batch.peer(record) {
        out.extend_from_slice(b",\"sender\":\"");
        push_ip(peer.ip, out);
        out.push(b'"');
        push_text(out, b",\"protocol\":\"", peer.protocol.name().as_bytes());
        let client = peer.client.as_deref().unwrap_or_default();
        push_text(out, b",\"tls_client\":\"", client.as_bytes());
    } else if let Some((kind, name)) = batch.origin(record).and_then(Origin::named) {
        let origin = format!("{kind}:{name}");
        push_text(out, b",\"origin\":\"", origin.as_bytes());
    }
    push_text(out, b",\"format\":\"", record.format.name().as_bytes());
}

/// Appends `,"key":"value"` unless the value is empty; `key` brings the marks around it.
fn push_text(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    if !value.is_empty() {
        out.extend_from_slice(key);
        json_escape(value, out);
        out.push(b'"');
    }
}

fn push_anomalies(anomalies: Anomalies, out: &mut Vec<u8>) {
    if anomalies.is_empty() {
        return;
    }
    out.extend_from_slice(b",\"anomalies\":");
    let mut mark = b'[';
    for name in anomalies.names() {
        out.extend_from_slice(&[mark, b'"']);
        out.extend_from_slice(name.as_bytes());
        out.push(b'"');
        mark = b',';
    }
    // A set of unknown bits only has no names: still a list.
    if mark == b'[' {
        out.push(mark);
    }
    out.push(b']');
}
