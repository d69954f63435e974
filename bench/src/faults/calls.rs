//! The system calls that a store makes in its folder, and where each names the file that it is for.

use nix::libc;

/// The argument that names the file of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FileArgument {
    /// The address of a path.
    Path(usize),
    /// A descriptor.
    Descriptor(usize),
    /// The address of a path, or the descriptor before it where the path is empty.
    Either(usize),
}

/// A system call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SystemCall {
    pub(super) name: &'static str,
    number: libc::c_long,
    pub(super) at: FileArgument,
    /// True if it changes something: then it may fail after it has had its effect.
    pub(super) changes: bool,
    /// True if it writes as many bytes as its third argument says: then it may write half of them.
    pub(super) writes: bool,
}

const fn reads(name: &'static str, number: libc::c_long, at: FileArgument) -> SystemCall {
    SystemCall {
        name,
        number,
        at,
        changes: false,
        writes: false,
    }
}

const fn changes(name: &'static str, number: libc::c_long, at: FileArgument) -> SystemCall {
    SystemCall {
        changes: true,
        ..reads(name, number, at)
    }
}

const fn writes(name: &'static str, number: libc::c_long) -> SystemCall {
    SystemCall {
        changes: true,
        writes: true,
        ..reads(name, number, FileArgument::Descriptor(0))
    }
}

/// All that are watched for. What a store makes of them is seen in a run without faults
/// (`--list`).
pub(super) const CALLS: &[SystemCall] = &[
    reads("open", libc::SYS_open, FileArgument::Path(0)),
    reads("openat", libc::SYS_openat, FileArgument::Path(1)),
    reads("read", libc::SYS_read, FileArgument::Descriptor(0)),
    reads("pread64", libc::SYS_pread64, FileArgument::Descriptor(0)),
    reads("readv", libc::SYS_readv, FileArgument::Descriptor(0)),
    writes("write", libc::SYS_write),
    writes("pwrite64", libc::SYS_pwrite64),
    changes("writev", libc::SYS_writev, FileArgument::Descriptor(0)),
    changes("pwritev", libc::SYS_pwritev, FileArgument::Descriptor(0)),
    changes("fsync", libc::SYS_fsync, FileArgument::Descriptor(0)),
    changes(
        "fdatasync",
        libc::SYS_fdatasync,
        FileArgument::Descriptor(0),
    ),
    changes("link", libc::SYS_link, FileArgument::Path(0)),
    changes("linkat", libc::SYS_linkat, FileArgument::Path(1)),
    changes("rename", libc::SYS_rename, FileArgument::Path(0)),
    changes("renameat", libc::SYS_renameat, FileArgument::Path(1)),
    changes("renameat2", libc::SYS_renameat2, FileArgument::Path(1)),
    changes("unlink", libc::SYS_unlink, FileArgument::Path(0)),
    changes("unlinkat", libc::SYS_unlinkat, FileArgument::Path(1)),
    changes("mkdir", libc::SYS_mkdir, FileArgument::Path(0)),
    changes("mkdirat", libc::SYS_mkdirat, FileArgument::Path(1)),
    changes("rmdir", libc::SYS_rmdir, FileArgument::Path(0)),
    changes("truncate", libc::SYS_truncate, FileArgument::Path(0)),
    changes(
        "ftruncate",
        libc::SYS_ftruncate,
        FileArgument::Descriptor(0),
    ),
    changes(
        "fallocate",
        libc::SYS_fallocate,
        FileArgument::Descriptor(0),
    ),
    changes("chmod", libc::SYS_chmod, FileArgument::Path(0)),
    changes("fchmod", libc::SYS_fchmod, FileArgument::Descriptor(0)),
    changes("fchmodat", libc::SYS_fchmodat, FileArgument::Path(1)),
    changes("fchown", libc::SYS_fchown, FileArgument::Descriptor(0)),
    reads(
        "getdents64",
        libc::SYS_getdents64,
        FileArgument::Descriptor(0),
    ),
    reads("statx", libc::SYS_statx, FileArgument::Either(1)),
    reads("newfstatat", libc::SYS_newfstatat, FileArgument::Either(1)),
    reads("stat", libc::SYS_stat, FileArgument::Path(0)),
    reads("lstat", libc::SYS_lstat, FileArgument::Path(0)),
    reads("fstat", libc::SYS_fstat, FileArgument::Descriptor(0)),
    reads("statfs", libc::SYS_statfs, FileArgument::Path(0)),
    reads("fstatfs", libc::SYS_fstatfs, FileArgument::Descriptor(0)),
    reads("access", libc::SYS_access, FileArgument::Path(0)),
    reads("faccessat", libc::SYS_faccessat, FileArgument::Path(1)),
    reads("readlink", libc::SYS_readlink, FileArgument::Path(0)),
    reads("lseek", libc::SYS_lseek, FileArgument::Descriptor(0)),
    reads("fcntl", libc::SYS_fcntl, FileArgument::Descriptor(0)),
    changes("flock", libc::SYS_flock, FileArgument::Descriptor(0)),
    changes(
        "copy_file_range",
        libc::SYS_copy_file_range,
        FileArgument::Descriptor(2),
    ),
    changes("close", libc::SYS_close, FileArgument::Descriptor(0)),
];

/// The call of this number.
pub(super) fn of_number(number: u64) -> Option<&'static SystemCall> {
    let wanted = libc::c_long::try_from(number).ok()?;
    CALLS.iter().find(|call| call.number == wanted)
}
