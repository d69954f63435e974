//! CPU over UDP: Inrush beside a bare recvmmsg-and-discard loop, at several loads.

use anyhow::Result;
use inrush_harness::lab::BenchHarness;
use inrush_harness::measure::{Cell, RunResult, ScenarioCheck, ScenarioResult};
use inrush_harness::sender::{Amount, LoadShape, Wire};
use inrush_harness::stats::bare_ratio;

use super::turns::{PeerKind, PeerTemplates, go_on};
use super::{REFERENCE, tell};

/// Times the CPU of the bare loop that are allowed.
const RATIO_MAX: f64 = 1.15;

const SETUP: PeerTemplates = PeerTemplates {
    wire: Wire::Udp,
    inrush: include_str!("../../inrush/udp-blackhole.yaml"),
    syslog_ng: include_str!("../../peers/syslog-ng-udp.conf"),
    rsyslog: Some(include_str!("../../peers/rsyslog-udp.conf")),
};

/// A datagram a call; the rate is what one sender can hold on two shared cores.
const PLAIN: LoadShape = LoadShape {
    wire: Wire::Udp,
    connections: 1,
    rate: 100_000,
    ..REFERENCE
};

/// Bursts of 8 at the rate of the promise that nothing is lost.
const BURSTS: LoadShape = LoadShape {
    rate: 150_000,
    burst: 8,
    ..PLAIN
};

const LOADS: [(&str, LoadShape); 2] = [
    ("100,000/s, single datagrams", PLAIN),
    ("150,000/s, bursts of 8", BURSTS),
];

/// Runs it.
pub(super) fn run(lab: &BenchHarness) -> Result<ScenarioResult> {
    let shows =
        "UDP, 800 B, queue in memory, to a blackhole, beside a bare recvmmsg-and-discard loop";
    tell(shows);
    let mut scenario = lab.scenario(shows);
    for (load, shape) in LOADS {
        let cells = load_cells(lab, load, &shape)?;
        scenario.checks.push(limit(&cells[1]));
        scenario.checks.push(cells[1].accounts());
        scenario.cells.extend(cells);
    }
    scenario.ended = lab.scenario(shows).ended;
    Ok(scenario)
}

/// The cells of one load: the bare loop first, then Inrush, then the peers that are there.
fn load_cells(lab: &BenchHarness, load: &str, shape: &LoadShape) -> Result<Vec<Cell>> {
    let mut subjects = SETUP.subjects(lab);
    subjects.insert(0, PeerKind::Bare);
    let cell = |who: &PeerKind| Cell::new(who.name(), load, vec![]);
    let mut cells: Vec<Cell> = subjects.iter().map(cell).collect();
    let number = (shape.rate as f64 * lab.terms.seconds) as u64;
    let mut rounds = 0;
    while go_on(lab, rounds, cells[1].clean()) {
        rounds += 1;
        for (cell, who) in cells.iter_mut().zip(&subjects) {
            let run = one(lab, *who, shape, number)?;
            tell(&format!(
                "  {:<10} {:>8.3} µs/event, {} lost, others {:>4.1} %  ({load})",
                who.name(),
                run.us_per_event,
                run.kernel_dropped,
                run.others_pct
            ));
            cell.runs.push(run);
        }
    }
    // One bare run more, so that the last round too has one on either side.
    let last = one(lab, PeerKind::Bare, shape, number)?;
    cells[0].runs.push(last);
    compare(&mut cells);
    Ok(cells)
}

/// A run of round n is compared with the bare runs that began rounds n and n + 1.
fn compare(cells: &mut [Cell]) {
    let Some((bare, others)) = cells.split_first_mut() else {
        return;
    };
    let bare: Vec<f64> = bare.runs.iter().map(|run| run.us_per_event).collect();
    for cell in others {
        for (run, beside) in cell.runs.iter_mut().zip(bare.windows(2)) {
            run.bare_ratio = bare_ratio(run.us_per_event, beside);
        }
    }
}

fn one(lab: &BenchHarness, who: PeerKind, shape: &LoadShape, number: u64) -> Result<RunResult> {
    let mut subject = SETUP.start(lab, who, None)?;
    lab.measure(subject.as_mut(), None, shape, Amount::Number(number), None)
}

fn limit(cell: &Cell) -> ScenarioCheck {
    let median = cell.ratio().map(|spread| spread.median);
    ScenarioCheck::new(
        format!(
            "at most {RATIO_MAX} × the CPU of the bare loop ({})",
            cell.load
        ),
        median.map_or("no figure".to_owned(), |ratio| format!("{ratio:.3} ×")),
        median.is_some_and(|ratio| ratio <= RATIO_MAX),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_run_stands_between_two_bare_runs() {
        let mut cells = [
            super::super::costing(&[1.0, 3.0, 5.0]),
            super::super::costing(&[2.2, 4.0]),
        ];
        compare(&mut cells);
        let ratios: Vec<f64> = cells[1]
            .runs
            .iter()
            .map(|run| run.bare_ratio.unwrap())
            .collect();
        assert!(
            (ratios[0] - 1.1).abs() < 1e-9 && (ratios[1] - 1.0).abs() < 1e-9,
            "{ratios:?}"
        );
        assert!(limit(&cells[1]).passed);
        assert!(!limit(&cells[0]).passed, "the bare loop has no ratio");
    }
}
