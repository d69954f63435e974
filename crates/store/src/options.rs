//! How a store is written and kept.

use std::collections::BTreeMap;
use std::time::Duration;

/// How a store is written and kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WriteOptions {
    /// Bytes of raw text after which files are written.
    pub flush_bytes: u64,
    /// Time after which they are written at the latest. Events are searchable before.
    pub flush_after: Duration,
    /// What holds for every index that has nothing of its own, and for all together.
    pub retention: Retention,
    /// What holds for an index instead.
    pub indexes: BTreeMap<String, Retention>,
    /// Bytes of the file system that are left free: the oldest files go before. A twentieth of it,
    /// 4 GiB at most, if nothing is said.
    pub free_bytes: Option<u64>,
    /// Time since they were received for which events are not deleted to make room.
    pub min_age: Duration,
}

/// Why retention deletes files: for their age, for a budget of bytes, for room on the disk.
pub const REASONS: [&str; 3] = ["age", "bytes", "room"];

/// Where [`REASONS`] has `room`.
pub(crate) const ROOM: usize = 2;

/// How long events are kept.
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
