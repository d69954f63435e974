//! Inputs of Collectord, what it sets for all of them, and the way of their events.
//!
//! # What it guarantees
//! * An input that is switched off makes no source. One without a counterpart is named as a whole.
//! * A list of lines to keep is carried over whole or not at all: a part of it would filter events
//!   that must stay.
//! * Events of an input go where its `output` says, and all others to the first destination.
//!
//! # Limits
//! Those of the draft: 100 sources, 500 transforms.

use super::outputs::{OutputMap, OutputTarget, is_off, target};
use crate::containers::ALL_PODS;
use crate::draft::{DraftEntry, MigrationDraft, SettingFate};
use crate::foreign::{ForeignSection, ForeignSetting, is_yes};
use crate::table::{KeyRule, KeyTable, apply, pattern, pattern_value, seconds};
use crate::yaml::{list, literal, quoted};

const EXTRACTION: KeyRule = KeyRule::Missing(
    "fields and times out of lines: packs do it for known products (`product`), searches for others",
);
const POLLING: KeyRule =
    KeyRule::Needless("inotify tells of new files and of growth at once; polling is the fallback");
const RATE: KeyRule = KeyRule::Missing(
    "annotation `inrush.io/rate` on the workload or namespace: what is above it waits in its file",
);

/// Keys of all inputs that are files.
const FILES: &KeyTable = &[
    ("type", KeyRule::Text("sourcetype")),
    ("index", KeyRule::Text("index")),
    ("source", KeyRule::Text("source")),
    ("host", KeyRule::Text("host")),
    ("maxholdafterclose", KeyRule::Time("rotate_hold", "s")),
    ("extraction*", EXTRACTION),
    ("timestamp*", EXTRACTION),
    ("thruputpersecond", RATE),
    (
        "sampling*",
        KeyRule::Missing("annotation `inrush.io/sample` on the workload: counted as filtered"),
    ),
    (
        "strip*",
        KeyRule::Missing(
            "annotation `inrush.io/strip_ansi: \"true\"` on the workload, or `kubernetes.enforce` for all",
        ),
    ),
    (
        "match",
        KeyRule::Missing("file names are chosen by glob: write `include` and `exclude`"),
    ),
    (
        "joinpartial*",
        KeyRule::Needless("pieces of a long line are always joined, for each stream"),
    ),
    ("*interval*", POLLING),
    (
        "*buffer*",
        KeyRule::Needless("files are read in pieces that suit them, into the batch itself"),
    ),
    (
        "*thread*",
        KeyRule::Needless("all cores are used as files ask for them"),
    ),
];

/// Keys of `input.journald`.
const JOURNAL: &KeyTable = &[
    ("type", KeyRule::Text("sourcetype")),
    ("index", KeyRule::Text("index")),
    ("source", KeyRule::Text("source")),
    ("host", KeyRule::Text("host")),
    (
        "path*",
        KeyRule::Needless("the journals of /var/log/journal and /run/log/journal are read"),
    ),
    ("thruputpersecond", RATE),
    ("extraction*", EXTRACTION),
    ("timestamp*", EXTRACTION),
    (
        "*interval*",
        KeyRule::Needless("vanished journal files are let go of by themselves"),
    ),
    (
        "*reopen*",
        KeyRule::Needless("vanished journal files are let go of by themselves"),
    ),
    (
        "*process*",
        KeyRule::Needless(
            "the journal is read in a process of its own: a damaged file ends only that",
        ),
    ),
];

/// Sections of metrics, which are not carried over.
const METRICS: [&str; 9] = [
    "input.system_stats",
    "input.proc_stats",
    "input.net_stats",
    "input.net_socket_table",
    "input.mount_stats",
    "input.disk_stats",
    "input.prometheus",
    "input.kubernetes_watch",
    "diagnostics",
];

/// Writes the sources, the transforms and the routes.
pub(super) fn write(
    sections: &mut [ForeignSection],
    outputs: &OutputMap,
    draft: &mut MigrationDraft,
) {
    let mut way = EventWay::default();
    for section in sections.iter_mut() {
        input(section, outputs, &mut way, draft);
    }
    for section in sections.iter_mut() {
        match section.name.as_str() {
            name if name.starts_with("general") => general(section, draft),
            "pipe.join" => join(section, draft),
            _ => {}
        }
    }
    draft.top("data_dir: /var/lib/inrush # a folder of its own: not Collectord's");
    way.write(outputs, draft);
}

