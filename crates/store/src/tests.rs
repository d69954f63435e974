//! The store over a real folder: what it keeps, and what is left when the process dies before any
//! change to the disk.
#![allow(clippy::unwrap_used)]

mod crash;
mod keep;
mod rows;

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use bytes::Bytes;
use inrush_event::{
    Anomalies, Batch, BatchOrigin, BatchPool, Delivery, Fate, Feed, FeedNext, Peer, Protocol,
    Record, SourceInfo, Span, Timestamp, limits,
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::writer::{self, Observer};
use crate::{
    DiskFile, DurableStorage, FileSystemSpace, FolderIo, ListedObject, Store, WriteOptions,
};

/// 2100-01-01 12:30 UTC: ahead of the clock, so that upkeep finds nothing to be old by itself.
pub(crate) const NOW: i64 = 4_102_489_800_000_000_000;

/// What happens at a system call, or right behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Trouble {
    /// The process dies: this and all later calls fail.
    Death,
    /// This one fails; behind it, it fails though it was carried out.
    Error,
}

/// The host's folder, until a call that a test has chosen.
#[derive(Debug)]
pub(crate) struct Fuse {
    disk: Arc<dyn FolderIo>,
    /// Calls left until it; negative: behind it.
    left: AtomicI64,
    trouble: Trouble,
}

impl Fuse {
    fn new(folder: &Path, trouble: Trouble) -> Arc<Self> {
        Arc::new(Self {
            disk: DurableStorage::host_disk(folder),
            left: AtomicI64::new(i64::MAX),
            trouble,
        })
    }

    pub(crate) fn set(&self, calls: i64) {
        self.left.store(calls, SeqCst);
    }

    pub(crate) fn is_blown(&self) -> bool {
        self.left.load(SeqCst) < 0
    }

    fn burn(&self) -> io::Result<()> {
        let left = self.left.fetch_sub(1, SeqCst);
        match self.trouble {
            _ if left > 0 => Ok(()),
            Trouble::Death => Err(io::Error::other("dead")),
            Trouble::Error if left == 0 => Err(io::Error::from_raw_os_error(5)),
            Trouble::Error => Ok(()),
        }
    }

    /// Before a call and behind it.
    fn around<T>(&self, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.burn()?;
        let done = call()?;
        self.burn().map(|()| done)
    }
}

struct FusedFile(Box<dyn DiskFile>, Arc<dyn Fn() -> io::Result<()>>);

impl DiskFile for FusedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        (self.1)()?;
        self.0.write(bytes)?;
        (self.1)()
    }

    fn sync(&mut self) -> io::Result<()> {
        (self.1)()?;
        self.0.sync()?;
        (self.1)()
    }
}

/// Shared, so that a test keeps a hold of it.
#[derive(Debug)]
struct Fused(Arc<Fuse>);

impl FolderIo for Fused {
    fn lock(&self) -> io::Result<Box<dyn Send + Sync>> {
        self.0.disk.lock()
    }

    fn create(&self, path: &str) -> io::Result<Box<dyn DiskFile>> {
        let fuse = Arc::clone(&self.0);
        let file = self.0.around(|| self.0.disk.create(path))?;
        Ok(Box::new(FusedFile(file, Arc::new(move || fuse.burn()))))
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.around(|| self.0.disk.link(from, to))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.around(|| self.0.disk.rename(from, to))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.0.around(|| self.0.disk.remove(path))
    }

    fn make_folder(&self, path: &str) -> io::Result<()> {
        self.0.around(|| self.0.disk.make_folder(path))
    }

    fn remove_folder(&self, path: &str) -> io::Result<()> {
        self.0.around(|| self.0.disk.remove_folder(path))
    }

    fn sync_folder(&self, path: &str) -> io::Result<()> {
        self.0.around(|| self.0.disk.sync_folder(path))
    }

    fn read(&self, path: &str, bytes_max: u64) -> io::Result<Bytes> {
        self.0.around(|| self.0.disk.read(path, bytes_max))
    }

