//! What a store keeps on disks that are too small, with clocks that are wrong, and over stops that
//! cannot write: an event that was delivered is found, or the ledger says why not.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use inrush_tests::*;
use serde_json::Value;

use crate::TCP;

/// A mount namespace with a small disk at `data` in a folder, for as long as this lives.
struct SmallDisk {
    holder: Child,
    wrapper: Vec<String>,
}

impl SmallDisk {
    /// Mounts so many MiB; `None` where that is not possible.
    fn mount(dir: &Path, mib: u64) -> Option<Self> {
        if !is_root() || ["unshare", "nsenter", "mount"].map(tool).contains(&None) {
            return None;
        }
        let data = dir.join("data");
        std::fs::create_dir(&data).unwrap();
        let ready = dir.join("mounted");
        let (data, at) = (data.display(), ready.display());
        let script =
            format!("mount -t tmpfs -o size={mib}m tmpfs {data} && touch {at} && exec sleep 600");
        let mut holder = Command::new("unshare")
            .args(["-m", "sh", "-c", &script])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mounted = eventually("the disk is mounted, or is not", || {
            let ended = holder.try_wait().unwrap().is_some();
            (ready.exists() || ended).then_some(!ended)
        });
        let pid = holder.id().to_string();
        let wrapper = ["nsenter", "-t", &pid, "-m"].map(str::to_owned).to_vec();
        mounted.then_some(Self { holder, wrapper })
    }

    fn start(&self, dir: tempfile::TempDir, yaml: &str) -> Inrush {
        let options = Options {
            dir: Some(dir),
            wrapper: &self.wrapper,
            ..Options::default()
        };
        Inrush::with(yaml, options)
    }

