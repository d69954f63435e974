//! The log itself: entries, budget, append and settle.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use inrush_event::{
    Batch, Delivery, DestinationCounters, DropReason, Fate, Ledger, Next, Timestamp,
};

use crate::cursor::{Cursor, DestinationFeed, Pick};
use crate::{QueueOptions, WhenFull};

/// Why a batch was not taken; none of its events was counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AppendError {
    /// The queue is full and its policy is [`WhenFull::DropNewest`].
    Full,
    /// The queue has been closed.
    Closed,
}

/// The memory side of the queue at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLevels {
    /// Bytes that queued batches pin.
    pub bytes: u64,
    /// The budget.
    pub bytes_max: u64,
    /// Batches in the log.
    pub batches: usize,
}

pub(crate) struct Entry {
    /// `None` once every cursor has settled it, though an older one may still be waited for.
    batch: Option<Arc<Batch>>,
    bytes: u64,
    /// Cursors that have not settled all of it.
    waiting: usize,
}

pub(crate) struct State {
    /// Position of `entries[0]`.
    first: u64,
    entries: VecDeque<Entry>,
    bytes: u64,
    options: QueueOptions,
    cursors: Vec<Cursor>,
    closed: bool,
    /// Appends that wait for room, and since when there was at least one.
    blocked: usize,
    blocked_since: Timestamp,
}

/// Called when [`Log::durable_end`] has advanced; it must be cheap and must not wait.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct Hooks {
    next: u64,
    wakes: Vec<(u64, Wake)>,
}

/// Keeps a [`Wake`] subscribed for as long as it lives.
pub struct DurableHook {
    log: Weak<Log>,
    number: u64,
}

impl Drop for DurableHook {
    fn drop(&mut self) {
        if let Some(log) = self.log.upgrade() {
            let mut hooks = log.hooks.write().unwrap_or_else(PoisonError::into_inner);
            hooks.wakes.retain(|(number, _)| *number != self.number);
        }
    }
}

/// One log for the process.
pub struct Log {
    /// Guards everything below the ledger; taken once a batch. Order: this, then the ledger gate.
    state: Mutex<State>,
    /// Room was made, or the log was closed.
    room: Condvar,
    /// Something was appended or put back, or the log or a feed was closed.
    arrival: Condvar,
    /// Who is told that more became durable.
    hooks: RwLock<Hooks>,
    ledger: Arc<Ledger>,
}

