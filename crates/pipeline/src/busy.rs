//! Share of time in which a thread is busy, window by window.

use std::time::{Duration, Instant};

/// It is judged once in this time.
pub(crate) const WINDOW: Duration = Duration::from_millis(100);

/// The time that a thread rests, window by window.
pub(crate) struct Busy {
    since: Instant,
    rested: Duration,
}

/// A window that has ended.
pub(crate) struct Window {
    /// Length of the window.
    pub(crate) length: Duration,
    /// The share of it in which the thread had no rest.
    pub(crate) busy: f64,
}

impl Busy {
    pub(crate) fn new() -> Self {
        Self {
            since: Instant::now(),
            rested: Duration::ZERO,
        }
    }

    /// The thread has slept, or waited.
    pub(crate) fn rested(&mut self, time: Duration) {
        self.rested += time;
    }

    /// The window, if it has ended; the next one begins.
    pub(crate) fn window(&mut self, now: Instant) -> Option<Window> {
        let length = now.duration_since(self.since);
        if length < WINDOW {
            return None;
        }
        let busy = 1.0 - self.rested.div_duration_f64(length);
        (self.since, self.rested) = (now, Duration::ZERO);
        Some(Window { length, busy })
    }

    /// Time at which the window will have ended.
    #[cfg(test)]
    pub(crate) fn end(&self) -> Instant {
        self.since + WINDOW
    }
}
