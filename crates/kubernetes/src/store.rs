//! Metadata of the pods of this node, for the readers of their logs.
//!
//! # What it guarantees
//! * A pod is found by its uid, by the uid in the name of its log folder (static pods), by
//!   namespace and name, and by the id of a container. A pod with another uid than the asked one is
//!   never the answer: a StatefulSet gives a name to a new pod.
//! * What was delivered is visible to the next [`lookup`](MetadataStore::lookup), and
//!   [`generation`](MetadataStore::generation) is another one then. A wait of
//!   [`wait_beyond`](MetadataStore::wait_beyond) ends, and the callback of
//!   [`on_change`](MetadataStore::on_change) runs.
//! * A list replaces everything: pods that are not in it were removed.
//!
//! # States
//! Each kind of object has a [`KindPhase`]. A lookup says [`MetadataLookup::Waiting`] until the
//! kinds that belong to the answer have been listed once, or cannot be.
//!
//! # Limits
//! Removed pods are remembered for [`REMOVED_KEPT`], at most [`REMOVED_PODS_MAX`] of them. Pods of
//! the node, namespaces and workloads with annotations: [`OBJECTS_MAX`] of each kind.
//!
//! # After a crash
//! Nothing is kept: the next start lists again. Pods that were removed meanwhile are unknown.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::anomaly::{ObjectAnomaly, ObjectAnomalyCounts};
use crate::objects::{
    NamespaceObject, PodObject, WorkloadKind, WorkloadMetadata, WorkloadObject, named_workloads,
};
use crate::text_map::TextMap;

/// Time for which a removed pod is remembered: its logs may be read long after it is gone.
pub(crate) const REMOVED_KEPT: Duration = Duration::from_secs(3600);
/// Removed pods that are remembered: a node with short jobs makes 10 a second at most, and each
/// takes 2 KiB or so.
pub(crate) const REMOVED_PODS_MAX: usize = 10_000;
/// Objects of one kind that are kept; Kubernetes is tested with 10,000 namespaces.
pub(crate) const OBJECTS_MAX: usize = 50_000;

/// Prefixes of annotations that can decide about logs: of workloads no others are kept.
const ROUTING_DOMAINS: [&str; 5] = [
    "inrush.io",
    "collectord.io",
    "splunk.com",
    "fluentbit.io",
    "vector.dev",
];

/// Kind of object that is watched.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ObjectKind {
    /// Pods of this node.
    Pod,
    /// Namespaces.
    Namespace,
    /// Workloads of a kind.
    Workload(WorkloadKind),
}

impl ObjectKind {
    /// Name of the resource in the API's paths, which the thread of its watch has too.
    pub fn resource(self) -> &'static str {
        match self {
            Self::Pod => "pods",
            Self::Namespace => "namespaces",
            Self::Workload(WorkloadKind::Deployment) => "deployments",
            Self::Workload(WorkloadKind::StatefulSet) => "statefulsets",
            Self::Workload(WorkloadKind::DaemonSet) => "daemonsets",
            Self::Workload(WorkloadKind::CronJob) => "cronjobs",
            Self::Workload(WorkloadKind::Job) => "jobs",
        }
    }
}

/// State of the watch of a kind.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum KindPhase {
    /// Not watched, and not waited for: switched off, or no pod needs it.
    #[default]
    Off,
    /// Being listed for the first time.
    Starting,
    /// Listed once, and watched.
    Live,
    /// Listed once; the watch was lost and is tried again. The text says why.
    Lost(String),
    /// Never listed yet; it is tried again. The text says why.
    Failing(String),
    /// Not allowed, or not there (HTTP 401, 403, 404): metadata does without it. It is tried again
    /// every few minutes. The text says which.
    Denied(String),
}

impl KindPhase {
    /// True if a lookup waits for it.
    fn is_awaited(&self) -> bool {
        matches!(self, Self::Starting | Self::Failing(_))
    }
}

