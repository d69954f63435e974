//! Desk of workloads: which container a log belongs to, and what is known of it at this moment.
//!
//! # What it guarantees
//! * What was once known of a container stays known to its log.
//! * Annotations are read anew only when something of the container has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde::Serialize;

use crate::annotations::{
    AnnotationKey, AnnotationProblem, AnnotationSettings, ContainerPolicy, ContainerStream,
    resolve, resolve_labels,
};
use crate::docker::{DOCKER_CONFIG_BYTES_MAX, DockerContainer};
use crate::fields::{FieldNaming, FieldSettings, FieldTexts};
use crate::path::{container_log_link, docker_log_path, pod_log_path};
use crate::store::{MetadataLookup, MetadataStore, PodMetadata};
use crate::volumes::{VolumeFiles, VolumePlaces};

/// Name of the file beside a log in which docker describes its container.
const DOCKER_CONFIG: &str = "config.v2.json";

/// Policies of which it is known that containers may share them.
const SHARED_MAX: usize = 64;

/// Both streams of a container, in the order of policies.
const STREAMS: [ContainerStream; 2] = [ContainerStream::Stdout, ContainerStream::Stderr];

/// State of the metadata of a container.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkloadMetadataState {
    /// Awaited: its events stay in their file.
    Awaited,
    /// Not there in time: its events go without.
    Missing,
    /// Known.
    #[default]
    Known,
    /// Known, of a pod that the API has removed.
    Removed,
}

/// Container of a log, and what is known of it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct WorkloadView {
    /// Namespace, pod, its uid and container; empty where there is none.
    pub names: [String; 4],
    /// The workload that the pod belongs to, such as `Deployment shop`, or empty.
    pub workload: String,
    /// Fields of its events.
    pub fields: FieldTexts,
    /// Names of its fields.
    pub naming: FieldNaming,
    /// Policies of standard output and standard error: the same ones for all containers of one
    /// desk whose owners say the same.
    pub policies: Arc<[ContainerPolicy; 2]>,
    /// State of its metadata.
    pub metadata: WorkloadMetadataState,
    /// True for files in a volume: they have no streams.
    pub is_volume: bool,
}

impl WorkloadView {
    /// True if nothing of a file is wanted: it is not read.
    pub fn is_excluded(&self) -> bool {
        // Lines that come from no stream have the policy of standard output.
        let streams = if self.is_volume { 1 } else { 2 };
        let mut policies = self.policies.iter().take(streams);
        policies.all(|policy| policy.exclude == Some(true))
    }

    /// Bytes a second to read of a file at most. Both streams lie in one: the smaller rate holds.
    pub fn rate_bytes(&self) -> Option<u64> {
        let rates = self.policies.iter().filter_map(|policy| policy.rate_bytes);
        rates.min()
    }
}

/// Names of destinations at this moment.
pub type DestinationNames = Box<dyn Fn() -> BTreeSet<String> + Send + Sync>;

/// True for paths that are allowed.
pub type PathCheck = Box<dyn Fn(&Path) -> bool + Send + Sync>;

/// Fault of a pattern, if it is none.
pub type GlobCheck = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Options of a [`WorkloadDesk`].
pub struct DeskOptions {
    /// Pods of this node, if they are watched.
    pub store: Option<Arc<MetadataStore>>,
    /// Folder of docker's containers, if they are wanted.
    pub docker: Option<PathBuf>,
    /// Settings of annotations by the configuration; destinations and products are not asked.
    pub settings: AnnotationSettings,
    /// Fields of events.
    pub fields: FieldSettings,
    /// Destinations that annotations may name.
    pub destinations: DestinationNames,
    /// Folder of the kubelet.
    pub kubelet: PathBuf,
    /// True for the paths of the host in which files of volumes are read.
    pub is_allowed: PathCheck,
    /// Fault of a pattern of files that is none.
    pub glob_fault: GlobCheck,
}

/// Desk of the workloads of one node.
pub struct WorkloadDesk {
    options: DeskOptions,
    /// Files in volumes, as they were last asked for.
    volumes: Mutex<Vec<VolumeFiles>>,
    /// Policies that containers may share.
    shared: Mutex<Vec<Weak<[ContainerPolicy; 2]>>>,
}

/// State of what an answer was made from: with the same one it is the same.
#[derive(Clone, Debug)]
enum AnswerBasis {
    Pod(Arc<PodMetadata>),
    /// A file in a volume of a pod.
    Volume(Arc<PodMetadata>),
    /// Inode, change time and length of docker's file.
    Docker([i64; 4]),
    /// The path alone.
    Path,
}

