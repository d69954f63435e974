//! Metadata of containers, and the policies that their owners give by annotations.
//!
//! # What it guarantees
//! * The pods of one node, their namespaces and their workloads are those of the Kubernetes API, as
//!   the last list and the events since say. A change is visible once its event has come.
//! * A pod that was removed is remembered for an hour, for its logs are read longer than it lives.
//! * No answer of the API, no file and no annotation is trusted: each is bounded, and what is odd
//!   is a named count ([`ObjectAnomaly`]) or a named problem ([`AnnotationProblem`]).
//! * Rights that the API does not give (RBAC) cost the metadata that they are for, and no more.
//!
//! # In reading order
//! 1. [`pod_log_path`], [`container_log_link`], [`docker_log_path`]: metadata in the names of logs;
//!    [`DockerContainer`]: docker's file beside them.
//! 2. [`ClusterAccess`]: a kubeconfig file or the service account of a pod.
//! 3. [`ClusterWatch`]: the threads that list and watch, and [`MetadataStore`], which they fill.
//! 4. [`ClusterEventFeed`]: events of the cluster, read by one process at a time.
//! 5. [`resolve`]: from annotations to the [`ContainerPolicy`] of a stream; [`EventEdits`]: what it
//!    does to texts; [`VolumePlaces`]: files in volumes.
//! 6. [`WorkloadDesk`]: from the path of a log to the [`WorkloadView`] of its container.
//!
//! # Limits
//! Each is a constant with its reason, in the module that has it.
//!
//! # After a crash
//! Nothing is kept. The next start lists again.
#![forbid(unsafe_code)]

mod annotations;
mod anomaly;
mod answer;
mod client;
mod desk;
mod docker;
mod edits;
mod events;
mod fields;
mod kubeconfig;
mod lines;
mod objects;
mod path;
mod reflector;
mod service;
mod store;
mod text_map;
mod volumes;

pub use annotations::{
    AnnotationDecision, AnnotationDialect, AnnotationKey, AnnotationPlace, AnnotationProblem,
    AnnotationSettings, ContainerPolicy, ContainerStream, HashRule, LogPattern, MultilinePlace,
    MultilineRule, ReplaceRule, VolumeRule, resolve, resolve_labels,
};
pub use anomaly::{ObjectAnomaly, ObjectAnomalyCounts};
pub use desk::{
    DeskOptions, DestinationNames, GlobCheck, PathCheck, WorkloadAnswer, WorkloadDesk,
    WorkloadMetadataState, WorkloadView,
};
pub use docker::{DOCKER_CONFIG_BYTES_MAX, DockerConfigError, DockerContainer};
pub use edits::{EditOutcome, EventEdits, FilterReason};
pub use events::{ClusterEvent, ClusterEventFeed, EventFeedCounts, EventFeedSettings, EventItem};
pub use fields::{FieldNaming, FieldSettings, FieldTexts};
pub use kubeconfig::{
    ClientIdentity, ClusterAccess, ClusterAccessError, PemSource, SERVICE_ACCOUNT, TokenSource,
};
pub use objects::{
    ContainerRole, NamespaceObject, OwnerReference, PodContainer, PodObject, PodPhase, PodVolume,
    VolumeSource, WorkloadKind, WorkloadMetadata, WorkloadObject,
};
pub use path::{
    ContainerLogLink, DockerLogPath, PodLogPath, container_log_link, docker_log_path, pod_log_path,
};
pub use reflector::WatchCounts;
pub use service::{ClusterWatch, WatchScope, WatchState};
pub use store::{KindPhase, MetadataLookup, MetadataStore, ObjectKind, PodMetadata};
pub use text_map::TextMap;
pub use volumes::{VOLUMES_MAX, VolumeFiles, VolumePlaces};
