//! The requests of `hec_probe.sh`, which asks any collector the same, and the answers that are
//! wanted of ours: with a token without acknowledgement, and with one that has it.

use std::path::Path;
use std::process::Command;

use inrush_tests::*;

/// An answer: its status, and how its body begins.
type ProbeAnswer = (u16, &'static str);

/// Requests, and the answers with a plain token and with one that acknowledges; `None`: the
/// same.
const WANTED: &[(&str, ProbeAnswer, Option<ProbeAnswer>)] = &[
    ("health", (200, HEALTHY), None),
    ("health/1.0", (200, HEALTHY), None),
    ("health HEAD", (200, "HTTP/1.1 200"), None),
    (
        "health bad token",
        (400, r#"{"text":"Invalid token","code":21}"#),
        None,
    ),
    ("one event", (200, TAKEN), Some(NO_CHANNEL)),
    ("two concatenated", (200, TAKEN), Some(NO_CHANNEL)),
    ("two with newline", (200, TAKEN), Some(NO_CHANNEL)),
    ("array", (200, TAKEN), Some(NO_CHANNEL)),
    ("comma separated", (400, FORMAT_1), Some(NO_CHANNEL)),
    ("object event, time string", (200, TAKEN), Some(NO_CHANNEL)),
    ("time exponent", (400, FIELDS_0), Some(NO_CHANNEL)),
    ("time text", (400, FORMAT_0), Some(NO_CHANNEL)),
    ("event number", (200, TAKEN), Some(NO_CHANNEL)),
    // Splunk takes only what stands before it; a key that a newer client knows loses no event here.
    ("unknown key", (200, TAKEN), Some(NO_CHANNEL)),
    (
        "no auth",
        (401, r#"{"text":"Token is required","code":2}"#),
        None,
    ),
    ("auth empty Splunk", (401, NO_SCHEME), None),
    ("auth Bearer", (401, NO_SCHEME), None),
    (
        "auth unknown token",
        (403, r#"{"text":"Invalid token","code":4}"#),
        None,
    ),
    ("auth basic x:token", (200, TAKEN), Some(NO_CHANNEL)),
    ("query ?token=", (400, NO_QUERY), None),
    ("empty body", (400, NO_DATA), Some(NO_CHANNEL)),
    ("whitespace body", (400, NO_DATA), Some(NO_CHANNEL)),
    ("blank event", (400, BLANK_0), Some(NO_CHANNEL)),
    ("null event", (200, TAKEN), Some(NO_CHANNEL)),
    ("no event", (400, REQUIRED_0), Some(NO_CHANNEL)),
    ("2nd blank of 3", (400, BLANK_1), Some(NO_CHANNEL)),
    ("nested fields", (400, FIELDS_0), Some(NO_CHANNEL)),
    ("syntax error in 2nd", (400, FORMAT_1), Some(NO_CHANNEL)),
    ("not json", (400, FORMAT_0), Some(NO_CHANNEL)),
    ("raw no channel", (200, TAKEN), Some(NO_CHANNEL)),
    ("raw/1.0 channel header", (200, TAKEN), Some(WITH_ID)),
    ("raw ?channel=", (200, TAKEN), Some(WITH_ID)),
    ("raw empty", (400, NO_DATA), None),
    ("event with channel 1", (200, TAKEN), Some(WITH_ID)),
    ("event with channel 2", (200, TAKEN), Some(WITH_ID)),
    // Our numbers begin anywhere, so that a poll that reaches another instance is never true.
    ("ack [0,1,2,3,9]", (400, NO_ACK), Some(UNKNOWN)),
    ("ack again", (400, NO_ACK), Some(UNKNOWN)),
    ("ack again (json ctype)", (400, NO_ACK), Some(UNKNOWN)),
    ("ack no channel", (400, NO_ACK), Some(NO_CHANNEL)),
    (
        "ack bad body",
        (400, NO_ACK),
        Some((400, r#"{"text":"Invalid data format","code":6}"#)),
    ),
    ("channel not guid", (200, TAKEN), Some(BAD_CHANNEL)),
    ("channel empty", (200, TAKEN), Some(BAD_CHANNEL)),
    ("GET event", (405, NOT_FOUND), None),
    ("PUT event", (405, NOT_FOUND), None),
    ("OPTIONS event/1.0", (200, ""), None),
    ("unknown path", (404, NOT_FOUND), None),
    ("gzip", (200, TAKEN), Some(NO_CHANNEL)),
    ("gzip corrupt", (400, FORMAT_0), Some(NO_CHANNEL)),
    ("deflate", (415, r#"{"text":"Unsupported Media Type"#), None),
    ("metric multi", (200, TAKEN), Some(NO_CHANNEL)),
    ("metric single", (200, TAKEN), Some(NO_CHANNEL)),
    ("mint", (404, NOT_FOUND), None),
    ("s2s", (404, NOT_FOUND), None),
];

const HEALTHY: &str = r#"{"text":"HEC is healthy","code":17}"#;
const TAKEN: &str = r#"{"text":"Success","code":0}"#;
const NO_SCHEME: &str = r#"{"text":"Invalid authorization","code":3}"#;
const NO_QUERY: &str = r#"{"text":"Query string authorization is not enabled","code":16}"#;
const NO_DATA: &str = r#"{"text":"No data","code":5}"#;
const FORMAT_0: &str = r#"{"text":"Invalid data format","code":6,"invalid-event-number":0}"#;
const FORMAT_1: &str = r#"{"text":"Invalid data format","code":6,"invalid-event-number":1}"#;
const REQUIRED_0: &str = r#"{"text":"Event field is required","code":12,"invalid-event-number":0}"#;
const BLANK_0: &str =
    r#"{"text":"Event field cannot be blank","code":13,"invalid-event-number":0}"#;
const BLANK_1: &str =
    r#"{"text":"Event field cannot be blank","code":13,"invalid-event-number":1}"#;
const NO_ACK: &str = r#"{"text":"ACK is disabled","code":14}"#;
const FIELDS_0: &str =
    r#"{"text":"Error in handling indexed fields","code":15,"invalid-event-number":0}"#;
const NOT_FOUND: &str = r#"{"text":"The requested URL was not found on this server.","code":404}"#;
const NO_CHANNEL: ProbeAnswer = (400, r#"{"text":"Data channel is missing","code":10}"#);
const BAD_CHANNEL: ProbeAnswer = (400, r#"{"text":"Invalid data channel","code":11}"#);
const WITH_ID: ProbeAnswer = (200, r#"{"text":"Success","code":0,"ackId":"#);
const UNKNOWN: ProbeAnswer = (
    200,
    r#"{"acks":{"0":false,"1":false,"2":false,"3":false,"9":false}}"#,
);

/// Tells what the script printed that is not wanted.
fn differences(said: &str, acking: bool) -> Vec<String> {
    let mut lines = said.lines().filter(|line| !line.starts_with("Allow:"));
    let mut found = Vec::new();
    for (name, plain, with_ack) in WANTED {
        let (status, body) = match acking {
            true => with_ack.unwrap_or(*plain),
            false => *plain,
        };
        let wanted = format!("{name:<34} [{status}] {body}");
        let line = lines.next().unwrap_or_default();
        if !line.starts_with(&wanted) {
            found.push(format!("{line}\n  wanted: {wanted}"));
        }
    }
    found.extend(lines.map(|line| format!("nobody knows what is wanted: {line}")));
    found
}

#[test]
fn what_the_probe_asks_is_answered_as_wanted() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/tools/hec/hec_probe.sh");
    if !script.exists() {
        skip!("../shared/tools/hec/hec_probe.sh is not here");
    }
    let inrush = Inrush::start(&hec_peer_config(""));
    let url = format!("http://{}", inrush.address("http"));
    for (token, acking) in [(HEC_TOKEN, false), (HEC_ACK_TOKEN, true)] {
        let said = Command::new(&script).args([&url, token]).output().unwrap();
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let found = differences(&said, acking);
        assert!(found.is_empty(), "acking {acking}:\n{}", found.join("\n"));
    }
}
