//! Buckets of times, and counts of one thread by them.

use crate::Record;

/// Upper bounds of the buckets, in seconds: from a request on the same host to a backlog of a day.
pub const HISTOGRAM_BOUNDS_S: [f64; 20] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
    120.0, 300.0, 600.0, 3600.0, 86_400.0,
];

/// Buckets: one for each bound, and one for what is longer.
pub(crate) const BUCKETS: usize = HISTOGRAM_BOUNDS_S.len() + 1;

/// The bounds in nanoseconds.
pub(crate) const BOUNDS_NS: [i64; HISTOGRAM_BOUNDS_S.len()] = {
    let (mut bounds, mut at) = ([0; HISTOGRAM_BOUNDS_S.len()], 0);
    while at < bounds.len() {
        bounds[at] = (HISTOGRAM_BOUNDS_S[at] * 1e9) as i64;
        at += 1;
    }
    bounds
};

/// The bucket of a time in nanoseconds: a bound belongs to the bucket below it.
pub(crate) fn bucket_of(ns: i64) -> usize {
    BOUNDS_NS.partition_point(|bound| *bound < ns)
}

/// Times that one thread counts, until they are added to a histogram.
#[derive(Clone, Copy, Default, Debug)]
pub struct TimeTally {
    pub(crate) counts: [u64; BUCKETS],
    /// Exact, however many times of whatever length.
    pub(crate) sum_ns: u128,
    /// The bucket of the last time, and its bounds: times of a batch are alike.
    last: usize,
    above: i64,
    upto: i64,
}

impl TimeTally {
    /// Counts one time, in nanoseconds.
    #[inline]
    pub fn note(&mut self, ns: i64) {
        self.note_all(ns, 1);
    }

    /// Counts the same time, in nanoseconds, of so many events.
    #[inline]
    pub fn note_all(&mut self, ns: i64, events: u64) {
        let ns = ns.max(0);
        if ns <= self.above || ns > self.upto {
            self.last = bucket_of(ns);
            let below = self.last.checked_sub(1);
            self.above = below.map_or(-1, |below| BOUNDS_NS[below]);
            self.upto = BOUNDS_NS.get(self.last).copied().unwrap_or(i64::MAX);
        }
        self.counts[self.last] += events;
        self.sum_ns += u128::from(ns.unsigned_abs()) * u128::from(events);
    }

    /// Counts the lag of an event at its receipt, if it has a time.
    #[inline]
    pub fn note_receipt(&mut self, record: &Record) {
        self.note_receipts(record, 1);
    }

    /// The same for so many events with the times of `record`.
    #[inline]
    pub fn note_receipts(&mut self, record: &Record, events: u64) {
        if record.event_time.is_some() {
            let lag = record.received.0.saturating_sub(record.event_time.0);
            self.note_all(lag, events);
        }
    }
}
