//! Filters of Fluent Bit, as transforms and as options of sources.
//!
//! # What it guarantees
//! * A filter holds for the sources whose tags its `Match` fits. Where that is a part of the events
//!   of a source, a note says so.
//! * Rules of `grep` that must all hold together are carried over all or none.
//! * A filter that has no counterpart changes nothing, and is named as a whole.
//!
//! # Limits
//! 500 transforms, and 4,000 bytes of a condition; what is beyond is named.

use super::inputs::{TaggedSource, fitting};
use super::multiline::LineParsers;
use crate::draft::{MigrationDraft, SettingFate};
use crate::foreign::{ForeignSection, ForeignSetting, is_secret, is_yes};
use crate::table::{KeyRule, KeyTable, pattern};
use crate::yaml::{is_variable, literal, quoted};

/// Plugins that have no counterpart, with what to do.
const ABSENT: &[(&str, &str)] = &[
    (
        "lua",
        "scripts do not run here: write transforms, whose expressions are CEL (docs/guides/transforms.md)",
    ),
    (
        "wasm",
        "programs do not run here: write transforms (docs/guides/transforms.md)",
    ),
    (
        "parser",
        "fields of known products come from packs (`product`), others are found at search time: the line is sent as it is",
    ),
    (
        "nest",
        "an event is its line, not a record to be arranged: fields are set by transforms",
    ),
    (
        "rewrite_tag",
        "there are no tags: write `routes`, which ask for fields and texts",
    ),
    (
        "throttle",
        "annotation `inrush.io/rate` on the workload: what is above it waits in its file",
    ),
    (
        "throttle_size",
        "annotation `inrush.io/rate` on the workload: what is above it waits in its file",
    ),
    (
        "sampling",
        "annotation `inrush.io/sample` on the workload: counted as filtered",
    ),
    (
        "type_converter",
        "fields are texts: Splunk reads numbers by itself",
    ),
    (
        "geoip2",
        "addresses are looked up at search time (`iplocation`)",
    ),
    (
        "aws",
        "metadata of AWS is not read: set fields by a transform from variables of the environment",
    ),
    ("ecs", "metadata of ECS is not read"),
    (
        "sysinfo",
        "the host is a field of each event; set others by a transform",
    ),
    (
        "expect",
        "`inrush explain` tests records against a configuration",
    ),
    (
        "checklist",
        "write a transform with `in [...]`, or a lookup at search time",
    ),
    (
        "log_to_metrics",
        "metrics are not made of events here: count at search time",
    ),
    ("tensorflow", "models do not run here"),
];

/// Keys of `kubernetes`.
const KUBERNETES: &KeyTable = &[
    (
        "match*",
        KeyRule::Needless("the source of the files has the option"),
    ),
    (
        "kube_url",
        KeyRule::Needless(
            "the API of the cluster that the pod runs in is found by itself; `kubernetes.kubeconfig` for another",
        ),
    ),
    (
        "kube_ca_*",
        KeyRule::Needless("the service account's files are used"),
    ),
    (
        "kube_token_*",
        KeyRule::Needless("the service account's files are used"),
    ),
    (
        "kube_meta_*",
        KeyRule::Needless("pods are known by one watch; those that are gone, for an hour"),
    ),
    (
        "kube_tag_prefix",
        KeyRule::Needless("namespace, pod and container are read from the path"),
    ),
    (
        "use_tag_for_meta",
        KeyRule::Needless("namespace, pod and container are read from the path"),
    ),
    (
        "regex_parser",
        KeyRule::Needless("namespace, pod and container are read from the path"),
    ),
    (
        "cache_use_docker_id",
        KeyRule::Needless("pods are told apart by their uid"),
    ),
    (
        "use_kubelet",
        KeyRule::Needless("one watch of this node's pods: no request for each pod"),
    ),
    (
        "kubelet_*",
        KeyRule::Needless("one watch of this node's pods: no request for each pod"),
    ),
    (
        "buffer_size",
        KeyRule::Needless("answers are read whole, within a bound"),
    ),
    (
        "dns_*",
        KeyRule::Needless("a connection that fails is tried again"),
    ),
    (
        "use_journal",
        KeyRule::Missing(
            "containers with the log driver journald: fields CONTAINER_… of the journal stay as they are",
        ),
    ),
    (
        "tls.*",
        KeyRule::Needless("the authority of the service account is trusted"),
    ),
    ("dummy_meta", KeyRule::Needless("for tests only")),
    (
        "merge_log*",
        KeyRule::Missing(
            "JSON in a line stays as it is: Splunk reads it at search time (KV_MODE = json)",
        ),
    ),
    (
        "merge_parser",
        KeyRule::Missing(
            "JSON in a line stays as it is: Splunk reads it at search time (KV_MODE = json)",
        ),
    ),
    (
        "keep_log",
        KeyRule::Needless("the line is always the event"),
    ),
    (
        "owner_references",
        KeyRule::Needless("the workload is a field where RBAC lets it be read"),
    ),
    (
        "namespace_*",
        KeyRule::Missing("annotations of namespaces route events; their labels are no fields"),
    ),
];

