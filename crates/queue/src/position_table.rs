//! Newest durable position of each stream of each source, by the source's name.

use std::collections::BTreeMap;
use std::sync::Arc;

use inrush_event::{Batch, PositionList, SourceInfo, StreamPosition, limits};

/// Bytes of memory that a stream takes beside its state.
const STREAM_OVERHEAD: usize = 64;

/// One of so many streams goes at a time when there are too many.
const EVICTED_PART: usize = 16;

/// Positions that came with one batch, or behind it.
#[derive(Clone)]
pub(crate) struct PositionNote {
    pub(crate) source: Arc<SourceInfo>,
    pub(crate) positions: Arc<[StreamPosition]>,
    /// Position in the log behind that batch.
    pub(crate) end: u64,
}

impl PositionNote {
    /// The note of a batch, if it carries positions.
    pub(crate) fn of(batch: &Batch, end: u64) -> Option<Self> {
        let positions = Arc::clone(batch.shared_positions()?);
        let source = Arc::clone(batch.source());
        Some(Self {
            source,
            positions,
            end,
        })
    }
}

/// Position of one stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KeptPosition {
    /// Position in the log behind the batch that it came with.
    pub(crate) end: u64,
    pub(crate) state: Box<[u8]>,
}

/// Bounds of what is remembered.
#[derive(Clone, Copy)]
pub(crate) struct TableLimits {
    pub(crate) streams: usize,
    pub(crate) bytes: usize,
}

impl Default for TableLimits {
    fn default() -> Self {
        Self {
            streams: limits::POSITION_STREAMS_MAX,
            bytes: limits::POSITIONS_BYTES_MAX,
        }
    }
}

/// The positions of all sources.
#[derive(Clone, Default)]
pub(crate) struct PositionTable {
    sources: BTreeMap<String, BTreeMap<u64, KeptPosition>>,
    streams: usize,
    bytes: usize,
    pub(crate) limits: TableLimits,
    /// Every position below this position of the log is in here.
    pub(crate) complete_to: u64,
    /// Counts the changes.
    pub(crate) changes: u64,
}

impl PositionTable {
    /// Takes positions, unless later ones of a stream are known: they end behind.
    pub(crate) fn note(&mut self, source: &str, positions: &[StreamPosition], end: u64) {
        self.changes += 1;
        if !self.sources.contains_key(source) {
            self.sources.insert(source.to_owned(), BTreeMap::new());
        }
        for StreamPosition { stream, state } in positions {
            self.put(source, *stream, state, end);
        }
        while self.streams > self.limits.streams || self.bytes > self.limits.bytes {
            self.evict();
        }
    }

    fn put(&mut self, source: &str, stream: u64, state: &[u8], end: u64) {
        let Some(streams) = self.sources.get_mut(source) else {
            return;
        };
        match streams.get_mut(&stream) {
            Some(known) if known.end > end => {}
            Some(known) if state.is_empty() => {
                self.streams -= 1;
                self.bytes -= known.state.len() + STREAM_OVERHEAD;
                streams.remove(&stream);
            }
            Some(known) => {
                self.bytes = self.bytes + state.len() - known.state.len();
                known.end = end;
                match known.state.len() == state.len() {
                    true => known.state.copy_from_slice(state),
                    false => known.state = state.into(),
                }
            }
            None if state.is_empty() => {}
            None => {
                self.streams += 1;
                self.bytes += state.len() + STREAM_OVERHEAD;
                let state = state.into();
                streams.insert(stream, KeptPosition { end, state });
            }
        }
    }

    /// Forgets the streams that nothing was heard of for longest.
    fn evict(&mut self) {
        let all = self.sources.values().flat_map(BTreeMap::values);
        let mut ends: Vec<u64> = all.map(|kept| kept.end).collect();
        let gone = ends.len().div_ceil(EVICTED_PART);
        let (_, last, _) = ends.select_nth_unstable(gone - 1);
        let (last, before) = (*last, self.streams);
        for streams in self.sources.values_mut() {
            streams.retain(|_, kept| {
                let goes = kept.end <= last;
                if goes {
                    self.streams -= 1;
                    self.bytes -= kept.state.len() + STREAM_OVERHEAD;
                }
                !goes
            });
        }
        let gone = before - self.streams;
        tracing::warn!(
            gone,
            kept = self.streams,
            "queue: too many streams of sources; the positions of those that were read longest \
             ago are forgotten, and such a stream is read again if it comes back"
        );
    }

