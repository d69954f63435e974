//! What framing and header parsing cost, in nanoseconds a record, and parsing with zones guessed
//! (they matter where a time has none): one core, warm cache.
//!
//! `cargo run --release -p inrush-codec --example parse_cost [BYTES [SHAPE]]`,
//! 800 bytes by default.
//! The seconds of the timestamps change every thousand records, as they do at a thousand a second.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::net::IpAddr;
use std::time::Instant;

use inrush_codec::{FrameDecoder, StreamFraming, SyslogParser, Zone, ZoneGuesses};
use inrush_event::{Anomalies, Record, Timestamp, limits};

const RECORDS: usize = 1000;
const SECONDS: usize = 60;
/// Rounds are short, so that some of them run without being interrupted.
const ROUNDS: usize = 400;

type Head = fn(usize, usize) -> String;

const SHAPES: [(&str, Head); 4] = [
    ("rfc3164, ISO time", |second, n| {
        format!("<38>2026-11-21T19:00:{second:02} localhost prg00000[1234]: seq: {n:010}, ")
    }),
    ("rfc3164, BSD time", |second, n| {
        format!("<38>Nov 21 19:00:{second:02} localhost prg00000[1234]: seq: {n:010}, ")
    }),
    ("rfc5424, 1 element", |second, n| {
        format!(
            "<38>1 2026-11-21T19:00:{second:02}.123456+02:00 localhost prg00000 1234 - \
             [timeQuality@1 tzKnown=\"1\" isSynced=\"0\"] seq: {n:010}, "
        )
    }),
    ("rfc5424, no element", |second, n| {
        format!(
            "<38>1 2026-11-21T19:00:{second:02}.123456Z localhost prg00000 1234 - - seq: {n:010}, "
        )
    }),
];

/// A stream of a minute, so that no second is in the cache when its turn comes.
fn stream(head: Head, bytes: usize, counted: bool) -> Vec<u8> {
    let mut stream = Vec::new();
    for second in 0..SECONDS {
        for n in 0..RECORDS / SECONDS {
            let mut line = head(second, n);
            while line.len() < bytes {
                line.push((b'a' + (line.len() % 23) as u8) as char);
            }
            let line = if counted {
                format!("{} {line}", line.len())
            } else {
                line + "\n"
            };
            stream.extend_from_slice(line.as_bytes());
        }
    }
    stream
}

/// The least nanoseconds a record that `work` took in any round.
fn least(records: usize, mut work: impl FnMut()) -> f64 {
    let mut round = || {
        let begin = Instant::now();
        for _ in 0..2 {
            work();
        }
        begin.elapsed().as_nanos() as f64 / (2 * records) as f64
    };
    (0..ROUNDS).map(|_| round()).fold(f64::MAX, f64::min)
}

fn measure(name: &str, framing: StreamFraming, stream: &[u8]) {
    let received = Timestamp::now();
    let mut rows = Vec::new();
    let limit = limits::MESSAGE_BYTES_DEFAULT;
    let frame = |rows: &mut Vec<Record>| {
        rows.clear();
        let mut decoder = FrameDecoder::new(framing, limit);
        decoder.decode(black_box(stream), 0, |frame| {
            rows.push(Record::unparsed(frame.span, received, 0, frame.anomalies));
        });
    };
    frame(&mut rows);
    let count = rows.len();
    let framing_ns = least(count, || frame(&mut rows));
    let mut parser = SyslogParser::new(Zone::utc());
    let mut times = 0;
    let parsing_ns = least(count, || {
        for row in &rows {
            let mut record = Record::unparsed(row.raw, received, 0, Anomalies::NONE);
            parser.parse(black_box(stream), &mut record);
            times += usize::from(black_box(record).event_time.is_some());
        }
    });
    assert!(times > 0, "{name} has no time");
    let mut parser = SyslogParser::guessing(Zone::utc(), ZoneGuesses::new());
    let sender = IpAddr::from([192, 0, 2, 1]);
    let guessing_ns = least(count, || {
        for row in &rows {
            let mut record = Record::unparsed(row.raw, received, 0, Anomalies::NONE);
            black_box(parser.parse_from(black_box(stream), &mut record, sender));
        }
    });
    println!(
        "{name:<22} {framing:?}: frame {framing_ns:6.1} ns, parse {parsing_ns:6.1} ns, \
         guessing {guessing_ns:6.1} ns"
    );
}

fn main() {
    let bytes = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(800);
    let only = std::env::args().nth(2).unwrap_or_default();
    for (name, head) in SHAPES.into_iter().filter(|(name, _)| name.contains(&only)) {
        measure(name, StreamFraming::Auto, &stream(head, bytes, false));
        measure(
            name,
            StreamFraming::OctetCounting,
            &stream(head, bytes, true),
        );
    }
}
