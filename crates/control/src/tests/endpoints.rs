//! What each endpoint answers.

use std::sync::Mutex;
use std::sync::mpsc::sync_channel;

use super::*;

#[test]
fn the_ledger_has_the_shape_of_the_design() {
    let server = serve(StandIn::default());
    for path in ["/api/v1/ledger", "/ledger"] {
        let answer = get(server.local_addr(), path);
        assert_eq!(answer.status, 200);
        let ledger = answer.json();
        assert_eq!(ledger["balanced"], true);
        assert_eq!(ledger["sources"]["syslog"]["received"], 11);
        assert_eq!(ledger["sources"]["syslog"]["kernel_dropped"], 3);
        assert_eq!(ledger["sources"]["syslog"]["rejected"]["empty"], 1);
        assert_eq!(ledger["destinations"]["tape"]["pending"], 4);
        assert!(ledger["filtered"].is_object());
    }
}

#[test]
fn lists_come_under_both_paths() {
    let server = serve(StandIn::default());
    for prefix in ["", "/api/v1"] {
        let get = |name: &str| get(server.local_addr(), &format!("{prefix}/{name}")).json();
        let source = &get("sources")["sources"][0];
        assert_eq!(source["type"], "syslog");
        assert_eq!(source["listeners"][1], "tls://[::1]:6514");
        assert_eq!(source["connection_errors"]["tls_handshake"], 6);
        let destination = &get("destinations")["destinations"][0];
        assert_eq!(destination["last_error"], "disk full");
        assert_eq!(destination["retried"], 46);
        let files = get("files");
        assert_eq!(files["at_ms"], 82);
        assert_eq!(files["sources"][0]["source"], "pods");
        assert_eq!(files["sources"][0]["logs"], 81);
        let sender = &get("senders")["senders"][0];
        assert_eq!(sender["ip"], "2001:db8::7");
        assert_eq!(sender["events"], 53);
        assert_eq!(
            (&sender["rate"], &sender["clock_skew_ms"]),
            (&57.5.into(), &(-58.0).into())
        );
        assert_eq!(sender["zone_guessed"], "-05:00");
        assert_eq!(
            (&sender["format"], &sender["unknown"]),
            (&"unparsed".into(), &true.into())
        );
    }
}

#[test]
fn what_is_unknown_comes_with_the_nearest_rule() {
    let server = serve(StandIn::default());
    let kind = &get(server.local_addr(), "/api/v1/unknown").json()["unknown"][0];
    assert_eq!(
        (&kind["program"], &kind["events"]),
        (&"gadget".into(), &61.into())
    );
    assert_eq!(
        (&kind["sender"], &kind["sample"]),
        (&"192.0.2.7".into(), &"<13>gadget: x".into())
    );
    let why = "it is not so that message is `y*`";
    assert_eq!(
        (&kind["nearest"]["rule"], &kind["nearest"]["why"]),
        (&"acme".into(), &why.into())
    );
    assert!(kind["recognised_by"].is_null());
}

#[test]
fn health_names_the_edge_that_stands_still_and_since_when() {
    let well = serve(StandIn::default());
    assert_eq!(get(well.local_addr(), "/healthz").status, 200);

    let ill = serve(StandIn {
        unhealthy: true,
        ..StandIn::default()
    });
    let answer = get(ill.local_addr(), "/healthz");
    assert_eq!(answer.status, 503);
    let health = answer.json();
    assert_eq!(health["healthy"], false);
    assert_eq!(health["edges"][1]["name"], "tape");
    assert_eq!(health["edges"][1]["kind"], "destination");
    assert_eq!(
        health["edges"][1]["since_ns"],
        1_700_000_000_000_000_001_i64
    );
    assert_eq!(health["edges"][1]["reason"], "No space left on device");
}

