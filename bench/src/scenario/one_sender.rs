//! One hot sender: how much more it gets through with two workers than with one, and whether its
//! order is kept.

use std::process::Command;

use anyhow::{Context, Result};
use inrush_harness::http;
use inrush_harness::lab::BenchHarness;
use inrush_harness::measure::{Cell, RunResult, ScenarioCheck, ScenarioResult};
use inrush_harness::sender::{Amount, HEC_TOKEN, HecRequests, LoadShape, Wire};
use inrush_harness::stats::{Spread, median};
use inrush_harness::subject::{BenchSubject, Inrush, User};
use serde_json::Value;

use super::rates::{RMEM_MAX_DEFAULT, SysctlGuard};
use super::turns::go_on;
use super::{REFERENCE, tell};

/// Times the throughput of one worker that two must have.
const GAIN_MIN: f64 = 1.7;

/// Rate that the sender offers over UDP, in terms of what one worker takes over TCP: more than two
/// can. What is too much waits in the receive buffer, which has room for seconds.
const OFFERED: f64 = 2.05;

/// Transforms: some 10 CPU-µs for each event each.
const TRANSFORMS: usize = 4;

/// Events of the run that looks at the order alone which must arrive. Over UDP a tenth more are
/// sent: some may be lost. Of an ordinary user, whose buffers are small, half must arrive.
const ORDERED_EVENTS: u64 = 100_000_000;

/// Of the batches that other cores studied, this part may have been late: p99.
const LATE_MAX: f64 = 0.01;

/// What two workers must take of one HEC connection, in terms of one: its client waits for each
/// answer, so that they are only to be no slower.
const HEC_GAIN_MIN: f64 = 0.95;

/// Lines, recognised and changed; and objects, which are neither, so that nothing is lent.
const HEC: [(HecRequests, &str); 2] = [
    (
        HecRequests {
            events: 5000,
            gzip: false,
            raw: true,
        },
        TEMPLATE,
    ),
    (
        HecRequests {
            events: 5000,
            gzip: false,
            raw: false,
        },
        PLAIN,
    ),
];

const TEMPLATE: &str = include_str!("../../inrush/one-sender.yaml");
const PLAIN: &str = include_str!("../../inrush/one-sender-plain.yaml");
const ORDER: &str = include_str!("../../inrush/one-sender-order.yaml");

const SHAPE: LoadShape = LoadShape {
    connections: 1,
    ..REFERENCE
};

/// Runs it: two workers beside one, over TCP and over UDP.
pub(super) fn run(lab: &BenchHarness) -> Result<ScenarioResult> {
    let shows = "one sender, packs and expressions, to a blackhole: two workers beside one";
    tell(shows);
    let mut scenario = lab.scenario(shows);
    let mut tcp_rate = 0.0;
    for wire in [Wire::Tcp, Wire::Udp] {
        let rate = match wire {
            Wire::Tcp | Wire::Tls | Wire::Hec(_) => 0,
            Wire::Udp => (tcp_rate * OFFERED) as u64,
        };
        let burst = if wire == Wire::Udp { 32 } else { 0 };
        let shape = LoadShape {
            wire,
            rate,
            burst,
            ..SHAPE
        };
        let (cells, late) = pair(lab, &heavy(TEMPLATE), &shape)?;
        let rates = cells.iter().map(|cell| cell.rate().map(|rate| rate.median));
        let rates: Vec<f64> = rates.collect::<Option<_>>().context("no rate")?;
        tcp_rate = rates[0];
        scenario.checks.push(gain(&cells, GAIN_MIN));
        scenario.checks.push(late_check(&late, wire));
        scenario.checks.extend(cells.iter().map(Cell::accounts));
        scenario.cells.extend(cells);
    }
    scenario.ended = lab.scenario(shows).ended;
    Ok(scenario)
}

/// Runs it for one HEC client. A scenario of its own: builds from before the source cannot run it.
pub(super) fn run_hec(lab: &BenchHarness) -> Result<ScenarioResult> {
    let shows = "one HEC client, to a blackhole: two workers beside one";
    tell(shows);
    let mut scenario = lab.scenario(shows);
    for (requests, template) in HEC {
        let wire = Wire::Hec(requests);
        let shape = LoadShape { wire, ..SHAPE };
        let (cells, _) = pair(lab, &heavy(template), &shape)?;
        scenario.checks.push(gain(&cells, HEC_GAIN_MIN));
        scenario.checks.extend(cells.iter().map(Cell::accounts));
        scenario.cells.extend(cells);
    }
    scenario.ended = lab.scenario(shows).ended;
    Ok(scenario)
}

/// The source for a kind of load, as a line of a configuration.
fn source(wire: Wire) -> String {
    match wire {
        Wire::Hec(HecRequests { raw, .. }) => format!(
            "hec: {{ type: splunk_hec, listen: \"127.0.0.1:0\", \
             tokens: [{{ token: {HEC_TOKEN}, index: main, packs: {raw} }}] }}"
        ),
        Wire::Tcp | Wire::Udp | Wire::Tls => {
            let scheme = wire.scheme();
            format!("syslog: {{ type: syslog, listen: [\"{scheme}://127.0.0.1:0\"] }}")
        }
    }
}

