//! Times: those that are far from ours are flagged, and those without a zone get one.

use inrush_tests::*;
use jiff::{Span, Timestamp, tz::TimeZone};
use serde_json::{Value, json};

use crate::packs::inrush;
use crate::{TCP, UDP_TCP, to_file};

/// RFC 5424 with the time `span` from now.
fn at(span: Span, id: &str) -> String {
    let time = Timestamp::now().checked_add(span).unwrap();
    format!("<13>1 {time} h1 app - {id} - x\n")
}

fn flags(event: &Value) -> Vec<&str> {
    let list = event["anomalies"].as_array();
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// The events that are flagged as far from ours, by their message ids.
fn skewed(events: &[Value]) -> Vec<&str> {
    let is = |event: &&Value| flags(event).contains(&"time_skewed");
    let mut ids: Vec<_> = events
        .iter()
        .filter(is)
        .map(|event| event["msg_id"].as_str().unwrap_or("-"))
        .collect();
    ids.sort_unstable();
    ids
}

fn metric(inrush: &Inrush, line: &str) -> Option<()> {
    let page = inrush.http("GET", "/metrics").body;
    page.lines().any(|other| other == line).then_some(())
}

#[test]
fn a_time_far_from_ours_is_kept_flagged_and_counted() {
    let inrush = Inrush::start(&to_file(UDP_TCP, "max_time_skew: 1h"));
    let (minutes, hours) = (|n| Span::new().minutes(n), |n| Span::new().hours(n));
    let sent = [
        at(minutes(0), "now"),
        at(minutes(-50), "late"),
        at(hours(2), "future"),
        at(hours(-2), "past"),
        at(hours(-24 * 365 * 20), "unset"),
        "<13>1 - h1 app - none - x\n".to_owned(),
        "no header\n".to_owned(),
    ];
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    tcp.send(sent.concat());
    send_udp(inrush.address("udp"), [at(hours(-2), "udp").trim_end()]);
    let events = inrush.collected(8);
    assert_eq!(skewed(&events), ["future", "past", "udp", "unset"]);
    let unset = events
        .iter()
        .find(|event| event["msg_id"] == "unset")
        .unwrap();
    let sent_time = sent[4].split(' ').nth(1).unwrap();
    assert_eq!(unset["time"].as_str().unwrap()[..19], sent_time[..19]);
    assert_eq!(inrush.source()["anomalies"]["time_skewed"], 4);
    let line = "inrush_source_anomalies_total{source=\"syslog\",anomaly=\"time_skewed\"} 4";
    metric(&inrush, line).unwrap();

    inrush.rewrite(&to_file(UDP_TCP, "max_time_skew: 0s"));
    assert_eq!(inrush.reload().status, 200);
    tcp.send(at(hours(-2), "any"));
    assert_eq!(skewed(&inrush.collected(9)).len(), 4, "nothing is too far");
}

#[test]
fn a_time_that_a_rule_read_counts_like_that_of_the_header() {
    let packs = "packs: { enabled: true }\n";
    let inrush = Inrush::start(&format!("{}{packs}", to_file(TCP, "")));
    let now = Timestamp::now().to_zoned(TimeZone::UTC);
    let pan = |written: &str| {
        format!(
            "<14>{} pa1 1,{written},001122334455,TRAFFIC,end,1,{written},192.0.2.1,198.51.100.2\n",
            now.strftime("%b %e %H:%M:%S")
        )
    };
    let right = now.strftime("%Y/%m/%d %H:%M:%S").to_string();
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    tcp.send(pan(&right) + &pan("2024/05/06 07:08:10"));
    let events = inrush.collected(2);
    assert_eq!(events[1]["time"], "2024-05-06T07:08:10.000Z");
    let flagged = events
        .iter()
        .map(|event| flags(event).contains(&"time_skewed"));
    assert_eq!(flagged.collect::<Vec<_>>(), [false, true]);
    let count = &inrush.source()["anomalies"]["time_skewed"];
    assert_eq!(*count, 1, "a day, unless configured");
}

/// What a clock five hours behind UTC says now, as old devices write it.
fn in_new_york() -> String {
    let zone = TimeZone::fixed(jiff::tz::offset(-5));
    let time = Timestamp::now().to_zoned(zone).strftime("%b %e %H:%M:%S");
    format!("<13>{time} h1 app: x\n")
}

/// Whether the last event has the zone that was guessed, and with it a time that is ours.
fn last_is_guessed(inrush: &Inrush) -> bool {
    let events = inrush.events_so_far("out.jsonl");
    let last = events.last().unwrap();
    let time = |key: &str| last[key].as_str().unwrap().parse::<Timestamp>().unwrap();
    let apart = (time("received") - time("time"))
        .total(jiff::Unit::Second)
        .unwrap();
    let guessed = flags(last).contains(&"zone_guessed");
    assert_ne!(guessed, flags(last).contains(&"zone_assumed"), "{last}");
    let wanted = if guessed { 0.0 } else { 5.0 * 3600.0 };
    assert!((apart - wanted).abs() < 60.0, "{apart} s: {last}");
    guessed
}

#[test]
fn a_zone_is_guessed_said_and_kept_over_a_reload() {
    let yaml = to_file(UDP_TCP, "guess_timezone: true");
    let inrush = Inrush::start(&yaml);
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    let mut sent = 0;
    eventually("a guess", || {
        tcp.send(in_new_york());
        sent += 1;
        inrush.conserved(sent);
        last_is_guessed(&inrush).then_some(())
    });
    let line = "inrush_source_zone_guesses_total{source=\"syslog\",change=\"made\"} 1";
    metric(&inrush, line).unwrap();
    let said = |log: String| log.matches("the zone of a sender was guessed").count();
    assert_eq!(said(inrush.stderr()), 1);
    assert!(inrush.stderr().contains("-05:00"), "{}", inrush.stderr());
    let sender = &inrush.json("/api/v1/senders")["senders"][0];
    assert_eq!(sender["zone_guessed"], "-05:00", "{sender}");

    inrush.rewrite(&yaml.replace(
        "guess_timezone: true",
        "guess_timezone: true\n    index: other",
    ));
    assert_eq!(inrush.reload().status, 200);
    // By another way and another worker.
    send_udp(inrush.address("udp"), [in_new_york().trim_end()]);
    inrush.conserved(sent + 1);
    assert!(last_is_guessed(&inrush));
    let (exit, _) = inrush.stop();
    assert_eq!(said(exit.stderr), 1, "once, and no more for a reload");
}

/// Starts where another one ended, lets an event without a zone in, and says whether its zone was
/// known.
fn guessed_after(yaml: &str, dir: tempfile::TempDir) -> (bool, Inrush) {
    let options = Options {
        dir: Some(dir),
        ..Options::default()
    };
    let inrush = Inrush::with(yaml, options);
    send_udp(inrush.address("udp"), [in_new_york().trim_end()]);
    inrush.conserved(1);
    let guessed = last_is_guessed(&inrush);
    (guessed, inrush)
}

#[test]
fn a_guess_outlives_a_restart_and_a_cut_file_costs_only_that() {
    let yaml = to_file(UDP_TCP, "guess_timezone: true");
    let inrush = Inrush::start(&yaml);
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    let mut sent = 0;
    eventually("a guess", || {
        tcp.send(in_new_york());
        sent += 1;
        inrush.conserved(sent);
        last_is_guessed(&inrush).then_some(())
    });
    let (_, dir) = inrush.stop();
    let (guessed, inrush) = guessed_after(&yaml, dir);
    assert!(guessed);
    let sender = &inrush.json("/api/v1/senders")["senders"][0];
    assert_eq!(sender["zone_guessed"], "-05:00", "{sender}");
    let (_, dir) = inrush.stop();
    std::fs::write(dir.path().join("data/zones.json"), "{\"version\":1,\"gue").unwrap();
    let (guessed, inrush) = guessed_after(&yaml, dir);
    assert!(!guessed);
    let log = inrush.stderr();
    assert!(log.contains("guesses of zones cannot be read"), "{log}");
}

/// A packs section with rules that know zones: of a network, of a part of it, and of hosts.
const RULES: &str = "packs:
  enabled: true
  inline: |
    about: zones of our sites
    rules:
      - { name: east, stage: hint, when: { sender: 10.1.0.0/16 }, set: { zone: America/New_York } }
      - { name: lab, stage: hint, when: { sender: 10.1.9.0/24 }, set: { zone: Asia/Kathmandu } }
      - { name: berlin, stage: hint, when: { host: \"ber-*\" }, set: { zone: Europe/Berlin } }
";

/// What `inrush explain` says of events: sender, receive time, record.
fn explained(yaml: &str, flags: &[&str], events: &[(&str, String, String)]) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    let yaml = yaml.replace("{dir}", &dir.path().display().to_string());
    std::fs::write(dir.path().join("inrush.yaml"), yaml).unwrap();
    let mut args = vec!["explain", "-c", "inrush.yaml", "--json", "--input", "json"];
    args.extend(flags);
    let line = |(sender, received, raw): &(&str, String, String)| {
        json!({ "sender": sender, "received": received, "raw": raw }).to_string() + "\n"
    };
    let input: String = events.iter().map(line).collect();
    let output = inrush(&args, dir.path(), &input);
    let said = String::from_utf8(output.stdout).unwrap();
    let lines = said.lines().map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<Value> = lines.collect();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(lines.len(), events.len(), "{errors}");
    lines
}

fn time_of(event: &Value) -> &str {
    &event["event_time"].as_str().unwrap()[..19]
}

#[test]
fn rules_know_the_zones_of_senders_and_the_last_one_counts() {
    let yaml = to_file(TCP, "timezone: Asia/Tokyo") + RULES;
    let event = |sender, raw: &str| (sender, "2026-07-01T12:00:00Z".to_owned(), raw.to_owned());
    let said = explained(
        &yaml,
        &[],
        &[
            event("10.2.0.1", "<13>Jul  1 21:00:00 h1 app: x"),
            event("10.1.0.1", "<13>Jul  1 08:00:00 h1 app: x"),
            event("10.1.9.1", "<13>Jul  1 17:45:00 h1 app: x"),
            event("10.1.9.1", "<13>Jul  1 14:00:00 ber-1 app: x"),
            event("10.1.9.1", "<13>1 2026-07-01T12:00:00Z ber-1 app - - - x"),
        ],
    );
    for event in &said {
        assert_eq!(time_of(event), "2026-07-01T12:00:00", "{event}");
    }
    let notes = |event: &Value| event["time_notes"].to_string();
    assert!(notes(&said[0]).ends_with("Asia/Tokyo, was taken\"]"));
    assert!(notes(&said[1]).contains("unless a rule set another"));
}

#[test]
fn explain_shows_how_a_zone_is_guessed_and_forgets_it_when_asked_to() {
    let yaml = to_file(TCP, "guess_timezone: true");
    let events: Vec<_> = (0..10)
        .map(|n| {
            let received = format!("2026-11-21T12:00:{:02}Z", 5 * n);
            (
                "10.1.0.1",
                received,
                format!("<13>Nov 21 17:30:{:02} h1 app: x", 5 * n),
            )
        })
        .collect();
    let zones = |said: &[Value]| -> Vec<Value> { said.iter().map(|e| e["zone"].clone()).collect() };
    let said = explained(&yaml, &[], &events);
    let mut wanted = vec![Value::Null; 7];
    wanted.extend(vec![json!("+05:30"); 3]);
    assert_eq!(zones(&said), wanted);
    assert_eq!(time_of(&said[6]), "2026-11-21T17:30:30");
    assert_eq!(time_of(&said[7]), "2026-11-21T12:00:35");
    let notes = said[9]["time_notes"].to_string();
    assert!(notes.contains("+05:30, that of earlier events"), "{notes}");
    let fresh = explained(&yaml, &["--fresh"], &events);
    assert_eq!(zones(&fresh), vec![Value::Null; 10]);

    let ruled = explained(&(yaml + RULES), &[], &events);
    for (number, event) in ruled.iter().enumerate() {
        let wanted = format!("2026-11-21T22:30:{:02}", 5 * number);
        assert_eq!(time_of(event), wanted, "a rule counts for more: {event}");
        assert_eq!(event["zone"], Value::Null);
    }
}

#[test]
fn a_guess_holds_for_the_times_that_rules_read_too() {
    let yaml = to_file(TCP, "guess_timezone: true") + "packs: { enabled: true }\n";
    let pan = |n: usize| {
        let second = 5 * n;
        format!(
            "<14>Nov 21 17:30:{second:02} pa1 1,2026/11/21 17:29:{second:02},001122334455,TRAFFIC,\
             end,1,2026/11/21 17:29:{second:02},192.0.2.1,198.51.100.2"
        )
    };
    let event = |n: usize| {
        let received = format!("2026-11-21T12:00:{:02}Z", 5 * n);
        ("10.1.0.1", received, pan(n))
    };
    let events: Vec<_> = (0..10).map(event).collect();
    let said = explained(&yaml, &[], &events);
    assert_eq!(said[0]["class"], "pan/panos/traffic");
    assert_eq!(time_of(&said[6]), "2026-11-21T17:29:30");
    assert_eq!(said[6]["anomalies"][0]["name"], "zone_assumed");
    assert_eq!(time_of(&said[9]), "2026-11-21T11:59:45");
    assert_eq!(said[9]["anomalies"][0]["name"], "zone_guessed");
    assert_eq!(said[9]["zone"], "+05:30");
}

#[test]
fn explain_says_that_a_time_is_far_from_the_receive_time() {
    let raw = "<13>1 2026-11-19T11:59:59Z h1 app - - - x";
    let event = (
        "10.1.0.1",
        "2026-11-20T12:00:00Z".to_owned(),
        raw.to_owned(),
    );
    let said = explained(&to_file(TCP, ""), &[], &[event]);
    assert_eq!(said[0]["anomalies"][0]["name"], "time_skewed");
    assert_eq!(said[0]["hec"]["fields"]["inrush_anomalies"], "time_skewed");
    let notes = said[0]["time_notes"].to_string();
    assert!(notes.contains("more than 1d"), "{notes}");
}

#[test]
fn an_hour_that_occurs_twice_follows_reception_and_order() {
    let yaml = to_file(TCP, "timezone: Europe/Berlin") + RULES;
    // Received at, shown, and the first or the second hour: first by reception alone, then late
    // events in the order of their sender, and last by a zone of a rule.
    let cases = [
        ("10.9.0.1", "00:30:01", "02:30:00", "00:30:00"),
        ("10.9.0.2", "01:30:01", "02:30:00", "01:30:00"),
        ("10.9.0.2", "02:00:00", "02:59:59", "01:59:59"),
        ("10.9.0.3", "00:20:01", "02:20:00", "00:20:00"),
        ("10.9.0.3", "01:55:00", "02:25:00", "00:25:00"),
        ("10.9.0.3", "01:55:00", "02:45:00", "00:45:00"),
        ("10.9.0.3", "01:55:00", "02:05:00", "01:05:00"),
        ("10.9.0.3", "01:55:01", "02:54:00", "01:54:00"),
        ("10.9.0.4", "00:50:01", "02:50:00", "00:50:00"),
        ("10.9.0.4", "01:50:01", "02:50:00", "01:50:00"),
        ("10.9.0.5", "08:00:00", "02:10:00", "01:10:00"),
    ];
    let event = |(sender, received, shown, _): &(&'static str, &str, &str, &str)| {
        let raw = format!("<13>Oct 25 {shown} h1 app: x");
        (*sender, format!("2026-10-25T{received}Z"), raw)
    };
    let mut events: Vec<_> = cases.iter().map(event).collect();
    let mut wanted: Vec<_> = cases
        .iter()
        .map(|case| format!("2026-10-25T{}", case.3))
        .collect();
    for (received, time) in [("05:30:01", "05:30:00"), ("06:30:01", "06:30:00")] {
        let raw = "<13>Nov  1 01:30:00 h1 app: x".to_owned();
        events.push(("10.1.0.1", format!("2026-11-01T{received}Z"), raw));
        wanted.push(format!("2026-11-01T{time}"));
    }
    let said = explained(&yaml, &[], &events);
    for ((event, sent), wanted) in said.iter().zip(&events).zip(&wanted) {
        assert_eq!(time_of(event), wanted, "{sent:?}: {event}");
        let names = event["anomalies"].as_array().unwrap();
        let flagged = names.iter().any(|one| one["name"] == "hour_assumed");
        assert!(flagged, "{sent:?}: {event}");
    }
}
