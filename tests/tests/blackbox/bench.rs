//! `inrush bench`: that its tables are made of what happened. The figures themselves are for a
//! machine that does nothing else.

use std::path::Path;
use std::process::{Command, Output};

use inrush_tests::*;
use serde_json::Value;

/// A short run without peers, its results in `folder`.
fn bench(folder: &Path, names: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.arg("bench").args(names).current_dir(folder);
    command.args(["--runs", "1", "--seconds", "1", "--no-peers", "--json"]);
    command.output().unwrap()
}

/// The value of a column of a row.
fn value(table: &Value, row: usize, column: &str) -> f64 {
    let columns = table["columns"].as_array().unwrap();
    let at = columns.iter().position(|c| c["name"] == column);
    let value = &table["rows"][row]["values"][at.expect(column)];
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{column}: {table}"))
}

#[test]
fn tables_are_printed_and_written_as_json_and_as_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let output = bench(dir.path(), &["batching", "queues"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).expect(&said);
    let [batching, queues] = report["tables"].as_array().unwrap().as_slice() else {
        panic!("{report}");
    };
    assert_eq!(batching["name"], "batching");
    assert_eq!(batching["rows"].as_array().unwrap().len(), 2);
    for (at, row) in batching["rows"].as_array().unwrap().iter().enumerate() {
        assert_eq!(row["subject"], "inrush");
        assert_eq!(row.get("wrong"), None, "{row}");
        assert!(value(batching, at, "CPU") > 0.0);
        assert!(
            value(batching, at, "writes") < 1000.0,
            "fewer writes than events"
        );
    }
    // All that was sent arrives, and some of it late.
    assert_eq!(queues["rows"][0].get("wrong"), None, "{queues}");
    assert_eq!(value(queues, 0, "lost"), 0.0);
    assert_eq!(value(queues, 0, "twice"), 0.0);
    assert!(value(queues, 0, "delivered") > 0.0);
    assert!(queues["lines"][0]["points"].as_array().unwrap().len() > 1);
    let folder = dir.path().join("inrush-bench");
    let written = std::fs::read_to_string(folder.join("bench.json")).unwrap();
    let written: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(written["tables"], report["tables"]);
    let page = std::fs::read_to_string(folder.join("bench.html")).unwrap();
    assert!(page.contains("inrush bench queues") && page.contains("<svg"));
    assert!(
        !page.contains("<script") && !page.contains("http"),
        "it needs nothing else"
    );
}

/// In a debug build only the accounts say anything: all that was sent arrives.
#[test]
fn the_published_test_of_a_heavy_forwarder_is_repeated_run_by_run() {
    let dir = tempfile::tempdir().unwrap();
    let output = bench(dir.path(), &["heavy-forwarder"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).expect(&said);
    let table = &report["tables"][0];
    let rows = table["rows"].as_array().unwrap();
    let loads: Vec<&str> = rows
        .iter()
        .map(|row| row["load"].as_str().unwrap())
        .collect();
    let wanted = ["30 MiB/s", "60 MiB/s", "120 MiB/s"]
        .map(|rate| [format!("{rate}, one index"), format!("{rate}, two indexes")]);
    assert_eq!(loads, wanted.concat());
    for (at, row) in rows.iter().enumerate() {
        assert_eq!(row.get("wrong"), None, "{row}");
        for column in ["lag p99", "request p99", "sent", "CPU", "memory"] {
            assert!(value(table, at, column) > 0.0, "{column}: {row}");
        }
    }
    // The published figures stand beside: below 5 s at 30 MiB/s, and it grew at 120.
    assert_eq!(value(table, 0, "published"), 5.0);
    assert!(rows[5]["values"][1].is_null(), "{table}");
}

#[test]
fn a_table_that_is_not_there_is_a_wrong_command_line() {
    let dir = tempfile::tempdir().unwrap();
    let output = bench(dir.path(), &["udp-lost"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("udp-loss"), "{said}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
