//! Fills batches of one source in one worker: frame, parse and count while the bytes are warm,
//! then hand the batch to the queue. Parts of events that wait for the others are in `held`, counts
//! in `tally`, and how they come into the ledger in `post`.

mod held;
mod post;
mod tally;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use inrush_codec::{Frame, FrameDecoder, Parser, datagram};
use inrush_event::{
    Anomalies, BatchBuilder, BatchPool, Ledger, Peer, Protocol, Record, Span, Timestamp, limits,
};
use inrush_queue::Log;
use inrush_transport::stream::{CIPHER_READ_BYTES, Connection, Read};
use inrush_transport::udp::Datagram;

use crate::names::Namer;
use crate::recognise::{Groups, Recogniser, Room};
use crate::relp::{ConnectionId, Debt, Handed, Kept, Outcome, Owed};
use crate::shape::{self, Shaper};
use crate::source::{Settings, Source};
use crate::unknown::Unknown;
use held::Joined;
use tally::Tally;

/// A batch that has events waits at most this long for more, so that a trickle of events does
/// not cost a hand-over each. It is far below the latency that any destination adds, and nobody
/// waits for it who waits for an answer.
pub(crate) const LINGER: Duration = Duration::from_millis(10);

/// Bytes that are summed up at once: the checksum is slow on short pieces, and what is so long is
/// still in the nearest caches.
const SUM_STEP_BYTES: usize = 32 * 1024;

/// Datagrams that are recognised at once: what a source knows of its rules is then warm too.
const RECOGNISE_STEP: usize = 32;

/// Bytes of a stream that are framed before the number of rows is looked at: at two bytes a
/// message 65,536 rows, 6 MB.
const FRAME_STEP_BYTES: usize = 128 * 1024;

/// One reading of both clocks, for everything that a worker does in a round.
#[derive(Clone, Copy)]
pub(crate) struct Now {
    pub(crate) instant: Instant,
    pub(crate) wall: Timestamp,
}

impl Now {
    pub(crate) fn read() -> Self {
        Self {
            instant: Instant::now(),
            wall: Timestamp::now(),
        }
    }
}

/// What all workers share to hand batches on.
#[derive(Clone)]
pub(crate) struct Doors {
    pub(crate) pool: Arc<BatchPool>,
    pub(crate) log: Arc<Log>,
    pub(crate) ledger: Arc<Ledger>,
    /// Memory for parts of events that wait for the others.
    pub(crate) room: Arc<Room>,
    /// What no rule recognised.
    pub(crate) unknown: Arc<Unknown>,
}

/// The bytes of a connection that no frame has taken yet, and where its framing stands.
pub(crate) struct StreamState {
    framer: Framer,
    carry: Vec<u8>,
}

/// How the stream is cut into messages.
enum Framer {
    Syslog(FrameDecoder),
    Relp(Box<Debt>),
}

impl StreamState {
    /// Of a connection for `protocol`, whose answers go to `id`.
    pub(crate) fn new(settings: &Settings, protocol: Protocol, id: ConnectionId) -> Self {
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
        }
    }

    /// What a RELP connection owes; `None` for all others.
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

    /// Keeps `rest` for the next read; gives memory back once nothing is kept.
    fn keep(&mut self, rest: &[u8]) {
        const IDLE_BYTES: usize = 4096;
        self.carry.clear();
        if rest.is_empty() && self.carry.capacity() > IDLE_BYTES {
            self.carry = Vec::new();
        }
        self.carry.extend_from_slice(rest);
    }
}

/// Where frames come from.
#[derive(Clone, Copy)]
struct Origin<'a> {
    source: &'a Source,
    ip: IpAddr,
    /// Index of [`BatchBuilder::peer`].
    peer: u32,
}

/// Takes frames into a batch's rows.
struct Intake<'a> {
    arena: &'a [u8],
    records: &'a mut Vec<Record>,
    parser: &'a mut Parser,
    tally: &'a mut Tally,
    received: Timestamp,
    from: Origin<'a>,
    events: u64,
    bytes: u64,
}

impl<'a> Intake<'a> {
    fn new(
        arena: &'a [u8],
        records: &'a mut Vec<Record>,
        parser: &'a mut Parser,
        tally: &'a mut Tally,
        now: Now,
        from: Origin<'a>,
    ) -> Self {
        let (events, bytes) = (0, 0);
        Self {
            arena,
            records,
            parser,
            tally,
            received: now.wall,
            from,
            events,
            bytes,
        }
    }

