//! Sockets to listen on: opened, bound, and their kernel buffers raised.
//!
//! All sockets come non-blocking and closed on exec. An address that starts with `[::]` takes
//! IPv4 too. Where an address cannot be had, [`BindError`] says what to do about it.

use std::io;
use std::net::{Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use socket2::{Domain, SockRef, Socket, TcpKeepalive, Type};

use crate::config::ListenAddr;

/// Connections that may wait to be accepted. Clipped by `net.core.somaxconn`, which is 4096 on
/// current kernels: what is beyond has its SYN dropped, and comes again a second later.
const BACKLOG: i32 = 4096;

/// Keep-alive probes unanswered before the peer is given up.
const KEEPALIVE_PROBES: u32 = 5;

/// Time between keep-alive probes once they have begun.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// An address that could not be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {listen}: {source}{}", remedy(*listen, source))]
pub struct BindError {
    /// The address.
    pub listen: ListenAddr,
    /// What the kernel said.
    pub source: io::Error,
}

fn remedy(listen: ListenAddr, error: &io::Error) -> String {
    let port = listen.addr.port();
    match error.kind() {
        io::ErrorKind::PermissionDenied if port < 1024 => format!(
            "; port {port} needs root or CAP_NET_BIND_SERVICE: grant it, have systemd open the \
             socket, or listen above 1023"
        ),
        io::ErrorKind::AddrInUse => {
            format!("; another process has it: `ss -lnptu 'sport = :{port}'` shows which")
        }
        io::ErrorKind::AddrNotAvailable => {
            "; no interface has this address: 0.0.0.0 or [::] stands for all".to_owned()
        }
        _ if error.raw_os_error() == Some(libc::EAFNOSUPPORT) && listen.addr.is_ipv6() => {
            "; this kernel has no IPv6: listen on 0.0.0.0".to_owned()
        }
        _ => String::new(),
    }
}

/// Opens the listener of a `tcp://` or `tls://` address.
///
/// # Errors
/// The address is taken, not ours, or not permitted.
pub fn tcp_listener(listen: ListenAddr) -> Result<TcpListener, BindError> {
    let open = || {
        let socket = open(listen.addr, Type::STREAM)?;
        // So that a restart need not wait for the old connections' TIME_WAIT to pass.
        socket.set_reuse_address(true)?;
        socket.bind(&listen.addr.into())?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    };
    open().map_err(|source| BindError { listen, source })
}

/// Opens `count` sockets on a `udp://` address, at least one.
///
/// Several share the address by `SO_REUSEPORT`. The first binds without it and takes it on
/// afterwards: otherwise a second `inrush` started by mistake would bind too, and silently take
/// half of the datagrams. A free port (0) is chosen once and shared.
///
/// # Errors
/// The address is taken, not ours, or not permitted.
pub fn udp_sockets(listen: ListenAddr, count: usize) -> Result<Vec<UdpSocket>, BindError> {
    let open_all = || {
        let first = open(listen.addr, Type::DGRAM)?;
        first.bind(&listen.addr.into())?;
        let bound = first.local_addr()?;
        let mut sockets = vec![UdpSocket::from(first)];
        for _ in 1..count {
            SockRef::from(&sockets[0]).set_reuse_port(true)?;
            let next = open(listen.addr, Type::DGRAM)?;
            next.set_reuse_port(true)?;
            next.bind(&bound)?;
            sockets.push(next.into());
        }
        Ok(sockets)
    };
    open_all().map_err(|source| BindError { listen, source })
}

/// Has the kernel give each datagram to any of the `count` sockets that share an address, whoever
/// sent it. `socket` is one of them; the choice holds for all.
///
/// # Errors
/// `setsockopt(2)`: the kernel is older than 4.5, or the sockets do not share an address.
pub fn spread_randomly(socket: &impl AsFd, count: u32) -> io::Result<()> {
    let random = (libc::SKF_AD_OFF + libc::SKF_AD_RANDOM) as u32;
    let mut program = [
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, random),
        instruction(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, count),
        instruction(libc::BPF_RET | libc::BPF_A, 0),
    ];
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    Ok(setsockopt(socket, sockopt::AttachReusePortCbpf, &filter)?)
}

