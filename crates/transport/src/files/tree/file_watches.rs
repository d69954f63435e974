//! Watches of open files.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Weak};

use super::{FileChange, TreeEvent};
use crate::files::tail_file::{FileStatus, FileSystemKind, TailFile};
use crate::files::watch::{InotifyWatcher, WatchNumber, WatchRefusal};

/// Number of a watched file in its [`TreeWatcher`](super::TreeWatcher), as its user gives it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FileWatch(pub u64);

/// A file that is watched, polled or paused.
struct WatchedFile {
    file: Weak<TailFile>,
    watch: Option<WatchNumber>,
    /// No notice comes of it, or not of all its changes.
    polled: bool,
    /// Status at its last poll, if it is polled.
    last: Option<Box<FileStatus>>,
    /// The round in which it was last reported, and a bit for each kind of change.
    round: u64,
    reported: u8,
}

/// All files with their watches.
#[derive(Default)]
pub(super) struct FileWatches {
    files: HashMap<FileWatch, WatchedFile>,
    users: WatchUsers,
    round: u64,
}

/// Files of each watch.
#[derive(Default)]
struct WatchUsers {
    first: HashMap<WatchNumber, FileWatch>,
    /// Others, where the same inode was opened more than once.
    more: HashMap<WatchNumber, Vec<FileWatch>>,
}

impl WatchUsers {
    fn add(&mut self, watch: WatchNumber, file: FileWatch) {
        match self.first.entry(watch) {
            Entry::Vacant(first) => drop(first.insert(file)),
            Entry::Occupied(_) => self.more.entry(watch).or_default().push(file),
        }
    }

    /// Takes a file away. Returns true if the watch has none any more.
    fn remove(&mut self, watch: WatchNumber, file: FileWatch) -> bool {
        let others = self.more.get_mut(&watch);
        match self.first.get_mut(&watch) {
            Some(first) if *first == file => match others.and_then(Vec::pop) {
                Some(other) => *first = other,
                None => drop(self.first.remove(&watch)),
            },
            Some(_) => others
                .into_iter()
                .for_each(|more| more.retain(|one| *one != file)),
            None => return false,
        }
        if self.more.get(&watch).is_some_and(Vec::is_empty) {
            self.more.remove(&watch);
        }
        !self.first.contains_key(&watch)
    }

    fn of(&self, watch: WatchNumber) -> impl Iterator<Item = FileWatch> {
        let more = self.more.get(&watch).into_iter().flatten();
        self.first.get(&watch).into_iter().chain(more).copied()
    }

    /// Takes all files of a watch away.
    fn take(&mut self, watch: WatchNumber) -> impl Iterator<Item = FileWatch> {
        let more = self.more.remove(&watch).unwrap_or_default();
        self.first.remove(&watch).into_iter().chain(more)
    }
}

impl FileWatches {
    pub(super) fn begin_round(&mut self) {
        self.round += 1;
    }

    pub(super) fn add(
        &mut self,
        mut watcher: Option<&mut InotifyWatcher>,
        number: FileWatch,
        file: &Arc<TailFile>,
    ) -> Option<WatchRefusal> {
        let known = self.files.get(&number);
        if known.is_none_or(|known| known.file.as_ptr() != Arc::as_ptr(file)) {
            self.remove(watcher.as_deref_mut(), number);
            let watched = WatchedFile {
                file: Arc::downgrade(file),
                watch: None,
                polled: false,
                last: None,
                round: 0,
                reported: 0,
            };
            self.files.insert(number, watched);
        }
        self.resume(watcher, number, file)
    }

    pub(super) fn pause(&mut self, watcher: Option<&mut InotifyWatcher>, number: FileWatch) {
        let Some(watched) = self.files.get_mut(&number) else {
            return;
        };
        watched.polled = false;
        if let Some(watch) = watched.watch.take() {
            release(&mut self.users, watcher, watch, number);
        }
    }

