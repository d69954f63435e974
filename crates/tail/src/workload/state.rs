//! Workloads whose logs a source reads, and what their owners' annotations decide, for the page.

use inrush_kubernetes::WorkloadMetadataState;
use serde::Serialize;

/// Logs of one container, as the page shows them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct WorkloadState {
    /// Namespace of its pod; empty for a container of docker alone.
    pub namespace: String,
    /// The workload that its pod belongs to, such as `Deployment shop`; empty if there is none.
    pub workload: String,
    /// Name of the pod, or empty.
    pub pod: String,
    /// Uid of the pod, or empty.
    pub uid: String,
    /// Name of the container.
    pub container: String,
    /// State of its metadata.
    pub metadata: WorkloadMetadataState,
    /// Policies of its standard output and its standard error.
    pub streams: Vec<StreamPolicyState>,
    /// Annotations that are ignored, each a line with its place, its name and its fault.
    pub problems: Vec<String>,
}

/// Policy of one stream of a container. An absent name is that of the source's options.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct StreamPolicyState {
    /// `stdout` or `stderr`.
    pub stream: String,
    /// Index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// Sourcetype.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sourcetype: Option<String>,
    /// Destinations in place of those of the routes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<String>>,
    /// True if its events are not sent.
    pub excluded: bool,
    /// Bytes a second that are read at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_bytes: Option<u64>,
    /// Annotations that decided, by key.
    pub decided_by: Vec<PolicyDecision>,
}

/// Annotation that decided a key.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PolicyDecision {
    /// The key, such as `index`.
    pub key: String,
    /// Its place: `pod`, `Deployment shop`, `namespace`, `enforce`, `configuration`.
    pub place: String,
    /// Its name as it was written.
    pub annotation: String,
}
