//! CPU-µs per event over TCP: the bare loop, Inrush and the peers by turns.
//!
//! A round is bare, Inrush, bare, syslog-ng, bare, rsyslog; after the last round the bare loop runs
//! once more. A figure is scaled by the median of the bare run before it and the one after it.

use anyhow::Result;

use super::turns::{Setup, Who, go_on};
use super::{REFERENCE, tell};
use crate::lab::Lab;
use crate::results::{Cell, Check, Run, Scenario};
use crate::sender::{Amount, Header, Shape, Wire};
use crate::stats::{bare_ratio, scaled};
use crate::subject::Sink;

/// One such experiment.
pub(super) struct Cost {
    shows: &'static str,
    shape: Shape,
    /// CPU-µs per event in the reference state.
    limit_us: f64,
    setup: Setup,
    hec: bool,
}

pub(super) const TCP10: Cost = Cost {
    shows: "full parse of TCP, 10 connections, 800 B, to a blackhole",
    shape: REFERENCE,
    limit_us: 0.40,
    setup: Setup {
        wire: Wire::Tcp,
        inrush: include_str!("../../inrush/tcp-blackhole.yaml"),
        syslog_ng: include_str!("../../peers/syslog-ng-tcp.conf"),
        rsyslog: Some(include_str!("../../peers/rsyslog-tcp.conf")),
    },
    hec: false,
};

pub(super) const TCP1: Cost = Cost {
    shows: "full parse of TCP, one connection, 800 B, to a blackhole",
    shape: Shape {
        connections: 1,
        ..REFERENCE
    },
    ..TCP10
};

pub(super) const TCP5424: Cost = Cost {
    shows: "full parse of TCP, 10 connections, octet-counted RFC 5424, 800 B, to a blackhole",
    shape: Shape {
        header: Header::Rfc5424,
        ..REFERENCE
    },
    setup: Setup {
        syslog_ng: include_str!("../../peers/syslog-ng-rfc5424.conf"),
        rsyslog: Some(include_str!("../../peers/rsyslog-rfc5424.conf")),
        ..TCP10.setup
    },
    ..TCP10
};

pub(super) const TCP250: Cost = Cost {
    shows: "full parse of TCP, 10 connections, 250 B, to a blackhole",
    shape: Shape {
        size: 250,
        ..REFERENCE
    },
    limit_us: 0.25,
    ..TCP10
};

pub(super) const HEC: Cost = Cost {
    shows: "TCP, 10 connections, 800 B, to a HEC endpoint without gzip",
    limit_us: 1.3,
    setup: Setup {
        inrush: include_str!("../../inrush/tcp-hec.yaml"),
        syslog_ng: include_str!("../../peers/syslog-ng-hec.conf"),
        rsyslog: None,
        ..TCP10.setup
    },
    hec: true,
    ..TCP10
};

/// Messages of the run that only finds out how many make a run of the wanted length.
const PILOT: u64 = 300_000;

/// A cell under way: how many messages make a run, and which bare run came before each.
struct Series {
    who: Who,
    number: u64,
    cell: Cell,
    bare_before: Vec<usize>,
}

/// Runs it.
pub(super) fn run(lab: &Lab, cost: &Cost) -> Result<Scenario> {
    tell(cost.shows);
    let mut bare = series(lab, cost, Who::Bare)?;
    let mut others = Vec::new();
    for who in cost.setup.subjects(lab) {
        others.push(series(lab, cost, who)?);
    }
    let mut rounds = 0;
    while go_on(lab, rounds, &others[0].cell) {
        rounds += 1;
        for other in &mut others {
            turn(lab, cost, &mut bare)?;
            other.bare_before.push(bare.cell.runs.len() - 1);
            turn(lab, cost, other)?;
        }
    }
    turn(lab, cost, &mut bare)?;
    for other in &mut others {
        scale(other, &bare.cell);
    }
    let mut scenario = lab.scenario(cost.shows);
    scenario.checks = vec![
        limit(&others[0].cell, cost.limit_us),
        others[0].cell.accounts(),
    ];
    scenario.cells.push(bare.cell);
    scenario
        .cells
        .extend(others.into_iter().map(|other| other.cell));
    Ok(scenario)
}

