//! Frames, whole and broken: one bad frame costs one event, never a connection.

use inrush_tests::*;
use serde_json::Value;

use crate::{TCP, to_file};

fn octets(message: &str) -> String {
    format!("{} {message}", message.len())
}

/// Sends `bytes` between good messages in `framing` on one connection: the good ones must all
/// arrive, in order, and the connection must live. Gives all events.
fn survives(framing: &str, frame: fn(&str) -> String, bytes: &[u8]) -> Vec<Value> {
    let inrush = Inrush::start(&to_file(TCP, &format!("framing: {framing}")));
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    tcp.send(frame(&numbered(1))).send(bytes);
    for n in 2..=5 {
        tcp.send(frame(&numbered(n)));
    }
    inrush.wait_until("the last good message", |_| {
        inrush
            .events_so_far("out.jsonl")
            .iter()
            .any(|event| event["msg_id"] == "ID5")
    });
    assert!(tcp.is_open(), "the connection was closed after {bytes:?}");
    let events = inrush.events("out.jsonl");
    let good: Vec<_> = field(&events, "msg_id")
        .into_iter()
        .filter(|id| !id.is_empty())
        .collect();
    assert_eq!(good, ["ID1", "ID2", "ID3", "ID4", "ID5"], "{events:#?}");
    events
}

fn newline(message: &str) -> String {
    format!("{message}\n")
}

#[test]
fn lf_crlf_and_nul_end_a_line() {
    let inrush = Inrush::start(&to_file(TCP, ""));
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    tcp.send("<13>one\n<13>two\r\n<13>three\0<13>four\n");
    let raw = field(&inrush.collected(4), "raw");
    assert_eq!(raw, ["<13>one", "<13>two", "<13>three", "<13>four"]);
}

#[test]
fn a_nul_is_text_where_lines_end_with_lf() {
    let inrush = Inrush::start(&to_file(TCP, ""));
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    tcp.send("<13>one\n<13>tw\0o\n<13>th\0r\0ee\r\n<13>four\0<13>five\0");
    let raw = field(&inrush.collected(5), "raw");
    let sent = [
        "<13>one",
        "<13>tw\0o",
        "<13>th\0r\0ee",
        "<13>four",
        "<13>five",
    ];
    assert_eq!(raw, sent);
}

#[test]
fn framings_may_change_within_a_connection() {
    let inrush = Inrush::start(&to_file(TCP, ""));
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    for n in 0..40 {
        let frame = if n % 2 == 0 { octets } else { newline };
        tcp.send(frame(&numbered(n)));
    }
    let ids: Vec<_> = (0..40).map(|n| format!("ID{n}")).collect();
    assert_eq!(field(&inrush.collected(40), "msg_id"), ids);
}

#[test]
fn a_counted_message_may_hold_line_ends() {
    let inrush = Inrush::start(&to_file(TCP, ""));
    let text = "<13>1 - h a - - - line one\nline two\r\n12 line three";
    Tcp::connect(inrush.address("tcp"))
        .send(octets(text))
        .send(octets(&numbered(7)));
    let events = inrush.collected(2);
    assert_eq!(events[0]["raw"], text);
    assert_eq!(events[1]["msg_id"], "ID7");
}

#[test]
fn one_byte_at_a_time_is_the_same_stream() {
    let inrush = Inrush::start(&to_file(TCP, ""));
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    let stream = octets(&numbered(0)) + &newline(&numbered(1)) + &octets(&numbered(2));
    for byte in stream.bytes() {
        tcp.send([byte]);
    }
    assert_eq!(field(&inrush.collected(3), "msg_id"), ["ID0", "ID1", "ID2"]);
}

#[test]
fn broken_counts_cost_no_connection_in_auto() {
    for bytes in [
        &b"10000000000 <13>ten gigabytes\n"[..],
        b"-1 <13>less than nothing\n",
        b"99999999999999999999 <13>twenty digits\n",
        b"0 \n",
        b"007 agents\n",
        b"12\n",
        b"5<13>no space\n",
    ] {
        survives("auto", newline, bytes);
    }
}

#[test]
fn broken_counts_cost_no_connection_in_octet_counting() {
    for bytes in [
        &b"10000000000 <13>ten gigabytes\n"[..],
        b"-1 <13>less than nothing\n",
        b"99999999999999999999 <13>twenty digits\n",
        b"no count at all\n",
    ] {
        let events = survives("octet_counting", octets, bytes);
        let bad = |event: &&Value| event["anomalies"].to_string().contains("bad_frame");
        assert!(events.iter().any(|event| bad(&event)), "{events:#?}");
    }
}

#[test]
fn a_count_that_is_a_little_wrong_costs_its_own_event_and_the_next() {
    let short = "<13>1 - h a - - - x";
    // Two bytes too few: the rest of the message is a frame without a count.
    let bytes = format!("{} {short}\n", short.len() - 2);
    survives("auto", newline, bytes.as_bytes());
}

