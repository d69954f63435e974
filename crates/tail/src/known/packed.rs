//! Compressed files: each is read once, unless it is the copy of a file that was read as it was.
//!
//! # What it guarantees
//! * A copy is known by three things: its name, which is that of a generation of the log and an
//!   ending; the beginning of its text; and the length of its text.
//! * One that was read, or is a copy, is known after a restart and under another name.
//! * A file whose rest is only in its compressed copy is read on there.
//!
//! # States
//! Waiting → read → done; a copy is done at once. While a file could be the beginning of a copy
//! that is still being written, it is looked at again.
//!
//! # Limits
//! [`READ_AT_ONCE`] files are read at a time. The beginnings of [`FORMER_MAX`] files are remembered
//! that were read and deleted. A copy that does not say the length of its text (Zstandard from a
//! pipe) is no copy: its lines come twice rather than never.
//!
//! # After a crash
//! The position of a file that is done stays in the queue until the file has been gone for
//! [`GONE_AFTER`].

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::time::{Duration, Instant, SystemTime};

use inrush_event::instant_now;
use inrush_transport::files::identity::{
    FileHead, FileIdentity, HEAD_BYTES_MAX, IdentityMatch, InodeKey,
};
use inrush_transport::files::packed_file::{FilePacking, PackedEnd, PackedFile, PackedRead};
use inrush_transport::files::tail_file::TailFile;

use super::names::is_generation;
use super::{KnownFiles, NewFile};
use crate::options::{CompressedFiles, StartAt};
use crate::place::LogPlace;
use crate::position::{GenerationPosition, LogPosition};
use crate::tail::TailOrder;

/// Compressed files of a source that are read at a time.
const READ_AT_ONCE: usize = 4;

/// Files that were read and deleted, and whose copies are known.
const FORMER_MAX: usize = 1024;

/// A file that is not written for so long is whole, or stays as it is.
const SETTLED_AFTER: Duration = Duration::from_secs(10);

/// The position of a file that has had no name for so long is forgotten.
const GONE_AFTER: Duration = Duration::from_secs(60);

/// A file that was read, for its copies.
struct FormerFile {
    /// Name of its log.
    log: PathBuf,
    head: FileHead,
    length: u64,
}

/// A file that a compressed one is the copy of.
enum PackedCopy {
    /// It is read now.
    Open(InodeKey),
    /// It was read.
    Former,
    /// It may be one, once it is written.
    Begun,
}

/// A file that is not read any more: a compressed one, or a copy.
struct DoneFile {
    path: PathBuf,
    identity: FileIdentity,
    /// Time since which it has no name that is known.
    gone: Option<Instant>,
}

/// Compressed files of a source.
#[derive(Default)]
pub(super) struct PackedFiles {
    is_on: bool,
    waiting: VecDeque<PathBuf>,
    /// Those that are read, by stream.
    reading: HashMap<u64, (PathBuf, FileIdentity)>,
    done: HashMap<u64, DoneFile>,
    /// Copies of files that are read, by these. They are done once those were read: until then,
    /// a later process may have nothing else to read.
    copies: HashMap<InodeKey, (PathBuf, FileIdentity)>,
    former: VecDeque<FormerFile>,
}

impl PackedFiles {
    pub(super) fn new(options: CompressedFiles) -> Self {
        let mut files = Self::default();
        files.follow(options);
        files
    }

    /// Follows other options.
    pub(super) fn follow(&mut self, options: CompressedFiles) {
        self.is_on = options == CompressedFiles::Read;
    }
}

/// Compression by the name of a file, and its name without the ending.
fn packing_of(path: &Path) -> Option<(FilePacking, &[u8])> {
    FilePacking::of_name(path.file_name()?.as_bytes())
}

impl NewFile {
    /// The beginning of its text; the bytes, and if its text ends there.
    fn text_head(&self, packing: FilePacking, room: &mut [u8]) -> (usize, Option<PackedEnd>) {
        let (mut packed, mut filled) = (PackedFile::new(packing), 0);
        while filled < room.len() {
            let read = packed.read_at(&self.file, &mut room[filled..], filled as u64);
            match read {
                Ok(PackedRead::Text(read)) => filled += read,
                Ok(PackedRead::Skipped) => {}
                Ok(PackedRead::End(end)) => return (filled, Some(end)),
                // Told of when it is read.
                Err(_) => return (filled, Some(PackedEnd::Damaged)),
            }
        }
        (filled, None)
    }

