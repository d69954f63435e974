//! Batch writer: one worker's side of one source, from its bytes to batches in the queue.
//!
//! # In reading order
//! `source` (settings and counts) · `open_batch` · `stream` · `intake` (frames) · `decoded` (events
//! that their source decodes) · `processor` (what is done with events) · `multiline` · `tally` (by
//! peer) · `positions` (of streams) · `commit` (the hand-over) · `offload_queue` · `offload` (work
//! for other cores) · `acks` · `preview` (events without a worker).
//!
//! # What it guarantees
//! * Batches reach the queue in the order of reading, also those that other cores studied.
//! * An event counts as received together with its fate: accepted, rejected or held.
//! * A position of a stream reaches the queue with or behind all events that came before it.
//!
//! # States
//! A [`BatchWriter`] is either alone or lending. The other three states come beside, each by
//! itself.
//!
//! | State | Test | Meaning |
//! |---|---|---|
//! | alone | `!away.is_on()` | the worker studies the open batch itself |
//! | lending | `away.is_on()` | the open batch is only framed; pool and worker study flushed ones |
//! | parts waiting | `!groups.is_empty()` | parts of events wait for the others |
//! | reload pending | another `generation` | the open batch has the settings of before |
//! | answers owed | `owed.is_open()` | the open batch has events that are to be answered |
//!
//! | Call | From | To |
//! |---|---|---|
//! | `share` | alone, lending | the same: it sets `wanted` for the next `choose` |
//! | `choose` in `flush` | alone | lending: wanted, allowed, of use, no group, no parts for 10 s |
//! | `choose`, `come_home` | lending | alone, after all lent batches were passed on |
//! | `keep_at_home` | alone, lending | alone for good: its source decodes records one by one |
//! | `recognise` | alone | parts waiting, if a rule says so |
//! | `take_back` | lending | parts waiting, if a lent batch had parts |
//! | `ripen` | parts waiting | alone; complete and overdue groups enter the batch, others wait |
//! | `IngestSource::replace_settings` | any | reload pending; a reload calls it, not the worker |
//! | `begin` | reload pending | new settings; all groups are ready for `ripen` |
//! | `frame_until` | any | answers owed, by messages of RELP and requests of HTTP |
//! | `flush` | answers owed | none: they go with the batch, lent or not, until `next_due` |
//! | `close` | any | alone, with nothing open, lent, waiting, pending or owed |
//!
//! # Limits
//! A batch is full at [`limits::BATCH_FLUSH_BYTES`] or [`limits::BATCH_FLUSH_RECORDS`], earlier if
//! it is lent (`away`). It is due after `LINGER`, in a trickle at the next tick.
//!
//! # After a crash
//! Open and lent batches and waiting parts are lost; who waits for answers repeats what has none.

pub mod acks;
mod commit;
pub mod decoded;
mod intake;
mod multiline;
mod offload;
mod offload_queue;
mod open_batch;
mod positions;
pub mod preview;
mod processor;
pub mod source;
pub mod stream;
mod tally;

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use inrush_codec::{Frame, datagram};
use inrush_event::{
    Anomalies, BatchPool, CutReason, Ledger, Origin, Record, RejectReason, Span, instant_now,
    limits,
};
use inrush_queue::Log;

use crate::classification::{MemoryBudget, MultilineAssembler};
use crate::coalescing::tick_after;
use crate::now::Now;
use crate::numa::NumaPlacement;
use crate::pool::{WorkPool, WorkerWaker};
use crate::unclassified::UnclassifiedTable;
use acks::{AckTarget, BatchAcks, PendingAcks};
use decoded::{DecodedEvent, DecodedNames, NamedClasses};
use intake::FrameOrigin;
use multiline::AssembledCounts;
use offload_queue::OffloadQueue;
use positions::WaitingPositions;
use source::{IngestSettings, IngestSource};
use stream::{StreamBuffer, StreamDecoder};

pub use intake::FrameIntake;
pub use offload::BatchTask;
pub use open_batch::OpenBatch;
pub use processor::EventProcessor;

/// A batch that has events waits at most this long for more, so that a few of them do not cost a
/// hand-over each. It is no more than a group commit of the queue gathers anyway, and nobody waits
/// for it who waits for an answer. That of a trickle waits for the next tick ([`tick_after`]).
const LINGER: Duration = Duration::from_millis(25);

