//! Thread of a journal source: it keeps a child running, reads what it writes, and puts the
//! entries into batches with the place behind them.
//!
//! # What it guarantees
//! * An entry and the place behind it are in one batch, so that both are durable or neither is.
//! * While the queue has no room the child's pipe is not read, and the child waits.
//! * There is one child at a time; a further one starts once the one before is reaped.
//!
//! # States
//! | Stage | Next |
//! |---|---|
//! | waiting until a time | running, or waiting for longer if it cannot be started |
//! | running | ending: output ended, garbage, silent, too old, other options, wrong place |
//! | ending | waiting, once it is reaped; killed after a second if it does not end itself |
//!
//! # Limits
//! The pipe's 64 KiB, a read of [`READ_BYTES`], and what [`ExportReader::window_bytes`] says are
//! in memory at once, and one entry ([`EntryBuilder`]).
//!
//! # After a crash
//! The child dies with the thread. The next process goes on behind the last durable entry.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use inrush_codec::journal::{ExportReader, ExportStep};
use inrush_event::{CutReason, Span, Timestamp, UpstreamLoss, limits};
use inrush_ingest::batch_writer::BatchWriter;
use inrush_ingest::batch_writer::decoded::{DecodedEvent, DecodedNames};
use inrush_ingest::now::Now;
use inrush_queue::Log;
use inrush_transport::child::{PipeRead, PipedChild};
use mio::{Events, Poll, Token};

use super::arguments::{arguments, filter_sum, stream_number};
use super::child::{ChildEnd, EndingChild, JournalChild, pause};
use super::counts::RestartReason;
use super::entry::EntryBuilder;
use super::follow::{EntryGap, EntryVerdict, JournalFollower};
use super::options::{JournalStart, JournaldSource};
use super::place::{JournalPlace, KeptPlace};
use super::running::JournalShared;

/// Bytes that are read at once.
const READ_BYTES: usize = 256 * 1024;

/// While the queue has no room, it is looked for this often.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// While a child is to end, it is looked at this often.
const REAP_EVERY: Duration = Duration::from_millis(20);

/// Longest sleep.
const SLEEP_MAX: Duration = Duration::from_secs(10);

/// Time between two warnings of one fault that lasts.
const WARN_EVERY: Duration = Duration::from_secs(10 * 60);

/// Time that the last child may take to end when the source stops.
const STOP_WAIT: Duration = Duration::from_secs(1);

/// Events of the poll.
pub(super) const WAKE: Token = Token(0);
const OUTPUT: Token = Token(1);
const ERRORS: Token = Token(2);

/// Bytes that were read and are no entry yet.
struct ReadBuffer {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl ReadBuffer {
    fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Free memory behind what is unread, which moves to the front.
    fn space(&mut self) -> &mut [u8] {
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        &mut self.bytes[self.end..]
    }
}

/// Stage of the child.
enum ChildStage {
    Waiting(Instant),
    Running(JournalChild),
    Ending(EndingChild),
}

/// Reads a journal.
pub(super) struct JournalReader {
    shared: Arc<JournalShared>,
    writer: BatchWriter,
    log: Arc<Log>,
    poll: Poll,
    options: JournaldSource,
    generation: u64,
    stream: u64,
    follower: JournalFollower,
    entry: EntryBuilder,
    export: ExportReader,
    buffer: ReadBuffer,
    stage: ChildStage,
    /// Faults in a row without a new entry.
    faults: u32,
    warned: Option<Instant>,
    /// True while the queue has room.
    room: bool,
    /// True once a child was started.
    started: bool,
}

impl JournalReader {
    /// A reader that goes on where the log says that the source was.
    pub(super) fn new(
        shared: Arc<JournalShared>,
        writer: BatchWriter,
        log: Arc<Log>,
        poll: Poll,
    ) -> Self {
        let (generation, options) = shared.options();
        let export = ExportReader::new(limits::MESSAGE_BYTES_DEFAULT);
        let bytes = vec![0; READ_BYTES + export.window_bytes()].into();
        let stream = stream_number(&options);
        Self {
            follower: follower(&log, &shared.name, &options),
            entry: EntryBuilder::new(&options),
            stream,
            shared,
            writer,
            log,
            poll,
            options,
            generation,
            export,
            buffer: ReadBuffer {
                bytes,
                start: 0,
                end: 0,
            },
            stage: ChildStage::Waiting(inrush_event::instant_now()),
            faults: 0,
            warned: None,
            room: true,
            started: false,
        }
    }

