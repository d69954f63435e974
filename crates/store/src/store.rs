//! The store as its writers and readers share it.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hdrhistogram::Histogram;

use inrush_event::{Counter, Timestamp};

use crate::commits::{Commit, Commits};
use crate::covered::{Covered, Stretch};
use crate::encode::Encoded;
use crate::follow::Follower;
use crate::home::{Home, PART};
use crate::snapshot::{Chunk, DataFile, FileEntry, Snapshot};

/// What is written, beside its final name, before the commit: an engine that reads every file
/// whose name ends in `.parquet` never sees what is not committed.
const UNCOMMITTED: &str = ".tmp";
const PARQUET: &str = ".parquet";

/// What a store has done since the process started.
#[derive(Debug)]
pub struct Counters {
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
    lag: Mutex<Histogram<u64>>,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            events: Counter::default(),
            text_bytes: Counter::default(),
            file_bytes: Counter::default(),
            files: Counter::default(),
            compacted: Counter::default(),
            expired: Default::default(),
            repeated: Counter::default(),
            lag: Mutex::new(Histogram::new_from(&SHAPE)),
        }
    }
}

/// One µs to an hour, to two digits; what is beyond counts as the most.
static SHAPE: LazyLock<Histogram<u64>> = LazyLock::new(|| {
    // These bounds are ones that it takes.
    Histogram::new_with_bounds(1, 3_600_000_000, 2).unwrap_or_else(|_| unreachable!())
});

impl Counters {
    pub(crate) fn searchable(&self, events: u64, lag: Duration) {
        let micros = u64::try_from(lag.as_micros()).unwrap_or(u64::MAX);
        let mut all = self.lag.lock().unwrap_or_else(PoisonError::into_inner);
        all.saturating_record_n(micros.max(1), events);
    }

    /// How long it took from the first read of a batch until its events could be searched, as
    /// quantiles over all events.
    pub fn lag(&self) -> [(&'static str, Duration); 3] {
        let all = self.lag.lock().unwrap_or_else(PoisonError::into_inner);
        [("0.5", 0.5), ("0.99", 0.99), ("1", 1.0)].map(|(name, quantile)| {
            let micros = all.value_at_quantile(quantile);
            (name, Duration::from_micros(micros))
        })
    }
}

/// A store, open for writing by this process or for reading.
pub struct Store {
    home: Home,
    state: Mutex<State>,
    /// Held while a commit is made, by ingestion or upkeep.
    commits: Mutex<Commits>,
    names: AtomicU64,
    followers: Mutex<Vec<Weak<Follower>>>,
    /// What was done.
    pub counters: Counters,
}

#[derive(Default)]
struct State {
    files: BTreeMap<String, Arc<DataFile>>,
    /// The same, for snapshots; `None` after a change.
    listed: Option<Arc<[Arc<DataFile>]>>,
    tail: Vec<Arc<Chunk>>,
    /// Removed files that a reader may still hold.
    doomed: Vec<Arc<DataFile>>,
    bytes: u64,
    events: u64,
}

/// How much is in a store.
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
    /// Opens the store for writing: reads its log, gives committed files their names, and deletes
    /// what was never committed or was removed.
    ///
    /// # Errors
    /// The folder cannot be read or written, or its log is broken.
    pub fn open(home: Home) -> io::Result<Arc<Self>> {
        let commits = Commits::load(&home)?;
        refuse_broken(&home, &commits)?;
        let store = Self::with(home, commits);
        store.clean_up()?;
        Ok(Arc::new(store))
    }

