//! Positions of sources' streams: durable with their batch, and there again whatever happens.
#![cfg(feature = "simulation")]
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use inrush_event::{
    Anomalies, BatchPool, ByteSize, DropReason, Fate, Ledger, PositionList, Record, SourceInfo,
    Span, StreamPosition, Timestamp, limits,
};
use inrush_queue::storage::{DiskCall, DiskFaults, DiskStorage, Storage, VirtualDisk};
use inrush_queue::{CommitRound, Durability, EventQuery, Inspector, Log, LogId, QueueOptions};

fn source(name: &str) -> Arc<SourceInfo> {
    Arc::new(SourceInfo {
        name: name.to_owned(),
        index: "main".to_owned(),
        sourcetype: "t".to_owned(),
    })
}

/// One process on a disk.
struct Process {
    log: Arc<Log>,
    now: Instant,
}

/// Segments of 8 KiB.
fn options() -> QueueOptions {
    QueueOptions {
        max_bytes: Some(ByteSize(64 * 1024)),
        reserve_bytes: ByteSize(0),
        ..QueueOptions::default()
    }
}

impl Process {
    fn on(storage: Arc<dyn Storage>) -> Self {
        let (ledger, id) = (Ledger::new(), LogId::from_bytes([1; 16]));
        let log = Log::open_on(storage, options(), Arc::clone(&ledger), id).unwrap();
        log.attach(&ledger.destination("out"));
        let now = Instant::now();
        Self { log, now }
    }

    fn start(disk: &VirtualDisk) -> Self {
        Self::on(Arc::new(disk.clone()))
    }

    /// Appends a batch of an event of so many bytes, with positions of the source's streams.
    fn append(&self, name: &str, bytes: usize, positions: &[(u64, &str)]) {
        let mut builder = BatchPool::new().lend(&source(name), limits::MESSAGE_BYTES_DEFAULT);
        builder.stamp(Timestamp(7));
        builder.extend(&vec![b'x'; bytes]);
        let record = Record::unparsed(Span::new(0, bytes), Timestamp(7), 0, Anomalies::NONE);
        builder.parts().1.push(record);
        for (stream, state) in positions {
            assert!(builder.note_position(*stream, state.as_bytes().into()));
        }
        let batch = builder.freeze(0);
        let appended = self
            .log
            .try_append(batch, Duration::ZERO, true, self.now, || {});
        appended.unwrap();
    }

    /// Positions without a batch.
    fn append_alone(&self, name: &str, positions: &[(u64, &str)]) {
        let positions = positions.iter().map(|(stream, state)| StreamPosition {
            stream: *stream,
            state: state.as_bytes().into(),
        });
        let positions: PositionList = positions.collect();
        let positions = positions.freeze().unwrap();
        self.log.append_positions(&source(name), positions).unwrap();
    }

    /// Writes and syncs what waits.
    fn write(&self) {
        while let Some(round) = self.log.begin_round(self.now) {
            let mut syncing = self.log.begin_syncing(round.write());
            syncing.run();
            self.log.finish_round(syncing.finish(), self.now);
        }
    }

    /// Delivers and settles all.
    fn deliver(&self) -> usize {
        let mut events = 0;
        while let Some(delivery) = self.log.try_take("out", self.now) {
            events += delivery.events.len();
            let all = delivery.events.clone();
            let position = delivery.position;
            self.log
                .settle_now("out", position, all, &Fate::Delivered, self.now);
        }
        events
    }

    fn reclaim(&self) {
        self.log.reclaim(Timestamp::now());
    }

    fn found(&self, name: &str) -> Vec<(u64, String)> {
        let found = self.log.positions(name).into_iter();
        let text = |state: &[u8]| String::from_utf8(state.to_vec()).unwrap();
        found.map(|one| (one.stream, text(&one.state))).collect()
    }
}

fn known(positions: &[(u64, &str)]) -> Vec<(u64, String)> {
    let each = positions.iter();
    each.map(|(stream, state)| (*stream, (*state).to_owned()))
        .collect()
}

