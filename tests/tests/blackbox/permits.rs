//! Clients that may connect: revocation, their names, and the name that stays with an event.

use std::fs;
use std::io::{Read, Write};
use std::process::Command;
use std::sync::Arc;

use inrush_tests::*;
use rustls::ClientConfig;
use serde_json::Value;
use tempfile::TempDir;

use crate::store::lines_of;
use crate::to_file;

const FILES: &str = "cert_file: \"{dir}/server.pem\", key_file: \"{dir}/server.key\"";
const BY_AUTHORITY: &str = ", client_ca_file: \"{dir}/ca.pem\"";

fn pki() -> (TempDir, Pki) {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::new(dir.path());
    pki.issue("server");
    pki.issue_to("relay-7", &["relay-7.example.com"], 7);
    pki.issue_to("relay-8", &["other.example.org", "relay-8.example.com"], 8);
    pki.issue_to("nameless", &[], 9);
    (dir, pki)
}

fn source(tls: &str) -> String {
    to_file("tls://127.0.0.1:0", &format!("tls: {{ {FILES}{tls} }}"))
}

fn start(dir: TempDir, yaml: &str) -> Inrush {
    let options = Options {
        dir: Some(dir),
        ..Options::default()
    };
    Inrush::with(yaml, options)
}

/// A session that has brought an event; `None` if the client is turned away. Under TLS 1.3 it
/// learns of that only by reading.
fn session(inrush: &Inrush, config: &Arc<ClientConfig>, n: usize) -> Option<TlsStream> {
    let before = inrush.ledger().sources["syslog"].received;
    let mut stream = tls_connect(inrush.address("tls"), config).ok()?;
    let sent = writeln!(stream, "{}", numbered(n)).and_then(|()| stream.flush());
    sent.ok()?;
    stream.sock.set_nonblocking(true).unwrap();
    let gets_in = eventually("an event or an end", || {
        let ended = match stream.read(&mut [0; 1]) {
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
            Ok(n) => n == 0,
        };
        let came = inrush.ledger().sources["syslog"].received > before;
        (came || ended).then_some(came)
    });
    stream.sock.set_nonblocking(false).unwrap();
    gets_in.then_some(stream)
}

fn gets_in(inrush: &Inrush, pki: &Pki, client: &str) -> bool {
    session(inrush, &pki.client(Some(client)), 1).is_some()
}

#[test]
fn a_client_that_is_revoked_meanwhile_is_refused_at_its_next_handshake() {
    let (dir, pki) = pki();
    pki.revoke(&[8], -1..30);
    let crl = format!("{BY_AUTHORITY}, crl_files: [\"{{dir}}/crl.pem\"]");
    let inrush = start(dir, &source(&crl));
    assert!(!gets_in(&inrush, &pki, "relay-8"));
    let row = inrush.refused("a client certificate that is revoked");
    assert_eq!(
        (&row["reason"], &row["address"]),
        (&"tls".into(), &"127.0.0.1".into())
    );
    let mut old = session(&inrush, &pki.client(Some("relay-7")), 1).unwrap();

    pki.revoke(&[7, 8], -1..30);
    eventually("the list to be read", || {
        (!gets_in(&inrush, &pki, "relay-7")).then_some(())
    });
    eventually("the refusal in the log", || {
        let log = inrush.stderr();
        log.contains("127.0.0.1: a client certificate that is revoked")
            .then_some(())
    });
    let before = inrush.ledger().sources["syslog"].received;
    writeln!(old, "{}", numbered(2)).unwrap();
    old.flush().unwrap();
    inrush.wait_until("an event of the session of before", |ledger| {
        ledger.sources["syslog"].received == before + 1
    });
    assert!(gets_in(&inrush, &pki, "nameless"));

    // What cannot be read changes nothing.
    fs::write(pki.path("crl.pem"), "no list").unwrap();
    eventually("the failed reload", || {
        inrush
            .stderr()
            .contains("holds no revocation list")
            .then_some(())
    });
    assert!(!gets_in(&inrush, &pki, "relay-7") && gets_in(&inrush, &pki, "nameless"));
}

