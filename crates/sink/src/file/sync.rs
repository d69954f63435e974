//! `fsync: interval` beside the writing: a disk takes most of a second to sync what a surge writes
//! in one, and a sink that waits for it makes the queue grow meanwhile.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use crate::{ErrorReason, SinkStatus};

/// A thread that syncs files while others are written. Dropped, it finishes what it was given.
pub(super) struct Syncer {
    /// `None` once it is dropped.
    files: Option<Sender<Vec<File>>>,
    /// A round of files is being synced.
    busy: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Syncer {
    pub(super) fn start(status: Arc<SinkStatus>) -> Self {
        let (files, rounds) = channel();
        let busy = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&busy);
        let thread = std::thread::spawn(move || run(&rounds, &done, &status));
        Self {
            files: Some(files),
            busy,
            thread: Some(thread),
        }
    }

    /// Whether the round before is still on its way; another one would only queue up behind it.
    pub(super) fn busy(&self) -> bool {
        self.busy.load(Acquire)
    }

    /// Syncs these files, after those given before. They may be renamed meanwhile.
    pub(super) fn sync(&self, files: Vec<File>) {
        if files.is_empty() {
            return;
        }
        self.busy.swap(true, AcqRel);
        if let Some(queue) = &self.files {
            // The thread lives as long as this sender.
            let _ = queue.send(files);
        }
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.files = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that syncs files ended by a fault");
        }
    }
}

fn run(rounds: &Receiver<Vec<File>>, busy: &AtomicBool, status: &SinkStatus) {
    for files in rounds {
        for file in files {
            if let Err(error) = file.sync_data() {
                status.noted(ErrorReason::of_file(&error), &format!("fsync: {error}"));
            }
        }
        busy.store(false, Release);
    }
}
