//! The command line of `inrush replay`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::cmd::configuration::ConfigArg;

/// Arguments of `replay`.
#[derive(Args)]
#[command(after_help = "Examples:
  inrush replay -c inrush.yaml                        what of the last 15 minutes would change
  inrush replay -c inrush.yaml 'host=fw*' --since 7d --changed --send --destination splunk
  inrush replay -c inrush.yaml --from quarantine      what would become of what was refused
  inrush replay -c inrush.yaml --from quarantine --destination splunk --send
  inrush replay -c inrush.yaml --from archive.jsonl --json

Without --send nothing is sent. What is read stays where it is, but for refused events that were
delivered: these leave quarantine. See docs/guides/replay.md.")]
pub(crate) struct ReplayArgs {
    /// Which events of the store, in the query language; all without it
    #[arg(value_name = "QUERY", allow_hyphen_values = true,
        value_parser = crate::cmd::query_word)]
    pub(crate) query: Option<String>,
    #[command(flatten)]
    pub(crate) config: ConfigArg,
    /// The folder for everything that is kept, in place of the configuration's `data_dir`
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The earliest time: 15m (the default for the store), 24h, 7d, an RFC 3339 time, or `all`.
    /// For quarantine, when the event was refused
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// The time before which all lie
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// store, quarantine, a file of JSON lines (of a `file` destination, `inrush search --json` or
    /// `inrush queue quarantine cat`), or - for stdin
    #[arg(long, value_name = "WHERE", default_value = "store")]
    pub(crate) from: String,
    /// Send to this destination; may be given several times. With --from quarantine: only what it
    /// refused
    #[arg(long, value_name = "NAME")]
    pub(crate) destination: Vec<String>,
    /// Read so many records at most
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// As this source's records those count whose source is not configured any more; the first by
    /// default
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// Send them, for real
    #[arg(long)]
    pub(crate) send: bool,
    /// Send only what comes out otherwise than before
    #[arg(long, requires = "send")]
    pub(crate) changed: bool,
    /// The admin address of the running process, in place of the configuration's `admin.listen`:
    /// refused events leave its quarantine
    #[arg(long, value_name = "ADDR")]
    pub(crate) admin: Option<SocketAddr>,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}
