//! Fields of `GET /api/v1/flow`, as far as they are shown. A missing field counts as nothing, and
//! an unknown one is passed over, so that other versions can be looked at.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Snapshot {
    /// Milliseconds since 1970.
    pub(crate) at_ms: f64,
    pub(crate) version: String,
    /// Milliseconds since 1970.
    pub(crate) started_ms: f64,
    pub(crate) balanced: bool,
    pub(crate) sources: Vec<SourceStatus>,
    pub(crate) destinations: Vec<DestinationStatus>,
    pub(crate) edges: Vec<Edge>,
    pub(crate) queue: QueueStatus,
    pub(crate) threads: Vec<ThreadCpu>,
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) loss: Vec<LossCount>,
    pub(crate) alarms: Vec<AlarmStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SourceStatus {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) type_name: String,
    pub(crate) received: u64,
    pub(crate) accepted: u64,
    pub(crate) rejected: BTreeMap<String, u64>,
    /// Parts of events that wait for the others.
    pub(crate) held: u64,
    pub(crate) kernel_dropped: u64,
    pub(crate) bytes: u64,
    pub(crate) connections: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct DestinationStatus {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) type_name: String,
    pub(crate) delivered: u64,
    pub(crate) pending: u64,
    pub(crate) quarantined: BTreeMap<String, u64>,
    pub(crate) dropped: BTreeMap<String, u64>,
    pub(crate) oldest_pending_ms: f64,
    pub(crate) request_ms: Option<f64>,
    pub(crate) stored: Option<StoredFates>,
    pub(crate) state: String,
    pub(crate) error: Option<String>,
}

/// The fates of the events that a store got.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StoredFates {
    pub(crate) expired: BTreeMap<String, u64>,
    pub(crate) unreadable: u64,
    pub(crate) searchable: u64,
    pub(crate) in_memory: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Edge {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) events: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct QueueStatus {
    pub(crate) bytes: u64,
    pub(crate) bytes_max: u64,
    pub(crate) disk_bytes: u64,
    pub(crate) disk_bytes_max: u64,
    pub(crate) segments: u64,
    pub(crate) stall: Option<String>,
    pub(crate) full_in_s: Option<f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ThreadCpu {
    pub(crate) name: String,
    pub(crate) cpu_percent: f64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LossCount {
    pub(crate) place: String,
    pub(crate) label: String,
    pub(crate) count: u64,
    pub(crate) ours: bool,
    pub(crate) hint: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AlarmStatus {
    pub(crate) severity: String,
    pub(crate) what: String,
    pub(crate) since_ms: f64,
    pub(crate) cause: String,
    pub(crate) remedy: String,
    pub(crate) link: String,
}
