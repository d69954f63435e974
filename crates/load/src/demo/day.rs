//! Rate of the demo over time, as pure functions of the seconds since the start.

/// Seconds in which the demo goes through the ups and downs of a working day: long enough to look
/// like one, short enough to be seen whole in a few minutes.
const DAY_S: f64 = 300.0;

/// The share of the rate between bursts in the quietest minute; the busiest has as much above.
const QUIET: f64 = 0.35;

/// Seconds from one burst to the next, and how long it takes.
const BURST_EVERY_S: f64 = 47.0;
const BURST_S: f64 = 5.0;

/// Rate that a burst adds, as a multiple of the mean rate.
const BURST: f64 = 2.2;

/// Seconds from the end of one silence of a host to the end of the next, and how many of them it
/// talks.
const SILENCE_EVERY_S: f64 = 180.0;
const TALKS_S: f64 = 60.0;

/// Share of the mean rate that bursts leave to all other times.
const REST: f64 = 1.0 - BURST * BURST_S / BURST_EVERY_S;

/// Messages a second without bursts, as a multiple of the mean rate: a day, with the unrest of
/// minutes on it.
pub(super) fn level(t: f64) -> f64 {
    let wave = |period: f64| (t * std::f64::consts::TAU / period).sin();
    // It begins in the middle and rises.
    let unrest = 0.8 * wave(DAY_S) + 0.13 * wave(23.0) + 0.07 * wave(7.3);
    REST * (1.0 + (1.0 - QUIET) * unrest)
}

/// Index of the burst that is going on, counted from 0, if one is.
pub(super) fn burst(t: f64) -> Option<usize> {
    let n = (t / BURST_EVERY_S).floor();
    let since = t - n * BURST_EVERY_S;
    // Each comes at the end of its time, so that none comes at once.
    (since >= BURST_EVERY_S - BURST_S).then_some(n as usize)
}

/// Rate that the burst going on adds, as a multiple of the mean rate.
pub(super) fn extra(t: f64) -> f64 {
    burst(t).map_or(0.0, |_| BURST)
}

/// True if a host that falls silent is silent now.
pub(super) fn is_silent(t: f64) -> bool {
    t.rem_euclid(SILENCE_EVERY_S) >= TALKS_S
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(until: u32) -> impl Iterator<Item = f64> {
        (0..until * 10).map(|tenth| f64::from(tenth) / 10.0)
    }

    #[test]
    fn a_day_is_uneven_and_its_mean_is_what_was_asked_for() {
        let day: Vec<f64> = seconds(DAY_S as u32).map(level).collect();
        let days = 20 * DAY_S as u32;
        let sum: f64 = seconds(days).map(|t| level(t) + extra(t)).sum();
        let mean = sum / f64::from(10 * days);
        assert!((0.98..1.02).contains(&mean), "{mean}");
        let (least, most) = day.iter().fold((9.0, 0.0), |(least, most), value| {
            (f64::min(least, *value), f64::max(most, *value))
        });
        assert!((REST * QUIET - 0.01..0.4).contains(&least), "{least}");
        assert!((1.1..REST * (2.0 - QUIET) + 0.01).contains(&most), "{most}");
    }

    #[test]
    fn bursts_come_again_and_again_and_are_numbered() {
        assert_eq!(burst(0.0), None, "not at once");
        let seen: Vec<usize> = seconds(200).filter_map(burst).collect();
        assert_eq!((seen.first(), seen.last()), (Some(&0), Some(&3)));
        assert!(seen.is_sorted());
        let share = seen.len() as f64 / 2000.0;
        assert!((0.09..0.12).contains(&share), "{share}");
        assert_eq!((extra(0.0), extra(BURST_EVERY_S - 1.0)), (0.0, BURST));
    }

    #[test]
    fn a_silence_begins_after_a_while_and_ends() {
        let changes: Vec<(u32, bool)> = (0..400u32)
            .map(|t| (t, is_silent(t.into())))
            .filter(|(t, now)| *t > 0 && is_silent(f64::from(t - 1)) != *now)
            .collect();
        assert_eq!(
            changes,
            [(60, true), (180, false), (240, true), (360, false)]
        );
    }
}