impl Log {
    /// An empty log whose destination side is posted to `ledger`.
    pub fn new(options: QueueOptions, ledger: Arc<Ledger>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                first: 0,
                entries: VecDeque::new(),
                bytes: 0,
                options,
                cursors: Vec::new(),
                closed: false,
                blocked: 0,
                blocked_since: Timestamp::NONE,
            }),
            room: Condvar::new(),
            arrival: Condvar::new(),
            hooks: RwLock::default(),
            ledger,
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the budget and policy.
    pub fn reconfigure(&self, options: QueueOptions) {
        self.lock().options = options;
        self.room.notify_all();
    }

    /// Appends a batch, waiting for room under [`WhenFull::Block`]; gives its position. `accept`
    /// posts the source's side of the ledger; it runs inside the same posting as the destinations'
    /// side. `urgent` says that someone waits for it to be durable, which in memory it is at once.
    ///
    /// # Errors
    /// If the batch was not taken; `accept` was not run then.
    pub fn append(
        &self,
        batch: Batch,
        urgent: bool,
        accept: impl FnOnce(),
    ) -> Result<u64, AppendError> {
        let bytes = batch.memory_bytes();
        let mut state = self.lock();
        let mut evicted = Vec::new();
        while !state.closed && !state.has_room(bytes) {
            match state.options.when_full {
                WhenFull::DropNewest => return Err(AppendError::Full),
                WhenFull::DropOldest => evicted.extend(state.evict_oldest(&self.ledger)),
                WhenFull::Block => {
                    state.block();
                    state = self
                        .room
                        .wait(state)
                        .unwrap_or_else(PoisonError::into_inner);
                    state.unblock();
                }
            }
        }
        if state.closed {
            return Err(AppendError::Closed);
        }
        self.ledger.post(|| {
            accept();
            for cursor in &state.cursors {
                cursor.counters.accepted.add(batch.len() as u64);
                cursor.counters.pending.add(batch.len() as u64);
            }
        });
        let position = state.end();
        state.push(Arc::new(batch), bytes);
        drop(state);
        self.arrival.notify_all();
        drop(evicted);
        if urgent {
            self.wake();
        }
        Ok(position)
    }

    /// Every batch at a position below this is as durable as it will be: in memory that is every
    /// batch that was appended.
    pub fn durable_end(&self) -> u64 {
        self.lock().end()
    }

    /// Has `wake` called whenever [`Self::durable_end`] has advanced over an urgent batch, from
    /// whatever thread did it, until the hook is dropped.
    pub fn on_durable(self: &Arc<Self>, wake: Wake) -> DurableHook {
        let mut hooks = self.hooks.write().unwrap_or_else(PoisonError::into_inner);
        let number = hooks.next;
        hooks.next += 1;
        hooks.wakes.push((number, wake));
        DurableHook {
            log: Arc::downgrade(self),
            number,
        }
    }

    fn wake(&self) {
        let hooks = self.hooks.read().unwrap_or_else(PoisonError::into_inner);
        hooks.wakes.iter().for_each(|(_, wake)| wake());
    }

    /// Opens a cursor at the end of the log, or finds the one of that name again with what is
    /// still pending. Only one feed of a destination may be in use at a time.
    pub fn attach(self: &Arc<Self>, counters: &Arc<DestinationCounters>) -> Arc<DestinationFeed> {
        let mut state = self.lock();
        let end = state.end();
        match state
            .cursors
            .iter_mut()
            .find(|cursor| cursor.counters.name == counters.name)
        {
            Some(cursor) => cursor.reclaim(),
            None => state.cursors.push(Cursor::new(Arc::clone(counters), end)),
        }
        Arc::new(DestinationFeed::new(
            Arc::clone(self),
            counters.name.clone(),
        ))
    }

    /// Takes a destination's cursor away; what is pending there is counted as dropped.
    pub fn detach(&self, name: &str, reason: DropReason) {
        let mut state = self.lock();
        let Some(index) = state.cursors.iter().position(|c| c.counters.name == name) else {
            return;
        };
        let cursor = state.cursors.swap_remove(index);
        let (dropped, freed) = state.abandon(&cursor);
        self.ledger.post(|| {
            cursor.counters.dropped(reason).add(dropped);
            cursor.counters.pending.sub(dropped);
        });
        drop(state);
        self.room.notify_all();
        drop(freed);
    }

    /// The destinations that have a cursor.
    pub fn names(&self) -> Vec<String> {
        self.lock()
            .cursors
            .iter()
            .map(|cursor| cursor.counters.name.clone())
            .collect()
    }

    /// Takes no more batches; feeds run dry and then close. Waiting appends fail.
    pub fn close(&self) {
        self.lock().closed = true;
        self.room.notify_all();
        self.arrival.notify_all();
    }

    /// Waits until nothing is pending anywhere, at most until `deadline`; says whether it is so.
    pub fn wait_empty(&self, deadline: Instant) -> bool {
        let mut state = self.lock();
        while !state.entries.is_empty() {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return false;
            };
            state = self
                .room
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }

    /// The memory side now.
    pub fn levels(&self) -> QueueLevels {
        let state = self.lock();
        QueueLevels {
            bytes: state.bytes,
            bytes_max: state.options.memory_bytes.0,
            batches: state.entries.len(),
        }
    }

    /// Since when sources have been waiting for room without a pause; `None` if none waits.
    pub fn blocked_since(&self) -> Option<Timestamp> {
        let since = self.lock().blocked_since;
        since.is_some().then_some(since)
    }

    /// Writes the receive time of the oldest pending event of each destination to its counters.
    pub fn measure_oldest(&self) {
        let state = self.lock();
        for cursor in &state.cursors {
            let oldest = state.batch(cursor.oldest_unsettled());
            let received = oldest.map_or(0, |batch| batch.received().0);
            cursor
                .counters
                .oldest_pending_ns
                .set(received.max(0) as u64);
        }
    }

    pub(crate) fn wake_feeds(&self) {
        self.arrival.notify_all();
    }

    pub(crate) fn next(&self, feed: &DestinationFeed, wait: Duration) -> Next {
        let deadline = Instant::now() + wait;
        let mut state = self.lock();
        loop {
            if feed.is_stopping() {
                return Next::Closed;
            }
            let now = Instant::now();
            let due = match state.take(feed.name(), now) {
                Taken::Delivery(delivery) => return Next::Batch(delivery),
                Taken::Gone => return Next::Closed,
                Taken::NothingUntil(due) => due,
            };
            if state.closed && due.is_none() {
                return Next::Closed;
            }
            let until = due.map_or(deadline, |due| due.min(deadline));
            let Some(left) = until
                .checked_duration_since(now)
                .filter(|left| !left.is_zero())
            else {
                return Next::Idle;
            };
            state = self
                .arrival
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    pub(crate) fn settle(&self, name: &str, position: u64, events: Range<u32>, fate: Fate) {
        let mut state = self.lock();
        let Some(index) = state.cursors.iter().position(|c| c.counters.name == name) else {
            return; // The destination was taken away; its events are counted as dropped.
        };
        let Some(batch) = state.batch(position).map(Arc::clone) else {
            return; // Evicted by `drop_oldest` while it was being delivered.
        };
        let cursor = &mut state.cursors[index];
        if let Fate::RetryAfter(delay) = fate {
            cursor.put_back(position, events, delay);
            drop(state);
            self.arrival.notify_all();
            return;
        }
        let (settled, done) = cursor.settle(position, &events);
        debug_assert_eq!(settled, events.len() as u64, "an event was settled twice");
        self.ledger
            .post(|| cursor.post(&batch, &events, settled, &fate));
        if !done {
            return;
        }
        let freed = state.settled(position);
        drop(state);
        if freed.is_some() {
            self.room.notify_all();
        }
        drop((batch, freed));
    }
}

enum Taken {
    Delivery(Delivery),
    /// Nothing to hand out; something that was put back is due then.
    NothingUntil(Option<Instant>),
    Gone,
}

impl State {
    fn block(&mut self) {
        if !self.blocked_since.is_some() {
            self.blocked_since = Timestamp::now();
        }
        self.blocked += 1;
    }

    fn unblock(&mut self) {
        self.blocked -= 1;
        // Room was made for one; if it is taken at once, the wait goes on and began anew.
        if self.blocked == 0 {
            self.blocked_since = Timestamp::NONE;
        }
    }

    /// The position of the next batch.
    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    fn has_room(&self, bytes: u64) -> bool {
        self.entries.is_empty() || self.bytes + bytes <= self.options.memory_bytes.0
    }

    fn push(&mut self, batch: Arc<Batch>, bytes: u64) {
        let waiting = self.cursors.len();
        self.bytes += bytes;
        self.entries.push_back(Entry {
            batch: Some(batch),
            bytes,
            waiting,
        });
        if waiting == 0 {
            // No destination at all: nothing to wait for.
            self.trim();
        }
    }

    /// The batch at `position`, if someone still waits for it.
    fn batch(&self, position: u64) -> Option<&Arc<Batch>> {
        self.entries
            .get(position.checked_sub(self.first)? as usize)?
            .batch
            .as_ref()
    }

    fn take(&mut self, name: &str, now: Instant) -> Taken {
        let (first, end) = (self.first, self.end());
        let Some(index) = self.cursors.iter().position(|c| c.counters.name == name) else {
            return Taken::Gone;
        };
        let (position, again) = match self.cursors[index].pick(first, end, now) {
            Pick::New(position) => (position, None),
            Pick::Again(position, events) => (position, Some(events)),
            Pick::NothingUntil(due) => return Taken::NothingUntil(due),
        };
        let Some(batch) = self.batch(position).map(Arc::clone) else {
            return Taken::Gone;
        };
        let all = 0..batch.len() as u32;
        if again.is_none() {
            self.cursors[index].handed_out(position, all.end);
        }
        Taken::Delivery(Delivery {
            position,
            batch,
            events: again.unwrap_or(all),
        })
    }

    /// One more cursor is done with the batch at `position`. Gives the batch back, to be dropped
    /// outside the lock, if it was the last: also from behind one that is still waited for, so
    /// that a single held event does not pin all that came after it.
    fn settled(&mut self, position: u64) -> Option<Arc<Batch>> {
        let entry = self
            .entries
            .get_mut(position.checked_sub(self.first)? as usize)?;
        entry.waiting -= 1;
        if entry.waiting > 0 {
            return None;
        }
        self.bytes -= std::mem::take(&mut entry.bytes);
        let batch = entry.batch.take();
        self.trim();
        batch
    }

    /// Removes settled entries from the front.
    fn trim(&mut self) {
        while self.entries.front().is_some_and(|entry| entry.waiting == 0) {
            self.pop();
        }
    }

    fn pop(&mut self) -> Option<Arc<Batch>> {
        let entry = self.entries.pop_front()?;
        self.first += 1;
        self.bytes -= entry.bytes;
        entry.batch
    }

    fn evict_oldest(&mut self, ledger: &Ledger) -> Option<Arc<Batch>> {
        let position = self.first;
        let events = self
            .entries
            .front()?
            .batch
            .as_ref()
            .map_or(0, |batch| batch.len() as u64);
        for cursor in &mut self.cursors {
            let unsettled = cursor.forget(position, events);
            ledger.post(|| {
                cursor
                    .counters
                    .dropped(DropReason::QueueFull)
                    .add(unsettled);
                cursor.counters.pending.sub(unsettled);
            });
        }
        self.pop()
    }

    /// Counts the events that `cursor` leaves unsettled, and releases its hold on the batches;
    /// those that nobody waits for any more come back, to be dropped outside the lock.
    fn abandon(&mut self, cursor: &Cursor) -> (u64, Vec<Arc<Batch>>) {
        let (mut events, mut freed) = (0, Vec::new());
        for position in self.first..self.end() {
            let len = self.batch(position).map_or(0, |batch| batch.len() as u64);
            let unsettled = cursor.unsettled(position, len);
            if unsettled > 0 {
                events += unsettled;
                freed.extend(self.settled(position));
            }
        }
        (events, freed)
    }
}

/// Bytes of the raw records of a range.
pub(crate) fn raw_bytes(batch: &Batch, events: &Range<u32>) -> u64 {
    if events.len() == batch.len() {
        return batch.raw_bytes();
    }
    let range = events.start as usize..events.end as usize;
    let records = batch.records().get(range).unwrap_or_default();
    records.iter().map(|record| u64::from(record.raw.len)).sum()
}
