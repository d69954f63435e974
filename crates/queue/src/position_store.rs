//! Positions of sources' streams, beside the log: the table of what is durable, and its file.
//!
//! # What it guarantees
//! * Only what is durable in the log gets into the table, in the order of the log.
//! * The file never says more than what a power cut leaves of the log: segments that nobody has
//!   synced are synced before it is written.
//! * [`PositionStore::kept_to`] is a position of the log below which the durable file has all.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use inrush_event::instant_now;

use crate::format::LogId;
use crate::meta::Meta;
use crate::position_file::{encode, write};
use crate::position_table::PositionTable;
use crate::storage::{DiskStorage, Storage};
use crate::unsynced::UnsyncedCopy;

/// Time between two writes of the file for no other reason than that it is behind.
const WRITE_EVERY: Duration = Duration::from_secs(1);

/// Such writes take no more than one part of so many of the time: a million streams are 60 MB.
const WRITE_PART: u32 = 50;

/// Positions as a start found them.
#[derive(Default)]
pub(crate) struct RecoveredPositions {
    pub(crate) table: PositionTable,
    /// Position of the log up to which segments were synced before the file was written.
    pub(crate) synced_to: u64,
    /// True if there is a file.
    pub(crate) exists: bool,
}

/// Place of the file.
enum PositionPlace {
    Nowhere,
    /// Beside the segments.
    Beside(Arc<dyn Storage>),
    /// Of a log in memory; made when there is something to write.
    Folder(PathBuf),
}

/// The file, as its writer knows it.
#[derive(Default)]
pub(crate) struct PositionFile {
    /// [`PositionTable::changes`] of what is in the durable file.
    changes: u64,
    /// Begin of the last try to write it, and the time that it took.
    tried: Option<(Instant, Duration)>,
    /// True if the last try of this process went well.
    clean: bool,
    /// Position in the log from which on frames of earlier processes may lie in segments that were
    /// never synced.
    pub(crate) unsynced_from: Option<u64>,
    /// The same of this process, which does not sync in `os` mode.
    pub(crate) own_unsynced_from: Option<u64>,
    /// Segments of earlier processes up to this serial are synced.
    pub(crate) found_synced: Option<u64>,
    /// Copy of a segment whose sync has failed, until one succeeds.
    pub(crate) copy: Option<UnsyncedCopy>,
    /// True if it was logged that it cannot be written.
    is_logged: bool,
}

impl PositionFile {
    /// Takes note of a try to write it, which began at `now`.
    pub(crate) fn tried(&mut self, now: Instant, ok: bool) {
        let took = instant_now().saturating_duration_since(now);
        self.tried = Some((now, took));
        if !ok && !self.is_logged {
            tracing::warn!(
                "queue: the file `positions` cannot be written: segments stay until it can, and \
                 after a crash files may be read again from where they were read before"
            );
        }
        self.is_logged = !ok;
    }
}

/// The table and its file.
pub(crate) struct PositionStore {
    place: PositionPlace,
    id: LogId,
    pub(crate) epoch: u32,
    /// Held over the writing of the file. Order: this, the table, the state of the log.
    file: Mutex<PositionFile>,
    table: Mutex<PositionTable>,
    /// Position below which the durable file is complete.
    kept_to: AtomicU64,
    /// True if there may be a file.
    exists: AtomicBool,
    /// True if what earlier processes wrote is synced, as far as positions rest on it.
    synced: AtomicBool,
    /// Odd while a segment that was found may lack frames: its sync is under way, or has failed and
    /// they could not be put back.
    turn: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PositionStore {
    /// The store of a log, with what was found. Nobody knows whether the file that was found is
    /// durable, nor whether the segments behind it are.
    pub(crate) fn new(storage: Arc<dyn Storage>, meta: &Meta, found: RecoveredPositions) -> Self {
        let RecoveredPositions {
            table,
            synced_to,
            exists,
        } = found;
        Self {
            place: PositionPlace::Beside(storage),
            epoch: meta.epoch,
            table: Mutex::new(table),
            exists: AtomicBool::new(exists),
            file: Mutex::new(PositionFile {
                unsynced_from: Some(synced_to),
                ..PositionFile::default()
            }),
            ..Self::nowhere(meta.id)
        }
    }

    /// A store without a file.
    pub(crate) fn nowhere(id: LogId) -> Self {
        Self {
            place: PositionPlace::Nowhere,
            id,
            epoch: 0,
            file: Mutex::default(),
            table: Mutex::default(),
            kept_to: AtomicU64::new(0),
            exists: AtomicBool::new(false),
            synced: AtomicBool::new(false),
            turn: AtomicU64::new(0),
        }
    }

    /// The store of a log in memory, in this folder. What is found goes on counting its positions.
    pub(crate) fn of_memory(
        folder: &Path,
        (id, epoch): (LogId, u32),
        table: PositionTable,
    ) -> Self {
        Self {
            place: PositionPlace::Folder(folder.to_owned()),
            epoch,
            table: Mutex::new(table),
            ..Self::nowhere(id)
        }
    }

    /// True if it is the only one that writes anything.
    pub(crate) fn is_alone(&self) -> bool {
        matches!(self.place, PositionPlace::Folder(_))
    }

    /// The folder of the file; `None` if there is none.
    ///
    /// # Errors
    /// It cannot be created.
    pub(crate) fn storage(&self) -> io::Result<Option<Arc<dyn Storage>>> {
        match &self.place {
            PositionPlace::Nowhere => Ok(None),
            PositionPlace::Beside(storage) => Ok(Some(Arc::clone(storage))),
            PositionPlace::Folder(folder) => Ok(Some(Arc::new(DiskStorage::open(folder)?))),
        }
    }

    pub(crate) fn file(&self) -> MutexGuard<'_, PositionFile> {
        lock(&self.file)
    }

