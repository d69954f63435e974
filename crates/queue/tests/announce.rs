//! Destinations hear of what trickles in with the round that writes it.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use common::{batch, texts};
use inrush_event::{Fate, Feed, FeedNext, Ledger};
use inrush_queue::{AppendTerms, Log, QueueOptions};
use tempfile::tempdir;

/// A busy machine may take so long.
const WAIT: Duration = Duration::from_secs(10);

#[test]
fn a_destination_that_waits_hears_of_what_gathered() {
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
        let appended = log.append_on(batch(&["event"]), terms, || {});
        assert!(appended.is_ok());
        let Ok(FeedNext::Batch(delivery)) = took.recv_timeout(WAIT) else {
            panic!("it heard of nothing");
        };
        assert_eq!(texts(&delivery.batch), ["event"]);
        feed.settle(delivery.position, delivery.events, Fate::Delivered);
    }
    log.close();
    writer.join().unwrap();
}
