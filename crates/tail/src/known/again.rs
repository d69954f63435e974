//! Files that nobody reads now, and that no notice comes of: looked at again every interval.
//!
//! # What it guarantees
//! * A file that was closed since its name was gone is read on once it grows, under any name in
//!   its folder.
//! * A file that was too old is read once it is written again; one that could not be opened, once
//!   it can.
//! * While too many files are open, files wait under their names, and are opened later.
//!
//! # Limits
//! [`LOOKS_MAX`] names an interval, the rest in the next ones. A folder with closed files is listed
//! once an interval, and takes no more than a hundredth of the time.
//!
//! # After a crash
//! Closed files have their positions in the queue, and are opened again.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs;
use std::io;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use inrush_transport::files::identity::{IdentityMatch, InodeKey};

use super::KnownFiles;
use super::names::{is_packed_path, leads_to};

/// Names that are looked at in an interval.
const LOOKS_MAX: usize = 16_384;

/// A listing takes one part of so many of the time.
const LISTING_PART: u32 = 100;

/// Reason why a name is looked at again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LaterReason {
    /// It was last written too long ago, at this time.
    Old(i64),
    /// Too many files are open. It had so many bytes.
    Full(u64),
    /// It could not be opened.
    Refused,
}

struct LaterName {
    reason: LaterReason,
    /// Name of its log, where it has another one.
    log: Option<Box<Path>>,
}

/// Names that are looked at again.
pub(super) struct LaterNames {
    names: HashMap<Arc<Path>, LaterName>,
    /// In the order in which they are looked at; some may be in `names` no more.
    order: VecDeque<Arc<Path>>,
    waiting: u64,
    every: Duration,
    due: Option<Instant>,
}

impl LaterNames {
    /// No names yet.
    pub(super) fn new(every: Duration) -> Self {
        Self {
            names: HashMap::new(),
            order: VecDeque::new(),
            waiting: 0,
            every,
            due: None,
        }
    }

    /// Has a name looked at again; `log`: the name of its log.
    pub(super) fn insert(&mut self, name: &Path, log: &Path, reason: LaterReason) {
        self.waiting += u64::from(matches!(reason, LaterReason::Full(_)));
        let log = (name != log).then(|| log.into());
        let name: Arc<Path> = name.into();
        let before = (self.names).insert(Arc::clone(&name), LaterName { reason, log });
        match before {
            Some(before) => {
                self.waiting -= u64::from(matches!(before.reason, LaterReason::Full(_)));
            }
            None => self.order.push_back(name),
        }
    }

    /// Has a name wait for a place. It has so many bytes now.
    pub(super) fn insert_full(&mut self, name: &Path, log: &Path, length: u64) {
        self.insert(name, log, LaterReason::Full(length));
    }

    /// Forgets a name. Returns its bytes if it waited for a place.
    pub(super) fn remove(&mut self, name: &Path) -> u64 {
        match self.names.remove(name).map(|later| later.reason) {
            Some(LaterReason::Full(length)) => {
                self.waiting -= 1;
                length
            }
            _ => 0,
        }
    }

    /// The names to look at now.
    fn due(&mut self, now: Instant, has_place: bool) -> Vec<(Arc<Path>, LaterName)> {
        let is_due = self.due.is_none_or(|due| due <= now) || has_place && self.waiting > 0;
        if !is_due || self.names.is_empty() {
            return Vec::new();
        }
        self.due = Some(now + self.every);
        let number = self.order.len().min(LOOKS_MAX);
        let names: Vec<_> = self.order.drain(..number).collect();
        let known = |name: Arc<Path>| {
            let later = self.names.remove(&name)?;
            self.waiting -= u64::from(matches!(later.reason, LaterReason::Full(_)));
            Some((name, later))
        };
        names.into_iter().filter_map(known).collect()
    }
}

/// A file that was closed though it may be written again.
pub(super) struct ClosedFile {
    /// Its inode.
    pub(super) key: InodeKey,
    /// Name of its log.
    pub(super) path: PathBuf,
    /// Bytes that were left unread.
    pub(super) unread: u64,
}

#[derive(Default)]
struct ClosedFolder {
    files: HashMap<u64, ClosedFile>,
    due: Option<Instant>,
}

/// Files that were closed, by the folder of their log.
pub(super) struct ClosedFiles {
    folders: HashMap<PathBuf, ClosedFolder>,
    every: Duration,
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

impl ClosedFiles {
    /// None yet.
    pub(super) fn new(every: Duration) -> Self {
        Self {
            folders: HashMap::new(),
            every,
        }
    }

    /// Has a closed file looked at.
    pub(super) fn insert(&mut self, file: ClosedFile) {
        let folder = folder_of(&file.path).to_owned();
        let folder = self.folders.entry(folder).or_default();
        folder.files.insert(file.key.inode, file);
    }

    /// The file is open again.
    pub(super) fn remove(&mut self, log: &Path, key: InodeKey) {
        if let Some(folder) = self.folders.get_mut(folder_of(log)) {
            folder.files.remove(&key.inode);
            if folder.files.is_empty() {
                self.folders.remove(folder_of(log));
            }
        }
    }

    /// All of them.
    pub(super) fn into_files(self) -> impl Iterator<Item = ClosedFile> {
        let folders = self.folders.into_values();
        folders.flat_map(|folder| folder.files.into_values())
    }

