//! Times of the events of a batch: the earliest, the latest and their sum, taken while the rows are
//! in the cache.

use std::sync::Arc;

use crate::{ClassInfo, Record, Timestamp};

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

/// Bytes of all raw records, and the times of the events.
pub(crate) fn sums_of(records: &[Record], classes: &[Arc<ClassInfo>]) -> (u64, BatchTimes) {
    let times = BatchTimes {
        oldest: i64::MAX,
        newest: i64::MIN,
        sum: 0,
    };
    let by_receipt = classes.iter().any(|class| class.received_time);
    records.iter().fold((0, times), |(bytes, times), record| {
        let at = match by_receipt {
            true => time(record, classes).0,
            false => record.time().0,
        };
        let times = BatchTimes {
            oldest: times.oldest.min(at),
            newest: times.newest.max(at),
            sum: times.sum + i128::from(at),
        };
        (bytes + u64::from(record.raw.len), times)
    })
}

/// Time at which a record counts as having happened: by the sender's clock, or by ours.
pub(crate) fn time(record: &Record, classes: &[Arc<ClassInfo>]) -> Timestamp {
    match classes.get(usize::from(record.class.0).wrapping_sub(1)) {
        Some(class) if class.received_time => record.received,
        _ => record.time(),
    }
}
