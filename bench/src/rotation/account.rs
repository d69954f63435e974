//! Account of what arrived: which line of which writer, and how often.
//!
//! # What it guarantees
//! * Two bits a line: seen, and seen again. More is noted only of what arrived just before a kill.
//! * A line that comes twice is *in flight* if it came at most [`SETTLE`] before a kill, or after
//!   it from connections that outlived the process; every other one is a doubled line.
//!
//! # Limits
//! Numbers from [`NUMBER_MAX`] on, and writers beyond those it was made for, count as foreign.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

use super::line::ArrivedLine;

/// Time before a kill from which on what arrived may come again.
pub(crate) const SETTLE: Duration = Duration::from_millis(500);

/// Numbers of a writer's lines are below this one.
const NUMBER_MAX: u32 = 1 << 28;

/// Counts of arrivals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ArrivalCounts {
    /// Different lines.
    pub(crate) distinct: u64,
    /// Arrivals of a line that had come before, in flight at a kill.
    pub(crate) in_flight: u64,
    /// Other arrivals of a line that had come before.
    pub(crate) doubled: u64,
    /// Arrivals of a line that had come twice before.
    pub(crate) thrice: u64,
    /// Events that hold a part of a line, or a line with a part of another.
    pub(crate) torn: u64,
    /// Events that are none of ours.
    pub(crate) foreign: u64,
    /// Lines that came in one request behind a later one of the same writer.
    pub(crate) disordered: u64,
    /// Lines before which bytes of 0 came.
    pub(crate) after_holes: u64,
}

/// Lines of one writer: a bit each.
#[derive(Default)]
struct WriterArrivals {
    seen: Vec<u64>,
    again: Vec<u64>,
    /// Lines that were in flight at a kill.
    in_flight: Vec<Range<u32>>,
}

/// Arrivals of one request.
struct RecentArrivals {
    at: Instant,
    lines: Vec<(u32, Range<u32>)>,
}

/// The account.
pub(crate) struct ArrivalAccount {
    writers: Vec<WriterArrivals>,
    recent: VecDeque<RecentArrivals>,
    /// True from a kill until the next life.
    down: bool,
    counts: ArrivalCounts,
    lags: LagHistogram,
    /// Writers from this one on are asked for their lag.
    lag_from: u32,
}

impl ArrivalAccount {
    /// An empty account of so many writers.
    pub(crate) fn new(writers: u32, lag_from: u32) -> Self {
        Self {
            writers: (0..writers).map(|_| WriterArrivals::default()).collect(),
            recent: VecDeque::new(),
            down: false,
            counts: ArrivalCounts::default(),
            lags: LagHistogram::default(),
            lag_from,
        }
    }

    /// Counts so far.
    pub(crate) fn counts(&self) -> ArrivalCounts {
        self.counts
    }

    /// Times from writing to arrival.
    pub(crate) fn lags(&self) -> &LagHistogram {
        &self.lags
    }

    /// True if a line has come.
    pub(crate) fn has(&self, writer: u32, number: u32) -> bool {
        let writer = self.writers.get(writer as usize);
        writer.is_some_and(|one| bit(&one.seen, number))
    }

    /// Different lines of a writer from `number` on: none of them was written.
    pub(crate) fn beyond(&self, writer: u32, number: u32) -> u64 {
        let Some(one) = self.writers.get(writer as usize) else {
            return 0;
        };
        let numbers = number..(one.seen.len() * 64) as u32;
        numbers.filter(|number| bit(&one.seen, *number)).count() as u64
    }

    /// Takes the events of a request, each with what it was read as; `now_ns` since 1970.
    pub(crate) fn take(&mut self, events: &[Option<ArrivedLine>], at: Instant, now_ns: u64) {
        let mut last = BTreeMap::new();
        let mut lines = Vec::with_capacity(events.len());
        for event in events {
            let known = |line: &&ArrivedLine| {
                (line.line.writer as usize) < self.writers.len() && line.line.number < NUMBER_MAX
            };
            let Some(arrived) = event.as_ref().filter(known) else {
                self.counts.foreign += 1;
                continue;
            };
            if !arrived.whole {
                self.counts.torn += 1;
                continue;
            }
            let (writer, number) = (arrived.line.writer, arrived.line.number);
            if last
                .insert(writer, number)
                .is_some_and(|last| last > number)
            {
                self.counts.disordered += 1;
            }
            self.counts.after_holes += u64::from(arrived.after_hole);
            if writer >= self.lag_from {
                self.lags
                    .note(now_ns.saturating_sub(arrived.sent_ns) / 1000);
            }
            self.one(writer, number);
            lines.push((writer, number));
        }
        self.forget(at);
        lines.sort_unstable();
        let lines = ranges(&lines);
        self.recent.push_back(RecentArrivals { at, lines });
    }

    /// Notes that the collector is about to be killed.
    pub(crate) fn kill(&mut self, at: Instant) {
        self.forget(at);
        self.down = true;
    }

    /// Notes that it is about to be started again.
    pub(crate) fn start(&mut self) {
        for (writer, range) in self.recent.drain(..).flat_map(|one| one.lines) {
            if let Some(one) = self.writers.get_mut(writer as usize) {
                one.in_flight.push(range);
            }
        }
        self.down = false;
    }

    fn one(&mut self, writer: u32, number: u32) {
        let Some(one) = self.writers.get_mut(writer as usize) else {
            return;
        };
        if set(&mut one.seen, number) {
            self.counts.distinct += 1;
            return;
        }
        if !set(&mut one.again, number) {
            self.counts.thrice += 1;
        }
        match one.in_flight.iter().any(|range| range.contains(&number)) {
            true => self.counts.in_flight += 1,
            false => self.counts.doubled += 1,
        }
    }

