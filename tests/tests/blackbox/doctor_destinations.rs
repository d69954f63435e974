//! `inrush doctor` on certificates and on Splunk collectors: what is wrong with each is named, and
//! no collector is ever sent an event.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use inrush_tests::*;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;
use tempfile::TempDir;

use crate::doctor::{findings, of};

/// A configuration with these sources and destinations, in the flow style of YAML.
fn written(dir: &TempDir, sources: &[String], destinations: &[String]) -> PathBuf {
    let file = dir.path().join("inrush.yaml");
    let (sources, destinations) = (sources.join("\n  "), destinations.join("\n  "));
    let yaml = format!(
        "data_dir: {}\nsources:\n  {sources}\ndestinations:\n  {destinations}\n",
        dir.path().join("data").display()
    );
    std::fs::write(&file, yaml).unwrap();
    file
}

const PLAIN: &str = "plain: { type: syslog, listen: [\"tcp://127.0.0.1:1\"], index: netfw }";

/// A destination with this token.
fn hec(name: &str, endpoint: &str, more: &str) -> String {
    format!("{name}: {{ type: splunk_hec, endpoints: [\"{endpoint}\"], token: hunter2{more} }}")
}

#[track_caller]
fn says(finding: &Value, severity: &str, words: &[&str]) {
    assert_eq!(finding["severity"], severity, "{finding:#}");
    let found = finding["found"].as_str().unwrap();
    for word in words {
        assert!(found.contains(word), "no {word:?}: {finding:#}");
    }
    assert!(!finding.to_string().contains("hunter2"), "{finding:#}");
    assert_eq!(
        finding["command"].is_null(),
        severity == "ok",
        "{finding:#}"
    );
}

#[test]
fn what_collectors_say_of_a_token_is_told_and_no_event_is_sent() {
    let answers = [
        ("good", Reply::code(400, 5, "No data"), "ok", "code 5"),
        (
            "unknown",
            Reply::code(403, 4, "Invalid token"),
            "critical",
            "Invalid token",
        ),
        (
            "disabled",
            Reply::code(403, 1, "Token disabled"),
            "critical",
            "code 1",
        ),
        (
            "index",
            Reply::code(400, 7, "Incorrect index"),
            "critical",
            "Incorrect index",
        ),
        ("busy", Reply::busy(1), "warn", "code 9"),
        (
            "stranger",
            Reply::Status(404, "<html>".to_owned()),
            "critical",
            "404",
        ),
        ("silent", Reply::Hang, "critical", "no HTTP answer"),
    ];
    let servers: Vec<Hec> = answers.iter().map(|_| Hec::start()).collect();
    let mut destinations = Vec::new();
    for ((name, reply, ..), server) in answers.iter().zip(&servers) {
        server.otherwise(Some(reply.clone()));
        destinations.push(hec(name, &server.url(), ", proxy: \"\""));
    }
    let dir = tempfile::tempdir().unwrap();
    let findings = findings(&written(&dir, &[PLAIN.to_owned()], &destinations));
    for ((name, _, severity, word), server) in answers.iter().zip(&servers) {
        let finding = of(
            &findings,
            &format!("destination.hec:{name}:{}", server.address()),
        );
        assert_eq!(finding["layer"], "destination");
        says(finding, severity, &[word]);
        let requests = server.requests();
        assert!(!requests.is_empty(), "{name}");
        for request in requests {
            assert_eq!(request.path, "/services/collector/event");
            assert_eq!(request.authorization, "Splunk hunter2");
            assert_eq!((request.events.len(), request.indexed), (0, 0), "{name}");
        }
    }
}

