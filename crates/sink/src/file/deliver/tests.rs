//! What is written is forced to the disk however a file comes to be closed.
#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;
use std::sync::mpsc::Receiver;
use std::thread;

use inrush_event::{Anomalies, BatchPool, ByteSize, Peer, Protocol, SourceInfo, Span, limits};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use tempfile::TempDir;

use super::super::sync::CLOSED_MAX;
use super::*;
use crate::{Quarantine, RefusedRecords};

/// A disk whose syncs wait until they are let through, but on the thread that made it.
struct SlowDisk {
    /// The inode of each file whose sync has begun.
    begun: Receiver<u64>,
    let_through: Sender<()>,
}

impl SlowDisk {
    /// The syncer stands first: dropped last, it finds everything let through.
    fn new(status: &Arc<SinkStatus>) -> (Syncer, Self) {
        let (begins, begun) = channel();
        let (let_through, passes) = channel();
        let (passes, maker) = (Mutex::new(passes), thread::current().id());
        let syncer = Syncer::with(Arc::clone(status), move |file| {
            // A test may have seen enough before the last sync.
            let _ = begins.send(file.metadata()?.ino());
            if thread::current().id() != maker {
                // Once nobody holds the other end, everything passes.
                let _ = passes.lock().unwrap().recv();
            }
            Ok(())
        });
        (syncer.unwrap(), Self { begun, let_through })
    }

    /// Lets everything through; the inodes of all further syncs, once the syncer is gone.
    fn let_all_through(self) -> impl Iterator<Item = u64> {
        drop(self.let_through);
        self.begun.into_iter()
    }
}

/// What the sink says to the queue, in order.
#[derive(Default)]
struct Fates(Mutex<Vec<Fate>>);

impl Feed for Fates {
    fn next(&self, _: Duration) -> FeedNext {
        FeedNext::Closed
    }

    fn settle(&self, _: u64, _: Range<u32>, fate: Fate) {
        self.0.lock().unwrap().push(fate);
    }

    fn stopping(&self) -> bool {
        true
    }
}

/// For events that no file refuses.
struct NoQuarantine;

