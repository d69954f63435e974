//! Answers of a real API server, as `INRUSH_RECORD=1 make test-kubernetes` recorded them: two pods,
//! and a watch during which an annotation changes and a pod is deleted.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use inrush_kubernetes::{
    AnnotationSettings, ClusterAccess, ClusterWatch, ContainerStream, MetadataLookup,
    MetadataStore, PodMetadata, WatchScope, resolve,
};
use inrush_testkit::{ApiServer, DEADLINE};
use serde_json::Value;

const PODS_ONLY: WatchScope = WatchScope {
    namespaces: false,
    workloads: false,
};

fn recorded(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/kubernetes");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str().unwrap();
    version.parse().unwrap()
}

fn access(server: &ApiServer) -> ClusterAccess {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("config");
    let text = format!(
        "current-context: a\ncontexts: [{{name: a, context: {{cluster: c}}}}]\n\
         clusters: [{{name: c, cluster: {{server: 'http://{}'}}}}]\n",
        server.address
    );
    std::fs::write(&path, text).unwrap();
    ClusterAccess::from_kubeconfig(&path).unwrap()
}

/// Waits until the pod is there, with an index that its annotations decide, or without one.
fn wait_for(store: &MetadataStore, pod: &Value, container: &str, index: Option<&str>) {
    let end = Instant::now() + DEADLINE;
    let text = |name: &str| pod["metadata"][name].as_str().unwrap();
    loop {
        let seen = store.generation();
        let found = store.lookup(text("namespace"), text("name"), text("uid"), container);
        if let MetadataLookup::Found(metadata) = found
            && index_of(&metadata, container).as_deref() == index
        {
            return;
        }
        let left = end.saturating_duration_since(Instant::now());
        assert!(!left.is_zero(), "no {pod}: {:?}", store.phases());
        store.wait_beyond(seen, left);
    }
}

fn index_of(metadata: &Arc<PodMetadata>, container: &str) -> Option<String> {
    let settings = AnnotationSettings::default();
    let policy = resolve(metadata, container, ContainerStream::Stdout, &settings);
    policy.index.map(|index| index.to_string())
}

#[test]
fn pods_of_a_real_api_server_are_known_and_their_changes_seen() {
    let list: Value = serde_json::from_str(&recorded("pods.json")).unwrap();
    let pods = list["items"].as_array().unwrap();
    let texts: Vec<String> = pods.iter().map(Value::to_string).collect();
    let server = ApiServer::start(None);
    server.set("pods", version(&list), &texts);
    let watch = ClusterWatch::start("node1", access(&server), PODS_ONLY).unwrap();
    let store = watch.store();
    for pod in pods {
        for container in pod["spec"]["containers"].as_array().unwrap() {
            wait_for(store, pod, container["name"].as_str().unwrap(), None);
        }
    }
    server.wait_for_watch("pods");
    let events = recorded("watch.jsonl");
    let events = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut kinds = Vec::new();
    for event in events {
        let kind = event["type"].as_str().unwrap();
        let object = &event["object"];
        server.push("pods", version(object), kind, &object.to_string());
        kinds.push(kind.to_owned());
    }
    assert!(kinds.contains(&"MODIFIED".to_owned()) && kinds.contains(&"DELETED".to_owned()));
    let named = |name: &str| {
        let mut pods = pods.iter();
        pods.find(|pod| pod["metadata"]["name"] == name).unwrap()
    };
    wait_for(store, named("writer0"), "c0", Some("shop"));
    wait_for(store, named("writer0"), "c1", Some("shop"));
    // Its logs are read for longer than it is there.
    wait_for(store, named("short0"), "short", None);
}
