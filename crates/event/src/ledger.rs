//! The ledger: what came in, what became of it, and whether the two sides agree.
//!
//! Workers post once a batch, under the shared side of one gate; a snapshot takes the exclusive
//! side, so it never sees half a posting. Two equations must then hold at every moment:
//! * for each source `received = accepted + Σ rejected + held`;
//! * for each destination `accepted = delivered + Σ quarantined + Σ dropped + pending`, where
//!   `pending` is counted by the queue as it hands out and settles, not derived from the others;
//! * over the process: every event accepted by a source was put before every destination.
//!
//! Bytes of a stream are in events, or are framing, or are in `cut_bytes` with a reason.
//! A destination that keeps events to be searched has a third equation, see [`StoredSnapshot`].
//!
//! `kernel_dropped` and `lost_upstream` stand beside `received`: such events never reached us.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Batch, CutReason, DropReason, Histogram, HistogramSnapshot, RefuseReason, RejectReason,
    Timestamp, UpstreamLoss,
};

/// A counter that several workers add to. Relaxed: the ledger's gate orders what must agree.
#[derive(Default, Debug)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// Takes `n` away; the counter is a level, such as what is pending.
    pub fn sub(&self, n: u64) {
        self.0.fetch_sub(n, Relaxed);
    }

    /// Replaces the value, for levels that are measured.
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    /// The value.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Counters of one source. Units are events unless the name says bytes.
#[derive(Default, Debug)]
pub struct SourceCounters {
    /// The name in the configuration.
    pub name: String,
    /// Events that reached the process.
    pub received: Counter,
    /// Bytes of those events, without framing.
    pub received_bytes: Counter,
    /// Events that the queue took.
    pub accepted: Counter,
    /// Parts of events that wait in memory for the others; accepted once they are put together.
    pub held: Counter,
    /// Datagrams that the kernel dropped, over all sockets the source ever had.
    pub kernel_dropped: Counter,
    lost_upstream: [Counter; UpstreamLoss::ALL.len()],
    rejected: [Counter; RejectReason::ALL.len()],
    cut: [Counter; CutReason::ALL.len()],
}

impl SourceCounters {
    /// The counter of one reason.
    pub fn rejected(&self, reason: RejectReason) -> &Counter {
        &self.rejected[reason as usize]
    }

    /// The counter of events that were lost before the source could read them, for one reason. Only
    /// what is known exactly is counted.
    pub fn lost_upstream(&self, reason: UpstreamLoss) -> &Counter {
        &self.lost_upstream[reason as usize]
    }

    /// The counter of bytes that are in no event for one reason. They are not framing either.
    pub fn cut_bytes(&self, reason: CutReason) -> &Counter {
        &self.cut[reason as usize]
    }
}

/// Counters of one destination, in events.
#[derive(Default, Debug)]
pub struct DestinationCounters {
    /// The name in the configuration.
    pub name: String,
    /// Events put before it.
    pub accepted: Counter,
    /// Events that it has taken.
    pub delivered: Counter,
    /// Events neither delivered nor given up, as the queue counts them.
    pub pending: Counter,
    /// Bytes of events (their raw records) that it has taken.
    pub delivered_bytes: Counter,
    /// Deliveries that were put back to be tried again.
    pub retried: Counter,
    /// Receive time in nanoseconds of the oldest pending event; 0 if none is pending.
    pub oldest_pending_ns: Counter,
    quarantined: [Counter; RefuseReason::ALL.len()],
    dropped: [Counter; DropReason::ALL.len()],
    /// Events put before it, by source. Taken once a batch, inside a posting, and by a snapshot.
    from: Mutex<Vec<(String, u64)>>,
    /// Lags of delivered events, by source. Taken once a settled range, and by a scrape.
    lags: Mutex<Vec<(String, Arc<Histogram>)>>,
    /// Account of what it keeps, for a store. Taken when one is opened, and by a snapshot.
    stored: Mutex<Option<AttachedStore>>,
}

