//! Splunk HEC out, where one event or one answer decides: poison, wrong indexes, refused tokens,
//! acknowledgement across a stop, and the names that events keep when they are sent again.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use inrush_tests::*;
use serde_json::Value;
use tempfile::TempDir;

use crate::hec::{numbers, send, to_hec};

/// Bodies of so many events, whatever time they take to fill.
fn bodies_of(events: usize) -> String {
    format!("workers: 1\nbatch: {{ max_events: {events}, max_bytes: 4MiB, timeout: 60s }}")
}

fn number(event: &Value) -> usize {
    numbers(std::slice::from_ref(event))[0]
}

fn start_in(dir: TempDir, yaml: &str) -> Inrush {
    let options = Options {
        dir: Some(dir),
        ..Options::default()
    };
    Inrush::with(yaml, options)
}

/// What lies in quarantine.
fn quarantine(inrush: &Inrush) -> Vec<Value> {
    let mut cat = Command::new(binary());
    cat.args(["queue", "quarantine", "cat", "--data-dir"]);
    let text = run_ok(cat.arg(inrush.path("data")));
    let line = |line: &str| serde_json::from_str(line).unwrap();
    text.lines().map(line).collect()
}

/// Waits until so many events have a fate.
fn await_fates(inrush: &Inrush, events: u64) -> (u64, u64) {
    let fates = |l: &inrush_event::LedgerSnapshot| {
        let splunk = &l.destinations["splunk"];
        (splunk.delivered, splunk.quarantined.values().sum::<u64>())
    };
    let ledger = inrush.wait_until("a fate for all", |l| fates(l).0 + fates(l).1 >= events);
    fates(&ledger)
}

/// 5,000 events, these of them poison, then 5,000 good ones.
fn poisoned(poison: &[usize], requests_max: usize) {
    const SENT: usize = 5000;
    let poison: BTreeSet<usize> = poison.iter().copied().collect();
    let hec = Hec::start();
    let bad = poison.clone();
    hec.rule(move |event| {
        let code = (6, "Invalid data format");
        bad.contains(&number(event)).then_some(code)
    });
    let inrush = Inrush::start(&to_hec(&[hec.url()], &bodies_of(SENT)));
    send(&inrush, 0..SENT);
    let fates = await_fates(&inrush, SENT as u64);
    assert_eq!(fates, ((SENT - poison.len()) as u64, poison.len() as u64));
    let good: Vec<usize> = (0..SENT).filter(|n| !poison.contains(n)).collect();
    assert_eq!(numbers(&hec.taken()), good, "indexed exactly once");
    let kept = quarantine(&inrush);
    let raw = |line: &Value| line["event"]["raw"].as_str().unwrap().to_owned();
    let wanted: Vec<String> = poison.iter().map(|n| numbered(*n)).collect();
    assert_eq!(kept.iter().map(raw).collect::<Vec<_>>(), wanted);
    for line in &kept {
        let said = (&line["code"], &line["text"]);
        assert_eq!(said, (&6.into(), &"Invalid data format".into()));
    }
    let before = hec.requests().len();
    assert!(before <= requests_max, "{before} requests");
    send(&inrush, SENT..2 * SENT);
    await_fates(&inrush, 2 * SENT as u64);
    assert_eq!(hec.requests().len(), before + 1, "bodies are whole again");
    assert_eq!(inrush.http("GET", "/healthz").status, 200);
}

#[test]
fn poison_costs_itself_first_middle_and_last() {
    for at in [0, 2500, 4999] {
        poisoned(&[at], 2);
    }
}

#[test]
fn several_poison_events_cost_themselves() {
    poisoned(&[0, 1, 7, 2500, 2501, 4998, 4999], 8);
}

#[test]
fn a_long_row_of_poison_is_refused_event_by_event() {
    // One request an event, and not each with all that is left: a few large ones find out.
    poisoned(&(2000..2090).collect::<Vec<_>>(), 120);
}