    /// Runs a command that sees the disk.
    fn run(&self, words: &[&str]) {
        run_ok(
            Command::new(&self.wrapper[0])
                .args(&self.wrapper[1..])
                .args(words),
        );
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

const DEAD: &str = "  dead: { type: splunk_hec, endpoints: [\"http://127.0.0.1:9\"], token: t }\n";

/// A store with these options beside its type, and what else is configured.
fn store(options: &str, rest: &str) -> String {
    format!(
        "sources:\n  syslog: {{ type: syslog, listen: [{TCP}] }}\n\
         destinations:\n  local: {{ type: store, flush_after: 100ms{options} }}\n{rest}"
    )
}

fn alarm(inrush: &Inrush, id: &str) -> Option<Value> {
    let flow = inrush.json("/api/v1/flow");
    let alarms = flow["alarms"].as_array().unwrap().clone();
    alarms.into_iter().find(|alarm| alarm["id"] == id)
}

/// Sends until nobody reads any more, or all is sent; says how many events the queue took.
fn fill(inrush: &Inrush, events: usize) -> u64 {
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    let text = "x".repeat(900);
    let lines: String = (0..events)
        .map(|n| format!("<13>1 - h a - ID{n} - {text}\n"))
        .collect();
    // It blocks once the queue is full; the test ends it with the process.
    std::thread::spawn(move || tcp.try_send(&lines));
    let accepted = || inrush.ledger().sources["syslog"].accepted;
    eventually("the queue is full, or all is in it", || {
        let full = inrush.json("/healthz")["edges"]
            .as_array()?
            .iter()
            .any(|edge| edge["name"] == "queue" && edge["ok"] == false);
        (full || accepted() == events as u64).then_some(())
    });
    accepted()
}

#[test]
fn a_small_disk_with_a_dead_destination_keeps_what_was_delivered() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(dir.path(), 96) else {
        skip!("a small disk cannot be mounted here")
    };
    let inrush = disk.start(dir, &store("", DEAD));
    let accepted = fill(&inrush, 120_000);
    assert!(accepted < 120_000, "the disk is too large for this test");
    // What is read on may still come in, so all is compared within one snapshot.
    inrush.wait_until("the store has what came, on disk or in memory", |ledger| {
        let accepted = ledger.sources["syslog"].accepted;
        let (local, dead) = (&ledger.destinations["local"], &ledger.destinations["dead"]);
        let Some(stored) = &local.stored else {
            return false;
        };
        let nothing_is_gone =
            local.dropped.is_empty() && stored.expired.is_empty() && stored.unreadable == 0;
        assert!(nothing_is_gone, "{local:?}");
        local.delivered > 0
            && dead.pending == accepted
            && stored.searchable + stored.in_memory == accepted
    });
}

/// Nothing else is wanted of the disk.
fn dead_beside_a_blackhole(queue: &str) -> String {
    format!(
        "sources:\n  syslog: {{ type: syslog, listen: [{TCP}] }}\n\
         destinations:\n  out: {{ type: blackhole }}\n{DEAD}{queue}"
    )
}

/// MiB of the queue's segments.
fn queue_mib(inrush: &Inrush) -> u64 {
    inrush.json("/api/v1/flow")["queue"]["disk_bytes"]
        .as_u64()
        .unwrap()
        >> 20
}

#[test]
fn a_dead_destination_stops_no_other_before_the_disk_is_nearly_used() {
    let limited = "queue: { max_bytes: 40MiB }\n";
    // The queue's own is a third; an eighth stays free; a segment may be begun and not filled.
    for (queue, mib, words) in [
        (
            "",
            90..=112,
            "its 43MiB and all of the disk but the 16MiB that it leaves free",
        ),
        (limited, 30..=40, "40MiB (`queue.max_bytes`)"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let Some(disk) = SmallDisk::mount(dir.path(), 128) else {
            skip!("a small disk cannot be mounted here")
        };
        let inrush = disk.start(dir, &dead_beside_a_blackhole(queue));
        let accepted = fill(&inrush, 150_000);
        assert!(accepted < 150_000, "the disk is too large for this test");
        let alarm = eventually("the alarm", || alarm(&inrush, "queue-stalled"));
        assert!(mib.contains(&queue_mib(&inrush)), "{}", queue_mib(&inrush));
        assert_eq!(alarm["severity"], "critical");
        assert!(alarm["what"].as_str().unwrap().contains(words), "{alarm}");
        assert!(
            alarm["cause"]
                .as_str()
                .unwrap()
                .contains("destination dead"),
            "{alarm}"
        );
        inrush.wait_until("the other has what came", |l| {
            let (out, dead) = (&l.destinations["out"], &l.destinations["dead"]);
            l.balanced && out.delivered == dead.pending && dead.dropped.is_empty()
        });
    }
}

#[test]
fn an_alarm_names_the_dead_one_while_the_queue_still_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(dir.path(), 128) else {
        skip!("a small disk cannot be mounted here")
    };
    let inrush = disk.start(dir, &dead_beside_a_blackhole(""));
    let target = format!("tcp://{}", inrush.address("tcp"));
    let mut load = Command::new(binary())
        .args(["load", &target, "--rate", "500", "--size", "900"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let alarm = eventually("the alarm", || alarm(&inrush, "queue-filling"));
    load.kill().unwrap();
    load.wait().unwrap();
    assert_eq!(alarm["severity"], "critical");
    let what = alarm["what"].as_str().unwrap();
    assert!(
        what.contains("minutes, because of destination dead. Then sources wait."),
        "{alarm}"
    );
    assert!(inrush.ledger().balanced && queue_mib(&inrush) < 90);
}

#[test]
fn the_queue_beyond_its_share_leaves_what_a_store_leaves_free() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(dir.path(), 128) else {
        skip!("a small disk cannot be mounted here")
    };
    let inrush = disk.start(dir, &store(", free: 50MiB, min_age: 1s", DEAD));
    let accepted = fill(&inrush, 150_000);
    assert!(accepted < 150_000, "the disk is too large for this test");
    assert!(
        (50..=70).contains(&queue_mib(&inrush)),
        "{}",
        queue_mib(&inrush)
    );
    inrush.wait_until("the store has what came", |l| {
        let stored = l.destinations["local"].stored.as_ref();
        let accepted = l.sources["syslog"].accepted;
        stored.is_some_and(|one| one.searchable + one.in_memory == accepted)
    });
    // What is old enough to go does not: the backlog has taken the room, and not the store.
    eventually("retention has looked", || {
        (1..80 << 20).contains(&free(&inrush)).then_some(())
    });
    let stored = inrush.stored("local");
    assert!(stored.expired.is_empty(), "{stored:?}");
    assert!(alarm(&inrush, "store-short-of-room:local").is_none());
}

#[test]
fn room_is_made_of_the_oldest_and_that_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(dir.path(), 64) else {
        skip!("a small disk cannot be mounted here")
    };
    let budgets = "queue: { max_bytes: 16MiB, quarantine_bytes: 4MiB }\n";
    let inrush = disk.start(dir, &store(", free: 60MiB, min_age: 1s", budgets));
    Tcp::connect(inrush.address("tcp")).send(lines(0..500));
    inrush.conserved(500);
    inrush.wait_until("room is made", |l| {
        l.destinations["local"].deleted_for_room() == 500
    });
    let stored = inrush.stored("local");
    assert_eq!(
        (stored.searchable, stored.written, stored.delivered),
        (0, 500, 500)
    );
    let alarm = eventually("the alarm", || {
        alarm(&inrush, "store-deletes-for-room:local")
    });
    assert!(alarm["what"].as_str().unwrap().contains("500"), "{alarm}");
    assert!(inrush.stderr().contains("WARN") && inrush.stderr().contains("room on the disk"));
    let metrics = inrush.http("GET", "/metrics").body;
    let expired = "inrush_store_expired_events_total{destination=\"local\",reason=\"room\"} 500";
    assert!(metrics.contains(expired));
}

#[test]
fn nothing_young_is_deleted_for_room_and_the_events_wait() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(dir.path(), 64) else {
        skip!("a small disk cannot be mounted here")
    };
    let inrush = disk.start(dir, &store(", free: 50MiB", ""));
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    tcp.send(lines(0..100));
    inrush.conserved(100);
    let short = eventually("the alarm", || alarm(&inrush, "store-short-of-room:local"));
    assert!(
        short["cause"].as_str().unwrap().contains("min_age"),
        "{short}"
    );
    let filler = inrush.path("data/filler").display().to_string();
    disk.run(&["fallocate", "-l", "42M", &filler]);
    tcp.send(lines(100..200));
    inrush.wait_until("they wait", |l| l.destinations["local"].pending == 100);
    eventually("it says why", || {
        let error = inrush.destination_named("local")["last_error"]
            .as_str()?
            .to_owned();
        error.contains("min_age").then_some(())
    });
    let stored = inrush.stored("local");
    assert_eq!(
        (stored.searchable, stored.in_memory),
        (100, 100),
        "all are found"
    );
    disk.run(&["rm", &filler]);
    inrush.conserved(200);
    assert_eq!(inrush.stored("local").searchable, 200);
}

