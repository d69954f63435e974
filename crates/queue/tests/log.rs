//! The log through its public interface: any schedule of appends, hand-outs, fates and
//! reconfigurations leaves a balanced ledger and loses nothing.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use inrush_event::{
    Anomalies, Batch, BatchPool, ByteSize, Delivery, DestinationQueue, DropReason, Fate, Feed,
    FeedNext, Ledger, Record, RefuseReason, SourceInfo, Span, Timestamp, limits,
};
use inrush_queue::{AppendError, DestinationFeed, Durability, Log, QueueOptions, WhenFull};
use proptest::prelude::*;

const NOW: Duration = Duration::ZERO;

struct World {
    ledger: Arc<Ledger>,
    log: Arc<Log>,
    pool: Arc<BatchPool>,
    source: Arc<SourceInfo>,
}

impl World {
    fn new(memory_bytes: u64, when_full: WhenFull) -> Self {
        let ledger = Ledger::new();
        let options = QueueOptions {
            durability: Durability::Memory,
            memory_bytes: Some(ByteSize(memory_bytes)),
            when_full,
            ..QueueOptions::default()
        };
        let log = Log::new(options, Arc::clone(&ledger));
        let text = |t: &str| t.to_owned();
        let source = SourceInfo {
            name: text("s"),
            index: text("main"),
            sourcetype: text("syslog"),
        };
        Self {
            ledger,
            log,
            pool: BatchPool::new(),
            source: Arc::new(source),
        }
    }

    fn batch(&self, events: usize) -> Batch {
        let mut builder = self.pool.lend(&self.source, limits::MESSAGE_BYTES_DEFAULT);
        builder.stamp(Timestamp(7));
        for _ in 0..events {
            let start = builder.filled();
            builder.extend(b"event");
            let span = Span::new(start, builder.filled());
            builder
                .parts()
                .1
                .push(Record::unparsed(span, Timestamp(7), 0, Anomalies::NONE));
        }
        builder.freeze(0)
    }

    fn append(&self, events: usize) -> Result<u64, AppendError> {
        self.append_batch(self.batch(events))
    }

    fn append_batch(&self, batch: Batch) -> Result<u64, AppendError> {
        let (counters, events) = (self.ledger.source("s"), batch.len() as u64);
        let accept = || {
            counters.received.add(events);
            counters.accepted.add(events);
        };
        self.log.append(batch, false, accept)
    }

    fn attach(&self, name: &str) -> Arc<DestinationFeed> {
        self.log.attach(&self.ledger.destination(name))
    }
}

fn take(feed: &DestinationFeed) -> Option<Delivery> {
    match feed.next(NOW) {
        FeedNext::Batch(delivery) => Some(delivery),
        FeedNext::Idle | FeedNext::Closed => None,
    }
}

#[test]
fn each_destination_gets_every_batch_in_order() {
    let world = World::new(1 << 20, WhenFull::Block);
    let (a, b) = (world.attach("a"), world.attach("b"));
    for n in 1..=3 {
        world.append(n).unwrap();
    }
    for feed in [&a, &b] {
        for n in 1..=3u32 {
            let delivery = take(feed).unwrap();
            assert_eq!(delivery.events, 0..n);
            feed.settle(delivery.position, delivery.events, Fate::Delivered);
        }
        assert!(take(feed).is_none());
    }
    let snapshot = world.ledger.snapshot();
    assert!(snapshot.balanced);
    assert_eq!(snapshot.destinations["b"].delivered, 6);
    assert_eq!(world.log.levels().batches, 0);
}

#[test]
fn what_is_routed_to_a_destination_that_is_gone_is_dropped_there() {
    let world = World::new(1 << 20, WhenFull::Block);
    let (a, gone) = (world.attach("a"), world.attach("gone"));
    drop(gone);
    world.log.detach("gone", DropReason::Removed);
    for (events, names) in [(3, &["gone"][..]), (4, &["a", "gone"]), (5, &["a"])] {
        let mut batch = world.batch(events);
        batch.route(names.iter().map(|name| (*name).to_owned()).collect());
        world.append_batch(batch).unwrap();
    }
    let snapshot = world.ledger.snapshot();
    assert!(snapshot.balanced, "{snapshot:#?}");
    let row = &snapshot.destinations["gone"];
    assert_eq!((row.accepted, row.pending, row.from["s"]), (7, 0, 7));
    assert_eq!(row.dropped["removed"], 7);
    let taken = std::iter::from_fn(|| take(&a)).map(|delivery| delivery.events);
    assert_eq!(taken.collect::<Vec<_>>(), [0..4, 0..5]);
}

