//! The one that writes: a round takes batches to the disk and, in `fsync` mode, makes sure.

use std::io;
use std::sync::Arc;

use inrush_event::{Batch, Timestamp};

use crate::Durability;
use crate::format::{
    LogId, Note, PEER_BYTES, ROW_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader, encode_head,
};
use crate::mutant::{Mutant, is_on};
use crate::segments::{Segment, segment_name};
use crate::storage::{File, Storage};

/// A batch to be written.
pub(crate) struct Pending {
    pub(crate) position: u64,
    pub(crate) first_event: u64,
    pub(crate) batch: Arc<Batch>,
    /// Why its destination refused it, in quarantine.
    pub(crate) note: Option<Note>,
}

impl Pending {
    /// Bytes that it takes on disk, or a little more.
    pub(crate) fn bytes(&self) -> u64 {
        const AROUND: usize = 1024;
        let note = self.note.as_ref().map_or(0, |note| note.text.len());
        let rows = note + self.batch.len() * ROW_BYTES + self.batch.peers().len() * PEER_BYTES;
        (self.batch.bytes().len() + rows + AROUND) as u64
    }
}

/// What a round has achieved.
#[derive(Default)]
pub(crate) struct Outcome {
    /// Every batch below this position is as durable as the mode promises.
    pub(crate) durable_end: u64,
    /// What became of the segments, in order.
    pub(crate) changes: Vec<Change>,
    /// Why the rest was not written.
    pub(crate) error: Option<io::Error>,
}

/// A change of the list of segments.
pub(crate) enum Change {
    /// A new one.
    Created(Segment),
    /// The last one has this length now.
    Length(u64),
    /// The last one was given up before anything in it counted.
    Removed,
}

struct Current {
    file: Arc<dyn File>,
    /// Length of what is written.
    offset: u64,
    /// Length of what counts.
    durable: u64,
}

/// Writes the log's segments; only one round is under way at a time.
pub(crate) struct Writer {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) log: LogId,
    /// Counts the processes that wrote to this log.
    pub(crate) epoch: u32,
    /// Of the next segment.
    pub(crate) serial: u64,
    current: Option<Current>,
    head: Vec<u8>,
}

/// How a round is to be done.
#[derive(Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) durability: Durability,
    pub(crate) segment_bytes: u64,
}

impl Writer {
    pub(crate) fn new(storage: Arc<dyn Storage>, log: LogId, epoch: u32, serial: u64) -> Self {
        Self {
            storage,
            log,
            epoch,
            serial,
            current: None,
            head: Vec::new(),
        }
    }

    /// Writes `batches`, of which there is at least one. On an error the segment is given up:
    /// what was not yet durable counts for nothing and is to be written again.
    pub(crate) fn round(&mut self, batches: &[Pending], manner: Manner) -> Outcome {
        let mut outcome = Outcome {
            durable_end: batches.first().map_or(0, |first| first.position),
            ..Outcome::default()
        };
        if let Err(error) = self.write_all(batches, manner, &mut outcome) {
            outcome.error = Some(error);
            self.give_up(&mut outcome);
        }
        outcome
    }

    fn write_all(
        &mut self,
        batches: &[Pending],
        manner: Manner,
        outcome: &mut Outcome,
    ) -> io::Result<()> {
        for batch in batches {
            if self.is_full(manner.segment_bytes) {
                self.secure(manner.durability, batch.position, outcome)?;
                self.current = None;
            }
            if self.current.is_none() {
                self.begin_segment(batch.position, batch.first_event, outcome)?;
            }
            self.write(batch)?;
        }
        let end = batches.last().map_or(0, |last| last.position + 1);
        self.secure(manner.durability, end, outcome)
    }

    fn is_full(&self, segment_bytes: u64) -> bool {
        self.current
            .as_ref()
            .is_some_and(|current| current.offset >= segment_bytes)
    }

    fn begin_segment(
        &mut self,
        position: u64,
        event: u64,
        outcome: &mut Outcome,
    ) -> io::Result<()> {
        let header = SegmentHeader {
            log: self.log,
            serial: self.serial,
            base_position: position,
            base_event: event,
            epoch: self.epoch,
            created: Timestamp::now(),
        };
        let name = segment_name(self.serial);
        // A serial is used once, whatever becomes of its file.
        self.serial += 1;
        let file = self.storage.create(&name)?;
        let bytes = SEGMENT_HEADER_BYTES as u64;
        outcome.changes.push(Change::Created(Segment {
            name,
            header,
            bytes,
        }));
        self.current = Some(Current {
            file: Arc::clone(&file),
            offset: bytes,
            durable: 0,
        });
        file.write_at(&[&header.encode()], 0)
    }

    /// One batch at a time: what its checksum has just read is copied while it is warm.
    fn write(&mut self, pending: &Pending) -> io::Result<()> {
        let Some(current) = &mut self.current else {
            return Ok(());
        };
        self.head.clear();
        let place = (pending.position, pending.first_event, self.epoch);
        let header = encode_head(
            &self.log,
            place,
            &pending.batch,
            pending.note.as_ref(),
            &mut self.head,
        );
        let trailer = header.trailer(&self.log);
        let parts = [&self.head[..], pending.batch.bytes(), &trailer[..]];
        current.file.write_at(&parts, current.offset)?;
        current.offset += header.frame_bytes();
        Ok(())
    }

    /// Makes what is written of this segment durable; then everything below `end` is.
    fn secure(
        &mut self,
        durability: Durability,
        end: u64,
        outcome: &mut Outcome,
    ) -> io::Result<()> {
        let Some(current) = &mut self.current else {
            return Ok(());
        };
        if is_on(Mutant::AckEarly) {
            outcome.durable_end = end;
        }
        let synced = current.durable == current.offset || is_on(Mutant::SkipSync);
        if durability != Durability::Fsync {
            current.file.flush()?;
        } else if !synced {
            let mut end = current.file.sync();
            if is_on(Mutant::SyncAgain) {
                end = end.or_else(|_| current.file.sync());
            }
            end?;
            if current.durable == 0 {
                self.storage.sync_names()?;
            }
        }
        current.durable = current.offset;
        outcome.durable_end = end;
        outcome.changes.push(Change::Length(current.offset));
        Ok(())
    }

    /// The next round begins a new segment.
    pub(crate) fn end_segment(&mut self) {
        self.current = None;
    }

    /// Begins a segment now, durably, before there is anything for it. It says where the log goes
    /// on even if all before it is taken away.
    pub(crate) fn begin_empty(&mut self, position: u64, event: u64) -> Outcome {
        self.current = None;
        let mut outcome = Outcome::default();
        let begun = self
            .begin_segment(position, event, &mut outcome)
            .and_then(|()| self.secure(Durability::Fsync, position, &mut outcome));
        if let Err(error) = begun {
            outcome.error = Some(error);
            self.give_up(&mut outcome);
        }
        outcome
    }

    /// Leaves the segment as it is, but for what does not count; the next round begins a new one.
    fn give_up(&mut self, outcome: &mut Outcome) {
        let Some(current) = self.current.take() else {
            return;
        };
        // Both may fail on a sick disk. What is left behind is known by its positions: the next
        // segment begins at or before them.
        if current.durable > 0 {
            let _ = current.file.set_len(current.durable);
            outcome.changes.push(Change::Length(current.durable));
            return;
        }
        let name = segment_name(self.serial - 1);
        if self.storage.remove(&name).is_ok() {
            outcome.changes.push(Change::Removed);
        }
    }
}
