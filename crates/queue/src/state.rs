//! In-memory state of the log: recent batches, cursors, and the writer's progress on disk.
//!
//! # What it guarantees
//! * No input or output happens here.
//! * A settled and durable batch frees its memory, even behind an older unsettled batch.
//! * On a full memory, only durable batches leave a log on disk. Cursors read them there later.
//!
//! # States
//! `push` appends a batch, a round takes it (`taken_end`), `now_durable` makes it count as durable.
//! `settled_position` settles it, before or after. Without a disk, each batch is durable at once.
//!
//! # Limits
//! A batch without a round for longer than `EXPOSED_MAX` stops the appends of sources.
//! A destination without progress for `STUCK_AFTER` keeps no durable batch in memory.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use inrush_event::{
    Batch, Delivery, DestinationCounters, DestinationQueue, Fate, Ledger, Timestamp, limits,
};

use crate::arrival::IncomingBatch;
use crate::cursor::{Cursor, LossCounts, NextDelivery};
use crate::gathering::LINGER;
use crate::mutant::{Mutant, is_on};
use crate::on_disk::OnDisk;
use crate::position_table::{PositionNote, add_note};
use crate::reader::{OldBatch, SegmentReader};
use crate::rounds::RECLAIM_EVERY;
use crate::writer::PendingBatch;
use crate::{Durability, QueueOptions, WhenFull};

/// A destination that has taken nothing for this long reads from disk when it comes back.
const STUCK_AFTER: Duration = Duration::from_secs(1);

/// Longest wait of an accepted batch for its round, before sources may append nothing more: what
/// the end of the process takes came within this time. Longer than
/// [`LINGER`], so that nobody waits where the disk keeps up.
const EXPOSED_MAX: Duration = Duration::from_millis(40);

/// The same where senders keep all batches that wait: they are lost to nobody, but the disk hangs.
const KEPT_MAX: Duration = Duration::from_millis(250);

/// Durable notes that wait for the table, before those of a source become one.
const NOTES_MAX: usize = 4096;

/// Batches that gather come so often, so that the writer can look by itself.
const PACE: Duration = Duration::from_millis(40);

/// A batch near the end of the log.
struct LogEntry {
    /// `None` once every cursor has settled it and it needs not be written any more, though an
    /// older one may still be waited for.
    batch: Option<Arc<Batch>>,
    /// Bytes of memory that it pins.
    bytes: u64,
    /// Bytes that it takes on disk.
    disk_bytes: u64,
    first_event: u64,
    /// Time at which it was accepted.
    came: Instant,
    /// Since when it counts as waiting to be written: this one, or what came behind it and had
    /// gathered for long.
    since: Instant,
    /// Cursors that have not settled all of it.
    waiting: usize,
    /// Its sender waits for it to be durable.
    urgent: bool,
    /// Positions that count once it is durable.
    notes: Vec<PositionNote>,
}

/// A cursor and what belongs to it.
pub(crate) struct CursorSlot {
    pub(crate) cursor: Cursor,
    /// Reader for batches that have left the memory; taken while someone reads.
    pub(crate) reader: Option<SegmentReader>,
    pub(crate) reading: bool,
    /// Time at which it last took a batch that it had not had before.
    pub(crate) advanced_at: Option<Instant>,
    /// Time at which a disk that did not answer is asked again.
    pub(crate) read_again_at: Option<Instant>,
    /// Since when its destination is not configured: seconds since 1970.
    pub(crate) abandoned_since: Option<i64>,
    /// True if its first place is durable, or an earlier process has named it: before, it is not
    /// named in `log.json`.
    pub(crate) placed: bool,
    /// The limits of its backlog.
    pub(crate) queue: DestinationQueue,
    /// Bytes of the log that it keeps: counted now and then, and added to between.
    pub(crate) kept_bytes: u64,
    /// Mark of its backlog's front when these bytes were counted (`LogState::front`).
    pub(crate) front: u64,
    /// True if it has no room for the batch that is being taken in.
    pub(crate) turns_away: bool,
    /// True if sources wait because it has no room.
    pub(crate) holds_up: bool,
}

