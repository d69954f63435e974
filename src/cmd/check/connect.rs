//! `inrush check --connect`: whether each destination of a configuration can be reached.
//!
//! # What it guarantees
//! * No event is sent and nothing is written: a collector is asked for its health, and gets an
//!   empty request with the token; a bucket is listed.
//! * Every endpoint has a line of its own. What is not well is said with its reason and a command.
//!
//! # Limits
//! Collectors are asked side by side; each step (name, health, token) takes three seconds at most.

use std::io::{self, Write};
use std::path::Path;

use inrush_config::Config;
use inrush_host::doctor::{self, Severity};
use inrush_sink::SinkConfig;
use inrush_sink::store::StoreConfig;

use super::super::doctor::collectors;

/// Folder of a store that is listed: that of its commits.
const LISTED: &str = "_log";

/// Connects to each destination and prints a line for each endpoint; true if all are well.
pub(super) fn run(config: &Config, out: &mut impl Write) -> io::Result<bool> {
    let asked = collectors::ask(config).collectors;
    let findings = doctor::collector_findings(&asked);
    let mut well = true;
    for (name, destination) in &config.destinations {
        match destination {
            SinkConfig::SplunkHec(_) => {
                let of_it = asked.iter().zip(&findings);
                for (_, finding) in of_it.filter(|(one, _)| one.destination == *name) {
                    let ok = finding.severity == Severity::Ok;
                    well &= ok;
                    let word = if ok { "ok" } else { "failed" };
                    writeln!(out, "destination {name}: {word}: {}", finding.found)?;
                    if !ok {
                        writeln!(out, "    {}", finding.why)?;
                        let command = finding.command.as_deref().unwrap_or_default();
                        writeln!(out, "    {command}")?;
                    }
                }
            }
            SinkConfig::Store(store) if store.is_remote() => {
                well &= bucket(name, store, &config.data_dir, out)?;
            }
            local => writeln!(
                out,
                "destination {name}: ok: a {} needs no connection",
                local.kind()
            )?,
        }
    }
    Ok(well)
}

/// Lists the bucket of a store; true if it answers.
fn bucket(
    name: &str,
    store: &StoreConfig,
    data_dir: &Path,
    out: &mut impl Write,
) -> io::Result<bool> {
    let path = &store.path;
    let listed = store.home(data_dir).and_then(|home| home.list(LISTED));
    match &listed {
        Ok(_) => writeln!(out, "destination {name}: ok: {path} can be listed")?,
        Err(error) => {
            writeln!(out, "destination {name}: failed: {path}: {error}")?;
            writeln!(
                out,
                "    Events for it wait in the queue. Look at `s3.endpoint`, the key and the name \
                 of the bucket, which must be there.\n    aws s3 ls {path}"
            )?;
        }
    }
    Ok(listed.is_ok())
}
