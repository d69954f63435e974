//! Number of requests in flight that is worth it: found by trying a few more and a few fewer.
//!
//! What is compared is throughput, in bytes a second, with two numbers in flight that take turns of
//! half a second: so a collector that is slow and fast by turns is so for both. Which one has the
//! first turn of a pair follows the Thue-Morse sequence, and turns differ in length, so that no
//! period falls in with theirs. Of what the pairs say the middle half counts; how far that is
//! spread says how sure it is. Only what is sure is a reason to move. The higher number is worth it
//! if it brings 2 % more.
//!
//! At first it doubles, as long as that brings something, and looks beyond a stretch where it
//! neither brings nor costs anything. Then it goes from rung to rung, one up or down at a time, so
//! that trials themselves swing the number little. When neither brings anything it rests, ever
//! longer.
//!
//! How long answers take says only how long to measure. It is no measure of waiting: where answers
//! vary by themselves, as over any real network, the shortest one beside the mean (as in TCP Vegas)
//! looks like a queue that is not there.
//!
//! # Limits
//! A collector that becomes slower and faster every 16 s to a minute can have the number swing by a
//! third: a pair of long turns is then of a slow and a fast one.

use std::time::{Duration, Instant};

/// Rungs of the number in flight: an eighth more from one to the next, one at least. At 100 ms
/// there and back 128 bodies of 1 MB are 1.28 GB/s. One alone would have the collector wait for the
/// next body, and trying that would cost half of all; a busy collector has it all the same.
const RUNGS: [u32; 31] = [
    2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 18, 20, 22, 25, 28, 32, 36, 40, 45, 51, 57, 64, 72,
    81, 91, 102, 114, 128,
];

const TOP: usize = RUNGS.len() - 1;

/// In flight at most.
pub(crate) const MOST: u32 = RUNGS[TOP];

/// In flight at first: the rung.
const FIRST: usize = 0;

/// A number is measured for so long, and for so many times what an answer takes: answers come in
/// bursts, since requests that were sent together are answered together.
const TURN_MIN: Duration = Duration::from_millis(400);
const TURN_ANSWERS_LONG: u32 = 6;

/// Eighths by which turns are longer than that, one after the other.
const LONGER: [u32; 8] = [0, 5, 2, 7, 4, 1, 6, 3];

/// Answers that a measurement takes.
const ANSWERS_MIN: u32 = 8;

/// The part of requests with more to send behind them: who has no use for more learns nothing.
const WANTED_MIN: f64 = 0.3;

/// Pairs of turns after which a trial may be decided: to stay, to move, and to move after a rest,
/// for what is changed then is not to be changed back. Then it is over.
const PAIRS: [usize; 3] = [3, 6, 12];

/// Least gain of the higher number: the natural logarithm of the quotient of throughputs.
const GAIN_MIN: f64 = 0.02;

/// Least gain of a doubled number; and of each of the first two pairs, so that no more are wanted.
const GAIN_DOUBLED_MIN: f64 = 0.03;
const GAIN_DOUBLED_SURE: f64 = 0.16;

/// A doubled one that takes off no more than this may stand on a level stretch of the way: four
/// times as many are tried too.
const LOSS_LEVEL_MAX: f64 = 0.04;

/// By how much more often the collector is busy in the turns of a higher number that is too high.
const BUSY_TOO_MUCH: u32 = 2;

/// Rungs that a trial goes at most, after others in the same direction that were taken; and by how
/// much the higher number then exceeds the lower one at most.
const STRIDE_MAX: usize = 4;
const STRIDE_RATIO_MAX: f64 = 1.5;

/// Turns are so many times as long at most, where shorter ones leave all unsure.
const PATIENCE_MAX: u32 = 8;

/// The time without a trial after a higher and a lower number were in vain: at first, and at most.
const REST: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(60)];

/// An answer to a request whose events were taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerSample {
    pub(crate) now: Instant,
    /// From its sending to its answer.
    pub(crate) took: Duration,
    /// Of its body.
    pub(crate) bytes: usize,
    /// There was more to send: its body was filled, or there was no room for another request.
    pub(crate) wanted: bool,
}