fn input(
    section: &mut ForeignSection,
    outputs: &OutputMap,
    way: &mut EventWay,
    draft: &mut MigrationDraft,
) {
    let name = section.name.clone();
    let (kind, instance) = name.split_once("::").unwrap_or((&name, ""));
    if METRICS.iter().any(|metrics| kind.starts_with(metrics)) {
        let why = "metrics and objects are not collected here: node exporter or the OpenTelemetry \
                   Collector do it";
        draft.tell_section(SettingFate::Missing, section, why);
        section.take_rest();
        return;
    }
    if !kind.starts_with("input.") {
        return;
    }
    if is_off(section) {
        draft.tell_section(SettingFate::Needless, section, "it is switched off");
        section.take_rest();
        return;
    }
    match (kind, instance) {
        ("input.files", "") => containers(section, outputs, way, draft),
        ("input.files", instance) => host_files(section, instance, outputs, way, draft),
        ("input.journald", _) => journal(section, outputs, way, draft),
        ("input.kubernetes_events", _) => events(section, outputs, way, draft),
        ("input.app_logs", _) => {
            let why = "logs in volumes are found by annotation: `inrush.io/volume.NAME: GLOB` on \
                       the workload, index and sourcetype likewise";
            draft.tell_section(SettingFate::Missing, section, why);
            section.take_rest();
        }
        _ => {
            let why = "an input that this program does not know: see whether you need it";
            draft.tell_section(SettingFate::Unknown, section, why);
            section.take_rest();
        }
    }
}

/// The path of the host behind the one that a container saw, without a slash at its end.
fn host_path(value: &str) -> &str {
    let path = value.trim();
    let path = match path.strip_prefix("/rootfs") {
        Some(rest) if rest.starts_with('/') => rest,
        _ => path,
    };
    path.trim_end_matches('/')
}

fn containers(
    section: &mut ForeignSection,
    outputs: &OutputMap,
    way: &mut EventWay,
    draft: &mut MigrationDraft,
) {
    let mut entry = DraftEntry::new("containers", "file");
    entry.comment(&format!("[{}], {}", section.name, section.place));
    let (docker, cri) = (section.take("path"), section.take("crioPath"));
    let path = "sources.containers";
    match (&docker, &cri) {
        (Some(docker), None) => {
            docker_paths(&mut entry, host_path(&docker.value));
            draft.carried(section, docker, &format!("{path}.include"));
        }
        (docker, cri) => {
            let pods = cri.as_ref().map(|cri| host_path(&cri.value));
            let pods = pods.filter(|pods| *pods != "/var/log/pods");
            let pods = pods.map_or(ALL_PODS.to_owned(), |pods| format!("{pods}/*/*/*.log"));
            entry.set("include", list(&[pods]));
            entry.set("format", "auto");
            if let Some(cri) = cri {
                draft.carried(section, cri, &format!("{path}.include"));
            }
            if let Some(docker) = docker {
                let why = "on a node with Docker the files of pods are links to these: both \
                           would be sent twice";
                draft.needless(section, docker, why);
            }
            entry.set("kubernetes.fields", "collectord");
            entry.set("kubernetes.compatibility", "[collectord]");
        }
    }
    entry.comment(
        "Annotations collectord.io/… with an equal meaning count; inrush.io/… goes first.",
    );
    entry.comment("Positions of Collectord cannot be read: `end` skips what it has not sent yet,");
    entry.comment("`beginning` sends again what the files still hold.");
    entry.set("start_at", "end");
    files(section, entry, outputs, way, draft);
}

fn docker_paths(entry: &mut DraftEntry, path: &str) {
    entry.set("include", list(&[format!("{path}/*/*-json.log")]));
    entry.set("format", "docker");
    if let Some(root) = path.strip_suffix("/containers") {
        entry.set("docker.root", quoted(root));
    }
}

fn host_files(
    section: &mut ForeignSection,
    instance: &str,
    outputs: &OutputMap,
    way: &mut EventWay,
    draft: &mut MigrationDraft,
) {
    let mut entry = DraftEntry::new(instance, "file");
    entry.comment(&format!("[{}], {}", section.name, section.place));
    let to = format!("sources.{}.include", entry.name());
    let (path, glob) = (section.take("path"), section.take("glob"));
    let recursive = section.take("recursive");
    let folder = path.as_ref().map_or("", |path| host_path(&path.value));
    let between = match &recursive {
        Some(setting) if is_yes(&setting.value) => "/**/",
        _ => "/",
    };
    let names = glob.as_ref().map_or("*", |glob| glob.value.trim());
    if folder.is_empty() {
        let why = "it has no path: write `include`";
        draft.tell_section(SettingFate::Missing, section, why);
    }
    entry.set("include", list(&[format!("{folder}{between}{names}")]));
    for setting in [path, glob, recursive].iter().flatten() {
        draft.carried(section, setting, &to);
    }
    entry.set("format", "lines");
    entry.set("start_at", "end");
    files(section, entry, outputs, way, draft);
}