/// Applies the filters, in their order.
pub(super) fn write(
    sections: &mut [ForeignSection],
    inputs: &[TaggedSource],
    parsers: &mut LineParsers,
    draft: &mut MigrationDraft,
) {
    for section in sections {
        let plugin = section.take("name").map(|name| name.value);
        let plugin = plugin.unwrap_or_default().trim().to_ascii_lowercase();
        section.take("alias");
        let known = ABSENT.iter().find(|(name, _)| *name == plugin);
        if let Some((_, why)) = known {
            draft.tell_section(SettingFate::Missing, section, why);
            continue;
        }
        if ![
            "kubernetes",
            "grep",
            "modify",
            "record_modifier",
            "multiline",
            "stdout",
        ]
        .contains(&plugin.as_str())
        {
            let why = "a filter that this program does not know: see whether you need it";
            draft.tell_section(SettingFate::Unknown, section, why);
            continue;
        }
        let sources = matched(section, inputs, draft);
        if sources.is_empty() {
            let why = "its Match fits no input that came over";
            draft.tell_section(SettingFate::Missing, section, why);
            continue;
        }
        match plugin.as_str() {
            "kubernetes" => kubernetes(section, &sources, draft),
            "grep" => grep(section, &sources, draft),
            "multiline" => multiline(section, &sources, parsers, draft),
            "stdout" => {
                let why = "`inrush explain` and `inrush queue cat` show events";
                draft.tell_section(SettingFate::Needless, section, why);
                section.take_rest();
            }
            _ => set_fields(section, &sources, draft),
        }
        draft.unknown_rest(section);
    }
}

/// The sources whose events a filter gets.
fn matched(
    section: &mut ForeignSection,
    inputs: &[TaggedSource],
    draft: &mut MigrationDraft,
) -> Vec<String> {
    if let Some(setting) = section.take("match_regex") {
        let why = "there are no tags: it is applied to all sources; add a `match` to its transform";
        draft.missing(section, &setting, why);
        return inputs.iter().map(|input| input.name.clone()).collect();
    }
    let Some(setting) = section.take("match") else {
        return inputs.iter().map(|input| input.name.clone()).collect();
    };
    let (sources, part) = fitting(inputs, setting.value.trim());
    if part {
        let why = "it fits a part of the events of a source: add a condition on `source` (the \
                   path) to its transform, which has all of them";
        draft.missing(section, &setting, why);
    } else {
        draft.tell(
            SettingFate::Renamed,
            section,
            &setting,
            "`listener` in the transform",
        );
    }
    sources
}

