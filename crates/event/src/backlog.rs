//! The backlog of one destination: how large it may grow, and what happens then.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ByteSize, limits};

/// What happens to events when a queue is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhenFull {
    /// Sources wait: TCP senders are slowed down, and what UDP loses is counted by the kernel.
    #[default]
    Block,
    /// The destination's oldest events make room, a segment of the log at a time. They are counted
    /// as dropped for this destination; other destinations still get them.
    DropOldest,
    /// New events are not kept for this destination, and are counted as dropped for it; other
    /// destinations still get them. What no destination has room for, its source counts as
    /// rejected, unless the destination has a `when_full` of its own.
    DropNewest,
}

/// The queue of one destination: the limits of its backlog.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DestinationQueue {
    /// Disk that the backlog of this destination may keep in use; memory with `durability: memory`.
    /// Without it, the limit is that of the whole queue; a destination that drops may then use
    /// three quarters of it, so that the others have room to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = limits::QUEUE_DISK_BYTES_MIN))]
    pub max_bytes: Option<ByteSize>,
    /// What happens when the backlog of this destination has used its room; `queue.when_full` if
    /// not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when_full: Option<WhenFull>,
}

impl DestinationQueue {
    /// True if nothing is given.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
