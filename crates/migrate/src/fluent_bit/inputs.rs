//! Inputs of Fluent Bit, as sources.
//!
//! # What it guarantees
//! * Each input becomes one source, or is named as a whole with the reason and what to do.
//! * A path of `/var/log/containers` becomes that of the same files in `/var/log/pods` where the
//!   pattern says clearly which; else it stays.
//! * A source begins where its input would, at the beginning or at the end of its files.
//!
//! # Limits
//! 100 sources; further inputs are named.

use super::multiline::LineParsers;
use super::tag::{TagMatch, tag_match};
use crate::containers::{is_container_path, pods_glob};
use crate::draft::{DraftEntry, MigrationDraft, SettingFate};
use crate::foreign::{ForeignSection, ForeignSetting, is_yes};
use crate::table::{KeyRule, KeyTable, apply, bytes, size};
use crate::yaml::{is_variable, referring, referring_list};

/// An input that came over: its source, and the tag of its events.
#[derive(Clone, Debug)]
pub(super) struct TaggedSource {
    pub(super) name: String,
    pub(super) tag: String,
}

/// Sources that a pattern fits, and true if it asks for a part of the events of one.
pub(super) fn fitting(inputs: &[TaggedSource], pattern: &str) -> (Vec<String>, bool) {
    let mut names = Vec::new();
    let mut part = false;
    for input in inputs {
        let found = tag_match(&input.tag, pattern);
        if found != TagMatch::Nothing {
            names.push(input.name.clone());
        }
        part |= found == TagMatch::Part;
    }
    (names, part)
}

const QUEUE: KeyRule = KeyRule::Needless(
    "events are always in a queue on disk, and a full one pauses files, not inputs",
);
const BUFFERS: KeyRule =
    KeyRule::Needless("buffers need no size: a line may have 1 MiB (`max_line_bytes`)");
const WATCHING: KeyRule =
    KeyRule::Needless("inotify tells of new files and of growth at once; polling is the fallback");
const POSITIONS: KeyRule = KeyRule::Needless("positions are durable with the events, in the queue");

/// Keys of all inputs.
const COMMON: &KeyTable = &[
    (
        "threaded",
        KeyRule::Needless("all cores are used as inputs ask for them"),
    ),
    (
        "thread.*",
        KeyRule::Needless("all cores are used as inputs ask for them"),
    ),
    ("mem_buf_limit", QUEUE),
    ("storage.*", QUEUE),
    (
        "log_level",
        KeyRule::Needless("one log for the process, on standard error"),
    ),
    (
        "log_suppress_interval",
        KeyRule::Needless("a message is not repeated for every event"),
    ),
    (
        "processors",
        KeyRule::Missing("processors: write transforms (docs/guides/transforms.md)"),
    ),
    ("routable", KeyRule::Missing("write `routes`")),
    (
        "tag_regex",
        KeyRule::Missing(
            "there are no tags: transforms and routes ask for `listener`, the source, and for fields",
        ),
    ),
];

