//! One accepted connection: PROXY header, TLS handshake, then plain bytes into the batch's arena.
//!
//! A connection is driven by edge-triggered readiness: [`Connection::read`] is called until it
//! says [`StreamRead::Blocked`]. It never blocks and never allocates while data flows; an idle
//! plain connection holds no buffer at all.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use inrush_event::Protocol;
use mio::event::Source;
use mio::net::TcpStream;
use rustls::ServerConnection;

use crate::config::ProxyHeader;
use crate::proxy;
use crate::refusal::{self, Refusal};
use crate::socket::PeerSocket;
use crate::tls::{HTTP2, ServerTls};
#[cfg(feature = "simulation")]
use crate::virtual_socket::VirtualSocket;

/// Bytes of ciphertext read at once. Sixteen TLS records of the largest size.
pub const CIPHER_READ_BYTES: usize = 256 * 1024;

/// Reason for which a connection was refused or ended early: the label of its counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum EndReason {
    /// The listener has its fill of connections.
    TooMany,
    /// The address has its share of the connections.
    OfAddress,
    /// The descriptors that connections may have are used up.
    NoDescriptors,
    /// The peer may not send PROXY headers.
    UntrustedProxy,
    /// No PROXY header where one is required, or a broken one.
    BadProxyHeader,
    /// The PROXY header or the TLS handshake took too long.
    HandshakeTimeout,
    /// The TLS handshake failed, or a record was broken.
    Tls,
    /// The peer speaks TLS where plain text is expected.
    TlsOnPlain,
    /// The peer speaks HTTP.
    HttpOnSyslog,
    /// Nothing came for the configured idle timeout.
    IdleTimeout,
    /// The peer reset the connection, or the network failed.
    Reset,
    /// The peer's bytes are no RELP frame.
    RelpFrame,
    /// A RELP frame that has no place in its session, such as a message before `open`.
    RelpProtocol,
    /// The peer finished inside a RELP frame, which was not answered.
    RelpCutShort,
    /// Closed before the last RELP messages could be answered.
    RelpUnanswered,
    /// The peer's bytes are no request of HTTP, or one that could be read in two ways.
    HttpRequest,
    /// A request of HTTP whose bytes did not come in time.
    HttpSlow,
    /// The peer finished inside a request of HTTP, which was not answered.
    HttpCutShort,
    /// A connection that is answered, and whose unfinished frame or unread answers stood longest
    /// when the memory for those of all connections was used up.
    Memory,
}

impl EndReason {
    /// Every reason, in order.
    pub const ALL: &'static [Self] = &[
        Self::TooMany,
        Self::OfAddress,
        Self::NoDescriptors,
        Self::UntrustedProxy,
        Self::BadProxyHeader,
        Self::HandshakeTimeout,
        Self::Tls,
        Self::TlsOnPlain,
        Self::HttpOnSyslog,
        Self::IdleTimeout,
        Self::Reset,
        Self::RelpFrame,
        Self::RelpProtocol,
        Self::RelpCutShort,
        Self::RelpUnanswered,
        Self::HttpRequest,
        Self::HttpSlow,
        Self::HttpCutShort,
        Self::Memory,
    ];

    /// The label in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooMany => "too_many_connections",
            Self::OfAddress => "too_many_of_address",
            Self::NoDescriptors => "no_descriptors",
            Self::UntrustedProxy => "untrusted_proxy",
            Self::BadProxyHeader => "bad_proxy_header",
            Self::HandshakeTimeout => "handshake_timeout",
            Self::Tls => "tls",
            Self::TlsOnPlain => "tls_on_plain_port",
            Self::HttpOnSyslog => "http_on_syslog_port",
            Self::IdleTimeout => "idle_timeout",
            Self::Reset => "reset",
            Self::RelpFrame => "bad_relp_frame",
            Self::RelpProtocol => "relp_protocol",
            Self::RelpCutShort => "relp_cut_short",
            Self::RelpUnanswered => "relp_unanswered",
            Self::HttpRequest => "bad_http_request",
            Self::HttpSlow => "slow_http_request",
            Self::HttpCutShort => "http_cut_short",
            Self::Memory => "memory",
        }
    }
}

