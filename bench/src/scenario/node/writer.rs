//! Writer in a container: numbered lines on its standard output, so many a second.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use inrush_harness::child::wait;

use crate::rotation::{LineNumber, push_line};

/// Bytes of a line.
pub(super) const LINE_BYTES: usize = 1024;

/// Interval between two turns.
const TURN: Duration = Duration::from_millis(10);

/// Seconds of lines that it owes at most: a runtime that takes fewer gets fewer.
const OWED_SECONDS_MAX: f64 = 1.0;

/// File whose coming begins the load of all writers.
pub(super) const GO: &str = "go";

/// Settings of a writer.
#[derive(clap::Args)]
pub(crate) struct ContainerWriter {
    /// Number of the writer
    #[arg(long)]
    writer: u32,
    /// Lines a second
    #[arg(long)]
    rate: u64,
    /// Seconds for which it writes
    #[arg(long)]
    seconds: u64,
    /// Folder in which it waits for `go`, and leaves the number of its lines
    #[arg(long)]
    folder: PathBuf,
}

/// Writes from `go` on, then leaves the number of lines in a file of its own.
pub(crate) fn run(args: &ContainerWriter) -> Result<()> {
    let go = args.folder.join(GO);
    while !go.exists() {
        wait(TURN);
    }
    let mut out = std::io::stdout().lock();
    let (begun, span) = (Instant::now(), Duration::from_secs(args.seconds));
    let (mut last, mut owed, mut number) = (begun, 0.0, 0);
    let mut text = Vec::new();
    while begun.elapsed() < span {
        let now = Instant::now();
        let rate = args.rate as f64;
        owed = f64::min(
            owed + now.duration_since(last).as_secs_f64() * rate,
            OWED_SECONDS_MAX * rate,
        );
        last = now;
        text.clear();
        let ns = std::time::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_nanos());
        while owed >= 1.0 {
            let line = LineNumber {
                writer: args.writer,
                number,
            };
            push_line(line, LINE_BYTES, ns as u64, &mut text);
            text.push(b'\n');
            (owed, number) = (owed - 1.0, number + 1);
        }
        out.write_all(&text).context("stdout")?;
        wait(TURN);
    }
    let count = args.folder.join(args.writer.to_string());
    fs::write(&count, number.to_string()).with_context(|| count.display().to_string())
}
