//! Positions of sources' streams: how they become durable, and when they are written down.
//!
//! # What it guarantees
//! * A position is durable with the batch that carries it, and not before. One without a batch
//!   ([`Log::append_positions`]) counts once all that came before it is durable; it is in no
//!   segment, and a crash within a second may take it, and no event with it.
//! * A segment is deleted once the durable file `positions` has all that its frames say.
//! * What a start has found stays in the log, also where its sync fails: it is written again.
//! * In memory a position counts once every destination has settled all that came before it.

use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use inrush_event::{Ledger, SourceInfo, StreamPosition, instant_now};

use crate::QueueOptions;
use crate::log::{AppendError, Log};
use crate::meta::Meta;
use crate::mutant::{Mutant, is_on};
use crate::position_file::{self, IN_MEMORY, PositionRead};
use crate::position_store::{PositionFile, PositionStore};
use crate::position_table::{PositionNote, PositionTable};
use crate::reader::{SegmentRead, SegmentReader};
use crate::segments::{Segment, Segments};
use crate::storage::{DiskStorage, StorageFile};
use crate::unsynced::UnsyncedCopy;

impl Log {
    /// A log in memory as [`Self::new`] makes it, which keeps positions of sources' streams in
    /// `folder`: each once every destination has settled what came before it.
    ///
    /// # Errors
    /// The file cannot be opened, or a newer version wrote it.
    pub fn in_memory(
        folder: &Path,
        options: QueueOptions,
        ledger: Arc<Ledger>,
    ) -> io::Result<Arc<Self>> {
        let mut found = (IN_MEMORY, 0);
        let mut table = PositionTable::default();
        if let Ok(storage) = DiskStorage::look_at(folder) {
            if let Some(meta) = Meta::read(&storage) {
                found = (meta.id, meta.epoch);
            }
            match position_file::read(&storage, found.0)? {
                PositionRead::Absent => {}
                PositionRead::Found(file) => {
                    (table, found.1) = (file.table, found.1.max(file.epoch));
                }
                PositionRead::Damaged => tracing::warn!(
                    "queue: the file `positions` is damaged; sources read again what it told of"
                ),
            }
        }
        let noted = PositionStore::of_memory(folder, found, table);
        Ok(Self::of_memory(options, ledger, noted))
    }

    /// Writes the file of a log in memory now and then, until the log is closed.
    pub(crate) fn keep_positions_until_closed(&self) {
        const LOOK_EVERY: Duration = Duration::from_secs(1);
        loop {
            let state = self.lock();
            if state.closed {
                return;
            }
            let rested = self.work.wait_timeout(state, LOOK_EVERY);
            drop(rested.unwrap_or_else(PoisonError::into_inner));
            self.keep_positions_if_due();
        }
    }

    /// The durable positions of a source's streams, by stream: at the start, those that an earlier
    /// process left. A source that is not configured keeps its own.
    pub fn positions(&self, source: &str) -> Vec<StreamPosition> {
        let file = self.noted.file();
        self.gather_positions(&file);
        self.noted.table().of(source)
    }

    /// Takes positions for which there is no event: they count once all that was appended before
    /// is durable.
    ///
    /// # Errors
    /// The log is closed: what came before them may have been refused.
    pub fn append_positions(
        &self,
        source: &Arc<SourceInfo>,
        positions: Arc<[StreamPosition]>,
    ) -> Result<(), AppendError> {
        let mut state = self.lock();
        if state.closed {
            return Err(AppendError::Closed);
        }
        let (source, end) = (Arc::clone(source), state.end());
        state.take_note(PositionNote {
            source,
            positions,
            end,
        });
        Ok(())
    }

    /// Takes over into the table what has become durable. Only in one's turn at the file: what is
    /// in the table is about to be written.
    fn gather_positions(&self, _turn: &PositionFile) {
        let mut table = self.noted.table();
        let (notes, complete_to) = {
            let mut state = self.lock();
            (std::mem::take(&mut state.durable_notes), state.noted_end())
        };
        for note in &notes {
            table.note(&note.source.name, &note.positions, note.end);
        }
        table.complete_to = table.complete_to.max(complete_to);
    }

    /// Writes the file if it is behind and was not written for a second.
    pub(crate) fn keep_positions_if_due(&self) {
        let (mut file, now) = (self.noted.file(), instant_now());
        self.gather_positions(&file);
        if self.noted.is_due(&file, now) {
            // It is tried again, and no segment is deleted before.
            let _ = self.write_positions(&mut file, now);
        }
    }

    /// Writes the file at a stop, if any position is new.
    pub(crate) fn keep_positions_at_stop(&self) {
        let (mut file, now) = (self.noted.file(), instant_now());
        self.gather_positions(&file);
        if self.noted.is_changed(&file) {
            // The segments have them too, but for those that came without an event.
            let _ = self.write_positions(&mut file, now);
        }
    }

    /// Writes the file, unless it has all positions that count.
    ///
    /// # Errors
    /// The disk fails.
    pub fn keep_positions(&self) -> io::Result<()> {
        let (mut file, now) = (self.noted.file(), instant_now());
        self.gather_positions(&file);
        match self.noted.is_behind(&file) {
            true => self.write_positions(&mut file, now),
            false => Ok(()),
        }
    }

    /// Writes the positions of batches below `position` down which every destination is durably
    /// known to have settled, and which are in no segment; `false`: they are not kept.
    pub(crate) fn keep_needless(&self, position: u64) -> bool {
        let notes = self.lock().notes_below(position);
        let (mut file, now) = (self.noted.file(), instant_now());
        self.gather_positions(&file);
        {
            let mut table = self.noted.table();
            if notes.is_empty() && table.is_empty() || is_on(Mutant::SkipPositions) {
                return true;
            }
            for note in &notes {
                table.note(&note.source.name, &note.positions, note.end);
            }
            // So that these numbers of batches are not given out again, nor missed at a start.
            table.complete_to = table.complete_to.max(position);
        }
        self.write_positions(&mut file, now).is_ok()
    }

