//! Options of the file as a whole, of the admin API and of the health listener. Those of sources,
//! destinations and what lies between are in their rooms.
//!
//! # What it guarantees
//! * The doc comments of options are the reference page, and the order of fields is its order.
//! * An unknown key is a fault. The checker finds it; `serde` alone would miss it where a source
//!   has a `flatten`.
//! * The field `budget` is no option: no file can set it, and no page shows it.
//! * `AdminOptions::can_follow` tells a reload if the admin listener can stay open.
//!
//! # Limits
//! At most 1000 `transforms`, 1000 `routes` and 64 `admin.tokens`. A session lasts 1 to 720 hours,
//! `SESSION_HOURS_DEFAULT` by default.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use indexmap::IndexMap;
use inrush_event::{AutoCount, Period, Secret, text_option};
use inrush_files::AccessOptions;
use inrush_host::memory::MemoryShares;
use inrush_ingest::options::HostsOptions;
use inrush_ingest::options::{EnrichmentOptions, PacksOptions, RouteOptions, TransformOptions};
use inrush_queue::QueueOptions;
use inrush_sink::SinkConfig;
use inrush_source::table::SourceConfig;
use inrush_transport::config::TlsServerOptions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::password::PasswordHash;

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
    /// Who besides Inrush may read what it keeps: `data_dir`, and stores in folders elsewhere. By
    /// default nobody. It cannot change while running.
    #[serde(default, skip_serializing_if = "AccessOptions::is_default")]
    pub data_access: AccessOptions,
    /// The admin API and the dashboard.
    #[serde(default)]
    pub admin: AdminOptions,
    /// The health listener, for load balancers and orchestrators. By default there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthOptions>,
    /// Where events come from, by names of your choice.
    #[schemars(extend("minProperties" = 1))]
    pub sources: IndexMap<String, SourceConfig>,
    /// Where events go, by names of your choice. Every event goes to every destination, unless
    /// `routes` say otherwise.
    #[schemars(extend("minProperties" = 1))]
    pub destinations: IndexMap<String, SinkConfig>,
    /// How products are recognised.
    #[serde(default)]
    pub packs: PacksOptions,
    /// What stands in for a host that an event does not name, or names by its address: see the
    /// guide to hosts.
    #[serde(default)]
    pub hosts: HostsOptions,
    /// What is changed or filtered, in this order, once products are recognised.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub transforms: Vec<TransformOptions>,
    /// Which destinations events go to: the first route that matches decides. What none matches is
    /// filtered, and counted as `unrouted`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub routes: Vec<RouteOptions>,
    /// The queue between sources and destinations.
    #[serde(default)]
    pub queue: QueueOptions,
    /// Cores that take events in: threads that read connections, and those that help a thread that
    /// cannot keep up with one hot sender. `auto` is all cores that the process may use. It cannot
    /// change while running.
    #[serde(default)]
    pub workers: AutoCount,
    /// Time that a stopping process takes at most to deliver what is pending.
    #[serde(default = "shutdown_timeout_default")]
    pub shutdown_timeout: Period,
    /// Memory that each part may take, once it is chosen.
    #[serde(skip)]
    #[schemars(skip)]
    pub budget: Option<MemoryShares>,
}

impl Config {
    /// The options by which events are enriched.
    pub fn enrichment(&self) -> EnrichmentOptions<'_> {
        EnrichmentOptions {
            packs: &self.packs,
            hosts: &self.hosts,
            transforms: &self.transforms,
            routes: &self.routes,
            data_dir: &self.data_dir,
        }
    }
}

fn data_dir_default() -> PathBuf {
    PathBuf::from("/var/lib/inrush")
}

/// Five seconds: half of what container runtimes wait before they kill.
fn shutdown_timeout_default() -> Period {
    Period(Duration::from_secs(5))
}

/// The admin API and the dashboard. Whoever reaches a loopback address may come in, unless a
/// password or tokens are given; on any other address they must be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AdminOptions {
    /// Address and port. It cannot change while running.
    pub listen: AdminAddr,
    /// What people log in with: the line that `inrush check --hash-password` prints, in quotes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_hash: Option<PasswordHash>,
    /// The password itself, where no hash can be had; it is hashed at start. Keep it out of the
    /// file, as in `"${INRUSH_PASSWORD}"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// What scripts send in place of a login, as `Authorization: Bearer TOKEN`. Two at a time let
    /// you change one without a gap.
    #[schemars(length(max = 64))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<Secret>,
    /// Certificate and key, for `https://`. The files are read again when they change; the options
    /// cannot change while running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsServerOptions>,
    /// Hours after which people log in again. An hour in which no page was open ends a session too.
    #[schemars(range(min = 1, max = 720))]
    pub session_hours: u16,
}

/// Hours of a session: a working day with its edges.
const SESSION_HOURS_DEFAULT: u16 = 12;

impl Default for AdminOptions {
    fn default() -> Self {
        Self {
            listen: AdminAddr::default(),
            password_hash: None,
            password: None,
            tokens: Vec::new(),
            tls: None,
            session_hours: SESSION_HOURS_DEFAULT,
        }
    }
}

impl AdminOptions {
    /// True if a client has to show a password or a token.
    pub fn asks(&self) -> bool {
        self.password_hash.is_some() || self.password.is_some() || !self.tokens.is_empty()
    }

    /// True if a running listener of the options `before` can go on with these: they have the same
    /// address and TLS options.
    pub fn can_follow(&self, before: &Self) -> bool {
        self.listen == before.listen && self.tls == before.tls
    }
}

/// A listener that answers everybody `yes` (200) or `no` (503), and nothing else. `/livez`: the
/// process runs. `/readyz`: sources and queue accept events, within the bounds. `/healthz`: every
/// source and destination makes progress. `/health`: that too, within the bounds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HealthOptions {
    /// Address and port.
    pub listen: AdminAddr,
    /// Highest age of a destination's oldest pending event. Above it, `/health` and `/readyz`
    /// answer `no`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age: Option<Period>,
    /// Highest number of pending events of a destination. Above it, `/health` and `/readyz` answer
    /// `no`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_backlog: Option<u64>,
}

/// An IP address and port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdminAddr(pub SocketAddr);

impl AdminAddr {
    /// True if it is a loopback address, so that only this machine can reach it.
    pub fn is_loopback(&self) -> bool {
        self.0.ip().to_canonical().is_loopback()
    }
}

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

impl FromStr for AdminAddr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.trim().parse().map(Self).map_err(|_| {
            format!(
                "`{text}` is not an address and port; write for example 127.0.0.1:8686 or \
                 [::1]:8686"
            )
        })
    }
}

text_option!(AdminAddr "socket-address" ["127.0.0.1:8686", "[::1]:8686"]);
