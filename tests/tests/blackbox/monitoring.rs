//! Rules of Prometheus and dashboard of Grafana in `dist/`: what they name is at `/metrics`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use inrush_event::{Metric, MetricKind};
use inrush_tests::*;
use serde_json::Value;

use crate::hec_server::{TOKEN, client, collector, forwarder};

/// Metrics that `/metrics` has once there is something to count, on some hosts alone, or with a
/// source of files.
const LATER: [Metric; 6] = [
    Metric::TlsCertificateNotAfter,
    Metric::CpuPeriods,
    Metric::CpuThrottledPeriods,
    Metric::CpuThrottled,
    Metric::FileRotatedAway,
    Metric::FileMissedGenerations,
];

/// Labels that Prometheus itself gives, or that histograms have.
const GIVEN: [&str; 4] = ["instance", "job", "le", "value"];

fn dist(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dist");
    fs::read_to_string(root.join(path)).unwrap()
}

/// Each rule with its expression and its texts; each query of the dashboard with its legend.
fn queries() -> Vec<String> {
    let rules = dist("prometheus/inrush.rules.yaml");
    let rules = rules.split("- alert: ").skip(1).map(str::to_owned);
    let dashboard: Value = serde_json::from_str(&dist("grafana/inrush.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array());
    let targets = targets.flatten().map(|target| {
        let legend = target["legendFormat"].as_str().unwrap_or_default();
        let legend = legend.replace("{{", "$labels.");
        format!("{} {legend}", target["expr"].as_str().unwrap())
    });
    rules.chain(targets).collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}

/// Metrics that a query names.
fn metrics_of(query: &str) -> Vec<Metric> {
    let named = |word: &str| {
        let all = Metric::ALL.iter();
        let mut all = all.filter(|one| match one.kind() {
            MetricKind::Histogram => ["_bucket", "_sum", "_count"]
                .iter()
                .any(|end| word.strip_suffix(end) == Some(one.name())),
            _ => word == one.name(),
        });
        *all.next().unwrap_or_else(|| panic!("no metric: {word}"))
    };
    let known = words(query).filter(|word| word.starts_with("inrush_"));
    known.map(named).collect()
}

/// Labels that a query groups by, selects by or shows.
fn labels_of(query: &str) -> BTreeSet<String> {
    let behind = |mark: &'static str, end: char| {
        let parts = query.split(mark).skip(1);
        parts.flat_map(move |part| words(part.split(end).next().unwrap_or_default()).take(9))
    };
    let grouped = behind("by (", ')').chain(behind("on (", ')'));
    let shown = query.split("$labels.").skip(1);
    let shown = shown.filter_map(|rest| words(rest).next());
    let all = grouped.chain(shown).map(str::to_owned);
    all.filter(|one| !GIVEN.contains(&one.as_str())).collect()
}

/// Labels of each metric on a page.
fn labels_on(page: &str) -> BTreeMap<&str, BTreeSet<String>> {
    let mut all = BTreeMap::<&str, BTreeSet<String>>::new();
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let labels = line.split_once('{').map_or("", |(_, rest)| rest);
        let names = labels.split("=\"").map(|part| words(part).last());
        let names = names.flatten().map(str::to_owned);
        all.entry(name).or_default().extend(names);
    }
    all
}

#[test]
fn rules_and_dashboard_name_only_what_metrics_show() {
    let upstream = Inrush::start(&collector("", ""));
    let to = format!("http://{}", upstream.address("http"));
    let yaml = forwarder(&to, "").replace("s3cret", TOKEN);
    let inrush = Inrush::start(&yaml);
    assert_eq!(client(&inrush).event(r#"{"event":"x"}"#).code(), Some(0));
    upstream.collected(1);
    let page = eventually("the lag of the event", || {
        let page = inrush.http("GET", "/metrics").body;
        page.contains("inrush_event_lag_seconds_bucket")
            .then_some(page)
    });
    let shown = labels_on(&page);
    let queries = queries();
    assert!(queries.len() > 40, "{}", queries.len());
    for query in &queries {
        let mut labels = BTreeSet::new();
        let metrics = metrics_of(query);
        let on_page = metrics.iter().filter(|one| !LATER.contains(one));
        let is_all_shown = on_page.clone().count() == metrics.len();
        for metric in on_page {
            let name = match metric.kind() {
                MetricKind::Histogram => format!("{}_bucket", metric.name()),
                _ => metric.name().to_owned(),
            };
            let found = shown.get(name.as_str());
            labels.extend(found.unwrap_or_else(|| panic!("{name} in {query}")).clone());
        }
        let wanted = labels_of(query);
        let missing: Vec<_> = wanted.difference(&labels).collect();
        assert!(
            !is_all_shown || missing.is_empty(),
            "{missing:?} in {query}"
        );
    }
}
