//! The command line of `inrush queue`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use inrush_pipeline::quarantine::QuarantineQuery;

use crate::cmd::configuration::ConfigArg;

/// Arguments of `queue`.
#[derive(Args)]
#[command(after_help = "Examples:
  inrush queue ls                                     what is kept, and for whom
  inrush queue verify --data-dir /var/lib/inrush      read all of it; exit code 1 if it is damaged
  inrush queue cat --destination splunk --limit 10    what is pending there, as JSON lines
  inrush queue export --destination old -o old.log    save what an abandoned destination missed
  inrush queue repair --dry-run                       what a repair would do
  inrush queue quarantine ls                          what was refused, by destination and reason

All but repair and `quarantine replay` and `drop` change nothing, and work beside a running process.")]
pub(crate) struct QueueArgs {
    #[command(flatten)]
    pub(crate) place: QueueLocation,
    #[command(subcommand)]
    pub(crate) command: QueueCommand,
}

/// Where the queue is, and how to answer.
#[derive(Args)]
pub(crate) struct QueueLocation {
    #[command(flatten)]
    pub(crate) config: ConfigArg,
    /// The folder for everything that is kept, in place of the configuration's `data_dir`
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) data_dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// What to do with the queue.
#[derive(Subcommand)]
pub(crate) enum QueueCommand {
    /// List segments, destinations and files that were put aside
    Ls,
    /// Read everything, and count exactly what is sound and what is lost; exit code 1 if damaged
    Verify,
    /// Print events as JSON lines
    Cat(CatArgs),
    /// Copy events to a file or stdout, ready to be sent elsewhere
    Export(ExportArgs),
    /// Write damaged segments anew without what is bad; only while no process uses them
    Repair(RepairArgs),
    /// What destinations refused for good
    Quarantine(QuarantineArgs),
}

/// Which events.
#[derive(Args)]
pub(crate) struct EventArgs {
    /// Only what is pending at this destination
    #[arg(long, value_name = "NAME")]
    pub(crate) destination: Option<String>,
    /// Number of the first event
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) from: u64,
    /// Number of the last event
    #[arg(long, value_name = "N")]
    pub(crate) to: Option<u64>,
    /// At most so many events
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
}

/// Arguments of `cat`.
#[derive(Args)]
pub(crate) struct CatArgs {
    #[command(flatten)]
    pub(crate) events: EventArgs,
    /// Print the records as they came, a line each
    #[arg(long, conflicts_with = "json")]
    pub(crate) raw: bool,
}

/// Arguments of `export`.
#[derive(Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) events: EventArgs,
    /// How records are told apart
    #[arg(long, value_name = "KIND", value_enum, default_value_t = ExportFraming::Newline)]
    pub(crate) framing: ExportFraming,
    /// The file to write, which must not be there yet; without it stdout
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// How exported records are told apart.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFraming {
    /// A line feed behind each; those within a record become spaces
    Newline,
    /// Their length and a space before each (RFC 6587): every byte is kept
    Octet,
    /// JSON lines with every field
    Json,
}

/// Arguments of `repair`.
#[derive(Args)]
pub(crate) struct RepairArgs {
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Arguments of `quarantine`.
#[derive(Args)]
pub(crate) struct QuarantineArgs {
    #[command(subcommand)]
    pub(crate) command: QuarantineCommand,
}

/// What to do with refused events.
#[derive(Subcommand)]
pub(crate) enum QuarantineCommand {
    /// Count them by destination and reason
    Ls(RefusalSelection),
    /// Print them as JSON lines, each with the reason
    Cat(RefusedCatArgs),
    /// Have the running process send them again, each to the destination that refused it
    Replay(QuarantineChange),
    /// Delete them for good
    Drop(QuarantineChange),
}

/// Which refused events.
#[derive(Args)]
pub(crate) struct RefusalSelection {
    /// Refused by this destination
    #[arg(long, value_name = "NAME")]
    destination: Option<String>,
    /// Refused for this reason, such as `invalid_event`
    #[arg(long, value_name = "REASON")]
    reason: Option<String>,
    /// By their numbers: 7 or 7,9 or 100-200
    #[arg(long, value_name = "NUMBERS")]
    id: Option<String>,
    /// Refused within this time before now, such as 15m
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
}

/// Arguments of `quarantine cat`.
#[derive(Args)]
pub(crate) struct RefusedCatArgs {
    #[command(flatten)]
    pub(crate) which: RefusalSelection,
    /// At most so many events
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
}

/// Which refused events, and who is to be told.
#[derive(Args)]
pub(crate) struct QuarantineChange {
    #[command(flatten)]
    pub(crate) which: RefusalSelection,
    /// All of them
    #[arg(long, conflicts_with_all = ["destination", "reason", "id", "since"])]
    pub(crate) all: bool,
    /// The admin address of the running process, in place of the configuration's `admin.listen`
    #[arg(long, value_name = "ADDR")]
    pub(crate) admin: Option<SocketAddr>,
}

impl RefusalSelection {
    pub(crate) fn query(&self, all: bool) -> QuarantineQuery {
        QuarantineQuery {
            destination: self.destination.clone(),
            reason: self.reason.clone(),
            id: self.id.clone(),
            since: self.since.clone(),
            all,
            limit: None,
        }
    }
}
