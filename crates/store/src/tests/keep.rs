//! Retention, compaction, and what is broken.

use std::fs;
use std::time::Duration;

use inrush_event::{ClockJudgement, Timestamp, WallClock};

use super::*;
use crate::upkeep::{compact, retain};
use crate::{DiskHeadroom, Retention};

const HOUR: i64 = 3_600_000_000_000;

/// A clock that is right.
fn at(ns: i64) -> ClockJudgement {
    WallClock::new(None, Timestamp(ns), Duration::ZERO).judge(Timestamp(ns), Duration::ZERO)
}

/// A clock that jumped from `from` to `to`.
fn jumped(from: i64, to: i64) -> ClockJudgement {
    let mut clock = WallClock::new(None, Timestamp(from), Duration::ZERO);
    clock.judge(Timestamp(to), Duration::ZERO)
}

/// A store with `files` files in each of two indexes, every file with one event.
fn filled(folder: &Path, files: u64) -> Arc<Store> {
    for number in 0..files * 2 {
        let mut queue = Queue::default();
        for _ in 0..number {
            queue.push(batch("main", &[(NOW, b"passed over")]));
        }
        // Only the last is new: the others are in the store already.
        let index = ["main", "netfw"][(number % 2) as usize];
        queue.push(batch(index, &[(NOW, format!("event {number}").as_bytes())]));
        take_all(&store(folder), &Arc::new(queue));
    }
    store(folder)
}

fn left(store: &Store) -> (usize, usize) {
    let of = |index: &str| {
        let files = store.files();
        files
            .iter()
            .filter(|file| file.entry.index == index)
            .count()
    };
    (of("main"), of("netfw"))
}

#[test]
fn what_is_too_old_goes_by_the_rule_of_its_index() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), 3);
    let age = |age| Retention {
        age: Some(Duration::from_secs(age)),
        bytes: None,
    };
    let mut options = options();
    options.retention = age(7200);
    options.indexes.insert("netfw".into(), age(600));
    retain(&store, &options, &at(NOW + HOUR / 12), || None).unwrap();
    assert_eq!(left(&store), (3, 3));
    retain(&store, &options, &at(NOW + HOUR), || None).unwrap();
    assert_eq!(left(&store), (3, 0));
    assert_eq!(parquet_files(folder.path()).len(), 3, "the files are gone");
    assert_eq!(store.counters.expired[0].get(), 3);
    retain(&store, &options, &at(NOW + 3 * HOUR), || None).unwrap();
    assert_eq!(left(&store), (0, 0));
}

#[test]
fn what_is_too_much_goes_the_oldest_first() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), 3);
    let each = store.files()[0].entry.bytes;
    let mut options = options();
    options.retention.bytes = Some(each * 5);
    retain(&store, &options, &at(NOW), || None).unwrap();
    assert_eq!(
        left(&store).0 + left(&store).1,
        4,
        "one file is larger by some bytes"
    );
    options.retention.bytes = None;
    let own = Retention {
        age: None,
        bytes: Some(each + 100),
    };
    options.indexes.insert("netfw".into(), own);
    retain(&store, &options, &at(NOW), || None).unwrap();
    assert_eq!(left(&store).1, 1);
    options.indexes.clear();
}

/// A disk with so many bytes free, of which 1,000 are to stay free.
fn room(free: u64, claimed: u64) -> Option<DiskHeadroom> {
    Some(DiskHeadroom {
        free,
        claimed,
        least: 1000,
        short: 0,
    })
}

#[test]
fn room_is_made_of_what_is_old_enough_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), 2);
    let options = options();
    let day = options.min_age.as_nanos() as i64;
    retain(&store, &options, &at(NOW + 2 * day), || room(1000, 0)).unwrap();
    assert_eq!(left(&store), (2, 2), "there is room enough");
    retain(&store, &options, &at(NOW + day - HOUR), || room(0, 0)).unwrap();
    assert_eq!(left(&store), (2, 2), "all are too young");
    assert_eq!(store.room().map(|room| room.short), Some(1000));
    retain(&store, &options, &jumped(NOW, NOW + 60 * day), || {
        room(0, 0)
    })
    .unwrap();
    assert_eq!(left(&store), (2, 2), "the clock jumped");
    let deleted = retain(&store, &options, &at(NOW + 2 * day), || room(999, 0)).unwrap();
    assert_eq!((deleted.files, deleted.events), (1, 1));
    assert_eq!(store.room().map(|room| room.short), Some(0));
    let account = store.account();
    assert_eq!((account.at_start, account.expired), (4, [0, 0, 1]));
    assert_eq!(account.searchable, 3);
    // What the queue has a budget for is left to it; what it has taken is no reason to delete.
    retain(&store, &options, &at(NOW + 2 * day), || room(2000, 1000)).unwrap();
    retain(&store, &options, &at(NOW + 2 * day), || room(1000, 0)).unwrap();
    assert_eq!(store.account().searchable, 3);
    retain(&store, &options, &at(NOW + 2 * day), || room(1999, 1000)).unwrap();
    assert_eq!(store.account().searchable, 2);
}