/// All that is known of a pod at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PodMetadata {
    /// The pod.
    pub pod: Arc<PodObject>,
    /// Its namespace, where the API allows reading it.
    pub namespace: Option<Arc<NamespaceObject>>,
    /// Workloads that it belongs to, the nearest first: ReplicaSet and Deployment, Job and CronJob.
    pub workloads: Vec<WorkloadMetadata>,
    /// True if the API has removed it.
    pub removed: bool,
}

impl PodMetadata {
    /// True if another state of the same pod says the same of its logs: what they are of, and what
    /// their owners want of them.
    pub fn is_alike(&self, other: &Self) -> bool {
        let ids = |one: &Self| {
            let all = one.pod.containers.iter();
            let ids = all.map(|one| (one.name.clone(), one.id.clone()));
            ids.collect::<Vec<_>>()
        };
        let (one, two) = (&self.pod, &other.pod);
        std::ptr::eq(self, other)
            || self.removed == other.removed
                && self.namespace == other.namespace
                && self.workloads == other.workloads
                && (&one.annotations, &one.labels, &one.volumes, &one.ip)
                    == (&two.annotations, &two.labels, &two.volumes, &two.ip)
                && ids(self) == ids(other)
    }
}

/// Answer about a container's metadata.
#[derive(Clone, Debug)]
pub enum MetadataLookup {
    /// Known. The same `Arc` is given until something changes.
    Found(Arc<PodMetadata>),
    /// Not known yet: the first lists, the pod's container or the API are still awaited.
    Waiting,
    /// All is listed and watched, and there is no such pod. A new pod's folder can be there a
    /// moment before its watch event, so a reader waits a little for this one too.
    Unknown,
}

struct PodEntry {
    metadata: Arc<PodMetadata>,
    /// Moment of the removal.
    removed_at: Option<Instant>,
}

/// Annotations of a workload, and the one that controls it.
struct WorkloadEntry {
    uid: Box<str>,
    annotations: Arc<TextMap>,
    controller: Option<(Box<str>, Box<str>)>,
}

/// Namespace and name.
type NamePair = (Box<str>, Box<str>);

#[derive(Default)]
struct StoreState {
    /// Pods by uid, the removed ones too.
    pods: HashMap<Box<str>, PodEntry>,
    /// Uids of folders of static pods, and ids of containers, each with its pod's uid.
    aliases: HashMap<Box<str>, Box<str>>,
    /// The newest pod of a name.
    names: HashMap<NamePair, Box<str>>,
    namespaces: HashMap<Box<str>, Arc<NamespaceObject>>,
    workloads: HashMap<WorkloadKind, HashMap<NamePair, WorkloadEntry>>,
    phases: BTreeMap<ObjectKind, KindPhase>,
    /// Workloads are watched if pods need them.
    follows_workloads: bool,
}

type ChangeCallback = Box<dyn Fn() + Send + Sync>;

/// Metadata of the pods of one node.
pub struct MetadataStore {
    node: Box<str>,
    /// Written by the threads of the watches, read by those of the files.
    state: RwLock<StoreState>,
    generation: AtomicU64,
    /// Taken only to wait; the number is `generation`.
    waiting: Mutex<()>,
    changed: Condvar,
    callback: OnceLock<ChangeCallback>,
    anomalies: ObjectAnomalyCounts,
}

impl MetadataStore {
    /// An empty store for the pods of `node`, in which nothing is awaited yet.
    pub fn new(node: &str) -> Arc<Self> {
        Arc::new(Self {
            node: node.into(),
            state: RwLock::default(),
            generation: AtomicU64::new(1),
            waiting: Mutex::default(),
            changed: Condvar::new(),
            callback: OnceLock::new(),
            anomalies: ObjectAnomalyCounts::default(),
        })
    }

