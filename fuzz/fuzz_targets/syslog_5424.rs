//! Any bytes after an RFC 5424 PRI and version: every record must be sound, and one that is read
//! as RFC 5424 without a flaw must come out the same when written again from its fields.
#![no_main]

#[path = "../../crates/codec/tests/support/records.rs"]
mod records;

use inrush_codec::{SyslogParser, Zone};
use inrush_event::{Anomalies, Format, Record, Span};
use libfuzzer_sys::fuzz_target;

const BEFORE: &[u8] = b"<165>1 ";

fuzz_target!(|input: &[u8]| {
    let raw = [BEFORE, input].concat();
    let mut parser = SyslogParser::new(Zone::utc());
    let record = records::check(&mut parser, &raw);
    records::check(&mut parser, input);
    if record.format == Format::Rfc5424 && record.anomalies == Anomalies::NONE {
        round_trip(&mut parser, &raw);
    }
});

/// Fields of a record of which `raw` is the only one in the arena.
fn fields<'a>(record: &Record, raw: &'a [u8]) -> [&'a [u8]; 6] {
    let Record {
        host,
        app,
        proc_id,
        msg_id,
        sdata,
        message,
        ..
    } = *record;
    [host, app, proc_id, msg_id, sdata, message].map(|span: Span| span.of(raw))
}

fn round_trip(parser: &mut SyslogParser, raw: &[u8]) {
    let record = records::parse(parser, b"", raw, b"");
    let [host, app, proc_id, msg_id, sdata, message] = fields(&record, raw);
    let mut again = b"<165>1 2026-11-21T19:00:00Z".to_vec();
    for field in [host, app, proc_id, msg_id, sdata] {
        again.push(b' ');
        again.extend_from_slice(if field.is_empty() { b"-" } else { field });
    }
    again.push(b' ');
    again.extend_from_slice(message);
    let second = records::parse(parser, b"", &again, b"");
    let bom = message.starts_with(b"\xef\xbb\xbf");
    assert!(bom || fields(&second, &again) == fields(&record, raw));
}
