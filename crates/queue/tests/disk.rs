//! The log on a real folder: what was appended is there after a restart, and what was settled is
//! not handed out again.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use inrush_event::{
    Anomalies, Batch, BatchPool, ByteSize, Delivery, DropReason, Fate, Feed, FeedNext, Ledger,
    Peer, Protocol, Record, SourceInfo, Span, Timestamp, limits,
};
use inrush_queue::storage::DiskStorage;
use inrush_queue::{DestinationFeed, Durability, Inspector, Log, LogId, QueueOptions, WhenFull};
use tempfile::TempDir;

#[path = "common/slow_disk.rs"]
mod slow_disk;

use slow_disk::{Gate, SlowDisk};

/// Long enough for a reader of the disk, and not waited for where something is there.
const WAIT: Duration = Duration::from_secs(10);

/// One process at work on a folder.
struct Process {
    ledger: Arc<Ledger>,
    log: Arc<Log>,
    thread: Option<JoinHandle<()>>,
}

fn small() -> QueueOptions {
    QueueOptions {
        max_bytes: Some(ByteSize(limits::QUEUE_DISK_BYTES_MIN)),
        memory_bytes: Some(ByteSize(MEMORY_BYTES)),
        ..QueueOptions::default()
    }
}

const MEMORY_BYTES: u64 = 4 << 20;

/// Bytes of a batch's own header in a segment.
const FRAME_HEADER_BYTES: usize = 64;

/// The same without waiting for a disk: for tests that restart it thousands of times.
fn hasty() -> QueueOptions {
    QueueOptions {
        durability: Durability::Os,
        ..small()
    }
}

impl Process {
    fn start(folder: &Path, options: QueueOptions) -> Self {
        let ledger = Ledger::new();
        let log = Log::open(folder, options, Arc::clone(&ledger)).unwrap();
        let thread = log.start().unwrap();
        Self {
            ledger,
            log,
            thread,
        }
    }

    fn attach(&self, name: &str) -> Arc<DestinationFeed> {
        self.log.attach(&self.ledger.destination(name))
    }

    /// Appends one batch of texts and waits until it is durable.
    fn append(&self, texts: &[String]) -> u64 {
        let position = self.log.append(batch(texts), true, || {}).unwrap();
        let deadline = Instant::now() + WAIT;
        while self.log.durable_end() <= position {
            assert!(Instant::now() < deadline, "nothing becomes durable");
            std::thread::yield_now();
        }
        position
    }

    fn stop(mut self) -> Arc<Ledger> {
        self.log.close();
        self.thread.take().unwrap().join().unwrap();
        assert_eq!(self.ledger.snapshot().imbalance(), None);
        Arc::clone(&self.ledger)
    }
}

fn batch(texts: &[String]) -> Batch {
    let source = Arc::new(SourceInfo {
        name: "s".into(),
        index: "main".into(),
        sourcetype: "syslog".into(),
    });
    let mut builder = BatchPool::new().lend(&source, limits::MESSAGE_BYTES_DEFAULT);
    builder.stamp(Timestamp(7));
    let peer = builder.peer(Peer {
        ip: "192.0.2.7".parse().unwrap(),
        local_port: 514,
        protocol: Protocol::Tcp,
        client: None,
    });
    for text in texts {
        let start = builder.filled();
        builder.extend(text.as_bytes());
        let span = Span::new(start, builder.filled());
        let mut record = Record::unparsed(span, Timestamp(7), peer, Anomalies::NO_PRI);
        record.pri = 13;
        builder.parts().1.push(record);
    }
    builder.freeze(3)
}

fn texts(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|n| format!("event number {n}")).collect()
}

fn read(delivery: &Delivery) -> Vec<String> {
    let events = delivery.events.start as usize..delivery.events.end as usize;
    delivery.batch.records()[events]
        .iter()
        .map(|r| String::from_utf8(delivery.batch.get(r.raw).to_vec()).unwrap())
        .collect()
}

fn take(feed: &DestinationFeed) -> Option<Delivery> {
    match feed.next(WAIT) {
        FeedNext::Batch(delivery) => Some(delivery),
        FeedNext::Idle => panic!("nothing comes"),
        FeedNext::Closed => None,
    }
}

fn deliver(feed: &DestinationFeed) -> Vec<String> {
    let delivery = take(feed).unwrap();
    let texts = read(&delivery);
    feed.settle(delivery.position, delivery.events, Fate::Delivered);
    texts
}

