//! Identity of a file over renames, truncations and restarts.
//!
//! # What it guarantees
//! * A file keeps its identity while it grows and while it is renamed.
//! * An inode that was given to a new file is told from the old one: by the time of birth, the
//!   inode's generation or the first bytes, whichever the file system has. Only a new file that
//!   begins with the same bytes on a file system without birth and generation is not.
//! * Files that begin alike are different files while their inodes differ.
//!
//! # Encoding
//! [`FileIdentity::push_to`], 44 bytes, little-endian:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | version, 1 |
//! | 1 | 1 | flags: 1 birth is known, 2 generation is known |
//! | 2 | 8 | major and minor number of the device, 4 bytes each |
//! | 10 | 8 | inode |
//! | 18 | 8 | birth, nanoseconds since 1970, or 0 |
//! | 26 | 4 | generation, or 0 |
//! | 30 | 2 | bytes of the head |
//! | 32 | 4 | CRC-32C of the head |
//! | 36 | 4 | zero |
//! | 40 | 4 | CRC-32C of the 40 bytes before |
//!
//! # Limits
//! Head: 1,024 bytes ([`HEAD_BYTES_MAX`]). A decoder reads 44 bytes and nothing else.
//!
//! # After a crash
//! An identity that was taken before is compared with the file that is there now:
//! [`FileIdentity::matches`].

use std::fmt;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::raw::c_long;
use std::os::unix::fs::{FileExt, MetadataExt};

use inrush_event::crc32c;
use rustix::fs::{AtFlags, Statx, StatxFlags};

/// Bytes of the beginning of a file that count as its head, at most.
pub const HEAD_BYTES_MAX: usize = 1024;

/// Bytes of an encoded identity.
pub const IDENTITY_BYTES: usize = 44;

const VERSION: u8 = 1;
const FLAG_BIRTH: u8 = 1;
const FLAG_GENERATION: u8 = 2;

/// First bytes of a file at the moment when they were read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct FileHead {
    /// Bytes: those that the file had, [`HEAD_BYTES_MAX`] at most.
    pub len: u16,
    /// Their CRC-32C.
    pub sum: u32,
}

impl FileHead {
    /// The head of bytes that a file begins with.
    pub fn of(bytes: &[u8]) -> Self {
        let bytes = bytes.get(..HEAD_BYTES_MAX).unwrap_or(bytes);
        Self {
            len: bytes.len() as u16,
            sum: crc32c(bytes),
        }
    }

    /// True if `bytes`, which a file begins with, begin with this head.
    pub fn begins(&self, bytes: &[u8]) -> bool {
        bytes
            .get(..usize::from(self.len))
            .is_some_and(|head| crc32c(head) == self.sum)
    }
}

/// Inode of a file system that is mounted now: the key of a table of open files.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct InodeKey {
    /// Major and minor number of the device (`statx(2)`).
    pub device: (u32, u32),
    /// Number of the inode.
    pub inode: u64,
}

impl InodeKey {
    /// The inode that a file was found under when it was looked at.
    pub fn of(found: &Metadata) -> Self {
        Self {
            device: (
                rustix::fs::major(found.dev()),
                rustix::fs::minor(found.dev()),
            ),
            inode: found.ino(),
        }
    }
}

/// Identity of a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FileIdentity {
    /// Device and inode.
    pub key: InodeKey,
    /// Birth in nanoseconds since 1970, where the file system keeps it (`STATX_BTIME`).
    pub birth_ns: Option<i64>,
    /// Generation of the inode, where the file system has it (`FS_IOC_GETVERSION`).
    pub generation: Option<u32>,
    /// The first bytes when the identity was taken.
    pub head: FileHead,
}

/// Result of a comparison of a known identity with a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdentityMatch {
    /// The same file, which still begins as it did.
    Same,
    /// The same file by inode, birth and head, on a device with another number. So it is after a
    /// boot that numbered devices anew; so is a snapshot that is mounted beside its origin.
    OtherDevice,
    /// The same inode, which no longer begins as it did: truncated or written over in place.
    Rewritten,
    /// Another file.
    Other,
}

