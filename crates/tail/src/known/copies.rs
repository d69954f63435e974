//! Copies of logs, which `copytruncate` of logrotate makes.
//!
//! A copy is not read as a file of its own. What its log had and was unread when it was cut is read
//! in the copy.
//!
//! # What it guarantees
//! * While a log's file is not cut, its copy begins as it does, however little of it is written.
//!   It is known for a copy once it is as long as the beginning that is compared, and the reader
//!   has read so far.
//! * A file that does not begin as the log's own does now is a copy of what was cut, or none. The
//!   reader is asked: if it finds that its file was cut, what is there by then under names of older
//!   generations are copies. Else nothing that is in the file was read, and it is.
//!
//! # Limits
//! A file system that keeps no births has copies known by their beginnings alone: one that is
//! shorter than what was read of its log is read again if it is first seen behind the cut.
//!
//! # After a crash
//! The log goes on in the copy of what was cut. Its position is that of its own file once it reads
//! that again, and comes behind all that the copies had.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use inrush_event::instant_now;
use inrush_transport::files::identity::{
    FileHead, FileIdentity, HEAD_BYTES_MAX, IdentityMatch, InodeKey,
};
use inrush_transport::files::tail_file::TailFile;

use super::again::ClosedFile;
use super::names::{bases_of, is_rotated, leads_to, name_of, siblings};
use super::{KnownFile, KnownFiles, NO_LOG, NewFile};
use crate::log::ShortenedFile;
use crate::position::LogPosition;
use crate::tail::TailOrder;

/// A question about a log that the reader is behind in is asked again after this.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// Listings of a folder in which names move meanwhile.
const LISTINGS_MAX: usize = 4;

/// A copy of a log.
pub(super) enum CopyState {
    /// All that it has was read in the log.
    Whole,
    /// It is still written, or the reader is still to read or say something.
    Begun,
}

/// Question to the reader about a log, for the sake of a file that may be its copy.
struct CopyQuestion {
    stream: u64,
    number: u64,
    asked: Instant,
    /// True if the file began as that of the log then.
    was_alike: bool,
    /// Bytes of the log's file that were read, by the answer.
    read: Option<u64>,
}

/// Files that may be copies.
#[derive(Default)]
pub(super) struct CopyFiles {
    questions: HashMap<InodeKey, CopyQuestion>,
    /// Number of the last question.
    last: u64,
    /// Copies in which what was cut is read, by their names if these match.
    reading: HashMap<InodeKey, PathBuf>,
}

impl CopyFiles {
    /// No file waits for an answer.
    pub(super) fn forget_questions(&mut self) {
        self.questions.clear();
    }
}

/// The first bytes of a file.
fn head_of(file: &TailFile) -> io::Result<Vec<u8>> {
    let mut head = vec![0; HEAD_BYTES_MAX];
    let read = file.read_at(&mut head, 0)?;
    head.truncate(read);
    Ok(head)
}

/// Leaves a hole at the end of a head out of it: its writer may fill it.
pub(super) fn leave_hole(file: &TailFile, identity: &mut FileIdentity) {
    let mut head = [0; HEAD_BYTES_MAX];
    let Some(last) = usize::from(identity.head.len).checked_sub(1) else {
        return;
    };
    let mut byte = [1];
    if file
        .read_at(&mut byte, last as u64)
        .is_ok_and(|read| read == 1)
        && byte == [0]
    {
        let read = file.read_at(&mut head[..=last], 0).unwrap_or(0);
        let text = head[..read].iter().rposition(|byte| *byte != 0);
        identity.head = FileHead::of(&head[..text.map_or(0, |at| at + 1)]);
    }
}

/// True if `file` begins with `length` bytes of `copy`, as far as the beginning and the end of
/// these tell: many files have their first kilobyte in common. The bytes that were compared first,
/// and those that `file` had of them.
fn begins_with(file: &TailFile, copy: &TailFile, length: u64) -> io::Result<(bool, bool)> {
    // The copy first: what it has then, its log has now, unless that is cut.
    let its = head_of(copy)?;
    let from = length.saturating_sub(HEAD_BYTES_MAX as u64);
    let mut its_end = vec![0; usize::try_from(length - from).unwrap_or(0)];
    let read = copy.read_at(&mut its_end, from)?;
    its_end.truncate(read);
    let ours = head_of(file)?;
    let mut our_end = vec![0; its_end.len()];
    let read = file.read_at(&mut our_end, from)?;
    our_end.truncate(read);
    let is_alike = !its.is_empty() && ours.starts_with(&its) && our_end == its_end;
    Ok((is_alike, its.len() >= ours.len()))
}

