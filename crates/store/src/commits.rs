//! The log of commits: what belongs to the store, and which events it holds.
//!
//! A commit is one object, `_log/` and twenty digits, made only if there is none of that name: it
//! is there whole or not at all, and two processes cannot both make it. It names the files that it
//! adds, those that it removes, and the events that the added ones hold. Every so often a `full`
//! object tells all that the commits before came to, and those are deleted.
//!
//! Both are two lines: JSON, and its CRC-32C in hexadecimal digits.
//!
//! # A commit whose outcome is not known
//! The name may be there though making it durable failed; a request may be carried out though its
//! answer was lost, or later. So a commit goes forward only: it is read back, recognised as our
//! own, and made durable, or made again under the same number with the same content. No other
//! commit is made before. A commit of another writer under our number ends the writing.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use bytes::Bytes;
use inrush_event::crc32c;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::chance::commits_between;
use crate::covered::{DedupSet, EventRange};
use crate::decode::insist;
use crate::home::{CreateError, CreateOutcome, DurableStorage};
use crate::mutant::{Mutant, is_on};
use crate::snapshot::FileEntry;

/// The folder of the log.
pub(crate) const FOLDER: &str = "_log/";
const COMMIT: &str = ".commit";
const FULL: &str = ".full";
/// `full` objects that are kept: if the last cannot be read, the one before it can.
const FULLS_KEPT: usize = 2;
/// An object of the log has so many bytes at most: some 500,000 files.
const OBJECT_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// Commits of a former process that may arrive while this one opens the store.
const LATE_MAX: usize = 16;

/// One change.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Commit {
    /// Time of the commit, in milliseconds since 1970.
    pub(crate) at_ms: i64,
    /// Reason: `ingest`, `compact`, `age`, `bytes`, `room`, `found` (a file that no commit named)
    /// or `open` (a fence).
    pub(crate) why: String,
    /// Files that are part of the store from now on.
    pub(crate) added: Vec<FileEntry>,
    /// Paths of files that no longer are.
    pub(crate) removed: Vec<String>,
    /// Events that the added files hold and no file did before.
    pub(crate) covered: Vec<EventRange>,
    /// The writer, by a number that it drew when it opened the store.
    #[serde(default)]
    pub(crate) writer: u64,
}

/// All that the commits so far came to.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct ManifestCheckpoint {
    files: Vec<FileEntry>,
    covered: Vec<EventRange>,
    /// Removed files that may still be there.
    doomed: Vec<String>,
}

/// State of the commit log: the files and events that it names, and its end.
#[derive(Debug, Default)]
pub(crate) struct ManifestLog {
    /// The files of the store, by path.
    pub(crate) files: BTreeMap<String, FileEntry>,
    /// Events that they hold, or that they held before retention.
    pub(crate) covered: DedupSet,
    /// Removed files that may still be there.
    pub(crate) doomed: Vec<String>,
    /// Objects of the log without which it is not known what belongs to the store, by path, with
    /// the reason.
    pub(crate) bad: Vec<(String, String)>,
    /// Objects that cannot be read and are not needed, in the same way.
    pub(crate) spare: Vec<(String, String)>,
    /// Number of the next commit.
    next: u64,
    since_full: u64,
    fulls: Vec<u64>,
    /// The first commit object that is still there.
    oldest: u64,
    /// The last commit, as it was read; none if a `full` object tells it.
    last: Option<Commit>,
    /// Drawn by this process; 0 where it only reads.
    writer: u64,
    /// True if the outcome of the next commit is not known.
    in_doubt: bool,
    /// Error that ends all writing, once another process writes to the store.
    fenced: Option<String>,
    /// Number of the last `full` object.
    last_told: u64,
}

/// Readable parts of a log that is not sound: its file entries and its damaged objects.
#[derive(Debug, Default)]
pub(crate) struct SalvagedManifest {
    /// True if the log is sound after all.
    pub(crate) is_sound: bool,
    /// File entries of every readable commit and `full` object, by path.
    pub(crate) entries: BTreeMap<String, FileEntry>,
    /// Objects of the log that cannot be read.
    pub(crate) damaged: Vec<String>,
}