fn kubernetes(section: &mut ForeignSection, sources: &[String], draft: &mut MigrationDraft) {
    let mut options: Vec<(&str, String)> = Vec::new();
    let files = draft.sources_of("file");
    let path = "sources.…kubernetes";
    for (key, option) in [("labels", "labels"), ("annotations", "annotations")] {
        match section.take(key) {
            Some(setting) if is_yes(&setting.value) => {
                options.push((option, "[\"*\"]".to_owned()));
                let why = format!("{path}.{option}: name those that you search for, not all");
                draft.tell(SettingFate::Renamed, section, &setting, &why);
            }
            Some(setting) => draft.needless(section, &setting, "none become fields unless named"),
            None => {
                let why = format!(
                    "{key} become fields there by default, and here only those that \
                     `kubernetes.{option}` names by glob"
                );
                draft.tell_of(SettingFate::Missing, &section.place, &section.name, &why);
            }
        }
    }
    let switches = section.take_where(|key| key.starts_with("k8s-logging."));
    if switches.iter().any(|setting| is_yes(&setting.value)) {
        options.push(("compatibility", "[fluentbit]".to_owned()));
    }
    for setting in &switches {
        let why = format!("{path}.compatibility: fluentbit.io/exclude counts beside inrush.io/…");
        draft.tell(SettingFate::Renamed, section, setting, &why);
    }
    // Without an option it is there all the same: the path alone gives the names.
    options.push(("fields", "otel".to_owned()));
    for source in sources.iter().filter(|source| files.contains(source)) {
        if let Some(entry) = draft.source(source) {
            for (option, value) in &options {
                entry.set(&format!("kubernetes.{option}"), value.clone());
            }
        }
    }
    let why = "sources.….kubernetes: namespace, pod and container as k8s.… fields";
    draft.tell_of(SettingFate::Renamed, &section.place, &section.name, why);
    apply_known(section, draft);
}

/// Applies the table, which has no option of an entry.
fn apply_known(section: &mut ForeignSection, draft: &mut MigrationDraft) {
    let mut nothing = crate::draft::DraftEntry::new("none", "none");
    crate::table::apply(draft, section, &mut nothing, "", &[KUBERNETES]);
}

/// The expression for a key of a record, or nothing if no event has it.
fn accessor(key: &str) -> Option<String> {
    match key.trim().trim_start_matches('$') {
        "log" | "message" | "MESSAGE" | "msg" | "_raw" => Some("message".to_owned()),
        "host" | "hostname" | "_HOSTNAME" => Some("host".to_owned()),
        "ident" | "SYSLOG_IDENTIFIER" => Some("program".to_owned()),
        other => {
            let inner = other
                .strip_prefix("kubernetes['")
                .and_then(|rest| rest.strip_suffix("']"))?;
            let field = match inner {
                "namespace_name" => "k8s.namespace.name",
                "pod_name" => "k8s.pod.name",
                "container_name" => "k8s.container.name",
                "pod_id" => "k8s.pod.uid",
                _ => return None,
            };
            Some(format!("fields[{}]", literal(field)))
        }
    }
}

fn grep(section: &mut ForeignSection, sources: &[String], draft: &mut MigrationDraft) {
    let any = section.take("logical_op");
    let is_or = any
        .as_ref()
        .is_some_and(|any| any.value.trim().eq_ignore_ascii_case("or"));
    if let Some(any) = &any {
        draft.carried(section, any, "the transform");
    }
    for (key, kept) in [("regex", true), ("exclude", false)] {
        let settings = section.take_all(key);
        if settings.is_empty() {
            continue;
        }
        let found: Vec<Option<String>> = settings
            .iter()
            .map(|setting| grep_condition(section, setting, draft))
            .collect();
        let whole = found.iter().all(Option::is_some);
        let found: Vec<String> = found.into_iter().flatten().collect();
        // A part of "all of them" or of "one of them" would filter what must stay.
        if found.is_empty() || !whole && (kept || !is_or) && settings.len() > 1 && (kept == is_or) {
            continue;
        }
        let joint = if is_or { " || " } else { " && " };
        let joined = match (kept, is_or || settings.len() == 1) {
            // Without an operator each rule filters on its own.
            (false, false) if any.is_none() => found.join(" || "),
            _ => found.join(joint),
        };
        let when = match kept {
            true => format!("!({joined})"),
            false => format!("({joined})"),
        };
        let of = draft.of_sources(sources);
        let name = format!("grep {key} {}", section.place);
        draft.transform(section, &name, &[of, Some(when)], "drop: true");
    }
}

