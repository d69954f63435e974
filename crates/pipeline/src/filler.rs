//! Filler of batches: one worker's side of one source, from its bytes to batches in the queue.
//!
//! Reading order: `open`, `study`, `held`, `tally`, `post`, `away`, `offload`.
//!
//! # What it guarantees
//! * Batches reach the queue in the order of reading, also those that other cores studied.
//! * An event counts as received together with its fate: accepted, rejected or held.
//!
//! # States
//! A [`Filler`] is either alone or lending. The other three states come beside, each by itself.
//!
//! | State | Test | Meaning |
//! |---|---|---|
//! | alone | `!away.is_on()` | the worker studies the open batch itself |
//! | lending | `away.is_on()` | the open batch is only framed; pool and worker study flushed ones |
//! | parts waiting | `!groups.is_empty()` | parts of events wait for the others |
//! | reload pending | another `generation` | the open batch has the settings of before |
//! | answers owed | `owed.is_open()` | the open batch has RELP messages; only while alone |
//!
//! | Call | From | To |
//! |---|---|---|
//! | `share` | alone, lending | the same: it sets `wanted` for the next `choose` |
//! | `choose` in `flush` | alone | lending: wanted, allowed, no group, no lent parts for 10 s |
//! | `choose`, `come_home` | lending | alone, after all lent batches were passed on |
//! | `keep_at_home` | alone, lending | alone for good: it is called before RELP is read |
//! | `recognise` | alone | parts waiting, if a rule says so |
//! | `take_back` | lending | parts waiting, if a lent batch had parts |
//! | `ripen` | parts waiting | alone; complete and overdue groups enter the batch, others wait |
//! | `Source::replace_settings` | any | reload pending; a reload calls it, not the worker |
//! | `begin` | reload pending | new settings; all groups are ready for `ripen` |
//! | `frame_until` | alone | answers owed, by RELP messages |
//! | `flush` | answers owed | none: `next_due` returns the acks of a durable or refused batch |
//! | `close` | any | alone, with nothing open, lent, waiting, pending or owed |
//!
//! # Limits
//! A batch is full at [`limits::BATCH_FLUSH_BYTES`] or [`limits::BATCH_FLUSH_RECORDS`], earlier if
//! it is lent (`away`). It is due after `LINGER`, in a trickle at the next tick.
//!
//! # After a crash
//! Open and lent batches and waiting parts are lost; a RELP sender repeats each unanswered message.

mod away;
mod held;
mod offload;
mod open;
mod post;
mod study;
mod tally;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use inrush_codec::{Frame, FrameDecoder, datagram};
use inrush_event::{
    Anomalies, BatchPool, CutReason, Ledger, Peer, Protocol, Record, SourceCounters, Span,
    Timestamp, limits,
};
use inrush_queue::Log;
use inrush_transport::stream::{CIPHER_READ_BYTES, Connection, Read};
use inrush_transport::udp::Datagram;

use crate::carry::Held;
use crate::near::Near;
use crate::now::Now;
use crate::pool::{Wake, WorkPool};
use crate::recognise::{Groups, Room};
use crate::relp::{ConnectionId, Debt, Handed, Kept, Owed};
use crate::source::{Settings, Source};
use crate::trickle::tick_after;
use crate::unknown::Unknown;
use away::Away;
use held::Joined;
pub(crate) use offload::BatchTask;
pub(crate) use open::Open;
use open::Row;
pub(crate) use study::Study;
use tally::Tally;

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
pub(crate) struct Doors {
    pub(crate) pool: Arc<BatchPool>,
    pub(crate) log: Arc<Log>,
    pub(crate) ledger: Arc<Ledger>,
    /// Memory for parts of events that wait for the others.
    pub(crate) room: Arc<Room>,
    /// Kinds of events that no rule recognised.
    pub(crate) unknown: Arc<Unknown>,
    /// Threads that study batches for a worker that cannot keep up.
    pub(crate) pool_threads: Arc<WorkPool<BatchTask>>,
    /// NUMA nodes: processors and arenas that are near to each worker.
    pub(crate) near: Arc<Near>,
    /// Number of the worker that these are for.
    pub(crate) worker: usize,
}

impl Doors {
    /// These for the `number`-th worker.
    pub(crate) fn of_worker(mut self, number: usize) -> Self {
        self.pool = self.near.pool(number);
        self.worker = number;
        self
    }

    /// Keeps the calling thread, which is the worker, near to what it has.
    pub(crate) fn keep_near(&self) {
        self.near.keep(self.worker);
    }
}

