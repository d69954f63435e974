//! The log of `inrush run` on stderr. Whoever logs never waits for who reads it.
//!
//! A thread writes the lines; up to [`LINES_MAX`] wait for it. What comes while more wait is lost
//! and counted, and the count is a line of its own as soon as lines are read again.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Lines that wait for a slow reader.
const LINES_MAX: usize = 4096;

/// Time for what waits when the process ends.
const FLUSH_MAX: Duration = Duration::from_secs(1);

enum LogItem {
    Line(Vec<u8>),
    /// Answered once everything before it is written.
    Flush(SyncSender<()>),
}

static LOG: OnceLock<SyncSender<LogItem>> = OnceLock::new();
static LOST: AtomicU64 = AtomicU64::new(0);

/// Starts the thread. Without one, lines are written by who logs them.
pub(super) fn start() {
    let (items, waiting) = sync_channel(LINES_MAX);
    let writer = std::thread::Builder::new().name("log".to_owned());
    if writer.spawn(move || write(&waiting)).is_ok() {
        let _ = LOG.set(items);
    }
}

fn write(waiting: &Receiver<LogItem>) {
    for item in waiting {
        match item {
            // Nobody is left to hear that nobody reads.
            LogItem::Line(line) => drop(io::stderr().write_all(&line)),
            LogItem::Flush(done) => drop(done.try_send(())),
        }
        let lost = LOST.swap(0, Relaxed);
        if lost > 0 {
            let line = format!("inrush: {lost} lines of the log were lost: stderr was not read\n");
            drop(io::stderr().write_all(line.as_bytes()));
        }
    }
}

/// Waits until everything is written, but not for a reader that is stuck.
pub(super) fn flush() {
    let (done, written) = sync_channel(1);
    if let Some(items) = LOG.get()
        && items.try_send(LogItem::Flush(done)).is_ok()
    {
        let _ = written.recv_timeout(FLUSH_MAX);
    }
}

/// Writes a line, or has it written.
pub(super) fn line(line: Vec<u8>) {
    let Some(items) = LOG.get() else {
        return drop(io::stderr().write_all(&line));
    };
    if items.try_send(LogItem::Line(line)).is_err() {
        LOST.fetch_add(1, Relaxed);
    }
}

/// One line on stderr, as `eprintln!` writes it.
macro_rules! say {
    ($($words:tt)*) => {
        $crate::cmd::log::line(format!("{}\n", format_args!($($words)*)).into_bytes())
    };
}
pub(super) use say;

/// Buffer through which a subscriber writes a line.
pub(super) struct LogLine(Vec<u8>);

/// A writer for one line.
pub(super) fn writer() -> LogLine {
    LogLine(Vec::new())
}

impl Write for LogLine {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for LogLine {
    fn drop(&mut self) {
        line(std::mem::take(&mut self.0));
    }
}