#[test]
fn a_clock_that_jumps_deletes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), 2);
    let mut options = options();
    options.retention.age = Some(Duration::from_secs(30 * 86_400));
    for days in [-400, -1, 2, 60] {
        let time = jumped(NOW, NOW + days * 24 * HOUR);
        retain(&store, &options, &time, || None).unwrap();
        assert_eq!(left(&store), (2, 2), "{days} d");
        let held_back = if days == 60 { 4 } else { 0 };
        assert_eq!(store.doubts().1, held_back, "{days} d");
    }
    retain(&store, &options, &at(NOW + 60 * 24 * HOUR), || None).unwrap();
    assert_eq!(left(&store), (0, 0), "it is so late");
}

#[test]
fn a_store_that_was_last_open_long_ago_keeps_its_events_at_first() {
    let folder = tempfile::tempdir().unwrap();
    // What the process before believed; the clock of this host is far beyond.
    let store = filled(folder.path(), 1);
    drop(store);
    let believed = format!("{{\"at_ms\":{},\"doubted\":false}}", NOW / 1_000_000);
    fs::write(folder.path().join("_log/clock"), believed).unwrap();
    let store = self::store(folder.path());
    let time = store.care.time();
    assert!(
        time.believed_in.is_some() && time.oldest.0 < NOW + HOUR,
        "{time:?}"
    );
    let mut options = options();
    options.retention.age = Some(Duration::from_secs(3600));
    retain(&store, &options, &time, || None).unwrap();
    assert_eq!(left(&store), (1, 1));
    // It goes on from there at the next start.
    store.care.keep_time(store.home(), true);
    let written = fs::read_to_string(folder.path().join("_log/clock")).unwrap();
    assert!(written.contains("\"doubted\":true"), "{written}");
}

#[test]
fn a_file_that_is_gone_is_counted_before_anyone_searches() {
    let folder = tempfile::tempdir().unwrap();
    drop(filled(folder.path(), 2));
    let files = parquet_files(folder.path());
    fs::remove_file(&files[0]).unwrap();
    fs::write(&files[1], b"PAR1").unwrap();
    let account = store(folder.path()).account();
    assert_eq!(
        (account.at_start, account.unreadable, account.searchable),
        (4, 2, 2)
    );
}

#[test]
fn what_retention_has_deleted_does_not_come_back_from_the_queue() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::default();
    queue.push(batch("main", &[(NOW, b"one"), (NOW, b"two")]));
    let queue = Arc::new(queue);
    let first = store(folder.path());
    take_all(&first, &queue);
    let mut options = options();
    options.retention.age = Some(Duration::from_secs(60));
    retain(&first, &options, &at(NOW + HOUR), || None).unwrap();
    drop(first);
    queue.restart();
    let second = store(folder.path());
    take_all(&second, &queue);
    assert_eq!(second.levels().events, 0);
    assert_eq!(queue.state.lock().unwrap().settled.len(), 2);
}

#[test]
fn a_reader_keeps_the_files_that_it_began_with() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), 1);
    let snapshot = store.snapshot();
    let mut options = options();
    options.retention.age = Some(Duration::from_secs(60));
    retain(&store, &options, &at(NOW + HOUR), || None).unwrap();
    assert_eq!(store.snapshot().files.len(), 0);
    assert_eq!(
        parquet_files(folder.path()).len(),
        2,
        "still there for the reader"
    );
    drop(snapshot);
    store.bury();
    assert_eq!(parquet_files(folder.path()).len(), 0);
}

#[test]
fn a_broken_file_costs_itself_and_no_compaction() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), 4);
    let broken = parquet_files(folder.path())[0].clone();
    let mut bytes = fs::read(&broken).unwrap();
    let middle = bytes.len() / 2;
    bytes[4..middle].fill(0xff);
    fs::write(&broken, bytes).unwrap();
    while compact(&store, NOW + HOUR).unwrap() {}
    assert_eq!(store.levels().bad_files, 1);
    assert!(broken.exists(), "it is left for those who can mend it");
    assert_eq!(left(&store), (2, 1), "the others are merged");
    assert_eq!(store.levels().events, 8);
}

