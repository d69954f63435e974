//! Converter of an SC4S `env_file` to the sections `packs`, `hosts` and `destinations`.
//!
//! # What it guarantees
//! * Each variable that nothing takes becomes a note with a reason, except those in `SILENT`.
//! * The last line of a name counts. A line without `NAME=value` becomes a note with its number.
//! * A token is written only if it begins with `${`; otherwise the section refers to its variable.
//!
//! # States
//! `EnvFile::take` removes a variable, and an empty one then counts as not set.
//! `EnvFile::left` turns all remaining variables into notes, and ends the object.
//!
//! # Limits
//! The file has no bound here: the command that reads it bounds its bytes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::MigrationNote;
use crate::context::PacksSection;
use crate::yaml::{is_variable, list, quoted};

/// Variables by name; one that was used is taken out.
pub(crate) struct EnvFile {
    left: BTreeMap<String, String>,
    notes: Vec<MigrationNote>,
}

/// Reasons that a variable comes to nothing, by what its name begins with; the first that fits
/// counts.
const WHY: [(&str, &str); 23] = [
    (
        "SC4S_SOURCE_LISTEN_",
        "not needed: sockets are opened as the cores ask for",
    ),
    (
        "SC4S_SOURCE_UDP_IW_",
        "not needed: there is no window to set",
    ),
    (
        "SC4S_SOURCE_UDP_SO_RCVBUFF",
        "not needed: the receive buffer is 64 MiB (udp.receive_buffer)",
    ),
    (
        "SC4S_ENABLE_EBPF",
        "not needed: sockets are balanced by the kernel",
    ),
    (
        "SC4S_EBPF_",
        "not needed: sockets are balanced by the kernel",
    ),
    (
        "SC4S_ENABLE_PARALLELIZE",
        "not needed: connections are spread over all cores",
    ),
    (
        "SC4S_PARALLELIZE_",
        "not needed: connections are spread over all cores",
    ),
    (
        "SC4S_GLOBAL_OPTIONS_",
        "not needed: /metrics and /api/v1/flow show what happens",
    ),
    (
        "SC4S_DEST_SPLUNK_SC4S_METRICS_HEC",
        "not needed: metrics are at /metrics",
    ),
    (
        "SC4S_SEND_METRICS_TERMINAL",
        "not needed: `inrush top` shows what happens",
    ),
    (
        "SC4S_DEBUG_",
        "not needed: `inrush explain` and `inrush queue cat` show what is sent",
    ),
    (
        "SC4S_IPV6_ENABLE",
        "not needed: listeners on [::] take both",
    ),
    (
        "SC4S_LISTEN_STATUS_PORT",
        "not needed: /healthz is on the admin address",
    ),
    (
        "HEALTHCHECK_",
        "not needed: /healthz names every edge that stands still",
    ),
    (
        "SC4S_DEST_SYSLOG_",
        "not built yet: there is no syslog destination",
    ),
    (
        "SC4S_DEST_BSD_",
        "not built yet: there is no syslog destination",
    ),
    ("SC4S_DEST_GLOBAL_", "deprecated there already"),
    ("SC4S_TLS", "set the paths in the sources' `tls`"),
    (
        "SC4S_DISABLE_DROP_INVALID_XML",
        "not needed: XML is read as far as it goes",
    ),
    (
        "SC4S_DISABLE_DROP_INVALID_HPE",
        "not needed: what is malformed is recognised all the same",
    ),
    (
        "SC4S_DISABLE_DROP_INVALID_VMWARE_CB_PROTECT",
        "not needed: what is malformed is recognised all the same",
    ),
    ("TEST_", "of SC4S's own tests"),
    ("SC4S_", "not carried over: nothing here corresponds to it"),
];

/// Variables that have no meaning without a container or its files.
const SILENT: [&str; 12] = [
    "SC4S_RUNTIME_ENV",
    "SC4S_ETC",
    "SC4S_VAR",
    "SC4S_BIN",
    "SC4S_SBIN",
    "SC4S_VERSION",
    "SC4S_IMAGE",
    "SC4S_PERSIST_MOUNT",
    "SC4S_LOCAL_MOUNT",
    "SC4S_ARCHIVE_MOUNT",
    "SC4S_TLS_MOUNT",
    "SC4S_CONTAINER_OPTS",
];

