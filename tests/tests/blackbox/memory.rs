//! Memory: parts that fit into the limit of a control group, and what connections have us keep.
//!
//! Where no control group can be made (no root, a container), the tests say `SKIPPED`.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use inrush_tests::*;

const MIB: u64 = 1 << 20;

/// A control group with a limit of memory, of version 1 or 2.
struct Group {
    folder: PathBuf,
    file: PathBuf,
    procs: PathBuf,
}

impl Group {
    fn new(limit_mib: u64) -> Option<Self> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("inrush-test-{}-{number}", std::process::id());
        for (root, file) in [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
        ] {
            let folder = PathBuf::from(root).join(&name);
            let group = Self {
                file: folder.join(file),
                procs: folder.join("cgroup.procs"),
                folder,
            };
            let limit = (limit_mib * MIB).to_string();
            if fs::create_dir(&group.folder).is_ok() && fs::write(&group.file, limit).is_ok() {
                return Some(group);
            }
        }
        eprintln!("SKIPPED: no control group can be made here");
        None
    }

    /// Processes of it that the kernel has killed for want of memory.
    fn killed(&self) -> u64 {
        let of = |name: &str| fs::read_to_string(self.folder.join(name)).ok();
        let text = of("memory.oom_control").or_else(|| of("memory.events"));
        let text = text.unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.unwrap().trim().parse().unwrap()
    }

    /// Inrush in this group.
    fn start(&self, yaml: &str) -> Inrush {
        let script = format!("echo $$ > {} && exec \"$@\"", self.procs.display());
        let wrapper = ["sh", "-c", &script, "sh"].map(str::to_owned);
        Inrush::with(
            yaml,
            Options {
                wrapper: &wrapper,
                ..Options::default()
            },
        )
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Fails while a process is in it; then it stays.
        let _ = fs::remove_dir(&self.folder);
    }
}

const CONFIG: &str = "packs: { enabled: true }\n\
    sources:\n  syslog:\n    type: syslog\n    \
    listen: [tcp://127.0.0.1:0, relp://127.0.0.1:0]\n\
    destinations:\n  local: { type: store }\n  \
    dead: { type: splunk_hec, endpoints: [\"http://127.0.0.1:1\"], token: x }\n";

fn unfinished(inrush: &Inrush, connections: usize) -> Vec<TcpStream> {
    let frame = [b"<13>".as_slice(), &vec![b'x'; 60_000]].concat();
    let open = |_| {
        let mut stream = TcpStream::connect(inrush.address("tcp")).unwrap();
        stream.write_all(&frame).unwrap();
        stream
    };
    (0..connections).map(open).collect()
}

fn anomaly(inrush: &Inrush, name: &str) -> u64 {
    inrush.source()["anomalies"][name].as_u64().unwrap_or(0)
}

#[test]
fn the_parts_fit_into_a_group_and_its_limit_is_named() {
    let Some(group) = Group::new(256) else { return };
    let inrush = group.start(CONFIG);
    let line = inrush.line("inrush: memory: limit 256 MiB from ");
    assert!(line.contains(group.file.to_str().unwrap()), "{line}");
    let page = inrush.http("GET", "/metrics").body;
    let queue = page
        .lines()
        .find_map(|line| line.strip_prefix("inrush_queue_memory_bytes_max "))
        .and_then(|n| n.parse::<f64>().ok())
        .unwrap();
    assert!(queue < (64 * MIB) as f64, "{queue}");
    drop(inrush);
}

#[test]
fn what_the_file_says_is_taken_and_too_much_is_warned_of() {
    let Some(group) = Group::new(256) else { return };
    let inrush = group.start(&format!("{CONFIG}queue: {{ memory_bytes: 200MiB }}\n"));
    let stderr = inrush.stderr();
    assert!(stderr.contains("the limit is 256 MiB"), "{stderr}");
    assert!(stderr.contains("queue 200.0 MiB"), "{stderr}");
}

