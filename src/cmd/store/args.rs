//! The command line of `inrush store`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cmd::configuration::ConfigArg;

/// Arguments of `store`.
#[derive(Args)]
#[command(after_help = "Examples:
  inrush store ls                                   what is stored, by index
  inrush store verify --data-dir /var/lib/inrush    read all of it; exit code 1 if it is damaged
  inrush store repair                               make a damaged list of files anew
  inrush store export -o events.jsonl               every event that can be read, as JSON lines

All but `repair` change nothing, and work beside a running process.")]
pub(crate) struct StoreArgs {
    #[command(flatten)]
    pub(crate) place: StoreLocation,
    #[command(subcommand)]
    pub(crate) command: StoreCommand,
}

/// Where the store is, and how to answer.
#[derive(Args)]
pub(crate) struct StoreLocation {
    #[command(flatten)]
    pub(crate) config: ConfigArg,
    /// The folder for everything that is kept, in place of the configuration's `data_dir`
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) data_dir: Option<PathBuf>,
    /// The store, by the name of its destination, where there are several
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) destination: Option<String>,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// What to do with the store.
#[derive(Subcommand)]
pub(crate) enum StoreCommand {
    /// List what is stored by index, and what is wrong with the list of files
    Ls,
    /// Read every byte, and name each file that is damaged, missing or not in the list; exit code 1
    /// if there is any
    Verify,
    /// Make a damaged list of files anew, from the files; only while no process writes to the store
    Repair(RepairArgs),
    /// Print every event that can be read as JSON lines, each once
    Export(ExportArgs),
}

/// Arguments of `repair`.
#[derive(Args)]
pub(crate) struct RepairArgs {
    /// Say what is wrong, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Arguments of `export`.
#[derive(Args)]
pub(crate) struct ExportArgs {
    /// Only events of this index
    #[arg(long, value_name = "NAME")]
    pub(crate) index: Option<String>,
    /// The file to write, which must not be there yet; without it stdout
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}