const TAIL: &KeyTable = &[
    ("ignore_older", KeyRule::Time("older_than", "s")),
    ("unicode.encoding", KeyRule::Text("encoding")),
    ("generic.encoding", KeyRule::Text("encoding")),
    (
        "path_key",
        KeyRule::Needless("the path is the `source` of each event"),
    ),
    (
        "key",
        KeyRule::Needless("the line is the event itself, not a field of a record"),
    ),
    (
        "offset_key",
        KeyRule::Missing("offsets are no field; `event_id` at the destination names each event"),
    ),
    ("db", POSITIONS),
    ("db.*", POSITIONS),
    ("refresh_interval", WATCHING),
    ("watcher_interval", WATCHING),
    ("progress_check_interval*", WATCHING),
    ("inotify_watcher", WATCHING),
    (
        "rotate_wait",
        KeyRule::Needless(
            "a rotated file is read to its end, for at most 30 minutes (`rotate_hold`)",
        ),
    ),
    (
        "skip_long_lines",
        KeyRule::Needless("a longer line is cut and flagged; its file goes on"),
    ),
    (
        "truncate_long_lines",
        KeyRule::Needless("a longer line is cut and flagged; its file goes on"),
    ),
    ("buffer_chunk_size", BUFFERS),
    (
        "static_batch_size",
        KeyRule::Needless("files take turns by bytes and age"),
    ),
    (
        "event_batch_size",
        KeyRule::Needless("files take turns by bytes and age"),
    ),
    (
        "file_cache_advise",
        KeyRule::Needless("pages that were read once are let go of by the kernel"),
    ),
    ("multiline_flush", KeyRule::Time("multiline.timeout", "s")),
    (
        "docker_mode_flush",
        KeyRule::Needless("pieces are joined until the last one, by time and size at most"),
    ),
    (
        "docker_mode_parser",
        KeyRule::Missing("write `multiline: {start}`"),
    ),
    (
        "parser_*",
        KeyRule::Missing("fields of lines come from packs (`product`), or at search time"),
    ),
    (
        "exit_on_eof",
        KeyRule::Missing("it runs until it is stopped"),
    ),
    (
        "skip_empty_lines",
        KeyRule::Missing("a transform filters them: `match: 'message == \"\"', drop: true`"),
    ),
    (
        "ignore_active_older_files",
        KeyRule::Needless("a file that is open is read on"),
    ),
];

const SYSTEMD: &KeyTable = &[
    ("path", KeyRule::Text("directory")),
    ("db", POSITIONS),
    ("db.*", POSITIONS),
    (
        "max_fields",
        KeyRule::Needless("an entry has all of its fields, within a bound of bytes"),
    ),
    (
        "max_entries",
        KeyRule::Needless("the journal is read as fast as the queue takes it"),
    ),
    (
        "strip_underscores",
        KeyRule::Missing("fields keep their names: rename them by a transform"),
    ),
    (
        "lowercase",
        KeyRule::Missing("fields keep their names: rename them by a transform"),
    ),
    (
        "systemd_filter_type",
        KeyRule::Missing(
            "matches of one field are alternatives, those of several fields must all hold",
        ),
    ),
];

const NETWORK: &KeyTable = &[
    (
        "parser",
        KeyRule::Needless("RFC 3164, RFC 5424 and the variants of devices are recognised"),
    ),
    ("buffer_*", BUFFERS),
    (
        "receive_buffer_size",
        KeyRule::Needless("the receive buffer is 64 MiB (`udp.receive_buffer`)"),
    ),
    (
        "source_address_key",
        KeyRule::Needless("transforms know the `sender`"),
    ),
    (
        "raw_message_key",
        KeyRule::Needless("the record is kept as it was received"),
    ),
    (
        "tls.verify",
        KeyRule::Missing("`tls.client_ca_file` asks clients for certificates"),
    ),
    ("tls.ca_file", KeyRule::Text("tls.client_ca_file")),
    ("tls.crt_file", KeyRule::Text("tls.cert_file")),
    ("tls.key_file", KeyRule::Text("tls.key_file")),
    (
        "tls.*",
        KeyRule::Needless("TLS 1.2 and 1.3 are spoken, nothing older"),
    ),
    (
        "http2",
        KeyRule::Needless("HTTP/2 is spoken where a client asks for it within TLS"),
    ),
    (
        "net.*",
        KeyRule::Needless("connections are bounded and kept alive by `stream`"),
    ),
    (
        "store_token_in_metadata",
        KeyRule::Needless("tokens have names, which the ledger shows"),
    ),
    (
        "splunk_token_key",
        KeyRule::Needless("tokens have names, which the ledger shows"),
    ),
    ("tag_key", KeyRule::Missing("there are no tags")),
    (
        "success_header",
        KeyRule::Missing("answers are those of Splunk"),
    ),
    (
        "successful_response_code",
        KeyRule::Missing("answers are those of Splunk"),
    ),
];

