//! Short runs of `inrush-bench rotation`: the bare tail, which is killed never, has every line of
//! files that are renamed, and a collector that sends nothing has none.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn rotation(words: &[&str]) -> (Output, Vec<Value>) {
    let load = [
        "--files",
        "4",
        "--rate",
        "200",
        "--seconds",
        "4",
        "--rotate",
        "0.5..1",
        "--json",
        "--kill-every",
        "0",
    ];
    let ended = Command::new(Path::new(env!("CARGO_BIN_EXE_inrush-bench")))
        .arg("rotation")
        .args(words)
        .args(load)
        .output()
        .unwrap();
    let runs = String::from_utf8_lossy(&ended.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    (ended, runs)
}

#[test]
fn the_bare_tail_has_every_line_of_renamed_files() {
    let ways = ["kubelet", "docker", "symlink"];
    let (ended, runs) = rotation(&[&ways[..], &["--collector", "bare"]].concat());
    let words = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{words}");
    for (run, way) in runs.iter().zip(ways) {
        assert_eq!(run["scheme"], way, "{words}");
        assert_eq!(run["distinct"], run["written"], "{words}");
        assert!(run["rotations"].as_u64() > Some(0), "{words}");
    }
    assert_eq!(runs.len(), ways.len());
}

#[test]
fn a_collector_that_sends_nothing_is_blamed_for_every_line() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("none");
    std::fs::write(&config, "").unwrap();
    let config = config.display().to_string();
    let start = ["docker", "--command", "cat", "--config", &config];
    let words = [&start[..], &["--still", "1"]].concat();
    let (ended, runs) = rotation(&words);
    assert!(!ended.status.success());
    let lost = &runs[0]["lost"];
    let sum = ["gone", "unread", "down"].map(|cause| lost[cause].as_u64().unwrap());
    assert_eq!(
        sum.iter().sum::<u64>(),
        runs[0]["written"].as_u64().unwrap()
    );
    assert!(lost["gone"].as_u64() > Some(0) && lost["removed_bytes"].as_u64() > Some(0));
}
