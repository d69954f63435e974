//! The `splunk_hec` sink where one event, one body or one answer decides over others: poison,
//! bodies that alone fail, acknowledgement, and a collector that is busy.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use common::{MemoryFeed, MemoryQuarantine, batch, start, until};
use inrush_event::{AutoCount, ByteSize, Period, Secret};
use inrush_sink::splunk_hec::SplunkHecConfig;
use inrush_sink::{ErrorReason, Sink, SinkConfig, SinkStatus, build};
use inrush_testkit::{Hec, Reply};
use serde_json::Value;

const EVENTS: usize = 5000;

fn config(endpoints: &[String], workers: u16) -> SplunkHecConfig {
    let mut config = SplunkHecConfig::new(endpoints.to_vec(), Secret::new("the-token"));
    config.workers = AutoCount::of(workers);
    config.batch.timeout = Period(Duration::from_millis(20));
    config.proxy = Some(Secret::new(""));
    config
}

fn open(
    config: SplunkHecConfig,
    quarantine: &Arc<MemoryQuarantine>,
) -> (Box<dyn Sink>, Arc<SinkStatus>) {
    let keep = Arc::<MemoryQuarantine>::clone(quarantine);
    build(
        "splunk",
        &SinkConfig::SplunkHec(config.into()),
        Path::new("."),
        keep,
    )
    .unwrap()
}

fn text(number: usize, poison: &HashSet<usize>) -> String {
    let kind = if poison.contains(&number) {
        "poison"
    } else {
        "event"
    };
    format!("{kind}-{number:05}")
}

fn is_poison(event: &Value) -> bool {
    event["event"].as_str().unwrap().starts_with("poison")
}

fn feed_of(texts: &[String]) -> Arc<MemoryFeed> {
    let bytes: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
    MemoryFeed::of(&[batch("main", 0, &bytes)])
}

/// One request of 5,000 events, these of them poison, to a collector of this rule: the others are
/// indexed exactly once, these are quarantined with the collector's code and text.
fn poisoned(
    poison: &[usize],
    code: u32,
    rule: impl Fn(usize, &[Value]) -> Reply + Send + Sync + 'static,
) -> Hec {
    let poison: HashSet<usize> = poison.iter().copied().collect();
    let texts: Vec<String> = (0..EVENTS).map(|n| text(n, &poison)).collect();
    let (bad, good): (Vec<String>, Vec<String>) = texts
        .iter()
        .cloned()
        .partition(|text| text.starts_with("poison"));
    let server = Hec::answering(rule);
    let quarantine = Arc::new(MemoryQuarantine::default());
    let mut hec = config(&[server.url()], 1);
    hec.batch.max_bytes = ByteSize(4 * 1024 * 1024);
    let (sink, status) = open(hec, &quarantine);
    let feed = feed_of(&texts);
    sink.run(Arc::<MemoryFeed>::clone(&feed));
    assert_eq!(server.texts(), good, "indexed once each");
    assert_eq!(feed.refused(), bad);
    assert_eq!(feed.delivered(), good);
    let kept = quarantine.kept.lock().unwrap();
    assert_eq!(kept.len(), bad.len());
    for (_, text, refusal) in kept.iter() {
        assert!(text.starts_with("poison"), "{text}");
        assert_eq!((refusal.code, refusal.text.as_str()), (code, "no"));
    }
    assert!(status.healthy());
    server
}

#[test]
fn a_named_poison_event_costs_itself_wherever_it_stands() {
    for poison in [
        vec![0],
        vec![EVENTS / 2],
        vec![EVENTS - 1],
        vec![0, 1, 7, 2500, EVENTS - 1],
    ] {
        let requests = poison.len() + 1;
        let server = poisoned(&poison, 6, |_, events| {
            match events.iter().position(is_poison) {
                Some(bad) => Reply::named(6, bad as u64),
                None => Reply::Success,
            }
        });
        assert!(server.requests().len() <= requests, "{poison:?}");
    }
}

