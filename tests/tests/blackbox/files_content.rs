//! Contents of files: events of several lines, other encodings, compressed files, and lines that
//! are none.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use inrush_tests::*;
use serde_json::Value;
use tempfile::TempDir;

const GUIDE: &str = include_str!("../../../docs/guides/files.md");

/// A file source with these options, to a file; the queue is on disk.
fn start_in(dir: TempDir, options: &str) -> Inrush {
    fs::create_dir_all(dir.path().join("logs")).unwrap();
    let options = options.replace('\n', "\n    ");
    let config = format!(
        "sources:\n  files:\n    type: file\n    {options}\ndestinations:\n  \
         out: {{ type: file, path: \"{{dir}}/out.jsonl\" }}\n"
    );
    let options_of = Options {
        dir: Some(dir),
        ..Options::default()
    };
    Inrush::with(&config, options_of)
}

fn start(options: &str) -> Inrush {
    start_in(tempfile::tempdir().unwrap(), options)
}

fn append(path: &Path, text: impl AsRef<[u8]>) -> File {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut options = OpenOptions::new();
    let mut file = options.create(true).append(true).open(path).unwrap();
    file.write_all(text.as_ref()).unwrap();
    file
}

fn texts(inrush: &Inrush, events: u64) -> Vec<String> {
    field(&inrush.collected(events), "message")
}

fn metric(inrush: &Inrush, name: &str) -> u64 {
    let page = inrush.http("GET", "/metrics").body;
    let line = page.lines().find(|line| line.starts_with(name));
    let value = line.and_then(|line| line.rsplit(' ').next()).unwrap_or("0");
    value.parse::<f64>().unwrap() as u64
}

fn flags(event: &Value) -> Vec<&str> {
    let flags = event["anomalies"].as_array();
    let names = flags.into_iter().flatten();
    names.filter_map(Value::as_str).collect()
}

fn cri(stream: &str, tag: &str, text: &str) -> String {
    format!("2026-11-28T09:00:00.123456789Z {stream} {tag} {text}\n")
}

fn docker(text: &str) -> String {
    let text = serde_json::to_string(text).unwrap();
    format!("{{\"log\":{text},\"stream\":\"stdout\",\"time\":\"2026-11-28T09:00:00.5Z\"}}\n")
}

const ALL: &str = "include: [\"{dir}/logs/*.log\"]";
const PACKED: &str = "include: [\"{dir}/logs/*.log*\"]\ncompressed: read";

fn gzip(path: &Path) -> PathBuf {
    let done = Command::new("gzip").arg(path).status().unwrap();
    assert!(done.success());
    PathBuf::from(format!("{}.gz", path.display()))
}

/// Makes a file seem to have been written an hour ago: nobody writes it any more.
fn settle(path: &Path) {
    let file = OpenOptions::new().append(true).open(path).unwrap();
    let before = SystemTime::now() - Duration::from_secs(3600);
    file.set_times(FileTimes::new().set_modified(before))
        .unwrap();
}

/// Number of times that each event has come.
fn seen(inrush: &Inrush) -> BTreeMap<String, usize> {
    let mut seen = BTreeMap::new();
    for event in inrush.events_so_far("out.jsonl") {
        let text = event["message"].as_str().unwrap().to_owned();
        *seen.entry(text).or_insert(0) += 1;
    }
    seen
}

/// The events, each once: what was delivered just before a kill may be delivered again.
fn unique(inrush: &Inrush, events: usize) -> Vec<Value> {
    let is_there = || (seen(inrush).len() >= events).then_some(());
    eventually("all events", is_there);
    let mut known = BTreeSet::new();
    let mut found = inrush.events_so_far("out.jsonl");
    found.retain(|event| known.insert(event["message"].to_string()));
    found
}

