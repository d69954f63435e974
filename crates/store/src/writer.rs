//! From the queue into the store: searchable at once, in a file a little later, settled then.
//!
//! Two threads: the one that calls [`run`] takes batches and makes them searchable; the other
//! writes files and commits, so that a write delays no search. What waits for it is bounded: then
//! batches wait in the queue, where no search finds them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_schema::ArrowError;
use arrow_select::concat::concat_batches;
use inrush_event::{BatchOrigin, Delivery, Fate, Feed, FeedNext, Timestamp};

use crate::account::INGEST;
use crate::commits::MakeError;
use crate::covered::{DedupSet, EventRange};
use crate::encode;
use crate::mutant::{Mutant, is_on};
use crate::options::WriteOptions;
use crate::rows;
use crate::schema::STORED;
use crate::snapshot::Chunk;
use crate::store::{PreparedCommit, Store, StoreChange};
use crate::upkeep::MaintenanceThread;

/// Longest wait for a batch.
const IDLE_WAIT: Duration = Duration::from_millis(100);
/// Poll interval of a commit that waits until the queue has its events on disk, or for upkeep.
const DURABLE_WAIT: Duration = Duration::from_millis(5);
/// The longest that a commit waits for upkeep that is behind.
const UPKEEP_WAIT_MAX: Duration = Duration::from_secs(2);
/// First and longest pause after a failed write.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// Chunks of one size that are made one, and rows from which on a chunk stays as it is. A search
/// looks at each chunk; to copy rows into a larger one costs half of what making them does.
const MERGE_CHUNKS: usize = 32;
const MERGE_ROWS_MAX: usize = 2048;

/// Gets to know how the writing goes.
pub trait Observer: Send + Sync {
    /// Files of so many bytes were committed.
    fn committed(&self, bytes: u64);
    /// Nothing could be written; it is tried again.
    fn failed(&self, error: &std::io::Error);
}

/// Events that were taken from the queue and are not settled.
struct UnsettledEvents {
    position: u64,
    events: Range<u32>,
}

/// Events that are gathered for the next files.
#[derive(Default)]
pub(crate) struct FlushBuffer {
    taken: Vec<UnsettledEvents>,
    covered: Vec<EventRange>,
    chunks: Vec<Arc<Chunk>>,
    text_bytes: u64,
    since: Option<Instant>,
}

/// Takes batches from `feed` until it is closed or the process is stopping, then commits what is
/// left. Blocks, so it is called on a thread of its own.
pub fn run(
    store: &Arc<Store>,
    options: &WriteOptions,
    feed: &Arc<dyn Feed>,
    observer: &Arc<dyn Observer>,
) {
    let upkeep = MaintenanceThread::start(store, options);
    // One is written, one grows: memory is the price of more.
    let (sender, sealed) = sync_channel(0);
    let committer = Committer {
        store: Arc::clone(store),
        feed: Arc::clone(feed),
        observer: Arc::clone(observer),
        options: options.clone(),
    };
    let spawned = thread::Builder::new()
        .name("store-commit".into())
        .spawn(move || committer.run(&sealed));
    match spawned {
        Ok(thread) => {
            take_all(store, options, &**feed, &**observer, &sender);
            drop(sender);
            if thread.join().is_err() {
                tracing::error!("the store's thread ended by a fault");
            }
        }
        Err(error) => observer.failed(&error),
    }
    store.drop_tail();
    upkeep.stop();
    // Files that the last merge has replaced: engines that read every file would read both.
    store.bury();
}

