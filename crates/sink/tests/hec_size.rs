//! The `splunk_hec` sink and the size of bodies: they grow, and come to terms with collectors, and
//! whatever stands before them, that do not take large ones.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/hec.rs"]
mod server;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::{MemoryFeed, MemoryQuarantine, batch};
use inrush_event::{AutoCount, Period, Secret};
use inrush_sink::splunk_hec::SplunkHecConfig;
use inrush_sink::{ErrorReason, SinkConfig, SinkStatus, build};
use serde_json::Value;
use server::{HecServer, Reply, Seen};

/// What every collector takes.
const BASE: usize = 1_000_000;

/// Some 50 MB: bodies of all sizes are filled more than once.
const BATCHES: u64 = 100;
const EVENTS_A_BATCH: usize = 500;

fn bytes(events: &[Value]) -> usize {
    let length = |event: &Value| event["event"].as_str().unwrap().len();
    events.iter().map(length).sum()
}

/// Sends all to a collector of this rule: each event is indexed exactly once.
fn send(
    rule: impl Fn(usize, &[Value]) -> Reply + Send + Sync + 'static,
) -> (Vec<Seen>, Arc<SinkStatus>) {
    let server = HecServer::start(rule);
    let mut config = SplunkHecConfig::new(vec![server.url()], Secret::new("the-token"));
    config.workers = AutoCount::of(2);
    config.request_timeout = Period(Duration::from_secs(2));
    config.proxy = Some(Secret::new(""));
    let config = SinkConfig::SplunkHec(config.into());
    let quarantine = Arc::<MemoryQuarantine>::default();
    let (sink, status) = build("splunk", &config, Path::new("."), quarantine).unwrap();
    let text = |n: usize| format!("{n:06} {}", "x".repeat(1000)).into_bytes();
    let batches = (0..BATCHES).map(|position| {
        let first = position as usize * EVENTS_A_BATCH;
        let texts: Vec<Vec<u8>> = (first..first + EVENTS_A_BATCH).map(text).collect();
        let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        batch("main", position, &texts)
    });
    let feed = MemoryFeed::of(&batches.collect::<Vec<_>>());
    sink.run(Arc::<MemoryFeed>::clone(&feed));
    let indexed = server.texts();
    assert_eq!(indexed.len(), BATCHES as usize * EVENTS_A_BATCH);
    assert!(
        indexed.windows(2).all(|two| two[0] < two[1]),
        "one came twice"
    );
    assert_eq!((feed.pending(), feed.refused().len()), (0, 0));
    (server.seen(), status)
}

fn largest(seen: &[Seen]) -> usize {
    seen.iter().map(|request| request.body_bytes).max().unwrap()
}

#[test]
fn bodies_begin_small_and_grow_while_they_are_taken() {
    let (seen, _) = send(|_, _| Reply::Success);
    assert!(seen[0].body_bytes <= BASE, "{}", seen[0].body_bytes);
    let most = largest(&seen);
    assert!((2 * BASE..=4 * BASE).contains(&most), "{most}");
    let all: usize = seen.iter().map(|request| request.body_bytes).sum();
    assert!(seen.len() < all / BASE, "{} requests", seen.len());
}

#[test]
fn what_a_collector_calls_too_large_is_not_tried_again() {
    let (seen, status) = send(|_, events| match bytes(events) > 1_500_000 {
        true => Reply::Status(413, ""),
        false => Reply::Success,
    });
    assert!(largest(&seen) > 1_500_000, "it was tried");
    // Two were under way.
    let refused = status.errors(ErrorReason::Http413);
    assert!((1..=2).contains(&refused), "{refused} times");
}

#[test]
fn what_fails_for_no_reason_given_is_sent_in_smaller_ones() {
    let failures = [
        Reply::Status(403, "blocked"),
        Reply::Status(502, ""),
        Reply::Hang,
    ];
    for failure in failures {
        let answer = failure.clone();
        let (seen, status) = send(move |_, events| match bytes(events) > BASE {
            true => answer.clone(),
            false => Reply::Success,
        });
        assert!(largest(&seen) > BASE, "it was tried");
        let large = seen
            .iter()
            .filter(|request| request.body_bytes > 5 * BASE / 4);
        // Two were under way.
        assert!(large.count() <= 2, "it was not tried again at once");
        let errors = ErrorReason::ALL.iter();
        assert!(errors.map(|reason| status.errors(*reason)).sum::<u64>() > 0);
    }
}
