//! Opening and reading a file that others write.
//!
//! # What it guarantees
//! * Only a regular file is opened for reading. The path is first opened without any access
//!   (`O_PATH`) and looked at; then the very same inode is opened by its descriptor. So a link that
//!   is changed in between leads nowhere: no FIFO waits, no device feels it, and no file outside of
//!   the allowed roots is read.
//! * An open file is read to its end even when it was deleted or renamed.
//!
//! # Limits
//! Without `/proc` the file is looked at before and after its opening by path: then a link that is
//! changed just in between can open, not read, something else.
//!
//! # After a crash
//! Nothing of it is kept.

use std::fmt;
use std::fs::{self, File, FileType};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, Mode, OFlags, SeekFrom};
use rustix::io::Errno;

/// Kind of a file that is none to read lines from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SpecialFile {
    /// A folder.
    Folder,
    /// A FIFO.
    Fifo,
    /// A socket.
    Socket,
    /// A character device, such as `/dev/zero`.
    CharacterDevice,
    /// A block device.
    BlockDevice,
}

impl SpecialFile {
    /// The kind of what is neither a regular file nor a link.
    pub fn of(kind: FileType) -> Option<Self> {
        match () {
            () if kind.is_dir() => Some(Self::Folder),
            () if kind.is_fifo() => Some(Self::Fifo),
            () if kind.is_socket() => Some(Self::Socket),
            () if kind.is_char_device() => Some(Self::CharacterDevice),
            () if kind.is_block_device() => Some(Self::BlockDevice),
            () => None,
        }
    }
}

/// A reason why a path is not followed, listed or read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PathRefusal {
    /// Nothing has this name now.
    Gone,
    /// A link whose target does not exist.
    Dangling,
    /// Links that lead to themselves or to a folder above.
    LinkLoop,
    /// More links to folders on the way than [`super::walk::LINKS_MAX`], or a path deeper than
    /// [`super::walk::DEPTH_MAX`].
    TooDeep,
    /// It is outside of the allowed roots, by a link.
    Outside {
        /// The place.
        target: PathBuf,
    },
    /// Not a regular file.
    Special(SpecialFile),
    /// No permission.
    Denied,
    /// No descriptor is left, in this process or in the system.
    NoDescriptor,
    /// More folders or names than the limit.
    TooMany,
    /// Another error of the system.
    Failed(io::ErrorKind),
}

impl fmt::Display for PathRefusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => out.write_str("it does not exist"),
            Self::Dangling => out.write_str("its link leads to nothing"),
            Self::LinkLoop => out.write_str("its links lead in a circle"),
            Self::TooDeep => out.write_str("it is behind too many folders or links"),
            Self::Outside { target } => write!(
                out,
                "its link leads outside of the allowed folders, to {target:?}: \
                 set `follow_outside` to read it"
            ),
            Self::Special(SpecialFile::Folder) => out.write_str("it is a folder"),
            Self::Special(SpecialFile::Fifo) => out.write_str("it is a FIFO"),
            Self::Special(SpecialFile::Socket) => out.write_str("it is a socket"),
            Self::Special(_) => out.write_str("it is a device"),
            Self::Denied => out.write_str("the permission to read it is missing"),
            Self::NoDescriptor => out.write_str("no file descriptor is left"),
            Self::TooMany => out.write_str("there are more than the limit"),
            Self::Failed(kind) => write!(out, "the system says: {kind}"),
        }
    }
}

impl std::error::Error for PathRefusal {}

impl From<io::Error> for PathRefusal {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT | Errno::NOTDIR) => Self::Gone,
            Some(Errno::ACCESS | Errno::PERM) => Self::Denied,
            Some(Errno::LOOP) => Self::LinkLoop,
            Some(Errno::MFILE | Errno::NFILE) => Self::NoDescriptor,
            _ => Self::Failed(error.kind()),
        }
    }
}

impl From<Errno> for PathRefusal {
    fn from(error: Errno) -> Self {
        io::Error::from(error).into()
    }
}

