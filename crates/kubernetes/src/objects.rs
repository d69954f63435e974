//! Objects of the Kubernetes API, with the fields that are kept of them.
//!
//! # What it guarantees
//! * Fields that are not kept are skipped while JSON is read, without memory of their own.
//! * Absent fields and `null` are empty, as Go's decoder has them. An object without a name or a
//!   uid is read, and [`WatchedObject::is_named`] is false.
//!
//! # Limits
//! Labels and annotations: [`text_map`](crate::text_map). Containers and volumes of a pod:
//! [`PARTS_MAX`] each. The source of the shapes is the reference of Kubernetes 1.34
//! (`core/v1`, `meta/v1`).

use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::text_map::TextMap;

/// Containers, and volumes, that are kept of one pod; Kubernetes' own examples have a dozen.
pub(crate) const PARTS_MAX: usize = 256;
/// Annotation by which the kubelet marks the API's copy of a static pod. Its value is the uid that
/// the folder of the logs has.
pub(crate) const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// Object that a watch delivers.
pub(crate) trait WatchedObject: DeserializeOwned {
    /// True if it has the names that an object has.
    fn is_named(&self) -> bool;
    /// Labels, annotations, containers and volumes left out.
    fn skipped(&self) -> u32;
}

/// Stage of a pod's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PodPhase {
    /// Not all containers have been started.
    Pending,
    /// A container runs, or is being restarted.
    Running,
    /// All containers ended without an error.
    Succeeded,
    /// All containers ended, one with an error.
    Failed,
    /// Not known, or not said.
    #[default]
    Unknown,
}

/// Role of a container in its pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContainerRole {
    /// One of the pod's purpose.
    Main,
    /// One that runs before, or beside, the main ones.
    Init,
    /// One added to a running pod, for debugging.
    Ephemeral,
}

/// Container of a pod.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PodContainer {
    /// Name, unique in the pod.
    pub name: Box<str>,
    /// Role in the pod.
    pub role: ContainerRole,
    /// Image as the pod's specification has it.
    pub image: Box<str>,
    /// Id of the current run without the runtime's scheme, such as 64 hexadecimal digits; empty
    /// until it was started.
    pub id: Box<str>,
    /// Id of the run before, or empty.
    pub last_id: Box<str>,
    /// Restarts so far.
    pub restarts: u32,
}

/// Object that another one belongs to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnerReference {
    /// Kind, such as `ReplicaSet`.
    pub kind: Box<str>,
    /// Name.
    pub name: Box<str>,
    /// Uid.
    pub uid: Box<str>,
}

/// Volume of a pod, as far as files on the node follow from it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VolumeSource {
    /// A folder below the kubelet's `pods/UID/volumes/kubernetes.io~empty-dir/NAME`.
    EmptyDir,
    /// A path of the node.
    HostPath(Box<str>),
    /// Any other.
    Other,
}

/// Volume of a pod.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PodVolume {
    /// Name, unique in the pod.
    pub name: Box<str>,
    /// Place of its files.
    pub source: VolumeSource,
}

/// Pod, with what is kept of it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(from = "PodWire")]
pub struct PodObject {
    /// Namespace.
    pub namespace: Box<str>,
    /// Name, unique in the namespace at one time.
    pub name: Box<str>,
    /// Uid, never used again.
    pub uid: Box<str>,
    /// Node that it runs on; empty until it is scheduled.
    pub node: Box<str>,
    /// Stage of its life.
    pub phase: PodPhase,
    /// IP address, or empty.
    pub ip: Box<str>,
    /// Labels.
    pub labels: TextMap,
    /// Annotations.
    pub annotations: TextMap,
    /// Containers of all roles.
    pub containers: Vec<PodContainer>,
    /// Volumes.
    pub volumes: Vec<PodVolume>,
    /// The object that controls it.
    pub owner: Option<OwnerReference>,
    /// Parts left out: containers and volumes beyond 256 each, and [`TextMap::skipped`].
    pub skipped: u32,
}

/// Namespace, with what is kept of it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(from = "MetaWire")]
pub struct NamespaceObject {
    /// Name.
    pub name: Box<str>,
    /// Uid.
    pub uid: Box<str>,
    /// Labels.
    pub labels: TextMap,
    /// Annotations.
    pub annotations: TextMap,
}

/// Workload that owns pods, such as a Deployment; its metadata alone.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(from = "MetaWire")]
pub struct WorkloadObject {
    /// Namespace.
    pub namespace: Box<str>,
    /// Name.
    pub name: Box<str>,
    /// Uid.
    pub uid: Box<str>,
    /// Annotations.
    pub annotations: TextMap,
    /// The object that controls it: the CronJob of a Job.
    pub owner: Option<OwnerReference>,
}

impl PodObject {
    /// Uid in the names of its log folders where that is not [`uid`](Self::uid): that of a static
    /// pod, which the API knows by a copy.
    pub fn mirror(&self) -> Option<&str> {
        self.annotations.get(MIRROR_ANNOTATION)
    }

    /// Container of this name.
    pub fn container(&self, name: &str) -> Option<&PodContainer> {
        self.containers.iter().find(|one| &*one.name == name)
    }
}