impl SalvagedManifest {
    fn add(&mut self, entries: Vec<FileEntry>) {
        let by_path = |entry: FileEntry| (entry.path.clone(), entry);
        self.entries.extend(entries.into_iter().map(by_path));
    }
}

/// Error of a commit that is not known to be made.
#[derive(Debug)]
pub(crate) enum MakeError {
    /// It was not made, and will not be unless it is tried again.
    NotMade(io::Error),
    /// It may be there: its files must stay, and it must be tried again before any other.
    Unknown(io::Error),
}

impl MakeError {
    pub(crate) fn into_inner(self) -> io::Error {
        match self {
            Self::NotMade(error) | Self::Unknown(error) => error,
        }
    }
}

impl ManifestLog {
    /// Reads the log.
    ///
    /// # Errors
    /// The folder or an object in it cannot be read just now. What is there but is not what was
    /// written is in [`Self::bad`].
    pub(crate) fn load(home: &DurableStorage) -> io::Result<Self> {
        let (commits, fulls) = numbered(home)?;
        let mut loaded = Self {
            fulls: fulls.keys().copied().collect(),
            oldest: commits.keys().next().copied().unwrap_or(1),
            ..Self::default()
        };
        let mut from = 0;
        for (number, path) in fulls.iter().rev() {
            match sound(read::<ManifestCheckpoint>(home, path))? {
                Ok(full) => {
                    loaded.take_full(full);
                    from = *number;
                    loaded.last_told = from;
                    break;
                }
                Err(why) => {
                    // It is no copy to fall back on.
                    loaded.fulls.retain(|bad| bad != number);
                    loaded.spare.push((path.clone(), why));
                }
            }
        }
        let mut expected = from + 1;
        for (number, path) in commits.range(from + 1..) {
            if *number != expected {
                loaded.bad.push((path.clone(), missing(expected, *number)));
            }
            expected = number + 1;
            match sound(read::<Commit>(home, path))? {
                Ok(commit) => {
                    loaded.apply(&commit);
                    loaded.last = Some(commit);
                }
                Err(why) => loaded.bad.push((path.clone(), why)),
            }
        }
        // A `full` object that cannot be read tells more than what was found.
        if let Some((number, path)) = fulls.last_key_value()
            && *number >= expected
        {
            let why = missing(expected, number + 1);
            loaded.bad.push((path.clone(), why));
            expected = number + 1;
        }
        if home.has(&path(expected)) == Some(true) {
            let why = "there is something else in its place".to_owned();
            loaded.bad.push((path(expected), why));
            expected += 1;
        }
        loaded.next = expected;
        loaded.since_full = expected - 1 - from;
        Ok(loaded)
    }

    /// Takes the log for this process: from now on no other can commit without this one noticing,
    /// and what was read is durable.
    ///
    /// # Errors
    /// It is not known whether a power cut would undo the last commit, or another process writes.
    pub(crate) fn take_over(&mut self, home: &DurableStorage, writer: u64) -> io::Result<()> {
        self.writer = writer;
        if home.as_folder().is_some() {
            // The folder is locked. A former process may have ended between the last commit and its
            // sync.
            return match &self.last {
                Some(_) if is_on(Mutant::NoSettle) => Ok(()),
                Some(last) => home.settle(&path(self.next - 1), told(last)?),
                None => Ok(()),
            };
        }
        if is_on(Mutant::NoFence) {
            return Ok(());
        }
        // A request of a former process may be on its way yet: the number that it wants is taken.
        let fence = Commit {
            at_ms: crate::chance::now().0 / 1_000_000,
            why: "open".to_owned(),
            writer,
            ..Commit::default()
        };
        for _ in 0..LATE_MAX {
            match self.make(home, &fence) {
                Ok(()) => return Ok(()),
                Err(error) if self.fenced.take().is_none() => return Err(error.into_inner()),
                Err(_) => {
                    let late: Commit = read(home, &path(self.next))?;
                    self.apply(&late);
                    self.next += 1;
                    self.since_full += 1;
                }
            }
        }
        Err(foreign(&path(self.next)))
    }