    /// Name of the node.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Counts of what was odd in the API's answers.
    pub fn anomalies(&self) -> &ObjectAnomalyCounts {
        &self.anomalies
    }

    /// Number of the last change: another one after each change, from 1.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Sets the callback that runs after each change, on the thread of a watch: it must be short,
    /// such as a write to an eventfd. The first one stays; false if there was one.
    pub fn on_change(&self, callback: impl Fn() + Send + Sync + 'static) -> bool {
        self.callback.set(Box::new(callback)).is_ok()
    }

    /// Waits until [`generation`](Self::generation) is another one than `seen`, or for `timeout`.
    /// Returns the number then.
    pub fn wait_beyond(&self, seen: u64, timeout: Duration) -> u64 {
        let guard = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let unchanged = |(): &mut ()| self.generation() == seen;
        drop(self.changed.wait_timeout_while(guard, timeout, unchanged));
        self.generation()
    }

    /// True once the pods are listed, or cannot be.
    pub fn is_ready(&self) -> bool {
        let state = self.read();
        !state.phase(ObjectKind::Pod).is_awaited()
    }

    /// States of all kinds that are watched.
    pub fn phases(&self) -> Vec<(ObjectKind, KindPhase)> {
        let state = self.read();
        let phases = state.phases.iter();
        phases.map(|(kind, phase)| (*kind, phase.clone())).collect()
    }

    /// Metadata of a container by the names of its log folder.
    ///
    /// `uid` may be empty, as for a link below `/var/log/containers`; then the newest pod of that
    /// name is meant. An empty `container` asks for the pod alone.
    pub fn lookup(&self, namespace: &str, pod: &str, uid: &str, container: &str) -> MetadataLookup {
        let state = self.read();
        let found = match uid {
            "" => state.by_name(namespace, pod),
            uid => state.by_uid(uid),
        };
        let fits = |entry: &&PodEntry| {
            let found = &entry.metadata.pod;
            &*found.namespace == namespace && &*found.name == pod
        };
        state.answer(found.filter(fits), container)
    }

    /// Metadata of a container by its id, without a scheme.
    pub fn lookup_id(&self, container_id: &str) -> MetadataLookup {
        let state = self.read();
        let uid = state.aliases.get(container_id);
        state.answer(uid.and_then(|uid| state.pods.get(uid)), "")
    }

