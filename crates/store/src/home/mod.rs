//! Place of a store's files: a folder, or a bucket of an object store (`s3://`).
//!
//! What [`DurableStorage`] writes is durable when it returned `Ok`. After an error a write is not
//! there, is there, or is there until a power cut: who must know reads it back. Its calls block:
//! they are for threads that do nothing else. Readers go through the object store of either.

mod bucket;
mod disk;
mod folder;
mod objects;
mod reader;
#[cfg(feature = "simulation")]
mod simulated;
#[cfg(feature = "simulation")]
mod virtual_bucket;
#[cfg(feature = "simulation")]
mod virtual_folder;

use std::io;
use std::path::{Path as FsPath, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::path::Path;

pub use bucket::{BucketOptions, check_url};
pub use disk::{DiskFile, FileSystemSpace, FolderIo};
pub use objects::BucketIo;
#[cfg(feature = "simulation")]
pub use simulated::{FaultRates, SimulatedProcess};
#[cfg(feature = "simulation")]
pub use virtual_bucket::VirtualBucket;
#[cfg(feature = "simulation")]
pub use virtual_folder::VirtualFolder;

use crate::mutant::{Mutant, is_on};
use bucket::Bucket;
use disk::HostFolder;
use folder::Folder;
pub use reader::{ReadOnlyStorage, StorageLocation};

/// Ends the name of what is being written; never read.
pub(crate) const PART: &str = ".part";

/// An object by its name below the store, and its length in bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ListedObject {
    /// Its name, `/` between parts.
    pub path: String,
    /// Bytes.
    pub bytes: u64,
}

/// Result of making an object only if there is none of its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CreateOutcome {
    /// It is there, and durable.
    Made,
    /// There is one of its name, made by whomever: perhaps by an earlier try of this one.
    Taken,
}

/// Error of an object that is not known to be there.
#[derive(Debug)]
pub enum CreateError {
    /// It is not there, and will not be.
    NotMade(io::Error),
    /// It may be there, or come to be there: it was made but not made durable, or the request was
    /// sent and not answered.
    Unknown(io::Error),
}

/// Place of a store's files: a folder or a bucket.
#[derive(Debug)]
pub struct DurableStorage {
    place: StorageBackend,
    storage: Arc<dyn ObjectStore>,
}

#[derive(Debug)]
enum StorageBackend {
    Folder(Folder, PathBuf),
    Bucket(Arc<dyn BucketIo>, StorageLocation),
}

impl DurableStorage {
    /// The folder, made if it is not there.
    ///
    /// # Errors
    /// It cannot be made or entered.
    pub fn folder(folder: &FsPath) -> io::Result<Self> {
        disk::make_root(folder)?;
        let path = folder.canonicalize()?;
        let disk = Arc::new(HostFolder::new(path.clone()));
        Self::on_disk(disk, path)
    }

    /// A folder that is only in memory; it has no readers.
    #[cfg(feature = "simulation")]
    pub fn virtual_folder(disk: Arc<dyn FolderIo>) -> Self {
        Self {
            place: StorageBackend::Folder(Folder::new(disk), PathBuf::new()),
            storage: Arc::new(object_store::memory::InMemory::new()),
        }
    }

    /// A bucket that is only in memory; it has no readers.
    #[cfg(feature = "simulation")]
    pub fn virtual_bucket(objects: Arc<dyn BucketIo>) -> Self {
        let storage = Arc::new(object_store::memory::InMemory::new());
        Self::on_objects(objects, StorageLocation::Folder(PathBuf::new()), storage)
    }

    /// A folder that is there, over system calls of the caller's.
    ///
    /// # Errors
    /// Readers cannot be given it.
    pub fn on_disk(disk: Arc<dyn FolderIo>, path: PathBuf) -> io::Result<Self> {
        let storage = LocalFileSystem::new_with_prefix(&path).map_err(io::Error::other)?;
        Ok(Self {
            place: StorageBackend::Folder(Folder::new(disk), path),
            storage: Arc::new(storage),
        })
    }

