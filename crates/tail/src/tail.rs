//! Reader of a source's logs: one thread for all of them.
//!
//! # What it guarantees
//! * Logs that have something are read in turn, so many bytes each: a loud one delays no other by
//!   more than one turn of each.
//! * Nothing is read while the queue has no room, or what destinations are about to take fills a
//!   part of it: the files keep it. Files without a name are closed in time all the same.
//! * The position of a log goes into the batch that has its events.
//!
//! # From a new file to its first event
//! The kernel's notice wakes the finder, which opens the file and wakes this reader. A file that is
//! still empty is looked at again after [`FIRST_LOOK`], then at every tick of 40 ms. What is read
//! goes to the queue at once, or with the next tick if this one had its batch. The queue writes it
//! within 50 ms. A destination adds its own wait: `batch.timeout`, 45 ms for HEC. That makes 140 ms
//! at most on an idle disk, and `metadata_wait` where a pod is not known yet.
//!
//! # States of a log
//! Held: its container's metadata is awaited, or its rate is used up; nothing is read. Busy: it is
//! read at every tick. Idle: nothing was added for [`IDLE_AFTER`], and the finder says when
//! something is.
//!
//! # Limits
//! Unfinished lines and open events have the memory of the source's [`BufferQuota`]; those that
//! have stood longest are given up.
//!
//! # After a crash
//! What was read and is in no durable batch is read again.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use inrush_event::{instant_now, limits};
use inrush_ingest::batch_writer::source::IngestSource;
use inrush_ingest::batch_writer::stream::{StreamBuffer, StreamDecoder};
use inrush_ingest::batch_writer::{BatchWriter, WorkerContext};
use inrush_ingest::buffer_quota::BufferQuota;
use inrush_ingest::coalescing::{CoalescingMeter, tick_after};
use inrush_ingest::now::Now;
use inrush_ingest::pool::WorkerWaker;
use inrush_ingest::saturation::SaturationMonitor;
use inrush_queue::{Log, PatientRoom};
use inrush_transport::files::identity::{FileIdentity, InodeKey};
use inrush_transport::files::tail_file::TailFile;
use slab::Slab;

use super::counts::SharedCounts;
use super::decoder::{LogDecoder, LogForm, NamedForm};
use super::log::{Generation, ShortenedFile, TailedLog, TurnBounds, TurnNews};
use super::place::LogPlace;
use super::turn::LogTurn;

/// Time without growth after which a log is watched in place of being read at every tick.
const IDLE_AFTER: Duration = Duration::from_secs(2);

/// A new file that was found empty is looked at again after this, then each time after as long
/// again, until it is read at every tick: its first line is often written right behind its name.
const FIRST_LOOK: Duration = Duration::from_millis(5);

/// Time for which that goes on.
const FIRST_LOOKS: Duration = Duration::from_millis(40);

/// A file that cannot be read is tried again after this.
const RETRY: Duration = Duration::from_secs(1);

/// A log whose name is gone is looked at this often.
const ENDING_LOOK: Duration = Duration::from_millis(500);

/// While the queue has no room, it is looked for this often.
const LOOK_FOR_ROOM: Duration = Duration::from_millis(5);

/// Longest rest: names that are gone, and files that nobody watches, are looked after then.
const REST_MAX: Duration = Duration::from_millis(250);

