//! Command line of `inrush`: the subcommands, their arguments, and the dispatch to their files.
//!
//! # What it guarantees
//! * `dispatch` returns an exit code or an error; `main` prints the error and picks the code.
//! * `UsageError` and problems of the configuration end with exit code 2.
//! * `ConfigArg` finds the configuration in the same way for every command.
//! * `query_word` refuses an unknown option in place of a query, so that no typo is searched for.
//!
//! # In reading order
//! 1. `CliCommand`: the subcommands. `Sql` shares the file of `Search`; some are hidden.
//! 2. Arguments: some here, the others in the file of their subcommand.
//! 3. `dispatch`: one call for each subcommand.

mod authorities;
mod bench;
mod bounds;
mod calibrate;
mod check;
mod configuration;
mod doctor;
mod explain;
mod load;
mod log;
mod manual;
mod migrate;
mod password;
mod plan;
mod queue;
mod replay;
mod run;
mod search;
mod searcher;
mod store;
mod top;
mod version;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use configuration::ConfigArg;

/// The command line.
#[derive(Parser)]
#[command(
    name = "inrush",
    version,
    about = "Takes a surge of security events from the wire to the index, and accounts for every one",
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = "Examples:
  inrush run                              syslog on port 5514, a store under ./inrush-data
  inrush check inrush.yaml                list what is wrong with a configuration
  echo '<34>Oct 11 22:14:15 fw1 su: failed' | inrush explain
  inrush search 'denied host=fw*'         the newest events with that word from those hosts
  inrush replay --since 24h               what today's packs would make of what is stored
  inrush queue ls                         what is kept on disk, and for whom
  inrush store verify                     whether every stored event can be read
  inrush top                              what flows, waits and is lost, live
  inrush doctor                           what of this host loses events, and what mends it
  inrush plan --eps 500000 --size 800     hosts, memory and disk for a load
  inrush load tcp://127.0.0.1:5514 --rate 10000 --interval 10
  inrush bench                            the field's published tables, measured here

The configuration is -c FILE, else INRUSH_CONFIG, else /etc/inrush/inrush.yaml where it exists, else
the built-in one.
Exit codes: 0 done, 1 failed at its job, 2 wrong usage or configuration."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

/// What to do.
#[derive(Subcommand)]
pub(crate) enum CliCommand {
    /// Receive, keep and deliver events until a signal says stop
    Run(RunArgs),
    /// Check a configuration file: one line for each problem, with file:line:column
    Check(CheckArgs),
    /// Send generated events, and report how many per second, and what became of them
    Load(Box<inrush_load::Args>),
    /// Say of each record on stdin how it is read, what it is taken for and where it would go
    Explain(ExplainArgs),
    /// Find stored events: newest first, or as a table of counts
    Search(SearchArgs),
    /// Ask for stored events in SQL, over the table `events`
    Sql(SqlArgs),
    /// Read kept records again by today's packs: what would change, or send them again
    Replay(Box<replay::ReplayArgs>),
    /// Look into what is kept on disk, and mend it
    Queue(Box<queue::QueueArgs>),
    /// Look into the embedded store, and mend its list of files
    Store(Box<store::StoreArgs>),
    /// Show what flows, waits and is lost in a running process, live
    Top(TopArgs),
    /// Say what of this host loses events or is too small, why, and the command that mends it
    Doctor(DoctorArgs),
    /// Say how many hosts, and how much memory and disk, a load needs
    Plan(plan::PlanArgs),
    /// Measure the tables that this field publishes, on this machine, beside its other collectors
    Bench(bench::BenchArgs),
    /// Make a configuration of what another collector was configured with
    Migrate(migrate::MigrateArgs),
    /// Print the version, the commit and the compiler that made this program
    Version(version::VersionArgs),
    /// Print the completions of a shell, as packages install them
    #[command(hide = true)]
    Completions(manual::CompletionsArgs),
    /// Write the manual pages into a folder, as packages install them
    #[command(hide = true)]
    Man(manual::ManArgs),
    /// Answer the searches of the process that started it, over stdin and stdout
    #[command(hide = true)]
    SearchWorker,
}

