//! Tests of listings: links, loops, permissions, many names.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

/// All of a walk: path to `None` for a file, or to its refusal.
fn walk_all(
    include: &[&str],
    roots: &[&Path],
    outside: bool,
) -> BTreeMap<PathBuf, Option<PathRefusal>> {
    let include: Vec<String> = include.iter().map(|text| text.to_string()).collect();
    let globs = Arc::new(GlobSet::new(&include, &[]).unwrap());
    let mut allowed = globs.prefixes();
    allowed.extend(roots.iter().map(|root| root.to_path_buf()));
    let begin = globs.roots();
    let mut walk = TreeWalk::new(globs, Arc::new(AllowedRoots::new(allowed, outside)));
    begin.into_iter().for_each(|root| walk.push_root(root));
    let mut found = BTreeMap::new();
    let mut folder = PathBuf::new();
    while let Some(item) = walk.step() {
        match item {
            WalkItem::Folder(visit) => folder = visit.path.to_path_buf(),
            WalkItem::Entry(name, NamedEntry::File { .. }) => {
                assert_eq!(found.insert(folder.join(name), None), None);
            }
            WalkItem::Entry(name, NamedEntry::Refused(reason)) => {
                found.insert(folder.join(name), Some(reason));
            }
            WalkItem::Entry(_, NamedEntry::Folder(visit)) => assert!(walk.push(visit)),
            WalkItem::Entry(_, NamedEntry::Nothing) => panic!("not an item"),
            WalkItem::End(Some(reason)) => {
                found.insert(folder.clone(), Some(reason));
            }
            WalkItem::End(None) => {}
        }
    }
    assert!(walk.is_done());
    found
}

#[test]
fn what_matches_is_listed_and_what_is_passed_over_has_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let odd = OsStr::from_bytes(b"a\n\xff.log");
    let long = format!("{}.log", "n".repeat(251));
    fs::create_dir_all(at("sub/deep")).unwrap();
    fs::create_dir(at("folder.log")).unwrap();
    fs::write(folder.path().join(odd), b"").unwrap();
    fs::write(at(&long), b"").unwrap();
    fs::write(at("sub/deep/b.log"), b"").unwrap();
    fs::write(at("sub/other"), b"").unwrap();
    fs::write(outside.path().join("c.log"), b"").unwrap();
    symlink("sub/deep/b.log", at("link.log")).unwrap();
    symlink("gone", at("dangling.log")).unwrap();
    symlink("circle.log", at("circle.log")).unwrap();
    symlink(outside.path().join("c.log"), at("outside.log")).unwrap();
    symlink("/dev/zero", at("zero.log")).unwrap();
    nix::unistd::mkfifo(&at("fifo.log"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let top = format!("{}/*.log", folder.path().display());
    let deep = format!("{}/sub/**/*.log", folder.path().display());
    let found = walk_all(&[&top, &deep], &[], false);
    let target = fs::canonicalize(outside.path()).unwrap().join("c.log");
    let special = |kind| Some(PathRefusal::Special(kind));
    let expected = BTreeMap::from([
        (folder.path().join(odd), None),
        (at(&long), None),
        (at("sub/deep/b.log"), None),
        (at("link.log"), None),
        (at("dangling.log"), Some(PathRefusal::Dangling)),
        (at("circle.log"), Some(PathRefusal::LinkLoop)),
        (at("outside.log"), Some(PathRefusal::Outside { target })),
        (at("zero.log"), special(SpecialFile::CharacterDevice)),
        (at("fifo.log"), special(SpecialFile::Fifo)),
        (at("folder.log"), special(SpecialFile::Folder)),
    ]);
    assert_eq!(found, expected);
    assert_eq!(walk_all(&[&top], &[], true)[&at("outside.log")], None);
    assert_eq!(
        walk_all(&[&top], &[outside.path()], false)[&at("outside.log")],
        None
    );
}

#[test]
fn circles_of_links_to_folders_end() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("a/sub")).unwrap();
    fs::create_dir(at("b")).unwrap();
    fs::write(at("a/1.log"), b"").unwrap();
    fs::write(at("b/2.log"), b"").unwrap();
    symlink("../b", at("a/to_b")).unwrap();
    symlink("../a", at("b/to_a")).unwrap();
    symlink("..", at("a/sub/up")).unwrap();
    let pattern = format!("{}/**/*.log", folder.path().display());
    let found = walk_all(&[&pattern], &[], false);
    let files: Vec<_> = found
        .iter()
        .filter(|(_, refusal)| refusal.is_none())
        .collect();
    let names = ["a/1.log", "a/to_b/2.log", "b/2.log", "b/to_a/1.log"];
    assert_eq!(files.len(), names.len(), "{found:?}");
    names
        .iter()
        .for_each(|name| assert_eq!(found[&at(name)], None));
    for circle in ["a/sub/up", "a/to_b/to_a", "b/to_a/to_b"] {
        assert_eq!(found[&at(circle)], Some(PathRefusal::LinkLoop));
    }
}

#[test]
fn links_to_folders_that_multiply_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: String| folder.path().join(name);
    // Each folder has two links to the next: 2^12 paths, of which 2^8 are followed.
    for level in 0..12 {
        fs::create_dir(at(format!("{level}"))).unwrap();
        for link in ["x", "y"] {
            let target = format!("../{}", level + 1);
            symlink(target, at(format!("{level}/{link}"))).unwrap();
        }
    }
    fs::create_dir(at("12".to_owned())).unwrap();
    fs::write(at("12/a.log".to_owned()), b"").unwrap();
    let pattern = format!("{}/0/**", folder.path().display());
    let found = walk_all(&[&pattern], &[folder.path()], false);
    let too_deep = |reason: &&Option<PathRefusal>| **reason == Some(PathRefusal::TooDeep);
    assert_eq!(
        found.values().filter(too_deep).count(),
        1 << (LINKS_MAX + 1)
    );
    assert_eq!(found.len(), 1 << (LINKS_MAX + 1));
}

#[test]
fn a_folder_without_permission_is_named() {
    if nix::unistd::geteuid().is_root() {
        eprintln!("skipped: root may read everything");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let sub = folder.path().join("sub");
    fs::create_dir(&sub).unwrap();
    fs::set_permissions(&sub, fs::Permissions::from_mode(0o000)).unwrap();
    let pattern = format!("{}/**/*.log", folder.path().display());
    assert_eq!(
        walk_all(&[&pattern], &[], false)[&sub],
        Some(PathRefusal::Denied)
    );
    fs::set_permissions(&sub, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_root_that_is_missing_is_named() {
    let missing = Path::new("/nonexistent-inrush/*.log").to_str().unwrap();
    let found = walk_all(&[missing], &[], false);
    let root = PathBuf::from("/nonexistent-inrush");
    assert_eq!(found, BTreeMap::from([(root, Some(PathRefusal::Gone))]));
}
