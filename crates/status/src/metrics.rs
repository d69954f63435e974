//! Metrics of the ledger, of sources, destinations and stores, for the page that Prometheus reads.

use std::collections::BTreeMap;
use std::path::Path;

use inrush_event::{
    CutReason, DropReason, LedgerSnapshot, Metric, MetricsPage, RefuseReason, RejectReason,
    Timestamp, UpstreamLoss,
};
use inrush_host::{CpuThrottling, OwnProcess};
use inrush_pipeline::destination::RunningDestination;
use inrush_pipeline::topology::RunningSource;
use inrush_queue::Log;
use inrush_sink::{ErrorReason, SinkStatus, Store};

/// Adds the metrics of an embedded store.
pub(crate) fn store(page: &mut MetricsPage, name: &str, store: &Store) {
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
        page.add(metric, vec![("destination", name)], value as f64);
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
        page.add(metric, vec![("destination", name)], value);
    }
    page.add_histogram(Metric::StoreLag, &[("destination", name)], &done.lag());
    for (reason, events) in inrush_sink::REASONS.iter().zip(&done.expired) {
        let labels = vec![("destination", name), ("reason", *reason)];
        page.add(Metric::StoreExpired, labels, events.get() as f64);
    }
}

/// Adds a counter for each reason, those that never happened with 0: a series that begins with its
/// first event hides that event from `rate()`.
fn by_reason(
    page: &mut MetricsPage,
    metric: Metric,
    own: (&'static str, &str),
    reasons: impl Iterator<Item = &'static str>,
    counts: &BTreeMap<String, u64>,
) {
    for reason in reasons {
        let count = counts.get(reason).copied().unwrap_or(0);
        page.add(metric, vec![own, ("reason", reason)], count as f64);
    }
}

/// Adds what the ledger counts.
pub(crate) fn ledger(page: &mut MetricsPage, ledger: &LedgerSnapshot) {
    for (name, row) in &ledger.sources {
        let labels = || vec![("source", name.as_str())];
        page.add(Metric::SourceReceived, labels(), row.received as f64);
        page.add(
            Metric::SourceReceivedBytes,
            labels(),
            row.received_bytes as f64,
        );
        page.add(Metric::SourceAccepted, labels(), row.accepted as f64);
        page.add(Metric::SourceHeld, labels(), row.held as f64);
        page.add(
            Metric::SourceKernelDropped,
            labels(),
            row.kernel_dropped as f64,
        );
        let upstream = UpstreamLoss::ALL.iter().map(|reason| reason.name());
        let rejected = RejectReason::ALL.iter().map(|reason| reason.name());
        let cut = CutReason::ALL.iter().map(|reason| reason.name());
        let own = ("source", name.as_str());
        by_reason(
            page,
            Metric::SourceLostUpstream,
            own,
            upstream,
            &row.lost_upstream,
        );
        by_reason(page, Metric::SourceRejected, own, rejected, &row.rejected);
        by_reason(page, Metric::SourceCutBytes, own, cut, &row.cut_bytes);
    }
    for (rule, n) in &ledger.filtered {
        page.add(Metric::Filtered, vec![("rule", rule.as_str())], *n as f64);
    }
    for (name, row) in &ledger.destinations {
        let labels = || vec![("destination", name.as_str())];
        let oldest = row.oldest_pending_seconds;
        page.add(Metric::DestinationAccepted, labels(), row.accepted as f64);
        page.add(Metric::DestinationDelivered, labels(), row.delivered as f64);
        page.add(Metric::DestinationPending, labels(), row.pending as f64);
        page.add(Metric::DestinationOldestPending, labels(), oldest);
        let refused = RefuseReason::ALL.iter().map(|reason| reason.name());
        let dropped = DropReason::ALL.iter().map(|reason| reason.name());
        let own = ("destination", name.as_str());
        by_reason(
            page,
            Metric::DestinationQuarantined,
            own,
            refused,
            &row.quarantined,
        );
        by_reason(page, Metric::DestinationDropped, own, dropped, &row.dropped);
    }
    page.add(
        Metric::LedgerBalanced,
        vec![],
        f64::from(u8::from(ledger.balanced)),
    );
}

/// Adds the metrics of a source.
pub(crate) fn source(page: &mut MetricsPage, running: &RunningSource) {
    let ingest = running.source.ingest();
    let name = ingest.name.as_str();
    let labels = || vec![("source", name)];
    let unrecognised = ingest.unrecognised.get();
    page.add(Metric::SourceUnrecognised, labels(), unrecognised as f64);
    for (metric, counter) in [
        (Metric::SourceShared, &ingest.shared),
        (Metric::SourceSharedBatches, &ingest.shared_batches),
        (Metric::SourceSharedLate, &ingest.shared_late),
    ] {
        page.add(metric, labels(), counter.get() as f64);
    }
    for (anomaly, n) in ingest.anomaly_counts() {
        let labels = vec![("source", name), ("anomaly", anomaly.as_str())];
        page.add(Metric::SourceAnomalies, labels, n as f64);
    }
    for (change, n) in ingest.zones.counts() {
        let labels = vec![("source", name), ("change", change)];
        page.add(Metric::ZoneGuesses, labels, n as f64);
    }
    let lags = ingest.receive_lag.snapshot();
    page.add_histogram(Metric::ReceiveLag, &[("source", name)], &lags);
    if let Some(times) = running.source.request_times() {
        page.add_histogram(Metric::RequestTime, &[("source", name)], &times);
    }
    running.source.metrics(page);
}

/// Adds the metrics of a destination.
pub(crate) fn destination(page: &mut MetricsPage, destination: &RunningDestination) {
    let name = destination.name.as_str();
    let counters = &destination.counters;
    let labels = || vec![("destination", name)];
    let bytes = counters.delivered_bytes.get();
    page.add(Metric::DestinationDeliveredBytes, labels(), bytes as f64);
    page.add(
        Metric::DestinationRetried,
        labels(),
        counters.retried.get() as f64,
    );
    let overflow = destination.status.overflow_events();
    page.add(Metric::DestinationOverflow, labels(), overflow as f64);
    if let Some(requests) = destination.status.concurrency() {
        page.add(Metric::DestinationConcurrency, labels(), requests.into());
    }
    for (source, lags) in counters.lags() {
        let labels = [("source", source.as_str()), ("destination", name)];
        page.add_histogram(Metric::EventLag, &labels, &lags);
    }
    let times = destination.status.request_times();
    if times.count() > 0 {
        page.add_histogram(Metric::RequestTime, &[("destination", name)], &times);
    }
    for (index, n) in destination.status.rerouted() {
        let labels = vec![("destination", name), ("index", index.as_str())];
        page.add(Metric::DestinationRerouted, labels, n as f64);
    }
    for reason in ErrorReason::ALL {
        let labels = vec![("destination", name), ("reason", reason.name())];
        let errors = destination.status.errors(*reason);
        page.add(Metric::DestinationErrors, labels, errors as f64);
    }
}

/// Failed attempts of a destination by reason, without those that never happened.
pub(crate) fn error_counts(status: &SinkStatus) -> BTreeMap<String, u64> {
    ErrorReason::ALL
        .iter()
        .map(|reason| (reason.name().to_owned(), status.errors(*reason)))
        .filter(|(_, n)| *n > 0)
        .collect()
}

/// Adds the CPU time that control groups withhold from the process.
pub(crate) fn cpu(page: &mut MetricsPage) {
    let Some(counts) = CpuThrottling::read(Path::new("/")) else {
        return;
    };
    for (metric, value) in [
        (Metric::CpuPeriods, counts.periods as f64),
        (Metric::CpuThrottledPeriods, counts.throttled as f64),
        (Metric::CpuThrottled, counts.throttled_ns as f64 / 1e9),
    ] {
        page.add(metric, vec![], value);
    }
}

/// Adds the build and what the process uses, under the names that clients of Prometheus share.
pub(crate) fn process(page: &mut MetricsPage, started: Timestamp, open_files_max: u64) {
    let version = vec![("version", env!("CARGO_PKG_VERSION"))];
    page.add(Metric::BuildInfo, version, 1.0);
    let own = OwnProcess::read(Path::new("/"));
    for (metric, value) in [
        (Metric::StandardStart, started.0 as f64 / 1e9),
        (Metric::StandardCpu, own.cpu_s),
        (Metric::StandardResident, own.resident_bytes as f64),
        (Metric::StandardVirtual, own.virtual_bytes as f64),
        (Metric::StandardThreads, own.threads as f64),
        (Metric::StandardOpenFiles, own.open_files as f64),
        (Metric::StandardOpenFilesMax, open_files_max as f64),
    ] {
        page.add(metric, vec![], value);
    }
}

/// Adds the levels of the queue and the backlog of each destination to the metrics page.
pub(crate) fn queue(page: &mut MetricsPage, log: &Log) {
    let levels = log.levels();
    for (metric, value) in [
        (Metric::QueueBytes, levels.bytes as f64),
        (Metric::QueueBytesMax, levels.bytes_max as f64),
        (Metric::QueueDiskBytes, levels.disk_bytes as f64),
        (Metric::QueueDiskBytesMax, levels.disk_bytes_max as f64),
        (Metric::QueueSegments, levels.segments as f64),
        (
            Metric::QueueStalled,
            f64::from(u8::from(levels.stall.is_some())),
        ),
    ] {
        page.add(metric, vec![], value);
    }
    for backlog in log.backlogs() {
        let labels = || vec![("destination", backlog.destination.as_str())];
        page.add(Metric::DestinationBacklog, labels(), backlog.bytes as f64);
        page.add(
            Metric::DestinationBacklogMax,
            labels(),
            backlog.bytes_max as f64,
        );
    }
}