/// Everything that a destination still gets, from a log that takes nothing more.
fn drain(process: &Process, feed: &DestinationFeed) -> Vec<String> {
    process.log.close();
    let mut all = Vec::new();
    while let Some(delivery) = take(feed) {
        all.extend(read(&delivery));
        feed.settle(delivery.position, delivery.events, Fate::Delivered);
    }
    all
}

#[test]
fn what_was_not_delivered_is_there_after_a_restart() {
    let folder = TempDir::new().unwrap();
    let first = Process::start(folder.path(), small());
    let (a, b) = (first.attach("a"), first.attach("b"));
    first.append(&texts(0..5));
    first.append(&texts(5..8));
    assert_eq!(deliver(&a), texts(0..5));
    let half = take(&b).unwrap();
    b.settle(half.position, 1..3, Fate::Delivered);
    first.stop();

    let second = Process::start(folder.path(), small());
    let pending = |name: &str| second.ledger.snapshot().destinations[name].pending;
    assert_eq!((pending("a"), pending("b")), (3, 6));
    let (a, b) = (second.attach("a"), second.attach("b"));
    second.append(&texts(8..9));
    assert_eq!(drain(&second, &a), texts(5..9));
    let mut left = texts(0..1);
    left.extend(texts(3..5));
    left.extend(texts(5..9));
    let mut got = drain(&second, &b);
    got.sort();
    assert_eq!(got, left);
    let ledger = second.stop().snapshot();
    assert_eq!(ledger.destinations["b"].delivered, 7);
    assert_eq!(ledger.destinations["b"].pending, 0);
}

#[test]
fn a_batch_comes_back_as_it_was() {
    let folder = TempDir::new().unwrap();
    let first = Process::start(folder.path(), small());
    let _feed = first.attach("a");
    first.append(&texts(0..2));
    first.stop();
    let second = Process::start(folder.path(), small());
    let delivery = take(&second.attach("a")).unwrap();
    let was = batch(&texts(0..2));
    assert_eq!(delivery.batch.bytes(), was.bytes());
    assert_eq!(delivery.batch.origins(), was.origins());
    assert_eq!(delivery.batch.source(), was.source());
    assert_eq!(delivery.batch.sequence(), 3);
    for (is, was) in delivery.batch.records().iter().zip(was.records()) {
        assert_eq!(format!("{is:?}"), format!("{was:?}"));
    }
    second.stop();
}

