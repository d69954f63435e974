//! A destination whose backlog is full beside one that lives: the living one loses nothing and
//! is as fast as without it.
//!
//! The backlog of the dead one is full within the first seconds of a run, and stays so: its oldest
//! events go all the time, or its newest. Runs with and without it take turns, at a fixed rate for
//! what an event costs and as fast as it goes for the events a second. `--seconds 600` is the ten
//! minutes of the claim.

use anyhow::{Context, Result};

use super::dead::{RATE, more};
use super::{REFERENCE, tell};
use crate::child::free_port;
use crate::lab::Lab;
use crate::results::{Cell, Check, Run, Scenario};
use crate::sender::{Amount, Shape};
use crate::subject::{Sink, User};

/// The living one may cost this part more, and be this part slower.
const MORE_MAX: f64 = 0.05;

/// Long enough for the backlog to be full for most of a run.
const SECONDS_MIN: u64 = 20;

const ALONE: &str = include_str!("../../inrush/durable-hec.yaml");
const BESIDE: &str = include_str!("../../inrush/durable-hec-full.yaml");
const LIVING: &str = "splunk";
const DYING: &str = "dead";

/// What the dead one drops.
const POLICIES: [&str; 2] = ["drop_oldest", "drop_newest"];

/// Runs it.
pub(super) fn run(lab: &Lab) -> Result<Scenario> {
    let shows = "one HEC destination beside one that is dead and whose backlog (128 MiB) is full";
    tell(shows);
    let mut scenario = lab.scenario(shows);
    for (load, rate) in [("100,000/s", RATE), ("as fast as it goes", 0)] {
        let mut alone = vec![one(lab, None, rate)?];
        let mut beside = POLICIES.map(|_| Vec::new());
        for _ in 0..lab.terms.runs {
            for (policy, runs) in POLICIES.iter().zip(&mut beside) {
                runs.push(one(lab, Some(policy), rate)?);
                alone.push(one(lab, None, rate)?);
            }
        }
        let cell = |subject: String, runs| Cell {
            subject,
            load: format!("{load}, 10 conn, 800 B, to HEC"),
            runs,
        };
        let alone = cell("inrush, alone".to_owned(), alone);
        scenario.checks.push(alone.accounts());
        for (index, (policy, runs)) in POLICIES.iter().zip(beside).enumerate() {
            let beside = cell(format!("inrush, beside a full one, {policy}"), runs);
            scenario
                .checks
                .extend(checks(load, policy, &neighbours(&alone, index), &beside));
            scenario.checks.push(beside.accounts());
            scenario.cells.push(beside);
        }
        scenario.cells.push(alone);
    }
    scenario.ended = lab.scenario(shows).ended;
    Ok(scenario)
}

/// The runs without the dead one on both sides of those with the policy of this number.
fn neighbours(alone: &Cell, policy: usize) -> [Cell; 2] {
    let side = |from: usize| {
        let runs = alone.runs.iter().skip(from).step_by(POLICIES.len());
        Cell {
            runs: runs.cloned().collect(),
            ..alone.clone()
        }
    };
    [side(policy), side(policy + 1)]
}

fn checks(load: &str, policy: &str, [before, after]: &[Cell; 2], beside: &Cell) -> Vec<Check> {
    let pairs = before.runs.iter().zip(&after.runs);
    let alone = Cell {
        runs: pairs
            .zip(&beside.runs)
            .flat_map(|((before, after), _)| [before.clone(), after.clone()])
            .collect(),
        ..before.clone()
    };
    let what = |what: &str| format!("{what}, {load}, {policy}");
    let cost = |run: &Run| Some(run.us_per_event);
    let pace = |run: &Run| Some(run.seconds / run.delivered.max(1) as f64);
    vec![
        more(&what("CPU per event"), MORE_MAX, 2, &alone, beside, cost),
        more(&what("time per event"), MORE_MAX, 2, &alone, beside, pace),
    ]
}

fn one(lab: &Lab, policy: Option<&str>, rate: u64) -> Result<Run> {
    let sink = Sink::start(&["--latency"])?;
    let template = match policy {
        Some(policy) => BESIDE
            .replace("@DEAD@", &free_port()?.to_string())
            .replace("@POLICY@", policy),
        None => ALONE.to_owned(),
    };
    let mut inrush = lab
        .start_inrush(&template, Some(&sink), User::Ours)?
        .watching(LIVING);
    let shape = Shape { rate, ..REFERENCE };
    let seconds = SECONDS_MIN.max(lab.terms.seconds as u64);
    let mut run = lab.measure(
        &mut inrush,
        Some(&sink),
        &shape,
        Amount::Seconds(seconds),
        None,
    )?;
    if policy.is_some() {
        let account = &inrush.ledger()?["destinations"][DYING];
        let dropped = &account["dropped"]["queue_full"];
        let dropped = dropped.as_u64().context("the backlog was not full")?;
        tell(&format!("  {dropped} events dropped for the dead one"));
        let living = &inrush.ledger()?["destinations"][LIVING]["dropped"];
        if living
            .as_object()
            .is_some_and(|reasons| !reasons.is_empty())
        {
            run.wrong = Some(format!("the living one dropped events: {living}"));
        }
    }
    tell(&format!(
        "  {:<12} {:.4} µs/event, {:.0}/s, others {:.1} %",
        policy.unwrap_or("alone"),
        run.us_per_event,
        run.delivered as f64 / run.seconds.max(1e-9),
        run.others_pct,
    ));
    Ok(run)
}
