//! In over every transport, out to a file: every field as it was sent.

use inrush_tests::*;
use serde_json::{Value, json};

use crate::{TCP, UDP_TCP, has_ipv6, to_file};

const FULL: &str = "<165>1 2026-03-04T05:06:07.089+01:00 fw1.example app 42 ID47 \
                    [ex@32473 k=\"v \\\"q\\\" \\]\"] hello ünïcode";

fn assert_full(event: &Value, protocol: &str) {
    let mut event = event.clone();
    let received = event.as_object_mut().unwrap().remove("received").unwrap();
    assert!(received.as_str().unwrap().ends_with('Z'));
    let expected = json!({
        "time": "2026-03-04T04:06:07.089Z", "host": "fw1.example", "source": "syslog",
        "sourcetype": "syslog", "index": "main", "app": "app", "proc_id": "42", "msg_id": "ID47",
        "facility": "local4", "severity": "notice", "sdata": "[ex@32473 k=\"v \\\"q\\\" \\]\"]",
        "message": "hello ünïcode", "raw": FULL, "sender": "127.0.0.1", "protocol": protocol,
        "format": "rfc5424", "anomalies": ["time_skewed"],
    });
    assert_eq!(event, expected);
}

#[test]
fn udp_carries_every_field() {
    let inrush = Inrush::start(&to_file(UDP_TCP, ""));
    send_udp(inrush.address("udp"), [FULL]);
    assert_full(&inrush.collected(1)[0], "udp");
}

#[test]
fn tcp_carries_every_field_in_either_framing() {
    let inrush = Inrush::start(&to_file(TCP, ""));
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    tcp.send(format!("{FULL}\n"))
        .send(format!("{} {FULL}", FULL.len()));
    for event in inrush.collected(2) {
        assert_full(&event, "tcp");
    }
}

#[test]
fn tls_carries_every_field() {
    use std::io::Write;
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::new(dir.path());
    pki.issue("server");
    let tls = "tls: { cert_file: \"{dir}/server.pem\", key_file: \"{dir}/server.key\" }";
    let options = Options {
        dir: Some(dir),
        ..Options::default()
    };
    let inrush = Inrush::with(&to_file("tls://127.0.0.1:0", tls), options);
    let mut stream = tls_connect(inrush.address("tls"), &pki.client(None)).unwrap();
    write!(stream, "{} {FULL}", FULL.len()).unwrap();
    stream.flush().unwrap();
    assert_full(&inrush.collected(1)[0], "tls");
}

