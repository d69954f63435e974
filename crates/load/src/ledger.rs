//! Receiver's ledger of this run: the difference of two snapshots.
//!
//! It is about this run only if nobody else sends to the same receiver meanwhile.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use inrush_event::LedgerSnapshot;
use serde::{Deserialize, Serialize};

use crate::error::LoadError;
use crate::http::HttpClient;

/// Interval at which the ledger is polled while it settles.
const STEP: Duration = Duration::from_millis(200);

/// A receiver's account of this run, in events.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LedgerCheck {
    /// URL of the ledger.
    pub url: String,
    /// Messages sent.
    pub sent: u64,
    /// Events that reached the receiver, over all its sources.
    pub received: u64,
    /// Datagrams that the receiver's kernel dropped.
    pub kernel_dropped: u64,
    /// Received and not accepted.
    pub rejected: u64,
    /// Accepted over all its sources.
    pub accepted: u64,
    /// Taken out by rules.
    pub filtered: u64,
    /// By name.
    pub destinations: BTreeMap<String, DestinationCheck>,
    /// True if the ledger itself says that its equations hold.
    pub balanced: bool,
    /// Sent, but neither received nor dropped by the kernel; negative if more arrived.
    pub unaccounted: i64,
    /// Gone for good: dropped, rejected or unaccounted.
    pub lost: u64,
    /// True if everything was accounted for and nothing pending when it was last read.
    pub settled: bool,
}

/// One destination's account of this run, in events.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct DestinationCheck {
    /// Put before it.
    pub accepted: u64,
    /// Taken by it.
    pub delivered: u64,
    /// Refused by it.
    pub quarantined: u64,
    /// Given up.
    pub dropped: u64,
    /// On their way when the ledger was last read.
    pub pending: u64,
}

impl LedgerCheck {
    /// True if every message arrived and has its fate.
    pub fn ok(&self) -> bool {
        self.balanced && self.settled && self.lost == 0 && self.unaccounted == 0
    }
}

/// A ledger as it was before the run.
#[derive(Debug)]
pub(crate) struct LedgerWatch {
    client: HttpClient,
    before: LedgerSnapshot,
}

impl LedgerWatch {
    /// Reads the ledger at `client`'s address; `None` if what answers there is no ledger.
    pub(crate) fn try_start(client: &HttpClient) -> Result<Option<LedgerSnapshot>, LoadError> {
        Ok(serde_json::from_slice(&client.get_small()?).ok())
    }

    /// Watches from `before` on.
    pub(crate) fn new(client: HttpClient, before: LedgerSnapshot) -> Self {
        Self { client, before }
    }

    /// Watches from now on.
    ///
    /// # Errors
    /// [`LoadError::Verify`] if what answers is no ledger.
    pub(crate) fn start(url: &str) -> Result<Self, LoadError> {
        let client = HttpClient::new(url)?;
        match Self::try_start(&client)? {
            Some(before) => Ok(Self { client, before }),
            None => Err(not_a_ledger(&client)),
        }
    }

    /// Asks until everything sent is accounted for and nothing is pending, until `deadline` at
    /// most; the last answer.
    pub(crate) fn settle(&self, sent: u64, deadline: Instant) -> Result<LedgerCheck, LoadError> {
        loop {
            let now = Self::try_start(&self.client)?.ok_or_else(|| not_a_ledger(&self.client))?;
            let check = compare(self.client.url(), &self.before, &now, sent);
            if check.settled || Instant::now() >= deadline {
                return Ok(check);
            }
            std::thread::sleep(STEP);
        }
    }
}

fn not_a_ledger(client: &HttpClient) -> LoadError {
    LoadError::Verify {
        from: client.url().to_owned(),
        what: "the answer is not a ledger; the address ends in /api/v1/ledger".to_owned(),
    }
}

