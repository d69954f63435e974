//! Conditions of a search that pruning can use.

use std::collections::{BTreeMap, BTreeSet};

use crate::grams::GramProbe;
use inrush_query::EventColumn;
use inrush_query::sql::{QueryRange, Translation};

/// Time, values and texts of every event that is looked for. Pieces that cannot have them are left
/// out. All else that is read has to be tested for them, but for the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PruningFilter {
    /// The earliest time, in nanoseconds since 1970; [`i64::MIN`] for no bound.
    pub from_ns: i64,
    /// The time before which all lie; [`i64::MAX`] for no bound.
    pub to_ns: i64,
    /// The values of which every event has one, for columns that are compared
    /// [as typed](EventColumn::as_typed).
    pub equals: BTreeMap<EventColumn, BTreeSet<String>>,
    /// Texts that the raw text contains once both are [folded](inrush_query::text::fold).
    pub needles: Vec<String>,
}

impl Default for PruningFilter {
    fn default() -> Self {
        Self {
            from_ns: i64::MIN,
            to_ns: i64::MAX,
            equals: BTreeMap::new(),
            needles: Vec::new(),
        }
    }
}

impl PruningFilter {
    /// Conditions of a query within a range of time.
    pub fn of(translation: &Translation, range: &QueryRange) -> Self {
        Self {
            from_ns: range.from_ns,
            to_ns: range.to_ns,
            equals: translation.equals.clone(),
            needles: translation.needles.clone(),
        }
    }

    /// True if an event of this time is wanted.
    pub const fn has(&self, time_ns: i64) -> bool {
        self.from_ns <= time_ns && (time_ns < self.to_ns || self.to_ns == i64::MAX)
    }

    /// True if events between these times, both included, can be wanted.
    pub const fn overlaps(&self, first_ns: i64, last_ns: i64) -> bool {
        self.from_ns <= last_ns && (first_ns < self.to_ns || self.to_ns == i64::MAX)
    }

    /// True if all events between these times, both included, are within the wanted time.
    pub const fn covers(&self, first_ns: i64, last_ns: i64) -> bool {
        self.has(first_ns) && self.has(last_ns)
    }

    /// True if the time is all that is asked for.
    pub fn is_time_only(&self) -> bool {
        self.equals.is_empty() && self.needles.is_empty()
    }

    /// True if an event may have this value in the column.
    pub(super) fn allows(&self, column: EventColumn, value: &str) -> bool {
        self.equals
            .get(&column)
            .is_none_or(|values| values.contains(value))
    }

    /// For the filters of raw text.
    pub(super) fn probes(&self) -> Vec<GramProbe> {
        self.needles
            .iter()
            .filter_map(|n| GramProbe::of(n))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_its_beginning_and_not_its_end() {
        let wanted = PruningFilter {
            from_ns: 10,
            to_ns: 20,
            ..PruningFilter::default()
        };
        assert!(wanted.has(10) && wanted.has(19) && !wanted.has(20) && !wanted.has(9));
        assert!(wanted.overlaps(0, 10) && wanted.overlaps(19, 30) && wanted.overlaps(0, 30));
        assert!(!wanted.overlaps(20, 30) && !wanted.overlaps(0, 9));
        assert!(wanted.covers(10, 19) && !wanted.covers(10, 20));
        assert!(PruningFilter::default().covers(i64::MIN, i64::MAX));
    }
}
