//! The side of a log that has a disk: its writer, and the batches that are not durable yet.

use std::io;
use std::time::{Duration, Instant};

use inrush_event::{Batch, Timestamp};

use crate::gathering::{CommitGathering, LINGER};
use crate::segments::Segments;
use crate::writer::SegmentWriter;

/// After a batch that its senders do not keep, others are expected for so long.
const UNKEPT: Duration = Duration::from_mins(1);

/// So much later than it is due such a round may begin.
const PACE_SLACK: Duration = Duration::from_millis(2);

/// Reason why nothing is written at the moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stall {
    /// Since when.
    pub since: Timestamp,
    /// For the operator.
    pub text: String,
    /// True if it is for want of room, of the budget or of the disk.
    pub full: bool,
}

/// The side of a log that has a disk.
pub(crate) struct OnDisk {
    pub(crate) segments: Segments,
    /// `None` while a round is under way.
    pub(crate) writer: Option<SegmentWriter>,
    /// Every batch below is as durable as the mode promises.
    pub(crate) durable_end: u64,
    /// Someone waits for every batch below.
    pub(crate) urgent_end: u64,
    /// Time at which the last batch came that its senders do not keep.
    pub(crate) unkept_at: Option<Instant>,
    /// Position behind that batch.
    pub(crate) unkept_end: u64,
    /// Rounds of late, and who is about to come back after the last one.
    pub(crate) gathering: CommitGathering,
    /// Bytes that the batches at and behind `durable_end` take on disk.
    pub(crate) unwritten_bytes: u64,
    /// Every batch below is written or just being written, though it may not count yet.
    pub(crate) taken_end: u64,
    /// Result of a sync that was done aside, until the writer takes note of it.
    pub(crate) synced: Option<io::Result<()>>,
    pub(crate) stall: Option<Stall>,
    /// Time at which the writer will look by itself, while it rests.
    pub(crate) wakes_at: Option<Instant>,
    /// Start of the last round, if its batches had gathered: the next ones come soon.
    pub(crate) paced_at: Option<Instant>,
    /// True if destinations are to be told of batches with the next round.
    pub(crate) unannounced: bool,
    /// True if destinations may wait for a batch to be durable.
    pub(crate) has_held: bool,
    /// Time at which a failed round may be tried again.
    pub(crate) retry_at: Option<Instant>,
    /// Bytes that the log may take, as far as the disk had room when last looked at.
    pub(crate) room_bytes: u64,
}

impl OnDisk {
    /// The writer at rest, with everything below `position` on disk.
    pub(crate) fn new(segments: Segments, writer: SegmentWriter, position: u64) -> Self {
        Self {
            segments,
            writer: Some(writer),
            durable_end: position,
            urgent_end: 0,
            unkept_at: None,
            unkept_end: 0,
            gathering: CommitGathering::default(),
            unwritten_bytes: 0,
            taken_end: position,
            synced: None,
            stall: None,
            wakes_at: None,
            paced_at: None,
            unannounced: false,
            has_held: false,
            retry_at: None,
            room_bytes: u64::MAX,
        }
    }

    /// True if the writer must be woken for the batch at `position`, which waits since then: it
    /// rests for longer than that, or waits for a sync and knows of none that it could write.
    pub(crate) fn must_wake(&self, position: u64, since: Instant) -> bool {
        match self.wakes_at {
            Some(wakes_at) => wakes_at > since + LINGER + PACE_SLACK,
            None => self.taken_end == position,
        }
    }

    /// True if the writer rests for longer than until then.
    pub(crate) fn rests_beyond(&self, due: Option<Instant>) -> bool {
        let (Some(wakes_at), Some(due)) = (self.wakes_at, due) else {
            return true;
        };
        wakes_at > due
    }

    /// True if nothing came of late but what its senders keep until they are answered, and the disk
    /// is quick: the first batch that they do not keep waits for one sync.
    pub(crate) fn all_kept(&self, now: Instant) -> bool {
        let lately = |at| now.saturating_duration_since(at) < UNKEPT;
        let none_waits = self.unkept_end <= self.durable_end;
        none_waits && !self.unkept_at.is_some_and(lately) && self.gathering.is_quick()
    }

    /// True if a batch is handed out only once it is durable: it carries positions, so a crash
    /// before would have its events read again. While nothing can be written, nothing is held.
    pub(crate) fn holds(&self, position: u64, batch: &Batch) -> bool {
        let carries = batch.shared_positions().is_some();
        carries && position >= self.durable_end && self.stall.is_none()
    }

    /// True if destinations may hear of a batch with the next round: the writer rests, and begins
    /// one soon.
    pub(crate) fn will_announce(&self) -> bool {
        self.writer.is_some() && self.stall.is_none() && self.retry_at.is_none()
    }
}
