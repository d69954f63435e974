//! Field names of a query: columns of the table `events`, and keys of its column `fields`.
//!
//! # What it guarantees
//! * A column's name means the column, and any other accepted name a key. `fields.` forces a key.
//! * A misspelt column is refused with a hint, because a search for a key would find nothing.
//! * The label of a parsed [`QueryField`] parses to the same field.
//!
//! # Limits
//! A misspelling differs in case, in a leading `_`, or in one slip behind the first letter. Slips
//! count for columns of 6 characters or more. A name longer than 32 bytes is always a key.
//! Severities end at `SEVERITY_MAX`, facilities at `FACILITY_MAX`.

use inrush_event::{facility_name, severity_name};

use super::error::shown;

/// Prefix of a name that is meant as a key of `fields`, whatever else it could mean.
pub(super) const KEY_PREFIX: &str = "fields.";
/// The label of `count` in a table; a key of that name has to be told apart from it.
pub(super) const COUNT: &str = "count";

/// Facilities and severities are numbers from 0.
const SEVERITY_MAX: u8 = 7;
const FACILITY_MAX: u8 = 23;

/// Other names in use for severities, beside those of syslog.conf(5).
const SEVERITY_ALIASES: &[(&str, u8)] = &[
    ("emergency", 0),
    ("panic", 0),
    ("critical", 2),
    ("error", 3),
    ("warn", 4),
    ("informational", 6),
    ("information", 6),
];

/// Other names in use for facilities, beside those of syslog.conf(5).
const FACILITY_ALIASES: &[(&str, u8)] = &[("kernel", 0), ("security", 4)];

/// Type of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// Text.
    Text,
    /// A number.
    Number,
    /// A time in nanoseconds since 1970, UTC.
    Time,
    /// Texts by their keys.
    Map,
}

impl ColumnType {
    /// As the API writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Number => "number",
            Self::Time => "time",
            Self::Map => "map",
        }
    }
}

/// A column of `events` that a query can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventColumn {
    /// Time of the event, or of its receipt where the sender gave no time.
    Time,
    /// Time of receipt.
    Received,
    /// The host that the event is about.
    Host,
    /// Splunk's `source`.
    Source,
    /// Splunk's `sourcetype`.
    Sourcetype,
    /// The index that the event was sorted into.
    Index,
    /// 0 (emergency) to 7 (debug), RFC 5424 section 6.2.1.
    Severity,
    /// 0 to 23, RFC 5424 section 6.2.1.
    Facility,
    /// Maker of the product.
    Vendor,
    /// The product that sent it.
    Product,
    /// APP-NAME of RFC 5424, the tag of RFC 3164.
    App,
    /// PROCID of RFC 5424.
    ProcId,
    /// MSGID of RFC 5424.
    MsgId,
    /// The record as it came.
    Raw,
    /// Rest of the record behind its header.
    Message,
    /// Address of the sender; absent for an event that no peer sent.
    Sender,
    /// Names of what was odd about the record, joined by commas.
    Anomalies,
}

impl EventColumn {
    /// All, in the order of the table.
    pub const ALL: [Self; 17] = [
        Self::Time,
        Self::Received,
        Self::Host,
        Self::Source,
        Self::Sourcetype,
        Self::Index,
        Self::Severity,
        Self::Facility,
        Self::Vendor,
        Self::Product,
        Self::App,
        Self::ProcId,
        Self::MsgId,
        Self::Raw,
        Self::Message,
        Self::Sender,
        Self::Anomalies,
    ];

