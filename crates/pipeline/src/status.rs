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
//! `SENDERS_LISTED` senders are listed, unparsed ones first, then by last event; `others` sums the
//! rest. A queue without room is an alarm after `BLOCKED_TOO_LONG`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use inrush_event::{Format, LedgerSnapshot, Metric, Timestamp};
use inrush_sink::{ErrorReason, SinkStatus, Store};

use crate::admin::{
    Admin, DestinationStatus, Edge, EdgeKind, Health, OtherSenders, ReloadReport, SenderList,
    SenderStatus, SourceStatus, UnknownStatus,
};
use crate::config::AdminOptions;
use crate::destination::Destination;
use crate::explain;
use crate::flow::{FlowSnapshot, Trouble};
use crate::metrics_page::{MetricsPage, Sample};
use crate::quarantine::{QuarantineList, QuarantineQuery, ReplayReport};
use crate::queue;
use crate::senders::{Others, Sender};
use crate::source::Source;
use crate::topology::{RunningSource, Shared};
use crate::udp::UdpWorker;
use crate::zones;

/// A queue that is full for a moment is back-pressure at work; for this long it is an alarm.
const BLOCKED_TOO_LONG: Duration = Duration::from_secs(5);

/// Senders that one answer lists.
const SENDERS_LISTED: usize = 10_000;

impl Shared {
    /// The ledger with the kernel's drops and the oldest pending events brought up to date.
    pub(crate) fn ledger_now(&self) -> LedgerSnapshot {
        self.live_sources()
            .iter()
            .for_each(|source| source.count_kernel_drops());
        self.log.measure_oldest();
        self.ledger.snapshot()
    }

    /// True if a thread that reads for this source has ended.
    pub(crate) fn is_dead(&self, running: &RunningSource) -> bool {
        let dead_udp = running
            .listeners
            .iter()
            .any(|listener| listener.udp.iter().any(UdpWorker::ended));
        dead_udp || self.dead_workers()
    }

    /// Since when sources wait for room, if that is long enough to be an alarm.
    pub(crate) fn blocked_since(&self) -> Option<Timestamp> {
        self.log.blocked_since().filter(|at| {
            Timestamp::now().0.saturating_sub(at.0) >= BLOCKED_TOO_LONG.as_nanos() as i64
        })
    }

    /// Fault of a destination, if it has one.
    pub(crate) fn trouble(&self, destination: &Destination) -> Option<Trouble> {
        let status = &destination.status;
        if destination.ended() {
            return Some(Trouble::Ended);
        }
        if !status.healthy() {
            return Some(Trouble::Failing {
                since: status.since(),
                error: status.last_error(),
            });
        }
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let since = progress.stalled_since(&destination.name)?;
        Some(Trouble::Stalled { since })
    }

    fn source_edge(&self, running: &RunningSource) -> Edge {
        let blocked = self.blocked_since();
        let reason = if self.is_dead(running) {
            Some("a reading thread ended by a fault; restart, and report what the log says")
        } else if blocked.is_some() {
            Some("the queue is full: reading waits until a destination takes events again")
        } else {
            None
        };
        Edge {
            name: running.source.name.clone(),
            kind: EdgeKind::Source,
            ok: reason.is_none(),
            since_ns: blocked.map(|at| at.0),
            reason: reason.map(str::to_owned),
        }
    }

    fn destination_edge(&self, destination: &Destination) -> Edge {
        let trouble = self.trouble(destination);
        let since = trouble.as_ref().and_then(Trouble::since);
        Edge {
            name: destination.name.clone(),
            kind: EdgeKind::Destination,
            ok: trouble.is_none(),
            since_ns: since.map(|at| at.0),
            reason: trouble.map(|trouble| trouble.words()),
        }
    }
}

impl Admin for Shared {
    fn ledger(&self) -> LedgerSnapshot {
        self.ledger_now()
    }

    fn health(&self) -> Health {
        let graph = self.graph();
        let sources = graph
            .sources
            .iter()
            .map(|running| self.source_edge(running));
        let destinations = graph
            .destinations
            .iter()
            .map(|one| self.destination_edge(one));
        let queue = std::iter::once(queue::edge(&self.log));
        let edges: Vec<Edge> = sources.chain(queue).chain(destinations).collect();
        Health {
            healthy: edges.iter().all(|edge| edge.ok),
            edges,
        }
    }

