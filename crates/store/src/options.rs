//! Options of a store: flush bounds, retention, and room left free.

use std::collections::BTreeMap;
use std::time::Duration;

/// Flush bounds and retention of a store, and the room that it leaves free.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WriteOptions {
    /// Bytes of raw text after which files are written.
    pub flush_bytes: u64,
    /// Time after which they are written at the latest. Events are searchable before.
    pub flush_after: Duration,
    /// Retention of every index that has none of its own, and of all indexes together.
    pub retention: Retention,
    /// Retention of single indexes, in place of the general one.
    pub indexes: BTreeMap<String, Retention>,
    /// Bytes of the file system that are left free: the oldest files go before. A twentieth of it,
    /// 4 GiB at most, if nothing is said.
    pub free_bytes: Option<u64>,
    /// Time since they were received for which events are not deleted to make room.
    pub min_age: Duration,
}

/// Reasons of retention to delete files: their age, a budget of bytes, room on the disk.
pub const REASONS: [&str; 3] = ["age", "bytes", "room"];

/// Place of `room` in [`REASONS`].
pub(crate) const ROOM: usize = 2;

/// Bounds of age and of size within which events are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Retention {
    /// Time since they were received.
    pub age: Option<Duration>,
    /// Bytes of their files.
    pub bytes: Option<u64>,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            flush_bytes: 32 * 1024 * 1024,
            flush_after: Duration::from_secs(10),
            retention: Retention::default(),
            indexes: BTreeMap::new(),
            free_bytes: None,
            min_age: Duration::from_secs(24 * 60 * 60),
        }
    }
}
