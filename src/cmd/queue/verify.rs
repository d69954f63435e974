//! `inrush queue verify`: reads everything, and says exactly what is sound and what is lost.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use inrush_queue::{SegmentReport, VerifiedLog};
use serde_json::json;

use super::args::QueueLocation;
use super::ls::megabytes;

/// Time between two updates of the progress on the terminal.
const TELL_EVERY: Duration = Duration::from_millis(250);

/// Reads the queue; exit code 1 if anything in it is damaged.
pub(super) fn run(place: &QueueLocation) -> anyhow::Result<ExitCode> {
    let queue = super::queue(&place.data_dir()?)?;
    let mut progress = VerifyProgress::new(queue.bytes());
    let verified = queue.verify(|bytes| progress.at(bytes))?;
    progress.done();
    let mut out = std::io::stdout().lock();
    if place.json {
        let sums = json!({
            "damaged": verified.is_damaged(),
            "bytes": sum(&verified, |segment| segment.bytes),
            "sound_bytes": sum(&verified, |segment| segment.sound_bytes),
            "bad_bytes": verified.bad_bytes(),
            "batches": sum(&verified, |segment| segment.batches),
            "events": sum(&verified, |segment| segment.events),
            "details": verified,
        });
        writeln!(out, "{sums}")?;
    } else {
        write(&verified, &mut out)?;
    }
    out.flush()?;
    Ok(match verified.is_damaged() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

fn sum(verified: &VerifiedLog, of: fn(&SegmentReport) -> u64) -> u64 {
    verified.segments.iter().map(of).sum()
}

fn write(verified: &VerifiedLog, out: &mut impl Write) -> std::io::Result<()> {
    for segment in &verified.segments {
        for bad in &segment.bad {
            let bytes = bad.end - bad.start;
            writeln!(
                out,
                "{}: {bytes} bad bytes from byte {}",
                segment.file, bad.start
            )?;
        }
        if segment.copies > 0 {
            let (file, copies) = (&segment.file, segment.copies);
            writeln!(
                out,
                "{file}: {copies} batches that the next segment has again; no harm"
            )?;
        }
    }
    for lost in &verified.lost {
        let events = &lost.events;
        let count = events.end - events.start;
        write!(
            out,
            "{count} events missing, {} to {}: ",
            events.start,
            events.end - 1
        )?;
        if lost.wanted_by.is_empty() {
            writeln!(out, "every destination had settled them; no harm")?;
        } else {
            let wanted = lost.wanted_by.iter();
            let wanted: Vec<String> = wanted.map(|(name, n)| format!("{n} of {name}")).collect();
            writeln!(out, "LOST: {}", wanted.join(", "))?;
        }
    }
    for name in &verified.lost_cursors {
        writeln!(
            out,
            "the cursor of {name} cannot be read: it begins with the oldest event"
        )?;
    }
    for file in &verified.strange {
        writeln!(
            out,
            "{file}: not of this queue; the next start puts it aside"
        )?;
    }
    writeln!(
        out,
        "{}: {} segments, {} batches, {} events; {} sound bytes, {} bad",
        if verified.is_damaged() {
            "DAMAGED"
        } else {
            "sound"
        },
        verified.segments.len(),
        sum(verified, |segment| segment.batches),
        sum(verified, |segment| segment.events),
        sum(verified, |segment| segment.sound_bytes),
        verified.bad_bytes(),
    )
}

/// A line on the terminal that says how far it is.
struct VerifyProgress {
    total: u64,
    shown: bool,
    told: Instant,
}

impl VerifyProgress {
    fn new(total: u64) -> Self {
        Self {
            total,
            shown: std::io::stderr().is_terminal(),
            told: Instant::now(),
        }
    }

    fn at(&mut self, bytes: u64) {
        if self.shown && self.told.elapsed() >= TELL_EVERY {
            self.told = Instant::now();
            let percent = bytes * 100 / self.total.max(1);
            let (done, total) = (megabytes(bytes), megabytes(self.total));
            eprint!("\r\x1b[Kreading: {done} of {total}, {} %", percent.min(100));
        }
    }

    fn done(&self) {
        if self.shown {
            eprint!("\r\x1b[K");
        }
    }
}
