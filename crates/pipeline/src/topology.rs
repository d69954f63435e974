//! Topology of the running process: sources with their listeners, destinations, workers, the log.
//!
//! # What it guarantees
//! * Parts that a reload changes are in one [`RunningGraph`] under one lock, which may be held
//!   while a sink ends. The ledger, searches and host names are asked through lists that do not
//!   wait for it.
//!
//! # After a crash
//! Nothing here outlives the process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use inrush_config::{Config, SourceConfig};
use inrush_event::{Counter, Ledger, LedgerSnapshot, Timestamp};
use inrush_ingest::enrichment::Enrichment;
use inrush_ingest::hostname::{HostNames, ReverseNames};
use inrush_ingest::timezone::ZonesFile;
use inrush_ingest::unclassified::UnclassifiedTable;
use inrush_queue::Log;
use inrush_sink::{Store, StoreSlot};
use inrush_source::{Source, SourceServices};

use crate::data_dir_lock::DataDirLock;
use crate::destination::RunningDestination;
use crate::progress::DeliveryProgress;
use crate::quarantine::DiskQuarantine;
use crate::shutdown_drops::ShutdownDrops;

/// Reads the configuration again for a reload; one line a problem.
pub type ConfigLoader = Box<dyn Fn() -> Result<Config, Vec<String>> + Send + Sync>;

/// Part that is told the state of the process once a second.
pub trait Observer: Send + Sync {
    /// Called with the ledger of this moment.
    fn tick(&self, ledger: &LedgerSnapshot);
}

/// A queue that is full for a moment is back-pressure at work; for this long it is an alarm.
const BLOCKED_TOO_LONG: Duration = Duration::from_secs(5);

/// A source that runs, and its options.
pub struct RunningSource {
    /// Handle by which the source is reloaded, asked for its state, closed and stopped.
    pub source: Arc<dyn Source>,
    /// Options last taken on; a reload replaces them once the source could prepare the new ones.
    pub config: SourceConfig,
}

impl RunningSource {
    /// Name in the configuration.
    pub fn name(&self) -> &str {
        &self.source.ingest().name
    }
}

/// Parts that a reload changes, under one lock.
pub struct RunningGraph {
    /// Configuration last taken on; parts that could not be opened go on with older options.
    pub config: Config,
    /// Running sources, in the order in which they were started.
    pub sources: Vec<RunningSource>,
    /// Running destinations, in the order of the configuration.
    pub destinations: Vec<RunningDestination>,
    /// Packs, host names, transforms and routes for all sources; a reload replaces the whole set.
    pub recognition: Enrichment,
}

/// The parts that live as long as the process.
pub struct Topology {
    /// Counters of all sources and destinations, whose equations hold at every moment.
    pub ledger: Arc<Ledger>,
    /// Queue between sources and destinations: the write-ahead log, on disk or in memory.
    pub log: Arc<Log>,
    /// Time at which the pipeline was opened, by the wall clock.
    pub started: Timestamp,
    /// Reloads that took on everything; the metric has them as `ok`.
    pub reloads: Counter,
    /// Reloads with a problem, also those that took on the rest; the metric has them as `failed`.
    pub reload_failures: Counter,
    /// Progress of destinations, updated once a second to find those that stall.
    pub progress: Mutex<DeliveryProgress>,
    /// Told once a second.
    pub observers: Mutex<Vec<Weak<dyn Observer>>>,
    /// Held while the graph changes, which may wait for a sink to end.
    pub graph: Mutex<RunningGraph>,
    /// The sources of the graph, for those who must not wait for it: the ledger and the watch.
    pub live_sources: Mutex<Vec<Arc<dyn Source>>>,
    /// The embedded stores of the graph, for searches, which must not wait for it either.
    pub live_stores: Mutex<Vec<(String, Arc<StoreSlot>)>>,
    /// The names of senders, for those who must not wait for the graph.
    pub live_names: Mutex<Option<Arc<HostNames>>>,
    /// The names that DNS has for senders, for the same.
    pub live_dns: Mutex<Option<Arc<ReverseNames>>>,
    /// Parts that all sources share.
    pub services: Arc<SourceServices>,
    /// File of the time zones guessed for senders; it is written once a minute and at the stop.
    pub zones: ZonesFile,
    /// File that tells the next process how many events the stop dropped, by destination.
    pub given_up: ShutdownDrops,
    /// Quarantine into which destinations put refused events.
    pub quarantine: Arc<DiskQuarantine>,
    /// Reader of the configuration; [`Self::reload`] calls it before it locks the graph.
    pub loader: ConfigLoader,
    /// Sources that were closed while their threads waited for room in the queue.
    pub leaving: Mutex<Vec<Arc<dyn Source>>>,
    /// The queue's thread, if it has a disk.
    pub writer: Mutex<Option<JoinHandle<()>>>,
    /// Lock of the data directory, held for as long as this lives; nothing reads it.
    pub _owner: DataDirLock,
}

impl Topology {
    /// Guard of the graph; it may wait for a reload, and ignores that a panic poisoned the lock.
    pub fn graph(&self) -> MutexGuard<'_, RunningGraph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Guard of the graph, unless somebody else has it.
    pub fn graph_if_free(&self) -> Option<MutexGuard<'_, RunningGraph>> {
        match self.graph.try_lock() {
            Ok(graph) => Some(graph),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The sources, without waiting for a change of the graph to be done.
    pub fn live_sources(&self) -> Vec<Arc<dyn Source>> {
        lock(&self.live_sources).clone()
    }

    /// Embedded stores that are open, by name of the destination, without waiting for the graph.
    pub fn live_stores(&self) -> Vec<(String, Arc<Store>)> {
        let slots = lock(&self.live_stores).clone();
        let open = |(name, slot): (String, Arc<StoreSlot>)| Some((name, slot.get()?));
        slots.into_iter().filter_map(open).collect()
    }

    /// The stores that cannot be searched, with the reason.
    pub fn held_stores(&self) -> Vec<(String, String)> {
        let slots = lock(&self.live_stores).clone();
        let held = |(name, slot): (String, Arc<StoreSlot>)| Some((name, slot.why_not()?));
        slots.into_iter().filter_map(held).collect()
    }

    /// Names of senders, without waiting for the graph; `None` if they are not wanted.
    pub fn live_names(&self) -> Option<Arc<HostNames>> {
        lock(&self.live_names).clone()
    }

    /// The names that DNS has for senders, without waiting for the graph.
    pub fn live_dns(&self) -> Option<Arc<ReverseNames>> {
        lock(&self.live_dns).clone()
    }

    /// Kinds of events that no rule recognised.
    pub fn unknown_kinds(&self) -> &UnclassifiedTable {
        &self.services.context.unknown
    }

    /// The ledger with the kernel's drops and the oldest pending events brought up to date.
    pub fn ledger_now(&self) -> LedgerSnapshot {
        self.live_sources()
            .iter()
            .for_each(|source| source.count_kernel_drops());
        self.log.measure_oldest();
        self.ledger.snapshot()
    }

    /// Since when sources wait for room, if that is long enough to be an alarm.
    pub fn blocked_since(&self) -> Option<Timestamp> {
        self.log.blocked_since().filter(|at| {
            Timestamp::now().0.saturating_sub(at.0) >= BLOCKED_TOO_LONG.as_nanos() as i64
        })
    }

    /// Tells `observer` once a second, for as long as it lives.
    pub fn observe(&self, observer: Weak<dyn Observer>) {
        lock(&self.observers).push(observer);
    }
}

/// Guard of a mutex, also of one that a panic poisoned: the other threads go on.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
