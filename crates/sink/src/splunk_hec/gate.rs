//! How many workers may have a request in flight: as many as are configured or as `pace` finds
//! worth it; halved when the collector says that it is busy, raised by one for every round of
//! requests that were taken (additive increase, multiplicative decrease, as TCP does it). One
//! worker always may.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use inrush_event::{AutoCount, Feed};

use super::pace::{Change, MOST, Pace};
use crate::{IDLE_WAIT, SinkStatus};

/// The gate before the collector, shared by the workers.
pub(super) struct Gate {
    state: Mutex<State>,
    left: Condvar,
    status: Arc<SinkStatus>,
}

struct State {
    /// As many as there should be while the collector is not busy.
    wanted: f64,
    /// What finds that; `None`: it is configured.
    pace: Option<Pace>,
    /// How many may be inside; the fraction is what was gained since the last whole one.
    limit: f64,
    inside: u32,
    /// When it was last lowered: requests begun before tell nothing new.
    lowered: Option<Instant>,
}

/// A place inside; given back when dropped.
pub(super) struct Place<'a> {
    gate: &'a Gate,
    /// There was no room for another one.
    pub(super) last: bool,
}

impl Gate {
    /// An open gate for this many workers.
    pub(super) fn new(workers: AutoCount, status: Arc<SinkStatus>) -> Self {
        let pace = (workers == AutoCount::Auto).then(|| Pace::new(MOST));
        let wanted = match (workers, &pace) {
            (AutoCount::Count(n), _) => n.get().into(),
            (AutoCount::Auto, pace) => pace.as_ref().map_or(1.0, Pace::target),
        };
        status.set_concurrency(wanted as u32);
        let state = State {
            wanted,
            pace,
            limit: wanted,
            inside: 0,
            lowered: None,
        };
        Self {
            state: Mutex::new(state),
            left: Condvar::new(),
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
        let last = f64::from(state.inside) >= state.limit.floor();
        Some(Place { gate: self, last })
    }

    /// Workers that there is work for: one more than requests that may be in flight, which fills
    /// its body meanwhile.
    pub(super) fn workers(&self) -> u32 {
        self.state().limit as u32 + 1
    }

    /// Waits until worker `number`, counted from 0, is one of those; `false` if the process stops.
    pub(super) fn await_turn(&self, number: u32, feed: &dyn Feed) -> bool {
        let mut state = self.state();
        while number > state.limit as u32 {
            if feed.stopping() {
                return false;
            }
            let waited = self.left.wait_timeout(state, IDLE_WAIT);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// A request that was at least half full was taken after `took`; `last` as of its place.
    pub(super) fn answered(&self, took: Duration, last: bool) {
        let mut state = self.state();
        let at_most = state.limit >= state.wanted;
        let pace = state.pace.as_mut().filter(|_| at_most);
        let Some(change) = pace.and_then(|pace| pace.answered(Instant::now(), took, last)) else {
            return;
        };
        state.wanted = change.to.into();
        state.limit = state.wanted;
        drop(state);
        self.status.set_concurrency(change.to);
        self.left.notify_all();
        let Change { from, to, .. } = change;
        let (answer, shortest) = (millis(change.answer), millis(change.shortest));
        let destination = self.status.name();
        tracing::info!(
            destination,
            from,
            to,
            answer_ms = answer,
            shortest_ms = shortest,
            "requests in flight"
        );
    }

    /// A request was taken without a warning.
    pub(super) fn raise(&self) {
        let mut state = self.state();
        if state.limit < state.wanted {
            state.limit = (state.limit + 1.0 / state.limit).min(state.wanted);
            self.status.set_concurrency(state.limit as u32);
            self.left.notify_all();
        }
    }

    /// The collector is busy, said in answer to a request that was begun at `begun`.
    pub(super) fn lower(&self, begun: Instant) {
        let mut state = self.state();
        if state.lowered.is_none_or(|at| at < begun) {
            state.lowered = Some(Instant::now());
            if let Some(pace) = &mut state.pace {
                pace.busy();
            }
            state.limit = (state.limit / 2.0).max(1.0);
            self.status.set_concurrency(state.limit as u32);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e4).round() / 10.0
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.gate.state().inside -= 1;
        // Not all who wait, wait for the same.
        self.gate.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn it_halves_once_a_round_and_opens_by_one_a_round() {
        let status = Arc::new(SinkStatus::new("splunk", "splunk_hec"));
        let gate = Gate::new(AutoCount::of(8), Arc::clone(&status));
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
