//! The folder on a real file system.

use std::fs::{self, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::uio::pwritev;

use super::direct::{DirectFile, SpareBuffer};
use super::{BLOCK_BYTES, Storage, StorageFile};

/// Files whose name ends so are written from front to back, and much of them.
const APPENDED: &str = ".seg";

/// A folder of the file system, created if it is not there.
pub struct DiskStorage {
    folder: PathBuf,
    /// Of the file that was appended to before.
    spare: SpareBuffer,
    /// True if nothing can be written through it.
    read_only: bool,
}

impl DiskStorage {
    /// Opens the folder; makes it if it is not there.
    ///
    /// # Errors
    /// It is not there and cannot be created.
    pub fn open(folder: &Path) -> io::Result<Self> {
        inrush_files::create_dir_all(folder, &inrush_files::own())?;
        Ok(Self {
            folder: folder.to_owned(),
            spare: SpareBuffer::default(),
            read_only: false,
        })
    }

    /// Opens the folder to be looked at: nothing can be written.
    ///
    /// # Errors
    /// It is not there, or not a folder.
    pub fn look_at(folder: &Path) -> io::Result<Self> {
        fs::read_dir(folder)?;
        Ok(Self {
            folder: folder.to_owned(),
            spare: SpareBuffer::default(),
            read_only: true,
        })
    }

    fn writable(&self) -> io::Result<()> {
        match self.read_only {
            true => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
            false => Ok(()),
        }
    }

    fn file(&self, name: &str, options: &mut OpenOptions) -> io::Result<Arc<dyn StorageFile>> {
        let file = regular(
            options.read(true).write(!self.read_only),
            &self.folder.join(name),
        )?;
        Ok(Arc::new(DiskFile { file, direct: None }))
    }
}

impl DiskStorage {
    fn past_cache(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let file = options.open(self.folder.join(name))?;
        options.custom_flags(OFlag::O_DIRECT.bits());
        let direct = options.open(self.folder.join(name))?;
        let spare = Arc::clone(&self.spare);
        Ok(Arc::new(DirectFile::new(file, direct, spare)))
    }
}

impl Storage for DiskStorage {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.extend(entry.file_name().into_string());
            }
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        self.writable()?;
        let path = self.folder.join(name);
        let options = OpenOptions::new().read(true).write(true).clone();
        let file = inrush_files::create_new(&path, &options, &inrush_files::own())?;
        let file: Arc<dyn StorageFile> = Arc::new(DiskFile { file, direct: None });
        if !name.ends_with(APPENDED) {
            return Ok(file);
        }
        // Not every file system can do without the page cache; then it goes through it.
        Ok(self.past_cache(name).unwrap_or(file))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        if !name.ends_with(APPENDED) {
            return self.file(name, &mut OpenOptions::new());
        }
        let path = self.folder.join(name);
        let mut options = OpenOptions::new();
        let file = regular(options.read(true).write(!self.read_only), &path)?;
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(OFlag::O_DIRECT.bits());
        let direct = options.open(&path).ok();
        Ok(Arc::new(DiskFile { file, direct }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.writable()?;
        fs::remove_file(self.folder.join(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.writable()?;
        let to = self.folder.join(to);
        if let Some(parent) = to.parent() {
            inrush_files::create_dir_all(parent, &inrush_files::own())?;
        }
        fs::rename(self.folder.join(from), to)
    }

    fn sync_names(&self) -> io::Result<()> {
        fs::File::open(&self.folder)?.sync_all()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let stat = nix::sys::statvfs::statvfs(&self.folder)?;
        Ok(stat.blocks_available() * stat.fragment_size())
    }

    fn total_bytes(&self) -> io::Result<u64> {
        let stat = nix::sys::statvfs::statvfs(&self.folder)?;
        Ok(stat.blocks() * stat.fragment_size())
    }
}

/// Opens what must be a file: a pipe in its place would be waited for.
fn regular(options: &mut OpenOptions, path: &Path) -> io::Result<fs::File> {
    let file = options.custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} is no regular file", path.display()),
        )),
    }
}

/// Reads until the buffer is full or the file ends.
pub(super) fn read_at(file: &fs::File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match file.read_at(&mut buffer[read..], offset + read as u64) {
            Ok(0) => break,
            Ok(n) => read += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

/// Pieces that the kernel takes in a call (`IOV_MAX`).
const PIECES_MAX: usize = 1024;

/// Writes all pieces, in as few calls as the kernel lets. Each call has to end on a multiple of
/// `unit` bytes: one that does not has met the end of the disk.
pub(super) fn write_pieces(
    file: &fs::File,
    mut left: &mut [IoSlice<'_>],
    mut offset: u64,
    unit: usize,
) -> io::Result<()> {
    // What is empty would look like a device that takes nothing.
    IoSlice::advance_slices(&mut left, 0);
    while !left.is_empty() {
        let pieces = &left[..left.len().min(PIECES_MAX)];
        let asked = pieces.iter().map(|piece| piece.len()).sum();
        match pwritev(file, pieces, offset as i64) {
            Ok(written) => {
                let written = believed(written, asked, unit)?;
                IoSlice::advance_slices(&mut left, written);
                offset += written as u64;
            }
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The bytes that a call has written which was asked to write `asked`, if that can be.
fn believed(written: usize, asked: usize, unit: usize) -> io::Result<usize> {
    if written > asked {
        let message = format!("{written} bytes were written of {asked}");
        return Err(io::Error::other(message));
    }
    match written == 0 || !written.is_multiple_of(unit) {
        true => Err(io::ErrorKind::StorageFull.into()),
        false => Ok(written),
    }
}

/// Whole blocks that are read past the page cache, for a lagging destination reads each byte once:
/// 0.2 CPU-µs less for an event of 800 B. Less than that is read through the cache.
const DIRECT_BYTES_MIN: usize = 64 * 1024;

/// Reads as many whole blocks as can be read past the page cache, into memory that lies on blocks;
/// says how many bytes that were.
fn read_blocks(file: &fs::File, buffer: &mut [u8], offset: u64) -> usize {
    let whole = buffer.len() - buffer.len() % BLOCK_BYTES;
    let on_blocks = offset.is_multiple_of(BLOCK_BYTES as u64)
        && buffer.as_ptr().addr().is_multiple_of(BLOCK_BYTES);
    if !on_blocks || whole < DIRECT_BYTES_MIN {
        return 0;
    }
    file.read_at(&mut buffer[..whole], offset).unwrap_or(0)
}

struct DiskFile {
    file: fs::File,
    /// The same one past the page cache, where much is read.
    direct: Option<fs::File>,
}

impl StorageFile for DiskFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let direct = self.direct.as_ref();
        let read = direct.map_or(0, |direct| read_blocks(direct, buffer, offset));
        Ok(read + read_at(&self.file, &mut buffer[read..], offset + read as u64)?)
    }

    fn write_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        write_pieces(&self.file, &mut slices, offset, 1)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_of_more_than_was_asked_for_is_an_error_and_no_panic() {
        let kind = |written, asked, unit| believed(written, asked, unit).map_err(|e| e.kind());
        assert_eq!(kind(4, 4, 1), Ok(4));
        assert_eq!(kind(3, 4, 1), Ok(3));
        assert_eq!(kind(0, 4, 1), Err(io::ErrorKind::StorageFull));
        assert_eq!(kind(3, 8, 4), Err(io::ErrorKind::StorageFull));
        assert_eq!(kind(4096, 28, 1), Err(io::ErrorKind::Other));
    }
}
