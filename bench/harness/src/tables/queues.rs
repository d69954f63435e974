//! A destination that is slower than what comes: what waits, and until when.

use std::time::{Duration, Instant};

use anyhow::Context;

use super::contenders::Contender;
use super::{
    Axes, ChartSeries, FigureColumn, FigureRow, NamedLoad, Points, ProductTable, RunMeasurement,
    TableBench, TablePlan, udp_loss,
};
use crate::child::wait_until;
use crate::sender::{self, Wire};
use crate::subject::SinkProcess;

/// Events a second that are sent, and that the destination takes.
const SENT: u64 = 60_000;
const TAKEN: u64 = 30_000;

/// Interval between two counts.
const STEP: Duration = Duration::from_millis(250);

/// Time for which the count may stand still before what is missing is taken for lost.
const STILL_MAX: Duration = Duration::from_secs(15);

pub(super) fn plan(bench: &TableBench<'_>) -> TablePlan {
    let seconds = bench.seconds();
    TablePlan {
        table: ProductTable {
            name: String::new(),
            shows: "60,000 events of 800 B a second to a HEC endpoint that takes 30,000 a second",
            published: "syslog-ng (its guide to performance): watch out for queues. What is sent \
                        faster than it is delivered waits, and drains long after.",
            notes: vec![format!(
                "Sent for {seconds} s. With what waits on disk: Inrush by default, syslog-ng with \
                 SC4S's disk buffer. The rsyslog of Debian has no output to HEC in its package."
            )],
            columns: vec![
                FigureColumn::less("delivered late", "s after the end", 1),
                FigureColumn::plain("backlog at the end", "events", 0),
                FigureColumn::plain("delivered", "events", 0),
                FigureColumn::less("lost", "events", 0),
                FigureColumn::less("twice", "events", 0),
                FigureColumn::less("memory", "MiB", 0),
            ],
            rows: vec![],
            lines: vec![],
            axes: Some(Axes {
                x: "seconds",
                y: "events that wait",
            }),
        },
        loads: vec![NamedLoad {
            name: "60,000/s to 30,000/s".to_owned(),
            shape: udp_loss::shape(Wire::Tcp, 10, SENT),
        }],
        contenders: vec![
            Contender::ours("", include_str!("../../../inrush/durable-hec.yaml")),
            Contender::syslog_ng(
                "disk-buffer",
                include_str!("../../../peers/syslog-ng-hec-disk.conf"),
            ),
        ],
        once,
        lines,
    }
}

fn once(
    bench: &TableBench<'_>,
    who: &Contender,
    load: &NamedLoad,
) -> anyhow::Result<RunMeasurement> {
    let rate = format!("--rate={TAKEN}");
    let sink = SinkProcess::start_as(&["bench", "hec-sink"], &[&rate, "--verify"])?;
    let subject = who.start(&bench.lab, load.shape.wire, Some(&sink))?;
    let address = subject.address(load.shape.wire)?;
    let amount = bench.amount();
    let mut sending = sender::start(&bench.lab.inrush, &address, &load.shape, amount, None)?;
    let begun = sending.begun;
    let (mut next, mut arrived, mut points) = (begun, Vec::new(), Vec::new());
    while !sending.ended()? {
        arrived.push((begun.elapsed(), sink.counts()?.answered));
        next += STEP;
        wait_until(next);
    }
    let sent = sending.finish()?;
    let sent_for = Duration::from_secs_f64(sent.events as f64 / sent.rate.max(1.0));
    let at_end = sink.counts()?.answered;
    let (mut last, mut moved) = (at_end, Instant::now());
    while last < sent.events && moved.elapsed() < STILL_MAX {
        next += STEP;
        wait_until(next);
        let now = sink.counts()?.answered;
        arrived.push((begun.elapsed(), now));
        if now != last {
            (last, moved) = (now, Instant::now());
        }
    }
    let memory = crate::meter::process_rss_peak_mib(subject.pid())?;
    for (at, events) in &arrived {
        let part = (at.as_secs_f64() / sent_for.as_secs_f64()).min(1.0);
        let waits = sent.events as f64 * part - *events as f64;
        points.push((at.as_secs_f64(), waits.max(0.0)));
    }
    let counts = sink.counts()?;
    let (end, _) = arrived
        .iter()
        .find(|(_, events)| *events == last)
        .context("nothing was counted")?;
    let late = end.saturating_sub(sent_for).as_secs_f64();
    Ok(RunMeasurement {
        values: vec![
            Some(late),
            Some(sent.events.saturating_sub(at_end) as f64),
            Some(counts.distinct as f64),
            Some(sent.events.saturating_sub(counts.distinct) as f64),
            Some(counts.duplicates as f64),
            Some(memory),
        ],
        wrong: sent
            .errors
            .map(|errors| format!("the generator saw {errors}")),
        points,
    })
}

fn lines(plan: &TablePlan, rows: &[FigureRow], points: &[Points]) -> Vec<ChartSeries> {
    let series = rows.iter().zip(points).map(|(row, points)| ChartSeries {
        chart: plan.loads.first().map_or(String::new(), |l| l.name.clone()),
        subject: row.subject.clone(),
        points: points.clone(),
    });
    series.collect()
}
