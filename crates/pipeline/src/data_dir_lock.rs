//! One process a data directory.
//!
//! The lock is the kernel's (`flock`) and goes with the process, however that ends. It is on
//! `owner.lock`, which nobody else could ever open: whoever opens a file may lock it, for reading
//! too. `owner.pid` tells the number of the process, and is locked as well, for versions that knew
//! only that file. A stranger who got hold of it while it was readable is passed by.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use inrush_files::Access;

const LOCK: &str = "owner.lock";
const NAME: &str = "owner.pid";

/// Bytes of `owner.pid`: a number.
const PID_BYTES_MAX: u64 = 64;

/// Times that the lock is asked for, and the pause between: `inrush doctor` and `inrush queue` hold
/// it for a moment when they look who has it.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(25);

/// Holds the data directory for this process.
pub struct DataDirLock {
    _lock: File,
    _named: File,
}

impl DataDirLock {
    /// True if a process has the directory. Asks without taking it, but for a moment. A directory
    /// that cannot be looked into counts as taken.
    pub fn is_taken(data_dir: &Path) -> bool {
        [LOCK, NAME].iter().any(
            |name| match inrush_files::open_regular(&data_dir.join(name)) {
                Ok(file) => matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)),
                Err(error) => error.kind() == ErrorKind::PermissionDenied,
            },
        )
    }

    /// Takes the directory.
    ///
    /// # Errors
    /// Another process has it ([`ErrorKind::ResourceBusy`]): the message names it, or says that it
    /// is not known. Or the directory cannot be written.
    pub fn take(data_dir: &Path) -> io::Result<Self> {
        let lock = open(&data_dir.join(LOCK))?;
        if !locked(&lock)? {
            return Err(busy(data_dir, &lock));
        }
        let mut named = open(&data_dir.join(NAME))?;
        if !locked(&named)? {
            let holder = LockHolder::of(&named);
            if !holder.is_some_and(|holder| holder.is_stranger(&named)) {
                return Err(busy(data_dir, &named));
            }
            named = instead_of_strangers(data_dir)?;
        }
        named.set_len(0)?;
        named.rewind()?;
        writeln!(named, "{}", std::process::id())?;
        Ok(Self {
            _lock: lock,
            _named: named,
        })
    }
}

fn open(path: &Path) -> io::Result<File> {
    let options = OpenOptions::new().read(true).write(true).clone();
    let file = inrush_files::open(path, &options, &Access::PRIVATE)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => {
            let text = format!("{} is not a regular file", path.display());
            Err(io::Error::new(ErrorKind::InvalidInput, text))
        }
    }
}

fn locked(file: &File) -> io::Result<bool> {
    for _ in 0..TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
        }
    }
    Ok(false)
}

/// A fresh `owner.pid`, locked before anybody can open it. `owner.lock` is ours by now, so no other
/// process does the same.
fn instead_of_strangers(data_dir: &Path) -> io::Result<File> {
    let new = data_dir.join("owner.pid.new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let options = OpenOptions::new().read(true).write(true).clone();
    let file = inrush_files::create_new(&new, &options, &Access::PRIVATE)?;
    file.lock()?;
    fs::rename(&new, data_dir.join(NAME))?;
    tracing::warn!(
        data_dir = %data_dir.display(),
        "a process that is no inrush held a lock on owner.pid; it was replaced"
    );
    Ok(file)
}

/// A process with a lock on a file, as the kernel lists it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct LockHolder {
    process: u32,
    /// Shared with others, as an `inrush` never holds it for long.
    shared: bool,
}

impl LockHolder {
    /// `None` where the kernel does not say: no `/proc`, another container, another host.
    fn of(file: &File) -> Option<Self> {
        let metadata = file.metadata().ok()?;
        let locks = fs::read_to_string("/proc/locks").ok()?;
        Self::listed(&locks, metadata.dev(), metadata.ino())
    }