/// Writes events in parts, while the process is killed and started anew.
fn each_event_once(options: &str, path: &str, event: fn(usize) -> (String, String), rotate: bool) {
    const PARTS: usize = 12;
    const EVENTS: usize = 100;
    let mut inrush = start(options);
    let mut wanted = BTreeSet::new();
    let mut bytes = Vec::new();
    for number in 0..PARTS * EVENTS {
        let (lines, text) = event(number);
        bytes.extend_from_slice(lines.as_bytes());
        wanted.insert(text);
    }
    // Parts of a plain file begin and end anywhere, also within a line.
    // A runtime begins a file with a line.
    let part_bytes = bytes.len().div_ceil(PARTS);
    let mut rest = &bytes[..];
    for part in 0..PARTS {
        let mut length = part_bytes.min(rest.len());
        while rotate && length < rest.len() && rest[length - 1] != b'\n' {
            length += 1;
        }
        let file = inrush.path(path);
        append(&file, &rest[..length]);
        rest = &rest[length..];
        let wanted = (part + 1) * EVENTS - 5;
        eventually("the events so far", || {
            (seen(&inrush).len() >= wanted).then_some(())
        });
        if rotate && part % 3 == 1 {
            fs::rename(
                &file,
                file.with_extension(format!("log.20261128-{part:02}")),
            )
            .unwrap();
        }
        if part % 4 == 2 {
            let (_, dir) = inrush.kill();
            inrush = start_in(dir, options);
        }
    }
    append(&inrush.path(path), event(PARTS * EVENTS).0);
    eventually("every event", || {
        (seen(&inrush).len() >= wanted.len()).then_some(())
    });
    inrush.wait_until("all is delivered", |ledger| {
        ledger.destinations["out"].pending == 0
    });
    let seen = seen(&inrush);
    // What was delivered just before a kill may be delivered again.
    let other: Vec<_> = seen.keys().filter(|text| !wanted.contains(*text)).collect();
    assert_eq!(
        (other.len(), seen.len()),
        (0, wanted.len()),
        "{:?}",
        other.first()
    );
}

#[test]
fn events_of_several_lines_come_once_and_whole_over_kills() {
    let event = |number| {
        let text = format!("E {number}\n at a\n\n at b {number}");
        (text.clone() + "\n", text)
    };
    let options = format!("{ALL}\nmultiline: {{ start: '^E', timeout: 1h }}");
    each_event_once(&options, "logs/a.log", event, false);
}

#[test]
fn events_of_several_lines_of_a_container_come_once_over_files_and_kills() {
    let event = |number| {
        let lines = cri("stdout", "F", &format!("E {number}"))
            + &cri("stdout", "P", " a")
            + &cri("stdout", "P", "b")
            + &cri("stdout", "F", &format!("c {number}"))
            + &cri("stdout", "F", " d");
        (lines, format!("E {number}\n abc {number}\n d"))
    };
    let options =
        "include: [\"{dir}/logs/pods/*/*/*.log\"]\nmultiline: { continue: '^ ', timeout: 1h }";
    each_event_once(options, "logs/pods/shop_web_1b/nginx/0.log", event, true);
}

#[test]
fn an_event_that_waits_for_its_next_line_is_sent_after_a_time() {
    let inrush = start(&format!(
        "{ALL}\nmultiline: {{ end: ';$', timeout: 200ms }}"
    ));
    append(&inrush.path("logs/a.log"), "one\ntwo;\nthree\nfour\n");
    let events = inrush.collected(2);
    assert_eq!(field(&events, "message"), ["one\ntwo;", "three\nfour"]);
    assert!(flags(&events[0]).is_empty(), "{events:?}");
    assert_eq!(flags(&events[1]), ["group_incomplete"]);
    let name = "inrush_file_partial_flushed_total{source=\"files\",reason=\"age\"}";
    assert_eq!(metric(&inrush, name), 1);
}

fn utf16(text: &str, little: bool) -> Vec<u8> {
    let unit = |unit: u16| match little {
        true => unit.to_le_bytes(),
        false => unit.to_be_bytes(),
    };
    text.encode_utf16().flat_map(unit).collect()
}

