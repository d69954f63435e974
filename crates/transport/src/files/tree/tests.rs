//! Discovery on a real file system. A test without an interval waits for nothing: the kernel
//! queues a notice within the call that causes it, so all events are there after it.
//!
//! Tests of polling wait for their event ([`TreeScene::wait_for`]). The deadline is only met by
//! one that fails.
//! Patterns are below a temporary folder of each test.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::thread;

use super::*;
use crate::files::tail_file::SpecialFile;

/// A poll interval that no test waits for.
const NEVER: Duration = Duration::from_secs(3_600);

/// An interval of tests in which polling is what finds.
const SOON: Duration = Duration::from_millis(5);

/// A bound of a test that fails.
const DEADLINE: Duration = Duration::from_secs(60);

struct TreeScene {
    folder: tempfile::TempDir,
    watcher: TreeWatcher,
    events: Vec<TreeEvent>,
}

impl TreeScene {
    fn new(include: &[&str]) -> Self {
        Self::with(include, |_| ())
    }

    /// A scene whose patterns are below a folder of its own.
    fn with(include: &[&str], change: impl FnOnce(&mut TreeOptions)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let below = |pattern: &&str| format!("{}/{pattern}", folder.path().display());
        let mut options = TreeOptions {
            include: include.iter().map(below).collect(),
            exclude: Vec::new(),
            allowed_roots: Vec::new(),
            follow_outside: false,
            poll_interval: NEVER,
            watches_max: usize::MAX,
        };
        change(&mut options);
        Self {
            watcher: TreeWatcher::new(&options).unwrap(),
            folder,
            events: Vec::new(),
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str) {
        fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        fs::write(self.at(name), name).unwrap();
    }

    fn found(&self, name: &str) -> TreeEvent {
        TreeEvent::Found {
            path: self.at(name),
        }
    }

    fn vanished(&self, name: &str) -> TreeEvent {
        TreeEvent::Vanished {
            path: self.at(name),
        }
    }

    fn refused(&self, name: &str, reason: PathRefusal) -> TreeEvent {
        TreeEvent::Refused {
            path: self.at(name),
            reason,
        }
    }

    fn moved(&self, from: &str, to: &str, to_matches: bool) -> TreeEvent {
        TreeEvent::Moved {
            from: self.at(from),
            to: self.at(to),
            to_matches,
        }
    }

    /// Events until nothing is left to do: notices are queued within the calls that cause them.
    fn settle(&mut self) -> Vec<TreeEvent> {
        loop {
            let idle = self.watcher.due_in(Instant::now()) > Duration::ZERO;
            let before = self.events.len();
            self.watcher.poll(Duration::ZERO, &mut self.events).unwrap();
            let moves = self.watcher.moves.is_empty();
            let due = self.watcher.due_in(Instant::now()) > Duration::ZERO;
            if idle && due && moves && self.events.len() == before {
                return std::mem::take(&mut self.events);
            }
        }
    }

    /// Polls until an event comes.
    fn wait_for(&mut self, wanted: &TreeEvent) {
        let end = Instant::now() + DEADLINE;
        while !self.events.contains(wanted) {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{wanted:?} is not in {:?}", self.events);
            self.watcher.poll(left, &mut self.events).unwrap();
        }
    }
}

fn sorted(mut events: Vec<TreeEvent>) -> Vec<TreeEvent> {
    events.sort_by_key(|event| format!("{event:?}"));
    events
}

#[test]
fn files_are_found_before_and_after_the_begin_and_vanish() {
    let mut scene = TreeScene::new(&["*/*.log"]);
    scene.write("a/1.log");
    scene.write("a/other");
    assert_eq!(scene.settle(), [scene.found("a/1.log")]);
    scene.write("a/2.log");
    scene.write("b/3.log");
    let found = [scene.found("a/2.log"), scene.found("b/3.log")];
    assert_eq!(sorted(scene.settle()), found);
    assert_eq!(scene.watcher.counts().folders, 3);
    fs::remove_file(scene.at("a/1.log")).unwrap();
    assert_eq!(scene.settle(), [scene.vanished("a/1.log")]);
    fs::remove_dir_all(scene.at("b")).unwrap();
    assert_eq!(scene.settle(), [scene.vanished("b/3.log")]);
    let counts = scene.watcher.counts();
    assert_eq!((counts.folders, counts.watches, counts.names), (2, 2, 2));
}

#[test]
fn a_rename_is_one_event_where_both_names_are_watched() {
    let mut scene = TreeScene::new(&["a/*.log", "b/*.log"]);
    let elsewhere = tempfile::tempdir_in(scene.folder.path()).unwrap();
    scene.write("a/0.log");
    scene.write("b/x.log");
    scene.settle();
    fs::rename(scene.at("a/0.log"), scene.at("a/0.log.20261125-072133")).unwrap();
    scene.write("a/0.log");
    let rotated = scene.moved("a/0.log", "a/0.log.20261125-072133", false);
    assert_eq!(scene.settle(), [rotated, scene.found("a/0.log")]);
    fs::rename(scene.at("a/0.log"), scene.at("b/1.log")).unwrap();
    assert_eq!(scene.settle(), [scene.moved("a/0.log", "b/1.log", true)]);
    fs::rename(scene.at("b/1.log"), elsewhere.path().join("y")).unwrap();
    assert_eq!(scene.settle(), [scene.vanished("b/1.log")]);
    fs::rename(elsewhere.path().join("y"), scene.at("b/2.log")).unwrap();
    assert_eq!(scene.settle(), [scene.found("b/2.log")]);
    // Over a file that is known.
    fs::rename(scene.at("b/2.log"), scene.at("b/x.log")).unwrap();
    assert_eq!(scene.settle(), [scene.moved("b/2.log", "b/x.log", true)]);
    assert_eq!(scene.watcher.counts().names, 1);
}

/// A new folder is watched too late for the second half of the rename.
#[test]
fn a_file_that_left_vanishes_before_the_next_one_of_its_name_is_found() {
    let mut scene = TreeScene::new(&["**/*.log"]);
    scene.write("0.log");
    scene.settle();
    fs::create_dir(scene.at("new")).unwrap();
    fs::rename(scene.at("0.log"), scene.at("new/1.log")).unwrap();
    scene.write("0.log");
    let events = [
        scene.vanished("0.log"),
        scene.found("0.log"),
        scene.found("new/1.log"),
    ];
    assert_eq!(scene.settle(), events);
}

#[test]
fn a_file_that_was_renamed_before_it_was_found_is_missed() {
    let mut scene = TreeScene::new(&["*.log"]);
    scene.settle();
    scene.write("a.log");
    fs::rename(scene.at("a.log"), scene.at("a.log.1")).unwrap();
    let missed = TreeEvent::Missed {
        from: scene.at("a.log"),
        to: scene.at("a.log.1"),
    };
    assert_eq!(scene.settle(), [missed]);
    // The next one may have its name by the time that it is looked at.
    scene.write("a.log");
    fs::rename(scene.at("a.log"), scene.at("a.log.2")).unwrap();
    scene.write("a.log");
    let moved = scene.moved("a.log", "a.log.2", false);
    let found = scene.found("a.log");
    assert_eq!(scene.settle(), [found.clone(), moved, found]);
    // Of one that went where nothing is watched nothing can be told.
    scene.write("b.log");
    fs::rename(scene.at("b.log"), scene.folder.path().with_extension("b")).unwrap();
    assert_eq!(scene.settle(), []);
    fs::remove_file(scene.folder.path().with_extension("b")).unwrap();
}

#[test]
fn each_file_that_was_made_counts_whatever_became_of_it() {
    let mut scene = TreeScene::new(&["*.log"]);
    scene.write("before.log");
    scene.settle();
    assert!(scene.watcher.take_made().is_empty(), "it is listed");
    for _ in 0..3 {
        scene.write("a.log");
        fs::rename(scene.at("a.log"), scene.at("a.log.1")).unwrap();
    }
    fs::rename(scene.at("a.log.1"), scene.at("a.log")).unwrap();
    scene.write("b.log");
    fs::remove_file(scene.at("b.log")).unwrap();
    fs::create_dir(scene.at("c.log")).unwrap();
    scene.write("other");
    scene.settle();
    let made = [(scene.at("a.log"), 3), (scene.at("b.log"), 1)];
    assert_eq!(scene.watcher.take_made(), HashMap::from(made));
    assert!(scene.watcher.is_settled() && scene.watcher.take_made().is_empty());
}

#[test]
fn a_renamed_folder_takes_its_files_with_it() {
    let mut scene = TreeScene::new(&["*/*/*.log"]);
    scene.write("a/s/1.log");
    scene.settle();
    fs::rename(scene.at("a"), scene.at("b")).unwrap();
    let events = [scene.vanished("a/s/1.log"), scene.found("b/s/1.log")];
    assert_eq!(scene.settle(), events);
    scene.write("b/s/2.log");
    assert_eq!(scene.settle(), [scene.found("b/s/2.log")]);
    let counts = scene.watcher.counts();
    assert_eq!((counts.folders, counts.watches), (3, 3));
}

#[test]
fn a_missing_prefix_is_waited_for_and_found_again() {
    let mut scene = TreeScene::new(&["x/y/z/*.log"]);
    assert_eq!(scene.settle(), []);
    assert_eq!(
        scene.watcher.counts().watches,
        1,
        "of the nearest folder above"
    );
    scene.write("x/y/z/1.log");
    scene.wait_for(&scene.found("x/y/z/1.log"));
    scene.settle();
    fs::rename(scene.at("x/y/z"), scene.at("x/y/old")).unwrap();
    assert_eq!(scene.settle(), [scene.vanished("x/y/z/1.log")]);
    scene.write("x/y/z/1.log");
    assert_eq!(scene.settle(), [scene.found("x/y/z/1.log")]);
    fs::remove_dir_all(scene.at("x")).unwrap();
    assert_eq!(scene.settle(), [scene.vanished("x/y/z/1.log")]);
    scene.write("x/y/z/2.log");
    assert_eq!(scene.settle(), [scene.found("x/y/z/2.log")]);
}

/// No notice comes of the rename of a folder above a watched one: the interval finds it.
#[test]
fn a_prefix_that_was_replaced_from_above_is_found_by_polling() {
    let mut scene = TreeScene::with(&["x/y/*.log"], |options| options.poll_interval = SOON);
    scene.write("x/y/1.log");
    scene.wait_for(&scene.found("x/y/1.log"));
    fs::rename(scene.at("x"), scene.at("old")).unwrap();
    scene.write("x/y/2.log");
    scene.wait_for(&scene.found("x/y/2.log"));
    assert!(scene.events.contains(&scene.vanished("x/y/1.log")));
}

/// Folders and files that are made at once, while the watcher looks.
#[test]
fn files_in_new_folders_are_all_found() {
    const FOLDERS: usize = 300;
    let mut scene = TreeScene::new(&["**/*.log"]);
    let base = scene.folder.path().to_owned();
    let maker = thread::spawn(move || {
        for number in 0..FOLDERS {
            let folder = base.join(format!("{number}/a/b"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("0.log"), b"").unwrap();
        }
    });
    for number in 0..FOLDERS {
        scene.wait_for(&scene.found(&format!("{number}/a/b/0.log")));
    }
    maker.join().unwrap();
    let counts = scene.watcher.counts();
    assert_eq!(
        (counts.folders, counts.watches),
        (3 * FOLDERS + 1, 3 * FOLDERS + 1)
    );
}

#[test]
fn a_link_that_is_switched_is_found_again() {
    let mut scene = TreeScene::new(&["current"]);
    scene.write("1.log");
    scene.write("2.log");
    symlink("1.log", scene.at("current")).unwrap();
    assert_eq!(scene.settle(), [scene.found("current")]);
    symlink("2.log", scene.at("next")).unwrap();
    fs::rename(scene.at("next"), scene.at("current")).unwrap();
    assert_eq!(scene.settle(), [scene.found("current")]);
    fs::remove_file(scene.at("current")).unwrap();
    assert_eq!(scene.settle(), [scene.vanished("current")]);
    assert_eq!(scene.watcher.counts().watches, 1);
}

/// The log of a pod is a link into docker's data, two links away, where docker rotates it.
#[test]
fn a_rotation_behind_two_links_is_seen() {
    let mut scene = TreeScene::with(&["containers/*.log"], |options| {
        options.follow_outside = true
    });
    scene.write("docker/id/id-json.log");
    fs::create_dir_all(scene.at("pods/p")).unwrap();
    symlink("../../docker/id/id-json.log", scene.at("pods/p/0.log")).unwrap();
    fs::create_dir(scene.at("containers")).unwrap();
    symlink("../pods/p/0.log", scene.at("containers/p.log")).unwrap();
    assert_eq!(scene.settle(), [scene.found("containers/p.log")]);
    fs::rename(
        scene.at("docker/id/id-json.log"),
        scene.at("docker/id/id-json.log.1"),
    )
    .unwrap();
    scene.write("docker/id/id-json.log");
    assert_eq!(scene.settle(), [scene.found("containers/p.log")]);
    // A restart: the kubelet makes the next link.
    symlink("../../docker/id/id-json.log.1", scene.at("pods/p/1.log")).unwrap();
    symlink("../pods/p/1.log", scene.at("containers/new")).unwrap();
    fs::rename(scene.at("containers/new"), scene.at("containers/p.log")).unwrap();
    assert_eq!(scene.settle(), [scene.found("containers/p.log")]);
    fs::remove_file(scene.at("containers/p.log")).unwrap();
    assert_eq!(scene.settle(), [scene.vanished("containers/p.log")]);
    assert_eq!(
        scene.watcher.counts().watches,
        1,
        "those of the link are gone"
    );
}

#[test]
fn what_is_no_file_is_refused_once() {
    let mut scene = TreeScene::with(&["*.log"], |options| options.poll_interval = SOON);
    let outside = tempfile::NamedTempFile::new().unwrap();
    nix::unistd::mkfifo(&scene.at("fifo.log"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    symlink("/dev/zero", scene.at("zero.log")).unwrap();
    symlink(outside.path(), scene.at("outside.log")).unwrap();
    symlink("later", scene.at("dangling.log")).unwrap();
    scene.write("last.log");
    let target = fs::canonicalize(outside.path()).unwrap();
    let refused = [
        scene.refused("dangling.log", PathRefusal::Dangling),
        scene.refused("fifo.log", PathRefusal::Special(SpecialFile::Fifo)),
        scene.refused("outside.log", PathRefusal::Outside { target }),
        scene.refused(
            "zero.log",
            PathRefusal::Special(SpecialFile::CharacterDevice),
        ),
    ];
    scene.wait_for(&scene.found("last.log"));
    while scene.events.len() < refused.len() + 1 {
        scene.watcher.poll(DEADLINE, &mut scene.events).unwrap();
    }
    // The target of a link comes where it is not noticed: the interval finds it.
    scene.write("later");
    scene.wait_for(&scene.found("dangling.log"));
    fs::remove_file(scene.at("fifo.log")).unwrap();
    scene.write("fifo.log");
    scene.wait_for(&scene.found("fifo.log"));
    let is_refusal = |event: &&TreeEvent| matches!(event, TreeEvent::Refused { .. });
    let said: Vec<_> = scene.events.iter().filter(is_refusal).cloned().collect();
    assert_eq!(sorted(said), refused);
}

#[test]
fn lost_notices_are_made_up_for() {
    let mut scene = TreeScene::new(&["*/*.log"]);
    scene.write("a/gone.log");
    scene.write("a/replaced.log");
    scene.settle();
    let stays = Arc::new(TailFile::open(&scene.at("a/replaced.log"), scene.roots()).unwrap());
    let watch = FileWatch(1);
    assert_eq!(scene.watcher.watch_file(watch, &stays), None);
    let queued_max = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    for number in 0..queued_max.trim().parse::<usize>().unwrap() {
        let path = scene.at(&format!("a/noise-{}", number % 2));
        File::create(&path).unwrap();
        fs::remove_file(&path).unwrap();
    }
    fs::remove_file(scene.at("a/gone.log")).unwrap();
    fs::remove_file(scene.at("a/replaced.log")).unwrap();
    scene.write("a/replaced.log");
    scene.write("a/new.log");
    scene.write("b/new.log");
    fs::create_dir(scene.at("c")).unwrap();
    let events = scene.settle();
    let expected = [
        TreeEvent::Overflow,
        scene.vanished("a/gone.log"),
        scene.found("a/replaced.log"),
        scene.found("a/new.log"),
        scene.found("b/new.log"),
    ];
    for event in &expected {
        let times = events.iter().filter(|known| *known == event).count();
        assert_eq!(times, 1, "{event:?} in {events:?}");
    }
    for change in [
        FileChange::Content,
        FileChange::Attributes,
        FileChange::Name,
    ] {
        let changed = TreeEvent::Changed {
            file: watch,
            change,
        };
        assert!(events.contains(&changed), "{change:?}");
    }
    assert_eq!(scene.watcher.counts().overflows, 1);
    scene.write("c/later.log");
    assert_eq!(scene.settle(), [scene.found("c/later.log")]);
}

#[test]
fn folders_without_a_watch_are_polled_and_say_so_once() {
    let mut scene = TreeScene::with(&["*/*.log"], |options| {
        options.poll_interval = SOON;
        options.watches_max = 2;
    });
    for folder in ["a", "b", "c"] {
        scene.write(&format!("{folder}/1.log"));
    }
    for folder in ["a", "b", "c"] {
        scene.wait_for(&scene.found(&format!("{folder}/1.log")));
    }
    let counts = scene.watcher.counts();
    assert_eq!((counts.watches, counts.folders_polled), (2, 2));
    for folder in ["a", "b", "c"] {
        scene.write(&format!("{folder}/2.log"));
        fs::remove_file(scene.at(&format!("{folder}/1.log"))).unwrap();
    }
    for folder in ["a", "b", "c"] {
        scene.wait_for(&scene.found(&format!("{folder}/2.log")));
        scene.wait_for(&scene.vanished(&format!("{folder}/1.log")));
    }
    let polling = |event: &&TreeEvent| matches!(event, TreeEvent::Polling { .. });
    let said: Vec<_> = scene.events.iter().filter(polling).collect();
    assert!(matches!(
        said[..],
        [TreeEvent::Polling {
            reason: WatchRefusal::Full,
            ..
        }]
    ));
    // A file without a watch is polled too.
    let path = scene.at("a/2.log");
    let file = Arc::new(TailFile::open(&path, scene.roots()).unwrap());
    let watch = FileWatch(1);
    let refusal = scene.watcher.watch_file(watch, &file);
    assert_eq!(refusal, Some(WatchRefusal::Full));
    assert_eq!(scene.watcher.counts().files_polled, 1);
    File::options()
        .append(true)
        .open(&path)
        .unwrap()
        .write_all(b"more")
        .unwrap();
    scene.wait_for(&TreeEvent::Changed {
        file: watch,
        change: FileChange::Content,
    });
    fs::remove_file(&path).unwrap();
    scene.wait_for(&TreeEvent::Changed {
        file: watch,
        change: FileChange::Attributes,
    });
    // Watches that get free are used.
    scene.watcher.forget_file(watch);
    fs::remove_dir_all(scene.at("a")).unwrap();
    fs::remove_dir_all(scene.at("b")).unwrap();
    let end = Instant::now() + DEADLINE;
    while scene.watcher.counts().folders_polled > 0 {
        assert!(Instant::now() < end, "{:?}", scene.watcher.counts());
        scene.watcher.poll(DEADLINE, &mut scene.events).unwrap();
    }
}

#[test]
fn an_open_file_is_reported_once_a_poll_until_it_is_paused() {
    let mut scene = TreeScene::new(&["*.log"]);
    scene.write("a.log");
    scene.settle();
    let path = scene.at("a.log");
    let file = Arc::new(TailFile::open(&path, scene.roots()).unwrap());
    let twice = Arc::new(TailFile::open(&path, scene.roots()).unwrap());
    let (watch, other) = (FileWatch(1), FileWatch(2));
    assert_eq!(scene.watcher.watch_file(watch, &file), None);
    assert_eq!(scene.watcher.watch_file(other, &twice), None);
    let changed = |file, change| TreeEvent::Changed { file, change };
    let mut writer = File::options().append(true).open(&path).unwrap();
    for _ in 0..3 {
        writer.write_all(b"x").unwrap();
        writer
            .set_permissions(fs::Permissions::from_mode(0o600))
            .unwrap();
    }
    let both = [
        changed(watch, FileChange::Content),
        changed(other, FileChange::Content),
        changed(watch, FileChange::Attributes),
        changed(other, FileChange::Attributes),
    ];
    assert_eq!(scene.settle(), both);
    scene.watcher.pause_file(other);
    writer.write_all(b"x").unwrap();
    assert_eq!(scene.settle(), [changed(watch, FileChange::Content)]);
    scene.watcher.pause_file(watch);
    writer.write_all(b"x").unwrap();
    assert_eq!(scene.settle(), []);
    assert_eq!(scene.watcher.watch_file(watch, &file), None);
    assert_eq!(scene.settle(), [], "what came before is read by its user");
    writer.write_all(b"x").unwrap();
    assert_eq!(scene.settle(), [changed(watch, FileChange::Content)]);
    fs::remove_file(&path).unwrap();
    let deleted = [
        scene.vanished("a.log"),
        changed(watch, FileChange::Attributes),
    ];
    assert_eq!(sorted(scene.settle()), sorted(deleted.to_vec()));
    // Another file gets its number.
    scene.write("b.log");
    let next = Arc::new(TailFile::open(&scene.at("b.log"), scene.roots()).unwrap());
    assert_eq!(scene.watcher.watch_file(watch, &next), None);
    assert_eq!(scene.watcher.counts().files_watched, 1);
    scene.settle();
    let mut writer = File::options().append(true).open(scene.at("b.log"));
    writer.as_mut().unwrap().write_all(b"x").unwrap();
    assert_eq!(scene.settle(), [changed(watch, FileChange::Content)]);
    scene.watcher.forget_file(watch);
    scene.watcher.forget_file(other);
    let counts = scene.watcher.counts();
    assert_eq!((counts.watches, counts.files_watched), (1, 0));
}

#[test]
fn a_large_folder_is_listed_over_many_polls() {
    let files = EVENTS_MAX * 2 + 100;
    let mut scene = TreeScene::new(&["*.log"]);
    for number in 0..files {
        File::create(scene.at(&format!("{number}.log"))).unwrap();
    }
    let mut found = 0;
    let mut polls = 0;
    while scene.watcher.due_in(Instant::now()).is_zero() {
        scene.watcher.poll(NEVER, &mut scene.events).unwrap();
        assert!(scene.events.len() <= EVENTS_MAX + 4096);
        found += scene.events.drain(..).count();
        polls += 1;
        if polls == 2 {
            // Names that leave and come in the midst of the listing.
            for number in 0..files / 2 {
                fs::remove_file(scene.at(&format!("{number}.log"))).unwrap();
            }
        }
    }
    assert!(
        polls > 3 && found >= files / 2,
        "{polls} polls, {found} events"
    );
    scene.settle();
    assert_eq!(scene.watcher.counts().names, files - files / 2);
}

#[test]
fn a_folder_that_is_reached_by_two_paths_has_its_files_under_both() {
    let mut scene = TreeScene::new(&["*/*.log"]);
    fs::create_dir(scene.at("real")).unwrap();
    symlink("real", scene.at("link")).unwrap();
    assert_eq!(scene.settle(), []);
    assert_eq!(scene.watcher.counts().watches, 2);
    scene.write("real/1.log");
    let found = [scene.found("link/1.log"), scene.found("real/1.log")];
    assert_eq!(sorted(scene.settle()), found);
    fs::remove_file(scene.at("link")).unwrap();
    assert_eq!(scene.settle(), [scene.vanished("link/1.log")]);
    scene.write("real/2.log");
    assert_eq!(scene.settle(), [scene.found("real/2.log")]);
}

#[test]
fn a_poll_of_mio_is_woken_by_a_new_file() {
    let mut scene = TreeScene::new(&["*.log"]);
    scene.settle();
    let mut poll = mio::Poll::new().unwrap();
    poll.registry()
        .register(&mut scene.watcher, Token(3), Interest::READABLE)
        .unwrap();
    scene.write("a.log");
    let mut ready = mio::Events::with_capacity(4);
    poll.poll(&mut ready, None).unwrap();
    assert!(ready.iter().any(|event| event.token() == Token(3)));
    assert_eq!(scene.settle(), [scene.found("a.log")]);
    poll.registry().deregister(&mut scene.watcher).unwrap();
}

#[test]
fn a_folder_without_permission_is_found_once_it_is_given() {
    if nix::unistd::geteuid().is_root() {
        eprintln!("skipped: root may read everything");
        return;
    }
    let mut scene = TreeScene::with(&["*/*.log"], |options| options.poll_interval = SOON);
    scene.write("a/1.log");
    fs::set_permissions(scene.at("a"), fs::Permissions::from_mode(0o000)).unwrap();
    scene.wait_for(&scene.refused("a", PathRefusal::Denied));
    fs::set_permissions(scene.at("a"), fs::Permissions::from_mode(0o700)).unwrap();
    scene.wait_for(&scene.found("a/1.log"));
}

impl TreeScene {
    fn roots(&self) -> &AllowedRoots {
        self.watcher.allowed_roots()
    }
}
