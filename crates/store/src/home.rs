//! Where the files of a store lie: a folder, or a bucket.
//!
//! What [`Home`] writes is on the disk when it returns. A folder is written to by `std::fs`, for
//! `object_store` does not sync; readers use the object store of either.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path as FsPath, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::path::Path;

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

/// Where the files of a store lie.
#[derive(Debug)]
pub struct Home {
    folder: PathBuf,
    storage: Arc<dyn ObjectStore>,
    #[cfg(test)]
    pub(crate) fuse: crate::tests::Fuse,
}

impl Home {
    /// The folder, made if it is not there.
    ///
    /// # Errors
    /// It cannot be made or entered.
    pub fn folder(folder: &FsPath) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let folder = folder.canonicalize()?;
        let storage = LocalFileSystem::new_with_prefix(&folder).map_err(io::Error::other)?;
        Ok(Self {
            folder,
            storage: Arc::new(storage),
            #[cfg(test)]
            fuse: crate::tests::Fuse::default(),
        })
    }

    /// Stands before every change to the disk: a test has the process die there.
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

    /// For messages.
    pub fn shown(&self) -> String {
        self.folder.display().to_string()
    }

    /// The folder, if it is one: its file system is looked at for room.
    pub fn as_folder(&self) -> Option<&FsPath> {
        Some(&self.folder)
    }

    /// Writes an object; one of this name is replaced.
    ///
    /// # Errors
    /// It is not there then, or not durable.
    pub fn put(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let target = self.folder.join(path);
        let part = self.write_part(&target, bytes)?;
        self.step()?;
        fs::rename(&part, &target)?;
        sync_folder_of(&target)
    }

    /// Writes an object unless there is one of this name; says whether it did.
    ///
    /// # Errors
    /// As for [`Self::put`].
    pub fn create(&self, path: &str, bytes: &[u8]) -> io::Result<bool> {
        let target = self.folder.join(path);
        let part = self.write_part(&target, bytes)?;
        self.step()?;
        let linked = fs::hard_link(&part, &target);
        self.step()?;
        fs::remove_file(&part)?;
        match linked {
            Ok(()) => sync_folder_of(&target).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn write_part(&self, target: &FsPath, bytes: &[u8]) -> io::Result<PathBuf> {
        let mut part = target.as_os_str().to_owned();
        part.push(PART);
        let part = PathBuf::from(part);
        self.step()?;
        let mut file = match File::create(&part) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make_folders(target)?;
                File::create(&part)?
            }
            made => made?,
        };
        let written = self
            .step()
            .and_then(|()| file.write_all(bytes))
            .and_then(|()| file.sync_data());
        if let Err(error) = written {
            // What is half there only takes room, on a disk that is perhaps full.
            let _ = self.step().and_then(|()| fs::remove_file(&part));
            return Err(error);
        }
        Ok(part)
    }

    /// Makes the folders of a file, each durable in the one above.
    fn make_folders(&self, target: &FsPath) -> io::Result<()> {
        let Some(folder) = target.parent() else {
            return Ok(());
        };
        fs::create_dir_all(folder)?;
        let mut made = folder;
        while made != self.folder && made.starts_with(&self.folder) {
            sync_folder_of(made)?;
            made = made.parent().unwrap_or(&self.folder);
        }
        Ok(())
    }

    /// Gives an object another name. One that has gone already is no error: a crash may have come
    /// between this and the note that it was done.
    ///
    /// # Errors
    /// It has the old name still.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.step()?;
        let to = self.folder.join(to);
        match fs::rename(self.folder.join(from), &to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && to.exists() => Ok(()),
            Err(error) => Err(error),
            Ok(()) => sync_folder_of(&to),
        }
    }

    /// Deletes an object, if there is one, and the folders that are empty then.
    ///
    /// # Errors
    /// It is there still.
    pub fn delete(&self, path: &str) -> io::Result<()> {
        self.step()?;
        let target = self.folder.join(path);
        match fs::remove_file(&target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done?,
        }
        let mut folder = target.parent();
        while let Some(empty) = folder.filter(|f| *f != self.folder) {
            if fs::remove_dir(empty).is_err() {
                break;
            }
            folder = empty.parent();
        }
        Ok(())
    }

    /// The bytes of an object.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn get(&self, path: &str) -> io::Result<Bytes> {
        fs::read(self.folder.join(path)).map(Bytes::from)
    }

    /// Every object below `folder` (`""`: all), in the order of names, with what is being written,
    /// or was when a crash came (`.part`).
    ///
    /// # Errors
    /// A folder cannot be read.
    pub fn list(&self, folder: &str) -> io::Result<Vec<Listed>> {
        let mut found = Vec::new();
        let mut open = vec![self.folder.join(folder)];
        while let Some(folder) = open.pop() {
            let entries = match fs::read_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                entries => entries?,
            };
            for entry in entries {
                let entry = entry?;
                let path = entry.path();
                if entry.file_type()?.is_dir() {
                    open.push(path);
                } else if let Some(name) = self.name_of(&path) {
                    let bytes = entry.metadata()?.len();
                    found.push(Listed { path: name, bytes });
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// What has a name that is no text is not ours.
    fn name_of(&self, path: &FsPath) -> Option<String> {
        let below = path.strip_prefix(&self.folder).ok()?;
        below.to_str().map(str::to_owned)
    }
}

fn sync_folder_of(path: &FsPath) -> io::Result<()> {
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}
