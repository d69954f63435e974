//! `inrush explain`: how each record is read, what it is taken for and where it goes.
//!
//! The reading is [`inrush_inspect::explain`]'s; here is where records come from and how the
//! answer looks. Memory does not grow with the input.

mod against;
mod collector;
mod deliberate;
mod human;
mod input;
mod log;

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::ValueEnum;
use inrush_codec::SyslogOptions;
use inrush_config::Config;
use inrush_ingest::classification::{self, CompiledPacks};
use inrush_inspect::explain::log::FileFormat;
use inrush_inspect::explain::{self, Explainer, RawRecord, RecordExplanation};

use super::{ExplainArgs, UsageError};

/// What stands on stdin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Input {
    /// Records as a sender writes them to a connection: lines, or octet-counted.
    Raw,
    /// JSON objects, one a line, with the record in `raw`.
    Json,
    /// The body of a request to an HTTP Event Collector.
    Hec,
    /// Lines of a container's log, as containerd and CRI-O write them.
    Cri,
    /// Lines of a container's log, as Docker's driver `json-file` writes them.
    Docker,
    /// Lines of a plain log file.
    Lines,
}

impl Input {
    /// Form of the lines of a log; `None`: it is no log.
    fn log_format(self) -> Option<FileFormat> {
        match self {
            Self::Cri => Some(FileFormat::Cri),
            Self::Docker => Some(FileFormat::Docker),
            Self::Lines => Some(FileFormat::Lines),
            Self::Raw | Self::Json | Self::Hec => None,
        }
    }
}

/// Input of the command: the file that is named, or stdin.
fn open(args: &ExplainArgs) -> anyhow::Result<Box<dyn BufRead>> {
    let Some(path) = &args.file else {
        return Ok(Box::new(std::io::stdin().lock()));
    };
    let file = File::open(path).with_context(|| format!("{} cannot be read", path.display()))?;
    Ok(Box::new(BufReader::new(file)))
}

/// Reads the input to its end and explains every record on stdout.
pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let config = args.config.load()?;
    let of_request = args.raw || args.token.is_some() || args.query.is_some();
    if of_request && args.input != Input::Hec {
        let words = "--raw, --token and --query are for --input hec";
        return Err(UsageError(words.to_owned()).into());
    }
    if args.input == Input::Hec {
        let stdout = std::io::stdout().lock();
        let colour = has_colour(&stdout);
        let mut out = std::io::BufWriter::new(stdout);
        let code = collector::run(args, &config, open(args)?, colour, &mut out)?;
        out.flush()?;
        return Ok(code);
    }
    if args.pod.is_some() && args.input.log_format().is_none() {
        let words = "--pod is for --input cri and --input docker";
        return Err(UsageError(words.to_owned()).into());
    }
    if let Some(format) = args.input.log_format() {
        let stdout = std::io::stdout().lock();
        let colour = has_colour(&stdout);
        let mut out = std::io::BufWriter::new(stdout);
        let code = log::run(args, &config, format, open(args)?, colour, &mut out)?;
        out.flush()?;
        return Ok(code);
    }
    let chosen = explain::source(&config, args.source.as_deref());
    let (name, source) = chosen.map_err(|words| UsageError(format!("--source: {words}")))?;
    let syslog = source.syslog().cloned().unwrap_or_default();
    let packs = classification::load(&config.packs)?.packs;
    let mut explainers = Explainers {
        config: &config,
        packs,
        default: name,
        by_source: HashMap::new(),
        number: 0,
    };
    if let Some(path) = &args.against {
        return compare(path, args.json, syslog.message_bytes_max(), &mut explainers);
    }
    explain_records(args, &syslog, &mut explainers)
}