    fn sources(&self) -> Vec<SourceStatus> {
        self.graph().sources.iter().map(source_status).collect()
    }

    fn destinations(&self) -> Vec<DestinationStatus> {
        self.graph()
            .destinations
            .iter()
            .map(destination_status)
            .collect()
    }

    fn senders(&self) -> SenderList {
        let sources: Vec<Arc<Source>> = self.live_sources();
        let mut all: Vec<(&str, IpAddr, Sender)> = Vec::new();
        let mut others: BTreeMap<&str, Others> = BTreeMap::new();
        for source in &sources {
            let (senders, gone) = source.all_senders();
            others.insert(&source.name, gone);
            let named = |(ip, sender)| (source.name.as_str(), ip, sender);
            all.extend(senders.into_iter().map(named));
        }
        all.sort_by_key(|(_, _, sender)| {
            let known = sender.format != Format::Unparsed;
            (known, std::cmp::Reverse(sender.last_seen))
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
        self.live_stores()
    }

    fn held_stores(&self) -> Vec<(String, String)> {
        Self::held_stores(self)
    }

    fn flow(&self) -> FlowSnapshot {
        self.flow_now()
    }

    fn explain(&self, source: Option<&str>, record: &[u8]) -> Result<Vec<u8>, String> {
        let config = self.graph().config.clone();
        explain::datagram_to_json(&config, source, record)
    }

    fn unknown(&self) -> Vec<UnknownStatus> {
        let graph = self.graph();
        let (config, packs) = (graph.config.clone(), Arc::clone(&graph.recognition.packs));
        drop(graph);
        explain::unknown(&config, &packs, self.unknown_kinds().list())
    }

    fn reload(&self) -> Result<ReloadReport, Vec<String>> {
        Shared::reload(self)
    }

    fn quarantine(&self, query: &QuarantineQuery) -> Result<QuarantineList, String> {
        self.quarantine.list(query)
    }

    fn replay(&self, query: &QuarantineQuery) -> Result<ReplayReport, String> {
        let filter = query.filter()?;
        let graph = self.graph();
        let configured: Vec<String> = graph.config.destinations.keys().cloned().collect();
        drop(graph);
        let is_configured = |name: &str| configured.iter().any(|one| one == name);
        self.quarantine.replay(&self.log, &filter, is_configured)
    }

    fn drop_quarantined(&self, query: &QuarantineQuery) -> Result<u64, String> {
        self.quarantine.drop_entries(&query.filter()?)
    }

    fn admin_options(&self) -> AdminOptions {
        self.graph().config.admin.clone()
    }

    fn metrics(&self) -> Vec<Sample> {
        let mut page = MetricsPage::default();
        let ledger = self.ledger_now();
        page.ledger(&ledger);
        let failures = self.graph().recognition.failures.counts();
        for (rule, n) in &failures {
            page.add(Metric::ExpressionFailures, vec![("rule", rule)], *n as f64);
        }
        for running in &self.graph().sources {
            page.source(running);
        }
        for destination in &self.graph().destinations {
            page.destination(destination);
        }
        if let Some(names) = self.live_names() {
            names.metrics(&mut page);
        }
        queue::metrics(&self.log, &mut page);
        for (name, store) in &self.live_stores() {
            page.store(name, store);
        }
        let (bytes, bytes_max) = self.quarantine.log.bytes();
        page.add(Metric::QuarantineBytes, vec![], bytes as f64);
        page.add(Metric::QuarantineBytesMax, vec![], bytes_max as f64);
        for (result, counter) in [("ok", &self.reloads), ("failed", &self.reload_failures)] {
            page.add(
                Metric::Reloads,
                vec![("result", result)],
                counter.get() as f64,
            );
        }
        for (metric, value) in [
            (Metric::DescriptorsMax, self.places.limit()),
            (Metric::DescriptorsReserved, self.places.reserved()),
            (Metric::ConnectionsMax, self.places.connections_max()),
        ] {
            page.add(metric, vec![], value as f64);
        }
        page.add(Metric::ProcessStart, vec![], self.started.0 as f64 / 1e9);
        page.into_samples()
    }
}

fn source_status(running: &RunningSource) -> SourceStatus {
    let source = &running.source;
    let (sockets, receive_buffer_bytes) = source.sockets();
    let refusals = source.refusals();
    let (refused, refused_others) = (refusals.list(), refusals.others());
    drop(refusals);
    SourceStatus {
        name: source.name.clone(),
        type_name: "syslog".to_owned(),
        listeners: running
            .listeners
            .iter()
            .map(|listener| listener.bound.to_string())
            .collect(),
        connections: source.connections.get(),
        sockets,
        receive_buffer_bytes,
        certificate_not_after: source.settings().1.tls.as_ref().map(|tls| tls.not_after()),
        anomalies: source.anomaly_counts(),
        cut_bytes: source.cut_bytes(),
        connection_errors: source.connection_errors(),
        refused,
        refused_others,
    }
}

fn sender_status(source: &str, ip: IpAddr, sender: &Sender, now: Timestamp) -> SenderStatus {
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
        zone_guessed: sender.zone_guessed.map(zones::offset),
        recognised: sender.format.name(),
        unknown: sender.format == Format::Unparsed,
        sample: sample.map(|text| text.into_owned()),
        source: source.to_owned(),
    }
}

fn other_senders(source: &str, others: &Others) -> OtherSenders {
    OtherSenders {
        source: source.to_owned(),
        senders: others.senders,
        events: others.events,
        bytes: others.bytes,
        last_seen_ms: others.last_seen.0 / 1_000_000,
    }
}

fn destination_status(destination: &Destination) -> DestinationStatus {
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
        errors: error_counts(status),
        requests: status.requests(),
        rerouted: status.rerouted(),
        overflow: status.overflow_events(),
        concurrency: status.concurrency(),
        bytes: status.bytes_sent(),
        retried: destination.counters.retried.get(),
    }
}

