//! Origin of an event: the peer, file, unit or topic that its source had it from.

use std::net::IpAddr;
use std::sync::Arc;

/// Protocol that carried an event to us.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Protocol {
    /// RFC 5426.
    Udp,
    /// RFC 6587.
    Tcp,
    /// RFC 5425.
    Tls,
    /// RELP over TCP.
    Relp,
    /// RELP over TLS.
    Relps,
    /// HTTP (RFC 9110).
    Http,
    /// HTTP over TLS.
    Https,
}

impl Protocol {
    /// The name used in output and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Relp => "relp",
            Self::Relps => "relps",
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// True if TLS lies between it and the wire.
    pub const fn is_tls(self) -> bool {
        matches!(self, Self::Tls | Self::Relps | Self::Https)
    }

    /// True if every message of it is answered.
    pub const fn is_relp(self) -> bool {
        matches!(self, Self::Relp | Self::Relps)
    }

    /// True for HTTP, under TLS or not.
    pub const fn is_http(self) -> bool {
        matches!(self, Self::Http | Self::Https)
    }

    /// True if the peer waits for an answer that says its events are durable.
    pub const fn is_answered(self) -> bool {
        self.is_relp() || self.is_http()
    }
}

/// Sender of a record: the address behind any PROXY header, and the door it came through.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Peer {
    /// The sender's address, IPv4-mapped IPv6 already unmapped.
    pub ip: IpAddr,
    /// Our port that it came to.
    pub local_port: u16,
    /// Protocol by which it came.
    pub protocol: Protocol,
    /// The name in its TLS certificate, which was verified; `None` where it showed none.
    pub client: Option<Arc<str>>,
}

/// Origin of a record: where its source had it from.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub enum Origin {
    /// A peer on the network.
    Peer(Peer),
    /// A file, by its path.
    File(Arc<str>),
    /// A unit of the system's journal, by its name.
    Unit(Arc<str>),
    /// A partition of a topic.
    Topic {
        /// Name of the topic.
        name: Arc<str>,
        /// Number of the partition.
        partition: u32,
    },
}

impl Origin {
    /// The peer, if it is one.
    pub fn peer(&self) -> Option<&Peer> {
        match self {
            Self::Peer(peer) => Some(peer),
            Self::File(_) | Self::Unit(_) | Self::Topic { .. } => None,
        }
    }

    /// Address of the sender, if it is a peer.
    pub fn ip(&self) -> Option<IpAddr> {
        self.peer().map(|peer| peer.ip)
    }

    /// Kind and name of an origin that is no peer, such as `file` and its path.
    pub fn named(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::Peer(_) => None,
            Self::File(path) => Some(("file", path)),
            Self::Unit(unit) => Some(("unit", unit)),
            Self::Topic { name, .. } => Some(("topic", name)),
        }
    }
}

impl From<Peer> for Origin {
    fn from(peer: Peer) -> Self {
        Self::Peer(peer)
    }
}

/// Name, index and sourcetype that every event of a source has in common.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceInfo {
    /// The name in the configuration.
    pub name: String,
    /// The index of events that no rule sends elsewhere.
    pub index: String,
    /// The sourcetype of events that no rule recognised.
    pub sourcetype: String,
}
