//! Copies of logs, which `copytruncate` of logrotate makes: they are not read again.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use inrush_transport::files::identity::{FileIdentity, HEAD_BYTES_MAX};
use inrush_transport::files::tail_file::TailFile;

use super::again::ClosedFile;
use super::known::{KnownFiles, NO_LOG, NewFile, is_generation_of, leads_to, name_of, siblings};

/// A copy of a log.
pub(super) enum CopyState {
    /// It has the log's beginning.
    Whole,
    /// It is shorter than the log's beginning, and may become a copy.
    Begun,
}

impl KnownFiles {
    /// A file that has the name of an older generation, is younger than the log's own file and
    /// begins as that one does is a copy of it (`copytruncate` of logrotate). Nothing else makes a
    /// new file under such a name, so one that is still shorter is looked at again.
    pub(super) fn copied_from(&self, path: &Path, new: &NewFile) -> Option<CopyState> {
        let name = name_of(path);
        let ends = name.iter().enumerate();
        let ends = ends.filter(|(_, byte)| matches!(byte, b'.' | b'-'));
        ends.map(|(end, _)| path.with_file_name(OsStr::from_bytes(&name[..end])))
            .filter(|base| is_generation_of(base, path))
            .find_map(|base| {
                let stream = self.by_path.get(&base)?;
                let newest = self.logs.get(stream)?.files.last()?;
                let newest = self.by_inode.get(newest)?;
                let is_younger = newest.identity.birth_ns.is_none_or(|born| born < new.born);
                if newest.identity.key == new.identity.key || !is_younger {
                    return None;
                }
                if new.length < u64::from(newest.identity.head.len) {
                    return self.begins_alike(&base, new).then_some(CopyState::Begun);
                }
                let same = newest.identity.same_content(new.file.as_file());
                same.unwrap_or(false).then_some(CopyState::Whole)
            })
    }

    /// True if a log begins with all that a short file has.
    fn begins_alike(&self, log: &Path, new: &NewFile) -> bool {
        let head = |file: &TailFile| -> io::Result<Vec<u8>> {
            let mut head = vec![0; HEAD_BYTES_MAX];
            let read = file.read_at(&mut head, 0)?;
            head.truncate(read);
            Ok(head)
        };
        let ours = self.open_file(log).ok();
        let ours = ours.and_then(|ours| head(&ours).ok());
        match (ours, head(&new.file)) {
            (Some(ours), Ok(its)) => ours.starts_with(&its),
            _ => false,
        }
    }

    /// Files with names of older generations that are younger than the log's own file are copies
    /// of it: before it is cut there is one, and its beginning tells that no more afterwards.
    pub(super) fn know_copies(&mut self, stream: u64) {
        let Some(log) = self.logs.get(&stream).filter(|log| !log.is_chained) else {
            return;
        };
        let newest = log.files.last().copied();
        let newest = newest.and_then(|key| Some((key, self.by_inode.get(&key)?)));
        let Some((key, newest)) = newest.filter(|(key, _)| leads_to(&log.path, *key)) else {
            return;
        };
        let Some(born) = newest.identity.birth_ns else {
            return;
        };
        for name in siblings(&log.path.clone()) {
            let Some(new) = self.open(&name) else {
                continue;
            };
            let is_copy = new.identity.birth_ns.is_some_and(|at| at > born);
            if is_copy && new.identity.key != key && !self.is_known(&new) {
                self.know_copy(&name, new.identity);
            }
        }
    }

    pub(super) fn know_copy(&mut self, path: &Path, identity: FileIdentity) {
        self.know(NO_LOG, identity);
        if let Some(copy) = self.by_inode.get_mut(&identity.key) {
            // It may still be written.
            copy.closed_at = Some(u64::MAX);
        }
        self.closed.insert(ClosedFile {
            key: identity.key,
            path: path.to_owned(),
            unread: 0,
        });
    }
}
