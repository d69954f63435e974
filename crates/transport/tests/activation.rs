//! Sockets passed to a real child process, as systemd passes them.
//!
//! The test runs itself again through a shell, which moves two sockets to the file descriptors
//! 3 and 4 and keeps its process id by `exec`: no other way to do so is free of `unsafe`.
#![allow(clippy::unwrap_used)]

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use inrush_event::Protocol;
use inrush_transport::activation::InheritedSockets;
use inrush_transport::config::ListenAddr;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};

/// Set in the child: the addresses of the UDP and the TCP socket.
const ADDRS: &str = "INRUSH_TEST_ACTIVATION";

const TEST: &str = "passed_sockets_keep_what_came_before_the_process";

const SHELL: &str = "exec 3<&0 4<&1 5<&- 0</dev/null 1>&2
    LISTEN_PID=$$ LISTEN_FDS=3 LISTEN_FDNAMES=first:second exec \"$@\"";

#[test]
fn passed_sockets_keep_what_came_before_the_process() {
    match std::env::var(ADDRS) {
        Ok(addrs) => child(&addrs),
        Err(_) => parent(),
    }
}

fn parent() {
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let (udp_addr, tcp_addr) = (udp.local_addr().unwrap(), tcp.local_addr().unwrap());
    UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .send_to(b"before", udp_addr)
        .unwrap();
    let _waiting = TcpStream::connect(tcp_addr).unwrap();
    let output = Command::new("sh")
        .args(["-c", SHELL, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", TEST, "--nocapture"])
        .env(ADDRS, format!("{udp_addr} {tcp_addr}"))
        .stdin(Stdio::from(OwnedFd::from(udp)))
        .stdout(Stdio::from(OwnedFd::from(tcp)))
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 passed"), "the child ran no test: {said}");
}

fn child(addrs: &str) {
    let (udp_addr, tcp_addr) = addrs.split_once(' ').unwrap();
    let listen = |protocol, addr: &str| ListenAddr {
        protocol,
        addr: addr.parse().unwrap(),
    };
    // Three were announced and two are open: the third must not be made up.
    let mut inherited = InheritedSockets::from_environment();
    assert_eq!(inherited.unmatched().count(), 2);
    assert!(
        inherited
            .unmatched()
            .next()
            .unwrap()
            .starts_with("file descriptor 3 (`first`)")
    );
    assert_eq!(
        InheritedSockets::from_environment().unmatched().count(),
        0,
        "taken twice"
    );

    let udp = inherited
        .take(&listen(Protocol::Udp, udp_addr))
        .pop()
        .unwrap();
    let mut message = [0; 16];
    let n = UdpSocket::from(udp).recv(&mut message).unwrap();
    assert_eq!(&message[..n], b"before");

    let tcp = inherited
        .take(&listen(Protocol::Tcp, tcp_addr))
        .pop()
        .unwrap();
    let flags = FdFlag::from_bits_retain(fcntl(&tcp, FcntlArg::F_GETFD).unwrap());
    assert!(flags.contains(FdFlag::FD_CLOEXEC) && tcp.nonblocking().unwrap());
    TcpListener::from(tcp).accept().unwrap();
}
