//! Whole runs against real receivers on loopback.
#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread::JoinHandle;

use inrush_load::{Args, LoadError, LoadReport, run};

fn load(words: &str) -> Result<LoadReport, LoadError> {
    run(&Args::from_words(words.split(' ')).unwrap())
}

/// Accepts this many connections and gives what each sent until it closed.
fn receive(connections: usize) -> (SocketAddr, JoinHandle<Vec<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let readers: Vec<_> = (0..connections)
            .map(|_| {
                let (mut socket, _) = listener.accept().unwrap();
                std::thread::spawn(move || {
                    let mut all = Vec::new();
                    socket.read_to_end(&mut all).unwrap();
                    all
                })
            })
            .collect();
        readers
            .into_iter()
            .map(|reader| reader.join().unwrap())
            .collect()
    });
    (address, thread)
}

/// The number after `key` in a message.
fn field(message: &str, key: &str) -> u64 {
    let rest = &message[message.find(key).unwrap() + key.len()..];
    rest.split(' ').next().unwrap().parse().unwrap()
}

/// The messages of each sender, after checking that they come in order from 0.
fn count_in_order<'a>(messages: impl Iterator<Item = &'a str>) -> BTreeMap<u64, u64> {
    let mut next = BTreeMap::new();
    for message in messages {
        let expected: &mut u64 = next.entry(field(message, "conn=")).or_default();
        assert_eq!(field(message, "seq="), *expected, "{message}");
        *expected += 1;
    }
    next
}

#[test]
fn the_number_is_exact_over_several_connections_and_threads() {
    let (address, receiver) = receive(3);
    let words = format!("{address} -r 0 -n 40001 -s 300 --active-connections 3 --threads 2");
    let report = load(&words).unwrap();
    let streams = receiver.join().unwrap();
    assert!(report.ok(), "{report}");
    assert_eq!((report.sent, report.requested), (40_001, Some(40_001)));
    assert_eq!(report.bytes, 40_001 * 301);
    let mut counts = BTreeMap::new();
    for stream in &streams {
        let text = std::str::from_utf8(stream).unwrap();
        assert!(text.ends_with('\n') && text.lines().all(|line| line.len() == 300));
        counts.extend(count_in_order(text.lines()));
    }
    assert_eq!(
        counts,
        BTreeMap::from([(0, 13_334), (1, 13_334), (2, 13_333)])
    );
}

#[test]
fn octet_counts_frame_rfc5424() {
    let (address, receiver) = receive(1);
    let words = format!("{address} -r 0 -n 5000 -s 400 --framing octet -P rfc5424");
    let report = load(&words).unwrap();
    let stream = receiver.join().unwrap().remove(0);
    assert!(report.ok() && report.sent == 5000, "{report}");
    let frames = stream.chunks(404).map(|frame| {
        let text = std::str::from_utf8(frame).unwrap();
        assert!(text.starts_with("400 <38>1 20"), "{text}");
        text
    });
    assert_eq!(count_in_order(frames), BTreeMap::from([(0, 5000)]));
}

#[test]
fn a_rate_and_an_interval_send_their_product_at_most() {
    let (address, receiver) = receive(2);
    let report = load(&format!(
        "{address} -r 2000 -I 100ms --active-connections 2"
    ))
    .unwrap();
    let streams = receiver.join().unwrap();
    // A machine that holds the sender up makes it fewer.
    assert!(report.sent > 0 && report.sent <= 200, "{report}");
    assert_eq!(report.requested, Some(200));
    let lines: usize = streams
        .iter()
        .map(|stream| stream.iter().filter(|b| **b == b'\n').count())
        .sum();
    assert_eq!(lines as u64, report.sent);
}

/// Receives this many datagrams.
fn receive_datagrams(count: usize) -> (SocketAddr, JoinHandle<Vec<String>>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let mut buffer = [0; 65_536];
        (0..count)
            .map(|_| {
                let (length, _) = socket.recv_from(&mut buffer).unwrap();
                String::from_utf8(buffer[..length].to_vec()).unwrap()
            })
            .collect()
    });
    (address, thread)
}

#[test]
fn datagrams_are_exact_from_several_sockets() {
    let (address, receiver) = receive_datagrams(130);
    let report = load(&format!("-D {address} -r 0 -n 130 -s 250 --source-ports 3")).unwrap();
    let datagrams = receiver.join().unwrap();
    assert!(
        report.ok() && report.sent == 130 && report.bytes == 130 * 250,
        "{report}"
    );
    assert!(datagrams.iter().all(|datagram| datagram.len() == 250));
    let counts = count_in_order(datagrams.iter().map(String::as_str));
    assert_eq!(counts, BTreeMap::from([(0, 44), (1, 43), (2, 43)]));
}

