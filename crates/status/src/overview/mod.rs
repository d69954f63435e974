//! Snapshot of what flows, waits and is lost, for the flow page, `inrush top` and scripts.
//!
//! A snapshot is gathered when somebody asks, and costs about a millisecond. What needs a history
//! (`trend`) is noted once a second by the watch, whether or not anybody asks. Counters are
//! totals since the start of the process; whoever shows rates takes differences.

pub mod alarm;
mod fault;
mod loss;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

use inrush_event::{
    DestinationSnapshot, LedgerSnapshot, SourceSnapshot, StoredSnapshot, Timestamp,
};
use inrush_pipeline::destination::RunningDestination;
use inrush_pipeline::topology::{RunningGraph, RunningSource, Topology, lock};
use inrush_queue::QueueLevels;
use serde::Serialize;

use crate::file_trend::FileTrend;
use crate::latency::LatencyTrend;
use crate::snapshot_state::SnapshotState;
use crate::trend::Trend;

pub use alarm::{ActiveAlarm, Severity};
pub use fault::DestinationFault;
pub use loss::{LossCounter, LossStage};

/// Everything at one moment, in the shape of `GET /api/v1/flow`.
#[derive(Clone, Debug, Serialize)]
pub struct FlowSnapshot {
    /// Time of the snapshot, in milliseconds since 1970.
    pub at_ms: i64,
    /// The version of Inrush.
    pub version: &'static str,
    /// Start time of the process, in milliseconds since 1970.
    pub started_ms: i64,
    /// True if the ledger balances, so that every event has a fate; computed.
    pub balanced: bool,
    /// In the order of the configuration, then those that are no longer in it.
    pub sources: Vec<SourceFlow>,
    /// Events that a rule took out, by rule.
    pub filtered: BTreeMap<String, u64>,
    /// In the order of the configuration, then those that are no longer in it.
    pub destinations: Vec<DestinationFlow>,
    /// Events of each source that were put before each destination, in the order of both.
    pub edges: Vec<EdgeFlow>,
    /// Levels of the queue between the two.
    pub queue: QueueFlow,
    /// The threads of the process.
    pub threads: Vec<ThreadFlow>,
    /// Memory of the process, in bytes; `None` where the kernel does not say it.
    pub resident_bytes: Option<u64>,
    /// Every place where an event can be lost, with its count.
    pub loss: Vec<LossCounter>,
    /// Active alarms, the worst first.
    pub alarms: Vec<ActiveAlarm>,
}

/// Counters of what came in at a source.
#[derive(Clone, Debug, Serialize)]
pub struct SourceFlow {
    /// The name in the configuration.
    pub name: String,
    /// The `type` in the configuration; empty for one that is no longer there.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Events that reached the process.
    pub received: u64,
    /// Events that the queue took.
    pub accepted: u64,
    /// Received but not accepted, by reason.
    pub rejected: BTreeMap<String, u64>,
    /// Parts of events that wait in memory for the others.
    pub held: u64,
    /// Datagrams that the kernel dropped at our sockets.
    pub kernel_dropped: u64,
    /// Bytes of what was received.
    pub bytes: u64,
    /// Open stream connections.
    pub connections: u64,
}

/// Health of a destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DestinationState {
    /// It takes events.
    Ok,
    /// Its last attempt failed.
    Failing,
    /// Events are pending, and it has taken none for a while.
    Stalled,
    /// Its thread ended by a fault.
    Ended,
    /// It is no longer in the configuration.
    Removed,
}

