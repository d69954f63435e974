//! Retention, compaction, and what is broken.

use std::fs;
use std::time::Duration;

use super::*;
use crate::Retention;
use crate::upkeep::{compact, retain};

const HOUR: i64 = 3_600_000_000_000;

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
    retain(&store, &options, NOW + HOUR / 12, || None).unwrap();
    assert_eq!(left(&store), (3, 3));
    retain(&store, &options, NOW + HOUR, || None).unwrap();
    assert_eq!(left(&store), (3, 0));
    assert_eq!(parquet_files(folder.path()).len(), 3, "the files are gone");
    assert_eq!(store.counters.expired[0].get(), 3);
    retain(&store, &options, NOW + 3 * HOUR, || None).unwrap();
    assert_eq!(left(&store), (0, 0));
}

#[test]
fn what_is_too_much_goes_the_oldest_first() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), 3);
    let each = store.files()[0].entry.bytes;
    let mut options = options();
    options.retention.bytes = Some(each * 5);
    retain(&store, &options, NOW, || None).unwrap();
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
    retain(&store, &options, NOW, || None).unwrap();
    assert_eq!(left(&store).1, 1);
    options.indexes.clear();
    options.free_bytes = 1000;
    retain(&store, &options, NOW, || Some(1000)).unwrap();
    assert_eq!(store.counters.expired[2].get(), 0, "there is room enough");
    retain(&store, &options, NOW, || Some(999)).unwrap();
    assert_eq!(store.counters.expired[2].get(), 1);
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
    retain(&first, &options, NOW + HOUR, || None).unwrap();
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
    retain(&store, &options, NOW + HOUR, || None).unwrap();
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
    let error = Store::open(Home::folder(folder.path()).unwrap())
        .err()
        .unwrap();
    assert!(
        error.to_string().contains("00000000000000000002.commit"),
        "{error}"
    );
    fs::remove_file(&log).unwrap();
    let error = Store::open(Home::folder(folder.path()).unwrap())
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
        let opened = crate::commits::Commits::load(&Home::folder(folder.path()).unwrap()).unwrap();
        assert_eq!(
            opened.files.values().map(|f| f.rows).sum::<u64>(),
            250,
            "{whole}"
        );
    }
}

#[test]
fn two_processes_cannot_both_write() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (store(folder.path()), store(folder.path()));
    let mut queue = Queue::default();
    queue.push(batch("main", &[(NOW, b"text")]));
    let queue = Arc::new(queue);
    take_all(&one, &queue);
    queue.restart();
    take_all(&other, &queue);
    let state = queue.state.lock().unwrap();
    assert_eq!(
        (state.settled.len(), state.put_back),
        (0, 1),
        "the second holds its events"
    );
    assert_eq!(committed(folder.path()), [0]);
}

#[test]
fn a_reader_leaves_alone_what_the_writer_is_writing() {
    let folder = tempfile::tempdir().unwrap();
    drop(filled(folder.path(), 1));
    let part = folder.path().join("_log/00000000000000000099.commit.part");
    fs::write(&part, "half").unwrap();
    let opened = Store::open_read_only(Home::folder(folder.path()).unwrap()).unwrap();
    assert_eq!(opened.levels().events, 2);
    assert!(part.exists(), "it may belong to a process that runs");
    drop(store(folder.path()));
    assert!(!part.exists(), "the next writer tidies up");
}