/// Two sources, one of an index that does not exist.
fn two_indexes(hec: &Hec, more: &str) -> Inrush {
    let more = format!("{}\n{more}", bodies_of(100));
    let typo = "  typo: { type: syslog, listen: [tcp://127.0.0.1:0], index: typo }\n";
    let yaml =
        to_hec(&[hec.url()], &more).replace("destinations:\n", &format!("{typo}destinations:\n"));
    let inrush = Inrush::start(&yaml);
    Tcp::connect(inrush.nth_address("tcp", 0)).send(lines(0..50));
    inrush.wait_until("the first", |l| l.sources["syslog"].accepted == 50);
    Tcp::connect(inrush.nth_address("tcp", 1)).send(lines(50..80));
    inrush.wait_until("the second", |l| l.sources["typo"].accepted == 30);
    Tcp::connect(inrush.nth_address("tcp", 0)).send(lines(80..100));
    inrush
}

#[test]
fn events_of_an_unknown_index_are_sent_to_the_other_one() {
    let hec = Hec::start();
    hec.rule(|event| (event["index"] == "typo").then_some((7, "Incorrect index")));
    let inrush = two_indexes(&hec, "reroute_index: lost");
    inrush.conserved(100);
    assert_eq!(numbers(&hec.taken()), (0..100).collect::<Vec<_>>());
    for event in hec.taken() {
        let moved = (50..80).contains(&number(&event));
        assert_eq!(event["index"], if moved { "lost" } else { "main" });
        let original = event["fields"].get("inrush_index");
        assert_eq!(original, moved.then_some(&Value::from("typo")), "{event}");
    }
    // All; the suspect alone; what stands behind it; the rerouted ones.
    assert!(hec.requests().len() <= 4, "{}", hec.requests().len());
    assert_eq!(inrush.destination()["rerouted"]["typo"], 30);
    let metric =
        r#"inrush_destination_rerouted_events_total{destination="splunk",index="typo"} 30"#;
    let page = inrush.http("GET", "/metrics").body;
    assert!(page.contains(metric), "{page}");
}

#[test]
fn without_another_index_they_are_quarantined_and_the_index_is_named() {
    for (more, said) in [
        ("", "Incorrect index (index `typo`)"),
        (
            "reroute_index: lost",
            "Incorrect index (index `lost`, rerouted from `typo`)",
        ),
    ] {
        let hec = Hec::start();
        hec.rule(|event| (event["index"] != "main").then_some((7, "Incorrect index")));
        let inrush = two_indexes(&hec, more);
        assert_eq!(await_fates(&inrush, 100), (70, 30));
        let good: Vec<usize> = (0..50).chain(80..100).collect();
        assert_eq!(numbers(&hec.taken()), good, "indexed exactly once");
        for line in quarantine(&inrush) {
            assert_eq!((&line["code"], &line["text"]), (&7.into(), &said.into()));
        }
    }
}

/// Requests with an event for that index.
fn asks_for(hec: &Hec, index: &str) -> usize {
    let wants = |event: &Value| event["index"] == index;
    let requests = hec.requests();
    let asks = requests.iter().filter(|one| one.events.iter().any(wants));
    asks.count()
}

#[test]
fn an_unknown_index_is_named_once_and_not_asked_for_by_the_next_events() {
    for (more, fates) in [("", (80, 70)), ("reroute_index: lost", (150, 0))] {
        let hec = Hec::start();
        hec.rule(|event| (event["index"] == "typo").then_some((7, "Incorrect index")));
        let inrush = two_indexes(&hec, more);
        await_fates(&inrush, 100);
        let before = asks_for(&hec, "typo");
        assert!((1..=2).contains(&before), "{before}");
        Tcp::connect(inrush.nth_address("tcp", 0)).send(lines(100..110));
        inrush.wait_until("the first", |l| l.sources["syslog"].accepted == 80);
        Tcp::connect(inrush.nth_address("tcp", 1)).send(lines(110..150));
        inrush.wait_until("the second", |l| l.sources["typo"].accepted == 70);
        Tcp::connect(inrush.nth_address("tcp", 0)).send(lines(150..200));
        assert_eq!(await_fates(&inrush, 200), (fates.0 + 50, fates.1));
        assert_eq!(asks_for(&hec, "typo"), before, "{more}");
        let (exit, _dir) = inrush.stop();
        let named = exit.stderr.matches("does not take this index").count();
        assert_eq!(named, 1, "{}", exit.stderr);
    }
}

