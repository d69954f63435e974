//! Admin interface of the running pipeline: health, sources, destinations, senders and metrics.
//!
//! # What it guarantees
//! * Ledger, senders, stores and quarantined entries are listed without the lock of the graph. Most
//!   other answers may wait for a reload.
//! * An explanation copies the configuration and releases the graph before it works.
//! * A ledger includes the kernel's drops of this moment.
//! * A source is unhealthy after its UDP thread, any stream worker or the acceptor has ended.
//!
//! # Limits
//! `SENDERS_LISTED` senders are listed, unknown ones first, then by last event; `others` sums the
//! rest. A queue without room is an alarm after `BLOCKED_TOO_LONG`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use inrush_config::{AdminOptions, HealthOptions};
use inrush_event::{LedgerSnapshot, Metric, MetricSample, MetricsPage, Timestamp};
use inrush_ingest::sender_table::{EvictedSenders, SenderState};
use inrush_ingest::timezone;
use inrush_inspect::explain;
use inrush_inspect::explain::UnknownStatus;
use inrush_pipeline::ReloadReport;
use inrush_pipeline::destination::RunningDestination;
use inrush_pipeline::quarantine::{QuarantineList, QuarantineQuery, ReplayReport};
use inrush_pipeline::topology::{Observer, RunningGraph, RunningSource, Topology};
use inrush_queue::Log;
use inrush_sink::Store;
use inrush_source::Source;

use crate::admin::{
    Admin, DestinationStatus, EdgeHealth, EdgeKind, HealthReport, HealthVerdict, OtherSenders,
    SenderList, SenderStatus, SourceStatus,
};
use crate::doors::{self, DoorList};
use crate::file_trend::{self, FileTrend};
use crate::files::{self, FileList};
use crate::latency::{LatencySample, LatencyTrend};
use crate::metrics;
use crate::overview::{DestinationFault, FlowSnapshot, SnapshotSource};
use crate::snapshot_state::SnapshotState;
use crate::trend::Trend;
use crate::verdict;

/// Senders that one answer lists.
const SENDERS_LISTED: usize = 10_000;

/// Tells the state of a running pipeline: to the admin API, and in alarms.
pub struct StatusReporter {
    pub(crate) topology: Arc<Topology>,
    /// Noted once a second; never held over anything else.
    pub(crate) trend: Mutex<Trend>,
    /// Noted every few seconds; never held over anything else.
    pub(crate) latency: Mutex<LatencyTrend>,
    /// Noted every few seconds; never held over anything else.
    pub(crate) files: Mutex<FileTrend>,
    /// Held while a snapshot is gathered. Order: this, then the graph, then the trend.
    pub(crate) snapshots: Mutex<SnapshotState>,
}

impl Observer for StatusReporter {
    fn tick(&self, ledger: &LedgerSnapshot) {
        let log = &self.topology.log;
        let (levels, backlogs) = (log.levels(), log.backlogs());
        let mut trend = self.trend.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        trend.note(ledger, &levels, &backlogs, now);
        drop(trend);
        let mut latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        if latency.is_due(now)
            // A reload has it: the next second does as well.
            && let Some(graph) = self.topology.graph_if_free()
        {
            let sample = LatencySample::of(&graph);
            drop(graph);
            latency.note(sample, now);
        }
        drop(latency);
        self.note_files(now);
    }
}

impl StatusReporter {
    /// A reporter of what runs, which it observes from now on.
    pub fn new(topology: &Arc<Topology>) -> Arc<Self> {
        let reporter = Arc::new(Self {
            topology: Arc::clone(topology),
            trend: Mutex::default(),
            latency: Mutex::default(),
            files: Mutex::default(),
            snapshots: Mutex::new(SnapshotState::open()),
        });
        let observer: Weak<dyn Observer> =
            Arc::downgrade(&(Arc::clone(&reporter) as Arc<dyn Observer>));
        topology.observe(observer);
        reporter
    }

