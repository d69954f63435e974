//! Listing of the files that patterns match.
//!
//! # What it guarantees
//! * A folder is announced ([`WalkItem::Folder`]) before it is listed, so that its user can watch
//!   it first and misses nothing.
//! * What is passed over although its name matches is an item with its reason.
//! * Links are followed, to files and to folders, as far as the allowed roots reach. A link to a
//!   folder that the way down has passed is refused, so every walk ends.
//!
//! # Limits
//! One folder is open at a time, and of its names only one buffer is held (32 KiB, by the standard
//! library). Folders that wait for their turn: 1,048,576 ([`WAITING_MAX`]), about 150 bytes each.
//! Depth: 64 folders ([`DEPTH_MAX`]), 8 of them by links ([`LINKS_MAX`]).
//!
//! # After a crash
//! Nothing of it is kept.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirEntry, ReadDir};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::glob::{GlobSet, GlobState};
use super::tail_file::{AllowedRoots, PathRefusal, SpecialFile};

/// Folders that wait to be listed.
pub const WAITING_MAX: usize = 1 << 20;

/// Folders in a path.
pub const DEPTH_MAX: usize = 64;

/// Folders in a path that are links.
pub const LINKS_MAX: usize = 8;

/// A folder on the way down.
#[derive(Debug)]
pub struct FolderVisit {
    /// Its path, by the names that led to it.
    pub path: Box<Path>,
    /// Number of its inode; of the target of a link. 0 for a root.
    pub inode: u64,
    /// True if its name is a link.
    pub linked: bool,
    state: GlobState,
    depth: usize,
    links: Option<Arc<LinkTrail>>,
}

/// Links to folders that were followed on the way down.
#[derive(Debug)]
struct LinkTrail {
    /// Folder that the link is in, without links.
    from: PathBuf,
    count: usize,
    above: Option<Arc<LinkTrail>>,
}

/// Meaning of a name in a folder.
#[derive(Debug)]
pub enum NamedEntry {
    /// Nothing that patterns match.
    Nothing,
    /// A regular file that matches.
    File {
        /// Number of its inode; of the target of a link.
        inode: u64,
        /// True if the name is a link.
        linked: bool,
    },
    /// A folder that can hold matches.
    Folder(Arc<FolderVisit>),
    /// It matches, but is passed over.
    Refused(PathRefusal),
}

/// A step of a walk.
#[derive(Debug)]
pub enum WalkItem {
    /// A folder that the next step opens. Until [`WalkItem::End`] all items are of it.
    Folder(Arc<FolderVisit>),
    /// A name that means something.
    Entry(OsString, NamedEntry),
    /// The folder has no more names; or, with a reason, it could not be listed to its end.
    End(Option<PathRefusal>),
}

/// Walks through folders, one at a time.
pub struct TreeWalk {
    globs: Arc<GlobSet>,
    roots: Arc<AllowedRoots>,
    waiting: Vec<Arc<FolderVisit>>,
    current: Option<(Arc<FolderVisit>, Option<ReadDir>)>,
}

impl TreeWalk {
    /// A walk that has nowhere to go yet.
    pub fn new(globs: Arc<GlobSet>, roots: Arc<AllowedRoots>) -> Self {
        Self {
            globs,
            roots,
            waiting: Vec::new(),
            current: None,
        }
    }

    /// Walks to a folder of [`GlobSet::roots`].
    pub fn push_root(&mut self, path: PathBuf) {
        let visit = FolderVisit {
            state: self.globs.at(&path),
            path: path.into(),
            inode: 0,
            linked: false,
            depth: 0,
            links: None,
        };
        self.waiting.push(Arc::new(visit));
    }

    /// Walks to a folder. Returns false if too many wait.
    pub fn push(&mut self, visit: Arc<FolderVisit>) -> bool {
        let has_room = self.waiting.len() < WAITING_MAX;
        if has_room {
            self.waiting.push(visit);
        }
        has_room
    }

    /// Roots that links may lead to.
    pub fn allowed_roots(&self) -> &Arc<AllowedRoots> {
        &self.roots
    }

    /// True if there is no next step.
    pub fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.current.is_none()
    }

    /// Stops listing the current folder: its next item would be of another one.
    pub fn leave_current(&mut self) {
        self.current = None;
    }

    /// The next step; `None`: there is none until something is pushed.
    pub fn step(&mut self) -> Option<WalkItem> {
        loop {
            let Some((visit, listing)) = &mut self.current else {
                let visit = self.waiting.pop()?;
                self.current = Some((Arc::clone(&visit), None));
                return Some(WalkItem::Folder(visit));
            };
            let read = match listing {
                Some(listing) => listing.next(),
                None => match fs::read_dir(&visit.path) {
                    Ok(opened) => listing.insert(opened).next(),
                    Err(error) => Some(Err(error)),
                },
            };
            match read {
                Some(Ok(found)) => {
                    let name = found.file_name();
                    let entry = name_in(&self.globs, &self.roots, visit, &name, Some(&found));
                    if !matches!(entry, NamedEntry::Nothing) {
                        return Some(WalkItem::Entry(name, entry));
                    }
                }
                Some(Err(error)) => {
                    self.current = None;
                    return Some(WalkItem::End(Some(error.into())));
                }
                None => {
                    self.current = None;
                    return Some(WalkItem::End(None));
                }
            }
        }
    }

    /// True if a file of that name in a folder would match.
    pub fn is_file_name(&self, folder: &FolderVisit, name: &OsStr) -> bool {
        self.globs.verdict(&folder.state, name.as_bytes()).file
    }

    /// Meaning of a name in a folder now. A name that is gone means nothing.
    pub fn examine(&self, folder: &FolderVisit, name: &OsStr) -> NamedEntry {
        name_in(&self.globs, &self.roots, folder, name, None)
    }
}

