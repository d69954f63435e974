//! Rotation torture: files of numbered lines that are rotated in every way, a collector that is
//! killed and started again, and an account of every line.
//!
//! Writers ([`log`]) and a rotator ([`rotator`]) work on their files on threads of their own; the
//! collector under test ([`subject`]) sends to an endpoint in this process ([`collector`]), whose
//! account ([`account`]) is compared with the truth ([`verdict`]).

mod account;
mod collector;
mod counters;
mod field;
mod format;
mod generation;
mod line;
mod log;
mod outcome;
mod rig;
mod rotator;
mod scheme;
mod subject;
#[cfg(test)]
mod tests;
mod verdict;

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use inrush_harness::subject::default_binary;

use crate::results::Results;
use rig::RotationRig;

pub(crate) use account::ArrivalAccount;
pub(crate) use collector::LineCollector;
pub(crate) use field::{LogField, WriteRate};
pub(crate) use format::LogFormat;
pub(crate) use line::{LineNumber, LineShape, push_line};
pub(crate) use log::{LANES, LogSettings, NumberedLog};
pub(crate) use outcome::{RotationRun, section};
pub(crate) use rig::PORTS;
pub(crate) use rotator::prepare;
pub(crate) use scheme::RotationScheme;
pub(crate) use subject::{TailPlaces, TailProduct, TailSetup};

/// Settings of a run.
#[derive(Args, Clone, Debug)]
pub(crate) struct RotationArgs {
    /// Ways of rotation; all of them if none is named
    schemes: Vec<RotationScheme>,
    /// The collector under test
    #[arg(long, default_value = "inrush")]
    collector: TailProduct,
    /// Another collector: its command line, with @CONFIG@, @DIR@, @INCLUDE@, @FORMAT@, @SINK@ and
    /// @ADMIN@ filled in
    #[arg(long, value_name = "WORDS", requires = "config")]
    command: Option<String>,
    /// Another configuration, in which the same names are filled in
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Files that are written at once
    #[arg(long, default_value_t = 64)]
    files: u32,
    /// Lines a second of each file
    #[arg(long, default_value_t = 800)]
    rate: u64,
    /// Seconds for which is written
    #[arg(long, default_value_t = 1800)]
    seconds: u64,
    /// Seconds between two rotations of a file
    #[arg(long, default_value = "1..5", value_parser = span)]
    rotate: SecondSpan,
    /// Rotated files that are kept
    #[arg(long, default_value_t = 3)]
    keep: usize,
    /// Seconds between two kills of the collector; 0: it is never killed
    #[arg(long, default_value_t = 20)]
    kill_every: u64,
    /// Seconds for which it is down then
    #[arg(long, default_value = "0..0.5", value_parser = span)]
    down: SecondSpan,
    /// Seconds without an arrival, once all is written, after which missing lines are lost
    #[arg(long, default_value_t = 15)]
    still: u64,
    /// Form of the lines; that of those who rotate in this way if not given
    #[arg(long)]
    format: Option<LogFormat>,
    /// Bytes of an ordinary line
    #[arg(long, default_value_t = 1024)]
    bytes: usize,
    /// One line of so many is long; 0: none
    #[arg(long, default_value_t = 50)]
    long_every: u32,
    /// Bytes of a long line at most
    #[arg(long, default_value_t = 60_000)]
    long_bytes: usize,
    /// Lines a second of each file in a burst; 0: there is none
    #[arg(long, default_value_t = 0)]
    burst: u64,
    /// Seconds of a burst
    #[arg(long, default_value_t = 20)]
    burst_seconds: u64,
    /// Seconds from the begin of a burst to that of the next
    #[arg(long, default_value_t = 60)]
    burst_every: u64,
    /// Lines a second that the endpoint takes; 0: any number
    #[arg(long, default_value_t = 0)]
    sink_rate: u64,
    /// Folder for the files, in one of their own: a disk, or a tmpfs
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    logs: PathBuf,
    /// Folder for the collector's data, in one of its own
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    dir: PathBuf,
    /// The program to test; the one beside this one if not given
    #[arg(long, value_name = "PATH")]
    inrush: Option<PathBuf>,
    /// Print the results as JSON on stdout, one a line
    #[arg(long)]
    json: bool,
    /// File that the results are added to; a run of the same collector, way and load is replaced
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// A span of seconds, `1..5`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SecondSpan(Range<f64>);

impl SecondSpan {
    /// A length of time within it.
    fn pick(&self, chance: &mut fastrand::Rng) -> Duration {
        let Range { start, end } = self.0;
        Duration::from_secs_f64(start + chance.f64() * (end - start))
    }
}

fn span(text: &str) -> Result<SecondSpan> {
    let (start, end) = text.split_once("..").unwrap_or((text, text));
    let (start, end): (f64, f64) = (start.parse()?, end.parse()?);
    match 0.0 <= start && start <= end && end.is_finite() {
        true => Ok(SecondSpan(start..end)),
        false => bail!("not a span of seconds, such as 1..5"),
    }
}

impl RotationArgs {
    /// Load in words.
    fn load(&self) -> String {
        let (files, rate, seconds, keep) = (self.files, self.rate, self.seconds, self.keep);
        let Range { start, end } = self.rotate.0;
        let burst = match self.burst {
            0 => String::new(),
            rate => format!(", bursts of {rate}/s for {} s", self.burst_seconds),
        };
        let kills = match self.kill_every {
            0 => String::new(),
            seconds => format!(", killed every {seconds} s"),
        };
        let slow = match self.sink_rate {
            0 => String::new(),
            rate => format!(", endpoint of {rate}/s"),
        };
        format!(
            "{files} × {rate}/s{burst}, {seconds} s, rotated every {start}–{end} s, {keep} kept\
             {kills}{slow}"
        )
    }