pub(crate) struct LogState {
    /// The log's public name, see [`BatchOrigin::log`].
    pub(crate) log: u64,
    /// Of this process.
    pub(crate) epoch: u32,
    /// Position of `entries[0]`.
    first: u64,
    entries: VecDeque<LogEntry>,
    /// Number of the next event.
    pub(crate) next_event: u64,
    pub(crate) bytes: u64,
    pub(crate) options: QueueOptions,
    pub(crate) slots: Vec<CursorSlot>,
    pub(crate) closed: bool,
    pub(crate) disk: Option<OnDisk>,
    /// Positions that became durable and are not in the table.
    pub(crate) durable_notes: Vec<PositionNote>,
    /// True if batches were written without a sync since the table was last written.
    pub(crate) wrote_unsynced: bool,
    /// Appends that wait for room, and since when there was at least one.
    pub(crate) blocked: usize,
    pub(crate) blocked_since: Timestamp,
}

/// Result of [`LogState::take`]: a delivery, or the reason why there is none now.
pub(crate) enum TakeResult {
    Delivery(Delivery),
    /// Nothing to hand out; something that was put back is due then.
    NothingUntil(Option<Instant>),
    /// The next batch is not durable yet; something that was put back is due then.
    Held(Option<Instant>),
    /// It is on disk: this reader finds it.
    Read(Box<SegmentReader>),
    /// Another thread is reading.
    Busy,
    Gone,
}

impl LogState {
    pub(crate) fn new(options: QueueOptions, position: u64, event: u64) -> Self {
        Self {
            log: 0,
            epoch: 0,
            first: position,
            entries: VecDeque::new(),
            next_event: event,
            bytes: 0,
            options,
            slots: Vec::new(),
            closed: false,
            disk: None,
            durable_notes: Vec::new(),
            wrote_unsynced: false,
            blocked: 0,
            blocked_since: Timestamp::NONE,
        }
    }

    /// Front of the memory: a position, and the number of its first event.
    pub(crate) fn memory_start(&self) -> (u64, u64) {
        let front = self.entries.front();
        (
            self.first,
            front.map_or(self.next_event, |entry| entry.first_event),
        )
    }

    /// Nothing more below `to` is on disk: what the cursor still lacks there is lost.
    pub(crate) fn go_on_in_memory(&mut self, index: usize, to: (u64, u64), ledger: &Ledger) {
        let cursor = &mut self.slots[index].cursor;
        cursor.next = cursor.next.max(to.0);
        let lost = cursor.lose_to(to.1);
        if lost != LossCounts::default() {
            ledger.post(|| cursor.post_lost(lost));
        }
    }

    /// Position behind the last batch.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// True if nothing can be written at the moment.
    pub(crate) fn is_stalled(&self) -> bool {
        let disk = self.disk.as_ref();
        disk.is_some_and(|disk| disk.stall.is_some())
    }

