//! Connections that are answered: when they are read, answered and closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use inrush_event::instant_now;
use inrush_ingest::batch_writer::BatchWriter;
use inrush_ingest::batch_writer::acks::{AckTarget, AppendOutcome};
use inrush_ingest::now::Now;
use inrush_queue::{DurableHook, Log};
use inrush_transport::stream::{EndReason, StreamRead};
use mio::{Events, Waker};
use slab::Slab;

use super::super::connection;
use super::{ConnectionSlot, PendingClose, StreamLoop};

/// Time that a connection which is not read any more may take until all is answered.
const CLOSING_MAX: Duration = Duration::from_secs(10);

/// Time that a worker which stops waits for what it appended to be durable and answered.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// The position that a worker waits for which waits for none.
const NONE: u64 = u64::MAX;

/// Has the log wake a worker once the batch at the position is durable that it waits for.
pub(super) fn wake_when_durable(
    log: &Arc<Log>,
    waker: &Arc<Waker>,
) -> (Arc<AtomicU64>, DurableHook) {
    let awaited = Arc::new(AtomicU64::new(NONE));
    let (position, waker) = (Arc::clone(&awaited), Arc::clone(waker));
    let hook = log.on_durable(Arc::new(move |durable_end| {
        if position.load(Ordering::SeqCst) < durable_end
            && let Err(error) = waker.wake()
        {
            tracing::error!(%error, "cannot wake a stream worker");
        }
    }));
    (awaited, hook)
}

/// Reason that a connection which is answered has to end at `now`, if it has to.
pub(super) fn overdue(slot: &ConnectionSlot, now: Instant) -> Option<EndReason> {
    let debt = slot.state.decoder.answering()?;
    if let Some(closing) = &slot.closing {
        let reason = closing.reason.unwrap_or(EndReason::RelpUnanswered);
        return (now >= closing.deadline).then_some(reason);
    }
    if !debt.is_open() && now >= slot.open_by {
        return Some(EndReason::HandshakeTimeout);
    }
    debt.overdue(now)
}

/// The connection of that serial number, if it is still there.
fn slot_of(slots: &mut Slab<ConnectionSlot>, id: AckTarget) -> Option<&mut ConnectionSlot> {
    let slot = slots.get_mut(id.key)?;
    let debt = slot.state.decoder.answering()?;
    (debt.id() == id).then_some(slot)
}

impl StreamLoop {
    /// One turn of a connection that is answered: write, read once, write.
    pub(super) fn serve(&mut self, key: usize, now: Now) {
        if !self.pump(key) {
            return;
        }
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        let Some(debt) = slot.state.decoder.answering_mut() else {
            return;
        };
        if slot.closing.is_some() {
            return;
        }
        slot.paused = debt.is_full();
        if slot.paused {
            return;
        }
        if !debt.may_read() {
            return self.look_again(key);
        }
        let filler = &mut self.fillers[slot.filler];
        let (connection, state) = (&mut slot.connection, &mut slot.state);
        let outcome = connection::read(filler, connection, state, &mut self.cipher, now);
        if matches!(outcome, StreamRead::Data(_) | StreamRead::Drained(_)) {
            slot.last_data = now.instant;
        }
        let debt = slot.state.decoder.answering();
        if debt.is_some_and(|debt| !debt.is_clear()) {
            self.gathering.came(&mut slot.gathered);
        }
        let ended = debt.and_then(|debt| debt.end());
        let at_end = debt.and_then(|debt| debt.fault_at_end());
        let again = matches!(outcome, StreamRead::Data(_))
            || (matches!(outcome, StreamRead::Drained(_)) && slot.hang_up);
        slot.peer_closed |= matches!(outcome, StreamRead::Closed);
        self.look_again(key);
        match outcome {
            StreamRead::Failed(reason) => return self.close(key, Some(reason)),
            _ if ended.is_some() => {
                let fault = ended.flatten();
                self.begin_close(key, fault, fault.is_some(), now);
            }
            StreamRead::Closed => self.begin_close(key, at_end, false, now),
            StreamRead::Data(_) | StreamRead::Drained(_) | StreamRead::Blocked if again => {
                self.mark_ready(key, false);
            }
            StreamRead::Data(_) | StreamRead::Drained(_) | StreamRead::Blocked => {}
        }
        self.pump(key);
    }

    /// Reads no more; ends the connection when all is answered.
    pub(super) fn begin_close(
        &mut self,
        key: usize,
        reason: Option<EndReason>,
        hint: bool,
        now: Now,
    ) {
        if let Some(slot) = self.slots.get_mut(key)
            && slot.closing.is_none()
        {
            slot.closing = Some(PendingClose {
                reason,
                hint,
                deadline: now.instant + CLOSING_MAX,
            });
        }
    }

