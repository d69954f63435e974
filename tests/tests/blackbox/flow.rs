//! The flow, the senders and `explain` over the admin API.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::{Command, Stdio};

use inrush_tests::*;
use serde_json::Value;

use crate::{TCP, UDP_TCP, to_file};

/// Two sources and two destinations.
const TWO: &str = "\
sources:
  zeta: { type: syslog, listen: [udp://127.0.0.1:0] }
  alpha: { type: syslog, listen: [tcp://127.0.0.1:0] }
destinations:
  tape: { type: file, path: \"{dir}/out.jsonl\" }
  null0: { type: blackhole }
";

fn flow(inrush: &Inrush) -> Value {
    inrush.json("/api/v1/flow")
}

/// The entry of a list with this name.
fn named<'v>(list: &'v Value, name: &str) -> &'v Value {
    let mut all = list.as_array().unwrap().iter();
    all.find(|one| one["name"] == name)
        .unwrap_or_else(|| panic!("no {name} in {list:#}"))
}

#[test]
fn the_flow_shows_what_came_where_it_went_and_that_nothing_was_lost() {
    let inrush = Inrush::start(TWO);
    send_udp(inrush.address("udp"), (0..3).map(numbered));
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    tcp.send(lines(3..8));
    inrush.wait_until("8 events, twice", |ledger| {
        let taken = |name: &str| ledger.destinations[name].delivered;
        taken("tape") == 8 && taken("null0") == 8
    });
    // A snapshot is at most a second old, so that the next may be the one from before.
    let flow = eventually("a snapshot with all of it", || {
        let flow = flow(&inrush);
        (named(&flow["destinations"], "tape")["delivered"] == 8).then_some(flow)
    });
    let names = |list: &Value| field(list.as_array().unwrap(), "name");
    assert_eq!(
        names(&flow["sources"]),
        ["zeta", "alpha"],
        "in their own order"
    );
    assert_eq!(names(&flow["destinations"]), ["tape", "null0"]);
    let alpha = named(&flow["sources"], "alpha");
    assert_eq!(
        (&alpha["received"], &alpha["connections"]),
        (&5.into(), &1.into())
    );
    assert_eq!(alpha["type"], "syslog");
    assert_eq!(alpha["bytes"], 5 * numbered(3).len());
    let tape = named(&flow["destinations"], "tape");
    assert_eq!(
        (&tape["type"], &tape["state"]),
        (&"file".into(), &"ok".into())
    );
    assert!(tape["request_ms"].as_f64().unwrap() > 0.0, "{tape}");
    let edge = |edge: &Value| {
        let ends = format!("{} → {}", edge["from"], edge["to"]).replace('"', "");
        (ends, edge["events"].as_u64().unwrap())
    };
    let edges: Vec<_> = flow["edges"].as_array().unwrap().iter().map(edge).collect();
    let ends = [
        ("zeta → tape", 3),
        ("zeta → null0", 3),
        ("alpha → tape", 5),
        ("alpha → null0", 5),
    ];
    assert_eq!(edges, ends.map(|(ends, events)| (ends.to_owned(), events)));
    assert_eq!(flow["balanced"], true);
    assert_eq!(flow["alarms"], Value::Array(Vec::new()));
    let lost = flow["loss"].as_array().unwrap();
    let ours: Vec<_> = lost.iter().filter(|row| row["ours"] == true).collect();
    assert!(
        ours.len() >= 8 && ours.iter().all(|row| row["count"] == 0),
        "{ours:#?}"
    );
    let threads = names(&flow["threads"]);
    for thread in ["stream-0", "udp-zeta", "to-tape", "watch", "inrush-flow"] {
        assert!(
            threads.iter().any(|name| name == thread),
            "{thread}: {threads:?}"
        );
    }
    assert!(flow["queue"]["disk_bytes_max"].as_u64().unwrap() > 0);
    assert!(flow["resident_bytes"].as_u64().unwrap() > 1_000_000);
    let (at, started) = (&flow["at_ms"], &flow["started_ms"]);
    assert!(at.as_i64() >= started.as_i64());
}

#[test]
fn a_dead_destination_is_an_alarm_that_says_what_to_do() {
    let yaml = to_file(TCP, "").replace(
        "{ type: file, path: \"{dir}/out.jsonl\" }",
        "{ type: splunk_hec, endpoints: [\"http://127.0.0.1:1\"], token: t }",
    );
    let inrush = Inrush::start(&yaml);
    Tcp::connect(inrush.address("tcp")).send(numbered(1) + "\n");
    let flow = eventually("an alarm", || {
        let flow = flow(&inrush);
        (!flow["alarms"].as_array()?.is_empty()).then_some(flow)
    });
    let alarm = &flow["alarms"][0];
    assert_eq!(alarm["id"], "destination-failing:out");
    assert_eq!(alarm["severity"], "warning");
    let what = alarm["what"].as_str().unwrap();
    assert!(
        what.contains("127.0.0.1:1") && what.contains("refused"),
        "{alarm:#}"
    );
    assert!(!what.contains("client error"), "{alarm:#}");
    assert!(
        alarm["remedy"].as_str().unwrap().contains("endpoints"),
        "{alarm:#}"
    );
    assert!(alarm["since_ms"].as_i64().unwrap() >= flow["started_ms"].as_i64().unwrap());
    let out = named(&flow["destinations"], "out");
    assert_eq!(
        (&out["state"], &out["pending"]),
        (&"failing".into(), &1.into())
    );
    let health = inrush.http("GET", "/healthz");
    assert_eq!(health.status, 503);
    let reason = &health.json()["edges"][2]["reason"];
    assert_eq!(reason.as_str().is_some(), out["error"].as_str().is_some());
}

#[test]
fn a_destination_that_is_gone_stays_in_the_account() {
    let inrush = Inrush::start(TWO);
    Tcp::connect(inrush.address("tcp")).send(lines(0..5));
    inrush.wait_until("5 events", |l| l.destinations["null0"].delivered == 5);
    inrush.rewrite(&TWO.replace("  null0: { type: blackhole }\n", ""));
    assert_eq!(inrush.reload().status, 200);
    let null0 = eventually("it to be gone", || {
        let flow = flow(&inrush);
        let null0 = named(&flow["destinations"], "null0").clone();
        (null0["state"] == "removed").then_some(null0)
    });
    assert_eq!(
        (&null0["delivered"], &null0["type"]),
        (&5.into(), &"".into())
    );
}

#[test]
fn the_stream_goes_on_and_ends_with_the_process() {
    let inrush = Inrush::start(&to_file(TCP, ""));
    let address = inrush.admin();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let request = format!("GET /api/v1/flow/stream HTTP/1.1\r\nhost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines();
    let mut next = || loop {
        let line = lines.next()?.unwrap();
        if let Some(json) = line.strip_prefix("data: ") {
            let flow: Value = serde_json::from_str(json).unwrap();
            return flow["at_ms"].as_i64();
        }
    };
    let (first, second) = (next().unwrap(), next().unwrap());
    assert!(second > first, "{second} after {first}");
    let (exit, _dir) = inrush.stop();
    assert_eq!(exit.status.code(), Some(0), "{}", exit.stderr);
    while next().is_some() {}
}

#[test]
fn senders_say_what_they_are_and_the_unknown_come_first() {
    let inrush = Inrush::start(&to_file(UDP_TCP, ""));
    let to = inrush.address("udp");
    // Any address of the loopback net may be used.
    let other = UdpSocket::bind("127.0.0.2:0").unwrap();
    other.send_to(b"\xffwhat is this", to).unwrap();
    inrush.conserved(1);
    send_udp(to, [numbered(1), numbered(2)]);
    inrush.conserved(3);
    let senders = inrush.json("/api/v1/senders")["senders"].clone();
    assert_eq!(senders.as_array().unwrap().len(), 2, "{senders:#}");
    let (unknown, known) = (&senders[0], &senders[1]);
    assert_eq!(
        (&unknown["ip"], &unknown["unknown"]),
        (&"127.0.0.2".into(), &true.into())
    );
    assert_eq!(unknown["format"], "unparsed");
    assert_eq!(unknown["sample"], "\u{fffd}what is this");
    assert_eq!(unknown["clock_skew_ms"], Value::Null);
    assert_eq!(
        (&known["ip"], &known["events"]),
        (&"127.0.0.1".into(), &2.into())
    );
    assert_eq!(
        (&known["format"], &known["unknown"]),
        (&"rfc5424".into(), &false.into())
    );
    let sample = known["sample"].as_str().unwrap();
    assert!(
        [numbered(1), numbered(2)].iter().any(|sent| sent == sample),
        "{sample}"
    );
    assert_eq!(known["source"], "syslog");
    // 4 March 2026 is long ago by any clock that is right.
    assert!(
        known["clock_skew_ms"].as_f64().unwrap() < -3_600_000.0,
        "{known:#}"
    );
    assert!(known["rate"].as_f64().unwrap() > 0.0);
    let ms = |name: &str| known[name].as_i64().unwrap();
    assert!(ms("first_seen_ms") <= ms("last_seen_ms"));
    assert_eq!(ms("last_seen_ms"), ms("last_seen_ns") / 1_000_000);
    assert!(known["silent_s"].as_f64().unwrap() >= 0.0);
}

#[test]
fn explain_over_the_api_is_what_the_command_prints() {
    let inrush = Inrush::start(&to_file(TCP, "index: netfw"));
    let config = inrush.path("inrush.yaml");
    // Neither depends on the clock: the event carries its time, year and zone.
    let record = b"<34>1 2024-05-06T07:08:09.123+02:00 fw1 su 230 ID1 - 'su root' failed \xff";
    let path = "/api/v1/explain";
    let answer = http_with(inrush.admin(), "POST", path, record);
    assert_eq!(answer.status, 200, "{answer:?}");
    let mut command = Command::new(binary());
    command.args(["explain", "--json", "-c"]).arg(config);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(record).unwrap();
    let printed = child.wait_with_output().unwrap().stdout;
    let mut printed: Value = serde_json::from_slice(&printed).unwrap();
    let mut answered = answer.json();
    for value in [&mut printed, &mut answered] {
        value["received"].take();
        value["hec"]["fields"]["sc4s_recv_time"].take();
        value["envelope"][0]["fields"]["sc4s_recv_time"].take();
    }
    assert_eq!(answered, printed);
    assert_eq!(answered["index"], "netfw");

    let long = http_with(inrush.admin(), "POST", path, &vec![b'x'; 65 * 1024]);
    assert_eq!(long.status, 413, "{long:?}");
    let unknown = http_with(
        inrush.admin(),
        "POST",
        "/api/v1/explain?source=nobody",
        record,
    );
    assert_eq!(unknown.status, 400);
    assert!(unknown.body.contains("there are: syslog"), "{unknown:?}");
}
