//! Names that files lose, and files that lost theirs before anybody saw them.
//!
//! # What it guarantees
//! * A file that was renamed is read on, whatever its name is.
//! * A notice that comes late does no harm: what a name leads to is looked at.
//! * A file that had a name that matches, and has another one in a watched folder, is read.

use std::path::Path;

use super::names::{is_packed_path, leads_to};
use super::{BIRTH_GRAIN_NS, KnownFiles, NewFile};
use crate::tail::TailOrder;

impl KnownFiles {
    /// A name is gone: deleted, or renamed to where nothing is watched.
    pub(crate) fn vanished(&mut self, path: &Path) {
        let waited = self.later.remove(path);
        self.tell_lost(path, waited);
        self.name_lost(path);
    }

    /// Counts what a name that waited for a place was known to lead to.
    pub(super) fn tell_lost(&self, path: &Path, bytes: u64) {
        if bytes > 0 {
            self.counts.rotated_away(bytes);
            let file = path.display();
            tracing::warn!(%file, bytes, "deleted before it could be opened: not read");
        }
    }

    /// A file was renamed. It is read on under any name; under one that does not match it is still
    /// to be read, if it was not seen before.
    pub(crate) fn moved(&mut self, from: &Path, to: &Path, to_matches: bool) {
        self.later.remove(from);
        let stream = self.by_path.get(from).copied();
        self.name_lost(from);
        match to_matches {
            true => self.found(to),
            false => self.renamed(from, to, stream),
        }
    }

    /// A file has a name that does not match, and had one that does, before anybody saw it.
    pub(crate) fn missed_name(&mut self, from: &Path, to: &Path) {
        let stream = self.by_path.get(from).copied();
        self.renamed(from, to, stream);
    }

    /// `stream`: the log that had the name.
    fn renamed(&mut self, from: &Path, to: &Path, stream: Option<u64>) {
        if is_packed_path(to) {
            return;
        }
        match self.open_if_there(to) {
            Some(new) if !self.is_known(&new) => {
                for older in self.older_unseen(from, stream, &new) {
                    let name = older.path.clone();
                    self.begin_unseen(from, &name, older);
                }
                self.begin_unseen(from, to, new);
            }
            // It is the log's own, as it should be.
            Some(new) if self.by_inode.get(&new.identity.key).map(|it| it.stream) == stream => {}
            // It was renamed again.
            found => {
                if let Some(known) = found {
                    self.was_named(&known, from);
                }
                let log = stream.and_then(|stream| Some((stream, self.logs.get(&stream)?)));
                let missed = match log {
                    // Older ones were read, and have no positions any more.
                    Some((stream, log)) if log.is_chained => self.missed_files(stream, from, None),
                    // The log may have a file already that came later.
                    _ => self.unseen(from, None, self.first_start - BIRTH_GRAIN_NS),
                };
                for new in missed {
                    self.begin_unseen(from, to, new);
                }
            }
        }
    }

    /// Files of a log that came before this one, were renamed on, and are read before it.
    fn older_unseen(&mut self, path: &Path, stream: Option<u64>, new: &NewFile) -> Vec<NewFile> {
        let is_chained = |stream: &u64| self.logs.get(stream).is_some_and(|log| log.is_chained);
        match stream.filter(is_chained) {
            Some(stream) => self.missed_files(stream, path, Some(new)),
            None => Vec::new(),
        }
    }

    /// A log's file has lost another name than the one it was known by: a later process finds it by
    /// that one.
    fn was_named(&mut self, file: &NewFile, name: &Path) {
        let key = file.identity.key;
        let Some(stream) = self.by_inode.get(&key).map(|known| known.stream) else {
            return;
        };
        if let Some(log) = self.logs.get_mut(&stream)
            && log.is_gone
            && log.files.last() == Some(&key)
            && *log.path != *name
        {
            log.path = name.into();
            let was = TailOrder::NameWas(stream, name.to_owned());
            self.orders.push(was);
        }
    }

    /// Begins to read a file that nobody saw under the name of its log.
    pub(super) fn begin_unseen(&mut self, path: &Path, name: &Path, new: NewFile) {
        self.accounts.saw(path, &new.identity, true);
        if self.is_too_old(name, path, &new) {
            return;
        }
        if !self.counts.has_place() {
            self.later.insert_full(name, path, new.length);
        } else if let Some(new) = self.adopt_nameless(path, new) {
            self.begin_renamed(path, new);
        }
    }

    /// Reads a file that was renamed before it was seen: behind the others of its log, if it came
    /// after them.
    fn begin_renamed(&mut self, path: &Path, new: NewFile) {
        let stream = self.by_path.get(path).copied();
        let log = stream.and_then(|stream| Some((stream, self.logs.get(&stream)?)));
        if let Some((stream, log)) = log.filter(|(_, log)| log.is_chained) {
            let newest = log.files.last().and_then(|key| self.by_inode.get(key));
            let newest = newest.and_then(|newest| newest.identity.birth_ns);
            if newest.is_none_or(|born| born <= new.born) {
                self.push(stream, new);
                return self.name_gone(stream);
            }
        }
        self.begin_nameless(path, new);
    }

    /// A name does not lead to the file any more that it led to.
    fn name_lost(&mut self, path: &Path) {
        self.refused.remove(path);
        self.counts.board.settled(path);
        self.packed_vanished(path);
        let Some(stream) = self.by_path.get(path).copied() else {
            return;
        };
        let Some(log) = self.logs.get_mut(&stream) else {
            self.by_path.remove(path);
            return;
        };
        let newest = log.files.last().copied();
        if newest.is_some_and(|key| leads_to(path, key)) {
            // The notice is of a file before.
            return;
        }
        if *log.path != *path {
            log.others.retain(|other| other != path);
            self.by_path.remove(path);
            return;
        }
        let other = newest.and_then(|key| {
            let at = log.others.iter().position(|other| leads_to(other, key))?;
            Some(log.others.swap_remove(at))
        });
        if let Some(other) = other {
            log.path = other.as_path().into();
            self.by_path.remove(path);
            return self.orders.push(TailOrder::Named(stream, other));
        }
        if !log.is_chained {
            // What comes under the name of a chained one is of the same log.
            self.by_path.remove(path);
        }
        self.name_gone(stream);
    }
}
