//! Pods of a real kubelet with containerd, whose logs rotate at 1 MiB.

use std::collections::{BTreeMap, BTreeSet};

use inrush_tests::*;
use serde_json::Value;

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

/// Options of the source that have it ask the API, with `{kubeconfig}` and `{node}`; empty: it
/// does not.
const API_OPTIONS: &str = ", kubernetes: { kubeconfig: \"{kubeconfig}\", node: \"{node}\" }";

/// Asserts the metadata of each event: what the path says, and what only the API knows
/// where [`API_OPTIONS`] has it asked.
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
    if !API_OPTIONS.is_empty() {
        assert_eq!(fields["k8s.node.name"], NODE, "{fields}");
    }
}

/// All pods of the cluster, by name.
fn pods(cluster: &Cluster) -> BTreeMap<String, Value> {
    let list = cluster.get("/api/v1/namespaces/default/pods");
    let pods = list["items"].as_array().cloned().unwrap_or_default();
    let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
    pods.into_iter().map(|pod| (name(&pod), pod)).collect()
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
        let words = ["echo".to_owned(), format!("line of short{pod}")];
        cluster.start_pod(
            &format!("short{pod}"),
            &[(SHORT.to_owned(), words.to_vec())],
        );
    }
}

#[test]
#[ignore = "foreign program: make test-kubernetes"]
fn every_line_of_pods_comes_once_and_whole_over_rotations() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let logs = cluster.logs();
    let kubeconfig = cluster.kubeconfig();
    let api = API_OPTIONS.replace("{kubeconfig}", &kubeconfig.display().to_string());
    let api = api.replace("{node}", NODE);
    let include = format!("{}/*/*/*.log", logs.display());
    let source = format!("type: file, format: auto, include: [\"{include}\"] {api}");
    let mut collector = Collector::start(tempfile::tempdir().unwrap(), &source);
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
