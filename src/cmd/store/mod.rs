//! `inrush store`: looks into the embedded store, also beside the process that writes to it or
//! after its list of files was damaged, and mends it when no process does.

mod args;
mod export;
mod ls;
mod repair;
mod verify;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use inrush_sink::SinkConfig;
use inrush_sink::store::StoreConfig;
use inrush_store::DurableStorage;

use super::UsageError;
use args::{StoreCommand, StoreLocation};

pub(crate) use args::StoreArgs;

/// Runs a subcommand.
pub(crate) fn run(args: StoreArgs) -> anyhow::Result<ExitCode> {
    let place = &args.place;
    match &args.command {
        StoreCommand::Ls => ls::run(place),
        StoreCommand::Verify => verify::run(place),
        StoreCommand::Repair(repair) => repair::run(place, repair),
        StoreCommand::Export(export) => export::run(place, export),
    }
}

/// A store of the configuration.
struct ConfiguredStore {
    name: String,
    shown: String,
    home: DurableStorage,
}

impl StoreLocation {
    /// The store that is meant, which must be there: a wrong path must not look like an empty one.
    fn store(&self) -> anyhow::Result<ConfiguredStore> {
        let mut config = self.config.load()?;
        if let Some(data_dir) = &self.data_dir {
            config.data_dir.clone_from(data_dir);
        }
        let stores: Vec<(&String, &StoreConfig)> = config
            .destinations
            .iter()
            .filter_map(|(name, sink)| match sink {
                SinkConfig::Store(options) => Some((name, options)),
                _ => None,
            })
            .collect();
        let names: Vec<&str> = stores.iter().map(|(name, _)| name.as_str()).collect();
        let found = stores.iter().find(|(name, _)| {
            let wanted = self.destination.as_ref();
            wanted.is_none_or(|wanted| wanted == *name)
        });
        let Some((name, options)) = found else {
            let message = match &self.destination {
                Some(wanted) if !names.is_empty() => {
                    format!("no store is named {wanted}: there are {}", names.join(", "))
                }
                _ => "the configuration has no destination of `type: store`".to_owned(),
            };
            return Err(UsageError(message).into());
        };
        let shown = options.shown(&config.data_dir);
        if !options.is_remote() && !std::path::Path::new(&shown).is_dir() {
            anyhow::bail!("there is no store at {shown}: name its folder with --data-dir or -c");
        }
        let home = options
            .home(&config.data_dir)
            .map_err(|error| anyhow::anyhow!("cannot open {shown}: {error}"))?;
        Ok(ConfiguredStore {
            name: (*name).clone(),
            shown,
            home,
        })
    }
}

/// Shows on a terminal how far a long work has come; elsewhere nothing.
struct ProgressMeter {
    what: &'static str,
    shown: bool,
}

impl ProgressMeter {
    fn of(what: &'static str) -> Self {
        let shown = std::io::stderr().is_terminal();
        Self { what, shown }
    }

    fn show(&self, done: u64, total: u64) {
        if self.shown && (done == total || done.is_multiple_of(16)) {
            eprint!("\r{} {done} of {total} files", self.what);
            // Nothing depends on it.
            let _ = std::io::stderr().flush();
        }
    }

    fn end(&self) {
        if self.shown {
            eprint!("\r\x1b[K");
        }
    }
}

/// A time as people read it, to the second.
fn date(ns: i64) -> String {
    jiff::Timestamp::from_second(ns.div_euclid(1_000_000_000))
        .map_or_else(|_| "?".to_owned(), |at| at.to_string())
}