/// Arguments of `run`.
#[derive(Args, Clone)]
#[command(after_help = "Examples:
  inrush run
  inrush run -c inrush.yaml
  inrush run -c inrush.yaml --data-dir /srv/inrush

Without -c the configuration is the file in INRUSH_CONFIG, else /etc/inrush/inrush.yaml where that
exists, else the built-in one: syslog on port 5514. It is the same for every command.
SIGHUP reads the configuration again; SIGTERM and SIGINT deliver what is pending and stop.")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArg,
    /// The folder for everything that is kept, in place of the configuration's `data_dir`
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Run as this env_file of SC4S says, in place of a configuration: see `inrush migrate sc4s`
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pub(crate) sc4s_env: Option<PathBuf>,
    /// The folder of SC4S's context files; with --sc4s-env
    #[arg(long, value_name = "DIR", requires = "sc4s_env")]
    pub(crate) context: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) log: log::LogArgs,
}

/// Arguments of `check`.
#[derive(Args)]
#[command(after_help = "Examples:
  inrush check                            the configuration that the other commands use
  inrush check inrush.yaml
  inrush check - < inrush.yaml
  inrush check inrush.yaml --json         problems and warnings as one JSON document
  inrush check inrush.yaml --connect      also connects to the destinations; sends no event
  inrush check --print-default > inrush.yaml
  inrush check --print-schema > inrush.schema.json
  inrush check --hash-password            asks for a password, prints its hash")]
pub(crate) struct CheckArgs {
    /// The configuration file, or `-` for stdin
    #[arg(value_name = "FILE", conflicts_with = "config")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) config: ConfigArg,
    /// Also connect to each destination, without sending an event: address, TLS, health and token
    #[arg(long, conflicts_with = "print")]
    pub(crate) connect: bool,
    /// Print one JSON document with all problems and warnings
    #[arg(long, conflicts_with_all = ["print", "connect"])]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) print: PrintArgs,
}

/// What `check` prints instead.
#[derive(Args)]
#[group(id = "print", multiple = false, conflicts_with_all = ["config", "file"])]
pub(crate) struct PrintArgs {
    /// Print the built-in configuration
    #[arg(long)]
    pub(crate) print_default: bool,
    /// Print the JSON Schema of the configuration, for editors
    #[arg(long)]
    pub(crate) print_schema: bool,
    /// Print the JSON Schema of a pack, for editors
    #[arg(long)]
    pub(crate) print_pack_schema: bool,
    /// Print the reference of all options, in Markdown
    #[arg(long)]
    pub(crate) print_reference: bool,
    /// Read a password from stdin and print its hash, for admin.password_hash
    #[arg(long)]
    pub(crate) hash_password: bool,
}

impl PrintArgs {
    /// True if one is asked for.
    fn any(&self) -> bool {
        self.print_default
            || self.print_schema
            || self.print_pack_schema
            || self.print_reference
            || self.hash_password
    }
}

/// Arguments of `explain`.
#[derive(Args)]
#[command(after_help = "Examples:
  echo '<34>Oct 11 22:14:15 fw1 su: failed' | inrush explain
  inrush explain -c inrush.yaml --json < messages.txt
  inrush explain --input json < events.jsonl
  inrush explain -c inrush.yaml --against answers.jsonl
  inrush explain -c inrush.yaml --input hec --token pods body.json
  inrush explain -c inrush.yaml --input hec --raw --query 'index=netfw&sourcetype=asa' < lines.txt
  inrush explain -c inrush.yaml --input cri /var/log/pods/shop_web-1_1b2c/nginx/0.log
  kubectl get pod web-1 -n shop -o json > pod.json
  inrush explain -c inrush.yaml --input cri --pod shop/web-1 --objects pod.json < lines.txt

