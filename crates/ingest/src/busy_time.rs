//! Share of time in which a thread is busy, window by window.

use std::time::{Duration, Instant};

/// It is judged once in this time.
pub const WINDOW: Duration = Duration::from_millis(100);

/// The time that a thread rests, window by window.
pub struct BusyTimer {
    since: Instant,
    rested: Duration,
}

/// A window that has ended.
pub struct BusyWindow {
    /// Length of the window.
    pub length: Duration,
    /// The share of it in which the thread had no rest.
    pub busy: f64,
}

impl Default for BusyTimer {
    fn default() -> Self {
        Self::new()
    }
}

impl BusyTimer {
    /// Timer without rest so far; its first window begins now and lasts [`WINDOW`] at least.
    pub fn new() -> Self {
        Self {
            since: Instant::now(),
            rested: Duration::ZERO,
        }
    }

    /// The thread has slept, or waited.
    pub fn rested(&mut self, time: Duration) {
        self.rested += time;
    }

    /// The window, if it has ended; the next one begins.
    pub fn window(&mut self, now: Instant) -> Option<BusyWindow> {
        let length = now.duration_since(self.since);
        if length < WINDOW {
            return None;
        }
        let busy = 1.0 - self.rested.div_duration_f64(length);
        (self.since, self.rested) = (now, Duration::ZERO);
        Some(BusyWindow { length, busy })
    }

    /// Time at which the window will have ended.
    pub fn end(&self) -> Instant {
        self.since + WINDOW
    }
}
