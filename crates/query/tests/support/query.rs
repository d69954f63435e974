//! What must hold of every text that is given as a query. Shared by the property tests and the fuzz
//! target, in both of which the module is `crate::query`.

use crate::query::sql::{QueryRange, Translation, translate};
use crate::query::{ColumnType, EventColumn, Query, QueryError, parse};

/// 2026-11-21T19:00:05Z and a quarter of an hour later.
pub(crate) const RANGE: QueryRange = QueryRange {
    from_ns: 1_795_287_605_000_000_000,
    to_ns: 1_795_288_505_000_000_000,
    limit: 200,
};

/// Words that the SQL may have outside of quotes.
const WORDS: &[&str] = &[
    "ABS",
    "AND",
    "AS",
    "ASC",
    "AVG",
    "BY",
    "CASE",
    "CAST",
    "COUNT",
    "DATE_BIN",
    "DESC",
    "DISTINCT",
    "DOUBLE",
    "END",
    "FROM",
    "GROUP",
    "HAS",
    "FIELD_IS",
    "ILIKE",
    "IN",
    "INTERVAL",
    "IS",
    "LAST",
    "LIKE",
    "LIMIT",
    "LOWER",
    "MAX",
    "MIN",
    "NOT",
    "NULL",
    "NULLS",
    "OR",
    "ORDER",
    "APPROX_PERCENTILE_CONT",
    "SELECT",
    "SUM",
    "THEN",
    "TIMESTAMP",
    "TRUE",
    "TRY_CAST",
    "WHEN",
    "WHERE",
    "WITHIN",
];

/// Parses, and checks the query or the error. Gives the query.
pub(crate) fn check(text: &str) -> Option<Query> {
    match parse(text) {
        Ok(query) => {
            sound(&query);
            Some(query)
        }
        Err(error) => {
            points_into(&error, text);
            None
        }
    }
}

/// It prints as itself, and its SQL is one statement of known words.
pub(crate) fn sound(query: &Query) {
    let printed = query.to_string();
    let again = parse(&printed).unwrap_or_else(|error| panic!("{printed:?}: {error}"));
    assert_eq!(&again, query, "{printed:?}");
    let translation = translate(query, &RANGE);
    harmless(&translation.sql);
    harmless(&translation.histogram(15_000));
    columns(&translation);
    let typed = |column: &EventColumn| column.as_typed();
    assert!(translation.equals.keys().all(typed), "{printed:?}");
}

fn points_into(error: &QueryError, text: &str) {
    let chars = text.chars().count();
    assert!(
        error.column >= 1 && error.length >= 1,
        "{text:?}: {error:?}"
    );
    assert!(error.column <= chars + 1, "{text:?}: {error:?}");
    let end = error.column + error.length - 1;
    assert!(end <= chars.max(error.column), "{text:?}: {error:?}");
    let shown = error.to_string();
    assert!(!shown.contains(char::is_control), "{text:?}: {shown:?}");
    assert!(shown.chars().count() < 600, "{text:?}: {shown:?}");
}

/// Without what is in quotes there are only words that the translation knows, numbers and signs: no
/// text of a query has got out of its quotes, and nothing ends the statement or comments it out.
pub(crate) fn harmless(sql: &str) {
    let mut rest = String::new();
    let mut quote = None;
    for c in sql.chars() {
        match quote {
            // A doubled quote ends one text and begins the next, which comes to the same here.
            Some(open) if c == open => {
                quote = None;
                rest.push(' ');
            }
            Some(_) => {}
            None if matches!(c, '\'' | '"') => quote = Some(c),
            None => rest.push(c),
        }
    }
    assert_eq!(quote, None, "{sql}");
    let plain = |c: char| c.is_ascii_alphanumeric() || " _()[],=<>*+-.".contains(c);
    assert!(rest.chars().all(plain), "{sql}");
    assert!(!rest.contains("--"), "{sql}");
    for word in rest.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.'))) {
        let number = word.starts_with(|c: char| c.is_ascii_digit());
        let known = WORDS.contains(&word.to_ascii_uppercase().as_str());
        assert!(word.is_empty() || number || known, "{word:?} in {sql}");
    }
}

/// No two columns are alike, and events have all of theirs.
fn columns(translation: &Translation) {
    let names: Vec<&str> = translation
        .columns
        .iter()
        .map(|c| c.name.as_str())
        .collect();
    for (i, name) in names.iter().enumerate() {
        assert!(!names[..i].contains(name), "{names:?}");
    }
    if !translation.is_table {
        assert!(translation.reads_raw);
        assert_eq!(names.len(), EventColumn::ALL.len() + 1);
        assert_eq!(
            translation.columns.last().map(|c| c.kind),
            Some(ColumnType::Map)
        );
    }
}
