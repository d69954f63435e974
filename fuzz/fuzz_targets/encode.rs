//! Any record through the encoders: HEC and JSON lines are JSON, show no character that a terminal
//! obeys, and no byte of the record is lost.
#![no_main]

use std::net::IpAddr;
use std::sync::Arc;

use inrush_codec::encode::{HecEncoder, HecOptions, IndexedField, JsonLines};
use inrush_codec::{SyslogParser, Zone};
use inrush_event::{
    Anomalies, BatchPool, Peer, Protocol, Record, SourceInfo, Span, Timestamp, is_unprintable,
};
use libfuzzer_sys::fuzz_target;

/// `raw`, and the record as base64 where it is not UTF-8.
fn check(json: &[u8], raw: &[u8], text: &str, base64: &str) {
    let shown = std::str::from_utf8(json).expect("UTF-8");
    assert!(
        !shown
            .trim_end()
            .contains(|c| is_unprintable(c) && c != '\u{7f}'),
        "{shown}"
    );
    let value: serde_json::Value = serde_json::from_slice(json).expect("JSON");
    let kept = value.pointer(base64).and_then(|kept| kept.as_str());
    match std::str::from_utf8(raw) {
        Ok(raw) if !text.is_empty() && !raw.is_empty() => {
            assert_eq!(value.pointer(text).and_then(|t| t.as_str()), Some(raw));
            assert_eq!(kept, None);
        }
        Err(_) if !text.is_empty() => assert!(kept.is_some()),
        _ => {}
    }
}

fuzz_target!(|data: &[u8]| {
    let source = Arc::new(SourceInfo {
        name: "s".into(),
        index: "i".into(),
        sourcetype: "t".into(),
    });
    let data = &data[..data.len().min(8192)];
    let mut builder = BatchPool::new().lend(&source, 65_536);
    builder.extend(data);
    let peer = builder.peer(Peer {
        ip: IpAddr::from([192, 0, 2, 1]),
        local_port: 514,
        protocol: Protocol::Udp,
        client: None,
    });
    let received = Timestamp(1_714_979_289_123_456_000);
    let raw = Span::new(0, builder.filled());
    let mut record = Record::unparsed(raw, received, peer, Anomalies::NONE);
    SyslogParser::new(Zone::utc()).parse(builder.bytes(), &mut record);
    builder.records_mut().push(record);
    let batch = builder.freeze(0);
    let mut out = Vec::new();
    JsonLines::new().encode(&batch, &record, &mut out);
    check(&out, data, "/raw", "/raw_base64");
    out.clear();
    let options = HecOptions {
        source: None,
        index: None,
        container: "c".into(),
        indexed_fields: IndexedField::ALL.to_vec(),
    };
    HecEncoder::new(options).encode(&batch, &record, b"", &mut out);
    check(&out, data, "", "/fields/raw_base64");
});
