//! Conventions of operators: shape and level of the log, probes of the admin API, metrics.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use inrush_tests::*;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::{TCP, to_file};

/// Words that begin a line, behind time and level.
const MARK: &str = " inrush: ";

/// Each line has time, level and program, whatever wrote it.
#[test]
fn lines_of_the_log_have_one_shape() {
    let (exit, _dir) = Inrush::start(&to_file(TCP, "")).stop();
    let said = exit.stderr;
    assert!(said.lines().count() > 6, "{said}");
    for line in said.lines() {
        let (head, _) = line.split_once(MARK).unwrap_or_else(|| panic!("{line:?}"));
        let (time, level) = head.split_once(' ').unwrap();
        assert!(time.parse::<jiff::Timestamp>().is_ok(), "{line:?}");
        assert!(["INFO", "WARN"].contains(&level.trim()), "{line:?}");
    }
}

/// A configuration of its own folder.
const OWN: &str = "admin: { listen: 127.0.0.1:0 }\nsources: { s: { type: syslog, \
    listen: [\"tcp://127.0.0.1:0\"] } }\ndestinations: { d: { type: blackhole } }\n";

fn run_in(dir: &Path) -> Command {
    let mut run = Command::new(binary());
    run.args(["run", "-c", "inrush.yaml", "--data-dir", "data"]);
    run.current_dir(dir);
    run
}

#[test]
fn a_log_in_json_has_nothing_but_json() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("inrush.yaml"), OWN).unwrap();
    let log = dir.path().join("log");
    let mut run = run_in(dir.path());
    run.args(["--log-format", "json"]);
    let mut child = run.stderr(File::create(&log).unwrap()).spawn().unwrap();
    let read = || std::fs::read_to_string(&log).unwrap();
    eventually("ready", || {
        read().contains("\"message\":\"ready\"").then_some(())
    });
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    assert!(child.wait().unwrap().success());
    for line in read().lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line:?}"));
        let time = line["time"].as_str().unwrap();
        assert!(time.parse::<jiff::Timestamp>().is_ok(), "{line}");
        let level = line["level"].as_str().unwrap();
        assert!(["info", "warn"].contains(&level), "{line}");
        assert!(!line["message"].as_str().unwrap().is_empty(), "{line}");
    }
}

#[test]
fn the_environment_sets_format_and_level_also_of_a_start_that_fails() {
    let dir = tempfile::tempdir().unwrap();
    let wrong = OWN.replace("syslog", "sislog");
    std::fs::write(dir.path().join("inrush.yaml"), wrong).unwrap();
    let mut run = run_in(dir.path());
    run.envs([("INRUSH_LOG_FORMAT", "json"), ("INRUSH_LOG_LEVEL", "error")]);
    let output = run.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let line: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(line["level"], "error");
    let words = line["message"].as_str().unwrap();
    assert!(words.contains("inrush.yaml:2:"), "{line}");
    let output = run.env("INRUSH_LOG_LEVEL", "loud").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("INRUSH_LOG_LEVEL"), "{said}");
}

#[test]
fn probes_of_the_admin_api_ask_for_no_token() {
    let admin = "admin: { listen: 127.0.0.1:0, tokens: [0123456789abcdef0123456789abcdef] }\n";
    let inrush = Inrush::start(&(to_file(TCP, "") + admin));
    let status = |path: &str| inrush.http("GET", path).status;
    assert_eq!(status("/api/v1/ledger"), 401);
    assert_eq!(
        (status("/livez"), status("/readyz"), status("/docs")),
        (200, 200, 200)
    );
    assert_eq!(inrush.json("/readyz")["ready"], true);
}

/// A collector that is down is no reason to take this process away: it is alive and ready.
#[test]
fn a_dead_destination_leaves_the_process_ready() {
    let yaml = crate::hec::to_hec(&["http://127.0.0.1:9".to_owned()], "");
    let inrush = Inrush::start(&yaml);
    Tcp::connect(inrush.address("tcp")).send("<13>May  6 07:08:09 h a: one\n");
    eventually("not healthy", || {
        (inrush.http("GET", "/healthz").status == 503).then_some(())
    });
    let status = |path: &str| inrush.http("GET", path).status;
    assert_eq!((status("/livez"), status("/readyz")), (200, 200));
}

#[test]
fn metrics_pass_the_lint_of_prometheus_and_are_there_from_the_start() {
    let yaml = to_file(TCP, "").replace("destinations:", "destinations:\n  local: { type: store }");
    let inrush = Inrush::start(&yaml);
    let page = inrush.http("GET", "/metrics").body;
    for series in [
        "inrush_build_info{version=",
        "inrush_source_rejected_events_total{source=\"syslog\",reason=",
        "inrush_source_connection_errors_total{source=\"syslog\",reason=",
        "inrush_destination_dropped_events_total{destination=\"out\",reason=",
        "inrush_destination_quarantined_events_total{destination=\"out\",reason=",
        "inrush_destination_errors_total{destination=\"out\",reason=",
        "inrush_store_searchable_lag_seconds_bucket{destination=\"local\",le=",
        "process_cpu_seconds_total ",
        "process_resident_memory_bytes ",
        "process_open_fds ",
        "process_max_fds ",
        "process_start_time_seconds ",
    ] {
        assert!(
            page.lines().any(|line| line.starts_with(series)),
            "{series}:\n{page}"
        );
    }
    assert!(
        !page.contains("quantile="),
        "a quantile says nothing of the last minutes"
    );
    let Some(promtool) = tool("promtool").or_else(|| peer_tool("promtool")) else {
        skip!("promtool is not installed");
    };
    let file = inrush.path("metrics");
    std::fs::write(&file, page).unwrap();
    let mut lint = Command::new(promtool);
    lint.args(["check", "metrics"])
        .stdin(File::open(file).unwrap());
    let output = lint.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}
