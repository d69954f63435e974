//! Single steps of the log for the simulation: no threads, no waiting, the caller's clock.
//!
//! # What it guarantees
//! * The steps run the code of [`crate::DestinationFeed`] and of the writer's thread.
//! * An append without room returns [`TryAppend::WouldBlock`], an empty backlog `None`.
//! * Each sync of a round or of a reclaim is one step, so a crash can come before it.
//!
//! # States
//! [`Log::begin_syncing`] gives a [`SyncingRound`]. [`SyncingRound::run`] syncs,
//! [`SyncingRound::finish`] ends it. A sync that was not run counts as failed.
//! [`Log::go_on_reclaiming`] syncs cursor after cursor, deletes segments, and then returns `None`.

use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use inrush_event::{Batch, Delivery, Fate, Timestamp};

use crate::arrival::IncomingBatch;
use crate::keeper::CursorSync;
use crate::log::{AppendError, Log};
use crate::mutant::{Mutant, is_on};
use crate::rounds::{FinishedRound, WrittenRound};
use crate::state::TakeResult;
use crate::writer::SegmentSync;

/// Reason why a batch was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TryAppend {
    /// As [`Log::append`] says.
    Refused(AppendError),
    /// [`Log::append`] would wait.
    WouldBlock,
}

/// A round that is being synced, if it is to be.
pub struct SyncingRound {
    written: WrittenRound,
    sync: Option<SegmentSync>,
    synced: Option<io::Result<()>>,
}

impl SyncingRound {
    /// The disk has done it, or failed; nobody has taken note of that yet.
    pub fn run(&mut self) {
        self.synced = self.sync.as_ref().map(SegmentSync::run);
    }

    /// True if the sync was run, or none is needed.
    pub fn is_run(&self) -> bool {
        self.synced.is_some() || self.sync.is_none()
    }

    /// Takes note of how it went; a sync that was not run failed.
    #[must_use]
    pub fn finish(mut self) -> FinishedRound {
        let never = || Err(io::ErrorKind::Interrupted.into());
        let synced = self.synced.take().unwrap_or_else(never);
        if let Some(sync) = &self.sync {
            self.written.finish_sync(sync, synced);
        }
        self.written.done()
    }
}

/// Work in hand of the thread that deletes: cursors are synced, one after the other, and then
/// segments are deleted.
pub struct Reclaiming {
    /// Serials of the segments that are to go.
    gone: Vec<u64>,
    cursors: Vec<String>,
    sync: Option<CursorStep>,
}

struct CursorStep {
    name: String,
    sync: CursorSync,
    ok: Option<bool>,
}

impl Reclaiming {
    /// Name of the destination whose cursor is being synced. No other step may sync it meanwhile.
    pub fn syncing(&self) -> Option<&str> {
        self.sync.as_ref().map(|step| &step.name[..])
    }

    /// True if its sync was run.
    pub fn is_run(&self) -> bool {
        self.sync.as_ref().is_some_and(|step| step.ok.is_some())
    }
}

impl Log {
    /// Takes note of what a round has written.
    pub fn begin_syncing(&self, mut written: WrittenRound) -> SyncingRound {
        let sync = self.begin_sync(&mut written);
        SyncingRound {
            written,
            sync,
            synced: None,
        }
    }

    /// Writes what came while the round is synced.
    pub fn write_more(&self, syncing: &mut SyncingRound) {
        if syncing.sync.is_some() && !syncing.written.is_ahead_full() {
            self.write_ahead(&mut syncing.written);
        }
    }

    /// The first step of [`Self::reclaim`]. With `sync`, cursors are synced though there is nothing
    /// to delete.
    pub fn begin_reclaiming(&self, now: Timestamp, sync: bool) -> Reclaiming {
        let gone = self.begin_reclaim(now);
        let wanted = (sync || !gone.is_empty()) && !is_on(Mutant::DeleteEarly);
        Reclaiming {
            gone,
            cursors: if wanted { self.names() } else { Vec::new() },
            sync: None,
        }
    }

