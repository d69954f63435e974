//! A batch on its way into the log.

use std::sync::Arc;

use inrush_event::Batch;

use crate::writer::disk_bytes;

/// A batch, and what is worth to be known of it before the log is locked.
pub(crate) struct Arrival {
    pub(crate) batch: Arc<Batch>,
    /// Bytes of memory that it pins.
    pub(crate) memory_bytes: u64,
    /// Bytes that it takes on disk, or a little more.
    pub(crate) disk_bytes: u64,
}

impl Arrival {
    pub(crate) fn new(batch: Batch) -> Self {
        Self {
            memory_bytes: batch.memory_bytes(),
            disk_bytes: disk_bytes(&batch),
            batch: Arc::new(batch),
        }
    }
}
