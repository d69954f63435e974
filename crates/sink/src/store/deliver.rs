//! The embedded store as a destination: what it says of itself goes into the status that all
//! destinations have.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use inrush_event::Feed;
use inrush_store::writer::{self, Observer};
use inrush_store::{Store, WriteOptions};

use super::{StoreConfig, StoreSlot};
use crate::backoff::{pause, wait};
use crate::{ErrorReason, IDLE_WAIT, Sink, SinkStatus};

/// Longest wait of a start for the store to be open: a list of 100,000 files is read in a second,
/// and a bucket that does not answer must not keep the sources closed.
const START_WAIT: Duration = Duration::from_secs(2);
/// First and longest pause between attempts to open it.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// The sink that writes to the embedded store.
pub struct StoreSink {
    config: StoreConfig,
    data_dir: PathBuf,
    options: WriteOptions,
    slot: Arc<StoreSlot>,
    status: Arc<SinkStatus>,
}

impl StoreSink {
    /// Begins to open the store. One that cannot be opened, whatever the reason, holds its events
    /// and is tried again: nothing else waits for it.
    pub(crate) fn open(config: &StoreConfig, data_dir: &Path, status: Arc<SinkStatus>) -> Self {
        let sink = Self {
            config: config.clone(),
            data_dir: data_dir.to_owned(),
            options: config.write_options(),
            slot: Arc::default(),
            status,
        };
        sink.attempt();
        if sink.slot.is_settled(START_WAIT) {
            sink.tell();
        }
        sink
    }

    /// Opens the store on a thread of its own: a disk or a service that hangs keeps nobody.
    fn attempt(&self) {
        self.slot.begin();
        let (config, data_dir) = (self.config.clone(), self.data_dir.clone());
        let mut attempt = OpenAttempt {
            slot: Arc::clone(&self.slot),
            opened: None,
        };
        let open = move || attempt.open(&config, &data_dir);
        let spawned = thread::Builder::new().name("store-open".into()).spawn(open);
        if let Err(error) = spawned {
            self.slot.settle(Err(error));
        }
    }

    /// Says why the store is held, if it is.
    fn tell(&self) {
        if self.slot.get().is_none()
            && let Some(why) = self.slot.why_not()
        {
            self.status.attempted();
            self.status.failed(ErrorReason::StoreHeld, &why);
        }
    }

    /// The store, once it is open; `None` when the process stops before.
    fn opened(&self, feed: &dyn Feed) -> Option<Arc<Store>> {
        let mut failures = 0;
        loop {
            while !self.slot.is_settled(IDLE_WAIT) {
                if feed.stopping() {
                    return None;
                }
            }
            if let Some(store) = self.slot.get() {
                return Some(store);
            }
            self.tell();
            failures += 1;
            wait(feed, pause(failures, PAUSES.0, PAUSES.1));
            if feed.stopping() {
                return None;
            }
            self.attempt();
        }
    }
}

/// An attempt to open a store: however its thread ends, the slot gets to know. The library panics
/// where a folder cannot be closed.
struct OpenAttempt {
    slot: Arc<StoreSlot>,
    opened: Option<io::Result<Arc<Store>>>,
}

impl OpenAttempt {
    fn open(&mut self, config: &StoreConfig, data_dir: &Path) {
        self.opened = Some(config.home(data_dir).and_then(Store::open));
    }
}

impl Drop for OpenAttempt {
    fn drop(&mut self) {
        let fault = || Err(io::Error::other("opening it ended by a fault; tried again"));
        self.slot.settle(self.opened.take().unwrap_or_else(fault));
    }
}

impl Drop for StoreSink {
    fn drop(&mut self) {
        self.slot.close();
    }
}

struct StatusObserver(Arc<SinkStatus>);

impl Observer for StatusObserver {
    fn committed(&self, bytes: u64) {
        self.0.attempted();
        self.0
            .succeeded(usize::try_from(bytes).unwrap_or(usize::MAX));
    }

    fn failed(&self, error: &io::Error) {
        self.0.attempted();
        self.0
            .failed(ErrorReason::of_file(error), &error.to_string());
    }
}

impl Sink for StoreSink {
    fn run(self: Box<Self>, feed: Arc<dyn Feed>) {
        if let Some(store) = self.opened(&*feed) {
            if !self.status.healthy() {
                self.status.succeeded(0);
            }
            let observer: Arc<dyn Observer> = Arc::new(StatusObserver(Arc::clone(&self.status)));
            writer::run(&store, &self.options, &feed, &observer);
            store.close();
        }
    }

    fn store(&self) -> Option<Arc<StoreSlot>> {
        Some(Arc::clone(&self.slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_that_ends_by_a_fault_is_settled_and_may_be_tried_again() {
        let slot = Arc::<StoreSlot>::default();
        slot.begin();
        let attempt = OpenAttempt {
            slot: Arc::clone(&slot),
            opened: None,
        };
        let ended = thread::spawn(move || {
            let _attempt = attempt;
            std::panic::resume_unwind(Box::new("a folder could not be closed"));
        });
        assert!(ended.join().is_err());
        assert!(slot.is_settled(Duration::ZERO));
        assert!(slot.why_not().is_some_and(|why| why.contains("a fault")));
    }
}
