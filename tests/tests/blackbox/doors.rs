//! What `/metrics` and the admin API say of sources and tokens: lags, times of requests, answers
//! and senders.

use std::fs;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use inrush_tests::*;
use serde_json::Value;

use crate::hec_server::{TOKEN, client, collector, forwarder};

/// Value of the sample of this name and these labels; `None` if the page has none.
pub(crate) fn sample(page: &str, name: &str) -> Option<f64> {
    let line = page.lines().find(|line| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with(' '))
    })?;
    line.rsplit(' ').next()?.parse().ok()
}

/// The metrics, once a sample has this value.
fn metrics(inrush: &Inrush, name: &str, value: f64) -> String {
    eventually(name, || {
        let page = inrush.http("GET", "/metrics").body;
        (sample(&page, name) == Some(value)).then_some(page)
    })
}

/// Seconds since 1970, so many ago.
pub(crate) fn ago(seconds: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_secs() - seconds
}

fn door(inrush: &Inrush) -> Value {
    inrush.json("/api/v1/doors")["doors"][0].clone()
}

/// Count of the bucket that a time of so many seconds belongs to.
fn count_at(inrush: &Inrush, times: &Value, seconds: f64) -> u64 {
    let list = inrush.json("/api/v1/doors");
    let bounds = list["bounds_s"].as_array().unwrap();
    let bucket = bounds
        .iter()
        .position(|one| seconds <= one.as_f64().unwrap());
    times["counts"][bucket.unwrap()].as_u64().unwrap()
}

#[test]
fn lags_are_counted_from_the_time_of_each_event() {
    let inrush = Inrush::start(&collector("", ""));
    let mut hec = client(&inrush);
    let (late, later) = (ago(200), ago(2000));
    let body = format!(
        r#"{{"event":"a","time":{late}}}{{"event":"b","time":{later}}}{{"event":"no time"}}"#
    );
    assert_eq!(hec.event(body).code(), Some(0));
    let lag = |name: &str, bound: &str| {
        format!("inrush_event_lag_seconds_{name}{{source=\"hec\",destination=\"out\"{bound}}}")
    };
    let page = metrics(&inrush, &lag("count", ""), 3.0);
    let event = |bound: &str| sample(&page, &lag("bucket", &format!(",le=\"{bound}\"")));
    let bounds = ["120", "300", "600", "3600", "+Inf"];
    assert_eq!(bounds.map(event), [1.0, 2.0, 2.0, 3.0, 3.0].map(Some));
    let sum = sample(&page, &lag("sum", "")).unwrap();
    assert!((2199.0..2400.0).contains(&sum), "{sum}");
    let received = |bound: &str| {
        let name = format!("inrush_receive_lag_seconds_bucket{{source=\"hec\",le=\"{bound}\"}}");
        sample(&page, &name)
    };
    // The event without a time has no lag at its receipt.
    assert_eq!(bounds.map(received), [0.0, 1.0, 1.0, 2.0, 2.0].map(Some));
    let token = &door(&inrush)["tokens"][0];
    let at = |seconds| count_at(&inrush, &token["lag"], seconds);
    assert_eq!((at(0.001), at(200.0), at(2000.0)), (0, 1, 1));
}

#[test]
fn syslog_has_lags_too_and_a_clock_that_is_ahead_counts_as_no_lag() {
    let inrush = Inrush::start(&crate::to_file(crate::TCP, ""));
    let mut tcp = std::net::TcpStream::connect(inrush.address("tcp")).unwrap();
    let lines =
        "<13>1 2099-01-01T00:00:00Z h a - - - ahead\n<13>1 2020-01-01T00:00:00Z h a - - - x\n";
    std::io::Write::write_all(&mut tcp, lines.as_bytes()).unwrap();
    let name = "inrush_receive_lag_seconds_count{source=\"syslog\"}";
    let page = metrics(&inrush, name, 2.0);
    let upto = |bound: &str| {
        let name = format!("inrush_receive_lag_seconds_bucket{{source=\"syslog\",le=\"{bound}\"}}");
        sample(&page, &name)
    };
    assert_eq!((upto("0.001"), upto("86400")), (Some(1.0), Some(1.0)));
}

