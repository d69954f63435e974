//! Configuration of Fluent Bit: its classic format, its YAML form, and both inside of Kubernetes
//! manifests.
//!
//! # What it guarantees
//! * Each setting is carried over, or named with its file and line and the reason.
//! * No secret is printed: the configuration takes it from a variable, that of the file where it
//!   has one.
//! * A file is read once, so that files that include each other end.
//!
//! # Limits
//! The bounds of `reader.rs`: files, their depth, sections, settings and bytes of a value; what is
//! beyond is named. The caller bounds the bytes of a file.

mod filters;
mod inputs;
mod multiline;
mod outputs;
mod reader;
mod tag;

use crate::Migration;
use crate::draft::{DraftEntry, MigrationDraft, SettingFate};
use crate::foreign::ForeignSection;
use crate::table::{KeyRule, KeyTable, apply};

use multiline::LineParsers;
use reader::FluentReader;

/// Finds the files of an `@INCLUDE`, whose pattern is relative to the file of that name: each with
/// its name and text, or the reason that there are none.
pub type FileLookup<'a> = &'a dyn Fn(&str, &str) -> Result<Vec<(String, String)>, String>;

/// Keys of `[SERVICE]`.
const SERVICE: &KeyTable = &[
    (
        "flush*",
        KeyRule::Needless("an event waits 45 ms at most for others (`batch.timeout`)"),
    ),
    ("daemon", KeyRule::Needless("systemd or Kubernetes runs it")),
    (
        "log_*",
        KeyRule::Needless("one log for the process, on standard error"),
    ),
    (
        "dns.*",
        KeyRule::Needless("the resolver of the system is used"),
    ),
    (
        "http_*",
        KeyRule::Needless("health is at `health.listen`, metrics are at `admin.listen`, /metrics"),
    ),
    (
        "health_check",
        KeyRule::Needless("health is at `health.listen`: 200 only while every edge makes progress"),
    ),
    (
        "hc_*",
        KeyRule::Needless("health is at `health.listen`: 200 only while every edge makes progress"),
    ),
    (
        "storage.*",
        KeyRule::Needless("events are always in a queue on disk (`data_dir`, `queue.max_bytes`)"),
    ),
    (
        "scheduler.*",
        KeyRule::Needless("a destination that fails is tried again on its own"),
    ),
    (
        "coro_stack_size",
        KeyRule::Needless("there are no coroutines"),
    ),
    (
        "hot_reload*",
        KeyRule::Needless("SIGHUP reloads the configuration"),
    ),
    ("plugins_file", KeyRule::Missing("plugins are not loaded")),
    (
        "streams_file",
        KeyRule::Missing("streams: write transforms"),
    ),
    (
        "enable_chunk_trace",
        KeyRule::Needless("`inrush explain` shows the way of an event"),
    ),
    ("sp.*", KeyRule::Missing("streams: write transforms")),
    ("json.*", KeyRule::Needless("texts are sent as they are")),
];

/// Makes a configuration of the files of Fluent Bit, each with its name. `lookup` finds what they
/// include.
pub fn fluent_bit(files: &[(String, String)], lookup: FileLookup<'_>) -> Migration {
    let mut draft = MigrationDraft::new("fluent-bit");
    let mut reader = FluentReader::new(lookup);
    for (name, text) in files {
        reader.file(name, text, &mut draft);
    }
    reader.tell_excess(&mut draft);
    let mut model = reader.model;
    let mut parsers = LineParsers::take(&mut model.parsers, &mut model.multiline, &mut draft);
    for section in &mut model.service {
        service(section, &mut draft);
    }
    let inputs = inputs::write(&mut model.inputs, &mut parsers, &mut draft);
    filters::write(&mut model.filters, &inputs, &mut parsers, &mut draft);
    outputs::write(&mut model.outputs, &inputs, &mut draft);
    parsers.tell(&mut draft);
    for section in &mut model.others {
        let why = "a section that this program does not know: see whether you need it";
        draft.tell_section(SettingFate::Unknown, section, why);
    }
    draft.top("data_dir: /var/lib/inrush");
    draft.finish("the files have no [INPUT] that comes over")
}

fn service(section: &mut ForeignSection, draft: &mut MigrationDraft) {
    if let Some(setting) = section.take("grace")
        && let Some(grace) = crate::table::duration(&setting.value, "s")
    {
        draft.top(&format!("shutdown_timeout: {grace}"));
        draft.carried(section, &setting, "shutdown_timeout");
    }
    if section
        .value("http_server")
        .is_some_and(crate::foreign::is_yes)
    {
        draft.top("health: { listen: 0.0.0.0:8080 }");
    }
    // Nothing of the table is an option of an entry.
    let mut nothing = DraftEntry::new("service", "none");
    apply(draft, section, &mut nothing, "", &[SERVICE]);
}

#[cfg(test)]
mod tests;