impl WatchedObject for PodObject {
    fn is_named(&self) -> bool {
        ![&self.namespace, &self.name, &self.uid]
            .iter()
            .any(|name| name.is_empty())
    }

    fn skipped(&self) -> u32 {
        self.skipped
    }
}

impl WatchedObject for NamespaceObject {
    fn is_named(&self) -> bool {
        !self.name.is_empty() && !self.uid.is_empty()
    }

    fn skipped(&self) -> u32 {
        self.labels.skipped.saturating_add(self.annotations.skipped)
    }
}

impl WatchedObject for WorkloadObject {
    fn is_named(&self) -> bool {
        ![&self.namespace, &self.name, &self.uid]
            .iter()
            .any(|name| name.is_empty())
    }

    fn skipped(&self) -> u32 {
        self.annotations.skipped
    }
}

/// Text that may be absent or `null`.
type WireText = Option<Box<str>>;

#[derive(Deserialize, Default)]
struct MetaWire {
    #[serde(default)]
    metadata: Option<MetadataWire>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct MetadataWire {
    namespace: WireText,
    name: WireText,
    uid: WireText,
    labels: TextMap,
    annotations: TextMap,
    owner_references: Option<Vec<OwnerWire>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct OwnerWire {
    kind: WireText,
    name: WireText,
    uid: WireText,
    controller: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PodWire {
    metadata: Option<MetadataWire>,
    spec: Option<SpecWire>,
    status: Option<StatusWire>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct SpecWire {
    node_name: WireText,
    containers: Option<Vec<ContainerWire>>,
    init_containers: Option<Vec<ContainerWire>>,
    ephemeral_containers: Option<Vec<ContainerWire>>,
    volumes: Option<Vec<VolumeWire>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ContainerWire {
    name: WireText,
    image: WireText,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct VolumeWire {
    name: WireText,
    empty_dir: Option<serde::de::IgnoredAny>,
    host_path: Option<HostPathWire>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct HostPathWire {
    path: WireText,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct StatusWire {
    phase: WireText,
    #[serde(rename = "podIP")]
    pod_ip: WireText,
    container_statuses: Option<Vec<ContainerStatusWire>>,
    init_container_statuses: Option<Vec<ContainerStatusWire>>,
    ephemeral_container_statuses: Option<Vec<ContainerStatusWire>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatusWire {
    name: WireText,
    #[serde(rename = "containerID")]
    container_id: WireText,
    restart_count: Option<i64>,
    last_state: Option<LastStateWire>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct LastStateWire {
    terminated: Option<TerminatedWire>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TerminatedWire {
    #[serde(rename = "containerID")]
    container_id: WireText,
}

/// The owner that controls an object, or else the first one.
fn controller(owners: Option<Vec<OwnerWire>>) -> Option<OwnerReference> {
    let mut owners = owners.unwrap_or_default();
    let found = owners
        .iter()
        .position(|owner| owner.controller == Some(true));
    let at = found.unwrap_or_default();
    (at < owners.len()).then(|| {
        let owner = owners.swap_remove(at);
        OwnerReference {
            kind: owner.kind.unwrap_or_default(),
            name: owner.name.unwrap_or_default(),
            uid: owner.uid.unwrap_or_default(),
        }
    })
}

/// An id without the scheme of its runtime: `containerd://ID`.
fn bare_id(id: WireText) -> Box<str> {
    let id = id.unwrap_or_default();
    match id.split_once("://") {
        Some((_, bare)) => bare.into(),
        None => id,
    }
}

impl SpecWire {
    /// Containers of all roles, and how many were left out.
    fn take_containers(&mut self) -> (Vec<PodContainer>, u32) {
        let roles = [
            (ContainerRole::Main, self.containers.take()),
            (ContainerRole::Init, self.init_containers.take()),
            (ContainerRole::Ephemeral, self.ephemeral_containers.take()),
        ];
        let all = roles.into_iter().flat_map(|(role, list)| {
            let list = list.unwrap_or_default().into_iter();
            list.map(move |wire| PodContainer {
                name: wire.name.unwrap_or_default(),
                role,
                image: wire.image.unwrap_or_default(),
                id: Box::default(),
                last_id: Box::default(),
                restarts: 0,
            })
        });
        bounded(all)
    }

    fn take_volumes(&mut self) -> (Vec<PodVolume>, u32) {
        let volumes = self.volumes.take().unwrap_or_default().into_iter();
        bounded(volumes.map(|wire| PodVolume {
            name: wire.name.unwrap_or_default(),
            source: match (wire.empty_dir, wire.host_path) {
                (Some(_), _) => VolumeSource::EmptyDir,
                (None, Some(host)) => VolumeSource::HostPath(host.path.unwrap_or_default()),
                (None, None) => VolumeSource::Other,
            },
        }))
    }
}

fn bounded<T>(items: impl Iterator<Item = T>) -> (Vec<T>, u32) {
    let mut items: Vec<T> = items.collect();
    let beyond = items.len().saturating_sub(PARTS_MAX);
    items.truncate(PARTS_MAX);
    (items, u32::try_from(beyond).unwrap_or(u32::MAX))
}

impl StatusWire {
    /// Adds what a status says of containers.
    fn tell(&mut self, containers: &mut [PodContainer]) {
        let lists = [
            self.container_statuses.take(),
            self.init_container_statuses.take(),
            self.ephemeral_container_statuses.take(),
        ];
        for status in lists.into_iter().flatten().flatten() {
            let name = status.name.unwrap_or_default();
            let Some(container) = containers.iter_mut().find(|one| one.name == name) else {
                continue;
            };
            container.id = bare_id(status.container_id);
            let terminated = status.last_state.and_then(|last| last.terminated);
            container.last_id = bare_id(terminated.and_then(|last| last.container_id));
            let restarts = status.restart_count.unwrap_or_default();
            container.restarts = u32::try_from(restarts).unwrap_or_default();
        }
    }
}

impl From<PodWire> for PodObject {
    fn from(wire: PodWire) -> Self {
        let metadata = wire.metadata.unwrap_or_default();
        let mut spec = wire.spec.unwrap_or_default();
        let mut status = wire.status.unwrap_or_default();
        let (mut containers, containers_beyond) = spec.take_containers();
        let (volumes, volumes_beyond) = spec.take_volumes();
        status.tell(&mut containers);
        let texts = [&metadata.labels, &metadata.annotations];
        let parts = [containers_beyond, volumes_beyond].into_iter();
        let skipped = parts.chain(texts.iter().map(|texts| texts.skipped));
        Self {
            skipped: skipped.fold(0, u32::saturating_add),
            namespace: metadata.namespace.unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            node: spec.node_name.unwrap_or_default(),
            phase: match status.phase.as_deref() {
                Some("Pending") => PodPhase::Pending,
                Some("Running") => PodPhase::Running,
                Some("Succeeded") => PodPhase::Succeeded,
                Some("Failed") => PodPhase::Failed,
                _ => PodPhase::Unknown,
            },
            ip: status.pod_ip.unwrap_or_default(),
            labels: metadata.labels,
            annotations: metadata.annotations,
            containers,
            volumes,
            owner: controller(metadata.owner_references),
        }
    }
}

impl From<MetaWire> for NamespaceObject {
    fn from(wire: MetaWire) -> Self {
        let metadata = wire.metadata.unwrap_or_default();
        Self {
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            labels: metadata.labels,
            annotations: metadata.annotations,
        }
    }
}

impl From<MetaWire> for WorkloadObject {
    fn from(wire: MetaWire) -> Self {
        let metadata = wire.metadata.unwrap_or_default();
        Self {
            namespace: metadata.namespace.unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            annotations: metadata.annotations,
            owner: controller(metadata.owner_references),
        }
    }
}

/// Kind of workload whose metadata is watched, because pods of this node belong to one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WorkloadKind {
    /// `apps/v1` Deployment.
    Deployment,
    /// `apps/v1` StatefulSet.
    StatefulSet,
    /// `apps/v1` DaemonSet.
    DaemonSet,
    /// `batch/v1` CronJob.
    CronJob,
    /// `batch/v1` Job.
    Job,
}

impl WorkloadKind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Deployment,
        Self::StatefulSet,
        Self::DaemonSet,
        Self::CronJob,
        Self::Job,
    ];

    /// Name as references have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
            Self::DaemonSet => "DaemonSet",
            Self::CronJob => "CronJob",
            Self::Job => "Job",
        }
    }

    /// Kind of this name, if it is watched.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Workload that a pod belongs to, directly or not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkloadMetadata {
    /// Kind, such as `Deployment`.
    pub kind: Box<str>,
    /// Name.
    pub name: Box<str>,
    /// Annotations that decide about logs; empty too where the API does not allow reading them.
    pub annotations: Arc<TextMap>,
}

/// Workloads that follow from the pod alone, the nearest first.
///
/// The Deployment of a ReplicaSet is read from names: its controller names each ReplicaSet
/// `DEPLOYMENT-HASH` and labels the pods `pod-template-hash: HASH`
/// (`pkg/controller/deployment/sync.go`). So no ReplicaSet needs to be read; a cluster has ten of
/// them for each Deployment.
pub(crate) fn named_workloads(pod: &PodObject) -> Vec<(Box<str>, Box<str>)> {
    let Some(owner) = &pod.owner else {
        return Vec::new();
    };
    // A static pod belongs to its node.
    if &*owner.kind == "Node" || owner.kind.is_empty() || owner.name.is_empty() {
        return Vec::new();
    }
    let mut found = vec![(owner.kind.clone(), owner.name.clone())];
    let hash = pod
        .labels
        .get("pod-template-hash")
        .filter(|hash| !hash.is_empty());
    let deployment = hash.and_then(|hash| owner.name.strip_suffix(hash)?.strip_suffix('-'));
    if let Some(deployment) = deployment.filter(|_| &*owner.kind == "ReplicaSet") {
        found.push((WorkloadKind::Deployment.name().into(), deployment.into()));
    }
    found
}

#[cfg(test)]
#[path = "objects_tests.rs"]
mod tests;
