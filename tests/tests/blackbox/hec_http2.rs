//! HTTP Event Collector over HTTP/2: what clients get that ask for it within TLS.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;

use inrush_tests::*;
use serde_json::Value;
use tempfile::TempDir;

use crate::hec_server::{TOKEN, collector, forwarder};

/// A collector with TLS, and the folder with its certificates.
struct Secure {
    inrush: Inrush,
    pki: Pki,
    _dir: TempDir,
}

impl Secure {
    fn start(token: &str, more: &str) -> Self {
        Self::with(|tls| collector(token, format!("{tls}\n{more}").trim_end()))
    }

    /// With the configuration that has these options of TLS.
    fn with(config: impl FnOnce(&str) -> String) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let pki = Pki::new(dir.path());
        pki.issue("server");
        let tls = format!(
            "tls: {{ cert_file: {}, key_file: {} }}",
            pki.path("server.pem").display(),
            pki.path("server.key").display()
        );
        Self {
            inrush: Inrush::start(&config(&tls)),
            pki,
            _dir: dir,
        }
    }

    fn connect(&self, token: &str) -> Http2Client {
        let to = self.inrush.address("https");
        Http2Client::connect(to, &self.pki.client(None), token)
    }

    /// A connection of TLS for which these protocols are asked.
    fn tls(&self, protocols: &[&str]) -> TlsStream {
        let mut config = Arc::unwrap_or_clone(self.pki.client(None));
        config.alpn_protocols = protocols
            .iter()
            .map(|one| one.as_bytes().to_vec())
            .collect();
        tls_connect(self.inrush.address("https"), &Arc::new(config)).unwrap()
    }
}