/// Counters of what went out at a destination, and its health.
#[derive(Clone, Debug, Serialize)]
pub struct DestinationFlow {
    /// The name in the configuration.
    pub name: String,
    /// The `type` in the configuration; empty for one that is no longer there.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Events put before it.
    pub accepted: u64,
    /// Events that it has taken.
    pub delivered: u64,
    /// Events on their way.
    pub pending: u64,
    /// Events that it refused, by reason.
    pub quarantined: BTreeMap<String, u64>,
    /// Events given up, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Age of the oldest event on its way.
    pub oldest_pending_ms: f64,
    /// Milliseconds that a request or a write takes, as a moving average; `None` before the first.
    pub request_ms: Option<f64>,
    /// Fate of the events that it keeps, as in the ledger; only of a store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored: Option<StoredSnapshot>,
    /// Its health.
    pub state: DestinationState,
    /// Its trouble in words, if it has any.
    pub error: Option<String>,
}

/// Events on their way from a source to a destination.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct EdgeFlow {
    /// The source.
    pub from: String,
    /// The destination.
    pub to: String,
    /// Events of the source that were put before the destination.
    pub events: u64,
}

/// The queue.
#[derive(Clone, Debug, Serialize)]
pub struct QueueFlow {
    /// Bytes that queued batches pin in memory.
    pub bytes: u64,
    /// The budget for them.
    pub bytes_max: u64,
    /// Bytes of the segments on disk.
    pub disk_bytes: u64,
    /// The budget for them; 0 without a disk.
    pub disk_bytes_max: u64,
    /// Segments on disk.
    pub segments: usize,
    /// Reason of a stall, in which nothing is written; `None` without one.
    pub stall: Option<String>,
    /// Seconds until it is full if it goes on as in the last minute; `None` if it does not fill.
    pub full_in_s: Option<u64>,
}

/// A thread of the process.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadFlow {
    /// Its name, cut to 15 characters.
    pub name: String,
    /// CPU time since the snapshot before, in percent of one CPU.
    pub cpu_percent: f64,
}

/// Parts of the process of which a snapshot is taken.
pub(crate) struct SnapshotSource<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) trend: &'a Mutex<Trend>,
    pub(crate) latency: &'a Mutex<LatencyTrend>,
    pub(crate) files: &'a Mutex<FileTrend>,
    pub(crate) state: &'a Mutex<SnapshotState>,
}

