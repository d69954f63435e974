//! Tests of the objects: what is read of a pod as the API server 1.34 sends it.
#![allow(clippy::unwrap_used)]

use super::*;

/// A pod as the API server sends it, shortened where nothing is read.
const POD: &str = r#"{
  "kind": "Pod", "apiVersion": "v1",
  "metadata": {
    "name": "web-7c9f8d6b5-x2x4z", "generateName": "web-7c9f8d6b5-", "namespace": "shop",
    "uid": "0f1e2d3c-0000-4000-8000-00000000abcd", "resourceVersion": "4711",
    "creationTimestamp": "2026-11-28T08:00:00Z",
    "labels": {"app": "web", "pod-template-hash": "7c9f8d6b5"},
    "annotations": {"inrush.io/index": "web"},
    "ownerReferences": [
      {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "1"},
      {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7c9f8d6b5",
       "uid": "aaaa", "controller": true, "blockOwnerDeletion": true}],
    "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {".": {}}}}]
  },
  "spec": {
    "volumes": [
      {"name": "logs", "emptyDir": {}},
      {"name": "host", "hostPath": {"path": "/srv/logs", "type": ""}},
      {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
    "initContainers": [{"name": "setup", "image": "busybox"}],
    "containers": [
      {"name": "nginx", "image": "nginx:1.29", "env": [{"name": "A", "value": "b"}]},
      {"name": "sidecar", "image": "side:1"}],
    "ephemeralContainers": [{"name": "debug", "image": "tools"}],
    "nodeName": "node-1"
  },
  "status": {
    "phase": "Running", "podIP": "10.0.0.7",
    "containerStatuses": [
      {"name": "nginx", "containerID": "containerd://c0ffee", "restartCount": 2,
       "lastState": {"terminated": {"exitCode": 1, "containerID": "containerd://dead"}}},
      {"name": "sidecar", "restartCount": 0, "containerID": "", "lastState": {}},
      {"name": "unknown", "restartCount": 1}],
    "initContainerStatuses": [{"name": "setup", "containerID": "containerd://beef",
      "restartCount": -1}]
  }
}"#;

fn pod() -> PodObject {
    serde_json::from_str(POD).unwrap()
}

#[test]
fn needed_fields_of_a_pod_are_read() {
    let pod = pod();
    assert_eq!(
        (&*pod.namespace, &*pod.name),
        ("shop", "web-7c9f8d6b5-x2x4z")
    );
    assert_eq!(
        (&*pod.uid, &*pod.node),
        ("0f1e2d3c-0000-4000-8000-00000000abcd", "node-1")
    );
    assert_eq!((pod.phase, &*pod.ip), (PodPhase::Running, "10.0.0.7"));
    assert_eq!(pod.labels.get("app"), Some("web"));
    assert_eq!(pod.annotations.get("inrush.io/index"), Some("web"));
    let owner = pod.owner.as_ref().unwrap();
    assert_eq!(
        (&*owner.kind, &*owner.name, &*owner.uid),
        ("ReplicaSet", "web-7c9f8d6b5", "aaaa")
    );
    let nginx = pod.container("nginx").unwrap();
    assert_eq!(
        (&*nginx.id, &*nginx.last_id, nginx.restarts),
        ("c0ffee", "dead", 2)
    );
    assert_eq!(
        (nginx.role, &*nginx.image),
        (ContainerRole::Main, "nginx:1.29")
    );
    let setup = pod.container("setup").unwrap();
    assert_eq!(
        (setup.role, &*setup.id, setup.restarts),
        (ContainerRole::Init, "beef", 0)
    );
    assert_eq!(
        pod.container("debug").unwrap().role,
        ContainerRole::Ephemeral
    );
    assert!(pod.container("sidecar").unwrap().id.is_empty());
    assert!(pod.container("unknown").is_none());
    let sources: Vec<&VolumeSource> = pod.volumes.iter().map(|one| &one.source).collect();
    let host = VolumeSource::HostPath("/srv/logs".into());
    assert_eq!(
        sources,
        [&VolumeSource::EmptyDir, &host, &VolumeSource::Other]
    );
    assert!(pod.is_named() && pod.skipped == 0 && pod.mirror().is_none());
}

#[test]
fn absent_and_null_fields_are_empty() {
    let null = r#"{"metadata":{"name":null,"labels":null,"annotations":null,"ownerReferences":null},
        "spec":{"containers":null,"volumes":null},"status":{"containerStatuses":null}}"#;
    for json in [
        "{}",
        r#"{"metadata":null}"#,
        null,
        r#"{"spec":null,"status":null}"#,
    ] {
        let pod: PodObject = serde_json::from_str(json).unwrap();
        assert_eq!(pod, PodObject::default(), "{json}");
        assert!(!pod.is_named());
    }
    for json in [
        "1",
        r#"{"metadata":""}"#,
        r#"{"spec":{"containers":{}}}"#,
        "{",
    ] {
        assert!(serde_json::from_str::<PodObject>(json).is_err(), "{json}");
    }
}