    /// Pods that the API has, by namespace and name, for the page.
    pub fn live_pods(&self) -> Vec<Arc<PodMetadata>> {
        let state = self.read();
        let live = state
            .pods
            .values()
            .filter(|entry| entry.removed_at.is_none());
        let mut pods: Vec<_> = live.map(|entry| Arc::clone(&entry.metadata)).collect();
        let key = |one: &PodMetadata| (one.pod.namespace.clone(), one.pod.name.clone());
        pods.sort_by_cached_key(|one| key(one));
        pods
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, StoreState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a change, then tells those who wait.
    fn change<T>(&self, run: impl FnOnce(&mut StoreState) -> T) -> T {
        let result = {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            let result = run(&mut state);
            self.generation.fetch_add(1, Ordering::Release);
            result
        };
        let guard: MutexGuard<'_, ()> = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.changed.notify_all();
        drop(guard);
        if let Some(callback) = self.callback.get() {
            callback();
        }
        result
    }

    /// Switches the watch of workloads on: a pod that belongs to one waits for its annotations.
    pub(crate) fn follow_workloads(&self) {
        self.change(|state| state.follows_workloads = true);
    }

    /// Sets the state of a kind; true if it was another one.
    pub(crate) fn set_phase(&self, kind: ObjectKind, phase: KindPhase) -> bool {
        if *self.read().phase(kind) == phase {
            return false;
        }
        self.change(|state| state.phases.insert(kind, phase));
        true
    }

    /// State of a kind.
    pub(crate) fn phase(&self, kind: ObjectKind) -> KindPhase {
        self.read().phase(kind).clone()
    }

    /// Kinds of workload that the pods belong to, whose watch is not on yet. They are
    /// [`KindPhase::Starting`] from now on.
    pub(crate) fn take_needed(&self) -> Vec<WorkloadKind> {
        let is_needed = !self.read().missing().is_empty();
        if !is_needed {
            return Vec::new();
        }
        self.change(|state| {
            let missing = state.missing();
            for kind in &missing {
                let kind = ObjectKind::Workload(*kind);
                state.phases.insert(kind, KindPhase::Starting);
            }
            missing.into_iter().collect()
        })
    }

    /// Replaces all pods by those of a list.
    pub(crate) fn replace_pods(&self, pods: Vec<PodObject>, now: Instant) {
        let pods: Vec<_> = pods.into_iter().filter(|pod| self.is_ours(pod)).collect();
        self.change(|state| {
            let listed: BTreeSet<&str> = pods.iter().map(|pod| &*pod.uid).collect();
            let live = state
                .pods
                .iter()
                .filter(|(_, entry)| entry.removed_at.is_none());
            let gone = live.filter(|(uid, _)| !listed.contains(&***uid));
            let gone: Vec<Box<str>> = gone.map(|(uid, _)| uid.clone()).collect();
            for uid in gone {
                state.remove_pod(&uid, now);
            }
            for pod in pods {
                self.add_pod(state, pod);
            }
            state.forget(now);
        });
    }

    /// Adds or changes a pod.
    pub(crate) fn apply_pod(&self, pod: PodObject, now: Instant) {
        if self.is_ours(&pod) {
            self.change(|state| {
                self.add_pod(state, pod);
                state.forget(now);
            });
        }
    }

    /// Marks a pod as removed.
    pub(crate) fn remove_pod(&self, pod: &PodObject, now: Instant) {
        if self.is_ours(pod) {
            self.change(|state| {
                state.remove_pod(&pod.uid, now);
                state.forget(now);
            });
        }
    }

    /// A server may lie, or have a field selector that it does not know.
    fn is_ours(&self, pod: &PodObject) -> bool {
        let is_ours = *pod.node == *self.node;
        if !is_ours {
            self.anomalies.count(ObjectAnomaly::ForeignPod);
        }
        is_ours
    }

    fn add_pod(&self, state: &mut StoreState, pod: PodObject) {
        let is_full = state.pods.len() >= OBJECTS_MAX && !state.pods.contains_key(&pod.uid);
        if is_full {
            self.anomalies.count(ObjectAnomaly::TooManyObjects);
            return;
        }
        state.add_pod(pod);
    }

    /// Forgets pods that were removed over an hour ago.
    pub(crate) fn forget(&self, now: Instant) {
        let state = self.read();
        let is_old = |entry: &PodEntry| entry.removed_at.is_some_and(|at| is_over(at, now));
        let has_old = state.pods.values().any(is_old);
        drop(state);
        if has_old {
            self.change(|state| state.forget(now));
        }
    }

    /// Replaces all namespaces by those of a list.
    pub(crate) fn replace_namespaces(&self, namespaces: Vec<NamespaceObject>) {
        self.count_beyond(namespaces.len());
        self.change(|state| {
            let kept = namespaces.into_iter().take(OBJECTS_MAX);
            let new: HashMap<_, _> = kept.map(|one| (one.name.clone(), Arc::new(one))).collect();
            state.namespaces = new;
            state.compose_all();
        });
    }

    /// Adds or changes a namespace.
    pub(crate) fn apply_namespace(&self, namespace: NamespaceObject) {
        self.change(|state| {
            let name = namespace.name.clone();
            let is_full = state.namespaces.len() >= OBJECTS_MAX;
            if is_full && !state.namespaces.contains_key(&name) {
                self.anomalies.count(ObjectAnomaly::TooManyObjects);
                return;
            }
            state.namespaces.insert(name.clone(), Arc::new(namespace));
            state.compose_namespace(&name);
        });
    }

    /// Removes a namespace, if it is not a newer one of the same name.
    pub(crate) fn remove_namespace(&self, namespace: &NamespaceObject) {
        self.change(|state| {
            let is_same = |known: &Arc<NamespaceObject>| known.uid == namespace.uid;
            if state.namespaces.get(&namespace.name).is_some_and(is_same) {
                state.namespaces.remove(&namespace.name);
                state.compose_namespace(&namespace.name);
            }
        });
    }

    /// Replaces all workloads of a kind by those of a list. See [`is_of_use`].
    pub(crate) fn replace_workloads(&self, kind: WorkloadKind, workloads: Vec<WorkloadObject>) {
        self.count_beyond(workloads.len());
        self.change(|state| {
            let kept = workloads.into_iter().take(OBJECTS_MAX);
            let new = kept.map(workload_entry).collect();
            state.workloads.insert(kind, new);
            state.compose_all();
        });
    }

    /// Adds or changes a workload.
    pub(crate) fn apply_workload(&self, kind: WorkloadKind, workload: WorkloadObject) {
        let is_of_use = is_of_use(&workload);
        let (name, entry) = workload_entry(workload);
        let same = |state: &StoreState| {
            let known = state.workloads.get(&kind).and_then(|all| all.get(&name));
            match known {
                None => !is_of_use,
                Some(known) => is_of_use && known.uid == entry.uid && known.is_equal(&entry),
            }
        };
        // Most events of a Deployment are changes of its status.
        if same(&self.read()) {
            return;
        }
        self.change(|state| {
            let all = state.workloads.entry(kind).or_default();
            if !is_of_use {
                all.remove(&name);
            } else if all.len() < OBJECTS_MAX || all.contains_key(&name) {
                all.insert(name.clone(), entry);
            } else {
                self.anomalies.count(ObjectAnomaly::TooManyObjects);
            }
            state.compose_namespace(&name.0);
        });
    }

    /// Removes a workload, if it is not a newer one of the same name.
    pub(crate) fn remove_workload(&self, kind: WorkloadKind, workload: &WorkloadObject) {
        let name = (workload.namespace.clone(), workload.name.clone());
        let is_known = |state: &StoreState| {
            let known = state.workloads.get(&kind).and_then(|all| all.get(&name));
            known.is_some_and(|known| known.uid == workload.uid)
        };
        if is_known(&self.read()) {
            self.change(|state| {
                state.workloads.entry(kind).or_default().remove(&name);
                state.compose_namespace(&name.0);
            });
        }
    }

    fn count_beyond(&self, objects: usize) {
        for _ in OBJECTS_MAX..objects {
            self.anomalies.count(ObjectAnomaly::TooManyObjects);
        }
    }
}

fn is_over(removed_at: Instant, now: Instant) -> bool {
    now.saturating_duration_since(removed_at) >= REMOVED_KEPT
}

/// True if a workload has something that pods could need: annotations about logs, or an owner.
pub(crate) fn is_of_use(workload: &WorkloadObject) -> bool {
    workload.owner.is_some()
        || workload
            .annotations
            .entries
            .keys()
            .any(|key| is_routing(key))
}

/// True for annotations that can decide about logs.
fn is_routing(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else {
        return false;
    };
    let is_below = |known: &str| {
        let sub = domain.strip_suffix(known);
        sub.is_some_and(|sub| sub.is_empty() || sub.ends_with('.'))
    };
    ROUTING_DOMAINS.into_iter().any(is_below)
}

fn workload_entry(workload: WorkloadObject) -> (NamePair, WorkloadEntry) {
    let mut annotations = workload.annotations;
    annotations.entries.retain(|key, _| is_routing(key));
    let entry = WorkloadEntry {
        uid: workload.uid,
        annotations: Arc::new(annotations),
        controller: workload.owner.map(|owner| (owner.kind, owner.name)),
    };
    ((workload.namespace, workload.name), entry)
}

impl WorkloadEntry {
    fn is_equal(&self, other: &Self) -> bool {
        self.annotations == other.annotations && self.controller == other.controller
    }
}

impl StoreState {
    fn phase(&self, kind: ObjectKind) -> &KindPhase {
        static OFF: KindPhase = KindPhase::Off;
        self.phases.get(&kind).unwrap_or(&OFF)
    }

