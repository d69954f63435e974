//! Checks that every made configuration must pass, for the tests of all collectors.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use inrush_cel::{Program, ResultKind};
use inrush_yaml::{Findings, NodeKind, YamlNode};

use crate::Migration;

/// Options of each type, as the reference has them and, for those that are being built, their plan.
const OPTIONS: [(&str, &[&str]); 9] = [
    (
        "file",
        &[
            "include",
            "exclude",
            "format",
            "start_at",
            "multiline",
            "encoding",
            "max_line_bytes",
            "older_than",
            "compressed",
            "rotate_hold",
            "follow_outside",
            "index",
            "sourcetype",
            "source",
            "host",
            "product",
            "packs",
            "kubernetes",
            "docker",
            "path",
            "rotate",
            "compression",
            "queue",
        ],
    ),
    (
        "journald",
        &[
            "directory",
            "namespace",
            "matches",
            "units",
            "priority",
            "start_at",
            "index",
            "sourcetype",
            "source",
            "host",
            "fields",
            "journalctl",
        ],
    ),
    (
        "kubernetes_events",
        &[
            "kubeconfig",
            "namespace",
            "lease",
            "lease_namespace",
            "start_at",
            "index",
            "sourcetype",
            "source",
            "host",
        ],
    ),
    (
        "syslog",
        &["listen", "tls", "stream", "udp", "index", "sourcetype"],
    ),
    (
        "splunk_hec",
        &[
            "listen",
            "tls",
            "tokens",
            "index",
            "sourcetype",
            "endpoints",
            "token",
            "compression",
            "source",
            "event_id",
            "request_timeout",
            "acknowledgements",
            "ack_timeout",
            "reroute_index",
            "unknown_index",
            "proxy",
            "queue",
        ],
    ),
    ("stdout", &["queue"]),
    ("blackhole", &["queue"]),
    ("store", &["queue"]),
    ("none", &[]),
];

/// Reads the configuration as `inrush check` does, and compares its names.
pub(crate) fn read(made: &Migration) -> YamlNode {
    let mut findings = Findings::default();
    let root = inrush_yaml::read_plain(&made.config, &mut findings);
    if let Err(problems) = findings.into_result("inrush.yaml") {
        panic!("{problems}\n{}", made.config);
    }
    let root = root.unwrap();
    let names = |section: &str| -> BTreeSet<String> {
        let entries = root.get(section).map(YamlNode::entries).unwrap_or_default();
        entries.iter().map(|entry| entry.key.clone()).collect()
    };
    for section in ["sources", "destinations"] {
        for entry in root.get(section).unwrap().entries() {
            check_entry(&entry.key, &entry.value);
        }
    }
    let destinations = names("destinations");
    for route in root.get("routes").map(YamlNode::items).unwrap_or_default() {
        for to in route.get("to").unwrap().items() {
            assert!(destinations.contains(text(to)), "{}", made.config);
        }
    }
    expressions(&root);
    root
}

/// Compiles all expressions, as the configuration does.
fn expressions(root: &YamlNode) {
    let compile = |node: &YamlNode, kind: ResultKind| {
        let written = text(node).replace("$$", "$");
        if let Err(error) = Program::compile(&written, kind) {
            panic!("{written}: {error}");
        }
    };
    for section in ["transforms", "routes"] {
        for rule in root.get(section).map(YamlNode::items).unwrap_or_default() {
            if let Some(condition) = rule.get("match") {
                compile(condition, ResultKind::Condition);
            }
            for set in rule.get("set").map(YamlNode::entries).unwrap_or_default() {
                match set.value.entries() {
                    [] => compile(&set.value, ResultKind::Value),
                    fields => fields
                        .iter()
                        .for_each(|field| compile(&field.value, ResultKind::Value)),
                }
            }
        }
    }
}

fn check_entry(name: &str, entry: &YamlNode) {
    let kind = text(entry.get("type").unwrap());
    let known = OPTIONS.iter().find(|(known, _)| *known == kind);
    let (_, options) = known.unwrap_or_else(|| panic!("{name}: {kind}"));
    for option in entry.entries().iter().filter(|one| one.key != "type") {
        assert!(
            options.contains(&option.key.as_str()),
            "{name}: {}",
            option.key
        );
    }
}

/// The text of a scalar.
pub(crate) fn text(node: &YamlNode) -> &str {
    match &node.kind {
        NodeKind::Scalar(scalar) => &scalar.text,
        _ => panic!("no scalar"),
    }
}

/// The value at a path whose parts have dots between them.
pub(crate) fn at<'a>(root: &'a YamlNode, path: &str) -> &'a YamlNode {
    let mut parts = path.split('.');
    parts
        .try_fold(root, |node, part| node.get(part))
        .unwrap_or_else(|| panic!("{path} is not there"))
}

/// The text at a path.
pub(crate) fn value<'a>(root: &'a YamlNode, path: &str) -> &'a str {
    text(at(root, path))
}

/// The texts of the list at a path.
pub(crate) fn values<'a>(root: &'a YamlNode, path: &str) -> Vec<&'a str> {
    at(root, path).items().iter().map(text).collect()
}

/// Notes as lines.
pub(crate) fn notes(made: &Migration) -> Vec<String> {
    let notes = made.notes.iter();
    notes
        .map(|note| format!("{}: {}", note.what, note.why))
        .collect()
}

/// Asserts that each of these stands in a line of the comment with this head.
pub(crate) fn under(made: &Migration, head: &str, wanted: &[&str]) {
    let mut lines = made.config.lines();
    let head = format!("# {head}:");
    assert!(lines.any(|line| line == head), "{head}\n{}", made.config);
    let lines: Vec<&str> = lines.take_while(|line| line.starts_with("#   ")).collect();
    for wanted in wanted {
        let found = lines.iter().any(|line| line.contains(wanted));
        assert!(found, "{wanted} is not in\n{}", lines.join("\n"));
    }
}

/// Asserts that a text stands nowhere in what is printed.
pub(crate) fn nowhere(made: &Migration, secrets: &[&str]) {
    for secret in secrets {
        assert!(!made.config.contains(secret), "{secret}\n{}", made.config);
        assert!(!notes(made).concat().contains(secret), "{secret}");
    }
}

/// Texts that end in the middle, hold what no file should, or are long.
pub(crate) fn hostile(sample: &str) -> Vec<String> {
    let cut = (0..sample.len())
        .step_by(37)
        .filter(|at| sample.is_char_boundary(*at));
    let mut texts: Vec<String> = cut.map(|at| sample[..at].to_owned()).collect();
    let (big, large) = (10 * 1024 * 1024, 1024 * 1024);
    texts.extend([
        "\0\u{1b}[31m\u{202e}[x\0]\r\n\0 = \0\n".to_owned(),
        sample.replace('=', "\0\u{1b}=").replace("  ", "\u{85}"),
        sample.replace('\n', "\r\n"),
        format!("[input.files]\n{}", "a = b\n".repeat(big / 6)),
        "[".repeat(large),
        "[a]\n".repeat(large / 4),
        format!("[INPUT]\n{}", " a b\n".repeat(large / 5)),
        format!("[INPUT]\n Name tail\n Path {}\n", "x".repeat(large)),
        format!("[input.files::x]\npath = {}\n", "x".repeat(large)),
        "pipeline:\n".to_owned() + &" - x\n".repeat(large / 5),
        format!(
            "apiVersion: v1\nkind: x\n{}",
            "---\na: b\n".repeat(large / 9)
        ),
        "${".repeat(large / 2),
    ]);
    texts
}
