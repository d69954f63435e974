//! Admission of a batch to the log, and its posting to the counters.

use std::sync::Arc;
use std::time::Instant;

use inrush_event::{Batch, DestinationCounters, DropReason};

use crate::arrival::IncomingBatch;
use crate::backlog::AdmissionDecision;
use crate::log::{AppendError, Log};
use crate::position_table::PositionNote;
use crate::state::{CursorSlot, LogState};

impl Log {
    /// Admits a batch at `now`, or refuses it; `None` if it has to wait. Without a time, it may
    /// come in though the writer is late: something else keeps it until it is written.
    pub(crate) fn admit(
        &self,
        state: &mut LogState,
        arrival: &IncomingBatch,
        now: Option<Instant>,
        freed: &mut Vec<Arc<Batch>>,
    ) -> Option<Result<(), AppendError>> {
        if state.closed {
            return Some(Err(AppendError::Closed));
        }
        match state.ask(arrival) {
            AdmissionDecision::Room => {}
            AdmissionDecision::Wait => return None,
            AdmissionDecision::Nobody { counted: true } => return Some(Ok(())),
            AdmissionDecision::Nobody { counted: false } => return Some(Err(AppendError::Full)),
        }
        let late = now.is_some_and(|now| state.is_late(now));
        let fits = !late && state.make_room(arrival.memory_bytes, &self.ledger, freed);
        if fits {
            state.make_way(arrival, &self.ledger, freed);
            return Some(Ok(()));
        }
        // A writer that is only late is waited for: there is room.
        let drops = state.all_drop_newest(&arrival.batch);
        (drops && (!late || state.is_stalled())).then_some(Err(AppendError::Full))
    }

    /// Takes a batch in, and posts it.
    pub(crate) fn take_in(
        &self,
        state: &mut LogState,
        arrival: IncomingBatch,
        urgent: bool,
        now: Instant,
        accept: impl FnOnce(),
    ) -> u64 {
        let batch = &arrival.batch;
        let (events, first) = (batch.len() as u64, state.next_event);
        let gone = self.gone(state, batch);
        let bytes = state.cost(&arrival);
        let is_meant = |slot: &&CursorSlot| slot.cursor.is_meant(batch);
        let meant = state.slots.iter().filter(is_meant);
        let (takers, away) = meant.fold((0, 0), |(takers, away), slot| match slot.turns_away {
            true => (takers, away + 1),
            false => (takers + 1, away),
        });
        let nobody = takers == 0 && away > 0;
        self.ledger.post(|| {
            accept();
            for counters in &gone {
                counters.accepted.add(events);
                counters.dropped(DropReason::Removed).add(events);
                counters.came_from(&batch.source().name, events);
            }
            for slot in &mut state.slots {
                if !slot.cursor.is_meant(batch) {
                    if nobody {
                        continue;
                    }
                    slot.cursor.leave_to_others(first..first + events);
                    continue;
                }
                let counters = &slot.cursor.counters;
                counters.accepted.add(events);
                if slot.turns_away {
                    counters.dropped(DropReason::QueueFull).add(events);
                } else {
                    counters.pending.add(events);
                    slot.kept_bytes += bytes;
                }
                if batch.only().is_none() {
                    counters.came_from(&batch.source().name, events);
                }
                if slot.turns_away && !nobody {
                    slot.cursor.leave_to_others(first..first + events);
                }
            }
        });
        match nobody {
            // It has its fate; what it waits behind is all that came before.
            true => {
                if let Some(note) = PositionNote::of(batch, state.end()) {
                    state.take_note(note);
                }
                state.end().saturating_sub(1)
            }
            false => state.push(arrival, takers, urgent, now),
        }
    }

    /// The destinations that routes chose for a batch and that have no cursor: a reload took them
    /// away while it was being filled, or could not open them.
    fn gone(&self, state: &LogState, batch: &Batch) -> Vec<Arc<DestinationCounters>> {
        let is_there = |name: &str| {
            let mut slots = state.slots.iter();
            slots.any(|slot| slot.cursor.counters.name == name)
        };
        let routed = batch.destinations().unwrap_or_default();
        let gone = routed.iter().filter(|name| !is_there(name));
        gone.map(|name| self.ledger.destination(name)).collect()
    }
}
