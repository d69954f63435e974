//! The safe rate that `inrush doctor` states, and what `inrush plan` makes of it. That the number
//! is true is shown by `inrush-bench run safe-rate`; here it is its form, and what is left of it.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use inrush_tests::*;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

fn command(args: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(binary());
    command.args(args).current_dir(folder);
    command
}

fn inrush(args: &[&str], folder: &Path) -> Output {
    command(args, folder).output().unwrap()
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", words(&output.stderr));
    assert_eq!(words(&output.stdout).lines().count(), 1);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A configuration with all kinds of destinations, of which the first is this collector.
fn config(dir: &Path, hec: &Hec) -> String {
    let file = dir.join("inrush.yaml");
    let (data, archive) = (dir.join("data"), dir.join("archive"));
    std::fs::create_dir(&data).unwrap();
    let yaml = format!(
        "data_dir: {data}
sources: {{ syslog: {{ type: syslog, listen: ['tcp://127.0.0.1:0', 'udp://127.0.0.1:0'] }} }}
packs: {{ enabled: true }}
destinations:
  splunk: {{ type: splunk_hec, endpoints: ['{url}'], token: t, acknowledgements: true }}
  tape: {{ type: file, path: '{archive}/{{host}}.log' }}
  out: {{ type: stdout }}
",
        data = data.display(),
        archive = archive.display(),
        url = hec.url()
    );
    std::fs::write(&file, yaml).unwrap();
    file.to_str().unwrap().to_owned()
}

/// The doctor asks a collector how it is, with an empty body.
fn assert_no_event(hec: &Hec) {
    let requests = hec.requests();
    assert!(requests.iter().all(|r| r.events.is_empty()), "{requests:?}");
}

#[test]
fn a_rate_is_stated_and_nothing_is_left_or_sent() {
    let (dir, hec) = (tempfile::tempdir().unwrap(), Hec::start());
    let config = config(dir.path(), &hec);
    let args = ["doctor", "--json", "--event-bytes", "700", "-c", &config];
    let report = json(&inrush(&args, dir.path()));
    let rate = report["safe_rate"].as_object().unwrap();
    let mut keys: Vec<_> = rate.keys().map(String::as_str).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["event_bytes", "events_per_second", "limited_by"]);
    assert!(rate["events_per_second"].as_u64().unwrap() > 0);
    assert_eq!(rate["event_bytes"], 700);
    let limits = ["read", "parse", "classify", "queue", "fsync", "send"];
    assert!(limits.contains(&rate["limited_by"].as_str().unwrap()));
    assert_no_event(&hec);
    assert_eq!(names(dir.path()), ["data", "inrush.yaml"]);
    assert_eq!(names(&dir.path().join("data")), [""; 0]);
}

/// Ctrl-C in the middle: it ends soon, says so, and leaves nothing.
#[test]
fn a_signal_ends_it_and_leaves_nothing() {
    let (dir, hec) = (tempfile::tempdir().unwrap(), Hec::start());
    let config = config(dir.path(), &hec);
    let mut doctor = command(&["doctor", "-c", &config], dir.path());
    doctor.stdout(Stdio::piped()).stderr(Stdio::piped());
    let doctor = doctor.spawn().unwrap();
    let data = dir.path().join("data");
    // A queue is there: the pipeline runs.
    eventually("the pipeline to run", || {
        let folder = names(&data).into_iter().next()?;
        data.join(folder).join("all/queue").is_dir().then_some(())
    });
    let pid = Pid::from_raw(doctor.id().try_into().unwrap());
    kill(pid, Signal::SIGINT).unwrap();
    let output = doctor.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = words(&output.stderr);
    assert!(said.contains("interrupted while the safe rate"), "{said}");
    assert_eq!(names(&data), [""; 0]);
    assert_no_event(&hec);
}

/// The load would take the CPUs from it, and its datagrams would be lost.
#[test]
fn beside_a_running_process_nothing_is_measured_unless_it_is_asked_for() {
    let running = Inrush::start(
        "data_dir: \"{dir}/data\"
admin: { listen: '127.0.0.1:0' }
sources: { syslog: { type: syslog, listen: ['tcp://127.0.0.1:0'] } }
destinations: { null0: { type: blackhole } }
",
    );
    let config = running.path("inrush.yaml");
    let (folder, file) = (config.parent().unwrap(), config.to_str().unwrap());
    let report = json(&inrush(&["doctor", "--json", "-c", file], folder));
    assert!(report["safe_rate"].is_null());
    let findings = report["findings"].as_array().unwrap();
    let why = findings.iter().find(|one| one["id"] == "cpu.safe_rate");
    let why = why.unwrap();
    assert_eq!(why["severity"], "info");
    assert_eq!(why["command"], format!("inrush doctor --rate -c {file}"));
    let report = json(&inrush(&["doctor", "--rate", "--json", "-c", file], folder));
    assert!(report["safe_rate"]["events_per_second"].as_u64() > Some(0));
    assert_eq!(running.ledger().sources["syslog"].received, 0);
}

fn line(plan: &Value, id: &str) -> u64 {
    let lines = plan["lines"].as_array().unwrap();
    let found = lines.iter().find(|line| line["id"] == id);
    found.unwrap()["value"].as_u64().unwrap()
}

#[test]
fn a_plan_is_made_of_a_rate_that_is_given() {
    let dir = tempfile::tempdir().unwrap();
    let given = [
        "plan",
        "--eps",
        "1000000",
        "--size",
        "800",
        "--retention",
        "30",
        "--destinations",
        "2",
        "--outage",
        "4",
        "--safe-rate",
        "400000",
        "--cores",
        "16",
    ];
    let plan = json(&inrush(&[&given[..], &["--json"]].concat(), dir.path()));
    assert_eq!(line(&plan, "hosts"), 6);
    assert_eq!(line(&plan, "cores"), 67);
    assert_eq!(line(&plan, "queue_bytes_per_host"), 2_580_480_000_000);
    assert_eq!(line(&plan, "store_bytes_per_host"), 74_649_600_000_000);
    assert!(plan.get("safe_rate").is_none());
    let text = words(&inrush(&given, dir.path()).stdout);
    assert!(
        text.contains("200,000/s × 4 h × 3600 s × (800 + 96) B"),
        "{text}"
    );
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn a_plan_measures_this_host_where_no_rate_is_given() {
    let (dir, hec) = (tempfile::tempdir().unwrap(), Hec::start());
    let config = config(dir.path(), &hec);
    let args = [
        "plan",
        "--eps",
        "1000",
        "--size",
        "500",
        "--destinations",
        "splunk",
        "-c",
        &config,
        "--json",
    ];
    let plan = json(&inrush(&args, dir.path()));
    let rate = &plan["safe_rate"];
    assert_eq!(rate["event_bytes"], 500);
    assert_eq!(rate["events_per_second"], plan["host"]["events_per_second"]);
    assert!(line(&plan, "hosts") >= 1);
    assert_no_event(&hec);
}

#[test]
fn a_plan_that_cannot_be_meant_is_refused_before_anything_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    for (wrong, said) in [
        (["--eps", "0", "--size", "800"], "--eps 0: use 1 to"),
        (
            ["--eps", "1", "--size", "99999999999"],
            "--size 99999999999: use 1 to",
        ),
    ] {
        let output = inrush(&[&["plan"][..], &wrong].concat(), dir.path());
        assert_eq!(output.status.code(), Some(2));
        let stderr = words(&output.stderr);
        assert!(
            stderr.contains(said) && !stderr.contains("measuring"),
            "{stderr}"
        );
        assert!(output.stdout.is_empty());
    }
}
