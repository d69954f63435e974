//! What the host takes away: files, room for them, and a reader of the log.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use inrush_tests::{Inrush, Options, Tcp, binary, eventually, http, lines};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{TCP, to_file};

#[test]
fn events_are_not_written_into_a_file_that_was_deleted() {
    let yaml = to_file(TCP, "").replace("{dir}/out.jsonl", "{dir}/archive/out.jsonl");
    let inrush = Inrush::start(&yaml);
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    // Open files are looked at once a second; these come faster.
    for round in 0..5_u64 {
        tcp.send(lines(0..10));
        inrush.conserved(10 * (round + 1));
        assert_eq!(
            inrush.events("archive/out.jsonl").len(),
            10,
            "round {round}"
        );
        match round % 2 {
            0 => fs::remove_file(inrush.path("archive/out.jsonl")).unwrap(),
            _ => fs::remove_dir_all(inrush.path("archive")).unwrap(),
        }
    }
}

#[test]
fn a_limit_on_the_size_of_files_holds_events_and_does_not_end_the_process() {
    let wrapper = ["prlimit", "--fsize=100000"].map(str::to_owned);
    let options = Options {
        wrapper: &wrapper,
        ..Options::default()
    };
    let yaml = "queue: { durability: memory }\n".to_owned() + &to_file(TCP, "");
    let inrush = Inrush::with(&yaml, options);
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    tcp.send(lines(0..5000));
    inrush.wait_until("events held", |ledger| {
        let sources = ledger.sources.values();
        let pending: u64 = ledger.destinations.values().map(|d| d.pending).sum();
        sources.map(|s| s.accepted).sum::<u64>() == 5000 && pending > 0
    });
    eventually("the error is said", || {
        let said = inrush.destination().to_string();
        said.contains("File too large").then_some(())
    });
}

/// The writing end of a pipe that nobody reads, with no room in it, and the other end.
fn full_pipe() -> (OwnedFd, OwnedFd) {
    let (read, write) = nix::unistd::pipe().unwrap();
    fcntl(&write, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    let mut file = fs::File::from(write.try_clone().unwrap());
    while file.write(&[b'x'; 4096]).is_ok() {}
    while file.write(b"x").is_ok() {}
    fcntl(&write, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
    (read, write)
}

#[test]
fn a_log_that_nobody_reads_stops_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let yaml = format!("admin: {{ listen: \"{free}\" }}\n{}", to_file(TCP, ""));
    let yaml = yaml.replace("{dir}", dir.path().to_str().unwrap());
    fs::write(dir.path().join("inrush.yaml"), yaml).unwrap();
    let (_unread, full) = full_pipe();
    let mut child = Command::new(binary())
        .args(["run", "-c"])
        .arg(dir.path().join("inrush.yaml"))
        .arg("--data-dir")
        .arg(dir.path().join("data"))
        .stderr(Stdio::from(full))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the admin API answers", || {
        std::net::TcpStream::connect(free).ok()?;
        (http(free, "GET", "/healthz").status == 200).then_some(())
    });
    let process = Pid::from_raw(child.id() as i32);
    kill(process, Signal::SIGTERM).unwrap();
    let status = eventually("it ends", || child.try_wait().unwrap());
    assert!(status.success(), "{status}");
}