impl SnapshotSource<'_> {
    /// Everything at one moment.
    pub(crate) fn snapshot(&self) -> FlowSnapshot {
        let mut meter = lock(self.state);
        let host = meter.host.read();
        let graph = self.topology.graph();
        let ledger = self.topology.ledger_now();
        let levels = self.topology.log.levels();
        let queue = self.queue_flow(&levels);
        let troubles: Vec<Option<DestinationFault>> = graph
            .destinations
            .iter()
            .map(|destination| DestinationFault::of(self.topology, destination))
            .collect();
        let drafts = self.drafts(&graph, &troubles, &ledger, &queue, &levels);
        let sources = sources(&graph, &ledger);
        let destinations = destinations(&graph, &troubles, &ledger);
        FlowSnapshot {
            at_ms: ledger.at_ns / 1_000_000,
            version: env!("CARGO_PKG_VERSION"),
            started_ms: self.topology.started.0 / 1_000_000,
            balanced: ledger.balanced,
            edges: edges(&sources, &destinations, &ledger),
            sources,
            destinations,
            loss: loss::rows(&ledger, &self.losses_at_sources(&graph), &host),
            alarms: alarm::settle(drafts, &mut meter.alarms, Timestamp(ledger.at_ns)),
            filtered: ledger.filtered,
            queue,
            threads: host
                .threads
                .into_iter()
                .map(|thread| ThreadFlow {
                    name: thread.name,
                    cpu_percent: thread.cpu_percent,
                })
                .collect(),
            resident_bytes: host.resident_bytes,
        }
    }

    fn losses_at_sources(&self, graph: &RunningGraph) -> Vec<loss::SourceLosses> {
        let files = lock(self.files);
        loss::at_sources(&graph.sources, &|name| files.rotated_away(name))
    }

    fn queue_flow(&self, levels: &QueueLevels) -> QueueFlow {
        let full = self.topology.blocked_since().is_some()
            || levels.stall.as_ref().is_some_and(|stall| stall.full);
        QueueFlow {
            bytes: levels.bytes,
            bytes_max: levels.bytes_max,
            disk_bytes: levels.disk_bytes,
            disk_bytes_max: levels.disk_bytes_max,
            segments: levels.segments,
            stall: levels.stall.as_ref().map(|stall| stall.text.clone()),
            full_in_s: match full {
                true => Some(0),
                false => lock(self.trend).full_in_s(levels),
            },
        }
    }

    /// Alarms about the room in the queue and in each backlog.
    fn queue_drafts(&self, queue: &QueueFlow, levels: &QueueLevels) -> Vec<alarm::AlarmDraft> {
        let backlogs = self.topology.log.backlogs();
        let whole = match (
            &levels.stall,
            self.topology.blocked_since(),
            queue.full_in_s,
        ) {
            (Some(stall), ..) => Some(alarm::queue_stalled(stall, &backlogs)),
            (None, Some(since), _) => Some(alarm::queue_full(since, &backlogs)),
            (None, None, Some(seconds)) => alarm::queue_filling(seconds, &backlogs),
            (None, None, None) => None,
        };
        let room = match levels.disk_bytes_max {
            0 => levels.bytes_max,
            max => max,
        };
        let own = backlogs
            .iter()
            .filter(|one| !one.full && one.bytes_max < room);
        let trend = lock(self.trend);
        let own = own.filter_map(|one| alarm::backlog_filling(trend.backlog_full_in_s(one)?, one));
        whole.into_iter().chain(own).collect()
    }

    /// Everything that is wrong.
    fn drafts(
        &self,
        graph: &RunningGraph,
        troubles: &[Option<DestinationFault>],
        ledger: &LedgerSnapshot,
        queue: &QueueFlow,
        levels: &QueueLevels,
    ) -> Vec<alarm::AlarmDraft> {
        let mut drafts = Vec::new();
        drafts.extend(ledger.imbalance().map(|words| alarm::unbalanced(&words)));
        let dead = graph.sources.iter().filter(|one| one.source.is_dead());
        drafts.extend(dead.map(|running| alarm::reader_ended(running.name())));
        drafts.extend(self.queue_drafts(queue, levels));
        let ill = graph.destinations.iter().zip(troubles);
        let ill = ill.filter_map(|(one, trouble)| Some((one, trouble.as_ref()?)));
        drafts.extend(ill.map(|(one, trouble)| alarm::destination(&one.name, trouble)));
        drafts.extend(graph.destinations.iter().filter_map(|one| {
            let overflow = one.status.overflow()?;
            Some(alarm::overflow(&one.name, overflow.cause, overflow.since))
        }));
        let trend = lock(self.trend);
        drafts.extend(
            trend
                .growing(Instant::now())
                .map(|loss| alarm::losing(&loss)),
        );
        drop(trend);
        let latency = lock(self.latency);
        drafts.extend(latency.slow().iter().map(alarm::slow));
        drafts.extend(latency.throttled().as_ref().map(alarm::throttled));
        drop(latency);
        let files = lock(self.files);
        let troubles = files.troubles().iter();
        drafts.extend(troubles.map(|(source, trouble)| alarm::files(source, trouble)));
        drop(files);
        let stores = graph.destinations.iter();
        let stores =
            stores.filter_map(|one| Some((&one.name, one.store.as_ref()?.get()?.levels())));
        drafts
            .extend(stores.filter_map(|(name, levels)| alarm::unreadable(name, levels.bad_files)));
        let stores = graph.destinations.iter();
        let stores = stores.filter_map(|one| Some((&one.name, one.store.as_ref()?.get()?)));
        drafts.extend(stores.flat_map(|(name, store)| {
            let (judged, held_back) = store.doubts();
            let room = store.room();
            let short = room.and_then(|room| alarm::store_short(name, &room));
            let clock = alarm::clock_doubted(name, &judged, held_back);
            short.into_iter().chain(clock)
        }));
        for running in &graph.sources {
            let lasting = running.source.lasting_refusals(Timestamp(ledger.at_ns));
            let (name, connections) = (running.name(), &self.topology.services.connections);
            let draft = |one| alarm::refused(name, one, connections.busiest());
            drafts.extend(lasting.iter().map(draft));
            let not_after = running.source.state().certificate_not_after;
            drafts.extend(not_after.and_then(|end| alarm::certificate(name, end)));
        }
        drafts
    }
}

