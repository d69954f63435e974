//! Samples of 88 vendors (`../shared/corpus/sc4s`): what the header alone says about host, time
//! and the text for `event` must agree with what Splunk Connect for Syslog makes of them. Skipped
//! where the corpus is not beside the checkout.
//!
//! The cases that do not agree take their host or time from the message, by rules for one vendor:
//! * key=value or JSON payloads with their own host or time: Check Point `time=…|hostname=…`,
//!   FortiGate `devname=` and `eventtime=`, FireEye HX, Suricata, Zscaler LSS;
//! * a second, finer time in the message: Avi, Cisco ACS, ISE and WSA, Palo Alto;
//! * a host inside another field: F5 `slot1/HOST` and `HOST,f5_irule=…`, UniFi `HOST,mac,version`,
//!   NetApp `[HOST:event:severity]`, Radware `[Device: HOST …]`, Viptela `%Viptela-HOST-…`,
//!   NetScaler SDX, Ricoh, Spectracom `HOST: `, Palo Alto `dvc_name`, ISE with two headers;
//! * tables of the user: zones by host name, hosts by address.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::path::Path;

use inrush_codec::{FrameDecoder, StreamFraming, SyslogParser, Zone};
use inrush_event::{Record, Timestamp};
use serde_json::Value;

const MILLISECOND_NS: i64 = 1_000_000;

/// Agreeing and all cases of one kind.
#[derive(Default)]
struct Tally {
    agree: usize,
    all: usize,
}

impl Tally {
    fn count(&mut self, case: &str, expected: &str, seen: &str) {
        self.all += 1;
        if expected == seen {
            self.agree += 1;
        } else {
            println!("{case}: `{expected}` expected, `{seen}` in the header");
        }
    }
}

/// Nanoseconds of `1714979289.123456`.
fn nanoseconds(epoch: &str) -> i64 {
    let (seconds, fraction) = epoch.split_once('.').unwrap_or((epoch, ""));
    format!("{seconds}{fraction:0<9}").parse().unwrap()
}

/// `at` as the corpus writes times: with milliseconds if `like` has a fraction.
fn epoch(at: Timestamp, like: &str) -> String {
    let milliseconds = at.0 / MILLISECOND_NS;
    if like.contains('.') {
        format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000)
    } else {
        (milliseconds / 1000).to_string()
    }
}

/// The first record of a case, and its bytes.
fn parse(case: &Value) -> (Record, Vec<u8>) {
    let bytes = case["message"].as_str().unwrap().as_bytes().to_vec();
    let received = Timestamp(nanoseconds(case["recv_time"].as_str().unwrap()));
    let counted = case["framing"] == "octet-counted";
    let framing = if counted {
        StreamFraming::Auto
    } else {
        StreamFraming::Newline
    };
    let mut records = Vec::new();
    let mut decoder = FrameDecoder::new(framing, 65536);
    decoder.finish(&bytes, 0, |frame| {
        records.push(Record::unparsed(frame.span, received, 0, frame.anomalies));
    });
    let mut record = records[0];
    SyslogParser::new(Zone::utc()).parse(&bytes, &mut record);
    (record, bytes)
}

#[test]
fn headers_agree_with_the_corpus() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus/sc4s/cases.jsonl");
    let Ok(lines) = std::fs::read_to_string(&path) else {
        println!("skipped: no corpus at {}", path.display());
        return;
    };
    let (mut hosts, mut times, mut events) = (Tally::default(), Tally::default(), Tally::default());
    for line in lines.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let id = case["id"].as_str().unwrap();
        let (record, bytes) = parse(&case);
        let text = |start, end| String::from_utf8_lossy(&bytes[start..end]).into_owned();
        let expected = |key: &str| case["expect"][key].as_str();
        if let Some(host) = expected("host") {
            let seen = text(record.host.start(), record.host.end()).to_lowercase();
            hosts.count(id, &host.to_lowercase(), &seen);
        }
        if let Some(time) = expected("time_epoch") {
            let seen = record.event_time;
            times.count(
                id,
                time,
                &if seen.is_some() {
                    epoch(seen, time)
                } else {
                    String::new()
                },
            );
        }
        if let Some(raw) = expected("raw") {
            let message = text(record.message.start(), record.message.end());
            let start = if record.app.is_empty() {
                record.message
            } else {
                record.app
            };
            let from_tag = text(start.start(), record.message.end());
            let seen = if raw == message { message } else { from_tag };
            events.count(id, raw, &seen);
        }
    }
    let tallies = [("host", hosts), ("time", times), ("event", events)];
    for ((name, tally), floor) in tallies.into_iter().zip(FLOORS) {
        println!("{name}: {} of {} agree", tally.agree, tally.all);
        assert!(
            tally.agree >= floor,
            "{name}: only {} of {} agree",
            tally.agree,
            tally.all
        );
    }
}

/// Cases that agree today, for host, time and event text; fewer is a regression.
const FLOORS: [usize; 3] = [257, 323, 59];
