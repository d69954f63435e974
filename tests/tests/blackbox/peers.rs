//! Peers that take more than their share, and peers that cannot connect: bounded, counted, named.

use std::fs;
use std::io::Write;

use inrush_tests::*;

use crate::{TCP, to_file};

/// Starts under a limit of open files, with two workers whatever the host has.
fn start_under(limit: u32, yaml: &str) -> Inrush {
    let limit = format!("ulimit -n {limit}; exec \"$@\"");
    let wrapper = ["sh", "-c", &limit, "sh"].map(str::to_owned);
    let options = Options {
        wrapper: &wrapper,
        ..Options::default()
    };
    Inrush::with(&format!("workers: 2\n{yaml}"), options)
}

#[test]
fn connections_leave_descriptors_to_queue_destinations_and_admin() {
    let yaml = to_file("udp://127.0.0.1:0, tcp://127.0.0.1:0", "")
        + "  kept: { type: store, flush_after: 1s }\n";
    let inrush = start_under(80, &yaml);
    assert!(
        inrush.stderr().contains("LimitNOFILE="),
        "the start says what does not fit"
    );
    let crowd: Vec<_> = (0..150)
        .map(|_| Tcp::connect(inrush.address("tcp")))
        .collect();
    inrush.connection_errors("no_descriptors", 1);
    for round in 0..20 {
        send_udp(
            inrush.address("udp"),
            (0..10).map(|n| numbered(round * 10 + n)),
        );
        inrush.conserved((round as u64 + 1) * 10);
    }
    assert_eq!(
        inrush.http("GET", "/healthz").status,
        200,
        "{}",
        inrush.stderr()
    );
    let log = eventually("the busiest address in the log", || {
        let log = inrush.stderr();
        log.contains("most are of 127.0.0.1").then_some(log)
    });
    assert!(!log.contains("Too many open files"), "{log}");
    assert!(log.lines().count() < 30, "{log}");
    let flow = inrush.json("/api/v1/flow");
    let alarm = flow["alarms"]
        .as_array()
        .unwrap()
        .iter()
        .find(|alarm| alarm["id"] == "connections-refused:syslog:NoDescriptors");
    assert_eq!(alarm.unwrap()["severity"], "critical");
    let metrics = inrush.http("GET", "/metrics").body;
    assert!(
        metrics.contains("inrush_process_descriptors_max 80"),
        "{metrics}"
    );
    drop(crowd);
    eventually("the crowd gone", || {
        (inrush.source()["connections"] == 0).then_some(())
    });
    Tcp::connect(inrush.address("tcp")).send(numbered(200) + "\n");
    inrush.conserved(201);
}

#[test]
fn one_address_has_no_more_than_its_share() {
    let share = "stream: { max_connections_per_address: 2 }";
    let inrush = Inrush::start(&to_file(TCP, share));
    let mut open: Vec<_> = (0..2)
        .map(|_| Tcp::connect(inrush.address("tcp")))
        .collect();
    let mut third = Tcp::connect(inrush.address("tcp"));
    assert!(third.is_closed_by_peer());
    let row = inrush.refused("its limit of connections");
    assert_eq!(
        (&row["address"], &row["reason"]),
        (&"127.0.0.1".into(), &"too_many_of_address".into())
    );
    open[0].send(numbered(1) + "\n");
    inrush.conserved(1);
    drop(open);
    eventually("room again", || {
        (inrush.source()["connections"] == 0).then_some(())
    });
    Tcp::connect(inrush.address("tcp")).send(numbered(2) + "\n");
    inrush.conserved(2);
}

#[test]
fn behind_a_proxy_the_address_in_the_header_has_the_share() {
    let options = "stream: { max_connections_per_address: 1, proxy_protocol: required }";
    let inrush = Inrush::start(&to_file(TCP, options));
    let from = |last: u8| {
        let mut tcp = Tcp::connect(inrush.address("tcp"));
        tcp.send(format!("PROXY TCP4 192.0.2.{last} 10.0.0.1 56324 514\r\n"));
        tcp
    };
    let (mut first, mut other) = (from(1), from(2));
    first.send(numbered(1) + "\n");
    other.send(numbered(2) + "\n");
    inrush.conserved(2);
    assert!(from(1).is_closed_by_peer());
    assert_eq!(
        inrush.refused("its limit of connections")["address"],
        "192.0.2.1"
    );
    drop(first);
    eventually("the first gone", || {
        (inrush.source()["connections"] == 1).then_some(())
    });
    from(1).send(numbered(3) + "\n");
    inrush.conserved(3);
}

