//! Values of annotations: each kind with the form that it is written in.

use inrush_event::ByteSize;
use regex::bytes::{Regex, RegexBuilder};

/// Bytes of a pattern or a glob that are accepted.
const PATTERN_BYTES_MAX: usize = 4 << 10;
/// Bytes of the program that a pattern becomes.
const PATTERN_PROGRAM_BYTES_MAX: usize = 1 << 20;
/// Bytes of a name: of an index, a source, a destination, a field.
const NAME_BYTES_MAX: usize = 1 << 10;
/// Names in a list.
const NAMES_MAX: usize = 32;

/// Regular expression over bytes, with its text.
#[derive(Clone, Debug)]
pub struct LogPattern {
    /// As it was written.
    pub text: Box<str>,
    /// Compiled: its matches are found in linear time.
    pub regex: Regex,
}

impl PartialEq for LogPattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for LogPattern {}

/// Part of an event that a line with a match is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MultilinePlace {
    /// Its first line.
    Start,
    /// A line that belongs to the one before.
    Continue,
    /// Its last line.
    End,
}

/// Rule that joins lines to events: `PATTERN` of the first line, or `start:`, `continue:` or `end:`
/// and a pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MultilineRule {
    /// Part of the event that a matching line is.
    pub place: MultilinePlace,
    /// The pattern.
    pub pattern: LogPattern,
}

impl MultilineRule {
    /// The patterns of the first line, of a continued one and of the last line of an event, as the
    /// option `multiline` of a source has them.
    pub fn patterns(&self) -> [Option<&str>; 3] {
        let places = [
            MultilinePlace::Start,
            MultilinePlace::Continue,
            MultilinePlace::End,
        ];
        places.map(|place| (place == self.place).then_some(&*self.pattern.text))
    }
}

/// Replacement within events: `/PATTERN/TEXT/`, where any other sign of punctuation may stand for
/// `/`. `$1` and `${name}` in the text are groups of the pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplaceRule {
    /// Number, by which the rules are ordered.
    pub number: u16,
    /// The pattern.
    pub pattern: LogPattern,
    /// Text in place of each match.
    pub with: Box<str>,
}

/// Matches that become their SHA-256 in hexadecimal digits: those of the first group, if the
/// pattern has one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HashRule {
    /// Number, by which the rules are ordered.
    pub number: u16,
    /// The pattern.
    pub pattern: LogPattern,
}

/// `true`, `false`, and what YAML and Fluent Bit take for them.
pub(super) fn boolean(text: &str) -> Result<bool, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => Err("is neither true nor false".into()),
    }
}

/// A name of one line.
pub(super) fn name(text: &str) -> Result<Box<str>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("is empty".into());
    }
    if text.len() > NAME_BYTES_MAX {
        return Err(format!(
            "has {} bytes, at most {NAME_BYTES_MAX}",
            text.len()
        ));
    }
    match text.chars().any(char::is_control) {
        true => Err("has control characters".into()),
        false => Ok(text.into()),
    }
}

/// The name of an index: one word without slashes.
pub(super) fn index(text: &str) -> Result<Box<str>, String> {
    let index = name(text)?;
    let is_odd = |c: char| c.is_whitespace() || matches!(c, '/' | '\\' | ',' | '"');
    match index.contains(is_odd) || index.starts_with('.') {
        true => Err("is not the name of an index".into()),
        false => Ok(index),
    }
}