/// Folders that links may lead to.
#[derive(Clone, Debug, Default)]
pub struct AllowedRoots {
    roots: Vec<PathBuf>,
    everywhere: bool,
}

impl AllowedRoots {
    /// These folders and all below them; `everywhere`: no bound (`follow_outside`). A root that is
    /// a link counts as its target.
    pub fn new(roots: Vec<PathBuf>, everywhere: bool) -> Self {
        Self { roots, everywhere }
    }

    /// True if a path without links is within the roots, as they are now.
    pub fn allow(&self, real: &Path) -> bool {
        self.everywhere
            || self.roots.iter().any(|root| real.starts_with(root))
            || self
                .roots
                .iter()
                .any(|root| fs::canonicalize(root).is_ok_and(|root| real.starts_with(root)))
    }
}

/// Behaviour of a file system with inodes and notices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileSystemKind {
    /// Inode numbers last, and all writers are on this host.
    Local,
    /// overlayfs: inode numbers can change at a copy-up or a new mount; notices of changes come.
    Overlay,
    /// NFS, SMB, FUSE, 9p and their like: inode numbers can change, and no notice of a change
    /// comes from writers on other hosts.
    Remote,
}

impl FileSystemKind {
    /// The kind of the file system of a file.
    ///
    /// # Errors
    /// `fstatfs(2)`.
    pub fn of(file: impl AsFd) -> io::Result<Self> {
        Ok(Self::of_magic(rustix::fs::fstatfs(file)?.f_type as u32))
    }

    /// The kind of the file system of a path.
    ///
    /// # Errors
    /// `statfs(2)`.
    pub fn of_path(path: &Path) -> io::Result<Self> {
        Ok(Self::of_magic(rustix::fs::statfs(path)?.f_type as u32))
    }

    /// By the magic number (`linux/magic.h`, and the sources of the file systems).
    fn of_magic(magic: u32) -> Self {
        const OVERLAY: u32 = 0x794c_7630;
        // NFS, SMB (three), FUSE, 9p, Ceph, AFS (two), Coda, Lustre, OCFS2, GFS2, VirtualBox,
        // VMware, BeeGFS, GPFS, PanFS.
        const REMOTE: [u32; 18] = [
            0x6969,
            0x517b,
            0xff53_4d42,
            0xfe53_4d42,
            0x6573_5546,
            0x0102_1997,
            0x00c3_6400,
            0x5346_414f,
            0x6b41_4653,
            0x7375_7245,
            0x0bd0_0bd0,
            0x7461_636f,
            0x0116_1970,
            0x786f_4256,
            0xbacb_acbc,
            0x1983_0326,
            0x4750_4653,
            0xaad7_aaea,
        ];
        match magic {
            OVERLAY => Self::Overlay,
            magic if REMOTE.contains(&magic) => Self::Remote,
            _ => Self::Local,
        }
    }

    /// True if inode numbers can change: then the content decides
    /// ([`super::identity::FileIdentity::same_content`]).
    pub fn is_remote(self) -> bool {
        self != Self::Local
    }

    /// True if changes must be looked for, because no notice of them comes.
    pub fn needs_polling(self) -> bool {
        self == Self::Remote
    }
}

/// State of an open file at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileStatus {
    /// Bytes.
    pub len: u64,
    /// Names that it has; 0: deleted.
    pub links: u64,
    /// Last change of its content, nanoseconds since 1970.
    pub modified_ns: i128,
}

/// The next reads of a file, for the kernel's read-ahead and cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadAdvice {
    /// As the kernel sees fit: a live tail.
    Normal,
    /// From front to back: read-ahead is doubled.
    Sequential,
    /// These bytes of a backlog were read and are not needed again: their pages may go.
    Done {
        /// First byte.
        from: u64,
        /// Bytes.
        len: u64,
    },
}

/// A regular file, open for reading.
#[derive(Debug)]
pub struct TailFile {
    file: File,
}

