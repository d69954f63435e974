//! Store shared by writers and readers: the committed files, and the tail that is in no file yet.
//!
//! # What it guarantees
//! * A [`Snapshot`] shows a commit whole or not at all: added files, removed files, tail.
//! * A commit in doubt is finished before any other commit is tried.
//! * A removed file stays on disk until its last reader in this process is done (`bury`).
//!
//! # States
//! A change is prepared (`prepare`), then made (`make`) or given up (`give_up`). An unknown outcome
//! leaves the commit in doubt until `make` or `resolve` succeeds.
//!
//! # After a crash
//! [`Store::open`] names committed files, and deletes uncommitted and removed ones.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use inrush_event::{ClockJudgement, Counter, Histogram, HistogramSnapshot};

use crate::account::{COMPACT, EventAccount, INGEST};
use crate::care::{DiskHeadroom, ReservedBytes, RetentionInputs};
use crate::chance;
use crate::commits::{Commit, MakeError, ManifestLog};
use crate::covered::{DedupSet, EventRange};
use crate::encode::Encoded;
use crate::follow::Follower;
use crate::home::DurableStorage;
use crate::mutant::{Mutant, is_on};
use crate::options::{REASONS, WriteOptions};
use crate::snapshot::{Chunk, DataFile, FileEntry, Snapshot};

mod open;

/// Suffix of a file's name before its commit, behind the final name. An engine that reads every
/// file whose name ends in `.parquet` never sees what is not committed.
pub(crate) const UNCOMMITTED: &str = ".tmp";
pub(crate) const PARQUET: &str = ".parquet";

/// Below so many bytes of `flush_bytes`, ingestion and upkeep do not encode at the same time.
const SHORT_FLUSH_BYTES: u64 = 8 << 20;

/// Files that wait to be merged then, at most. With its part of the list that is read and written
/// as a whole, a file takes 2.6 KB of memory.
const UNMERGED_MAX: u64 = 1000;

/// True if the process has little memory.
pub(crate) fn is_short(options: &WriteOptions) -> bool {
    options.flush_bytes < SHORT_FLUSH_BYTES
}

/// Counters of a store since the process started.
#[derive(Default, Debug)]
pub struct StoreCounters {
    /// Events written to files, by ingestion.
    pub events: Counter,
    /// Bytes of raw text of those.
    pub text_bytes: Counter,
    /// Bytes of Parquet written, compaction included.
    pub file_bytes: Counter,
    /// Files written, compaction included.
    pub files: Counter,
    /// Files that compaction has merged into others.
    pub compacted: Counter,
    /// Events whose files retention has deleted: by age, by bytes, for room on the disk.
    pub expired: [Counter; 3],
    /// Deliveries that were skipped, since their events are in files already (events).
    pub repeated: Counter,
    /// Microseconds until events were searchable.
    lag: Histogram,
}

impl StoreCounters {
    pub(crate) fn searchable(&self, events: u64, lag: Duration) {
        let ns = i64::try_from(lag.as_nanos()).unwrap_or(i64::MAX);
        self.lag.observe_many(ns, events);
    }

    /// Times from a batch's first read until its events could be searched, by event.
    pub fn lag(&self) -> HistogramSnapshot {
        self.lag.snapshot()
    }
}

/// A store, open for writing by this process or for reading.
pub struct Store {
    home: DurableStorage,
    state: Mutex<StoreState>,
    /// Held while a commit is made, by ingestion or upkeep.
    commits: Mutex<ManifestLog>,
    /// The commit whose outcome is not known; it is made before any other. Taken with `commits`
    /// held.
    doubt: Mutex<Option<Arc<PreparedCommit>>>,
    /// The folder is this writer's for as long as this lives.
    lock: Mutex<Option<Box<dyn Send + Sync>>>,
    /// Held while files are encoded, where memory is short.
    encoder: Mutex<()>,
    /// Files that came since upkeep had none to merge, less those that it has merged since.
    pub(crate) unmerged: AtomicU64,
    names: AtomicU64,
    followers: Mutex<Vec<Weak<Follower>>>,
    /// Time and room.
    pub(crate) care: RetentionInputs,
    /// Counters of its work since the process started.
    pub counters: StoreCounters,
}

#[derive(Default)]
struct StoreState {
    files: BTreeMap<String, Arc<DataFile>>,
    /// The same, for snapshots; `None` after a change.
    listed: Option<Arc<[Arc<DataFile>]>>,
    tail: Vec<Arc<Chunk>>,
    /// Removed files that a reader may still hold.
    doomed: Vec<Arc<DataFile>>,
    bytes: u64,
    events: u64,
    /// Account of all events; its levels are filled in when it is asked for.
    account: EventAccount,
}