    /// True if no source has a stream.
    pub(crate) fn is_empty(&self) -> bool {
        self.streams == 0
    }

    /// The sources with their streams, in order.
    pub(crate) fn sources(&self) -> &BTreeMap<String, BTreeMap<u64, KeptPosition>> {
        &self.sources
    }

    /// The positions of a source, by stream.
    pub(crate) fn of(&self, source: &str) -> Vec<StreamPosition> {
        let streams = self.sources.get(source).into_iter().flatten();
        let position = |(stream, kept): (&u64, &KeptPosition)| StreamPosition {
            stream: *stream,
            state: kept.state.clone(),
        };
        streams.map(position).collect()
    }

    /// Takes back what it says of the log from this position on: others were given out for it.
    pub(crate) fn end_at(&mut self, position: u64) {
        self.complete_to = self.complete_to.min(position);
        for kept in self.sources.values_mut().flat_map(BTreeMap::values_mut) {
            kept.end = kept.end.min(position);
        }
    }
}

/// Appends a note to others. Once they are more than `most`, those of a source become one.
pub(crate) fn add_note(notes: &mut Vec<PositionNote>, note: PositionNote, most: usize) {
    notes.push(note);
    if notes.len() <= most {
        return;
    }
    let mut merged: Vec<PositionNote> = Vec::new();
    for note in notes.drain(..) {
        let same = |one: &&mut PositionNote| one.source.name == note.source.name;
        match merged.iter_mut().find(same) {
            Some(known) => {
                let both = known.positions.iter().chain(&*note.positions).cloned();
                let both: PositionList = both.collect();
                known.end = known.end.max(note.end);
                known.positions = both.freeze().unwrap_or_default();
            }
            None => merged.push(note),
        }
    }
    *notes = merged;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(stream: u64, bytes: usize) -> StreamPosition {
        let state = vec![7; bytes].into();
        StreamPosition { stream, state }
    }

    fn streams(table: &PositionTable, source: &str) -> Vec<u64> {
        table.of(source).iter().map(|one| one.stream).collect()
    }

    #[test]
    fn the_streams_that_were_read_longest_ago_are_forgotten_first() {
        let limits = TableLimits {
            streams: 32,
            bytes: 32 * (STREAM_OVERHEAD + 10),
        };
        let mut table = PositionTable {
            limits,
            ..PositionTable::default()
        };
        for stream in 0..32 {
            table.note("a", &[position(stream, 10)], stream);
        }
        table.note("a", &[position(0, 10)], 32);
        assert_eq!(table.streams, 32);
        table.note("b", &[position(7, 1)], 33);
        assert_eq!(streams(&table, "a"), [vec![0], (4..32).collect()].concat());
        assert_eq!(streams(&table, "b"), [7]);
        // One that is long takes the place of many.
        table.note("b", &[position(8, 400)], 34);
        assert!(table.bytes <= limits.bytes && streams(&table, "b") == [7, 8]);
    }

    #[test]
    fn an_older_position_does_not_count_and_an_empty_one_forgets() {
        let mut table = PositionTable::default();
        table.note("a", &[position(1, 5)], 9);
        table.note("a", &[position(1, 6)], 8);
        assert_eq!(table.of("a"), [position(1, 5)]);
        table.note("a", &[position(1, 6)], 9);
        assert_eq!(table.of("a"), [position(1, 6)], "the last of a batch");
        table.note("a", &[position(1, 0)], 9);
        assert_eq!((table.of("a"), table.streams, table.bytes), (vec![], 0, 0));
    }

    #[test]
    fn many_notes_become_one_a_source() {
        let source = |name: &str| {
            Arc::new(SourceInfo {
                name: name.to_owned(),
                index: String::new(),
                sourcetype: String::new(),
            })
        };
        let mut notes = Vec::new();
        for number in 0..1000 {
            let note = PositionNote {
                source: source(["a", "b"][number as usize % 2]),
                positions: [position(number % 10, number as usize)].into(),
                end: number,
            };
            add_note(&mut notes, note, 16);
            assert!(notes.len() <= 17);
        }
        let mut table = PositionTable::default();
        for note in &notes {
            table.note(&note.source.name, &note.positions, note.end);
        }
        let expected = |stream| position(stream, 990 + stream as usize);
        assert_eq!(table.of("a"), [0, 2, 4, 6, 8].map(expected));
        assert_eq!(table.of("b"), [1, 3, 5, 7, 9].map(expected));
    }
}