/// Variables that packs ask for as an option of another name, with that name.
const OPTIONS: [(&str, &str); 23] = [
    (
        "SC4S_LISTEN_CHECKPOINT_SPLUNK_NOISE_CONTROL",
        "listen_checkpoint_splunk_noise_control",
    ),
    (
        "SC4S_LISTEN_CHECKPOINT_SPLUNK_NOISE_CONTROL_SECONDS",
        "listen_checkpoint_splunk_noise_control_seconds",
    ),
    (
        "SC4S_LISTEN_CHECKPOINT_SPLUNK_NOISE_INCOMPLETE_EVENTS",
        "listen_checkpoint_splunk_noise_incomplete_events",
    ),
    (
        "SC4S_LISTEN_CHECKPOINT_SPLUNK_OLD_HOST_RULES",
        "listen_checkpoint_splunk_old_host_rules",
    ),
    (
        "SC4S_OPTION_FORTINET_SOURCETYPE_PREFIX",
        "fortinet_sourcetype_prefix",
    ),
    ("SC4S_OPTION_DELL_POWERSTORE_INDEX", "dell_powerstore_index"),
    ("SC4S_NETAPP_ONTAP_NEW_FORMAT", "netapp_ontap_new_format"),
    (
        "SC4S_SOURCE_VMWARE_VSPHERE_GROUPMSG",
        "vmware_vsphere_groupmsg",
    ),
    (
        "SC4S_SOURCE_FF_SYMANTEC_BRIGHTMAIL_GROUPMSG",
        "ff_symantec_brightmail_groupmsg",
    ),
    (
        "SC4S_DEST_SYMANTEC_BRIGHTMAIL_SPLUNK_HEC_FMT",
        "dest_symantec_brightmail_splunk_hec_fmt",
    ),
    (
        "SC4S_DEST_BEYONDTRUST_SRA_SPLUNK_HEC_FMT",
        "dest_beyondtrust_sra_splunk_hec_fmt",
    ),
    (
        "SC4S_DEST_DELL_SONICWALL-FIREWALL_SPLUNK_HEC_FMT",
        "dest_dell_sonicwall-firewall_splunk_hec_fmt",
    ),
    ("SC4S_SOURCE_CISCO_DNA_FIXHOST", "cisco_dna_fixhost"),
    ("SC4S_SOURCE_RICOH_SYSLOG_FIXHOST", "ricoh_syslog_fixhost"),
    ("SC4S_ENABLE_CISCO_IOS_RAW_MSG", "enable_cisco_ios_raw_msg"),
    (
        "SC4S_IGNORE_MMDD_LEGACY_CITRIX_NETSCALER",
        "ignore_mmdd_legacy_citrix_netscaler",
    ),
    (
        "SC4S_SURICATA_SIMPLE_SOURCETYPE",
        "suricata_simple_sourcetype",
    ),
    (
        "SC4S_SOURCE_MARK_MESSAGE_NULLQUEUE",
        "mark_message_nullqueue",
    ),
    ("SC4S_SOURCE_STORE_RAWMSG", "store_rawmsg"),
    ("SC4S_DISABLE_DROP_INVALID_CEF", "disable_drop_invalid_cef"),
    (
        "SC4S_DISABLE_DROP_INVALID_RAW_BSD",
        "disable_drop_invalid_raw_bsd",
    ),
    (
        "SC4S_DISABLE_DROP_INVALID_CISCO",
        "disable_drop_invalid_cisco",
    ),
    (
        "SC4S_DISABLE_DROP_INVALID_VMWARE_VSPHERE",
        "disable_drop_invalid_vmware_vsphere",
    ),
];