fn error_counts(status: &SinkStatus) -> BTreeMap<String, u64> {
    ErrorReason::ALL
        .iter()
        .map(|reason| (reason.name().to_owned(), status.errors(*reason)))
        .filter(|(_, n)| *n > 0)
        .collect()
}

impl MetricsPage {
    fn store(&mut self, name: &str, store: &Store) {
        let (levels, done) = (store.levels(), &store.counters);
        for (metric, value) in [
            (Metric::StoreFiles, levels.files),
            (Metric::StoreFileBytes, levels.file_bytes),
            (Metric::StoreEvents, levels.events),
            (Metric::StoreTailEvents, levels.tail_events),
            (Metric::StoreBadFiles, levels.bad_files),
            (Metric::StoreWritten, done.events.get()),
            (Metric::StoreWrittenText, done.text_bytes.get()),
            (Metric::StoreWrittenBytes, done.file_bytes.get()),
            (Metric::StoreCompacted, done.compacted.get()),
            (Metric::StoreRepeated, done.repeated.get()),
        ] {
            self.add(metric, vec![("destination", name)], value as f64);
        }
        let account = store.account();
        let room = store.room().unwrap_or_default();
        let off_s = store.doubts().0.off_ns as f64 / 1e9;
        for (metric, value) in [
            (Metric::StoreUnreadable, account.unreadable as f64),
            (Metric::StoreSearchable, account.searchable as f64),
            (Metric::StoreRoomFree, room.free as f64),
            (Metric::StoreRoomWanted, (room.least + room.claimed) as f64),
            (Metric::StoreClockOff, off_s),
        ] {
            self.add(metric, vec![("destination", name)], value);
        }
        for (quantile, lag) in done.lag() {
            let labels = vec![("destination", name), ("quantile", quantile)];
            self.add(Metric::StoreLag, labels, lag.as_secs_f64());
        }
        for (reason, events) in inrush_sink::REASONS.iter().zip(&done.expired) {
            let labels = vec![("destination", name), ("reason", *reason)];
            self.add(Metric::StoreExpired, labels, events.get() as f64);
        }
    }

