//! Threads that study batches for a worker that cannot keep up, so that one socket or connection is
//! taken in by all cores.
//!
//! # What it guarantees
//! * A worker gets its batches back in the order in which it gave them ([`Slot`]s are in a list of
//!   its own), so what goes to the queue is in the order of the wire.
//! * A batch is with one thread at a time. What a thread has not begun, its worker can take back.
//! * There is no thread before there is work for it.
//!
//! # Limits
//! One thread fewer than there are workers, so none on one core; 32 at most.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mio::Waker;

use crate::filler::{Doors, Now, Open, Study};
use crate::source::{Settings, Source};

/// Threads, at most: what one core reads is not more than so many can study.
const THREADS_MAX: usize = 32;

/// A thread without work forgets what it knows of sources after this long.
const FORGET: Duration = Duration::from_secs(10);

/// Sources of which a thread knows the rules, at most.
const SOURCES_MAX: usize = 8;

/// Ends the sleep of a worker that waits for events of `mio`, if it sleeps: a call of the kernel
/// for each batch would be dear.
pub(crate) struct Wake {
    asleep: AtomicBool,
    waker: Arc<Waker>,
}

impl Wake {
    /// Of a worker that `waker` wakes.
    pub(crate) fn new(waker: &Arc<Waker>) -> Arc<Self> {
        Arc::new(Self {
            asleep: AtomicBool::new(false),
            waker: Arc::clone(waker),
        })
    }

    /// The worker is about to sleep. It must look for news after this, and before it sleeps.
    pub(crate) fn fall_asleep(&self) {
        self.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// It sleeps no more.
    pub(crate) fn awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// There is news, which is to be seen already.
    fn call(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst)
            && let Err(error) = self.waker.wake()
        {
            tracing::error!(%error, "cannot wake a worker");
        }
    }
}

/// A batch that is to be studied.
pub(crate) struct Job {
    pub(crate) open: Open,
    pub(crate) doors: Doors,
    pub(crate) source: Arc<Source>,
    pub(crate) generation: u64,
    pub(crate) settings: Arc<Settings>,
    pub(crate) now: Now,
}

/// A batch that was studied.
pub(crate) struct Studied {
    pub(crate) open: Open,
    /// Whether all is known of it; else nothing is, because it has parts of events, which only
    /// who has all batches can put together.
    pub(crate) whole: bool,
    pub(crate) took: Duration,
    /// Whether a thread of the crew did it.
    pub(crate) elsewhere: bool,
}

enum State {
    Waiting(Box<Job>),
    Taken,
    Done(Box<Studied>),
    /// The thread that had it has panicked.
    Lost,
}

/// The place of a batch in the order of its worker.
pub(crate) struct Slot {
    state: Mutex<State>,
    done: Condvar,
    wake: Arc<Wake>,
}

impl Slot {
    /// The place of `job`.
    pub(crate) fn new(job: Job, wake: Arc<Wake>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::Waiting(Box::new(job))),
            done: Condvar::new(),
            wake,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the batch, if nobody has begun with it.
    pub(crate) fn begin(&self) -> Option<Box<Job>> {
        let mut state = self.state();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Waiting(job) => Some(job),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Puts the batch back, studied.
    pub(crate) fn finish(&self, studied: Studied) {
        self.set(State::Done(Box::new(studied)));
    }

    fn set(&self, state: State) {
        *self.state() = state;
        self.done.notify_all();
        self.wake.call();
    }

    /// Whether nobody has begun with the batch.
    pub(crate) fn waits(&self) -> bool {
        matches!(*self.state(), State::Waiting(_))
    }

    /// Whether the batch was studied.
    pub(crate) fn is_done(&self) -> bool {
        matches!(*self.state(), State::Done(_) | State::Lost)
    }

    /// The batch, if it was studied. What comes back is gone from here.
    ///
    /// # Panics
    /// The thread that studied it has panicked.
    pub(crate) fn take(&self) -> Option<Box<Studied>> {
        let mut state = self.state();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Done(studied) => Some(studied),
            State::Lost => panic!("a thread of the crew ended by a fault"),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Waits until the batch, which another thread has, was studied.
    pub(crate) fn wait(&self) {
        let mut state = self.state();
        while matches!(*state, State::Taken | State::Waiting(_)) {
            let waited = self.done.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Says that a batch is lost, should its thread panic.
struct Guard<'a>(&'a Slot);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.set(State::Lost);
        }
    }
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Arc<Slot>>,
    threads: Vec<JoinHandle<()>>,
    idle: usize,
    stopping: bool,
}

/// The threads, and what waits for them.
pub(crate) struct Crew {
    queue: Mutex<Queue>,
    more: Condvar,
    threads_max: usize,
}

impl Crew {
    /// For so many workers.
    pub(crate) fn new(workers: usize) -> Arc<Self> {
        Arc::new(Self {
            queue: Mutex::default(),
            more: Condvar::new(),
            threads_max: workers.saturating_sub(1).min(THREADS_MAX),
        })
    }

