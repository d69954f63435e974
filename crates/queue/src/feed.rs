//! A destination's cursor as its sink sees it.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use inrush_event::{DestinationCounters, Fate, Feed, FeedNext, Timestamp};

use crate::log::Log;

/// A destination's cursor as its sink sees it.
pub struct DestinationFeed {
    log: Arc<Log>,
    counters: Arc<DestinationCounters>,
    stopping: AtomicBool,
}

impl DestinationFeed {
    pub(crate) fn new(log: Arc<Log>, counters: &Arc<DestinationCounters>) -> Self {
        Self {
            log,
            counters: Arc::clone(counters),
            stopping: AtomicBool::new(false),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.counters.name
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
    fn next(&self, wait: Duration) -> FeedNext {
        self.log.next(self, wait)
    }

    fn settle(&self, position: u64, events: Range<u32>, fate: Fate) {
        let now = Instant::now();
        let range = events.clone();
        let settled = self.log.settle(self.name(), position, events, &fate, now);
        if let (Some(batch), Fate::Delivered) = (settled, &fate) {
            let now = Timestamp::now();
            self.counters.delivered_at(&batch, &range, now);
        }
    }

    fn durable(&self, position: u64) -> bool {
        position < self.log.durable_end()
    }

    fn stopping(&self) -> bool {
        self.is_stopping()
    }
}
