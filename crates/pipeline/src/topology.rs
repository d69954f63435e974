//! Topology of the running process: sources with their listeners, destinations, workers, the log.
//!
//! # What it guarantees
//! * Parts that a reload changes are in one [`Graph`] under one lock, which may be held while a
//!   sink ends. The ledger, searches and host names are asked through lists that do not wait for
//!   it.
//! * Order of locks: `meter`, then `graph`, then `trend`.
//!
//! # After a crash
//! Nothing here outlives the process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use inrush_event::{Counter, Ledger, Timestamp};
use inrush_queue::Log;
use inrush_sink::{Store, StoreSlot};
use inrush_transport::activation::Inherited;
use inrush_transport::config::ListenAddr;

use crate::acceptor::Acceptor;
use crate::config::{Config, SyslogSource};
use crate::destination::Destination;
use crate::enrichment::Enrichment;
use crate::filler::Doors;
use crate::given_up::GivenUp;
use crate::meter::Meter;
use crate::names::Names;
use crate::owner::Owner;
use crate::places::Places;
use crate::progress::Progress;
use crate::quarantine::Kept;
use crate::source::Source;
use crate::stream::{StreamWorker, WorkerHandle};
use crate::trend::Trend;
use crate::udp::UdpWorker;
use crate::unknown::Unknown;
use crate::zones::KeptZones;

/// Reads the configuration again for a reload; one line a problem.
pub type Loader = Box<dyn Fn() -> Result<Config, Vec<String>> + Send + Sync>;

/// A source and its doors.
pub(crate) struct RunningSource {
    pub(crate) source: Arc<Source>,
    pub(crate) config: SyslogSource,
    pub(crate) listeners: Vec<Listener>,
}

/// One listening address.
pub(crate) struct Listener {
    pub(crate) configured: ListenAddr,
    /// The address really bound.
    pub(crate) bound: ListenAddr,
    pub(crate) udp: Vec<UdpWorker>,
}

/// Parts that a reload changes, under one lock.
pub(crate) struct Graph {
    pub(crate) config: Config,
    pub(crate) sources: Vec<RunningSource>,
    pub(crate) destinations: Vec<Destination>,
    pub(crate) recognition: Enrichment,
}

/// The parts that live as long as the process.
pub(crate) struct Shared {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) log: Arc<Log>,
    pub(crate) started: Timestamp,
    pub(crate) reloads: Counter,
    pub(crate) reload_failures: Counter,
    pub(crate) progress: Mutex<Progress>,
    /// Noted once a second by the watch; never held over anything else.
    pub(crate) trend: Mutex<Trend>,
    /// Held while a snapshot is gathered. Order: this, then the graph, then the trend.
    pub(crate) meter: Mutex<Meter>,
    /// Held while the graph changes, which may wait for a sink to end.
    pub(crate) graph: Mutex<Graph>,
    /// The sources of the graph, for those who must not wait for it: the ledger and the watch.
    pub(crate) live_sources: Mutex<Vec<Arc<Source>>>,
    /// The embedded stores of the graph, for searches, which must not wait for it either.
    pub(crate) live_stores: Mutex<Vec<(String, Arc<StoreSlot>)>>,
    /// The names of senders, for those who must not wait for the graph.
    pub(crate) live_names: Mutex<Option<Arc<Names>>>,
    /// Places for connections.
    pub(crate) places: Arc<Places>,
    pub(crate) zones: KeptZones,
    pub(crate) given_up: GivenUp,
    pub(crate) inherited: Mutex<Inherited>,
    pub(crate) quarantine: Arc<Kept>,
    pub(crate) doors: Doors,
    pub(crate) loader: Loader,
    pub(crate) workers: Mutex<Vec<StreamWorker>>,
    /// For orders to the workers while the above is being joined.
    pub(crate) handles: Vec<WorkerHandle>,
    pub(crate) acceptor: Mutex<Option<Acceptor>>,
    /// Listeners that were closed while their threads waited for room in the queue.
    pub(crate) leaving: Mutex<Vec<(Arc<Source>, Listener)>>,
    /// The queue's thread, if it has a disk.
    pub(crate) writer: Mutex<Option<JoinHandle<()>>>,
    pub(crate) _owner: Owner,
}

impl Shared {
    pub(crate) fn graph(&self) -> MutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sources, without waiting for a change of the graph to be done.
    pub(crate) fn live_sources(&self) -> Vec<Arc<Source>> {
        lock(&self.live_sources).clone()
    }

    pub(crate) fn live_stores(&self) -> Vec<(String, Arc<Store>)> {
        let slots = lock(&self.live_stores).clone();
        let open = |(name, slot): (String, Arc<StoreSlot>)| Some((name, slot.get()?));
        slots.into_iter().filter_map(open).collect()
    }

    /// The stores that cannot be searched, with the reason.
    pub(crate) fn held_stores(&self) -> Vec<(String, String)> {
        let slots = lock(&self.live_stores).clone();
        let held = |(name, slot): (String, Arc<StoreSlot>)| Some((name, slot.why_not()?));
        slots.into_iter().filter_map(held).collect()
    }

    pub(crate) fn live_names(&self) -> Option<Arc<Names>> {
        lock(&self.live_names).clone()
    }

    /// Kinds of events that no rule recognised.
    pub(crate) fn unknown_kinds(&self) -> &Unknown {
        &self.doors.unknown
    }

    pub(crate) fn leaving(&self) -> MutexGuard<'_, Vec<(Arc<Source>, Listener)>> {
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the listeners whose threads have ended.
    pub(crate) fn reap(&self) {
        let mut leaving = self.leaving();
        let ended = |(_, listener): &mut (_, Listener)| listener.udp.iter().all(UdpWorker::ended);
        for (source, listener) in leaving.extract_if(.., ended) {
            listener.udp.into_iter().for_each(UdpWorker::join);
            source.forget_sockets(listener.bound);
        }
    }

    /// True if a stream worker or the acceptor has ended.
    pub(crate) fn dead_workers(&self) -> bool {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let acceptor = self.acceptor.lock().unwrap_or_else(PoisonError::into_inner);
        workers.iter().any(StreamWorker::ended) || acceptor.as_ref().is_some_and(Acceptor::ended)
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