    /// As it is written, in queries and in SQL.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Received => "received",
            Self::Host => "host",
            Self::Source => "source",
            Self::Sourcetype => "sourcetype",
            Self::Index => "index",
            Self::Severity => "severity",
            Self::Facility => "facility",
            Self::Vendor => "vendor",
            Self::Product => "product",
            Self::App => "app",
            Self::ProcId => "proc_id",
            Self::MsgId => "msg_id",
            Self::Raw => "raw",
            Self::Message => "message",
            Self::Sender => "sender",
            Self::Anomalies => "anomalies",
        }
    }

    /// Type of its values.
    pub const fn kind(self) -> ColumnType {
        match self {
            Self::Time | Self::Received => ColumnType::Time,
            Self::Severity | Self::Facility => ColumnType::Number,
            _ => ColumnType::Text,
        }
    }

    /// True if values are compared as typed, in their case. These four say where an event lies.
    /// Files and row groups have their least and greatest values, bloom filters and folders. Those
    /// can be used for a value as it stands, not for a value in any case.
    pub const fn as_typed(self) -> bool {
        matches!(
            self,
            Self::Host | Self::Source | Self::Sourcetype | Self::Index
        )
    }

    fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|column| column.name() == name)
    }

    /// The number of a severity or facility, from its name or its digits.
    pub(super) fn code(self, text: &str) -> Option<u8> {
        let (max, aliases) = self.codes()?;
        if let Ok(code) = text.parse::<u8>() {
            return (code <= max).then_some(code);
        }
        let text = text.to_ascii_lowercase();
        let named = (0..=max).find(|&code| self.code_name(code) == text);
        let alias = aliases.iter().find(|(name, _)| *name == text);
        named.or(alias.map(|(_, code)| *code))
    }

    /// The name of a severity or facility.
    pub fn code_name(self, code: u8) -> &'static str {
        match self {
            Self::Facility => facility_name(code),
            _ => severity_name(code),
        }
    }

    /// The names of all its severities or facilities.
    pub(super) fn code_names(self) -> impl Iterator<Item = &'static str> {
        let (max, aliases) = self.codes().unwrap_or((0, &[]));
        let named = (0..=max).map(move |code| self.code_name(code));
        named.chain(aliases.iter().map(|(name, _)| *name))
    }

    const fn codes(self) -> Option<(u8, &'static [(&'static str, u8)])> {
        match self {
            Self::Severity => Some((SEVERITY_MAX, SEVERITY_ALIASES)),
            Self::Facility => Some((FACILITY_MAX, FACILITY_ALIASES)),
            _ => None,
        }
    }
}

/// Field that a name in a query stands for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum QueryField {
    /// A column of the table.
    Column(EventColumn),
    /// A key of the column `fields`, by its exact name.
    Key(String),
}

impl QueryField {
    /// Type of the values; those of a key are texts.
    pub const fn kind(&self) -> ColumnType {
        match self {
            Self::Column(column) => column.kind(),
            Self::Key(_) => ColumnType::Text,
        }
    }

    /// True if values are compared as typed; see [`EventColumn::as_typed`].
    pub const fn as_typed(&self) -> bool {
        matches!(self, Self::Column(column) if column.as_typed())
    }

    /// The name that leads here: `fields.host` for a key that happens to be called like a column.
    pub fn label(&self) -> String {
        match self {
            Self::Column(column) => column.name().to_owned(),
            Self::Key(key) if key != COUNT && Self::named(key).ok().as_ref() == Some(self) => {
                key.clone()
            }
            Self::Key(key) => format!("{KEY_PREFIX}{key}"),
        }
    }

    /// Field that a name stands for. Any name could be a key. One that is a column but for a slip
    /// of the hand is refused, with a hint. A search for it would find nothing and not say why.
    pub(super) fn named(name: &str) -> Result<Self, FieldNameError> {
        if let Some(key) = name.strip_prefix(KEY_PREFIX) {
            return if key.is_empty() {
                Err(FieldNameError::new("the name of a key is missing", None))
            } else {
                Ok(Self::Key(key.to_owned()))
            };
        }
        if let Some(column) = EventColumn::of(name) {
            return Ok(Self::Column(column));
        }
        if name.is_empty() {
            return Err(FieldNameError::new("a field's name is missing", None));
        }
        if name == KEY_PREFIX.trim_end_matches('.') {
            let hint = format!("write {KEY_PREFIX} and the name of a key");
            return Err(FieldNameError::new(
                "`fields` holds fields of many names",
                Some(hint),
            ));
        }
        match meant(name) {
            None => Ok(Self::Key(name.to_owned())),
            Some(column) => Err(FieldNameError::new(
                format!("there is no field {}", shown(name)),
                Some(format!(
                    "did you mean `{}`? A key of that name is written {}",
                    column.name(),
                    shown(&format!("{KEY_PREFIX}{name}"))
                )),
            )),
        }
    }
}

