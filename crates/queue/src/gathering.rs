//! Group commit of what senders wait for: a round waits for those that are about to come back.
//!
//! Sources answer once a batch is durable, and many clients send their next request then. Without a
//! wait each round has the batches of a few sources, and as many syncs are needed. So, as with
//! PostgreSQL's `commit_delay` and `commit_siblings`, a round that could begin waits for as many
//! batches as the last one had, at most for half of the time that a round takes.

use std::time::{Duration, Instant};

/// Longest wait for others.
const WAIT_MAX: Duration = Duration::from_millis(1);

/// Rounds that take less than this are not waited for.
const ROUND_MIN: Duration = Duration::from_micros(200);

/// Time that rounds take, and the batches that are expected.
#[derive(Debug, Default)]
pub(crate) struct CommitGathering {
    /// Start of the present round.
    began: Option<Instant>,
    /// End of the last round.
    ended: Option<Instant>,
    /// Time that a round takes, smoothed.
    took: Duration,
    /// Awaited batches of the last round that no other has followed yet.
    expected: usize,
}

impl CommitGathering {
    /// A round begins.
    pub(crate) fn begun(&mut self, now: Instant) {
        self.began = Some(now);
    }

    /// The round has ended; senders waited for so many of its batches.
    pub(crate) fn ended(&mut self, awaited: usize, now: Instant) {
        if let Some(began) = self.began.take() {
            self.took = (self.took * 7 + now.saturating_duration_since(began)) / 8;
        }
        self.ended = Some(now);
        self.expected = awaited;
    }

    /// A batch came that its sender waits for.
    pub(crate) fn came(&mut self) {
        self.expected = self.expected.saturating_sub(1);
    }

    /// Time until which the next round is held; `None`: nobody is expected.
    pub(crate) fn holds_until(&self) -> Option<Instant> {
        let waits = self.expected > 0 && self.took >= ROUND_MIN;
        Some(self.ended.filter(|_| waits)? + (self.took / 2).min(WAIT_MAX))
    }
}
