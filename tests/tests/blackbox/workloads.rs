//! Containers: metadata of Kubernetes on their events, and annotations of those who own them.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::ops::Deref;
use std::path::PathBuf;
use std::process::Command;

use inrush_testkit::ApiServer;
use inrush_tests::*;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

const CONFIG: &str = r#"
sources:
  pods:
    type: file
    include: ["{dir}/pods/*/*/*.log"]
    index: main
    kubernetes:
      kubeconfig: "{dir}/kubeconfig"
      node: node-1
      {options}
destinations:
  out: { type: splunk_hec, endpoints: ["{hec}"], token: s3cret }
  other: { type: file, path: "{dir}/other.jsonl" }
routes:
  - { to: [out] }
"#;

/// A pod of the node; `annotations`: names without their domain, and values.
fn pod(name: &str, annotations: &[(&str, &str)]) -> Value {
    let domain = |name: &str| match name.contains('/') {
        true => name.to_owned(),
        false => format!("inrush.io/{name}"),
    };
    let annotations = annotations.iter();
    let annotations: Map<String, Value> = annotations
        .map(|(name, value)| (domain(name), json!(value)))
        .collect();
    json!({
        "metadata": {
            "namespace": "shop", "name": name, "uid": format!("u-{name}"), "resourceVersion": "5",
            "annotations": annotations, "labels": { "app": "shop", "other": "x" },
        },
        "spec": {
            "nodeName": "node-1",
            "containers": [{ "name": "web", "image": "nginx:1.29" }],
        },
        "status": {
            "containerStatuses": [{
                "name": "web", "containerID": format!("containerd://id-{name}"),
            }],
        },
    })
}

/// A stand-in for the API, with these pods.
fn api(pods: &[Value]) -> ApiServer {
    let api = ApiServer::start(None);
    let pods: Vec<String> = pods.iter().map(Value::to_string).collect();
    api.set("pods", 1, &pods);
    api.set("namespaces", 1, &[namespace(&[])]);
    api
}

fn namespace(annotations: &[(&str, &str)]) -> String {
    let annotations: Map<String, Value> = annotations
        .iter()
        .map(|(name, value)| (format!("inrush.io/{name}"), json!(value)))
        .collect();
    json!({ "metadata": { "name": "shop", "uid": "n", "annotations": annotations } }).to_string()
}

fn folder(api: &ApiServer) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        "current-context: a\ncontexts: [{{name: a, context: {{cluster: c}}}}]\n\
         clusters: [{{name: c, cluster: {{server: 'http://{}'}}}}]\n",
        api.address
    );
    fs::write(dir.path().join("kubeconfig"), text).unwrap();
    fs::create_dir_all(dir.path().join("pods")).unwrap();
    dir
}

/// A process, and the collector that its events go to.
struct Delivered {
    inrush: Inrush,
    hec: Hec,
}

impl Deref for Delivered {
    type Target = Inrush;

    fn deref(&self) -> &Inrush {
        &self.inrush
    }
}

fn start(api: &ApiServer, options: &str) -> Delivered {
    let options = options.replace('\n', "\n      ");
    start_in(folder(api), &CONFIG.replace("{options}", &options))
}

fn start_in(dir: TempDir, config: &str) -> Delivered {
    let of = Options {
        dir: Some(dir),
        ..Options::default()
    };
    let hec = Hec::start();
    let inrush = Inrush::with(&config.replace("{hec}", &hec.url()), of);
    Delivered { inrush, hec }
}

fn cri(stream: &str, text: &str) -> String {
    format!("2026-11-28T09:00:00.123456789Z {stream} F {text}\n")
}

/// Appends lines to the log of a pod's container.
fn write(inrush: &Inrush, pod: &str, lines: &str) -> PathBuf {
    let folder = inrush.path(&format!("pods/shop_{pod}_u-{pod}/web"));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("0.log");
    let mut file = OpenOptions::new();
    let mut file = file.create(true).append(true).open(&path).unwrap();
    file.write_all(lines.as_bytes()).unwrap();
    path
}

/// The events of `out`, once there are as many.
fn events(inrush: &Delivered, number: usize) -> Vec<Value> {
    let come = || Some(inrush.hec.taken()).filter(|all| all.len() >= number);
    let events = eventually("the events", come);
    assert_eq!(events.len(), number, "{events:#?}");
    events
}

