//! A source on real files, with a queue in memory, and the texts that come out of it.

mod damage;
mod listing;
mod memory;
mod nameless;
mod races;
mod simulation;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use inrush_event::{ByteSize, SourceInfo};
use inrush_queue::QueueOptions;
use proptest::prelude::*;

use super::counts::FileCounts;
use super::file_places::FilePlaces;
use super::options::FileSource;
use super::running::{LogTailer, TailServices};
use crate::harness_tests::{PATIENCE, QueueHarness, texts_of, wait_for};

/// A source in a folder of its own.
struct TestSource {
    harness: QueueHarness,
    services: TailServices,
    options: FileSource,
    running: Option<LogTailer>,
    texts: Vec<String>,
}

impl TestSource {
    fn start(options: &str) -> Self {
        let mut source = Self::prepared(options, None);
        source.run();
        source
    }

    /// A source that does not run yet, with a queue of so many bytes.
    fn prepared(options: &str, queue_bytes: Option<u64>) -> Self {
        let harness = QueueHarness::new(QueueOptions {
            memory_bytes: queue_bytes.map(ByteSize),
            ..QueueOptions::default()
        });
        let options = options.replace("{dir}", harness.folder.path().to_str().unwrap());
        Self {
            options: serde_json::from_str(&options).unwrap(),
            services: TailServices {
                context: harness.context.clone(),
                places: FilePlaces::new(),
                clusters: Arc::default(),
                carry_bytes: 16 << 20,
            },
            harness,
            running: None,
            texts: Vec::new(),
        }
    }

    fn run(&mut self) {
        let services = self.services.clone();
        let started = LogTailer::start(info(), &self.options, services, &self.harness.known);
        self.running = Some(started.unwrap());
    }

    /// Ends the source, as a stop of the process does.
    fn stop(&mut self) {
        let running = self.running.take().unwrap();
        running.stop();
        wait_for(|| running.ended());
        // In memory a position holds once its events are delivered.
        while self.take(Duration::ZERO) {}
    }

    /// Takes a batch that comes within the wait.
    fn take(&mut self, wait: Duration) -> bool {
        let taken = self.harness.take(wait);
        if let Some(delivery) = &taken {
            self.texts.extend(texts_of(delivery));
        }
        taken.is_some()
    }

    fn counts(&self) -> &FileCounts {
        &self.running.as_ref().unwrap().counts
    }

    /// Waits for something that the source does by itself.
    fn wait(&self, for_what: &str, is_so: impl Fn(&FileCounts) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_so(self.counts()) {
            assert!(Instant::now() < end, "{for_what}: {:#?}", self.counts());
            std::thread::yield_now();
        }
    }

    /// Renames a file.
    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        let path = self.harness.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    /// Waits until the file system's clock, by which generations are ordered, has gone on.
    fn tick(&self) {
        let born = || {
            let probe = self.path("probe");
            File::create(&probe).unwrap();
            let born = fs::metadata(&probe).unwrap().created().unwrap();
            fs::remove_file(&probe).unwrap();
            born
        };
        let before = born();
        while born() == before {}
    }

