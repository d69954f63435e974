//! Destinations: one folder each, with the same files in it (`config encode deliver`); a sink
//! takes batches from its feed and reports the fate of every event.
//!
//! # What it guarantees
//! * Every event that a sink takes from its [`Feed`] is settled exactly once: delivered, put back
//!   to be tried again, or refused. No sink drops an event.
//! * A refused event lies in quarantine, on disk, before it is settled as refused. Where quarantine
//!   cannot be written, the event stays pending.
//! * A destination that is down, full or misconfigured holds its events; nothing is given up
//!   because of time. It is tried again with growing, jittered pauses, and recovers by itself.
//! * One event that a destination cannot take costs that event alone, never its batch.
//! * Nothing is logged per event; a sink logs when it stops working and when it works again.
//!
//! # Layout
//! [`build`] meets the world once (certificates, host name, proxy environment) and returns a
//! [`Sink`], which runs on a thread of its own until its feed is closed, and the [`SinkStatus`]
//! that the admin side reads.
//!
//! # Limits
//! Each folder's head names its own: request bodies, open files, waits.
//!
//! # After a crash
//! What was not settled is delivered again by the queue's rules. A file's torn last line is ended
//! with a line feed before anything is appended to it.

#![forbid(unsafe_code)]

mod backoff;
pub mod blackhole;
mod config;
mod error;
pub mod file;
mod http;
mod quarantine;
mod reason;
pub mod splunk_hec;
mod status;
pub mod stdout;
pub mod store;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use inrush_event::Feed;
pub use inrush_store::{DiskHeadroom, REASONS, Store};

pub use config::{SinkConfig, SinkProblem, validate};
pub use error::SinkError;
pub use quarantine::{EventRefusal, Quarantine, RefusedRecords};
pub use reason::ErrorReason;
pub use status::{LastError, Overflow, OverflowCause, SinkStatus};
pub use store::StoreSlot;

/// Longest wait of a sink for a batch before it checks whether the process is stopping.
const IDLE_WAIT: Duration = Duration::from_millis(100);

/// A destination at work.
pub trait Sink: Send {
    /// Takes batches from `feed` and settles them; returns when the feed is closed or the process
    /// is stopping. Blocks, so it is called on a thread of its own.
    fn run(self: Box<Self>, feed: Arc<dyn Feed>);

    /// The store that it writes to, for searches; most write to none.
    fn store(&self) -> Option<Arc<StoreSlot>> {
        None
    }
}

/// Opens the destination `name`. A relative path of a file or a store lies under `data_dir`.
///
/// # Errors
/// The configuration has a problem that [`validate`] would name, or a file that it points to
/// cannot be read.
pub fn build(
    name: &str,
    config: &SinkConfig,
    data_dir: &Path,
    quarantine: Arc<dyn Quarantine>,
) -> Result<(Box<dyn Sink>, Arc<SinkStatus>), SinkError> {
    if let Some(problem) = validate(config).into_iter().next() {
        return Err(SinkError::Config(problem));
    }
    let status = Arc::new(SinkStatus::new(name, config.kind()));
    let shared = Arc::clone(&status);
    let sink: Box<dyn Sink> = match config {
        SinkConfig::Blackhole(_) => Box::new(blackhole::BlackholeSink::new(shared)),
        SinkConfig::Stdout(_) => Box::new(stdout::StdoutSink::open(shared)?),
        SinkConfig::File(options) => Box::new(file::FileSink::new(
            name, options, data_dir, quarantine, shared,
        )?),
        SinkConfig::Store(options) => Box::new(store::StoreSink::open(options, data_dir, shared)),
        SinkConfig::SplunkHec(options) => Box::new(splunk_hec::SplunkHec::new(
            name, options, quarantine, shared,
        )?),
    };
    Ok((sink, status))
}
