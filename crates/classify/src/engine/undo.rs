//! EventSnapshot of an event before a rule, for a rule that is not taken after all.

use inrush_event::{Record, Span};

use super::ClassifierRun;
use crate::read::{LazyPairs, TimeFormats};

/// Moment of an event, to which a rule that is not taken after all returns it.
#[derive(Clone, Copy)]
pub(super) struct EventSavepoint<'a> {
    chain: usize,
    values: usize,
    bytes: usize,
    record: Record,
    unread: Option<(&'a TimeFormats, Span)>,
    object: Span,
    pairs: Option<LazyPairs>,
}

impl<'a> ClassifierRun<'_, 'a> {
    /// The state that steps change.
    pub(super) fn before(&self) -> EventSavepoint<'a> {
        let event = &self.event;
        EventSavepoint {
            chain: self.work.chain.len(),
            values: event.scratch.values.len(),
            bytes: event.scratch.bytes.len(),
            record: event.record,
            unread: event.unread,
            object: event.object,
            pairs: event.pairs,
        }
    }

    /// Takes back what was read since.
    pub(super) fn undo(&mut self, before: &EventSavepoint<'a>) {
        self.work.chain.truncate(before.chain);
        self.event.scratch.values.truncate(before.values);
        self.event.scratch.bytes.truncate(before.bytes);
        self.put_back(before);
    }

    /// Puts back what stands in the event itself. The values and texts that were read since stay.
    pub(super) fn put_back(&mut self, before: &EventSavepoint<'a>) {
        let event = &mut self.event;
        (event.record, event.unread) = (before.record, before.unread);
        event.object = before.object;
        if event.pairs != before.pairs {
            event.set_pairs(before.pairs);
        }
    }
}