fn grep_condition(
    section: &ForeignSection,
    setting: &ForeignSetting,
    draft: &mut MigrationDraft,
) -> Option<String> {
    let (key, regex) = setting.value.trim().split_once([' ', '\t'])?;
    let Some(accessor) = accessor(key) else {
        let why = "events have no such field: ask for `message.matches(\"…\")`, or for a field of \
                   `kubernetes.labels`";
        draft.missing(section, setting, why);
        return None;
    };
    match pattern(regex.trim()) {
        Ok(regex) => {
            draft.carried(
                section,
                setting,
                "a transform with `drop`: counted as filtered",
            );
            Some(format!("{accessor}.matches({})", literal(regex)))
        }
        Err(why) => {
            draft.missing(section, setting, why);
            None
        }
    }
}

/// `modify` and `record_modifier`: fields that are set.
fn set_fields(section: &mut ForeignSection, sources: &[String], draft: &mut MigrationDraft) {
    const RECORD: &str = "an event is its line, not a record: there is no field to rename or to \
                          remove before one is set by a transform";
    let mut fields: Vec<String> = Vec::new();
    for setting in section.take_where(|key| ["add", "set", "record"].contains(&key)) {
        let Some((key, value)) = setting.value.trim().split_once([' ', '\t']) else {
            draft.missing(section, &setting, "no `KEY VALUE`");
            continue;
        };
        let value = value.trim();
        let written = match is_secret(key) && !is_variable(value) {
            true => {
                let name = crate::yaml::name(key)
                    .to_ascii_uppercase()
                    .replace('-', "_");
                let why = format!("a secret is not written down: set the variable {name} to it");
                draft.missing(section, &setting, &why);
                format!("${{{name}}}")
            }
            false => {
                draft.carried(section, &setting, "a transform that sets a field");
                value.to_owned()
            }
        };
        fields.push(format!(
            "{}: {}",
            quoted(key),
            crate::yaml::referring(&literal(&written))
        ));
    }
    for setting in section.take_where(|key| {
        [
            "remove",
            "rename",
            "hard_rename",
            "copy",
            "hard_copy",
            "move_to_start",
            "move_to_end",
        ]
        .contains(&key)
            || key.starts_with("remove_")
            || key.ends_with("list_key")
            || key == "condition"
            || key == "uuid_key"
    }) {
        draft.missing(section, &setting, RECORD);
    }
    if !fields.is_empty() {
        let of = draft.of_sources(sources);
        let name = format!("fields {}", section.place);
        let does = format!("set: {{ fields: {{ {} }} }}", fields.join(", "));
        draft.transform(section, &name, &[of], &does);
    }
}

fn multiline(
    section: &mut ForeignSection,
    sources: &[String],
    parsers: &mut LineParsers,
    draft: &mut MigrationDraft,
) {
    for setting in section.take_all("multiline.parser") {
        for name in setting.value.split(',').map(str::trim) {
            if ["docker", "cri", ""].contains(&name) {
                let why = "pieces of a long line are always joined, for each stream";
                draft.needless(section, &setting, why);
                continue;
            }
            let mut outcome = Err("no source of files gets it");
            for source in sources {
                if let Some(entry) = draft.source(source) {
                    outcome = parsers.join(name, entry);
                }
            }
            match outcome {
                Ok(option) => {
                    let why = format!("sources.….{option}");
                    draft.tell(SettingFate::Renamed, section, &setting, &why);
                }
                Err(why) => draft.missing(section, &setting, why),
            }
        }
    }
    for setting in section.take_where(|key| {
        ["multiline.key_content", "mode", "buffer", "flush_ms"].contains(&key)
            || key.starts_with("emitter")
    }) {
        let why = "lines are joined where they are read, within bounds of time and size";
        draft.needless(section, &setting, why);
    }
}
