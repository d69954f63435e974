//! Logs of an earlier process, which go on at their positions.
//!
//! A log is found by its name, or by an older generation's name beside it. Else it is an orphan
//! until all folders are listed: its file may have been renamed to any name that matches. Then it
//! is looked for by its inode, under any name in its folder.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use inrush_transport::files::identity::FileIdentity;

use super::again::names_of;
use super::names::{is_packed_path, siblings};
use super::packed::{is_copy_of, is_same};
use super::{KnownFiles, NewFile};
use crate::place::LogPlace;
use crate::position::LogPosition;
use crate::tail::TailOrder;

/// Logs whose newest file was not found, by the number of its inode.
#[derive(Default)]
pub(super) struct OrphanLogs(HashMap<u64, Vec<(u64, LogPosition)>>);

impl OrphanLogs {
    fn insert(&mut self, stream: u64, position: &LogPosition) {
        if let Some(newest) = position.generations.last() {
            let logs = self.0.entry(newest.identity.key.inode).or_default();
            logs.push((stream, position.clone()));
        }
    }

    /// Takes the log that a file is of.
    fn take(&mut self, new: &NewFile) -> Option<(u64, LogPosition)> {
        let logs = self.0.get_mut(&new.identity.key.inode)?;
        let is_it = |(_, position): &(u64, LogPosition)| {
            let newest = position.generations.last();
            newest.is_some_and(|newest| is_same(&newest.identity, &new.file))
        };
        let at = logs.iter().position(is_it)?;
        Some(logs.swap_remove(at))
    }
}

impl KnownFiles {
    /// Goes on with the logs of an earlier process.
    pub(crate) fn resume(&mut self, positions: &[(u64, LogPosition)]) {
        let mut resumed = Vec::new();
        for (stream, position) in positions {
            if position.is_complete {
                if !self.resume_done(*stream, position) {
                    self.orders.push(TailOrder::ForgetPosition(*stream));
                }
                continue;
            }
            match self.resume_one(*stream, position) {
                Some(newest) => resumed.push((*stream, position, newest)),
                None => self.orphans.insert(*stream, position),
            }
        }
        // Once all files are known that a log has: the file of a name may be another log's.
        for (stream, position, newest) in resumed {
            self.settle_name(stream, position, newest);
            self.know_copies(stream);
        }
    }

    /// Goes on with the log that a file is of, if it has another name now. Returns the file if it
    /// is of none.
    pub(super) fn adopt(&mut self, path: &Path, new: NewFile) -> Option<NewFile> {
        let Some((stream, position)) = self.orphans.take(&new) else {
            return Some(new);
        };
        let last = position.generations.len().saturating_sub(1);
        let before = self.by_path.get(path).copied();
        self.go_on(stream, path, &position, vec![(last as u8, new)]);
        if let Some(before) = before.filter(|before| *before != stream) {
            self.name_gone(before);
        }
        self.read_behind(&position);
        None
    }

    /// The same for a file that has lost its name: others may have it.
    pub(super) fn adopt_nameless(&mut self, path: &Path, new: NewFile) -> Option<NewFile> {
        let Some((stream, position)) = self.orphans.take(&new) else {
            return Some(new);
        };
        self.go_on_nameless(stream, path, &position, new);
        None
    }

    fn go_on_nameless(&mut self, stream: u64, path: &Path, position: &LogPosition, new: NewFile) {
        let before = self.by_path.get(path).copied();
        let last = position.generations.len().saturating_sub(1);
        self.go_on(stream, path, position, vec![(last as u8, new)]);
        match before {
            Some(before) => drop(self.by_path.insert(path.into(), before)),
            None => drop(self.by_path.remove(path)),
        }
        self.name_gone(stream);
    }