/// Result of one [`Connection::read`].
#[derive(Debug)]
pub enum StreamRead {
    /// This many bytes were written to the start of the space; there may be more.
    Data(usize),
    /// This many bytes, and the socket is drained: wait for readiness.
    Drained(usize),
    /// Nothing now: wait for readiness.
    Blocked,
    /// The peer has finished, in good order.
    Closed,
    /// The connection is of no more use.
    Failed(EndReason),
}

/// Bytes of what a peer of TLS sent first that are kept, to tell what it was if it was no TLS.
const FIRST_BYTES: usize = 32;

/// State that a TLS session has come to.
#[derive(Default)]
struct TlsSession {
    /// It has ended, perhaps after bytes that are still good: they go first, then the end.
    end: Option<TlsEnd>,
    /// Error that broke it, if any.
    fault: Option<rustls::Error>,
    /// Bytes that the peer sent first, while the handshake goes on.
    first: Vec<u8>,
    /// True if what was decrypted last may have had no room as a whole.
    has_more: bool,
}

/// End of a TLS session.
#[derive(Clone, Copy)]
enum TlsEnd {
    /// By close_notify.
    Clean,
    /// By a record or message that is no TLS.
    Broken,
}

impl TlsEnd {
    fn read(self) -> StreamRead {
        match self {
            Self::Clean => StreamRead::Closed,
            Self::Broken => StreamRead::Failed(EndReason::Tls),
        }
    }
}

enum ConnectionStage {
    Proxy,
    Handshake,
    Open,
}

/// An accepted TCP or TLS connection.
pub struct Connection {
    socket: PeerSocket,
    protocol: Protocol,
    tls: Option<Box<ServerConnection>>,
    session: TlsSession,
    stage: ConnectionStage,
    /// True if anything came that was not PROXY header or TLS.
    begun: bool,
    /// Bytes that came in another protocol than ours.
    foreign_bytes: u64,
    /// Reason for which it was turned away, and what is particular about that.
    refusal: Option<Box<(Refusal, String)>>,
    peer: IpAddr,
    local_port: u16,
    deadline: Option<Instant>,
    /// True if the peer is no proxy, and may not send a header of one.
    is_no_proxy: bool,
    /// The listener's TLS, until the handshake is done.
    server: Option<Arc<ServerTls>>,
    /// The name in the client's certificate, once that was verified.
    client: Option<Arc<str>>,
}

/// Requirements that a new connection has to meet before its data counts.
pub struct AcceptOptions {
    /// Protocol of the listener.
    pub protocol: Protocol,
    /// The TLS of a `tls://` or `relps://` listener.
    pub tls: Option<Arc<ServerTls>>,
    /// PROXY header to expect in the first bytes.
    pub proxy: ProxyHeader,
    /// Deadline of PROXY header and handshake.
    pub deadline: Instant,
}

impl Connection {
    /// Takes over an accepted, non-blocking socket.
    ///
    /// # Errors
    /// If the TLS configuration is unusable or the socket has no local address any more.
    pub fn new(socket: TcpStream, peer: SocketAddr, opening: AcceptOptions) -> io::Result<Self> {
        let local_port = socket.local_addr()?.port();
        if opening.protocol.is_answered() {
            // Answers are small, and a sender whose window is full waits for each of them.
            socket.set_nodelay(true)?;
        }
        let tls = match &opening.tls {
            Some(server) => Some(Box::new(
                ServerConnection::new(server.config()).map_err(io::Error::other)?,
            )),
            None => None,
        };
        let stage = match (opening.proxy, &tls) {
            (ProxyHeader::Required, _) => ConnectionStage::Proxy,
            (_, Some(_)) => ConnectionStage::Handshake,
            (_, None) => ConnectionStage::Open,
        };
        let deadline = (!matches!(stage, ConnectionStage::Open)).then_some(opening.deadline);
        let peer = peer.ip().to_canonical();
        Ok(Self {
            socket: PeerSocket::Tcp(socket),
            protocol: opening.protocol,
            tls,
            session: TlsSession::default(),
            stage,
            begun: false,
            foreign_bytes: 0,
            refusal: None,
            peer,
            local_port,
            deadline,
            is_no_proxy: opening.proxy == ProxyHeader::Forbidden,
            server: opening.tls,
            client: None,
        })
    }

