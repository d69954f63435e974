//! Request of a search, and the time span and bars of its answer.

use std::time::Duration;

use inrush_query::Query;
use inrush_query::ast::QueryStage;
use inrush_store::snapshot::Snapshot;

/// Rows and events of an answer at most.
pub const ROWS_MAX: u64 = 1_000_000;
/// Events of an answer, unless something else is asked for.
pub const EVENTS_DEFAULT: u64 = 200;
/// Rows of a table, unless something else is asked for: a table that is cut misleads.
pub const ROWS_DEFAULT: u64 = 10_000;
/// Bars of a histogram at most.
pub const BUCKETS_MAX: u32 = 1000;

/// Bars come in these widths, in milliseconds: a person can read them.
const WIDTHS_MS: [u64; 26] = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000,
    300_000, 600_000, 900_000, 1_800_000, 3_600_000, 10_800_000, 21_600_000, 43_200_000,
    86_400_000,
];

/// Nanoseconds that an event is ahead at least to be counted as one of the future: clocks differ by
/// less all the time.
pub(crate) const FUTURE_NS: i64 = 2_000_000_000;

/// Nanoseconds that clocks of senders are ahead at most, if they are right at all.
const AHEAD_MAX_NS: i64 = 3_600_000_000_000;

/// A question in the query language.
#[derive(Debug, Clone)]
pub struct SearchRequest {
    /// As it was typed.
    pub query: String,
    /// The earliest time, in nanoseconds since 1970; [`i64::MIN`] for no bound.
    pub from_ns: i64,
    /// The time before which all lie; [`i64::MAX`] for no bound.
    pub to_ns: i64,
    /// Events or rows that are shown at most; [`ROWS_MAX`] bounds it. None for
    /// [`EVENTS_DEFAULT`] events, or [`ROWS_DEFAULT`] rows of a table.
    pub limit: Option<u64>,
    /// Bars of the histogram at most; 0 for none. [`BUCKETS_MAX`] bounds it.
    pub buckets: u32,
    /// True if the fields of the found events are summed up.
    pub fields: bool,
    /// True if the range ends when the search begins, whatever `to_ns` is, and the events that
    /// are dated later are counted as well.
    pub future: bool,
    /// Less time than [`SearchOptions::time_max`](crate::SearchOptions).
    pub time_max: Option<Duration>,
}

impl SearchRequest {
    /// A question without bounds of time, which shows [`EVENTS_DEFAULT`] events, their histogram
    /// and fields.
    pub fn new(query: impl Into<String>) -> Self {
        Self {
            query: query.into(),
            from_ns: i64::MIN,
            to_ns: i64::MAX,
            limit: None,
            buckets: 60,
            fields: true,
            future: false,
            time_max: None,
        }
    }

    /// Events or rows that are shown at most, for the query that was read of this request.
    pub fn limit_of(&self, query: &Query) -> u64 {
        let usual = match query.stages.first() {
            Some(QueryStage::Aggregate(_) | QueryStage::Top { .. }) => ROWS_DEFAULT,
            _ => EVENTS_DEFAULT,
        };
        self.limit.unwrap_or(usual).min(ROWS_MAX)
    }
}

/// The range of time that an answer speaks of, and the width of its bars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct HistogramSpan {
    pub(crate) from_ms: i64,
    pub(crate) to_ms: i64,
    /// 0 for no bars.
    pub(crate) bucket_ms: u64,
    pub(crate) buckets: usize,
}

impl HistogramSpan {
    /// Span of a request. The first and the last event of the store bound it where the request does
    /// not. One sender's clock that is far ahead does not stretch the bars for all. Events later
    /// than `now_ns` by more than [`AHEAD_MAX_NS`] are in the last bar.
    pub(crate) fn of(request: &SearchRequest, snapshot: &Snapshot, now_ns: i64) -> Self {
        let (first, last) = bounds(snapshot);
        let last = last.min(now_ns.saturating_add(AHEAD_MAX_NS)).max(first);
        let from_ns = if request.from_ns == i64::MIN {
            first
        } else {
            request.from_ns
        };
        let to_ns = if request.to_ns == i64::MAX {
            last.saturating_add(1)
        } else {
            request.to_ns
        };
        let from_ms = from_ns.div_euclid(1_000_000);
        let to_ms = to_ns.div_euclid(1_000_000) + i64::from(to_ns.rem_euclid(1_000_000) > 0);
        let to_ms = to_ms.max(from_ms);
        let mut span = Self {
            from_ms,
            to_ms,
            bucket_ms: 0,
            buckets: 0,
        };
        if request.buckets > 0 {
            span.choose_width(u64::from(request.buckets.min(BUCKETS_MAX)));
        }
        span
    }

