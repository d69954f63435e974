//! `check` and `explain` on the command line: what stdout carries, and how they end.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};

use inrush_tests::binary;
use serde_json::Value;

fn inrush(args: &[&str], stdin: &[u8]) -> Output {
    let mut child = Command::new(binary())
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that does not read its input may be gone before it is written.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    child.wait_with_output().unwrap()
}

fn objects(output: &Output) -> Vec<Value> {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_good_file_is_ok_in_one_line_and_so_is_the_default() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("inrush.yaml");
    let default = inrush(&["check", "--print-default"], b"");
    std::fs::write(&file, &default.stdout).unwrap();
    let output = inrush(&["check", "-c", file.to_str().unwrap()], b"");
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said, format!("{}: ok\n", file.display()));
}

#[test]
fn schema_and_reference_are_printed() {
    let schema = inrush(&["check", "--print-schema"], b"");
    let schema: Value = serde_json::from_slice(&schema.stdout).unwrap();
    assert!(schema["properties"]["sources"].is_object());
    let pack = inrush(&["check", "--print-pack-schema"], b"");
    let pack: Value = serde_json::from_slice(&pack.stdout).unwrap();
    assert_eq!(pack["$defs"]["rule"]["required"][0], "name");
    let page = inrush(&["check", "--print-reference"], b"").stdout;
    assert!(String::from_utf8(page).unwrap().contains("| `listen` |"));
}

#[test]
fn a_command_line_without_sense_ends_with_2() {
    for args in [
        &[][..],
        &["check", "x", "-c", "y"],
        &["check", "-c", "x", "--print-schema"],
        &["explain", "--source", "x"],
    ] {
        let output = inrush(args, b"");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(
            !output.stderr.is_empty() && output.stdout.is_empty(),
            "{args:?}"
        );
    }
}

#[test]
fn every_record_is_explained_whatever_its_framing() {
    let input = b"<34>Oct 11 22:14:15 fw1 su[230]: 'su root' failed\n\
        37 <165>1 2003-10-11T22:14:15Z h a - - -\n\
        \xff\x00rubbish";
    let output = inrush(&["explain", "--json"], input);
    assert_eq!(output.status.code(), Some(0));
    let said = objects(&output);
    let formats: Vec<_> = said
        .iter()
        .map(|record| record["format"].as_str().unwrap())
        .collect();
    assert_eq!(formats, ["rfc3164", "rfc5424", "unparsed", "unparsed"]);
    assert_eq!(said[0]["facility"], "auth");
    assert_eq!(said[0]["proc_id"], "230");
    assert_eq!(said[0]["anomalies"][0]["name"], "year_assumed");
    assert_eq!(said[0]["hec"]["event"], "su[230]: 'su root' failed");
    assert_eq!(said[0]["class"], Value::Null);
    assert_eq!(said[1]["event_time"], "2003-10-11T22:14:15.000000000Z");
    let rules = said.iter().map(|record| &record["rule"]);
    assert!(rules.clone().all(|rule| rule == "source default"));
}

#[test]
fn nothing_depends_on_the_record_before() {
    let lines: String = (0..50)
        .map(|n| {
            let time = format!("2024-05-{:02}T10:00:{:02}.{n:03}+02:00", n % 28 + 1, n % 60);
            match n % 3 {
                0 => format!("<{n}>1 {time} host{n} app {n} - [x@1 n=\"{n}\"] text {n}\n"),
                1 => format!("<{n}>{time} host{n} app[{n}]: text {n}\n"),
                _ => format!("text {n}\n"),
            }
        })
        .collect();
    let explained = |args: &[&str]| {
        let mut said = objects(&inrush(args, lines.as_bytes()));
        for record in &mut said {
            // Read from the clock, and so is every time that it stands in for.
            record["received"].take();
            // `envelope` is `hec` once more.
            record["envelope"].take();
            record["hec"]["fields"]["sc4s_recv_time"].take();
            if record["event_time"].is_null() {
                record["hec"]["time"].take();
            }
        }
        said
    };
    let kept = explained(&["explain", "--json"]);
    assert_eq!(kept.len(), 50);
    assert_eq!(kept, explained(&["explain", "--json", "--fresh"]));
}

