//! A journal source beside a stand-in for `journalctl`, whose starts are scripts.
#![allow(clippy::unwrap_used)]

mod real;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use inrush_event::{
    ByteSize, Delivery, Fate, Feed, FeedNext, Ledger, Metric, MetricSample, MetricsPage, Origin,
    SourceSnapshot,
};
use inrush_ingest::batch_writer::WorkerContext;
use inrush_ingest::classification::MemoryBudget;
use inrush_ingest::enrichment::Enrichment;
use inrush_ingest::numa::NumaPlacement;
use inrush_ingest::options::{EnrichmentOptions, HostsOptions, PacksOptions};
use inrush_ingest::pool::WorkPool;
use inrush_ingest::unclassified::UnclassifiedTable;
use inrush_queue::{DestinationFeed, Durability, Log, QueueOptions};
use inrush_transport::activation::InheritedSockets;
use inrush_transport::nodes::NumaNodes;
use tempfile::TempDir;

use super::options::JournaldSource;
use super::place::JournalPlace;
use crate::options::SourceOptions;
use crate::{Source, SourceServices, WorkerSizes};

/// An hour in which nothing else happens.
const HANG: &str = "exec sleep 1000\n";

struct Bench {
    folder: TempDir,
    log: Arc<Log>,
    ledger: Arc<Ledger>,
    feed: Arc<DestinationFeed>,
    services: Arc<SourceServices>,
    known: Enrichment,
}

impl Bench {
    fn new(scripts: &[&str]) -> Self {
        Self::with(scripts, QueueOptions::default())
    }

    fn with(scripts: &[&str], queue: QueueOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (at, script) in scripts.iter().enumerate() {
            std::fs::write(folder.path().join(format!("run.{}", at + 1)), script).unwrap();
        }
        let ledger = Ledger::new();
        let queue = QueueOptions {
            durability: Durability::Memory,
            ..queue
        };
        let log = Log::new(queue, Arc::clone(&ledger));
        let feed = log.attach(&ledger.destination("out"));
        let context = WorkerContext {
            pool: log.pool(),
            log: Arc::clone(&log),
            ledger: Arc::clone(&ledger),
            room: MemoryBudget::new(),
            unknown: UnclassifiedTable::new(),
            pool_threads: WorkPool::new(1),
            near: NumaPlacement::new(NumaNodes::of_process(), log.pool()),
            worker: 0,
        };
        let sizes = WorkerSizes {
            cores: 1,
            carry_bytes: 0,
        };
        let sockets = InheritedSockets::default();
        Self {
            services: SourceServices::new(context, sizes, folder.path(), sockets),
            known: known(),
            folder,
            log,
            ledger,
            feed,
        }
    }

    fn options(&self, more: serde_json::Value) -> JournaldSource {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/journalctl.sh");
        let mut options = serde_json::json!({
            "directory": self.folder.path(),
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
        let started = options
            .start("journal", &self.services, &self.known)
            .unwrap();
        assert_eq!(started.problems, Vec::<String>::new());
        Running(started.source)
    }

    /// So many events, each as text, as soon as they are there.
    fn events(&self, count: usize) -> Vec<String> {
        let mut events = Vec::new();
        while events.len() < count {
            match self.feed.next(Duration::from_secs(20)) {
                FeedNext::Batch(Delivery {
                    position, batch, ..
                }) => {
                    for record in batch.records() {
                        events.push(String::from_utf8_lossy(batch.get(record.raw)).into_owned());
                    }
                    let all = 0..batch.len() as u32;
                    self.feed.settle(position, all, Fate::Delivered);
                }
                FeedNext::Idle | FeedNext::Closed => panic!("no more than {events:?}"),
            }
        }
        events
    }

    /// Arguments of a start, once it came.
    fn arguments(&self, start: usize) -> Vec<String> {
        let path = |name: String| self.folder.path().join(name);
        let starts = || {
            let text = std::fs::read_to_string(path("starts".to_owned())).unwrap_or_default();
            text.trim().parse().unwrap_or(0)
        };
        wait_for(|| starts() >= start);
        let text = std::fs::read_to_string(path(format!("arguments.{start}"))).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn row(&self) -> SourceSnapshot {
        let ledger = self.ledger.snapshot();
        assert!(ledger.balanced, "{ledger:#?}");
        ledger.sources["journal"].clone()
    }

    fn lost(&self, reason: &str) -> u64 {
        self.row().lost_upstream.get(reason).copied().unwrap_or(0)
    }
}

fn known() -> Enrichment {
    let packs = PacksOptions {
        enabled: false,
        ..PacksOptions::default()
    };
    let options = EnrichmentOptions {
        packs: &packs,
        hosts: &HostsOptions::default(),
        transforms: &[],
        routes: &[],
        data_dir: Path::new(""),
    };
    Enrichment::load(options, None).unwrap()
}

/// A source that is stopped with the test.
struct Running(Arc<dyn Source>);

impl Running {
    fn stop(&self) {
        self.0.stop();
        wait_for(|| self.0.ended());
    }

    /// A metric of it, for one reason if it has reasons.
    fn metric(&self, metric: Metric, reason: &str) -> f64 {
        let mut page = MetricsPage::default();
        self.0.metrics(&mut page);
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

impl Drop for Running {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Time after which what a test waits for is not coming.
const IN_VAIN: Duration = Duration::from_secs(60);

/// Waits until something is so.
fn wait_for(mut so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !so() {
        assert!(since.elapsed() < IN_VAIN, "it is not so");
        thread::yield_now();
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
    let FeedNext::Batch(delivery) = bench.feed.next(Duration::from_secs(20)) else {
        panic!("no event");
    };
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
    std::fs::write(bench.folder.path().join("entries"), bytes).unwrap();
    let _running = bench.start(serde_json::json!({}));
    let done = bench.folder.path().join("done");
    wait_for(|| bench.log.blocked_since().is_some() || done.exists());
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
    let pid = std::fs::read_to_string(bench.folder.path().join("pid")).unwrap();
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
        .prepare(&bench.options(more), &bench.known)
        .unwrap();
    assert_eq!(running.0.commit(), Vec::<String>::new());
    assert_eq!(bench.events(2), entries([9, 12]));
    let second = bench.arguments(2);
    let expected = [
        &format!("--cursor={}", cursor(2)),
        &format!("--directory={}", bench.folder.path().display()),
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
        .start("journal", &bench.services, &bench.known)
        .unwrap();
    assert_eq!(started.problems.len(), 1, "{:?}", started.problems);
    let running = Running(started.source);
    wait_for(|| running.restarts("not_started") >= 2.0);
    assert!(!running.0.is_dead());
    running.stop();
}
