//! Group commit: rounds that write batches to the log together, and the reclaim of old segments.
//!
//! # What it guarantees
//! * One round at a time is under way, because it owns the `SegmentWriter`.
//! * A round waits for senders that come back after the last one (`gathering`): half a round at
//!   most.
//! * A settled segment is deleted after a sync of all cursors, so a power cut loses no event.
//!
//! # States
//! [`Log::begin_round`] gives a [`CommitRound`], [`CommitRound::write`] a [`WrittenRound`], its
//! sync a [`FinishedRound`]. [`Log::finish_round`] ends the round. A stalled log tries again after
//! `RETRY`.
//!
//! # Limits
//! A round takes about [`limits::QUEUE_ROUND_BYTES`]. A batch waits up to `LINGER` for others.
//! A new segment begins after an eighth of the smallest disk budget, or after
//! [`limits::QUEUE_SEGMENT_BYTES`], if that is less.

use std::io;
use std::time::{Duration, Instant};

use inrush_event::{ByteSize, DropReason, Timestamp, limits};

use crate::gathering::LINGER;
use crate::keeper::CheckpointStore;
use crate::log::Log;
use crate::mutant::{Mutant, is_on};
use crate::on_disk::{OnDisk, Stall};
use crate::segments::Segment;
use crate::state::LogState;
use crate::writer::{
    CommitOptions, CommitOutcome, PendingBatch, SegmentChange, SegmentSync, SegmentWriter,
};
use crate::{Durability, QueueOptions};

/// Delay before a disk that failed is tried again.
const RETRY: Duration = Duration::from_millis(250);

/// Time between two searches for segments to delete, where no thread of its own does that. The
/// writer rests no longer either.
pub(crate) const RECLAIM_EVERY: Duration = Duration::from_millis(500);

/// The budget of disk is at least so many segments.
const SEGMENTS_MIN: u64 = 8;

/// Batches on their way to the disk.
pub struct CommitRound {
    writer: SegmentWriter,
    batches: Vec<PendingBatch>,
    manner: CommitOptions,
}

/// A round whose batches are written and, in `fsync` mode, not durable.
pub struct WrittenRound {
    writer: SegmentWriter,
    outcome: CommitOutcome,
    manner: CommitOptions,
    sync: Option<SegmentSync>,
    /// True if there is no room to write more.
    crowded: bool,
}

/// A round that was done.
pub struct FinishedRound {
    writer: SegmentWriter,
    outcome: CommitOutcome,
}

impl CommitRound {
    /// Writes the batches.
    #[must_use]
    pub fn write(mut self) -> WrittenRound {
        let mut outcome = CommitOutcome::from(&self.batches);
        let sync = self.writer.write(&self.batches, self.manner, &mut outcome);
        WrittenRound {
            writer: self.writer,
            outcome,
            manner: self.manner,
            sync,
            crowded: false,
        }
    }
}

impl WrittenRound {
    /// True if the writer may sync in its own thread.
    pub(crate) fn may_wait(&self) -> bool {
        self.manner.all_kept
    }

    /// True if nothing more can be written before the sync is done.
    pub(crate) fn is_ahead_full(&self) -> bool {
        self.crowded || self.writer.is_ahead_full(self.manner)
    }

    /// Takes note of how the sync went.
    pub(crate) fn finish_sync(&mut self, sync: &SegmentSync, synced: io::Result<()>) {
        self.writer.finish_sync(sync, synced, &mut self.outcome);
    }

    /// The end of the round.
    pub(crate) fn done(self) -> FinishedRound {
        FinishedRound {
            writer: self.writer,
            outcome: self.outcome,
        }
    }
}

/// Bytes that the log may take: its budget, as far as the disk has room for it. `held`: bytes that
/// it takes now.
fn room_bytes(options: &QueueOptions, held: u64, space: Option<(u64, u64)>) -> u64 {
    let reserve = |total: u64| options.reserve_bytes.0.min(total / 20);
    let room = space.map(|(free, total)| held + free.saturating_sub(reserve(total)));
    let budget = options.budget(held, space.map(|(free, _)| free));
    room.unwrap_or(u64::MAX).min(budget)
}

