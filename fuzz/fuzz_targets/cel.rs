//! Any expression over any record: it is refused in words, or gives a value or an error; never a
//! panic. The text before the first zero is the expression, the rest the record.
#![no_main]

use std::net::IpAddr;
use std::sync::Arc;

use inrush_cel::{EventView, Program, ResultKind};
use inrush_codec::{SyslogParser, Zone};
use inrush_event::{Anomalies, BatchPool, Record, SourceInfo, Span, Timestamp};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let end = data
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(data.len());
    let Ok(written) = std::str::from_utf8(&data[..end]) else {
        return;
    };
    let raw = data.get(end + 1..).unwrap_or_default();
    let raw = &raw[..raw.len().min(4096)];
    let source = Arc::new(SourceInfo {
        name: "s".into(),
        index: "i".into(),
        sourcetype: "t".into(),
    });
    let mut builder = BatchPool::new().lend(&source, 65_536);
    builder.extend(raw);
    let span = Span::new(0, builder.filled());
    let received = Timestamp(1_714_979_289_123_456_000);
    let mut record = Record::unparsed(span, received, 0, Anomalies::NONE);
    SyslogParser::new(Zone::utc()).parse(builder.bytes(), &mut record);
    builder.records_mut().push(record);
    let batch = builder.freeze(0);
    for kind in [ResultKind::Condition, ResultKind::Value] {
        let Ok(program) = Program::compile(written, kind) else {
            continue;
        };
        let view = EventView {
            arena: batch.bytes(),
            record: &record,
            names: batch.names(&record),
            class: batch.class(&record).map(|class| &**class),
            source: batch.source(),
            sender: Some(IpAddr::from([192, 0, 2, 1])),
            client: Some("sensor.example"),
        };
        let _ = program.value(&view);
        let _ = program.holds(&view);
    }
});
