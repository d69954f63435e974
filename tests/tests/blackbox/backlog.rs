//! Each destination has a budget and a policy of its own: one that stands still costs the others
//! nothing, and the ledger is right to the event.

use std::collections::BTreeSet;
use std::time::Duration;

use inrush_event::LedgerSnapshot;
use inrush_tests::*;
use serde_json::Value;

use crate::TCP;

/// A destination that takes nothing, for as long as nothing listens there.
const NOBODY: &str = "http://127.0.0.1:1";

/// Bytes of a long message, and how many of them are three times what a small backlog holds.
const LONG_BYTES: usize = 16_000;
const SENT: usize = 3_000;

/// A file that takes everything, and a collector with options of its own.
fn beside(url: &str, options: &str, queue: &str) -> String {
    format!(
        "sources:\n  syslog: {{ type: syslog, listen: [\"{TCP}\"] }}\n\
         destinations:\n  out: {{ type: file, path: \"{{dir}}/out.jsonl\" }}\n  \
         dead: {{ type: splunk_hec, endpoints: [\"{url}\"], token: t, {options} }}\n\
         queue: {{ memory_bytes: 4MiB{queue} }}\nshutdown_timeout: 1s\n"
    )
}

fn limited(policy: &str) -> String {
    format!("queue: {{ max_bytes: 16MiB, when_full: {policy} }}")
}

fn send_long(inrush: &Inrush, messages: usize) -> std::thread::JoinHandle<()> {
    let to = inrush.address("tcp");
    std::thread::spawn(move || {
        let long = "x".repeat(LONG_BYTES);
        let mut tcp = Tcp::connect(to);
        for n in 0..messages {
            tcp.send(format!("{} {long}\n", numbered(n)));
        }
    })
}

fn all_to_the_healthy(inrush: &Inrush) -> LedgerSnapshot {
    inrush.wait_until("all delivered to the healthy", |l| {
        l.destinations["out"].delivered == SENT as u64
    })
}

fn queue_bytes(inrush: &Inrush) -> u64 {
    inrush.json("/api/v1/flow")["queue"]["disk_bytes"]
        .as_u64()
        .unwrap()
}

#[test]
fn a_dead_destination_drops_its_own_events_and_nobody_elses() {
    for policy in ["drop_oldest", "drop_newest"] {
        let inrush = Inrush::start(&beside(NOBODY, &limited(policy), ""));
        send_long(&inrush, SENT).join().unwrap();
        let ledger = all_to_the_healthy(&inrush);
        let (out, dead) = (&ledger.destinations["out"], &ledger.destinations["dead"]);
        assert!(
            ledger.balanced && out.dropped.is_empty(),
            "{policy}: {ledger:?}"
        );
        assert!(ledger.sources["syslog"].rejected.is_empty(), "{policy}");
        let dropped = dead.dropped["queue_full"];
        assert_eq!(dropped + dead.pending, SENT as u64, "{policy}");
        // A third fits; what is in flight or not written yet comes on top.
        assert!(
            (600..1500).contains(&dead.pending),
            "{policy}: {}",
            dead.pending
        );
        assert_eq!(inrush.events("out.jsonl").len(), SENT, "{policy}");
        // Segments that only the healthy one needed go, also from between those of the dead one.
        eventually("the queue to keep what the dead one keeps", || {
            (queue_bytes(&inrush) <= 20 << 20).then_some(())
        });
        let (_, dir) = inrush.stop();
        // What is kept comes, each once, after a restart too.
        let hec = Hec::start();
        let options = Options {
            dir: Some(dir),
            ..Options::default()
        };
        let yaml = beside(&hec.url(), &limited(policy), "");
        let inrush = Inrush::with(&yaml, options);
        inrush.wait_until("the backlog to be delivered", |l| {
            l.destinations["dead"].pending == 0
        });
        let taken = hec.taken();
        let dead = inrush.ledger().destinations["dead"].clone();
        assert_eq!(taken.len() as u64, dead.delivered, "{policy}: {dead:?}");
        assert!(dead.dropped.is_empty(), "{policy}: {dead:?}");
        let has = |number| {
            let name = format!("ID{number} ");
            taken.iter().any(|event| event.to_string().contains(&name))
        };
        match policy {
            "drop_oldest" => assert!(has(SENT - 1) && !has(0), "{policy}"),
            // The newest may be in a batch so small that it found room.
            _ => assert!(has(0), "{policy}"),
        }
    }
}

