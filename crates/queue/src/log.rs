//! Write-ahead log of the process: append, destination cursors, settlement, durability.
//!
//! # What it guarantees
//! * A refused batch is counted nowhere. An accepted one is posted to all its counters at once.
//! * A position below [`Log::durable_end`] is as durable as the mode promises.
//! * Sources and sinks wait here; the threads of the log wait in `aside`.
//!
//! # States
//! [`Log::close`] ends an open log: appends fail, and feeds close after the backlog.
//! [`Log::attach`] opens a cursor. [`Log::detach`] keeps it for a while, or removes it at once.
//!
//! # After a crash
//! [`Log::open`] finds segments and cursors again. A destination without its cursor file begins
//! with the oldest event, so some events may come twice.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use inrush_event::{
    Batch, BatchPool, DestinationCounters, DestinationQueue, DropReason, Fate, FeedNext, Ledger,
    Timestamp, WallClock, instant_now, steady,
};

use crate::QueueOptions;
use crate::arrival::IncomingBatch;
use crate::cursor::Cursor;
use crate::cursor_file::CursorPosition;
use crate::durable::{DurableCallback, DurableHook, DurableHooks};
use crate::feed::DestinationFeed;
use crate::format::LogId;
use crate::keeper::CheckpointStore;
use crate::meta::CursorEntry;
use crate::on_disk::{OnDisk, Stall};
use crate::position_store::PositionStore;
use crate::reader::{SegmentRead, SegmentReader};
use crate::recover::recover;
use crate::state::{CursorSlot, LogState, TakeResult};
use crate::storage::{DiskStorage, Storage};
use crate::writer::SegmentWriter;

/// Reason why a batch was not taken; none of its events was counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AppendError {
    /// The queue is full and its policy is `WhenFull::DropNewest`.
    Full,
    /// The queue has been closed.
    Closed,
}

/// Terms on which a batch is appended.
#[derive(Clone, Copy, Debug, Default)]
pub struct AppendTerms {
    /// Time for which its events gathered before: it waits that much less for others, so that all
    /// that trickles in is written within 50 ms too.
    pub gathered: Duration,
    /// True if it is to be made durable at once, because someone waits for it.
    pub urgent: bool,
    /// True if the sender of each of its events keeps it until it is answered. While nothing else
    /// comes, the process may end before it has written what it took.
    pub kept: bool,
    /// True if there was room ([`Log::has_room`]) when its events were read: it does not wait, and
    /// may go beyond the budget by itself.
    pub admitted: bool,
}

/// The queue at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueLevels {
    /// Bytes that queued batches pin in memory.
    pub bytes: u64,
    /// The budget for them.
    pub bytes_max: u64,
    /// Batches in memory.
    pub batches: usize,
    /// Bytes of the segments on disk.
    pub disk_bytes: u64,
    /// The budget for them, as far as the disk has room for it; 0 without a disk.
    pub disk_bytes_max: u64,
    /// Configured budget for them, or the one that follows from the size of the disk. It does not
    /// depend on the room that there is now; 0 without a disk.
    pub disk_budget: u64,
    /// Segments on disk.
    pub segments: usize,
    /// Reason why nothing is written, if so.
    pub stall: Option<Stall>,
}

/// Findings of recovery at the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoverySummary {
    /// Segments that can be read.
    pub segments: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Files that were put aside.
    pub aside: Vec<String>,
    /// Destinations with events of an earlier process, and how many.
    pub pending: Vec<(String, u64)>,
}

/// One log for the process.
pub struct Log {
    /// Guards everything below the ledger; taken once a batch. Order: a cursor's file, then this,
    /// then the ledger gate. Never held over a read, a write or a sync of a file; a reader opens
    /// its next segment under it.
    state: Mutex<LogState>,
    /// Room was made, or the log was closed.
    pub(crate) room: Condvar,
    /// Something was appended, read or put back, or the log or a feed was closed.
    pub(crate) arrival: Condvar,
    /// The writer has something to do.
    pub(crate) work: Condvar,
    pub(crate) ledger: Arc<Ledger>,
    /// Files beside the segments: places of cursors, `log.json`, bad ranges.
    pub(crate) keeper: Option<CheckpointStore>,
    /// Positions of sources' streams.
    pub(crate) noted: PositionStore,
    /// The system clock, under watch.
    pub(crate) clock: Mutex<WallClock>,
    hooks: Arc<DurableHooks>,
    opened: RecoverySummary,
    pool: Arc<BatchPool>,
}

