//! UDP overload as an ordinary user: what is lost is in `kernel_dropped`, to the packet.
//!
//! The generator sends as fast as it goes, and in the middle of it the receiver is stopped for a
//! while, so that the kernel must drop however fast the receiver is.

use std::time::Duration;

use anyhow::{Context, Result};
use inrush_harness::child::wait;
use inrush_harness::lab::{BenchHarness, PeriodicTask};
use inrush_harness::measure::{RunResult, ScenarioCheck, ScenarioResult};
use inrush_harness::meter::is_root;
use inrush_harness::sender::{Amount, LoadShape, Wire};
use inrush_harness::subject::{BenchSubject, User};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{REFERENCE, tell};

const RUNS: usize = 20;

/// Datagrams a run: one to three seconds of a generator without a limit.
const NUMBER: u64 = 2_000_000;

/// Time for which the receiver is stopped.
const STOPPED: Duration = Duration::from_millis(150);

const SHAPE: LoadShape = LoadShape {
    wire: Wire::Udp,
    connections: 1,
    rate: 0,
    burst: 64,
    ..REFERENCE
};

/// Runs it.
pub(super) fn run(lab: &BenchHarness) -> Result<ScenarioResult> {
    let shows = "UDP overload as an ordinary user, queue in memory: sent = accepted + kernel_dropped, exactly";
    tell(shows);
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        let run = one(lab)?;
        let (sent, taken, dropped) = (run.sent, run.delivered, run.kernel_dropped);
        let wrong = run.wrong.as_deref().unwrap_or("exact");
        tell(&format!("  {sent} = {taken} + {dropped}: {wrong}"));
        runs.push(run);
    }
    let exact = runs.iter().filter(|run| run.unaccounted == 0).count();
    let overloaded = runs.iter().filter(|run| run.kernel_dropped > 0).count();
    let mut scenario = lab.scenario(shows);
    let of = |n: usize| format!("{n} of {RUNS} runs");
    scenario.checks = vec![
        ScenarioCheck::new(
            "the kernel dropped something",
            of(overloaded),
            overloaded == RUNS,
        ),
        ScenarioCheck::new("sent = accepted + kernel_dropped", of(exact), exact == RUNS),
    ];
    let load = "unlimited, bursts of 64, receiver stopped for 150 ms";
    scenario.add_inrush(load, runs);
    Ok(scenario)
}

fn one(lab: &BenchHarness) -> Result<RunResult> {
    let user = if is_root() { User::Nobody } else { User::Ours };
    let template = include_str!("../../inrush/udp-blackhole.yaml");
    let mut inrush = lab.start_inrush(template, None, user)?;
    let pid = Pid::from_raw(i32::try_from(inrush.pid()).context("process number")?);
    let mut stopped = false;
    let mut stop_once = || {
        if !stopped {
            stopped = true;
            kill(pid, Signal::SIGSTOP).context("stop the receiver")?;
            wait(STOPPED);
            kill(pid, Signal::SIGCONT).context("let the receiver go on")?;
        }
        Ok(())
    };
    let meanwhile = PeriodicTask {
        every: Duration::from_millis(100),
        act: &mut stop_once,
    };
    lab.measure(
        &mut inrush,
        None,
        &SHAPE,
        Amount::Number(NUMBER),
        Some(meanwhile),
    )
}
