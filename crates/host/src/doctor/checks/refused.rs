//! Senders whose connections a source has turned away, as the running process lists them.

use crate::doctor::asked::RefusedSender;
use crate::doctor::finding::{Finding, Layer, Severity, total};
use crate::doctor::scene::HostFacts;

/// Senders that are named in one finding.
const NAMED: usize = 5;

/// Seconds after the last refusal in which it is a warning.
const RECENT_S: i64 = 3600;

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    let rows = &scene.ask.refused;
    rows.chunk_by(|a, b| a.source == b.source)
        .filter_map(finding)
        .collect()
}

fn finding(rows: &[RefusedSender]) -> Option<Finding> {
    let first = rows.first()?;
    let named = rows.iter().take(NAMED).map(|row| {
        let (address, why, count) = (&row.address, &row.why, row.count);
        format!(
            "{address}: {why}: {count}, the last {} s ago",
            row.last_s_ago
        )
    });
    let mut words = named.collect::<Vec<_>>().join("; ");
    if rows.len() > NAMED {
        words += &format!("; and {} more addresses and reasons", rows.len() - NAMED);
    }
    let connections = total(rows.iter().map(|row| row.count));
    let source = &first.source;
    let found = format!("source {source} has refused {connections} connections: {words}");
    let is_recent = rows.iter().any(|row| row.last_s_ago < RECENT_S);
    let severity = if is_recent {
        Severity::Warn
    } else {
        Severity::Info
    };
    let finding = Finding::new(
        format!("connections.refused:{source}"),
        Layer::Socket,
        found,
    )
    .wanted("none; every sender of yours connects")
    .why(format!("Its events do not come. {}", first.remedy))
    .bad(severity, "curl -s http://127.0.0.1:8686/api/v1/sources");
    Some(finding)
}
