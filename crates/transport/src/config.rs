//! The options of listeners: addresses, TLS, UDP sockets and connections.
//!
//! Reading them touches nothing in the world; binding ([`crate::listen`]) and loading
//! certificates ([`crate::tls`]) do. Every option is declared once, here: the parser, the
//! reference page and the JSON Schema all come from these structs.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use inrush_event::{AutoCount, ByteSize, Network, Period, Protocol, limits, text_option};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::peers::PermittedPeer;

/// Transport and address of a listener: `udp://0.0.0.0:5514`, `tcp://[::]:514`,
/// `tls://0.0.0.0:6514`, `relp://0.0.0.0:2514`, or `relps://0.0.0.0:2515` for RELP under TLS from
/// the first byte.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ListenAddr {
    /// The transport.
    pub protocol: Protocol,
    /// The local address; port 0 asks the kernel for a free one.
    pub addr: SocketAddr,
}

/// Reason for which a text is no listen address, with what to write instead.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ListenAddrError {
    /// No `scheme://` in front.
    #[error(
        "`{0}` does not say which transport; \
         write udp://{0}, tcp://{0}, tls://{0}, relp://{0} or relps://{0}"
    )]
    NoScheme(String),
    /// A scheme that is not one of ours.
    #[error(
        "`{scheme}://` is not a transport; use udp://, tcp://, tls://, relp:// or relps://{}",
        nearest(scheme)
    )]
    UnknownScheme {
        /// Text that was written before `://`.
        scheme: String,
    },
    /// A scheme that is no HTTP.
    #[error("`{0}://` is not HTTP; use http:// or https://, or only the address and port")]
    NotHttp(String),
    /// No port, where one could be named.
    #[error("`{0}` has no port; write for example {0}:514")]
    NoPort(String),
    /// A port that is not a number from 0 to 65535.
    #[error("port `{0}` is out of range; a port is a number from 1 to 65535")]
    BadPort(String),
    /// An IPv6 address whose last colon could be the one before the port.
    #[error("put an IPv6 address in brackets, as in {0}://[::]:514")]
    NoBrackets(&'static str),
    /// A host name, an empty host, or rubbish.
    #[error("`{host}` is not an address; give the address to listen on, {hint}")]
    NotAnAddress {
        /// Text that was written where an address belongs.
        host: String,
        /// Addresses to write instead.
        hint: &'static str,
    },
}

fn nearest(scheme: &str) -> String {
    let distance = |p: &Protocol| strsim::damerau_levenshtein(scheme, p.name());
    match PROTOCOLS.iter().min_by_key(|p| distance(p)) {
        Some(p) if distance(p) <= 1 => format!("; did you mean {}://?", p.name()),
        _ => String::new(),
    }
}

const PROTOCOLS: [Protocol; 5] = [
    Protocol::Udp,
    Protocol::Tcp,
    Protocol::Tls,
    Protocol::Relp,
    Protocol::Relps,
];

impl FromStr for ListenAddr {
    type Err = ListenAddrError;

    fn from_str(text: &str) -> Result<Self, ListenAddrError> {
        let text = text.trim();
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| ListenAddrError::NoScheme(text.to_owned()))?;
        let scheme = scheme.to_ascii_lowercase();
        let protocol = PROTOCOLS
            .into_iter()
            .find(|p| p.name() == scheme)
            .ok_or(ListenAddrError::UnknownScheme { scheme })?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let addr = rest.parse().map_err(|_| explain(protocol, rest))?;
        Ok(Self { protocol, addr })
    }
}

/// Finds what is wrong with `rest`, which is known not to be `address:port`.
fn explain(protocol: Protocol, rest: &str) -> ListenAddrError {
    let name = protocol.name();
    if rest.parse::<Ipv4Addr>().is_ok() {
        return ListenAddrError::NoPort(format!("{name}://{rest}"));
    }
    let inside = rest.strip_prefix('[').and_then(|r| r.strip_suffix(']'));
    if inside.is_some_and(|r| r.parse::<Ipv6Addr>().is_ok()) {
        return ListenAddrError::NoPort(format!("{name}://{rest}"));
    }
    let (host, port) = rest.rsplit_once(':').unwrap_or((rest, ""));
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if host == bare && host.contains(':') {
        return ListenAddrError::NoBrackets(name);
    }
    if bare.parse::<IpAddr>().is_ok() {
        return ListenAddrError::BadPort(port.to_owned());
    }
    let hint = match bare {
        "localhost" => "127.0.0.1 or [::1] for this machine only",
        _ => "0.0.0.0 for all of IPv4 or [::] for IPv4 and IPv6; host names are not looked up",
    };
    ListenAddrError::NotAnAddress {
        host: host.to_owned(),
        hint,
    }
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.protocol.name(), self.addr)
    }
}