/// Bytes of the batches at a position and behind it.
fn bytes_from(batches: &[PendingBatch], position: u64) -> u64 {
    let behind = batches.iter().filter(|batch| batch.position >= position);
    behind.map(PendingBatch::bytes).sum()
}

/// A size for people, to the nearest MiB.
fn whole_mib(bytes: u64) -> ByteSize {
    const MIB: u64 = 1 << 20;
    ByteSize(bytes.saturating_add(MIB / 2) / MIB * MIB)
}

/// Bytes that the log takes.
#[derive(Clone, Copy, Default)]
struct DiskUsage {
    /// Its segments.
    held: u64,
    /// All that is not durable.
    waits: u64,
    /// Of that, what is not in a file.
    unwritten: u64,
}

/// The reason why what is to come cannot be written, if so. `space`: free and whole, of the disk,
/// in bytes.
/// The words stay the same while it lasts: they are logged when they change.
fn lacks_room(
    options: &QueueOptions,
    taken: DiskUsage,
    space: Option<(u64, u64)>,
) -> Option<String> {
    let free = space.map(|(free, _)| free);
    if taken.held + taken.waits > options.budget(taken.held, free) {
        let max = options.disk_bytes();
        return Some(match options.spare_bytes {
            // Parts of a disk: a given number stays as it was written.
            Some(spare) => format!(
                "the queue has used its {} and all of the disk but the {} that it leaves free \
                 (`queue.max_bytes`)",
                whole_mib(max),
                whole_mib(spare)
            ),
            None => format!(
                "the queue has used its {} (`queue.max_bytes`)",
                ByteSize(max)
            ),
        });
    }
    let (free, total) = space?;
    let scarce = free < options.reserve_bytes.0.min(total / 20) + taken.unwritten;
    scarce.then(|| "the disk is full but for the reserve (`queue.reserve_bytes`)".to_owned())
}

impl Log {
    /// Time that the writer may rest at `now`; `None`: until something comes.
    pub fn round_due_in(&self, now: Instant) -> Option<Duration> {
        self.lock().round_due_in(now, LINGER)
    }

    /// Tells destinations of batches that they were not told of when these came.
    fn announce(&self) {
        let disk_has =
            |state: &mut LogState| Some(std::mem::take(&mut state.disk.as_mut()?.unannounced));
        if disk_has(&mut self.lock()) == Some(true) {
            self.arrival.notify_all();
        }
    }

    /// Takes what is not yet written; `None` if there is nothing, or no room for it.
    pub fn begin_round(&self, now: Instant) -> Option<CommitRound> {
        let keeper = self.keeper.as_ref()?;
        self.announce();
        if keeper.is_behind()
            && let Err(error) = self.remember(keeper)
        {
            if let Some(disk) = &mut self.lock().disk {
                stalled_by(disk, &error, now);
            }
            self.skip_needless(now);
            self.wake_after_stall();
            return None;
        }
        if let Err(error) = self.sync_found_segments() {
            if let Some(disk) = &mut self.lock().disk {
                stalled_by(disk, &error, now);
            }
            self.wake_after_stall();
            return None;
        }
        let space = self.space();
        let mut state = self.lock();
        if keeper.is_behind() {
            // A destination has come meanwhile, and may wait for what is there: asked again.
            return None;
        }
        let (options, from) = (state.options.clone(), state.durable_end());
        let batches: Vec<PendingBatch> = state.batches_from(from, limits::QUEUE_ROUND_BYTES);
        let gathered = state.had_gathered(from);
        let blocked = state.blocked;
        let disk = state.disk.as_mut()?;
        let end = batches.last()?.position + 1;
        disk.paced_at = gathered.then_some(now);
        let written = disk.writer.as_ref()?.ahead_end();
        let held = disk.segments.bytes();
        disk.room_bytes = room_bytes(&options, held, space);
        let taken = DiskUsage {
            held,
            waits: bytes_from(&batches, 0),
            unwritten: bytes_from(&batches, written),
        };
        if let Some(what) = lacks_room(&options, taken, space) {
            stalled(disk, what, true, now);
            drop(state);
            self.skip_needless(now);
            self.wake_after_stall();
            return None;
        }
        let writer = disk.writer.take()?;
        disk.taken_end = disk.taken_end.max(end);
        // A source that waits for room may bring what its senders do not keep.
        let may_wait = options.durability == Durability::Fsync && blocked == 0;
        let all_kept = may_wait && disk.all_kept(now);
        disk.gathering.begun(now);
        let segment_bytes = state.segment_bytes();
        drop(state);
        // They need not wait for those any more.
        self.room.notify_all();
        Some(CommitRound {
            writer,
            batches,
            manner: CommitOptions {
                durability: options.durability,
                segment_bytes,
                all_kept,
            },
        })
    }

