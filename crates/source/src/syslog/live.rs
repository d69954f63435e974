//! One syslog source as its threads share it: its connections, and the sockets of its datagrams.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use inrush_event::Ledger;
use inrush_ingest::enrichment::Enrichment;
use inrush_stream::{StreamSettings, StreamSource};
use inrush_transport::config::ListenAddr;
use inrush_transport::tls::ONE_PROTOCOL;
use inrush_transport::udp::UdpProbe;

use super::decoder::SyslogDecoders;
use super::options::SyslogSource;
use crate::options::ingest_settings;

/// Resolves the options of the source `name`. The TLS of `before`, which runs now, goes on if its
/// options are the same.
///
/// # Errors
/// In words: a certificate or a time zone that cannot be used.
pub(super) fn resolve(
    name: &str,
    config: &SyslogSource,
    before: Option<(&SyslogSource, &StreamSource)>,
    known: &Enrichment,
) -> Result<StreamSettings, String> {
    let said = |error: &dyn std::fmt::Display| format!("source {name}: {error}");
    let before = before.map(|(options, running)| (options.tls.as_ref(), running));
    let tls = StreamSettings::tls(config.tls.as_ref(), ONE_PROTOCOL, before);
    let tls = tls.map_err(|error| said(&error))?;
    let ingest = ingest_settings(name, config, &config.syslog, known);
    Ok(StreamSettings {
        ingest: ingest.map_err(|error| said(&error))?,
        options: config.stream.clone(),
        decoders: Arc::new(SyslogDecoders(config.syslog.clone())),
        tls,
    })
}

/// A syslog source, for as long as the process runs: its connections and sockets.
pub(super) struct LiveSource {
    /// Its connections.
    pub(super) streams: Arc<StreamSource>,
    sockets: Mutex<Vec<OpenSocket>>,
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
    pub(super) fn new(name: &str, settings: StreamSettings, ledger: &Ledger) -> Self {
        Self {
            streams: StreamSource::new(name, settings, ledger),
            sockets: Mutex::default(),
        }
    }

    /// Takes sockets into the account of kernel drops; their receive buffers have `granted_bytes`
    /// together.
    ///
    /// An inherited socket may have dropped datagrams before our time; they count as well.
    pub(super) fn add_sockets(&self, bound: ListenAddr, probes: Vec<UdpProbe>, granted_bytes: u64) {
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
    pub(super) fn forget_sockets(&self, bound: ListenAddr) {
        self.count_kernel_drops();
        lock(&self.sockets).retain(|socket| socket.bound != bound);
    }

    /// Adds what the kernel dropped since the last reading to the ledger.
    pub(super) fn count_kernel_drops(&self) {
        for socket in lock(&self.sockets).iter_mut() {
            if let Ok(info) = socket.probe.meminfo() {
                let new = info.drops.wrapping_sub(socket.drops_seen);
                socket.drops_seen = info.drops;
                let counters = &self.streams.ingest.counters;
                counters.kernel_dropped.add(u64::from(new));
            }
        }
    }

    /// UDP sockets, and the bytes of receive buffer that the kernel granted them together.
    pub(super) fn sockets(&self) -> (u64, u64) {
        let sockets = lock(&self.sockets);
        (
            sockets.len() as u64,
            sockets.iter().map(|s| s.granted_bytes).sum(),
        )
    }
}
