//! `inrush load` against `inrush run`: two counts made apart agree to the event.

use std::process::{Command, Output, Stdio};

use inrush_tests::*;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::hec_server::{client, collector, texts};
use crate::to_file;

pub(crate) fn load(inrush: &Inrush, protocol: &str, args: &[&str]) -> (Output, Value) {
    let target = format!("{protocol}://{}", inrush.address(protocol));
    let ledger = format!("http://{}/api/v1/ledger", inrush.admin());
    let mut command = Command::new(binary());
    command.args([
        "load", &target, "--json", "--rate", "0", "--ledger", &ledger,
    ]);
    command
        .arg("--verify")
        .arg(inrush.path("out.jsonl"))
        .args(args);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    (output, report)
}

fn assert_all_arrived(inrush: &Inrush, protocol: &str, args: &[&str], number: u64) {
    let text = number.to_string();
    let (output, report) = load(inrush, protocol, &[args, &["--number", &text]].concat());
    assert!(output.status.success(), "{report:#}");
    assert_eq!(report["sent"], number);
    let markers = &report["verify"]["markers"];
    for (name, n) in [
        ("received", number),
        ("lost", 0),
        ("duplicated", 0),
        ("out_of_order", 0),
    ] {
        assert_eq!(markers[name], n, "{name}: {report:#}");
    }
    let ledger = &report["verify"]["ledger"];
    assert_eq!(
        (&ledger["balanced"], &ledger["unaccounted"]),
        (&true.into(), &0.into())
    );
}

#[test]
fn over_tcp_in_either_framing_and_format() {
    let inrush = Inrush::start(&to_file(crate::TCP, ""));
    assert_all_arrived(&inrush, "tcp", &["--active-connections", "3"], 10_000);
    let counted = ["--framing", "octet", "-P", "rfc5424", "--size", "800"];
    assert_all_arrived(&inrush, "tcp", &counted, 5_000);
    inrush.conserved(15_000);
}

#[test]
fn over_tls() {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::new(dir.path());
    pki.issue("server");
    let tls = "tls: { cert_file: \"{dir}/server.pem\", key_file: \"{dir}/server.key\" }";
    let options = Options {
        dir: Some(dir),
        ..Options::default()
    };
    let inrush = Inrush::with(&to_file("tls://127.0.0.1:0", tls), options);
    let ca = inrush.path("ca.pem");
    assert_all_arrived(&inrush, "tls", &["--ca", ca.to_str().unwrap()], 5_000);
}

/// More to recognise than one thread of a debug build can: others help where they have time.
#[test]
fn one_sender_keeps_its_order_whoever_studies_its_events() {
    let recognised = "workers: 4\npacks: { enabled: true }\n";
    let inrush = Inrush::start(&(recognised.to_owned() + &to_file(crate::UDP_TCP, "")));
    assert_all_arrived(&inrush, "tcp", &["--active-connections", "1"], 20_000);
    assert_all_arrived(&inrush, "udp", &["-D"], 10_000);
    tell_shared(&inrush, "syslog");
}

/// A hot connection whose client waits for each answer, until others help or for long enough.
#[test]
fn one_hec_client_keeps_its_order_whoever_studies_its_lines() {
    const LINES: u64 = 2_000;
    const REQUESTS_MAX: u64 = 40;
    let recognised = "workers: 2\npacks: { enabled: true }\n".to_owned();
    let inrush = Inrush::start(&(recognised + &collector(", packs: true", "")));
    let mut hec = client(&inrush);
    let line = |n: u64| format!("<13>May  6 07:08:09 h1 app[{n}]: step {n}");
    let mut sent = 0;
    while sent < REQUESTS_MAX * LINES && shared_batches(&inrush, "hec") < 20 {
        let numbers = sent..sent + LINES;
        sent += LINES;
        let body: String = numbers.map(|n| line(n) + "\n").collect();
        assert_eq!(hec.ask("raw", "", body).brief(), (200, Some(0)));
        let taken = inrush.ledger().sources["hec"].accepted;
        assert_eq!(taken, sent, "answered before its last event");
    }
    let found = texts(&inrush, sent);
    let wanted: Vec<String> = (0..sent).map(line).collect();
    assert!(found == wanted, "each once and in its order");
    tell_shared(&inrush, "hec");
}

fn shared_batches(inrush: &Inrush, source: &str) -> u64 {
    let page = inrush.http("GET", "/metrics").body;
    let name = format!("inrush_source_shared_batches_total{{source=\"{source}\"}} ");
    let mut values = page.lines().filter_map(|line| line.strip_prefix(&name));
    values.next().unwrap().parse().unwrap()
}

/// Says how much others helped: that depends on what else the machine does.
fn tell_shared(inrush: &Inrush, source: &str) {
    eprintln!("{source}: {} batches", shared_batches(inrush, source));
}

/// What is read at once is little then, and TLS decrypts records of 16 KiB.
#[test]
fn one_sender_over_tls_is_helped_too() {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::new(dir.path());
    pki.issue("server");
    let tls = "tls: { cert_file: \"{dir}/server.pem\", key_file: \"{dir}/server.key\" }";
    let options = Options {
        dir: Some(dir),
        ..Options::default()
    };
    let recognised = "workers: 4\npacks: { enabled: true }\n".to_owned();
    let inrush = Inrush::with(&(recognised + &to_file("tls://127.0.0.1:0", tls)), options);
    let ca = inrush.path("ca.pem");
    let args = ["--ca", ca.to_str().unwrap(), "--active-connections", "1"];
    assert_all_arrived(&inrush, "tls", &args, 40_000);
    tell_shared(&inrush, "syslog");
}

