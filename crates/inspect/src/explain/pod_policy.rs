//! Policy of a container's log, from objects of Kubernetes in a file.
//!
//! # What it guarantees
//! * Annotations are read and decide as in a running process (`inrush_kubernetes::resolve`).
//! * No API is asked: the objects are those that `kubectl get … -o json` has printed.
//!
//! # Limits
//! [`OBJECTS_BYTES_MAX`] of a file.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use inrush_kubernetes::{
    AnnotationSettings, ContainerPolicy, ContainerStream, NamespaceObject, PodMetadata, PodObject,
    WorkloadMetadata, WorkloadObject, resolve,
};
use serde::Deserialize;
use serde_json::Value;

/// Bytes of a file with objects; a pod has some 10 KiB.
pub const OBJECTS_BYTES_MAX: u64 = 16 << 20;

/// Streams of a container.
const STREAMS: [ContainerStream; 2] = [ContainerStream::Stdout, ContainerStream::Stderr];

/// Pod whose log is explained, as `NAMESPACE/POD`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PodName {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl PodName {
    /// Reads `NAMESPACE/POD`.
    ///
    /// # Errors
    /// It is none, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words = || format!("`{text}` is no pod; write NAMESPACE/POD, for example shop/web-1");
        let (namespace, name) = text.split_once('/').ok_or_else(words)?;
        let is_name = |name: &str| !name.is_empty() && !name.contains(['/', '_']);
        if !is_name(namespace) || !is_name(name) {
            return Err(words());
        }
        Ok(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }
}

/// Policy of one container.
pub struct PodPolicy {
    /// Uid of the pod, as its folder of logs has it.
    pub uid: String,
    /// Name of the container.
    pub container: String,
    /// The pod.
    metadata: PodMetadata,
    /// Of standard output and of standard error.
    streams: [ContainerPolicy; 2],
}

/// A line of a policy: the key, its value, and the place that decided it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyLine {
    /// The key, such as `index`.
    pub key: String,
    /// The value.
    pub value: String,
    /// The place and the annotation that decided.
    pub from: String,
}

/// Objects of a file.
#[derive(Default)]
struct KubernetesObjects {
    pods: Vec<PodObject>,
    namespaces: Vec<NamespaceObject>,
    workloads: Vec<(String, WorkloadObject)>,
}

impl KubernetesObjects {
    fn read(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let mut objects = Self::default();
        match value.get("items").and_then(Value::as_array) {
            Some(items) => items.iter().try_for_each(|item| objects.add(item))?,
            None => objects.add(&value)?,
        }
        Ok(objects)
    }

    fn add(&mut self, value: &Value) -> Result<(), String> {
        let kind = value
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let fault = |error: serde_json::Error| format!("an object of kind `{kind}`: {error}");
        match kind {
            "Pod" => self
                .pods
                .push(PodObject::deserialize(value).map_err(fault)?),
            "Namespace" => {
                let namespace = NamespaceObject::deserialize(value).map_err(fault)?;
                self.namespaces.push(namespace);
            }
            _ => {
                let workload = WorkloadObject::deserialize(value).map_err(fault)?;
                self.workloads.push((kind.to_owned(), workload));
            }
        }
        Ok(())
    }

    /// Workloads that a pod belongs to, the nearest first.
    fn owners(&self, pod: &PodObject) -> Vec<WorkloadMetadata> {
        let mut found = Vec::new();
        let mut owner = pod.owner.clone();
        while let Some(reference) = owner.take() {
            if found.len() >= self.workloads.len() {
                break;
            }
            let known = self.workloads.iter().find(|(kind, one)| {
                **kind == *reference.kind
                    && one.name == reference.name
                    && one.namespace == pod.namespace
            });
            if let Some((kind, workload)) = known {
                found.push(WorkloadMetadata {
                    kind: kind.as_str().into(),
                    name: workload.name.clone(),
                    annotations: Arc::new(workload.annotations.clone()),
                });
                owner.clone_from(&workload.owner);
            }
        }
        found
    }
}

/// The container that is meant.
fn container_of(pod: &PodObject, wanted: Option<&str>) -> Result<String, String> {
    let names: Vec<&str> = pod.containers.iter().map(|one| &*one.name).collect();
    let listed = names.join(", ");
    match (wanted, &names[..]) {
        (Some(wanted), _) if names.contains(&wanted) => Ok(wanted.to_owned()),
        (Some(wanted), _) => Err(format!(
            "the pod has no container `{wanted}`; there are: {listed}"
        )),
        (None, [one]) => Ok((*one).to_owned()),
        (None, _) => Err(format!("name the container with --container: {listed}")),
    }
}

