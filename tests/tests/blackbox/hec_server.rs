//! HTTP Event Collector: what clients of Splunk send, and what they are answered.

use inrush_tests::*;

pub(crate) const TOKEN: &str = "11111111-2222-3333-4444-555555555555";

/// A collector before a file; `token` and `more` are options of the token and of the source.
pub(crate) fn collector(token: &str, more: &str) -> String {
    format!(
        "sources:\n  hec:\n    type: splunk_hec\n    listen: 127.0.0.1:0\n    {}\n    tokens:\n      \
         - {{ token: {TOKEN}, name: t1{token} }}\ndestinations:\n  \
         out: {{ type: file, path: \"{{dir}}/out.jsonl\" }}\n",
        more.replace('\n', "\n    ")
    )
}

/// A collector that forwards to another.
pub(crate) fn forwarder(to: &str, token: &str) -> String {
    format!(
        "sources:\n  hec:\n    type: splunk_hec\n    listen: 127.0.0.1:0\n    tokens:\n      \
         - {{ token: {TOKEN}, name: t1{token} }}\ndestinations:\n  splunk:\n    \
         type: splunk_hec\n    endpoints: [\"{to}\"]\n    token: s3cret\n"
    )
}

pub(crate) fn client(inrush: &Inrush) -> HecClient {
    HecClient::connect(inrush.address("http"), TOKEN)
}

/// Texts of the events in the file.
pub(crate) fn texts(inrush: &Inrush, events: u64) -> Vec<String> {
    field(&inrush.collected(events), "raw")
}