#[test]
fn bursts_arrive_as_single_messages() {
    let (address, receiver) = receive_datagrams(75);
    let report = load(&format!("udp://{address} -r 0 -n 75 -s 800 --gso 16")).unwrap();
    let datagrams = receiver.join().unwrap();
    assert!(report.ok() && report.sent == 75, "{report}");
    assert!(datagrams.iter().all(|datagram| datagram.len() == 800));
    assert_eq!(
        count_in_order(datagrams.iter().map(String::as_str)),
        BTreeMap::from([(0, 75)])
    );
}

#[test]
fn a_udp_port_without_a_listener_is_reported() {
    let free = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let report = load(&format!("-D {address} -r 0 -n 20")).unwrap();
    assert!(!report.ok() && report.sent == 20, "{report}");
    assert!(report.errors["refused"] > 0);
    assert!(
        report.first_errors["refused"].contains("ss -lun"),
        "{report}"
    );
}

#[test]
fn a_connection_that_breaks_is_counted_and_the_others_go_on() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let receiver = std::thread::spawn(move || {
        let (first, _) = listener.accept().unwrap();
        let (mut second, _) = listener.accept().unwrap();
        drop(first);
        let mut all = Vec::new();
        second.read_to_end(&mut all).unwrap();
        all
    });
    let words = format!("{address} -r 0 -n 100000 -s 500 --active-connections 2");
    let report = load(&words).unwrap();
    let all = receiver.join().unwrap();
    assert!(!report.ok());
    assert_eq!(report.connections.failed, 1, "{report}");
    assert!(report.errors.contains_key("reset") || report.errors.contains_key("closed_by_peer"));
    assert!(report.sent >= 50_000 && report.sent < 100_000, "{report}");
    let text = std::str::from_utf8(&all).unwrap();
    assert_eq!(count_in_order(text.lines()), BTreeMap::from([(1, 50_000)]));
}

#[test]
fn idle_connections_are_held_and_send_nothing_and_proxy_headers_come_first() {
    let (address, receiver) = receive(4);
    let words = format!("{address} -n 10 -r 0 --idle-connections 3 --proxy-protocol 1");
    let report = load(&words).unwrap();
    let mut streams = receiver.join().unwrap();
    assert!(report.ok() && report.connections.idle == 3, "{report}");
    streams.sort_by_key(Vec::len);
    for stream in &streams {
        assert!(stream.starts_with(b"PROXY TCP4 127.0.0.1 127.0.0.1 "));
    }
    let lines = |stream: &Vec<u8>| stream.iter().filter(|b| **b == b'\n').count();
    assert_eq!(streams.iter().map(lines).collect::<Vec<_>>(), [1, 1, 1, 11]);
}

#[test]
fn lines_of_a_file_go_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lines");
    std::fs::write(&path, b"<1>one\n\n<2>t\xffwo\r\n<3>three").unwrap();
    let (address, receiver) = receive(1);
    let report = load(&format!("{address} -r 0 -n 7 -R {}", path.display())).unwrap();
    assert_eq!(report.sent, 7);
    let once = b"<1>one\n<2>t\xffwo\r\n<3>three\n";
    let expected = [&once[..], once, b"<1>one\n"].concat();
    assert_eq!(receiver.join().unwrap().remove(0), expected);
}

#[test]
fn what_arrived_in_a_file_is_verified() {
    for lose in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.jsonl");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let output = path.clone();
        let receiver = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut all = String::new();
            socket.read_to_string(&mut all).unwrap();
            let keep = |line: &&str| !(lose && line.contains("seq=0000000123 "));
            let kept: String = all
                .lines()
                .filter(keep)
                .flat_map(|line| [line, "\n"])
                .collect();
            // The socket closes afterwards: the generator waits for that before it verifies.
            std::fs::write(output, kept).unwrap();
        });
        let drain = if lose { "300ms" } else { "10s" };
        std::fs::write(&path, "").unwrap();
        let words = format!(
            "{address} -r 0 -n 1000 --verify {} --drain-timeout {drain}",
            path.display()
        );
        let report = load(&words).unwrap();
        receiver.join().unwrap();
        let check = report.verify.as_ref().unwrap().markers.as_ref().unwrap();
        assert_eq!(check.lost, u64::from(lose), "{report}");
        assert_eq!((check.received + check.lost, check.duplicated), (1000, 0));
        assert_eq!(report.ok(), !lose);
    }
}

/// Answers each GET with the next of these bodies, the last again and again.
fn answer(bodies: Vec<String>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut bodies = bodies.into_iter().peekable();
        let mut last = String::new();
        while let Ok((mut socket, _)) = listener.accept() {
            last = bodies.next().unwrap_or(last);
            let mut request = [0; 4096];
            let _ = socket.read(&mut request);
            let length = last.len();
            let _ = write!(
                socket,
                "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{last}"
            );
        }
    });
    address
}

