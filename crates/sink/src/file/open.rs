//! One open file: appended to, cut back after a failed write, synced, rotated.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use inrush_event::Timestamp;
use inrush_files::{Access, TightenReport};

use super::torn::FileEnd;
use super::{FileFormat, tidy};

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
    /// Folders whose entries may not be on the disk yet: the file's own, and those above folders
    /// that were created for it. After a power cut a synced file without its entry is gone.
    unsynced_folders: Vec<PathBuf>,
    /// The number of the rotation period that its content belongs to.
    period: i64,
    /// The batch count at its last use, for closing the least recently used one.
    pub(super) last_used: u64,
}

impl OpenFile {
    /// Opens or creates the file and its folders. A last line of ours that a crash tore is cut
    /// off, another one without an end gets one. What `access` does not allow is taken from a file
    /// of ours, and noted in `tightened`.
    pub(super) fn open(
        path: &Path,
        format: FileFormat,
        (every, now): (Option<Duration>, Timestamp),
        access: &Access,
        tightened: &mut TightenReport,
    ) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.append(true).read(true);
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let mut unsynced_folders: Vec<PathBuf> = folder.map(Path::to_owned).into_iter().collect();
        let file = match inrush_files::open(path, &options, access) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(folder) = folder {
                    let missing = folder.ancestors().take_while(|folder| !folder.exists());
                    let above = missing.filter_map(|folder| Some(folder.parent()?.to_owned()));
                    unsynced_folders.extend(above.filter(|above| !above.as_os_str().is_empty()));
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
            unsynced_folders,
            period: period(now, every),
            last_used: 0,
        };
        if !metadata.is_file() {
            open.unsynced_folders.clear();
        }
        if metadata.is_file() && metadata.len() > 0 {
            open.end_torn_line(metadata.len(), format)?;
            let modified = metadata
                .modified()?
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            open.period = period(Timestamp(modified.as_nanos() as i64), every);
        }
        Ok(open)
    }

    /// Has the file end with a whole line: a crash may have torn the last one.
    fn end_torn_line(&mut self, len: u64, format: FileFormat) -> io::Result<()> {
        let path = self.path.display();
        match FileEnd::of(&self.file, len, format == FileFormat::Json)? {
            FileEnd::TornAt(start) if self.file.metadata()?.len() == len => {
                let bytes = len - start;
                tracing::warn!(
                    %path, bytes,
                    "a line that a crash had torn was cut off: its event is written again"
                );
                self.file.set_len(start)?;
                self.dirty = true;
                Ok(())
            }
            FileEnd::Unended => {
                tracing::warn!(%path, "the last line had no end: it was given one");
                self.append(b"\n", false)
            }
            FileEnd::Whole | FileEnd::TornAt(_) => Ok(()),
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
            written = self.force();
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
            self.force()?;
            self.dirty = false;
        }
        Ok(())
    }

    /// Syncs the file, and the folders with its entry the first time.
    fn force(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        self.sync_folders()
    }

    fn sync_folders(&mut self) -> io::Result<()> {
        while let Some(folder) = self.unsynced_folders.last() {
            match File::open(folder)?.sync_all() {
                // Some file systems sync no folders.
                Err(error) if error.kind() != io::ErrorKind::InvalidInput => return Err(error),
                _ => self.unsynced_folders.pop(),
            };
        }
        Ok(())
    }

    /// A second handle for whoever is to force what was written to the disk; `None` if there is
    /// nothing.
    pub(super) fn take_unsynced(&mut self) -> io::Result<Option<File>> {
        if !self.dirty {
            return Ok(None);
        }
        self.sync_folders()?;
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_first_sync_is_of_the_folders_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/c.log");
        let open = || {
            let mut wide = TightenReport::default();
            let (now, access) = (Timestamp::now(), Access::PRIVATE);
            OpenFile::open(&path, FileFormat::Json, (None, now), &access, &mut wide).unwrap()
        };
        let mut file = open();
        let folders = [path.parent().unwrap(), &dir.path().join("a"), dir.path()];
        assert_eq!(file.unsynced_folders, folders);
        file.append(b"one\n", false).unwrap();
        assert_eq!(file.unsynced_folders.len(), 3);
        file.append(b"two\n", true).unwrap();
        assert!(file.unsynced_folders.is_empty());
        // It may have been created by one that was killed before it synced.
        assert_eq!(open().unsynced_folders, folders[..1]);
        let mut again = open();
        again.append(b"three\n", false).unwrap();
        assert!(again.take_unsynced().unwrap().is_some() && again.unsynced_folders.is_empty());
    }
}
