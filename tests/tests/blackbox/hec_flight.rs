//! How many requests a collector has in flight: found, or pinned.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use inrush_tests::*;

use crate::hec::{numbers, send, to_hec};

const EVENTS: usize = 20_000;

/// As over a long way there and back.
const LATENCY: Duration = Duration::from_millis(50);

/// Small bodies, so that there are many requests.
const BODIES: &str = "batch: { max_events: 10 }";

fn concurrency(inrush: &Inrush) -> u64 {
    inrush.destination()["concurrency"].as_u64().unwrap()
}

#[test]
fn a_distant_collector_gets_more_requests_at_once() {
    let hec = Hec::start();
    hec.answer_after(LATENCY);
    let inrush = Inrush::start(&to_hec(&[hec.url()], BODIES));
    assert_eq!(concurrency(&inrush), 2, "at first");
    send(&inrush, 0..EVENTS);
    let found = eventually("more than four", || {
        Some(concurrency(&inrush)).filter(|n| *n > 4)
    });
    let metrics = inrush.http("GET", "/metrics").body;
    assert!(
        metrics.contains("inrush_destination_concurrency{destination=\"splunk\"}"),
        "{metrics}"
    );
    inrush.conserved(EVENTS as u64);
    assert_eq!(numbers(&hec.taken()), (0..EVENTS).collect::<Vec<_>>());
    assert!(hec.most_at_once() as u64 >= found.min(8));
    let log = inrush.stderr();
    let line = log.lines().find(|l| l.contains("requests in flight"));
    let line = line.unwrap_or_else(|| panic!("not said: {log}"));
    assert!(line.contains("more bring more"), "{line}");
    assert!(line.contains("splunk"), "{line}");
}

#[test]
fn a_pinned_number_stays() {
    let hec = Hec::start();
    hec.answer_after(LATENCY);
    let options = format!("{BODIES}\nworkers: 2");
    let inrush = Inrush::start(&to_hec(&[hec.url()], &options));
    send(&inrush, 0..1000);
    inrush.wait_until("all delivered", |ledger| {
        assert_eq!(concurrency(&inrush), 2);
        ledger.destinations["splunk"].delivered == 1000
    });
    inrush.conserved(1000);
    assert_eq!(hec.most_at_once(), 2);
    assert_eq!(numbers(&hec.taken()), (0..1000).collect::<Vec<_>>());
    assert!(!inrush.stderr().contains("requests in flight"));
}

/// Bodies of 64 KiB, one after the other.
const AUTO: &str = "compression: auto\nworkers: 1\nbatch: { max_bytes: 64KiB }";

/// Bodies that are measured before a trial, and that a trial has.
const TRIAL: usize = 8;

#[test]
fn bodies_stay_plain_where_the_link_is_fast() {
    let hec = Hec::start();
    let inrush = Inrush::start(&to_hec(&[hec.url()], AUTO));
    send(&inrush, 0..EVENTS);
    inrush.conserved(EVENTS as u64);
    assert_eq!(numbers(&hec.taken()), (0..EVENTS).collect::<Vec<_>>());
    let packed: Vec<bool> = hec.requests().iter().map(|request| request.gzip).collect();
    assert!(packed.len() > 3 * TRIAL, "{}", packed.len());
    assert_eq!(packed[..TRIAL], [false; TRIAL]);
    assert_eq!(packed.iter().filter(|packed| **packed).count(), TRIAL);
}

#[test]
fn bodies_are_compressed_once_the_link_is_slow() {
    let hec = Hec::start();
    let link = slow_link(hec.address());
    let inrush = Inrush::start(&to_hec(&[format!("http://{link}")], AUTO));
    send(&inrush, 0..EVENTS);
    inrush.conserved(EVENTS as u64);
    assert_eq!(numbers(&hec.taken()), (0..EVENTS).collect::<Vec<_>>());
    let packed: Vec<bool> = hec.requests().iter().map(|request| request.gzip).collect();
    assert!(packed.len() > 3 * TRIAL, "{}", packed.len());
    assert_eq!(packed[..TRIAL], [false; TRIAL]);
    assert!(packed[TRIAL..].iter().all(|packed| *packed), "{packed:?}");
    let log = inrush.stderr();
    let line = log
        .lines()
        .find(|line| line.contains("compressed from now on"));
    assert!(line.is_some_and(|line| line.contains("splunk")), "{log}");
}

/// A link that takes some 2 MB a second towards a server; its address.
fn slow_link(server: SocketAddr) -> SocketAddr {
    const PIECE: usize = 16 * 1024;
    const PAUSE: Duration = Duration::from_millis(8);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let carry = |mut from: TcpStream, mut to: TcpStream, pause: Duration| {
        let mut piece = vec![0; PIECE];
        while let Ok(bytes @ 1..) = from.read(&mut piece) {
            // This is the link, it waits for nobody.
            std::thread::sleep(pause * bytes as u32 / PIECE as u32);
            if to.write_all(&piece[..bytes]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    };
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let upstream = TcpStream::connect(server).unwrap();
            let (back, answers) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
            std::thread::spawn(move || carry(client, upstream, PAUSE));
            std::thread::spawn(move || carry(answers, back, Duration::ZERO));
        }
    });
    address
}