fn take_all(
    store: &Arc<Store>,
    options: &WriteOptions,
    feed: &dyn Feed,
    observer: &dyn Observer,
    sealed: &SyncSender<FlushBuffer>,
) {
    // What this process commits is delivered once; before it, a crash may have come between.
    let before = store.covered();
    let mut open = FlushBuffer::default();
    loop {
        let age = open.since.map(|since| since.elapsed());
        if age.is_some_and(|age| age >= options.flush_after) {
            // There is room: on a disk that is slow or full, what trickles in stays searchable.
            match sealed.try_send(open) {
                Ok(()) => open = FlushBuffer::default(),
                Err(TrySendError::Full(left)) => open = left,
                Err(TrySendError::Disconnected(_)) => return,
            }
        }
        match feed.next(IDLE_WAIT) {
            FeedNext::Batch(mut delivery) => {
                while !delivery.events.is_empty() {
                    let rest = split(
                        &mut delivery,
                        options.flush_bytes.saturating_sub(open.text_bytes),
                    );
                    take(store, &before, feed, observer, &delivery, &mut open);
                    delivery.events = rest;
                    // While the last is still written, what comes waits in the queue: it takes less
                    // memory there, and has a bound.
                    if open.text_bytes >= options.flush_bytes
                        && sealed.send(std::mem::take(&mut open)).is_err()
                    {
                        return;
                    }
                }
            }
            FeedNext::Idle => {}
            FeedNext::Closed => break,
        }
    }
    if !open.is_empty() {
        // As above.
        let _ = sealed.send(open);
    }
}

/// Leaves a delivery the first of its events that have `room_bytes` of text together, or one more;
/// returns the others. A batch can be larger than what is written at once where memory is short.
fn split(delivery: &mut Delivery, room_bytes: u64) -> Range<u32> {
    let events = delivery.events.clone();
    let all = delivery.batch.records();
    let records = all.get(events.start as usize..events.end as usize);
    let mut bytes = 0;
    let last = records.unwrap_or_default().iter().position(|record| {
        bytes += u64::from(record.raw.len);
        bytes >= room_bytes
    });
    let end = last.map_or(events.end, |last| events.start + last as u32 + 1);
    delivery.events.end = end;
    end..events.end
}

/// Makes the events of a delivery searchable that no file holds; settles the others.
fn take(
    store: &Arc<Store>,
    before: &DedupSet,
    feed: &dyn Feed,
    observer: &dyn Observer,
    delivery: &Delivery,
    open: &mut FlushBuffer,
) {
    let events = delivery.events.clone();
    let offer = OfferedEvents {
        position: delivery.position,
        origin: delivery.origin,
        events: events.clone(),
    };
    take_new(store, before, feed, &offer, open, |events| {
        let range = events.start as usize..events.end as usize;
        match rows::of_batch(&delivery.batch, events, delivery.origin) {
            Ok(chunk) => {
                let records = delivery.batch.records().get(range).unwrap_or_default();
                let text_bytes = records.iter().map(|r| u64::from(r.raw.len)).sum();
                Some((chunk, text_bytes))
            }
            Err(error) => {
                observer.failed(&std::io::Error::other(error));
                None
            }
        }
    });
    let lag = Timestamp::now()
        .0
        .saturating_sub(delivery.batch.received().0);
    let lag = Duration::from_nanos(u64::try_from(lag).unwrap_or(0));
    store.counters.searchable(events.len() as u64, lag);
}

/// Events as the queue offers them.
pub(crate) struct OfferedEvents {
    pub(crate) position: u64,
    pub(crate) origin: BatchOrigin,
    /// By their places in the batch.
    pub(crate) events: Range<u32>,
}

/// Takes those of the events that no file holds, as the rows and bytes of text that `rows` makes of
/// them; settles the others.
pub(crate) fn take_new(
    store: &Arc<Store>,
    before: &DedupSet,
    feed: &dyn Feed,
    offer: &OfferedEvents,
    open: &mut FlushBuffer,
    mut rows: impl FnMut(Range<u32>) -> Option<(Chunk, u64)>,
) {
    let (origin, events) = (offer.origin, offer.events.clone());
    let numbered = |n: u32| origin.first_event + u64::from(n);
    let all = numbered(events.start)..numbered(events.end);
    let mut settled = events.start;
    for missing in before.missing(origin.log, origin.epoch, all) {
        let index = |number: u64| (number - origin.first_event) as u32;
        let events = index(missing.start)..index(missing.end);
        skip(store, feed, offer.position, settled..events.start);
        settled = events.end;
        let taken = UnsettledEvents {
            position: offer.position,
            events: events.clone(),
        };
        match rows(events.clone()) {
            Some((chunk, text_bytes)) => {
                let stretch = EventRange {
                    log: origin.log,
                    epoch: origin.epoch,
                    first: missing.start,
                    count: missing.end - missing.start,
                };
                open.text_bytes += text_bytes;
                open.add(store, taken, chunk, stretch);
            }
            // Held and shown, not lost: a fault of ours that an update can mend.
            None => feed.settle(offer.position, events, Fate::RetryAfter(PAUSES.1)),
        }
    }
    skip(store, feed, offer.position, settled..events.end);
}

