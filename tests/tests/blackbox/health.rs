//! The health listener of the built binary: what a load balancer sees.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use inrush_tests::*;
use nix::sys::signal::Signal;

use crate::TCP;
use crate::hec::{send, to_hec};

/// Status and body at a path of the health listener.
fn asked(health: SocketAddr, path: &str) -> (u16, String) {
    let answer = http(health, "GET", path);
    (answer.status, answer.body)
}

/// Waits until the answers at `/health`, `/healthz`, `/readyz` and `/livez` are these.
fn await_answers(what: &str, health: SocketAddr, wanted: [bool; 4]) {
    let said = wanted.map(|well| match well {
        true => (200, "yes".to_owned()),
        false => (503, "no".to_owned()),
    });
    eventually(what, || {
        let paths = ["/health", "/healthz", "/readyz", "/livez"];
        (paths.map(|path| asked(health, path)) == said).then_some(())
    });
}

fn address(inrush: &Inrush) -> SocketAddr {
    let line = inrush.line("inrush: health on http://");
    line.rsplit('/').next().unwrap().parse().unwrap()
}

/// A destination that takes everything.
fn to_nowhere() -> String {
    format!(
        "sources:\n  syslog: {{ type: syslog, listen: [{TCP}] }}\n\
         destinations:\n  out: {{ type: blackhole }}\n"
    )
}

/// An address of loopback that nobody listens at.
fn free() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

fn with_health(health: &str, destination: &str) -> String {
    format!("health: {{ listen: {health} }}\n{destination}")
}

#[test]
fn a_dead_destination_and_a_backlog_are_told_apart() {
    let hec = Hec::start();
    hec.otherwise(Some(Reply::code(403, 4, "Invalid token")));
    let destination = to_hec(&[hec.url()], "");
    let yaml = |bounds: &str| with_health(&format!("127.0.0.1:0{bounds}"), &destination);
    let inrush = Inrush::start(&yaml(""));
    let health = address(&inrush);
    await_answers("all well", health, [true, true, true, true]);
    send(&inrush, 0..100);
    // The queue accepts more: a load balancer may go on.
    await_answers("refused", health, [false, false, true, true]);
    inrush.rewrite(&yaml(", max_backlog: 99"));
    assert_eq!(inrush.reload().status, 200);
    await_answers("100 are too many", health, [false, false, false, true]);
    inrush.rewrite(&yaml(", max_backlog: 100, max_age: 1h"));
    assert_eq!(inrush.reload().status, 200);
    await_answers("100 are not", health, [false, false, true, true]);
    inrush.rewrite(&yaml(", max_age: 10ms"));
    assert_eq!(inrush.reload().status, 200);
    await_answers("too old", health, [false, false, false, true]);
    hec.otherwise(None);
    inrush.conserved(100);
    await_answers("delivered", health, [true, true, true, true]);
}

#[test]
fn a_signal_moves_it_and_takes_it_away() {
    let destination = to_nowhere();
    let (first, second) = (free(), free());
    let inrush = Inrush::start(&with_health(&format!("\"{first}\""), &destination));
    assert_eq!(asked(first, "/health"), (200, "yes".to_owned()));
    // A connection in the middle of its request does not keep the old address open.
    let mut half = TcpStream::connect(first).unwrap();
    half.write_all(b"GET /health HTTP/1.1\r\n").unwrap();
    inrush.rewrite(&with_health(&format!("\"{second}\""), &destination));
    inrush.signal(Signal::SIGHUP);
    inrush.line("inrush: reload: health");
    assert_eq!(asked(second, "/health"), (200, "yes".to_owned()));
    assert!(TcpStream::connect(first).is_err());
    inrush.rewrite(&destination);
    assert_eq!(inrush.reload().status, 200);
    assert!(TcpStream::connect(second).is_err());
}

#[test]
fn an_address_in_use_is_named_and_the_rest_goes_on() {
    let destination = to_nowhere();
    let inrush = Inrush::start(&with_health("127.0.0.1:0", &destination));
    let health = address(&inrush);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap();
    inrush.rewrite(&with_health(&format!("\"{at}\""), &destination));
    inrush.signal(Signal::SIGHUP);
    let said = inrush.line("health.listen: ");
    assert!(said.contains(&at.to_string()), "{said}");
    assert_eq!(asked(health, "/health"), (200, "yes".to_owned()));
    send(&inrush, 0..10);
    inrush.conserved(10);
}

#[test]
fn slow_and_hostile_clients_hold_up_nobody() {
    let destination = to_nowhere();
    let inrush = Inrush::start(&with_health("127.0.0.1:0", &destination));
    let health = address(&inrush);
    let mut slow = Vec::new();
    for n in 0..300 {
        let mut stream = TcpStream::connect(health).unwrap();
        let part: &[u8] = match n % 3 {
            0 => b"",
            1 => b"GET /he",
            _ => b"GET /health HTTP/1.1\r\nhost: x\r\nx-slow: ",
        };
        stream.write_all(part).unwrap();
        slow.push(stream);
    }
    for _ in 0..50 {
        assert_eq!(asked(health, "/health"), (200, "yes".to_owned()));
    }
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01"[..],
        b"\0\r\n\r\n",
        b"<34>1 - -\n\n",
    ] {
        let mut stream = TcpStream::connect(health).unwrap();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    }
    for path in [
        "/",
        "/metrics",
        "/api/v1/flow",
        "/health/../metrics",
        "/%68ealth",
    ] {
        assert_eq!(asked(health, path), (404, String::new()), "{path}");
    }
    // No more of them are kept than there are seats; each is ended in the end.
    let sockets = || {
        let open = std::fs::read_dir(format!("/proc/{}/fd", inrush.pid())).unwrap();
        open.count()
    };
    assert!(sockets() < 200, "{}", sockets());
    drop(slow);
    send(&inrush, 0..10);
    inrush.conserved(10);
}

#[test]
fn a_stopping_process_is_not_ready() {
    let hec = Hec::start();
    hec.otherwise(Some(Reply::busy(600)));
    let destination = to_hec(&[hec.url()], "");
    let yaml = format!(
        "shutdown_timeout: 60s\n{}",
        with_health("127.0.0.1:0", &destination)
    );
    let inrush = Inrush::start(&yaml);
    let health = address(&inrush);
    send(&inrush, 0..100);
    inrush.wait_until("all pending", |l| l.destinations["splunk"].pending == 100);
    inrush.signal(Signal::SIGTERM);
    await_answers("stopping", health, [false, false, false, true]);
    // A second signal ends it at once.
    inrush.signal(Signal::SIGTERM);
}
