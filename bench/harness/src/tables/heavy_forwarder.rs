//! The published test of a heavy forwarder: lag of events and time of requests, run by run.

use anyhow::{Context, Result};

use super::contenders::Contender;
use super::{
    FigureColumn, NamedLoad, ProductTable, RunMeasurement, TableBench, TablePlan, bars, udp_loss,
};
use crate::forwarder::{self, ForwarderFigures, ForwarderRun, RUNS};
use crate::sender::{HecRequests, Wire};

/// Seconds of a run if the command line does not say: six loads, three times each, in ten minutes.
const SECONDS: f64 = 30.0;

pub(super) fn plan(bench: &TableBench<'_>) -> TablePlan {
    let seconds = bench.seconds_or(SECONDS);
    let wire = Wire::Hec(HecRequests {
        events: 50,
        gzip: false,
        raw: false,
    });
    let load = |run: &ForwarderRun| NamedLoad {
        name: run.name(),
        shape: udp_loss::shape(wire, run.streams, 0),
    };
    TablePlan {
        table: ProductTable {
            name: String::new(),
            shows: "three senders of 10, 20 and 40 streams of 1,000 events of 1 KiB a second, 50 a \
                    request, through an HTTP Event Collector to a receiver that takes 30, 60 and \
                    120 MiB/s",
            published: "Collectord to Splunk 8.1.3 heavy forwarders (2021-04-21). 30 MiB/s: 180 to \
                        300 s of lag with one I/O thread, below 5 s and about 5 ms a request after \
                        tuning. 60 MiB/s: below 5 s and 5 ms after larger machines, two pipelines \
                        and compressed output. 120 MiB/s: lag and requests grew, one thread at \
                        100 %; three forwarders mended it.",
            notes: vec![
                format!(
                    "Sent for {seconds} s. Inrush has its defaults, and answers once events are on \
                     disk. Lag: from the sender until the receiver has the event. Requests: at the \
                     slowest sender. A published figure that is missing grew."
                ),
                "Senders and receiver share the cores with Inrush; in the published test each had \
                 machines of its own. Bodies are plain; there they were compressed."
                    .to_owned(),
            ],
            columns: vec![
                FigureColumn::less("lag p99", "s", 3),
                FigureColumn::plain("published", "s below", 0),
                FigureColumn::less("request p99", "ms", 1),
                FigureColumn::plain("published", "ms", 0),
                FigureColumn::less("lag p50", "s", 3),
                FigureColumn::less("request p50", "ms", 1),
                FigureColumn::more("sent", "MiB/s", 1),
                FigureColumn::less("late", "s after the end", 1),
                FigureColumn::less("CPU", "% of a core", 0),
                FigureColumn::less("memory", "MiB", 0),
            ],
            rows: vec![],
            lines: vec![],
            axes: None,
        },
        loads: RUNS.iter().map(load).collect(),
        contenders: vec![Contender::ours("", forwarder::TEMPLATE)],
        once,
        lines: bars,
    }
}

fn once(bench: &TableBench<'_>, _: &Contender, load: &NamedLoad) -> Result<RunMeasurement> {
    let run = RUNS.iter().find(|run| run.name() == load.name);
    let run = run.context("no such run")?;
    let seconds = bench.seconds_or(SECONDS);
    let figures = forwarder::measure(&bench.lab, &["bench", "hec-sink"], run, seconds)?;
    Ok(RunMeasurement {
        values: values(run, &figures),
        wrong: figures.run.wrong,
        points: Vec::new(),
    })
}

fn values(run: &ForwarderRun, figures: &ForwarderFigures) -> Vec<Option<f64>> {
    let lag = figures.run.latency;
    let requests = figures.requests;
    vec![
        lag.map(|lag| lag.p99_us / 1e6),
        run.published_lag_s,
        requests.map(|times| times.p99_us as f64 / 1e3),
        run.published_request_ms,
        lag.map(|lag| lag.p50_us / 1e6),
        requests.map(|times| times.p50_us as f64 / 1e3),
        Some(figures.run.offered_rate / 1024.0),
        Some(figures.late_s),
        Some(figures.core_pct),
        Some(figures.run.rss_peak_mib),
    ]
}
