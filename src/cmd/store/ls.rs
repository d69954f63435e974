//! `inrush store ls`: what is stored, by index.

use std::io::Write;
use std::process::ExitCode;

use inrush_store::salvage::{StoreOverview, overview};
use serde_json::json;

use super::args::StoreLocation;
use crate::cmd::queue::ls::megabytes;

/// Prints what the list of files says, and what does not fit it.
pub(super) fn run(place: &StoreLocation) -> anyhow::Result<ExitCode> {
    let found = place.store()?;
    let overview = overview(&found.home)?;
    let is_sound = overview.problems.is_empty();
    let mut out = std::io::stdout().lock();
    if place.json {
        let document = json!({
            "destination": found.name,
            "path": found.shown,
            "sound": is_sound && overview.missing.is_empty() && overview.unlisted.is_empty(),
            "store": overview,
        });
        writeln!(out, "{document}")?;
    } else {
        writeln!(out, "store {} in {}", found.name, found.shown)?;
        write(&overview, &mut out)?;
    }
    out.flush()?;
    Ok(match is_sound {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn write(overview: &StoreOverview, out: &mut impl Write) -> std::io::Result<()> {
    let heads = [
        "INDEX",
        "FILES",
        "EVENTS",
        "SIZE",
        "FIRST EVENT",
        "LAST EVENT",
    ];
    let [index, files, events, size, first, last] = heads;
    writeln!(
        out,
        "{index:<20} {files:>7} {events:>12} {size:>10}  {first:<20} {last}"
    )?;
    for info in &overview.indexes {
        writeln!(
            out,
            "{:<20} {:>7} {:>12} {:>10}  {:<20} {}",
            info.index,
            info.files,
            info.events,
            megabytes(info.bytes),
            super::date(info.from_ns),
            super::date(info.to_ns),
        )?;
    }
    let events: u64 = overview.indexes.iter().map(|info| info.events).sum();
    let bytes: u64 = overview.indexes.iter().map(|info| info.bytes).sum();
    writeln!(out, "{events} events in {}", megabytes(bytes))?;
    for (path, why) in &overview.problems {
        writeln!(out, "DAMAGED {path}: {why}")?;
    }
    for path in &overview.missing {
        writeln!(out, "MISSING {path}")?;
    }
    for path in &overview.unlisted {
        writeln!(out, "NOT IN THE LIST {path}")?;
    }
    let trouble = overview.problems.len() + overview.unlisted.len();
    match trouble {
        0 => Ok(()),
        _ => writeln!(
            out,
            "`inrush store repair` makes the list anew from the files"
        ),
    }
}
