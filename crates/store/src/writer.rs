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
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType};
use arrow_select::concat::concat_batches;
use inrush_event::{Delivery, Fate, Feed, Next, Timestamp};

use crate::account::INGEST;
use crate::commits::MakeError;
use crate::covered::{Covered, Stretch};
use crate::encode;
use crate::options::WriteOptions;
use crate::rows;
use crate::schema::STORED;
use crate::snapshot::Chunk;
use crate::store::{Change, Prepared, Store};
use crate::upkeep::Upkeep;

/// How long a wait for a batch lasts at most.
const IDLE_WAIT: Duration = Duration::from_millis(100);
/// How often it is looked whether events are durable in the queue.
const DURABLE_WAIT: Duration = Duration::from_millis(5);
/// First and longest pause after a failed write.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// Chunks of one size that are made one, up to so many rows: a search looks at each chunk.
const MERGE_CHUNKS: usize = 8;
const MERGE_ROWS_MAX: usize = 8192;

/// Gets to know how the writing goes.
pub trait Observer: Send + Sync {
    /// Files of so many bytes were committed.
    fn committed(&self, bytes: u64);
    /// Nothing could be written; it is tried again.
    fn failed(&self, error: &std::io::Error);
}

/// What was taken from the queue and is not settled.
struct Taken {
    position: u64,
    events: Range<u32>,
}

/// What goes into the next files.
#[derive(Default)]
struct Open {
    taken: Vec<Taken>,
    covered: Vec<Stretch>,
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
    let upkeep = Upkeep::start(store, options);
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
}

fn take_all(
    store: &Arc<Store>,
    options: &WriteOptions,
    feed: &dyn Feed,
    observer: &dyn Observer,
    sealed: &SyncSender<Open>,
) {
    // What this process commits is delivered once; before it, a crash may have come between.
    let before = store.covered();
    let mut open = Open::default();
    loop {
        let age = open.since.map(|since| since.elapsed());
        let due = age.is_some_and(|age| age >= options.flush_after);
        if open.text_bytes >= options.flush_bytes {
            // While the last is still written, what comes waits in the queue: it takes less memory
            // there, and has a bound.
            if sealed.send(std::mem::take(&mut open)).is_err() {
                return;
            }
        } else if due {
            // There is room: on a disk that is slow or full, what trickles in stays searchable.
            match sealed.try_send(open) {
                Ok(()) => open = Open::default(),
                Err(TrySendError::Full(left)) => open = left,
                Err(TrySendError::Disconnected(_)) => return,
            }
        }
        match feed.next(IDLE_WAIT) {
            Next::Batch(delivery) => take(store, &before, feed, observer, &delivery, &mut open),
            Next::Idle => {}
            Next::Closed => break,
        }
    }
    if !open.taken.is_empty() {
        // As above.
        let _ = sealed.send(open);
    }
}

/// Makes the events of a delivery searchable that no file holds; settles the others.
fn take(
    store: &Arc<Store>,
    before: &Covered,
    feed: &dyn Feed,
    observer: &dyn Observer,
    delivery: &Delivery,
    open: &mut Open,
) {
    let origin = delivery.origin;
    let numbered = |n: u32| origin.first_event + u64::from(n);
    let events = delivery.events.clone();
    let all = numbered(events.start)..numbered(events.end);
    let mut settled = events.start;
    for missing in before.missing(origin.log, origin.epoch, all) {
        let index = |number: u64| (number - origin.first_event) as u32;
        let events = index(missing.start)..index(missing.end);
        skip(store, feed, delivery.position, settled..events.start);
        settled = events.end;
        match rows::of_batch(&delivery.batch, events.clone(), origin) {
            Ok(chunk) => {
                let stretch = Stretch {
                    log: origin.log,
                    epoch: origin.epoch,
                    first: missing.start,
                    count: missing.end - missing.start,
                };
                open.add(store, delivery, events, chunk, stretch);
            }
            Err(error) => {
                // Held and shown, not lost: a fault of ours that an update can mend.
                observer.failed(&std::io::Error::other(error));
                feed.settle(delivery.position, events, Fate::RetryAfter(PAUSES.1));
            }
        }
    }
    skip(store, feed, delivery.position, settled..events.end);
    let lag = Timestamp::now()
        .0
        .saturating_sub(delivery.batch.received().0);
    let lag = Duration::from_nanos(u64::try_from(lag).unwrap_or(0));
    store.counters.searchable(events.len() as u64, lag);
}