/// Asks a store what became of its events; `None` once it is gone.
pub type StoredAccount = Box<dyn Fn() -> Option<StoredSnapshot> + Send + Sync>;

struct AttachedStore {
    /// Events that the destination had delivered before this store was opened.
    delivered_before: u64,
    account: StoredAccount,
}

impl std::fmt::Debug for AttachedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stored")
            .field("delivered_before", &self.delivered_before)
            .finish_non_exhaustive()
    }
}

impl DestinationCounters {
    /// Counts events of a source that were put before it. Inside the posting that counts them as
    /// accepted; what is sent again from quarantine comes from no source.
    pub fn came_from(&self, source: &str, events: u64) {
        let mut from = self.from.lock().unwrap_or_else(PoisonError::into_inner);
        match from.iter_mut().find(|(name, _)| name == source) {
            Some((_, n)) => *n += events,
            None => from.push((source.to_owned(), events)),
        }
    }

    /// Counts the lags of delivered events of a batch: the time from each event to `now`.
    pub fn delivered_at(&self, batch: &Batch, events: &Range<u32>, now: Timestamp) {
        let source = &batch.source().name;
        let mut lags = self.lags.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lags.iter().find(|(name, _)| name == source);
        let histogram = match known {
            Some((_, known)) => Arc::clone(known),
            None => {
                let new = Arc::<Histogram>::default();
                lags.push((source.clone(), Arc::clone(&new)));
                new
            }
        };
        drop(lags);
        histogram.add_lags(batch, events, now);
    }

    /// Lags of delivered events by source.
    pub fn lags(&self) -> Vec<(String, HistogramSnapshot)> {
        let lags = self.lags.lock().unwrap_or_else(PoisonError::into_inner);
        let lags = lags.iter();
        lags.map(|(source, lags)| (source.clone(), lags.snapshot()))
            .collect()
    }

    /// Has the ledger show what became of the events that it delivers from now on. To be said when
    /// a store was opened, before the first event comes to it.
    pub fn keeps(&self, account: StoredAccount) {
        let stored = AttachedStore {
            delivered_before: self.delivered.get(),
            account,
        };
        *self.stored.lock().unwrap_or_else(PoisonError::into_inner) = Some(stored);
    }

    /// Account of a store, with `delivered` less what was delivered before it was opened; `None`
    /// without a store.
    fn stored(&self, delivered: u64) -> Option<StoredSnapshot> {
        let stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        let stored = stored.as_ref()?;
        let account = (stored.account)()?;
        Some(StoredSnapshot {
            delivered: delivered.saturating_sub(stored.delivered_before),
            ..account
        })
    }

    /// The counter of events in quarantine for one reason.
    pub fn quarantined(&self, reason: RefuseReason) -> &Counter {
        &self.quarantined[reason as usize]
    }

    /// The counter of events dropped for one reason.
    pub fn dropped(&self, reason: DropReason) -> &Counter {
        &self.dropped[reason as usize]
    }
}

/// All counters of the process that must agree with each other.
#[derive(Default, Debug)]
pub struct Ledger {
    /// Shared: posting. Exclusive: reading, and adding a destination.
    gate: RwLock<()>,
    sources: Mutex<Vec<Arc<SourceCounters>>>,
    destinations: Mutex<Vec<Arc<DestinationCounters>>>,
    /// Events that rules took out, by rule.
    filtered: Mutex<BTreeMap<String, Arc<Counter>>>,
}

impl Ledger {
    /// An empty ledger.
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// The counters of the source of that name; made at first use, kept for ever, so that a
    /// source that leaves the configuration and comes back goes on counting.
    pub fn source(&self, name: &str) -> Arc<SourceCounters> {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = sources.iter().find(|counters| counters.name == name) {
            return Arc::clone(known);
        }
        let new = Arc::new(SourceCounters {
            name: name.to_owned(),
            ..Default::default()
        });
        sources.push(Arc::clone(&new));
        new
    }

