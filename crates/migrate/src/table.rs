//! Tables of keys: what becomes of each setting of a section, where that needs no code.

use crate::draft::{DraftEntry, MigrationDraft, SettingFate};
use crate::foreign::{ForeignSection, ForeignSetting, is_yes};
use crate::yaml::{quoted, referring};

/// Fate of a setting of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyRule {
    /// A text, as this option.
    Text(&'static str),
    /// A switch, as this option.
    Switch(&'static str),
    /// A time, as this option; a bare number is of this unit.
    Time(&'static str, &'static str),
    /// Nothing has to be set, for this reason.
    Needless(&'static str),
    /// No counterpart; what to do.
    Missing(&'static str),
}

/// Keys in small letters, each with its rule. `*` at the end of a key stands for anything, and so
/// does one at either end; the first that fits counts.
pub(crate) type KeyTable = [(&'static str, KeyRule)];

/// Applies a table to all settings that are left in a section. `path` is that of the entry in the
/// configuration.
pub(crate) fn apply(
    draft: &mut MigrationDraft,
    section: &mut ForeignSection,
    entry: &mut DraftEntry,
    path: &str,
    tables: &[&KeyTable],
) {
    for setting in section.take_rest() {
        let key = setting.key.to_ascii_lowercase();
        let rules = tables.iter().flat_map(|table| table.iter());
        let rule = rules.clone().find(|(pattern, _)| fits(&key, pattern));
        match rule {
            Some((_, rule)) => one(draft, section, entry, path, (&setting, *rule)),
            None => {
                let why = "look it up, and see whether you need it";
                draft.tell(SettingFate::Unknown, section, &setting, why);
            }
        }
    }
}

fn fits(key: &str, pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(middle) => match middle.strip_prefix('*') {
            Some(word) => key.contains(word),
            None => key.starts_with(middle),
        },
        None => key == pattern,
    }
}

fn one(
    draft: &mut MigrationDraft,
    section: &ForeignSection,
    entry: &mut DraftEntry,
    path: &str,
    (setting, rule): (&ForeignSetting, KeyRule),
) {
    let value = setting.value.trim();
    let (option, written) = match rule {
        KeyRule::Needless(why) => return draft.needless(section, setting, why),
        KeyRule::Missing(why) => return draft.missing(section, setting, why),
        KeyRule::Text(option) => (option, Some(referring(value))),
        KeyRule::Switch(option) => (option, Some(is_yes(value).to_string())),
        KeyRule::Time(option, unit) => (option, duration(value, unit)),
    };
    match written {
        Some(written) if !value.is_empty() => {
            entry.set(option, written);
            draft.carried(section, setting, &format!("{path}.{option}"));
        }
        Some(_) => draft.missing(section, setting, "it has no value"),
        None => {
            let why = format!("its value is not understood: set `{path}.{option}`");
            draft.missing(section, setting, &why);
        }
    }
}

/// A duration as a configuration reads it: `90`, `5s`, `1h30m`, `100ms`.
pub(crate) fn duration(value: &str, unit: &str) -> Option<String> {
    let value = value.trim();
    if is_reference(value) {
        return Some(referring(value));
    }
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        return (value.len() <= 12).then(|| format!("{value}{unit}"));
    }
    let mut parts = Vec::new();
    let mut rest = value;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, after) = rest.split_at(digits);
        let end = after.find(|c: char| c.is_ascii_digit());
        let (unit, after) = after.split_at(end.unwrap_or(after.len()));
        let known = ["ms", "s", "m", "h", "d"].contains(&unit);
        if number.is_empty() || number.len() > 12 || !known || parts.len() >= 4 {
            return None;
        }
        parts.push(format!("{number}{unit}"));
        rest = after;
    }
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// Seconds of such a duration.
pub(crate) fn seconds(value: &str) -> Option<u64> {
    let written = duration(value, "s")?;
    let mut sum = 0_u64;
    for part in written.split(' ') {
        let digits = part.find(|c: char| !c.is_ascii_digit())?;
        let (number, unit) = part.split_at(digits);
        let number: u64 = number.parse().ok()?;
        let of = match unit {
            "ms" => number / 1000,
            "s" => number,
            "m" => number.checked_mul(60)?,
            "h" => number.checked_mul(3600)?,
            _ => number.checked_mul(86_400)?,
        };
        sum = sum.checked_add(of)?;
    }
    Some(sum)
}

/// A size as a configuration reads it: `32k` and `10MB` become powers of 1024.
pub(crate) fn size(value: &str) -> Option<String> {
    let value = value.trim();
    if is_reference(value) {
        return Some(referring(value));
    }
    let (number, unit) = bytes_parts(value)?;
    Some(format!("{number}{unit}"))
}

/// Bytes of such a size.
pub(crate) fn bytes(value: &str) -> Option<u64> {
    let (number, unit) = bytes_parts(value.trim())?;
    let factor = match unit {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        _ => 1 << 30,
    };
    number.checked_mul(factor)
}

fn bytes_parts(value: &str) -> Option<(u64, &'static str)> {
    let end = value.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = value.split_at(end.unwrap_or(value.len()));
    let unit = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => "",
        "k" | "kb" | "ki" | "kib" => "KiB",
        "m" | "mb" | "mi" | "mib" => "MiB",
        "g" | "gb" | "gi" | "gib" => "GiB",
        _ => return None,
    };
    Some((number.parse().ok()?, unit))
}

fn is_reference(value: &str) -> bool {
    crate::yaml::is_variable(value)
}

/// Characters of a pattern that is carried over, at most.
const PATTERN_CHARS_MAX: usize = 4_096;

/// A regular expression that works here too, or the reason that it does not.
pub(crate) fn pattern(text: &str) -> Result<&str, &'static str> {
    if text.len() > PATTERN_CHARS_MAX {
        return Err("the pattern is longer than 4 KiB: write a shorter one");
    }
    match regex_syntax::Parser::new().parse(text) {
        Ok(_) => Ok(text),
        Err(_) => Err(
            "the pattern is none of Rust's syntax, which has no look-around and no \
             back-references: write it anew (https://docs.rs/regex)",
        ),
    }
}

