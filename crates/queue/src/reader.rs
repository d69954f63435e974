//! Reads old batches of the log for one destination, one behind the other.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use inrush_event::{Batch, BatchOrigin, BatchPool, Delivery};

use crate::format::{
    FrameHeader, LogId, RefusalNote, SEGMENT_HEADER_BYTES, SourceCache, decode_note, decode_parts,
    decode_payload,
};
use crate::scan::{LARGE_BYTES, ScanItem, SegmentScan};
use crate::segments::{NO_END, Segment, Segments};
use crate::storage::Storage;

/// A batch that was read back.
pub(crate) struct OldBatch {
    pub(crate) position: u64,
    pub(crate) first_event: u64,
    /// Epoch of the process that accepted it.
    pub(crate) epoch: u32,
    pub(crate) batch: Arc<Batch>,
}

impl OldBatch {
    /// A delivery of some of its events, from the log with this public name.
    pub(crate) fn delivery(self, log: u64, events: Range<u32>) -> Delivery {
        let origin = BatchOrigin {
            log,
            epoch: self.epoch,
            first_event: self.first_event,
        };
        Delivery {
            position: self.position,
            batch: self.batch,
            events,
            origin,
        }
    }
}

/// Result of a read in the reader's segment.
pub(crate) enum SegmentRead {
    Batch(OldBatch),
    /// Nothing more that counts.
    End,
}

/// Reader of the segments for one destination.
pub(crate) struct SegmentReader {
    storage: Arc<dyn Storage>,
    log: LogId,
    pool: Arc<BatchPool>,
    names: SourceCache,
    /// Serial of the segment that is open.
    pub(crate) serial: Option<u64>,
    scan: Option<SegmentScan>,
    /// Error with which the segment could not be opened, though it is there.
    unopened: Option<io::Error>,
    /// True if the segment was read to its end.
    left: bool,
    name: String,
    /// Frames that do not lie before this position and event were given up: the next segment has
    /// what was accepted in their place.
    end: (u64, u64),
    /// Frames below it were read; a copy of one is left over from a write that failed.
    next_position: u64,
    /// The same before the last read.
    previous_position: u64,
    note: Option<RefusalNote>,
    bad: Vec<BadRange>,
}

/// Bytes of a segment that no frame could be read from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadRange {
    /// The segment's file.
    pub file: String,
    /// Range of its bytes, as offsets in the file.
    pub bytes: Range<u64>,
}

impl SegmentReader {
    pub(crate) fn new(storage: Arc<dyn Storage>, log: LogId, pool: Arc<BatchPool>) -> Self {
        Self {
            storage,
            log,
            pool,
            names: SourceCache::default(),
            serial: None,
            scan: None,
            unopened: None,
            left: false,
            name: String::new(),
            end: NO_END,
            next_position: 0,
            previous_position: 0,
            note: None,
            bad: Vec::new(),
        }
    }

