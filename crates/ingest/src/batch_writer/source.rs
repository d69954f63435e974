//! A source as its batch writers share it: settings that a reload can change, and counts of events.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use inrush_codec::{Charset, Zone};
use inrush_event::{
    Anomalies, Batch, Counter, CutReason, Histogram, Ledger, SourceCounters, SourceInfo, Timestamp,
};

use crate::classification::ClassifierContext;
use crate::hostname::HostNames;
use crate::sender_table::{EvictedSenders, PeerTally, SenderState, SenderTable};
use crate::timezone::SenderZones;
use crate::transform::TransformRules;

/// Settings by which the events of a source are taken in; a reload can change them. They hold from
/// the next batch on.
#[derive(Clone)]
pub struct IngestSettings {
    /// Name, index and sourcetype of its events.
    pub info: Arc<SourceInfo>,
    /// Bytes of a message, at most; the rest is cut.
    pub message_bytes_max: usize,
    /// Zone of times that carry none.
    pub zone: Zone,
    /// True if the zone of such times is guessed for each sender.
    pub guess_timezone: bool,
    /// Nanoseconds that an event's time may be from the time of receipt before it is flagged.
    pub skew_ns_max: u64,
    /// Charset of texts that are not UTF-8, if it is configured.
    pub encoding: Option<Charset>,
    /// Packs and context that events are recognised by, if any.
    pub recognition: Option<ClassifierContext>,
    /// Names of senders.
    pub names: Option<Arc<HostNames>>,
    /// A user's own transforms and routes of events, if any.
    pub transforms: Option<Arc<TransformRules>>,
}

/// Settings, counts and senders of one source, for as long as the process runs.
pub struct IngestSource {
    /// Name in the configuration.
    pub name: String,
    /// Its rows in the ledger.
    pub counters: Arc<SourceCounters>,
    /// Anomalies of accepted events, by bit.
    pub anomalies: [Counter; 32],
    /// Times from an event to its receipt, of events that carry a time.
    pub receive_lag: Histogram,
    /// Events that no rule recognised.
    pub unrecognised: Counter,
    /// Times that a worker of it began to share its work.
    pub shared: Counter,
    /// Batches that other threads studied too.
    pub shared_batches: Counter,
    /// Those of them that came back late.
    pub shared_late: Counter,
    /// Time zones of its senders, as far as they were guessed.
    pub zones: SenderZones,
    sequence: AtomicU64,
    /// Counts the changes of `settings`, so that a worker looks at the lock only after one.
    generation: AtomicU64,
    settings: Mutex<Arc<IngestSettings>>,
    senders: Mutex<SenderTable>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl IngestSource {
    /// The source `name`, with its counters in the ledger.
    pub fn new(name: &str, settings: IngestSettings, ledger: &Ledger) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            counters: ledger.source(name),
            anomalies: Default::default(),
            receive_lag: Histogram::default(),
            unrecognised: Counter::default(),
            shared: Counter::default(),
            shared_batches: Counter::default(),
            shared_late: Counter::default(),
            zones: SenderZones::default(),
            sequence: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            settings: Mutex::new(Arc::new(settings)),
            senders: Mutex::default(),
        })
    }

    /// The settings now, and their generation.
    pub fn settings(&self) -> (u64, Arc<IngestSettings>) {
        let settings = lock(&self.settings);
        (
            self.generation.load(Ordering::Acquire),
            Arc::clone(&settings),
        )
    }

    /// The number of changes so far.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Replaces the settings, from the next batch on.
    pub fn replace_settings(&self, settings: IngestSettings) {
        let mut current = lock(&self.settings);
        *current = Arc::new(settings);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// The number of the next batch.
    pub fn next_sequence(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed)
    }

    /// Anomalies of accepted events by name, without those that never happened.
    pub fn anomaly_counts(&self) -> BTreeMap<String, u64> {
        let count = |one: Anomalies| self.anomalies[one.bits().trailing_zeros() as usize].get();
        Anomalies::ALL
            .iter()
            .flat_map(|one| one.names().map(move |name| (name.to_owned(), count(*one))))
            .filter(|(_, n)| *n > 0)
            .collect()
    }

    /// Bytes that are in no event, by reason, without those that never happened.
    pub fn cut_bytes(&self) -> BTreeMap<String, u64> {
        CutReason::ALL
            .iter()
            .map(|one| (one.name().to_owned(), self.counters.cut_bytes(*one).get()))
            .filter(|(_, n)| *n > 0)
            .collect()
    }

    /// Notes who sent a batch. Once a batch.
    pub fn note_senders(&self, now: Timestamp, batch: &Batch, tallies: &[PeerTally]) {
        lock(&self.senders).note(now, batch, tallies);
    }

    #[cfg(test)]
    pub(crate) fn senders(&self) -> Vec<(IpAddr, SenderState)> {
        lock(&self.senders).list()
    }

    /// Senders that are remembered, and what the others brought, of one moment.
    pub fn all_senders(&self) -> (Vec<(IpAddr, SenderState)>, EvictedSenders) {
        let senders = lock(&self.senders);
        (senders.list(), senders.others())
    }
}