    /// Goes on with those of these logs whose file has any other name in its folder: it was renamed
    /// more than once since its name was known. Returns the others.
    fn find_by_inode(&mut self, mut gone: Vec<(u64, LogPosition)>) -> Vec<(u64, LogPosition)> {
        let mut folders: HashMap<PathBuf, HashSet<u64>> = HashMap::new();
        for (_, position) in &gone {
            let folder = Path::new(OsStr::from_bytes(&position.path)).parent();
            if let Some((folder, newest)) = folder.zip(position.generations.last()) {
                let inodes = folders.entry(folder.to_owned()).or_default();
                inodes.insert(newest.identity.key.inode);
            }
        }
        for (folder, inodes) in folders {
            for name in names_of(&folder, &inodes).unwrap_or_default() {
                let opened = (!is_packed_path(&name)).then(|| self.open(&name));
                let Some(new) = opened.flatten() else {
                    continue;
                };
                let is_it = |(_, position): &(u64, LogPosition)| {
                    let newest = position.generations.last();
                    newest.is_some_and(|newest| is_same(&newest.identity, &new.file))
                };
                if let Some(at) = gone.iter().position(is_it) {
                    let (stream, position) = gone.swap_remove(at);
                    let path = PathBuf::from(OsStr::from_bytes(&position.path));
                    self.go_on_nameless(stream, &path, &position, new);
                    self.read_behind(&position);
                }
            }
        }
        gone
    }

    /// All names are found: logs that none led to are gone. Volumes are found later, once it is
    /// known of their pods: their logs are kept as long as their folder is there.
    pub(crate) fn give_up_orphans(&mut self) {
        if self.orphans.0.is_empty() {
            return;
        }
        let mut orphans = std::mem::take(&mut self.orphans);
        let volumes = self.options().kubernetes.as_ref();
        let volumes = volumes.map(|options| options.kubelet.clone());
        let is_awaited = |position: &LogPosition| {
            let path = Path::new(OsStr::from_bytes(&position.path));
            let is_within = volumes.as_ref().is_some_and(|root| path.starts_with(root));
            is_within && !self.is_included(path) && path.parent().is_some_and(Path::exists)
        };
        let mut gone = Vec::new();
        orphans.0.retain(|_, logs| {
            gone.extend(logs.extract_if(.., |(_, position)| !is_awaited(position)));
            !logs.is_empty()
        });
        self.orphans = orphans;
        for (stream, position) in self.find_by_inode(gone) {
            let lost = position.generations.last();
            let unread = lost.map_or(0, |one| one.length.saturating_sub(one.taken));
            self.counts.rotated_away(unread);
            self.orders.push(TailOrder::ForgetPosition(stream));
            self.read_behind(&position);
        }
    }

    /// Reads the files that came behind the last one of a position, and lost the name of their log
    /// while nobody read. If no file has that name now, or the last one is deleted, nothing else
    /// leads to them.
    fn read_behind(&mut self, position: &LogPosition) {
        let path = Path::new(OsStr::from_bytes(&position.path));
        let newest = position.generations.last();
        let Some(since) = newest.and_then(|newest| newest.identity.birth_ns) else {
            return;
        };
        for missed in self.unseen(path, None, since) {
            let name = missed.path.clone();
            self.begin_unseen(path, &name, missed);
        }
    }