    /// A round of what is left at a stop, of so many bytes at most, whatever the budget; `None` if
    /// there is nothing.
    pub(crate) fn last_round(&self, bytes_max: u64) -> Option<CommitRound> {
        let keeper = self.keeper.as_ref()?;
        if keeper.is_behind() {
            self.remember(keeper).ok()?;
        }
        self.sync_found_segments().ok()?;
        let space = self.space();
        let mut state = self.lock();
        let options = state.options.clone();
        let batches = state.batches_from(state.durable_end(), bytes_max);
        let taken = DiskUsage {
            unwritten: bytes_from(&batches, 0),
            ..DiskUsage::default()
        };
        if lacks_room(&options.clone().at_stop(), taken, space).is_some() {
            return None;
        }
        let disk = state.disk.as_mut()?;
        let end = batches.last()?.position + 1;
        let writer = disk.writer.take()?;
        disk.taken_end = disk.taken_end.max(end);
        let segment_bytes = state.segment_bytes();
        Some(CommitRound {
            writer,
            batches,
            manner: CommitOptions {
                durability: options.durability,
                segment_bytes,
                all_kept: false,
            },
        })
    }

    /// Takes note of what a round has written; returns the sync that it needs to count, if any.
    pub(crate) fn begin_sync(&self, written: &mut WrittenRound) -> Option<SegmentSync> {
        if let Some(disk) = &mut self.lock().disk {
            // What the segment had no place for waits again.
            disk.taken_end = disk.durable_end.max(written.writer.ahead_end());
        }
        written.sync.take()
    }

    /// Writes what came while a round is synced, as far as there is room for it.
    pub(crate) fn write_ahead(&self, written: &mut WrittenRound) {
        let batches = self.take_ahead(written.writer.ahead_end());
        written.crowded = batches.is_empty();
        if !written.crowded {
            self.room.notify_all();
            written.writer.write_ahead(&batches, written.manner);
        }
    }

    fn take_ahead(&self, from: u64) -> Vec<PendingBatch> {
        let space = self.space();
        let mut state = self.lock();
        if self.keeper.as_ref().is_none_or(CheckpointStore::is_behind) {
            // A destination has come meanwhile whose place is not durable. The sync would take what
            // it waits for along, and a crash would have it begin behind that.
            return Vec::new();
        }
        let batches = state.batches_from(from, limits::QUEUE_ROUND_BYTES);
        let Some(disk) = &state.disk else {
            return Vec::new();
        };
        let taken = DiskUsage {
            held: disk.segments.bytes(),
            waits: disk.unwritten_bytes,
            unwritten: bytes_from(&batches, 0),
        };
        if lacks_room(&state.options, taken, space).is_some() {
            return Vec::new();
        }
        if let (Some(disk), Some(last)) = (&mut state.disk, batches.last()) {
            disk.taken_end = disk.taken_end.max(last.position + 1);
        }
        batches
    }

    fn space(&self) -> Option<(u64, u64)> {
        let storage = &self.keeper.as_ref()?.storage;
        Some((storage.free_bytes().ok()?, storage.total_bytes().ok()?))
    }

