//! Senders: the bytes that the test wrote, and nothing else.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};

use crate::DEADLINE;

/// An RFC 5424 message whose text and MSGID carry `n`.
pub fn numbered(n: usize) -> String {
    format!("<134>1 2026-03-04T05:06:07.089Z fw1 tests 42 ID{n} - number {n}")
}

/// [`numbered`] messages with their line ends, in one piece.
pub fn lines(numbers: std::ops::Range<usize>) -> String {
    numbers.map(|n| numbered(n) + "\n").collect()
}

/// Each message as a datagram of its own, from one socket.
pub fn send_udp<M: AsRef<[u8]>>(to: SocketAddr, messages: impl IntoIterator<Item = M>) {
    let own = if to.is_ipv6() {
        "[::1]:0"
    } else {
        "127.0.0.1:0"
    };
    let socket = UdpSocket::bind(own).unwrap();
    for message in messages {
        socket.send_to(message.as_ref(), to).unwrap();
    }
}

/// A TCP connection to a listener.
pub struct Tcp(pub TcpStream);

impl Tcp {
    pub fn connect(to: SocketAddr) -> Self {
        Self::of(TcpStream::connect(to).unwrap())
    }

    /// Connects from another address of this host.
    pub fn connect_from(from: IpAddr, to: SocketAddr) -> Self {
        use socket2::{Domain, Socket, Type};
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::new(from, 0).into()).unwrap();
        socket.connect(&to.into()).unwrap();
        Self::of(socket.into())
    }

    fn of(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        Self(stream)
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.0.write_all(bytes.as_ref()).unwrap();
        self
    }

    /// Sends as far as somebody reads; for a thread that a test leaves behind.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.0.write_all(bytes.as_ref());
    }

    /// Reads until the other side has closed; true if it did so in time, in order or by reset.
    pub fn is_closed_by_peer(&mut self) -> bool {
        use std::io::ErrorKind::{ConnectionReset, TimedOut, WouldBlock};
        match self.0.read(&mut [0; 1024]) {
            Ok(n) => n == 0,
            Err(e) if matches!(e.kind(), WouldBlock | TimedOut) => false,
            Err(e) => e.kind() == ConnectionReset,
        }
    }

    /// Whether the other side has closed or reset the connection up to now, without waiting.
    pub fn is_open(&self) -> bool {
        self.0.set_nonblocking(true).unwrap();
        let peeked = self.0.peek(&mut [0; 1]);
        self.0.set_nonblocking(false).unwrap();
        matches!(peeked, Err(e) if e.kind() == std::io::ErrorKind::WouldBlock)
    }
}
