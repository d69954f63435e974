//! The safe rate of this host that `inrush doctor` states, against the rate that `inrush run`
//! really takes.
//!
//! The doctor states what a host takes whose senders are elsewhere, and has them on the same CPUs
//! when it measures. Here they are elsewhere: doctor and receiver may use one half of the CPUs,
//! generator and endpoint the other. The rate taken is the highest at which nothing piles up.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use inrush_harness::lab::{BenchHarness, INRUSH_DIR};
use inrush_harness::measure::{RunResult, ScenarioCheck, ScenarioResult};
use inrush_harness::sender::{Amount, HeaderStyle, LoadShape, MessageText, Wire};
use inrush_harness::stats::Spread;
use inrush_harness::subject::{AcceptedSubject, Inrush, SinkProcess, User};
use serde::Deserialize;

use super::tell;

/// Largest distance of the two, as a part of the rate taken.
const APART_MAX: f64 = 0.15;

/// Ends of the search for the rate taken, in parts of the rate stated.
const SEARCHED: (f64, f64) = (0.5, 2.0);

/// Steps of the search: each halves what is left, down to 2.4 % of the rate stated.
const STEPS: u32 = 6;

/// Lag of a run that still counts as none, as a part of its time: what is disturbed for a moment is
/// not yet overloaded.
const LAG_MAX: f64 = 0.05;

const TEMPLATE: &str = include_str!("../../inrush/safe-rate.yaml");

/// Load with which the doctor measures.
const SHAPE: LoadShape = LoadShape {
    wire: Wire::Tcp,
    connections: 4,
    size: 800,
    header: HeaderStyle::Rfc3164,
    text: MessageText::Mixed,
    backdate_hours: 0,
    rate: 0,
    burst: 0,
};

/// The part of the doctor's report that is used here.
#[derive(Deserialize)]
struct SafeRateReport {
    safe_rate: Option<Stated>,
}

/// Statement of the doctor.
#[derive(Clone, Deserialize)]
struct Stated {
    events_per_second: u64,
    limited_by: String,
}

/// One round: what was stated, and what was taken.
struct RateRound {
    stated: Stated,
    taken: RunResult,
}

impl RateRound {
    /// Error of the statement, as a part of the rate taken; positive: too much.
    fn apart(&self) -> f64 {
        self.stated.events_per_second as f64 / self.taken.offered_rate - 1.0
    }
}

/// Runs it.
pub(super) fn run(lab: &BenchHarness) -> Result<ScenarioResult> {
    let shows = "What `inrush doctor` states as the safe rate, against the highest rate at which \
                 `inrush run` lets nothing pile up: packs, default queue, HEC, mixed messages of \
                 800 B";
    tell(shows);
    let halves = Halves::of_this_process()?;
    let pinned = halves.program(&lab.inrush, &lab.dir("pinned")?)?;
    let away = halves.step_aside()?;
    let mut rounds = Vec::new();
    for _ in 0..lab.terms.runs {
        let round = round(lab, &pinned)?;
        tell(&format!(
            "  stated {}/s (limited by {}), taken {:.0}/s: {:+.1} %",
            round.stated.events_per_second,
            round.stated.limited_by,
            round.taken.offered_rate,
            round.apart() * 100.0
        ));
        rounds.push(round);
    }
    drop(away);
    lab.dir(INRUSH_DIR)?;
    let mut scenario = lab.scenario(shows);
    scenario.checks.push(true_within(&rounds));
    let load = format!(
        "4 conn, 800 B mixed, at the highest rate taken, CPUs {} of {}",
        halves.ours.len(),
        halves.ours.len() + halves.others.len()
    );
    scenario.add_inrush(load, rounds.into_iter().map(|round| round.taken).collect());
    Ok(scenario)
}

