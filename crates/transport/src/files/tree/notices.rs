//! Notices of the kernel, by their watch (inotify(7)).
//!
//! # What it guarantees
//! * Notices are handled in their order; what a name leads to is looked at then, and may be of
//!   later notices.
//! * A file that was made counts under its path, whatever has become of it by then.
//! * A folder has one watch, by however many paths it is reached; the watch is given back with its
//!   last use.
//! * Both halves of a rename make one event; a name that left and came nowhere is gone.
//!
//! # Limits
//! A rename waits [`MOVE_HOLD`] for its second half. Paths of files that were made, until somebody
//! takes them: [`EVENTS_MAX`].
//!
//! # After a crash
//! Notices that were not read are gone: a new watcher lists all folders.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::folders::FolderKey;
use super::names::NameTable;
use super::{EVENTS_MAX, FileChange, MOVE_HOLD, TreeEvent, TreeWatcher};
use crate::files::walk::NamedEntry;
use crate::files::watch::{WatchEvent, WatchNumber, WatchRefusal};

/// Notices for which there is memory while none comes.
const NOTICES_KEPT: usize = 64;

/// Somebody who waits for a name in a folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum NameInterest {
    /// A root that does not exist yet, by its index.
    Root(usize),
    /// A link that leads over it.
    Link(PathBuf),
}

/// Purposes of a watch of a folder. A folder that is reached by two paths has one watch.
#[derive(Debug)]
pub(super) enum WatchUse {
    /// A folder of the tree and nothing else, as nearly all are.
    Folder(FolderKey),
    /// Any.
    Several(Box<SeveralUses>),
}

/// Purposes of a watch.
#[derive(Default, Debug)]
pub(super) struct SeveralUses {
    /// The path that it was watched by, if it is no folder of the tree.
    path: Option<Box<Path>>,
    /// Folders of the tree.
    folders: Vec<FolderKey>,
    interests: NameTable<Vec<NameInterest>>,
}

impl WatchUse {
    /// Folders of the tree.
    fn folders(&self) -> &[FolderKey] {
        match self {
            Self::Folder(folder) => std::slice::from_ref(folder),
            Self::Several(uses) => &uses.folders,
        }
    }

    /// A path of the folder.
    fn path(&self) -> Option<&Path> {
        match self {
            Self::Folder(folder) => Some(folder.path()),
            Self::Several(uses) => {
                let folder = uses.folders.first().map(FolderKey::path);
                folder.or(uses.path.as_deref())
            }
        }
    }

    /// Those who wait for a name.
    fn waiting(&self, name: &OsStr) -> Vec<NameInterest> {
        match self {
            Self::Folder(_) => Vec::new(),
            Self::Several(uses) => uses.interests.get(name).cloned().unwrap_or_default(),
        }
    }

    /// Changes its purposes.
    fn change(&mut self, change: impl FnOnce(&mut SeveralUses)) {
        let mut uses = match std::mem::replace(self, Self::Several(Box::default())) {
            Self::Several(uses) => uses,
            Self::Folder(folder) => Box::new(SeveralUses {
                folders: vec![folder],
                ..SeveralUses::default()
            }),
        };
        change(&mut uses);
        let is_plain = uses.path.is_none() && uses.interests.is_empty() && uses.folders.len() == 1;
        *self = match uses.folders.pop_if(|_| is_plain) {
            Some(folder) => Self::Folder(folder),
            None => Self::Several(uses),
        };
    }

    /// True if it has no purpose.
    fn is_unused(&self) -> bool {
        match self {
            Self::Folder(_) => false,
            Self::Several(uses) => uses.folders.is_empty() && uses.interests.is_empty(),
        }
    }
}

/// First half of a rename.
#[derive(Debug)]
pub(super) struct PendingMove {
    cookie: u32,
    from: PathBuf,
    /// True if it was found under that path.
    found: bool,
    pub(super) until: Instant,
}

impl TreeWatcher {
    /// Handles notices until there are none or `events` has `full`.
    pub(super) fn read_notices(
        &mut self,
        full: usize,
        events: &mut Vec<TreeEvent>,
    ) -> io::Result<()> {
        loop {
            let Some(watcher) = &mut self.watcher else {
                self.drained = true;
                return Ok(());
            };
            // It comes back with its capacity below, unless many came at once.
            let mut notices = std::mem::take(&mut self.notices);
            let more = watcher.read(&mut notices);
            for notice in notices.drain(..) {
                self.handle(notice, events);
            }
            notices.shrink_to(NOTICES_KEPT);
            self.notices = notices;
            self.drained = !more?;
            if self.drained || events.len() >= full {
                return Ok(());
            }
        }
    }