/// Names with commas between them.
pub(super) fn names(text: &str) -> Result<Vec<Box<str>>, String> {
    let parts: Vec<&str> = text.split(',').take(NAMES_MAX + 1).collect();
    if parts.len() > NAMES_MAX {
        return Err(format!("has more than {NAMES_MAX} names"));
    }
    let mut names = Vec::new();
    for part in parts {
        let name = name(part)?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

/// A regular expression.
pub(super) fn pattern(text: &str) -> Result<LogPattern, String> {
    if text.is_empty() {
        return Err("is empty".into());
    }
    if text.len() > PATTERN_BYTES_MAX {
        return Err(format!(
            "has {} bytes, at most {PATTERN_BYTES_MAX}",
            text.len()
        ));
    }
    let mut builder = RegexBuilder::new(text);
    let built = builder.size_limit(PATTERN_PROGRAM_BYTES_MAX).build();
    let regex = built.map_err(|error| {
        // The last line says what is wrong, those before draw the place.
        let text = error.to_string();
        let last = text.lines().next_back().unwrap_or_default();
        format!(
            "is no regular expression: {}",
            last.trim_start_matches("error: ")
        )
    })?;
    Ok(LogPattern {
        text: text.into(),
        regex,
    })
}

/// A rule that joins lines.
pub(super) fn multiline(text: &str) -> Result<MultilineRule, String> {
    let places = [
        ("start:", MultilinePlace::Start),
        ("continue:", MultilinePlace::Continue),
        ("end:", MultilinePlace::End),
    ];
    let found = places.into_iter().find_map(|(prefix, place)| {
        let rest = text.strip_prefix(prefix)?;
        Some((place, rest))
    });
    let (place, rest) = found.unwrap_or((MultilinePlace::Start, text));
    let pattern = pattern(rest)?;
    Ok(MultilineRule { place, pattern })
}

/// A replacement.
pub(super) fn replace(number: u16, text: &str) -> Result<ReplaceRule, String> {
    let bad = || "is not of the form /PATTERN/TEXT/".to_owned();
    let text = text.trim();
    let mark = text
        .chars()
        .next()
        .filter(|c| c.is_ascii_punctuation() && *c != '\\');
    let mark = mark.ok_or_else(bad)?;
    let mut parts = vec![String::new()];
    let mut chars = text.chars().skip(1);
    while let Some(c) = chars.next() {
        let last = parts.last_mut().ok_or_else(bad)?;
        match c {
            c if c == mark => parts.push(String::new()),
            '\\' => match chars.next() {
                Some(next) if next == mark => last.push(mark),
                Some(next) => last.extend(['\\', next]),
                None => return Err(bad()),
            },
            c => last.push(c),
        }
    }
    let [search, with, end] = parts.as_slice() else {
        return Err(bad());
    };
    if !end.is_empty() {
        return Err(bad());
    }
    replacement(number, search, with)
}

/// A replacement whose parts are given apart.
pub(super) fn replacement(number: u16, search: &str, with: &str) -> Result<ReplaceRule, String> {
    if with.len() > PATTERN_BYTES_MAX {
        return Err(format!(
            "has {} bytes of text, at most {PATTERN_BYTES_MAX}",
            with.len()
        ));
    }
    Ok(ReplaceRule {
        number,
        pattern: pattern(search)?,
        with: with.into(),
    })
}

/// A share in per cent, with or without `%`; 0 to 100.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    let percent = number.parse::<f64>().ok();
    let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| "is no share; write for example 10%".into())
}

/// Bytes a second, such as `1MiB/s`.
pub(super) fn rate(text: &str) -> Result<u64, String> {
    let size = text.trim().trim_end_matches("/s").trim_end();
    let size = size.parse::<ByteSize>().ok().filter(|size| size.0 > 0);
    let bad = || "is no rate; write for example 1MiB/s".into();
    size.map(|size| size.0).ok_or_else(bad)
}

/// A glob of files below the root of a volume.
pub(super) fn glob(text: &str) -> Result<Box<str>, String> {
    let glob = text.trim();
    let leaves = glob.split('/').any(|part| part == "..");
    match glob {
        "" => Err("is empty".into()),
        glob if glob.len() > PATTERN_BYTES_MAX => Err(format!("has {} bytes", glob.len())),
        glob if glob.starts_with('/') || leaves => {
            Err("leaves the volume; write a glob below its root".into())
        }
        glob if glob.contains('\0') => Err("has a NUL".into()),
        glob => Ok(glob.into()),
    }
}
