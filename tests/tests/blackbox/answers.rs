//! Answers that are right: fields, tables, ranges, senders, reloads and examples of guides say what
//! they mean, over the API and on the command line.

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use inrush_testkit::ApiServer;
use inrush_tests::*;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{TCP, UDP_TCP};

const GUIDE: &str = include_str!("../../../docs/guides/transforms.md");

/// A source of syslog and a store; `more` are further lines.
fn with_store(listen: &str, more: &str) -> String {
    format!(
        "sources:\n  syslog:\n    type: syslog\n    listen: [{listen}]\n    max_time_skew: 3650d\n\
         destinations:\n  local: {{ type: store }}\n{more}"
    )
}

/// Waits until so many events are searchable.
fn searchable(inrush: &Inrush, events: u64) {
    let wanted = format!("\"values\":[{events}]");
    eventually("the events are searchable", || {
        let answer = inrush.http("GET", "/api/v1/sql?q=select%20count(*)%20from%20events");
        answer.body.contains(&wanted).then_some(())
    });
}

/// A configuration by which the command line finds the process.
fn beside(inrush: &Inrush, folder: &Path) -> PathBuf {
    let path = folder.join("beside.yaml");
    let admin = format!("admin: {{ listen: \"{}\" }}\n", inrush.admin());
    fs::write(&path, admin + &with_store(TCP, "")).unwrap();
    path
}

/// `inrush search` with these arguments: what it printed, and what it said.
fn search(config: &Path, args: &[&str]) -> (String, String) {
    let output: Output = Command::new(binary())
        .arg("search")
        .args(args)
        .arg("-c")
        .arg(config)
        .env_remove("INRUSH_TOKEN")
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

/// The lines of an answer of the API.
fn asked(inrush: &Inrush, query: &str, more: &str) -> Vec<Value> {
    let query: String = query.bytes().map(|b| format!("%{b:02x}")).collect();
    let answer = inrush.http("GET", &format!("/api/v1/search?q={query}{more}"));
    // Between them are the lengths of the chunks.
    let lines = answer.body.lines().filter(|line| line.starts_with('{'));
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn of_type<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == kind).collect()
}

fn sorted<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut texts: Vec<&str> = texts.collect();
    texts.sort_unstable();
    texts
}

/// An event in RFC 5424 at a time.
fn event(time: Timestamp, pri: u8, host: &str, text: &str) -> String {
    format!("<{pri}>1 {time:.3} {host} app - - - {text}\n")
}

#[test]
fn labels_of_containers_are_fields_of_a_search() {
    let api = ApiServer::start(None);
    let pod = json!({
        "metadata": {
            "namespace": "shop", "name": "web-1", "uid": "u-1", "resourceVersion": "5",
            "labels": { "app": "shop" },
        },
        "spec": { "nodeName": "node-1", "containers": [{ "name": "web", "image": "nginx" }] },
        "status": { "containerStatuses": [{ "name": "web", "containerID": "containerd://c1" }] },
    });
    api.set("pods", 1, &[pod.to_string()]);
    let namespace = json!({ "metadata": { "name": "shop", "uid": "n" } });
    api.set("namespaces", 1, &[namespace.to_string()]);
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = format!(
        "current-context: a\ncontexts: [{{name: a, context: {{cluster: c}}}}]\n\
         clusters: [{{name: c, cluster: {{server: 'http://{}'}}}}]\n",
        api.address
    );
    fs::write(dir.path().join("kubeconfig"), kubeconfig).unwrap();
    let logs = dir.path().join("pods/shop_web-1_u-1/web");
    fs::create_dir_all(&logs).unwrap();
    fs::write(
        logs.join("0.log"),
        "2026-11-28T09:00:00.1Z stderr F hello\n2026-11-28T09:00:01.1Z stdout F other\n",
    )
    .unwrap();
    let config = "sources:\n  pods:\n    type: file\n    include: [\"{dir}/pods/*/*/*.log\"]\n    \
        kubernetes: { kubeconfig: \"{dir}/kubeconfig\", node: node-1, labels: [app] }\n\
        destinations:\n  local: { type: store }\n";
    let options = Options {
        dir: Some(dir),
        ..Options::default()
    };
    let inrush = Inrush::with(config, options);
    searchable(&inrush, 2);
    let found = |query: &str| {
        let lines = asked(&inrush, query, "&since=all");
        of_type(&lines, "event").len()
    };
    assert_eq!(found("k8s.pod.name=web-1 k8s.namespace.name=shop"), 2);
    assert_eq!(found("k8s.pod.labels.app=shop log.iostream=stderr"), 1);
    assert_eq!(found("k8s.pod.name=web-2"), 0);
    let lines = asked(&inrush, "hello", "&since=all");
    let event = of_type(&lines, "event")[0];
    assert_eq!(event["fields"]["k8s.container.name"], "web", "{event:#}");
    let counted = asked(&inrush, "* | count by log.iostream", "&since=all");
    assert_eq!(of_type(&counted, "row").len(), 2);
}

