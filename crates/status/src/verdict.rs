//! Verdict for the health listener, from edges and bounds.

use inrush_config::HealthOptions;
use inrush_event::LedgerSnapshot;

use crate::admin::{EdgeHealth, EdgeKind, HealthVerdict};

impl HealthVerdict {
    /// Verdict on these edges; `within` says that no bound is exceeded.
    pub fn of(edges: &[EdgeHealth], within: bool) -> Self {
        let on_the_way_in = |edge: &&EdgeHealth| edge.kind != EdgeKind::Destination;
        Self {
            progress: edges.iter().all(|edge| edge.ok),
            accepts: edges.iter().filter(on_the_way_in).all(|edge| edge.ok),
            within,
        }
    }
}

/// True if no destination of `ledger` exceeds a bound.
pub(crate) fn within(options: &HealthOptions, ledger: &LedgerSnapshot) -> bool {
    let age = options.max_age.map(|age| age.0.as_secs_f64());
    ledger.destinations.values().all(|row| {
        age.is_none_or(|age| row.oldest_pending_seconds <= age)
            && options.max_backlog.is_none_or(|most| row.pending <= most)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use inrush_event::{Ledger, Period};

    use super::*;

    fn options(max_age_minutes: Option<u64>, max_backlog: Option<u64>) -> HealthOptions {
        let age = |minutes| Period(Duration::from_secs(60 * minutes));
        HealthOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            max_age: max_age_minutes.map(age),
            max_backlog,
        }
    }

    fn edge(kind: EdgeKind, ok: bool) -> EdgeHealth {
        EdgeHealth {
            name: "x".to_owned(),
            kind,
            ok,
            since_ns: None,
            reason: None,
        }
    }

    #[test]
    fn a_dead_destination_leaves_the_way_in_open() {
        let of = |source, queue, destination| {
            let edges = [
                edge(EdgeKind::Source, source),
                edge(EdgeKind::Queue, queue),
                edge(EdgeKind::Destination, destination),
            ];
            let verdict = HealthVerdict::of(&edges, true);
            (verdict.progress, verdict.accepts)
        };
        assert_eq!(of(true, true, true), (true, true));
        assert_eq!(of(true, true, false), (false, true));
        assert_eq!(of(true, false, true), (false, false));
        assert_eq!(of(false, true, true), (false, false));
    }

    #[test]
    fn bounds_are_the_highest_values_that_are_well() {
        let ledger = Ledger::new();
        let (well, slow) = (ledger.destination("well"), ledger.destination("slow"));
        well.accepted.add(1);
        well.delivered.add(1);
        slow.accepted.add(7);
        slow.pending.add(7);
        let hour_ago = inrush_event::Timestamp::now().0 - 3_600_000_000_000;
        slow.oldest_pending_ns.add(hour_ago as u64);
        let is_within = |age, backlog| within(&options(age, backlog), &ledger.snapshot());
        assert!(is_within(None, None));
        assert!(is_within(None, Some(7)));
        assert!(!is_within(None, Some(6)));
        assert!(is_within(Some(61), None));
        assert!(!is_within(Some(59), None));
        assert!(!is_within(Some(61), Some(6)));
        assert!(is_within(Some(61), Some(7)));
    }
}