/// Error of a name that stands for nothing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FieldNameError {
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

impl FieldNameError {
    fn new(message: impl Into<String>, hint: Option<String>) -> Self {
        Self {
            message: message.into(),
            hint,
        }
    }
}

/// The column that was meant by a name that is none: in another case, as Splunk writes it
/// (`_time`), or one slip away. Short names are not guessed at, and neither are plurals: `mime`
/// and `sources` are keys of their own right.
fn meant(name: &str) -> Option<EventColumn> {
    const GUESSED_CHARS: usize = 6;
    // Nothing as long as this is a slip of the hand, and comparing costs length × length.
    if name.len() > 32 {
        return None;
    }
    let slip = |column: &EventColumn| {
        let column = column.name();
        column.len() >= GUESSED_CHARS
            && name.bytes().next() == column.bytes().next()
            && name.strip_prefix(column) != Some("s")
            && strsim::damerau_levenshtein(name, column) == 1
    };
    let plain = name.strip_prefix('_').unwrap_or(name);
    let same = |column: &EventColumn| column.name().eq_ignore_ascii_case(plain);
    let mut all = EventColumn::ALL.into_iter();
    all.clone().find(same).or_else(|| all.find(slip))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_column_or_a_key_or_a_slip() {
        let key = |name: &str| Ok(QueryField::Key(name.to_owned()));
        let cases = [
            ("host", Ok(QueryField::Column(EventColumn::Host)), "host"),
            (
                "proc_id",
                Ok(QueryField::Column(EventColumn::ProcId)),
                "proc_id",
            ),
            ("user", key("user"), "user"),
            ("hosts", key("hosts"), "hosts"),
            ("mime", key("mime"), "mime"),
            ("sources", key("sources"), "sources"),
            ("gender", key("gender"), "gender"),
            (
                "sender",
                Ok(QueryField::Column(EventColumn::Sender)),
                "sender",
            ),
            ("fields.host", key("host"), "fields.host"),
            ("fields.user", key("user"), "user"),
            ("fields.fields.x", key("fields.x"), "fields.fields.x"),
            ("fields.procid", key("procid"), "fields.procid"),
            ("count", key("count"), "fields.count"),
            ("fields.", Err(None), ""),
            ("fields", Err(None), ""),
            ("", Err(None), ""),
            ("Host", Err(Some("host")), ""),
            ("_time", Err(Some("time")), ""),
            ("sorcetype", Err(Some("sourcetype")), ""),
            ("sevreity", Err(Some("severity")), ""),
            ("procid", Err(Some("proc_id")), ""),
            ("sendr", Err(Some("sender")), ""),
        ];
        for (name, expected, label) in cases {
            match (QueryField::named(name), expected) {
                (Ok(field), Ok(expected)) => {
                    assert_eq!(field, expected, "{name}");
                    assert_eq!(field.label(), label);
                    assert_eq!(QueryField::named(&field.label()), Ok(field));
                }
                (Err(wrong), Err(Some(column))) => {
                    let hint = wrong.hint.unwrap();
                    assert!(hint.contains(&format!("`{column}`?")), "{name}: {hint}");
                    assert!(hint.contains(&format!("`fields.{name}`")), "{name}: {hint}");
                }
                (Err(_), Err(None)) => {}
                (field, _) => panic!("{name}: {field:?}"),
            }
        }
    }

    #[test]
    fn codes_have_names_and_numbers() {
        let cases = [
            (EventColumn::Severity, "err", Some(3)),
            (EventColumn::Severity, "ERROR", Some(3)),
            (EventColumn::Severity, "warn", Some(4)),
            (EventColumn::Severity, "7", Some(7)),
            (EventColumn::Severity, "8", None),
            (EventColumn::Severity, "local0", None),
            (EventColumn::Severity, "-1", None),
            (EventColumn::Facility, "local4", Some(20)),
            (EventColumn::Facility, "23", Some(23)),
            (EventColumn::Facility, "24", None),
            (EventColumn::Host, "err", None),
        ];
        for (column, text, code) in cases {
            assert_eq!(column.code(text), code, "{column:?} {text}");
        }
    }
}
