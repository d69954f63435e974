//! The options of `stdout`: those that every destination has.

use inrush_event::DestinationQueue;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options of the `stdout` destination.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StdoutConfig {
    /// The limits of this destination's backlog in the queue.
    #[serde(default, skip_serializing_if = "DestinationQueue::is_default")]
    pub queue: DestinationQueue,
}