/// Answer about the container of a log.
#[derive(Clone, Debug)]
pub struct WorkloadAnswer {
    /// The container; the same one as before if nothing of it has changed.
    pub view: Arc<WorkloadView>,
    basis: AnswerBasis,
}

/// Namespace, pod, uid and container of a log.
struct LogOwner<'a> {
    names: [&'a str; 4],
    /// Id of the container, if the path says it.
    id: &'a str,
}

/// Reads the names in the path of a log that the kubelet has made, or in a link to one.
fn owner(path: &str) -> Option<LogOwner<'_>> {
    let bytes = path.as_bytes();
    if let Some(pod) = pod_log_path(bytes) {
        let names = [pod.namespace, pod.pod, pod.uid, pod.container];
        return Some(LogOwner { names, id: "" });
    }
    let link = container_log_link(bytes).filter(|link| !link.is_cut)?;
    Some(LogOwner {
        names: [link.namespace, link.pod, "", link.container],
        id: link.id,
    })
}

impl WorkloadDesk {
    /// Desk by these options.
    pub fn new(options: DeskOptions) -> Self {
        Self {
            options,
            volumes: Mutex::default(),
            shared: Mutex::default(),
        }
    }

    /// True if it has something to say that can change.
    pub fn is_live(&self) -> bool {
        self.options.store.is_some() || self.options.docker.is_some()
    }

    /// Number of the last change of metadata.
    pub fn generation(&self) -> u64 {
        self.options
            .store
            .as_ref()
            .map_or(0, |store| store.generation())
    }

    /// True if docker's files are to be looked at now and then.
    pub fn has_docker(&self) -> bool {
        self.options.docker.is_some()
    }

    /// Name of the node, if it is known.
    pub fn node(&self) -> Option<&str> {
        self.options.store.as_ref().map(|store| store.node())
    }

    /// Settings of annotations by the configuration, with the destinations of this moment.
    fn settings(&self) -> AnnotationSettings {
        AnnotationSettings {
            destinations: Some((self.options.destinations)()),
            ..self.options.settings.clone()
        }
    }

