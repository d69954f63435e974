//! One source as its workers share it: settings that a reload can change, and what it counts.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use inrush_codec::SyslogOptions;
use inrush_event::{Counter, Ledger, SourceInfo, Timestamp};
use inrush_ingest::batch_writer::source::{IngestSettings, IngestSource};
use inrush_ingest::enrichment::Enrichment;
use inrush_transport::config::{ListenAddr, StreamOptions};
use inrush_transport::refusal::Refusal;
use inrush_transport::stream::{Connection, EndReason};
use inrush_transport::tls::ServerTls;
use inrush_transport::udp::UdpProbe;

use super::options::SyslogSource;
use crate::connection_limit::AddressLimit;
use crate::refusals::RefusalTable;

/// Settings of a source that a reload can change. Connections that are open keep the framing that
/// they began with; everything else holds from the next batch on.
pub(crate) struct SourceSettings {
    pub syslog: SyslogOptions,
    pub stream: StreamOptions,
    pub tls: Option<Arc<ServerTls>>,
    /// Settings by which its events are taken in.
    pub ingest: IngestSettings,
}

impl SourceSettings {
    /// Resolves the options of the source `name`. The TLS of `before`, which runs now, goes on if
    /// its options are the same.
    ///
    /// # Errors
    /// In words: a certificate or a time zone that cannot be used.
    pub(crate) fn resolve(
        name: &str,
        config: &SyslogSource,
        before: Option<(&SyslogSource, &LiveSource)>,
        known: &Enrichment,
    ) -> Result<Self, String> {
        let said = |error: &dyn std::fmt::Display| format!("source {name}: {error}");
        let same = before.filter(|(options, _)| options.tls == config.tls);
        let tls = match (&config.tls, same) {
            (_, Some((_, running))) => running.settings().tls.clone(),
            (Some(options), None) => Some(Arc::new(
                ServerTls::load(options).map_err(|error| said(&error))?,
            )),
            (None, None) => None,
        };
        let zone = config.syslog.zone().map_err(|error| said(&error))?;
        let info = SourceInfo {
            name: name.to_owned(),
            index: config.index.clone(),
            sourcetype: config.sourcetype.clone(),
        };
        Ok(Self {
            ingest: known.settings(info, config.product.as_deref(), &config.syslog, zone),
            syslog: config.syslog.clone(),
            stream: config.stream.clone(),
            tls,
        })
    }

    /// Bound of the places that one address may have at a listener.
    pub(crate) fn bound(&self) -> AddressLimit {
        AddressLimit {
            most: self.stream.max_connections_per_address.map(u64::from),
            all: self.stream.max_connections.get() as u64,
        }
    }
}

/// A syslog source, for as long as the process runs: its listeners, connections and sockets.
pub(crate) struct LiveSource {
    /// The source as its batch writers share it.
    pub ingest: Arc<IngestSource>,
    /// Open stream connections.
    pub connections: Counter,
    pub connections_accepted: Counter,
    ends: [Counter; EndReason::ALL.len()],
    pub tls_reloads: Counter,
    pub tls_reload_failures: Counter,
    settings: Mutex<Arc<SourceSettings>>,
    sockets: Mutex<Vec<OpenSocket>>,
    /// Taken once a connection that is turned away.
    refusals: Mutex<RefusalTable>,
}

/// A UDP socket, for the kernel's count of what it dropped.
struct OpenSocket {
    bound: ListenAddr,
    probe: UdpProbe,
    /// The kernel's counter at the last reading; it is 32 bits wide and wraps.
    drops_seen: u32,
    granted_bytes: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LiveSource {
    /// The source `name`, with its counters in the ledger.
    pub(crate) fn new(name: &str, settings: SourceSettings, ledger: &Ledger) -> Arc<Self> {
        Arc::new(Self {
            ingest: IngestSource::new(name, settings.ingest.clone(), ledger),
            connections: Counter::default(),
            connections_accepted: Counter::default(),
            ends: Default::default(),
            tls_reloads: Counter::default(),
            tls_reload_failures: Counter::default(),
            settings: Mutex::new(Arc::new(settings)),
            sockets: Mutex::default(),
            refusals: Mutex::default(),
        })
    }

    /// Name in the configuration.
    pub(crate) fn name(&self) -> &str {
        &self.ingest.name
    }

    /// The settings now.
    pub(crate) fn settings(&self) -> Arc<SourceSettings> {
        Arc::clone(&lock(&self.settings))
    }

    /// Replaces the settings. Batches have them from the next one on.
    pub(crate) fn replace_settings(&self, settings: SourceSettings) {
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
    pub(crate) fn refusals(&self) -> MutexGuard<'_, RefusalTable> {
        lock(&self.refusals)
    }

    /// The number by which places are counted; the source outlives them.
    pub(crate) fn number(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Connections refused or ended early, by reason, without those that never happened.
    pub(crate) fn connection_errors(&self) -> BTreeMap<String, u64> {
        EndReason::ALL
            .iter()
            .map(|reason| (reason.name().to_owned(), self.ends[*reason as usize].get()))
            .filter(|(_, n)| *n > 0)
            .collect()
    }

    /// Takes sockets into the account of kernel drops; their receive buffers have `granted_bytes`
    /// together.
    ///
    /// An inherited socket may have dropped datagrams before our time; they count as well.
    pub(crate) fn add_sockets(&self, bound: ListenAddr, probes: Vec<UdpProbe>, granted_bytes: u64) {
        let granted_bytes = granted_bytes / probes.len().max(1) as u64;
        let sockets = probes.into_iter().map(|probe| OpenSocket {
            bound,
            probe,
            drops_seen: 0,
            granted_bytes,
        });
        lock(&self.sockets).extend(sockets);
    }

    /// Drops the probes of an address, so that its sockets can close; what they had dropped
    /// stays counted.
    pub(crate) fn forget_sockets(&self, bound: ListenAddr) {
        self.count_kernel_drops();
        lock(&self.sockets).retain(|socket| socket.bound != bound);
    }

    /// Adds what the kernel dropped since the last reading to the ledger.
    pub(crate) fn count_kernel_drops(&self) {
        for socket in lock(&self.sockets).iter_mut() {
            if let Ok(info) = socket.probe.meminfo() {
                let new = info.drops.wrapping_sub(socket.drops_seen);
                socket.drops_seen = info.drops;
                self.ingest.counters.kernel_dropped.add(u64::from(new));
            }
        }
    }

    /// UDP sockets, and the bytes of receive buffer that the kernel granted them together.
    pub(crate) fn sockets(&self) -> (u64, u64) {
        let sockets = lock(&self.sockets);
        (
            sockets.len() as u64,
            sockets.iter().map(|s| s.granted_bytes).sum(),
        )
    }
}
