//! Reader of the files of Fluent Bit: sections with their settings, whatever form they have.
//!
//! # What it guarantees
//! * `@INCLUDE` and `includes` are followed, each file once: those that name each other end.
//! * `${NAME}` is filled in where `@SET` or `env` gives it, but for names that sound like a secret;
//!   any other stays a variable of the environment.
//! * What cannot be read is named with its place; no text of it is shown.
//!
//! # States
//! A file is read once its name is in `seen`; files of a `ConfigMap` are `beside` until one
//! includes them, and are read on their own at the end.
//!
//! # Limits
//! [`FILES_MAX`] files in [`DEPTH_MAX`] levels, [`SECTIONS_MAX`] sections, [`SETTINGS_MAX`]
//! settings and [`VALUE_BYTES_MAX`] bytes of a value; the number of what is beyond is told.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use inrush_yaml::{MapEntry, NodeKind, YamlNode};

use super::FileLookup;
use super::tag::{TagMatch, tag_match};
use crate::draft::{MigrationDraft, SettingFate};
use crate::foreign::{ForeignSection, ForeignSetting, SettingPlace, is_secret};
use crate::manifest::{self, read_document};
use crate::yaml::shown_key;

/// Files that are read.
const FILES_MAX: usize = 64;
/// Files that include each other, at most.
const DEPTH_MAX: usize = 8;
/// Sections that are read, of all files.
const SECTIONS_MAX: usize = 1_000;
/// Settings that are read, of all files.
const SETTINGS_MAX: usize = 20_000;
/// Bytes of a value that is read.
const VALUE_BYTES_MAX: usize = 8 * 1024;

/// Sections by their kind, in the order in which they are read.
#[derive(Debug, Default)]
pub(super) struct FluentModel {
    pub(super) service: Vec<ForeignSection>,
    pub(super) inputs: Vec<ForeignSection>,
    pub(super) filters: Vec<ForeignSection>,
    pub(super) outputs: Vec<ForeignSection>,
    pub(super) parsers: Vec<ForeignSection>,
    pub(super) multiline: Vec<ForeignSection>,
    pub(super) others: Vec<ForeignSection>,
}

impl FluentModel {
    /// The list of a kind of section, whichever form it has.
    fn list(&mut self, kind: &str) -> &mut Vec<ForeignSection> {
        match kind.to_ascii_uppercase().as_str() {
            "SERVICE" => &mut self.service,
            "INPUT" | "INPUTS" => &mut self.inputs,
            "FILTER" | "FILTERS" => &mut self.filters,
            "OUTPUT" | "OUTPUTS" => &mut self.outputs,
            "PARSER" | "PARSERS" => &mut self.parsers,
            "MULTILINE_PARSER" | "MULTILINE_PARSERS" => &mut self.multiline,
            _ => &mut self.others,
        }
    }
}

/// A name and a text.
type NamedText = (String, String);

/// Reader of all files.
pub(super) struct FluentReader<'a> {
    pub(super) model: FluentModel,
    lookup: FileLookup<'a>,
    /// Values that files give to names.
    sets: BTreeMap<String, String>,
    seen: BTreeSet<String>,
    beside: BTreeMap<String, String>,
    depth: usize,
    sections: usize,
    settings: usize,
    excess: usize,
    first_excess: Option<SettingPlace>,
}

impl<'a> FluentReader<'a> {
    pub(super) fn new(lookup: FileLookup<'a>) -> Self {
        Self {
            model: FluentModel::default(),
            lookup,
            sets: BTreeMap::new(),
            seen: BTreeSet::new(),
            beside: BTreeMap::new(),
            depth: 0,
            sections: 0,
            settings: 0,
            excess: 0,
            first_excess: None,
        }
    }

    /// Reads a file, and what it includes.
    pub(super) fn file(&mut self, name: &str, text: &str, draft: &mut MigrationDraft) {
        let place = SettingPlace {
            file: name.into(),
            line: 1,
        };
        if self.seen.len() >= FILES_MAX || self.depth >= DEPTH_MAX {
            return self.beyond(place);
        }
        if !self.seen.insert(name.to_owned()) {
            return;
        }
        self.depth += 1;
        if manifest::is_manifest(text) {
            self.manifests(name, text, draft);
        } else if is_yaml(name, text) {
            self.yaml(name, text, draft);
        } else {
            self.classic(name, text, draft);
        }
        self.depth -= 1;
    }