/// Plugins that have no counterpart, with what to do.
const ABSENT: &[(&str, &str)] = &[
    (
        "forward",
        "Fluentd's protocol is not spoken: let its senders use HEC or syslog",
    ),
    (
        "http",
        "not any JSON by HTTP: let the senders use HEC (`type: splunk_hec`; its path /services/collector/raw takes lines)",
    ),
    (
        "tcp",
        "not any JSON by TCP: let the senders use HEC, or lines of syslog",
    ),
    (
        "udp",
        "not any JSON by UDP: let the senders use HEC, or lines of syslog",
    ),
    ("mqtt", "MQTT is not spoken"),
    ("kafka", "reading from Kafka is not built yet"),
    (
        "elasticsearch",
        "the bulk API is not spoken: let its senders use HEC",
    ),
    (
        "opentelemetry",
        "OTLP is not spoken: let its senders use the Collector's HEC exporter",
    ),
    ("docker_events", "events of Docker are not read"),
    ("exec", "commands are not run"),
    ("exec_wasi", "commands are not run"),
    ("stdin", "standard input is not read"),
    ("serial", "serial lines are not read"),
    ("winlog", "Windows is not supported"),
    ("winevtlog", "Windows is not supported"),
    ("dummy", "`inrush load` makes events to test with"),
    ("random", "`inrush load` makes events to test with"),
    ("event_type", "`inrush load` makes events to test with"),
];

/// Plugins of metrics.
const METRICS: &[&str] = &[
    "cpu",
    "mem",
    "disk",
    "netif",
    "proc",
    "thermal",
    "health",
    "docker",
    "kmsg_metrics",
    "node_exporter_metrics",
    "fluentbit_metrics",
    "prometheus_scrape",
    "prometheus_remote_write",
    "prometheus_textfile",
    "podman_metrics",
    "process_exporter_metrics",
    "statsd",
    "collectd",
    "nginx_metrics",
    "nginx_exporter_metrics",
    "gpu_metrics",
    "ebpf",
];

/// Writes the sources.
pub(super) fn write(
    sections: &mut [ForeignSection],
    parsers: &mut LineParsers,
    draft: &mut MigrationDraft,
) -> Vec<TaggedSource> {
    let mut inputs = Vec::new();
    for (number, section) in sections.iter_mut().enumerate() {
        let plugin = section.take("name").map(|name| name.value);
        let plugin = plugin.unwrap_or_default().trim().to_ascii_lowercase();
        let tag = section.take("tag");
        let alias = section.take("alias");
        let base = alias.as_ref().map_or(plugin.as_str(), |alias| &alias.value);
        let entry = match plugin.as_str() {
            "tail" => Some(tail(section, base, parsers, draft)),
            "systemd" => Some(systemd(section, base, draft)),
            "syslog" => Some(syslog(section, base, draft)),
            "splunk" => Some(splunk(section, base, draft)),
            "kubernetes_events" => Some(events(section, base, draft)),
            plugin => {
                absent(plugin, section, draft);
                None
            }
        };
        let Some(entry) = entry else { continue };
        let Some(name) = draft.add_source(entry) else {
            draft.tell_section(SettingFate::Missing, section, "more than 100 sources");
            continue;
        };
        if let Some(alias) = &alias {
            draft.carried(section, alias, &format!("sources.{name}"));
        }
        if let Some(tag) = &tag {
            let why = format!("`listener == \"{name}\"` in transforms and routes");
            draft.tell(SettingFate::Renamed, section, tag, &why);
        }
        let tag = tag.map_or_else(|| format!("{plugin}.{number}"), |tag| tag.value);
        inputs.push(TaggedSource { name, tag });
    }
    inputs
}

