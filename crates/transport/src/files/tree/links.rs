//! Links to files: the places that a change of their targets shows in.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::TreeWatcher;
use super::notices::NameInterest;
use crate::files::watch::WatchNumber;

/// Links behind a link that are watched: the link of a container leads to one of its pod, and that
/// one to docker's data.
const HOPS_MAX: usize = 8;

/// Names that a link depends on.
#[derive(Debug, Default)]
pub(super) struct LinkWatch {
    hops: Vec<(WatchNumber, OsString)>,
    /// False if one of them is not watched, or is behind a link to a folder: then the link is
    /// looked at every interval.
    pub(super) complete: bool,
}

impl TreeWatcher {
    /// Watches the folders of the names that a link leads over.
    pub(super) fn follow_link(&mut self, link: &Path) {
        self.leave_link(link);
        let mut watch = LinkWatch {
            hops: Vec::new(),
            complete: true,
        };
        let mut at = link.to_owned();
        for _ in 0..HOPS_MAX {
            let Some((folder, name)) = hop(&at) else {
                break;
            };
            at = folder.join(&name);
            match self.watch_place(&folder) {
                Ok(number) => {
                    let interest = NameInterest::Link(link.to_owned());
                    self.add_interest(number, &name, interest);
                    watch.hops.push((number, name));
                    watch.complete &= fs::canonicalize(&folder).is_ok_and(|real| real == folder);
                }
                Err(_) => watch.complete = false,
            }
        }
        if !watch.complete {
            self.look_later(link);
        }
        self.links.insert(link.to_owned(), watch);
    }

    /// Stops watching for a link.
    pub(super) fn leave_link(&mut self, link: &Path) {
        let Some(watch) = self.links.remove(link) else {
            return;
        };
        let interest = NameInterest::Link(link.to_owned());
        for (number, name) in watch.hops {
            self.remove_interest(number, &name, &interest);
        }
    }
}

/// Folder and name of the target of a link.
fn hop(link: &Path) -> Option<(PathBuf, OsString)> {
    let target = link.parent()?.join(fs::read_link(link).ok()?);
    Some((target.parent()?.to_owned(), target.file_name()?.to_owned()))
}
