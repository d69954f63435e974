//! What befalls a store's files and system calls costs no acknowledged event, and nobody else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use inrush_tests::*;
use serde_json::json;

use crate::TCP;
use crate::store::sql;

const TO_BOTH: &str = "destinations:\n  local: { type: store, flush_after: 100ms }\n  \
    tape: { type: file, path: \"{dir}/tape.jsonl\" }\n";

fn config(listen: &str) -> String {
    format!("sources:\n  syslog: {{ type: syslog, listen: [{listen}] }}\n{TO_BOTH}")
}

fn again(dir: tempfile::TempDir, yaml: &str) -> Inrush {
    let dir = Some(dir);
    let options = Options {
        dir,
        ..Options::default()
    };
    Inrush::with(yaml, options)
}

/// `inrush store …` on the data folder of a process that may run.
fn store_command(inrush: &Inrush, words: &[&str]) -> Output {
    Command::new(binary())
        .arg("store")
        .args(words)
        .arg("-c")
        .arg(inrush.path("inrush.yaml"))
        .arg("--data-dir")
        .arg(inrush.path("data"))
        .output()
        .unwrap()
}

/// The commits of the store below a test's folder, in order.
fn commits(dir: &Path) -> Vec<PathBuf> {
    let log = fs::read_dir(dir.join("data/store/_log")).unwrap();
    let paths = log.map(|entry| entry.unwrap().path());
    let mut commits: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "commit"))
        .collect();
    commits.sort();
    commits
}

/// A store of three commits, of 10 events each, and its folder.
fn filled(yaml: &str) -> tempfile::TempDir {
    let inrush = Inrush::start(yaml);
    let mut sender = Tcp::connect(inrush.address("tcp"));
    for part in 0..3 {
        sender.send(lines(part * 10..part * 10 + 10));
        inrush.wait_until("committed", |ledger| {
            ledger.destinations["local"].delivered == 10 * (part as u64 + 1)
        });
    }
    inrush.stop().1
}

#[test]
fn a_damaged_list_holds_the_store_and_nothing_else_until_it_is_repaired() {
    let yaml = config(TCP);
    let dir = filled(&yaml);
    let commit = commits(dir.path()).swap_remove(1);
    let mut bytes = fs::read(&commit).unwrap();
    bytes[30] ^= 1;
    fs::write(&commit, bytes).unwrap();
    let inrush = again(dir, &yaml);
    Tcp::connect(inrush.address("tcp")).send(lines(30..40));
    let ledger = inrush.wait_until("the file has them", |ledger| {
        ledger.destinations["tape"].delivered == 10
    });
    assert_eq!(ledger.destinations["local"].pending, 10);
    assert!(ledger.balanced, "{ledger:?}");
    let local = inrush.destination_named("local").to_string();
    assert!(local.contains("inrush store repair"), "{local}");
    assert_eq!(inrush.http("GET", "/healthz").status, 503);
    let listed = store_command(&inrush, &["ls"]);
    assert_eq!(listed.status.code(), Some(1), "{listed:?}");
    let verified = store_command(&inrush, &["verify", "--json"]);
    assert_eq!(verified.status.code(), Some(1), "{verified:?}");
    let repaired = store_command(&inrush, &["repair"]);
    assert_eq!(repaired.status.code(), Some(0), "{repaired:?}");
    inrush.wait_until("the store goes on by itself", |ledger| {
        ledger.balanced && ledger.destinations["local"].delivered == 10
    });
    let counts = "select count(*), count(distinct seq) from events";
    assert_eq!(sql(&inrush, counts), json!([40, 40]));
    let verified = store_command(&inrush, &["verify"]);
    assert_eq!(verified.status.code(), Some(0), "{verified:?}");
    let exported = store_command(&inrush, &["export"]).stdout;
    assert_eq!(String::from_utf8(exported).unwrap().lines().count(), 40);
}

#[test]
fn the_last_commit_that_is_lost_loses_no_event() {
    let yaml = config(TCP);
    let dir = filled(&yaml);
    fs::remove_file(commits(dir.path()).pop().unwrap()).unwrap();
    let inrush = again(dir, &yaml);
    let counts = "select count(*), count(distinct seq) from events";
    assert_eq!(sql(&inrush, counts), json!([30, 30]));
    assert!(inrush.stderr().contains("was not in the list"));
}

/// Has a system call of the process fail, as `strace` says it; ends with it.
struct Injected(std::process::Child);

