//! `inrush queue cat` and `export`: the events themselves.

use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;

use anyhow::Context;
use inrush_codec::encode::JsonLines;
use inrush_event::{Batch, Record};
use inrush_queue::{EventQuery, QuerySummary};

use super::args::{CatArgs, EventArgs, ExportArgs, ExportFraming, QueueLocation};

/// Prints events.
pub(super) fn cat(place: &QueueLocation, args: &CatArgs) -> anyhow::Result<ExitCode> {
    let framing = if args.raw {
        ExportFraming::Newline
    } else {
        ExportFraming::Json
    };
    let mut out = BufWriter::new(std::io::stdout().lock());
    let found = show(place, &args.events, framing, &mut out)?;
    out.flush()?;
    Ok(complain(&found))
}

/// Copies events to a file.
pub(super) fn export(place: &QueueLocation, args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let Some(path) = &args.output else {
        let mut out = BufWriter::new(std::io::stdout().lock());
        let found = show(place, &args.events, args.framing, &mut out)?;
        out.flush()?;
        eprintln!("inrush: {} events exported", found.events);
        return Ok(complain(&found));
    };
    let options = OpenOptions::new().write(true).clone();
    let file = inrush_files::create_new(path, &options, &inrush_files::Access::PRIVATE);
    let file = file.with_context(|| format!("cannot make {}", path.display()))?;
    let mut out = BufWriter::new(&file);
    let found = show(place, &args.events, args.framing, &mut out)?;
    out.flush()?;
    drop(out);
    file.sync_all()
        .with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!(
        "inrush: {} events exported to {}",
        found.events,
        path.display()
    );
    Ok(complain(&found))
}

fn show(
    place: &QueueLocation,
    args: &EventArgs,
    framing: ExportFraming,
    out: &mut impl Write,
) -> anyhow::Result<QuerySummary> {
    let queue = super::queue(&place.data_dir()?)?;
    let query = EventQuery {
        events: args.from..args.to.map_or(u64::MAX, |last| last.saturating_add(1)),
        destination: args.destination.clone(),
    };
    let (mut left, mut line) = (args.limit.unwrap_or(u64::MAX), Vec::new());
    let mut encoder = JsonLines::new();
    let found = queue.events(&query, |_, batch, record| {
        if left == 0 {
            return Ok(ControlFlow::Break(()));
        }
        left -= 1;
        line.clear();
        encode(framing, &mut encoder, batch, record, &mut line);
        out.write_all(&line)?;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

fn encode(
    framing: ExportFraming,
    encoder: &mut JsonLines,
    batch: &Batch,
    record: &Record,
    out: &mut Vec<u8>,
) {
    let raw = batch.get(record.raw);
    match framing {
        ExportFraming::Json => encoder.encode(batch, record, out),
        ExportFraming::Octet => {
            out.extend_from_slice(format!("{} ", raw.len()).as_bytes());
            out.extend_from_slice(raw);
        }
        ExportFraming::Newline => {
            out.extend(raw.iter().map(|byte| match byte {
                b'\n' => b' ',
                other => *other,
            }));
            out.push(b'\n');
        }
    }
}

/// Says what could not be read.
fn complain(found: &QuerySummary) -> ExitCode {
    if found.bad.is_empty() {
        return ExitCode::SUCCESS;
    }
    let bytes: u64 = found
        .bad
        .iter()
        .map(|bad| bad.bytes.end - bad.bytes.start)
        .sum();
    eprintln!("inrush: {bytes} bytes could not be read; `inrush queue verify` says what is lost");
    ExitCode::FAILURE
}
