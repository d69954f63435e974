//! HTTP Event Collector where room is short, the disk fails or the process stops: what is answered,
//! and what was taken all the same.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use inrush_tests::*;

use crate::hec_server::{CHANNEL, TOKEN, acked, client, collector, fill_queue, forwarder, texts};

const GOOD: &str = r#"{"event":"x"}"#;

/// A collector that acknowledges, and answers for want of room so.
fn acknowledging(busy: &str, limit: &str) -> String {
    collector(
        ", ack: received",
        &format!("busy: \"{busy}\"\n{limit}\nbusy_after: 50ms"),
    )
}

fn ack_id(reply: &HecReply) -> Option<u64> {
    reply.json()["ackId"].as_u64()
}

fn health(hec: &mut HecClient) -> (u16, Option<u64>) {
    hec.ask("GET /services/collector/health", "", "").brief()
}

#[test]
fn acknowledgements_that_nobody_asks_for_are_bounded() {
    for (busy, wanted) in [("503", (503, Some(9))), ("429", (429, Some(27)))] {
        let inrush = Inrush::start(&acknowledging(busy, "max_pending_acks: 10"));
        let mut hec = client(&inrush);
        let replies: Vec<_> = (0..10).map(|_| hec.ask("event", CHANNEL, GOOD)).collect();
        let codes: Vec<_> = replies.iter().map(HecReply::brief).collect();
        // A warning from 80 % on, and taken all the same.
        let (plain, warned) = codes.split_at(7);
        assert!(plain.iter().all(|one| *one == (200, Some(0))), "{codes:?}");
        assert!(
            warned.iter().all(|one| *one == (200, Some(25))),
            "{codes:?}"
        );
        assert_eq!(hec.ask("event", CHANNEL, GOOD).brief(), wanted);
        assert_eq!(health(&mut hec), (503, Some(19)));
        assert_eq!(acked(&mut hec, &[ack_id(&replies[0]).unwrap()]), [true]);
        assert_eq!(health(&mut hec), (200, Some(17)));
        assert_eq!(hec.ask("event", CHANNEL, GOOD).brief(), (200, Some(25)));
        assert_eq!(inrush.collected(11).len(), 11);
    }
}

/// Value of a metric of the source.
fn given_up(inrush: &Inrush) -> String {
    let page = inrush.http("GET", "/metrics").body;
    let line = |line: &str| {
        let value = line.strip_prefix("inrush_hec_acks_given_up_total{source=\"hec\"} ")?;
        Some(value.to_owned())
    };
    page.lines().find_map(line).unwrap()
}

/// With numbers and channels: 10 of each, which the first token fills.
#[test]
fn a_client_that_never_asks_takes_no_room_of_other_tokens() {
    let limits = "max_pending_acks: 10\nmax_ack_channels: 10";
    let yaml = acknowledging("429", limits).replace(
        "destinations:",
        "      - { token: of-another-client, ack: received }\ndestinations:",
    );
    let inrush = Inrush::start(&yaml);
    let mut silent = client(&inrush);
    let channel = |n: usize| CHANNEL.replace("5A", &format!("{n:02X}"));
    for n in 0..10 {
        assert_eq!(silent.ask("event", &channel(n), GOOD).status, 200);
    }
    assert_eq!(
        silent.ask("event", &channel(10), GOOD).brief(),
        (429, Some(27))
    );
    let mut other = HecClient::connect(inrush.address("http"), "of-another-client");
    for n in 0..5 {
        let reply = other.ask("event", &channel(n), GOOD);
        assert_eq!(reply.brief(), (200, Some(25)), "{n}");
    }
    // Half of it is theirs, and no more.
    assert_eq!(
        other.ask("event", &channel(5), GOOD).brief(),
        (429, Some(27))
    );
    assert_eq!(given_up(&inrush), "5");
    assert_eq!(inrush.collected(15).len(), 15);
}

