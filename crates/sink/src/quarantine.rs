//! Refusal of events that their destination will never take: quarantine, then settlement.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use inrush_event::{Batch, Fate, Feed, RefuseReason};

use crate::SinkStatus;

/// Back-off before a refused event that could not be quarantined is tried again, sending included.
const RETRY: Duration = Duration::from_secs(10);

/// Reason for the refusal of an event, with the destination's code and text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventRefusal {
    /// The closed reason.
    pub reason: RefuseReason,
    /// The destination's own code, 0 if it gave none.
    pub code: u32,
    /// The destination's own words.
    pub text: String,
}

/// Events that are refused for the same reason.
pub struct RefusedRecords {
    /// The place of their batch in the log.
    pub position: u64,
    /// Their batch.
    pub batch: Arc<Batch>,
    /// Indexes into its records.
    pub events: Range<u32>,
    /// Reason for the refusal.
    pub refusal: EventRefusal,
    /// Requests or writes that they were part of.
    pub attempts: u32,
}

/// Keeps refused events.
pub trait Quarantine: Send + Sync {
    /// Keeps the events, durably, before it returns: one wait for the disk for all of them.
    ///
    /// # Errors
    /// They could not be kept; nothing of them was, and the caller holds them.
    fn put(&self, destination: &str, refused: &[RefusedRecords]) -> io::Result<()>;
}

/// Quarantine and status of one destination, for the refusal of its events.
pub(crate) struct Refuser {
    pub(crate) destination: String,
    pub(crate) quarantine: Arc<dyn Quarantine>,
    pub(crate) status: Arc<SinkStatus>,
}

impl Refuser {
    /// Quarantines the events, then settles them as refused; puts them back if they cannot be
    /// quarantined.
    pub(crate) fn refuse(&self, feed: &dyn Feed, refused: Vec<RefusedRecords>) {
        if refused.is_empty() {
            return;
        }
        let kept = self.quarantine.put(&self.destination, &refused);
        match &kept {
            Ok(()) => self.status.quarantine_works(),
            Err(error) => {
                let text = format!("quarantine cannot be written: {error}");
                self.status.quarantine_failed(&text);
            }
        }
        for RefusedRecords {
            position,
            events,
            refusal,
            ..
        } in refused
        {
            let EventRefusal { reason, code, text } = refusal;
            let fate = match kept {
                Ok(()) => Fate::Refused { reason, code, text },
                Err(_) => Fate::RetryAfter(RETRY),
            };
            feed.settle(position, events, fate);
        }
    }
}