impl PodPolicy {
    /// The policy of a container of a pod, by the objects in `text`.
    ///
    /// # Errors
    /// In words: the text cannot be read, or has no such pod or container.
    pub fn of_objects(text: &str, pod: &PodName, container: Option<&str>) -> Result<Self, String> {
        let objects = KubernetesObjects::read(text)?;
        let is_it = |one: &&PodObject| *one.namespace == *pod.namespace && *one.name == *pod.name;
        let found = objects.pods.iter().find(is_it).ok_or_else(|| {
            let there: Vec<String> = objects
                .pods
                .iter()
                .map(|one| format!("{}/{}", one.namespace, one.name))
                .collect();
            let there = match there.is_empty() {
                true => "no pod".to_owned(),
                false => there.join(", "),
            };
            format!(
                "there is no pod `{}/{}`; there is: {there}",
                pod.namespace, pod.name
            )
        })?;
        let container = container_of(found, container)?;
        let namespace = objects
            .namespaces
            .iter()
            .find(|one| one.name == found.namespace);
        let metadata = PodMetadata {
            pod: Arc::new(found.clone()),
            namespace: namespace.map(|one| Arc::new(one.clone())),
            workloads: objects.owners(found),
            removed: false,
        };
        let settings = AnnotationSettings::default();
        let policy = |stream| resolve(&metadata, &container, stream, &settings);
        Ok(Self {
            uid: found.mirror().unwrap_or(&found.uid).to_owned(),
            streams: STREAMS.map(policy),
            metadata,
            container,
        })
    }

    fn of_stream(&self, stream: &str) -> &ContainerPolicy {
        let [out, err] = &self.streams;
        match stream == ContainerStream::Stderr.name() {
            true => err,
            false => out,
        }
    }

    /// The pod, and the container.
    pub(super) fn pod(&self) -> (PodMetadata, String) {
        (self.metadata.clone(), self.container.clone())
    }

    /// The annotation that decided a name of the events of a stream.
    pub(super) fn place(&self, stream: &str, key: &str) -> Option<String> {
        let mut decided = self.of_stream(stream).decided_by.iter();
        let (_, decision) = decided.find(|(one, _)| one.to_string() == key)?;
        Some(format!("{}: {}", decision.place, decision.annotation))
    }

    /// Every key that an annotation decided. A key whose value differs by stream has two lines.
    pub fn lines(&self) -> Vec<PolicyLine> {
        let lines = |policy: &ContainerPolicy| -> Vec<PolicyLine> {
            let decided = policy.decided_by.iter();
            let line = decided.map(|(key, decision)| PolicyLine {
                key: key.to_string(),
                value: value_of(policy, &key.to_string()),
                from: format!("{}: {}", decision.place, decision.annotation),
            });
            line.collect()
        };
        let [out, err] = self.streams.each_ref().map(lines);
        let mut all: BTreeMap<(String, u8), PolicyLine> = BTreeMap::new();
        for line in &out {
            let both = err.contains(line);
            let mut line = line.clone();
            let key = line.key.clone();
            if !both {
                line.key = format!("stdout.{key}");
            }
            all.insert((key, 0), line);
        }
        for line in err.into_iter().filter(|line| !out.contains(line)) {
            let key = line.key.clone();
            let line = PolicyLine {
                key: format!("stderr.{key}"),
                ..line
            };
            all.insert((key, 1), line);
        }
        all.into_values().collect()
    }

    /// Annotations that are ignored, in words.
    pub fn problems(&self) -> Vec<String> {
        let mut problems: Vec<String> = Vec::new();
        for problem in self.streams.iter().flat_map(|policy| &policy.problems) {
            let words = problem.to_string();
            if !problems.contains(&words) {
                problems.push(words);
            }
        }
        problems
    }
}

/// Value of a key, in words.
fn value_of(policy: &ContainerPolicy, key: &str) -> String {
    let text = |value: &Option<Box<str>>| value.as_deref().unwrap_or_default().to_owned();
    match key {
        "index" => text(&policy.index),
        "sourcetype" => text(&policy.sourcetype),
        "source" => text(&policy.source),
        "host" => text(&policy.host),
        "product" => text(&policy.product),
        "to" => policy
            .to
            .as_ref()
            .map_or_else(String::new, |to| to.join(", ")),
        "exclude" => yes_or_no(policy.exclude),
        "strip_ansi" => yes_or_no(policy.strip_ansi),
        "sample" => policy
            .sample_percent
            .map_or_else(String::new, |one| format!("{one} %")),
        "rate" => policy
            .rate_bytes
            .map_or_else(String::new, |one| format!("{one} bytes/s")),
        key => match key.strip_prefix("field.") {
            Some(name) => policy
                .fields
                .get(name)
                .map_or_else(String::new, ToString::to_string),
            None => "set".to_owned(),
        },
    }
}

