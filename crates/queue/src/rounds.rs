//! The writer's work, in steps: begin a round, write, finish it; and delete what nobody needs.
//! Each step is atomic, and others run between them.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use inrush_event::{DropReason, Timestamp, limits};

use crate::log::Log;
use crate::mutant::{Mutant, is_on};
use crate::segments::Segment;
use crate::state::{OnDisk, Stall};
use crate::writer::{Change, Manner, Outcome, Pending, Writer};
use crate::{Durability, QueueOptions, WhenFull};

/// How long a batch waits for company before it is written, if nobody waits for it. With the round
/// itself it stays below the promised 50 ms.
pub(crate) const LINGER: Duration = Duration::from_millis(25);

/// How long a disk that failed is left alone.
const RETRY: Duration = Duration::from_millis(250);

/// How often it is looked for segments to delete.
pub(crate) const RECLAIM_EVERY: Duration = Duration::from_millis(500);

/// The budget of disk is at least so many segments.
const SEGMENTS_MIN: u64 = 8;

/// Batches on their way to the disk.
pub struct Round {
    writer: Writer,
    batches: Vec<Pending>,
    manner: Manner,
}

/// A round that was done.
pub struct Done {
    writer: Writer,
    outcome: Outcome,
}

impl Round {
    /// Does the writing.
    #[must_use]
    pub fn run(mut self) -> Done {
        let outcome = self.writer.round(&self.batches, self.manner);
        Done {
            writer: self.writer,
            outcome,
        }
    }
}

fn segment_bytes(options: &QueueOptions) -> u64 {
    limits::QUEUE_SEGMENT_BYTES.min(options.max_bytes.0 / SEGMENTS_MIN)
}

impl Log {
    /// How long the writer may rest at `now`; `None`: until something comes.
    pub fn round_due_in(&self, now: Instant) -> Option<Duration> {
        self.lock().round_due_in(now, LINGER)
    }

    /// Takes what is not yet written; `None` if there is nothing, or no room for it.
    pub fn begin_round(&self, now: Instant) -> Option<Round> {
        let keeper = self.keeper.as_ref()?;
        if keeper.is_behind()
            && let Err(error) = self.remember(keeper)
        {
            if let Some(disk) = &mut self.lock().disk {
                stalled_by(disk, &error, now);
            }
            self.skip_needless(now);
            return None;
        }
        let space = self.space();
        let mut state = self.lock();
        let (options, from) = (state.options.clone(), state.durable_end());
        let batches: Vec<Pending> = state.batches_from(from, limits::QUEUE_ROUND_BYTES);
        let bytes: u64 = batches.iter().map(Pending::bytes).sum();
        let disk = state.disk.as_mut()?;
        if batches.is_empty() {
            disk.unwritten_since = None;
            return None;
        }
        let over = disk.segments.bytes() + bytes > options.max_bytes.0;
        let scarce = space
            .is_some_and(|(free, total)| free < options.reserve_bytes.0.min(total / 20) + bytes);
        if over || scarce {
            let what = if over {
                format!(
                    "the queue has used its {} (`queue.max_bytes`)",
                    options.max_bytes
                )
            } else {
                "the disk is full but for the reserve (`queue.reserve_bytes`)".to_owned()
            };
            stalled(disk, what, true, now);
            drop(state);
            self.skip_needless(now);
            return None;
        }
        Some(Round {
            writer: disk.writer.take()?,
            batches,
            manner: Manner {
                durability: options.durability,
                segment_bytes: segment_bytes(&options),
            },
        })
    }

    fn space(&self) -> Option<(u64, u64)> {
        let storage = &self.keeper.as_ref()?.storage;
        Some((storage.free_bytes().ok()?, storage.total_bytes().ok()?))
    }

    /// Takes note of what a round has achieved.
    pub fn finish_round(&self, done: Done, now: Instant) {
        let Done { writer, outcome } = done;
        let mut state = self.lock();
        let Some(disk) = state.disk.as_mut() else {
            return;
        };
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
        let freed = state.now_durable(outcome.durable_end, now);
        drop(state);
        drop(freed);
        if failed {
            self.skip_needless(now);
        }
        self.after_progress(true);
    }