#[test]
fn what_is_in_flight_when_its_segment_makes_room_counts_as_it_is_answered() {
    let hec = Hec::start();
    hec.answer_after(Duration::from_millis(150));
    let options = limited("drop_oldest") + ", workers: 4";
    let inrush = Inrush::start(&beside(&hec.url(), &options, ""));
    send_long(&inrush, SENT).join().unwrap();
    all_to_the_healthy(&inrush);
    hec.answer_after(Duration::ZERO);
    let ledger = inrush.wait_until("nothing to be pending", |l| {
        l.destinations["dead"].pending == 0
    });
    let dead = &ledger.destinations["dead"];
    let taken = hec.taken();
    let once: BTreeSet<String> = taken.iter().map(|event| event.to_string()).collect();
    assert_eq!(once.len(), taken.len(), "each once");
    assert!(dead.dropped["queue_full"] > 0, "it was too slow: {dead:?}");
    assert_eq!(dead.delivered, taken.len() as u64, "{dead:?}");
    assert_eq!(dead.delivered + dead.dropped["queue_full"], SENT as u64);
}

#[test]
fn sources_wait_for_a_destination_that_blocks_and_the_alarm_names_it() {
    let inrush = Inrush::start(&beside(NOBODY, &limited("block"), ""));
    let sender = send_long(&inrush, SENT);
    let alarm = eventually("the alarm", || {
        let alarms = inrush.json("/api/v1/flow")["alarms"].clone();
        let alarms = alarms.as_array().unwrap().clone();
        // Before that, sources may have waited for memory while the disk was slow.
        let text = "Sources do not read, because the backlog of destination dead is full.";
        let is_it = |alarm: &Value| alarm["id"] == "queue-full" && alarm["what"] == text;
        alarms.into_iter().find(is_it)
    });
    assert_eq!(alarm["severity"], "critical");
    assert!(
        alarm["remedy"].as_str().unwrap().contains("drop_oldest"),
        "{alarm}"
    );
    let ledger = inrush.ledger();
    assert!(ledger.sources["syslog"].received < SENT as u64);
    assert!(ledger.destinations["dead"].dropped.is_empty());
    // Another policy counts at once, and no sink is started anew.
    inrush.rewrite(&beside(NOBODY, &limited("drop_newest"), ""));
    let answer = inrush.reload();
    assert_eq!(answer.status, 200);
    assert!(
        answer.body.contains("queue of destination dead"),
        "{}",
        answer.body
    );
    sender.join().unwrap();
    let ledger = all_to_the_healthy(&inrush);
    assert!(ledger.balanced && ledger.destinations["dead"].dropped["queue_full"] > 0);
}

#[test]
fn the_events_of_a_destination_that_was_removed_make_room_before_anybody_waits() {
    let whole = ", max_bytes: 16MiB";
    let inrush = Inrush::start(&beside(NOBODY, "", whole));
    send_long(&inrush, 500).join().unwrap();
    inrush.wait_until("a backlog", |l| l.destinations["dead"].pending == 500);
    let yaml = beside(NOBODY, "", whole);
    let without: Vec<&str> = yaml
        .lines()
        .filter(|line| !line.contains("dead:"))
        .collect();
    inrush.rewrite(&(without.join("\n") + "\n"));
    assert_eq!(inrush.reload().status, 200);
    send_long(&inrush, SENT - 500).join().unwrap();
    let ledger = all_to_the_healthy(&inrush);
    assert!(ledger.balanced && ledger.destinations["dead"].dropped["removed"] > 0);
}

#[test]
fn limits_that_contradict_each_other_are_explained() {
    let yaml = beside(NOBODY, "queue: { max_bytes: 1GiB }", ", max_bytes: 64MiB");
    let words = refused(&yaml);
    assert!(words.contains("`queue.max_bytes` of `dead`"), "{words}");
    assert!(words.contains("64MiB") && words.contains(":5:"), "{words}");
}

/// What `check` says to a configuration that cannot be used.
fn refused(yaml: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("inrush.yaml");
    std::fs::write(&path, yaml.replace("{dir}", dir.path().to_str().unwrap())).unwrap();
    let check = std::process::Command::new(binary())
        .args(["check", "-c"])
        .arg(&path)
        .output()
        .unwrap();
    assert_eq!(check.status.code(), Some(2));
    String::from_utf8(check.stderr).unwrap() + &String::from_utf8(check.stdout).unwrap()
}
