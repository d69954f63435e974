//! The log of commits: what belongs to the store, and which events it holds.
//!
//! A commit is one object, `_log/` and twenty digits, made only if there is none of that name: it
//! is there whole or not at all, and two processes cannot both make it. It names the files that it
//! adds, those that it removes, and the events that the added ones hold. Every so often a `full`
//! object tells all that the commits before came to, and those are deleted.
//!
//! Both are two lines: JSON, and its CRC-32C in hexadecimal digits.

use std::collections::BTreeMap;
use std::io;

use bytes::Bytes;
use inrush_event::crc32c;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::covered::{Covered, Stretch};
use crate::home::Home;
use crate::snapshot::FileEntry;

/// The folder of the log.
const FOLDER: &str = "_log/";
const COMMIT: &str = ".commit";
const FULL: &str = ".full";
/// Commits after which all is told again; or a tenth of the files, where that is more.
const COMMITS_BETWEEN: u64 = 100;
/// `full` objects that are kept: if the last cannot be read, the one before it can.
const FULLS_KEPT: usize = 2;

/// One change.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Commit {
    /// When, in milliseconds since 1970.
    pub(crate) at_ms: i64,
    /// Why: `ingest`, `compact`, `age`, `bytes` or `room`.
    pub(crate) why: String,
    /// Files that are part of the store from now on.
    pub(crate) added: Vec<FileEntry>,
    /// Paths of files that no longer are.
    pub(crate) removed: Vec<String>,
    /// Events that the added files hold and no file did before.
    pub(crate) covered: Vec<Stretch>,
}

/// All that the commits so far came to.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct Full {
    files: Vec<FileEntry>,
    covered: Vec<Stretch>,
    /// Removed files that may still be there.
    doomed: Vec<String>,
}

/// What the log says, and where it ends.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    /// The files of the store, by path.
    pub(crate) files: BTreeMap<String, FileEntry>,
    /// Events that they hold, or that they held before retention.
    pub(crate) covered: Covered,
    /// Removed files that may still be there.
    pub(crate) doomed: Vec<String>,
    /// Objects of the log that could not be read, by path, with the reason.
    pub(crate) bad: Vec<(String, String)>,
    /// Number of the next commit.
    next: u64,
    since_full: u64,
    fulls: Vec<u64>,
    /// The first commit object that is still there.
    oldest: u64,
}

impl Commits {
    /// Reads the log.
    ///
    /// # Errors
    /// The folder cannot be read. What is in it but cannot be read is in [`Self::bad`].
    pub(crate) fn load(home: &Home) -> io::Result<Self> {
        let mut commits = BTreeMap::new();
        let mut fulls = BTreeMap::new();
        for listed in home.list(FOLDER)? {
            let name = listed.path.strip_prefix(FOLDER).unwrap_or_default();
            let numbered = |end| {
                name.strip_suffix(end)
                    .and_then(|digits| digits.parse().ok())
            };
            if let Some(number) = numbered(COMMIT) {
                commits.insert(number, listed.path);
            } else if let Some(number) = numbered(FULL) {
                fulls.insert(number, listed.path);
            }
        }
        let mut loaded = Self {
            fulls: fulls.keys().copied().collect(),
            oldest: commits.keys().next().copied().unwrap_or(1),
            ..Self::default()
        };
        let mut from = 0;
        for (number, path) in fulls.iter().rev() {
            match read::<Full>(home, path) {
                Ok(full) => {
                    loaded.take_full(full);
                    from = *number;
                    break;
                }
                Err(error) => loaded.bad.push((path.clone(), error.to_string())),
            }
        }
        let mut expected = from + 1;
        for (number, path) in commits.range(from + 1..) {
            if *number != expected {
                let missing = format!("commits {expected} to {} are not there", number - 1);
                loaded.bad.push((path.clone(), missing));
            }
            expected = number + 1;
            match read::<Commit>(home, path) {
                Ok(commit) => loaded.apply(&commit),
                Err(error) => loaded.bad.push((path.clone(), error.to_string())),
            }
        }
        loaded.next = expected;
        loaded.since_full = expected - 1 - from;
        Ok(loaded)
    }

    fn take_full(&mut self, full: Full) {
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

    /// Makes a commit. When this returns, it is durable and part of what is said here.
    ///
    /// # Errors
    /// It was not made; [`io::ErrorKind::AlreadyExists`]: another process writes to this store.
    pub(crate) fn make(&mut self, home: &Home, commit: &Commit) -> io::Result<()> {
        let number = self.next;
        let path = format!("{FOLDER}{number:020}{COMMIT}");
        if !home.create(&path, told(commit)?)? {
            // Perhaps by ourselves: the write may have been reported as failed after it was done.
            if read::<Commit>(home, &path).ok().as_ref() != Some(commit) {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    format!("{path} is there: does another process write to this store?"),
                ));
            }
        }
        self.next += 1;
        self.since_full += 1;
        self.apply(commit);
        Ok(())
    }

    /// Tells all again if enough has come since the last time, and deletes what is told twice.
    ///
    /// # Errors
    /// Nothing is lost then, and the next try does it.
    pub(crate) fn tell_all_if_due(&mut self, home: &Home) -> io::Result<()> {
        if self.since_full < COMMITS_BETWEEN.max(self.files.len() as u64 / 10) {
            return Ok(());
        }
        let number = self.next - 1;
        let full = Full {
            files: self.files.values().cloned().collect(),
            covered: self.covered.stretches(),
            doomed: self.doomed.clone(),
        };
        home.put(&format!("{FOLDER}{number:020}{FULL}"), told(&full)?)?;
        self.since_full = 0;
        self.fulls.push(number);
        while self.fulls.len() > FULLS_KEPT {
            let old = self.fulls.remove(0);
            home.delete(&format!("{FOLDER}{old:020}{FULL}"))?;
        }
        let keep_from = self.fulls.first().copied().unwrap_or(0) + 1;
        while self.oldest < keep_from.min(self.next) && self.fulls.len() == FULLS_KEPT {
            home.delete(&format!("{FOLDER}{:020}{COMMIT}", self.oldest))?;
            self.oldest += 1;
        }
        Ok(())
    }
}

fn told<T: Serialize>(what: &T) -> io::Result<Bytes> {
    let mut lines = serde_json::to_vec(what)?;
    let sum = crc32c(&lines);
    lines.extend_from_slice(format!("\n{sum:08x}\n").as_bytes());
    Ok(lines.into())
}

fn read<T: DeserializeOwned>(home: &Home, path: &str) -> io::Result<T> {
    let bytes = home.get(path)?;
    let broken = || io::Error::new(io::ErrorKind::InvalidData, "its checksum is not right");
    let text = bytes.strip_suffix(b"\n").ok_or_else(broken)?;
    let cut = text.iter().rposition(|b| *b == b'\n').ok_or_else(broken)?;
    let (json, sum) = (&text[..cut], &text[cut + 1..]);
    if sum != format!("{:08x}", crc32c(json)).as_bytes() {
        return Err(broken());
    }
    Ok(serde_json::from_slice(json)?)
}
