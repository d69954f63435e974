//! The backlog of each destination: how much room it keeps, and what makes room.
//!
//! A destination keeps the pieces of the log that hold an event without a fate there: segments on
//! disk, batches in memory. What a policy drops is dropped for one destination; others still get
//! it. Where all is used up though no backlog is too large, the oldest piece goes that only
//! destinations keep which drop the oldest, or which are not configured any more.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use inrush_event::{Batch, DestinationQueue, DropReason, Ledger, limits};

use crate::WhenFull;
use crate::arrival::IncomingBatch;
use crate::log::Log;
use crate::mutant::{Mutant, is_on};
use crate::segments::Segment;
use crate::state::{CursorSlot, LogState};

/// The room that a destination may use which drops events and has no limit of its own, in quarters
/// of the whole: the rest is for the others.
const SHARE_QUARTERS: u64 = 3;

/// The backlog of one destination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DestinationBacklog {
    /// The destination.
    pub destination: String,
    /// Bytes of the log that it keeps, of disk if there is one.
    pub bytes: u64,
    /// Most bytes that it may keep: its own limit, or that of the queue.
    pub bytes_max: u64,
    /// Policy for events that come once it is full.
    pub when_full: WhenFull,
    /// True if it holds up sources, or less than a hundredth of its room is left, or than a full
    /// batch while sources wait. While nothing is written for want of room, half of its room is
    /// enough.
    pub full: bool,
    /// True if it is not configured any more.
    pub abandoned: bool,
}

/// Answer of the destinations that a batch is for, before it comes in.
pub(crate) enum AdmissionDecision {
    /// At least one has room.
    Room,
    /// One has none, and has the sources wait.
    Wait,
    /// None has room. `counted`: a destination counts it as dropped.
    Nobody { counted: bool },
}

impl LogState {
    pub(crate) fn when_full(&self, slot: &CursorSlot) -> WhenFull {
        match slot.abandoned_since {
            Some(_) => WhenFull::DropOldest,
            None => slot.queue.when_full.unwrap_or(self.options.when_full),
        }
    }

    /// True if nothing can be written for want of room.
    fn is_stalled_full(&self) -> bool {
        let stall = self.disk.as_ref().and_then(|disk| disk.stall.as_ref());
        stall.is_some_and(|stall| stall.full)
    }

    /// Bytes that all destinations together may keep.
    pub(crate) fn room_bytes(&self) -> u64 {
        match &self.disk {
            // Before the disk was looked at, none beyond its own.
            Some(disk) if self.options.spare_bytes.is_some() && disk.room_bytes < u64::MAX => {
                disk.room_bytes
            }
            _ => self.own_bytes(),
        }
    }

    /// The same, without what the log may take beyond its own.
    fn own_bytes(&self) -> u64 {
        match &self.disk {
            Some(disk) => disk.room_bytes.min(self.options.disk_bytes()),
            None => self.options.memory_bytes_max(),
        }
    }

    /// Most bytes that a backlog may keep; `None`: whatever there is.
    fn limit(&self, slot: &CursorSlot) -> Option<u64> {
        if is_on(Mutant::BudgetIgnored) || slot.abandoned_since.is_some() {
            return None;
        }
        let own = slot.queue.max_bytes.map(|bytes| bytes.0);
        let share = |whole: u64| whole / 4 * SHARE_QUARTERS;
        match (self.when_full(slot), own) {
            (WhenFull::Block, own) => own,
            (_, Some(own)) => Some(own.min(share(self.room_bytes()))),
            // It stops nobody, so it need not go beyond.
            (_, None) => Some(share(self.own_bytes())),
        }
    }