    /// Bucket, or a folder in it, at an address such as `s3://bucket/security/events`. The bucket
    /// must be there.
    ///
    /// # Errors
    /// The address or the options make no sense, or no thread can be started. Whether the bucket
    /// answers is seen when it is read.
    pub fn bucket(url: &str, options: &BucketOptions) -> io::Result<Self> {
        let bucket = Bucket::open(url, options)?;
        let storage = bucket.storage();
        let reader = StorageLocation::bucket(&bucket);
        Ok(Self::on_objects(Arc::new(bucket), reader, storage))
    }

    /// The room on its file system; nothing if it is on none, or the system does not say.
    pub(crate) fn space(&self) -> Option<FileSystemSpace> {
        match &self.place {
            StorageBackend::Folder(folder, _) => folder.space().ok(),
            StorageBackend::Bucket(..) => None,
        }
    }

    /// A bucket over requests of the caller's.
    pub fn on_objects(
        objects: Arc<dyn BucketIo>,
        reader: StorageLocation,
        storage: Arc<dyn ObjectStore>,
    ) -> Self {
        Self {
            place: StorageBackend::Bucket(objects, reader),
            storage,
        }
    }

    /// The host's folder as its system calls see it: a test wraps it.
    #[cfg(test)]
    pub(crate) fn host_disk(folder: &FsPath) -> Arc<dyn FolderIo> {
        disk::make_root(folder).ok();
        Arc::new(HostFolder::new(folder.to_owned()))
    }