    fn manifests(&mut self, name: &str, text: &str, draft: &mut MigrationDraft) {
        let content = manifest::read(text);
        for (line, why) in &content.faults {
            let place = SettingPlace {
                file: name.into(),
                line: *line,
            };
            draft.tell_of(SettingFate::Missing, &place, "document", why);
        }
        self.beside.extend(content.texts);
        // The main file first: its order of sections is that of its includes.
        let main = |text: &str| {
            let text = text.to_ascii_lowercase();
            text.contains("[service]") || text.contains("service:") || text.contains("@include")
        };
        for wanted in [true, false] {
            while let Some(file) = self.next_beside(&|text| main(text) == wanted) {
                let (name, text) = file;
                self.beside_file(&name, &text, draft);
            }
        }
    }

    fn next_beside(&mut self, fits: &dyn Fn(&str) -> bool) -> Option<NamedText> {
        let found = self.beside.iter().find(|(_, text)| fits(text));
        let name = found.map(|(name, _)| name.clone())?;
        self.beside.remove_entry(&name)
    }

    fn beside_file(&mut self, name: &str, text: &str, draft: &mut MigrationDraft) {
        let ends = [".conf", ".yaml", ".yml"];
        if ends.iter().any(|end| name.ends_with(end)) {
            return self.file(name, text, draft);
        }
        let place = SettingPlace {
            file: name.into(),
            line: 1,
        };
        let why = "no configuration: a script does not run here";
        draft.tell_of(SettingFate::Missing, &place, "file", why);
    }

    /// Follows an include of a file.
    fn include(&mut self, pattern: &str, from: &SettingPlace, draft: &mut MigrationDraft) {
        let base = pattern.rsplit('/').next().unwrap_or(pattern);
        let fits = |name: &&String| tag_match(name, base) == TagMatch::All;
        let names: Vec<String> = self.beside.keys().filter(fits).cloned().collect();
        if !names.is_empty() {
            for (name, text) in names
                .iter()
                .filter_map(|n| self.beside.remove_entry(n))
                .collect::<Vec<_>>()
            {
                self.beside_file(&name, &text, draft);
            }
            return;
        }
        let read = |name: &str| name == pattern || name.rsplit('/').next() == Some(base);
        if self.seen.iter().any(|name| read(name)) {
            return;
        }
        if self.seen.len() >= FILES_MAX || self.depth >= DEPTH_MAX {
            return self.beyond(from.clone());
        }
        match (self.lookup)(&from.file, pattern) {
            Ok(files) => {
                for (name, text) in files {
                    self.file(&name, &text, draft);
                }
            }
            Err(why) => {
                let what = format!("@INCLUDE {}", shown_key(pattern));
                let why = format!("{why}: give that file too");
                draft.tell_of(SettingFate::Missing, from, &what, &why);
            }
        }
    }