/// Order to the reader.
pub(super) enum TailOrder {
    /// A log was found.
    Open(Box<FoundLog>),
    /// Another generation of a log was found.
    Next(u64, Box<Generation>),
    /// Files that came behind those of a log, and before the next one, were deleted unread.
    Gap(u64),
    /// The newest generation of a log has lost its name.
    NameGone(u64),
    /// The newest generation of a log has this name, perhaps again.
    Named(u64, PathBuf),
    /// The newest generation of a log had this name, and has lost it.
    NameWas(u64, PathBuf),
    /// A shortened file is read from its beginning, behind the copies of what it had.
    Anew(u64, Vec<Generation>),
    /// Says how much of the newest file of a log is read, in answer to the question of this number.
    Look(u64, u64),
    /// From now on the kernel says when something is added to the log.
    Watched(u64),
    /// The kernel says so: something was added to the log.
    Changed(u64),
    /// The log has another form, from its next line on.
    Form(u64, NamedForm),
    /// The log is not wanted any more.
    Forget(u64),
    /// The position of a log that is gone is not needed any more.
    ForgetPosition(u64),
    /// A position of a file that is not read any more.
    Note(u64, Vec<u8>),
    /// Time that a file whose name is gone may be held, at most.
    Hold(Duration),
    /// End.
    Stop,
}

impl TailOrder {
    /// The log that it is to.
    pub(super) fn stream(&self) -> Option<u64> {
        match self {
            Self::Open(found) => Some(found.place.stream()),
            Self::Next(stream, _)
            | Self::Gap(stream)
            | Self::NameGone(stream)
            | Self::Named(stream, _)
            | Self::NameWas(stream, _)
            | Self::Anew(stream, _)
            | Self::Look(stream, _)
            | Self::Watched(stream)
            | Self::Changed(stream)
            | Self::Form(stream, _)
            | Self::Forget(stream)
            | Self::ForgetPosition(stream)
            | Self::Note(stream, _) => Some(*stream),
            Self::Hold(_) | Self::Stop => None,
        }
    }
}

/// Sends orders to the reader, and wakes it.
#[derive(Clone)]
pub(super) struct ReaderHandle {
    pub(super) orders: Sender<TailOrder>,
    pub(super) thread: Thread,
}

impl ReaderHandle {
    /// Gives an order.
    pub(super) fn order(&self, order: TailOrder) {
        // The reader ends after the finder; if it is gone, the process is ending.
        if self.orders.send(order).is_ok() {
            self.thread.unpark();
        }
    }
}

/// A log that was found.
pub(super) struct FoundLog {
    /// Its path, for people.
    pub(super) path: Arc<Path>,
    /// Form of its lines, and what its events have in common.
    pub(super) form: Arc<LogForm>,
    /// Place at which it begins.
    pub(super) place: LogPlace,
    /// Its oldest generation that is not read.
    pub(super) first: Generation,
}

/// Report of the reader to the finder.
pub(super) enum TailReport {
    /// Nothing was added to the log for a while: say when something is.
    Watch(u64, Arc<TailFile>),
    /// The head of a file has grown.
    Learnt(FileIdentity),
    /// The file of a log became shorter; it is read on when the finder says how.
    Shortened(u64, ShortenedFile),
    /// So much was read of the newest file of a log since it was last cut: the answer to the
    /// question of this number.
    Looked(u64, u64, u64),
    /// A generation was left for the next one, with so many bytes taken.
    Left(InodeKey, u64),
    /// The log has ended, and its files are closed.
    Ended(EndedLog),
}

/// A log that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct EndedLog {
    /// Its number.
    pub(super) stream: u64,
    /// Inode of its last file.
    pub(super) last: InodeKey,
    /// Bytes of that file that are taken.
    pub(super) taken: u64,
    /// Bytes of that file that were left unread: it was held for too long.
    pub(super) unread: u64,
    /// True if that file is deleted: its position is forgotten.
    pub(super) is_deleted: bool,
}

/// Reader of the logs of one source.
pub(super) struct LogReader {
    orders: Receiver<TailOrder>,
    reports: Sender<TailReport>,
    /// Wakes the finder, which has a report.
    wake_finder: Box<dyn Fn() + Send>,
    writer: BatchWriter,
    log: Arc<Log>,
    /// Room of the queue when it was last asked.
    room: PatientRoom,
    /// Bytes read since then.
    unasked: usize,
    /// Ends our own sleep.
    wake: Arc<WorkerWaker>,
    counts: SharedCounts,
    logs: Slab<Box<TailedLog>>,
    /// Places in `logs`, by stream.
    by_stream: HashMap<u64, usize>,
    /// Logs that are read at every tick.
    busy: Vec<usize>,
    /// Logs that are looked at again at a time: those that failed, or whose name is gone.
    timed: Vec<(Instant, usize)>,
    quota: BufferQuota,
    hold: Duration,
    pressure: SaturationMonitor,
    trickle: CoalescingMeter,
    /// The next tick at which a trickle is handed on.
    tick: Instant,
    worker: usize,
    stopping: bool,
}

