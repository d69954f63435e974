//! Sockets that systemd opened for us (`sd_listen_fds(3)`), so that a restart loses no datagram
//! and a port below 1024 needs no privilege.
//!
//! # What it guarantees
//! * Only sockets meant for this very process are taken: `LISTEN_PID` must be ours.
//! * No child inherits them: they are closed on exec, and a child has another `LISTEN_PID`. The
//!   variables stay in the environment, since changing that is unsound once threads run.
//! * What is not asked for stays open and is named by [`InheritedSockets::unmatched`]: closing it
//!   would throw away what systemd's queue holds, and a reload may yet ask for it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

use inrush_event::Protocol;
use socket2::{Socket, Type};

use crate::config::ListenAddr;

/// The first file descriptor passed (`SD_LISTEN_FDS_START`).
const FIRST_FD: RawFd = 3;

/// File descriptors taken at most. systemd passes one a `Listen…=` line; more is a broken
/// `LISTEN_FDS`.
const FDS_MAX: RawFd = 1024;

/// The sockets passed to this process and not yet taken.
#[derive(Debug, Default)]
pub struct InheritedSockets {
    sockets: Vec<PassedSocket>,
}

#[derive(Debug)]
struct PassedSocket {
    socket: Socket,
    /// From `FileDescriptorName=`; empty where none was given.
    name: String,
}

impl InheritedSockets {
    /// Takes what the environment says was passed. Call it first in `main`, before anything else
    /// opens files; a second call in the same process finds nothing.
    pub fn from_environment() -> Self {
        static TAKEN: AtomicBool = AtomicBool::new(false);
        let variable = |name| std::env::var(name).unwrap_or_default();
        if variable("LISTEN_PID").parse() != Ok(process::id()) || TAKEN.swap(true, Ordering::SeqCst)
        {
            return Self::default();
        }
        let count = variable("LISTEN_FDS")
            .parse()
            .unwrap_or(0)
            .clamp(0, FDS_MAX);
        let names = variable("LISTEN_FDNAMES");
        let names = names
            .split(':')
            .map(str::to_owned)
            .chain(std::iter::repeat(String::new()));
        let fds = (FIRST_FD..FIRST_FD + count).filter_map(claim);
        Self::from_fds(fds.zip(names))
    }

    fn from_fds(fds: impl Iterator<Item = (OwnedFd, String)>) -> Self {
        let sockets = fds
            .map(|(fd, name)| PassedSocket {
                socket: fd.into(),
                name,
            })
            .inspect(|passed| prepare(&passed.socket))
            .collect();
        Self { sockets }
    }

    /// Takes every socket that is bound to `listen`, of its kind: several datagram sockets may
    /// share an address. For an IPv4 address that stands for all, a socket on `[::]` that takes
    /// IPv4 too is as good (systemd's `ListenStream=514` is one). Non-blocking, closed on exec.
    pub fn take(&mut self, listen: &ListenAddr) -> Vec<Socket> {
        let exact = self.extract(|socket| serves(socket, listen, is_bound_to));
        if exact.is_empty() {
            self.extract(|socket| serves(socket, listen, covers))
        } else {
            exact
        }
    }

    fn extract(&mut self, wanted: impl Fn(&Socket) -> bool) -> Vec<Socket> {
        self.sockets
            .extract_if(.., |passed| wanted(&passed.socket))
            .map(|p| p.socket)
            .collect()
    }

    /// Sockets that were passed and not taken, in words for a log line each.
    pub fn unmatched(&self) -> impl Iterator<Item = String> {
        self.sockets.iter().map(ToString::to_string)
    }
}

/// Owns a passed file descriptor; None where nothing is open under that number.
fn claim(fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: fcntl(2) with F_GETFD reads a flag, takes no pointer, and answers EBADF for a
    // number that is not open.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
        return None;
    }
    // SAFETY: `OwnedFd::from_raw_fd`: "The resource pointed to by fd must be open and suitable
    // for assuming ownership. The resource must not require any cleanup other than close." It was
    // found open just above. sd_listen_fds(3) gives the descriptors from 3 on to the process that
    // LISTEN_PID names, which is us, and `from_environment` claims them at most once in a process
    // (`TAKEN`), before anything else has opened files.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes a socket close-on-exec and non-blocking. What is no socket refuses these and is left for
/// `unmatched` to name.
fn prepare(socket: &Socket) {
    let _ = socket.set_cloexec(true);
    let _ = socket.set_nonblocking(true);
}

fn serves(
    socket: &Socket,
    listen: &ListenAddr,
    matches: fn(&Socket, SocketAddr, SocketAddr) -> bool,
) -> bool {
    let kind = match listen.protocol {
        Protocol::Udp => Type::DGRAM,
        _ => Type::STREAM,
    };
    let listening = || kind == Type::DGRAM || socket.is_listener().unwrap_or(false);
    socket.r#type().is_ok_and(|t| t == kind)
        && listening()
        && local_addr(socket).is_some_and(|bound| matches(socket, bound, listen.addr))
}

fn is_bound_to(_: &Socket, bound: SocketAddr, wanted: SocketAddr) -> bool {
    // Not `==`: the flow information of an IPv6 address says nothing about where it is bound.
    bound.ip() == wanted.ip() && bound.port() == wanted.port()
}