    #[inline]
    fn take(&mut self, frame: Frame) {
        let Origin { source, ip, peer } = self.from;
        let mut record = Record::unparsed(frame.span, self.received, peer, frame.anomalies);
        if let Some(guess) = self.parser.parse_from(self.arena, &mut record, ip) {
            let host = record.host.of(self.arena);
            (source.zones).note(&source.name, ip, host, guess, self.received);
        }
        self.tally.add(record.anomalies);
        self.events += 1;
        self.bytes += u64::from(frame.span.len);
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
        let last = self.records.len().wrapping_sub(1);
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
    parser: Parser,
    /// Says what events are; `None` if nobody wants to know.
    recogniser: Option<Recogniser>,
    /// Names their hosts; `None` if nobody wants that.
    namer: Option<Namer>,
    /// Changes, filters and routes them; `None` if nobody wants that.
    shaper: Option<Shaper>,
    /// Events of the open batch that were recognised.
    recognised: usize,
    /// Events that a rule took out, and their bytes, not yet posted.
    filtered: (u64, u64),
    /// Parts of events that wait for the others.
    groups: Groups,
    /// Parts that began to wait, and their bytes, not yet posted.
    held: (u64, u64),
    /// Events of the open batch that were put together.
    joined: Joined,
    builder: BatchBuilder,
    /// When the open batch got its first event.
    since: Instant,
    tally: Tally,
    /// Answers that wait for batches.
    owed: Owed,
    /// Whether batches are to know their checksums.
    sums: bool,
    /// Nanoseconds that an event's time may be from ours.
    skew_ns_max: u64,
}

impl Filler {
    pub(crate) fn new(doors: Doors, source: Arc<Source>) -> Self {
        let (generation, settings) = source.settings();
        let parser = source.zones.parser(&settings);
        let builder = doors
            .pool
            .lend(&settings.info, settings.syslog.message_bytes_max());
        let since = Instant::now();
        let tally = Tally::default();
        let sums = doors.log.has_disk();
        let skew_ns_max = settings.syslog.time_skew_ns_max();
        Self {
            recogniser: recogniser(&settings),
            namer: settings.names.clone().map(Namer::new),
            shaper: settings.shape.clone().map(Shaper::new),
            recognised: 0,
            filtered: (0, 0),
            groups: Groups::new(Arc::clone(&doors.room)),
            held: (0, 0),
            joined: Joined::default(),
            doors,
            source,
            generation,
            settings,
            parser,
            builder,
            since,
            tally,
            owed: Owed::default(),
            sums,
            skew_ns_max,
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
        self.make_room(now, state.carry.len());
        let start = self.builder.filled();
        self.builder.extend(&state.carry);
        let space = self.builder.space();
        let window = space.len().min(state.window_bytes());
        let outcome = connection.read(&mut space[..window], cipher);
        match outcome {
            Read::Data(n) | Read::Drained(n) => {
                self.builder.advance(n);
                self.frame(connection, state, start, now, false);
            }
            Read::Closed | Read::Failed(_) => self.frame(connection, state, start, now, true),
            Read::Blocked => self.builder.truncate(start),
        }
        outcome
    }

    /// Takes in the unfinished frame of a connection that we end.
    pub(crate) fn end_stream(&mut self, from: &Connection, state: &mut StreamState, now: Now) {
        self.make_room(now, state.carry.len());
        let start = self.builder.filled();
        self.builder.extend(&state.carry);
        self.frame(from, state, start, now, true);
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
        while seen < self.builder.filled() {
            seen = self.builder.filled().min(seen + FRAME_STEP_BYTES);
            keep = self.frame_until(connection, state, keep, seen, now);
            if self.builder.len() >= limits::BATCH_FLUSH_RECORDS && seen < self.builder.filled() {
                let rest = self.builder.bytes()[keep..].to_vec();
                self.builder.truncate(keep);
                self.make_room(now, rest.len());
                self.builder.extend(&rest);
                (keep, seen) = (0, seen - keep);
            }
        }
        if last {
            self.finish(connection, state, keep, now);
            keep = self.builder.filled();
        }
        state.keep(&self.builder.bytes()[keep..]);
        self.builder.truncate(keep);
        self.recognise(1, now);
        self.sum_up(SUM_STEP_BYTES);
    }

    /// Says what the new events are, if there are so many, while they are warm. What a rule takes
    /// out is counted with the batch.
    fn recognise(&mut self, events_min: usize, now: Now) {
        if self.builder.len() < self.recognised + events_min {
            return;
        }
        let from = self.recognised;
        if let Some(recogniser) = &mut self.recogniser {
            let hold = Some((&mut self.groups, now.instant));
            let taken = recogniser.run(&mut self.builder, from, hold);
            for (sum, more) in [
                (&mut self.filtered, taken.filtered),
                (&mut self.held, taken.held),
            ] {
                sum.0 += more.0;
                sum.1 += more.1;
                self.tally.bytes -= more.1;
            }
        }
        self.flag_skewed(from);
        if let Some(namer) = &mut self.namer {
            namer.run(&mut self.builder, from, now);
        }
        if let Some(shaper) = &mut self.shaper {
            let (events, bytes) = shaper.run(&mut self.builder, from);
            self.filtered.0 += events;
            self.filtered.1 += bytes;
            self.tally.bytes -= bytes;
        }
        self.recognised = self.builder.len();
    }

    /// Flags the events from number `from` on whose time is far from ours. Rules may have set it,
    /// so that is known only once they were asked.
    fn flag_skewed(&mut self, from: usize) {
        let most = self.skew_ns_max;
        let records = self.builder.records_mut()[from..].iter_mut();
        let skewed = records.filter_map(|record| record.flag_skew(most).then_some(()));
        let events = skewed.count() as u64;
        if events > 0 {
            self.tally.add_later(Anomalies::TIME_SKEWED, events);
        }
    }

    /// What takes the frames of a connection into the batch, and beside it the answers that are
    /// owed.
    fn intake(&mut self, connection: &Connection, now: Now) -> (Intake<'_>, &mut Owed) {
        let ip = connection.peer();
        let peer = self.builder.peer(Peer {
            ip,
            local_port: connection.local_port(),
            protocol: connection.protocol(),
        });
        self.stamp(now);
        let source = &*self.source;
        let from = Origin { source, ip, peer };
        let (arena, records) = self.builder.parts();
        let intake = Intake::new(arena, records, &mut self.parser, &mut self.tally, now, from);
        (intake, &mut self.owed)
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
            Framer::Relp(debt) => return debt.end_stream(self.builder.filled() - start),
        };
        let (mut intake, _) = self.intake(connection, now);
        decoder.finish(intake.arena, start, |frame| intake.take(frame));
        intake.end();
    }

