//! `inrush check --connect`: each destination is asked, and no event is left behind.

use std::net::TcpListener;
use std::process::Command;

use inrush_tests::*;

/// A collector with TLS on its second port, before a file.
const COLLECTOR: &str = "sources:
  plain:
    type: splunk_hec
    listen: http://127.0.0.1:0
    tokens:
      - { token: good-token, name: good }
      - { token: netfw-token, name: netfw, indexes: [netfw] }
      - { token: acked-token, name: acked, ack: delivered }
      - { token: gone-token, name: gone, disabled: true }
  tls:
    type: splunk_hec
    listen: https://127.0.0.1:0
    tls: { cert_file: \"{pki}/server.pem\", key_file: \"{pki}/server.key\" }
    tokens: [{ token: good-token, name: good }]
destinations:
  out: { type: file, path: \"{dir}/out.jsonl\" }
";

/// Exit code of `inrush check --connect` and its lines, with these destinations.
fn check(destinations: &[(&str, String)]) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("inrush.yaml");
    let destinations: String = destinations
        .iter()
        .map(|(name, options)| format!("  {name}: {{ {options} }}\n"))
        .collect();
    let yaml = format!(
        "data_dir: {}\nsources:\n  in: {{ type: syslog, listen: [\"tcp://127.0.0.1:0\"] }}\n\
         destinations:\n{destinations}",
        dir.path().display()
    );
    std::fs::write(&path, yaml).unwrap();
    let mut command = Command::new(binary());
    command.args(["check", "--connect", "-c"]).arg(&path);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let more = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), said + &more)
}

fn hec(endpoint: &str, token: &str, more: &str) -> String {
    format!("type: splunk_hec, endpoints: [\"{endpoint}\"], token: {token}-token{more}")
}

/// The line of a destination, and the one behind it.
#[track_caller]
fn line<'s>(said: &'s str, name: &str) -> (&'s str, &'s str) {
    let start = format!("destination {name}: ");
    let mut lines = said.lines().skip_while(|line| !line.starts_with(&start));
    let found = lines.next().unwrap_or_else(|| panic!("{name}: {said}"));
    (found, lines.next().unwrap_or_default())
}

/// The collector, and the addresses of its two ports.
fn collector(pki: &Pki) -> (Inrush, String, String) {
    pki.issue("server");
    let folder = pki.path("").display().to_string();
    let inrush = Inrush::start(&COLLECTOR.replace("{pki}", folder.trim_end_matches('/')));
    let plain = format!("http://{}", inrush.address("http"));
    let tls = format!("https://{}", inrush.address("https"));
    (inrush, plain, tls)
}

/// No proxy of the environment.
const DIRECT: &str = ", proxy: \"\"";

#[test]
fn good_destinations_are_told_and_no_event_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let pki = Pki::new(folder.path());
    let (inrush, plain, tls) = collector(&pki);
    let (proxy, asked) = connect_proxy();
    let trusting = format!(", tls: {{ ca_file: \"{}\" }}", pki.path("ca.pem").display());
    let by_proxy = format!(", proxy: \"http://{proxy}\"{trusting}");
    let acked = ", proxy: \"\", acknowledgements: true";
    let good = [
        ("plain", hec(&plain, "good", DIRECT)),
        ("trusted", hec(&tls, "good", &format!("{DIRECT}{trusting}"))),
        ("proxied", hec(&tls, "good", &by_proxy)),
        ("acked", hec(&plain, "acked", acked)),
        ("local", "type: blackhole".to_owned()),
    ];
    let (code, said) = check(&good);
    assert_eq!(code, Some(0), "{said}");
    for (name, _) in &good {
        assert!(line(&said, name).0.contains(": ok: "), "{said}");
    }
    assert!(line(&said, "plain").0.contains("No data"), "{said}");
    let asked = asked.lock().unwrap().clone();
    let target = inrush.address("https").to_string();
    assert!(!asked.is_empty() && asked.iter().all(|one| *one == target));
    let sources = inrush.ledger().sources;
    assert!(
        sources.values().all(|source| source.received == 0),
        "{sources:#?}"
    );
}

#[test]
fn what_is_wrong_with_each_destination_is_told_and_no_event_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let (inrush, plain, tls) = collector(&Pki::new(folder.path()));
    let closed = closed();
    let invalid = "http://no-such-host.invalid:8088";
    let bad = [
        ("unknown", &*plain, "other", "code 4", "Settings"),
        ("gone", &plain, "gone", "code 1", "Settings"),
        ("index", &plain, "netfw", "code 7", "allowed indexes"),
        (
            "unacked",
            &plain,
            "acked",
            "code 10",
            "acknowledgements: true",
        ),
        ("stranger", &tls, "good", "TLS: ", "wait in the queue"),
        ("closed", &closed, "good", "no connection", "queue"),
        ("lost", invalid, "good", "DNS: ", "queue"),
    ];
    let asked = bad.map(|(name, endpoint, token, ..)| (name, hec(endpoint, token, DIRECT)));
    let (code, said) = check(&asked);
    assert_eq!(code, Some(1), "{said}");
    for (name, _, _, found, why) in &bad {
        let (line, reason) = line(&said, name);
        assert!(
            line.contains(": failed: ") && line.contains(found),
            "{name}: {said}"
        );
        assert!(reason.contains(why), "{name}: {said}");
    }
    assert!(!said.contains("-token"), "{said}");
    let sources = inrush.ledger().sources;
    assert!(
        sources.values().all(|source| source.received == 0),
        "{sources:#?}"
    );
}

/// The address of a port where nobody listens.
fn closed() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn a_bucket_that_does_not_answer_is_told() {
    let closed = closed();
    let bucket = format!(
        "type: store, path: \"s3://logs/events\", s3: {{ endpoint: \"{closed}\", \
         access_key_id: a, secret_access_key: hunter2 }}"
    );
    let (code, said) = check(&[("bucket", bucket), ("local", "type: store".to_owned())]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        line(&said, "bucket").0.contains("failed: s3://logs/events"),
        "{said}"
    );
    assert!(
        line(&said, "local").0.contains("needs no connection"),
        "{said}"
    );
    assert!(!said.contains("hunter2"), "{said}");
}

#[test]
fn a_configuration_that_is_wrong_is_told_before_anything_is_asked() {
    let collector = Hec::start();
    let wrong = hec(&collector.url(), "good", ", proxy: \"\", tokn: x");
    let (code, said) = check(&[("out", wrong)]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("unknown key `tokn`"), "{said}");
    assert!(collector.requests().is_empty());
}
