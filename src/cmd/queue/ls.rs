//! `inrush queue ls`: what is kept, and for whom.

use std::io::Write;
use std::process::ExitCode;

use inrush_queue::{CorruptFile, CursorInfo, SegmentInfo};
use serde_json::json;

use super::args::QueueLocation;

/// Prints segments, cursors and files that were put aside.
pub(super) fn run(place: &QueueLocation) -> anyhow::Result<ExitCode> {
    let data_dir = place.data_dir()?;
    let queue = super::inspect(&data_dir, super::QUEUE)?;
    let (segments, cursors, strange) = match &queue {
        Some(queue) => (
            queue.segments()?,
            queue.cursors()?,
            queue.strange().to_vec(),
        ),
        None => Default::default(),
    };
    let aside = inrush_queue::aside(&data_dir.join(super::QUEUE))?;
    let mut out = std::io::stdout().lock();
    if place.json {
        let list = json!({
            "segments": segments, "destinations": cursors, "aside": aside, "strange": strange,
        });
        writeln!(out, "{list}")?;
    } else {
        write_segments(&segments, &mut out)?;
        write_cursors(&cursors, &mut out)?;
        write_aside(&aside, &strange, &mut out)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn write_segments(segments: &[SegmentInfo], out: &mut impl Write) -> std::io::Result<()> {
    if segments.is_empty() {
        return writeln!(out, "no segments");
    }
    let row = "SEGMENT        CREATED               EVENTS FROM           TO     BATCHES      SIZE";
    writeln!(out, "{row}  STATE")?;
    for segment in segments {
        writeln!(
            out,
            "{:<14} {:<20} {:>12} {:>12} {:>11} {:>9}  {}",
            segment.file,
            super::date(segment.created_ns / 1_000_000_000),
            segment.events.start,
            segment.events.end,
            segment.batches,
            megabytes(segment.bytes),
            if segment.sound { "sound" } else { "DAMAGED" },
        )?;
    }
    let bytes: u64 = segments.iter().map(|segment| segment.bytes).sum();
    writeln!(out, "{} segments, {}", segments.len(), megabytes(bytes))
}

fn write_cursors(cursors: &[CursorInfo], out: &mut impl Write) -> std::io::Result<()> {
    if cursors.is_empty() {
        return writeln!(out, "\nno destination has a cursor");
    }
    writeln!(
        out,
        "\nDESTINATION            NEXT EVENT   UNSETTLED     PENDING  STATE"
    )?;
    for cursor in cursors {
        let state = match cursor.abandoned_since {
            _ if !cursor.sound => "CURSOR LOST: begins with the oldest event".to_owned(),
            Some(since) => format!("abandoned since {}", super::date(since)),
            None => "configured".to_owned(),
        };
        writeln!(
            out,
            "{:<20} {:>12} {:>11} {:>11}  {state}",
            cursor.destination, cursor.next_event, cursor.unsettled, cursor.pending
        )?;
    }
    Ok(())
}

fn write_aside(
    aside: &[CorruptFile],
    strange: &[String],
    out: &mut impl Write,
) -> std::io::Result<()> {
    if !strange.is_empty() {
        writeln!(out, "\nnot of this queue: {}", strange.join(", "))?;
    }
    if aside.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nput aside in queue/bad:")?;
    for file in aside {
        writeln!(out, "{:>11}  {}", megabytes(file.bytes), file.file)?;
    }
    Ok(())
}

/// A size for the eye.
pub(crate) fn megabytes(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..1_000_000 => format!("{} KB", bytes / 1000),
        1_000_000..10_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}
