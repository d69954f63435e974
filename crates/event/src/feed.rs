//! The door between the queue and a sink: a sink pulls batches and reports their fate.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::{Batch, Fate};

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
}

/// What [`Feed::next`] found.
pub enum Next {
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
    fn next(&self, wait: Duration) -> Next;

    /// Reports what became of the events `events` (indexes into the batch's records) of the batch
    /// at `position`. Each event must be settled exactly once; [`Fate::RetryAfter`] puts the
    /// range back, to be handed out again by a later [`Feed::next`].
    fn settle(&self, position: u64, events: Range<u32>, fate: Fate);

    /// Whether the process is stopping: do not wait for a destination that does not answer, put
    /// what is unsettled back with [`Fate::RetryAfter`], and end.
    fn stopping(&self) -> bool;
}