fn ledger(received: u64, pending: u64) -> String {
    let delivered = received - pending;
    format!(
        r#"{{"at_ns":1,"balanced":true,"filtered":{{}},"sources":{{"syslog":{{"received":{received},
        "received_bytes":0,"kernel_dropped":0,"rejected":{{}},"accepted":{received}}}}},
        "destinations":{{"d":{{"accepted":{received},"delivered":{delivered},"quarantined":{{}},
        "dropped":{{}},"pending":{pending},"oldest_pending_seconds":0.0}}}}}}"#
    )
}

#[test]
fn the_ledger_is_waited_for_and_compared() {
    let (address, receiver) = receive(1);
    let admin = answer(vec![ledger(7, 0), ledger(17, 10), ledger(107, 0)]);
    let pid = std::process::id();
    let words = format!("{address} -r 0 -n 100 --ledger http://{admin}/l --target-pid {pid}");
    let report = load(&words).unwrap();
    receiver.join().unwrap();
    assert!(report.ok(), "{report}");
    let check = report.verify.as_ref().unwrap().ledger.as_ref().unwrap();
    assert_eq!(
        (check.received, check.destinations["d"].delivered),
        (100, 100)
    );
    let process = report.process.as_ref().unwrap();
    assert!(process.settled && process.cpu_us_per_event.unwrap() >= 0.0 && process.rss_kib_max > 0);
    serde_json::from_str::<LoadReport>(&serde_json::to_string(&report).unwrap()).unwrap();
}

#[test]
fn an_address_with_a_ledger_may_be_given_to_verify() {
    let (address, receiver) = receive(1);
    let admin = answer(vec![ledger(0, 0), ledger(99, 0)]);
    let words = format!("{address} -r 0 -n 100 --verify http://{admin}/l --drain-timeout 100ms");
    let report = load(&words).unwrap();
    receiver.join().unwrap();
    let check = report.verify.as_ref().unwrap().ledger.as_ref().unwrap();
    assert_eq!((check.unaccounted, check.lost, report.ok()), (1, 1, false));
}

#[test]
fn refused_connections_name_the_address_and_the_remedy() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let error = load(&address.to_string()).unwrap_err().to_string();
    assert!(
        error.contains(&address.to_string()) && error.contains("ss -ltn"),
        "{error}"
    );
}

/// A TLS receiver with a certificate for 127.0.0.1, which it writes to `ca`.
fn receive_tls(ca: &std::path::Path) -> (SocketAddr, JoinHandle<Vec<u8>>) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(ca, made.cert.pem()).unwrap();
    let key = rustls_pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let socket: TcpStream = listener.accept().unwrap().0;
        let session = rustls::ServerConnection::new(Arc::new(config)).unwrap();
        let mut all = Vec::new();
        // An error is a client that trusts nobody: it closes without a word.
        let _ = rustls::StreamOwned::new(session, socket).read_to_end(&mut all);
        all
    });
    (address, thread)
}

#[test]
fn tls_delivers_everything_and_checks_the_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let ca = dir.path().join("ca.pem");
    for trust in [format!("--ca {}", ca.display()), "--insecure".to_owned()] {
        let (address, receiver) = receive_tls(&ca);
        let report = load(&format!("tls://{address} -r 0 -n 20000 -s 300 {trust}")).unwrap();
        let all = receiver.join().unwrap();
        assert!(report.ok() && report.sent == 20_000, "{report}");
        let text = std::str::from_utf8(&all).unwrap();
        assert_eq!(count_in_order(text.lines()), BTreeMap::from([(0, 20_000)]));
    }
    let (address, receiver) = receive_tls(&ca);
    let other = dir.path().join("other.pem");
    let stranger = rcgen::generate_simple_self_signed(vec!["x".to_owned()]).unwrap();
    std::fs::write(&other, stranger.cert.pem()).unwrap();
    let error = load(&format!("{address} --tls --ca {}", other.display())).unwrap_err();
    assert!(error.to_string().contains("--ca"), "{error}");
    receiver.join().unwrap();
}

#[test]
fn a_verification_that_fails_keeps_the_report() {
    let (address, receiver) = receive(1);
    let words = format!("{address} -r 0 -n 10 --verify /nonexistent/x --drain-timeout 1ms");
    let report = load(&words).unwrap();
    receiver.join().unwrap();
    assert!(!report.ok() && report.sent == 10, "{report}");
    assert!(
        report.first_errors["verify"].contains("no such file"),
        "{report}"
    );
}
