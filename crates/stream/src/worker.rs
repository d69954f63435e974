//! Stream workers: threads that each drive many connections by readiness.
//!
//! # What it guarantees
//! * Each ready connection is read once in its turn, so that a hot one cannot starve the others.
//! * While the queue has no room, nothing is read and nobody waits in it: answers are written,
//!   sessions end, and who can be told to come again is told.
//! * The worker's [`BufferQuota`] bounds open frames and unread answers: `relieve` gives up the
//!   oldest.
//! * A panic costs a worker its connections and their unposted events, but not its thread.
//! * What a peer waits to be answered is sent again, so that no panic or crash loses it.
//!
//! # States
//! A connection is nameless until `name` has read its PROXY header, then open. `close` removes it.
//! A connection with answers owed has two more in `answers`: paused, at too many unanswered
//! messages, and closing. After its last answer it lingers until the peer closes (`linger`).
//!
//! # Limits
//! Last reading: `LAST_READ` at a stop, `LAST_READS` reads of a connection at a source's removal.

mod answers;
mod gathering;
mod linger;
mod opening;
mod room;
#[cfg(feature = "simulation")]
pub(crate) mod simulation;

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use inrush_event::instant_now;
use inrush_ingest::batch_writer::acks::AckTarget;
use inrush_ingest::batch_writer::source::IngestSource;
use inrush_ingest::batch_writer::{BatchWriter, WorkerContext};
use inrush_ingest::buffer_quota::BufferQuota;
use inrush_ingest::coalescing::{CoalescingMeter, tick_after};
use inrush_ingest::now::Now;
use inrush_ingest::pool::WorkerWaker;
use inrush_ingest::saturation::SaturationMonitor;
use inrush_queue::DurableHook;
use inrush_transport::stream::{Connection, EndReason, StreamRead};
use mio::{Events, Interest, Poll, Token, Waker};
use slab::Slab;

use self::gathering::CommitGathering;
use self::linger::LingeringClose;
use super::connection::{self, ConnectionBuffer, peer_of};
use super::source::StreamSource;
use crate::connection_limit::ConnectionPermit;

const WAKE: Token = Token(usize::MAX);

/// Deadlines and idle connections are looked for this often.
const SWEEP: Duration = Duration::from_secs(1);

/// After the order to stop, senders that go on sending are read for at most this long.
const LAST_READ: Duration = Duration::from_millis(500);

/// Reads of a connection whose source is taken away, at most.
const LAST_READS: usize = 64;

/// Readiness events taken at once.
const EVENTS: usize = 1024;

/// For so long after a connection came its peer may wait for us: a handshake has several turns.
const HANDSHAKE: Duration = Duration::from_millis(200);

enum StreamCommand {
    Take(Arc<StreamSource>, Box<Connection>, ConnectionPermit),
    /// Close the connections of a source that left the configuration.
    Forget(Arc<StreamSource>),
    Stop,
}

/// A running stream worker.
pub(crate) struct StreamWorker {
    handle: WorkerHandle,
    thread: Option<JoinHandle<()>>,
}

/// Handle to a stream worker: its channel of orders, its waker and its load.
#[derive(Clone)]
pub(crate) struct WorkerHandle {
    orders: Sender<StreamCommand>,
    waker: Arc<Waker>,
    load: Arc<AtomicUsize>,
    thread: Thread,
}

impl WorkerHandle {
    /// Connections that the worker has.
    pub(crate) fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }

    /// Gives the worker a connection.
    pub(crate) fn give(
        &self,
        source: &Arc<StreamSource>,
        connection: Connection,
        place: ConnectionPermit,
    ) {
        self.load.fetch_add(1, Ordering::Relaxed);
        source.connections.add(1);
        let connection = Box::new(connection);
        self.order(StreamCommand::Take(Arc::clone(source), connection, place));
    }

    pub(crate) fn forget(&self, source: &Arc<StreamSource>) {
        self.order(StreamCommand::Forget(Arc::clone(source)));
    }

    fn order(&self, order: StreamCommand) {
        // The worker outlives the acceptor; if it is gone, the process is ending.
        if self.orders.send(order).is_ok()
            && let Err(error) = self.waker.wake()
        {
            tracing::error!(%error, "cannot wake a stream worker");
        }
        // It may nap, and then looks at nothing else.
        self.thread.unpark();
    }
}

