//! Outputs of Fluent Bit, as destinations, and the routes to them.
//!
//! # What it guarantees
//! * Each output becomes one destination, or is named as a whole with the reason and what to do.
//! * No token and no password is printed; an address loses what stands before its `@`.
//! * Without routes every event goes to every destination. They are written only where the tags say
//!   otherwise; events that no output gets are filtered, as there.
//!
//! # Limits
//! 100 destinations; further outputs are named.

use super::inputs::{TaggedSource, fitting};
use crate::draft::{DraftEntry, MigrationDraft, SettingFate};
use crate::foreign::{ForeignSection, ForeignSetting, is_yes};
use crate::table::{KeyRule, KeyTable, apply, bytes, size};
use crate::yaml::{is_variable, literal, referring, referring_list};

const TUNING: KeyRule =
    KeyRule::Needless("`workers: auto` finds how many requests in flight are worth it");
const CONNECTIONS: KeyRule =
    KeyRule::Needless("connections are kept, and renewed every minute (`connection_max_age`)");

/// Keys of all outputs.
const COMMON: &KeyTable = &[
    ("workers", TUNING),
    (
        "retry_limit",
        KeyRule::Needless(
            "an event is sent again until it is delivered; what is refused for good goes to quarantine",
        ),
    ),
    ("net.*", CONNECTIONS),
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
];

const SPLUNK: &KeyTable = &[
    ("event_source", KeyRule::Text("source")),
    ("event_index", KeyRule::Text("index")),
    ("tls.verify", KeyRule::Switch("tls.verify")),
    ("tls.ca_file", KeyRule::Text("tls.ca_file")),
    ("tls.crt_file", KeyRule::Text("tls.cert_file")),
    ("tls.key_file", KeyRule::Text("tls.key_file")),
    (
        "tls.key_passwd",
        KeyRule::Missing("the key must not be encrypted"),
    ),
    (
        "tls.ca_path",
        KeyRule::Missing("one file with all authorities: `tls.ca_file`"),
    ),
    (
        "tls.vhost",
        KeyRule::Missing("write the name of the certificate into `endpoints`"),
    ),
    (
        "tls.*",
        KeyRule::Needless("TLS 1.2 and 1.3 are spoken, nothing older"),
    ),
    (
        "splunk_send_raw",
        KeyRule::Needless("the line is the event; fields are sent beside it"),
    ),
    ("event_key", KeyRule::Needless("the line is the event")),
    (
        "event_field",
        KeyRule::Missing("set the field by a transform"),
    ),
    (
        "event_index_key",
        KeyRule::Missing("annotation `inrush.io/index`, or a transform that sets `index`"),
    ),
    (
        "event_sourcetype_key",
        KeyRule::Missing(
            "annotation `inrush.io/sourcetype`, or a transform that sets `sourcetype`",
        ),
    ),
    ("http_user", KeyRule::Missing("the token alone counts")),
    ("http_passwd", KeyRule::Missing("the token alone counts")),
    (
        "http_buffer_size",
        KeyRule::Needless("answers are read within a bound"),
    ),
    (
        "http_debug_bad_request",
        KeyRule::Needless("the reason of a refusal is kept in quarantine"),
    ),
    (
        "channel",
        KeyRule::Missing("`acknowledgements: true` makes a channel of its own"),
    ),
    (
        "proxy",
        KeyRule::Missing("`proxy: \"${SPLUNK_PROXY}\"`: it may hold a password"),
    ),
];