#[test]
fn a_table_is_whole_or_says_how_much_of_it_is_shown() {
    let inrush = Inrush::start(&with_store(TCP, ""));
    let mut sender = Tcp::connect(inrush.address("tcp"));
    for number in 0..236 {
        sender.send(event(Timestamp::now(), 13, &format!("h{number}"), "text"));
    }
    searchable(&inrush, 236);
    let lines = asked(&inrush, "* | count by host", "");
    assert_eq!(of_type(&lines, "row").len(), 236);
    let end = of_type(&lines, "end")[0];
    assert_eq!((&end["rows"], &end["stopped"]), (&json!(236), &json!(null)));
    let lines = asked(&inrush, "* | count by host", "&limit=200");
    let end = of_type(&lines, "end")[0];
    assert_eq!(
        (&end["rows"], &end["stopped"]),
        (&json!(236), &json!("limit"))
    );

    let folder = tempfile::tempdir().unwrap();
    let config = beside(&inrush, folder.path());
    let (table, said) = search(&config, &["* | count by host"]);
    assert_eq!((table.lines().count(), said.as_str()), (237, ""));
    let (table, said) = search(&config, &["* | count by host", "--limit", "200"]);
    assert_eq!(table.lines().count(), 201);
    assert!(
        said.contains("only the first 200 of 236 rows are shown"),
        "{said}"
    );
    let (events, said) = search(&config, &["*"]);
    assert_eq!(events.lines().count(), 200);
    assert!(
        said.contains("only the 200 of 236 events are shown"),
        "{said}"
    );
    let (_, said) = search(&config, &["* | sort -host", "--limit", "5"]);
    assert!(
        said.contains("only the 5 of 236 events are shown"),
        "{said}"
    );
    let (_, said) = search(&config, &["* | top 5 host"]);
    assert_eq!(said, "", "the query itself asks for five");
}

