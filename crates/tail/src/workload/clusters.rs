//! Watches of clusters that sources share, one for each access and node; and the desk of a source
//! that knows of them.
//!
//! A watch ends with the last source that has it, or when the process stops.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use inrush_event::{Counter, Ledger};
use inrush_ingest::batch_writer::WorkerContext;
use inrush_kubernetes::{
    ClusterAccess, ClusterWatch, DeskOptions, FilterReason, SERVICE_ACCOUNT, WatchScope,
    WorkloadDesk,
};
use inrush_transport::files::glob::GlobSet;

use crate::options::{FileSource, KubernetesOptions};

/// Wakes one that waits for changes of metadata.
pub(in super::super) type WakeCallback = Arc<dyn Fn() + Send + Sync>;

/// Variables of the environment that may name this node.
const NODE_VARIABLES: [&str; 2] = ["NODE_NAME", "KUBERNETES_NODE_NAME"];

/// Identity of a watch: its access, and the node.
#[derive(Clone, PartialEq, Eq, Debug)]
struct WatchKey {
    /// `None`: the service account of this pod.
    kubeconfig: Option<PathBuf>,
    node: String,
}

/// Those whom changes wake, as long as they are there.
#[derive(Default)]
struct WakeList(Mutex<Vec<Weak<dyn Fn() + Send + Sync>>>);

/// A watch, and those whom its changes wake.
struct SharedWatch {
    watch: ClusterWatch,
    /// Its threads have it too: they must not have the watch, which waits for them when it ends.
    wakes: Arc<WakeList>,
}

/// Watches of clusters, all of the process: sources of the same access and node share one.
#[derive(Default)]
pub struct ClusterWatches(Mutex<Vec<(WatchKey, Weak<SharedWatch>)>>);

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WakeList {
    fn wake(&self) {
        let mut wakes = lock(&self.0);
        wakes.retain(|wake| match wake.upgrade() {
            Some(wake) => {
                wake();
                true
            }
            None => false,
        });
    }
}

impl ClusterWatches {
    /// The watch that options ask for, which wakes `wake` from now on. `host`: the name of this
    /// host.
    ///
    /// # Errors
    /// In words: there is no access to a cluster, or no thread.
    fn watch(
        &self,
        options: &KubernetesOptions,
        host: &str,
        wake: &WakeCallback,
    ) -> Result<Arc<SharedWatch>, String> {
        let key = WatchKey {
            kubeconfig: options.kubeconfig.clone(),
            node: node_name(options, host),
        };
        let watch = self.of(key)?;
        lock(&watch.wakes.0).push(Arc::downgrade(wake));
        Ok(watch)
    }

    /// Asks the threads of all of them to end.
    pub fn stop(&self) {
        let watches = lock(&self.0).clone();
        for watch in watches.iter().filter_map(|(_, watch)| watch.upgrade()) {
            watch.watch.stop();
        }
    }

    fn of(&self, key: WatchKey) -> Result<Arc<SharedWatch>, String> {
        let mut known = lock(&self.0);
        known.retain(|(_, watch)| watch.strong_count() > 0);
        let same = known.iter().find(|(other, _)| *other == key);
        if let Some(watch) = same.and_then(|(_, watch)| watch.upgrade()) {
            return Ok(watch);
        }
        let access = match &key.kubeconfig {
            Some(path) => ClusterAccess::from_kubeconfig(path),
            None => {
                let variable = |name: &str| std::env::var(name).ok();
                ClusterAccess::in_cluster(&variable, Path::new(SERVICE_ACCOUNT))
            }
        };
        let access = access.map_err(|error| format!("kubernetes: {error}"))?;
        let watch = ClusterWatch::start(&key.node, access, WatchScope::default());
        let watch = watch.map_err(|error| format!("kubernetes: {error}"))?;
        let wakes = Arc::<WakeList>::default();
        let woken = Arc::clone(&wakes);
        watch.store().on_change(move || woken.wake());
        let shared = Arc::new(SharedWatch { watch, wakes });
        known.push((key, Arc::downgrade(&shared)));
        Ok(shared)
    }
}

