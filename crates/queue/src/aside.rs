//! The threads of a log on disk: one writes, one syncs and one deletes, so that the one that writes
//! need not wait. A disk may take a hundred milliseconds to sync, and what is accepted meanwhile is
//! promised to be written within fifty.
//!
//! Nothing is promised of what senders keep until they are answered. While nothing else comes and
//! the disk is quick, the writer syncs by itself: no other thread has to be woken for a round.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use inrush_event::{Timestamp, limits, steady};

use crate::gathering::LINGER;
use crate::log::Log;
use crate::rounds::{CommitRound, FinishedRound, RECLAIM_EVERY};
use crate::writer::SegmentSync;

/// Time between two searches of the tidying thread for segments to delete: a destination that
/// catches up at 500 MB/s leaves less than a segment behind meanwhile.
const TIDY_EVERY: Duration = Duration::from_millis(100);

/// Channel to the thread that syncs segments, if there is one.
type SegmentSyncSender = Option<SyncSender<Arc<SegmentSync>>>;

/// Result of a sync, for the writer that waits for it. The writer gets it even if the sync panics.
struct SyncCompletion<'a> {
    log: &'a Log,
    synced: Option<io::Result<()>>,
}

impl Drop for SyncCompletion<'_> {
    fn drop(&mut self) {
        let synced = self.synced.take();
        let fault = || Err(io::Error::other("the sync ended by a fault"));
        if let Some(disk) = &mut self.log.lock().disk {
            disk.synced = Some(synced.unwrap_or_else(fault));
        }
        self.log.work.notify_one();
    }
}

impl Log {
    /// Starts the thread that writes; it ends, with everything written, once the log is closed.
    /// A log in memory has one if it keeps positions of streams.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(self: &Arc<Self>) -> io::Result<Option<std::thread::JoinHandle<()>>> {
        let log = Arc::clone(self);
        let writer = std::thread::Builder::new().name("queue".into());
        if self.keeper.is_none() {
            let keeps = self.noted.is_alone();
            let keep = || writer.spawn(move || log.keep_positions_until_closed());
            return keeps.then(keep).transpose();
        }
        writer.spawn(move || log.keep_writing()).map(Some)
    }

    fn keep_writing(&self) {
        let (jobs, to_sync) = sync_channel(1);
        let (stop, stopped) = sync_channel::<()>(0);
        std::thread::scope(|scope| {
            // Without these threads everything is done here, only later.
            let syncs = std::thread::Builder::new()
                .name("queue-sync".into())
                .spawn_scoped(scope, move || self.keep_syncing(&to_sync))
                .is_ok();
            let tidies = std::thread::Builder::new()
                .name("queue-tidy".into())
                .spawn_scoped(scope, move || self.keep_tidy(&stopped))
                .is_ok();
            self.write_until_closed(&syncs.then_some(jobs), tidies);
            drop(stop);
        });
        self.write_what_fits();
        self.reclaim(self.believed_now());
        self.save_cursors();
    }

    /// At a stop, writes what could not be written before: into the reserve, and batch by batch
    /// once a whole round has no room.
    fn write_what_fits(&self) {
        for bytes_max in [limits::QUEUE_ROUND_BYTES, 1] {
            while let Some(round) = self.last_round(bytes_max) {
                self.finish_round(self.run(round, &None), Instant::now());
                if self.closed_and_stuck() {
                    break;
                }
            }
        }
    }

    /// The time by which an abandoned destination grows old: a clock that jumps must not end it.
    fn believed_now(&self) -> Timestamp {
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        clock.judge(Timestamp::now(), steady()).oldest
    }

    fn keep_tidy(&self, stopped: &Receiver<()>) {
        let (mut asked, mut now) = (Instant::now(), self.believed_now());
        while stopped.recv_timeout(TIDY_EVERY) == Err(RecvTimeoutError::Timeout) {
            if asked.elapsed() >= RECLAIM_EVERY {
                (asked, now) = (Instant::now(), self.believed_now());
            }
            self.reclaim(now);
        }
    }

    fn keep_syncing(&self, jobs: &Receiver<Arc<SegmentSync>>) {
        for job in jobs {
            let mut answer = SyncCompletion {
                log: self,
                synced: None,
            };
            answer.synced = Some(job.run());
        }
    }

    fn write_until_closed(&self, aside: &SegmentSyncSender, tidied: bool) {
        let mut reclaimed = Instant::now();
        loop {
            let now = Instant::now();
            let untidy = !tidied && now.duration_since(reclaimed) >= RECLAIM_EVERY;
            if untidy || self.is_full() {
                self.reclaim(self.believed_now());
                reclaimed = now;
            }
            self.let_the_blocked_go_on(now);
            if self.round_due_in(now) == Some(Duration::ZERO) {
                if let Some(round) = self.begin_round(now) {
                    self.finish_round(self.run(round, aside), Instant::now());
                }
                if !self.closed_and_stuck() {
                    continue;
                }
            }
            let mut state = self.lock();
            // Asked again: what came since the last look has not woken anybody.
            let now = Instant::now();
            let due = state.round_due_in(now, LINGER);
            if state.closed && (due.is_none() || state.is_stalled()) {
                break;
            }
            let Some(rest) = state.rest(now) else {
                continue;
            };
            state.rests_until(Some(now + rest));
            let rested = self.work.wait_timeout(state, rest);
            let (mut state, _) = rested.unwrap_or_else(PoisonError::into_inner);
            state.rests_until(None);
        }
    }

    /// Does a round; what comes while it is synced is written ahead.
    fn run(&self, round: CommitRound, aside: &SegmentSyncSender) -> FinishedRound {
        let mut written = round.write();
        if let Some(sync) = self.begin_sync(&mut written) {
            let sync = Arc::new(sync);
            // Nobody is promised that more is written meanwhile: no other thread needs to be woken.
            let aside = aside.as_ref().filter(|_| !written.may_wait());
            let sent = aside.map(|jobs| jobs.send(Arc::clone(&sync)));
            let synced = match sent {
                Some(Ok(())) => loop {
                    let may_write = !written.is_ahead_full();
                    match self.await_sync(may_write) {
                        Some(synced) => break synced,
                        None => self.write_ahead(&mut written),
                    }
                },
                _ => sync.run(),
            };
            written.finish_sync(&sync, synced);
        }
        written.done()
    }

    /// Waits until the sync is done, or, with `may_write`, there is something to be written
    /// meanwhile: then it is `None`.
    fn await_sync(&self, may_write: bool) -> Option<io::Result<()>> {
        let mut state = self.lock();
        loop {
            if let Some(synced) = state.disk.as_mut()?.synced.take() {
                return Some(synced);
            }
            let now = Instant::now();
            let due = state.ahead_due_in(now, LINGER);
            let due = due.filter(|_| may_write);
            if due == Some(Duration::ZERO) {
                return None;
            }
            state.rests_until(due.map(|due| now + due));
            let wait = due.unwrap_or(RECLAIM_EVERY);
            let waited = self.work.wait_timeout(state, wait);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.rests_until(None);
        }
    }

    /// While the disk is full or fails, lets settled batches make room for the appends that wait.
    fn let_the_blocked_go_on(&self, now: Instant) {
        let wanted = {
            let state = self.lock();
            state.is_stalled() && state.blocked > 0
        };
        if wanted {
            self.skip_needless(now);
        }
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
}
