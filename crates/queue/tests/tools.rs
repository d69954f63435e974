//! Looking into a log's folder and mending it, at the level of files.
#![allow(clippy::unwrap_used)]

mod common;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::{batch, texts};
use inrush_event::{Fate, Feed, FeedNext, Ledger};
use inrush_queue::{EventQuery, Inspector, Log, QueueOptions, repair};
use tempfile::{TempDir, tempdir};

/// Opens the log as a process would that is then killed: nothing is written at its end.
fn open(folder: &Path) -> (Arc<Ledger>, Arc<Log>) {
    let ledger = Ledger::new();
    let log = Log::open(folder, QueueOptions::default(), Arc::clone(&ledger)).unwrap();
    (ledger, log)
}

fn all() -> EventQuery {
    EventQuery {
        events: 0..u64::MAX,
        destination: None,
    }
}

fn shown(folder: &Path, query: &EventQuery) -> Vec<(u64, String)> {
    let mut shown = Vec::new();
    let inspector = Inspector::open(folder, false).unwrap().unwrap();
    inspector
        .events(query, |number, batch, record| {
            let text = String::from_utf8(batch.get(record.raw).to_vec()).unwrap();
            shown.push((number, text));
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
    shown
}

/// Three batches of two events that `a` has not taken and `b` has taken in part.
fn three() -> TempDir {
    let folder = tempdir().unwrap();
    let (ledger, log) = open(folder.path());
    let _a = log.attach(&ledger.destination("a"));
    let b = log.attach(&ledger.destination("b"));
    let writer = log.start().unwrap().unwrap();
    for n in 0..3 {
        let texts = [format!("event {}", 2 * n), format!("event {}", 2 * n + 1)];
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        log.append(batch(&texts), true, || {}).unwrap();
    }
    for _ in 0..2 {
        let FeedNext::Batch(delivery) = b.next(Duration::from_secs(30)) else {
            panic!("nothing comes");
        };
        assert_eq!(texts(&delivery.batch).len(), 2);
        b.settle(delivery.position, 0..1, Fate::Delivered);
    }
    log.close();
    writer.join().unwrap();
    folder
}

#[test]
fn a_new_destination_gets_nothing_older_than_itself_even_if_the_process_is_killed() {
    let folder = three();
    let (ledger, log) = open(folder.path());
    let _ = log.attach(&ledger.destination("new"));
    drop(log);
    let (ledger, _log) = open(folder.path());
    assert_eq!(ledger.snapshot().destinations["a"].pending, 6);
    assert_eq!(ledger.snapshot().destinations["new"].pending, 0);
}

#[test]
fn what_is_pending_is_told_to_the_event() {
    let folder = three();
    let inspector = Inspector::open(folder.path(), false).unwrap().unwrap();
    let cursors = inspector.cursors().unwrap();
    let of = |name: &str| cursors.iter().find(|c| c.destination == name).unwrap();
    assert_eq!(
        (of("a").next_event, of("a").unsettled, of("a").pending),
        (0, 0, 6)
    );
    assert_eq!(
        (of("b").next_event, of("b").unsettled, of("b").pending),
        (4, 2, 4)
    );
    let pending = |name: &str| EventQuery {
        destination: Some(name.to_owned()),
        ..all()
    };
    let numbers = |query: &EventQuery| -> Vec<u64> {
        shown(folder.path(), query)
            .into_iter()
            .map(|(number, _)| number)
            .collect()
    };
    assert_eq!(numbers(&pending("a")), [0, 1, 2, 3, 4, 5]);
    assert_eq!(numbers(&pending("b")), [1, 3, 4, 5]);
    assert_eq!(
        numbers(&EventQuery {
            events: 2..4,
            ..pending("b")
        }),
        [3]
    );
    assert_eq!(shown(folder.path(), &all())[5], (5, "event 5".to_owned()));
}

/// Copies the folder, so that it can be damaged again and again.
fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

const SEGMENT: &str = "0000000000.seg";

/// What the next process counts as lost for `a`, who then gets the rest.
fn lost_to_a(folder: &Path) -> (u64, usize) {
    let (ledger, log) = open(folder);
    let feed = log.attach(&ledger.destination("a"));
    let mut taken = 0;
    while ledger.snapshot().destinations["a"].pending > 0 {
        match feed.next(Duration::from_millis(100)) {
            FeedNext::Batch(delivery) => {
                taken += delivery.events.len();
                feed.settle(delivery.position, delivery.events, Fate::Delivered);
            }
            _ => continue,
        }
    }
    let a = &ledger.snapshot().destinations["a"];
    let of = |reason| a.dropped.get(reason).copied().unwrap_or(0);
    (of("corrupt") + of("not_durable"), taken)
}

/// Damages, verifies, repairs, verifies again; what was counted before is what is counted after.
fn through_the_mill(sound: &TempDir, what: &str, damage: impl Fn(&mut Vec<u8>)) {
    let folder = tempdir().unwrap();
    let path = folder.path();
    copy(sound.path(), path);
    let file = path.join(SEGMENT);
    let mut bytes = std::fs::read(&file).unwrap();
    damage(&mut bytes);
    std::fs::write(&file, &bytes).unwrap();

    let verify = || {
        Inspector::open(path, false)
            .unwrap()
            .unwrap()
            .verify(|_| ())
            .unwrap()
    };
    let before = verify();
    let length = bytes.len() as u64;
    let counted: u64 = before.segments.iter().map(|s| s.sound_bytes).sum();
    let strange = !before.strange.is_empty();
    assert!(
        strange || counted + before.bad_bytes() == length,
        "{what}: {before:?}"
    );
    let events = |verified: &inrush_queue::VerifiedLog| -> u64 {
        verified.segments.iter().map(|segment| segment.events).sum()
    };
    let in_view = shown(path, &all());
    assert_eq!(in_view.len() as u64, events(&before), "{what}");
    assert!(
        in_view
            .iter()
            .all(|(number, text)| *text == format!("event {number}")),
        "{what}"
    );

    repair(path, false, &mut |_| ()).unwrap();
    let mut again = Vec::new();
    repair(path, false, &mut |action| again.push(action)).unwrap();
    assert_eq!(again, [], "{what}: the second repair finds nothing");
    let after = verify();
    assert_eq!(
        (after.bad_bytes(), events(&after)),
        (0, events(&before)),
        "{what}"
    );
    let lost = |verified: &inrush_queue::VerifiedLog| -> u64 {
        let wanted = verified.lost.iter().flat_map(|lost| &lost.wanted_by);
        wanted.filter(|(name, _)| name == "a").map(|(_, n)| n).sum()
    };
    assert_eq!(lost(&after), lost(&before), "{what}");
    assert_eq!(shown(path, &all()), in_view, "{what}");
    if !strange {
        let (dropped, taken) = lost_to_a(path);
        assert_eq!(
            (dropped, taken as u64),
            (lost(&before), events(&before)),
            "{what}"
        );
    }
}

#[test]
fn every_flipped_byte_is_found_and_repaired_without_losing_a_sound_event() {
    let sound = three();
    let length = std::fs::read(sound.path().join(SEGMENT)).unwrap().len();
    for at in (0..length).step_by(5) {
        through_the_mill(&sound, &format!("byte {at}"), |bytes| bytes[at] ^= 0x20);
    }
}

#[test]
fn a_segment_that_ends_anywhere_is_repaired() {
    let sound = three();
    let length = std::fs::read(sound.path().join(SEGMENT)).unwrap().len();
    for end in (0..length).step_by(11) {
        through_the_mill(&sound, &format!("length {end}"), |bytes| {
            bytes.truncate(end)
        });
    }
}

#[test]
fn a_missing_segment_is_told_by_those_who_wanted_it() {
    let folder = three();
    let (ledger, log) = open(folder.path());
    let _feed = log.attach(&ledger.destination("a"));
    let writer = log.start().unwrap().unwrap();
    log.append(batch(&["event 6"]), true, || {}).unwrap();
    log.close();
    writer.join().unwrap();
    std::fs::remove_file(folder.path().join(SEGMENT)).unwrap();
    let verified = Inspector::open(folder.path(), false)
        .unwrap()
        .unwrap()
        .verify(|_| ())
        .unwrap();
    assert!(verified.is_damaged());
    assert_eq!(verified.lost.len(), 1);
    assert_eq!(verified.lost[0].events.end, 6);
    assert!(
        verified.lost[0].wanted_by.contains(&("a".to_owned(), 6)),
        "{verified:?}"
    );
}
