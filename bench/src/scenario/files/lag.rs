//! Time until a line arrives: of quiet files beside a loud one, and of new files.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use inrush_harness::child::{ChildProcess, wait, wait_until};
use inrush_harness::lab::BenchHarness;
use inrush_harness::measure::ScenarioCheck;

use super::{LAYOUT, SETTINGS, places, tell};
use crate::rotation::{
    ArrivalAccount, LANES, LineCollector, LogField, NumberedLog, TailProduct, WriteRate,
};

/// Files that are written a little.
const QUIET_FILES: u32 = 99;

/// Lines a second of each of them.
const QUIET_RATE: u64 = 2;

/// Lines a second of the loud one.
const LOUD_RATE: u64 = 50_000;

/// Time for which they are written.
const SPAN: Duration = Duration::from_secs(20);

/// Milliseconds until 99 of 100 quiet lines arrived, at most.
const QUIET_MS_MAX: f64 = 1000.0;

/// Files that begin while the collector runs.
const NEW_FILES: u32 = 200;

/// Time between two of them.
const NEW_EVERY: Duration = Duration::from_millis(50);

/// Milliseconds until 99 of 100 first lines arrived, at most.
const NEW_MS_MAX: f64 = 200.0;

/// Time for which nothing may arrive before what is missing counts as lost.
const STILL_MAX: Duration = Duration::from_secs(15);

/// Measures both, and holds them against the limits.
pub(super) fn checks(lab: &BenchHarness) -> Result<Vec<ScenarioCheck>> {
    let quiet = quiet(lab)?;
    let what = format!("a loud file ({LOUD_RATE}/s) beside {QUIET_FILES} quiet ones: p99 of these");
    let quiet = quiet.check(&what, QUIET_MS_MAX);
    let new = new_files(lab)?.check("a new file's first line: p99", NEW_MS_MAX);
    for check in [&quiet, &new] {
        tell(&format!("  {}: {}", check.what, check.found));
    }
    Ok(vec![quiet, new])
}

/// Lines that were written and that arrived.
struct LagFigures {
    written: u64,
    arrived: u64,
    p99_ms: Option<f64>,
}

impl LagFigures {
    fn check(&self, what: &str, ms_max: f64) -> ScenarioCheck {
        let p99_ms = self.p99_ms.unwrap_or(f64::INFINITY);
        ScenarioCheck::new(
            format!("{what} at most {ms_max} ms"),
            format!(
                "{p99_ms:.0} ms; {} of {} lines arrived",
                self.arrived, self.written
            ),
            p99_ms <= ms_max && self.arrived == self.written,
        )
    }
}

/// An Inrush before an endpoint in this process, which notes the lag of each line.
struct LagSubject {
    _process: ChildProcess,
    collector: Arc<LineCollector>,
}

impl LagSubject {
    fn start(lab: &BenchHarness, include: String, account: ArrivalAccount) -> Result<Self> {
        let (collector, port) = LineCollector::start(account, 0)?;
        let places = places(lab, include, port)?;
        let process = TailProduct::Inrush.setup(&lab.inrush)?.start(&places)?;
        wait(super::START);
        Ok(Self {
            _process: process,
            collector,
        })
    }

    /// Waits until all has arrived, or nothing arrives any more.
    fn figures(&self, written: u64) -> LagFigures {
        let arrived = self.collector.settle(written, STILL_MAX);
        let p99_us = self.collector.account().lags().quantile_us(990);
        LagFigures {
            written,
            arrived,
            p99_ms: p99_us.map(|us| us / 1e3),
        }
    }
}

fn quiet(lab: &BenchHarness) -> Result<LagFigures> {
    let folder = lab.dir("files")?;
    let mut loud = LogField::create(&folder, 0..1, LAYOUT, SETTINGS)?;
    let mut quiet = LogField::create(&folder, 1..1 + QUIET_FILES, LAYOUT, SETTINGS)?;
    // The loud file's writers are the first ones: only those behind them are asked for their lag.
    let account = ArrivalAccount::new((1 + QUIET_FILES) * LANES, LANES);
    let subject = LagSubject::start(lab, LAYOUT.include(&folder), account)?;
    loud.begin(WriteRate::even(LOUD_RATE), None);
    quiet.begin(WriteRate::even(QUIET_RATE), None);
    wait(SPAN);
    let written = loud.finish()? + quiet.finish()?;
    Ok(subject.figures(written))
}

fn new_files(lab: &BenchHarness) -> Result<LagFigures> {
    let folder = lab.dir("files")?;
    let account = ArrivalAccount::new(NEW_FILES * LANES, 0);
    let subject = LagSubject::start(lab, LAYOUT.include(&folder), account)?;
    let mut next = Instant::now();
    for index in 0..NEW_FILES {
        let path = LAYOUT.file(&folder, index);
        crate::rotation::prepare(LAYOUT, &path)?;
        NumberedLog::create(index, path, SETTINGS)?.write(1)?;
        next += NEW_EVERY;
        wait_until(next);
    }
    Ok(subject.figures(u64::from(NEW_FILES)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lag_counts_only_where_all_has_arrived() {
        let passed = |arrived, p99_ms| {
            let figures = LagFigures {
                written: 10,
                arrived,
                p99_ms,
            };
            figures.check("p99", 200.0).passed
        };
        assert!(passed(10, Some(200.0)));
        assert!(!passed(9, Some(1.0)) && !passed(10, Some(201.0)) && !passed(10, None));
    }
}
