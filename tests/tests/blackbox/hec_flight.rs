//! How many requests a collector has in flight: found, or pinned.

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
