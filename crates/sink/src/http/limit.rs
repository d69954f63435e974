//! Limit of the requests in flight: as many as are configured, or as `pace` finds worth it, but
//! fewer while the collector is busy.
//!
//! A busy collector takes a fifth off, so that one that has room for so many and no more does not
//! make the number swing; and half of what is left each time that it says so again with nothing
//! taken since. Then one more is tried for every round of requests that were taken, up to a tenth
//! below what was too much. From there it takes two seconds to try that again, and twice as long
//! each time that it is too much again. One always may (additive increase, multiplicative decrease,
//! with the memory of CUBIC, RFC 9438).
//!
//! It knows no clock and no thread.

use std::time::{Duration, Instant};

use inrush_event::AutoCount;

use super::pace::{self, AnswerSample, ConcurrencyController};

/// Fractions of the limit that busy answers leave: the first one, and one with nothing taken since.
const LEFT: [f64; 2] = [0.8, 0.5];

/// The part of what was too much below which it rises by one a round; and one below at least.
const NEAR: f64 = 0.9;

/// The time that it takes from there to what was too much: at first, and at most.
const PROBE: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(30)];

/// The longest time between two answers that counts for that.
const PROBE_GAP_MAX: Duration = Duration::from_secs(1);

/// Between two lines in the log.
const SAID_GAP: Duration = Duration::from_secs(1);

/// Reason for a change of the limit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum LimitReason {
    /// The collector is, or does not answer in time.
    Busy,
    /// It takes requests again.
    BusyNoMore,
    /// More bring so much more, as a part of what fewer do.
    MoreBringMore(f64),
    /// Fewer bring as much: more would bring this much more.
    FewerBringAsMuch(f64),
}

/// A change, for the log.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct LimitChange {
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// Of the last step, where there were several.
    pub(crate) reason: LimitReason,
}

/// Finds the number.
pub(crate) struct ConcurrencyLimit {
    wanted: ConcurrencyGoal,
    /// There is no memory for more.
    most: u32,
    /// While the collector is busy, and after that.
    eased: Option<AimdLimit>,
    /// Time of the last decrease: requests begun before tell nothing new.
    lowered: Option<Instant>,
    /// Limit that the log knows, and the time since which it does.
    said: u32,
    said_at: Option<Instant>,
    /// Of what the log does not know yet.
    reason: LimitReason,
}

/// As many as there should be while the collector is not busy.
enum ConcurrencyGoal {
    Pinned(u32),
    Found(ConcurrencyController),
}

/// Limit that a busy collector allows.
struct AimdLimit {
    /// The fraction is what was gained since the last whole one.
    limit: f64,
    /// Number of requests in flight that was too much.
    too_much: f64,
    /// Time of the last request taken since the decrease.
    taken: Option<Instant>,
    /// Requests that were taken since it is again what was too much.
    taken_again: u32,
    probe: Duration,
}

impl ConcurrencyLimit {
    /// For this option.
    pub(crate) fn new(workers: AutoCount) -> Self {
        let wanted = match workers {
            AutoCount::Count(n) => ConcurrencyGoal::Pinned(n.get().into()),
            AutoCount::Auto => ConcurrencyGoal::Found(ConcurrencyController::new()),
        };
        let mut limit = Self {
            wanted,
            most: u32::MAX,
            eased: None,
            lowered: None,
            said: 0,
            said_at: None,
            reason: LimitReason::BusyNoMore,
        };
        limit.said = limit.settled();
        limit
    }

    /// The same with so many at most.
    pub(crate) fn within(mut self, most: u32) -> Self {
        self.most = most;
        self.said = self.settled();
        self
    }

    /// Requests that may be in flight now.
    pub(crate) fn allowed(&self) -> u32 {
        self.at_most(match &self.wanted {
            ConcurrencyGoal::Pinned(n) => *n,
            ConcurrencyGoal::Found(pace) => pace.allowed(),
        })
    }

    /// The same without the one or few more or fewer that are tried.
    pub(crate) fn settled(&self) -> u32 {
        self.at_most(match &self.wanted {
            ConcurrencyGoal::Pinned(n) => *n,
            ConcurrencyGoal::Found(pace) => pace.settled(),
        })
    }

    /// The most that may be in flight soon.
    pub(crate) fn soon(&self) -> u32 {
        self.at_most(match &self.wanted {
            ConcurrencyGoal::Pinned(n) => *n,
            ConcurrencyGoal::Found(pace) => pace.most(),
        })
    }