fn yes_or_no(value: Option<bool>) -> String {
    let mut words = String::new();
    if let Some(value) = value {
        // Writing to a String cannot fail.
        let _ = write!(words, "{value}");
    }
    words
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const OBJECTS: &str = r#"{"kind": "List", "items": [
        {"kind": "Pod", "metadata": {"namespace": "shop", "name": "web-1", "uid": "1b2c",
          "annotations": {"inrush.io/sourcetype": "pod:st", "inrush.io/stderr.index": "errors",
            "inrush.io/sample": "half"},
          "ownerReferences": [{"kind": "StatefulSet", "name": "web", "controller": true}]},
         "spec": {"containers": [{"name": "nginx"}, {"name": "side"}]}},
        {"kind": "StatefulSet", "metadata": {"namespace": "shop", "name": "web", "uid": "2",
          "annotations": {"inrush.io/index": "apps", "inrush.io/field.team": "red"}}},
        {"kind": "Namespace", "metadata": {"name": "shop", "uid": "3",
          "annotations": {"inrush.io/index": "lost", "inrush.io/source": "ns"}}}]}"#;

    fn pod() -> PodName {
        PodName::parse("shop/web-1").unwrap()
    }

    #[test]
    fn the_nearest_annotation_decides_and_is_named() {
        let policy = PodPolicy::of_objects(OBJECTS, &pod(), Some("nginx")).unwrap();
        let lines: Vec<String> = policy
            .lines()
            .iter()
            .map(|line| format!("{}={} <- {}", line.key, line.value, line.from))
            .collect();
        assert_eq!(
            lines,
            [
                "field.team=red <- StatefulSet web: inrush.io/field.team",
                "stdout.index=apps <- StatefulSet web: inrush.io/index",
                "stderr.index=errors <- pod: inrush.io/stderr.index",
                "source=ns <- namespace: inrush.io/source",
                "sourcetype=pod:st <- pod: inrush.io/sourcetype",
            ]
        );
        assert_eq!(policy.of_stream("stderr").index.as_deref(), Some("errors"));
        assert_eq!(policy.of_stream("stdout").index.as_deref(), Some("apps"));
        let problems = policy.problems();
        assert_eq!(problems.len(), 1);
        assert!(problems[0].contains("inrush.io/sample"), "{problems:?}");
        assert_eq!(
            (policy.uid.as_str(), policy.container.as_str()),
            ("1b2c", "nginx")
        );
    }

    #[test]
    fn what_is_missing_is_said_with_what_there_is() {
        let of = |text: &str, pod: &PodName, container| {
            PodPolicy::of_objects(text, pod, container)
                .map(|_| ())
                .unwrap_err()
        };
        assert_eq!(
            of(OBJECTS, &pod(), None),
            "name the container with --container: nginx, side"
        );
        let no_container = of(OBJECTS, &pod(), Some("x"));
        assert_eq!(
            no_container,
            "the pod has no container `x`; there are: nginx, side"
        );
        let other = PodName::parse("shop/web-2").unwrap();
        let no_pod = of(OBJECTS, &other, None);
        assert_eq!(no_pod, "there is no pod `shop/web-2`; there is: shop/web-1");
        assert!(of("{", &pod(), None).contains("EOF"));
        assert!(of("{}", &pod(), None).contains("there is: no pod"));
        for text in ["web-1", "/x", "a/", "a/b/c", "a_b/c"] {
            assert!(
                PodName::parse(text).unwrap_err().contains("NAMESPACE/POD"),
                "{text}"
            );
        }
    }

    #[test]
    fn owners_that_own_each_other_end() {
        let text = r#"{"items": [
            {"kind": "Pod", "metadata": {"namespace": "n", "name": "p", "uid": "1",
              "ownerReferences": [{"kind": "Job", "name": "a", "controller": true}]},
             "spec": {"containers": [{"name": "c"}]}},
            {"kind": "Job", "metadata": {"namespace": "n", "name": "a", "uid": "2",
              "ownerReferences": [{"kind": "Job", "name": "a", "controller": true}]}}]}"#;
        let pod = PodName::parse("n/p").unwrap();
        let policy = PodPolicy::of_objects(text, &pod, None).unwrap();
        assert_eq!((policy.container.as_str(), policy.lines().len()), ("c", 0));
    }
}
