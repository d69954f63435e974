//! State that one snapshot of the flow leaves for the next.

use std::collections::HashMap;

use inrush_event::Timestamp;
use inrush_host::Host;

/// State that one snapshot leaves for the next.
pub(crate) struct SnapshotState {
    pub host: Host,
    /// Time each alarm was first seen, by its name, for those that do not know it themselves.
    pub alarms: HashMap<String, Timestamp>,
}

impl SnapshotState {
    pub(crate) fn open() -> Self {
        Self {
            host: Host::open(),
            alarms: HashMap::new(),
        }
    }
}
