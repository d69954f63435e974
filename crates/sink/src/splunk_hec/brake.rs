//! Brake on quarantine: the number of refusals that are believed. A collector that refuses some
//! events among others that it takes is right about them; one that refuses everything says
//! something about the way, the token's index or itself, and quarantine would only move the
//! backlog.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use crate::backoff;

/// Events that may be refused in a row without one that was taken.
const REFUSALS_MAX: u32 = 100;

/// Something was taken since the last refusal.
const FRESH: u32 = u32::MAX;

/// First and longest pause while everything is refused.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The brake of a destination, shared by its workers.
pub(super) struct QuarantineBrake {
    /// Events that are still believed to be bad, or [`FRESH`].
    left: AtomicU32,
    /// Something was taken at all.
    ever: AtomicBool,
    /// Bodies in a row of which nothing was taken.
    bodies: AtomicU32,
}

impl QuarantineBrake {
    pub(super) fn new() -> Self {
        Self {
            left: AtomicU32::new(REFUSALS_MAX),
            ever: AtomicBool::new(false),
            bodies: AtomicU32::new(0),
        }
    }

    /// The collector took something.
    pub(super) fn taken(&self) {
        // Every request says so: shared lines are not written to without need.
        if self.left.load(Relaxed) != FRESH {
            self.left.store(FRESH, Relaxed);
            self.ever.store(true, Relaxed);
            self.bodies.store(0, Relaxed);
        }
    }

    /// So many of `events` that were refused by one answer are to be believed bad. A stranger, who
    /// does not give HEC's codes, is believed only once something was taken.
    pub(super) fn believe(&self, events: usize, vouched: bool) -> usize {
        if !vouched && !self.ever.load(Relaxed) {
            return 0;
        }
        let events = u32::try_from(events).unwrap_or(u32::MAX);
        let less = |left: u32| match left {
            FRESH => Some(REFUSALS_MAX.saturating_sub(events)),
            left => Some(left.saturating_sub(events)),
        };
        let left = self.left.fetch_update(Relaxed, Relaxed, less);
        // The closure always gives a number.
        left.unwrap_or(0).min(events) as usize
    }

    /// A body ended of which nothing was taken; how long to wait.
    pub(super) fn pause(&self) -> Duration {
        let bodies = self.bodies.fetch_add(1, Relaxed).saturating_add(1);
        backoff::pause(bodies, PAUSE.0, PAUSE.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_believed_beside_success_and_a_hundred_without() {
        let brake = QuarantineBrake::new();
        assert_eq!(brake.believe(1, false), 0, "a stranger, and nothing taken");
        assert_eq!(brake.believe(60, true), 60);
        assert_eq!(brake.believe(60, true), 40);
        assert_eq!(brake.believe(1, true), 0);
        assert!(brake.pause() >= PAUSE.0 / 2);
        brake.taken();
        assert_eq!(brake.believe(2500, true), 2500, "one answer about a span");
        assert_eq!(brake.believe(1, true), 0);
        brake.taken();
        assert_eq!(brake.believe(1, false), 1);
        assert_eq!(brake.believe(100, false), 99);
    }
}