#[test]
fn a_position_is_durable_with_its_batch_and_not_before() {
    let disk = VirtualDisk::new(1);
    let process = Process::start(&disk);
    process.append("a", 9, &[(1, "one"), (2, "two")]);
    process.append("b", 9, &[(1, "other")]);
    assert_eq!(process.found("a"), []);
    process.write();
    let expected = known(&[(1, "one"), (2, "two")]);
    assert_eq!(process.found("a"), expected);
    process.append("a", 9, &[(1, "later")]);
    assert_eq!(process.found("a"), expected);
    disk.end_process();
    let process = Process::start(&disk);
    assert_eq!(process.found("a"), expected);
    assert_eq!(process.found("b"), known(&[(1, "other")]));
    process.append("a", 9, &[(1, "newer"), (2, "")]);
    process.write();
    disk.cut_power();
    let process = Process::start(&disk);
    assert_eq!(process.found("a"), known(&[(1, "newer")]), "2 is forgotten");
    assert_eq!(process.found("b"), known(&[(1, "other")]));
}

#[test]
fn a_segment_goes_once_its_positions_are_kept() {
    let disk = VirtualDisk::new(1);
    let process = Process::start(&disk);
    for number in 0..40 {
        process.append("a", 800, &[(number, "x")]);
        process.write();
    }
    process.deliver();
    let segments = process.log.levels().segments;
    assert!(segments > 4);
    // The file cannot be written: everything stays.
    for _ in 0..9 {
        disk.fail_next(DiskCall::Rename);
    }
    process.reclaim();
    assert_eq!(process.log.levels().segments, segments);
    while process.log.levels().segments > 1 {
        process.reclaim();
    }
    disk.cut_power();
    let process = Process::start(&disk);
    let streams: Vec<u64> = process.found("a").iter().map(|one| one.0).collect();
    assert_eq!(streams, (0..40).collect::<Vec<_>>());
}

#[test]
fn positions_without_a_batch_wait_for_what_came_before() {
    let disk = VirtualDisk::new(1);
    let process = Process::start(&disk);
    process.append("a", 9, &[(1, "with")]);
    process.append_alone("a", &[(1, "behind"), (3, "alone")]);
    process.reclaim();
    assert_eq!(process.found("a"), [], "the batch is not written");
    process.write();
    assert_eq!(process.found("a"), known(&[(1, "behind"), (3, "alone")]));
    process.reclaim();
    disk.cut_power();
    let process = Process::start(&disk);
    assert_eq!(process.found("a"), known(&[(1, "behind"), (3, "alone")]));
    process.append("a", 9, &[(1, "newest")]);
    process.write();
    disk.end_process();
    let process = Process::start(&disk);
    assert_eq!(process.found("a"), known(&[(1, "newest"), (3, "alone")]));
}

#[test]
fn a_damaged_file_is_put_aside_and_the_segments_tell() {
    let disk = VirtualDisk::new(1);
    let process = Process::start(&disk);
    process.append("a", 9, &[(1, "one")]);
    process.write();
    process.append_alone("a", &[(2, "in the file only")]);
    process.reclaim();
    disk.end_process();
    let file = disk.open("positions").unwrap();
    let length = file.len().unwrap();
    let mut last = [0];
    file.read_at(&mut last, length - 1).unwrap();
    file.write_at(&[&[!last[0]]], length - 1).unwrap();
    let process = Process::start(&disk);
    assert_eq!(process.found("a"), known(&[(1, "one")]));
    assert_eq!(process.log.opened().aside, ["positions"]);
    assert!(!disk.list().unwrap().contains(&"positions".to_owned()));
}

#[test]
fn only_logs_with_positions_are_of_the_new_version() {
    let version = |disk: &VirtualDisk, name: &str| {
        let mut head = [0; 14];
        disk.open(name).unwrap().read_at(&mut head, 0).unwrap();
        u16::from_le_bytes([head[12], head[13]])
    };
    let disk = VirtualDisk::new(1);
    let process = Process::start(&disk);
    process.append("a", 9, &[]);
    process.write();
    process.append("a", 9, &[(1, "one")]);
    process.append("a", 9, &[]);
    process.write();
    process.append("a", 9_000, &[]);
    process.append("a", 9_000, &[]);
    process.write();
    let versions = [0, 1, 2].map(|serial| version(&disk, &format!("{serial:010}.seg")));
    assert_eq!(versions, [3, 4, 4]);
    assert_eq!(process.deliver(), 5);
    let files = disk.list().unwrap();
    assert!(
        !files.contains(&"positions".to_owned()),
        "nothing was reclaimed"
    );
}