impl KnownFiles {
    /// A file that has the name of an older generation, is younger than the log's own file and
    /// begins as that one does is a copy of it (`copytruncate` of logrotate). Nothing else makes a
    /// new file under such a name, so one that is still shorter is looked at again.
    pub(super) fn copied_from(&mut self, path: &Path, new: &NewFile) -> Option<CopyState> {
        let (stream, log) = self.original_of(path, new)?;
        let Ok(length) = new.file.len() else {
            return None;
        };
        if length == 0 {
            return Some(CopyState::Begun);
        }
        let ours = self.open_file(&log).ok();
        let alike = ours.and_then(|ours| begins_with(&ours, &new.file, length).ok());
        let (is_alike, is_long) = alike.unwrap_or((false, false));
        let key = new.identity.key;
        let question = self.copies.questions.get(&key);
        let question = question.filter(|asked| asked.stream == stream);
        match question.map(|asked| (asked.was_alike, asked.read, asked.asked)) {
            Some((true, Some(read), _)) if is_alike && is_long && read >= length => {
                self.copies.questions.remove(&key);
                return Some(CopyState::Whole);
            }
            // Either the reader is behind, or the file is not long enough yet.
            Some((true, _, asked)) if is_alike && instant_now() - asked < ASK_AGAIN => {}
            // Nothing of it was read.
            Some((false, Some(_), _)) if !is_alike => {
                self.copies.questions.remove(&key);
                return None;
            }
            Some((was_alike, None, _)) if was_alike == is_alike => {}
            _ => self.ask(key, stream, is_alike),
        }
        Some(CopyState::Begun)
    }

    /// A file that has the name of an older generation may be a copy of one that was not found yet:
    /// folders have no order.
    pub(super) fn find_original(&mut self, path: &Path) {
        for base in bases_of(name_of(path)) {
            let log = path.with_file_name(OsStr::from_bytes(&base));
            if !self.by_path.contains_key(log.as_path())
                && self.matches(&log)
                && std::fs::symlink_metadata(&log).is_ok()
            {
                self.found(&log);
            }
        }
    }

    /// A copy in which what was cut is read has this name now.
    pub(super) fn copy_seen(&mut self, path: &Path, key: InodeKey) {
        if let Some(name) = self.copies.reading.get_mut(&key) {
            path.clone_into(name);
        }
    }

    /// The log that a file may be a copy of, and its name.
    fn original_of(&self, path: &Path, new: &NewFile) -> Option<(u64, PathBuf)> {
        bases_of(name_of(path))
            .map(|base| path.with_file_name(OsStr::from_bytes(&base)))
            .find_map(|base| {
                let stream = *self.by_path.get(base.as_path())?;
                let newest = self.logs.get(&stream)?.files.last()?;
                let newest = &self.by_inode.get(newest)?.identity;
                // Births are kept by a coarse clock.
                let is_younger = newest.birth_ns.is_none_or(|born| born <= new.born);
                (newest.key != new.identity.key && is_younger).then_some((stream, base))
            })
    }

    /// True if a file is a copy that was known before its name was found.
    pub(super) fn is_copy(&self, key: InodeKey) -> bool {
        let known = self.by_inode.get(&key);
        let is_shut = |known: &&KnownFile| known.closed_at == Some(u64::MAX);
        let known = known.filter(is_shut);
        known.is_some_and(|known| known.stream == NO_LOG || self.is_done(key))
    }

    /// Asks the reader how much it has read of a log's file, and if that was cut since.
    fn ask(&mut self, key: InodeKey, stream: u64, was_alike: bool) {
        self.copies.last += 1;
        let number = self.copies.last;
        let question = CopyQuestion {
            stream,
            number,
            asked: instant_now(),
            was_alike,
            read: None,
        };
        self.copies.questions.insert(key, question);
        self.orders.push(TailOrder::Look(stream, number));
    }