#[test]
fn json_lines_are_explained_as_they_arrived() {
    let input = b"{\"raw\":\"<13>Jan  1 00:00:00 h x\",\"sender\":\"192.0.2.7\",\"received\":\"2021-01-01T00:00:01Z\"}\n\
        no json\n\n{\"message\":\"x\"}\n";
    let output = inrush(&["explain", "--json", "--input", "json"], input);
    assert_eq!(output.status.code(), Some(1), "two lines held no record");
    let [record] = &objects(&output)[..] else {
        panic!("{output:?}")
    };
    assert_eq!(record["event_time"], "2021-01-01T00:00:00.000000000Z");
    assert_eq!(record["hec"]["fields"]["sc4s_fromhostip"], "192.0.2.7");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("line 2: not JSON") && said.contains("line 4: no text in `raw`"),
        "{said}"
    );
}

/// An answer that SC4S is said to have given to [`ASKED`].
fn answer(change: &[(&str, &str)]) -> Value {
    let mut answer = serde_json::json!({
        "host": "fw1", "time": 1714979289.0, "decided": ["app-raw-x", "app-syslog-x"],
    });
    for (key, value) in change {
        answer[*key] = (*value).into();
    }
    answer
}

const ASKED: &str = "<13>May  6 07:08:09 fw1 app: text";

fn answered(answers: &[Value]) -> String {
    let line = serde_json::json!({
        "id": answers.len(), "message": ASKED, "port": 514, "received_at": "1714979300",
        "answers": answers,
    });
    format!("{line}\n")
}

/// Answers that are the same as ours, one by the envelope, one that differs in two keys, a message
/// that was dropped, and one that was left to a fallback.
fn answers() -> [String; 5] {
    let record = serde_json::json!({ "raw": ASKED, "received_at": "1714979300" });
    let explained = ["explain", "--json", "--input", "json"];
    let ours = inrush(&explained, format!("{record}\n").as_bytes());
    let ours = objects(&ours)[0]["hec"].take();
    let keys = ["event", "index", "sourcetype", "source"];
    let same: Vec<_> = keys.map(|key| (key, ours[key].as_str().unwrap())).to_vec();
    let other = [&same[..], &[("host", "fw2"), ("vendor", "acme")]].concat();
    let fell = answer(&[("sourcetype", "sc4s:fallback")]);
    [
        vec![ours.clone()],
        vec![answer(&same)],
        vec![answer(&other)],
        vec![],
        vec![fell],
    ]
    .map(|answers| answered(&answers))
}

#[test]
fn answers_are_compared_key_by_key() {
    let all = answers().concat();
    let output = inrush(&["explain", "--against", "-", "--json"], all.as_bytes());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = objects(&output);
    let [differs, dropped, summary] = &said[..] else {
        panic!("{said:?}")
    };
    let keys = serde_json::json!({
        "host": { "there": "fw2", "here": "fw1", "by_choice": null },
        "vendor": { "there": "acme", "here": "", "by_choice": null },
    });
    assert_eq!(differs["keys"], keys);
    assert_eq!(differs["definition"], "app-syslog-x");
    assert_eq!(dropped["keys"]["events"]["there"], false);
    let summary = &summary["summary"];
    assert_eq!(summary["recognised"], 4);
    assert_eq!(summary["fell_back_there"], 1);
    assert_eq!(summary["six_keys"]["same"], 2);
    assert_eq!(summary["index_and_sourcetype"]["same"], 3);
}