/// A body of events whose texts are these numbers, of 1 KB each.
fn numbered_events(numbers: std::ops::Range<usize>, index: &str) -> String {
    let padding = "x".repeat(1000);
    numbers
        .map(|n| format!(r#"{{"event":"{n} {padding}","index":"{index}"}}"#))
        .collect()
}

/// The numbers of the events in the file, in order.
fn numbers(events: &[Value]) -> Vec<usize> {
    let texts = field(events, "raw");
    let number = |text: &String| text.split_once(' ').unwrap().0.parse().unwrap();
    let mut numbers: Vec<usize> = texts.iter().map(number).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn http2_serves_what_http1_does() {
    let server = Secure::start(", ack: received", "");
    let mut hec = server.connect(TOKEN);
    let channel = [(
        "x-splunk-request-channel",
        "11111111-2222-3333-4444-55555555555A",
    )];
    let body = numbered_events(0..50, "main");
    let reply = hec.ask("event", &channel, body.as_bytes());
    assert_eq!(reply.brief(), (200, Some(0)), "{}", reply.body);
    let id = reply.json()["ackId"].as_u64().unwrap();
    assert!(!reply.head.contains("connection"), "{}", reply.head);
    assert!(reply.head.contains("vary: Authorization"), "{}", reply.head);
    let poll = hec.ask("ack", &channel, format!("{{\"acks\":[{id}]}}").as_bytes());
    assert_eq!(poll.body, format!("{{\"acks\":{{\"{id}\":true}}}}"));
    let fields = [channel[0], ("content-encoding", "gzip")];
    let zipped = gzip(numbered_events(50..100, "main"));
    assert_eq!(hec.ask("event", &fields, &zipped).brief(), (200, Some(0)));
    for (target, wanted) in [
        ("GET /services/collector/health", (200, Some(17))),
        ("HEAD /services/collector/health", (200, None)),
        ("OPTIONS /services/collector/event", (200, None)),
        ("GET /services/collector/event", (405, Some(404))),
        ("/services/nothing", (404, Some(404))),
        ("raw", (400, Some(10))),
    ] {
        assert_eq!(hec.ask(target, &[], b"").brief(), wanted, "{target}");
    }
    let reply = hec.ask("OPTIONS /services/collector/event", &[], b"");
    assert!(reply.head.contains("allow: POST,OPTIONS"), "{}", reply.head);
    let twice = [channel[0], ("authorization", "Splunk other")];
    assert_eq!(hec.ask("event", &twice, b"{}").status, 400, "two tokens");
    let mut stranger = server.connect("nobody-knows");
    assert_eq!(stranger.event(&body).brief(), (403, Some(4)));
    assert_eq!(
        numbers(&server.inrush.collected(100)),
        Vec::from_iter(0..100)
    );
    server.inrush.conserved(100);
}

#[test]
fn concurrent_streams_keep_their_events_apart() {
    let server = Secure::start("", "");
    let mut hec = server.connect(TOKEN);
    let bodies = (0..100).map(|n| {
        let index = format!("index{n}");
        let body = numbered_events(n * 100..n * 100 + 100, &index);
        match n % 2 {
            0 => (&[][..], body.into()),
            _ => (&[("content-encoding", "gzip")][..], gzip(body).into()),
        }
    });
    let requests: Vec<Http2Request<'_>> = bodies
        .map(|(fields, body)| ("event", fields, body))
        .collect();
    for reply in hec.all(&requests) {
        assert_eq!(reply.brief(), (200, Some(0)), "{}", reply.body);
    }
    let events = server.inrush.collected(10_000);
    assert_eq!(numbers(&events), Vec::from_iter(0..10_000));
    for event in &events {
        let of_request = numbers(std::slice::from_ref(event))[0] / 100;
        assert_eq!(event["index"], format!("index{of_request}"));
    }
    server.inrush.conserved(10_000);
}

#[test]
fn a_body_of_many_windows_is_taken_while_it_comes() {
    let server = Secure::start("", "max_content_length: 10MB");
    let mut hec = server.connect(TOKEN);
    let body = numbered_events(0..5000, "main");
    assert_eq!(hec.event(&body).brief(), (200, Some(0)));
    let lines: String = (0..300_000)
        .map(|n| format!("{n} {}\n", n ^ 0x2a5f3))
        .collect();
    let fields = [("content-encoding", "gzip")];
    let reply = hec.ask("raw", &fields, &gzip(&lines));
    assert_eq!(reply.brief(), (200, Some(0)));
    let long = "l".repeat(900_000);
    let reply = hec.event(&format!(r#"{{"event":"{long}"}}"#));
    assert_eq!(reply.brief(), (200, Some(0)));
    let longer = numbered_events(0..11_000, "main");
    let announced = [("content-length", "11200000")];
    let reply = hec.ask("event", &announced, &longer.as_bytes()[..11_200_000]);
    assert_eq!(reply.status, 413, "the connection goes on: {}", reply.body);
    assert_eq!(hec.event(r#"{"event":"last"}"#).brief(), (200, Some(0)));
    server.inrush.conserved(305_002);
}

#[test]
fn a_stream_that_is_reset_leaves_the_others() {
    let server = Secure::start("", "");
    let mut hec = server.connect(TOKEN);
    let mut stream = hec.open("event", &[]);
    let body = numbered_events(0..41, "main");
    let cut = body.len() - 500;
    hec.send(&mut stream, &body.as_bytes()[..cut], false);
    // Another one overtakes: it is complete, and the first is not.
    let health = hec.ask("GET /services/collector/health", &[], b"");
    assert_eq!(health.status, 200);
    server
        .inrush
        .wait_until("events of it are taken", |ledger| {
            ledger.sources["hec"].received == 40
        });
    hec.reset(&mut stream);
    assert_eq!(hec.event(&numbered_events(50..60, "main")).status, 200);
    let taken = Vec::from_iter((0..40).chain(50..60));
    assert_eq!(numbers(&server.inrush.collected(50)), taken);
    server.inrush.conserved(50);
}

#[test]
fn a_slow_stream_holds_nobody_back() {
    let server = Secure::start("", "");
    let mut hec = server.connect(TOKEN);
    let mut slow = hec.open("event", &[]);
    let body = numbered_events(0..10, "main");
    hec.send(&mut slow, &body.as_bytes()[..5000], false);
    let mut stranger = server.connect("nobody-knows");
    let refused = stranger.open("event", &[]);
    assert_eq!(stranger.answer(refused).status, 403, "before its body");
    for n in 1..20 {
        let body = numbered_events(n * 10..n * 10 + 10, "main");
        assert_eq!(hec.event(&body).brief(), (200, Some(0)));
    }
    hec.send(&mut slow, &body.as_bytes()[5000..], true);
    assert_eq!(hec.answer(slow).brief(), (200, Some(0)));
    assert_eq!(
        numbers(&server.inrush.collected(200)),
        Vec::from_iter(0..200)
    );
}

#[test]
fn a_full_queue_is_told_to_each_stream_that_has_no_room() {
    let splunk = Hec::start();
    splunk.otherwise(Some(Reply::busy(1)));
    let server = Secure::with(|tls| {
        let options = format!("{tls}\n    busy_after: 50ms\n    tokens:");
        forwarder(&splunk.url(), "").replace("tokens:", &options)
            + "queue: { durability: memory, memory_bytes: 32MiB }\n"
    });
    let mut hec = server.connect(TOKEN);
    // Short enough to have come when its turn is there: one under way would wait, as all behind it.
    let body = numbered_events(0..20, "main");
    let round: Vec<Http2Request<'_>> = (0..32)
        .map(|_| ("event", &[][..], body.clone().into()))
        .collect();
    let mut taken = 0;
    loop {
        let replies = hec.all(&round);
        let good = replies.iter().filter(|reply| reply.status == 200).count();
        taken += good as u64 * 20;
        let busy = replies.iter().find(|reply| reply.status != 200);
        if let Some(busy) = busy {
            assert_eq!(busy.brief(), (503, Some(9)));
            assert!(busy.head.contains("retry-after: 1"), "{}", busy.head);
            break;
        }
    }
    let health = hec.ask("GET /services/collector/health", &[], b"");
    assert_eq!(health.brief(), (503, Some(18)));
    splunk.otherwise(None);
    let ledger = server.inrush.conserved(taken);
    assert_eq!(ledger.sources["hec"].received, taken);
    assert_eq!(hec.event(&body).status, 200);
}

/// The preface of a client, with empty settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A frame (RFC 9113 section 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// The code of the last GOAWAY before the end of the connection.
fn go_away(mut stream: impl Read) -> Option<u8> {
    let mut bytes = Vec::new();
    // A reset after it is an end too.
    let _ = stream.read_to_end(&mut bytes);
    let mut code = None;
    let mut rest = &bytes[..];
    while let [a, b, c, kind, ..] = *rest {
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        if kind == 7 {
            code = rest.get(16).copied();
        }
        rest = rest.get(9 + length..).unwrap_or_default();
    }
    code
}

/// Fields of `POST https:///`, by their places in the table that every client knows.
const POST: &[u8] = &[0x83, 0x84, 0x87];

/// Frames of clients who mean no good, so many of them.
fn floods(frames: u32) -> [Vec<u8>; 4] {
    let resets = |n: u32| {
        [
            frame(1, 4, 2 * n + 1, POST),
            frame(3, 0, 2 * n + 1, &[0; 4]),
        ]
        .concat()
    };
    let floods = [
        (Vec::new(), (0..frames).flat_map(resets).collect()),
        (
            frame(1, 4, 1, POST),
            frame(0, 0, 1, b"").repeat(frames as usize),
        ),
        (
            frame(1, 0, 1, POST),
            frame(9, 0, 1, b"").repeat(frames as usize),
        ),
        (frame(1, 4, 1, &[0xff; 100]), Vec::new()),
    ];
    floods.map(|(begin, flood): (_, Vec<u8>)| [PREFACE, &begin, &flood].concat())
}

#[test]
fn floods_end_their_connection_alone() {
    let server = Secure::start("", "");
    let mut hec = server.connect(TOKEN);
    for flood in floods(500) {
        let mut stream = server.tls(&["h2"]);
        stream.write_all(&flood).unwrap();
        let code = go_away(stream);
        assert!(code.is_some_and(|code| code != 0), "{code:?}");
        assert_eq!(hec.event(r#"{"event":"0 good"}"#).status, 200);
    }
    for flood in floods(100_000) {
        let mut stream = server.tls(&["h2"]);
        // It ends before all of it is written, by a reset.
        let _ = stream.write_all(&flood);
        go_away(stream);
    }
    server.inrush.connection_errors("bad_http_request", 8);
    let log = server.inrush.stderr();
    assert!(!log.contains("WARN"), "{log}");
    server.inrush.conserved(4);
}

#[test]
fn a_stop_answers_streams_and_says_goodbye() {
    let server = Secure::start("", "");
    let mut hec = server.connect(TOKEN);
    assert_eq!(hec.event(&numbered_events(0..10, "main")).status, 200);
    let mut late = hec.open("event", &[]);
    hec.send(
        &mut late,
        &numbered_events(10..11, "main").as_bytes()[..500],
        false,
    );
    assert_eq!(
        hec.ask("GET /services/collector/health", &[], b"").status,
        200
    );
    let Secure { inrush, _dir, .. } = server;
    let stopping = std::thread::spawn(move || inrush.stop());
    assert_eq!(hec.answer(late).brief(), (503, Some(23)));
    assert_eq!(hec.ended(), None, "without a fault");
    let (exit, _dir) = stopping.join().unwrap();
    assert!(exit.status.success(), "{}", exit.stderr);
}

#[test]
fn clients_that_ask_for_http1_or_nothing_get_it() {
    let server = Secure::start("", "");
    for protocols in [&[][..], &["http/1.1"], &["http/1.0"], &["http/1.1", "h3"]] {
        let mut hec = HecClient::over(server.tls(protocols), TOKEN);
        assert_eq!(hec.event(r#"{"event":"x"}"#).brief(), (200, Some(0)));
    }
    // In plain text nobody can ask: it is no request of HTTP/1.
    let plain = Inrush::start(&collector("", ""));
    let mut socket = TcpStream::connect(plain.address("http")).unwrap();
    socket.write_all(PREFACE).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 505 "), "{answer}");
    server.inrush.conserved(4);
}

#[test]
fn curl_speaks_every_version() {
    let version = Command::new("curl").arg("--version").output();
    let version = version.map(|out| String::from_utf8_lossy(&out.stdout).into_owned());
    if !version.is_ok_and(|version| version.contains("HTTP2")) {
        skip!("no curl with HTTP/2");
    }
    let server = Secure::start("", "");
    let url = format!(
        "https://localhost:{}/services/collector",
        server.inrush.address("https").port()
    );
    let body = server.inrush.path("body");
    std::fs::write(&body, numbered_events(0..1000, "main")).unwrap();
    for (option, wanted) in [("--http2", "2"), ("--http1.1", "1.1"), ("-0", "1")] {
        let mut curl = Command::new("curl");
        let authorization = format!("Authorization: Splunk {TOKEN}");
        curl.args(["-sS", option, "-H", &authorization, "--cacert"])
            .arg(server.pki.path("ca.pem"))
            .arg("--data-binary")
            .arg(format!("@{}", body.display()))
            .args(["-w", " %{http_version} %{http_code}", &url]);
        let out = curl.output().unwrap();
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        let prefix = format!(" {wanted}");
        let tail = said.strip_prefix(r#"{"text":"Success","code":0}"#);
        let tail = tail.unwrap_or_else(|| panic!("{option}: {out:?}"));
        assert!(
            tail.starts_with(&prefix) && tail.ends_with(" 200"),
            "{option}: {said}"
        );
    }
    server.inrush.conserved(3000);
}