    fn note_files(&self, now: Instant) {
        let lock_files = || self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if !lock_files().is_due(now) {
            return;
        }
        let sources = self.topology.live_sources();
        let listing = |source: &Arc<dyn Source>| {
            let listing = source.files(file_trend::ROWS)?;
            Some((source.ingest().name.clone(), listing))
        };
        let listings: Vec<_> = sources.iter().filter_map(listing).collect();
        lock_files().note(&listings, Timestamp::now(), now);
        let mut trend = self.trend.lock().unwrap_or_else(PoisonError::into_inner);
        for (source, listing) in &listings {
            trend.note_files(source, listing, now);
        }
    }

    fn source_edge(&self, running: &RunningSource) -> EdgeHealth {
        let blocked = self.topology.blocked_since();
        let reason = if running.source.is_dead() {
            Some("a reading thread ended by a fault; restart, and report what the log says")
        } else if blocked.is_some() {
            Some("the queue is full: reading waits until a destination takes events again")
        } else {
            None
        };
        EdgeHealth {
            name: running.name().to_owned(),
            kind: EdgeKind::Source,
            ok: reason.is_none(),
            since_ns: blocked.map(|at| at.0),
            reason: reason.map(str::to_owned),
        }
    }

    fn destination_edge(&self, destination: &RunningDestination) -> EdgeHealth {
        let trouble = DestinationFault::of(&self.topology, destination);
        let since = trouble.as_ref().and_then(DestinationFault::since);
        EdgeHealth {
            name: destination.name.clone(),
            kind: EdgeKind::Destination,
            ok: trouble.is_none(),
            since_ns: since.map(|at| at.0),
            reason: trouble.map(|trouble| trouble.words()),
        }
    }

    /// Health of every edge of `graph`.
    fn health_of(&self, graph: &RunningGraph) -> HealthReport {
        let sources = graph
            .sources
            .iter()
            .map(|running| self.source_edge(running));
        let destinations = graph
            .destinations
            .iter()
            .map(|one| self.destination_edge(one));
        let queue = std::iter::once(queue_edge(&self.topology.log));
        let edges: Vec<EdgeHealth> = sources.chain(queue).chain(destinations).collect();
        HealthReport {
            healthy: edges.iter().all(|edge| edge.ok),
            edges,
        }
    }
}

impl Admin for StatusReporter {
    fn ledger(&self) -> LedgerSnapshot {
        self.topology.ledger_now()
    }

    fn health(&self) -> HealthReport {
        self.health_of(&self.topology.graph())
    }

    fn verdict(&self) -> Option<HealthVerdict> {
        let graph = self.topology.graph_if_free()?;
        let edges = self.health_of(&graph).edges;
        let options = graph.config.health.clone();
        drop(graph);
        let bounded = options.filter(|one| one.max_age.is_some() || one.max_backlog.is_some());
        let within = bounded
            .is_none_or(|options| verdict::within(&options, &self.topology.ledger.snapshot()));
        Some(HealthVerdict::of(&edges, within))
    }

    fn health_options(&self) -> Option<HealthOptions> {
        self.topology.graph().config.health.clone()
    }

    fn sources(&self) -> Vec<SourceStatus> {
        self.topology
            .graph()
            .sources
            .iter()
            .map(source_status)
            .collect()
    }

    fn doors(&self) -> DoorList {
        doors::list(&self.topology.graph().sources)
    }

    fn files(&self) -> FileList {
        files::list(&self.topology.live_sources())
    }

    fn destinations(&self) -> Vec<DestinationStatus> {
        self.topology
            .graph()
            .destinations
            .iter()
            .map(destination_status)
            .collect()
    }