    /// What every destination has taken need not be written where that is not possible. It must
    /// be known to be taken, though: a cursor that a power cut sets back would miss it.
    fn skip_needless(&self, now: Instant) {
        let needless = {
            let state = self.lock();
            let needless = state.needless_end();
            (needless > state.durable_end()).then_some(needless)
        };
        let Some(needless) = needless.filter(|_| self.sync_cursors().is_ok()) else {
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

    fn after_progress(&self, progress: bool) {
        if progress {
            self.room.notify_all();
            self.wake_waiters();
        }
    }

    /// Deletes the segments that every destination has passed, and the cursors of destinations
    /// that are gone for good. Where the disk is full and the policy is to drop the oldest, the
    /// oldest segment goes too.
    pub fn reclaim(&self, now: Timestamp) {
        let Some(keeper) = &self.keeper else { return };
        self.expire(now);
        // Those that could not be written when they moved.
        for name in self.names() {
            self.save_cursor(&name);
        }
        let floor = self.lock().floor();
        if self.would_reclaim(floor) {
            // A cursor that a power cut sets back must not find its events gone.
            if !is_on(Mutant::DeleteEarly) && self.sync_cursors().is_err() {
                return;
            }
            let gone = {
                let mut state = self.lock();
                state
                    .disk
                    .as_mut()
                    .map(|disk| disk.segments.take_below(floor))
            };
            self.delete(gone.unwrap_or_default());
        }
        self.drop_oldest_segment();
        if let Some(disk) = &mut self.lock().disk
            && disk.unwritten_since.is_none()
        {
            // Nothing waits to be written; whether it could be, the next round finds out.
            disk.stall = None;
        }
        let _ = self.remember(keeper);
    }

    fn would_reclaim(&self, floor: u64) -> bool {
        let state = self.lock();
        let segments = state.disk.as_ref().map(|disk| &disk.segments.0);
        segments
            .and_then(|segments| segments.get(1))
            .is_some_and(|second| second.header.base_event <= floor)
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

    fn drop_oldest_segment(&self) {
        let mut state = self.lock();
        if state.options.when_full != WhenFull::DropOldest {
            return;
        }
        let Some(disk) = state.disk.as_mut() else {
            return;
        };
        let full = disk.stall.as_ref().is_some_and(|stall| stall.full);
        if !full || disk.segments.0.len() < 2 {
            return;
        }
        let gone = disk.segments.0.remove(0);
        let to = disk.segments.0[0].header.base_event;
        state.forget_below(to, &self.ledger);
        drop(state);
        self.delete(vec![gone]);
    }

    fn expire(&self, now: Timestamp) {
        let Some(keeper) = &self.keeper else { return };
        let mut state = self.lock();
        let end = state.next_event;
        let after = state.options.abandoned_after.0.as_secs() as i64;
        let now = now.0 / 1_000_000_000;
        let over = |slot: &&crate::state::Slot| {
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

    /// Starts the thread that writes; it ends, with everything written, once the log is closed.
    /// A log in memory has none.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(self: &Arc<Self>) -> io::Result<Option<std::thread::JoinHandle<()>>> {
        if self.keeper.is_none() {
            return Ok(None);
        }
        let log = Arc::clone(self);
        let writer = std::thread::Builder::new().name("queue".into());
        writer.spawn(move || log.keep_writing()).map(Some)
    }

    fn keep_writing(&self) {
        let mut reclaimed = Instant::now();
        loop {
            let now = Instant::now();
            if now.duration_since(reclaimed) >= RECLAIM_EVERY || self.is_full() {
                self.reclaim(Timestamp::now());
                reclaimed = now;
            }
            let rest = self.round_due_in(now);
            if rest == Some(Duration::ZERO) {
                if let Some(round) = self.begin_round(now) {
                    self.finish_round(round.run(), Instant::now());
                }
                if !self.closed_and_stuck() {
                    continue;
                }
            }
            let state = self.lock();
            if state.closed && (rest.is_none() || state.is_stalled()) {
                break;
            }
            let rest = rest.unwrap_or(RECLAIM_EVERY).min(RECLAIM_EVERY);
            drop(self.work.wait_timeout(state, rest));
        }
        self.reclaim(Timestamp::now());
        self.save_cursors();
    }

    fn is_full(&self) -> bool {
        let state = self.lock();
        let stall = state.disk.as_ref().and_then(|disk| disk.stall.as_ref());
        stall.is_some_and(|stall| stall.full)
    }

    fn closed_and_stuck(&self) -> bool {
        let state = self.lock();
        state.closed && state.is_stalled()
    }

    /// Writes every cursor's place down and makes it durable, as far as the disk lets.
    pub fn save_cursors(&self) {
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

pub(crate) fn apply(segments: &mut Vec<Segment>, change: Change) {
    match change {
        Change::Created(segment) => segments.push(segment),
        Change::Length(bytes) => {
            if let Some(last) = segments.last_mut() {
                last.bytes = bytes;
            }
        }
        Change::Removed => {
            segments.pop();
        }
    }
}

impl Durability {
    /// Whether there is a disk at all.
    pub fn has_disk(self) -> bool {
        self != Self::Memory
    }
}
