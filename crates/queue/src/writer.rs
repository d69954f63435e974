//! The one that writes: a round takes batches to the disk and, in `fsync` mode, makes sure.
//!
//! A disk may take long to make sure. What comes meanwhile is written ahead, behind what is being
//! synced: it counts only after a sync of its own, but the end of the process cannot take it away
//! any more.

use std::io;
use std::sync::Arc;

use inrush_event::{Batch, Timestamp};

use crate::Durability;
use crate::format::{
    LogId, PEER_BYTES, PLAIN_VERSION, ROW_BYTES, RefusalNote, SEGMENT_HEADER_BYTES,
    SEGMENT_VERSION, SegmentHeader, encode_head, is_padded, position_bytes,
};
use crate::mutant::{Mutant, is_on};
use crate::segments::{Segment, segment_name};
use crate::storage::{BLOCK_BYTES, Storage, StorageFile};

/// A segment grows to so many times its size while it is synced.
const AHEAD_SEGMENTS: u64 = 2;

/// A batch to be written.
pub(crate) struct PendingBatch {
    pub(crate) position: u64,
    pub(crate) first_event: u64,
    pub(crate) batch: Arc<Batch>,
    /// Note of the refusal by its destination, in quarantine.
    pub(crate) note: Option<RefusalNote>,
}

impl PendingBatch {
    /// Bytes that it takes on disk, or a little more.
    pub(crate) fn bytes(&self) -> u64 {
        let note = self.note.as_ref().map_or(0, |note| note.text.len());
        disk_bytes(&self.batch) + note as u64
    }
}

/// Bytes that a batch takes on disk, or a little more.
pub(crate) fn disk_bytes(batch: &Batch) -> u64 {
    const AROUND: usize = 1024;
    let padding = if is_padded(batch) { BLOCK_BYTES } else { 0 };
    let rows = batch.len() * ROW_BYTES + batch.origins().len() * PEER_BYTES;
    (batch.bytes().len() + rows + position_bytes(batch) + padding + AROUND) as u64
}

/// Result of a round.
#[derive(Default)]
pub(crate) struct CommitOutcome {
    /// Every batch below this position is as durable as the mode promises.
    pub(crate) durable_end: u64,
    /// Changes of the list of segments, in order.
    pub(crate) changes: Vec<SegmentChange>,
    /// True if something counts that was not synced.
    pub(crate) unsynced: bool,
    /// Error that kept the rest from being written.
    pub(crate) error: Option<io::Error>,
}

impl CommitOutcome {
    /// Nothing of these is written yet.
    pub(crate) fn from(batches: &[PendingBatch]) -> Self {
        Self {
            durable_end: batches.first().map_or(0, |first| first.position),
            ..Self::default()
        }
    }
}

/// A change of the list of segments.
pub(crate) enum SegmentChange {
    /// A new one.
    Created(Segment),
    /// The last one has this length now.
    Length(u64),
    /// The last one was given up before anything in it counted.
    Removed,
}

struct OpenSegment {
    file: Arc<dyn StorageFile>,
    /// Length of what is written.
    offset: u64,
    /// Length of what counts.
    durable: u64,
    /// True if its head says that frames may have positions.
    has_positions: bool,
}

impl OpenSegment {
    fn is_synced(&self) -> bool {
        self.durable == self.offset
    }
}

/// A segment that is to be synced.
pub(crate) struct SegmentSync {
    file: Arc<dyn StorageFile>,
    /// Storage whose names are synced after the file, at a segment's first sync.
    names: Option<Arc<dyn Storage>>,
    /// Length of the segment that counts after the sync.
    offset: u64,
    /// Position behind it.
    end: u64,
}

impl SegmentSync {
    /// Waits for the disk.
    ///
    /// # Errors
    /// The disk fails.
    pub(crate) fn run(&self) -> io::Result<()> {
        let mut synced = self.file.sync();
        if is_on(Mutant::SyncAgain) {
            synced = synced.or_else(|_| self.file.sync());
        }
        synced?;
        match &self.names {
            Some(storage) => storage.sync_names(),
            None => Ok(()),
        }
    }
}

/// Writes the log's segments; only one round is under way at a time.
pub(crate) struct SegmentWriter {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) log: LogId,
    /// Counts the processes that wrote to this log.
    pub(crate) epoch: u32,
    /// Of the next segment.
    pub(crate) serial: u64,
    current: Option<OpenSegment>,
    /// Every batch below is in the current segment, or durable before it.
    ahead_end: u64,
    /// Error of a write during the sync, behind what is synced.
    ahead_error: Option<io::Error>,
    /// True once a batch with positions has come: before, segments are such that an older version
    /// reads them.
    positions: bool,
    /// Parts of a call's frames before their arenas: headers, names and rows.
    heads: Vec<u8>,
}

/// Options of a round.
#[derive(Clone, Copy)]
pub(crate) struct CommitOptions {
    pub(crate) durability: Durability,
    pub(crate) segment_bytes: u64,
    /// Senders keep all that came of late until they are answered: nothing needs to be written
    /// before the sync is done, and the writer may wait for the disk.
    pub(crate) all_kept: bool,
}

