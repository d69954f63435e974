//! Cost of events that survive: `fsync` and `os` beside `memory`, and the default queue in the path
//! to a HEC endpoint.

use anyhow::{Context, Result};
use inrush_harness::lab::BenchHarness;
use inrush_harness::measure::{Cell, RunResult, ScenarioCheck, ScenarioResult};
use inrush_harness::sender::{Amount, LoadShape};
use inrush_harness::stats::{Spread, clean_or_all};
use inrush_harness::subject::{SinkProcess, User};

use super::cost::{bare_arm, load_of, pilot};
use super::rounds::{Arm, limit, rounds};
use super::{REFERENCE, tell};

/// The rate at which throughput and price are compared.
const RATE: u64 = 100_000;

/// CPU-µs per event that `fsync` may cost more than `memory`.
const PRICE_MAX_US: f64 = 0.30;

/// CPU-µs per event with `fsync` as fast as it goes: what `tcp10` and `tcp1` may cost, and the
/// price.
const UNLIMITED_MAX_US: f64 = 0.40 + PRICE_MAX_US;

/// The part of the throughput of `memory` that is to be kept.
const KEPT_MIN: f64 = 0.90;

/// CPU-µs per event to a HEC endpoint.
const HEC_MAX_US: f64 = 1.5;

const PACED: LoadShape = LoadShape {
    rate: RATE,
    ..REFERENCE
};

const ONE: LoadShape = LoadShape {
    connections: 1,
    ..REFERENCE
};

/// The price of durability, to a blackhole.
pub(super) fn run(lab: &BenchHarness) -> Result<ScenarioResult> {
    let shows = "TCP, 800 B, to a blackhole: what fsync and os cost beside memory";
    tell(shows);
    let number = (RATE as f64 * lab.terms.seconds) as u64;
    let paced = |durability: &'static str| {
        let load = format!("100,000/s, {}", load_of(&PACED));
        let once = move || one(lab, durability, &PACED, number);
        Arm::new(subject(durability), load, once)
    };
    let unlimited = |shape: &'static LoadShape| -> Result<Arm<'_>> {
        let number = pilot(lab, |number| one(lab, "fsync", shape, number))?;
        let load = format!("unlimited, {}", load_of(shape));
        let once = move || one(lab, "fsync", shape, number);
        Ok(Arm::new(subject("fsync"), load, once))
    };
    let arms = vec![
        paced("memory"),
        paced("fsync"),
        paced("os"),
        unlimited(&REFERENCE)?,
        unlimited(&ONE)?,
    ];
    let judged = arms.len();
    let (bare, cells) = rounds(lab, bare_arm(lab)?, arms, judged)?;
    let mut scenario = lab.scenario(shows);
    scenario.checks = checks(&cells)?;
    scenario.checks.extend(cells.iter().map(Cell::accounts));
    scenario.cells.push(bare);
    scenario.cells.extend(cells);
    Ok(scenario)
}

fn subject(durability: &str) -> String {
    format!("inrush, {durability}")
}

fn checks(cells: &[Cell]) -> Result<Vec<ScenarioCheck>> {
    // `os` has no limit: its figure stands beside the others so that nobody takes it for cheaper.
    let [memory, fsync, _os, unlimited @ ..] = cells else {
        anyhow::bail!("a cell is missing");
    };
    let mut checks = vec![kept(memory, fsync)?, price(memory, fsync)?];
    for cell in unlimited {
        let mut check = limit(cell, UNLIMITED_MAX_US);
        check.what = format!("{} ({}, {})", check.what, cell.subject, cell.load);
        checks.push(check);
    }
    Ok(checks)
}

fn kept(memory: &Cell, fsync: &Cell) -> Result<ScenarioCheck> {
    let rate = |cell: &Cell| cell.rate().context("no rate").map(|rate| rate.median);
    let part = rate(fsync)? / rate(memory)?;
    Ok(ScenarioCheck::new(
        format!(
            "at 100,000/s, fsync keeps {:.0} % of memory's rate",
            100.0 * KEPT_MIN
        ),
        format!("{:.1} %", 100.0 * part),
        part >= KEPT_MIN,
    ))
}

