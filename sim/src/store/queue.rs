//! The queue as the store sees it: batches, what was settled of them, and what of that a restart
//! remembers.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use inrush_event::{BatchOrigin, Fate, Feed, FeedNext};

/// A log with one cursor.
pub(crate) struct VirtualQueue {
    log: u64,
    state: Mutex<QueueState>,
}

#[derive(Default)]
struct QueueState {
    epoch: u32,
    batches: Vec<QueuedBatch>,
    next_seq: u64,
    /// Batches that are durable.
    durable: usize,
    events: Vec<TrackedEvent>,
    by_name: HashMap<(u32, u64), usize>,
    wrong: Option<String>,
}

#[derive(Clone, Copy)]
struct QueuedBatch {
    epoch: u32,
    first: u64,
    count: u32,
    received: i64,
    /// Of its first event, in `events`.
    at: usize,
}

/// An event and what became of it.
#[derive(Clone, Copy, Default)]
pub(crate) struct TrackedEvent {
    /// Time of receipt, by a clock that is right, in nanoseconds since 1970.
    pub(crate) at_ns: i64,
    /// Time of receipt, by the clock that stamped it.
    stamp_ns: i64,
    /// Its stamp is wrong, and no process that is left can know that.
    excused: bool,
    /// The queue was told, by whatever process, that it is delivered.
    pub(crate) told: bool,
    /// The queue lost it with its unwritten end.
    pub(crate) lost: bool,
    /// A retention commit that named its file was tried.
    pub(crate) tried: bool,
    /// Such a commit was made.
    pub(crate) gone: bool,
    /// As this process knows.
    settled: bool,
    /// As the next process will know.
    saved: bool,
    in_flight: bool,
}

/// Events that are handed out.
pub(crate) struct QueueDelivery {
    pub(crate) position: u64,
    pub(crate) origin: BatchOrigin,
    pub(crate) events: Range<u32>,
    pub(crate) received: i64,
}

impl VirtualQueue {
    pub(crate) fn new(log: u64) -> Self {
        Self {
            log,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn log(&self) -> u64 {
        self.log
    }

    /// Takes new events, stamped by the wall clock as `received`; `blind` where the store cannot
    /// know that it is wrong.
    pub(crate) fn append(&self, count: u32, received: i64, at_ns: i64, blind: bool) {
        let mut state = self.state();
        let (first, epoch, at) = (state.next_seq, state.epoch, state.events.len());
        for n in 0..count {
            state
                .by_name
                .insert((epoch, first + u64::from(n)), at + n as usize);
            state.events.push(TrackedEvent {
                at_ns,
                stamp_ns: received,
                excused: blind,
                ..TrackedEvent::default()
            });
        }
        state.next_seq += u64::from(count);
        state.batches.push(QueuedBatch {
            epoch,
            first,
            count,
            received,
            at,
        });
    }

    /// Has all batches durable.
    pub(crate) fn sync(&self) {
        let mut state = self.state();
        state.durable = state.batches.len();
    }

    /// Has the next process remember what is settled.
    pub(crate) fn save(&self) {
        for event in &mut self.state().events {
            event.saved = event.settled;
        }
    }

    /// A new process; after a power cut the unwritten end is gone.
    pub(crate) fn restart(&self, power_cut: bool) {
        let mut state = self.state();
        state.epoch += 1;
        if power_cut {
            let durable = state.durable;
            for batch in state.batches.split_off(durable).into_iter().rev() {
                let events = batch.at..batch.at + batch.count as usize;
                state.events[events]
                    .iter_mut()
                    .for_each(|event| event.lost = true);
                // Its numbers are given out again.
                state.next_seq = batch.first;
            }
        }
        for event in &mut state.events {
            event.settled = event.saved;
            event.in_flight = false;
        }
    }

    /// Wrong stamps of events that are in no file yet are excused, where the store does not
    /// remember that they are.
    pub(crate) fn excuse(&self, is_known: impl Fn(i64) -> bool) {
        for event in &mut self.state().events {
            let is_wrong = event.stamp_ns < event.at_ns;
            event.excused |= is_wrong && !event.told && !is_known(event.stamp_ns);
        }
    }

    /// The store takes a wrong time for the right one: it did not know any.
    pub(crate) fn excuse_all(&self) {
        let mut state = self.state();
        state
            .events
            .iter_mut()
            .for_each(|event| event.excused = true);
    }

    /// Hands out what follows.
    pub(crate) fn offer(&self, most: u32) -> Option<QueueDelivery> {
        let mut state = self.state();
        let state = &mut *state;
        for (position, batch) in state.batches.iter().enumerate() {
            let events = &mut state.events[batch.at..batch.at + batch.count as usize];
            let free = |event: &TrackedEvent| !event.settled && !event.in_flight;
            let Some(first) = events.iter().position(free) else {
                continue;
            };
            let run = events[first..].iter().take(most as usize);
            let count = run.take_while(|event| free(event)).count();
            let taken = &mut events[first..first + count];
            taken.iter_mut().for_each(|event| event.in_flight = true);
            return Some(QueueDelivery {
                position: position as u64,
                origin: BatchOrigin {
                    log: self.log,
                    epoch: batch.epoch,
                    first_event: batch.first,
                },
                events: first as u32..(first + count) as u32,
                received: batch.received,
            });
        }
        None
    }

    /// True if everything is settled.
    pub(crate) fn is_done(&self) -> bool {
        self.state()
            .events
            .iter()
            .all(|event| event.settled || event.lost)
    }

    /// Looks at an event by its number among all of this queue.
    pub(crate) fn index(&self, epoch: u32, seq: u64) -> Option<usize> {
        self.state().by_name.get(&(epoch, seq)).copied()
    }

    pub(crate) fn events(&self) -> Vec<TrackedEvent> {
        self.state().events.clone()
    }

    /// A retention commit that takes this event was tried, or made; it may, if the event was
    /// received before `old_ns`.
    pub(crate) fn retained(&self, at: usize, is_made: bool, old_ns: i64) {
        let mut state = self.state();
        let event = &mut state.events[at];
        event.tried = true;
        event.gone |= is_made;
        if event.at_ns > old_ns && !event.excused {
            let young_s = (event.at_ns - old_ns) / 1_000_000_000;
            state.wrong = Some(format!(
                "event {at} is {young_s} s too young for retention, and is deleted"
            ));
        }
    }

    /// Deeds of the store that no sink may do.
    pub(crate) fn wrong(&self) -> Option<String> {
        self.state().wrong.clone()
    }
}

impl Feed for VirtualQueue {
    fn next(&self, _: Duration) -> FeedNext {
        FeedNext::Idle
    }

    fn settle(&self, position: u64, events: Range<u32>, fate: Fate) {
        let mut state = self.state();
        let Some(batch) = state.batches.get(position as usize).copied() else {
            state.wrong = Some(format!("nothing is at {position}, and it is settled"));
            return;
        };
        for n in events {
            let event = &mut state.events[batch.at + n as usize];
            let known = event.in_flight && !event.settled;
            event.in_flight = false;
            if matches!(fate, Fate::Delivered) {
                event.settled = true;
                event.told = true;
            }
            if !known {
                state.wrong = Some(format!(
                    "event {n} of {position} is settled, and was not taken"
                ));
            }
        }
    }

    fn durable(&self, position: u64) -> bool {
        (position as usize) < self.state().durable
    }

    fn stopping(&self) -> bool {
        false
    }
}
