//! A reload each second under full TCP load: no connection reset, nothing lost, nothing twice.
//!
//! Two configurations take turns, of which one has a second destination: each reload really swaps
//! the graph. What arrives at the HEC endpoint is told apart by sequence number.

use std::time::Duration;

use anyhow::{Context, Result};
use inrush_harness::lab::{BenchHarness, PeriodicTask};
use inrush_harness::measure::{ScenarioCheck, ScenarioResult};
use inrush_harness::sender::Amount;
use inrush_harness::sink::SinkCounts;
use inrush_harness::subject::{Inrush, SinkProcess, User};

use super::{REFERENCE, tell};

const SECONDS: u64 = 60;

/// Seconds in which no reload may have begun: the first, and the last two while all is drained.
const MISSED_MAX: u64 = 3;

const ONE: &str = include_str!("../../inrush/tcp-hec.yaml");
const OTHER: &str = include_str!("../../inrush/tcp-hec-spare.yaml");

/// The destination that both configurations have.
const DESTINATION: &str = "splunk";

/// The destination that comes and goes.
const SPARE: &str = "spare";

/// Runs it.
pub(super) fn run(lab: &BenchHarness) -> Result<ScenarioResult> {
    let shows =
        "a reload each second for 60 s under full TCP load, queue in memory, to a HEC endpoint";
    tell(shows);
    let sink = SinkProcess::start(&["--verify"])?;
    let mut inrush = started(lab, &sink)?;
    let (mut done, mut failed) = (0_u64, Vec::new());
    let (url, config) = (inrush.reload_url(), lab.inrush_config());
    let mut reload = || {
        let template = if done % 2 == 0 { OTHER } else { ONE };
        lab.write_inrush_config(&config, template, Some(&sink))?;
        match inrush_harness::http::post(&url) {
            Ok(()) => done += 1,
            Err(error) => failed.push(format!("{error:#}")),
        }
        Ok(())
    };
    let meanwhile = PeriodicTask {
        every: Duration::from_secs(1),
        act: &mut reload,
    };
    let run = lab.measure(
        &mut inrush,
        Some(&sink),
        &REFERENCE,
        Amount::Seconds(SECONDS),
        Some(meanwhile),
    )?;
    let (counts, swapped) = (sink.counts()?, spare_accepted(&inrush)?);
    let mut scenario = lab.scenario(shows);
    let found = format!("{done}, {} refused{}", failed.len(), first(&failed));
    scenario.checks = vec![ScenarioCheck::new(
        "reloads under load",
        found,
        failed.is_empty() && done + MISSED_MAX >= SECONDS,
    )];
    let found = format!("{swapped} events went to the destination that comes and goes");
    scenario.checks.push(ScenarioCheck::new(
        "the graph was swapped",
        found,
        swapped > 0,
    ));
    scenario.checks.push(arrived(&counts, run.sent));
    let load = "unlimited, 10 conn, 800 B, a reload each second";
    scenario.add_inrush(load, vec![run]);
    Ok(scenario)
}

fn started(lab: &BenchHarness, sink: &SinkProcess) -> Result<Inrush> {
    Ok(lab
        .start_inrush(ONE, Some(sink), User::Ours)?
        .watching(DESTINATION))
}

fn spare_accepted(inrush: &Inrush) -> Result<u64> {
    let ledger = inrush.ledger()?;
    ledger["destinations"][SPARE]["accepted"]
        .as_u64()
        .context("no account of the second one")
}

fn first(failed: &[String]) -> String {
    failed
        .first()
        .map_or(String::new(), |error| format!(" ({error})"))
}

fn arrived(counts: &SinkCounts, sent: u64) -> ScenarioCheck {
    let lost = sent.saturating_sub(counts.distinct);
    ScenarioCheck::new(
        "nothing lost, nothing twice, by sequence number",
        format!(
            "{lost} lost, {} twice, {} without a number, of {sent}",
            counts.duplicates, counts.unnumbered
        ),
        counts.distinct == sent && counts.duplicates == 0 && counts.unnumbered == 0,
    )
}

#[cfg(test)]
mod tests {
    use super::{SinkCounts, arrived};

    #[test]
    fn one_lost_and_one_twice_do_not_cancel() {
        let right = SinkCounts {
            events: 10,
            distinct: 10,
            ..SinkCounts::default()
        };
        assert!(arrived(&right, 10).passed);
        let cancelled = SinkCounts {
            events: 10,
            distinct: 9,
            duplicates: 1,
            ..SinkCounts::default()
        };
        assert!(!arrived(&cancelled, 10).passed);
    }
}