    /// Where the next datagram goes, for who wants to have that memory at hand.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        self.builder.space()
    }

    /// Takes in one datagram.
    pub(crate) fn take_datagram(&mut self, datagram: Datagram<'_>, local_port: u16, now: Now) {
        // Trimmed before it is copied: the end of a copy that is still on its way to the cache
        // would have to be waited for.
        let whole = Span::new(0, datagram.bytes.len());
        let Some(kept) = self::datagram(datagram.bytes, whole) else {
            self.stamp(now);
            self.tally.empty += 1;
            return;
        };
        let (kept, anomalies) = self.cut(kept, datagram.cut);
        self.make_room(now, kept.len());
        let start = self.builder.filled();
        self.builder.extend(kept.of(datagram.bytes));
        let span = Span::new(start, self.builder.filled());
        let ip = datagram.from;
        let peer = self.builder.peer(Peer {
            ip,
            local_port,
            protocol: Protocol::Udp,
        });
        self.stamp(now);
        let (arena, records) = self.builder.parts();
        let mut record = Record::unparsed(span, now.wall, peer, anomalies);
        if let Some(guess) = self.parser.parse_from(arena, &mut record, ip) {
            let host = record.host.of(arena);
            let Source { zones, name, .. } = &*self.source;
            zones.note(name, ip, host, guess, now.wall);
        }
        let last = records.len();
        records.push(record);
        self.tally.add(record.anomalies);
        self.tally.add_peer(peer, ip, 1, u64::from(span.len), last);
        self.recognise(RECOGNISE_STEP, now);
        self.sum_up(SUM_STEP_BYTES);
    }

    /// Sums up what was taken in, if the queue will write it and it is so many bytes.
    fn sum_up(&mut self, bytes_min: usize) {
        if self.sums && self.builder.unsummed() >= bytes_min {
            self.builder.sum_up();
        }
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
        (Span::new(span.start(), span.start() + max), anomalies)
    }

    /// Something comes into the batch. What rules have taken out of it since counts too: it must
    /// not wait for an event that stays.
    fn stamp(&mut self, now: Now) {
        if !self.waits() {
            self.since = now.instant;
        }
        if self.builder.is_empty() {
            self.builder.stamp(now.wall);
        }
    }