    fn handle(&mut self, notice: WatchEvent, events: &mut Vec<TreeEvent>) {
        match notice {
            WatchEvent::Modified(watch) => self.files.note(watch, FileChange::Content, events),
            WatchEvent::Attributes(watch) => {
                self.files.note(watch, FileChange::Attributes, events);
            }
            WatchEvent::SelfMoved(watch) => {
                self.files.note(watch, FileChange::Name, events);
                self.lose_watch(watch, events);
            }
            WatchEvent::Ended(watch) => {
                self.files.end(watch, events);
                self.lose_watch(watch, events);
            }
            WatchEvent::Created(watch, name) => {
                for folder in self.folders_of(watch) {
                    self.note_made(&folder, &name);
                }
                self.name_came(watch, &name, None, events);
            }
            WatchEvent::MovedIn(watch, name, cookie) => {
                let pending = self.moves.iter().position(|half| half.cookie == cookie);
                let half = pending.map(|at| self.moves.swap_remove(at));
                let (found, missed) = match half {
                    Some(half) if half.found => (Some(half.from), None),
                    half => (None, half.map(|half| half.from)),
                };
                self.name_came(watch, &name, found, events);
                let place = self.uses.get(&watch).and_then(WatchUse::path);
                if let (Some(from), Some(place)) = (missed, place) {
                    let to = place.join(&name);
                    events.push(TreeEvent::Missed { from, to });
                }
            }
            WatchEvent::Deleted(watch, name) => {
                self.target_left(watch, &name);
                for folder in self.folders_of(watch) {
                    self.name_left(&folder, &name);
                    self.forget_name(&folder, &name, events);
                }
            }
            WatchEvent::MovedOut(watch, name, cookie) => {
                self.target_left(watch, &name);
                for folder in self.folders_of(watch) {
                    self.name_left(&folder, &name);
                    self.note_left(&folder, &name, cookie, events);
                }
            }
            WatchEvent::Overflow => {
                self.overflows += 1;
                self.made.clear();
                events.push(TreeEvent::Overflow);
                self.files.note_all(events);
                self.rescan();
            }
        }
    }

    /// Counts a file that was made, whatever has become of it since.
    fn note_made(&mut self, folder: &Path, name: &OsStr) {
        if !self.is_file_name(folder, name) || self.made.len() >= EVENTS_MAX {
            return;
        }
        let entry = self.examine(folder, name);
        if let Some(NamedEntry::File { .. } | NamedEntry::Nothing) = entry {
            *self.made.entry(folder.join(name)).or_default() += 1;
        }
    }

    /// A name was renamed: the second half of it says to what.
    fn note_left(&mut self, folder: &Path, name: &OsStr, cookie: u32, events: &mut Vec<TreeEvent>) {
        let taken = self.take_file(folder, name, events);
        let found = taken.is_some();
        let missed = || self.is_file_name(folder, name).then(|| folder.join(name));
        if let Some(from) = taken.or_else(missed) {
            self.moves.push(PendingMove {
                cookie,
                from,
                found,
                until: Instant::now() + MOVE_HOLD,
            });
        }
    }

    /// A name that links lead over is gone. A rotation brings it back at once, so the interval
    /// looks if it did.
    fn target_left(&mut self, watch: WatchNumber, name: &OsStr) {
        let used = self.uses.get(&watch);
        let interests = used.map(|used| used.waiting(name)).unwrap_or_default();
        for interest in interests {
            if let NameInterest::Link(link) = interest {
                self.look_later(&link);
            }
        }
    }

    /// A name that came into a folder; `from`: its path before, if it was a file that was found.
    fn name_came(
        &mut self,
        watch: WatchNumber,
        name: &OsStr,
        mut from: Option<PathBuf>,
        events: &mut Vec<TreeEvent>,
    ) {
        let Some(used) = self.uses.get(&watch) else {
            events.extend(from.map(|path| TreeEvent::Vanished { path }));
            return;
        };
        let folders = used.folders().to_vec();
        let interests = used.waiting(name);
        let place = used.path().map(|place| place.join(name));
        for folder in folders {
            let folder = folder.path();
            let Some(entry) = self.examine(folder, name) else {
                continue;
            };
            self.name_returned(folder, name);
            match from.take() {
                Some(from) => self.note_moved(folder, name, from, entry, events),
                None => self.note_entry(folder, name.to_owned(), entry, false, events),
            }
        }
        events.extend(from.map(|from| match place {
            Some(to) => TreeEvent::Moved {
                from,
                to,
                to_matches: false,
            },
            None => TreeEvent::Vanished { path: from },
        }));
        for interest in interests {
            match interest {
                NameInterest::Root(root) => self.settle_root(root, events),
                NameInterest::Link(link) => self.look_at(&link, false, events),
            }
        }
    }

    fn note_moved(
        &mut self,
        folder: &Path,
        name: &OsStr,
        from: PathBuf,
        entry: NamedEntry,
        events: &mut Vec<TreeEvent>,
    ) {
        let to_matches = matches!(entry, NamedEntry::File { .. });
        self.settle_move_from(&folder.join(name), events);
        events.push(TreeEvent::Moved {
            from,
            to: folder.join(name),
            to_matches,
        });
        let known = events.len();
        self.note_entry(folder, name.to_owned(), entry, false, events);
        if to_matches {
            // It was found under its old name.
            events.truncate(known);
        }
    }

