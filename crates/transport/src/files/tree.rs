//! Discovery of files by patterns: notices of the kernel and listings put together, without a
//! thread of its own.
//!
//! # What it guarantees
//! * A folder is watched before it is listed, so a file that is made in a new folder at once is
//!   found.
//! * What cannot be watched is listed every poll interval: a folder without a free watch, on a file
//!   system of other hosts, or without permission; a link that leads to nothing; a prefix of a
//!   pattern that does not exist and whose folders above cannot be watched.
//! * After lost notices every folder is listed again, and every file is reported again.
//! * A link that matches is found again when it is changed, and when its target's name gets another
//!   file (a log of docker behind the link of a pod).
//!
//! # States
//! A name in a folder: unknown → found (or refused, reported once) → moved or vanished. A rename is
//! paired with its second half for [`MOVE_HOLD`]; after that it is a vanished file. A name that
//! came and went between two polls is missed: its file is told by the second half of its rename. A
//! renamed folder vanishes with all its files, and its new name is found with them: their inodes
//! stay.
//!
//! A folder: announced by the walk → watched → listed → watched, or polled where it cannot be
//! watched.
//!
//! # Limits
//! Folders: 262,144 ([`FOLDERS_MAX`]). Names of files and folders that match: 1,048,576
//! ([`KNOWN_MAX`]), about 100 bytes each. A poll ends after 8,192 events ([`EVENTS_MAX`]),
//! with up to 4,096 more of the same read of notices, and those of a folder that vanishes; a
//! listing goes on at the next one. Names that wait for an interval
//! to pass: 4,096 an interval, the rest at the next ([`RETRIES_MAX`]).
//!
//! # After a crash
//! Nothing of it is kept: a new watcher finds everything again.

mod file_watches;
mod folders;
mod links;
mod names;
mod notices;
mod roots;

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::event::Source;
use mio::{Interest, Registry, Token};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

pub use file_watches::FileWatch;
use file_watches::FileWatches;
use folders::{FolderKey, FolderView};
use links::LinkWatch;
use notices::{PendingMove, WatchUse};
use roots::TreeRoot;

use super::glob::{GlobFault, GlobSet};
use super::tail_file::{AllowedRoots, PathRefusal, TailFile};
use super::walk::{FolderVisit, TreeWalk, WalkItem};
use super::watch::{InotifyWatcher, WatchEvent, WatchNumber, WatchRefusal};

/// Folders that are known at a time.
pub const FOLDERS_MAX: usize = 1 << 18;

/// Names that match and are known at a time.
pub const KNOWN_MAX: usize = 1 << 20;

/// Events after which a poll ends.
pub const EVENTS_MAX: usize = 8192;

/// Steps of a listing in a poll.
const STEPS_MAX: usize = 1 << 16;

/// Names that are looked at again in an interval.
pub const RETRIES_MAX: usize = 4096;

/// Time in which the second half of a rename is waited for. The kernel queues both one after the
/// other, though not at one moment.
pub const MOVE_HOLD: Duration = Duration::from_millis(10);

/// Options of a [`TreeWatcher`].
#[derive(Clone, Debug)]
pub struct TreeOptions {
    /// Patterns of files.
    pub include: Vec<String>,
    /// Patterns of files that are left out.
    pub exclude: Vec<String>,
    /// Folders that links may lead to, beside the prefixes of the patterns.
    pub allowed_roots: Vec<PathBuf>,
    /// Links may lead anywhere.
    pub follow_outside: bool,
    /// Interval of looking at what cannot be watched.
    pub poll_interval: Duration,
    /// Watches to use at most; the rest is for other programs of the user.
    pub watches_max: usize,
}

/// A change of an open file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileChange {
    /// Its content.
    Content,
    /// Its attributes: look at the number of its names.
    Attributes,
    /// Its name.
    Name,
    /// Its watch ended: it was deleted and nobody else has it open, or its file system went.
    Ended,
}

/// An event of a [`TreeWatcher`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TreeEvent {
    /// A path that matches names a file, perhaps another one than before: compare its identity.
    Found {
        /// The path.
        path: PathBuf,
    },
    /// A path that was found has no file any more.
    Vanished {
        /// The path.
        path: PathBuf,
    },
    /// A file that was found has another name in a watched folder.
    Moved {
        /// The path that it was found by.
        from: PathBuf,
        /// Its path.
        to: PathBuf,
        /// True if its path matches; else the file is followed under its old name alone.
        to_matches: bool,
    },
    /// A file had a path that matches, and was renamed before it was found by it.
    Missed {
        /// The path that it had.
        from: PathBuf,
        /// Its path, in a watched folder; it need not match.
        to: PathBuf,
    },
    /// A watched file changed. At most one event a kind of change and poll.
    Changed {
        /// The file.
        file: FileWatch,
        /// The change.
        change: FileChange,
    },
    /// A path that matches is passed over, or a folder on the way to matches.
    Refused {
        /// The path.
        path: PathBuf,
        /// The reason.
        reason: PathRefusal,
    },
    /// A folder is polled, not watched. One event a reason until all folders are watched again:
    /// [`TreeCounts::folders_polled`] counts them.
    Polling {
        /// The folder.
        path: PathBuf,
        /// The reason.
        reason: WatchRefusal,
    },
    /// Notices were lost. All paths are found again, and all files are reported as changed.
    Overflow,
}

