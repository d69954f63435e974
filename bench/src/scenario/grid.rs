//! The default configuration beside the best one that a grid search finds, for several loads; UDP
//! is in `grid_udp.rs`.
//!
//! Each point of the grid is tried once. The best few of a load then take turns, which finds the
//! best one; and that one takes turns with the default, in runs that had no part in its choice: the
//! best of many is always in part the luckiest.

use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use inrush_harness::child::wait_until;
use inrush_harness::lab::BenchHarness;
use inrush_harness::measure::{Cell, RunResult, ScenarioCheck, ScenarioResult};
use inrush_harness::sender::{self, Amount, LoadShape};
use inrush_harness::stats::{Spread, median};
use inrush_harness::subject::{BenchSubject, SinkProcess, User};

use super::{REFERENCE, tell};

/// Part of the best point's figure that the default must reach.
pub(super) const PART_MIN: f64 = 0.95;

/// Points of the grid that are compared with the default.
pub(super) const FINALISTS: usize = 3;

/// The default's name among the points.
pub(super) const DEFAULT: &str = "default";

/// Duration of the search for the number of requests that are worth it: "a minute" (decision 0015).
/// After half of that it was found in the midst of its last leap.
const SEARCH: Duration = Duration::from_secs(60);

const TCP: &str = include_str!("../../inrush/tcp-packs.yaml");
const HEC: &str = include_str!("../../inrush/grid-hec.yaml");

/// One configuration.
struct GridPoint {
    name: String,
    template: String,
    /// Time until it is as fast as it gets.
    settles: Duration,
}

/// One load, and the configurations for it: the default first.
struct Grid {
    load: String,
    shape: LoadShape,
    /// Milliseconds after which the collector answers, where there is one.
    delay_ms: Option<u64>,
    points: Vec<GridPoint>,
}

fn point(name: String, template: String) -> GridPoint {
    GridPoint {
        name,
        template,
        settles: Duration::from_secs(1),
    }
}

fn tcp(connections: u64) -> Grid {
    let with = |workers: &str| TCP.replace("@WORKERS@", workers);
    let mut points = vec![point(DEFAULT.to_owned(), with("auto"))];
    // As many as there are cores is what the default is.
    let cores = available_parallelism().map_or(1, usize::from);
    for workers in [1, 2, 3, 4, 8].into_iter().filter(|n| *n != cores) {
        let workers = workers.to_string();
        points.push(point(format!("workers: {workers}"), with(&workers)));
    }
    Grid {
        load: format!("tcp, {connections} connections"),
        shape: LoadShape {
            connections,
            ..REFERENCE
        },
        delay_ms: None,
        points,
    }
}

fn hec(delay_ms: u64) -> Grid {
    let mut default = point(DEFAULT.to_owned(), HEC.replace("@HEC@", ""));
    default.settles = SEARCH;
    let mut points = vec![default];
    for workers in [1, 2, 4, 8, 16, 32] {
        for bytes in [250_000, 1_000_000, 4_000_000] {
            let set = format!(
                "workers: {workers}\n    batch: {{ max_bytes: {bytes}, max_events: {} }}",
                bytes / 200
            );
            let name = format!("workers: {workers}, max_bytes: {bytes}");
            points.push(point(name, HEC.replace("@HEC@", &set)));
        }
    }
    Grid {
        load: format!("hec, {delay_ms} ms"),
        shape: REFERENCE,
        delay_ms: Some(delay_ms),
        points,
    }
}

/// Runs it over TCP.
pub(super) fn run_tcp(lab: &BenchHarness) -> Result<ScenarioResult> {
    run(lab, &[tcp(1), tcp(10)])
}

/// Runs it with a collector that answers after so many milliseconds.
pub(super) fn run_hec(lab: &BenchHarness, delay_ms: u64) -> Result<ScenarioResult> {
    run(lab, &[hec(delay_ms)])
}

fn run(lab: &BenchHarness, grids: &[Grid]) -> Result<ScenarioResult> {
    let shows = "the default configuration beside the best that a grid search finds, 800 B";
    tell(shows);
    let mut scenario = lab.scenario(shows);
    for grid in grids {
        let (cells, check) = grid.search(lab)?;
        scenario.cells.extend(cells);
        scenario.checks.push(check);
    }
    scenario.ended = lab.scenario(shows).ended;
    Ok(scenario)
}