/// Reasons that bytes of a connection are in no event, in the order of [`Debt::cut_bytes`].
const CUT_REASONS: [CutReason; 3] = [
    CutReason::Oversize,
    CutReason::Unframed,
    CutReason::Unfinished,
];

/// The bytes of a connection that no frame has taken yet, and where its framing stands.
pub(crate) struct StreamState {
    framer: Framer,
    carry: Vec<u8>,
    held: Held,
    /// The rest of a message is cut that was given up for want of memory.
    given_up: bool,
    /// Bytes cut that the ledger has been told of, by [`CUT_REASONS`].
    cut_told: [u64; 3],
}

/// Decoder that cuts the stream into messages.
enum Framer {
    Syslog(FrameDecoder),
    Relp(Box<Debt>),
}

impl StreamState {
    /// Of a connection for `protocol`, whose answers go to `id`.
    pub(crate) fn new(
        settings: &Settings,
        protocol: Protocol,
        id: ConnectionId,
        held: Held,
    ) -> Self {
        let syslog = &settings.syslog;
        let max = syslog.message_bytes_max();
        let framer = if protocol.is_relp() {
            Framer::Relp(Box::new(Debt::new(id, max)))
        } else {
            Framer::Syslog(FrameDecoder::new(syslog.framing, max))
        };
        Self {
            framer,
            carry: Vec::new(),
            held,
            given_up: false,
            cut_told: [0; 3],
        }
    }

    /// Session of a RELP connection with the answers that it owes; `None` for all others.
    pub(crate) fn debt(&self) -> Option<&Debt> {
        match &self.framer {
            Framer::Syslog(_) => None,
            Framer::Relp(debt) => Some(debt),
        }
    }

    pub(crate) fn debt_mut(&mut self) -> Option<&mut Debt> {
        match &mut self.framer {
            Framer::Syslog(_) => None,
            Framer::Relp(debt) => Some(debt),
        }
    }

    /// Bytes to read at once, at most.
    fn window_bytes(&self) -> usize {
        self.debt().map_or(limits::READ_BYTES, Debt::window_bytes)
    }

    /// Tells the ledger what has been cut since the last time.
    fn tell_cut(&mut self, counters: &SourceCounters) {
        let cut = match &self.framer {
            Framer::Syslog(decoder) => [decoder.cut_bytes(), 0, 0],
            Framer::Relp(debt) => debt.cut_bytes(),
        };
        for ((reason, cut), told) in CUT_REASONS.iter().zip(cut).zip(&mut self.cut_told) {
            if cut > *told {
                let reason = match self.given_up {
                    true => &CutReason::Memory,
                    false => reason,
                };
                counters.cut_bytes(*reason).add(cut - *told);
                *told = cut;
            }
        }
    }

    /// Keeps `rest` for the next read, of a frame that is `new` if frames ended before it; gives
    /// memory back that is not needed.
    fn keep(&mut self, rest: &[u8], new: Option<Instant>) {
        const IDLE_BYTES: usize = 4096;
        self.carry.clear();
        if self.carry.capacity() > 2 * rest.len() + IDLE_BYTES {
            self.carry = Vec::new();
        }
        // Grown by a little, not to the double: there may be thousands of these.
        self.carry.reserve_exact(rest.len().next_multiple_of(64));
        self.carry.extend_from_slice(rest);
        self.note_held(new);
    }

    /// Takes note of how much is kept for the connection.
    pub(crate) fn note_held(&mut self, new: Option<Instant>) {
        let answers = self.debt().map_or(0, Debt::buffered_bytes);
        self.held.set(self.carry.capacity() + answers, new);
    }

    /// Account of the bytes that are kept for the connection, and since when.
    pub(crate) fn held(&self) -> &Held {
        &self.held
    }
}

/// Peer that frames come from, and the time of receipt.
#[derive(Clone, Copy)]
struct Origin {
    ip: IpAddr,
    /// Index of [`inrush_event::BatchBuilder::peer`].
    peer: u32,
    received: Timestamp,
}

/// Takes frames into a batch.
struct Intake<'a> {
    arena: &'a [u8],
    records: &'a mut Vec<Record>,
    rows: &'a mut Vec<Row>,
    tally: &'a mut Tally,
    /// Study that parses each event at once; `None`: events are studied later.
    study: Option<&'a mut Study>,
    from: Origin,
    events: u64,
    bytes: u64,
}

impl<'a> Intake<'a> {
    fn new(open: &'a mut Open, study: Option<&'a mut Study>, from: Origin) -> Self {
        let (arena, records) = open.builder.parts();
        Self {
            arena,
            records,
            rows: &mut open.rows,
            tally: &mut open.tally,
            study,
            from,
            events: 0,
            bytes: 0,
        }
    }

