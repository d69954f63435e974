//! Room for requests: answers where the queue has none or cannot be written, and health.

use std::sync::atomic::Ordering;
use std::time::Duration;

use inrush_codec::hec::HecAnswer;
use inrush_event::Timestamp;

use super::settings::{HecSettings, HecShared};

/// Share of the room from which on an answer warns that it is nearly used.
const NEARLY_FULL: f64 = 0.8;

impl HecShared {
    /// Time for which the queue's disk has failed; `None` if it works, or is only full.
    fn failing_for(&self) -> Option<Duration> {
        let stall = self.log.levels().stall.filter(|stall| !stall.full)?;
        let nanoseconds = Timestamp::now().0.saturating_sub(stall.since.0);
        Some(Duration::from_nanos(nanoseconds.max(0) as u64))
    }

    fn fails_for_long(&self) -> bool {
        let busy_after = self.settings().busy_after;
        self.failing_for().is_some_and(|time| time >= busy_after)
    }

    /// Takes note of whether the queue's disk fails, once a second.
    pub(super) fn look_at_disk(&self) {
        let fails = self.fails_for_long();
        self.disk_fails.store(fails, Ordering::Relaxed);
    }

    /// True if the queue's disk has failed for `busy_after`: nobody waits for it any more. The log
    /// is asked only while the last look found a failure: this is called with every request.
    pub(super) fn disk_fails(&self) -> bool {
        self.disk_fails.load(Ordering::Relaxed) && self.fails_for_long()
    }

    /// True if a request's events would be taken now. While a failed write is tried again, the log
    /// has room, and a moment later it has none.
    pub(super) fn has_room(&self) -> bool {
        !self.disk_fails() && self.log.has_room()
    }

    /// The answer to a request that the queue has not taken.
    pub(super) fn no_room(&self, settings: &HecSettings) -> HecAnswer {
        match self.failing_for() {
            Some(_) => HecAnswer::InternalError,
            None => settings.busy,
        }
    }

    /// The answer to a question for health.
    pub(super) fn health(&self, settings: &HecSettings) -> HecAnswer {
        let acks = self.acks.fill(settings.ack_limits) < 1.0;
        match (self.has_room(), acks) {
            (true, true) => HecAnswer::Healthy,
            (false, true) => HecAnswer::QueueFull,
            (true, false) => HecAnswer::AckUnavailable,
            (false, false) => HecAnswer::QueueFullAckUnavailable,
        }
    }

    /// The answer to a request that was taken, with a warning where room becomes short.
    pub(super) fn success(&self, settings: &HecSettings, acked: bool) -> HecAnswer {
        if self.log.fill() >= NEARLY_FULL {
            HecAnswer::QueueNearlyFull
        } else if acked && self.acks.fill(settings.ack_limits) >= NEARLY_FULL {
            HecAnswer::AckNearlyFull
        } else {
            HecAnswer::Success
        }
    }
}
