//! Alarms about a destination that is slow: seen at the API while it lasts, and gone afterwards.

use std::time::Duration;

use inrush_tests::*;
use serde_json::Value;

use crate::doors::{ago, alarms, await_alarm};
use crate::hec_server::{client, forwarder};

/// So many events that have the same time.
fn events(count: usize, time: u64) -> String {
    format!(r#"{{"event":"e","time":{time}}}"#).repeat(count)
}

/// Sends events to a destination that answers at once, and waits for the alarm to end.
fn recover(inrush: &Inrush, splunk: &Hec, id: &str, events: &str) {
    splunk.answer_after(Duration::ZERO);
    assert_eq!(client(inrush).event(events).code(), Some(0));
    eventually("the alarm to end", || {
        let ended = alarms(inrush).iter().all(|one| one["id"] != id);
        ended.then_some(())
    });
}

fn assert_warns(alarm: &Value, what: &str) {
    assert_eq!(alarm["severity"], "warning");
    let text = alarm["what"].as_str().unwrap();
    assert!(text.contains(what), "{alarm:#}");
}

#[test]
fn events_that_a_destination_gets_late_raise_an_alarm_that_names_it() {
    const ID: &str = "events-late:hec:splunk";
    let splunk = Hec::start();
    // They come in time, and are late once they are answered.
    splunk.answer_after(Duration::from_secs(25));
    let inrush = Inrush::start(&forwarder(&splunk.url(), ""));
    assert_eq!(client(&inrush).event(events(25, ago(100))).code(), Some(0));
    let alarm = await_alarm(&inrush, ID, || {});
    let what = "100 % of the events of source hec reached destination splunk more than 120 s late";
    assert_warns(&alarm, what);
    let others = alarms(&inrush);
    assert_eq!(others.len(), 1, "the senders are not late: {others:#?}");
    recover(&inrush, &splunk, ID, &events(1000, ago(0)));
}

#[test]
fn slow_requests_to_a_destination_raise_an_alarm_that_names_it() {
    const ID: &str = "requests-slow:splunk";
    let splunk = Hec::start();
    splunk.answer_after(Duration::from_secs(6));
    let yaml = forwarder(&splunk.url(), "") + "    batch: { max_events: 1 }\n";
    let inrush = Inrush::start(&yaml);
    let mut hec = client(&inrush);
    assert_eq!(hec.event(events(4, ago(0))).code(), Some(0));
    splunk.await_requests(4);
    // As many as a share of them says something.
    splunk.answer_after(Duration::ZERO);
    assert_eq!(hec.event(events(20, ago(0))).code(), Some(0));
    let alarm = await_alarm(&inrush, ID, || {});
    assert_warns(
        &alarm,
        "16 % of the requests or writes to destination splunk took",
    );
    recover(&inrush, &splunk, ID, &events(200, ago(0)));
}
