//! `inrush top` beside a running process.

use std::process::{Command, Output};

use inrush_tests::*;
use serde_json::Value;

use crate::{TCP, to_file};

fn top(args: &[&str]) -> Output {
    Command::new(binary())
        .arg("top")
        .args(args)
        .output()
        .unwrap()
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn one_frame_shows_the_process_as_plain_text() {
    let inrush = Inrush::start(&to_file(TCP, ""));
    Tcp::connect(inrush.address("tcp")).send(lines(0..1234));
    inrush.conserved(1234);
    let output = top(&["--once", &format!("http://{}", inrush.admin())]);
    let text = words(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output.stderr));
    for part in [
        "ledger balanced",
        "ALARMS  none",
        "syslog → out",
        "1,234",
        " idle",
    ] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
    assert!(text.contains("nothing was lost since the start") || text.contains("whole host"));
    assert!(
        !text.contains(|c: char| c.is_control() && c != '\n'),
        "{text}"
    );
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
}

#[test]
fn json_is_the_snapshot_and_nothing_else() {
    let inrush = Inrush::start(&to_file(TCP, ""));
    // Without `http://`, as people write it.
    let output = top(&["--json", &inrush.admin().to_string()]);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output.stderr));
    let snapshot: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(snapshot["sources"][0]["name"], "syslog");
    assert_eq!(words(&output.stdout).lines().count(), 1);
}

#[test]
fn a_process_that_asks_for_a_token_is_shown_one_over_tls() {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::new(dir.path());
    pki.issue("admin");
    let (cert, key) = (pki.path("admin.pem"), pki.path("admin.key"));
    let admin = format!(
        "admin: {{ listen: 127.0.0.1:0, tokens: [0123456789abcdef], \
         tls: {{ cert_file: {}, key_file: {} }} }}\n",
        cert.display(),
        key.display()
    );
    let inrush = Inrush::start(&(admin + &to_file(TCP, "")));
    let url = format!("https://{}", inrush.admin());
    let ca = pki.path("ca.pem");
    let asked = |token: Option<&str>, more: &[&str]| {
        let mut command = Command::new(binary());
        command.args(["top", "--json", &url]).args(more);
        match token {
            Some(token) => command.env("INRUSH_TOKEN", token),
            None => command.env_remove("INRUSH_TOKEN"),
        };
        let output = command.output().unwrap();
        (
            output.status.code(),
            words(&output.stdout) + &words(&output.stderr),
        )
    };
    let trusting = ["--ca", ca.to_str().unwrap()];
    let (code, text) = asked(Some("0123456789abcdef"), &trusting);
    assert!(
        code == Some(0) && text.contains("\"balanced\":true"),
        "{text}"
    );
    for (token, more, reason) in [
        (None, &trusting[..], "it asks for a token"),
        (
            Some("fedcba9876543210"),
            &trusting[..],
            "it does not take this token",
        ),
        (Some("0123456789abcdef"), &[][..], "certificate"),
    ] {
        let (code, text) = asked(token, more);
        assert!(code == Some(1) && text.contains(reason), "{reason}: {text}");
        assert!(!text.contains("0123456789abcdef"), "{text}");
    }
}

/// As `openssl req -x509` makes it: an authority's certificate, in place of a server's.
#[test]
fn a_self_signed_certificate_is_trusted_by_name() {
    let dir = tempfile::tempdir().unwrap();
    crate::hec_tls::self_signed(dir.path(), "127.0.0.1");
    crate::hec_tls::self_signed(dir.path(), "127.0.0.2");
    let pem = |name: &str| dir.path().join(format!("{name}.pem")).display().to_string();
    let (cert, key) = (pem("127.0.0.1"), pem("127.0.0.1.key"));
    let admin = format!(
        "admin: {{ listen: 127.0.0.1:0, tokens: [0123456789abcdef], \
         tls: {{ cert_file: \"{cert}\", key_file: \"{key}\" }} }}\n"
    );
    let inrush = Inrush::start(&(admin + &to_file(TCP, "")));
    let url = format!("https://{}", inrush.admin());
    let asked = |ca: &str| {
        let mut command = Command::new(binary());
        command.args(["top", "--json", &url, "--ca", ca]);
        command.env("INRUSH_TOKEN", "0123456789abcdef");
        let output = command.output().unwrap();
        let said = words(&output.stdout) + &words(&output.stderr);
        (output.status.code(), said)
    };
    let (code, said) = asked(&cert);
    assert!(
        code == Some(0) && said.contains("\"balanced\":true"),
        "{said}"
    );
    let (code, said) = asked(&pem("127.0.0.2"));
    assert!(code == Some(1) && said.contains("certificate"), "{said}");
}

#[test]
fn where_nothing_answers_it_says_so() {
    for mode in ["--once", "--json"] {
        let output = top(&[mode, "http://127.0.0.1:1"]);
        let said = words(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains("http://127.0.0.1:1") && said.contains("is inrush running"),
            "{said}"
        );
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_command_line_without_sense_ends_with_2() {
    // The output is no terminal here.
    for args in [
        &["ftp://h"][..],
        &["--json", "https://127.0.0.1:1", "--ca", "/dev/null"],
        &["--once", "a b"],
        &["--json", "--once"],
        &[],
    ] {
        let output = top(args);
        let said = words(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(output.stdout.is_empty() && !said.is_empty(), "{args:?}");
    }
}
