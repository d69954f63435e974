//! Set of the events that committed files hold or held, by log and process.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Processes of logs that are remembered; the queue delivers again only what was in flight in the
/// last ones.
const LIVES_KEPT: usize = 256;

/// Events of one log that one process took in: numbers `first..first + count`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct EventRange {
    /// The log.
    pub log: u64,
    /// The process that had it.
    pub epoch: u32,
    /// The first event.
    pub first: u64,
    /// Number of events.
    pub count: u64,
}

/// A set of events.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DedupSet {
    /// Disjoint stretches that do not touch, by where they begin: their ends.
    lives: BTreeMap<(u64, u32), BTreeMap<u64, u64>>,
}

impl DedupSet {
    /// Adds events.
    pub fn add(&mut self, stretch: &EventRange) {
        if stretch.count == 0 {
            return;
        }
        let ends = self.lives.entry((stretch.log, stretch.epoch)).or_default();
        let (mut first, mut end) = (stretch.first, stretch.first.saturating_add(stretch.count));
        // Whatever overlaps or touches becomes one.
        while let Some((&begin, &until)) = ends.range(..=end).next_back() {
            if until < first {
                break;
            }
            ends.remove(&begin);
            first = first.min(begin);
            end = end.max(until);
        }
        ends.insert(first, end);
        while self.lives.len() > LIVES_KEPT {
            self.forget_one((stretch.log, stretch.epoch));
        }
    }

    /// Forgets the first process of the log that has had the most; never `last`, which was just
    /// added.
    fn forget_one(&mut self, last: (u64, u32)) {
        let mut most: Option<(usize, (u64, u32))> = None;
        let mut of_log: Option<(u64, (u64, u32), usize)> = None;
        for &life in self.lives.keys().filter(|life| **life != last) {
            let (first, count) = match of_log {
                Some((log, first, count)) if log == life.0 => (first, count + 1),
                _ => (life, 1),
            };
            of_log = Some((life.0, first, count));
            if most.is_none_or(|(lives, _)| count > lives) {
                most = Some((count, first));
            }
        }
        if let Some((_, life)) = most {
            self.lives.remove(&life);
        }
    }

    /// The parts of `events` (numbers of events) that are not in the set.
    pub fn missing(&self, log: u64, epoch: u32, events: Range<u64>) -> Vec<Range<u64>> {
        let Some(ends) = self.lives.get(&(log, epoch)) else {
            return std::iter::once(events).filter(|r| !r.is_empty()).collect();
        };
        let mut missing = Vec::new();
        let mut from = events.start;
        let before = ends.range(..events.start).next_back();
        for (&first, &end) in before.into_iter().chain(ends.range(events.clone())) {
            if first > from {
                missing.push(from..first);
            }
            from = from.max(end);
        }
        if from < events.end {
            missing.push(from..events.end);
        }
        missing
    }

    /// The set as stretches, to be written down.
    pub fn stretches(&self) -> Vec<EventRange> {
        let of = |(&(log, epoch), ends): (&(u64, u32), &BTreeMap<u64, u64>)| {
            let stretch = |(&first, &end): (&u64, &u64)| EventRange {
                log,
                epoch,
                first,
                count: end - first,
            };
            ends.iter().map(stretch).collect::<Vec<_>>()
        };
        self.lives.iter().flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_the_set_of_what_was_added(
            added in prop::collection::vec((0u32..3, 0u64..60, 0u64..12), 0..30),
            asked in (0u64..60, 0u64..30),
        ) {
            let mut covered = DedupSet::default();
            let mut all = BTreeSet::new();
            for (epoch, first, count) in added {
                covered.add(&EventRange { log: 1, epoch, first, count });
                all.extend((first..first + count).map(|n| (epoch, n)));
            }
            for epoch in 0..3 {
                let events = asked.0..asked.0 + asked.1;
                let missing = covered.missing(1, epoch, events.clone());
                prop_assert!(missing.iter().all(|r| !r.is_empty()));
                let found: Vec<u64> = missing.into_iter().flatten().collect();
                let expected: Vec<u64> = events.filter(|n| !all.contains(&(epoch, *n))).collect();
                prop_assert_eq!(found, expected);
            }
            let mut again = DedupSet::default();
            covered.stretches().iter().for_each(|stretch| again.add(stretch));
            prop_assert_eq!(&again, &covered);
            for pair in covered.stretches().windows(2) {
                let apart = pair[0].epoch != pair[1].epoch
                    || pair[0].first + pair[0].count < pair[1].first;
                prop_assert!(apart, "{:?}", pair);
            }
        }
    }

    #[test]
    fn the_oldest_lives_are_forgotten() {
        let mut covered = DedupSet::default();
        for epoch in 0..1000 {
            covered.add(&EventRange {
                log: 1,
                epoch,
                first: 0,
                count: 5,
            });
        }
        assert_eq!(covered.stretches().len(), LIVES_KEPT);
        assert_eq!(covered.missing(1, 999, 0..5), []);
        // A new queue's log may have a smaller number: its events are remembered all the same.
        let new = EventRange {
            log: 0,
            epoch: 1,
            first: 0,
            count: 5,
        };
        covered.add(&new);
        assert_eq!(covered.stretches().len(), LIVES_KEPT);
        assert_eq!(covered.missing(0, 1, 0..5), []);
    }
}
