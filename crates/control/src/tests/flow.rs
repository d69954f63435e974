//! The flow: how often it is gathered, and what readers of the stream may cost.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Instant;

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

/// An API with a snapshot every so often, and the count of those gathered.
fn serve_every(flow_every: Duration, limits: ServerLimits) -> (AdminServer, Arc<AtomicI64>) {
    let admin = StandIn::default();
    let gathered = Arc::clone(&admin.gathered);
    let limits = ServerLimits {
        flow_every,
        ..limits
    };
    (serve_within(admin, limits), gathered)
}

/// A reader of the stream.
struct Reader(BufReader<TcpStream>);

impl Reader {
    fn open(server: &AdminServer) -> Self {
        let address = server.local_addr();
        let mut stream = TcpStream::connect(address).unwrap();
        let request = format!("GET /api/v1/flow/stream HTTP/1.1\r\nhost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        Self(BufReader::new(stream))
    }

    /// The next line that begins so, without that; `None` at the end of the connection.
    fn line(&mut self, start: &str) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(rest) = line.strip_prefix(start) {
                return Some(rest.trim_end().to_owned());
            }
        }
    }

    fn status(&mut self) -> String {
        self.line("HTTP/1.1 ").unwrap()
    }

    /// The time of the next snapshot.
    fn at_ms(&mut self) -> Option<i64> {
        let json: serde_json::Value = serde_json::from_str(&self.line("data: ")?).unwrap();
        json["at_ms"].as_i64()
    }
}

#[test]
fn nobody_looks_and_nothing_is_gathered() {
    let (server, gathered) = serve_every(Duration::ZERO, ServerLimits::default());
    assert_eq!(get(server.local_addr(), "/healthz").status, 200);
    assert_eq!(gathered.load(Relaxed), 0);
    let answer = get(server.local_addr(), "/api/v1/flow");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.json()["queue"]["full_in_s"], 77);
    // One that went on by itself would have made thousands meanwhile.
    assert_eq!(get(server.local_addr(), "/healthz").status, 200);
    assert_eq!(gathered.load(Relaxed), 1);
}

#[test]
fn one_snapshot_serves_all_who_look_in_its_time() {
    let (server, gathered) = serve_every(HOUR, ServerLimits::default());
    let at = server.local_addr();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(get(at, "/api/v1/flow").json()["at_ms"], 1));
        }
    });
    let mut reader = Reader::open(&server);
    assert_eq!(
        reader.at_ms(),
        Some(1),
        "at once, though the next is an hour away"
    );
    assert_eq!(gathered.load(Relaxed), 1);
}

#[test]
fn every_reader_sees_every_snapshot_it_has_time_for() {
    let every = Duration::from_millis(20);
    let begun = Instant::now();
    let (server, _) = serve_every(every, ServerLimits::default());
    let mut readers = [Reader::open(&server), Reader::open(&server)];
    for reader in &mut readers {
        assert_eq!(reader.status(), "200 OK");
        assert_eq!(
            reader.line("content-type: ").as_deref(),
            Some("text/event-stream")
        );
        assert_eq!(reader.line("retry: ").as_deref(), Some("1000"));
    }
    let mut last = [0, 0];
    for _ in 0..10 {
        for (reader, last) in readers.iter_mut().zip(&mut last) {
            let at = reader.at_ms().unwrap();
            assert!(at > *last, "{at} after {last}");
            *last = at;
            // The time of a snapshot is its number: so many others lie before it.
            let least = every * (at as u32 - 1);
            assert!(
                begun.elapsed() >= least,
                "{at} snapshots in less than {least:?}"
            );
        }
    }
}

#[test]
fn a_stream_outlives_the_time_of_a_connection() {
    let limits = ServerLimits {
        connection: Duration::from_secs(1),
        stop: Duration::from_millis(10),
        ..ServerLimits::default()
    };
    let (server, _) = serve_every(Duration::from_millis(10), limits);
    let mut reader = Reader::open(&server);
    // At least 10 ms each, so two and a half seconds.
    for n in 0..250 {
        assert!(reader.at_ms().is_some(), "ended at {n}");
    }
}

#[test]
fn a_reader_that_reads_nothing_is_cut_off() {
    let limits = ServerLimits {
        connection: Duration::from_millis(50),
        stop: Duration::from_millis(10),
        flow_every: Duration::ZERO,
        flow_readers: 1,
        ..ServerLimits::default()
    };
    let admin = StandIn {
        ballast_bytes: 256 * 1024,
        ..StandIn::default()
    };
    let server = serve_within(admin, limits);
    let mut stuck = Reader::open(&server);
    assert_eq!(stuck.status(), "200 OK");
    // Its place is free again once it is gone, and not before.
    while Reader::open(&server).status() != "200 OK" {}
}

#[test]
fn readers_are_bounded_and_a_place_that_is_left_is_free() {
    let limits = ServerLimits {
        flow_readers: 2,
        ..ServerLimits::default()
    };
    let (server, _) = serve_every(Duration::from_millis(5), limits);
    let mut readers = [Reader::open(&server), Reader::open(&server)];
    readers
        .iter_mut()
        .for_each(|reader| assert_eq!(reader.status(), "200 OK"));
    assert_eq!(Reader::open(&server).status(), "503 Service Unavailable");
    let third = get(server.local_addr(), "/api/v1/flow/stream");
    assert_eq!(third.status, 503);
    assert!(
        third.json()["error"].to_string().contains("2 others"),
        "{}",
        third.body
    );
    assert_eq!(
        get(server.local_addr(), "/api/v1/flow").status,
        200,
        "one snapshot is always had"
    );
    drop(readers);
    while Reader::open(&server).status() != "200 OK" {}
}

#[test]
fn stopping_ends_streams_in_good_order() {
    let (server, _) = serve_every(HOUR, ServerLimits::default());
    let mut reader = Reader::open(&server);
    assert_eq!(reader.at_ms(), Some(1));
    server.stop();
    let mut rest = String::new();
    reader.0.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("0\r\n\r\n"), "a whole answer: {rest:?}");
}
