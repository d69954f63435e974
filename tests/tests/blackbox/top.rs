//! `inrush top` beside a running process.

use std::process::{Command, Output};

use inrush_tests::*;
use serde_json::Value;

use crate::{TCP, to_file};

fn top(args: &[&str]) -> Output {
    Command::new(binary())
        .arg("top")
        .args(args)
        .output()
        .unwrap()
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn one_frame_shows_the_process_as_plain_text() {
    let inrush = Inrush::start(&to_file(TCP, ""));
    Tcp::connect(inrush.address("tcp")).send(lines(0..1234));
    inrush.conserved(1234);
    let output = top(&["--once", &format!("http://{}", inrush.admin())]);
    let text = words(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output.stderr));
    for part in [
        "ledger balanced",
        "ALARMS  none",
        "syslog → out",
        "1,234",
        " idle",
    ] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
    assert!(text.contains("nothing was lost since the start") || text.contains("whole host"));
    assert!(
        !text.contains(|c: char| c.is_control() && c != '\n'),
        "{text}"
    );
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
}

#[test]
fn json_is_the_snapshot_and_nothing_else() {
    let inrush = Inrush::start(&to_file(TCP, ""));
    // Without `http://`, as people write it.
    let output = top(&["--json", &inrush.admin().to_string()]);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output.stderr));
    let snapshot: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(snapshot["sources"][0]["name"], "syslog");
    assert_eq!(words(&output.stdout).lines().count(), 1);
}

#[test]
fn where_nothing_answers_it_says_so() {
    for mode in ["--once", "--json"] {
        let output = top(&[mode, "http://127.0.0.1:1"]);
        let said = words(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains("http://127.0.0.1:1") && said.contains("is inrush running"),
            "{said}"
        );
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_command_line_without_sense_ends_with_2() {
    // The output is no terminal here.
    for args in [
        &["https://h"][..],
        &["--once", "a b"],
        &["--json", "--once"],
        &[],
    ] {
        let output = top(args);
        let said = words(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(output.stdout.is_empty() && !said.is_empty(), "{args:?}");
    }
}