    #[inline]
    fn take(&mut self, Frame { span, anomalies }: Frame) {
        let Origin { ip, peer, received } = self.from;
        self.events += 1;
        self.bytes += u64::from(span.len);
        let Some(study) = &mut self.study else {
            return self.rows.push(Row {
                span,
                received,
                peer,
                anomalies,
            });
        };
        let mut record = Record::unparsed(span, received, peer, anomalies);
        study.parse(self.arena, &mut record, ip);
        self.tally.add(record.anomalies);
        self.records.push(record);
    }

    /// Takes what a RELP frame has brought.
    #[inline]
    fn keep(&mut self, kept: Kept) {
        let (span, anomalies) = match kept {
            Kept::Whole(span) => (span, Anomalies::NONE),
            Kept::Cut(span) => (span, Anomalies::OVERSIZE),
            Kept::Nothing => {
                self.tally.empty += 1;
                return;
            }
        };
        self.take(Frame { span, anomalies });
    }

    fn end(self) {
        let last = (self.records.len() + self.rows.len()).wrapping_sub(1);
        let Origin { ip, peer, .. } = self.from;
        self.tally.add_peer(peer, ip, self.events, self.bytes, last);
    }
}

/// One worker's side of one source.
pub(crate) struct Filler {
    doors: Doors,
    source: Arc<Source>,
    generation: u64,
    settings: Arc<Settings>,
    study: Study,
    open: Open,
    /// Parts of events that wait for the others.
    groups: Groups,
    /// Events of the open batch that were put together.
    joined: Joined,
    /// Answers that wait for batches.
    owed: Owed,
    /// Batches that are studied elsewhere.
    away: Away,
    /// Time at which the last batch that had events was handed on.
    handed_on: Instant,
    /// True if so little comes that it may gather until the next tick.
    trickles: bool,
    /// Time that the queue took to take batches: most of it waiting for room.
    blocked: Duration,
}

impl Filler {
    /// `wake` ends the worker's sleep, from any thread.
    pub(crate) fn new(doors: Doors, source: Arc<Source>, wake: Arc<Wake>) -> Self {
        let (generation, settings) = source.settings();
        let study = Study::new(&doors, &source, &settings);
        let builder = doors
            .pool
            .lend(&settings.info, settings.syslog.message_bytes_max());
        let away = Away::new(Arc::clone(&doors.pool_threads), wake);
        Self {
            groups: Groups::new(Arc::clone(&doors.room)),
            open: Open::new(builder),
            joined: Joined::default(),
            owed: Owed::default(),
            doors,
            source,
            generation,
            settings,
            study,
            away,
            handed_on: Instant::now(),
            trickles: false,
            blocked: Duration::ZERO,
        }
    }

    pub(crate) fn source(&self) -> &Arc<Source> {
        &self.source
    }

    /// Reads once from a connection and takes in what came. What the connection says is returned;
    /// at its end the unfinished frame has been taken in too.
    pub(crate) fn read_stream(
        &mut self,
        connection: &mut Connection,
        state: &mut StreamState,
        cipher: &mut [u8],
        now: Now,
    ) -> Read {
        if state.debt().is_some() {
            // Who waits for an answer is told of a batch by the worker that has it.
            self.keep_at_home(now);
        }
        self.make_room(now, state.carry.len());
        let builder = &mut self.open.builder;
        let start = builder.filled();
        builder.extend(&state.carry);
        let space = builder.space();
        let window = space.len().min(state.window_bytes());
        let window = window.min(self.away.read_bytes());
        let window = match self.study.appends() {
            // Texts that are made of what came are as long as that, at most, nearly always.
            true => window.min(CIPHER_READ_BYTES.max(space.len() / 2)),
            false => window,
        };
        let outcome = connection.read(&mut space[..window], cipher);
        match outcome {
            Read::Data(n) | Read::Drained(n) => {
                builder.advance(n);
                self.frame(connection, state, start, now, false);
            }
            Read::Closed | Read::Failed(_) => {
                self.post_foreign(connection);
                self.frame(connection, state, start, now, true);
            }
            Read::Blocked => builder.truncate(start),
        }
        outcome
    }

    /// Takes in the unfinished frame of a connection that we end.
    pub(crate) fn end_stream(&mut self, from: &Connection, state: &mut StreamState, now: Now) {
        self.make_room(now, state.carry.len());
        let start = self.open.builder.filled();
        self.open.builder.extend(&state.carry);
        self.frame(from, state, start, now, true);
    }

