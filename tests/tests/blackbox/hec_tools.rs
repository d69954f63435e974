//! Tools around HTTP Event Collector: `inrush load hec://…` and `inrush explain --input hec`.

use std::path::Path;
use std::process::{Command, Output};

use inrush_tests::*;
use serde_json::Value;

use crate::packs::inrush;

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
    // Three connections with a last request that is not full.
    let requests = report["requests"]["count"].as_u64().unwrap();
    assert!((200..=203).contains(&requests), "{requests}");
    let markers = &report["verify"]["markers"];
    assert_eq!(
        (&markers["received"], &markers["lost"]),
        (&1000.into(), &0.into())
    );
    inrush.conserved(1000);
}

/// As a proxy in front of a collector may write it.
const CLOSES: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: Via, Close\r\nContent-Length: 27\r\n\r\n\
    {\"text\":\"Success\",\"code\":0}";

#[test]
fn an_answer_that_ends_its_connection_is_no_error() {
    let to = raw_server(vec![CLOSES; 20]).to_string();
    let (output, report) = load(&to, &["--number", "50"]);
    assert!(output.status.success(), "{report:#}");
    assert_eq!(report["answers"]["answered"], 50, "{report:#}");
    assert_eq!(report["errors"], serde_json::json!({}), "{report:#}");
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

/// Three tokens, a transform and routes; two files.
const EXPLAINED: &str = "sources:
  hec:
    type: splunk_hec
    listen: 127.0.0.1:0
    max_event_bytes: 4MiB
    max_time_skew: 0s
    tokens:
      - { token: 11111111-2222-3333-4444-555555555555, name: pods, index: k8s,
          indexes: [k8s, netfw], host: header }
      - { token_file: made-token, name: lines, packs: true, ack: delivered }
      - { token: 11111111-2222-3333-4444-555555555556, name: gone, disabled: true }
destinations:
  a: { type: file, path: \"{dir}/a.jsonl\" }
  b: { type: file, path: \"{dir}/b.jsonl\" }
packs: { enabled: true }
transforms:
  - { name: moved, match: 'host == \"h9\"', set: { index: '\"netops\"' } }
routes:
  - { match: 'index == \"netops\"', to: [a] }
  - { to: [b] }
";

/// `inrush explain --input hec --json` with this body: its exit code, events and answer.
fn explained(dir: &Path, more: &[&str], body: &[u8]) -> (Option<i32>, Vec<Value>, Value) {
    let args = ["explain", "-c", "inrush.yaml", "--input", "hec", "--json"];
    let output = inrush(&[&args[..], more].concat(), dir, body);
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let last = lines.pop();
    let answer = last.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code(), lines, answer["answer"].clone())
}

fn in_folder(yaml: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let yaml = yaml.replace("{dir}", &dir.path().display().to_string());
    std::fs::write(dir.path().join("inrush.yaml"), yaml).unwrap();
    dir
}

#[test]
fn explain_shows_where_each_value_of_an_event_comes_from() {
    let dir = in_folder(EXPLAINED);
    let body = br#"{"event":"one","time":1700000000.5,"host":"h1","index":"netfw"}
        {"event":{"b":1.0},"fields":{"k":["a","b"]}}{"event":"three","host":"h9","source":"s"}
        {"event":""}{"event":"five"}"#;
    let (code, events, answer) = explained(dir.path(), &["--query", "sourcetype=st"], body);
    assert_eq!((code, events.len()), (Some(1), 3));
    let wanted = r#"{"text":"Event field cannot be blank","code":13,"invalid-event-number":3}"#;
    let wanted: Value = serde_json::from_str(wanted).unwrap();
    assert_eq!((&answer["status"], &answer["body"]), (&400.into(), &wanted));
    let from = |event: usize, name: &str| {
        let value = &events[event]["values"][name];
        let text = |key: &str| value[key].as_str().unwrap().to_owned();
        (text("value"), text("from"))
    };
    let pair = |value: &str, from: &str| (value.to_owned(), from.to_owned());
    assert_eq!(from(0, "index"), pair("netfw", "envelope"));
    assert_eq!(from(0, "sourcetype"), pair("st", "query"));
    assert_eq!(from(0, "source"), pair("http:pods", "token default"));
    let time = pair("2023-11-14T22:13:20.500000000Z", "envelope");
    assert_eq!(from(0, "time"), time);
    assert_eq!(from(1, "index"), pair("k8s", "token default"));
    assert_eq!(from(1, "host"), pair("localhost", "Host field"));
    assert_eq!(from(1, "time").1, "time of receipt");
    assert_eq!(
        events[1]["indexed_fields"]["k"],
        serde_json::json!(["a", "b"])
    );
    assert_eq!(from(2, "index"), pair("netops", "transform moved"));
    assert_eq!(events[2]["destinations"], serde_json::json!(["a"]));
    assert_eq!(events[2]["hec"]["index"], "netops");
    // Lines of a token with packs: the texts say more, and no token file is made.
    let line = b"<14>May  6 07:08:09 pa1 1,2024/05/06 07:08:10,001122334455,TRAFFIC,end,1,\
        2024/05/06 07:08:10,192.0.2.1,198.51.100.2\n";
    let (code, events, _) = explained(dir.path(), &["--raw", "--token", "lines"], line);
    assert_eq!(code, Some(0));
    let values = &events[0]["values"];
    assert_eq!(values["host"]["from"], "text of the event", "{values:#}");
    assert_eq!(values["sourcetype"]["value"], "pan:traffic", "{values:#}");
    let from = values["sourcetype"]["from"].as_str().unwrap();
    assert!(from.starts_with("rule "), "{from}");
    let files = std::fs::read_dir(dir.path()).unwrap();
    assert_eq!(files.count(), 1, "only the configuration");
}

/// Paths, queries and bodies of requests.
const BODIES: [(&str, &str, &str); 14] = [
    (
        "event",
        "",
        r#"{"event":"a"}{"event":"b","time":"1700000000.123456789"}"#,
    ),
    ("event", "", r#"[{"event":1},{"event":[2]},{"event":null}]"#),
    (
        "event",
        "",
        r#"{"event":"a"}{"event":"b","index":"no"}{"event":"c"}"#,
    ),
    ("event", "", r#"{"event":"a"}{"host":"h"}"#),
    ("event", "", r#"{"event":"a","fields":{"x":{}}}"#),
    ("event", "", r#"{"event":"a"}["#),
    ("event", "", "  "),
    ("event", "", "{"),
    (
        "event",
        "index=netfw&host=q",
        r#"{"event":"\u00e9 \n","source":"s\n"}"#,
    ),
    ("event", "index=other", r#"{"event":"a"}"#),
    ("event", "time=1e9", r#"{"event":"a"}"#),
    (
        "event",
        "auto_extract_timestamp=1",
        r#"{"event":"2023-11-14T22:13:20Z h a: x"}"#,
    ),
    ("event", "", r#"{"fields":{"metric_name:a":1}}"#),
    ("raw", "time=1700000000", "one\n\ntwo\r\nthree"),
];

#[test]
fn explain_answers_as_the_collector_does_and_shows_what_it_keeps() {
    let yaml = EXPLAINED.replace("packs: { enabled: true }\n", "");
    let inrush = Inrush::start(&yaml);
    let dir = in_folder(&yaml);
    let long = |bytes: usize| format!("{{\"event\":\"{}\"}}", "x".repeat(bytes));
    let (whole, too_long) = (long(3_000_000), long(5_000_000));
    let more = [("event", "", &*whole), ("event", "", &*too_long)];
    let mut taken = 0;
    for (path, query, body) in BODIES.into_iter().chain(more) {
        let raw: &[&str] = if path == "raw" { &["--raw"] } else { &[] };
        let more = [raw, &["--query", query]].concat();
        let (_, events, answer) = explained(dir.path(), &more, body.as_bytes());
        let mut client = HecClient::connect(inrush.address("http"), TOKEN);
        let reply = client.ask(&format!("{path}?{query}"), "", body);
        let about = format!("{path}?{query} {}", &body[..body.len().min(80)]);
        assert_eq!(answer["status"], reply.status, "{about}");
        assert_eq!(answer["body"], reply.json(), "{about}");
        let kept = eventually("the events in the file", || {
            let kept = inrush.events_so_far("b.jsonl");
            (kept.len() >= taken + events.len()).then_some(kept)
        });
        for (shown, kept) in events.iter().zip(&kept[taken..]) {
            for key in ["index", "sourcetype", "raw"] {
                assert_eq!(shown[key], kept[key], "{key}: {about}");
            }
            let values = &shown["values"];
            if raw.is_empty() {
                let source = &values["source"]["value"];
                assert_eq!(source, &kept["event_source"], "{about}");
            }
            if values["time"]["from"] != "time of receipt" {
                let second = |time: &Value| time.as_str().unwrap()[..19].to_owned();
                assert_eq!(
                    second(&values["time"]["value"]),
                    second(&kept["time"]),
                    "{about}"
                );
            }
        }
        taken += events.len();
    }
    let ledger = inrush.wait_until("all is settled", |ledger| {
        ledger.destinations.values().all(|one| one.pending == 0)
    });
    assert_eq!(ledger.sources["hec"].accepted, taken as u64);
}