    /// Goes to the front of a segment. One that is not there reads as empty.
    pub(crate) fn open(&mut self, segment: &Segment) {
        self.serial = Some(segment.header.serial);
        self.left = false;
        self.name.clone_from(&segment.name);
        let front = SEGMENT_HEADER_BYTES as u64;
        self.scan = None;
        self.unopened = None;
        match self.storage.open(&segment.name) {
            Ok(file) => {
                let pool = Arc::clone(&self.pool);
                self.scan = Some(SegmentScan::with(file, self.log, front, front, pool));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.unopened = Some(error),
        }
        self.next_position = self.next_position.max(segment.header.base_position);
    }

    /// Forgets what it has read ahead: the next read opens the segment again.
    pub(crate) fn close(&mut self) {
        (self.serial, self.scan) = (None, None);
    }

    /// Takes the last read back: nothing of it counts.
    pub(crate) fn undo(&mut self) {
        self.close();
        self.next_position = self.previous_position;
        (self.note, self.bad) = (None, Vec::new());
    }

    /// Notes that the segment was read to its end.
    pub(crate) fn leave(&mut self) {
        self.left = true;
    }

    /// True if the segment was read to its end.
    pub(crate) fn has_left(&self) -> bool {
        self.left
    }

    /// Tells how much of the segment may be read, and from which position and event on its frames
    /// do not count.
    pub(crate) fn end_at(&mut self, bytes: u64, end: (u64, u64)) {
        if let Some(scan) = &mut self.scan {
            scan.set_limit(bytes);
        }
        self.end = end;
    }

    /// Takes the note of refusal of the batch that was just read, in quarantine.
    pub(crate) fn take_note(&mut self) -> Option<RefusalNote> {
        self.note.take()
    }

    /// Takes the ranges of bytes that could not be read since the last call.
    pub(crate) fn take_bad(&mut self) -> Vec<BadRange> {
        std::mem::take(&mut self.bad)
    }

    /// The next batch that has an event at or behind `from_event`.
    ///
    /// # Errors
    /// The disk does not answer; it can be tried again.
    pub(crate) fn next(&mut self, from_event: u64) -> io::Result<SegmentRead> {
        self.previous_position = self.next_position;
        if let Some(error) = self.unopened.take() {
            self.serial = None;
            return Err(error);
        }
        let Some(scan) = &mut self.scan else {
            return Ok(SegmentRead::End);
        };
        loop {
            let frame = match scan.next()? {
                ScanItem::End => return Ok(SegmentRead::End),
                ScanItem::Bad(bytes) => {
                    let file = self.name.clone();
                    self.bad.push(BadRange { file, bytes });
                    continue;
                }
                ScanItem::Frame(frame) => frame,
            };
            if !frame.is_before(self.end) {
                return Ok(SegmentRead::End);
            }
            if frame.position < self.next_position || frame.end_event() <= from_event {
                continue;
            }
            let payload = scan.payload();
            // A payload whose checksum is right and whose content is not was written by a fault of
            // ours; its events count as lost like any others.
            let note = decode_note(&frame, payload);
            let Some(batch) = batch_of(&frame, scan, &mut self.names) else {
                continue;
            };
            self.note = note;
            self.next_position = frame.position + 1;
            return Ok(SegmentRead::Batch(OldBatch {
                position: frame.position,
                first_event: frame.first_event,
                epoch: frame.epoch,
                batch: Arc::new(batch),
            }));
        }
    }

    /// Has it stand in the segment where event `from_event` is to be looked for. True if nothing
    /// will ever be added to that segment.
    pub(crate) fn aim(&mut self, segments: &Segments, durable_end: u64, from_event: u64) -> bool {
        let index = match self.serial {
            Some(serial) if self.has_left() => segments.index_after(serial),
            // If it was dropped meanwhile, the one behind it.
            Some(serial) => segments.index_after(serial).saturating_sub(1),
            None => segments.index_of_event(from_event),
        };
        let next = segments.0.get(index + 1);
        if let Some(segment) = segments.0.get(index) {
            if self.serial != Some(segment.header.serial) {
                self.open(segment);
            }
            // Recovery may have missed frames that can be read now: their places were given out
            // again.
            let end = next.map_or((durable_end, u64::MAX), |next| next.header.base());
            self.end_at(segment.bytes, end);
        }
        next.is_some()
    }
}

/// The batch that was just scanned: a large one stays where it lies.
fn batch_of(frame: &FrameHeader, scan: &mut SegmentScan, names: &mut SourceCache) -> Option<Batch> {
    if scan.payload().len() < LARGE_BYTES {
        return decode_payload(frame, scan.payload(), names);
    }
    let (mut memory, payload) = scan.take_payload();
    let records = memory.take_records();
    let mut parts = decode_parts(frame, &memory[payload.clone()], names, records)?;
    parts.arena = payload.start + parts.arena.start..payload.start + parts.arena.end;
    parts.memory = memory;
    Some(parts.into())
}