fn series(lab: &Lab, cost: &Cost, who: Who) -> Result<Series> {
    let pilot = one(lab, cost, who, PILOT)?;
    let number = (pilot.delivered as f64 / pilot.seconds * lab.seconds).max(1.0) as u64;
    let cell = Cell {
        subject: who.name().to_owned(),
        load: load_of(cost, who),
        ..Cell::default()
    };
    Ok(Series {
        who,
        number,
        cell,
        bare_before: Vec::new(),
    })
}

fn load_of(cost: &Cost, who: Who) -> String {
    let shape = shape_of(cost, who);
    let header = match shape.header {
        Header::Rfc3164Iso => "RFC 3164 with ISO time, newline",
        Header::Rfc5424 => "RFC 5424, octet counted",
    };
    format!("{} conn, {} B, {header}", shape.connections, shape.size)
}

/// The bare loop always takes the load that defines the reference state.
fn shape_of(cost: &Cost, who: Who) -> Shape {
    if who == Who::Bare {
        REFERENCE
    } else {
        cost.shape
    }
}

fn turn(lab: &Lab, cost: &Cost, series: &mut Series) -> Result<()> {
    let run = one(lab, cost, series.who, series.number)?;
    tell(&format!(
        "  {:<10} {:>9.4} µs/event  {:>9.0} events/s  others {:>4.1} %{}",
        series.who.name(),
        run.us_per_event,
        run.delivered as f64 / run.seconds,
        run.others_pct,
        run.wrong
            .as_deref()
            .map_or(String::new(), |wrong| format!("  {wrong}")),
    ));
    series.cell.runs.push(run);
    Ok(())
}

/// One run of a fresh process.
fn one(lab: &Lab, cost: &Cost, who: Who, number: u64) -> Result<Run> {
    let sink = (cost.hec && who != Who::Bare)
        .then(|| Sink::start(false))
        .transpose()?;
    let sink = sink.as_ref();
    let mut subject = cost.setup.start(lab, who, sink)?;
    let shape = shape_of(cost, who);
    lab.measure(subject.as_mut(), sink, &shape, Amount::Number(number), None)
}

fn scale(series: &mut Series, bare: &Cell) {
    for (run, before) in series.cell.runs.iter_mut().zip(&series.bare_before) {
        let beside = bare.runs.iter().skip(*before).take(2);
        let beside: Vec<f64> = beside.map(|run| run.us_per_event).collect();
        run.bare_ratio = bare_ratio(run.us_per_event, &beside);
        run.scaled_us = scaled(run.us_per_event, &beside);
    }
}

fn limit(cell: &Cell, limit_us: f64) -> Check {
    let median = cell.scaled().map(|spread| spread.median);
    Check::new(
        format!("at most {limit_us:.2} CPU-µs per event in the reference state"),
        median.map_or("no figure".to_owned(), |us| {
            format!("{us:.3} ({} runs)", cell.runs.len())
        }),
        median.is_some_and(|us| us <= limit_us),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::stats::REFERENCE_US;

    #[test]
    fn each_run_is_scaled_by_the_bare_runs_on_both_sides() {
        let bare = Cell::costing(&[0.1, 0.3, 9.0]);
        let cell = Cell::costing(&[0.6, 0.6]);
        let mut series = Series {
            who: Who::Inrush,
            number: 1,
            cell,
            bare_before: vec![0, 1],
        };
        scale(&mut series, &bare);
        let ratio = |run: &Run| run.bare_ratio.unwrap();
        assert!((ratio(&series.cell.runs[0]) - 3.0).abs() < 1e-9);
        assert!((ratio(&series.cell.runs[1]) - 0.6 / 4.65).abs() < 1e-9);
        let first = series.cell.runs[0].scaled_us.unwrap();
        assert!((first - 3.0 * REFERENCE_US).abs() < 1e-9);
    }

    #[test]
    fn the_limit_is_read_in_the_reference_state() {
        let mut cell = Cell::costing(&[0.8]);
        assert!(!limit(&cell, 0.40).passed);
        cell.runs[0].scaled_us = Some(0.40);
        assert!(limit(&cell, 0.40).passed);
        cell.runs[0].scaled_us = Some(0.41);
        assert!(!limit(&cell, 0.40).passed);
    }
}