fn sources(graph: &RunningGraph, ledger: &LedgerSnapshot) -> Vec<SourceFlow> {
    let configured = graph.sources.iter().filter_map(|running| {
        let name = running.name();
        Some(source(name, Some(running), ledger.sources.get(name)?))
    });
    let is_configured = |name: &str| graph.sources.iter().any(|one| one.name() == name);
    let gone = ledger
        .sources
        .iter()
        .filter(|(name, _)| !is_configured(name))
        .map(|(name, row)| source(name, None, row));
    configured.chain(gone).collect()
}

fn source(name: &str, running: Option<&RunningSource>, row: &SourceSnapshot) -> SourceFlow {
    SourceFlow {
        name: name.to_owned(),
        type_name: running
            .map_or("", |running| running.config.options().type_name())
            .to_owned(),
        received: row.received,
        accepted: row.accepted,
        rejected: row.rejected.clone(),
        held: row.held,
        kernel_dropped: row.kernel_dropped,
        bytes: row.received_bytes,
        connections: running.map_or(0, |running| running.source.state().connections),
    }
}

fn destinations(
    graph: &RunningGraph,
    troubles: &[Option<DestinationFault>],
    ledger: &LedgerSnapshot,
) -> Vec<DestinationFlow> {
    let configured = graph
        .destinations
        .iter()
        .zip(troubles)
        .filter_map(|(one, trouble)| {
            let row = ledger.destinations.get(&one.name)?;
            Some(destination(one, trouble.as_ref(), row))
        });
    let is_configured = |name: &str| graph.destinations.iter().any(|one| one.name == name);
    let gone = ledger
        .destinations
        .iter()
        .filter(|(name, _)| !is_configured(name))
        .map(|(name, row)| counted(name, row));
    configured.chain(gone).collect()
}

fn destination(
    one: &RunningDestination,
    trouble: Option<&DestinationFault>,
    row: &DestinationSnapshot,
) -> DestinationFlow {
    let request = one.status.request_time();
    DestinationFlow {
        type_name: one.status.kind().to_owned(),
        request_ms: request.map(|time| time.as_secs_f64() * 1000.0),
        state: trouble.map_or(DestinationState::Ok, DestinationFault::state),
        error: trouble.map(DestinationFault::words),
        ..counted(&one.name, row)
    }
}

/// Counters that the ledger has of a destination, as of one that is no longer configured.
fn counted(name: &str, row: &DestinationSnapshot) -> DestinationFlow {
    DestinationFlow {
        name: name.to_owned(),
        type_name: String::new(),
        accepted: row.accepted,
        delivered: row.delivered,
        pending: row.pending,
        quarantined: row.quarantined.clone(),
        dropped: row.dropped.clone(),
        oldest_pending_ms: row.oldest_pending_seconds * 1000.0,
        request_ms: None,
        stored: row.stored.clone(),
        state: DestinationState::Removed,
        error: None,
    }
}

/// In the order of the sources, and of the destinations for each.
fn edges(
    sources: &[SourceFlow],
    destinations: &[DestinationFlow],
    ledger: &LedgerSnapshot,
) -> Vec<EdgeFlow> {
    let pairs = sources.iter().flat_map(|source| {
        destinations
            .iter()
            .map(move |one| (&source.name, &one.name))
    });
    let edge = |(from, to): (&String, &String)| {
        let events = *ledger.destinations.get(to)?.from.get(from)?;
        Some(EdgeFlow {
            from: from.clone(),
            to: to.clone(),
            events,
        })
    };
    pairs.filter_map(edge).collect()
}