/// After so long without a batch an event is handed on at once: it is no part of a trickle.
const LULL: Duration = Duration::from_millis(100);

/// Bytes that are summed up at once: the checksum is slow on short pieces, and what is so long is
/// still in the nearest caches.
const SUM_STEP_BYTES: usize = 32 * 1024;

/// Events that are recognised at once, by kind: more of each kind come one after the other, and
/// what was read of them is still in the caches.
const RECOGNISE_STEP: usize = 256;

/// Bytes of a stream that are framed before the number of rows is looked at: at two bytes a
/// message 65,536 rows, 6 MB.
const FRAME_STEP_BYTES: usize = 128 * 1024;

/// Handles that all workers share to hand batches on.
#[derive(Clone)]
pub struct WorkerContext {
    /// Pool that lends arenas for batches; each worker gets that of its own NUMA node.
    pub pool: Arc<BatchPool>,
    /// Queue to which batches are appended.
    pub log: Arc<Log>,
    /// Ledger in which events are counted once their fate is known.
    pub ledger: Arc<Ledger>,
    /// Memory for parts of events that wait for the others.
    pub room: Arc<MemoryBudget>,
    /// Kinds of events that no rule recognised.
    pub unknown: Arc<UnclassifiedTable>,
    /// Threads that study batches for a worker that cannot keep up.
    pub pool_threads: Arc<WorkPool<BatchTask>>,
    /// NUMA nodes: processors and arenas that are near to each worker.
    pub near: Arc<NumaPlacement>,
    /// Number of the worker that these are for.
    pub worker: usize,
}

impl WorkerContext {
    /// These for the `number`-th worker.
    pub fn of_worker(mut self, number: usize) -> Self {
        self.pool = self.near.pool(number);
        self.worker = number;
        self
    }

    /// Starts the worker's thread, near to what it has.
    ///
    /// # Errors
    /// The kernel gives no further thread.
    pub fn spawn(
        &self,
        thread: thread::Builder,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        self.near.spawn(self.worker, thread, run)
    }
}

/// One worker's side of one source.
pub struct BatchWriter {
    doors: WorkerContext,
    source: Arc<IngestSource>,
    generation: u64,
    settings: Arc<IngestSettings>,
    study: EventProcessor,
    open: OpenBatch,
    /// Parts of events that wait for the others.
    groups: MultilineAssembler,
    /// Events of the open batch that were put together.
    joined: AssembledCounts,
    /// Answers that wait for batches.
    owed: PendingAcks,
    /// Positions of streams that go with the next batch.
    waiting: WaitingPositions,
    /// Classes of the names of decoded events.
    named: NamedClasses,
    /// Batches that are studied elsewhere.
    away: OffloadQueue,
    /// Time at which the last batch that had events was handed on.
    handed_on: Instant,
    /// True if so little comes that it may gather until the next tick.
    trickles: bool,
    /// Time that the queue took to take batches: most of it waiting for room.
    blocked: Duration,
    /// Offset at which the bytes of the present read begin, with those that were kept before.
    read_start: usize,
    /// True if the worker reads only while the queue has room.
    admitted: bool,
}

impl BatchWriter {
    /// `wake` ends the worker's sleep, from any thread.
    pub fn new(doors: WorkerContext, source: Arc<IngestSource>, wake: Arc<WorkerWaker>) -> Self {
        let (generation, settings) = source.settings();
        let study = EventProcessor::new(&doors, &source, &settings);
        let builder = doors.pool.lend(&settings.info, settings.message_bytes_max);
        let away = OffloadQueue::new(Arc::clone(&doors.pool_threads), wake);
        Self {
            groups: MultilineAssembler::new(Arc::clone(&doors.room)),
            open: OpenBatch::new(builder),
            joined: AssembledCounts::default(),
            owed: PendingAcks::default(),
            waiting: WaitingPositions::default(),
            named: NamedClasses::default(),
            doors,
            source,
            generation,
            settings,
            study,
            away,
            handed_on: instant_now(),
            trickles: false,
            blocked: Duration::ZERO,
            read_start: 0,
            admitted: false,
        }
    }

