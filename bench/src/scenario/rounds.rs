//! Things that are measured by turns beside the bare TCP loop.
//!
//! A round is bare, first, bare, second, and so on; after the last round the bare loop runs once
//! more. A figure is scaled by the median of the bare run before it and the one after it.

use anyhow::Result;
use inrush_harness::lab::BenchHarness;
use inrush_harness::measure::{Cell, RunResult, ScenarioCheck};
use inrush_harness::stats::{bare_ratio, scaled};

use super::tell;
use super::turns::go_on;

/// One thing that is measured again and again, a fresh process each time.
pub(super) struct Arm<'a> {
    subject: String,
    load: String,
    once: Box<dyn Fn() -> Result<RunResult> + 'a>,
}

/// An arm under way, and which bare run came before each of its own.
struct ArmSeries<'a> {
    arm: Arm<'a>,
    runs: Vec<RunResult>,
    bare_before: Vec<usize>,
}

impl<'a> Arm<'a> {
    pub(super) fn new(
        subject: impl Into<String>,
        load: impl Into<String>,
        once: impl Fn() -> Result<RunResult> + 'a,
    ) -> Self {
        Self {
            subject: subject.into(),
            load: load.into(),
            once: Box::new(once),
        }
    }

    fn begin(self) -> ArmSeries<'a> {
        ArmSeries {
            arm: self,
            runs: Vec::new(),
            bare_before: Vec::new(),
        }
    }
}

impl ArmSeries<'_> {
    fn turn(&mut self) -> Result<()> {
        let run = (self.arm.once)()?;
        tell(&format!(
            "  {:<18} {:>9.4} µs/event  {:>9.0} events/s  others {:>4.1} %{}  ({})",
            self.arm.subject,
            run.us_per_event,
            run.delivered as f64 / run.seconds,
            run.others_pct,
            run.wrong
                .as_deref()
                .map_or(String::new(), |wrong| format!("  {wrong}")),
            self.arm.load,
        ));
        self.runs.push(run);
        Ok(())
    }

    fn cell(self) -> Cell {
        Cell::new(self.arm.subject, self.arm.load, self.runs)
    }

    fn clean(&self) -> usize {
        self.runs.iter().filter(|run| !run.noisy).count()
    }
}

/// Measures the bare loop and `arms` by turns, until each of the first `judged` of them has enough
/// clean runs. Gives the cell of the bare loop and those of the arms.
pub(super) fn rounds(
    lab: &BenchHarness,
    bare: Arm<'_>,
    arms: Vec<Arm<'_>>,
    judged: usize,
) -> Result<(Cell, Vec<Cell>)> {
    let mut bare = bare.begin();
    let mut series: Vec<ArmSeries<'_>> = arms.into_iter().map(Arm::begin).collect();
    let mut rounds = 0;
    let clean = |series: &[ArmSeries<'_>]| {
        let judged = series.iter().take(judged);
        judged.map(ArmSeries::clean).min().unwrap_or(0)
    };
    while go_on(lab, rounds, clean(&series)) {
        rounds += 1;
        for one in &mut series {
            bare.turn()?;
            one.bare_before.push(bare.runs.len() - 1);
            one.turn()?;
        }
    }
    bare.turn()?;
    for one in &mut series {
        scale(&mut one.runs, &one.bare_before, &bare.runs);
    }
    let cells = series.into_iter().map(ArmSeries::cell).collect();
    Ok((bare.cell(), cells))
}

fn scale(runs: &mut [RunResult], bare_before: &[usize], bare: &[RunResult]) {
    for (run, before) in runs.iter_mut().zip(bare_before) {
        let beside = bare.iter().skip(*before).take(2);
        let beside: Vec<f64> = beside.map(|run| run.us_per_event).collect();
        run.bare_ratio = bare_ratio(run.us_per_event, &beside);
        run.scaled_us = scaled(run.us_per_event, &beside);
    }
}

/// Check that a cell keeps to so many CPU-µs per event in the reference state.
pub(super) fn limit(cell: &Cell, limit_us: f64) -> ScenarioCheck {
    let median = cell.scaled().map(|spread| spread.median);
    ScenarioCheck::new(
        format!("at most {limit_us:.2} CPU-µs per event in the reference state"),
        median.map_or("no figure".to_owned(), |us| {
            format!("{us:.3} ({} runs)", cell.runs.len())
        }),
        median.is_some_and(|us| us <= limit_us),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use inrush_harness::stats::REFERENCE_US;

    #[test]
    fn each_run_is_scaled_by_the_bare_runs_on_both_sides() {
        let bare = super::super::costing(&[0.1, 0.3, 9.0]);
        let mut cell = super::super::costing(&[0.6, 0.6]);
        scale(&mut cell.runs, &[0, 1], &bare.runs);
        let ratio = |run: &RunResult| run.bare_ratio.unwrap();
        assert!((ratio(&cell.runs[0]) - 3.0).abs() < 1e-9);
        assert!((ratio(&cell.runs[1]) - 0.6 / 4.65).abs() < 1e-9);
        let first = cell.runs[0].scaled_us.unwrap();
        assert!((first - 3.0 * REFERENCE_US).abs() < 1e-9);
    }

    #[test]
    fn the_limit_is_read_in_the_reference_state() {
        let mut cell = super::super::costing(&[0.8]);
        assert!(!limit(&cell, 0.40).passed);
        cell.runs[0].scaled_us = Some(0.40);
        assert!(limit(&cell, 0.40).passed);
        cell.runs[0].scaled_us = Some(0.41);
        assert!(!limit(&cell, 0.40).passed);
    }
}