#[test]
fn a_range_that_is_put_back_comes_again_before_newer_ones() {
    let world = World::new(1 << 20, WhenFull::Block);
    let feed = world.attach("a");
    world.append(5).unwrap();
    world.append(1).unwrap();
    let first = take(&feed).unwrap();
    feed.settle(first.position, 0..2, Fate::Delivered);
    feed.settle(first.position, 2..5, Fate::RetryAfter(NOW));
    let again = take(&feed).unwrap();
    assert_eq!((again.position, again.events), (first.position, 2..5));
    let refused = Fate::Refused {
        reason: RefuseReason::InvalidEvent,
        code: 6,
        text: "Invalid data format".into(),
    };
    feed.settle(first.position, 2..3, refused);
    feed.settle(first.position, 3..5, Fate::Delivered);
    let row = world.ledger.snapshot().destinations["a"].clone();
    assert_eq!(
        (row.delivered, row.quarantined["invalid_event"], row.pending),
        (4, 1, 1)
    );
}

#[test]
fn a_held_event_pins_its_own_batch_alone() {
    let world = World::new(1 << 20, WhenFull::Block);
    let feed = world.attach("a");
    world.append(2).unwrap();
    let one = world.log.levels().bytes;
    for _ in 0..10 {
        world.append(2).unwrap();
    }
    let held = take(&feed).unwrap();
    while let Some(other) = take(&feed) {
        feed.settle(other.position, other.events, Fate::Delivered);
    }
    assert_eq!(world.log.levels().bytes, one);
    feed.settle(held.position, held.events, Fate::Delivered);
    assert_eq!(
        (world.log.levels().bytes, world.log.levels().batches),
        (0, 0)
    );
}

#[test]
fn what_a_sink_left_behind_comes_to_the_next_one() {
    let world = World::new(1 << 20, WhenFull::Block);
    let feed = world.attach("a");
    world.append(4).unwrap();
    let delivery = take(&feed).unwrap();
    feed.settle(delivery.position, 0..1, Fate::Delivered);
    feed.stop();
    assert!(matches!(feed.next(NOW), FeedNext::Closed));
    let second = world.attach("a");
    assert_eq!(take(&second).unwrap().events, 1..4);
}

#[test]
fn a_full_queue_blocks_until_there_is_room() {
    let world = World::new(1, WhenFull::Block);
    let feed = world.attach("a");
    world.append(1).unwrap();
    let settler = thread::spawn(move || {
        let FeedNext::Batch(delivery) = feed.next(Duration::from_secs(60)) else {
            panic!()
        };
        feed.settle(delivery.position, delivery.events, Fate::Delivered);
        feed
    });
    world.append(1).unwrap();
    assert!(take(&settler.join().unwrap()).is_some());
}

#[test]
fn a_full_queue_counts_what_it_drops() {
    let world = World::new(1, WhenFull::DropOldest);
    let feed = world.attach("a");
    world.append(3).unwrap();
    let row = || world.ledger.snapshot().destinations["a"].clone();
    let dropped = || row().dropped.get("queue_full").copied().unwrap_or(0);
    // What is in flight counts as its answer says.
    let held = take(&feed).unwrap();
    world.append(2).unwrap();
    assert_eq!((dropped(), row().pending), (0, 5));
    feed.settle(held.position, held.events, Fate::Delivered);
    assert_eq!((dropped(), row().delivered, row().pending), (0, 3, 2));
    // It is gone, so that it cannot be tried again.
    let held = take(&feed).unwrap();
    world.append(4).unwrap();
    feed.settle(held.position, 0..1, Fate::Delivered);
    feed.settle(held.position, 1..2, Fate::RetryAfter(NOW));
    assert_eq!((dropped(), row().delivered, row().pending), (1, 4, 4));
    // What waits to be tried again is not in flight.
    let held = take(&feed).unwrap();
    feed.settle(
        held.position,
        0..3,
        Fate::RetryAfter(Duration::from_secs(60)),
    );
    world.append(1).unwrap();
    assert_eq!((dropped(), row().pending), (4, 2));
    // A sink that ends says nothing any more.
    drop(feed);
    let _feed = world.attach("a");
    assert_eq!((dropped(), row().delivered, row().pending), (5, 4, 1));

    let world = World::new(1, WhenFull::DropNewest);
    let _feed = world.attach("a");
    world.append(3).unwrap();
    assert_eq!(world.append(2), Err(AppendError::Full));
    assert_eq!(world.ledger.snapshot().sources["s"].accepted, 3);
}