    /// A connection of a simulation: plain HTTP of `peer`.
    #[cfg(feature = "simulation")]
    pub fn simulated(socket: VirtualSocket, peer: IpAddr) -> Self {
        Self {
            socket: PeerSocket::Virtual(socket),
            protocol: Protocol::Http,
            tls: None,
            session: TlsSession::default(),
            stage: ConnectionStage::Open,
            begun: false,
            foreign_bytes: 0,
            refusal: None,
            peer,
            local_port: 8088,
            deadline: None,
            is_no_proxy: true,
            server: None,
            client: None,
        }
    }

    /// The name in the client's certificate, once that was verified; `None` for a client that
    /// showed none.
    pub fn client(&self) -> Option<&Arc<str>> {
        self.client.as_ref()
    }

    /// True if the handshake has chosen HTTP/2.
    pub fn is_http2(&self) -> bool {
        let tls = self.tls.as_ref();
        tls.is_some_and(|tls| tls.alpn_protocol() == Some(HTTP2))
    }

    /// The sender's address: the one in the PROXY header once that is read.
    pub fn peer(&self) -> IpAddr {
        self.peer
    }

    /// True if the sender is known: no PROXY header is to come.
    pub fn is_named(&self) -> bool {
        !matches!(self.stage, ConnectionStage::Proxy)
    }

    /// Reads the PROXY header. `Data(0)` once it is read, or where there is none to come.
    pub fn read_name(&mut self) -> StreamRead {
        match self.stage {
            ConnectionStage::Proxy => self.read_proxy_header(),
            ConnectionStage::Handshake | ConnectionStage::Open => StreamRead::Data(0),
        }
    }

    /// Our port.
    pub fn local_port(&self) -> u16 {
        self.local_port
    }

