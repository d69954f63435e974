//! CPU-µs per event over TCP: Inrush and the peers by turns beside the bare loop.

use anyhow::Result;
use inrush_harness::lab::BenchHarness;
use inrush_harness::measure::{RunResult, ScenarioResult};
use inrush_harness::sender::{Amount, HeaderStyle, LoadShape, Wire};
use inrush_harness::subject::SinkProcess;

use super::rounds::{Arm, limit, rounds};
use super::turns::{PeerKind, PeerTemplates};
use super::{REFERENCE, tell};

/// One such experiment.
pub(super) struct CostExperiment {
    shows: &'static str,
    shape: LoadShape,
    /// CPU-µs per event in the reference state.
    limit_us: f64,
    setup: PeerTemplates,
    hec: bool,
}

pub(super) const TCP10: CostExperiment = CostExperiment {
    shows: "full parse of TCP, 10 connections, 800 B, queue in memory, to a blackhole",
    shape: REFERENCE,
    limit_us: 0.40,
    setup: PeerTemplates {
        wire: Wire::Tcp,
        inrush: include_str!("../../inrush/tcp-blackhole.yaml"),
        syslog_ng: include_str!("../../peers/syslog-ng-tcp.conf"),
        rsyslog: Some(include_str!("../../peers/rsyslog-tcp.conf")),
    },
    hec: false,
};

pub(super) const TCP1: CostExperiment = CostExperiment {
    shows: "full parse of TCP, one connection, 800 B, queue in memory, to a blackhole",
    shape: LoadShape {
        connections: 1,
        ..REFERENCE
    },
    ..TCP10
};

pub(super) const TCP5424: CostExperiment = CostExperiment {
    shows: "full parse of TCP, 10 connections, octet-counted RFC 5424, 800 B, queue in memory, to a blackhole",
    shape: LoadShape {
        header: HeaderStyle::Rfc5424,
        ..REFERENCE
    },
    setup: PeerTemplates {
        syslog_ng: include_str!("../../peers/syslog-ng-rfc5424.conf"),
        rsyslog: Some(include_str!("../../peers/rsyslog-rfc5424.conf")),
        ..TCP10.setup
    },
    ..TCP10
};

pub(super) const TCP250: CostExperiment = CostExperiment {
    shows: "full parse of TCP, 10 connections, 250 B, queue in memory, to a blackhole",
    shape: LoadShape {
        size: 250,
        ..REFERENCE
    },
    limit_us: 0.25,
    ..TCP10
};

/// The record of Fluent Bit's published figures.
pub(super) const TCP209: CostExperiment = CostExperiment {
    shows: "full parse of TCP, 10 connections, 209 B, queue in memory, to a blackhole",
    shape: LoadShape {
        size: 209,
        ..REFERENCE
    },
    limit_us: 0.25,
    ..TCP10
};

/// TLS 1.3: what a faster way through TLS could save lies between this and [`TCP10`].
pub(super) const TLS10: CostExperiment = CostExperiment {
    shows: "full parse of TLS 1.3, 10 connections, 800 B, queue in memory, to a blackhole",
    shape: LoadShape {
        wire: Wire::Tls,
        ..REFERENCE
    },
    limit_us: 1.0,
    setup: PeerTemplates {
        wire: Wire::Tls,
        inrush: include_str!("../../inrush/tls-blackhole.yaml"),
        syslog_ng: include_str!("../../peers/syslog-ng-tls.conf"),
        rsyslog: None,
    },
    ..TCP10
};

pub(super) const HEC: CostExperiment = CostExperiment {
    shows: "TCP, 10 connections, 800 B, queue in memory, to a HEC endpoint without gzip",
    limit_us: 1.3,
    setup: PeerTemplates {
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

/// Runs it.
pub(super) fn run(lab: &BenchHarness, cost: &CostExperiment) -> Result<ScenarioResult> {
    tell(cost.shows);
    let mut arms = Vec::new();
    for who in cost.setup.subjects(lab) {
        arms.push(arm(lab, cost, who)?);
    }
    let (bare, cells) = rounds(lab, arm(lab, cost, PeerKind::Bare)?, arms, 1)?;
    let mut scenario = lab.scenario(cost.shows);
    scenario.checks = vec![limit(&cells[0], cost.limit_us), cells[0].accounts()];
    scenario.cells.push(bare);
    scenario.cells.extend(cells);
    Ok(scenario)
}

fn arm<'a>(lab: &'a BenchHarness, cost: &'a CostExperiment, who: PeerKind) -> Result<Arm<'a>> {
    let shape = shape_of(cost, who);
    let number = pilot(lab, |number| one(lab, cost, who, number))?;
    let once = move || one(lab, cost, who, number);
    Ok(Arm::new(who.name(), load_of(&shape), once))
}

/// Number of messages that make a run of the wanted length, found out by a short run.
pub(super) fn pilot(lab: &BenchHarness, one: impl Fn(u64) -> Result<RunResult>) -> Result<u64> {
    let pilot = one(PILOT)?;
    Ok((pilot.delivered as f64 / pilot.seconds * lab.terms.seconds).max(1.0) as u64)
}

/// A shape in words.
pub(super) fn load_of(shape: &LoadShape) -> String {
    let header = match shape.header {
        HeaderStyle::Rfc3164 => "RFC 3164, newline",
        HeaderStyle::Rfc3164Iso => "RFC 3164 with ISO time, newline",
        HeaderStyle::Rfc5424 => "RFC 5424, octet counted",
    };
    format!("{} conn, {} B, {header}", shape.connections, shape.size)
}

/// The bare loop always takes the load that defines the reference state.
fn shape_of(cost: &CostExperiment, who: PeerKind) -> LoadShape {
    if who == PeerKind::Bare {
        REFERENCE
    } else {
        cost.shape
    }
}

/// The bare loop under the load that defines the reference state.
pub(super) fn bare_arm(lab: &BenchHarness) -> Result<Arm<'_>> {
    arm(lab, &TCP10, PeerKind::Bare)
}

/// One run of a fresh process.
fn one(lab: &BenchHarness, cost: &CostExperiment, who: PeerKind, number: u64) -> Result<RunResult> {
    let sink = (cost.hec && who != PeerKind::Bare)
        .then(|| SinkProcess::start(&[]))
        .transpose()?;
    let sink = sink.as_ref();
    let mut subject = cost.setup.start(lab, who, sink)?;
    let shape = shape_of(cost, who);
    lab.measure(subject.as_mut(), sink, &shape, Amount::Number(number), None)
}