    /// For readers.
    pub fn storage(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.storage)
    }

    /// Path of an object in [`Self::storage`].
    pub fn location(&self, path: &str) -> Path {
        Path::from(path)
    }

    /// For readers in another process.
    pub fn reader(&self) -> StorageLocation {
        match &self.place {
            StorageBackend::Folder(_, path) => StorageLocation::Folder(path.clone()),
            StorageBackend::Bucket(_, reader) => reader.clone(),
        }
    }

    /// For messages.
    pub fn shown(&self) -> String {
        match &self.place {
            StorageBackend::Folder(_, path) => path.display().to_string(),
            StorageBackend::Bucket(_, reader) => format!("{reader:?}"),
        }
    }

    /// The folder, if it is one: its file system is looked at for room.
    pub fn as_folder(&self) -> Option<&FsPath> {
        match &self.place {
            StorageBackend::Folder(_, path) => Some(path),
            StorageBackend::Bucket(..) => None,
        }
    }

    /// Takes it for one writer, for as long as the guard lives. A bucket has no locks: there the
    /// numbers of commits keep writers apart.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`]: another writer has it.
    pub(crate) fn lock(&self) -> io::Result<Option<Box<dyn Send + Sync>>> {
        let StorageBackend::Folder(folder, path) = &self.place else {
            return Ok(None);
        };
        folder.lock().map(Some).map_err(|error| {
            if error.kind() != io::ErrorKind::WouldBlock {
                return error;
            }
            let holder = error.to_string();
            let holder = match holder.parse::<u32>() {
                Ok(pid) => format!("process {pid}"),
                Err(_) => "another process".to_owned(),
            };
            io::Error::new(
                io::ErrorKind::WouldBlock,
                format!(
                    "{holder} writes to {}: give each store a path of its own",
                    path.display()
                ),
            )
        })
    }

    /// Writes an object; one of this name is replaced.
    ///
    /// # Errors
    /// It is not there then, or not durable.
    pub fn put(&self, path: &str, bytes: Bytes) -> io::Result<()> {
        match &self.place {
            StorageBackend::Folder(folder, _) => folder.put(path, &bytes),
            StorageBackend::Bucket(bucket, _) => bucket.put(path, bytes),
        }
    }

    /// Writes an object unless there is one of this name.
    ///
    /// # Errors
    /// It is not there, or it is not known whether it is.
    pub fn create(&self, path: &str, bytes: Bytes) -> Result<CreateOutcome, CreateError> {
        match &self.place {
            StorageBackend::Folder(folder, _) => folder.create(path, &bytes),
            StorageBackend::Bucket(bucket, _) => bucket.create(path, bytes),
        }
    }

    /// Makes an object durable that is there with these bytes. A folder whose sync failed once
    /// forgets what it did not write, so the file is written anew in its own place.
    ///
    /// # Errors
    /// It may vanish with a power cut.
    pub(crate) fn settle(&self, path: &str, bytes: Bytes) -> io::Result<()> {
        match &self.place {
            StorageBackend::Folder(folder, _) => folder.put(path, &bytes),
            StorageBackend::Bucket(..) => Ok(()),
        }
    }

    /// Gives an object another name. One that has gone already is no error: a crash may have come
    /// between this and the note that it was done. A folder does not make the name durable.
    ///
    /// # Errors
    /// It has the old name still.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        match &self.place {
            StorageBackend::Folder(folder, _) => folder.rename(from, to),
            StorageBackend::Bucket(bucket, _) => {
                bucket.copy(from, to)?;
                bucket.delete(from)
            }
        }
    }

    /// Gives an object its final name, by which it is read from then on. Where that takes two
    /// requests, it has the first name too if the second one fails: the next start deletes it.
    ///
    /// # Errors
    /// It is to be read by the old name.
    pub(crate) fn name(&self, from: &str, to: &str) -> io::Result<()> {
        let StorageBackend::Bucket(bucket, _) = &self.place else {
            return self.rename(from, to);
        };
        bucket.copy(from, to)?;
        if let Err(error) = bucket.delete(from) {
            if is_on(Mutant::TrustOldName) {
                return Err(error);
            }
            tracing::debug!(%error, from, "store: an object has two names until the next start");
        }
        Ok(())
    }

    /// Deletes an object, if there is one. In a folder, the folders that are empty then go too, and
    /// a power cut may bring it back until `Self::sync`.
    ///
    /// # Errors
    /// It is there still.
    pub fn delete(&self, path: &str) -> io::Result<()> {
        match &self.place {
            StorageBackend::Folder(folder, _) => folder.delete(path),
            StorageBackend::Bucket(bucket, _) => bucket.delete(path),
        }
    }

    /// Makes the names in the folders of these objects durable.
    ///
    /// # Errors
    /// A power cut may undo what was renamed or deleted there.
    pub(crate) fn sync<'a>(&self, paths: impl Iterator<Item = &'a str>) -> io::Result<()> {
        let StorageBackend::Folder(folder, _) = &self.place else {
            return Ok(());
        };
        let folders: std::collections::BTreeSet<&str> = paths.map(folder::parent).collect();
        folders.into_iter().try_for_each(|path| folder.sync(path))
    }

    /// True if there is an object of this name; `None` where that is not known, or asking is dear.
    pub(crate) fn has(&self, path: &str) -> Option<bool> {
        match &self.place {
            StorageBackend::Folder(folder, _) => folder.has(path),
            StorageBackend::Bucket(..) => None,
        }
    }

    /// The bytes of an object, which has `bytes_max` at most.
    ///
    /// # Errors
    /// There is none, it is larger, or it cannot be read.
    pub fn get(&self, path: &str, bytes_max: u64) -> io::Result<Bytes> {
        match &self.place {
            StorageBackend::Folder(folder, _) => folder.get(path, bytes_max),
            StorageBackend::Bucket(bucket, _) => bucket.get(path, bytes_max),
        }
    }

    /// Every object below `folder` (`""`: all), in the order of names, with what is being written,
    /// or was when a crash came (`.part`).
    ///
    /// # Errors
    /// It cannot be read.
    pub fn list(&self, folder: &str) -> io::Result<Vec<ListedObject>> {
        let mut found = match &self.place {
            StorageBackend::Folder(place, _) => place.list(folder)?,
            StorageBackend::Bucket(bucket, _) => bucket.list(folder)?,
        };
        found.sort();
        Ok(found)
    }
}
