//! Habits of other products in a query that finds nothing: the hint for each says what to write.
//!
//! Kibana, Lucene, LogsQL, LogQL, Datadog and Splunk write some things that are a plain word or an
//! unknown field here. Such a query is valid, so it is answered. Its hints are shown only if
//! nothing was found.
//!
//! # What it guarantees
//! * Any query gives hints or none, never an error; a query as it is meant here gives none.
//! * A hint names what was written, and a query or command in its place.
//! * A `field:"value"`, which is refused, gets the hint with the error.
//!
//! # Limits
//! A query has `HINTS_MAX` hints, each once. What a hint repeats of the query is cut.

use std::fmt::Write as _;

use super::ast::{Comparison, FilterExpr, FilterValue, PatternPiece, Query, WildcardPattern};
use super::cursor::is_plain_name;
use super::error::shown;
use super::field::{EventColumn, QueryField};

/// Hints of a query at most: a person reads no more.
const HINTS_MAX: usize = 3;

/// Names that other products give to columns of ours.
const ALIASES: &[(&str, EventColumn)] = &[
    ("hostname", EventColumn::Host),
    ("host.name", EventColumn::Host),
    ("_hostname", EventColumn::Host),
    ("level", EventColumn::Severity),
    ("log.level", EventColumn::Severity),
    ("loglevel", EventColumn::Severity),
    ("log_level", EventColumn::Severity),
    ("program", EventColumn::App),
    ("programname", EventColumn::App),
    ("appname", EventColumn::App),
    ("app_name", EventColumn::App),
    ("process.name", EventColumn::App),
    ("syslogtag", EventColumn::App),
    ("ident", EventColumn::App),
    ("service", EventColumn::App),
    ("pid", EventColumn::ProcId),
    ("procid", EventColumn::ProcId),
    ("process.pid", EventColumn::ProcId),
    ("msgid", EventColumn::MsgId),
    ("msg", EventColumn::Message),
    ("_msg", EventColumn::Message),
    ("fromhost", EventColumn::Sender),
    ("fromhost-ip", EventColumn::Sender),
    ("sourceip", EventColumn::Sender),
    ("log.source.address", EventColumn::Sender),
];

/// Names of the time range in queries of other products.
const RANGES: &[&str] = &[
    "_time",
    "@timestamp",
    "timestamp",
    "earliest",
    "latest",
    "time",
    "since",
    "until",
];

/// Hints on what to write instead, for a query that found nothing; none if nothing in it looks like
/// the habit of another product. `text` is the query as it was typed.
pub fn habits(query: &Query, text: &str) -> Vec<String> {
    let mut hints = Vec::new();
    if let Some(regex) = as_regex(filter_text(text)) {
        hints.push(regex_hint(regex));
    } else {
        collect(&query.filter, text, &mut hints);
    }
    hints.truncate(HINTS_MAX);
    hints
}

/// Hint for a word that a quote or parenthesis sticks to, as in `host:"x"`.
pub(super) fn of_stuck(word: &str) -> Option<String> {
    let name = word.strip_suffix(':')?;
    let plain = is_plain_name(name) && name.starts_with(|c: char| c.is_alphabetic());
    plain.then(|| {
        let name = column_of(name).map_or(name, |column| column.name());
        format!(
            "a field is compared with `=`: {}",
            shown(&format!("{name}=\"…\""))
        )
    })
}

/// The text before the first stage.
fn filter_text(text: &str) -> &str {
    text.split('|').next().unwrap_or_default().trim()
}

/// The expression between the slashes of `/…/`. A path has no such characters.
fn as_regex(word: &str) -> Option<&str> {
    let inner = word.strip_prefix('/')?.strip_suffix('/')?;
    let special = |c: char| matches!(c, '*' | '+' | '?' | '[' | '\\' | '^' | '$' | '{');
    inner.contains(special).then_some(inner)
}

fn regex_hint(regex: &str) -> String {
    let quoted = regex.replace('\'', "''");
    let statement = format!("SELECT raw FROM events WHERE regexp_like(raw, '{quoted}')");
    format!(
        "a query has no regular expressions: `*` stands for any text, and SQL has them: {}",
        shown_whole(&statement)
    )
}

