//! Tests of the store: what a reader is told, and when.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::objects::{ContainerRole, OwnerReference, PodContainer};

fn pod(name: &str, uid: &str) -> PodObject {
    PodObject {
        namespace: "shop".into(),
        name: name.into(),
        uid: uid.into(),
        node: "node-1".into(),
        containers: vec![PodContainer {
            name: "nginx".into(),
            role: ContainerRole::Main,
            image: "nginx:1".into(),
            id: format!("id-{uid}").into(),
            last_id: format!("last-{uid}").into(),
            restarts: 0,
        }],
        ..PodObject::default()
    }
}

fn owned(name: &str, uid: &str, kind: &str, owner: &str) -> PodObject {
    PodObject {
        owner: Some(OwnerReference {
            kind: kind.into(),
            name: owner.into(),
            uid: "owner".into(),
        }),
        ..pod(name, uid)
    }
}

fn namespace(index: &str) -> NamespaceObject {
    NamespaceObject {
        name: "shop".into(),
        uid: "ns".into(),
        annotations: [("inrush.io/index", index)].into_iter().collect(),
        ..NamespaceObject::default()
    }
}

fn workload(name: &str, uid: &str, index: &str) -> WorkloadObject {
    WorkloadObject {
        namespace: "shop".into(),
        name: name.into(),
        uid: uid.into(),
        annotations: [("inrush.io/index", index), ("other/x", "y")]
            .into_iter()
            .collect(),
        owner: None,
    }
}

/// A store whose pods are listed.
fn live() -> (Arc<MetadataStore>, Instant) {
    let store = MetadataStore::new("node-1");
    store.set_phase(ObjectKind::Pod, KindPhase::Live);
    (store, Instant::now())
}

fn found(answer: MetadataLookup) -> Arc<PodMetadata> {
    match answer {
        MetadataLookup::Found(metadata) => metadata,
        other => panic!("{other:?}"),
    }
}

fn is_unknown(answer: &MetadataLookup) -> bool {
    matches!(answer, MetadataLookup::Unknown)
}

fn is_waiting(answer: &MetadataLookup) -> bool {
    matches!(answer, MetadataLookup::Waiting)
}

#[test]
fn a_pod_is_found_by_each_of_its_names() {
    let (store, now) = live();
    store.apply_pod(pod("web", "u1"), now);
    for answer in [
        store.lookup("shop", "web", "u1", "nginx"),
        store.lookup("shop", "web", "", "nginx"),
        store.lookup("shop", "web", "u1", ""),
        store.lookup_id("id-u1"),
        store.lookup_id("last-u1"),
    ] {
        assert_eq!(&*found(answer).pod.uid, "u1");
    }
    assert!(is_unknown(&store.lookup("shop", "web", "u2", "nginx")));
    assert!(is_unknown(&store.lookup("other", "web", "u1", "nginx")));
    assert!(is_unknown(&store.lookup("shop", "db", "", "nginx")));
    assert!(is_unknown(&store.lookup_id("id-u2")));
    let same = || found(store.lookup("shop", "web", "u1", "nginx"));
    assert!(Arc::ptr_eq(&same(), &same()));
}

#[test]
fn a_static_pod_is_found_by_the_uid_of_its_folder() {
    let (store, now) = live();
    let mut etcd = pod("etcd-node-1", "api-uid");
    let mirror = [("kubernetes.io/config.mirror", "b2e5a7c4")];
    etcd.annotations = mirror.into_iter().collect();
    store.apply_pod(etcd.clone(), now);
    let by_hash = || store.lookup("shop", "etcd-node-1", "b2e5a7c4", "nginx");
    assert_eq!(&*found(by_hash()).pod.uid, "api-uid");
    // The manifest changed: another hash, the old one leads nowhere.
    etcd.annotations = [("kubernetes.io/config.mirror", "ffff")]
        .into_iter()
        .collect();
    store.apply_pod(etcd, now);
    assert!(is_unknown(&by_hash()));
}

#[test]
fn a_name_given_again_does_not_mix_two_pods() {
    let (store, now) = live();
    store.apply_pod(pod("db-0", "old"), now);
    store.remove_pod(&pod("db-0", "old"), now);
    store.apply_pod(pod("db-0", "new"), now);
    let by_uid = |uid| found(store.lookup("shop", "db-0", uid, "nginx"));
    assert_eq!(
        (&*by_uid("old").pod.uid, by_uid("old").removed),
        ("old", true)
    );
    assert_eq!(
        (&*by_uid("new").pod.uid, by_uid("new").removed),
        ("new", false)
    );
    assert_eq!(&*by_uid("").pod.uid, "new");
    // A late event about the old one does not remove the new one.
    store.remove_pod(&pod("db-0", "old"), now);
    assert!(!by_uid("").removed);
}