/// Only the request for that index is refused, and it is named.
#[test]
fn an_index_that_a_token_does_not_allow_is_named() {
    let server = Hec::start();
    let good = Reply::code(400, 5, "No data");
    server.script([good.clone(), good, Reply::code(400, 7, "Incorrect index")]);
    let dir = tempfile::tempdir().unwrap();
    let more = ", reroute_index: zzz_lost, proxy: \"\"";
    let config = written(
        &dir,
        &[PLAIN.to_owned()],
        &[hec("out", &server.url(), more)],
    );
    let findings = findings(&config);
    let finding = of(
        &findings,
        &format!("destination.hec:out:{}", server.address()),
    );
    says(finding, "critical", &["code 7", "of index zzz_lost"]);
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn what_cannot_be_reached_is_told_with_the_step_that_failed() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = free.local_addr().unwrap();
    drop(free);
    let plain = Hec::start();
    let dir = tempfile::tempdir().unwrap();
    let destinations = [
        hec("closed", &format!("http://{closed}"), ", proxy: \"\""),
        hec(
            "tls",
            &format!("https://{}", plain.address()),
            ", proxy: \"\", tls: { verify: false }",
        ),
        hec("name", "http://no-such-host.invalid:8088", ", proxy: \"\""),
        hec(
            "proxied",
            &plain.url(),
            &format!(", proxy: \"http://u:hunter2@{closed}\""),
        ),
    ];
    let findings = findings(&written(&dir, &[PLAIN.to_owned()], &destinations));
    let refused = of(&findings, &format!("destination.hec:closed:{closed}"));
    says(refused, "critical", &["no connection"]);
    let tls = of(
        &findings,
        &format!("destination.hec:tls:{}", plain.address()),
    );
    says(
        tls,
        "critical",
        &["TLS", "write http:// in place of https://"],
    );
    let name = of(&findings, "destination.hec:name:no-such-host.invalid:8088");
    says(name, "critical", &["DNS"]);
    assert_eq!(name["command"], "getent ahosts no-such-host.invalid");
    let proxied = format!("destination.hec:proxied:{}", plain.address());
    let words = ["through the proxy 127.0.0.1", "no connection"];
    says(of(&findings, &proxied), "critical", &words);
    // What looks which protocol is spoken asks for nothing, and shows no token.
    let asked = plain.requests();
    assert!(
        asked
            .iter()
            .all(|r| r.path == "/" && r.authorization.is_empty())
    );
}

/// Of several endpoints one that fails is gone around.
#[test]
fn another_endpoint_that_works_makes_it_a_warning() {
    let server = Hec::start();
    server.otherwise(Some(Reply::code(400, 5, "No data")));
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = free.local_addr().unwrap();
    drop(free);
    let dir = tempfile::tempdir().unwrap();
    let two = format!("{}\", \"http://{closed}", server.url());
    let config = written(
        &dir,
        &[PLAIN.to_owned()],
        &[hec("out", &two, ", proxy: \"\"")],
    );
    let findings = findings(&config);
    let good = of(
        &findings,
        &format!("destination.hec:out:{}", server.address()),
    );
    says(good, "ok", &["code 5"]);
    let bad = of(&findings, &format!("destination.hec:out:{closed}"));
    says(bad, "warn", &["no connection"]);
}

/// A collector with this certificate that takes every token; it serves as many connections as come
/// until the test ends.
fn collector(config: Arc<ServerConfig>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = move |socket| -> std::io::Result<()> {
        let server = ServerConnection::new(Arc::clone(&config)).map_err(std::io::Error::other)?;
        let mut stream = StreamOwned::new(server, socket);
        let mut request = Vec::new();
        loop {
            let mut part = [0; 4096];
            let read = stream.read(&mut part)?;
            request.extend_from_slice(&part[..read]);
            if read == 0 {
                return Ok(());
            }
            if !request.ends_with(b"\r\n\r\n") {
                continue;
            }
            let (status, body) = match request.starts_with(b"GET /services/collector/health") {
                true => (200, r#"{"text":"HEC is healthy","code":17}"#),
                false => (400, r#"{"text":"No data","code":5}"#),
            };
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 {status} x\r\ncontent-length: {length}\r\n\r\n{body}"
            )?;
            stream.flush()?;
            request.clear();
        }
    };
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            // The doctor has what it wants when it closes.
            let _ = serve(socket.unwrap());
        }
    });
    address
}