    fn classic(&mut self, name: &str, text: &str, draft: &mut MigrationDraft) {
        let file: Rc<str> = name.into();
        let mut section = None;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            let place = SettingPlace {
                file: Rc::clone(&file),
                line: number + 1,
            };
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(command) = line.strip_prefix('@') {
                self.command(command, &place, draft);
                continue;
            }
            if let Some(kind) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                self.close(section.take());
                section = self.open(kind.trim(), place);
                continue;
            }
            let Some((key, value)) = line.split_once([' ', '\t']) else {
                // It may be a secret that has lost its key.
                let why = "no `KEY VALUE`";
                draft.tell_of(SettingFate::Unknown, &place, "line", why);
                continue;
            };
            match &mut section {
                Some((_, open)) => {
                    let value = value.trim();
                    let setting = self.setting(key, value, place.clone());
                    if let Some(setting) = setting
                        && !self.referred(open, &setting, draft)
                    {
                        open.push(setting);
                    }
                }
                None if self.first_excess.is_some() => self.beyond(place),
                None => {
                    let why = "it stands before the first section";
                    draft.tell_of(SettingFate::Unknown, &place, "line", why);
                }
            }
        }
        self.close(section);
    }

    /// `@INCLUDE` or `@SET`.
    fn command(&mut self, command: &str, place: &SettingPlace, draft: &mut MigrationDraft) {
        let (word, rest) = command.split_once([' ', '\t']).unwrap_or((command, ""));
        match word.to_ascii_uppercase().as_str() {
            "INCLUDE" => {
                let pattern = self.filled(rest.trim());
                self.include(&pattern, place, draft);
            }
            "SET" => {
                let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
                self.define(key.trim(), value.trim(), place, draft);
            }
            word => {
                let what = format!("@{}", shown_key(word));
                let why = "a command that is not known";
                draft.tell_of(SettingFate::Unknown, place, &what, why);
            }
        }
    }

    fn define(&mut self, key: &str, value: &str, place: &SettingPlace, draft: &mut MigrationDraft) {
        let what = format!("@SET {}", shown_key(key));
        if is_secret(key) {
            let why = "a secret is not written down: set the variable of this name to it";
            return draft.tell_of(SettingFate::Missing, place, &what, why);
        }
        if self.sets.len() >= SETTINGS_MAX || value.len() > VALUE_BYTES_MAX {
            return self.beyond(place.clone());
        }
        self.sets.insert(key.to_owned(), value.to_owned());
        let why = "filled in wherever it is named";
        draft.tell_of(SettingFate::Carried, place, &what, why);
    }

    /// A section that begins, with its kind; `None` beyond the limit.
    fn open(&mut self, kind: &str, place: SettingPlace) -> Option<(String, ForeignSection)> {
        if self.sections >= SECTIONS_MAX {
            self.beyond(place);
            return None;
        }
        self.sections += 1;
        let name = shown_key(kind);
        Some((kind.to_owned(), ForeignSection::new(name, place)))
    }

    /// A section that ends; notes name it by its plugin.
    fn close(&mut self, section: Option<(String, ForeignSection)>) {
        let Some((kind, mut section)) = section else {
            return;
        };
        let plugin = section.value("name").map(shown_key);
        if let Some(plugin) = plugin {
            section.name = format!("{} {plugin}", section.name);
        }
        self.model.list(&kind).push(section);
    }

    /// A setting with its variables filled in; `None` beyond the limit.
    fn setting(&mut self, key: &str, value: &str, place: SettingPlace) -> Option<ForeignSetting> {
        let value = self.filled(value);
        if self.settings >= SETTINGS_MAX || value.len() > VALUE_BYTES_MAX {
            self.beyond(place);
            return None;
        }
        self.settings += 1;
        Some(ForeignSetting {
            key: key.to_owned(),
            value,
            place,
        })
    }

    /// A text in which names that a file gives a value are filled in.
    fn filled(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let (before, from) = rest.split_at(at);
            out.push_str(before);
            let end = from.find('}').map_or(from.len(), |end| end + 1);
            let (whole, after) = from.split_at(end);
            let name = whole.trim_start_matches("${").trim_end_matches('}');
            out.push_str(self.sets.get(name).map_or(whole, String::as_str));
            rest = after;
            if out.len() > VALUE_BYTES_MAX {
                break;
            }
        }
        out.push_str(rest);
        out
    }

    /// Reads the file of parsers that a section names; false if the setting names none.
    fn referred(
        &mut self,
        section: &ForeignSection,
        setting: &ForeignSetting,
        draft: &mut MigrationDraft,
    ) -> bool {
        let named = setting.key.eq_ignore_ascii_case("parsers_file");
        if !named || !section.name.eq_ignore_ascii_case("service") {
            return false;
        }
        draft.carried(section, setting, "the file was read as well");
        self.include(&setting.value, &setting.place, draft);
        true
    }

    fn yaml(&mut self, name: &str, text: &str, draft: &mut MigrationDraft) {
        let file: Rc<str> = name.into();
        let place = |line: usize| SettingPlace {
            file: Rc::clone(&file),
            line,
        };
        let root = match read_document(text) {
            Ok(Some(root)) => root,
            Ok(None) => return,
            Err((line, why)) => {
                return draft.tell_of(SettingFate::Missing, &place(line), "document", why);
            }
        };
        for entry in entries_of(&root, "env") {
            let text = scalar_text(&entry.value);
            self.define(&entry.key, &text, &place(entry.key_at.line), draft);
        }
        for item in root
            .get("includes")
            .map(YamlNode::items)
            .unwrap_or_default()
        {
            self.include(&scalar_text(item), &place(item.at.line), draft);
        }
        for entry in root.entries() {
            match entry.key.as_str() {
                "env" | "includes" => {}
                "pipeline" => {
                    for inner in entry.value.entries() {
                        self.yaml_list(&file, inner, draft);
                    }
                }
                _ => self.yaml_list(&file, entry, draft),
            }
        }
    }

    /// A list of sections, or one section.
    fn yaml_list(&mut self, file: &Rc<str>, entry: &MapEntry, draft: &mut MigrationDraft) {
        let one = std::slice::from_ref(&entry.value);
        let items = match &entry.value.kind {
            NodeKind::List(items) => items.as_slice(),
            _ => one,
        };
        let singular = entry.key.trim_end_matches('s');
        let shown = match entry.key.as_str() {
            "service" => "SERVICE".to_owned(),
            _ => singular.to_ascii_uppercase(),
        };
        for item in items {
            let place = SettingPlace {
                file: Rc::clone(file),
                line: item.at.line,
            };
            let Some((_, mut section)) = self.open(&shown, place) else {
                continue;
            };
            for inner in item.entries() {
                self.yaml_settings(file, inner, &mut section, draft);
            }
            self.close(Some((entry.key.clone(), section)));
        }
    }

    /// The settings of a key: one for each item of a list, and one for each key of a mapping.
    fn yaml_settings(
        &mut self,
        file: &Rc<str>,
        entry: &MapEntry,
        section: &mut ForeignSection,
        draft: &mut MigrationDraft,
    ) {
        let place = SettingPlace {
            file: Rc::clone(file),
            line: entry.key_at.line,
        };
        let texts: Vec<String> = match &entry.value.kind {
            NodeKind::List(items) => items.iter().map(scalar_text).collect(),
            _ => vec![scalar_text(&entry.value)],
        };
        for text in texts {
            if let Some(setting) = self.setting(&entry.key, &text, place.clone())
                && !self.referred(section, &setting, draft)
            {
                section.push(setting);
            }
        }
    }

    fn beyond(&mut self, place: SettingPlace) {
        self.excess += 1;
        self.first_excess.get_or_insert(place);
    }

    /// Tells that something was beyond the limits.
    pub(super) fn tell_excess(&mut self, draft: &mut MigrationDraft) {
        if let Some(place) = self.first_excess.take() {
            let what = format!("and {} more lines or files", self.excess - 1);
            let why = "not read: more than 64 files in 8 levels, 1,000 sections, 20,000 settings \
                       or 8 KiB of a value";
            draft.tell_of(SettingFate::Missing, &place, &what, why);
        }
    }
}