fn true_within(rounds: &[RateRound]) -> ScenarioCheck {
    let apart: Vec<f64> = rounds.iter().map(RateRound::apart).collect();
    let stated: Vec<f64> = rounds
        .iter()
        .map(|round| round.stated.events_per_second as f64)
        .collect();
    let taken: Vec<f64> = rounds
        .iter()
        .map(|round| round.taken.offered_rate)
        .collect();
    let limits: BTreeSet<&str> = rounds
        .iter()
        .map(|round| round.stated.limited_by.as_str())
        .collect();
    let spreads = (Spread::of(&apart), Spread::of(&stated), Spread::of(&taken));
    let what = format!(
        "the safe rate stated is within {:.0} % of the rate taken, in the median",
        APART_MAX * 100.0
    );
    let (Some(apart), Some(stated), Some(taken)) = spreads else {
        return ScenarioCheck::new(what, "no round", false);
    };
    let found = format!(
        "{:+.1} % ({:+.1} to {:+.1}): {:.0}/s stated, limited by {}; {:.0}/s taken; {} rounds",
        apart.median * 100.0,
        apart.min * 100.0,
        apart.max * 100.0,
        stated.median,
        limits.into_iter().collect::<Vec<_>>().join(", "),
        taken.median,
        apart.n
    );
    ScenarioCheck::new(what, found, apart.median.abs() <= APART_MAX)
}

fn round(lab: &BenchHarness, pinned: &Path) -> Result<RateRound> {
    let stated = state(lab, pinned)?;
    let rate = stated.events_per_second as f64;
    let (mut low, mut high) = (SEARCHED.0 * rate, SEARCHED.1 * rate);
    let slowest = one(lab, pinned, low)?;
    // What a run takes beside its sending where nothing piles up.
    let ease = lag(&slowest, low);
    let mut taken = slowest;
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high);
        let mut run = one(lab, pinned, middle)?;
        if !keeps_pace(&run, middle, ease) {
            // Once is chance: anything else on the host may have held it up.
            run = one(lab, pinned, middle)?;
        }
        if keeps_pace(&run, middle, ease) {
            (low, taken) = (middle, run);
        } else {
            high = middle;
        }
    }
    Ok(RateRound { stated, taken })
}

/// Has the doctor state the rate with the configuration that is then run.
fn state(lab: &BenchHarness, pinned: &Path) -> Result<Stated> {
    lab.dir(INRUSH_DIR)?;
    let config = lab.inrush_config();
    // An endpoint that nobody is at: what the doctor measures does not go there.
    lab.write_inrush_config(&config, &TEMPLATE.replace("@SINK@", "9"), None)?;
    let mut command = Command::new(pinned);
    command
        .args(["doctor", "--rate", "--json", "-c"])
        .arg(&config);
    let output = command.output().context("inrush doctor")?;
    let report: SafeRateReport = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    report.safe_rate.with_context(|| {
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        format!("the doctor states no rate: {said}")
    })
}

/// A fresh process under a steady rate.
fn one(lab: &BenchHarness, pinned: &Path, rate: f64) -> Result<RunResult> {
    let sink = SinkProcess::start(&[])?;
    let dir = lab.dir(INRUSH_DIR)?;
    let config = lab.inrush_config();
    lab.write_inrush_config(&config, TEMPLATE, Some(&sink))?;
    let inrush = Inrush::start(pinned, Some(&config), &dir, User::Ours)?;
    let shape = LoadShape {
        rate: rate as u64,
        ..SHAPE
    };
    let amount = Amount::Number((rate * 2.0 * lab.terms.seconds) as u64);
    lab.measure(
        &mut AcceptedSubject(inrush),
        Some(&sink),
        &shape,
        amount,
        None,
    )
}

/// Seconds that a run took beyond what it takes to send at `rate`.
fn lag(run: &RunResult, rate: f64) -> f64 {
    run.seconds - run.sent as f64 / rate
}