    /// Protocol that it carries.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// True if header and handshake are overdue at `now`.
    pub fn overdue(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline)
    }

    /// The socket, to register it for readiness.
    pub fn socket_mut(&mut self) -> &mut impl Source {
        &mut self.socket
    }

    /// Reads into `space`. `cipher` is scratch of [`CIPHER_READ_BYTES`] that all connections of a
    /// worker share; what has no room in `space` comes with the next read.
    pub fn read(&mut self, space: &mut [u8], cipher: &mut [u8]) -> StreamRead {
        if matches!(self.stage, ConnectionStage::Proxy) {
            match self.read_proxy_header() {
                StreamRead::Data(_) => {}
                other => return other,
            }
        }
        if self.tls.is_some() {
            return self.read_session(space, cipher);
        }
        match read_plain(&mut self.socket, space) {
            StreamRead::Data(n) | StreamRead::Drained(n)
                if !self.begun && self.is_foreign(&space[..n]) =>
            {
                let reason = self.refusal.as_ref().map(|refusal| refusal.0.reason());
                StreamRead::Failed(reason.unwrap_or(EndReason::Reset))
            }
            outcome => outcome,
        }
    }

    /// True if the first bytes of the peer are TLS or HTTP, which no syslog sender speaks here, or
    /// the header of a proxy that it is not.
    fn is_foreign(&mut self, bytes: &[u8]) -> bool {
        self.begun = true;
        let refusal = if refusal::begins_tls(bytes) {
            Refusal::TlsOnPlain
        } else if !self.protocol.is_http() && refusal::begins_http(bytes) {
            Refusal::Http
        } else if self.is_no_proxy && proxy::is_header(bytes) {
            Refusal::UntrustedProxy
        } else {
            return false;
        };
        self.foreign_bytes = bytes.len() as u64;
        self.refuse(refusal, String::new());
        true
    }

    /// Reason for which the connection's first bytes were no events, and their number. Once.
    pub fn take_foreign(&mut self) -> Option<(EndReason, u64)> {
        let reason = self.refusal.as_ref()?.0.reason();
        let bytes = std::mem::take(&mut self.foreign_bytes);
        (bytes > 0).then_some((reason, bytes))
    }

    fn read_session(&mut self, space: &mut [u8], cipher: &mut [u8]) -> StreamRead {
        let Some(tls) = &mut self.tls else {
            return StreamRead::Closed;
        };
        if std::mem::take(&mut self.session.has_more) {
            let filled = drain(tls, space);
            self.session.has_more = filled == space.len();
            if filled > 0 {
                return StreamRead::Data(filled);
            }
        }
        if let Some(end) = self.session.end {
            return end.read();
        }
        let outcome = read_tls(tls, &mut self.socket, space, cipher, &mut self.session);
        let is_done = !tls.is_handshaking();
        if is_done && let Some(server) = self.server.take() {
            // A session that was resumed has the certificate of the first one.
            let shown = tls.peer_certificates().and_then(<[_]>::first);
            self.client = shown.and_then(|shown| server.client(shown));
        }
        if let Some(fault) = self.session.fault.take() {
            let (refusal, detail) = refusal::of_tls(&fault, &self.session.first);
            if refusal == Refusal::ProxyOnTls && self.is_no_proxy {
                self.refuse(Refusal::UntrustedProxy, detail);
                return StreamRead::Failed(EndReason::UntrustedProxy);
            }
            self.refuse(refusal, detail);
        }
        if !matches!(self.stage, ConnectionStage::Handshake) {
            return outcome;
        }
        if is_done {
            self.stage = ConnectionStage::Open;
            self.deadline = None;
            self.session.first = Vec::new();
            return outcome;
        }
        match outcome {
            // A probe that opens and closes says nothing; who said something gave up on it.
            StreamRead::Closed | StreamRead::Failed(EndReason::Reset)
                if !self.session.first.is_empty() =>
            {
                self.refuse(Refusal::Cut, String::new());
                StreamRead::Failed(EndReason::Tls)
            }
            outcome => outcome,
        }
    }

    fn refuse(&mut self, refusal: Refusal, detail: String) {
        if self.refusal.is_none() {
            self.refusal = Some(Box::new((refusal, detail)));
        }
    }

    /// Reason for which a connection that ended for `reason` was turned away, and what is
    /// particular about it; `None` if it was not.
    pub fn refusal(&mut self, reason: EndReason) -> Option<(Refusal, String)> {
        let by_reason = match reason {
            EndReason::HandshakeTimeout => Some(Refusal::Slow),
            EndReason::BadProxyHeader => Some(Refusal::BrokenProxyHeader),
            EndReason::OfAddress => Some(Refusal::OfAddress),
            EndReason::RelpFrame => Some(Refusal::RelpFrame),
            EndReason::RelpProtocol => Some(Refusal::RelpProtocol),
            _ => None,
        };
        let known = self.refusal.take().map(|known| *known);
        known.or_else(|| by_reason.map(|refusal| (refusal, String::new())))
    }

    /// Writes the start of `bytes`, as much as there is room for without waiting; says how much
    /// that was. After less than all, readiness says when there is room again. Also sends what
    /// TLS had left from before, so that it is of use without bytes.
    ///
    /// # Errors
    /// The connection is of no more use.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, EndReason> {
        let Some(tls) = &mut self.tls else {
            return write_plain(&mut self.socket, bytes);
        };
        let mut written = 0;
        loop {
            flush(tls, &mut self.socket).map_err(|_| EndReason::Reset)?;
            // Once the kernel has no room, TLS is not to pile up records either.
            if written == bytes.len() || tls.wants_write() {
                return Ok(written);
            }
            written += tls
                .writer()
                .write(&bytes[written..])
                .map_err(|_| EndReason::Tls)?;
        }
    }

    /// True if all that was written is with the kernel.
    pub fn is_flushed(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| !tls.wants_write())
    }

    /// Says that we write no more, under TLS by close_notify first. Until the peer closes too, what
    /// it still sends is for [`Self::discard`]: a close before would take its answers away.
    pub fn finish(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            // That the peer is gone changes nothing now.
            let _ = flush(tls, &mut self.socket);
        }
        self.socket.shut_down();
    }

    /// Reads and forgets what the peer still sends, after [`Self::finish`]. Nothing is decrypted.
    pub fn discard(&mut self, scratch: &mut [u8]) -> StreamRead {
        read_plain(&mut self.socket, scratch)
    }

    /// `Data(0)` once the header is read and taken off the stream.
    fn read_proxy_header(&mut self) -> StreamRead {
        let mut buffer = [0u8; proxy::HEADER_BYTES_MAX];
        let seen = match self.socket.peek(&mut buffer) {
            Ok(0) => return StreamRead::Closed,
            Ok(n) => n,
            Err(error) => return failed(&error),
        };
        match proxy::parse(&buffer[..seen]) {
            proxy::ProxyParse::NeedMore => StreamRead::Blocked,
            proxy::ProxyParse::NotProxy => {
                self.refuse(Refusal::NoProxyHeader, String::new());
                StreamRead::Failed(EndReason::BadProxyHeader)
            }
            proxy::ProxyParse::Bad => StreamRead::Failed(EndReason::BadProxyHeader),
            proxy::ProxyParse::Header { consumed, source } => {
                if self.socket.read_exact(&mut buffer[..consumed]).is_err() {
                    return StreamRead::Failed(EndReason::Reset);
                }
                if let Some(source) = source {
                    self.peer = source.ip().to_canonical();
                }
                self.stage = if self.tls.is_some() {
                    ConnectionStage::Handshake
                } else {
                    ConnectionStage::Open
                };
                self.deadline = self.deadline.filter(|_| self.tls.is_some());
                StreamRead::Data(0)
            }
        }
    }
}