/// One instruction of classic BPF.
fn instruction(code: libc::c_uint, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}

/// A non-blocking socket that closes on exec.
fn open(addr: SocketAddr, kind: Type) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), kind, None)?;
    socket.set_nonblocking(true)?;
    if addr.ip() == Ipv6Addr::UNSPECIFIED {
        socket.set_only_v6(false)?;
    }
    Ok(socket)
}

/// Raises a socket's receive buffer towards `wanted_bytes` as far as the kernel allows, and
/// never lowers it. Gives the bytes granted, in the unit of `wanted_bytes` and of
/// `net.core.rmem_max` (`SO_RCVBUF` reads as twice that, for the kernel's own overhead).
///
/// # Errors
/// The kernel knows no such option: `socket` is none.
pub fn raise_receive_buffer(socket: &impl AsFd, wanted_bytes: usize) -> io::Result<usize> {
    let granted = || io::Result::Ok(getsockopt(socket, sockopt::RcvBuf)? / 2);
    // The kernel doubles it in a signed 32-bit number.
    let wanted_bytes = wanted_bytes.min(i32::MAX as usize / 2);
    if granted()? >= wanted_bytes {
        return granted();
    }
    // As root or with CAP_NET_ADMIN, past net.core.rmem_max; otherwise up to it.
    if setsockopt(socket, sockopt::RcvBufForce, &wanted_bytes).is_err() {
        let before_bytes = granted()?;
        setsockopt(socket, sockopt::RcvBuf, &wanted_bytes)?;
        if granted()? < before_bytes {
            setsockopt(socket, sockopt::RcvBuf, &before_bytes)?;
        }
    }
    granted()
}

