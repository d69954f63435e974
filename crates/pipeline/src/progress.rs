//! Progress of destinations: since when each has taken nothing although events are pending.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use inrush_event::{LedgerSnapshot, Timestamp};

/// A destination with events pending that has taken none for this long is stalled.
const STALLED: Duration = Duration::from_secs(15);

/// Time at which each destination last took something.
#[derive(Default)]
pub struct DeliveryProgress {
    destinations: HashMap<String, ProgressMark>,
}

struct ProgressMark {
    settled: u64,
    at: Instant,
    at_wall: Timestamp,
    pending: u64,
}

impl DeliveryProgress {
    /// Takes note of what each destination has settled and pending; to be called once a second.
    pub fn note(&mut self, ledger: &LedgerSnapshot) {
        let now = Instant::now();
        for (name, row) in &ledger.destinations {
            let settled = row.accepted - row.pending;
            let step = self
                .destinations
                .entry(name.clone())
                .or_insert(ProgressMark {
                    settled,
                    at: now,
                    at_wall: Timestamp(ledger.at_ns),
                    pending: 0,
                });
            // Without anything pending there is nothing to take.
            if step.settled != settled || step.pending == 0 {
                *step = ProgressMark {
                    settled,
                    at: now,
                    at_wall: Timestamp(ledger.at_ns),
                    pending: 0,
                };
            }
            step.pending = row.pending;
        }
    }

    /// Since when a destination has had events pending and taken none, if that is too long.
    pub fn stalled_since(&self, name: &str) -> Option<Timestamp> {
        let step = self.destinations.get(name)?;
        (step.pending > 0 && step.at.elapsed() >= STALLED).then_some(step.at_wall)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use inrush_event::Ledger;

    use super::*;

    #[test]
    fn a_destination_is_stalled_only_while_something_is_pending() {
        let ledger = Ledger::new();
        let destination = ledger.destination("d");
        destination.accepted.add(1);
        destination.pending.add(1);
        let mut progress = DeliveryProgress::default();
        progress.note(&ledger.snapshot());
        assert_eq!(progress.stalled_since("d"), None, "not long enough");
        let step = progress.destinations.get_mut("d").unwrap();
        step.at = step.at.checked_sub(STALLED).unwrap();
        progress.note(&ledger.snapshot());
        assert!(progress.stalled_since("d").is_some());
        destination.pending.sub(1);
        destination.delivered.add(1);
        progress.note(&ledger.snapshot());
        assert_eq!(progress.stalled_since("d"), None);
    }
}
