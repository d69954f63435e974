//! Copies of logs, which `copytruncate` of logrotate makes.
//!
//! A copy is not read as a file of its own. What its log had and was unread when it was cut is read
//! in the copy.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use inrush_event::instant_now;
use inrush_transport::files::identity::{FileIdentity, HEAD_BYTES_MAX, IdentityMatch};
use inrush_transport::files::tail_file::TailFile;

use super::again::ClosedFile;
use super::names::{bases_of, leads_to, name_of, siblings};
use super::{KnownFiles, NO_LOG, NewFile};
use crate::log::ShortenedFile;
use crate::position::LogPosition;
use crate::tail::TailOrder;

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
        bases_of(name_of(path))
            .map(|base| path.with_file_name(OsStr::from_bytes(&base)))
            .find_map(|base| {
                let stream = self.by_path.get(base.as_path())?;
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

    /// The file of a log became shorter. A copy of what it had is read from there on, and the file
    /// from its beginning behind it.
    pub(crate) fn shortened(&mut self, stream: u64, file: &ShortenedFile) {
        let path = self.logs.get(&stream).map(|log| log.path.clone());
        let copies = path.map(|path| self.copies_of(&path, &file.identity));
        let mut from = file.read;
        let mut generations = Vec::new();
        for copy in copies.into_iter().flatten() {
            let read = std::mem::take(&mut from).min(copy.length);
            let mut copy = self.generation(copy, read, 0);
            copy.gone = Some(instant_now());
            self.counts.opened();
            generations.push(copy);
        }
        self.orders.push(TailOrder::Anew(stream, generations));
    }

    /// Copies of a file that was cut: the last one that begins as the file did, then those that
    /// were made later. What was written behind a copy and before the cut is in none.
    fn copies_of(&mut self, path: &Path, identity: &FileIdentity) -> Vec<NewFile> {
        let mut found: Vec<NewFile> = Vec::new();
        for name in siblings(path) {
            let Some(new) = self.open(&name) else {
                continue;
            };
            let known = self.by_inode.get(&new.identity.key);
            if known.is_none_or(|known| known.stream == NO_LOG) || self.is_done(new.identity.key) {
                found.push(new);
            }
        }
        found.sort_by_key(|new| (new.born, new.modified));
        let is_copy = |new: &NewFile| {
            let alike = identity.same_content(new.file.as_file());
            alike.unwrap_or(false)
        };
        let copies = match found.iter().rposition(is_copy) {
            Some(first) => found.split_off(first),
            None => Vec::new(),
        };
        for copy in &copies {
            if !self.by_inode.contains_key(&copy.identity.key) {
                self.know_copy(&copy.path, copy.identity);
            }
        }
        copies
    }

    /// Copies of the last file of a position, if it was cut since.
    pub(super) fn copies_at_start(
        &mut self,
        path: &Path,
        position: &LogPosition,
        files: &[NewFile],
    ) -> Vec<NewFile> {
        let Some(last) = position.generations.last() else {
            return Vec::new();
        };
        let is_cut = |new: &NewFile| {
            let matched = last.identity.matches(new.file.as_file());
            matches!(matched, Ok(IdentityMatch::Rewritten))
        };
        match files.iter().any(is_cut) {
            true => self.copies_of(path, &last.identity),
            false => Vec::new(),
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

    /// A copy is never read as a file of its own; if its name matches, also after a restart.
    pub(super) fn know_copy(&mut self, path: &Path, identity: FileIdentity) {
        if self.matches(path) {
            self.closed.remove(path, identity.key);
            return self.note_done(path, identity);
        }
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
