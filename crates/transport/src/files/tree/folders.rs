//! Folders of the tree and the names in them.
//!
//! # What it guarantees
//! * A name is known by its kind, and a file by its inode too, so that a listing finds what was
//!   replaced. Each kind ends the one before: a file vanishes, a folder with all below it.
//! * A listing sweeps: names that it did not have are gone. Names that notices brought in the
//!   meantime have its number; those that left are not taken from its buffer.
//!
//! # Limits
//! [`FOLDERS_MAX`], [`KNOWN_MAX`]: beyond them a path is refused, once for all.
//!
//! # After a crash
//! Nothing of it is kept.

use std::borrow::Borrow;
use std::ffi::{OsStr, OsString};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::names::NameTable;
use super::{FOLDERS_MAX, KNOWN_MAX, TreeEvent, TreeWatcher};
use crate::files::tail_file::{FileSystemKind, PathRefusal};
use crate::files::walk::{FolderVisit, NamedEntry};
use crate::files::watch::{WatchNumber, WatchRefusal};

/// A folder that matches are in, or below.
#[derive(Debug)]
pub(super) struct FolderView {
    pub(super) visit: Arc<FolderVisit>,
    watch: Option<WatchNumber>,
    /// True if it is listed again every interval.
    pub(super) polled: bool,
    /// True if it waits for its listing.
    pub(super) queued: bool,
    /// True if its next listing finds all files again.
    pub(super) thorough: bool,
    /// The same for the listing under way.
    thorough_now: bool,
    /// Number of its last listing, which all names that are there have.
    pass: u32,
    names: NameTable<KnownName>,
    refused: Option<Box<PathRefusal>>,
}

/// A folder as the key of a table, by its path: which is kept once, in the visit.
#[derive(Clone, Debug)]
pub(super) struct FolderKey(pub(super) Arc<FolderVisit>);

impl FolderKey {
    pub(super) fn path(&self) -> &Path {
        &self.0.path
    }
}

impl PartialEq for FolderKey {
    fn eq(&self, other: &Self) -> bool {
        self.path() == other.path()
    }
}

impl Eq for FolderKey {}

impl Hash for FolderKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.path().hash(state);
    }
}

impl Borrow<Path> for FolderKey {
    fn borrow(&self) -> &Path {
        self.path()
    }
}

#[derive(Clone, Copy, Debug)]
struct KnownName {
    kind: NameKnown,
    pass: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NameKnown {
    /// With the number of its inode, as a folder too.
    File(u64),
    Folder(u64),
    Refused,
}

#[cfg(test)]
impl FolderView {
    pub(super) fn names_known(&self) -> usize {
        self.names.len()
    }
}

impl TreeWatcher {
    /// Watches a folder that is about to be listed.
    pub(super) fn begin_folder(&mut self, visit: Arc<FolderVisit>, events: &mut Vec<TreeEvent>) {
        let path = &*visit.path;
        if !self.is_wanted(path) {
            self.walk.leave_current();
            return;
        }
        if self.folders.len() >= FOLDERS_MAX && !self.folders.contains_key(path) {
            self.walk.leave_current();
            self.say_too_many(path.to_owned(), events);
            return;
        }
        let watched = self.watch_place(path);
        let remote = FileSystemKind::of_path(path).is_ok_and(FileSystemKind::needs_polling);
        let refusal = watched.err().or(remote.then_some(WatchRefusal::Unnoticed));
        let key = FolderKey(Arc::clone(&visit));
        if let Ok(number) = watched {
            self.add_folder_use(number, &key);
        }
        let before = self.renew_view(key, watched.ok(), refusal.is_some());
        self.left.clear();
        self.listing = Some(Arc::clone(&visit));
        if let Some(before) = before.filter(|before| Some(*before) != watched.ok()) {
            self.remove_folder_use(before, path);
        }
        if visit.linked || refusal.is_some() {
            self.look_later(path);
        }
        if let Some(reason) = refusal {
            self.say_polling(path, reason, events);
        }
    }

    /// Begins another listing of a folder. Returns the watch that it had.
    fn renew_view(
        &mut self,
        key: FolderKey,
        watch: Option<WatchNumber>,
        polled: bool,
    ) -> Option<WatchNumber> {
        let visit = Arc::clone(&key.0);
        let known = self.folders.remove(key.path());
        let mut view = known.unwrap_or_else(|| {
            Box::new(FolderView {
                visit: Arc::clone(&visit),
                watch: None,
                polled: false,
                queued: false,
                thorough: false,
                thorough_now: false,
                pass: 0,
                names: NameTable::default(),
                refused: None,
            })
        });
        let before = std::mem::replace(&mut view.watch, watch);
        view.visit = visit;
        view.polled = polled;
        view.queued = false;
        view.thorough_now = std::mem::take(&mut view.thorough);
        view.pass = view.pass.wrapping_add(1);
        self.folders.insert(key, view);
        before
    }

