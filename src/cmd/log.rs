//! The log of `inrush run` on stderr. Whoever logs never waits for who reads it.
//!
//! A thread writes the lines; up to [`LINES_MAX`] wait for it. What comes while more wait is lost
//! and counted, and the count is a line of its own as soon as lines are read again. All lines have
//! one shape, with time and level.

mod shape;

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use clap::{Args, ValueEnum};
use inrush_config::FileProblems;
use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::UsageError;
pub(crate) use shape::LogShape;

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

/// Options of the log.
#[derive(Args, Clone)]
pub(crate) struct LogArgs {
    /// Format of the log's lines [default: INRUSH_LOG_FORMAT, else text]
    #[arg(long, value_name = "FORMAT", value_enum)]
    log_format: Option<LogShape>,
    /// Lines of this level and of worse ones are written [default: INRUSH_LOG_LEVEL, else info]
    #[arg(long, value_name = "LEVEL", value_enum)]
    log_level: Option<LogLevel>,
}

/// Lowest level of the lines that are written.
#[derive(Clone, Copy, Default, ValueEnum)]
pub(crate) enum LogLevel {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Trace => Self::TRACE,
        }
    }
}

/// The value of an option, else of its environment variable, else its default.
fn chosen<T: ValueEnum + Default>(given: Option<T>, variable: &str) -> Result<T, UsageError> {
    let named = || std::env::var(variable).ok().filter(|text| !text.is_empty());
    match (given, named()) {
        (Some(value), _) => Ok(value),
        (None, None) => Ok(T::default()),
        (None, Some(text)) => {
            T::from_str(&text, true).map_err(|error| UsageError(format!("{variable}: {error}")))
        }
    }
}

/// Starts the log, and the thread that writes it; the format that was chosen.
///
/// # Errors
/// A variable of the environment names no format or level.
pub(super) fn start(args: &LogArgs) -> Result<LogShape, UsageError> {
    let format = chosen(args.log_format, "INRUSH_LOG_FORMAT")?;
    let level: LevelFilter = chosen(args.log_level, "INRUSH_LOG_LEVEL")?.into();
    start_thread(format);
    let lines = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(writer)
        .with_ansi(io::stderr().is_terminal())
        .event_format(format)
        .finish();
    // Each hostile connection of HTTP/2 would have a line of it; here they are counted.
    let quiet = Targets::new()
        .with_default(level)
        .with_target("h2", LevelFilter::OFF);
    lines.with(quiet).init();
    Ok(format)
}

/// Starts the thread. Without one, lines are written by who logs them.
fn start_thread(format: LogShape) {
    let (items, waiting) = sync_channel(LINES_MAX);
    let writer = std::thread::Builder::new().name("log".to_owned());
    if writer.spawn(move || write(&waiting, format)).is_ok() {
        let _ = LOG.set(items);
    }
}

fn write(waiting: &Receiver<LogItem>, format: LogShape) {
    for item in waiting {
        match item {
            // Nobody is left to hear that nobody reads.
            LogItem::Line(line) => drop(io::stderr().write_all(&line)),
            LogItem::Flush(done) => drop(done.try_send(())),
        }
        let lost = LOST.swap(0, Relaxed);
        if lost > 0 {
            let words = format!("{lost} lines of the log were lost: stderr was not read");
            let line = format.line(Level::WARN, &words);
            drop(io::stderr().write_all(line.as_bytes()));
        }
    }
}

/// Logs why the process ends, a line for each problem.
pub(super) fn problem(error: &anyhow::Error) {
    match error.downcast_ref::<FileProblems>() {
        Some(problems) => problems.iter().for_each(|one| tracing::error!("{one}")),
        None => tracing::error!("{error:#}"),
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
fn line(line: Vec<u8>) {
    let Some(items) = LOG.get() else {
        return drop(io::stderr().write_all(&line));
    };
    if items.try_send(LogItem::Line(line)).is_err() {
        LOST.fetch_add(1, Relaxed);
    }
}

/// Buffer through which a subscriber writes a line.
struct LogLine(Vec<u8>);

/// A writer for one line.
fn writer() -> LogLine {
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
