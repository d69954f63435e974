//! Into the built-in store with the built-in configuration: what an event costs, how soon it is
//! found, what it takes on the disk.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use inrush_harness::lab::{BenchHarness, INRUSH_DIR, PeriodicTask};
use inrush_harness::measure::{Cell, RunResult, ScenarioCheck, ScenarioResult};
use inrush_harness::probe::SearchProbe;
use inrush_harness::sender::{Amount, HeaderStyle, LoadShape, MessageText, Wire};
use inrush_harness::stats::Spread;
use inrush_harness::subject::{BenchSubject, Inrush, OpenSearch, User, recorded};

use super::noloss::rate_held;
use super::tell;

/// Events a second that two cores must take, the sender on them too.
const RATE: u64 = 250_000;

/// Events that the peer gets, the first quarter to warm up.
const PEER_EVENTS: u64 = 2_000_000;

/// Seconds for which the half rate is held at most, while events are looked for.
const LAG_SECONDS: u64 = 60;

/// An event must be found within so many seconds, 99 of 100.
const LAG_MAX: f64 = 1.0;

/// Resident memory that it must stay under, MiB.
const RSS_MAX_MIB: f64 = 1024.0;

/// Mixed messages of 300 B.
pub(crate) const MIXED: LoadShape = LoadShape {
    wire: Wire::Tcp,
    connections: 4,
    size: 300,
    header: HeaderStyle::Rfc3164Iso,
    text: MessageText::Mixed,
    backdate_hours: 0,
    rate: RATE,
    burst: 0,
};

/// Runs it.
pub(super) fn run(lab: &BenchHarness) -> Result<ScenarioResult> {
    let seconds = lab.terms.store_seconds;
    let shows = format!(
        "TCP at 250,000/s of 300 B for {seconds} s into the store, the built-in configuration; then \
         half of that while events are looked for"
    );
    tell(&shows);
    let mut inrush = start(lab)?;
    let full = lab.measure(
        &mut inrush,
        None,
        &MIXED,
        Amount::Number(RATE * seconds),
        None,
    )?;
    let files = file_bytes(&lab.inrush_dir().join("store"))?;
    drop(inrush);
    let mut scenario = lab.scenario(&shows);
    scenario.checks = checks(&full, files);
    scenario.add_inrush(format!("250,000/s, 4 conn, 300 B, {seconds} s"), vec![full]);
    let (half, lags) = half_rate(lab)?;
    scenario
        .checks
        .push(lag_within(&lags, LAG_MAX, "at half the rate"));
    let seconds = lag_seconds(lab);
    let load = format!("125,000/s, 4 conn, 300 B, {seconds} s, looked for once a second");
    scenario.add_inrush(load, vec![half]);
    if lab.terms.peers && OpenSearch::installed() {
        beside_opensearch(lab, &mut scenario)?;
    }
    lab.dir(INRUSH_DIR)?;
    Ok(scenario)
}

/// Seconds for which the half rate is held.
pub(super) fn lag_seconds(lab: &BenchHarness) -> u64 {
    LAG_SECONDS.min(lab.terms.store_seconds)
}

/// Starts the built-in configuration with nothing stored.
pub(super) fn start(lab: &BenchHarness) -> Result<Inrush> {
    Inrush::start(&lab.inrush, None, &lab.dir(INRUSH_DIR)?, User::Ours)
}

/// The same messages into OpenSearch by its bulk API.
fn beside_opensearch(lab: &BenchHarness, scenario: &mut ScenarioResult) -> Result<()> {
    tell("  OpenSearch");
    let lines = recorded(&lab.inrush, &MIXED, PEER_EVENTS)?;
    let indexed = OpenSearch::start(&lab.dir("opensearch")?)?.index(&lines)?;
    scenario.versions.push(OpenSearch::VERSION.to_owned());
    let ours = scenario.cells.first().and_then(|cell| cell.runs.first());
    let ours = ours.map_or(f64::INFINITY, |run| run.us_per_event);
    let peer = indexed.run.us_per_event;
    scenario.checks.push(ScenarioCheck::new(
        "CPU beside OpenSearch, which gets the events parsed, in bulk",
        format!(
            "{ours:.2} against {peer:.2} µs an event; its index has {:.1} bytes for one",
            indexed.bytes_per_event
        ),
        ours < peer && indexed.run.wrong.is_none(),
    ));
    scenario.cells.push(Cell::new(
        "OpenSearch",
        "bulk of 5,000, 2 at once, as fast as it goes",
        vec![indexed.run],
    ));
    lab.dir("opensearch").map(|_| ())
}

