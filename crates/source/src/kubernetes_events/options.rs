//! Options of a source of Kubernetes events. Their doc comments are the reference page, and the
//! order of fields is its order.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use inrush_ingest::enrichment::Enrichment;
use inrush_kubernetes::{ClusterAccess, ClusterAccessError, SERVICE_ACCOUNT};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::reader::ClusterEventReader;
use crate::options::{OptionProblem, SourceOptions};
use crate::polled::PolledSource;
use crate::{SourceServices, StartedSource};

/// Bytes of a name in the API, at most (RFC 1123 subdomain).
const NAME_BYTES_MAX: usize = 253;

/// Events of a Kubernetes cluster, such as `BackOff` and `FailedScheduling`, as JSON. Of all
/// processes that name the same Lease, one reads.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KubernetesEventsSource {
    /// A kubeconfig file with the way to the API. Default: the service account of the pod that
    /// Inrush runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace whose events are read. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the Lease.
    #[serde(default = "lease_default")]
    pub lease: String,
    /// Namespace of the Lease. Default: that of the pod, and `default` outside of a pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_namespace: Option<String>,
    /// Event to begin with where nothing was read before: the first one that the API has
    /// (`beginning`), as a rule of an hour ago, or the next one (`end`).
    #[serde(default)]
    pub start_at: EventStart,
    /// The index of its events.
    #[serde(default = "index_default")]
    #[schemars(length(min = 1))]
    pub index: String,
    /// The sourcetype of its events.
    #[serde(default = "sourcetype_default")]
    #[schemars(length(min = 1))]
    pub sourcetype: String,
    /// The source of its events.
    #[serde(default = "source_default")]
    #[schemars(length(min = 1))]
    pub source: String,
    /// The host of its events. Default: the node that an event names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// Event with which a source begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventStart {
    /// The first one that the API has.
    #[default]
    Beginning,
    /// The first one that comes after the start.
    End,
}

fn lease_default() -> String {
    "inrush-events".to_owned()
}

fn index_default() -> String {
    "main".to_owned()
}

/// As Splunk's OpenTelemetry collector has it.
fn sourcetype_default() -> String {
    "kube:events".to_owned()
}

fn source_default() -> String {
    "kubernetes".to_owned()
}

impl KubernetesEventsSource {
    /// The way to the API.
    pub(super) fn access(&self) -> Result<ClusterAccess, ClusterAccessError> {
        match &self.kubeconfig {
            Some(path) => ClusterAccess::from_kubeconfig(path),
            None => {
                let env = |name: &str| std::env::var(name).ok();
                ClusterAccess::in_cluster(&env, Path::new(SERVICE_ACCOUNT))
            }
        }
    }

    /// Namespace of the Lease.
    pub(super) fn lease_namespace(&self) -> String {
        if let Some(namespace) = &self.lease_namespace {
            return namespace.clone();
        }
        let own = Path::new(SERVICE_ACCOUNT).join("namespace");
        let own = inrush_files::read_to_string(&own, NAME_BYTES_MAX as u64).unwrap_or_default();
        match own.trim() {
            "" => "default".to_owned(),
            own => own.to_owned(),
        }
    }
}

/// True for a name of the API.
fn is_name(name: &str) -> bool {
    let known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(known)
}

impl SourceOptions for KubernetesEventsSource {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn type_name(&self) -> &'static str {
        "kubernetes_events"
    }

    fn index(&self) -> &str {
        &self.index
    }

    fn sourcetype(&self) -> &str {
        &self.sourcetype
    }

    fn validate(&self) -> Result<(), OptionProblem> {
        let names = [
            ("namespace", self.namespace.as_deref()),
            ("lease", Some(self.lease.as_str())),
            ("lease_namespace", self.lease_namespace.as_deref()),
        ];
        for (key, name) in names {
            if name.is_some_and(|name| !is_name(name)) {
                let words = "names of Kubernetes have small letters, digits, `-` and `.`";
                return Err(OptionProblem {
                    path: key.to_owned(),
                    words: format!("`{key}`: {words}"),
                });
            }
        }
        Ok(())
    }

    fn start(
        &self,
        name: &str,
        services: &Arc<SourceServices>,
        known: &Enrichment,
    ) -> Result<StartedSource, String> {
        let reader = ClusterEventReader::new(name, &services.context.log);
        let mut started = PolledSource::start(name, self, reader, services, known)?;
        if let Err(error) = self.access() {
            started.problems.push(format!("source {name}: {error}"));
        }
        Ok(started)
    }
}
