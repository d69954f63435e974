//! A journal source beside a stand-in for `journalctl`, whose starts are scripts.
#![allow(clippy::unwrap_used)]

mod real;

use std::fmt::Write;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use inrush_event::{ByteSize, Metric, MetricSample, MetricsPage, Origin, SourceSnapshot};
use inrush_queue::QueueOptions;

use super::options::JournaldSource;
use super::place::JournalPlace;
use crate::harness_tests::{HarnessedSource, SourceHarness, wait_for};
use crate::options::SourceOptions;

/// An hour in which nothing else happens.
const HANG: &str = "exec sleep 1000\n";

struct Bench(SourceHarness);

impl Bench {
    fn new(scripts: &[&str]) -> Self {
        Self::with(scripts, QueueOptions::default())
    }

    fn with(scripts: &[&str], queue: QueueOptions) -> Self {
        let bench = Self(SourceHarness::new(queue));
        for (at, script) in scripts.iter().enumerate() {
            std::fs::write(bench.path(&format!("run.{}", at + 1)), script).unwrap();
        }
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.folder.path().join(name)
    }

    fn options(&self, more: serde_json::Value) -> JournaldSource {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/journalctl.sh");
        let mut options = serde_json::json!({
            "directory": self.0.folder.path(),
            "journalctl": program,
            "start_at": "beginning",
        });
        let more = more.as_object().unwrap().clone();
        options.as_object_mut().unwrap().extend(more);
        let options: JournaldSource = serde_json::from_value(options).unwrap();
        assert_eq!(options.validate(), Ok(()));
        options
    }

    fn start(&self, more: serde_json::Value) -> Running {
        let options = self.options(more);
        let started = options.start("journal", &self.0.services, &self.0.known);
        let started = started.unwrap();
        assert_eq!(started.problems, Vec::<String>::new());
        Running(HarnessedSource(started.source))
    }

    /// So many events, each as text, as soon as they are there.
    fn events(&self, count: usize) -> Vec<String> {
        let mut events = Vec::new();
        self.0.fill(&mut events, count);
        events
    }

    /// Arguments of a start, once it came.
    fn arguments(&self, start: usize) -> Vec<String> {
        let starts = || {
            let text = std::fs::read_to_string(self.path("starts")).unwrap_or_default();
            text.trim().parse().unwrap_or(0)
        };
        wait_for(|| starts() >= start);
        let text = std::fs::read_to_string(self.path(&format!("arguments.{start}"))).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn row(&self) -> SourceSnapshot {
        self.0.row("journal")
    }

    fn lost(&self, reason: &str) -> u64 {
        self.row().lost_upstream.get(reason).copied().unwrap_or(0)
    }
}

/// A source that is stopped with the test.
struct Running(HarnessedSource);

impl Running {
    fn stop(&self) {
        self.0.stop();
    }

    /// A metric of it, for one reason if it has reasons.
    fn metric(&self, metric: Metric, reason: &str) -> f64 {
        let mut page = MetricsPage::default();
        self.0.0.metrics(&mut page);
        let wanted = |sample: &&MetricSample| {
            let of = sample.labels.iter().find(|(name, _)| *name == "reason");
            sample.metric == metric && of.is_none_or(|(_, text)| text == reason)
        };
        page.into_samples().iter().find(wanted).unwrap().value
    }

    fn restarts(&self, reason: &str) -> f64 {
        self.metric(Metric::JournalRestarts, reason)
    }

