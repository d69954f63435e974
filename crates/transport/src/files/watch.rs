//! Notices of the kernel about folders and files (`inotify(7)`), by one instance.
//!
//! # What it guarantees
//! * Nothing here waits. The descriptor wakes a `mio` poll.
//! * A used-up limit is a value ([`WatchRefusal::Full`], [`WatchRefusal::NoInstance`]) that says
//!   "poll this instead"; lost notices are an event ([`WatchEvent::Overflow`]).
//! * A number of a watch is not used again until 2^31 were given, so late notices of a removed
//!   watch are told by it.
//!
//! # Limits
//! Watches: `fs.inotify.max_user_watches`, about 1 KiB of kernel memory each, for all programs of
//! the user together; [`InotifyWatcher::new`] can leave some to them. Queued notices:
//! `fs.inotify.max_queued_events`, 16,384. A read returns at most those in `BUFFER_BYTES`.
//!
//! # After a crash
//! The kernel drops all watches with the descriptor.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use mio::event::Source;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::fs::inotify::{CreateFlags, Event, ReadFlags, Reader, WatchFlags};
use rustix::fs::inotify::{add_watch, init, remove_watch};
use rustix::io::Errno;

use super::tail_file::descriptor_path;

/// Bytes of notices that one read takes: between 234 with the longest names and 4,096 without.
const BUFFER_BYTES: usize = 64 << 10;

/// Number of a watch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct WatchNumber(i32);

/// A reason why something is not watched.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WatchRefusal {
    /// The watches of the user, or those that this program may have, are used up: poll it.
    Full,
    /// The instances of the user are used up: poll all.
    NoInstance,
    /// Nothing has this name now, or it is no folder.
    Gone,
    /// No permission to read it.
    Denied,
    /// The file system brings no notices of changes: poll it.
    Unnoticed,
    /// Another error of the system: poll it.
    Failed(io::ErrorKind),
}

impl fmt::Display for WatchRefusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => out.write_str(
                "the limit of watches is reached: raise fs.inotify.max_user_watches by sysctl",
            ),
            Self::NoInstance => out.write_str(
                "the limit of inotify instances is reached: raise fs.inotify.max_user_instances \
                 by sysctl",
            ),
            Self::Gone => out.write_str("it does not exist"),
            Self::Denied => out.write_str("the permission to read it is missing"),
            Self::Unnoticed => out.write_str("its file system does not notify of changes"),
            Self::Failed(kind) => write!(out, "the system says: {kind}"),
        }
    }
}

impl std::error::Error for WatchRefusal {}

impl From<Errno> for WatchRefusal {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOSPC => Self::Full,
            Errno::MFILE | Errno::NFILE => Self::NoInstance,
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Self::Gone,
            Errno::ACCESS | Errno::PERM => Self::Denied,
            error => Self::Failed(io::Error::from(error).kind()),
        }
    }
}

/// A notice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WatchEvent {
    /// A name came into a folder: made there, or linked to.
    Created(WatchNumber, OsString),
    /// A name left a folder by a rename; the same cookie is in the [`WatchEvent::MovedIn`] of its
    /// new place, where that is watched.
    MovedOut(WatchNumber, OsString, u32),
    /// A name came into a folder by a rename.
    MovedIn(WatchNumber, OsString, u32),
    /// A name was removed from a folder.
    Deleted(WatchNumber, OsString),
    /// The content of a file changed.
    Modified(WatchNumber),
    /// Attributes of a file changed: also the number of its names.
    Attributes(WatchNumber),
    /// A watched file or folder was renamed.
    SelfMoved(WatchNumber),
    /// The watch is gone: its file or folder was deleted or unmounted, or the watch was removed.
    Ended(WatchNumber),
    /// Notices were lost: nothing is known of what changed.
    Overflow,
}

/// One instance of inotify.
pub struct InotifyWatcher {
    inotify: OwnedFd,
    buffer: Box<[MaybeUninit<u8>]>,
    watches: HashSet<WatchNumber>,
    watches_max: usize,
}

impl InotifyWatcher {
    /// Opens an instance, for at most `watches_max` watches.
    ///
    /// # Errors
    /// [`WatchRefusal::NoInstance`], or a failure of the system.
    pub fn new(watches_max: usize) -> Result<Self, WatchRefusal> {
        Ok(Self {
            inotify: init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?,
            buffer: vec![MaybeUninit::uninit(); BUFFER_BYTES].into_boxed_slice(),
            watches: HashSet::new(),
            watches_max,
        })
    }

