//! `inrush store export`: every event that can be read.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use inrush_store::reply::SearchHit;
use inrush_store::salvage::export;

use super::ProgressMeter;
use super::args::{ExportArgs, StoreLocation};

/// Prints the events, and on stderr what could not be read.
pub(super) fn run(place: &StoreLocation, args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let found = place.store()?;
    let mut out = output(args.output.as_deref())?;
    let meter = ProgressMeter::of("exported");
    let mut written = 0_u64;
    let mut each = |event: SearchHit| -> io::Result<()> {
        let wanted = args.index.as_ref();
        if wanted.is_some_and(|wanted| event.index.as_ref() != Some(wanted)) {
            return Ok(());
        }
        written += 1;
        serde_json::to_writer(&mut out, &event)?;
        out.write_all(b"\n")
    };
    let exported = export(&found.home, &mut each, &mut |done, total| {
        meter.show(done, total);
    });
    meter.end();
    let exported = exported.with_context(|| format!("cannot export {}", found.shown))?;
    out.flush()?;
    for (path, why) in &exported.damaged {
        eprintln!("inrush: {path}: {why}");
    }
    eprintln!(
        "inrush: {written} events exported, {} cannot be read",
        exported.lost
    );
    Ok(match exported.damaged.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Opens the output of the events; a file that is there is never written over.
fn output(path: Option<&Path>) -> anyhow::Result<Box<dyn Write>> {
    let Some(path) = path else {
        return Ok(Box::new(BufWriter::new(io::stdout().lock())));
    };
    let options = std::fs::OpenOptions::new().write(true).clone();
    let file = inrush_files::create_new(path, &options, &inrush_files::Access::PRIVATE);
    let file = file.with_context(|| format!("cannot make {}", path.display()))?;
    Ok(Box::new(BufWriter::new(file)))
}