/// A reason why bytes are no identity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdentityFault {
    /// Fewer than [`IDENTITY_BYTES`].
    Short,
    /// Of a version, or with flags, that this program does not know.
    Unknown,
    /// Its checksum does not fit.
    Damaged,
    /// A head longer than [`HEAD_BYTES_MAX`].
    Head,
}

impl fmt::Display for IdentityFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Short => "the identity of the file is cut",
            Self::Unknown => "the identity of the file is of a newer version",
            Self::Damaged => "the identity of the file does not fit its checksum",
            Self::Head => "the identity of the file has a head that is too long",
        })
    }
}

impl std::error::Error for IdentityFault {}

impl FileIdentity {
    /// The identity of an open file, with the head that it has now.
    ///
    /// # Errors
    /// `statx(2)`, `pread(2)`.
    pub fn of(file: &File) -> io::Result<Self> {
        let mut head = [0; HEAD_BYTES_MAX];
        let len = read_head(file, &mut head)?;
        Self::with_head(file, FileHead::of(head.get(..len).unwrap_or(&[])))
    }

    fn with_head(file: &File, head: FileHead) -> io::Result<Self> {
        let stat = rustix::fs::statx(
            file,
            c"",
            AtFlags::EMPTY_PATH,
            StatxFlags::BASIC_STATS | StatxFlags::BTIME,
        )?;
        Ok(Self {
            key: InodeKey {
                device: (stat.stx_dev_major, stat.stx_dev_minor),
                inode: stat.stx_ino,
            },
            birth_ns: birth_ns(&stat),
            generation: inode_generation(file),
            head,
        })
    }

    /// Compares this identity, taken before, with a file. A head that grew is the same head.
    ///
    /// # Errors
    /// `statx(2)`, `pread(2)`.
    pub fn matches(&self, file: &File) -> io::Result<IdentityMatch> {
        let mut bytes = [0; HEAD_BYTES_MAX];
        let len = read_head(file, &mut bytes)?;
        let begins = self.head.begins(bytes.get(..len).unwrap_or(&[]));
        Ok(self.compare(&Self::with_head(file, self.head)?, begins))
    }

    /// The comparison of [`FileIdentity::matches`]; `begins`: the file begins with this head.
    fn compare(&self, now: &Self, begins: bool) -> IdentityMatch {
        let same_inode = self.key.inode == now.key.inode
            && equal_where_known(self.birth_ns, now.birth_ns)
            && equal_where_known(self.generation, now.generation);
        if !same_inode {
            return IdentityMatch::Other;
        }
        match (self.key.device == now.key.device, begins) {
            (true, true) => IdentityMatch::Same,
            (true, false) => IdentityMatch::Rewritten,
            (false, true) if self.is_distinct() && now.is_distinct() => IdentityMatch::OtherDevice,
            (false, _) => IdentityMatch::Other,
        }
    }

    /// True if birth and head are there, so that inode and device are not all that tells it.
    fn is_distinct(&self) -> bool {
        self.birth_ns.is_some() && self.head.len > 0
    }

    /// True if the file begins with the head of this identity, which has at least one byte: all
    /// there is to go by where inode numbers change ([`FileSystemKind::Remote`], `Overlay`).
    ///
    /// [`FileSystemKind::Remote`]: super::tail_file::FileSystemKind::Remote
    ///
    /// # Errors
    /// `pread(2)`.
    pub fn same_content(&self, file: &File) -> io::Result<bool> {
        let mut bytes = [0; HEAD_BYTES_MAX];
        let len = read_head(file, &mut bytes)?;
        Ok(self.head.len > 0 && self.head.begins(bytes.get(..len).unwrap_or(&[])))
    }