    /// Reads what can be read of a log. Where it is not sound, what every part says is put
    /// together: files of whatever commit, for their checksums; events that were ever covered; what
    /// was removed.
    ///
    /// # Errors
    /// As for [`Self::load`].
    pub(crate) fn salvage(home: &DurableStorage) -> io::Result<(Self, SalvagedManifest)> {
        let sound_log = Self::load(home)?;
        let mut parts = SalvagedManifest {
            is_sound: sound_log.bad.is_empty(),
            ..SalvagedManifest::default()
        };
        if parts.is_sound {
            return Ok((sound_log, parts));
        }
        let (commits, fulls) = numbered(home)?;
        let mut salvaged = Self::default();
        // In the order in which they were made: what was removed may have been taken in again.
        let mut doomed = BTreeSet::new();
        let told = last_readable(home, &fulls)?;
        let numbers: BTreeSet<u64> = commits.keys().chain(fulls.keys()).copied().collect();
        for number in numbers {
            if let Some(path) = commits.get(&number) {
                match sound(read::<Commit>(home, path))? {
                    Ok(commit) => {
                        if number > told {
                            commit.covered.iter().for_each(|s| salvaged.covered.add(s));
                        }
                        doomed.extend(commit.removed);
                        for file in &commit.added {
                            doomed.remove(&file.path);
                        }
                        parts.add(commit.added);
                    }
                    Err(_) => parts.damaged.push(path.clone()),
                }
            }
            if let Some(path) = fulls.get(&number) {
                match sound(read::<ManifestCheckpoint>(home, path))? {
                    Ok(full) => {
                        full.covered.iter().for_each(|s| salvaged.covered.add(s));
                        doomed.extend(full.doomed);
                        for file in &full.files {
                            doomed.remove(&file.path);
                        }
                        parts.add(full.files);
                    }
                    Err(_) => parts.damaged.push(path.clone()),
                }
            }
        }
        salvaged.doomed = doomed.into_iter().collect();
        let last = |all: &NumberedObjects| all.last_key_value().map_or(0, |(number, _)| *number);
        for (path, _) in sound_log.bad {
            if home.has(&path) == Some(true) && !parts.damaged.contains(&path) {
                let listed = commits
                    .values()
                    .chain(fulls.values())
                    .any(|one| *one == path);
                parts.damaged.extend((!listed).then_some(path));
            }
        }
        // The new list is told under a number that no object had.
        let last = last(&commits).max(last(&fulls)).max(sound_log.next);
        salvaged.next = last + 2;
        salvaged.fulls = fulls.keys().copied().collect();
        salvaged.oldest = commits.keys().next().copied().unwrap_or(salvaged.next);
        Ok((salvaged, parts))
    }

    /// Writes the list as it is here, in place of what was read.
    ///
    /// # Errors
    /// The list is as it was.
    pub(crate) fn replace_list(&mut self, home: &DurableStorage) -> io::Result<()> {
        self.tell_all(home)
    }

    fn take_full(&mut self, full: ManifestCheckpoint) {
        let by_path = |file: FileEntry| (file.path.clone(), file);
        self.files = full.files.into_iter().map(by_path).collect();
        full.covered
            .iter()
            .for_each(|stretch| self.covered.add(stretch));
        self.doomed = full.doomed;
    }

    fn apply(&mut self, commit: &Commit) {
        for path in &commit.removed {
            self.files.remove(path);
            self.doomed.push(path.clone());
        }
        for file in &commit.added {
            self.files.insert(file.path.clone(), file.clone());
        }
        commit
            .covered
            .iter()
            .for_each(|stretch| self.covered.add(stretch));
    }

    /// This process's number, for commits.
    pub(crate) fn writer(&self) -> u64 {
        self.writer
    }

