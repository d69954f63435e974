//! Clients that mean harm, or do it without meaning to.

use std::io::Read;
use std::net::TcpStream;

use super::client::read_answer;
use super::*;

#[test]
fn a_page_of_another_site_changes_and_reads_nothing() {
    let server = serve(StandIn::default());
    let address = server.local_addr();
    let post = |headers: &str| ask(address, "POST", "/api/v1/reload", headers).status;
    assert_eq!(post("origin: http://evil.example\r\n"), 403);
    assert_eq!(post("sec-fetch-site: cross-site\r\n"), 403);
    assert_eq!(post(&format!("origin: http://{address}\r\n")), 200);

    let mut rebound = TcpStream::connect(address).unwrap();
    let request = "GET /api/v1/ledger HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
    rebound.write_all(request.as_bytes()).unwrap();
    let answer = read_answer(rebound);
    assert_eq!(answer.status, 403);
    assert!(!answer.body.contains("syslog"), "{}", answer.body);
}

#[test]
fn a_head_that_never_ends_is_cut_off() {
    let head = Duration::from_millis(50);
    let server = serve_within(
        StandIn::default(),
        ServerLimits {
            head,
            ..ServerLimits::default()
        },
    );
    let mut slow = TcpStream::connect(server.local_addr()).unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\nhost: 127").unwrap();
    // Would hang here if nothing ended the connection.
    let _ = slow.read_to_end(&mut Vec::new());
}

#[test]
fn a_connection_that_lives_too_long_is_ended() {
    let connection = Duration::from_millis(50);
    let server = serve_within(
        StandIn::default(),
        ServerLimits {
            connection,
            ..ServerLimits::default()
        },
    );
    let mut idle = TcpStream::connect(server.local_addr()).unwrap();
    let mut nothing = Vec::new();
    assert_eq!(idle.read_to_end(&mut nothing).unwrap(), 0);
}

#[test]
fn slow_clients_do_not_pin_the_server() {
    const HOUR: Duration = Duration::from_secs(3600);
    let limits = ServerLimits {
        connections: 64,
        per_address: 32,
        head: HOUR,
        connection: HOUR,
        ..ServerLimits::default()
    };
    let server = serve_within(StandIn::default(), limits);
    let mut slow = Vec::new();
    for _ in 0..640 {
        let mut stream = TcpStream::connect(server.local_addr()).unwrap();
        stream.write_all(b"GET / HT").unwrap();
        slow.push(stream);
    }
    // None of them ends by itself for an hour.
    for path in ["/healthz", "/metrics", "/livez"] {
        assert_eq!(get(server.local_addr(), path).status, 200);
    }
}

#[test]
fn a_head_or_a_body_without_measure_is_refused() {
    let server = serve(StandIn::default());
    let address = server.local_addr();
    let many: String = (0..200).map(|i| format!("x-{i}: y\r\n")).collect();
    assert_eq!(ask(address, "GET", "/healthz", &many).status, 431);
    let long = format!("x: {}\r\n", "y".repeat(64 * 1024));
    assert_eq!(ask(address, "GET", "/healthz", &long).status, 431);
    // A body is announced and never sent: nobody waits for it.
    assert_eq!(
        ask(
            address,
            "POST",
            "/api/v1/reload",
            "content-length: 10000000000\r\n"
        )
        .status,
        200
    );
    assert_eq!(get(address, "/healthz").status, 200);
}

#[test]
fn bytes_that_are_no_http_end_their_own_connection_only() {
    let server = serve(StandIn::default());
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"[..],
        b"\0\0\0\0",
        b"<34>Oct 11 host\n\n",
    ] {
        let mut stream = TcpStream::connect(server.local_addr()).unwrap();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let answer: Answer = read_answer(stream);
        assert!(matches!(answer.status, 0 | 400), "{}", answer.head);
    }
    assert_eq!(get(server.local_addr(), "/healthz").status, 200);
}

#[test]
fn stopping_ends_idle_connections_and_frees_the_address() {
    let server = serve(StandIn::default());
    let address = server.local_addr();
    let mut idle = TcpStream::connect(address).unwrap();
    let request = format!("GET /healthz HTTP/1.1\r\nhost: {address}\r\n\r\n");
    idle.write_all(request.as_bytes()).unwrap();
    let mut first = [0; 12];
    idle.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    server.stop();
    idle.read_to_end(&mut Vec::new()).unwrap();
    let again = AdminOptions {
        listen: AdminAddr(address),
        ..local()
    };
    start(&again, Arc::new(StandIn::default()), None)
        .unwrap()
        .stop();
}

#[test]
fn an_address_in_use_is_an_error_not_a_panic() {
    let server = serve(StandIn::default());
    let taken = AdminOptions {
        listen: AdminAddr(server.local_addr()),
        ..local()
    };
    let error = start(&taken, Arc::new(StandIn::default()), None)
        .err()
        .unwrap();
    let words = error.to_string();
    assert!(words.contains("admin.listen"), "{words}");
}