    fn choose_width(&mut self, buckets_max: u64) {
        let days = (0..).map(|power| 86_400_000_u64 << power).take(32);
        let fits = |width: &u64| self.bars(*width) <= buckets_max;
        let mut widths = WIDTHS_MS.into_iter().chain(days);
        self.bucket_ms = widths.find(fits).unwrap_or(u64::MAX >> 1);
        self.buckets = usize::try_from(self.bars(self.bucket_ms)).unwrap_or(0);
    }

    /// Bars of this width that the span touches.
    fn bars(&self, width: u64) -> u64 {
        let width = i64::try_from(width).unwrap_or(i64::MAX);
        let first = self.from_ms.div_euclid(width);
        let last = (self.to_ms - 1).max(self.from_ms).div_euclid(width);
        (last - first).unsigned_abs() + 1
    }

    /// Beginning of the first bar, in milliseconds since 1970: a multiple of their width.
    pub(crate) fn first_ms(&self) -> i64 {
        let width = i64::try_from(self.bucket_ms.max(1)).unwrap_or(i64::MAX);
        self.from_ms.div_euclid(width).saturating_mul(width)
    }

    /// The bar of a time; the first or the last for what lies outside.
    pub(crate) fn bar(&self, time_ns: i64) -> usize {
        let ms = time_ns.div_euclid(1_000_000);
        let width = self.bucket_ms.max(1);
        let after = ms.saturating_sub(self.first_ms()).max(0).unsigned_abs();
        let bar = usize::try_from(after / width).unwrap_or(usize::MAX);
        bar.min(self.buckets.saturating_sub(1))
    }
}

/// The first and the last time in the store; now where there is none.
fn bounds(snapshot: &Snapshot) -> (i64, i64) {
    let files = snapshot
        .files
        .iter()
        .map(|file| (file.entry.from_ns, file.entry.to_ns));
    let tail = snapshot.tail.iter().map(|c| (c.from_ns, c.to_ns));
    let far = snapshot.far.iter().map(|c| (c.from_ns, c.to_ns));
    files
        .chain(tail)
        .chain(far)
        .reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
        .unwrap_or((0, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from_ms: i64, to_ms: i64, buckets: u64) -> HistogramSpan {
        let mut span = HistogramSpan {
            from_ms,
            to_ms,
            bucket_ms: 0,
            buckets: 0,
        };
        span.choose_width(buckets);
        span
    }

    #[test]
    fn bars_have_widths_that_people_can_read() {
        let cases = [
            (0, 900_000, 60, 15_000, 60),
            (7_000, 907_000, 60, 30_000, 31),
            (0, 86_400_000, 60, 1_800_000, 48),
            (0, 0, 60, 1, 1),
            (
                i64::MIN / 1_000_000,
                i64::MAX / 1_000_000,
                60,
                86_400_000 << 12,
                54,
            ),
        ];
        for (from, to, buckets, width, bars) in cases {
            let span = span(from, to, buckets);
            assert_eq!((span.bucket_ms, span.buckets), (width, bars), "{from} {to}");
        }
    }

    #[test]
    fn a_time_is_in_the_bar_that_begins_at_it_or_before() {
        let span = span(7_000, 907_000, 60);
        assert_eq!(span.first_ms(), 0);
        let cases = [
            (0, 0),
            (29_999_999_999, 0),
            (30_000_000_000, 1),
            (i64::MAX, 30),
            (i64::MIN, 0),
        ];
        for (ns, bar) in cases {
            assert_eq!(span.bar(ns), bar, "{ns}");
        }
    }
}