    fn by_uid(&self, uid: &str) -> Option<&PodEntry> {
        let aliased = || self.pods.get(self.aliases.get(uid)?);
        self.pods.get(uid).or_else(aliased)
    }

    fn by_name(&self, namespace: &str, name: &str) -> Option<&PodEntry> {
        let uid = self.names.get(&(namespace.into(), name.into()))?;
        self.pods.get(uid)
    }

    fn answer(&self, found: Option<&PodEntry>, container: &str) -> MetadataLookup {
        let Some(entry) = found else {
            return match self.phase(ObjectKind::Pod) {
                KindPhase::Live | KindPhase::Denied(_) | KindPhase::Off => MetadataLookup::Unknown,
                _ => MetadataLookup::Waiting,
            };
        };
        let metadata = &entry.metadata;
        let has_container = container.is_empty() || metadata.pod.container(container).is_some();
        // A container that is not in the specification was added since the last event.
        let is_behind = !has_container && !metadata.removed;
        let awaits_namespace =
            metadata.namespace.is_none() && self.phase(ObjectKind::Namespace).is_awaited();
        if is_behind || awaits_namespace || self.awaits_workload(metadata) {
            return MetadataLookup::Waiting;
        }
        MetadataLookup::Found(Arc::clone(metadata))
    }