#[test]
fn severities_are_groups_with_names_and_empty_stretches_of_time_count_0() {
    let inrush = Inrush::start(&with_store(TCP, ""));
    let mut sender = Tcp::connect(inrush.address("tcp"));
    let at = |time: &str| time.parse::<Timestamp>().unwrap();
    sender.send(event(at("2026-11-22T10:00:00Z"), 11, "a", "x"));
    sender.send(event(at("2026-11-22T10:00:10Z"), 14, "a", "x"));
    sender.send(event(at("2026-11-22T10:03:00Z"), 11, "b", "x"));
    searchable(&inrush, 3);
    let folder = tempfile::tempdir().unwrap();
    let config = beside(&inrush, folder.path());
    let range = [
        "--since",
        "2026-11-22T09:59:00Z",
        "--until",
        "2026-11-22T10:05:00Z",
    ];
    let table = |query: &str| search(&config, &[&[query][..], &range].concat()).0;
    assert_eq!(
        table("* | count by severity"),
        "severity  count\nerr           2\ninfo          1\n"
    );
    assert_eq!(
        table("* | count by severity | sort -severity"),
        "severity  count\ninfo          1\nerr           2\n",
        "by rank, not by name"
    );
    assert_eq!(
        table("* | top facility"),
        "facility  count\nuser          3\n"
    );
    let minute = |minute: &str, count: u64, hosts: u64| {
        format!("2026-11-22T{minute}:00.000Z  {count:>5}  {hosts:>8}\n")
    };
    let rows = [
        ("09:59", 0, 0),
        ("10:00", 2, 1),
        ("10:01", 0, 0),
        ("10:02", 0, 0),
        ("10:03", 1, 1),
        ("10:04", 0, 0),
    ];
    let rows: Vec<String> = rows.map(|(at, n, hosts)| minute(at, n, hosts)).into();
    let head = "time                      count  dc(host)\n".to_owned();
    assert_eq!(
        table("* | count, dc(host) by 1m"),
        head.clone() + &rows.concat()
    );
    let down: String = rows.iter().rev().map(String::as_str).collect();
    assert_eq!(
        table("* | count, dc(host) by 1m | sort -time"),
        head.clone() + &down
    );
    assert_eq!(
        table("* | count, dc(host) by 1m | head 3"),
        head + &rows[..3].concat()
    );
    let lines = asked(&inrush, "* | count, avg(n) by 1m", "&since=all");
    let counts: Vec<&Value> = of_type(&lines, "row")
        .iter()
        .map(|row| &row["values"][1])
        .collect();
    assert_eq!(
        counts,
        [2, 0, 0, 1],
        "an open range begins and ends with its events"
    );
    let plan = of_type(&lines, "plan")[0];
    assert_eq!(plan["step_ms"], 60_000);
}

#[test]
fn a_range_ends_now_and_counts_what_lies_in_the_future() {
    let inrush = Inrush::start(&with_store(TCP, ""));
    let mut sender = Tcp::connect(inrush.address("tcp"));
    let now = Timestamp::now();
    let ahead = now + SignedDuration::from_mins(11);
    sender.send(event(
        now - SignedDuration::from_secs(5),
        13,
        "right",
        "text",
    ));
    for _ in 0..3 {
        sender.send(event(ahead, 13, "ahead", "text"));
    }
    searchable(&inrush, 4);
    let lines = asked(&inrush, "text", "");
    let hosts: Vec<_> = of_type(&lines, "event")
        .iter()
        .map(|one| &one["host"])
        .collect();
    assert_eq!(hosts, ["right"]);
    let end = of_type(&lines, "end")[0];
    assert_eq!((&end["future"], &end["matched"]), (&json!(3), &json!(1)));
    let to_ms = of_type(&lines, "plan")[0]["to_ms"].as_i64().unwrap();
    assert!(to_ms < ahead.as_millisecond(), "the axis ends now");

    let folder = tempfile::tempdir().unwrap();
    let config = beside(&inrush, folder.path());
    let (found, said) = search(&config, &["text"]);
    assert_eq!(found.lines().count(), 1);
    assert!(said.contains("3 events are dated in the future"), "{said}");
    let (found, said) = search(&config, &["text", "--since", "now", "--until", "all"]);
    assert_eq!((found.lines().count(), said.as_str()), (3, ""));
    let (found, _) = search(&config, &["text", "--since", "all"]);
    assert_eq!(found.lines().count(), 4);
}

