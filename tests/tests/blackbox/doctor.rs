//! `inrush doctor` on the host that the tests run on: whatever that host is like, the output has
//! its shape, and what the test itself provokes is named.

use std::process::{Command, Output};

use inrush_tests::*;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::to_file;

fn doctor(args: &[&str], folder: &std::path::Path) -> Output {
    let mut command = Command::new(binary());
    command.args(["doctor", "--no-rate"]).args(args);
    command.current_dir(folder);
    command.output().unwrap()
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The findings of `doctor --json -c FILE`.
pub(crate) fn findings(config: &std::path::Path) -> Vec<Value> {
    let folder = config.parent().unwrap();
    let output = doctor(&["--json", "-c", config.to_str().unwrap()], folder);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output.stderr));
    assert_eq!(words(&output.stdout).lines().count(), 1);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["findings"].as_array().unwrap().clone()
}

/// The finding with this id, which there must be.
pub(crate) fn of<'a>(findings: &'a [Value], id: &str) -> &'a Value {
    let found = findings.iter().find(|finding| finding["id"] == id);
    found.unwrap_or_else(|| panic!("no {id} in {findings:#?}"))
}

#[test]
fn json_has_its_shape_whatever_the_host() {
    let dir = tempfile::tempdir().unwrap();
    let output = doctor(&["--json"], dir.path());
    assert_eq!(output.status.code(), Some(0), "{}", words(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let keys: Vec<_> = report.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["findings", "safe_rate"]);
    assert!(report["safe_rate"].is_null());
    let findings = report["findings"].as_array().unwrap();
    let rank = |finding: &Value| {
        let names = ["critical", "warn", "info", "ok"];
        let severity = finding["severity"].as_str().unwrap();
        names.iter().position(|name| *name == severity).unwrap()
    };
    assert!(findings.is_sorted_by_key(rank), "{findings:#?}");
    let layers = [
        "nic",
        "softnet",
        "socket",
        "ip",
        "qdisc",
        "kernel",
        "cpu",
        "memory",
        "disk",
        "limits",
        "clock",
        "config",
        "tls",
        "destination",
    ];
    for finding in findings {
        assert_eq!(finding.as_object().unwrap().len(), 8, "{finding:#}");
        let layer = finding["layer"].as_str().unwrap();
        assert!(layers.contains(&layer), "{finding:#}");
        for key in ["id", "found", "wanted", "why"] {
            assert!(!finding[key].as_str().unwrap().is_empty(), "{finding:#}");
        }
        let well = finding["severity"] == "ok";
        assert_eq!(finding["command"].is_null(), well, "{finding:#}");
        assert!(finding["lost_now"].is_null() || finding["lost_now"].is_u64());
    }
    // The built-in default's folder is not made by looking.
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn text_is_for_the_eye() {
    let dir = tempfile::tempdir().unwrap();
    let output = doctor(&[], dir.path());
    assert_eq!(output.status.code(), Some(0), "{}", words(&output.stderr));
    let text = words(&output.stdout);
    assert!(
        text.lines().next().unwrap().contains(" critical, "),
        "{text}"
    );
    assert!(text.contains("\nAS IT SHOULD BE\n"), "{text}");
}

#[test]
fn a_configuration_that_is_wrong_ends_with_2() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("inrush.yaml");
    std::fs::write(&file, "sauces: {}\n").unwrap();
    let output = doctor(&["-c", file.to_str().unwrap()], dir.path());
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    assert!(words(&output.stderr).contains("sauces"));
}

/// A process that stands still and a buffer that is too small: the drops are found by the port of
/// the configuration, to the packet of the kernel's own counter, and the limits are the process's.
#[test]
fn drops_at_a_socket_of_the_running_process_are_critical() {
    const SENT: u64 = 20_000;
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let listen = format!("udp://127.0.0.1:{port}");
    let yaml = to_file(&listen, "udp: { receive_buffer: 64KiB, sockets: 1 }");
    let inrush = Inrush::start(&format!("data_dir: \"{{dir}}/data\"\n{yaml}"));
    let config = inrush.path("inrush.yaml");
    let id = format!("socket.drops:{port}");
    let well = findings(&config);
    assert_eq!(of(&well, &id)["severity"], "ok");
    assert_eq!(of(&well, &id)["lost_now"], 0);
    let process = format!("process {}", inrush.pid());
    for id in ["limits.open_files", "socket.receive_buffer"] {
        let found = of(&well, id)["found"].as_str().unwrap();
        assert!(found.contains(&process), "{found}");
    }

    inrush.signal(Signal::SIGSTOP);
    send_udp(inrush.address("udp"), vec![vec![b'x'; 1000]; SENT as usize]);
    let bad = findings(&config);
    inrush.signal(Signal::SIGCONT);
    let drops = of(&bad, &id);
    assert_eq!(drops["severity"], "critical");
    assert!(drops["command"].is_string());
    let lost = drops["lost_now"].as_u64().unwrap();
    assert!(lost > 0 && lost < SENT, "{drops:#}");
    inrush.wait_until("the ledger to say the same", |ledger| {
        let row = &ledger.sources["syslog"];
        row.kernel_dropped == lost && row.received == SENT - lost
    });
}

/// As root it would change the host that the tests run on, so that it runs as nobody.
#[test]
fn without_the_right_to_set_anything_nothing_is_set_and_that_is_said() {
    let Some(setpriv) = tool("setpriv").filter(|_| is_root()) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(&setpriv);
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        command
            .arg(binary())
            .args(["doctor", "--no-rate"])
            .args(args);
        command.current_dir(dir.path()).output().unwrap()
    };
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(dir.path(), open).unwrap();
    let before = run(&["--json"]);
    if before.stdout.is_empty() {
        return; // The binary lies where nobody may not go.
    }
    let report: Value = serde_json::from_slice(&before.stdout).unwrap();
    let is_safe = |finding: &Value| {
        let command = finding["command"].as_str().unwrap_or_default();
        command.starts_with("sysctl -w net.core.") || command.starts_with("sysctl -w net.ipv4.ip")
    };
    let some = report["findings"].as_array().unwrap().iter().any(is_safe);
    let output = run(&["--json", "--apply"]);
    let stderr = words(&output.stderr);
    assert_eq!(output.status.code(), Some(i32::from(some)), "{stderr}");
    let after: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(after["safe_rate"], Value::Null);
    assert_eq!(stderr.contains("inrush: not set: net."), some, "{stderr}");
    assert!(!stderr.contains("inrush: set "), "{stderr}");
    assert_eq!(dir.path().join("doctor-undo.sh").is_file(), some);
}