#[test]
fn a_log_that_is_broken_is_named_and_nothing_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    drop(filled(folder.path(), 2));
    let log = folder.path().join("_log/00000000000000000002.commit");
    let good = fs::read(&log).unwrap();
    let mut bad = good.clone();
    bad[20] ^= 1;
    fs::write(&log, &bad).unwrap();
    let error = Store::open(DurableStorage::folder(folder.path()).unwrap())
        .err()
        .unwrap();
    assert!(
        error.to_string().contains("00000000000000000002.commit"),
        "{error}"
    );
    fs::remove_file(&log).unwrap();
    let error = Store::open(DurableStorage::folder(folder.path()).unwrap())
        .err()
        .unwrap();
    assert!(error.to_string().contains("not there"), "{error}");
    assert_eq!(parquet_files(folder.path()).len(), 4);
    fs::write(&log, &good).unwrap();
    assert_eq!(store(folder.path()).levels().events, 4);
}

#[test]
fn a_store_of_many_commits_is_opened_from_the_last_full_list() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::default();
    // So much that each batch is a commit of its own.
    let text = vec![b'x'; 2 * options().flush_bytes as usize];
    for _ in 0..250 {
        queue.push(batch("main", &[(NOW, &text)]));
    }
    let queue = Arc::new(queue);
    let first = store(folder.path());
    take_all(&first, &queue);
    let log = first.home().list("_log").unwrap();
    let of = |end: &str| {
        log.iter()
            .filter(|listed| listed.path.ends_with(end))
            .count()
    };
    assert_eq!(of(".full"), 2);
    assert!(
        of(".commit") < 250,
        "those before the older full list are gone"
    );
    drop(first);
    let last = log
        .iter()
        .rfind(|listed| listed.path.ends_with(".full"))
        .unwrap();
    for whole in [true, false] {
        if !whole {
            fs::write(folder.path().join(&last.path), b"{}\n00000000\n").unwrap();
        }
        let opened =
            crate::commits::ManifestLog::load(&DurableStorage::folder(folder.path()).unwrap())
                .unwrap();
        assert_eq!(
            opened.files.values().map(|f| f.rows).sum::<u64>(),
            250,
            "{whole}"
        );
    }
}

#[test]
fn a_folder_has_one_writer() {
    let folder = tempfile::tempdir().unwrap();
    let one = store(folder.path());
    let error = Store::open(DurableStorage::folder(folder.path()).unwrap())
        .err()
        .unwrap();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
    let ours = format!("process {} writes to", std::process::id());
    assert!(error.to_string().contains(&ours), "{error}");
    Store::open_read_only(DurableStorage::folder(folder.path()).unwrap()).unwrap();
    drop(one);
    store(folder.path());
}

#[test]
fn a_commit_of_a_stranger_ends_the_writing_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::default();
    queue.push(batch("main", &[(NOW, b"text")]));
    let queue = Arc::new(queue);
    let one = store(folder.path());
    // Somebody who does not heed the lock takes the number.
    let lock = folder.path().join("_log/writer.lock");
    fs::remove_file(&lock).unwrap();
    let other = store(folder.path());
    take_all(&one, &queue);
    queue.restart();
    take_all(&other, &queue);
    let state = queue.state.lock().unwrap();
    let (settled, put_back) = (state.settled.len(), state.put_back);
    assert_eq!((settled, put_back), (0, 1), "the second holds its events");
    drop(state);
    assert_eq!(committed(folder.path()), [0]);
}