#[test]
fn what_need_not_be_written_leaves_its_positions() {
    let disk = VirtualDisk::new(1);
    let mut process = Process::start(&disk);
    process.append("a", 9, &[(1, "one")]);
    process.write();
    process.append("a", 9, &[(1, "delivered, and never written")]);
    let end = process.log.durable_end() + 1;
    for delivered in [2, 0] {
        disk.fail_next(DiskCall::Write);
        process.now += Duration::from_secs(1);
        let round = process.log.begin_round(process.now).unwrap();
        let syncing = process.log.begin_syncing(round.write());
        process.log.finish_round(syncing.finish(), process.now);
        assert_eq!(process.deliver(), delivered);
    }
    assert_eq!(process.log.durable_end(), end, "it counts all the same");
    disk.cut_power();
    let process = Process::start(&disk);
    let expected = known(&[(1, "delivered, and never written")]);
    assert_eq!(process.found("a"), expected);
    process.append("a", 9, &[(1, "new")]);
    process.write();
    disk.end_process();
    let process = Process::start(&disk);
    assert_eq!(process.found("a"), known(&[(1, "new")]));
}

/// Else a crash would have the source read again what was delivered.
#[test]
fn what_carries_positions_is_delivered_once_it_is_durable() {
    let disk = VirtualDisk::new(1);
    let mut process = Process::start(&disk);
    process.append("a", 9, &[]);
    process.append("a", 9, &[(1, "one")]);
    assert_eq!(process.deliver(), 1, "the first is not read again");
    process.write();
    assert_eq!(process.deliver(), 1);
    process.append("a", 9, &[(1, "two")]);
    assert_eq!(process.deliver(), 0);
    // While nothing can be written, nothing is held.
    disk.fail_next(DiskCall::Write);
    process.now += Duration::from_secs(1);
    let round = process.log.begin_round(process.now).unwrap();
    let syncing = process.log.begin_syncing(round.write());
    process.log.finish_round(syncing.finish(), process.now);
    assert_eq!(process.deliver(), 1);
}

/// What a power cut tore, the source reads again, with all that it read after that.
#[test]
fn positions_behind_a_frame_that_is_missing_do_not_count() {
    let disk = VirtualDisk::new(1);
    let process = Process::start(&disk);
    for (at, state) in ["one", "two", "three"].into_iter().enumerate() {
        process.append("a", 9, &[(1, state), (2 + at as u64, state)]);
    }
    process.write();
    disk.end_process();
    let file = disk.open("0000000000.seg").unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    let at = bytes.windows(3).position(|three| three == b"two").unwrap();
    file.write_at(&[b"owt"], at as u64).unwrap();
    let process = Process::start(&disk);
    assert_eq!(process.found("a"), known(&[(1, "one"), (2, "one")]));
    // The next process goes on from there, and the one after that does not look back.
    process.append("a", 9, &[(1, "two again"), (3, "two")]);
    process.write();
    disk.end_process();
    let process = Process::start(&disk);
    let expected = known(&[(1, "two again"), (2, "one"), (3, "two")]);
    assert_eq!(process.found("a"), expected);
}

/// A process that has found three batches, two of which were never synced.
fn with_unsynced(disk: &VirtualDisk) -> Process {
    let process = Process::start(disk);
    process.append("a", 9, &[(1, "one")]);
    process.write();
    process.append("a", 9, &[(1, "two")]);
    process.append("a", 9, &[(1, "three")]);
    let round = process.log.begin_round(process.now).map(CommitRound::write);
    assert!(round.is_some());
    disk.end_process();
    let process = Process::start(disk);
    assert_eq!(process.found("a"), known(&[(1, "three")]));
    process
}

fn failing(calls: &[DiskCall], chance: u16) -> DiskFaults {
    let mut faults = DiskFaults::default();
    calls
        .iter()
        .for_each(|call| faults.errors[*call as usize] = chance);
    faults
}