    /// The beginning of its text, also if it is compressed.
    pub(super) fn head(&self, room: &mut [u8]) -> usize {
        match packing_of(&self.path) {
            Some((packing, _)) => self.text_head(packing, room).0,
            None => self.file.read_at(room, 0).unwrap_or(0),
        }
    }

    /// True if it was written within the time in which it may become longer.
    fn is_unsettled(&self) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.map_or(0, |now| i64::try_from(now.as_nanos()).unwrap_or(i64::MAX));
        now.saturating_sub(self.modified) < SETTLED_AFTER.as_nanos() as i64
    }
}

/// Reader of a file's text for its generation, if its name says that it is compressed.
pub(super) fn unpacker_of(path: &Path) -> Option<Box<PackedFile>> {
    let (packing, _) = packing_of(path)?;
    Some(Box::new(PackedFile::new(packing)))
}

/// Names of compressed files in the folder of `path`.
fn packed_beside(path: &Path) -> Vec<PathBuf> {
    let entries = path.parent().and_then(|folder| fs::read_dir(folder).ok());
    let names = entries.into_iter().flatten().flatten();
    let names = names.map(|entry| entry.path());
    names.filter(|name| packing_of(name).is_some()).collect()
}

/// Names in the folder of `path` that lead to this inode.
fn names_of_inode(path: &Path, inode: u64) -> Vec<PathBuf> {
    let entries = path.parent().and_then(|folder| fs::read_dir(folder).ok());
    let names = entries.into_iter().flatten().flatten();
    let names = names.filter(|entry| entry.ino() == inode);
    names.map(|entry| entry.path()).collect()
}

/// True if a compressed file's name without its ending is that of the log, or of an older
/// generation of it.
fn is_of_log(log: &Path, path: &Path, stem: &[u8]) -> bool {
    let base = log.file_name().map_or(&b""[..], OsStr::as_bytes);
    log.parent() == path.parent() && (stem == base || is_generation(base, stem))
}

impl KnownFiles {
    /// Looks at a name of a compressed file that matches the patterns.
    pub(super) fn found_packed(&mut self, path: &Path) {
        let Some((packing, stem)) = packing_of(path).filter(|_| self.packed.is_on) else {
            return;
        };
        if self.packed.waiting.iter().any(|waiting| waiting == path) {
            return;
        }
        let Some(new) = self.open(path) else {
            return;
        };
        if self.is_read(path, &new) {
            return self.seen_again(path, &new);
        }
        if self.is_too_old(path, path, &new) {
            return;
        }
        let Some(new) = self.adopt(path, new) else {
            return;
        };
        let is_past = self.start_at == StartAt::End && new.born < self.first_start;
        match self.packed_copy(stem, packing, &new) {
            Some(PackedCopy::Begun) => self.postponed.push(path.to_owned()),
            Some(PackedCopy::Former) => self.note_done(path, new.identity),
            Some(PackedCopy::Open(original)) => {
                let (stream, copy) = (self.new_stream(), (path.to_owned(), new.identity));
                self.know_done(stream, new.identity);
                self.packed.copies.insert(original, copy);
            }
            None if is_past => self.note_done(path, new.identity),
            None => {
                self.packed.waiting.push_back(path.to_owned());
                self.begin_waiting();
            }
        }
    }

    /// A file that is done has this name now.
    pub(super) fn seen_again(&mut self, path: &Path, new: &NewFile) {
        self.copy_seen(path, new.identity.key);
        let stream = self
            .by_inode
            .get(&new.identity.key)
            .map(|known| known.stream);
        let done = stream.and_then(|stream| Some((stream, self.packed.done.get_mut(&stream)?)));
        let mut copies = self.packed.copies.values_mut();
        if let Some((name, _)) = copies.find(|(_, one)| one.key == new.identity.key) {
            path.clone_into(name);
        }
        if let Some((stream, done)) = done
            && done.path != path
            && fs::symlink_metadata(&done.path).is_err()
        {
            (done.path, done.gone) = (path.to_owned(), None);
            let state = complete(path, done.identity);
            self.orders.push(TailOrder::Note(stream, state));
        }
    }