#[test]
fn a_sender_is_a_field_and_has_the_products_that_packs_recognised() {
    let inrush = Inrush::start(&with_store(UDP_TCP, "packs: { enabled: true }\n"));
    let udp = inrush.address("udp");
    let [known, mixed] = ["127.0.0.2:0", "127.0.0.3:0"].map(|at| UdpSocket::bind(at).unwrap());
    let asa = "<134>May  6 07:08:09 fw1 : %ASA-4-106023: Deny tcp src outside:192.0.2.9/4242 \
        dst inside:198.51.100.7/22";
    known.send_to(asa.as_bytes(), udp).unwrap();
    let odd = "<13>1 2026-11-22T10:00:00Z h homemade - - - something";
    mixed.send_to(odd.as_bytes(), udp).unwrap();
    mixed.send_to(asa.as_bytes(), udp).unwrap();
    searchable(&inrush, 3);
    let found = |query: &str| {
        let lines = asked(&inrush, query, "&since=all");
        of_type(&lines, "event").len()
    };
    assert_eq!(found("sender=127.0.0.3"), 2);
    assert_eq!(found("-sender=127.0.0.3"), 1);
    assert_eq!(found("sender=127.0.0.*"), 3);
    let lines = asked(&inrush, "homemade", "&since=all");
    assert_eq!(of_type(&lines, "event")[0]["sender"], "127.0.0.3");
    let counted = asked(&inrush, "* | count by sender", "&since=all");
    assert_eq!(
        of_type(&counted, "row")[0]["values"],
        json!(["127.0.0.3", 2])
    );
    let lines = asked(&inrush, "*", "&since=all");
    let facets = of_type(&lines, "fields")[0]["fields"].as_array().unwrap();
    assert!(
        facets.iter().any(|field| field["name"] == "sender"),
        "{facets:?}"
    );

    let senders = inrush.json("/api/v1/senders")["senders"].clone();
    let of = |ip: &str| {
        let mut all = senders.as_array().unwrap().iter();
        all.find(|one| one["ip"] == ip).unwrap()
    };
    let (known, mixed) = (of("127.0.0.2"), of("127.0.0.3"));
    assert_eq!(known["recognised"], json!(["cisco asa"]), "{known:#}");
    assert_eq!(
        (&known["unrecognised"], &known["unknown"]),
        (&json!(0), &json!(false))
    );
    assert_eq!(
        (&mixed["unrecognised"], &mixed["unknown"]),
        (&json!(1), &json!(true))
    );
    assert_eq!(mixed["recognised"], json!(["cisco asa"]), "{mixed:#}");
    let kinds = inrush.json("/api/v1/unknown")["unknown"].clone();
    let unknown: u64 = kinds
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|k| k["events"].as_u64())
        .sum();
    assert_eq!(unknown, 1, "both count the same");
}

#[test]
fn a_reload_names_each_option_with_its_old_and_new_value_and_is_logged() {
    let queue = |bytes: &str| with_store(TCP, &format!("queue: {{ max_bytes: {bytes} }}\n"));
    let inrush = Inrush::start(&queue("128MiB"));
    inrush.rewrite(&queue("1GiB"));
    let changed = inrush.reload().json()["changed"].to_string();
    assert!(
        changed.contains("queue.max_bytes: 128MiB → 1GiB"),
        "{changed}"
    );
    inrush.rewrite("sources: nothing\n");
    assert_eq!(inrush.reload().status, 400);
    eventually("both are in the log", || {
        let log = inrush.stderr();
        let taken = log.contains("reloaded over the API") && log.contains("128MiB → 1GiB");
        (taken && log.contains("a reload over the API failed")).then_some(())
    });
}

#[test]
fn nothing_found_says_where_it_was_looked_and_what_other_products_would_write() {
    let inrush = Inrush::start(&with_store(TCP, ""));
    let folder = tempfile::tempdir().unwrap();
    let config = beside(&inrush, folder.path());
    for (query, hint) in [
        ("host:bastion-1", "`host=bastion-1`"),
        ("/Failed.*root/", "regexp_like(raw, 'Failed.*root')"),
        ("_time:5m x", "`--since 15m`"),
        ("level=error", "`severity`"),
        ("-keepalive host=x", ""),
    ] {
        let (found, said) = search(&config, &[query]);
        assert_eq!(found, "");
        assert!(said.contains("no event matches from 20"), "{query}: {said}");
        assert!(
            said.contains("(--since 15m)") && said.contains(hint),
            "{query}: {said}"
        );
    }
    for since in ["1y", "-15m", "now-15m", "1795341600"] {
        let (_, said) = search(&config, &["*", "--since", since]);
        assert!(said.contains(&format!("(--since {since})")), "{said}");
    }
}

/// The code block of the guide that begins with this line.
fn block(begin: &str) -> String {
    let start = GUIDE
        .find(begin)
        .unwrap_or_else(|| panic!("no {begin} in the guide"));
    let text = &GUIDE[start..];
    text[..text.find("```").unwrap()].to_owned()
}