/// Settings that all inputs of files have; then the source is added.
fn files(
    section: &mut ForeignSection,
    mut entry: DraftEntry,
    outputs: &OutputMap,
    way: &mut EventWay,
    draft: &mut MigrationDraft,
) {
    let path = format!("sources.{}", entry.name());
    if let Some(setting) = section.take("eventPattern") {
        match pattern_value(setting.value.trim()) {
            Ok(value) => {
                entry.set("multiline.start", value);
                draft.carried(section, &setting, &format!("{path}.multiline.start"));
            }
            Err(why) => draft.missing(section, &setting, why),
        }
    }
    let filters = LineFilters::take(section);
    let ages = take_ages(section);
    let output = section.take("output");
    apply(draft, section, &mut entry, &path, &[FILES]);
    let Some(name) = draft.add_source(entry) else {
        draft.tell_section(SettingFate::Missing, section, "more than 100 sources");
        return;
    };
    way.filters.push((name.clone(), section.clone(), filters));
    way.ages.push((Some(name.clone()), section.clone(), ages));
    way.note(section, &name, output, outputs, draft);
}

fn journal(
    section: &mut ForeignSection,
    outputs: &OutputMap,
    way: &mut EventWay,
    draft: &mut MigrationDraft,
) {
    let mut entry = DraftEntry::new("journal", "journald");
    entry.comment(&format!("[{}], {}", section.name, section.place));
    entry.set("start_at", "end");
    if let Some(setting) = section.take("startFromRel") {
        let ago = setting.value.trim().trim_start_matches('-');
        match crate::table::duration(ago, "s") {
            Some(ago) => {
                entry.set("start_at", ago);
                draft.carried(section, &setting, "sources.journal.start_at");
            }
            None => draft.missing(section, &setting, "see `start_at`, for example `14h`"),
        }
    }
    let output = section.take("output");
    apply(draft, section, &mut entry, "sources.journal", &[JOURNAL]);
    if let Some(name) = draft.add_source(entry) {
        way.note(section, &name, output, outputs, draft);
    }
}

fn events(
    section: &mut ForeignSection,
    outputs: &OutputMap,
    way: &mut EventWay,
    draft: &mut MigrationDraft,
) {
    let mut entry = DraftEntry::new("events", "kubernetes_events");
    entry.comment(&format!("[{}], {}", section.name, section.place));
    entry
        .comment("Move it to the configuration of the Deployment: one instance reads, by a Lease.");
    let output = section.take("output");
    apply(draft, section, &mut entry, "sources.events", &[JOURNAL]);
    if let Some(name) = draft.add_source(entry) {
        way.note(section, &name, output, outputs, draft);
    }
}

/// Lines that an input keeps, and those that it drops.
#[derive(Default)]
struct LineFilters {
    keep: Vec<ForeignSetting>,
    drop: Vec<ForeignSetting>,
}

impl LineFilters {
    fn take(section: &mut ForeignSection) -> Self {
        let named = |key: &str, name: &str| key == name || key.starts_with(&format!("{name}."));
        Self {
            keep: section.take_where(|key| named(key, "whitelist")),
            drop: section.take_where(|key| named(key, "blacklist")),
        }
    }
}

/// Bounds of the age of events.
fn take_ages(section: &mut ForeignSection) -> Vec<ForeignSetting> {
    section.take_where(|key| ["toooldevents", "toonewevents"].contains(&key))
}

/// Filters of events, and the destinations that inputs name.
#[derive(Default)]
struct EventWay {
    filters: Vec<(String, ForeignSection, LineFilters)>,
    ages: Vec<(Option<String>, ForeignSection, Vec<ForeignSetting>)>,
    to: Vec<NamedTarget>,
}

/// Destination that an input names.
struct NamedTarget {
    source: String,
    section: ForeignSection,
    target: OutputTarget,
}