#[test]
fn what_goes_by_age_or_is_damaged_is_in_the_ledger() {
    let yaml = store(", keep: { age: 1s }", "");
    let inrush = Inrush::start(&yaml);
    Tcp::connect(inrush.address("tcp")).send(lines(0..50));
    inrush.wait_until("they are too old", |l| {
        let stored = l.destinations["local"].stored.as_ref();
        stored.is_some_and(|stored| stored.expired.get("age") == Some(&50))
    });
    assert_eq!(inrush.stored("local").searchable, 0);

    let inrush = Inrush::start(&store("", ""));
    Tcp::connect(inrush.address("tcp")).send(lines(0..50));
    inrush.conserved(50);
    let (_, dir) = inrush.stop();
    let mut files = Vec::new();
    parquet_below(&dir.path().join("data/store"), &mut files);
    std::fs::remove_file(&files[0]).unwrap();
    let options = Options {
        dir: Some(dir),
        ..Options::default()
    };
    let inrush = Inrush::with(&store("", ""), options);
    let stored = inrush.stored("local");
    assert_eq!(stored.at_start, 50);
    assert!(
        stored.unreadable > 0 && stored.searchable + stored.unreadable == 50,
        "{stored:?}"
    );
}

fn parquet_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            parquet_below(&path, found);
        } else if path.extension().is_some_and(|end| end == "parquet") {
            found.push(path);
        }
    }
}

