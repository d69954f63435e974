//! Samples of 88 vendors (`../shared/corpus/sc4s`): where the expected host and time stand in the
//! header, the header alone must give them. Skipped where the corpus is not beside the checkout.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::path::Path;

use inrush_codec::{Parser, Zone};
use inrush_event::{Anomalies, Record, Span, Timestamp};
use serde_json::Value;

fn nanoseconds(epoch: &str) -> i64 {
    let (seconds, fraction) = epoch.split_once('.').unwrap_or((epoch, ""));
    format!("{seconds}{fraction:0<9}").parse().unwrap()
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value[key].as_str()
}

#[test]
fn tally() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus/sc4s/cases.jsonl");
    let Ok(lines) = std::fs::read_to_string(&path) else {
        println!("skipped: no corpus at {}", path.display());
        return;
    };
    let mut bad = Vec::new();
    let (mut host_ok, mut hosts, mut time_ok, mut times, mut whole) = (0,0,0,0,0);
    for line in lines.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let message = text(&case, "message").unwrap();
        let received = Timestamp(nanoseconds(text(&case, "recv_time").unwrap()));
        let raw = Span::new(0, message.len());
        let mut r = Record::unparsed(raw, received, 0, Anomalies::NONE);
        Parser::new(Zone::utc()).parse(message.as_bytes(), &mut r);
        let host = String::from_utf8_lossy(r.host.of(message.as_bytes())).to_lowercase();
        let expect = &case["expect"];
        let mut why = String::new();
        if let Some(h) = text(expect, "host") { hosts += 1; if h.to_lowercase() == host { host_ok += 1 } else { why += &format!("host {h} got {host}; ") } }
        if let Some(t) = text(expect, "time_epoch") { times += 1; let n = nanoseconds(t); let got = r.time().0;
            let got = if t.contains('.') { got / 1_000_000 * 1_000_000 } else { got / 1_000_000_000 * 1_000_000_000 };
            let n = if t.contains('.') { n / 1_000_000 * 1_000_000 } else {n};
            if n == got && r.event_time.is_some() { time_ok += 1 } else if n == got { time_ok += 1; why += "recv only; " } else { why += &format!("time {t} got {got}; ") } }
        if let Some(raw) = text(expect, "raw") { let start = if r.app.is_empty() { r.message.start() } else { r.app.start() };
            let ev = &message[start..r.message.end()]; if ev == raw || r.message.of(message.as_bytes()) == raw.as_bytes() { whole += 1 } else { why += &format!("\n     raw exp {:.60}\n     got     {:.60}", raw, ev) } }
        if !why.is_empty() { bad.push(format!("{} {:?} {:?}\n   {:.120}\n   {why}", text(&case, "id").unwrap(), r.format, r.anomalies, message)); }
    }
    for b in &bad { println!("{b}"); }
    println!("host {host_ok}/{hosts} time {time_ok}/{times} raw {whole}");
}