/// Settles events that a file holds already: they were written before a crash that came before the
/// queue took note.
fn skip(store: &Store, feed: &dyn Feed, position: u64, events: Range<u32>) {
    if !events.is_empty() {
        store.counters.repeated.add(events.len() as u64);
        feed.settle(position, events, Fate::Delivered);
    }
}

impl Open {
    fn add(
        &mut self,
        store: &Store,
        delivery: &Delivery,
        events: Range<u32>,
        chunk: Chunk,
        stretch: Stretch,
    ) {
        let range = events.start as usize..events.end as usize;
        let records = delivery.batch.records().get(range).unwrap_or_default();
        self.text_bytes += records.iter().map(|r| u64::from(r.raw.len)).sum::<u64>();
        self.taken.push(Taken {
            position: delivery.position,
            events,
        });
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
        let size = |chunk: &Arc<Chunk>| chunk.rows.num_rows().max(1).ilog2() / 3;
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

/// One chunk of several, its texts copied together: what they were views of can go.
fn merged(chunks: &[Arc<Chunk>]) -> Result<Chunk, ArrowError> {
    let all = concat_batches(&STORED, chunks.iter().map(|chunk| &chunk.rows))?;
    let compact = |column: &ArrayRef| match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()) as ArrayRef,
        _ => Arc::clone(column),
    };
    let columns = all.columns().iter().map(compact).collect();
    Ok(Chunk {
        rows: RecordBatch::try_new(Arc::clone(&STORED), columns)?,
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
    fn run(self, sealed: &Receiver<Open>) {
        while let Ok(open) = sealed.recv() {
            let fate = match self.commit(&open) {
                true => Fate::Delivered,
                // Only while the process stops: they are there again at the next start.
                false => Fate::RetryAfter(Duration::ZERO),
            };
            for taken in open.taken {
                self.feed.settle(taken.position, taken.events, fate.clone());
            }
        }
    }

    /// Commits what was taken, however often it has to be tried; `false` if it could not be until
    /// the process stopped.
    fn commit(&self, open: &Open) -> bool {
        let last = open.taken.iter().map(|taken| taken.position).max();
        // What the queue may lose in a crash would be there twice under one number: once in the
        // store, once as what another event gets.
        while last.is_some_and(|last| !self.feed.durable(last)) && !self.feed.stopping() {
            thread::sleep(DURABLE_WAIT);
        }
        let mut pause = PAUSES.0;
        let mut prepared = None;
        loop {
            match self.try_commit(open, &mut prepared) {
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

    /// Writes the files, once, and tries to commit them. What could not be committed stays
    /// prepared: perhaps it was, and then only the same commit may be tried again.
    fn try_commit(
        &self,
        open: &Open,
        prepared: &mut Option<Arc<Prepared>>,
    ) -> std::io::Result<u64> {
        let prepared = match prepared {
            Some(prepared) => prepared,
            none => none.insert(self.prepare(open)?),
        };
        self.store.make(prepared).map_err(MakeError::into_inner)?;
        let added = &prepared.commit.added;
        let events: u64 = added.iter().map(|entry| entry.rows).sum();
        self.store.counters.events.add(events);
        self.store.counters.text_bytes.add(open.text_bytes);
        Ok(added.iter().map(|entry| entry.bytes).sum())
    }

    fn prepare(&self, open: &Open) -> std::io::Result<Arc<Prepared>> {
        let care = &self.store.care;
        care.may_write(self.store.home(), &self.options)?;
        let rows: Vec<RecordBatch> = open.chunks.iter().map(|chunk| chunk.rows.clone()).collect();
        let mut files = encode::files(&rows)?;
        let time = self.store.care.time();
        for file in &mut files {
            let received = Timestamp(file.entry.received_ns);
            file.entry.received_ns = time.mended(received).0;
        }
        self.store.prepare(Change {
            why: INGEST,
            files,
            removed: &[],
            covered: open.covered.clone(),
            tail: &open.chunks,
        })
    }
}
