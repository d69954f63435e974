//! One place for the configuration: `-c`, `INRUSH_CONFIG`, the packaged file, the built-in one.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use inrush_tests::*;
use serde_json::Value;

use crate::packs::inrush;

/// Environment variable that names the file.
const VARIABLE: &str = "INRUSH_CONFIG";

/// A configuration whose data directory tells it from others.
fn configuration(data_dir: &Path) -> String {
    format!(
        "data_dir: {}\nadmin: {{ listen: 127.0.0.1:0 }}\n\
         sources: {{ s: {{ type: syslog, listen: [\"tcp://127.0.0.1:0\"] }} }}\n\
         destinations: {{ local: {{ type: store }} }}\n",
        data_dir.display()
    )
}

/// Commands that name what they read of a data directory that is not there.
const COMMANDS: [&[&str]; 5] = [
    &["queue", "ls"],
    &["queue", "quarantine", "ls"],
    &["store", "verify"],
    &["search", "*"],
    &["replay"],
];

fn said(output: &Output) -> String {
    let out = String::from_utf8_lossy(&output.stdout);
    format!("{out}{}", String::from_utf8_lossy(&output.stderr))
}

#[test]
fn every_command_takes_the_file_that_the_environment_names() {
    let dir = tempfile::tempdir().unwrap();
    let named = dir.path().join("named.yaml");
    std::fs::write(&named, configuration(&dir.path().join("of-named"))).unwrap();
    let other = dir.path().join("other.yaml");
    std::fs::write(&other, configuration(&dir.path().join("of-other"))).unwrap();
    for words in COMMANDS {
        let mut command = Command::new(binary());
        command.args(words).current_dir(dir.path());
        let output = command.env(VARIABLE, &named).output().unwrap();
        assert!(said(&output).contains("of-named"), "{words:?}: {output:?}");
        let output = command.arg("-c").arg(&other).output().unwrap();
        assert!(said(&output).contains("of-other"), "{words:?}: {output:?}");
    }
}

/// A file that is named and is not there is an error, not a reason to take another.
#[test]
fn a_named_file_that_is_missing_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    for words in COMMANDS
        .iter()
        .chain([&["check"][..], &["top", "--once"]].iter())
    {
        let mut command = Command::new(binary());
        command.args(*words).current_dir(dir.path());
        let output = command.env(VARIABLE, "gone.yaml").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
        assert!(said(&output).contains("gone.yaml"), "{words:?}: {output:?}");
    }
}

/// On a packaged host: the file that packages install, and what an alarm and the doctor print, as
/// it is printed.
#[test]
fn what_an_alarm_prints_works_on_a_packaged_host() {
    if !is_root() || tool("unshare").is_none() {
        skip!("a file of its own below /etc needs root and unshare");
    }
    let dir = tempfile::tempdir().unwrap();
    let yaml = configuration(Path::new("{dir}/data")).replace("local: { type: store }", "");
    let yaml = yaml.replace(
        "destinations: {",
        "queue: { max_bytes: 64MiB }\n\
         destinations: { dead: { type: splunk_hec, token: t, endpoints: [\"http://127.0.0.1:9\"] }",
    );
    let etc = dir.path().join("etc/inrush");
    std::fs::create_dir_all(&etc).unwrap();
    let inrush = Inrush::start(&yaml);
    Tcp::connect(inrush.address("tcp")).send("<13>May  6 07:08:09 h a: one\n");
    let alarm = crate::doors::await_alarm(&inrush, "destination-failing:dead", || {});
    let link = alarm["link"].as_str().unwrap();
    assert!(link.starts_with("docs/"), "{alarm:#}");
    std::fs::copy(inrush.path("inrush.yaml"), etc.join("inrush.yaml")).unwrap();
    for words in [
        "inrush queue ls",
        "inrush queue verify",
        "inrush check",
        "inrush doctor --no-rate",
    ] {
        let script = format!(
            "mount --bind {} /etc && cd / && PATH={}:$PATH {words}",
            dir.path().join("etc").display(),
            binary().parent().unwrap().display(),
        );
        let mut command = Command::new("unshare");
        command
            .args(["-m", "bash", "-c", &script])
            .env_remove(VARIABLE);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{words}: {output:?}");
        if words == "inrush queue ls" {
            assert!(said(&output).contains("dead"), "{output:?}");
        }
    }
}