    /// Reads until the source stops.
    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(8);
        self.note_place();
        while !self.shared.stopping.load(Ordering::Acquire) {
            let now = Now::read();
            self.take_options(now.instant);
            self.look_for_room(now.instant);
            self.keep_child(now.instant);
            self.read(now);
            self.writer.flush_if_due(Now::read());
            if let Err(error) = self.sleep(&mut events) {
                tracing::error!(source = self.shared.name, %error, "the journal is not read");
                break;
            }
        }
        if !self.room {
            self.log.goes_on();
        }
        self.writer.close(Now::read());
        self.reap();
    }

    /// Waits for the last child, but not for ever.
    fn reap(&mut self) {
        self.shared.counts.running.set(0);
        let now = inrush_event::instant_now();
        self.end_child(RestartReason::Options, now);
        while let ChildStage::Ending(ending) = &mut self.stage {
            let over = now.elapsed() > STOP_WAIT;
            if over || ending.end(inrush_event::instant_now()).is_some() {
                break;
            }
            std::thread::sleep(REAP_EVERY);
        }
    }

    /// Takes options on that changed.
    fn take_options(&mut self, now: Instant) {
        if self.shared.generation.load(Ordering::Acquire) == self.generation {
            return;
        }
        (self.generation, self.options) = self.shared.options();
        self.end_child(RestartReason::Options, now);
        if let ChildStage::Waiting(until) = &mut self.stage {
            // The program may be there now.
            *until = now;
        }
        self.entry = EntryBuilder::new(&self.options);
        let stream = stream_number(&self.options);
        if stream != self.stream {
            // What is on its way to the log is of the journal before.
            self.stream = stream;
            self.follower = follower(&self.log, &self.shared.name, &self.options);
            self.note_place();
        } else {
            let filter = filter_sum(&self.options);
            self.follower.filter(filter, self.options.is_filtered());
        }
    }

    /// Asks the queue whether it has room.
    fn look_for_room(&mut self, now: Instant) {
        if self.room && !matches!(self.stage, ChildStage::Running(_)) {
            return;
        }
        let room = self.log.has_room();
        match (self.room, room) {
            (true, false) => self.log.waits(),
            (false, true) => self.log.goes_on(),
            (true, true) | (false, false) => {}
        }
        if let (false, ChildStage::Running(child)) = (room, &mut self.stage) {
            // It cannot say anything.
            child.times.hear(now);
        }
        self.room = room;
    }

    /// Starts, ends and reaps the child as it is time to.
    fn keep_child(&mut self, now: Instant) {
        let patience = self.follower.patience();
        match &mut self.stage {
            ChildStage::Waiting(until) if *until <= now => self.start(now),
            ChildStage::Waiting(_) => {}
            ChildStage::Running(child) => {
                if let Some(reason) = child.times.verdict(patience, now) {
                    self.end_child(reason, now);
                }
            }
            ChildStage::Ending(ending) => {
                if let Some(end) = ending.end(now) {
                    let (showed, words) = (ending.was.showed, ending.was.words());
                    self.go_on(end, showed, &words, now);
                }
            }
        }
    }

    fn start(&mut self, now: Instant) {
        self.buffer.start = self.buffer.end;
        self.export = ExportReader::new(limits::MESSAGE_BYTES_DEFAULT);
        self.entry.clear();
        let arguments = arguments(&self.options, self.follower.begin());
        let started = PipedChild::start(&self.options.journalctl, &arguments);
        let registered = started.and_then(|mut child| {
            child.register(self.poll.registry(), OUTPUT, ERRORS)?;
            Ok(child)
        });
        match registered {
            Ok(child) => {
                self.started = true;
                self.shared.counts.running.set(1);
                self.stage = ChildStage::Running(JournalChild::new(child, now));
            }
            Err(error) => {
                let words = format!("it cannot be started: {error}");
                self.wait(RestartReason::Unstarted, &words, now);
            }
        }
    }

    /// Has the child end, if one runs.
    fn end_child(&mut self, reason: RestartReason, now: Instant) {
        self.stop_running(Some(reason), now);
    }

