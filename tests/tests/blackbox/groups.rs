//! Messages of which several make one event, end to end.

use std::time::{Duration, Instant};

use inrush_event::LedgerSnapshot;
use inrush_tests::*;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::packs::with_pack;
use crate::{TCP, hec, to_file};

pub(crate) fn to_hec(endpoints: &[String], packs: &str) -> String {
    let packs = format!("packs: {{ enabled: true{packs} }}\n");
    format!("{}{packs}", hec::to_hec(endpoints, ""))
}

pub(crate) const VSPHERE: &str = ", options: { vmware_vsphere_groupmsg: \"yes\" }";

/// Part `number` of `parts` of the message `serial`.
fn ise(serial: u32, parts: u32, number: u32, text: &str) -> String {
    format!(
        "<181>May  6 07:08:09 psn1 CISE_RADIUS_Accounting {serial:010} {parts} {number} {text}\n"
    )
}

fn esx(text: &str) -> String {
    format!("<166>2024-05-06T07:08:09.250Z esx4 Hostd: {text}\n")
}

fn events(hec: &Hec) -> Vec<Value> {
    let taken = hec.taken();
    taken.iter().map(|taken| taken["event"].clone()).collect()
}

fn held(ledger: &LedgerSnapshot) -> u64 {
    ledger.sources["syslog"].held
}

/// Waits until so many were accepted and nothing waits; the ledger must balance all the while.
pub(crate) fn settled(inrush: &Inrush, accepted: u64) -> LedgerSnapshot {
    inrush.wait_until("all accepted", |ledger| {
        assert!(ledger.balanced, "{ledger:#?}");
        let sources = ledger.sources.values();
        let sum: u64 = sources.map(|source| source.accepted).sum();
        sum >= accepted && ledger.destinations.values().all(|d| d.pending == 0)
    })
}

#[test]
fn parts_of_one_message_go_out_as_one_in_their_order() {
    let hec = Hec::start();
    let inrush = Inrush::start(&to_hec(&[hec.url()], ""));
    let mut sender = Tcp::connect(inrush.address("tcp"));
    sender.send(ise(7, 3, 2, "Step=3,").as_bytes());
    sender.send(ise(8, 2, 0, "2024-05-06 07:08:08.500 +00:00 other,").as_bytes());
    let waiting = inrush.wait_until("two held", |ledger| held(ledger) == 2);
    let source = &waiting.sources["syslog"];
    assert!(waiting.balanced, "{waiting:#?}");
    assert_eq!((source.received, source.accepted), (2, 0));
    let metrics = inrush.http("GET", "/metrics").body;
    let line = "inrush_source_held_events{source=\"syslog\"} 2";
    assert!(metrics.contains(line), "{metrics}");
    eventually("a snapshot of the flow that has both", || {
        let flow = inrush.json("/api/v1/flow");
        (flow["sources"][0]["held"] == 2).then_some(())
    });
    let senders = inrush.json("/api/v1/senders");
    assert!(
        senders.to_string().contains("127.0.0.1"),
        "known while its events wait: {senders}"
    );
    let rest = ise(7, 3, 0, "2024-05-06 07:08:09.123 +00:00 first,") + &ise(7, 3, 1, "Step=2,");
    sender.send(rest.as_bytes());
    let ledger = settled(&inrush, 3);
    assert_eq!(held(&ledger), 1, "the other message waits on");
    assert_eq!(ledger.filtered["grouped:cisco_ise_parts"], 2);
    assert_eq!(ledger.destinations["splunk"].accepted, 1);
    let taken = hec.taken();
    let wanted = "CISE_RADIUS_Accounting 0000000007 1 0 2024-05-06 07:08:09.123 +00:00 first,\
        Step=2,Step=3,";
    assert_eq!(taken[0]["event"], wanted);
    assert_eq!(taken[0]["sourcetype"], "cisco:ise:syslog");
    assert_eq!(taken[0]["host"], "psn1");
    assert_eq!(taken[0]["time"], "1714979289.123", "that of the first part");
    inrush.signal(Signal::SIGTERM);
    let status = eventually("the end", || Some(hec.taken()).filter(|t| t.len() == 2));
    let event = status[1]["event"].as_str().unwrap();
    assert!(
        event.ends_with("other,"),
        "what waits goes out at the end: {event}"
    );
    assert_eq!(
        status[1]["fields"]["inrush_anomalies"],
        json!("group_incomplete|time_skewed")
    );
}

#[test]
fn parts_over_udp_meet_too() {
    let hec = Hec::start();
    let config = to_hec(&[hec.url()], "").replace(crate::TCP, crate::UDP_TCP);
    let inrush = Inrush::start(&config);
    let parts = [
        ise(9, 2, 1, "Step=2,"),
        ise(9, 2, 0, "2024-05-06 07:08:09.123 +00:00 first,"),
    ];
    send_udp(inrush.address("udp"), parts);
    let ledger = settled(&inrush, 2);
    assert_eq!(ledger.filtered["grouped:cisco_ise_parts"], 1);
    let event = &events(&hec)[0];
    assert!(
        event.as_str().unwrap().ends_with(" first,Step=2,"),
        "{event}"
    );
}