impl fmt::Debug for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

text_option!(ListenAddr "listen-address" [
    "udp://0.0.0.0:514",
    "tcp://[::]:514",
    "tls://0.0.0.0:6514",
    "relp://0.0.0.0:2514"
]);

/// Addresses of an HTTP server: `0.0.0.0:8088`, or `http://` or `https://` before it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HttpListenAddrs(Vec<HttpListenAddr>);

/// Address of an HTTP server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct HttpListenAddr {
    /// The scheme, if one was written.
    protocol: Option<Protocol>,
    addr: SocketAddr,
}

impl HttpListenAddrs {
    /// The addresses; those without a scheme are HTTPS with `tls`, else HTTP.
    pub fn resolved(&self, tls: bool) -> Vec<ListenAddr> {
        let default = match tls {
            true => Protocol::Https,
            false => Protocol::Http,
        };
        let resolve = |one: &HttpListenAddr| ListenAddr {
            protocol: one.protocol.unwrap_or(default),
            addr: one.addr,
        };
        self.0.iter().map(resolve).collect()
    }
}

impl FromStr for HttpListenAddr {
    type Err = ListenAddrError;

    fn from_str(text: &str) -> Result<Self, ListenAddrError> {
        let text = text.trim();
        let (protocol, rest) = match text.split_once("://") {
            None => (None, text),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => {
                (Some(Protocol::Http), rest)
            }
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => {
                (Some(Protocol::Https), rest)
            }
            Some((scheme, _)) => return Err(ListenAddrError::NotHttp(scheme.to_owned())),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let addr = rest.parse();
        let addr = addr.map_err(|_| explain(protocol.unwrap_or(Protocol::Http), rest))?;
        Ok(Self { protocol, addr })
    }
}

impl fmt::Display for HttpListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.protocol {
            Some(protocol) => write!(f, "{}://{}", protocol.name(), self.addr),
            None => write!(f, "{}", self.addr),
        }
    }
}

text_option!(HttpListenAddr "http-listen-address" ["0.0.0.0:8088", "https://[::]:8088"]);

impl Serialize for HttpListenAddrs {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &*self.0 {
            [one] => one.serialize(serializer),
            all => all.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for HttpListenAddrs {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "an address such as 0.0.0.0:8088, or a list of them"
        )]
        enum Written {
            One(String),
            Several(Vec<String>),
        }
        let written = match Written::deserialize(deserializer)? {
            Written::One(text) => vec![text],
            Written::Several(texts) => texts,
        };
        let parsed: Result<_, ListenAddrError> = written.iter().map(|text| text.parse()).collect();
        parsed.map(Self).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for HttpListenAddrs {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "HttpListenAddrs".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let one = HttpListenAddr::json_schema(generator);
        schemars::json_schema!({
            "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }]
        })
    }
}

/// TLS of `tls://` (RFC 5425) and `relps://` listeners. The files are read again when they change;
/// a pair that does not load leaves the last good one in use.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsServerOptions {
    /// PEM file with the server's certificate first, then its intermediates.
    pub cert_file: PathBuf,
    /// PEM file with the private key of that certificate, not encrypted (PKCS#8, PKCS#1, SEC1).
    pub key_file: PathBuf,
    /// PEM file with the authorities that client certificates must be signed by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_ca_file: Option<PathBuf>,
    /// Whether clients must show a certificate. Default: `required` where `client_ca_file` is
    /// given, else `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_auth: Option<ClientAuth>,
    /// Files with the revocation lists (CRL, PEM or DER) of the authorities of client
    /// certificates. With any, every authority of a client's chain must have one: a client whose
    /// certificate is revoked, or whose authority has no list or an expired one, is turned away.
    /// They are read again when they change, as the certificates are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crl_files: Vec<PathBuf>,
    /// The clients that may connect: names in their certificates (`relay.example.com`, `10.0.0.7`,
    /// `*.example.com` for one label) or fingerprints (`SHA256:…`), as in RFC 5425, section 5.
    /// DNS names of `subjectAltName` count; the common name where there are none. A fingerprint
    /// also lets in a certificate that no authority of `client_ca_file` has signed. Default: every
    /// client that one has signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permitted_peers: Option<Vec<PermittedPeer>>,
}