/// `inrush explain --json` of these records by transforms and routes, each as an object.
fn explained(rules: &str, records: &str) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    let config = format!(
        "sources:\n  syslog: {{ type: syslog, listen: [{TCP}] }}\n\
         destinations:\n  splunk: {{ type: blackhole }}\n  local: {{ type: blackhole }}\n\
         packs: {{ enabled: true }}\n{rules}"
    );
    fs::write(dir.path().join("inrush.yaml"), config).unwrap();
    let args = ["explain", "-c", "inrush.yaml", "--json"];
    let output = crate::packs::inrush(&args, dir.path(), records);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn the_examples_of_the_guide_to_transforms_do_what_it_says() {
    let asa = |severity: u8| {
        let pri = 20 * 8 + severity;
        format!(
            "<{pri}>May  6 07:08:09 fw1 : %ASA-{severity}-106023: Deny tcp src \
             outside:192.0.2.9/4242 dst inside:198.51.100.7/22\n"
        )
    };
    let login = GUIDE
        .split("$ echo '")
        .nth(1)
        .unwrap()
        .split('\'')
        .next()
        .unwrap();
    let records = [asa(7), asa(4), login.to_owned() + "\n"].concat();
    let events = explained(&block("transforms:\n  - { name: asa chatter"), &records);
    assert_eq!(events[0]["filtered"], true, "{:#}", events[0]);
    assert_eq!(events[0]["rule"], "asa chatter");
    assert_eq!(
        events[1]["destinations"],
        json!(["splunk", "local"]),
        "{:#}",
        events[1]
    );
    let masked = &events[2];
    let shown = json!([
        masked["transforms"],
        masked["destinations"],
        masked["message"]
    ]);
    assert!(GUIDE.contains(&format!("\n{shown}\n")), "{shown}");
    assert!(login.contains("hunter2") && !shown.to_string().contains("hunter2"));

    let cards = explained(
        &block("transforms:\n  - match: 'message.matches(\"[0-9]{16}\")'"),
        "<13>May  6 07:08:09 h app: paid with 4111111111111111 today\n",
    );
    let sent = cards[0]["message"].to_string();
    assert!(sent.contains("paid with 411111******1111 today"), "{sent}");
}

#[test]
fn what_a_transform_masks_reaches_no_destination() {
    let rules = block("transforms:\n  - { name: asa chatter");
    let rules = rules.split("routes:").next().unwrap();
    let file = "  out: { type: file, path: \"{dir}/out.jsonl\" }\n";
    let inrush = Inrush::start(&with_store(TCP, &format!("{file}{rules}")));
    let mut sender = Tcp::connect(inrush.address("tcp"));
    sender.send("<13>May  6 07:08:09 h app[7]: user=bob password=hunter2 again\n");
    sender.send("<13>1 2026-11-22T10:00:00Z h app 7 ID [x@1 k=\"v\"] password=hunter2\n");
    searchable(&inrush, 2);
    let lines = asked(&inrush, "*", "&since=all");
    let events = of_type(&lines, "event");
    for event in &events {
        assert_eq!(
            (&event["host"], &event["app"]),
            (&json!("h"), &json!("app")),
            "{event:#}"
        );
        assert_eq!(event["proc_id"], "7");
    }
    let text = |name: &str| sorted(events.iter().map(|event| event[name].as_str().unwrap()));
    let masked = [
        "<13>1 2026-11-22T10:00:00Z h app 7 ID [x@1 k=\"v\"] password=***",
        "<13>May  6 07:08:09 h app[7]: user=bob password=*** again",
    ];
    assert_eq!(text("raw"), masked);
    assert_eq!(
        text("message"),
        ["password=***", "user=bob password=*** again"]
    );
    let written = eventually("both are in the file", || {
        let text = fs::read_to_string(inrush.path("out.jsonl")).ok()?;
        (text.lines().count() == 2).then_some(text)
    });
    assert!(
        !written.contains("hunter2") && written.contains("password=***"),
        "{written}"
    );
}
