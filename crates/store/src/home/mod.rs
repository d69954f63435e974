//! Where the files of a store lie: a folder, or a bucket of an object store (`s3://`).
//!
//! What [`Home`] writes is durable when it returns. Its calls block: they are for threads that do
//! nothing else. Readers go through the object store of either.

mod bucket;
mod folder;
mod reader;

use std::io;
use std::path::Path as FsPath;
use std::sync::Arc;

use bytes::Bytes;
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::path::Path;

pub use bucket::{BucketOptions, check_url};

use bucket::Bucket;
use folder::Folder;
pub use reader::{Reader, Reading};

/// Ends the name of what is being written; never read.
pub(crate) const PART: &str = ".part";

/// An object by its name below the store, and its length in bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Listed {
    /// Its name, `/` between parts.
    pub path: String,
    /// Bytes.
    pub bytes: u64,
}

/// Stands before every change: a test has the process die there.
type Step<'a> = &'a dyn Fn() -> io::Result<()>;

/// Where the files of a store lie.
#[derive(Debug)]
pub struct Home {
    place: Place,
    storage: Arc<dyn ObjectStore>,
    #[cfg(test)]
    pub(crate) fuse: crate::tests::Fuse,
}

#[derive(Debug)]
enum Place {
    Folder(Folder),
    Bucket(Bucket),
}

impl Home {
    /// The folder, made if it is not there.
    ///
    /// # Errors
    /// It cannot be made or entered.
    pub fn folder(folder: &FsPath) -> io::Result<Self> {
        let folder = Folder::open(folder)?;
        let storage = LocalFileSystem::new_with_prefix(&folder.path).map_err(io::Error::other)?;
        Ok(Self::at(Place::Folder(folder), Arc::new(storage)))
    }

    /// What lies below an address such as `s3://bucket/security/events`. The bucket must be there.
    ///
    /// # Errors
    /// The address or the options make no sense, or no thread can be started. Whether the bucket
    /// answers is seen when it is read.
    pub fn bucket(url: &str, options: &BucketOptions) -> io::Result<Self> {
        let bucket = Bucket::open(url, options)?;
        let storage = bucket.storage();
        Ok(Self::at(Place::Bucket(bucket), storage))
    }

    fn at(place: Place, storage: Arc<dyn ObjectStore>) -> Self {
        Self {
            place,
            storage,
            #[cfg(test)]
            fuse: crate::tests::Fuse::default(),
        }
    }

    #[cfg_attr(
        not(test),
        expect(clippy::unused_self, reason = "tests have a fuse here")
    )]
    fn step(&self) -> io::Result<()> {
        #[cfg(test)]
        self.fuse.burn()?;
        Ok(())
    }

    /// For readers.
    pub fn storage(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.storage)
    }

    /// What [`Self::storage`] calls an object.
    pub fn location(&self, path: &str) -> Path {
        Path::from(path)
    }

    /// For readers in another process.
    pub fn reader(&self) -> Reader {
        match &self.place {
            Place::Folder(folder) => Reader::Folder(folder.path.clone()),
            Place::Bucket(bucket) => Reader::bucket(bucket),
        }
    }

    /// For messages.
    pub fn shown(&self) -> String {
        match &self.place {
            Place::Folder(folder) => folder.path.display().to_string(),
            Place::Bucket(bucket) => bucket.shown().to_owned(),
        }
    }

    /// The folder, if it is one: its file system is looked at for room.
    pub fn as_folder(&self) -> Option<&FsPath> {
        match &self.place {
            Place::Folder(folder) => Some(&folder.path),
            Place::Bucket(_) => None,
        }
    }

    /// Writes an object; one of this name is replaced.
    ///
    /// # Errors
    /// It is not there then, or not durable.
    pub fn put(&self, path: &str, bytes: Bytes) -> io::Result<()> {
        match &self.place {
            Place::Folder(folder) => folder.put(path, &bytes, &|| self.step()),
            Place::Bucket(bucket) => self.step().and_then(|()| bucket.put(path, bytes)),
        }
    }

    /// Writes an object unless there is one of this name; says whether it did.
    ///
    /// # Errors
    /// As for [`Self::put`].
    pub fn create(&self, path: &str, bytes: Bytes) -> io::Result<bool> {
        match &self.place {
            Place::Folder(folder) => folder.create(path, &bytes, &|| self.step()),
            Place::Bucket(bucket) => self.step().and_then(|()| bucket.create(path, bytes)),
        }
    }

    /// Gives an object another name. One that has gone already is no error: a crash may have come
    /// between this and the note that it was done.
    ///
    /// # Errors
    /// It has the old name still.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        match &self.place {
            Place::Folder(folder) => folder.rename(from, to, &|| self.step()),
            Place::Bucket(bucket) => bucket.rename(from, to, &|| self.step()),
        }
    }

    /// Deletes an object, if there is one. In a folder, the folders that are empty then go too.
    ///
    /// # Errors
    /// It is there still.
    pub fn delete(&self, path: &str) -> io::Result<()> {
        match &self.place {
            Place::Folder(folder) => folder.delete(path, &|| self.step()),
            Place::Bucket(bucket) => self.step().and_then(|()| bucket.delete(path)),
        }
    }

    /// The bytes of an object.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn get(&self, path: &str) -> io::Result<Bytes> {
        match &self.place {
            Place::Folder(folder) => folder.get(path),
            Place::Bucket(bucket) => bucket.get(path),
        }
    }

    /// Every object below `folder` (`""`: all), in the order of names, with what is being written,
    /// or was when a crash came (`.part`).
    ///
    /// # Errors
    /// It cannot be read.
    pub fn list(&self, folder: &str) -> io::Result<Vec<Listed>> {
        let mut found = match &self.place {
            Place::Folder(place) => place.list(folder)?,
            Place::Bucket(bucket) => bucket.list(folder)?,
        };
        found.sort();
        Ok(found)
    }
}
