//! Options of workloads. Their doc comments are the reference page.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use inrush_event::Period;
use inrush_kubernetes::{
    AnnotationDialect, AnnotationSettings, FieldNaming, FieldSettings, PathCheck,
};
use inrush_transport::files::glob::GlobSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest wait for metadata: the runtime rotates files meanwhile.
const METADATA_WAIT_MAX: Duration = Duration::from_secs(3600);

/// Metadata of the pods of this node, from the API of Kubernetes, and annotations of those who own
/// them. An empty section, `kubernetes: {}`, is enough inside a cluster.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KubernetesOptions {
    /// File that says where the API is, and who asks. Default: the service account of the pod that
    /// Inrush runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<PathBuf>,
    /// Name of this node in the cluster. Default: `NODE_NAME` or `KUBERNETES_NODE_NAME` of the
    /// environment, else the name of this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Time that events stay in their file for the metadata of their pod, at most. Then they go
    /// without, and are counted.
    #[serde(default = "metadata_wait_default")]
    pub metadata_wait: Period,
    /// Labels of pods that become indexed fields: `*` is any text, `?` one character. Each value of
    /// one is a word of the index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("examples" = [["app.kubernetes.io/*"]]))]
    pub labels: Vec<String>,
    /// Annotations of pods that become indexed fields, in the same way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub annotations: Vec<String>,
    /// Names of the indexed fields and of the sourcetype.
    #[serde(default)]
    pub fields: WorkloadFields,
    /// Other collectors whose annotations are read too, the first before the others, where a key
    /// means the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compatibility: Vec<CompatibleCollector>,
    /// Values that no annotation can change, by the name of the annotation without `inrush.io/`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("examples" = [{ "hash.1": "\\b\\d{16}\\b" }]))]
    pub enforce: BTreeMap<String, String>,
    /// Values where no annotation decides, by the same names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub defaults: BTreeMap<String, String>,
    /// Folder of the kubelet, in which volumes of the kind emptyDir lie.
    #[serde(default = "kubelet_default")]
    pub kubelet: PathBuf,
    /// Paths of the host from which files of volumes of the kind hostPath are read, as patterns: an
    /// annotation is written by who may not be allowed to read the node.
    #[serde(default = "host_paths_default")]
    pub host_paths: Vec<String>,
}

/// Metadata of the containers that docker runs by itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DockerOptions {
    /// Folder of docker's data. What docker says of a container lies beside its log; labels of
    /// containers are read as annotations.
    #[serde(default = "docker_root_default")]
    pub root: PathBuf,
}

/// Names of indexed fields, as another collector has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkloadFields {
    /// Those of Splunk's OpenTelemetry collector: `k8s.pod.name`, sourcetype `kube:container:NAME`.
    #[default]
    Otel,
    /// Those of Collectord: `kubernetes_pod_name`, sourcetype `kubernetes_logs`.
    Collectord,
}

/// Collector whose annotations are read too.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CompatibleCollector {
    /// `splunk.com/index`, `sourcetype`, `exclude`, `include`.
    Splunk,
    /// `collectord.io/…`, and `io.collectord.…` of docker labels.
    Collectord,
    /// `fluentbit.io/exclude` and `fluentbit.io/parser`.
    FluentBit,
    /// `vector.dev/exclude` and `vector.dev/exclude-containers`.
    Vector,
}

impl WorkloadFields {
    fn naming(self) -> FieldNaming {
        match self {
            Self::Otel => FieldNaming::Otel,
            Self::Collectord => FieldNaming::Collectord,
        }
    }
}

impl CompatibleCollector {
    fn dialect(self) -> AnnotationDialect {
        match self {
            Self::Splunk => AnnotationDialect::Splunk,
            Self::Collectord => AnnotationDialect::Collectord,
            Self::FluentBit => AnnotationDialect::FluentBit,
            Self::Vector => AnnotationDialect::Vector,
        }
    }
}

fn metadata_wait_default() -> Period {
    Period(Duration::from_secs(5))
}

fn kubelet_default() -> PathBuf {
    PathBuf::from("/var/lib/kubelet")
}

fn host_paths_default() -> Vec<String> {
    vec!["/var/log/**".to_owned()]
}

fn docker_root_default() -> PathBuf {
    PathBuf::from("/var/lib/docker")
}

impl KubernetesOptions {
    /// Settings for annotations. Names of destinations are checked by those who know them.
    pub(crate) fn settings(&self) -> AnnotationSettings {
        let compatibility = self.compatibility.iter();
        AnnotationSettings {
            defaults: self.defaults.clone(),
            enforce: self.enforce.clone(),
            compatibility: compatibility.map(|one| one.dialect()).collect(),
            ..AnnotationSettings::default()
        }
    }

    /// True for the paths of the host from which files of volumes are read.
    pub(crate) fn allowed_paths(&self) -> PathCheck {
        let globs = GlobSet::new(&self.host_paths, &[]).ok();
        Box::new(move |path| globs.as_ref().is_some_and(|globs| globs.matches(path)))
    }

    /// Fields of events.
    pub(crate) fn field_settings(&self) -> FieldSettings {
        FieldSettings {
            naming: self.fields.naming(),
            labels: self.labels.clone(),
            annotations: self.annotations.clone(),
        }
    }

    /// Checks that they can be used. On failure: the path of the option below these, and its fault.
    pub(crate) fn check(&self) -> Result<(), (String, String)> {
        if self.metadata_wait.0 > METADATA_WAIT_MAX {
            return Err(("metadata_wait".to_owned(), "at most 1h".to_owned()));
        }
        if self.node.as_deref().is_some_and(str::is_empty) {
            return Err(("node".to_owned(), "is empty; leave it out".to_owned()));
        }
        if !self.kubelet.is_absolute() {
            return Err(("kubelet".to_owned(), "begins with /".to_owned()));
        }
        if let Err((pattern, fault)) = GlobSet::new(&self.host_paths, &[]) {
            return Err(("host_paths".to_owned(), format!("`{pattern}`: {fault}")));
        }
        let problems = self.settings().problems();
        match problems.first() {
            Some(problem) => Err((problem.annotation.to_string(), problem.message.clone())),
            None => Ok(()),
        }
    }
}

impl DockerOptions {
    /// Folder of the containers.
    pub(crate) fn containers(&self) -> PathBuf {
        self.root.join("containers")
    }

    /// Checks that they can be used. On failure: the path of the option below these, and its fault.
    pub(crate) fn check(&self) -> Result<(), (String, String)> {
        match self.root.is_absolute() {
            true => Ok(()),
            false => Err(("root".to_owned(), "begins with /".to_owned())),
        }
    }
}