fn half_rate(lab: &BenchHarness) -> Result<(RunResult, Vec<f64>)> {
    let mut inrush = start(lab)?;
    let mut probe = SearchProbe::new(&inrush.address(Wire::Tcp)?, inrush.admin())?;
    let mut look = || probe.lag().map(|_| ());
    let meanwhile = PeriodicTask {
        every: Duration::from_secs(1),
        act: &mut look,
    };
    let shape = LoadShape {
        rate: RATE / 2,
        ..MIXED
    };
    let amount = Amount::Number(shape.rate * lag_seconds(lab));
    let mut run = lab.measure(&mut inrush, None, &shape, amount, Some(meanwhile))?;
    let last = inrush.progress()?;
    run.wrong = inrush.wrong(&last, run.sent + probe.sent());
    Ok((run, probe.lags))
}

fn checks(run: &RunResult, files: u64) -> Vec<ScenarioCheck> {
    let sending = run.sent as f64 / run.offered_rate;
    vec![
        rate_held(run.offered_rate, RATE),
        ScenarioCheck::new(
            "taken as fast as it came: all in files, committed, soon after the last event",
            format!("{:.1} s for {sending:.1} s of sending", run.seconds),
            run.seconds < run.sent as f64 / RATE as f64 * 1.03 + COMMIT_SECONDS,
        ),
        ScenarioCheck::new(
            format!("resident memory under {RSS_MAX_MIB:.0} MiB"),
            format!("{:.0} MiB at most", run.rss_peak_mib),
            run.rss_peak_mib < RSS_MAX_MIB,
        ),
        ScenarioCheck::new(
            "bytes of files for an event of 300 B",
            format!("{:.1}", files as f64 / run.delivered as f64),
            files > 0,
        ),
    ]
}

/// Seconds after which events are committed at the latest, and some to do it.
const COMMIT_SECONDS: f64 = 13.0;

/// Check that 99 of 100 events were found within `most` seconds.
pub(super) fn lag_within(lags: &[f64], most: f64, when: &str) -> ScenarioCheck {
    let mut sorted = lags.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() * 99).div_ceil(100).saturating_sub(1);
    let p99 = sorted.get(at).copied();
    let spread = Spread::of(lags).map_or("none was looked for".to_owned(), |s| {
        format!(
            "median {:.3} s, p99 {:.3} s, most {:.3} s of {}",
            s.median,
            p99.unwrap_or_default(),
            s.max,
            s.n
        )
    });
    ScenarioCheck::new(
        format!("99 of 100 events are found within {most:.0} s {when}"),
        spread,
        p99.is_some_and(|p99| p99 < most),
    )
}

/// Bytes of all files below a folder.
pub(super) fn file_bytes(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let meta = entry.metadata()?;
        bytes += if meta.is_dir() {
            file_bytes(&entry.path())?
        } else {
            meta.len()
        };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_hundred_may_be_late_and_no_more() {
        let mut lags = vec![0.1; 99];
        lags.push(5.0);
        assert!(lag_within(&lags, 1.0, "").passed);
        lags.push(5.0);
        assert!(!lag_within(&lags, 1.0, "").passed);
        assert!(!lag_within(&[], 1.0, "").passed);
    }

    #[test]
    fn a_store_that_falls_behind_or_swells_is_seen() {
        let run = RunResult {
            sent: 75_000_000,
            delivered: 75_000_000,
            offered_rate: 250_000.0,
            seconds: 309.0,
            rss_peak_mib: 600.0,
            ..RunResult::default()
        };
        let passed = |run: &RunResult| checks(run, 1).iter().all(|check| check.passed);
        assert!(passed(&run));
        let late = RunResult {
            seconds: 330.0,
            ..run.clone()
        };
        assert!(!passed(&late));
        let fat = RunResult {
            rss_peak_mib: 1100.0,
            ..run
        };
        assert!(!passed(&fat));
    }
}