#[test]
fn events_of_an_unknown_index_wait_for_it_where_that_is_the_policy() {
    let hec = Hec::start();
    hec.rule(|event| (event["index"] == "typo").then_some((7, "Incorrect index")));
    let inrush = two_indexes(&hec, "unknown_index: hold");
    let health = eventually("the alarm", || {
        let health = inrush.http("GET", "/healthz");
        (health.status == 503).then(|| health.json())
    });
    let edges = health["edges"].as_array().unwrap();
    let edge = edges.iter().find(|edge| edge["name"] == "splunk").unwrap();
    let cause = edge["reason"].as_str().unwrap();
    assert!(cause.contains("index `typo` is not taken"), "{edge}");
    let splunk = inrush.ledger().destinations["splunk"].clone();
    assert_eq!((splunk.delivered, splunk.pending), (50, 50), "{splunk:?}");
    hec.rule(|_| None);
    inrush.conserved(100);
    assert_eq!(numbers(&hec.taken()), (0..100).collect::<Vec<_>>());
    assert_eq!(inrush.http("GET", "/healthz").status, 200);
}

#[test]
fn a_wrong_token_or_address_alarms_at_once_and_discards_nothing() {
    for (status, code, text, reason) in [
        (401, 2, "Token is required", "http_401_403"),
        (401, 3, "Invalid authorization", "http_401_403"),
        (403, 1, "Token disabled", "http_401_403"),
        (403, 4, "Invalid token", "http_401_403"),
        (404, 404, "The requested URL was not found", "http_404"),
        (400, 10, "Data channel is missing", "http_400"),
    ] {
        let hec = Hec::start();
        hec.otherwise(Some(Reply::code(status, code, text)));
        let inrush = Inrush::start(&to_hec(&[hec.url()], ""));
        send(&inrush, 0..100);
        let health = eventually("the alarm", || {
            let health = inrush.http("GET", "/healthz");
            (health.status == 503).then(|| health.json())
        });
        assert!(hec.requests().len() <= 4, "at the first answers");
        let edges = health["edges"].as_array().unwrap();
        let edge = edges.iter().find(|edge| edge["name"] == "splunk").unwrap();
        let cause = edge["reason"].as_str().unwrap();
        assert!(edge["ok"] == false && cause.contains(text), "{edge}");
        let page = inrush.http("GET", "/metrics").body;
        let labels = format!(r#"destination="splunk",reason="{reason}"}}"#);
        assert!(page.contains(&labels), "{page}");
        hec.otherwise(None);
        inrush.conserved(100);
        assert_eq!(numbers(&hec.taken()), (0..100).collect::<Vec<_>>());
        assert_eq!(inrush.http("GET", "/healthz").status, 200);
        let (exit, _dir) = inrush.stop();
        let alarms = exit.stderr.matches("destination holds its events").count();
        assert_eq!(alarms, 1, "{}", exit.stderr);
        assert!(!exit.stderr.contains("s3cret"), "{}", exit.stderr);
    }
}

const ACKS: &str = "acknowledgements: true\nevent_id: true";

/// Sends events that are taken and not confirmed.
fn unconfirmed(hec: &Hec, inrush: &Inrush, range: std::ops::Range<usize>) {
    let (before, sent) = (hec.taken().len(), range.len());
    send(inrush, range);
    eventually("all to be taken", || {
        (hec.taken().len() == before + sent).then_some(())
    });
    let asked = hec.asked();
    eventually("a question", || (hec.asked() > asked).then_some(()));
    let pending = inrush.ledger().destinations["splunk"].pending;
    assert_eq!(pending as usize, before + sent, "taken is not indexed");
}

#[test]
fn what_is_confirmed_during_an_orderly_stop_is_not_sent_again() {
    let hec = Hec::start();
    hec.acknowledge();
    let inrush = Inrush::start(&to_hec(&[hec.url()], ACKS));
    unconfirmed(&hec, &inrush, 0..100);
    hec.confirm_after(5);
    let (exit, dir) = inrush.stop();
    assert!(exit.status.success());
    let inrush = start_in(dir, &to_hec(&[hec.url()], ACKS));
    send(&inrush, 100..101);
    inrush.conserved(1);
    assert_eq!(numbers(&hec.taken()), (0..101).collect::<Vec<_>>());
}

#[test]
fn what_is_confirmed_during_a_reload_is_not_sent_again() {
    let hec = Hec::start();
    hec.acknowledge();
    let inrush = Inrush::start(&to_hec(&[hec.url()], ACKS));
    unconfirmed(&hec, &inrush, 0..100);
    inrush.rewrite(&to_hec(&[hec.url()], &format!("{ACKS}\nworkers: 3")));
    hec.confirm_after(5);
    assert_eq!(inrush.reload().status, 200);
    inrush.conserved(100);
    assert_eq!(numbers(&hec.taken()), (0..100).collect::<Vec<_>>());
}

/// The ids of the events, and how often each was seen, by the number of the event.
fn ids(events: &[Value]) -> BTreeMap<usize, Vec<String>> {
    let mut ids: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for event in events {
        let id = event["fields"]["inrush_id"].as_str().unwrap();
        ids.entry(number(event)).or_default().push(id.to_owned());
    }
    ids
}

#[test]
fn what_is_confirmed_too_late_stays_pending_and_keeps_its_name() {
    let hec = Hec::start();
    hec.acknowledge();
    let inrush = Inrush::start(&to_hec(&[hec.url()], ACKS));
    unconfirmed(&hec, &inrush, 0..100);
    let (exit, dir) = inrush.stop();
    assert!(exit.status.success());
    hec.confirm_after(1);
    let inrush = start_in(dir, &to_hec(&[hec.url()], ACKS));
    inrush.wait_until("all confirmed", |l| {
        let splunk = &l.destinations["splunk"];
        (splunk.delivered, splunk.pending) == (100, 0)
    });
    for (number, ids) in ids(&hec.taken()) {
        assert!(ids.len() == 2 && ids[0] == ids[1], "{number}: {ids:?}");
    }
}

#[test]
fn an_event_keeps_its_name_over_a_crash_and_no_other_has_it() {
    const SENT: usize = 500;
    let hec = Hec::start();
    hec.acknowledge();
    let inrush = Inrush::start(&to_hec(&[hec.url()], ACKS));
    // Batches of their own: their events have the same places in them.
    unconfirmed(&hec, &inrush, 0..SENT / 2);
    unconfirmed(&hec, &inrush, SENT / 2..SENT);
    eventually("the events to be written", || {
        let files = std::fs::read_dir(inrush.path("data/queue")).unwrap();
        let bytes = files.map(|file| file.unwrap().metadata().unwrap().len());
        (bytes.sum::<u64>() > lines(0..SENT).len() as u64).then_some(())
    });
    let (_, dir) = inrush.kill();
    let secret = std::fs::read_to_string(dir.path().join("data/queue/log.json")).unwrap();
    let inrush = start_in(dir, &to_hec(&[hec.url()], ACKS));
    eventually("all to be sent again", || {
        (hec.taken().len() >= 2 * SENT).then_some(())
    });
    hec.confirm_after(1);
    send(&inrush, SENT..2 * SENT);
    let ledger = inrush.wait_until("all confirmed", |l| {
        l.destinations["splunk"].delivered == 2 * SENT as u64
    });
    assert!(ledger.balanced);
    let ids = ids(&hec.taken());
    assert_eq!(ids.len(), 2 * SENT);
    let mut unique = BTreeSet::new();
    for (number, mut ids) in ids {
        let times = if number < SENT { 2 } else { 1 };
        assert_eq!(ids.len(), times, "{number}: {ids:?}");
        ids.dedup();
        assert_eq!(ids.len(), 1, "{number}: {ids:?}");
        let log = ids[0].split('-').next().unwrap();
        assert!(log.len() == 12 && !secret.contains(log), "{ids:?}");
        assert!(unique.insert(ids.remove(0)), "{number}");
    }
}
