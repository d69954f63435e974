//! The simulation of keeping and delivering: `cargo xtask sim`.
//!
//! Each seed is one run of a log on a virtual disk with virtual sinks under a virtual clock, in
//! one thread, with an oracle beside it; one of the same with an HEC server and its clients; and
//! one of a store on a virtual folder or bucket.
//! `docs/guides/simulation.md` says what happens in a run and what is checked.
#![forbid(unsafe_code)]

mod actors;
mod collector;
mod event;
mod mutants;
mod oracle;
mod scenario;
mod sink;
mod store;
mod streams;
mod subject;
mod world;

use std::io::{self, Write};
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{Args, Parser};
use inrush_event::BatchPool;

use world::{SimCounts, SimReport};

/// Each seed that this divides is run a second time and must go the same way.
const REPLAY_EVERY: u64 = 64;

/// The virtual clock is ahead of the real one by more than any run takes, so that a time that the
/// log took from the real one is always in the past.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Development tasks that are more than a line of shell.
#[derive(Parser)]
enum XtaskCommand {
    /// Run the simulations of the log, the HEC server and the store; a seed that fails is printed
    /// and replays to the byte.
    Sim(SimArgs),
}

#[derive(Args)]
struct SimArgs {
    /// Seeds to run.
    #[arg(long, default_value_t = 20_000)]
    seeds: u64,
    /// The first of them; with it alone, one seed is run.
    #[arg(long)]
    seed: Option<u64>,
    /// Print every step and every call to the disk; for one seed.
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Stop after so many seconds, however many seeds are left.
    #[arg(long)]
    seconds: Option<u64>,
    /// Only the store; all are run otherwise.
    #[arg(long)]
    store: bool,
    /// Only the log.
    #[arg(long, conflicts_with = "store")]
    log: bool,
    /// Only the HEC server with the log.
    #[arg(long, conflicts_with_all = ["store", "log"])]
    hec: bool,
    /// Threads; one a core by default.
    #[arg(long)]
    jobs: Option<usize>,
    /// Go on after a violation, and count them.
    #[arg(long)]
    keep_going: bool,
    /// Switch a deliberate bug on (needs the feature `mutants`).
    #[arg(long)]
    mutant: Option<String>,
    /// Show that each deliberate bug is found: within 10,000 seeds of the store, 20,000 of the
    /// others.
    #[arg(long)]
    mutants: bool,
}

/// The part that is simulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum SimTarget {
    #[default]
    Log,
    Hec,
    Store,
}

/// Seeds to run, and the options of their run.
#[derive(Default)]
struct SimCampaign {
    subject: SimTarget,
    first: u64,
    seeds: u64,
    jobs: Option<usize>,
    keep_going: bool,
    until: Option<Instant>,
}

/// Results of a number of seeds together.
#[derive(Default)]
struct SimTotals {
    seeds: u64,
    counts: SimCounts,
    /// Of the seeds' hashes, in any order.
    hash: u64,
    violations: Vec<(u64, String)>,
}

fn main() -> ExitCode {
    let XtaskCommand::Sim(args) = XtaskCommand::parse();
    // A panic of the log is a violation of its seed, and is reported with it.
    panic::set_hook(Box::new(|_| {}));
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "sim: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &SimArgs) -> anyhow::Result<bool> {
    if args.mutants {
        return mutants::hunt_all(args.jobs);
    }
    let mut subjects = match (args.log, args.hec, args.store) {
        (true, ..) => vec![SimTarget::Log],
        (_, true, _) => vec![SimTarget::Hec],
        (.., true) => vec![SimTarget::Store],
        _ => vec![SimTarget::Log, SimTarget::Hec, SimTarget::Store],
    };
    if let Some(name) = &args.mutant {
        subjects = vec![mutants::switch_on(name)?];
    }
    let mut is_right = true;
    for subject in subjects {
        is_right &= match args.trace {
            true => trace(args.seed.context("which seed?")?, subject)?,
            false => hunt(args, subject)?,
        };
    }
    Ok(is_right)
}

fn hunt(args: &SimArgs, subject: SimTarget) -> anyhow::Result<bool> {
    let first = args.seed.unwrap_or(0);
    let only_one = args.seed.is_some() && args.seeds == 20_000;
    let seeds = if only_one { 1 } else { args.seeds };
    let begun = Instant::now();
    let hunt = SimCampaign {
        subject,
        first,
        seeds,
        jobs: args.jobs,
        keep_going: args.keep_going,
        until: args
            .seconds
            .map(|seconds| begun + Duration::from_secs(seconds)),
    };
    let total = many(&hunt)?;
    report(&total, subject, begun.elapsed().as_secs_f64())?;
    Ok(total.violations.is_empty())
}

