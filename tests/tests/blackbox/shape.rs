//! A user's own expressions: transforms and routes, end to end.

use std::process::Command;

use inrush_tests::*;
use serde_json::{Value, json};

/// A syslog source, two files, and what is said of them.
fn two_files(more: &str) -> String {
    format!(
        "{}  tape: {{ type: file, path: \"{{dir}}/tape.jsonl\" }}\n{more}",
        crate::to_file(crate::TCP, "")
    )
}

fn line(severity: u8, program: &str, text: &str) -> String {
    format!(
        "<{}>May  6 07:08:09 h1 {program}[1]: {text}\n",
        16 + severity
    )
}

fn texts(events: &[Value]) -> Vec<String> {
    let text = |event: &Value| event["message"].as_str().unwrap_or_default().to_owned();
    sorted(events.iter().map(text).collect())
}

#[test]
fn transforms_set_what_goes_out_and_filter() {
    let hec = Hec::start();
    let yaml = crate::hec::to_hec(&[hec.url()], "")
        + r#"
packs: { enabled: true }
transforms:
  - { name: chatter, match: 'program == "gadget" && severity > 6', drop: true }
  - match: 'sourcetype == "cisco:asa"'
    set: { index: "'lab'", fields: { note: "vendor + '/' + string(severity)", sc4s_class: "''" } }
  - match: 'message.matches("^secret [0-9]+")'
    set: { event: "message.replace('secret', '***')", host: "host + '-dmz'", source: '"mine"' }
"#;
    let inrush = Inrush::start(&yaml);
    let asa = "<134>May  6 07:08:09 fw1 : %ASA-4-106023: Deny tcp src outside:192.0.2.9/4242\n";
    let sent = [
        line(7, "gadget", "noise"),
        asa.to_owned(),
        line(5, "gadget", "secret 77 out"),
        line(5, "gadget", "plain"),
    ];
    Tcp::connect(inrush.address("tcp")).send(sent.concat().as_bytes());
    let ledger = inrush.wait_until("three delivered", |ledger| {
        ledger.destinations["splunk"].delivered == 3 && ledger.sources["syslog"].accepted == 4
    });
    assert!(ledger.balanced, "{ledger:#?}");
    assert_eq!(ledger.filtered["chatter"], 1);
    let taken = hec.taken();
    let asa = taken
        .iter()
        .find(|e| e["sourcetype"] == "cisco:asa")
        .unwrap();
    assert_eq!(asa["index"], "lab");
    assert_eq!(asa["fields"]["note"], "cisco/6");
    assert_eq!(asa["fields"]["sc4s_vendor"], "cisco");
    let secret = taken.iter().find(|e| e["host"] == "h1-dmz");
    let secret =
        secret.unwrap_or_else(|| panic!("{taken:#?}\n{}", inrush.http("GET", "/metrics").body));
    assert_eq!(secret["event"], "*** 77 out");
    assert_eq!(secret["source"], "mine");
    let plain = taken.iter().find(|e| e["host"] == "h1").unwrap();
    assert_eq!(plain["event"], "gadget[1]: plain");
    let metrics = inrush.http("GET", "/metrics").body;
    assert!(
        metrics.contains("inrush_filtered_events_total{rule=\"chatter\"} 1"),
        "{metrics}"
    );
}

#[test]
fn routes_choose_destinations_and_every_event_is_accounted_for() {
    let yaml = two_files(
        "routes:\n  - { match: 'program == \"fw\"', to: [tape, out] }\n  \
         - { name: quiet, match: 'severity >= 5', to: [out] }\n",
    );
    let inrush = Inrush::start(&yaml);
    let mut sent = String::new();
    for n in 0..300 {
        sent += &match n % 3 {
            0 => line(3, "fw", &format!("f{n}")),
            1 => line(6, "app", &format!("a{n}")),
            _ => line(2, "app", &format!("u{n}")),
        };
    }
    Tcp::connect(inrush.address("tcp")).send(sent.as_bytes());
    let ledger = inrush.wait_until("all of them", |ledger| {
        ledger.sources["syslog"].accepted == 300
            && ledger.destinations.values().all(|d| d.pending == 0)
    });
    assert!(ledger.balanced, "{ledger:#?}");
    let counts = |name: &str| {
        let d = &ledger.destinations[name];
        (d.accepted, d.delivered)
    };
    assert_eq!(counts("tape"), (100, 100), "{ledger:#?}");
    assert_eq!(counts("out"), (200, 200), "{ledger:#?}");
    assert_eq!(ledger.filtered["unrouted"], 100);
    let named = |letter: &str, of: usize| -> Vec<String> {
        (0..300)
            .filter(|n| n % 3 == of)
            .map(|n| format!("{letter}{n}"))
            .collect()
    };
    assert_eq!(texts(&inrush.events("tape.jsonl")), sorted(named("f", 0)));
    let both = [named("f", 0), named("a", 1)].concat();
    assert_eq!(texts(&inrush.events("out.jsonl")), sorted(both));
}

