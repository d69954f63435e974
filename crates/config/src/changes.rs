//! Options that a reload changes, each with its former and its new value.
//!
//! Values are as the configuration writes them; secrets are `***`. A source or destination that is
//! added or removed is one change, without its options.

use std::fmt;

use serde_json::{Map, Value};

use super::options::Config;

/// Changes of one reload that are named at most.
const CHANGES_MAX: usize = 100;

/// Characters of a value that are shown.
const SHOWN_CHARS: usize = 80;

/// Option with another value than before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionChange {
    /// Path of the option, as in `queue.max_bytes` or `sources.syslog.listen`.
    pub option: String,
    /// The former value; none for the default of an option that was not set.
    pub old: Option<String>,
    /// The new value; none for the default.
    pub new: Option<String>,
}

impl fmt::Display for OptionChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "default".to_owned());
        let (old, new) = (shown(&self.old), shown(&self.new));
        match old == new {
            true => write!(f, "{}: changed ({new})", self.option),
            false => write!(f, "{}: {old} → {new}", self.option),
        }
    }
}

/// Options whose values differ between two configurations, in the order of the file. Sources and
/// destinations that only one of them has are not among them.
pub fn changes(before: &Config, after: &Config) -> Vec<OptionChange> {
    let mut found = Vec::new();
    let values = [before, after].map(serde_json::to_value);
    if let [Ok(Value::Object(old)), Ok(Value::Object(new))] = &values {
        compare("", old, new, &mut found);
    }
    secrets(before, after, &mut found);
    found.truncate(CHANGES_MAX);
    found
}

fn compare(
    path: &str,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    found: &mut Vec<OptionChange>,
) {
    let named = ["sources", "destinations"].contains(&path);
    let added = new.keys().filter(|name| !old.contains_key(*name));
    for name in old.keys().chain(added) {
        let (before, after) = (old.get(name), new.get(name));
        let place = match path {
            "" => name.clone(),
            path => format!("{path}.{name}"),
        };
        match (before, after) {
            (Some(Value::Object(old)), Some(Value::Object(new))) => {
                compare(&place, old, new, found);
            }
            (Some(_), None) | (None, Some(_)) if named => {}
            (before, after) if before != after => found.push(OptionChange {
                option: place,
                old: before.map(shown),
                new: after.map(shown),
            }),
            _ => {}
        }
    }
}

/// Secrets that differ: their values look alike, so those of the admin API are compared apart.
fn secrets(before: &Config, after: &Config, found: &mut Vec<OptionChange>) {
    let (old, new) = (&before.admin, &after.admin);
    for (option, differs) in [
        (
            "admin.password_hash",
            old.password_hash != new.password_hash,
        ),
        ("admin.password", old.password != new.password),
        ("admin.tokens", old.tokens != new.tokens),
    ] {
        if differs && !found.iter().any(|change| change.option == option) {
            let value = || Some("***".to_owned());
            found.push(OptionChange {
                option: option.to_owned(),
                old: value(),
                new: value(),
            });
        }
    }
}

fn shown(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut chars = text.chars();
    let begin: String = chars.by_ref().take(SHOWN_CHARS).collect();
    match chars.next() {
        Some(_) => format!("{begin}…"),
        None => begin,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        crate::parse(text, "test", &|_| None).unwrap_or_else(|errors| panic!("{errors}"))
    }

    #[test]
    fn each_option_is_named_with_its_old_and_new_value() {
        let text = |path: &str, other: &str, bytes: &str, token: &str, more: &str| {
            config(&format!(
                "sources:\n  a: {{ type: syslog, listen: [\"udp://127.0.0.1:1\"] }}\n\
                 destinations:\n  out: {{ type: file, path: {path} }}\n  \
                 {other}: {{ type: blackhole }}\n\
                 queue: {{ max_bytes: {bytes} }}\n\
                 admin: {{ tokens: [0123456789abcdef0123456789abcde{token}] }}\n{more}"
            ))
        };
        let before = text("/tmp/x", "gone", "128MiB", "1", "");
        let after = text("/tmp/y", "new", "1GiB", "2", "routes: [{ to: [out] }]\n");
        let found = changes(&before, &after);
        let mut found: Vec<String> = found.iter().map(ToString::to_string).collect();
        found.sort();
        assert_eq!(
            found,
            [
                "admin.tokens: changed (***)",
                "destinations.out.path: /tmp/x → /tmp/y",
                "queue.max_bytes: 128MiB → 1GiB",
                "routes: default → [{\"to\":[\"out\"]}]",
            ]
        );
        assert_eq!(changes(&after, &after), []);
    }
}
