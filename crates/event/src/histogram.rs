//! Histograms of times: counts by fixed bounds, shared by all threads.
//!
//! # What it guarantees
//! * An addition takes no lock and no memory. A batch is counted with one addition a bucket.
//! * Counts are exact. The sum is too, but for a part of a batch: that is reckoned by the mean of
//!   the batch, so it is exact once all parts were added.
//! * A time below zero (a clock that is ahead of ours) counts as zero.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;

use crate::time_tally::{BUCKETS, HISTOGRAM_BOUNDS_S, TimeTally, bucket_of};
use crate::{Batch, Timestamp};

/// A histogram of times.
#[derive(Default, Debug)]
pub struct Histogram {
    counts: [AtomicU64; BUCKETS],
    /// Sum in seconds, the bits of an `f64`.
    sum: AtomicU64,
}

impl Histogram {
    /// Counts one time, in nanoseconds.
    pub fn observe(&self, ns: i64) {
        let ns = ns.max(0);
        self.counts[bucket_of(ns)].fetch_add(1, Relaxed);
        self.add_sum(ns as f64);
    }

    /// Counts one time, in nanoseconds, for so many events.
    pub fn observe_many(&self, ns: i64, events: u64) {
        let ns = ns.max(0);
        self.counts[bucket_of(ns)].fetch_add(events, Relaxed);
        self.add_sum(ns as f64 * events as f64);
    }

    /// Counts all times of a tally.
    pub fn add(&self, tally: &TimeTally) {
        for (counter, n) in self.counts.iter().zip(tally.counts) {
            if n > 0 {
                counter.fetch_add(n, Relaxed);
            }
        }
        self.add_sum(tally.sum_ns as f64);
    }

    /// Counts the lags of a range of a batch at `now`: the time since each event happened.
    pub fn add_lags(&self, batch: &Batch, events: &Range<u32>, now: Timestamp) {
        let times = batch.times();
        let lag = |time: i64| now.0.saturating_sub(time);
        let (newest, oldest) = (lag(times.newest), lag(times.oldest));
        let bucket = bucket_of(oldest);
        if newest >= 0 && bucket == bucket_of(newest) {
            // The usual case: all of them are in one bucket, and no row is read again.
            self.counts[bucket].fetch_add(events.len() as u64, Relaxed);
            let all = batch.len() as i128 * i128::from(now.0) - times.sum;
            let share = events.len() as f64 / batch.len().max(1) as f64;
            return self.add_sum(all as f64 * share);
        }
        let range = events.start as usize..events.end as usize;
        let mut tally = TimeTally::default();
        for record in batch.records().get(range).unwrap_or_default() {
            tally.note(now.0.saturating_sub(batch.time(record).0));
        }
        self.add(&tally);
    }

    fn add_sum(&self, ns: f64) {
        let add = |bits| Some((f64::from_bits(bits) + ns / 1e9).to_bits());
        // It is never refused.
        let _ = self.sum.fetch_update(Relaxed, Relaxed, add);
    }

    /// Counts and sum at this moment.
    pub fn snapshot(&self) -> HistogramSnapshot {
        HistogramSnapshot {
            counts: std::array::from_fn(|bucket| self.counts[bucket].load(Relaxed)),
            sum_s: f64::from_bits(self.sum.load(Relaxed)),
        }
    }
}

/// A histogram at one moment.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct HistogramSnapshot {
    /// Times in each bucket: above the bound before, up to its own. The last one has no bound.
    counts: [u64; BUCKETS],
    /// Sum of all times, in seconds.
    pub sum_s: f64,
}

impl Default for HistogramSnapshot {
    fn default() -> Self {
        Self {
            counts: [0; BUCKETS],
            sum_s: 0.0,
        }
    }
}

impl HistogramSnapshot {
    /// Times in all buckets.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Times longer than a bound, in seconds, of [`HISTOGRAM_BOUNDS_S`].
    pub fn above(&self, bound_s: f64) -> u64 {
        let upto = HISTOGRAM_BOUNDS_S.partition_point(|bound| *bound <= bound_s);
        self.counts[upto..].iter().sum()
    }

