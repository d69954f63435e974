//! Listening sockets of TCP and UDP: opened, bound, and their kernel buffers raised.
//!
//! # What it guarantees
//! * Sockets are non-blocking and close on exec. The address `[::]` accepts IPv4 too.
//! * A second `inrush` cannot bind the same UDP address and so take a share of the datagrams.
//! * [`BindError`] names the address, the kernel's error and, for common errors, a remedy.
//!
//! # Limits
//! At most [`ACCEPT_BACKLOG`] connections wait for acceptance. A silent peer gets
//! `KEEPALIVE_PROBES` probes, each `KEEPALIVE_INTERVAL` apart. [`udp_sockets_to_merge`] blocks
//! until the kernel stamps datagrams, for about twice `STAMPS_WITHIN` at most.
//!
//! # After a crash
//! The kernel closes the sockets and discards unread datagrams and connections not yet accepted.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, TimestampingFlag, Timestamps, getsockopt, recvmsg, setsockopt,
    sockopt,
};
use socket2::{Domain, SockRef, Socket, TcpKeepalive, Type};

use crate::config::ListenAddr;

/// Connections that may wait to be accepted. Clipped by `net.core.somaxconn`, which is 4096 on
/// current kernels: what is beyond has its SYN dropped, and comes again a second later.
pub const ACCEPT_BACKLOG: i32 = 4096;

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
    /// Error of the kernel.
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
        socket.listen(ACCEPT_BACKLOG)?;
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

/// Opens `groups` times `each` sockets on a `udp://` address, for
/// [`crate::udp::UdpReceiver::new`]: a sender's datagrams go to any socket of one group, chosen
/// by its address and port, and each has the kernel's stamp.
///
/// # Errors
/// As [`udp_sockets`]; or this kernel does not stamp, or cannot choose so.
pub fn udp_sockets_to_merge(
    listen: ListenAddr,
    groups: usize,
    each: usize,
) -> Result<Vec<UdpSocket>, BindError> {
    let failed = |source| BindError { listen, source };
    let _stamps = await_stamps().map_err(failed)?;
    let sockets = udp_sockets(listen, groups * each)?;
    let prepare = || {
        for socket in &sockets {
            setsockopt(socket, sockopt::Timestamping, &STAMPS)?;
        }
        spread(&sockets[0], groups as u32, each as u32)
    };
    prepare().map_err(failed)?;
    Ok(sockets)
}

/// The kernel's own stamps, of what is received.
const STAMPS: TimestampingFlag = TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
    .union(TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE);