#[test]
fn an_event_is_taken_in_every_form_of_its_envelope() {
    let inrush = Inrush::start(&collector(", index: idx, sourcetype: st", ""));
    let mut hec = client(&inrush);
    let body = r#"{"event":"one","time":1700000000.123,"host":"h1"}
        {"event":{"b":1.0,"a":[1e3,null]},"time":"1700000001.5","index":"other"}
        {"event":"quote \" and \u00e9","fields":{"k":["a","b"]}}"#;
    let reply = hec.event(body);
    assert_eq!(
        (reply.status, reply.body.as_str()),
        (200, r#"{"text":"Success","code":0}"#)
    );
    let reply = hec.event(r#"[{"event":"four"}, {"event":5}]"#);
    assert_eq!(reply.status, 200);
    let events = inrush.collected(5);
    let texts = field(&events, "raw");
    let wanted = [
        "one",
        r#"{"b":1.0,"a":[1e3,null]}"#,
        "quote \" and é",
        "four",
        "5",
    ];
    assert_eq!(texts, wanted);
    assert_eq!(
        field(&events, "index"),
        ["idx", "other", "idx", "idx", "idx"]
    );
    assert_eq!(events[0]["host"], "h1");
    assert_eq!(events[0]["time"], "2023-11-14T22:13:20.123Z");
    assert_eq!(events[1]["time"], "2023-11-14T22:13:21.500Z");
    assert_eq!(events[2]["host"], "127.0.0.1");
    assert_eq!(events[0]["sourcetype"], "st");
}

/// Status, code and number of the object at fault.
type Answered = (u16, Option<u64>, Option<u64>);

const BASIC: &str = "Authorization: Basic eDoxMTExMTExMS0yMjIyLTMzMzMtNDQ0NC01NTU1NTU1NTU1NTU=\r\n";

const GOOD: &str = r#"{"event":"x"}"#;

/// Requests, by target, fields and body, and how they are answered.
const ANSWERS: [(&str, &str, &str, Answered); 32] = [
    ("event", "", GOOD, (200, Some(0), None)),
    ("/services/collector", "", GOOD, (200, Some(0), None)),
    ("event/1.0", "", GOOD, (200, Some(0), None)),
    (
        "event",
        "Authorization: Splunk disabled-token\r\n",
        GOOD,
        (403, Some(1), None),
    ),
    (
        "event",
        "Authorization: Splunk\r\n",
        GOOD,
        (401, Some(3), None),
    ),
    (
        "event",
        "Authorization: Bearer x\r\n",
        GOOD,
        (401, Some(3), None),
    ),
    (
        "event",
        "Authorization: Basic ???\r\n",
        GOOD,
        (401, Some(3), None),
    ),
    (
        "event",
        "Authorization: Splunk wrong-token\r\n",
        GOOD,
        (403, Some(4), None),
    ),
    ("event", BASIC, GOOD, (200, Some(0), None)),
    ("event", "", "", (400, Some(5), None)),
    ("event", "", "  \n ", (400, Some(5), None)),
    ("event", "", "{", (400, Some(6), Some(0))),
    (
        "event",
        "",
        r#"{"event":"x"}{"event":"y"}nonsense"#,
        (400, Some(6), Some(2)),
    ),
    (
        "event",
        "",
        r#"{"event":"x"}{"event":"y","index":"no"}"#,
        (400, Some(7), Some(2)),
    ),
    ("event", "", r#"{"host":"x"}"#, (400, Some(12), Some(0))),
    (
        "event",
        "",
        r#"{"event":"x"}{"event":""}"#,
        (400, Some(13), Some(1)),
    ),
    ("ack", "", r#"{"acks":[0]}"#, (400, Some(14), None)),
    (
        "event",
        "",
        r#"{"event":"x","fields":{"a":{"b":1}}}"#,
        (400, Some(15), Some(0)),
    ),
    (
        "event",
        "",
        r#"{"event":"x","time":1.7e9}"#,
        (400, Some(15), Some(0)),
    ),
    (
        "event?token=11111111-2222-3333-4444-555555555555",
        "",
        GOOD,
        (400, Some(16), None),
    ),
    (
        "event?token=query-string-token",
        "",
        GOOD,
        (200, Some(0), None),
    ),
    ("event?token=nobody-knows", "", GOOD, (403, Some(4), None)),
    ("GET health", "", "", (200, Some(17), None)),
    (
        "GET health/1.0",
        "Authorization: Splunk wrong-token\r\n",
        "",
        (400, Some(21), None),
    ),
    (
        "GET health?token=disabled-token",
        "",
        "",
        (400, Some(22), None),
    ),
    ("HEAD health", "", "", (200, None, None)),
    ("nonsense", "", GOOD, (404, Some(404), None)),
    ("mint", "", GOOD, (404, Some(404), None)),
    ("GET event", "", "", (405, Some(404), None)),
    ("POST health", "", GOOD, (405, Some(404), None)),
    (
        "event",
        "Content-Encoding: deflate\r\n",
        GOOD,
        (415, Some(415), None),
    ),
    ("raw?index=no", "", "line", (400, Some(7), None)),
];

#[test]
fn answers_are_those_of_splunk() {
    let config =
        collector(", indexes: [main]", "max_event_bytes: 10kB") + "  null0: { type: blackhole }\n";
    let config = config.replace(
        "destinations:",
        "      - { token: disabled-token, disabled: true }\n      \
         - { token: query-string-token, query_string_auth: true }\ndestinations:",
    );
    let inrush = Inrush::start(&config);
    let mut hec = client(&inrush);
    let brief = |reply: HecReply| {
        let number = reply.json()["invalid-event-number"].as_u64();
        (reply.status, reply.code(), number)
    };
    for (target, fields, body, wanted) in ANSWERS {
        let target = match target.split_once(' ') {
            Some((method, path)) => format!("{method} /services/collector/{path}"),
            None => target.to_owned(),
        };
        if target.starts_with("HEAD") {
            // Its length is that of the body that is left out.
            let bytes = hec.request(&target, fields, b"");
            let mut other = client(&inrush);
            other
                .send(bytes)
                .socket()
                .shutdown(std::net::Shutdown::Write)
                .unwrap();
            continue;
        }
        let reply = hec.ask(&target, fields, body);
        assert_eq!(
            brief(reply.clone()),
            wanted,
            "{target} {fields:?} {body}: {}",
            reply.body
        );
    }
    let mut nobody = HecClient::connect(inrush.address("http"), "");
    assert_eq!(nobody.event(GOOD).brief(), (401, Some(2)));
    let reply = nobody.ask("OPTIONS /services/collector/event/1.0", "", "");
    assert_eq!((reply.status, reply.body.as_str()), (200, ""));
    assert!(reply.head.contains("Allow: POST,OPTIONS"), "{}", reply.head);
}

#[test]
fn objects_before_the_bad_one_are_taken() {
    let inrush = Inrush::start(&collector("", ""));
    let mut hec = client(&inrush);
    let reply = hec.event(r#"{"event":"a"}{"event":"b"}{"event":}{"event":"d"}"#);
    assert_eq!(reply.json()["invalid-event-number"], 2, "{}", reply.body);
    assert_eq!(hec.event(r#"{"event":"e"}"#).status, 200);
    assert_eq!(texts(&inrush, 3), ["a", "b", "e"]);
}

#[test]
fn lines_of_the_raw_endpoint_are_events() {
    let inrush = Inrush::start(&collector(", source: src", ""));
    let mut hec = client(&inrush);
    let target = "raw?host=h%201&sourcetype=s+t&index=main&time=1700000000.25";
    assert_eq!(
        hec.ask(target, "", "one\r\n\ntwo\nthree").brief(),
        (200, Some(0))
    );
    assert_eq!(hec.ask("raw", "", "four").brief(), (200, Some(0)));
    assert_eq!(hec.ask("raw", "", "\n\n").brief(), (400, Some(5)));
    let events = inrush.collected(4);
    assert_eq!(field(&events, "raw"), ["one", "two", "three", "four"]);
    assert_eq!(field(&events[..3], "host"), ["h 1", "h 1", "h 1"]);
    assert_eq!(events[0]["sourcetype"], "s t");
    assert_eq!(events[0]["time"], "2023-11-14T22:13:20.250Z");
    // The name of the source is that of the configuration.
    assert_eq!(
        (&events[3]["source"], &events[3]["event_source"]),
        (&"hec".into(), &"src".into())
    );
}

#[test]
fn lines_of_the_raw_endpoint_may_be_joined_to_events() {
    let rule = r#", raw: { multiline: "^\\d{4}-" }"#;
    let inrush = Inrush::start(&collector(rule, ""));
    let mut hec = client(&inrush);
    let event = "2026-11-28 error\n  at one\n\n  at two";
    let body = format!("{event}\n2026-11-28 next\n");
    assert_eq!(hec.ask("raw", "", &body).brief(), (200, Some(0)));
    // Wherever it is cut, and compressed too; the end of a body ends an event.
    for byte in hec.request("raw", "Content-Encoding: gzip\r\n", &gzip(&body)) {
        hec.send([byte]);
    }
    assert_eq!(hec.answer().brief(), (200, Some(0)));
    assert_eq!(hec.ask("raw", "", "  at three").brief(), (200, Some(0)));
    let next = "2026-11-28 next";
    assert_eq!(texts(&inrush, 5), [event, next, event, next, "  at three"]);
    inrush.rewrite(&collector(r#", raw: { multiline: "(" }"#, ""));
    let answer = inrush.reload();
    assert!(
        answer.status == 400 && answer.body.contains("multiline"),
        "{}",
        answer.body
    );
}

#[test]
fn bodies_may_be_chunked_compressed_cut_and_pipelined() {
    let inrush = Inrush::start(&collector("", ""));
    let mut hec = client(&inrush);
    let object = |n: usize| format!(r#"{{"event":"event {n}"}}"#);
    let chunked = format!(
        "5;x=y\r\n{}\r\n{:x}\r\n{}\r\n0\r\nTrailer: t\r\n\r\n",
        &object(0)[..5],
        object(0).len() - 5,
        &object(0)[5..]
    );
    let fields = "Transfer-Encoding: chunked\r\n";
    assert_eq!(hec.ask("event", fields, chunked).brief(), (200, Some(0)));
    let fields = "Content-Encoding: gzip\r\n";
    assert_eq!(
        hec.ask("event", fields, gzip(object(1))).brief(),
        (200, Some(0))
    );
    let members = [gzip(object(2)), gzip(object(3))].concat();
    assert_eq!(hec.ask("event", fields, members).brief(), (200, Some(0)));
    for byte in hec.request("event", "", object(4).as_bytes()) {
        hec.send([byte]);
    }
    assert_eq!(hec.answer().brief(), (200, Some(0)));
    let both = [
        hec.request("event", "", object(5).as_bytes()),
        hec.request("event", "", b"{"),
        hec.request("event", "", object(6).as_bytes()),
    ];
    hec.send(both.concat());
    let statuses: Vec<u16> = (0..3).map(|_| hec.answer().status).collect();
    assert_eq!(statuses, [200, 400, 200]);
    let head = hec.request("event", "Expect: 100-continue\r\n", object(7).as_bytes());
    let (head, body) = head.split_at(head.len() - object(7).len());
    hec.send(head);
    assert_eq!(hec.any_answer().status, 100);
    assert_eq!(hec.send(body).answer().status, 200);
    let wanted: Vec<String> = (0..8).map(|n| format!("event {n}")).collect();
    assert_eq!(texts(&inrush, 8), wanted);
}

#[test]
fn broken_compression_takes_what_came_before_it() {
    let inrush = Inrush::start(&collector("", ""));
    let mut hec = client(&inrush);
    let fields = "Content-Encoding: gzip\r\n";
    let whole = gzip(r#"{"event":"a"}"#);
    let cut = &whole[..whole.len() - 4];
    assert_eq!(hec.ask("event", fields, cut).brief(), (400, Some(6)));
    let garbage = [whole.clone(), b"garbage".to_vec()].concat();
    assert_eq!(hec.ask("event", fields, garbage).brief(), (400, Some(6)));
    assert_eq!(hec.ask("event", fields, "no gzip").brief(), (400, Some(6)));
    let bomb = gzip(vec![b' '; 64 << 20]);
    assert_eq!(hec.ask("event", fields, bomb).brief(), (400, Some(6)));
    assert_eq!(hec.ask("event", fields, whole).brief(), (200, Some(0)));
}

#[test]
fn requests_that_could_be_read_in_two_ways_end_the_connection() {
    let inrush = Inrush::start(&collector("", ""));
    for fields in [
        "Content-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "X: a\r\n folded\r\n",
        "X : a\r\n",
        "X: a\n",
    ] {
        let mut hec = client(&inrush);
        let reply = hec.ask("event", fields, r#"{"event":"x"}"#);
        assert_eq!(reply.status, 400, "{fields:?}");
        assert!(reply.head.contains("Connection: close"), "{}", reply.head);
        assert!(hec.is_closed());
    }
    inrush.connection_errors("bad_http_request", 5);
}

#[test]
fn what_is_forwarded_is_as_it_was_written() {
    let splunk = Hec::start();
    let inrush = Inrush::start(&forwarder(&splunk.url(), ", index: main"));
    let mut hec = client(&inrush);
    let object = concat!(
        r#"{"time":1700000000.1234567,"host":"Web-1","source":"/var/log/\u00e9","#,
        r#""sourcetype":"a:b","event":{"z":1.0,"a":1e3,"n":12345678901234567890,"t":"\ud83d\ude00"},"#,
        r#""fields":{"k":["a","b"],"n":1.50}}"#
    );
    assert_eq!(hec.event(object).status, 200);
    let text = r#"{"event":"tab\tand \u0041","host":"h"}"#;
    assert_eq!(hec.event(text).status, 200);
    let metric = r#"{"event":"metric","fields":{"metric_name:cpu":1.50,"host_x":"a"}}"#;
    assert_eq!(hec.event(metric).status, 200);
    let bodies = eventually("three events", || {
        let bodies: String = splunk
            .requests()
            .iter()
            .map(|one| one.text.clone())
            .collect();
        bodies.contains("metric_name").then_some(bodies)
    });
    for part in [
        r#"{"time":1700000000.1234567,"host":"Web-1","source":"/var/log/é","sourcetype":"a:b","index":"main","event":{"z":1.0,"a":1e3,"n":12345678901234567890,"t":"\ud83d\ude00"},"fields":{"k":["a","b"],"n":1.50}}"#,
        r#""event":"tab\tand \u0041"}"#,
        r#""event":"metric","fields":{"metric_name:cpu":1.50,"host_x":"a"}}"#,
    ] {
        assert!(bodies.contains(part), "{part}\nin\n{bodies}");
    }
}

#[test]
fn a_reload_changes_tokens_and_closes_no_connection() {
    let config = collector("", "");
    let inrush = Inrush::start(&config);
    let mut hec = client(&inrush);
    assert_eq!(hec.event(r#"{"event":"a"}"#).status, 200);
    inrush.rewrite(&config.replace(TOKEN, "another-token"));
    assert_eq!(inrush.reload().status, 200);
    assert_eq!(hec.event(r#"{"event":"b"}"#).brief(), (403, Some(4)));
    let fields = "Authorization: Splunk another-token\r\n";
    assert_eq!(hec.ask("event", fields, r#"{"event":"c"}"#).status, 200);
    assert_eq!(texts(&inrush, 2), ["a", "c"]);
}

#[test]
fn no_token_is_on_disk_or_in_the_log() {
    let config = collector("", "") + "queue: { durability: fsync }\n";
    let inrush = Inrush::start(&config);
    let mut hec = client(&inrush);
    for n in 0..100 {
        let body = format!(r#"{{"event":"event {n}"}}"#);
        assert_eq!(hec.event(body).status, 200);
    }
    let wrong = "Authorization: Splunk a-wrong-secret\r\n";
    hec.ask("event", wrong, r#"{"event":"x"}"#);
    assert!(!inrush.stderr().contains("a-wrong-secret"));
    let (exit, dir) = inrush.stop();
    assert!(!exit.stderr.contains(TOKEN));
    let mut files = vec![dir.path().join("data")];
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(path.read_dir().unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let bytes = std::fs::read(&path).unwrap();
            let found = bytes
                .windows(TOKEN.len())
                .any(|one| one == TOKEN.as_bytes());
            assert!(!found, "{}", path.display());
        }
    }
}

/// Sends until the queue is full; the answer then, and the events that were taken before.
pub(crate) fn fill_queue(hec: &mut HecClient) -> (HecReply, u64) {
    let text = "x".repeat(100_000);
    let mut warned = false;
    for taken in 0..1000 {
        let answer = hec.event(format!(r#"{{"event":"{taken} {text}"}}"#));
        if answer.status != 200 {
            assert!(warned, "no warning before it was full");
            return (answer, taken);
        }
        warned |= answer.code() == Some(24);
    }
    panic!("the queue is never full");
}

#[test]
fn a_full_queue_answers_busy_and_takes_nothing() {
    for (busy, wanted) in [("503", (503, Some(9))), ("429", (429, Some(26)))] {
        let splunk = Hec::start();
        splunk.otherwise(Some(Reply::busy(1)));
        let options = format!("busy_after: 50ms\n    busy: \"{busy}\"\n    tokens:");
        let config = forwarder(&splunk.url(), "").replace("tokens:", &options)
            + "queue: { durability: memory, memory_bytes: 32MiB }\n";
        let inrush = Inrush::start(&config);
        let mut hec = client(&inrush);
        let (reply, taken) = fill_queue(&mut hec);
        assert_eq!(reply.brief(), wanted);
        assert!(reply.head.contains("Retry-After"), "{}", reply.head);
        let health = hec.ask("GET /services/collector/health", "", "");
        assert_eq!(health.brief(), (503, Some(18)));
        splunk.otherwise(None);
        let ledger = inrush.conserved(taken);
        assert_eq!(ledger.sources["hec"].received, taken);
        assert_eq!(hec.event(r#"{"event":"again"}"#).status, 200);
    }
}

/// Each event has them: a short body of lines would become gigabytes.
#[test]
fn names_of_a_request_are_bounded() {
    let inrush = Inrush::start(&collector("", ""));
    let mut hec = client(&inrush);
    for name in ["host", "index", "source", "sourcetype"] {
        let of_length = |bytes: usize| format!("raw?{name}={}", "n".repeat(bytes));
        let reply = hec.ask(&of_length(1025), "", "a\n".repeat(1000));
        assert_eq!(reply.brief(), (400, Some(6)), "{name}");
        assert_eq!(hec.ask(&of_length(1024), "", "a\n").status, 200, "{name}");
    }
    assert_eq!(texts(&inrush, 4), ["a"; 4]);
}

#[test]
fn slow_requests_cost_their_connection_only() {
    let inrush = Inrush::start(&collector("", ""));
    let mut slow = client(&inrush);
    slow.send("POST /services/collector/event HTTP/1.1\r\nHost");
    let mut hec = client(&inrush);
    assert_eq!(hec.event(r#"{"event":"a"}"#).status, 200);
    slow.send(": x\r\n");
    assert_eq!(texts(&inrush, 1), ["a"]);
}

#[test]
fn long_events_are_taken_and_longer_ones_refused() {
    let inrush = Inrush::start(&collector("", "max_event_bytes: 5MB"));
    let mut hec = client(&inrush);
    let long = "l".repeat(4_000_000);
    assert_eq!(hec.event(format!(r#"{{"event":"{long}"}}"#)).status, 200);
    let longer = "l".repeat(6_000_000);
    let reply = hec.event(format!(r#"{{"event":"a"}}{{"event":"{longer}"}}"#));
    assert_eq!(reply.brief(), (400, Some(6)));
    assert_eq!(reply.json()["invalid-event-number"], 1);
    let texts = texts(&inrush, 2);
    assert_eq!((texts[0].len(), texts[1].as_str()), (4_000_000, "a"));
}

#[test]
fn tls_serves_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::new(dir.path());
    pki.issue("server");
    let tls = format!(
        "tls: {{ cert_file: {}, key_file: {} }}",
        pki.path("server.pem").display(),
        pki.path("server.key").display()
    );
    let inrush = Inrush::start(&collector("", &tls));
    let stream = tls_connect(inrush.address("https"), &pki.client(None)).unwrap();
    let mut hec = HecClient::over(stream, TOKEN);
    let body: String = (0..3000)
        .map(|n| format!(r#"{{"event":"{n} {}"}}"#, "x".repeat(1000)))
        .collect();
    assert_eq!(hec.event(body).brief(), (200, Some(0)));
    assert_eq!(inrush.collected(3000).len(), 3000);
}

#[test]
fn metrics_say_what_came_with_each_token() {
    let inrush = Inrush::start(&collector("", ""));
    let mut hec = client(&inrush);
    hec.event(r#"{"event":"abc"}"#);
    hec.event("{");
    let page = eventually("metrics", || {
        let page = inrush.http("GET", "/metrics").body;
        page.contains("code=\"6\"").then_some(page)
    });
    for line in [
        r#"inrush_hec_token_events_total{source="hec",token="t1"} 1"#,
        r#"inrush_hec_token_bytes_total{source="hec",token="t1"} 3"#,
        r#"inrush_hec_token_answers_total{source="hec",token="t1",code="0"} 1"#,
    ] {
        assert!(page.contains(line), "{line}\nin\n{page}");
    }
}

pub(crate) const CHANNEL: &str =
    "X-Splunk-Request-Channel: 11111111-2222-3333-4444-55555555555A\r\n";

/// True for those of these numbers whose events are safe.
pub(crate) fn acked(hec: &mut HecClient, numbers: &[u64]) -> Vec<bool> {
    let list: Vec<String> = numbers.iter().map(u64::to_string).collect();
    let reply = hec.ask("ack", CHANNEL, format!("{{\"acks\":[{}]}}", list.join(",")));
    assert_eq!(reply.status, 200, "{}", reply.body);
    let acks = &reply.json()["acks"];
    numbers
        .iter()
        .map(|n| acks[n.to_string()].as_bool().unwrap())
        .collect()
}

#[test]
fn an_acknowledgement_is_true_once_events_are_durable_and_once_only() {
    let inrush = Inrush::start(&collector(", ack: received", ""));
    let mut hec = client(&inrush);
    assert_eq!(hec.event(r#"{"event":"a"}"#).brief(), (400, Some(10)));
    let wrong = "X-Splunk-Request-Channel: 1\r\n";
    assert_eq!(
        hec.ask("event", wrong, r#"{"event":"a"}"#).brief(),
        (400, Some(11))
    );
    let first = hec.ask("event", CHANNEL, r#"{"event":"a"}"#);
    let second = hec.ask("event", CHANNEL, r#"{"event":"b"}{"#);
    assert_eq!(
        (first.brief(), second.brief()),
        ((200, Some(0)), (400, Some(6)))
    );
    let number = |reply: &HecReply| reply.json()["ackId"].as_u64().unwrap();
    let numbers = [number(&first), number(&second)];
    assert_eq!(numbers[1], numbers[0] + 1);
    assert_eq!(acked(&mut hec, &numbers), [true, true]);
    assert_eq!(acked(&mut hec, &numbers), [false, false]);
    let nothing = hec.ask("event", CHANNEL, "{");
    assert_eq!(nothing.json().get("ackId"), None, "{}", nothing.body);
    assert_eq!(hec.ask("ack", CHANNEL, "[]").brief(), (400, Some(6)));
    let third = number(&hec.ask("event", CHANNEL, r#"{"event":"c"}"#));
    let compressed = format!("Content-Encoding: gzip\r\n{CHANNEL}");
    let poll = gzip(format!("{{\"acks\":[{third}]}}"));
    let reply = hec.ask("ack", &compressed, &poll);
    let wanted = format!("{{\"acks\":{{\"{third}\":true}}}}");
    assert_eq!((reply.status, reply.body), (200, wanted));
    // Inflated it is as bounded as it is otherwise.
    let long = gzip(format!("{{\"acks\":[{}0]}}", "0,".repeat(600_000)));
    for broken in [&poll[..poll.len() - 4], b"{\"acks\":[0]}", &long] {
        assert_eq!(hec.ask("ack", &compressed, broken).brief(), (400, Some(6)));
    }
}

#[test]
fn an_acknowledgement_waits_for_every_destination() {
    let splunk = Hec::start();
    splunk.otherwise(Some(Reply::busy(1)));
    let inrush = Inrush::start(&forwarder(&splunk.url(), ", ack: delivered"));
    let mut hec = client(&inrush);
    let reply = hec.ask("event", CHANNEL, r#"{"event":"a"}"#);
    let number = reply.json()["ackId"].as_u64().unwrap();
    splunk.await_requests(1);
    assert_eq!(acked(&mut hec, &[number]), [false]);
    splunk.otherwise(None);
    eventually("the acknowledgement", || {
        acked(&mut hec, &[number])[0].then_some(())
    });
}

#[test]
fn an_acknowledgement_is_known_after_a_kill() {
    let config = collector(", ack: received", "") + "queue: { durability: fsync }\n";
    let inrush = Inrush::start(&config);
    let mut hec = client(&inrush);
    let reply = hec.ask("event", CHANNEL, r#"{"event":"a"}"#);
    let number = reply.json()["ackId"].as_u64().unwrap();
    let (_, dir) = inrush.kill();
    let options = Options {
        dir: Some(dir),
        ..Options::default()
    };
    let inrush = Inrush::with(&config, options);
    let mut hec = client(&inrush);
    assert_eq!(acked(&mut hec, &[number, number + 1]), [true, false]);
    let reply = hec.ask("event", CHANNEL, r#"{"event":"b"}"#);
    // Some of those in between may have been given, and lost in a power cut.
    assert!(reply.json()["ackId"].as_u64().unwrap() > number);
}

#[test]
fn a_token_is_made_at_the_first_start_and_kept() {
    let config = collector("", "").replace(&format!("token: {TOKEN}"), "token_file: hec-token");
    let inrush = Inrush::start(&config);
    let (exit, dir) = inrush.stop();
    let path = dir.path().join("data/hec-token");
    let token = std::fs::read_to_string(&path).unwrap().trim().to_owned();
    assert!(
        token.len() == 36 && exit.stderr.contains(&token),
        "{}",
        exit.stderr
    );
    let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let options = Options {
        dir: Some(dir),
        ..Options::default()
    };
    let inrush = Inrush::with(&config, options);
    let mut hec = HecClient::connect(inrush.address("http"), &token);
    assert_eq!(hec.event(r#"{"event":"a"}"#).status, 200);
    assert!(!inrush.stderr().contains(&token));
}

#[test]
fn a_text_may_give_its_own_time() {
    let inrush = Inrush::start(&collector("", ""));
    let mut hec = client(&inrush);
    let text = r#"{"event":"2023-11-14T22:13:20.5Z host app: text"}"#;
    assert_eq!(
        hec.ask("event?auto_extract_timestamp=true", "", text)
            .status,
        200
    );
    assert_eq!(inrush.collected(1)[0]["time"], "2023-11-14T22:13:20.500Z");
    let target = "event?auto_extract_timestamp=true&time=1700000001";
    assert_eq!(hec.ask(target, "", text).status, 200);
    assert_eq!(inrush.collected(2)[1]["time"], "2023-11-14T22:13:21.000Z");
}

#[test]
fn pages_of_an_origin_may_send_if_the_configuration_says_so() {
    let cors = "cors: { origins: [\"https://*.example.com\"], headers: [Authorization] }";
    let inrush = Inrush::start(&collector("", cors));
    let mut hec = client(&inrush);
    let target = "OPTIONS /services/collector/event";
    let reply = hec.ask(target, "Origin: https://app.example.com\r\n", "");
    for field in [
        "Access-Control-Allow-Origin: https://app.example.com",
        "Access-Control-Allow-Headers: Authorization",
    ] {
        assert!(reply.head.contains(field), "{}", reply.head);
    }
    let reply = hec.ask(target, "Origin: https://example.org\r\n", "");
    assert!(reply.status == 200 && !reply.head.contains("Access-Control"));
}

#[test]
fn a_token_that_has_used_its_rate_is_busy() {
    let inrush = Inrush::start(&collector(", rate: 1kB", ""));
    let mut hec = client(&inrush);
    let body = format!(r#"{{"event":"{}"}}"#, "x".repeat(100_000));
    assert_eq!(hec.event(&body).brief(), (200, Some(0)));
    assert_eq!(hec.event(&body).brief(), (503, Some(9)));
    assert_eq!(inrush.collected(1).len(), 1);
}

#[test]
fn a_long_event_may_come_in_many_small_pieces() {
    let inrush = Inrush::start(&collector("", ""));
    let mut hec = client(&inrush);
    let long = "l".repeat(1_000_000);
    let body = format!(r#"{{"event":"{long}"}}{{"event":"b"}}"#);
    for fields in ["", "Content-Encoding: gzip\r\n"] {
        let body = match fields {
            "" => body.clone().into_bytes(),
            _ => gzip(&body),
        };
        for piece in hec.request("event", fields, &body).chunks(7_001) {
            hec.send(piece);
        }
        assert_eq!(hec.answer().brief(), (200, Some(0)));
    }
    let texts = texts(&inrush, 4);
    assert_eq!((texts[2].len(), texts[3].as_str()), (1_000_000, "b"));
}

#[test]
fn events_are_found_in_the_store_by_their_fields() {
    let config = collector(", source: src", "").replace(
        "out: { type: file, path: \"{dir}/out.jsonl\" }",
        "kept: { type: store, flush_after: 100ms }",
    );
    let inrush = Inrush::start(&config);
    let mut hec = client(&inrush);
    let body = r#"{"event":"red fox","fields":{"colour":"red","n":[1,2]}}{"event":"blue fox"}"#;
    assert_eq!(hec.event(body).status, 200);
    assert_eq!(hec.ask("raw", "", "green fox").status, 200);
    for (query, texts) in [
        ("event_source=src green", vec!["green fox"]),
        ("colour=red", vec!["red fox"]),
        ("event_source=src fox", vec!["blue fox", "red fox"]),
        ("n=1 fox", vec!["red fox"]),
    ] {
        let path = format!(
            "/api/v1/search?q={}",
            query.replace(' ', "%20").replace('=', "%3D")
        );
        eventually(query, || {
            let found = inrush.http("GET", &path).body;
            let is_there = |text: &&str| found.contains(*text);
            texts.iter().all(is_there).then_some(())
        });
    }
}