#[test]
fn who_refuses_everything_is_believed_a_hundred_times() {
    for reply in [
        Reply::named(12, 0),
        Reply::named(7, 1),
        Reply::status(400, r#"{"text":"No data","code":5}"#),
        Reply::status(413, "too large"),
    ] {
        let believed = match &reply {
            // A stranger's word counts for nothing before something was taken.
            Reply::Status(413, _) => 0,
            _ => 100,
        };
        let mended = Arc::new(AtomicBool::new(false));
        let is_mended = Arc::clone(&mended);
        let server = Hec::answering(move |_, _| match is_mended.load(Relaxed) {
            true => Reply::Success,
            false => reply.clone(),
        });
        let quarantine = Arc::new(MemoryQuarantine::default());
        let (sink, status) = open(config(&[server.url()], 1), &quarantine);
        let texts: Vec<String> = (0..200).map(|n| format!("event-{n:05}")).collect();
        let feed = feed_of(&texts);
        let sink = start(sink, &feed);
        until("it is held", || !status.healthy());
        let said = status.last_error().unwrap().text;
        assert!(said.contains("everything is refused"), "{said}");
        assert_eq!(feed.refused().len(), believed);
        mended.store(true, Relaxed);
        sink.join().unwrap();
        assert_eq!(feed.refused().len(), believed);
        assert_eq!(feed.delivered().len(), 200 - believed);
        assert_eq!(server.texts().len(), 200 - believed, "none of them twice");
        assert!(status.healthy());
    }
}

#[test]
fn a_good_event_among_many_bad_ones_is_found() {
    let is_good = |event: &Value| event["event"].as_str().unwrap().starts_with("good");
    let server =
        Hec::answering(
            move |_, events| match events.iter().position(|event| !is_good(event)) {
                Some(bad) => Reply::named(6, bad as u64),
                None => Reply::Success,
            },
        );
    let (sink, _) = open(config(&[server.url()], 1), &Arc::default());
    let text = |n| match n >= 150 && n % 2 == 0 {
        true => format!("good-{n:05}"),
        false => format!("bad-{n:05}"),
    };
    let feed = feed_of(&(0..300).map(text).collect::<Vec<_>>());
    sink.run(Arc::<MemoryFeed>::clone(&feed));
    assert_eq!(feed.delivered().len(), 75);
    assert_eq!(feed.refused().len(), 225);
    assert_eq!(server.texts(), feed.delivered(), "none of them twice");
}

#[test]
fn a_poison_event_that_nothing_names_is_found() {
    for poison in [
        vec![0],
        vec![EVENTS / 2],
        vec![EVENTS - 1],
        vec![0, 2500, EVENTS - 1],
    ] {
        let server = poisoned(&poison, 6, |_, events| match events.iter().any(is_poison) {
            true => Reply::status(400, r#"{"text":"no","code":6}"#),
            false => Reply::Success,
        });
        // Halving: two requests for each halving of 5,000.
        assert!(
            server.requests().len() <= poison.len() * 2 * 13 + 1,
            "{poison:?}"
        );
    }
}

#[test]
fn a_body_that_alone_fails_is_taken_apart_and_holds_up_no_worker_for_ever() {
    for workers in [1, 2] {
        let mended = Arc::new(AtomicBool::new(false));
        let is_mended = Arc::clone(&mended);
        let server = Hec::answering(move |_, events| {
            match events.iter().any(is_poison) && !is_mended.load(Relaxed) {
                true => Reply::status(500, "the gateway does not like it"),
                false => Reply::Success,
            }
        });
        let quarantine = Arc::new(MemoryQuarantine::default());
        let (sink, status) = open(config(&[server.url()], workers), &quarantine);
        let feed = Arc::new(MemoryFeed::default());
        let texts: Vec<String> = (0..10).map(|n| text(n, &HashSet::from([3]))).collect();
        let bytes: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
        feed.push(&batch("main", 0, &bytes));
        let sink = start(sink, &feed);
        until("refused for the first time", || {
            status.errors(ErrorReason::Http5xx) > 0
        });
        feed.push(&batch("main", 0, &[b"another"]));
        until("all others are delivered", || feed.pending() == 1);
        assert_eq!(server.texts().len(), 10, "once each");
        assert!(
            quarantine.kept.lock().unwrap().is_empty(),
            "a 500 discards nothing"
        );
        mended.store(true, Relaxed);
        feed.close();
        sink.join().unwrap();
        assert_eq!(feed.delivered()[..10], texts);
    }
}

#[test]
fn a_busy_collector_is_asked_by_fewer_workers_and_by_all_when_it_recovers() {
    let busy = Arc::new(AtomicBool::new(true));
    let is_busy = Arc::clone(&busy);
    let server = Hec::answering(move |_, _| match is_busy.load(Relaxed) {
        // Taken, and yet a warning.
        true => Reply::taken(r#"{"text":"HEC queue is approaching its capacity limit","code":24}"#),
        false => Reply::Success,
    });
    let quarantine = Arc::new(MemoryQuarantine::default());
    let (sink, status) = open(config(&[server.url()], 4), &quarantine);
    assert_eq!(status.concurrency(), Some(4));
    let feed = Arc::new(MemoryFeed::default());
    let sink = start(sink, &feed);
    let push = || {
        feed.push(&batch("main", 0, &[b"event"]));
        until("delivered", || feed.pending() == 0);
    };
    until("one is left", || {
        push();
        status.concurrency() == Some(1)
    });
    busy.store(false, Relaxed);
    until("all are back", || {
        push();
        status.concurrency() == Some(4)
    });
    feed.close();
    sink.join().unwrap();
    assert_eq!(
        server.texts().len(),
        feed.delivered().len(),
        "none of them twice"
    );
}

#[test]
fn what_is_taken_counts_as_delivered_when_it_is_acknowledged() {
    let indexed = Arc::new(AtomicBool::new(false));
    let is_indexed = Arc::clone(&indexed);
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let confirm = move |_| {
        count.fetch_add(1, Relaxed);
        is_indexed.load(Relaxed)
    };
    let servers = [Hec::start(), Hec::start()];
    for server in &servers {
        server.acknowledge_if(confirm.clone());
    }
    let urls: Vec<String> = servers.iter().map(Hec::url).collect();
    let mut hec = config(&urls, 2);
    hec.acknowledgements = true;
    hec.batch.max_events = 10;
    let (sink, status) = open(hec, &Arc::default());
    let texts: Vec<String> = (0..100).map(|n| format!("event-{n:05}")).collect();
    let feed = feed_of(&texts);
    let sink = start(sink, &feed);
    until("all is taken and asked about", || {
        let taken: usize = servers.iter().map(|s| s.texts().len()).sum();
        taken == 100 && asked.load(Relaxed) >= 10
    });
    assert_eq!(feed.pending(), 100, "taken is not indexed");
    indexed.store(true, Relaxed);
    sink.join().unwrap();
    assert_eq!(feed.delivered(), texts);
    assert_eq!(status.errors(ErrorReason::AckFailed), 0);
    let mut channels = HashSet::new();
    for server in &servers {
        let of_server: HashSet<String> = server
            .requests()
            .iter()
            .map(|r| {
                r.headers["x-splunk-request-channel"]
                    .to_str()
                    .unwrap()
                    .to_owned()
            })
            .collect();
        assert!(
            of_server.len() <= 2,
            "one channel a connection, one of those a worker"
        );
        for channel in of_server {
            assert!(channels.insert(channel), "no other has it");
        }
    }
    for channel in channels {
        let lengths: Vec<usize> = channel.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{channel}");
    }
}

#[test]
fn what_is_not_acknowledged_in_time_is_sent_again() {
    let server = Hec::start();
    server.acknowledge_if(|id| id > 0);
    let mut hec = config(&[server.url()], 1);
    hec.acknowledgements = true;
    hec.ack_timeout = Period(Duration::from_millis(1500));
    let (sink, status) = open(hec, &Arc::default());
    let feed = feed_of(&["event".to_owned()]);
    sink.run(Arc::<MemoryFeed>::clone(&feed));
    assert_eq!(feed.delivered(), ["event"]);
    assert_eq!((server.requests().len(), feed.put_back()), (2, 1));
    assert_eq!(status.errors(ErrorReason::AckFailed), 1);
}

#[test]
fn before_a_bad_event_only_what_is_acknowledged_is_delivered() {
    let confirmed = Arc::new(Mutex::new(HashSet::new()));
    let known = Arc::clone(&confirmed);
    let server = Hec::answering(|_, events| match events.iter().position(is_poison) {
        Some(bad) => Reply::named(6, bad as u64),
        None => Reply::Success,
    });
    server.acknowledge_if(move |id| known.lock().unwrap().contains(&id));
    let mut hec = config(&[server.url()], 1);
    hec.acknowledgements = true;
    let (sink, _) = open(hec, &Arc::default());
    let texts: Vec<String> = (0..6).map(|n| text(n, &HashSet::from([3]))).collect();
    let feed = feed_of(&texts);
    let sink = start(sink, &feed);
    until("the bad one is refused", || feed.pending() == 5);
    confirmed.lock().unwrap().insert(1);
    until("those after it are confirmed", || feed.pending() == 3);
    assert_eq!(feed.delivered(), texts[4..]);
    confirmed.lock().unwrap().insert(0);
    sink.join().unwrap();
    assert_eq!(feed.delivered().len(), 5);
    assert_eq!(server.texts().len(), 5, "none of them twice");
}

#[test]
fn a_token_without_acknowledgement_is_noted_and_nothing_waits_for_ever() {
    let server = Hec::start();
    let mut hec = config(&[server.url()], 1);
    hec.acknowledgements = true;
    let (sink, status) = open(hec, &Arc::default());
    let feed = feed_of(&["event".to_owned()]);
    sink.run(Arc::<MemoryFeed>::clone(&feed));
    assert_eq!(feed.delivered(), ["event"]);
    assert_eq!(status.errors(ErrorReason::AckFailed), 1);
}

#[test]
fn a_stopping_process_puts_back_what_waits_for_acknowledgement() {
    let server = Hec::start();
    server.acknowledge();
    let mut hec = config(&[server.url()], 1);
    hec.acknowledgements = true;
    let (sink, _) = open(hec, &Arc::default());
    let feed = feed_of(&["event".to_owned()]);
    let sink = start(sink, &feed);
    until("taken", || server.texts().len() == 1);
    feed.stop();
    sink.join().unwrap();
    assert_eq!((feed.pending(), feed.in_hand()), (1, 0));
}