/// State of a [`TreeWatcher`] in numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TreeCounts {
    /// Folders on the way to matches, and in which matches are.
    pub folders: usize,
    /// Those of them that are polled.
    pub folders_polled: usize,
    /// Names that match: files, folders, and what is refused.
    pub names: usize,
    /// Files that are watched by the kernel.
    pub files_watched: usize,
    /// Files that are polled.
    pub files_polled: usize,
    /// Watches of the kernel.
    pub watches: usize,
    /// Times that notices were lost.
    pub overflows: u64,
}

/// Finds files by patterns and reports their changes.
pub struct TreeWatcher {
    /// `None` without an instance: all is polled.
    watcher: Option<InotifyWatcher>,
    watches_max: usize,
    walk: TreeWalk,
    /// Folder that the walk is in.
    listing: Option<Arc<FolderVisit>>,
    /// Names that left that folder while it was being listed: its buffer may still have them.
    left: HashSet<OsString>,
    roots: Vec<TreeRoot>,
    folders: HashMap<FolderKey, Box<FolderView>>,
    names: usize,
    uses: HashMap<WatchNumber, WatchUse>,
    links: HashMap<PathBuf, LinkWatch>,
    moves: Vec<PendingMove>,
    files: FileWatches,
    retries: VecDeque<PathBuf>,
    retries_known: HashSet<PathBuf>,
    refusals: HashSet<WatchRefusal>,
    too_many: bool,
    notices: Vec<WatchEvent>,
    /// Files that were made since it was last asked, by their paths that match.
    made: HashMap<PathBuf, u64>,
    /// True if the kernel has no more notices.
    drained: bool,
    overflows: u64,
    poll_interval: Duration,
    next_look: Instant,
}

impl TreeWatcher {
    /// A watcher for patterns; the first [`TreeWatcher::poll`] begins to find files. On failure:
    /// the pattern and its fault.
    ///
    /// # Errors
    /// A pattern is none.
    pub fn new(options: &TreeOptions) -> Result<Self, (String, GlobFault)> {
        let globs = Arc::new(GlobSet::new(&options.include, &options.exclude)?);
        let mut allowed = globs.prefixes();
        allowed.extend_from_slice(&options.allowed_roots);
        let allowed = Arc::new(AllowedRoots::new(allowed, options.follow_outside));
        Ok(Self {
            watcher: None,
            watches_max: options.watches_max,
            roots: globs.roots().into_iter().map(TreeRoot::new).collect(),
            walk: TreeWalk::new(globs, allowed),
            listing: None,
            left: HashSet::new(),
            folders: HashMap::new(),
            names: 0,
            uses: HashMap::new(),
            links: HashMap::new(),
            moves: Vec::new(),
            files: FileWatches::default(),
            retries: VecDeque::new(),
            retries_known: HashSet::new(),
            refusals: HashSet::new(),
            too_many: false,
            notices: Vec::new(),
            made: HashMap::new(),
            drained: true,
            overflows: 0,
            poll_interval: options.poll_interval,
            next_look: Instant::now(),
        }
        .with_instance())
    }

    /// Opens inotify; without an instance everything is polled, and each folder says so.
    fn with_instance(mut self) -> Self {
        self.watcher = InotifyWatcher::new(self.watches_max).ok();
        self
    }

    /// Roots that links may lead to: [`TailFile::open`] needs them.
    pub fn allowed_roots(&self) -> &Arc<AllowedRoots> {
        self.walk.allowed_roots()
    }

    /// Waits for events, at most for `timeout`, and appends them. It may return without any before
    /// that.
    ///
    /// # Errors
    /// `poll(2)` or `read(2)` on the instance of inotify.
    pub fn poll(&mut self, timeout: Duration, events: &mut Vec<TreeEvent>) -> io::Result<()> {
        self.wait(timeout.min(self.due_in(Instant::now())))?;
        let full = events.len() + EVENTS_MAX;
        self.files.begin_round();
        self.read_notices(full, events)?;
        let now = Instant::now();
        self.settle_moves(now, events);
        if now >= self.next_look {
            self.next_look = now + self.poll_interval;
            self.look_again(events);
        }
        self.walk_on(full, events);
        Ok(())
    }

    /// Files that were made in watched folders since the last call, by their paths, which match: as
    /// many as there were, though later ones have the name now. After lost notices it is empty.
    pub fn take_made(&mut self) -> HashMap<PathBuf, u64> {
        std::mem::take(&mut self.made)
    }

