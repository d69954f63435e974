//! Turn of a log: what a read of it came to, and its costs.

use std::time::Instant;

/// Outcome of a turn of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LogTurn {
    /// So many bytes were read, and there may be more at once.
    Read(usize),
    /// So many bytes were read, all that there are.
    Drained(usize),
    /// There is nothing more to read now.
    AtEnd,
    /// Nothing is to be read before that time.
    HeldUntil(Instant),
    /// The queue has no room.
    Waits,
    /// The file became shorter: the finder looks for a copy of what it had.
    Shortened,
    /// The log has ended; all that could be read of it is taken.
    Ended,
}

/// Counts that only the reader of a source raises: their growth in a turn is that of one log.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct LineCosts {
    pub(super) joined: u64,
    pub(super) cut: u64,
    pub(super) flushed: u64,
    pub(super) malformed: u64,
    pub(super) holes: u64,
    pub(super) truncated: u64,
}

impl LineCosts {
    /// Growth since `before`.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            joined: self.joined - before.joined,
            cut: self.cut - before.cut,
            flushed: self.flushed - before.flushed,
            malformed: self.malformed - before.malformed,
            holes: self.holes - before.holes,
            truncated: self.truncated - before.truncated,
        }
    }
}
