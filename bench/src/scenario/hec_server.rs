//! The place of a heavy forwarder: HEC in, a sync before each answer, HEC out.

use anyhow::Result;
use inrush_harness::lab::BenchHarness;
use inrush_harness::measure::{Cell, RunResult, ScenarioResult};
use inrush_harness::sender::{Amount, HecRequests, LoadShape, MessageText, Wire};
use inrush_harness::subject::{BareRelay, SinkProcess, User};

use super::cost::{bare_arm, pilot};
use super::rounds::{Arm, limit, rounds};
use super::{REFERENCE, tell};

/// A kind of requests, and CPU-µs that an event of them may cost.
struct HecLoad {
    requests: HecRequests,
    limit_us: f64,
}

/// Collectord's size, a larger one, and the first compressed, in and out.
const LOADS: [HecLoad; 3] = [
    HecLoad {
        requests: HecRequests {
            events: 50,
            gzip: false,
        },
        limit_us: 2.0,
    },
    HecLoad {
        requests: HecRequests {
            events: 500,
            gzip: false,
        },
        limit_us: 1.5,
    },
    HecLoad {
        requests: HecRequests {
            events: 50,
            gzip: true,
        },
        limit_us: 8.0,
    },
];

impl HecLoad {
    fn shape(&self) -> LoadShape {
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

    fn words(&self) -> String {
        let HecRequests { events, gzip } = self.requests;
        let gzip = if gzip { ", gzip in and out" } else { "" };
        format!("8 conn, 1,024 B, {events} a request{gzip}")
    }
}

/// Runs it.
pub(super) fn run(lab: &BenchHarness) -> Result<ScenarioResult> {
    let shows = "HEC in, durable before the answer, HEC out: the place of a heavy forwarder";
    tell(shows);
    let mut arms = Vec::new();
    for load in &LOADS {
        let number = pilot(lab, |number| one(lab, load, number))?;
        let once = move || one(lab, load, number);
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
    let (bare, cells) = rounds(lab, bare_arm(lab)?, arms, judged)?;
    let mut scenario = lab.scenario(shows);
    for (cell, load) in cells.iter().zip(&LOADS) {
        let mut check = limit(cell, load.limit_us);
        check.what = format!("{} ({})", check.what, cell.load);
        scenario.checks.push(check);
    }
    scenario
        .checks
        .extend(cells[..judged].iter().map(Cell::accounts));
    scenario.cells.push(bare);
    scenario.cells.extend(cells);
    Ok(scenario)
}

fn one(lab: &BenchHarness, load: &HecLoad, number: u64) -> Result<RunResult> {
    let sink = SinkProcess::start(&[])?;
    let gzip = if load.requests.gzip { "gzip" } else { "none" };
    let template = include_str!("../../inrush/hec-server.yaml").replace("@GZIP@", gzip);
    let mut inrush = lab.start_inrush(&template, Some(&sink), User::Ours)?;
    let amount = Amount::Number(number);
    lab.measure(&mut inrush, Some(&sink), &load.shape(), amount, None)
}

/// The relay that does least, under the same load.
fn one_bare(lab: &BenchHarness, load: &HecLoad, sync: bool, number: u64) -> Result<RunResult> {
    let sink = SinkProcess::start(&[])?;
    let folder = lab.dir("bare relay")?;
    let mut relay = BareRelay::start(&sink, sync.then_some(&*folder))?;
    let amount = Amount::Number(number);
    lab.measure(&mut relay, Some(&sink), &load.shape(), amount, None)
}