/// Plugins that have no counterpart, with what to do.
const ABSENT: &[(&str, &str)] = &[
    (
        "es",
        "a destination for Elasticsearch is not built yet: send by HEC, or keep Fluent Bit for it",
    ),
    (
        "opensearch",
        "a destination for OpenSearch is not built yet: send by HEC, or keep Fluent Bit for it",
    ),
    (
        "kafka",
        "a destination `type: kafka` (brokers, topic) is not built yet: keep Fluent Bit for it",
    ),
    (
        "syslog",
        "a destination `type: syslog` is not built yet: keep Fluent Bit for it",
    ),
    (
        "forward",
        "Fluentd's protocol is not spoken: let the next stage read HEC (`type: splunk_hec`)",
    ),
    (
        "http",
        "not any HTTP endpoint: one that speaks HEC gets events by `type: splunk_hec`",
    ),
    ("loki", "Loki is not spoken"),
    (
        "s3",
        "events go to S3 by `type: store` with `path: s3://BUCKET/FOLDER`, as Parquet",
    ),
    ("cloudwatch_logs", "services of a cloud are not spoken"),
    (
        "kinesis_firehose",
        "Firehose takes HEC at its other end only",
    ),
    ("stackdriver", "services of a cloud are not spoken"),
    ("datadog", "services of a cloud are not spoken"),
    (
        "opentelemetry",
        "OTLP is not spoken: the Collector's splunk_hec receiver takes `type: splunk_hec`",
    ),
    (
        "prometheus_exporter",
        "metrics of Inrush are at `admin.listen`, /metrics",
    ),
    (
        "prometheus_remote_write",
        "metrics of Inrush are at `admin.listen`, /metrics",
    ),
    (
        "tcp",
        "not lines by TCP: `type: splunk_hec` or `type: file`",
    ),
    (
        "udp",
        "not lines by UDP: `type: splunk_hec` or `type: file`",
    ),
];

/// A destination, and the pattern of the tags that it gets.
struct MatchedOutput {
    name: String,
    sources: Vec<String>,
}

/// Writes the destinations and the routes.
pub(super) fn write(
    sections: &mut [ForeignSection],
    inputs: &[TaggedSource],
    draft: &mut MigrationDraft,
) {
    let mut outputs = Vec::new();
    for section in sections {
        let plugin = section.take("name").map(|name| name.value);
        let plugin = plugin.unwrap_or_default().trim().to_ascii_lowercase();
        let known = ABSENT.iter().find(|(name, _)| *name == plugin);
        if let Some((_, why)) = known {
            draft.tell_section(SettingFate::Missing, section, why);
            continue;
        }
        if !["splunk", "file", "stdout", "null"].contains(&plugin.as_str()) {
            let why = "an output that this program does not know: see whether you need it";
            draft.tell_section(SettingFate::Unknown, section, why);
            continue;
        }
        let sources = matched(section, inputs, draft);
        let alias = section.take("alias");
        let base = alias.as_ref().map_or(plugin.as_str(), |alias| &alias.value);
        let mut entry = match plugin.as_str() {
            "splunk" => splunk(section, base, &sources, draft),
            "file" => file(section, base, draft),
            "stdout" => plain(section, base, "stdout", draft),
            _ => plain(section, base, "blackhole", draft),
        };
        backlog(section, &mut entry, draft);
        let path = format!("destinations.{}", entry.name());
        let table: &KeyTable = if plugin == "splunk" { SPLUNK } else { &[] };
        apply(draft, section, &mut entry, &path, &[table, COMMON]);
        let Some(name) = draft.add_destination(entry) else {
            draft.tell_section(SettingFate::Missing, section, "more than 100 destinations");
            continue;
        };
        if let Some(alias) = &alias {
            draft.carried(section, alias, &format!("destinations.{name}"));
        }
        outputs.push(MatchedOutput { name, sources });
    }
    routes(inputs, &outputs, draft);
}

fn matched(
    section: &mut ForeignSection,
    inputs: &[TaggedSource],
    draft: &mut MigrationDraft,
) -> Vec<String> {
    let all = || inputs.iter().map(|input| input.name.clone()).collect();
    if let Some(setting) = section.take("match_regex") {
        let why = "there are no tags: it gets the events of all sources; write `routes`";
        draft.missing(section, &setting, why);
        return all();
    }
    let Some(setting) = section.take("match") else {
        return all();
    };
    let (sources, part) = fitting(inputs, setting.value.trim());
    if part {
        let why = "it fits a part of the events of a source, and gets all of them: write a route \
                   with a condition on `source` (the path)";
        draft.missing(section, &setting, why);
    } else {
        draft.tell(SettingFate::Renamed, section, &setting, "`routes`");
    }
    sources
}

