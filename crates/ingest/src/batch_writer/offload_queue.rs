//! Batches of a filler that other cores study, and that come back in the order in which they left.
//!
//! A worker that has no rest any more only reads and frames ([`OffloadQueue::is_on`]); what its
//! events are the pool finds out, and the worker itself, in small steps between two reads. Small
//! batches, few of them at a time: an event waits some milliseconds more than at a worker that has
//! rest.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use inrush_event::{PositionList, limits};

use super::acks::{AckRange, AppendOutcome};
use super::offload::{BatchTask, FinishedBatch};
use super::{BatchWriter, OpenBatch};
use crate::now::Now;
use crate::pool::{PoolSlot, WorkPool, WorkerWaker};

/// Time that the study of a batch should take.
const STUDY: Duration = Duration::from_micros(500);

/// An event that is handed on later than this after its batch was read was late. Counted.
const LATE: Duration = Duration::from_millis(5);

/// The part of a batch of its own that the worker studies between two reads.
const STEP: usize = 4;

/// Batches have at least so many events and bytes, however long it takes to study one.
const RECORDS_MIN: usize = 8;
const BYTES_MIN: usize = 8 * 1024;

/// Batches that are away, done ones among them, at most: so many times those that may be
/// unfinished.
const HELD: usize = 2;

/// After parts of events were seen, the worker does all itself for so long.
const HOME_AFTER_PARTS: Duration = Duration::from_secs(10);

/// A batch and its place.
struct LocalTask {
    slot: Arc<PoolSlot<BatchTask>>,
    task: Box<BatchTask>,
    took: Duration,
}

/// A batch that is away.
struct OffloadedBatch {
    slot: Arc<PoolSlot<BatchTask>>,
    at: Instant,
    /// [`BatchWriter::blocked`] then.
    blocked: Duration,
    /// Answers that are owed for it.
    acks: Vec<AckRange>,
    /// Those that are owed for what came behind it and has no event: the ends of requests.
    behind: Vec<AckRange>,
    /// Positions of streams that were noted behind it.
    positions: PositionList,
}

/// Batches that a filler has elsewhere, and the size of the next ones.
pub(super) struct OffloadQueue {
    pool: Arc<WorkPool<BatchTask>>,
    wake: Arc<WorkerWaker>,
    on: bool,
    wanted: bool,
    /// True if it may ever be on: the pool has threads, and events are not decoded one by one.
    allowed: bool,
    /// Until when it must not be on.
    home_until: Option<Instant>,
    slots: VecDeque<OffloadedBatch>,
    own: Option<LocalTask>,
    /// Time of other threads since the last time that somebody asked.
    helped: Duration,
    /// [`BatchWriter::blocked`] then.
    blocked_told: Duration,
    records_max: usize,
    read_bytes: usize,
}

impl OffloadQueue {
    pub(super) fn new(pool: Arc<WorkPool<BatchTask>>, wake: Arc<WorkerWaker>) -> Self {
        Self {
            allowed: pool.size() > 0,
            pool,
            wake,
            on: false,
            wanted: false,
            home_until: None,
            slots: VecDeque::new(),
            own: None,
            helped: Duration::ZERO,
            blocked_told: Duration::ZERO,
            records_max: limits::BATCH_FLUSH_RECORDS,
            read_bytes: limits::READ_BYTES,
        }
    }

    /// True if the open batch is studied elsewhere.
    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    /// Records of a batch, at most.
    pub(super) fn records_max(&self) -> usize {
        match self.on {
            true => self.records_max,
            false => limits::BATCH_FLUSH_RECORDS,
        }
    }

    /// Bytes to read at once, at most.
    pub(super) fn read_bytes(&self) -> usize {
        match self.on {
            true => self.read_bytes,
            false => limits::READ_BYTES,
        }
    }

    /// Events that the worker studies between two reads.
    fn step(&self) -> usize {
        (self.records_max / STEP).max(1)
    }

    /// Batches that nobody has begun.
    fn waiting(&self) -> usize {
        let waits = |sent: &&OffloadedBatch| sent.slot.waits();
        self.slots.iter().filter(waits).count()
    }

    /// True if a batch is away.
    pub(super) fn is_waited_for(&self) -> bool {
        !self.slots.is_empty()
    }

    /// True if so many batches are unfinished, two for each core, that no more are wanted. What is
    /// done but waits for its turn counts only towards the bound of all ([`HELD`]): else the
    /// batches that the worker studies itself would leave nothing for the others to do.
    fn is_full(&self) -> bool {
        let window = 2 * (self.pool.size() + 1);
        let unfinished = |sent: &&OffloadedBatch| !sent.slot.is_done();
        self.slots.len() > window
            && (self.slots.len() > HELD * window
                || self.slots.iter().filter(unfinished).count() > window)
    }