/// Checks indexed fields of an event.
fn has_fields(event: &Value, fields: &Value) {
    for (name, value) in fields.as_object().unwrap() {
        assert_eq!(event["fields"][name], *value, "{name} of {event:#}");
    }
}

fn metric(inrush: &Inrush, name: &str) -> u64 {
    let page = inrush.http("GET", "/metrics").body;
    let line = page.lines().find(|line| line.starts_with(name));
    let value = line.and_then(|line| line.rsplit(' ').next()).unwrap_or("0");
    value.parse::<f64>().unwrap() as u64
}

/// The listing of the first source that reads files.
fn listing(inrush: &Inrush) -> Value {
    let answer = inrush.http("GET", "/api/v1/files").body;
    serde_json::from_str::<Value>(&answer).unwrap()["sources"][0].take()
}

fn filtered(inrush: &Inrush, rule: &str) -> u64 {
    let ledger = inrush.ledger();
    ledger.filtered.get(rule).copied().unwrap_or(0)
}

#[test]
fn events_have_the_metadata_of_their_pod() {
    let api = api(&[pod("a", &[])]);
    let inrush = start(&api, "labels: [app]");
    let path = write(&inrush, "a", &cri("stderr", "hello"));
    let event = events(&inrush, 1).remove(0);
    assert_eq!(event["event"], "hello");
    assert_eq!(event["host"], "node-1");
    assert_eq!(event["sourcetype"], "kube:container:web");
    assert_eq!(event["source"], path.to_str().unwrap());
    has_fields(
        &event,
        &json!({
            "k8s.namespace.name": "shop", "k8s.pod.name": "a", "k8s.pod.uid": "u-a",
            "k8s.container.name": "web", "container.image.name": "nginx:1.29",
            "container.id": "id-a", "k8s.node.name": "node-1", "k8s.pod.labels.app": "shop",
            "log.iostream": "stderr",
        }),
    );
    assert_eq!(event["fields"]["k8s.pod.labels.other"], Value::Null);
    assert_eq!(metric(&inrush, "inrush_file_metadata_missing_total"), 0);
}

#[test]
fn names_are_those_of_collectord_if_they_are_asked_for() {
    let api = api(&[pod("a", &[])]);
    let inrush = start(&api, "fields: collectord");
    write(&inrush, "a", &cri("stdout", "hello"));
    let event = events(&inrush, 1).remove(0);
    assert_eq!(event["sourcetype"], "kubernetes_logs");
    assert_eq!(event["fields"]["kubernetes_pod_name"], "a");
    assert_eq!(event["fields"]["kubernetes_namespace"], "shop");
    assert_eq!(event["fields"]["stream"], "stdout");
}

#[test]
fn events_wait_for_metadata_that_come_late() {
    let api = api(&[]);
    let inrush = start(&api, "metadata_wait: 1h");
    write(&inrush, "a", &cri("stdout", "early"));
    api.wait_for_watch("pods");
    eventually("a listed file that waits", || {
        let listing = listing(&inrush);
        (listing["files"][0]["state"] == "waiting_for_metadata").then_some(())
    });
    api.push(
        "pods",
        2,
        "ADDED",
        &pod("a", &[("index", "late")]).to_string(),
    );
    let event = events(&inrush, 1).remove(0);
    assert_eq!(
        (&event["event"], &event["index"]),
        (&json!("early"), &json!("late"))
    );
    assert_eq!(metric(&inrush, "inrush_file_metadata_missing_total"), 0);
}

#[test]
fn events_go_without_metadata_that_do_not_come_and_with_them_later() {
    let api = api(&[]);
    api.hold("pods", true);
    let inrush = start(&api, "metadata_wait: 200ms");
    write(&inrush, "a", &cri("stdout", "without"));
    let event = events(&inrush, 1).remove(0);
    // The path says so much.
    assert_eq!(event["fields"]["k8s.pod.name"], "a");
    assert_eq!(event["fields"]["container.id"], Value::Null);
    assert_eq!(metric(&inrush, "inrush_file_metadata_missing_total"), 1);
    api.set("pods", 2, &[pod("a", &[("index", "late")]).to_string()]);
    api.hold("pods", false);
    api.wait_for_watch("pods");
    let with = || {
        write(&inrush, "a", &cri("stdout", "more"));
        let events = inrush.hec.taken();
        events.into_iter().find(|event| event["index"] == "late")
    };
    let event = eventually("an event with metadata", with);
    assert_eq!(event["fields"]["container.id"], "id-a");
}

