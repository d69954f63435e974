//! Pending acknowledgements: what a source owes its peers for batches, by position in the log.
//!
//! # The way of an acknowledgement
//! 1. A decoder puts an event into the open batch, and an [`AckRange`] beside it.
//! 2. While other cores study the batch, its ranges wait with its place in the order.
//! 3. When the batch is handed on, its ranges wait for its position, one entry a batch.
//! 4. When the log says that the position is durable, the source takes them
//!    ([`PendingAcks::next_due`]) and answers, confirms or commits. A batch that was refused for
//!    want of room is due too, with that outcome. One that the closing queue did not take is
//!    forgotten: its peer sends again.
//!
//! # What it guarantees
//! Acknowledgements come in the order in which their events were decoded. Once the queue has closed
//! before a batch, none comes: one behind it may be for a request that began in it.

use std::collections::VecDeque;

use crate::mutant::{Mutant, is_on};

/// Receiver of acknowledgements: a connection, a channel, a partition or a file of one worker. Keys
/// are used again, serial numbers are not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckTarget {
    /// Key by which the source finds it.
    pub key: usize,
    /// Number that no other target of the worker had.
    pub serial: u64,
}

/// Numbers in a row of one target that are acknowledged alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckRange {
    /// Receiver.
    pub target: AckTarget,
    /// First number: of a transaction, an offset.
    pub first: u64,
    /// Count of numbers.
    pub count: u32,
    /// Kind of what is acknowledged; its meaning is the source's own.
    pub tag: u32,
}

/// Fate of a batch at the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AppendOutcome {
    /// Appended at this position.
    At(u64),
    /// Not taken, because the queue is full.
    Refused,
    /// There was no batch.
    Nothing,
}

/// Acknowledgements of one batch.
#[derive(Debug)]
pub struct BatchAcks {
    /// Fate of the batch.
    pub outcome: AppendOutcome,
    /// Acknowledgements, in the order in which their events were decoded.
    pub acks: Vec<AckRange>,
}

/// Acknowledgements of one source in one worker.
#[derive(Default)]
pub struct PendingAcks {
    /// Of the open batch.
    open: Vec<AckRange>,
    /// Of batches that were handed on, oldest first.
    handed: VecDeque<BatchAcks>,
    /// True once a batch was lost to the closing queue.
    lost: bool,
}

impl PendingAcks {
    /// Notes that a number of a target depends on the open batch.
    pub fn push(&mut self, target: AckTarget, number: u64, tag: u32) {
        if let Some(last) = self.open.last_mut()
            && (last.target, last.tag) == (target, tag)
            && last.first.checked_add(last.count.into()) == Some(number)
        {
            last.count += 1;
            return;
        }
        self.open.push(AckRange {
            target,
            first: number,
            count: 1,
            tag,
        });
    }

    /// True if a peer waits for an answer to the open batch.
    pub fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// True if a peer waits for an answer to a batch that was handed on.
    pub fn is_waiting(&self) -> bool {
        !self.handed.is_empty()
    }

    /// Notes the fate of the open batch, which has been handed on.
    pub fn hand(&mut self, outcome: AppendOutcome) {
        let acks = self.take_open();
        if !acks.is_empty() && !self.lost {
            self.handed.push_back(BatchAcks { outcome, acks });
        }
    }

    /// Takes those of the open batch, which is studied elsewhere until it is handed on.
    pub(super) fn take_open(&mut self) -> Vec<AckRange> {
        std::mem::take(&mut self.open)
    }

    /// Has these be those of the open batch; returns those that were.
    pub(super) fn replace_open(&mut self, acks: Vec<AckRange>) -> Vec<AckRange> {
        std::mem::replace(&mut self.open, acks)
    }

    /// Forgets those of the open batch, which is lost, and all later ones: their peers get no
    /// answer.
    pub fn forget(&mut self) {
        self.open.clear();
        self.lost = true;
    }

    /// The acknowledgements of the oldest batch, if all below `durable_end` is durable and it is.
    pub fn next_due(&mut self, durable_end: u64) -> Option<BatchAcks> {
        self.handed.pop_front_if(|handed| match handed.outcome {
            AppendOutcome::At(position) => position < durable_end || is_on(Mutant::AnswerAppended),
            AppendOutcome::Refused | AppendOutcome::Nothing => true,
        })
    }

    /// The position that the oldest acknowledgements wait for.
    pub fn waits_for(&self) -> Option<u64> {
        match self.handed.front()?.outcome {
            AppendOutcome::At(position) => Some(position),
            AppendOutcome::Refused | AppendOutcome::Nothing => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: AckTarget = AckTarget { key: 3, serial: 9 };

    #[test]
    fn numbers_in_a_row_are_one_range() {
        let mut acks = PendingAcks::default();
        (2..1002).for_each(|number| acks.push(TARGET, number, 0));
        acks.push(TARGET, 1002, 1);
        acks.push(TARGET, 1004, 1);
        acks.hand(AppendOutcome::At(7));
        assert!(acks.next_due(7).is_none());
        let due = acks.next_due(8).map(|due| due.acks).unwrap_or_default();
        let ranges: Vec<_> = due.iter().map(|ack| (ack.first, ack.count)).collect();
        assert_eq!(ranges, [(2, 1000), (1002, 1), (1004, 1)]);
    }

    #[test]
    fn a_lost_batch_owes_nothing() {
        let mut acks = PendingAcks::default();
        acks.push(TARGET, 2, 0);
        acks.forget();
        acks.hand(AppendOutcome::At(0));
        assert!(!acks.is_waiting());
        acks.push(TARGET, 2, 1);
        acks.hand(AppendOutcome::Nothing);
        assert!(!acks.is_waiting(), "the end of what was lost");
    }
}