/// Has the kernel begin to stamp, which takes it a moment, and waits until it does. It goes on
/// while there is a socket that wants it, as the one that is given.
fn await_stamps() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(socket.local_addr()?)?;
    socket.set_read_timeout(Some(STAMPS_WITHIN))?;
    setsockopt(&socket, sockopt::Timestamping, &STAMPS)?;
    let begun = Instant::now();
    let mut control = nix::cmsg_space!(Timestamps);
    while begun.elapsed() < STAMPS_WITHIN {
        socket.send(b"when?")?;
        let mut bytes = [0; 8];
        let mut vector = [io::IoSliceMut::new(&mut bytes)];
        let fd = socket.as_raw_fd();
        let message = recvmsg::<()>(fd, &mut vector, Some(&mut control), MsgFlags::empty())?;
        let stamped = message
            .cmsgs()?
            .any(|cmsg| matches!(cmsg, ControlMessageOwned::ScmTimestampsns(_)));
        if stamped {
            return Ok(socket);
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// Longest time that a kernel may take until it stamps.
const STAMPS_WITHIN: Duration = Duration::from_millis(200);

/// Has the kernel give each datagram to any of the `count` sockets that share an address, whoever
/// sent it. `socket` is one of them; the choice holds for all.
///
/// # Errors
/// `setsockopt(2)`: the kernel is older than 4.5, or the sockets do not share an address.
pub fn spread_randomly(socket: &impl AsFd, count: u32) -> io::Result<()> {
    spread(socket, 1, count)
}

/// Has the kernel give each datagram to any of `each` sockets of one of `groups`, which its
/// sender's address and port decide.
fn spread(socket: &impl AsFd, groups: u32, each: u32) -> io::Result<()> {
    use libc::{
        BPF_A, BPF_ABS, BPF_ADD, BPF_ALU, BPF_B, BPF_H, BPF_IMM, BPF_JA, BPF_JEQ, BPF_JMP, BPF_K,
        BPF_LD, BPF_LDX, BPF_MOD, BPF_MUL, BPF_RET, BPF_RSH, BPF_W, BPF_X, BPF_XOR,
    };
    // BPF_MISC | BPF_TAX of linux/bpf_common.h.
    const A_TO_X: libc::c_uint = 0x07;
    let header = |offset: i32| (libc::SKF_NET_OFF + offset) as u32;
    let random = (libc::SKF_AD_OFF + libc::SKF_AD_RANDOM) as u32;
    let one = instruction;
    // Where there are options or extension headers, their bytes stand for the port.
    let group = [
        one(BPF_LD | BPF_B | BPF_ABS, header(0)),
        one(BPF_ALU | BPF_RSH | BPF_K, 4),
        jump(BPF_JMP | BPF_JEQ | BPF_K, 6, 4),
        // IPv4: the port to X, the address to A.
        one(BPF_LD | BPF_H | BPF_ABS, header(20)),
        one(A_TO_X, 0),
        one(BPF_LD | BPF_W | BPF_ABS, header(12)),
        one(BPF_JMP | BPF_JA, 3),
        // IPv6: the same, of the address its last quarter.
        one(BPF_LD | BPF_H | BPF_ABS, header(40)),
        one(A_TO_X, 0),
        one(BPF_LD | BPF_W | BPF_ABS, header(20)),
        // Both: mixed as in a multiplicative hash, whose upper half is the better one.
        one(BPF_ALU | BPF_MUL | BPF_K, 0x9E37_79B1),
        one(BPF_ALU | BPF_XOR | BPF_X, 0),
        one(BPF_ALU | BPF_MUL | BPF_K, 0x85EB_CA6B),
        one(BPF_ALU | BPF_RSH | BPF_K, 16),
        one(BPF_ALU | BPF_MOD | BPF_K, groups),
        one(BPF_ALU | BPF_MUL | BPF_K, each),
        one(A_TO_X, 0),
    ];
    let no_group = [one(BPF_LDX | BPF_IMM, 0)];
    let member = [
        one(BPF_LD | BPF_W | BPF_ABS, random),
        one(BPF_ALU | BPF_MOD | BPF_K, each),
        one(BPF_ALU | BPF_ADD | BPF_X, 0),
        one(BPF_RET | BPF_A, 0),
    ];
    let group: &[_] = if groups > 1 { &group } else { &no_group };
    let mut program = [group, &member].concat();
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

/// One that skips the next `skip` if the accumulator is as `k` says.
fn jump(code: libc::c_uint, k: u32, skip: u8) -> libc::sock_filter {
    libc::sock_filter {
        jt: skip,
        ..instruction(code, k)
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
    let before_bytes = granted()?;
    set_receive_buffer(socket, wanted_bytes)?;
    if granted()? < before_bytes {
        set_receive_buffer(socket, before_bytes)?;
    }
    granted()
}

/// Sets it: as root or with `CAP_NET_ADMIN` past `net.core.rmem_max`, otherwise up to it.
pub(crate) fn set_receive_buffer(socket: &impl AsFd, bytes: usize) -> io::Result<()> {
    let forced = setsockopt(socket, sockopt::RcvBufForce, &bytes);
    Ok(forced.or_else(|_| setsockopt(socket, sockopt::RcvBuf, &bytes))?)
}

/// Bytes that [`raise_receive_buffer`] would get, or all of `wanted_bytes` where there is no
/// telling.
pub fn receive_buffer_bound(wanted_bytes: usize) -> usize {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)
        .or_else(|_| Socket::new(Domain::IPV6, Type::DGRAM, None));
    let granted = socket.and_then(|socket| raise_receive_buffer(&socket, wanted_bytes));
    granted.unwrap_or(wanted_bytes)
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
