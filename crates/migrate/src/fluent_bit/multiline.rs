//! Parsers of Fluent Bit, by name: what is left of them here is how lines belong together.

use std::collections::BTreeMap;

use crate::draft::{DraftEntry, MigrationDraft, SettingFate};
use crate::foreign::{ForeignSection, ForeignSetting};
use crate::table::{duration, pattern_value};
use crate::yaml::quoted;

/// Parsers of lines that come with Fluent Bit: a pattern of the lines that go on, of our own.
const BUILTIN: [(&str, &str); 4] = [
    ("java", r"^\s+(at|\.\.\.)\s|^\s*Caused by:|^\s+Suppressed:"),
    (
        "python",
        r#"^\s+|^[\w.]+(Error|Exception|Warning|Interrupt)\b"#,
    ),
    (
        "go",
        r"^\s*$|^goroutine \d|^\t|^created by |^\[signal |^[\w./*()]+\(.*\)$",
    ),
    ("ruby", r"^\s+\d+: |^\s+from |^\t"),
];

/// A `[PARSER]`: a pattern of one line.
#[derive(Debug)]
struct LineParser {
    section: ForeignSection,
    regex: Option<String>,
    used: bool,
}

/// A `[MULTILINE_PARSER]`.
#[derive(Debug)]
struct MultilineRules {
    section: ForeignSection,
    rules: Vec<ForeignSetting>,
    timeout: Option<ForeignSetting>,
    used: bool,
}

/// All parsers by their names.
#[derive(Debug, Default)]
pub(super) struct LineParsers {
    parsers: BTreeMap<String, LineParser>,
    multiline: BTreeMap<String, MultilineRules>,
}

/// Fate of a parser, as the note tells it.
pub(super) type JoinOutcome = Result<&'static str, &'static str>;

impl LineParsers {
    /// Takes the sections of parsers.
    pub(super) fn take(
        parsers: &mut Vec<ForeignSection>,
        multiline: &mut Vec<ForeignSection>,
        draft: &mut MigrationDraft,
    ) -> Self {
        let mut found = Self::default();
        for mut section in parsers.drain(..) {
            let name = named(&mut section);
            let regex = section.value("regex").map(str::to_owned);
            let parser = LineParser {
                section,
                regex,
                used: false,
            };
            if let Some(other) = found.parsers.insert(name, parser) {
                double(&other.section, draft);
            }
        }
        for mut section in multiline.drain(..) {
            let name = named(&mut section);
            let rules = MultilineRules {
                rules: section
                    .take_all("rule")
                    .into_iter()
                    .chain(section.take_all("rules"))
                    .collect(),
                timeout: section.take("flush_timeout"),
                section,
                used: false,
            };
            if let Some(other) = found.multiline.insert(name, rules) {
                double(&other.section, draft);
            }
        }
        found
    }

    /// True if a parser of one line reads lines of container runtimes.
    pub(super) fn container_format(&mut self, name: &str) -> Option<&'static str> {
        match name.to_ascii_lowercase().as_str() {
            "docker" => return Some("docker"),
            "cri" => return Some("cri"),
            _ => {}
        }
        let parser = self.parsers.get_mut(name)?;
        let regex = parser.regex.as_deref()?;
        let cri = regex.contains("stdout|stderr");
        parser.used |= cri;
        cri.then_some("cri")
    }

    /// Writes that a line which fits the parser starts an event.
    pub(super) fn start(&mut self, name: &str, entry: &mut DraftEntry) -> JoinOutcome {
        let Some(parser) = self.parsers.get_mut(name) else {
            return Err("there is no such [PARSER] in the files: write `multiline: {start}`");
        };
        let Some(regex) = parser.regex.as_deref() else {
            return Err("that parser has no pattern: write `multiline: {start}`");
        };
        entry.set("multiline.start", pattern_value(bare(regex))?);
        parser.used = true;
        Ok("multiline.start")
    }

    /// Writes how lines belong together by a parser of several lines.
    pub(super) fn join(&mut self, name: &str, entry: &mut DraftEntry) -> JoinOutcome {
        if let Some(rules) = self.multiline.get_mut(name) {
            return rules.join(entry);
        }
        let Some((_, pattern)) = BUILTIN.iter().find(|(known, _)| *known == name) else {
            return Err("there is no such parser in the files: write `multiline: {start}`");
        };
        entry.set("multiline.continue", quoted(pattern));
        Ok("multiline.continue, a pattern of our own: try it with samples of yours")
    }

    /// Tells what became of each.
    pub(super) fn tell(&self, draft: &mut MigrationDraft) {
        let parsers = self.parsers.values().map(|one| (&one.section, one.used));
        let multiline = self.multiline.values().map(|one| (&one.section, one.used));
        for (section, used) in parsers.chain(multiline) {
            if used {
                draft.tell_section(
                    SettingFate::Renamed,
                    section,
                    "`multiline` or `format` of a source",
                );
            } else {
                let why = "no source needs it: fields of known products come from packs \
                           (`product`), others are found at search time";
                draft.tell_section(SettingFate::Missing, section, why);
            }
        }
    }
}

