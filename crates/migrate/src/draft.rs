//! A configuration that is being made, and the fate of every setting that it is made of.
//!
//! # What it guarantees
//! * Each setting has one fate, which the configuration names in a comment at its head. What
//!   cannot come over, and what is not known, is a note as well.
//! * A comment or a note is one line without what a terminal obeys. It shows no value of a setting.
//! * Names of sources and destinations are unique.
//!
//! # Limits
//! At most [`ENTRIES_MAX`] sources and as many destinations, and [`VERDICTS_MAX`] settings by name;
//! the number of further ones is told.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::foreign::{ForeignSection, ForeignSetting, SettingPlace};
use crate::yaml::{self, expression, literal, one_line, quoted, shown_key};
use crate::{Migration, MigrationNote};

/// Sources of a draft, and destinations, at most.
pub(crate) const ENTRIES_MAX: usize = 100;
/// Settings that are named one by one.
const VERDICTS_MAX: usize = 2_000;
/// Transforms at most: a configuration has room for some thousand values.
const TRANSFORMS_MAX: usize = 500;

/// Bytes of an expression, so that it has fewer than the 256 operators that a configuration takes.
const EXPRESSION_BYTES_MAX: usize = 4_000;

/// Fate of a setting.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum SettingFate {
    /// Option of the same meaning.
    Carried,
    /// Option with another meaning in detail, which the comment tells.
    Renamed,
    /// Nothing corresponds to it because nothing has to be set.
    Needless,
    /// No counterpart: the comment says what to do.
    Missing,
    /// Key that this program does not know.
    Unknown,
}

/// Heads of the comments, in their order.
const HEADS: [(SettingFate, &str); 5] = [
    (SettingFate::Carried, "Carried over"),
    (
        SettingFate::Renamed,
        "Under another name, or not quite the same",
    ),
    (SettingFate::Needless, "Not needed"),
    (SettingFate::Missing, "Not carried over, with what to do"),
    (
        SettingFate::Unknown,
        "Not known to this program: it changes nothing",
    ),
];

/// Fate of one setting, with its place, its name and the reason.
#[derive(Clone, Debug)]
struct SettingVerdict {
    fate: SettingFate,
    place: SettingPlace,
    what: String,
    why: String,
}

/// A value of an entry.
#[derive(Clone, Debug)]
enum DraftValue {
    Plain(String),
    Nested(Vec<(String, String)>),
}

/// A source or a destination.
#[derive(Clone, Debug, Default)]
pub(crate) struct DraftEntry {
    name: String,
    comments: Vec<String>,
    values: Vec<(String, DraftValue)>,
}

impl DraftEntry {
    pub(crate) fn new(name: &str, kind: &str) -> Self {
        let mut entry = Self {
            name: yaml::name(name),
            ..Self::default()
        };
        entry.set("type", kind);
        entry
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A comment above the entry.
    pub(crate) fn comment(&mut self, text: &str) {
        self.comments.push(one_line(text));
    }

    /// Sets an option to a value that is YAML already. `GROUP.KEY` sets a key of a group.
    pub(crate) fn set(&mut self, key: &str, value: impl Into<String>) {
        let value = value.into();
        let (key, inner) = match key.split_once('.') {
            Some((group, inner)) => (group, Some(inner)),
            None => (key, None),
        };
        let at = self.values.iter().position(|(name, _)| name == key);
        let at = at.unwrap_or_else(|| {
            let empty = DraftValue::Nested(Vec::new());
            self.values.push((key.to_owned(), empty));
            self.values.len() - 1
        });
        let slot = &mut self.values[at].1;
        match (inner, slot) {
            (None, slot) => *slot = DraftValue::Plain(value),
            (Some(inner), DraftValue::Nested(values)) => {
                values.retain(|(name, _)| name != inner);
                values.push((inner.to_owned(), value));
            }
            (Some(inner), slot) => *slot = DraftValue::Nested(vec![(inner.to_owned(), value)]),
        }
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.values.iter().any(|(name, _)| name == key)
    }

    /// The value of an option that is no group.
    pub(crate) fn plain(&self, key: &str) -> Option<&str> {
        let found = self.values.iter().find(|(name, _)| name == key)?;
        match &found.1 {
            DraftValue::Plain(value) => Some(value),
            DraftValue::Nested(_) => None,
        }
    }

    fn write(&self, out: &mut String) {
        for comment in &self.comments {
            // Writing to a text cannot fail.
            let _ = writeln!(out, "  # {comment}");
        }
        let _ = writeln!(out, "  {}:", self.name);
        for (key, value) in &self.values {
            match value {
                DraftValue::Plain(value) => {
                    let _ = writeln!(out, "    {key}: {value}");
                }
                DraftValue::Nested(values) => {
                    let inner = values.iter().map(|(key, value)| format!("{key}: {value}"));
                    let inner: Vec<String> = inner.collect();
                    let _ = writeln!(out, "    {key}: {{ {} }}", inner.join(", "));
                }
            }
        }
    }
}

/// A configuration that is being made.
#[derive(Debug, Default)]
pub(crate) struct MigrationDraft {
    command: &'static str,
    top: Vec<String>,
    sources: Vec<DraftEntry>,
    transforms: Vec<String>,
    destinations: Vec<DraftEntry>,
    routes: Vec<String>,
    verdicts: Vec<SettingVerdict>,
    unnamed: BTreeMap<SettingFate, usize>,
}

impl MigrationDraft {
    /// A draft of the command of this name.
    pub(crate) fn new(command: &'static str) -> Self {
        Self {
            command,
            ..Self::default()
        }
    }

