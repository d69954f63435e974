//! `inrush-bench`: the experiments that the project is measured by.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use inrush_harness::lab::{BenchHarness, RunParameters};

use crate::results::Results;
use crate::scenario::{ScenarioName, node};
use crate::{classify, crash, faults, report, rotation, versus};
use inrush_harness::{bare, sink, subject};

/// The page of results, beside the results.
pub(crate) const PAGE: &str = "RESULTS.md";

#[derive(Parser)]
#[command(name = "inrush-bench", about = "The performance experiments of Inrush")]
struct Cli {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Subcommand)]
enum BenchCommand {
    /// Run experiments; without a name, all of them
    Run(RunArgs),
    /// Write the page of results from the JSON of earlier runs
    Report(ReportArgs),
    /// Kill the process at random moments under load, and account for every event
    Crash(crash::CrashArgs),
    /// Compare what this build costs with what an earlier one did
    Versus(versus::VersusArgs),
    /// Have system calls of the store fail and answers of a bucket go lost, with kills, under load
    Faults(faults::FaultsArgs),
    /// Rotate files of numbered lines in every way, kill their collector, and account for each line
    Rotation(rotation::RotationArgs),
    /// Run a program of which chosen system calls fail
    #[command(hide = true)]
    Injected(faults::InjectedArgs),
    /// The bare TCP loop: epoll, read, newline scan, discard
    BareTcp(bare::tcp::BareTcp),
    /// The bare UDP loop: recvmmsg, discard
    BareUdp(bare::udp::BareUdp),
    /// The bare HEC relay: read a request, perhaps sync it, answer, pass it on
    BareRelay(bare::relay::BareRelay),
    /// The bare tail of files: read, find lines, escape, post to HEC
    BareTail(bare::tail::BareTail),
    /// Write numbered lines on stdout, in a container of `run node`
    #[command(hide = true)]
    ContainerWriter(node::writer::ContainerWriter),
    /// Read and recognise messages in a loop, for a profiler or an instruction counter
    Classify(classify::ClassifyArgs),
    /// A Splunk HEC endpoint that counts and forgets
    HecSink(sink::HecSink),
}

#[derive(clap::Args)]
pub(crate) struct RunArgs {
    /// Which experiments
    scenarios: Vec<ScenarioName>,
    /// The program to measure; the one beside this one if not given
    #[arg(long, value_name = "PATH")]
    inrush: Option<PathBuf>,
    /// Clean runs of each cell; noisy ones are repeated, up to twice this many in all
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// How long a run should last
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// How long `soak` lasts
    #[arg(long, default_value_t = 10)]
    soak_minutes: u64,
    /// Size of the backlog of `startup`
    #[arg(long, default_value_t = 10)]
    gib: u64,
    /// How long `store` holds the full rate, seconds
    #[arg(long, default_value_t = 300)]
    store_seconds: u64,
    /// Seconds for which `memory` loads each control group
    #[arg(long, default_value_t = 600)]
    memory_seconds: u64,
    /// Seconds for which `dead-full` holds a rate beside a full backlog
    #[arg(long, default_value_t = 600)]
    full_seconds: u64,
    /// Seconds of each run of `heavy-forwarder`
    #[arg(long, default_value_t = 60)]
    forwarder_seconds: u64,
    /// Seconds of each run of `node`
    #[arg(long, default_value_t = 60)]
    node_seconds: u64,
    /// Seconds that `hec-steady` lasts
    #[arg(long, default_value_t = 600)]
    steady_seconds: u64,
    /// Events that `search` searches
    #[arg(long, default_value_t = 100_000_000)]
    events: u64,
    /// Where the subjects keep their data: on the disk that is to be measured
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    scratch: PathBuf,
    /// Leave the peers out
    #[arg(long)]
    no_peers: bool,
    /// Messages that `classified` sends, one a line; of a `.jsonl` file what stands under
    /// `message`. The samples of the packs if not given
    #[arg(long, value_name = "FILE")]
    messages: Option<PathBuf>,
    /// Print the results as JSON on stdout too
    #[arg(long)]
    json: bool,
    /// Where the results go, the page RESULTS.md beside them; scenarios that are not run keep
    /// their earlier results
    #[arg(long, default_value = "bench/results-latest.json")]
    out: PathBuf,
    /// Where every single run of these scenarios goes; the results keep medians and ranges
    #[arg(long, value_name = "FILE")]
    raw: Option<PathBuf>,
}