    /// Gives up the unfinished frame of a connection, for want of memory: what there is of it
    /// becomes an event.
    pub(crate) fn give_up(&mut self, from: &Connection, state: &mut StreamState, now: Now) {
        self.make_room(now, state.carry.len());
        let start = self.open.builder.filled();
        self.open.builder.extend(&state.carry);
        state.given_up = true;
        if let Framer::Syslog(decoder) = &mut state.framer {
            let (mut intake, _) = self.intake(from, now);
            decoder.give_up(intake.arena, start, |frame| intake.take(frame));
            intake.end();
        }
        state.tell_cut(&self.source.counters);
        state.keep(&[], Some(now.instant));
        self.recognise(1, now);
        self.study.sum_up(&mut self.open, SUM_STEP_BYTES);
    }

    /// Frames and parses the bytes from `start` on, in steps: a read of nothing but line ends
    /// and single letters would otherwise make half a million rows before they are looked at.
    fn frame(
        &mut self,
        connection: &Connection,
        state: &mut StreamState,
        start: usize,
        now: Now,
        last: bool,
    ) {
        let mut keep = start;
        // What was carried over the decoder has seen, and must be shown again as a whole.
        let mut seen = start + state.carry.len();
        while seen < self.open.builder.filled() {
            seen = self.open.builder.filled().min(seen + FRAME_STEP_BYTES);
            keep = self.frame_until(connection, state, keep, seen, now);
            if self.open.len() >= self.away.records_max() && seen < self.open.builder.filled() {
                let rest = self.open.builder.bytes()[keep..].to_vec();
                self.open.builder.truncate(keep);
                self.make_room(now, rest.len());
                self.open.builder.extend(&rest);
                (keep, seen) = (0, seen - keep);
            }
        }
        if last {
            self.finish(connection, state, keep, now);
            keep = self.open.builder.filled();
        }
        state.tell_cut(&self.source.counters);
        let new = (keep > start || state.carry.is_empty()).then_some(now.instant);
        state.given_up &= new.is_none() || keep == self.open.builder.filled();
        state.keep(&self.open.builder.bytes()[keep..], new);
        self.open.builder.truncate(keep);
        self.recognise(1, now);
        self.study.sum_up(&mut self.open, SUM_STEP_BYTES);
    }

    /// Says what the new events are, if there are so many and that is not left to others.
    fn recognise(&mut self, events_min: usize, now: Now) {
        let hold = Some((&mut self.groups, now.instant));
        self.study.recognise(&mut self.open, events_min, hold, now);
    }

    /// Intake of a connection's frames into the batch, and beside it the answers that are owed.
    fn intake(&mut self, connection: &Connection, now: Now) -> (Intake<'_>, &mut Owed) {
        let ip = connection.peer();
        let peer = self.open.builder.peer(Peer {
            ip,
            local_port: connection.local_port(),
            protocol: connection.protocol(),
            client: connection.client().cloned(),
        });
        self.stamp(now);
        let received = now.wall;
        let from = Origin { ip, peer, received };
        let study = (!self.away.is_on()).then_some(&mut self.study);
        (Intake::new(&mut self.open, study, from), &mut self.owed)
    }

    /// Takes the frames that end before `end`; returns from where bytes must be kept.
    fn frame_until(
        &mut self,
        connection: &Connection,
        state: &mut StreamState,
        start: usize,
        end: usize,
        now: Now,
    ) -> usize {
        let (mut intake, owed) = self.intake(connection, now);
        let arena = &intake.arena[..end];
        let keep = match &mut state.framer {
            Framer::Syslog(decoder) => decoder.decode(arena, start, |frame| intake.take(frame)),
            Framer::Relp(debt) => debt.decode(arena, start, owed, |kept| intake.keep(kept)),
        };
        intake.end();
        keep
    }

    /// Takes the unfinished frame from `start` on. That of a RELP stream is dropped: it was not
    /// answered, so its sender has it and sends it again.
    fn finish(&mut self, connection: &Connection, state: &mut StreamState, start: usize, now: Now) {
        let decoder = match &mut state.framer {
            Framer::Syslog(decoder) => decoder,
            Framer::Relp(debt) => return debt.end_stream(self.open.builder.filled() - start),
        };
        let (mut intake, _) = self.intake(connection, now);
        decoder.finish(intake.arena, start, |frame| intake.take(frame));
        intake.end();
    }