/// Kind of a name: its own, or that behind its link.
struct NameKind {
    kind: fs::FileType,
    inode: u64,
    linked: bool,
}

fn name_in(
    globs: &GlobSet,
    roots: &AllowedRoots,
    folder: &FolderVisit,
    name: &OsStr,
    listed: Option<&DirEntry>,
) -> NamedEntry {
    let verdict = globs.verdict(&folder.state, name.as_bytes());
    if verdict.is_nothing() {
        return NamedEntry::Nothing;
    }
    let path = folder.path.join(name);
    let found = match kind_of(&path, listed) {
        Ok(found) => found,
        // It went in between.
        Err(PathRefusal::Gone) => return NamedEntry::Nothing,
        Err(refusal) => return NamedEntry::Refused(refusal),
    };
    if found.kind.is_dir() && verdict.folder {
        return match enter(globs, roots, folder, path, &found) {
            Ok(visit) => NamedEntry::Folder(Arc::new(visit)),
            Err(refusal) => NamedEntry::Refused(refusal),
        };
    }
    if !verdict.file {
        return NamedEntry::Nothing;
    }
    match SpecialFile::of(found.kind) {
        Some(special) => NamedEntry::Refused(PathRefusal::Special(special)),
        None => match found.linked.then(|| allowed(roots, &path)) {
            Some(Err(refusal)) => NamedEntry::Refused(refusal),
            None | Some(Ok(_)) => NamedEntry::File {
                inode: found.inode,
                linked: found.linked,
            },
        },
    }
}

/// Looks at a name, and behind it if it is a link. A listing often knows the kind already.
fn kind_of(path: &Path, listed: Option<&DirEntry>) -> Result<NameKind, PathRefusal> {
    let known = listed.and_then(|entry| Some((entry.file_type().ok()?, entry.ino())));
    let (kind, inode) = match known {
        Some(known) => known,
        None => {
            let found = fs::symlink_metadata(path)?;
            (found.file_type(), found.ino())
        }
    };
    if !kind.is_symlink() {
        return Ok(NameKind {
            kind,
            inode,
            linked: false,
        });
    }
    match fs::metadata(path) {
        Ok(target) => Ok(NameKind {
            kind: target.file_type(),
            inode: target.ino(),
            linked: true,
        }),
        Err(error) => match error.into() {
            PathRefusal::Gone => Err(PathRefusal::Dangling),
            refusal => Err(refusal),
        },
    }
}

/// The real path of a link, if it may be followed.
fn allowed(roots: &AllowedRoots, link: &Path) -> Result<PathBuf, PathRefusal> {
    let target = fs::canonicalize(link)?;
    match roots.allow(&target) {
        true => Ok(target),
        false => Err(PathRefusal::Outside { target }),
    }
}

fn enter(
    globs: &GlobSet,
    roots: &AllowedRoots,
    folder: &FolderVisit,
    path: PathBuf,
    found: &NameKind,
) -> Result<FolderVisit, PathRefusal> {
    if folder.depth >= DEPTH_MAX {
        return Err(PathRefusal::TooDeep);
    }
    let links = match found.linked {
        true => Some(Arc::new(follow(roots, folder, &path)?)),
        false => folder.links.clone(),
    };
    let name = path.file_name().unwrap_or_default();
    Ok(FolderVisit {
        state: globs.enter(&folder.state, name.as_bytes()),
        path: path.into(),
        inode: found.inode,
        linked: found.linked,
        depth: folder.depth + 1,
        links,
    })
}

/// Follows a link to a folder. The way down repeats itself if the target is above, or is, a folder
/// that a followed link is in.
fn follow(
    roots: &AllowedRoots,
    folder: &FolderVisit,
    link: &Path,
) -> Result<LinkTrail, PathRefusal> {
    let target = allowed(roots, link)?;
    let trail = LinkTrail {
        from: fs::canonicalize(&folder.path)?,
        count: folder.links.as_ref().map_or(1, |links| links.count + 1),
        above: folder.links.clone(),
    };
    if trail.count > LINKS_MAX {
        return Err(PathRefusal::TooDeep);
    }
    let mut passed = Some(&trail);
    while let Some(link) = passed {
        if link.from.starts_with(&target) {
            return Err(PathRefusal::LinkLoop);
        }
        passed = link.above.as_deref();
    }
    Ok(trail)
}

#[cfg(test)]
mod tests;