    fn ledger(&mut self, ledger: &LedgerSnapshot) {
        for (name, row) in &ledger.sources {
            let labels = || vec![("source", name.as_str())];
            self.add(Metric::SourceReceived, labels(), row.received as f64);
            self.add(
                Metric::SourceReceivedBytes,
                labels(),
                row.received_bytes as f64,
            );
            self.add(Metric::SourceAccepted, labels(), row.accepted as f64);
            self.add(Metric::SourceHeld, labels(), row.held as f64);
            self.add(
                Metric::SourceKernelDropped,
                labels(),
                row.kernel_dropped as f64,
            );
            for (reason, n) in &row.rejected {
                let labels = vec![("source", name.as_str()), ("reason", reason.as_str())];
                self.add(Metric::SourceRejected, labels, *n as f64);
            }
            for (reason, n) in &row.cut_bytes {
                let labels = vec![("source", name.as_str()), ("reason", reason.as_str())];
                self.add(Metric::SourceCutBytes, labels, *n as f64);
            }
        }
        for (rule, n) in &ledger.filtered {
            self.add(Metric::Filtered, vec![("rule", rule.as_str())], *n as f64);
        }
        for (name, row) in &ledger.destinations {
            let labels = || vec![("destination", name.as_str())];
            let oldest = row.oldest_pending_seconds;
            self.add(Metric::DestinationAccepted, labels(), row.accepted as f64);
            self.add(Metric::DestinationDelivered, labels(), row.delivered as f64);
            self.add(Metric::DestinationPending, labels(), row.pending as f64);
            self.add(Metric::DestinationOldestPending, labels(), oldest);
            for (metric, reasons) in [
                (Metric::DestinationQuarantined, &row.quarantined),
                (Metric::DestinationDropped, &row.dropped),
            ] {
                for (reason, n) in reasons {
                    let labels = vec![("destination", name.as_str()), ("reason", reason.as_str())];
                    self.add(metric, labels, *n as f64);
                }
            }
        }
        self.add(
            Metric::LedgerBalanced,
            vec![],
            f64::from(u8::from(ledger.balanced)),
        );
    }

    fn source(&mut self, running: &RunningSource) {
        let source = &running.source;
        let name = source.name.as_str();
        let labels = || vec![("source", name)];
        let accepted = source.connections_accepted.get();
        self.add(
            Metric::SourceConnections,
            labels(),
            source.connections.get() as f64,
        );
        self.add(Metric::SourceConnectionsAccepted, labels(), accepted as f64);
        let unrecognised = source.unrecognised.get();
        self.add(Metric::SourceUnrecognised, labels(), unrecognised as f64);
        for (metric, counter) in [
            (Metric::SourceShared, &source.shared),
            (Metric::SourceSharedBatches, &source.shared_batches),
            (Metric::SourceSharedLate, &source.shared_late),
        ] {
            self.add(metric, labels(), counter.get() as f64);
        }
        self.add(
            Metric::SourceReceiveBuffer,
            labels(),
            source.sockets().1 as f64,
        );
        for (reason, n) in source.connection_errors() {
            let labels = vec![("source", name), ("reason", reason.as_str())];
            self.add(Metric::SourceConnectionErrors, labels, n as f64);
        }
        for (anomaly, n) in source.anomaly_counts() {
            let labels = vec![("source", name), ("anomaly", anomaly.as_str())];
            self.add(Metric::SourceAnomalies, labels, n as f64);
        }
        for (change, n) in source.zones.counts() {
            let labels = vec![("source", name), ("change", change)];
            self.add(Metric::ZoneGuesses, labels, n as f64);
        }
        if let Some(tls) = &source.settings().1.tls {
            self.add(
                Metric::TlsCertificateNotAfter,
                labels(),
                tls.not_after() as f64,
            );
            for (result, counter) in [
                ("ok", &source.tls_reloads),
                ("failed", &source.tls_reload_failures),
            ] {
                let labels = vec![("source", name), ("result", result)];
                self.add(Metric::TlsReloads, labels, counter.get() as f64);
            }
        }
    }

    fn destination(&mut self, destination: &Destination) {
        let name = destination.name.as_str();
        let counters = &destination.counters;
        let labels = || vec![("destination", name)];
        let bytes = counters.delivered_bytes.get();
        self.add(Metric::DestinationDeliveredBytes, labels(), bytes as f64);
        self.add(
            Metric::DestinationRetried,
            labels(),
            counters.retried.get() as f64,
        );
        let overflow = destination.status.overflow_events();
        self.add(Metric::DestinationOverflow, labels(), overflow as f64);
        if let Some(requests) = destination.status.concurrency() {
            self.add(Metric::DestinationConcurrency, labels(), requests.into());
        }
        for (index, n) in destination.status.rerouted() {
            let labels = vec![("destination", name), ("index", index.as_str())];
            self.add(Metric::DestinationRerouted, labels, n as f64);
        }
        for (reason, n) in error_counts(&destination.status) {
            let labels = vec![("destination", name), ("reason", reason.as_str())];
            self.add(Metric::DestinationErrors, labels, n as f64);
        }
    }
}
