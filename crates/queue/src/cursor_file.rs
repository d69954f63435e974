//! A destination's place on disk: one small file with four slots. The newest place that is known
//! to be durable keeps its slot, and so does the one that is being made durable; the others are
//! written by turns, also while a sync is under way: whatever a power cut tears, there is a whole
//! one. A place that is too old costs duplicates, never an event.
//!
//! A process does not know whether the place that it finds is durable. It writes the same bytes
//! into the same slot and syncs, and nothing else before that: bytes written over themselves cannot
//! be torn, so that until then no place is lost that an earlier process relied on.
//!
//! What it finds need not be the newest place there is: one may be hidden, by a read that fails
//! or by a torn write in the page cache that never reaches the disk, and be there again later. Then
//! the process has given out numbers that are settled in that place. So a turn begins with the
//! process that it is of: a later process's place counts before it, and it says nothing of a later
//! process's events.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::format::{FieldReader, LogId};
use crate::mutant::{Mutant, is_on};
use crate::storage::{Storage, StorageFile, insist};

/// Bytes of a slot. Places with more ranges than fit forget the gaps between the last ones.
const SLOT_BYTES: usize = 16 * 1024;
/// One for the durable place, one for the place that is being made durable, two that are written by
/// turns meanwhile.
const SLOTS: u64 = 4;
const MAGIC: [u8; 4] = *b"IRCU";
/// magic, checksum, turn, next event, number of ranges
const HEAD_BYTES: usize = 4 + 4 + 8 + 8 + 4;
const RANGES_MAX: usize = (SLOT_BYTES - HEAD_BYTES) / 16;

/// Place of a destination in the log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct CursorPosition {
    /// Every event below is settled but those in `unsettled`.
    pub(crate) next_event: u64,
    /// By number, ascending.
    pub(crate) unsettled: Vec<Range<u64>>,
}

impl CursorPosition {
    /// Number of the oldest event that is not settled.
    pub(crate) fn floor(&self) -> u64 {
        self.unsettled
            .first()
            .map_or(self.next_event, |range| range.start)
    }

    /// Takes back what it says of the events from `end` on.
    fn end_at(&mut self, end: u64) {
        self.next_event = self.next_event.min(end);
        self.unsettled.retain(|range| range.start < end);
        if let Some(last) = self.unsettled.last_mut() {
            last.end = last.end.min(end);
        }
    }

    fn encode(&self, log: &LogId, turn: u64) -> Vec<u8> {
        let mut ranges = self.unsettled.clone();
        if ranges.len() > RANGES_MAX {
            ranges.truncate(RANGES_MAX);
            if let Some(last) = ranges.last_mut() {
                last.end = self.next_event;
            }
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&turn.to_le_bytes());
        bytes.extend_from_slice(&self.next_event.to_le_bytes());
        bytes.extend_from_slice(&(ranges.len() as u32).to_le_bytes());
        for range in ranges {
            bytes.extend_from_slice(&range.start.to_le_bytes());
            bytes.extend_from_slice(&range.end.to_le_bytes());
        }
        let sum = log.checksum(&bytes[8..]);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(log: &LogId, slot: &[u8]) -> Option<(u64, Self)> {
        let mut fields = FieldReader(slot);
        let (magic, sum) = (fields.bytes::<4>(), fields.u32());
        let (turn, next_event) = (fields.u64(), fields.u64());
        let count = fields.u32() as usize;
        if magic != MAGIC || count > RANGES_MAX {
            return None;
        }
        let covered = slot.get(8..HEAD_BYTES + 16 * count)?;
        if log.checksum(covered) != sum {
            return None;
        }
        let unsettled = (0..count).map(|_| fields.u64()..fields.u64()).collect();
        let place = Self {
            next_event,
            unsettled,
        };
        Some((turn, place))
    }
}

/// The first turn of a process. 0 is for turns that do not tell theirs.
fn first_turn(epoch: u32) -> u64 {
    (u64::from(epoch) + 1) << 32
}

/// The process that a turn is of, if it tells.
fn epoch_of(turn: u64) -> Option<u32> {
    u32::try_from((turn >> 32).checked_sub(1)?).ok()
}

/// The file name of a destination's cursor: its name, with whatever a file name cannot hold in
/// hexadecimal.
pub(crate) fn file_name(destination: &str) -> String {
    let mut name = String::from("cursor-");
    for byte in destination.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("%{byte:02x}"));
        }
    }
    name
}