    fn due(&self, now: Instant) -> Vec<PathBuf> {
        let due = |folder: &ClosedFolder| folder.due.is_none_or(|due| due <= now);
        let folders = self.folders.iter();
        let folders = folders.filter(|(_, folder)| due(folder));
        folders.map(|(path, _)| path.clone()).collect()
    }
}

/// Names of a folder that lead to one of these inodes.
pub(super) fn names_of(folder: &Path, inodes: &HashSet<u64>) -> io::Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if inodes.contains(&entry.ino()) {
            names.push(entry.path());
        }
    }
    Ok(names)
}

impl KnownFiles {
    /// Looks at files that no notice comes of.
    pub(crate) fn look_again(&mut self, now: Instant) {
        for path in std::mem::take(&mut self.postponed) {
            self.found(&path);
        }
        if self.postponed.is_empty() {
            self.copies.forget_questions();
        }
        self.forget_gone();
        for (name, later) in self.later.due(now, self.counts.has_place()) {
            self.look_at_later(&name, later);
        }
        self.counts.waiting_files.set(self.later.waiting);
        for folder in self.closed.due(now) {
            self.look_at_folder(&folder, now);
        }
    }

    fn look_at_later(&mut self, name: &Arc<Path>, later: LaterName) {
        let log = later.log.as_deref().unwrap_or(name);
        let found = match (fs::metadata(name), later.reason) {
            (Ok(found), _) => found,
            (Err(_), LaterReason::Full(length)) => return self.tell_lost(log, length),
            (Err(_), LaterReason::Refused) => return self.found(name),
            (Err(_), LaterReason::Old(_)) => return,
        };
        let modified = found.mtime().saturating_mul(1_000_000_000);
        let modified = modified.saturating_add(found.mtime_nsec());
        match later.reason {
            LaterReason::Old(before) if before == modified => {
                self.later.insert(name, log, later.reason);
            }
            LaterReason::Full(_) if !self.counts.has_place() => {
                self.later.insert_full(name, log, found.len());
            }
            _ if later.log.is_some() => self.missed_name(log, name),
            _ => self.found(name),
        }
    }

    /// Looks at the closed files of a folder.
    fn look_at_folder(&mut self, folder: &Path, now: Instant) {
        let Some(closed) = self.closed.folders.get(folder) else {
            return;
        };
        let inodes: HashSet<u64> = closed.files.keys().copied().collect();
        let begun = Instant::now();
        let names = match names_of(folder, &inodes) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(_) => return self.look_at_it_later(folder, now, begun),
        };
        let mut gone = inodes;
        for name in names {
            self.look_at_closed(folder, &name, &mut gone);
        }
        for inode in gone {
            self.forget_closed(folder, inode);
        }
        self.look_at_it_later(folder, now, begun);
    }

    fn look_at_it_later(&mut self, folder: &Path, now: Instant, begun: Instant) {
        let every = self.closed.every.max(begun.elapsed() * LISTING_PART);
        if let Some(closed) = self.closed.folders.get_mut(folder) {
            closed.due = Some(now + every);
        }
    }

    /// Looks at a name of a file that was closed.
    fn look_at_closed(&mut self, folder: &Path, name: &Path, gone: &mut HashSet<u64>) {
        let Ok(found) = fs::metadata(name) else {
            return;
        };
        let closed = self.closed.folders.get(folder);
        let Some(file) = closed.and_then(|closed| closed.files.get(&found.ino())) else {
            return;
        };
        let (key, log) = (InodeKey::of(&found), file.path.clone());
        if key != file.key {
            return;
        }
        gone.remove(&key.inode);
        let known = self.by_inode.get(&key);
        let Some(taken) = known.and_then(|known| known.closed_at) else {
            // A log reads it again.
            return self.closed.remove(&log, key);
        };
        if taken == u64::MAX || found.len() == taken || is_packed_path(name) {
            return;
        }
        if self.counts.has_place() {
            self.read_on(&log, name, key, found.len() < taken);
        }
    }

    /// Reads a closed file on, under its name.
    fn read_on(&mut self, log: &Path, name: &Path, key: InodeKey, is_shorter: bool) {
        let Some(new) = self.open(name) else {
            return;
        };
        let Some(known) = self.by_inode.get_mut(&key) else {
            return;
        };
        match known.identity.matches(new.file.as_file()) {
            Ok(IdentityMatch::Same | IdentityMatch::OtherDevice) if !is_shorter => {}
            Ok(IdentityMatch::Other) | Err(_) => {
                self.counts.inode_reused.add(1);
                self.closed.remove(log, key);
                return self.forget_file(key);
            }
            // Cut, or written anew.
            Ok(_) => {
                self.counts.truncated.add(1);
                known.closed_at = Some(0);
            }
        }
        match self.matches(name) {
            true => {
                self.closed.remove(log, key);
                self.begin(name, new);
            }
            false => self.begin_nameless(log, new),
        }
    }

    /// A closed file is in its folder no more.
    fn forget_closed(&mut self, folder: &Path, inode: u64) {
        let closed = self.closed.folders.get(folder);
        let Some(file) = closed.and_then(|closed| closed.files.get(&inode)) else {
            return;
        };
        let (key, log, unread) = (file.key, file.path.clone(), file.unread);
        let known = self.by_inode.get(&key);
        let taken = known.and_then(|known| known.closed_at);
        if leads_to(&log, key) {
            // By a link to another folder.
            let length = fs::metadata(&log).map_or(0, |found| found.len());
            if taken.is_some_and(|taken| taken < length) {
                self.found(&log);
            }
            return;
        }
        self.closed.remove(&log, key);
        if taken.is_some() {
            self.forget_file(key);
            self.tell_lost(&log, unread);
        }
    }
}
