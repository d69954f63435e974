//! Work-sharing pool: threads that run tasks for a worker that is saturated, so that one socket or
//! connection is taken in by all cores.
//!
//! # What it guarantees
//! * A worker gets its results back in the order in which it gave the tasks: it has a list of the
//!   [`PoolSlot`]s.
//! * A task is with one thread at a time. One that no thread has begun, its worker can take back.
//! * There is no thread before there is work for it.
//!
//! # States of a slot
//! Waiting ([`PoolSlot::new`]), taken ([`PoolSlot::begin`]), done ([`PoolSlot::finish`]), and lost
//! if the thread that had it has panicked. [`PoolSlot::take`] empties one that is done.
//!
//! # Limits
//! One thread fewer than there are workers, so none on one core; 32 at most.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Threads, at most: what one core reads is not more than so many can study.
const THREADS_MAX: usize = 32;

/// Time without work after which a thread forgets what tasks left with it.
const FORGET: Duration = Duration::from_secs(10);

/// Work that a thread of the pool can do for a worker.
pub trait PoolTask: Send + 'static {
    /// Result that the worker takes back.
    type Done: Send;
    /// State that a thread keeps from one task to the next.
    type Memory: Default;

    /// Does the work.
    fn run(self, memory: &mut Self::Memory) -> Self::Done;
}

/// Ends the sleep of a worker, if it sleeps: a call of the kernel that would otherwise be made for
/// every batch.
pub struct WorkerWaker {
    asleep: AtomicBool,
    wake: Box<dyn Fn() -> io::Result<()> + Send + Sync>,
}

impl WorkerWaker {
    /// Of a worker that `wake` wakes, from any thread.
    pub fn new(wake: impl Fn() -> io::Result<()> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            asleep: AtomicBool::new(false),
            wake: Box::new(wake),
        })
    }

    /// The worker is about to sleep. It must look for news after this, and before it sleeps.
    pub fn fall_asleep(&self) {
        self.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// It sleeps no more.
    pub fn awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// There is news, which is to be seen already.
    fn call(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst)
            && let Err(error) = (self.wake)()
        {
            tracing::error!(%error, "cannot wake a worker");
        }
    }
}

enum SlotState<T: PoolTask> {
    Waiting(Box<T>),
    Taken,
    Done(Box<T::Done>),
    /// The thread that had it has panicked.
    Lost,
}

/// Place of a task in the order of its worker.
pub struct PoolSlot<T: PoolTask> {
    state: Mutex<SlotState<T>>,
    done: Condvar,
    wake: Arc<WorkerWaker>,
}

