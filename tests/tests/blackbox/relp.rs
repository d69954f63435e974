//! RELP: what is answered is safe, what is not is sent again.

use std::io::Write;
use std::net::Shutdown;
use std::time::Duration;

use inrush_tests::*;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::RcvBuf;

use crate::to_file;

const RELP: &str = "relp://127.0.0.1:0";

fn start(options: &str) -> Inrush {
    Inrush::start(&to_file(RELP, options))
}

/// Numbers of the messages that came out.
fn ids(inrush: &Inrush) -> Vec<String> {
    field(&inrush.events("out.jsonl"), "msg_id")
}

/// Sends messages one by one; whenever one is answered, `durable` must already count it.
fn answers_follow(inrush: &Inrush, relp: &mut Relp, durable: impl Fn() -> u64) {
    for n in 1..=5 {
        let txnr = relp.syslog(&numbered(n));
        relp.acked([txnr]);
        let durable = durable();
        assert!(durable >= n as u64, "{durable} of {n}\n{}", inrush.stderr());
    }
}

#[test]
fn every_message_is_answered_once_it_is_accepted() {
    let inrush = start("");
    let mut relp = Relp::open(inrush.address("relp"));
    // In memory, what is accepted is as durable as it will be.
    answers_follow(&inrush, &mut relp, || {
        inrush.ledger().sources["syslog"].accepted
    });
    let close = relp.command("close", "");
    let rest = relp.rest();
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!((rest[0].txnr, rest[0].data.as_str()), (close, ""));
    let events = inrush.collected(5);
    assert_eq!(events[0]["protocol"], "relp");
    assert_eq!(ids(&inrush), ["ID1", "ID2", "ID3", "ID4", "ID5"]);
}

#[test]
fn a_window_of_128_frames_is_answered_in_order() {
    let inrush = start("");
    let mut relp = Relp::open(inrush.address("relp"));
    let mut first = 2;
    for round in 0..50 {
        let frames: String = (0..128)
            .map(|n| relp_frame(first + n, "syslog", &numbered(round * 128 + n as usize)))
            .collect();
        relp.send(frames).acked(first..first + 128);
        first += 128;
    }
    inrush.collected(50 * 128);
}

#[test]
fn frames_may_come_byte_by_byte_and_numbers_begin_anew() {
    let inrush = start("");
    let mut relp = Relp::open(inrush.address("relp"));
    for byte in relp_frame(999_999_999, "syslog", &numbered(1)).bytes() {
        relp.send([byte]);
    }
    relp.send(relp_frame(1, "syslog", &numbered(2)));
    relp.acked([999_999_999, 1]);
    assert_eq!(inrush.collected(2).len(), 2);
}

#[test]
fn messages_keep_their_line_feeds_and_may_be_empty() {
    let inrush = start("");
    let mut relp = Relp::open(inrush.address("relp"));
    let two_lines = relp.syslog("<13>one\ntwo\n");
    let empty = relp.syslog("");
    relp.acked([two_lines, empty]);
    let ledger = inrush.wait_until("both counted", |l| l.sources["syslog"].received == 2);
    assert_eq!(ledger.sources["syslog"].rejected["empty"], 1);
    inrush.wait_until("delivered", |l| l.destinations["out"].pending == 0);
    assert_eq!(inrush.events("out.jsonl")[0]["raw"], "<13>one\ntwo");
}

#[test]
fn what_is_too_long_is_cut_flagged_and_answered_at_its_end() {
    let inrush = start("max_message_bytes: 480");
    let mut relp = Relp::open(inrush.address("relp"));
    let long = format!("{}{}", numbered(1), "x".repeat(100_000));
    let frame = relp_frame(2, "syslog", &long);
    let (most, last) = frame.split_at(frame.len() - 1);
    relp.send(most);
    inrush.wait_until("its start", |l| l.sources["syslog"].accepted == 1);
    // No answer before the last byte: the next frame that we get is the answer to it.
    relp.send(last).send(relp_frame(3, "syslog", &numbered(2)));
    relp.acked([2, 3]);
    let events = inrush.collected(2);
    assert_eq!(events[0]["raw"].as_str().unwrap().len(), 480);
    assert!(events[0]["anomalies"].to_string().contains("oversize"));
    assert_eq!(events[1]["msg_id"], "ID2");
}

#[test]
fn what_was_not_answered_is_sent_again_and_arrives_at_least_once() {
    let inrush = start("");
    let mut relp = Relp::open(inrush.address("relp"));
    relp.send(relp_frame(2, "syslog", &numbered(1)));
    relp.send("3 syslog 40 only the sta");
    relp.socket().shutdown(Shutdown::Write).unwrap();
    relp.acked([2]);
    assert_eq!(relp.rest(), []);
    inrush.connection_errors("relp_cut_short", 1);
    let cut = &inrush.source()["cut_bytes"];
    assert_eq!(cut["unfinished"], "3 syslog 40 only the sta".len());
    let mut again = Relp::open(inrush.address("relp"));
    for n in [1, 2] {
        let txnr = again.syslog(&numbered(n));
        again.acked([txnr]);
    }
    inrush.collected(3);
    assert_eq!(ids(&inrush), ["ID1", "ID1", "ID2"]);
}