#[test]
fn containers_beyond_the_bound_are_counted() {
    let list = (0..PARTS_MAX + 5).map(|number| format!(r#"{{"name":"c{number}"}}"#));
    let list = list.collect::<Vec<_>>().join(",");
    let json = format!(r#"{{"metadata":{{}},"spec":{{"containers":[{list}]}}}}"#);
    let pod: PodObject = serde_json::from_str(&json).unwrap();
    assert_eq!((pod.containers.len(), pod.skipped), (PARTS_MAX, 5));
}

#[test]
fn a_static_pod_has_the_uid_of_its_folder() {
    let json = r#"{"metadata":{"annotations":{"kubernetes.io/config.mirror":"b2e5"},
        "ownerReferences":[{"kind":"Node","name":"node-1","uid":"1","controller":true}]}}"#;
    let pod: PodObject = serde_json::from_str(json).unwrap();
    assert_eq!(pod.mirror(), Some("b2e5"));
    assert!(named_workloads(&pod).is_empty());
}

#[test]
fn workloads_follow_from_names() {
    type WorkloadRow = (
        &'static str,
        &'static str,
        &'static str,
        &'static [(&'static str, &'static str)],
    );
    let rows: [WorkloadRow; 7] = [
        (
            "ReplicaSet",
            "web-7c9f",
            "7c9f",
            &[("ReplicaSet", "web-7c9f"), ("Deployment", "web")],
        ),
        ("ReplicaSet", "web-7c9f", "", &[("ReplicaSet", "web-7c9f")]),
        (
            "ReplicaSet",
            "web-7c9f",
            "c9f",
            &[("ReplicaSet", "web-7c9f")],
        ),
        ("StatefulSet", "db", "db", &[("StatefulSet", "db")]),
        ("Job", "import-29834160", "", &[("Job", "import-29834160")]),
        ("Node", "node-1", "", &[]),
        ("", "x", "", &[]),
    ];
    for (kind, name, hash, expected) in rows {
        let pod = PodObject {
            owner: Some(OwnerReference {
                kind: kind.into(),
                name: name.into(),
                uid: "u".into(),
            }),
            labels: [("pod-template-hash", hash)].into_iter().collect(),
            ..PodObject::default()
        };
        let named = named_workloads(&pod);
        let named: Vec<(&str, &str)> = named.iter().map(|(a, b)| (&**a, &**b)).collect();
        assert_eq!(named, expected, "{kind} {name} {hash}");
    }
}

#[test]
fn metadata_alone_is_read_of_namespaces_and_workloads() {
    let json = r#"{"kind":"PartialObjectMetadata","metadata":{"name":"import-1","namespace":"shop",
        "uid":"7","annotations":{"inrush.io/index":"jobs"},
        "ownerReferences":[{"kind":"CronJob","name":"import","uid":"8","controller":true}]}}"#;
    let workload: WorkloadObject = serde_json::from_str(json).unwrap();
    assert_eq!(workload.annotations.get("inrush.io/index"), Some("jobs"));
    assert_eq!(
        workload.owner.as_ref().map(|owner| &*owner.name),
        Some("import")
    );
    let namespace: NamespaceObject = serde_json::from_str(json).unwrap();
    assert!(namespace.is_named() && workload.is_named());
}