/// Routes, where not every event goes to every destination.
fn routes(inputs: &[TaggedSource], outputs: &[MatchedOutput], draft: &mut MigrationDraft) {
    if outputs
        .iter()
        .all(|output| output.sources.len() == inputs.len())
    {
        return;
    }
    let mut groups: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    for input in inputs {
        let fits = |output: &&MatchedOutput| output.sources.contains(&input.name);
        let to: Vec<String> = outputs
            .iter()
            .filter(fits)
            .map(|one| one.name.clone())
            .collect();
        match groups.iter_mut().find(|(known, _)| *known == to) {
            Some((_, sources)) => sources.push(input.name.clone()),
            None => groups.push((to, vec![input.name.clone()])),
        }
    }
    // What no output gets is filtered here too, and counted as `unrouted`.
    for (to, sources) in groups.iter().filter(|(to, _)| !to.is_empty()) {
        let when = draft.of_sources(sources);
        draft.route(when.as_deref(), to);
    }
}

fn destination(section: &ForeignSection, base: &str, kind: &str) -> DraftEntry {
    let mut entry = DraftEntry::new(base, kind);
    entry.comment(&format!("[{}], {}", section.name, section.place));
    entry
}

fn splunk(
    section: &mut ForeignSection,
    base: &str,
    sources: &[String],
    draft: &mut MigrationDraft,
) -> DraftEntry {
    let mut entry = destination(section, base, "splunk_hec");
    let path = format!("destinations.{}", entry.name());
    let settings = ["host", "port", "tls"].map(|key| section.take(key));
    let value = |at: usize, default: &'static str| -> String {
        let setting = settings.get(at).and_then(Option::as_ref);
        let value = setting.map(|setting| setting.value.trim());
        value
            .filter(|value| !value.is_empty())
            .unwrap_or(default)
            .to_owned()
    };
    let scheme = if is_yes(&value(2, "off")) {
        "https"
    } else {
        "http"
    };
    let (host, secret) = crate::foreign::without_secrets(&value(0, "127.0.0.1"));
    let address = format!("{scheme}://{host}:{}", value(1, "8088"));
    entry.set("endpoints", referring_list(&[address]));
    for setting in settings.iter().flatten() {
        draft.carried(section, setting, &format!("{path}.endpoints"));
    }
    if secret {
        let why = "its host holds a user or a query, which is left out";
        draft.tell_section(SettingFate::Missing, section, why);
    }
    token(section, &mut entry, base, &path, draft);
    compression(section, &mut entry, &path, draft);
    for key in ["event_sourcetype", "event_host"] {
        if let Some(setting) = section.take(key) {
            metadata(section, &setting, sources, draft);
        }
    }
    entry
}

fn token(
    section: &mut ForeignSection,
    entry: &mut DraftEntry,
    base: &str,
    path: &str,
    draft: &mut MigrationDraft,
) {
    let name = match base {
        "splunk" => "SPLUNK_TOKEN".to_owned(),
        base => {
            let name = crate::yaml::name(base)
                .to_ascii_uppercase()
                .replace('-', "_");
            format!("SPLUNK_TOKEN_{name}")
        }
    };
    let setting = section.take("splunk_token");
    match setting {
        Some(setting) if is_variable(setting.value.trim()) => {
            entry.set("token", format!("\"{}\"", setting.value.trim()));
            draft.carried(section, &setting, &format!("{path}.token"));
        }
        Some(setting) => {
            entry.set("token", format!("\"${{{name}}}\""));
            let why = format!("a secret is not written down: set the variable {name} to it");
            draft.missing(section, &setting, &why);
        }
        None => {
            entry.set("token", format!("\"${{{name}}}\""));
            let why = format!("it has no token: set the variable {name} to one");
            draft.tell_of(SettingFate::Missing, &section.place, &section.name, &why);
        }
    }
}

