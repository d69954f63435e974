//! The system calls that a store in a folder makes, so that a test can have any of them fail.
//!
//! # What an implementation promises
//! * What [`DiskFile::sync`] returned `Ok` for is on stable storage. After an error nothing that
//!   was written may be trusted, not even by another `sync` that succeeds: Linux forgets a failed
//!   page after it told once.
//! * A new, renamed or removed name is on stable storage once [`FolderIo::sync_folder`] of its
//!   folder returned `Ok`. Before, a power cut keeps or undoes it.
//! * A call that fails may have had its effect all the same.
//!
//! Paths are relative to the store, with `/` between parts; `""` is the store's own folder.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use inrush_files::own;
use rustix::fs::{FlockOperation, OFlags};

use super::ListedObject;

/// A folder, as the store asks for it.
pub trait FolderIo: Send + Sync + fmt::Debug {
    /// Takes the folder for this writer alone, for as long as the returned guard lives.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`]: another writer has it.
    fn lock(&self) -> io::Result<Box<dyn Send + Sync>>;
    /// A file to be written, emptied if there is one of this name.
    fn create(&self, path: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Gives a file a second name; [`io::ErrorKind::AlreadyExists`] if the name is taken.
    fn link(&self, from: &str, to: &str) -> io::Result<()>;
    /// Gives a file another name, in place of a file that has it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a name of a file.
    fn remove(&self, path: &str) -> io::Result<()>;
    /// Makes a folder in one that is there.
    fn make_folder(&self, path: &str) -> io::Result<()>;
    /// Removes a folder that is empty.
    fn remove_folder(&self, path: &str) -> io::Result<()>;
    /// Makes the names in a folder durable.
    fn sync_folder(&self, path: &str) -> io::Result<()>;
    /// The bytes of a file of at most `bytes_max` bytes.
    fn read(&self, path: &str, bytes_max: u64) -> io::Result<Bytes>;
    /// The length of a file; [`io::ErrorKind::NotFound`] if there is none.
    fn len(&self, path: &str) -> io::Result<u64>;
    /// Every file below a folder, in no order; nothing if there is no such folder.
    fn list(&self, folder: &str) -> io::Result<Vec<ListedObject>>;
    /// The room on the file system.
    fn space(&self) -> io::Result<FileSystemSpace>;
}

/// The room on a file system, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileSystemSpace {
    /// Bytes that may still be written.
    pub free: u64,
    /// All of it.
    pub total: u64,
}

/// A file that is being written.
pub trait DiskFile {
    /// Writes all of the bytes behind what was written.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes what was written durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// A folder of the host.
#[derive(Debug)]
pub(super) struct HostFolder {
    root: PathBuf,
}

impl HostFolder {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

/// Makes a folder and those above it that are missing, for its owner alone.
pub(super) fn make_root(folder: &Path) -> io::Result<()> {
    inrush_files::create_dir_all(folder, &own())
}

/// The file whose lock a writer holds.
const LOCK: &str = "_log/writer.lock";

impl FolderIo for HostFolder {
    fn lock(&self) -> io::Result<Box<dyn Send + Sync>> {
        match self.make_folder("_log") {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
        let mut file = inrush_files::open(&self.at(LOCK), &options, &own())?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut holder = String::new();
                // What cannot be read is not told; the lock is what counts.
                let _ = (&mut file).take(20).read_to_string(&mut holder);
                return Err(io::Error::new(io::ErrorKind::WouldBlock, holder));
            }
            Err(error) => return Err(error.into()),
        }
        // For the message of the next one; nothing depends on it.
        let _ = file.set_len(0);
        let _ = write!(file, "{}", std::process::id());
        Ok(Box::new(file))
    }

    fn create(&self, path: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(inrush_files::create(&self.at(path), &own())?))
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        fs::hard_link(self.at(from), self.at(to))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.at(from), self.at(to))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        fs::remove_file(self.at(path))
    }

    fn make_folder(&self, path: &str) -> io::Result<()> {
        let path = self.at(path);
        if path.is_dir() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        // The store's own folder is never made again: what was in it would be forgotten.
        if !path.parent().is_some_and(Path::is_dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        inrush_files::create_dir_all(&path, &own())
    }

    fn remove_folder(&self, path: &str) -> io::Result<()> {
        fs::remove_dir(self.at(path))
    }

    fn sync_folder(&self, path: &str) -> io::Result<()> {
        File::open(self.at(path))?.sync_all()
    }

    fn read(&self, path: &str, bytes_max: u64) -> io::Result<Bytes> {
        // A FIFO must not make a reader wait, nor a link lead it elsewhere.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
            .open(self.at(path))
            .map_err(|error| match error.raw_os_error() {
                Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => {
                    not_a_file("a link")
                }
                _ => error,
            })?;
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(not_a_file("no regular file"));
        }
        if meta.len() > bytes_max {
            let found = meta.len();
            let message = format!("it has {found} bytes, and {bytes_max} at most can be right");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0));
        file.take(bytes_max).read_to_end(&mut bytes)?;
        Ok(bytes.into())
    }

    fn len(&self, path: &str) -> io::Result<u64> {
        Ok(fs::symlink_metadata(self.at(path))?.len())
    }

    fn list(&self, folder: &str) -> io::Result<Vec<ListedObject>> {
        let mut found = Vec::new();
        let mut open = vec![self.at(folder)];
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
                    continue;
                }
                let below = path.strip_prefix(&self.root).ok().and_then(Path::to_str);
                // What has a name that is no text is not ours.
                let Some(name) = below else { continue };
                match entry.metadata() {
                    Ok(meta) => found.push(ListedObject {
                        path: name.to_owned(),
                        bytes: meta.len(),
                    }),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(found)
    }

    fn space(&self) -> io::Result<FileSystemSpace> {
        let found = rustix::fs::statvfs(&self.root)?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok(FileSystemSpace {
            free: bytes(found.f_bavail),
            total: bytes(found.f_blocks),
        })
    }
}

fn not_a_file(what: &str) -> io::Error {
    let message = format!("there is {what} in its place");
    io::Error::new(io::ErrorKind::InvalidData, message)
}

impl DiskFile for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}
