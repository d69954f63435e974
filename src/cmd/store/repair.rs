//! `inrush store repair`: makes a damaged list of files anew.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use serde_json::json;

use super::ProgressMeter;
use super::args::{RepairArgs, StoreLocation};

/// Mends the list, and says what was done.
pub(super) fn run(place: &StoreLocation, args: &RepairArgs) -> anyhow::Result<ExitCode> {
    let found = place.store()?;
    if args.dry_run {
        let report = super::verify::look(&found)?;
        super::verify::tell(place, &found, &report)?;
        return Ok(ExitCode::SUCCESS);
    }
    let shown = found.shown;
    let meter = ProgressMeter::of("read");
    let repaired = inrush_store::rebuild::repair(found.home, &mut |done, total| {
        meter.show(done, total);
    });
    meter.end();
    let repaired = repaired.with_context(|| format!("cannot repair {shown}"))?;
    let mut out = std::io::stdout().lock();
    if place.json {
        let document = json!({
            "destination": found.name, "path": shown, "repaired": repaired,
        });
        writeln!(out, "{document}")?;
    } else {
        for (path, what) in &repaired.actions {
            writeln!(out, "{path}: {what}")?;
        }
        writeln!(
            out,
            "{} files with {} events, {} of them cannot be read",
            repaired.files, repaired.events, repaired.hidden_events
        )?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
