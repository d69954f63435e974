//! Watches of a cluster: the threads that keep a store up to date.
//!
//! # What it guarantees
//! * Pods of the node are watched by the thread `kube-pods`, each other kind by one of its own. A
//!   thread reads one connection, and waits for nothing but it.
//! * A kind of workload is watched once a pod of the node belongs to one, so a node without
//!   CronJobs costs the API nothing for them.
//! * [`ClusterWatch::stop`], and the drop, end all requests at once and wait for the threads.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;

use crate::client::{ApiTransport, HttpTransport};
use crate::kubeconfig::ClusterAccess;
use crate::objects::{NamespaceObject, PodObject, WorkloadObject};
use crate::reflector::{Reflector, ReflectorContext, StopSignal, WatchCounts};
use crate::store::{KindPhase, MetadataStore, ObjectKind};

/// Kinds to watch beside pods.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatchScope {
    /// Namespaces: their labels and annotations.
    pub namespaces: bool,
    /// Workloads: their annotations.
    pub workloads: bool,
}

impl Default for WatchScope {
    fn default() -> Self {
        Self {
            namespaces: true,
            workloads: true,
        }
    }
}

/// State of one watch, for the page.
#[derive(Clone, Debug)]
pub struct WatchState {
    /// Kind that is watched.
    pub kind: ObjectKind,
    /// Its state.
    pub phase: KindPhase,
    /// Counts since the start.
    pub counts: Arc<WatchCounts>,
}

/// Watches of one cluster for one node.
pub struct ClusterWatch {
    shared: Arc<WatchShared>,
}

struct WatchShared {
    store: Arc<MetadataStore>,
    access: ClusterAccess,
    stop: StopSignal,
    /// Threads by kind; taken by those that start and stop them.
    threads: Mutex<BTreeMap<ObjectKind, WatchThread>>,
    /// The same, for threads that start others.
    this: Weak<WatchShared>,
}

struct WatchThread {
    handle: Option<JoinHandle<()>>,
    /// Its own: a thread that renews its connections must leave those of others alone.
    transport: Arc<HttpTransport>,
    counts: Arc<WatchCounts>,
}

impl ClusterWatch {
    /// Starts the watches for the pods of a node. Nothing is asked before this returns.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(node: &str, access: ClusterAccess, scope: WatchScope) -> io::Result<Self> {
        let shared = Arc::new_cyclic(|this| WatchShared {
            store: MetadataStore::new(node),
            access,
            stop: StopSignal::default(),
            threads: Mutex::default(),
            this: Weak::clone(this),
        });
        let watch = Self { shared };
        if scope.workloads {
            watch.shared.store.follow_workloads();
        }
        let namespaces = Some(ObjectKind::Namespace).filter(|_| scope.namespaces);
        for kind in namespaces.into_iter().chain([ObjectKind::Pod]) {
            watch.shared.store.set_phase(kind, KindPhase::Starting);
            watch.shared.start(kind)?;
        }
        Ok(watch)
    }

    /// The store that the watches keep up to date.
    pub fn store(&self) -> &Arc<MetadataStore> {
        &self.shared.store
    }

    /// States of all watches.
    pub fn states(&self) -> Vec<WatchState> {
        let threads = self
            .shared
            .threads
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let states = threads.iter().map(|(kind, thread)| WatchState {
            kind: *kind,
            phase: self.shared.store.phase(*kind),
            counts: Arc::clone(&thread.counts),
        });
        states.collect()
    }

    /// Ends all requests, and waits for the threads. The store stays as it is.
    pub fn stop(&self) {
        self.shared.stop.stop();
        let handles: Vec<JoinHandle<()>> = {
            let mut threads = self
                .shared
                .threads
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let stopped = threads.values_mut().filter_map(|thread| {
                thread.transport.stop();
                thread.handle.take()
            });
            stopped.collect()
        };
        for handle in handles {
            if handle.join().is_err() {
                tracing::error!("kubernetes: a watch ended by a panic");
            }
        }
    }
}

impl Drop for ClusterWatch {
    fn drop(&mut self) {
        self.stop();
    }
}

impl WatchShared {
    /// Starts the thread of a kind, unless the watches are being stopped.
    fn start(&self, kind: ObjectKind) -> io::Result<()> {
        let Some(shared) = self.this.upgrade() else {
            return Ok(());
        };
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        // Looked at under the lock that `stop` takes after it has said so.
        if self.stop.is_stopped() || threads.contains_key(&kind) {
            return Ok(());
        }
        let counts = Arc::new(WatchCounts::default());
        let transport = Arc::new(HttpTransport::new(self.access.clone()));
        let (counted, asked) = (Arc::clone(&counts), Arc::clone(&transport));
        let resource = kind.resource();
        let handle = std::thread::Builder::new()
            .name(format!("kube-{resource}"))
            .spawn(move || shared.run(kind, &*asked, &counted))?;
        let thread = WatchThread {
            handle: Some(handle),
            transport,
            counts,
        };
        threads.insert(kind, thread);
        Ok(())
    }

    fn run(&self, kind: ObjectKind, transport: &dyn ApiTransport, counts: &WatchCounts) {
        let context = ReflectorContext {
            store: &self.store,
            transport,
            stop: &self.stop,
            after_change: &|| self.start_needed(),
        };
        let mut reflector = Reflector::new(kind, context, counts);
        match kind {
            ObjectKind::Pod => reflector.run::<PodObject>(),
            ObjectKind::Namespace => reflector.run::<NamespaceObject>(),
            ObjectKind::Workload(_) => reflector.run::<WorkloadObject>(),
        }
    }

    /// Starts the watches of workloads that pods have come to need.
    fn start_needed(&self) {
        for kind in self.store.take_needed() {
            let kind = ObjectKind::Workload(kind);
            if let Err(error) = self.start(kind) {
                let resource = kind.resource();
                tracing::warn!(
                    "kubernetes: no thread for the watch of `{resource}`: {error}; its annotations \
                     are not read"
                );
                self.store
                    .set_phase(kind, KindPhase::Denied(error.to_string()));
            }
        }
    }
}
