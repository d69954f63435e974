//! Files: every line once, whatever becomes of its file.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use inrush_tests::*;
use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::doors::await_alarm;

/// A file source with these options, to a file; the queue is on disk.
fn config(options: &str) -> String {
    let options = options.replace('\n', "\n    ");
    format!(
        "sources:\n  files:\n    type: file\n    {options}\ndestinations:\n  \
         out: {{ type: file, path: \"{{dir}}/out.jsonl\" }}\n"
    )
}

fn start(options: &str) -> Inrush {
    start_in(tempfile::tempdir().unwrap(), options)
}

fn start_in(dir: TempDir, options: &str) -> Inrush {
    fs::create_dir_all(dir.path().join("logs")).unwrap();
    let options_of = Options {
        dir: Some(dir),
        ..Options::default()
    };
    Inrush::with(&config(options), options_of)
}

const ALL: &str = "include: [\"{dir}/logs/*.log\"]";

fn append(path: &Path, text: impl AsRef<[u8]>) -> File {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .unwrap();
    file.write_all(text.as_ref()).unwrap();
    file
}

/// Texts of the events so far, once there are as many.
fn texts(inrush: &Inrush, events: u64) -> Vec<String> {
    field(&inrush.collected(events), "message")
}

fn metric(inrush: &Inrush, name: &str) -> u64 {
    let page = inrush.http("GET", "/metrics").body;
    let line = page.lines().find(|line| line.starts_with(name));
    let value = line.and_then(|line| line.rsplit(' ').next()).unwrap_or("0");
    value.parse::<f64>().unwrap() as u64
}

fn cri(stream: &str, tag: &str, text: &str) -> String {
    format!("2026-11-28T09:00:00.123456789Z {stream} {tag} {text}\n")
}

/// The folder of a container's logs, as the kubelet makes it.
fn pod(inrush: &Inrush) -> PathBuf {
    inrush.path("logs/pods/shop_web-7f9_1b2c/nginx")
}

const PODS: &str = "include: [\"{dir}/logs/pods/*/*/*.log\"]";

#[test]
fn lines_of_files_that_are_there_and_of_new_ones_come() {
    let dir = tempfile::tempdir().unwrap();
    append(&dir.path().join("logs/a.log"), "one\ntwo\n");
    let inrush = start_in(dir, &format!("{ALL}\nhost: h1\nindex: os"));
    assert_eq!(texts(&inrush, 2), ["one", "two"]);
    append(&inrush.path("logs/a.log"), "three\r\n");
    append(&inrush.path("logs/b.log"), "four\n");
    append(&inrush.path("logs/c.txt"), "not wanted\n");
    let events = inrush.collected(4);
    assert_eq!(
        sorted(field(&events, "message")),
        ["four", "one", "three", "two"]
    );
    for event in &events {
        assert_eq!(event["host"], "h1");
        assert_eq!(event["index"], "os");
        assert_eq!(event["sourcetype"], "file");
        assert!(
            event["origin"].as_str().unwrap().ends_with(".log"),
            "{event}"
        );
    }
}

#[test]
fn pieces_of_a_container_are_one_event_also_across_its_files() {
    let inrush = start(PODS);
    let log = pod(&inrush).join("0.log");
    append(
        &log,
        cri("stdout", "P", "ab") + &cri("stderr", "F", "x") + &cri("stdout", "P", "cd"),
    );
    assert_eq!(texts(&inrush, 1), ["x"]);
    fs::rename(&log, pod(&inrush).join("0.log.20261128-090000")).unwrap();
    append(&log, cri("stdout", "F", "ef") + &cri("stdout", "F", "next"));
    let events = inrush.collected(3);
    assert_eq!(field(&events, "message"), ["x", "abcdef", "next"]);
    assert_eq!(events[1]["sourcetype"], "kube:container:nginx");
    let fields = serde_json::json!({"k8s.namespace.name": "shop", "k8s.pod.name": "web-7f9",
        "k8s.pod.uid": "1b2c", "k8s.container.name": "nginx", "log.iostream": "stdout"});
    assert_eq!(events[1]["fields"], fields);
    let time = events[1]["time"].to_string();
    assert!(time.contains("2026-11-28T09:00:00"), "{time}");
}

#[test]
fn pieces_of_docker_are_one_event() {
    let inrush = start("include: [\"{dir}/logs/*-json.log\"]");
    let line = |text: &str| {
        let text = serde_json::to_string(text).unwrap();
        format!("{{\"log\":{text},\"stream\":\"stdout\",\"time\":\"2026-11-28T09:00:00.5Z\"}}\n")
    };
    let path = inrush.path("logs/0a-json.log");
    append(
        &path,
        line("a \"quoted\" ") + &line("end\n") + &line("plain\n"),
    );
    assert_eq!(texts(&inrush, 2), ["a \"quoted\" end", "plain"]);
}