impl EnvFile {
    /// Reads `NAME=value` lines; `export`, quotes and comments are understood.
    pub(crate) fn read(text: &str) -> Self {
        let mut env = Self {
            left: BTreeMap::new(),
            notes: Vec::new(),
        };
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let line = line.strip_prefix("export ").unwrap_or(line);
            match line.split_once('=') {
                Some((name, value)) => {
                    let value = unquoted(value.trim()).to_owned();
                    env.left.insert(name.trim().to_owned(), value);
                }
                None => env.note(format!("line {}", number + 1), "no `NAME=value`"),
            }
        }
        env
    }

    pub(crate) fn note(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.notes.push(MigrationNote {
            what: what.into(),
            why: why.into(),
        });
    }

    /// The value of a variable, which then counts as carried over; `None` if it is empty.
    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        self.left.remove(name).filter(|value| !value.is_empty())
    }

    /// True if a variable says yes; it then counts as carried over.
    pub(crate) fn says_yes(&mut self, name: &str) -> bool {
        self.take(name).is_some_and(|value| is_yes(&value))
    }

    /// The names that begin and end so, with what stands between.
    pub(crate) fn between(&self, start: &str, end: &str) -> Vec<(String, String)> {
        let names = self.left.keys().filter_map(|name| {
            let middle = name.strip_prefix(start)?.strip_suffix(end)?;
            (!middle.is_empty()).then(|| (name.clone(), middle.to_owned()))
        });
        names.collect()
    }

    /// Notes of what was not carried over.
    pub(crate) fn left(mut self) -> Vec<MigrationNote> {
        for name in self.left.into_keys() {
            if SILENT.contains(&name.as_str()) {
                continue;
            }
            let why = WHY.iter().find(|(start, _)| name.starts_with(start));
            let why = why.map_or("no variable of SC4S", |(_, why)| *why);
            self.notes.push(MigrationNote {
                what: name,
                why: why.to_owned(),
            });
        }
        self.notes
    }
}

fn unquoted(value: &str) -> &str {
    let inner = |quote| value.strip_prefix(quote)?.strip_suffix(quote);
    inner('"').or_else(|| inner('\'')).unwrap_or(value)
}

/// Writes `packs:`.
pub(crate) fn packs(env: &mut EnvFile, packs: &mut PacksSection, out: &mut String) {
    out.push_str("packs:\n  enabled: true\n  fallback: sc4s\n");
    if env.says_yes("SC4S_USE_VPS_CACHE") {
        out.push_str("  remember_hosts: true\n");
    }
    let options: Vec<(&str, String)> = OPTIONS
        .iter()
        .filter_map(|(variable, option)| Some((*option, env.take(variable)?)))
        .collect();
    out.push_str(
        "  options:\n    # Of Cisco devices. Without it IST is India's, +05:30.\n    \
         cisco_ist: irish\n",
    );
    for (option, value) in options {
        // Writing to a text cannot fail.
        let _ = writeln!(out, "    {option}: {}", quoted(&value));
    }
    packs.write(out);
}

/// Writes `hosts:`, if there is something to say. What only qualifies a variable that is not set
/// means nothing here as there.
pub(crate) fn hosts(env: &mut EnvFile, out: &mut String) {
    let [cache, clear, lookup, fqdn] = [
        "SC4S_USE_NAME_CACHE",
        "SC4S_CLEAR_NAME_CACHE",
        "SC4S_USE_REVERSE_DNS",
        "SC4S_REVERSE_DNS_KEEP_FQDN",
    ]
    .map(|name| env.says_yes(name));
    if cache || lookup {
        out.push_str("hosts:\n");
    }
    if cache {
        out.push_str("  remember_names: true\n");
        if clear {
            out.push_str("  keep_names: false\n");
        }
    }
    if lookup {
        let fqdn = if fqdn { ", keep_fqdn: true" } else { "" };
        // Writing to a text cannot fail.
        let _ = writeln!(out, "  reverse_dns: {{ enabled: true{fqdn} }}");
    }
}

/// True if a value says yes, as SC4S reads it.
fn is_yes(value: &str) -> bool {
    let value = value.trim().to_ascii_lowercase();
    matches!(value.as_str(), "yes" | "true" | "1" | "t" | "y")
}

/// Writes `destinations:`.
pub(crate) fn destinations(env: &mut EnvFile, out: &mut String) {
    out.push_str("destinations:\n");
    let container = env.take("SC4S_CONTAINER_HOST");
    if container.is_some() {
        env.note(
            "SC4S_CONTAINER_HOST",
            "the name of this host is sent as sc4s_container",
        );
    }
    let fields = indexed_fields(env);
    let source = env.says_yes("SC4S_SET_SOURCE_AS_SC4S");
    if source {
        env.note(
            "SC4S_SET_SOURCE_AS_SC4S",
            "not carried over: rules that set a source go before",
        );
    }
    env.take("SC4S_DEST_SPLUNK_HEC_GLOBAL");
    let named = env.between("SC4S_DEST_SPLUNK_HEC_", "_URL");
    let mut any = false;
    for (variable, id) in named {
        let Some(urls) = env.take(&variable) else {
            continue;
        };
        any = true;
        collector(env, &id, &urls, &fields, out);
    }
    if !any {
        env.note(
            "SC4S_DEST_SPLUNK_HEC_DEFAULT_URL",
            "not given: events go to the built-in store instead",
        );
        out.push_str("  local: { type: store }\n");
    }
    if env.says_yes("SC4S_ARCHIVE_GLOBAL") {
        out.push_str(
            "  archive:\n    type: file\n    path: \"/opt/sc4s/archive/{sourcetype}/{host}/\
             {year}-{month}-{day}-archive.log\"\n    format: raw\n",
        );
    }
}