    /// Notes that a file need not be read, also not by a later process.
    pub(super) fn note_done(&mut self, path: &Path, identity: FileIdentity) {
        let stream = self.new_stream();
        self.orders
            .push(TailOrder::Note(stream, complete(path, identity)));
        self.done(stream, path, identity);
    }

    /// A file was read to its end: its copy is done.
    pub(super) fn copied(&mut self, original: InodeKey) {
        if let Some((path, identity)) = self.packed.copies.remove(&original) {
            self.by_inode.remove(&identity.key);
            self.note_done(&path, identity);
        }
    }

    /// True if a file is done.
    pub(super) fn is_done(&self, key: InodeKey) -> bool {
        let mut done = self.packed.done.values();
        done.any(|done| done.identity.key == key)
    }

    /// Knows a file that is not to be read.
    fn know_done(&mut self, stream: u64, identity: FileIdentity) {
        if !self.by_inode.contains_key(&identity.key) {
            self.know(stream, identity);
        }
        if let Some(known) = self.by_inode.get_mut(&identity.key)
            && known.stream == stream
        {
            // Whatever is added to it.
            known.closed_at = Some(u64::MAX);
        }
    }

    fn done(&mut self, stream: u64, path: &Path, identity: FileIdentity) {
        self.know_done(stream, identity);
        let file = DoneFile {
            path: path.to_owned(),
            identity,
            gone: None,
        };
        self.packed.done.insert(stream, file);
    }

    /// The file of which this one is the compressed copy.
    fn packed_copy(&self, stem: &[u8], packing: FilePacking, new: &NewFile) -> Option<PackedCopy> {
        let path = &new.path;
        let mut room = [0; HEAD_BYTES_MAX];
        let (filled, end) = new.text_head(packing, &mut room);
        let head = &room[..filled];
        if end == Some(PackedEnd::Cut) && new.is_unsettled() {
            return Some(PackedCopy::Begun);
        }
        let said = packing.text_bytes(&new.file).ok().flatten();
        let mut begins_alike = false;
        let mut is_copy = |known: FileHead, length: u64| {
            let alike = known.len > 0 && known.begins(head);
            begins_alike |= alike;
            alike && said.is_some_and(|said| packing.fits(said, length))
        };
        for log in self.logs.values() {
            let files = log.files.iter().filter_map(|key| self.by_inode.get(key));
            for file in files.filter(|_| is_of_log(&log.path, path, stem)) {
                let open = || file.open.upgrade()?.len().ok();
                let length = file.left_at.or_else(open);
                if length.is_some_and(|length| is_copy(file.identity.head, length)) {
                    return Some(PackedCopy::Open(file.identity.key));
                }
            }
        }
        let mut former = self.packed.former.iter();
        if former.any(|one| is_of_log(&one.log, path, stem) && is_copy(one.head, one.length)) {
            return Some(PackedCopy::Former);
        }
        // It may be a copy that is still being written.
        (begins_alike && new.is_unsettled()).then_some(PackedCopy::Begun)
    }

    /// Begins with files that wait.
    fn begin_waiting(&mut self) {
        while self.packed.reading.len() < READ_AT_ONCE
            && let Some(path) = self.packed.waiting.pop_front()
        {
            let Some(new) = self.open(&path) else {
                continue;
            };
            if self.is_read(&path, &new) {
                continue;
            }
            let (stream, identity) = (self.new_stream(), new.identity);
            let place = LogPlace::new(stream, &path, identity);
            self.send(&path, new, place, (0, 0));
            self.packed.reading.insert(stream, (path, identity));
        }
    }

    /// The reader has closed a log. Its files are known for the sake of their copies.
    pub(super) fn packed_ended(&mut self, stream: u64, is_deleted: bool) {
        if let Some((path, identity)) = self.packed.reading.remove(&stream) {
            if !is_deleted {
                self.done(stream, &path, identity);
            }
            self.begin_waiting();
        }
    }

