//! A hundred million events in the built-in store, and what a person waits for.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use inrush_harness::lab::{BenchHarness, INRUSH_DIR, PeriodicTask};
use inrush_harness::measure::{RunResult, ScenarioCheck, ScenarioResult};
use inrush_harness::probe::{self, SearchProbe};
use inrush_harness::sender::{Amount, LoadShape, Wire};
use inrush_harness::stats::Spread;
use inrush_harness::subject::{BenchSubject, Inrush, User, drain};

use super::store::{MIXED, file_bytes, lag_seconds, lag_within, start};
use super::tell;

/// Hours over which the events are dated.
const HOURS: u64 = 20;

/// Answers to each question.
const RUNS: usize = 5;

/// Bytes of a message: 20 GB are a hundred million.
const SIZE: u64 = 200;

/// One search, the seconds that it may take, and the number of events or rows that it must find.
struct SearchCase {
    name: &'static str,
    query: &'static str,
    since: &'static str,
    most: Option<f64>,
    found: RangeInclusive<usize>,
}

const QUESTIONS: [SearchCase; 7] = [
    SearchCase {
        name: "a phrase that one event has, in the last hour",
        query: r#""for needlelate in""#,
        since: "1h",
        most: Some(0.3),
        found: 1..=1,
    },
    SearchCase {
        name: "a phrase that one event has, in everything",
        query: r#""for needleearly in""#,
        since: "all",
        most: Some(5.0),
        found: 1..=1,
    },
    SearchCase {
        name: "a phrase that no event has, in everything",
        query: r#""for needlenever in""#,
        since: "all",
        most: Some(5.0),
        found: 0..=0,
    },
    SearchCase {
        name: "count by sourcetype, in everything",
        query: "| count by sourcetype",
        since: "all",
        most: Some(2.0),
        found: 1..=1000,
    },
    SearchCase {
        name: "count by host, in everything",
        query: "| count by host",
        since: "all",
        most: None,
        found: 20..=1000,
    },
    SearchCase {
        name: "the newest 200 of many, in everything",
        query: "denied",
        since: "all",
        most: None,
        found: 200..=200,
    },
    SearchCase {
        name: "a word with a host, in the last hour",
        query: "host=fw-edge-1 Deny",
        since: "1h",
        most: None,
        found: 200..=200,
    },
];

