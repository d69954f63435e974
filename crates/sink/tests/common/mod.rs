//! Doubles for what surrounds a sink: the queue's door and quarantine.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use inrush_event::{
    Anomalies, Batch, BatchOrigin, BatchPool, Delivery, Fate, Feed, FeedNext, Peer, Protocol,
    Record, SourceInfo, Span, Timestamp, limits,
};
use inrush_sink::{EventRefusal, Quarantine, RefusedRecords, Sink};

pub const WHEN: Timestamp = Timestamp(1_714_979_289_123_456_789);

/// A batch of unparsed records; a text `host|rest` has `host` as its host.
pub fn batch(index: &str, sequence: u64, texts: &[&[u8]]) -> Arc<Batch> {
    let source = Arc::new(SourceInfo {
        name: "edge".into(),
        index: index.into(),
        sourcetype: "syslog".into(),
    });
    let mut builder = BatchPool::new().lend(&source, limits::MESSAGE_BYTES_DEFAULT);
    let ip = [10, 0, 0, 1].into();
    let sender = builder.peer(Peer {
        ip,
        local_port: 514,
        protocol: Protocol::Tcp,
        client: None,
    });
    for text in texts {
        let start = builder.filled();
        builder.extend(text);
        let raw = Span::new(start, builder.filled());
        let mut record = Record::unparsed(raw, WHEN, sender, Anomalies::NONE);
        if let Some(bar) = text.iter().position(|b| *b == b'|') {
            record.host = Span::new(start, start + bar);
        }
        builder.parts().1.push(record);
    }
    Arc::new(builder.freeze(sequence))
}

#[derive(Default)]
struct State {
    ready: VecDeque<Delivery>,
    /// Per batch, per event: handed out and not settled.
    handed: BTreeMap<u64, Vec<bool>>,
    fates: BTreeMap<u64, Vec<Option<Fate>>>,
    batches: Vec<Arc<Batch>>,
    closed: bool,
    put_back: usize,
}

impl State {
    fn is_settled(&self) -> bool {
        self.fates.values().flatten().all(Option::is_some)
    }
}

/// Where a batch would stand in a log of batches of up to 2^16 events.
fn origin(position: u64) -> BatchOrigin {
    BatchOrigin {
        log: 0xabc,
        epoch: 3,
        first_event: position << 16,
    }
}

/// A feed in memory that insists on every event being settled exactly once. What is put back is
/// handed out again at once.
#[derive(Default)]
pub struct MemoryFeed {
    state: Mutex<State>,
    changed: Condvar,
    stopping: AtomicBool,
}

impl MemoryFeed {
    /// A feed of these batches, closed behind them.
    pub fn of(batches: &[Arc<Batch>]) -> Arc<Self> {
        let feed = Arc::new(Self::default());
        for batch in batches {
            feed.push(batch);
        }
        feed.close();
        feed
    }

    pub fn push(&self, batch: &Arc<Batch>) {
        let mut state = self.state.lock().unwrap();
        let position = state.batches.len() as u64;
        state.batches.push(Arc::clone(batch));
        state.handed.insert(position, vec![false; batch.len()]);
        state.fates.insert(position, vec![None; batch.len()]);
        let events = 0..batch.len() as u32;
        state.ready.push_back(Delivery {
            position,
            batch: Arc::clone(batch),
            events,
            origin: origin(position),
        });
        self.changed.notify_all();
    }

    pub fn close(&self) {
        self.state.lock().unwrap().closed = true;
        self.changed.notify_all();
    }

    pub fn stop(&self) {
        self.stopping.store(true, Relaxed);
    }

    /// Every event's raw text and its fate, in order; `None` while it is pending.
    pub fn fates(&self) -> Vec<(String, Option<Fate>)> {
        let state = self.state.lock().unwrap();
        let mut list = Vec::new();
        for (batch, fates) in state.batches.iter().zip(state.fates.values()) {
            for (record, fate) in batch.records().iter().zip(fates) {
                let text = String::from_utf8_lossy(batch.get(record.raw)).into_owned();
                list.push((text, fate.clone()));
            }
        }
        list
    }

    /// The texts of the events that have this kind of fate.
    pub fn texts(&self, want: impl Fn(&Fate) -> bool) -> Vec<String> {
        let has = |fate: &Option<Fate>| fate.as_ref().is_some_and(&want);
        self.fates()
            .into_iter()
            .filter(|(_, fate)| has(fate))
            .map(|(text, _)| text)
            .collect()
    }