    fn resume_one(&mut self, stream: u64, position: &LogPosition) -> Option<FileIdentity> {
        let path = PathBuf::from(OsStr::from_bytes(&position.path));
        // The name first: what is renamed before it was opened is among the others then.
        let mut files: Vec<NewFile> = self.open_if_there(&path).into_iter().collect();
        let older = siblings(&path);
        files.extend(older.iter().filter_map(|name| self.open_if_there(name)));
        files.extend(self.packed_of(&path));
        let mut chain: Vec<(u8, NewFile)> = Vec::new();
        for (number, generation) in position.generations.iter().enumerate() {
            let is_it = |new: &NewFile| is_same(&generation.identity, &new.file);
            if let Some(at) = files.iter().position(is_it) {
                chain.push((number as u8, files.swap_remove(at)));
            }
        }
        let last = position.generations.len().saturating_sub(1);
        if let Some(lost) = position.generations.last()
            && !chain.iter().any(|(number, _)| usize::from(*number) == last)
            && let Some(at) = files.iter().position(|new| is_copy_of(lost, new))
        {
            let copy = files.swap_remove(at);
            self.note_done(&copy.path, copy.identity);
            chain.push((last as u8, copy));
        }
        let mut later = Vec::new();
        if !chain.iter().any(|(number, _)| usize::from(*number) == last) {
            let mut copies = self.copies_at_start(&path, position, &files).into_iter();
            chain.extend(copies.next().map(|copy| (last as u8, copy)));
            later.extend(copies);
        }
        if !chain.iter().any(|(number, _)| usize::from(*number) == last) {
            return None;
        }
        let newest = self.go_on(stream, &path, position, chain);
        let last = later.last().map(|copy| copy.identity);
        later.into_iter().for_each(|copy| self.push(stream, copy));
        last.or(newest)
    }

    /// Reads on from a position; `chain` has its generations that are still there. Returns the
    /// newest of them.
    fn go_on(
        &mut self,
        stream: u64,
        path: &Path,
        position: &LogPosition,
        chain: Vec<(u8, NewFile)>,
    ) -> Option<FileIdentity> {
        let numbers: Vec<u8> = chain.iter().map(|(number, _)| *number).collect();
        let origin = |at: usize| {
            let open = position.open[at]?;
            let number = numbers
                .iter()
                .position(|number| *number == open.generation)?;
            Some(LogPlace::origin_of(number as u16, open.offset))
        };
        let resumed = [origin(0), origin(1)];
        let last = position.generations.len() - 1;
        let begins = |number: u8, taken: u64| {
            let open = position.open.iter().flatten();
            let here = open
                .filter(|open| open.generation == number)
                .map(|open| open.offset);
            here.chain([taken]).min().unwrap_or(taken)
        };
        let mut chain = chain.into_iter();
        let (number, first) = chain.next()?;
        let known = |number: u8| match usize::from(number) == last {
            true => position.generations[last].taken,
            // Read to its end by then.
            false => u64::MAX,
        };
        let from = begins(number, position.generations[usize::from(number)].taken);
        // A copy may be shorter than the file that was cut.
        let from = match first.path == path || is_packed_path(&first.path) {
            true => from,
            false => from.min(first.length),
        };
        let mut place = LogPlace::new(stream, path, first.identity);
        place.resume(from, known(number), resumed);
        // Before that place, the line that is too long is met anew.
        let is_last = usize::from(number) == last;
        place.skips = position.skips && is_last && from == position.generations[last].taken;
        if is_packed_path(path) {
            self.reads(stream, path, first.identity);
        }
        let newest = first.identity;
        self.send(path, first, place, (from, known(number)));
        let mut newest = newest;
        for (number, new) in chain {
            newest = new.identity;
            self.push_known(stream, new, known(number));
        }
        Some(newest)
    }

    /// After all logs are resumed: has this one still its name?
    fn settle_name(&mut self, stream: u64, position: &LogPosition, newest: FileIdentity) {
        let path = Path::new(OsStr::from_bytes(&position.path));
        let now = self.open_if_there(path).map(|now| now.identity.key);
        if now == Some(newest.key) {
            self.by_path.insert(path.into(), stream);
            return;
        }
        // The file may be another log's, which was resumed too.
        let other = now.and_then(|key| self.by_inode.get(&key));
        let other = other.map(|other| other.stream);
        self.by_path.insert(path.into(), other.unwrap_or(stream));
        if other.is_none() && now.is_some() {
            return self.found(path);
        }
        // One that goes on in a copy was cut: the files that came behind it are copies too.
        let last = position.generations.last();
        if last.is_some_and(|last| last.identity.key.inode == newest.key.inode) {
            self.read_behind(position);
        }
        match other {
            Some(_) => self.name_gone(stream),
            None => self.vanished(path),
        }
    }
}
