//! Tools around files: the list for the page, `inrush doctor`, and `inrush explain` for logs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use inrush_event::LedgerSnapshot;
use inrush_tests::*;
use serde_json::Value;
use tempfile::TempDir;

use crate::doctor::{findings, of};
use crate::packs::inrush;

const POD: &str = "logs/pods/shop_web-1_1b2c/nginx/0.log";

fn config(options: &str) -> String {
    let options = options.replace('\n', "\n    ");
    format!(
        "sources:\n  files:\n    type: file\n    {options}\ndestinations:\n  \
         out: {{ type: file, path: \"{{dir}}/out.jsonl\" }}\n"
    )
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn start(options: &str, prepare: impl FnOnce(&Path)) -> Inrush {
    let dir = tempfile::tempdir().unwrap();
    prepare(dir.path());
    let options_of = Options {
        dir: Some(dir),
        ..Options::default()
    };
    Inrush::with(&config(options), options_of)
}

fn cri(stream: &str, tag: &str, text: &str) -> String {
    format!("2026-11-28T09:00:00.1Z {stream} {tag} {text}\n")
}

/// The list of files, once the file that ends so is as it should be.
fn listed(inrush: &Inrush, end: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let files = || inrush.json("/api/v1/files")["sources"][0]["files"].clone();
    let find = || {
        let files = files();
        let files = files.as_array().unwrap().clone();
        files
            .into_iter()
            .find(|file| file["path"].as_str().unwrap().ends_with(end))
    };
    let is_it = |_: &LedgerSnapshot| find().as_ref().is_some_and(&holds);
    inrush.wait_until("a file is as it should be", is_it);
    find().unwrap()
}

#[test]
fn the_list_of_files_says_where_each_is_and_what_is_passed_over() {
    let text = cri("stdout", "P", "ab") + &cri("stdout", "F", "cd");
    let inrush = start("include: [\"{dir}/logs/pods/*/*/*.log\"]", |dir| {
        write(&dir.join(POD), &text);
        let socket = dir.join("logs/pods/shop_web-1_1b2c/nginx/1.log");
        drop(UnixListener::bind(socket).unwrap());
    });
    assert_eq!(field(&inrush.collected(1), "message"), ["abcd"]);
    let file = listed(&inrush, "0.log", |file| file["position"] == text.len());
    assert_eq!(
        (&file["joined"], &file["generation"]),
        (&1.into(), &0.into())
    );
    assert_eq!(
        (&file["size"], &file["lag_bytes"]),
        (&text.len().into(), &0.into())
    );
    assert_eq!(file["losses"]["lines_cut"], 0);
    let skipped = listed(&inrush, "1.log", |_| true);
    assert_eq!(
        (&skipped["state"], &skipped["reason"]),
        (&"skipped".into(), &"it is a socket".into())
    );
    let source = &inrush.json("/api/v1/files")["sources"][0];
    assert_eq!(
        (&source["source"], &source["logs"]),
        (&"files".into(), &1.into())
    );
    let page = inrush.http("GET", "/metrics").body;
    assert!(
        page.contains("inrush_file_joined_events_total{source=\"files\"} 1\n"),
        "{page}"
    );

    let log = inrush.path(POD);
    fs::rename(&log, log.with_extension("log.20261128-090000")).unwrap();
    write(&log, &cri("stdout", "F", "next"));
    inrush.collected(2);
    let file = listed(&inrush, "0.log", |file| file["generation"] == 1);
    assert_eq!(file["state"], "live");
}

#[test]
fn a_process_without_files_lists_none() {
    let inrush = Inrush::start(&crate::to_file("udp://127.0.0.1:0", ""));
    assert_eq!(
        inrush.json("/api/v1/files")["sources"],
        Value::Array(Vec::new())
    );
}

/// A folder with a configuration, whose names are those of `options`.
fn folder(options: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let yaml = config(options).replace("{dir}", &dir.path().display().to_string());
    fs::write(dir.path().join("inrush.yaml"), yaml).unwrap();
    dir
}

#[test]
fn the_doctor_names_patterns_without_files_and_names_that_are_passed_over() {
    let options = "include: [\"{dir}/logs/**/*.log\", \"{dir}/none/*.log\"]";
    let dir = folder(options);
    write(&dir.path().join(POD), "x\n");
    drop(UnixListener::bind(dir.path().join("logs/s.log")).unwrap());
    let found = findings(&dir.path().join("inrush.yaml"));
    let files = of(&found, "files.found:files");
    assert!(
        files["found"]
            .as_str()
            .unwrap()
            .contains("1 files in 4 folders"),
        "{files}"
    );
    let unmatched = of(&found, "files.unmatched:files");
    let words = unmatched["found"].as_str().unwrap();
    assert!(words.ends_with("/none/*.log` matches nothing"), "{words}");
    let skipped = of(&found, "files.skipped:files");
    assert!(
        skipped["found"]
            .as_str()
            .unwrap()
            .ends_with("/logs/s.log: it is a socket")
    );
    let watches = of(&found, "files.watches");
    assert!(
        watches["found"]
            .as_str()
            .unwrap()
            .starts_with("fs.inotify.max_user_watches=")
    );
    of(&found, "files.instances");
}

#[test]
fn the_doctor_names_files_that_cannot_be_opened() {
    let (Some(setpriv), true) = (tool("setpriv"), is_root()) else {
        skip!("no setpriv, or not root: nothing can be given up");
    };
    let dir = folder("include: [\"{dir}/logs/*.log\"]");
    let log = dir.path().join("logs/a.log");
    write(&log, "x\n");
    fs::set_permissions(&log, fs::Permissions::from_mode(0o000)).unwrap();
    let output = std::process::Command::new(setpriv)
        .args(["--inh-caps=-all", "--bounding-set=-all"])
        .arg(binary())
        .args(["doctor", "--no-rate", "--json", "-c", "inrush.yaml"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    if !output.status.success() {
        skip!("this host lets nobody give up capabilities");
    }
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = report["findings"].as_array().unwrap();
    let denied = of(found, "files.unreadable:files");
    assert_eq!(denied["severity"], "warn");
    let words = denied["found"].as_str().unwrap();
    assert!(
        words.ends_with("/logs/a.log: the permission to read it is missing"),
        "{words}"
    );
    let command = denied["command"].as_str().unwrap();
    assert_eq!(command, format!("namei -l '{}'", log.display()));
}

/// Blocks of a section of the guide to files, each without its fences.
fn blocks(section: &str) -> Vec<String> {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guides/files.md");
    let guide = fs::read_to_string(guide).unwrap();
    let (_, text) = guide.split_once(&format!("\n## {section}\n")).unwrap();
    let text = text.split("\n## ").next().unwrap();
    let parts = text.split("```").skip(1).step_by(2);
    parts
        .map(|part| part.split_once('\n').unwrap().1.to_owned())
        .collect()
}

#[test]
fn the_guide_shows_what_explain_says_of_a_log() {
    let blocks = blocks("Explain a log");
    let [config, lines, pod, shown] = &blocks[..] else {
        panic!("{blocks:#?}");
    };
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("inrush.yaml"), config).unwrap();
    fs::write(dir.path().join("pod.json"), pod).unwrap();
    let (command, wanted) = shown.split_once('\n').unwrap();
    let command = command.strip_prefix("$ inrush ").unwrap();
    let command = command.strip_suffix(" < lines.txt").unwrap();
    let args: Vec<&str> = command.split(' ').collect();
    let output = inrush(&args, dir.path(), lines);
    let said = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    // The time of receipt is another one each time, and long envelopes are cut.
    let mut wanted = wanted.lines();
    let mut said = said.lines();
    for line in wanted.by_ref() {
        let found = said.next().unwrap_or_default();
        match line.split_once('…') {
            Some((before, after)) => {
                let fits = found.starts_with(before) && found.ends_with(after);
                assert!(fits, "{line:?} is {found:?}");
            }
            None => assert_eq!(found, line),
        }
    }
    assert_eq!((said.next(), wanted.next()), (None, None));
}

#[test]
fn explain_tells_lines_apart_and_what_is_wrong_with_them() {
    let dir = folder("include: [\"/var/log/pods/*/*/*.log\"]\nindex: os\nhost: h1");
    let args = ["explain", "-c", "inrush.yaml", "--input", "cri", "--json"];
    let pod = ["--pod", "shop/web-1", "--container", "nginx"];
    let text = cri("stdout", "P", "ab") + "no form\n" + &cri("stdout", "F", "cd");
    let output = inrush(&[&args[..], &pod[..]].concat(), dir.path(), &text);
    assert_eq!(output.status.code(), Some(1), "a line is in another form");
    let lines: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let [wrong, joined, totals] = &lines[..] else {
        panic!("{lines:#?}");
    };
    assert_eq!(wrong["lines"]["first"], 2);
    assert!(
        wrong["lines"]["fault"]
            .as_str()
            .unwrap()
            .contains("RFC 3339"),
        "{wrong}"
    );
    assert_eq!(
        (&joined["lines"]["first"], &joined["lines"]["last"]),
        (&1.into(), &3.into())
    );
    assert_eq!(
        (&joined["lines"]["pieces"], &joined["message"]),
        (&2.into(), &"abcd".into())
    );
    assert_eq!(joined["values"]["index"]["value"], "os");
    assert_eq!(
        joined["values"]["sourcetype"]["value"],
        "kube:container:nginx"
    );
    assert_eq!(joined["class_fields"]["k8s.pod.name"], "web-1");
    assert_eq!(joined["hec"]["host"], "h1");
    let wanted = serde_json::json!({ "lines": 3, "events": 2, "joined": 1, "cut": 0,
        "malformed": 1, "unfinished": 0 });
    assert_eq!(totals["totals"], wanted);
}

#[test]
fn explain_says_what_it_cannot_do_with_a_log() {
    let dir = folder("include: [\"/x\"]");
    let of = |more: &[&str]| {
        let args = ["explain", "-c", "inrush.yaml"];
        let output = inrush(&[&args[..], more].concat(), dir.path(), "");
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    for (args, words) in [
        (
            &["--pod", "a/b"][..],
            "--pod is for --input cri and --input docker",
        ),
        (&["--input", "cri", "--pod", "web"], "write NAMESPACE/POD"),
        (
            &["--input", "cri", "--pod", "a/b"],
            "name the container with --container",
        ),
        (
            &["--input", "cri", "--source", "x"],
            "there is no source `x`; there are: files",
        ),
    ] {
        let said = of(args);
        assert!(said.contains(words), "{args:?}: {said}");
    }
    let syslog = crate::to_file("udp://127.0.0.1:0", "");
    fs::write(
        dir.path().join("inrush.yaml"),
        syslog.replace("{dir}", "/tmp"),
    )
    .unwrap();
    assert!(of(&["--input", "docker"]).contains("has no source of type `file`"));
}
