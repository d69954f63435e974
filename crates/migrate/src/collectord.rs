//! Configuration of Collectord: the sections of its INI files, and the variables of its containers
//! that stand in for their values.
//!
//! # What it guarantees
//! * Each setting is carried over, or named with its file and line and the reason.
//! * No token is printed: the configuration takes it from a variable.
//! * The text of a value changes nothing but the value.
//!
//! # Limits
//! [`SECTIONS_MAX`] sections, [`SETTINGS_MAX`] settings and [`VALUE_BYTES_MAX`] bytes of a value
//! are read; what is beyond is named. The caller bounds the bytes of a file.

mod inputs;
mod outputs;

use std::collections::HashMap;
use std::rc::Rc;

use crate::Migration;
use crate::draft::{MigrationDraft, SettingFate};
use crate::foreign::{ForeignSection, ForeignSetting, SettingPlace};
use crate::manifest;

/// Sections that are read.
const SECTIONS_MAX: usize = 1_000;
/// Settings that are read, of all files.
const SETTINGS_MAX: usize = 20_000;
/// Bytes of a value that is read.
const VALUE_BYTES_MAX: usize = 8 * 1024;

/// Begin of the name of a variable that stands in for a value.
const VARIABLE: &str = "COLLECTOR__";

/// Makes a configuration of the files of Collectord, each with its name. A file is INI, lines of
/// `COLLECTOR__NAME=section__key=value`, or Kubernetes manifests with both.
pub fn collectord(files: &[(String, String)]) -> Migration {
    let mut draft = MigrationDraft::new("collectord");
    let mut reader = SectionReader::default();
    for (name, text) in files {
        reader.file(name, text, &mut draft);
    }
    reader.override_all();
    reader.tell_excess(&mut draft);
    let mut sections = reader.sections;
    let outputs = outputs::write(&mut sections, &mut draft);
    inputs::write(&mut sections, &outputs, &mut draft);
    for section in &mut sections {
        draft.unknown_rest(section);
    }
    draft.finish("the files have no section of an input that comes over")
}

/// A value that stands in for one of a file.
struct OverridingValue {
    section: String,
    setting: ForeignSetting,
}

/// Sections of all files, the overriding values, and what was beyond the limits.
#[derive(Default)]
struct SectionReader {
    sections: Vec<ForeignSection>,
    /// Sections by name: their numbers.
    numbers: HashMap<String, usize>,
    overriding: Vec<OverridingValue>,
    settings: usize,
    excess: usize,
    first_excess: Option<SettingPlace>,
}

impl SectionReader {
    fn file(&mut self, name: &str, text: &str, draft: &mut MigrationDraft) {
        if !manifest::is_manifest(text) {
            return self.ini(name, text, draft);
        }
        let content = manifest::read(text);
        let place = |line: usize| SettingPlace {
            file: name.into(),
            line,
        };
        for (line, why) in &content.faults {
            draft.tell_of(SettingFate::Missing, &place(*line), "document", why);
        }
        for (file, text) in &content.texts {
            self.ini(&format!("{name}/{file}"), text, draft);
        }
        let ours = |name: &str| name.starts_with(VARIABLE);
        for variable in content.variables.iter().filter(|one| ours(&one.name)) {
            let place = place(variable.line);
            match &variable.value {
                Some(value) => self.overriding(&variable.name, value, place, draft),
                None => {
                    let why = "its value is elsewhere, in a Secret for example: a token is taken \
                               from the variable that the destination names; set another setting \
                               by hand";
                    draft.tell_of(SettingFate::Missing, &place, &variable.name, why);
                }
            }
        }
    }

