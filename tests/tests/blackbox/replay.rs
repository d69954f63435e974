//! Kept records read again by today's packs, and sent again: what changes, and where each is then.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use inrush_tests::*;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::hec;

const ASA: &str = "<134>May  6 07:08:09 fw1 : %ASA-4-106023: Deny tcp src outside:192.0.2.9/4242 \
    dst inside:198.51.100.7/22\n";
const MARK: &str = "<46>May  6 07:08:09 h1 -- MARK --\n";
const UNKNOWN: &str = "<13>May  6 07:08:09 h1 gadget[4]: hello\n";

/// To a HEC server and to a store that writes at once.
fn stored(hec: &Hec, more: &str) -> String {
    let store = "  local: { type: store, flush_after: 100ms }\n";
    format!("{}{store}{more}", hec::to_hec(&[hec.url()], ""))
}

fn start(dir: &Path, args: &[&str]) -> Child {
    Command::new(binary())
        .args([
            "replay",
            "-c",
            "inrush.yaml",
            "--data-dir",
            "data",
            "--json",
        ])
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn replay(dir: &Path, args: &[&str], stdin: &str) -> Output {
    let mut child = start(dir, args);
    let mut input = child.stdin.take().unwrap();
    // One that asks for something impossible may be gone before.
    let _ = input.write_all(stdin.as_bytes());
    drop(input);
    child.wait_with_output().unwrap()
}

/// The report, and how it ended.
fn reported(output: &Output) -> (Value, Option<i32>) {
    let said = String::from_utf8_lossy(&output.stderr);
    let report = serde_json::from_slice(&output.stdout);
    (
        report.unwrap_or_else(|e| panic!("{e}: {said}")),
        output.status.code(),
    )
}

fn done(dir: &Path, args: &[&str]) -> Value {
    let (report, code) = reported(&replay(dir, args, ""));
    assert_eq!(code, Some(0), "{report}");
    report
}

fn folder(inrush: &Inrush) -> std::path::PathBuf {
    inrush.path("inrush.yaml").parent().unwrap().to_owned()
}

/// Whether everything that was read is somewhere.
fn assert_balanced(report: &Value, destination: &str) {
    let n = |value: &Value| value.as_u64().unwrap();
    let filtered: u64 = report["filtered"]
        .as_object()
        .unwrap()
        .values()
        .map(n)
        .sum();
    assert_eq!(
        n(&report["read"]),
        n(&report["same"]) + n(&report["changed"]) + filtered
    );
    let out = &report["destinations"][destination];
    let sent = n(&out["delivered"]) + n(&out["refused"]) + n(&out["not_delivered"]);
    assert_eq!(n(&out["sent"]), sent, "{report}");
    let left = n(&report["unchanged_left_out"]) + n(&report["unsent"]);
    assert_eq!(n(&report["read"]), filtered + left + sent, "{report}");
}

#[test]
fn what_other_packs_would_make_of_what_is_stored_is_said_and_then_sent() {
    let hec = Hec::start();
    let inrush = Inrush::start(&stored(&hec, ""));
    Tcp::connect(inrush.address("tcp")).send(format!("{ASA}{UNKNOWN}{MARK}").as_bytes());
    inrush.conserved(3);
    inrush.rewrite(&stored(&hec, "packs: { enabled: true }\n"));
    let dir = folder(&inrush);
    let report = done(&dir, &["--since", "all"]);
    assert_eq!((&report["read"], &report["same"]), (&json!(3), &json!(1)));
    assert_eq!(report["filtered"], json!({"mark": 1}));
    assert_eq!(report["changed"], 1);
    let change = &report["changes"][0];
    assert_eq!(change["index"], json!(["main", "netfw"]));
    assert_eq!(change["sourcetype"], json!(["syslog", "cisco:asa"]));
    assert_eq!(change["class"], json!(["", "cisco/asa"]));
    assert_eq!(change["samples"][0]["host"], "fw1");
    assert_eq!(change["samples"][0]["raw"], ASA.trim_end());
    assert_eq!(hec.taken().len(), 3, "nothing was sent");
    let changed = done(&dir, &["--since", "all", "--changed", "--send"]);
    assert_eq!(changed["destinations"]["splunk"]["delivered"], 1);
    assert_eq!(changed["unchanged_left_out"], 1);
    assert_balanced(&changed, "splunk");
    let taken = hec.taken();
    assert_eq!(taken.len(), 4);
    let first = taken
        .iter()
        .find(|one| one["event"].to_string().contains("ASA-4"))
        .unwrap();
    let again = &taken[3];
    assert_eq!(
        (&again["sourcetype"], &again["index"]),
        (&json!("cisco:asa"), &json!("netfw"))
    );
    assert_eq!(
        (&again["host"], &again["time"]),
        (&json!("fw1"), &first["time"])
    );
    for field in [
        "sc4s_recv_time",
        "sc4s_fromhostip",
        "sc4s_proto",
        "sc4s_syslog_severity",
    ] {
        assert_eq!(again["fields"][field], first["fields"][field], "{field}");
    }
    let all = done(
        &dir,
        &[
            "--send",
            "--destination",
            "splunk",
            "--destination",
            "splunk",
        ],
    );
    assert_eq!(all["destinations"]["splunk"]["delivered"], 2);
    assert_balanced(&all, "splunk");
    assert_eq!(hec.taken().len(), 6);
    let day = [
        "--since",
        "2020-01-01T00:00:00Z",
        "--until",
        "2020-01-02T00:00:00Z",
    ];
    assert_eq!(done(&dir, &day)["read"], 0);
    let found = done(&dir, &["host=fw1 \"deny tcp\"", "--since", "all"]);
    assert_eq!(found["read"], 1);
    assert_eq!(done(&dir, &["--since", "all", "--limit", "2"])["read"], 2);
}

/// The store shows U+FFFD for what is not UTF-8; a replay has the record as it was received.
#[test]
fn a_replay_from_the_store_has_the_bytes_that_were_received() {
    let hec = Hec::start();
    let inrush = Inrush::start(&stored(&hec, ""));
    Tcp::connect(inrush.address("tcp")).send(b"<13>1 - h app - - - M\xfcller\n");
    inrush.conserved(1);
    let dir = folder(&inrush);
    let send = ["--since", "all", "--send", "--destination", "splunk"];
    assert_eq!(done(&dir, &send)["read"], 1);
    let taken = hec.taken();
    assert_eq!(taken.len(), 2, "{taken:?}");
    let bytes = |event: &Value| event["fields"]["raw_base64"].as_str().map(str::to_owned);
    assert!(bytes(&taken[0]).is_some(), "{taken:?}");
    assert_eq!(bytes(&taken[0]), bytes(&taken[1]), "{taken:?}");
}

#[test]
fn what_was_refused_goes_out_once_the_reason_is_gone_and_leaves_quarantine() {
    let hec = Hec::start();
    hec.rule(|event| (event["index"] == "main").then_some((7, "Incorrect index")));
    let inrush = Inrush::start(&stored(&hec, ""));
    Tcp::connect(inrush.address("tcp")).send(format!("{ASA}{UNKNOWN}{MARK}").as_bytes());
    inrush.wait_until("all refused", |ledger| {
        ledger.destinations["splunk"]
            .quarantined
            .values()
            .sum::<u64>()
            == 3
    });
    inrush.rewrite(&stored(&hec, "packs: { enabled: true }\n"));
    let dir = folder(&inrush);
    let dry = done(&dir, &["--from", "quarantine"]);
    assert_eq!((&dry["read"], &dry["changed"]), (&json!(3), &json!(1)));
    assert_eq!(dry["changes"][0]["source"][0], "");
    // One goes out, one is refused again, one is filtered: these two stay.
    let admin = inrush.admin().to_string();
    let send = ["--from", "quarantine", "--send", "--admin", &admin];
    let (report, code) = reported(&replay(&dir, &send, ""));
    assert_eq!(code, Some(1), "{report}");
    let splunk = &report["destinations"]["splunk"];
    assert_eq!(
        (&splunk["delivered"], &splunk["refused"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(splunk["refusals"][0]["code"], 7, "{report}");
    assert_eq!(report["left_quarantine"], 1);
    assert_balanced(&report, "splunk");
    assert_eq!(field(&hec.taken(), "sourcetype"), ["cisco:asa"]);
    assert_eq!(done(&dir, &["--from", "quarantine"])["read"], 2);
    // Without a process the files are changed.
    hec.rule(|_| None);
    let (_, dir) = inrush.stop();
    let report = done(
        dir.path(),
        &["--from", "quarantine", "--send", "--destination", "splunk"],
    );
    assert_eq!(
        (&report["left_quarantine"], &report["read"]),
        (&json!(1), &json!(2))
    );
    assert_balanced(&report, "splunk");
    assert_eq!(field(&hec.taken(), "sourcetype"), ["cisco:asa", "syslog"]);
    let last = done(dir.path(), &["--from", "quarantine"]);
    assert_eq!(
        (&last["read"], &last["filtered"]),
        (&json!(1), &json!({"mark": 1}))
    );
}

#[test]
fn lines_of_a_file_are_read_again_and_bad_ones_named() {
    let hec = Hec::start();
    let inrush = Inrush::start(&stored(&hec, "packs: { enabled: true }\n"));
    let dir = folder(&inrush);
    let line = json!({"raw": ASA.trim_end(), "received": "2024-05-06T07:08:10Z",
        "time": "2024-05-06T07:08:09Z", "source": "gone", "host": "fw1", "index": "main",
        "sourcetype": "syslog", "sender": "10.0.0.5", "protocol": "udp", "format": "rfc3164"});
    let args = ["--from", "-", "--send"];
    let (report, code) = reported(&replay(&dir, &args, &format!("{line}\nnothing\n")));
    assert_eq!(code, Some(1), "{report}");
    assert_eq!(
        report["missing"][0].as_str().unwrap().split(':').next(),
        Some("-, line 2")
    );
    assert_eq!(report["unknown_sources"], json!({"gone": 1}));
    let event = &hec.taken()[0];
    assert_eq!(event["sourcetype"], "cisco:asa");
    assert_eq!(event["fields"]["sc4s_fromhostip"], "10.0.0.5", "{event}");
    assert_eq!(event["fields"]["sc4s_recv_time"], "1714979290.000");
}

#[test]
fn a_dead_destination_is_waited_for_until_a_signal_and_the_rest_is_counted() {
    let hec = Hec::start();
    let inrush = Inrush::start(&stored(&hec, ""));
    Tcp::connect(inrush.address("tcp")).send(lines(0..5));
    inrush.conserved(5);
    hec.otherwise(Some(Reply::code(503, 9, "Server is busy")));
    let before = hec.requests().len();
    let child = start(&folder(&inrush), &["--since", "all", "--send"]);
    hec.await_requests(before + 1);
    kill(
        Pid::from_raw(child.id().try_into().unwrap()),
        Signal::SIGTERM,
    )
    .unwrap();
    let (report, code) = reported(&child.wait_with_output().unwrap());
    assert_eq!(code, Some(1), "{report}");
    assert_eq!(
        (&report["interrupted"], &report["read"]),
        (&json!(true), &json!(5))
    );
    assert_eq!(report["destinations"]["splunk"]["not_delivered"], 5);
    assert_balanced(&report, "splunk");
}

#[test]
fn what_cannot_be_meant_is_refused_with_what_to_do() {
    let hec = Hec::start();
    let tape = "  tape: { type: file, path: \"{dir}/out.jsonl\" }\n";
    let inrush = Inrush::start(&stored(&hec, tape));
    let dir = folder(&inrush);
    let cases: [(&[&str], i32, &str); 9] = [
        (&["--send"], 2, "--destination with: splunk, tape"),
        (
            &["--send", "--destination", "local"],
            2,
            "the store that is read",
        ),
        (&["--send", "--destination", "tape"], 1, "stop it first"),
        (
            &["--destination", "splnk"],
            2,
            "there are: splunk, local, tape",
        ),
        (&["* | count by host"], 2, "leave out what follows |"),
        (&["sorcetype=x"], 2, "`sourcetype`"),
        (&["x", "--from", "quarantine"], 2, "a query asks the store"),
        (&["--from", "nothing.jsonl"], 2, "nothing.jsonl"),
        (&["--since", "soon"], 2, "is no time"),
    ];
    for (args, code, words) in cases {
        let output = replay(&dir, args, "");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    }
    assert_eq!(hec.taken().len(), 0);
}