/// Desk of one source: what it asks about containers, and the watch that the answers come from.
pub(in super::super) struct SourceDesk {
    desk: WorkloadDesk,
    /// Time that events wait for metadata, at most.
    pub(in super::super) wait: Duration,
    ledger: Arc<Ledger>,
    /// Kept for the desk.
    _watch: Option<Arc<SharedWatch>>,
    /// Kept for the watch, which calls it after each change.
    _wake: WakeCallback,
}

impl SourceDesk {
    /// Desk for these options, whose watch is started unless it is among `clusters`. Each change of
    /// metadata calls `wake` from then on. `host`: the name of this host.
    ///
    /// # Errors
    /// In words: there is no access to the cluster.
    pub(in super::super) fn open(
        options: &FileSource,
        context: &WorkerContext,
        clusters: &ClusterWatches,
        host: &str,
        wake: WakeCallback,
    ) -> Result<Self, String> {
        let kubernetes = options.kubernetes.as_ref();
        let watch = |options| clusters.watch(options, host, &wake);
        let watch = kubernetes.map(watch).transpose()?;
        let log = Arc::clone(&context.log);
        let kubelet = kubernetes.map(|options| options.kubelet.clone());
        let allowed = kubernetes.map(KubernetesOptions::allowed_paths);
        let desk = WorkloadDesk::new(DeskOptions {
            store: watch.as_ref().map(|one| Arc::clone(one.watch.store())),
            docker: options.docker.as_ref().map(|docker| docker.containers()),
            settings: kubernetes
                .map(KubernetesOptions::settings)
                .unwrap_or_default(),
            fields: kubernetes
                .map(KubernetesOptions::field_settings)
                .unwrap_or_default(),
            destinations: Box::new(move || log.names().into_iter().collect()),
            kubelet: kubelet.unwrap_or_default(),
            is_allowed: allowed.unwrap_or_else(|| Box::new(|_| false)),
            glob_fault: Box::new(|pattern| {
                let read = GlobSet::new(&[pattern.to_owned()], &[]);
                read.err().map(|(_, fault)| fault.to_string())
            }),
        });
        Ok(Self {
            desk,
            wait: kubernetes.map_or(Duration::ZERO, |options| options.metadata_wait.0),
            ledger: Arc::clone(&context.ledger),
            _watch: watch,
            _wake: wake,
        })
    }

    /// Desk for these options that knows no cluster.
    pub(in super::super) fn alone(options: &FileSource) -> Self {
        let kubernetes = options.kubernetes.as_ref();
        let desk = WorkloadDesk::new(DeskOptions {
            store: None,
            docker: None,
            settings: kubernetes
                .map(KubernetesOptions::settings)
                .unwrap_or_default(),
            fields: kubernetes
                .map(KubernetesOptions::field_settings)
                .unwrap_or_default(),
            destinations: Box::new(BTreeSet::new),
            kubelet: PathBuf::new(),
            is_allowed: Box::new(|_| false),
            glob_fault: Box::new(|_| None),
        });
        Self {
            desk,
            wait: Duration::ZERO,
            ledger: Ledger::new(),
            _watch: None,
            _wake: Arc::new(|| ()),
        }
    }

    /// Count of the events that are left out for a reason.
    pub(in super::super) fn filtered(&self, reason: FilterReason) -> Arc<Counter> {
        self.ledger.filtered(reason.rule())
    }
}

impl Deref for SourceDesk {
    type Target = WorkloadDesk;

    fn deref(&self) -> &WorkloadDesk {
        &self.desk
    }
}

/// Name of this node.
fn node_name(options: &KubernetesOptions, host: &str) -> String {
    let told = || {
        let told = NODE_VARIABLES
            .iter()
            .filter_map(|name| std::env::var(name).ok());
        told.into_iter().find(|name| !name.is_empty())
    };
    let node = options.node.clone().or_else(told);
    node.unwrap_or_else(|| host.to_owned())
}