/// A change that stays.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct ConcurrencyChange {
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// Gain of the higher of the two, as a part of what the lower one brings.
    pub(crate) gain: f64,
}

/// Finds the number. It knows no clock and no thread.
pub(crate) struct ConcurrencyController {
    rung: usize,
    work: TrialState,
    turn: ThroughputMeter,
    /// Turns so far, for their length.
    turns: usize,
    /// Trials are of so many times as many; `None` once that is over.
    leap: Option<u32>,
    /// By how much they are longer than usual.
    patience: u32,
    up: bool,
    /// Trials in this direction that were taken, one after the other.
    taken: usize,
    /// Trials since the last one that was taken.
    in_vain: u32,
    rest: Duration,
    /// Nothing was taken since the last rest.
    rested: bool,
}

/// Trial or rest that is under way.
enum TrialState {
    /// Another rung is tried; bytes a second of each turn, and how often the collector was busy,
    /// by whose turn it was.
    Trial {
        other: usize,
        rates: Vec<f64>,
        busy: [u32; 2],
    },
    /// Nothing, until then, or until the next answer.
    Rest(Option<Instant>),
}

impl ConcurrencyController {
    /// It begins with two.
    pub(crate) fn new() -> Self {
        Self {
            rung: FIRST,
            work: TrialState::Rest(None),
            turn: ThroughputMeter::default(),
            turns: 0,
            leap: Some(2),
            patience: 1,
            up: true,
            taken: 0,
            in_vain: 0,
            rest: REST[0],
            rested: false,
        }
    }

    /// Requests that are worth it, as far as is known.
    pub(crate) fn settled(&self) -> u32 {
        RUNGS[self.rung]
    }

    /// Requests that may be in flight now: another number while one is tried.
    pub(crate) fn allowed(&self) -> u32 {
        match &self.work {
            TrialState::Trial { other, rates, .. } if is_others(rates.len()) => RUNGS[*other],
            _ => self.settled(),
        }
    }

    /// The most that may be in flight while what is under way is.
    pub(crate) fn most(&self) -> u32 {
        match &self.work {
            TrialState::Trial { other, .. } => self.settled().max(RUNGS[*other]),
            _ => self.settled(),
        }
    }

    /// A request failed: what was measured of this turn tells nothing.
    pub(crate) fn failed(&mut self) {
        self.turn = ThroughputMeter::default();
    }

    /// The collector is busy. If that is with more in flight than before, they are too many.
    pub(crate) fn busy(&mut self, now: Instant) {
        self.turn = ThroughputMeter::default();
        if let TrialState::Trial { other, rates, busy } = &mut self.work {
            busy[usize::from(is_others(rates.len()))] += 1;
            if *other > self.rung && busy[1] >= busy[0] + BUSY_TOO_MUCH {
                self.rest(now);
            }
        }
    }

    /// Takes note of an answer; says what changes for good by it.
    pub(crate) fn answered(&mut self, answer: AnswerSample) -> Option<ConcurrencyChange> {
        if let TrialState::Rest(until) = self.work {
            if until.is_some_and(|until| answer.now < until) {
                return None;
            }
            self.begin_trial();
        }
        let length = TURN_MIN + TURN_MIN * LONGER[self.turns % LONGER.len()] / 8;
        let length = length * self.patience;
        let measured = self.turn.add(&answer, length)?;
        self.turn = ThroughputMeter::default();
        self.turns += 1;
        let TrialState::Trial { other, rates, .. } = &mut self.work else {
            return None;
        };
        // With the higher number there may be nothing left to send. If there is not with the lower
        // one, both tell nothing.
        let is_lower = is_others(rates.len()) == (*other < self.rung);
        if is_lower && !measured.wanted {
            if self.rung == TOP {
                self.rest(answer.now);
            } else {
                // With a higher one to compare, the lower is this one, and nothing alternates.
                self.up = true;
                self.begin_trial();
            }
            return None;
        }
        rates.push(measured.rate);
        self.judge(answer.now)
    }

