//! A source as its connections share it: settings that a reload can change, and what is counted.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use inrush_event::{Counter, Ledger, Metric, MetricsPage, Timestamp};
use inrush_ingest::batch_writer::source::{IngestSettings, IngestSource};
use inrush_transport::config::{StreamOptions, TlsServerOptions};
use inrush_transport::refusal::Refusal;
use inrush_transport::stream::{Connection, EndReason};
use inrush_transport::tls::{AlpnProtocols, Refresh, ServerTls};

use super::connection::ConnectionDecoders;
use crate::connection_limit::{AddressLimit, ConnectionLimiter};
use crate::refusals::{RefusalTable, RefusedPeer};

/// Settings of a source that a reload can change. Connections that are open keep the decoder that
/// they began with; everything else holds from the next batch on.
pub struct StreamSettings {
    /// Options of its connections.
    pub options: StreamOptions,
    /// Certificate of its TLS listeners.
    pub tls: Option<Arc<ServerTls>>,
    /// Settings by which its events are taken in.
    pub ingest: IngestSettings,
    /// Decoders of its connections.
    pub decoders: Arc<dyn ConnectionDecoders>,
}

impl StreamSettings {
    /// Loads the certificate of `options`, for these protocols within TLS. That of `before`, which
    /// runs now, goes on if its options are the same.
    ///
    /// # Errors
    /// In words: a certificate that cannot be used.
    pub fn tls(
        options: Option<&TlsServerOptions>,
        protocols: AlpnProtocols,
        before: Option<(Option<&TlsServerOptions>, &StreamSource)>,
    ) -> Result<Option<Arc<ServerTls>>, String> {
        match (options, before) {
            (_, Some((same, running))) if same == options => Ok(running.settings().tls.clone()),
            (Some(options), _) => {
                let tls = ServerTls::load_for(options, protocols);
                tls.map(|tls| Some(Arc::new(tls)))
                    .map_err(|error| error.to_string())
            }
            (None, _) => Ok(None),
        }
    }

    /// Bound of the places that one address may have at a listener.
    pub(crate) fn bound(&self) -> AddressLimit {
        AddressLimit {
            most: self.options.max_connections_per_address.map(u64::from),
            all: self.options.max_connections.get() as u64,
        }
    }
}

/// State of a source's connections at one moment.
#[derive(Clone, Debug)]
pub struct ConnectionState {
    /// Open stream connections.
    pub connections: u64,
    /// Expiry of the served certificate, in seconds since 1970.
    pub certificate_not_after: Option<i64>,
    /// Connections refused or ended early, by reason.
    pub connection_errors: BTreeMap<String, u64>,
    /// Peers that were turned away, the last one first.
    pub refused: Vec<RefusedPeer>,
    /// Connections turned away of addresses that made room in that list.
    pub refused_others: u64,
}

/// A source of connections, for as long as it runs.
pub struct StreamSource {
    /// The source as its batch writers share it.
    pub ingest: Arc<IngestSource>,
    /// Open stream connections.
    pub connections: Counter,
    /// Connections so far.
    pub connections_accepted: Counter,
    ends: [Counter; EndReason::ALL.len()],
    tls_reloads: Counter,
    tls_reload_failures: Counter,
    settings: Mutex<Arc<StreamSettings>>,
    /// Taken once a connection that is turned away.
    refusals: Mutex<RefusalTable>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StreamSource {
    /// The source `name`, with its counters in the ledger.
    pub fn new(name: &str, settings: StreamSettings, ledger: &Ledger) -> Arc<Self> {
        Arc::new(Self {
            ingest: IngestSource::new(name, settings.ingest.clone(), ledger),
            connections: Counter::default(),
            connections_accepted: Counter::default(),
            ends: Default::default(),
            tls_reloads: Counter::default(),
            tls_reload_failures: Counter::default(),
            settings: Mutex::new(Arc::new(settings)),
            refusals: Mutex::default(),
        })
    }

    /// Name in the configuration.
    pub fn name(&self) -> &str {
        &self.ingest.name
    }

    /// The settings now.
    pub fn settings(&self) -> Arc<StreamSettings> {
        Arc::clone(&lock(&self.settings))
    }

    /// Replaces the settings. Batches have them from the next one on.
    pub fn replace_settings(&self, settings: StreamSettings) {
        self.ingest.replace_settings(settings.ingest.clone());
        *lock(&self.settings) = Arc::new(settings);
    }

    pub(crate) fn end(&self, reason: EndReason) {
        self.ends[reason as usize].add(1);
    }

    /// Counts a connection of `ip` that is turned away.
    pub(crate) fn turn_away(&self, ip: IpAddr, refusal: Refusal, detail: String) {
        self.end(refusal.reason());
        lock(&self.refusals).note(ip, refusal, detail, Timestamp::now());
    }

    /// A connection of `ip` ended for `reason`, perhaps because it was turned away.
    pub(crate) fn ended(&self, connection: &mut Connection, reason: EndReason) {
        match connection.refusal(reason) {
            Some((refusal, detail)) => {
                self.end(reason);
                let now = Timestamp::now();
                lock(&self.refusals).note(connection.peer(), refusal, detail, now);
            }
            None => self.end(reason),
        }
    }

    /// Account of the connections that were turned away, locked.
    pub fn refusals(&self) -> MutexGuard<'_, RefusalTable> {
        lock(&self.refusals)
    }

