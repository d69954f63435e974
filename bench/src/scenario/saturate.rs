//! As fast as it goes with `fsync`, beside what `dd oflag=dsync bs=8M` writes: the disk is to be
//! the limit.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use inrush_harness::lab::BenchHarness;
use inrush_harness::measure::{Cell, RunResult, ScenarioCheck, ScenarioResult};
use inrush_harness::sender::Amount;
use inrush_harness::stats::{Spread, median};
use inrush_harness::subject::User;
use nix::sys::statfs::{TMPFS_MAGIC, statfs};

use super::cost::pilot;
use super::{REFERENCE, tell};

/// The part of the speed of `dd` that is to be reached.
const PART_MIN: f64 = 0.80;

/// Blocks of 8 MiB that one `dd` writes.
const DD_BLOCKS: u64 = 96;

const BLOCK_BYTES: u64 = 8 << 20;

/// Runs it.
pub(super) fn run(lab: &BenchHarness) -> Result<ScenarioResult> {
    let shows = "TCP as fast as it goes to a blackhole, fsync, beside dd oflag=dsync bs=8M";
    tell(shows);
    let dir = lab.dir("dd")?;
    let kind = statfs(&dir).context("file system of the scratch directory")?;
    ensure!(
        kind.filesystem_type() != TMPFS_MAGIC,
        "{} is in memory: say --scratch with a directory on the disk to be measured",
        dir.display()
    );
    let number = pilot(lab, |number| one(lab, number))?;
    let (mut runs, mut disk) = (Vec::new(), vec![dd(&dir)?]);
    for _ in 0..lab.terms.runs {
        runs.push(one(lab, number)?);
        disk.push(dd(&dir)?);
        tell_of(runs.last(), disk.last());
    }
    let mut scenario = lab.scenario(shows);
    let cell = Cell::new("inrush, fsync", "unlimited, 10 conn, 800 B", runs);
    scenario.checks = vec![reached(&cell, &disk), limited_by(&cell), cell.accounts()];
    scenario.cells.push(cell);
    Ok(scenario)
}

fn one(lab: &BenchHarness, number: u64) -> Result<RunResult> {
    let template = include_str!("../../inrush/durability.yaml").replace("@DURABILITY@", "fsync");
    let mut inrush = lab.start_inrush(&template, None, User::Ours)?;
    let amount = Amount::Number(number);
    lab.measure(&mut inrush, None, &REFERENCE, amount, None)
}

/// Bytes a second of `dd`.
fn dd(dir: &Path) -> Result<f64> {
    let file = dir.join("zeros");
    let mut command = Command::new("dd");
    command
        .args(["if=/dev/zero", "oflag=dsync", "bs=8M"])
        .arg(format!("count={DD_BLOCKS}"))
        .arg(format!("of={}", file.display()))
        .stderr(Stdio::null());
    let begun = Instant::now();
    let status = command.status().context("dd")?;
    let seconds = begun.elapsed().as_secs_f64();
    ensure!(status.success(), "dd: {status}");
    std::fs::remove_file(&file).with_context(|| file.display().to_string())?;
    Ok((DD_BLOCKS * BLOCK_BYTES) as f64 / seconds)
}

fn tell_of(run: Option<&RunResult>, dd: Option<&f64>) {
    if let (Some(run), Some(dd)) = (run, dd) {
        tell(&format!(
            "  {:>5.0} MB/s, dd {:>5.0} MB/s, {:.3} µs/event, {:.0} % + sender {:.0} % of a core",
            disk_rate(run) / 1e6,
            dd / 1e6,
            run.us_per_event,
            own_pct(run),
            run.sender_pct,
        ));
    }
}

fn disk_rate(run: &RunResult) -> f64 {
    run.disk_bytes as f64 / run.seconds
}

/// The share of one core of the receiver, per cent.
fn own_pct(run: &RunResult) -> f64 {
    (run.user_us + run.sys_us) / run.seconds / 1e4
}

/// Each run against the `dd` before it and the one after it.
fn reached(cell: &Cell, dd: &[f64]) -> ScenarioCheck {
    let beside = dd.windows(2).filter_map(median);
    let parts: Vec<f64> = cell
        .runs
        .iter()
        .zip(beside)
        .map(|(run, dd)| disk_rate(run) / dd)
        .collect();
    let (part, disk) = (Spread::of(&parts), Spread::of(dd));
    let found = part
        .zip(disk)
        .zip(cell.disk_rate())
        .map(|((part, dd), own)| {
            format!(
                "{:.0} % ({:.0}–{:.0}); {:.0} MB/s against {:.0} MB/s",
                100.0 * part.median,
                100.0 * part.min,
                100.0 * part.max,
                own.median / 1e6,
                dd.median / 1e6,
            )
        });
    ScenarioCheck::new(
        format!("at least {:.0} % of dd's bytes a second", 100.0 * PART_MIN),
        found.unwrap_or_default(),
        part.is_some_and(|part| part.median >= PART_MIN),
    )
}

/// Says whether there were cores left: then the disk was the limit.
fn limited_by(cell: &Cell) -> ScenarioCheck {
    let of = |value: fn(&RunResult) -> f64| {
        let values: Vec<f64> = cell.runs.iter().map(value).collect();
        median(&values).unwrap_or(0.0)
    };
    let (own, sender, others) = (
        of(own_pct),
        of(|run| run.sender_pct),
        of(|run| run.others_pct),
    );
    ScenarioCheck::new(
        "for the record: shares of one core",
        format!("receiver {own:.0} %, sender {sender:.0} %, others {others:.0} %"),
        true,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_held_against_the_dd_on_both_sides() {
        let run = |bytes| RunResult {
            disk_bytes: bytes,
            seconds: 1.0,
            ..RunResult::default()
        };
        let cell = |bytes: &[u64]| Cell {
            runs: bytes.iter().copied().map(run).collect(),
            ..Cell::default()
        };
        assert!(reached(&cell(&[80, 160]), &[100.0, 100.0, 300.0]).passed);
        assert!(!reached(&cell(&[79, 158]), &[100.0, 100.0, 300.0]).passed);
        assert!(!reached(&cell(&[]), &[100.0]).passed);
    }
}
