//! Outputs of Collectord: HEC, and what is not carried over.

use std::collections::BTreeMap;

use crate::draft::{DraftEntry, MigrationDraft, SettingFate};
use crate::foreign::{ForeignSection, is_yes, without_secrets};
use crate::table::{KeyRule, KeyTable, apply};
use crate::yaml::{is_variable, list, quoted};

/// Outputs by the name that inputs give them, with the destination's name.
pub(super) type OutputMap = BTreeMap<String, String>;

/// Keys of `output.splunk`.
const HEC: &KeyTable = &[
    ("timeout", KeyRule::Time("request_timeout", "s")),
    ("ackenabled", KeyRule::Switch("acknowledgements")),
    ("acktimeout", KeyRule::Time("ack_timeout", "s")),
    ("includeeventid", KeyRule::Switch("event_id")),
    (
        "ackurl*",
        KeyRule::Missing(
            "acknowledgements are asked of the endpoint itself: a balancer must keep a connection at one indexer",
        ),
    ),
    (
        "urlselection",
        KeyRule::Needless(
            "requests go to all endpoints by what each has in flight, and around those that fail",
        ),
    ),
    (
        "events",
        KeyRule::Needless("a request has up to 1 MB (`batch`), and waits 45 ms at most"),
    ),
    (
        "batchsize",
        KeyRule::Needless("a request has up to 1 MB (`batch`), and waits 45 ms at most"),
    ),
    (
        "frequency",
        KeyRule::Needless("an event waits 45 ms at most for others (`batch.timeout`)"),
    ),
    (
        "threads*",
        KeyRule::Needless("`workers: auto` finds how many requests in flight are worth it"),
    ),
    (
        "queuesize",
        KeyRule::Needless(
            "the queue is on disk (`queue.max_bytes`): files are read on while the collector is away",
        ),
    ),
    (
        "dedicatedclientperindex",
        KeyRule::Needless(
            "one refused index costs its own events only (`reroute_index`, `unknown_index`)",
        ),
    ),
    (
        "timestampprecision",
        KeyRule::Needless("times keep their nanoseconds"),
    ),
    (
        "mintlsversion",
        KeyRule::Needless("TLS 1.2 and 1.3 are spoken, nothing older"),
    ),
    (
        "maxtlsversion",
        KeyRule::Needless("TLS 1.2 and 1.3 are spoken, nothing older"),
    ),
    (
        "requireexplicitindex",
        KeyRule::Missing(
            "filter what has no index of its own by a transform: `match: 'index == \"main\"', drop: true`",
        ),
    ),
    (
        "excludefields.*",
        KeyRule::Missing(
            "fields of pods are `kubernetes.fields`, others `indexed_fields`: take away single ones by a transform that sets them to \"\"",
        ),
    ),
];

/// Writes the destinations.
pub(super) fn write(sections: &mut [ForeignSection], draft: &mut MigrationDraft) -> OutputMap {
    let mut outputs = OutputMap::new();
    for section in sections {
        let Some(kind) = section.name.strip_prefix("output.") else {
            continue;
        };
        let kind = kind.to_owned();
        let (kind, instance) = kind.split_once("::").unwrap_or((&kind, ""));
        if section.take_switch("disabled") == Some(true) {
            draft.tell_section(SettingFate::Needless, section, "it is switched off");
            section.take_rest();
            continue;
        }
        match kind {
            "splunk" => hec(section, instance, &mut outputs, draft),
            "devnull" => {
                draft.tell_section(SettingFate::Carried, section, "a transform with `drop`");
                section.take_rest();
            }
            _ => {
                let why = "Inrush has no such destination yet (see `destinations` in \
                           docs/reference/configuration.md): send by HEC, or keep Collectord for it";
                draft.tell_section(SettingFate::Missing, section, why);
                section.take_rest();
            }
        }
    }
    outputs
}

fn hec(
    section: &mut ForeignSection,
    instance: &str,
    outputs: &mut OutputMap,
    draft: &mut MigrationDraft,
) {
    let (wanted, reference) = match instance {
        "" => ("splunk", "splunk".to_owned()),
        instance => (instance, format!("splunk::{instance}")),
    };
    let mut entry = DraftEntry::new(wanted, "splunk_hec");
    entry.comment(&format!("[{}], {}", section.name, section.place));
    let path = format!("destinations.{}", entry.name());
    endpoints(section, &mut entry, &path, draft);
    token(section, &mut entry, instance, &path, draft);
    entry.set("event_id", "true");
    index_behaviour(section, &mut entry, &path, draft);
    compression(section, &mut entry, &path, draft);
    proxy(section, &mut entry, instance, &path, draft);
    apply(draft, section, &mut entry, &path, &[HEC]);
    match draft.add_destination(entry) {
        Some(name) => {
            outputs.insert(reference, name);
        }
        None => draft.tell_section(SettingFate::Missing, section, "more than 100 destinations"),
    }
}

