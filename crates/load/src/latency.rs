//! Times in microseconds: a histogram of them, and its quantiles.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Decimal digits of precision of the quantiles.
const PRECISION: u8 = 3;

/// Quantiles of times, in microseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// Times that were noted.
    pub count: u64,
    /// Half of them took no longer.
    pub p50_us: u64,
    /// 90 % took no longer.
    pub p90_us: u64,
    /// 99 % took no longer.
    pub p99_us: u64,
    /// 99.9 % took no longer.
    pub p999_us: u64,
    /// The slowest.
    pub max_us: u64,
}

/// Histogram of times. It grows with the longest: a clamped one would pass for one of 2 µs.
#[derive(Clone, Debug)]
pub(crate) struct LatencyHistogram(Histogram<u64>);

impl Default for LatencyHistogram {
    fn default() -> Self {
        let histogram = Histogram::new(PRECISION);
        Self(histogram.unwrap_or_else(|_| unreachable!("the precision is between 0 and 5")))
    }
}

impl LatencyHistogram {
    /// Notes a time in microseconds.
    pub(crate) fn note(&mut self, microseconds: u64) {
        // It grows by itself, up to all times that 64 bits can say.
        let _ = self.0.record(microseconds);
    }

    /// Adds the times of another.
    pub(crate) fn add(&mut self, other: &Self) {
        // It grows by itself, and both have the same precision.
        let _ = self.0.add(&other.0);
    }

    /// The quantiles.
    pub(crate) fn latency(&self) -> Latency {
        let histogram = &self.0;
        Latency {
            count: histogram.len(),
            p50_us: histogram.value_at_quantile(0.5),
            p90_us: histogram.value_at_quantile(0.9),
            p99_us: histogram.value_at_quantile(0.99),
            p999_us: histogram.value_at_quantile(0.999),
            max_us: histogram.max(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_any_length_keep_three_digits() {
        let mut times = LatencyHistogram::default();
        let mut other = LatencyHistogram::default();
        times.note(1_500);
        times.note(2_000_000);
        other.note(u64::MAX / 2);
        times.add(&other);
        let latency = times.latency();
        let near = |found: u64, wanted: u64| found.abs_diff(wanted) <= wanted / 1000;
        assert_eq!(latency.count, 3);
        assert!(near(latency.p50_us, 2_000_000), "{latency:?}");
        assert!(near(latency.max_us, u64::MAX / 2), "{latency:?}");
    }
}