    /// Takes note of what a round has achieved.
    pub fn finish_round(&self, done: FinishedRound, now: Instant) {
        let FinishedRound { writer, outcome } = done;
        let mut state = self.lock();
        let Some(disk) = state.disk.as_mut() else {
            return;
        };
        let ahead_end = writer.ahead_end();
        disk.writer = Some(writer);
        for change in outcome.changes {
            apply(&mut disk.segments.0, change);
        }
        let failed = outcome.error.is_some();
        match outcome.error {
            Some(error) => stalled_by(disk, &error, now),
            None => {
                disk.stall = None;
                disk.retry_at = None;
            }
        }
        // What was begun to be written and was not, or not so that it counts, waits again.
        disk.taken_end = ahead_end;
        state.wrote_unsynced |= outcome.unsynced;
        let urgent = state.urgent_below(outcome.durable_end);
        if let Some(disk) = &mut state.disk {
            disk.gathering.ended(urgent, now);
        }
        let freed = state.now_durable(outcome.durable_end, now);
        drop(state);
        drop(freed);
        if failed {
            self.skip_needless(now);
        }
        self.after_progress(true);
    }

    /// Lets batches that every destination has taken count as durable where they cannot be written.
    /// They must be known to be taken, though: a cursor that a power cut sets back would miss them.
    pub(crate) fn skip_needless(&self, now: Instant) {
        let needless = {
            let state = self.lock();
            let needless = state.needless_end();
            (needless > state.durable_end()).then_some(needless)
        };
        let is_kept = |to: &u64| self.sync_cursors().is_ok() && self.keep_needless(*to);
        let Some(needless) = needless.filter(is_kept) else {
            return;
        };
        let freed = self.lock().now_durable(needless, now);
        self.after_progress(!freed.is_empty());
    }

    /// Writes every cursor's place down and makes it durable.
    fn sync_cursors(&self) -> io::Result<()> {
        let Some(keeper) = &self.keeper else {
            return Ok(());
        };
        for name in self.names() {
            self.save_cursor(&name);
            keeper.sync(&name)?;
        }
        Ok(())
    }

    /// Nothing is written at the moment: what waits for that goes on.
    fn wake_after_stall(&self) {
        self.room.notify_all();
        self.wake_held();
    }

    /// Tells destinations that what they may wait for is durable, or is held no longer.
    fn wake_held(&self) {
        let held = |disk: &mut OnDisk| std::mem::take(&mut disk.has_held);
        if self.lock().disk.as_mut().is_some_and(held) {
            self.arrival.notify_all();
        }
    }

    fn after_progress(&self, progress: bool) {
        if progress {
            self.room.notify_all();
            self.wake_held();
            self.wake_waiters();
        }
    }

    /// Deletes the segments that no destination keeps, and the cursors of destinations that are
    /// gone for good. Where the disk is full, the oldest segment goes too that may be dropped.
    pub fn reclaim(&self, now: Timestamp) {
        let gone = self.begin_reclaim(now);
        // A cursor that a power cut sets back must not find its events gone.
        let early = is_on(Mutant::DeleteEarly);
        let kept = !gone.is_empty() && (early || self.sync_cursors().is_ok());
        self.finish_reclaim(&if kept { gone } else { Vec::new() });
    }

    /// Serials of the segments that may be deleted once the cursors are durable.
    pub(crate) fn begin_reclaim(&self, now: Timestamp) -> Vec<u64> {
        self.expire(now);
        self.keep_positions_if_due();
        // Those that could not be written when they moved.
        for name in self.names() {
            self.save_cursor(&name);
        }
        self.lock().unneeded_segments()
    }

    pub(crate) fn finish_reclaim(&self, gone: &[u64]) {
        let Some(keeper) = &self.keeper else { return };
        if !gone.is_empty() {
            let gone = self.without_positions(gone);
            let gone = {
                let mut state = self.lock();
                let disk = state.disk.as_mut();
                disk.map(|disk| disk.segments.take(&gone))
            };
            self.delete(gone.unwrap_or_default());
        }
        self.delete(self.drop_oldest_segment().into_iter().collect());
        let mut state = self.lock();
        state.measure_backlogs();
        let waits = state.unwritten_since().is_some();
        if let Some(disk) = state.disk.as_mut().filter(|_| !waits) {
            // Nothing waits to be written; whether it could be, the next round finds out.
            disk.stall = None;
        }
        let blocked = state.blocked > 0;
        drop(state);
        if blocked {
            self.room.notify_all();
        }
        let _ = self.remember(keeper);
    }

