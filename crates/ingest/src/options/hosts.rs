//! Options of what stands in for a host that an event does not name.
//!
//! Doc comments here are the reference page; the order of fields is its order.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use inrush_event::{Period, text_option};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What stands in for the host of an event that names none, or an address: see the guide to hosts.
/// What packs set comes first, then the name that the sender gave itself, then DNS.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HostsOptions {
    /// Whether such an event gets the name that its sender gave itself in others. A sender that
    /// gave two names within a day, or two addresses that are not its own, passes on what others
    /// sent, and names nobody.
    pub remember_names: bool,
    /// Whether those names outlive a restart, in `names.json` in `data_dir`.
    pub keep_names: bool,
    /// Names that DNS has for the addresses of senders.
    pub reverse_dns: ReverseDnsOptions,
}

impl Default for HostsOptions {
    fn default() -> Self {
        Self {
            remember_names: false,
            keep_names: true,
            reverse_dns: ReverseDnsOptions::default(),
        }
    }
}

/// Names that DNS has for the addresses of senders. No event waits for an answer: those that come
/// before it keep what they have.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReverseDnsOptions {
    /// Whether senders are looked up.
    pub enabled: bool,
    /// Whether the whole name counts, in place of what stands before its first dot.
    pub keep_fqdn: bool,
    /// Servers to ask, in this order; those of `/etc/resolv.conf` if none are given.
    #[schemars(length(max = 8))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<DnsServer>,
    /// Time after which a server that has not answered is given up, and the next one asked.
    #[schemars(extend("minimum" = 0.01, "maximum" = 60.0))]
    pub timeout: Period,
}

impl Default for ReverseDnsOptions {
    fn default() -> Self {
        Self {
            enabled: false,
            keep_fqdn: false,
            servers: Vec::new(),
            timeout: Period(Duration::from_secs(2)),
        }
    }
}

/// The port of DNS (RFC 1035 section 4.2).
const DNS_PORT: u16 = 53;

/// The address of a DNS server, with or without a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DnsServer(pub SocketAddr);

impl FromStr for DnsServer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let alone = || {
            text.parse::<IpAddr>()
                .map(|ip| SocketAddr::new(ip, DNS_PORT))
        };
        text.parse().or_else(|_| alone()).map(Self).map_err(|_| {
            format!("`{text}` is not the address of a server; write for example 192.0.2.53 or [::1]:5353")
        })
    }
}

impl fmt::Display for DnsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

text_option!(DnsServer "dns-server" ["192.0.2.53", "[::1]:5353"]);
