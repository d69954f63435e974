//! A folder in memory: it tears, loses, refuses and forgets as a seed tells it.
//!
//! * **Process death**: what was written stays, as in a page cache. It comes within any call.
//! * **Power cut** ([`VirtualFolder::cut_power`]): each unsynced name is kept or undone, in any
//!   order, but a renaming whole; of an unsynced file there is all, nothing, a beginning, or its
//!   length.
//! * **A sync that fails** forgets: each change reached the disk or did not, reads go on showing
//!   it, and the next sync succeeds without it.
//! * **A call that fails** had its effect or did not; a write that fails wrote a part.
//! * **A full disk** takes what fits.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use fastrand::Rng;

use super::ListedObject;
use super::disk::{DiskFile, FileSystemSpace, FolderIo};
use super::folder::parent;
use super::simulated::{CallKind, FaultRates, SimulatedOutcome, SimulatedProcess};

/// A folder in memory, as one process sees it; clones are the same.
#[derive(Clone, Debug)]
pub struct VirtualFolder {
    tree: Arc<Mutex<FolderState>>,
    process: Arc<SimulatedProcess>,
}

#[derive(Debug)]
struct FolderState {
    rng: Rng,
    chances: FaultRates,
    capacity: usize,
    files: Vec<Content>,
    /// As every process sees it.
    now: DirectoryTree,
    /// As a power cut would leave it at the least.
    disk: DirectoryTree,
    /// Changes of names since they were synced.
    pending: Vec<(String, EntryChange)>,
    locked: bool,
    errors: u64,
    digest: u64,
}

type DirectoryTree = BTreeMap<String, DirectoryEntry>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DirectoryEntry {
    Folder,
    File(usize),
}

#[derive(Debug, Default)]
struct Content {
    now: Vec<u8>,
    disk: Vec<u8>,
    dirty: bool,
}

#[derive(Clone, Debug)]
enum EntryChange {
    Set(String, DirectoryEntry),
    Unset(String),
    Rename(String, String, DirectoryEntry),
}

impl EntryChange {
    fn apply(self, names: &mut DirectoryTree) {
        match self {
            Self::Set(path, node) => {
                names.insert(path, node);
            }
            Self::Unset(path) => {
                if names.remove(&path) == Some(DirectoryEntry::Folder) {
                    let below = format!("{path}/");
                    names.retain(|path, _| !path.starts_with(&below));
                }
            }
            Self::Rename(from, to, node) => {
                if names.get(&from) == Some(&node) {
                    names.remove(&from);
                }
                names.insert(to, node);
            }
        }
    }
}

fn not_found() -> io::Error {
    io::Error::from_raw_os_error(2)
}

fn exists() -> io::Error {
    io::Error::from_raw_os_error(17)
}

fn full() -> io::Error {
    io::Error::from_raw_os_error(28)
}

impl FolderState {
    fn parent_is_there(&self, path: &str) -> io::Result<()> {
        let folder = parent(path);
        match folder.is_empty() || self.now.get(folder) == Some(&DirectoryEntry::Folder) {
            true => Ok(()),
            false => Err(not_found()),
        }
    }

    fn change(&mut self, op: EntryChange) {
        let (EntryChange::Set(path, _)
        | EntryChange::Unset(path)
        | EntryChange::Rename(_, path, _)) = &op;
        let folder = parent(path).to_owned();
        op.clone().apply(&mut self.now);
        self.pending.push((folder, op));
    }

    fn file(&self, path: &str) -> io::Result<usize> {
        match self.now.get(path) {
            Some(DirectoryEntry::File(number)) => Ok(*number),
            Some(DirectoryEntry::Folder) => Err(io::Error::from_raw_os_error(21)),
            None => Err(not_found()),
        }
    }

    fn room(&self) -> usize {
        if self.capacity == usize::MAX {
            return usize::MAX;
        }
        let bytes = |node: &DirectoryEntry| match node {
            DirectoryEntry::File(number) => self.files[*number].now.len(),
            DirectoryEntry::Folder => 0,
        };
        let used: usize = self.now.values().map(bytes).sum();
        self.capacity.saturating_sub(used)
    }

