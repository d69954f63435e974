//! `inrush load`: the generator.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use inrush_load::{Args, LoadError};
use signal_hook::consts::{SIGINT, SIGTERM};

/// Exit code of a command line that makes no sense.
const EXIT_USAGE: u8 = 2;

/// Runs the generator and prints its report. Exit code 0 if all is well, 1 if a connection
/// failed or something was lost, duplicated or unbalanced, 2 for a wrong command line. The first
/// Ctrl-C ends the sending and still reports, with exit code 1 if `--number` was not reached; the
/// second ends the process.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let report = match inrush_load::run_until(&args, &stop) {
        Ok(report) => report,
        Err(error @ (LoadError::Usage(_) | LoadError::File { .. })) => {
            writeln!(std::io::stderr(), "inrush load: {error}")?;
            return Ok(ExitCode::from(EXIT_USAGE));
        }
        // Its words hold those of its cause already.
        Err(error) => return Err(anyhow::Error::msg(error)),
    };
    let mut stdout = std::io::stdout().lock();
    if args.json {
        writeln!(stdout, "{}", serde_json::to_string(&report)?)?;
    } else {
        write!(stdout, "{report}")?;
    }
    Ok(if report.ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
