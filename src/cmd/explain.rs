//! `inrush explain`: says of each record how it is read, what it is taken for and where it goes.
//!
//! The reading is [`inrush_pipeline::explain`]'s; here is where records come from and how the
//! answer looks. Memory does not grow with the input.

mod human;
mod input;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::ValueEnum;
use inrush_pipeline::explain::{self, Explainer};

use super::{ExplainArgs, Usage};

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
    let (name, source) = chosen.map_err(|words| Usage(format!("--source: {words}")))?;
    let mut explainer = Explainer::new(name, source, &config)?;
    let stdout = std::io::stdout().lock();
    let colour = stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let mut out = std::io::BufWriter::new(stdout);
    // Someone who types records wants each answer at once; a file wants speed.
    let interactive = std::io::stdin().is_terminal();
    let mut faults = 0;
    let mut show = |arrival: input::Item<'_>| -> anyhow::Result<()> {
        match arrival {
            Ok(arrival) => {
                if args.fresh {
                    explainer.forget();
                }
                let explained = explainer.explain(&arrival);
                if args.json {
                    out.write_all(&explained.to_json()?)?;
                    out.write_all(b"\n")?;
                } else {
                    human::write(&explained, colour, &mut out)?;
                }
            }
            Err(fault) => {
                faults += 1;
                eprintln!("inrush: {fault}");
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
        Input::Raw => input::raw(stdin, &source.syslog, &mut show)?,
        Input::Json => input::json(stdin, source.syslog.message_bytes_max(), &mut show)?,
    }
    out.flush()?;
    Ok(if faults == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
