//! Parts of events that wait for the others: when they are put into a batch, and how they count.

use std::sync::Arc;
use std::time::Instant;

use inrush_event::{Anomalies, Counter, Ledger, RejectReason, SourceCounters};

use super::BatchWriter;
use super::open_batch::OpenBatch;
use crate::now::Now;

/// Parts beyond the first of what was put together.
#[derive(Default)]
pub(super) struct ExtraParts {
    parts: u64,
    /// For each rule its counter, and how many those are.
    by_rule: Vec<(Arc<Counter>, u64)>,
}

impl ExtraParts {
    /// Counts them as taken into the others. Inside a posting.
    pub(super) fn accept(&self, counters: &SourceCounters) {
        counters.held.sub(self.parts);
        counters.accepted.add(self.parts);
        let by_rule = self.by_rule.iter();
        by_rule.for_each(|(counter, parts)| counter.add(*parts));
    }

    /// Counts them as lost with the first ones. Inside a posting.
    pub(super) fn reject(&self, counters: &SourceCounters, reason: RejectReason) {
        counters.held.sub(self.parts);
        counters.rejected(reason).add(self.parts);
    }
}

/// Events that were put together, and are not counted as such yet.
#[derive(Default)]
pub(super) struct AssembledCounts {
    more: ExtraParts,
    /// Events that were put together and still count as held, one part of each.
    waited: u64,
}

impl AssembledCounts {
    fn add(&mut self, parts: u64, rule: &str, ledger: &Ledger) {
        self.waited += 1;
        let more = parts.saturating_sub(1);
        if more == 0 {
            return;
        }
        self.more.parts += more;
        let counter = ledger.filtered(&format!("grouped:{rule}"));
        let mut known = self.more.by_rule.iter_mut();
        match known.find(|(known, _)| Arc::ptr_eq(known, &counter)) {
            Some((_, parts)) => *parts += more,
            None => self.more.by_rule.push((counter, more)),
        }
    }

    /// Parts that are counted with the next batch.
    pub(super) fn take_more(&mut self) -> ExtraParts {
        std::mem::take(&mut self.more)
    }

    /// Number of those `events`, about to be counted, that have been received already and count as
    /// held. Which ones does not matter: all of them are counted in the end.
    pub(super) fn take(&mut self, events: u64) -> u64 {
        let waited = self.waited.min(events);
        self.waited -= waited;
        waited
    }
}

impl BatchWriter {
    /// Time at which the next group has waited long enough; if one has come out, at once.
    pub(super) fn groups_due(&self) -> Option<Instant> {
        match self.groups.is_ready() {
            true => Some(self.open.since),
            false => self.groups.due(),
        }
    }

    /// Puts into batches what has all its parts, or has waited long enough.
    pub(super) fn ripen(&mut self, now: Now) {
        if self.source.generation() != self.generation {
            self.groups.end_all();
        }
        self.groups.expire(now.instant);
        if !self.groups.is_ready() {
            return;
        }
        // What is put together is known already, so what came before must be by then.
        self.come_home(now);
        self.recognise(1, now);
        while let Some(ready) = self.groups.pop() {
            if self.is_full() {
                self.flush(now);
            }
            self.stamp(now);
            self.open.tally.unkept = true;
            let ledger = &self.doors.ledger;
            self.joined.add(ready.parts(), ready.rule(), ledger);
            let record = ready.put(&mut self.open.builder);
            if record.anomalies.contains(Anomalies::GROUP_INCOMPLETE) {
                self.open.tally.add(Anomalies::GROUP_INCOMPLETE);
            }
            self.study.put_together(&mut self.open, now);
        }
    }

    /// Has everything that waits come out, and hands it on. The source or the worker ends.
    pub fn close(&mut self, now: Now) {
        self.come_home(now);
        self.flush(now);
        self.groups.end_all();
        self.ripen(now);
        self.flush(now);
        self.settle_positions(now);
    }

    /// Counts the parts beyond the first of what was put together, if no batch does: its events
    /// were all filtered.
    pub(super) fn post_joined(&mut self) {
        let more = self.joined.take_more();
        if more.parts > 0 {
            let counters = &self.source.counters;
            self.doors.ledger.post(|| more.accept(counters));
        }
    }

    /// Counts the parts that began to wait: they were received, and are neither accepted nor
    /// rejected yet.
    pub(super) fn post_held(&self, open: &mut OpenBatch) {
        let (events, bytes) = std::mem::take(&mut open.held);
        if events > 0 {
            let counters = &self.source.counters;
            self.doors.ledger.post(|| {
                counters.received.add(events);
                counters.received_bytes.add(bytes);
                counters.held.add(events);
            });
        }
    }
}