impl LogReader {
    /// The reader of a source. To be made on its own thread.
    pub(super) fn new(
        context: WorkerContext,
        source: Arc<IngestSource>,
        counts: SharedCounts,
        (orders, reports): (Receiver<TailOrder>, Sender<TailReport>),
        wake_finder: Box<dyn Fn() + Send>,
        carry_bytes: u64,
    ) -> Self {
        let own = thread::current();
        let wake = WorkerWaker::new(move || {
            own.unpark();
            Ok(())
        });
        Self {
            orders,
            reports,
            wake_finder,
            worker: context.worker,
            log: Arc::clone(&context.log),
            room: PatientRoom::Free,
            unasked: 0,
            writer: BatchWriter::new(context, source, Arc::clone(&wake)).admitted(),
            wake,
            counts,
            logs: Slab::new(),
            by_stream: HashMap::new(),
            busy: Vec::new(),
            timed: Vec::new(),
            quota: BufferQuota::of(carry_bytes),
            hold: Duration::MAX,
            pressure: SaturationMonitor::new(),
            trickle: CoalescingMeter::new(instant_now()),
            tick: instant_now(),
            stopping: false,
        }
    }

    /// Reads until it is told to stop.
    pub(super) fn run(mut self) {
        while !self.stopping {
            if !self.step(Now::read()) && !self.stopping {
                self.rest();
            }
        }
        self.close(Now::read());
    }

    /// Obeys, reads and hands on. Returns true if there is more to do at once.
    pub(super) fn step(&mut self, now: Now) -> bool {
        self.obey(now);
        self.look_for_room();
        let more = self.read_round(now);
        let trickles = self.trickle.holds(now.instant);
        self.writer.pace(trickles);
        // What has gathered in the files until a tick waits for no other one.
        match trickles && self.tick <= now.instant && self.writer.flush_if_any(now) {
            true => self.tick = tick_after(now.instant, self.worker),
            false => self.writer.flush_if_due(now),
        }
        self.relieve(now);
        let helps = self.writer.help(now);
        self.judge(now);
        more || helps
    }

    /// Hands on what was read, at the end.
    pub(super) fn close(mut self, now: Now) {
        self.writer.close(now);
        if self.room == PatientRoom::Full {
            self.log.goes_on();
        }
    }

    /// Asks the queue whether it has room.
    fn look_for_room(&mut self) {
        let room = self.log.patient_room();
        let [was_full, is_full] = [self.room, room].map(|room| room == PatientRoom::Full);
        match (was_full, is_full) {
            (false, true) => self.log.waits(),
            (true, false) => self.log.goes_on(),
            (true, true) | (false, false) => {}
        }
        (self.room, self.unasked) = (room, 0);
    }

    /// Takes note of what a turn has read.
    fn has_read(&mut self, bytes: usize) {
        self.trickle.read(bytes);
        self.unasked += bytes;
        if self.unasked >= limits::BATCH_FLUSH_BYTES {
            self.look_for_room();
        }
    }