/// Settles events that a file holds already: they were written before a crash that came before the
/// queue took note.
fn skip(store: &Store, feed: &dyn Feed, position: u64, events: Range<u32>) {
    if !events.is_empty() {
        store.counters.repeated.add(events.len() as u64);
        feed.settle(position, events, Fate::Delivered);
    }
}

impl FlushBuffer {
    pub(crate) fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    fn add(&mut self, store: &Store, taken: UnsettledEvents, chunk: Chunk, stretch: EventRange) {
        self.taken.push(taken);
        match self.covered.last_mut() {
            Some(last)
                if (last.log, last.epoch) == (stretch.log, stretch.epoch)
                    && last.first + last.count == stretch.first =>
            {
                last.count += stretch.count;
            }
            _ => self.covered.push(stretch),
        }
        let chunk = Arc::new(chunk);
        store.publish(&chunk);
        self.chunks.push(chunk);
        self.since.get_or_insert_with(Instant::now);
        self.merge(store);
    }

    /// Makes one of the last chunks while there are enough of about one size.
    fn merge(&mut self, store: &Store) {
        let size = |chunk: &Arc<Chunk>| chunk.rows.num_rows().max(1).ilog2() / MERGE_CHUNKS.ilog2();
        while let Some(from) = self.chunks.len().checked_sub(MERGE_CHUNKS) {
            let last = &self.chunks[from..];
            let small = |chunk: &Arc<Chunk>| {
                chunk.rows.num_rows() < MERGE_ROWS_MAX && size(chunk) <= size(&last[0])
            };
            if !last.iter().all(small) {
                return;
            }
            let Ok(merged) = merged(last) else { return };
            let merged = Arc::new(merged);
            store.merge_tail(last, &merged);
            self.chunks.truncate(from);
            self.chunks.push(merged);
        }
    }
}

/// The column without the memory that its texts do not need, if that is more than they do.
fn compact(column: &ArrayRef) -> ArrayRef {
    let Some(texts) = column.as_string_view_opt() else {
        return Arc::clone(column);
    };
    let held: usize = texts.data_buffers().iter().map(Buffer::capacity).sum();
    match held > 2 * texts.total_buffer_bytes_used() {
        true => Arc::new(texts.gc()),
        false => Arc::clone(column),
    }
}

/// One chunk of several. It may hold twice the memory that its texts need, and no more.
fn merged(chunks: &[Arc<Chunk>]) -> Result<Chunk, ArrowError> {
    let schema = chunks
        .first()
        .map_or_else(|| Arc::clone(&STORED), |chunk| chunk.rows.schema());
    let all = concat_batches(&schema, chunks.iter().map(|chunk| &chunk.rows))?;
    let columns = all.columns().iter().map(compact).collect();
    Ok(Chunk {
        rows: RecordBatch::try_new(schema, columns)?,
        from_ns: chunks.iter().map(|chunk| chunk.from_ns).min().unwrap_or(0),
        to_ns: chunks.iter().map(|chunk| chunk.to_ns).max().unwrap_or(0),
    })
}

/// The thread that writes.
struct Committer {
    store: Arc<Store>,
    feed: Arc<dyn Feed>,
    observer: Arc<dyn Observer>,
    options: WriteOptions,
}

impl Committer {
    fn run(self, sealed: &Receiver<FlushBuffer>) {
        while let Ok(open) = sealed.recv() {
            let mut writing = PendingFlush::new(open);
            let is_made = self.commit(&mut writing);
            writing.settle(&*self.feed, is_made);
        }
    }