fn absent(plugin: &str, section: &mut ForeignSection, draft: &mut MigrationDraft) {
    let known = ABSENT.iter().find(|(name, _)| *name == plugin);
    let (fate, why) = match known {
        Some((_, why)) => (SettingFate::Missing, *why),
        None if METRICS.contains(&plugin) => (
            SettingFate::Missing,
            "metrics are not collected here: node exporter or the OpenTelemetry Collector do it",
        ),
        None => (
            SettingFate::Unknown,
            "an input that this program does not know: see whether you need it",
        ),
    };
    draft.tell_section(fate, section, why);
}

/// A source of a type, with a comment that says where it comes from.
fn source(section: &ForeignSection, base: &str, kind: &str) -> DraftEntry {
    let mut entry = DraftEntry::new(base, kind);
    entry.comment(&format!("[{}], {}", section.name, section.place));
    entry
}

fn tail(
    section: &mut ForeignSection,
    base: &str,
    parsers: &mut LineParsers,
    draft: &mut MigrationDraft,
) -> DraftEntry {
    let mut entry = source(section, base, "file");
    let path = format!("sources.{}", entry.name());
    let containers = tail_paths(section, &mut entry, &path, draft);
    tail_format(section, &mut entry, (&path, containers), parsers, draft);
    let head = section.take("read_from_head");
    let from = match head.as_ref().map(|head| is_yes(&head.value)) {
        Some(true) => "beginning",
        _ => "end",
    };
    entry.comment("Positions in its `db` cannot be read: `end` skips what it has not sent yet,");
    entry.comment("`beginning` sends again what the files still hold.");
    entry.set("start_at", from);
    if let Some(head) = &head {
        draft.carried(section, head, &format!("{path}.start_at"));
    }
    if let Some(setting) = section.take("buffer_max_size") {
        longest_line(section, &setting, &mut entry, &path, draft);
    }
    apply(draft, section, &mut entry, &path, &[TAIL, COMMON]);
    entry
}

fn longest_line(
    section: &ForeignSection,
    setting: &ForeignSetting,
    entry: &mut DraftEntry,
    path: &str,
    draft: &mut MigrationDraft,
) {
    const DEFAULT_BYTES: u64 = 1024 * 1024;
    match (bytes(&setting.value), size(&setting.value)) {
        (Some(wanted), Some(written)) if wanted > DEFAULT_BYTES => {
            entry.set("max_line_bytes", written);
            let why = format!("{path}.max_line_bytes: a longer line is cut, and its file goes on");
            draft.tell(SettingFate::Renamed, section, setting, &why);
        }
        (Some(_), _) => {
            let why = "a line may have 1 MiB (`max_line_bytes`); a longer one is cut and flagged";
            draft.needless(section, setting, why);
        }
        _ => draft.missing(
            section,
            setting,
            "its value is not understood: see `max_line_bytes`",
        ),
    }
}

/// `include` and `exclude`; true if the files are those of containers.
fn tail_paths(
    section: &mut ForeignSection,
    entry: &mut DraftEntry,
    path: &str,
    draft: &mut MigrationDraft,
) -> bool {
    let mut containers = false;
    for (key, option) in [("path", "include"), ("exclude_path", "exclude")] {
        let mut globs = Vec::new();
        for setting in section.take_all(key) {
            let mut moved = false;
            for glob in setting.value.split(',').map(str::trim) {
                if glob.is_empty() {
                    continue;
                }
                containers |= is_container_path(glob);
                let pods = pods_glob(glob);
                moved |= pods.is_some();
                globs.push(pods.unwrap_or_else(|| anywhere(glob)));
            }
            let to = format!("{path}.{option}");
            if moved {
                let why = format!("{to}: the files of pods, not the links to them");
                draft.tell(SettingFate::Renamed, section, &setting, &why);
            } else {
                draft.carried(section, &setting, &to);
            }
        }
        globs.dedup();
        if !globs.is_empty() {
            entry.set(option, referring_list(&globs));
        }
    }
    if !entry.has("include") {
        draft.tell_section(
            SettingFate::Missing,
            section,
            "it has no path: write `include`",
        );
        entry.set("include", "[]");
    }
    containers
}