    /// Forgets what came so long ago that no kill can have it sent again.
    fn forget(&mut self, now: Instant) {
        if self.down {
            return;
        }
        let settled = |one: &mut RecentArrivals| now.duration_since(one.at) > SETTLE;
        while self.recent.pop_front_if(settled).is_some() {}
    }
}

fn bit(bits: &[u64], number: u32) -> bool {
    let word = bits.get((number / 64) as usize);
    word.is_some_and(|word| word & (1 << (number % 64)) != 0)
}

/// Sets a bit; true if it was not set.
fn set(bits: &mut Vec<u64>, number: u32) -> bool {
    let new = !bit(bits, number);
    let word = (number / 64) as usize;
    if bits.len() <= word {
        bits.resize((word + 1).next_power_of_two(), 0);
    }
    bits[word] |= 1 << (number % 64);
    new
}

/// Sorted numbers as ranges.
fn ranges(lines: &[(u32, u32)]) -> Vec<(u32, Range<u32>)> {
    let mut all: Vec<(u32, Range<u32>)> = Vec::new();
    for (writer, number) in lines {
        match all.last_mut() {
            Some((last, range)) if last == writer && range.end >= *number => {
                range.end = number + 1;
            }
            _ => all.push((*writer, *number..number + 1)),
        }
    }
    all
}

/// Times in microseconds, in steps of an eighth of their power of two.
#[derive(Clone, Default)]
pub(crate) struct LagHistogram {
    counts: Vec<u64>,
}

/// Steps of a power of two.
const STEPS: u64 = 8;

impl LagHistogram {
    fn note(&mut self, us: u64) {
        let us = us.max(STEPS);
        let power = u64::from(us.ilog2());
        let index = (power * STEPS + (us >> (power - 3)) % STEPS) as usize;
        if self.counts.len() <= index {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += 1;
    }

    /// Number of times.
    pub(crate) fn samples(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Microseconds that so many of a thousand do not exceed; `None` of none.
    pub(crate) fn quantile_us(&self, of_thousand: u64) -> Option<f64> {
        let all = self.samples();
        let wanted = (all * of_thousand).div_ceil(1000).max(1);
        let mut sum = 0;
        let reaches = |count: &u64| {
            sum += count;
            sum >= wanted
        };
        let index = self.counts.iter().position(reaches)? as u64;
        let (power, step) = (index / STEPS, index % STEPS);
        Some(((STEPS + step + 1) << power >> 3) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::LineNumber;
    use super::*;

    fn line(writer: u32, number: u32) -> Option<ArrivedLine> {
        Some(ArrivedLine {
            line: LineNumber { writer, number },
            sent_ns: 0,
            whole: true,
            after_hole: false,
        })
    }

    fn took(account: &mut ArrivalAccount, numbers: &[u32], at: Instant) -> ArrivalCounts {
        let events: Vec<_> = numbers.iter().map(|number| line(0, *number)).collect();
        account.take(&events, at, 0);
        account.counts()
    }

    #[test]
    fn what_comes_twice_is_in_flight_only_if_it_came_just_before_a_kill() {
        let mut account = ArrivalAccount::new(1, 0);
        let begun = Instant::now();
        took(&mut account, &[0, 1], begun);
        let kill = begun + 3 * SETTLE;
        took(&mut account, &[2, 3], kill - SETTLE / 2);
        account.kill(kill);
        took(&mut account, &[4], kill + SETTLE * 4);
        account.start();
        let counts = took(&mut account, &[2, 4], kill + SETTLE * 5);
        assert_eq!((counts.in_flight, counts.doubled), (2, 0));
        let counts = took(&mut account, &[0], kill + SETTLE * 5);
        assert_eq!((counts.in_flight, counts.doubled), (2, 1));
        let counts = took(&mut account, &[2], kill + SETTLE * 5);
        assert_eq!((counts.distinct, counts.thrice), (5, 1));
    }

    #[test]
    fn what_is_torn_foreign_or_out_of_order_is_counted_and_not_taken() {
        let mut account = ArrivalAccount::new(1, 0);
        let mut torn = line(0, 7);
        torn.iter_mut().for_each(|line| line.whole = false);
        let events = [line(0, 5), torn, None, line(9, 1), line(0, 4)];
        account.take(&events, Instant::now(), 0);
        let counts = account.counts();
        assert_eq!((counts.torn, counts.foreign, counts.disordered), (1, 2, 1));
        assert!(account.has(0, 4) && !account.has(0, 7) && !account.has(9, 1));
        assert_eq!((account.beyond(0, 5), account.beyond(0, 6)), (1, 0));
    }

    #[test]
    fn numbers_in_a_row_are_one_range() {
        let lines = [(0, 1), (0, 2), (0, 2), (0, 4), (1, 5)];
        assert_eq!(ranges(&lines), [(0, 1..3), (0, 4..5), (1, 5..6)]);
    }

    #[test]
    fn a_quantile_is_at_most_an_eighth_too_high() {
        let mut lags = LagHistogram::default();
        (1..=1000).for_each(|ms| lags.note(ms * 1000));
        for of_thousand in [10, 500, 990] {
            let exact = of_thousand as f64 * 1000.0;
            let found = lags.quantile_us(of_thousand).unwrap_or_default();
            assert!((exact..=exact * 1.13).contains(&found), "{exact}: {found}");
        }
        assert_eq!(LagHistogram::default().quantile_us(990), None);
    }
}
