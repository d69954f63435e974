//! One running destination: its sink on a thread of its own, fed by its cursor.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use inrush_event::{DestinationCounters, Feed, Ledger};
use inrush_queue::{DestinationFeed, Log};
use inrush_sink::{Quarantine, SinkConfig, SinkStatus, StoreSlot};

use crate::descriptors;
use crate::quarantine::DiskQuarantine;
use crate::store_account;

/// Timeout for a sink to put back what it has in hand.
const STOP_BOUND: Duration = Duration::from_secs(5);

/// A destination as it runs.
pub struct RunningDestination {
    /// Name in the configuration; its cursor in the queue and its ledger row have the same.
    pub name: String,
    /// Options as configured; a changed one restarts the destination, apart from queue limits.
    pub config: SinkConfig,
    /// Row of the ledger: events accepted, delivered, pending, quarantined and dropped.
    pub counters: Arc<DestinationCounters>,
    /// Health of the sink and counts of its requests; the sink keeps it up to date.
    pub status: Arc<SinkStatus>,
    /// The embedded store that it is.
    pub store: Option<Arc<StoreSlot>>,
    feed: Arc<DestinationFeed>,
    thread: JoinHandle<()>,
}

/// Parts of the process that a destination needs.
pub struct SinkContext<'a> {
    /// Queue from which the destination reads by a cursor of its own.
    pub log: &'a Arc<Log>,
    /// Ledger in which the destination gets its row.
    pub ledger: &'a Ledger,
    /// Data directory; relative paths of files and stores lie under it.
    pub data_dir: &'a Path,
    /// Receiver of refused events: the quarantine of the process, or the recorder of a replay.
    pub quarantine: &'a Arc<dyn Quarantine>,
    /// The process's quarantine, where it has one.
    pub kept: Option<&'a Arc<DiskQuarantine>>,
    /// Descriptors that the process may have open.
    pub descriptors: u64,
}

/// The options with no more open files than fit under the limit.
fn fitted(config: &SinkConfig, descriptors: u64) -> SinkConfig {
    let mut fitted = config.clone();
    if let SinkConfig::File(file) = &mut fitted {
        file.max_open_files = descriptors::open_files(descriptors, file.max_open_files);
    }
    fitted
}

impl RunningDestination {
    /// Opens the destination, then its cursor: what is still pending under its name, or the end
    /// of the log.
    pub fn start(
        name: &str,
        config: &SinkConfig,
        around: &SinkContext<'_>,
    ) -> Result<Self, String> {
        let quarantine = Arc::clone(around.quarantine);
        let fitted = fitted(config, around.descriptors);
        let (sink, status) = inrush_sink::build(name, &fitted, around.data_dir, quarantine)
            .map_err(|error| format!("destination {name}: {error}"))?;
        let store = sink.store();
        let counters = around.ledger.destination(name);
        if let Some(store) = &store {
            let others = (around.log, around.kept);
            store_account::introduce(store, &counters, others, around.data_dir);
        }
        let feed = around.log.attach(&counters);
        around.log.limit(name, config.queue());
        let to_sink: Arc<dyn Feed> = Arc::clone(&feed) as _;
        let spawned: io::Result<_> = thread::Builder::new()
            .name(format!("to-{name}"))
            .spawn(move || sink.run(to_sink));
        let thread = spawned.map_err(|error| format!("destination {name}: no thread: {error}"))?;
        let (name, config) = (name.to_owned(), config.clone());
        Ok(Self {
            name,
            config,
            counters,
            status,
            store,
            feed,
            thread,
        })
    }

    /// Asks the sink to put back what it has in hand and end.
    pub fn ask_to_stop(&self) {
        self.feed.stop();
    }

    /// Asks the sink to put back what it has in hand and end, and waits for it, but not for ever:
    /// a write to a full pipe or a dead network disk may never return. Such a thread is left
    /// behind; what it still holds stays pending and is counted like everything that does.
    pub fn stop(self) {
        self.feed.stop();
        let deadline = Instant::now() + STOP_BOUND;
        while !self.thread.is_finished() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(2));
        }
        if !self.thread.is_finished() {
            tracing::error!(
                destination = self.name,
                "a sink does not end: it hangs in a write"
            );
            return;
        }
        if self.thread.join().is_err() {
            tracing::error!(destination = self.name, "a sink ended by a fault");
        }
    }

    /// True if the sink has ended, which it must not while it is wanted.
    pub fn ended(&self) -> bool {
        self.thread.is_finished()
    }
}