/// Has the kernel probe a peer that was silent for `idle`, and end the connection when it does
/// not answer; zero turns that off. Set on a listener, its connections inherit it.
///
/// # Errors
/// `socket` is not TCP.
pub fn set_keepalive(socket: &impl AsFd, idle: Duration) -> io::Result<()> {
    let socket = SockRef::from(socket);
    if idle.is_zero() {
        return socket.set_keepalive(false);
    }
    let keepalive = TcpKeepalive::new()
        // The kernel counts in seconds, from 1 to 32767.
        .with_time(idle.clamp(Duration::from_secs(1), Duration::from_secs(32_767)))
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_PROBES);
    socket.set_tcp_keepalive(&keepalive)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::TcpStream;

    use inrush_event::Protocol;
    use nix::poll::{PollFd, PollFlags, poll};

    use super::*;

    #[test]
    fn one_sender_reaches_all_sockets_when_spread_randomly() {
        let sockets = udp_sockets(at("udp://127.0.0.1:0"), 2).unwrap();
        spread_randomly(&sockets[0], 2).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..100 {
            sender
                .send_to(b"x", sockets[0].local_addr().unwrap())
                .unwrap();
        }
        let count =
            |socket: &UdpSocket| std::iter::from_fn(|| socket.recv(&mut [0; 8]).ok()).count();
        let counts: Vec<usize> = sockets.iter().map(count).collect();
        assert_eq!(counts.iter().sum::<usize>(), 100);
        // All on one side has a chance of 2 in 2^100.
        assert!(counts.iter().all(|n| *n > 0), "{counts:?}");
    }

    fn at(text: &str) -> ListenAddr {
        text.parse().unwrap()
    }

    fn on(protocol: Protocol, addr: SocketAddr) -> ListenAddr {
        ListenAddr { protocol, addr }
    }

    #[test]
    fn a_listener_on_all_of_ipv6_takes_ipv4() {
        let Ok(listener) = tcp_listener(at("tcp://[::]:0")) else {
            return; // A machine without IPv6.
        };
        let port = listener.local_addr().unwrap().port();
        listener.set_nonblocking(false).unwrap();
        TcpStream::connect(("127.0.0.1", port)).unwrap();
        assert!(listener.accept().unwrap().1.ip().to_canonical().is_ipv4());
    }

    #[test]
    fn listeners_do_not_block() {
        let listener = tcp_listener(at("tcp://127.0.0.1:0")).unwrap();
        assert_eq!(
            listener.accept().unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        let sockets = udp_sockets(at("udp://127.0.0.1:0"), 1).unwrap();
        assert_eq!(
            sockets[0].recv(&mut [0]).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
    }

    #[test]
    fn sockets_share_an_address_among_themselves_and_with_no_one_else() {
        let sockets = udp_sockets(at("udp://127.0.0.1:0"), 3).unwrap();
        let addr = sockets[0].local_addr().unwrap();
        assert!(sockets.iter().all(|s| s.local_addr().unwrap() == addr) && sockets.len() == 3);
        for count in [1, 3] {
            let error = udp_sockets(on(Protocol::Udp, addr), count).unwrap_err();
            assert!(
                error.to_string().contains("another process has it"),
                "{error}"
            );
        }
    }

    #[test]
    fn shared_sockets_all_receive() {
        let sockets = udp_sockets(at("udp://127.0.0.1:0"), 2).unwrap();
        let addr = sockets[0].local_addr().unwrap();
        // By hash of the sender's port, 64 senders miss one of two sockets once in 2^63 runs.
        for _ in 0..64 {
            UdpSocket::bind("127.0.0.1:0")
                .unwrap()
                .send_to(b"x", addr)
                .unwrap();
        }
        let mut received = [0, 0];
        while received.iter().sum::<usize>() < 64 {
            let mut fds = [0, 1].map(|n| PollFd::new(sockets[n].as_fd(), PollFlags::POLLIN));
            assert_ne!(
                poll(&mut fds, 10_000u16).unwrap(),
                0,
                "{received:?} of 64 came"
            );
            for (socket, n) in sockets.iter().zip(&mut received) {
                *n += std::iter::from_fn(|| socket.recv(&mut [0; 8]).ok()).count();
            }
        }
        assert!(received.iter().all(|n| *n > 0), "{received:?}");
    }

    #[test]
    fn a_failed_bind_says_what_to_do() {
        let holder = tcp_listener(at("tcp://127.0.0.1:0")).unwrap();
        let taken = holder.local_addr().unwrap();
        let said = tcp_listener(on(Protocol::Tls, taken))
            .unwrap_err()
            .to_string();
        assert!(
            said.starts_with(&format!("cannot listen on tls://{taken}: ")),
            "{said}"
        );
        assert!(
            said.contains(&format!("sport = :{}", taken.port())),
            "{said}"
        );
        let said = tcp_listener(at("tcp://192.0.2.1:0"))
            .unwrap_err()
            .to_string();
        assert!(said.contains("no interface has this address"), "{said}");
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        assert!(remedy(at("udp://0.0.0.0:514"), &denied).contains("CAP_NET_BIND_SERVICE"));
        assert_eq!(remedy(at("udp://0.0.0.0:5514"), &denied), "");
    }

    #[test]
    fn the_receive_buffer_is_raised_and_never_lowered() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let before = getsockopt(&socket, sockopt::RcvBuf).unwrap() / 2;
        let granted = raise_receive_buffer(&socket, 64 << 20).unwrap();
        assert!(granted >= before, "{granted} of {before}");
        assert_eq!(granted, getsockopt(&socket, sockopt::RcvBuf).unwrap() / 2);
        assert_eq!(raise_receive_buffer(&socket, 4096).unwrap(), granted);
        raise_receive_buffer(&socket, usize::MAX).unwrap();
    }

    #[test]
    fn accepted_connections_inherit_keepalive() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        set_keepalive(&listener, Duration::from_secs(60)).unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let accepted = listener.accept().unwrap().0;
        assert!(SockRef::from(&accepted).keepalive().unwrap());
        set_keepalive(&accepted, Duration::ZERO).unwrap();
        assert!(!SockRef::from(&accepted).keepalive().unwrap());
    }
}