    /// Makes a commit. When this returns `Ok`, it is durable and part of what is said here. After
    /// [`MakeError::Unknown`] the same commit has to be tried again before any other.
    ///
    /// # Errors
    /// See [`MakeError`]. [`io::ErrorKind::AlreadyExists`]: another process writes to this store,
    /// and nothing can be committed any more.
    pub(crate) fn make(&mut self, home: &DurableStorage, commit: &Commit) -> Result<(), MakeError> {
        if let Some(why) = &self.fenced {
            let error = io::Error::new(io::ErrorKind::AlreadyExists, why.clone());
            return Err(MakeError::NotMade(error));
        }
        self.keep_list(home).map_err(MakeError::NotMade)?;
        let path = path(self.next);
        let bytes = told(commit).map_err(MakeError::NotMade)?;
        let created = match self.in_doubt {
            false => home.create(&path, bytes.clone()),
            // Perhaps it is there.
            true => Ok(CreateOutcome::Taken),
        };
        match created {
            Ok(CreateOutcome::Made) => {}
            Err(CreateError::NotMade(error)) => return Err(MakeError::NotMade(error)),
            Ok(CreateOutcome::Taken) | Err(CreateError::Unknown(_)) => {
                self.in_doubt = true;
                self.find_out(home, &path, commit, bytes)?;
            }
        }
        self.in_doubt = true;
        if self.is_superseded(home).map_err(MakeError::Unknown)? {
            let error = foreign(&path);
            self.fenced = Some(error.to_string());
            self.in_doubt = false;
            return Err(MakeError::NotMade(error));
        }
        self.in_doubt = false;
        self.next += 1;
        self.since_full += 1;
        self.apply(commit);
        Ok(())
    }

