//! How many requests in flight are worth it: found by what an answer takes.
//!
//! The shortest answer of late is what the way and the collector take with nobody before it. What
//! answers take longer than that, they have waited; by Little's law so many requests wait, at the
//! collector or for our own cores. With hardly any waiting more in flight bring more; with many,
//! fewer bring as much. This is how TCP Vegas finds its window (Brakmo and Peterson, 1995).
//!
//! Where there is always a queue, nobody sees the shortest answer any more, and where a collector
//! is slow and fast by turns, nothing has waited for long answers. So each change is a trial: a
//! raise must bring a fifth of what it would without any waiting, a cut may cost no more than a
//! fifth of it. Else it is taken back, and the next one comes after ever longer times.
//!
//! Only requests count that are at least half full: short ones are answered sooner. It changes once
//! in three seconds at most, by little, so that a collector whose speed swings does not swing it.

use std::time::{Duration, Instant};

/// In flight at first.
const FIRST: f64 = 4.0;

/// In flight at most: at 100 ms there and back 320 MB/s.
pub(super) const MOST: u32 = 32;

/// It is judged once in this time, and once in the other while it doubles.
const EPOCH: Duration = Duration::from_secs(3);
const EPOCH_DOUBLING: Duration = Duration::from_millis(500);

/// Answers that a judgement takes.
const ANSWERS_MIN: u32 = 8;

/// The shortest answer is that of so long, at least.
const SHORTEST_KEPT: Duration = Duration::from_secs(60);

/// The part of what a change would bring or cost without any waiting that decides whether it stays.
const GAIN_MIN: f64 = 0.2;

/// Judgements without a trial after one that was taken back: at first, and at most.
const HOLD: [u32; 2] = [4, 64];

/// With fewer waiting than this part of those in flight, or than two, there may be room for more.
const WAITING_LOW: f64 = 0.3;

/// With more waiting than this part, or more than three, there are too many.
const WAITING_HIGH: f64 = 0.5;

/// Part by which it changes, one at least.
const STEP: f64 = 0.05;

/// A change.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Change {
    pub(super) from: u32,
    pub(super) to: u32,
    /// What an answer took lately, and the shortest.
    pub(super) answer: Duration,
    pub(super) shortest: Duration,
}

/// Finds the number. It knows no clock and no thread.
pub(super) struct Pace {
    target: f64,
    most: f64,
    /// Nothing has waited yet.
    doubling: bool,
    epoch: Option<Instant>,
    answers: u32,
    /// Of them, those for which all in flight were in use.
    in_use: u32,
    total: Duration,
    /// The shortest answer of this time, of the time before, and when this one began.
    shortest: [Option<Duration>; 2],
    shortest_since: Option<Instant>,
    /// What the last change began with, until it is known what it brought.
    trial: Option<Trial>,
    /// Judgements for which nothing is tried, and how many those will be the next time.
    hold: u32,
    next_hold: u32,
}

/// The number in flight before a change, and answers a second with it.
struct Trial {
    from: f64,
    rate: f64,
}

impl Pace {
    /// It begins with four, or `most` if that is less.
    pub(super) fn new(most: u32) -> Self {
        Self {
            target: FIRST.min(most.into()),
            most: most.into(),
            doubling: true,
            epoch: None,
            answers: 0,
            in_use: 0,
            total: Duration::ZERO,
            shortest: [None; 2],
            shortest_since: None,
            trial: None,
            hold: 0,
            next_hold: HOLD[0],
        }
    }

    /// Requests that may be in flight.
    pub(super) fn target(&self) -> f64 {
        self.target.floor()
    }

    /// The collector is busy: doubling is over.
    pub(super) fn busy(&mut self) {
        self.doubling = false;
    }

    /// A request that was at least half full was answered after `took`. `all_in_use`: when it was
    /// sent, there was no room for another one.
    pub(super) fn answered(
        &mut self,
        now: Instant,
        took: Duration,
        all_in_use: bool,
    ) -> Option<Change> {
        self.note(now, took);
        self.answers += 1;
        self.in_use += u32::from(all_in_use);
        self.total += took;
        let epoch = if self.doubling { EPOCH_DOUBLING } else { EPOCH };
        let since = *self.epoch.get_or_insert(now);
        if now.duration_since(since) < epoch || self.answers < ANSWERS_MIN {
            return None;
        }
        let (answers, in_use) = (self.answers, self.in_use);
        let answer = std::mem::take(&mut self.total) / answers;
        (self.epoch, self.answers, self.in_use) = (Some(now), 0, 0);
        // Who has no use for all of them learns nothing about more of them.
        if in_use * 2 < answers {
            return None;
        }
        let shortest = self.shortest.iter().flatten().min().copied()?;
        let rate = f64::from(answers) / now.duration_since(since).as_secs_f64();
        let from = self.target;
        if !self.is_in_vain(rate) {
            self.judge(rate, answer, shortest);
        }
        let (from, to) = (from as u32, self.target as u32);
        (from != to).then_some(Change {
            from,
            to,
            answer,
            shortest,
        })
    }

    /// Takes the last change back if it brought too little, or cost too much.
    fn is_in_vain(&mut self, rate: f64) -> bool {
        let Some(trial) = self.trial.take() else {
            return false;
        };
        let more = self.target / trial.from - 1.0;
        if rate >= trial.rate * (1.0 + GAIN_MIN * more) {
            self.next_hold = HOLD[0];
            return false;
        }
        self.target = trial.from;
        if !std::mem::take(&mut self.doubling) {
            self.hold = self.next_hold;
            self.next_hold = (self.next_hold * 2).min(HOLD[1]);
        }
        true
    }

    fn note(&mut self, now: Instant, took: Duration) {
        let since = *self.shortest_since.get_or_insert(now);
        if now.duration_since(since) >= SHORTEST_KEPT {
            self.shortest = [None, self.shortest[0]];
            self.shortest_since = Some(now);
        }
        let shortest = self.shortest[0].map_or(took, |known| known.min(took));
        self.shortest[0] = Some(shortest);
    }

    fn judge(&mut self, rate: f64, answer: Duration, shortest: Duration) {
        let from = self.target;
        let waiting = from * (1.0 - shortest.div_duration_f64(answer.max(shortest)));
        let step = (from * STEP).max(1.0);
        let to = if waiting < (from * WAITING_LOW).max(2.0) {
            if self.doubling {
                from * 2.0
            } else {
                from + step
            }
        } else {
            self.doubling = false;
            let many = waiting > (from * WAITING_HIGH).max(3.0);
            if many { from - step } else { from }
        };
        self.hold = self.hold.saturating_sub(1);
        let to = to.clamp(1.0, self.most);
        if self.hold == 0 && to != from {
            self.target = to;
            self.trial = Some(Trial { from, rate });
        }
    }
}

#[cfg(test)]
#[path = "pace_tests.rs"]
mod tests;