    /// The counters of the destination of that name; made at first use, kept for ever.
    pub fn destination(&self, name: &str) -> Arc<DestinationCounters> {
        let mut list = self
            .destinations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = list.iter().find(|counters| counters.name == name) {
            return Arc::clone(known);
        }
        let new = Arc::new(DestinationCounters {
            name: name.to_owned(),
            ..Default::default()
        });
        list.push(Arc::clone(&new));
        new
    }

    /// The counter of the events that a rule takes out; made at first use, kept for ever.
    pub fn filtered(&self, rule: &str) -> Arc<Counter> {
        let mut filtered = self.filtered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = filtered.get(rule) {
            return Arc::clone(known);
        }
        Arc::clone(filtered.entry(rule.to_owned()).or_default())
    }

    /// Runs `posting`, of which no snapshot sees a half. Once a batch; do not block inside.
    pub fn post<R>(&self, posting: impl FnOnce() -> R) -> R {
        let _shared = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        posting()
    }

    /// Everything at one moment.
    pub fn snapshot(&self) -> LedgerSnapshot {
        let sources = self
            .sources
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let destinations = self
            .destinations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let filtered = self
            .filtered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let exclusive = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        let now = Timestamp::now();
        let mut snapshot = LedgerSnapshot {
            at_ns: now.0,
            balanced: false,
            sources: sources
                .iter()
                .map(|c| (c.name.clone(), source_row(c)))
                .collect(),
            filtered: filtered
                .iter()
                .map(|(rule, n)| (rule.clone(), n.get()))
                .collect(),
            destinations: destinations
                .iter()
                .map(|c| (c.name.clone(), destination_row(c, now)))
                .collect(),
        };
        drop(exclusive);
        // Asked later: a store has an event before it counts as delivered.
        for counters in &destinations {
            if let Some(row) = snapshot.destinations.get_mut(&counters.name) {
                row.stored = counters.stored(row.delivered);
            }
        }
        snapshot.balanced = snapshot.imbalance().is_none();
        snapshot
    }
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

fn source_row(counters: &SourceCounters) -> SourceSnapshot {
    SourceSnapshot {
        received: counters.received.get(),
        received_bytes: counters.received_bytes.get(),
        kernel_dropped: counters.kernel_dropped.get(),
        lost_upstream: UpstreamLoss::ALL
            .iter()
            .map(|r| (r.name().to_owned(), counters.lost_upstream(*r).get()))
            .filter(|(_, n)| *n > 0)
            .collect(),
        rejected: RejectReason::ALL
            .iter()
            .map(|r| (r.name().to_owned(), counters.rejected(*r).get()))
            .filter(|(_, n)| *n > 0)
            .collect(),
        accepted: counters.accepted.get(),
        held: counters.held.get(),
        cut_bytes: CutReason::ALL
            .iter()
            .map(|r| (r.name().to_owned(), counters.cut_bytes(*r).get()))
            .filter(|(_, n)| *n > 0)
            .collect(),
    }
}

fn destination_row(counters: &DestinationCounters, now: Timestamp) -> DestinationSnapshot {
    let oldest = counters.oldest_pending_ns.get();
    let from = counters.from.lock().unwrap_or_else(PoisonError::into_inner);
    DestinationSnapshot {
        from: from.iter().cloned().collect(),
        accepted: counters.accepted.get(),
        delivered: counters.delivered.get(),
        quarantined: RefuseReason::ALL
            .iter()
            .map(|r| (r.name().to_owned(), counters.quarantined(*r).get()))
            .filter(|(_, n)| *n > 0)
            .collect(),
        dropped: DropReason::ALL
            .iter()
            .map(|r| (r.name().to_owned(), counters.dropped(*r).get()))
            .filter(|(_, n)| *n > 0)
            .collect(),
        pending: counters.pending.get(),
        stored: None,
        oldest_pending_seconds: match oldest {
            0 => 0.0,
            at => (now.0.saturating_sub(at as i64)).max(0) as f64 / 1e9,
        },
    }
}

/// The ledger at one moment, in the shape of `GET /api/v1/ledger`. Reasons that never happened
/// are left out.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LedgerSnapshot {
    /// When, in nanoseconds since 1970.
    pub at_ns: i64,
    /// Whether all equations hold; computed.
    pub balanced: bool,
    /// By name.
    pub sources: BTreeMap<String, SourceSnapshot>,
    /// Events that a rule took out, by rule.
    pub filtered: BTreeMap<String, u64>,
    /// By name.
    pub destinations: BTreeMap<String, DestinationSnapshot>,
}