/// The load in words.
fn words(wire: Wire) -> &'static str {
    match wire {
        Wire::Hec(HecRequests { raw: true, .. }) => "hec, lines",
        Wire::Hec(_) => "hec, objects",
        Wire::Tcp | Wire::Udp | Wire::Tls => wire.scheme(),
    }
}

/// The configuration with so many transforms that what the sender costs, on the same two cores, is
/// little beside them.
fn heavy(template: &str) -> String {
    let parts = template.split_once("transforms:\n");
    let parts = parts.and_then(|(head, rest)| Some((head, rest.split_once("sources:\n")?)));
    let Some((head, (transform, rest))) = parts else {
        return template.to_owned();
    };
    let named = |n: usize| transform.replace("@NAME@", &format!("tier{n}"));
    let transforms: String = (0..TRANSFORMS).map(named).collect();
    format!("{head}transforms:\n{transforms}sources:\n{rest}")
}

/// One worker and two by turns, and the part of the lent batches that were late with two.
fn pair(lab: &BenchHarness, template: &str, shape: &LoadShape) -> Result<([Cell; 2], Vec<f64>)> {
    let load = format!("{}, one sender, 800 B", words(shape.wire));
    let mut cells = [1, 2]
        .map(|workers| Cell::new(format!("inrush, workers: {workers}"), load.clone(), vec![]));
    let (mut rounds, mut late) = (0, Vec::new());
    while go_on(lab, rounds, rounds) {
        rounds += 1;
        for (cell, workers) in cells.iter_mut().zip(["1", "2"]) {
            let template = template.replace("@WORKERS@", workers);
            let template = template.replace("@SOURCE@", &source(shape.wire));
            let mut inrush = lab.start_inrush(&template, None, User::Ours)?;
            let seconds = Amount::Seconds(lab.terms.seconds.ceil() as u64);
            let run = lab.measure(&mut inrush, None, shape, seconds, None)?;
            let shared = OffloadMetrics::of(&inrush)?;
            tell(&format!(
                "  workers {workers}  {:>9.0} events/s  {:>7.3} µs/event  {} of {} lent batches late  ({load})",
                rate(&run),
                run.us_per_event,
                shared.late,
                shared.batches,
            ));
            if workers == "2" && shared.batches > 0 {
                late.push(shared.late as f64 / shared.batches as f64);
            }
            cell.runs.push(run);
        }
    }
    Ok((cells, late))
}

fn rate(run: &RunResult) -> f64 {
    run.delivered as f64 / run.seconds
}

/// Each run with two workers beside the run with one that came before it.
fn gain(cells: &[Cell; 2], least: f64) -> ScenarioCheck {
    let pairs = cells[0].runs.iter().zip(&cells[1].runs);
    let gains: Vec<f64> = pairs.map(|(one, two)| rate(two) / rate(one)).collect();
    let spread = Spread::of(&gains);
    ScenarioCheck::new(
        format!(
            "two workers take {least} × what one does ({})",
            cells[0].load
        ),
        spread.map_or("no figure".to_owned(), |s| {
            format!(
                "{:.2} × ({:.2} to {:.2}, {} pairs)",
                s.median, s.min, s.max, s.n
            )
        }),
        spread.is_some_and(|spread| spread.median >= least),
    )
}

fn late_check(late: &[f64], wire: Wire) -> ScenarioCheck {
    let part = median(late);
    ScenarioCheck::new(
        format!("p99 of the delay by it under 5 ms ({})", wire.scheme()),
        part.map_or("nothing was lent".to_owned(), |part| {
            format!("{:.2} % of the batches later", part * 100.0)
        }),
        part.is_some_and(|part| part <= LATE_MAX),
    )
}

/// Metrics of the work that was shared.
struct OffloadMetrics {
    batches: u64,
    late: u64,
}

impl OffloadMetrics {
    fn of(inrush: &Inrush) -> Result<Self> {
        let page = http::get(&format!("{}/metrics", inrush.admin()))?;
        let read = |name: &str| {
            let line = page.lines().find(|line| line.starts_with(name));
            let value = line.and_then(|line| line.rsplit(' ').next());
            let value: Option<f64> = value.and_then(|text| text.parse().ok());
            value.map(|value| value as u64).context(name.to_owned())
        };
        Ok(Self {
            batches: read("inrush_source_shared_batches_total{")?,
            late: read("inrush_source_shared_late_batches_total{")?,
        })
    }
}

/// Runs it: the order of a hundred million events, over UDP and over TCP.
pub(super) fn run_order(lab: &BenchHarness) -> Result<ScenarioResult> {
    let shows = "the order of one sender's events, packs on, to a file";
    tell(shows);
    let mut scenario = lab.scenario(shows);
    for wire in [Wire::Udp, Wire::Tcp] {
        scenario.checks.extend(order(lab, wire, User::Ours)?);
    }
    Ok(scenario)
}

