//! Events ahead of a cursor that have their fate already: they are for other destinations, were
//! turned away, or an earlier process settled them.

use std::collections::VecDeque;
use std::ops::Range;

/// Ranges that do not touch, ascending. Adding behind the last and passing the first cost nothing
/// that grows with their number, for a destination that stands still may collect millions.
#[derive(Default)]
pub(crate) struct Settled {
    ranges: VecDeque<Range<u64>>,
    /// Events in all of them.
    total: u64,
}

impl Settled {
    /// Adds events that are the last of the log.
    pub(crate) fn push(&mut self, events: Range<u64>) {
        self.total += events.end - events.start;
        match self.ranges.back_mut() {
            Some(last) if last.end == events.start => last.end = events.end,
            _ => self.ranges.push_back(events),
        }
    }

    /// Settles what is not yet settled of `events`; returns how many that were.
    pub(crate) fn fill(&mut self, events: &Range<u64>) -> u64 {
        let new = events.end - events.start - self.overlap(events);
        let (mut start, mut end) = (events.start, events.end);
        let from = self.ranges.partition_point(|range| range.end < start);
        let to = self.ranges.partition_point(|range| range.start <= end);
        for range in self.ranges.drain(from..to) {
            start = start.min(range.start);
            end = end.max(range.end);
        }
        self.ranges.insert(from, start..end);
        self.total += new;
        new
    }

    /// Forgets the ranges that end at or before `event`.
    pub(crate) fn pass(&mut self, event: u64) {
        while let Some(range) = self.ranges.pop_front_if(|range| range.end <= event) {
            self.total -= range.end - range.start;
        }
    }

    /// The ranges that reach into `within`, each with its place in the list.
    pub(crate) fn within(&self, within: Range<u64>) -> impl Iterator<Item = (usize, &Range<u64>)> {
        let from = self
            .ranges
            .partition_point(|range| range.end <= within.start);
        let inside = move |(_, range): &(usize, &Range<u64>)| range.start < within.end;
        self.ranges.iter().enumerate().skip(from).take_while(inside)
    }

    /// Events at and behind `event`.
    pub(crate) fn behind(&self, event: u64) -> u64 {
        let passed = self.within(0..event);
        let passed = passed.map(|(_, range)| range.end.min(event) - range.start);
        self.total - passed.sum::<u64>()
    }

    /// Events of `range` that are settled.
    pub(crate) fn overlap(&self, range: &Range<u64>) -> u64 {
        let common = self.within(range.clone());
        common
            .map(|(_, r)| r.end.min(range.end) - r.start.max(range.start))
            .sum()
    }

    /// True if all of `range` is settled, as the first `ranges_max` ranges tell.
    pub(crate) fn covers(&self, range: &Range<u64>, ranges_max: usize) -> bool {
        let mut within = self.within(range.clone());
        let covers = |(index, r): (usize, &Range<u64>)| {
            index < ranges_max && r.start <= range.start && r.end >= range.end
        };
        range.start >= range.end || within.next().is_some_and(covers)
    }

    /// All of them, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Range<u64>> {
        self.ranges.iter()
    }
}

impl FromIterator<Range<u64>> for Settled {
    fn from_iter<T: IntoIterator<Item = Range<u64>>>(ranges: T) -> Self {
        let mut all = Self::default();
        ranges.into_iter().for_each(|range| all.push(range));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_settled_ahead_is_known_to_the_event() {
        let mut settled: Settled = [10..20, 30..40].into_iter().collect();
        settled.push(40..45);
        assert_eq!(settled.iter().count(), 2, "they touch");
        assert_eq!(settled.overlap(&(15..35)), 10);
        assert_eq!((settled.behind(0), settled.behind(35)), (25, 10));
        assert!(settled.covers(&(30..45), 2) && settled.covers(&(7..7), 0));
        assert!(!settled.covers(&(30..45), 1), "only the first one counts");
        assert!(!settled.covers(&(25..35), 2) && !settled.covers(&(45..46), 2));
        assert_eq!(settled.fill(&(18..25)), 5);
        assert_eq!(settled.fill(&(25..28)), 3);
        assert_eq!(settled.fill(&(26..28)), 0);
        assert_eq!(settled.iter().next(), Some(&(10..28)));
        settled = [10..20, 30..45].into_iter().collect();
        settled.pass(19);
        assert_eq!(settled.behind(15), 20);
        settled.pass(20);
        assert_eq!((settled.iter().count(), settled.behind(0)), (1, 15));
    }
}
