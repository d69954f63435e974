//! `inrush explain`: says of each record how it is read, what it is taken for and where it goes.
//!
//! The reading is [`inrush_inspect::explain`]'s; here is where records come from and how the
//! answer looks. Memory does not grow with the input.

mod against;
mod deliberate;
mod human;
mod input;

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::ValueEnum;
use inrush_config::Config;
use inrush_ingest::classification::{self, CompiledPacks};
use inrush_inspect::explain::{self, Explainer, RawRecord, RecordExplanation};

use super::{ExplainArgs, UsageError};

/// What stands on stdin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Input {
    /// Records as a sender writes them to a connection: lines, or octet-counted.
    Raw,
    /// JSON objects, one a line, with the record in `raw`.
    Json,
}

/// Reads stdin to its end and explains every record on stdout.
pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let config = super::configuration(args.config.as_deref())?;
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
    let stdout = std::io::stdout().lock();
    let colour = stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let mut out = std::io::BufWriter::new(stdout);
    // Someone who types records wants each answer at once; a file wants speed.
    let interactive = std::io::stdin().is_terminal();
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
                eprintln!("inrush: stdin, {fault}");
            }
        }
        if interactive {
            Ok(out.flush()?)
        } else {
            Ok(())
        }
    };
    let stdin = std::io::stdin().lock();
    match args.input {
        Input::Raw => input::raw(stdin, &syslog, &mut show)?,
        Input::Json => input::json(stdin, syslog.message_bytes_max(), &mut show)?,
    }
    let waited = explainers.rest();
    if !waited.is_empty() {
        if args.json {
            out.write_all(&explain::rest(&waited))?;
            out.write_all(b"\n")?;
        } else {
            human::rest(&waited, &mut out)?;
        }
    }
    out.flush()?;
    Ok(if faults == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
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