#[test]
fn the_doctors_commands_name_the_file_it_was_given() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("own.yaml");
    let tls = "destinations: { out: { type: blackhole } }\nsources: { s: { type: syslog, \
        listen: [\"tls://127.0.0.1:0\"], tls: { cert_file: no.pem, key_file: no.key } } }\n";
    std::fs::write(&file, tls).unwrap();
    let mut doctor = Command::new(binary());
    doctor
        .args(["doctor", "--json", "--no-rate", "-c"])
        .arg(&file);
    let report: Value = serde_json::from_slice(&doctor.output().unwrap().stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let unusable = findings.iter().find(|one| one["id"] == "config.unusable");
    let command = unusable.unwrap()["command"].as_str().unwrap();
    assert_eq!(command, format!("inrush check -c {}", file.display()));
    // It says what is wrong.
    let mut words = command.split(' ').skip(1);
    let output = Command::new(binary()).args(&mut words).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("no.pem"), "{output:?}");
}

#[test]
fn check_takes_a_file_stdin_and_the_configuration_of_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("own.yaml");
    let good = configuration(dir.path());
    std::fs::write(&file, &good).unwrap();
    let bad = good.replace("sources:", "sourcs:");
    let own = file.to_str().unwrap();
    for (args, stdin, code, words) in [
        (&["check", own][..], "", 0, format!("{own}: ok\n")),
        (&["check", "-"], &good, 0, "-: ok\n".to_owned()),
        (&["check"], "", 0, "built-in configuration: ok\n".to_owned()),
        (&["check", "-"], &bad, 2, "-:3:1: ".to_owned()),
        (
            &["check", own, "-c", own],
            "",
            2,
            "cannot be used with".to_owned(),
        ),
    ] {
        let output = inrush(args, dir.path(), stdin);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
        assert!(said(&output).contains(&words), "{args:?}: {output:?}");
    }
}

#[test]
fn check_prints_problems_and_warnings_as_one_document() {
    let dir = tempfile::tempdir().unwrap();
    let checked = |yaml: &str, code: i32| -> Value {
        let output = inrush(&["check", "--json", "-"], dir.path(), yaml);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let good = configuration(dir.path());
    let odd = good.replace("type: store", "type: store, free: 900000TiB");
    let report = checked(&odd, 0);
    assert_eq!(report["ok"], true);
    let warning = report["warnings"][0]["message"].as_str().unwrap();
    assert!(warning.contains("more than the disk has"), "{report:#}");
    let wrong = good
        .replace("sources:", "sourcs:")
        .replace("type: store", "type: stor");
    let report = checked(&wrong, 2);
    assert_eq!(report["ok"], false);
    let problems = report["problems"].as_array().unwrap();
    let places: Vec<_> = problems
        .iter()
        .map(|one| (&one["file"], &one["line"]))
        .collect();
    let file = Value::from("-");
    assert_eq!(
        places,
        [(&file, &3.into()), (&file, &4.into())],
        "{report:#}"
    );
}

#[test]
fn top_asks_the_process_of_the_configuration() {
    let inrush = Inrush::start(&crate::to_file(crate::TCP, ""));
    let yaml = std::fs::read_to_string(inrush.path("inrush.yaml")).unwrap();
    let listen = format!("listen: {}", inrush.admin());
    let moved = yaml.replace(
        "admin: { listen: 127.0.0.1:0",
        &format!("admin: {{ {listen}"),
    );
    std::fs::write(inrush.path("moved.yaml"), moved).unwrap();
    let mut top = Command::new(binary());
    top.args(["top", "--json", "-c"])
        .arg(inrush.path("moved.yaml"));
    let output = top.stdin(Stdio::null()).output().unwrap();
    let flow: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(flow["sources"][0]["name"], "syslog", "{output:?}");
}

#[test]
fn the_doctor_fails_a_script_that_asks_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let tls = "destinations: { out: { type: blackhole } }\nsources: { s: { type: syslog, \
        listen: [\"tls://127.0.0.1:0\"], tls: { cert_file: no.pem, key_file: no.key } } }\n";
    std::fs::write(dir.path().join("inrush.yaml"), tls).unwrap();
    let args = ["doctor", "--no-rate", "-c", "inrush.yaml"];
    for (more, code) in [
        (&[][..], 0),
        (&["--fail-on", "critical"], 1),
        (&["--fail-on", "warn"], 1),
        (&["--fail-on", "never"], 2),
    ] {
        let output = inrush(&[&args[..], more].concat(), dir.path(), "");
        assert_eq!(output.status.code(), Some(code), "{more:?}: {output:?}");
    }
}

#[test]
fn no_password_at_all_is_told_from_a_short_one() {
    let dir = tempfile::tempdir().unwrap();
    let output = inrush(&["check", "--hash-password"], dir.path(), "");
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("nothing was read"), "{output:?}");
    let output = inrush(&["check", "--hash-password"], dir.path(), "short\n");
    assert!(said(&output).contains("fewer than 8"), "{output:?}");
}
