//! Pods of a real kubelet with containerd: some whose logs rotate at 1 MiB, and many that write one
//! line, end and are removed.

use std::collections::{BTreeMap, BTreeSet};

use inrush_tests::*;
use serde_json::{Value, json};

use crate::arrivals::{EventFile, counter};
use crate::cluster::{Cluster, NODE};
use crate::collector::Collector;
use crate::rotations::{SeenRotations, record_api};
use crate::streams::{SCRIPT, StreamAccount};

/// Containers that write for long, two in each pod.
const WRITERS: usize = 4;

/// Lines of each: some 18 MB, in half a minute or more.
const LINES: usize = 6_000;

/// Pods that write one line and end.
const SHORT_PODS: usize = 20;

/// Name of their container.
const SHORT: &str = "short";

/// Pods that write one line, end and are removed.
const REMOVED_PODS: usize = 200;

/// Pods of them that are there at once, at most.
const AT_ONCE: usize = 40;

/// Options of the source that have it ask the API, with `{kubeconfig}` and `{node}`.
const API_OPTIONS: &str =
    "kubernetes: { kubeconfig: \"{kubeconfig}\", node: \"{node}\", labels: [app] }";

/// Asserts the metadata of each event: what the path says, and what only the API knows.
fn assert_metadata(event: &Value, pods: &BTreeMap<String, Value>) {
    let fields = &event["fields"];
    let name = fields["k8s.pod.name"].as_str().unwrap_or_default();
    let Some(pod) = pods.get(name) else {
        panic!("of an unknown pod: {fields}");
    };
    assert_eq!(fields["k8s.namespace.name"], "default", "{fields}");
    assert_eq!(fields["k8s.pod.uid"], pod["metadata"]["uid"], "{fields}");
    let container = fields["k8s.container.name"].as_str().unwrap();
    assert_eq!(event["sourcetype"], format!("kube:container:{container}"));
    assert_eq!(fields["k8s.node.name"], NODE, "{fields}");
    assert_eq!(fields["k8s.pod.labels.app"], name, "{fields}");
}

/// All pods of the cluster, by name.
fn pods(cluster: &Cluster) -> BTreeMap<String, Value> {
    let list = cluster.get("/api/v1/namespaces/default/pods");
    let pods = list["items"].as_array().cloned().unwrap_or_default();
    let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
    pods.into_iter().map(|pod| (name(&pod), pod)).collect()
}

/// Starts a collector of the logs of all pods.
fn start_collector(cluster: &Cluster) -> Collector {
    let kubeconfig = cluster.kubeconfig();
    let api = API_OPTIONS.replace("{kubeconfig}", &kubeconfig.display().to_string());
    let api = api.replace("{node}", NODE);
    let include = format!("{}/*/*/*.log", cluster.logs().display());
    let source = format!("type: file, format: auto, include: [\"{include}\"], {api}");
    Collector::start(tempfile::tempdir().unwrap(), &source)
}

/// Starts a pod that writes one line and ends.
fn start_short_pod(cluster: &Cluster, name: &str) -> Value {
    let words = ["echo".to_owned(), format!("line of {name}")];
    cluster.start_pod(name, &[(SHORT.to_owned(), words.to_vec())])
}

fn start_pods(cluster: &Cluster) {
    let writer = |number: usize| {
        let words = [
            "awk".to_owned(),
            "-v".to_owned(),
            format!("w={number}"),
            "-v".to_owned(),
            format!("n={LINES}"),
            "-v".to_owned(),
            "rest=100000".to_owned(),
            SCRIPT.to_owned(),
        ];
        (format!("c{number}"), words.to_vec())
    };
    for pod in 0..WRITERS / 2 {
        let containers = [writer(2 * pod), writer(2 * pod + 1)];
        cluster.start_pod(&format!("writer{pod}"), &containers);
    }
    for pod in 0..SHORT_PODS {
        start_short_pod(cluster, &format!("short{pod}"));
    }
}