#[test]
fn lines_of_one_message_go_out_together_when_no_more_come() {
    let hec = Hec::start();
    let inrush = Inrush::start(&to_hec(&[hec.url()], VSPHERE));
    let start = Instant::now();
    let lines = [
        esx("info hostd[2099] (vim.fault.NotFound) {"),
        esx("-->    faultCause = null"),
        "<13>May  6 07:08:09 h1 gadget[4]: between\n".to_owned(),
        esx("--> }"),
    ];
    Tcp::connect(inrush.address("tcp")).send(lines.concat().as_bytes());
    let first = settled(&inrush, 1);
    // Unless this machine was so slow that their time is up already.
    assert!(
        held(&first) == 3 || start.elapsed() >= Duration::from_secs(2),
        "{first:#?}"
    );
    let ledger = settled(&inrush, 4);
    assert_eq!(held(&ledger), 0);
    assert_eq!(ledger.filtered["grouped:vmware_vsphere_multiline"], 2);
    let wanted = "Hostd: info hostd[2099] (vim.fault.NotFound) {\n\
        -->    faultCause = null\n--> }";
    assert_eq!(events(&hec), [json!("gadget[4]: between"), json!(wanted)]);
    let odd = &hec.taken()[1]["fields"]["inrush_anomalies"];
    assert_eq!(odd, "time_skewed", "and not incomplete");
}

#[test]
fn a_reload_has_what_waits_go_out() {
    let hec = Hec::start();
    let inrush = Inrush::start(&to_hec(&[hec.url()], ""));
    let mut sender = Tcp::connect(inrush.address("tcp"));
    sender.send(ise(1, 2, 0, "a").as_bytes());
    inrush.wait_until("held", |ledger| held(ledger) == 1);
    let without = to_hec(&[hec.url()], ", disable: [cisco_ise_parts]");
    inrush.rewrite(&without);
    let answer = inrush.reload();
    assert_eq!(answer.status, 200, "{}", answer.body);
    // Other packs count from the next event on; what waited does not get its second part then.
    sender.send(ise(1, 2, 1, "b").as_bytes());
    let ledger = settled(&inrush, 2);
    assert_eq!(
        (held(&ledger), ledger.filtered.len()),
        (0, 0),
        "{ledger:#?}"
    );
    let first = "CISE_RADIUS_Accounting 0000000001 1 0 a";
    let second = "CISE_RADIUS_Accounting 0000000001 2 1 b";
    let mut found: Vec<_> = events(&hec);
    found.sort_by_key(Value::to_string);
    assert_eq!(found, [json!(first), json!(second)]);
}

#[test]
fn who_is_answered_is_not_kept_waiting() {
    let yaml = "sources:\n  syslog: { type: syslog, listen: [\"relp://127.0.0.1:0\"] }\n\
        destinations:\n  out: { type: file, path: \"{dir}/out.jsonl\" }\npacks: { enabled: true }\n";
    let inrush = Inrush::start(yaml);
    let mut relp = Relp::open(inrush.address("relp"));
    for number in 0..2 {
        let txnr = relp.syslog(ise(1, 3, number, "x").trim_end());
        relp.acked([txnr]);
        let ledger = inrush.ledger();
        assert!(ledger.balanced && held(&ledger) == 0, "{ledger:#?}");
        assert_eq!(ledger.sources["syslog"].accepted, u64::from(number) + 1);
    }
    inrush.conserved(2);
}

#[test]
fn a_flood_of_parts_that_never_end_comes_out_whole_in_bounded_memory() {
    let yaml = "sources:\n  syslog: { type: syslog, listen: [\"tcp://127.0.0.1:0\"] }\n\
        destinations:\n  out: { type: blackhole }\npacks: { enabled: true }\n";
    let inrush = Inrush::start(yaml);
    let text = "x".repeat(8000);
    let mut sender = Tcp::connect(inrush.address("tcp"));
    let before = inrush.rss_bytes();
    const PARTS: u32 = 8_000;
    for serial in 0..PARTS / 4 {
        let parts = (0..4).map(|part| ise(serial, 9, part, &text));
        sender.send(parts.collect::<String>().as_bytes());
    }
    let most = inrush.wait_until("all received", |ledger| {
        assert!(ledger.balanced, "{ledger:#?}");
        ledger.sources["syslog"].received == u64::from(PARTS)
    });
    // 16 MiB wait at most.
    assert!(held(&most) <= 16 * 1024 * 1024 / 8000, "{most:#?}");
    let grown = inrush.rss_bytes().saturating_sub(before);
    assert!(grown < 256 << 20, "{grown} bytes");
    inrush.signal(Signal::SIGTERM);
    let log = eventually("the end", || {
        Some(inrush.stderr()).filter(|log| log.contains("stopped"))
    });
    assert!(!log.contains("ERROR"), "{log}");
}