#[test]
fn a_destination_that_lags_reads_from_disk_and_its_segments_go_when_it_has_passed() {
    let folder = TempDir::new().unwrap();
    let process = Process::start(folder.path(), small());
    let (fast, slow) = (process.attach("fast"), process.attach("slow"));
    let long = "x".repeat(10_000);
    let line = |n: usize| format!("{n} {long}");
    for round in 0..40 {
        process.append(&(0..25).map(|n| line(round * 25 + n)).collect::<Vec<_>>());
        assert_eq!(deliver(&fast).len(), 25);
    }
    let levels = process.log.levels();
    assert!(levels.segments > 3, "{levels:?}");
    assert!(levels.bytes <= MEMORY_BYTES, "{levels:?}");
    let got = drain(&process, &slow);
    let numbers: Vec<usize> = got
        .iter()
        .map(|text| text.split(' ').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
    process.log.reclaim(Timestamp::now());
    assert_eq!(process.log.levels().segments, 1);
    process.stop();
    assert_eq!(segments(folder.path()).len(), 1);
}

#[test]
fn batches_of_every_size_come_back_from_the_disk() {
    let folder = TempDir::new().unwrap();
    let process = Process::start(folder.path(), QueueOptions::default());
    let feed = process.attach("a");
    let of_size = |n: usize| -> Vec<String> {
        // Up to 1.9 MB, with its rows more than an arena; most begin and end within a block.
        let events = (n * 7919) % 30 + 1;
        let event = |e| format!("{n} {e} {}", "x".repeat((n * 104_729) % 63_000));
        (0..events).map(event).collect()
    };
    let all = 0..40;
    for n in all.clone() {
        process.append(&of_size(n));
    }
    process.stop();
    drop(feed);
    let process = Process::start(folder.path(), QueueOptions::default());
    let feed = process.attach("a");
    for n in all {
        assert_eq!(deliver(&feed), of_size(n), "batch {n}");
    }
    process.stop();
}

fn segments(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    let mut found: Vec<_> = entries
        .filter(|path| path.extension().is_some_and(|e| e == "seg"))
        .collect();
    found.sort();
    found
}

#[test]
fn a_lost_cursor_repeats_and_loses_nothing() {
    let folder = TempDir::new().unwrap();
    let first = Process::start(folder.path(), small());
    let a = first.attach("a");
    first.append(&texts(0..4));
    deliver(&a);
    first.append(&texts(4..6));
    first.stop();
    fs::write(folder.path().join("cursor-a"), b"rubbish").unwrap();
    let second = Process::start(folder.path(), small());
    assert_eq!(drain(&second, &second.attach("a")), texts(0..6));
    second.stop();
}

#[test]
fn a_place_that_was_hidden_from_a_process_settles_nothing_that_it_accepted() {
    let folder = TempDir::new().unwrap();
    let process = Process::start(folder.path(), hasty());
    let feed = process.attach("a");
    process.append(&texts(0..3));
    deliver(&feed);
    process.stop();
    // Place and segments are hidden from the second process, which begins again at 0.
    let cursor = folder.path().join("cursor-a");
    let place = fs::read(&cursor).unwrap();
    fs::remove_file(&cursor).unwrap();
    for segment in segments(folder.path()) {
        fs::remove_file(segment).unwrap();
    }
    let process = Process::start(folder.path(), hasty());
    drop(process.attach("a"));
    process.append(&texts(3..5));
    process.stop();
    fs::write(&cursor, place).unwrap();
    let process = Process::start(folder.path(), hasty());
    let feed = process.attach("a");
    assert_eq!(drain(&process, &feed), texts(3..5));
    process.stop();
}

/// Events that `b` counts as lost two processes later, by the reason. `a` had got them from memory
/// and `b` had not, when the last segment became what `damage` makes of it.
fn lost_to_b(damage: impl Fn(&mut Vec<u8>)) -> (u64, u64) {
    let folder = TempDir::new().unwrap();
    let first = Process::start(folder.path(), small());
    drop((first.attach("a"), first.attach("b")));
    first.append(&texts(0..4));
    first.stop();
    let killed = Process::start(folder.path(), small());
    killed.append(&texts(4..6));
    assert_eq!(drain(&killed, &killed.attach("a")), texts(0..6));
    killed.stop();
    let last = segments(folder.path()).pop().unwrap();
    let mut bytes = fs::read(&last).unwrap();
    damage(&mut bytes);
    fs::write(&last, bytes).unwrap();
    for texts in [texts(6..7), texts(7..8)] {
        let process = Process::start(folder.path(), small());
        process.append(&texts);
        process.stop();
    }
    let process = Process::start(folder.path(), small());
    let came = [texts(0..4), texts(6..8)].concat();
    assert_eq!(drain(&process, &process.attach("b")), came);
    let dropped = &process.stop().snapshot().destinations["b"].dropped;
    let of = |reason| dropped.get(reason).copied().unwrap_or(0);
    (of("not_durable"), of("corrupt"))
}

#[test]
fn what_a_crash_took_before_it_was_durable_is_not_counted_as_corrupt() {
    let end_of = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).unwrap();
    let nothing_written = |bytes: &mut Vec<u8>| bytes.truncate(72);
    let cut = |bytes: &mut Vec<u8>| bytes.truncate(end_of(bytes) - 4);
    let damaged = |bytes: &mut Vec<u8>| {
        let middle = end_of(bytes) - 60;
        bytes[middle] ^= 1;
    };
    assert_eq!(lost_to_b(nothing_written), (2, 0));
    assert_eq!(lost_to_b(cut), (2, 0));
    assert_eq!(lost_to_b(damaged), (0, 2));
}