impl TailFile {
    /// Opens a file: `O_RDONLY`, `O_NONBLOCK`, `O_NOCTTY`, `O_CLOEXEC`, and `O_NOATIME` where
    /// that is allowed (to the owner of the file and to root). Links are followed; the file itself
    /// has to be within the allowed roots.
    ///
    /// # Errors
    /// A named reason.
    pub fn open(path: &Path, roots: &AllowedRoots) -> Result<Self, PathRefusal> {
        let held = open_without_access(path)?;
        check_regular(&held)?;
        let by_descriptor = descriptor_path(&held);
        let (from, real) = match fs::read_link(&by_descriptor) {
            Ok(real) => (by_descriptor.as_path(), real),
            Err(_) => (path, fs::canonicalize(path)?),
        };
        if !roots.allow(&real) {
            return Err(PathRefusal::Outside { target: real });
        }
        let file = File::from(open_quietly(from)?);
        check_regular(&file)?;
        Ok(Self { file })
    }

    /// Reads bytes from an offset into `buf`; 0: there are none now. The offset of the descriptor
    /// is not moved.
    ///
    /// # Errors
    /// `pread(2)`.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            match self.file.read_at(buf, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    /// Length, names and last change, in one call.
    ///
    /// # Errors
    /// `fstat(2)`.
    pub fn status(&self) -> io::Result<FileStatus> {
        let found = self.file.metadata()?;
        let seconds = i128::from(found.mtime()) * 1_000_000_000;
        Ok(FileStatus {
            len: found.len(),
            links: found.nlink(),
            modified_ns: seconds + i128::from(found.mtime_nsec()),
        })
    }

    /// Bytes of the file.
    ///
    /// # Errors
    /// `fstat(2)`.
    pub fn len(&self) -> io::Result<u64> {
        Ok(self.status()?.len)
    }

    /// True if the file has no bytes.
    ///
    /// # Errors
    /// `fstat(2)`.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Names of the file; 0: it was deleted.
    ///
    /// # Errors
    /// `fstat(2)`.
    pub fn links(&self) -> io::Result<u64> {
        Ok(self.status()?.links)
    }

    /// Offset of the first byte at or after `offset` that is not in a hole; `None` where only a
    /// hole is left, or nothing. A file system without holes says `offset` itself.
    ///
    /// # Errors
    /// `lseek(2)`.
    pub fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        match rustix::fs::seek(&self.file, SeekFrom::Data(offset)) {
            Ok(data) => Ok(Some(data)),
            Err(Errno::NXIO) => Ok(None),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(Some(offset)),
            Err(error) => Err(error.into()),
        }
    }

    /// Advises the kernel. Nothing depends on it, so it cannot fail.
    pub fn advise(&self, advice: ReadAdvice) {
        let (offset, len, advice) = match advice {
            ReadAdvice::Normal => (0, 0, Advice::Normal),
            ReadAdvice::Sequential => (0, 0, Advice::Sequential),
            ReadAdvice::Done { len: 0, .. } => return,
            ReadAdvice::Done { from, len } => (from, len, Advice::DontNeed),
        };
        let _ = rustix::fs::fadvise(&self.file, offset, std::num::NonZeroU64::new(len), advice);
    }

    /// The file, for its identity.
    pub fn as_file(&self) -> &File {
        &self.file
    }
}

impl AsFd for TailFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The path by which an open descriptor can be opened again (`proc(5)`).
pub(super) fn descriptor_path(file: impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()))
}

fn check_regular(file: &File) -> Result<(), PathRefusal> {
    let kind = file.metadata()?.file_type();
    match SpecialFile::of(kind) {
        None if kind.is_file() => Ok(()),
        None => Err(PathRefusal::Failed(io::ErrorKind::Unsupported)),
        Some(special) => Err(PathRefusal::Special(special)),
    }
}

/// Opens what a path names to look at it, not to read it.
fn open_without_access(path: &Path) -> Result<File, PathRefusal> {
    match rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Ok(held) => Ok(File::from(held)),
        Err(Errno::NOENT) if fs::symlink_metadata(path).is_ok() => Err(PathRefusal::Dangling),
        Err(error) => Err(error.into()),
    }
}

fn open_quietly(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => rustix::fs::open(path, flags, Mode::empty()),
        opened => opened,
    }
}

#[cfg(test)]
mod tests;
