//! System calls of the store that fail and answers of a bucket that are lost, again and again, with
//! `kill -9`, under RELP load: what was acknowledged is there afterwards, once.
//!
//! A round is one life of the built binary under faults ([`plan`], by seed), ended by a kill, by a
//! stop, or not at all; then a start without faults. Calls are made to fail by ptrace ([`tracer`]),
//! answers by a proxy before a real S3 service ([`proxy`]). Once everything is delivered, [`judge`]
//! looks each event up in the store and in the file, and [`commits`] adds up what retention took.
//! The next rounds go on in the same folder ([`series`]), for some faults only show there.
//!
//! A power cut cannot be had here: what was written and not synced stays. The simulation of the
//! store has that.

mod bucket;
#[cfg(target_arch = "x86_64")]
mod calls;
mod commits;
mod injected;
mod judge;
mod outcome;
mod plan;
mod process;
mod proxy;
mod series;
#[cfg(target_arch = "x86_64")]
mod tracer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Instant;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use inrush_harness::subject::default_binary;
use serde::{Deserialize, Serialize};

use crate::crash::free_ports;
use crate::results::Results;
use bucket::{Bucket, S3Service};
use plan::RoundPlan;
use series::RoundSeries;

pub(crate) use injected::{InjectedArgs, run as run_injected};
pub(crate) use outcome::{FaultsRun, section};

/// Ports to listen on: below those that the kernel gives to connections.
const PORTS: std::ops::Range<u16> = 25_000..26_000;

/// Rounds in one folder.
const SERIES: u8 = 16;

/// Arguments of a run.
#[derive(Args, Debug)]
pub(crate) struct FaultsArgs {
    /// Rounds: a life under faults, and a start after it
    #[arg(long, default_value_t = 1_000)]
    rounds: u64,
    /// Seed of what fails, and when; chosen by the clock if not given
    #[arg(long)]
    seed: Option<u64>,
    /// The first round
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Rounds at once, each in a folder of its own
    #[arg(long, default_value_t = 1)]
    workers: u64,
    /// Place of the store
    #[arg(long, default_value = "disk")]
    on: StoreMedium,
    /// SeaweedFS; the one that `make test` installs if not given
    #[arg(long, value_name = "PATH")]
    weed: Option<PathBuf>,
    /// Folder in which its data gets one of its own
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The program to test; the one beside this one if not given
    #[arg(long, value_name = "PATH")]
    inrush: Option<PathBuf>,
    /// Print the result as JSON on stdout
    #[arg(long)]
    json: bool,
    /// File that the result is added to; a run with the same seed and place is replaced
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Place of the store.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StoreMedium {
    /// On a disk.
    #[default]
    Disk,
    /// In a bucket.
    S3,
}

impl StoreMedium {
    fn text(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::S3 => "S3",
        }
    }
}

/// Runs it; whether everything held.
pub(crate) fn run(args: &FaultsArgs) -> Result<bool> {
    let clock = std::time::UNIX_EPOCH.elapsed().map_or(1, |d| d.as_nanos());
    let seed = args.seed.unwrap_or(clock as u64 % 1_000_000);
    let binary = args.inrush.clone().map_or_else(default_binary, Ok)?;
    let binary = binary
        .canonicalize()
        .with_context(|| binary.display().to_string())?;
    let base = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let scratch = tempfile::Builder::new()
        .prefix("inrush-faults-")
        .tempdir_in(&base)
        .with_context(|| base.display().to_string())?;
    let (dir, rounds) = (scratch.path().to_owned(), args.rounds);
    eprintln!("faults: seed {seed}, {rounds} rounds, in {}", dir.display());
    let begun = Instant::now();
    let service = match args.on {
        StoreMedium::Disk => None,
        StoreMedium::S3 => Some(service(args, &binary, &dir)?),
    };
    let work = FaultsContext {
        seed,
        binary,
        dir,
        service,
        next: AtomicU64::new(args.from),
        end: args.from + rounds,
        begun,
    };
    let mut run = work.run(args.workers);
    run.seed = seed;
    run.on = args.on;
    run.seconds = begun.elapsed().as_secs_f64();
    run.ended = jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string();
    drop(work);
    run.say();
    if !run.passed() {
        let kept = scratch.keep();
        eprintln!("faults: seed {seed}: kept for a look: {}", kept.display());
    }
    report(args, run)
}