/// A way to rotate a file, once.
type Rotation = fn(&Path, usize);

fn rename_and_create(path: &Path, number: usize) {
    fs::rename(path, path.with_extension(format!("log.{number}"))).unwrap();
    File::create(path).unwrap();
}

fn delete_and_create(path: &Path, _: usize) {
    fs::remove_file(path).unwrap();
    File::create(path).unwrap();
}

fn rename_and_wait(path: &Path, number: usize) {
    fs::rename(path, path.with_extension(format!("log-{number}"))).unwrap();
}

/// Number of the line that an event is.
fn number(event: &Value) -> usize {
    let text = event["message"].as_str().unwrap();
    text.rsplit(' ').next().unwrap().parse().unwrap()
}

/// How often each line has come.
fn seen(inrush: &Inrush) -> BTreeMap<usize, usize> {
    let mut seen = BTreeMap::new();
    for event in inrush.events_so_far("out.jsonl") {
        *seen.entry(number(&event)).or_insert(0) += 1;
    }
    seen
}

/// Writes numbered lines, and rotates now and then, while the process is killed and started anew.
/// A file is rotated once it was seen: the source reads what has its name.
fn every_line_once(options: &str, path: &str, rotate: Rotation, line: fn(usize) -> String) {
    const PARTS: usize = 16;
    const LINES: usize = 400;
    let mut inrush = start(options);
    for part in 0..PARTS {
        let first = part * LINES;
        let path = inrush.path(path);
        append(&path, (first..first + LINES).map(line).collect::<String>());
        if part % 2 == 1 {
            let begun = || seen(&inrush).contains_key(&first).then_some(());
            eventually("a line of the file", begun);
            rotate(&path, part);
        }
        if part % 4 == 2 {
            let (_, dir) = inrush.kill();
            inrush = start_in(dir, options);
        }
    }
    let all = || Some(seen(&inrush)).filter(|seen| seen.len() == PARTS * LINES);
    eventually("every line", all);
    inrush.wait_until("all is delivered", |ledger| {
        ledger.destinations["out"].pending == 0
    });
    assert_eq!(
        metric(&inrush, "inrush_file_rotated_away_unread_bytes_total"),
        0
    );
}

fn plain_line(number: usize) -> String {
    format!("line number {number}\n")
}

fn cri_line(number: usize) -> String {
    let stream = ["stdout", "stderr"][number % 2];
    match number % 7 {
        0 => cri(stream, "P", "long ") + &cri(stream, "F", &format!("line {number}")),
        _ => cri(stream, "F", &format!("line {number}")),
    }
}

#[test]
fn every_line_comes_over_renames_and_kills() {
    every_line_once(ALL, "logs/a.log", rename_and_create, plain_line);
}

#[test]
fn every_line_comes_while_the_name_is_absent() {
    every_line_once(ALL, "logs/a.log", rename_and_wait, plain_line);
}

#[test]
fn every_line_of_a_container_comes_over_rotations_and_kills() {
    let path = "logs/pods/a_b_c/d/0.log";
    every_line_once(PODS, path, rename_and_create, cri_line);
}

#[test]
fn what_is_deleted_while_it_is_read_is_read_to_its_end() {
    let inrush = start(ALL);
    let path = inrush.path("logs/a.log");
    let mut file = append(&path, "one\n");
    assert_eq!(texts(&inrush, 1), ["one"]);
    fs::remove_file(&path).unwrap();
    file.write_all(b"two\n").unwrap();
    assert_eq!(texts(&inrush, 2), ["one", "two"]);
    delete_and_create(&append_path(&inrush), 0);
    append(&path, "three\n");
    assert_eq!(texts(&inrush, 3), ["one", "two", "three"]);
}

fn append_path(inrush: &Inrush) -> PathBuf {
    let path = inrush.path("logs/a.log");
    append(&path, "");
    path
}

/// Three rotations while the process stands still, of which the runtime keeps one.
#[test]
fn a_generation_that_the_runtime_deleted_unopened_counts_and_nothing_is_joined_over_it() {
    let inrush = start(PODS);
    let log = pod(&inrush).join("0.log");
    append(
        &log,
        cri("stdout", "F", "first") + &cri("stdout", "P", "begun, "),
    );
    assert_eq!(texts(&inrush, 1), ["first"]);
    inrush.signal(Signal::SIGSTOP);
    for text in ["deleted", "end", "next"] {
        fs::rename(&log, log.with_extension("log.1")).unwrap();
        append(&log, cri("stdout", "F", text));
    }
    inrush.signal(Signal::SIGCONT);
    assert_eq!(texts(&inrush, 4), ["first", "begun, ", "end", "next"]);
    let missed = "inrush_file_missed_generations_total";
    assert_eq!(metric(&inrush, missed), 1);
    let ledger = inrush.ledger();
    assert_eq!(ledger.sources["files"].lost_upstream["deleted"], 1);
    let listing = &inrush.json("/api/v1/files")["sources"][0];
    assert_eq!(listing["missed_generations"], 1);
    assert_eq!(listing["files"][0]["losses"]["missed_generations"], 1);
    let alarm = await_alarm(&inrush, "files-missed:files", || ());
    assert_eq!(alarm["severity"], "critical");
    let lost = "Source files has lost one file that was deleted before it could be opened.";
    assert_eq!(alarm["what"], lost);
}

