//! The largest and the most crooked texts: refused, or handled within the limits.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "support/query.rs"]
mod sound;

use std::thread;

use inrush_event::limits::{
    QUERY_BYTES_MAX, QUERY_COLUMNS_MAX, QUERY_NESTING_MAX, QUERY_TERMS_MAX, QUERY_VALUES_MAX,
};
use inrush_query::{self as query, sql};
use sqlparser::ast::Expr;
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

/// A stack a quarter of what threads get: what does not overflow this one overflows none.
const STACK_BYTES: usize = 512 * 1024;

fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn(work);
    thread.unwrap().join().unwrap();
}

fn message(text: &str) -> String {
    query::parse(text).unwrap_err().message
}

#[test]
fn a_megabyte_is_refused_before_it_is_read() {
    let text = "a ".repeat(512 * 1024);
    assert_eq!(message(&text), "a query has at most 65536 bytes");
    let fits = "a".repeat(QUERY_BYTES_MAX);
    assert!(query::parse(&fits).is_ok());
    assert!(query::parse(&format!("{fits}a")).is_err());
}

#[test]
fn the_worst_of_every_kind_is_handled_on_a_small_stack() {
    let parts = [
        "(",
        ")",
        "((a OR b) ",
        "-",
        "NOT ",
        "-(",
        "a OR ",
        "a AND ",
        "a ",
        "\"",
        "\"\" ",
        "\\",
        "\"\\",
        "*",
        "a*",
        "a* ",
        "?",
        "x=",
        "x=(",
        "x=(a OR ",
        "x=a* ",
        "x=(a* OR ",
        "=",
        "<",
        "|",
        "| count ",
        "| sort a ",
        "a,",
        "\u{0}",
        "ä",
        "\u{1f600}",
        "fields.",
        " ",
        "!=",
        "!",
        "host=(a OR b) OR ",
    ];
    on_a_small_stack(move || {
        for part in parts {
            let text = part.repeat(QUERY_BYTES_MAX / part.len());
            for begin in [
                "",
                "a ",
                "x=(",
                "* | count by ",
                "* | sum(a), ",
                "* | sort ",
            ] {
                let cut = QUERY_BYTES_MAX - begin.len();
                let end = (0..=cut)
                    .rev()
                    .find(|&at| text.is_char_boundary(at))
                    .unwrap();
                sound::check(&format!("{begin}{}", &text[..end.min(text.len())]));
            }
        }
    });
}

#[test]
fn nesting_is_bounded_and_its_sql_can_be_parsed_by_datafusion() {
    let shapes = [
        ("(", "a", ")"),
        ("-(", "a", ")"),
        ("NOT ", "user=root", ""),
        ("-(b OR ", "user=root", ")"),
        ("(b OR c ", "user=root", ")"),
        ("x=1 OR (y=2 ", "user=root", ")"),
    ];
    for (open, inside, close) in shapes {
        let deep = |n: usize| format!("{}{inside}{}", open.repeat(n), close.repeat(n));
        let deepest = (0..=QUERY_NESTING_MAX)
            .rev()
            .find(|&n| query::parse(&deep(n)).is_ok())
            .unwrap();
        assert!(deepest >= QUERY_NESTING_MAX / 2, "{open}: {deepest}");
        let text = deep(deepest);
        on_a_small_stack(move || {
            sound::check(&text).unwrap();
        });
        let query = query::parse(&deep(deepest)).unwrap();
        can_be_parsed_by_datafusion(&query);
        let too_deep = message(&deep(deepest + 1));
        assert_eq!(too_deep, "more than 8 conditions inside one another");
    }
}

/// With the levels that DataFusion allows by default, and on the stack that threads have.
fn can_be_parsed_by_datafusion(query: &query::Query) {
    for stages in ["", " | count by user", " | top 5 user"] {
        let mut query = query.clone();
        query.stages = query::parse(stages).unwrap().stages;
        let sql = sql::translate(&query, &sound::RANGE).sql;
        let parser = Parser::new(&GenericDialect {}).with_recursion_limit(50);
        let parsed = parser
            .try_with_sql(&sql)
            .and_then(|mut p| p.parse_statements());
        assert!(parsed.is_ok(), "{query}: {parsed:?}");
    }
}

#[test]
fn terms_values_and_columns_are_bounded() {
    let list = |n: usize, value: &str| {
        let values: Vec<String> = (0..n).map(|i| format!("{value}{i}")).collect();
        format!("user=({})", values.join(" OR "))
    };
    let by = |n: usize| {
        let names: Vec<String> = (1..n).map(|i| format!("k{i}")).collect();
        format!("| count by {}", names.join(", "))
    };
    let cases = [
        (
            "a ".repeat(QUERY_TERMS_MAX),
            "a ".repeat(QUERY_TERMS_MAX + 1),
        ),
        (
            "x=1 OR ".repeat(QUERY_TERMS_MAX - 1) + "y",
            "x=1 OR ".repeat(QUERY_TERMS_MAX) + "y",
        ),
        (list(QUERY_VALUES_MAX, "a"), list(QUERY_VALUES_MAX + 1, "a")),
        (list(QUERY_TERMS_MAX - 1, "*a"), list(QUERY_TERMS_MAX, "*a")),
        (by(QUERY_COLUMNS_MAX), by(QUERY_COLUMNS_MAX + 1)),
    ];
    for (fits, too_much) in cases {
        on_a_small_stack(move || {
            sound::check(&fits).unwrap();
        });
        let message = message(&too_much);
        assert!(
            message.contains("more than") || message.contains("at most"),
            "{message}"
        );
    }
}

/// How many operators lie inside one another.
fn depth(expr: &Expr) -> usize {
    match expr {
        Expr::BinaryOp { left, right, .. } => 1 + depth(left).max(depth(right)),
        Expr::Nested(inner) => depth(inner),
        _ => 0,
    }
}

#[test]
fn many_terms_beside_each_other_do_not_lie_inside_one_another_in_sql() {
    for between in [" ", " OR "] {
        let terms: Vec<String> = (0..QUERY_TERMS_MAX).map(|i| format!("w{i}")).collect();
        let query = query::parse(&terms.join(between)).unwrap();
        let condition = sql::translate(&query, &sound::RANGE).predicate;
        let parser = Parser::new(&GenericDialect {}).try_with_sql(&condition);
        let expr = parser.and_then(|mut parser| parser.parse_expr()).unwrap();
        let depth = depth(&expr);
        assert!((8..=48).contains(&depth), "{depth}");
    }
}
