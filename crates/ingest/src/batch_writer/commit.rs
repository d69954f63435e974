//! Posts the counts of a batch to the ledger, and appends the batch to the queue.

use std::time::{Duration, Instant};

use inrush_event::{Batch, RejectReason, TimeTally};
use inrush_queue::{AppendError, AppendTerms};

use super::BatchWriter;
use super::acks::AppendOutcome;
use super::open_batch::OpenBatch;
use super::source::IngestSource;
use super::tally::BatchTally;
use crate::now::Now;

impl BatchWriter {
    /// Posts what the batch comes to, and appends it to the queue. Waits while the queue is full
    /// and its policy is to block.
    pub(super) fn pass_on(&mut self, mut open: OpenBatch, now: Now) {
        self.post_empty(&mut open);
        self.post_held(&mut open);
        self.post_filtered(&mut open);
        self.post_unwanted(&mut open);
        self.take_positions(&mut open);
        let OpenBatch {
            builder,
            tally,
            routing,
            since,
            ..
        } = &mut open;
        let pool = &self.doors.pool;
        let builder = std::mem::replace(builder, pool.lend(&self.settings.info, 0));
        if builder.is_empty() {
            // Bytes that became no event (the middle of an endless line) go with it.
            self.post_joined();
            self.owed.hand(AppendOutcome::Nothing);
            if !tally.peers.is_empty() {
                // Who sent what was all filtered or held is known all the same.
                let batch = builder.freeze(0);
                self.source.note_senders(now.wall, &batch, &tally.peers);
                note(&self.source, tally.anomalies);
            }
            self.let_positions_go(now);
            return;
        }
        let mut lags = TimeTally::default();
        let batch = builder.freeze_and_tally(self.source.next_sequence(), &mut lags);
        // Who sends is known whether or not there is room for what was sent.
        self.source.note_senders(now.wall, &batch, &tally.peers);
        self.source.receive_lag.add(&lags);
        let sums = self.doors.log.has_disk();
        let batches = match routing {
            Some(routing) => routing.split(batch, pool, sums, || self.source.next_sequence()),
            None => vec![batch],
        };
        let gathered = match self.trickles {
            true => now.instant.saturating_duration_since(*since),
            false => Duration::ZERO,
        };
        self.hand_over(batches, gathered, tally, now);
    }

    /// Counts what had not a byte.
    fn post_empty(&self, open: &mut OpenBatch) {
        let empty = std::mem::take(&mut open.tally.empty);
        if empty > 0 {
            let counters = &self.source.counters;
            self.doors.ledger.post(|| {
                counters.received.add(empty);
                counters.rejected(RejectReason::Empty).add(empty);
            });
        }
    }

    /// Counts what rules took out: it was received and accepted, and goes nowhere.
    fn post_filtered(&mut self, open: &mut OpenBatch) {
        let (events, bytes) = std::mem::take(&mut open.filtered);
        if events == 0 {
            return;
        }
        let waited = self.joined.take(events);
        let counters = &self.source.counters;
        self.doors.ledger.post(|| {
            counters.received.add(events - waited);
            counters.received_bytes.add(bytes);
            counters.held.sub(waited);
            counters.accepted.add(events);
            open.by_rule.iter().for_each(|(rule, n)| rule.add(*n));
        });
    }

    /// Counts what the source filtered itself.
    fn post_unwanted(&self, open: &mut OpenBatch) {
        let unwanted = std::mem::take(&mut open.unwanted);
        if unwanted.events == 0 {
            return;
        }
        let counters = &self.source.counters;
        self.doors.ledger.post(|| {
            counters.received.add(unwanted.events);
            counters.received_bytes.add(unwanted.bytes);
            counters.accepted.add(unwanted.events);
            unwanted.by_rule.iter().for_each(|(rule, n)| rule.add(*n));
        });
    }

    /// Appends the batches to the queue, and has their senders answered.
    fn hand_over(
        &mut self,
        mut batches: Vec<Batch>,
        gathered: Duration,
        tally: &mut BatchTally,
        now: Now,
    ) {
        let positions = self.positions_to_go(now);
        if let (Some(positions), Some(last)) = (&positions, batches.last_mut()) {
            // Durable last: then all of them are.
            last.carry(positions);
        }
        let mut outcome = None;
        let last = batches.len().saturating_sub(1);
        for (at, batch) in batches.into_iter().enumerate() {
            let terms = AppendTerms {
                gathered,
                // One sync does for all of them.
                urgent: self.owed.is_open() && at == last,
                kept: !tally.unkept,
                admitted: self.admitted,
            };
            let appended = self.append(batch, terms, tally);
            if let (true, Err(AppendError::Full), Some(refused)) =
                (at == last, appended, &positions)
            {
                self.take_back_positions(refused, now);
            }
            // Who waits for an answer is told of the last batch, which is durable last, unless one
            // of them was refused.
            if appended.is_err() || !matches!(outcome, Some(Err(_))) {
                outcome = Some(appended);
            }
        }
        match outcome {
            Some(Ok(position)) => self.owed.hand(AppendOutcome::At(position)),
            Some(Err(AppendError::Full)) => self.owed.hand(AppendOutcome::Refused),
            Some(Err(AppendError::Closed)) => self.owed.forget(),
            None => {}
        }
    }

    /// Appends a batch to the queue, and counts what became of it.
    fn append(
        &mut self,
        batch: Batch,
        terms: AppendTerms,
        tally: &mut BatchTally,
    ) -> Result<u64, AppendError> {
        let events = batch.len() as u64;
        // All that is new in the batches counts with the first of them, before anyone can see it.
        let waited = self.joined.take(events);
        let more = self.joined.take_more();
        let bytes = std::mem::take(&mut tally.bytes);
        let anomalies = std::mem::take(&mut tally.anomalies);
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
        let began = Instant::now();
        let appended = self.doors.log.append_on(batch, terms, accept);
        self.blocked += began.elapsed();
        match appended {
            Ok(_) => {}
            Err(AppendError::Full) => reject(RejectReason::QueueFull),
            Err(AppendError::Closed) => reject(RejectReason::Shutdown),
        }
        appended
    }
}

/// Counts what was odd about events.
fn note(source: &IngestSource, anomalies: [u64; 32]) {
    for (counter, n) in source.anomalies.iter().zip(anomalies) {
        if n > 0 {
            counter.add(n);
        }
    }
}
