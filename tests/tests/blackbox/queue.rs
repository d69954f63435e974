//! The queue on disk, as its users meet it: kills, restarts, dead destinations, full budgets.

use std::path::Path;
use std::process::Command;

use inrush_tests::*;
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::{TCP, to_file};

/// A destination that takes nothing, for as long as nothing listens there.
const NOBODY: &str = "http://127.0.0.1:1";

fn to_hec(url: &str, rest: &str) -> String {
    let out = format!("{{ type: splunk_hec, endpoints: [\"{url}\"], token: t }}");
    to_file(TCP, "").replace("{ type: file, path: \"{dir}/out.jsonl\" }", &out) + rest
}

fn start_in(dir: TempDir, yaml: &str) -> Inrush {
    let options = Options {
        dir: Some(dir),
        ..Options::default()
    };
    Inrush::with(yaml, options)
}

/// Bytes of the segments on disk.
fn segment_bytes(inrush: &Inrush) -> u64 {
    let files = std::fs::read_dir(inrush.path("data/queue")).unwrap();
    files
        .map(|file| file.unwrap())
        .filter(|file| file.file_name().to_string_lossy().ends_with(".seg"))
        .map(|file| file.metadata().unwrap().len())
        .sum()
}

/// Waits until all that was accepted is in the log's files.
fn await_written(inrush: &Inrush, bytes: u64) {
    eventually("the events to be written", || {
        (segment_bytes(inrush) > bytes).then_some(())
    });
}

