//! `inrush search` and `inrush sql`: from the running process, and from the files when it is gone.

use std::fs;
use std::process::{Command, Output};

use inrush_tests::*;
use serde_json::Value;

use crate::TCP;

/// A configuration with the store of `inrush`, whose process listens at `admin`.
fn configured(folder: &std::path::Path, admin: &str) -> std::path::PathBuf {
    let path = folder.join("search.yaml");
    let yaml = format!(
        "data_dir: {}\nadmin: {{ listen: {admin:?} }}\n\
         sources:\n  syslog:\n    type: syslog\n    listen: [{TCP}]\n\
         destinations:\n  local: {{ type: store }}\n",
        folder.display()
    );
    fs::write(&path, yaml).unwrap();
    path
}

fn run(config: &std::path::Path, args: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command
        .args(args)
        .arg("-c")
        .arg(config)
        .env_remove("INRUSH_TOKEN");
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What is asked of either: events newest first, tables, SQL, JSON, and what is wrong.
fn answers(config: &std::path::Path) {
    let found = text(&run(
        config,
        &["search", "\"access denied\"", "--since", "all"],
    ));
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(lines.len(), 2, "{found}");
    assert!(
        lines[0].contains(" fw2 ") && lines[0].ends_with("Access DENIED twice"),
        "{found}"
    );
    assert!(
        !found.contains('\x1b'),
        "no colours but on a terminal, and none of a sender"
    );

    let counted = text(&run(
        config,
        &["search", "* | count by host", "--since", "all"],
    ));
    assert_eq!(counted, "host  count\nfw2       2\nfw1       1\n");

    let json = text(&run(
        config,
        &["search", "host=fw1", "--since", "all", "--json"],
    ));
    let event: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(event["host"], "fw1");

    let rows = text(&run(
        config,
        &[
            "sql",
            "SELECT host, count(*) AS n FROM events GROUP BY 1 ORDER BY 1",
            "--json",
        ],
    ));
    assert_eq!(
        rows,
        "{\"host\":\"fw1\",\"n\":1}\n{\"host\":\"fw2\",\"n\":2}\n"
    );

    let wrong = run(config, &["search", "a sorcetype=x"]);
    assert_eq!(wrong.status.code(), Some(2));
    let said = String::from_utf8(wrong.stderr).unwrap();
    assert!(
        said.contains("\n  a sorcetype=x\n    ^^^^^^^^^\n"),
        "{said}"
    );

    let refused = run(config, &["sql", "DROP TABLE events"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
}

#[test]
fn the_process_is_asked_and_then_the_files() {
    let store = format!(
        "sources:\n  syslog:\n    type: syslog\n    listen: [{TCP}]\n\
         destinations:\n  local: {{ type: store }}\n"
    );
    let inrush = Inrush::start(&store);
    let mut sender = Tcp::connect(inrush.address("tcp"));
    sender.send("<13>1 2026-11-22T10:00:00Z fw1 app - - - Access denied\n");
    sender.send("<13>1 2026-11-22T10:00:01Z fw2 app - - - Access DENIED twice\n");
    sender.send("<13>1 2026-11-22T10:00:02Z fw2 app - - - red \x1b[31malert\n");
    eventually("all three are searchable", || {
        let answer = inrush.http("GET", "/api/v1/sql?q=select%20count(*)%20from%20events");
        answer.body.contains("\"values\":[3]").then_some(())
    });
    let folder = tempfile::tempdir().unwrap();
    let beside = configured(folder.path(), &inrush.admin().to_string());
    answers(&beside);

    let (_, dir) = inrush.stop();
    // Nobody listens there any more.
    answers(&configured(&dir.path().join("data"), "127.0.0.1:1"));
}

#[test]
fn what_a_query_becomes_is_told_without_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let config = configured(folder.path(), "127.0.0.1:1");
    let sql = text(&run(
        &config,
        &["search", "denied", "--explain", "--since", "all"],
    ));
    assert!(sql.contains("WHERE has(\"raw\", 'denied')"), "{sql}");
    let missing = run(&config, &["search", "denied"]);
    assert_eq!(missing.status.code(), Some(1));
    let said = String::from_utf8(missing.stderr).unwrap();
    assert!(said.contains("there is no store at"), "{said}");
}

#[test]
fn a_query_may_begin_with_a_minus_and_a_time_may_be_seconds() {
    let inrush = Inrush::start(&format!(
        "sources:\n  syslog:\n    type: syslog\n    listen: [{TCP}]\n    max_time_skew: 3650d\n\
         destinations:\n  local: {{ type: store }}\n"
    ));
    let mut sender = Tcp::connect(inrush.address("tcp"));
    // 1795341600 and 1795341601.
    sender.send("<13>1 2026-11-22T10:00:00Z fw1 app - - - keepalive\n");
    sender.send("<13>1 2026-11-22T10:00:01Z fw2 app - - - other\n");
    eventually("both are searchable", || {
        let answer = inrush.http("GET", "/api/v1/sql?q=select%20count(*)%20from%20events");
        answer.body.contains("\"values\":[2]").then_some(())
    });
    let folder = tempfile::tempdir().unwrap();
    let config = configured(folder.path(), &inrush.admin().to_string());
    let found = |args: &[&str]| {
        let args = [&["search", "--json"], args].concat();
        text(&run(&config, &args)).lines().count()
    };
    assert_eq!(found(&["-keepalive", "--since", "all"]), 1);
    assert_eq!(found(&["-vendor=* | top sourcetype", "--since", "all"]), 1);
    assert_eq!(found(&["--since", "1795341601", "*"]), 1);
    assert_eq!(
        found(&["--since", "1795341600", "--until", "1795341601", "*"]),
        1
    );
    assert_eq!(found(&["--since", "1795341601000", "*"]), 1);
    assert_eq!(found(&["--since", "1795341600.5", "*"]), 1);
    assert_eq!(found(&["time>=1795341601", "--since", "all"]), 1);
    let wrong = run(&config, &["search", "--limt=5"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
}

#[test]
fn no_statement_is_answered_with_an_error_of_the_engines_own() {
    let inrush = Inrush::start(&format!(
        "sources:\n  syslog:\n    type: syslog\n    listen: [{TCP}]\n\
         destinations:\n  local: {{ type: store }}\n"
    ));
    let mut sender = Tcp::connect(inrush.address("tcp"));
    sender.send("<13>1 2026-11-22T10:00:00Z fw1 app - - [x@1 k=\"1\"] hello\n");
    for statement in [
        "select arrow_cast(1,'Utf9')",
        "select nth_value(raw,0) over () from events",
        "select ntile(0) over () from events",
        "select date_bin(interval '0 second',time) from events",
        "select array_slice(make_array(1,2),9,-9)",
        "select lag(raw,999999999) over () from events",
        "select time + interval '1 month' * 999999999 from events",
        "select approx_percentile_cont(2) from events",
        "select cast(raw as int) from events group by 1",
        "select flatten(make_array(make_array(1))), unnest(map_keys(fields)) from events",
        "select grouping(raw) from events",
        "select count(*) filter (where 1) from events",
        "select extract(epoch from raw) from events",
        "select $1",
    ] {
        let asked: String = statement.bytes().map(|b| format!("%{b:02x}")).collect();
        let answer = inrush.http("GET", &format!("/api/v1/sql?q={asked}"));
        for words in ["Internal error", "mistake of the program", "panick"] {
            assert!(!answer.body.contains(words), "{statement}: {answer:?}");
        }
        let ends = ["\"type\":\"end\"", "\"type\":\"error\""];
        let ended = ends.iter().any(|end| answer.body.contains(end));
        assert!(ended, "{statement}: {answer:?}");
    }
}
