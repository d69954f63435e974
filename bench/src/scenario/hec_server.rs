//! The place of a heavy forwarder: HEC in, a sync before each answer, HEC out.

use std::cell::RefCell;

use anyhow::Result;
use inrush_harness::lab::BenchHarness;
use inrush_harness::measure::{Cell, RunResult, ScenarioCheck, ScenarioResult};
use inrush_harness::sender::{Amount, HecRequests, LoadShape, MessageText, Wire};
use inrush_harness::subject::{BareRelay, BenchSubject, HecForwarder, SinkProcess, User};
use inrush_harness::threads::{ThreadShares, ThreadWatch, none_alone};

use super::cost::{bare_arm, pilot};
use super::rounds::{Arm, limit, rounds};
use super::{REFERENCE, tell};

/// A kind of requests, and CPU-µs that an event of them may cost.
pub(super) struct HecLoad {
    requests: HecRequests,
    limit_us: f64,
}

/// Collectord's size, a larger one, and the first compressed, in and out.
pub(super) const LOADS: [HecLoad; 3] = [
    HecLoad {
        requests: HecRequests {
            events: 50,
            gzip: false,
            raw: false,
        },
        limit_us: 2.0,
    },
    HecLoad {
        requests: HecRequests {
            events: 500,
            gzip: false,
            raw: false,
        },
        limit_us: 1.5,
    },
    HecLoad {
        requests: HecRequests {
            events: 50,
            gzip: true,
            raw: false,
        },
        limit_us: 8.0,
    },
];

impl HecLoad {
    pub(super) fn shape(&self) -> LoadShape {
        LoadShape {
            wire: Wire::Hec(self.requests),
            connections: 8,
            size: 1024,
            text: match self.requests.gzip {
                true => MessageText::Mixed,
                false => MessageText::Padding,
            },
            ..REFERENCE
        }
    }

    /// Configuration of Inrush.
    pub(super) fn inrush(&self) -> String {
        let gzip = if self.requests.gzip { "gzip" } else { "none" };
        include_str!("../../inrush/hec-server.yaml").replace("@GZIP@", gzip)
    }

    pub(super) fn words(&self) -> String {
        let HecRequests { events, gzip, .. } = self.requests;
        let gzip = if gzip { ", gzip in and out" } else { "" };
        format!("8 conn, 1,024 B, {events} a request{gzip}")
    }
}

/// A peer with one of its configurations.
struct HecPeerArm {
    forwarder: HecForwarder,
    name: &'static str,
    template: &'static str,
    /// Number of loads, from the first one on, that it takes.
    loads: usize,
}

/// The first two answer before anything is durable.
const PEERS: [HecPeerArm; 3] = [
    HecPeerArm {
        forwarder: HecForwarder::Otel,
        name: "OTel, in memory",
        template: include_str!("../../peers/otel-hec.yaml"),
        loads: LOADS.len(),
    },
    HecPeerArm {
        forwarder: HecForwarder::FluentBit,
        name: "Fluent Bit, in memory",
        template: include_str!("../../peers/fluent-bit-hec.yaml"),
        loads: LOADS.len(),
    },
    HecPeerArm {
        forwarder: HecForwarder::Otel,
        name: "OTel, fsync",
        template: include_str!("../../peers/otel-hec-disk.yaml"),
        loads: 1,
    },
];

/// Runs it.
pub(super) fn run(lab: &BenchHarness) -> Result<ScenarioResult> {
    let shows = "HEC in, durable before the answer, HEC out: the place of a heavy forwarder";
    tell(shows);
    let spans = Spans::default();
    let mut arms = Vec::new();
    for load in &LOADS {
        let number = pilot(lab, |number| one(lab, load, &spans, number))?;
        let spans = &spans;
        let once = move || one(lab, load, spans, number);
        arms.push(Arm::new("inrush, fsync", load.words(), once));
    }
    let judged = arms.len();
    for load in LOADS.iter().filter(|load| !load.requests.gzip) {
        for (name, sync) in [
            ("bare relay, in memory", false),
            ("bare relay, fdatasync", true),
        ] {
            let number = pilot(lab, |number| one_bare(lab, load, sync, number))?;
            let once = move || one_bare(lab, load, sync, number);
            arms.push(Arm::new(name, load.words(), once));
        }
    }
    arms.extend(peer_arms(lab)?);
    let (bare, cells) = rounds(lab, bare_arm(lab)?, arms, judged)?;
    let mut scenario = lab.scenario(shows);
    let peers = [HecForwarder::Otel, HecForwarder::FluentBit];
    let peers = peers.iter().filter(|_| lab.terms.peers);
    scenario
        .versions
        .extend(peers.filter_map(|peer| peer.version()));
    for (cell, load) in cells.iter().zip(&LOADS) {
        let mut check = limit(cell, load.limit_us);
        check.what = format!("{} ({})", check.what, cell.load);
        scenario.checks.push(check);
    }
    let (ours, others) = cells.split_at(judged);
    scenario
        .checks
        .extend(ours.iter().filter_map(|cell| cheaper(cell, others)));
    scenario.checks.push(none_alone(&spans.borrow()));
    scenario.checks.extend(ours.iter().map(Cell::accounts));
    scenario.cells.push(bare);
    scenario.cells.extend(cells);
    Ok(scenario)
}

