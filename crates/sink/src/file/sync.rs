//! Syncing beside the writing: a disk takes most of a second to sync what a surge writes in one,
//! and a sink that waits for it makes the queue grow meanwhile.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Acquire, Ordering::Release};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use crate::{ErrorReason, SinkStatus};

/// Files that are closed but for their sync: a disk that is slower than they come would collect
/// descriptors until the process has none left.
pub(super) const CLOSED_MAX: usize = 256;

/// Function that forces a file to the disk: [`File::sync_data`], but in tests.
type Force = dyn Fn(&File) -> io::Result<()> + Send + Sync;

/// A thread that syncs files while others are written. Dropped, it finishes what it was given.
pub(super) struct Syncer {
    /// `None` once it is dropped.
    rounds: Option<Sender<SyncJob>>,
    shared: Arc<SyncState>,
    thread: Option<JoinHandle<()>>,
    /// Closed files on their way, at most.
    closed_max: usize,
}

enum SyncJob {
    /// Second handles of files that are written to meanwhile.
    Open(Vec<File>),
    /// The last handle of a file.
    Closed(File),
}

struct SyncState {
    force: Box<Force>,
    status: Arc<SinkStatus>,
    /// The round of open files is not done. Only rounds of that kind count: where files are closed
    /// all the time, the open ones would otherwise never have their turn.
    busy: AtomicBool,
    /// Closed files that wait or are being synced. Only the sink's thread adds to it.
    closed: AtomicUsize,
}

impl Syncer {
    pub(super) fn start(status: Arc<SinkStatus>) -> io::Result<Self> {
        Self::with(status, File::sync_data)
    }

    /// A syncer that forces files to the disk in this way.
    pub(super) fn with(
        status: Arc<SinkStatus>,
        force: impl Fn(&File) -> io::Result<()> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let (rounds, received) = channel();
        let shared = Arc::new(SyncState {
            force: Box::new(force),
            status,
            busy: AtomicBool::new(false),
            closed: AtomicUsize::new(0),
        });
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("file-sync".into())
            .spawn(move || theirs.run(&received))?;
        Ok(Self {
            rounds: Some(rounds),
            shared,
            thread: Some(thread),
            closed_max: CLOSED_MAX,
        })
    }

    /// With no more closed files on their way than that.
    pub(super) fn at_most(mut self, closed: usize) -> Self {
        self.closed_max = closed.min(CLOSED_MAX);
        self
    }

    /// True if the open files given last are not yet synced; more of them would only queue up
    /// behind.
    pub(super) fn busy(&self) -> bool {
        self.shared.busy.load(Acquire)
    }

    /// Syncs files that stay open. They may be renamed meanwhile.
    pub(super) fn sync_open(&self, files: Vec<File>) {
        if !files.is_empty() {
            self.shared.busy.store(true, Release);
            self.give(SyncJob::Open(files));
        }
    }

    /// Syncs a file that nobody writes to any more, then closes it. With [`CLOSED_MAX`] of them on
    /// their way it waits for the disk instead.
    pub(super) fn sync_closed(&self, file: File) {
        if self.shared.closed.load(Acquire) >= self.closed_max {
            return self.shared.sync(&file);
        }
        self.shared.closed.fetch_add(1, Release);
        self.give(SyncJob::Closed(file));
    }

    fn give(&self, round: SyncJob) {
        if let Some(rounds) = &self.rounds {
            // The thread lives as long as this sender.
            let _ = rounds.send(round);
        }
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.rounds = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that syncs files ended by a fault");
        }
    }
}

impl SyncState {
    fn run(&self, rounds: &Receiver<SyncJob>) {
        for round in rounds {
            match round {
                SyncJob::Open(files) => {
                    files.iter().for_each(|file| self.sync(file));
                    self.busy.store(false, Release);
                }
                SyncJob::Closed(file) => {
                    self.sync(&file);
                    drop(file);
                    self.closed.fetch_sub(1, Release);
                }
            }
        }
    }

    fn sync(&self, file: &File) {
        if let Err(error) = (self.force)(file) {
            let text = format!("fsync: {error}");
            self.status.noted(ErrorReason::of_file(&error), &text);
        }
    }
}