/// Runs it: the same over UDP as an ordinary user, whose sockets are many, read as one.
pub(super) fn run_order_user(lab: &BenchHarness) -> Result<ScenarioResult> {
    let shows = "the order of one sender's events over UDP, an ordinary user, packs on, to a file";
    tell(shows);
    let mut scenario = lab.scenario(shows);
    let _limit = SysctlGuard::set(RMEM_MAX_DEFAULT)?;
    scenario.checks = order(lab, Wire::Udp, User::Nobody)?;
    Ok(scenario)
}

fn order(lab: &BenchHarness, wire: Wire, user: User) -> Result<Vec<ScenarioCheck>> {
    let scheme = wire.scheme();
    let offered = match wire {
        Wire::Udp => ORDER_OFFERED_UDP,
        Wire::Tcp | Wire::Tls | Wire::Hec(_) => ORDER_OFFERED_TCP,
    };
    let rate = (one_worker(lab)? * offered) as u64;
    let template = ORDER.replace("@LISTEN@", scheme);
    let template = template.replace("@WORKERS@", "auto");
    let inrush = lab.start_inrush(&template, None, user)?;
    let to = format!("{scheme}://{}", inrush.address(wire)?);
    let (events, least) = match (wire, user) {
        (Wire::Udp, User::Ours) => (ORDERED_EVENTS / 10 * 11, ORDERED_EVENTS),
        (Wire::Udp, User::Nobody) => (ORDERED_EVENTS / 10 * 11, ORDERED_EVENTS / 2),
        (Wire::Tcp | Wire::Tls | Wire::Hec(_), _) => (ORDERED_EVENTS / 10, ORDERED_EVENTS / 10),
    };
    let mut load = Command::new(&lab.inrush);
    load.args(["load", &to, "--json", "--drain-timeout=120s"])
        .arg(format!("--number={events}"))
        .arg(format!("--rate={rate}"))
        .arg(format!("--size={ORDER_BYTES}"))
        .arg(format!(
            "--verify={}",
            lab.inrush_dir().join("order.log").display()
        ));
    if wire == Wire::Udp {
        load.arg("--gso=8");
    }
    let out = load.output().context("inrush load")?;
    let report: Value = serde_json::from_slice(&out.stdout)
        .with_context(|| format!("inrush load: {}", String::from_utf8_lossy(&out.stderr)))?;
    let markers = &report["verify"]["markers"];
    let count = |name: &str| markers[name].as_u64();
    let shared = OffloadMetrics::of(&inrush)?;
    let ledger = inrush.ledger()?;
    let received = count("received").unwrap_or(0);
    let dropped = ledger["sources"]["syslog"]["kernel_dropped"].as_u64();
    let dropped = dropped.unwrap_or(0);
    let found = format!(
        "{} out of order, {} duplicated, of {received} that arrived, at {rate}/s; {} did not, the \
         kernel dropped {dropped}; {} batches lent, {} late",
        count("out_of_order").unwrap_or(0),
        count("duplicated").unwrap_or(0),
        count("lost").unwrap_or(0),
        shared.batches,
        shared.late,
    );
    tell(&format!("  {scheme}: {found}"));
    let clean = count("out_of_order") == Some(0) && count("duplicated") == Some(0);
    drop(inrush);
    lab.clear_inrush_dir()?;
    Ok(vec![
        ScenarioCheck::new(
            format!("0 of {least} events out of order ({scheme})"),
            found,
            clean && received + dropped == events && received >= least && shared.batches > 0,
        ),
        ScenarioCheck::new(
            format!("ledger balanced ({scheme})"),
            ledger["balanced"].to_string(),
            ledger["balanced"] == true,
        ),
    ])
}

/// Bytes of an event of the run that looks at the order alone.
const ORDER_BYTES: u64 = 128;

/// Rate that the sender offers there, in terms of what one worker takes over TCP: more than one
/// worker takes, and, since a datagram costs it more than a line, as much as two take. A fixed
/// number was too much for the cores of one host, and on another too little to share at all.
const ORDER_OFFERED_TCP: f64 = 1.25;
const ORDER_OFFERED_UDP: f64 = 0.8;

/// Events a second that one worker recognises and changes.
fn one_worker(lab: &BenchHarness) -> Result<f64> {
    let template = ORDER.replace("@LISTEN@", Wire::Tcp.scheme());
    let template = template.replace("@WORKERS@", "1");
    let mut inrush = lab.start_inrush(&template, None, User::Ours)?;
    let shape = LoadShape {
        size: ORDER_BYTES,
        ..SHAPE
    };
    let run = lab.measure(&mut inrush, None, &shape, Amount::Seconds(3), None)?;
    drop(inrush);
    lab.clear_inrush_dir()?;
    Ok(rate(&run))
}