fn endpoints(
    section: &mut ForeignSection,
    entry: &mut DraftEntry,
    path: &str,
    draft: &mut MigrationDraft,
) {
    let settings = section.take_where(|key| key == "url" || key.starts_with("urls."));
    let mut urls = Vec::new();
    for setting in &settings {
        let (url, had_secrets) = without_secrets(setting.value.trim());
        if had_secrets {
            let why = "the address holds a user, a password or a query, which is left out here: \
                       the token alone counts";
            draft.missing(section, setting, why);
        } else {
            draft.carried(section, setting, &format!("{path}.endpoints"));
        }
        if !url.is_empty() && !urls.contains(&url) {
            urls.push(url);
        }
    }
    if urls.is_empty() {
        let why = "it has no url: write the addresses of the collectors into `endpoints`";
        draft.tell_section(SettingFate::Missing, section, why);
        urls.push("https://splunk.example:8088".to_owned());
    }
    entry.set("endpoints", list(&urls));
}

fn token(
    section: &mut ForeignSection,
    entry: &mut DraftEntry,
    instance: &str,
    path: &str,
    draft: &mut MigrationDraft,
) {
    let name = variable("SPLUNK_TOKEN", instance);
    let setting = section.take("token");
    let variable = setting.as_ref().map(|setting| setting.value.trim());
    match variable.filter(|value| is_variable(value)) {
        Some(variable) => entry.set("token", format!("\"{variable}\"")),
        None => entry.set("token", format!("\"${{{name}}}\"")),
    }
    match &setting {
        Some(setting) if is_variable(setting.value.trim()) => {
            draft.carried(section, setting, &format!("{path}.token"));
        }
        Some(setting) => {
            let why = format!("a secret is not written down: set the variable {name} to it");
            draft.missing(section, setting, &why);
        }
        None => {
            let why = format!("it has no token: set the variable {name} to one");
            draft.tell_of(SettingFate::Missing, &section.place, &section.name, &why);
        }
    }
}

/// The variable for a secret of an output.
fn variable(name: &str, instance: &str) -> String {
    match instance {
        "" => name.to_owned(),
        instance => {
            let instance = crate::yaml::name(instance).to_ascii_uppercase();
            format!("{name}_{}", instance.replace('-', "_"))
        }
    }
}

fn index_behaviour(
    section: &mut ForeignSection,
    entry: &mut DraftEntry,
    path: &str,
    draft: &mut MigrationDraft,
) {
    let Some(setting) = section.take("incorrectIndexBehavior") else {
        return;
    };
    let (option, value, remark) = match setting.value.trim().to_ascii_lowercase().as_str() {
        "redirecttodefault" => ("reroute_index", "main", ": write the token's default index"),
        "drop" => (
            "unknown_index",
            "quarantine",
            ": such events are kept apart, and can be sent again or deleted",
        ),
        "retry" => ("unknown_index", "hold", ""),
        _ => return draft.missing(section, &setting, "its value is not understood"),
    };
    entry.set(option, value);
    let why = format!("{path}.{option}{remark}");
    draft.tell(SettingFate::Renamed, section, &setting, &why);
}

fn compression(
    section: &mut ForeignSection,
    entry: &mut DraftEntry,
    path: &str,
    draft: &mut MigrationDraft,
) {
    let Some(setting) = section.take("compressionLevel") else {
        return;
    };
    let value = setting.value.trim().to_ascii_lowercase();
    let off = value.starts_with("no") || value == "0";
    entry.set("compression", if off { "none" } else { "gzip" });
    let why = format!("{path}.compression: within a data centre `none` costs less CPU");
    draft.tell(SettingFate::Renamed, section, &setting, &why);
}

fn proxy(
    section: &mut ForeignSection,
    entry: &mut DraftEntry,
    instance: &str,
    path: &str,
    draft: &mut MigrationDraft,
) {
    for setting in section.take_where(|key| key.starts_with("proxy")) {
        let (url, had_secrets) = without_secrets(setting.value.trim());
        if setting.key.eq_ignore_ascii_case("proxyurl") || setting.key.eq_ignore_ascii_case("proxy")
        {
            entry.set("proxy", quoted(&url));
            draft.carried(section, &setting, &format!("{path}.proxy"));
            if had_secrets {
                let why = "its password is not written down: put the whole address into a variable";
                draft.missing(section, &setting, why);
            }
        } else {
            let name = variable("SPLUNK_PROXY", instance);
            let why = format!("`proxy: \"${{{name}}}\"` with `http://user:password@host:port`");
            draft.missing(section, &setting, &why);
        }
    }
}

/// Destination that an input names, or the fate of its events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum OutputTarget {
    /// Destination of this name.
    Named(String),
    /// Nowhere: filtered.
    Nowhere,
    /// Output that did not come over.
    Lost,
}

/// Finds the destination that an input names.
pub(super) fn target(outputs: &OutputMap, value: &str) -> OutputTarget {
    match value.trim() {
        "devnull" => OutputTarget::Nowhere,
        value => match outputs.get(value) {
            Some(name) => OutputTarget::Named(name.clone()),
            None => OutputTarget::Lost,
        },
    }
}

/// True if a section is switched off.
pub(super) fn is_off(section: &mut ForeignSection) -> bool {
    let enabled = section.take("enabled").map(|one| is_yes(&one.value));
    section.take_switch("disabled") == Some(true) || enabled == Some(false)
}