    /// Obeys all orders that have come.
    fn obey(&mut self, now: Now) {
        loop {
            match self.orders.try_recv() {
                Ok(order) => self.follow(order, now),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    self.stopping = true;
                    return;
                }
            }
        }
    }

    fn follow(&mut self, order: TailOrder, now: Now) {
        match order {
            TailOrder::Open(found) => self.open(*found, now.instant),
            TailOrder::Next(stream, generation) => {
                if !self.by_stream.contains_key(&stream) {
                    self.counts.closed(1);
                }
                self.with(stream, |log| log.push(*generation, now.instant));
                self.busy(stream);
            }
            TailOrder::Gap(stream) => self.with(stream, TailedLog::gap_follows),
            TailOrder::NameGone(stream) => {
                self.with(stream, |log| log.name_gone(now.instant));
                self.busy(stream);
            }
            TailOrder::Named(stream, path) => {
                self.with(stream, TailedLog::name_back);
                self.named(stream, &path);
            }
            TailOrder::NameWas(stream, path) => self.named(stream, &path),
            TailOrder::Anew(stream, copies) => self.start_anew(stream, copies, now),
            TailOrder::Look(stream, number) => self.look(stream, number),
            // What was added before is seen by one more read.
            TailOrder::Watched(stream) => self.busy_once(stream),
            TailOrder::Changed(stream) => {
                self.with(stream, |log| log.is_watched = false);
                self.busy(stream);
            }
            TailOrder::Form(stream, form) => {
                self.with(stream, |log| log.buffer.decoder.replace_form(form));
                // It may have been held, or be wanted now.
                self.busy(stream);
            }
            TailOrder::Forget(stream) => {
                if let Some(key) = self.by_stream.get(&stream).copied() {
                    self.end(key, now);
                }
            }
            TailOrder::ForgetPosition(stream) => self.writer.note_position(stream, Vec::new()),
            TailOrder::Note(stream, state) => self.writer.note_position(stream, state),
            TailOrder::Hold(hold) => self.hold = hold,
            TailOrder::Stop => self.stopping = true,
        }
    }

    fn open(&mut self, found: FoundLog, now: Instant) {
        let FoundLog {
            path,
            form,
            place,
            mut first,
        } = found;
        let stream = place.stream();
        let form = (form, Arc::clone(&path));
        let decoder = LogDecoder::new(form, Arc::clone(&self.counts), place, &first.mark());
        let buffer = StreamBuffer::new(decoder, self.quota.hold());
        let log = TailedLog::new(path, buffer, first, &self.counts, now);
        let key = self.logs.insert(Box::new(log));
        self.by_stream.insert(stream, key);
        self.look_at(key);
    }

    fn start_anew(&mut self, stream: u64, copies: Vec<Generation>, now: Now) {
        let key = self.by_stream.get(&stream);
        match key.and_then(|key| self.logs.get_mut(*key)) {
            Some(log) => log.start_anew(&mut self.writer, copies, now),
            None => self.counts.closed(copies.len()),
        }
        self.busy(stream);
    }

    /// Answers a question about a log. If its file was cut, the next turn of it says so instead.
    fn look(&mut self, stream: u64, number: u64) {
        let key = self.by_stream.get(&stream);
        let log = key.and_then(|key| self.logs.get(*key));
        if let Some(read) = log.and_then(|log| log.read_of_newest()) {
            self.report(TailReport::Looked(stream, number, read));
        }
        self.busy(stream);
    }

    /// A log has a name: the position has it too, for the next process.
    fn named(&mut self, stream: u64, path: &Path) {
        let mut position = None;
        self.with(stream, |log| {
            if log.buffer.decoder.place.rename(path) {
                position = log.buffer.decoder.position();
            }
        });
        if let Some((stream, state)) = position {
            self.writer.note_position(stream, state);
        }
        self.busy(stream);
    }

    fn with(&mut self, stream: u64, change: impl FnOnce(&mut TailedLog)) {
        let key = self.by_stream.get(&stream);
        if let Some(log) = key.and_then(|key| self.logs.get_mut(*key)) {
            change(log);
        }
    }

    /// Has a log read at every tick.
    fn busy(&mut self, stream: u64) {
        if let Some(key) = self.by_stream.get(&stream).copied() {
            self.look_at(key);
        }
    }

    fn look_at(&mut self, key: usize) {
        if let Some(log) = self.logs.get_mut(key)
            && !std::mem::replace(&mut log.is_queued, true)
        {
            self.busy.push(key);
        }
    }

    /// Has a watched log read once.
    fn busy_once(&mut self, stream: u64) {
        self.with(stream, |log| log.is_watched = true);
        self.busy(stream);
    }

    /// One turn of each log that may have something. Returns true if there is more at once.
    fn read_round(&mut self, now: Now) -> bool {
        let mut more = false;
        let due = self.timed.extract_if(.., |(at, _)| *at <= now.instant);
        let due: Vec<usize> = due.map(|(_, key)| key).collect();
        due.into_iter().for_each(|key| self.look_at(key));
        let round = std::mem::take(&mut self.busy);
        for key in round {
            let end = self.turn(key, now);
            more |= end == TurnEnd::Again;
            match (end, self.logs.get_mut(key)) {
                (TurnEnd::Again | TurnEnd::Later, Some(_)) => self.busy.push(key),
                (TurnEnd::Idle, Some(log)) => log.is_queued = false,
                (TurnEnd::At(at), Some(log)) => {
                    log.is_queued = false;
                    self.timed.push((at, key));
                }
                (TurnEnd::Ended, _) => self.close_log(key),
                (_, None) => {}
            }
        }
        more
    }

    fn turn(&mut self, key: usize, now: Now) -> TurnEnd {
        let Some(log) = self.logs.get_mut(key) else {
            return TurnEnd::Idle;
        };
        let held = log.buffer.decoder.form().held_until;
        let held = held.filter(|until| *until > now.instant);
        log.row().waits(held.is_some());
        if let Some(until) = held {
            return TurnEnd::At(until);
        }
        let bounds = TurnBounds {
            hold: self.hold,
            room: self.room,
        };
        let turn = log.turn(&mut self.writer, &self.counts, bounds, now);
        let news = log.news.take().map_or_else(TurnNews::default, |news| *news);
        if let Some(identity) = news.learnt {
            let report = TailReport::Learnt(identity);
            // Looked at with the next event of the finder: nobody waits for it.
            let _ = self.reports.send(report);
        }
        if let Some((key, taken)) = news.left {
            let _ = self.reports.send(TailReport::Left(key, taken));
        }
        if let Some(shortened) = news.shortened {
            let stream = log.buffer.decoder.place.stream();
            self.report(TailReport::Shortened(stream, shortened));
            return TurnEnd::Idle;
        }
        match turn {
            Ok(LogTurn::Read(bytes)) => {
                log.is_watched = false;
                self.has_read(bytes);
                TurnEnd::Again
            }
            Ok(LogTurn::Drained(bytes)) => {
                log.is_watched = false;
                self.has_read(bytes);
                TurnEnd::Later
            }
            Ok(LogTurn::Waits) => TurnEnd::Later,
            Ok(LogTurn::AtEnd) => self.at_end(key, now.instant),
            Ok(LogTurn::HeldUntil(at)) => TurnEnd::At(at),
            Ok(LogTurn::Shortened) => TurnEnd::Idle,
            Ok(LogTurn::Ended) => TurnEnd::Ended,
            Err(error) => {
                self.tell_failure(key, &error);
                TurnEnd::At(now.instant + RETRY)
            }
        }
    }

    /// All of a log is read. Says when it is looked at again.
    fn at_end(&mut self, key: usize, now: Instant) -> TurnEnd {
        let Some(log) = self.logs.get_mut(key) else {
            return TurnEnd::Idle;
        };
        if log.due().is_some() || log.is_followed() {
            return TurnEnd::Later;
        }
        if log.is_ending() {
            return TurnEnd::At(now + ENDING_LOOK);
        }
        if log.is_watched {
            log.rest();
            return TurnEnd::Idle;
        }
        let idle = now.saturating_duration_since(log.last_growth);
        if idle < FIRST_LOOKS && log.is_untouched() {
            return TurnEnd::At(now + idle.max(FIRST_LOOK));
        }
        if idle < IDLE_AFTER {
            return TurnEnd::Later;
        }
        let stream = log.buffer.decoder.place.stream();
        if let Some(newest) = log.newest() {
            let file = Arc::clone(&newest.file);
            self.report(TailReport::Watch(stream, file));
        }
        TurnEnd::Idle
    }

    fn tell_failure(&self, key: usize, error: &io::Error) {
        self.counts.failed_files.add(1);
        let Some(log) = self.logs.get(key) else {
            return;
        };
        let file = log.path().display();
        tracing::warn!(%file, %error, "the file cannot be read: tried again in a second");
    }

    fn report(&mut self, report: TailReport) {
        // The finder outlives the reader; if it is gone, the process is ending.
        if self.reports.send(report).is_ok() {
            (self.wake_finder)();
        }
    }

    /// Ends a log: what is unfinished is taken.
    fn end(&mut self, key: usize, now: Now) {
        if let Some(log) = self.logs.get_mut(key) {
            log.end(&mut self.writer, now);
        }
        self.close_log(key);
    }

    /// Closes a log that has ended.
    fn close_log(&mut self, key: usize) {
        let Some(log) = self.logs.try_remove(key) else {
            return;
        };
        let place = &log.buffer.decoder.place;
        let (stream, taken) = (place.stream(), place.taken());
        let is_deleted = log.is_deleted();
        if is_deleted {
            log.tell_unread(log.unread, &self.counts);
        }
        self.counts.closed(log.open_files());
        self.busy.retain(|one| *one != key);
        self.timed.retain(|(_, one)| *one != key);
        self.by_stream.remove(&stream);
        self.counts.board.close(stream);
        if is_deleted {
            self.writer.note_position(stream, Vec::new());
        }
        let Some(last) = log.newest().map(|newest| newest.identity.key) else {
            return;
        };
        self.report(TailReport::Ended(EndedLog {
            stream,
            last,
            taken,
            unread: log.unread,
            is_deleted,
        }));
    }

    /// Gives up what has stood longest, if unfinished lines take too much memory.
    fn relieve(&mut self, now: Now) {
        if !self.quota.is_over() {
            return;
        }
        let held = self.logs.iter().filter_map(|(key, log)| {
            let account = log.buffer.account();
            (account.bytes() > 0).then(|| (account.since(), account.bytes(), key))
        });
        for key in self.quota.excess(held.collect()) {
            if let Some(log) = self.logs.get_mut(key) {
                log.relieve(&mut self.writer, now);
            }
        }
    }

    /// Has other cores help from now on, or not any more.
    fn judge(&mut self, now: Now) {
        let (helped, blocked) = self.writer.take_times();
        self.pressure.helped(helped);
        self.pressure.rested(blocked);
        if let Some(share) = self.pressure.judge(now.instant) {
            self.writer.share(share);
        }
    }

    /// Sleeps until something is due, or somebody wakes us.
    fn rest(&mut self) {
        let now = instant_now();
        let tick = (!self.busy.is_empty()).then(|| tick_after(now, self.worker));
        let due = self.writer.due().into_iter().chain(tick);
        let room = (self.room != PatientRoom::Free).then(|| now + LOOK_FOR_ROOM);
        let due = due.chain(room);
        let due = due.chain(self.timed.iter().map(|(at, _)| *at)).min();
        let rest = due.map_or(REST_MAX, |due| due.saturating_duration_since(now));
        self.wake.fall_asleep();
        if !self.writer.has_news() {
            thread::park_timeout(rest.min(REST_MAX));
        }
        self.wake.awake();
        self.pressure.rested(now.elapsed());
    }
}

/// State of a log after its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TurnEnd {
    /// There may be more at once.
    Again,
    /// It is looked at again at the next tick.
    Later,
    /// It is looked at again then.
    At(Instant),
    /// It is not looked at before something happens.
    Idle,
    /// It has ended.
    Ended,
}