fn compression(
    section: &mut ForeignSection,
    entry: &mut DraftEntry,
    path: &str,
    draft: &mut MigrationDraft,
) {
    let Some(setting) = section.take("compress") else {
        return;
    };
    let gzip = setting.value.trim().eq_ignore_ascii_case("gzip");
    entry.set("compression", if gzip { "gzip" } else { "none" });
    let why = format!("{path}.compression: within a data centre `none` costs less CPU");
    draft.tell(SettingFate::Renamed, section, &setting, &why);
}

/// A sourcetype or a host that is the same for all events of an output.
fn metadata(
    section: &ForeignSection,
    setting: &ForeignSetting,
    sources: &[String],
    draft: &mut MigrationDraft,
) {
    let value = setting.value.trim();
    if value.starts_with('$') && !is_variable(value) {
        let why = "it comes from a field of the record: by annotation `inrush.io/sourcetype`, or by \
                   a transform";
        return draft.missing(section, setting, why);
    }
    let option = match setting.key.to_ascii_lowercase().as_str() {
        "event_host" => "host",
        _ => "sourcetype",
    };
    let of = draft.of_sources(sources);
    let does = format!("set: {{ {option}: {} }}", referring(&literal(value)));
    draft.transform(
        section,
        &format!("{option} {}", setting.place),
        &[of],
        &does,
    );
    let why = "a transform: it counts for all destinations";
    draft.tell(SettingFate::Renamed, section, setting, why);
}

fn file(section: &mut ForeignSection, base: &str, draft: &mut MigrationDraft) -> DraftEntry {
    let mut entry = destination(section, base, "file");
    let path = format!("destinations.{}", entry.name());
    let (folder, name) = (section.take("path"), section.take("file"));
    let text = |setting: &Option<ForeignSetting>, default: &str| {
        let value = setting.as_ref().map(|setting| setting.value.trim());
        value
            .filter(|value| !value.is_empty())
            .unwrap_or(default)
            .to_owned()
    };
    let folder_text = text(&folder, "fluent-bit");
    let whole = format!(
        "{}/{}",
        folder_text.trim_end_matches('/'),
        text(&name, "{index}.log").trim_start_matches('/')
    );
    entry.set("path", referring(&whole));
    for setting in [&folder, &name].into_iter().flatten() {
        draft.carried(section, setting, &format!("{path}.path"));
    }
    let format = section.take("format");
    let plain = format
        .as_ref()
        .is_some_and(|format| format.value.trim() == "plain");
    entry.set("format", if plain { "raw" } else { "json" });
    if let Some(format) = &format {
        let why = format!("{path}.format: JSON lines of all fields, or the line alone");
        draft.tell(SettingFate::Renamed, section, format, &why);
    }
    for setting in section.take_where(|key| ["mkdir", "template", "delimiter"].contains(&key)) {
        let why = "folders are made as they are needed, and `format` is JSON or the line";
        draft.needless(section, &setting, why);
    }
    entry
}

fn plain(
    section: &mut ForeignSection,
    base: &str,
    kind: &'static str,
    draft: &mut MigrationDraft,
) -> DraftEntry {
    for setting in section.take_where(|key| key.starts_with("format") || key.starts_with("json_")) {
        draft.needless(section, &setting, "JSON lines of all fields");
    }
    destination(section, base, kind)
}

/// `storage.total_limit_size`: the oldest events make room, as there.
fn backlog(section: &mut ForeignSection, entry: &mut DraftEntry, draft: &mut MigrationDraft) {
    const LEAST_BYTES: u64 = 16 * 1024 * 1024;
    let Some(setting) = section.take("storage.total_limit_size") else {
        return;
    };
    let Some(wanted) = bytes(&setting.value) else {
        return draft.missing(
            section,
            &setting,
            "see `queue.max_bytes` of the destination",
        );
    };
    let written = size(&setting.value).filter(|_| wanted >= LEAST_BYTES);
    entry.set(
        "queue.max_bytes",
        written.unwrap_or_else(|| "16MiB".to_owned()),
    );
    entry.set("queue.when_full", "drop_oldest");
    let why = "queue.max_bytes of the destination, 16 MiB at least; what is dropped is counted";
    draft.tell(SettingFate::Renamed, section, &setting, why);
}
