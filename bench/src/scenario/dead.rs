//! One destination dead beside one that lives: it costs disk, and the other one nothing.
//!
//! First the living one is measured with and without the dead one by turns. Then a backlog grows,
//! the dead one comes back under the same load, and what it takes is held against what comes in.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use inrush_harness::child::{free_port, wait_until};
use inrush_harness::lab::BenchHarness;
use inrush_harness::measure::{Cell, RunResult, ScenarioCheck, ScenarioResult};
use inrush_harness::sender::{self, Amount, LoadShape, Wire};
use inrush_harness::stats::{Spread, median};
use inrush_harness::subject::{BenchSubject, Inrush, SinkProcess, User};
use serde_json::Value;

use super::{REFERENCE, tell};

pub(super) const RATE: u64 = 100_000;

const SHAPE: LoadShape = LoadShape {
    rate: RATE,
    ..REFERENCE
};

/// The living one may cost, and wait, this part more.
const MORE_MAX: f64 = 0.02;

/// A shorter run does not tell such a part from the ticks in which CPU time is told.
const SECONDS_MIN: f64 = 10.0;

/// Bytes of a segment (`docs/specs/queue.md`).
const SEGMENT_BYTES: f64 = 64.0 * 1024.0 * 1024.0;

/// Bytes of an event on disk: the message, the line feed, and its row (`docs/specs/queue.md`).
pub(super) const EVENT_BYTES: u64 = REFERENCE.size + 1 + 88;

/// Time for which the backlog grows, and the time that it is given to shrink.
const DEAD: Duration = Duration::from_secs(15);
const BACK_MAX: Duration = Duration::from_secs(30);

/// Interval between two samples of both.
const EVERY: Duration = Duration::from_millis(250);

const ALONE: &str = include_str!("../../inrush/durable-hec.yaml");
const BESIDE: &str = include_str!("../../inrush/durable-hec-dead.yaml");
const LIVING: &str = "splunk";
const DYING: &str = "dead";

/// Runs it.
pub(super) fn run(lab: &BenchHarness) -> Result<ScenarioResult> {
    let shows = "one HEC destination at 100,000/s beside one that is dead, default queue (fsync)";
    tell(shows);
    let (mut alone, mut beside) = (vec![one(lab, false)?], Vec::new());
    for _ in 0..lab.terms.runs {
        beside.push(one(lab, true)?);
        alone.push(one(lab, false)?);
    }
    let cell = |subject: &str, runs| Cell::new(subject, "100,000/s, 10 conn, 800 B, to HEC", runs);
    let (alone, beside) = (
        cell("inrush, alone", alone),
        cell("inrush, beside a dead one", beside),
    );
    let mut scenario = lab.scenario(shows);
    scenario.checks = vec![
        more("CPU per event", MORE_MAX, 1, &alone, &beside, |run| {
            Some(run.us_per_event)
        }),
        more("p99 latency", MORE_MAX, 1, &alone, &beside, |run| {
            Some(run.latency?.p99_us)
        }),
    ];
    scenario.checks.extend(returned(&backlog(lab)?)?);
    scenario
        .checks
        .extend([alone.accounts(), beside.accounts()]);
    scenario.cells.extend([alone, beside]);
    scenario.ended = lab.scenario(shows).ended;
    Ok(scenario)
}

fn one(lab: &BenchHarness, with_dead: bool) -> Result<RunResult> {
    let sink = SinkProcess::start(&["--latency"])?;
    let template = if with_dead { BESIDE } else { ALONE };
    let template = template.replace("@DEAD@", &free_port()?.to_string());
    let mut inrush = lab
        .start_inrush(&template, Some(&sink), User::Ours)?
        .watching(LIVING);
    let amount = Amount::Number((RATE as f64 * lab.terms.seconds.max(SECONDS_MIN)) as u64);
    let run = lab.measure(&mut inrush, Some(&sink), &SHAPE, amount, None)?;
    let latency = run.latency.unwrap_or_default();
    tell(&format!(
        "  {:<6} {:.4} µs/event, p50 {:.2} ms, p99 {:.2} ms, others {:.1} %",
        if with_dead { "beside" } else { "alone" },
        run.us_per_event,
        latency.p50_us / 1e3,
        latency.p99_us / 1e3,
        run.others_pct,
    ));
    Ok(run)
}