#[test]
fn ipv6_senders_are_named() {
    if !has_ipv6() {
        skip!("no IPv6 on loopback");
    }
    let inrush = Inrush::start(&to_file(r#""udp://[::1]:0", "tcp://[::1]:0""#, ""));
    send_udp(inrush.address("udp"), [numbered(0)]);
    Tcp::connect(inrush.address("tcp")).send(numbered(1) + "\n");
    let events = inrush.collected(2);
    assert_eq!(field(&events, "sender"), ["::1", "::1"]);
    assert_eq!(sorted(field(&events, "msg_id")), ["ID0", "ID1"]);
}

#[test]
fn ipv4_senders_on_an_ipv6_socket_are_shown_as_ipv4() {
    if !has_ipv6() {
        skip!("no IPv6 on loopback");
    }
    let inrush = Inrush::start(&to_file(r#""udp://[::]:0", "tcp://[::]:0""#, ""));
    let v4 =
        |protocol| std::net::SocketAddr::from(([127, 0, 0, 1], inrush.address(protocol).port()));
    send_udp(v4("udp"), [numbered(0)]);
    Tcp::connect(v4("tcp")).send(numbered(1) + "\n");
    assert_eq!(
        field(&inrush.collected(2), "sender"),
        ["127.0.0.1", "127.0.0.1"]
    );
}

/// What is sent, and the fields that must come out beside `raw`, which is always all of it.
#[rustfmt::skip]
fn samples() -> Vec<(&'static str, Value)> {
    vec![
        ("<34>Oct 11 22:14:15 mymachine su[230]: 'su root' failed",
         json!({"host": "mymachine", "app": "su", "proc_id": "230", "facility": "auth",
                "severity": "crit", "message": "'su root' failed", "format": "rfc3164"})),
        ("<13>Feb  5 17:32:18 10.0.0.99 Use the BFG!",
         json!({"host": "10.0.0.99", "facility": "user", "severity": "notice"})),
        ("<189>29: *Oct 11 22:14:15.123: %SYS-5-CONFIG_I: Configured from console",
         json!({"facility": "local7", "severity": "notice", "format": "cisco"})),
        ("<134>2026-03-04T05:06:07.5Z gw1 ipsec: tunnel up",
         json!({"time": "2026-03-04T05:06:07.500Z", "host": "gw1", "app": "ipsec",
                "message": "tunnel up"})),
        ("<13>1 - - - - - - \u{feff}été",
         json!({"host": "127.0.0.1", "message": "été", "format": "rfc5424", "sdata": null})),
        ("<0>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 - - %% It's time",
         json!({"time": "2003-08-24T12:14:15.000Z", "facility": "kern", "severity": "emerg",
                "proc_id": "8710", "msg_id": null, "message": "%% It's time"})),
        ("no header at all",
         json!({"message": "no header at all", "facility": null, "severity": null})),
        ("<999>1 - - - - - - bad pri",
         json!({"facility": null, "severity": null})),
    ]
}

#[test]
fn what_devices_really_send_is_read() {
    let inrush = Inrush::start(&to_file(UDP_TCP, ""));
    let samples = samples();
    send_udp(inrush.address("udp"), samples.iter().map(|(sent, _)| sent));
    let events = inrush.collected(samples.len() as u64);
    for (sent, fields) in samples {
        let event = events.iter().find(|event| event["raw"] == sent);
        let event = event.unwrap_or_else(|| panic!("{sent} is not in {events:#?}"));
        for (name, value) in fields.as_object().unwrap() {
            assert_eq!(&event[name], value, "{name} of {sent}: {event}");
        }
    }
}

#[test]
fn what_was_assumed_is_said() {
    let inrush = Inrush::start(&to_file(TCP, ""));
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    tcp.send("<34>Oct 11 22:14:15 mymachine su: x\nno header\n");
    tcp.send(b"<13>1 2026-03-04T05:06:07Z h a - - - bad \xff byte\n");
    let events = inrush.collected(3);
    let odd = |i: usize, name: &str| {
        let names = events[i]["anomalies"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        assert!(names.contains(&json!(name)), "{name} of {}", events[i]);
    };
    odd(0, "year_assumed");
    odd(0, "zone_assumed");
    odd(1, "no_pri");
    assert_eq!(events[2]["message"], "bad \u{fffd} byte");
    let anomalies = &inrush.source()["anomalies"];
    assert_eq!(anomalies["year_assumed"], 1, "{anomalies}");
}

#[test]
fn the_zone_of_the_source_is_used_where_none_was_sent() {
    let inrush = Inrush::start(&to_file(UDP_TCP, "timezone: \"+02:00\""));
    send_udp(
        inrush.address("udp"),
        ["<34>Oct 11 22:14:15 mymachine su: x"],
    );
    let time = inrush.collected(1)[0]["time"].as_str().unwrap().to_owned();
    assert!(time.ends_with("-10-11T20:14:15.000Z"), "{time}");
}

#[test]
fn each_connection_keeps_its_order_and_nothing_is_lost() {
    const CONNECTIONS: usize = 4;
    const EACH: usize = 5_000;
    let inrush = Inrush::start(&to_file(TCP, ""));
    let to = inrush.address("tcp");
    std::thread::scope(|scope| {
        for c in 0..CONNECTIONS {
            scope.spawn(move || {
                let mut tcp = Tcp::connect(to);
                let messages = (0..EACH).map(|n| numbered(c * EACH + n) + "\n");
                tcp.send(messages.collect::<String>());
            });
        }
    });
    let events = inrush.collected((CONNECTIONS * EACH) as u64);
    let mut next = [0; CONNECTIONS];
    for event in &events {
        let n: usize = event["msg_id"].as_str().unwrap()[2..].parse().unwrap();
        assert_eq!(n % EACH, next[n / EACH], "connection {}", n / EACH);
        next[n / EACH] += 1;
    }
}

#[test]
fn every_datagram_is_accounted_for() {
    const SENT: u64 = 20_000;
    let inrush = Inrush::start(&to_file(UDP_TCP, ""));
    send_udp(inrush.address("udp"), (0..SENT as usize).map(numbered));
    let ledger = inrush.wait_until("received + kernel_dropped = sent", |ledger| {
        let source = &ledger.sources["syslog"];
        source.received + source.kernel_dropped == SENT && ledger.destinations["out"].pending == 0
    });
    let source = &ledger.sources["syslog"];
    assert_eq!(source.accepted, source.received);
    let events = inrush.events("out.jsonl");
    assert_eq!(events.len() as u64, source.received);
    let bytes: usize = field(&events, "raw").iter().map(String::len).sum();
    assert_eq!(source.received_bytes, bytes as u64);
}

#[test]
fn every_destination_gets_every_event() {
    let yaml = to_file(TCP, "")
        + "  again: { type: file, path: \"{dir}/again.jsonl\" }\n  none: { type: blackhole }\n\
           \x20 screen: { type: stdout }\n";
    let inrush = Inrush::start(&yaml);
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    tcp.send(lines(0..100));
    let events = inrush.collected(100);
    assert_eq!(inrush.events("again.jsonl"), events);
    assert_eq!(inrush.events("stdout"), events);
}

#[test]
fn paths_are_made_from_fields_and_never_leave_their_folder() {
    let yaml = to_file(TCP, "").replace("out.jsonl", "tape/{index}/{host}.jsonl");
    let inrush = Inrush::start(&yaml);
    let message = |host: &str| format!("<13>1 2026-03-04T05:06:07Z {host} a - - - x\n");
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    for host in ["a", "b", "../../../escaped", "..", "a/b", "/etc/x"] {
        tcp.send(message(host));
    }
    inrush.wait_until("six events with a fate", |ledger| {
        ledger.sources["syslog"].received == 6 && ledger.destinations["out"].pending == 0
    });
    assert_eq!(inrush.events("tape/main/a.jsonl").len(), 1);
    assert_eq!(inrush.events("tape/main/b.jsonl").len(), 1);
    assert!(!inrush.path("escaped.jsonl").exists() && !inrush.path("tape/escaped.jsonl").exists());
    let top = std::fs::read_dir(inrush.path("tape")).unwrap();
    let names: Vec<_> = top.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["main"], "nothing beside the one folder");
}

#[test]
fn senders_are_listed_with_what_they_sent() {
    let inrush = Inrush::start(&to_file(UDP_TCP, ""));
    send_udp(inrush.address("udp"), (0..3).map(numbered));
    inrush.conserved(3);
    let senders = inrush.json("/api/v1/senders");
    let sender = &senders["senders"][0];
    assert_eq!(
        (&sender["ip"], &sender["events"]),
        (&json!("127.0.0.1"), &json!(3))
    );
    assert_eq!(sender["source"], "syslog");
}

#[test]
fn metrics_agree_with_the_ledger() {
    let inrush = Inrush::start(&to_file(TCP, ""));
    Tcp::connect(inrush.address("tcp")).send(lines(0..7));
    inrush.conserved(7);
    let page = inrush.http("GET", "/metrics").body;
    for line in [
        "inrush_source_received_events_total{source=\"syslog\"} 7",
        "inrush_source_accepted_events_total{source=\"syslog\"} 7",
        "inrush_destination_delivered_events_total{destination=\"out\"} 7",
        "inrush_destination_pending_events{destination=\"out\"} 0",
        "inrush_ledger_balanced 1",
    ] {
        assert!(page.lines().any(|l| l == line), "{line} is not in\n{page}");
    }
    assert_eq!(inrush.http("GET", "/healthz").status, 200);
    assert!(inrush.http("GET", "/").body.contains("<title>Inrush"));
}