#[test]
fn an_expired_list_turns_its_authoritys_clients_away_and_fails_the_check() {
    let (dir, pki) = pki();
    pki.revoke(&[8], -9..-1);
    let crl = format!("{BY_AUTHORITY}, crl_files: [\"{{dir}}/crl.pem\"]");
    let inrush = start(dir, &source(&crl));
    let mut check = Command::new(binary());
    check.args(["check", "-c"]).arg(inrush.path("inrush.yaml"));
    let output = check.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("crl.pem") && said.contains("CN=inrush tests has expired on"),
        "{said}"
    );
    assert!(inrush.stderr().contains("a revocation list has expired"));

    assert!(!gets_in(&inrush, &pki, "relay-7"));
    let row = inrush.refused("list in `crl_files` has expired");
    assert!(row["remedy"].to_string().contains("newest list"), "{row}");
    pki.revoke(&[8], -1..30);
    eventually("the new list", || {
        gets_in(&inrush, &pki, "relay-7").then_some(())
    });
    assert!(check.output().unwrap().status.success());
}

#[test]
fn lists_that_are_none_are_refused_by_the_check() {
    let (dir, pki) = pki();
    fs::write(pki.path("crl.pem"), fs::read(pki.path("ca.pem")).unwrap()).unwrap();
    let yaml = source(&format!("{BY_AUTHORITY}, crl_files: [\"{{dir}}/crl.pem\"]"));
    let yaml = yaml.replace("{dir}", dir.path().to_str().unwrap());
    fs::write(pki.path("t.yaml"), yaml).unwrap();
    let mut check = Command::new(binary());
    let output = check
        .args(["check", "-c"])
        .arg(pki.path("t.yaml"))
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("`crl_files`") && said.contains("holds no revocation list"),
        "{said}"
    );
}

#[test]
fn only_clients_of_the_list_get_in_by_name_wildcard_or_fingerprint() {
    let (dir, pki) = pki();
    let names = |list: &str| source(&format!("{BY_AUTHORITY}, permitted_peers: [{list}]"));
    let inrush = start(dir, &names("relay-7.example.com"));
    assert!(gets_in(&inrush, &pki, "relay-7"));
    assert!(!gets_in(&inrush, &pki, "relay-8"));
    let row = inrush.refused("not among `permitted_peers`");
    let why = row["why"].as_str().unwrap();
    let yaml = fs::read_to_string(inrush.path("inrush.yaml")).unwrap();
    let reachable = yaml.replace("127.0.0.1:0 }", &format!("{} }}", inrush.admin()));
    fs::write(inrush.path("doctor.yaml"), reachable).unwrap();
    let findings = crate::doctor::findings(&inrush.path("doctor.yaml"));
    let finding = crate::doctor::of(&findings, "connections.refused:syslog");
    let found = finding["found"].as_str().unwrap();
    assert!(
        found.contains(&format!("127.0.0.1: {why}: 1, the last")),
        "{found}"
    );
    assert!(
        why.ends_with(": other.example.org, relay-8.example.com"),
        "{why}"
    );

    let digits = fingerprint(&pki, "nameless");
    for (list, who) in [
        ("\"*.example.com\"".to_owned(), [true, true, false]),
        ("relay-7".to_owned(), [false, false, false]),
        ("NAMELESS".to_owned(), [false, false, true]),
        (
            format!("\"SHA256:{digits}\", relay-8.example.com"),
            [false, true, true],
        ),
    ] {
        inrush.rewrite(&names(&list));
        assert_eq!(inrush.reload().status, 200, "{}", inrush.stderr());
        let got = ["relay-7", "relay-8", "nameless"].map(|name| gets_in(&inrush, &pki, name));
        assert_eq!(got, who, "{list}");
    }
}

/// As `openssl x509 -fingerprint -sha256` says it.
fn fingerprint(pki: &Pki, name: &str) -> String {
    let mut openssl = Command::new("openssl");
    openssl.args(["x509", "-noout", "-fingerprint", "-sha256", "-in"]);
    let said = run_ok(openssl.arg(pki.path(&format!("{name}.pem"))));
    said.trim().split_once('=').unwrap().1.to_owned()
}

