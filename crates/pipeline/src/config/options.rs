//! The options that no room below owns: the file as a whole, the admin address, a source.
//!
//! Doc comments here are the reference page; the order of fields is its order.

use std::borrow::Cow;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use indexmap::IndexMap;
use inrush_codec::SyslogOptions;
use inrush_event::Period;
use inrush_queue::QueueOptions;
use inrush_sink::SinkConfig;
use inrush_transport::config::{ListenAddr, StreamOptions, TlsServerOptions, UdpOptions};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

/// Where events come from, where they go, and what lies between.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Inrush configuration")]
pub struct Config {
    /// The folder for everything that Inrush keeps. Without a configuration file it is
    /// `./inrush-data`.
    #[serde(default = "data_dir_default")]
    #[schemars(length(min = 1))]
    pub data_dir: PathBuf,
    /// The admin API: health, metrics, ledger, reload.
    #[serde(default)]
    pub admin: AdminOptions,
    /// Where events come from, by names of your choice.
    #[schemars(extend("minProperties" = 1))]
    pub sources: IndexMap<String, SourceConfig>,
    /// Where events go, by names of your choice. Every event goes to every destination.
    #[schemars(extend("minProperties" = 1))]
    pub destinations: IndexMap<String, SinkConfig>,
    /// The queue between sources and destinations.
    #[serde(default)]
    pub queue: QueueOptions,
    /// Time that a stopping process takes at most to deliver what is pending.
    #[serde(default = "shutdown_timeout_default")]
    pub shutdown_timeout: Period,
}

fn data_dir_default() -> PathBuf {
    PathBuf::from("/var/lib/inrush")
}

/// Five seconds: half of what container runtimes wait before they kill.
fn shutdown_timeout_default() -> Period {
    Period(Duration::from_secs(5))
}

/// The admin API.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AdminOptions {
    /// Address and port of the admin API. It asks for no password: give it an address that only
    /// administrators can reach.
    pub listen: AdminAddr,
}

/// An IP address and port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(transparent)]
pub struct AdminAddr(pub SocketAddr);

impl Default for AdminAddr {
    fn default() -> Self {
        Self(SocketAddr::from((Ipv4Addr::LOCALHOST, 8686)))
    }
}

impl fmt::Display for AdminAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for AdminAddr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        let bad = || {
            de::Error::custom(format_args!(
                "`{text}` is not an address and port; write for example 127.0.0.1:8686 or [::1]:8686"
            ))
        };
        text.trim().parse().map(Self).map_err(|_| bad())
    }
}

impl JsonSchema for AdminAddr {
    fn schema_name() -> Cow<'static, str> {
        "AdminAddr".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "format": "socket-address",
            "examples": ["127.0.0.1:8686", "[::1]:8686"]
        })
    }
}

/// Where events come from.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SourceConfig {
    /// Syslog over UDP, TCP and TLS (RFC 5424, RFC 3164, RFC 5425, RFC 5426, RFC 6587).
    Syslog(SyslogSource),
}

/// A syslog source.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SyslogSource {
    /// Addresses to listen on, each with its transport.
    #[schemars(length(min = 1))]
    pub listen: Vec<ListenAddr>,
    /// Certificate and key of the `tls://` addresses, which need them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsServerOptions>,
    /// Sockets of the `udp://` addresses.
    #[serde(default)]
    pub udp: UdpOptions,
    /// Connections of the `tcp://` and `tls://` addresses.
    #[serde(default)]
    pub stream: StreamOptions,
    /// How the bytes are read.
    #[serde(flatten)]
    pub syslog: SyslogOptions,
    /// The index of events that no rule sends elsewhere.
    #[serde(default = "index_default")]
    #[schemars(length(min = 1))]
    pub index: String,
    /// The sourcetype of events that no rule recognised.
    #[serde(default = "sourcetype_default")]
    #[schemars(length(min = 1))]
    pub sourcetype: String,
}

fn index_default() -> String {
    "main".to_owned()
}

fn sourcetype_default() -> String {
    "syslog".to_owned()
}
