//! `inrush bench`: the tables that this field publishes, measured on the reader's own machine, ours
//! beside the peers that are installed there, in one run.
//!
//! A table is a list of rows, each a subject under a load with the median of some runs. Subjects
//! take turns, so that a machine that is slow for a minute is so for all of them.

mod batching;
mod chart;
mod connections;
mod contenders;
mod heavy_forwarder;
mod page;
mod parallelize;
mod queues;
mod text;
mod udp_loss;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::files::write;
use crate::lab::{BenchHarness, RunParameters};
use crate::measure::RunResult;
use crate::meter::Machine;
use crate::sender::{Amount, LoadShape};
use crate::stats::median;
use contenders::Contender;

/// Files in the folder of results.
const JSON: &str = "bench.json";
const PAGE: &str = "bench.html";

/// Seconds that a load lasts if neither the command line nor the table says otherwise.
const SECONDS: f64 = 4.0;

/// Arguments of `inrush bench`.
#[derive(Args, Debug)]
pub struct TableArgs {
    /// Which tables; all of them if none is named
    #[arg(value_name = "NAME")]
    tables: Vec<TableName>,
    /// Print the results as JSON on stdout, in place of tables
    #[arg(long)]
    json: bool,
    /// The folder for bench.json and bench.html
    #[arg(long, value_name = "DIR", default_value = "inrush-bench")]
    out: PathBuf,
    /// Runs of each row, of which the median counts
    #[arg(long, value_name = "N", default_value_t = 3)]
    runs: usize,
    /// Seconds that a load lasts; 4 if not given, and 30 in heavy-forwarder
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    /// Leave syslog-ng and rsyslog out
    #[arg(long)]
    no_peers: bool,
    /// Where queues and files are kept while it runs: the disk that is to be measured
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    scratch: PathBuf,
}

/// The tables by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum TableName {
    /// UDP datagrams lost, by rate and by senders; default and tuned
    UdpLoss,
    /// Events a second over TCP, by connections and options
    TcpConnections,
    /// One TCP connection on one core and on all
    Parallelize,
    /// Records of 209 bytes: CPU, memory and writes into the next stage
    Batching,
    /// A destination that is slower than what comes: what waits, and until when
    Queues,
    /// The published test of a heavy forwarder: lag of events and time of requests
    HeavyForwarder,
}

impl TableName {
    fn text(self) -> String {
        let value = self.to_possible_value();
        value.map_or(String::new(), |value| value.get_name().to_owned())
    }

    fn plan(self, bench: &TableBench<'_>) -> TablePlan {
        match self {
            Self::UdpLoss => udp_loss::plan(),
            Self::TcpConnections => connections::plan(),
            Self::Parallelize => parallelize::plan(),
            Self::Batching => batching::plan(),
            Self::Queues => queues::plan(bench),
            Self::HeavyForwarder => heavy_forwarder::plan(bench),
        }
    }
}

/// Direction in which a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Better {
    Less,
    More,
}

/// A column of figures.
#[derive(Clone, Copy, Debug, Serialize)]
struct FigureColumn {
    name: &'static str,
    unit: &'static str,
    /// Absent where neither is.
    better: Option<Better>,
    /// Digits behind the point.
    digits: usize,
}

impl FigureColumn {
    const fn less(name: &'static str, unit: &'static str, digits: usize) -> Self {
        Self {
            name,
            unit,
            better: Some(Better::Less),
            digits,
        }
    }

    const fn more(name: &'static str, unit: &'static str, digits: usize) -> Self {
        Self {
            better: Some(Better::More),
            ..Self::less(name, unit, digits)
        }
    }

    const fn plain(name: &'static str, unit: &'static str, digits: usize) -> Self {
        Self {
            better: None,
            ..Self::less(name, unit, digits)
        }
    }
}

/// One subject under one load.
#[derive(Clone, Debug, Serialize)]
struct FigureRow {
    load: String,
    subject: String,
    /// As the columns are; the median of the runs.
    values: Vec<Option<f64>>,
    runs: usize,
    /// Errors of the runs, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    wrong: Option<String>,
}

/// A line's points: x, y.
type Points = Vec<(f64, f64)>;

/// A line of a chart.
#[derive(Clone, Debug, Serialize)]
struct ChartSeries {
    chart: String,
    subject: String,
    points: Points,
}

/// Axis labels of a chart of lines.
#[derive(Clone, Copy, Debug, Serialize)]
struct Axes {
    x: &'static str,
    y: &'static str,
}

/// One table.
#[derive(Clone, Debug, Serialize)]
struct ProductTable {
    name: String,
    shows: &'static str,
    /// Figures that others publish.
    published: &'static str,
    /// Remarks that the reader should know.
    notes: Vec<String>,
    columns: Vec<FigureColumn>,
    rows: Vec<FigureRow>,
    /// Lines; a table without any is drawn as bars of its first column.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lines: Vec<ChartSeries>,
    axes: Option<Axes>,
}

