//! Reading of both clocks, once for everything that a worker does in a round.

use std::time::Instant;

use inrush_event::Timestamp;

/// One reading of both clocks, for everything that a worker does in a round.
#[derive(Clone, Copy)]
pub(crate) struct Now {
    pub(crate) instant: Instant,
    pub(crate) wall: Timestamp,
    /// The time since when what is read may have waited for us.
    pub(crate) since: Instant,
}

impl Now {
    pub(crate) fn read() -> Self {
        let instant = Instant::now();
        Self {
            instant,
            wall: Timestamp::now(),
            since: instant,
        }
    }
}
