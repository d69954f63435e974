//! The storage that the log asks for, and nothing more: a flat folder of files, written at offsets.
//!
//! The real one is [`DiskStorage`]; `VirtualDisk` (feature `simulation`) is its twin in memory,
//! which tears, loses and refuses as a seed tells it.
//!
//! # What an implementation promises
//! * What was written before [`StorageFile::sync`] began is on stable storage once it returned
//!   `Ok`. If it returned an error, nothing written since the last `Ok` may be trusted, not even by
//!   another `sync` that succeeds (Linux forgets a failed page after telling once).
//! * A new, removed or renamed name is on stable storage once [`Storage::sync_names`] returned.
//! * Without those calls, a power cut keeps, loses or tears what was written, in any order.

mod direct;
mod disk;
#[cfg(feature = "simulation")]
mod virtual_disk;

use std::io;
use std::sync::Arc;

pub use disk::DiskStorage;
#[cfg(feature = "simulation")]
pub use virtual_disk::{DiskCall, DiskFaults, VirtualDisk};

/// Behind what was written a file may have zeros, fewer than these, until it is closed: the rest of
/// a block of the disk.
pub const BLOCK_BYTES: usize = 4096;

/// A folder of files.
pub trait Storage: Send + Sync + 'static {
    /// The names of all files, in no order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// A new, empty file; fails with [`io::ErrorKind::AlreadyExists`] if there is one of that name.
    fn create(&self, name: &str) -> io::Result<Arc<dyn StorageFile>>;

    /// An existing file.
    fn open(&self, name: &str) -> io::Result<Arc<dyn StorageFile>>;

    /// Deletes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Gives a file another name, in place of a file that has it. A name that begins with
    /// `bad/` puts it aside; the folder is made.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Makes names durable.
    fn sync_names(&self) -> io::Result<()>;

    /// Bytes that can still be written.
    fn free_bytes(&self) -> io::Result<u64>;

    /// Bytes of the whole device.
    fn total_bytes(&self) -> io::Result<u64>;
}

/// One open file. All calls may run at the same time from several threads.
#[expect(clippy::len_without_is_empty, reason = "a file is not a collection")]
pub trait StorageFile: Send + Sync {
    /// Its length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Reads at an offset; short at the end of the file only.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes the parts, one behind the other, at an offset. On an error an unknown part of them
    /// was written.
    fn write_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()>;

    /// Says whether a write may wait for the disk, however little it has. Else such a write returns
    /// at once, as far as the kernel can do that.
    fn may_wait(&self, _may: bool) {}

    /// Hands what was written to the operating system: from now on it survives this process. Until
    /// then a file that is written from front to back may keep it, and must not be read.
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    /// Makes what was written before it began durable, the length included. More may be written
    /// meanwhile.
    fn sync(&self) -> io::Result<()>;

    /// Cuts the file, or fills it with zeros, to this length.
    fn set_len(&self, bytes: u64) -> io::Result<()>;
}

/// Asks again a few times what fails, but for what is not there: a disk that stumbles once must not
/// make a file look damaged.
pub(crate) fn insist<T>(mut ask: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    const TRIES: usize = 3;
    for _ in 1..TRIES {
        match ask() {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {}
            answer => return answer,
        }
    }
    ask()
}