/// Each run beside a dead destination against the runs without on both sides, which are `apart`:
/// 1 where the run behind one is the run before the next, 2 where each has two of its own.
pub(super) fn more(
    what: &str,
    more_max: f64,
    apart: usize,
    alone: &Cell,
    beside: &Cell,
    value: fn(&RunResult) -> Option<f64>,
) -> ScenarioCheck {
    let without: Vec<f64> = alone.runs.iter().filter_map(value).collect();
    let neighbours = without.windows(2).step_by(apart).filter_map(median);
    let with = beside.runs.iter().filter_map(value);
    let parts: Vec<f64> = with.zip(neighbours).map(|(a, b)| a / b - 1.0).collect();
    let part = Spread::of(&parts);
    ScenarioCheck::new(
        format!(
            "{what}: at most {:.0} % more than without it",
            100.0 * more_max
        ),
        part.map_or("no figure".to_owned(), |part| {
            format!(
                "{:+.1} % ({:+.1}…{:+.1}, {} pairs)",
                100.0 * part.median,
                100.0 * part.min,
                100.0 * part.max,
                part.n
            )
        }),
        part.is_some_and(|part| part.median <= more_max),
    )
}

/// The queue at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct QueueSample {
    /// Since the load began.
    seconds: f64,
    accepted: u64,
    /// Of the one that was dead.
    delivered: u64,
    pending: u64,
    disk_bytes: u64,
}

impl QueueSample {
    fn of(lab: &BenchHarness, inrush: &Inrush, begun: Instant) -> Result<Self> {
        let ledger = inrush.ledger()?;
        let account = &ledger["destinations"][DYING];
        let count = |value: &Value| value.as_u64().context("the ledger lacks a count");
        Ok(Self {
            seconds: begun.elapsed().as_secs_f64(),
            accepted: count(&account["accepted"])?,
            delivered: count(&account["delivered"])?,
            pending: count(&account["pending"])?,
            disk_bytes: lab.queue_bytes()?,
        })
    }

    /// Bytes on disk beyond those of the backlog.
    fn excess(&self) -> f64 {
        self.disk_bytes as f64 - (self.pending * EVENT_BYTES) as f64
    }
}

/// True if a sample is the last one wanted.
type StopCondition = fn(&QueueSample) -> bool;

/// A backlog that grew and shrank.
struct BacklogHistory {
    /// While it was dead.
    dead: Vec<QueueSample>,
    /// From when it was back until it had caught up.
    back: Vec<QueueSample>,
    /// The sample at which all had been delivered.
    end: QueueSample,
    arrived: u64,
}

fn backlog(lab: &BenchHarness) -> Result<BacklogHistory> {
    let port = free_port()?;
    let living = SinkProcess::start(&[])?;
    let template = BESIDE.replace("@DEAD@", &port.to_string());
    let mut inrush = lab
        .start_inrush(&template, Some(&living), User::Ours)?
        .watching(DYING);
    let address = inrush.address(Wire::Tcp)?;
    let amount = Amount::Seconds((DEAD + BACK_MAX).as_secs());
    let sending = sender::start(&lab.inrush, &address, &SHAPE, amount, None)?;
    let begun = sending.begun;
    let samples = |until: Instant, ends: StopCondition| -> Result<Vec<QueueSample>> {
        let mut samples = Vec::new();
        loop {
            wait_until(Instant::now() + EVERY);
            samples.push(QueueSample::of(lab, &inrush, begun)?);
            if Instant::now() >= until || samples.last().is_some_and(ends) {
                return Ok(samples);
            }
        }
    };
    let dead = samples(begun + DEAD, |_| false)?;
    let back_again = SinkProcess::start(&[&format!("--listen=127.0.0.1:{port}")])?;
    let back = samples(begun + DEAD + BACK_MAX, |sample| sample.pending < RATE / 2)?;
    let sent = sending.finish()?;
    inrush_harness::subject::drain(&mut inrush, sent.events)?;
    // Segments are looked for twice a second.
    wait_until(Instant::now() + Duration::from_secs(2));
    let end = QueueSample::of(lab, &inrush, begun)?;
    ensure!(
        end.accepted == sent.events,
        "{} of {} accepted",
        end.accepted,
        sent.events
    );
    let arrived = back_again.counts()?.events;
    Ok(BacklogHistory {
        dead,
        back,
        end,
        arrived,
    })
}

