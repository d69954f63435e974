//! Export of what was found as a file: JSON lines, or a table for a spreadsheet (RFC 4180).

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use inrush_query::when;
use inrush_store::reply::{SearchReply, TableCell};
use serde::Deserialize;
use serde_json::Value;

use super::SearchReplies;
use crate::serve::StreamProgress;

/// The columns of events in a table: names of the JSON object, `time` and `received` made readable.
const COLUMNS: [&str; 19] = [
    "time",
    "received",
    "host",
    "source",
    "sourcetype",
    "index",
    "severity",
    "facility",
    "vendor",
    "product",
    "app",
    "proc_id",
    "msg_id",
    "message",
    "raw",
    "sender",
    "anomalies",
    "fields",
    "id",
];

/// Of what kind the file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ExportFormat {
    /// A JSON object a line.
    #[default]
    Json,
    /// Values with commas between.
    Csv,
}

/// The events or rows of an answer as a download.
pub(super) fn download(
    format: ExportFormat,
    replies: SearchReplies,
    stay: StreamProgress,
) -> Response {
    let (kind, name) = match format {
        ExportFormat::Json => (
            "application/x-ndjson",
            "attachment; filename=\"inrush.jsonl\"",
        ),
        ExportFormat::Csv => (
            "text/csv; charset=utf-8",
            "attachment; filename=\"inrush.csv\"",
        ),
    };
    let mut columns = None;
    let chunks = replies.ready_chunks(64).map(move |replies| {
        stay.gets_on();
        let mut text = Vec::new();
        for reply in &replies {
            match format {
                ExportFormat::Json => json(reply, &mut columns, &mut text),
                ExportFormat::Csv => csv(reply, &mut columns, &mut text),
            }
        }
        Ok::<_, Infallible>(Bytes::from(text))
    });
    let head = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_DISPOSITION, name),
    ];
    (head, Body::from_stream(chunks)).into_response()
}

/// Names of the columns, once a table has named them.
type Columns = Option<Vec<String>>;

fn json(reply: &SearchReply, columns: &mut Columns, text: &mut Vec<u8>) {
    let object = match reply {
        SearchReply::Event(event) => serde_json::to_value(event),
        SearchReply::Table(table) => {
            *columns = Some(table.columns.iter().map(|c| c.name.clone()).collect());
            return;
        }
        SearchReply::Row(row) => {
            let names = columns.iter().flatten().cloned();
            let values = row.values.iter().map(serde_json::to_value);
            names
                .zip(values)
                .map(|(name, value)| Ok((name, value?)))
                .collect()
        }
        // Whoever reads the file must see that it is not all.
        SearchReply::Error(failure) => {
            serde_json::to_value(serde_json::json!({ "error": failure }))
        }
        _ => return,
    };
    if let Ok(object) = object
        && serde_json::to_writer(&mut *text, &object).is_ok()
    {
        text.push(b'\n');
    }
}

fn csv(reply: &SearchReply, columns: &mut Columns, text: &mut Vec<u8>) {
    match reply {
        SearchReply::Event(event) => {
            if columns.is_none() {
                *columns = Some(Vec::new());
                line(COLUMNS.iter().map(|name| (*name).to_owned()), text);
            }
            let Ok(Value::Object(event)) = serde_json::to_value(event) else {
                return;
            };
            let cell = |name: &&str| match (*name, event.get(*name)) {
                ("time" | "received", _) => event
                    .get(&format!("{name}_ns"))
                    .map_or_else(String::new, time),
                (_, value) => value.map_or_else(String::new, shown),
            };
            line(COLUMNS.iter().map(cell), text);
        }
        SearchReply::Table(table) => line(table.columns.iter().map(|c| c.name.clone()), text),
        SearchReply::Row(row) => line(row.values.iter().map(of_cell), text),
        SearchReply::Error(failure) => {
            line([format!("error: {}", failure.message)].into_iter(), text)
        }
        _ => {}
    }
}

/// Nanoseconds since 1970 in digits, as RFC 3339 writes a time.
fn time(digits: &Value) -> String {
    let ns = digits.as_str().and_then(|digits| digits.parse().ok());
    ns.map_or_else(String::new, when::shown)
}

fn of_cell(cell: &TableCell) -> String {
    serde_json::to_value(cell).map_or_else(|_| String::new(), |value| shown(&value))
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Appends a line. A value that a spreadsheet would take for a formula gets an apostrophe before
/// it: what a sender wrote must not run on the desk of who reads it (CWE-1236).
fn line(values: impl Iterator<Item = String>, text: &mut Vec<u8>) {
    for (at, value) in values.enumerate() {
        if at > 0 {
            text.push(b',');
        }
        let number = value.parse::<f64>().is_ok();
        let formula = value.starts_with(['=', '+', '-', '@', '\t', '\r']) && !number;
        let value = if formula { format!("'{value}") } else { value };
        if value.contains(['"', ',', '\n', '\r']) {
            text.push(b'"');
            text.extend_from_slice(value.replace('"', "\"\"").as_bytes());
            text.push(b'"');
        } else {
            text.extend_from_slice(value.as_bytes());
        }
    }
    text.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_safe_to_open() {
        let mut text = Vec::new();
        let values = [
            "plain",
            "a,b",
            "say \"x\"",
            "=cmd|' /C calc'!A0",
            "-5",
            "@x",
            "two\nlines",
        ];
        line(values.iter().map(|value| (*value).to_owned()), &mut text);
        let expected =
            "plain,\"a,b\",\"say \"\"x\"\"\",'=cmd|' /C calc'!A0,-5,'@x,\"two\nlines\"\r\n";
        assert_eq!(String::from_utf8_lossy(&text), expected);
    }
}