/// Numbers of files, bytes and events in a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Levels {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub file_bytes: u64,
    /// Events in them.
    pub events: u64,
    /// Events in memory only.
    pub tail_events: u64,
    /// Of the files, those that could not be read and are passed over.
    pub bad_files: u64,
}

impl Store {
    /// Lets another writer have the folder, whoever still reads from this one.
    pub fn close(&self) {
        *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Folder or bucket of the store.
    pub fn home(&self) -> &DurableStorage {
        &self.home
    }

    /// Returns a snapshot of the files and the tail of this moment.
    pub fn snapshot(&self) -> Snapshot {
        let mut state = self.state();
        let files = match &state.listed {
            Some(files) => Arc::clone(files),
            None => {
                let files: Arc<[_]> = state.files.values().cloned().collect();
                state.listed = Some(Arc::clone(&files));
                files
            }
        };
        let tail: Arc<[_]> = state.tail.iter().cloned().collect();
        drop(state);
        Snapshot {
            storage: self.home.storage(),
            files,
            tail,
            far: Arc::new([]),
        }
    }

    /// Numbers of files, bytes and events in it now.
    pub fn levels(&self) -> Levels {
        let state = self.state();
        let is_bad = |file: &&Arc<DataFile>| file.is_bad();
        Levels {
            bad_files: state.files.values().filter(is_bad).count() as u64,
            files: state.files.len() as u64,
            file_bytes: state.bytes,
            events: state.events,
            tail_events: state.tail_events(),
        }
    }

    /// Account of all events that it had or got, and of those that there are, at one moment.
    pub fn account(&self) -> EventAccount {
        let state = self.state();
        let bad = state.files.values().filter(|file| file.is_bad());
        let unreadable = bad.map(|file| file.entry.rows).sum();
        EventAccount {
            unreadable,
            searchable: state.events.saturating_sub(unreadable),
            in_memory: state.tail_events(),
            ..state.account
        }
    }

    /// Says what others may still take of its file system; once, before it is written to.
    pub fn set_claims(&self, claims: ReservedBytes) {
        self.care.set_claims(claims);
    }

    /// The room on its file system, as retention last saw it.
    pub fn room(&self) -> Option<DiskHeadroom> {
        self.care.room()
    }

    /// Last judgement of the system clock, and the number of events kept because it is doubted.
    pub fn doubts(&self) -> (ClockJudgement, u64) {
        self.care.doubts()
    }

    /// Gets every chunk that becomes searchable from now on.
    pub fn follow(&self) -> Arc<Follower> {
        let follower = Arc::new(Follower::default());
        self.followers().push(Arc::downgrade(&follower));
        follower
    }

    /// Makes rows searchable that are in no file yet.
    pub(crate) fn publish(&self, chunk: &Arc<Chunk>) {
        self.state().tail.push(Arc::clone(chunk));
        self.followers()
            .retain(|follower| match follower.upgrade() {
                Some(follower) => {
                    follower.push(chunk);
                    true
                }
                None => false,
            });
    }

    /// Puts one chunk of the tail in place of some that follow each other.
    pub(crate) fn merge_tail(&self, of: &[Arc<Chunk>], into: &Arc<Chunk>) {
        let mut state = self.state();
        let Some(first) = of.first() else { return };
        let Some(at) = state
            .tail
            .iter()
            .position(|chunk| Arc::ptr_eq(chunk, first))
        else {
            return;
        };
        state.tail.splice(at..at + of.len(), [Arc::clone(into)]);
    }

    /// The events that are in files now.
    pub(crate) fn covered(&self) -> DedupSet {
        self.commits().covered.clone()
    }

    /// Writes the files of a change, which are no part of the store yet.
    ///
    /// # Errors
    /// A file cannot be written. None is left; the next start deletes what could not be deleted.
    pub(crate) fn prepare(&self, change: StoreChange<'_>) -> io::Result<Arc<PreparedCommit>> {
        let mut added = Vec::new();
        for file in &change.files {
            let mut entry = file.entry.clone();
            entry.path = format!("{}{}{PARQUET}", entry.path, self.new_name());
            let uncommitted = match is_on(Mutant::NameEarly) {
                true => entry.path.clone(),
                false => format!("{}{UNCOMMITTED}", entry.path),
            };
            added.push(entry);
            if let Err(error) = self.home.put(&uncommitted, file.bytes.clone()) {
                self.forget(&added);
                return Err(error);
            }
        }
        let commit = Commit {
            at_ms: chance::now().0 / 1_000_000,
            why: change.why.to_owned(),
            removed: change
                .removed
                .iter()
                .map(|file| file.entry.path.clone())
                .collect(),
            covered: change.covered,
            added,
            writer: self.commits().writer(),
        };
        Ok(Arc::new(PreparedCommit {
            commit,
            tail: change.tail.to_vec(),
            found: false,
            made: AtomicBool::new(false),
            doubted: AtomicBool::new(false),
        }))
    }

    /// Makes what was prepared part of the store, in place of what it removes and of the tail. When
    /// this returns `Ok`, the commit is durable and readers see it, once, however often it is
    /// tried.
    ///
    /// # Errors
    /// After [`MakeError::NotMade`] it may be tried again or given up; after [`MakeError::Unknown`]
    /// it must be tried again, or left as it is for the next start, which reads what became of it.
    pub(crate) fn make(&self, prepared: &Arc<PreparedCommit>) -> Result<(), MakeError> {
        let mut commits = self.commits();
        // Not within the condition: there its lock would be held until the commit is tried.
        let doubted = self.doubted().clone();
        if !is_on(Mutant::PassDoubt)
            && let Some(doubted) = doubted
            && let Err(error) = self.attempt(&mut commits, &doubted)
        {
            return Err(match Arc::ptr_eq(&doubted, prepared) {
                true => error,
                // Nothing was begun for this one.
                false => MakeError::NotMade(error.into_inner()),
            });
        }
        if prepared.made.load(Relaxed) {
            return Ok(());
        }
        self.attempt(&mut commits, prepared)
    }

    /// Tries a commit, under the lock of all commits.
    fn attempt(
        &self,
        commits: &mut ManifestLog,
        prepared: &Arc<PreparedCommit>,
    ) -> Result<(), MakeError> {
        if is_on(Mutant::DeleteEarly) {
            for path in &prepared.commit.removed {
                // The real one comes later.
                let _ = self.home.delete(path);
            }
        }
        let made = commits.make(&self.home, &prepared.commit);
        *self.doubted() = match &made {
            Err(MakeError::Unknown(_)) => {
                prepared.doubted.store(true, Relaxed);
                Some(Arc::clone(prepared))
            }
            _ => None,
        };
        made?;
        prepared.made.store(true, Relaxed);
        let unnamed = match prepared.found && !is_on(Mutant::NameFound) {
            // They have no other, by which they could be shown if this failed.
            true => Vec::new(),
            false => self.name_files(&prepared.commit.added),
        };
        let gone = self.show(&prepared.commit, &unnamed, &prepared.tail);
        if !(is_on(Mutant::CountTries) && prepared.doubted.load(Relaxed)) {
            self.count(&prepared.commit, gone);
        }
        if let Err(error) = commits.tell_all_if_due(&self.home) {
            tracing::debug!(%error, "store: the list of files could not be written; tried again");
        }
        Ok(())
    }

    /// Writes the files of a change and makes it part of the store: for those who try once. What is
    /// in doubt is made before the next commit.
    ///
    /// # Errors
    /// It was not made, or is not known to be.
    pub(crate) fn commit(&self, change: StoreChange<'_>) -> io::Result<()> {
        self.commit_prepared(&self.prepare(change)?)
    }

    /// Makes what was prepared part of the store, or gives it up.
    ///
    /// # Errors
    /// As for [`Self::commit`].
    pub(crate) fn commit_prepared(&self, prepared: &Arc<PreparedCommit>) -> io::Result<()> {
        match self.make(prepared) {
            Ok(()) => Ok(()),
            Err(MakeError::NotMade(error)) => {
                self.give_up(prepared);
                Err(error)
            }
            Err(MakeError::Unknown(error)) => Err(error),
        }
    }

    /// Makes a file part of the store that lies in its place already, in place of `removed`.
    ///
    /// # Errors
    /// As for [`Self::make`].
    pub(crate) fn commit_found(
        &self,
        entry: FileEntry,
        removed: &[Arc<DataFile>],
        covered: Vec<EventRange>,
    ) -> io::Result<()> {
        let commit = Commit {
            at_ms: chance::now().0 / 1_000_000,
            why: "found".to_owned(),
            added: vec![entry],
            removed: removed.iter().map(|file| file.entry.path.clone()).collect(),
            covered,
            writer: self.commits().writer(),
        };
        let prepared = Arc::new(PreparedCommit {
            commit,
            tail: Vec::new(),
            found: true,
            made: AtomicBool::new(false),
            doubted: AtomicBool::new(false),
        });
        self.make(&prepared).map_err(MakeError::into_inner)
    }

    /// Tries again to make the commit whose outcome is not known, if there is one.
    ///
    /// # Errors
    /// It is not known still.
    pub(crate) fn resolve(&self) -> io::Result<()> {
        let mut commits = self.commits();
        let doubted = self.doubted().clone();
        match doubted {
            Some(doubted) => self
                .attempt(&mut commits, &doubted)
                .map_err(MakeError::into_inner),
            None => Ok(()),
        }
    }

    /// The files that the commit in doubt removes, unless it is a merge.
    #[cfg(feature = "simulation")]
    pub(crate) fn doubted_removals(&self) -> Vec<String> {
        let doubted = self.doubted().clone();
        let doubted = doubted.filter(|doubted| doubted.commit.why != COMPACT);
        doubted.map_or_else(Vec::new, |doubted| doubted.commit.removed.clone())
    }

    /// Gives up what was prepared and surely not made.
    pub(crate) fn give_up(&self, prepared: &PreparedCommit) {
        self.forget(&prepared.commit.added);
    }

    /// Gives committed files their names. Returns those that could not be given theirs: readers are
    /// shown the other name, and the next start gives the right one.
    fn name_files(&self, added: &[FileEntry]) -> Vec<String> {
        let mut unnamed = Vec::new();
        for entry in added {
            self.counters.files.add(1);
            self.counters.file_bytes.add(entry.bytes);
            let uncommitted = format!("{}{UNCOMMITTED}", entry.path);
            if let Err(error) = self.home.name(&uncommitted, &entry.path) {
                tracing::warn!(
                    %error,
                    path = uncommitted,
                    "store: a file has its first name until the next start; other engines miss it"
                );
                unnamed.push(entry.path.clone());
            }
        }
        unnamed
    }

    /// Counts what a commit came to, whoever made it at last; `gone` events went with its files.
    fn count(&self, commit: &Commit, gone: u64) {
        let of_files = |number: fn(&FileEntry) -> u64| commit.added.iter().map(number).sum::<u64>();
        let (added, removed) = (commit.added.len() as u64, commit.removed.len() as u64);
        match commit.why.as_str() {
            INGEST => {
                self.unmerged.fetch_add(added, Relaxed);
                self.counters.events.add(of_files(|file| file.rows));
                self.counters
                    .text_bytes
                    .add(of_files(|file| file.text_bytes));
            }
            COMPACT => {
                let less = |unmerged: u64| Some(unmerged.saturating_sub(removed));
                let _ = self.unmerged.fetch_update(Relaxed, Relaxed, less);
                self.counters.compacted.add(removed);
            }
            why => {
                if let Some(at) = REASONS.iter().position(|reason| *reason == why) {
                    self.counters.expired[at].add(gone);
                }
            }
        }
    }

    /// Has readers see a commit, the tail that it took over gone in the same moment. Returns how
    /// many events went with the files that it removes.
    fn show(&self, commit: &Commit, unnamed: &[String], tail: &[Arc<Chunk>]) -> u64 {
        let mut state = self.state();
        let added = commit.added.iter().map(|entry| entry.rows).sum();
        for entry in &commit.added {
            match unnamed.contains(&entry.path) {
                true => state.add_as(entry, &format!("{}{UNCOMMITTED}", entry.path), &self.home),
                false => state.add_as(entry, &entry.path, &self.home),
            }
        }
        let gone = commit.removed.iter().map(|path| state.remove(path)).sum();
        state.account.note(&commit.why, added, gone);
        if let Some(first) = tail.first()
            && let Some(at) = state
                .tail
                .iter()
                .position(|chunk| Arc::ptr_eq(chunk, first))
        {
            let end = state.tail.len().min(at + tail.len());
            state.tail.drain(at..end);
        }
        gone
    }

    fn forget(&self, written: &[FileEntry]) {
        for entry in written {
            // The next start deletes what this cannot.
            let _ = self.home.delete(&format!("{}{UNCOMMITTED}", entry.path));
        }
    }

    /// Deletes removed files that no reader holds any more.
    pub(crate) fn bury(&self) {
        let mut state = self.state();
        let (held, free): (Vec<_>, Vec<_>) = state
            .doomed
            .drain(..)
            .partition(|file| Arc::strong_count(file) > 1);
        state.doomed = held;
        drop(state);
        let (gone, left): (Vec<_>, Vec<_>) =
            free.into_iter()
                .partition(|file| match self.delete_names(file) {
                    Ok(()) => true,
                    Err(error) => {
                        if file.set_bad() {
                            let path = file.location.as_ref();
                            tracing::warn!(%error, path, "store: cannot delete; tried again");
                        }
                        false
                    }
                });
        self.state().doomed.extend(left);
        if gone.is_empty() {
            return;
        }
        // What a power cut brings back must still be known as removed.
        let paths = gone.iter().map(|file| file.location.as_ref());
        if self.home.sync(paths).is_ok() {
            let is_gone = |path: &String| gone.iter().any(|file| file.entry.path == *path);
            self.commits().doomed.retain(|path| !is_gone(path));
        }
    }

    /// Deletes a file. Giving it its name may have failed half-way: then it has the other one too.
    fn delete_names(&self, file: &DataFile) -> io::Result<()> {
        let place = file.location.as_ref();
        self.home.delete(place)?;
        match place == file.entry.path || is_on(Mutant::BuryOneName) {
            true => Ok(()),
            false => self.home.delete(&file.entry.path),
        }
    }

    /// The files as they are now, by path.
    pub(crate) fn files(&self) -> Vec<Arc<DataFile>> {
        self.state().files.values().cloned().collect()
    }

    /// Empties the tail: what was in it will be delivered again.
    pub(crate) fn drop_tail(&self) {
        self.state().tail.clear();
    }

    fn doubted(&self) -> MutexGuard<'_, Option<Arc<PreparedCommit>>> {
        self.doubt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The beginning of a file's name that no other has: when, and which.
    fn new_name(&self) -> String {
        let number = self.names.fetch_add(1, Relaxed);
        chance::file_name(self.commits().writer(), number)
    }

    fn state(&self) -> MutexGuard<'_, StoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn commits(&self) -> MutexGuard<'_, ManifestLog> {
        self.commits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True while ingestion is to wait for upkeep: where memory is short, and so many files have
    /// come since upkeep had none to merge that what is known of each takes too much of it.
    pub(crate) fn is_behind(&self, options: &WriteOptions) -> bool {
        is_short(options) && self.unmerged.load(Relaxed) > UNMERGED_MAX
    }

    /// Takes note that upkeep merges no more for now: those left are too few, or cannot be merged.
    /// Ingestion would wait in vain.
    pub(crate) fn merges_rest(&self) {
        self.unmerged.store(0, Relaxed);
    }

    /// The turn to encode files. Where memory is short, ingestion and upkeep take turns: each needs
    /// as much as all rows that wait.
    pub(crate) fn encoder(&self, options: &WriteOptions) -> Option<MutexGuard<'_, ()>> {
        is_short(options).then(|| self.encoder.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn followers(&self) -> MutexGuard<'_, Vec<Weak<Follower>>> {
        self.followers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A change to the store.
pub(crate) struct StoreChange<'a> {
    pub(crate) why: &'static str,
    pub(crate) files: Vec<Encoded>,
    pub(crate) removed: &'a [Arc<DataFile>],
    pub(crate) covered: Vec<EventRange>,
    /// Chunks of the tail that are in the files now: neighbours, the oldest first.
    pub(crate) tail: &'a [Arc<Chunk>],
}

/// A change whose files are written, and which is not made yet, or is.
pub(crate) struct PreparedCommit {
    pub(crate) commit: Commit,
    tail: Vec<Arc<Chunk>>,
    /// True if its files were found under their final names.
    found: bool,
    made: AtomicBool,
    /// True if a try of it had an outcome that was not known.
    doubted: AtomicBool,
}

impl StoreState {
    /// Adds a file that lies at `place`.
    fn add_as(&mut self, entry: &FileEntry, place: &str, home: &DurableStorage) {
        let location = home.location(place);
        let file = Arc::new(DataFile::new(entry.clone(), location));
        self.bytes += entry.bytes;
        self.events += entry.rows;
        self.files.insert(entry.path.clone(), file);
        self.listed = None;
    }

    /// Takes a file out; says how many events were in it.
    fn remove(&mut self, path: &str) -> u64 {
        let Some(file) = self.files.remove(path) else {
            return 0;
        };
        let rows = file.entry.rows;
        self.bytes -= file.entry.bytes;
        self.events -= rows;
        self.doomed.push(file);
        self.listed = None;
        rows
    }

    fn tail_events(&self) -> u64 {
        let rows = self.tail.iter().map(|chunk| chunk.rows.num_rows() as u64);
        rows.sum()
    }
}
