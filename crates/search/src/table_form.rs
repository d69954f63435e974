//! Form of a table of the query language: severities and facilities by their names, and the
//! stretches of time in which nothing happened, with a count of 0.
//!
//! Rows are added only if time is all that the table is grouped by, in the order of time, and if
//! all stretches of the range are no more than the rows that may be shown. Then a table has a row
//! for each stretch, so that no picture of it can pass over one.

use inrush_query::ast::{
    Aggregate, AggregateFunction, GroupKey, Query, QueryStage, SortColumn, Statistic,
};
use inrush_query::{EventColumn, QueryField};
use inrush_store::reply::{TableCell, TableHeader, TableRow};

use crate::request::HistogramSpan;

/// Nanoseconds of a millisecond.
const MS: i64 = 1_000_000;

/// Form of a table: which columns are codes, and which rows are missing.
#[derive(Debug, Default)]
pub(crate) struct TableForm {
    /// Columns of severities or facilities, by their number.
    codes: Vec<(usize, EventColumn)>,
    gaps: Option<GapFiller>,
}

/// Rows for stretches of time that have none.
#[derive(Debug)]
struct GapFiller {
    /// Number of the column of the time.
    time: usize,
    /// From one stretch to the next, in nanoseconds; negative if the latest comes first.
    step: i64,
    /// Beginning of the stretch that comes next; none before the first row of an open range.
    next: Option<i64>,
    /// Beginning of the last stretch; none in an open range.
    last: Option<i64>,
    /// A row of nothing.
    nothing: Vec<TableCell>,
    /// Stretches that are added between two rows at most.
    gap_max: i64,
}

impl TableForm {
    /// The form of a query's table within a range, which shows `limit` rows at most. `from_ns` and
    /// `to_ns` are [`i64::MIN`] and [`i64::MAX`] for no bound.
    pub(crate) fn of(query: &Query, range: (i64, i64), span: HistogramSpan, limit: u64) -> Self {
        match query.stages.first() {
            Some(QueryStage::Aggregate(table)) => Self {
                codes: codes(table.by.iter().map(field_of)),
                gaps: GapFiller::of(table, order(query), range, span, limit),
            },
            Some(QueryStage::Top { field, .. }) => Self {
                codes: codes([Some(field)].into_iter()),
                gaps: None,
            },
            _ => Self::default(),
        }
    }

    /// The columns in this form.
    pub(crate) fn header(&self, mut header: TableHeader) -> TableHeader {
        for (at, _) in &self.codes {
            if let Some(column) = header.columns.get_mut(*at) {
                column.kind = "text".to_owned();
            }
        }
        header
    }

    /// The row in this form, behind the rows that are missing before it.
    pub(crate) fn rows(&mut self, mut row: TableRow) -> Vec<TableRow> {
        for (at, column) in &self.codes {
            if let Some(cell) = row.values.get_mut(*at)
                && let TableCell::Unsigned(code) = cell
                && let Ok(code) = u8::try_from(*code)
            {
                *cell = TableCell::Text(column.code_name(code).to_owned());
            }
        }
        let mut rows = match &mut self.gaps {
            Some(gaps) => gaps.before(&row),
            None => Vec::new(),
        };
        rows.push(row);
        rows
    }

    /// The rows that are missing behind the last.
    pub(crate) fn rest(&mut self) -> Vec<TableRow> {
        self.gaps.as_mut().map_or_else(Vec::new, GapFiller::rest)
    }
}

fn codes<'a>(by: impl Iterator<Item = Option<&'a QueryField>>) -> Vec<(usize, EventColumn)> {
    let code = |(at, field): (usize, Option<&QueryField>)| match field? {
        QueryField::Column(column @ (EventColumn::Severity | EventColumn::Facility)) => {
            Some((at, *column))
        }
        _ => None,
    };
    by.enumerate().filter_map(code).collect()
}

const fn field_of(by: &GroupKey) -> Option<&QueryField> {
    match by {
        GroupKey::Field(field) => Some(field),
        GroupKey::Width(_) => None,
    }
}

/// Order of a table's rows in time: true if the latest comes first; none in another order.
fn order(query: &Query) -> Option<bool> {
    let keys = query.stages.iter().find_map(|stage| match stage {
        QueryStage::Sort(keys) => Some(keys.as_slice()),
        _ => None,
    });
    match keys {
        None => Some(false),
        Some([key, ..]) => (key.column == SortColumn::Bucket).then_some(key.descending),
        Some([]) => None,
    }
}

impl GapFiller {
    fn of(
        table: &Aggregate,
        descending: Option<bool>,
        (from_ns, to_ns): (i64, i64),
        span: HistogramSpan,
        limit: u64,
    ) -> Option<Self> {
        let [GroupKey::Width(width)] = table.by.as_slice() else {
            return None;
        };
        let descending = descending?;
        let counts = |function: &AggregateFunction| {
            matches!(
                function,
                AggregateFunction::Count | AggregateFunction::Of(Statistic::Dc, _)
            )
        };
        let width = i64::try_from(width.seconds())
            .ok()?
            .checked_mul(1000 * MS)?;
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let stretches = span.to_ms.checked_sub(span.from_ms)?.checked_mul(MS)? / width + 1;
        if stretches > most {
            return None;
        }
        let start = |ns: i64| ns.div_euclid(width).saturating_mul(width);
        let first = (from_ns != i64::MIN).then(|| start(from_ns));
        let last = (to_ns != i64::MAX).then(|| start(to_ns.saturating_sub(1)));
        let (next, last) = if descending {
            (last, first)
        } else {
            (first, last)
        };
        let nothing = table
            .functions
            .iter()
            .map(|function| match counts(function) {
                true => TableCell::Unsigned(0),
                false => TableCell::Null,
            });
        Some(Self {
            time: 0,
            step: if descending { -width } else { width },
            next,
            last,
            nothing: [TableCell::Null].into_iter().chain(nothing).collect(),
            gap_max: most,
        })
    }

    /// Rows from the next stretch up to `end`, which is not among them.
    fn until(&mut self, end: i64) -> Vec<TableRow> {
        let Some(next) = self.next else {
            return Vec::new();
        };
        let missing = end.saturating_sub(next) / self.step;
        if missing <= 0 || missing > self.gap_max {
            return Vec::new();
        }
        let row = |number: i64| {
            let mut values = self.nothing.clone();
            if let Some(time) = values.get_mut(self.time) {
                *time = TableCell::Text((next + number * self.step).to_string());
            }
            TableRow { values }
        };
        (0..missing).map(row).collect()
    }

    fn before(&mut self, row: &TableRow) -> Vec<TableRow> {
        let time = match row.values.get(self.time) {
            Some(TableCell::Text(ns)) => ns.parse().ok(),
            _ => None,
        };
        let Some(time) = time else {
            return Vec::new();
        };
        let rows = self.until(time);
        self.next = Some(time.saturating_add(self.step));
        rows
    }

    fn rest(&mut self) -> Vec<TableRow> {
        match self.last {
            Some(last) => self.until(last.saturating_add(self.step)),
            None => Vec::new(),
        }
    }
}