    /// Remembers a file that was read to its end.
    pub(super) fn remember(&mut self, log: &Path, head: FileHead, length: u64) {
        if !self.packed.is_on || head.len == 0 || packing_of(log).is_some() {
            return;
        }
        if self.packed.former.len() >= FORMER_MAX {
            self.packed.former.pop_front();
        }
        let log = log.to_owned();
        self.packed
            .former
            .push_back(FormerFile { log, head, length });
    }

    /// A name of a compressed file is gone.
    pub(super) fn packed_vanished(&mut self, path: &Path) {
        self.packed.waiting.retain(|waiting| waiting != path);
        let done = self.packed.done.values_mut();
        for done in done.filter(|done| done.path == path) {
            done.gone = Some(instant_now());
        }
    }

    /// Forgets files that are done and have been gone for long.
    pub(super) fn forget_gone(&mut self) {
        let now = instant_now();
        let is_gone = |done: &DoneFile| {
            let gone = done.gone.is_some_and(|gone| now - gone >= GONE_AFTER);
            gone && fs::symlink_metadata(&done.path).is_err()
        };
        for (stream, done) in self.packed.done.extract_if(|_, done| is_gone(done)) {
            self.by_inode.remove(&done.identity.key);
            self.orders.push(TailOrder::ForgetPosition(stream));
        }
    }

    /// Goes on with a file that an earlier process was done with. False if it is gone.
    pub(super) fn resume_done(&mut self, stream: u64, position: &LogPosition) -> bool {
        let Some(last) = position.generations.last() else {
            return false;
        };
        let path = PathBuf::from(OsStr::from_bytes(&position.path));
        let is_it = |new: &NewFile| is_same(&last.identity, &new.file);
        let found = self.open_if_there(&path).filter(is_it).or_else(|| {
            let mut others = names_of_inode(&path, last.identity.key.inode).into_iter();
            others.find_map(|name| self.open_if_there(&name).filter(is_it))
        });
        let Some(new) = found else {
            return false;
        };
        self.done(stream, &new.path, new.identity);
        if new.path != path {
            let state = complete(&new.path, new.identity);
            self.orders.push(TailOrder::Note(stream, state));
        }
        true
    }

    /// Compressed files in which the files of a log may be: a compressed one has another name now,
    /// or its rest is only in its copy.
    pub(super) fn packed_of(&mut self, path: &Path) -> Vec<NewFile> {
        if !self.packed.is_on {
            return Vec::new();
        }
        let is_packed = packing_of(path).is_some();
        let names = packed_beside(path).into_iter().filter(|name| {
            let of_log = |(_, stem)| is_of_log(path, name, stem);
            is_packed || packing_of(name).is_some_and(of_log)
        });
        names.filter_map(|name| self.open(&name)).collect()
    }

    /// The log of a stream reads a compressed file.
    pub(super) fn reads(&mut self, stream: u64, path: &Path, identity: FileIdentity) {
        let reading = (path.to_owned(), identity);
        self.packed.reading.insert(stream, reading);
    }
}

/// True if a file is the one that has this identity.
pub(super) fn is_same(identity: &FileIdentity, file: &TailFile) -> bool {
    matches!(
        identity.matches(file.as_file()),
        Ok(IdentityMatch::Same | IdentityMatch::OtherDevice)
    )
}

/// True if a compressed file can have the rest of a generation.
pub(super) fn is_copy_of(generation: &GenerationPosition, new: &NewFile) -> bool {
    let Some((packing, _)) = packing_of(&new.path) else {
        return false;
    };
    let mut head = [0; HEAD_BYTES_MAX];
    let (filled, _) = new.text_head(packing, &mut head);
    let known = generation.identity.head;
    let said = packing.text_bytes(&new.file).ok().flatten();
    let is_shorter = |said| u32::try_from(generation.length).is_ok() && said < generation.length;
    known.len > 0 && known.begins(&head[..filled]) && !said.is_some_and(is_shorter)
}

/// Position of a file of which nothing more is read.
fn complete(path: &Path, identity: FileIdentity) -> Vec<u8> {
    let position = LogPosition {
        path: path.as_os_str().as_bytes().to_vec(),
        generations: vec![GenerationPosition {
            identity,
            taken: 0,
            length: 0,
        }],
        is_complete: true,
        ..LogPosition::default()
    };
    position.encode()
}

/// An open file, as long as a log reads it.
pub(super) type OpenFile = Weak<TailFile>;