    fn places(&self) -> VolumePlaces<'_> {
        VolumePlaces {
            kubelet: &self.options.kubelet,
            is_allowed: &*self.options.is_allowed,
            glob_fault: &*self.options.glob_fault,
        }
    }

    /// Patterns of the files in volumes that annotations of the pods name at this moment.
    pub fn volume_patterns(&self) -> BTreeSet<String> {
        let Some(store) = &self.options.store else {
            return BTreeSet::new();
        };
        let files = self
            .places()
            .all_files(&store.live_pods(), &self.settings());
        let patterns = files.iter().map(VolumeFiles::pattern).collect();
        *self.volumes.lock().unwrap_or_else(PoisonError::into_inner) = files;
        patterns
    }

    /// The container of a log at this moment; `None`: it is no container's. `before`: the last
    /// answer about it, which other options gave if `anew`.
    pub fn ask(
        &self,
        path: &str,
        before: Option<&WorkloadAnswer>,
        anew: bool,
    ) -> Option<WorkloadAnswer> {
        match (&self.options.store, owner(path)) {
            (Some(store), Some(owner)) => Some(self.ask_cluster(store, &owner, before, anew)),
            (None, Some(owner)) => Some(self.by_path(&owner, WorkloadMetadataState::Known)),
            (Some(store), None) => (self.ask_volume(store, path, before, anew))
                .or_else(|| self.ask_docker(path, before, anew)),
            (None, None) => self.ask_docker(path, before, anew),
        }
    }

    fn by_path(&self, owner: &LogOwner<'_>, metadata: WorkloadMetadataState) -> WorkloadAnswer {
        let view = WorkloadView {
            names: owner.names.map(str::to_owned),
            fields: self.options.fields.of_path(owner.names),
            naming: self.options.fields.naming,
            policies: self.policies(|stream, settings| {
                resolve_labels(&BTreeMap::new(), owner.names[3], stream, settings)
            }),
            metadata,
            ..WorkloadView::default()
        };
        WorkloadAnswer {
            view: Arc::new(view),
            basis: AnswerBasis::Path,
        }
    }

    fn ask_cluster(
        &self,
        store: &MetadataStore,
        owner: &LogOwner<'_>,
        before: Option<&WorkloadAnswer>,
        anew: bool,
    ) -> WorkloadAnswer {
        let [namespace, pod, uid, container] = owner.names;
        let found = match owner.id {
            "" => store.lookup(namespace, pod, uid, container),
            id => store.lookup_id(id),
        };
        let MetadataLookup::Found(metadata) = found else {
            let known = before.filter(|one| !anew || matches!(one.basis, AnswerBasis::Pod(_)));
            let awaited = || self.by_path(owner, WorkloadMetadataState::Awaited);
            return known.cloned().unwrap_or_else(awaited);
        };
        if let Some(before) = before.filter(|_| !anew)
            && let AnswerBasis::Pod(known) = &before.basis
            && known.is_alike(&metadata)
        {
            return before.clone();
        }
        let mut view = self.pod_view(&metadata, uid, container);
        if !view.policies[0].volumes.is_empty() {
            self.check_volumes(&metadata, &mut Arc::make_mut(&mut view.policies)[0]);
        }
        WorkloadAnswer {
            view: Arc::new(view),
            basis: AnswerBasis::Pod(metadata),
        }
    }

    /// View of a container of a pod. `uid`: that in the path of its log; empty: the pod's.
    pub fn pod_view(&self, metadata: &PodMetadata, uid: &str, container: &str) -> WorkloadView {
        let pod = &metadata.pod;
        let uid = match uid {
            "" => &*pod.uid,
            uid => uid,
        };
        let workload = metadata.workloads.last();
        WorkloadView {
            names: [&*pod.namespace, &*pod.name, uid, container].map(str::to_owned),
            workload: workload.map_or_else(String::new, |one| format!("{} {}", one.kind, one.name)),
            fields: self.options.fields.of_pod(metadata, uid, container),
            naming: self.options.fields.naming,
            policies: self
                .policies(|stream, settings| resolve(metadata, container, stream, settings)),
            metadata: match metadata.removed {
                true => WorkloadMetadataState::Removed,
                false => WorkloadMetadataState::Known,
            },
            is_volume: false,
        }
    }

    /// Says of a policy's volumes which cannot be read.
    fn check_volumes(&self, metadata: &PodMetadata, policy: &mut ContainerPolicy) {
        for rule in &policy.volumes {
            let key = AnnotationKey::Volume(rule.volume.clone());
            let decision = policy.decided_by.get(&key);
            let root = self.places().root_of(&metadata.pod, rule);
            if let (Some(decision), Err(message)) = (decision, root) {
                policy.problems.push(AnnotationProblem {
                    place: decision.place.clone(),
                    annotation: decision.annotation.clone(),
                    message,
                });
            }
        }
    }

    fn volume_of(&self, path: &Path) -> Option<VolumeFiles> {
        let volumes = self.volumes.lock().unwrap_or_else(PoisonError::into_inner);
        let found = volumes.iter().find(|one| path.starts_with(&one.root));
        found.cloned()
    }

    /// Root of the volume in which a path lies, among those whose files
    /// [`Self::volume_patterns`] has named.
    pub fn volume_root(&self, path: &Path) -> Option<PathBuf> {
        self.volume_of(path).map(|files| files.root)
    }

    /// The pod in whose volume a file lies.
    fn ask_volume(
        &self,
        store: &MetadataStore,
        path: &str,
        before: Option<&WorkloadAnswer>,
        anew: bool,
    ) -> Option<WorkloadAnswer> {
        let known = before.filter(|one| matches!(one.basis, AnswerBasis::Volume(_)));
        let Some(VolumeFiles {
            metadata,
            container,
            ..
        }) = self.volume_of(Path::new(path))
        else {
            return known.map(|known| without_volume(store, known));
        };
        let pod = &metadata.pod;
        let newest = match store.lookup(&pod.namespace, &pod.name, &pod.uid, "") {
            MetadataLookup::Found(newest) => newest,
            _ => metadata,
        };
        if let Some(before) = known.filter(|_| !anew)
            && let AnswerBasis::Volume(known) = &before.basis
            && known.is_alike(&newest)
        {
            return Some(before.clone());
        }
        let view = WorkloadView {
            is_volume: true,
            ..self.pod_view(&newest, "", &container)
        };
        Some(WorkloadAnswer {
            view: Arc::new(view),
            basis: AnswerBasis::Volume(newest),
        })
    }

    /// Policies of both streams. Problems that the settings cannot know are added here.
    fn policies(
        &self,
        resolve: impl Fn(ContainerStream, &AnnotationSettings) -> ContainerPolicy,
    ) -> Arc<[ContainerPolicy; 2]> {
        let settings = self.settings();
        self.share(STREAMS.map(|stream| {
            let mut policy = resolve(stream, &settings);
            let parts = policy.product.as_deref().map(|name| name.split_once('/'));
            let is_sound = |parts: Option<(&str, &str)>| {
                parts.is_some_and(|(v, p)| !v.is_empty() && !p.is_empty())
            };
            if parts.is_some_and(|parts| !is_sound(parts)) {
                refuse_product(&mut policy);
            }
            policy
        }))
    }

    /// Policies like these that another container has, if there are some.
    fn share(&self, policies: [ContainerPolicy; 2]) -> Arc<[ContainerPolicy; 2]> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.retain(|known| known.strong_count() > 0);
        let mut known = shared.iter().filter_map(Weak::upgrade);
        if let Some(alike) = known.find(|known| **known == policies) {
            return alike;
        }
        let policies = Arc::new(policies);
        if shared.len() < SHARED_MAX {
            shared.push(Arc::downgrade(&policies));
        }
        policies
    }

    /// Docker's description of a container, in the file beside its log.
    fn ask_docker(
        &self,
        path: &str,
        before: Option<&WorkloadAnswer>,
        anew: bool,
    ) -> Option<WorkloadAnswer> {
        let containers = self.options.docker.as_ref()?;
        let log = docker_log_path(path.as_bytes())?;
        let folder = Path::new(path).parent()?;
        (folder.parent() == Some(containers)).then_some(())?;
        let file = folder.join(DOCKER_CONFIG);
        let stamp = std::fs::metadata(&file).ok();
        let stamp = stamp.map(|one| {
            let parts = [one.ino() as i64, one.size() as i64];
            [parts[0], parts[1], one.mtime(), one.mtime_nsec()]
        });
        match (before.map(|before| (&before.basis, before)), stamp) {
            (Some((AnswerBasis::Docker(known), before)), Some(stamp))
                if *known == stamp && !anew =>
            {
                return Some(before.clone());
            }
            // It has been removed: what was known holds for what is left to be read.
            (Some((AnswerBasis::Docker(_), before)), None) => return Some(before.clone()),
            _ => {}
        }
        let read = inrush_files::read(&file, DOCKER_CONFIG_BYTES_MAX);
        let read = read.map_err(|error| error.to_string());
        let container = read
            .and_then(|json| DockerContainer::from_json(&json).map_err(|error| error.to_string()));
        let container = match container {
            Ok(container) => container,
            Err(words) => {
                if before.is_none() {
                    tracing::warn!(file = %file.display(), "{words}: read without its labels");
                }
                let unknown = || WorkloadAnswer {
                    view: Arc::new(WorkloadView {
                        names: [const { String::new() }; 4],
                        fields: self.options.fields.of_docker(&DockerContainer {
                            id: log.id.to_owned(),
                            ..DockerContainer::default()
                        }),
                        metadata: WorkloadMetadataState::Missing,
                        ..WorkloadView::default()
                    }),
                    basis: AnswerBasis::Docker(stamp.unwrap_or_default()),
                };
                return Some(before.cloned().unwrap_or_else(unknown));
            }
        };
        Some(self.docker_answer(&container, stamp.unwrap_or_default()))
    }

    fn docker_answer(&self, container: &DockerContainer, stamp: [i64; 4]) -> WorkloadAnswer {
        let name = container.name.clone();
        let view = WorkloadView {
            fields: self.options.fields.of_docker(container),
            naming: self.options.fields.naming,
            policies: self.policies(|stream, settings| {
                resolve_labels(&container.labels, &name, stream, settings)
            }),
            names: [String::new(), String::new(), String::new(), name.clone()],
            metadata: WorkloadMetadataState::Known,
            ..WorkloadView::default()
        };
        WorkloadAnswer {
            view: Arc::new(view),
            basis: AnswerBasis::Docker(stamp),
        }
    }
}