#[test]
fn channels_are_bounded() {
    let inrush = Inrush::start(&acknowledging("429", "max_ack_channels: 1"));
    let mut hec = client(&inrush);
    assert_eq!(hec.ask("event", CHANNEL, GOOD).status, 200);
    let other = CHANNEL.replace("5A", "5B");
    assert_eq!(hec.ask("event", &other, GOOD).brief(), (429, Some(27)));
    assert_eq!(hec.ask("event", CHANNEL, GOOD).status, 200);
}

/// A forwarder whose destination takes nothing, with a queue in memory.
fn dead_end(splunk: &Hec, token: &str, more: &str) -> String {
    splunk.otherwise(Some(Reply::busy(1)));
    let options = format!("{more}\n    tokens:");
    forwarder(&splunk.url(), token).replace("tokens:", &options)
        + "queue: { durability: memory, memory_bytes: 32MiB }\n"
}

/// A request that was taken waits for the disk; the others are told.
#[test]
fn a_queue_that_is_full_on_disk_answers_busy_and_takes_nothing() {
    let splunk = Hec::start();
    splunk.otherwise(Some(Reply::busy(1)));
    let options = "busy_after: 50ms\n    tokens:";
    let yaml = forwarder(&splunk.url(), "").replace("tokens:", options)
        + "queue: { durability: fsync, max_bytes: 16MiB }\n";
    let inrush = Inrush::start(&yaml);
    let (mut hec, mut other) = (client(&inrush), client(&inrush));
    let (full, told) = (Arc::new(AtomicBool::new(false)), Instant::now());
    let enough = Arc::clone(&full);
    let filler = thread::spawn(move || {
        let event = format!(r#"{{"event":"{}"}}"#, "x".repeat(500_000));
        let mut taken = 0;
        while !enough.load(Ordering::SeqCst) {
            taken += u64::from(hec.event(event.clone()).status == 200);
        }
        taken
    });
    while health(&mut other) != (503, Some(18)) {
        assert!(told.elapsed() < DEADLINE, "the queue is never full");
    }
    assert_eq!(other.event(GOOD).brief(), (503, Some(9)));
    full.store(true, Ordering::SeqCst);
    splunk.otherwise(None);
    let taken = filler.join().unwrap();
    assert_eq!(inrush.conserved(taken).sources["hec"].received, taken);
}

#[test]
fn health_tells_a_full_queue_with_full_acknowledgements() {
    let splunk = Hec::start();
    let more = "busy_after: 50ms\n    max_pending_acks: 1";
    let yaml = dead_end(&splunk, "", more).replace(
        "destinations:",
        "      - { token: with-acknowledgement, ack: received }\ndestinations:",
    );
    let inrush = Inrush::start(&yaml);
    let mut hec = client(&inrush);
    let fields = format!("Authorization: Splunk with-acknowledgement\r\n{CHANNEL}");
    assert_eq!(hec.ask("event", &fields, GOOD).brief(), (200, Some(25)));
    assert_eq!(health(&mut hec), (503, Some(19)));
    fill_queue(&mut hec);
    assert_eq!(health(&mut hec), (503, Some(20)));
}

#[test]
fn a_request_that_waits_for_room_is_told_of_the_stop() {
    let splunk = Hec::start();
    let yaml = dead_end(&splunk, "", "busy_after: 50ms") + "shutdown_timeout: 2s\n";
    let inrush = Inrush::start(&yaml);
    let mut hec = client(&inrush);
    let (_, taken) = fill_queue(&mut hec);
    inrush.rewrite(&yaml.replace("busy_after: 50ms", "busy_after: 50s"));
    assert_eq!(inrush.reload().status, 200);
    let request = hec.request("event", "Expect: 100-continue\r\n", GOOD.as_bytes());
    // Its head was read then, and it waits for room.
    assert_eq!(hec.send(request).any_answer().status, 100);
    let mut idle = client(&inrush);
    assert_eq!(health(&mut idle), (503, Some(18)));
    assert_eq!(inrush.ledger().sources["hec"].received, taken);
    let (exit, _dir) = inrush.stop();
    assert!(exit.status.success(), "{}", exit.stderr);
    let reply = hec.answer();
    assert_eq!(reply.brief(), (503, Some(23)));
    assert!(reply.head.contains("Connection: close"), "{}", reply.head);
    assert!(hec.is_closed() && idle.is_closed());
}

#[test]
fn a_request_that_waits_goes_on_once_there_is_room() {
    let splunk = Hec::start();
    let yaml = dead_end(&splunk, "", "busy_after: 50ms");
    let inrush = Inrush::start(&yaml);
    let mut hec = client(&inrush);
    let (_, taken) = fill_queue(&mut hec);
    inrush.rewrite(&yaml.replace("busy_after: 50ms", "busy_after: 10m"));
    assert_eq!(inrush.reload().status, 200);
    let bytes = hec.request("event", "Expect: 100-continue\r\n", GOOD.as_bytes());
    assert_eq!(hec.send(bytes).any_answer().status, 100);
    splunk.otherwise(None);
    assert_eq!(hec.answer().status, 200);
    assert_eq!(
        inrush.conserved(taken + 1).sources["hec"].received,
        taken + 1
    );
}

/// Lets the process write files up to so many bytes: beyond, a write fails as on a broken disk.
fn limit_files(inrush: &Inrush, bytes: &str) {
    let pid = inrush.pid().to_string();
    let limit = format!("--fsize={bytes}:");
    run_ok(Command::new("prlimit").args(["--pid", &pid, &limit]));
}

#[test]
fn a_disk_that_fails_is_an_internal_error() {
    if tool("prlimit").is_none() {
        skip!("no prlimit here");
    }
    let splunk = Hec::start();
    splunk.otherwise(Some(Reply::busy(1)));
    let yaml = forwarder(&splunk.url(), ", ack: received").replace(
        "tokens:",
        "busy_after: 50ms\n    busy: \"429\"\n    tokens:",
    ) + "queue: { durability: fsync }\n";
    // Without the signal, a write beyond the limit is an error (setrlimit(2)).
    let wrapper = ["sh", "-c", "trap '' XFSZ; exec \"$0\" \"$@\""].map(str::to_owned);
    let options = Options {
        wrapper: &wrapper,
        ..Options::default()
    };
    let inrush = Inrush::with(&yaml, options);
    let mut hec = client(&inrush);
    let send = |hec: &mut HecClient, text: &str| {
        hec.ask("event", CHANNEL, format!(r#"{{"event":"{text}"}}"#))
    };
    let first = send(&mut hec, "before");
    assert_eq!(first.brief(), (200, Some(0)));
    limit_files(&inrush, "0");
    // It was taken before the failure was known, and is answered though nobody can write it.
    let taken = send(&mut hec, "perhaps");
    assert_eq!((taken.brief(), ack_id(&taken)), ((500, Some(8)), None));
    assert_eq!(send(&mut hec, "refused").brief(), (500, Some(8)));
    assert_eq!(health(&mut hec), (503, Some(18)));
    limit_files(&inrush, "unlimited");
    let after = eventually("the disk works again", || {
        let reply = send(&mut hec, "after");
        (reply.status == 200).then_some(reply)
    });
    let next = ack_id(&after).unwrap();
    let numbers: Vec<u64> = (ack_id(&first).unwrap() + 1..next).collect();
    assert!(!acked(&mut hec, &numbers).contains(&true), "{numbers:?}");
    splunk.otherwise(None);
    inrush.conserved(3);
    let mut texts = splunk.texts();
    texts.sort_unstable();
    assert_eq!(texts, ["after", "before", "perhaps"]);
}

#[test]
fn a_body_that_is_too_long_is_not_taken() {
    let inrush = Inrush::start(&collector("", "max_content_length: 1kB"));
    let long = format!(r#"{{"event":"{}"}}"#, "x".repeat(1_000));
    let zipped = gzip(&long);
    let chunked = format!("{:x}\r\n{long}\r\n0\r\n\r\n", long.len());
    let chunks = "Transfer-Encoding: chunked\r\n";
    let gzip_fields = "Content-Encoding: gzip\r\n";
    let mut hec = client(&inrush);
    for (fields, body) in [(chunks, chunked.as_bytes()), (gzip_fields, &zipped)] {
        assert_eq!(
            hec.ask("event", fields, body).brief(),
            (413, Some(413)),
            "{fields}"
        );
        assert_eq!(hec.event(r#"{"event":"short"}"#).status, 200);
    }
    // One that says so beforehand is answered before it is read, and its connection ends.
    let request = hec.request("event", "", long.as_bytes());
    let reply = hec.send(&request[..request.len() - long.len()]).answer();
    assert_eq!(reply.brief(), (413, Some(413)));
    assert!(reply.head.contains("Connection: close"), "{}", reply.head);
    assert!(hec.is_closed());
    assert_eq!(texts(&inrush, 2), ["short", "short"]);
}

/// A forwarder to a dead end whose queue turns away what comes when it is full.
fn dropping(splunk: &Hec, busy: &str) -> Inrush {
    let yaml = dead_end(splunk, ", ack: received", &format!("busy: \"{busy}\""));
    Inrush::start(&yaml.replace("32MiB", "32MiB, when_full: drop_newest"))
}

#[test]
fn a_request_that_lost_a_part_has_no_acknowledgement() {
    let splunk = Hec::start();
    let inrush = dropping(&splunk, "503");
    let mut hec = client(&inrush);
    let text = "x".repeat(10_000);
    let body: String = (0..6_000)
        .map(|n| format!(r#"{{"event":"{n} {text}"}}"#))
        .collect();
    let reply = hec.ask("event", CHANNEL, body);
    assert_eq!((reply.brief(), ack_id(&reply)), ((503, Some(9)), None));
    let source = inrush.ledger().sources["hec"].clone();
    assert!(
        source.accepted > 0 && source.rejected["queue_full"] > 0,
        "{source:?}"
    );
    splunk.otherwise(None);
    inrush.wait_until("there is room", |l| l.destinations["splunk"].pending == 0);
    let next = ack_id(&hec.ask("event", CHANNEL, GOOD)).unwrap();
    assert_eq!(acked(&mut hec, &[next - 1, next]), [false, true]);
}

#[test]
fn a_late_refusal_is_the_busy_answer_of_the_source() {
    for (busy, wanted) in [("503", (503, Some(9))), ("429", (429, Some(26)))] {
        let splunk = Hec::start();
        let inrush = dropping(&splunk, busy);
        let mut hec = client(&inrush);
        let text = "x".repeat(100_000);
        let body = format!(r#"{{"event":"{text}"}}"#);
        let mut replies = (0..1000).map(|_| hec.ask("event", CHANNEL, &body));
        let refused = replies.find(|reply| reply.status != 200).unwrap();
        assert_eq!((refused.brief(), ack_id(&refused)), (wanted, None));
        // It was read and turned away, not kept waiting.
        let source = inrush.ledger().sources["hec"].clone();
        assert_eq!(source.rejected["queue_full"], 1, "{source:?}");
    }
}

/// A client at that address of this host.
fn client_at(from: &str, to: SocketAddr) -> HecClient {
    use socket2::{Domain, Socket, Type};
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let from: SocketAddr = format!("{from}:0").parse().unwrap();
    socket.bind(&from.into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    HecClient::over(socket.into(), TOKEN)
}

#[test]
fn a_forwarder_that_asks_for_s2s_is_logged_once_a_minute() {
    let inrush = Inrush::start(&collector("", ""));
    let mut other = client_at("127.0.0.2", inrush.address("http"));
    let mut hec = client(&inrush);
    for _ in 0..5 {
        assert_eq!(hec.ask("s2s", "", "x").brief(), (404, Some(404)));
        assert_eq!(other.ask("s2s", "", "x").brief(), (404, Some(404)));
    }
    let (exit, _dir) = inrush.stop();
    let lines = exit.stderr.lines().filter(|line| line.contains("S2S"));
    let mut peers: Vec<_> = lines
        .map(|line| ["127.0.0.1", "127.0.0.2"].map(|peer| line.contains(&format!("peer={peer}"))))
        .collect();
    peers.sort_unstable();
    assert_eq!(peers, [[false, true], [true, false]], "{}", exit.stderr);
}
