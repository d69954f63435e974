//! The door between the queue and a sink: a sink pulls batches and reports their fate.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::{Batch, Fate};

/// Place of a batch's events in the log: together with the number of an event it names that event
/// for ever, whatever is sent again after a failure or a restart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BatchOrigin {
    /// Names the log, 48 bits of it. Made from its secret, which it does not tell.
    pub log: u64,
    /// Number of the process that accepted the batch, among those that had the log. Numbers that
    /// were lost with an unwritten end of the log may be given out again, but not by the same
    /// process.
    pub epoch: u32,
    /// The number of the batch's first event; the others follow.
    pub first_event: u64,
}

/// A batch on its way to one destination.
#[derive(Clone)]
pub struct Delivery {
    /// Its place in the log: batches are numbered from 0 without gaps.
    pub position: u64,
    /// The batch.
    pub batch: Arc<Batch>,
    /// The events of it that are to be delivered now (indexes into its records): all of them at
    /// first, or a range that was put back with [`Fate::RetryAfter`].
    pub events: Range<u32>,
    /// Names its events.
    pub origin: BatchOrigin,
}

/// Result of [`Feed::next`].
pub enum FeedNext {
    /// The next batch of this destination.
    Batch(Delivery),
    /// Nothing came within the wait.
    Idle,
    /// Nothing will come any more: finish what is in hand, report it, and end.
    Closed,
}

/// One destination's cursor, as its sink sees it. Several workers of a sink may share it.
pub trait Feed: Send + Sync {
    /// The next batch, waiting for it at most that long.
    fn next(&self, wait: Duration) -> FeedNext;

    /// Reports what became of the events `events` (indexes into the batch's records) of the batch
    /// at `position`. Each event must be settled exactly once; [`Fate::RetryAfter`] puts the
    /// range back, to be handed out again by a later [`Feed::next`].
    fn settle(&self, position: u64, events: Range<u32>, fate: Fate);

    /// True if the batch at `position` is as durable in the queue as its mode promises. A sink that
    /// keeps events under their numbers waits for it: numbers that are lost with an unwritten end
    /// of the log are given out again.
    fn durable(&self, position: u64) -> bool {
        let _ = position;
        true
    }

    /// True if the process is stopping: do not wait for a destination that does not answer, put
    /// what is unsettled back with [`Fate::RetryAfter`], and end.
    fn stopping(&self) -> bool;
}