    /// True if a batch has waited for its round for longer than [`EXPOSED_MAX`], or, where senders
    /// keep all those that wait and nothing fails, [`KEPT_MAX`].
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        let Some(disk) = &self.disk else {
            return false;
        };
        let exposed = disk.unkept_end > disk.taken_end || disk.stall.is_some();
        let max = if exposed { EXPOSED_MAX } else { KEPT_MAX };
        let first = self.entry(disk.taken_end);
        first.is_some_and(|first| now.saturating_duration_since(first.came) > max)
    }

    /// Time at which the oldest batch in memory was accepted.
    pub(crate) fn oldest_came(&self) -> Option<Instant> {
        self.entries.front().map(|entry| entry.came)
    }

    /// The events of the batch at this place in memory, and the bytes that it pins.
    pub(crate) fn piece_in_memory(&self, index: usize) -> (Range<u64>, u64) {
        let start = |index| {
            self.entries
                .get(index)
                .map(|entry: &LogEntry| entry.first_event)
        };
        let events = start(index).unwrap_or(self.next_event);
        let end = start(index + 1).unwrap_or(self.next_event);
        (
            events..end,
            self.entries.get(index).map_or(0, |entry| entry.bytes),
        )
    }

    /// Number of the first event at a position in memory or at the end.
    pub(crate) fn event_at(&self, position: u64) -> u64 {
        self.entry(position)
            .map_or(self.next_event, |entry| entry.first_event)
    }

    pub(crate) fn batches(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn durable_end(&self) -> u64 {
        self.disk
            .as_ref()
            .map_or(self.end(), |disk| disk.durable_end)
    }

    pub(crate) fn block(&mut self) {
        if !self.blocked_since.is_some() {
            self.blocked_since = Timestamp::now();
        }
        self.blocked += 1;
    }

    pub(crate) fn unblock(&mut self) {
        self.blocked -= 1;
        // Room was made for one; if others wait, their wait began anew.
        self.blocked_since = match self.blocked {
            0 => Timestamp::NONE,
            _ => Timestamp::now(),
        };
    }

    /// Makes room in memory for a batch of `bytes`, if it can be made: what is on disk may leave,
    /// and without a disk the oldest may be dropped. What leaves goes to `freed`.
    pub(crate) fn make_room(
        &mut self,
        bytes: u64,
        ledger: &Ledger,
        freed: &mut Vec<Arc<Batch>>,
    ) -> bool {
        while !self.entries.is_empty() && self.bytes + bytes > self.options.memory_bytes_max() {
            let droppable = self.disk.is_none() && self.is_front_droppable();
            if self.disk.is_some() && self.first < self.durable_end() {
                freed.extend(self.pop());
            } else if droppable {
                freed.extend(self.drop_oldest_batch(ledger));
            } else {
                return false;
            }
        }
        true
    }

    /// True if all that wait for the oldest batch drop the oldest.
    fn is_front_droppable(&self) -> bool {
        let (events, _) = self.piece_in_memory(0);
        let mut keepers = self.slots.iter().filter(|slot| slot.cursor.keeps(&events));
        keepers.all(|slot| self.when_full(slot) == WhenFull::DropOldest)
    }

    /// Appends a batch that so many cursors wait for; returns its position.
    pub(crate) fn push(
        &mut self,
        arrival: IncomingBatch,
        waiting: usize,
        urgent: bool,
        now: Instant,
    ) -> u64 {
        let position = self.end();
        let since = arrival.since(now);
        if let Some(first) = self.unbegun_mut() {
            first.since = first.since.min(since);
        }
        self.bytes += arrival.memory_bytes;
        let kept = arrival.kept;
        let (events, disk_bytes) = (arrival.batch.len() as u64, arrival.disk_bytes);
        let notes = PositionNote::of(&arrival.batch, position + 1);
        if is_on(Mutant::PositionEarly) {
            self.durable_notes.extend(notes.clone());
        }
        self.entries.push_back(LogEntry {
            batch: Some(arrival.batch),
            bytes: arrival.memory_bytes,
            disk_bytes,
            first_event: self.next_event,
            came: now,
            since,
            waiting,
            urgent,
            notes: notes.into_iter().collect(),
        });
        self.next_event += events;
        match &mut self.disk {
            Some(disk) => {
                disk.unwritten_bytes += disk_bytes;
                if urgent {
                    disk.urgent_end = position + 1;
                    disk.gathering.came();
                }
                if !kept {
                    disk.unkept_at = Some(now);
                    disk.unkept_end = position + 1;
                }
            }
            // Perhaps no destination at all: nothing to wait for.
            None => self.trim(),
        }
        position
    }

    pub(crate) fn slot(&mut self, name: &str) -> Option<&mut CursorSlot> {
        self.slots
            .iter_mut()
            .find(|slot| slot.cursor.counters.name == name)
    }

    fn entry(&self, position: u64) -> Option<&LogEntry> {
        self.entries.get(position.checked_sub(self.first)? as usize)
    }

    /// The batches to write from `position` on, up to so many bytes.
    pub(crate) fn batches_from(&self, position: u64, bytes_max: u64) -> Vec<PendingBatch> {
        let mut bytes = 0;
        (position..self.end())
            .map_while(|position| {
                let entry = self.entry(position)?;
                let batch = Arc::clone(entry.batch.as_ref()?);
                let pending = PendingBatch {
                    position,
                    first_event: entry.first_event,
                    batch,
                    note: None,
                };
                let fits = bytes < bytes_max;
                bytes += entry.disk_bytes;
                fits.then_some(pending)
            })
            .collect()
    }

    /// True if [`Self::take`] would find something now.
    pub(crate) fn has_more(&self, name: &str, now: Instant) -> bool {
        let is_it = |slot: &&CursorSlot| slot.cursor.counters.name == name;
        self.slots.iter().find(is_it).is_none_or(|slot| {
            let next = slot.cursor.next;
            let in_memory = (self.first..self.end()).contains(&next) && !self.is_held(next);
            let rests = slot.read_again_at.is_some_and(|again| again > now);
            let on_disk = next < self.first && !slot.reading && !rests;
            let due = slot.cursor.due().is_some_and(|due| due <= now);
            due || in_memory || on_disk
        })
    }

    /// True if the batch at a position is handed out only once it is durable.
    fn is_held(&self, position: u64) -> bool {
        let batch = self.entry(position).and_then(|entry| entry.batch.as_ref());
        let disk = self.disk.as_ref().zip(batch);
        disk.is_some_and(|(disk, batch)| disk.holds(position, batch))
    }

    /// Receive time of the batch at this position, if it is in memory.
    pub(crate) fn received_at(&self, position: u64) -> Option<i64> {
        let batch = self.entry(position)?.batch.as_ref()?;
        Some(batch.received().0)
    }

    /// Returns the next delivery of the destination, or the reason why there is none now.
    pub(crate) fn take(&mut self, name: &str, now: Instant, ledger: &Ledger) -> TakeResult {
        let Some(index) = self
            .slots
            .iter()
            .position(|slot| slot.cursor.counters.name == name)
        else {
            return TakeResult::Gone;
        };
        loop {
            let slot = &mut self.slots[index];
            let mut position = match slot.cursor.pick(now) {
                NextDelivery::Again(old, events) => {
                    return TakeResult::Delivery(old.delivery(self.log, events));
                }
                NextDelivery::Next(position) => position,
            };
            if position < self.first {
                if slot.reading {
                    return TakeResult::Busy;
                }
                if let Some(again) = slot.read_again_at.filter(|again| *again > now) {
                    return TakeResult::NothingUntil(Some(again));
                }
                if let Some(reader) = slot.reader.take() {
                    slot.reading = true;
                    return TakeResult::Read(Box::new(reader));
                }
                position = self.first;
            }
            let Some(entry) = self.entries.get((position - self.first) as usize) else {
                // Everything there is was handed out: what is missing will not come any more.
                let lost = slot.cursor.lose_to(self.next_event);
                if lost != LossCounts::default() {
                    ledger.post(|| slot.cursor.post_lost(lost));
                }
                return TakeResult::NothingUntil(slot.cursor.due());
            };
            let batch = entry.batch.as_ref().map(Arc::clone);
            let first_event = entry.first_event;
            let events = self.piece_in_memory((position - self.first) as usize).0;
            let slot = &mut self.slots[index];
            let Some(batch) = batch.filter(|_| slot.cursor.awaits(&events)) else {
                slot.advanced_at = Some(now);
                let lost = slot.cursor.pass(position, &events);
                ledger.post(|| slot.cursor.post_lost(lost));
                continue;
            };
            if self.is_held(position) {
                self.disk.iter_mut().for_each(|disk| disk.has_held = true);
                return TakeResult::Held(self.slots[index].cursor.due());
            }
            let old = OldBatch {
                position,
                first_event,
                epoch: self.epoch,
                batch,
            };
            if let Some(delivery) = self.hand_out(index, old, now, ledger) {
                return TakeResult::Delivery(delivery);
            }
            self.settled_position(position);
        }
    }

    /// Hands a batch to a cursor; `None` if it had settled all of it before. Events that should
    /// have come before it are lost, and counted.
    pub(crate) fn hand_out(
        &mut self,
        index: usize,
        old: OldBatch,
        now: Instant,
        ledger: &Ledger,
    ) -> Option<Delivery> {
        self.slots[index].advanced_at = Some(now);
        let cursor = &mut self.slots[index].cursor;
        if !cursor.is_meant(&old.batch) {
            // Mostly this is known and counted since the append; a restart may have forgotten it.
            let (lost, others) = cursor.pass_over(old.position, old.first_event, &old.batch);
            ledger.post(|| {
                cursor.post_lost(lost);
                cursor.counters.accepted.sub(others);
                cursor.counters.pending.sub(others);
            });
            return None;
        }
        let (events, lost) = cursor.hand_out(&old, now);
        if lost != LossCounts::default() {
            ledger.post(|| cursor.post_lost(lost));
        }
        Some(old.delivery(self.log, events?))
    }

    /// A reader has come back.
    pub(crate) fn give_back(&mut self, name: &str, reader: SegmentReader) -> Option<usize> {
        let index = self
            .slots
            .iter()
            .position(|slot| slot.cursor.counters.name == name)?;
        let slot = &mut self.slots[index];
        slot.reading = false;
        slot.reader = Some(reader);
        Some(index)
    }

    /// Reports what became of events; returns batches to be let go outside the lock, or nothing
    /// if nobody holds these events any more.
    pub(crate) fn settle(
        &mut self,
        name: &str,
        position: u64,
        events: &Range<u32>,
        fate: &Fate,
        ledger: &Ledger,
    ) -> Option<Vec<Arc<Batch>>> {
        let slot = self.slot(name)?;
        let (batch, settled, done) = slot.cursor.settle(position, events)?;
        debug_assert_eq!(settled, events.len() as u64, "an event was settled twice");
        ledger.post(|| slot.cursor.post(&batch, events, settled, fate));
        let mut freed = vec![batch];
        if done {
            freed.extend(self.settled_position(position));
        }
        Some(freed)
    }

    /// One more cursor is done with the batch at `position`. Gives the batch back, to be dropped
    /// outside the lock, if it was the last: also from behind one that is still waited for, so
    /// that a single held event does not pin all that came after it.
    pub(crate) fn settled_position(&mut self, position: u64) -> Option<Arc<Batch>> {
        let durable = position < self.durable_end();
        let index = position.checked_sub(self.first)? as usize;
        let entry = self.entries.get_mut(index)?;
        entry.waiting = entry.waiting.saturating_sub(1);
        if entry.waiting > 0 || !durable {
            return None;
        }
        self.bytes -= std::mem::take(&mut entry.bytes);
        let batch = entry.batch.take();
        self.trim();
        batch
    }

    /// Since when there is a batch that does not count as written.
    pub(crate) fn unwritten_since(&self) -> Option<Instant> {
        Some(self.entry(self.disk.as_ref()?.durable_end)?.since)
    }

    /// True if the batches from `position` on had gathered before they came.
    pub(crate) fn had_gathered(&self, position: u64) -> bool {
        let entry = self.entry(position);
        entry.is_some_and(|entry| entry.since < entry.came)
    }

    /// Time that the writer rests at `now`, if nobody wakes it; `None`: it has to go on.
    pub(crate) fn rest(&self, now: Instant) -> Option<Duration> {
        let paced = || Some(self.disk.as_ref()?.paced_at? + PACE);
        let soon = || paced()?.checked_duration_since(now);
        let rest = self.round_due_in(now, LINGER).or_else(soon);
        let rest = rest.unwrap_or(RECLAIM_EVERY).min(RECLAIM_EVERY);
        (!rest.is_zero()).then_some(rest)
    }

    /// True if the writer must be woken for the batch at `position`, which waits since then.
    pub(crate) fn must_wake_writer(
        &self,
        position: u64,
        urgent: bool,
        since: Instant,
        now: Instant,
    ) -> bool {
        let Some(disk) = &self.disk else {
            return false;
        };
        let soon = urgent || disk.unwritten_bytes >= limits::QUEUE_ROUND_BYTES;
        // A round that is under way is followed by the next one without a rest.
        let rests = disk.writer.is_some();
        let due = self.round_due_in(now, LINGER).map(|due| now + due);
        soon && rests && disk.rests_beyond(due) || disk.must_wake(position, since)
    }

    /// Notes when the writer looks by itself.
    pub(crate) fn rests_until(&mut self, wakes_at: Option<Instant>) {
        if let Some(disk) = &mut self.disk {
            disk.wakes_at = wakes_at;
        }
    }

    /// The oldest batch that nobody has begun to write.
    fn unbegun_mut(&mut self) -> Option<&mut LogEntry> {
        let place = self.disk.as_ref()?.taken_end.checked_sub(self.first)?;
        self.entries.get_mut(place as usize)
    }

    /// Number of batches that are not durable yet, below `position`, and that someone waits for.
    pub(crate) fn urgent_below(&self, position: u64) -> usize {
        let from = self.durable_end();
        let entries = (from..position).filter_map(|at| self.entry(at));
        entries.filter(|entry| entry.urgent).count()
    }

    /// Everything below `position` is durable now: what nobody waits for is let go.
    pub(crate) fn now_durable(&mut self, position: u64, now: Instant) -> Vec<Arc<Batch>> {
        let Some(disk) = &mut self.disk else {
            return Vec::new();
        };
        let from = disk.durable_end;
        disk.durable_end = position.max(from);
        disk.taken_end = disk.taken_end.max(disk.durable_end);
        let mut freed = Vec::new();
        for at in from..position {
            let Some(entry) = at
                .checked_sub(self.first)
                .and_then(|index| self.entries.get_mut(index as usize))
            else {
                continue;
            };
            disk.unwritten_bytes = disk.unwritten_bytes.saturating_sub(entry.disk_bytes);
            if !entry.notes.is_empty() {
                self.durable_notes.append(&mut entry.notes);
            }
            if entry.waiting == 0 {
                self.bytes -= std::mem::take(&mut entry.bytes);
                freed.extend(entry.batch.take());
            }
        }
        self.trim();
        self.leave_the_stuck_behind(now, &mut freed);
        freed
    }

    /// Lets go what is on disk and is kept in memory only for destinations that take nothing: they
    /// will read it. So a dead destination does not push the others' batches out of the cache.
    fn leave_the_stuck_behind(&mut self, now: Instant, freed: &mut Vec<Arc<Batch>>) {
        let advances = |slot: &&CursorSlot| {
            slot.advanced_at
                .is_some_and(|at| now.saturating_duration_since(at) < STUCK_AFTER)
        };
        let wanted = self.slots.iter().filter(advances);
        let from = wanted.map(|slot| slot.cursor.next).min();
        let to = from.unwrap_or(u64::MAX).min(self.durable_end());
        while self.first < to && !self.entries.is_empty() {
            freed.extend(self.pop());
        }
    }

    /// Position behind the batches at the front of what is unwritten that nobody waits for: they
    /// need not be written.
    pub(crate) fn needless_end(&self) -> u64 {
        let from = self.durable_end();
        let is_needed = |at: &u64| {
            let (events, _) = self.piece_in_memory((*at - self.first) as usize);
            self.entry(*at).is_some_and(|entry| entry.waiting > 0)
                || self.slots.iter().any(|slot| slot.cursor.keeps(&events))
        };
        (from..self.end()).find(is_needed).unwrap_or(self.end())
    }

    /// Position below which all positions have become durable.
    pub(crate) fn noted_end(&self) -> u64 {
        match self.disk {
            Some(_) => self.durable_end(),
            None => self.first,
        }
    }

    /// Takes positions that came behind all that is here.
    pub(crate) fn take_note(&mut self, note: PositionNote) {
        const WITH_BATCH_MAX: usize = 16;
        let waits = note.end > self.noted_end();
        match self.entries.back_mut() {
            Some(last) if waits => add_note(&mut last.notes, note, WITH_BATCH_MAX),
            _ => add_note(&mut self.durable_notes, note, NOTES_MAX),
        }
    }

    /// Positions that count once everything below `position` does.
    pub(crate) fn notes_below(&self, position: u64) -> Vec<PositionNote> {
        let entries = (self.noted_end()..position).filter_map(|at| self.entry(at));
        entries
            .flat_map(|entry| entry.notes.iter().cloned())
            .collect()
    }

    /// Forgets the positions of what is not settled: it is about to be dropped, and is read again.
    pub(crate) fn forget_notes(&mut self) {
        self.entries
            .iter_mut()
            .for_each(|entry| entry.notes.clear());
    }

    /// Removes settled entries from the front.
    fn trim(&mut self) {
        while self
            .entries
            .front()
            .is_some_and(|entry| entry.waiting == 0 && self.first < self.durable_end())
        {
            self.pop();
        }
    }

    fn pop(&mut self) -> Option<Arc<Batch>> {
        let entry = self.entries.pop_front()?;
        self.first += 1;
        self.bytes -= entry.bytes;
        if !entry.notes.is_empty() {
            // In memory: on disk they have counted since it was durable.
            for note in entry.notes {
                add_note(&mut self.durable_notes, note, NOTES_MAX);
            }
        }
        entry.batch
    }

    fn drop_oldest_batch(&mut self, ledger: &Ledger) -> Option<Arc<Batch>> {
        let (events, _) = self.piece_in_memory(0);
        let mut freed = Vec::new();
        let before = self.first;
        for index in 0..self.slots.len() {
            self.give_up(index, &events, ledger, &mut freed);
        }
        // With the last who waited for it, it has gone already.
        match self.first == before {
            true => self.pop(),
            false => freed.pop(),
        }
    }

    /// Takes a cursor away. Returns how many events it leaves without a fate, and the batches that
    /// nobody else waits for.
    pub(crate) fn remove_slot(&mut self, name: &str) -> Option<(CursorSlot, u64, Vec<Arc<Batch>>)> {
        let index = self
            .slots
            .iter()
            .position(|slot| slot.cursor.counters.name == name)?;
        let slot = self.slots.swap_remove(index);
        let pending = slot.cursor.pending(self.next_event);
        let mut waited: Vec<u64> = slot.cursor.held().collect();
        let ahead = slot.cursor.next.max(self.first)..self.end();
        let awaits = |at: &u64| {
            let (events, _) = self.piece_in_memory((*at - self.first) as usize);
            slot.cursor.awaits(&events)
        };
        waited.extend(ahead.filter(awaits));
        let freed = waited
            .into_iter()
            .filter_map(|position| self.settled_position(position))
            .collect();
        Some((slot, pending, freed))
    }

    /// Adds a cursor in front of everything that comes from now on.
    pub(crate) fn add_slot(
        &mut self,
        counters: &Arc<DestinationCounters>,
        reader: Option<SegmentReader>,
    ) {
        let cursor = Cursor::new(Arc::clone(counters), self.end(), self.next_event);
        self.slots.push(CursorSlot {
            cursor,
            reader,
            reading: false,
            advanced_at: None,
            read_again_at: None,
            abandoned_since: None,
            placed: false,
            queue: DestinationQueue::default(),
            kept_bytes: 0,
            front: 0,
            turns_away: false,
            holds_up: false,
        });
    }

    /// Time that batches which came during a sync may wait before they are written; `None`: there
    /// is nothing.
    pub(crate) fn ahead_due_in(&self, now: Instant, linger: Duration) -> Option<Duration> {
        let since = self.entry(self.disk.as_ref()?.taken_end)?.since;
        let due = if self.blocked > 0 {
            now
        } else {
            since + linger
        };
        Some(due.saturating_duration_since(now))
    }

    /// Time that the writer may wait before it begins a round at `now`; `None`: until something
    /// comes.
    pub(crate) fn round_due_in(&self, now: Instant, linger: Duration) -> Option<Duration> {
        let disk = self.disk.as_ref()?;
        let since = self.unwritten_since()?;
        let soon =
            disk.unwritten_bytes >= limits::QUEUE_ROUND_BYTES || self.blocked > 0 || self.closed;
        let urgent = disk.urgent_end > disk.durable_end;
        let due = match urgent {
            _ if soon => now,
            true if self.options.durability == Durability::Fsync && disk.all_kept(now) => disk
                .gathering
                .holds_until()
                .map_or(now, |until| until.max(now)),
            true => now,
            false => since + linger,
        };
        let due = disk.retry_at.map_or(due, |retry| retry.max(due));
        Some(due.saturating_duration_since(now))
    }
}
