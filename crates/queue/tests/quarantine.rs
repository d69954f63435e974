//! Quarantine on a real folder: what is kept, taken out, damaged, and sent again.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{batch, texts};
use inrush_event::{Batch, ByteSize, Fate, Feed, FeedNext, Ledger, Timestamp};
use inrush_queue::{
    Log, QuarantineEntry, QuarantineFilter, QuarantineLog, QueueOptions, RefusalNote,
    RefusedEvents, ReplayError,
};
use tempfile::tempdir;

const MIB: ByteSize = ByteSize(16 << 20);

fn note(reason: &str, at: i64) -> RefusalNote {
    RefusalNote {
        at: Timestamp(at),
        reason: reason.to_owned(),
        code: 6,
        attempts: 2,
        text: "Invalid data format".to_owned(),
    }
}

fn put(quarantine: &QuarantineLog, to: &str, batch: &Batch, events: std::ops::Range<u32>) {
    let note = note("invalid_event", 1_000);
    let refused = RefusedEvents {
        batch,
        events,
        note,
    };
    quarantine.put(to, &[refused]).unwrap();
}

fn all(quarantine: &QuarantineLog) -> Vec<QuarantineEntry> {
    quarantine
        .entries(&QuarantineFilter::default())
        .unwrap()
        .collect()
}

fn raws(entries: &[QuarantineEntry]) -> Vec<String> {
    entries
        .iter()
        .flat_map(|entry| texts(&entry.batch))
        .collect()
}

fn numbers(entries: &[QuarantineEntry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.number).collect()
}

#[test]
fn an_entry_keeps_the_event_and_why_it_was_refused() {
    let folder = tempdir().unwrap();
    let before = batch(&["one", "two", "three"]);
    put(
        &QuarantineLog::new(folder.path(), MIB),
        "splunk",
        &before,
        1..3,
    );
    let entries = all(&QuarantineLog::new(folder.path(), MIB));
    assert_eq!(raws(&entries), ["two", "three"]);
    let entry = &entries[0];
    assert_eq!((entry.number, entry.destination.as_str()), (0, "splunk"));
    assert_eq!(entry.note, note("invalid_event", 1_000));
    assert_eq!(entry.batch.only(), Some("splunk"));
    let (now, then) = (&entry.batch.records()[0], &before.records()[1]);
    assert_eq!(now.received, then.received);
    assert_eq!(entry.batch.get(now.message), before.get(then.message));
    assert_eq!(entry.batch.peer(now), before.peer(then));
    assert_eq!(entry.batch.source(), before.source());
    assert_eq!(entry.batch.received(), before.received());
}

#[test]
fn a_filter_takes_what_every_condition_fits() {
    let folder = tempdir().unwrap();
    let quarantine = QuarantineLog::new(folder.path(), MIB);
    let events = batch(&["a", "b"]);
    for (to, reason, at) in [
        ("x", "too_large", 1),
        ("x", "bad_request", 2),
        ("y", "too_large", 3),
    ] {
        let note = note(reason, at);
        let refused = RefusedEvents {
            batch: &events,
            events: 0..2,
            note,
        };
        quarantine.put(to, &[refused]).unwrap();
    }
    let count = |filter: QuarantineFilter| quarantine.entries(&filter).unwrap().count();
    let any = QuarantineFilter::default;
    assert_eq!(count(any()), 6);
    assert_eq!(
        count(QuarantineFilter {
            destination: Some("x".into()),
            ..any()
        }),
        4
    );
    assert_eq!(
        count(QuarantineFilter {
            reason: Some("too_large".into()),
            ..any()
        }),
        4
    );
    assert_eq!(
        count(QuarantineFilter {
            since: Some(Timestamp(2)),
            ..any()
        }),
        4
    );
    assert_eq!(
        count(QuarantineFilter {
            numbers: vec![1..=2, 5..=9],
            ..any()
        }),
        3
    );
    let both = QuarantineFilter {
        destination: Some("x".into()),
        since: Some(Timestamp(2)),
        ..any()
    };
    assert_eq!(count(both), 2);
}

#[test]
fn what_is_taken_out_is_gone_and_its_number_is_not_used_again() {
    let folder = tempdir().unwrap();
    let events = batch(&["a", "b", "c", "d"]);
    let quarantine = QuarantineLog::new(folder.path(), MIB);
    put(&quarantine, "x", &events, 0..4);
    assert_eq!(quarantine.remove(&BTreeSet::from([1, 3, 77])).unwrap(), 2);
    assert_eq!(numbers(&all(&quarantine)), [0, 2]);
    put(&quarantine, "x", &events, 0..1);
    let quarantine = QuarantineLog::new(folder.path(), MIB);
    assert_eq!(numbers(&all(&quarantine)), [0, 2, 4]);
    assert_eq!(quarantine.remove(&(0..100).collect()).unwrap(), 3);
    assert_eq!(numbers(&all(&quarantine)), [0_u64; 0]);
    let quarantine = QuarantineLog::new(folder.path(), MIB);
    put(&quarantine, "x", &events, 0..1);
    assert_eq!(numbers(&all(&quarantine)), [5]);
    let files = std::fs::read_dir(folder.path()).unwrap();
    let segments = files.filter(|f| f.as_ref().unwrap().path().extension() == Some("seg".as_ref()));
    assert!(segments.count() <= 2, "what is empty is deleted");
}