    /// Command and configuration that start the collector.
    fn setup(&self) -> Result<TailSetup> {
        let setup = match &self.command {
            Some(command) => {
                let words: Vec<&str> = command.split_whitespace().collect();
                TailSetup::new(&words, "", None)
            }
            None => {
                let inrush = match self.collector {
                    TailProduct::Inrush => self.inrush.clone().map_or_else(default_binary, Ok)?,
                    _ => PathBuf::new(),
                };
                self.collector.setup(&inrush)?
            }
        };
        let Some(file) = &self.config else {
            return Ok(setup);
        };
        let template = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        Ok(setup.with_template(template))
    }

    fn format(&self, scheme: RotationScheme) -> LogFormat {
        self.format.unwrap_or(scheme.format())
    }

    fn settings(&self, scheme: RotationScheme) -> LogSettings {
        LogSettings {
            format: self.format(scheme),
            shape: LineShape {
                bytes: self.bytes,
                long_every: self.long_every,
                long_bytes_max: self.long_bytes,
            },
            append: scheme.appends(),
        }
    }
}

/// Runs it; whether everything held.
pub(crate) fn run(args: &RotationArgs) -> Result<bool> {
    use clap::ValueEnum;
    let schemes = match args.schemes.as_slice() {
        [] => RotationScheme::value_variants(),
        named => named,
    };
    let mut passed = true;
    for scheme in schemes {
        eprintln!("rotation: {}, {}", scheme.name(), args.load());
        let run = RotationRig::run(args, *scheme)?;
        run.tell();
        passed &= run.passed();
        if args.json {
            inrush_harness::bare::say(&serde_json::to_string(&run)?)?;
        }
        if let Some(out) = &args.out {
            let mut results = Results::load(out)?;
            outcome::add(&mut results.rotation, run);
            results.save(out)?;
            crate::experiments::write(
                &out.with_file_name(crate::experiments::PAGE),
                &crate::report::render(&results),
            )?;
        }
    }
    Ok(passed)
}
