//! The published test of a heavy forwarder, its six runs: lag of events and time of requests.

use anyhow::Result;
use inrush_harness::forwarder::{self, ForwarderFigures, ForwarderRun, RUNS};
use inrush_harness::lab::BenchHarness;
use inrush_harness::measure::{Cell, ScenarioCheck, ScenarioResult};

use super::tell;

/// Seconds of event lag (p99) at most: the best that the published test reached.
const LAG_MAX_S: f64 = 5.0;

/// A run is a minute long, since lag takes a while to show; it is repeated once if disturbed.
const TRIES_MAX: usize = 2;

/// Runs it.
pub(super) fn run(lab: &BenchHarness) -> Result<ScenarioResult> {
    let shows = "the published test of a heavy forwarder: 30, 60 and 120 MiB/s in requests of 50 \
                 events, a receiver that takes no more";
    tell(shows);
    let mut scenario = lab.scenario(shows);
    for run in &RUNS {
        let mut all: Vec<ForwarderFigures> = Vec::new();
        while all.last().is_none_or(|last| last.run.noisy) && all.len() < TRIES_MAX {
            let seconds = lab.terms.forwarder_seconds;
            all.push(forwarder::measure(lab, &["hec-sink"], run, seconds)?);
        }
        scenario.checks.extend(all.last().map(|one| lag(run, one)));
        let runs = all.into_iter().map(|one| one.run).collect();
        let cell = Cell::new("inrush, defaults", run.name(), runs);
        scenario.checks.push(cell.accounts());
        scenario.cells.push(cell);
    }
    Ok(scenario)
}

/// The lag of a run beside the published one.
fn lag(run: &ForwarderRun, figures: &ForwarderFigures) -> ScenarioCheck {
    let lag_s = figures
        .run
        .latency
        .map_or(f64::INFINITY, |lag| lag.p99_us / 1e6);
    let request_ms = figures
        .requests
        .map_or(f64::INFINITY, |one| one.p99_us as f64 / 1e3);
    let published = |figure: Option<f64>, unit: &str| {
        figure.map_or_else(|| "grew".to_owned(), |most| format!("{most} {unit}"))
    };
    let published_lag = published(run.published_lag_s, "s");
    let published_request = published(run.published_request_ms, "ms");
    let what = format!(
        "{}: p99 of event lag below {LAG_MAX_S} s (published: {published_lag})",
        run.name()
    );
    let found = format!(
        "{lag_s:.3} s; requests {request_ms:.1} ms (p99; published: {published_request}), {:.1} MiB/s, {:.0} % of a core, {:.0} MiB",
        figures.run.offered_rate / 1024.0,
        figures.core_pct,
        figures.run.rss_peak_mib
    );
    ScenarioCheck::new(what, found, lag_s < LAG_MAX_S)
}