#[test]
fn a_batch_that_was_given_up_does_not_take_the_numbers_of_a_later_one() {
    let folder = TempDir::new().unwrap();
    let append = |range| {
        let process = Process::start(folder.path(), hasty());
        drop(process.attach("a"));
        process.append(&texts(range));
        process.stop();
        segments(folder.path()).pop().unwrap()
    };
    append(0..2);
    // This one is given up, and so its position goes to the next batch, which has fewer events.
    let given_up = append(2..5);
    let bytes = fs::read(&given_up).unwrap();
    fs::remove_file(&given_up).unwrap();
    append(5..6);
    append(6..7);
    // A power cut takes that one, and leaves the one that was given up.
    fs::write(&given_up, bytes).unwrap();
    let inspector = Inspector::open(folder.path(), false).unwrap().unwrap();
    let verified = inspector.verify(|_| ()).unwrap();
    let lost = verified
        .lost
        .iter()
        .map(|lost| (lost.events.start, lost.events.end));
    assert_eq!(lost.collect::<Vec<_>>(), [(2, 3)]);
    assert_eq!(verified.segments[1].copies, 1);
    let process = Process::start(folder.path(), hasty());
    let feed = process.attach("a");
    let came = [texts(0..2), texts(6..7)].concat();
    assert_eq!(drain(&process, &feed), came);
    let snapshot = process.stop().snapshot();
    assert_eq!(snapshot.destinations["a"].dropped["corrupt"], 1);
}

#[test]
fn a_new_destination_begins_at_the_end_and_a_removed_one_is_kept_for_a_while() {
    let folder = TempDir::new().unwrap();
    let first = Process::start(folder.path(), small());
    let _old = first.attach("old");
    first.append(&texts(0..4));
    let new = first.attach("new");
    first.append(&texts(4..5));
    assert_eq!(deliver(&new), texts(4..5));
    first.log.detach("old", DropReason::Removed);
    first.log.reclaim(Timestamp::now());
    assert_eq!(first.ledger.snapshot().destinations["old"].pending, 5);
    first.stop();

    let second = Process::start(folder.path(), small());
    let _new = second.attach("new");
    assert_eq!(second.ledger.snapshot().destinations["old"].pending, 5);
    let in_two_days = Timestamp(Timestamp::now().0 + 2 * 86_400 * 1_000_000_000);
    second.log.reclaim(in_two_days);
    let snapshot = second.ledger.snapshot();
    assert_eq!(snapshot.destinations["old"].dropped["removed"], 5);
    second.stop();
    assert!(!folder.path().join("cursor-old").exists());
}

#[test]
fn the_oldest_segment_goes_when_the_budget_is_used_up_and_it_is_counted() {
    let folder = TempDir::new().unwrap();
    let options = QueueOptions {
        when_full: WhenFull::DropOldest,
        ..small()
    };
    let process = Process::start(folder.path(), options);
    let feed = process.attach("dead");
    let long = "x".repeat(10_000);
    let number = 60 * 50;
    for round in 0..60 {
        let line = |n: usize| format!("{} {long}", round * 50 + n);
        process.append(&(0..50).map(line).collect::<Vec<_>>());
    }
    let levels = process.log.levels();
    assert!(
        levels.disk_bytes <= limits::QUEUE_DISK_BYTES_MIN,
        "{levels:?}"
    );
    let got = drain(&process, &feed);
    let dropped = process.ledger.snapshot().destinations["dead"].dropped["queue_full"];
    assert_eq!(got.len() as u64 + dropped, number);
    assert!(got[got.len() - 1].starts_with("2999 "));
    process.stop();
}

/// A log of three batches, and where its only segment lies.
fn three_batches(folder: &Path) -> Vec<u8> {
    let process = Process::start(folder, small());
    let _feed = process.attach("a");
    for n in 0..3 {
        process.append(&texts(2 * n..2 * n + 2));
    }
    process.stop();
    fs::read(&segments(folder)[0]).unwrap()
}

/// Makes `to` anew, with the files of `from`.
fn copy_files(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}

/// Restarts on a damaged segment; says what came out and what was counted as lost.
fn reopened(folder: &Path, whole: &Path, bytes: &[u8]) -> (Vec<String>, u64) {
    copy_files(whole, folder);
    fs::write(&segments(folder)[0], bytes).unwrap();
    let process = Process::start(folder, hasty());
    let feed = process.attach("a");
    // What comes behind the damage shows how much is missing before it.
    process.append(&texts(6..7));
    let got = drain(&process, &feed);
    let snapshot = process.stop().snapshot();
    let dropped = &snapshot.destinations["a"].dropped;
    (got, dropped.get("corrupt").copied().unwrap_or(0))
}

#[test]
fn every_byte_of_a_segment_may_be_wrong() {
    let (folder, whole) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let bytes = three_batches(whole.path());
    let mut all = texts(0..7);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let (got, lost) = reopened(folder.path(), whole.path(), &damaged);
        assert_eq!(got.len() as u64 + lost, 7, "byte {at}");
        assert!(lost <= 2, "byte {at} costs {lost}");
        assert!(
            got.iter().all(|text| all.contains(text)),
            "byte {at}: {got:?}"
        );
        let mut once = got.clone();
        once.dedup();
        assert_eq!(once, got, "byte {at}");
    }
    all.clear();
}