impl Log {
    /// A log in memory whose destination side is posted to `ledger`.
    pub fn new(options: QueueOptions, ledger: Arc<Ledger>) -> Arc<Self> {
        Self::of_memory(options, ledger, PositionStore::nowhere(LogId::random()))
    }

    /// A log in memory beside these positions.
    pub(crate) fn of_memory(
        options: QueueOptions,
        ledger: Arc<Ledger>,
        noted: PositionStore,
    ) -> Arc<Self> {
        let first = noted.table().complete_to;
        let mut state = LogState::new(options, first, 0);
        state.log = LogId::random().public_name();
        let opened = RecoverySummary::default();
        Arc::new(Self::around(state, ledger, None, noted, opened))
    }

    /// The log in `folder`, with whatever an earlier process left there. It puts bad segments
    /// aside and deletes cursor files that were left behind. No event is written before
    /// [`Self::start`]; [`Self::attach`] writes the places and names of cursors before that.
    ///
    /// # Errors
    /// The folder cannot be created or read.
    pub fn open(
        folder: &Path,
        options: QueueOptions,
        ledger: Arc<Ledger>,
    ) -> io::Result<Arc<Self>> {
        let disk = DiskStorage::open(folder)?;
        Self::open_on(Arc::new(disk), options, ledger, LogId::random())
    }

    /// The log in a storage; a new one is called `fresh`.
    ///
    /// # Errors
    /// The storage cannot be read.
    pub fn open_on(
        storage: Arc<dyn Storage>,
        options: QueueOptions,
        ledger: Arc<Ledger>,
        fresh: LogId,
    ) -> io::Result<Arc<Self>> {
        let found = recover(&storage, fresh)?;
        let id = found.meta.id;
        let mut state = LogState::new(options, found.position, found.event);
        (state.log, state.epoch) = (id.public_name(), found.meta.epoch);
        let first_event = found.segments.first_event().unwrap_or(found.event);
        let keeper = CheckpointStore::new(Arc::clone(&storage), &found.meta, found.orphaned);
        let mut pending = Vec::new();
        for cursor in found.cursors {
            let counters = ledger.destination(&cursor.known.name);
            // Without its file, a destination begins with the oldest event: that may repeat some.
            let place = cursor.place.unwrap_or(CursorPosition {
                next_event: first_event,
                unsettled: Vec::new(),
            });
            let restored = Cursor::restored(
                Arc::clone(&counters),
                &place,
                found.event,
                &found.meta.not_durable,
            );
            let events = restored.pending(found.event);
            ledger.post(|| {
                counters.accepted.add(events);
                counters.pending.add(events);
            });
            pending.push((cursor.known.name.clone(), events));
            keeper.adopt(&cursor.known.name, cursor.file);
            state.slots.push(CursorSlot {
                cursor: restored,
                reader: Some(keeper.reader()),
                reading: false,
                advanced_at: None,
                read_again_at: None,
                abandoned_since: cursor.known.abandoned_since,
                placed: true,
                queue: DestinationQueue::default(),
                kept_bytes: 0,
                front: 0,
                turns_away: false,
                holds_up: false,
            });
        }
        pending.retain(|(_, events)| *events > 0);
        let opened = RecoverySummary {
            segments: found.segments.0.len(),
            bytes: found.segments.bytes(),
            aside: found.aside,
            pending,
        };
        let noted = PositionStore::new(Arc::clone(&storage), &found.meta, found.positions);
        let writer = SegmentWriter::new(storage, id, found.meta.epoch, found.serial);
        state.disk = Some(OnDisk::new(found.segments, writer, found.position));
        state.measure_backlogs();
        let log = Self::around(state, ledger, Some(keeper), noted, opened);
        Ok(Arc::new(log))
    }

    fn around(
        state: LogState,
        ledger: Arc<Ledger>,
        keeper: Option<CheckpointStore>,
        noted: PositionStore,
        opened: RecoverySummary,
    ) -> Self {
        let kept = keeper.as_ref();
        let pool = kept.map_or_else(BatchPool::new, |keeper| Arc::clone(&keeper.pool));
        // When the last segment was begun, an earlier process had the time.
        let segments = state.disk.as_ref().map(|disk| &disk.segments.0);
        let newest = segments.and_then(|segments| segments.last());
        let newest = newest.map(|last| last.header.created);
        let newest = newest.filter(|created| *created <= Timestamp::now());
        let newest = newest.map(|created| (created, false));
        Self {
            state: Mutex::new(state),
            room: Condvar::new(),
            arrival: Condvar::new(),
            work: Condvar::new(),
            ledger,
            keeper,
            noted,
            clock: Mutex::new(WallClock::new(newest, Timestamp::now(), steady())),
            hooks: Arc::default(),
            opened,
            pool,
        }
    }