/// View of a file in a volume that no annotation names any more.
fn without_volume(store: &MetadataStore, known: &WorkloadAnswer) -> WorkloadAnswer {
    let AnswerBasis::Volume(metadata) = &known.basis else {
        return known.clone();
    };
    let pod = &metadata.pod;
    match store.lookup(&pod.namespace, &pod.name, &pod.uid, "") {
        MetadataLookup::Found(newest) if newest.removed && !metadata.removed => WorkloadAnswer {
            view: Arc::new(WorkloadView {
                metadata: WorkloadMetadataState::Removed,
                ..WorkloadView::clone(&known.view)
            }),
            basis: AnswerBasis::Volume(newest),
        },
        _ => known.clone(),
    }
}

/// Takes a product out that packs could not be told.
fn refuse_product(policy: &mut ContainerPolicy) {
    policy.product = None;
    let decision = policy.decided_by.remove(&AnnotationKey::Product);
    // A parser that Fluent Bit has need not be one of ours.
    if let Some(decision) = decision.filter(|one| !one.annotation.starts_with("fluentbit.io/")) {
        policy.problems.push(AnnotationProblem {
            place: decision.place,
            annotation: decision.annotation,
            message: "is written as vendor/product, for example nginx/nginx".to_owned(),
        });
    }
}

#[cfg(test)]
#[path = "desk_tests.rs"]
mod tests;
