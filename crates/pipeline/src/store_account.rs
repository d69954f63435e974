//! Registers a store: tells it the claims on its disk, and the ledger its account.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use inrush_event::{DestinationCounters, StoredSnapshot};
use inrush_host::doctor::device;
use inrush_queue::Log;
use inrush_sink::{REASONS, Store, StoreSlot};

use crate::quarantine::DiskQuarantine;

/// Tells a store what the queue and quarantine may still take of its file system, and the ledger
/// what becomes of its events. Before the first event comes to it.
pub(crate) fn introduce(
    slot: &Arc<StoreSlot>,
    counters: &DestinationCounters,
    (log, kept): (&Arc<Log>, Option<&Arc<DiskQuarantine>>),
    data_dir: &Path,
) {
    // Kept when the destination has ended: its last account is that of the stop.
    let (asked, opened) = (Arc::downgrade(slot), OnceLock::new());
    counters.keeps(Box::new(move || {
        if let Some(store) = asked.upgrade().and_then(|slot| slot.get()) {
            let _ = opened.set(store);
        }
        opened.get().map(|store| snapshot(store))
    }));
    let (log, kept) = (Arc::clone(log), kept.map(Arc::clone));
    let data_dir = data_dir.to_owned();
    slot.set_claims(Box::new(move |home| {
        // The folders of both may be mounts of their own.
        let home = device(home);
        let shares = |folder| home.is_some() && device(&data_dir.join(folder)) == home;
        let levels = log.levels();
        let kept = kept.as_ref().map(|kept| kept.log.bytes());
        let (bytes, bytes_max) = kept.unwrap_or_default();
        let left = |folder, max: u64, used: u64| match shares(folder) {
            true => max.saturating_sub(used),
            false => 0,
        };
        let queue = left("queue", levels.disk_budget, levels.disk_bytes);
        queue + left(crate::quarantine::FOLDER, bytes_max, bytes)
    }));
}

fn snapshot(store: &Store) -> StoredSnapshot {
    let account = store.account();
    let expired = REASONS.iter().zip(account.expired);
    StoredSnapshot {
        at_start: account.at_start,
        written: account.written,
        repeated: store.counters.repeated.get(),
        delivered: 0,
        expired: expired
            .filter(|(_, events)| *events > 0)
            .map(|(reason, events)| ((*reason).to_owned(), events))
            .collect(),
        unreadable: account.unreadable,
        searchable: account.searchable,
        in_memory: account.in_memory,
    }
}