    /// For a worker that reads only while the queue has room ([`Log::has_room`]): what it has read
    /// is taken without a wait.
    pub fn admitted(mut self) -> Self {
        self.admitted = true;
        self
    }

    /// Source of the writer; callers compare the pointer to find a source's writer among several.
    pub fn source(&self) -> &Arc<IngestSource> {
        &self.source
    }

    /// Begins a read of a stream: shows the bytes that were kept of it, and returns free memory for
    /// more, `least` bytes at least, which are no more than [`limits::READ_BYTES_MIN`].
    /// [`Self::end_read`] or [`Self::cancel_read`] comes next.
    pub fn begin_read<D: StreamDecoder>(
        &mut self,
        stream: &StreamBuffer<D>,
        least: usize,
        now: Now,
    ) -> &mut [u8] {
        self.show(stream, now);
        let space = self.open.builder.space().len();
        let window = space.min(stream.decoder.window_bytes());
        let window = window.min(self.away.read_bytes().max(least));
        let window = match self.study.appends() {
            // Texts that are made of what came are as long as that, at most, nearly always.
            true => window.min(limits::READ_BYTES_MIN.max(space / 2)),
            false => window,
        };
        &mut self.open.builder.space()[..window]
    }

    /// Takes in the bytes that were read of a stream into the memory of [`Self::begin_read`]. With
    /// `last` the stream has ended, and its unfinished frame is taken in too.
    pub fn end_read<D: StreamDecoder>(
        &mut self,
        origin: &Origin,
        stream: &mut StreamBuffer<D>,
        bytes: usize,
        last: bool,
        now: Now,
    ) {
        self.open.builder.advance(bytes);
        self.frame(origin, stream, self.read_start, now, last);
    }

    /// Ends a read that brought nothing.
    pub fn cancel_read(&mut self) {
        self.open.builder.truncate(self.read_start);
    }

    /// Takes in the unfinished frame of a stream that we end.
    pub fn end_stream<D: StreamDecoder>(
        &mut self,
        origin: &Origin,
        stream: &mut StreamBuffer<D>,
        now: Now,
    ) {
        self.show(stream, now);
        self.frame(origin, stream, self.read_start, now, true);
    }

    /// Gives up the unfinished frame of a stream, for want of memory: what there is of it becomes
    /// an event.
    pub fn give_up<D: StreamDecoder>(
        &mut self,
        origin: &Origin,
        stream: &mut StreamBuffer<D>,
        now: Now,
    ) {
        self.show(stream, now);
        stream.given_up = true;
        let start = self.read_start;
        let (mut intake, _) = self.intake(origin, stream.decoder.answers(), now);
        let arena = intake.arena;
        stream.decoder.give_up(arena, start, &mut intake);
        intake.end();
        self.note_place(stream);
        stream.tell_cut(&self.source.counters);
        stream.keep(&[], Some(now.instant));
        self.recognise(1, now);
        self.study.sum_up(&mut self.open, SUM_STEP_BYTES);
    }

    /// Puts the bytes that were kept of a stream into the batch, where a read goes on.
    fn show<D: StreamDecoder>(&mut self, stream: &StreamBuffer<D>, now: Now) {
        self.make_room(now, stream.carry.len());
        self.read_start = self.open.builder.filled();
        self.open.builder.extend(&stream.carry);
    }

