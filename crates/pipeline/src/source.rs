//! One source as its workers share it: settings that a reload can change, and what it counts.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use inrush_codec::{SyslogOptions, Zone};
use inrush_event::{
    Anomalies, Batch, Counter, CutReason, Ledger, SourceCounters, SourceInfo, Timestamp,
};
use inrush_transport::config::{ListenAddr, StreamOptions};
use inrush_transport::refusal::Refusal;
use inrush_transport::stream::{Connection, EndReason};
use inrush_transport::tls::ServerTls;
use inrush_transport::udp::UdpProbe;

use crate::config::SyslogSource;
use crate::enrichment::Enrichment;
use crate::names::Names;
use crate::places::Bound;
use crate::recognise::Recognition;
use crate::refusals::Refusals;
use crate::senders::{Others, PeerTally, Sender, Senders};
use crate::shape::Shape;
use crate::zones::Zones;

/// Settings of a source that a reload can change. Connections that are open keep the framing that
/// they began with; everything else holds from the next batch on.
pub(crate) struct Settings {
    pub(crate) info: Arc<SourceInfo>,
    pub(crate) syslog: SyslogOptions,
    pub(crate) zone: Zone,
    pub(crate) stream: StreamOptions,
    pub(crate) tls: Option<Arc<ServerTls>>,
    /// Packs and context that events are recognised by, if any.
    pub(crate) recognition: Option<Recognition>,
    /// The names of senders.
    pub(crate) names: Option<Arc<Names>>,
    /// A user's own transforms and routes of events, if any.
    pub(crate) shape: Option<Arc<Shape>>,
}

impl Settings {
    /// Resolves the options of the source `name`. The TLS of `before`, which runs now, goes on if
    /// its options are the same.
    ///
    /// # Errors
    /// In words: a certificate or a time zone that cannot be used.
    pub(crate) fn resolve(
        name: &str,
        config: &SyslogSource,
        before: Option<(&SyslogSource, &Source)>,
        known: &Enrichment,
    ) -> Result<Self, String> {
        let said = |error: &dyn std::fmt::Display| format!("source {name}: {error}");
        let same = before.filter(|(options, _)| options.tls == config.tls);
        let tls = match (&config.tls, same) {
            (_, Some((_, running))) => running.settings().1.tls.clone(),
            (Some(options), None) => Some(Arc::new(
                ServerTls::load(options).map_err(|error| said(&error))?,
            )),
            (None, None) => None,
        };
        let zone = config.syslog.zone().map_err(|error| said(&error))?;
        Ok(Self {
            recognition: known.of(name, config, &zone),
            names: known.names.clone(),
            shape: known.shape.clone(),
            info: Arc::new(SourceInfo {
                name: name.to_owned(),
                index: config.index.clone(),
                sourcetype: config.sourcetype.clone(),
            }),
            zone,
            syslog: config.syslog.clone(),
            stream: config.stream.clone(),
            tls,
        })
    }
}

impl Settings {
    /// Bound of the places that one address may have at a listener.
    pub(crate) fn bound(&self) -> Bound {
        Bound {
            most: self.stream.max_connections_per_address.map(u64::from),
            all: self.stream.max_connections.get() as u64,
        }
    }
}

/// A source, for as long as the process runs.
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) counters: Arc<SourceCounters>,
    /// Oddities of accepted events, by bit.
    pub(crate) anomalies: [Counter; 32],
    /// Open stream connections.
    pub(crate) connections: Counter,
    pub(crate) connections_accepted: Counter,
    /// Events that no rule recognised.
    pub(crate) unrecognised: Counter,
    /// Times that a worker of it began to share its work.
    pub(crate) shared: Counter,
    /// Batches that were studied by other threads too, and those of them that came back late.
    pub(crate) shared_batches: Counter,
    pub(crate) shared_late: Counter,
    ends: [Counter; EndReason::ALL.len()],
    pub(crate) tls_reloads: Counter,
    pub(crate) tls_reload_failures: Counter,
    /// Time zones of its senders, as far as they were guessed.
    pub(crate) zones: Zones,
    sequence: AtomicU64,
    /// Counts the changes of `settings`, so that a worker looks at the lock only after one.
    generation: AtomicU64,
    settings: Mutex<Arc<Settings>>,
    sockets: Mutex<Vec<OpenSocket>>,
    senders: Mutex<Senders>,
    /// Taken once a connection that is turned away.
    refusals: Mutex<Refusals>,
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

impl Source {
    pub(crate) fn new(name: &str, settings: Settings, ledger: &Ledger) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            counters: ledger.source(name),
            anomalies: Default::default(),
            connections: Counter::default(),
            connections_accepted: Counter::default(),
            unrecognised: Counter::default(),
            shared: Counter::default(),
            shared_batches: Counter::default(),
            shared_late: Counter::default(),
            ends: Default::default(),
            tls_reloads: Counter::default(),
            tls_reload_failures: Counter::default(),
            zones: Zones::default(),
            sequence: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            settings: Mutex::new(Arc::new(settings)),
            sockets: Mutex::default(),
            senders: Mutex::default(),
            refusals: Mutex::default(),
        })
    }

    /// The settings now, and their generation.
    pub(crate) fn settings(&self) -> (u64, Arc<Settings>) {
        let settings = lock(&self.settings);
        (
            self.generation.load(Ordering::Acquire),
            Arc::clone(&settings),
        )
    }

    /// The number of changes so far.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn replace_settings(&self, settings: Settings) {
        let mut current = lock(&self.settings);
        *current = Arc::new(settings);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// The number of the next batch.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed)
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
    pub(crate) fn refusals(&self) -> MutexGuard<'_, Refusals> {
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

    /// Oddities of accepted events by name, without those that never happened.
    pub(crate) fn anomaly_counts(&self) -> BTreeMap<String, u64> {
        Anomalies::ALL
            .iter()
            .flat_map(|one| {
                one.names()
                    .map(|name| (name.to_owned(), self.anomaly_count(*one)))
            })
            .filter(|(_, n)| *n > 0)
            .collect()
    }

    /// Bytes that are in no event, by reason, without those that never happened.
    pub(crate) fn cut_bytes(&self) -> BTreeMap<String, u64> {
        CutReason::ALL
            .iter()
            .map(|one| (one.name().to_owned(), self.counters.cut_bytes(*one).get()))
            .filter(|(_, n)| *n > 0)
            .collect()
    }

    fn anomaly_count(&self, one: Anomalies) -> u64 {
        self.anomalies[one.bits().trailing_zeros() as usize].get()
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
                self.counters.kernel_dropped.add(u64::from(new));
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

    /// Notes who sent a batch. Once a batch.
    pub(crate) fn note_senders(&self, now: Timestamp, batch: &Batch, tallies: &[PeerTally]) {
        lock(&self.senders).note(now, batch, tallies);
    }

    #[cfg(test)]
    pub(crate) fn senders(&self) -> Vec<(IpAddr, Sender)> {
        lock(&self.senders).list()
    }

    /// Senders that are remembered, and what the others brought, of one moment.
    pub(crate) fn all_senders(&self) -> (Vec<(IpAddr, Sender)>, Others) {
        let senders = lock(&self.senders);
        (senders.list(), senders.others())
    }
}