    fn at_most(&self, wanted: u32) -> u32 {
        let (eased, wanted) = (self.eased.as_ref(), wanted.min(self.most));
        eased.map_or(wanted, |eased| wanted.min(eased.limit as u32))
    }

    /// A request was taken without a warning.
    pub(crate) fn taken(&mut self, answer: AnswerSample) -> Option<LimitChange> {
        let wanted = match &self.wanted {
            ConcurrencyGoal::Pinned(n) => *n,
            ConcurrencyGoal::Found(pace) => pace.settled(),
        };
        if let Some(eased) = &mut self.eased {
            eased.raise(answer.now);
            self.reason = LimitReason::BusyNoMore;
            if eased.limit >= f64::from(wanted) && !eased.is_trying_again() {
                self.eased = None;
            }
        } else if let ConcurrencyGoal::Found(pace) = &mut self.wanted
            && let Some(change) = pace.answered(answer)
        {
            let pace::ConcurrencyChange { from, to, gain } = change;
            self.reason = match from < to {
                true => LimitReason::MoreBringMore(gain),
                false => LimitReason::FewerBringAsMuch(gain),
            };
        }
        self.say(answer.now)
    }

    /// The collector is busy or did not answer in time, said of a request that was begun at
    /// `begun`.
    pub(crate) fn busy(&mut self, begun: Instant, now: Instant) -> Option<LimitChange> {
        if self.lowered.is_some_and(|at| begun <= at) {
            return None;
        }
        let before = self.allowed();
        if let ConcurrencyGoal::Found(pace) = &mut self.wanted {
            pace.busy(now);
        }
        self.lowered = Some(now);
        self.reason = LimitReason::Busy;
        let eased = match self.eased.take() {
            Some(eased) if eased.taken.is_none() => AimdLimit {
                limit: (eased.limit * LEFT[1]).max(1.0),
                ..eased
            },
            Some(eased) => {
                let probe = if eased.is_trying_again() {
                    eased.probe * 2
                } else {
                    PROBE[0]
                };
                AimdLimit::new(eased.limit, probe.min(PROBE[1]))
            }
            None => AimdLimit::new(before.into(), PROBE[0]),
        };
        self.eased = Some(eased);
        self.say(now)
    }

    /// A request failed for another reason.
    pub(crate) fn failed(&mut self) {
        if let ConcurrencyGoal::Found(pace) = &mut self.wanted {
            pace.failed();
        }
    }

    /// Change for the log: at most a line a second, and nothing that is undone by then.
    fn say(&mut self, now: Instant) -> Option<LimitChange> {
        let (from, to) = (self.said, self.settled());
        let is_early = |at| now.duration_since(at) < SAID_GAP;
        if from == to || self.said_at.is_some_and(is_early) {
            return None;
        }
        (self.said, self.said_at) = (to, Some(now));
        let reason = self.reason;
        Some(LimitChange { from, to, reason })
    }
}

impl AimdLimit {
    fn new(too_much: f64, probe: Duration) -> Self {
        Self {
            limit: (too_much * LEFT[0]).min(too_much - 1.0).max(1.0),
            too_much,
            taken: None,
            taken_again: 0,
            probe,
        }
    }

    /// True if it is again what was too much, for less than two rounds: that it is busy later may
    /// have any reason.
    fn is_trying_again(&self) -> bool {
        let is_again = self.limit.floor() >= self.too_much.floor();
        is_again && f64::from(self.taken_again) <= 2.0 * self.limit
    }

    fn raise(&mut self, now: Instant) {
        if self.limit.floor() >= self.too_much.floor() {
            self.taken_again += 1;
        }
        let before = self.taken.replace(now).unwrap_or(now);
        let near = near(self.too_much);
        if self.limit < near {
            self.limit = (self.limit + 1.0 / self.limit).min(near);
        } else if self.limit < self.too_much + 1.0 {
            let time = now.duration_since(before).min(PROBE_GAP_MAX);
            self.limit += (self.too_much - near) * time.div_duration_f64(self.probe);
        } else {
            self.limit += 1.0 / self.limit;
            self.probe = PROBE[0];
        }
    }
}

fn near(too_much: f64) -> f64 {
    (NEAR * too_much).min(too_much - 1.0)
}

#[cfg(test)]
#[path = "limit_tests.rs"]
mod tests;