#[test]
fn explain_says_what_waits_and_shows_what_comes_out() {
    let dir = tempfile::tempdir().unwrap();
    let config = "sources: { s: { type: syslog, listen: [\"tcp://127.0.0.1:0\"] } }\n\
        destinations: { d: { type: blackhole } }\npacks: { enabled: true }\n";
    std::fs::write(dir.path().join("inrush.yaml"), config).unwrap();
    let record = |raw: &str, at: f64| json!({ "raw": raw.trim_end(), "received_at": at });
    let lines = [
        record(&ise(1, 2, 1, "b"), 1_714_979_289.0),
        record(&ise(2, 2, 0, "late"), 1_714_979_290.0),
        record(&ise(1, 2, 0, "a,"), 1_714_979_291.0),
        record("<13>May  6 07:08:31 h1 gadget: after", 1_714_979_311.0),
        record(&ise(3, 2, 0, "last"), 1_714_979_311.0),
    ];
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let said = |fresh: &[&str]| -> Vec<Value> {
        let args = [
            &["explain", "-c", "inrush.yaml", "--input", "json", "--json"],
            fresh,
        ]
        .concat();
        let output = crate::packs::inrush(&args, dir.path(), &input);
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let texts = |said: &Value| -> Vec<String> {
        let list = said["envelope"].as_array().unwrap().iter();
        list.map(|event| event["event"].as_str().unwrap().to_owned())
            .collect()
    };
    let together = said(&[]);
    assert_eq!(together.len(), 6, "five, and what waited at the end");
    let fates: Vec<_> = together
        .iter()
        .map(|one| one["part"]["fate"].clone())
        .collect();
    let none = Value::Null;
    let wanted = [
        json!("held"),
        json!("held"),
        json!("joined"),
        none.clone(),
        json!("held"),
        none,
    ];
    assert_eq!(fates, wanted);
    let name = "CISE_RADIUS_Accounting 000000000";
    assert!(texts(&together[0]).is_empty() && together[0]["hec"].is_null());
    assert_eq!(texts(&together[2]), [format!("{name}1 1 0 a,b")]);
    assert_eq!(
        texts(&together[3]),
        [format!("{name}2 1 0 late"), "gadget: after".into()]
    );
    assert_eq!(texts(&together[5]), [format!("{name}3 1 0 last")]);
    let alone = said(&["--fresh"]);
    assert_eq!(alone.len(), 5);
    assert_eq!(alone[0]["part"]["fate"], "alone");
    assert_eq!(texts(&alone[0]), [format!("{name}1 2 1 b")]);
}

/// Two parts of a gadget's message, which wait five minutes for each other.
const PATIENT: &str = r#"
about: a gadget
rules:
  - name: gadget
    stage: program
    when: { program: gadget }
    set: { vendor: acme, product: gadget }
    samples:
      - raw: "<13>May  6 07:08:09 h1 gadget: 7 1/2 a"
        expect: { host: h1 }
  - name: gadget_parts
    stage: after
    when: { program: gadget }
    read:
      - regex: '^(?<id>\d+) (?<number>\d+)/(?<parts>\d+) (?<rest>.*)$'
    group: { by: ["${id}"], seconds: 300, parts: "${parts}", order: "${number}", part: "${rest}" }
    samples:
      - raw: ["<13>May  6 07:08:09 h1 gadget: 7 1/2 a", "<13>May  6 07:08:09 h1 gadget: 7 2/2 b"]
        expect: { event: ab }
"#;

#[test]
fn what_comes_while_a_part_waits_does_not_wait_for_it() {
    let dir = with_pack(PATIENT);
    let file = dir.path().join("own.yaml");
    let packs = format!("packs: {{ enabled: true, files: [{file:?}] }}\n");
    let inrush = Inrush::start(&format!("{}{packs}", to_file(TCP, "")));
    let mut sender = Tcp::connect(inrush.address("tcp"));
    sender.send(b"<13>May  6 07:08:09 h1 gadget: 7 1/2 a\n");
    inrush.wait_until("it is held", |ledger| held(ledger) == 1);
    // As a device sends: one after the other, with a pause.
    for n in 0..100 {
        sender.send(format!("<13>May  6 07:08:09 h1 app: event {n}\n").as_bytes());
        std::thread::sleep(Duration::from_millis(3));
    }
    inrush.wait_until("all else is accepted", |ledger| {
        ledger.sources["syslog"].accepted == 100 && held(ledger) == 1
    });
}