fn keeps_pace(run: &RunResult, rate: f64, ease: f64) -> bool {
    lag(run, rate) <= ease + LAG_MAX * run.sent as f64 / rate
}

/// The CPUs of this process in two halves, for those who are not to disturb each other.
struct Halves {
    ours: Vec<usize>,
    others: Vec<usize>,
}

impl Halves {
    fn of_this_process() -> Result<Self> {
        let status = fs::read_to_string("/proc/self/status").context("/proc/self/status")?;
        let list = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
            .context("/proc/self/status does not say which CPUs are allowed")?;
        let mut cpus = cpus(list.trim())?;
        ensure!(
            cpus.len() > 1,
            "two CPUs are needed: one of them is for the sender"
        );
        let others = cpus.split_off(cpus.len() / 2);
        Ok(Self { ours: cpus, others })
    }

    /// A program that does what `inrush` does, on our half.
    fn program(&self, inrush: &Path, dir: &Path) -> Result<PathBuf> {
        let file = dir.join("inrush");
        let (list, inrush) = (listed(&self.ours), inrush.display());
        let text = format!("#!/bin/sh\nexec taskset -c {list} '{inrush}' \"$@\"\n");
        fs::write(&file, text).with_context(|| file.display().to_string())?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
        Ok(file)
    }

    /// Has this process, and what it starts from now on, leave our half until the end.
    fn step_aside(&self) -> Result<AffinityGuard> {
        pin(&self.others)?;
        let all = self.ours.iter().chain(&self.others).copied();
        Ok(AffinityGuard(all.collect()))
    }
}

/// Comes back to all CPUs.
struct AffinityGuard(Vec<usize>);

impl Drop for AffinityGuard {
    fn drop(&mut self) {
        if let Err(error) = pin(&self.0) {
            tell(&format!(
                "the CPUs of this process stay as they are: {error:#}"
            ));
        }
    }
}

fn pin(cpus: &[usize]) -> Result<()> {
    let mut command = Command::new("taskset");
    let own = std::process::id().to_string();
    command.args(["-pc", &listed(cpus), &own]);
    let output = command.output().context("taskset (package util-linux)")?;
    ensure!(output.status.success(), "{command:?}: {}", output.status);
    Ok(())
}

fn listed(cpus: &[usize]) -> String {
    let words: Vec<String> = cpus.iter().map(ToString::to_string).collect();
    words.join(",")
}

/// `0-3,8`, as the kernel writes it.
fn cpus(list: &str) -> Result<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse()?, last.parse()?);
        cpus.extend(first..=last);
    }
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn round(stated: u64, taken: f64) -> RateRound {
        RateRound {
            stated: Stated {
                events_per_second: stated,
                limited_by: "send".to_owned(),
            },
            taken: RunResult {
                offered_rate: taken,
                ..RunResult::default()
            },
        }
    }

    #[test]
    fn a_statement_that_is_too_high_or_too_low_fails() {
        let passes = |stated| true_within(&[round(stated, 100_000.0)]).passed;
        assert!([85_001, 100_000, 114_999].into_iter().all(passes));
        assert!(![84_000, 116_000].into_iter().any(passes));
        let two_of_three = [130_000, 101_000, 99_000].map(|stated| round(stated, 100_000.0));
        assert!(true_within(&two_of_three).passed);
        assert!(!true_within(&[]).passed);
    }

    #[test]
    fn what_piles_up_is_not_taken() {
        let run = |seconds| RunResult {
            sent: 80_000,
            seconds,
            ..RunResult::default()
        };
        assert!(keeps_pace(&run(8.3), 10_000.0, 0.3));
        assert!(!keeps_pace(&run(8.8), 10_000.0, 0.3));
    }

    #[test]
    fn cpus_are_read_as_the_kernel_writes_them() {
        assert_eq!(cpus("0-2,5").unwrap(), [0, 1, 2, 5]);
        assert!(cpus("x").is_err());
    }
}
