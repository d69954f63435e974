//! Group commit of what connections wait for: a batch waits for those that are about to send again.
//!
//! A client that sends its next request once it has the answer to the last one comes back within a
//! moment. Where many do so, each commit would else have the requests of a few: as PostgreSQL's
//! `commit_delay` and `commit_siblings`, a batch waits for the others, at most half as long as a
//! commit takes. While the batch before is on its way to the disk it waits in any case: the disk
//! would not take it earlier.

use std::time::{Duration, Instant};

/// Longest wait for others. The kernel's timer of a poll has no finer steps.
const WAIT_MAX: Duration = Duration::from_millis(1);

/// Commits that take less than this are not waited for: a log in memory has none.
const COMMIT_MIN: Duration = Duration::from_micros(200);

/// Longest wait while the batch before is on its way.
const BEHIND_MAX: Duration = Duration::from_millis(10);

/// A worker's connections that were answered and are about to send again.
#[derive(Debug)]
pub(super) struct CommitGathering {
    /// Counts the batches.
    round: u64,
    /// Connections that were answered since the last batch was handed on, and have sent nothing.
    expected: usize,
    /// Time from the first request of a batch until now, if there is one.
    since: Option<Instant>,
    /// Time at which the last batch was handed on.
    handed_on: Instant,
    /// Time at which the one before became durable, or the first request of this one came.
    free_at: Instant,
    /// Time that a commit takes, smoothed.
    commit: Duration,
}

impl CommitGathering {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            round: 1,
            expected: 0,
            since: None,
            handed_on: now,
            free_at: now,
            commit: Duration::ZERO,
        }
    }

    /// A connection was answered; `mark` is its own.
    pub(super) fn answered(&mut self, mark: &mut u64) {
        if *mark != self.round {
            *mark = self.round;
            self.expected += 1;
        }
    }

    /// A connection has a request that is to be answered.
    pub(super) fn came(&mut self, mark: &mut u64) {
        if *mark == self.round {
            *mark = 0;
            self.expected = self.expected.saturating_sub(1);
        }
    }

    /// The batch of before became durable.
    pub(super) fn committed(&mut self, now: Instant) {
        let took = now.saturating_duration_since(self.handed_on);
        self.commit = (self.commit * 7 + took) / 8;
        self.free_at = now;
    }

    /// Time until which a batch that someone waits for is held at `now`; `None`: it goes at once.
    /// `behind` says that the batch before is on its way.
    pub(super) fn holds(&mut self, behind: bool, now: Instant) -> Option<Instant> {
        let since = *self.since.get_or_insert(now);
        let until = match behind {
            true => since + BEHIND_MAX,
            false if self.expected == 0 || self.commit < COMMIT_MIN => return None,
            false => since.max(self.free_at) + (self.commit / 2).min(WAIT_MAX),
        };
        (now < until).then_some(until)
    }

    /// A batch was handed on: who has not come is not waited for any more.
    pub(super) fn handed_on(&mut self, now: Instant) {
        self.round += 1;
        self.expected = 0;
        self.since = None;
        self.handed_on = now;
    }
}