#[test]
fn tls_and_http_on_a_syslog_port_are_named_and_are_no_events() {
    let inrush = Inrush::start(&to_file(TCP, ""));
    let hello = [
        0x16, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3, b'\n', b'<', b'1', b'3', b'>',
    ];
    assert!(
        Tcp::connect(inrush.address("tcp"))
            .send(hello)
            .is_closed_by_peer()
    );
    let request = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    assert!(
        Tcp::connect(inrush.address("tcp"))
            .send(request)
            .is_closed_by_peer()
    );
    // A line of a web server's log is an event.
    Tcp::connect(inrush.address("tcp")).send("GET /a HTTP/1.1\r\n<13>x\r\n");
    let ledger = inrush.wait_until("two events", |ledger| {
        ledger.destinations["out"].delivered == 2
    });
    let source = &ledger.sources["syslog"];
    assert_eq!((source.received, source.accepted), (4, 2));
    let rejected = |reason: &str| source.rejected[reason];
    assert_eq!(
        (
            rejected("tls_on_plain_port"),
            rejected("http_on_syslog_port")
        ),
        (1, 1)
    );
    assert!(
        inrush.refused("TLS on a plain port")["remedy"]
            .to_string()
            .contains("tls://")
    );
    inrush.refused("HTTP on a syslog port");
    let log = eventually("a line in the log", || {
        let log = inrush.stderr();
        log.contains("127.0.0.1: TLS on a plain port: 1")
            .then_some(log)
    });
    assert!(!log.contains("events-rejected"), "{log}");
}

#[test]
fn a_failed_handshake_has_address_reason_and_alarm() {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::new(dir.path());
    pki.issue("server");
    pki.issue_for("old", -30..-2);
    let elsewhere = tempfile::tempdir().unwrap();
    let stranger = Pki::new(elsewhere.path());
    stranger.issue("client");
    fs::copy(pki.path("ca.pem"), stranger.path("ca.pem")).unwrap();
    let tls = "tls: { cert_file: \"{dir}/server.pem\", key_file: \"{dir}/server.key\", \
        client_ca_file: \"{dir}/ca.pem\" }";
    let options = Options {
        dir: Some(dir),
        ..Options::default()
    };
    let inrush = Inrush::with(&to_file("tls://127.0.0.1:0", tls), options);
    let connect = |config| {
        if let Ok(mut stream) = tls_connect(inrush.address("tls"), &config) {
            let _ = writeln!(stream, "never").and_then(|()| stream.flush());
        }
    };
    for _ in 0..3 {
        connect(pki.client(None));
    }
    connect(pki.client(Some("old")));
    connect(stranger.client(Some("client")));
    Tcp::connect(inrush.address("tls")).send(numbered(1) + "\n");
    Tcp::connect(inrush.address("tls")).send("GET / HTTP/1.1\r\n\r\n");
    for why in [
        "no client certificate",
        "has expired",
        "unknown authority",
        "plain text on a TLS port",
        "HTTP on a TLS port",
    ] {
        assert_eq!(inrush.refused(why)["address"], "127.0.0.1", "{why}");
    }
    inrush.connection_errors("tls", 7);
    let alarm = eventually("an alarm of what goes on", || {
        let flow = inrush.json("/api/v1/flow");
        let alarms = flow["alarms"].as_array()?;
        let id = "connections-refused:syslog:NoCertificate";
        alarms.iter().find(|alarm| alarm["id"] == id).cloned()
    });
    assert!(alarm["what"].to_string().contains("127.0.0.1"), "{alarm}");
    assert!(
        alarm["remedy"].to_string().contains("client_ca_file"),
        "{alarm}"
    );
    eventually("the log", || {
        inrush
            .stderr()
            .contains("127.0.0.1: no client")
            .then_some(())
    });
}

#[test]
fn who_asks_whether_the_process_lives_is_told_so_while_a_collector_is_away() {
    let yaml = "sources: { s: { type: syslog, listen: [udp://127.0.0.1:0] } }\n\
        destinations: { h: { type: splunk_hec, endpoints: [\"http://127.0.0.1:9\"], token: T } }\n";
    let inrush = Inrush::start(yaml);
    send_udp(inrush.address("udp"), [numbered(1)]);
    eventually("unhealthy", || {
        (inrush.http("GET", "/healthz").status == 503).then_some(())
    });
    assert_eq!(inrush.http("GET", "/livez").status, 200);
}