#[test]
fn utf_16_is_converted_over_rotations_and_kills() {
    let options = format!("{ALL}\nencoding: utf-16\nhost: h");
    let mut inrush = start(&options);
    let path = inrush.path("logs/a.log");
    append(&path, utf16("\u{feff}eins €\r\nzw", true));
    assert_eq!(texts(&inrush, 1), ["eins €"]);
    let (_, dir) = inrush.kill();
    inrush = start_in(dir, &options);
    let path = inrush.path("logs/a.log");
    append(&path, utf16("ei 🙂\n", true));
    assert_eq!(field(&unique(&inrush, 2), "message"), ["eins €", "zwei 🙂"]);
    fs::rename(&path, path.with_extension("log.1")).unwrap();
    // The next generation has its own mark.
    let mut broken = utf16("\u{feff}drei\n", false);
    broken.extend_from_slice(&[0xd8, 0x00, 0x00, b'x', 0x00, b'\n']);
    append(&path, broken);
    append(&inrush.path("logs/b.log"), "\u{feff}plain\n");
    let events = unique(&inrush, 5);
    let texts = field(&events, "message");
    assert_eq!(sorted(texts[2..].to_vec()), ["drei", "plain", "\u{fffd}x"]);
    for event in &events {
        let wanted: &[&str] = match event["message"].as_str().unwrap() {
            "plain" => &[],
            "\u{fffd}x" => &["not_utf8", "converted"],
            _ => &["converted"],
        };
        assert_eq!(flags(event), wanted, "{event}");
        let is_broken = wanted.contains(&"not_utf8");
        assert_eq!(
            event["raw_base64"].as_str(),
            is_broken.then_some("2AAAeA==")
        );
    }
    // One of them was taken by the process before.
    let source = &inrush.source()["anomalies"];
    assert_eq!(
        (&source["converted"], &source["not_utf8"]),
        (&3.into(), &1.into())
    );
}

#[test]
fn the_compressed_copy_of_a_file_that_was_read_is_not_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let old = dir.path().join("logs/a.log.7");
    append(&old, "old 1\nold 2\n");
    settle(&gzip(&old));
    let mut inrush = start_in(dir, PACKED);
    assert_eq!(texts(&inrush, 2), ["old 1", "old 2"]);
    let path = inrush.path("logs/a.log");
    append(&path, "1\n2\n");
    texts(&inrush, 4);
    let rotated = path.with_extension("log.1");
    fs::rename(&path, &rotated).unwrap();
    append(&path, "3\n");
    texts(&inrush, 5);
    gzip(&rotated);
    // Its original is closed: only the copy is left.
    let is_closed = || (metric(&inrush, "inrush_file_open_files") == 1).then_some(());
    eventually("the rotated file is closed", is_closed);
    append(&path, "4\n");
    texts(&inrush, 6);
    // Names change, and the process.
    let (_, dir) = inrush.stop();
    let logs = dir.path().join("logs");
    fs::rename(logs.join("a.log.1.gz"), logs.join("a.log.2.gz")).unwrap();
    inrush = start_in(dir, PACKED);
    append(&inrush.path("logs/a.log"), "5\n");
    append(&inrush.path("logs/b.log"), "6\n");
    let other = inrush.path("logs/c");
    append(&other, "7\n");
    let packed = gzip(&other);
    settle(&packed);
    fs::rename(&packed, inrush.path("logs/c.log.1.gz")).unwrap();
    // This process has taken the new lines, and no other.
    inrush.conserved(3);
    let texts: Vec<_> = seen(&inrush).into_iter().collect();
    let wanted = ["1", "2", "3", "4", "5", "6", "7", "old 1", "old 2"];
    assert_eq!(texts, wanted.map(|text| (text.to_owned(), 1)));
}

#[test]
fn a_compressed_file_goes_on_after_a_kill() {
    const LINES: usize = 300_000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("logs/a.log.1");
    let lines: String = (0..LINES)
        .map(|number| format!("line number {number}\n"))
        .collect();
    append(&path, lines);
    settle(&gzip(&path));
    let mut inrush = start_in(dir, PACKED);
    for kill in 0..3 {
        let some = || (seen(&inrush).len() > kill * 10_000).then_some(());
        eventually("some lines", some);
        let (_, dir) = inrush.kill();
        inrush = start_in(dir, PACKED);
    }
    eventually("every line", || {
        (seen(&inrush).len() == LINES).then_some(())
    });
    inrush.wait_until("all is delivered", |ledger| {
        ledger.destinations["out"].pending == 0
    });
    assert!(seen(&inrush).values().all(|times| *times == 1));
}

