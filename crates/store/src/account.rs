//! Account of a store's events: those at the start, written, deleted by reason, and held now.

use crate::options::REASONS;

/// Counted since the store was opened, in events; under the lock of what it counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EventAccount {
    /// In files at the start.
    pub at_start: u64,
    /// Written to files by ingestion.
    pub written: u64,
    /// Deleted by retention, in the order of [`REASONS`].
    pub expired: [u64; REASONS.len()],
    /// In files that are damaged or missing.
    pub unreadable: u64,
    /// In files that can be read, as far as that is known.
    pub searchable: u64,
    /// In memory only.
    pub in_memory: u64,
}

impl EventAccount {
    /// Takes note of a commit and of the events in the files that it added and removed. Merging
    /// files changes nothing here: an event that it lost would be missing in the sum.
    pub(crate) fn note(&mut self, why: &str, added: u64, removed: u64) {
        if let Some(at) = REASONS.iter().position(|reason| *reason == why) {
            self.expired[at] += removed;
        } else if why == INGEST {
            self.written += added;
        }
    }
}

/// Reason of a commit that brings new events.
pub(crate) const INGEST: &str = "ingest";

/// The reason of a commit that puts one file in place of small ones.
pub(crate) const COMPACT: &str = "compact";