fn covers(socket: &Socket, bound: SocketAddr, wanted: SocketAddr) -> bool {
    wanted.ip() == IpAddr::V4(Ipv4Addr::UNSPECIFIED)
        && bound.is_ipv6()
        && bound.ip().is_unspecified()
        && bound.port() == wanted.port()
        && !socket.only_v6().unwrap_or(true)
}

fn local_addr(socket: &Socket) -> Option<SocketAddr> {
    socket.local_addr().ok()?.as_socket()
}

impl fmt::Display for PassedSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file descriptor {}", self.socket.as_raw_fd())?;
        if !self.name.is_empty() {
            write!(f, " (`{}`)", self.name)?;
        }
        let kind = match self.socket.r#type() {
            Ok(Type::DGRAM) => "a datagram socket",
            Ok(Type::STREAM) => "a stream socket",
            Ok(_) => "a socket of another kind",
            Err(_) => return f.write_str(", which is no socket"),
        };
        match local_addr(&self.socket) {
            Some(addr) => write!(f, ", {kind} on {addr}"),
            None => write!(f, ", {kind} without an IP address"),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs::File;
    use std::net::UdpSocket;

    use super::*;
    use crate::listen::{tcp_listener, udp_sockets};

    fn at(text: &str) -> ListenAddr {
        text.parse().unwrap()
    }

    fn on(protocol: Protocol, addr: SocketAddr) -> ListenAddr {
        ListenAddr { protocol, addr }
    }

    fn passed<const N: usize>(fds: [OwnedFd; N]) -> InheritedSockets {
        InheritedSockets::from_fds(fds.into_iter().map(|fd| (fd, "door".to_owned())))
    }

    #[test]
    fn sockets_are_taken_by_kind_and_address_once() {
        let udp = udp_sockets(at("udp://127.0.0.1:0"), 2).unwrap();
        let udp_addr = udp[0].local_addr().unwrap();
        let tcp = tcp_listener(at("tcp://127.0.0.1:0")).unwrap();
        let tcp_addr = tcp.local_addr().unwrap();
        let [a, b] = <[UdpSocket; 2]>::try_from(udp).unwrap();
        let mut inherited = passed([a.into(), tcp.into(), b.into()]);
        assert!(inherited.take(&on(Protocol::Udp, tcp_addr)).is_empty());
        assert!(inherited.take(&on(Protocol::Tcp, udp_addr)).is_empty());
        assert_eq!(inherited.take(&on(Protocol::Udp, udp_addr)).len(), 2);
        assert!(inherited.take(&on(Protocol::Udp, udp_addr)).is_empty());
        assert_eq!(inherited.take(&on(Protocol::Tls, tcp_addr)).len(), 1);
        assert_eq!(inherited.unmatched().count(), 0);
    }

    #[test]
    fn a_socket_on_all_of_ipv6_stands_for_all_of_ipv4() {
        let Ok(tcp) = tcp_listener(at("tcp://[::]:0")) else {
            return; // A machine without IPv6.
        };
        let port = tcp.local_addr().unwrap().port();
        let only_v6 = Socket::new(socket2::Domain::IPV6, Type::DGRAM, None).unwrap();
        only_v6.set_only_v6(true).unwrap();
        only_v6
            .bind(&"[::]:0".parse::<SocketAddr>().unwrap().into())
            .unwrap();
        let v6_port = local_addr(&only_v6).unwrap().port();
        let mut inherited = passed([tcp.into(), only_v6.into()]);
        assert!(
            inherited
                .take(&at(&format!("udp://0.0.0.0:{v6_port}")))
                .is_empty()
        );
        assert!(
            inherited
                .take(&at(&format!("tcp://127.0.0.1:{port}")))
                .is_empty()
        );
        assert_eq!(
            inherited.take(&at(&format!("tcp://0.0.0.0:{port}"))).len(),
            1
        );
        assert_eq!(
            inherited.take(&at(&format!("udp://[::]:{v6_port}"))).len(),
            1
        );
    }

    #[test]
    fn what_nobody_asked_for_is_named_and_stays_open() {
        let tcp = tcp_listener(at("tcp://127.0.0.1:0")).unwrap();
        let addr = tcp.local_addr().unwrap();
        let client = std::net::TcpStream::connect(addr).unwrap();
        let file = File::open("/dev/null").unwrap();
        let unix = std::os::unix::net::UnixDatagram::unbound().unwrap();
        let inherited = passed([tcp.into(), file.into(), unix.into(), client.into()]);
        let said: Vec<String> = inherited.unmatched().collect();
        assert!(
            said[0].ends_with(&format!("(`door`), a stream socket on {addr}")),
            "{said:?}"
        );
        assert!(said[1].ends_with(", which is no socket"), "{said:?}");
        assert!(
            said[2].ends_with("a datagram socket without an IP address"),
            "{said:?}"
        );
        std::net::TcpStream::connect(addr).unwrap();
    }

    #[test]
    fn a_connection_is_no_listener() {
        let tcp = tcp_listener(at("tcp://127.0.0.1:0")).unwrap();
        let client = std::net::TcpStream::connect(tcp.local_addr().unwrap()).unwrap();
        let addr = client.local_addr().unwrap();
        assert!(
            passed([client.into()])
                .take(&on(Protocol::Tcp, addr))
                .is_empty()
        );
    }

    #[test]
    fn an_environment_that_is_not_ours_passes_nothing() {
        assert_eq!(InheritedSockets::from_environment().unmatched().count(), 0);
    }
}
