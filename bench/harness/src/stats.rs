//! The arithmetic of the tables: medians, scaling to the reference state, verdicts.

use serde::{Deserialize, Serialize};

/// CPU-µs per message of the bare TCP loop (10 connections, 800 B, 1 MiB reads, newline scan,
/// discard) in the state of the host for which every limit in µs is written.
pub const REFERENCE_US: f64 = 0.155;

/// A median with the range it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub n: usize,
}

impl Spread {
    /// As tables have it.
    pub fn text(&self) -> String {
        format!(
            "{:.3} ({:.3}–{:.3}, {})",
            self.median, self.min, self.max, self.n
        )
    }

    /// The spread of `values`; nothing if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        Some(Self {
            median: median_of_sorted(&sorted),
            min,
            max,
            n: sorted.len(),
        })
    }
}

fn median_of_sorted(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        (sorted[middle - 1] + sorted[middle]) / 2.0
    }
}

/// The median of `values`; nothing if there are none.
pub fn median(values: &[f64]) -> Option<f64> {
    Spread::of(values).map(|spread| spread.median)
}

/// Ratio of `raw` to the CPU time of the bare runs beside it.
pub fn bare_ratio(raw: f64, bare_beside: &[f64]) -> Option<f64> {
    let bare = median(bare_beside)?;
    (bare > 0.0).then(|| raw / bare)
}

/// `raw` scaled to the reference state, by the bare TCP runs beside it.
pub fn scaled(raw: f64, bare_beside: &[f64]) -> Option<f64> {
    bare_ratio(raw, bare_beside).map(|ratio| ratio * REFERENCE_US)
}

/// CPU-µs per event; nothing if no event arrived.
pub fn per_event(cpu_us: f64, events: u64) -> Option<f64> {
    (events > 0).then(|| cpu_us / events as f64)
}

/// Those of `items` that count: the clean ones, or all where none is clean.
pub fn clean_or_all<T>(items: &[T], noisy: impl Fn(&T) -> bool) -> Vec<&T> {
    let clean: Vec<&T> = items.iter().filter(|item| !noisy(item)).collect();
    if clean.is_empty() {
        items.iter().collect()
    } else {
        clean
    }
}

/// Growth from the level of the second quarter of `series` to that of the last, as a part of the
/// former: the measure of "flat". The first quarter is left for warming up.
pub fn growth(series: &[f64]) -> Option<f64> {
    let quarter = series.len() / 4;
    let second = median(series.get(quarter..2 * quarter)?)?;
    let last = median(series.get(series.len() - quarter..)?)?;
    (second > 0.0).then(|| last / second - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_the_two_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn a_spread_keeps_its_ends() {
        let spread = Spread::of(&[0.4, 0.2, 0.9]);
        assert_eq!(
            spread,
            Some(Spread {
                median: 0.4,
                min: 0.2,
                max: 0.9,
                n: 3
            })
        );
    }

    #[test]
    fn on_a_host_half_as_fast_a_figure_is_halved() {
        let at_half_speed = scaled(0.8, &[0.310, 0.310]);
        assert!(
            at_half_speed.is_some_and(|us| (us - 0.4).abs() < 1e-9),
            "{at_half_speed:?}"
        );
        let at_reference = scaled(0.8, &[REFERENCE_US]);
        assert!(
            at_reference.is_some_and(|us| (us - 0.8).abs() < 1e-9),
            "{at_reference:?}"
        );
    }

    #[test]
    fn nothing_is_scaled_without_a_bare_run() {
        assert_eq!(scaled(0.8, &[]), None);
        assert_eq!(scaled(0.8, &[0.0]), None);
    }

    #[test]
    fn no_events_have_no_price() {
        assert_eq!(per_event(10.0, 0), None);
        assert_eq!(per_event(10.0, 20), Some(0.5));
    }

    #[test]
    fn noisy_runs_count_only_where_there_is_no_other() {
        assert_eq!(clean_or_all(&[1, 20, 3], |n| *n > 12), vec![&1, &3]);
        assert_eq!(clean_or_all(&[13, 20], |n| *n > 12), vec![&13, &20]);
    }

    #[test]
    fn growth_compares_the_last_quarter_with_the_second() {
        let warming_then_flat = [1.0, 2.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0];
        assert_eq!(growth(&warming_then_flat), Some(0.0));
        let leaking: Vec<f64> = (0..400).map(|second| 100.0 + f64::from(second)).collect();
        assert!(growth(&leaking).is_some_and(|part| part > 0.5));
        assert_eq!(growth(&[1.0, 2.0]), None);
    }
}
