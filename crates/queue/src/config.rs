//! The options of the queue.

use std::time::Duration;

use inrush_event::{ByteSize, Period, WhenFull, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The queue between sources and destinations: one log on disk for all of them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QueueOptions {
    /// What an accepted event survives.
    pub durability: Durability,
    /// Disk that events may take while a destination lags, all destinations together.
    #[schemars(extend("minimum" = limits::QUEUE_DISK_BYTES_MIN))]
    pub max_bytes: ByteSize,
    /// Disk that is left to others: below this much free space nothing more is written. On a small
    /// file system, a twentieth of it.
    pub reserve_bytes: ByteSize,
    /// Memory that batches may pin; what is on disk makes room for what is not yet. If not given, a
    /// part of the memory that the process may use, `128MiB` at most: see the guide to sizing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = limits::QUEUE_BYTES_MIN))]
    pub memory_bytes: Option<ByteSize>,
    /// What happens when disk or, with `durability: memory`, memory is used up, for destinations
    /// whose `queue` has no `when_full` of its own.
    pub when_full: WhenFull,
    /// How long the events of a destination that was taken out of the configuration are kept, for
    /// the case that it comes back.
    pub abandoned_after: Period,
    /// Disk that events may take which a destination refused for good. When it is used up, they
    /// stay pending and their destination counts as failed.
    #[schemars(extend("minimum" = limits::QUARANTINE_BYTES_MIN))]
    pub quarantine_bytes: ByteSize,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            max_bytes: ByteSize(limits::QUEUE_DISK_BYTES_DEFAULT),
            reserve_bytes: ByteSize(limits::QUEUE_RESERVE_BYTES_DEFAULT),
            memory_bytes: None,
            when_full: WhenFull::default(),
            abandoned_after: Period(Duration::from_secs(24 * 60 * 60)),
            quarantine_bytes: ByteSize(limits::QUARANTINE_BYTES_DEFAULT),
        }
    }
}

impl QueueOptions {
    /// Memory that batches may pin, in bytes.
    pub fn memory_bytes_max(&self) -> u64 {
        self.memory_bytes
            .map_or(limits::QUEUE_BYTES_DEFAULT, |bytes| bytes.0)
    }
}

/// What an accepted event survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// A power cut: written within 50 ms and synced at once, and before it is acknowledged. What
    /// comes while a slow disk syncs is written meanwhile, and synced next.
    #[default]
    Fsync,
    /// The end of the process: written within 50 ms, and before it is acknowledged; the operating
    /// system writes it to the disk when it likes.
    Os,
    /// Nothing: it is kept in memory only.
    Memory,
}