    /// True if all notices are read, and no rename waits for its second half.
    pub fn is_settled(&self) -> bool {
        self.drained && self.moves.is_empty()
    }

    /// Time after which [`TreeWatcher::poll`] has something to do without any notice.
    pub fn due_in(&self, now: Instant) -> Duration {
        if !self.drained || !self.walk.is_done() {
            return Duration::ZERO;
        }
        let moves = self.moves.iter().map(|pending| pending.until);
        let due = moves.min().unwrap_or(self.next_look).min(self.next_look);
        due.saturating_duration_since(now)
    }

    fn wait(&self, timeout: Duration) -> io::Result<()> {
        if timeout.is_zero() {
            return Ok(());
        }
        // Rounded up, or the last part of a millisecond would be spent in a circle.
        let millis = timeout.as_nanos().div_ceil(1_000_000);
        let timeout = PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX);
        let mut fds: Vec<PollFd<'_>> = self
            .watcher
            .iter()
            .map(|watcher| PollFd::new(watcher.as_fd(), PollFlags::POLLIN))
            .collect();
        match poll(&mut fds, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn walk_on(&mut self, full: usize, events: &mut Vec<TreeEvent>) {
        for _ in 0..STEPS_MAX {
            if events.len() >= full {
                return;
            }
            match self.walk.step() {
                None => return,
                Some(WalkItem::Folder(visit)) => self.begin_folder(visit, events),
                Some(WalkItem::Entry(name, entry)) => self.note_listed(name, entry, events),
                Some(WalkItem::End(reason)) => self.end_folder(reason, events),
            }
        }
    }

    /// Looks at everything that no notice comes from.
    fn look_again(&mut self, events: &mut Vec<TreeEvent>) {
        if self.watcher.is_none() {
            self.watcher = InotifyWatcher::new(self.watches_max).ok();
        }
        for root in 0..self.roots.len() {
            self.settle_root(root, events);
        }
        for _ in 0..self.retries.len().min(RETRIES_MAX) {
            if let Some(path) = self.retries.pop_front() {
                self.retries_known.remove(&path);
                self.retry(&path, events);
            }
        }
        self.files.look(events);
        let mut views = self.folders.values();
        if views.all(|view| !view.polled) && self.roots.iter().all(TreeRoot::is_watched) {
            self.refusals.clear();
        }
    }

    /// Puts a path among those that are looked at again.
    fn look_later(&mut self, path: &Path) {
        if self.retries_known.insert(path.to_owned()) {
            self.retries.push_back(path.to_owned());
        }
    }

    /// True once all that was there is found, as far as it can be listed: no folder waits for it.
    pub fn is_listed(&self) -> bool {
        self.walk.is_done()
    }

    /// Lists every folder again, and finds every path again.
    pub fn rescan(&mut self) {
        let mut visits = Vec::new();
        for view in self.folders.values_mut() {
            view.thorough = true;
            if !std::mem::replace(&mut view.queued, true) {
                visits.push(Arc::clone(&view.visit));
            }
        }
        for visit in visits {
            self.walk.push(visit);
        }
        self.next_look = Instant::now();
    }

    /// Watches an open file under a number, in place of another one that has it; or goes on with
    /// its events. Read it to its end after that: what was written before is no event. With a
    /// refusal the file is polled.
    pub fn watch_file(&mut self, number: FileWatch, file: &Arc<TailFile>) -> Option<WatchRefusal> {
        self.files.add(self.watcher.as_mut(), number, file)
    }

    /// Stops the events of a file that is busy, until it is watched again: each write costs the
    /// kernel a notice.
    pub fn pause_file(&mut self, file: FileWatch) {
        self.files.pause(self.watcher.as_mut(), file);
    }

    /// Forgets a file.
    pub fn forget_file(&mut self, file: FileWatch) {
        self.files.remove(self.watcher.as_mut(), file);
    }

    /// The state in numbers.
    pub fn counts(&self) -> TreeCounts {
        let (files_watched, files_polled) = self.files.counts();
        TreeCounts {
            folders: self.folders.len(),
            folders_polled: self.folders.values().filter(|view| view.polled).count(),
            names: self.names,
            files_watched,
            files_polled,
            watches: self.watcher.as_ref().map_or(0, InotifyWatcher::watches),
            overflows: self.overflows,
        }
    }
}

/// Readable when [`TreeWatcher::poll`] has notices; it also has to be polled after
/// [`TreeWatcher::due_in`]. Without an instance of inotify it is never readable.
impl Source for TreeWatcher {
    fn register(&mut self, to: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        match &mut self.watcher {
            Some(watcher) => watcher.register(to, token, interest),
            None => Ok(()),
        }
    }

    fn reregister(&mut self, to: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        match &mut self.watcher {
            Some(watcher) => watcher.reregister(to, token, interest),
            None => Ok(()),
        }
    }

    fn deregister(&mut self, from: &Registry) -> io::Result<()> {
        match &mut self.watcher {
            Some(watcher) => watcher.deregister(from),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