/// One source at one moment.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct SourceSnapshot {
    /// Events that reached the process.
    pub received: u64,
    /// Bytes of those events, without framing.
    pub received_bytes: u64,
    /// Datagrams that the kernel dropped.
    pub kernel_dropped: u64,
    /// Events that were lost before the source could read them, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lost_upstream: BTreeMap<String, u64>,
    /// Received but not accepted, by reason.
    pub rejected: BTreeMap<String, u64>,
    /// Events that the queue took.
    pub accepted: u64,
    /// Parts of events that wait in memory for the others.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub held: u64,
    /// Bytes that came over the network and are in no event, by reason.
    #[serde(default)]
    pub cut_bytes: BTreeMap<String, u64>,
}

/// One destination at one moment.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct DestinationSnapshot {
    /// Events put before it.
    pub accepted: u64,
    /// Events that it has taken.
    pub delivered: u64,
    /// Events that it refused, by reason.
    pub quarantined: BTreeMap<String, u64>,
    /// Events given up, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Events on their way.
    pub pending: u64,
    /// Age of the oldest event on its way, from its receive time.
    pub oldest_pending_seconds: f64,
    /// What became of the events that it keeps; a destination that keeps none has no such account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored: Option<StoredSnapshot>,
    /// Events put before it, by the source that they came from; not a part of the ledger's shape.
    #[serde(skip)]
    pub from: BTreeMap<String, u64>,
}

/// What a store keeps at one moment, and what became of the rest, since it was opened.
///
/// Two equations hold: `at_start + written = Σ expired + unreadable + searchable`, in which every
/// number is counted by itself, and `delivered ≤ written + repeated`: nothing counts as delivered
/// that no file has. `select count(*)` finds `searchable + in_memory`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoredSnapshot {
    /// Events in its files when it was opened.
    pub at_start: u64,
    /// Events written to files since then.
    pub written: u64,
    /// Events that came again from the queue after a crash, and that a file had already.
    pub repeated: u64,
    /// Of those written or repeated, the ones that count as delivered.
    pub delivered: u64,
    /// Events that retention has deleted, by reason: `age`, `bytes`, `room`.
    pub expired: BTreeMap<String, u64>,
    /// Events in files that are damaged or missing: no search finds them.
    pub unreadable: u64,
    /// Events in files that searches find.
    pub searchable: u64,
    /// Events that searches find in memory; they are in no file yet and count as pending.
    pub in_memory: u64,
}

impl DestinationSnapshot {
    /// Events that its store has deleted to make room on its disk.
    pub fn deleted_for_room(&self) -> u64 {
        let stored = self.stored.as_ref();
        let room = stored.and_then(|stored| stored.expired.get("room"));
        room.copied().unwrap_or(0)
    }
}

impl StoredSnapshot {
    /// The first equation that does not hold, in words; `None` if both do.
    fn imbalance(&self) -> Option<String> {
        let expired: u64 = self.expired.values().sum();
        let Self {
            at_start,
            written,
            repeated,
            delivered,
            unreadable,
            searchable,
            ..
        } = self;
        if at_start + written != expired + unreadable + searchable {
            return Some(format!(
                "at_start {at_start} + written {written} ≠ expired {expired} \
                 + unreadable {unreadable} + searchable {searchable}"
            ));
        }
        (*delivered > written + repeated)
            .then(|| format!("delivered {delivered} > written {written} + repeated {repeated}"))
    }
}

