//! Decides if a worker has so much to do that others should help it.

use std::time::{Duration, Instant};

use inrush_host::IdleMeter;

use crate::busy_time::{BusyTimer, BusyWindow};

/// A worker that has been busy for this share of the window needs help.
const BUSY: f64 = 0.9;

/// Once it gets help: with less work than this, its own and that of its helpers, it needs none.
const CALM: f64 = 0.6;

/// CPUs that must have been idle for help to be worth anything.
const IDLE_CPUS: f64 = 0.25;

/// Watches one worker.
pub struct SaturationMonitor {
    busy: BusyTimer,
    helped: Duration,
    shares: bool,
    /// Windows on end in which it was busy.
    busy_windows: u32,
    idle: IdleMeter,
}

impl Default for SaturationMonitor {
    fn default() -> Self {
        Self::new()
    }
}

impl SaturationMonitor {
    /// Monitor of a worker that shares no work; its first window begins now.
    pub fn new() -> Self {
        Self {
            busy: BusyTimer::new(),
            helped: Duration::ZERO,
            shares: false,
            busy_windows: 0,
            idle: IdleMeter::new(),
        }
    }

    /// The worker has slept, or waited for room in the queue.
    pub fn rested(&mut self, time: Duration) {
        self.busy.rested(time);
    }

    /// Others have worked for it.
    pub fn helped(&mut self, time: Duration) {
        self.helped += time;
    }

    /// Decision that the worker is to share its work from now on, or not; `None`: as before.
    pub fn judge(&mut self, now: Instant) -> Option<bool> {
        let mut idle = std::mem::take(&mut self.idle);
        let judged = self.judge_by(now, || idle.idle_cpus(now));
        // What was read long ago says nothing of the present.
        if self.busy_windows == 0 {
            idle.forget();
        }
        self.idle = idle;
        judged
    }

    /// [`Self::judge`] with `idle_cpus`, which is asked once in a window in which that matters.
    fn judge_by(&mut self, now: Instant, idle_cpus: impl FnOnce() -> Option<f64>) -> Option<bool> {
        let BusyWindow { length, busy } = self.busy.window(now)?;
        let helped = std::mem::take(&mut self.helped);
        let shares = if self.shares {
            busy + helped.div_duration_f64(length) >= CALM
        } else if busy >= BUSY {
            self.busy_windows += 1;
            let idle = idle_cpus();
            // The first reading says nothing. Where the kernel never does, help is tried.
            self.busy_windows > 1 && idle.is_none_or(|cpus| cpus >= IDLE_CPUS)
        } else {
            self.busy_windows = 0;
            false
        };
        if shares {
            self.busy_windows = 0;
        }
        let changed = shares != self.shares;
        self.shares = shares;
        changed.then_some(shares)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::busy_time::WINDOW;

    /// A worker, and the windows of its life so far.
    struct Life(SaturationMonitor, u32);

    impl Life {
        fn new() -> Self {
            Self(SaturationMonitor::new(), 0)
        }

        /// A window with so much rest and help, in per cent, and so many idle CPUs.
        fn window(&mut self, rest: u32, help: u32, idle: Option<f64>) -> Option<bool> {
            let end = self.0.busy.end();
            self.1 += 1;
            self.0.rested(WINDOW * rest / 100);
            self.0.helped(WINDOW * help / 100);
            self.0.judge_by(end, || idle)
        }
    }

    #[test]
    fn help_comes_after_two_busy_windows_if_cpus_are_idle() {
        let mut life = Life::new();
        assert_eq!(life.window(5, 0, Some(1.0)), None);
        assert_eq!(life.window(50, 0, Some(1.0)), None, "it had rest");
        assert_eq!(life.window(5, 0, Some(1.0)), None);
        assert_eq!(life.window(5, 0, Some(1.0)), Some(true));
    }

    #[test]
    fn nobody_helps_on_a_machine_that_is_busy() {
        let mut life = Life::new();
        for _ in 0..5 {
            assert_eq!(life.window(0, 0, Some(0.1)), None);
        }
        assert_eq!(
            life.window(0, 0, None),
            Some(true),
            "the kernel does not say"
        );
    }

    #[test]
    fn help_goes_on_while_there_is_work_for_more_than_half_a_core() {
        let mut life = Life::new();
        life.window(0, 0, Some(1.0));
        assert_eq!(life.window(0, 0, Some(1.0)), Some(true));
        assert_eq!(
            life.window(70, 50, Some(0.0)),
            None,
            "80 % of a core in all"
        );
        assert_eq!(life.window(80, 30, Some(1.0)), Some(false));
        assert_eq!(life.window(0, 0, Some(1.0)), None, "from the beginning");
    }
}