fn indexed_fields(env: &mut EnvFile) -> String {
    let Some(wanted) = env.take("SC4S_DEST_SPLUNK_INDEXED_FIELDS") else {
        return String::new();
    };
    let known = [
        ("r_unixtime", "recv_time"),
        ("facility", "facility"),
        ("severity", "severity"),
        ("container", "container"),
        ("destport", "destport"),
        ("fromhostip", "fromhostip"),
        ("proto", "proto"),
    ];
    let fields = known.iter().filter(|(there, _)| wanted.contains(there));
    let fields: Vec<&str> = fields.map(|(_, here)| *here).collect();
    format!("    indexed_fields: [{}]\n", fields.join(", "))
}

fn collector(env: &mut EnvFile, id: &str, urls: &str, fields: &str, out: &mut String) {
    let prefix = format!("SC4S_DEST_SPLUNK_HEC_{id}_");
    let mut get = |name: &str| env.take(&format!("{prefix}{name}"));
    let urls: Vec<String> = urls
        .split([',', ' '])
        .filter(|url| !url.is_empty())
        .map(|url| {
            url.trim_end_matches('/')
                .trim_end_matches("/services/collector/event")
                .into()
        })
        .collect();
    let token = get("TOKEN");
    let name = if id == "DEFAULT" {
        "splunk".to_owned()
    } else {
        id.to_ascii_lowercase()
    };
    let _ = writeln!(
        out,
        "  {name}:\n    type: splunk_hec\n    endpoints: {}",
        list(&urls)
    );
    match &token {
        Some(token) if is_variable(token) => {
            let _ = writeln!(out, "    token: \"{token}\"");
        }
        _ => {
            // A token does not belong into a file: the environment that had it has it still.
            let _ = writeln!(out, "    token: \"${{{prefix}TOKEN}}\"");
        }
    }
    if get("HTTP_COMPRESSION").is_some_and(|value| value == "yes") {
        out.push_str("    compression: gzip\n");
    }
    if let Some(workers) = get("WORKERS").filter(|n| n.parse::<u16>().is_ok()) {
        let _ = writeln!(out, "    workers: {workers}");
    }
    if let Some(lines) = get("BATCH_LINES").filter(|n| n.parse::<u32>().is_ok()) {
        let _ = writeln!(out, "    batch: {{ max_events: {lines} }}");
    }
    if get("CONNECTION_CLOSE").is_some_and(|value| is_yes(&value)) {
        out.push_str("    connection_max_requests: 1\n");
    }
    let verify = get("TLS_VERIFY").is_none_or(|value| value != "no");
    transport(verify, get("TLS_MOUNT").as_deref(), out);
    out.push_str("    source: sc4s\n");
    out.push_str(fields);
    let select = get("MODE").is_some_and(|mode| mode == "SELECT");
    finish(env, &prefix, select);
}

/// Writes `tls:`, if there is something to say.
fn transport(verify: bool, mount: Option<&str>, out: &mut String) {
    if verify && mount.is_none() {
        return;
    }
    out.push_str("    tls:\n");
    if !verify {
        out.push_str("      verify: false\n");
    }
    if let Some(mount) = mount {
        let path = |file: &str| quoted(&format!("{}/{file}", mount.trim_end_matches('/')));
        let (ca, cert, key) = (path("ca_cert.pem"), path("cert.pem"), path("key.pem"));
        let _ = writeln!(
            out,
            "      ca_file: {ca}\n      cert_file: {cert}\n      key_file: {key}"
        );
    }
}

fn finish(env: &mut EnvFile, prefix: &str, select: bool) {
    if select {
        let why = "not carried over: every event goes to every destination; write it as `routes`";
        env.note(format!("{prefix}MODE"), why);
    }
    for (name, _) in env.between(prefix, "") {
        let why = if name.contains("DISKBUFF") || name.contains("FIFO") {
            "not needed: one queue on disk serves all destinations (queue.max_bytes)"
        } else {
            "not carried over: the defaults here do"
        };
        env.take(&name);
        env.note(name, why);
    }
}