    /// True if a folder that waited for its listing is still one of the tree.
    fn is_wanted(&self, path: &Path) -> bool {
        if self.roots.iter().any(|root| root.path == path) {
            return true;
        }
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return false;
        };
        let known = self
            .folders
            .get(above)
            .and_then(|view| view.names.get(name));
        known.is_some_and(|known| matches!(known.kind, NameKnown::Folder(_)))
    }

    /// A name of the folder that is being listed.
    pub(super) fn note_listed(
        &mut self,
        name: OsString,
        entry: NamedEntry,
        events: &mut Vec<TreeEvent>,
    ) {
        let Some(visit) = &self.listing else {
            return;
        };
        if !self.left.contains(&name) {
            let folder = visit.path.clone();
            self.note_entry(&folder, name, entry, true, events);
        }
    }

    /// The end of a listing: names that it did not have are gone.
    pub(super) fn end_folder(&mut self, reason: Option<PathRefusal>, events: &mut Vec<TreeEvent>) {
        let Some(visit) = self.listing.take() else {
            return;
        };
        match reason {
            None => self.sweep(&visit.path, events),
            Some(PathRefusal::Gone) => {
                self.drop_folder(&visit.path, events);
                match self.roots.iter().position(|root| root.path == *visit.path) {
                    Some(root) => self.settle_root(root, events),
                    None => self.look_at(&visit.path, false, events),
                }
            }
            Some(reason) => {
                self.look_later(&visit.path);
                let Some(view) = self.folders.get_mut(&*visit.path) else {
                    return;
                };
                if view.refused.as_deref() != Some(&reason) {
                    view.refused = Some(Box::new(reason.clone()));
                    let path = visit.path.to_path_buf();
                    events.push(TreeEvent::Refused { path, reason });
                }
            }
        }
    }

    fn sweep(&mut self, folder: &Path, events: &mut Vec<TreeEvent>) {
        let Some(view) = self.folders.get_mut(folder) else {
            return;
        };
        view.refused = None;
        let pass = view.pass;
        let gone: Vec<Box<OsStr>> = view
            .names
            .iter()
            .filter(|(_, known)| known.pass != pass)
            .map(|(name, _)| name.into())
            .collect();
        for name in gone {
            self.forget_name(folder, &name, events);
        }
    }

    /// Meaning of a name in a folder of the tree now.
    pub(super) fn examine(&self, folder: &Path, name: &OsStr) -> Option<NamedEntry> {
        let view = self.folders.get(folder)?;
        Some(self.walk.examine(&view.visit, name))
    }

    /// True if a file of that name in a folder of the tree would match.
    pub(super) fn is_file_name(&self, folder: &Path, name: &OsStr) -> bool {
        let view = self.folders.get(folder);
        view.is_some_and(|view| self.walk.is_file_name(&view.visit, name))
    }