    fn gaps(&self) -> f64 {
        self.metric(Metric::JournalGaps, "")
    }
}

/// Cursor of the entry of that number.
fn cursor(number: u64) -> String {
    let time = 1_000_000 * number;
    format!("s=a;i={number:x};b=b;m={time:x};t={time:x};x={number:x}")
}

/// A shell command that writes entries of these numbers.
fn show(numbers: impl IntoIterator<Item = u64>) -> String {
    let mut script = String::from("cat <<'END'\n");
    for number in numbers {
        let (cursor, time) = (cursor(number), 1_000_000 * number);
        let _ = writeln!(
            script,
            "__CURSOR={cursor}\n__REALTIME_TIMESTAMP={time}\nMESSAGE=entry {number}\n"
        );
    }
    script.push_str("END\n");
    script
}

fn entries(numbers: impl IntoIterator<Item = u64>) -> Vec<String> {
    numbers.into_iter().map(|n| format!("entry {n}")).collect()
}

#[test]
fn an_entry_becomes_an_event_with_names() {
    let script = "printf '__CURSOR=s=a;i=1\\n__REALTIME_TIMESTAMP=5\\nPRIORITY=3\\n\
        _HOSTNAME=web-3\\n_SYSTEMD_UNIT=nginx.service\\nMESSAGE\\n\
        \\3\\0\\0\\0\\0\\0\\0\\0a\\nb\\n\\n'\n";
    let bench = Bench::new(&[&format!("{script}{HANG}")]);
    let running = bench.start(serde_json::json!({ "index": "os", "source": "nodes" }));
    let delivery = bench.0.take(Duration::from_secs(20)).expect("an event");
    let (batch, record) = (&delivery.batch, &delivery.batch.records()[0]);
    let names = batch.names(record);
    let found = [names.index, names.sourcetype, names.source];
    assert_eq!(found, [&b"os"[..], b"journald", b"nodes"]);
    assert_eq!(batch.get(record.message), b"a\nb");
    assert_eq!(batch.get(record.host), b"web-3");
    let fields = br#"{"PRIORITY":"3","_SYSTEMD_UNIT":"nginx.service"}"#;
    assert_eq!(batch.get(record.sdata), fields);
    let unit = Origin::Unit("nginx.service".into());
    assert_eq!(batch.origin(record), Some(&unit));
    assert_eq!(running.metric(Metric::JournalRunning, ""), 1.0);
}

#[test]
fn a_child_that_is_killed_costs_no_entry_and_doubles_none() {
    let cut = "printf '__CURSOR=s=a;i=3\\nMESSAGE=half of ent'\nkill -9 $$\n";
    let bench = Bench::new(&[
        &format!("{}{cut}", show(1..=2)),
        &format!("{}{HANG}", show(2..=4)),
    ]);
    let running = bench.start(serde_json::json!({}));
    assert_eq!(bench.events(4), entries(1..=4));
    let first = bench.arguments(1);
    assert!(
        !first
            .iter()
            .any(|one| one.starts_with("--since") || one.starts_with("--cursor"))
    );
    let second = bench.arguments(2);
    assert!(
        second.contains(&format!("--cursor={}", cursor(2))),
        "{second:?}"
    );
    assert_eq!((running.restarts("killed"), running.gaps()), (1.0, 0.0));
    assert_eq!(bench.row().received, 4);
}

#[test]
fn what_is_no_journal_ends_the_child_and_nothing_of_it_becomes_an_event() {
    let bench = Bench::new(&[
        &format!("{}echo 'Segmentation fault'\n{HANG}", show(1..=1)),
        &format!("{}{HANG}", show(1..=2)),
    ]);
    let running = bench.start(serde_json::json!({}));
    assert_eq!(bench.events(2), entries(1..=2));
    assert_eq!((running.restarts("garbage"), running.gaps()), (1.0, 0.0));
}

#[test]
fn entries_behind_a_cursor_that_is_gone_are_counted() {
    let bench = Bench::new(&[
        &format!("{}exit 0\n", show(1..=1)),
        "echo 'Failed to seek to cursor: Invalid argument' >&2\nexit 1\n",
        &format!("{}{HANG}", show(5..=6)),
    ]);
    let running = bench.start(serde_json::json!({}));
    assert_eq!(bench.events(3), entries([1, 5, 6]));
    let third = bench.arguments(3);
    assert!(third.contains(&"--since=@1.000000".to_owned()), "{third:?}");
    assert_eq!(
        (running.restarts("cursor_gone"), running.gaps()),
        (1.0, 1.0)
    );
    assert_eq!(bench.lost("deleted"), 3);
}

#[test]
fn a_damage_at_which_every_child_dies_is_passed() {
    let crash = |from| format!("{}kill -SEGV $$\n", show(from));
    let bench = Bench::new(&[
        &crash(1..=1),
        &crash(1..=1),
        &crash(1..=1),
        &format!("{}{HANG}", show(4..=5)),
    ]);
    let running = bench.start(serde_json::json!({}));
    assert_eq!(bench.events(3), entries([1, 4, 5]));
    let fourth = bench.arguments(4);
    assert!(
        fourth.contains(&"--since=@2.000000".to_owned()),
        "{fourth:?}"
    );
    assert_eq!((running.restarts("killed"), running.gaps()), (3.0, 1.0));
    assert_eq!(bench.lost("deleted"), 2);
}

#[test]
fn while_the_queue_has_no_room_the_child_waits() {
    const COUNT: u64 = 40_000;
    let queue = QueueOptions {
        memory_bytes: Some(ByteSize(inrush_event::limits::QUEUE_BYTES_MIN)),
        ..QueueOptions::default()
    };
    let bench = Bench::with(&["cat entries\n: >done\nexec sleep 1000\n"], queue);
    let mut bytes = String::new();
    for number in 1..=COUNT {
        let (cursor, filler) = (cursor(number), "x".repeat(300));
        let _ = writeln!(bytes, "__CURSOR={cursor}\nMESSAGE={number} {filler}\n");
    }
    std::fs::write(bench.path("entries"), bytes).unwrap();
    let _running = bench.start(serde_json::json!({}));
    let done = bench.path("done");
    wait_for(|| bench.0.log.blocked_since().is_some() || done.exists());
    assert!(!done.exists(), "all was read");
    let events = bench.events(COUNT as usize);
    for (event, number) in events.iter().zip(1..) {
        let (found, _) = event.split_once(' ').unwrap();
        assert_eq!(found.parse(), Ok(number));
    }
    let row = bench.row();
    assert_eq!((row.accepted, row.rejected.len()), (COUNT, 0));
}

#[test]
fn a_source_goes_on_where_the_log_says_and_its_child_is_gone_with_it() {
    let bench = Bench::new(&[
        &format!("echo $$ >pid\n{}{HANG}", show(1..=3)),
        &format!("{}{HANG}", show(3..=4)),
    ]);
    let running = bench.start(serde_json::json!({}));
    assert_eq!(bench.events(3), entries(1..=3));
    running.stop();
    let pid = std::fs::read_to_string(bench.path("pid")).unwrap();
    assert!(!PathBuf::from(format!("/proc/{}", pid.trim())).exists());
    let again = bench.start(serde_json::json!({}));
    assert_eq!(bench.events(1), entries([4]));
    let second = bench.arguments(2);
    assert!(
        second.contains(&format!("--cursor={}", cursor(3))),
        "{second:?}"
    );
    assert_eq!(again.gaps(), 0.0);
}

#[test]
fn a_reload_has_another_child_go_on_and_no_gap() {
    let bench = Bench::new(&[
        &format!("{}{HANG}", show(1..=2)),
        &format!("{}{HANG}", show([9, 12])),
    ]);
    let running = bench.start(serde_json::json!({}));
    assert_eq!(bench.events(2), entries(1..=2));
    let more = serde_json::json!({
        "units": ["a.service", "b*"],
        "priority": "warning",
        "matches": ["_TRANSPORT=kernel", "+", "X=1"],
    });
    running
        .0
        .0
        .prepare(&bench.options(more), &bench.0.known)
        .unwrap();
    assert_eq!(running.0.0.commit(), Vec::<String>::new());
    assert_eq!(bench.events(2), entries([9, 12]));
    let second = bench.arguments(2);
    let expected = [
        &format!("--cursor={}", cursor(2)),
        &format!("--directory={}", bench.0.folder.path().display()),
        "--unit=a.service",
        "--unit=b*",
        "--priority=warning",
        "--",
        "_TRANSPORT=kernel",
        "+",
        "X=1",
    ];
    assert_eq!(second[second.len() - expected.len()..], expected);
    assert_eq!((running.restarts("options"), running.gaps()), (1.0, 0.0));
    assert_eq!(bench.lost("deleted"), 0);
}

#[test]
fn what_journald_suppressed_is_lost_upstream_and_an_entry_without_a_text_is_none() {
    let script = "cat <<'END'\n\
        __CURSOR=s=a;i=1\n\
        MESSAGE=Suppressed 42 messages from noisy.service\n\
        MESSAGE_ID=a596d6fe7bfa4994828e72309e95d61e\n\
        _TRANSPORT=driver\n\
        N_DROPPED=42\n\
        \n\
        __CURSOR=s=a;i=2\n\
        PRIORITY=3\n\
        \n\
        __CURSOR=s=a;i=3\n\
        MESSAGE=next\n\
        \n\
        END\n";
    let bench = Bench::new(&[&format!("{script}{HANG}")]);
    let _running = bench.start(serde_json::json!({}));
    let texts = bench.events(2);
    assert_eq!(texts, ["Suppressed 42 messages from noisy.service", "next"]);
    assert_eq!(bench.lost("suppressed"), 42);
    let row = bench.row();
    assert_eq!((row.received, row.accepted), (3, 2));
    assert_eq!(row.rejected.get("empty"), Some(&1));
}

#[test]
fn a_program_that_is_missing_is_told_and_the_source_waits_for_it() {
    let bench = Bench::new(&[]);
    let options = JournaldSource {
        journalctl: PathBuf::from("/no/such/journalctl"),
        ..bench.options(serde_json::json!({}))
    };
    let started = options
        .start("journal", &bench.0.services, &bench.0.known)
        .unwrap();
    assert_eq!(started.problems.len(), 1, "{:?}", started.problems);
    let running = Running(HarnessedSource(started.source));
    wait_for(|| running.restarts("not_started") >= 2.0);
    assert!(!running.0.0.is_dead());
    running.stop();
}
