//! Quarantine: events that a destination will never take, each with the reason.
//!
//! # What it guarantees
//! * What [`QuarantineLog::put`] has taken is on disk, synced: one sync for all that it is given.
//! * It never refuses to start: it is opened when it is first needed, over whatever is damaged, by
//!   the rules of the log of events, whose format it shares. A frame holds one event, for one
//!   destination, and a note of the refusal. The number of an entry is never given out again.
//! * Entries are taken out by writing their segment anew; a crash leaves the old or the new one.
//! * Nothing is dropped for want of room: a put fails, and the event stays with its destination.
//!
//! # After a crash
//! An event that was put and not yet counted comes again, and may be refused and put again.

mod entry;
mod filter;

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use inrush_event::{ByteSize, limits};

pub use entry::{QuarantineEntry, QuarantineReader, RefusedEvents};
pub use filter::QuarantineFilter;

use crate::Durability;
use crate::format::{FrameHeader, LogId, SEGMENT_HEADER_BYTES};
use crate::meta::Meta;
use crate::recover::recover;
use crate::rewrite::rewrite;
use crate::rounds::apply;
use crate::segments::Segments;
use crate::storage::{DiskStorage, Storage};
use crate::writer::{CommitOptions, PendingBatch, SegmentWriter};

/// The budget is at least so many segments.
const SEGMENTS_MIN: u64 = 4;

type Opener = Box<dyn Fn() -> io::Result<Arc<dyn Storage>> + Send + Sync>;

/// Keeps what destinations refused.
pub struct QuarantineLog {
    open: Opener,
    bytes_max: AtomicU64,
    /// Bytes on disk, for those who must not wait for it.
    bytes: AtomicU64,
    /// One put or removal at a time; `None` until it is needed. Held over writing: whoever refuses
    /// events waits for the disk anyway.
    inner: Mutex<Option<QuarantineState>>,
}

struct QuarantineState {
    storage: Arc<dyn Storage>,
    meta: Meta,
    /// True if `log.json` says what it should.
    named: bool,
    writer: SegmentWriter,
    segments: Segments,
    position: u64,
    /// Number of the next entry.
    next: u64,
}

impl QuarantineLog {
    /// Quarantine in `folder`, which may take so many bytes. Nothing is made before it is opened.
    pub fn new(folder: &Path, bytes_max: ByteSize) -> Self {
        let folder = folder.to_owned();
        Self::on(
            Box::new(move || Ok(Arc::new(DiskStorage::open(&folder)?) as Arc<dyn Storage>)),
            bytes_max,
        )
    }

    /// Quarantine in the storage that `open` gives when it is first needed.
    pub fn on(open: Opener, bytes_max: ByteSize) -> Self {
        Self {
            open,
            bytes_max: AtomicU64::new(bytes_max.0),
            bytes: AtomicU64::new(0),
            inner: Mutex::new(None),
        }
    }

    /// Changes the budget.
    pub fn reconfigure(&self, bytes_max: ByteSize) {
        self.bytes_max.store(bytes_max.0, Relaxed);
    }

    /// Opens it now. Nothing but a warning depends on it: it is tried again when it is needed.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(&self) -> io::Result<()> {
        self.with(|_| Ok(()))
    }

    /// Bytes on disk as far as it is open, and the budget for them.
    pub fn bytes(&self) -> (u64, u64) {
        (self.bytes.load(Relaxed), self.bytes_max.load(Relaxed))
    }

    /// Keeps the events, durably, before it returns: one sync for all of them.
    ///
    /// # Errors
    /// There is no room, or the disk fails: nothing was kept, and the caller holds them.
    pub fn put(&self, destination: &str, refused: &[RefusedEvents<'_>]) -> io::Result<()> {
        let bytes_max = self.bytes_max.load(Relaxed);
        self.with(|inner| inner.put(destination, refused, bytes_max))
    }

    /// Reads the entries that fit `filter`, the oldest first. What is put later does not appear.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn entries(&self, filter: &QuarantineFilter) -> io::Result<QuarantineReader> {
        self.with(|inner| {
            Ok(QuarantineReader::new(
                Arc::clone(&inner.storage),
                inner.meta.id,
                inner.segments.0.clone(),
                inner.next,
                filter.clone(),
            ))
        })
    }

    /// Takes entries out by their numbers; says how many there were.
    ///
    /// # Errors
    /// The disk fails; some may have been taken out.
    pub fn remove(&self, numbers: &BTreeSet<u64>) -> io::Result<u64> {
        self.with(|inner| inner.remove(numbers))
    }

    fn with<R>(&self, work: impl FnOnce(&mut QuarantineState) -> io::Result<R>) -> io::Result<R> {
        let mut inner: MutexGuard<'_, Option<QuarantineState>> =
            self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let inner = match &mut *inner {
            Some(inner) => inner,
            None => inner.insert(QuarantineState::open((self.open)()?)?),
        };
        let done = work(inner);
        self.bytes.store(inner.segments.bytes(), Relaxed);
        done
    }
}