    fn append(&self, name: &str, text: &str) -> File {
        let path = self.path(name);
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    /// The texts so far, once there are as many.
    fn texts(&mut self, count: usize) -> &[String] {
        self.harness.fill(&mut self.texts, count);
        &self.texts
    }
}

impl Drop for TestSource {
    fn drop(&mut self) {
        if let Some(running) = &self.running {
            running.stop();
        }
    }
}

/// Source of the tests.
pub(super) fn info() -> SourceInfo {
    SourceInfo {
        name: "files".to_owned(),
        index: "main".to_owned(),
        sourcetype: "file".to_owned(),
    }
}

const LINES: &str = r#"{"include": ["{dir}/*.log"], "host": "h"}"#;
const PODS: &str = r#"{"include": ["{dir}/pods/*/*/*.log"], "host": "h"}"#;

fn cri(stream: &str, tag: &str, text: &str) -> String {
    format!("2026-11-28T09:00:00.123456789Z {stream} {tag} {text}\n")
}

#[test]
fn lines_come_from_files_that_are_there_new_and_appended_to() {
    let mut source = TestSource::start(LINES);
    source.append("a.log", "one\ntwo\n");
    assert_eq!(source.texts(2), ["one", "two"]);
    source.append("a.log", "three\nfo");
    assert_eq!(source.texts(3), ["one", "two", "three"]);
    source.append("a.log", "ur\n");
    source.append("b.txt", "no\n");
    assert_eq!(source.texts(4), ["one", "two", "three", "four"]);
}

#[test]
fn a_renamed_file_is_read_to_its_end_and_the_new_one_from_its_beginning() {
    let mut source = TestSource::start(LINES);
    let mut old = source.append("a.log", "1\n");
    source.texts(1);
    fs::rename(source.path("a.log"), source.path("a.log.1")).unwrap();
    old.write_all(b"2\n").unwrap();
    source.append("a.log", "3\n");
    old.write_all(b"4\n").unwrap();
    let mut texts = source.texts(4).to_vec();
    texts.sort();
    assert_eq!(texts, ["1", "2", "3", "4"]);
}

#[test]
fn an_event_may_begin_in_one_file_and_end_in_the_next() {
    let mut source = TestSource::start(PODS);
    let log = "pods/shop_web_1b/nginx/0.log";
    let text = cri("stdout", "P", "ab") + &cri("stderr", "F", "x") + &cri("stdout", "P", "cd");
    source.append(log, &text);
    assert_eq!(source.texts(1), ["x"]);
    fs::rename(
        source.path(log),
        source.path("pods/shop_web_1b/nginx/0.log.20261128-0"),
    )
    .unwrap();
    source.append(
        log,
        &(cri("stdout", "F", "ef") + &cri("stdout", "F", "next")),
    );
    assert_eq!(source.texts(3), ["x", "abcdef", "next"]);
}

#[test]
fn a_lone_piece_whose_line_never_ends_is_an_event_once_its_log_is_gone() {
    let mut source = TestSource::start(PODS);
    let log = "pods/shop_web_1b/nginx/0.log";
    source.append(
        log,
        &(cri("stdout", "P", "lone") + &cri("stderr", "F", "x")),
    );
    assert_eq!(source.texts(1), ["x"]);
    fs::remove_file(source.path(log)).unwrap();
    assert_eq!(source.texts(2), ["x", "lone"]);
}

#[test]
fn a_new_process_goes_on_where_the_last_one_ended() {
    let mut source = TestSource::start(PODS);
    let log = "pods/shop_web_1b/nginx/0.log";
    let text = cri("stdout", "P", "ab") + &cri("stderr", "F", "x");
    source.append(log, &text);
    assert_eq!(source.texts(1), ["x"]);
    source.stop();
    source.append(log, &cri("stderr", "F", "y"));
    fs::rename(
        source.path(log),
        source.path("pods/shop_web_1b/nginx/0.log.20261128-0"),
    )
    .unwrap();
    source.append(
        log,
        &(cri("stdout", "F", "cd") + &cri("stdout", "F", "next")),
    );
    source.run();
    assert_eq!(source.texts(4), ["x", "y", "abcd", "next"]);
    assert_eq!(source.harness.log.positions("files").len(), 2);
}

#[test]
fn generations_that_nobody_saw_are_read_in_their_order() {
    let mut source = TestSource::start(PODS);
    let log = "pods/shop_web_1b/nginx/0.log";
    source.append(log, &cri("stdout", "F", "0"));
    assert_eq!(source.texts(1), ["0"]);
    source.stop();
    for number in 1..4 {
        source.tick();
        let older = format!("pods/shop_web_1b/nginx/0.log.20261128-{number}");
        fs::rename(source.path(log), source.path(&older)).unwrap();
        source.append(log, &cri("stdout", "F", &number.to_string()));
    }
    source.run();
    assert_eq!(source.texts(4), ["0", "1", "2", "3"]);
}

#[test]
fn a_copy_is_not_read_again_and_what_is_truncated_is() {
    let mut source = TestSource::start(r#"{"include": ["{dir}/*.log*"], "host": "h"}"#);
    source.append("a.log", "1\n2\n");
    assert_eq!(source.texts(2), ["1", "2"]);
    source.tick();
    fs::copy(source.path("a.log"), source.path("a.log.1")).unwrap();
    let file = File::options()
        .write(true)
        .open(source.path("a.log"))
        .unwrap();
    file.set_len(0).unwrap();
    source.append("b.log", "3\n");
    assert_eq!(source.texts(3), ["1", "2", "3"]);
    source.append("a.log", "4\n");
    assert_eq!(source.texts(4), ["1", "2", "3", "4"]);
}

/// Copies a log and cuts it, as logrotate does; `between` is written behind the copy.
fn copy_and_cut(source: &TestSource, copy: &str, between: &str) {
    source.tick();
    fs::copy(source.path("a.log"), source.path(copy)).unwrap();
    source.append("a.log", between);
    let file = File::options().write(true).open(source.path("a.log"));
    file.unwrap().set_len(0).unwrap();
}

#[test]
fn what_was_unread_before_a_cut_is_read_in_the_copy() {
    let mut source = TestSource::start(r#"{"include": ["{dir}/*.log*"], "host": "h"}"#);
    source.append("a.log", "1\n2\n3");
    assert_eq!(source.texts(2), ["1", "2"]);
    source.stop();
    source.append("a.log", "\n4\n");
    copy_and_cut(&source, "a.log.1", "");
    source.append("a.log", "5\n6\n7\n8\n9\n");
    source.run();
    assert_eq!(source.texts(9)[2..4], ["3", "4"]);
    source.append("a.log", "10\n");
    source.texts(10);
    source.stop();
    source.run();
    source.append("a.log", "11\n");
    let mut texts = source.texts(11).to_vec();
    texts.sort_by_key(|text| text.parse::<u32>().unwrap());
    assert_eq!(texts, (1..=11).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[test]
fn lines_behind_a_copy_are_taken_and_the_copy_is_not_read_after_a_restart() {
    let mut source = TestSource::start(r#"{"include": ["{dir}/*.log*"], "host": "h"}"#);
    source.append("a.log", "1\n2\n");
    source.texts(2);
    copy_and_cut(&source, "a.log.1", "3\n");
    source.append("a.log", "4\n");
    while !source.texts.contains(&"4".to_owned()) {
        source.take(Duration::from_millis(100));
    }
    source.stop();
    fs::rename(source.path("a.log.1"), source.path("a.log.2")).unwrap();
    source.run();
    source.append("a.log", "5\n");
    while !source.texts.contains(&"5".to_owned()) {
        source.take(Duration::from_millis(100));
    }
    // Whether `3` was read before the cut is a matter of luck.
    source.texts.retain(|text| text != "3");
    assert_eq!(source.texts, ["1", "2", "4", "5"]);
}

#[test]
fn a_file_that_is_cut_and_longer_again_is_read_anew() {
    let mut source = TestSource::start(LINES);
    source.append("a.log", "one\n");
    source.texts(1);
    fs::write(source.path("a.log"), "longer than before\nby far\n").unwrap();
    assert_eq!(source.texts(3), ["one", "longer than before", "by far"]);
}

#[test]
fn what_is_compressed_is_not_read() {
    let mut source = TestSource::start(r#"{"include": ["{dir}/*"], "host": "h"}"#);
    source.append("a.log.1.gz", "no\n");
    source.append("a.log.zst", "no\n");
    source.append("a.log", "1\n");
    assert_eq!(source.texts(1), ["1"]);
}

#[test]
fn a_renamed_file_and_the_new_one_each_go_on_after_a_restart() {
    let mut source = TestSource::start(LINES);
    source.append("a.log", "1\n");
    source.texts(1);
    fs::rename(source.path("a.log"), source.path("a.log.1")).unwrap();
    source.append("a.log", "2\n");
    source.texts(2);
    source.stop();
    source.run();
    source.append("a.log", "3\n");
    source.append("a.log.1", "4\n");
    let mut texts = source.texts(4).to_vec();
    texts.sort();
    assert_eq!(texts, ["1", "2", "3", "4"]);
}

/// A step in the life of a container's log.
#[derive(Clone, Debug)]
enum LogOp {
    /// A piece of a stream, and whether it is the last one of its line.
    Piece(bool, bool),
    /// The runtime rotates.
    Rotate,
    /// The process ends, and a new one begins.
    Restart,
    /// All that came is waited for.
    Wait,
}

fn op() -> impl Strategy<Value = LogOp> {
    prop_oneof![
        12 => (any::<bool>(), prop::bool::weighted(0.6))
            .prop_map(|(err, last)| LogOp::Piece(err, last)),
        2 => Just(LogOp::Rotate),
        1 => Just(LogOp::Restart),
        1 => Just(LogOp::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// However pieces, rotations and restarts follow each other: each line of each stream comes
    /// once, whole, and in its order.
    #[test]
    fn each_line_of_a_container_comes_once(ops in prop::collection::vec(op(), 1..80)) {
        let mut source = TestSource::start(PODS);
        let log = "pods/shop_web_1b/nginx/0.log";
        let mut open = [String::new(), String::new()];
        let mut expected = [Vec::new(), Vec::new()];
        let mut rotated = 0;
        // The time of the first start is durable with the first event.
        source.append(log, &cri("stderr", "F", "e;begin"));
        source.texts(1);
        expected[1].push("e;begin".to_owned());
        for (number, op) in ops.iter().enumerate() {
            match op {
                LogOp::Piece(is_err, is_last) => {
                    let at = usize::from(*is_err);
                    let text = format!("{}{number};", ["o", "e"][at]);
                    open[at].push_str(&text);
                    let tag = if *is_last { "F" } else { "P" };
                    source.append(log, &cri(["stdout", "stderr"][at], tag, &text));
                    if *is_last {
                        expected[at].push(std::mem::take(&mut open[at]));
                    }
                }
                LogOp::Rotate => {
                    source.tick();
                    rotated += 1;
                    let older = format!("{log}.20261128-{rotated:03}");
                    if source.path(log).exists() {
                        fs::rename(source.path(log), source.path(&older)).unwrap();
                    }
                }
                LogOp::Restart => {
                    source.stop();
                    source.run();
                }
                LogOp::Wait => {
                    // What was rotated before it was seen is found with the next file of its name.
                    let text = format!("e{number};");
                    source.append(log, &cri("stderr", "F", &text));
                    expected[1].push(std::mem::take(&mut open[1]) + &text);
                    source.texts(expected[0].len() + expected[1].len());
                }
            }
        }
        source.append(log, &cri("stderr", "F", "e;end"));
        open[1].push_str("e;end");
        expected[1].push(std::mem::take(&mut open[1]));
        let texts = source.texts(expected[0].len() + expected[1].len()).to_vec();
        source.stop();
        let of = |stream: &str| -> Vec<String> {
            texts.iter().filter(|text| text.starts_with(stream)).cloned().collect()
        };
        prop_assert_eq!(of("o"), expected[0].clone());
        prop_assert_eq!(of("e"), expected[1].clone());
    }
}