    /// Frames and parses the bytes from `start` on, in steps: a read of nothing but line ends
    /// and single letters would otherwise make half a million rows before they are looked at.
    fn frame<D: StreamDecoder>(
        &mut self,
        origin: &Origin,
        stream: &mut StreamBuffer<D>,
        start: usize,
        now: Now,
        last: bool,
    ) {
        let mut keep = start;
        // What was carried over the decoder has seen, and must be shown again as a whole.
        let mut seen = start + stream.carry.len();
        if seen == self.open.builder.filled() && stream.decoder.is_due() {
            keep = self.frame_until(origin, stream, keep, seen, now);
        }
        while seen < self.open.builder.filled() {
            seen = self.open.builder.filled().min(seen + FRAME_STEP_BYTES);
            keep = self.frame_until(origin, stream, keep, seen, now);
            if self.open.len() >= self.away.records_max() && seen < self.open.builder.filled() {
                self.note_place(stream);
                let rest = self.open.builder.bytes()[keep..].to_vec();
                self.truncate(keep);
                self.make_room(now, rest.len());
                self.open.builder.extend(&rest);
                (keep, seen) = (0, seen - keep);
            }
        }
        if last {
            let (mut intake, _) = self.intake(origin, stream.decoder.answers(), now);
            let arena = intake.arena;
            stream.decoder.finish(arena, keep, &mut intake);
            intake.end();
            keep = self.open.builder.filled();
        }
        self.note_place(stream);
        stream.tell_cut(&self.source.counters);
        let new = (keep > start || stream.carry.is_empty()).then_some(now.instant);
        stream.given_up &= new.is_none() || keep == self.open.builder.filled();
        stream.keep(&self.open.builder.bytes()[keep..], new);
        self.truncate(keep);
        self.recognise(1, now);
        self.study.sum_up(&mut self.open, SUM_STEP_BYTES);
    }

    /// Notes the position that a stream has come to, if its source has positions.
    fn note_place<D: StreamDecoder>(&mut self, stream: &StreamBuffer<D>) {
        if let Some((number, state)) = stream.decoder.position() {
            self.note_position(number, state);
        }
    }

    /// Takes the bytes from `keep` on out of the batch, and appends what its events have beyond
    /// what was read.
    fn truncate(&mut self, keep: usize) {
        self.open.builder.truncate(keep);
        self.open.settle_texts();
    }

    /// Says what the new events are, if there are so many and that is not left to others.
    fn recognise(&mut self, events_min: usize, now: Now) {
        let hold = Some((&mut self.groups, now.instant));
        self.study.recognise(&mut self.open, events_min, hold, now);
    }

    /// Intake of an origin's frames into the batch, and beside it the answers that are owed.
    /// `kept`: the sender keeps its events until it is answered.
    #[inline(always)]
    fn intake(
        &mut self,
        origin: &Origin,
        kept: bool,
        now: Now,
    ) -> (FrameIntake<'_>, &mut PendingAcks) {
        self.open.tally.unkept |= !kept;
        let from = FrameOrigin {
            ip: origin.ip(),
            peer: self.open.builder.origin(origin),
            received: now.wall,
        };
        self.stamp(now);
        let (lends, study) = (self.away.is_on(), &mut self.study);
        let intake = FrameIntake::new(&mut self.open, study, lends, &mut self.named, from);
        (intake, &mut self.owed)
    }

    /// Takes the frames that end before `end`; returns from where bytes must be kept.
    fn frame_until<D: StreamDecoder>(
        &mut self,
        origin: &Origin,
        stream: &mut StreamBuffer<D>,
        start: usize,
        end: usize,
        now: Now,
    ) -> usize {
        let (mut intake, owed) = self.intake(origin, stream.decoder.answers(), now);
        let arena = &intake.arena[..end];
        let keep = stream.decoder.decode(arena, start, &mut intake, owed);
        intake.end();
        keep
    }

    /// Counts bytes that a peer sent in another protocol: no event, and not nothing either.
    pub fn reject(&self, reason: RejectReason, bytes: u64) {
        let counters = &self.source.counters;
        self.doors.ledger.post(|| {
            counters.received.add(1);
            counters.received_bytes.add(bytes);
            counters.rejected(reason).add(1);
        });
    }

    /// Free memory of the batch, into which the next datagram goes: for a caller that prefetches
    /// it.
    pub fn room(&mut self) -> &mut [u8] {
        self.open.builder.space()
    }

    /// Takes in one datagram; `cut` says that the kernel had to cut it.
    pub fn take_datagram(&mut self, bytes: &[u8], cut: bool, origin: &Origin, now: Now) {
        // Trimmed before it is copied: the end of a copy that is still on its way to the cache
        // would have to be waited for.
        let whole = Span::new(0, bytes.len());
        let Some(kept) = self::datagram(bytes, whole) else {
            self.stamp(now);
            self.open.tally.empty += 1;
            return;
        };
        let (kept, anomalies) = self.cut(kept, cut);
        let span = self.push_bytes(kept.of(bytes), now);
        let (mut intake, _) = self.intake(origin, false, now);
        intake.take(Frame { span, anomalies });
        intake.end();
        self.recognise(RECOGNISE_STEP, now);
        self.study.sum_up(&mut self.open, SUM_STEP_BYTES);
    }