#[test]
fn a_full_quarantine_takes_nothing_until_there_is_room() {
    let folder = tempdir().unwrap();
    let quarantine = QuarantineLog::new(folder.path(), ByteSize(64 * 1024));
    let long = "x".repeat(10_000);
    let events = batch(&[&long]);
    let refused = || RefusedEvents {
        batch: &events,
        events: 0..1,
        note: note("too_large", 1),
    };
    let mut taken = 0;
    let error = loop {
        match quarantine.put("x", &[refused()]) {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    assert!(error.to_string().contains("queue.quarantine_bytes"));
    assert!(taken >= 4);
    assert_eq!(all(&quarantine).len(), taken);
    quarantine.remove(&BTreeSet::from([0, 1])).unwrap();
    quarantine.put("x", &[refused()]).unwrap();
    quarantine.reconfigure(MIB);
    quarantine
        .put("x", &[refused(), refused(), refused()])
        .unwrap();
}

#[test]
fn every_flipped_byte_costs_one_entry_at_most() {
    let folder = tempdir().unwrap();
    let events = batch(&["first", "second", "third"]);
    put(&QuarantineLog::new(folder.path(), MIB), "x", &events, 0..3);
    let file = folder.path().join("0000000000.seg");
    let sound = std::fs::read(&file).unwrap();
    for at in 0..sound.len() {
        let mut bad = sound.clone();
        bad[at] ^= 0x40;
        std::fs::write(&file, &bad).unwrap();
        let quarantine = QuarantineLog::new(folder.path(), MIB);
        let left = raws(&all(&quarantine));
        assert!(left.len() >= 2, "byte {at}: {left:?}");
        assert!(
            left.iter()
                .all(|text| ["first", "second", "third"].contains(&text.as_str()))
        );
    }
    for length in 0..sound.len() {
        std::fs::write(&file, &sound[..length]).unwrap();
        let quarantine = QuarantineLog::new(folder.path(), MIB);
        let left = all(&quarantine).len();
        assert!(left <= 2, "length {length}");
        put(&quarantine, "x", &events, 0..1);
        assert_eq!(all(&quarantine).len(), left + 1, "length {length}");
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension() == Some("seg".as_ref()) && path != file {
                std::fs::remove_file(path).unwrap();
            }
        }
    }
}

fn again(quarantine: &QuarantineLog) -> Batch {
    let entry = all(quarantine).remove(0);
    Arc::into_inner(entry.batch).unwrap()
}

fn open(folder: &Path) -> (Arc<Ledger>, Arc<Log>) {
    let ledger = Ledger::new();
    let log = Log::open(folder, QueueOptions::default(), Arc::clone(&ledger)).unwrap();
    (ledger, log)
}

fn next(feed: &dyn Feed) -> Option<(u64, Vec<String>)> {
    match feed.next(Duration::from_millis(200)) {
        FeedNext::Batch(delivery) => Some((delivery.position, texts(&delivery.batch))),
        _ => None,
    }
}

#[test]
fn what_is_sent_again_goes_to_its_destination_alone_and_the_ledger_balances() {
    let (at_queue, at_quarantine) = (tempdir().unwrap(), tempdir().unwrap());
    let quarantine = QuarantineLog::new(at_quarantine.path(), MIB);
    put(&quarantine, "a", &batch(&["poison"]), 0..1);
    let (ledger, log) = open(at_queue.path());
    let writer = log.start().unwrap().unwrap();
    assert_eq!(
        log.append_again(again(&quarantine)),
        Err(ReplayError::NoDestination)
    );
    let feeds = ["a", "b"].map(|name| log.attach(&ledger.destination(name)));
    let position = log.append_again(again(&quarantine)).unwrap();
    log.append(batch(&["after"]), true, || {}).unwrap();
    let rows = ledger.snapshot();
    assert!(rows.balanced);
    assert_eq!(
        (
            rows.destinations["a"].accepted,
            rows.destinations["a"].pending
        ),
        (2, 2)
    );
    assert_eq!(
        (
            rows.destinations["b"].accepted,
            rows.destinations["b"].pending
        ),
        (1, 1)
    );
    assert!(log.wait_durable(position + 1, Instant::now() + Duration::from_secs(30)));

    assert_eq!(next(&*feeds[1]).unwrap().1, ["after"]);
    let (at, first) = next(&*feeds[0]).unwrap();
    assert_eq!((at, first), (position, vec!["poison".to_owned()]));
    assert_eq!(next(&*feeds[0]).unwrap().1, ["after"]);
    for feed in &feeds {
        feed.settle(position + 1, 0..1, Fate::Delivered);
    }
    let b = &ledger.snapshot().destinations["b"];
    assert_eq!((b.accepted, b.delivered, b.pending), (1, 1, 0));
    log.close();
    writer.join().unwrap();
    drop((feeds, log));

    // The place of `b` knows of what is not for it, and so does one that forgot.
    for forget in [false, true] {
        if forget {
            std::fs::remove_file(at_queue.path().join("cursor-b")).unwrap();
        }
        let (ledger, log) = open(at_queue.path());
        let pending = |name: &str| ledger.snapshot().destinations[name].pending;
        assert_eq!(pending("a"), 1);
        assert_eq!(pending("b"), if forget { 2 } else { 0 });
        let feed = log.attach(&ledger.destination("b"));
        assert_eq!(
            next(&*feed).map(|(_, texts)| texts),
            forget.then(|| vec!["after".to_owned()])
        );
        let b = &ledger.snapshot().destinations["b"];
        assert!(ledger.snapshot().balanced && b.dropped.is_empty());
        assert_eq!(
            (b.accepted, b.pending),
            if forget { (1, 1) } else { (0, 0) }
        );
    }
}