#[test]
fn unfinished_frames_of_many_connections_starve_nobody() {
    let Some(group) = Group::new(256) else { return };
    let inrush = group.start(CONFIG);
    // 90 MiB, where 11 MiB may be kept.
    let mut open = unfinished(&inrush, 1500);
    inrush.wait_until("frames are given up", |_| {
        anomaly(&inrush, "memory_cut") > 0
    });
    let given_up = anomaly(&inrush, "memory_cut");
    // Those that were given up were the oldest; who makes progress is not among them.
    let mut honest = Tcp::connect(inrush.address("tcp"));
    let long = format!("<13>1 - h a - LONG - {}", "y".repeat(50_000));
    for (n, part) in long.as_bytes().chunks(5000).enumerate() {
        honest.send(part);
        open.extend(unfinished(&inrush, n % 3));
    }
    honest.send("\n");
    let kept = inrush.http("GET", "/api/v1/ledger");
    assert_eq!(kept.status, 200);
    // The rest of a frame that was given up is cut and counted; its connection goes on.
    let first = &mut open[0];
    first.write_all(&[b'z'; 1000]).unwrap();
    first.write_all(b"\n<13>1 - h a - NEXT - x\n").unwrap();
    inrush.wait_until("the rest is cut", |ledger| {
        let source = &ledger.sources["syslog"];
        source.cut_bytes.get("memory") == Some(&1000)
    });
    let events = given_up + 2;
    inrush.wait_until("all are in the store", |ledger| {
        ledger.balanced && ledger.destinations["local"].delivered >= events
    });
    assert!(inrush.rss_bytes() < 512 * MIB);
    drop(open);
    inrush.wait_until("what is left is kept", |ledger| {
        ledger.sources["syslog"].accepted >= 1502
    });
    // Whole, though it came in ten pieces.
    inrush.wait_until("all is in files", |ledger| {
        ledger.destinations["local"].pending == 0
    });
    let export = std::process::Command::new(binary())
        .args(["store", "export", "-c"])
        .arg(inrush.path("inrush.yaml"))
        .arg("--data-dir")
        .arg(inrush.path("data"))
        .output()
        .unwrap();
    let found = String::from_utf8(export.stdout).unwrap();
    assert!(found.contains(&"y".repeat(50_000)), "{found:.1000}");
}

#[test]
fn a_full_load_lives_within_a_small_group() {
    let Some(group) = Group::new(512) else { return };
    let inrush = group.start(CONFIG);
    let open = unfinished(&inrush, 1000);
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    let text = "z".repeat(400);
    let lines: String = (0..1000)
        .map(|n| format!("<13>1 - h a - ID{n} - {text}\n"))
        .collect();
    for _ in 0..100 {
        tcp.send(&lines);
    }
    inrush.wait_until("all were taken", |ledger| {
        ledger.sources["syslog"].accepted >= 100_000
    });
    drop(open);
    inrush.wait_until("all are in the store", |ledger| {
        ledger.balanced && ledger.destinations["local"].delivered >= 101_000
    });
}

/// The path of a query in SQL.
fn sql(statement: &str) -> String {
    format!("/api/v1/sql?q={}", statement.replace(' ', "%20"))
}

#[test]
fn four_searches_beside_a_full_load_live_within_128_mib() {
    let Some(group) = Group::new(128) else { return };
    let inrush = group.start(CONFIG);
    let open = unfinished(&inrush, 500);
    let over = AtomicBool::new(false);
    let text = "z".repeat(400);
    let lines: String = (0..1000)
        .map(|n| format!("<13>1 - h a - ID{n} - {text}\n"))
        .collect();
    let ask = |path: String| {
        let mut answered = 0;
        while !over.load(Ordering::Relaxed) {
            let answer = inrush.http("GET", &path);
            assert_eq!(answer.status, 200, "{}", answer.body);
            answered += 1;
        }
        answered
    };
    let answered = std::thread::scope(|scope| {
        let ask = &ask;
        let searches = [
            sql("select host, count(*) from events group by host"),
            sql("select count(*) from events"),
            "/api/v1/search?q=error%20OR%20host%3Dx&limit=100".to_owned(),
            "/api/v1/search?q=*&limit=1000".to_owned(),
        ];
        let asking = searches.map(|path| scope.spawn(move || ask(path)));
        let mut tcp = Tcp::connect(inrush.address("tcp"));
        for _ in 0..80 {
            tcp.send(&lines);
        }
        inrush.wait_until("all were taken", |ledger| {
            ledger.sources["syslog"].accepted >= 80_000
        });
        over.store(true, Ordering::Relaxed);
        asking.map(|thread| thread.join().unwrap())
    });
    assert!(
        answered.iter().all(|count: &u32| *count > 0),
        "{answered:?}"
    );
    drop(open);
    inrush.wait_until("all are in the store", |ledger| {
        ledger.balanced && ledger.destinations["local"].delivered >= 80_500
    });
    assert_eq!(group.killed(), 0);
    // At rest there is room for a whole answer.
    let counted = inrush.http("GET", &sql("select count(*) from events"));
    assert!(
        counted.body.contains("\"stopped\":null"),
        "{}",
        counted.body
    );
}

#[test]
fn searches_that_there_is_no_memory_for_are_refused_with_a_sentence() {
    let Some(group) = Group::new(100) else { return };
    let inrush = group.start(CONFIG);
    let refused = inrush.http("GET", &sql("select count(*) from events"));
    let said = "there is no memory to search with: 4 MiB of the limit";
    assert!(refused.body.contains(said), "{}", refused.body);
    assert!(refused.body.contains("give the process 128 MiB or more"));
}