/// A sync that fails may take what only the page cache had, and sources do not read it again.
#[test]
fn what_a_start_has_found_stays_though_its_sync_fails() {
    for seed in 0..100 {
        let disk = VirtualDisk::new(seed);
        let mut process = with_unsynced(&disk);
        disk.set_faults(failing(&[DiskCall::Write, DiskCall::Sync], u16::MAX / 2));
        let mut delivered = 0;
        for _ in 0..4 {
            process.write();
            delivered += process.deliver();
            process.now += Duration::from_secs(1);
        }
        disk.set_faults(DiskFaults::default());
        process.append("a", 9, &[(1, "four")]);
        process.write();
        delivered += process.deliver();
        assert_eq!(delivered, 4, "seed {seed}");
        disk.cut_power();
        let process = Process::start(&disk);
        assert_eq!(process.found("a"), known(&[(1, "four")]), "seed {seed}");
    }
}

#[test]
fn what_a_start_has_found_is_delivered_while_no_sync_succeeds() {
    for seed in 0..20 {
        let disk = VirtualDisk::new(seed);
        let process = with_unsynced(&disk);
        disk.set_faults(failing(&[DiskCall::Sync], u16::MAX));
        process.write();
        assert_eq!(process.deliver(), 3, "seed {seed}");
        // Nor does what comes.
        process.append("a", 9, &[]);
        assert_eq!(process.deliver(), 1, "seed {seed}");
    }
}

#[test]
fn a_log_with_positions_is_read_and_verified() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::on(Arc::new(DiskStorage::open(folder.path()).unwrap()));
    process.append("a", 9, &[(1, "one"), (2, "")]);
    process.append("a", 30_000, &[(1, "two")]);
    process.write();
    assert_eq!(process.deliver(), 2);
    drop(process);
    let process = Process::on(Arc::new(DiskStorage::open(folder.path()).unwrap()));
    assert_eq!(process.found("a"), known(&[(1, "two")]));
    let inspector = Inspector::open(folder.path(), false).unwrap().unwrap();
    let verified = inspector.verify(|_| ()).unwrap();
    assert!(!verified.is_damaged(), "{verified:?}");
    let all = EventQuery {
        events: 0..9,
        destination: None,
    };
    let shown = inspector.events(&all, |_, _, _| Ok(std::ops::ControlFlow::Continue(())));
    assert_eq!(shown.unwrap().events, 2);
}

fn in_memory(folder: &std::path::Path) -> (Process, Arc<Ledger>) {
    let ledger = Ledger::new();
    let options = QueueOptions {
        durability: Durability::Memory,
        ..QueueOptions::default()
    };
    let log = Log::in_memory(folder, options, Arc::clone(&ledger)).unwrap();
    log.attach(&ledger.destination("out"));
    let now = Instant::now();
    (Process { log, now }, ledger)
}

#[test]
fn in_memory_a_position_counts_once_all_have_settled_what_came_before() {
    let folder = tempfile::tempdir().unwrap();
    let (process, ledger) = in_memory(folder.path());
    process.log.attach(&ledger.destination("slow"));
    process.append("a", 9, &[(1, "one")]);
    process.append_alone("a", &[(2, "behind")]);
    process.deliver();
    assert_eq!(process.found("a"), []);
    let slow = process.log.try_take("slow", process.now).unwrap();
    process
        .log
        .settle_now("slow", slow.position, 0..1, &Fate::Delivered, process.now);
    assert_eq!(process.found("a"), known(&[(1, "one"), (2, "behind")]));
    process.append("a", 9, &[(1, "two")]);
    // The process stops, and what is pending is read again.
    process.log.close();
    process.log.detach("out", DropReason::Shutdown);
    process.log.detach("slow", DropReason::Shutdown);
    process.log.save_cursors();
    let (process, _) = in_memory(folder.path());
    assert_eq!(process.found("a"), known(&[(1, "one"), (2, "behind")]));
    process.append("a", 9, &[(1, "three")]);
    process.deliver();
    process.log.save_cursors();
    // Later the log is on disk.
    let process = Process::on(Arc::new(DiskStorage::open(folder.path()).unwrap()));
    assert_eq!(process.found("a"), known(&[(1, "three"), (2, "behind")]));
    process.append("a", 9, &[(2, "on disk")]);
    process.write();
    drop(process);
    let process = Process::on(Arc::new(DiskStorage::open(folder.path()).unwrap()));
    assert_eq!(process.found("a"), known(&[(1, "three"), (2, "on disk")]));
}
