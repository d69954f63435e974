//! Entries: how events become some, and how they are read back.

use std::ops::Range;
use std::sync::Arc;

use inrush_event::{Batch, BatchParts, BatchPool, ClassId, Record, Span};

use super::QuarantineFilter;
use crate::format::{LogId, RefusalNote};
use crate::reader::{BadRange, SegmentRead, SegmentReader};
use crate::segments::{NO_END, Segment};
use crate::storage::Storage;

/// Events that a destination refused for the same reason.
pub struct RefusedEvents<'a> {
    /// The batch that they are in.
    pub batch: &'a Batch,
    /// Indexes into its records.
    pub events: Range<u32>,
    /// Reason of the refusal.
    pub note: RefusalNote,
}

/// One event in quarantine.
#[derive(Clone)]
pub struct QuarantineEntry {
    /// Names it for as long as it is there.
    pub number: u64,
    /// Name of the destination that refused it.
    pub destination: String,
    /// Reason of the refusal.
    pub note: RefusalNote,
    /// The event, alone in its batch, for that destination.
    pub batch: Arc<Batch>,
}

/// Each event alone in a batch of its own.
pub(super) fn alone(
    to: &Arc<str>,
    refused: &[RefusedEvents<'_>],
) -> impl Iterator<Item = (Batch, RefusalNote)> {
    refused.iter().flat_map(move |refused| {
        let events = refused.events.start as usize..refused.events.end as usize;
        let records = refused.batch.records().get(events).unwrap_or_default();
        records
            .iter()
            .map(|record| (copy(to, refused.batch, record), refused.note.clone()))
    })
}

fn copy(to: &Arc<str>, batch: &Batch, record: &Record) -> Batch {
    let raw = record.extent();
    let mut arena = batch.get(raw).to_vec();
    // Fields lie in the raw record; one that does not is brought along.
    let mut moved = |span: Span| {
        if span.is_empty() {
            return Span::EMPTY;
        }
        if span.start >= raw.start && span.end() <= raw.end() {
            return Span {
                start: span.start - raw.start,
                len: span.len,
            };
        }
        let start = arena.len();
        arena.extend_from_slice(batch.get(span));
        Span::new(start, arena.len())
    };
    let alone = Record {
        raw: moved(record.raw),
        host: moved(record.host),
        app: moved(record.app),
        proc_id: moved(record.proc_id),
        msg_id: moved(record.msg_id),
        sdata: moved(record.sdata),
        message: moved(record.message),
        extra: moved(record.extra),
        class: ClassId(u16::from(batch.class(record).is_some())),
        peer: 0,
        ..*record
    };
    BatchParts {
        arena: 0..arena.len(),
        memory: arena.into(),
        records: vec![alone],
        origins: batch.origin(record).cloned().into_iter().collect(),
        classes: batch.class(record).cloned().into_iter().collect(),
        source: Arc::clone(batch.source()),
        sequence: batch.sequence(),
        received: batch.received(),
        only: Some(Arc::clone(to)),
        destinations: None,
    }
    .into()
}

/// Reads entries, the oldest first. What is taken out meanwhile may or may not appear.
pub struct QuarantineReader {
    reader: SegmentReader,
    segments: Vec<Segment>,
    /// Of the segment that is read.
    index: usize,
    /// Numbers from here on are not looked at.
    end: u64,
    filter: QuarantineFilter,
    /// Bytes that no entry could be read from.
    bad: Vec<BadRange>,
}

impl QuarantineReader {
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        log: LogId,
        segments: Vec<Segment>,
        end: u64,
        filter: QuarantineFilter,
    ) -> Self {
        let mut entries = Self {
            reader: SegmentReader::new(storage, log, BatchPool::new()),
            segments,
            index: 0,
            end,
            filter,
            bad: Vec::new(),
        };
        entries.enter(0);
        entries
    }

    /// Ranges of bytes that could not be read so far.
    pub fn bad(&self) -> &[BadRange] {
        &self.bad
    }

    fn enter(&mut self, index: usize) {
        self.index = index;
        let next = self.segments.get(index + 1);
        let end = next.map_or(NO_END, |next| next.header.base());
        if let Some(segment) = self.segments.get(index) {
            self.reader.open(segment);
            self.reader.end_at(u64::MAX, end);
        }
    }
}

impl Iterator for QuarantineReader {
    type Item = QuarantineEntry;

    fn next(&mut self) -> Option<QuarantineEntry> {
        while self.index < self.segments.len() {
            let read = self.reader.next(0);
            self.bad.extend(self.reader.take_bad());
            let Ok(SegmentRead::Batch(old)) = read else {
                self.enter(self.index + 1);
                continue;
            };
            let (Some(note), Some(to)) = (self.reader.take_note(), old.batch.only()) else {
                continue;
            };
            let entry = QuarantineEntry {
                number: old.first_event,
                destination: to.to_owned(),
                note,
                batch: Arc::clone(&old.batch),
            };
            if entry.number < self.end && self.filter.fits(&entry) {
                return Some(entry);
            }
        }
        None
    }
}