    fn judge(&mut self, now: Instant) -> Option<ConcurrencyChange> {
        let TrialState::Trial { other, rates, .. } = &self.work else {
            return None;
        };
        let (from, other) = (self.rung, *other);
        let mut gains = gains(rates, other > from)?;
        let (verdict, gain) = match self.leap {
            Some(_) => leaped(&mut gains)?,
            None => {
                let (verdict, gain) = compare(&mut gains)?;
                let moves = match verdict {
                    TrialVerdict::Higher => other > from,
                    TrialVerdict::Lower => other < from,
                    TrialVerdict::Unsure => false,
                };
                let wanted = PAIRS[1 + usize::from(self.rested)];
                if moves && gains.len() < wanted {
                    return None;
                }
                (verdict, gain)
            }
        };
        self.decide(other, verdict, gain, now);
        (from != self.rung).then(|| ConcurrencyChange {
            from: RUNGS[from],
            to: RUNGS[self.rung],
            gain: gain.exp() - 1.0,
        })
    }

    /// Moves to the rung that was tried, or looks elsewhere, or rests.
    fn decide(&mut self, other: usize, verdict: TrialVerdict, gain: f64, now: Instant) {
        let better = match verdict {
            TrialVerdict::Higher => self.rung.max(other),
            TrialVerdict::Lower => self.rung.min(other),
            TrialVerdict::Unsure if self.patience < PATIENCE_MAX => {
                self.patience *= 2;
                return self.begin_trial();
            }
            TrialVerdict::Unsure => self.rung,
        };
        if let Some(times) = self.leap.take() {
            self.rung = better;
            self.leap = match better == other {
                true => Some(2),
                false => (times == 2 && gain >= -LOSS_LEVEL_MAX).then_some(4),
            };
            self.leap.take_if(|_| self.rung == TOP);
            // After leaps half as many more at most; single ones bring too little to be seen.
            self.taken = STRIDE_MAX;
            return self.begin_trial();
        }
        if !matches!(verdict, TrialVerdict::Unsure) {
            self.patience = (self.patience / 2).max(1);
        }
        if better == other {
            self.rung = other;
            (self.taken, self.in_vain) = (self.taken + 1, 0);
            (self.rest, self.rested) = (REST[0], false);
            return self.begin_trial();
        }
        // A step that was too long says nothing about a short one.
        if std::mem::take(&mut self.taken) < 2 {
            self.up = !self.up;
            self.in_vain += 1;
        }
        if self.in_vain < 2 {
            return self.begin_trial();
        }
        self.rest(now);
    }

    fn rest(&mut self, now: Instant) {
        (self.in_vain, self.taken) = (0, 0);
        (self.rested, self.leap) = (true, None);
        self.work = TrialState::Rest(Some(now + self.rest));
        self.rest = (self.rest * 2).min(REST[1]);
    }

    fn begin_trial(&mut self) {
        self.up = self.rung == 0 || self.up && self.rung < TOP;
        let reach = |stride: usize| match self.up {
            true => (self.rung + stride).min(TOP),
            false => self.rung.saturating_sub(stride),
        };
        let is_near = |rung: usize| {
            let (lower, higher) = (self.rung.min(rung), self.rung.max(rung));
            f64::from(RUNGS[higher]) <= STRIDE_RATIO_MAX * f64::from(RUNGS[lower])
        };
        let far = (2..=self.taken.min(STRIDE_MAX))
            .rev()
            .map(reach)
            .find(|rung| is_near(*rung));
        let times_as_many = |times| RUNGS.iter().position(|n| *n >= times * RUNGS[self.rung]);
        let other = match self.leap {
            Some(times) => times_as_many(times).unwrap_or(TOP),
            None => far.unwrap_or_else(|| reach(1)),
        };
        let rates = Vec::with_capacity(2 * PAIRS[2]);
        let busy = [0; 2];
        self.work = TrialState::Trial { other, rates, busy };
    }
}

/// The measurement of one number.
#[derive(Default)]
struct ThroughputMeter {
    begun: Option<Instant>,
    /// Time of the first answer to a request that was sent since; it does not count itself.
    counted_from: Option<Instant>,
    answers: u32,
    wanted: u32,
    bytes: f64,
    took: Duration,
}

/// Result of a turn.
struct MeasuredThroughput {
    /// Bytes a second.
    rate: f64,
    /// True if there was more to send.
    wanted: bool,
}

