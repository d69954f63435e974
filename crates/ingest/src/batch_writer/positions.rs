//! Positions of a source's streams on their way into the log, in the order of the batches.
//!
//! A position must not be in the log before an event that was read before it. So it goes with the
//! batch of what was read, or one behind it, and waits while a part of an event waits that was
//! read before it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use inrush_event::{PositionList, StreamPosition, instant_now, limits};

use super::BatchWriter;
use super::open_batch::OpenBatch;
use crate::classification::MultilineAssembler;
use crate::now::Now;

/// Positions for which no event comes wait so long for a batch that they can go with.
const POSITION_LINGER: Duration = Duration::from_secs(1);

/// Batches whose positions wait for parts of events, one by one; later ones wait together.
const HELD_MAX: usize = 64;

/// Positions of batches that were handed on, which have not gone into the log.
#[derive(Default)]
pub(super) struct WaitingPositions {
    /// These go with the next batch that has an event.
    kept: PositionList,
    /// Those of later batches, each with the number of the last part of an event that had come
    /// then: they wait for every group that had begun.
    held: VecDeque<(u64, PositionList)>,
    /// Time since which positions wait and nothing has gone into the log.
    since: Option<Instant>,
}

impl WaitingPositions {
    /// Takes those of the next batch in order, and lets go what no group holds any more.
    fn take_in(&mut self, own: PositionList, groups: &MultilineAssembler) {
        if !own.is_empty() {
            let crowded = self.held.len() >= HELD_MAX;
            match self.held.back_mut() {
                None if groups.is_empty() => self.kept.append(own),
                Some((part, held)) if crowded => {
                    *part = groups.last_part();
                    held.append(own);
                }
                _ => self.held.push_back((groups.last_part(), own)),
            }
        }
        if self.held.is_empty() {
            return;
        }
        let first = groups.first_part().unwrap_or(u64::MAX);
        while let Some((_, free)) = self.held.pop_front_if(|(part, _)| *part < first) {
            self.kept.append(free);
        }
    }

    fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.held.is_empty()
    }
}

impl BatchWriter {
    /// Notes that a stream of the source was read so far: `state` is durable with the open batch
    /// at the latest when a batch behind it is, and never before an event that came before. It
    /// counts in place of what was noted of the stream before; an empty one forgets the stream. One
    /// of more than [`limits::POSITION_BYTES_MAX`] bytes is a fault of the source: it is logged,
    /// and not noted.
    ///
    /// A stream belongs to one writer at a time. Who moves it to another one calls [`Self::flush`]
    /// and [`Self::settle_positions`] first.
    pub fn note_position(&mut self, stream: u64, state: Vec<u8>) {
        let bytes = state.len();
        if !self.open.builder.note_position(stream, state.into()) {
            let source = &self.source.name;
            tracing::error!(
                source,
                stream,
                bytes,
                "a position is too long, and not noted"
            );
            return;
        }
        if self.waiting.since.is_none() {
            self.waiting.since = Some(instant_now());
        }
    }

    /// Time at which positions have waited long enough for an event to go with. Those that wait
    /// for parts of events or for other cores come with these.
    pub(super) fn positions_due(&self) -> Option<Instant> {
        let since = self.waiting.since?;
        let waits = !self.waiting.kept.is_empty() || !self.open.builder.positions().is_empty();
        waits.then_some(since + POSITION_LINGER)
    }

    /// Takes the positions of a batch that is handed on in its turn.
    pub(super) fn take_positions(&mut self, open: &mut OpenBatch) {
        let own = open.builder.take_positions();
        self.wait_for_batch(own);
    }

    /// Takes positions that are in their turn, and whose batch has no event.
    pub(super) fn wait_for_batch(&mut self, own: PositionList) {
        if own.is_empty() && self.waiting.is_empty() {
            return;
        }
        self.waiting.take_in(own, &self.groups);
    }

    /// The positions that go with a batch of events.
    pub(super) fn positions_to_go(&mut self, now: Now) -> Option<Arc<[StreamPosition]>> {
        self.waiting.since.as_ref()?;
        let kept = std::mem::take(&mut self.waiting.kept);
        self.wait_from(now);
        kept.freeze()
    }

    /// Ends the wait for positions that went into the log.
    fn wait_from(&mut self, now: Now) {
        let more = !self.waiting.is_empty()
            || !self.open.builder.positions().is_empty()
            || self.away.is_waited_for();
        self.waiting.since = more.then_some(now.instant);
    }

    /// Takes back the positions of a batch that the queue had no room for: its events have their
    /// fate.
    pub(super) fn take_back_positions(&mut self, refused: &[StreamPosition], now: Now) {
        let mut earlier: PositionList = refused.iter().cloned().collect();
        earlier.append(std::mem::take(&mut self.waiting.kept));
        self.waiting.kept = earlier;
        self.waiting.since.get_or_insert(now.instant);
    }

    /// Has positions that have waited long enough go into the log without an event.
    pub(super) fn let_positions_go(&mut self, now: Now) {
        let due = self.positions_due().is_some_and(|due| due <= now.instant);
        if due || self.waiting.kept.bytes() >= limits::BATCH_POSITION_BYTES {
            self.append_kept(now);
        }
    }

    /// Has all positions go into the log that need not wait for an event: those of batches that
    /// were handed on, unless other cores still study one.
    pub fn settle_positions(&mut self, now: Now) {
        self.wait_for_batch(PositionList::default());
        self.append_kept(now);
    }

    fn append_kept(&mut self, now: Now) {
        if let Some(positions) = std::mem::take(&mut self.waiting.kept).freeze() {
            // Once it is closed, what came before may have been refused too.
            let _ = self
                .doors
                .log
                .append_positions(&self.settings.info, positions);
        }
        self.wait_from(now);
    }
}