--against compares what comes of messages with what SC4S made of them: docs/guides/sc4s.md shows the
lines of such a file. It ends with 1 if anything differs but what is meant to.")]
pub(crate) struct ExplainArgs {
    /// Read this file in place of stdin
    #[arg(value_name = "INPUT", conflicts_with = "against")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) config: ConfigArg,
    /// The source that is to have received the records; without it the first in the file
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// raw: records as a sender writes them to a connection; json: lines of a `file` destination;
    /// hec: the body of a request to an HTTP Event Collector, with the answer that it would get;
    /// cri, docker, lines: a log of a container, or a plain one, as a `file` source reads it
    #[arg(long, value_name = "KIND", value_enum, default_value_t = explain::Input::Raw)]
    pub(crate) input: explain::Input,
    /// With --input hec: the body is for the raw endpoint, a line an event
    #[arg(long)]
    pub(crate) raw: bool,
    /// With --input hec: the name of the token of the request; without it the first of the source
    #[arg(long, value_name = "NAME")]
    pub(crate) token: Option<String>,
    /// With --input hec: the query of the request, for example `index=main&host=web-1`
    #[arg(long, value_name = "QUERY")]
    pub(crate) query: Option<String>,
    /// With --input cri and docker: the pod whose log it is
    #[arg(long, value_name = "NAMESPACE/POD")]
    pub(crate) pod: Option<String>,
    /// With --pod: the container, if the pod has several
    #[arg(long, value_name = "NAME", requires = "pod")]
    pub(crate) container: Option<String>,
    /// With --pod: objects as `kubectl get pod,namespace,deployment -o json` prints them, whose
    /// annotations decide
    #[arg(long, value_name = "FILE", requires = "pod")]
    pub(crate) objects: Option<PathBuf>,
    /// Print one JSON object a record
    #[arg(long)]
    pub(crate) json: bool,
    /// Forget everything between two records, to see that nothing depends on the one before
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Compare with the answers in this file, each message alone; `-` reads stdin
    #[arg(long, value_name = "ANSWERS", conflicts_with_all = ["input", "fresh"])]
    pub(crate) against: Option<PathBuf>,
}

/// Arguments of `search`.
#[derive(Args)]
#[command(after_help = "Examples:
  inrush search 'sourcetype=cisco:asa \"access denied\" -keepalive' --since 24h
  inrush search 'Failed | count by host, 5m'
  inrush search '* | top 10 sourcetype' --since all --json
  inrush search 'severity<=err' --explain

The query language is in docs/guides/search.md. The process that listens at `admin.listen` is
asked (INRUSH_TOKEN, or the first of `admin.tokens`, opens its door); where none does, or only over
TLS, the store's files are read, which lack the newest seconds.")]
pub(crate) struct SearchArgs {
    /// The query; `*` finds everything. It may begin with `-`
    #[arg(value_name = "QUERY", allow_hyphen_values = true, value_parser = query_word)]
    pub(crate) query: String,
    #[command(flatten)]
    pub(crate) config: ConfigArg,
    /// The earliest time: 15m (the default), 24h, 7d, RFC 3339, seconds since 1970, or `all`
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) since: Option<String>,
    /// The time before which all lie: now (the default), any such time, or `all`
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) until: Option<String>,
    /// Events or rows at most [default: 200 events, 10000 rows of a table]
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Print one JSON object an event or row
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the SQL that the query becomes, and do nothing
    #[arg(long)]
    pub(crate) explain: bool,
}

/// Arguments of `sql`.
#[derive(Args)]
#[command(after_help = "Examples:
  inrush sql 'SELECT sourcetype, count(*) FROM events GROUP BY 1 ORDER BY 2 DESC'
  inrush sql \"SELECT host, raw FROM events WHERE has(raw, 'denied') AND time > now() - INTERVAL '1 day'\"
  inrush sql 'DESCRIBE events'

Nothing but reading is possible: SELECT, EXPLAIN, SHOW, DESCRIBE.")]
pub(crate) struct SqlArgs {
    /// The statement
    #[arg(value_name = "STATEMENT", allow_hyphen_values = true, value_parser = query_word)]
    pub(crate) statement: String,
    #[command(flatten)]
    pub(crate) config: ConfigArg,
    /// Rows at most
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) limit: u64,
    /// Print one JSON object a row
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `top`.
#[derive(Args)]
#[command(after_help = "Examples:
  inrush top                              the process on this machine
  INRUSH_TOKEN=… inrush top https://10.0.0.5:8686 --ca ca.pem
  inrush top --once                       one frame as text, for a ticket
  inrush top --json | jq .alarms