    /// Threads that there can be.
    pub(crate) fn size(&self) -> usize {
        self.threads_max
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the batch studied by whoever is free first.
    pub(crate) fn offer(self: &Arc<Self>, slot: &Arc<Slot>) {
        let mut queue = self.queue();
        queue.waiting.push_back(Arc::clone(slot));
        if queue.idle == 0 && queue.threads.len() < self.threads_max && !queue.stopping {
            let (crew, number) = (Arc::clone(self), queue.threads.len());
            let thread = thread::Builder::new().name(format!("crew-{number}"));
            match thread.spawn(move || crew.run()) {
                Ok(thread) => queue.threads.push(thread),
                // The worker takes back what nobody begins.
                Err(error) => tracing::warn!(%error, "a thread cannot be started"),
            }
        }
        let somebody_waits = queue.idle > 0;
        drop(queue);
        if somebody_waits {
            self.more.notify_one();
        }
    }

    /// Ends the threads. What still waits is left to its workers, which have ended.
    pub(crate) fn stop(&self) {
        let mut queue = self.queue();
        queue.stopping = true;
        let threads = std::mem::take(&mut queue.threads);
        drop(queue);
        self.more.notify_all();
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the crew ended by a fault");
            }
        }
    }

    fn run(&self) {
        let mut studies = Studies::default();
        while let Some(slot) = self.next(&mut studies) {
            let Some(mut job) = slot.begin() else {
                continue;
            };
            let guard = Guard(&slot);
            let began = Instant::now();
            let study = studies.of(&job);
            let whole = study.whole(&mut job.open, job.now);
            slot.finish(Studied {
                open: job.open,
                whole,
                took: began.elapsed(),
                elsewhere: true,
            });
            drop(guard);
        }
    }

    /// The next batch; `None` once the threads are to end.
    fn next(&self, studies: &mut Studies) -> Option<Arc<Slot>> {
        let mut queue = self.queue();
        loop {
            if queue.stopping {
                return None;
            }
            if let Some(slot) = queue.waiting.pop_front() {
                return Some(slot);
            }
            queue.idle += 1;
            let waited = self.more.wait_timeout(queue, FORGET);
            let (back, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            queue = back;
            queue.idle -= 1;
            if timeout.timed_out() {
                studies.0.clear();
            }
        }
    }
}

/// What one thread knows of sources, the last used last.
#[derive(Default)]
struct Studies(Vec<(u64, Arc<Source>, Study)>);

impl Studies {
    fn of(&mut self, job: &Job) -> &mut Study {
        let same = |known: &(u64, Arc<Source>, Study)| Arc::ptr_eq(&known.1, &job.source);
        let known = self.0.iter().position(same).map(|at| self.0.remove(at));
        let known = known.filter(|known| known.0 == job.generation);
        let known = known.unwrap_or_else(|| {
            let study = Study::new(&job.doors, &job.source, &job.settings);
            (job.generation, Arc::clone(&job.source), study)
        });
        if self.0.len() >= SOURCES_MAX {
            self.0.remove(0);
        }
        self.0.push(known);
        let last = self.0.len() - 1;
        &mut self.0[last].2
    }
}

/// For who has no thread to be woken.
#[cfg(test)]
pub(crate) fn sleepless() -> Arc<Wake> {
    let poll = mio::Poll::new().expect("a poll");
    let waker = Waker::new(poll.registry(), mio::Token(0)).expect("a waker");
    Wake::new(&Arc::new(waker))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken() -> Arc<Slot> {
        Arc::new(Slot {
            state: Mutex::new(State::Taken),
            done: Condvar::new(),
            wake: sleepless(),
        })
    }

    #[test]
    fn who_waits_for_a_thread_that_panicked_hears_of_it() {
        let slot = taken();
        let thread = thread::spawn({
            let slot = Arc::clone(&slot);
            move || {
                let _guard = Guard(&slot);
                panic!("a fault in the study of a batch");
            }
        });
        slot.wait();
        let worker = thread::spawn(move || slot.take().is_some());
        assert!(
            worker.join().is_err(),
            "its events are in no count: it must not go on"
        );
        assert!(thread.join().is_err());
    }

    #[test]
    fn a_batch_that_somebody_has_is_neither_begun_nor_taken_again() {
        let slot = taken();
        assert!(slot.begin().is_none());
        assert!(slot.take().is_none());
    }

    #[test]
    fn one_worker_has_no_crew() {
        assert_eq!(Crew::new(1).size(), 0);
        assert_eq!(Crew::new(2).size(), 1);
        assert_eq!(Crew::new(256).size(), THREADS_MAX);
    }
}
