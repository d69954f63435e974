//! CPU over UDP: Inrush beside a bare recvmmsg-and-discard loop, at several loads.

use anyhow::Result;

use super::turns::{Setup, Who, go_on};
use super::{REFERENCE, tell};
use crate::lab::Lab;
use crate::results::{Cell, Check, Run, Scenario};
use crate::sender::{Amount, Shape, Wire};
use crate::stats::bare_ratio;

/// Times the CPU of the bare loop that are allowed.
const RATIO_MAX: f64 = 1.15;

const SETUP: Setup = Setup {
    wire: Wire::Udp,
    inrush: include_str!("../../inrush/udp-blackhole.yaml"),
    syslog_ng: include_str!("../../peers/syslog-ng-udp.conf"),
    rsyslog: Some(include_str!("../../peers/rsyslog-udp.conf")),
};

/// A datagram a call; the rate is what one sender can hold on two shared cores.
const PLAIN: Shape = Shape {
    wire: Wire::Udp,
    connections: 1,
    rate: 100_000,
    ..REFERENCE
};

/// Bursts of 8 at the rate of the promise that nothing is lost.
const BURSTS: Shape = Shape {
    rate: 150_000,
    burst: 8,
    ..PLAIN
};

const LOADS: [(&str, Shape); 2] = [
    ("100,000/s, single datagrams", PLAIN),
    ("150,000/s, bursts of 8", BURSTS),
];

/// Runs it.
pub(super) fn run(lab: &Lab) -> Result<Scenario> {
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
fn load_cells(lab: &Lab, load: &str, shape: &Shape) -> Result<Vec<Cell>> {
    let mut subjects = SETUP.subjects(lab);
    subjects.insert(0, Who::Bare);
    let cell = |who: &Who| Cell {
        subject: who.name().to_owned(),
        load: load.to_owned(),
        runs: vec![],
    };
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
    let last = one(lab, Who::Bare, shape, number)?;
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

fn one(lab: &Lab, who: Who, shape: &Shape, number: u64) -> Result<Run> {
    let mut subject = SETUP.start(lab, who, None)?;
    lab.measure(subject.as_mut(), None, shape, Amount::Number(number), None)
}

fn limit(cell: &Cell) -> Check {
    let median = cell.ratio().map(|spread| spread.median);
    Check::new(
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
        let mut cells = [Cell::costing(&[1.0, 3.0, 5.0]), Cell::costing(&[2.2, 4.0])];
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