#[test]
fn the_times_of_requests_in_and_out_are_counted() {
    let collector = Inrush::start(&collector("", ""));
    let to = format!("http://{}", collector.address("http"));
    let inrush = Inrush::start(&forwarder(&to, "").replace("s3cret", TOKEN));
    let mut hec = client(&inrush);
    for n in 0..3 {
        hec.event(format!(r#"{{"event":"e{n}"}}"#));
    }
    collector.collected(3);
    let count = |of: &str| format!("inrush_request_seconds_count{{{of}}}");
    let page = metrics(&inrush, &count("source=\"hec\""), 3.0);
    let sent = eventually("times of requests", || {
        sample(
            &inrush.http("GET", "/metrics").body,
            &count("destination=\"splunk\""),
        )
    });
    assert!((1.0..=3.0).contains(&sent), "{sent}");
    let name = "inrush_request_seconds_bucket{source=\"hec\",le=\"600\"}";
    assert_eq!(sample(&page, name), Some(3.0));
    assert_eq!(
        door(&inrush)["requests"]["counts"]
            .as_array()
            .unwrap()
            .len(),
        21
    );
}

/// A collector with many tokens: `t0` with the text `secret-of-0`, and so on.
fn many_tokens(tokens: usize) -> String {
    let tokens: String = (0..tokens)
        .map(|n| format!("      - {{ token: secret-of-{n:03}, name: t{n} }}\n"))
        .collect();
    format!(
        "sources:\n  hec:\n    type: splunk_hec\n    listen: 127.0.0.1:0\n    tokens:\n{tokens}\
         destinations:\n  out: {{ type: file, path: \"{{dir}}/out.jsonl\" }}\n"
    )
}

#[test]
fn hundreds_of_tokens_are_counted_by_name_and_their_texts_are_shown_nowhere() {
    let inrush = Inrush::start(&many_tokens(400));
    for n in [0, 1, 399] {
        let mut hec = HecClient::connect(inrush.address("http"), &format!("secret-of-{n:03}"));
        hec.event(r#"{"event":"abc"}{"event":"de"}"#);
        hec.event("{");
    }
    HecClient::connect(inrush.address("http"), "secret-of-nobody").event(r#"{"event":"x"}"#);
    let page = metrics(&inrush, "inrush_request_seconds_count{source=\"hec\"}", 7.0);
    for name in ["events", "bytes", "requests"] {
        let of = |token: &str| {
            let labels = format!("{{source=\"hec\",token=\"{token}\"}}");
            sample(&page, &format!("inrush_hec_token_{name}_total{labels}"))
        };
        let wanted = if name == "bytes" { 5.0 } else { 2.0 };
        assert_eq!((of("t399"), of("t2")), (Some(wanted), Some(0.0)), "{name}");
    }
    let answers = |token: &str, code: &str| {
        let labels = format!("{{source=\"hec\",token=\"{token}\",code=\"{code}\"}}");
        sample(&page, &format!("inrush_hec_token_answers_total{labels}"))
    };
    assert_eq!(
        (answers("t1", "0"), answers("t1", "6")),
        (Some(1.0), Some(1.0))
    );
    assert_eq!(answers("", "4"), Some(1.0), "a token that nobody knows");
    let doors = inrush.http("GET", "/api/v1/doors").body;
    assert!(!page.contains("secret-of-") && !doors.contains("secret-of-"));
    let door = door(&inrush);
    let tokens = door["tokens"].as_array().unwrap();
    assert_eq!(tokens.len(), 401);
    let token = |name: &str| tokens.iter().find(|one| one["name"] == name).unwrap();
    assert_eq!(token("t399")["answers"]["6"], 1);
    assert_eq!(token("t399")["senders"][0]["events"], 2);
    assert_eq!(token("t399")["senders"][0]["requests"], 2);
    assert!(token("t399")["last_seen_ms"].as_u64().unwrap() / 1000 >= ago(60));
    assert_eq!(token("t2")["last_seen_ms"], Value::Null);
    assert_eq!(token("")["answers"]["4"], 1);
    assert_eq!(door["senders"][0]["ip"], "127.0.0.1");
    assert_eq!(
        (&door["events"], &door["type"]),
        (&6.into(), &"splunk_hec".into())
    );
}

#[test]
fn a_refusal_of_the_head_counts_for_the_token_that_it_names() {
    let yaml = collector(", disabled: true", "").replace(
        "destinations:",
        "      - { token: second-token, name: t1, indexes: [main] }\ndestinations:",
    );
    let inrush = Inrush::start(&yaml);
    assert_eq!(client(&inrush).event(r#"{"event":"x"}"#).code(), Some(1));
    let seen = door(&inrush)["tokens"][0]["last_seen_ms"].clone();
    assert!(seen.is_u64(), "a refusal is a request too: {seen}");
    let mut hec = HecClient::connect(inrush.address("http"), "second-token");
    assert_eq!(
        hec.ask("event?index=no", "", r#"{"event":"x"}"#).code(),
        Some(7)
    );
    assert_eq!(hec.event(r#"{"event":"x","index":"main"}"#).code(), Some(0));
    // Two tokens of one name are one row.
    let door = door(&inrush);
    let tokens = door["tokens"].as_array().unwrap();
    assert_eq!(tokens.len(), 1, "{tokens:?}");
    let (answers, disabled) = (&tokens[0]["answers"], &tokens[0]["disabled"]);
    assert_eq!(
        (&answers["0"], &answers["1"], &answers["7"]),
        (&1.into(), &1.into(), &1.into())
    );
    assert_eq!(*disabled, false);
}

/// The alarms of this moment, by their names.
pub(crate) fn alarms(inrush: &Inrush) -> Vec<Value> {
    let flow = inrush.json("/api/v1/flow");
    flow["alarms"].as_array().unwrap().clone()
}

/// Waits for an alarm, for which `again` does each time what it is about.
pub(crate) fn await_alarm(inrush: &Inrush, id: &str, mut again: impl FnMut()) -> Value {
    eventually(id, || {
        again();
        alarms(inrush).into_iter().find(|one| one["id"] == id)
    })
}

#[test]
fn events_that_come_late_raise_an_alarm_that_blames_no_destination() {
    let inrush = Inrush::start(&collector("", ""));
    let (mut hec, old) = (client(&inrush), ago(1000));
    let late = await_alarm(&inrush, "events-come-late:hec", || {
        hec.event(format!(r#"{{"event":"old","time":{old}}}"#));
    });
    assert_eq!(late["severity"], "warning");
    let what = late["what"].as_str().unwrap();
    assert!(what.contains("100 % of the events of source hec"), "{late}");
    assert_eq!(alarms(&inrush).len(), 1, "{:?}", alarms(&inrush));
}

#[test]
fn slow_answers_raise_an_alarm() {
    const SLOW: usize = 25;
    let inrush = Inrush::start(&collector("", ""));
    let began = inrush.ledger().at_ns;
    // Requests whose second half comes six seconds later.
    let body = r#"{"event":"slow"}"#;
    let (start, end) = body.split_at(5);
    let mut slow: Vec<HecClient> = (0..SLOW).map(|_| client(&inrush)).collect();
    for hec in &mut slow {
        let request = hec.request("event", "", body.as_bytes());
        let head = request.len() - body.len();
        hec.send(&request[..head]).send(start);
    }
    inrush.wait_until("six seconds later", |ledger| {
        ledger.at_ns - began > 6_000_000_000
    });
    assert_eq!(
        alarms(&inrush),
        [] as [Value; 0],
        "none of them is answered"
    );
    for hec in &mut slow {
        assert_eq!(hec.send(end).answer().code(), Some(0));
    }
    let alarm = await_alarm(&inrush, "answers-slow:hec", || {});
    let what = alarm["what"].as_str().unwrap();
    assert!(
        what.contains("100 % of the requests to source hec"),
        "{alarm}"
    );
}

/// A control group with a twentieth of a CPU; `None` where this host lets nobody make one.
struct TightGroup(PathBuf);

impl TightGroup {
    fn make() -> Option<Self> {
        let root = PathBuf::from("/sys/fs/cgroup");
        let name = format!("inrush-doors-{}", std::process::id());
        let two = root.join("cgroup.controllers").exists();
        let (folder, file, quota) = match two {
            true => (root.join(name), "cpu.max", "5000 100000"),
            false => (root.join("cpu").join(name), "cpu.cfs_quota_us", "5000"),
        };
        fs::create_dir(&folder).ok()?;
        let group = Self(folder);
        fs::write(group.0.join(file), quota).ok()?;
        Some(group)
    }
}

impl Drop for TightGroup {
    fn drop(&mut self) {
        // It is empty once the process in it has ended.
        let gone = eventually("the group to be empty", || match fs::remove_dir(&self.0) {
            Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => None,
            done => Some(done),
        });
        assert!(gone.is_ok() || std::thread::panicking(), "{gone:?}");
    }
}

#[test]
fn a_process_that_is_held_back_by_its_control_group_raises_an_alarm() {
    let Some(group) = TightGroup::make() else {
        skip!("this host lets nobody make control groups");
    };
    let inrush = Inrush::start(&collector("", ""));
    fs::write(group.0.join("cgroup.procs"), inrush.pid().to_string()).unwrap();
    let mut hec = client(&inrush);
    let events = r#"{"event":"work"}"#.repeat(1000);
    let alarm = await_alarm(&inrush, "cpu-throttled", || {
        hec.event(&events);
    });
    assert_eq!(alarm["severity"], "warning");
    let page = inrush.http("GET", "/metrics").body;
    let counts = [
        "periods_total",
        "throttled_periods_total",
        "throttled_seconds_total",
    ];
    for name in counts {
        let value = sample(&page, &format!("inrush_process_cpu_{name}"));
        assert!(value.is_some_and(|value| value > 0.0), "{name}: {value:?}");
    }
    drop(inrush);
    drop(group);
}