/// Explains every record of the input, cut as a source with these options cuts it.
fn explain_records(
    args: &ExplainArgs,
    syslog: &SyslogOptions,
    explainers: &mut Explainers<'_>,
) -> anyhow::Result<ExitCode> {
    let stdout = std::io::stdout().lock();
    let colour = has_colour(&stdout);
    let mut out = std::io::BufWriter::new(stdout);
    // Someone who types records wants each answer at once; a file wants speed.
    let interactive = args.file.is_none() && std::io::stdin().is_terminal();
    let mut faults = 0;
    let mut show = |arrival: input::InputRecord<'_>| -> anyhow::Result<()> {
        match arrival {
            Ok(arrival) => {
                let explained = explainers.explain(&arrival, args.fresh)?;
                if args.json {
                    out.write_all(&explained.to_json()?)?;
                    out.write_all(b"\n")?;
                } else {
                    human::write(&explained, colour, &mut out)?;
                }
            }
            Err(fault) => {
                faults += 1;
                let name = args.file.as_ref().map(|path| path.display().to_string());
                eprintln!("inrush: {}, {fault}", name.as_deref().unwrap_or("stdin"));
            }
        }
        if interactive {
            Ok(out.flush()?)
        } else {
            Ok(())
        }
    };
    let records = open(args)?;
    match args.input {
        Input::Json => input::json(records, syslog.message_bytes_max(), &mut show)?,
        _ => input::raw(records, syslog, &mut show)?,
    }
    write_rest(&explainers.rest(), args.json, &mut out)?;
    out.flush()?;
    Ok(if faults == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Says whether a terminal is to see colours.
fn has_colour(stdout: &std::io::StdoutLock<'_>) -> bool {
    stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// Writes what waited at the end of the input for parts that did not come, if anything did.
fn write_rest(waited: &[Vec<u8>], json: bool, out: &mut impl Write) -> std::io::Result<()> {
    match (waited.is_empty(), json) {
        (true, _) => Ok(()),
        (false, true) => {
            out.write_all(&explain::rest(waited))?;
            out.write_all(b"\n")
        }
        (false, false) => human::rest(waited, out),
    }
}

/// Says how what comes of messages differs from the answers in a file.
fn compare(
    path: &Path,
    json: bool,
    message_bytes_max: usize,
    explainers: &mut Explainers<'_>,
) -> anyhow::Result<ExitCode> {
    let name = path.display().to_string();
    let (name, input): (_, Box<dyn BufRead>) = match name.as_str() {
        "-" => ("stdin", Box::new(std::io::stdin().lock())),
        name => {
            let file = File::open(path).with_context(|| format!("{name} cannot be read"))?;
            (name, Box::new(BufReader::new(file)))
        }
    };
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut compared = against::Compared::default();
    let mut faults = 0;
    input::answers(input, message_bytes_max, &mut |asked| {
        match asked {
            Ok((line, arrival)) => {
                let explained = explainers.explain(&arrival, true)?;
                let each: Option<&mut dyn Write> = if json { Some(&mut out) } else { None };
                compared.add(line, &explained, each)?;
            }
            Err(fault) => {
                faults += 1;
                eprintln!("inrush: {name}, {fault}");
            }
        }
        Ok(())
    })?;
    if json {
        serde_json::to_writer(&mut out, &compared.to_json())?;
        out.write_all(b"\n")?;
    } else {
        compared.write(&mut out)?;
    }
    out.flush()?;
    Ok(match faults == 0 && compared.is_same() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// An explainer for each source that records came to.
struct Explainers<'c> {
    config: &'c Config,
    packs: Arc<CompiledPacks>,
    /// Name of the source for records that name no listener of the configuration.
    default: &'c str,
    by_source: HashMap<&'c str, Explainer>,
    number: u64,
}

impl Explainers<'_> {
    fn explain(
        &mut self,
        arrival: &RawRecord<'_>,
        fresh: bool,
    ) -> anyhow::Result<RecordExplanation> {
        let named = arrival
            .listener
            .and_then(|at| explain::listening(self.config, at));
        let (name, source) = match named {
            Some(found) => found,
            None => explain::source(self.config, Some(self.default)).map_err(UsageError)?,
        };
        let explainer = match self.by_source.entry(name) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(place) => {
                let mut new = Explainer::new(name, source, self.config, &self.packs)?;
                if !fresh {
                    new.group();
                }
                place.insert(new)
            }
        };
        if fresh {
            explainer.forget();
        }
        let mut explained = explainer.explain(arrival);
        self.number += 1;
        explained.number = self.number;
        Ok(explained)
    }

    /// Parts of records that still wait for further ones, as envelopes.
    fn rest(&mut self) -> Vec<Vec<u8>> {
        let explainers = self.by_source.values_mut();
        explainers.flat_map(Explainer::rest).collect()
    }
}