#[test]
fn removed_pods_are_remembered_for_an_hour() {
    let (store, now) = live();
    store.apply_pod(pod("web", "u1"), now);
    store.remove_pod(&pod("web", "u1"), now);
    let just_before = now + REMOVED_KEPT - Duration::from_millis(1);
    store.forget(just_before);
    assert!(found(store.lookup("shop", "web", "u1", "nginx")).removed);
    assert!(found(store.lookup("shop", "web", "", "")).removed);
    assert!(store.live_pods().is_empty());
    store.forget(now + REMOVED_KEPT);
    assert!(is_unknown(&store.lookup("shop", "web", "u1", "nginx")));
    assert!(is_unknown(&store.lookup("shop", "web", "", "")));
    assert!(is_unknown(&store.lookup_id("id-u1")));
    let state = store.read();
    assert!(state.aliases.is_empty() && state.names.is_empty() && state.pods.is_empty());
}

#[test]
fn the_oldest_removed_pods_are_forgotten_first_beyond_the_bound() {
    let (store, now) = live();
    let beyond = 3;
    let all = (0..REMOVED_PODS_MAX + beyond).map(|number| pod("job", &format!("u{number}")));
    let all: Vec<_> = all.collect();
    store.replace_pods(all.clone(), now);
    {
        let mut state = store.state.write().unwrap();
        for (number, pod) in all.iter().enumerate() {
            state.remove_pod(&pod.uid, now + Duration::from_millis(number as u64));
        }
    }
    store.forget(now);
    assert_eq!(store.read().pods.len(), REMOVED_PODS_MAX + beyond);
    store.remove_pod(&pod("job", "none"), now);
    assert_eq!(store.read().pods.len(), REMOVED_PODS_MAX);
    assert!(is_unknown(&store.lookup("shop", "job", "u2", "")));
    assert!(found(store.lookup("shop", "job", "u3", "")).removed);
}

#[test]
fn a_list_removes_what_it_does_not_have() {
    let (store, now) = live();
    store.replace_pods(vec![pod("a", "1"), pod("b", "2")], now);
    store.replace_pods(vec![pod("b", "2"), pod("c", "3")], now);
    let live = store.live_pods();
    let names: Vec<&str> = live.iter().map(|one| &*one.pod.name).collect();
    assert_eq!(names, ["b", "c"]);
    assert!(found(store.lookup("shop", "a", "1", "")).removed);
}

#[test]
fn pods_of_other_nodes_are_refused_and_counted() {
    let (store, now) = live();
    let mut foreign = pod("web", "u1");
    foreign.node = "node-2".into();
    store.apply_pod(foreign.clone(), now);
    store.replace_pods(vec![foreign], now);
    assert!(store.live_pods().is_empty());
    assert_eq!(store.anomalies().get(ObjectAnomaly::ForeignPod), 2);
}

#[test]
fn a_reader_waits_for_lists_and_not_for_what_is_denied() {
    let store = MetadataStore::new("node-1");
    let now = Instant::now();
    let ask = || store.lookup("shop", "web", "u1", "nginx");
    assert!(is_unknown(&ask()) && store.is_ready(), "nothing is watched");
    store.set_phase(ObjectKind::Pod, KindPhase::Starting);
    store.set_phase(ObjectKind::Namespace, KindPhase::Starting);
    assert!(is_waiting(&ask()) && !store.is_ready());
    store.set_phase(ObjectKind::Pod, KindPhase::Failing("away".into()));
    assert!(is_waiting(&ask()) && !store.is_ready());
    store.apply_pod(owned("web", "u1", "StatefulSet", "web"), now);
    store.follow_workloads();
    store.set_phase(ObjectKind::Pod, KindPhase::Live);
    assert!(
        is_waiting(&ask()) && store.is_ready(),
        "namespaces are not listed"
    );
    store.apply_namespace(namespace("n"));
    assert!(is_waiting(&ask()), "StatefulSets are not even asked for");
    assert_eq!(store.take_needed(), [WorkloadKind::StatefulSet]);
    assert_eq!(store.take_needed(), []);
    assert!(is_waiting(&ask()), "StatefulSets are not listed");
    let kind = ObjectKind::Workload(WorkloadKind::StatefulSet);
    store.set_phase(kind, KindPhase::Denied("403".into()));
    let metadata = found(ask());
    assert_eq!(&*metadata.workloads[0].name, "web");
    assert!(
        is_waiting(&store.lookup("shop", "web", "u1", "debug")),
        "not in the pod yet"
    );
    store.set_phase(ObjectKind::Pod, KindPhase::Lost("cut".into()));
    assert!(
        is_waiting(&store.lookup("shop", "new", "u9", "nginx")),
        "the API is away"
    );
    assert!(matches!(ask(), MetadataLookup::Found(_)));
    store.set_phase(ObjectKind::Pod, KindPhase::Denied("403".into()));
    assert!(is_unknown(&store.lookup("shop", "new", "u9", "nginx")));
}

#[test]
fn a_pod_waits_for_the_list_of_namespaces() {
    let (store, now) = live();
    store.apply_pod(pod("web", "u1"), now);
    let ask = || store.lookup("shop", "web", "u1", "nginx");
    assert!(
        found(ask()).namespace.is_none(),
        "namespaces are not watched"
    );
    store.set_phase(ObjectKind::Namespace, KindPhase::Starting);
    assert!(is_waiting(&ask()));
    store.replace_namespaces(vec![namespace("n")]);
    assert!(found(ask()).namespace.is_some());
    store.replace_namespaces(Vec::new());
    assert!(is_waiting(&ask()));
    store.set_phase(ObjectKind::Namespace, KindPhase::Live);
    assert!(found(ask()).namespace.is_none(), "it was removed");
}

