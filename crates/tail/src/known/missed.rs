//! Files that were made and deleted before anybody opened them.
//!
//! # What it guarantees
//! * The kernel says of each file that it was made, and each one that is opened is noted by its
//!   inode. Once a name is quiet, the difference is the number of files that nobody reads.
//! * A file that has another name when it is opened counts for the name that it was made under.
//! * A name is quiet when a look at the notices has brought nothing of it: until then the file that
//!   was opened may be another one than that of the notice.
//! * The orders to a log are kept until its name is quiet: the reader knows of a gap before it
//!   reads what is behind, so that no event is joined over it.
//!
//! # Limits
//! Folders that are polled, and notices that the kernel lost, tell of nothing. Of two files with
//! one inode, one birth and one name, one is missed though both may be read. Orders are kept for
//! [`KEPT_MAX`] at most.
//!
//! # After a crash
//! All of it is of one process.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use inrush_transport::files::identity::{FileIdentity, InodeKey};
use inrush_transport::files::tree::TreeEvent;

use super::KnownFiles;
use super::names::is_packed_path;
use crate::tail::TailOrder;

/// Longest time for which the orders to a log are kept while its name is not quiet.
const KEPT_MAX: Duration = Duration::from_secs(2);

/// Names for which there is memory while all are quiet.
const NAMES_KEPT: usize = 64;

/// Files of one name since it was last quiet.
#[derive(Default)]
struct NameAccount {
    made: u64,
    /// By inode and birth: an inode is used again at once.
    seen: HashSet<(InodeKey, Option<i64>)>,
    /// Log that had the name when the first of these files was made.
    stream: Option<u64>,
    /// True if anything has happened since the last look at the notices.
    is_moving: bool,
    /// Time of the first look after its first change.
    since: Option<Instant>,
}

impl NameAccount {
    fn missed(&self) -> u64 {
        self.made.saturating_sub(self.seen.len() as u64)
    }
}

/// Names that are not quiet.
#[derive(Default)]
pub(crate) struct NameAccounts {
    names: HashMap<PathBuf, NameAccount>,
    /// The first name of what was renamed, by the name that it got.
    renamed: HashMap<PathBuf, PathBuf>,
}

impl NameAccounts {
    fn moving(&mut self, path: &Path) -> &mut NameAccount {
        let account = self.names.entry(path.to_owned()).or_default();
        account.is_moving = true;
        account
    }

    /// So many files were made under a name, which a log may have.
    fn made(&mut self, path: &Path, files: u64, stream: Option<u64>) {
        let account = self.moving(path);
        account.made += files;
        account.stream = account.stream.or(stream);
    }

    /// A file is open that has or had a name. `is_new`: no log had it before, so it may be one that
    /// was made under an earlier name.
    pub(crate) fn saw(&mut self, path: &Path, file: &FileIdentity, is_new: bool) {
        let seen = (file.key, file.birth_ns);
        self.moving(path).seen.insert(seen);
        let first = self.renamed.get(path).filter(|_| is_new);
        if let Some(account) = first.and_then(|first| self.names.get_mut(first)) {
            account.is_moving = true;
            account.seen.insert(seen);
        }
    }

    /// A file is there that cannot be opened now: it is not gone.
    pub(crate) fn refused(&mut self, path: &Path) {
        let account = self.moving(path);
        account.made = account.made.saturating_sub(1);
    }

    /// Notes a rename of a file.
    fn moved(&mut self, from: &Path, to: &Path) {
        self.stir(from);
        let first = self.renamed.get(from).map_or(from, PathBuf::as_path);
        if first != to && self.names.contains_key(first) {
            self.renamed.insert(to.to_owned(), first.to_owned());
        }
    }

    /// Takes note of what happened to names, before any of them is looked at.
    pub(crate) fn told(&mut self, event: &TreeEvent) {
        match event {
            TreeEvent::Found { path } | TreeEvent::Vanished { path } => self.stir(path),
            TreeEvent::Moved { from, to, .. } | TreeEvent::Missed { from, to } => {
                self.moved(from, to);
            }
            TreeEvent::Overflow => self.forget(),
            _ => {}
        }
    }

    fn stir(&mut self, path: &Path) {
        if let Some(account) = self.names.get_mut(path) {
            account.is_moving = true;
        }
    }

    /// Notices were lost: they tell of nothing.
    fn forget(&mut self) {
        self.names.clear();
        self.renamed.clear();
    }

    /// True if there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Gives back the memory that many names took.
    pub(crate) fn rest(&mut self) {
        if self.names.is_empty() {
            self.names.shrink_to(NAMES_KEPT);
            self.renamed.shrink_to(NAMES_KEPT);
        }
    }

    /// The names that are quiet, or have not been for too long.
    fn settle(&mut self, is_settled: bool, now: Instant) -> Vec<(PathBuf, NameAccount)> {
        let is_over = |_: &PathBuf, account: &mut NameAccount| {
            let since = *account.since.get_or_insert(now);
            let is_moving = std::mem::take(&mut account.is_moving);
            is_settled && !is_moving || now.saturating_duration_since(since) >= KEPT_MAX
        };
        let over = self.names.extract_if(is_over).collect();
        let names = &self.names;
        self.renamed.retain(|_, first| names.contains_key(first));
        over
    }
}

impl KnownFiles {
    /// So many files were made under a name. Compressed ones are found in another way.
    pub(crate) fn made(&mut self, path: &Path, files: u64) {
        if is_packed_path(path) {
            return;
        }
        let stream = self.by_path.get(path).copied();
        self.accounts.made(path, files, stream);
    }