    /// Commits what was taken, however often it has to be tried; `false` if it could not be until
    /// the process stopped.
    fn commit(&self, writing: &mut PendingFlush) -> bool {
        let last = writing.last();
        // What the queue may lose in a crash would be there twice under one number: once in the
        // store, once as what another event gets.
        while last.is_some_and(|last| !self.feed.durable(last)) && !self.feed.stopping() {
            thread::sleep(DURABLE_WAIT);
        }
        let until = Instant::now() + UPKEEP_WAIT_MAX;
        while self.store.is_behind(&self.options) && Instant::now() < until && !self.feed.stopping()
        {
            thread::sleep(DURABLE_WAIT);
        }
        let mut pause = PAUSES.0;
        loop {
            match writing.attempt(&self.store, &self.options) {
                Ok(bytes) => {
                    self.observer.committed(bytes);
                    return true;
                }
                Err(error) => self.observer.failed(&error),
            }
            let until = Instant::now() + pause;
            while Instant::now() < until {
                if self.feed.stopping() {
                    return false;
                }
                thread::sleep(IDLE_WAIT.min(pause));
            }
            pause = (pause * 2).min(PAUSES.1);
        }
    }
}

/// A file that is written, until it is committed.
pub(crate) struct PendingFlush {
    open: FlushBuffer,
    prepared: Option<Arc<PreparedCommit>>,
}

impl PendingFlush {
    pub(crate) fn new(open: FlushBuffer) -> Self {
        Self {
            open,
            prepared: None,
        }
    }

    /// The last place in the queue of what is written: it must be durable there first.
    pub(crate) fn last(&self) -> Option<u64> {
        self.open.taken.iter().map(|taken| taken.position).max()
    }

    /// Writes the files, once, and tries to commit them; returns their bytes.
    fn attempt(&mut self, store: &Store, options: &WriteOptions) -> std::io::Result<u64> {
        let prepared = self.prepare(store, options)?;
        Self::make(store, &prepared)
    }

    /// Writes the files, once. What could not be committed stays prepared: perhaps it was, and then
    /// only the same commit may be tried again.
    pub(crate) fn prepare(
        &mut self,
        store: &Store,
        options: &WriteOptions,
    ) -> std::io::Result<Arc<PreparedCommit>> {
        if let Some(prepared) = &self.prepared {
            return Ok(Arc::clone(prepared));
        }
        store.care.may_write(store.home(), options)?;
        let chunks = self.open.chunks.iter();
        let rows: Vec<RecordBatch> = chunks.map(|chunk| chunk.rows.clone()).collect();
        let turn = store.encoder(options);
        let mut files = encode::files(&rows)?;
        drop((turn, rows));
        for file in files.iter_mut().filter(|_| !is_on(Mutant::TrustStamp)) {
            file.entry.received_ns = store.care.mended(file.entry.received_ns);
        }
        let mut covered = self.open.covered.clone();
        if is_on(Mutant::CoveredOffByOne)
            && let Some(last) = covered.last_mut()
        {
            last.count += 1;
        }
        let prepared = store.prepare(StoreChange {
            why: INGEST,
            files,
            removed: &[],
            covered,
            tail: &self.open.chunks,
        })?;
        Ok(Arc::clone(self.prepared.insert(prepared)))
    }

    pub(crate) fn make(store: &Store, prepared: &Arc<PreparedCommit>) -> std::io::Result<u64> {
        store.make(prepared).map_err(MakeError::into_inner)?;
        let added = &prepared.commit.added;
        Ok(added.iter().map(|entry| entry.bytes).sum())
    }

    /// Tells the queue. What could not be committed before the process stops is there again at the
    /// next start.
    pub(crate) fn settle(self, feed: &dyn Feed, is_made: bool) {
        let fate = match is_made {
            true => Fate::Delivered,
            false => Fate::RetryAfter(Duration::ZERO),
        };
        for taken in self.open.taken {
            feed.settle(taken.position, taken.events, fate.clone());
        }
    }
}
