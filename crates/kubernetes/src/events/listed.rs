//! Events of a list, in the order of their versions, within bounded memory.
//!
//! A list comes in the order of names. To go on after a crash in the middle of it, its events are
//! handed on by version, and the version of the last one is the place from which to go on. Where
//! they are more than the bound, the lowest versions are kept, and the rest is listed again.

use std::collections::BTreeMap;

use super::object::ClusterEvent;

/// Events of a list beyond a version.
#[derive(Default)]
pub(super) struct ListedEvents {
    /// Sorted by version; versions are those of the store, so no two objects share one.
    kept: BTreeMap<u64, ClusterEvent>,
    bytes: usize,
    bytes_max: usize,
    /// Lowest version that did not fit: none above it is kept, for the place would pass over it.
    left_out: Option<u64>,
}

impl ListedEvents {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            ..Self::default()
        }
    }

    /// Adds an event with its version.
    pub(super) fn add(&mut self, version: u64, event: ClusterEvent) {
        if self.left_out.is_some_and(|left_out| version >= left_out) {
            return;
        }
        self.bytes += event.text.len() + event.fields.len();
        if let Some(before) = self.kept.insert(version, event) {
            self.bytes -= before.text.len() + before.fields.len();
        }
        while self.bytes > self.bytes_max && self.kept.len() > 1 {
            if let Some((version, last)) = self.kept.pop_last() {
                self.bytes -= last.text.len() + last.fields.len();
                self.left_out = Some(version);
            }
        }
    }

    /// True if events with higher versions did not fit.
    pub(super) fn is_partial(&self) -> bool {
        self.left_out.is_some()
    }

    /// The events, the lowest version first.
    pub(super) fn into_events(self) -> impl Iterator<Item = (u64, ClusterEvent)> {
        self.kept.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(bytes: usize) -> ClusterEvent {
        ClusterEvent {
            text: vec![b'x'; bytes],
            ..ClusterEvent::default()
        }
    }

    proptest! {
        #[test]
        fn lists_in_parts_have_every_event_once_and_in_order(
            sizes in prop::collection::btree_map(1..10_000_u64, 1..50_usize, 0..80),
            order in prop::collection::vec(0..80_usize, 80),
            bytes_max in 60..500_usize,
        ) {
            let mut names: Vec<u64> = sizes.keys().copied().collect();
            for (at, to) in order.into_iter().enumerate().take(names.len()) {
                let to = to % names.len();
                names.swap(at, to);
            }
            let (mut found, mut beyond) = (Vec::new(), 0);
            loop {
                let mut part = ListedEvents::new(bytes_max);
                for &version in names.iter().filter(|version| **version > beyond) {
                    part.add(version, event(sizes[&version]));
                    prop_assert!(part.bytes <= bytes_max);
                }
                let is_partial = part.is_partial();
                found.extend(part.into_events().map(|(version, _)| version));
                beyond = found.last().copied().unwrap_or(0);
                if !is_partial {
                    break;
                }
            }
            prop_assert_eq!(found, sizes.into_keys().collect::<Vec<_>>());
        }
    }
}