#[test]
fn what_is_routed_to_a_store_that_cannot_be_opened_waits_until_it_can() {
    let inrush = Inrush::start(&crate::to_file(crate::TCP, ""));
    // A file stands where the store would have its folder.
    std::fs::write(inrush.path("taken"), "").unwrap();
    let far = "  far: { type: store, path: \"{dir}/taken/store\", flush_after: 100ms }\n\
        routes:\n  - { match: 'program == \"fw\"', to: [far] }\n  - { to: [out] }\n";
    inrush.rewrite(&format!("{}{far}", crate::to_file(crate::TCP, "")));
    assert_eq!(inrush.reload().status, 200);
    let sent = [
        line(3, "fw", "one"),
        line(3, "app", "two"),
        line(3, "fw", "three"),
    ];
    Tcp::connect(inrush.address("tcp")).send(sent.concat().as_bytes());
    let ledger = inrush.wait_until("all of them", |ledger| {
        ledger.sources["syslog"].accepted == 3 && ledger.destinations["out"].delivered == 1
    });
    assert!(ledger.balanced, "{ledger:#?}");
    assert_eq!(ledger.destinations["far"].pending, 2);
    let destinations = inrush.json("/api/v1/destinations").to_string();
    assert!(destinations.contains("store_held"), "{destinations}");
    assert_eq!(inrush.http("GET", "/healthz").status, 503);
    let answer = inrush.http("GET", "/api/v1/search?q=one").body;
    assert!(answer.contains("the store far is not open"), "{answer}");
    std::fs::remove_file(inrush.path("taken")).unwrap();
    inrush.wait_until("the store takes them", |ledger| {
        ledger.balanced && ledger.destinations["far"].delivered == 2
    });
}

#[test]
fn where_an_event_goes_outlives_a_crash_and_a_change_of_routes() {
    let hec = Hec::start();
    hec.otherwise(Some(Reply::code(503, 9, "Server is busy")));
    let routed = "routes:\n  - { match: 'program == \"fw\"', to: [splunk] }\n  - { to: [out] }\n";
    let yaml = crate::hec::to_hec(&[hec.url()], "")
        + "  out: { type: file, path: \"{dir}/out.jsonl\" }\n"
        + routed;
    let inrush = Inrush::start(&yaml);
    let sent = [
        line(3, "fw", "one"),
        line(3, "app", "two"),
        line(3, "fw", "three"),
    ];
    Tcp::connect(inrush.address("tcp")).send(sent.concat().as_bytes());
    inrush.wait_until("both", |ledger| {
        ledger.destinations["splunk"].pending == 2 && ledger.destinations["out"].delivered == 1
    });
    // What was taken in is written within 50 ms.
    let data = inrush.path("data");
    eventually("three events on disk", || {
        let verify = ["queue", "verify", "--data-dir", data.to_str()?];
        let output = Command::new(binary()).args(verify).output().unwrap();
        String::from_utf8_lossy(&output.stdout)
            .contains(" 3 events")
            .then_some(())
    });
    let (_, dir) = inrush.kill();
    hec.otherwise(None);
    let everywhere = yaml.replace(routed, "");
    let again = Inrush::with(
        &everywhere,
        Options {
            dir: Some(dir),
            ..Options::default()
        },
    );
    eventually("two events", || (hec.taken().len() == 2).then_some(()));
    let ledger = again.wait_until("nothing pending", |ledger| {
        ledger.destinations.values().all(|d| d.pending == 0)
    });
    assert!(ledger.balanced, "{ledger:#?}");
    assert_eq!(texts(&again.events("out.jsonl")), ["two"]);
}

#[test]
fn an_expression_that_fails_leaves_the_event_and_is_counted() {
    let inrush = Inrush::start(&two_files(
        "transforms:\n  - { name: zoned, set: { index: 'fields.zone' } }\n\
         routes:\n  - { name: odd, match: 'fields.zone == \"x\"', to: [tape] }\n  - { to: [out] }\n",
    ));
    let sent = [line(3, "a", "one"), line(3, "b", "two")];
    Tcp::connect(inrush.address("tcp")).send(sent.concat().as_bytes());
    inrush.wait_until("both", |ledger| ledger.destinations["out"].delivered == 2);
    let events = inrush.events("out.jsonl");
    assert_eq!(texts(&events), ["one", "two"]);
    assert_eq!(events[0]["index"], "main");
    let metrics = inrush.http("GET", "/metrics").body;
    for rule in ["zoned", "odd"] {
        let wanted = format!("inrush_expression_failures_total{{rule=\"{rule}\"}} 2");
        assert!(metrics.contains(&wanted), "{metrics}");
    }
    let said = inrush.stderr().matches("an expression fails").count();
    assert_eq!(said, 2, "once a rule: {}", inrush.stderr());
}