/// A short read of a stream socket means that it is drained (epoll(7)), which saves the call that
/// would only say so.
fn read_plain(socket: &mut PeerSocket, space: &mut [u8]) -> StreamRead {
    match socket.read(space) {
        Ok(0) => StreamRead::Closed,
        Ok(n) if n < space.len() => StreamRead::Drained(n),
        Ok(n) => StreamRead::Data(n),
        Err(error) => failed(&error),
    }
}

fn write_plain(socket: &mut PeerSocket, bytes: &[u8]) -> Result<usize, EndReason> {
    let mut written = 0;
    while written < bytes.len() {
        match socket.write(&bytes[written..]) {
            Ok(n) => written += n,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(EndReason::Reset),
        }
    }
    Ok(written)
}

fn failed(error: &io::Error) -> StreamRead {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => StreamRead::Blocked,
        _ => StreamRead::Failed(EndReason::Reset),
    }
}

/// Reads one piece of ciphertext, no longer than `space`, and decrypts all of it. Plaintext is
/// shorter than its ciphertext: what has no room is less than a record, begun by an earlier piece.
fn read_tls(
    tls: &mut ServerConnection,
    socket: &mut PeerSocket,
    space: &mut [u8],
    cipher: &mut [u8],
    session: &mut TlsSession,
) -> StreamRead {
    let piece = cipher.len().min(space.len());
    let n = match socket.read(&mut cipher[..piece]) {
        // A peer that goes without close_notify is no error here: syslog frames tell themselves
        // whether they are whole.
        Ok(0) => return StreamRead::Closed,
        Ok(n) => n,
        Err(error) => {
            return match (failed(&error), flush(tls, socket)) {
                (StreamRead::Blocked, Err(_)) => StreamRead::Failed(EndReason::Reset),
                (outcome, _) => outcome,
            };
        }
    };
    if tls.is_handshaking() && session.first.is_empty() {
        session.first = cipher[..n.min(FIRST_BYTES)].to_vec();
    }
    let mut rest = &cipher[..n];
    let mut filled = 0;
    while !rest.is_empty() && session.end.is_none() {
        let before = rest.len();
        let fed = tls.read_tls(&mut rest).is_ok() && rest.len() < before;
        session.end = match tls.process_new_packets() {
            Ok(state) if fed && state.peer_has_closed() => Some(TlsEnd::Clean),
            Ok(_) if fed => None,
            Ok(_) => Some(TlsEnd::Broken),
            Err(error) => {
                session.fault = Some(error);
                Some(TlsEnd::Broken)
            }
        };
        // An alert that says why goes out even when the packets were bad. That the peer no longer
        // reads does not make what it has sent any worse.
        let _ = flush(tls, socket);
        filled += drain(tls, &mut space[filled..]);
    }
    session.has_more = filled == space.len();
    match (session.end, filled) {
        (Some(end), 0) => end.read(),
        (None, filled) if n < piece && !session.has_more => StreamRead::Drained(filled),
        (_, filled) => StreamRead::Data(filled),
    }
}

/// Moves the decrypted bytes out.
fn drain(tls: &mut ServerConnection, space: &mut [u8]) -> usize {
    let mut filled = 0;
    // An error here is "would block" or an end without close_notify: nothing more to move.
    while let Ok(n @ 1..) = tls.reader().read(&mut space[filled..]) {
        filled += n;
    }
    filled
}

/// Sends what TLS wants to send: handshake flights, alerts, key updates. What the socket does not
/// take now goes with the next readiness.
fn flush(tls: &mut ServerConnection, socket: &mut PeerSocket) -> io::Result<()> {
    while tls.wants_write() {
        match tls.write_tls(socket) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
