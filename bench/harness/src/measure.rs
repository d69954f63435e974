//! Measured runs: figures of one subject under one load, and what must hold of them.

use serde::{Deserialize, Serialize};

use crate::meter::Machine;
use crate::sink::Latency;
use crate::stats::{Spread, clean_or_all};

/// One scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScenarioResult {
    /// Subject of the scenario, in one sentence.
    pub shows: String,
    /// Time of its end, RFC 3339.
    pub ended: String,
    pub machine: Machine,
    /// Versions of what was measured.
    pub versions: Vec<String>,
    pub cells: Vec<Cell>,
    pub checks: Vec<ScenarioCheck>,
}

/// One subject under one load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    pub subject: String,
    pub load: String,
    /// Every run; none in a file that keeps figures alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<RunResult>,
    /// Figures of the runs, which a file keeps in their place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<CellFigures>,
}

/// Figures of the runs of a cell, as a page shows them: medians with their ranges.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellFigures {
    pub runs: usize,
    /// Runs that were not disturbed.
    pub clean: usize,
    pub raw: Option<Spread>,
    pub scaled: Option<Spread>,
    pub ratio: Option<Spread>,
    /// User time, CPU-µs per event.
    pub user: Option<Spread>,
    /// System time, CPU-µs per event.
    pub sys: Option<Spread>,
    /// Events a second.
    pub rate: Option<Spread>,
    pub p99_us: Option<Spread>,
    /// Bytes to disk a second.
    pub disk_rate: Option<Spread>,
    pub rss_mib: Option<Spread>,
    /// Events that were sent and not delivered.
    pub lost: Option<Spread>,
    pub sink_pct: Option<Spread>,
    pub others_pct: Option<Spread>,
    pub calibration_ms: Option<Spread>,
    /// The lowest scaled figure of a clean run.
    pub best_scaled: Option<f64>,
}

/// One run of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    pub sent: u64,
    /// Events a second that the generator sent.
    pub offered_rate: f64,
    pub delivered: u64,
    pub kernel_dropped: u64,
    /// Sent, and neither delivered, pending nor dropped by the kernel; negative: came twice.
    pub unaccounted: i64,
    /// From the begin of the load until all was drained.
    pub seconds: f64,
    pub user_us: f64,
    pub sys_us: f64,
    /// CPU-µs of the process per delivered event.
    pub us_per_event: f64,
    /// Times the CPU of the bare loop beside it; absent for the bare loops and where none ran.
    pub bare_ratio: Option<f64>,
    /// CPU-µs per event in the reference state; absent where the bare loop beside it is not the
    /// one that defines that state.
    pub scaled_us: Option<f64>,
    pub rss_peak_mib: f64,
    /// Milliseconds of a fixed piece of arithmetic just before: the speed of the host.
    pub calibration_ms: f64,
    pub sink_pct: f64,
    pub others_pct: f64,
    pub steal_pct: f64,
    /// Of what the sender and this program used of one core, per cent.
    #[serde(default)]
    pub sender_pct: f64,
    /// Bytes that the process had the kernel write to disks.
    #[serde(default)]
    pub disk_bytes: u64,
    /// Number of its writes to files and pipes.
    #[serde(default)]
    pub write_calls: u64,
    /// From the generator to the endpoint; absent where it was not noted.
    #[serde(default)]
    pub latency: Option<Latency>,
    pub noisy: bool,
    /// Errors in the ledger or in the generator's run; nothing if both agree.
    pub wrong: Option<String>,
}

/// Something that holds or does not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScenarioCheck {
    pub what: String,
    pub found: String,
    pub passed: bool,
}

impl ScenarioCheck {
    pub fn new(what: impl Into<String>, found: impl Into<String>, passed: bool) -> Self {
        Self {
            what: what.into(),
            found: found.into(),
            passed,
        }
    }
}

impl Cell {
    /// Runs of a subject under a load.
    pub fn new(subject: impl Into<String>, load: impl Into<String>, runs: Vec<RunResult>) -> Self {
        Self {
            subject: subject.into(),
            load: load.into(),
            runs,
            figures: None,
        }
    }

