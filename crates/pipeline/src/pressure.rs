//! Whether a worker has so much to do that others should help it.

use std::time::{Duration, Instant};

use inrush_host::IdleMeter;

/// It is judged once in this time.
const WINDOW: Duration = Duration::from_millis(100);

/// A worker that has been busy for this share of the window needs help.
const BUSY: f64 = 0.9;

/// Once it gets help: with less work than this, its own and that of its helpers, it needs none.
const CALM: f64 = 0.6;

/// CPUs that must have been idle for help to be worth anything.
const IDLE_CPUS: f64 = 0.25;

/// Watches one worker.
pub(crate) struct Pressure {
    since: Instant,
    rested: Duration,
    helped: Duration,
    shares: bool,
    /// Windows on end in which it was busy.
    busy_windows: u32,
    idle: IdleMeter,
}

impl Pressure {
    pub(crate) fn new() -> Self {
        Self {
            since: Instant::now(),
            rested: Duration::ZERO,
            helped: Duration::ZERO,
            shares: false,
            busy_windows: 0,
            idle: IdleMeter::new(),
        }
    }

    /// The worker has slept.
    pub(crate) fn rested(&mut self, time: Duration) {
        self.rested += time;
    }

    /// Others have worked for it.
    pub(crate) fn helped(&mut self, time: Duration) {
        self.helped += time;
    }

    /// Whether the worker is to share its work from now on, if that has changed.
    pub(crate) fn judge(&mut self, now: Instant) -> Option<bool> {
        let elapsed = now.duration_since(self.since);
        if elapsed < WINDOW {
            return None;
        }
        let (rested, helped) = (self.rested, self.helped);
        (self.since, self.rested, self.helped) = (now, Duration::ZERO, Duration::ZERO);
        let busy = 1.0 - rested.div_duration_f64(elapsed);
        let shares = if self.shares {
            busy + helped.div_duration_f64(elapsed) >= CALM
        } else if busy >= BUSY {
            self.busy_windows += 1;
            let idle = self.idle.idle_cpus(now);
            // The first reading says nothing. Where the kernel never does, help is tried.
            self.busy_windows > 1 && idle.is_none_or(|cpus| cpus >= IDLE_CPUS)
        } else {
            self.busy_windows = 0;
            self.idle.forget();
            false
        };
        let changed = shares != self.shares;
        self.shares = shares;
        changed.then_some(shares)
    }
}
