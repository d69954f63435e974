//! What lines of container logs cost, in nanoseconds a line: splitting, parsing, and joining with
//! the text appended to a buffer. One core, warm cache.
//!
//! `cargo run --release -p inrush-codec --example container_cost [BYTES]`, 1024 bytes of text by
//! default.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use inrush_codec::container::{
    JoinBounds, LinePiece, PieceJoiner, PieceText, parse_cri, parse_docker,
};
use inrush_codec::lines::{LineEncoding, LineSplitter};
use inrush_event::{Span, Timestamp};

const LINES: usize = 1000;
/// Rounds are short, so that some of them run without being interrupted.
const ROUNDS: usize = 400;

/// Text, whether it goes on, and time of a line.
type ParsedPiece<'a> = (PieceText<'a>, bool, Timestamp);
type Parser = fn(&[u8]) -> Option<ParsedPiece<'_>>;

fn cri(line: &[u8]) -> Option<ParsedPiece<'_>> {
    let found = parse_cri(line).ok()?;
    Some((found.text(line), found.partial, found.time))
}

fn docker(line: &[u8]) -> Option<ParsedPiece<'_>> {
    let found = parse_docker(line).ok()?;
    Some((found.text(line), !found.complete, found.time))
}

/// A file of lines with that text, which `line` puts into its form.
fn file(line: impl Fn(usize) -> String) -> Vec<u8> {
    (0..LINES)
        .flat_map(|number| (line(number) + "\n").into_bytes())
        .collect()
}

/// The least nanoseconds a line that `work` took in any round.
fn least(mut work: impl FnMut()) -> f64 {
    let mut round = || {
        let begin = Instant::now();
        work();
        begin.elapsed().as_nanos() as f64 / LINES as f64
    };
    (0..ROUNDS).map(|_| round()).fold(f64::MAX, f64::min)
}

fn measure(name: &str, parse: Parser, file: &[u8]) {
    let mut spans: Vec<Span> = Vec::new();
    let splitting = least(|| {
        spans.clear();
        let mut splitter = LineSplitter::new(LineEncoding::Bytes, 1 << 20);
        splitter.decode(black_box(file), 0, |line| spans.push(line.span));
    });
    let parsing = least(|| {
        for span in &spans {
            assert!(black_box(parse(black_box(span.of(file)))).is_some());
        }
    });
    let now = Instant::now();
    let mut joiner = PieceJoiner::new(JoinBounds::default());
    let mut out = Vec::with_capacity(2 * file.len());
    let joining = least(|| {
        out.clear();
        for span in &spans {
            let Some((text, partial, time)) = parse(black_box(span.of(file))) else {
                continue;
            };
            let origin = span.start() as u64;
            let piece = LinePiece {
                text,
                partial,
                time,
                origin,
            };
            joiner.push(piece, now, |line| line.text.push(&mut out));
        }
    });
    println!(
        "{name:<24} split {splitting:6.1} ns, parse {parsing:6.1} ns, parse, join and copy \
         {joining:6.1} ns"
    );
}

fn main() {
    let bytes = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let text = "abcdefg hijklmnop"
        .chars()
        .cycle()
        .take(bytes.unwrap_or(1024));
    let text: String = text.collect();
    let second = |number: usize| number / 20 % 60;
    let time = |number| {
        format!(
            "2026-11-25T07:21:{:02}.{:09}Z",
            second(number),
            number * 997
        )
    };
    measure(
        "cri",
        cri,
        &file(|n| format!("{} stdout F {text}", time(n))),
    );
    measure(
        "cri, a piece and another",
        cri,
        &file(|n| format!("{} stdout {} {text}", time(n), ["P", "F"][n % 2])),
    );
    measure(
        "docker",
        docker,
        &file(|n| {
            format!(
                r#"{{"log":"{text}\n","stream":"stdout","time":"{}"}}"#,
                time(n)
            )
        }),
    );
    measure(
        "docker, escapes",
        docker,
        &file(|n| {
            let text = text.replace('h', r"\u003c");
            format!(
                r#"{{"log":"{text}\n","stream":"stdout","time":"{}"}}"#,
                time(n)
            )
        }),
    );
    measure(
        "docker, attrs",
        docker,
        &file(|n| {
            let attrs = r#""attrs":{"tag":"web","a":"b"}"#;
            format!(
                r#"{{"log":"{text}\n","stream":"stdout",{attrs},"time":"{}"}}"#,
                time(n)
            )
        }),
    );
}