    /// Learns from a batch how large the next ones should be.
    fn learn(&mut self, events: usize, bytes: usize, took: Duration) {
        let share = STUDY.as_secs_f64() / took.as_secs_f64().max(1e-6);
        let scaled = |n: usize| (n as f64 * share).min(limits::ARENA_BYTES as f64) as usize;
        // A quarter of the way, and one at least: rounded down, batches would end too small.
        let slowly = |known: usize, new: usize| match known < new {
            true => known + (new - known).div_ceil(4),
            false => known - (known - new).div_ceil(4),
        };
        let records = scaled(events).clamp(RECORDS_MIN, limits::BATCH_FLUSH_RECORDS);
        let bytes = scaled(bytes).clamp(BYTES_MIN, limits::READ_BYTES);
        self.records_max = slowly(self.records_max, records);
        self.read_bytes = slowly(self.read_bytes, bytes);
    }
}

impl BatchWriter {
    /// Has batches studied by other cores too, or not any more: the worker has no rest, and there
    /// are cores that have. From the next batch on.
    pub fn share(&mut self, wanted: bool) {
        self.away.wanted = wanted;
    }

    /// Time that other threads took for our batches, and time that we waited for room in the
    /// queue, since the last call.
    pub fn take_times(&mut self) -> (Duration, Duration) {
        let helped = std::mem::take(&mut self.away.helped);
        let before = std::mem::replace(&mut self.away.blocked_told, self.blocked);
        (helped, self.blocked - before)
    }

    /// A new batch begins, which is empty: is it studied elsewhere?
    pub(super) fn choose(&mut self, now: Now) {
        let away = &mut self.away;
        if away.home_until.is_some_and(|until| until <= now.instant) {
            away.home_until = None;
        }
        let wanted = away.wanted && away.allowed && away.home_until.is_none();
        // Decoded events that no rule is asked about cost their reader more than their study.
        let is_light = self.named.are_final() && !self.study.shapes();
        let on = wanted && !is_light && self.groups.is_empty();
        if on == self.away.on {
            return;
        }
        if on {
            self.away.on = true;
            self.source.shared.add(1);
        } else {
            self.come_home(now);
        }
    }

    /// Nothing of this filler is to be studied elsewhere any more.
    pub(super) fn keep_at_home(&mut self, now: Now) {
        if self.away.allowed {
            self.away.allowed = false;
            self.come_home(now);
        }
    }

    /// Hands the open batch on to be studied elsewhere.
    pub(super) fn send_away(&mut self, now: Now) {
        if self.open.is_empty() {
            if let Some(last) = self.away.slots.back_mut() {
                // The answers to what came before are not known yet.
                last.behind.append(&mut self.owed.take_open());
            }
            let mut open = self.take_open();
            if let Some(last) = self.away.slots.back_mut() {
                // Nor have its events gone into the log.
                last.positions.append(open.builder.take_positions());
            }
            self.begin(0);
            self.pass_on(open, now);
            return self.choose(now);
        }
        let mut open = self.take_open();
        open.begin_study();
        let slot = PoolSlot::new(
            BatchTask {
                open,
                doors: self.doors.clone(),
                source: Arc::clone(&self.source),
                generation: self.generation,
                settings: Arc::clone(&self.settings),
                now,
            },
            Arc::clone(&self.away.wake),
        );
        self.away.slots.push_back(OffloadedBatch {
            slot: Arc::clone(&slot),
            at: now.instant,
            blocked: self.blocked,
            acks: self.owed.take_open(),
            behind: Vec::new(),
            positions: PositionList::default(),
        });
        if !self.away.pool.submit(&slot) {
            self.finish_own();
            self.study_own(usize::MAX);
        }
        self.source.shared_batches.add(1);
        self.begin(0);
        self.collect(now);
        while self.away.is_full() {
            self.wait_for_one(now);
        }
        self.choose(now);
    }

    /// True if something has come back that can be handed on.
    pub fn has_news(&self) -> bool {
        let oldest = self.away.slots.front();
        oldest.is_some_and(|sent| sent.slot.is_done())
    }

    /// Hands on what has come back, in order.
    pub fn collect(&mut self, now: Now) {
        while let Some(sent) = self.away.slots.front()
            && let Some(studied) = sent.slot.take()
        {
            // That the queue had no room is no fault of ours.
            let blocked = self.blocked.saturating_sub(sent.blocked);
            if sent.at.elapsed() > LATE + blocked {
                self.source.shared_late.add(1);
            }
            let Some(sent) = self.away.slots.pop_front() else {
                break;
            };
            let OffloadedBatch {
                acks,
                behind,
                positions,
                ..
            } = sent;
            // Those of the open batch are not for this one.
            let open = self.owed.replace_open(acks);
            self.take_back(*studied, now);
            self.wait_for_batch(positions);
            self.owed.replace_open(behind);
            self.owed.hand(AppendOutcome::Nothing);
            self.owed.replace_open(open);
        }
    }

