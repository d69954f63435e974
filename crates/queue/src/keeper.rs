//! Files of the log beside the segments: the cursors' places, the names, the bad ranges.

use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use inrush_event::BatchPool;

use crate::cursor_file::{CursorFile, CursorPosition, PositionSync, file_name};
use crate::format::LogId;
use crate::meta::{CursorEntry, Meta};
use crate::reader::{BadRange, SegmentReader};
use crate::storage::{Storage, StorageFile};

/// Of each bad range, so many bytes are kept aside, and of so many ranges.
const ASIDE_BYTES_MAX: u64 = 8 * 1024 * 1024;
const ASIDE_RANGES_MAX: usize = 64;

struct CursorCheckpoint {
    place: Mutex<CheckpointState>,
    /// Held while the file is synced, so that one sync is under way at a time; `place` is not,
    /// so that places are written while the disk takes its time. Taken before it.
    sync: Mutex<()>,
}

struct CheckpointState {
    file: CursorFile,
    /// True if the last write failed: then the file is older than the cursor thinks.
    stale: bool,
}

/// A cursor that is being made durable.
pub(crate) struct CursorSync {
    kept: Arc<CursorCheckpoint>,
    sync: PositionSync,
}

impl CursorSync {
    /// Waits for the disk.
    ///
    /// # Errors
    /// The disk fails.
    pub(crate) fn run(&self) -> io::Result<()> {
        self.sync.run()
    }

    /// Takes note of how it went.
    pub(crate) fn finish(&self, ok: bool) {
        let mut place = lock(&self.kept.place);
        place.file.finish_sync(&self.sync, ok);
        // What a failed sync covered may be gone, though the next one says nothing of it.
        place.stale |= !ok;
    }
}

impl CursorCheckpoint {
    fn new(file: CursorFile) -> Arc<Self> {
        Arc::new(Self {
            place: Mutex::new(CheckpointState { file, stale: false }),
            sync: Mutex::default(),
        })
    }

    /// Begins to make the place durable; `None` if it is.
    fn begin_sync(self: &Arc<Self>) -> io::Result<Option<CursorSync>> {
        let mut place = lock(&self.place);
        if place.stale {
            return Err(io::Error::other("the cursor could not be written"));
        }
        // Only where `sync` is not held: one that is under way must not pass for done.
        if place.file.is_syncing() {
            return Err(io::Error::other("the cursor is being synced"));
        }
        place.file.keep_found()?;
        let sync = place.file.begin_sync();
        let kept = Arc::clone(self);
        Ok(sync.map(|sync| CursorSync { kept, sync }))
    }
}