/// Compares two snapshots, and sets the change against what was sent.
fn compare(url: &str, before: &LedgerSnapshot, now: &LedgerSnapshot, sent: u64) -> LedgerCheck {
    let sum = |of: fn(&LedgerSnapshot) -> u64| of(now).saturating_sub(of(before));
    let received = sum(|l| l.sources.values().map(|s| s.received).sum());
    let kernel_dropped = sum(|l| l.sources.values().map(|s| s.kernel_dropped).sum());
    let rejected = sum(|l| l.sources.values().flat_map(|s| s.rejected.values()).sum());
    let accepted = sum(|l| l.sources.values().map(|s| s.accepted).sum());
    let filtered = sum(|l| l.filtered.values().sum());
    let destinations = destinations(before, now);
    let dropped: u64 = destinations.values().map(|d| d.dropped).sum();
    let pending: u64 = destinations.values().map(|d| d.pending).sum();
    let unaccounted = sent as i64 - (received + kernel_dropped) as i64;
    LedgerCheck {
        url: url.to_owned(),
        sent,
        received,
        kernel_dropped,
        rejected,
        accepted,
        filtered,
        destinations,
        balanced: now.balanced,
        unaccounted,
        lost: kernel_dropped + rejected + dropped + unaccounted.max(0) as u64,
        settled: unaccounted == 0 && pending == 0 && received == accepted + rejected,
    }
}

fn destinations(
    before: &LedgerSnapshot,
    now: &LedgerSnapshot,
) -> BTreeMap<String, DestinationCheck> {
    let row = |(name, after): (&String, &inrush_event::DestinationSnapshot)| {
        let first = before.destinations.get(name).cloned().unwrap_or_default();
        let total = |reasons: &BTreeMap<String, u64>| reasons.values().sum::<u64>();
        let check = DestinationCheck {
            accepted: after.accepted.saturating_sub(first.accepted),
            delivered: after.delivered.saturating_sub(first.delivered),
            quarantined: total(&after.quarantined).saturating_sub(total(&first.quarantined)),
            dropped: total(&after.dropped).saturating_sub(total(&first.dropped)),
            pending: after.pending,
        };
        (name.clone(), check)
    };
    now.destinations.iter().map(row).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn ledger(received: u64, dropped: u64, delivered: u64, pending: u64) -> LedgerSnapshot {
        serde_json::from_value(serde_json::json!({
            "at_ns": 1, "balanced": true, "filtered": {},
            "sources": {"syslog": {"received": received, "received_bytes": 0,
                "kernel_dropped": dropped, "rejected": {}, "accepted": received}},
            "destinations": {"null0": {"accepted": received, "delivered": delivered,
                "quarantined": {}, "dropped": {}, "pending": pending,
                "oldest_pending_seconds": 0.0}},
        }))
        .unwrap()
    }

    #[test]
    fn a_run_is_the_difference_of_two_snapshots() {
        let check = compare("u", &ledger(100, 5, 100, 0), &ledger(160, 5, 160, 0), 60);
        assert!(check.ok(), "{check:?}");
        assert_eq!(
            (check.received, check.destinations["null0"].delivered),
            (60, 60)
        );
    }

    #[test]
    fn drops_of_the_kernel_are_accounted_and_lost() {
        let check = compare("u", &ledger(0, 0, 0, 0), &ledger(58, 2, 58, 0), 60);
        assert!(check.settled && check.unaccounted == 0 && check.lost == 2 && !check.ok());
    }

    #[test]
    fn what_is_missing_or_pending_is_not_settled() {
        let missing = compare("u", &ledger(0, 0, 0, 0), &ledger(59, 0, 59, 0), 60);
        assert!(!missing.settled && missing.unaccounted == 1 && missing.lost == 1);
        let pending = compare("u", &ledger(0, 0, 0, 0), &ledger(60, 0, 50, 10), 60);
        assert!(!pending.settled && pending.lost == 0 && !pending.ok());
        let twice = compare("u", &ledger(0, 0, 0, 0), &ledger(61, 0, 61, 0), 60);
        assert!(twice.unaccounted == -1 && !twice.ok());
    }
}