/// The head of the only segment, the place of its destination and a byte of the first batch, all at
/// once: the batch's own header still says what is missing.
#[test]
fn a_first_batch_is_counted_where_head_and_place_are_lost_too() {
    let (folder, whole) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut bytes = three_batches(whole.path());
    fs::remove_file(whole.path().join("cursor-a")).unwrap();
    bytes[20] ^= 1;
    let magic = b"\xf1IRB";
    let frames = bytes.windows(magic.len()).enumerate();
    let mut frames = frames.filter(|(_, window)| window == magic);
    let (first, second) = (frames.next().unwrap().0, frames.next().unwrap().0);
    for at in first + FRAME_HEADER_BYTES..second {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let (got, lost) = reopened(folder.path(), whole.path(), &damaged);
        assert_eq!((got, lost), (texts(2..7), 2), "byte {at}");
    }
}

#[test]
fn a_new_place_outlives_a_bit_that_flips() {
    let (folder, whole) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    three_batches(whole.path());
    let process = Process::start(whole.path(), hasty());
    drop(process.attach("b"));
    process.append(&texts(6..7));
    process.stop();
    let place = fs::read(whole.path().join("cursor-b")).unwrap();
    for at in (0..place.len()).filter(|at| place[*at] != 0) {
        copy_files(whole.path(), folder.path());
        let mut damaged = place.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(folder.path().join("cursor-b"), damaged).unwrap();
        let process = Process::start(folder.path(), hasty());
        assert_eq!(
            drain(&process, &process.attach("b")),
            texts(6..7),
            "byte {at}"
        );
        process.stop();
    }
}

#[test]
fn a_segment_may_end_anywhere() {
    let (folder, whole) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let bytes = three_batches(whole.path());
    for len in 0..bytes.len() {
        let (got, lost) = reopened(folder.path(), whole.path(), &bytes[..len]);
        let (last, before) = got.split_last().unwrap();
        assert_eq!(last, "event number 6", "length {len}");
        assert_eq!(before, texts(0..before.len()), "length {len}");
        assert!(
            lost <= 2 && lost as usize + before.len() <= 6,
            "length {len}"
        );
    }
}

#[test]
fn a_foreign_a_missing_and_a_swapped_segment_are_met() {
    let (one, two) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    three_batches(one.path());
    three_batches(two.path());
    // A second segment, so that the first can go missing.
    let again = Process::start(one.path(), small());
    let _feed = again.attach("a");
    again.append(&texts(6..8));
    again.stop();
    let (own, foreign) = (segments(one.path()), segments(two.path()));
    // The names change places, and a stranger comes in.
    fs::rename(&own[0], one.path().join("x")).unwrap();
    fs::rename(&own[1], &own[0]).unwrap();
    fs::rename(one.path().join("x"), &own[1]).unwrap();
    fs::copy(&foreign[0], one.path().join("0000000007.seg")).unwrap();
    let process = Process::start(one.path(), small());
    assert_eq!(process.log.opened().aside, ["0000000007.seg"]);
    assert_eq!(drain(&process, &process.attach("a")), texts(0..8));
    process.stop();
    // Now the older of the two is gone, and the cursor does not know.
    let gone = segments(one.path());
    assert!(!gone.is_empty());
}

#[test]
fn an_event_has_one_name_and_a_number_that_was_lost_makes_another() {
    let folder = TempDir::new().unwrap();
    let process = Process::start(folder.path(), hasty());
    let feed = process.attach("a");
    process.append(&texts(0..3));
    process.append(&texts(3..5));
    let (first, second) = (take(&feed).unwrap(), take(&feed).unwrap());
    let behind = first.origin.first_event + 3;
    assert_eq!(second.origin.first_event, behind);
    let again = Fate::RetryAfter(Duration::ZERO);
    feed.settle(first.position, first.events.clone(), again);
    assert_eq!(take(&feed).unwrap().origin, first.origin, "put back");
    process.stop();

    // Nothing is written, and yet a destination has what the process accepted.
    let lost = {
        let log = Log::open(folder.path(), hasty(), Ledger::new()).unwrap();
        let feed = log.attach(&Ledger::new().destination("a"));
        assert_eq!(take(&feed).unwrap().origin, first.origin, "from disk");
        assert_eq!(take(&feed).unwrap().origin, second.origin, "from disk");
        log.append(batch(&texts(5..6)), false, || {}).unwrap();
        take(&feed).unwrap().origin
    };
    let process = Process::start(folder.path(), hasty());
    let feed = process.attach("a");
    process.append(&texts(6..7));
    let last = std::iter::from_fn(|| take(&feed)).take(3).last().unwrap();
    assert_eq!(last.origin.log, first.origin.log);
    assert_eq!(last.origin.first_event, lost.first_event);
    // From disk, from memory, from disk: another event of the same number.
    let epochs = [first.origin.epoch, lost.epoch, last.origin.epoch];
    assert_eq!(epochs, [0, 1, 2]);
}