    fn awaits_workload(&self, metadata: &PodMetadata) -> bool {
        let kinds = metadata.workloads.iter();
        let mut kinds = kinds.filter_map(|one| WorkloadKind::of_name(&one.kind));
        kinds.any(|kind| match self.phase(ObjectKind::Workload(kind)) {
            KindPhase::Off => self.follows_workloads && !metadata.removed,
            phase => phase.is_awaited(),
        })
    }

    /// Kinds of workload of live pods whose watch was never on.
    fn missing(&self) -> BTreeSet<WorkloadKind> {
        if !self.follows_workloads {
            return BTreeSet::new();
        }
        let live = self
            .pods
            .values()
            .filter(|entry| entry.removed_at.is_none());
        let workloads = live.flat_map(|entry| &entry.metadata.workloads);
        let kinds = workloads.filter_map(|one| WorkloadKind::of_name(&one.kind));
        let is_off =
            |kind: &WorkloadKind| *self.phase(ObjectKind::Workload(*kind)) == KindPhase::Off;
        kinds.filter(is_off).collect()
    }

    fn add_pod(&mut self, pod: PodObject) {
        self.drop_aliases(&pod.uid);
        let uid = pod.uid.clone();
        let ids = pod
            .containers
            .iter()
            .flat_map(|one| [&one.id, &one.last_id]);
        let ids = ids.filter(|id| !id.is_empty()).cloned();
        let mirror = pod.mirror().filter(|mirror| !mirror.is_empty());
        for alias in ids.chain(mirror.map(Into::into)) {
            self.aliases.insert(alias, uid.clone());
        }
        self.names
            .insert((pod.namespace.clone(), pod.name.clone()), uid.clone());
        let metadata = Arc::new(self.compose(Arc::new(pod), false));
        let entry = PodEntry {
            metadata,
            removed_at: None,
        };
        self.pods.insert(uid, entry);
    }

