//! One running destination: its sink on a thread of its own, fed by its cursor.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use inrush_event::{DestinationCounters, Feed, Ledger};
use inrush_queue::{DestinationFeed, Log};
use inrush_sink::{Quarantine, SinkConfig, SinkStatus, StoreSlot};

use crate::places;
use crate::quarantine::Kept;
use crate::stored;

/// Timeout for a sink to put back what it has in hand.
const STOP_BOUND: Duration = Duration::from_secs(5);

/// A destination as it runs.
pub(crate) struct Destination {
    pub(crate) name: String,
    pub(crate) config: SinkConfig,
    pub(crate) counters: Arc<DestinationCounters>,
    pub(crate) status: Arc<SinkStatus>,
    /// The embedded store that it is.
    pub(crate) store: Option<Arc<StoreSlot>>,
    feed: Arc<DestinationFeed>,
    thread: JoinHandle<()>,
}

/// Parts of the process that a destination needs.
pub(crate) struct Surroundings<'a> {
    pub(crate) log: &'a Arc<Log>,
    pub(crate) ledger: &'a Ledger,
    pub(crate) data_dir: &'a Path,
    pub(crate) quarantine: &'a Arc<dyn Quarantine>,
    /// The process's quarantine, where it has one.
    pub(crate) kept: Option<&'a Arc<Kept>>,
    /// Descriptors that the process may have open.
    pub(crate) descriptors: u64,
}

/// The options with no more open files than fit under the limit.
fn fitted(config: &SinkConfig, descriptors: u64) -> SinkConfig {
    let mut fitted = config.clone();
    if let SinkConfig::File(file) = &mut fitted {
        file.max_open_files = places::open_files(descriptors, file.max_open_files);
    }
    fitted
}

impl Destination {
    /// Opens the destination, then its cursor: what is still pending under its name, or the end
    /// of the log.
    pub(crate) fn start(
        name: &str,
        config: &SinkConfig,
        around: &Surroundings<'_>,
    ) -> Result<Self, String> {
        let quarantine = Arc::clone(around.quarantine);
        let fitted = fitted(config, around.descriptors);
        let (sink, status) = inrush_sink::build(name, &fitted, around.data_dir, quarantine)
            .map_err(|error| format!("destination {name}: {error}"))?;
        let store = sink.store();
        let counters = around.ledger.destination(name);
        if let Some(store) = &store {
            let others = (around.log, around.kept);
            stored::introduce(store, &counters, others, around.data_dir);
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
    pub(crate) fn ask_to_stop(&self) {
        self.feed.stop();
    }

    /// Asks the sink to put back what it has in hand and end, and waits for it, but not for ever:
    /// a write to a full pipe or a dead network disk may never return. Such a thread is left
    /// behind; what it still holds stays pending and is counted like everything that does.
    pub(crate) fn stop(self) {
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
    pub(crate) fn ended(&self) -> bool {
        self.thread.is_finished()
    }
}
