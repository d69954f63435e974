//! One open file: appended to, cut back after a failed write, synced, rotated.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use inrush_event::Timestamp;
use inrush_files::{Access, Tightened};

use super::tidy;

/// A file that events are appended to.
pub(super) struct OpenFile {
    path: PathBuf,
    file: File,
    /// Set while the file is known to end in bytes of a failed write, which could not be cut off.
    cut_to: Option<u64>,
    /// Whether it had a name when it was opened: a memory file never has one.
    named: bool,
    /// Written since the last sync.
    dirty: bool,
    /// The number of the rotation period that its content belongs to.
    period: i64,
    /// The batch count at its last use, for closing the least recently used one.
    pub(super) last_used: u64,
}

impl OpenFile {
    /// Opens or creates the file and its folders. A last line that a crash tore is ended; what
    /// `access` does not allow is taken from a file of ours, and noted in `tightened`.
    pub(super) fn open(
        path: &Path,
        every: Option<Duration>,
        now: Timestamp,
        access: &Access,
        tightened: &mut Tightened,
    ) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.append(true).read(true);
        let file = match inrush_files::open(path, &options, access) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(folder) = path.parent() {
                    inrush_files::create_dir_all(folder, access)?;
                }
                inrush_files::open(path, &options, access)?
            }
            opened => opened?,
        };
        let metadata = file.metadata()?;
        tightened.one(path, &metadata, access);
        let mut open = Self {
            path: path.to_owned(),
            file,
            cut_to: None,
            named: metadata.nlink() > 0,
            dirty: false,
            period: period(now, every),
            last_used: 0,
        };
        if metadata.is_file() && metadata.len() > 0 {
            open.end_torn_line(metadata.len())?;
            let modified = metadata
                .modified()?
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            open.period = period(Timestamp(modified.as_nanos() as i64), every);
        }
        Ok(open)
    }

    fn end_torn_line(&mut self, len: u64) -> io::Result<()> {
        let mut last = [0];
        self.file.read_exact_at(&mut last, len - 1)?;
        if last != *b"\n" {
            self.append(b"\n", false)
        } else {
            Ok(())
        }
    }

    /// Whether these bytes belong into a new file.
    pub(super) fn is_due(
        &self,
        more: usize,
        max_bytes: Option<u64>,
        every: Option<Duration>,
        now: Timestamp,
    ) -> io::Result<bool> {
        let len = self.file.metadata()?.len();
        let full = max_bytes.is_some_and(|max| len + more as u64 > max);
        let late = every.is_some() && period(now, every) != self.period;
        Ok(len > 0 && (full || late))
    }

    /// Appends all of the bytes or none: after an error, what was written is cut off, at the
    /// latest before the next append.
    pub(super) fn append(&mut self, bytes: &[u8], sync: bool) -> io::Result<()> {
        if let Some(len) = self.cut_to {
            self.file.set_len(len)?;
            self.cut_to = None;
        }
        let metadata = self.file.metadata()?;
        let mut written = self.file.write_all(bytes);
        if written.is_ok() && sync {
            written = self.file.sync_data();
        }
        if written.is_ok() && self.named && metadata.is_file() {
            self.still_there()?;
        }
        match written {
            Ok(()) => self.dirty = !sync,
            Err(_) if metadata.is_file() => {
                self.cut_to = Some(metadata.len());
                if self.file.set_len(metadata.len()).is_ok() {
                    self.cut_to = None;
                }
            }
            // A pipe or a device has no length to cut to.
            Err(_) => {}
        }
        written
    }

    /// What was written into a file without a name is gone when it is closed.
    fn still_there(&self) -> io::Result<()> {
        match self.file.metadata()?.nlink() {
            0 => Err(io::Error::new(
                io::ErrorKind::NotFound,
                "another program deleted it; what was just written is written again",
            )),
            _ => Ok(()),
        }
    }

    /// Whether nothing of a failed write is left in the file.
    pub(super) fn is_whole(&self) -> bool {
        self.cut_to.is_none()
    }

    /// Forces what was written to the disk.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if self.dirty {
            self.file.sync_data()?;
            self.dirty = false;
        }
        Ok(())
    }

    /// A second handle for whoever is to force what was written to the disk; `None` if there is
    /// nothing.
    pub(super) fn take_unsynced(&mut self) -> io::Result<Option<File>> {
        if !self.dirty {
            return Ok(None);
        }
        let handle = self.file.try_clone()?;
        self.dirty = false;
        Ok(Some(handle))
    }

    /// Ends the writing; gives the file back if something in it is not yet on the disk.
    pub(super) fn into_unsynced(self) -> Option<File> {
        self.dirty.then_some(self.file)
    }

    /// Whether the path still names this file: another program may have moved or deleted it.
    pub(super) fn is_in_place(&self) -> bool {
        let (Ok(ours), Ok(theirs)) = (self.file.metadata(), self.path.metadata()) else {
            return false;
        };
        (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino())
    }

    /// Gives the file its rotated name; the path is free then.
    pub(super) fn rotate(&self, now: Timestamp) -> io::Result<()> {
        std::fs::rename(&self.path, tidy::rotated_name(&self.path, now))
    }
}

fn period(at: Timestamp, every: Option<Duration>) -> i64 {
    let every_ns = every.map_or(i64::MAX, |every| {
        every.as_nanos().min(i64::MAX as u128) as i64
    });
    at.0.div_euclid(every_ns.max(1))
}
