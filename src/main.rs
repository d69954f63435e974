//! `inrush`: takes the surge of a security team's events from the wire to the index, and accounts
//! for every one of them.
//!
//! Exit codes: 0 done, 1 failed at its job, 2 wrong usage or configuration. Errors go to stderr
//! and say what, where and what to do; stdout carries what was asked for and nothing else.

#![forbid(unsafe_code)]

mod cmd;

use std::io::ErrorKind;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Parser;
use inrush_config::FileProblems;
use signal_hook::consts::SIGXFSZ;

use cmd::{Cli, UsageError};

/// Wrong usage or configuration.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    inrush_files::keep_private();
    // A limit on the size of files (RLIMIT_FSIZE) is an error of a write then, not the end.
    let passed = Arc::new(AtomicBool::new(false));
    if let Err(error) = signal_hook::flag::register(SIGXFSZ, passed) {
        eprintln!("inrush: a limit on the size of files will end the process: {error}");
    }
    match cmd::dispatch(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => report(&error),
    }
}

/// Says what went wrong, and how the process therefore ends.
fn report(error: &anyhow::Error) -> ExitCode {
    // Whoever read our output has had enough, as in `inrush explain | head`.
    let broken_pipe = |cause: &(dyn std::error::Error + 'static)| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|e| e.kind() == ErrorKind::BrokenPipe)
    };
    if error.chain().any(broken_pipe) {
        return ExitCode::SUCCESS;
    }
    match error.downcast_ref::<FileProblems>() {
        Some(problems) => eprintln!("{problems}"),
        None => eprintln!("inrush: {error:#}"),
    }
    exit_code(error)
}

/// Wrong usage or configuration, or a failure.
fn exit_code(error: &anyhow::Error) -> ExitCode {
    match error.is::<UsageError>() || error.is::<FileProblems>() {
        true => ExitCode::from(EXIT_USAGE),
        false => ExitCode::FAILURE,
    }
}