    pub(crate) fn table(&self) -> MutexGuard<'_, PositionTable> {
        lock(&self.table)
    }

    /// Position of the log below which the durable file has all positions.
    pub(crate) fn kept_to(&self) -> u64 {
        self.kept_to.load(Relaxed)
    }

    /// True if there may be a file.
    pub(crate) fn exists(&self) -> bool {
        self.exists.load(Relaxed)
    }

    /// True if what earlier processes wrote is synced.
    pub(crate) fn is_synced(&self) -> bool {
        self.synced.load(Relaxed)
    }

    /// Number of the turn, for [`Self::is_sure`].
    pub(crate) fn turn(&self) -> u64 {
        self.turn.load(SeqCst)
    }

    /// True if since that turn began, segments that were found have had all their frames.
    pub(crate) fn is_sure(&self, turn: u64) -> bool {
        turn.is_multiple_of(2) && self.turn() == turn
    }

    /// Notes that they may lack some from now on. Only in one's turn at the file.
    pub(crate) fn doubt_found(&self) {
        self.turn.fetch_or(1, SeqCst);
    }

    /// Notes that they have all of them.
    pub(crate) fn trust_found(&self) {
        self.turn.fetch_add(self.turn() % 2, SeqCst);
    }

    /// Notes that it is.
    pub(crate) fn found_is_synced(&self) {
        self.synced.store(true, Relaxed);
    }

    /// Writes the table, of which all must be durable in the log.
    ///
    /// # Errors
    /// The disk fails: what was kept before still is.
    pub(crate) fn write(&self, file: &mut PositionFile) -> io::Result<()> {
        let Some(storage) = self.storage()? else {
            return Ok(());
        };
        let (bytes, changes, complete_to) = {
            let table = self.table();
            let bytes = encode(&table, &self.id, self.epoch);
            (bytes, table.changes, table.complete_to)
        };
        self.exists.store(true, Relaxed);
        let written = write(&*storage, &bytes, file.clean);
        file.clean = written.is_ok();
        written?;
        file.changes = changes;
        self.kept_to.store(complete_to, Relaxed);
        Ok(())
    }

    /// True if the durable file lacks something, also if it is only up to where it is complete.
    pub(crate) fn is_behind(&self, file: &PositionFile) -> bool {
        let table = self.table();
        table.changes != file.changes || table.complete_to > self.kept_to()
    }

    /// True if the file is behind the table, and it is time to write it.
    pub(crate) fn is_due(&self, file: &PositionFile, now: Instant) -> bool {
        let rested = |(tried, took): (Instant, Duration)| {
            now.saturating_duration_since(tried) >= WRITE_EVERY.max(took * WRITE_PART)
        };
        file.tried.is_none_or(rested) && self.is_changed(file)
    }

    /// True if the table has something that is not in the durable file.
    pub(crate) fn is_changed(&self, file: &PositionFile) -> bool {
        self.table().changes != file.changes
    }
}