#[test]
fn events_flow_while_the_api_is_away() {
    let api = api(&[]);
    let dir = folder(&api);
    drop(api);
    let config = CONFIG.replace("{options}", "metadata_wait: 100ms");
    let inrush = start_in(dir, &config);
    write(
        &inrush,
        "a",
        &(cri("stdout", "one") + &cri("stdout", "two")),
    );
    assert_eq!(field(&events(&inrush, 2), "event"), ["one", "two"]);
    assert_eq!(metric(&inrush, "inrush_file_metadata_missing_total"), 2);
}

#[test]
fn a_change_acts_on_a_running_pod() {
    let api = api(&[pod("a", &[("index", "first")])]);
    let inrush = start(&api, "metadata_wait: 1h");
    write(&inrush, "a", &cri("stdout", "one"));
    assert_eq!(events(&inrush, 1)[0]["index"], "first");
    api.push(
        "pods",
        2,
        "MODIFIED",
        &pod("a", &[("index", "second")]).to_string(),
    );
    let moved = || {
        write(&inrush, "a", &cri("stdout", "more"));
        let events = inrush.hec.taken();
        events.into_iter().find(|event| event["index"] == "second")
    };
    eventually("an event by the new annotation", moved);
}

#[test]
fn pod_before_workload_before_namespace_before_configuration_and_enforce_before_all() {
    let mut pods = vec![pod("own", &[("index", "pod")]), pod("none", &[])];
    for (name, pod) in ["own", "none"].iter().zip(&mut pods) {
        let owner = json!({ "kind": "StatefulSet", "name": name, "uid": "o", "controller": true });
        pod["metadata"]["ownerReferences"] = json!([owner]);
    }
    let api = api(&pods);
    api.set(
        "namespaces",
        1,
        &[namespace(&[("index", "namespace"), ("sourcetype", "ns")])],
    );
    let set = json!({ "metadata": { "namespace": "shop", "name": "none", "uid": "s",
        "annotations": { "inrush.io/index": "workload" } } });
    api.set("statefulsets", 1, &[set.to_string()]);
    let inrush = start(
        &api,
        "metadata_wait: 1h\ndefaults: { source: configured, index: not }\nenforce: { host: h9 }",
    );
    for pod in ["own", "none"] {
        write(&inrush, pod, &cri("stdout", pod));
    }
    let mut events = events(&inrush, 2);
    events.sort_by_key(|event| event["event"].to_string());
    assert_eq!(field(&events, "index"), ["workload", "pod"]);
    for event in &events {
        assert_eq!(event["sourcetype"], "ns");
        assert_eq!(event["source"], "configured");
        assert_eq!(event["host"], "h9");
    }
}

/// Lines of standard output and error of every case, in this order.
const LINES: [(&str, &str); 4] = [
    ("stdout", "GET /a user=ann"),
    ("stderr", "error \u{1b}[31mred\u{1b}[0m"),
    ("stdout", "DEBUG x"),
    ("stderr", "last"),
];

/// Annotations of a pod, and what its events are, each as `event` or as the part that is said.
type AnnotationCase = (
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static str,
    &'static [&'static str],
);

const TEXTS: &[&str] = &[
    "DEBUG x",
    "GET /a user=ann",
    "error \u{1b}[31mred\u{1b}[0m",
    "last",
];