impl EventWay {
    fn note(
        &mut self,
        section: &ForeignSection,
        source: &str,
        output: Option<ForeignSetting>,
        outputs: &OutputMap,
        draft: &mut MigrationDraft,
    ) {
        let Some(setting) = output.filter(|output| !output.value.trim().is_empty()) else {
            return;
        };
        let target = target(outputs, &setting.value);
        match &target {
            OutputTarget::Named(_) => draft.carried(section, &setting, "routes"),
            OutputTarget::Nowhere => {
                draft.carried(
                    section,
                    &setting,
                    "a transform with `drop`: counted as filtered",
                );
            }
            OutputTarget::Lost => {
                let why = "that output did not come over: its events go to all destinations";
                draft.missing(section, &setting, why);
            }
        }
        self.to.push(NamedTarget {
            source: source.to_owned(),
            section: section.clone(),
            target,
        });
    }

    fn write(self, outputs: &OutputMap, draft: &mut MigrationDraft) {
        for (source, section, filters) in &self.filters {
            line_filters(source, section, filters, draft);
        }
        for (source, section, settings) in &self.ages {
            for setting in settings {
                age(source.as_deref(), section, setting, draft);
            }
        }
        let sources = |wanted: &OutputTarget| -> Vec<String> {
            let fits = self.to.iter().filter(|one| one.target == *wanted);
            fits.map(|one| one.source.clone()).collect()
        };
        let nowhere = sources(&OutputTarget::Nowhere);
        if !nowhere.is_empty() {
            let when = draft.of_sources(&nowhere);
            let first = self
                .to
                .iter()
                .find(|one| one.target == OutputTarget::Nowhere);
            if let Some(first) = first {
                draft.transform(&first.section, "output devnull", &[when], "drop: true");
            }
        }
        if draft.destinations().len() < 2 {
            return;
        }
        let Some(default) = outputs.get("splunk").or_else(|| outputs.values().next()) else {
            return;
        };
        for name in outputs.values().filter(|name| *name != default) {
            let sources = sources(&OutputTarget::Named(name.clone()));
            if !sources.is_empty() {
                let when = draft.of_sources(&sources);
                draft.route(when.as_deref(), std::slice::from_ref(name));
            }
        }
        draft.route(None, std::slice::from_ref(default));
    }
}

fn line_filters(
    source: &str,
    section: &ForeignSection,
    filters: &LineFilters,
    draft: &mut MigrationDraft,
) {
    let conditions = |settings: &[ForeignSetting], draft: &mut MigrationDraft| {
        let mut found = Vec::new();
        for setting in settings {
            match pattern(setting.value.trim()) {
                Ok(text) => {
                    found.push(format!("(?:{text})"));
                    draft.carried(section, setting, "a transform with `drop`");
                }
                Err(why) => draft.missing(section, setting, why),
            }
        }
        found
    };
    let keep = conditions(&filters.keep, draft);
    // Of a list that is not whole, nothing may be filtered: what is missing may fit.
    if !keep.is_empty() && keep.len() == filters.keep.len() {
        let when = Some(format!("!message.matches({})", literal(&keep.join("|"))));
        let of = draft.of_sources(&[source.to_owned()]);
        draft.transform(
            section,
            &format!("{source} whitelist"),
            &[of, when],
            "drop: true",
        );
    }
    let drop = conditions(&filters.drop, draft);
    if !drop.is_empty() {
        let when = Some(format!("message.matches({})", literal(&drop.join("|"))));
        let of = draft.of_sources(&[source.to_owned()]);
        draft.transform(
            section,
            &format!("{source} blacklist"),
            &[of, when],
            "drop: true",
        );
    }
}

fn age(
    source: Option<&str>,
    section: &ForeignSection,
    setting: &ForeignSetting,
    draft: &mut MigrationDraft,
) {
    let old = setting.key.eq_ignore_ascii_case("tooOldEvents");
    let Some(bound) = seconds(setting.value.trim()) else {
        return draft.missing(section, setting, "its value is not understood");
    };
    let when = match old {
        true => format!("received - time > {bound}.0"),
        false => format!("time - received > {bound}.0"),
    };
    let of = source.and_then(|source| draft.of_sources(&[source.to_owned()]));
    let name = if old { "too old" } else { "too new" };
    draft.transform(section, name, &[of, Some(when)], "drop: true");
    draft.carried(
        section,
        setting,
        "a transform with `drop`: counted as filtered",
    );
}

