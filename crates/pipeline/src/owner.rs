//! One process a data directory.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

const NAME: &str = "owner.pid";

/// Holds the data directory for this process. The lock is the kernel's: it goes with the process,
/// however that ends.
pub struct Owner {
    _file: File,
}

impl Owner {
    /// Whether a process has the directory. Asks without taking it, but for a moment.
    pub fn is_taken(data_dir: &Path) -> bool {
        let Ok(file) = File::open(data_dir.join(NAME)) else {
            return false;
        };
        matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
    }

    /// Takes the directory.
    ///
    /// # Errors
    /// Another process has it: the message names its number. Or the directory cannot be written.
    pub fn take(data_dir: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(data_dir.join(NAME))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                file.read_to_string(&mut pid)?;
                let text = format!("another inrush uses it: process {}", pid.trim());
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_directory_has_one_owner_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let owner = Owner::take(folder.path()).unwrap();
        let error = Owner::take(folder.path()).err().unwrap().to_string();
        assert!(error.contains(&std::process::id().to_string()), "{error}");
        assert!(Owner::is_taken(folder.path()));
        drop(owner);
        assert!(!Owner::is_taken(folder.path()));
        Owner::take(folder.path()).unwrap();
    }
}