    /// Counts by bucket, those of lower buckets not included. The last one has no upper bound.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Times that came since `before`, of the same histogram.
    pub fn since(&self, before: &Self) -> Self {
        let counts =
            std::array::from_fn(|bucket| self.counts[bucket].saturating_sub(before.counts[bucket]));
        let sum_s = (self.sum_s - before.sum_s).max(0.0);
        Self { counts, sum_s }
    }

    /// The time in seconds that a share of all times does not exceed, by the upper bound of its
    /// bucket; `None` without times. Beyond the last bound it is infinite.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let rank = (self.count() as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let bucket = self.counts.iter().position(|n| {
            seen += n;
            seen >= rank
        })?;
        let bound = HISTOGRAM_BOUNDS_S.get(bucket).copied();
        Some(bound.unwrap_or(f64::INFINITY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::tests::{push, source};
    use crate::time_tally::BOUNDS_NS;
    use crate::{BatchPool, limits};

    const MS: i64 = 1_000_000;

    /// A batch whose events happened at these times.
    fn batch(times: &[i64]) -> Batch {
        let mut builder = BatchPool::new().lend(&source(), limits::MESSAGE_BYTES_DEFAULT);
        for at in times {
            push(&mut builder, b"x");
            if let Some(record) = builder.records_mut().last_mut() {
                record.event_time = Timestamp(*at);
            }
        }
        builder.freeze(0)
    }

    #[test]
    fn a_bound_belongs_to_the_bucket_below_it() {
        assert_eq!([-5, 0, MS, MS + 1].map(bucket_of), [0, 0, 0, 1]);
        assert_eq!(bucket_of(i64::MAX), BUCKETS - 1);
        assert!(BOUNDS_NS.is_sorted() && BOUNDS_NS[19] == 86_400_000_000_000);
    }

    #[test]
    fn a_tally_counts_as_single_times_do() {
        let times = [
            3 * MS,
            4 * MS,
            700 * MS,
            -MS,
            0,
            2_000_000 * MS,
            i64::MAX,
            MS,
        ];
        let (single, together) = (Histogram::default(), Histogram::default());
        let mut tally = TimeTally::default();
        for ns in times {
            single.observe(ns);
            tally.note(ns);
        }
        together.add(&tally);
        assert_eq!(single.snapshot().counts, together.snapshot().counts);
        assert_eq!(single.snapshot().counts[0], 3);
        assert!((single.snapshot().sum_s - together.snapshot().sum_s).abs() < 1.0);
    }

    #[test]
    fn lags_are_counted_by_event_however_a_batch_is_cut() {
        const NOW: Timestamp = Timestamp(1_000_000 * MS);
        let ago = |ms: i64| NOW.0 - ms * MS;
        // Alike; spread over buckets; and one from the future.
        for times in [
            vec![ago(60), ago(70), ago(99), ago(80)],
            vec![ago(1), ago(60), ago(200_000_000), ago(3)],
            vec![ago(1), ago(-5000), ago(2), ago(60)],
        ] {
            let (batch, expected) = (batch(&times), Histogram::default());
            times.iter().for_each(|at| expected.observe(NOW.0 - at));
            for cut in 0..=4 {
                let histogram = Histogram::default();
                histogram.add_lags(&batch, &(0..cut), NOW);
                histogram.add_lags(&batch, &(cut..4), NOW);
                let (found, expected) = (histogram.snapshot(), expected.snapshot());
                assert_eq!(found.counts, expected.counts);
                assert!((found.sum_s - expected.sum_s).abs() < 0.01, "{found:?}");
            }
        }
    }

    #[test]
    fn a_quantile_is_the_bound_of_its_bucket() {
        let histogram = Histogram::default();
        assert_eq!(histogram.snapshot().quantile(0.5), None);
        (0..99).for_each(|_| histogram.observe(3 * MS));
        let before = histogram.snapshot();
        histogram.observe(400 * MS);
        let quantile = |share| histogram.snapshot().quantile(share);
        assert_eq!(quantile(0.99), Some(0.005));
        assert_eq!(quantile(1.0), Some(0.5));
        assert_eq!(histogram.snapshot().since(&before).quantile(0.5), Some(0.5));
        assert_eq!(
            (before.above(0.0025), histogram.snapshot().above(0.005)),
            (99, 1)
        );
    }
}
