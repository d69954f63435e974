//! Options of a journal source. Their doc comments are the reference page, and the order of fields
//! is its order.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use inrush_event::{Period, UnitError};
use inrush_ingest::enrichment::Enrichment;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::running::RunningJournal;
use crate::options::{OptionProblem, SourceOptions};
use crate::{SourceServices, StartedSource};

/// Fields that are kept, at most: `journald` itself takes no entry with more.
const FIELDS_MAX: usize = 1024;

/// Bytes of a field's name, at most, as `journald` has it.
const NAME_BYTES_MAX: usize = 64;

/// The journal of systemd. It needs `journalctl` on this host, and the group `systemd-journal`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JournaldSource {
    /// Folder of the journal's files. Default: those of this host, of all boots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// Namespace of the journal: a name, `*` for all, or `+NAME` for that one and the default one.
    /// Default: the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Conditions on entries, as for `journalctl`: `FIELD=value` each. Those of one field are
    /// alternatives, others hold together; a `+` between two groups makes the groups alternatives.
    /// Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("examples" = ["_TRANSPORT=kernel"]))]
    pub matches: Vec<String>,
    /// Units whose entries are read; `*` and `?` stand for any characters and any one. Default: all
    /// entries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<String>,
    /// Least severity of entries that are read, as `warning` or `4`, or a range, as
    /// `err..warning`. Default: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    /// Entry to begin with where nothing was read before: the first one (`beginning`), those from
    /// now on (`end`), or those of so long ago, as `14h`.
    #[serde(default)]
    pub start_at: JournalStart,
    /// The index of its events.
    #[serde(default = "crate::options::index_default")]
    #[schemars(length(min = 1))]
    pub index: String,
    /// The sourcetype of its events.
    #[serde(default = "sourcetype_default")]
    #[schemars(length(min = 1))]
    pub sourcetype: String,
    /// The source of its events.
    #[serde(default = "source_default")]
    #[schemars(length(min = 1))]
    pub source: String,
    /// The host of its events. Default: the host name that the entry has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Fields of entries that are kept as indexed fields, by their names in the journal.
    #[serde(default = "fields_default")]
    pub fields: Vec<String>,
    /// The program that reads the journal: a path, or a name that is looked for in `PATH`.
    #[serde(default = "journalctl_default")]
    pub journalctl: PathBuf,
}

/// Entry with which a journal source begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JournalStart {
    /// The first one that the journal has.
    Beginning,
    /// The first one that is written after the source was started.
    End,
    /// The first one that is no older than this.
    Ago(Period),
}

impl Default for JournalStart {
    /// An hour: of a host that has just started it is everything, of another one not the past.
    fn default() -> Self {
        Self::Ago(Period(Duration::from_secs(60 * 60)))
    }
}

impl FromStr for JournalStart {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        match text {
            "beginning" => Ok(Self::Beginning),
            "end" => Ok(Self::End),
            text => text.parse().map(Self::Ago),
        }
    }
}

impl fmt::Display for JournalStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Beginning => f.write_str("beginning"),
            Self::End => f.write_str("end"),
            Self::Ago(period) => period.fmt(f),
        }
    }
}

impl Serialize for JournalStart {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for JournalStart {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse()
            .map_err(|error| de::Error::custom(format!("{error}, or `beginning`, or `end`")))
    }
}

impl JsonSchema for JournalStart {
    fn schema_name() -> Cow<'static, str> {
        "JournalStart".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let period = generator.subschema_for::<Period>();
        json_schema!({ "anyOf": [{ "enum": ["beginning", "end"] }, period] })
    }
}

/// As Splunk's own input of journals has it.
fn sourcetype_default() -> String {
    "journald".to_owned()
}

fn source_default() -> String {
    "journald".to_owned()
}

/// Fields with the content of a syslog header.
fn fields_default() -> Vec<String> {
    ["PRIORITY", "SYSLOG_IDENTIFIER", "_PID", "_SYSTEMD_UNIT"]
        .map(str::to_owned)
        .to_vec()
}

fn journalctl_default() -> PathBuf {
    PathBuf::from("journalctl")
}

/// True if a field of a journal may have that name.
fn is_field_name(name: &str) -> bool {
    let known = |byte: u8| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_');
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(known)
}

/// True for a severity by name or number.
fn is_priority(text: &str) -> bool {
    const NAMES: [&str; 8] = [
        "emerg", "alert", "crit", "err", "warning", "notice", "info", "debug",
    ];
    NAMES.contains(&text) || matches!(text.as_bytes(), [b'0'..=b'7'])
}

/// True if a text can be given to a program, and is something.
fn is_text(text: &str) -> bool {
    !text.is_empty() && !text.contains('\0')
}

impl JournaldSource {
    /// True if entries are left out.
    pub(super) fn is_filtered(&self) -> bool {
        !self.matches.is_empty() || !self.units.is_empty() || self.priority.is_some()
    }

    fn check_matches(&self) -> Result<(), OptionProblem> {
        let mut joins = true;
        for (at, text) in self.matches.iter().enumerate() {
            let name = text.split_once('=').map(|(name, _)| name);
            let good = match name {
                Some(name) => is_field_name(name) && is_text(text),
                None => text == "+" && !joins,
            };
            joins = name.is_none();
            if !good || (joins && at + 1 == self.matches.len()) {
                let words = "write each as `FIELD=value`, or `+` between two groups";
                return Err(OptionProblem::new(format!("matches[{at}]"), words));
            }
        }
        Ok(())
    }
}

impl SourceOptions for JournaldSource {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn type_name(&self) -> &'static str {
        "journald"
    }

    fn index(&self) -> &str {
        &self.index
    }

    fn sourcetype(&self) -> &str {
        &self.sourcetype
    }

    fn validate(&self) -> Result<(), OptionProblem> {
        self.check_matches()?;
        if self.directory.is_some() && self.namespace.is_some() {
            let words = "give it, or `namespace`: a folder has the files of one namespace";
            return Err(OptionProblem::new("directory", words));
        }
        for (at, unit) in self.units.iter().enumerate() {
            if !is_text(unit) {
                return Err(OptionProblem::new(
                    format!("units[{at}]"),
                    "it is no name of a unit",
                ));
            }
        }
        let severities = self.priority.as_deref().unwrap_or("0");
        let (least, most) = severities.split_once("..").unwrap_or((severities, "0"));
        if !is_priority(least) || !is_priority(most) {
            let words = "write a severity as `warning` or `4`, or a range as `err..warning`";
            return Err(OptionProblem::new("priority", words));
        }
        for (at, name) in self.fields.iter().enumerate() {
            if !is_field_name(name) || at >= FIELDS_MAX {
                let words = "names have capitals, digits and `_`, at most 64";
                return Err(OptionProblem::new(format!("fields[{at}]"), words));
            }
            if self.fields[..at].contains(name) {
                return Err(OptionProblem::new(
                    format!("fields[{at}]"),
                    "it is named twice",
                ));
            }
        }
        if self.namespace.as_deref().is_some_and(|name| !is_text(name)) {
            return Err(OptionProblem::new("namespace", "it is empty"));
        }
        for (key, path) in [
            ("directory", self.directory.as_deref()),
            ("journalctl", Some(self.journalctl.as_path())),
        ] {
            if path == Some(Path::new("")) {
                return Err(OptionProblem::new(key, "it is empty"));
            }
        }
        Ok(())
    }

    fn start(
        &self,
        name: &str,
        services: &Arc<SourceServices>,
        known: &Enrichment,
    ) -> Result<StartedSource, String> {
        RunningJournal::start(name, self, services, known)
    }
}