    fn stop_running(&mut self, reason: Option<RestartReason>, now: Instant) {
        let stage = std::mem::replace(&mut self.stage, ChildStage::Waiting(now));
        self.stage = match stage {
            ChildStage::Running(child) => {
                self.shared.counts.running.set(0);
                ChildStage::Ending(EndingChild::new(child, reason, now))
            }
            other => other,
        };
    }

    /// A child has ended: finds out from where to go on, and when.
    fn go_on(&mut self, end: ChildEnd, showed: bool, words: &str, now: Instant) {
        let wall_us = (Timestamp::now().0 / 1000).max(0) as u64;
        let (reason, said) = match end {
            ChildEnd::Told(reason @ RestartReason::Garbage) => {
                self.follower.die(wall_us);
                (reason, "it wrote what is no journal".to_owned())
            }
            ChildEnd::Told(reason) => {
                match reason {
                    RestartReason::CursorGone => self.follower.lose_cursor(),
                    _ => self.follower.pause(),
                }
                (reason, String::new())
            }
            ChildEnd::Killed { crashed, signal } => {
                match crashed {
                    true => self.follower.die(wall_us),
                    false => self.follower.pause(),
                }
                (RestartReason::Killed, format!("signal {signal} ended it"))
            }
            // So it says that it cannot find a cursor.
            ChildEnd::Exited(code) if code != 0 && self.follower.patience().is_some() => {
                self.follower.lose_cursor();
                (RestartReason::CursorGone, String::new())
            }
            ChildEnd::Exited(code) => {
                match code != 0 && showed {
                    true => self.follower.die(wall_us),
                    false => self.follower.pause(),
                }
                (
                    RestartReason::Exited,
                    format!("it ended with status {code}"),
                )
            }
        };
        self.wait(reason, &format!("{said}; its last words: {words}"), now);
    }

    /// Waits before the next start; after a fault the longer the more there were.
    fn wait(&mut self, reason: RestartReason, words: &str, now: Instant) {
        if self.started || reason.is_fault() {
            self.shared.counts.restarts(reason).add(1);
        }
        if !reason.is_fault() {
            self.stage = ChildStage::Waiting(now);
            return;
        }
        self.faults = self.faults.saturating_add(1);
        self.stage = ChildStage::Waiting(now + pause(self.faults));
        if self.warned.is_none_or(|at| at + WARN_EVERY <= now) {
            self.warned = Some(now);
            tracing::warn!(
                source = self.shared.name,
                program = %self.options.journalctl.display(),
                faults = self.faults,
                beyond_damage = self.follower.skips_damage(),
                "the reader of the journal is started again: {words}"
            );
        }
    }

    /// Reads once, if there is something and the queue has room.
    fn read(&mut self, now: Now) {
        let ChildStage::Running(child) = &mut self.stage else {
            return;
        };
        if !self.room || !child.readable {
            return;
        }
        match child.child.read_output(self.buffer.space()) {
            PipeRead::Data(count) => {
                child.times.hear(now.instant);
                self.buffer.end += count;
                self.take_entries(now);
            }
            PipeRead::Blocked => child.readable = false,
            PipeRead::Ended => self.stop_running(None, now.instant),
        }
    }

    /// Takes the entries that are complete.
    fn take_entries(&mut self, now: Now) {
        loop {
            let (step, consumed) = self.export.step(self.buffer.unread());
            match step {
                ExportStep::Field { name, value, .. } => self.entry.field(name, value),
                ExportStep::Rest(bytes) => self.entry.rest(bytes),
                ExportStep::More => return,
                ExportStep::End => {
                    self.buffer.start += consumed;
                    let ended = self.end_entry(now);
                    self.entry.clear();
                    match ended {
                        Ok(()) => continue,
                        Err(reason) => return self.end_child(reason, now.instant),
                    }
                }
                ExportStep::Fault(fault) => {
                    let source = &self.shared.name;
                    tracing::debug!(source, "no journal: {}", fault.words());
                    return self.end_child(RestartReason::Garbage, now.instant);
                }
            }
            self.buffer.start += consumed;
        }
    }