impl ThroughputMeter {
    fn add(&mut self, answer: &AnswerSample, length: Duration) -> Option<MeasuredThroughput> {
        let begun = *self.begun.get_or_insert(answer.now);
        let Some(from) = self.counted_from else {
            let is_own = answer.now.duration_since(begun) >= answer.took;
            self.counted_from = is_own.then_some(answer.now);
            return None;
        };
        self.answers += 1;
        self.wanted += u32::from(answer.wanted);
        self.bytes += answer.bytes as f64;
        self.took += answer.took;
        let time = answer.now.duration_since(from);
        let enough = length.max(self.took / self.answers * TURN_ANSWERS_LONG);
        if time < enough || self.answers < ANSWERS_MIN {
            return None;
        }
        Some(MeasuredThroughput {
            rate: self.bytes / time.as_secs_f64(),
            wanted: f64::from(self.wanted) >= WANTED_MIN * f64::from(self.answers),
        })
    }
}

/// Verdict of a trial.
enum TrialVerdict {
    /// The higher number is worth it.
    Higher,
    /// It is not.
    Lower,
    /// Nobody knows.
    Unsure,
}

/// True if this turn, from 0, is that of the number that is tried: `AB BA BA AB …`.
fn is_others(turn: usize) -> bool {
    let swapped = (turn / 2).count_ones() % 2 == 1;
    (turn % 2 == 1) != swapped
}

/// Gain of the higher number in each pair of turns; `None` in the midst of one. `up`: it is the one
/// that is tried.
fn gains(rates: &[f64], up: bool) -> Option<Vec<f64>> {
    let gain = |(pair, rates): (usize, &[f64])| {
        let gain = (rates[1] / rates[0]).ln();
        if is_others(2 * pair + 1) == up {
            gain
        } else {
            -gain
        }
    };
    let is_even = rates.len().is_multiple_of(2);
    is_even.then(|| rates.chunks_exact(2).enumerate().map(gain).collect())
}

/// Verdict of up to six pairs on a leap, of two if they leave no doubt; `None` while another one is
/// wanted. What is not sure then is decided by the mean: it is the first look, and is looked at
/// again.
fn leaped(gains: &mut [f64]) -> Option<(TrialVerdict, f64)> {
    if gains.len() == 2 && gains.iter().all(|gain| *gain >= GAIN_DOUBLED_SURE) {
        return Some((TrialVerdict::Higher, (gains[0] + gains[1]) / 2.0));
    }
    if !PAIRS[..2].contains(&gains.len()) {
        return None;
    }
    let (gain, spread) = middle_half(gains);
    let verdict = match gain >= GAIN_DOUBLED_MIN {
        true => TrialVerdict::Higher,
        false => TrialVerdict::Lower,
    };
    let is_sure = (gain - GAIN_DOUBLED_MIN).abs() > spread;
    (is_sure || gains.len() == PAIRS[1]).then_some((verdict, gain))
}

/// The mean of the middle half, and about two standard errors of it.
fn middle_half(gains: &mut [f64]) -> (f64, f64) {
    let pairs = gains.len();
    gains.sort_unstable_by(f64::total_cmp);
    let middle = &gains[pairs / 4..pairs - pairs / 4];
    let gain = middle.iter().sum::<f64>() / middle.len() as f64;
    let spread = 2.0 * (middle[middle.len() - 1] - middle[0]) / (pairs as f64).sqrt();
    (gain, spread)
}

/// Verdict of the pairs, and the gain; `None` while more of them are wanted.
fn compare(gains: &mut [f64]) -> Option<(TrialVerdict, f64)> {
    let pairs = gains.len();
    if !PAIRS.contains(&pairs) {
        return None;
    }
    let (gain, spread) = middle_half(gains);
    let verdict = if gain - spread >= GAIN_MIN {
        TrialVerdict::Higher
    } else if gain + spread < GAIN_MIN {
        TrialVerdict::Lower
    } else if pairs == PAIRS[2] {
        TrialVerdict::Unsure
    } else {
        return None;
    };
    Some((verdict, gain))
}

#[cfg(test)]
#[path = "pace_tests.rs"]
mod tests;
