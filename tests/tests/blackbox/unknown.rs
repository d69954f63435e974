//! What no rule recognises: listed kind by kind, with the rule that came nearest.

use inrush_tests::*;
use serde_json::{Value, json};

use crate::{TCP, to_file};

/// With a pack whose rule wants `gadget` to say `x…`, and what becomes of the rest.
fn with_rule(fallback: &str, more: &str) -> String {
    let pack = format!(
        "packs:\n  enabled: true\n  fallback: {fallback}\n  inline: |\n    about: mine\n    rules:\n      \
         - {{ name: mine, stage: program, when: {{ program: gadget, message: 'x*' }}, \
         set: {{ index: i, sourcetype: acme }} }}\n{more}"
    );
    format!("{}{pack}", to_file(TCP, ""))
}

fn kinds(inrush: &Inrush) -> Vec<Value> {
    let answer = inrush.http("GET", "/api/v1/unknown");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["unknown"].as_array().unwrap().clone()
}

const SENT: &str = "<13>May  6 07:08:09 h1 gadget[4]: hello\n<13>May  6 07:08:10 h2 gadget[4]: again\n\
    <13>May  6 07:08:11 h1 gadget[4]: xylophone\n<13>,,,\n";

fn lists(fallback: &str) {
    let inrush = Inrush::start(&with_rule(fallback, ""));
    assert!(kinds(&inrush).is_empty());
    Tcp::connect(inrush.address("tcp")).send(SENT);
    inrush.conserved(4);
    let all = kinds(&inrush);
    let shown: Vec<Value> = all
        .iter()
        .map(|kind| {
            json!([
                kind["source"],
                kind["program"],
                kind["events"],
                kind["sample"]
            ])
        })
        .collect();
    let gadget = "<13>May  6 07:08:09 h1 gadget[4]: hello";
    assert_eq!(shown[0], json!(["syslog", "gadget", 2, gadget]), "{all:#?}");
    assert_eq!(
        (shown.len(), &shown[1][2], &shown[1][3]),
        (2, &json!(1), &json!("<13>,,,"))
    );
    assert_eq!(
        (&all[0]["format"], &all[0]["sender"]),
        (&json!("rfc3164"), &json!("127.0.0.1"))
    );
    let nearest = json!({ "rule": "mine", "why": "it is not so that message is `x*`" });
    assert_eq!(
        (&all[0]["nearest"], &all[0]["recognised_by"]),
        (&nearest, &Value::Null)
    );
    let first = |key: &str| all[0][key].as_i64().unwrap();
    assert!(0 < first("first_seen_ns") && first("first_seen_ns") <= first("last_seen_ns"));
    let page = inrush.http("GET", "/metrics").body;
    let line = "inrush_source_unrecognised_events_total{source=\"syslog\"} 3\n";
    assert!(page.contains(line), "{page}");
}

#[test]
fn what_falls_back_is_listed_with_the_nearest_rule() {
    lists("source");
}

#[test]
fn so_is_what_sc4s_has_a_name_for() {
    lists("sc4s");
}

#[test]
fn a_rule_that_was_written_since_is_named() {
    let inrush = Inrush::start(&with_rule("source", ""));
    Tcp::connect(inrush.address("tcp")).send(SENT);
    inrush.conserved(4);
    let more = "      - { name: new, stage: program, when: { program: gadget }, set: { vendor: acme, \
        product: gadget } }\n";
    inrush.rewrite(&with_rule("source", more));
    assert_eq!(inrush.reload().status, 200);
    let all = kinds(&inrush);
    assert_eq!(
        (&all[0]["nearest"], &all[0]["recognised_by"]),
        (&Value::Null, &json!("new"))
    );
}

#[test]
fn made_up_programs_are_bounded_and_all_counted() {
    const EVENTS: u64 = 5000;
    let inrush = Inrush::start(&with_rule("source", ""));
    let all: String = (0..EVENTS)
        .map(|n| format!("<13>May  6 07:08:09 h1 p{n}: x\n"))
        .collect();
    Tcp::connect(inrush.address("tcp")).send(all);
    inrush.conserved(EVENTS);
    let listed = kinds(&inrush).len();
    assert!((1..=1024).contains(&listed), "{listed}");
    let page = inrush.http("GET", "/metrics").body;
    let line = format!("inrush_source_unrecognised_events_total{{source=\"syslog\"}} {EVENTS}\n");
    assert!(page.contains(&line), "{page}");
}
