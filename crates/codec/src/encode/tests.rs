//! Encoders against events made by hand, and against a JSON parser.
#![allow(clippy::unwrap_used)]

use std::net::IpAddr;
use std::sync::Arc;

use inrush_event::{
    Anomalies, Batch, BatchPool, Format, Peer, Protocol, Record, SourceInfo, Span, Timestamp,
    limits,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// 2024-05-06T07:08:09.123456789Z
const WHEN: Timestamp = Timestamp(1_714_979_289_123_456_789);

fn peer(last: u8, protocol: Protocol) -> Peer {
    Peer {
        ip: IpAddr::from([10, 0, 0, last]),
        local_port: 514,
        protocol,
        client: (protocol == Protocol::Tls).then(|| format!("relay-{last}.example.com").into()),
    }
}

/// A batch of one record for each text, whose spans `shape` may set (offsets are absolute).
fn batch(texts: &[&[u8]], shape: impl Fn(&mut Record, usize)) -> Batch {
    let source = Arc::new(SourceInfo {
        name: "edge".into(),
        index: "netfw".into(),
        sourcetype: "sc4s:fallback".into(),
    });
    let mut builder = BatchPool::new().lend(&source, limits::MESSAGE_BYTES_DEFAULT);
    for (index, text) in texts.iter().enumerate() {
        let start = builder.filled();
        builder.extend(text);
        let raw = Span::new(start, builder.filled());
        let sender = builder.peer(peer(index as u8 % 2 + 1, Protocol::Tls));
        let mut record = Record::unparsed(raw, WHEN, sender, Anomalies::NONE);
        shape(&mut record, start);
        builder.parts().1.push(record);
    }
    builder.freeze(0)
}

/// The span of `part` in `whole`, which starts at `base` in the arena.
fn find(whole: &str, base: usize, part: &str) -> Span {
    let at = base + whole.find(part).unwrap();
    Span::new(at, at + part.len())
}

fn options() -> HecOptions {
    HecOptions {
        index: None,
        source: None,
        container: "inrush-1".into(),
        indexed_fields: IndexedField::ALL.to_vec(),
    }
}

fn hec(batch: &Batch, options: HecOptions) -> Vec<Value> {
    let mut encoder = HecEncoder::new(options);
    let decode = |record| {
        let mut out = Vec::new();
        encoder.encode(batch, record, b"", &mut out);
        serde_json::from_slice(&out).unwrap()
    };
    batch.records().iter().map(decode).collect()
}

const LEGACY: &str = "<134>May  6 07:08:09 FW-1 sshd[42]: a \"quoted\" \\ line\tend";

fn legacy() -> Batch {
    batch(&[LEGACY.as_bytes()], |record, base| {
        record.format = Format::Rfc3164;
        record.pri = 134;
        record.host = find(LEGACY, base, "FW-1");
        record.app = find(LEGACY, base, "sshd");
        record.proc_id = find(LEGACY, base, "42");
        record.message = find(LEGACY, base, "a \"quoted\" \\ line\tend");
        record.event_time = Timestamp(WHEN.0 - 1_000_000_000);
    })
}

#[test]
fn a_legacy_event_keeps_its_tag_as_received() {
    assert_eq!(
        hec(&legacy(), options())[0],
        json!({
            "time": "1714979288.123", "host": "fw-1", "source": "inrush:edge",
            "sourcetype": "sc4s:fallback", "index": "netfw",
            "event": "sshd[42]: a \"quoted\" \\ line\tend",
            "fields": {
                "sc4s_container": "inrush-1", "sc4s_destport": 514,
                "sc4s_fromhostip": "10.0.0.1", "sc4s_proto": "TCP",
                "tls_client": "relay-1.example.com",
                "sc4s_syslog_facility": "local0", "sc4s_syslog_severity": "info",
                "sc4s_recv_time": "1714979289.123"
            }
        })
    );
}

#[test]
fn an_entry_of_a_journal_is_its_text_and_its_fields() {
    let text = r#"web-3nginx12{"_PID":"12","X":["a","b"]}it "stopped""#;
    let entry = |fields: bool| {
        batch(&[text.as_bytes()], move |record, base| {
            record.format = Format::Journal;
            record.pri = 28;
            record.host = find(text, base, "web-3");
            record.app = find(text, base, "nginx");
            record.proc_id = find(text, base, "12");
            if fields {
                record.sdata = find(text, base, r#"{"_PID":"12","X":["a","b"]}"#);
            }
            record.message = find(text, base, r#"it "stopped""#);
            record.raw = record.message;
            record.event_time = Timestamp(WHEN.0 - 1_000_000_000);
        })
    };
    // The class of an event whose source names it.
    let mut expected = json!({
        "time": "1714979288.123", "host": "web-3", "source": "inrush:edge",
        "sourcetype": "sc4s:fallback", "index": "netfw",
        "event": "nginx[12]: it \"stopped\"",
        "fields": { "_PID": "12", "X": ["a", "b"] }
    });
    assert_eq!(hec(&entry(true), options())[0], expected);
    expected.as_object_mut().unwrap().remove("fields");
    assert_eq!(hec(&entry(false), options())[0], expected);

    let mut out = Vec::new();
    let made = entry(true);
    JsonLines::new().encode(&made, &made.records()[0], &mut out);
    let line: Value = serde_json::from_slice(&out).unwrap();
    let found = [
        "app", "proc_id", "severity", "facility", "message", "format",
    ];
    let found = found.map(|name| line[name].as_str().unwrap_or_default());
    let expected = [
        "nginx",
        "12",
        "warning",
        "daemon",
        "it \"stopped\"",
        "journal",
    ];
    assert_eq!(found, expected);
    assert_eq!(line["fields"], json!({ "_PID": "12", "X": ["a", "b"] }));
    assert_eq!(line.get("sdata"), None);
}

/// SC4S's words, and what it takes a record without a PRI for.
#[test]
fn facilities_have_the_names_that_sc4s_gives_them() {
    for (pri, facility, severity) in [
        (Record::PRI_NONE, "user", "notice"),
        (13 << 3, "security", "emerg"),
        ((14 << 3) | 6, "console", "info"),
        (191, "local7", "debug"),
    ] {
        let made = batch(&["hello".as_bytes()], |record, _| record.pri = pri);
        let fields = &hec(&made, options())[0]["fields"];
        assert_eq!(fields["sc4s_syslog_facility"], facility, "{pri}");
        assert_eq!(fields["sc4s_syslog_severity"], severity, "{pri}");
    }
}

#[test]
fn a_5424_event_has_its_message_directly_behind_the_structured_data() {
    let text = "<165>1 2024-05-06T07:08:09Z h app 7 ID47 [a b=\"c\"] hello";
    let full = batch(&[text.as_bytes()], |record, base| {
        record.format = Format::Rfc5424;
        record.app = find(text, base, "app");
        record.proc_id = find(text, base, "7 ID").start_only(1);
        record.msg_id = find(text, base, "ID47");
        record.sdata = find(text, base, "[a b=\"c\"]");
        record.message = find(text, base, "hello");
    });
    assert_eq!(
        hec(&full, options())[0]["event"],
        "- - app 7 ID47 [a b=\"c\"]hello"
    );
    let nil = batch(&[text.as_bytes()], |record, base| {
        record.format = Format::Rfc5424;
        record.message = find(text, base, "hello");
    });
    assert_eq!(hec(&nil, options())[0]["event"], "- - - - - -hello");
}

trait StartOnly {
    fn start_only(self, len: u32) -> Self;
}

impl StartOnly for Span {
    fn start_only(self, len: u32) -> Self {
        Self { len, ..self }
    }
}

#[test]
fn an_event_is_never_blank() {
    let text: &[u8] = b"<13>May  6 07:08:09 host";
    let blank = batch(&[text], |record, _| {
        record.format = Format::Rfc3164;
        record.message = Span::EMPTY;
    });
    assert_eq!(
        hec(&blank, options())[0]["event"],
        "<13>May  6 07:08:09 host"
    );
    let tag_only = batch(&[b"<13>sshd:"], |record, base| {
        record.format = Format::Rfc3164;
        record.app = Span::new(base + 4, base + 8);
        record.message = Span::EMPTY;
    });
    assert_eq!(hec(&tag_only, options())[0]["event"], "sshd:");
}

#[test]
fn what_senders_share_is_not_mixed_up() {
    let many = batch(&[b"one", b"two", b"three"], |record, _| {
        if record.peer == 1 {
            record.pri = 3;
            record.anomalies = Anomalies::NO_TIME.union(Anomalies::NO_HOST);
            record.received = Timestamp(WHEN.0 + 5_000_000_000);
        }
    });
    let events = hec(&many, options());
    for (event, ip, time) in [
        (&events[0], "10.0.0.1", "1714979289.123"),
        (&events[1], "10.0.0.2", "1714979294.123"),
        (&events[2], "10.0.0.1", "1714979289.123"),
    ] {
        assert_eq!(event["host"], ip);
        assert_eq!(event["fields"]["sc4s_fromhostip"], ip);
        assert_eq!(event["fields"]["sc4s_recv_time"], time);
    }
    assert_eq!(events[1]["fields"]["sc4s_syslog_severity"], "err");
    assert_eq!(events[1]["fields"]["inrush_anomalies"], "no_time|no_host");
    assert_eq!(events[2]["fields"]["sc4s_syslog_severity"], "notice");
    assert_eq!(events[2]["fields"].get("inrush_anomalies"), None);
}

#[test]
fn one_encoder_serves_batches_of_several_sources_and_senders() {
    let mut encoder = HecEncoder::new(options());
    let mut text = |batch: &Batch| {
        let mut out = Vec::new();
        encoder.encode(batch, &batch.records()[0], b"", &mut out);
        serde_json::from_slice::<Value>(&out).unwrap()
    };
    let first = batch(&[b"one"], |_, _| {});
    assert_eq!(text(&first)["source"], "inrush:edge");
    let other = Arc::new(SourceInfo {
        name: "core".into(),
        index: "main".into(),
        sourcetype: "syslog".into(),
    });
    let mut builder = BatchPool::new().lend(&other, limits::MESSAGE_BYTES_DEFAULT);
    builder.extend(b"two");
    let sender = builder.peer(peer(9, Protocol::Udp));
    let record = Record::unparsed(Span::new(0, 3), WHEN, sender, Anomalies::NONE);
    builder.parts().1.push(record);
    let second = text(&builder.freeze(1));
    assert_eq!(second["source"], "inrush:core");
    assert_eq!(second["fields"]["sc4s_fromhostip"], "10.0.0.9");
    assert_eq!(second["fields"]["sc4s_proto"], "UDP");
    assert_eq!(text(&first)["fields"]["sc4s_fromhostip"], "10.0.0.1");
}

#[test]
fn fields_are_sent_as_configured() {
    let none = HecOptions {
        indexed_fields: Vec::new(),
        source: Some("x\"y".into()),
        ..options()
    };
    let event = &hec(&legacy(), none)[0];
    assert_eq!(event.get("fields"), None);
    assert_eq!(event["source"], "x\"y");
    let one = HecOptions {
        indexed_fields: vec![IndexedField::Destport],
        ..options()
    };
    assert_eq!(
        hec(&legacy(), one)[0]["fields"],
        json!({ "sc4s_destport": 514 })
    );
}

#[test]
fn json_lines_name_every_field_that_is_there() {
    let mut out = Vec::new();
    let legacy = legacy();
    JsonLines::new().encode(&legacy, &legacy.records()[0], &mut out);
    assert_eq!(out.pop(), Some(b'\n'));
    assert_eq!(
        serde_json::from_slice::<Value>(&out).unwrap(),
        json!({
            "time": "2024-05-06T07:08:08.123Z", "received": "2024-05-06T07:08:09.123456789Z",
            "host": "FW-1", "source": "edge", "sourcetype": "sc4s:fallback", "index": "netfw",
            "app": "sshd", "proc_id": "42", "facility": "local0", "severity": "info",
            "message": "a \"quoted\" \\ line\tend", "raw": LEGACY, "sender": "10.0.0.1",
            "protocol": "tls", "tls_client": "relay-1.example.com", "format": "rfc3164"
        })
    );
}

#[test]
fn json_lines_leave_out_what_is_absent_and_show_what_is_odd() {
    let odd = batch(&[b"\xff\xfe raw"], |record, _| {
        record.anomalies = Anomalies::CLOCK_UNSYNCED
    });
    let mut out = Vec::new();
    JsonLines::new().encode(&odd, &odd.records()[0], &mut out);
    let event: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(event["raw"], "\u{fffd}\u{fffd} raw");
    assert_eq!(event["host"], "10.0.0.1");
    assert_eq!(event["anomalies"], json!(["clock_unsynced", "not_utf8"]));
    assert_eq!(event["raw_base64"], "//4gcmF3");
    assert_eq!(event.get("app"), None);
    assert_eq!(event.get("severity"), None);
}

#[test]
fn times_are_rendered_on_both_sides_of_1970() {
    for (ns, epoch, civil) in [
        (0, "0.000", "1970-01-01T00:00:00.000000000Z"),
        (
            951_782_400_000_000_001,
            "951782400.000",
            "2000-02-29T00:00:00.000000001Z",
        ),
        (-1, "-1.999", "1969-12-31T23:59:59.999999999Z"),
        (i64::MAX, "9223372036.854", "2262-04-11T23:47:16.854775807Z"),
    ] {
        let mut out = Vec::new();
        push_epoch_ms(Timestamp(ns), &mut out);
        assert_eq!(String::from_utf8(std::mem::take(&mut out)).unwrap(), epoch);
        push_rfc3339_ns(Timestamp(ns), &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), civil);
    }
}

fn escaped(bytes: &[u8]) -> String {
    let mut out = b"\"".to_vec();
    json_escape(bytes, &mut out);
    out.push(b'"');
    serde_json::from_slice(&out).unwrap()
}

#[test]
fn every_byte_in_every_place_of_a_chunk_survives_escaping() {
    for byte in 0..=255u8 {
        for at in 0..70 {
            let mut bytes = [b'x'; 75];
            bytes[at] = byte;
            assert_eq!(
                escaped(&bytes),
                String::from_utf8_lossy(&bytes),
                "{byte:#x} at {at}"
            );
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_become_the_json_string_of_their_lossy_text(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        prop_assert_eq!(escaped(&bytes), String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_text_survives(text in "[ -~äßéλ漢🦀\"\\\\\u{0}-\u{1f}]{0,200}") {
        prop_assert_eq!(escaped(text.as_bytes()), text);
    }

    #[test]
    fn hostile_spans_never_panic(
        raw in proptest::collection::vec(any::<u8>(), 1..100),
        spans in proptest::collection::vec((0u32..150, 0u32..150), 6),
        pri in any::<u8>(),
        format in 0..4,
    ) {
        let shaped = batch(&[&raw], |record, _| {
            let span = |i: usize| Span { start: spans[i].0, len: spans[i].1 };
            record.host = span(0);
            record.app = span(1);
            record.proc_id = span(2);
            record.msg_id = span(3);
            record.sdata = span(4);
            record.message = span(5);
            record.pri = pri;
            record.format = [Format::Unparsed, Format::Rfc3164, Format::Cisco, Format::Rfc5424]
                [format as usize];
        });
        prop_assert!(hec(&shaped, options())[0]["event"].is_string());
        let mut out = Vec::new();
        JsonLines::new().encode(&shaped, &shaped.records()[0], &mut out);
        prop_assert!(serde_json::from_slice::<Value>(&out).is_ok());
    }
}
