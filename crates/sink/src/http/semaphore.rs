//! Gate at which workers wait until they may send: as many may as `limit` allows.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use inrush_event::{AutoCount, Feed};

use super::limit::{ConcurrencyLimit, LimitChange, LimitReason};
use super::pace::AnswerSample;
use crate::{IDLE_WAIT, SinkStatus};

/// The gate before the collector, shared by the workers.
pub(crate) struct RequestSemaphore {
    state: Mutex<SemaphoreState>,
    left: Condvar,
    status: Arc<SinkStatus>,
}

struct SemaphoreState {
    limit: ConcurrencyLimit,
    inside: u32,
    /// There is nothing more to fill.
    closed: bool,
}

/// A place inside; given back when dropped.
pub(crate) struct RequestPermit<'a> {
    gate: &'a RequestSemaphore,
    /// There was no room for another one.
    pub(crate) last: bool,
}

impl RequestSemaphore {
    /// An open gate for this many workers, and `most` at most.
    pub(crate) fn new(workers: AutoCount, most: u32, status: Arc<SinkStatus>) -> Self {
        let limit = ConcurrencyLimit::new(workers).within(most);
        status.set_concurrency(limit.settled());
        let state = SemaphoreState {
            limit,
            inside: 0,
            closed: false,
        };
        Self {
            state: Mutex::new(state),
            left: Condvar::new(),
            status,
        }
    }

    /// Waits for a place; `None` if the process stops.
    pub(crate) fn enter(&self, feed: &dyn Feed) -> Option<RequestPermit<'_>> {
        let mut state = self.state();
        while state.inside >= state.limit.allowed() {
            if feed.stopping() {
                return None;
            }
            let waited = self.left.wait_timeout(state, IDLE_WAIT);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.inside += 1;
        let last = state.inside >= state.limit.allowed();
        Some(RequestPermit { gate: self, last })
    }

    /// Workers that there is work for, or will be soon: one more than requests that may be in
    /// flight, which fills its body meanwhile.
    pub(crate) fn workers(&self) -> u32 {
        self.state().limit.soon() + 1
    }

    /// Waits until worker `number`, counted from 0, has work; `false` if there will be none.
    pub(crate) fn await_turn(&self, number: u32, feed: &dyn Feed) -> bool {
        let mut state = self.state();
        while number > state.limit.allowed() {
            if state.closed || feed.stopping() {
                return false;
            }
            let waited = self.left.wait_timeout(state, IDLE_WAIT);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// There is nothing more to fill: who waits for a turn waits no longer.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.left.notify_all();
    }

    /// A request of so many bytes was taken, without a warning, after `took`; `wanted` as of its
    /// answer.
    pub(crate) fn taken(&self, took: Duration, bytes: usize, wanted: bool) {
        let now = Instant::now();
        self.change(|limit| {
            limit.taken(AnswerSample {
                now,
                took,
                bytes,
                wanted,
            })
        });
    }

    /// The collector is busy or did not answer in time; so it was with a request that was begun at
    /// `begun`.
    pub(crate) fn busy(&self, begun: Instant) {
        self.change(|limit| limit.busy(begun, Instant::now()));
    }

    /// A request failed for another reason.
    pub(crate) fn failed(&self) {
        self.state().limit.failed();
    }

    fn change(&self, how: impl FnOnce(&mut ConcurrencyLimit) -> Option<LimitChange>) {
        let mut state = self.state();
        let before = state.limit.allowed();
        let change = how(&mut state.limit);
        let (allowed, settled) = (state.limit.allowed(), state.limit.settled());
        self.status.set_concurrency(settled);
        drop(state);
        if allowed > before {
            self.left.notify_all();
        }
        if let Some(change) = change {
            self.log(change);
        }
    }

    fn log(&self, change: LimitChange) {
        let LimitChange { from, to, reason } = change;
        let (reason, gain) = match reason {
            LimitReason::Busy => ("the collector is busy", None),
            LimitReason::BusyNoMore => ("the collector is busy no more", None),
            LimitReason::MoreBringMore(gain) => ("more bring more", Some(gain)),
            LimitReason::FewerBringAsMuch(gain) => ("fewer bring as much", Some(gain)),
        };
        let gain_percent = gain.map(|gain| (gain * 1000.0).round() / 10.0);
        let destination = self.status.name();
        tracing::info!(
            destination,
            from,
            to,
            reason,
            gain_percent,
            "requests in flight"
        );
    }

    fn state(&self) -> MutexGuard<'_, SemaphoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RequestPermit<'_> {
    fn drop(&mut self) {
        self.gate.state().inside -= 1;
        // Not all who wait, wait for the same.
        self.gate.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::ops::Range;
    use std::sync::mpsc::channel;

    use inrush_event::{Fate, FeedNext};

    use super::*;

    /// Has nothing more, and yet the process goes on: a destination that a reload took away.
    struct Ended;

    impl Feed for Ended {
        fn next(&self, _: Duration) -> FeedNext {
            FeedNext::Closed
        }

        fn settle(&self, _: u64, _: Range<u32>, _: Fate) {}

        fn stopping(&self) -> bool {
            false
        }
    }

    #[test]
    fn who_waits_for_a_turn_ends_when_there_is_nothing_more() {
        let status = Arc::new(SinkStatus::new("splunk", "splunk_hec"));
        let gate = Arc::new(RequestSemaphore::new(AutoCount::of(2), 2, status));
        assert!(gate.await_turn(2, &Ended), "one fills its body meanwhile");
        let (done, is_done) = channel();
        let waiting = Arc::clone(&gate);
        std::thread::spawn(move || done.send(waiting.await_turn(3, &Ended)));
        gate.close();
        assert_eq!(is_done.recv_timeout(Duration::from_secs(30)), Ok(false));
    }
}
