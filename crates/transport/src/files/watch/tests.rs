//! Tests of notices: renames, limits of the kernel, overflow.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use super::*;

struct WatchScene {
    folder: tempfile::TempDir,
    watcher: InotifyWatcher,
}

impl WatchScene {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            watcher: InotifyWatcher::new(usize::MAX).unwrap(),
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// All notices that are there: the kernel queues them within the system call.
    fn notices(&mut self) -> Vec<WatchEvent> {
        let mut events = Vec::new();
        while self.watcher.read(&mut events).unwrap() {}
        events
    }
}

#[test]
fn a_folder_tells_names_that_come_and_go() {
    let mut scene = WatchScene::new();
    let number = scene.watcher.watch_folder(scene.folder.path()).unwrap();
    let odd = OsStr::from_bytes(b"new\nline \xff.log").to_owned();
    let long = OsString::from("n".repeat(255));
    for name in [&odd, &long] {
        let path = scene.folder.path().join(name);
        File::create(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(
            scene.notices(),
            [
                WatchEvent::Created(number, name.clone()),
                WatchEvent::Deleted(number, name.clone())
            ]
        );
    }
    File::create(scene.at("a")).unwrap();
    fs::rename(scene.at("a"), scene.at("b")).unwrap();
    let notices = scene.notices();
    let [
        _,
        WatchEvent::MovedOut(_, from, out),
        WatchEvent::MovedIn(_, to, cookie),
    ] = notices.as_slice()
    else {
        panic!("{notices:?}");
    };
    assert_eq!(
        (from.to_str(), to.to_str(), out),
        (Some("a"), Some("b"), cookie)
    );
}

#[test]
fn an_open_file_tells_its_changes_under_any_name() {
    let mut scene = WatchScene::new();
    let mut writer = File::create(scene.at("a")).unwrap();
    let reader = File::open(scene.at("a")).unwrap();
    fs::rename(scene.at("a"), scene.at("b")).unwrap();
    File::create(scene.at("a")).unwrap();
    let number = scene.watcher.watch_file(&reader).unwrap();
    writer.write_all(b"x").unwrap();
    assert_eq!(scene.notices(), [WatchEvent::Modified(number)]);
    fs::rename(scene.at("b"), scene.at("c")).unwrap();
    assert_eq!(scene.notices(), [WatchEvent::SelfMoved(number)]);
    fs::remove_file(scene.at("c")).unwrap();
    assert_eq!(scene.notices(), [WatchEvent::Attributes(number)]);
    writer.write_all(b"x").unwrap();
    assert_eq!(scene.notices(), [WatchEvent::Modified(number)]);
    drop(reader);
    drop(writer);
    assert_eq!(scene.notices(), [WatchEvent::Ended(number)]);
    assert_eq!(scene.watcher.watches(), 0);
}

#[test]
fn a_removed_watch_is_silent_and_its_number_is_not_used_again() {
    let mut scene = WatchScene::new();
    let mut writer = File::create(scene.at("a")).unwrap();
    let before = scene.watcher.watch_file(&writer).unwrap();
    assert_eq!(scene.watcher.watch_file(&writer).unwrap(), before);
    scene.watcher.remove(before);
    writer.write_all(b"x").unwrap();
    assert_eq!(scene.notices(), [WatchEvent::Ended(before)]);
    let now = scene.watcher.watch_file(&writer).unwrap();
    assert_ne!(now, before);
    writer.write_all(b"x").unwrap();
    assert_eq!(scene.notices(), [WatchEvent::Modified(now)]);
}

#[test]
fn lost_notices_are_an_event() {
    let mut scene = WatchScene::new();
    let queued_max = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let queued_max: usize = queued_max.trim().parse().unwrap();
    let mut one = File::create(scene.at("1")).unwrap();
    let mut two = File::create(scene.at("2")).unwrap();
    scene.watcher.watch_file(&one).unwrap();
    scene.watcher.watch_file(&two).unwrap();
    // Equal notices one after the other would be one.
    for _ in 0..=queued_max / 2 {
        one.write_all(b"x").unwrap();
        two.write_all(b"x").unwrap();
    }
    let notices = scene.notices();
    assert_eq!(notices.last(), Some(&WatchEvent::Overflow));
    assert_eq!(notices.len(), queued_max + 1);
}

#[test]
fn refusals_have_their_reason() {
    let mut scene = WatchScene::new();
    File::create(scene.at("file")).unwrap();
    let mut refusal = |name: &str| {
        let path = scene.folder.path().join(name);
        scene.watcher.watch_folder(&path).unwrap_err()
    };
    assert_eq!(refusal("nothing"), WatchRefusal::Gone);
    assert_eq!(refusal("file"), WatchRefusal::Gone);
    let mut few = InotifyWatcher::new(1).unwrap();
    let number = few.watch_folder(scene.folder.path()).unwrap();
    assert_eq!(few.watch_folder(scene.folder.path()), Ok(number));
    assert_eq!(few.watch_folder(Path::new("/")), Err(WatchRefusal::Full));
    few.remove(number);
    assert!(few.watch_folder(Path::new("/")).is_ok());
}

#[test]
fn a_notice_wakes_a_poll_of_mio() {
    let mut scene = WatchScene::new();
    let mut poll = mio::Poll::new().unwrap();
    poll.registry()
        .register(&mut scene.watcher, Token(7), Interest::READABLE)
        .unwrap();
    scene.watcher.watch_folder(scene.folder.path()).unwrap();
    let path = scene.at("a");
    let maker = std::thread::spawn(move || File::create(path).unwrap());
    let mut ready = mio::Events::with_capacity(4);
    poll.poll(&mut ready, None).unwrap();
    assert!(ready.iter().any(|event| event.token() == Token(7)));
    maker.join().unwrap();
}

/// In a user namespace with limits of its own: those of the host are everybody's.
#[test]
fn used_up_limits_of_the_kernel_are_values() {
    const CHILD: &str = "INRUSH_TEST_INOTIFY_LIMITS";
    if std::env::var_os(CHILD).is_some() {
        return within_small_limits();
    }
    let script = "echo 3 > /proc/sys/user/max_inotify_watches && \
                  echo 1 > /proc/sys/user/max_inotify_instances && exec \"$@\"";
    let test = "files::watch::tests::used_up_limits_of_the_kernel_are_values";
    let child = Command::new("unshare")
        .args(["-Ur", "sh", "-c", script, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .output();
    let child = match child {
        Ok(child) if !String::from_utf8_lossy(&child.stdout).contains("running 1 test") => {
            eprintln!("skipped: no user namespace: {child:?}");
            return;
        }
        Err(error) => {
            eprintln!("skipped: no `unshare`: {error}");
            return;
        }
        Ok(child) => child,
    };
    assert!(child.status.success(), "{child:?}");
}

fn within_small_limits() {
    let folder = tempfile::tempdir().unwrap();
    let mut watcher = InotifyWatcher::new(usize::MAX).unwrap();
    assert_eq!(InotifyWatcher::new(1).err(), Some(WatchRefusal::NoInstance));
    let results: Vec<_> = (0..4)
        .map(|number| {
            let path = folder.path().join(number.to_string());
            fs::create_dir(&path).unwrap();
            watcher.watch_folder(&path).err()
        })
        .collect();
    assert_eq!(results, [None, None, None, Some(WatchRefusal::Full)]);
}
