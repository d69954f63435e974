//! What the pace makes of single measurements; `limit_tests.rs` has it before made-up collectors.
#![allow(clippy::unwrap_used)]
use super::*;

#[test]
fn rungs_are_a_fifth_or_one_apart() {
    for pair in RUNGS.windows(2) {
        assert!(pair[1] - pair[0] <= (pair[0] / 5).max(1), "{pair:?}");
    }
}

#[test]
fn who_does_not_use_all_of_them_gets_no_more() {
    let mut pace = ConcurrencyController::new();
    let mut now = Instant::now();
    for _ in 0..10_000 {
        now += Duration::from_millis(10);
        let answer = AnswerSample {
            now,
            took: Duration::from_millis(40),
            bytes: 1_000_000,
            wanted: false,
        };
        assert_eq!(pace.answered(answer), None);
        assert_eq!(pace.allowed(), 2);
    }
}

#[test]
fn the_two_take_turns_so_that_a_period_says_nothing() {
    // Turns that are good and bad by ones, twos, threes and fours.
    for period in [1, 2, 3, 4] {
        let is_good = |turn| turn / period % 2 == 0;
        let rates: Vec<f64> = (0..2 * PAIRS[2])
            .map(|turn| if is_good(turn) { 4.0 } else { 1.0 })
            .collect();
        let (verdict, gain) = compare(&mut gains(&rates, true).unwrap()).unwrap();
        let is_unsure = matches!(verdict, TrialVerdict::Unsure);
        assert!(is_unsure || gain.abs() < GAIN_MIN, "{period}: {gain}");
    }
}

#[test]
fn one_turn_that_is_off_says_nothing() {
    for (gain, higher) in [(1.06, true), (1.0, false)] {
        let mut rates: Vec<f64> = (0..2 * PAIRS[1])
            .map(|turn| if is_others(turn) { gain } else { 1.0 })
            .collect();
        rates[3] *= if higher { 0.2 } else { 5.0 };
        let Some((verdict, _)) = compare(&mut gains(&rates, true).unwrap()) else {
            panic!("it is sure")
        };
        assert_eq!(matches!(verdict, TrialVerdict::Higher), higher);
    }
}

/// The number that is settled on after half a minute, where `rate` says how many requests a second
/// are taken with so many in flight.
fn found(rate: impl Fn(u32) -> f64) -> u32 {
    let mut pace = ConcurrencyController::new();
    let begun = Instant::now();
    let mut now = begun;
    while now < begun + Duration::from_secs(30) {
        let in_flight = pace.allowed();
        now += Duration::from_secs_f64(1.0 / rate(in_flight));
        let answer = AnswerSample {
            now,
            took: Duration::from_secs_f64(f64::from(in_flight) / rate(in_flight)),
            bytes: 1_000_000,
            wanted: true,
        };
        pace.answered(answer);
    }
    pace.settled()
}

#[test]
fn it_looks_beyond_a_level_stretch_and_not_over_an_edge() {
    let in_proportion = |n: u32| 50.0 * f64::from(n.min(16));
    let level = found(|n| in_proportion(n) * if n >= 64 { 1.1 } else { 1.0 });
    assert!((57..=MOST).contains(&level), "{level}");
    let edge = found(|n| in_proportion(n) * if n > 16 { 0.9 } else { 1.0 });
    assert!((14..=16).contains(&edge), "{edge}");
}
