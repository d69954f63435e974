//! The process dies before every single change to the disk, and the next one takes over.

use tempfile::TempDir;

use super::*;
use crate::snapshot::Snapshot;
use crate::upkeep;

/// What a reader of a snapshot finds: the files by their locations, and the tail.
fn seen(folder: &Path, snapshot: &Snapshot) -> Vec<u64> {
    let of_file = |path: &str| {
        read_file(&folder.join(path))
            .iter()
            .flat_map(numbers)
            .collect()
    };
    let files = snapshot.files.iter();
    let mut all: Vec<u64> = files
        .flat_map(|file| -> Vec<u64> { of_file(file.location.as_ref()) })
        .collect();
    all.extend(snapshot.tail.iter().flat_map(|chunk| numbers(&chunk.rows)));
    all.sort_unstable();
    all
}

fn filled(batches: u64) -> Arc<Queue> {
    let mut queue = Queue::default();
    let text = vec![b'x'; 300];
    for number in 0..batches {
        let index = ["main", "netfw"][(number % 2) as usize];
        let time = NOW - (number as i64 % 3) * 3_600_000_000_000;
        queue.push(batch(
            index,
            &[(time, &text), (time + 1, &text), (time, &text)],
        ));
    }
    Arc::new(queue)
}

/// A copy of a folder with a store that no process has open.
fn copy_of(folder: &Path) -> TempDir {
    fn copy(from: &Path, to: &Path) {
        for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
            let (path, to) = (entry.path(), to.join(entry.file_name()));
            if path.is_dir() {
                std::fs::create_dir(&to).unwrap();
                copy(&path, &to);
            } else {
                std::fs::copy(&path, &to).unwrap();
            }
        }
    }
    let copied = tempfile::tempdir().unwrap();
    copy(folder, copied.path());
    copied
}

/// Runs `life` over a folder as `prepare` leaves it again and again, the fuse one step longer each
/// time, until it does not blow; each time it must hold afterwards that every event is there once.
fn die_everywhere(
    batches: u64,
    prepare: impl Fn(&Path, &Arc<Queue>),
    life: impl Fn(&Arc<Store>, &Arc<Queue>),
) {
    let (prepared, queue) = (tempfile::tempdir().unwrap(), filled(batches));
    prepare(prepared.path(), &queue);
    for steps in 0.. {
        let folder = copy_of(prepared.path());
        queue.restart();
        let (first, fuse) = fused(folder.path(), Trouble::Death);
        fuse.set(steps);
        life(&first, &queue);
        let survived = !fuse.is_blown();
        drop(first);
        // Whatever another program finds by name before the next start is committed.
        let found = committed(folder.path());
        assert!(
            found.windows(2).all(|w| w[0] < w[1]) || !survived,
            "step {steps}: {found:?}"
        );
        queue.restart();
        let second = store(folder.path());
        let before = second.levels().events;
        take_all(&second, &queue);
        let all: Vec<u64> = (0..queue.events).collect();
        assert_eq!(committed(folder.path()), all, "died at step {steps}");
        assert_eq!(
            seen(folder.path(), &second.snapshot()),
            all,
            "died at step {steps}"
        );
        let state = queue.state.lock().unwrap();
        assert_eq!(
            state.settled.len() as u64,
            queue.events,
            "died at step {steps}"
        );
        assert_eq!((state.settled_twice, state.put_back), (0, 0));
        assert_eq!(
            second.counters.repeated.get(),
            before,
            "what was there is not taken again"
        );
        drop(state);
        let leftovers = second.home().list("").unwrap();
        let strange = |path: &str| !path.ends_with(".parquet") && !path.starts_with("_log/");
        assert!(
            !leftovers.iter().any(|l| strange(&l.path)),
            "step {steps}: {leftovers:?}"
        );
        if survived {
            assert!(steps > 20, "that was too easy: {steps} steps");
            return;
        }
    }
}

#[test]
fn no_event_is_lost_or_there_twice_wherever_ingestion_dies() {
    die_everywhere(6, |_, _| {}, take_all);
}