/// All that was measured.
#[derive(Clone, Debug, Serialize)]
struct TableReport {
    ended: String,
    machine: Machine,
    versions: Vec<String>,
    runs: usize,
    seconds: f64,
    tables: Vec<ProductTable>,
}

/// A load, and how it is called.
struct NamedLoad {
    name: String,
    shape: LoadShape,
}

/// One run of a contender under a load.
type ContenderRun = fn(&TableBench<'_>, &Contender, &NamedLoad) -> Result<RunMeasurement>;

/// Result of one run.
struct RunMeasurement {
    values: Vec<Option<f64>>,
    wrong: Option<String>,
    /// Points of the run over time.
    points: Points,
}

/// A table that is yet to be measured.
struct TablePlan {
    table: ProductTable,
    loads: Vec<NamedLoad>,
    contenders: Vec<Contender>,
    once: ContenderRun,
    /// The lines of the chart, of the finished rows and of the points of their last runs.
    lines: fn(&TablePlan, &[FigureRow], &[Points]) -> Vec<ChartSeries>,
}

/// No lines: bars.
fn bars(_: &TablePlan, _: &[FigureRow], _: &[Points]) -> Vec<ChartSeries> {
    Vec::new()
}

/// State that all tables share.
struct TableBench<'a> {
    lab: BenchHarness,
    /// Somebody has asked it to end.
    stop: &'a AtomicBool,
    /// Seconds that a load lasts, if the command line says so.
    seconds: Option<f64>,
    begun: Instant,
    done: usize,
    all: usize,
}

impl TableBench<'_> {
    /// As long as a run lasts.
    fn amount(&self) -> Amount {
        Amount::Seconds(self.seconds())
    }

    fn seconds(&self) -> u64 {
        self.seconds_or(SECONDS)
    }

    /// As the command line says, or so long.
    fn seconds_or(&self, seconds: f64) -> u64 {
        (self.seconds.unwrap_or(seconds).ceil() as u64).max(1)
    }

    /// Sends a load to a contender, and meters it.
    fn measure(&self, contender: &Contender, load: &NamedLoad) -> Result<RunResult> {
        let mut subject = contender.start(&self.lab, load.shape.wire, None)?;
        let (shape, amount) = (&load.shape, self.amount());
        self.lab
            .measure(subject.as_mut(), None, shape, amount, None)
    }

    /// Tells what is next, and how long all will yet take.
    fn tell(&self, table: &str, load: &str, subject: &str) {
        let elapsed = self.begun.elapsed();
        let left = match self.done {
            0 => String::new(),
            done => {
                let left = elapsed.mul_f64((self.all - done) as f64 / done as f64);
                let minutes = left.as_secs() / 60;
                match minutes {
                    0 => format!(", {} s left", left.as_secs()),
                    minutes => format!(", about {} min left", minutes + 1),
                }
            }
        };
        eprintln!(
            "inrush bench: {}/{}{left}: {table}: {load}, {subject}",
            self.done + 1,
            self.all
        );
    }
}

/// Measures, prints, and writes the report, until `stop` is set.
///
/// # Errors
/// It was stopped, or the folder of results cannot be written. What a single subject did wrong
/// stands in its row.
pub fn run(args: &TableArgs, stop: &AtomicBool) -> Result<()> {
    anyhow::ensure!(
        args.seconds
            .is_none_or(|seconds| seconds > 0.0 && seconds <= 3600.0),
        "--seconds is above 0 and at most 3600"
    );
    if cfg!(debug_assertions) {
        eprintln!("inrush bench: this is a debug build: its figures say nothing");
    }
    std::fs::create_dir_all(&args.out).with_context(|| args.out.display().to_string())?;
    let this = std::env::current_exe().context("own path")?;
    let lab = BenchHarness::new(&this, args.terms(), &args.scratch, None)?;
    let names = match args.tables.as_slice() {
        [] => TableName::value_variants().to_vec(),
        some => some.to_vec(),
    };
    let mut bench = TableBench {
        lab,
        stop,
        seconds: args.seconds,
        begun: Instant::now(),
        done: 0,
        all: 0,
    };
    let plans: Vec<(TableName, TablePlan)> = names.iter().map(|n| (*n, n.plan(&bench))).collect();
    let plans: Vec<(TableName, TablePlan)> = plans
        .into_iter()
        .map(|(name, plan)| (name, plan.with_who_is_here(&bench)))
        .collect();
    bench.all = plans.iter().map(|(_, plan)| plan.runs(&bench)).sum();
    let mut tables = Vec::new();
    for (name, plan) in plans {
        let table = plan.measure(name, &mut bench)?;
        if !args.json {
            print(&text::table(&table))?;
        }
        tables.push(table);
        // Whoever ends it in the middle has what was measured so far.
        let report = report(&bench, args, tables.clone());
        let json = serde_json::to_string_pretty(&report)?;
        write(&args.out.join(JSON), &json)?;
        write(&args.out.join(PAGE), &page::render(&report))?;
    }
    if args.json {
        print(&serde_json::to_string(&report(&bench, args, tables))?)?;
        print("\n")?;
    }
    eprintln!(
        "inrush bench: {} and {} are written",
        args.out.join(JSON).display(),
        args.out.join(PAGE).display()
    );
    Ok(())
}

