//! Results of the experiments: one JSON file, a scenario an entry, merged so that a scenario that
//! is run again replaces only itself.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::crash::CrashRun;
use crate::faults::FaultsRun;
use crate::meter::Machine;
use crate::sink::Latency;
use crate::stats::{Spread, clean_or_all};
use crate::versus;

/// All that was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) scenarios: BTreeMap<String, Scenario>,
    /// Runs of `inrush-bench crash`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) crash: Vec<CrashRun>,
    /// Comparisons with an earlier build.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) versus: Vec<versus::Row>,
    /// Runs of `inrush-bench faults`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) faults: Vec<FaultsRun>,
}

/// One scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Scenario {
    /// Subject of the scenario, in one sentence.
    pub(crate) shows: String,
    /// Time of its end, RFC 3339.
    pub(crate) ended: String,
    pub(crate) machine: Machine,
    /// Versions of what was measured.
    pub(crate) versions: Vec<String>,
    pub(crate) cells: Vec<Cell>,
    pub(crate) checks: Vec<Check>,
}

/// One subject under one load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) subject: String,
    pub(crate) load: String,
    pub(crate) runs: Vec<Run>,
}

/// One run of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) sent: u64,
    /// Events a second that the generator sent.
    pub(crate) offered_rate: f64,
    pub(crate) delivered: u64,
    pub(crate) kernel_dropped: u64,
    /// Sent, and neither delivered, pending nor dropped by the kernel; negative: came twice.
    pub(crate) unaccounted: i64,
    /// From the begin of the load until all was drained.
    pub(crate) seconds: f64,
    pub(crate) user_us: f64,
    pub(crate) sys_us: f64,
    /// CPU-µs of the process per delivered event.
    pub(crate) us_per_event: f64,
    /// Times the CPU of the bare loop beside it; absent for the bare loops and where none ran.
    pub(crate) bare_ratio: Option<f64>,
    /// CPU-µs per event in the reference state; absent where the bare loop beside it is not the
    /// one that defines that state.
    pub(crate) scaled_us: Option<f64>,
    pub(crate) rss_peak_mib: f64,
    /// Milliseconds of a fixed piece of arithmetic just before: the speed of the host.
    pub(crate) calibration_ms: f64,
    pub(crate) sink_pct: f64,
    pub(crate) others_pct: f64,
    pub(crate) steal_pct: f64,
    /// Of what the sender and this program used of one core, per cent.
    #[serde(default)]
    pub(crate) sender_pct: f64,
    /// Bytes that the process had the kernel write to disks.
    #[serde(default)]
    pub(crate) disk_bytes: u64,
    /// Number of its writes to files and pipes.
    #[serde(default)]
    pub(crate) write_calls: u64,
    /// From the generator to the endpoint; absent where it was not noted.
    #[serde(default)]
    pub(crate) latency: Option<Latency>,
    pub(crate) noisy: bool,
    /// Errors in the ledger or in the generator's run; nothing if both agree.
    pub(crate) wrong: Option<String>,
}

/// Something that holds or does not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Check {
    pub(crate) what: String,
    pub(crate) found: String,
    pub(crate) passed: bool,
}

impl Check {
    pub(crate) fn new(what: impl Into<String>, found: impl Into<String>, passed: bool) -> Self {
        Self {
            what: what.into(),
            found: found.into(),
            passed,
        }
    }
}

impl Cell {
    /// A cell that has only what its runs cost, CPU-µs per event.
    #[cfg(test)]
    pub(crate) fn costing(figures: &[f64]) -> Self {
        let run = |us: &f64| Run {
            us_per_event: *us,
            ..Run::default()
        };
        Self {
            runs: figures.iter().map(run).collect(),
            ..Self::default()
        }
    }

    fn spread(&self, value: impl Fn(&Run) -> Option<f64>) -> Option<Spread> {
        let counted = clean_or_all(&self.runs, |run| run.noisy);
        Spread::of(&counted.into_iter().filter_map(value).collect::<Vec<_>>())
    }