#[test]
fn broken_streams_are_closed_with_a_reason_after_their_good_frames_are_answered() {
    let inrush = start("");
    let bad = [
        "2 syslog 999999999 never so much",
        "0 syslog 3 abc\n",
        "12345678901234567890 syslog 3 abc\n",
        "2 syslog 3 abcdef\n",
        "2 syslog -3 abc\n",
        "<13>no RELP at all\n",
    ];
    for (n, bytes) in bad.iter().enumerate() {
        let mut relp = Relp::open(inrush.address("relp"));
        relp.send(relp_frame(2, "syslog", &numbered(n)) + bytes);
        relp.acked([2]);
        let rest = relp.rest();
        assert_eq!((rest.len(), rest[0].txnr), (1, 0), "{bytes}: {rest:?}");
        assert_eq!(rest[0].command, "serverclose", "{bytes}");
    }
    inrush.connection_errors("bad_relp_frame", 5);
    inrush.connection_errors("relp_protocol", 1);
    // Of the second one the header could be read.
    let unframed: usize = bad.iter().map(|bytes| bytes.len()).sum();
    let header = "0 syslog 3 \n".len();
    let cut = &inrush.source()["cut_bytes"];
    assert_eq!(cut["unframed"], unframed - header);
    inrush.collected(bad.len() as u64);
}

#[test]
fn what_has_no_place_in_a_session_is_refused() {
    let inrush = start("");
    let mut early = Relp::connect(inrush.address("relp"));
    early.syslog(&numbered(1));
    let answer = early.answer().unwrap();
    assert!(answer.data.starts_with("500 "), "{answer:?}");
    early.rest();
    inrush.connection_errors("relp_protocol", 1);

    let mut relp = Relp::open(inrush.address("relp"));
    let unknown = relp.command("dance", "now");
    let answer = relp.answer().unwrap();
    assert!(
        answer.txnr == unknown && answer.data.starts_with("500 "),
        "{answer:?}"
    );
    let good = relp.syslog(&numbered(2));
    relp.acked([good]);
    inrush.collected(1);
    assert_eq!(ids(&inrush), ["ID2"]);
}

#[test]
fn a_session_that_is_never_opened_is_ended_and_holds_up_nobody() {
    let inrush = start("stream: { handshake_timeout: 250ms }");
    let mut slow: Vec<_> = (0..20)
        .map(|_| Relp::connect(inrush.address("relp")))
        .collect();
    for relp in &mut slow {
        relp.send("1 op");
    }
    let mut good = Relp::open(inrush.address("relp"));
    let txnr = good.syslog(&numbered(1));
    good.acked([txnr]);
    for relp in &mut slow {
        assert_eq!(relp.rest(), []);
    }
    inrush.connection_errors("handshake_timeout", 20);
    let txnr = good.syslog(&numbered(2));
    good.acked([txnr]);
}

#[test]
fn frames_that_never_end_take_no_memory() {
    let inrush = start("");
    let open: Vec<_> = (0..300)
        .map(|n| {
            let mut relp = Relp::open(inrush.address("relp"));
            relp.send(format!("2 syslog {} <13>never finished", 9_000_000 + n));
            relp
        })
        .collect();
    let mut good = Relp::open(inrush.address("relp"));
    let txnr = good.syslog(&numbered(1));
    good.acked([txnr]);
    let rss = inrush.rss_bytes();
    assert!(rss < 250 << 20, "{rss} bytes resident");
    drop(open);
    inrush.connection_errors("relp_cut_short", 300);
    inrush.conserved(1);
}

/// Fills the window and both sockets without reading an answer: the receiver stops reading, and
/// goes on when the answers are read; each message is answered once.
#[test]
fn a_peer_that_does_not_read_its_answers_is_not_read_from_any_more() {
    const FRAMES: u32 = 1_000_000;
    let inrush = Inrush::start(
        &to_file(RELP, "").replace("type: file, path: \"{dir}/out.jsonl\"", "type: blackhole"),
    );
    let mut relp = Relp::open(inrush.address("relp"));
    let mut out = relp.socket().try_clone().unwrap();
    // A small buffer for answers, so that it does not take too many of them.
    setsockopt(&out, RcvBuf, &65536).unwrap();
    // A write that gets nowhere for so long means that nobody reads.
    out.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let frames: String = (2..FRAMES + 2)
        .map(|txnr| format!("{txnr} syslog 5 <13>x\n"))
        .collect();
    let mut rest = frames.as_bytes();
    while let Ok(n @ 1..) = out.write(rest) {
        rest = &rest[n..];
    }
    let unread = inrush.ledger().sources["syslog"].received;
    assert!(!rest.is_empty(), "all of it was taken");
    assert!(inrush.rss_bytes() < 200 << 20, "{}", inrush.rss_bytes());

    out.set_write_timeout(Some(DEADLINE)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| out.write_all(rest).unwrap());
        relp.acked(2..FRAMES + 2);
    });
    assert!(unread < u64::from(FRAMES));
    inrush.conserved(u64::from(FRAMES));
}

