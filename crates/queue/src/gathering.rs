//! Group commit of what senders wait for: a round waits for those that are about to come back.
//!
//! Sources answer once a batch is durable, and many clients send their next request then. Without a
//! wait each round has the batches of a few sources, and as many syncs are needed. So, as with
//! PostgreSQL's `commit_delay` and `commit_siblings`, a round that could begin waits for as many
//! batches as the last one had, at most for half of the time that a round takes.

use std::time::{Duration, Instant};

/// Longest wait of a batch for company before it is written, if nobody waits for it. With the round
/// itself it stays below the promised 50 ms.
pub(crate) const LINGER: Duration = Duration::from_millis(25);

/// Longest wait for others of what someone waits for.
const WAIT_MAX: Duration = Duration::from_millis(1);

/// Rounds that take less than this are not waited for.
const ROUND_MIN: Duration = Duration::from_micros(200);

/// Rounds that take less than this are quick.
const QUICK_MAX: Duration = Duration::from_millis(10);

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

    /// True if rounds take little time.
    pub(crate) fn is_quick(&self) -> bool {
        self.took < QUICK_MAX
    }

    /// Time until which the next round is held; `None`: nobody is expected.
    pub(crate) fn holds_until(&self) -> Option<Instant> {
        let waits = self.expected > 0 && self.took >= ROUND_MIN;
        Some(self.ended.filter(|_| waits)? + (self.took / 2).min(WAIT_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of so many µs each, until that is the smoothed time, with two awaited batches.
    fn after_rounds_of(micros: u64) -> (CommitGathering, Instant) {
        let (mut gathering, mut now) = (CommitGathering::default(), Instant::now());
        for _ in 0..100 {
            gathering.begun(now);
            now += Duration::from_micros(micros);
            gathering.ended(2, now);
        }
        (gathering, now)
    }

    #[test]
    fn a_round_waits_for_those_of_the_last_one_for_half_a_round() {
        let (mut gathering, now) = after_rounds_of(800);
        let wait = |gathering: &CommitGathering| gathering.holds_until().map(|until| until - now);
        let half = wait(&gathering);
        assert!(
            half > Some(Duration::from_micros(390)) && half <= Some(Duration::from_micros(400))
        );
        gathering.came();
        assert_eq!(wait(&gathering), half, "one more is expected");
        gathering.came();
        assert_eq!(wait(&gathering), None);
        gathering.came();
        assert_eq!(wait(&gathering), None);
    }

    #[test]
    fn short_rounds_are_not_waited_for_and_long_ones_not_long() {
        let (gathering, _) = after_rounds_of(100);
        assert_eq!(gathering.holds_until(), None);
        let (gathering, now) = after_rounds_of(50_000);
        assert_eq!(gathering.holds_until(), Some(now + WAIT_MAX));
        assert!(!gathering.is_quick());
    }
}
