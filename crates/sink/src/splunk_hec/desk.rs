//! Desks, at which bodies are filled. A body that is encoded while others are shares the cache with
//! them; requests in flight cost nothing but their memory. So there are few desks and many workers:
//! a worker takes a desk, fills its body there, and gives the desk back before it sends.
//!
//! How much that saves is within the noise of a shared host (two cores, 800 B events, four workers,
//! CPU of the whole process): medians of 1.28 µs with one desk and 1.32 without in one series, 1.47
//! and 1.45 in another. It is kept for what it bounds: encoders do not multiply with `workers`, so
//! that these can be raised for a distant collector without crowding out the receiving side.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use inrush_codec::encode::HecEncoder;
use inrush_event::{Delivery, Fate, Feed, FeedNext};

use super::config::SplunkHecConfig;
use super::encode::RequestBody;
use crate::IDLE_WAIT;

/// Longest wait for a desk before it is asked whether the process stops. Who gives one back
/// then wakes all.
const DESK_WAIT: Duration = Duration::from_secs(1);

/// An encoder, and what it was about to encode.
pub(super) struct EncodeSlot {
    encoder: HecEncoder,
    /// A delivery that did not fit into the last body whole.
    held: Option<Delivery>,
}

/// The desks that nobody sits at.
pub(super) struct EncodeSlots {
    free: Mutex<Vec<EncodeSlot>>,
    given_back: Condvar,
    /// Time from the first event of a body until it is sent.
    linger: Duration,
}

impl EncodeSlots {
    /// One desk for every two cores, but not more than there are workers.
    pub(super) fn new(config: &SplunkHecConfig) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let number = (cores / 2).clamp(1, config.workers_max() as usize);
        let desk = || EncodeSlot {
            encoder: HecEncoder::new(config.envelope()),
            held: None,
        };
        Self {
            free: Mutex::new(std::iter::repeat_with(desk).take(number).collect()),
            given_back: Condvar::new(),
            linger: config.batch.timeout.0,
        }
    }

    /// Fills `body` anew; false when there is nothing more to do.
    pub(super) fn fill(&self, body: &mut RequestBody, feed: &dyn Feed) -> bool {
        let Some(mut desk) = self.take(feed) else {
            return false;
        };
        let filled = desk.fill(body, feed, self.linger);
        self.lock().push(desk);
        match feed.stopping() {
            true => self.given_back.notify_all(),
            false => self.given_back.notify_one(),
        }
        filled
    }

    /// Puts back what lies on the desks. Nobody may sit at one any more.
    pub(super) fn clear(&self, feed: &dyn Feed) {
        for desk in self.lock().iter_mut() {
            if let Some(delivery) = desk.held.take() {
                let fate = Fate::RetryAfter(Duration::ZERO);
                feed.settle(delivery.position, delivery.events, fate);
            }
        }
    }

    /// Waits for a desk; `None` if the process stops.
    fn take(&self, feed: &dyn Feed) -> Option<EncodeSlot> {
        let mut free = self.lock();
        while !feed.stopping() {
            if let Some(desk) = free.pop() {
                return Some(desk);
            }
            let waited = self.given_back.wait_timeout(free, DESK_WAIT);
            free = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<EncodeSlot>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EncodeSlot {
    fn fill(&mut self, body: &mut RequestBody, feed: &dyn Feed, linger: Duration) -> bool {
        body.clear(false);
        let mut send_at = None;
        loop {
            if let Some(delivery) = &mut self.held {
                let room = body.fill(&mut self.encoder, delivery);
                self.held.take_if(|delivery| delivery.events.is_empty());
                if !room {
                    return true;
                }
                let now = Instant::now();
                if *send_at.get_or_insert(now + linger) <= now {
                    return true;
                }
            }
            let left = send_at.map(|at| at.saturating_duration_since(Instant::now()));
            match feed.next(left.unwrap_or(IDLE_WAIT)) {
                FeedNext::Batch(delivery) => self.held = Some(delivery),
                FeedNext::Closed => return !body.is_empty(),
                FeedNext::Idle if feed.stopping() => return !body.is_empty(),
                FeedNext::Idle if left.is_some_and(|left| !left.is_zero()) => {}
                FeedNext::Idle if !body.is_empty() => return true,
                FeedNext::Idle => {}
            }
        }
    }
}