/// A pattern as a value.
pub(crate) fn pattern_value(text: &str) -> Result<String, &'static str> {
    pattern(text).map(quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_read_as_there() {
        for (value, wanted) in [
            ("5", Some("5s")),
            ("168h", Some("168h")),
            ("1h30m", Some("1h 30m")),
            ("100ms", Some("100ms")),
            ("${T}", Some("\"${T}\"")),
            ("-14h", None),
            ("5 parsecs", None),
            ("", None),
            ("99999999999999999999", None),
            ("h", None),
        ] {
            assert_eq!(duration(value, "s").as_deref(), wanted, "{value}");
        }
        assert_eq!(seconds("1h30m"), Some(5400));
        assert_eq!(seconds("999999999999d"), Some(86_399_999_999_913_600));
        for (value, wanted) in [
            ("32k", Some("32KiB")),
            ("10MB", Some("10MiB")),
            ("1000", Some("1000")),
            ("off", None),
            ("18446744073709551616", None),
        ] {
            assert_eq!(size(value).as_deref(), wanted, "{value}");
        }
        assert_eq!(bytes("2G"), Some(2 << 30));
        assert_eq!(bytes("18446744073709551615G"), None);
    }

    #[test]
    fn a_pattern_that_cannot_work_here_is_named() {
        assert_eq!(pattern(r"^[^\s]"), Ok(r"^[^\s]"));
        assert!(pattern(r"^(?!x)").is_err() && pattern(r"(a)\1").is_err());
        assert!(pattern(&"a".repeat(5000)).is_err());
    }
}