impl TlsServerOptions {
    /// Rule for client certificates once the default is filled in.
    pub fn client_auth(&self) -> ClientAuth {
        match (self.client_auth, &self.client_ca_file) {
            (Some(chosen), _) => chosen,
            (None, None) if !self.names_fingerprints() => ClientAuth::None,
            (None, _) => ClientAuth::Required,
        }
    }

    /// True if `permitted_peers` lets in certificates that need no authority.
    pub fn names_fingerprints(&self) -> bool {
        let is_fingerprint = |peer: &PermittedPeer| matches!(peer, PermittedPeer::Sha256(_));
        self.permitted_peers.iter().flatten().any(is_fingerprint)
    }
}

/// Whether a TLS client must show a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClientAuth {
    /// None is asked for.
    None,
    /// One is asked for; a client without one is let in, a client with a wrong one is not.
    Optional,
    /// A client without a valid one is turned away.
    Required,
}

/// UDP sockets (RFC 5426).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UdpOptions {
    /// Sockets opened on each address, each with its own kernel queue and thread: `auto` is one
    /// for every two `workers`, at most 16. Where the kernel bounds `receive_buffer`, `auto` is up
    /// to 64 for each of these threads, which it reads as one, each sender's datagrams in order.
    pub sockets: AutoCount,
    /// How the kernel spreads datagrams over the sockets.
    pub balance: UdpBalance,
    /// Kernel receive buffer of each socket, raised as far as the kernel allows: all of it as
    /// root or with `CAP_NET_ADMIN`, else up to `net.core.rmem_max`. While more comes than can be
    /// taken for a second on end, it is made 1 MiB: what is full whatever its size only costs time.
    /// Unless another size is given, less where the memory limit of the process has less room.
    pub receive_buffer: ByteSize,
    /// The size that the memory limit has room for, once that is known.
    #[serde(skip)]
    #[schemars(skip)]
    pub receive_buffer_max: Option<ByteSize>,
}

impl UdpOptions {
    /// Takes note of the memory, in bytes, that the kernel's receive buffer of a socket may take
    /// where nobody says how large it shall be; it takes the double (socket(7), `SO_RCVBUF`).
    pub fn fit_memory(&mut self, bytes: u64) {
        self.receive_buffer_max = Some(ByteSize((bytes / 2).max(RECEIVE_BUFFER_BYTES_MIN)));
    }

    /// Threads of an address: one for every two `workers` by default, for a socket's thread does
    /// nothing but read and parse, and the destinations need the other half.
    pub fn socket_count(&self, workers: usize) -> usize {
        match self.sockets {
            AutoCount::Count(n) => usize::from(n.get()),
            AutoCount::Auto => workers.div_ceil(2).clamp(1, 16),
        }
    }

    /// Bytes that are asked for.
    pub fn receive_buffer_bytes(&self) -> u64 {
        let wanted = self.receive_buffer.0;
        match self.receive_buffer_max {
            Some(most) if wanted == limits::UDP_RECEIVE_BUFFER_BYTES as u64 => wanted.min(most.0),
            _ => wanted,
        }
    }
}

/// Bytes: the smallest receive buffer that is chosen.
const RECEIVE_BUFFER_BYTES_MIN: u64 = 1024 * 1024;

impl Default for UdpOptions {
    fn default() -> Self {
        Self {
            sockets: AutoCount::Auto,
            balance: UdpBalance::Auto,
            receive_buffer: ByteSize(limits::UDP_RECEIVE_BUFFER_BYTES as u64),
            receive_buffer_max: None,
        }
    }
}

