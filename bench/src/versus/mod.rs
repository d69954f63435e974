//! One build against another: scenarios by turns, so that what the host does to one it does to the
//! other. A round is the old build, the new one, and the old one again; what the old one differs
//! from itself within a round is the error of the measure.
//!
//! With `--instructions` valgrind counts instead: a run of few events and one of many, whose
//! difference is what an event costs, whatever the host does.

mod counted;
mod outcome;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use inrush_harness::files::write;
use inrush_harness::lab::{BenchHarness, RunParameters};
use inrush_harness::measure::{Cell, ScenarioResult};
use inrush_harness::stats::median;
use inrush_harness::subject::default_binary;

use crate::experiments::PAGE;
use crate::report;
use crate::results::Results;
use crate::scenario::ScenarioName;

pub(crate) use outcome::{VersusRow, section};

/// Arguments of a comparison.
#[derive(Args)]
pub(crate) struct VersusArgs {
    /// Scenarios whose CPU is compared
    #[arg(required_unless_present = "instructions")]
    scenarios: Vec<ScenarioName>,
    /// The build of before
    #[arg(long, value_name = "PATH")]
    before: PathBuf,
    /// The build of now; the one beside this program if not given
    #[arg(long, value_name = "PATH")]
    inrush: Option<PathBuf>,
    /// Runs of each scenario with the build of now; twice as many with the other
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Length of a run, seconds
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Seconds for which `store` holds the full rate
    #[arg(long, default_value_t = 10)]
    store_seconds: u64,
    /// Events that `search` searches
    #[arg(long, default_value_t = 2_000_000)]
    events: u64,
    /// Count instructions by valgrind, of every way that it can be counted for
    #[arg(long)]
    instructions: bool,
    /// Folder for the subjects' data
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    scratch: PathBuf,
    /// File for the results, the page RESULTS.md beside it
    #[arg(long, default_value = "bench/results-latest.json")]
    out: PathBuf,
}

/// Compares, says what it found, and keeps it. False where the new build costs more.
pub(crate) fn run(args: &VersusArgs) -> Result<bool> {
    anyhow::ensure!(
        !cfg!(debug_assertions),
        "a debug build says nothing of cost: use --release"
    );
    let now = args.inrush.clone().map_or_else(default_binary, Ok)?;
    let mut results = Results::load(&args.out)?;
    let mut good = true;
    let mut keep = |rows: Vec<VersusRow>| -> Result<()> {
        for row in rows {
            eprintln!("{}", row.line());
            good &= row.passes();
            results.versus.retain(|known| known.title() != row.title());
            results.versus.push(row);
        }
        results.save(&args.out)?;
        write(&args.out.with_file_name(PAGE), &report::render(&results))
    };
    for name in ScenarioName::expand_named(&args.scenarios) {
        keep(compare(args, &now, name)?)?;
    }
    if args.instructions {
        let before = args.lab(&args.before)?;
        let now = args.lab(&now)?;
        for way in counted::DeliveryPath::ALL {
            keep(vec![counted::compare(&before, &now, way, args.rounds)?])?;
        }
    }
    Ok(good)
}

impl VersusArgs {
    fn lab(&self, binary: &Path) -> Result<BenchHarness> {
        let terms = RunParameters {
            runs: 1,
            seconds: self.seconds,
            store_seconds: self.store_seconds,
            events: self.events,
            ..RunParameters::default()
        };
        BenchHarness::new(binary, terms, &self.scratch, None)
    }
}

/// The rounds of one scenario.
fn compare(args: &VersusArgs, now: &Path, name: ScenarioName) -> Result<Vec<VersusRow>> {
    let mut rounds = Vec::new();
    for round in 1..=args.rounds {
        eprintln!("{}: round {round} of {}", name.text(), args.rounds);
        let run = |binary: &Path| name.run(&args.lab(binary)?);
        rounds.push([run(&args.before)?, run(now)?, run(&args.before)?]);
    }
    let first = rounds.first().context("no round")?;
    let cells = first[1].cells.iter().filter(|cell| ours(cell));
    let rows = cells.map(|cell| {
        let costs: Vec<_> = rounds
            .iter()
            .filter_map(|round| costs(round, cell))
            .collect();
        VersusRow::cpu(&name.text(), &cell.subject, &cell.load, &costs).context("not in every run")
    });
    rows.collect()
}

/// True if a cell is one of Inrush, not of a peer or of the bare loop.
fn ours(cell: &Cell) -> bool {
    cell.subject.starts_with("inrush")
}

/// CPU-µs an event of the same cell in the three runs of a round.
fn costs(round: &[ScenarioResult; 3], cell: &Cell) -> Option<[f64; 3]> {
    let cost = |scenario: &ScenarioResult| {
        let same = |other: &&Cell| other.subject == cell.subject && other.load == cell.load;
        let found = scenario.cells.iter().find(same)?;
        let runs: Vec<f64> = found.runs.iter().map(|run| run.us_per_event).collect();
        median(&runs)
    };
    Some([cost(&round[0])?, cost(&round[1])?, cost(&round[2])?])
}
