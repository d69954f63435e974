//! Destinations hear of what trickles in with the round that writes it.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use common::{batch, texts};
use inrush_event::{
    Anomalies, Batch, BatchPool, Fate, Feed, FeedNext, Ledger, Record, SourceInfo, Span, Timestamp,
    limits,
};
use inrush_queue::{AppendTerms, Log, QueueOptions};
use tempfile::tempdir;

/// A busy machine may take so long.
const WAIT: Duration = Duration::from_secs(10);

/// An event that its source would read again, if it were not durable.
fn carrying() -> Batch {
    let source = Arc::new(SourceInfo {
        name: "files".into(),
        index: "main".into(),
        sourcetype: "file".into(),
    });
    let mut builder = BatchPool::new().lend(&source, limits::MESSAGE_BYTES_DEFAULT);
    builder.stamp(Timestamp(7));
    builder.extend(b"event");
    let record = Record::unparsed(Span::new(0, 5), Timestamp(7), 0, Anomalies::NONE);
    builder.parts().1.push(record);
    assert!(builder.note_position(1, (*b"here").into()));
    builder.freeze(0)
}

#[test]
fn a_destination_that_waits_hears_of_what_gathered() {
    hears_of(|| batch(&["event"]));
}

#[test]
fn a_destination_that_waits_hears_of_what_is_durable_now() {
    hears_of(carrying);
}

fn hears_of(batch: impl Fn() -> Batch) {
    let (dir, ledger) = (tempdir().unwrap(), Ledger::new());
    let log = Log::open(dir.path(), QueueOptions::default(), Arc::clone(&ledger)).unwrap();
    let writer = log.start().unwrap().unwrap();
    let feed = log.attach(&ledger.destination("out"));
    // The first finds the writer at rest for long, the later ones when it looks by itself.
    for _ in 0..4 {
        let (asked, asks) = channel();
        let (given, took) = channel();
        let waits = Arc::clone(&feed);
        std::thread::spawn(move || {
            asked.send(()).unwrap();
            // Longer than anybody waits for it.
            given.send(waits.next(100 * WAIT))
        });
        asks.recv().unwrap();
        let gathered = Duration::from_millis(40);
        let terms = AppendTerms {
            gathered,
            ..AppendTerms::default()
        };
        let appended = log.append_on(batch(), terms, || {});
        assert!(appended.is_ok());
        let Ok(FeedNext::Batch(delivery)) = took.recv_timeout(WAIT) else {
            panic!("it heard of nothing");
        };
        assert_eq!(texts(&delivery.batch), ["event"]);
        if delivery.batch.shared_positions().is_some() {
            assert!(feed.durable(delivery.position));
        }
        feed.settle(delivery.position, delivery.events, Fate::Delivered);
    }
    log.close();
    writer.join().unwrap();
}
