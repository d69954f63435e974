//! HTTP Event Collector with an event of 50 MB: it arrives whole, in bounded memory.

use inrush_tests::*;

use crate::hec_server::{client, collector};

/// Bytes of the event.
const EVENT_BYTES: usize = 50_000_000;

/// Copies of the event that the process has at once, at most: the unfinished event between two
/// reads, the arena of its batch, the next larger arena while it grows, and the line that the file
/// destination writes. About 3.2 were measured.
const COPIES_MAX: u64 = 4;

/// Bytes of the process that do not depend on the event.
const BASE_BYTES: u64 = 80_000_000;

/// Text that gzip makes about half as long: blocks of letters that do not repeat within its window.
fn text() -> String {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut letter = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'a' + (state % 26) as u8)
    };
    let block: String = (0..100_000).map(|_| letter()).collect();
    let blocks = EVENT_BYTES / 100_000;
    (0..blocks)
        .map(|n| format!("{n:08}{}", &block[8..]))
        .collect()
}

/// Most resident memory that the process had.
fn peak_bytes(inrush: &Inrush) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", inrush.pid())).unwrap();
    let line = status.lines().find_map(|one| one.strip_prefix("VmHWM:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() * 1024
}

#[test]
fn an_event_of_50_mb_arrives_whole_in_bounded_memory() {
    let text = text();
    assert_eq!(text.len(), EVENT_BYTES);
    let body = format!(r#"{{"event":"{text}"}}{{"event":"behind"}}"#);
    for (fields, body) in [
        ("", body.clone().into_bytes()),
        ("Content-Encoding: gzip\r\n", gzip(&body)),
    ] {
        let inrush = Inrush::start(&collector("", "max_event_bytes: 60MB"));
        let mut hec = client(&inrush);
        let before = peak_bytes(&inrush);
        let reply = hec.ask("event", fields, body);
        assert_eq!(reply.brief(), (200, Some(0)), "{fields}");
        let events = inrush.collected(2);
        let raw = |at: usize| events[at]["raw"].as_str().unwrap();
        assert!(raw(0) == text, "{fields}: {} bytes", raw(0).len());
        assert_eq!(raw(1), "behind");
        let peak = peak_bytes(&inrush);
        eprintln!("{fields:?}: {before} before, {peak} at most");
        assert!(
            peak < COPIES_MAX * EVENT_BYTES as u64 + BASE_BYTES,
            "{fields}: {peak}"
        );
    }
}