    fn take_back(&mut self, studied: FinishedBatch, now: Now) {
        let FinishedBatch {
            mut open,
            whole,
            took,
            elsewhere,
        } = studied;
        self.away.learn(open.len(), open.builder.filled(), took);
        if elsewhere {
            self.away.helped += took;
        }
        if !whole {
            self.finish_own();
            open.forget_study();
            self.study.begin();
            let hold = Some((&mut self.groups, now.instant));
            let _all = self.study.go_on(&mut open, usize::MAX, hold, now);
            self.study.end(&mut open, now);
            self.away.home_until = Some(now.instant + HOME_AFTER_PARTS);
        }
        self.pass_on(open, now);
    }

    /// Goes on with what others have not begun, for a moment, and leaves one batch to each of them:
    /// who has to wait until one is read is idle meanwhile. Returns whether there is more: then it
    /// is no time to sleep.
    pub fn help(&mut self, now: Now) -> bool {
        let away = &self.away;
        if away.slots.is_empty() {
            return false;
        }
        if away.own.is_some() || away.waiting() > away.pool.size() {
            self.study_own(away.step());
        }
        self.collect(now);
        self.away.own.is_some()
    }

    /// Studies so many events of a batch that others have not begun; `false`: there is none.
    fn study_own(&mut self, events: usize) -> bool {
        let began = Instant::now();
        if self.away.own.is_none() {
            let begin = |sent: &OffloadedBatch| Some((Arc::clone(&sent.slot), sent.slot.begin()?));
            let mut slots = self.away.slots.iter();
            // One that is studied in steps keeps those behind it waiting: the last, then. Others
            // take the first.
            let begun = match events {
                usize::MAX => slots.find_map(begin),
                _ => slots.rev().find_map(begin),
            };
            let Some((slot, task)) = begun else {
                return false;
            };
            self.study.begin();
            let took = Duration::ZERO;
            self.away.own = Some(LocalTask { slot, task, took });
        }
        let Some(own) = &mut self.away.own else {
            return false;
        };
        let whole = self
            .study
            .go_on(&mut own.task.open, events, None, own.task.now);
        own.took += began.elapsed();
        if whole && own.task.open.studied < own.task.open.unstudied() {
            return true;
        }
        if whole {
            self.study.end(&mut own.task.open, own.task.now);
        }
        if let Some(LocalTask { slot, task, took }) = self.away.own.take() {
            slot.finish(FinishedBatch {
                open: task.open,
                whole,
                took,
                elsewhere: false,
            });
        }
        true
    }

    /// Ends what the worker has begun itself. It comes back in its turn.
    pub(super) fn finish_own(&mut self) {
        while self.away.own.is_some() {
            self.study_own(usize::MAX);
        }
    }

    /// Studies a batch that nobody has begun, or else waits for the oldest.
    fn wait_for_one(&mut self, now: Now) {
        if !self.study_own(usize::MAX)
            && let Some(sent) = self.away.slots.front()
        {
            sent.slot.wait();
        }
        self.collect(now);
    }

    /// Has all that is away handed on, and studies what comes from now on here.
    pub(super) fn come_home(&mut self, now: Now) {
        if !self.away.on {
            return;
        }
        if !self.open.is_empty() {
            self.send_away(now);
        }
        while !self.away.slots.is_empty() {
            self.wait_for_one(now);
        }
        self.away.on = false;
        self.study.begin();
    }
}

impl super::EventProcessor {
    /// Studies all of a batch; `false` if it has parts of events.
    pub fn whole(&mut self, open: &mut OpenBatch, now: Now) -> bool {
        self.begin();
        let whole = self.go_on(open, usize::MAX, None, now);
        if whole {
            self.end(open, now);
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events of 50 µs: ten of them take what a batch should.
    #[test]
    fn batches_become_as_large_as_they_should_be() {
        let mut away = OffloadQueue::new(WorkPool::new(2), crate::pool::sleepless());
        for size in [limits::BATCH_FLUSH_RECORDS, 8, 11, 9] {
            away.records_max = size;
            away.read_bytes = 800 * size;
            for _ in 0..100 {
                let events = away.records_max;
                away.learn(events, 1000 * events, STUDY * events as u32 / 10);
            }
            assert_eq!((away.records_max, away.read_bytes), (10, 10_000), "{size}");
        }
    }
}