    /// Free memory of the batch, into which the next datagram goes: for a caller that prefetches
    /// it.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        self.open.builder.space()
    }

    /// Takes in one datagram.
    pub(crate) fn take_datagram(&mut self, datagram: Datagram<'_>, local_port: u16, now: Now) {
        // Trimmed before it is copied: the end of a copy that is still on its way to the cache
        // would have to be waited for.
        let whole = Span::new(0, datagram.bytes.len());
        let Some(kept) = self::datagram(datagram.bytes, whole) else {
            self.stamp(now);
            self.open.tally.empty += 1;
            return;
        };
        let (kept, anomalies) = self.cut(kept, datagram.cut);
        self.make_room(now, kept.len());
        let builder = &mut self.open.builder;
        let start = builder.filled();
        builder.extend(kept.of(datagram.bytes));
        let span = Span::new(start, builder.filled());
        let ip = datagram.from;
        let peer = builder.peer(Peer {
            ip,
            local_port,
            protocol: Protocol::Udp,
            client: None,
        });
        self.stamp(now);
        let received = now.wall;
        let from = Origin { ip, peer, received };
        let study = (!self.away.is_on()).then_some(&mut self.study);
        let mut intake = Intake::new(&mut self.open, study, from);
        intake.take(Frame { span, anomalies });
        intake.end();
        self.recognise(RECOGNISE_STEP, now);
        self.study.sum_up(&mut self.open, SUM_STEP_BYTES);
    }

    fn cut(&self, span: Span, cut: bool) -> (Span, Anomalies) {
        let max = self.settings.syslog.message_bytes_max();
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
        let uncounted = open.tally.empty > 0 || open.filtered.0 > 0 || open.held.0 > 0;
        !open.is_empty() || uncounted || self.owed.is_open()
    }

    /// True if the batch has its bytes or records: nothing more is to come into it.
    fn is_full(&self) -> bool {
        self.open.builder.filled() >= limits::BATCH_FLUSH_BYTES
            || self.open.len() >= self.away.records_max()
    }

    /// Makes room for `kept` bytes and a read after them, in a batch under the present settings.
    fn make_room(&mut self, now: Now, kept: usize) {
        let wanted = kept + CIPHER_READ_BYTES;
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
    pub(crate) fn flush_if_due(&mut self, now: Now) {
        self.ripen(now);
        if self.is_full() || self.due().is_some_and(|due| due <= now.instant) {
            self.flush(now);
        }
    }

    /// Time at which the open batch has to be handed on or the next group of parts has waited long
    /// enough, the earlier one. `None` if there is neither.
    pub(crate) fn due(&self) -> Option<Instant> {
        let batch = self.waits().then(|| {
            let since = self.open.since;
            match since.saturating_duration_since(self.handed_on) >= LULL {
                true => since,
                false if self.trickles => tick_after(since, self.doors.worker),
                false => since + LINGER,
            }
        });
        batch.into_iter().chain(self.groups_due()).min()
    }

    /// Says whether so little comes that it may gather until the next tick.
    pub(crate) fn pace(&mut self, trickles: bool) {
        self.trickles = trickles;
    }

    /// Hands the batch on if someone waits for an answer to it.
    pub(crate) fn flush_if_owed(&mut self, now: Now) {
        if self.owed.is_open() {
            self.flush(now);
        }
    }

    /// The answers that wait for batches.
    pub(crate) fn owed(&self) -> &Owed {
        &self.owed
    }

    /// The acks of the oldest batch handed on, once it is durable.
    pub(crate) fn next_due(&mut self, durable_end: u64) -> Option<Handed> {
        self.owed.next_due(durable_end)
    }

    /// Hands the batch on. Waits while the queue is full and its policy is to block.
    pub(crate) fn flush(&mut self, now: Now) {
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
    fn take_open(&mut self) -> Open {
        let empty = self.doors.pool.lend(&self.settings.info, 0);
        std::mem::replace(&mut self.open, Open::new(empty))
    }

    /// Begins a batch with room for a message of so many bytes at least, under the settings of the
    /// moment. What is counted in the present one, which has no events, stays.
    fn begin(&mut self, message_bytes: usize) {
        if self.source.generation() != self.generation {
            self.finish_own();
            (self.generation, self.settings) = self.source.settings();
            self.groups.end_all();
            self.study = Study::new(&self.doors, &self.source, &self.settings);
        }
        if !self.away.is_on() {
            self.study.begin();
        }
        let longest = message_bytes.max(self.settings.syslog.message_bytes_max());
        self.open.builder = self.doors.pool.lend(&self.settings.info, longest);
    }
}

#[cfg(test)]
#[path = "filler/away_tests.rs"]
mod away_tests;
#[cfg(test)]
#[path = "filler/tests.rs"]
mod tests;