    /// Tells the fate of a setting.
    pub(crate) fn tell(
        &mut self,
        fate: SettingFate,
        section: &ForeignSection,
        setting: &ForeignSetting,
        why: &str,
    ) {
        let what = format!("[{}] {}", section.name, shown_key(&setting.key));
        self.tell_of(fate, &setting.place, &what, why);
    }

    /// Tells the fate of a whole section.
    pub(crate) fn tell_section(&mut self, fate: SettingFate, section: &ForeignSection, why: &str) {
        let keys = match section.len() {
            0 => String::new(),
            1 => " and its key".to_owned(),
            keys => format!(" and its {keys} keys"),
        };
        let what = format!("[{}]{keys}", section.name);
        self.tell_of(fate, &section.place, &what, why);
    }

    /// Tells the fate of something at a place.
    pub(crate) fn tell_of(
        &mut self,
        fate: SettingFate,
        place: &SettingPlace,
        what: &str,
        why: &str,
    ) {
        if self.verdicts.len() >= VERDICTS_MAX {
            *self.unnamed.entry(fate).or_default() += 1;
            return;
        }
        self.verdicts.push(SettingVerdict {
            fate,
            place: place.clone(),
            what: one_line(&format!("{place} {what}")),
            why: one_line(why),
        });
    }

    /// Tells that a setting became an option of the same meaning.
    pub(crate) fn carried(&mut self, from: &ForeignSection, setting: &ForeignSetting, to: &str) {
        self.tell(SettingFate::Carried, from, setting, to);
    }

    /// Tells that a setting has no counterpart, and what to do.
    pub(crate) fn missing(&mut self, from: &ForeignSection, setting: &ForeignSetting, why: &str) {
        self.tell(SettingFate::Missing, from, setting, why);
    }

    /// Tells that nothing has to be set.
    pub(crate) fn needless(&mut self, from: &ForeignSection, setting: &ForeignSetting, why: &str) {
        self.tell(SettingFate::Needless, from, setting, why);
    }

    /// Names all that is left of a section as not known.
    pub(crate) fn unknown_rest(&mut self, section: &mut ForeignSection) {
        for setting in section.take_rest() {
            let why = "look it up, and see whether you need it";
            self.tell(SettingFate::Unknown, section, &setting, why);
        }
    }

    /// A line before the sources.
    pub(crate) fn top(&mut self, line: &str) {
        if !self.top.iter().any(|one| one == line) {
            self.top.push(line.to_owned());
        }
    }

    /// Adds a source under a name that is free; its name. `None` if there is no room for it.
    pub(crate) fn add_source(&mut self, entry: DraftEntry) -> Option<String> {
        add(&mut self.sources, entry)
    }

    /// Adds a destination likewise.
    pub(crate) fn add_destination(&mut self, entry: DraftEntry) -> Option<String> {
        add(&mut self.destinations, entry)
    }

    pub(crate) fn source(&mut self, name: &str) -> Option<&mut DraftEntry> {
        self.sources.iter_mut().find(|entry| entry.name == name)
    }

    /// The sources of a type, by their names.
    pub(crate) fn sources_of(&self, kind: &str) -> Vec<String> {
        let fits = |entry: &&DraftEntry| entry.plain("type") == Some(kind);
        let found = self.sources.iter().filter(fits);
        found.map(|entry| entry.name.clone()).collect()
    }

    pub(crate) fn destinations(&self) -> Vec<String> {
        let all = self.destinations.iter();
        all.map(|entry| entry.name.clone()).collect()
    }

    /// A condition that an event is of one of these sources; nothing if they are all.
    pub(crate) fn of_sources(&self, names: &[String]) -> Option<String> {
        if names.len() == self.sources.len() {
            return None;
        }
        match names {
            [only] => Some(format!("listener == {}", literal(only))),
            names => {
                let names: Vec<String> = names.iter().map(|name| literal(name)).collect();
                Some(format!("listener in [{}]", names.join(", ")))
            }
        }
    }