#[test]
fn the_certificate_that_a_collector_shows_is_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::new(dir.path());
    pki.issue_for("soon", -10..11);
    pki.issue_for("gone", -20..-10);
    let ca = pki.path("ca.pem");
    let mut addresses = Vec::new();
    let mut destinations = Vec::new();
    for name in ["soon", "gone"] {
        let address = collector(pki.server(name));
        let more = format!(", proxy: \"\", tls: {{ ca_file: \"{}\" }}", ca.display());
        destinations.push(hec(name, &format!("https://{address}"), &more));
        addresses.push(address);
    }
    let findings = findings(&written(&dir, &[PLAIN.to_owned()], &destinations));
    let (soon, gone) = (addresses[0], addresses[1]);
    says(
        of(&findings, &format!("destination.hec:soon:{soon}")),
        "ok",
        &["code 5"],
    );
    let server = of(&findings, &format!("tls.server:destinations.soon:{soon}"));
    says(server, "warn", &["in 10 days"]);
    let gone = of(&findings, &format!("destination.hec:gone:{gone}"));
    says(gone, "critical", &["TLS", "expired"]);
    says(
        of(&findings, "tls.ca_file:destinations.soon"),
        "ok",
        &["ca.pem", "CN=inrush tests"],
    );
}

#[test]
fn certificates_out_of_date_are_told_with_the_day() {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::new(dir.path());
    // Name, days from and to, severity, words.
    let rows = [
        ("expired", -20..0, "critical", "expired on"),
        ("tomorrow", -20..2, "warn", "in 1 days"),
        ("weeks", -20..15, "info", "in 14 days"),
        ("month", -20..31, "ok", "in 30 days"),
        ("early", 2..90, "critical", "not yet valid, good from"),
    ];
    let mut sources = Vec::new();
    for (port, (name, days, ..)) in (1..).zip(&rows) {
        pki.issue_for(name, days.clone());
        let (cert, key) = (
            pki.path(&format!("{name}.pem")),
            pki.path(&format!("{name}.key")),
        );
        sources.push(format!(
            "{name}: {{ type: syslog, listen: [\"tls://127.0.0.1:{port}\"], \
             tls: {{ cert_file: \"{}\", key_file: \"{}\" }} }}",
            cert.display(),
            key.display()
        ));
    }
    let findings = findings(&written(
        &dir,
        &sources,
        &["out: { type: blackhole }".to_owned()],
    ));
    for (name, days, severity, words) in rows {
        let finding = of(&findings, &format!("tls.cert_file:sources.{name}"));
        assert_eq!(finding["layer"], "tls");
        let name = format!("CN={name}");
        says(finding, severity, &[words, &name]);
        let shown = if name == "CN=early" {
            days.start
        } else {
            days.end
        };
        let day = jiff::Timestamp::now() + jiff::Span::new().hours(24 * shown);
        let day = day.strftime("%Y-%m-%d").to_string();
        says(finding, severity, &[&day]);
    }
    assert!(
        findings
            .iter()
            .all(|finding| finding["id"] != "config.unusable")
    );
}

/// The process would not start with it; the doctor says why.
#[test]
fn files_that_cannot_be_used_are_findings() {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::new(dir.path());
    pki.issue("one");
    pki.issue("two");
    std::fs::write(pki.path("rubbish.pem"), "no certificate\n").unwrap();
    let source = |name: &str, port: u16, cert: &str, key: &str| {
        format!(
            "{name}: {{ type: syslog, listen: [\"tls://127.0.0.1:{port}\"], \
             tls: {{ cert_file: \"{}\", key_file: \"{}\" }} }}",
            pki.path(cert).display(),
            pki.path(key).display()
        )
    };
    let sources = [
        source("missing", 1, "none.pem", "one.key"),
        source("mismatch", 2, "one.pem", "two.key"),
    ];
    let rubbish = pki.path("rubbish.pem");
    let more = format!(
        ", proxy: \"\", tls: {{ ca_file: \"{}\" }}",
        rubbish.display()
    );
    let out = hec("out", "https://127.0.0.1:1", &more);
    let findings = findings(&written(&dir, &sources, &[out]));
    let missing = of(&findings, "tls.cert_file:sources.missing");
    says(missing, "critical", &["none.pem", "cannot be read"]);
    let mismatch = of(&findings, "tls.key_file:sources.mismatch");
    says(
        mismatch,
        "critical",
        &["two.key", "is not the key of the first certificate"],
    );
    let authorities = of(&findings, "tls.ca_file:destinations.out");
    says(authorities, "critical", &["rubbish.pem", "no certificate"]);
    let out = of(&findings, "destination.hec:out:127.0.0.1:1");
    says(out, "critical", &["not tried"]);
    says(of(&findings, "config.unusable"), "critical", &["none.pem"]);
}
