//! Interface of a running pipeline to the admin API: handles and numbers, never events.
//!
//! `control` is written against [`Admin`] alone, so that it knows nothing of workers or queues.
//! Every answer is owned and small; no call blocks on a socket or a destination.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use inrush_config::{AdminOptions, HealthOptions};
use inrush_event::{LedgerSnapshot, MetricSample};
use inrush_inspect::explain::UnknownStatus;
use inrush_pipeline::ReloadReport;
use inrush_pipeline::quarantine::{QuarantineList, QuarantineQuery, ReplayReport};
use inrush_sink::Store;
use inrush_stream::refusals::RefusedPeer;
use serde::Serialize;

use crate::doors::DoorList;
use crate::files::FileList;
use crate::overview::FlowSnapshot;

/// Queries and commands of the admin API to a running pipeline.
pub trait Admin: Send + Sync {
    /// Every counter at one moment.
    fn ledger(&self) -> LedgerSnapshot;

    /// Health of every edge: sources, the queue and destinations.
    fn health(&self) -> HealthReport;

    /// Health in three words, for the health listener. `None` while a reload changes the graph.
    fn verdict(&self) -> Option<HealthVerdict>;

    /// Options of the health listener, as the configuration that runs now has them. A reload may
    /// hold the call up.
    fn health_options(&self) -> Option<HealthOptions>;

    /// The sources as they run now, in the order of the configuration.
    fn sources(&self) -> Vec<SourceStatus>;

    /// Events of each source and token, their lag and their senders.
    fn doors(&self) -> DoorList;

    /// Files of each source that reads some, at most 1,000 of each.
    fn files(&self) -> FileList;

    /// The destinations as they run now, in the order of the configuration.
    fn destinations(&self) -> Vec<DestinationStatus>;

    /// The senders seen, as many as are remembered: those whose last event was not understood
    /// first, and of either kind the most recent first.
    fn senders(&self) -> SenderList;

    /// The embedded stores among the destinations, by their names, in the order of the
    /// configuration.
    fn stores(&self) -> Vec<(String, Arc<Store>)>;

    /// Those that are not open, so that nothing in them can be found, with the reason in words.
    fn held_stores(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Snapshot of what flows, waits and is lost just now. Reads some 50 small files under `/proc`
    /// and `/sys`, so it is asked at most once a second.
    fn flow(&self) -> FlowSnapshot;

    /// Dry run of a record through the source of that name, or the first one. Returns a JSON
    /// object: how the record would be read, and what would be sent of it. Nothing is sent.
    ///
    /// # Errors
    /// In words: there is no such source, or the record is empty.
    fn explain(&self, source: Option<&str>, record: &[u8]) -> Result<Vec<u8>, String>;

    /// Kinds of events that no rule recognised, those with most events first. Each has the rule
    /// that came nearest to its sample. Asks every rule about up to 1,024 samples, so it may take a
    /// second.
    fn unknown(&self) -> Vec<UnknownStatus>;

    /// Access options of the admin API, as the configuration that runs now has them. A reload may
    /// hold the call up.
    fn admin_options(&self) -> AdminOptions;

    /// Reads the configuration again and swaps the graph. May take as long as reading files
    /// takes.
    ///
    /// # Errors
    /// One line a problem; the old configuration then goes on running.
    fn reload(&self) -> Result<ReloadReport, Vec<String>>;

    /// Entries in quarantine that fit `query`. Reads files.
    ///
    /// # Errors
    /// In words: the query cannot be read, or quarantine cannot.
    fn quarantine(&self, query: &QuarantineQuery) -> Result<QuarantineList, String>;

    /// Sends what lies in quarantine again, each event to the destination that refused it. May
    /// take as long as reading and writing it takes.
    ///
    /// # Errors
    /// In words; nothing was sent.
    fn replay(&self, query: &QuarantineQuery) -> Result<ReplayReport, String>;

    /// Takes entries out of quarantine for good; says how many.
    ///
    /// # Errors
    /// In words; some may have been taken out.
    fn drop_quarantined(&self, query: &QuarantineQuery) -> Result<u64, String>;

    /// Everything that `/metrics` shows, in any order.
    fn metrics(&self) -> Vec<MetricSample>;
}

/// The answer of `GET /healthz`.
#[derive(Clone, Debug, Serialize)]
pub struct HealthReport {
    /// True if every edge makes progress.
    pub healthy: bool,
    /// Every door to the outside.
    pub edges: Vec<EdgeHealth>,
}

/// Health in three words: all that the health listener tells strangers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct HealthVerdict {
    /// True if every source, the queue and every destination make progress.
    pub progress: bool,
    /// True if all sources and the queue accept events.
    pub accepts: bool,
    /// True if no destination exceeds a bound of [`HealthOptions`].
    pub within: bool,
}

/// One door to the outside.
#[derive(Clone, Debug, Serialize)]
pub struct EdgeHealth {
    /// The name in the configuration.
    pub name: String,
    /// Kind of the edge: source, queue or destination.
    pub kind: EdgeKind,
    /// True if it makes progress.
    pub ok: bool,
    /// Since when it does not, in nanoseconds since 1970.
    pub since_ns: Option<i64>,
    /// Reason that it makes no progress, in words for the operator.
    pub reason: Option<String>,
}

