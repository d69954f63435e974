//! Splunk HEC out: the envelope, and every way in which an indexer can fail.

use std::net::TcpListener;

use inrush_tests::*;
use serde_json::Value;

use crate::TCP;

/// Waits short enough for a test; `more` are further options of the destination.
pub(crate) fn to_hec(endpoints: &[String], more: &str) -> String {
    let list = endpoints
        .iter()
        .map(|url| format!("\"{url}\""))
        .collect::<Vec<_>>()
        .join(", ");
    format!(
        "sources:\n  syslog: {{ type: syslog, listen: [{TCP}] }}\ndestinations:\n  splunk:\n    \
         type: splunk_hec\n    endpoints: [{list}]\n    token: s3cret\n    {}\n",
        more.replace('\n', "\n    ")
    )
}

pub(crate) fn send(inrush: &Inrush, numbers: std::ops::Range<usize>) {
    Tcp::connect(inrush.address("tcp")).send(lines(numbers));
}

/// The numbers of the events, in order of number.
pub(crate) fn numbers(events: &[Value]) -> Vec<usize> {
    let number = |event: &Value| {
        let text = event["event"].as_str().unwrap();
        text.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let mut numbers: Vec<usize> = events.iter().map(number).collect();
    numbers.sort_unstable();
    numbers
}

pub(crate) fn errors(inrush: &Inrush, reason: &str) -> u64 {
    inrush.destination()["errors"][reason].as_u64().unwrap_or(0)
}

fn await_error(inrush: &Inrush, reason: &str) {
    eventually(reason, || (errors(inrush, reason) >= 1).then_some(()));
}

#[test]
fn events_arrive_in_splunks_envelope() {
    let hec = Hec::start();
    let inrush = Inrush::start(&to_hec(&[hec.url()], ""));
    send(&inrush, 7..8);
    inrush.conserved(1);
    let request = &hec.requests()[0];
    assert_eq!(request.authorization, "Splunk s3cret");
    assert!(
        request.path.starts_with("/services/collector"),
        "{}",
        request.path
    );
    let event = &request.events[0];
    assert!(
        event["time"].to_string().contains("1772600767.089"),
        "{event}"
    );
    assert_eq!(event["host"], "fw1");
    assert_eq!(
        (&event["index"], &event["sourcetype"]),
        (&"main".into(), &"syslog".into())
    );
    assert!(
        event["event"].as_str().unwrap().contains("number 7"),
        "{event}"
    );
    assert_eq!(event["fields"]["sc4s_fromhostip"], "127.0.0.1", "{event}");
}

#[test]
fn many_events_arrive_once_each() {
    const SENT: usize = 20_000;
    let hec = Hec::start();
    let inrush = Inrush::start(&to_hec(&[hec.url()], ""));
    send(&inrush, 0..SENT);
    inrush.conserved(SENT as u64);
    assert_eq!(numbers(&hec.taken()), (0..SENT).collect::<Vec<_>>());
    assert!(
        hec.requests().len() < SENT / 100,
        "{} requests",
        hec.requests().len()
    );
}

#[test]
fn gzip_is_sent_when_asked_for() {
    let hec = Hec::start();
    let inrush = Inrush::start(&to_hec(&[hec.url()], "compression: gzip"));
    send(&inrush, 0..1000);
    inrush.conserved(1000);
    assert!(hec.requests().iter().all(|request| request.gzip));
    assert_eq!(numbers(&hec.taken()), (0..1000).collect::<Vec<_>>());
}

#[test]
fn a_busy_indexer_is_waited_for() {
    let hec = Hec::start();
    hec.script([Reply::busy(1), Reply::code(429, 26, "full")]);
    let inrush = Inrush::start(&to_hec(&[hec.url()], ""));
    send(&inrush, 0..100);
    inrush.conserved(100);
    assert_eq!(numbers(&hec.taken()), (0..100).collect::<Vec<_>>());
    assert!(errors(&inrush, "http_5xx") >= 1 && errors(&inrush, "http_429") >= 1);
}

#[test]
fn a_refused_token_holds_everything_until_it_is_accepted() {
    let hec = Hec::start();
    hec.otherwise(Some(Reply::code(403, 4, "Invalid token")));
    let inrush = Inrush::start(&to_hec(&[hec.url()], ""));
    send(&inrush, 0..100);
    await_error(&inrush, "http_401_403");
    let ledger = inrush.wait_until("all pending", |l| l.destinations["splunk"].pending == 100);
    assert!(
        ledger.destinations["splunk"].quarantined.is_empty(),
        "{ledger:#?}"
    );
    assert_eq!(inrush.http("GET", "/healthz").status, 503);
    let said = inrush.destination()["last_error"].to_string();
    assert!(
        said.contains("Invalid token") && !said.contains("s3cret"),
        "{said}"
    );
    hec.otherwise(None);
    inrush.conserved(100);
    assert_eq!(numbers(&hec.taken()), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_named_bad_event_costs_itself() {
    let hec = Hec::start();
    let bad = r#"{"text":"Invalid data format","code":6,"invalid-event-number":3}"#;
    hec.script([Reply::Status(400, bad.to_owned())]);
    let inrush = Inrush::start(&to_hec(&[hec.url()], ""));
    send(&inrush, 0..10);
    let ledger = inrush.wait_until("all with a fate", |l| {
        l.sources["syslog"].received == 10 && l.destinations["splunk"].pending == 0
    });
    let splunk = &ledger.destinations["splunk"];
    let quarantined: u64 = splunk.quarantined.values().sum();
    assert_eq!((splunk.delivered, quarantined), (9, 1), "{splunk:?}");
    // The indexer took the events before the bad one with the 400: none is sent again.
    let missing = numbers(&hec.requests()[0].events[3..4])[0];
    let others: Vec<usize> = (0..10).filter(|n| *n != missing).collect();
    assert_eq!(numbers(&hec.taken()), others);
    let quarantine = walk(&inrush.path("data"));
    assert!(
        quarantine.contains(&format!("number {missing}")),
        "{quarantine}"
    );
}

/// All text below a folder.
fn walk(folder: &std::path::Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text += &walk(&path);
        } else {
            text += &String::from_utf8_lossy(&std::fs::read(&path).unwrap());
        }
    }
    text
}

#[test]
fn a_400_that_names_no_event_costs_only_the_poison() {
    let hec = Hec::start();
    let inrush = Inrush::start(&to_hec(&[hec.url()], ""));
    hec.script([Reply::code(400, 5, "No data")]);
    send(&inrush, 0..1);
    let ledger = inrush.wait_until("a fate", |l| {
        l.sources["syslog"].received == 1 && l.destinations["splunk"].pending == 0
    });
    let quarantined: u64 = ledger.destinations["splunk"].quarantined.values().sum();
    assert_eq!(quarantined, 1, "{ledger:#?}");
    assert_eq!(errors(&inrush, "http_400"), 1);
    send(&inrush, 1..101);
    inrush.wait_until("the next ones", |l| {
        l.destinations["splunk"].delivered == 100
    });
    assert_eq!(numbers(&hec.taken()), (1..101).collect::<Vec<_>>());
}

#[test]
fn rubbish_with_200_took_nothing_and_is_noted() {
    let hec = Hec::start();
    hec.script([Reply::Status(200, "<html>welcome</html>".to_owned())]);
    let inrush = Inrush::start(&to_hec(&[hec.url()], ""));
    send(&inrush, 0..1);
    inrush.conserved(1);
    assert_eq!(errors(&inrush, "bad_answer"), 1);
    assert_eq!(numbers(&hec.taken()), [0]);
}

#[test]
fn an_indexer_that_refuses_connections_is_found_when_it_comes_back() {
    let probe = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = probe.local_addr().unwrap();
    drop(probe);
    let inrush = Inrush::start(&to_hec(&[format!("http://{address}")], ""));
    send(&inrush, 0..500);
    await_error(&inrush, "connect_failed");
    inrush.wait_until("all pending", |l| l.destinations["splunk"].pending == 500);
    let hec = Hec::start_at(address);
    inrush.conserved(500);
    assert_eq!(numbers(&hec.taken()), (0..500).collect::<Vec<_>>());
    assert_eq!(inrush.http("GET", "/healthz").status, 200);
}

#[test]
fn an_indexer_that_hangs_is_given_up_on_and_asked_again() {
    let hec = Hec::start();
    hec.script([Reply::Hang]);
    let inrush = Inrush::start(&to_hec(&[hec.url()], "request_timeout: 1s"));
    send(&inrush, 0..100);
    inrush.conserved(100);
    assert!(errors(&inrush, "timeout") >= 1);
    assert_eq!(numbers(&hec.taken()), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_dead_endpoint_is_passed_over() {
    let probe = TcpListener::bind("127.0.0.1:0").unwrap();
    let dead = format!("http://{}", probe.local_addr().unwrap());
    drop(probe);
    let hec = Hec::start();
    let inrush = Inrush::start(&to_hec(&[dead, hec.url()], ""));
    for batch in 0..20 {
        send(&inrush, batch * 50..(batch + 1) * 50);
    }
    inrush.conserved(1000);
    assert_eq!(numbers(&hec.taken()), (0..1000).collect::<Vec<_>>());
}

#[test]
fn a_dead_destination_holds_up_no_other() {
    let yaml = to_hec(&["http://127.0.0.1:1".to_owned()], "")
        + "  out: { type: file, path: \"{dir}/out.jsonl\" }\n";
    let inrush = Inrush::start(&yaml);
    send(&inrush, 0..5000);
    inrush.wait_until("the other to have all", |l| {
        l.destinations["out"].delivered == 5000
    });
    assert_eq!(inrush.ledger().destinations["splunk"].pending, 5000);
    assert_eq!(inrush.events("out.jsonl").len(), 5000);
}