const CASES: [AnnotationCase; 28] = [
    ("index", &[("index", "idx")], "index", &["idx"; 4]),
    (
        "index-c",
        &[("index.web", "idx"), ("index.db", "no")],
        "index",
        &["idx"; 4],
    ),
    (
        "index-s",
        &[("stderr.index", "err")],
        "index",
        &["err", "err", "main", "main"],
    ),
    (
        "sourcetype",
        &[("sourcetype", "st")],
        "sourcetype",
        &["st"; 4],
    ),
    ("source", &[("source", "src")], "source", &["src"; 4]),
    ("host", &[("host", "h1")], "host", &["h1"; 4]),
    (
        "host-s",
        &[("stdout.host", "h1")],
        "host",
        &["h1", "h1", "node-1", "node-1"],
    ),
    ("to", &[("to", "other")], "event", &[]),
    ("exclude", &[("exclude", "true")], "event", &[]),
    (
        "multiline",
        &[("stdout.multiline", "continue:^DEBUG")],
        "event",
        &[
            "GET /a user=ann\nDEBUG x",
            "error \u{1b}[31mred\u{1b}[0m",
            "last",
        ],
    ),
    (
        "exclude-s",
        &[("stdout.exclude", "true")],
        "event",
        &["error \u{1b}[31mred\u{1b}[0m", "last"],
    ),
    ("include", &[("include", "false")], "event", &[]),
    (
        "keep",
        &[("keep", "^(GET|last)")],
        "event",
        &["GET /a user=ann", "last"],
    ),
    (
        "drop",
        &[("drop", "^DEBUG")],
        "event",
        &["GET /a user=ann", "error \u{1b}[31mred\u{1b}[0m", "last"],
    ),
    (
        "replace",
        &[("replace.2", "/ann/bob/"), ("replace.10", "/bob/eve/")],
        "event",
        &[
            "DEBUG x",
            "GET /a user=eve",
            "error \u{1b}[31mred\u{1b}[0m",
            "last",
        ],
    ),
    (
        "hash",
        &[("hash.1", "user=(ann)")],
        "event",
        &[
            "DEBUG x",
            "GET /a user=49915e0d7d4b402e3017d010bc1c0e83cac6c797d6c16e66340fe3268693a6a1",
            "error \u{1b}[31mred\u{1b}[0m",
            "last",
        ],
    ),
    ("sample", &[("sample", "0%")], "event", &[]),
    ("rate", &[("rate", "1MiB/s")], "event", TEXTS),
    (
        "strip",
        &[("strip_ansi", "true")],
        "event",
        &["DEBUG x", "GET /a user=ann", "error red", "last"],
    ),
    ("product", &[("product", "nginx/nginx")], "event", TEXTS),
    (
        "field",
        &[("field.team", "red")],
        "fields.team",
        &["red"; 4],
    ),
    (
        "field-s",
        &[("stderr.field.team", "red")],
        "fields.team",
        &["-", "-", "red", "red"],
    ),
    (
        "splunk",
        &[("splunk.com/index", "idx")],
        "index",
        &["idx"; 4],
    ),
    (
        "collectord",
        &[("collectord.io/logs-index", "idx")],
        "index",
        &["idx"; 4],
    ),
    (
        "fluentbit",
        &[("fluentbit.io/exclude", "true")],
        "event",
        &[],
    ),
    (
        "vector",
        &[("vector.dev/exclude-containers", "web")],
        "event",
        &[],
    ),
    (
        "wrong",
        &[
            ("keep", "("),
            ("index", "a/b"),
            ("to", "nowhere"),
            ("indexx", "y"),
        ],
        "index",
        &["main"; 4],
    ),
    ("plain", &[], "event", TEXTS),
];

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// A value of an event, as text; `-`: it has none.
fn part(event: &Value, name: &str) -> String {
    let value = match name.split_once('.') {
        Some((outer, inner)) => &event[outer][inner],
        None => &event[name],
    };
    value.as_str().unwrap_or("-").to_owned()
}

#[test]
fn every_annotation_acts() {
    let pods: Vec<Value> = CASES.iter().map(|(name, set, ..)| pod(name, set)).collect();
    let api = api(&pods);
    let options = "metadata_wait: 1h\ncompatibility: [splunk, collectord, fluentbit, vector]";
    let inrush = start(&api, options);
    let lines: String = LINES
        .iter()
        .map(|(stream, text)| cri(stream, text))
        .collect();
    for (name, ..) in &CASES {
        write(&inrush, name, &lines);
    }
    let expected: usize = CASES.iter().map(|(.., events)| events.len()).sum();
    let mut events = events(&inrush, expected);
    let elsewhere = || Some(inrush.events_so_far("other.jsonl")).filter(|all| all.len() >= 4);
    let elsewhere = eventually("events of `to`", elsewhere);
    assert_eq!(sorted(field(&elsewhere, "message")), sorted(owned(TEXTS)));
    events.sort_by_key(|event| event["event"].to_string());
    for (name, _, of, parts) in &CASES {
        let own = events
            .iter()
            .filter(|one| one["fields"]["k8s.pod.name"] == **name);
        let own: Vec<String> = own.map(|event| part(event, of)).collect();
        assert_eq!(sorted(own), sorted(owned(parts)), "{name}");
    }
    for (rule, events) in [("exclude", 2), ("keep", 2), ("drop", 1), ("sample", 4)] {
        let rule = format!("annotation:{rule}");
        eventually(&rule, || (filtered(&inrush, &rule) == events).then_some(()));
    }
    // Those of which nothing is wanted are not read.
    let passed = || metric(&inrush, "inrush_file_excluded_bytes_total");
    let all = 4 * lines.len() as u64;
    eventually("four are passed over", || (passed() == all).then_some(()));
    let ledger = inrush.ledger();
    assert!(ledger.balanced, "{ledger:?}");
    let log = inrush.stderr();
    let is_said = |line: &&str| line.contains("annotation ignored") && line.contains("\"wrong\"");
    let line = log.lines().find(is_said).unwrap_or_default();
    assert!(line.contains("problems=4"), "{line}");
    // The page has them beside the pod.
    let listing = listing(&inrush);
    let workloads = listing["workloads"].as_array().unwrap();
    let wrong = workloads.iter().find(|one| one["pod"] == "wrong").unwrap();
    assert_eq!(wrong["problems"].as_array().unwrap().len(), 4, "{wrong}");
}

