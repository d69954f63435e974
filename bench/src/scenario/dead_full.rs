//! A destination whose backlog is full beside one that lives: the living one loses nothing and
//! is as fast as without it.
//!
//! The backlog of the dead one is full within the first seconds of a run, and stays so: its oldest
//! events go all the time, or its newest. One process runs at a fixed rate for minutes, between two
//! short ones without a dead one. As fast as it goes, short windows with and without it take turns,
//! since a host drifts.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use inrush_harness::child::free_port;
use inrush_harness::lab::{BenchHarness, PeriodicTask};
use inrush_harness::measure::{Cell, RunResult, ScenarioCheck, ScenarioResult};
use inrush_harness::sender::{Amount, LoadShape};
use inrush_harness::stats::Spread;
use inrush_harness::subject::{Inrush, SinkProcess, User, ledger_at};

use super::dead::RATE;
use super::{REFERENCE, tell};

/// The living one may be this part slower.
const SLOWER_MAX: f64 = 0.05;

/// Seconds for which a window is sent to at least. The backlog is full for most of it; what waits
/// for the living one at its end, as fast as it goes, is delivered behind it and counts as time.
const WINDOW_SECONDS_MIN: u64 = 10;

/// A run at a fixed rate without the dead one is at least this part of the one with it, so that
/// its start and its end weigh little.
const ALONE_PART: u64 = 20;

/// Between two looks at the runs at a fixed rate; all of them, since a run ends with a look.
const EVERY: Duration = Duration::from_millis(250);

/// Between two lines for the person who waits.
const TOLD_EVERY: Duration = Duration::from_secs(30);

/// The backlog of the long run is full within this part of it.
const FULL_WITHIN: f64 = 0.1;

const ALONE: &str = include_str!("../../inrush/durable-hec.yaml");
const BESIDE: &str = include_str!("../../inrush/durable-hec-full.yaml");
const LIVING: &str = "splunk";
const DYING: &str = "dead";

/// Policies of the dead destination for its full backlog: which events it drops.
const POLICIES: [&str; 2] = ["drop_oldest", "drop_newest"];

/// Runs it.
pub(super) fn run(lab: &BenchHarness) -> Result<ScenarioResult> {
    let shows = format!(
        "one HEC destination beside one that is dead and whose backlog (128 MiB) is full, \
         {} s at 100,000/s, and as fast as it goes",
        lab.terms.full_seconds
    );
    tell(&shows);
    let mut scenario = lab.scenario(&shows);
    held(lab, &mut scenario)?;
    unlimited(lab, &mut scenario)?;
    for cell in &scenario.cells {
        scenario.checks.push(cell.accounts());
    }
    scenario.ended = lab.scenario(&shows).ended;
    Ok(scenario)
}

/// Minutes at a fixed rate with the dead one, between two windows without it.
fn held(lab: &BenchHarness, scenario: &mut ScenarioResult) -> Result<()> {
    let load = |seconds| format!("100,000/s, 10 conn, 800 B, to HEC, {seconds} s");
    let seconds = lab.terms.full_seconds;
    let window = window_seconds(lab).max(seconds / ALONE_PART);
    let before = one(lab, None, RATE, window)?.0;
    let (beside, full_after) = one(lab, Some(POLICIES[0]), RATE, seconds)?;
    let after = one(lab, None, RATE, window)?.0;
    let alone = cell("inrush, alone", load(window), vec![before, after]);
    let subject = format!("inrush, beside a full one, {}", POLICIES[0]);
    let beside = cell(&subject, load(seconds), vec![beside]);
    let what = format!("100,000/s for {seconds} s, {}", POLICIES[0]);
    scenario.checks.push(as_fast(&what, &alone, &beside));
    scenario.checks.push(full_early(full_after, seconds));
    scenario.cells.extend([alone, beside]);
    Ok(())
}

/// As fast as it goes, in windows that take turns.
fn unlimited(lab: &BenchHarness, scenario: &mut ScenarioResult) -> Result<()> {
    let window = window_seconds(lab);
    let mut alone = vec![one(lab, None, 0, window)?.0];
    let mut beside = POLICIES.map(|_| Vec::new());
    for _ in 0..lab.terms.runs {
        for (policy, runs) in POLICIES.iter().zip(&mut beside) {
            runs.push(one(lab, Some(policy), 0, window)?.0);
        }
        alone.push(one(lab, None, 0, window)?.0);
    }
    let load = "as fast as it goes, 10 conn, 800 B, to HEC";
    let alone = cell("inrush, alone", load.to_owned(), alone);
    for (policy, runs) in POLICIES.iter().zip(beside) {
        let subject = format!("inrush, beside a full one, {policy}");
        let beside = cell(&subject, load.to_owned(), runs);
        let what = format!("as fast as it goes, {policy}");
        scenario.checks.push(as_fast(&what, &alone, &beside));
        scenario.cells.push(beside);
    }
    scenario.cells.push(alone);
    Ok(())
}

fn window_seconds(lab: &BenchHarness) -> u64 {
    WINDOW_SECONDS_MIN.max(lab.terms.seconds as u64)
}

fn cell(subject: &str, load: String, runs: Vec<RunResult>) -> Cell {
    Cell::new(subject, load, runs)
}

