//! Objects of a search's answer: the lines of `GET /api/v1/search`, and the output of the command
//! line. The same types write and read them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

mod event;

pub use event::{EVENT_COLUMNS, SearchHit, events};

/// One object of an answer. `Plan` comes first unless there is an `Error`; `End` last unless the
/// asker goes away.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SearchReply {
    /// SQL, time range and bar width of the search.
    Plan(SearchPlan),
    /// Progress of the search.
    Progress(SearchProgress),
    /// Number of events over time. May come several times; the last one counts.
    Histogram(Histogram),
    /// An event, newest first.
    Event(Box<SearchHit>),
    /// Summary of the fields of the found events.
    Fields(FieldFacets),
    /// The columns of the rows that follow.
    Table(TableHeader),
    /// A row of a table.
    Row(TableRow),
    /// That was all.
    End(SearchSummary),
    /// It could not be answered.
    Error(SearchError),
}

/// SQL, time range and bar width of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchPlan {
    /// As SQL.
    pub sql: String,
    /// The earliest time, in milliseconds since 1970.
    pub from_ms: i64,
    /// The time before which all lie.
    pub to_ms: i64,
    /// The width of a bar of the histogram; 0 if there is none.
    pub bucket_ms: u64,
    /// Width of a table's stretches of time, in milliseconds; none without such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_ms: Option<u64>,
    /// Hints on what to write instead, if nothing is found: habits of other products.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
}

/// Progress of a search, in files, events and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchProgress {
    /// Files that are done with.
    pub files_done: u64,
    /// Files that may have what is looked for, going by their times and indexes.
    pub files_total: u64,
    /// Events that were looked at.
    pub events_scanned: u64,
    /// Bytes that were read from files.
    pub bytes_scanned: u64,
}

/// Number of events over time, in bars of one width.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// Beginning of the first bar, in milliseconds since 1970.
    pub from_ms: i64,
    /// The width of a bar.
    pub bucket_ms: u64,
    /// Events in each.
    pub counts: Vec<u64>,
}

/// Summary of the fields of the found events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FieldFacets {
    /// Field by field.
    pub fields: Vec<FieldSummary>,
    /// True if not all events were looked at for this, but some of the newest.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sampled: bool,
}

/// Summary of one field: its number of different values, and the most frequent ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FieldSummary {
    /// Its name, as a query writes it.
    pub name: String,
    /// Number of different values that were counted.
    pub distinct: u64,
    /// Those that most events have, with their number.
    pub top: Vec<(TableCell, u64)>,
}

/// The columns of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableHeader {
    /// In order.
    pub columns: Vec<TableColumn>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableColumn {
    /// Its name.
    pub name: String,
    /// `text`, `number` or `time`.
    pub kind: String,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableRow {
    /// A value for each column.
    pub values: Vec<TableCell>,
}

/// A value. A time is a text: nanoseconds since 1970 in decimal digits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TableCell {
    /// None.
    Null,
    /// True or false.
    Bool(bool),
    /// A number.
    Unsigned(u64),
    /// A number below zero.
    Signed(i64),
    /// A number with a fraction.
    Double(f64),
    /// A text.
    Text(String),
}

/// Result of a search: events found, cost, and the reason of an early end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchSummary {
    /// Events that were found, shown or not; of a table without histogram its rows.
    pub matched: u64,
    /// Milliseconds from the question to here.
    pub elapsed_ms: u64,
    /// Reason of an end before everything was seen or shown; none otherwise.
    pub stopped: Option<StopReason>,
    /// Rows of the table, shown or not, as far as they were counted; none for events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// True if the table has more rows than were counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rows_more: bool,
    /// Events that the query finds and that are dated more than 2 s after now, if the range ends
    /// now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub future: Option<u64>,
    /// Cost of the search.
    #[serde(default)]
    pub cost: SearchCost,
    /// Files that could not be read, of which nothing (more) is in this answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set_aside: Vec<SetAside>,
}

/// Reason of a search's end before everything was seen or shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// More was found than was to be shown.
    Limit,
    /// It took longer than it may.
    Time,
    /// It needed more memory than it may have.
    Memory,
    /// The asker wanted no more of it.
    Cancelled,
}

/// Cost of a search in events, bytes read and peak memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchCost {
    /// Events that were looked at.
    pub events_scanned: u64,
    /// Bytes that were read from files.
    pub bytes_scanned: u64,
    /// Bytes of memory that it held at most, of those that are counted.
    pub memory_bytes: u64,
}

/// A file that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAside {
    /// Its place below the store's folder.
    pub path: String,
    /// Reason why it could not be read.
    pub reason: String,
}

/// Error for a question that could not be answered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchError {
    /// Description of the error, in one line.
    pub message: String,
    /// The character of the question where it begins, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// Characters that it covers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<usize>,
    /// Advice on what to write instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl From<inrush_query::QueryError> for SearchError {
    fn from(error: inrush_query::QueryError) -> Self {
        Self {
            message: error.message,
            column: Some(error.column),
            length: Some(error.length),
            hint: error.hint,
        }
    }
}

/// A map that is left out where nothing is in it.
type FieldValues = BTreeMap<String, String>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_written_as_the_contract_has_them() {
        let cases = [
            (
                SearchReply::Plan(SearchPlan {
                    sql: "SELECT 1".into(),
                    from_ms: 0,
                    to_ms: 5,
                    bucket_ms: 1,
                    step_ms: None,
                    hints: Vec::new(),
                }),
                r#"{"type":"plan","sql":"SELECT 1","from_ms":0,"to_ms":5,"bucket_ms":1}"#,
            ),
            (
                SearchReply::Fields(FieldFacets {
                    fields: vec![FieldSummary {
                        name: "host".into(),
                        distinct: 2,
                        top: vec![
                            (TableCell::Text("fw-1".into()), 123),
                            (TableCell::Unsigned(4), 5),
                        ],
                    }],
                    sampled: true,
                }),
                concat!(
                    r#"{"type":"fields","fields":[{"name":"host","distinct":2,"#,
                    r#""top":[["fw-1",123],[4,5]]}],"sampled":true}"#
                ),
            ),
            (
                SearchReply::Row(TableRow {
                    values: vec![
                        TableCell::Null,
                        TableCell::Double(0.5),
                        TableCell::Signed(-1),
                    ],
                }),
                r#"{"type":"row","values":[null,0.5,-1]}"#,
            ),
            (
                SearchReply::Error(SearchError {
                    message: "m".into(),
                    column: Some(5),
                    length: Some(3),
                    hint: None,
                }),
                r#"{"type":"error","message":"m","column":5,"length":3}"#,
            ),
        ];
        for (reply, line) in cases {
            let written = serde_json::to_string(&reply).unwrap();
            assert_eq!(written, line);
            assert_eq!(
                serde_json::from_str::<SearchReply>(&written).unwrap(),
                reply
            );
        }
    }
}
