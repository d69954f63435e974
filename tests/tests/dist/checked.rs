//! Configurations in `dist/`: those of manifests and chart are the same, and `inrush check` takes
//! them.

use std::process::Command;

use inrush_tests::binary;

use crate::{document, of_kind, plain, root};

/// Text of the configuration in a ConfigMap of the manifests.
fn of_manifests(name: &str) -> String {
    let objects = plain();
    let maps = of_kind(&objects, "ConfigMap");
    let map = maps.iter().find(|map| map["metadata"]["name"] == name);
    map.unwrap()["data"]["inrush.yaml"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// The same as the chart has it for a part, with its endpoints filled in.
fn of_chart(part: &str) -> String {
    let text = std::fs::read_to_string(root().join("dist/helm/inrush/values.yaml")).unwrap();
    let values = document(&text);
    let endpoints = values["splunk"]["endpoints"].to_string();
    let config = values[part]["config"].as_str().unwrap();
    config.replace("{{ toJson .Values.splunk.endpoints }}", &endpoints)
}

/// Runs `inrush check` on a text, in the environment of a pod.
pub(crate) fn check(what: &str, text: &str) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("inrush.yaml");
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(binary());
    command.arg("check").arg("-c").arg(&file);
    command.envs([("NODE_NAME", "node-1"), ("SPLUNK_TOKEN", "secret")]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {said}\n{text}");
}

#[test]
fn manifests_and_chart_have_the_same_configurations() {
    for (map, part) in [("inrush", "node"), ("inrush-events", "events")] {
        assert_eq!(of_manifests(map), of_chart(part), "{part}");
    }
}

#[test]
fn the_configuration_of_the_events_part_is_sound() {
    check("events", &of_manifests("inrush-events"));
}

#[test]
fn the_configuration_of_the_part_for_syslog_is_sound() {
    let objects = crate::syslog();
    let map = of_kind(&objects, "ConfigMap")[0];
    check("syslog", map["data"]["inrush.yaml"].as_str().unwrap());
}

#[test]
fn examples_of_sources_of_events_are_sound() {
    let guide = std::fs::read_to_string(root().join("docs/guides/kubernetes.md")).unwrap();
    let blocks = guide.split("```yaml\n").skip(1);
    let blocks = blocks.map(|rest| rest.split("```").next().unwrap());
    let mut checked = 0;
    for block in blocks.filter(|block| block.contains("type: kubernetes_events")) {
        check("docs/guides/kubernetes.md", block);
        checked += 1;
    }
    assert!(checked > 0);
}

#[test]
fn the_configuration_of_the_nodes_part_is_sound() {
    check("node", &of_manifests("inrush"));
}

#[test]
fn examples_of_sources_of_files_are_sound() {
    let guide = std::fs::read_to_string(root().join("docs/guides/kubernetes.md")).unwrap();
    let blocks = guide.split("```yaml\n").skip(1);
    let blocks = blocks.map(|rest| rest.split("```").next().unwrap());
    let mut checked = 0;
    for block in blocks.filter(|block| block.contains("type: file")) {
        let text = format!("{block}destinations: {{ out: {{ type: blackhole }} }}\n");
        check("docs/guides/kubernetes.md", &text);
        checked += 1;
    }
    assert!(checked > 0);
}