impl TableArgs {
    fn terms(&self) -> RunParameters {
        RunParameters {
            runs: self.runs,
            seconds: self.seconds.unwrap_or(SECONDS),
            peers: !self.no_peers,
            ..RunParameters::default()
        }
    }
}

fn report(bench: &TableBench<'_>, args: &TableArgs, tables: Vec<ProductTable>) -> TableReport {
    let scenario = bench.lab.scenario("");
    TableReport {
        ended: scenario.ended,
        machine: scenario.machine,
        versions: scenario.versions,
        runs: args.runs.max(1),
        seconds: bench.lab.terms.seconds,
        tables,
    }
}

fn print(text: &str) -> Result<()> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

impl TablePlan {
    /// Only those contenders that are installed.
    fn with_who_is_here(mut self, bench: &TableBench<'_>) -> Self {
        let missing: Vec<String> = self
            .contenders
            .iter()
            .filter(|who| bench.lab.terms.peers && !who.is_here())
            .map(Contender::name)
            .collect();
        if !missing.is_empty() {
            let note = format!("Not installed here, and left out: {}.", missing.join("; "));
            self.table.notes.push(note);
        }
        self.contenders
            .retain(|who| who.is_ours() || (bench.lab.terms.peers && who.is_here()));
        self
    }

    fn runs(&self, bench: &TableBench<'_>) -> usize {
        self.loads.len() * self.contenders.len() * bench.lab.terms.runs
    }

    fn measure(mut self, name: TableName, bench: &mut TableBench<'_>) -> Result<ProductTable> {
        let name = name.text();
        let mut points = Vec::new();
        let mut rows = Vec::new();
        for load in &self.loads {
            let mut runs: Vec<Vec<RunMeasurement>> = Vec::new();
            runs.resize_with(self.contenders.len(), Vec::new);
            for _ in 0..bench.lab.terms.runs {
                for (who, runs) in self.contenders.iter().zip(&mut runs) {
                    bench.tell(&name, &load.name, &who.name());
                    runs.push((self.once)(bench, who, load).unwrap_or_else(|error| {
                        RunMeasurement {
                            values: vec![None; self.table.columns.len()],
                            wrong: Some(format!("{error:#}")),
                            points: Vec::new(),
                        }
                    }));
                    anyhow::ensure!(!bench.stop.load(Ordering::Relaxed), "interrupted");
                    bench.done += 1;
                }
            }
            for (who, mut runs) in self.contenders.iter().zip(runs) {
                rows.push(row(load, who, &runs, self.table.columns.len()));
                points.push(runs.pop().map_or(Vec::new(), |last| last.points));
            }
        }
        self.table.lines = (self.lines)(&self, &rows, &points);
        self.table.rows = rows;
        self.table.name = name;
        Ok(self.table)
    }
}

/// The medians of some runs.
fn row(load: &NamedLoad, who: &Contender, runs: &[RunMeasurement], columns: usize) -> FigureRow {
    let values = (0..columns).map(|column| {
        let values = runs.iter().filter_map(|run| *run.values.get(column)?);
        median(&values.collect::<Vec<_>>())
    });
    FigureRow {
        load: load.name.clone(),
        subject: who.name(),
        values: values.collect(),
        runs: runs.len(),
        wrong: runs.iter().find_map(|run| run.wrong.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::Wire;

    fn measured(value: Option<f64>, wrong: Option<&str>) -> RunMeasurement {
        RunMeasurement {
            values: vec![value],
            wrong: wrong.map(str::to_owned),
            points: Vec::new(),
        }
    }

    #[test]
    fn a_row_is_the_median_of_the_runs_that_have_a_figure_and_says_what_was_wrong() {
        let load = NamedLoad {
            name: "one".to_owned(),
            shape: udp_loss::shape(Wire::Udp, 1, 10),
        };
        let who = Contender::ours("", "");
        let runs = [
            measured(Some(3.0), None),
            measured(None, Some("it ended")),
            measured(Some(1.0), None),
        ];
        let row = row(&load, &who, &runs, 1);
        assert_eq!(row.values, [Some(2.0)]);
        assert_eq!(row.wrong.as_deref(), Some("it ended"));
        assert_eq!(row.runs, 3);
    }
}
