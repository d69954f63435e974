//! Tools around HTTP Event Collector: `inrush load hec://…`.

use std::process::{Command, Output};

use inrush_tests::*;
use serde_json::Value;

const TOKEN: &str = "11111111-2222-3333-4444-555555555555";

/// `inrush load` to a collector, 5 messages a request; its report.
fn load(to: &str, more: &[&str]) -> (Output, Value) {
    let mut command = Command::new(binary());
    command.args(["load", &format!("hec://{TOKEN}@{to}"), "--json"]);
    command.args(["--rate", "0", "--events-per-request", "5"]);
    let output = command.args(more).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    (output, report)
}

/// Messages that were answered, and acknowledged.
fn counts(report: &Value) -> (u64, u64) {
    let answered = report["answers"]["answered"].as_u64().unwrap();
    (answered, report["acked"].as_u64().unwrap())
}

#[test]
fn a_load_with_acknowledgement_is_counted_by_its_polls() {
    let inrush = Inrush::start(&format!(
        "sources:\n  hec:\n    type: splunk_hec\n    listen: 127.0.0.1:0\n    tokens:\n      \
         - {{ token: {TOKEN}, name: t1, ack: delivered }}\ndestinations:\n  \
         out: {{ type: file, path: \"{{dir}}/out.jsonl\" }}\n"
    ));
    let (out, to) = (inrush.path("out.jsonl"), inrush.address("http").to_string());
    let verify = ["--verify", out.to_str().unwrap()];
    let shape = ["--number", "1000", "--active-connections", "3", "--gzip"];
    let (output, report) = load(&to, &[&shape[..], &["--ack"], &verify].concat());
    assert!(output.status.success(), "{report:#}");
    assert_eq!(counts(&report), (1000, 1000), "{report:#}");
    assert!(report["answers"]["polls"].as_u64().unwrap() >= 200);
    let markers = &report["verify"]["markers"];
    assert_eq!(
        (&markers["received"], &markers["lost"]),
        (&1000.into(), &0.into())
    );
    inrush.conserved(1000);
}

#[test]
fn what_is_answered_and_not_acknowledged_is_an_error() {
    let collector = Hec::start();
    collector.acknowledge_if(|id| id % 4 != 1);
    let to = collector.address().to_string();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("acked.jsonl");
    let acked = ["--acked-file", file.to_str().unwrap()];
    let end = ["--number", "40", "--drain-timeout", "1s", "--ack"];
    let (output, report) = load(&to, &[&end[..], &acked].concat());
    assert_eq!(output.status.code(), Some(1), "{report:#}");
    assert_eq!(counts(&report), (40, 30), "{report:#}");
    assert_eq!(report["errors"]["unacknowledged"], 1, "{report:#}");
    let ranges = &json_lines(&file)[0]["acked"];
    assert_eq!(ranges, &serde_json::json!([[0, 4], [10, 24], [30, 39]]));
    assert!(collector.asked() > 8, "{} polls", collector.asked());
}

#[test]
fn a_token_without_acknowledgement_is_named() {
    let collector = Hec::start();
    let to = collector.address().to_string();
    let (output, report) = load(&to, &["--number", "40", "--ack"]);
    assert_eq!(output.status.code(), Some(1), "{report:#}");
    assert_eq!(report["errors"]["no_ack_id"], 1, "{report:#}");
    // One that stops to acknowledge.
    collector.acknowledge();
    collector.answer_acks_with(Some((400, r#"{"text":"ACK is disabled","code":14}"#)));
    let (_, report) = load(&to, &["--number", "40", "--ack"]);
    let words = report["first_errors"]["refused_poll"].as_str().unwrap();
    assert!(words.contains("ACK is disabled"), "{words}");
}