#[test]
fn what_is_excluded_is_passed_over_and_read_again_once_it_is_included() {
    let api = api(&[pod("a", &[("exclude", "true")])]);
    let inrush = start(&api, "metadata_wait: 1h");
    let first = cri("stdout", "not wanted");
    write(&inrush, "a", &first);
    let passed = || metric(&inrush, "inrush_file_excluded_bytes_total");
    eventually("it is passed over", || {
        (passed() == first.len() as u64).then_some(())
    });
    api.push("pods", 2, "MODIFIED", &pod("a", &[]).to_string());
    let wanted = || {
        write(&inrush, "a", &cri("stdout", "wanted"));
        inrush.hec.taken().into_iter().next()
    };
    let event = eventually("an event", wanted);
    assert_eq!(event["event"], "wanted");
}

#[test]
fn a_rate_holds_reading_back_and_loses_nothing() {
    let api = api(&[pod("slow", &[("rate", "4KiB/s")]), pod("fast", &[])]);
    let inrush = start(&api, "metadata_wait: 1h");
    let line = |number: usize| cri("stdout", &format!("{number:0>100}"));
    let lines: String = (0..100).map(line).collect();
    write(&inrush, "slow", &lines);
    write(&inrush, "fast", &lines);
    let of = |pod: &str| {
        let events = inrush.hec.taken().into_iter();
        let own = events.filter(|event| event["fields"]["k8s.pod.name"] == pod);
        field(&own.collect::<Vec<_>>(), "event")
    };
    let fast = eventually("the fast one", || {
        Some(of("fast")).filter(|all| all.len() == 100)
    });
    assert!(of("slow").len() < 100, "nothing was held back");
    let slow = eventually("the slow one", || {
        Some(of("slow")).filter(|all| all.len() == 100)
    });
    assert_eq!(slow, fast);
}

#[test]
fn short_lived_pods_lose_no_line_and_no_metadata() {
    const PODS: usize = 200;
    let api = api(&[]);
    let inrush = start(&api, "metadata_wait: 1h");
    api.wait_for_watch("pods");
    for number in 0..PODS {
        let name = format!("job-{number}");
        write(&inrush, &name, &cri("stdout", &name));
        let object = pod(&name, &[("index", "jobs")]).to_string();
        api.push("pods", 2 + 2 * number as u64, "ADDED", &object);
        api.push("pods", 3 + 2 * number as u64, "DELETED", &object);
    }
    let events = events(&inrush, PODS);
    for event in &events {
        assert_eq!(event["index"], "jobs", "{event}");
        assert_eq!(event["fields"]["k8s.pod.name"], event["event"]);
    }
    let texts = field(&events, "event").into_iter();
    assert_eq!(texts.collect::<std::collections::BTreeSet<_>>().len(), PODS);
}

