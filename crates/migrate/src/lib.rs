//! Makes a configuration of what another collector was configured with: Splunk Connect for Syslog
//! (SC4S) 3.45, by its `env_file` and its context files; a Splunk heavy forwarder, by its `.conf`
//! files; Collectord 5, by its INI files or its manifests; Fluent Bit 5, in both of its formats.
//!
//! What can be carried over is; everything else is named, with the reason. Nothing is read or
//! written here: texts come in, texts go out.
#![forbid(unsafe_code)]

mod collectord;
mod containers;
mod context;
mod draft;
mod environment;
mod fluent_bit;
mod foreign;
mod manifest;
mod sources;
mod splunk;
mod table;
mod yaml;

pub use collectord::collectord;
pub use context::ContextFiles;
pub use fluent_bit::{FileLookup, fluent_bit};
pub use splunk::{SplunkFiles, splunk};

/// Something that was not carried over.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct MigrationNote {
    /// The variable, or the file and its line.
    pub what: String,
    /// Reason that it was not, or the remedy.
    pub why: String,
}

/// Result of a migration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Migration {
    /// An `inrush.yaml`, with the user's own pack in it.
    pub config: String,
    /// Settings that were not carried over.
    pub notes: Vec<MigrationNote>,
}

/// The value of a variable in an `env_file`.
pub fn variable(env_file: &str, name: &str) -> Option<String> {
    environment::EnvFile::read(env_file).take(name)
}

/// Makes a configuration of an `env_file` and the context files beside it.
pub fn sc4s(env_file: &str, context: &ContextFiles) -> Migration {
    let mut env = environment::EnvFile::read(env_file);
    let mut out = String::from(
        "# Made by `inrush migrate sc4s`. What is not carried over stands on stderr.\n",
    );
    sources::write(&mut env, &mut out);
    let mut packs = context::PacksSection::read(context, &mut env);
    environment::packs(&mut env, &mut packs, &mut out);
    environment::hosts(&mut env, &mut out);
    environment::destinations(&mut env, &mut out);
    let mut notes = env.left();
    notes.extend(packs.notes);
    notes.sort();
    Migration { config: out, notes }
}

#[cfg(test)]
mod made_tests;
#[cfg(test)]
mod tests;
