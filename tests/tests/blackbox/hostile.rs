//! Peers that mean harm: noise, crowds, and connections that go nowhere.

use std::io::Write;
use std::net::TcpStream;

use inrush_tests::*;

use crate::{TCP, to_file};

/// The same noise in every run (xorshift64).
fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..bytes).map(|_| next()).collect()
}

fn with_tls(listen: &str, options: &str) -> (Inrush, Pki) {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::new(dir.path());
    pki.issue("server");
    let tls = "tls: { cert_file: \"{dir}/server.pem\", key_file: \"{dir}/server.key\" }";
    let yaml = to_file(listen, &format!("{tls}\n{options}"));
    (
        Inrush::with(
            &yaml,
            Options {
                dir: Some(dir),
                ..Options::default()
            },
        ),
        pki,
    )
}

#[test]
fn noise_on_every_listener_ends_nothing_but_itself() {
    let listen = "udp://127.0.0.1:0, tcp://127.0.0.1:0, tls://127.0.0.1:0";
    let (inrush, pki) = with_tls(listen, "framing: newline");
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    for seed in 1..=64 {
        send_udp(inrush.address("udp"), [noise(1 + seed * 20, seed as u64)]);
        tcp.send(noise(16 * 1024, seed as u64 + 1000));
        let mut raw = TcpStream::connect(inrush.address("tls")).unwrap();
        // The other side may have hung up already: noise is no ClientHello.
        let _ = raw.write_all(&noise(4096, seed as u64 + 2000));
    }
    inrush.connection_errors("tls", 64);
    let mut tls = tls_connect(inrush.address("tls"), &pki.client(None)).unwrap();
    tls.write_all(&noise(64 * 1024, 77)).unwrap();
    writeln!(tls, "\n{}", numbered(2)).unwrap();
    tls.flush().unwrap();
    tcp.send(format!("\n{}\n", numbered(1)));
    send_udp(inrush.address("udp"), [numbered(3)]);
    inrush.wait_until("the good messages after the noise", |_| {
        let ids = field(&inrush.events_so_far("out.jsonl"), "msg_id");
        ["ID1", "ID2", "ID3"]
            .iter()
            .all(|id| ids.iter().any(|have| have == id))
    });
    assert!(tcp.is_open());
    let ledger = inrush.wait_until("all settled", |l| l.destinations["out"].pending == 0);
    assert_eq!(
        inrush.events("out.jsonl").len() as u64,
        ledger.sources["syslog"].accepted
    );
    let lines = inrush.stderr().lines().count();
    assert!(
        lines < 30,
        "{lines} lines on stderr: no line for each bad record"
    );
}

#[test]
fn noise_in_every_framing_keeps_the_ledger_whole() {
    for framing in ["auto", "octet_counting"] {
        let inrush = Inrush::start(&to_file(TCP, &format!("framing: {framing}")));
        for seed in 1..=8 {
            Tcp::connect(inrush.address("tcp")).send(noise(256 * 1024, seed));
        }
        Tcp::connect(inrush.address("tcp")).send(format!("{} {}", numbered(1).len(), numbered(1)));
        inrush.wait_until("the good message and an end of all connections", |ledger| {
            ledger.destinations["out"].pending == 0
                && inrush.source()["connections"] == 0
                && field(&inrush.events_so_far("out.jsonl"), "msg_id").contains(&"ID1".to_owned())
        });
    }
}

#[test]
fn frames_that_never_end_take_no_memory() {
    let inrush = Inrush::start(&to_file(TCP, ""));
    let mut open = Vec::new();
    for n in 0..500 {
        let mut tcp = Tcp::connect(inrush.address("tcp"));
        tcp.send(format!("{} <13>never finished {n}", 9_000_000 + n));
        open.push(tcp);
    }
    Tcp::connect(inrush.address("tcp")).send(numbered(1) + "\n");
    inrush.wait_until("the good message", |l| l.sources["syslog"].accepted >= 1);
    assert!(
        inrush.rss_bytes() < 250 << 20,
        "{} bytes resident",
        inrush.rss_bytes()
    );
    drop(open);
    let events = inrush.collected(501);
    let cut = events
        .iter()
        .filter(|e| e["anomalies"].to_string().contains("unterminated"));
    assert_eq!(cut.count(), 500);
}

#[test]
fn ten_thousand_idle_connections_are_borne() {
    const IDLE: usize = 10_000;
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    if hard < IDLE as u64 + 1000 {
        skip!("the hard limit of open files is {hard}");
    }
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    let inrush = Inrush::start(&to_file(TCP, ""));
    let before = inrush.rss_bytes();
    let idle: Vec<_> = (0..IDLE)
        .map(|_| Tcp::connect(inrush.address("tcp")))
        .collect();
    let mut last = Tcp::connect(inrush.address("tcp"));
    last.send(numbered(1) + "\n");
    inrush.conserved(1);
    eventually("all connections counted", || {
        (inrush.source()["connections"].as_u64()? == IDLE as u64 + 1).then_some(())
    });
    let grown = inrush.rss_bytes().saturating_sub(before);
    assert!(
        grown < 100 << 20,
        "{grown} bytes for {IDLE} idle connections"
    );
    drop((idle, last));
    eventually("all connections gone", || {
        (inrush.source()["connections"] == 0).then_some(())
    });
}

#[test]
fn a_handshake_that_crawls_is_ended_and_holds_up_nobody() {
    let (inrush, pki) = with_tls("tls://127.0.0.1:0", "stream: { handshake_timeout: 500ms }");
    let mut slow: Vec<_> = (0..20)
        .map(|_| Tcp::connect(inrush.address("tls")))
        .collect();
    for tcp in &mut slow {
        tcp.send([0x16, 0x03, 0x01]);
    }
    let mut good = tls_connect(inrush.address("tls"), &pki.client(None)).unwrap();
    writeln!(good, "{}", numbered(1)).unwrap();
    inrush.conserved(1);
    assert!(slow.iter_mut().all(Tcp::is_closed_by_peer));
    inrush.connection_errors("handshake_timeout", 20);
}

#[test]
fn one_connection_too_many_is_refused_and_counted() {
    let inrush = Inrush::start(&to_file(TCP, "stream: { max_connections: 2 }"));
    let to = inrush.address("tcp");
    let first = Tcp::connect(to);
    let second = Tcp::connect(to);
    let mut third = Tcp::connect(to);
    assert!(third.is_closed_by_peer());
    inrush.connection_errors("too_many_connections", 1);
    drop((first, second));
    eventually("room again", || {
        (inrush.source()["connections"] == 0).then_some(())
    });
    Tcp::connect(to).send(numbered(1) + "\n");
    inrush.conserved(1);
}

#[test]
fn an_idle_timeout_ends_silent_connections_only_where_asked_for() {
    let inrush = Inrush::start(&to_file(TCP, "stream: { idle_timeout: 300ms }"));
    let mut idle = Tcp::connect(inrush.address("tcp"));
    idle.send(numbered(1) + "\n");
    assert!(idle.is_closed_by_peer());
    inrush.connection_errors("idle_timeout", 1);
    inrush.conserved(1);
}

#[test]
fn empty_datagrams_are_rejected_with_their_reason() {
    let inrush = Inrush::start(&to_file("udp://127.0.0.1:0", ""));
    send_udp(
        inrush.address("udp"),
        [&b""[..], b"\n", numbered(1).as_bytes()],
    );
    let ledger = inrush.wait_until("three received", |l| l.sources["syslog"].received == 3);
    assert_eq!(ledger.sources["syslog"].rejected["empty"], 2);
    assert_eq!(ledger.sources["syslog"].accepted, 1);
}