    fn senders(&self) -> SenderList {
        let sources = self.topology.live_sources();
        let mut all: Vec<(&str, IpAddr, SenderState)> = Vec::new();
        let mut others: BTreeMap<&str, EvictedSenders> = BTreeMap::new();
        for source in &sources {
            let ingest = source.ingest();
            let (senders, gone) = ingest.all_senders();
            others.insert(&ingest.name, gone);
            let named = |(ip, sender)| (ingest.name.as_str(), ip, sender);
            all.extend(senders.into_iter().map(named));
        }
        all.sort_by_key(|(_, _, sender)| {
            (!sender.is_unknown(), std::cmp::Reverse(sender.last_seen))
        });
        for (source, _, sender) in all.drain(all.len().min(SENDERS_LISTED)..) {
            others.entry(source).or_default().add(&sender);
        }
        let now = Timestamp::now();
        let senders = all.iter();
        let senders = senders.map(|(source, ip, sender)| sender_status(source, *ip, sender, now));
        let others = others.iter().filter(|(_, others)| others.senders > 0);
        SenderList {
            senders: senders.collect(),
            others: others
                .map(|(source, others)| other_senders(source, others))
                .collect(),
        }
    }

    fn stores(&self) -> Vec<(String, Arc<Store>)> {
        self.topology.live_stores()
    }

    fn held_stores(&self) -> Vec<(String, String)> {
        self.topology.held_stores()
    }

    fn flow(&self) -> FlowSnapshot {
        let source = SnapshotSource {
            topology: &self.topology,
            trend: &self.trend,
            latency: &self.latency,
            files: &self.files,
            state: &self.snapshots,
        };
        source.snapshot()
    }

    fn explain(&self, source: Option<&str>, record: &[u8]) -> Result<Vec<u8>, String> {
        let config = self.topology.graph().config.clone();
        explain::datagram_to_json(&config, source, record)
    }

    fn unknown(&self) -> Vec<UnknownStatus> {
        let graph = self.topology.graph();
        let (config, packs) = (graph.config.clone(), Arc::clone(&graph.recognition.packs));
        drop(graph);
        explain::unknown(&config, &packs, self.topology.unknown_kinds().list())
    }

    fn reload(&self) -> Result<ReloadReport, Vec<String>> {
        self.topology.reload()
    }

    fn quarantine(&self, query: &QuarantineQuery) -> Result<QuarantineList, String> {
        self.topology.quarantine.list(query)
    }

    fn replay(&self, query: &QuarantineQuery) -> Result<ReplayReport, String> {
        let filter = query.filter()?;
        let graph = self.topology.graph();
        let configured: Vec<String> = graph.config.destinations.keys().cloned().collect();
        drop(graph);
        let is_configured = |name: &str| configured.iter().any(|one| one == name);
        self.topology
            .quarantine
            .replay(&self.topology.log, &filter, is_configured)
    }

    fn drop_quarantined(&self, query: &QuarantineQuery) -> Result<u64, String> {
        self.topology.quarantine.drop_entries(&query.filter()?)
    }

    fn admin_options(&self) -> AdminOptions {
        self.topology.graph().config.admin.clone()
    }

    fn metrics(&self) -> Vec<MetricSample> {
        let mut page = MetricsPage::default();
        let ledger = self.topology.ledger_now();
        metrics::ledger(&mut page, &ledger);
        let failures = self.topology.graph().recognition.failures.counts();
        for (rule, n) in &failures {
            page.add(Metric::ExpressionFailures, vec![("rule", rule)], *n as f64);
        }
        for running in &self.topology.graph().sources {
            metrics::source(&mut page, running);
        }
        for destination in &self.topology.graph().destinations {
            metrics::destination(&mut page, destination);
        }
        if let Some(names) = self.topology.live_names() {
            names.metrics(&mut page);
        }
        if let Some(dns) = self.topology.live_dns() {
            dns.metrics(&mut page);
        }
        metrics::queue(&mut page, &self.topology.log);
        metrics::cpu(&mut page);
        for (name, store) in &self.topology.live_stores() {
            metrics::store(&mut page, name, store);
        }
        let (bytes, bytes_max) = self.topology.quarantine.log.bytes();
        page.add(Metric::QuarantineBytes, vec![], bytes as f64);
        page.add(Metric::QuarantineBytesMax, vec![], bytes_max as f64);
        for (result, counter) in [
            ("ok", &self.topology.reloads),
            ("failed", &self.topology.reload_failures),
        ] {
            page.add(
                Metric::Reloads,
                vec![("result", result)],
                counter.get() as f64,
            );
        }
        let connections = &self.topology.services.connections;
        for (metric, value) in [
            (Metric::DescriptorsMax, connections.limit()),
            (Metric::DescriptorsReserved, connections.reserved()),
            (Metric::ConnectionsMax, connections.connections_max()),
        ] {
            page.add(metric, vec![], value as f64);
        }
        page.add(
            Metric::ProcessStart,
            vec![],
            self.topology.started.0 as f64 / 1e9,
        );
        let started = self.topology.started;
        metrics::process(&mut page, started, connections.limit());
        page.into_samples()
    }
}