#[test]
fn what_one_destination_has_no_room_for_the_others_get() {
    let limited = |when_full| DestinationQueue {
        max_bytes: Some(ByteSize(1)),
        when_full: Some(when_full),
    };
    for when_full in [WhenFull::DropOldest, WhenFull::DropNewest] {
        let world = World::new(64 << 20, WhenFull::Block);
        let _dead = world.attach("dead");
        let well = world.attach("well");
        world.log.limit("dead", limited(when_full));
        for _ in 0..10 {
            world.append(2).unwrap();
            let delivery = take(&well).unwrap();
            well.settle(delivery.position, delivery.events, Fate::Delivered);
        }
        let snapshot = world.ledger.snapshot();
        let (dead, well) = (
            &snapshot.destinations["dead"],
            &snapshot.destinations["well"],
        );
        assert_eq!((dead.dropped["queue_full"], dead.pending), (18, 2));
        assert_eq!((well.delivered, well.dropped.len()), (20, 0));
        assert_eq!(snapshot.sources["s"].accepted, 20);
        assert!(world.log.levels().batches <= 10);
        let full = |name: &str| {
            let mut backlogs = world.log.backlogs().into_iter();
            backlogs.find(|one| one.destination == name).unwrap().full
        };
        assert!(full("dead") && !full("well"));
    }
}

#[test]
fn what_no_destination_has_room_for_is_counted_where_the_policy_is_given() {
    let world = World::new(64 << 20, WhenFull::Block);
    let _feed = world.attach("a");
    let queue = DestinationQueue {
        max_bytes: Some(ByteSize(1)),
        when_full: Some(WhenFull::DropNewest),
    };
    world.log.limit("a", queue);
    let position = world.append(3).unwrap();
    assert_eq!(world.append(2), Ok(position), "durable as what came before");
    let row = world.ledger.snapshot().destinations["a"].clone();
    assert_eq!(
        (row.accepted, row.dropped["queue_full"], row.pending),
        (5, 2, 3)
    );
}

#[test]
fn a_destination_that_blocks_has_only_its_own_events_wait() {
    let world = Arc::new(World::new(64 << 20, WhenFull::DropNewest));
    let dead = world.attach("dead");
    let queue = DestinationQueue {
        max_bytes: Some(ByteSize(1)),
        when_full: Some(WhenFull::Block),
    };
    world.log.limit("dead", queue);
    world.append(1).unwrap();
    let waiting = Arc::clone(&world);
    let sender = thread::spawn(move || waiting.append(1));
    while world.log.blocked_since().is_none() {
        thread::yield_now();
    }
    let delivery = take(&dead).unwrap();
    dead.settle(delivery.position, delivery.events, Fate::Delivered);
    sender.join().unwrap().unwrap();
    assert_eq!(world.ledger.snapshot().destinations["dead"].pending, 1);
}

#[test]
fn a_closed_log_runs_dry_and_then_ends() {
    let world = World::new(1 << 20, WhenFull::Block);
    let feed = world.attach("a");
    world.append(1).unwrap();
    world.log.close();
    assert_eq!(world.append(1), Err(AppendError::Closed));
    let delivery = take(&feed).unwrap();
    assert!(!world.log.wait_empty(Instant::now()));
    feed.settle(delivery.position, delivery.events, Fate::Delivered);
    assert!(matches!(feed.next(NOW), FeedNext::Closed));
    assert!(world.log.wait_empty(Instant::now()));
}