    fn remove_pod(&mut self, uid: &str, now: Instant) {
        let Some(entry) = self
            .pods
            .get(uid)
            .filter(|entry| entry.removed_at.is_none())
        else {
            return;
        };
        let metadata = Arc::new(self.compose(Arc::clone(&entry.metadata.pod), true));
        let entry = PodEntry {
            metadata,
            removed_at: Some(now),
        };
        self.pods.insert(uid.into(), entry);
    }

    /// The aliases that lead to a pod are taken away.
    fn drop_aliases(&mut self, uid: &str) {
        let Some(entry) = self.pods.get(uid) else {
            return;
        };
        let pod = Arc::clone(&entry.metadata.pod);
        let ids = pod
            .containers
            .iter()
            .flat_map(|one| [&*one.id, &*one.last_id]);
        for alias in ids.chain(pod.mirror()) {
            if self.aliases.get(alias).is_some_and(|known| **known == *uid) {
                self.aliases.remove(alias);
            }
        }
    }

    fn forget(&mut self, now: Instant) {
        let removed = self.pods.iter();
        let removed = removed.filter_map(|(uid, entry)| Some((entry.removed_at?, uid.clone())));
        let mut removed: Vec<(Instant, Box<str>)> = removed.collect();
        removed.sort();
        let beyond = removed.len().saturating_sub(REMOVED_PODS_MAX);
        for (at, (removed_at, uid)) in removed.into_iter().enumerate() {
            if at >= beyond && !is_over(removed_at, now) {
                break;
            }
            self.drop_aliases(&uid);
            if let Some(entry) = self.pods.remove(&uid) {
                let pod = &entry.metadata.pod;
                let name = (pod.namespace.clone(), pod.name.clone());
                if self.names.get(&name) == Some(&uid) {
                    self.names.remove(&name);
                }
            }
        }
    }

    /// Puts a pod together with its namespace and its workloads.
    fn compose(&self, pod: Arc<PodObject>, removed: bool) -> PodMetadata {
        let mut workloads = Vec::new();
        for (kind, name) in named_workloads(&pod) {
            let controller = self.add_workload(&mut workloads, &pod.namespace, kind, name);
            if let Some((kind, name)) = controller {
                self.add_workload(&mut workloads, &pod.namespace, kind, name);
            }
        }
        PodMetadata {
            namespace: self.namespaces.get(&pod.namespace).cloned(),
            workloads,
            pod,
            removed,
        }
    }

    /// Adds one workload; its own controller, if that is known.
    fn add_workload(
        &self,
        workloads: &mut Vec<WorkloadMetadata>,
        namespace: &str,
        kind: Box<str>,
        name: Box<str>,
    ) -> Option<(Box<str>, Box<str>)> {
        let all = WorkloadKind::of_name(&kind).and_then(|kind| self.workloads.get(&kind));
        let entry = all.and_then(|all| all.get(&(namespace.into(), name.clone())));
        workloads.push(WorkloadMetadata {
            kind,
            name,
            annotations: entry.map_or_else(Arc::default, |one| Arc::clone(&one.annotations)),
        });
        entry?.controller.clone()
    }

    fn compose_all(&mut self) {
        self.compose_where(|_| true);
    }

    fn compose_namespace(&mut self, namespace: &str) {
        self.compose_where(|pod| &*pod.namespace == namespace);
    }

    /// Puts pods together again, and keeps those that are as before.
    fn compose_where(&mut self, is_meant: impl Fn(&PodObject) -> bool) {
        let entries = self
            .pods
            .iter()
            .filter(|(_, entry)| is_meant(&entry.metadata.pod));
        let new = entries.filter_map(|(uid, entry)| {
            let pod = Arc::clone(&entry.metadata.pod);
            let metadata = self.compose(pod, entry.metadata.removed);
            (metadata != *entry.metadata).then(|| (uid.clone(), Arc::new(metadata)))
        });
        for (uid, metadata) in new.collect::<Vec<_>>() {
            if let Some(entry) = self.pods.get_mut(&uid) {
                entry.metadata = metadata;
            }
        }
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