    /// Has what is pending in a folder reach the disk, each with so many chances in four.
    fn flush(&mut self, folder: &str, chances: u8) {
        for (place, op) in std::mem::take(&mut self.pending) {
            if place != folder {
                self.pending.push((place, op));
            } else if chances >= 4 || self.rng.u8(..4) < chances {
                op.apply(&mut self.disk);
            }
        }
    }

    fn tear(&mut self, number: usize) {
        let content = &mut self.files[number];
        let all = content.now.len();
        match self.rng.u8(..4) {
            0 => {}
            1 => content.disk = content.now.clone(),
            2 => content.disk = content.now[..self.rng.usize(..=all)].to_vec(),
            _ => content.disk = vec![0; all],
        }
    }

    fn mix(&mut self, word: u64) {
        let mixed = (self.digest ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.digest = mixed ^ (mixed >> 29);
    }
}

impl VirtualFolder {
    /// An empty folder.
    pub fn new(seed: u64) -> Self {
        let tree = FolderState {
            rng: Rng::with_seed(seed),
            chances: FaultRates::default(),
            capacity: usize::MAX,
            files: Vec::new(),
            now: DirectoryTree::new(),
            disk: DirectoryTree::new(),
            pending: Vec::new(),
            locked: false,
            errors: 0,
            digest: seed,
        };
        Self {
            tree: Arc::new(Mutex::new(tree)),
            process: Arc::default(),
        }
    }

    /// The same folder for a new process.
    pub fn for_process(&self, process: &Arc<SimulatedProcess>) -> Self {
        Self {
            tree: Arc::clone(&self.tree),
            process: Arc::clone(process),
        }
    }

    /// Sets the chances of faults from now on.
    pub fn set_chances(&self, chances: FaultRates) {
        self.tree().chances = chances;
    }

    /// Sets the bytes of files that it takes from now on.
    pub fn set_capacity(&self, bytes: usize) {
        self.tree().capacity = bytes;
    }

    /// Cuts the power.
    pub fn cut_power(&self) {
        let mut tree = self.tree();
        for (_, op) in std::mem::take(&mut tree.pending) {
            if tree.rng.bool() {
                op.apply(&mut tree.disk);
            }
        }
        for number in 0..tree.files.len() {
            if tree.files[number].dirty {
                tree.tear(number);
            }
            let content = &mut tree.files[number];
            content.dirty = false;
            content.now = content.disk.clone();
        }
        let names = std::mem::take(&mut tree.disk);
        let mut kept = DirectoryTree::new();
        // Parents come first in the order of names.
        for (path, node) in names {
            if parent(&path).is_empty() || kept.get(parent(&path)) == Some(&DirectoryEntry::Folder)
            {
                kept.insert(path, node);
            }
        }
        tree.now = kept.clone();
        tree.disk = kept;
    }

    /// All files with their bytes, as a process sees them.
    pub fn contents(&self) -> Vec<(String, Vec<u8>)> {
        let tree = self.tree();
        let file = |(path, node): (&String, &DirectoryEntry)| match node {
            DirectoryEntry::File(number) => Some((path.clone(), tree.files[*number].now.clone())),
            DirectoryEntry::Folder => None,
        };
        tree.now.iter().filter_map(file).collect()
    }

    /// The bytes of a file, whatever the chances.
    pub fn peek(&self, path: &str) -> Option<Vec<u8>> {
        let tree = self.tree();
        let number = tree.file(path).ok()?;
        Some(tree.files[number].now.clone())
    }