    /// The number by which places are counted; the source outlives them.
    pub fn number(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Connections refused or ended early, by reason, without those that never happened.
    fn connection_errors(&self) -> BTreeMap<String, u64> {
        EndReason::ALL
            .iter()
            .map(|reason| (reason.name().to_owned(), self.ends[*reason as usize].get()))
            .filter(|(_, n)| *n > 0)
            .collect()
    }

    /// State of its connections.
    pub fn state(&self) -> ConnectionState {
        let refusals = self.refusals();
        let (refused, refused_others) = (refusals.list(), refusals.others());
        drop(refusals);
        let tls = self.settings().tls.clone();
        ConnectionState {
            connections: self.connections.get(),
            certificate_not_after: tls.map(|tls| tls.not_after()),
            connection_errors: self.connection_errors(),
            refused,
            refused_others,
        }
    }

    /// Adds the metrics of its connections.
    pub fn metrics(&self, page: &mut MetricsPage) {
        let name = self.name();
        let labels = || vec![("source", name)];
        let mut add = |metric, value: u64| page.add(metric, labels(), value as f64);
        add(Metric::SourceConnections, self.connections.get());
        add(
            Metric::SourceConnectionsAccepted,
            self.connections_accepted.get(),
        );
        for reason in EndReason::ALL {
            let labels = vec![("source", name), ("reason", reason.name())];
            let ended = self.ends[*reason as usize].get();
            page.add(Metric::SourceConnectionErrors, labels, ended as f64);
        }
        if let Some(tls) = &self.settings().tls {
            let not_after = tls.not_after() as f64;
            page.add(Metric::TlsCertificateNotAfter, labels(), not_after);
            for (result, counter) in [
                ("ok", &self.tls_reloads),
                ("failed", &self.tls_reload_failures),
            ] {
                let labels = vec![("source", name), ("result", result)];
                page.add(Metric::TlsReloads, labels, counter.get() as f64);
            }
        }
    }

    /// Loads the certificate again if its files have changed.
    pub fn refresh_certificate(&self) {
        let Some(tls) = self.settings().tls.clone() else {
            return;
        };
        let source = self.name();
        match tls.refresh() {
            Refresh::Unchanged => {}
            Refresh::Reloaded { not_after } => {
                self.tls_reloads.add(1);
                tracing::info!(source, not_after, "certificate reloaded");
            }
            Refresh::Kept(error) => {
                self.tls_reload_failures.add(1);
                tracing::warn!(source, %error, "the last good certificate is kept");
            }
        }
    }

    /// Says who was turned away, and where descriptors ran out who has most connections.
    pub fn tell_refusals(&self, connections: &ConnectionLimiter) {
        let lines = self.refusals().lines(Instant::now());
        for line in &lines {
            tracing::warn!(source = self.name(), "connections refused: {line}");
        }
        let short = Refusal::NoDescriptors.words();
        if lines.iter().any(|line| line.contains(short))
            && let Some((address, count)) = connections.busiest()
        {
            let (limit, reserved) = (connections.limit(), connections.reserved());
            tracing::warn!(
                limit,
                reserved,
                "connections refused: most are of {address}, which has {count}; {}",
                Refusal::NoDescriptors.remedy()
            );
        }
    }
}