#[test]
fn a_reload_takes_other_routes_on() {
    let to = |name: &str| two_files(&format!("routes:\n  - {{ to: [{name}] }}\n"));
    let inrush = Inrush::start(&to("out"));
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    tcp.send(line(3, "a", "one"));
    inrush.wait_until("one", |ledger| ledger.destinations["out"].delivered == 1);
    inrush.rewrite(&to("tape"));
    let answer = inrush.reload();
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(
        answer.json()["changed"]
            .to_string()
            .contains("transforms and routes")
    );
    tcp.send(line(3, "a", "two"));
    let ledger = inrush.wait_until("two", |ledger| ledger.destinations["tape"].delivered == 1);
    assert!(
        ledger.balanced && ledger.destinations["out"].accepted == 1,
        "{ledger:#?}"
    );
}

fn run(args: &[&str], dir: &std::path::Path, stdin: &str) -> (String, String, Option<i32>) {
    std::fs::write(dir.join("in"), stdin).unwrap();
    let output = Command::new(binary())
        .args(args)
        .current_dir(dir)
        .stdin(std::fs::File::open(dir.join("in")).unwrap())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        text(output.stdout),
        text(output.stderr),
        output.status.code(),
    )
}

#[test]
fn check_names_the_place_of_every_mistake() {
    let dir = tempfile::tempdir().unwrap();
    let yaml = "sources: { s: { type: syslog, listen: [\"tcp://127.0.0.1:0\"] } }\n\
        destinations: { local: { type: blackhole } }\n\
        transforms:\n  - { match: 'severty > 3', drop: true }\n  - { match: 'severity > \"3\"', drop: true }\n  \
        - { match: 'severity > 3' }\n  - { set: { index: netops } }\n  \
        - { match: 'severity >', drop: true }\n\
        routes:\n  - { to: [locl] }\n  - { match: 'host', to: [local] }\n";
    std::fs::write(dir.path().join("c.yaml"), yaml).unwrap();
    let (stdout, stderr, code) = run(&["check", "-c", "c.yaml"], dir.path(), "");
    let said = format!("{stdout}{stderr}");
    assert_eq!(code, Some(2), "{said}");
    for wanted in [
        "c.yaml:4:14: `transforms[0].match`: an event has no `severty`",
        "c.yaml:5:14: `transforms[1].match`: found no matching overload",
        "c.yaml:6:5: `transforms[2]` does nothing",
        "c.yaml:7:21: `transforms[3].set.index`: an event has no `netops`",
        "A text stands in quotes",
        "c.yaml:8:14: `transforms[4].match`: is no expression",
        "c.yaml:10:12: `routes[0]`: there is no destination `locl`; did you mean `local`?",
        "c.yaml:11:5: `routes[1]` is never asked: `routes[0]` takes every event",
        "c.yaml:11:14: `routes[1].match`: gives no true or false",
    ] {
        assert!(said.contains(wanted), "{wanted}\n{said}");
    }
}

#[test]
fn explain_shows_what_transforms_and_routes_do() {
    let dir = tempfile::tempdir().unwrap();
    let yaml = "sources: { s: { type: syslog, listen: [\"tcp://127.0.0.1:0\"] } }\n\
        destinations: { local: { type: blackhole }, far: { type: blackhole } }\n\
        transforms:\n  - { name: renamed, match: 'program == \"a\"', set: { index: \"'x'\" } }\n  \
        - { name: gone, match: 'program == \"b\"', drop: true }\n\
        routes:\n  - { match: 'index == \"x\"', to: [far] }\n  - { match: 'program == \"c\"', to: [local] }\n";
    std::fs::write(dir.path().join("c.yaml"), yaml).unwrap();
    let input = ["a", "b", "c", "d"]
        .map(|program| line(3, program, "text"))
        .concat();
    let (stdout, stderr, code) = run(&["explain", "-c", "c.yaml", "--json"], dir.path(), &input);
    assert_eq!(code, Some(0), "{stderr}");
    let lines: Vec<Value> = stdout
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let shown = |one: &Value| {
        json!([
            one["envelope"][0]["index"],
            one["transforms"],
            one["destinations"],
            one["filtered"]
        ])
    };
    let shown: Vec<Value> = lines.iter().map(shown).collect();
    assert_eq!(
        shown,
        [
            json!(["x", ["renamed"], ["far"], false]),
            json!([null, [], null, true]),
            json!(["main", [], ["local"], false]),
            json!([null, [], null, true]),
        ]
    );
    assert!(
        lines[0]["why"]
            .as_str()
            .unwrap()
            .contains("changed by renamed"),
        "{}",
        lines[0]
    );
    assert!(
        lines[1]["why"].as_str().unwrap().contains("`gone`"),
        "{}",
        lines[1]
    );
    assert!(
        lines[3]["why"]
            .as_str()
            .unwrap()
            .contains("no route matches"),
        "{}",
        lines[3]
    );
}