/// Cost of `other` beyond `memory`, by pairs of runs of the same round, which follow each other.
/// Both are scaled alike: the noise of the bare loops beside each, on a figure that is five times
/// the limit, would be as large as the limit.
fn price(memory: &Cell, other: &Cell) -> Result<ScenarioCheck> {
    let pairs: Vec<(&RunResult, &RunResult)> = memory.runs.iter().zip(&other.runs).collect();
    let pairs = clean_or_all(&pairs, |(a, b)| a.noisy || b.noisy);
    let state = |run: &RunResult| run.scaled_us.map(|scaled| scaled / run.us_per_event);
    let states: Vec<f64> = pairs
        .iter()
        .flat_map(|(a, b)| [state(a), state(b)])
        .flatten()
        .collect();
    let state = Spread::of(&states).context("nothing to scale by")?.median;
    let prices = pairs
        .iter()
        .map(|(a, b)| state * (b.us_per_event - a.us_per_event));
    let price = Spread::of(&prices.collect::<Vec<_>>()).context("no figure")?;
    Ok(ScenarioCheck::new(
        format!(
            "{} costs at most {PRICE_MAX_US:.2} CPU-µs more than memory",
            other.subject
        ),
        format!(
            "{:+.3} ({:+.3}…{:+.3}, {} pairs)",
            price.median, price.min, price.max, price.n
        ),
        price.median <= PRICE_MAX_US,
    ))
}

fn one(lab: &BenchHarness, durability: &str, shape: &LoadShape, number: u64) -> Result<RunResult> {
    let template = include_str!("../../inrush/durability.yaml").replace("@DURABILITY@", durability);
    let mut inrush = lab.start_inrush(&template, None, User::Ours)?;
    lab.measure(&mut inrush, None, shape, Amount::Number(number), None)
}

/// The default queue, to a HEC endpoint.
pub(super) fn run_hec(lab: &BenchHarness) -> Result<ScenarioResult> {
    let shows = "TCP, 10 connections, 800 B, default queue (fsync), to a HEC endpoint without gzip";
    tell(shows);
    let number = pilot(lab, |number| one_hec(lab, number))?;
    let arm = Arm::new(subject("fsync"), load_of(&REFERENCE), move || {
        one_hec(lab, number)
    });
    let (bare, cells) = rounds(lab, bare_arm(lab)?, vec![arm], 1)?;
    let mut scenario = lab.scenario(shows);
    scenario.checks = vec![limit(&cells[0], HEC_MAX_US), cells[0].accounts()];
    scenario.cells.push(bare);
    scenario.cells.extend(cells);
    Ok(scenario)
}

fn one_hec(lab: &BenchHarness, number: u64) -> Result<RunResult> {
    let sink = SinkProcess::start(&[])?;
    let template = include_str!("../../inrush/durable-hec.yaml");
    let mut inrush = lab.start_inrush(template, Some(&sink), User::Ours)?;
    let amount = Amount::Number(number);
    lab.measure(&mut inrush, Some(&sink), &REFERENCE, amount, None)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn cell(seconds: f64) -> Cell {
        let mut cell = super::super::costing(&[9.0]);
        cell.runs[0].delivered = 1000;
        cell.runs[0].seconds = seconds;
        cell
    }

    /// Runs on a host that is slower than the reference state by a half.
    fn slow(figures: &[f64]) -> Cell {
        let mut cell = super::super::costing(figures);
        for run in &mut cell.runs {
            run.scaled_us = Some(run.us_per_event / 1.5);
        }
        cell
    }

    #[test]
    fn the_price_is_the_median_of_the_pairs_in_the_reference_state() {
        let memory = slow(&[1.5, 2.0, 1.0]);
        assert!(price(&memory, &slow(&[1.94, 2.44, 9.0])).unwrap().passed);
        assert!(!price(&memory, &slow(&[1.96, 2.46, 1.0])).unwrap().passed);
        let unscaled = super::super::costing(&[1.0]);
        assert!(price(&unscaled, &unscaled).is_err());
    }

    #[test]
    fn a_tenth_of_the_rate_may_be_lost_and_no_more() {
        assert!(kept(&cell(0.95), &cell(1.0)).unwrap().passed);
        assert!(!kept(&cell(0.85), &cell(1.0)).unwrap().passed);
    }
}