    /// Puts other bytes in place of a file's, durably, or makes a file of them. What happened to
    /// names in its folders before is durable then too: it cannot come after.
    pub fn damage(&self, path: &str, bytes: Vec<u8>) {
        let mut tree = self.tree();
        let mut folder = path;
        while !folder.is_empty() {
            folder = parent(folder);
            tree.flush(folder, 4);
        }
        if let Ok(number) = tree.file(path) {
            let content = &mut tree.files[number];
            content.disk = bytes.clone();
            content.now = bytes;
            return;
        }
        let number = tree.files.len();
        tree.files.push(Content {
            now: bytes.clone(),
            disk: bytes,
            dirty: false,
        });
        let mut folder = parent(path);
        while !folder.is_empty() {
            tree.now.insert(folder.to_owned(), DirectoryEntry::Folder);
            tree.disk.insert(folder.to_owned(), DirectoryEntry::Folder);
            folder = parent(folder);
        }
        tree.now
            .insert(path.to_owned(), DirectoryEntry::File(number));
        tree.disk
            .insert(path.to_owned(), DirectoryEntry::File(number));
    }

    /// Errors that it gave.
    pub fn errors(&self) -> u64 {
        self.tree().errors
    }

    /// Tells two histories apart.
    pub fn digest(&self) -> u64 {
        self.tree().digest
    }

    fn tree(&self) -> MutexGuard<'_, FolderState> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call<T>(
        &self,
        kind: CallKind,
        path: &str,
        effect: impl FnOnce(&mut FolderState) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut tree = self.tree();
        let tree = &mut *tree;
        let course = self.process.course(&mut tree.rng, &tree.chances, kind);
        tree.mix(path.len() as u64 + ((kind as u64) << 32));
        match course {
            SimulatedOutcome::Done => {
                let done = effect(tree);
                tree.mix(u64::from(done.is_ok()));
                done
            }
            SimulatedOutcome::Refused(error) => {
                tree.errors += 1;
                Err(error)
            }
            SimulatedOutcome::Doubtful(error) => {
                tree.errors += 1;
                if tree.rng.bool() {
                    // It is not told.
                    let _ = effect(tree);
                }
                Err(error)
            }
        }
    }
}

struct Guard(Arc<Mutex<FolderState>>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).locked = false;
    }
}

impl FolderIo for VirtualFolder {
    fn lock(&self) -> io::Result<Box<dyn Send + Sync>> {
        self.call(CallKind::Read, "lock", |tree| {
            if std::mem::replace(&mut tree.locked, true) {
                return Err(io::Error::new(io::ErrorKind::WouldBlock, "1"));
            }
            Ok(())
        })?;
        Ok(Box::new(Guard(Arc::clone(&self.tree))))
    }

    fn create(&self, path: &str) -> io::Result<Box<dyn DiskFile>> {
        let number = self.call(CallKind::Change, path, |tree| {
            tree.parent_is_there(path)?;
            if let Ok(number) = tree.file(path) {
                let content = &mut tree.files[number];
                content.now.clear();
                content.dirty = true;
                return Ok(number);
            }
            let number = tree.files.len();
            tree.files.push(Content::default());
            tree.change(EntryChange::Set(
                path.to_owned(),
                DirectoryEntry::File(number),
            ));
            Ok(number)
        })?;
        Ok(Box::new(VirtualFile {
            folder: self.clone(),
            number,
        }))
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        self.call(CallKind::Change, to, |tree| {
            let number = tree.file(from)?;
            tree.parent_is_there(to)?;
            if tree.now.contains_key(to) {
                return Err(exists());
            }
            tree.change(EntryChange::Set(
                to.to_owned(),
                DirectoryEntry::File(number),
            ));
            Ok(())
        })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.call(CallKind::Change, to, |tree| {
            let number = tree.file(from)?;
            tree.parent_is_there(to)?;
            tree.change(EntryChange::Rename(
                from.to_owned(),
                to.to_owned(),
                DirectoryEntry::File(number),
            ));
            Ok(())
        })
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.call(CallKind::Change, path, |tree| {
            tree.file(path)?;
            tree.change(EntryChange::Unset(path.to_owned()));
            Ok(())
        })
    }

    fn make_folder(&self, path: &str) -> io::Result<()> {
        self.call(CallKind::Change, path, |tree| {
            tree.parent_is_there(path)?;
            if tree.now.contains_key(path) {
                return Err(exists());
            }
            tree.change(EntryChange::Set(path.to_owned(), DirectoryEntry::Folder));
            Ok(())
        })
    }