/// A store of several commits, merges among them, and of which list.
fn with_history(folder: &Path) -> u64 {
    let mut queue = Queue::default();
    let text = vec![b'x'; 2 * options().flush_bytes as usize];
    for _ in 0..20 {
        queue.push(batch("main", &[(NOW, &text), (NOW + 1, &text)]));
    }
    let queue = Arc::new(queue);
    let first = store(folder);
    take_all(&first, &queue);
    while compact(&first, NOW + HOUR).unwrap() {
        first.bury();
    }
    queue.events
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// A way to damage a file.
type Damage = fn(&Path);

const DAMAGES: [(&str, Damage); 7] = [
    ("deleted", |path| fs::remove_file(path).unwrap()),
    ("emptied", |path| fs::write(path, "").unwrap()),
    ("cut", |path| {
        let bytes = fs::read(path).unwrap();
        fs::write(path, &bytes[..bytes.len() - 1]).unwrap();
    }),
    ("flipped", |path| {
        let mut bytes = fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(path, bytes).unwrap();
    }),
    ("a folder", |path| {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
    }),
    ("a link", |path| {
        fs::remove_file(path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", path).unwrap();
    }),
    ("huge", |path| {
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(20 << 30).unwrap();
    }),
];

#[test]
fn whatever_befalls_an_object_of_the_log_a_repair_finds_every_event_once() {
    let original = tempfile::tempdir().unwrap();
    let events = with_history(original.path());
    let log = fs::read_dir(original.path().join("_log")).unwrap();
    let mut names: Vec<_> = log.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    let of = |name: &std::ffi::OsString| name.to_string_lossy().into_owned();
    let commits = names
        .iter()
        .map(of)
        .filter(|name| name.ends_with(".commit"));
    // The first, one of a batch, one of a merge, the last.
    let commits: Vec<String> = commits.collect();
    let last = commits.len() - 1;
    for at in [0, last / 2, last - 1, last] {
        for (how, damage) in DAMAGES {
            let folder = tempfile::tempdir().unwrap();
            copy(original.path(), folder.path());
            damage(&folder.path().join("_log").join(&commits[at]));
            let opened = Store::open(DurableStorage::folder(folder.path()).unwrap());
            if let Err(error) = &opened {
                assert!(error.to_string().contains("inrush store repair"), "{error}");
            }
            drop(opened);
            let home = DurableStorage::folder(folder.path()).unwrap();
            let repaired = crate::rebuild::repair(home, &mut |_, _| {}).unwrap();
            let case = format!("{} {how}: {repaired:?}", commits[at]);
            assert_eq!(
                (repaired.events, repaired.hidden_events),
                (events, 0),
                "{case}"
            );
            let all: Vec<u64> = (0..events).collect();
            assert_eq!(committed(folder.path()), all, "{case}");
            // It is a store as any other.
            let again = store(folder.path());
            assert_eq!(again.levels().events, events, "{case}");
            let home = DurableStorage::folder(folder.path()).unwrap();
            let report = crate::rebuild::verify(&home, &mut |_, _| {}).unwrap();
            assert_eq!(
                (report.list_is_sound, report.events),
                (true, events),
                "{case}"
            );
        }
    }
}

#[test]
fn a_list_that_is_gone_is_made_anew_and_merged_files_win() {
    let folder = tempfile::tempdir().unwrap();
    let events = with_history(folder.path());
    // The files of before a merge, as if a backup had been laid over the store.
    let backup = tempfile::tempdir().unwrap();
    let text = vec![b'x'; 2 * options().flush_bytes as usize];
    let mut queue = Queue::default();
    for _ in 0..6 {
        queue.push(batch("main", &[(NOW, &text), (NOW + 1, &text)]));
    }
    take_all(&store(backup.path()), &Arc::new(queue));
    copy(&backup.path().join("main"), &folder.path().join("main"));
    fs::remove_dir_all(folder.path().join("_log")).unwrap();
    let again = store(folder.path());
    assert_eq!(again.levels().events, events);
    assert_eq!(committed(folder.path()), (0..events).collect::<Vec<_>>());
    drop(again);
    assert_eq!(store(folder.path()).levels().events, events);
}

#[test]
fn a_list_that_is_deleted_under_way_is_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let first = store(folder.path());
    let push = |first_event: u64| {
        let mut queue = Queue::default();
        for _ in 0..first_event {
            queue.push(batch("main", &[(NOW, b"passed over")]));
        }
        queue.push(batch("main", &[(NOW, b"new")]));
        Arc::new(queue)
    };
    take_all(&first, &push(0));
    fs::remove_dir_all(folder.path().join("_log")).unwrap();
    take_all(&first, &push(1));
    take_all(&first, &push(2));
    drop(first);
    assert_eq!(store(folder.path()).levels().events, 3);
}

#[test]
fn a_flipped_bit_anywhere_in_a_file_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    drop(filled(folder.path(), 1));
    let path = parquet_files(folder.path()).remove(0);
    let good = fs::read(&path).unwrap();
    for at in (0..good.len()).step_by(7) {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        fs::write(&path, &bad).unwrap();
        let home = DurableStorage::folder(folder.path()).unwrap();
        let report = crate::rebuild::verify(&home, &mut |_, _| {}).unwrap();
        assert_eq!(report.hidden_events, 1, "byte {at}");
        assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
    }
}

#[test]
fn a_reader_leaves_alone_what_the_writer_is_writing() {
    let folder = tempfile::tempdir().unwrap();
    drop(filled(folder.path(), 1));
    let part = folder.path().join("_log/00000000000000000099.commit.part");
    fs::write(&part, "half").unwrap();
    let opened = Store::open_read_only(DurableStorage::folder(folder.path()).unwrap()).unwrap();
    assert_eq!(opened.levels().events, 2);
    assert!(part.exists(), "it may belong to a process that runs");
    drop(store(folder.path()));
    assert!(!part.exists(), "the next writer tidies up");
}

#[test]
fn a_batch_that_is_larger_than_what_is_written_at_once_is_written_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::default();
    let half = vec![b'x'; options().flush_bytes as usize / 2];
    queue.push(batch("main", &[(NOW, half.as_slice()); 7]));
    let queue = Arc::new(queue);
    let first = store(folder.path());
    take_all(&first, &queue);
    let rows: Vec<u64> = first.files().iter().map(|file| file.entry.rows).collect();
    let mut sorted = rows.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [1, 2, 2, 2], "{rows:?}");
    assert_eq!(committed(folder.path()).len(), 7);
}
