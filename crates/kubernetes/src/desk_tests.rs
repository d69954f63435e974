//! Views of the container of a log, and their changes.
#![allow(clippy::unwrap_used)]

use std::time::Instant;

use super::*;
use crate::objects::PodObject;
use crate::store::{KindPhase, ObjectKind};

const LOG: &str = "/var/log/pods/shop_a_u-a/web/0.log";

fn desk(store: Option<&Arc<MetadataStore>>, docker: Option<PathBuf>) -> WorkloadDesk {
    WorkloadDesk::new(DeskOptions {
        store: store.cloned(),
        docker,
        settings: AnnotationSettings::default(),
        fields: FieldSettings::default(),
        destinations: Box::new(|| BTreeSet::from(["out".to_owned()])),
        kubelet: "/k".into(),
        is_allowed: Box::new(|_| false),
        glob_fault: Box::new(|_| None),
    })
}

fn pod(annotations: &[(&str, &str)]) -> PodObject {
    let annotations: BTreeMap<String, &str> = annotations
        .iter()
        .map(|(name, value)| (format!("inrush.io/{name}"), *value))
        .collect();
    let json = serde_json::json!({
        "metadata": { "namespace": "shop", "name": "a", "uid": "u-a", "annotations": annotations },
        "spec": {
            "nodeName": "n", "containers": [{ "name": "web" }],
            "volumes": [{ "name": "data", "emptyDir": {} }, { "name": "cm", "configMap": {} }],
        },
    });
    serde_json::from_value(json).unwrap()
}

fn live_store() -> Arc<MetadataStore> {
    let store = MetadataStore::new("n");
    store.set_phase(ObjectKind::Pod, KindPhase::Live);
    store
}

fn problems(answer: &WorkloadAnswer) -> Vec<String> {
    let problems = answer.view.policies[0].problems.iter();
    problems.map(ToString::to_string).collect()
}

#[test]
fn what_is_not_known_is_awaited_and_then_known() {
    let store = live_store();
    let desk = desk(Some(&store), None);
    let awaited = desk.ask(LOG, None, false).unwrap();
    assert_eq!(awaited.view.metadata, WorkloadMetadataState::Awaited);
    assert_eq!(awaited.view.fields.iter().nth(1).unwrap().1, "a");
    let again = desk.ask(LOG, Some(&awaited), false).unwrap();
    assert!(Arc::ptr_eq(&again.view, &awaited.view));
    store.apply_pod(pod(&[("index", "one")]), Instant::now());
    let known = desk.ask(LOG, Some(&awaited), false).unwrap();
    assert_eq!(known.view.metadata, WorkloadMetadataState::Known);
    assert_eq!(known.view.policies[1].index.as_deref(), Some("one"));
    // The same annotations are not read again.
    store.apply_pod(pod(&[("index", "one")]), Instant::now());
    let same = desk.ask(LOG, Some(&known), false).unwrap();
    assert!(Arc::ptr_eq(&same.view, &known.view));
    let anew = desk.ask(LOG, Some(&known), true).unwrap();
    assert!(!Arc::ptr_eq(&anew.view, &known.view) && anew.view == known.view);
    store.remove_pod(&pod(&[]), Instant::now());
    let removed = desk.ask(LOG, Some(&known), false).unwrap();
    assert_eq!(removed.view.metadata, WorkloadMetadataState::Removed);
    assert_eq!(removed.view.policies[0].index.as_deref(), Some("one"));
}

#[test]
fn annotations_that_cannot_be_used_are_problems() {
    let store = live_store();
    let annotations = [
        ("to", "nowhere"),
        ("product", "nginx"),
        ("volume.cm", "*.log"),
        ("volume.none", "*.log"),
        ("keep", "("),
        ("index", "good"),
    ];
    store.apply_pod(pod(&annotations), Instant::now());
    let answer = desk(Some(&store), None).ask(LOG, None, false).unwrap();
    let problems = problems(&answer);
    assert_eq!(problems.len(), 5, "{problems:#?}");
    for words in [
        "nowhere",
        "vendor/product",
        "neither emptyDir",
        "`none`",
        "regular",
    ] {
        assert!(
            problems.iter().any(|one| one.contains(words)),
            "{words}: {problems:#?}"
        );
    }
    let policy = &answer.view.policies[0];
    assert_eq!(policy.index.as_deref(), Some("good"));
    assert_eq!(
        (&policy.to, &policy.product, &policy.keep),
        (&None, &None, &None)
    );
}

#[test]
fn files_in_volumes_belong_to_their_pod() {
    let store = live_store();
    let desk = desk(Some(&store), None);
    store.apply_pod(
        pod(&[("volume.data", "**/*.log"), ("source", "s")]),
        Instant::now(),
    );
    let root = "/k/pods/u-a/volumes/kubernetes.io~empty-dir/data";
    assert_eq!(
        desk.volume_patterns(),
        BTreeSet::from([format!("{root}/**/*.log")])
    );
    let path = format!("{root}/x/app.log");
    assert_eq!(
        desk.volume_root(Path::new(&path)).as_deref(),
        Some(Path::new(root))
    );
    assert_eq!(desk.volume_root(Path::new(LOG)), None);
    let found = desk.ask(&path, None, false).unwrap();
    assert!(found.view.is_volume);
    assert_eq!(found.view.policies[0].source.as_deref(), Some("s"));
    store.remove_pod(&pod(&[]), Instant::now());
    assert!(desk.volume_patterns().is_empty());
    let removed = desk.ask(&path, Some(&found), false).unwrap();
    assert_eq!(removed.view.metadata, WorkloadMetadataState::Removed);
    assert!(desk.ask(&path, None, false).is_none());
}

#[test]
fn what_docker_says_is_read_again_once_it_changes() {
    let home = tempfile::tempdir().unwrap();
    let containers = home.path().join("containers");
    let id = "ab".repeat(32);
    let folder = containers.join(&id);
    std::fs::create_dir_all(&folder).unwrap();
    let log = folder.join(format!("{id}-json.log"));
    let log = log.to_str().unwrap();
    let desk = desk(None, Some(containers));
    let ask = |before: Option<&WorkloadAnswer>| desk.ask(log, before, false).unwrap();
    let none = ask(None);
    assert_eq!(none.view.metadata, WorkloadMetadataState::Missing);
    let say = |index: &str| {
        let config = serde_json::json!({ "ID": id, "Name": "/shop",
            "Config": { "Labels": { "inrush.io/index": index, "inrush.io/keepp": "x" } } });
        std::fs::write(folder.join("new"), config.to_string()).unwrap();
        std::fs::rename(folder.join("new"), folder.join("config.v2.json")).unwrap();
    };
    say("one");
    let one = ask(Some(&none));
    assert_eq!(one.view.policies[0].index.as_deref(), Some("one"));
    assert_eq!(
        (one.view.names[3].as_str(), problems(&one).len()),
        ("shop", 1)
    );
    assert!(Arc::ptr_eq(&ask(Some(&one)).view, &one.view));
    say("other");
    let other = ask(Some(&one));
    assert_eq!(other.view.policies[0].index.as_deref(), Some("other"));
    std::fs::write(folder.join("config.v2.json"), "{").unwrap();
    assert_eq!(ask(Some(&other)).view, other.view);
    std::fs::remove_file(folder.join("config.v2.json")).unwrap();
    assert_eq!(ask(Some(&other)).view, other.view);
    assert!(desk.ask("/elsewhere/0.log", None, false).is_none());
}