impl<T: PoolTask> PoolSlot<T> {
    /// Place of `task`; `wake` is its worker's.
    pub fn new(task: T, wake: Arc<WorkerWaker>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(SlotState::Waiting(Box::new(task))),
            done: Condvar::new(),
            wake,
        })
    }

    fn state(&self) -> MutexGuard<'_, SlotState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the task, if no thread has begun with it.
    pub fn begin(&self) -> Option<Box<T>> {
        let mut state = self.state();
        match std::mem::replace(&mut *state, SlotState::Taken) {
            SlotState::Waiting(task) => Some(task),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Puts the result in its place.
    pub fn finish(&self, done: T::Done) {
        self.set(SlotState::Done(Box::new(done)));
    }

    fn set(&self, state: SlotState<T>) {
        *self.state() = state;
        self.done.notify_all();
        self.wake.call();
    }

    /// True if no thread has begun with the task.
    pub fn waits(&self) -> bool {
        matches!(*self.state(), SlotState::Waiting(_))
    }

    /// True if the task is done, or the thread that had it has panicked.
    pub fn is_done(&self) -> bool {
        matches!(*self.state(), SlotState::Done(_) | SlotState::Lost)
    }

    /// Takes the result, if the task is done.
    ///
    /// # Panics
    /// The thread that had it has panicked.
    pub fn take(&self) -> Option<Box<T::Done>> {
        let mut state = self.state();
        match std::mem::replace(&mut *state, SlotState::Taken) {
            SlotState::Done(done) => Some(done),
            SlotState::Lost => panic!("a thread of the pool ended by a fault"),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Waits until the task, which another thread has, is done.
    pub fn wait(&self) {
        let mut state = self.state();
        while matches!(*state, SlotState::Taken | SlotState::Waiting(_)) {
            let waited = self.done.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Marks a task as lost, should its thread panic.
struct LostGuard<'a, T: PoolTask>(&'a PoolSlot<T>);

impl<T: PoolTask> Drop for LostGuard<'_, T> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.set(SlotState::Lost);
        }
    }
}

struct TaskQueue<T: PoolTask> {
    waiting: VecDeque<Arc<PoolSlot<T>>>,
    threads: Vec<JoinHandle<()>>,
    idle: usize,
    stopping: bool,
}

/// The threads, and the tasks that wait for them.
pub struct WorkPool<T: PoolTask> {
    queue: Mutex<TaskQueue<T>>,
    more: Condvar,
    threads_max: usize,
}

impl<T: PoolTask> WorkPool<T> {
    /// A pool for so many workers.
    pub fn new(workers: usize) -> Arc<Self> {
        let queue = TaskQueue {
            waiting: VecDeque::new(),
            threads: Vec::new(),
            idle: 0,
            stopping: false,
        };
        Arc::new(Self {
            queue: Mutex::new(queue),
            more: Condvar::new(),
            threads_max: workers.saturating_sub(1).min(THREADS_MAX),
        })
    }

    /// Threads that there can be.
    pub fn size(&self) -> usize {
        self.threads_max
    }

    fn queue(&self) -> MutexGuard<'_, TaskQueue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the task done by the first thread that is free; `false`: there is none, nor can one be
    /// started, and the task is its worker's to do.
    pub fn submit(self: &Arc<Self>, slot: &Arc<PoolSlot<T>>) -> bool {
        let mut queue = self.queue();
        queue.waiting.push_back(Arc::clone(slot));
        if queue.idle == 0 && queue.threads.len() < self.threads_max && !queue.stopping {
            let (pool, number) = (Arc::clone(self), queue.threads.len());
            let thread = thread::Builder::new().name(format!("pool-{number}"));
            match thread.spawn(move || pool.run()) {
                Ok(thread) => queue.threads.push(thread),
                Err(error) => tracing::warn!(%error, "a thread cannot be started"),
            }
        }
        let (is_awaited, has_threads) = (queue.idle > 0, !queue.threads.is_empty());
        drop(queue);
        if is_awaited {
            self.more.notify_one();
        }
        has_threads
    }

    /// Ends the threads. Tasks that still wait are left to their workers, which have ended.
    pub fn stop(&self) {
        let mut queue = self.queue();
        queue.stopping = true;
        let threads = std::mem::take(&mut queue.threads);
        drop(queue);
        self.more.notify_all();
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the pool ended by a fault");
            }
        }
    }

    fn run(&self) {
        let mut memory = T::Memory::default();
        while let Some(slot) = self.next(&mut memory) {
            let Some(task) = slot.begin() else {
                continue;
            };
            let guard = LostGuard(&*slot);
            slot.finish(task.run(&mut memory));
            drop(guard);
        }
    }

    /// The next slot; `None` once the threads are to end.
    fn next(&self, memory: &mut T::Memory) -> Option<Arc<PoolSlot<T>>> {
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
                *memory = T::Memory::default();
            }
        }
    }
}

/// Wakes no thread.
#[cfg(test)]
pub fn sleepless() -> Arc<WorkerWaker> {
    WorkerWaker::new(|| Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task that does nothing.
    struct Idle;

    impl PoolTask for Idle {
        type Done = ();
        type Memory = ();

        fn run(self, (): &mut ()) {}
    }

    fn taken() -> Arc<PoolSlot<Idle>> {
        let slot = PoolSlot::new(Idle, sleepless());
        assert!(slot.begin().is_some());
        slot
    }

    #[test]
    fn a_worker_hears_of_a_thread_that_panicked() {
        let slot = taken();
        let thread = thread::spawn({
            let slot = Arc::clone(&slot);
            move || {
                let _guard = LostGuard(&*slot);
                panic!("a fault in a task");
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
    fn a_task_that_is_taken_is_neither_begun_nor_done() {
        let slot = taken();
        assert!(slot.begin().is_none());
        assert!(slot.take().is_none());
    }

    #[test]
    fn one_worker_has_no_pool() {
        assert_eq!(WorkPool::<Idle>::new(1).size(), 0);
        assert_eq!(WorkPool::<Idle>::new(2).size(), 1);
        assert_eq!(WorkPool::<Idle>::new(256).size(), THREADS_MAX);
    }
}