    /// Takes the entry whose fields came, if it is new.
    ///
    /// # Errors
    /// The reason for which the child has to go.
    fn end_entry(&mut self, now: Now) -> Result<(), RestartReason> {
        let place = JournalPlace::of(self.entry.cursor()).ok_or(RestartReason::Garbage)?;
        let verdict = self.follower.judge(&place);
        if let ChildStage::Running(child) = &mut self.stage {
            child.showed = true;
        }
        match verdict {
            EntryVerdict::Known => Ok(()),
            EntryVerdict::Reseek => Err(RestartReason::CursorGone),
            EntryVerdict::Take(gap) => {
                if let Some(gap) = gap {
                    self.count_gap(gap, &place);
                }
                if std::mem::take(&mut self.faults) > 0 {
                    self.warned = None;
                    let source = &self.shared.name;
                    tracing::info!(source, "the journal is read again");
                }
                self.take_entry(now);
                self.note_place();
                Ok(())
            }
        }
    }

    fn count_gap(&self, gap: EntryGap, before: &JournalPlace) {
        self.shared.counts.gaps.add(1);
        let counters = &self.writer.source().counters;
        let missing = gap.missing.unwrap_or(0);
        counters.lost_upstream(UpstreamLoss::Deleted).add(missing);
        let (source, before) = (&self.shared.name, &before.cursor);
        match gap.missing {
            Some(missing) => {
                tracing::warn!(source, before, missing, "entries of the journal are gone");
            }
            None => tracing::warn!(source, before, "entries of the journal may be gone"),
        }
    }

    /// Makes an event of the entry.
    fn take_entry(&mut self, now: Now) {
        let counters = &self.writer.source().counters;
        let suppressed = self.entry.suppressed();
        counters
            .lost_upstream(UpstreamLoss::Suppressed)
            .add(suppressed);
        if self.entry.cut_bytes() > 0 {
            let cut = counters.cut_bytes(CutReason::Oversize);
            cut.add(self.entry.cut_bytes());
        }
        if !self.entry.has_message() {
            return self.writer.note_empty(now);
        }
        let origin = self.entry.origin();
        let names = DecodedNames {
            source: self.options.source.as_bytes(),
            ..DecodedNames::default()
        };
        let (bytes, layout) = self.entry.lay_out();
        let fill = |span: Span, event: DecodedEvent<'_>| layout.fill(span.start(), event.record);
        self.writer.take_decoded(bytes, &origin, names, fill, now);
    }

    /// Has the place go with the open batch.
    fn note_place(&mut self) {
        if let Some(kept) = self.follower.kept() {
            self.writer.note_position(self.stream, kept);
        }
    }

    /// Sleeps until there is something to do.
    fn sleep(&mut self, events: &mut Events) -> io::Result<()> {
        let now = inrush_event::instant_now();
        let child = match &self.stage {
            ChildStage::Waiting(until) => *until,
            ChildStage::Running(child) if self.room && child.readable => now,
            ChildStage::Running(_) if !self.room => now + LOOK_EVERY,
            ChildStage::Running(child) => child.times.look_at(self.follower.patience()),
            ChildStage::Ending(_) => now + REAP_EVERY,
        };
        let until = self.writer.due().map_or(child, |due| due.min(child));
        let sleep = until.saturating_duration_since(now).min(SLEEP_MAX);
        match self.poll.poll(events, Some(sleep)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in events.iter() {
            if let ChildStage::Running(child) = &mut self.stage {
                match event.token() {
                    OUTPUT => child.readable = true,
                    ERRORS => child.listen(),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// The follower of the options' journal, from where the log says that it was read to.
fn follower(log: &Log, name: &str, options: &JournaldSource) -> JournalFollower {
    let stream = stream_number(options);
    let positions = log.positions(name);
    let found = positions.iter().find(|position| position.stream == stream);
    let kept = found.and_then(|position| KeptPlace::read(&position.state));
    let now_us = (Timestamp::now().0 / 1000).max(0) as u64;
    let from_us = match options.start_at {
        JournalStart::Beginning => None,
        JournalStart::End => Some(now_us),
        JournalStart::Ago(period) => {
            let period_us = u64::try_from(period.0.as_micros()).unwrap_or(u64::MAX);
            Some(now_us.saturating_sub(period_us))
        }
    };
    let mut follower = JournalFollower::new(kept, from_us);
    follower.filter(filter_sum(options), options.is_filtered());
    follower
}
