//! `inrush load` against `inrush run`: two counts made apart agree to the event.

use std::process::{Command, Output, Stdio};

use inrush_tests::*;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::to_file;

fn load(inrush: &Inrush, protocol: &str, args: &[&str]) -> (Output, Value) {
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
