//! Files of `dist/`: the manifests, the chart and the examples of their guides; what packages and
//! images have.
#![allow(clippy::unwrap_used)]

mod chart;
mod checked;
mod examples;
mod host;
mod manifests;

use std::path::{Path, PathBuf};

use inrush_yaml::{Findings, NodeKind, Scalar, YamlNode};
use serde_json::{Map, Value};

/// The repository.
fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    root.canonicalize().unwrap()
}

/// One document of YAML as JSON.
fn document(text: &str) -> Value {
    let mut findings = Findings::default();
    let tree = inrush_yaml::read_plain(text, &mut findings);
    if let Err(problems) = findings.into_result("yaml") {
        panic!("{problems}\n{text}");
    }
    tree.map_or(Value::Null, |tree| json(&tree))
}

/// All documents of a text, those without content left out.
fn documents(text: &str) -> Vec<Value> {
    let text = format!("\n{text}");
    let content = |part: &&str| {
        let mut lines = part.lines().map(str::trim);
        lines.any(|line| !line.is_empty() && !line.starts_with('#'))
    };
    text.split("\n---").filter(content).map(document).collect()
}

fn json(node: &YamlNode) -> Value {
    match &node.kind {
        NodeKind::Scalar(scalar) => scalar_json(scalar),
        NodeKind::List(items) => items.iter().map(json).collect(),
        NodeKind::Map(entries) => {
            let entries = entries
                .iter()
                .map(|entry| (entry.key.clone(), json(&entry.value)));
            Value::Object(entries.collect::<Map<_, _>>())
        }
        NodeKind::Unresolved => panic!("{:?}: not read", node.at),
    }
}

fn scalar_json(scalar: &Scalar) -> Value {
    if scalar.is_null() {
        return Value::Null;
    }
    let integer = scalar.as_integer().and_then(|n| i64::try_from(n).ok());
    match (scalar.as_bool(), integer) {
        (Some(truth), _) => truth.into(),
        (None, Some(number)) => number.into(),
        (None, None) => scalar.text.clone().into(),
    }
}

/// An object's kind and name.
fn title(object: &Value) -> String {
    let name = object["metadata"]["name"].as_str().unwrap_or("?");
    format!("{} {name}", object["kind"].as_str().unwrap_or("?"))
}

/// Objects of a kind.
fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let found = objects.iter().filter(|object| object["kind"] == kind);
    found.collect()
}

/// Items of a list; none where there is no list.
fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The objects of dist/kubernetes, in the order of its kustomization.
fn plain() -> Vec<Value> {
    let folder = root().join("dist/kubernetes");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let kustomization = document(&read("kustomization.yaml"));
    let files = items(&kustomization["resources"]).iter();
    let objects: Vec<Value> = files
        .flat_map(|file| documents(&read(file.as_str().unwrap())))
        .collect();
    assert!(objects.len() >= 10, "{}", objects.len());
    objects
}

/// The objects of the part for syslog, which stands alone.
fn syslog() -> Vec<Value> {
    let file = root().join("dist/kubernetes/syslog.yaml");
    documents(&std::fs::read_to_string(file).unwrap())
}