#[test]
fn metrics_are_prometheus_text() {
    let server = serve(StandIn::default());
    let answer = get(server.local_addr(), "/metrics");
    assert_eq!(
        answer.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    let line = r#"inrush_source_received_events_total{source="sys\"log"} 11"#;
    assert!(
        answer.body.lines().any(|one| one == line),
        "{}",
        answer.body
    );
}

#[test]
fn a_reload_answers_with_its_report_or_its_problems() {
    let good = serve(StandIn::default());
    let answer = ask(
        good.local_addr(),
        "POST",
        "/api/v1/reload",
        "content-length: 0\r\n",
    );
    assert_eq!(
        (answer.status, &answer.json()["changed"][0]),
        (200, &"destination tape: path".into())
    );

    let problems = vec!["inrush.yaml:3:7: unknown key `lisen`, did you mean `listen`?".to_owned()];
    let bad = serve(StandIn {
        problems,
        ..StandIn::default()
    });
    let answer = ask(
        bad.local_addr(),
        "POST",
        "/api/v1/reload",
        "content-length: 0\r\n",
    );
    assert_eq!(answer.status, 400);
    assert!(
        answer.json()["problems"][0]
            .as_str()
            .unwrap()
            .contains("3:7")
    );
}

#[test]
fn a_second_reload_is_told_so_and_a_scrape_does_not_wait() {
    let (began, has_begun) = sync_channel(1);
    let (go, may_go) = sync_channel(1);
    let gate = Some((began, Mutex::new(may_go)));
    let server = serve(StandIn {
        gate,
        ..StandIn::default()
    });
    let address = server.local_addr();
    let first = std::thread::spawn(move || ask(address, "POST", "/api/v1/reload", ""));
    has_begun.recv().unwrap();
    assert_eq!(ask(address, "POST", "/api/v1/reload", "").status, 409);
    assert_eq!(get(address, "/metrics").status, 200);
    go.send(()).unwrap();
    assert_eq!(first.join().unwrap().status, 200);
}

#[test]
fn unknown_paths_and_wrong_methods_say_so_in_json() {
    let server = serve(StandIn::default());
    let address = server.local_addr();
    let unknown = get(address, "/api/v2/ledger");
    assert_eq!(unknown.status, 404);
    assert_eq!(unknown.json()["error"], "no such path: /api/v2/ledger");
    assert_eq!(
        get(address, "/api/v1/nothing").json()["error"],
        "no such path: /api/v1/nothing"
    );

    let wrong = get(address, "/api/v1/reload");
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("POST")));
    assert!(wrong.json()["error"].is_string());
    assert_eq!(ask(address, "DELETE", "/api/v1/ledger", "").status, 405);
    assert_eq!(ask(address, "HEAD", "/healthz", "").status, 200);
}

#[test]
fn quarantine_is_listed_sent_again_and_dropped() {
    let server = serve(StandIn::default());
    let at = server.local_addr();
    let list = get(
        at,
        "/api/v1/quarantine?destination=a%20b&id=1-3&since=2h&limit=5",
    )
    .json();
    assert_eq!((&list["bytes"], &list["more"]), (&61.into(), &true.into()));
    assert_eq!(list["entries"][0]["destination"], "a b");
    assert_eq!(list["entries"][0]["id"], "1-3");
    let post = |path: &str| ask(at, "POST", &format!("/api/v1/quarantine/{path}"), "");
    assert_eq!(post("replay?destination=x").json()["replayed"], 63);
    assert_eq!(post("drop?all=true").json()["dropped"], 64);
    let failed = post("replay?reason=too_large");
    assert_eq!(failed.status, 503);
    assert_eq!(failed.json()["error"], "the disk is on fire");
}

#[test]
fn a_change_of_quarantine_says_which_entries_it_means() {
    let server = serve(StandIn::default());
    for (path, words) in [
        ("replay", "which entries"),
        ("drop", "which entries"),
        ("drop?limit=3", "which entries"),
        ("drop?id=x", "not the number of an entry"),
        ("drop?since=soon", "since"),
        ("drop?destinatoin=x", "unknown field"),
    ] {
        let path = format!("/api/v1/quarantine/{path}");
        let answer = ask(server.local_addr(), "POST", &path, "");
        assert_eq!(answer.status, 400, "{path}");
        let error = answer.json()["error"].to_string();
        assert!(error.contains(words), "{path}: {error}");
    }
    assert_eq!(
        get(server.local_addr(), "/api/v1/quarantine/drop?all=true").status,
        405
    );
}

#[test]
fn a_record_is_explained_whatever_bytes_it_has() {
    let server = serve(StandIn::default());
    let at = server.local_addr();
    let answer = post(at, "/api/v1/explain", b"<13>\xff\0\x1b");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!((&answer.json()["bytes"], answer.status), (&7.into(), 200));
    let answer = post(at, "/api/v1/explain?source=a%20b", &[b'x'; 64 * 1024]);
    assert_eq!(answer.json()["source"], "a b");
    assert_eq!(answer.json()["bytes"], 65_536);
}

#[test]
fn a_record_that_cannot_be_explained_is_refused_in_words() {
    let server = serve(StandIn::default());
    let at = server.local_addr();
    for (path, body, status, words) in [
        ("", vec![], 400, "empty"),
        ("", vec![b'x'; 64 * 1024 + 1], 413, "65536"),
        ("?sauce=a", b"x".to_vec(), 400, "unknown field"),
    ] {
        let answer = post(at, &format!("/api/v1/explain{path}"), &body);
        assert_eq!(answer.status, status, "{path}");
        let error = answer.json()["error"].to_string();
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(get(at, "/api/v1/explain").status, 405);
}