    /// Answers what has become durable, and asks to be woken for the rest.
    pub(super) fn settle(&mut self) {
        let was_behind = self.is_behind();
        while self.fillers.iter().any(|filler| filler.owed().is_waiting()) {
            for key in self.spread(self.doors.log.durable_end()) {
                self.pump(key);
            }
            let waits_for = |filler: &BatchWriter| filler.owed().waits_for();
            let Some(position) = self.fillers.iter().filter_map(waits_for).min() else {
                break;
            };
            // First the position, then the look: who advances the end does it the other way round.
            self.awaited.store(position, Ordering::SeqCst);
            if self.doors.log.durable_end() <= position {
                return;
            }
        }
        self.awaited.store(NONE, Ordering::SeqCst);
        // What was held because this was on its way is held for its siblings alone.
        if let Some(until) = self.held_until.as_mut().filter(|_| was_behind) {
            let now = instant_now();
            *until = self.gathering.holds(false, now).unwrap_or(now);
        }
    }

    /// Gives the acks below `durable_end` to their connections; the keys of those.
    fn spread(&mut self, durable_end: u64) -> Vec<usize> {
        let mut keys = Vec::new();
        let now = instant_now();
        for filler in &mut self.fillers {
            while let Some(handed) = filler.next_due(durable_end) {
                let refused = handed.outcome == AppendOutcome::Refused;
                if matches!(handed.outcome, AppendOutcome::At(_)) {
                    self.gathering.committed(now);
                }
                for ack in &handed.acks {
                    let Some(slot) = slot_of(&mut self.slots, ack.target) else {
                        continue;
                    };
                    if let Some(debt) = slot.state.decoder.answering_mut() {
                        debt.settle(ack, refused);
                    }
                    self.gathering.answered(&mut slot.gathered);
                    if !std::mem::replace(&mut slot.touched, true) {
                        keys.push(ack.target.key);
                    }
                }
            }
        }
        keys
    }

    /// Writes what a connection has coming, and ends it if that was the last; whether it lives.
    fn pump(&mut self, key: usize) -> bool {
        let Some(slot) = self.slots.get_mut(key) else {
            return false;
        };
        let Some(debt) = slot.state.decoder.answering_mut() else {
            return true;
        };
        slot.touched = false;
        if slot.lingering.is_some() {
            return true;
        }
        let mut outcome = debt.pump(&mut slot.connection);
        if let Some(reason) = debt.end() {
            // Perhaps with the answer that was just written.
            slot.closing.get_or_insert_with(|| PendingClose {
                reason,
                hint: reason.is_some(),
                deadline: instant_now() + CLOSING_MAX,
            });
        }
        if let Some(closing) = &mut slot.closing
            && closing.hint
            && debt.is_clear()
            && outcome.is_ok()
        {
            closing.hint = false;
            debt.hint();
            outcome = debt.pump(&mut slot.connection);
        }
        let closing = slot.closing.as_ref();
        if let Err(reason) = outcome {
            let reason = closing.and_then(|closing| closing.reason).or(Some(reason));
            self.close(key, reason);
            return false;
        }
        if let Some(closing) = closing
            && debt.is_clear()
            && debt.is_drained(&slot.connection)
        {
            let reason = closing.reason;
            self.linger(key, reason);
            return false;
        }
        let goes_on = slot.paused && !debt.is_full();
        slot.paused &= !goes_on;
        slot.state.note_held(None);
        if goes_on {
            self.mark_ready(key, false);
        }
        true
    }

    /// Before the worker ends: answers what becomes durable within [`LAST_ANSWERS`], and says to
    /// every peer that waits for answers that we go.
    pub(super) fn answer_last(&mut self, events: &mut Events) {
        let deadline = instant_now() + LAST_ANSWERS;
        loop {
            self.settle();
            let keys = self.answering_keys();
            let drained = keys
                .into_iter()
                .filter(|key| !self.is_drained(*key))
                .count()
                == 0;
            let waiting = self.fillers.iter().any(|filler| filler.owed().is_waiting());
            let left = deadline.saturating_duration_since(instant_now());
            if (drained && !waiting) || left.is_zero() {
                break;
            }
            if self.poll.poll(events, Some(left)).is_err() {
                break;
            }
        }
        for key in self.answering_keys() {
            if let Some(slot) = self.slots.get_mut(key)
                && let Some(debt) = slot.state.decoder.answering_mut()
            {
                debt.hint();
                // The last word: that the peer does not take it changes nothing.
                let _ = debt.pump(&mut slot.connection);
                slot.connection.finish();
            }
        }
        self.discard_last();
    }

    fn answering_keys(&self) -> Vec<usize> {
        let is_answered =
            |(_, slot): &(usize, &ConnectionSlot)| slot.state.decoder.answering().is_some();
        self.slots
            .iter()
            .filter(is_answered)
            .map(|(key, _)| key)
            .collect()
    }

    /// Writes what the connection takes; whether that was all.
    fn is_drained(&mut self, key: usize) -> bool {
        let lives = self.pump(key);
        let slot = self.slots.get(key).filter(|_| lives);
        slot.is_none_or(|slot| {
            let debt = slot.state.decoder.answering();
            debt.is_none_or(|debt| debt.is_drained(&slot.connection))
        })
    }
}