    /// Opens the store for reading beside whoever writes to it; shows what is committed now.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub fn open_read_only(home: Home) -> io::Result<Arc<Self>> {
        let commits = Commits::load(&home)?;
        refuse_broken(&home, &commits)?;
        Ok(Arc::new(Self::with(home, commits)))
    }

    fn with(home: Home, commits: Commits) -> Self {
        let mut state = State::default();
        for file in commits.files.values() {
            state.add(file, &home);
        }
        Self {
            home,
            state: Mutex::new(state),
            commits: Mutex::new(commits),
            names: AtomicU64::new(0),
            followers: Mutex::default(),
            counters: Counters::default(),
        }
    }

    /// What a crash has left half done.
    fn clean_up(&self) -> io::Result<()> {
        let mut commits = self.commits();
        for listed in self.home.list("")? {
            if listed.path.ends_with(PART) {
                self.home.delete(&listed.path)?;
            } else if let Some(committed) = listed.path.strip_suffix(UNCOMMITTED) {
                if commits.files.contains_key(committed) {
                    self.home.rename(&listed.path, committed)?;
                } else {
                    self.home.delete(&listed.path)?;
                }
            }
        }
        for path in std::mem::take(&mut commits.doomed) {
            self.home.delete(&path)?;
        }
        Ok(())
    }

    /// Where it lies.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// What is in it now.
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

    /// How much is in it.
    pub fn levels(&self) -> Levels {
        let state = self.state();
        let is_bad = |file: &&Arc<DataFile>| file.is_bad();
        Levels {
            bad_files: state.files.values().filter(is_bad).count() as u64,
            files: state.files.len() as u64,
            file_bytes: state.bytes,
            events: state.events,
            tail_events: state
                .tail
                .iter()
                .map(|chunk| chunk.rows.num_rows() as u64)
                .sum(),
        }
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
    pub(crate) fn covered(&self) -> Covered {
        self.commits().covered.clone()
    }

    /// Writes files and makes them part of the store in place of `removed` and of `tail`. When this
    /// returns, the commit is durable and readers see it.
    ///
    /// # Errors
    /// Nothing was committed; or another process writes to the store
    /// ([`io::ErrorKind::AlreadyExists`]).
    pub(crate) fn commit(&self, change: Change<'_>) -> io::Result<()> {
        let mut added = Vec::new();
        for file in &change.files {
            let mut entry = file.entry.clone();
            entry.path = format!("{}{}{PARQUET}", entry.path, self.new_name());
            let uncommitted = format!("{}{UNCOMMITTED}", entry.path);
            added.push(entry);
            if let Err(error) = self.home.put(&uncommitted, file.bytes.clone()) {
                self.forget(&added);
                return Err(error);
            }
        }
        let commit = Commit {
            at_ms: Timestamp::now().0 / 1_000_000,
            why: change.why.to_owned(),
            removed: change
                .removed
                .iter()
                .map(|file| file.entry.path.clone())
                .collect(),
            covered: change.covered,
            added,
        };
        let mut commits = self.commits();
        if let Err(error) = commits.make(&self.home, &commit) {
            drop(commits);
            self.forget(&commit.added);
            return Err(error);
        }
        self.name_files(&commit.added);
        self.show(&commit, change.tail);
        if let Err(error) = commits.tell_all_if_due(&self.home) {
            tracing::warn!(%error, "store: the list of files could not be written; tried again");
        }
        Ok(())
    }

    /// Gives committed files their names. If that fails, readers are shown the other name, and the
    /// next start gives the right one.
    fn name_files(&self, added: &[FileEntry]) {
        for entry in added {
            self.counters.files.add(1);
            self.counters.file_bytes.add(entry.bytes);
            let uncommitted = format!("{}{UNCOMMITTED}", entry.path);
            if let Err(error) = self.home.rename(&uncommitted, &entry.path) {
                tracing::error!(%error, path = entry.path, "store: a file keeps its first name");
            }
        }
    }

    /// Has readers see a commit, the tail that it took over gone in the same moment.
    fn show(&self, commit: &Commit, tail: &[Arc<Chunk>]) {
        let mut state = self.state();
        for entry in &commit.added {
            state.add(entry, &self.home);
        }
        for path in &commit.removed {
            state.remove(path);
        }
        if let Some(first) = tail.first()
            && let Some(at) = state
                .tail
                .iter()
                .position(|chunk| Arc::ptr_eq(chunk, first))
        {
            let end = state.tail.len().min(at + tail.len());
            state.tail.drain(at..end);
        }
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
        for file in free {
            match self.home.delete(&file.entry.path) {
                Ok(()) => self
                    .commits()
                    .doomed
                    .retain(|path| *path != file.entry.path),
                Err(error) => {
                    tracing::warn!(%error, path = file.entry.path, "store: cannot delete");
                    self.state().doomed.push(file);
                }
            }
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

    /// The beginning of a file's name that no other has: when, and which.
    fn new_name(&self) -> String {
        let number = self.names.fetch_add(1, Relaxed);
        let pid = std::process::id();
        format!("{:013}-{pid}-{number}", Timestamp::now().0 / 1_000_000)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn commits(&self) -> MutexGuard<'_, Commits> {
        self.commits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn followers(&self) -> MutexGuard<'_, Vec<Weak<Follower>>> {
        self.followers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A change to the store.
pub(crate) struct Change<'a> {
    pub(crate) why: &'static str,
    pub(crate) files: Vec<Encoded>,
    pub(crate) removed: &'a [Arc<DataFile>],
    pub(crate) covered: Vec<Stretch>,
    /// What of the tail is in the files now: neighbours, the oldest first.
    pub(crate) tail: &'a [Arc<Chunk>],
}

impl State {
    fn add(&mut self, entry: &FileEntry, home: &Home) {
        let location = home.location(&entry.path);
        let file = Arc::new(DataFile::new(entry.clone(), location));
        self.bytes += entry.bytes;
        self.events += entry.rows;
        self.files.insert(entry.path.clone(), file);
        self.listed = None;
    }

    fn remove(&mut self, path: &str) {
        if let Some(file) = self.files.remove(path) {
            self.bytes -= file.entry.bytes;
            self.events -= file.entry.rows;
            self.doomed.push(file);
            self.listed = None;
        }
    }
}

/// A log that cannot be read whole must not be gone on with: files that it does not name would be
/// taken for leftovers.
fn refuse_broken(home: &Home, commits: &Commits) -> io::Result<()> {
    let Some((path, why)) = commits.bad.first() else {
        return Ok(());
    };
    Err(io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{}/{path}: {why}", home.shown()),
    ))
}
