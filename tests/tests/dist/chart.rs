//! The chart: by its defaults it renders the manifests. These tests skip themselves without `helm`
//! (in `PATH`, or named by `INRUSH_HELM`).

use std::process::{Command, Output};

use serde_json::Value;

use crate::{documents, manifests, plain, root, title};

/// Runs helm on the chart; `None` where there is none.
fn helm(args: &[&str]) -> Option<Output> {
    let program = std::env::var_os("INRUSH_HELM").unwrap_or_else(|| "helm".into());
    let made = Command::new(program)
        .args(args)
        .current_dir(root().join("dist/helm"))
        .output();
    match made {
        Ok(output) => Some(output),
        Err(_) => {
            eprintln!("SKIPPED: no helm in PATH, and none named by INRUSH_HELM");
            None
        }
    }
}

/// The objects that the chart renders with some values set; `None` without helm.
fn rendered(set: &[&str]) -> Option<Vec<Value>> {
    let mut args = vec!["template", "inrush", "inrush", "--namespace", "inrush"];
    args.extend(["--kube-version", "1.34.0"]);
    args.extend(set.iter().flat_map(|value| ["--set", *value]));
    let output = helm(&args)?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{set:?}: {said}");
    Some(documents(&String::from_utf8(output.stdout).unwrap()))
}

/// Removes what only a chart has: its labels, and the sum that replaces pods.
fn bare(mut object: Value) -> Value {
    for at in ["/metadata", "/spec/template/metadata"] {
        let Some(metadata) = object.pointer_mut(at).and_then(Value::as_object_mut) else {
            continue;
        };
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            let of_chart = |key: &str| {
                key.starts_with("helm.sh/")
                    || key.ends_with("/managed-by")
                    || key.ends_with("/version")
            };
            labels.retain(|key, _| !of_chart(key));
        }
        if let Some(notes) = metadata
            .get_mut("annotations")
            .and_then(Value::as_object_mut)
        {
            notes.remove("checksum/config");
            if notes.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    object
}

fn sorted(objects: Vec<Value>) -> Vec<(String, Value)> {
    let objects = objects
        .into_iter()
        .filter(|object| object["kind"] != "Namespace");
    let mut named: Vec<_> = objects
        .map(|object| (title(&object), bare(object)))
        .collect();
    named.sort_by(|a, b| a.0.cmp(&b.0));
    named
}

#[test]
fn the_chart_renders_the_manifests() {
    let Some(objects) = rendered(&[]) else { return };
    let (chart, plain) = (sorted(objects), sorted(plain()));
    let titles = |list: &[(String, Value)]| -> Vec<String> {
        list.iter().map(|(title, _)| title.clone()).collect()
    };
    assert_eq!(titles(&chart), titles(&plain));
    for ((title, made), (_, wanted)) in chart.iter().zip(&plain) {
        assert_eq!(made, wanted, "{title}");
    }
}

#[test]
fn each_choice_of_the_chart_renders_whole_objects() {
    let choices: [&[&str]; 7] = [
        &["node.enabled=false"],
        &["events.enabled=false"],
        &["events.persistence.enabled=false"],
        &["node.journald.enabled=false"],
        &["nameOverride=other", "image.tag=v9"],
        &[
            "splunk.endpoints={https://a:8088,https://b:8088}",
            "splunk.secret.name=x",
        ],
        &["node.podAnnotations.a=b", "node.seLinuxOptions.type=spc_t"],
    ];
    for set in choices {
        let Some(objects) = rendered(set) else { return };
        manifests::check(&objects);
    }
}

#[test]
fn the_chart_passes_its_lint_and_refuses_wrong_values() {
    let Some(lint) = helm(&["lint", "--strict", "--kube-version", "1.34.0", "inrush"]) else {
        return;
    };
    assert!(
        lint.status.success(),
        "{}",
        String::from_utf8_lossy(&lint.stdout)
    );
    for (value, words) in [
        ("splunk.endpoints={ftp://a}", "/splunk/endpoints/0"),
        (
            "splunk.endpoints={https://user:pw@a:8088}",
            "/splunk/endpoints/0",
        ),
        ("splunk.token=secret", "token"),
        ("node.maxUnavailable=0", "/node/maxUnavailable"),
        ("events.persistence.size=lots", "/events/persistence/size"),
    ] {
        let args = [
            "template",
            "x",
            "inrush",
            "--kube-version",
            "1.34.0",
            "--set",
            value,
        ];
        let output = helm(&args).unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && said.contains(words),
            "{value}: {said}"
        );
    }
}