    /// Whether there is something to be handed on, or to be counted.
    fn waits(&self) -> bool {
        let uncounted = self.tally.empty > 0 || self.filtered.0 > 0 || self.held.0 > 0;
        !self.builder.is_empty() || uncounted || self.owed.is_open()
    }

    /// Makes room for `kept` bytes and a read after them, in a batch under the present settings.
    fn make_room(&mut self, now: Now, kept: usize) {
        let full = self.builder.filled() >= limits::BATCH_FLUSH_BYTES
            || self.builder.len() >= limits::BATCH_FLUSH_RECORDS;
        let wanted = kept + CIPHER_READ_BYTES;
        if full || self.builder.space().len() < wanted {
            self.flush(now);
        }
        if self.builder.is_empty() && self.source.generation() != self.generation {
            // Who took events out of the batch knows by which rules until it is replaced.
            self.flush(now);
            self.builder = self.next_builder(0);
        }
        // A connection keeps the message limit that it began with, which may be the larger one.
        if self.builder.is_empty() && self.builder.space().len() < wanted {
            self.builder = self.next_builder(kept);
        }
    }

    /// Hands the batch on if it is large or old enough.
    pub(crate) fn flush_if_due(&mut self, now: Now) {
        self.ripen(now);
        if self.builder.filled() >= limits::BATCH_FLUSH_BYTES
            || self.due().is_some_and(|due| due <= now.instant)
        {
            self.flush(now);
        }
    }

    /// When the open batch has to be handed on; `None` if it has nothing.
    pub(crate) fn due(&self) -> Option<Instant> {
        let batch = self.waits().then(|| self.since + LINGER);
        batch.into_iter().chain(self.groups_due()).min()
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
        self.recognise(1, now);
        self.tell(now);
        self.tally.end_run();
        self.post_empty();
        self.post_held();
        self.post_filtered();
        if self.builder.is_empty() {
            self.post_joined();
            // Bytes that became no event (the middle of an endless line) would fill the arena
            // until a read had no room, which looks like the end of the stream.
            self.builder.truncate(0);
            self.recognised = 0;
            self.owed.hand(Outcome::Nothing);
            self.note_without_batch(now);
            return;
        }
        self.sum_up(0);
        let empty = self.doors.pool.lend(&self.settings.info, 0);
        let builder = std::mem::replace(&mut self.builder, empty);
        let batch = builder.freeze(self.source.next_sequence());
        // Who sends is known whether or not there is room for what was sent.
        self.source
            .note_senders(now.wall, &batch, &self.tally.peers);
        let (pool, sums) = (&self.doors.pool, self.sums);
        let batches = match &self.shaper {
            Some(shaper) => shape::split(batch, shaper, pool, sums, || self.source.next_sequence()),
            None => vec![batch],
        };
        self.builder = self.next_builder(0);
        self.hand_over(batches);
        self.tally.clear();
    }

    /// Tells others what the batch taught us.
    fn tell(&mut self, now: Now) {
        if let Some(namer) = &mut self.namer {
            namer.tell(&self.builder, now);
        }
        let fallen = self.recogniser.as_mut().and_then(Recogniser::fallen);
        if let Some(fallen) = fallen {
            let events = fallen.tell(&self.doors.unknown, &self.builder, now.wall);
            self.source.unrecognised.add(events);
        }
    }

    /// An empty batch with room for a message of so many bytes at least, under the settings of the
    /// moment.
    fn next_builder(&mut self, message_bytes: usize) -> BatchBuilder {
        if self.source.generation() != self.generation {
            (self.generation, self.settings) = self.source.settings();
            self.groups.end_all();
            self.parser = self.source.zones.parser(&self.settings);
            self.skew_ns_max = self.settings.syslog.time_skew_ns_max();
            self.recogniser = recogniser(&self.settings);
            self.namer = self.settings.names.clone().map(Namer::new);
            self.shaper = self.settings.shape.clone().map(Shaper::new);
        }
        self.recognised = 0;
        if let Some(recogniser) = &mut self.recogniser {
            recogniser.begin();
        }
        if let Some(namer) = &mut self.namer {
            namer.begin();
        }
        if let Some(shaper) = &mut self.shaper {
            shaper.begin();
        }
        let longest = message_bytes.max(self.settings.syslog.message_bytes_max());
        self.doors.pool.lend(&self.settings.info, longest)
    }
}

/// Who says what a source's events are.
fn recogniser(settings: &Settings) -> Option<Recogniser> {
    let recognition = settings.recognition.clone()?;
    Some(Recogniser::new(recognition).watch())
}

#[cfg(test)]
#[path = "filler/tests.rs"]
mod tests;
