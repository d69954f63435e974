//! A store in a folder. It is written to by itself, for `object_store` does not sync.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::disk::{FileSystemSpace, FolderIo};
use super::{CreateError, CreateOutcome, ListedObject, PART};
use crate::mutant::{Mutant, is_on};

/// Folders that are remembered as durable: 24 a day and index. Beyond, all are looked at again.
const DURABLE_MAX: usize = 50_000;

/// Times that a disk that stumbles is asked for a name.
const ASKED_TIMES: usize = 5;

/// A folder of files that are durable when a call returned `Ok`.
#[derive(Debug)]
pub(super) struct Folder {
    disk: Arc<dyn FolderIo>,
    /// Folders whose names are durable all the way up. One that an earlier, failed call made may
    /// not be; held for a look-up only.
    durable: Mutex<HashSet<String>>,
    /// Held while folders are made.
    making: Mutex<()>,
}

impl Folder {
    pub(super) fn new(disk: Arc<dyn FolderIo>) -> Self {
        Self {
            disk,
            durable: Mutex::default(),
            making: Mutex::default(),
        }
    }

    pub(super) fn lock(&self) -> io::Result<Box<dyn Send + Sync>> {
        self.make_folders("_log")?;
        self.disk.lock()
    }

    /// Writes a file in place of one of this name. After an error there is either.
    pub(super) fn put(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let part = self.write_part(path, bytes)?;
        self.disk.rename(&part, path)?;
        self.disk.sync_folder(parent(path))
    }

    pub(super) fn create(&self, path: &str, bytes: &[u8]) -> Result<CreateOutcome, CreateError> {
        let part = self.write_part(path, bytes).map_err(CreateError::NotMade)?;
        let linked = self.disk.link(&part, path);
        // The next start deletes what this cannot.
        let _ = self.disk.remove(&part);
        match linked {
            Ok(()) => self
                .disk
                .sync_folder(parent(path))
                .map(|()| CreateOutcome::Made)
                .map_err(match is_on(Mutant::ForgetAfterLink) {
                    true => CreateError::NotMade,
                    false => CreateError::Unknown,
                }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(CreateOutcome::Taken),
            Err(error) => Err(CreateError::Unknown(error)),
        }
    }

    fn write_part(&self, target: &str, bytes: &[u8]) -> io::Result<String> {
        let part = format!("{target}{PART}");
        match self.make_folders(parent(target)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // One above it was deleted, and is known yet.
                self.forget_folder(parent(target));
                self.make_folders(parent(target))?;
            }
            made => made?,
        }
        if !is_on(Mutant::ReusePart) {
            // What a crash has left of it may be a second name of the target: not to be emptied.
            match self.disk.remove(&part) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                done => done?,
            }
        }
        let mut file = match self.disk.create(&part) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // It was empty for a moment, and deleted.
                self.forget_folder(parent(target));
                self.make_folders(parent(target))?;
                self.disk.create(&part)?
            }
            made => made?,
        };
        if let Err(error) = file.write(bytes).and_then(|()| file.sync()) {
            // What is half there only takes room, on a disk that is perhaps full.
            let _ = self.disk.remove(&part);
            return Err(error);
        }
        Ok(part)
    }

    /// Makes a folder and those above it, each durable in the one above.
    fn make_folders(&self, folder: &str) -> io::Result<()> {
        if folder.is_empty() || self.known().contains(folder) {
            return Ok(());
        }
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        self.make_each(folder)
    }

    fn make_each(&self, folder: &str) -> io::Result<()> {
        if folder.is_empty() || self.known().contains(folder) {
            return Ok(());
        }
        self.make_each(parent(folder))?;
        match self.disk.make_folder(folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // A sync of its name may have failed, and the next one would succeed without it.
                // There is nothing in such a folder, and it is made anew.
                match self.disk.remove_folder(folder) {
                    _ if is_on(Mutant::TrustFolder) => {}
                    Ok(()) => self.disk.make_folder(folder)?,
                    Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                    Err(error) => return Err(error),
                }
            }
            made => made?,
        }
        self.disk.sync_folder(parent(folder))?;
        let mut known = self.known();
        if known.len() >= DURABLE_MAX {
            known.clear();
        }
        known.insert(folder.to_owned());
        Ok(())
    }

    fn forget_folder(&self, folder: &str) {
        let mut known = self.known();
        let mut gone = folder;
        while !gone.is_empty() {
            known.remove(gone);
            gone = parent(gone);
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.durable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Renames; what was renamed before is no error. Says an error only if the old name is the one
    /// that counts.
    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let Err(error) = self.disk.rename(from, to) else {
            // After a power cut the old name may be back: the next start renames it again.
            return Ok(());
        };
        // Of two answers that say nothing about it, one is enough.
        match (self.asked(from), self.asked(to)) {
            (Some(false), None) | (Some(false) | None, Some(true)) => Ok(()),
            _ => Err(error),
        }
    }

    /// True if there is a file, asked a few times.
    fn asked(&self, path: &str) -> Option<bool> {
        (0..ASKED_TIMES).find_map(|_| self.has(path))
    }

    pub(super) fn delete(&self, path: &str) -> io::Result<()> {
        match self.disk.remove(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done?,
        }
        let mut folder = parent(path);
        while !folder.is_empty() {
            self.known().remove(folder);
            if self.disk.remove_folder(folder).is_err() {
                break;
            }
            folder = parent(folder);
        }
        Ok(())
    }

    pub(super) fn sync(&self, folder: &str) -> io::Result<()> {
        match self.disk.sync_folder(folder) {
            // It was empty, and deleted; so a name in the one above must not come back.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !folder.is_empty() => {
                self.sync(parent(folder))
            }
            done => done,
        }
    }

    pub(super) fn has(&self, path: &str) -> Option<bool> {
        match self.disk.len(path) {
            Ok(_) => Some(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(false),
            Err(_) => None,
        }
    }

    pub(super) fn get(&self, path: &str, bytes_max: u64) -> io::Result<Bytes> {
        self.disk.read(path, bytes_max)
    }

    pub(super) fn space(&self) -> io::Result<FileSystemSpace> {
        self.disk.space()
    }

    pub(super) fn list(&self, folder: &str) -> io::Result<Vec<ListedObject>> {
        self.disk.list(folder)
    }
}

/// The folder of a file or folder.
pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}