/// A glob from the root on; one that begins with `*` fits there whatever the folder is.
fn anywhere(glob: &str) -> String {
    match glob.starts_with('*') {
        true => format!("/**/{}", glob.trim_start_matches("**/")),
        false => glob.to_owned(),
    }
}

/// `format` and `multiline`.
fn tail_format(
    section: &mut ForeignSection,
    entry: &mut DraftEntry,
    (path, containers): (&str, bool),
    parsers: &mut LineParsers,
    draft: &mut MigrationDraft,
) {
    let mut formats: Vec<&'static str> = Vec::new();
    for setting in section.take_all("multiline.parser") {
        let before = formats.len();
        for name in setting.value.split(',').map(str::trim) {
            match name.to_ascii_lowercase().as_str() {
                "docker" => formats.push("docker"),
                "cri" => formats.push("cri"),
                "" => {}
                _ => joined(parsers.join(name, entry), section, &setting, path, draft),
            }
        }
        if formats.len() > before {
            draft.carried(section, &setting, &format!("{path}.format"));
        }
    }
    if let Some(setting) = section.take("docker_mode") {
        if is_yes(&setting.value) {
            formats.push("docker");
        }
        draft.carried(section, &setting, &format!("{path}.format"));
    }
    let multiline = section.take("multiline");
    if let Some(setting) = section.take("parser_firstline") {
        let outcome = parsers.start(setting.value.trim(), entry);
        joined(outcome, section, &setting, path, draft);
    }
    if let Some(setting) = &multiline {
        draft.carried(section, setting, &format!("{path}.multiline"));
    }
    if let Some(setting) = section.take("parser") {
        match parsers.container_format(setting.value.trim()) {
            Some(format) => {
                formats.push(format);
                draft.carried(section, &setting, &format!("{path}.format"));
            }
            None => {
                let why = "fields of known products come from packs (`product`), others are found \
                           at search time: the line is sent as it is";
                draft.missing(section, &setting, why);
            }
        }
    }
    formats.dedup();
    let format = match formats.as_slice() {
        [only] => only,
        [] if !containers => "lines",
        _ => "auto",
    };
    entry.set("format", format);
}

fn joined(
    outcome: super::multiline::JoinOutcome,
    section: &ForeignSection,
    setting: &ForeignSetting,
    path: &str,
    draft: &mut MigrationDraft,
) {
    match outcome {
        Ok(option) => {
            let why = format!("{path}.{option}");
            draft.tell(SettingFate::Renamed, section, setting, &why);
        }
        Err(why) => draft.missing(section, setting, why),
    }
}

fn systemd(section: &mut ForeignSection, base: &str, draft: &mut MigrationDraft) -> DraftEntry {
    let mut entry = source(section, base, "journald");
    let path = format!("sources.{}", entry.name());
    let (mut units, mut matches) = (Vec::new(), Vec::new());
    for setting in section.take_all("systemd_filter") {
        match setting.value.trim().split_once('=') {
            Some(("_SYSTEMD_UNIT", unit)) => units.push(unit.trim().to_owned()),
            Some(_) => matches.push(setting.value.trim().to_owned()),
            None => {
                draft.missing(section, &setting, "no `FIELD=value`");
                continue;
            }
        }
        let option = if setting.value.contains("_SYSTEMD_UNIT=") {
            "units"
        } else {
            "matches"
        };
        draft.carried(section, &setting, &format!("{path}.{option}"));
    }
    for (option, texts) in [("units", units), ("matches", matches)] {
        if !texts.is_empty() {
            entry.set(option, referring_list(&texts));
        }
    }
    let tail = section.take("read_from_tail");
    let from_tail = tail.as_ref().is_some_and(|tail| is_yes(&tail.value));
    entry.set("start_at", if from_tail { "end" } else { "beginning" });
    if let Some(tail) = &tail {
        draft.carried(section, tail, &format!("{path}.start_at"));
    }
    apply(draft, section, &mut entry, &path, &[SYSTEMD, COMMON]);
    entry
}