/// On one core, or with `workers: 1`, there is nobody to help.
#[test]
fn one_worker_does_all_by_itself() {
    let one = "workers: 1\npacks: { enabled: true }\n".to_owned();
    let inrush = Inrush::start(&(one + &to_file(crate::UDP_TCP, "")));
    assert_all_arrived(&inrush, "tcp", &["--active-connections", "2"], 2_000);
    let page = inrush.http("GET", "/metrics").body;
    assert!(page.contains("inrush_source_shared_batches_total{source=\"syslog\"} 0"));
    inrush.rewrite(&("workers: 2\n".to_owned() + &to_file(crate::UDP_TCP, "")));
    let answer = inrush.http("POST", "/api/v1/reload");
    assert!(
        answer.body.contains("workers cannot change while running"),
        "{}",
        answer.body
    );
}

#[test]
fn udp_loss_is_the_kernels_to_the_packet() {
    const SENT: u64 = 50_000;
    // A buffer that cannot hold the burst: some of it is lost, and all of it accounted for.
    let inrush = Inrush::start(&to_file(crate::UDP_TCP, "udp: { receive_buffer: 64KiB }"));
    let text = SENT.to_string();
    let (_, report) = load(&inrush, "udp", &["-D", "--gso", "16", "--number", &text]);
    let ledger = &report["verify"]["ledger"];
    assert_eq!(ledger["unaccounted"], 0, "{report:#}");
    let count = |name: &str| ledger[name].as_u64().unwrap();
    assert_eq!(
        count("received") + count("kernel_dropped"),
        SENT,
        "{report:#}"
    );
    assert_eq!(report["verify"]["markers"]["received"], count("received"));
}

#[test]
fn over_relp_all_is_answered_and_has_arrived() {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::new(dir.path());
    pki.issue("server");
    let options = Options {
        dir: Some(dir),
        ..Options::default()
    };
    let listen = "relp://127.0.0.1:0, relps://127.0.0.1:0";
    let tls = "tls: { cert_file: \"{dir}/server.pem\", key_file: \"{dir}/server.key\" }";
    let inrush = Inrush::with(&to_file(listen, tls), options);
    let several = ["--active-connections", "3", "--window", "1000"];
    assert_all_arrived(&inrush, "relp", &several, 20_000);
    assert_all_arrived(&inrush, "relps", &["--insecure"], 5_000);
    inrush.conserved(25_000);
}

/// The receiver stops in good order and comes back in the middle of a run: whatever the sender was
/// told is in the file, and nothing is missing at the end.
#[test]
fn a_restart_under_relp_loses_nothing() {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let yaml = to_file(&format!("relp://127.0.0.1:{port}"), "");
    let mut inrush = Inrush::start(&yaml);
    let acked = tempfile::NamedTempFile::new().unwrap();
    let mut command = Command::new(binary());
    command.args([
        "load",
        &format!("relp://127.0.0.1:{port}"),
        "--json",
        "--reconnect",
    ]);
    command.args(["--rate", "10000", "--number", "20000", "--acked-file"]);
    let sender = command
        .arg(acked.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    for n in 1..=3 {
        inrush.wait_until("some messages", |l| l.sources["syslog"].accepted > n * 500);
        let (exit, dir) = inrush.stop();
        assert_eq!(exit.status.code(), Some(0), "{}", exit.stderr);
        let dir = Some(dir);
        let options = Options {
            dir,
            ..Options::default()
        };
        inrush = Inrush::with(&yaml, options);
    }
    let output = sender.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.success(), "{report:#}");
    assert_eq!(
        (&report["sent"], &report["acked"]),
        (&20_000.into(), &20_000.into())
    );
    assert_eq!(report["answers"]["reconnects"], 3, "{report:#}");
    let ranges: Value = serde_json::from_reader(acked.as_file()).unwrap();
    assert_eq!(ranges["acked"], serde_json::json!([[0, 19_999]]));
    inrush.wait_until("all delivered", |l| l.destinations["out"].pending == 0);
    let mut seen = vec![false; 20_000];
    for message in field(&inrush.events("out.jsonl"), "message") {
        let seq: usize = message[4..14].parse().unwrap();
        seen[seq] = true;
    }
    assert!(seen.iter().all(|seen| *seen));
}

/// Starts a long run with these options, interrupts it once it sends; its exit code and report.
fn interrupted(args: &[&str]) -> (Option<i32>, Value) {
    let inrush = Inrush::start(&to_file(crate::TCP, ""));
    let target = format!("tcp://{}", inrush.address("tcp"));
    let child = Command::new(binary())
        .args(["load", &target, "--json", "--rate", "1000"])
        .args(args)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    inrush.wait_until("it sends", |ledger| ledger.sources["syslog"].received > 0);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    inrush.conserved(report["sent"].as_u64().unwrap());
    (output.status.code(), report)
}

#[test]
fn a_number_that_is_cut_short_is_a_failure_and_an_open_end_is_not() {
    let (code, report) = interrupted(&["--number", "100000000"]);
    assert_eq!(code, Some(1), "{report:#}");
    let words = report["first_errors"]["interrupted"].as_str().unwrap();
    assert!(
        words.ends_with(" of 100,000,000 messages were sent"),
        "{words}"
    );
    let (code, report) = interrupted(&["--interval", "1d"]);
    assert_eq!(code, Some(0), "{report:#}");
}
