//! Times of the events of a batch: the earliest, the latest and their sum, taken while the rows are
//! in the cache.

use std::sync::Arc;

use crate::{ClassInfo, Record, TimeTally, Timestamp};

/// Times at which the events of a batch count as having happened, in nanoseconds since 1970
/// ([`Batch::time`](crate::Batch::time)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchTimes {
    /// The earliest.
    pub oldest: i64,
    /// The latest.
    pub newest: i64,
    /// The sum of all.
    pub sum: i128,
}

impl BatchTimes {
    /// The times of no event.
    const NONE: Self = Self {
        oldest: i64::MAX,
        newest: i64::MIN,
        sum: 0,
    };

    /// Adds so many events that happened at the same time.
    fn add(&mut self, Timestamp(at): Timestamp, events: u64) {
        self.oldest = self.oldest.min(at);
        self.newest = self.newest.max(at);
        self.sum += i128::from(at) * i128::from(events);
    }
}

/// Bytes of all raw records, and the times of the events. Counts in `lags` how old each was at its
/// receipt. Events that came together often have the same times, so runs of them are counted: an
/// event costs two comparisons and an addition.
pub(crate) fn sums_of(
    records: &[Record],
    classes: &[Arc<ClassInfo>],
    lags: &mut TimeTally,
) -> (u64, BatchTimes) {
    let (mut bytes, mut times) = (0, BatchTimes::NONE);
    let Some(mut first) = records.first() else {
        return (bytes, times);
    };
    let mut events = 0;
    let mut end_run = |first: &Record, events| {
        times.add(time(first, classes), events);
        lags.note_receipts(first, events);
    };
    for record in records {
        bytes += u64::from(record.raw.len);
        if !are_of_one_time(record, first) {
            end_run(first, events);
            (first, events) = (record, 0);
        }
        events += 1;
    }
    end_run(first, events);
    (bytes, times)
}

/// True if two records have the same times. A class can have its events stand at our clock.
#[inline]
fn are_of_one_time(one: &Record, other: &Record) -> bool {
    one.event_time == other.event_time && one.received == other.received && one.class == other.class
}

/// Time at which a record counts as having happened: by the sender's clock, or by ours.
pub(crate) fn time(record: &Record, classes: &[Arc<ClassInfo>]) -> Timestamp {
    match classes.get(usize::from(record.class.0).wrapping_sub(1)) {
        Some(class) if class.received_time => record.received,
        _ => record.time(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{ClassId, Histogram, Span};

    /// Times that a peer can send: alike, near to each other, and as far apart as they can be.
    fn times() -> impl Strategy<Value = Timestamp> {
        let second = 1_000_000_000;
        let some = [0, 1, second, 3 * second, i64::MAX, i64::MIN + 1, -second];
        let near = (0..4_i64).prop_map(move |n| n * second / 2);
        prop_oneof![
            Just(i64::MIN),
            prop::sample::select(some.to_vec()),
            near,
            any::<i64>()
        ]
        .prop_map(Timestamp)
    }

    fn records() -> impl Strategy<Value = Vec<Record>> {
        let run = (times(), times(), 0..4_u16, 0..9_u32, 1..5_usize);
        let runs = prop::collection::vec(run, 0..12);
        runs.prop_map(|runs| {
            let runs = runs.into_iter().flat_map(|(at, received, class, len, n)| {
                let raw = Span { start: 0, len };
                let mut record = Record::unparsed(raw, received, 0, crate::Anomalies::NONE);
                (record.event_time, record.class) = (at, ClassId(class));
                std::iter::repeat_n(record, n)
            });
            runs.collect()
        })
    }

    fn classes() -> Vec<Arc<ClassInfo>> {
        let class = |received_time| {
            Arc::new(ClassInfo {
                received_time,
                ..ClassInfo::default()
            })
        };
        vec![class(false), class(true), class(false)]
    }

    proptest! {
        #[test]
        fn runs_come_to_the_same_as_single_events(records in records()) {
            let classes = classes();
            let mut tally = TimeTally::default();
            let (bytes, found) = sums_of(&records, &classes, &mut tally);
            let at = |record: &Record| time(record, &classes).0;
            let expected = BatchTimes {
                oldest: records.iter().map(at).min().unwrap_or(i64::MAX),
                newest: records.iter().map(at).max().unwrap_or(i64::MIN),
                sum: records.iter().map(|record| i128::from(at(record))).sum(),
            };
            prop_assert_eq!(found, expected);
            prop_assert_eq!(bytes, records.iter().map(|one| u64::from(one.raw.len)).sum::<u64>());
            let (single, together) = (Histogram::default(), Histogram::default());
            let timed = records.iter().filter(|record| record.event_time.is_some());
            for record in timed {
                single.observe(record.received.0.saturating_sub(record.event_time.0));
            }
            together.add(&tally);
            let (single, together) = (single.snapshot(), together.snapshot());
            prop_assert_eq!(single.counts(), together.counts());
            prop_assert!((single.sum_s - together.sum_s).abs() <= single.sum_s * 1e-12);
        }
    }
}
