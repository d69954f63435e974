//! How many workers may have a request in flight: halved when the collector says that it is busy,
//! raised by one for every round of requests that were taken (additive increase, multiplicative
//! decrease, as TCP does it). One worker always may.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use inrush_event::Feed;

use crate::{IDLE_WAIT, SinkStatus};

/// The gate before the collector, shared by the workers.
pub(super) struct Gate {
    state: Mutex<State>,
    left: Condvar,
    workers: f64,
    status: Arc<SinkStatus>,
}

struct State {
    /// How many may be inside; the fraction is what was gained since the last whole one.
    limit: f64,
    inside: u32,
    /// When it was last lowered: requests begun before tell nothing new.
    lowered: Option<Instant>,
}

/// A place inside; given back when dropped.
pub(super) struct Place<'a>(&'a Gate);

impl Gate {
    /// An open gate for this many workers.
    pub(super) fn new(workers: u32, status: Arc<SinkStatus>) -> Self {
        status.set_concurrency(workers);
        let state = State {
            limit: workers.into(),
            inside: 0,
            lowered: None,
        };
        Self {
            state: Mutex::new(state),
            left: Condvar::new(),
            workers: workers.into(),
            status,
        }
    }

    /// Waits for a place; `None` if the process stops.
    pub(super) fn enter(&self, feed: &dyn Feed) -> Option<Place<'_>> {
        let mut state = self.state();
        while f64::from(state.inside) >= state.limit.floor() {
            if feed.stopping() {
                return None;
            }
            let waited = self.left.wait_timeout(state, IDLE_WAIT);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.inside += 1;
        Some(Place(self))
    }

    /// A request was taken without a warning.
    pub(super) fn raise(&self) {
        let mut state = self.state();
        if state.limit < self.workers {
            state.limit = (state.limit + 1.0 / state.limit).min(self.workers);
            self.status.set_concurrency(state.limit as u32);
            self.left.notify_all();
        }
    }

    /// The collector is busy, said in answer to a request that was begun at `begun`.
    pub(super) fn lower(&self, begun: Instant) {
        let mut state = self.state();
        if state.lowered.is_none_or(|at| at < begun) {
            state.lowered = Some(Instant::now());
            state.limit = (state.limit / 2.0).max(1.0);
            self.status.set_concurrency(state.limit as u32);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.state().inside -= 1;
        self.0.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_halves_once_a_round_and_opens_by_one_a_round() {
        let status = Arc::new(SinkStatus::new("splunk", "splunk_hec"));
        let gate = Gate::new(8, Arc::clone(&status));
        let begun = Instant::now();
        gate.lower(begun);
        gate.lower(begun);
        assert_eq!(
            status.concurrency(),
            Some(4),
            "of one round the first counts"
        );
        for _ in 0..4 {
            gate.raise();
        }
        assert_eq!(
            status.concurrency(),
            Some(4),
            "not quite a round: 4 + 1/4 + …"
        );
        gate.raise();
        assert_eq!(status.concurrency(), Some(5));
        for _ in 0..10 {
            gate.lower(Instant::now());
        }
        assert_eq!(status.concurrency(), Some(1));
        for _ in 0..1000 {
            gate.raise();
        }
        assert_eq!(status.concurrency(), Some(8));
    }
}