#[test]
fn no_event_is_lost_or_there_twice_wherever_compaction_dies() {
    let prepare = |folder: &Path, queue: &Arc<Queue>| {
        // Two commits at least, so that every folder has two files.
        let first = store(folder);
        take_all(&first, &filled(6));
        take_all(&first, queue);
    };
    let later = NOW + 3_600_000_000_000;
    die_everywhere(12, prepare, |store, _| {
        while upkeep::compact(store, later).is_ok_and(|merged| merged) {
            store.bury();
        }
    });
}

/// Has one call fail, each in turn, before it is carried out or behind it; the life goes on, and
/// each time every event must be there once, at once and for the next process.
fn fail_everywhere(
    batches: u64,
    prepare: impl Fn(&Path, &Arc<Queue>),
    life: impl Fn(&Arc<Store>, &Arc<Queue>),
) {
    let (prepared, queue) = (tempfile::tempdir().unwrap(), filled(batches));
    prepare(prepared.path(), &queue);
    for steps in 0.. {
        let folder = copy_of(prepared.path());
        queue.restart();
        let (first, fuse) = fused(folder.path(), Trouble::Error);
        let before = first.levels().events;
        fuse.set(steps);
        life(&first, &queue);
        let survived = !fuse.is_blown();
        let all: Vec<u64> = (0..queue.events).collect();
        let found = seen(folder.path(), &first.snapshot());
        assert_eq!(found, all, "failed at step {steps}");
        assert_eq!(first.levels().bad_files, 0, "failed at step {steps}");
        if before == 0 {
            let state = queue.state.lock().unwrap();
            assert_eq!(state.settled.len() as u64, queue.events);
            assert_eq!((state.settled_twice, state.put_back), (0, 0));
        }
        drop(first);
        queue.restart();
        let second = store(folder.path());
        assert_eq!(
            second.levels().events,
            queue.events,
            "failed at step {steps}"
        );
        take_all(&second, &queue);
        assert_eq!(committed(folder.path()), all, "failed at step {steps}");
        if survived {
            assert!(steps > 20, "that was too easy: {steps} steps");
            return;
        }
    }
}

#[test]
fn no_event_is_lost_or_there_twice_whatever_call_of_ingestion_fails() {
    fail_everywhere(4, |_, _| {}, take_all_enduring);
}

#[test]
fn no_event_is_lost_or_there_twice_whatever_call_of_a_merge_fails() {
    let prepare = |folder: &Path, queue: &Arc<Queue>| {
        let first = store(folder);
        take_all(&first, &filled(6));
        take_all(&first, queue);
    };
    let later = NOW + 3_600_000_000_000;
    fail_everywhere(12, prepare, |store, _| {
        // One call fails; what it left half done is done at the next.
        let tries = (0..100).map(|_| upkeep::compact(store, later));
        let ended = tries
            .inspect(|_| store.bury())
            .find(|done| matches!(done, Ok(false)));
        assert!(ended.is_some(), "it does not end");
    });
}

#[test]
fn a_snapshot_has_every_event_once_while_files_are_written_and_merged() {
    let folder = tempfile::tempdir().unwrap();
    let queue = filled(200);
    let store = store(folder.path());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            take_all(&store, &queue);
            while upkeep::compact(&store, NOW + 3_600_000_000_000).unwrap() {
                store.bury();
            }
            done.store(true, SeqCst);
        });
        let mut before = 0;
        while !done.load(SeqCst) {
            let snapshot = store.snapshot();
            let seen = seen(folder.path(), &snapshot);
            let expected: Vec<u64> = (0..seen.len() as u64).collect();
            assert_eq!(
                seen, expected,
                "events come in order, none is missing, none twice"
            );
            assert!(seen.len() >= before, "what was seen stays");
            before = seen.len();
        }
    });
    assert_eq!(store.levels().events, queue.events);
    assert_eq!(store.levels().tail_events, 0);
}