impl MultilineRules {
    fn join(&mut self, entry: &mut DraftEntry) -> JoinOutcome {
        const NO_RULE: &str = "its rules are not understood: write `multiline: {start}`";
        let mut starts = Vec::new();
        let mut going_on = Vec::new();
        for rule in &self.rules {
            let parts = words_in_quotes(&rule.value);
            let [state, regex, ..] = parts.as_slice() else {
                return Err(NO_RULE);
            };
            crate::table::pattern(bare(regex))?;
            match state.as_str() {
                "start_state" => starts.push(format!("(?:{})", bare(regex))),
                _ => going_on.push(format!("(?:{})", bare(regex))),
            }
        }
        let (option, patterns) = match (starts.is_empty(), going_on.is_empty()) {
            (_, false) => ("multiline.continue", going_on),
            (false, true) => ("multiline.start", starts),
            (true, true) => return Err(NO_RULE),
        };
        entry.set(option, pattern_value(&patterns.join("|"))?);
        if let Some(timeout) = &self.timeout
            && let Some(timeout) = duration(&timeout.value, "ms")
        {
            entry.set("multiline.timeout", timeout);
        }
        self.used = true;
        Ok(match option {
            "multiline.continue" => {
                "multiline.continue: a line that goes on is joined to any line before it"
            }
            option => option,
        })
    }
}

/// The name of a parser; the section is shown by it.
fn named(section: &mut ForeignSection) -> String {
    let name = section.take("name").map(|name| name.value);
    name.unwrap_or_default()
}

fn double(section: &ForeignSection, draft: &mut MigrationDraft) {
    let why = "another parser of this name comes later";
    draft.tell_section(SettingFate::Needless, section, why);
}

/// A pattern without the slashes around it.
fn bare(regex: &str) -> &str {
    let inner = |text: &'_ str| -> Option<usize> {
        (text.len() >= 2 && text.starts_with('/') && text.ends_with('/')).then_some(text.len() - 1)
    };
    match inner(regex) {
        Some(end) => &regex[1..end],
        None => regex,
    }
}

/// Texts in double quotes; a quote in one has a backslash before it.
fn words_in_quotes(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (&mut word, c) {
            (None, '"') => word = Some(String::new()),
            (None, _) => {}
            (Some(_), '"') => words.extend(word.take()),
            (Some(open), '\\') if chars.peek() == Some(&'"') => {
                open.extend(chars.next());
            }
            (Some(open), c) => open.push(c),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_with_their_quotes_and_slashes() {
        let words = words_in_quotes(r#""start_state"  "/^\d \"x\"/" "cont" "open"#);
        assert_eq!(words, ["start_state", r#"/^\d "x"/"#, "cont"]);
        assert_eq!(bare("/^a/"), "^a");
        assert_eq!(bare("/"), "/");
        for (name, pattern) in BUILTIN {
            assert!(crate::table::pattern(pattern).is_ok(), "{name}");
        }
    }
}