    fn resume(
        &mut self,
        watcher: Option<&mut InotifyWatcher>,
        number: FileWatch,
        file: &Arc<TailFile>,
    ) -> Option<WatchRefusal> {
        let watched = self.files.get_mut(&number)?;
        if watched.watch.is_some() {
            return None;
        }
        let kind = FileSystemKind::of(file.as_file()).unwrap_or(FileSystemKind::Local);
        let refusal = match watcher.map(|watcher| watcher.watch_file(file.as_file())) {
            None => Some(WatchRefusal::NoInstance),
            Some(Err(refusal)) => Some(refusal),
            Some(Ok(watch)) => {
                watched.watch = Some(watch);
                self.users.add(watch, number);
                kind.needs_polling().then_some(WatchRefusal::Unnoticed)
            }
        };
        watched.polled = refusal.is_some();
        watched.last = watched
            .polled
            .then(|| Box::new(file.status().unwrap_or_default()));
        refusal
    }

    pub(super) fn remove(&mut self, watcher: Option<&mut InotifyWatcher>, number: FileWatch) {
        self.pause(watcher, number);
        self.files.remove(&number);
    }

    /// Reports a change of the files of a watch.
    pub(super) fn note(
        &mut self,
        watch: WatchNumber,
        change: FileChange,
        events: &mut Vec<TreeEvent>,
    ) {
        for number in self.users.of(watch) {
            if let Some(watched) = self.files.get_mut(&number) {
                report(number, watched, self.round, change, events);
            }
        }
    }

    /// A watch that the kernel removed.
    pub(super) fn end(&mut self, watch: WatchNumber, events: &mut Vec<TreeEvent>) {
        self.note(watch, FileChange::Ended, events);
        for number in self.users.take(watch) {
            if let Some(watched) = self.files.get_mut(&number) {
                watched.watch = None;
            }
        }
    }

    /// Reports all changes of all files that are not paused.
    pub(super) fn note_all(&mut self, events: &mut Vec<TreeEvent>) {
        for (number, watched) in &mut self.files {
            if watched.watch.is_none() {
                continue;
            }
            for change in [
                FileChange::Content,
                FileChange::Attributes,
                FileChange::Name,
            ] {
                report(*number, watched, self.round, change, events);
            }
        }
    }

    /// Looks at the files that are polled.
    pub(super) fn look(&mut self, events: &mut Vec<TreeEvent>) {
        for (number, watched) in &mut self.files {
            if !watched.polled {
                continue;
            }
            let Some(now) = watched.file.upgrade().and_then(|file| file.status().ok()) else {
                continue;
            };
            let last = watched.last.replace(Box::new(now)).unwrap_or_default();
            if (last.len, last.modified_ns) != (now.len, now.modified_ns) {
                report(*number, watched, self.round, FileChange::Content, events);
            }
            if last.links != now.links {
                report(*number, watched, self.round, FileChange::Attributes, events);
            }
        }
    }

    /// Files that are watched, and files that are polled.
    pub(super) fn counts(&self) -> (usize, usize) {
        let watched = self.files.values().filter(|file| file.watch.is_some());
        let polled = self.files.values().filter(|file| file.polled);
        (watched.count(), polled.count())
    }
}

fn release(
    users: &mut WatchUsers,
    watcher: Option<&mut InotifyWatcher>,
    watch: WatchNumber,
    number: FileWatch,
) {
    if users.remove(watch, number)
        && let Some(watcher) = watcher
    {
        watcher.remove(watch);
    }
}

/// Reports a change once a round.
fn report(
    number: FileWatch,
    watched: &mut WatchedFile,
    round: u64,
    change: FileChange,
    events: &mut Vec<TreeEvent>,
) {
    if watched.round != round {
        (watched.round, watched.reported) = (round, 0);
    }
    let bit = 1 << change as u8;
    if watched.reported & bit == 0 {
        watched.reported |= bit;
        events.push(TreeEvent::Changed {
            file: number,
            change,
        });
    }
}
