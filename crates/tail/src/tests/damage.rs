//! Names and files that nobody should write, and some do.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::*;

#[test]
fn names_are_any_bytes() {
    let source = TestSource::prepared(LINES, None);
    let long = [&[b'x'; 251][..], b".log"].concat();
    let names: [&[u8]; 4] = [b"a\nb.log", b"\xff\xfe.log", b" \t'\"$.log", &long];
    let write = |name: &[u8], text: &str| {
        let path = source.harness.folder.path().join(OsStr::from_bytes(name));
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    let folder = source.harness.folder.path().to_owned();
    for (number, name) in names.iter().enumerate() {
        write(name, &format!("{number}\n"));
    }
    let mut source = source;
    source.run();
    source.texts(4);
    source.stop();
    // Renamed by one that takes names as they are, and read on after the restart.
    for (number, name) in names.iter().enumerate() {
        let path = folder.join(OsStr::from_bytes(name));
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(format!("{}\n", number + 4).as_bytes())
            .unwrap();
    }
    source.run();
    let mut texts = source.texts(8).to_vec();
    texts.sort();
    assert_eq!(texts, ["0", "1", "2", "3", "4", "5", "6", "7"]);
}

#[test]
fn a_thousand_files_that_begin_alike_are_each_read_once() {
    let mut source = TestSource::prepared(r#"{"include": ["{dir}/*.log*"], "host": "h"}"#, None);
    let head = format!("{}\n", "h".repeat(2000));
    for number in 0..500 {
        source.append(&format!("{number}.log.1"), &format!("{head}{number}.1\n"));
        source.append(&format!("{number}.log"), &format!("{head}{number}.0\n"));
    }
    source.run();
    let texts = source.texts(2000);
    let mut numbers: Vec<&str> = texts.iter().map(String::as_str).collect();
    numbers.retain(|text| !text.starts_with('h'));
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 1000);
}

#[test]
fn a_file_that_shrinks_to_less_than_was_read_is_read_anew() {
    let mut source = TestSource::start(LINES);
    let file = source.append("a.log", "1\n2\n3\n");
    source.texts(3);
    // The half of a line is left, and is a line of its own.
    file.set_len(3).unwrap();
    source.wait("it is seen", |counts| counts.truncated.get() == 1);
    source.append("a.log", "4\n");
    assert_eq!(source.texts(5), ["1", "2", "3", "1", "24"]);
}

#[test]
fn a_folder_that_vanishes_while_its_files_are_read_costs_nothing() {
    let mut source = TestSource::start(r#"{"include": ["{dir}/**/*.log"], "host": "h"}"#);
    let mut files = Vec::new();
    for number in 0..20 {
        files.push(source.append(&format!("{number}/x/a.log"), "1\n"));
    }
    source.texts(20);
    for (number, file) in files.iter_mut().enumerate() {
        file.write_all(b"2\n").unwrap();
        fs::remove_dir_all(source.path(&number.to_string())).unwrap();
        file.write_all(b"3\n").unwrap();
    }
    let texts = source.texts(60);
    assert_eq!(texts.iter().filter(|text| *text == "3").count(), 20);
    // Folders of the same names are new ones.
    source.append("0/x/a.log", "4\n");
    assert_eq!(source.texts(61)[60], "4");
}

/// Runs a test of this file again, in a child that `begin` starts; `false`: it cannot, and the test
/// is skipped.
fn in_child(test: &str, begin: &[&str], folder: &Path) -> bool {
    let child = std::process::Command::new(begin[0])
        .args(&begin[1..])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            &format!("file::tests::damage::{test}"),
            "--nocapture",
        ])
        .env(CHILD, "1")
        .env("TMPDIR", folder)
        .output();
    let child = match child {
        Ok(child) if String::from_utf8_lossy(&child.stdout).contains("running 1 test") => child,
        refused => {
            eprintln!("skipped: {begin:?}: {refused:?}");
            return false;
        }
    };
    assert!(child.status.success(), "{child:?}");
    true
}

/// Set in a child of a test.
const CHILD: &str = "INRUSH_TEST_FILES_CHILD";

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// As another user: root may read everything.
#[test]
fn a_file_is_read_once_the_permission_is_there() {
    if !is_child() {
        let folder = tempfile::tempdir().unwrap();
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(folder.path(), all).unwrap();
        let nobody = [
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
        ];
        in_child(
            "a_file_is_read_once_the_permission_is_there",
            &nobody,
            folder.path(),
        );
        return;
    }
    let allow = |file: &File, mode: u32| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        file.set_permissions(mode).unwrap();
    };
    let mut source = TestSource::prepared(CLOSED_SOON, None);
    let file = source.append("a.log", "1\n");
    allow(&file, 0o000);
    source.run();
    source.wait("it is refused", |counts| counts.failed_files.get() == 1);
    allow(&file, 0o600);
    assert_eq!(source.texts(1), ["1"]);
    // What is open stays open.
    allow(&file, 0o000);
    (&file).write_all(b"2\n").unwrap();
    assert_eq!(source.texts(2), ["1", "2"]);
    // Closed without permission, and read on with it.
    source.rename("a.log", "a.log.1");
    source.wait("it is closed", |counts| counts.open_files.get() == 0);
    (&file).write_all(b"3\n").unwrap();
    source.wait("it is refused", |counts| counts.failed_files.get() == 2);
    allow(&file, 0o600);
    assert_eq!(source.texts(3), ["1", "2", "3"]);
}

/// Files are closed as soon as their names are gone.
const CLOSED_SOON: &str = r#"{"include": ["{dir}/*.log"], "host": "h", "rotate_hold": "0s",
    "poll_interval": "10ms"}"#;

/// On ext4, which gives an inode to the next file.
#[test]
fn an_inode_that_is_used_again_is_another_file() {
    const TEST: &str = "an_inode_that_is_used_again_is_another_file";
    if !is_child() {
        let folder = tempfile::tempdir().unwrap();
        let script = "truncate -s 16M \"$TMPDIR/image\" && mkfs.ext4 -q -F \"$TMPDIR/image\" && \
                      mkdir \"$TMPDIR/at\" && mount -o loop \"$TMPDIR/image\" \"$TMPDIR/at\" && \
                      export TMPDIR=\"$TMPDIR/at\" && exec \"$@\"";
        let begin = ["unshare", "-m", "sh", "-c", script, "sh"];
        in_child(TEST, &begin, folder.path());
        return;
    }
    let inode = |file: &File| std::os::unix::fs::MetadataExt::ino(&file.metadata().unwrap());
    let mut source = TestSource::start(CLOSED_SOON);
    let head = "the same beginning\n";
    let mut inodes = Vec::new();
    for number in 0..10 {
        let file = source.append("a.log", &format!("{head}{number}\n"));
        inodes.push(inode(&file));
        drop(file);
        assert_eq!(
            source.texts(2 * number + 2).last().unwrap(),
            &number.to_string()
        );
        match number % 3 {
            0 => fs::remove_file(source.path("a.log")).unwrap(),
            1 => {
                source.rename("a.log", "a.log.1");
                source.wait("it is closed", |counts| counts.open_files.get() == 0);
                fs::remove_file(source.path("a.log.1")).unwrap();
            }
            _ => {
                source.stop();
                fs::remove_file(source.path("a.log")).unwrap();
                source.run();
            }
        }
        source.wait("it is closed", |counts| counts.open_files.get() == 0);
    }
    let before = inodes.len();
    inodes.sort_unstable();
    inodes.dedup();
    assert!(inodes.len() < before, "no inode was used again");
    assert_eq!(source.texts.len(), 20);
}