impl QuarantineState {
    fn open(storage: Arc<dyn Storage>) -> io::Result<Self> {
        let found = recover(&storage, LogId::random())?;
        for file in &found.aside {
            tracing::warn!(file, "quarantine: not a file of this log, put aside");
        }
        let (id, epoch) = (found.meta.id, found.meta.epoch);
        Ok(Self {
            writer: SegmentWriter::new(Arc::clone(&storage), id, epoch, found.serial),
            storage,
            meta: found.meta,
            named: false,
            segments: found.segments,
            position: found.position,
            next: found.event,
        })
    }

    fn put(
        &mut self,
        destination: &str,
        refused: &[RefusedEvents<'_>],
        bytes_max: u64,
    ) -> io::Result<()> {
        let mut pending: Vec<PendingBatch> = Vec::new();
        let to: Arc<str> = Arc::from(destination);
        for (position, (batch, note)) in (self.position..).zip(entry::alone(&to, refused)) {
            pending.push(PendingBatch {
                position,
                first_event: self.next + (position - self.position),
                batch: Arc::new(batch),
                note: Some(note),
            });
        }
        let bytes: u64 = pending.iter().map(PendingBatch::bytes).sum();
        if pending.is_empty() {
            return Ok(());
        }
        if self.segments.bytes() + bytes > bytes_max {
            let text = "quarantine is full (`queue.quarantine_bytes`)";
            return Err(io::Error::new(io::ErrorKind::StorageFull, text));
        }
        if !self.named {
            self.meta.write(&*self.storage)?;
            self.named = true;
        }
        let manner = CommitOptions {
            all_kept: false,
            durability: Durability::Fsync,
            segment_bytes: limits::QUARANTINE_SEGMENT_BYTES.min(bytes_max / SEGMENTS_MIN),
        };
        let outcome = self.writer.round(&pending, manner);
        for change in outcome.changes {
            apply(&mut self.segments.0, change);
        }
        if let Some(error) = outcome.error {
            // What became durable of it all the same does not count: the next segment begins at
            // its positions.
            self.writer.end_segment();
            return Err(error);
        }
        self.position += pending.len() as u64;
        self.next += pending.len() as u64;
        Ok(())
    }

    fn remove(&mut self, numbers: &BTreeSet<u64>) -> io::Result<u64> {
        if let Some(last) = self.segments.0.last()
            && numbers
                .range(last.header.base_event..self.next)
                .next()
                .is_some()
        {
            // The writer must not go on in a file that is replaced, and which number comes next
            // must be known when the last entries are gone.
            self.begin_segment()?;
        }
        let mut removed = 0;
        let mut index = 0;
        while index + 1 < self.segments.0.len() {
            let from = self.segments.0[index].header.base_event;
            let end = self.segments.0[index + 1].header.base_event;
            if from < end && numbers.range(from..end).next().is_some() {
                removed += self.take_out(index, numbers)?;
            }
            if self.segments.0[index].bytes <= SEGMENT_HEADER_BYTES as u64 {
                let gone = self.segments.0.remove(index);
                self.storage.remove(&gone.name)?;
            } else {
                index += 1;
            }
        }
        Ok(removed)
    }

    fn begin_segment(&mut self) -> io::Result<()> {
        let outcome = self.writer.begin_empty(self.position, self.next);
        for change in outcome.changes {
            apply(&mut self.segments.0, change);
        }
        outcome.error.map_or(Ok(()), Err)
    }

    /// Takes entries out of a segment that is not the last.
    fn take_out(&mut self, index: usize, numbers: &BTreeSet<u64>) -> io::Result<u64> {
        let end = self.segments.0[index + 1].header.base();
        let segment = &mut self.segments.0[index];
        let mut removed = 0;
        let keep = |frame: &FrameHeader, _: &[u8]| {
            let counts = frame.is_before(end);
            let wanted = counts && !numbers.contains(&frame.first_event);
            removed += u64::from(counts && !wanted);
            wanted
        };
        let header = segment.header;
        segment.bytes = rewrite(&*self.storage, &self.meta.id, segment, &header, keep)?;
        Ok(removed)
    }
}