    fn delete(&self, gone: Vec<Segment>) {
        let Some(keeper) = &self.keeper else { return };
        let some = !gone.is_empty();
        for segment in gone {
            if let Err(error) = keeper.storage.remove(&segment.name) {
                // A restart finds it again, sees that nobody needs it, and tries again.
                tracing::warn!(file = segment.name, %error, "queue: a segment cannot be deleted");
            }
        }
        if some {
            self.retry_now();
        }
    }

    /// Room was made on disk.
    fn retry_now(&self) {
        if let Some(disk) = &mut self.lock().disk {
            disk.retry_at = None;
        }
        self.work.notify_one();
    }

    fn expire(&self, now: Timestamp) {
        let Some(keeper) = &self.keeper else { return };
        let mut state = self.lock();
        let end = state.next_event;
        let after = state.options.abandoned_after.0.as_secs() as i64;
        let now = now.0 / 1_000_000_000;
        let over = |slot: &&crate::state::CursorSlot| {
            let since = slot.abandoned_since;
            since.is_some_and(|since| since + after <= now || slot.cursor.pending(end) == 0)
        };
        let gone: Vec<String> = state
            .slots
            .iter()
            .filter(over)
            .map(|slot| slot.cursor.counters.name.clone())
            .collect();
        for name in &gone {
            self.remove(&mut state, name, DropReason::Removed);
        }
        drop(state);
        if !gone.is_empty() {
            keeper.cursors_changed();
            self.forget_removed(keeper, &gone);
        }
    }

    /// Writes every cursor's place down and makes it durable, as far as the disk lets; so it does
    /// with the positions of streams.
    pub fn save_cursors(&self) {
        self.keep_positions_at_stop();
        let Some(keeper) = &self.keeper else { return };
        for name in self.names() {
            self.save_cursor(&name);
            if let Err(error) = keeper.sync(&name) {
                tracing::warn!(destination = name, %error, "queue: a cursor cannot be saved");
            }
        }
    }
}

fn stalled_by(disk: &mut OnDisk, error: &io::Error, now: Instant) {
    let full = matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    );
    let text = format!("the queue cannot be written: {error}");
    stalled(disk, text, full, now);
}

fn stalled(disk: &mut OnDisk, text: String, full: bool, now: Instant) {
    disk.retry_at = Some(now + RETRY);
    if disk.stall.as_ref().is_none_or(|stall| stall.text != text) {
        tracing::error!("{text}");
    }
    let since = disk
        .stall
        .as_ref()
        .map_or_else(Timestamp::now, |stall| stall.since);
    disk.stall = Some(Stall { since, text, full });
}

pub(crate) fn apply(segments: &mut Vec<Segment>, change: SegmentChange) {
    match change {
        SegmentChange::Created(segment) => segments.push(segment),
        SegmentChange::Length(bytes) => {
            if let Some(last) = segments.last_mut() {
                last.bytes = bytes;
            }
        }
        SegmentChange::Removed => {
            segments.pop();
        }
    }
}

impl LogState {
    /// The size of segments: a budget, also one of a destination, is at least some of them.
    fn segment_bytes(&self) -> u64 {
        let own = self.slots.iter().filter_map(|slot| slot.queue.max_bytes);
        let budgets = own.map(|own| own.0).chain([self.options.disk_bytes()]);
        let least = budgets.min().unwrap_or(u64::MAX);
        limits::QUEUE_SEGMENT_BYTES.min(least / SEGMENTS_MIN)
    }
}

impl Durability {
    /// True if the log is written to a disk.
    pub fn has_disk(self) -> bool {
        self != Self::Memory
    }
}
