//! Any changes of a small tree, with polls in between: in the end the events add up to what a walk
//! from the beginning finds.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::files::walk::NamedEntry;

/// Runs of each property: a second or two.
const CASES: u32 = 100;

/// A change of the tree; one that is not possible changes nothing.
#[derive(Clone, Debug)]
enum TreeChange {
    Write(&'static str),
    Remove(&'static str),
    Folder(&'static str),
    RemoveFolder(&'static str),
    Rename(&'static str, &'static str),
    Link(&'static str, &'static str),
    Poll,
}

const PATHS: [&str; 14] = [
    "a",
    "b",
    "a/b",
    "a/c",
    "b/a",
    "a/b/c",
    "1.log",
    "2.log",
    "a/1.log",
    "a/2.log",
    "b/1.log",
    "a/b/1.log",
    "a/b/x",
    "a/b/c/1.log",
];

const TARGETS: [&str; 8] = [
    "a", "b", "../a", "../b", "1.log", "../1.log", "b/1.log", "..",
];

fn change(links: bool) -> impl Strategy<Value = TreeChange> {
    let path = || select(&PATHS[..]);
    let rename = (path(), path()).prop_map(|(from, to)| TreeChange::Rename(from, to));
    let link = (select(&TARGETS[..]), path()).prop_map(|(to, at)| TreeChange::Link(to, at));
    prop_oneof![
        4 => path().prop_map(TreeChange::Write),
        2 => path().prop_map(TreeChange::Remove),
        3 => path().prop_map(TreeChange::Folder),
        1 => path().prop_map(TreeChange::RemoveFolder),
        4 => rename,
        if links { 3 } else { 0 } => link,
        3 => Just(TreeChange::Poll),
    ]
}

/// A tree, its watcher, and what its events add up to.
struct TreeModel {
    folder: tempfile::TempDir,
    options: TreeOptions,
    watcher: TreeWatcher,
    events: Vec<TreeEvent>,
    paths: BTreeSet<PathBuf>,
}

impl TreeModel {
    fn new(include: &[&str], poll_interval: Duration, watches_max: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let below = |pattern: &&str| format!("{}/{pattern}", folder.path().display());
        let options = TreeOptions {
            include: include.iter().map(below).collect(),
            exclude: Vec::new(),
            allowed_roots: vec![folder.path().to_owned()],
            follow_outside: false,
            poll_interval,
            watches_max,
        };
        Self {
            watcher: TreeWatcher::new(&options).unwrap(),
            folder,
            options,
            events: Vec::new(),
            paths: BTreeSet::new(),
        }
    }

    fn make(&mut self, change: &TreeChange) {
        let at = |path: &str| self.folder.path().join(path);
        let _ = match change {
            TreeChange::Write(path) => fs::write(at(path), b"x"),
            TreeChange::Remove(path) => fs::remove_file(at(path)),
            TreeChange::Folder(path) => fs::create_dir(at(path)),
            TreeChange::RemoveFolder(path) => fs::remove_dir_all(at(path)),
            TreeChange::Rename(from, to) => fs::rename(at(from), at(to)),
            TreeChange::Link(to, path) => symlink(to, at(path)),
            TreeChange::Poll => {
                self.poll();
                Ok(())
            }
        };
    }

    /// Returns false if nothing happened and nothing is to be done.
    fn poll(&mut self) -> bool {
        self.watcher.poll(Duration::ZERO, &mut self.events).unwrap();
        let happened = !self.events.is_empty();
        for event in self.events.drain(..) {
            match event {
                TreeEvent::Found { path } => drop(self.paths.insert(path)),
                TreeEvent::Vanished { path } => assert!(self.paths.remove(&path), "{path:?}"),
                TreeEvent::Moved {
                    from,
                    to,
                    to_matches,
                } => {
                    assert!(self.paths.remove(&from), "{from:?}");
                    if to_matches {
                        self.paths.insert(to);
                    }
                }
                _ => {}
            }
        }
        happened || !self.watcher.moves.is_empty() || !self.watcher.walk.is_done()
    }

    fn settle(&mut self) {
        let mut quiet = 0;
        while quiet < 4 {
            quiet = if self.poll() { 0 } else { quiet + 1 };
        }
    }

    /// Files that a walk from the beginning finds.
    fn walked(&self) -> BTreeSet<PathBuf> {
        let globs = Arc::new(GlobSet::new(&self.options.include, &[]).unwrap());
        let allowed = AllowedRoots::new(self.options.allowed_roots.clone(), false);
        let mut walk = TreeWalk::new(Arc::clone(&globs), Arc::new(allowed));
        globs
            .roots()
            .into_iter()
            .for_each(|root| walk.push_root(root));
        let mut found = BTreeSet::new();
        let mut folder = PathBuf::new();
        while let Some(item) = walk.step() {
            match item {
                WalkItem::Folder(visit) => folder = visit.path.to_path_buf(),
                WalkItem::Entry(name, NamedEntry::File { .. }) => {
                    found.insert(folder.join(name));
                }
                WalkItem::Entry(_, NamedEntry::Folder(visit)) => assert!(walk.push(visit)),
                _ => {}
            }
        }
        found
    }

    fn check(mut self, changes: &[TreeChange]) -> Result<(), TestCaseError> {
        changes.iter().for_each(|change| self.make(change));
        self.settle();
        prop_assert_eq!(&self.paths, &self.walked());
        // Nothing of what is gone is kept.
        let names: usize = self.watcher.counts().names;
        let in_views = self.watcher.folders.values().map(|view| view.names_known());
        prop_assert_eq!(names, in_views.sum::<usize>());
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn notices_alone_add_up(changes in prop::collection::vec(change(false), 0..60)) {
        TreeModel::new(&["**/*.log"], Duration::from_secs(3_600), usize::MAX).check(&changes)?;
    }

    #[test]
    fn notices_add_up_for_roots_that_come_and_go(
        changes in prop::collection::vec(change(false), 0..60),
    ) {
        let patterns = ["a/b/*.log", "a/b/c/*.log", "b/*/x", "b/1.log"];
        TreeModel::new(&patterns, Duration::ZERO, usize::MAX).check(&changes)?;
    }

    #[test]
    fn links_add_up(changes in prop::collection::vec(change(true), 0..60)) {
        TreeModel::new(&["**/*.log"], Duration::ZERO, usize::MAX).check(&changes)?;
    }

    #[test]
    fn polling_adds_up(
        changes in prop::collection::vec(change(true), 0..60),
        watches_max in 0_usize..3,
    ) {
        TreeModel::new(&["**/*.log"], Duration::ZERO, watches_max).check(&changes)?;
    }
}