impl StreamWorker {
    pub(crate) fn start(
        number: usize,
        doors: WorkerContext,
        carry_bytes_max: u64,
    ) -> io::Result<Self> {
        let (worker, orders, waker) = StreamLoop::new(doors, carry_bytes_max)?;
        let load = Arc::clone(&worker.load);
        let context = worker.doors.clone();
        let thread = thread::Builder::new().name(format!("stream-{number}"));
        let thread = context.spawn(thread, move || worker.run())?;
        let handle = WorkerHandle {
            orders,
            waker,
            load,
            thread: thread.thread().clone(),
        };
        Ok(Self {
            handle,
            thread: Some(thread),
        })
    }

    pub(crate) fn handle(&self) -> WorkerHandle {
        self.handle.clone()
    }

    /// Asks the worker to take in what its connections have sent, and to end.
    pub(crate) fn stop(&self) {
        self.handle.order(StreamCommand::Stop);
    }

    pub(crate) fn join(mut self) {
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("a stream worker ended by a fault; its connections are closed");
        }
    }

    /// True if the worker's thread has ended.
    pub(crate) fn ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

struct ConnectionSlot {
    connection: Connection,
    /// Its place among all connections; goes with it.
    place: ConnectionPermit,
    /// True while its peer is not known: a PROXY header will name it.
    nameless: bool,
    state: ConnectionBuffer,
    source: Arc<StreamSource>,
    /// Index into `fillers`.
    filler: usize,
    last_data: Instant,
    idle_timeout: Option<Duration>,
    /// It is in `ready`.
    queued: bool,
    /// The peer has shut down its side: read on until the end is seen.
    hang_up: bool,
    /// Deadline for a session to be open whose peer waits for answers.
    open_by: Instant,
    /// The peer has shut down its side, and all that it sent was read.
    peer_closed: bool,
    /// Set once its last answer is sent.
    lingering: Option<LingeringClose>,
    /// Its place in `waiting` and `retries`.
    waits: bool,
    retry_at: Option<Instant>,
    /// Set once a connection that answers is only written to.
    closing: Option<PendingClose>,
    /// Not read because too much is unanswered.
    paused: bool,
    /// Has answers to write that came in this round.
    touched: bool,
    /// Mark of [`CommitGathering`].
    gathered: u64,
}

/// A connection that ends when all is answered.
struct PendingClose {
    reason: Option<EndReason>,
    /// True if the peer is to be told, and has not been yet.
    hint: bool,
    /// Time at which it ends even if answers are missing.
    deadline: Instant,
}

pub(crate) struct StreamLoop {
    poll: Poll,
    inbox: Receiver<StreamCommand>,
    load: Arc<AtomicUsize>,
    doors: WorkerContext,
    slots: Slab<ConnectionSlot>,
    /// Connections that have something to read, each at most once.
    ready: VecDeque<usize>,
    /// Connections that are to be read again at a time, though nothing comes.
    retries: Vec<(Instant, usize)>,
    /// Connections that are to be read again once the queue has room.
    waiting: Vec<usize>,
    /// Connections that have something to read and wait for room in the queue.
    parked: Vec<usize>,
    /// True if the queue had room when it was last asked.
    room: bool,
    fillers: Vec<BatchWriter>,
    /// Sources whose writers are to be dropped.
    gone: Vec<Arc<IngestSource>>,
    pressure: SaturationMonitor,
    /// True if a batch that was lent to others is being studied here.
    helping: bool,
    /// Ends our own sleep.
    wake: Arc<WorkerWaker>,
    /// Our share of the memory for what connections have us keep.
    share: BufferQuota,
    /// Connections so far.
    serial: u64,
    /// Position whose batch we are to be woken for once it is durable.
    awaited: Arc<AtomicU64>,
    _hook: DurableHook,
    cipher: Vec<u8>,
    sweep_at: Instant,
    /// Connections whose peers wait for answers.
    answering: usize,
    gathering: CommitGathering,
    /// Until when a batch that someone waits for is held.
    held_until: Option<Instant>,
    /// Until when a new connection's peer may wait for us.
    greeting_until: Instant,
    /// True if the last round read all that there was of each connection that had something.
    drained: bool,
    trickle: CoalescingMeter,
    /// The start of the last nap, until what came meanwhile is read.
    napped: Option<Instant>,
    /// Set once we were asked to stop: when to end even if senders go on.
    stop_at: Option<Instant>,
}