fn report(args: &FaultsArgs, run: FaultsRun) -> Result<bool> {
    let passed = run.passed();
    if args.json {
        inrush_harness::bare::say(&serde_json::to_string(&run)?)?;
    }
    if let Some(out) = &args.out {
        let mut results = Results::load(out)?;
        outcome::add(&mut results.faults, run);
        results.save(out)?;
        crate::experiments::write(
            &out.with_file_name(crate::experiments::PAGE),
            &crate::report::render(&results),
        )?;
    }
    Ok(passed)
}

fn service(args: &FaultsArgs, binary: &Path, dir: &Path) -> Result<S3Service> {
    let program = args
        .weed
        .clone()
        .or_else(|| bucket::default_program(binary));
    let program = program.context("no SeaweedFS: `make test` installs it, or give --weed")?;
    S3Service::start(&program, dir, &ports()?)
}

/// Ports that nobody listens on now.
fn ports<const N: usize>() -> Result<[u16; N]> {
    let free: Vec<u16> = free_ports(PORTS).take(N).collect();
    free.try_into().ok().context("no free ports")
}

/// State that the workers share.
struct FaultsContext {
    seed: u64,
    binary: PathBuf,
    dir: PathBuf,
    service: Option<S3Service>,
    next: AtomicU64,
    end: u64,
    begun: Instant,
}

impl FaultsContext {
    fn run(&self, workers: u64) -> FaultsRun {
        let mut all = FaultsRun::default();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..workers)
                .map(|worker| scope.spawn(move || self.work(worker)))
                .collect();
            for thread in threads {
                match thread.join() {
                    Ok(run) => all.add(run),
                    Err(_) => all.tell("a worker ended by a fault".to_owned()),
                }
            }
        });
        all
    }

    fn work(&self, worker: u64) -> FaultsRun {
        let mut run = FaultsRun::default();
        let mut series: Option<RoundSeries> = None;
        let mut folders = 0;
        loop {
            let number = self.next.fetch_add(1, SeqCst);
            if number >= self.end {
                break;
            }
            let told = run.wrong.len();
            let open = series.take().map_or_else(
                || {
                    folders += 1;
                    self.series(&format!("w{worker}-{folders}"))
                },
                Ok,
            );
            series = self.round(number, open, &mut run);
            let seconds = self.begun.elapsed().as_secs_f64();
            if (number + 1).is_multiple_of(50) || run.wrong.len() > told {
                eprintln!("faults: round {number}, {seconds:.0} s");
            }
            for text in run.wrong.iter().skip(told) {
                eprintln!("  {text}");
            }
        }
        if let Some(open) = series {
            self.finish(&open, &mut run);
        }
        run
    }

    /// One round; the folder for the next one, if there is one. After a round that went wrong there
    /// is none, for what comes after it there would be wrong for the same reason.
    fn round(
        &self,
        number: u64,
        open: Result<RoundSeries>,
        run: &mut FaultsRun,
    ) -> Option<RoundSeries> {
        let plan = RoundPlan::of(self.seed, number);
        let told = run.wrong.len();
        run.rounds += 1;
        let done = open.and_then(|mut open| {
            let dir = open.dir().display().to_string();
            open.round(&plan, run).context(dir)?;
            Ok(open)
        });
        match done {
            Ok(open) if run.wrong.len() == told => self.go_on(open, run),
            Ok(open) => {
                let kept = open.dir().display();
                run.wrong
                    .push(format!("round {number}, in {kept}: {plan:?}"));
                None
            }
            Err(error) => {
                run.broken += 1;
                run.wrong
                    .push(format!("round {number}: {error:#}: {plan:?}"));
                None
            }
        }
    }

    /// The folder for the next round, if it may serve for another.
    fn go_on(&self, open: RoundSeries, run: &mut FaultsRun) -> Option<RoundSeries> {
        if open.rounds() < SERIES {
            return Some(open);
        }
        self.finish(&open, run);
        None
    }

    fn finish(&self, open: &RoundSeries, run: &mut FaultsRun) {
        match open.verify() {
            Ok(()) => {
                // It has served.
                let _ = std::fs::remove_dir_all(open.dir());
            }
            Err(error) => run.tell(format!("{}: {error:#}", open.dir().display())),
        }
    }

    fn series(&self, name: &str) -> Result<RoundSeries> {
        let bucket = self
            .service
            .as_ref()
            .map(Bucket::new)
            .transpose()?
            .map(Arc::new);
        RoundSeries::new(&self.binary, self.dir.join(name), ports()?, bucket)
    }
}