impl SegmentWriter {
    pub(crate) fn new(storage: Arc<dyn Storage>, log: LogId, epoch: u32, serial: u64) -> Self {
        Self {
            storage,
            log,
            epoch,
            serial,
            current: None,
            ahead_end: 0,
            ahead_error: None,
            positions: false,
            heads: Vec::new(),
        }
    }

    /// Writes `batches`, of which there is at least one, and waits until they are durable. On an
    /// error the segment is given up: what was not yet durable counts for nothing.
    pub(crate) fn round(
        &mut self,
        batches: &[PendingBatch],
        manner: CommitOptions,
    ) -> CommitOutcome {
        let mut outcome = CommitOutcome::from(batches);
        let mut rest = batches;
        while outcome.error.is_none() && !rest.is_empty() {
            if let Some(sync) = self.write(rest, manner, &mut outcome) {
                let synced = sync.run();
                self.finish_sync(&sync, synced, &mut outcome);
            }
            rest = self.unwritten(rest);
        }
        outcome
    }

    /// Those of the batches that are not in the segment.
    fn unwritten<'a>(&self, batches: &'a [PendingBatch]) -> &'a [PendingBatch] {
        let written = batches.partition_point(|pending| pending.position < self.ahead_end);
        &batches[written..]
    }

    /// Writes those of the batches that are not written ahead, as far as they belong into the
    /// segment. Returns the sync that is to be done, if any: then [`Self::finish_sync`] tells
    /// what has become of them.
    pub(crate) fn write(
        &mut self,
        batches: &[PendingBatch],
        manner: CommitOptions,
        outcome: &mut CommitOutcome,
    ) -> Option<SegmentSync> {
        let written = self
            .write_all(batches, manner, outcome)
            .and_then(|()| self.begin_sync(manner.durability, outcome));
        written.unwrap_or_else(|error| {
            self.fail(error, outcome);
            None
        })
    }

    fn write_all(
        &mut self,
        batches: &[PendingBatch],
        manner: CommitOptions,
        outcome: &mut CommitOutcome,
    ) -> io::Result<()> {
        self.look_for_positions(batches);
        let synced = self.current.as_ref().is_some_and(OpenSegment::is_synced);
        if synced && self.is_full(manner.segment_bytes) {
            self.current = None;
        }
        let Some(first) = self.unwritten(batches).first() else {
            return Ok(());
        };
        if self.current.is_none() {
            self.begin_segment(first.position, first.first_event, outcome)?;
        }
        if let Some(current) = &self.current {
            current.file.may_wait(manner.all_kept);
        }
        let fitting = self.fitting(self.unwritten(batches), manner.segment_bytes);
        self.append(fitting)
    }

    /// Those of the batches that begin within the segment.
    fn fitting<'a>(&self, batches: &'a [PendingBatch], segment_bytes: u64) -> &'a [PendingBatch] {
        if self.is_unfit() {
            return &[];
        }
        let mut offset = self.current.as_ref().map_or(0, |current| current.offset);
        let begins_inside = |pending: &&PendingBatch| {
            let inside = offset < segment_bytes;
            offset += pending.bytes();
            inside
        };
        let count = batches.iter().take_while(begins_inside).count();
        &batches[..count]
    }

    /// Writes what came during a sync behind what is synced. After an error this segment is given
    /// up with [`Self::finish_sync`].
    pub(crate) fn write_ahead(&mut self, batches: &[PendingBatch], manner: CommitOptions) {
        self.look_for_positions(batches);
        // Beyond its size, for the next one begins after the sync; but not without end.
        if self.ahead_error.is_some() || self.is_full(AHEAD_SEGMENTS * manner.segment_bytes) {
            return;
        }
        let mut write = || {
            self.append(batches)?;
            self.current.as_ref().map_or(Ok(()), |now| now.file.flush())
        };
        self.ahead_error = write().err();
    }

    /// True if there is no use in writing ahead.
    pub(crate) fn is_ahead_full(&self, manner: CommitOptions) -> bool {
        self.ahead_error.is_some() || self.is_full(AHEAD_SEGMENTS * manner.segment_bytes)
    }

    /// Position behind what is written.
    pub(crate) fn ahead_end(&self) -> u64 {
        self.ahead_end
    }

    fn is_full(&self, segment_bytes: u64) -> bool {
        let current = self.current.as_ref();
        self.is_unfit() || current.is_some_and(|current| current.offset >= segment_bytes)
    }

    /// Takes note of whether a batch has positions.
    fn look_for_positions(&mut self, batches: &[PendingBatch]) {
        let has_some = |pending: &PendingBatch| pending.batch.shared_positions().is_some();
        self.positions = self.positions || batches.iter().any(has_some);
    }

    /// True if the segment is one without positions, and some have come.
    fn is_unfit(&self) -> bool {
        let current = self.current.as_ref();
        self.positions && current.is_some_and(|current| !current.has_positions)
    }

    fn begin_segment(
        &mut self,
        position: u64,
        event: u64,
        outcome: &mut CommitOutcome,
    ) -> io::Result<()> {
        let header = SegmentHeader {
            version: match self.positions {
                true => SEGMENT_VERSION,
                false => PLAIN_VERSION,
            },
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
        outcome.changes.push(SegmentChange::Created(Segment {
            name,
            header,
            bytes,
        }));
        self.current = Some(OpenSegment {
            file: Arc::clone(&file),
            offset: bytes,
            durable: 0,
            has_positions: self.positions,
        });
        file.write_at(&[&header.encode()], 0)
    }

    /// Writes the batches in one call, so that their arenas can go down from where they lie.
    fn append(&mut self, batches: &[PendingBatch]) -> io::Result<()> {
        let (Some(current), Some(last)) = (&mut self.current, batches.last()) else {
            return Ok(());
        };
        let (mut offset, mut ends) = (current.offset, Vec::with_capacity(batches.len()));
        self.heads.clear();
        for pending in batches {
            let place = (pending.position, pending.first_event, self.epoch);
            let header = encode_head(&self.log, place, pending, offset, &mut self.heads);
            ends.push((self.heads.len(), header.trailer(&self.log)));
            offset += header.frame_bytes();
        }
        let (mut parts, mut start) = (Vec::with_capacity(3 * batches.len()), 0);
        for (pending, (end, trailer)) in batches.iter().zip(&ends) {
            parts.extend([&self.heads[start..*end], pending.batch.bytes(), trailer]);
            start = *end;
        }
        current.file.write_at(&parts, current.offset)?;
        current.offset = offset;
        self.ahead_end = last.position + 1;
        Ok(())
    }

    /// Hands what is written to the operating system; returns the sync after which it is durable,
    /// or none if it counts already.
    fn begin_sync(
        &mut self,
        durability: Durability,
        outcome: &mut CommitOutcome,
    ) -> io::Result<Option<SegmentSync>> {
        let end = self.ahead_end;
        if is_on(Mutant::AckEarly) {
            outcome.durable_end = end;
        }
        let Some(current) = &mut self.current else {
            return Ok(None);
        };
        current.file.flush()?;
        let synced = current.is_synced() || is_on(Mutant::SkipSync);
        if durability == Durability::Fsync && !synced {
            return Ok(Some(SegmentSync {
                file: Arc::clone(&current.file),
                names: (current.durable == 0).then(|| Arc::clone(&self.storage)),
                offset: current.offset,
                end,
            }));
        }
        current.durable = current.offset;
        outcome.durable_end = end;
        outcome.unsynced = durability != Durability::Fsync;
        outcome.changes.push(SegmentChange::Length(current.offset));
        Ok(None)
    }

    /// Takes note of how the sync went: what was written before it began counts.
    pub(crate) fn finish_sync(
        &mut self,
        sync: &SegmentSync,
        synced: io::Result<()>,
        outcome: &mut CommitOutcome,
    ) {
        if let Err(error) = synced {
            return self.fail(error, outcome);
        }
        if let Some(current) = &mut self.current {
            let ahead = is_on(Mutant::AheadDurable);
            let (offset, end) = match ahead {
                true => (current.offset, self.ahead_end),
                false => (sync.offset, sync.end),
            };
            current.durable = offset;
            outcome.durable_end = end;
            outcome.changes.push(SegmentChange::Length(offset));
        }
        if let Some(error) = self.ahead_error.take() {
            self.fail(error, outcome);
        }
    }

    fn fail(&mut self, error: io::Error, outcome: &mut CommitOutcome) {
        outcome.error = Some(error);
        self.give_up(outcome);
    }

    /// The next round begins a new segment.
    pub(crate) fn end_segment(&mut self) {
        self.current = None;
        self.ahead_end = 0;
    }

    /// Begins a segment now, durably, before there is anything for it. It says where the log goes
    /// on even if all before it is taken away.
    pub(crate) fn begin_empty(&mut self, position: u64, event: u64) -> CommitOutcome {
        self.end_segment();
        let mut outcome = CommitOutcome::default();
        let begun = self
            .begin_segment(position, event, &mut outcome)
            .and_then(|()| self.begin_sync(Durability::Fsync, &mut outcome));
        match begun {
            Ok(Some(sync)) => {
                let synced = sync.run();
                self.finish_sync(&sync, synced, &mut outcome);
            }
            Ok(None) => {}
            Err(error) => self.fail(error, &mut outcome),
        }
        outcome
    }

    /// Leaves the segment as it is, but for what does not count; the next round begins a new one.
    fn give_up(&mut self, outcome: &mut CommitOutcome) {
        self.ahead_error = None;
        if !is_on(Mutant::KeepAhead) {
            self.ahead_end = 0;
        }
        let Some(current) = self.current.take() else {
            return;
        };
        // Both may fail on a sick disk. What is left behind is known by its positions: the next
        // segment begins at or before them.
        if current.durable > 0 {
            let _ = current.file.set_len(current.durable);
            outcome.changes.push(SegmentChange::Length(current.durable));
            return;
        }
        let name = segment_name(self.serial - 1);
        if self.storage.remove(&name).is_ok() {
            outcome.changes.push(SegmentChange::Removed);
        }
    }
}