#[test]
fn what_was_accepted_survives_kill_9() {
    const SENT: usize = 2_000;
    let inrush = Inrush::start(&to_hec(NOBODY, ""));
    Tcp::connect(inrush.address("tcp")).send(lines(0..SENT));
    inrush.wait_until("all pending", |l| {
        l.destinations["out"].pending == SENT as u64
    });
    await_written(&inrush, lines(0..SENT).len() as u64);
    let (exit, dir) = inrush.kill();
    assert!(!exit.status.success());

    let hec = Hec::start();
    let inrush = start_in(dir, &to_hec(&hec.url(), ""));
    let ledger = inrush.wait_until("all delivered", |l| {
        l.destinations["out"].delivered == SENT as u64
    });
    assert!(ledger.balanced);
    assert_eq!(ledger.sources["syslog"].received, 0);
    let events: Vec<String> = hec
        .taken()
        .iter()
        .map(|event| event["event"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(events.len(), SENT, "each once");
    let mut once = sorted(events);
    once.dedup();
    assert_eq!(once.len(), SENT);
}

#[test]
fn a_restart_repeats_nothing_that_was_delivered() {
    let inrush = Inrush::start(&to_file(TCP, ""));
    Tcp::connect(inrush.address("tcp")).send(lines(0..100));
    inrush.conserved(100);
    let (_, dir) = inrush.kill();
    let inrush = start_in(dir, &to_file(TCP, ""));
    Tcp::connect(inrush.address("tcp")).send(lines(100..200));
    inrush.conserved(100);
    let ids: Vec<String> = (0..200).map(|n| format!("ID{n}")).collect();
    assert_eq!(field(&inrush.events("out.jsonl"), "msg_id"), ids);
}

#[test]
fn an_orderly_stop_leaves_what_a_dead_destination_did_not_take() {
    let inrush = Inrush::start(&to_hec(NOBODY, "shutdown_timeout: 1s\n"));
    Tcp::connect(inrush.address("tcp")).send(lines(0..10));
    inrush.wait_until("all pending", |l| l.destinations["out"].pending == 10);
    let (exit, dir) = inrush.stop();
    let words = "ledger balanced";
    assert!(exit.stderr.contains(words), "{}", exit.stderr);
    assert!(
        exit.stderr
            .contains("delivered 0 quarantined 0 dropped 0 pending 10"),
        "{}",
        exit.stderr
    );
    let hec = Hec::start();
    let inrush = start_in(dir, &to_hec(&hec.url(), ""));
    inrush.wait_until("all delivered", |l| l.destinations["out"].delivered == 10);
    assert_eq!(hec.taken().len(), 10);
}

#[test]
fn a_data_directory_has_one_owner() {
    let inrush = Inrush::start(&to_file(TCP, ""));
    let second = Command::new(binary())
        .args(["run", "-c"])
        .arg(inrush.path("inrush.yaml"))
        .arg("--data-dir")
        .arg(inrush.path("data"))
        .output()
        .unwrap();
    let words = String::from_utf8(second.stderr).unwrap();
    assert!(!second.status.success());
    let pid = format!("process {}", inrush.pid());
    assert!(
        words.contains("data_dir") && words.contains(&pid),
        "{words}"
    );
}

/// A queue of the least size before a destination that takes nothing.
fn tight(policy: &str) -> String {
    to_hec(
        NOBODY,
        &format!("queue: {{ max_bytes: 16MiB, memory_bytes: 4MiB, when_full: {policy} }}\n"),
    )
}

/// Sends long messages until the queue's budget is used up, and a bit more.
fn fill(inrush: &Inrush, messages: usize) -> std::thread::JoinHandle<()> {
    let to = inrush.address("tcp");
    std::thread::spawn(move || {
        let long = "x".repeat(16_000);
        let mut tcp = Tcp::connect(to);
        for n in 0..messages {
            tcp.send(format!("{} {long}\n", numbered(n)));
        }
    })
}

#[test]
fn a_full_queue_blocks_says_why_and_goes_on_by_itself() {
    const SENT: usize = 3_000;
    let hec = Hec::start();
    hec.otherwise(Some(Reply::code(503, 9, "Server is busy")));
    let inrush = Inrush::start(&tight("block").replace(NOBODY, &hec.url()));
    let sender = fill(&inrush, SENT);
    let health = eventually("the queue to be full", || {
        let health = inrush.http("GET", "/healthz");
        let edges = health.json()["edges"].clone();
        let queue = edges
            .as_array()
            .unwrap()
            .iter()
            .find(|e| e["name"] == "queue")?
            .clone();
        (queue["ok"] == false).then_some((health.status, queue))
    });
    assert_eq!(health.0, 503);
    assert!(health.1["reason"].as_str().unwrap().contains("max_bytes"));
    assert!(segment_bytes(&inrush) <= 16 << 20);
    let received = inrush.ledger().sources["syslog"].received;
    assert!(
        received < SENT as u64,
        "{received}: the sender is held back"
    );
    hec.otherwise(None);
    sender.join().unwrap();
    inrush.conserved(SENT as u64);
    assert_eq!(inrush.http("GET", "/healthz").status, 200);
    assert_eq!(hec.taken().len(), SENT);
}

#[test]
fn the_oldest_go_where_that_is_the_policy_and_are_counted() {
    const SENT: usize = 3_000;
    let inrush = Inrush::start(&tight("drop_oldest"));
    fill(&inrush, SENT).join().unwrap();
    let ledger = inrush.wait_until("all received", |l| {
        l.sources["syslog"].received == SENT as u64
    });
    let out = &ledger.destinations["out"];
    assert!(ledger.balanced);
    assert!(out.dropped["queue_full"] > 0, "{out:?}");
    assert_eq!(out.dropped["queue_full"] + out.pending, SENT as u64);
}

#[test]
fn the_newest_go_where_that_is_the_policy_and_are_counted() {
    const SENT: usize = 3_000;
    let inrush = Inrush::start(&tight("drop_newest"));
    fill(&inrush, SENT).join().unwrap();
    let ledger = inrush.wait_until("all received", |l| {
        l.sources["syslog"].received == SENT as u64
    });
    let source = &ledger.sources["syslog"];
    assert!(ledger.balanced && source.rejected["queue_full"] > 0);
    assert_eq!(ledger.destinations["out"].pending, source.accepted);
}

#[test]
fn a_destination_that_comes_back_finds_its_events() {
    let file = to_file(TCP, "");
    let inrush = Inrush::start(&to_hec(NOBODY, ""));
    Tcp::connect(inrush.address("tcp")).send(lines(0..10));
    inrush.wait_until("all pending", |l| l.destinations["out"].pending == 10);
    inrush.rewrite(&file.replace("out:", "other:"));
    assert_eq!(inrush.reload().status, 200);
    let ledger = inrush.ledger();
    assert_eq!(ledger.destinations["out"].pending, 10, "kept for a day");
    inrush.rewrite(&file);
    assert_eq!(inrush.reload().status, 200);
    inrush.wait_until("all delivered", |l| l.destinations["out"].delivered == 10);
    assert_eq!(inrush.events("out.jsonl").len(), 10);
}

#[test]
fn damage_costs_what_it_hits_and_is_counted() {
    let inrush = Inrush::start(&to_hec(NOBODY, ""));
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    for n in 0..3 {
        let before = segment_bytes(&inrush);
        tcp.send(lines(100 * n..100 * n + 100));
        await_written(&inrush, before);
    }
    inrush.wait_until("all pending", |l| l.destinations["out"].pending == 300);
    let (_, dir) = inrush.stop();
    flip_in_the_middle(&dir.path().join("data/queue/0000000000.seg"));
    let inrush = start_in(dir, &to_file(TCP, ""));
    let ledger = inrush.wait_until("all settled", |l| l.destinations["out"].pending == 0);
    let out = &ledger.destinations["out"];
    assert!(ledger.balanced && out.delivered > 0, "{out:?}");
    assert_eq!(out.delivered + out.dropped["corrupt"], 300);
    assert_eq!(inrush.events("out.jsonl").len() as u64, out.delivered);
    let aside = std::fs::read_dir(inrush.path("data/queue/bad")).unwrap();
    assert_eq!(aside.count(), 1);
}

fn flip_in_the_middle(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn a_reload_cannot_take_the_disk_away() {
    let inrush = Inrush::start(&to_file(TCP, ""));
    inrush.rewrite(&(to_file(TCP, "") + "queue: { durability: memory }\n"));
    let answer = inrush.reload();
    assert_ne!(answer.status, 200);
    inrush.signal(Signal::SIGHUP);
    inrush.rewrite(&to_file(TCP, ""));
    assert_eq!(inrush.reload().status, 200);
}
