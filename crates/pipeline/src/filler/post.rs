//! How the events of a batch come into the ledger, and the batch into the queue.

use inrush_event::{Batch, RejectReason};
use inrush_queue::AppendError;

use super::{Filler, Now};
use crate::relp::Outcome;
use crate::source::Source;

impl Filler {
    /// Notes who sent what was all filtered or held, and forgets them: senders that make nothing
    /// else would fill the batch's list of them for ever.
    pub(super) fn note_without_batch(&mut self, now: Now) {
        if self.tally.peers.is_empty() {
            return;
        }
        let next = self.next_builder(0);
        let batch = std::mem::replace(&mut self.builder, next).freeze(0);
        self.source
            .note_senders(now.wall, &batch, &self.tally.peers);
        note(&self.source, self.tally.anomalies);
        self.tally.clear();
    }

    /// Counts what had not a byte.
    pub(super) fn post_empty(&mut self) {
        let empty = std::mem::take(&mut self.tally.empty);
        if empty > 0 {
            let counters = &self.source.counters;
            self.doors.ledger.post(|| {
                counters.received.add(empty);
                counters.rejected(RejectReason::Empty).add(empty);
            });
        }
    }

    /// Counts what rules took out: it was received and accepted, and goes nowhere.
    pub(super) fn post_filtered(&mut self) {
        let (events, bytes) = std::mem::take(&mut self.filtered);
        if events == 0 {
            return;
        }
        let ledger = &self.doors.ledger;
        let mut rules = Vec::new();
        if let Some(recogniser) = &mut self.recogniser {
            let dropped = recogniser.take_dropped();
            rules.extend(dropped.map(|(rule, n)| (ledger.filtered(rule), n)));
        }
        if let Some(shaper) = &mut self.shaper {
            let filtered = shaper.take_filtered();
            rules.extend(filtered.iter().map(|(rule, n)| (ledger.filtered(rule), *n)));
        }
        let waited = self.joined.take(events);
        let counters = &self.source.counters;
        ledger.post(|| {
            counters.received.add(events - waited);
            counters.received_bytes.add(bytes);
            counters.held.sub(waited);
            counters.accepted.add(events);
            rules.iter().for_each(|(counter, n)| counter.add(*n));
        });
    }

    /// Appends the batches to the queue, and has their senders answered.
    pub(super) fn hand_over(&mut self, batches: Vec<Batch>) {
        let mut outcome = None;
        for batch in batches {
            let appended = self.append(batch);
            // Who waits for an answer is told of the last batch, which is durable last, unless one
            // of them was refused.
            if appended.is_err() || !matches!(outcome, Some(Err(_))) {
                outcome = Some(appended);
            }
        }
        match outcome {
            Some(Ok(position)) => self.owed.hand(Outcome::At(position)),
            Some(Err(AppendError::Full)) => self.owed.hand(Outcome::Refused),
            Some(Err(AppendError::Closed)) => self.owed.forget(),
            None => {}
        }
    }

    /// Appends a batch to the queue, and counts what became of it.
    fn append(&mut self, batch: Batch) -> Result<u64, AppendError> {
        let events = batch.len() as u64;
        // All that is new in the batches counts with the first of them, before anyone can see it.
        let waited = self.joined.take(events);
        let more = self.joined.take_more();
        let bytes = std::mem::take(&mut self.tally.bytes);
        let anomalies = std::mem::take(&mut self.tally.anomalies);
        let (source, counters) = (&self.source, &self.source.counters);
        let received = || {
            counters.received.add(events - waited);
            counters.received_bytes.add(bytes);
            counters.held.sub(waited);
        };
        let reject = |reason| {
            self.doors.ledger.post(|| {
                received();
                counters.rejected(reason).add(events);
                more.reject(counters, reason);
            });
        };
        let accept = || {
            received();
            counters.accepted.add(events);
            more.accept(counters);
            note(source, anomalies);
        };
        let appended = self.doors.log.append(batch, self.owed.is_open(), accept);
        match appended {
            Ok(_) => {}
            Err(AppendError::Full) => reject(RejectReason::QueueFull),
            Err(AppendError::Closed) => reject(RejectReason::Shutdown),
        }
        appended
    }
}

/// Counts what was odd about events.
fn note(source: &Source, anomalies: [u64; 32]) {
    for (counter, n) in source.anomalies.iter().zip(anomalies) {
        if n > 0 {
            counter.add(n);
        }
    }
}