fn source_status(running: &RunningSource) -> SourceStatus {
    let (source, ingest) = (&running.source, running.source.ingest());
    let state = source.state();
    let listeners = source.listeners();
    SourceStatus {
        name: ingest.name.clone(),
        type_name: running.config.options().type_name().to_owned(),
        listeners: listeners.iter().map(ToString::to_string).collect(),
        connections: state.connections,
        sockets: state.sockets,
        receive_buffer_bytes: state.receive_buffer_bytes,
        certificate_not_after: state.certificate_not_after,
        anomalies: ingest.anomaly_counts(),
        cut_bytes: ingest.cut_bytes(),
        connection_errors: state.connection_errors,
        refused: state.refused,
        refused_others: state.refused_others,
    }
}

fn sender_status(source: &str, ip: IpAddr, sender: &SenderState, now: Timestamp) -> SenderStatus {
    const MS: i64 = 1_000_000;
    let sample = sender.sample().map(String::from_utf8_lossy);
    SenderStatus {
        ip,
        first_seen_ns: sender.first_seen.0,
        last_seen_ns: sender.last_seen.0,
        first_seen_ms: sender.first_seen.0 / MS,
        last_seen_ms: sender.last_seen.0 / MS,
        silent_s: now.0.saturating_sub(sender.last_seen.0).max(0) as f64 / 1e9,
        events: sender.events,
        bytes: sender.bytes,
        rate: sender.rate(now),
        clock_skew_ms: sender.skew_ns.map(|skew| skew as f64 / MS as f64),
        zone_guessed: sender.zone_guessed.map(timezone::offset),
        format: sender.format.name(),
        recognised: sender
            .products
            .iter()
            .map(|name| name.to_string())
            .collect(),
        unrecognised: sender.unrecognised,
        unknown: sender.is_unknown(),
        sample: sample.map(|text| text.into_owned()),
        source: source.to_owned(),
    }
}

fn other_senders(source: &str, others: &EvictedSenders) -> OtherSenders {
    OtherSenders {
        source: source.to_owned(),
        senders: others.senders,
        events: others.events,
        bytes: others.bytes,
        last_seen_ms: others.last_seen.0 / 1_000_000,
    }
}

fn destination_status(destination: &RunningDestination) -> DestinationStatus {
    let status = &destination.status;
    let last_error = status.last_error();
    let last_success = status.last_success();
    DestinationStatus {
        name: destination.name.clone(),
        type_name: status.kind().to_owned(),
        healthy: status.healthy(),
        last_error_at_ns: last_error.as_ref().map(|error| error.at.0),
        last_error: last_error.map(|error| error.text),
        last_success_at_ns: last_success.is_some().then_some(last_success.0),
        errors: metrics::error_counts(status),
        requests: status.requests(),
        rerouted: status.rerouted(),
        overflow: status.overflow_events(),
        concurrency: status.concurrency(),
        bytes: status.bytes_sent(),
        retried: destination.counters.retried.get(),
    }
}

/// Health of the queue: ok unless it is stalled, with the reason.
fn queue_edge(log: &Log) -> EdgeHealth {
    let stall = log.levels().stall;
    EdgeHealth {
        name: "queue".to_owned(),
        kind: EdgeKind::Queue,
        ok: stall.is_none(),
        since_ns: stall.as_ref().map(|stall| stall.since.0),
        reason: stall.map(|stall| stall.text),
    }
}
