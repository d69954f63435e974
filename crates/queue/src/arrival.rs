//! A batch on its way into the log.

use std::sync::Arc;
use std::time::{Duration, Instant};

use inrush_event::Batch;

use crate::writer::disk_bytes;

/// Of the time that a batch gathered before it came, at most so much counts as waited: those of
/// other workers, which come at the same time, still come into one round.
const GATHERED_MAX: Duration = Duration::from_millis(20);

/// A batch, and what is worth to be known of it before the log is locked.
pub(crate) struct IncomingBatch {
    pub(crate) batch: Arc<Batch>,
    /// Bytes of memory that it pins.
    pub(crate) memory_bytes: u64,
    /// Bytes that it takes on disk, or a little more.
    pub(crate) disk_bytes: u64,
    /// Senders keep its events until they are answered.
    pub(crate) kept: bool,
    /// Time that it gathered before it came, as far as that counts.
    gathered: Duration,
}

impl IncomingBatch {
    pub(crate) fn new(batch: Batch, gathered: Duration) -> Self {
        Self {
            kept: false,
            gathered: gathered.min(GATHERED_MAX),
            memory_bytes: batch.memory_bytes(),
            disk_bytes: disk_bytes(&batch),
            batch: Arc::new(batch),
        }
    }

    /// The same, and whether senders keep its events until they are answered.
    pub(crate) fn kept(mut self, kept: bool) -> Self {
        self.kept = kept;
        self
    }

    /// Since when it counts as waiting to be written, if it comes at `now`.
    pub(crate) fn since(&self, now: Instant) -> Instant {
        now.checked_sub(self.gathered).unwrap_or(now)
    }
}