/// The check that the median of events a second beside the dead one is near that without it.
fn as_fast(what: &str, alone: &Cell, beside: &Cell) -> ScenarioCheck {
    let rates = |cell: &Cell| {
        let rate = |run: &RunResult| run.delivered as f64 / run.seconds.max(1e-9);
        Spread::of(&cell.runs.iter().map(rate).collect::<Vec<_>>())
    };
    let both = rates(alone).zip(rates(beside));
    let part = both.map(|(alone, beside)| beside.median / alone.median - 1.0);
    let found = both.zip(part).map(|((alone, beside), part)| {
        let text = |one: Spread| {
            format!(
                "{:.0}/s ({:.0}…{:.0}, {})",
                one.median, one.min, one.max, one.n
            )
        };
        format!(
            "{:+.1} %: {} with, {} without",
            100.0 * part,
            text(beside),
            text(alone)
        )
    });
    ScenarioCheck::new(
        format!(
            "delivered to the living one, {what}: at most {:.0} % less than without the dead one",
            100.0 * SLOWER_MAX
        ),
        found.unwrap_or("no figure".to_owned()),
        part.is_some_and(|part| part >= -SLOWER_MAX),
    )
}

/// The check that the backlog was full for nearly all of a run of so many seconds.
fn full_early(after_s: Option<f64>, seconds: u64) -> ScenarioCheck {
    let within = FULL_WITHIN * seconds as f64;
    ScenarioCheck::new(
        format!("the dead one's backlog is full within {within:.0} s"),
        after_s.map_or("never seen full".to_owned(), |after| {
            format!("seen full after {after:.0} s")
        }),
        after_s.is_some_and(|after| after <= within),
    )
}

/// A fresh process under a load, and when its backlog was first seen full, in seconds.
fn one(
    lab: &BenchHarness,
    policy: Option<&str>,
    rate: u64,
    seconds: u64,
) -> Result<(RunResult, Option<f64>)> {
    let sink = SinkProcess::start(&["--latency"])?;
    let template = match policy {
        Some(policy) => BESIDE
            .replace("@DEAD@", &free_port()?.to_string())
            .replace("@POLICY@", policy),
        None => ALONE.to_owned(),
    };
    let mut inrush = lab
        .start_inrush(&template, Some(&sink), User::Ours)?
        .watching(LIVING);
    let admin = inrush.admin().to_owned();
    let (begun, mut full_after) = (Instant::now(), None);
    let mut told = begun;
    let mut look = || {
        let ledger = ledger_at(&admin)?;
        let dropped = dropped(&ledger);
        if dropped.is_some() && full_after.is_none() {
            full_after = Some(begun.elapsed().as_secs_f64());
        }
        if told.elapsed() >= TOLD_EVERY {
            told = Instant::now();
            let delivered = &ledger["destinations"][LIVING]["delivered"];
            let dropped = dropped.unwrap_or(0);
            let after = begun.elapsed().as_secs();
            tell(&format!(
                "  {after:>4} s: {delivered} delivered, {dropped} dropped"
            ));
        }
        Ok(())
    };
    let meanwhile = (rate > 0).then_some(PeriodicTask {
        every: EVERY,
        act: &mut look,
    });
    let shape = LoadShape { rate, ..REFERENCE };
    let amount = Amount::Seconds(seconds);
    let mut run = lab.measure(&mut inrush, Some(&sink), &shape, amount, meanwhile)?;
    if policy.is_some() {
        run.wrong = lost(&inrush)?.or(run.wrong);
    }
    tell(&format!(
        "  {:<12} {:.4} µs/event, {:.0}/s, others {:.1} %",
        policy.unwrap_or("alone"),
        run.us_per_event,
        run.delivered as f64 / run.seconds.max(1e-9),
        run.others_pct,
    ));
    Ok((run, full_after))
}

/// Events that the dead one had no room for; `None` if it had room for all.
fn dropped(ledger: &serde_json::Value) -> Option<u64> {
    ledger["destinations"][DYING]["dropped"]["queue_full"].as_u64()
}

/// Events that the living one lost, in words; fails if the backlog of the dead one was never full.
fn lost(inrush: &Inrush) -> Result<Option<String>> {
    let ledger = inrush.ledger()?;
    let dropped = dropped(&ledger).context("the backlog was not full")?;
    tell(&format!("  {dropped} events dropped for the dead one"));
    let living = &ledger["destinations"][LIVING]["dropped"];
    let some = living
        .as_object()
        .is_some_and(|reasons| !reasons.is_empty());
    Ok(some.then(|| format!("the living one dropped events: {living}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(rates: &[u64]) -> Cell {
        let run = |rate: &u64| RunResult {
            delivered: rate * 20,
            seconds: 20.0,
            ..RunResult::default()
        };
        cell("x", String::new(), rates.iter().map(run).collect())
    }

    #[test]
    fn the_medians_decide_and_not_a_window_that_the_host_spoiled() {
        let alone = rates(&[400_000, 230_000, 410_000]);
        let passed = |beside: &[u64]| as_fast("x", &alone, &rates(beside)).passed;
        assert!(passed(&[390_000, 381_000, 200_000]));
        assert!(!passed(&[379_000, 379_000, 500_000]));
        assert!(!passed(&[]));
    }

    #[test]
    fn a_backlog_that_is_full_late_or_never_shows_nothing() {
        assert!(full_early(Some(60.0), 600).passed);
        assert!(!full_early(Some(61.0), 600).passed);
        assert!(!full_early(None, 600).passed);
    }
}
