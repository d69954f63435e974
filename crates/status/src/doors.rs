//! Doors: what comes in at each source and with each token, how late, and from whom.
//!
//! # What it guarantees
//! * Counters are totals since the start of the process; whoever shows rates takes differences.
//! * A token is named, its text is never in an answer.
//!
//! # Limits
//! `SENDERS_LISTED` senders of a source, and at most 16 of a token.

use std::cmp::Reverse;
use std::net::IpAddr;

use inrush_event::{HISTOGRAM_BOUNDS_S, HistogramSnapshot, Timestamp};
use inrush_pipeline::topology::RunningSource;
use inrush_source::TokenAccount;
use serde::Serialize;

/// Senders of a source that are listed.
const SENDERS_LISTED: usize = 5;

/// The answer of `GET /api/v1/doors`.
#[derive(Clone, Debug, Serialize)]
pub struct DoorList {
    /// Time of the answer, in milliseconds since 1970.
    pub at_ms: i64,
    /// Upper bounds in seconds of the counts of [`HistogramSnapshot`].
    pub bounds_s: Vec<f64>,
    /// The sources, in the order of the configuration.
    pub doors: Vec<DoorStatus>,
}

/// A source, as those who send to it meet it.
#[derive(Clone, Debug, Serialize)]
pub struct DoorStatus {
    /// The source.
    pub source: String,
    /// The `type` in the configuration.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The addresses really bound, such as `http://127.0.0.1:8088`.
    pub listeners: Vec<String>,
    /// Open stream connections.
    pub connections: u64,
    /// Connections refused or ended early.
    pub connection_errors: u64,
    /// Events that reached the process.
    pub events: u64,
    /// Bytes of those events.
    pub bytes: u64,
    /// Times from an event to its receipt, of events that carry a time.
    pub lag: HistogramSnapshot,
    /// Times of its requests until they were answered. Absent where it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<HistogramSnapshot>,
    /// Senders with the highest rate.
    pub senders: Vec<DoorSender>,
    /// Its tokens, by name. The one without a name has the answers to requests without a known
    /// token.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<TokenAccount>,
}

/// A sender of a source.
#[derive(Clone, Debug, Serialize)]
pub struct DoorSender {
    /// Its address.
    pub ip: IpAddr,
    /// Its events.
    pub events: u64,
    /// Events a second, over the last ten seconds.
    pub rate: f64,
}

/// The doors of these sources.
pub(crate) fn list(sources: &[RunningSource]) -> DoorList {
    let now = Timestamp::now();
    DoorList {
        at_ms: now.0 / 1_000_000,
        bounds_s: HISTOGRAM_BOUNDS_S.to_vec(),
        doors: sources.iter().map(|one| door(one, now)).collect(),
    }
}

fn door(running: &RunningSource, now: Timestamp) -> DoorStatus {
    let (source, ingest) = (&running.source, running.source.ingest());
    let state = source.state();
    let listeners = source.listeners();
    DoorStatus {
        source: ingest.name.clone(),
        type_name: running.config.options().type_name().to_owned(),
        listeners: listeners.iter().map(ToString::to_string).collect(),
        connections: state.connections,
        connection_errors: state.connection_errors.values().sum(),
        events: ingest.counters.received.get(),
        bytes: ingest.counters.received_bytes.get(),
        lag: ingest.receive_lag.snapshot(),
        requests: source.request_times(),
        senders: senders(running, now),
        tokens: source.tokens(),
    }
}

fn senders(running: &RunningSource, now: Timestamp) -> Vec<DoorSender> {
    let (all, _) = running.source.ingest().all_senders();
    let senders = all.iter().map(|(ip, sender)| DoorSender {
        ip: *ip,
        events: sender.events,
        rate: sender.rate(now),
    });
    let mut senders: Vec<_> = senders.collect();
    senders.sort_by_key(|one| Reverse(((one.rate * 10.0) as u64, one.events)));
    senders.truncate(SENDERS_LISTED);
    senders
}
