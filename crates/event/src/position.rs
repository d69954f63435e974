//! Places up to which a source has read its streams: they travel with the batch of what was read.

use std::sync::Arc;

/// Place up to which a source has read one of its streams, durable with the batch that carries it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamPosition {
    /// Number of the stream: the source's own, and never used again for another.
    pub stream: u64,
    /// State to go on from, in the source's own form; empty: the stream is forgotten. At most
    /// `limits::POSITION_BYTES_MAX`.
    pub state: Box<[u8]>,
}

/// Entries from which on earlier ones of the same stream are looked for.
const COMPACT_MIN: usize = 64;

/// Positions of a batch that is being filled; the last one of a stream counts.
#[derive(Default)]
pub struct PositionList {
    entries: Vec<StreamPosition>,
    /// Bytes of all states.
    bytes: usize,
    /// Number of entries at which the list is freed of what does not count any more.
    compact_at: usize,
}

impl FromIterator<StreamPosition> for PositionList {
    fn from_iter<T: IntoIterator<Item = StreamPosition>>(positions: T) -> Self {
        let mut list = Self::default();
        positions
            .into_iter()
            .for_each(|position| list.note(position));
        list
    }
}

impl PositionList {
    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of all states.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds one; it counts in place of an earlier one of the same stream.
    pub fn note(&mut self, position: StreamPosition) {
        self.bytes += position.state.len();
        if let Some(last) = self.entries.last_mut()
            && last.stream == position.stream
        {
            self.bytes -= last.state.len();
            *last = position;
            return;
        }
        self.entries.push(position);
        if self.entries.len() >= self.compact_at.max(COMPACT_MIN) {
            self.compact();
            self.compact_at = 2 * self.entries.len();
        }
    }

    /// Adds those of a later batch.
    pub fn append(&mut self, later: Self) {
        if self.is_empty() {
            *self = later;
            return;
        }
        for position in later.entries {
            self.note(position);
        }
    }

    /// Takes out what a later entry of the same stream replaces.
    fn compact(&mut self) {
        // Stable, so that the last entry of a stream stays the last.
        self.entries.sort_by_key(|position| position.stream);
        let bytes = &mut self.bytes;
        self.entries.dedup_by(|later, earlier| {
            let same = later.stream == earlier.stream;
            if same {
                *bytes -= earlier.state.len();
                std::mem::swap(later, earlier);
            }
            same
        });
    }

    /// One entry a stream, by number; `None` if there is none.
    pub fn freeze(mut self) -> Option<Arc<[StreamPosition]>> {
        if self.is_empty() {
            return None;
        }
        self.compact();
        Some(self.entries.into())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn position(stream: u64, state: &[u8]) -> StreamPosition {
        let state = state.into();
        StreamPosition { stream, state }
    }

    proptest! {
        /// Whatever is noted, and in how many lists: the last one of each stream counts.
        #[test]
        fn the_last_position_of_a_stream_counts(
            notes in prop::collection::vec((0u64..40, 0usize..9), 0..400),
            cut in 0usize..400,
        ) {
            let mut expected = BTreeMap::new();
            let (mut first, mut later) = (PositionList::default(), PositionList::default());
            for (at, (stream, length)) in notes.iter().enumerate() {
                let state = vec![at as u8; *length];
                let list = if at < cut { &mut first } else { &mut later };
                list.note(position(*stream, &state));
                expected.insert(*stream, state);
            }
            first.append(later);
            let frozen = first.freeze();
            let frozen = frozen.as_deref().unwrap_or_default();
            let found: Vec<_> = frozen.iter().map(|p| (p.stream, p.state.to_vec())).collect();
            prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_list_of_few_streams_stays_short_and_knows_its_bytes() {
        let mut list = PositionList::default();
        for round in 0..10_000u64 {
            list.note(position(round % 3, &[7; 5]));
        }
        assert!(list.entries.len() < COMPACT_MIN);
        list.compact();
        assert_eq!((list.entries.len(), list.bytes()), (3, 15));
    }
}