    /// A path has a file again: the one that left it did so before.
    pub(super) fn settle_move_from(&mut self, path: &Path, events: &mut Vec<TreeEvent>) {
        let over = |half: &mut PendingMove| half.found && half.from == path;
        let over = self.moves.extract_if(.., over);
        events.extend(over.map(|half| TreeEvent::Vanished { path: half.from }));
    }

    /// Renames whose second half did not come: the file went to where nothing is watched.
    pub(super) fn settle_moves(&mut self, now: Instant, events: &mut Vec<TreeEvent>) {
        if !self.drained {
            return;
        }
        let over = self.moves.extract_if(.., |half| half.until <= now);
        let found = over.filter(|half| half.found);
        events.extend(found.map(|half| TreeEvent::Vanished { path: half.from }));
    }

    /// A watched folder was renamed or deleted: nothing is known of its paths.
    fn lose_watch(&mut self, watch: WatchNumber, events: &mut Vec<TreeEvent>) {
        let Some(used) = self.uses.remove(&watch) else {
            return;
        };
        if let Some(watcher) = &mut self.watcher {
            watcher.remove(watch);
        }
        for folder in used.folders() {
            let folder = folder.path();
            self.drop_folder(folder, events);
            match self.roots.iter().position(|root| root.path == folder) {
                Some(root) => self.settle_root(root, events),
                None => self.look_at(folder, false, events),
            }
        }
        let WatchUse::Several(used) = used else {
            return;
        };
        let interests = used.interests.into_values();
        for interest in interests.flat_map(|(_, interests)| interests) {
            match interest {
                NameInterest::Root(root) => self.settle_root(root, events),
                NameInterest::Link(link) => self.look_at(&link, false, events),
            }
        }
    }

    fn folders_of(&self, watch: WatchNumber) -> Vec<PathBuf> {
        let used = self.uses.get(&watch);
        let folders = used.into_iter().flat_map(WatchUse::folders);
        folders.map(|folder| folder.path().to_owned()).collect()
    }

    /// Watches a folder, for a purpose that the caller adds.
    pub(super) fn watch_place(&mut self, folder: &Path) -> Result<WatchNumber, WatchRefusal> {
        let watcher = self.watcher.as_mut().ok_or(WatchRefusal::NoInstance)?;
        let number = watcher.watch_folder(folder)?;
        self.uses.entry(number).or_insert_with(|| {
            WatchUse::Several(Box::new(SeveralUses {
                path: Some(folder.into()),
                ..SeveralUses::default()
            }))
        });
        Ok(number)
    }

    pub(super) fn add_folder_use(&mut self, number: WatchNumber, folder: &FolderKey) {
        let Some(used) = self.uses.get_mut(&number) else {
            return;
        };
        used.change(|used| {
            match used.folders.iter_mut().find(|known| *known == folder) {
                // So that no older visit of it is kept.
                Some(known) => known.clone_from(folder),
                None => used.folders.push(folder.clone()),
            }
            used.path = None;
        });
    }

    pub(super) fn remove_folder_use(&mut self, number: WatchNumber, folder: &Path) {
        if let Some(used) = self.uses.get_mut(&number) {
            used.change(|used| {
                used.folders.retain(|known| known.path() != folder);
                if used.folders.is_empty() && used.path.is_none() {
                    used.path = Some(folder.into());
                }
            });
        }
        self.release(number);
    }

    pub(super) fn add_interest(
        &mut self,
        number: WatchNumber,
        name: &OsStr,
        interest: NameInterest,
    ) {
        if let Some(used) = self.uses.get_mut(&number) {
            used.change(|used| match used.interests.get_mut(name) {
                Some(interests) if interests.contains(&interest) => {}
                Some(interests) => interests.push(interest),
                None => used.interests.insert(name.into(), vec![interest]),
            });
        }
    }

    pub(super) fn remove_interest(
        &mut self,
        number: WatchNumber,
        name: &OsStr,
        interest: &NameInterest,
    ) {
        if let Some(used) = self.uses.get_mut(&number) {
            used.change(|used| {
                if let Some(interests) = used.interests.get_mut(name) {
                    interests.retain(|known| known != interest);
                    if interests.is_empty() {
                        used.interests.remove(name);
                    }
                }
            });
        }
        self.release(number);
    }

    /// Removes a watch without a purpose.
    fn release(&mut self, number: WatchNumber) {
        if self.uses.get(&number).is_some_and(WatchUse::is_unused) {
            self.uses.remove(&number);
            if let Some(watcher) = &mut self.watcher {
                watcher.remove(number);
            }
        }
    }
}