#[test]
fn what_was_compressed_before_it_was_read_is_read_from_its_copy() {
    let mut inrush = start(PACKED);
    let path = inrush.path("logs/a.log");
    append(&path, "1\n2\n");
    texts(&inrush, 2);
    let (_, dir) = inrush.kill();
    let path = dir.path().join("logs/a.log");
    append(&path, "3\n");
    let rotated = path.with_extension("log.1");
    fs::rename(&path, &rotated).unwrap();
    settle(&gzip(&rotated));
    append(&path, "4\n");
    inrush = start_in(dir, PACKED);
    // The first two are known.
    inrush.conserved(2);
    assert_eq!(
        sorted(field(&unique(&inrush, 4), "message")),
        ["1", "2", "3", "4"]
    );
    let name = "inrush_file_rotated_away_unread_bytes_total";
    assert_eq!(metric(&inrush, name), 0);
}

#[test]
fn what_is_wrong_with_a_compressed_file_is_counted_and_others_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let logs = dir.path().join("logs");
    let pack = |name: &str| {
        append(&logs.join(name), format!("first {name}\nsecond {name}\n"));
        gzip(&logs.join(name))
    };
    let garbage = pack("garbage.log");
    append(&garbage, "what is this?");
    let cut = pack("cut.log");
    let file = OpenOptions::new().write(true).open(&cut).unwrap();
    file.set_len(file.metadata().unwrap().len() - 6).unwrap();
    append(&logs.join("no.log.gz"), "no archive at all");
    let good = pack("good.log");
    for path in [&garbage, &cut, &logs.join("no.log.gz"), &good] {
        settle(path);
    }
    let inrush = start_in(dir, PACKED);
    let texts = texts(&inrush, 6);
    assert!(texts.contains(&"second good.log".to_owned()), "{texts:?}");
    for reason in ["cut", "garbage", "damaged"] {
        let name =
            format!("inrush_file_compressed_faults_total{{source=\"files\",reason=\"{reason}\"}}");
        eventually(&name, || (metric(&inrush, &name) == 1).then_some(()));
    }
}

#[test]
fn compressed_files_are_skipped_unless_they_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let old = dir.path().join("logs/a.log.1");
    append(&old, "old\n");
    settle(&gzip(&old));
    let inrush = start_in(dir, "include: [\"{dir}/logs/*.log*\"]");
    append(&inrush.path("logs/a.log"), "new\n");
    assert_eq!(texts(&inrush, 1), ["new"]);
}

#[test]
fn holes_are_not_read_and_a_file_may_have_its_full_length_before_its_text() {
    let dir = tempfile::tempdir().unwrap();
    let logs = dir.path().join("logs");
    let hole = append(&logs.join("hole.log"), "one\n");
    hole.set_len(1 << 40).unwrap();
    append(&logs.join("hole.log"), "two\nthree\n");
    // A line of Docker's with 1 GiB of zeros in it.
    let mut line = append(&logs.join("line-json.log"), "{\"log\":\"");
    line.set_len(1 << 30).unwrap();
    line.seek(SeekFrom::End(0)).unwrap();
    line.write_all(b"\"}\n").unwrap();
    line.write_all(docker("good\n").as_bytes()).unwrap();
    let full = append(&logs.join("full.log"), "");
    full.set_len(1 << 24).unwrap();
    let inrush = start_in(dir, &format!("{ALL}\nmax_line_bytes: 64KiB\nformat: auto"));
    let full = OpenOptions::new()
        .write(true)
        .open(inrush.path("logs/full.log"))
        .unwrap();
    let mut texts = texts(&inrush, 5);
    for (at, text) in ["a\n", "b\n"].iter().enumerate() {
        full.write_all_at(text.as_bytes(), at as u64 * 2).unwrap();
        texts = self::texts(&inrush, 6 + at as u64);
    }
    let texts: Vec<_> = texts.into_iter().filter(|text| text.len() < 100).collect();
    assert_eq!(sorted(texts), ["a", "b", "good", "one", "three", "two"]);
    assert_eq!(metric(&inrush, "inrush_file_line_cut_total"), 1);
    assert!(metric(&inrush, "inrush_file_read_bytes_total") < 64 << 20);
}