    /// True if another writer took our number and has since deleted that commit. Then the commit
    /// before is gone too, for it deletes them in their order. In a folder the lock keeps others
    /// away.
    fn is_superseded(&self, home: &DurableStorage) -> io::Result<bool> {
        if home.as_folder().is_some() || self.next < 2 || is_on(Mutant::TrustNumber) {
            return Ok(false);
        }
        let before = match self.last_told == self.next - 1 {
            true => full_path(self.last_told),
            false => path(self.next - 1),
        };
        match home.get(&before, OBJECT_BYTES_MAX) {
            Ok(_) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Tells all again where somebody has deleted the list, or a commit would stand alone there.
    fn keep_list(&mut self, home: &DurableStorage) -> io::Result<()> {
        if self.next < 2 || self.in_doubt || home.has(&path(self.next - 1)) != Some(false) {
            return Ok(());
        }
        if self.last_told == self.next - 1 && home.has(&full_path(self.last_told)) == Some(true) {
            return Ok(());
        }
        tracing::warn!("store: the list of files was deleted by somebody; it is written again");
        self.tell_all(home)?;
        self.fulls = vec![self.last_told];
        Ok(())
    }

    /// Finds out about a commit that may be there: when this returns `Ok`, it is, and durable.
    fn find_out(
        &mut self,
        home: &DurableStorage,
        path: &str,
        commit: &Commit,
        bytes: Bytes,
    ) -> Result<(), MakeError> {
        match read::<Commit>(home, path) {
            Ok(_) if is_on(Mutant::SkipReadBack) => Ok(()),
            Ok(found) if found == *commit => home.settle(path, bytes).map_err(MakeError::Unknown),
            Ok(_) => {
                let error = foreign(path);
                self.fenced = Some(error.to_string());
                self.in_doubt = false;
                Err(MakeError::NotMade(error))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match home.create(path, bytes) {
                    Ok(CreateOutcome::Made) => Ok(()),
                    Ok(CreateOutcome::Taken) => {
                        let late = io::Error::other(format!("{path} came to be there just now"));
                        Err(MakeError::Unknown(late))
                    }
                    Err(CreateError::NotMade(error) | CreateError::Unknown(error)) => {
                        Err(MakeError::Unknown(error))
                    }
                }
            }
            Err(error) => Err(MakeError::Unknown(error)),
        }
    }

    /// Tells all again if enough has come since the last time, and deletes what is told twice.
    ///
    /// # Errors
    /// Nothing is lost then, and the next try does it.
    pub(crate) fn tell_all_if_due(&mut self, home: &DurableStorage) -> io::Result<()> {
        if self.since_full < commits_between().max(self.files.len() as u64 / 10) {
            return Ok(());
        }
        if is_on(Mutant::DeleteLog) {
            for number in self.oldest..self.next {
                home.delete(&path(number))?;
            }
        }
        self.tell_all(home)?;
        while self.fulls.len() > FULLS_KEPT {
            let old = self.fulls[0];
            home.delete(&full_path(old))?;
            self.fulls.remove(0);
        }
        let keep_from = self.fulls.first().copied().unwrap_or(0) + 1;
        while self.oldest < keep_from.min(self.next) && self.fulls.len() == FULLS_KEPT {
            home.delete(&path(self.oldest))?;
            self.oldest += 1;
        }
        Ok(())
    }

    /// Tells all that the commits so far came to.
    ///
    /// # Errors
    /// It is not durable; what was told before is there as it was.
    pub(crate) fn tell_all(&mut self, home: &DurableStorage) -> io::Result<()> {
        let number = self.next - 1;
        let full = ManifestCheckpoint {
            files: self.files.values().cloned().collect(),
            covered: self.covered.stretches(),
            doomed: self.doomed.clone(),
        };
        home.put(&full_path(number), told(&full)?)?;
        self.since_full = 0;
        self.last_told = number;
        if self.fulls.last() != Some(&number) {
            self.fulls.push(number);
        }
        Ok(())
    }
}

/// Commits and `full` objects by their numbers.
type NumberedObjects = BTreeMap<u64, String>;

fn numbered(home: &DurableStorage) -> io::Result<(NumberedObjects, NumberedObjects)> {
    let mut commits = NumberedObjects::new();
    let mut fulls = NumberedObjects::new();
    for listed in home.list(FOLDER)? {
        let name = listed.path.strip_prefix(FOLDER).unwrap_or_default();
        let numbered = |end| {
            let digits: &str = name.strip_suffix(end)?;
            digits.parse::<u64>().ok().filter(|n| *n < u64::MAX)
        };
        if let Some(number) = numbered(COMMIT) {
            commits.insert(number, listed.path);
        } else if let Some(number) = numbered(FULL) {
            fulls.insert(number, listed.path);
        }
    }
    Ok((commits, fulls))
}

/// The number up to which a readable `full` object tells all events. A commit before, that it does
/// not tell, was never made: its writer came too late, and its files are gone.
fn last_readable(home: &DurableStorage, fulls: &NumberedObjects) -> io::Result<u64> {
    for (number, path) in fulls.iter().rev() {
        if sound(read::<ManifestCheckpoint>(home, path))?.is_ok() {
            return Ok(*number);
        }
    }
    Ok(0)
}

fn path(number: u64) -> String {
    format!("{FOLDER}{number:020}{COMMIT}")
}

fn full_path(number: u64) -> String {
    format!("{FOLDER}{number:020}{FULL}")
}

fn missing(from: u64, to: u64) -> String {
    match to - from {
        1 => format!("commit {from} is not there"),
        _ => format!("commits {from} to {} are not there", to - 1),
    }
}

fn foreign(path: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::AlreadyExists,
        format!("{path} was made by another process: give each writer a store of its own"),
    )
}

/// Tells what is not what was written from what cannot be read just now.
fn sound<T>(read: io::Result<T>) -> io::Result<Result<T, String>> {
    use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    match read {
        Ok(read) => Ok(Ok(read)),
        Err(error) if matches!(error.kind(), InvalidData | NotFound | UnexpectedEof) => {
            Ok(Err(error.to_string()))
        }
        Err(error) => Err(error),
    }
}

fn told<T: Serialize>(what: &T) -> io::Result<Bytes> {
    let mut lines = serde_json::to_vec(what)?;
    let sum = crc32c(&lines);
    lines.extend_from_slice(format!("\n{sum:08x}\n").as_bytes());
    Ok(lines.into())
}

fn read<T: DeserializeOwned>(home: &DurableStorage, path: &str) -> io::Result<T> {
    let bytes = insist(|| home.get(path, OBJECT_BYTES_MAX))?;
    let broken = || io::Error::new(io::ErrorKind::InvalidData, "its checksum is not right");
    let text = bytes.strip_suffix(b"\n").ok_or_else(broken)?;
    let cut = text.iter().rposition(|b| *b == b'\n').ok_or_else(broken)?;
    let (json, sum) = (&text[..cut], &text[cut + 1..]);
    if sum != format!("{:08x}", crc32c(json)).as_bytes() {
        return Err(broken());
    }
    let parsed = serde_json::from_slice(json);
    parsed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