pub(crate) struct CheckpointStore {
    pub(crate) storage: Arc<dyn Storage>,
    id: LogId,
    epoch: u32,
    not_durable: Vec<Range<u64>>,
    /// True if there are events of which nobody knows whose they are.
    pub(crate) orphaned: bool,
    files: Mutex<HashMap<String, Arc<CursorCheckpoint>>>,
    /// Times that it has changed whose cursors there are, and up to which of them that is written
    /// down. Not a flag: while one change is being written down, the next may come.
    changes: AtomicU64,
    changes_written: AtomicU64,
    /// Destinations in `log.json`; `None` while they are not known.
    written: Mutex<Option<Vec<CursorEntry>>>,
    bad: Mutex<HashSet<(String, u64)>>,
    /// Batches are read into its memory.
    pub(crate) pool: Arc<BatchPool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CheckpointStore {
    pub(crate) fn new(storage: Arc<dyn Storage>, meta: &Meta, orphaned: bool) -> Self {
        Self {
            storage,
            id: meta.id,
            epoch: meta.epoch,
            not_durable: meta.not_durable.clone(),
            orphaned,
            files: Mutex::default(),
            changes: AtomicU64::new(1),
            changes_written: AtomicU64::new(0),
            written: Mutex::default(),
            bad: Mutex::default(),
            pool: BatchPool::new(),
        }
    }

    pub(crate) fn reader(&self) -> SegmentReader {
        SegmentReader::new(Arc::clone(&self.storage), self.id, Arc::clone(&self.pool))
    }

    /// Takes over the file of a destination from an earlier process.
    pub(crate) fn adopt(&self, name: &str, file: CursorFile) {
        lock(&self.files).insert(name.to_owned(), CursorCheckpoint::new(file));
    }

    /// Makes the place durable that an earlier process left, so that the first event that is
    /// settled need not wait for that. What fails is tried again before a place is written.
    pub(crate) fn keep_found(&self, name: &str) {
        if let Ok(kept) = self.kept(name) {
            let _ = lock(&kept.place).file.keep_found();
        }
    }

    /// Notes that the list of cursors has changed. Until that is written down, nothing that they
    /// wait for may count as durable.
    pub(crate) fn cursors_changed(&self) {
        self.changes.fetch_add(1, Relaxed);
    }

    /// True if the list of cursors in `log.json` is behind.
    pub(crate) fn is_behind(&self) -> bool {
        self.changes_written.load(Relaxed) != self.changes.load(Relaxed)
    }

    /// Writes down whose cursors there are, if that has changed. `cursors` is asked once it is
    /// this thread's turn; it says `None` while one of them has no durable place.
    ///
    /// # Errors
    /// The disk fails, or a place is missing. It is tried again with the next change and with
    /// every round of writing.
    pub(crate) fn remember(
        &self,
        cursors: impl FnOnce() -> Option<Vec<CursorEntry>>,
    ) -> io::Result<()> {
        let mut written = lock(&self.written);
        let changes = self.changes.load(Relaxed);
        let missing = || io::Error::other("the cursor of a new destination is not saved yet");
        let cursors = cursors().ok_or_else(missing)?;
        if written.as_ref() == Some(&cursors) {
            self.changes_written.store(changes, Relaxed);
            return Ok(());
        }
        let meta = Meta {
            id: self.id,
            epoch: self.epoch,
            cursors: cursors.clone(),
            not_durable: self.not_durable.clone(),
        };
        *written = None;
        let end = meta.write(&*self.storage);
        match &end {
            Ok(()) => {
                *written = Some(cursors);
                self.changes_written.store(changes, Relaxed);
            }
            Err(error) => tracing::warn!(%error, "queue: log.json cannot be written"),
        }
        end
    }

    fn kept(&self, name: &str) -> io::Result<Arc<CursorCheckpoint>> {
        let mut files = lock(&self.files);
        if let Some(kept) = files.get(name) {
            return Ok(Arc::clone(kept));
        }
        let (file, _) = CursorFile::open(&self.storage, &self.id, name, |_| None)?;
        let kept = CursorCheckpoint::new(file);
        files.insert(name.to_owned(), Arc::clone(&kept));
        Ok(kept)
    }

    /// Writes down where a destination stands. `place` is asked once it is this thread's turn; it
    /// says `None` if another thread's turn has covered it.
    pub(crate) fn save(&self, name: &str, place: impl FnOnce(bool) -> Option<CursorPosition>) {
        let Ok(kept) = self.kept(name) else { return };
        let mut kept = lock(&kept.place);
        if let Some(place) = place(kept.stale) {
            kept.stale = kept.file.write(&self.id, self.epoch, &place).is_err();
        }
    }

    /// Writes the first place of a destination down and makes it durable.
    ///
    /// # Errors
    /// The disk fails.
    pub(crate) fn place(
        &self,
        name: &str,
        place: impl FnOnce() -> Option<CursorPosition>,
    ) -> io::Result<()> {
        // Here, for `save` says nothing of a file that cannot be opened.
        self.kept(name)?;
        self.save(name, |_| place());
        self.sync(name)
    }

    /// Makes the place of a destination durable, as it was last saved.
    ///
    /// # Errors
    /// It was not saved, or the disk fails.
    pub(crate) fn sync(&self, name: &str) -> io::Result<()> {
        let kept = self.kept(name)?;
        let _turn = lock(&kept.sync);
        let Some(sync) = kept.begin_sync()? else {
            return Ok(());
        };
        let synced = sync.run();
        sync.finish(synced.is_ok());
        synced
    }

    /// The first step of [`Self::sync`], for those who see to it that there is one at a time.
    #[cfg(feature = "simulation")]
    pub(crate) fn begin_sync(&self, name: &str) -> io::Result<Option<CursorSync>> {
        self.kept(name)?.begin_sync()
    }

    /// Deletes the file of a destination, unless it has come back.
    pub(crate) fn forget(&self, name: &str, is_gone: impl FnOnce() -> bool) {
        // One that comes back now finds no file, or the one that it had: never one that is deleted
        // behind it.
        let mut files = lock(&self.files);
        if !is_gone() {
            return;
        }
        files.remove(name);
        // Left behind, the next start deletes it.
        let _ = self.storage.remove(&file_name(name));
    }

    /// Says once what of a segment cannot be read, and keeps the bytes for those who want to look.
    pub(crate) fn note_bad(&self, ranges: Vec<BadRange>) {
        for range in ranges {
            let mut known = lock(&self.bad);
            let new = known.insert((range.file.clone(), range.bytes.start));
            let keep = known.len() <= ASIDE_RANGES_MAX;
            drop(known);
            if !new {
                continue;
            }
            let bytes = range.bytes.end - range.bytes.start;
            let (file, from) = (&range.file, range.bytes.start);
            tracing::warn!(file, from, bytes, "queue: a part of a segment is damaged");
            if keep && let Err(error) = self.put_aside(&range) {
                tracing::warn!(file, %error, "queue: the damaged part cannot be put aside");
            }
        }
    }

    fn put_aside(&self, range: &BadRange) -> io::Result<()> {
        let bytes = (range.bytes.end - range.bytes.start).min(ASIDE_BYTES_MAX);
        let mut copy = vec![0; bytes as usize];
        let read = self
            .storage
            .open(&range.file)?
            .read_at(&mut copy, range.bytes.start)?;
        copy.truncate(read);
        if copy.iter().all(|byte| *byte == 0) {
            return Ok(()); // A hole that a power cut left; there is nothing to see.
        }
        let name = format!("{}.{}.bad", range.file, range.bytes.start);
        let file: Arc<dyn StorageFile> = self.storage.create(&name)?;
        file.write_at(&[&copy], 0)?;
        self.storage.rename(&name, &format!("bad/{name}"))
    }
}