fn entries_of<'a>(root: &'a YamlNode, key: &str) -> &'a [MapEntry] {
    root.get(key).map(YamlNode::entries).unwrap_or_default()
}

/// A value as one text, as the classic format has it: the values of a mapping one after the other,
/// each in quotes where it is the rule of a multiline parser.
fn scalar_text(node: &YamlNode) -> String {
    match &node.kind {
        NodeKind::Scalar(scalar) if scalar.is_null() => String::new(),
        NodeKind::Scalar(scalar) => scalar.text.clone(),
        NodeKind::Map(entries) => {
            let value = |key: &str| entries.iter().find(|entry| entry.key == key);
            let rule = ["state", "regex", "next_state"].map(value);
            if let [Some(state), Some(regex), next] = rule {
                let next = next
                    .map(|next| scalar_text(&next.value))
                    .unwrap_or_default();
                let (state, regex) = (scalar_text(&state.value), scalar_text(&regex.value));
                return format!("\"{state}\" \"{regex}\" \"{next}\"");
            }
            let words = entries.iter().filter_map(|entry| match &entry.value.kind {
                NodeKind::Scalar(scalar) => Some(format!("{} {}", entry.key, scalar.text)),
                _ => None,
            });
            words.collect::<Vec<_>>().join(" ")
        }
        NodeKind::List(_) | NodeKind::Unresolved => String::new(),
    }
}

/// True if a file has the YAML form.
fn is_yaml(name: &str, text: &str) -> bool {
    if name.ends_with(".yaml") || name.ends_with(".yml") {
        return true;
    }
    let mut lines = text.lines().map(str::trim_end);
    let first = lines.find(|line| {
        let line = line.trim_start();
        !line.is_empty() && !line.starts_with(['#', '@'])
    });
    first.is_some_and(|line| line.ends_with(':') && !line.starts_with(['[', ' ']))
}
