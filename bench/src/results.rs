//! Results of the experiments: one JSON file, a scenario an entry, merged so that a scenario that
//! is run again replaces only itself.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use inrush_harness::measure::{Cell, ScenarioResult};
use serde::{Deserialize, Serialize};

use crate::crash::CrashRun;
use crate::faults::FaultsRun;
use crate::rotation::RotationRun;
use crate::versus;

/// All that was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) scenarios: BTreeMap<String, ScenarioResult>,
    /// Runs of `inrush-bench crash`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) crash: Vec<CrashRun>,
    /// Comparisons with an earlier build.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) versus: Vec<versus::VersusRow>,
    /// Runs of `inrush-bench faults`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) faults: Vec<FaultsRun>,
    /// Runs of `inrush-bench rotation`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) rotation: Vec<RotationRun>,
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

    /// Keeps the figures of every cell in place of its runs. Written beside and renamed, so that an
    /// interrupted run leaves the earlier results.
    pub(crate) fn save(&self, file: &Path) -> Result<()> {
        let mut folded = self.clone();
        let scenarios = folded.scenarios.values_mut();
        scenarios
            .flat_map(|one| &mut one.cells)
            .for_each(Cell::fold);
        folded.write(file)
    }

    /// Writes them with every single run.
    pub(crate) fn write(&self, file: &Path) -> Result<()> {
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

    use inrush_harness::measure::RunResult;

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
    fn results_survive_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("r.json");
        let mut results = Results::load(&file).unwrap();
        let cell = Cell {
            runs: vec![run(0.5, false, None)],
            ..Cell::default()
        };
        let scenario = ScenarioResult {
            cells: vec![cell],
            ..ScenarioResult::default()
        };
        results.scenarios.insert("tcp10".to_owned(), scenario);
        results.write(&file).unwrap();
        assert_eq!(Results::load(&file).unwrap(), results);
        results.save(&file).unwrap();
        let kept = Results::load(&file).unwrap();
        let (whole, cell) = (
            &results.scenarios["tcp10"],
            &kept.scenarios["tcp10"].cells[0],
        );
        assert!(cell.runs.is_empty());
        assert_eq!(cell.figures(), whole.cells[0].figures());
        std::fs::write(&file, "{").unwrap();
        assert!(Results::load(&file).is_err());
    }
}