fn returned(backlog: &BacklogHistory) -> Result<Vec<ScenarioCheck>> {
    let (first, last) = backlog
        .back
        .first()
        .zip(backlog.back.last())
        .context("no sample")?;
    let (filled, top) = (backlog.dead.last().context("no sample")?, 1e6);
    let seconds = (last.seconds - filled.seconds).max(1e-9);
    let out = (last.delivered - filled.delivered) as f64 / seconds;
    let into = (last.accepted - filled.accepted) as f64 / seconds;
    let worst = |samples: &[QueueSample]| {
        let excess = samples.iter().map(QueueSample::excess);
        excess
            .max_by(|a, b| a.abs().total_cmp(&b.abs()))
            .unwrap_or(0.0)
    };
    let (dead, back) = (worst(&backlog.dead), worst(&backlog.back));
    let caught_up = last.pending < RATE / 2;
    tell(&format!("  back: {first:?} … {last:?}"));
    let end = &backlog.end;
    Ok(vec![
        ScenarioCheck::new(
            "disk use is the backlog ± one segment (67 MB) while it is dead",
            format!(
                "{:.0} MB for {:.0} MB of events, at worst {:+.0} MB; while it drains {:+.0} MB",
                filled.disk_bytes as f64 / top,
                (filled.pending * EVENT_BYTES) as f64 / top,
                dead / top,
                back / top,
            ),
            dead.abs() <= SEGMENT_BYTES,
        ),
        ScenarioCheck::new(
            "back again, it drains faster than the load fills",
            format!("{out:.0}/s out, {into:.0}/s in, {seconds:.1} s to catch up"),
            caught_up && out > into,
        ),
        ScenarioCheck::new(
            "all of it arrived, once, and the disk is free again but for a segment",
            format!(
                "{} of {}, {:.0} MB left",
                backlog.arrived,
                end.accepted,
                end.disk_bytes as f64 / top
            ),
            backlog.arrived == end.accepted
                && end.pending == 0
                && (end.disk_bytes as f64) < 1.5 * SEGMENT_BYTES,
        ),
    ])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn each_run_is_held_against_both_neighbours_without_the_dead_one() {
        let check = |alone: &[f64], beside: &[f64]| {
            let cost = |run: &RunResult| Some(run.us_per_event);
            let (alone, beside) = (super::super::costing(alone), super::super::costing(beside));
            more("x", MORE_MAX, 1, &alone, &beside, cost)
        };
        assert!(check(&[1.0, 1.2, 1.4], &[1.12, 1.32]).passed);
        assert!(!check(&[1.0, 1.2, 1.4], &[1.13, 1.33]).passed);
        assert!(!check(&[1.0], &[]).passed);
    }

    #[test]
    fn disk_that_is_not_given_back_is_seen() {
        let at = |seconds: f64, delivered, pending, disk_bytes| QueueSample {
            seconds,
            accepted: delivered + pending,
            delivered,
            pending,
            disk_bytes,
        };
        let mut backlog = BacklogHistory {
            dead: vec![at(15.0, 0, 1_500_000, 1_500_000 * EVENT_BYTES)],
            back: vec![at(20.0, 1_960_000, 40_000, 80 << 20)],
            end: at(30.0, 3_000_000, 0, 64 << 20),
            arrived: 3_000_000,
        };
        let passed = |backlog: &BacklogHistory| {
            let checks = returned(backlog).unwrap();
            checks.iter().map(|check| check.passed).collect::<Vec<_>>()
        };
        assert_eq!(passed(&backlog), [true, true, true]);
        backlog.dead[0].disk_bytes += 65 << 20;
        backlog.back[0].pending = 900_000;
        backlog.end.disk_bytes = 200 << 20;
        assert_eq!(passed(&backlog), [false, false, false]);
    }
}