    /// The pieces of the log from the one with this event on: their events, and their bytes.
    fn pieces(&self, from: u64) -> Box<dyn Iterator<Item = (Range<u64>, u64)> + '_> {
        let Some(disk) = &self.disk else {
            let pieces = (0..self.batches()).map(|index| self.piece_in_memory(index));
            return Box::new(pieces.skip_while(move |(events, _)| events.end <= from));
        };
        let segments = &disk.segments.0;
        let first = disk.segments.index_of_event(from).min(segments.len());
        let written_end = self.event_at(disk.durable_end);
        let ends = segments.iter().skip(first + 1);
        let ends = ends.map(|next| next.header.base_event);
        let starts = segments[first..].iter();
        let written = starts
            .zip(ends.chain(Some(written_end)))
            .map(|(segment, end)| (segment.header.base_event..end, segment.bytes));
        let unwritten = (written_end..self.next_event, disk.unwritten_bytes);
        Box::new(written.chain(Some(unwritten)))
    }

    /// Bytes that a destination keeps now.
    fn kept_bytes(&self, slot: &CursorSlot) -> u64 {
        let kept = slot.cursor.kept(self.pieces(slot.cursor.floor()));
        kept.map(|(_, bytes)| bytes).sum()
    }

    /// Counts anew what each destination keeps; between, what comes is added.
    pub(crate) fn measure_backlogs(&mut self) {
        for index in 0..self.slots.len() {
            self.measure_backlog(index);
        }
    }

    fn measure_backlog(&mut self, index: usize) {
        let bytes = self.kept_bytes(&self.slots[index]);
        let front = self.front(&self.slots[index]);
        let slot = &mut self.slots[index];
        (slot.kept_bytes, slot.front) = (bytes, front);
    }

    /// Mark that changes when a destination passes a piece of the log: serial of the segment with
    /// its oldest unsettled event. Without a disk, or without a segment, it is the number of that
    /// event.
    fn front(&self, slot: &CursorSlot) -> u64 {
        let floor = slot.cursor.floor();
        let Some(disk) = &self.disk else { return floor };
        let index = disk.segments.index_of_event(floor);
        let segment = disk.segments.0.get(index);
        segment.map_or(floor, |segment| segment.header.serial)
    }

    /// True if a batch of so many bytes is too much for a destination. What it keeps is counted
    /// anew only if it seems too much and a piece was passed: for one that stands still, nothing
    /// here grows with its backlog.
    fn is_over(&mut self, index: usize, bytes: u64) -> bool {
        let Some(limit) = self.limit(&self.slots[index]) else {
            return false;
        };
        let over = |slot: &CursorSlot| slot.kept_bytes > 0 && slot.kept_bytes + bytes > limit;
        if over(&self.slots[index]) && self.front(&self.slots[index]) != self.slots[index].front {
            self.measure_backlog(index);
        }
        over(&self.slots[index])
    }

    /// Bytes that a batch takes of what the limits are for.
    pub(crate) fn cost(&self, arrival: &IncomingBatch) -> u64 {
        match self.disk {
            Some(_) => arrival.disk_bytes,
            None => arrival.memory_bytes,
        }
    }

    /// Asks the destinations that a batch is for; those that turn it away are marked. One that is
    /// sent again from quarantine is always taken.
    pub(crate) fn ask(&mut self, arrival: &IncomingBatch) -> AdmissionDecision {
        let (bytes, again) = (self.cost(arrival), arrival.batch.only().is_some());
        let (mut takers, mut away, mut own) = (0, 0, false);
        for index in 0..self.slots.len() {
            let slot = &mut self.slots[index];
            (slot.turns_away, slot.holds_up) = (false, false);
            if again || !self.slots[index].cursor.is_meant(&arrival.batch) {
                continue;
            }
            match self.when_full(&self.slots[index]) {
                WhenFull::Block if self.is_over(index, bytes) => {
                    self.slots[index].holds_up = true;
                    return AdmissionDecision::Wait;
                }
                WhenFull::DropNewest if self.is_over(index, bytes) => {
                    let slot = &mut self.slots[index];
                    slot.turns_away = true;
                    own |= slot.queue.when_full.is_some();
                    away += 1;
                }
                _ => takers += 1,
            }
        }
        match takers == 0 && away > 0 {
            true => AdmissionDecision::Nobody { counted: own },
            false => AdmissionDecision::Room,
        }
    }

    /// Share of its room that the fullest destination uses which holds up sources.
    pub(crate) fn fill(&self) -> f64 {
        let blocks = |slot: &&CursorSlot| self.when_full(slot) == WhenFull::Block;
        let share = |slot: &CursorSlot| {
            let limit = self.limit(slot).unwrap_or_else(|| self.room_bytes());
            slot.kept_bytes as f64 / limit.max(1) as f64
        };
        let shares = self.slots.iter().filter(blocks).map(share);
        shares.fold(0.0, f64::max).min(1.0)
    }

    /// True if a full batch for all destinations would be taken at `now`.
    pub(crate) fn has_room(&mut self, now: Instant) -> bool {
        let bytes = limits::BATCH_FLUSH_BYTES as u64;
        let holds = |index: usize, state: &mut Self| {
            state.when_full(&state.slots[index]) == WhenFull::Block && state.is_over(index, bytes)
        };
        if (0..self.slots.len()).any(|index| holds(index, self)) {
            return false;
        }
        let drops = self
            .slots
            .iter()
            .any(|slot| self.when_full(slot) != WhenFull::Block);
        let written = match &self.disk {
            Some(_) => self.memory_start().0 < self.durable_end(),
            None => drops,
        };
        let pinned = limits::ARENA_BYTES as u64;
        let fits = self.bytes + pinned <= self.options.memory_bytes_max();
        !self.is_late(now) && (fits || written || self.batches() == 0)
    }

    /// True if all destinations that a batch is for drop the newest.
    pub(crate) fn all_drop_newest(&self, batch: &Batch) -> bool {
        let meant = self.slots.iter().filter(|slot| slot.cursor.is_meant(batch));
        let mut policies = meant.map(|slot| self.when_full(slot)).peekable();
        let whole = policies.peek().is_none() && self.options.when_full == WhenFull::DropNewest;
        whole || policies.peek().is_some() && policies.all(|one| one == WhenFull::DropNewest)
    }

    /// A sink has ended, and another takes what it left. What made room meanwhile is dropped.
    pub(crate) fn reclaim_slot(&mut self, name: &str, now: Instant, ledger: &Ledger) {
        let Some(slot) = self.slot(name) else { return };
        let (dropped, gone) = slot.cursor.reclaim(now);
        ledger.post(|| slot.cursor.post_dropped(dropped, DropReason::QueueFull));
        for position in gone {
            drop(self.settled_position(position));
        }
    }

    /// Has those destinations give up their oldest that drop the oldest and have no room.
    pub(crate) fn make_way(
        &mut self,
        arrival: &IncomingBatch,
        ledger: &Ledger,
        freed: &mut Vec<Arc<Batch>>,
    ) {
        let bytes = self.cost(arrival);
        for index in 0..self.slots.len() {
            let drops = self.when_full(&self.slots[index]) == WhenFull::DropOldest;
            let meant = drops && self.slots[index].cursor.is_meant(&arrival.batch);
            while meant && self.is_over(index, bytes) {
                let Some(events) = self.oldest_piece(index) else {
                    break;
                };
                for other in 0..self.slots.len() {
                    if other == index || is_on(Mutant::DropForOthers) {
                        self.give_up(other, &events, ledger, freed);
                    }
                }
                self.measure_backlog(index);
            }
        }
    }

    /// The oldest piece that a destination keeps and could do without: not what is being written.
    fn oldest_piece(&self, index: usize) -> Option<Range<u64>> {
        let cursor = &self.slots[index].cursor;
        let mut kept = cursor.kept(self.pieces(cursor.floor()));
        let (oldest, _) = kept.next()?;
        let complete = match &self.disk {
            None => true,
            Some(disk) => {
                let last = disk.segments.0.last();
                last.is_some_and(|last| oldest.end <= last.header.base_event)
            }
        };
        complete.then_some(oldest)
    }

    /// A destination gives up its events of a piece of the log, and counts them.
    pub(crate) fn give_up(
        &mut self,
        index: usize,
        events: &Range<u64>,
        ledger: &Ledger,
        freed: &mut Vec<Arc<Batch>>,
    ) {
        let awaited = self.awaited(index, events);
        let slot = &mut self.slots[index];
        let reason = slot.drop_reason();
        let (dropped, done) = slot.cursor.give_up(events);
        ledger.post(|| slot.cursor.post_dropped(dropped, reason));
        for position in awaited.into_iter().chain(done) {
            freed.extend(self.settled_position(position));
        }
    }

    /// Positions in memory with events that the destination is still to be handed out.
    fn awaited(&self, index: usize, events: &Range<u64>) -> Vec<u64> {
        let cursor = &self.slots[index].cursor;
        let (first, _) = self.memory_start();
        let from = cursor.next.max(first);
        (from..self.end())
            .map(|position| {
                (
                    position,
                    self.piece_in_memory((position - first) as usize).0,
                )
            })
            .take_while(|(_, batch)| batch.start < events.end)
            .filter(|(_, batch)| batch.start >= events.start && cursor.awaits(batch))
            .map(|(position, _)| position)
            .collect()
    }

    /// Has the first segment given up that only destinations keep which drop the oldest. It is
    /// taken out of the log at once where no other has a cursor that a power cut could set back;
    /// else it goes as all that nobody keeps, and until that is done no other is given up.
    fn take_oldest_droppable(&mut self, ledger: &Ledger, covered: &[u64]) -> Option<Segment> {
        let drops = |slot: &CursorSlot| self.when_full(slot) == WhenFull::DropOldest;
        let all_drop = self.slots.iter().all(drops);
        if !all_drop && !self.unneeded_segments().is_empty() {
            return None;
        }
        let segments = &self.disk.as_ref()?.segments.0;
        let is_droppable = |events: &Range<u64>| {
            let mut keepers = self.slots.iter().filter(|slot| slot.cursor.keeps(events));
            keepers.all(drops)
        };
        let pairs = segments.iter().zip(segments.iter().skip(1));
        let events = pairs.map(|(one, next)| one.header.base_event..next.header.base_event);
        let (at, events) = events
            .enumerate()
            .find(|(_, events)| is_droppable(events))?;
        // Its positions come first.
        covered
            .contains(&segments.get(at)?.header.serial)
            .then_some(())?;
        for index in 0..self.slots.len() {
            self.give_up(index, &events, ledger, &mut Vec::new());
        }
        let disk = self.disk.as_mut()?;
        if let Some(stall) = &mut disk.stall {
            stall.full = false;
        }
        all_drop.then(|| disk.segments.0.remove(at))
    }

    /// Serials of the segments that nobody keeps; the last one stays, it is being written.
    pub(crate) fn unneeded_segments(&self) -> Vec<u64> {
        let Some(disk) = &self.disk else {
            return Vec::new();
        };
        let segments = &disk.segments.0;
        // One that has nothing settled ahead keeps all that is ahead: there is no need to look.
        let ends = self
            .slots
            .iter()
            .filter_map(|slot| slot.cursor.keeps_from());
        let end = ends
            .min()
            .map_or(segments.len(), |event| disk.segments.index_of_event(event));
        let pairs = segments.iter().zip(segments.iter().skip(1)).take(end);
        let early = is_on(Mutant::DeleteKept);
        let unneeded = |(one, next): &(&Segment, &Segment)| {
            let events = one.header.base_event..next.header.base_event;
            let last = events.end.saturating_sub(1)..events.end;
            let looked_at = if early { &last } else { &events };
            !self.slots.iter().any(|slot| slot.cursor.keeps(looked_at))
        };
        pairs
            .filter(unneeded)
            .map(|(one, _)| one.header.serial)
            .collect()
    }
}