/// Lines of a file that are none, how many events they are, and what is odd about each.
fn damaged() -> Vec<(&'static str, String, Vec<&'static [&'static str]>)> {
    const BAD_FRAME: &[&str] = &["bad_frame"];
    const BAD_TIME: &[&str] = &["bad_time"];
    let long = "x".repeat(3 << 20);
    let pieces: String = (0..100)
        .map(|_| cri("stdout", "P", &"y".repeat(4000)))
        .collect();
    vec![
        (
            "tag",
            "2026-11-28T09:00:00Z stdout X text\n".into(),
            vec![BAD_FRAME],
        ),
        (
            "year",
            "0000-01-01T00:00:00Z stdout F text\n".into(),
            vec![BAD_TIME],
        ),
        ("long", cri("stdout", "F", &long), vec![&["oversize"]]),
        (
            "pieces",
            pieces + &cri("stdout", "F", "z"),
            vec![&["oversize"]],
        ),
        ("no-line", long + "\n", vec![&["oversize", "bad_frame"]]),
    ]
}

#[test]
fn a_damaged_line_costs_itself_and_the_next_one_is_an_event() {
    let inrush = start("include: [\"{dir}/logs/**/*.log\"]\nmax_line_bytes: 64KiB");
    let mut wanted = Vec::new();
    for (name, lines, flags) in damaged() {
        let path = inrush.path(&format!("logs/pods/a_b_{name}/c/0.log"));
        let good = |text: &str| cri("stdout", "F", &format!("{text} {name}"));
        append(&path, good("before") + &lines + &good("behind"));
        wanted.push((name, flags));
    }
    let path = inrush.path("logs/docker.log");
    let cut = docker("cut in the middle\n");
    append(
        &path,
        docker("before docker\n") + &cut[..30] + "\n" + &docker("behind docker\n"),
    );
    wanted.push(("docker", vec![&["bad_frame"]]));
    let count: usize = wanted.iter().map(|(_, flags)| flags.len() + 2).sum();
    let events = inrush.collected(count as u64);
    for (name, wanted) in wanted {
        let of_file = |event: &&Value| {
            let origin = event["origin"].as_str().unwrap();
            origin.contains(&format!("_{name}/")) || origin.ends_with(&format!("/{name}.log"))
        };
        let found: Vec<&Value> = events.iter().filter(of_file).collect();
        let text = |at: usize| found[at]["message"].as_str().unwrap();
        assert_eq!(text(0), format!("before {name}"));
        assert_eq!(text(found.len() - 1), format!("behind {name}"));
        let odd: Vec<_> = found[1..found.len() - 1]
            .iter()
            .map(|event| flags(event))
            .collect();
        assert_eq!(odd, wanted, "{name}");
    }
    assert_eq!(metric(&inrush, "inrush_file_malformed_lines_total"), 3);
    assert_eq!(metric(&inrush, "inrush_file_line_cut_total"), 3);
}

#[test]
fn the_examples_of_the_guide_do_what_it_says() {
    let blocks = |kind: &str| -> Vec<&'static str> {
        let begin = format!("```{kind}\n");
        let blocks = GUIDE.split(begin.as_str()).skip(1);
        blocks
            .map(|block| block.split("```").next().unwrap())
            .collect()
    };
    let examples = blocks("yaml");
    for example in &examples {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("inrush.yaml");
        fs::write(&file, example).unwrap();
        let checked = Command::new(binary())
            .arg("check")
            .arg("-c")
            .arg(&file)
            .output()
            .unwrap();
        assert!(checked.status.success(), "{example}\n{checked:?}");
    }
    let multiline = examples
        .iter()
        .find(|one| one.contains("multiline"))
        .unwrap();
    let options = multiline.split("type: file\n").nth(1).unwrap();
    let options = options.split("destinations").next().unwrap();
    let options = options.replace("    ", "").replace("/srv/", "{dir}/logs/");
    let lines = blocks("text")[0];
    let inrush = start(options.trim_end());
    append(&inrush.path("logs/shop/log/a.log"), lines);
    let texts = texts(&inrush, 2);
    assert_eq!(
        texts
            .iter()
            .map(|text| text.lines().count())
            .collect::<Vec<_>>(),
        [3, 1]
    );
    assert_eq!(texts.join("\n"), lines.trim_end());
}