impl Quarantine for NoQuarantine {
    fn put(&self, _: &str, _: &[RefusedRecords]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A file sink on a slow disk, driven by hand.
struct Bench {
    folder: TempDir,
    sink: FileSink,
    feed: Fates,
}

impl Bench {
    fn new(change: impl FnOnce(&mut FileConfig)) -> (Self, SlowDisk) {
        let folder = tempfile::tempdir().unwrap();
        let mut config = FileConfig::new("{host}.log");
        change(&mut config);
        let status = Arc::new(SinkStatus::new("tape", "file"));
        let quarantine = Arc::new(NoQuarantine);
        let (syncer, disk) = SlowDisk::new(&status);
        let mut sink = FileSink::new("tape", &config, folder.path(), quarantine, status).unwrap();
        sink.syncer = syncer;
        let feed = Fates::default();
        (Self { folder, sink, feed }, disk)
    }

    /// Delivers one event of this host; its fate.
    fn deliver(&mut self, host: &str) -> Fate {
        let source = Arc::new(SourceInfo {
            name: "edge".into(),
            index: "main".into(),
            sourcetype: "syslog".into(),
        });
        let mut builder = BatchPool::new().lend(&source, limits::MESSAGE_BYTES_DEFAULT);
        builder.extend(host.as_bytes());
        let sender = builder.peer(Peer {
            ip: [10, 0, 0, 1].into(),
            local_port: 514,
            protocol: Protocol::Tcp,
            client: None,
        });
        let host = Span::new(0, host.len());
        let mut record = Record::unparsed(host, Timestamp::now(), sender, Anomalies::NONE);
        record.host = host;
        builder.parts().1.push(record);
        let delivery = Delivery {
            position: 0,
            batch: Arc::new(builder.freeze(0)),
            events: 0..1,
            origin: inrush_event::BatchOrigin::default(),
        };
        self.sink.deliver(&self.feed, &delivery);
        self.feed.0.lock().unwrap().pop().unwrap()
    }

    fn path(&self, host: &str) -> PathBuf {
        self.folder.path().join(format!("{host}.log"))
    }

    fn inode(&self, host: &str) -> u64 {
        fs::metadata(self.path(host)).unwrap().ino()
    }

    /// Has the disk begin the sync of this host's file, and not end it.
    fn keep_disk_busy(&mut self, disk: &SlowDisk, host: &str) {
        assert_eq!(self.deliver(host), Fate::Delivered);
        self.sink.tick();
        assert_eq!(disk.begun.recv().unwrap(), self.inode(host));
        assert!(self.sink.syncer.busy());
    }

    /// The inodes that are synced from now on, the last syncs left out.
    fn synced(self, disk: SlowDisk) -> Vec<u64> {
        let Self { folder, sink, .. } = self;
        let synced = disk.let_all_through();
        drop(sink);
        drop(folder);
        synced.collect()
    }
}

#[test]
fn a_file_that_is_moved_away_while_the_disk_is_busy_is_synced() {
    let (mut bench, disk) = Bench::new(|_| {});
    bench.keep_disk_busy(&disk, "other");
    assert_eq!(bench.deliver("a"), Fate::Delivered);
    let inode = bench.inode("a");
    fs::rename(bench.path("a"), bench.path("moved")).unwrap();
    bench.sink.tick();
    assert!(!bench.sink.open.contains_key("a.log"));
    assert_eq!(bench.synced(disk), [inode]);
}

#[test]
fn a_file_that_is_rotated_or_makes_room_is_synced_beside_the_writing() {
    let (mut bench, disk) = Bench::new(|config| {
        config.max_open_files = 2;
        config.rotate.max_bytes = Some(ByteSize(1024));
    });
    bench.keep_disk_busy(&disk, "other");
    assert_eq!(bench.deliver("a"), Fate::Delivered);
    let inodes = [bench.inode("a"), bench.inode("other")];
    while bench.inode("a") == inodes[0] {
        assert_eq!(bench.deliver("a"), Fate::Delivered);
    }
    // The disk is still at it; neither this waits for it, nor what makes room for the third.
    bench.deliver("other");
    bench.deliver("a");
    bench.deliver("third");
    assert!(!bench.sink.open.contains_key("other.log"));
    assert_eq!(bench.synced(disk), inodes);
}

#[test]
fn a_file_that_is_opened_anew_after_a_failed_write_is_synced() {
    let (mut bench, disk) = Bench::new(|_| {});
    // Memory that can be forbidden to grow: a write that fails without being root.
    let memory = memfd_create("tape", MFdFlags::MFD_ALLOW_SEALING).unwrap();
    let memory = File::from(memory);
    let number = std::os::fd::AsRawFd::as_raw_fd(&memory);
    let target = format!("/proc/{}/fd/{number}", std::process::id());
    std::os::unix::fs::symlink(target, bench.path("a")).unwrap();
    assert_eq!(bench.deliver("a"), Fate::Delivered);
    fcntl(&memory, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_GROW)).unwrap();
    assert!(matches!(bench.deliver("a"), Fate::RetryAfter(_)));
    let inode = memory.metadata().unwrap().ino();
    assert_eq!(bench.synced(disk), [inode]);
}

#[test]
fn with_fsync_batch_nothing_is_delivered_before_its_sync() {
    for fsync in [FsyncPolicy::Batch, FsyncPolicy::Never] {
        let (mut bench, _disk) = Bench::new(|config| config.fsync = fsync);
        // Linux takes every write to it and refuses to sync it.
        std::os::unix::fs::symlink("/dev/null", bench.path("a")).unwrap();
        let delivered = bench.deliver("a") == Fate::Delivered;
        assert_eq!(delivered, fsync == FsyncPolicy::Never, "{fsync:?}");
    }
}

#[test]
fn nothing_is_synced_where_that_is_not_wanted() {
    let (mut bench, disk) = Bench::new(|config| {
        config.fsync = FsyncPolicy::Never;
        config.max_open_files = 1;
    });
    for host in ["a", "b", "c"] {
        bench.deliver(host);
        bench.sink.tick();
    }
    assert_eq!(bench.synced(disk), [0; 0]);
}

#[test]
fn the_disk_is_busy_until_the_open_files_are_synced_whatever_else_was() {
    let status = Arc::new(SinkStatus::new("tape", "file"));
    let (syncer, disk) = SlowDisk::new(&status);
    let (closed, open) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    let inode = open.metadata().unwrap().ino();
    syncer.sync_closed(closed);
    disk.begun.recv().unwrap();
    assert!(!syncer.busy(), "a closed file keeps no open one waiting");
    syncer.sync_open(vec![open]);
    disk.let_through.send(()).unwrap();
    assert_eq!(disk.begun.recv().unwrap(), inode);
    assert!(syncer.busy(), "only the closed file is done");
}

#[test]
fn a_disk_that_is_too_slow_is_waited_for() {
    let status = Arc::new(SinkStatus::new("tape", "file"));
    let (syncer, disk) = SlowDisk::new(&status);
    let file = tempfile::tempfile().unwrap();
    for _ in 0..CLOSED_MAX {
        syncer.sync_closed(file.try_clone().unwrap());
    }
    disk.begun.recv().unwrap();
    syncer.sync_closed(file);
    assert!(disk.begun.try_recv().is_ok(), "synced where it was given");
}
