//! Senders that the running process has turned away, as its admin API lists them.

use std::time::{SystemTime, UNIX_EPOCH};

use inrush_config::Config;
use inrush_event::is_unprintable;
use inrush_host::doctor::RefusedSender;
use serde_json::Value;

use crate::cmd::search::ProcessBackend;

/// Those of all sources, the last one of each source first; none where no process runs that can be
/// asked.
pub(super) fn ask(config: &Config) -> Vec<RefusedSender> {
    let page = ProcessBackend::find(config).and_then(|process| process.page("sources"));
    let answer: Value = page
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    let sources = answer["sources"].as_array().into_iter().flatten();
    let of_source = |status: &Value| {
        let name = status["name"].as_str().unwrap_or_default();
        let rows = status["refused"].as_array().into_iter().flatten();
        rows.filter_map(|row| refused(name, row))
            .collect::<Vec<_>>()
    };
    sources.flat_map(of_source).collect()
}

fn refused(source: &str, row: &Value) -> Option<RefusedSender> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let now_ms = i64::try_from(now.as_millis()).ok()?;
    let text = |key: &str| Some(printable(row[key].as_str()?));
    Some(RefusedSender {
        source: source.to_owned(),
        address: text("address")?,
        why: text("why")?,
        remedy: text("remedy")?,
        count: row["count"].as_u64()?,
        last_s_ago: (now_ms - row["last_ms"].as_i64()?) / 1000,
    })
}

/// Names in certificates are for a terminal here.
fn printable(text: &str) -> String {
    let char = |c| if is_unprintable(c) { '\u{fffd}' } else { c };
    text.chars().map(char).collect()
}