/// Name of the destination whose cursor a file is; `None` if it is none.
pub(crate) fn destination_in(file_name: &str) -> Option<String> {
    let mut rest = file_name.strip_prefix("cursor-")?.as_bytes();
    let mut name = Vec::new();
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        if *byte != b'%' {
            name.push(*byte);
            continue;
        }
        let (digits, tail) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok()?;
        name.push(u8::from_str_radix(digits, 16).ok()?);
        rest = tail;
    }
    String::from_utf8(name).ok()
}

/// The file of a destination.
pub(crate) struct CursorFile {
    storage: Arc<dyn Storage>,
    name: String,
    /// `None` until there is something to write.
    file: Option<Arc<dyn StorageFile>>,
    /// Of the next place.
    turn: u64,
    /// Slot of the newest place, if there is one.
    newest: Option<u64>,
    /// Slot of the newest place that is known to be durable, but perhaps for the file's name: it is
    /// not written over, or a power cut could take all there is.
    durable: Option<u64>,
    /// Slot of the place that is being made durable: not written over either.
    syncing: Option<u64>,
    /// True if the newest place may be made durable by a sync: not if one has failed, which
    /// forgets, and not if an earlier process wrote it, in which one may have failed.
    is_dirty: bool,
    /// The bytes of the place that was found, until it is durable.
    found: Option<Vec<u8>>,
    /// True if this process knows the file's name to be durable.
    is_named: bool,
}

/// A file to be synced, so that one place of it becomes durable.
pub(crate) struct PositionSync {
    file: Arc<dyn StorageFile>,
    slot: u64,
    /// Storage whose names are synced too, until the file's name is known to be durable.
    names: Option<Arc<dyn Storage>>,
    /// True if the place itself is durable, whatever became of the name. The name may become
    /// durable by another way, and then a power cut must find the place.
    is_written: AtomicBool,
}

impl PositionSync {
    /// Waits for the disk.
    ///
    /// # Errors
    /// The disk fails.
    pub(crate) fn run(&self) -> io::Result<()> {
        self.file.sync()?;
        self.is_written.store(true, Relaxed);
        self.names
            .as_ref()
            .map_or(Ok(()), |names| names.sync_names())
    }
}

impl CursorFile {
    /// Opens the file of a destination, and reads its place: `None` if it has none that is sound.
    /// A file that is not there is made when there is something to write. `base_after` says where
    /// the events begin that processes after the given one have accepted: of those it cannot tell.
    ///
    /// # Errors
    /// The file is there and cannot be opened.
    pub(crate) fn open(
        storage: &Arc<dyn Storage>,
        log: &LogId,
        destination: &str,
        base_after: impl Fn(u32) -> Option<u64>,
    ) -> io::Result<(Self, Option<CursorPosition>)> {
        let name = file_name(destination);
        let file = match storage.open(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            opened => Some(opened?),
        };
        let mut bytes = vec![0; SLOTS as usize * SLOT_BYTES];
        let read = file.as_ref().map_or(0, |file| {
            insist(|| file.read_at(&mut bytes, 0)).unwrap_or_default()
        });
        bytes[read..].fill(0);
        let slots = (0..SLOTS).zip(bytes.chunks(SLOT_BYTES));
        let newest = slots
            .filter_map(|(slot, bytes)| Some((slot, bytes, CursorPosition::decode(log, bytes)?)))
            .max_by_key(|(_, _, (turn, _))| *turn);
        let cursor = Self {
            storage: Arc::clone(storage),
            name,
            file,
            turn: newest
                .as_ref()
                .map_or(0, |(_, _, (turn, _))| turn.saturating_add(1)),
            newest: newest.as_ref().map(|(slot, ..)| *slot),
            durable: None,
            syncing: None,
            is_dirty: false,
            found: newest.as_ref().map(|(_, bytes, (_, place))| {
                let ranges = place.unsettled.len();
                bytes[..HEAD_BYTES + 16 * ranges].to_vec()
            }),
            is_named: false,
        };
        let place = newest.map(|(.., (turn, mut place))| {
            if let Some(end) = epoch_of(turn).and_then(base_after) {
                place.end_at(end);
            }
            place
        });
        Ok((cursor, place))
    }