    /// Looks at a path whose folder is one of the tree; `quiet`: a file that is the same by its
    /// inode is not found again.
    pub(super) fn look_at(&mut self, path: &Path, quiet: bool, events: &mut Vec<TreeEvent>) {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return;
        };
        if let Some(entry) = self.examine(folder, name) {
            self.note_entry(folder, name.to_owned(), entry, quiet, events);
        }
    }

    /// Looks again at a path that no notices come from.
    pub(super) fn retry(&mut self, path: &Path, events: &mut Vec<TreeEvent>) {
        let Some(view) = self.folders.get_mut(path) else {
            return self.look_at(path, true, events);
        };
        let is_silent = view.polled || view.refused.is_some();
        if is_silent && !std::mem::replace(&mut view.queued, true) {
            let visit = Arc::clone(&view.visit);
            self.walk.push(visit);
        }
        if view.visit.linked {
            // A link on the way to its target may lead elsewhere now.
            self.look_later(path);
            self.look_at(path, true, events);
        }
    }

    /// Takes over the state of a name; `quiet`: a file that is the same by its inode is not found
    /// again.
    pub(super) fn note_entry(
        &mut self,
        folder: &Path,
        name: OsString,
        entry: NamedEntry,
        quiet: bool,
        events: &mut Vec<TreeEvent>,
    ) {
        let kind = match &entry {
            NamedEntry::Nothing => return self.forget_name(folder, &name, events),
            NamedEntry::File { inode, .. } => NameKnown::File(*inode),
            NamedEntry::Folder(visit) => NameKnown::Folder(visit.inode),
            NamedEntry::Refused(_) => NameKnown::Refused,
        };
        let path = folder.join(&name);
        let Some(view) = self.folders.get_mut(folder) else {
            return;
        };
        let quiet = quiet && !view.thorough_now;
        let pass = view.pass;
        let known = KnownName { kind, pass };
        let before = match view.names.get_mut(name.as_os_str()) {
            Some(before) => Some(std::mem::replace(before, known).kind),
            None if self.names >= KNOWN_MAX => return self.say_too_many(path, events),
            None => {
                self.names += 1;
                view.names.insert(name.into_boxed_os_str(), known);
                None
            }
        };
        self.replace(&path, before, kind, events);
        match entry {
            NamedEntry::Nothing => {}
            NamedEntry::File { linked, .. } => {
                self.file_seen(path, linked, quiet && before == Some(kind), events);
            }
            NamedEntry::Folder(visit) => {
                if !quiet || !self.folders.contains_key(path.as_path()) {
                    self.walk.push(visit);
                }
            }
            NamedEntry::Refused(reason) => self.refuse(path, reason, before, events),
        }
    }

    /// Ends what a name was, where it is of another kind now.
    fn replace(
        &mut self,
        path: &Path,
        before: Option<NameKnown>,
        now: NameKnown,
        events: &mut Vec<TreeEvent>,
    ) {
        match (before, now) {
            (Some(NameKnown::File(_)), NameKnown::Folder(_) | NameKnown::Refused) => {
                self.leave_link(path);
                let path = path.to_owned();
                events.push(TreeEvent::Vanished { path });
            }
            (Some(NameKnown::Folder(_)), NameKnown::File(_) | NameKnown::Refused) => {
                self.drop_folder(path, events);
            }
            (Some(NameKnown::Folder(before)), NameKnown::Folder(now)) if before != now => {
                self.drop_folder(path, events);
            }
            _ => {}
        }
    }

    fn file_seen(&mut self, path: PathBuf, linked: bool, same: bool, events: &mut Vec<TreeEvent>) {
        let complete = self.links.get(&path).is_some_and(|link| link.complete);
        match linked {
            true if !same || !complete => self.follow_link(&path),
            true => {}
            false => self.leave_link(&path),
        }
        if !same {
            self.settle_move_from(&path, events);
            events.push(TreeEvent::Found { path });
        }
    }

    fn refuse(
        &mut self,
        path: PathBuf,
        reason: PathRefusal,
        before: Option<NameKnown>,
        events: &mut Vec<TreeEvent>,
    ) {
        let lasts = matches!(reason, PathRefusal::Special(_) | PathRefusal::TooDeep);
        if !lasts {
            self.look_later(&path);
        }
        if before != Some(NameKnown::Refused) {
            events.push(TreeEvent::Refused { path, reason });
        }
    }

    /// A name is gone.
    pub(super) fn forget_name(&mut self, folder: &Path, name: &OsStr, events: &mut Vec<TreeEvent>) {
        let path = self.take_file(folder, name, events);
        events.extend(path.map(|path| TreeEvent::Vanished { path }));
    }

    /// Removes a name; the path of a file is returned, and a folder vanishes.
    pub(super) fn take_file(
        &mut self,
        folder: &Path,
        name: &OsStr,
        events: &mut Vec<TreeEvent>,
    ) -> Option<PathBuf> {
        let known = self.folders.get_mut(folder)?.names.remove(name)?;
        self.names -= 1;
        let path = folder.join(name);
        match known.kind {
            NameKnown::File(_) => {
                self.leave_link(&path);
                return Some(path);
            }
            NameKnown::Folder(_) => self.drop_folder(&path, events),
            NameKnown::Refused => {}
        }
        None
    }

    /// Removes a folder and all below it.
    pub(super) fn drop_folder(&mut self, folder: &Path, events: &mut Vec<TreeEvent>) {
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            let Some(view) = self.folders.remove(folder.as_path()) else {
                continue;
            };
            if let Some(number) = view.watch {
                self.remove_folder_use(number, &folder);
            }
            if self
                .listing
                .as_ref()
                .is_some_and(|visit| *visit.path == *folder)
            {
                self.listing = None;
                self.walk.leave_current();
            }
            self.names -= view.names.len();
            for (name, known) in view.names.into_values() {
                let path = folder.join(&*name);
                match known.kind {
                    NameKnown::File(_) => {
                        self.leave_link(&path);
                        events.push(TreeEvent::Vanished { path });
                    }
                    NameKnown::Folder(_) => folders.push(path),
                    NameKnown::Refused => {}
                }
            }
        }
    }

    /// A name left a folder: a listing under way may still have it in its buffer.
    pub(super) fn name_left(&mut self, folder: &Path, name: &OsStr) {
        if self
            .listing
            .as_ref()
            .is_some_and(|visit| *visit.path == *folder)
        {
            self.left.insert(name.to_owned());
        }
    }

    /// A name came back into a folder.
    pub(super) fn name_returned(&mut self, folder: &Path, name: &OsStr) {
        if self
            .listing
            .as_ref()
            .is_some_and(|visit| *visit.path == *folder)
        {
            self.left.remove(name);
        }
    }

    /// Reports once a reason that folders are polled; the reasons begin anew when none is.
    pub(super) fn say_polling(
        &mut self,
        path: &Path,
        reason: WatchRefusal,
        events: &mut Vec<TreeEvent>,
    ) {
        if reason == WatchRefusal::Gone {
            return;
        }
        if self.refusals.insert(reason) {
            let path = path.to_owned();
            events.push(TreeEvent::Polling { path, reason });
        }
    }

    fn say_too_many(&mut self, path: PathBuf, events: &mut Vec<TreeEvent>) {
        if !std::mem::replace(&mut self.too_many, true) {
            let reason = PathRefusal::TooMany;
            events.push(TreeEvent::Refused { path, reason });
        }
    }
}