    /// Those of these segments of which the file has all positions; it is written if need be.
    pub(crate) fn without_positions(&self, serials: &[u64]) -> Vec<u64> {
        let covered = || {
            let state = self.lock();
            let kept_to = self.noted.kept_to();
            let Some(segments) = state.disk.as_ref().map(|disk| &disk.segments) else {
                return Vec::new();
            };
            // One without positions counts too: a start must see that nothing is missing.
            let free = !self.noted.exists() && !segments.have_positions();
            let covered = |serial: &&u64| free || segments.is_before(**serial, kept_to);
            serials.iter().filter(covered).copied().collect::<Vec<_>>()
        };
        let free = covered();
        if is_on(Mutant::DeleteBeforePositions) {
            return serials.to_vec();
        }
        match free.len() == serials.len() || self.keep_positions().is_err() {
            true => free,
            false => covered(),
        }
    }

    /// Writes the file. Segments that nobody has synced are synced before: a power cut must not
    /// leave a position without the events before it.
    fn write_positions(&self, file: &mut PositionFile, now: Instant) -> io::Result<()> {
        let written = self.sync_segments(file);
        let written = written.and_then(|()| self.noted.write(file));
        file.tried(now, written.is_ok());
        written
    }

    /// Syncs what earlier processes wrote, before this one writes anything: a later position of a
    /// stream must not outlive, in a power cut, what came before it.
    ///
    /// # Errors
    /// The disk fails: nothing may be written before it does not.
    pub(crate) fn sync_found_segments(&self) -> io::Result<()> {
        if self.noted.is_synced() || is_on(Mutant::PositionTail) {
            return Ok(());
        }
        self.sync_segments(&mut self.noted.file())
    }

    fn sync_segments(&self, file: &mut PositionFile) -> io::Result<()> {
        let Some(storage) = self.noted.storage()? else {
            return Ok(());
        };
        let segments = {
            let mut state = self.lock();
            let lazy = std::mem::take(&mut state.wrote_unsynced);
            if lazy && file.own_unsynced_from.is_none() {
                file.own_unsynced_from = Some(self.noted.kept_to());
            }
            let segments = state.disk.as_ref().map(|disk| &disk.segments);
            segments.map(|segments| self.never_synced(segments, file))
        };
        let Some(segments) = segments.filter(|_| !is_on(Mutant::PositionUnsynced)) else {
            return Ok(());
        };
        for segment in &segments {
            match storage.open(&segment.name) {
                // Settled, and deleted meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Ok(opened) if segment.header.epoch < self.noted.epoch => {
                    self.sync_found(segment, &opened, file)?;
                }
                opened => opened?.sync()?,
            }
        }
        if !segments.is_empty() {
            storage.sync_names()?;
        }
        self.noted.trust_found();
        self.noted.found_is_synced();
        (file.unsynced_from, file.own_unsynced_from, file.copy) = (None, None, None);
        Ok(())
    }

    /// Syncs a segment of an earlier process. What a sync that fails takes from it is put back, and
    /// written again by the next try: sources were told that it is there.
    fn sync_found(
        &self,
        segment: &Segment,
        opened: &Arc<dyn StorageFile>,
        file: &mut PositionFile,
    ) -> io::Result<()> {
        let serial = segment.header.serial;
        if file.found_synced.is_some_and(|to| serial <= to) {
            return Ok(());
        }
        let kept = file.copy.take().filter(|copy| copy.is_of(serial));
        let copy = match kept {
            Some(copy) => copy,
            None => UnsyncedCopy::of(segment, opened, file.unsynced_from.unwrap_or(0))?,
        };
        self.noted.doubt_found();
        let synced = copy.sync(&**opened);
        if synced.is_ok() || copy.put_back(&**opened) {
            self.noted.trust_found();
        }
        match synced {
            Ok(()) => file.found_synced = Some(serial),
            Err(_) => file.copy = Some(copy),
        }
        synced
    }

    /// Result of a read from event `from_event` that began in this turn of what was found. While a
    /// segment may lack frames, what seems to be missing is not lost: it is looked for again.
    pub(crate) fn trusted(
        &self,
        turn: u64,
        reader: &mut SegmentReader,
        from_event: u64,
        read: io::Result<SegmentRead>,
    ) -> io::Result<SegmentRead> {
        if self.noted.is_sure(turn) {
            return read;
        }
        match read {
            Ok(SegmentRead::Batch(old)) if old.first_event <= from_event => {
                reader.close();
                Ok(SegmentRead::Batch(old))
            }
            _ => {
                reader.undo();
                Err(io::ErrorKind::Interrupted.into())
            }
        }
    }

    /// The segments that may have positions and that nobody has synced. Those of this process are
    /// the writer's in `fsync` mode, and no other's: a sync that fails here forgets what is written
    /// there, and the writer's own would not see it.
    fn never_synced(&self, segments: &Segments, file: &PositionFile) -> Vec<Segment> {
        let is_behind = |segment: &&Segment| {
            let from = match segment.header.epoch < self.noted.epoch {
                true => file.unsynced_from,
                false => file.own_unsynced_from,
            };
            let from = from.filter(|_| segment.header.has_positions());
            from.is_some_and(|from| !segments.is_before(segment.header.serial, from))
        };
        segments.0.iter().filter(is_behind).cloned().collect()
    }
}
