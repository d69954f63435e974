//! A batch on its way into the log.

use std::sync::Arc;

use inrush_event::{Batch, limits};

use crate::writer::disk_bytes;

/// A batch, and what is worth to be known of it before the log is locked.
pub(crate) struct Arrival {
    pub(crate) batch: Arc<Batch>,
    /// Bytes of memory that it pins.
    pub(crate) memory_bytes: u64,
    /// Bytes that it takes on disk, or a little more.
    pub(crate) disk_bytes: u64,
    /// CRC-32C of its arena, if it is to be written and so large that this is worth the trouble of
    /// joining it to the rest: whoever filled the batch has it in its cache, the writer has not.
    pub(crate) arena_sum: Option<u32>,
}

impl Arrival {
    pub(crate) fn new(batch: Batch, has_disk: bool) -> Self {
        let summed = has_disk && batch.bytes().len() >= limits::BATCH_COPY_BYTES;
        Self {
            memory_bytes: batch.memory_bytes(),
            disk_bytes: disk_bytes(&batch),
            arena_sum: summed.then(|| crc32c::crc32c(batch.bytes())),
            batch: Arc::new(batch),
        }
    }
}