/// Kind of an edge: events come in, are kept or go out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EdgeKind {
    /// Events come in here.
    Source,
    /// Events are kept here.
    Queue,
    /// Events go out here.
    Destination,
}

/// One source as it runs.
#[derive(Clone, Debug, Serialize)]
pub struct SourceStatus {
    /// The name in the configuration.
    pub name: String,
    /// The `type` in the configuration.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The addresses really bound, such as `udp://127.0.0.1:5514`.
    pub listeners: Vec<String>,
    /// Open stream connections.
    pub connections: u64,
    /// UDP sockets.
    pub sockets: u64,
    /// Receive buffer that the kernel granted, summed over the UDP sockets.
    pub receive_buffer_bytes: u64,
    /// Expiry of the served certificate, in seconds since 1970.
    pub certificate_not_after: Option<i64>,
    /// Oddities of accepted events, by name.
    pub anomalies: BTreeMap<String, u64>,
    /// Bytes that came over the network and are in no event, by reason.
    pub cut_bytes: BTreeMap<String, u64>,
    /// Connections refused or ended early, by reason.
    pub connection_errors: BTreeMap<String, u64>,
    /// Peers that were turned away, with the reason, the last one first: up to 1,024 addresses and
    /// reasons.
    pub refused: Vec<RefusedPeer>,
    /// Connections turned away of addresses that made room in that list.
    pub refused_others: u64,
}

/// One destination as it runs.
#[derive(Clone, Debug, Serialize)]
pub struct DestinationStatus {
    /// The name in the configuration.
    pub name: String,
    /// The `type` in the configuration.
    #[serde(rename = "type")]
    pub type_name: String,
    /// True if the last attempt succeeded, or none was made yet. False also while refused events
    /// cannot be put into quarantine, or acknowledgements cannot be asked for.
    pub healthy: bool,
    /// The last error, in words for the operator.
    pub last_error: Option<String>,
    /// Time of that error, in nanoseconds since 1970.
    pub last_error_at_ns: Option<i64>,
    /// Time of the last attempt that succeeded, in nanoseconds since 1970.
    pub last_success_at_ns: Option<i64>,
    /// Failed attempts, by reason.
    pub errors: BTreeMap<String, u64>,
    /// Requests or writes so far.
    pub requests: u64,
    /// Bytes sent or written so far.
    pub bytes: u64,
    /// Events put back to be tried again.
    pub retried: u64,
    /// Events sent to another index than theirs, by the index that the destination does not take.
    /// Absent where there are none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rerouted: BTreeMap<String, u64>,
    /// Events written to the overflow file, since senders named too many paths or the file system
    /// has few inodes left.
    pub overflow: u64,
    /// Requests that may be in flight at once just now; lowered while the destination is busy.
    /// Absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
}

/// The senders, and what those brought that are not listed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SenderList {
    /// Those that are listed.
    pub senders: Vec<SenderStatus>,
    /// A row for each source of which some are not.
    pub others: Vec<OtherSenders>,
}

/// Senders of a source that are not listed: they made room for others, or there are too many.
#[derive(Clone, Debug, Serialize)]
pub struct OtherSenders {
    /// The source.
    pub source: String,
    /// Senders; one that made room and came back counts here too.
    pub senders: u64,
    /// Events from them.
    pub events: u64,
    /// Bytes of those events.
    pub bytes: u64,
    /// Time at which the last of them was last seen, in milliseconds since 1970.
    pub last_seen_ms: i64,
}

/// One sender.
#[derive(Clone, Debug, Serialize)]
pub struct SenderStatus {
    /// Its address, behind any PROXY header.
    pub ip: IpAddr,
    /// Time at which it was first seen, in nanoseconds since 1970.
    pub first_seen_ns: i64,
    /// Time at which it was last seen, in nanoseconds since 1970.
    pub last_seen_ns: i64,
    /// Time at which it was first seen, in milliseconds since 1970.
    pub first_seen_ms: i64,
    /// Time at which it was last seen, in milliseconds since 1970.
    pub last_seen_ms: i64,
    /// Seconds since it was last seen.
    pub silent_s: f64,
    /// Events from it, whether or not there was room for them.
    pub events: u64,
    /// Bytes of those events.
    pub bytes: u64,
    /// Events a second, over the last ten seconds.
    pub rate: f64,
    /// Milliseconds that its clock is ahead of ours, by its last event; negative if it is behind.
    /// The time that the event took to come here is in it. `None` if that event carried no time.
    pub clock_skew_ms: Option<f64>,
    /// The zone that its last time without one was read by, such as `-05:00`, if that was guessed
    /// from earlier events. Behind a relay it is that of one of its hosts.
    pub zone_guessed: Option<String>,
    /// Header format of its last event: `rfc3164`, `rfc5424`, `cisco`, `unparsed`.
    pub format: &'static str,
    /// Vendor and product of its last events, as packs recognised them, the latest first. Empty
    /// without packs.
    pub recognised: Vec<String>,
    /// Events that packs were asked about and no rule recognised.
    pub unrecognised: u64,
    /// True if some events were not recognised, or if there is neither a product nor a header.
    pub unknown: bool,
    /// A record of the last second in which it sent, as it came, but for its end where it is long.
    /// Kept for the first 4,096 senders of a source; what is not UTF-8 is shown as U+FFFD.
    pub sample: Option<String>,
    /// The source that it sends to.
    pub source: String,
}