#[derive(Clone, Debug)]
enum Step {
    Append(usize),
    Take(usize),
    Settle {
        feed: usize,
        delivered: bool,
        part: u8,
    },
    PutBack(usize),
    Restart(usize),
    Detach(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let feed = 0..3usize;
    prop_oneof![
        3 => (0..6usize).prop_map(Step::Append),
        4 => feed.clone().prop_map(Step::Take),
        4 => (feed.clone(), any::<bool>(), any::<u8>())
            .prop_map(|(feed, delivered, part)| Step::Settle { feed, delivered, part }),
        2 => feed.clone().prop_map(Step::PutBack),
        1 => feed.clone().prop_map(Step::Restart),
        1 => feed.prop_map(Step::Detach),
    ]
}

/// A sink that does as the schedule says.
struct Actor {
    feed: Arc<DestinationFeed>,
    held: Vec<Delivery>,
}

fn play(world: &World, actors: &mut [Actor], step: Step) {
    match step {
        Step::Append(events) => {
            let _full = world.append(events + 1);
        }
        Step::Take(feed) => {
            let taken = take(&actors[feed].feed);
            actors[feed].held.extend(taken);
        }
        Step::Settle {
            feed,
            delivered,
            part,
        } => {
            let Some(mut held) = actors[feed].held.pop() else {
                return;
            };
            let cut = held.events.start + u32::from(part) % held.events.len() as u32 + 1;
            let fate = if delivered {
                Fate::Delivered
            } else {
                Fate::Dropped(DropReason::Removed)
            };
            actors[feed]
                .feed
                .settle(held.position, held.events.start..cut, fate);
            held.events.start = cut;
            if !held.events.is_empty() {
                actors[feed].held.push(held);
            }
        }
        Step::PutBack(feed) => {
            if let Some(held) = actors[feed].held.pop() {
                actors[feed]
                    .feed
                    .settle(held.position, held.events, Fate::RetryAfter(NOW));
            }
        }
        Step::Restart(feed) => {
            actors[feed].feed.stop();
            actors[feed] = Actor {
                feed: world.attach(&format!("d{feed}")),
                held: Vec::new(),
            };
        }
        Step::Detach(feed) => {
            world.log.detach(&format!("d{feed}"), DropReason::Removed);
            actors[feed] = Actor {
                feed: world.attach(&format!("d{feed}")),
                held: Vec::new(),
            };
        }
    }
}

proptest! {
    #[test]
    fn any_schedule_balances_and_drains(
        steps in proptest::collection::vec(step(), 0..120),
        small in any::<bool>(),
        oldest in any::<bool>(),
    ) {
        let when_full = if oldest { WhenFull::DropOldest } else { WhenFull::DropNewest };
        let world = World::new(if small { 1500 } else { 1 << 20 }, when_full);
        let mut actors: Vec<Actor> = (0..3)
            .map(|n| Actor { feed: world.attach(&format!("d{n}")), held: Vec::new() })
            .collect();
        for step in steps {
            play(&world, &mut actors, step);
            let snapshot = world.ledger.snapshot();
            prop_assert_eq!(snapshot.imbalance(), None);
        }
        world.log.close();
        for actor in &mut actors {
            for held in actor.held.drain(..) {
                actor.feed.settle(held.position, held.events, Fate::Delivered);
            }
            while let Some(held) = take(&actor.feed) {
                actor.feed.settle(held.position, held.events, Fate::Delivered);
            }
        }
        prop_assert_eq!(world.log.levels().bytes, 0);
        let snapshot = world.ledger.snapshot();
        prop_assert!(snapshot.balanced);
        prop_assert!(snapshot.destinations.values().all(|row| row.pending == 0));
    }
}

#[test]
fn who_waits_is_told_that_a_batch_is_durable_until_the_hook_is_dropped() {
    let world = World::new(u64::MAX, WhenFull::Block);
    let told = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&told);
    let hook = world.log.on_durable(Arc::new(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
    }));
    let feed = world.attach("d");
    for position in 0..3 {
        assert_eq!(world.append(1), Ok(position));
        assert_eq!(world.log.durable_end(), position + 1);
        let delivery = take(&feed).unwrap();
        feed.settle(delivery.position, delivery.events, Fate::Delivered);
    }
    assert_eq!(told.load(Ordering::Relaxed), 0, "nobody waited");
    assert_eq!(world.log.append(world.batch(1), true, || {}), Ok(3));
    assert_eq!(told.load(Ordering::Relaxed), 1);
    drop(hook);
    assert_eq!(world.log.append(world.batch(1), true, || {}), Ok(4));
    assert_eq!(told.load(Ordering::Relaxed), 1);
}