impl Injected {
    fn into(inrush: &Inrush, call: &str, how: &str) -> Option<Self> {
        let strace = tool("strace")?;
        let child = Command::new(strace)
            .args(["-f", "-o", "/dev/null", "-p", &inrush.pid().to_string()])
            .args(["-e", &format!("trace={call}")])
            .args(["-e", &format!("inject={call}:{how}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let status = format!("/proc/{}/status", inrush.pid());
        eventually("strace has attached itself", || {
            let status = fs::read_to_string(&status).ok()?;
            let line = status.lines().find(|line| line.starts_with("TracerPid"))?;
            (!line.ends_with("\t0")).then_some(())
        });
        Some(Self(child))
    }
}

impl Drop for Injected {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(self.0.id() as i32);
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

#[test]
fn a_file_that_cannot_be_given_its_name_is_searched_all_the_same() {
    if !is_root() || tool("strace").is_none() {
        skip!("no strace, or no right to use it")
    }
    let yaml = config(TCP);
    let inrush = Inrush::start(&yaml);
    let mut sender = Tcp::connect(inrush.address("tcp"));
    // The first puts the bytes in their place, the second gives the committed file its name.
    let Some(injected) = Injected::into(&inrush, "rename", "error=EIO:when=2") else {
        skip!("strace cannot be started")
    };
    sender.send(lines(0..10));
    inrush.wait_until("committed", |ledger| {
        ledger.destinations["local"].delivered == 10
    });
    eventually("the file has its first name", || {
        inrush
            .stderr()
            .contains("a file has its first name")
            .then_some(())
    });
    drop(injected);
    let counts = "select count(*), count(distinct seq) from events";
    assert_eq!(sql(&inrush, counts), json!([10, 10]));
    assert!(
        !inrush.stderr().contains("set aside"),
        "{}",
        inrush.stderr()
    );
    // Other processes know no more than the list.
    let verified = store_command(&inrush, &["verify"]);
    assert_eq!(verified.status.code(), Some(0), "{verified:?}");
    let exported = store_command(&inrush, &["export"]).stdout;
    assert_eq!(String::from_utf8(exported).unwrap().lines().count(), 10);
    let inrush = again(inrush.stop().1, &yaml);
    assert_eq!(sql(&inrush, counts), json!([10, 10]));
    let verified = store_command(&inrush, &["verify"]);
    assert_eq!(verified.status.code(), Some(0), "{verified:?}");
}

/// How often the store has committed, or failed to.
fn tries(inrush: &Inrush) -> u64 {
    inrush.destination_named("local")["requests"]
        .as_u64()
        .unwrap()
}

#[test]
fn a_system_call_that_fails_while_the_store_commits_loses_no_acknowledged_event() {
    if !is_root() || tool("strace").is_none() {
        skip!("no strace, or no right to use it")
    }
    let yaml = config("relp://127.0.0.1:0");
    for (call, how) in [
        ("fsync", "error=EIO:when=2"),
        ("fsync", "error=EIO:when=3"),
        ("fsync", "error=ENOSPC:when=2+3"),
        ("linkat", "error=EIO:when=1"),
        ("rename", "error=EIO:when=1"),
        ("unlink", "error=EIO:when=1+2"),
        ("openat", "error=EMFILE:when=3+4"),
    ] {
        let inrush = Inrush::start(&yaml);
        let mut relp = Relp::open(inrush.address("relp"));
        let mut sent = 0;
        let mut send = |events: u32| {
            let message = |n| format!("<13>1 - h a - N{n} - x");
            let numbers: Vec<u32> = (sent..sent + events)
                .map(|n| relp.syslog(&message(n)))
                .collect();
            sent += events;
            relp.acked(numbers);
        };
        send(100);
        let Some(injected) = Injected::into(&inrush, call, how) else {
            skip!("strace cannot be started")
        };
        for _ in 0..5 {
            let before = tries(&inrush);
            send(100);
            eventually("the store has tried to commit", || {
                (tries(&inrush) > before).then_some(())
            });
        }
        drop(injected);
        send(100);
        let inrush = again(inrush.kill().1, &yaml);
        inrush.wait_until("all is in the store", |ledger| {
            ledger.balanced && ledger.destinations["local"].pending == 0
        });
        let counts = "select count(*), count(distinct seq), count(distinct msg_id) from events";
        assert_eq!(sql(&inrush, counts), json!([700, 700, 700]), "{call} {how}");
    }
}
