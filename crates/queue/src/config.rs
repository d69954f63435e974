//! The options of the queue.

use inrush_event::{ByteSize, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The queue between sources and destinations.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QueueOptions {
    /// Memory that batches may pin while a destination lags.
    #[schemars(extend("minimum" = limits::QUEUE_BYTES_MIN))]
    pub memory_bytes: ByteSize,
    /// What happens when that is used up.
    pub when_full: WhenFull,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            memory_bytes: ByteSize(limits::QUEUE_BYTES_DEFAULT),
            when_full: WhenFull::default(),
        }
    }
}

/// What happens to events when the queue is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhenFull {
    /// Sources wait: TCP senders are slowed down, and what UDP loses is counted by the kernel.
    #[default]
    Block,
    /// The oldest batch makes room; destinations that had not taken it count it as dropped.
    DropOldest,
    /// The newest batch is not taken; its source counts it as rejected.
    DropNewest,
}
