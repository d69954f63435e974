//! The configuration as the command line shows it: every problem with its place, and exit codes.

use std::process::{Command, Output};

use inrush_tests::binary;
use tempfile::TempDir;

use crate::doctor::{findings, of};

/// Runs `inrush COMMAND -c inrush.yaml` on a text.
fn on(command: &str, yaml: &str) -> (Output, String, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("inrush.yaml");
    std::fs::write(&file, yaml).unwrap();
    let output = Command::new(binary())
        .args([command, "-c"])
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    (output, said, dir)
}

const GOOD: &str = "\
sources:
  syslog:
    type: syslog
    listen: [udp://127.0.0.1:0]
destinations:
  out: { type: blackhole }
";

#[test]
fn a_good_file_passes_in_silence() {
    let (output, said, _dir) = on("check", GOOD);
    assert_eq!((output.status.code(), said.as_str()), (Some(0), ""));
}

#[test]
fn bounds_that_no_disk_has_are_told() {
    for (options, words) in [
        (
            "free: 900000TiB",
            "`destinations.out.free` is more than the disk has",
        ),
        ("keep: { bytes: 900000TiB }", "before `keep` is reached"),
    ] {
        let store = format!("type: store, {options}");
        let (output, said, dir) = on("check", &GOOD.replacen("type: blackhole", &store, 1));
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains("warning: ") && said.contains(words), "{said}");
        let findings = findings(&dir.path().join("inrush.yaml"));
        let budgets = of(&findings, "disk.budgets");
        assert_eq!(budgets["severity"], "warn", "{budgets:#}");
        assert!(
            budgets["why"].as_str().unwrap().contains(words),
            "{budgets:#}"
        );
    }
}

/// A change to the good file, where the problem must be placed (line:column), and words that must
/// be said.
#[rustfmt::skip]
const BAD: &[(&str, &str, &str, &str)] = &[
    ("    listen:", "    lisen:", "4:5", "listen"),
    ("type: syslog", "type: sislog", "3:11", "syslog"),
    ("127.0.0.1:0", "127.0.0.1:99999", "4:14", "port"),
    ("udp://127", "ucp://127", "4:14", "udp"),
    ("type: blackhole", "type: blackhole, size: 3", "6:27", "size"),
    ("sources:", "sourcs:", "1:1", "sources"),
];

#[test]
fn each_problem_is_placed_and_explained_with_exit_code_2() {
    for (from, to, place, words) in BAD {
        let yaml = GOOD.replacen(from, to, 1);
        for command in ["check", "run"] {
            let (output, said, _dir) = on(command, &yaml);
            assert_eq!(output.status.code(), Some(2), "{command} {to}: {said}");
            assert!(
                said.contains(&format!("inrush.yaml:{place}")),
                "{place} for {to}: {said}"
            );
            assert!(said.contains(words), "{words} for {to}: {said}");
            assert!(output.stdout.is_empty());
        }
    }
}

#[test]
fn all_problems_are_told_at_once() {
    let yaml = GOOD
        .replace("    listen:", "    lisen:")
        .replace("blackhole", "blackhol");
    let (_, said, _dir) = on("check", &yaml);
    assert!(said.contains(":4:5") && said.contains(":6:16"), "{said}");
}

#[test]
fn certificates_that_cannot_be_read_are_configuration_problems() {
    let tls = "    tls: { cert_file: /nowhere/cert.pem, key_file: /nowhere/key.pem }\n";
    let yaml = GOOD
        .replace("udp:", "tls:")
        .replace("destinations", &format!("{tls}destinations"));
    let (output, said, _dir) = on("check", &yaml);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said.contains("inrush.yaml:5:") && said.contains("/nowhere/cert.pem"),
        "{said}"
    );
}

#[test]
fn tls_without_a_certificate_is_a_configuration_problem() {
    let (output, said, _dir) = on("check", &GOOD.replace("udp://", "tls://"));
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said.contains("inrush.yaml:") && said.contains("cert_file"),
        "{said}"
    );
}

#[test]
fn broken_yaml_is_placed() {
    let (output, said, _dir) = on("check", "sources:\n  syslog: [unclosed\n");
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("inrush.yaml:"), "{said}");
}

#[test]
fn variables_come_from_the_environment_and_are_never_shown() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("inrush.yaml");
    let text = GOOD.replace("udp://127.0.0.1:0", "\"${LISTEN:-udp://127.0.0.1:0}\"")
        + "queue: { memory_bytes: \"${SECRET_SIZE}\" }\n";
    std::fs::write(&file, text).unwrap();
    let check = |size: Option<&str>| {
        let mut command = Command::new(binary());
        command
            .args(["check", "-c"])
            .arg(&file)
            .env_remove("SECRET_SIZE");
        size.map(|size| command.env("SECRET_SIZE", size));
        let output = command.output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    assert_eq!(check(Some("128MiB")), (Some(0), String::new()));
    let (code, said) = check(Some("hunter2"));
    assert_eq!(code, Some(2));
    assert!(
        said.contains("SECRET_SIZE") && !said.contains("hunter2"),
        "{said}"
    );
    let (code, said) = check(None);
    assert_eq!(code, Some(2));
    assert!(said.contains("SECRET_SIZE"), "{said}");
}

#[test]
fn a_missing_file_and_a_wrong_flag_are_wrong_usage() {
    let run = |args: &[&str]| Command::new(binary()).args(args).output().unwrap();
    assert_eq!(
        run(&["check", "-c", "/nowhere/inrush.yaml"]).status.code(),
        Some(2)
    );
    assert_eq!(run(&["run", "--colour"]).status.code(), Some(2));
    assert_eq!(run(&["rum"]).status.code(), Some(2));
    let help = run(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    let help = String::from_utf8(help.stdout).unwrap();
    for command in ["run", "check", "load", "explain"] {
        assert!(help.contains(command), "{command}: {help}");
    }
}

#[test]
fn an_address_in_use_is_a_failure_that_names_it() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", taken.local_addr().unwrap());
    let yaml = GOOD.replace("udp://127.0.0.1:0", &address)
        + "admin: { listen: 127.0.0.1:0 }\ndata_dir: /tmp/inrush-test-unused\n";
    let (output, said, _dir) = on("run", &yaml);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&address), "{said}");
}

#[test]
fn explain_says_what_was_read() {
    use std::io::Write;
    use std::process::Stdio;
    let mut child = Command::new(binary())
        .args(["explain", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let raw = "<34>Oct 11 22:14:15 mymachine su[230]: 'su root' failed\n";
    child
        .stdin
        .take()
        .unwrap()
        .write_all(raw.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    let said: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert!(said.to_string().contains("rfc3164"), "{said}");
    assert!(said.to_string().contains("mymachine"), "{said}");
}