fn start_slow(folder: &Path) -> (Process, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let disk = SlowDisk::new(DiskStorage::open(folder).unwrap(), Arc::clone(&gate));
    let ledger = Ledger::new();
    let own = Arc::clone(&ledger);
    let log = Log::open_on(Arc::new(disk), small(), own, LogId::random()).unwrap();
    let thread = log.start().unwrap();
    let process = Process {
        ledger,
        log,
        thread,
    };
    (process, gate)
}

/// What a process that is killed now leaves behind.
fn killed(folder: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in fs::read_dir(folder).unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_file() {
            fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
        }
    }
    copy
}

/// Events of `out` that a start in a copy of the folder finds pending.
fn pending_if_killed(folder: &Path) -> u64 {
    let copy = killed(folder);
    let log = Log::open(copy.path(), small(), Ledger::new()).unwrap();
    log.opened().pending.iter().map(|(_, events)| events).sum()
}

#[test]
fn what_comes_while_the_disk_syncs_is_written_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let (process, gate) = start_slow(folder.path());
    let _out = process.attach("out");
    process
        .log
        .append(batch(&texts(0..1)), false, || {})
        .unwrap();
    gate.set_closed(true);
    let first = process
        .log
        .append(batch(&texts(1..2)), true, || {})
        .unwrap();
    gate.await_waiting();
    process
        .log
        .append(batch(&texts(2..4)), false, || {})
        .unwrap();
    let deadline = Instant::now() + WAIT;
    while pending_if_killed(folder.path()) < 4 {
        assert!(Instant::now() < deadline, "it waits for the disk");
        std::thread::yield_now();
    }
    assert!(
        process.log.durable_end() <= first,
        "nothing counts before its sync"
    );
    gate.set_closed(false);
    let last = process.append(&texts(4..5));
    assert!(process.log.durable_end() > last);
    process.stop();
    assert_eq!(pending_if_killed(folder.path()), 5, "each is written once");
}

/// Only what a sender may not have any more needs a thread that writes during a sync.
#[test]
fn the_writer_syncs_by_itself_while_senders_keep_what_comes() {
    let folder = tempfile::tempdir().unwrap();
    let (process, gate) = start_slow(folder.path());
    let _out = process.attach("out");
    for at in 0..3 {
        process.append(&texts(at..at + 1));
        assert_eq!(gate.thread(), "queue");
    }
    let lost = batch(&texts(3..4));
    process.log.append(lost, false, || {}).unwrap();
    process.append(&texts(4..5));
    assert_eq!(gate.thread(), "queue-sync");
    process.stop();
}

#[test]
fn settling_does_not_wait_for_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let (process, gate) = start_slow(folder.path());
    let out = process.attach("out");
    process.append(&texts(0..3));
    let FeedNext::Batch(delivery) = out.next(WAIT) else {
        panic!("nothing to deliver");
    };
    let settle = |event: u32| out.settle(delivery.position, event..event + 1, Fate::Delivered);
    // The first place of all is made durable before there is a second one.
    settle(0);
    process.log.save_cursors();
    settle(1);
    gate.set_closed(true);
    let saving = Arc::clone(&process.log);
    let saver = std::thread::spawn(move || saving.save_cursors());
    gate.await_waiting();
    std::thread::scope(|scope| {
        let settled = scope.spawn(|| settle(2));
        let deadline = Instant::now() + WAIT;
        while !settled.is_finished() && Instant::now() < deadline {
            std::thread::yield_now();
        }
        let pending = pending_if_killed(folder.path());
        gate.set_closed(false);
        assert_eq!(pending, 0, "it waited for the disk");
    });
    saver.join().unwrap();
    process.stop();
}