A process that asks for a login wants one of its `admin.tokens` in INRUSH_TOKEN.
Keys: q quit, p pause, Tab and arrows through the panes, ? help. NO_COLOR=1 turns colours off.")]
pub(crate) struct TopArgs {
    /// The admin API of the process; without it the one of the configuration
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,
    #[command(flatten)]
    pub(crate) config: ConfigArg,
    /// Trust the certificates in this PEM file instead of the system's
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Print one snapshot as JSON, as `GET /api/v1/flow` gives it
    #[arg(long, conflicts_with = "once")]
    pub(crate) json: bool,
    /// Print one frame as plain text; it takes a second, for the rates
    #[arg(long)]
    pub(crate) once: bool,
}

/// Arguments of `doctor`.
#[derive(Args)]
#[command(after_help = "Examples:
  inrush doctor
  inrush doctor --json | jq '.findings[] | select(.severity == \"critical\")'
  inrush doctor --no-rate --fail-on critical    for CI: exit code 1 if something loses events
  sudo inrush doctor --apply

--apply sets values under net.core and net.ipv4.ipfrag, only to more than they are, until the next
restart of the host. The old ones are in doctor-undo.sh in the data directory, or in the current
folder where that is not there yet. What it sets and what it cannot is on stderr; exit code 1 if
something could not be set.")]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArg,
    /// Leave out the ten seconds of load that measure the safe rate
    #[arg(long)]
    pub(crate) no_rate: bool,
    /// Measure the safe rate also while an inrush runs on the data directory: it will lose events
    #[arg(long, conflicts_with = "no_rate")]
    pub(crate) rate: bool,
    /// Bytes of an event of that load
    #[arg(long, value_name = "BYTES", default_value_t = calibrate::EVENT_BYTES)]
    pub(crate) event_bytes: u64,
    /// End with exit code 1 if a finding is of this severity, or worse
    #[arg(long, value_name = "SEVERITY", value_enum)]
    pub(crate) fail_on: Option<doctor::FailOn>,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
    /// Set what is safe to set, after writing a script that undoes it
    #[arg(long)]
    pub(crate) apply: bool,
}

/// A query, unless it is an option that is not known: `--limt=5` is nobody's query.
pub(crate) fn query_word(word: &str) -> Result<String, String> {
    let option = word.strip_prefix("--").is_some_and(|rest| {
        let name = rest.split('=').next().unwrap_or_default();
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    });
    match option {
        true => Err(format!(
            "no option is called so; a text is found in quotes: '\"{word}\"'"
        )),
        false => Ok(word.to_owned()),
    }
}

/// A command line that names something that is not there.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Runs a command; its errors are for `main` to report.
pub(crate) fn dispatch(command: CliCommand) -> anyhow::Result<ExitCode> {
    match command {
        CliCommand::Run(args) => run::run(&args),
        CliCommand::Check(args) => check::run(&args),
        CliCommand::Load(args) => load::run(*args),
        CliCommand::Explain(args) => explain::run(&args),
        CliCommand::Search(args) => search::run(&args),
        CliCommand::Sql(args) => search::sql(&args),
        CliCommand::Replay(args) => replay::run(&args),
        CliCommand::Queue(args) => queue::run(*args),
        CliCommand::Store(args) => store::run(*args),
        CliCommand::Migrate(args) => migrate::run(&args),
        CliCommand::Top(args) => top::run(&args),
        CliCommand::Doctor(args) => doctor::run(&args),
        CliCommand::Plan(args) => plan::run(&args),
        CliCommand::Bench(args) => bench::run(&args),
        CliCommand::Version(args) => version::run(&args),
        CliCommand::Completions(args) => manual::completions(&args),
        CliCommand::Man(args) => manual::pages(&args),
        CliCommand::SearchWorker => {
            if !bounds::spare_memory() {
                // Searches take the same buffers each time: a third of their time went into pages.
                inrush_transport::heap::keep_much();
            }
            Ok(inrush_search::worker::serve())
        }
    }
}