#[test]
#[ignore = "foreign program: make test-kubernetes"]
fn every_line_of_pods_comes_once_and_whole_over_rotations() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let logs = cluster.logs();
    let mut collector = start_collector(&cluster);
    start_pods(&cluster);
    let pods = pods(&cluster);
    assert_eq!(pods.len(), WRITERS / 2 + SHORT_PODS);
    let mut account = StreamAccount::of(collector.inrush(), WRITERS, LINES);
    let mut short: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut rotations = SeenRotations::default();
    let mut step = |account: &mut StreamAccount| {
        rotations.look(&logs);
        let events = account.read_on(|event| {
            assert_metadata(event, &pods);
            if event["fields"]["k8s.container.name"] == SHORT {
                let text = |name: &str| event[name].as_str().unwrap().to_owned();
                short
                    .entry(text("message"))
                    .or_default()
                    .insert(text("received"));
            }
        });
        (events, account.is_complete() && short.len() == SHORT_PODS)
    };
    eventually("a third of the lines", || {
        step(&mut account);
        (account.numbered_seen() > WRITERS * LINES / 4).then_some(())
    });
    account.note_kill(collector.replace());
    EventFile::settle(collector.inrush(), || step(&mut account));
    let inrush = collector.inrush();
    let faults = account.faults();
    let unread = counter(inrush, "inrush_file_rotated_away_unread_bytes_total");
    assert!(
        faults.is_empty() && unread == 0,
        "{faults}; {unread}\n{}",
        inrush.stderr()
    );
    assert_eq!(short.len(), SHORT_PODS, "{:?}", short.keys());
    assert!(short.values().all(|times| times.len() == 1), "{short:?}");
    let (files, cut) = rotations.counts();
    assert!(files >= 2 * WRITERS, "{files} rotations");
    eprintln!("Kubernetes: {files} rotated files, {cut} of them end within a line");
    if std::env::var_os("INRUSH_RECORD").is_some_and(|wanted| wanted == "1") {
        rotations.record();
        record_api(&cluster);
    }
}

/// Pods that write one line and end, and are removed as soon as the API knows of their end, as
/// those of a Job with `ttlSecondsAfterFinished: 0`.
struct RemovedPods<'a> {
    cluster: &'a Cluster,
    /// All that were started, by name.
    started: BTreeMap<String, Value>,
    removed: usize,
}

impl RemovedPods<'_> {
    const PATH: &'static str = "/api/v1/namespaces/default/pods";

    /// Removes those that have ended, and starts the next ones. Returns the number of both.
    fn step(&mut self) -> usize {
        let ended = format!("{}?fieldSelector=status.phase%3DSucceeded", Self::PATH);
        let ended = self.cluster.get(&ended);
        let ended = ended["items"].as_array().cloned().unwrap_or_default();
        for pod in &ended {
            let path = format!(
                "{}/{}",
                Self::PATH,
                pod["metadata"]["name"].as_str().unwrap()
            );
            let gone = self
                .cluster
                .send("DELETE", &path, "application/json", &json!({}));
            assert_eq!(gone["metadata"]["uid"], pod["metadata"]["uid"], "{gone}");
        }
        self.removed += ended.len();
        let from = self.started.len();
        let until = REMOVED_PODS.min(self.removed + AT_ONCE);
        for number in from..until {
            let name = format!("removed{number}");
            let pod = start_short_pod(self.cluster, &name);
            self.started.insert(name, pod);
        }
        ended.len() + until.saturating_sub(from)
    }
}

#[test]
#[ignore = "foreign program: make test-kubernetes"]
fn the_line_of_each_of_many_removed_pods_comes_once_with_metadata() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let collector = start_collector(&cluster);
    let inrush = collector.inrush();
    let mut file = EventFile::of(inrush);
    let mut pods = RemovedPods {
        cluster: &cluster,
        started: BTreeMap::new(),
        removed: 0,
    };
    let mut lines: BTreeMap<String, usize> = BTreeMap::new();
    EventFile::settle(inrush, || {
        let changes = pods.step();
        let events = file.read_on(|event| {
            assert_metadata(event, &pods.started);
            let name = event["fields"]["k8s.pod.name"].as_str().unwrap();
            assert_eq!(event["message"], format!("line of {name}"));
            *lines.entry(name.to_owned()).or_default() += 1;
        });
        let complete = lines.len() == REMOVED_PODS && pods.removed == REMOVED_PODS;
        (changes + events, complete)
    });
    assert_eq!(pods.removed, REMOVED_PODS);
    let unread = counter(inrush, "inrush_file_rotated_away_unread_bytes_total");
    let bare = counter(inrush, "inrush_file_metadata_missing_total");
    let missing = pods
        .started
        .keys()
        .filter(|name| !lines.contains_key(*name));
    let missing: Vec<_> = missing.collect();
    assert!(
        missing.is_empty() && unread == 0 && bare == 0,
        "no line of {missing:?}; {unread} bytes unread, {bare} without metadata\n{}",
        inrush.stderr()
    );
    assert!(lines.values().all(|count| *count == 1), "{lines:?}");
}
