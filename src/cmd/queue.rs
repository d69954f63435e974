//! `inrush queue`: looks into the queue of a data directory, also beside the process that uses it,
//! and mends it when none does.

mod args;
pub(crate) mod client;
mod events;
pub(crate) mod ls;
mod quarantine;
mod repair;
mod verify;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use inrush_pipeline::DataDirLock;
use inrush_queue::Inspector;

use args::{QueueCommand, QueueLocation};

pub(crate) use args::QueueArgs;

/// Runs a subcommand.
pub(crate) fn run(args: QueueArgs) -> anyhow::Result<ExitCode> {
    let place = &args.place;
    match &args.command {
        QueueCommand::Ls => ls::run(place),
        QueueCommand::Verify => verify::run(place),
        QueueCommand::Cat(cat) => events::cat(place, cat),
        QueueCommand::Export(export) => events::export(place, export),
        QueueCommand::Repair(repair) => repair::run(place, repair),
        QueueCommand::Quarantine(quarantine) => quarantine::run(place, &quarantine.command),
    }
}

impl QueueLocation {
    fn data_dir(&self) -> anyhow::Result<PathBuf> {
        match &self.data_dir {
            Some(data_dir) => Ok(data_dir.clone()),
            None => Ok(self.config.load()?.data_dir),
        }
    }
}

/// The log in this folder under the data directory.
fn inspect(data_dir: &Path, folder: &str) -> anyhow::Result<Option<Inspector>> {
    let folder = data_dir.join(folder);
    match Inspector::open(&folder, DataDirLock::is_taken(data_dir)) {
        // Nothing was ever kept; but a wrong data directory must not look like an empty queue.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && data_dir.is_dir() => Ok(None),
        opened => opened.with_context(|| format!("cannot read {}", folder.display())),
    }
}

/// The queue, of which there must be one.
fn queue(data_dir: &Path) -> anyhow::Result<Inspector> {
    match inspect(data_dir, QUEUE)? {
        Some(queue) => Ok(queue),
        None => bail!("there is no queue in {}", data_dir.display()),
    }
}

/// The folder of the queue under the data directory.
const QUEUE: &str = "queue";

/// Seconds since 1970 as people read them.
fn date(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).map_or_else(|_| "?".to_owned(), |at| at.to_string())
}