fn trace(seed: u64, subject: SimTarget) -> anyhow::Result<bool> {
    let pool = BatchPool::new();
    let report = one(seed, subject, true, &pool);
    let mut out = io::stdout().lock();
    writeln!(out, "{subject:?}")?;
    write!(out, "{}", report.trace)?;
    match &report.verdict {
        Some(wrong) => writeln!(out, "VIOLATION: {wrong}")?,
        None => writeln!(out, "no violation")?,
    }
    writeln!(out, "hash {:016x}", report.hash)?;
    Ok(report.verdict.is_none())
}

/// Runs one seed; a panic is its verdict.
fn one(
    seed: u64,
    subject: SimTarget,
    tracing: bool,
    pool: &std::sync::Arc<BatchPool>,
) -> SimReport {
    let origin = Instant::now() + DAY;
    let mut report = SimReport::default();
    let end = panic::catch_unwind(AssertUnwindSafe(|| match subject {
        SimTarget::Log | SimTarget::Hec => {
            world::run(seed, (subject, tracing), pool, origin, &mut report);
        }
        SimTarget::Store => store::run(seed, tracing, &mut report),
    }));
    if let Err(panic) = end {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        report.verdict = Some(format!("panic: {}", text.unwrap_or_default()));
    }
    report
}

/// Runs seeds on all cores until one fails, or all of them.
fn many(hunt: &SimCampaign) -> anyhow::Result<SimTotals> {
    if hunt.seeds == 0 {
        bail!("no seeds to run");
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let total = Mutex::new(SimTotals::default());
    let work = || {
        let pool = BatchPool::new();
        while !stop.load(Relaxed) && hunt.until.is_none_or(|until| Instant::now() < until) {
            let number = next.fetch_add(1, Relaxed);
            if number >= hunt.seeds {
                return;
            }
            let seed = hunt.first.wrapping_add(number);
            let again = || one(seed, hunt.subject, false, &pool);
            let mut report = again();
            if seed.is_multiple_of(REPLAY_EVERY) && again().hash != report.hash {
                report.verdict = Some("it does not replay".to_owned());
            }
            let mut total = total.lock().unwrap_or_else(|poison| poison.into_inner());
            stop.fetch_or(report.verdict.is_some() && !hunt.keep_going, Relaxed);
            total.add(seed, report);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..hunt.jobs.unwrap_or(cores).max(1) {
            scope.spawn(work);
        }
    });
    Ok(total
        .into_inner()
        .unwrap_or_else(|poison| poison.into_inner()))
}

impl SimTotals {
    fn add(&mut self, seed: u64, report: SimReport) {
        self.seeds += 1;
        self.hash = self.hash.wrapping_add(report.hash);
        self.counts.add(&report.counts);
        self.violations
            .extend(report.verdict.map(|words| (seed, words)));
    }
}

fn report(total: &SimTotals, subject: SimTarget, seconds: f64) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    for (seed, words) in total.violations.iter().take(20) {
        writeln!(out, "VIOLATION seed {seed}: {words}")?;
        let which = match subject {
            SimTarget::Log => "--log",
            SimTarget::Hec => "--hec",
            SimTarget::Store => "--store",
        };
        writeln!(
            out,
            "  replay: cargo xtask sim {which} --seed {seed} --trace"
        )?;
    }
    let SimCounts {
        steps,
        events,
        delivered,
        repeats,
        dropped,
        kills,
        power_cuts,
        disk_errors,
        answered,
        acked,
    } = total.counts;
    writeln!(
        out,
        "{subject:?}: {} seeds, {} violations, {seconds:.1} s, {:.0} seeds/s, hash {:016x}\n\
         {steps} steps, {events} events offered, {delivered} deliveries, {repeats} repeats, \
         {dropped} drops counted\n\
         {kills} kills, {power_cuts} power cuts, {disk_errors} disk errors, \
         {answered} requests answered 200, {acked} acknowledgements true",
        total.seeds,
        total.violations.len(),
        total.seeds as f64 / seconds,
        total.hash,
    )?;
    Ok(())
}