/// The destination's last line is torn, as by a kill in the middle of a write. Its event may come
/// once more, as it does when the write was never settled.
#[test]
fn a_torn_line_of_the_destination_is_cut_off() {
    let inrush = start(ALL);
    append(&inrush.path("logs/a.log"), "one\n");
    assert_eq!(texts(&inrush, 1), ["one"]);
    let (_, dir) = inrush.kill();
    let out = dir.path().join("out.jsonl");
    let whole = fs::read(&out).unwrap();
    append(&out, &whole[..whole.len() / 2]);
    let inrush = start_in(dir, ALL);
    append(&inrush.path("logs/a.log"), "two\n");
    let mut texts = eventually("the next line", || {
        let texts = field(&inrush.events_so_far("out.jsonl"), "message");
        (texts.last()? == "two").then_some(texts)
    });
    texts.dedup();
    assert_eq!(texts, ["one", "two"]);
}

#[test]
fn a_file_that_is_truncated_is_read_anew() {
    let inrush = start(ALL);
    let path = inrush.path("logs/a.log");
    append(&path, "one\ntwo\n");
    assert_eq!(texts(&inrush, 2), ["one", "two"]);
    File::create(&path).unwrap().write_all(b"3\n").unwrap();
    assert_eq!(texts(&inrush, 3), ["one", "two", "3"]);
    assert_eq!(metric(&inrush, "inrush_file_truncated_total"), 1);
}

#[test]
fn a_long_line_costs_that_line() {
    let inrush = start(&format!("{ALL}\nmax_line_bytes: 64KiB"));
    let path = inrush.path("logs/a.log");
    append(&path, format!("one\n{}\ntwo\n", "x".repeat(10 << 20)));
    let texts = texts(&inrush, 3);
    assert_eq!((texts[0].as_str(), texts[2].as_str()), ("one", "two"));
    assert_eq!(texts[1].len(), 64 << 10);
    assert_eq!(metric(&inrush, "inrush_file_line_cut_total"), 1);
}

#[test]
fn a_file_that_was_there_can_be_read_from_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("logs/a.log");
    append(&path, "old\nhalf of a ");
    let options = format!("{ALL}\nstart_at: end");
    let inrush = start_in(dir, &options);
    let is_open = || (metric(&inrush, "inrush_file_open_files") == 1).then_some(());
    eventually("the file is open", is_open);
    let path = inrush.path("logs/a.log");
    append(&path, "line\nnew\n");
    append(&inrush.path("logs/b.log"), "from its beginning\n");
    let texts = sorted(texts(&inrush, 2));
    assert_eq!(texts, ["from its beginning", "new"]);
}

#[test]
fn the_first_start_is_known_after_a_kill_at_once() {
    let options = format!("{ALL}\nstart_at: end");
    let inrush = start(&options);
    let runs = || {
        let page = inrush.http("GET", "/metrics").body;
        page.contains("inrush_file_open_files{").then_some(())
    };
    eventually("the source runs", runs);
    let (_, dir) = inrush.kill();
    // It is younger than the first start, and older than the second one.
    append(&dir.path().join("logs/a.log"), "one\n");
    let inrush = start_in(dir, &options);
    assert_eq!(texts(&inrush, 1), ["one"]);
}

#[test]
fn what_is_no_file_is_not_opened() {
    let dir = tempfile::tempdir().unwrap();
    let logs = dir.path().join("logs");
    fs::create_dir_all(logs.join("folder.log")).unwrap();
    let fifo = logs.join("fifo.log");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    symlink("/dev/zero", logs.join("zero.log")).unwrap();
    symlink("loop.log", logs.join("loop.log")).unwrap();
    symlink("nothing", logs.join("dangling.log")).unwrap();
    symlink("/etc/hostname", logs.join("outside.log")).unwrap();
    let inrush = start_in(dir, ALL);
    append(&inrush.path("logs/a\nb.log"), "a name with a line feed\n");
    assert_eq!(texts(&inrush, 1), ["a name with a line feed"]);
}

#[test]
fn two_files_that_begin_alike_are_two() {
    let inrush = start(ALL);
    let same = format!("{}\n", "x".repeat(2000));
    for name in ["a", "b", "c"] {
        append(&inrush.path(&format!("logs/{name}.log")), &same);
    }
    assert_eq!(texts(&inrush, 3).len(), 3);
}