    /// The next step; `None` when that was the last.
    pub fn go_on_reclaiming(&self, mut work: Reclaiming) -> Option<Reclaiming> {
        match work.sync.take() {
            Some(mut step) => match step.ok {
                None => {
                    step.ok = Some(step.sync.run().is_ok());
                    work.sync = Some(step);
                }
                Some(ok) => {
                    step.sync.finish(ok);
                    if !ok {
                        work.gone.clear();
                    }
                }
            },
            None => {
                while work.sync.is_none() {
                    let Some(name) = work.cursors.pop() else {
                        self.finish_reclaim(&work.gone);
                        return None;
                    };
                    self.save_cursor(&name);
                    match self.keeper.as_ref()?.begin_sync(&name) {
                        Ok(sync) => {
                            let ok = None;
                            work.sync = sync.map(|sync| CursorStep { name, sync, ok });
                        }
                        Err(_) => work.gone.clear(),
                    }
                }
            }
        }
        Some(work)
    }

    /// [`Self::append_on`] that does not wait.
    ///
    /// # Errors
    /// The batch was not taken.
    pub fn try_append(
        &self,
        batch: Batch,
        gathered: Duration,
        urgent: bool,
        now: Instant,
        accept: impl FnOnce(),
    ) -> Result<u64, TryAppend> {
        let arrival = IncomingBatch::new(batch, gathered).kept(urgent);
        let mut freed = Vec::new();
        let mut state = self.lock();
        match self.admit(&mut state, &arrival, Some(now), &mut freed) {
            Some(Ok(())) => {}
            Some(Err(error)) => return Err(TryAppend::Refused(error)),
            None => return Err(TryAppend::WouldBlock),
        }
        Ok(self.take_in(&mut state, arrival, urgent, now, accept))
    }

    /// Takes the delivery that [`crate::DestinationFeed`] would give now; `None` for nothing.
    pub fn try_take(&self, name: &str, now: Instant) -> Option<Delivery> {
        loop {
            match self.try_next(name, now) {
                None => {}
                Some(TakeResult::Delivery(delivery)) => return Some(delivery),
                Some(_) => return None,
            }
        }
    }