impl Grid {
    fn search(&self, lab: &BenchHarness) -> Result<(Vec<Cell>, ScenarioCheck)> {
        let mut cells: Vec<Cell> = Vec::new();
        for point in &self.points {
            let run = self.once(lab, point, point.settles)?;
            tell(&format!(
                "  {:>9.0} events/s  {}  ({})",
                rate(&run),
                point.name,
                self.load
            ));
            cells.push(Cell::new(point.name.clone(), self.load.clone(), vec![run]));
        }
        let best = self.best(lab, &mut cells)?;
        let mut parts = Vec::new();
        // Both of one age: what runs for half a minute takes a twentieth less than at its start.
        let settles = self.points[0].settles;
        for round in 0..lab.terms.runs {
            // Who goes first changes: a host that slows down does so for both.
            let order = if round % 2 == 0 { [0, best] } else { [best, 0] };
            for at in order {
                cells[at]
                    .runs
                    .push(self.once(lab, &self.points[at], settles)?);
            }
            let last = |at: usize| cells[at].runs.last().map_or(0.0, rate);
            parts.push(last(0) / last(best));
        }
        let part = Spread::of(&parts);
        let check = ScenarioCheck::new(
            format!("the default reaches {PART_MIN} of the best ({})", self.load),
            part.as_ref().map_or("no figure".to_owned(), |part| {
                format!(
                    "{:.3} ({:.3} to {:.3}, {} rounds) of `{}`, the best of {} points",
                    part.median,
                    part.min,
                    part.max,
                    part.n,
                    self.points[best].name,
                    self.points.len()
                )
            }),
            part.is_some_and(|part| part.median >= PART_MIN),
        );
        tell(&format!("  {}: {}", check.what, check.found));
        Ok((cells, check))
    }

    /// The best point but the default: of those that were best at once, the one with the best
    /// median of as many rounds again.
    fn best(&self, lab: &BenchHarness, cells: &mut [Cell]) -> Result<usize> {
        let mut order: Vec<usize> = (1..cells.len()).collect();
        order.sort_by(|a, b| rate(&cells[*b].runs[0]).total_cmp(&rate(&cells[*a].runs[0])));
        order.truncate(FINALISTS);
        for _ in 0..lab.terms.runs {
            for at in &order {
                let point = &self.points[*at];
                cells[*at].runs.push(self.once(lab, point, point.settles)?);
            }
        }
        let rates = |at: usize| cells[at].runs[1..].iter().map(rate).collect::<Vec<_>>();
        let median = |at: usize| median(&rates(at)).unwrap_or(0.0);
        let best = order
            .into_iter()
            .max_by(|a, b| median(*a).total_cmp(&median(*b)));
        best.context("a grid of one point")
    }

    fn once(&self, lab: &BenchHarness, point: &GridPoint, settles: Duration) -> Result<RunResult> {
        match self.delay_ms {
            None => {
                let mut inrush = lab.start_inrush(&point.template, None, User::Ours)?;
                let amount = Amount::Seconds(lab.terms.seconds.ceil() as u64);
                lab.measure(&mut inrush, None, &self.shape, amount, None)
            }
            Some(delay) => self.delivering(lab, point, delay, settles),
        }
    }

    /// Events that arrive at a collector, once the number of requests has settled.
    fn delivering(
        &self,
        lab: &BenchHarness,
        point: &GridPoint,
        delay: u64,
        settles: Duration,
    ) -> Result<RunResult> {
        let sink = SinkProcess::start(&[&format!("--delay={delay}")])?;
        let inrush = lab.start_inrush(&point.template, Some(&sink), User::Ours)?;
        let address = inrush.address(self.shape.wire)?;
        let lasts = Duration::from_secs_f64(lab.terms.seconds.ceil());
        let amount = Amount::Seconds((settles + lasts).as_secs() + 1);
        let sending = sender::start(&lab.inrush, &address, &self.shape, amount, None)?;
        wait_until(sending.begun + settles);
        let (before, begun) = (sink.counts()?.events, Instant::now());
        wait_until(begun + lasts);
        let (after, took) = (sink.counts()?.events, begun.elapsed());
        // It is started anew for each run: what waits in its memory need not be delivered.
        inrush.kill();
        let sent = sending.finish();
        Ok(RunResult {
            sent: sent.map_or(0, |sent| sent.events),
            delivered: after - before,
            seconds: took.as_secs_f64(),
            ..RunResult::default()
        })
    }
}

fn rate(run: &RunResult) -> f64 {
    run.delivered as f64 / run.seconds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_first_point_and_sets_nothing() {
        for grid in [tcp(1), hec(5)] {
            assert_eq!(grid.points[0].name, DEFAULT);
            let left = |point: &GridPoint| point.template.contains("@WORKERS@");
            assert!(!grid.points.iter().any(left));
        }
        assert_eq!(hec(0).points.len(), 19);
        assert_eq!(hec(0).points[0].settles, SEARCH);
    }
}
