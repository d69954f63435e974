//! Queries and the SQL that they become, side by side.
#![allow(clippy::unwrap_used, missing_docs)]

use inrush_query::sql::{QueryRange, Translation, translate};
use inrush_query::{self as query, ColumnType};

const ALWAYS: QueryRange = QueryRange {
    from_ns: i64::MIN,
    to_ns: i64::MAX,
    limit: 200,
};

fn translated(text: &str) -> Translation {
    let query = query::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    translate(&query, &ALWAYS)
}

fn predicates(cases: &[(&str, &str)]) {
    for (text, sql) in cases {
        assert_eq!(translated(text).predicate, *sql, "{text}");
    }
}

#[test]
fn words_and_phrases() {
    predicates(&[
        ("", "TRUE"),
        ("*", "TRUE"),
        ("\"\"", "TRUE"),
        ("denied", r#"has("raw", 'denied')"#),
        ("Denied", r#"has("raw", 'Denied')"#),
        (
            "access denied",
            r#"has("raw", 'access') AND has("raw", 'denied')"#,
        ),
        ("\"access denied\"", r#"has("raw", 'access denied')"#),
        ("-keepalive", r#"NOT has("raw", 'keepalive')"#),
        ("NOT keepalive", r#"NOT has("raw", 'keepalive')"#),
        ("NOT NOT a", r#"NOT (NOT has("raw", 'a'))"#),
        ("fw*", r#"has("raw", 'fw')"#),
        ("*fw*", r#"has("raw", 'fw')"#),
        (
            "fw*denied",
            r#"has("raw", 'denied') AND "raw" ILIKE '%fw%denied%'"#,
        ),
        ("-a*b", r#"NOT (has("raw", 'b') AND "raw" ILIKE '%a%b%')"#),
        ("what?", r#"has("raw", 'what?')"#),
        (
            "50%*a_b",
            r#"has("raw", 'a_b') AND "raw" ILIKE '%50\%%a\_b%'"#,
        ),
        (r"C:\Windows", r#"has("raw", 'C:\Windows')"#),
        (r#""C:\Windows\\""#, r#"has("raw", 'C:\Windows\')"#),
        (r#""say \"hi\"""#, r#"has("raw", 'say "hi"')"#),
        ("it's", r#"has("raw", 'it''s')"#),
        (
            "'; DROP TABLE events;",
            r#"has("raw", ''';') AND has("raw", 'DROP') AND has("raw", 'TABLE') AND has("raw", 'events;')"#,
        ),
        (
            "\"OR\" or and",
            r#"has("raw", 'OR') AND has("raw", 'or') AND has("raw", 'and')"#,
        ),
        (
            "ORDER NOTE ANDROID",
            r#"has("raw", 'ORDER') AND has("raw", 'NOTE') AND has("raw", 'ANDROID')"#,
        ),
        (
            "keep-alive 10.0.0.1 a,b",
            r#"has("raw", 'keep-alive') AND has("raw", '10.0.0.1') AND has("raw", 'a,b')"#,
        ),
    ]);
}

#[test]
fn and_or_not_and_parentheses() {
    predicates(&[
        ("a AND b", r#"has("raw", 'a') AND has("raw", 'b')"#),
        ("a OR b", r#"has("raw", 'a') OR has("raw", 'b')"#),
        (
            "a b OR c",
            r#"has("raw", 'a') AND (has("raw", 'b') OR has("raw", 'c'))"#,
        ),
        (
            "a OR b c OR d",
            r#"(has("raw", 'a') OR has("raw", 'b')) AND (has("raw", 'c') OR has("raw", 'd'))"#,
        ),
        (
            "(a b) OR c",
            r#"(has("raw", 'a') AND has("raw", 'b')) OR has("raw", 'c')"#,
        ),
        (
            "(a AND b) OR c",
            r#"(has("raw", 'a') AND has("raw", 'b')) OR has("raw", 'c')"#,
        ),
        (
            "a (b (c d))",
            r#"has("raw", 'a') AND has("raw", 'b') AND has("raw", 'c') AND has("raw", 'd')"#,
        ),
        ("((a))", r#"has("raw", 'a')"#),
        ("NOT a b", r#"NOT has("raw", 'a') AND has("raw", 'b')"#),
        ("NOT (a b)", r#"NOT (has("raw", 'a') AND has("raw", 'b'))"#),
        ("NOT(a OR b)", r#"NOT (has("raw", 'a') OR has("raw", 'b'))"#),
        (
            "-(user=root)",
            r#"field_is("fields", 'user', 'root') IS NOT TRUE"#,
        ),
        (
            "NOT (user=root OR severity<=3)",
            r#"(field_is("fields", 'user', 'root') OR "severity" <= 3) IS NOT TRUE"#,
        ),
        ("a OR -b", r#"has("raw", 'a') OR NOT has("raw", 'b')"#),
        ("* a", r#"has("raw", 'a')"#),
        ("* OR a", r#"TRUE OR has("raw", 'a')"#),
    ]);
}

#[test]
fn columns_that_say_where_an_event_lies_are_compared_as_typed() {
    predicates(&[
        ("index=netfw", r#""index" = 'netfw'"#),
        ("index=NetFW", r#""index" = 'NetFW'"#),
        ("sourcetype=cisco:asa", r#""sourcetype" = 'cisco:asa'"#),
        ("host=fw*", r#""host" LIKE 'fw%'"#),
        ("host=f?_1", r#""host" LIKE 'f_\_1'"#),
        ("host=\"fw*\"", r#""host" = 'fw*'"#),
        ("host!=fw1", r#""host" <> 'fw1'"#),
        ("host!=fw*", r#""host" NOT LIKE 'fw%'"#),
        ("host=(a OR b OR \"c d\")", r#""host" IN ('a', 'b', 'c d')"#),
        ("host!=(a OR b)", r#""host" NOT IN ('a', 'b')"#),
        (
            "host=(fw* OR a OR b)",
            r#""host" IN ('a', 'b') OR "host" LIKE 'fw%'"#,
        ),
        (
            "host!=(fw* OR a)",
            r#""host" <> 'a' AND "host" NOT LIKE 'fw%'"#,
        ),
        (
            "x host=(fw* OR a)",
            r#"has("raw", 'x') AND ("host" = 'a' OR "host" LIKE 'fw%')"#,
        ),
        ("source=/var/log/x.log", r#""source" = '/var/log/x.log'"#),
        ("host=\"\"", r#""host" = ''"#),
        ("host=*", r#""host" IS NOT NULL"#),
        ("-host=*", r#""host" IS NULL"#),
        ("host=(a OR *)", r#""host" IS NOT NULL"#),
        ("host = fw1", r#""host" = 'fw1'"#),
        ("host=a=b", r#""host" = 'a=b'"#),
        ("host=OR", r#""host" = 'OR'"#),
        ("host=-5", r#""host" = '-5'"#),
    ]);
}

#[test]
fn other_fields_are_compared_whatever_their_case() {
    predicates(&[
        ("user=Root", r#"field_is("fields", 'user', 'Root')"#),
        ("user=MÜLLER", r#"field_is("fields", 'user', 'MÜLLER')"#),
        ("user!=root", r#"NOT field_is("fields", 'user', 'root')"#),
        (
            "user=(Root OR admin)",
            r#"field_is("fields", 'user', 'Root', 'admin')"#,
        ),
        ("dst_port=443", r#"field_is("fields", 'dst_port', '443')"#),
        (
            "dst=(10.0.0.1 OR 10.0.0.2)",
            r#"field_is("fields", 'dst', '10.0.0.1', '10.0.0.2')"#,
        ),
        ("user=adm*", r#"field_is("fields", 'user', 'adm%')"#),
        ("user=?dm?n", r#"field_is("fields", 'user', '_dm_n')"#),
        ("user!=adm*", r#"NOT field_is("fields", 'user', 'adm%')"#),
        (
            "user=DOMAIN\\bob*",
            r#"field_is("fields", 'user', 'DOMAIN\\bob%')"#,
        ),
        ("user=*", r#""fields"['user'] IS NOT NULL"#),
        ("vendor=Cisco", r#"lower("vendor") = 'cisco'"#),
        ("app=sshd", r#"lower("app") = 'sshd'"#),
        ("proc_id=77", r#""proc_id" = '77'"#),
        ("raw=\"<34>1 x\"", r#"lower("raw") = '<34>1 x'"#),
        ("fields.host=a", r#"field_is("fields", 'host', 'a')"#),
        ("\"src ip\"=a", r#"field_is("fields", 'src ip', 'a')"#),
        ("\"it's\"=a", r#"field_is("fields", 'it''s', 'a')"#),
        (
            "user@32473.id=1",
            r#"field_is("fields", 'user@32473.id', '1')"#,
        ),
    ]);
}

#[test]
fn numbers_codes_and_times() {
    predicates(&[
        (
            "bytes>1000",
            r#"TRY_CAST("fields"['bytes'] AS DOUBLE) > 1000.0"#,
        ),
        (
            "bytes>=1.5e3",
            r#"TRY_CAST("fields"['bytes'] AS DOUBLE) >= 1500.0"#,
        ),
        (
            "bytes < -5",
            r#"TRY_CAST("fields"['bytes'] AS DOUBLE) < -5.0"#,
        ),
        (
            "proc_id<=\"100\"",
            r#"TRY_CAST("proc_id" AS DOUBLE) <= 100.0"#,
        ),
        ("severity=err", r#""severity" = 3"#),
        ("severity=Error", r#""severity" = 3"#),
        ("severity<=warning", r#""severity" <= 4"#),
        ("severity!=7", r#""severity" <> 7"#),
        (
            "severity=(emerg OR alert OR crit)",
            r#""severity" IN (0, 1, 2)"#,
        ),
        ("facility=local4", r#""facility" = 20"#),
        ("facility!=(cron OR 10)", r#""facility" NOT IN (9, 10)"#),
        ("severity=*", r#""severity" IS NOT NULL"#),
        (
            "time>=2026-11-22T10:00:00+01:00",
            r#""time" >= TIMESTAMP '2026-11-22T09:00:00Z'"#,
        ),
        (
            "received<1795287605001",
            r#""received" < TIMESTAMP '2026-11-21T19:00:05.001Z'"#,
        ),
    ]);
}

#[test]
fn events_come_newest_first() {
    let query = query::parse("index=netfw denied").unwrap();
    let range = QueryRange {
        from_ns: 1_795_287_605_000_000_001,
        to_ns: 1_795_288_505_000_000_000,
        limit: 200,
    };
    let translation = translate(&query, &range);
    let columns: Vec<String> = translation
        .columns
        .iter()
        .map(|column| format!("\"{}\"", column.name))
        .collect();
    let columns = columns.join(", ");
    let condition = r#""time" >= TIMESTAMP '2026-11-21T19:00:05.000000001Z' AND "time" < TIMESTAMP '2026-11-21T19:15:05Z' AND "index" = 'netfw' AND has("raw", 'denied')"#;
    assert_eq!(
        translation.sql,
        format!(
            r#"SELECT {columns} FROM "events" WHERE {condition} ORDER BY "time" DESC LIMIT 200"#
        )
    );
    assert_eq!(
        translation.histogram(15_000),
        format!(
            r#"SELECT date_bin(INTERVAL '15000 milliseconds', "time") AS "time", count(*) AS "count" FROM "events" WHERE {condition} GROUP BY 1 ORDER BY 1"#
        )
    );
    let head = |text: &str| {
        let sql = translated(text).sql;
        sql[sql.find("WHERE").unwrap()..].to_owned()
    };
    assert_eq!(
        head("| head 20"),
        r#"WHERE TRUE ORDER BY "time" DESC LIMIT 20"#
    );
    assert_eq!(
        head("| head 900"),
        r#"WHERE TRUE ORDER BY "time" DESC LIMIT 200"#
    );
    assert_eq!(
        head("| sort time"),
        r#"WHERE TRUE ORDER BY "time" ASC NULLS LAST LIMIT 200"#
    );
    assert_eq!(
        head("| sort host, -bytes"),
        r#"WHERE TRUE ORDER BY "host" ASC NULLS LAST, TRY_CAST("fields"['bytes'] AS DOUBLE) DESC NULLS LAST, "fields"['bytes'] DESC NULLS LAST, "time" DESC LIMIT 200"#
    );
}

#[test]
fn tables() {
    let cases = [
        (
            "| count",
            r#"SELECT count(*) AS "count" FROM "events" WHERE TRUE LIMIT 200"#,
        ),
        (
            "a OR b | count by host",
            r#"SELECT "host" AS "host", count(*) AS "count" FROM "events" WHERE has("raw", 'a') OR has("raw", 'b') GROUP BY 1 ORDER BY 2 DESC NULLS LAST, 1 ASC NULLS LAST LIMIT 200"#,
        ),
        (
            "| count by 5m",
            r#"SELECT date_bin(INTERVAL '5 minutes', "time") AS "time", count(*) AS "count" FROM "events" WHERE TRUE GROUP BY 1 ORDER BY 1 ASC NULLS LAST, 2 DESC NULLS LAST LIMIT 200"#,
        ),
        (
            "| count by host, 1d",
            r#"SELECT "host" AS "host", date_bin(INTERVAL '1 days', "time") AS "time", count(*) AS "count" FROM "events" WHERE TRUE GROUP BY 1, 2 ORDER BY 2 ASC NULLS LAST, 3 DESC NULLS LAST, 1 ASC NULLS LAST LIMIT 200"#,
        ),
        (
            "| count, max(severity), max(time) by user | sort -max(time), user | head 5",
            r#"SELECT "fields"['user'] AS "user", count(*) AS "count", max("severity") AS "max(severity)", max("time") AS "max(time)" FROM "events" WHERE TRUE GROUP BY 1 ORDER BY 4 DESC NULLS LAST, max(CASE WHEN abs(TRY_CAST("fields"['user'] AS DOUBLE)) <= 1.7976931348623157e308 THEN TRY_CAST("fields"['user'] AS DOUBLE) END) ASC NULLS LAST, 1 ASC NULLS LAST LIMIT 5"#,
        ),
        (
            "| sum(bytes)",
            r#"SELECT sum(CASE WHEN abs(TRY_CAST("fields"['bytes'] AS DOUBLE)) <= 1.7976931348623157e308 THEN TRY_CAST("fields"['bytes'] AS DOUBLE) END) AS "sum(bytes)" FROM "events" WHERE TRUE LIMIT 200"#,
        ),
        (
            "| p95(severity), avg(severity), min(host), dc(user)",
            r#"SELECT approx_percentile_cont(0.95) WITHIN GROUP (ORDER BY CAST("severity" AS DOUBLE)) AS "p95(severity)", avg(CAST("severity" AS DOUBLE)) AS "avg(severity)", min("host") AS "min(host)", count(DISTINCT "fields"['user']) AS "dc(user)" FROM "events" WHERE TRUE LIMIT 200"#,
        ),
        (
            "a OR b | top 3 \"it's \\\"odd\\\"\"",
            r#"SELECT "fields"['it''s "odd"'] AS "it's ""odd""", count(*) AS "count" FROM "events" WHERE (has("raw", 'a') OR has("raw", 'b')) AND "fields"['it''s "odd"'] IS NOT NULL GROUP BY 1 ORDER BY 2 DESC NULLS LAST, 1 ASC NULLS LAST LIMIT 3"#,
        ),
        (
            "| top host",
            r#"SELECT "host" AS "host", count(*) AS "count" FROM "events" WHERE "host" IS NOT NULL GROUP BY 1 ORDER BY 2 DESC NULLS LAST, 1 ASC NULLS LAST LIMIT 10"#,
        ),
    ];
    for (text, sql) in cases {
        assert_eq!(translated(text).sql, sql, "{text}");
    }
}

#[test]
fn columns_of_the_result_have_their_kinds() {
    let cases = [
        ("| count by host, 5m", "host:text time:time count:number"),
        (
            "| count by severity, user",
            "severity:number user:text count:number",
        ),
        (
            "| min(time), max(host), max(bytes), dc(time) by fields.host",
            "fields.host:text min(time):time max(host):text max(bytes):number dc(time):number",
        ),
        ("| top 3 facility", "facility:number count:number"),
        (
            "x",
            "time:time received:time host:text source:text sourcetype:text index:text \
             severity:number facility:number vendor:text product:text app:text proc_id:text \
             msg_id:text raw:text message:text sender:text \
             anomalies:text fields:map",
        ),
    ];
    for (text, expected) in cases {
        let columns: Vec<String> = translated(text)
            .columns
            .iter()
            .map(|column| format!("{}:{}", column.name, column.kind.name()))
            .collect();
        assert_eq!(columns.join(" "), expected, "{text}");
    }
    let kinds = [
        ColumnType::Text,
        ColumnType::Number,
        ColumnType::Time,
        ColumnType::Map,
    ]
    .map(ColumnType::name);
    assert_eq!(kinds, ["text", "number", "time", "map"]);
}

#[test]
fn needles_and_required_values_of_whoever_scans() {
    let cases = [
        ("", "", ""),
        ("Denied \"Access List\"", "access list|denied", ""),
        ("denied denied", "denied", ""),
        ("a OR b", "", ""),
        ("a (b OR c) -d", "a", ""),
        ("fw*denied", "denied", ""),
        ("raw=*denied*", "", ""),
        ("index=netfw host=fw1 x", "x", "host:fw1 index:netfw"),
        ("index=(a OR b) index=(b OR c)", "", "index:b"),
        ("index=a index=b", "", "index:"),
        ("index=a OR index=b", "", "index:a,b"),
        ("(index=a host=x) OR index=b", "", "index:a,b"),
        ("index=a OR b", "", ""),
        ("index=a*", "", ""),
        ("index=(a OR b*)", "", ""),
        ("index!=a", "", ""),
        ("-index=a", "", ""),
        ("user=root vendor=cisco", "", ""),
        ("source=x sourcetype=y", "", "source:x sourcetype:y"),
    ];
    for (text, needles, equals) in cases {
        let translation = translated(text);
        assert_eq!(translation.needles.join("|"), needles, "{text}");
        let mut required = Vec::new();
        for (column, values) in &translation.equals {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            required.push(format!("{}:{}", column.name(), values.join(",")));
        }
        assert_eq!(required.join(" "), equals, "{text}");
    }
}

#[test]
fn a_table_says_whether_it_needs_the_raw_text() {
    let cases = [
        ("", true),
        ("index=a | head 5", true),
        ("| count by host", false),
        ("index=a user=root severity<3 | count", false),
        ("x | count", true),
        ("index=a -x | count", true),
        ("raw=* | count", true),
        ("raw=x OR host=a | count", true),
        ("| dc(raw)", true),
        ("| count by raw", true),
        ("| top raw", true),
        ("| top host", false),
        ("| dc(message)", false),
    ];
    for (text, reads_raw) in cases {
        assert_eq!(translated(text).reads_raw, reads_raw, "{text}");
    }
}