    fn listed(locks: &str, dev: u64, inode: u64) -> Option<Self> {
        let mut other_device = None;
        for line in locks.lines() {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let [_, "FLOCK", _, mode, process, place, ..] = words[..] else {
                continue;
            };
            let (Some((device, its)), Ok(process)) = (place.rsplit_once(':'), process.parse())
            else {
                continue;
            };
            if its.parse() != Ok(inode) || process == 0 {
                continue;
            }
            let shared = mode == "READ";
            let holder = Self { process, shared };
            if device == device_name(dev) {
                return Some(holder);
            }
            // Layered file systems list the device below them.
            other_device = Some(holder);
        }
        other_device
    }

    /// True if it cannot be an `inrush` that owns the directory: that has the file alone, and may
    /// write to it.
    fn is_stranger(self, file: &File) -> bool {
        let process = fs::metadata(format!("/proc/{}", self.process));
        let (Ok(process), Ok(file)) = (process, file.metadata()) else {
            return self.shared;
        };
        self.shared || (process.uid() != 0 && process.uid() != file.uid())
    }
}

/// As `/proc/locks` writes it (Linux, `fs/locks.c`): major and minor number in hexadecimal.
fn device_name(dev: u64) -> String {
    let major = (dev >> 8) & 0xfff | (dev >> 32) & !0xfff;
    let minor = dev & 0xff | (dev >> 12) & !0xff & 0xffff_ffff;
    format!("{major:02x}:{minor:02x}")
}

fn busy(data_dir: &Path, file: &File) -> io::Error {
    let written = inrush_files::read_to_string(&data_dir.join(NAME), PID_BYTES_MAX).ok();
    let written: Option<u32> = written.and_then(|text| text.trim().parse().ok());
    let text = match LockHolder::of(file) {
        Some(holder) if written == Some(holder.process) => {
            format!("another inrush uses it: process {}", holder.process)
        }
        Some(LockHolder { process, .. }) => {
            let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
            let name = name.trim_end().escape_debug().to_string();
            format!("process {process} ({name}) has locked it")
        }
        None => "another process has locked it; which one is not known: it may run in another \
                 container or on another host"
            .to_owned(),
    };
    io::Error::new(ErrorKind::ResourceBusy, text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_directory_has_one_owner_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let owner = DataDirLock::take(folder.path()).unwrap();
        let error = DataDirLock::take(folder.path()).err().unwrap().to_string();
        assert!(error.contains(&std::process::id().to_string()), "{error}");
        assert!(DataDirLock::is_taken(folder.path()));
        drop(owner);
        assert!(!DataDirLock::is_taken(folder.path()));
        DataDirLock::take(folder.path()).unwrap();
    }

    #[test]
    fn a_stranger_with_a_lock_on_the_readable_file_is_passed_by() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(NAME), "999999999\n").unwrap();
        let stranger = File::open(folder.path().join(NAME)).unwrap();
        stranger.lock_shared().unwrap();
        let owner = DataDirLock::take(folder.path()).unwrap();
        let written = fs::read_to_string(folder.path().join(NAME)).unwrap();
        assert_eq!(written, format!("{}\n", std::process::id()));
        assert!(DataDirLock::take(folder.path()).is_err());
        drop(owner);
        // An older inrush holds it alone.
        let older = File::open(folder.path().join(NAME)).unwrap();
        older.lock().unwrap();
        assert!(DataDirLock::take(folder.path()).is_err());
    }

    #[test]
    fn the_kernels_list_names_the_holder_of_a_file() {
        let locks = "1: POSIX  ADVISORY  WRITE 12 08:01:77 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 0 08:01:77 0 EOF\n\
                     3: FLOCK  ADVISORY  READ 13 08:02:77 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 15 08:02:77 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 14 08:01:77 0 EOF\n";
        let of = |dev, inode| LockHolder::listed(locks, dev, inode);
        let holder = |process, shared| Some(LockHolder { process, shared });
        assert_eq!(of(0x801, 77), holder(14, false));
        assert_eq!(of(0x802, 77), holder(13, true));
        assert_eq!(of(0x801, 78), None);
        assert_eq!(device_name(0x0012_3456), "234:156");
    }
}