/// The peers that are there, each under its loads.
fn peer_arms(lab: &BenchHarness) -> Result<Vec<Arm<'_>>> {
    let mut arms = Vec::new();
    for peer in PEERS.iter().filter(|_| lab.terms.peers) {
        if peer.forwarder.program().is_none() {
            tell(&format!("  {}: {}", peer.name, peer.forwarder.missing()));
            continue;
        }
        for load in &LOADS[..peer.loads] {
            let number = pilot(lab, |number| one_peer(lab, load, peer, number))?;
            let once = move || one_peer(lab, load, peer, number);
            arms.push(Arm::new(peer.name, load.words(), once));
        }
    }
    Ok(arms)
}

/// Check that our cell costs less than each peer of `others` under its load; `None` without one.
fn cheaper(ours: &Cell, others: &[Cell]) -> Option<ScenarioCheck> {
    let is_peer = |cell: &&Cell| PEERS.iter().any(|peer| peer.name == cell.subject);
    let peers = others.iter().filter(is_peer);
    let figures = peers
        .filter(|cell| cell.load == ours.load)
        .filter_map(|cell| Some((cell.scaled()?.median, cell.subject.as_str())));
    let (least, peer) = figures.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let own = ours.scaled().map_or(f64::INFINITY, |spread| spread.median);
    Some(ScenarioCheck::new(
        format!("costs less than each peer ({})", ours.load),
        format!("{:.1} × less than {peer} ({least:.3})", least / own),
        own < least,
    ))
}

/// Shares of threads, a span for each run of ours.
type Spans = RefCell<Vec<ThreadShares>>;

fn one(lab: &BenchHarness, load: &HecLoad, spans: &Spans, number: u64) -> Result<RunResult> {
    let sink = SinkProcess::start(&[])?;
    let mut inrush = lab.start_inrush(&load.inrush(), Some(&sink), User::Ours)?;
    let amount = Amount::Number(number);
    let mut watch = ThreadWatch::start(inrush.pid())?;
    let run = lab.measure(&mut inrush, Some(&sink), &load.shape(), amount, None)?;
    spans.borrow_mut().push(watch.look()?);
    Ok(run)
}

/// The relay that does least, under the same load.
fn one_bare(lab: &BenchHarness, load: &HecLoad, sync: bool, number: u64) -> Result<RunResult> {
    let sink = SinkProcess::start(&[])?;
    let folder = lab.dir("bare relay")?;
    let mut relay = BareRelay::start(&sink, sync.then_some(&*folder))?;
    let amount = Amount::Number(number);
    lab.measure(&mut relay, Some(&sink), &load.shape(), amount, None)
}

/// A peer under the same load.
fn one_peer(
    lab: &BenchHarness,
    load: &HecLoad,
    peer: &HecPeerArm,
    number: u64,
) -> Result<RunResult> {
    let sink = SinkProcess::start(&[])?;
    let dir = lab.dir("peer")?;
    let mut started = peer
        .forwarder
        .start(peer.template, &dir, &sink, load.requests.gzip)?;
    let amount = Amount::Number(number);
    lab.measure(&mut started, Some(&sink), &load.shape(), amount, None)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn cell(subject: &str, load: &str, us: f64) -> Cell {
        let run = RunResult {
            scaled_us: Some(us),
            ..RunResult::default()
        };
        Cell::new(subject, load, vec![run])
    }

    #[test]
    fn ours_is_held_against_the_cheapest_peer_of_the_same_load() {
        let others = [
            cell("bare relay, in memory", "a", 0.5),
            cell("OTel, in memory", "a", 20.0),
            cell("Fluent Bit, in memory", "a", 6.0),
            cell("OTel, in memory", "b", 1.0),
        ];
        let check = cheaper(&cell("inrush, fsync", "a", 2.0), &others).unwrap();
        assert!(check.passed && check.found.starts_with("3.0 × less than Fluent Bit"));
        assert!(
            !cheaper(&cell("inrush, fsync", "b", 2.0), &others)
                .unwrap()
                .passed
        );
        assert!(cheaper(&cell("inrush, fsync", "c", 2.0), &others).is_none());
    }
}
