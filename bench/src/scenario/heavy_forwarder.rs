//! The published test of a heavy forwarder, its six runs: lag of events and time of requests.

use anyhow::Result;
use inrush_harness::forwarder::{self, ForwarderFigures, ForwarderRun, RUNS};
use inrush_harness::lab::BenchHarness;
use inrush_harness::measure::{Cell, ScenarioCheck, ScenarioResult};

use super::tell;

/// Seconds of event lag (p99) at most: the best that the published test reached.
const LAG_MAX_S: f64 = 5.0;

/// Runs it.
pub(super) fn run(lab: &BenchHarness) -> Result<ScenarioResult> {
    let shows = "the published test of a heavy forwarder: 30, 60 and 120 MiB/s in requests of 50 \
                 events, a receiver that takes no more";
    tell(shows);
    let mut scenario = lab.scenario(shows);
    for run in &RUNS {
        let mut all = Vec::new();
        for _ in 0..lab.terms.runs {
            let seconds = lab.terms.forwarder_seconds;
            all.push(forwarder::measure(lab, &["hec-sink"], run, seconds)?);
        }
        scenario.checks.extend(all.iter().map(|one| lag(run, one)));
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
    let grew = || "it grew".to_owned();
    let published = run
        .published_lag_s
        .map_or_else(grew, |most| format!("below {most} s"));
    let what = format!(
        "{}: p99 of event lag below {LAG_MAX_S} s (published: {published})",
        run.name()
    );
    let found = format!(
        "{lag_s:.3} s; requests {request_ms:.1} ms (p99), {:.1} MiB/s, {:.0} % of a core, {:.0} MiB",
        figures.run.offered_rate / 1024.0,
        figures.core_pct,
        figures.run.rss_peak_mib
    );
    ScenarioCheck::new(what, found, lag_s < LAG_MAX_S)
}