fn events(section: &mut ForeignSection, base: &str, draft: &mut MigrationDraft) -> DraftEntry {
    const EVENTS: &KeyTable = &[
        ("db", POSITIONS),
        ("db.*", POSITIONS),
        ("interval_*", KeyRule::Needless("the API is watched")),
        (
            "kube_*",
            KeyRule::Needless("the service account of the pod is used, or `kubernetes.kubeconfig`"),
        ),
        (
            "tls.*",
            KeyRule::Needless("the authority of the service account is trusted"),
        ),
    ];
    let mut entry = source(section, base, "kubernetes_events");
    entry
        .comment("Move it to the configuration of the Deployment: one instance reads, by a Lease.");
    let path = format!("sources.{}", entry.name());
    apply(draft, section, &mut entry, &path, &[EVENTS, COMMON]);
    entry
}

/// Address and port of a listener.
fn address(section: &mut ForeignSection, port: &str) -> (String, Vec<ForeignSetting>) {
    let (listen, given) = (section.take("listen"), section.take("port"));
    let plain = |setting: &Option<ForeignSetting>, default: &str| {
        let value = setting.as_ref().map(|setting| setting.value.trim());
        value
            .filter(|value| !value.is_empty())
            .unwrap_or(default)
            .to_owned()
    };
    let address = format!("{}:{}", plain(&listen, "0.0.0.0"), plain(&given, port));
    (address, [listen, given].into_iter().flatten().collect())
}

fn syslog(section: &mut ForeignSection, base: &str, draft: &mut MigrationDraft) -> DraftEntry {
    let mut entry = source(section, base, "syslog");
    let path = format!("sources.{}", entry.name());
    let (address, settings) = address(section, "5140");
    for setting in &settings {
        draft.carried(section, setting, &format!("{path}.listen"));
    }
    let tls = section.take_switch("tls") == Some(true);
    let mode = section.take("mode");
    let kind = mode.as_ref().map_or("unix_udp", |mode| mode.value.trim());
    let protocol = match kind.to_ascii_lowercase().as_str() {
        "tcp" if tls => "tls",
        "tcp" => "tcp",
        "udp" => "udp",
        _ => {
            let why = "Unix sockets are not read: let the local syslog server send to the address \
                       in `listen`, or read the journal";
            draft.tell_section(SettingFate::Missing, section, why);
            section.take("path");
            section.take("unix_perm");
            "udp"
        }
    };
    if let Some(mode) = &mode {
        draft.carried(section, mode, &format!("{path}.listen"));
    }
    entry.set(
        "listen",
        referring_list(&[format!("{protocol}://{address}")]),
    );
    apply(draft, section, &mut entry, &path, &[NETWORK, COMMON]);
    entry
}

fn splunk(section: &mut ForeignSection, base: &str, draft: &mut MigrationDraft) -> DraftEntry {
    let mut entry = source(section, base, "splunk_hec");
    let path = format!("sources.{}", entry.name());
    let (address, settings) = address(section, "8088");
    for setting in &settings {
        draft.carried(section, setting, &format!("{path}.listen"));
    }
    let tls = section.take("tls");
    entry.set("listen", referring(&address));
    if let Some(tls) = &tls {
        draft.carried(section, tls, &format!("{path}.tls"));
    }
    let token = section.take("splunk_token");
    let value = token.as_ref().map(|token| token.value.trim());
    let value = match value.filter(|value| is_variable(value)) {
        Some(variable) => variable.to_owned(),
        None => {
            let why = "a secret is not written down: set the variable HEC_TOKEN to it";
            match &token {
                Some(token) => draft.missing(section, token, why),
                None => draft.tell_section(SettingFate::Missing, section, why),
            }
            "${HEC_TOKEN}".to_owned()
        }
    };
    entry.set("tokens", format!("[{{ token: \"{value}\" }}]"));
    apply(draft, section, &mut entry, &path, &[NETWORK, COMMON]);
    entry
}