#[test]
fn files_in_volumes_that_annotations_name_are_read() {
    let annotations = [
        ("volume.data", "logs/*.log"),
        ("volume.etc", "passwd"),
        ("index", "apps"),
    ];
    let mut volumes = pod("a", &annotations);
    volumes["spec"]["volumes"] = json!([
        { "name": "data", "emptyDir": {} }, { "name": "etc", "hostPath": { "path": "/etc" } },
    ]);
    let api = api(&[pod("plain", &[])]);
    let inrush = start(&api, "metadata_wait: 1h\nkubelet: \"{dir}/kubelet\"");
    api.wait_for_watch("pods");
    let folder = inrush.path("kubelet/pods/u-a/volumes/kubernetes.io~empty-dir/data/logs");
    fs::create_dir_all(&folder).unwrap();
    fs::write(
        folder.join("app.log"),
        "2026-11-28T09:00:00.1Z stdout F as it is\n",
    )
    .unwrap();
    fs::write(folder.join("app.txt"), "not named\n").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.join("link.log")).unwrap();
    api.push("pods", 2, "ADDED", &volumes.to_string());
    let event = events(&inrush, 1).remove(0);
    assert_eq!(event["event"], "2026-11-28T09:00:00.1Z stdout F as it is");
    assert_eq!(event["index"], "apps");
    assert_eq!(event["sourcetype"], "file");
    assert_eq!(event["fields"]["k8s.pod.name"], "a");
    assert_eq!(event["fields"]["k8s.container.name"], "web");
    // Without the annotation nothing more is read of them.
    volumes["metadata"]["annotations"] = json!({});
    api.push("pods", 3, "MODIFIED", &volumes.to_string());
    let open = || (metric(&inrush, "inrush_file_open_files") == 0).then_some(());
    eventually("the file is closed", open);
}

/// Metadata of a container by docker, and a line of its log.
fn docker(inrush: &Inrush, id: &str, labels: &Value, text: &str) {
    let folder = inrush.path(&format!("docker/containers/{id}"));
    fs::create_dir_all(&folder).unwrap();
    let config =
        json!({ "ID": id, "Name": "/shop", "Config": { "Image": "nginx:1", "Labels": labels } });
    fs::write(folder.join("new"), config.to_string()).unwrap();
    fs::rename(folder.join("new"), folder.join("config.v2.json")).unwrap();
    let line =
        json!({ "log": format!("{text}\n"), "stream": "stdout", "time": "2026-11-28T09:00:00.5Z" });
    let mut file = OpenOptions::new();
    let path = folder.join(format!("{id}-json.log"));
    let mut file = file.create(true).append(true).open(path).unwrap();
    writeln!(file, "{line}").unwrap();
}

#[test]
fn labels_of_docker_are_annotations() {
    const DOCKER: &str = r#"
sources:
  containers:
    type: file
    include: ["{dir}/docker/containers/*/*-json.log"]
    docker: { root: "{dir}/docker" }
destinations:
  out: { type: splunk_hec, endpoints: ["{hec}"], token: s3cret }
"#;
    let inrush = start_in(tempfile::tempdir().unwrap(), DOCKER);
    let id = "ab".repeat(32);
    docker(&inrush, &id, &json!({ "inrush.io/index": "one" }), "first");
    let event = events(&inrush, 1).remove(0);
    assert_eq!(
        (&event["event"], &event["index"]),
        (&json!("first"), &json!("one"))
    );
    has_fields(
        &event,
        &json!({
            "container.name": "shop", "container.id": id, "container.image.name": "nginx:1",
            "log.iostream": "stdout",
        }),
    );
    let changed = || {
        docker(&inrush, &id, &json!({ "inrush.io/index": "two" }), "more");
        let events = inrush.hec.taken();
        events.into_iter().find(|event| event["index"] == "two")
    };
    eventually("an event by the new label", changed);
}

#[test]
fn the_examples_of_the_guide_are_sound() {
    let guide = include_str!("../../../docs/guides/workloads.md");
    let examples: Vec<&str> = guide.split("```yaml\n").skip(1).collect();
    assert_eq!(examples.len(), 2);
    for example in examples {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("inrush.yaml");
        fs::write(&path, example.split("```").next().unwrap()).unwrap();
        let output = Command::new(binary())
            .args(["check", "-c"])
            .arg(&path)
            .output()
            .unwrap();
        let said = [output.stderr, output.stdout].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(output.status.success(), "{example}\n{said}");
    }
}

#[test]
fn options_that_cannot_be_used_are_refused() {
    for (options, words) in [
        ("metadata_wait: 2h", "metadata_wait"),
        ("enforce: { keep: '(' }", "keep"),
        ("defaults: { nothing: x }", "nothing"),
        ("host_paths: [a]", "host_paths"),
        ("node: ''", "node"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("inrush.yaml");
        fs::write(
            &path,
            CONFIG
                .replace("{dir}", "/x")
                .replace("{hec}", "http://a:1")
                .replace("{options}", options),
        )
        .unwrap();
        let output = Command::new(binary())
            .args(["check", "-c"])
            .arg(&path)
            .output()
            .unwrap();
        let said = [output.stderr, output.stdout].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(
            !output.status.success() && said.contains(words),
            "{options}\n{said}"
        );
    }
}
