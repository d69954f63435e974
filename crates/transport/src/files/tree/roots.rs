//! Folders that patterns begin at, which may be missing.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::notices::NameInterest;
use super::{TreeEvent, TreeWatcher};
use crate::files::tail_file::PathRefusal;
use crate::files::watch::WatchNumber;

/// Attempts to find a root, or the folder above in which it is missing: each finds another state
/// than the one before.
const SETTLE_TRIES: usize = 16;

/// A folder that patterns begin at.
#[derive(Debug)]
pub(super) struct TreeRoot {
    pub(super) path: PathBuf,
    /// Device and inode of the folder, if it is there.
    found: Option<(u64, u64)>,
    /// Name that is missing, and the watch of the folder above.
    missing: Option<(WatchNumber, OsString)>,
    refused: Option<PathRefusal>,
}

impl TreeRoot {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            found: None,
            missing: None,
            refused: None,
        }
    }

    /// True if it is there, or its coming will be noticed.
    pub(super) fn is_watched(&self) -> bool {
        self.found.is_some() || self.missing.is_some()
    }
}

impl TreeWatcher {
    /// Finds a root, or waits for it in the nearest folder above that exists.
    pub(super) fn settle_root(&mut self, index: usize, events: &mut Vec<TreeEvent>) {
        for _ in 0..SETTLE_TRIES {
            let Some(root) = self.roots.get(index) else {
                return;
            };
            let path = root.path.clone();
            let refusal = match fs::metadata(&path) {
                Ok(found) if found.is_dir() => {
                    return self.root_found(index, (found.dev(), found.ino()), events);
                }
                Ok(_) => PathRefusal::Failed(io::ErrorKind::NotADirectory),
                Err(error) => error.into(),
            };
            self.root_lost(index, events);
            if refusal != PathRefusal::Gone {
                return self.refuse_root(index, refusal, events);
            }
            if self.wait_for_root(index, &path, events) {
                return;
            }
        }
    }

    fn root_found(&mut self, index: usize, found: (u64, u64), events: &mut Vec<TreeEvent>) {
        let Some(root) = self.roots.get_mut(index) else {
            return;
        };
        root.refused = None;
        let path = root.path.clone();
        let before = root.found.replace(found);
        if let Some((number, name)) = root.missing.take() {
            self.remove_interest(number, &name, &NameInterest::Root(index));
        }
        if before == Some(found) && self.folders.contains_key(path.as_path()) {
            return;
        }
        self.drop_folder(&path, events);
        self.walk.push_root(path);
    }

    fn root_lost(&mut self, index: usize, events: &mut Vec<TreeEvent>) {
        let Some(root) = self.roots.get_mut(index) else {
            return;
        };
        root.found = None;
        let path = root.path.clone();
        self.drop_folder(&path, events);
    }

    /// Reports why a root is not listed, once.
    fn refuse_root(&mut self, index: usize, reason: PathRefusal, events: &mut Vec<TreeEvent>) {
        let Some(root) = self.roots.get_mut(index) else {
            return;
        };
        if root.refused.as_ref() != Some(&reason) {
            root.refused = Some(reason.clone());
            let path = root.path.clone();
            events.push(TreeEvent::Refused { path, reason });
        }
    }

    /// Watches the nearest folder above a root. Returns false if the root came in between.
    fn wait_for_root(&mut self, index: usize, path: &Path, events: &mut Vec<TreeEvent>) -> bool {
        let mut missing = path;
        let above = loop {
            match missing.parent() {
                Some(above) if above.is_dir() => break above,
                Some(above) => missing = above,
                None => return true,
            }
        };
        let Some(name) = missing.file_name() else {
            return true;
        };
        let before = self
            .roots
            .get_mut(index)
            .and_then(|root| root.missing.take());
        match self.watch_place(above) {
            Ok(number) => {
                self.add_interest(number, name, NameInterest::Root(index));
                let now = (number, name.to_owned());
                if let Some((number, name)) = before.filter(|before| *before != now) {
                    self.remove_interest(number, &name, &NameInterest::Root(index));
                }
                if let Some(root) = self.roots.get_mut(index) {
                    root.missing = Some(now);
                }
            }
            Err(reason) => {
                if let Some((number, name)) = before {
                    self.remove_interest(number, &name, &NameInterest::Root(index));
                }
                self.say_polling(above, reason, events);
            }
        }
        fs::symlink_metadata(missing).is_err()
    }
}