    /// Adds a transform for a section: what it is called, when, and what it does. What has no room
    /// is told.
    pub(crate) fn transform(
        &mut self,
        from: &ForeignSection,
        name: &str,
        when: &[Option<String>],
        does: &str,
    ) {
        let when: Vec<&str> = when.iter().flatten().map(String::as_str).collect();
        let when = when.join(" && ");
        let long = when.len().max(does.len()) > EXPRESSION_BYTES_MAX;
        if long || self.transforms.len() >= TRANSFORMS_MAX {
            let what = format!("[{}] transform", from.name);
            let why = "too many or too long: write shorter conditions by hand";
            return self.tell_of(SettingFate::Missing, &from.place, &what, why);
        }
        let condition = match when.as_str() {
            "" => String::new(),
            when => format!(", match: {}", expression(when)),
        };
        let name = quoted(&one_line(name));
        let line = format!("{{ name: {name}{condition}, {does} }}");
        self.transforms.push(line);
    }

    /// Adds a route; without a condition it is for all that is left.
    pub(crate) fn route(&mut self, condition: Option<&str>, to: &[String]) {
        let to = yaml::list(to);
        self.routes.push(match condition {
            Some(condition) => format!("{{ match: {}, to: {to} }}", expression(condition)),
            None => format!("{{ to: {to} }}"),
        });
    }

    /// The configuration and its notes. Where nothing can be sent, events go to the store.
    pub(crate) fn finish(mut self, empty: &str) -> Migration {
        let mut notes = Vec::new();
        if self.sources.is_empty() {
            notes.push(note("sources", empty));
        }
        if self.destinations.is_empty() {
            let why = "no destination came over: events are kept in the store";
            notes.push(note("destinations", why));
            let mut local = DraftEntry::new("local", "store");
            local.comment("No destination came over: events are kept here.");
            self.destinations.push(local);
            self.routes.clear();
        }
        let order = |one: &SettingVerdict| (one.fate, one.place.clone());
        self.verdicts.sort_by_cached_key(order);
        notes.extend(self.notes());
        Migration {
            config: self.text(),
            notes,
        }
    }

    /// Steps that are left to be done by hand.
    fn notes(&self) -> Vec<MigrationNote> {
        let todo = |fate: SettingFate| fate >= SettingFate::Missing;
        let named = self.verdicts.iter().filter(|verdict| todo(verdict.fate));
        let mut notes: Vec<MigrationNote> = named
            .map(|verdict| match verdict.fate {
                SettingFate::Unknown => note(&verdict.what, "not known to this program"),
                _ => note(&verdict.what, &verdict.why),
            })
            .collect();
        let more: usize = self.unnamed.values().sum();
        if more > 0 {
            let what = format!("{more} more settings");
            notes.push(note(&what, "too many to name each: migrate in parts"));
        }
        notes
    }

    fn text(&self) -> String {
        let mut out = format!(
            "# Made by `inrush migrate {}`. Read the comments, set the variables, then run\n\
             # `inrush check FILE`. The last two lists stand on stderr too.\n",
            self.command
        );
        for (fate, head) in HEADS {
            self.write_verdicts(fate, head, &mut out);
        }
        for line in &self.top {
            out.push_str(line);
            out.push('\n');
        }
        if self.sources.is_empty() {
            out.push_str("sources: {} # none came over: add one\n");
        } else {
            out.push_str("sources:\n");
        }
        self.sources.iter().for_each(|entry| entry.write(&mut out));
        write_list("transforms", &self.transforms, &mut out);
        out.push_str("destinations:\n");
        self.destinations
            .iter()
            .for_each(|entry| entry.write(&mut out));
        write_list("routes", &self.routes, &mut out);
        out
    }

    fn write_verdicts(&self, fate: SettingFate, head: &str, out: &mut String) {
        let mut verdicts = self.verdicts.iter().filter(|one| one.fate == fate);
        let more = self.unnamed.get(&fate).copied().unwrap_or_default();
        let mut next = verdicts.next();
        if next.is_none() && more == 0 {
            return;
        }
        // Writing to a text cannot fail.
        let _ = writeln!(out, "#\n# {head}:");
        while let Some(verdict) = next {
            let joint = match fate {
                SettingFate::Carried | SettingFate::Renamed => " ->",
                _ => ":",
            };
            let _ = writeln!(out, "#   {}{joint} {}", verdict.what, verdict.why);
            next = verdicts.next();
        }
        if more > 0 {
            let _ = writeln!(out, "#   and {more} more");
        }
    }
}

fn note(what: &str, why: &str) -> MigrationNote {
    MigrationNote {
        what: what.to_owned(),
        why: why.to_owned(),
    }
}

fn add(entries: &mut Vec<DraftEntry>, mut entry: DraftEntry) -> Option<String> {
    if entries.len() >= ENTRIES_MAX {
        return None;
    }
    let wanted = entry.name.clone();
    let mut number = 2;
    while entries.iter().any(|one| one.name == entry.name) {
        entry.name = format!("{wanted}_{number}");
        number += 1;
    }
    let name = entry.name.clone();
    entries.push(entry);
    Some(name)
}

fn write_list(head: &str, lines: &[String], out: &mut String) {
    if lines.is_empty() {
        return;
    }
    // Writing to a text cannot fail.
    let _ = writeln!(out, "{head}:");
    for line in lines {
        let _ = writeln!(out, "  - {line}");
    }
}