#[test]
fn connections_that_wait_to_be_accepted_and_files_for_all_of_them_are_told() {
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], free_port()));
    let yaml = crate::hec_server::collector("", "stream: { max_connections: 5000 }");
    let yaml = yaml.replace("listen: 127.0.0.1:0", &format!("listen: {address}"));
    let inrush = Inrush::start(&format!("data_dir: \"{{dir}}/data\"\n{yaml}"));
    let config = inrush.path("inrush.yaml");
    let id = format!("tcp.backlog:{}", address.port());
    let found = findings(&config);
    let queue = of(&found, &id);
    assert_eq!(queue["severity"], "ok", "{queue:#}");
    let files = of(&found, "limits.open_files")["wanted"].to_string();
    assert!(files.contains("5000 connections"), "{files}");
    let overflows = of(&found, "tcp.listen_overflows");
    assert!(overflows["lost_now"].is_u64(), "{overflows:#}");
    // Nobody accepts any more, and the kernel goes on connecting.
    inrush.signal(Signal::SIGSTOP);
    eventually("all threads to stand still", || {
        let threads = std::fs::read_dir(format!("/proc/{}/task", inrush.pid())).ok()?;
        let mut states = threads.map(|thread| {
            let stat = std::fs::read_to_string(thread.ok()?.path().join("stat")).ok()?;
            stat.rsplit(") ").next()?.chars().next()
        });
        states.all(|state| state == Some('T')).then_some(())
    });
    let clients: Vec<_> = (0..5)
        .map(|_| std::net::TcpStream::connect(address).unwrap())
        .collect();
    let found = findings(&config);
    inrush.signal(Signal::SIGCONT);
    let queue = of(&found, &id)["found"].to_string();
    assert!(queue.contains("5 of at most"), "{queue}");
    drop(clients);
}
