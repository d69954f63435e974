//! Sockets that outlive the process: what is sent while none runs is there for the next.

use std::process::{Command, Stdio};

use inrush_tests::*;

use crate::to_file;

/// Binds a UDP and a TCP socket as systemd does, runs inrush on them, replaces it by a second one
/// while datagrams keep coming, and leaves when the second one has ended.
const SYSTEMD: &str = r#"
import os, signal, socket, subprocess, sys, time
inrush, config, data, address_file = sys.argv[1:5]
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
udp.bind(("127.0.0.1", int(sys.argv[5])))
tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
tcp.bind(("127.0.0.1", int(sys.argv[5])))
tcp.listen(64)

def start(log):
    pid = os.fork()
    if pid == 0:
        held = [os.dup(udp.fileno()), os.dup(tcp.fileno())]
        # Above 3 and 4 before they go there, so that neither is overwritten.
        held = [os.dup2(fd, 100 + i) for i, fd in enumerate(held)]
        for i, fd in enumerate(held):
            os.dup2(fd, 3 + i, inheritable=True)
        os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="2")
        err = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(err, 2)
        os.execv(inrush, [inrush, "run", "-c", config, "--data-dir", data])
    while "inrush: ready" not in open(log).read() if os.path.exists(log) else True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            sys.exit("inrush ended: " + open(log).read())
        time.sleep(0.02)
    return pid

def stop(pid):
    os.kill(pid, signal.SIGTERM)
    _, status = os.waitpid(pid, 0)
    if status:
        sys.exit("status %d" % status)

client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def send(first, last):
    for n in range(first, last):
        text = "<13>1 2026-03-04T05:06:07Z h a - ID%d - x" % n
        client.sendto(text.encode(), udp.getsockname())

def lines():
    return sum(1 for _ in open(address_file)) if os.path.exists(address_file) else 0

one = start(config + ".1.log")
send(0, 100)
stop(one)
send(100, 200)
waiting = socket.create_connection(tcp.getsockname())
waiting.sendall(b"<13>1 2026-03-04T05:06:07Z h a - ID200 - x\n")
two = start(config + ".2.log")
send(201, 300)
end = time.monotonic() + 60
while lines() < 300 and time.monotonic() < end:
    time.sleep(0.02)
stop(two)
"#;

#[test]
fn a_restart_under_socket_activation_loses_nothing() {
    let Some(python) = tool("python3") else {
        skip!("python3 is not installed")
    };
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    // A port that was free a moment ago, for both transports.
    let probe = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = probe.local_addr().unwrap().port();
    drop(probe);
    let yaml = to_file(
        &format!("udp://127.0.0.1:{port}, tcp://127.0.0.1:{port}"),
        "",
    )
    .replace("{dir}", dir.path().to_str().unwrap());
    std::fs::write(
        path("inrush.yaml"),
        yaml + "admin: { listen: 127.0.0.1:0 }\n",
    )
    .unwrap();
    let mut command = Command::new(python);
    command
        .args(["-c", SYSTEMD])
        .arg(binary())
        .arg(path("inrush.yaml"))
        .arg(path("data"));
    command
        .arg(path("out.jsonl"))
        .arg(port.to_string())
        .stdin(Stdio::null());
    run_ok(&mut command);
    let mut ids: Vec<_> = (0..300).map(|n| format!("ID{n}")).collect();
    ids.sort_unstable();
    assert_eq!(
        sorted(field(&json_lines(&path("out.jsonl")), "msg_id")),
        ids
    );
}