/// The queue has a budget that its disk has not: it stalls in the middle of what it accepted.
#[test]
fn a_stop_with_a_full_disk_counts_what_it_gives_up() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(dir.path(), 24) else {
        skip!("a small disk cannot be mounted here")
    };
    let yaml = format!(
        "sources:\n  syslog: {{ type: syslog, listen: [{TCP}] }}\n\
         destinations:\n  out: {{ type: blackhole }}\n{DEAD}shutdown_timeout: 2s\n\
         queue: {{ max_bytes: 1GiB, quarantine_bytes: 4MiB }}\n"
    );
    let inrush = disk.start(dir, &yaml);
    // So that not all of what is accepted has room.
    let filler = inrush.path("data/filler").display().to_string();
    disk.run(&["fallocate", "-l", "18M", &filler]);
    fill(&inrush, 60_000);
    let ledger = inrush.ledger();
    let accepted = ledger.sources["syslog"].accepted;
    let pending = ledger.destinations["dead"].pending;
    assert!(
        accepted < 60_000 && pending == accepted,
        "{accepted} {pending}"
    );
    let (exit, dir) = inrush.stop();
    assert!(exit.status.success(), "{}", exit.stderr);
    assert!(exit.stderr.contains("ledger balanced"), "{}", exit.stderr);
    // The other has taken from memory what the disk has not.
    let (_, ledger) = exit.stderr.split_once("ledger balanced").unwrap();
    let (_, accepted) = ledger.split_once(" accepted ").unwrap();
    let accepted: u64 = accepted.split(' ').next().unwrap().parse().unwrap();
    assert!(accepted >= pending);
    disk.run(&["rm", &filler]);
    let inrush = disk.start(dir, &yaml);
    let ledger = inrush.ledger();
    let dead = &ledger.destinations["dead"];
    let given_up = dead.dropped.get("shutdown").copied().unwrap_or(0);
    assert_eq!(dead.pending + given_up, accepted, "{dead:?}");
    assert_eq!(dead.dropped.values().sum::<u64>(), given_up, "{dead:?}");
    assert!(given_up > 0, "the disk was not full: {dead:?}");
    assert!(ledger.balanced);
    // It is told once.
    let (_, dir) = inrush.stop();
    let inrush = disk.start(dir, &yaml);
    let again = inrush.ledger().destinations["dead"].clone();
    assert_eq!((again.pending, again.dropped.len()), (dead.pending, 0));
}

/// Answers every question for the wall clock with what a file says beside the truth, in seconds.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *t) {
    static int (*next)(clockid_t, struct timespec *);
    if (!next) next = dlsym(RTLD_NEXT, "clock_gettime");
    int end = next(id, t);
    if (id == CLOCK_REALTIME) {
        long off = 0;
        FILE *f = fopen(getenv("CLOCK_OFF"), "r");
        if (f) { if (fscanf(f, "%ld", &off) != 1) off = 0; fclose(f); }
        t->tv_sec += off;
    }
    return end;
}
"#;

#[test]
fn a_clock_that_jumps_empties_no_store() {
    const DAY: i64 = 86_400;
    if tool("cc").is_none() {
        skip!("there is no C compiler")
    }
    let made = tempfile::tempdir().unwrap();
    let (source, shim) = (made.path().join("clock.c"), made.path().join("clock.so"));
    std::fs::write(&source, CLOCK).unwrap();
    run_ok(
        Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .args([&shim, &source])
            .arg("-ldl"),
    );
    let off = made.path().join("off");
    for days in [-1, 2, -400, 60] {
        std::fs::write(&off, "0").unwrap();
        let env = [
            ("LD_PRELOAD", shim.to_str().unwrap()),
            ("CLOCK_OFF", off.to_str().unwrap()),
        ];
        let start = |dir| {
            let options = Options {
                env: &env,
                dir,
                ..Options::default()
            };
            Inrush::with(&store(", keep: { age: 30d }", ""), options)
        };
        let inrush = start(None);
        let mut tcp = Tcp::connect(inrush.address("tcp"));
        tcp.send(lines(0..10));
        inrush.conserved(10);
        // A jump while it runs, for which retention has looked at least once.
        std::fs::write(&off, (days * DAY).to_string()).unwrap();
        eventually("the jump is noticed", || {
            alarm(&inrush, "clock-jumped:local")
        });
        tcp.send(lines(10..20));
        inrush.conserved(20);
        assert_eq!(inrush.stored("local").searchable, 20, "{days} d");
        // A start with the wrong clock, and one with the right one again.
        let (_, dir) = inrush.stop();
        let inrush = start(Some(dir));
        eventually("retention has looked", || (free(&inrush) > 0).then_some(()));
        assert_eq!(
            inrush.stored("local").searchable,
            20,
            "{days} d at the start"
        );
        let (_, dir) = inrush.stop();
        std::fs::write(&off, "0").unwrap();
        let inrush = start(Some(dir));
        eventually("retention has looked", || (free(&inrush) > 0).then_some(()));
        assert_eq!(inrush.stored("local").searchable, 20, "{days} d and back");
    }
}

/// Free bytes of the store's disk, as retention saw it; 0 before it has looked.
fn free(inrush: &Inrush) -> u64 {
    let text = inrush.http("GET", "/metrics").body;
    let free = "inrush_store_room_free_bytes{destination=\"local\"} ";
    let value = text.lines().find_map(|line| line.strip_prefix(free));
    value.map_or(0, |value| value.parse::<f64>().unwrap() as u64)
}