/// How the kernel chooses a socket for a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UdpBalance {
    /// `ordered`.
    #[default]
    Auto,
    /// By sender address and port: one sender stays on one socket and its thread, its order is
    /// kept.
    Hash,
    /// As `hash`. While a socket's thread is busy all the time and other cores are not, it only
    /// reads, and all cores parse and recognise what it read; its order is kept, and an event waits
    /// up to 5 ms more.
    Ordered,
    /// Evenly, whoever sends: one hot sender uses all sockets, its order is not kept.
    Random,
}

/// TCP, TLS and RELP connections (RFC 6587, RFC 5425).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StreamOptions {
    /// Connections open at once on each listener; one more is refused and counted.
    pub max_connections: NonZeroUsize,
    /// Connections open at once from one address on each listener; one more is refused and counted.
    /// A site of IPv6 (a /64) counts as one address, and behind a proxy the address in its header
    /// counts. `0` is no bound. Default: three quarters of `max_connections`, so that others can
    /// connect; and of what the limit of open files leaves to connections, one address never has
    /// more than three quarters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connections_per_address: Option<u32>,
    /// Closes a connection that has sent nothing for this long. Default: never, because a syslog
    /// sender does not notice the close and loses what it writes next (over RELP it notices, and
    /// sends again); dead peers are found by `keepalive`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Period>,
    /// Time that a new connection has for its PROXY header and TLS handshake together, and then
    /// for the `open` of a RELP session.
    pub handshake_timeout: Period,
    /// A silent connection's peer is probed after this long, and the connection closed when it
    /// does not answer; `0s` leaves it be.
    pub keepalive: Period,
    /// Whether connections begin with a PROXY protocol header (v1 or v2) that names the sender.
    pub proxy_protocol: ProxyProtocol,
    /// The proxies whose PROXY headers are believed, by address or network. Where others connect,
    /// see `proxy_protocol`. Default: whoever reaches the listener is believed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trusted_proxies: Option<Vec<Network>>,
}

/// The part of the PROXY protocol in the first bytes of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProxyHeader {
    /// They are the sender's own, whatever they are.
    None,
    /// They are a header.
    Required,
    /// They are the sender's own, and no header, which it may not send.
    Forbidden,
    /// They do not matter: who is no proxy may not connect.
    Closed,
}

impl StreamOptions {
    /// The rule for a connection of `ip`.
    pub fn proxy_header(&self, ip: IpAddr) -> ProxyHeader {
        let trusted = self.trusted_proxies.as_ref();
        let is_trusted = || trusted.is_none_or(|all| all.iter().any(|one| one.contains(ip)));
        match self.proxy_protocol {
            ProxyProtocol::None => ProxyHeader::None,
            _ if is_trusted() => ProxyHeader::Required,
            ProxyProtocol::Required => ProxyHeader::Closed,
            ProxyProtocol::Trusted => ProxyHeader::Forbidden,
        }
    }
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            max_connections: CONNECTIONS,
            max_connections_per_address: None,
            idle_timeout: None,
            handshake_timeout: Period(Duration::from_secs(10)),
            keepalive: Period(Duration::from_secs(60)),
            proxy_protocol: ProxyProtocol::None,
            trusted_proxies: None,
        }
    }
}

const CONNECTIONS: NonZeroUsize = match NonZeroUsize::new(limits::CONNECTIONS_DEFAULT) {
    Some(n) => n,
    None => panic!("a listener without connections"),
};