/// Quotes a text that [`shown`] would cut.
fn shown_whole(text: &str) -> String {
    let mut quoted = String::from("`");
    for c in text.chars().take(400) {
        quoted.push(if inrush_event::is_unprintable(c) {
            '\u{fffd}'
        } else {
            c
        });
    }
    quoted.push('`');
    quoted
}

fn collect(expr: &FilterExpr, typed: &str, hints: &mut Vec<String>) {
    if hints.len() >= HINTS_MAX {
        return;
    }
    let hint = match expr {
        FilterExpr::And(parts) | FilterExpr::Or(parts) => {
            parts.iter().for_each(|part| collect(part, typed, hints));
            None
        }
        FilterExpr::Not(inner) => {
            collect(inner, typed, hints);
            None
        }
        FilterExpr::Text(pattern) => of_text(&written(pattern, typed)),
        FilterExpr::Present(field) => of_field(field, "*"),
        FilterExpr::Compare(comparison) => of_comparison(comparison),
        FilterExpr::All => None,
    };
    hints.extend(hint.filter(|hint| !hints.contains(hint)));
}

/// A pattern as it was typed, also with a `*` at its end, which says nothing where it is text.
fn written(pattern: &WildcardPattern, typed: &str) -> String {
    let mut text = String::new();
    // Writing to a text cannot fail.
    let _ = write!(text, "{}", FilterExpr::Text(pattern.clone()));
    let inner = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    let word = inner.unwrap_or(&text);
    let more = format!("{word}*");
    if typed.contains(&more) {
        more
    } else {
        word.to_owned()
    }
}

fn of_text(word: &str) -> Option<String> {
    match word {
        "and" | "or" | "not" => {
            let upper = word.to_ascii_uppercase();
            return Some(format!(
                "`{word}` is a word to look for; the operator is `{upper}`"
            ));
        }
        "&&" => {
            return Some(
                "`&&` is text to look for; terms beside each other must all match".to_owned(),
            );
        }
        _ => {}
    }
    if let Some(regex) = as_regex(word) {
        return Some(regex_hint(regex));
    }
    for (sign, instead) in [('+', ""), ('!', "-")] {
        let rest = word
            .strip_prefix(sign)
            .filter(|rest| rest.starts_with(char::is_alphanumeric));
        if let Some(rest) = rest {
            let instead = shown(&format!("{instead}{rest}"));
            return Some(format!(
                "{} is text to look for; write {instead}",
                shown(word)
            ));
        }
    }
    of_pair(word)
}

/// `host:x`, which is text here.
fn of_pair(word: &str) -> Option<String> {
    let (name, value) = word.split_once(':')?;
    let value = value.trim_start_matches('=');
    let name = name
        .strip_prefix('@')
        .filter(|_| name != "@timestamp")
        .unwrap_or(name);
    let plain = is_plain_name(name)
        && name.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '@'));
    // `https://…` and `C:\…` are no fields, and neither is `sshd:`.
    if !plain || value.is_empty() || value.starts_with(['/', '\\', ':']) || name.len() == 1 {
        return None;
    }
    if RANGES.contains(&name) {
        return Some(range_hint(word));
    }
    let field = column_of(name).map_or(name, |column| column.name());
    let instead = shown(&format!("{field}={value}"));
    Some(format!(
        "{} is text to look for; the field is {instead}",
        shown(word)
    ))
}

fn range_hint(written: &str) -> String {
    format!(
        "{} is no time range: that is chosen beside the query, by `--since 15m` or the buttons",
        shown(written)
    )
}

fn column_of(name: &str) -> Option<EventColumn> {
    let name = name.to_ascii_lowercase();
    let known = EventColumn::ALL
        .into_iter()
        .find(|column| column.name() == name);
    known.or_else(|| {
        let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
        alias.map(|(_, column)| *column)
    })
}