/// `[general]` and `[general.kubernetes]`.
fn general(section: &mut ForeignSection, draft: &mut MigrationDraft) {
    if let Some(setting) = section.take("dataPath") {
        let why = "data_dir: a folder of its own, since Collectord's positions cannot be read";
        draft.tell(SettingFate::Renamed, section, &setting, why);
    }
    if let Some(setting) = section.take("httpServerBinding") {
        draft.top("health: { listen: 0.0.0.0:8080 }");
        let why = "health.listen for probes; metrics are at `admin.listen`, /metrics";
        draft.tell(SettingFate::Renamed, section, &setting, why);
    }
    if let Some(setting) = section.take("annotationsSubdomain") {
        let why = "annotations are read as inrush.io/… and, by `kubernetes.compatibility`, as \
                   collectord.io/…: those with a subdomain must be renamed";
        draft.missing(section, &setting, why);
    }
    for setting in take_ages(section) {
        age(None, section, &setting, draft);
    }
    labels(section, draft);
    let rule = |setting: &ForeignSetting| match setting.key.to_ascii_lowercase().as_str() {
        "thruputpersecond" => Some(RATE),
        key if key.contains("interval") || key.contains("timeout") => Some(KeyRule::Needless(
            "the API is watched: a change of an annotation acts within seconds",
        )),
        key if key.contains("license") => Some(KeyRule::Needless("there is no licence key")),
        _ => None,
    };
    for setting in section.take_rest() {
        match rule(&setting) {
            Some(KeyRule::Needless(why)) => draft.needless(section, &setting, why),
            Some(KeyRule::Missing(why)) => draft.missing(section, &setting, why),
            _ => {
                let why = "look it up, and see whether you need it";
                draft.tell(SettingFate::Unknown, section, &setting, why);
            }
        }
    }
}

/// Labels and annotations that become fields.
fn labels(section: &mut ForeignSection, draft: &mut MigrationDraft) {
    for (key, option) in [
        ("includelabels.", "labels"),
        ("includeannotations.", "annotations"),
    ] {
        let mut globs = Vec::new();
        for setting in section.take_where(|one| one.starts_with(key)) {
            match glob_of(setting.value.trim()) {
                Some(glob) => {
                    globs.push(glob);
                    let why = format!("sources.containers.kubernetes.{option}, by glob");
                    draft.tell(SettingFate::Renamed, section, &setting, &why);
                }
                None => {
                    let why = format!("write globs into `kubernetes.{option}`");
                    draft.missing(section, &setting, &why);
                }
            }
        }
        if let Some(source) = draft.source("containers").filter(|_| !globs.is_empty()) {
            source.set(&format!("kubernetes.{option}"), list(&globs));
        }
    }
    let excluded =
        |key: &str| key.starts_with("excludelabels.") || key.starts_with("excludeannotations.");
    for setting in section.take_where(excluded) {
        let why = "none become fields unless `kubernetes.labels` or `annotations` name them";
        draft.needless(section, &setting, why);
    }
}

/// The glob for a simple pattern.
fn glob_of(pattern: &str) -> Option<String> {
    let (begin, rest) = match pattern.strip_prefix('^') {
        Some(rest) => ("", rest),
        None => ("*", pattern),
    };
    let (end, rest) = match rest.strip_suffix('$') {
        Some(rest) => ("", rest),
        None => ("*", rest),
    };
    let text = rest.replace(".*", "*").replace("\\.", ".");
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./*".contains(c);
    let glob = format!("{begin}{text}{end}").replace("**", "*");
    (!text.is_empty() && text.chars().all(plain)).then_some(glob)
}

/// `[pipe.join]`: lines that belong together, of container logs.
fn join(section: &mut ForeignSection, draft: &mut MigrationDraft) {
    if is_off(section) {
        draft.tell_section(SettingFate::Needless, section, "it is switched off");
        section.take_rest();
        return;
    }
    let mut options = Vec::new();
    for setting in section.take_rest() {
        let key = setting.key.to_ascii_lowercase();
        let value = setting.value.trim();
        let made = match key.as_str() {
            key if key.contains("pattern") => pattern_value(value).ok().map(|one| ("start", one)),
            key if key.contains("size") => crate::table::size(value).map(|one| ("max", one)),
            key if key.contains("wait") => {
                crate::table::duration(value, "s").map(|one| ("timeout", one))
            }
            key if key.contains("interval") => {
                let why = "the next line is waited for as long as `multiline.timeout` says";
                draft.needless(section, &setting, why);
                continue;
            }
            _ => None,
        };
        match made {
            Some((option, value)) => {
                let to = format!("sources.containers.multiline.{option}");
                draft.carried(section, &setting, &to);
                options.push((option, value));
            }
            None => {
                let why = "write `multiline: {start, timeout, max}` by hand";
                draft.missing(section, &setting, why);
            }
        }
    }
    if let Some(source) = draft.source("containers") {
        for (option, value) in options {
            source.set(&format!("multiline.{option}"), value);
        }
    }
}
