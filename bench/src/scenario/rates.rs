//! UDP loss against the rate: by default as root nothing, and as an ordinary user, with the receive
//! buffer that kernels allow by default, far less than peers lose.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use inrush_harness::lab::BenchHarness;
use inrush_harness::measure::{Cell, RunResult, ScenarioCheck, ScenarioResult};
use inrush_harness::meter::is_root;
use inrush_harness::sender::{Amount, LoadShape, Wire};
use inrush_harness::stats::median;
use inrush_harness::subject::User;

use super::turns::{PeerKind, PeerTemplates};
use super::{REFERENCE, tell};

/// Datagrams a second. The first four are those of SC4S's published table.
const RATES: [u64; 7] = [4_500, 9_000, 27_000, 67_000, 150_000, 250_000, 350_000];

/// Bytes of receive buffer that the kernel allows an ordinary user unless told otherwise.
pub(super) const RMEM_MAX_DEFAULT: u64 = 212_992;

const RMEM_MAX: &str = "/proc/sys/net/core/rmem_max";

/// Seconds for which root holds each rate.
const ROOT_SECONDS: u64 = 60;

/// Times as much as we, the best peer must lose.
const PEERS_LOSE_MIN: f64 = 5.0;

const SETUP: PeerTemplates = PeerTemplates {
    wire: Wire::Udp,
    inrush: include_str!("../../inrush/udp-blackhole.yaml"),
    syslog_ng: include_str!("../../peers/syslog-ng-udp.conf"),
    rsyslog: Some(include_str!("../../peers/rsyslog-udp.conf")),
};

const fn shape(rate: u64) -> LoadShape {
    LoadShape {
        wire: Wire::Udp,
        connections: 1,
        rate,
        burst: 8,
        ..REFERENCE
    }
}

fn lost(run: &RunResult) -> u64 {
    run.sent.saturating_sub(run.delivered)
}

/// Runs it as root.
pub(super) fn run(lab: &BenchHarness) -> Result<ScenarioResult> {
    let shows = "UDP, 800 B, bursts of 8, default socket options: loss against rate";
    tell(shows);
    let mut scenario = lab.scenario(shows);
    let check = ScenarioCheck::new("it runs as root", "", is_root());
    scenario.checks.push(check);
    for rate in RATES {
        let mut inrush = lab.start_inrush(SETUP.inrush, None, User::Ours)?;
        let number = Amount::Number(rate * ROOT_SECONDS);
        let run = lab.measure(&mut inrush, None, &shape(rate), number, None)?;
        let (lost, reached) = (lost(&run), run.offered_rate);
        tell(&format!(
            "  root, {rate}/s: {lost} lost of {} at {reached:.0}/s",
            run.sent
        ));
        scenario.checks.push(ScenarioCheck::new(
            format!("0 lost at {rate}/s for {ROOT_SECONDS} s"),
            format!("{lost} of {} at {reached:.0}/s", run.sent),
            lost == 0 && run.wrong.is_none(),
        ));
        scenario.add_inrush(format!("root, {rate}/s"), vec![run]);
    }
    scenario.ended = lab.scenario(shows).ended;
    Ok(scenario)
}

/// Runs it as an ordinary user, beside the peers.
pub(super) fn run_user(lab: &BenchHarness) -> Result<ScenarioResult> {
    let shows =
        "UDP, 800 B, bursts of 8, default socket options, an ordinary user: loss against rate";
    tell(shows);
    let mut scenario = lab.scenario(shows);
    let check = ScenarioCheck::new("root starts it", "", is_root());
    scenario.checks.push(check);
    let _limit = SysctlGuard::set(RMEM_MAX_DEFAULT)?;
    for rate in RATES {
        let cells = as_a_user(lab, rate)?;
        scenario.checks.push(far_less(&cells, rate));
        scenario.checks.push(cells[0].accounts());
        scenario.cells.extend(cells);
    }
    scenario.ended = lab.scenario(shows).ended;
    Ok(scenario)
}

/// Ours first, then the peers that are there, by turns.
fn as_a_user(lab: &BenchHarness, rate: u64) -> Result<Vec<Cell>> {
    let subjects = SETUP.subjects(lab);
    let cell = |who: &PeerKind| {
        Cell::new(
            who.name(),
            format!("user, rmem_max {RMEM_MAX_DEFAULT}, {rate}/s"),
            vec![],
        )
    };
    let mut cells: Vec<Cell> = subjects.iter().map(cell).collect();
    let number = Amount::Number((rate as f64 * lab.terms.seconds) as u64);
    for _ in 0..lab.terms.runs {
        for (cell, who) in cells.iter_mut().zip(&subjects) {
            let mut subject = SETUP.start_as(lab, *who, None, User::Nobody)?;
            let run = lab.measure(subject.as_mut(), None, &shape(rate), number, None)?;
            cell.runs.push(run);
        }
    }
    let said = cells.iter().map(|cell| {
        let lost = loss(cell).unwrap_or(0.0) * 100.0;
        format!("{} {lost:.3} %", cell.subject)
    });
    let said: Vec<String> = said.collect();
    tell(&format!("  user, {rate}/s: lost {}", said.join(", ")));
    Ok(cells)
}

/// The part that is lost, in the median.
fn loss(cell: &Cell) -> Option<f64> {
    let part = |run: &RunResult| lost(run) as f64 / run.sent.max(1) as f64;
    median(&cell.runs.iter().map(part).collect::<Vec<_>>())
}

fn far_less(cells: &[Cell], rate: u64) -> ScenarioCheck {
    let what = format!("an ordinary user loses a fifth of what the best peer does, at {rate}/s");
    let ours = cells.first().and_then(loss);
    let peers = cells.iter().skip(1).filter_map(loss);
    let best = peers.min_by(f64::total_cmp);
    let (Some(ours), Some(best)) = (ours, best) else {
        return ScenarioCheck::new(what, "no peer is here", false);
    };
    let found = format!("{:.3} % beside {:.3} %", ours * 100.0, best * 100.0);
    // Where nobody loses anything there is nothing to show.
    ScenarioCheck::new(what, found, ours * PEERS_LOSE_MIN <= best)
}

/// A limit of the kernel's, set back at the end.
pub(super) struct SysctlGuard(String);

impl SysctlGuard {
    pub(super) fn set(bytes: u64) -> Result<Self> {
        let before = fs::read_to_string(Path::new(RMEM_MAX)).context(RMEM_MAX)?;
        fs::write(RMEM_MAX, bytes.to_string()).context(RMEM_MAX)?;
        Ok(Self(before))
    }
}

impl Drop for SysctlGuard {
    fn drop(&mut self) {
        if let Err(error) = fs::write(RMEM_MAX, &self.0) {
            tell(&format!("{RMEM_MAX} is not set back: {error}"));
        }
    }
}