impl StreamLoop {
    fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS);
        // A fault of ours costs the connections at hand, not all that come later.
        while catch_unwind(AssertUnwindSafe(|| self.work(&mut events))).is_err() {
            self.start_over();
        }
        if !self.room {
            self.doors.log.goes_on();
        }
        let now = Now::read();
        for (_, slot) in &mut self.slots {
            let peer = peer_of(&slot.connection);
            self.fillers[slot.filler].end_stream(&peer, &mut slot.state, now);
        }
        self.fillers.iter_mut().for_each(|filler| filler.close(now));
        self.answer_last(&mut events);
    }

    /// Forgets all connections, which closes them, and what they had not handed on.
    fn start_over(&mut self) {
        tracing::error!(
            connections = self.slots.len(),
            "a stream worker met a fault of Inrush: its connections are closed, and what they had \
             sent within the last moment is lost unless it is sent again; please report it"
        );
        for (_, slot) in &self.slots {
            slot.source.connections.sub(1);
        }
        self.load.fetch_sub(self.slots.len(), Ordering::Relaxed);
        self.slots.clear();
        self.answering = 0;
        self.ready.clear();
        self.retries.clear();
        self.waiting.clear();
        self.parked.clear();
        self.fillers.clear();
        self.gone.clear();
        self.helping = false;
    }

    fn work(&mut self, events: &mut Events) {
        while !self.finished() {
            self.wait(events);
            self.mark(events);
            self.read_round(events);
            self.help();
            self.settle();
            if instant_now() >= self.sweep_at {
                self.sweep();
            }
        }
    }

    fn finished(&self) -> bool {
        self.stop_at
            .is_some_and(|stop_at| self.ready.is_empty() || instant_now() >= stop_at)
    }

    fn wait(&mut self, events: &mut Events) {
        let now = instant_now();
        let due = self.fillers.iter().filter_map(BatchWriter::due);
        let due = due.chain(self.retries.iter().map(|(at, _)| *at));
        let looks = !self.room || !self.waiting.is_empty();
        let room_at = looks.then(|| now + room::LOOK_EVERY);
        let due = due.chain(self.held_until).chain(room_at).min();
        let timeout = match due {
            _ if self.helping || !self.ready.is_empty() => Duration::ZERO,
            Some(due) => due.min(self.sweep_at).saturating_duration_since(now),
            None => self.sweep_at.saturating_duration_since(now),
        };
        let timeout = match self.may_nap(now) {
            true => {
                // Parts of events may wait for seconds; what comes meanwhile must not.
                let tick = tick_after(now, self.doors.worker);
                let until = due.map_or(tick, |due| due.min(tick));
                thread::park_timeout(until.saturating_duration_since(now));
                self.pressure.rested(now.elapsed());
                self.napped = Some(now);
                Duration::ZERO
            }
            false => timeout,
        };
        self.wake.fall_asleep();
        let timeout = match self.fillers.iter().any(BatchWriter::has_news) {
            true => Duration::ZERO,
            false => timeout,
        };
        self.poll(events, timeout);
        self.wake.awake();
        if !timeout.is_zero() {
            self.pressure.rested(now.elapsed());
        }
    }

    /// Learns from the kernel which connections have something, waiting so long at most.
    fn poll(&mut self, events: &mut Events, timeout: Duration) {
        match self.poll.poll(events, Some(timeout)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                tracing::error!(%error, "waiting for connections failed");
                thread::sleep(Duration::from_millis(10));
            }
        }
    }

    /// Takes note of the connections that have something, or waited for room for long enough.
    fn mark(&mut self, events: &Events) {
        if !self.retries.is_empty() {
            let now = instant_now();
            let due: Vec<_> = self.retries.extract_if(.., |(at, _)| *at <= now).collect();
            for (_, key) in due {
                if let Some(slot) = self.slots.get_mut(key) {
                    slot.retry_at = None;
                }
                self.mark_ready(key, false);
            }
        }
        for event in events {
            match event.token() {
                WAKE => self.obey(),
                Token(key) => self.mark_ready(key, event.is_read_closed()),
            }
        }
    }

    /// True if what comes may gather until the open batch is due, or the next would be, rather than
    /// be read piece by piece: each waking costs as much as many events. Only where it trickles,
    /// something came in the last round, and nobody waits for an answer, so that no event comes
    /// later to the queue than its batch would.
    fn may_nap(&mut self, now: Instant) -> bool {
        self.drained
            && self.trickle.holds(now)
            && self.answering == 0
            && !self.helping
            && self.stop_at.is_none()
            && now >= self.greeting_until
            && !self.fillers.iter().any(BatchWriter::has_news)
    }

    /// Goes on with batches that were lent to others and not begun, and has others help from now
    /// on, or not any more.
    fn help(&mut self) {
        let now = Now::read();
        self.helping = false;
        for filler in &mut self.fillers {
            self.helping |= filler.help(now);
            let (helped, blocked) = filler.take_times();
            self.pressure.helped(helped);
            self.pressure.rested(blocked);
        }
        if let Some(share) = self.pressure.judge(now.instant) {
            self.fillers
                .iter_mut()
                .for_each(|filler| filler.share(share));
        }
    }

    fn obey(&mut self) {
        while let Ok(order) = self.inbox.try_recv() {
            match order {
                StreamCommand::Take(source, connection, place) => {
                    self.take(&source, *connection, place)
                }
                StreamCommand::Forget(source) => self.forget(&source),
                StreamCommand::Stop => {
                    self.stop_at = Some(instant_now() + LAST_READ);
                    // A last read of every connection, for what the kernel already holds.
                    let keys: Vec<usize> = self.slots.iter().map(|(key, _)| key).collect();
                    keys.into_iter().for_each(|key| self.mark_ready(key, false));
                }
            }
        }
    }

    fn take(
        &mut self,
        source: &Arc<StreamSource>,
        connection: Connection,
        place: ConnectionPermit,
    ) {
        let settings = source.settings();
        self.serial += 1;
        self.greeting_until = instant_now() + HANDSHAKE;
        let id = AckTarget {
            key: self.slots.vacant_key(),
            serial: self.serial,
        };
        let decoder = settings.decoders.decoder(connection.protocol(), id);
        let slot = ConnectionSlot {
            state: ConnectionBuffer::new(decoder, self.share.hold()),
            source: Arc::clone(source),
            nameless: !connection.is_named(),
            connection,
            place,
            filler: self.filler_of(source),
            last_data: instant_now(),
            idle_timeout: settings.options.idle_timeout.map(|period| period.0),
            queued: false,
            hang_up: false,
            open_by: instant_now() + settings.options.handshake_timeout.0 * 2,
            peer_closed: false,
            lingering: None,
            waits: false,
            retry_at: None,
            closing: None,
            paused: false,
            touched: false,
            gathered: 0,
        };
        self.answering += usize::from(slot.state.decoder.answering().is_some());
        let key = self.slots.insert(slot);
        let slot = &mut self.slots[key];
        let socket = slot.connection.socket_mut();
        // Writability matters to TLS and answers alone, and as an edge it costs nothing.
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self.poll.registry().register(socket, Token(key), interest) {
            tracing::warn!(%error, source = source.name(), "cannot watch a connection");
            self.close(key, Some(EndReason::Reset));
            return;
        }
        // Data may have come before the registration.
        self.mark_ready(key, false);
    }

    fn filler_of(&mut self, source: &Arc<StreamSource>) -> usize {
        let known = self
            .fillers
            .iter()
            .position(|filler| Arc::ptr_eq(filler.source(), &source.ingest));
        known.unwrap_or_else(|| {
            let writer = BatchWriter::new(
                self.doors.clone(),
                Arc::clone(&source.ingest),
                Arc::clone(&self.wake),
            );
            self.fillers.push(writer.admitted());
            self.fillers.len() - 1
        })
    }

    fn mark_ready(&mut self, key: usize, hang_up: bool) {
        // An event may still come for a connection that was closed in this round.
        if let Some(slot) = self.slots.get_mut(key) {
            slot.hang_up |= hang_up;
            if !slot.queued {
                slot.queued = true;
                self.ready.push_back(key);
            }
        }
    }

    /// Reads the ready connections, and hands on what is due.
    fn read_round(&mut self, events: &mut Events) {
        let mut now = Now::read();
        let napped = self.napped.take();
        now.since = napped.unwrap_or(now.instant);
        self.look_for_room();
        self.drained = !self.ready.is_empty();
        self.read_ready(now);
        if napped.is_some() && self.drained {
            // Our host acknowledges small packets late while nobody reads, so a sender's congestion
            // window may have filled up with them: what it held back comes with the first read.
            self.poll(events, Duration::ZERO);
            self.mark(events);
            self.read_ready(now);
        }
        // While more is ready it may join the batch; then nothing will, and answers wait for it.
        let idle = self.ready.is_empty();
        let hand_on = idle && !self.hold(now.instant);
        let trickles = self.trickle.holds(now.instant);
        for filler in &mut self.fillers {
            filler.pace(trickles);
            let owed = filler.owed().is_open();
            if hand_on {
                filler.flush_if_owed(now);
            }
            filler.flush_if_due(now);
            if owed && !filler.owed().is_open() {
                self.gathering.handed_on(now.instant);
            }
        }
    }

    /// Reads each ready connection once, so that a hot one cannot starve the others.
    fn read_ready(&mut self, now: Now) {
        for _ in 0..self.ready.len() {
            let Some(key) = self.ready.pop_front() else {
                break;
            };
            self.read(key, now);
            if self.share.is_over() {
                self.relieve(now);
            }
        }
    }

    fn read(&mut self, key: usize, now: Now) {
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        if slot.lingering.is_some() {
            slot.queued = false;
            return self.discard(key);
        }
        if !self.room && !slot.state.decoder.asks_for_room() {
            slot.queued = true;
            return self.parked.push(key);
        }
        slot.queued = false;
        if slot.nameless && !self.name(key, now) {
            return;
        }
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        if slot.state.decoder.answering().is_some() {
            return self.serve(key, now);
        }
        let filler = &mut self.fillers[slot.filler];
        let (connection, state) = (&mut slot.connection, &mut slot.state);
        let outcome = connection::read(filler, connection, state, &mut self.cipher, now);
        match outcome {
            StreamRead::Data(bytes) => {
                slot.last_data = now.instant;
                self.trickle.read(bytes);
                self.drained = false;
                self.mark_ready(key, false);
            }
            StreamRead::Drained(bytes) => {
                slot.last_data = now.instant;
                self.trickle.read(bytes);
                if slot.hang_up {
                    self.mark_ready(key, true);
                }
            }
            StreamRead::Blocked => {}
            StreamRead::Closed => self.close(key, None),
            StreamRead::Failed(reason) => self.close(key, Some(reason)),
        }
    }

    /// Makes room: gives up the unfinished frames that have stood longest.
    fn relieve(&mut self, now: Now) {
        let held = self.slots.iter().filter_map(|(key, slot)| {
            let held = slot.state.account();
            (held.bytes() > 0).then(|| (held.since(), held.bytes(), key))
        });
        for key in self.share.excess(held.collect()) {
            let Some(slot) = self.slots.get_mut(key) else {
                continue;
            };
            if slot.state.decoder.answering().is_some() {
                // What was not answered its sender has, and sends again.
                self.cut_off(key, EndReason::Memory, now);
            } else {
                let filler = &mut self.fillers[slot.filler];
                filler.give_up(&peer_of(&slot.connection), &mut slot.state, now);
            }
        }
    }

    /// Reads the PROXY header, and moves the connection to the place of the address in it. Whether
    /// there is more to be read.
    fn name(&mut self, key: usize, now: Now) -> bool {
        let Some(slot) = self.slots.get_mut(key) else {
            return false;
        };
        let reason = match slot.connection.read_name() {
            StreamRead::Data(_) => {
                let bound = slot.source.settings().bound();
                slot.nameless = false;
                slot.last_data = now.instant;
                match slot.place.move_to(slot.connection.peer(), bound) {
                    Ok(()) => return true,
                    Err(_) => Some(EndReason::OfAddress),
                }
            }
            StreamRead::Drained(_) | StreamRead::Blocked => return false,
            StreamRead::Closed => None,
            StreamRead::Failed(reason) => Some(reason),
        };
        self.close(key, reason);
        false
    }

    fn close(&mut self, key: usize, reason: Option<EndReason>) {
        let Some(mut slot) = self.slots.try_remove(key) else {
            return;
        };
        self.answering -= usize::from(slot.state.decoder.answering().is_some());
        let source = &slot.source;
        if let Some(reason) = reason {
            source.ended(&mut slot.connection, reason);
        }
        source.connections.sub(1);
        self.load.fetch_sub(1, Ordering::Relaxed);
        // Closing the descriptor takes it out of the poll too; an error here changes nothing.
        let _ = self
            .poll
            .registry()
            .deregister(slot.connection.socket_mut());
    }

    /// Ends a connection from our side, keeping the unfinished frame.
    fn cut_off(&mut self, key: usize, reason: EndReason, now: Now) {
        if let Some(slot) = self.slots.get_mut(key) {
            let filler = &mut self.fillers[slot.filler];
            filler.end_stream(&peer_of(&slot.connection), &mut slot.state, now);
        }
        self.close(key, Some(reason));
    }

    fn sweep(&mut self) {
        let now = Now::read();
        self.sweep_at = now.instant + SWEEP;
        self.drop_writers();
        self.end_lingering(now.instant);
        let late: Vec<(usize, EndReason)> = self
            .slots
            .iter()
            .filter(|(_, slot)| self.room || !slot.queued)
            .filter_map(|(key, slot)| overdue(slot, now.instant).map(|reason| (key, reason)))
            .collect();
        for (key, _) in late {
            // We may be the ones who are late, after waiting for room in the queue: look first.
            self.read(key, now);
            if let Some(reason) = self
                .slots
                .get(key)
                .and_then(|slot| overdue(slot, now.instant))
            {
                self.cut_off(key, reason, now);
            }
        }
    }

    /// Drops the writers of sources that are gone, once no connection and no answer needs them.
    fn drop_writers(&mut self) {
        let mut gone = std::mem::take(&mut self.gone);
        gone.retain(|source| {
            let is_its = |writer: &BatchWriter| Arc::ptr_eq(writer.source(), source);
            let Some(at) = self.fillers.iter().position(is_its) else {
                return false;
            };
            let used = self.slots.iter().any(|(_, slot)| slot.filler == at);
            if used || self.fillers[at].owed().is_waiting() {
                return true;
            }
            self.fillers.swap_remove(at);
            let moved = self.fillers.len();
            let moved = self
                .slots
                .iter_mut()
                .filter(|(_, slot)| slot.filler == moved);
            moved.for_each(|(_, slot)| slot.filler = at);
            false
        });
        self.gone = gone;
    }

    fn forget(&mut self, source: &Arc<StreamSource>) {
        self.gone.push(Arc::clone(&source.ingest));
        let now = Now::read();
        let of_source = |slot: &ConnectionSlot| Arc::ptr_eq(&slot.source, source);
        let keys: Vec<usize> = self
            .slots
            .iter()
            .filter(|(_, slot)| of_source(slot))
            .map(|(key, _)| key)
            .collect();
        for key in keys {
            for _ in 0..LAST_READS {
                self.read(key, now);
                if !self.room || !self.slots.get(key).is_some_and(|slot| slot.queued) {
                    break;
                }
            }
            if let Some(slot) = self.slots.get_mut(key) {
                let peer = peer_of(&slot.connection);
                self.fillers[slot.filler].end_stream(&peer, &mut slot.state, now);
                if slot.state.decoder.answering().is_some() {
                    self.begin_close(key, None, true, now);
                } else {
                    self.close(key, None);
                }
            }
        }
        for filler in &mut self.fillers {
            if Arc::ptr_eq(filler.source(), &source.ingest) {
                filler.close(now);
            } else {
                filler.flush(now);
            }
        }
    }
}

fn overdue(slot: &ConnectionSlot, now: Instant) -> Option<EndReason> {
    if slot.lingering.is_some() {
        return None;
    }
    if slot.connection.overdue(now) {
        return Some(EndReason::HandshakeTimeout);
    }
    if let Some(reason) = answers::overdue(slot, now) {
        return Some(reason);
    }
    let idle = slot.idle_timeout?;
    // Who waits for our answer is not idle.
    let owed = slot
        .state
        .decoder
        .answering()
        .is_some_and(|debt| !debt.is_clear() || debt.retry_at().is_some());
    (!owed && now.duration_since(slot.last_data) >= idle).then_some(EndReason::IdleTimeout)
}
