//! Election of one process by a Lease: decisions alone, without clock and network.
//!
//! # What it guarantees
//! * At most one process leads while the clocks of all run at rates that differ by less than a
//!   fifth. No time of another host is ever compared.
//! * A process leads for [`LeaseTiming::lead`] from the moment at which it *sent* its last write
//!   that succeeded. Another one takes over once it has *seen* the Lease unchanged for its whole
//!   duration, which is longer.
//! * Each write names the version that it replaces, so that of two writers one fails.
//! * A write whose answer was lost is found by reading, and renewed before it counts.
//!
//! # States
//! | State | Test | Next action |
//! |---|---|---|
//! | unknown | `must_read` | read |
//! | held by another | not expired | read, once a [`LeaseTiming::retry`] |
//! | free | no holder, or expired | write with our name |
//! | ours | our name | write again, once a [`LeaseTiming::retry`] |
//!
//! # Limits
//! A Lease that is deleted is free for processes that never saw it; the old holder notices it with
//! its next renewal. A duration of a foreign Lease counts up to [`DURATION_MAX`].
//!
//! # After a crash
//! The name of a process is its own, so the next one waits for the duration.

use std::time::Duration;

/// Longest duration of a Lease that is believed: one of years would stop all others for ever.
pub(crate) const DURATION_MAX: Duration = Duration::from_secs(600);

/// Pause after a write that lost against another one.
const CONFLICT_PAUSE: Duration = Duration::from_millis(200);

/// Times of the election.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LeaseTiming {
    /// Time without a change after which others may take the Lease.
    pub(crate) duration: Duration,
    /// Time that a process leads after a write.
    pub(crate) lead: Duration,
    /// Time between two writes, or two reads.
    pub(crate) retry: Duration,
}

/// Lease as the API has it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct LeaseRecord {
    /// Version of the object.
    pub(crate) version: String,
    /// Name of the process that holds it; empty: nobody.
    pub(crate) holder: String,
    /// Time for which it is held after each change.
    pub(crate) duration: Duration,
    /// Number of changes of the holder.
    pub(crate) transitions: u32,
}

/// Next action of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum LeaseAction {
    /// Read the Lease.
    Read,
    /// Create it with our name.
    Create,
    /// Replace this version by one with our name, and so many transitions.
    Replace {
        version: String,
        transitions: u32,
        /// True if another process held it, or nobody.
        takes: bool,
    },
    /// Wait.
    Wait(Duration),
}

/// Answer to an action.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum LeaseReply {
    /// The Lease that was read.
    Found(LeaseRecord),
    /// There is none.
    Missing,
    /// It was written; as it is now.
    Written(LeaseRecord),
    /// Another write was first.
    Conflict,
    /// No answer, or one that says nothing of the Lease. The write may have happened.
    Failed,
}

/// Election as one process sees it. Times are those of its own clock since any moment.
#[derive(Debug)]
pub(crate) struct LeaseElection {
    identity: String,
    timing: LeaseTiming,
    /// The Lease as it was last seen, and since when it is so.
    seen: Option<(LeaseRecord, Duration)>,
    must_read: bool,
    next_at: Duration,
    leads_until: Option<Duration>,
}

impl LeaseElection {
    /// A process that has seen nothing yet.
    pub(crate) fn new(identity: String, timing: LeaseTiming) -> Self {
        Self {
            identity,
            timing,
            seen: None,
            must_read: true,
            next_at: Duration::ZERO,
            leads_until: None,
        }
    }

    /// Time up to which this process leads, if it does.
    pub(crate) fn leads_until(&self) -> Option<Duration> {
        self.leads_until
    }

    /// The next action.
    pub(crate) fn next(&self, now: Duration) -> LeaseAction {
        if let Some(wait) = self.next_at.checked_sub(now).filter(|wait| !wait.is_zero()) {
            return LeaseAction::Wait(wait);
        }
        match &self.seen {
            _ if self.must_read => LeaseAction::Read,
            None => LeaseAction::Create,
            Some((record, _)) if record.holder == self.identity => self.replace(record, false),
            Some((record, since)) if is_free(record, *since, now) => self.replace(record, true),
            Some(_) => LeaseAction::Read,
        }
    }

    fn replace(&self, record: &LeaseRecord, takes: bool) -> LeaseAction {
        LeaseAction::Replace {
            version: record.version.clone(),
            transitions: record.transitions.saturating_add(u32::from(takes)),
            takes,
        }
    }

    /// Takes the answer to an action that was sent at `sent`.
    pub(crate) fn reply(&mut self, reply: LeaseReply, sent: Duration, now: Duration) {
        self.must_read = true;
        match reply {
            LeaseReply::Found(record) => self.see(record, now),
            LeaseReply::Missing => {
                self.leads_until = None;
                let held = self.seen.take().filter(|(record, since)| {
                    record.holder != self.identity && !is_free(record, *since, now)
                });
                // Its holder may not know yet that it is gone.
                self.must_read = held.is_some();
                self.next_at = now + held.as_ref().map_or(Duration::ZERO, |_| self.timing.retry);
                self.seen = held;
            }
            LeaseReply::Written(record) => {
                self.seen = Some((record, now));
                self.must_read = false;
                self.leads_until = Some(sent + self.timing.lead);
                self.next_at = sent + self.timing.retry;
            }
            LeaseReply::Conflict => self.next_at = now + CONFLICT_PAUSE,
            LeaseReply::Failed => self.next_at = now + self.timing.retry,
        }
    }

    fn see(&mut self, record: LeaseRecord, now: Duration) {
        let same = self.seen.take().filter(|(seen, _)| *seen == record);
        let since = same.map_or(now, |(_, since)| since);
        let is_ours = record.holder == self.identity;
        if !is_ours {
            self.leads_until = None;
        }
        let writes = is_ours || is_free(&record, since, now);
        self.must_read = !writes;
        self.next_at = match writes {
            true => now,
            false => now + self.timing.retry,
        };
        self.seen = Some((record, since));
    }

    /// Leads no more. The version to be replaced by one without a holder, if the Lease is ours.
    pub(crate) fn release(&mut self) -> Option<LeaseRecord> {
        self.leads_until = None;
        let (record, _) = self.seen.take()?;
        (record.holder == self.identity).then_some(record)
    }
}

/// True if anybody may take the Lease, which is as it is since then.
fn is_free(record: &LeaseRecord, since: Duration, now: Duration) -> bool {
    record.holder.is_empty() || now >= since + record.duration.min(DURATION_MAX)
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
