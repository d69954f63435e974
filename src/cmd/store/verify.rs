//! `inrush store verify`: reads every byte.

use std::io::Write;
use std::process::ExitCode;

use inrush_store::rebuild::{StoreVerifyReport, verify};
use serde_json::json;

use super::args::StoreLocation;
use super::{ConfiguredStore, ProgressMeter};

/// Reads the list and all files, and names what is wrong.
pub(super) fn run(place: &StoreLocation) -> anyhow::Result<ExitCode> {
    let found = place.store()?;
    let report = look(&found)?;
    tell(place, &found, &report)?;
    Ok(match report.findings.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

pub(super) fn look(found: &ConfiguredStore) -> anyhow::Result<StoreVerifyReport> {
    let meter = ProgressMeter::of("read");
    let report = verify(&found.home, &mut |done, total| meter.show(done, total));
    meter.end();
    Ok(report?)
}

pub(super) fn tell(
    place: &StoreLocation,
    found: &ConfiguredStore,
    report: &StoreVerifyReport,
) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if place.json {
        let document = json!({
            "destination": found.name, "path": found.shown,
            "sound": report.findings.is_empty(), "report": report,
        });
        writeln!(out, "{document}")?;
    } else {
        for (path, why) in &report.findings {
            writeln!(out, "{path}: {why}")?;
        }
        let (files, events, hidden) = (report.files, report.events, report.hidden_events);
        writeln!(
            out,
            "{files} files: {events} events sound, {hidden} cannot be read"
        )?;
        if !report.list_is_sound {
            writeln!(
                out,
                "the list of files is damaged: `inrush store repair` makes it anew"
            )?;
        }
    }
    out.flush()?;
    Ok(())
}