#[test]
fn a_comparison_ends_with_a_table_and_names_lines_that_are_none() {
    let against = ["explain", "--against", "-"];
    let output = inrush(&against, answers().concat().as_bytes());
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("index, sourcetype    75.0 %"), "{said}");
    assert!(said.contains("\napp-syslog-x "), "{said}");
    let output = inrush(&against, answers()[1].as_bytes());
    assert_eq!(output.status.code(), Some(0), "nothing differs");
    let output = inrush(&against, b"{\"message\":\"x\"}\nno\n");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("stdin, line 1: no text"), "{said}");
    assert!(said.contains("stdin, line 2: not JSON"), "{said}");
    let output = inrush(&["explain", "--against", "/nowhere"], b"");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("/nowhere cannot be read"), "{said}");
}

#[test]
fn text_for_people_has_no_colour_in_a_pipe_and_no_control_characters() {
    let output = inrush(
        &["explain"],
        b"<13>Oct 11 22:14:15 h app: \x1b[31mred\x07\n",
    );
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.contains("record 1: rfc3164") && said.contains("\\u{1b}[31mred\\u{7}"),
        "{said}"
    );
    assert!(
        !said.contains(|c: char| c.is_control() && c != '\n'),
        "{said}"
    );
}

#[test]
fn a_reader_that_has_had_enough_is_no_error() {
    let mut child = Command::new(binary())
        .args(["explain", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    // More than any buffer holds; it ends when the process does.
    while stdin.write_all(&b"<13>x\n".repeat(10_000)).is_ok() {}
    drop(stdin);
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!((child.wait().unwrap().code(), said.as_str()), (Some(0), ""));
}

#[test]
fn the_version_says_what_it_was_built_from() {
    let printed = inrush(&["version", "--json"], b"");
    let document: Value = serde_json::from_slice(&printed.stdout).unwrap();
    let text = |name: &str| document[name].as_str().unwrap().to_owned();
    assert_eq!(text("version"), env!("CARGO_PKG_VERSION"));
    assert!(text("rustc").starts_with("rustc "), "{document}");
    assert!(text("target").contains("linux"), "{document}");
    assert!(["debug", "release"].contains(&text("profile").as_str()));
    let commit = text("commit");
    let hexadecimal = commit.len() == 40 && commit.bytes().all(|b| b.is_ascii_hexdigit());
    assert!(hexadecimal || commit == "unknown", "{commit}");
    assert!(document["features"].is_array());
    let lines = String::from_utf8(inrush(&["version"], b"").stdout).unwrap();
    for name in ["commit", "target", "profile", "rustc"] {
        assert!(lines.contains(&format!("\n{name}: {}\n", text(name))));
    }
    assert!(lines.starts_with(&format!("inrush {}\n", text("version"))));
}

#[test]
fn every_shown_command_has_a_manual_page_and_no_hidden_one() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().to_str().unwrap();
    assert!(inrush(&["man", folder], b"").status.success());
    let page = |name: &str| std::fs::read_to_string(dir.path().join(name));
    let search = page("inrush-search.1").unwrap();
    assert!(search.contains("Failed | count by host, 5m"));
    assert!(page("inrush-queue-ls.1").is_ok());
    let whole = page("inrush.1").unwrap();
    for hidden in ["search-worker", "completions", "man"] {
        assert!(page(&format!("inrush-{hidden}.1")).is_err(), "{hidden}");
        let entry = format!("inrush\\-{}(1)", hidden.replace('-', "\\-"));
        assert!(!whole.contains(&entry), "{hidden}");
    }
    assert!(whole.contains("inrush\\-search(1)"));
    let nowhere = inrush(&["man", &format!("{folder}/none")], b"");
    assert_eq!(nowhere.status.code(), Some(1));
}

#[test]
fn completions_know_commands_and_options() {
    for shell in ["bash", "zsh", "fish"] {
        let printed = inrush(&["completions", shell], b"");
        let text = String::from_utf8(printed.stdout).unwrap();
        assert!(text.contains("quarantine"), "{shell}");
        assert!(text.contains("no-rate"), "{shell}");
        assert!(!text.contains("search-worker"), "{shell}");
    }
    assert_eq!(inrush(&["completions", "csh"], b"").status.code(), Some(2));
}