/// Whether connections begin with a PROXY protocol header.
///
/// No choice takes a header from whoever sends one and does without elsewhere: whoever reaches
/// such a listener could then claim any sender's address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProxyProtocol {
    /// They do not: the sender is who connects.
    #[default]
    None,
    /// They must; a connection without one is closed and counted. `trusted_proxies` says from
    /// whom: all others are turned away. Without it let only the proxy reach this listener, for
    /// the header is believed.
    Required,
    /// Those of `trusted_proxies` must. All others are senders themselves, and are turned away if
    /// they send a header.
    Trusted,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn listen_addresses_are_read_and_written_alike() {
        for text in [
            "udp://0.0.0.0:5514",
            "tcp://[::]:514",
            "tls://127.0.0.1:6514",
            "relp://127.0.0.1:2514",
            "relps://[::]:2515",
            "tcp://[::1]:0",
        ] {
            let addr: ListenAddr = text.parse().unwrap();
            assert_eq!(addr.to_string(), text);
            let json = serde_json::to_string(&addr).unwrap();
            assert_eq!(serde_json::from_str::<ListenAddr>(&json).unwrap(), addr);
        }
        assert_eq!(
            " TCP://0.0.0.0:514/ "
                .parse::<ListenAddr>()
                .unwrap()
                .to_string(),
            "tcp://0.0.0.0:514"
        );
    }

    #[test]
    fn a_wrong_listen_address_says_what_to_write() {
        for (text, said) in [
            ("0.0.0.0:514", "write udp://0.0.0.0:514"),
            ("514", "does not say which transport"),
            (
                "http://0.0.0.0:2514",
                "use udp://, tcp://, tls://, relp:// or relps://",
            ),
            ("relpx://0.0.0.0:2514", "did you mean relp"),
            ("ucp://0.0.0.0:514", "did you mean udp://?"),
            ("tcp://0.0.0.0:65536", "port `65536` is out of range"),
            ("tcp://[::]:-1", "port `-1` is out of range"),
            ("tcp://0.0.0.0", "write for example tcp://0.0.0.0:514"),
            ("tcp://[::1]", "write for example tcp://[::1]:514"),
            ("tls://::1:514", "brackets, as in tls://[::]:514"),
            ("tls://::1", "brackets"),
            ("udp://localhost:514", "127.0.0.1 or [::1]"),
            ("udp://log.example:514", "0.0.0.0 for all"),
            ("udp://*:514", "0.0.0.0 for all"),
            ("udp://:514", "0.0.0.0 for all"),
            ("udp://", "0.0.0.0 for all"),
        ] {
            let error = text.parse::<ListenAddr>().unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn empty_options_are_the_defaults_and_unknown_keys_fail() {
        assert_eq!(
            serde_json::from_str::<UdpOptions>("{}").unwrap(),
            UdpOptions::default()
        );
        assert_eq!(
            serde_json::from_str::<StreamOptions>("{}").unwrap(),
            StreamOptions::default()
        );
        assert!(serde_json::from_str::<StreamOptions>(r#"{"idle":"5s"}"#).is_err());
        assert!(serde_json::from_str::<StreamOptions>(r#"{"max_connections":0}"#).is_err());
        assert!(serde_json::from_str::<UdpOptions>(r#"{"recieve_buffer":1}"#).is_err());
        let written = serde_json::to_string(&StreamOptions::default()).unwrap();
        assert_eq!(
            serde_json::from_str::<StreamOptions>(&written).unwrap(),
            StreamOptions::default()
        );
    }

    #[test]
    fn sockets_are_auto_or_a_number() {
        let read = |text: &str| serde_json::from_str::<UdpOptions>(text).map(|o| o.sockets);
        assert_eq!(read(r#"{"sockets":"auto"}"#).unwrap(), AutoCount::Auto);
        let four = AutoCount::Count(std::num::NonZeroU16::new(4).unwrap());
        assert_eq!(read(r#"{"sockets":4}"#).unwrap(), four);
        assert_eq!(read(r#"{"sockets":"4"}"#).unwrap(), four);
        for wrong in ["0", "257", "-1", "\"many\"", "70000"] {
            let error = read(&format!(r#"{{"sockets":{wrong}}}"#))
                .unwrap_err()
                .to_string();
            assert!(
                error.contains("`auto` or a number from 1 to 256"),
                "{error}"
            );
        }
    }

    #[test]
    fn client_certificates_are_required_once_an_authority_is_named() {
        let read = |text: &str| {
            serde_json::from_str::<TlsServerOptions>(text)
                .unwrap()
                .client_auth()
        };
        assert_eq!(
            read(r#"{"cert_file":"c","key_file":"k"}"#),
            ClientAuth::None
        );
        assert_eq!(
            read(r#"{"cert_file":"c","key_file":"k","client_ca_file":"a"}"#),
            ClientAuth::Required
        );
        assert_eq!(
            read(
                r#"{"cert_file":"c","key_file":"k","client_ca_file":"a","client_auth":"optional"}"#
            ),
            ClientAuth::Optional
        );
    }
}