    /// CPU-µs per event as measured, over the runs that count.
    pub(crate) fn raw(&self) -> Option<Spread> {
        self.spread(|run| Some(run.us_per_event))
    }

    /// CPU-µs per event in the reference state, over the runs that count.
    pub(crate) fn scaled(&self) -> Option<Spread> {
        self.spread(|run| run.scaled_us)
    }

    /// Times the CPU of the bare loop, over the runs that count.
    pub(crate) fn ratio(&self) -> Option<Spread> {
        self.spread(|run| run.bare_ratio)
    }

    /// Events a second, over the runs that count.
    pub(crate) fn rate(&self) -> Option<Spread> {
        self.spread(|run| (run.seconds > 0.0).then(|| run.delivered as f64 / run.seconds))
    }

    /// Bytes to disk a second, over the runs that count.
    pub(crate) fn disk_rate(&self) -> Option<Spread> {
        self.spread(|run| (run.disk_bytes > 0).then(|| run.disk_bytes as f64 / run.seconds))
    }

    /// Microseconds within which 99 of 100 events were delivered, over the runs that count.
    pub(crate) fn p99_us(&self) -> Option<Spread> {
        self.spread(|run| Some(run.latency?.p99_us))
    }

    /// Runs that were not disturbed.
    pub(crate) fn clean(&self) -> usize {
        self.runs.iter().filter(|run| !run.noisy).count()
    }

    /// Check that every run's account agrees with the generator's.
    pub(crate) fn accounts(&self) -> Check {
        let wrong: Vec<&str> = self
            .runs
            .iter()
            .filter_map(|run| run.wrong.as_deref())
            .collect();
        let right = self.runs.len() - wrong.len();
        let first = wrong
            .first()
            .map_or(String::new(), |text| format!("; {text}"));
        Check::new(
            format!(
                "the ledger balances and agrees with the generator ({})",
                self.load
            ),
            format!("{right} of {} runs{first}", self.runs.len()),
            wrong.is_empty() && !self.runs.is_empty(),
        )
    }
}

impl Scenario {
    /// Takes in what Inrush did under one load, and whether its accounts are right.
    pub(crate) fn add_inrush(&mut self, load: impl Into<String>, runs: Vec<Run>) {
        let cell = Cell {
            subject: "inrush".to_owned(),
            load: load.into(),
            runs,
        };
        self.checks.push(cell.accounts());
        self.cells.push(cell);
    }

    pub(crate) fn passed(&self) -> bool {
        !self.checks.is_empty() && self.checks.iter().all(|check| check.passed)
    }
}

impl Results {
    /// Results of an earlier run in `file`; empty if there is no such file.
    pub(crate) fn load(file: &Path) -> Result<Self> {
        match std::fs::read_to_string(file) {
            Ok(text) => serde_json::from_str(&text).with_context(|| file.display().to_string()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| file.display().to_string()),
        }
    }

    /// Written beside and renamed, so that an interrupted run leaves the earlier results.
    pub(crate) fn save(&self, file: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        let folder = file
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder {
            std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        let beside = file.with_extension("json.new");
        std::fs::write(&beside, text + "\n").with_context(|| beside.display().to_string())?;
        std::fs::rename(&beside, file).with_context(|| file.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn run(us: f64, noisy: bool, wrong: Option<&str>) -> Run {
        Run {
            us_per_event: us,
            noisy,
            wrong: wrong.map(str::to_owned),
            ..Run::default()
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

    #[test]
    fn results_survive_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("r.json");
        let mut results = Results::load(&file).unwrap();
        let cell = Cell {
            runs: vec![run(0.5, false, None)],
            ..Cell::default()
        };
        let scenario = Scenario {
            cells: vec![cell],
            ..Scenario::default()
        };
        results.scenarios.insert("tcp10".to_owned(), scenario);
        results.save(&file).unwrap();
        assert_eq!(Results::load(&file).unwrap(), results);
        std::fs::write(&file, "{").unwrap();
        assert!(Results::load(&file).is_err());
    }
}