impl LedgerSnapshot {
    /// The first equation that does not hold, in words; `None` if all do.
    pub fn imbalance(&self) -> Option<String> {
        for (name, source) in &self.sources {
            let rejected: u64 = source.rejected.values().sum();
            if source.received != source.accepted + rejected + source.held {
                return Some(format!(
                    "source {name}: received {} ≠ accepted {} + rejected {rejected} + held {}",
                    source.received, source.accepted, source.held
                ));
            }
        }
        for (name, d) in &self.destinations {
            let quarantined: u64 = d.quarantined.values().sum();
            let dropped: u64 = d.dropped.values().sum();
            if d.accepted != d.delivered + quarantined + dropped + d.pending {
                return Some(format!(
                    "destination {name}: accepted {} ≠ delivered {} + quarantined {quarantined} \
                     + dropped {dropped} + pending {}",
                    d.accepted, d.delivered, d.pending
                ));
            }
            let stored = d.stored.as_ref().and_then(StoredSnapshot::imbalance);
            if let Some(words) = stored {
                return Some(format!("store {name}: {words}"));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_without_a_fate_is_noticed() {
        let ledger = Ledger::new();
        let source = ledger.source("syslog");
        let destination = ledger.destination("null0");
        ledger.post(|| {
            source.received.add(3);
            source.accepted.add(2);
            source.rejected(RejectReason::Empty).add(1);
            destination.accepted.add(2);
            destination.pending.add(2);
        });
        assert!(ledger.snapshot().balanced);
        ledger.post(|| destination.pending.sub(1));
        let snapshot = ledger.snapshot();
        assert!(!snapshot.balanced);
        assert!(
            snapshot
                .imbalance()
                .is_some_and(|words| words.contains("null0"))
        );
    }

    #[test]
    fn an_event_that_a_store_has_lost_is_noticed() {
        let ledger = Ledger::new();
        let local = ledger.destination("local");
        let whole = StoredSnapshot {
            at_start: 10,
            written: 5,
            repeated: 1,
            delivered: 0,
            expired: [("room".to_owned(), 3)].into(),
            unreadable: 2,
            searchable: 10,
            in_memory: 7,
        };
        let deliver = |events| {
            local.accepted.add(events);
            local.delivered.add(events);
        };
        let words = |stored: &StoredSnapshot, delivered| {
            let stored = stored.clone();
            local.keeps(Box::new(move || Some(stored.clone())));
            deliver(delivered);
            let snapshot = ledger.snapshot();
            assert_eq!(snapshot.balanced, snapshot.imbalance().is_none());
            snapshot.imbalance().unwrap_or_default()
        };
        deliver(100);
        assert_eq!(words(&whole, 6), "");
        let gone = StoredSnapshot {
            searchable: 9,
            ..whole.clone()
        };
        assert!(words(&gone, 6).contains("store local: at_start 10"));
        assert!(words(&whole, 7).contains("delivered 7 >"));
        local.keeps(Box::new(|| None));
        assert_eq!(ledger.snapshot().destinations["local"].stored, None);
    }

    #[test]
    fn a_destination_knows_where_its_events_came_from() {
        let ledger = Ledger::new();
        let destination = ledger.destination("null0");
        for (source, events) in [("syslog", 2), ("hec", 1), ("syslog", 3)] {
            ledger.post(|| destination.came_from(source, events));
        }
        let from = &ledger.snapshot().destinations["null0"].from;
        assert_eq!((from["syslog"], from["hec"], from.len()), (5, 1, 2));
    }

    #[test]
    fn counters_survive_their_configuration() {
        let ledger = Ledger::new();
        ledger.source("syslog").received.add(1);
        assert_eq!(ledger.source("syslog").received.get(), 1);
        assert_eq!(ledger.snapshot().sources.len(), 1);
    }
}