    /// Watches a folder for names that come and go; links are followed. A folder that is watched
    /// already has the same number.
    ///
    /// # Errors
    /// A named reason.
    pub fn watch_folder(&mut self, folder: &Path) -> Result<WatchNumber, WatchRefusal> {
        let names =
            WatchFlags::CREATE | WatchFlags::MOVED_FROM | WatchFlags::MOVED_TO | WatchFlags::DELETE;
        let own = WatchFlags::MOVE_SELF | WatchFlags::DELETE_SELF;
        self.add(folder, names | own | WatchFlags::ONLYDIR)
    }

    /// Watches an open file for changes: exactly this inode, whatever has its name now. A file that
    /// is watched already has the same number.
    ///
    /// # Errors
    /// A named reason; [`WatchRefusal::Gone`] without `/proc`.
    pub fn watch_file(&mut self, file: impl AsFd) -> Result<WatchNumber, WatchRefusal> {
        let flags = WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::MOVE_SELF
            | WatchFlags::DELETE_SELF;
        self.add(&descriptor_path(file), flags)
    }

    fn add(&mut self, path: &Path, flags: WatchFlags) -> Result<WatchNumber, WatchRefusal> {
        let number = WatchNumber(add_watch(&self.inotify, path, flags)?);
        if self.watches.len() >= self.watches_max && !self.watches.contains(&number) {
            let _ = remove_watch(&self.inotify, number.0);
            return Err(WatchRefusal::Full);
        }
        self.watches.insert(number);
        Ok(number)
    }

    /// Removes a watch. Notices of it that the kernel has queued still come.
    pub fn remove(&mut self, number: WatchNumber) {
        if self.watches.remove(&number) {
            // It fails where the kernel removed it first.
            let _ = remove_watch(&self.inotify, number.0);
        }
    }

    /// Watches that exist.
    pub fn watches(&self) -> usize {
        self.watches.len()
    }

    /// Appends the notices of one read to `events`. Returns false if there are none now.
    ///
    /// # Errors
    /// `read(2)`.
    pub fn read(&mut self, events: &mut Vec<WatchEvent>) -> io::Result<bool> {
        let mut reader = Reader::new(&self.inotify, &mut self.buffer);
        loop {
            match reader.next() {
                Ok(event) => push_event(&event, events),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
            if reader.is_buffer_empty() {
                break;
            }
        }
        for event in events.iter() {
            if let WatchEvent::Ended(number) = event {
                self.watches.remove(number);
            }
        }
        Ok(true)
    }
}

/// Translates one notice. More than one bit is set only for `IN_ISDIR`.
fn push_event(event: &Event<'_>, events: &mut Vec<WatchEvent>) {
    let flags = event.events();
    let number = WatchNumber(event.wd());
    let name = || {
        let bytes = event.file_name().map_or(&[][..], |name| name.to_bytes());
        OsStr::from_bytes(bytes).to_owned()
    };
    events.push(match () {
        () if flags.contains(ReadFlags::QUEUE_OVERFLOW) => WatchEvent::Overflow,
        () if flags.contains(ReadFlags::MODIFY) => WatchEvent::Modified(number),
        () if flags.contains(ReadFlags::CREATE) => WatchEvent::Created(number, name()),
        () if flags.contains(ReadFlags::DELETE) => WatchEvent::Deleted(number, name()),
        () if flags.contains(ReadFlags::MOVED_FROM) => {
            WatchEvent::MovedOut(number, name(), event.cookie())
        }
        () if flags.contains(ReadFlags::MOVED_TO) => {
            WatchEvent::MovedIn(number, name(), event.cookie())
        }
        () if flags.contains(ReadFlags::ATTRIB) => WatchEvent::Attributes(number),
        () if flags.contains(ReadFlags::MOVE_SELF) => WatchEvent::SelfMoved(number),
        () if flags.contains(ReadFlags::IGNORED) => WatchEvent::Ended(number),
        // IN_DELETE_SELF and IN_UNMOUNT: IN_IGNORED follows.
        () => return,
    });
}

impl AsFd for InotifyWatcher {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

impl Source for InotifyWatcher {
    fn register(&mut self, to: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        SourceFd(&self.inotify.as_raw_fd()).register(to, token, interest)
    }

    fn reregister(&mut self, to: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        SourceFd(&self.inotify.as_raw_fd()).reregister(to, token, interest)
    }

    fn deregister(&mut self, from: &Registry) -> io::Result<()> {
        SourceFd(&self.inotify.as_raw_fd()).deregister(from)
    }
}

#[cfg(test)]
mod tests;