impl CursorSlot {
    /// Reason under which its events are dropped to make room.
    fn drop_reason(&self) -> DropReason {
        match self.abandoned_since {
            Some(_) => DropReason::Removed,
            None => DropReason::QueueFull,
        }
    }
}

impl Log {
    /// Limits the backlog of a destination that has a cursor.
    pub fn limit(&self, name: &str, queue: DestinationQueue) {
        if let Some(slot) = self.lock().slot(name) {
            slot.queue = queue;
        }
        self.room.notify_all();
        self.work.notify_all();
    }

    /// The backlogs of all destinations that have a cursor.
    pub fn backlogs(&self) -> Vec<DestinationBacklog> {
        let mut state = self.lock();
        state.measure_backlogs();
        let room = state.room_bytes();
        let whole = state.is_stalled_full();
        // Sources that ask for room wait for that of a full batch.
        let asked = match state.blocked {
            0 => 0,
            _ => limits::BATCH_FLUSH_BYTES as u64,
        };
        let backlog = |slot: &CursorSlot| {
            let bytes_max = state.limit(slot).unwrap_or(room);
            DestinationBacklog {
                destination: slot.cursor.counters.name.clone(),
                bytes: slot.kept_bytes,
                bytes_max,
                when_full: state.when_full(slot),
                // One more batch may be too large for the rest: a hundredth is nothing.
                full: slot.holds_up
                    || slot.kept_bytes + asked.max(bytes_max / 100) >= bytes_max
                    || whole && slot.kept_bytes >= bytes_max / 2,
                abandoned: slot.abandoned_since.is_some(),
            }
        };
        state.slots.iter().map(backlog).collect()
    }

    /// Takes out of the log the oldest segment that may be dropped, while the disk is full.
    pub(crate) fn drop_oldest_segment(&self) -> Option<Segment> {
        let is_full = |state: &LogState| {
            let disk = state.disk.as_ref()?;
            // A round that is under way was begun because there is room now.
            disk.writer.as_ref()?;
            disk.stall.as_ref().filter(|stall| stall.full)?;
            let serials = disk.segments.0.iter().map(|one| one.header.serial);
            Some(serials.collect::<Vec<u64>>())
        };
        let serials = is_full(&self.lock())?;
        let covered = self.without_positions(&serials);
        let mut state = self.lock();
        is_full(&state)?;
        state.take_oldest_droppable(&self.ledger, &covered)
    }
}