    /// The figures of its runs, or those that were kept of them.
    pub fn figures(&self) -> CellFigures {
        if let Some(figures) = &self.figures {
            return figures.clone();
        }
        let all = |value: fn(&RunResult) -> f64| {
            Spread::of(&self.runs.iter().map(value).collect::<Vec<_>>())
        };
        let clean = self.runs.iter().filter(|run| !run.noisy);
        CellFigures {
            runs: self.runs.len(),
            clean: self.clean(),
            raw: self.raw(),
            scaled: self.scaled(),
            ratio: self.ratio(),
            user: all(|run| run.user_us / run.delivered.max(1) as f64),
            sys: all(|run| run.sys_us / run.delivered.max(1) as f64),
            rate: self.rate(),
            p99_us: self.p99_us(),
            disk_rate: self.disk_rate(),
            rss_mib: all(|run| run.rss_peak_mib),
            lost: all(|run| run.sent.saturating_sub(run.delivered) as f64),
            sink_pct: all(|run| run.sink_pct),
            others_pct: all(|run| run.others_pct),
            calibration_ms: all(|run| run.calibration_ms),
            best_scaled: clean.filter_map(|run| run.scaled_us).min_by(f64::total_cmp),
        }
    }

    /// Keeps the figures in place of the runs.
    pub fn fold(&mut self) {
        self.figures = Some(self.figures());
        self.runs.clear();
    }

    fn spread(&self, value: impl Fn(&RunResult) -> Option<f64>) -> Option<Spread> {
        let counted = clean_or_all(&self.runs, |run| run.noisy);
        Spread::of(&counted.into_iter().filter_map(value).collect::<Vec<_>>())
    }

    /// CPU-µs per event as measured, over the runs that count.
    pub fn raw(&self) -> Option<Spread> {
        self.spread(|run| Some(run.us_per_event))
    }

    /// CPU-µs per event in the reference state, over the runs that count.
    pub fn scaled(&self) -> Option<Spread> {
        self.spread(|run| run.scaled_us)
    }

    /// Times the CPU of the bare loop, over the runs that count.
    pub fn ratio(&self) -> Option<Spread> {
        self.spread(|run| run.bare_ratio)
    }

    /// Events a second, over the runs that count.
    pub fn rate(&self) -> Option<Spread> {
        self.spread(|run| (run.seconds > 0.0).then(|| run.delivered as f64 / run.seconds))
    }

    /// Bytes to disk a second, over the runs that count.
    pub fn disk_rate(&self) -> Option<Spread> {
        self.spread(|run| (run.disk_bytes > 0).then(|| run.disk_bytes as f64 / run.seconds))
    }

    /// Microseconds within which 99 of 100 events were delivered, over the runs that count.
    pub fn p99_us(&self) -> Option<Spread> {
        self.spread(|run| Some(run.latency?.p99_us))
    }

    /// Runs that were not disturbed.
    pub fn clean(&self) -> usize {
        self.runs.iter().filter(|run| !run.noisy).count()
    }

    /// Check that every run's account agrees with the generator's.
    pub fn accounts(&self) -> ScenarioCheck {
        let wrong: Vec<&str> = self
            .runs
            .iter()
            .filter_map(|run| run.wrong.as_deref())
            .collect();
        let right = self.runs.len() - wrong.len();
        let first = wrong
            .first()
            .map_or(String::new(), |text| format!("; {text}"));
        ScenarioCheck::new(
            format!(
                "the ledger balances and agrees with the generator ({})",
                self.load
            ),
            format!("{right} of {} runs{first}", self.runs.len()),
            wrong.is_empty() && !self.runs.is_empty(),
        )
    }
}

impl ScenarioResult {
    /// Takes in what Inrush did under one load, and whether its accounts are right.
    pub fn add_inrush(&mut self, load: impl Into<String>, runs: Vec<RunResult>) {
        let cell = Cell {
            subject: "inrush".to_owned(),
            load: load.into(),
            runs,
            figures: None,
        };
        self.checks.push(cell.accounts());
        self.cells.push(cell);
    }

    pub fn passed(&self) -> bool {
        !self.checks.is_empty() && self.checks.iter().all(|check| check.passed)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn run(us: f64, noisy: bool, wrong: Option<&str>) -> RunResult {
        RunResult {
            us_per_event: us,
            noisy,
            wrong: wrong.map(str::to_owned),
            ..RunResult::default()
        }
    }

    #[test]
    fn a_noisy_run_does_not_enter_the_median() {
        let runs = vec![
            run(1.0, false, None),
            run(9.0, true, None),
            run(3.0, false, None),
        ];
        let cell = Cell {
            runs,
            ..Cell::default()
        };
        assert_eq!((cell.raw().unwrap().median, cell.clean()), (2.0, 2));
        assert_eq!(cell.scaled(), None);
    }

    #[test]
    fn one_wrong_account_fails_the_cell() {
        let mut cell = Cell {
            runs: vec![run(1.0, false, None)],
            ..Cell::default()
        };
        assert!(cell.accounts().passed);
        cell.runs.push(run(1.0, true, Some("lost 3")));
        let check = cell.accounts();
        assert!(!check.passed && check.found.contains("1 of 2") && check.found.contains("lost 3"));
    }
}