    /// The reader has looked at a log, and has read so much of its file since that was last cut.
    pub(crate) fn looked(&mut self, stream: u64, number: u64, read: u64) {
        let questions = self.copies.questions.values_mut();
        for asked in questions.filter(|one| one.stream == stream && one.number <= number) {
            asked.read = Some(read);
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
        self.know_copies(stream);
        // Those that were asked of what was cut.
        self.copies
            .questions
            .retain(|_, asked| asked.stream != stream);
        self.orders.push(TailOrder::Anew(stream, generations));
    }

    /// A copy was read to its end: it need not be read again, also not by a later process.
    pub(super) fn left_copy(&mut self, key: InodeKey) {
        let Some(path) = self.copies.reading.remove(&key) else {
            return;
        };
        if let Some(known) = self.by_inode.remove(&key) {
            self.know_copy(&path, known.identity);
        }
    }

    /// Files with names of a log's older generations, each once. Names may move meanwhile.
    fn open_siblings(&mut self, path: &Path) -> Vec<NewFile> {
        let mut found: HashMap<InodeKey, NewFile> = HashMap::new();
        for _ in 0..LISTINGS_MAX {
            for name in siblings(path) {
                if let Some(new) = self.open(&name) {
                    found.entry(new.identity.key).or_insert(new);
                }
            }
            let seen: HashSet<u64> = found.keys().map(|key| key.inode).collect();
            let now = siblings(path).into_iter().filter_map(|name| {
                let found = std::fs::symlink_metadata(name).ok()?;
                found.is_file().then(|| InodeKey::of(&found).inode)
            });
            if now.into_iter().all(|inode| seen.contains(&inode)) {
                break;
            }
        }
        let mut found: Vec<NewFile> = found.into_values().collect();
        found.sort_by_key(|new| (new.born, new.modified));
        found
    }

    /// Copies of a file that was cut: the last one that begins as the file did, then those that
    /// were made later. What was written behind a copy and before the cut is in none.
    fn copies_of(&mut self, path: &Path, identity: &FileIdentity) -> Vec<NewFile> {
        let mut found = self.open_siblings(path);
        found.retain(|new| {
            let known = self.by_inode.get(&new.identity.key);
            let is_younger = identity.birth_ns.is_none_or(|born| born <= new.born);
            let is_read = known.is_some_and(|known| known.stream != NO_LOG);
            is_younger && (!is_read || self.is_done(new.identity.key))
        });
        let is_copy = |new: &NewFile| {
            let alike = identity.same_content(new.file.as_file());
            alike.unwrap_or(false)
        };
        let mut copies = match found.iter().rposition(is_copy) {
            Some(first) => found.split_off(first),
            // More was written behind it, and read.
            None => found
                .pop()
                .filter(|new| self.is_shorter(path, new, identity))
                .into_iter()
                .collect(),
        };
        let mut is_first = true;
        copies.retain(|new| {
            std::mem::take(&mut is_first)
                || is_rotated(name_of(path), name_of(&new.path)) && !self.is_of_now(path, new)
        });
        for copy in &copies {
            self.know_unread(copy);
        }
        copies
    }

    /// True if a file is a copy of what a log's file has now, or is still to become one.
    fn is_of_now(&self, log: &Path, new: &NewFile) -> bool {
        let length = new.file.len().unwrap_or(0);
        let ours = self.open_file(log).ok().filter(|_| length > 0);
        let alike = ours.and_then(|ours| begins_with(&ours, &new.file, length).ok());
        length == 0 || alike.is_some_and(|(is_alike, _)| is_alike)
    }

    /// True if a file may be a copy that was made when its log had less than this head.
    fn is_shorter(&self, path: &Path, new: &NewFile, identity: &FileIdentity) -> bool {
        new.length < u64::from(identity.head.len)
            && is_rotated(name_of(path), name_of(&new.path))
            && !self.is_of_now(path, new)
    }

    /// A copy that is to be read: it is done once that is so.
    fn know_unread(&mut self, copy: &NewFile) {
        let key = copy.identity.key;
        let is_known = self.by_inode.contains_key(&key);
        if !is_known && self.matches(&copy.path) {
            self.copies.reading.insert(key, copy.path.clone());
        }
        if !is_known {
            self.know_nowhere(&copy.path, copy.identity);
        }
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
        let path = Arc::clone(&log.path);
        for new in self.open_siblings(&path) {
            let is_copy = new.identity.birth_ns.is_some_and(|at| at > born)
                && is_rotated(name_of(&path), name_of(&new.path))
                && !self.is_of_now(&path, &new);
            if is_copy && new.identity.key != key && !self.is_known(&new) {
                self.know_copy(&new.path, new.identity);
            }
        }
    }

    /// A copy is never read as a file of its own; if its name matches, also after a restart.
    pub(super) fn know_copy(&mut self, path: &Path, identity: FileIdentity) {
        if self.matches(path) {
            self.closed.remove(path, identity.key);
            return self.note_done(path, identity);
        }
        self.know_nowhere(path, identity);
    }

    /// No log has a copy.
    fn know_nowhere(&mut self, path: &Path, identity: FileIdentity) {
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