    fn len(&self, path: &str) -> io::Result<u64> {
        self.0.around(|| self.0.disk.len(path))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<ListedObject>> {
        self.0.around(|| self.0.disk.list(folder))
    }

    fn space(&self) -> io::Result<FileSystemSpace> {
        self.0.disk.space()
    }
}

/// A store whose system calls meet trouble once the fuse is set.
fn fused(folder: &Path, trouble: Trouble) -> (Arc<Store>, Arc<Fuse>) {
    let fuse = Fuse::new(folder, trouble);
    let disk = Arc::new(Fused(Arc::clone(&fuse)));
    let home = DurableStorage::on_disk(disk, folder.canonicalize().unwrap()).unwrap();
    (Store::open(home).unwrap(), fuse)
}

fn store(folder: &Path) -> Arc<Store> {
    Store::open(DurableStorage::folder(folder).unwrap()).unwrap()
}

/// A batch of one source; each text is an event at this time.
pub(crate) fn batch(index: &str, events: &[(i64, &[u8])]) -> Arc<Batch> {
    let source = Arc::new(SourceInfo {
        name: "syslog".into(),
        index: index.into(),
        sourcetype: "cisco:asa".into(),
    });
    let mut builder = BatchPool::new().lend(&source, limits::MESSAGE_BYTES_DEFAULT);
    let ip = "10.1.2.3".parse().unwrap();
    let peer = Peer {
        ip,
        local_port: 514,
        protocol: Protocol::Tcp,
        client: None,
    };
    for (time, text) in events {
        let start = builder.filled();
        builder.extend(text);
        let span = Span::new(start, builder.filled());
        let peer = builder.peer(peer.clone());
        let mut record = Record::unparsed(span, Timestamp(NOW), peer, Anomalies::NONE);
        record.event_time = Timestamp(*time);
        builder.parts().1.push(record);
    }
    builder.stamp(Timestamp(NOW));
    Arc::new(builder.freeze(0))
}

/// A queue that outlives the processes which read it.
#[derive(Default)]
struct Queue {
    batches: Vec<(Arc<Batch>, u64)>,
    events: u64,
    state: Mutex<State>,
    dead: AtomicBool,
}

#[derive(Default)]
struct State {
    next: usize,
    /// Events that were settled as delivered, by their numbers.
    settled: BTreeSet<u64>,
    settled_twice: u64,
    put_back: u64,
}

impl Queue {
    fn push(&mut self, batch: Arc<Batch>) {
        let first = self.events;
        self.events += batch.len() as u64;
        self.batches.push((batch, first));
    }

    /// A new process, which knows nothing of what was settled.
    fn restart(&self) {
        *self.state.lock().unwrap() = State::default();
        self.dead.store(false, SeqCst);
    }
}

impl Feed for Queue {
    fn next(&self, _wait: Duration) -> FeedNext {
        let mut state = self.state.lock().unwrap();
        let Some((batch, first_event)) = self.batches.get(state.next) else {
            return FeedNext::Closed;
        };
        state.next += 1;
        FeedNext::Batch(Delivery {
            position: *first_event,
            batch: Arc::clone(batch),
            events: 0..batch.len() as u32,
            origin: BatchOrigin {
                log: 7,
                epoch: 1,
                first_event: *first_event,
            },
        })
    }

    fn settle(&self, position: u64, events: Range<u32>, fate: Fate) {
        let mut state = self.state.lock().unwrap();
        for number in events.map(|n| position + u64::from(n)) {
            match fate {
                Fate::Delivered if !state.settled.insert(number) => state.settled_twice += 1,
                Fate::Delivered => {}
                _ => state.put_back += 1,
            }
        }
    }

    fn stopping(&self) -> bool {
        self.dead.load(SeqCst)
    }
}

/// Lets it be tried again.
struct Endures;

impl Observer for Endures {
    fn committed(&self, _bytes: u64) {}
    fn failed(&self, _error: &io::Error) {}
}

/// Ends the process at the first failure.
struct DiesOfIt(Arc<Queue>);

impl Observer for DiesOfIt {
    fn committed(&self, _bytes: u64) {}

    fn failed(&self, _error: &io::Error) {
        self.0.dead.store(true, SeqCst);
    }
}

fn options() -> WriteOptions {
    WriteOptions {
        flush_bytes: 2000,
        ..WriteOptions::default()
    }
}

/// One process: takes all that the queue has into the store.
fn take_all(store: &Arc<Store>, queue: &Arc<Queue>) {
    let feed: Arc<dyn Feed> = Arc::clone(queue) as _;
    let observer: Arc<dyn Observer> = Arc::new(DiesOfIt(Arc::clone(queue)));
    writer::run(store, &options(), &feed, &observer);
}

/// The same, where failures are tried again.
fn take_all_enduring(store: &Arc<Store>, queue: &Arc<Queue>) {
    let feed: Arc<dyn Feed> = Arc::clone(queue) as _;
    let observer: Arc<dyn Observer> = Arc::new(Endures);
    writer::run(store, &options(), &feed, &observer);
}

/// The rows of a file as another program reads them: by its name alone.
fn read_file(path: &Path) -> Vec<RecordBatch> {
    let file = std::fs::File::open(path).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    reader.build().unwrap().map(Result::unwrap).collect()
}

/// Every `.parquet` file below a folder.
fn parquet_files(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            found.extend(parquet_files(&path));
        } else if path.extension().is_some_and(|end| end == "parquet") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn numbers(rows: &RecordBatch) -> Vec<u64> {
    let seq = rows.column_by_name("seq").unwrap();
    seq.as_primitive::<UInt64Type>().values().to_vec()
}

/// The numbers of all events in the store's files.
fn committed(folder: &Path) -> Vec<u64> {
    let files = parquet_files(folder);
    let rows = files.iter().flat_map(|path| read_file(path));
    let mut all: Vec<u64> = rows.flat_map(|rows| numbers(&rows)).collect();
    all.sort_unstable();
    all
}