    /// The process whose place is the newest here, if it tells.
    pub(crate) fn epoch(&self) -> Option<u32> {
        epoch_of(self.turn.checked_sub(1)?)
    }

    /// Writes the place into a slot that holds neither the newest nor the newest durable one, nor
    /// the one that is being made durable. The first place of all is written into two slots: there
    /// is no older one to go back to if a bit of it flips.
    ///
    /// # Errors
    /// The disk fails; what was there before is still there.
    pub(crate) fn write(
        &mut self,
        log: &LogId,
        epoch: u32,
        place: &CursorPosition,
    ) -> io::Result<()> {
        self.keep_found()?;
        if self.newest.is_none() {
            self.write_slot(log, epoch, place)?;
        }
        self.write_slot(log, epoch, place)
    }

    fn write_slot(&mut self, log: &LogId, epoch: u32, place: &CursorPosition) -> io::Result<()> {
        self.turn = self.turn.max(first_turn(epoch));
        let syncing = self.syncing.filter(|_| !is_on(Mutant::NewestSynced));
        let taken = [self.newest, self.durable, syncing];
        let slots = if is_on(Mutant::TwoSlots) { 2 } else { SLOTS };
        let slot = (0..slots).find(|slot| !taken.contains(&Some(*slot)));
        // There is one but under the mutant: two slots are not enough.
        let slot = slot.unwrap_or(self.turn % 2);
        let bytes = place.encode(log, self.turn);
        // Also if it fails: it may be there all the same, and the next one go elsewhere.
        self.turn += 1;
        self.file()?.write_at(&[&bytes], slot * SLOT_BYTES as u64)?;
        self.newest = Some(slot);
        self.is_dirty = true;
        Ok(())
    }

    /// Makes the place that was found durable, if that is not done.
    ///
    /// # Errors
    /// The disk fails; nothing may be written before it does not.
    pub(crate) fn keep_found(&mut self) -> io::Result<()> {
        let (Some(found), Some(slot), Some(file)) = (&self.found, self.newest, &self.file) else {
            return Ok(());
        };
        if !is_on(Mutant::TrustFound) {
            file.write_at(&[found], slot * SLOT_BYTES as u64)?;
            file.sync()?;
            self.storage.sync_names()?;
        }
        self.is_named = true;
        self.durable = Some(slot);
        self.found = None;
        Ok(())
    }

    /// True if a place is being made durable.
    pub(crate) fn is_syncing(&self) -> bool {
        self.syncing.is_some()
    }

    /// Begins to make the newest place durable, if this process has written it and it is not.
    /// Places may be written meanwhile; one sync at a time.
    pub(crate) fn begin_sync(&mut self) -> Option<PositionSync> {
        let (file, slot) = (self.file.as_ref()?, self.newest?);
        if !std::mem::take(&mut self.is_dirty) {
            return None;
        }
        self.syncing = Some(slot);
        Some(PositionSync {
            file: Arc::clone(file),
            slot,
            names: (!self.is_named).then(|| Arc::clone(&self.storage)),
            is_written: AtomicBool::new(false),
        })
    }

    /// The sync is done. After one that failed, the place has to be written again.
    pub(crate) fn finish_sync(&mut self, sync: &PositionSync, ok: bool) {
        self.syncing = None;
        if sync.is_written.load(Relaxed) {
            self.durable = Some(sync.slot);
        }
        if ok {
            self.is_named = true;
            if is_on(Mutant::NewestSynced) {
                (self.durable, self.is_dirty) = (self.newest, false);
            }
        } else {
            self.is_dirty = false;
        }
    }

    fn file(&mut self) -> io::Result<&Arc<dyn StorageFile>> {
        if self.file.is_none() {
            self.file = Some(self.storage.create(&self.name)?);
        }
        self.file
            .as_ref()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}
