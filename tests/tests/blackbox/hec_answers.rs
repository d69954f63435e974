//! Splunk HEC out, where the answer is not HEC's or refuses everything: the events are held, the
//! destination says what it heard, and all of them arrive once it is mended.

use std::collections::BTreeSet;

use inrush_tests::*;

use crate::hec::{errors, numbers, send, to_hec};

/// The reason that `/healthz` gives for the destination, once it is ill.
fn alarm(inrush: &Inrush) -> String {
    let health = eventually("the alarm", || {
        let health = inrush.http("GET", "/healthz");
        (health.status == 503).then(|| health.json())
    });
    let edges = health["edges"].as_array().unwrap();
    let edge = edges.iter().find(|edge| edge["name"] == "splunk").unwrap();
    edge["reason"].as_str().unwrap().to_owned()
}

/// Nothing was taken yet, and once the collector is mended all is, once each.
fn held_then_delivered(hec: &Hec, inrush: &Inrush, events: usize) {
    let splunk = &inrush.ledger().destinations["splunk"];
    assert_eq!(splunk.delivered, 0, "{splunk:?}");
    assert!(splunk.quarantined.is_empty(), "{splunk:?}");
    hec.otherwise(None);
    inrush.conserved(events as u64);
    assert_eq!(numbers(&hec.taken()), (0..events).collect::<Vec<_>>());
    assert_eq!(inrush.http("GET", "/healthz").status, 200);
}

#[test]
fn a_2xx_that_is_not_hecs_success_took_nothing() {
    for (status, body, said) in [
        (
            200,
            "<html>Sign in to continue</html>",
            "Sign in to continue",
        ),
        (204, "", "it is empty"),
        (201, "created", "created"),
        (202, r#"{"status":"accepted"}"#, "accepted"),
        (206, r#"{"text":"Success","#, "not HEC's answer"),
        (200, r#"{"code":0,"msg":"ok"}"#, "not HEC's answer"),
        (200, r#"{"text":"Success"}"#, "not HEC's answer"),
        (
            200,
            r#"{"text":"Invalid token","code":4}"#,
            "code 4: Invalid token",
        ),
        (200, r#"{"text":"HEC is healthy","code":17}"#, "code 17"),
        (
            200,
            r#"{"text":"Success","code":0}{"text":"Success","code":0}"#,
            "not HEC's answer",
        ),
    ] {
        let hec = Hec::start();
        hec.otherwise(Some(Reply::Status(status, body.to_owned())));
        let inrush = Inrush::start(&to_hec(&[hec.url()], ""));
        send(&inrush, 0..100);
        let why = alarm(&inrush);
        assert!(
            why.contains(said) && why.contains(&status.to_string()),
            "{why}"
        );
        assert!(errors(&inrush, "bad_answer") >= 1);
        held_then_delivered(&hec, &inrush, 100);
        let peers: BTreeSet<_> = hec.requests().iter().map(|request| request.peer).collect();
        assert!(peers.len() > 1, "it was tried over another connection");
    }
}

#[test]
fn answers_of_other_receivers_count_where_they_are_allowed() {
    let hec = Hec::start();
    hec.otherwise(Some(Reply::Status(200, "OK\n".to_owned())));
    let inrush = Inrush::start(&to_hec(&[hec.url()], "success_bodies: [\"\", OK]"));
    send(&inrush, 0..100);
    inrush.conserved(100);
    assert_eq!(errors(&inrush, "bad_answer"), 0);
    assert_eq!(inrush.http("GET", "/healthz").status, 200);
}

#[test]
fn a_collector_that_refuses_everything_does_not_empty_the_queue() {
    const SENT: usize = 1000;
    for (reply, believed, said) in [
        (Reply::code(400, 7, "Incorrect index"), 100, "index: none"),
        (Reply::code(400, 5, "No data"), 100, "No data"),
        (Reply::code(400, 99, "What"), 100, "What"),
        (
            Reply::Status(400, "Bad Request".to_owned()),
            0,
            "Bad Request",
        ),
        (Reply::Status(413, String::new()), 0, "413"),
    ] {
        let hec = Hec::start();
        hec.otherwise(Some(reply));
        let inrush = Inrush::start(&to_hec(&[hec.url()], "workers: 1"));
        send(&inrush, 0..SENT);
        let why = alarm(&inrush);
        assert!(
            why.contains("everything is refused") && why.contains(said),
            "{why}"
        );
        let quarantined = |inrush: &Inrush| {
            let splunk = &inrush.ledger().destinations["splunk"];
            splunk.quarantined.values().sum::<u64>()
        };
        assert!(quarantined(&inrush) <= believed);
        hec.otherwise(None);
        let ledger = inrush.wait_until("the others", |l| {
            let splunk = &l.destinations["splunk"];
            l.sources["syslog"].received == SENT as u64 && splunk.pending == 0
        });
        assert!(ledger.balanced);
        let refused = quarantined(&inrush);
        assert!(refused <= believed, "{refused}");
        assert_eq!(
            hec.taken().len() as u64 + refused,
            SENT as u64,
            "none of them twice"
        );
        assert_eq!(
            ledger.destinations["splunk"].delivered,
            hec.taken().len() as u64
        );
    }
}

#[test]
fn events_can_be_sent_without_an_index() {
    let with_none = |yaml: String| yaml.replace("type: syslog,", "type: syslog, index: none,");
    let hec = Hec::start();
    hec.rule(|event| event.get("index").map(|_| (7, "Incorrect index")));
    for yaml in [
        to_hec(&[hec.url()], "index: none"),
        with_none(to_hec(&[hec.url()], "")),
        to_hec(&[hec.url()], "") + "transforms: [{ set: { index: \"'none'\" } }]\n",
    ] {
        let before = hec.taken().len();
        let inrush = Inrush::start(&yaml);
        send(&inrush, 0..10);
        inrush.conserved(10);
        assert_eq!(hec.taken().len(), before + 10);
    }
}
