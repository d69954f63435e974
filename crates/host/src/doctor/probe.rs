//! Probe of the disk below the data directory: its room, and the time that it takes to keep
//! something for good.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::finding::total;

/// Writes that are synced, one after the other. With a slow disk of 50 ms each it takes 0.8 s.
const SYNCS: usize = 16;

/// Bytes of each: a page, what a small group commit writes.
const SYNC_BYTES: usize = 4096;

/// The disk below the data directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct DiskProbe {
    /// The folder that was looked at: the data directory, or the nearest above it that exists.
    pub(super) folder: PathBuf,
    /// Bytes that we may still write and bytes in all; `None` if the system does not say.
    pub(super) space: Option<FreeSpace>,
    /// Bytes that the queue has taken already.
    pub(super) queue_bytes: u64,
    /// Time that each write and sync took, sorted; or the reason that none was tried.
    pub(super) syncs: Result<Vec<Duration>, String>,
}

/// Room on a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FreeSpace {
    /// Bytes that we may still write.
    pub(super) free_bytes: u64,
    /// Bytes in all.
    pub(super) total_bytes: u64,
}

/// Looks at the disk; writes and removes one file of 64 KiB if the data directory is there.
pub(super) fn disk(data_dir: &Path) -> DiskProbe {
    let absolute = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_owned());
    let nearest = absolute.ancestors().find(|folder| folder.is_dir());
    let folder = nearest.unwrap_or(Path::new("/"));
    // The mount is found by the folder's true path.
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    DiskProbe {
        space: space(&folder),
        queue_bytes: bytes_in(&absolute.join("queue")),
        syncs: if absolute.is_dir() {
            syncs(&folder).map_err(|error| error.to_string())
        } else {
            Err("the data directory is not there yet".to_owned())
        },
        folder,
    }
}

/// Bytes that we may still write to the file system of a folder; `None` if it does not say.
pub fn free_bytes(folder: &Path) -> Option<u64> {
    space(folder).map(|space| space.free_bytes)
}

/// Bytes in all of the file system of a folder, or of the nearest above it that exists; `None` if
/// it does not say.
pub fn total_bytes(folder: &Path) -> Option<u64> {
    space(&nearest(folder)?).map(|space| space.total_bytes)
}

/// The number of the file system (`st_dev`) of a folder, or of the nearest above it that exists.
pub fn device(folder: &Path) -> Option<u64> {
    Some(fs::metadata(nearest(folder)?).ok()?.dev())
}

/// A folder, or the nearest above it that exists.
fn nearest(folder: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(folder).ok()?;
    let mut above = absolute.ancestors();
    above.find(|folder| folder.is_dir()).map(Path::to_owned)
}

fn space(folder: &Path) -> Option<FreeSpace> {
    let stat = rustix::fs::statvfs(folder).ok()?;
    Some(FreeSpace {
        free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
        total_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
    })
}

/// Bytes of the files in a folder, not of those in folders below it.
fn bytes_in(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    let bytes = entries.filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len()));
    total(bytes)
}

fn syncs(folder: &Path) -> io::Result<Vec<Duration>> {
    let path = folder.join(format!(".doctor-sync-{}", std::process::id()));
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)?;
    let taken = time_syncs(file);
    fs::remove_file(&path)?;
    taken
}

fn time_syncs(mut file: File) -> io::Result<Vec<Duration>> {
    let page = [0x5a; SYNC_BYTES];
    let mut taken = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let begin = Instant::now();
        file.write_all(&page)?;
        file.sync_data()?;
        taken.push(begin.elapsed());
    }
    taken.sort_unstable();
    Ok(taken)
}

/// The tag of the page size in the auxiliary vector (getauxval(3), `AT_PAGESZ`).
const AT_PAGESZ: usize = 6;

/// Bytes of a page of memory, as the kernel told this process; 4,096 if that cannot be read.
pub(super) fn page_bytes() -> u64 {
    const WORD: usize = size_of::<usize>();
    let vector = std::fs::read("/proc/self/auxv").unwrap_or_default();
    let word = |bytes: &[u8]| <[u8; WORD]>::try_from(bytes).map_or(0, usize::from_ne_bytes);
    let mut pairs = vector
        .chunks_exact(2 * WORD)
        .map(|pair| pair.split_at(WORD));
    let found = pairs.find(|(tag, _)| word(tag) == AT_PAGESZ);
    found.map_or(4096, |(_, value)| word(value) as u64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_tried_out_and_left_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("queue")).unwrap();
        fs::write(dir.path().join("queue/1.seg"), [0; 1000]).unwrap();
        let disk = disk(dir.path());
        assert_eq!(disk.syncs.as_ref().map(Vec::len), Ok(SYNCS));
        assert!(disk.syncs.unwrap().is_sorted());
        assert_eq!(disk.queue_bytes, 1000);
        assert!(disk.space.unwrap().total_bytes > 0);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_is_not_there_is_not_made() {
        let dir = tempfile::tempdir().unwrap();
        let disk = disk(&dir.path().join("not/yet"));
        assert_eq!(disk.folder, fs::canonicalize(dir.path()).unwrap());
        assert!(disk.space.is_some() && disk.syncs.is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