/// Searches that run beside ingestion.
const BUSY: [(&str, &str); 4] = [
    (r#""no such phrase at all""#, "all"),
    ("| count by host", "all"),
    ("denied", "all"),
    ("* | avg(severity) by host", "all"),
];

/// An event must be found within so many seconds while four searches run, 99 of 100.
const LAG_MAX: f64 = 2.0;

/// Runs it.
pub(super) fn run(lab: &BenchHarness) -> Result<ScenarioResult> {
    let events = lab.terms.events;
    let shows = format!(
        "{:.0} million mixed events of {SIZE} B, dated over {HOURS} hours, in the built-in store, \
         and what a search of them takes, over HTTP until the last byte",
        events as f64 / 1e6
    );
    tell(&shows);
    let mut inrush = start(lab)?;
    let filled = fill(lab, &mut inrush)?;
    let bytes = file_bytes(&lab.inrush_dir().join("store"))?;
    let mut scenario = lab.scenario(&shows);
    scenario.checks.push(ScenarioCheck::new(
        "the store",
        format!(
            "{} events in {:.2} GB of files ({:.1} B each), taken at {:.0}/s",
            filled.delivered,
            bytes as f64 / 1e9,
            bytes as f64 / filled.delivered as f64,
            filled.delivered as f64 / filled.seconds,
        ),
        filled.delivered > events,
    ));
    for question in &QUESTIONS {
        let check = answer(&inrush, question)?;
        tell(&format!("  {}: {}", check.what, check.found));
        scenario.checks.push(check);
    }
    drop(inrush);
    let (run, lags, asked) = beside_searches(lab)?;
    let when = format!(
        "while {} searches run all the time ({asked} ended)",
        BUSY.len()
    );
    scenario.checks.push(lag_within(&lags, LAG_MAX, &when));
    let seconds = lag_seconds(lab);
    let load = format!("125,000/s, 4 conn, 300 B, {seconds} s, beside 4 searches");
    scenario.add_inrush(load, vec![run]);
    lab.dir(INRUSH_DIR)?;
    Ok(scenario)
}

/// Fills the store, with a needle in the first hour of its time and one in the last.
fn fill(lab: &BenchHarness, inrush: &mut Inrush) -> Result<RunResult> {
    let shape = LoadShape {
        size: SIZE,
        rate: 0,
        backdate_hours: HOURS,
        ..MIXED
    };
    let address = inrush.address(Wire::Tcp)?;
    let mut probe = SearchProbe::new(&address, inrush.admin())?;
    probe.send("needleearly", Duration::from_secs(HOURS * 3600 - 600))?;
    let begun = Instant::now();
    let mut told = begun;
    let mut say = || {
        if told.elapsed() > Duration::from_secs(60) {
            told = Instant::now();
            tell(&format!(
                "  filling for {:.0} s",
                begun.elapsed().as_secs_f64()
            ));
        }
        Ok(())
    };
    let meanwhile = PeriodicTask {
        every: Duration::from_secs(1),
        act: &mut say,
    };
    let amount = Amount::Number(lab.terms.events);
    let mut run = lab.measure(inrush, None, &shape, amount, Some(meanwhile))?;
    probe.send("needlelate", Duration::from_secs(60))?;
    let last = drain(inrush, lab.terms.events + probe.sent())?;
    run.delivered = last.delivered;
    run.wrong = inrush.wrong(&last, lab.terms.events + probe.sent());
    ensure!(run.wrong.is_none(), "{:?}", run.wrong);
    Ok(run)
}

fn answer(inrush: &Inrush, question: &SearchCase) -> Result<ScenarioCheck> {
    let path = probe::search(question.query, question.since);
    let mut took = Vec::new();
    let mut right = true;
    for _ in 0..RUNS {
        let answer = probe::ask(inrush.admin(), &path)?;
        right &= question.found.contains(&answer.found.len());
        took.push(answer.took.as_secs_f64());
    }
    let spread = Spread::of(&took).context("no answer")?;
    let limit = question
        .most
        .map_or(String::new(), |most| format!(" within {most} s"));
    let wrong = if right { "" } else { "; the ANSWER IS WRONG" };
    Ok(ScenarioCheck::new(
        format!("{}{limit}", question.name),
        format!(
            "{:.3} s ({:.3}–{:.3}){wrong}",
            spread.median, spread.min, spread.max
        ),
        right && question.most.is_none_or(|most| spread.median <= most),
    ))
}

/// Half the rate on what is stored already, while four people search without a pause.
fn beside_searches(lab: &BenchHarness) -> Result<(RunResult, Vec<f64>, u64)> {
    let mut inrush = Inrush::start(&lab.inrush, None, &lab.inrush_dir(), User::Ours)?;
    let admin = inrush.admin().to_owned();
    let mut probe = SearchProbe::new(&inrush.address(Wire::Tcp)?, &admin)?;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let busy: Vec<_> = BUSY
            .iter()
            .map(|(query, since)| {
                let path = probe::search(query, since);
                let (admin, over) = (&admin, &over);
                scope.spawn(move || {
                    let mut ended = 0_u64;
                    while !over.load(Relaxed) {
                        probe::ask(admin, &path)?;
                        ended += 1;
                    }
                    anyhow::Ok(ended)
                })
            })
            .collect();
        let mut look = || probe.lag().map(|_| ());
        let meanwhile = PeriodicTask {
            every: Duration::from_secs(1),
            act: &mut look,
        };
        let shape = LoadShape {
            rate: MIXED.rate / 2,
            ..MIXED
        };
        let amount = Amount::Number(shape.rate * lag_seconds(lab));
        let run = lab.measure(&mut inrush, None, &shape, amount, Some(meanwhile));
        over.store(true, Relaxed);
        let mut asked = 0;
        for thread in busy {
            asked += thread
                .join()
                .map_err(|_| anyhow::anyhow!("a search panicked"))??;
        }
        let mut run = run?;
        let last = inrush.progress()?;
        run.wrong = inrush.wrong(&last, run.sent + probe.sent());
        Ok((run, probe.lags, asked))
    })
}
