//! The program that runs another one under faults: what it is told, and what it tells.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};

/// Beginning of the line that tells the process's number.
pub(super) const PID: &str = "injected: process ";

/// The program's arguments.
#[derive(Args, Debug)]
pub(crate) struct InjectedArgs {
    /// The folder whose files count
    #[arg(long, value_name = "DIR")]
    pub(super) root: PathBuf,
    /// Beginning of the names of the threads that count
    #[arg(long, default_value = "store-")]
    pub(super) threads: String,
    /// The injection, as JSON; nothing fails if not given
    #[arg(long)]
    pub(super) injection: Option<String>,
    /// File for a report of what was done, written at the end
    #[arg(long, value_name = "FILE")]
    pub(super) report: PathBuf,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    pub(super) command: Vec<String>,
}

/// Calls that were seen, and what was done to them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Traced {
    /// Calls for files of the folder, by thread and name of the call.
    pub(crate) seen: BTreeMap<String, u64>,
    /// Each that was made to fail: thread, call, path.
    pub(crate) hits: Vec<String>,
    /// True if the process was killed at one.
    pub(crate) killed: bool,
}

/// Runs a program under faults, to its end.
#[cfg(target_arch = "x86_64")]
pub(crate) fn run(args: &InjectedArgs) -> Result<bool> {
    super::tracer::run(args)
}

/// The registers of a call have other names elsewhere.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn run(args: &InjectedArgs) -> Result<bool> {
    anyhow::bail!("only on x86-64 can a program be run under faults: {args:?}")
}
