//! From a query to SQL over the table `events`, and to what can be known of the events that it
//! finds before any is read.
//!
//! # The table
//! `time` and `received`: `TIMESTAMP` in nanoseconds, UTC; `severity` and `facility`: `TINYINT
//! UNSIGNED`; `fields`: `MAP` of text to text; all other columns of [`EventColumn::ALL`]: text.
//! What an event does not have is `NULL`; `time`, `received` and `raw` are never.
//!
//! # What the SQL relies on
//! DataFusion's own dialect, in which a backslash in a string is a backslash, and one function that
//! it does not have: `has(text, needle)`, true where the text contains the needle whatever the
//! case, as [`Needle`](super::text::Needle) does. Everything that another engine, or another
//! version, may want to be spelt otherwise is in `dialect`.
//!
//! # How values are compared
//! * `index`, `sourcetype`, `source` and `host` as typed, in their case: the least and greatest
//!   values, bloom filters and dictionaries of Parquet files serve an equality and a beginning
//!   (`LIKE 'fw%'`), and serve nothing that would be put through `lower` first.
//! * Everything else whatever its case; a value without letters is compared as it is, which serves
//!   the same ends.
//! * `<` and its like read a text as a number, and are false where it is none.

mod dialect;
mod facts;
mod predicate;
mod table;

pub use facts::{EqualityFacts, both, either};

use std::collections::{BTreeMap, BTreeSet};

use super::ast::{Query, QueryStage, SortColumn, SortKey};
use super::field::{ColumnType, EventColumn};

/// Time range of the events that are looked at, and the bound of rows that come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryRange {
    /// The earliest time, in nanoseconds since 1970; [`i64::MIN`] for no bound.
    pub from_ns: i64,
    /// The time before which all lie; [`i64::MAX`] for no bound.
    pub to_ns: i64,
    /// Rows at most, of events or of a table; `head` can only lower it.
    pub limit: u64,
}

/// A column of the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultColumn {
    /// Its name; no two are alike.
    pub name: String,
    /// Type of its values.
    pub kind: ColumnType,
}

/// A query as SQL, and what is known of the events that it finds.
#[derive(Debug, Clone, PartialEq)]
pub struct Translation {
    /// The statement that gives the result.
    pub sql: String,
    /// The columns of the result, in order.
    pub columns: Vec<ResultColumn>,
    /// True if the result is a table of counts and the like rather than events.
    pub is_table: bool,
    /// The condition that all events meet which the result shows or counts, the time included: for
    /// statements of one's own about them. `TRUE` where all do.
    pub predicate: String,
    /// Texts that the raw text of every such event contains once both went through
    /// [`text::fold`](super::text::fold). Sorted, none twice. Each may begin and end in the middle
    /// of a word, so of a filter that holds whole words only those inside of it can be asked for.
    pub needles: Vec<String>,
    /// For a column that is named here, the values of which every such event has one; none at all
    /// if nothing can be found. Only columns that are compared [as typed](EventColumn::as_typed).
    pub equals: BTreeMap<EventColumn, BTreeSet<String>>,
    /// True if the result or the condition needs the raw text. If not, a scan can leave it out.
    pub reads_raw: bool,
}

impl Translation {
    /// The statement that counts the same events in stretches of `bucket_ms` milliseconds (1 at
    /// least): columns `time`, where the stretch begins, and `count`. Stretches begin at multiples
    /// of their width since 1970; those without events are not there.
    pub fn histogram(&self, bucket_ms: u64) -> String {
        let bucket = dialect::bucket_ms(bucket_ms);
        let (events, predicate) = (dialect::TABLE, &self.predicate);
        format!(
            "SELECT {bucket} AS \"time\", count(*) AS \"count\" FROM {events} \
             WHERE {predicate} GROUP BY 1 ORDER BY 1"
        )
    }
}

/// Translates what [`parse`](super::parse) has made.
pub fn translate(query: &Query, range: &QueryRange) -> Translation {
    let mut conditions = predicate::time_range(range);
    conditions.extend(predicate::conjuncts(&query.filter));
    let rows = query.stages.iter().find_map(|stage| match stage {
        QueryStage::Head(rows) | QueryStage::Top { rows, .. } => Some(u64::from(*rows)),
        QueryStage::Aggregate(_) | QueryStage::Sort(_) => None,
    });
    let limit = rows.map_or(range.limit, |rows| rows.min(range.limit));
    let keys = query.stages.iter().find_map(|stage| match stage {
        QueryStage::Sort(keys) => Some(keys.as_slice()),
        _ => None,
    });
    let keys = keys.unwrap_or_default();
    let predicate = predicate::all_of(&conditions);
    let result = match query.stages.first() {
        Some(QueryStage::Aggregate(table)) => table::aggregate(table, keys, &predicate),
        Some(QueryStage::Top { field, .. }) => table::top(field, &predicate),
        _ => events(keys, &predicate),
    };
    let is_table = table::is_table(query);
    Translation {
        sql: format!("{} LIMIT {limit}", result.sql),
        columns: result.columns,
        is_table,
        needles: facts::needles(&query.filter),
        equals: facts::equals(&query.filter),
        reads_raw: !is_table || facts::reads_raw(query),
        predicate,
    }
}

/// A statement but for its limit.
struct SqlStatement {
    sql: String,
    columns: Vec<ResultColumn>,
}

/// The events themselves, newest first unless `keys` say otherwise.
fn events(keys: &[SortKey], predicate: &str) -> SqlStatement {
    let mut columns: Vec<ResultColumn> = EventColumn::ALL
        .into_iter()
        .map(|column| ResultColumn {
            name: column.name().to_owned(),
            kind: column.kind(),
        })
        .collect();
    columns.push(ResultColumn {
        name: dialect::FIELDS.to_owned(),
        kind: ColumnType::Map,
    });
    let names: Vec<String> = columns.iter().map(|c| dialect::name(&c.name)).collect();
    let mut order: Vec<String> = Vec::new();
    for key in keys {
        if let SortColumn::Field(field) = &key.column {
            let number = dialect::order_number(field, false);
            let columns = number.into_iter().chain([dialect::value(field)]);
            order.extend(columns.map(|column| dialect::by(&column, key.descending)));
        }
    }
    let time = dialect::name(EventColumn::Time.name());
    if !order.iter().any(|key| key.starts_with(&time)) {
        order.push(format!("{time} DESC"));
    }
    let (names, order, events) = (names.join(", "), order.join(", "), dialect::TABLE);
    SqlStatement {
        sql: format!("SELECT {names} FROM {events} WHERE {predicate} ORDER BY {order}"),
        columns,
    }
}
