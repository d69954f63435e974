//! What is wrong with queries that cannot be read, where, and what to write instead.
#![allow(clippy::unwrap_used, missing_docs)]

use inrush_query::{self as query, QueryError};

/// Query; column and length; what the message says; what the hint says, "" for none.
type Case = (&'static str, usize, usize, &'static str, &'static str);

fn errors(cases: &[Case]) {
    for (text, column, length, message, hint) in cases {
        let error = match query::parse(text) {
            Ok(query) => panic!("{text} is read as {query}"),
            Err(error) => error,
        };
        assert_eq!(
            (error.column, error.length),
            (*column, *length),
            "{text}: {error}"
        );
        assert!(error.message.contains(message), "{text}: {error}");
        let given = error.hint.unwrap_or_default();
        assert!(given.contains(hint), "{text}: {message}; {given:?}");
        assert_eq!(given.is_empty(), hint.is_empty(), "{text}: {given:?}");
    }
}

#[test]
fn of_conditions() {
    errors(&[
        (
            "a OR",
            3,
            2,
            "nothing to search for after `OR`",
            "write \"OR\"",
        ),
        (
            "OR a",
            1,
            2,
            "nothing to search for before `OR`",
            "write \"OR\"",
        ),
        ("a AND OR b", 3, 3, "after `AND`", "\"AND\""),
        ("AND", 1, 3, "before `AND`", "\"AND\""),
        ("(NOT) a", 2, 3, "after `NOT`", "\"NOT\""),
        (
            "a AND b OR c",
            3,
            3,
            "without parentheses",
            "`a AND (b OR c)`",
        ),
        (
            "a b OR c AND d",
            10,
            3,
            "without parentheses",
            "parentheses",
        ),
        ("ä (b", 3, 1, "this `(` is not closed", "quotes"),
        ("a ) b", 3, 1, "closes nothing", "quotes"),
        (
            "a ( ) b",
            3,
            3,
            "nothing stands in these parentheses",
            "quotes",
        ),
        ("f(x)", 1, 2, "a space is missing", "quotes"),
        ("a\"b\"", 1, 2, "a space is missing", "quotes"),
        ("\"a\"b", 1, 4, "a space is missing", ""),
        ("ü \"abc", 3, 1, "not closed", "written `\\\"`"),
        (r#""C:\""#, 1, 1, "not closed", "written twice"),
        ("a - b", 3, 1, "right before what it excludes", "quotes"),
        ("--flag", 1, 1, "right before what it excludes", "quotes"),
        ("<134>", 1, 1, "a field's name is missing", "quotes"),
        ("a->b", 4, 1, "compares numbers, and `b` is none", "quotes"),
        ("http://x/?q=1", 1, 11, "is not a field's name", "quotes"),
        ("CEF:0|Cisco|ASA", 7, 5, "there is no `Cisco`", "quotes"),
    ]);
}

#[test]
// tidy: long because it is a table, with a case for each error
fn of_fields_and_values() {
    errors(&[
        (
            "x sorcetype=a",
            3,
            9,
            "no field `sorcetype`",
            "did you mean `sourcetype`?",
        ),
        ("Host=a", 1, 4, "no field `Host`", "`fields.Host`"),
        ("_time>5", 1, 5, "no field", "did you mean `time`?"),
        ("fields=a", 1, 6, "many names", "fields."),
        ("fields.=a", 1, 7, "key is missing", ""),
        ("\"\"=a", 1, 2, "name is missing", ""),
        ("host=", 6, 1, "a value is missing after `=`", "host=\"\""),
        ("host= OR a", 7, 1, "a value is missing", "host=\"\""),
        ("host=|count", 6, 1, "a value is missing", "host=\"\""),
        ("host=()", 7, 1, "a value is missing", "host=\"\""),
        ("bytes>", 7, 1, "a value is missing after `>`", ""),
        (
            "host==a",
            6,
            1,
            "a second operator",
            "equality is written `=`",
        ),
        ("bytes=>5", 7, 1, "a second operator", "write `>=`"),
        ("a<>b", 3, 1, "a second operator", "write `!=`"),
        ("host!=*", 1, 7, "differs from everything", "-host=*"),
        ("host=(a, b)", 7, 2, "a comma between values", "`OR`"),
        (
            "host=(a b)",
            9,
            1,
            "`OR` or `)` is expected",
            "joined by `OR`",
        ),
        ("host=(a OR b", 6, 1, "not closed", ""),
        (
            "host=(a OR (b))",
            12,
            1,
            "a value is expected",
            "values and `OR`",
        ),
        (
            "host=(NOT a)",
            7,
            1,
            "a value is expected",
            "values and `OR`",
        ),
        ("bytes>(1 OR 2)", 7, 1, "takes one value", ""),
        ("bytes>10k", 7, 3, "`10k` is none", "quotes"),
        ("bytes>inf", 7, 3, "`inf` is none", "quotes"),
        ("bytes>1e999", 7, 5, "is none", "quotes"),
        ("host<fw", 6, 2, "compares numbers", "quotes"),
        ("severity=9", 10, 1, "`9` is no severity", "emerg"),
        (
            "severity<=warnign",
            11,
            7,
            "is no severity",
            "did you mean `warning`?",
        ),
        ("severity=e*", 10, 2, "is no severity", "emerg"),
        (
            "facility=loacl4",
            10,
            6,
            "is no facility",
            "did you mean `local4`?",
        ),
        ("facility=24", 10, 2, "is no facility", "0 to 23"),
        ("time>yesterday", 6, 9, "is no time", "2026-11-22T10:00:00Z"),
        ("time>2026-11-22T10:00:00", 6, 19, "is no time", "Z"),
        ("time>9999999999999999", 6, 16, "is no time", "milliseconds"),
        ("time=2026-11-22*", 6, 11, "is no time", "Z"),
    ]);
}

#[test]
// tidy: long because it is a table, with a case for each error
fn of_stages() {
    errors(&[
        ("a |", 4, 1, "is missing here", "quotes"),
        ("a | | count", 5, 1, "is missing here", "quotes"),
        (
            "| cuont",
            3,
            5,
            "there is no `cuont`",
            "did you mean `count`?",
        ),
        (
            "| stats count by host",
            3,
            5,
            "there is no `stats`",
            "leave `stats` out",
        ),
        (
            "| where count > 5",
            3,
            5,
            "there is no `where`",
            "before the first",
        ),
        ("| p75(x)", 3, 3, "there is no `p75`", "did you mean `p"),
        ("| xyzzyx", 3, 6, "there is no `xyzzyx`", "count, sum"),
        (
            "| sum",
            3,
            3,
            "takes a field in parentheses",
            "`sum(bytes)`",
        ),
        ("| sum(bytes", 12, 1, "`)` is expected", "`sum(bytes)`"),
        ("| sum()", 7, 1, "a field's name is missing", ""),
        ("| sum(hots*)", 7, 5, "is not a field's name", "quotes"),
        ("| avg(sevrity)", 7, 7, "no field `sevrity`", "`severity`"),
        ("| avg(time)", 7, 4, "`avg` of a time", "max(time)"),
        ("| count(x)", 3, 5, "counts events", "user=* | count"),
        (
            "| count host",
            9,
            4,
            "`by` or a comma is expected",
            "by host",
        ),
        ("| count by", 11, 1, "a field's name is missing", ""),
        (
            "| count by host user",
            17,
            4,
            "`user` is not expected",
            "commas",
        ),
        (
            "| count by host, host",
            18,
            4,
            "`host` stands there already",
            "",
        ),
        ("| count, count", 10, 5, "`count` stands there already", ""),
        ("| count by 5m, 1h", 16, 2, "one stretch of time", ""),
        ("| count by 5x", 12, 2, "`5x` is no stretch of time", "5m"),
        ("| count by 0m", 12, 2, "`0m` is no stretch of time", "5m"),
        ("| count by 99999d", 12, 6, "is no stretch of time", "1d"),
        ("| count by time", 12, 4, "hardly two events", "count by 5m"),
        (
            "| count by hosts, sourcetypo",
            19,
            10,
            "no field",
            "`sourcetype`",
        ),
        ("| top 0 host", 7, 1, "a number of rows", "head 20"),
        ("| top 5", 8, 1, "a field's name is missing", ""),
        ("| top 5 host, user", 13, 1, "not expected", "count by"),
        ("| top 5 time", 9, 4, "hardly two events", "5m"),
        (
            "| top 5 host | head 3",
            16,
            4,
            "nothing can follow `top`",
            "count by host",
        ),
        ("| head", 7, 1, "a number of rows", "head 20"),
        ("| head x", 8, 1, "a number of rows", "head 20"),
        ("| head 5000000000", 8, 10, "a number of rows", "head 20"),
        ("| head 5 | head 5", 12, 4, "stands there already", "out"),
        ("| head 5 | sort host", 12, 4, "before `head`", "sort"),
        (
            "| head 5 | count",
            12,
            5,
            "`count` has to come first",
            "conditions",
        ),
        ("| count | count", 11, 5, "one table already", "commas"),
        (
            "| count | sort host",
            16,
            4,
            "the table has no `host`",
            "`count`",
        ),
        (
            "| count by host | sort -hots",
            24,
            5,
            "the table has no `hots`",
            "did you mean `host`?",
        ),
        (
            "| count by host | sort time",
            24,
            4,
            "has no `time`",
            "host",
        ),
        (
            "| count by host | sort sum(x)",
            24,
            6,
            "has no `sum(x)`",
            "host",
        ),
        ("| sort -count", 8, 6, "no table", "count by host"),
        ("| sort sum(x)", 8, 6, "no table", "count by host"),
        ("| sort host, host", 14, 4, "stands there already", ""),
        ("| sort host host", 13, 4, "not expected", "commas"),
        ("| sort", 7, 1, "a field's name is missing", ""),
        ("| count ) x", 9, 1, "not expected", "commas"),
    ]);
}

#[test]
fn an_error_is_one_line_without_control_characters() {
    let error = query::parse("host=x \u{1b}[31m\n=5").unwrap_err();
    assert!(!error.to_string().contains(char::is_control), "{error:?}");
    let long = format!("| {}", "x".repeat(5000));
    assert!(query::parse(&long).unwrap_err().to_string().chars().count() < 300);
    let error = QueryError {
        message: "m".to_owned(),
        column: 5,
        length: 1,
        hint: Some("h".to_owned()),
    };
    assert_eq!(error.to_string(), "column 5: m; h");
}

#[test]
fn the_printed_form_shows_what_was_implied() {
    let cases = [
        ("", "*"),
        ("a  b OR c", "a (b OR c)"),
        ("-a -\"b c\"", "NOT a NOT \"b c\""),
        ("a AND (b (c d))", "a b c d"),
        (
            "severity<=4 facility=20",
            "severity<=warning facility=local4",
        ),
        ("time>1795287605000", "time>2026-11-21T19:00:05Z"),
        ("bytes>1e3", "bytes>1000.0"),
        ("host=( a OR \"b\" )", "host=(a OR b)"),
        (
            "\"odd key\"=1 fields.user=x fields.host=y",
            "\"odd key\"=1 user=x fields.host=y",
        ),
        ("*-a*b", "*-a*b"),
        (
            "*|count by 5m,host|sort -time|head 3",
            "* | count by 5m, host | sort -time | head 3",
        ),
        ("| top host", "* | top 10 host"),
        ("| COUNT, Avg(x) BY host", "* | count, avg(x) by host"),
    ];
    for (text, printed) in cases {
        assert_eq!(query::parse(text).unwrap().to_string(), printed, "{text}");
    }
}

#[test]
fn the_queries_of_the_guide_can_be_read() {
    let guide = include_str!("../../../docs/guides/search.md");
    let mut read = 0;
    let mut parse = |text: &str| {
        read += 1;
        query::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    };
    // Blocks hold a query a line, with a remark behind some spaces.
    for line in guide.split("```").skip(1).step_by(2).flat_map(str::lines) {
        parse(line.split("    ").next().unwrap());
    }
    // The first cell of a row holds queries in backticks; a `|` in a table has a backslash.
    for row in guide.lines().filter(|line| line.starts_with("| `")) {
        let row = row.replace("\\|", "\u{1}");
        let cell = row.split('|').nth(1).unwrap().replace('\u{1}', "|");
        cell.split('`').skip(1).step_by(2).for_each(&mut parse);
    }
    assert!(read > 30, "{read}");
}