    fn ini(&mut self, name: &str, text: &str, draft: &mut MigrationDraft) {
        let file: Rc<str> = name.into();
        let mut section = None;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            let place = SettingPlace {
                file: Rc::clone(&file),
                line: number + 1,
            };
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(inner) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                section = self.section(inner.trim(), place);
                continue;
            }
            let Some((key, value)) = line.split_once('=') else {
                let why = "no `key = value`";
                draft.tell_of(SettingFate::Unknown, &place, "line", why);
                continue;
            };
            let (key, value) = (key.trim(), value.trim());
            let variable = key.strip_prefix("export ").unwrap_or(key);
            if variable.starts_with(VARIABLE) {
                self.overriding(variable, unquoted(value), place, draft);
            } else {
                self.setting(section, key, value, place, draft);
            }
        }
    }

    /// The number of a section, which is made if it is new; `None` beyond the limit.
    fn section(&mut self, name: &str, place: SettingPlace) -> Option<usize> {
        if let Some(known) = self.numbers.get(name) {
            return Some(*known);
        }
        if self.sections.len() >= SECTIONS_MAX {
            self.beyond(place);
            return None;
        }
        self.sections.push(ForeignSection::new(name, place));
        let number = self.sections.len() - 1;
        self.numbers.insert(name.to_owned(), number);
        Some(number)
    }

    fn setting(
        &mut self,
        section: Option<usize>,
        key: &str,
        value: &str,
        place: SettingPlace,
        draft: &mut MigrationDraft,
    ) {
        let Some(section) = section.and_then(|at| self.sections.get_mut(at)) else {
            if self.sections.is_empty() {
                let why = "it stands before the first section";
                draft.tell_of(SettingFate::Unknown, &place, "line", why);
            } else {
                self.beyond(place);
            }
            return;
        };
        if self.settings >= SETTINGS_MAX || value.len() > VALUE_BYTES_MAX {
            return self.beyond(place);
        }
        self.settings += 1;
        section.push(ForeignSetting {
            key: key.to_owned(),
            value: value.to_owned(),
            place,
        });
    }

    /// A variable, whose value is `section__key=value`.
    fn overriding(
        &mut self,
        variable: &str,
        text: &str,
        place: SettingPlace,
        draft: &mut MigrationDraft,
    ) {
        let parts = text
            .split_once('=')
            .and_then(|(path, value)| Some((path.split_once("__")?, value)));
        let Some(((section, key), value)) = parts else {
            let why = "its value is not `section__key=value`";
            let what = crate::yaml::shown_key(variable);
            return draft.tell_of(SettingFate::Unknown, &place, &what, why);
        };
        if self.settings >= SETTINGS_MAX || value.len() > VALUE_BYTES_MAX {
            return self.beyond(place);
        }
        self.settings += 1;
        self.overriding.push(OverridingValue {
            section: section.trim().to_owned(),
            setting: ForeignSetting {
                key: key.trim().to_owned(),
                value: value.trim().to_owned(),
                place,
            },
        });
    }

    /// Puts the overriding values in the place of those of the files.
    fn override_all(&mut self) {
        for one in std::mem::take(&mut self.overriding) {
            let place = one.setting.place.clone();
            let at = self.section(&one.section, place);
            if let Some(section) = at.and_then(|at| self.sections.get_mut(at)) {
                section.take_all(&one.setting.key);
                section.push(one.setting);
            }
        }
    }

    fn beyond(&mut self, place: SettingPlace) {
        self.excess += 1;
        self.first_excess.get_or_insert(place);
    }

    fn tell_excess(&mut self, draft: &mut MigrationDraft) {
        if let Some(place) = self.first_excess.take() {
            let what = format!("and {} more settings or sections", self.excess - 1);
            let why = "not read: more than 20,000 settings, 1,000 sections or 8 KiB of a value";
            draft.tell_of(SettingFate::Missing, &place, &what, why);
        }
    }
}

fn unquoted(value: &str) -> &str {
    let inner = |quote| value.strip_prefix(quote)?.strip_suffix(quote);
    inner('"').or_else(|| inner('\'')).unwrap_or(value)
}

#[cfg(test)]
mod tests;