    /// After a look at the notices: counts files that nobody opened under names that are quiet.
    /// `is_settled`: nothing of these notices is to come.
    pub(crate) fn settle_names(&mut self, is_settled: bool, now: Instant) {
        for (path, account) in self.accounts.settle(is_settled, now) {
            let missed = account.missed();
            if missed == 0 {
                continue;
            }
            self.counts.missed(missed);
            let file = path.display();
            tracing::warn!(%file, missed, "deleted before they could be opened: not read");
            if let Some(stream) = account.stream {
                self.counts.board.missed(stream, missed);
            }
            let is_chained = |stream: &u64| self.logs.get(stream).is_some_and(|log| log.is_chained);
            let log = account.stream.filter(is_chained);
            if let Some(stream) = log {
                let is_next =
                    |order: &TailOrder| matches!(order, TailOrder::Next(of, _) if *of == stream);
                let at = self.orders.iter().position(is_next);
                let at = at.unwrap_or(self.orders.len());
                self.orders.insert(at, TailOrder::Gap(stream));
            }
        }
    }

    /// Takes the orders to the reader. Those to go on with the next file of a log are kept until
    /// its name is quiet, and what follows them.
    pub(crate) fn take_orders(&mut self) -> Vec<TailOrder> {
        let mut kept = HashSet::new();
        let mut taken = Vec::new();
        for order in std::mem::take(&mut self.orders) {
            let stream = order.stream();
            let is_early = matches!(order, TailOrder::Next(..))
                && stream.is_some_and(|stream| self.is_moving(stream));
            if is_early || stream.is_some_and(|stream| kept.contains(&stream)) {
                kept.extend(stream);
                self.orders.push(order);
            } else {
                taken.push(order);
            }
        }
        taken
    }

    fn is_moving(&self, stream: u64) -> bool {
        let log = self.logs.get(&stream);
        log.is_some_and(|log| log.is_chained && self.accounts.names.contains_key(&*log.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> FileIdentity {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, name).unwrap();
        let mut identity = FileIdentity::of(&std::fs::File::open(&path).unwrap()).unwrap();
        // Its own inode and birth, by its name.
        identity.key.inode = name.bytes().map(u64::from).sum();
        identity.birth_ns = Some(1);
        identity
    }

    fn missed(accounts: &mut NameAccounts, now: Instant) -> Vec<u64> {
        let settled = accounts.settle(true, now).into_iter();
        settled.map(|(_, account)| account.missed()).collect()
    }

    #[test]
    fn what_was_made_and_not_seen_is_missed_once_the_name_is_quiet() {
        let (path, now) = (Path::new("/a.log"), Instant::now());
        let mut accounts = NameAccounts::default();
        accounts.made(path, 1, None);
        assert_eq!(missed(&mut accounts, now), [0; 0], "it may be opened yet");
        // Another one had the name when it was opened; the notice of that comes behind.
        accounts.saw(path, &file("2"), true);
        accounts.made(path, 2, None);
        assert_eq!(missed(&mut accounts, now), [0; 0]);
        accounts.stir(path);
        assert_eq!(missed(&mut accounts, now), [0; 0]);
        accounts.saw(path, &file("2"), true);
        accounts.saw(path, &file("3"), true);
        assert_eq!(missed(&mut accounts, now), [0; 0]);
        assert_eq!(missed(&mut accounts, now), [1]);
        assert!(accounts.is_empty());
    }

    #[test]
    fn a_file_counts_for_the_name_that_it_was_made_under() {
        let [log, older, oldest] = ["/a.log", "/a.log.1", "/a.log.2"].map(Path::new);
        let now = Instant::now();
        let mut accounts = NameAccounts::default();
        accounts.made(log, 3, None);
        accounts.moved(log, older);
        accounts.saw(older, &file("1"), true);
        accounts.moved(older, oldest);
        accounts.saw(oldest, &file("2"), true);
        // One of an earlier time.
        accounts.saw(oldest, &file("0"), false);
        assert_eq!(missed(&mut accounts, now), [0; 0]);
        let mut missed = missed(&mut accounts, now);
        missed.sort_unstable();
        assert_eq!(missed, [0, 0, 1]);
        assert!(accounts.renamed.is_empty());
    }

    #[test]
    fn an_inode_that_is_used_again_is_another_file() {
        let (path, now) = (Path::new("/a.log"), Instant::now());
        let mut accounts = NameAccounts::default();
        accounts.made(path, 2, None);
        let mut again = file("1");
        accounts.saw(path, &again, true);
        again.birth_ns = Some(2);
        accounts.saw(path, &again, true);
        assert_eq!(missed(&mut accounts, now), [0; 0]);
        assert_eq!(missed(&mut accounts, now), [0]);
    }

    #[test]
    fn what_cannot_be_opened_is_not_missed_and_no_name_moves_for_ever() {
        let (path, now) = (Path::new("/a.log"), Instant::now());
        let mut accounts = NameAccounts::default();
        accounts.made(path, 1, None);
        accounts.refused(path);
        assert_eq!(missed(&mut accounts, now), [0; 0]);
        assert_eq!(missed(&mut accounts, now), [0]);
        accounts.made(path, 3, None);
        assert_eq!(missed(&mut accounts, now), [0; 0]);
        accounts.saw(path, &file("1"), true);
        assert_eq!(missed(&mut accounts, now + KEPT_MAX), [2]);
    }
}
