//! Opening a store: what the log says, and what a crash or a stranger has left beside it.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use super::{PARQUET, Store, StoreCounters, StoreState, UNCOMMITTED};
use crate::account::EventAccount;
use crate::care::RetentionInputs;
use crate::chance;
use crate::commits::ManifestLog;
use crate::home::{DurableStorage, PART};
use crate::rebuild;
use crate::snapshot::DataFile;

impl Store {
    /// Opens the store for writing: takes its folder, reads its log, gives committed files their
    /// names, and deletes what was never committed or was removed. Files that the log does not
    /// speak of, and whose events it does not know, become part of the store.
    ///
    /// # Errors
    /// The folder cannot be read or written, another process writes to it
    /// ([`io::ErrorKind::WouldBlock`]), or its log is damaged ([`io::ErrorKind::InvalidData`]).
    /// Nothing was changed but for what a crash left half done.
    pub fn open(home: DurableStorage) -> io::Result<Arc<Self>> {
        let lock = home.lock()?;
        let mut commits = ManifestLog::load(&home)?;
        refuse_damaged(&home, &commits)?;
        commits.take_over(&home, chance::number())?;
        let mut store = Self::with(home, commits)?;
        store.lock = Mutex::new(lock);
        store.clean_up()?;
        store.begin_account();
        Ok(Arc::new(store))
    }

    /// Opens the store for reading beside whoever writes to it; shows what is committed now.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub fn open_read_only(home: DurableStorage) -> io::Result<Arc<Self>> {
        let commits = ManifestLog::load(&home)?;
        refuse_damaged(&home, &commits)?;
        let store = Self::with(home, commits)?;
        store.begin_account();
        Ok(Arc::new(store))
    }

    /// Begins the account: the events of now, found ones included, are those at the start.
    fn begin_account(&self) {
        let mut state = self.state();
        state.account = EventAccount {
            at_start: state.events,
            ..EventAccount::default()
        };
    }

    fn with(home: DurableStorage, commits: ManifestLog) -> io::Result<Self> {
        let mut state = StoreState::default();
        for file in commits.files.values() {
            state.add_as(file, &file.path, &home);
        }
        let newest = commits.files.values().map(|file| file.received_ns).max();
        Ok(Self {
            care: RetentionInputs::open(&home, newest)?,
            home,
            state: Mutex::new(state),
            commits: Mutex::new(commits),
            doubt: Mutex::default(),
            lock: Mutex::default(),
            encoder: Mutex::default(),
            unmerged: AtomicU64::default(),
            names: AtomicU64::new(0),
            followers: Mutex::default(),
            counters: StoreCounters::default(),
        })
    }

    /// Finishes or deletes what a crash has left half done. Takes in or puts aside what does not
    /// fit the log.
    fn clean_up(&self) -> io::Result<()> {
        let doomed = self.commits().doomed.clone();
        let listed = self.home.list("")?;
        let mut there: HashMap<&str, u64> = HashMap::new();
        let mut renamed = Vec::new();
        for one in &listed {
            let path = one.path.as_str();
            if path.ends_with(PART) {
                self.home.delete(path)?;
            } else if let Some(committed) = path.strip_suffix(UNCOMMITTED) {
                if self.commits().files.contains_key(committed) {
                    self.home.rename(path, committed)?;
                    renamed.push(committed);
                    there.insert(committed, one.bytes);
                } else {
                    self.home.delete(path)?;
                }
            } else if path.ends_with(PARQUET) {
                there.insert(path, one.bytes);
            }
        }
        self.home.sync(renamed.into_iter())?;
        for path in &doomed {
            self.home.delete(path)?;
            there.remove(path.as_str());
        }
        self.home.sync(doomed.iter().map(String::as_str))?;
        self.commits().doomed.clear();
        let missing = self.note_missing(&there);
        let known = self.commits();
        let unlisted = there
            .keys()
            .filter(|path| !known.files.contains_key(**path));
        let mut unlisted: Vec<String> = unlisted.map(|path| (*path).to_owned()).collect();
        drop(known);
        unlisted.sort();
        rebuild::adopt(self, &unlisted, &missing)
    }

    /// Files that the log names and that are not there, or not as long as they were, are known to
    /// be unreadable from the start. Returns those that are not there.
    fn note_missing(&self, there: &HashMap<&str, u64>) -> Vec<Arc<DataFile>> {
        let mut missing = Vec::new();
        for file in self.files() {
            let found = there.get(file.entry.path.as_str());
            if found == Some(&file.entry.bytes) || !file.set_bad() {
                continue;
            }
            let (path, events) = (&file.entry.path, file.entry.rows);
            match found {
                None => {
                    tracing::error!(path, events, "store: a file is missing");
                    missing.push(Arc::clone(&file));
                }
                Some(bytes) => {
                    let committed = file.entry.bytes;
                    tracing::error!(path, events, bytes, committed, "store: a file has changed");
                }
            }
        }
        missing
    }
}

/// A log that cannot be read whole must not be gone on with: files that it does not name would be
/// taken for leftovers.
fn refuse_damaged(home: &DurableStorage, commits: &ManifestLog) -> io::Result<()> {
    for (path, why) in &commits.spare {
        tracing::warn!(
            path,
            why,
            "store: a copy of the list of files is damaged; not needed"
        );
    }
    let Some((path, why)) = commits.bad.first() else {
        return Ok(());
    };
    let shown = home.shown();
    Err(io::Error::new(
        io::ErrorKind::InvalidData,
        format!(
            "the list of files is damaged: {shown}/{path}: {why}. \
             `inrush store repair` makes it anew from the files"
        ),
    ))
}