/// A key that no event has, if it is the name of a column in another product.
fn of_field(field: &QueryField, value: &str) -> Option<String> {
    let QueryField::Key(key) = field else {
        return None;
    };
    if RANGES.contains(&key.as_str()) {
        return Some(range_hint(&format!("{key}={value}")));
    }
    let column = column_of(key)?;
    Some(format!("{} is called `{}` here", shown(key), column.name()))
}

fn of_comparison(comparison: &Comparison) -> Option<String> {
    let mut values = comparison.values.iter();
    let value = values.find_map(|value| match value {
        FilterValue::Text(pattern) => Some(typed_value(pattern)),
        _ => None,
    });
    let value = value.as_deref().unwrap_or("…");
    if let Some(hint) = of_field(&comparison.field, value) {
        return Some(hint);
    }
    let label = comparison.field.label();
    if let Some(regex) = as_regex(value) {
        return Some(regex_hint(regex));
    }
    let network = value.split_once('/').filter(|(address, bits)| {
        address.parse::<std::net::IpAddr>().is_ok() && bits.parse::<u8>().is_ok()
    });
    let (address, _) = network?;
    let octets = address
        .rsplit_once(['.', ':'])
        .map_or(address, |(most, _)| most);
    let sign = if address.contains(':') { ':' } else { '.' };
    Some(format!(
        "{} is compared as text, not as a network: {} is what begins so",
        shown(value),
        shown(&format!("{label}={octets}{sign}*"))
    ))
}

/// A value as it was typed.
fn typed_value(pattern: &WildcardPattern) -> String {
    let pieces = pattern.pieces().iter().map(|piece| match piece {
        PatternPiece::Literal(text) => text.as_str(),
        PatternPiece::Any => "*",
        PatternPiece::One => "?",
    });
    pieces.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints(text: &str) -> Vec<String> {
        let query = crate::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        habits(&query, text)
    }

    #[test]
    fn habits_of_other_products_get_a_hint_that_is_a_query() {
        for (text, instead) in [
            ("host:bastion-1", "`host=bastion-1`"),
            ("error host:bastion-1", "`host=bastion-1`"),
            ("NOT hostname:fw*", "`host=fw*`"),
            ("@host:x", "`host=x`"),
            ("level:error | count", "`severity=error`"),
            ("user:root", "`user=root`"),
            ("/Failed.*root/", "regexp_like(raw, 'Failed.*root')"),
            ("message=/Failed.*root/", "regexp_like(raw, 'Failed.*root')"),
            ("_time:5m x", "`--since 15m`"),
            ("earliest=-15m x", "`--since 15m`"),
            ("denied or refused", "`OR`"),
            ("denied && refused", "beside each other"),
            ("!denied", "`-denied`"),
            ("+denied", "`denied`"),
            ("level=error", "`severity`"),
            ("fromhost-ip=*", "`sender`"),
            ("sender=10.1.2.0/24", "`sender=10.1.2.*`"),
        ] {
            let hints = hints(text);
            assert!(
                hints.iter().any(|h| h.contains(instead)),
                "{text}: {hints:?}"
            );
        }
    }

    #[test]
    fn a_query_as_it_is_meant_here_gets_none() {
        for text in [
            "*",
            "host=fw1 \"access denied\" -keepalive",
            "https://example.com/x",
            "C:\\Windows",
            "10:30:05",
            "sshd:",
            "%ASA-6-302013:",
            "/var/log/",
            "std::vector",
            "sender=10.1.2.3 src=10.0.0.1",
            "path=/var/log/messages",
            "a OR b",
        ] {
            assert_eq!(hints(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn hints_are_few_and_none_twice() {
        let many = (0..100).map(|n| format!("a{n}:x ")).collect::<String>();
        assert_eq!(hints(&many).len(), HINTS_MAX);
        assert_eq!(hints("host:x host:x").len(), 1);
    }

    #[test]
    fn a_field_with_a_colon_before_a_quote_is_refused_with_the_sign() {
        for text in ["host:\"x\"", "hostname:(a OR b)"] {
            let error = crate::parse(text).unwrap_err();
            let hint = error.hint.unwrap_or_default();
            assert!(hint.contains("`host=\"…\"`"), "{text}: {hint}");
        }
    }
}
