//! Watches of open files.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use super::{FileChange, TreeEvent};
use crate::files::tail_file::{FileStatus, FileSystemKind, TailFile};
use crate::files::watch::{InotifyWatcher, WatchNumber, WatchRefusal};

/// Number of a watched file in its [`TreeWatcher`](super::TreeWatcher); never used again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FileWatch(u64);

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
    /// More than one where the same inode was opened more than once.
    by_watch: HashMap<WatchNumber, Vec<FileWatch>>,
    next: u64,
    round: u64,
}

impl FileWatches {
    pub(super) fn begin_round(&mut self) {
        self.round += 1;
    }

    pub(super) fn add(
        &mut self,
        watcher: Option<&mut InotifyWatcher>,
        file: &Arc<TailFile>,
    ) -> (FileWatch, Option<WatchRefusal>) {
        let number = FileWatch(self.next);
        self.next += 1;
        let watched = WatchedFile {
            file: Arc::downgrade(file),
            watch: None,
            polled: false,
            last: None,
            round: 0,
            reported: 0,
        };
        self.files.insert(number, watched);
        (number, self.resume(watcher, number))
    }

    pub(super) fn pause(&mut self, watcher: Option<&mut InotifyWatcher>, number: FileWatch) {
        let Some(watched) = self.files.get_mut(&number) else {
            return;
        };
        watched.polled = false;
        if let Some(watch) = watched.watch.take() {
            release(&mut self.by_watch, watcher, watch, number);
        }
    }

    pub(super) fn resume(
        &mut self,
        watcher: Option<&mut InotifyWatcher>,
        number: FileWatch,
    ) -> Option<WatchRefusal> {
        let watched = self.files.get_mut(&number)?;
        let file = watched.file.upgrade()?;
        if watched.watch.is_some() {
            return None;
        }
        let kind = FileSystemKind::of(file.as_file()).unwrap_or(FileSystemKind::Local);
        let refusal = match watcher.map(|watcher| watcher.watch_file(file.as_file())) {
            None => Some(WatchRefusal::NoInstance),
            Some(Err(refusal)) => Some(refusal),
            Some(Ok(watch)) => {
                watched.watch = Some(watch);
                let users = self.by_watch.entry(watch);
                users.or_insert_with(|| Vec::with_capacity(1)).push(number);
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
        for number in self.by_watch.get(&watch).into_iter().flatten() {
            if let Some(watched) = self.files.get_mut(number) {
                report(*number, watched, self.round, change, events);
            }
        }
    }

    /// A watch that the kernel removed.
    pub(super) fn end(&mut self, watch: WatchNumber, events: &mut Vec<TreeEvent>) {
        self.note(watch, FileChange::Ended, events);
        for number in self.by_watch.remove(&watch).into_iter().flatten() {
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
    by_watch: &mut HashMap<WatchNumber, Vec<FileWatch>>,
    watcher: Option<&mut InotifyWatcher>,
    watch: WatchNumber,
    number: FileWatch,
) {
    let Some(users) = by_watch.get_mut(&watch) else {
        return;
    };
    users.retain(|user| *user != number);
    if users.is_empty() {
        by_watch.remove(&watch);
        if let Some(watcher) = watcher {
            watcher.remove(watch);
        }
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