    /// Settles events as [`crate::DestinationFeed`] does.
    pub fn settle_now(
        &self,
        name: &str,
        position: u64,
        events: Range<u32>,
        fate: &Fate,
        now: Instant,
    ) {
        self.settle(name, position, events, fate, now);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use inrush_event::{Anomalies, BatchPool, Ledger, Record, SourceInfo, Span, limits};

    use std::sync::Arc;

    use super::*;
    use crate::format::LogId;
    use crate::storage::{DiskCall, VirtualDisk};
    use crate::{QueueOptions, WhenFull};

    fn batch() -> Batch {
        let source = Arc::new(SourceInfo {
            name: "s".into(),
            index: "main".into(),
            sourcetype: "syslog".into(),
        });
        let mut builder = BatchPool::new().lend(&source, limits::MESSAGE_BYTES_DEFAULT);
        builder.stamp(Timestamp(7));
        builder.extend(b"event");
        let record = Record::unparsed(Span::new(0, 5), Timestamp(7), 0, Anomalies::NONE);
        builder.parts().1.push(record);
        builder.freeze(0)
    }

    #[test]
    fn nothing_is_accepted_while_what_came_before_is_not_written() {
        let disk = VirtualDisk::new(1);
        let options = |when_full| QueueOptions {
            when_full,
            ..QueueOptions::default()
        };
        let (ledger, id) = (Ledger::new(), LogId::from_bytes([1; 16]));
        let storage = Arc::new(disk.clone());
        let log = Log::open_on(storage, options(WhenFull::Block), Arc::clone(&ledger), id).unwrap();
        log.attach(&ledger.destination("out"));
        let append = |now| log.try_append(batch(), Duration::ZERO, false, now, || {});
        let begun = Instant::now();
        let late = begun + Duration::from_millis(41);
        append(begun).unwrap();
        append(begun + Duration::from_millis(40)).unwrap();
        assert_eq!(append(late), Err(TryAppend::WouldBlock));
        log.reconfigure(options(WhenFull::DropNewest));
        assert_eq!(append(late), Err(TryAppend::WouldBlock), "there is room");

        let round = log.begin_round(late).unwrap();
        append(late).unwrap();
        let mut syncing = log.begin_syncing(round.write());
        let later = late + Duration::from_millis(41);
        assert_eq!(append(later), Err(TryAppend::WouldBlock));
        log.write_more(&mut syncing);
        append(later).unwrap();

        // The sync fails: what was written waits again, and the disk is known to fail.
        log.finish_round(syncing.finish(), later);
        assert_eq!(append(later), Err(TryAppend::Refused(AppendError::Full)));
        log.reconfigure(options(WhenFull::Block));
        assert_eq!(append(later), Err(TryAppend::WouldBlock));
        let round = log.begin_round(later).unwrap();
        append(later).unwrap();
        let mut syncing = log.begin_syncing(round.write());
        syncing.run();
        log.finish_round(syncing.finish(), later);
        assert!(log.durable_end() > 4);
    }

    /// Senders keep them, but a disk that fails or hangs is full for all.
    #[test]
    fn nothing_that_senders_keep_is_accepted_while_the_disk_fails_or_hangs() {
        let disk = VirtualDisk::new(1);
        let (ledger, id) = (Ledger::new(), LogId::from_bytes([1; 16]));
        let options = QueueOptions::default();
        let log = Log::open_on(Arc::new(disk), options, Arc::clone(&ledger), id).unwrap();
        log.attach(&ledger.destination("out"));
        let append = |now| log.try_append(batch(), Duration::ZERO, true, now, || {});
        let ms = |ms| Duration::from_millis(ms);
        let begun = Instant::now();
        append(begun).unwrap();
        append(begun + ms(250)).unwrap();
        assert_eq!(
            append(begun + ms(251)),
            Err(TryAppend::WouldBlock),
            "it hangs"
        );

        let syncing = log.begin_syncing(log.begin_round(begun).unwrap().write());
        append(begun + ms(251)).unwrap();
        // The sync is never run, so it fails.
        log.finish_round(syncing.finish(), begun + ms(251));
        assert_eq!(
            append(begun + ms(260)),
            Err(TryAppend::WouldBlock),
            "it fails"
        );
    }

    #[test]
    fn a_batch_that_gathered_has_its_round_sooner() {
        let (ledger, id) = (Ledger::new(), LogId::from_bytes([1; 16]));
        let (storage, options) = (Arc::new(VirtualDisk::new(1)), QueueOptions::default());
        let log = Log::open_on(storage, options, Arc::clone(&ledger), id).unwrap();
        log.attach(&ledger.destination("out"));
        let now = Instant::now();
        let append = |gathered| {
            let gathered = Duration::from_millis(gathered);
            log.try_append(batch(), gathered, false, now, || {})
                .unwrap();
        };
        let due = || log.round_due_in(now).map(|due| due.as_millis());
        append(0);
        assert_eq!(due(), Some(25));
        append(10);
        assert_eq!(due(), Some(15), "it takes those before it with it");
        let round = log.begin_round(now).unwrap();
        append(0);
        append(60);
        let ahead = log.lock().ahead_due_in(now, Duration::from_millis(25));
        assert_eq!(ahead, Some(Duration::from_millis(5)));
        let mut syncing = log.begin_syncing(round.write());
        syncing.run();
        log.finish_round(syncing.finish(), now);
        assert_eq!(
            due(),
            Some(5),
            "others that come at the same time still join it"
        );
    }

    #[test]
    fn the_writer_is_woken_for_what_is_due_before_it_looks() {
        let (ledger, id) = (Ledger::new(), LogId::from_bytes([1; 16]));
        let (storage, options) = (Arc::new(VirtualDisk::new(1)), QueueOptions::default());
        let log = Log::open_on(storage, options, Arc::clone(&ledger), id).unwrap();
        log.attach(&ledger.destination("out"));
        let now = Instant::now();
        let ms = Duration::from_millis;
        let first = log.durable_end();
        let mut state = log.lock();
        let mut must_wake = |rest: Option<u64>, nth, gathered| {
            let position = first + nth;
            state.rests_until(rest.map(|rest| now + ms(rest)));
            let disk = state.disk.as_ref().unwrap();
            disk.must_wake(position, now.checked_sub(ms(gathered)).unwrap())
        };
        assert!(must_wake(Some(500), 0, 0), "at rest for long");
        assert!(!must_wake(Some(25), 1, 0), "for the one before");
        assert!(
            must_wake(Some(25), 1, 20),
            "that one came just now, and this one gathered"
        );
        assert!(!must_wake(Some(6), 0, 20), "at its own pace");
        assert!(must_wake(None, 0, 0), "it waits for a sync");
        assert!(!must_wake(None, 1, 0), "it knows of the one before");
    }

    #[test]
    fn a_place_that_is_left_behind_settles_no_new_event() {
        let disk = VirtualDisk::new(1);
        let open = |ledger: &Arc<Ledger>| {
            let (options, id) = (QueueOptions::default(), LogId::from_bytes([1; 16]));
            Log::open_on(Arc::new(disk.clone()), options, Arc::clone(ledger), id).unwrap()
        };
        let now = Instant::now();

        // A destination that is never named takes an event that is never written.
        let ledger = Ledger::new();
        let log = open(&ledger);
        log.attach(&ledger.destination("old"));
        disk.fail_next(DiskCall::Rename);
        log.attach(&ledger.destination("new"));
        log.try_append(batch(), Duration::ZERO, true, now, || {})
            .unwrap();
        let lost = log.try_take("new", now).unwrap();
        log.settle_now("new", lost.position, 0..1, &Fate::Delivered, now);
        disk.end_process();

        // Its file stays.
        disk.fail_next(DiskCall::Remove);
        let ledger = Ledger::new();
        let log = open(&ledger);
        log.attach(&ledger.destination("old"));
        log.try_append(batch(), Duration::ZERO, true, now, || {})
            .unwrap();
        let new = log.try_take("old", now).unwrap();
        assert!(new.origin.first_event > lost.origin.first_event);
    }

    #[test]
    fn a_destination_is_not_named_before_it_has_a_place() {
        let disk = VirtualDisk::new(1);
        let open = || {
            let (storage, ledger) = (Arc::new(disk.clone()), Ledger::new());
            let (options, id) = (QueueOptions::default(), LogId::from_bytes([1; 16]));
            let log = Log::open_on(storage, options, Arc::clone(&ledger), id).unwrap();
            log.attach(&ledger.destination("out"));
            (log, ledger)
        };
        let write = |log: &Arc<Log>| {
            let now = Instant::now();
            log.try_append(batch(), Duration::ZERO, true, now, || {})
                .unwrap();
            let round = log.begin_round(now).unwrap();
            let mut syncing = log.begin_syncing(round.write());
            syncing.run();
            log.finish_round(syncing.finish(), now);
        };
        let (log, ledger) = open();
        write(&log);

        // The cursor's file cannot be made.
        disk.fail_next(DiskCall::Create);
        log.attach(&ledger.destination("new"));
        disk.end_process();
        let (log, ledger) = open();
        assert_eq!(log.names(), ["out"]);

        // Before anything counts that it waits for, it has its place: behind what was there.
        disk.fail_next(DiskCall::Create);
        log.attach(&ledger.destination("new"));
        write(&log);
        disk.end_process();
        let (log, _) = open();
        let pending = |name: &str, events| (name.to_owned(), events);
        let opened = &log.opened().pending;
        assert_eq!(*opened, [pending("out", 2), pending("new", 1)]);
    }
}
