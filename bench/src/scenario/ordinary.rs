//! Rates at which most sites send: a few events a second on each connection, one by one. There an
//! event costs what waking up for it costs.

use anyhow::Result;
use inrush_harness::lab::BenchHarness;
use inrush_harness::measure::{Cell, RunResult, ScenarioCheck, ScenarioResult};
use inrush_harness::sender::{Amount, LoadShape, MessageText};
use inrush_harness::stats::Spread;
use inrush_harness::subject::{SinkProcess, User};

use super::cost::bare_arm;
use super::rounds::{Arm, limit, rounds};
use super::{REFERENCE, tell};

const SHAPE: LoadShape = LoadShape {
    connections: 4,
    size: 400,
    ..REFERENCE
};

/// Events a second over all connections.
const RATES: [u64; 3] = [1_000, 5_000, 50_000];

/// The rate at which cost is judged.
const JUDGED: u64 = 5_000;

/// A run is not shorter: it has to be more than the start of a process.
const SECONDS_MIN: f64 = 5.0;

/// CPU-µs per event at the judged rate in the reference state, to HEC and into the store, and how
/// much more recognition may cost.
const HEC_US: f64 = 4.0;
const STORE_US: f64 = 6.0;
const PACKS_US: f64 = 1.0;

/// From arrival to the answer of the endpoint, at most, for 99 of 100 events.
const P99_MS: f64 = 100.0;

/// Destination of the events.
#[derive(Clone, Copy, PartialEq)]
enum OrdinaryDestination {
    Nowhere,
    Hec,
    Store,
}

impl OrdinaryDestination {
    fn name(self) -> &'static str {
        match self {
            Self::Nowhere => "to nowhere",
            Self::Hec => "to HEC",
            Self::Store => "into the store",
        }
    }

    fn template(self) -> String {
        match self {
            Self::Nowhere => {
                include_str!("../../inrush/durability.yaml").replace("@DURABILITY@", "fsync")
            }
            Self::Hec => include_str!("../../inrush/durable-hec.yaml").to_owned(),
            Self::Store => include_str!("../../inrush/ordinary-store.yaml").to_owned(),
        }
    }
}

/// One thing that is measured.
#[derive(Clone, Copy, PartialEq)]
struct OrdinaryCase {
    to: OrdinaryDestination,
    rate: u64,
    /// Padding, or what made-up devices say.
    text: MessageText,
    packs: bool,
}

impl OrdinaryCase {
    /// All rates to all places; then devices' messages at the judged one, without packs and with
    /// them.
    fn all() -> Vec<Self> {
        let plain = |to, rate| Self {
            to,
            rate,
            text: MessageText::Padding,
            packs: false,
        };
        let mut all = Vec::new();
        for to in [
            OrdinaryDestination::Nowhere,
            OrdinaryDestination::Hec,
            OrdinaryDestination::Store,
        ] {
            all.extend(RATES.map(|rate| plain(to, rate)));
        }
        for to in [OrdinaryDestination::Hec, OrdinaryDestination::Store] {
            all.extend([false, true].map(|packs| Self::devices(to, packs)));
        }
        all
    }

    fn devices(to: OrdinaryDestination, packs: bool) -> Self {
        Self {
            to,
            rate: JUDGED,
            text: MessageText::Mixed,
            packs,
        }
    }

    fn arm(self, lab: &BenchHarness) -> Arm<'_> {
        let what = match self.text {
            MessageText::Padding => "400 B",
            _ => "messages of devices",
        };
        let load = format!("{}/s {}, 4 conn, {what}", self.rate, self.to.name());
        let subject = match self.packs {
            true => "inrush, packs",
            false => "inrush, no packs",
        };
        Arm::new(subject, load, move || self.once(lab))
    }

    /// One run of a fresh process.
    fn once(self, lab: &BenchHarness) -> Result<RunResult> {
        let sink = match self.to {
            OrdinaryDestination::Hec => Some(SinkProcess::start(&["--latency"])?),
            _ => None,
        };
        let template = match self.packs {
            true => self
                .to
                .template()
                .replace("enabled: false", "enabled: true"),
            false => self.to.template(),
        };
        let mut inrush = lab.start_inrush(&template, sink.as_ref(), User::Ours)?;
        let shape = LoadShape {
            rate: self.rate,
            text: self.text,
            ..SHAPE
        };
        let seconds = lab.terms.seconds.max(SECONDS_MIN);
        let amount = Amount::Number((self.rate as f64 * seconds) as u64);
        lab.measure(&mut inrush, sink.as_ref(), &shape, amount, None)
    }
}

/// Runs it.
pub(super) fn run(lab: &BenchHarness) -> Result<ScenarioResult> {
    let shows = "TCP, 4 connections, 400 B, one event at a time at 1,000, 5,000, 50,000/s, queue \
                 on disk; at 5,000/s messages of devices too, without packs and with them";
    tell(shows);
    let kinds = OrdinaryCase::all();
    let arms = kinds.iter().map(|kind| kind.arm(lab)).collect();
    let (bare, cells) = rounds(lab, bare_arm(lab)?, arms, kinds.len())?;
    let mut scenario = lab.scenario(shows);
    let of = |wanted: OrdinaryCase| {
        let place = kinds.iter().position(|kind| *kind == wanted);
        place.and_then(|place| cells.get(place))
    };
    for (to, limit_us) in [
        (OrdinaryDestination::Hec, HEC_US),
        (OrdinaryDestination::Store, STORE_US),
    ] {
        let plain = OrdinaryCase {
            text: MessageText::Padding,
            ..OrdinaryCase::devices(to, false)
        };
        if let Some(cell) = of(plain) {
            let check = limit(cell, limit_us);
            let what = format!("{JUDGED}/s {}: {}", to.name(), check.what);
            scenario.checks.push(ScenarioCheck { what, ..check });
            if to == OrdinaryDestination::Hec {
                scenario.checks.push(soon(cell));
            }
        }
        let both = of(OrdinaryCase::devices(to, false)).zip(of(OrdinaryCase::devices(to, true)));
        if let Some((off, on)) = both {
            scenario.checks.push(dearer(to, off, on));
        }
    }
    scenario.checks.extend(cells.iter().map(Cell::accounts));
    scenario.cells.push(bare);
    scenario.cells.extend(cells);
    Ok(scenario)
}

/// The check that recognition costs little more, in the reference state.
fn dearer(to: OrdinaryDestination, off: &Cell, on: &Cell) -> ScenarioCheck {
    let median = |cell: &Cell| cell.scaled().map(|spread| spread.median);
    let more = median(on).zip(median(off)).map(|(on, off)| on - off);
    ScenarioCheck::new(
        format!(
            "{JUDGED}/s {}: packs cost at most {PACKS_US:.1} CPU-µs more",
            to.name()
        ),
        more.map_or("no figure".to_owned(), |more| format!("{more:+.2}")),
        more.is_some_and(|more| more <= PACKS_US),
    )
}

/// The check that 99 of 100 events are sent within the time.
fn soon(cell: &Cell) -> ScenarioCheck {
    let late: Vec<f64> = cell
        .runs
        .iter()
        .filter_map(|run| Some(run.latency?.p99_us / 1e3))
        .collect();
    let found = Spread::of(&late);
    ScenarioCheck::new(
        format!("{JUDGED}/s to HEC: 99 of 100 within {P99_MS:.0} ms"),
        found.map_or("no figure".to_owned(), |late| {
            format!("{:.1} ms ({:.1}–{:.1})", late.median, late.min, late.max)
        }),
        found.is_some_and(|late| late.median <= P99_MS),
    )
}
