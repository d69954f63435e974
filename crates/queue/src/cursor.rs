//! One destination's place in the log, and the feed that its sink holds.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use inrush_event::{Batch, DestinationCounters, Fate, Feed, Next};

use crate::log::{Log, raw_bytes};

pub(crate) struct Cursor {
    pub(crate) counters: Arc<DestinationCounters>,
    /// Position of the next batch to hand out for the first time.
    next: u64,
    /// The unsettled ranges of each batch that was handed out and is not done.
    out: BTreeMap<u64, Vec<Range<u32>>>,
    /// Ranges that were put back, and when they are due.
    retry: VecDeque<(Instant, u64, Range<u32>)>,
}

pub(crate) enum Pick {
    /// The next batch, never handed out before.
    New(u64),
    /// A range that was put back.
    Again(u64, Range<u32>),
    /// Nothing; something that was put back is due then.
    NothingUntil(Option<Instant>),
}

impl Cursor {
    pub(crate) fn new(counters: Arc<DestinationCounters>, end: u64) -> Self {
        Self {
            counters,
            next: end,
            out: BTreeMap::new(),
            retry: VecDeque::new(),
        }
    }

    /// What to hand out at `now`, of a log that holds the positions from `first` to `end`.
    pub(crate) fn pick(&mut self, first: u64, end: u64, now: Instant) -> Pick {
        // What was put back goes first: it is older.
        if let Some(index) = self.retry.iter().position(|(due, ..)| *due <= now)
            && let Some((_, position, events)) = self.retry.remove(index)
        {
            return Pick::Again(position, events);
        }
        self.next = self.next.max(first);
        if self.next < end {
            self.next += 1;
            return Pick::New(self.next - 1);
        }
        Pick::NothingUntil(self.retry.iter().map(|(due, ..)| *due).min())
    }

    /// Notes that a whole batch of `events` events was handed out.
    pub(crate) fn handed_out(&mut self, position: u64, events: u32) {
        self.out
            .insert(position, std::iter::once(0..events).collect());
    }

    /// Puts a range back, to be handed out again after `delay`.
    pub(crate) fn put_back(&mut self, position: u64, events: Range<u32>, delay: Duration) {
        if self.out.contains_key(&position) && !events.is_empty() {
            self.counters.retried.add(events.len() as u64);
            self.retry
                .push_back((Instant::now() + delay, position, events));
        }
    }

    /// Takes `events` off what is unsettled of the batch. Returns how many of them were (a range
    /// settled twice counts once), and whether nothing of the batch is left.
    pub(crate) fn settle(&mut self, position: u64, events: &Range<u32>) -> (u64, bool) {
        let Some(ranges) = self.out.get_mut(&position) else {
            return (0, false);
        };
        let settled = subtract(ranges, events);
        let done = ranges.is_empty();
        if done {
            self.out.remove(&position);
        }
        (settled, done)
    }

    /// Posts a fate that ends `n` events of `events`.
    pub(crate) fn post(&self, batch: &Batch, events: &Range<u32>, n: u64, fate: &Fate) {
        let counters = &self.counters;
        match fate {
            Fate::Delivered => {
                counters.delivered.add(n);
                counters.delivered_bytes.add(raw_bytes(batch, events));
            }
            Fate::Refused { reason, .. } => counters.quarantined(*reason).add(n),
            Fate::Dropped(reason) => counters.dropped(*reason).add(n),
            Fate::RetryAfter(_) => return,
        }
        counters.pending.sub(n);
    }

    /// Events of the batch at `position` (of `events` events) that have no fate yet.
    pub(crate) fn unsettled(&self, position: u64, events: u64) -> u64 {
        match self.out.get(&position) {
            Some(ranges) => ranges.iter().map(|range| range.len() as u64).sum(),
            None if position >= self.next => events,
            None => 0,
        }
    }

    /// Forgets the batch at `position`, which is about to leave the log; returns its unsettled
    /// events.
    pub(crate) fn forget(&mut self, position: u64, events: u64) -> u64 {
        let unsettled = self.unsettled(position, events);
        self.out.remove(&position);
        self.retry.retain(|(_, at, _)| *at != position);
        self.next = self.next.max(position + 1);
        unsettled
    }

    /// Puts back all that a sink left unsettled when it ended.
    pub(crate) fn reclaim(&mut self) {
        let now = Instant::now();
        self.retry = self
            .out
            .iter()
            .flat_map(|(at, ranges)| ranges.iter().map(|range| (now, *at, range.clone())))
            .collect();
    }

    /// Position of the oldest batch that is not settled; beyond the log's end if all are.
    pub(crate) fn oldest_unsettled(&self) -> u64 {
        self.out.keys().next().copied().unwrap_or(self.next)
    }
}

/// Removes `taken` from the ranges; returns how many numbers that removed.
fn subtract(ranges: &mut Vec<Range<u32>>, taken: &Range<u32>) -> u64 {
    let mut removed = 0;
    let mut left = Vec::new();
    for range in ranges.iter() {
        let start = range.start.max(taken.start);
        let end = range.end.min(taken.end);
        if start >= end {
            left.push(range.clone());
            continue;
        }
        removed += u64::from(end - start);
        left.extend(
            [range.start..start, end..range.end]
                .into_iter()
                .filter(|r| !r.is_empty()),
        );
    }
    *ranges = left;
    removed
}

/// A destination's cursor as its sink sees it.
pub struct DestinationFeed {
    log: Arc<Log>,
    name: String,
    stopping: AtomicBool,
}

impl DestinationFeed {
    pub(crate) fn new(log: Arc<Log>, name: String) -> Self {
        Self {
            log,
            name,
            stopping: AtomicBool::new(false),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Tells the sink to end: nothing more is handed out through this feed.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.log.wake_feeds();
    }
}

impl Feed for DestinationFeed {
    fn next(&self, wait: Duration) -> Next {
        self.log.next(self, wait)
    }

    fn settle(&self, position: u64, events: Range<u32>, fate: Fate) {
        self.log.settle(&self.name, position, events, fate);
    }

    fn stopping(&self) -> bool {
        self.is_stopping()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_subtracted_once() {
        let mut ranges: Vec<Range<u32>> = std::iter::once(0..10).collect();
        assert_eq!(subtract(&mut ranges, &(3..5)), 2);
        assert_eq!(ranges, [0..3, 5..10]);
        assert_eq!(
            subtract(&mut ranges, &(2..6)),
            2,
            "3 and 4 were taken before"
        );
        assert_eq!(ranges, [0..2, 6..10]);
        assert_eq!(subtract(&mut ranges, &(0..10)), 6);
        assert!(ranges.is_empty());
    }
}