    pub fn delivered(&self) -> Vec<String> {
        self.texts(|fate| *fate == Fate::Delivered)
    }

    pub fn refused(&self) -> Vec<String> {
        self.texts(|fate| matches!(fate, Fate::Refused { .. }))
    }

    pub fn pending(&self) -> usize {
        self.fates()
            .iter()
            .filter(|(_, fate)| fate.is_none())
            .count()
    }

    /// Events that are in the sink's hands, neither settled nor put back.
    pub fn in_hand(&self) -> usize {
        self.state
            .lock()
            .unwrap()
            .handed
            .values()
            .flatten()
            .filter(|out| **out)
            .count()
    }

    /// How many events were put back so far.
    pub fn put_back(&self) -> usize {
        self.state.lock().unwrap().put_back
    }
}

impl Feed for MemoryFeed {
    fn next(&self, wait: Duration) -> FeedNext {
        let until = Instant::now() + wait;
        let mut state = self.state.lock().unwrap();
        loop {
            if let Some(delivery) = state.ready.pop_front() {
                let handed = state.handed.get_mut(&delivery.position).unwrap();
                for event in delivery.events.clone() {
                    assert!(!std::mem::replace(&mut handed[event as usize], true));
                }
                return FeedNext::Batch(delivery);
            }
            if state.closed && state.is_settled() {
                return FeedNext::Closed;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return FeedNext::Idle;
            }
            state = self.changed.wait_timeout(state, left).unwrap().0;
        }
    }

    fn settle(&self, position: u64, events: Range<u32>, fate: Fate) {
        assert!(!events.is_empty(), "an empty range was settled");
        let mut state = self.state.lock().unwrap();
        for event in events.clone() {
            let event = event as usize;
            let handed = state.handed.get_mut(&position).unwrap();
            assert!(
                std::mem::replace(&mut handed[event], false),
                "settled without being in hand"
            );
            if !matches!(fate, Fate::RetryAfter(_)) {
                let before = state.fates.get_mut(&position).unwrap()[event].replace(fate.clone());
                assert_eq!(before, None, "settled twice");
            }
        }
        if matches!(fate, Fate::RetryAfter(_)) {
            state.put_back += events.len();
            let batch = Arc::clone(&state.batches[position as usize]);
            state.ready.push_back(Delivery {
                position,
                batch,
                events,
                origin: origin(position),
            });
        }
        self.changed.notify_all();
    }

    fn stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }
}

/// Quarantine in memory: (destination, raw text, reason and code), failing as often as it is told.
#[derive(Default)]
pub struct MemoryQuarantine {
    pub kept: Mutex<Vec<(String, String, EventRefusal)>>,
    pub failures_left: Mutex<u32>,
    /// Waits for the disk.
    pub puts: Mutex<u32>,
    /// Of each event that was kept, how often it was sent.
    pub attempts: Mutex<Vec<u32>>,
}

impl Quarantine for MemoryQuarantine {
    fn put(&self, destination: &str, refused: &[RefusedRecords]) -> io::Result<()> {
        let mut failures_left = self.failures_left.lock().unwrap();
        if *failures_left > 0 {
            *failures_left -= 1;
            return Err(io::ErrorKind::StorageFull.into());
        }
        *self.puts.lock().unwrap() += 1;
        for one in refused {
            for event in one.events.clone() {
                let raw = one.batch.get(one.batch.records()[event as usize].raw);
                let text = String::from_utf8_lossy(raw).into_owned();
                let kept = (destination.to_owned(), text, one.refusal.clone());
                self.kept.lock().unwrap().push(kept);
                self.attempts.lock().unwrap().push(one.attempts);
            }
        }
        Ok(())
    }
}

/// Runs a sink on a thread of its own.
pub fn start(sink: Box<dyn Sink>, feed: &Arc<MemoryFeed>) -> JoinHandle<()> {
    let feed: Arc<dyn Feed> = Arc::<MemoryFeed>::clone(feed);
    std::thread::spawn(move || sink.run(feed))
}

/// Waits for a condition that must come true; fails the test if it never does.
pub fn until(what: &str, condition: impl Fn() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < give_up, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