#[test]
fn newline_framing_takes_counts_as_text() {
    let inrush = Inrush::start(&to_file(TCP, "framing: newline"));
    Tcp::connect(inrush.address("tcp")).send("7 <13>x\n<13>y\n");
    assert_eq!(field(&inrush.collected(2), "raw"), ["7 <13>x", "<13>y"]);
}

#[test]
fn what_was_never_finished_is_kept_when_the_sender_leaves() {
    let inrush = Inrush::start(&to_file(TCP, ""));
    let to = inrush.address("tcp");
    Tcp::connect(to).send("<13>no line end");
    Tcp::connect(to).send("500 <13>half a frame");
    let events = inrush.collected(2);
    for event in &events {
        assert!(
            event["anomalies"].to_string().contains("unterminated"),
            "{event}"
        );
    }
    let raw = field(&events, "raw");
    assert!(raw.iter().any(|raw| raw == "<13>no line end"), "{raw:?}");
    assert!(
        raw.iter().any(|raw| raw.ends_with("<13>half a frame")),
        "{raw:?}"
    );
}

#[test]
fn the_longest_messages_are_cut_flagged_and_counted() {
    let options = "max_message_bytes: 1KiB";
    let inrush = Inrush::start(&to_file(crate::UDP_TCP, options));
    let long = format!("<13>1 - h a - LONG - {}", "x".repeat(5000));
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    tcp.send(newline(&long)).send(newline(&numbered(1)));
    let mut counted = Tcp::connect(inrush.address("tcp"));
    counted
        .send(octets(&numbered(4)))
        .send(octets(&long))
        .send(octets(&numbered(2)));
    send_udp(inrush.address("udp"), [long.as_str(), &numbered(3)]);
    let events = inrush.collected(7);
    let cut: Vec<_> = events
        .iter()
        .filter(|event| event["msg_id"] == "LONG")
        .collect();
    assert_eq!(cut.len(), 3);
    for event in cut {
        assert_eq!(event["raw"], long[..1024]);
        let odd = event["anomalies"].to_string();
        assert!(
            odd.contains("oversize") || odd.contains("datagram_cut"),
            "{event}"
        );
    }
    assert_eq!(
        inrush.source()["anomalies"]["oversize"]
            .as_u64()
            .unwrap_or(0),
        3
    );
    let whole = field(&events, "msg_id")
        .into_iter()
        .filter(|id| id != "LONG")
        .collect();
    assert_eq!(sorted(whole), ["ID1", "ID2", "ID3", "ID4"]);
    let cut_bytes = 3 * (long.len() as u64 - 1024);
    assert_eq!(inrush.source()["cut_bytes"]["oversize"], cut_bytes);
    let ledger = inrush.ledger();
    let source = ledger.sources.values().next().expect("a source");
    assert_eq!(source.cut_bytes["oversize"], cut_bytes);
    let metrics = inrush.http("GET", "/metrics").body;
    let metric = format!("reason=\"oversize\"}} {cut_bytes}");
    assert!(metrics.contains(&metric), "{metrics}");
    inrush.wait_until("the alarm", |_| {
        inrush
            .json("/api/v1/flow")
            .to_string()
            .contains("bytes-cut:")
    });
}

/// A relay's connection of lines, in which somebody else has written the start of one.
fn swallows_nothing(forged: &str) {
    let inrush = Inrush::start(&to_file(TCP, ""));
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    tcp.send(newline(&numbered(0))).send(newline(forged));
    // Nothing waits for what the count claims.
    for n in 1..=500 {
        tcp.send(newline(&numbered(n)));
    }
    let events = inrush.collected(502);
    let ids: Vec<_> = (0..=500).map(|n| format!("ID{n}")).collect();
    let honest = field(&events, "msg_id");
    let honest: Vec<_> = honest.into_iter().filter(|id| !id.is_empty()).collect();
    assert_eq!(honest, ids);
    let odd: Vec<_> = events.iter().filter(|one| one["raw"] == forged).collect();
    assert_eq!(odd.len(), 1, "{forged}");
    assert!(odd[0]["anomalies"].to_string().contains("bad_frame"));
    assert_eq!(inrush.source()["cut_bytes"], serde_json::json!({}));
}

#[test]
fn a_forged_count_takes_none_of_the_lines_that_follow() {
    swallows_nothing("16000000 <13>Oct 11 22:14:15 attacker app: x");
    swallows_nothing("65537 <13>a byte more than is kept");
    swallows_nothing("65530 <13>as much as is kept");
    swallows_nothing("30 <13>into the next line");
}

#[test]
fn a_line_without_end_takes_no_memory() {
    let inrush = Inrush::start(&to_file(TCP, "framing: newline"));
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    let block = vec![b'x'; 1 << 20];
    for _ in 0..64 {
        tcp.send(&block);
    }
    tcp.send("\n").send(newline(&numbered(9)));
    let events = inrush.collected(2);
    assert_eq!(events[0]["raw"].as_str().unwrap().len(), 64 * 1024);
    assert_eq!(events[1]["msg_id"], "ID9");
    assert!(
        inrush.rss_bytes() < 200 << 20,
        "{} bytes resident",
        inrush.rss_bytes()
    );
}