#[test]
fn changes_of_namespace_and_workload_reach_their_pods_alone() {
    let (store, now) = live();
    store.apply_pod(owned("web", "u1", "StatefulSet", "web"), now);
    store.apply_pod(owned("db", "u2", "StatefulSet", "db"), now);
    let ask = |name: &str| found(store.lookup("shop", name, "", ""));
    let before = ask("db");
    let kind = WorkloadKind::StatefulSet;
    store.replace_workloads(kind, vec![workload("web", "w1", "a")]);
    let index = |name: &str| {
        let metadata = ask(name);
        let annotations = &metadata.workloads[0].annotations;
        (
            annotations.get("inrush.io/index").map(str::to_owned),
            annotations.entries.len(),
        )
    };
    assert_eq!(index("web"), (Some("a".into()), 1), "others are not kept");
    assert!(Arc::ptr_eq(&before, &ask("db")));
    store.apply_workload(kind, workload("web", "w1", "b"));
    assert_eq!(index("web").0.as_deref(), Some("b"));
    let generation = store.generation();
    store.apply_workload(kind, workload("web", "w1", "b"));
    assert_eq!(
        store.generation(),
        generation,
        "a change of the status is none"
    );
    store.remove_workload(kind, &workload("web", "older", "b"));
    assert_eq!(index("web").0.as_deref(), Some("b"));
    store.remove_workload(kind, &workload("web", "w1", "b"));
    assert_eq!(index("web").0, None);
    store.apply_namespace(namespace("n"));
    let of_namespace = || {
        let metadata = ask("web");
        let namespace = metadata.namespace.as_ref();
        namespace.and_then(|one| one.annotations.get("inrush.io/index").map(str::to_owned))
    };
    assert_eq!(of_namespace().as_deref(), Some("n"));
    store.replace_namespaces(vec![namespace("m")]);
    assert_eq!(of_namespace().as_deref(), Some("m"));
    let older = NamespaceObject {
        uid: "older".into(),
        ..namespace("m")
    };
    store.remove_namespace(&older);
    assert_eq!(of_namespace().as_deref(), Some("m"));
    store.remove_namespace(&namespace("m"));
    assert_eq!(of_namespace(), None);
}

#[test]
fn a_cron_job_is_found_by_its_job() {
    let (store, now) = live();
    store.follow_workloads();
    store.apply_pod(owned("import-1-x", "u1", "Job", "import-1"), now);
    assert_eq!(store.take_needed(), [WorkloadKind::Job]);
    let mut job = workload("import-1", "j1", "job");
    job.owner = Some(OwnerReference {
        kind: "CronJob".into(),
        name: "import".into(),
        uid: "c1".into(),
    });
    store.replace_workloads(WorkloadKind::Job, vec![job]);
    store.set_phase(ObjectKind::Workload(WorkloadKind::Job), KindPhase::Live);
    let ask = || store.lookup("shop", "import-1-x", "u1", "nginx");
    assert!(is_waiting(&ask()));
    assert_eq!(store.take_needed(), [WorkloadKind::CronJob]);
    store.replace_workloads(
        WorkloadKind::CronJob,
        vec![workload("import", "c1", "cron")],
    );
    store.set_phase(ObjectKind::Workload(WorkloadKind::CronJob), KindPhase::Live);
    let metadata = found(ask());
    let names = metadata
        .workloads
        .iter()
        .map(|one| (&*one.kind, &*one.name));
    assert_eq!(
        names.collect::<Vec<_>>(),
        [("Job", "import-1"), ("CronJob", "import")]
    );
    assert_eq!(
        metadata.workloads[1].annotations.get("inrush.io/index"),
        Some("cron")
    );
}

#[test]
fn those_who_wait_are_woken_by_each_change() {
    let (store, now) = live();
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    assert!(store.on_change(move || {
        counted.fetch_add(1, Ordering::SeqCst);
    }));
    assert!(!store.on_change(|| ()));
    let seen = store.generation();
    let waiting = Arc::clone(&store);
    let reader = std::thread::spawn(move || waiting.wait_beyond(seen, Duration::from_secs(60)));
    store.apply_pod(pod("web", "u1"), now);
    assert!(reader.join().unwrap() > seen);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert_eq!(
        store.wait_beyond(store.generation(), Duration::ZERO),
        store.generation()
    );
}

#[test]
fn routing_annotations_are_told_from_others() {
    for key in [
        "inrush.io/index",
        "splunk.collectord.io/index",
        "splunk.com/exclude",
        "fluentbit.io/parser-web",
        "vector.dev/exclude",
    ] {
        assert!(is_routing(key), "{key}");
    }
    for key in [
        "inrush.io",
        "index",
        "notinrush.io/index",
        "kubernetes.io/x",
        "a.b/inrush.io/x",
    ] {
        assert!(!is_routing(key), "{key}");
    }
}