impl RunArgs {
    fn terms(&self) -> RunParameters {
        RunParameters {
            runs: self.runs,
            seconds: self.seconds,
            soak_minutes: self.soak_minutes,
            gib: self.gib,
            store_seconds: self.store_seconds,
            memory_seconds: self.memory_seconds,
            full_seconds: self.full_seconds,
            forwarder_seconds: self.forwarder_seconds,
            node_seconds: self.node_seconds,
            steady_seconds: self.steady_seconds,
            events: self.events,
            peers: !self.no_peers,
        }
    }
}

#[derive(clap::Args)]
struct ReportArgs {
    /// The results
    #[arg(long, default_value = "bench/results-latest.json")]
    results: PathBuf,
}

/// Runs what the command line says. Exit code 1 where something failed or missed its limit.
pub fn experiments() -> ExitCode {
    let done = match Cli::parse().command {
        BenchCommand::Run(args) => run(&args),
        BenchCommand::Report(args) => report(&args).map(|()| true),
        BenchCommand::Crash(args) => crash::run(&args),
        BenchCommand::Versus(args) => versus::run(&args),
        BenchCommand::Faults(args) => faults::run(&args),
        BenchCommand::Rotation(args) => rotation::run(&args),
        BenchCommand::Injected(args) => faults::run_injected(&args),
        BenchCommand::BareTcp(args) => bare::tcp::run(&args).map(|()| true),
        BenchCommand::BareUdp(args) => bare::udp::run(&args).map(|()| true),
        BenchCommand::BareRelay(args) => bare::relay::run(&args).map(|()| true),
        BenchCommand::BareTail(args) => bare::tail::run(&args).map(|()| true),
        BenchCommand::ContainerWriter(args) => node::writer::run(&args).map(|()| true),
        BenchCommand::Classify(args) => classify::run(&args).map(|()| true),
        BenchCommand::HecSink(args) => sink::run(&args).map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("inrush-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// True if every experiment passed. One that cannot be run fails and does not keep the others from
/// running; its earlier results stay.
fn run(args: &RunArgs) -> Result<bool> {
    anyhow::ensure!(
        !cfg!(debug_assertions),
        "a debug build's bare loops are slow, which would make every limit easy: use --release"
    );
    let inrush = args
        .inrush
        .clone()
        .map_or_else(subject::default_binary, Ok)?;
    let lab = BenchHarness::new(
        &inrush,
        args.terms(),
        &args.scratch,
        args.messages.as_deref(),
    )?;
    let mut results = Results::load(&args.out)?;
    let mut raw = Results::default();
    let mut all_passed = true;
    for name in ScenarioName::expand(&args.scenarios) {
        match name.run(&lab) {
            Ok(scenario) => {
                for check in &scenario.checks {
                    let mark = if check.passed { "yes" } else { "NO " };
                    eprintln!("  {mark}  {}: {}", check.what, check.found);
                }
                all_passed &= scenario.passed();
                if let Some(file) = &args.raw {
                    raw.scenarios.insert(name.text(), scenario.clone());
                    raw.write(file)?;
                }
                results.scenarios.insert(name.text(), scenario);
                results.save(&args.out)?;
                // Also where a limit is missed: that page is the one worth reading.
                write(&args.out.with_file_name(PAGE), &report::render(&results))?;
            }
            Err(error) => {
                eprintln!("inrush-bench: {}: {error:#}", name.text());
                all_passed = false;
            }
        }
    }
    if args.json {
        bare::say(&serde_json::to_string(&results)?)?;
    }
    Ok(all_passed)
}

fn report(args: &ReportArgs) -> Result<()> {
    let results = Results::load(&args.results)?;
    anyhow::ensure!(
        !results.scenarios.is_empty(),
        "{} holds no results",
        args.results.display()
    );
    write(
        &args.results.with_file_name(PAGE),
        &report::render(&results),
    )
}

/// Writes a file; its error names it.
pub(crate) fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).with_context(|| file.display().to_string())
}
