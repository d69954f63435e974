//! Events of a Kubernetes cluster: each version of each once, over restarts and changes of the one
//! that reads.

mod api;

use std::collections::BTreeSet;

use api::EventApi;
use inrush_tests::*;
use serde_json::Value;
use tempfile::TempDir;

/// A source of events, to a file.
fn config(api: &EventApi, dir: &TempDir, options: &str) -> String {
    std::fs::write(dir.path().join("kubeconfig"), api.kubeconfig()).unwrap();
    format!(
        "sources:\n  events:\n    {{ type: kubernetes_events, \
         kubeconfig: \"{{dir}}/kubeconfig\"{options} }}\n\
         destinations:\n  out: {{ type: file, path: \"{{dir}}/out.jsonl\" }}\n"
    )
}

fn start_in(api: &EventApi, dir: TempDir, options: &str) -> Inrush {
    let yaml = config(api, &dir, options);
    let dir = Some(dir);
    let options = Options {
        dir,
        ..Options::default()
    };
    Inrush::with(&yaml, options)
}

fn start(api: &EventApi) -> Inrush {
    start_in(api, tempfile::tempdir().unwrap(), "")
}

/// Events in the output so far: uid, and version; each once.
fn versions(inrush: &Inrush) -> BTreeSet<(String, u64)> {
    let mut all = BTreeSet::new();
    for event in inrush.events_so_far("out.jsonl") {
        let text = event["message"].as_str().unwrap();
        let object: Value = serde_json::from_str(text).unwrap();
        let metadata = &object["metadata"];
        let version: u64 = metadata["resourceVersion"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        let key = (metadata["uid"].as_str().unwrap().to_owned(), version);
        assert!(all.insert(key), "twice: {object}");
    }
    all
}

/// Waits until the output has so many events, none of them twice.
fn await_versions(inrush: &Inrush, count: usize) -> BTreeSet<(String, u64)> {
    eventually(&format!("{count} events"), || {
        let found = versions(inrush);
        assert!(found.len() <= count, "{found:?}");
        (found.len() == count).then_some(found)
    })
}

fn metric(inrush: &Inrush, name: &str, reason: &str) -> u64 {
    let page = inrush.http("GET", "/metrics").body;
    let mut lines = page.lines();
    let line = lines.find(|line| line.starts_with(name) && line.contains(reason));
    let value = line.and_then(|line| line.rsplit(' ').next()).unwrap_or("0");
    value.parse::<f64>().unwrap() as u64
}

fn watch_count(inrush: &Inrush, reason: &str) -> u64 {
    let reason = format!("reason=\"{reason}\"");
    metric(inrush, "inrush_kubernetes_events_watch_total", &reason)
}

#[test]
fn an_event_is_json_with_the_object_that_it_is_about() {
    let (api, hec) = (EventApi::start(), Hec::start());
    api.put([1]);
    let dir = tempfile::tempdir().unwrap();
    let yaml = config(&api, &dir, ", index: k8s");
    let (sources, _) = yaml.split_once("destinations").unwrap();
    let yaml = format!(
        "{sources}destinations:\n  splunk: {{ type: splunk_hec, endpoints: [\"{}\"], token: t }}\n",
        hec.url()
    );
    let options = Options {
        dir: Some(dir),
        ..Options::default()
    };
    let inrush = Inrush::with(&yaml, options);
    inrush.conserved(1);
    let event = hec.taken().remove(0);
    assert_eq!(event["sourcetype"], "kube:events", "{event}");
    assert_eq!(
        (&event["index"], &event["source"]),
        (&"k8s".into(), &"kubernetes".into())
    );
    assert_eq!(event["host"], "node-1", "{event}");
    // The time of its last occurrence.
    assert!(event["time"].to_string().contains("1772600768"), "{event}");
    let fields = &event["fields"];
    assert_eq!(fields["k8s.object.kind"], "Pod", "{event}");
    assert_eq!(fields["k8s.object.name"], "web-1", "{event}");
    assert_eq!(fields["k8s.namespace.name"], "shop", "{event}");
    assert_eq!(fields["k8s.event.reason"], "BackOff", "{event}");
    assert_eq!(fields["k8s.event.count"], "2", "{event}");
    let object: Value = serde_json::from_str(event["event"].as_str().unwrap()).unwrap();
    assert_eq!(object["message"], "Back-off 1");
    assert_eq!(
        object["involvedObject"]["fieldPath"],
        "spec.containers{web}"
    );
    assert_eq!(object["metadata"].get("managedFields"), None);
}

#[test]
fn a_restart_and_a_kill_double_and_lose_nothing() {
    let api = EventApi::start();
    // More than a page.
    api.put(0..1200);
    let inrush = start(&api);
    await_versions(&inrush, 1200);
    api.await_watch();
    // A second version of an event is an event.
    api.put([3, 4, 2000]);
    await_versions(&inrush, 1203);
    api.cut();
    api.put([2001]);
    await_versions(&inrush, 1204);
    let (exit, dir) = inrush.stop();
    assert!(exit.status.success(), "{}", exit.stderr);
    let holder = api.lease()["spec"]["holderIdentity"].clone();
    assert_eq!(holder, "", "given back");

    api.put(3000..3010);
    api.expire(0..10);
    let inrush = start_in(&api, dir, "");
    await_versions(&inrush, 1214);
    let lists = watch_count(&inrush, "list");
    assert_eq!(lists, 0, "it goes on by its place");
    let (_, dir) = inrush.kill();
    api.put(4000..4010);
    // The Lease of the killed one has to end.
    let inrush = start_in(&api, dir, "");
    await_versions(&inrush, 1224);
    assert_eq!(watch_count(&inrush, "list"), 0);
}

#[test]
fn a_place_that_the_server_forgot_costs_a_list_and_no_doubles() {
    let api = EventApi::start();
    api.put(0..20);
    let inrush = start(&api);
    await_versions(&inrush, 20);
    let (_, dir) = inrush.stop();
    api.put(20..25);
    api.put([7]);
    api.compact();
    let inrush = start_in(&api, dir, "");
    await_versions(&inrush, 26);
    assert_eq!(watch_count(&inrush, "gone"), 1);
    assert_eq!(watch_count(&inrush, "list"), 1);
    // The 19 others that were read before.
    let repeated = metric(&inrush, "inrush_kubernetes_events_repeated_total", "");
    assert_eq!(repeated, 19);
    api.await_watch();
    api.put([30]);
    await_versions(&inrush, 27);
}

#[test]
fn numbers_that_begin_anew_lose_nothing() {
    let api = EventApi::start();
    api.put(0..20);
    let inrush = start(&api);
    await_versions(&inrush, 20);
    api.await_watch();
    api.renumber();
    // All of them have other versions now, so they are other events.
    await_versions(&inrush, 40);
    assert_eq!(watch_count(&inrush, "renumbered"), 1);
    api.await_watch();
    api.put([50]);
    await_versions(&inrush, 41);
}

/// Waits until the Lease has the place behind these events, a renewal later.
fn await_place(api: &EventApi, events: &BTreeSet<(String, u64)>) {
    let last = events.iter().map(|(_, version)| *version).max();
    api.await_lease("the place", |lease| {
        let noted = &lease["metadata"]["annotations"]["inrush.io/events-version"];
        noted.as_str().and_then(|noted| noted.parse().ok()) >= last
    });
}

#[test]
fn one_of_two_reads_and_the_other_goes_on_behind_it() {
    let api = EventApi::start();
    api.put(0..50);
    let first = start(&api);
    await_versions(&first, 50);
    let second = start(&api);
    api.put(50..60);
    let of_first = await_versions(&first, 60);
    assert_eq!(metric(&first, "inrush_kubernetes_events_lead", ""), 1);
    assert_eq!(metric(&second, "inrush_kubernetes_events_lead", ""), 0);
    await_place(&api, &of_first);
    let (_, dir) = first.stop();
    api.put(60..70);
    let of_second = await_versions(&second, 10);
    assert!(of_first.is_disjoint(&of_second));
    assert_eq!(watch_count(&second, "takeover"), 1);
    // The other way round, without a farewell.
    await_place(&api, &of_second);
    let first = start_in(&api, dir, "");
    let (_, _gone) = second.kill();
    api.put(70..75);
    await_versions(&first, 65);
    assert_eq!(api.lease()["spec"]["leaseTransitions"], 2);
}

#[test]
fn without_its_lease_it_reads_nothing_and_says_what_to_grant() {
    let api = EventApi::start();
    api.put(0..5);
    api.deny_lease(Some(403));
    let inrush = start(&api);
    eventually("the warning", || {
        inrush
            .stderr()
            .contains("Grant `get`, `create` and `update`")
            .then_some(())
    });
    assert_eq!(api.requests("/api/v1/events"), 0);
    assert_eq!(inrush.ledger().sources["events"].received, 0);
    api.deny_lease(None);
    await_versions(&inrush, 5);
}

#[test]
fn it_can_begin_with_the_events_to_come() {
    let api = EventApi::start();
    api.put(0..5);
    let dir = tempfile::tempdir().unwrap();
    let inrush = start_in(&api, dir, ", start_at: end");
    api.await_watch();
    api.put(5..8);
    await_versions(&inrush, 3);
    let (_, dir) = inrush.stop();
    api.put(8..10);
    let inrush = start_in(&api, dir, ", start_at: end");
    await_versions(&inrush, 5);
}