    /// Returns what recovery found at the start.
    pub fn opened(&self) -> &RecoverySummary {
        &self.opened
    }

    /// Pool of memory for batches; what is read back comes from there too.
    pub fn pool(&self) -> Arc<BatchPool> {
        Arc::clone(&self.pool)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, LogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes budgets and policy. Whether there is a disk at all stays as it was at the start.
    pub fn reconfigure(&self, options: QueueOptions) {
        self.lock().options = options;
        self.room.notify_all();
        self.work.notify_all();
    }

    /// True if batches are written to a disk.
    pub fn has_disk(&self) -> bool {
        self.keeper.is_some()
    }

    /// Appends a batch and returns its position. An urgent batch is made durable at once, because
    /// someone waits for it. `accept` posts the source's side of the ledger; it runs inside the
    /// same posting as the destinations' side.
    ///
    /// Under `WhenFull::Block` it waits for room. Under every policy, a batch that backlogs have
    /// room for waits while an earlier one has had no round for longer than `EXPOSED_MAX`, 40 ms.
    /// It is refused instead if all its destinations drop the newest and the log is stalled. Under
    /// `WhenFull::DropOldest` it also waits while batches that are not durable fill the memory of a
    /// log on disk.
    ///
    /// # Errors
    /// If the batch was not taken; `accept` was not run then.
    pub fn append(
        &self,
        batch: Batch,
        urgent: bool,
        accept: impl FnOnce(),
    ) -> Result<u64, AppendError> {
        let terms = AppendTerms {
            urgent,
            kept: urgent,
            ..AppendTerms::default()
        };
        self.append_on(batch, terms, accept)
    }

    /// The same on further terms.
    ///
    /// # Errors
    /// As [`Self::append`] says.
    pub fn append_on(
        &self,
        batch: Batch,
        terms: AppendTerms,
        accept: impl FnOnce(),
    ) -> Result<u64, AppendError> {
        let AppendTerms {
            gathered, urgent, ..
        } = terms;
        let arrival = IncomingBatch::new(batch, gathered).kept(terms.kept);
        let mut freed = Vec::new();
        let mut state = self.lock();
        let mut waits = false;
        let admitted = loop {
            let now = Some(instant_now());
            let admitted = self.admit(&mut state, &arrival, now, &mut freed);
            if let Some(admitted) = admitted {
                break admitted;
            }
            if terms.admitted {
                break Ok(());
            }
            if !std::mem::replace(&mut waits, true) {
                state.block();
            }
            self.work.notify_one();
            state = self
                .room
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        };
        if waits {
            state.unblock();
        }
        admitted?;
        let now = instant_now();
        let since = arrival.since(now);
        let batch = Arc::clone(&arrival.batch);
        let position = self.take_in(&mut state, arrival, urgent, now, accept);
        // In memory, or with no destination that has room for it.
        let answered = urgent && position < state.durable_end();
        let wake_writer = state.must_wake_writer(position, urgent, since, now);
        let later = match &mut state.disk {
            Some(disk) if disk.holds(position, &batch) => {
                disk.has_held = true;
                true
            }
            Some(disk) if !urgent && !gathered.is_zero() && disk.will_announce() => {
                disk.unannounced = true;
                true
            }
            _ => false,
        };
        drop(state);
        if !later {
            self.arrival.notify_all();
        }
        if wake_writer {
            self.work.notify_one();
        }
        if answered {
            self.wake_waiters();
        }
        drop(freed);
        Ok(position)
    }

    /// Every batch at a position below is as durable as the mode promises.
    pub fn durable_end(&self) -> u64 {
        self.lock().durable_end()
    }

    /// Has `wake` called whenever more became durable, with [`Self::durable_end`], until the hook
    /// is dropped.
    pub fn on_durable(&self, wake: DurableCallback) -> DurableHook {
        self.hooks.add(wake)
    }

    pub(crate) fn wake_waiters(&self) {
        self.hooks.call(self.durable_end());
    }

    /// Opens a destination's cursor: the one that it left, in this process or an earlier one, or a
    /// new one at the end of the log. Only one feed of a destination may be in use at a time.
    pub fn attach(self: &Arc<Self>, counters: &Arc<DestinationCounters>) -> Arc<DestinationFeed> {
        let name = &counters.name;
        let mut state = self.lock();
        let known = match state.slot(name) {
            Some(slot) => {
                slot.abandoned_since = None;
                state.reclaim_slot(name, Instant::now(), &self.ledger);
                true
            }
            None => {
                let reader = self.keeper.as_ref().map(CheckpointStore::reader);
                state.add_slot(counters, reader);
                false
            }
        };
        if let Some(keeper) = &self.keeper {
            if !known && keeper.orphaned {
                self.give_everything(&mut state, name);
            }
            keeper.cursors_changed();
            drop(state);
            if known {
                keeper.keep_found(name);
            }
            // If it fails, the next round tries again before it writes anything.
            let _ = self.remember(keeper);
        }
        Arc::new(DestinationFeed::new(Arc::clone(self), counters))
    }

    /// Puts a new cursor before the oldest event: nobody knows any more whose the events were.
    fn give_everything(&self, state: &mut LogState, name: &str) {
        let end = state.next_event;
        let first = state
            .disk
            .as_ref()
            .and_then(|disk| disk.segments.first_event());
        let first = first.unwrap_or(end);
        if let Some(slot) = state.slot(name) {
            slot.cursor.next = 0;
            slot.cursor.next_event = first;
            let counters = Arc::clone(&slot.cursor.counters);
            self.ledger.post(|| {
                counters.accepted.add(end - first);
                counters.pending.add(end - first);
            });
        }
    }

    /// Writes down whose cursors there are, once each has a place.
    pub(crate) fn remember(&self, keeper: &CheckpointStore) -> io::Result<()> {
        self.place_new(keeper)?;
        keeper.remember(|| Self::known(&self.lock()))
    }

    /// Makes the places of new destinations durable. One that was named without a place would
    /// begin with the oldest event after a crash, with what came before it was there; and what was
    /// never written, for those who were there had it, it would count as lost.
    fn place_new(&self, keeper: &CheckpointStore) -> io::Result<()> {
        let new = {
            let state = self.lock();
            let new = state.slots.iter().filter(|slot| !slot.placed);
            let names = new.map(|slot| slot.cursor.counters.name.clone());
            names.collect::<Vec<_>>()
        };
        for name in new {
            let placed = keeper.place(&name, || {
                let mut state = self.lock();
                let cursor = &mut state.slot(&name)?.cursor;
                cursor.moved = false;
                Some(cursor.place())
            });
            if let Err(error) = placed {
                tracing::warn!(destination = name, %error, "queue: a cursor cannot be saved");
                return Err(error);
            }
            if let Some(slot) = self.lock().slot(&name) {
                slot.placed = true;
            }
        }
        Ok(())
    }

    /// `None` while a new one has no durable place.
    fn known(state: &LogState) -> Option<Vec<CursorEntry>> {
        let known = |slot: &CursorSlot| {
            slot.placed.then(|| CursorEntry {
                name: slot.cursor.counters.name.clone(),
                abandoned_since: slot.abandoned_since,
            })
        };
        state.slots.iter().map(known).collect()
    }

    /// A destination is not configured any more. On disk its events are kept for
    /// [`QueueOptions::abandoned_after`]; in memory, and where none is left, its cursor goes and
    /// what is pending counts as dropped.
    pub fn detach(&self, name: &str, reason: DropReason) {
        let mut state = self.lock();
        let end = state.next_event;
        let keeps = state.disk.is_some();
        let Some(slot) = state.slot(name) else {
            return;
        };
        slot.cursor.attached = false;
        if keeps && (reason == DropReason::Shutdown || slot.cursor.pending(end) > 0) {
            if reason != DropReason::Shutdown {
                let now = Timestamp::now().0 / 1_000_000_000;
                slot.abandoned_since.get_or_insert(now);
            }
        } else {
            if reason == DropReason::Shutdown {
                state.forget_notes();
            }
            self.remove(&mut state, name, reason);
        }
        drop(state);
        if let Some(keeper) = &self.keeper {
            keeper.cursors_changed();
            self.forget_removed(keeper, &[name.to_owned()]);
        }
        self.room.notify_all();
    }

    /// Deletes the files of cursors, as far as they are removed, once it is written down that they
    /// are: a file that is left behind means nothing then.
    pub(crate) fn forget_removed(&self, keeper: &CheckpointStore, names: &[String]) {
        if self.remember(keeper).is_err() {
            return;
        }
        for name in names {
            keeper.forget(name, || self.lock().slot(name).is_none());
        }
    }

    pub(crate) fn remove(&self, state: &mut LogState, name: &str, reason: DropReason) {
        if let Some((slot, dropped, _freed)) = state.remove_slot(name) {
            self.ledger
                .post(|| slot.cursor.post_dropped(dropped, reason));
        }
    }

    /// The destinations that have a cursor.
    pub fn names(&self) -> Vec<String> {
        let state = self.lock();
        let name = |slot: &CursorSlot| slot.cursor.counters.name.clone();
        state.slots.iter().map(name).collect()
    }

    /// Takes no more batches; feeds run dry and then close. Waiting appends fail.
    pub fn close(&self) {
        self.lock().closed = true;
        self.room.notify_all();
        self.arrival.notify_all();
        self.work.notify_all();
    }

    /// Waits until nothing is pending at a destination that is attached, at most until `deadline`;
    /// says whether it is so. On disk nothing is lost by going: there the wait also ends when
    /// nothing was settled for a second.
    pub fn wait_empty(&self, deadline: Instant) -> bool {
        const PATIENCE: Duration = Duration::from_secs(1);
        let pending = |state: &LogState| -> u64 {
            let attached = state.slots.iter().filter(|slot| slot.cursor.attached);
            attached
                .map(|slot| slot.cursor.pending(state.next_event))
                .sum()
        };
        let mut state = self.lock();
        let (mut left, mut since) = (pending(&state), Instant::now());
        while left > 0 {
            let now = Instant::now();
            let patience = since + PATIENCE;
            let until = if state.disk.is_some() {
                deadline.min(patience)
            } else {
                deadline
            };
            let Some(wait) = until.checked_duration_since(now).filter(|w| !w.is_zero()) else {
                return false;
            };
            state = self
                .room
                .wait_timeout(state, wait.min(PATIENCE / 10))
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            let now_left = pending(&state);
            if now_left < left {
                (left, since) = (now_left, Instant::now());
            }
        }
        true
    }

    /// The queue now.
    pub fn levels(&self) -> QueueLevels {
        let state = self.lock();
        let disk = state.disk.as_ref();
        QueueLevels {
            bytes: state.bytes,
            bytes_max: state.options.memory_bytes_max(),
            batches: state.batches(),
            disk_bytes: disk.map_or(0, |disk| disk.segments.bytes()),
            disk_bytes_max: disk.map_or(0, |_| state.room_bytes()),
            disk_budget: disk.map_or(0, |_| state.options.disk_bytes()),
            segments: disk.map_or(0, |disk| disk.segments.0.len()),
            stall: disk.and_then(|disk| disk.stall.clone()),
        }
    }

    /// Writes the receive time of the oldest pending event of each destination to its counters.
    /// For events on disk that is when their segment was begun.
    pub fn measure_oldest(&self) {
        let state = self.lock();
        for slot in &state.slots {
            let pending = slot.cursor.pending(state.next_event) > 0;
            let on_disk = || {
                let segments = &state.disk.as_ref()?.segments;
                let index = segments.index_of_event(slot.cursor.next_event);
                Some(segments.0.get(index)?.header.created.0)
            };
            let in_memory = || state.received_at(slot.cursor.next);
            let oldest = pending.then(|| {
                slot.cursor
                    .oldest_in_hand()
                    .or_else(in_memory)
                    .or_else(on_disk)
            });
            let counter = &slot.cursor.counters.oldest_pending_ns;
            counter.set(oldest.flatten().unwrap_or(0).max(0) as u64);
        }
    }

    pub(crate) fn wake_feeds(&self) {
        self.arrival.notify_all();
    }

    /// One step towards the next delivery: either an answer, or a read of the disk after which it
    /// is to be asked again (`None`).
    pub(crate) fn try_next(&self, name: &str, now: Instant) -> Option<TakeResult> {
        let taken = self.lock().take(name, now, &self.ledger);
        match taken {
            TakeResult::Read(reader) => self.read(name, *reader, now),
            other => Some(other),
        }
    }

    fn read(&self, name: &str, mut reader: SegmentReader, now: Instant) -> Option<TakeResult> {
        let aim = {
            let mut state = self.lock();
            let from_event = state.slot(name).map(|slot| slot.cursor.next_event);
            let memory = state.memory_start();
            let disk = state.disk.as_ref()?;
            let from_event = from_event.unwrap_or(u64::MAX);
            let is_complete = reader.aim(&disk.segments, disk.durable_end, from_event);
            ReadTarget {
                from_event,
                is_complete,
                memory,
            }
        };
        let turn = self.noted.turn();
        let read = reader.next(aim.from_event);
        let read = self.trusted(turn, &mut reader, aim.from_event, read);
        if let Some(keeper) = &self.keeper {
            keeper.note_bad(reader.take_bad());
        }
        let mut state = self.lock();
        let index = state.give_back(name, reader)?;
        let slot = &mut state.slots[index];
        slot.read_again_at = None;
        let taken = match read {
            Ok(SegmentRead::Batch(old)) => state
                .hand_out(index, old, now, &self.ledger)
                .map(TakeResult::Delivery),
            Ok(SegmentRead::End) => {
                match slot.reader.as_mut().filter(|_| aim.is_complete) {
                    Some(reader) => reader.leave(),
                    None => state.go_on_in_memory(index, aim.memory, &self.ledger),
                }
                None
            }
            Err(_) => {
                slot.read_again_at = Some(now + READ_RETRY);
                None
            }
        };
        drop(state);
        self.arrival.notify_all();
        taken
    }

    pub(crate) fn next(&self, feed: &DestinationFeed, wait: Duration) -> FeedNext {
        let deadline = Instant::now() + wait;
        loop {
            if feed.is_stopping() {
                return FeedNext::Closed;
            }
            let now = Instant::now();
            let due = match self.try_next(feed.name(), now) {
                None => continue,
                Some(TakeResult::Delivery(delivery)) => return FeedNext::Batch(delivery),
                Some(TakeResult::Gone) => return FeedNext::Closed,
                Some(TakeResult::NothingUntil(due)) => due,
                Some(TakeResult::Held(due)) => Some(due.unwrap_or(deadline)),
                Some(TakeResult::Busy | TakeResult::Read(_)) => Some(deadline),
            };
            let mut state = self.lock();
            if state.closed && due.is_none() {
                return FeedNext::Closed;
            }
            let until = due.map_or(deadline, |due| due.min(deadline));
            let Some(left) = until
                .checked_duration_since(now)
                .filter(|left| !left.is_zero())
            else {
                return FeedNext::Idle;
            };
            // Between the look and this lock something may have come.
            if state.has_more(feed.name(), now) {
                continue;
            }
            state = self
                .arrival
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            drop(state);
        }
    }

    pub(crate) fn settle(
        &self,
        name: &str,
        position: u64,
        events: Range<u32>,
        fate: &Fate,
        now: Instant,
    ) -> Option<Arc<Batch>> {
        let mut state = self.lock();
        if let Fate::RetryAfter(delay) = fate {
            let kept = state
                .slot(name)
                .is_none_or(|slot| slot.cursor.put_back(position, events.clone(), now, *delay));
            if kept {
                drop(state);
                self.arrival.notify_all();
                return None;
            }
        }
        // It made room while it was in flight, and there is nothing to try again.
        let given_up = Fate::Dropped(DropReason::QueueFull);
        let fate = match fate {
            Fate::RetryAfter(_) => &given_up,
            other => other,
        };
        // Nothing: the destination was taken away, or the events were given up meanwhile; they are
        // counted.
        let freed = state.settle(name, position, &events, fate, &self.ledger);
        let (blocked, stalled) = (state.blocked > 0, state.is_stalled());
        let stalled = stalled && blocked;
        drop(state);
        if blocked || freed.as_ref().is_some_and(|freed| freed.len() > 1) {
            self.room.notify_all();
        }
        if stalled {
            // What is settled need not be written, and then there is room.
            self.work.notify_one();
        }
        let settled = freed?.into_iter().next();
        self.save_cursor(name);
        settled
    }

    /// Writes a destination's place down, unless another thread just did.
    pub(crate) fn save_cursor(&self, name: &str) {
        let Some(keeper) = &self.keeper else { return };
        keeper.save(name, |stale| {
            let mut state = self.lock();
            let cursor = &mut state.slot(name)?.cursor;
            (std::mem::take(&mut cursor.moved) || stale).then(|| cursor.place())
        });
    }
}

/// Delay before a disk that failed a read is asked again.
const READ_RETRY: Duration = Duration::from_millis(250);

/// Target of a read from disk.
struct ReadTarget {
    from_event: u64,
    /// True if nothing will ever be added to the segment.
    is_complete: bool,
    /// Position and first event of the memory when the read began.
    memory: (u64, u64),
}