    fn remove_folder(&self, path: &str) -> io::Result<()> {
        self.call(CallKind::Change, path, |tree| {
            if tree.now.get(path) != Some(&DirectoryEntry::Folder) {
                return Err(not_found());
            }
            let below = format!("{path}/");
            let first = tree.now.range(below.clone()..).next();
            if first.is_some_and(|(name, _)| name.starts_with(&below)) {
                return Err(io::Error::from_raw_os_error(39));
            }
            tree.change(EntryChange::Unset(path.to_owned()));
            Ok(())
        })
    }

    fn sync_folder(&self, path: &str) -> io::Result<()> {
        {
            let tree = self.tree();
            if !path.is_empty() && tree.now.get(path) != Some(&DirectoryEntry::Folder) {
                return Err(not_found());
            }
        }
        let done = self.call(CallKind::Sync, path, |tree| {
            tree.flush(path, 4);
            Ok(())
        });
        if done.is_err() && !self.process.is_dead() {
            self.tree().flush(path, 2);
        }
        done
    }

    fn read(&self, path: &str, bytes_max: u64) -> io::Result<Bytes> {
        self.call(CallKind::Read, path, |tree| {
            let number = tree.file(path)?;
            let bytes = &tree.files[number].now;
            match bytes.len() as u64 > bytes_max {
                true => Err(io::Error::new(io::ErrorKind::InvalidData, "too long")),
                false => Ok(Bytes::copy_from_slice(bytes)),
            }
        })
    }

    fn len(&self, path: &str) -> io::Result<u64> {
        self.call(CallKind::Read, path, |tree| {
            let number = tree.file(path)?;
            Ok(tree.files[number].now.len() as u64)
        })
    }

    fn list(&self, folder: &str) -> io::Result<Vec<ListedObject>> {
        self.call(CallKind::Read, folder, |tree| {
            let file = |(path, node): (&String, &DirectoryEntry)| match node {
                DirectoryEntry::File(number) if path.starts_with(folder) => Some(ListedObject {
                    path: path.clone(),
                    bytes: tree.files[*number].now.len() as u64,
                }),
                _ => None,
            };
            Ok(tree.now.iter().filter_map(file).collect())
        })
    }

    fn space(&self) -> io::Result<FileSystemSpace> {
        self.call(CallKind::Read, "space", |tree| match tree.capacity {
            usize::MAX => Err(io::ErrorKind::Unsupported.into()),
            total => Ok(FileSystemSpace {
                free: tree.room() as u64,
                total: total as u64,
            }),
        })
    }
}

struct VirtualFile {
    folder: VirtualFolder,
    number: usize,
}

impl DiskFile for VirtualFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let number = self.number;
        let mut part = None;
        let done = self.folder.call(CallKind::Change, "", |tree| {
            let room = tree.room();
            let content = &mut tree.files[number];
            content.dirty = true;
            content.now.extend(&bytes[..bytes.len().min(room)]);
            part = Some(());
            match room < bytes.len() {
                true => Err(full()),
                false => Ok(()),
            }
        });
        if done.is_err() && part.is_none() && !self.folder.process.is_dead() {
            let mut tree = self.folder.tree();
            let cut = tree.rng.usize(..=bytes.len()).min(tree.room());
            let content = &mut tree.files[number];
            content.dirty = true;
            content.now.extend(&bytes[..cut]);
        }
        done
    }

    fn sync(&mut self) -> io::Result<()> {
        let number = self.number;
        let done = self.folder.call(CallKind::Sync, "", |tree| {
            let content = &mut tree.files[number];
            content.disk = content.now.clone();
            content.dirty = false;
            Ok(())
        });
        if done.is_err() && !self.folder.process.is_dead() {
            let mut tree = self.folder.tree();
            if tree.files[number].dirty {
                tree.tear(number);
                tree.files[number].dirty = false;
            }
        }
        done
    }
}