#[test]
fn a_fingerprint_lets_in_a_certificate_that_no_authority_signed() {
    let (dir, pki) = pki();
    let elsewhere = tempfile::tempdir().unwrap();
    let stranger = Pki::new(elsewhere.path());
    fs::copy(pki.path("ca.pem"), stranger.path("ca.pem")).unwrap();
    stranger.issue_to("alone", &["alone.example.net"], 1);
    stranger.issue_to("another", &["another.example.net"], 2);
    let digits = fingerprint(&stranger, "alone");
    for ca in ["", BY_AUTHORITY] {
        let dir = tempfile::tempdir_in(dir.path()).unwrap();
        for file in ["server.pem", "server.key", "ca.pem"] {
            fs::copy(pki.path(file), dir.path().join(file)).unwrap();
        }
        let list = format!("{ca}, permitted_peers: [\"SHA256:{digits}\"]");
        let inrush = start(dir, &source(&list));
        assert!(gets_in(&inrush, &stranger, "alone"), "{ca}");
        assert!(!gets_in(&inrush, &stranger, "another"), "{ca}");
        assert!(!gets_in(&inrush, &pki, "relay-7"), "{ca}");
        assert_eq!(inrush.collected(1)[0]["tls_client"], "alone.example.net");
    }
}

#[test]
fn the_verified_name_stays_with_the_event_and_no_sender_can_claim_one() {
    let (dir, pki) = pki();
    let hec = Hec::start();
    let yaml = source(&format!("{BY_AUTHORITY}, client_auth: optional"))
        + &format!(
            "  splunk: {{ type: splunk_hec, endpoints: [\"{}\"], token: t }}\n  \
             kept: {{ type: store }}\n\
             transforms:\n- {{ name: by certificate, match: \"tls_client != ''\", \
             set: {{ host: tls_client }} }}\n",
            hec.url()
        );
    let inrush = start(dir, &yaml);
    session(&inrush, &pki.client(Some("relay-7")), 1).unwrap();
    let mut stranger = session(&inrush, &pki.client(None), 2).unwrap();
    let claim = "<13>1 - h a - - [tls_client tls_client=\"relay-7.example.com\"] claimed";
    writeln!(stranger, "{claim}").unwrap();
    stranger.flush().unwrap();
    let mut events = inrush.collected(3);
    events.sort_by_key(|event| event["msg_id"].to_string());
    let named = |event: &Value| event["tls_client"] == "relay-7.example.com";
    assert_eq!(
        events.iter().filter(|event| named(event)).count(),
        1,
        "{events:#?}"
    );
    let own = events.iter().find(|event| named(event)).unwrap();
    assert_eq!(
        (&own["msg_id"], &own["host"]),
        (&"ID1".into(), &"relay-7.example.com".into())
    );

    inrush.conserved(3);
    let taken = hec.taken();
    let named = taken
        .iter()
        .filter(|e| e["fields"]["tls_client"] == "relay-7.example.com");
    let hosts: Vec<_> = named.map(|event| event["host"].clone()).collect();
    assert_eq!(hosts, ["relay-7.example.com"], "{taken:#?}");
    let path = "/api/v1/search?since=all&q=tls_client%3Drelay-7.example.com";
    let answer = lines_of(&inrush, path);
    let found: Vec<_> = answer
        .iter()
        .filter(|line| line["type"] == "event")
        .collect();
    assert_eq!(found.len(), 1, "{answer:#?}");
    assert_eq!(found[0]["fields"]["tls_client"], "relay-7.example.com");
}

/// The name is in the queue on disk, also in an event that a destination has refused.
#[test]
fn the_verified_name_outlives_a_restart() {
    let (dir, pki) = pki();
    let hec = Hec::start();
    hec.otherwise(Some(Reply::code(503, 9, "Server is busy")));
    let yaml = format!(
        "sources:\n  syslog:\n    type: syslog\n    listen: [\"tls://127.0.0.1:0\"]\n    \
         tls: {{ {FILES}{BY_AUTHORITY} }}\ndestinations:\n  splunk: {{ type: splunk_hec, \
         endpoints: [\"{}\"], token: t }}\nshutdown_timeout: 1s\n",
        hec.url()
    );
    let inrush = start(dir, &yaml);
    session(&inrush, &pki.client(Some("relay-8")), 1).unwrap();
    hec.await_requests(1);
    let (_, dir) = inrush.kill();
    hec.otherwise(None);
    let inrush = start(dir, &yaml);
    eventually("the event from the queue", || {
        (!hec.taken().is_empty()).then_some(())
    });
    assert_eq!(hec.taken()[0]["fields"]["tls_client"], "other.example.org");
    drop(inrush);
}