#[test]
fn an_orderly_stop_answers_what_was_taken_and_says_so() {
    let inrush = start("");
    let mut relp = Relp::open(inrush.address("relp"));
    let mut idle = Relp::open(inrush.address("relp"));
    let frames: String = (2..2002)
        .map(|txnr| relp_frame(txnr, "syslog", &numbered(txnr as usize)))
        .collect();
    relp.send(frames);
    inrush.wait_until("some of them", |l| l.sources["syslog"].accepted > 0);
    let (exit, dir) = inrush.stop();
    assert_eq!(exit.status.code(), Some(0), "{}", exit.stderr);
    let mut answers = relp.rest();
    let hint = answers.pop().unwrap();
    assert_eq!((hint.txnr, hint.command.as_str()), (0, "serverclose"));
    let out = json_lines(&dir.path().join("out.jsonl"));
    assert!(answers.iter().all(Rsp::is_ok));
    assert!(!out.is_empty());
    assert_eq!(
        answers.len(),
        out.len(),
        "all that was taken, and nothing else"
    );
    assert_eq!(idle.rest().len(), 1, "the hint alone");
}

#[test]
fn a_source_that_leaves_answers_first() {
    let inrush = start("");
    let mut relp = Relp::open(inrush.address("relp"));
    let txnr = relp.syslog(&numbered(1));
    relp.acked([txnr]);
    relp.syslog(&numbered(2));
    inrush.rewrite(&to_file("tcp://127.0.0.1:0", "").replace("  syslog:\n", "  other:\n"));
    assert_eq!(inrush.reload().status, 200);
    let rest = relp.rest();
    assert_eq!((rest.len(), rest[0].is_ok()), (2, true), "{rest:?}");
    assert_eq!(rest[1].command, "serverclose");
    inrush.wait_until("delivered", |l| l.destinations["out"].delivered == 2);
}

/// A queue that drops the newest refuses them, and says which.
#[test]
fn a_full_queue_refuses_what_it_drops() {
    let dead = "out: { type: splunk_hec, endpoints: [\"http://127.0.0.1:1\"], token: t }";
    let yaml = format!(
        "sources:\n  syslog: {{ type: syslog, listen: [{RELP}] }}\ndestinations:\n  {dead}\n\
         queue: {{ durability: memory, memory_bytes: 4MiB, when_full: drop_newest }}\n\
         shutdown_timeout: 100ms\n"
    );
    let inrush = Inrush::start(&yaml);
    let mut relp = Relp::open(inrush.address("relp"));
    let message = format!("{}{}", numbered(1), "x".repeat(10_000));
    let mut said = [0, 0];
    for _ in 0..100 {
        let txnrs: Vec<_> = (0..32).map(|_| relp.syslog(&message)).collect();
        for txnr in txnrs {
            let rsp = relp.answer().unwrap();
            assert_eq!(rsp.txnr, txnr);
            assert!(rsp.is_ok() || rsp.data.starts_with("500 "), "{rsp:?}");
            said[usize::from(!rsp.is_ok())] += 1;
        }
    }
    let source = inrush.ledger().sources["syslog"].clone();
    assert_eq!(
        (source.accepted, source.rejected["queue_full"]),
        said.into()
    );
    assert!(said[0] > 0 && said[1] > 0, "{said:?}");
}

#[test]
fn the_proxy_header_comes_first_and_idle_sessions_end_where_asked_for() {
    let inrush = start("stream: { proxy_protocol: required, idle_timeout: 300ms }");
    let mut relp = Relp::connect(inrush.address("relp"));
    relp.send("PROXY TCP4 192.0.2.7 10.0.0.1 56324 514\r\n")
        .offer();
    let txnr = relp.syslog(&numbered(1));
    relp.acked([txnr]);
    assert_eq!(relp.rest(), []);
    inrush.connection_errors("idle_timeout", 1);
    assert_eq!(inrush.collected(1)[0]["sender"], "192.0.2.7");
}

#[test]
fn under_tls_from_the_first_byte() {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::new(dir.path());
    pki.issue("server");
    let tls = "tls: { cert_file: \"{dir}/server.pem\", key_file: \"{dir}/server.key\" }";
    let options = Options {
        dir: Some(dir),
        ..Options::default()
    };
    let inrush = Inrush::with(&to_file("relps://127.0.0.1:0", tls), options);
    let stream = tls_connect(inrush.address("relps"), &pki.client(None)).unwrap();
    let mut relp = Relp::over(stream);
    relp.offer();
    let frames: String = (2..5002)
        .map(|txnr| relp_frame(txnr, "syslog", &numbered(txnr as usize)))
        .collect();
    relp.send(frames).acked(2..5002);
    relp.command("close", "");
    assert_eq!(relp.rest().len(), 1);
    assert_eq!(inrush.collected(5000)[0]["protocol"], "relps");
    Relp::connect(inrush.address("relps")).send("1 open 0\n");
    inrush.connection_errors("tls", 1);
}
