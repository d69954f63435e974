//! The pace against made-up collectors, on a made-up clock.
#![allow(clippy::unwrap_used)]

use std::collections::BinaryHeap;

use proptest::prelude::*;

use super::*;

/// A collector that answers after `delay`, and works on one request after the other for `work`.
#[derive(Clone, Copy, Debug)]
struct Collector {
    delay: Duration,
    work: Duration,
}

impl Collector {
    fn of_ms(delay: f64, work: f64) -> Self {
        Self {
            delay: Duration::from_secs_f64(delay / 1000.0),
            work: Duration::from_secs_f64(work / 1000.0),
        }
    }

    /// Requests a second, at most, with so many in flight.
    fn rate(&self, in_flight: f64) -> f64 {
        let alone = (self.delay + self.work).as_secs_f64();
        (in_flight / alone).min(1.0 / self.work.as_secs_f64())
    }
}

/// A run: who is in flight is sent again as soon as it is answered, while there is room.
struct Run {
    pace: Pace,
    now: Instant,
    /// When the collector is through with all that it has.
    free: Instant,
    /// When answers come, and when their requests were sent; the next one on top.
    in_flight: BinaryHeap<std::cmp::Reverse<(Instant, Instant)>>,
}

impl Run {
    fn new(most: u32) -> Self {
        let now = Instant::now();
        Self {
            pace: Pace::new(most),
            now,
            free: now,
            in_flight: BinaryHeap::new(),
        }
    }

    /// Goes on for so long; returns the targets, and the number of answers.
    fn go(&mut self, time: Duration, collector: impl Fn(Duration) -> Collector) -> (Vec<f64>, u64) {
        let begun = self.now;
        let (mut targets, mut answers) = (Vec::new(), 0);
        while self.now < begun + time {
            while (self.in_flight.len() as f64) < self.pace.target() {
                let Collector { delay, work } = collector(self.now.duration_since(begun));
                self.free = self.free.max(self.now + delay / 2) + work;
                let answer = self.free + delay / 2;
                self.in_flight.push(std::cmp::Reverse((answer, self.now)));
            }
            let std::cmp::Reverse((at, sent)) = self.in_flight.pop().unwrap();
            self.now = at;
            self.pace.answered(at, at.duration_since(sent), true);
            answers += 1;
            targets.push(self.pace.target());
        }
        (targets, answers)
    }
}

const MINUTE: Duration = Duration::from_secs(60);

/// The part by which a target leaves the middle of its range.
fn swing(targets: &[f64]) -> f64 {
    let least = targets.iter().copied().fold(f64::INFINITY, f64::min);
    let most = targets.iter().copied().fold(0.0, f64::max);
    (most - least) / (most + least)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever the collector is like: within two minutes, 95 % of what it can take with 32 in
    /// flight, and from then on a target that stays.
    #[test]
    fn it_finds_what_a_collector_can_take(delay in 0.0..80.0f64, work in 1.0..20.0f64) {
        let collector = Collector::of_ms(delay, work);
        let mut run = Run::new(MOST);
        run.go(2 * MINUTE, |_| collector);
        let (targets, answers) = run.go(MINUTE, |_| collector);
        let rate = answers as f64 / MINUTE.as_secs_f64();
        let best = collector.rate(MOST.into());
        prop_assert!(rate >= 0.95 * best, "{rate} of {best}, with {:?}", targets.last());
        prop_assert!(swing(&targets) <= 0.2, "it swings by {}", swing(&targets));
    }

    /// A collector that is slow and fast by turns: what that does to the target stays small, and
    /// once the collector is steady again so is the target.
    #[test]
    fn a_collector_that_swings_does_not_swing_it(
        delay in 20.0..60.0f64,
        work in 2.0..6.0f64,
        slower in 1.5..3.0f64,
        half_ms in 100u64..2_000,
    ) {
        let steady = Collector::of_ms(delay, work);
        let slow = Collector::of_ms(delay * slower, work * slower);
        let half = Duration::from_millis(half_ms);
        let mut run = Run::new(MOST);
        let swinging = |since: Duration| match since.as_micros() / half.as_micros() % 2 {
            0 => steady,
            _ => slow,
        };
        run.go(5 * MINUTE, swinging);
        let (targets, _) = run.go(MINUTE, swinging);
        prop_assert!(swing(&targets) <= 0.2, "it swings by {}", swing(&targets));
        run.go(5 * MINUTE, |_| steady);
        let (targets, _) = run.go(MINUTE, |_| steady);
        prop_assert!(swing(&targets) <= 0.2, "it swings by {} afterwards", swing(&targets));
    }
}

#[test]
fn a_distant_collector_has_many_in_flight_within_seconds() {
    let mut run = Run::new(MOST);
    let (targets, _) = run.go(Duration::from_secs(3), |_| Collector::of_ms(50.0, 0.5));
    assert_eq!(targets.last(), Some(&32.0));
}

#[test]
fn a_near_collector_has_few() {
    let mut run = Run::new(MOST);
    let (targets, _) = run.go(MINUTE, |_| Collector::of_ms(0.1, 3.0));
    assert!(*targets.last().unwrap() <= 4.0, "{:?}", targets.last());
}

#[test]
fn who_does_not_use_all_of_them_gets_no_more() {
    let mut pace = Pace::new(MOST);
    let mut now = Instant::now();
    for _ in 0..1000 {
        now += Duration::from_millis(50);
        assert_eq!(pace.answered(now, Duration::from_millis(50), false), None);
    }
    assert_eq!(pace.target(), 4.0);
}
