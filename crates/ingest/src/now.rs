//! Reading of both clocks, once for everything that a worker does in a round.

use std::time::Instant;

use inrush_event::{Timestamp, instant_now};

/// One reading of both clocks, for everything that a worker does in a round.
#[derive(Clone, Copy)]
pub struct Now {
    /// Reading of the monotonic clock, for deadlines and durations.
    pub instant: Instant,
    /// Reading of the wall clock, in nanoseconds since 1970, for times of receipt.
    pub wall: Timestamp,
    /// The time since when what is read may have waited for us.
    pub since: Instant,
}

impl Now {
    /// Reads both clocks. `since` equals `instant`; a caller that napped sets it back.
    pub fn read() -> Self {
        let instant = instant_now();
        Self {
            instant,
            wall: Timestamp::now(),
            since: instant,
        }
    }
}
