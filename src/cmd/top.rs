//! `inrush top`: what flows, waits and is lost in a running process, on a terminal.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use inrush_client::{AdminTarget, reachable};
use inrush_config::AdminOptions;
use inrush_event::Secret;
use inrush_top::TopError;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::configuration::ConfigArg;
use super::{TopArgs, UsageError, authorities};

/// Columns of a frame that is not for a terminal.
const PAPER_COLUMNS: u16 = 100;

/// Shows it until a key or a signal says stop, or prints it once.
pub(crate) fn run(args: &TopArgs) -> anyhow::Result<ExitCode> {
    let (url, token) = match &args.url {
        Some(url) => (url.clone(), None),
        None => configured(&args.config)?,
    };
    let target = AdminTarget {
        url,
        // Not an option: those of a running program can be read by every user of the machine.
        token: inrush_client::token(token.as_ref().map(Secret::expose)),
        verifier: match &args.ca {
            Some(path) => Some(authorities::of_file(path)?),
            None => None,
        },
    };
    if args.json {
        print(inrush_top::json(&target).map(|text| text + "\n"))?;
    } else if args.once {
        print(inrush_top::once(&target, PAPER_COLUMNS))?;
    } else {
        live(&target)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Address and first token of the process that runs with the configuration. Where only packages
/// name one and this user may not read it, the address is that of the built-in one.
fn configured(config: &ConfigArg) -> anyhow::Result<(String, Option<Secret>)> {
    let admin = match config.load() {
        Ok(config) => config.admin,
        Err(_) if !config.is_named() => AdminOptions::default(),
        Err(error) => return Err(error),
    };
    let scheme = match &admin.tls {
        Some(_) => "https",
        None => "http",
    };
    let url = format!("{scheme}://{}", reachable(admin.listen.0));
    Ok((url, admin.tokens.into_iter().next()))
}

fn print(text: Result<String, TopError>) -> anyhow::Result<()> {
    let text = text.map_err(reported)?;
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// An address, a token or a file that makes no sense is wrong usage.
fn reported(error: TopError) -> anyhow::Error {
    match error {
        TopError::Usage(_) => UsageError(error.to_string()).into(),
        error => error.into(),
    }
}

fn live(target: &AdminTarget) -> anyhow::Result<()> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        let text = "top needs a terminal; use --once or --json where there is none";
        return Err(UsageError(text.to_owned()).into());
    }
    // A signal must not leave the terminal as we use it.
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    inrush_top::run(target, colour, &stop).map_err(reported)
}
