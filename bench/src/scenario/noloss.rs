//! 150,000 datagrams a second for a minute, in bursts: none may be lost.

use anyhow::Result;
use inrush_harness::lab::{BenchHarness, INRUSH_DIR};
use inrush_harness::measure::{ScenarioCheck, ScenarioResult};
use inrush_harness::meter::is_root;
use inrush_harness::sender::{Amount, LoadShape, Wire};
use inrush_harness::subject::{Inrush, User};

use super::{REFERENCE, tell};

const SECONDS: u64 = 60;
const SHAPE: LoadShape = LoadShape {
    wire: Wire::Udp,
    connections: 1,
    rate: 150_000,
    burst: 8,
    ..REFERENCE
};

/// Of what follows the socket.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Configuration {
    /// Every option at its default, to a blackhole.
    Blackhole,
    /// `inrush run` without a file: its destination writes about 10 GB meanwhile.
    BuiltIn,
}

/// Runs it.
pub(super) fn run(lab: &BenchHarness, configuration: Configuration) -> Result<ScenarioResult> {
    let shows = match configuration {
        Configuration::Blackhole => {
            "UDP at 150,000/s in bursts of 8 for 60 s, default socket options, queue in memory, to a blackhole"
        }
        Configuration::BuiltIn => {
            "UDP at 150,000/s in bursts of 8 for 60 s, the built-in default configuration, queue on disk and fsync"
        }
    };
    tell(shows);
    let mut inrush = match configuration {
        Configuration::Blackhole => {
            let template = include_str!("../../inrush/udp-blackhole.yaml");
            lab.start_inrush(template, None, User::Ours)?
        }
        Configuration::BuiltIn => {
            Inrush::start(&lab.inrush, None, &lab.dir(INRUSH_DIR)?, User::Ours)?
        }
    };
    let run = lab.measure(
        &mut inrush,
        None,
        &SHAPE,
        Amount::Number(SHAPE.rate * SECONDS),
        None,
    )?;
    drop(inrush);
    // What the built-in default wrote is not kept for the scenarios that follow.
    lab.dir(INRUSH_DIR)?;
    let lost = run.sent.saturating_sub(run.delivered);
    let mut scenario = lab.scenario(shows);
    scenario
        .checks
        .push(ScenarioCheck::new("it runs as root", "", is_root()));
    scenario
        .checks
        .push(rate_held(run.offered_rate, SHAPE.rate));
    let found = format!(
        "{lost} of {} ({} in the kernel)",
        run.sent, run.kernel_dropped
    );
    scenario.checks.push(ScenarioCheck::new(
        "0 lost",
        found,
        lost == 0 && run.kernel_dropped == 0,
    ));
    let load = "150,000/s, bursts of 8, 60 s";
    scenario.add_inrush(load, vec![run]);
    Ok(scenario)
}

/// A promise at a rate is only shown if the generator held the rate.
pub(super) fn rate_held(rate: f64, wanted: u64) -> ScenarioCheck {
    ScenarioCheck::new(
        format!("the generator held {wanted}/s"),
        format!("{rate:.0}/s"),
        rate >= 0.97 * wanted as f64,
    )
}

#[cfg(test)]
mod tests {
    use super::rate_held;

    #[test]
    fn a_slow_generator_proves_nothing() {
        assert!(rate_held(149_800.0, 150_000).passed);
        assert!(!rate_held(130_000.0, 150_000).passed);
    }
}