    /// Appends the encoded identity: [`IDENTITY_BYTES`].
    pub fn push_to(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        let birth = self.birth_ns.map_or(0, |_| FLAG_BIRTH);
        let generation = self.generation.map_or(0, |_| FLAG_GENERATION);
        out.extend_from_slice(&[VERSION, birth | generation]);
        out.extend_from_slice(&self.key.device.0.to_le_bytes());
        out.extend_from_slice(&self.key.device.1.to_le_bytes());
        out.extend_from_slice(&self.key.inode.to_le_bytes());
        out.extend_from_slice(&self.birth_ns.unwrap_or(0).to_le_bytes());
        out.extend_from_slice(&self.generation.unwrap_or(0).to_le_bytes());
        out.extend_from_slice(&self.head.len.to_le_bytes());
        out.extend_from_slice(&self.head.sum.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        let sum = crc32c(out.get(begin..).unwrap_or(&[]));
        out.extend_from_slice(&sum.to_le_bytes());
    }

    /// Reads an identity from the first [`IDENTITY_BYTES`] of `bytes`.
    ///
    /// # Errors
    /// They are none, or of a newer version.
    pub fn decode(bytes: &[u8]) -> Result<Self, IdentityFault> {
        let (bytes, _) = bytes
            .split_first_chunk::<IDENTITY_BYTES>()
            .ok_or(IdentityFault::Short)?;
        let [version, flags, ..] = *bytes;
        if version != VERSION || flags & !(FLAG_BIRTH | FLAG_GENERATION) != 0 {
            return Err(IdentityFault::Unknown);
        }
        let (body, sum) = bytes.split_at(IDENTITY_BYTES - 4);
        if crc32c(body).to_le_bytes() != sum {
            return Err(IdentityFault::Damaged);
        }
        let birth_ns = i64::from_le_bytes(array_at(bytes, 18));
        let generation = u32::from_le_bytes(array_at(bytes, 26));
        let head = FileHead {
            len: u16::from_le_bytes(array_at(bytes, 30)),
            sum: u32::from_le_bytes(array_at(bytes, 32)),
        };
        if usize::from(head.len) > HEAD_BYTES_MAX {
            return Err(IdentityFault::Head);
        }
        Ok(Self {
            key: InodeKey {
                device: (
                    u32::from_le_bytes(array_at(bytes, 2)),
                    u32::from_le_bytes(array_at(bytes, 6)),
                ),
                inode: u64::from_le_bytes(array_at(bytes, 10)),
            },
            birth_ns: (flags & FLAG_BIRTH != 0).then_some(birth_ns),
            generation: (flags & FLAG_GENERATION != 0).then_some(generation),
            head,
        })
    }
}

/// Values that differ only where both are known: a kernel or a mount may begin to have one.
fn equal_where_known<T: PartialEq>(known: Option<T>, now: Option<T>) -> bool {
    match (known, now) {
        (Some(known), Some(now)) => known == now,
        _ => true,
    }
}

/// `N` bytes at an offset that the caller knows to be within the encoding.
fn array_at<const N: usize>(bytes: &[u8; IDENTITY_BYTES], at: usize) -> [u8; N] {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    field.copied().unwrap_or([0; N])
}

/// Reads the beginning of a file; returns the bytes that it had.
fn read_head(file: &File, head: &mut [u8; HEAD_BYTES_MAX]) -> io::Result<usize> {
    let mut len = 0;
    while let Some(room) = head.get_mut(len..).filter(|room| !room.is_empty()) {
        match file.read_at(room, len as u64) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

/// Birth in nanoseconds since 1970; none where the file system does not keep it, or has one that
/// is further away than 292 years.
fn birth_ns(stat: &Statx) -> Option<i64> {
    if stat.stx_mask & StatxFlags::BTIME.bits() == 0 {
        return None;
    }
    let seconds = stat.stx_btime.tv_sec.checked_mul(1_000_000_000)?;
    seconds.checked_add(i64::from(stat.stx_btime.tv_nsec))
}

/// `FS_IOC_GETVERSION` of an open file.
fn inode_generation(file: impl AsFd) -> Option<u32> {
    const GET_VERSION: rustix::ioctl::Opcode = rustix::ioctl::opcode::read::<c_long>(b'v', 1);
    // File systems write an `int`; FUSE writes as many bytes as the request names, a `long`.
    let mut answer: c_long = 0;
    // SAFETY: the request is one that every file may be asked, and answers with at most a `long`
    // at the address that it is given (linux/fs.h: `_IOR('v', 1, long)`).
    let asked = unsafe {
        let request = rustix::ioctl::Updater::<GET_VERSION, c_long>::new(&mut answer);
        rustix::ioctl::ioctl(file, request)
    };
    asked.ok()?;
    let bytes = answer.to_ne_bytes();
    bytes.first_chunk().copied().map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests;