    /// Takes in one event that its source has decoded: `decode` puts its parts into a record, as
    /// spans of the arena that it is given.
    pub fn take_record(
        &mut self,
        bytes: &[u8],
        origin: &Origin,
        decode: impl FnOnce(&[u8], &mut Record),
        now: Now,
    ) {
        // Other cores parse what they get.
        self.keep_at_home(now);
        let (kept, anomalies) = self.cut(Span::new(0, bytes.len()), false);
        let span = self.push_bytes(kept.of(bytes), now);
        let (mut intake, _) = self.intake(origin, false, now);
        intake.take_record(decode, Frame { span, anomalies });
        intake.end();
        self.recognise(RECOGNISE_STEP, now);
        self.study.sum_up(&mut self.open, SUM_STEP_BYTES);
    }

    /// Takes in one event that its source has decoded, and names itself. `bytes` are its text and
    /// what other parts of it are made of; `fill` says which, in spans of the arena, where `bytes`
    /// lie at the span that it is given. The source can read them again until they are durable.
    pub fn take_decoded(
        &mut self,
        bytes: &[u8],
        origin: &Origin,
        names: DecodedNames<'_>,
        fill: impl FnOnce(Span, DecodedEvent<'_>),
        now: Now,
    ) {
        // Other cores parse what they get.
        self.keep_at_home(now);
        let span = self.push_bytes(bytes, now);
        let (mut intake, _) = self.intake(origin, true, now);
        intake.take_decoded(span, names, |event| fill(span, event));
        intake.end();
        self.open.settle_texts();
        self.recognise(RECOGNISE_STEP, now);
        self.study.sum_up(&mut self.open, SUM_STEP_BYTES);
    }

    /// Counts a message without a byte: it is no event.
    pub fn note_empty(&mut self, now: Now) {
        self.stamp(now);
        self.open.tally.empty += 1;
    }

    /// Notes that a number of a target waits for the open batch: for sources that decode records
    /// themselves, right behind [`Self::take_record`].
    pub fn owe(&mut self, target: AckTarget, number: u64, tag: u32) {
        self.owed.push(target, number, tag);
    }

    /// Puts bytes into the batch.
    fn push_bytes(&mut self, bytes: &[u8], now: Now) -> Span {
        self.make_room(now, bytes.len());
        let builder = &mut self.open.builder;
        let start = builder.filled();
        builder.extend(bytes);
        Span::new(start, builder.filled())
    }

    fn cut(&self, span: Span, cut: bool) -> (Span, Anomalies) {
        let max = self.settings.message_bytes_max;
        let mut anomalies = if cut {
            Anomalies::DATAGRAM_CUT
        } else {
            Anomalies::NONE
        };
        if span.len() <= max {
            return (span, anomalies);
        }
        anomalies.insert(Anomalies::OVERSIZE);
        let cut = (span.len() - max) as u64;
        self.source.counters.cut_bytes(CutReason::Oversize).add(cut);
        (Span::new(span.start(), span.start() + max), anomalies)
    }

    /// Something comes into the batch. What rules have taken out of it since counts too: it must
    /// not wait for an event that stays.
    fn stamp(&mut self, now: Now) {
        if !self.waits() {
            self.open.since = now.since;
        }
        if self.open.is_empty() {
            self.open.builder.stamp(now.wall);
        }
    }

    /// True if there is something to be handed on, to be counted or to be answered.
    fn waits(&self) -> bool {
        let open = &self.open;
        let filtered = open.filtered.0 + open.unwanted.events;
        let uncounted = open.tally.empty > 0 || filtered > 0 || open.held.0 > 0;
        !open.is_empty() || uncounted || self.owed.is_open()
    }

    /// True if the batch has its bytes or records: nothing more is to come into it.
    fn is_full(&self) -> bool {
        self.open.builder.filled() >= limits::BATCH_FLUSH_BYTES
            || self.open.len() >= self.away.records_max()
            || self.open.builder.positions().bytes() >= limits::BATCH_POSITION_BYTES
    }

    /// Makes room for `kept` bytes and a read after them, in a batch under the present settings.
    fn make_room(&mut self, now: Now, kept: usize) {
        let wanted = kept + limits::READ_BYTES_MIN;
        if self.is_full() || self.open.builder.space().len() < wanted {
            self.flush(now);
        }
        if self.open.is_empty() && self.source.generation() != self.generation {
            // Who took events out of the batch knows by which rules until it is replaced.
            self.flush(now);
            self.begin(0);
        }
        // A connection keeps the message limit that it began with, which may be the larger one.
        if self.open.is_empty() && self.open.builder.space().len() < wanted {
            self.begin(kept);
        }
    }

    /// Hands the batch on if it is large or old enough.
    pub fn flush_if_due(&mut self, now: Now) {
        self.ripen(now);
        if self.is_full() || self.due().is_some_and(|due| due <= now.instant) {
            self.flush(now);
        }
    }

    /// Hands the batch on at once if anything waits in it. Returns true if so.
    pub fn flush_if_any(&mut self, now: Now) -> bool {
        self.ripen(now);
        let waits = self.waits();
        if waits {
            self.flush(now);
        }
        waits
    }

    /// Time at which the open batch has to be handed on or the next group of parts has waited long
    /// enough, or positions of streams have, the earliest one. `None` if there is none.
    pub fn due(&self) -> Option<Instant> {
        let batch = self.waits().then(|| {
            let since = self.open.since;
            match since.saturating_duration_since(self.handed_on) >= LULL {
                true => since,
                false if self.trickles => tick_after(since, self.doors.worker),
                false => since + LINGER,
            }
        });
        let others = self.groups_due().into_iter().chain(self.positions_due());
        batch.into_iter().chain(others).min()
    }

    /// Says whether so little comes that it may gather until the next tick.
    pub fn pace(&mut self, trickles: bool) {
        self.trickles = trickles;
    }

    /// Hands the batch on if someone waits for an answer to it.
    pub fn flush_if_owed(&mut self, now: Now) {
        if self.owed.is_open() {
            self.flush(now);
        }
    }

    /// The answers that wait for batches.
    pub fn owed(&self) -> &PendingAcks {
        &self.owed
    }

    /// The acks of the oldest batch handed on, once it is durable.
    pub fn next_due(&mut self, durable_end: u64) -> Option<BatchAcks> {
        self.owed.next_due(durable_end)
    }

    /// Hands the batch on. Waits while the queue is full and its policy is to block.
    pub fn flush(&mut self, now: Now) {
        if !self.open.is_empty() {
            self.handed_on = now.instant;
        }
        if self.away.is_on() {
            return self.send_away(now);
        }
        self.recognise(1, now);
        self.study.end(&mut self.open, now);
        let open = self.take_open();
        self.begin(0);
        self.pass_on(open, now);
        self.choose(now);
    }

    /// The open batch; an empty one without memory of its own stands in its place.
    fn take_open(&mut self) -> OpenBatch {
        let empty = self.doors.pool.lend(&self.settings.info, 0);
        std::mem::replace(&mut self.open, OpenBatch::new(empty))
    }

    /// Begins a batch with room for a message of so many bytes at least, under the settings of the
    /// moment. What is counted in the present one, which has no events, stays.
    fn begin(&mut self, message_bytes: usize) {
        if self.source.generation() != self.generation {
            self.finish_own();
            (self.generation, self.settings) = self.source.settings();
            self.groups.end_all();
            self.study = EventProcessor::new(&self.doors, &self.source, &self.settings);
        }
        if !self.away.is_on() {
            self.study.begin();
        }
        self.named.begin();
        let longest = message_bytes.max(self.settings.message_bytes_max);
        let positions = self.open.builder.take_positions();
        self.open.builder = self.doors.pool.lend(&self.settings.info, longest);
        self.open.builder.put_positions(positions);
    }
}

#[cfg(test)]
#[path = "batch_writer/answered_tests.rs"]
mod answered_tests;
#[cfg(test)]
#[path = "batch_writer/offload_queue_tests.rs"]
mod offload_queue_tests;
#[cfg(test)]
#[path = "batch_writer/position_tests.rs"]
mod position_tests;
#[cfg(test)]
#[path = "batch_writer/tests.rs"]
mod tests;
