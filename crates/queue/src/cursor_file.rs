//! A destination's place on disk: one small file with four slots. The newest place that is known
//! to be durable keeps its slot, and so does the one that a restart found, which may be; the others
//! are written by turns: whatever a power cut tears, there is a whole one. A place that is too old
//! costs duplicates, never an event.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::format::{Fields, LogId};
use crate::mutant::{Mutant, is_on};
use crate::storage::{File, Storage};

/// Bytes of a slot. Places with more ranges than fit forget the gaps between the last ones.
const SLOT_BYTES: usize = 16 * 1024;
/// One for the newest durable place, one for the place that a restart found, two that are written
/// by turns.
const SLOTS: u64 = 4;
const MAGIC: [u8; 4] = *b"IRCU";
/// magic, checksum, turn, durable turn, next event, number of ranges
const HEAD_BYTES: usize = 4 + 4 + 8 + 8 + 8 + 4;
/// In the place of a turn: there is none.
const NO_TURN: u64 = u64::MAX;
const RANGES_MAX: usize = (SLOT_BYTES - HEAD_BYTES) / 16;

/// Where a destination stands.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Place {
    /// Every event below is settled but those in `unsettled`.
    pub(crate) next_event: u64,
    /// By number, ascending.
    pub(crate) unsettled: Vec<Range<u64>>,
}

impl Place {
    /// Number of the oldest event that is not settled.
    pub(crate) fn floor(&self) -> u64 {
        self.unsettled
            .first()
            .map_or(self.next_event, |range| range.start)
    }

    fn encode(&self, log: &LogId, Turns { turn, durable }: Turns) -> Vec<u8> {
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
        bytes.extend_from_slice(&durable.to_le_bytes());
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

    fn decode(log: &LogId, slot: &[u8]) -> Option<(Turns, Self)> {
        let mut fields = Fields(slot);
        let (magic, sum) = (fields.bytes::<4>(), fields.u32());
        let (turn, durable) = (fields.u64(), fields.u64());
        let next_event = fields.u64();
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
        Some((Turns { turn, durable }, place))
    }
}

/// When a place was written.
#[derive(Clone, Copy)]
struct Turns {
    /// Counts the places of the file.
    turn: u64,
    /// The newest place that was durable then, or [`NO_TURN`]: so a later process knows which slot
    /// to keep, though it does not know what of the file has reached the disk.
    durable: u64,
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

/// Whose cursor a file is; `None` if it is none.
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
    file: Option<Arc<dyn File>>,
    /// Of the next place.
    turn: u64,
    /// Slot of the newest place, if there is one.
    newest: Option<u64>,
    /// Slot and turn of the newest place that is known to be durable: it is not written over, or
    /// a power cut could take all there is.
    durable: Option<(u64, u64)>,
    /// Slot of the place that an earlier process wrote last. It may be durable and newer than the
    /// one that it knew to be, so it is kept as well until this process has made one durable.
    inherited: Option<u64>,
    /// Whether the newest place may be made durable by a sync: not if one has failed, which
    /// forgets, and not if an earlier process wrote it, in which one may have failed.
    is_dirty: bool,
}

impl CursorFile {
    /// Opens the file of a destination, and reads its place: `None` if it has none that is sound.
    /// A file that is not there is made when there is something to write.
    ///
    /// # Errors
    /// The file is there and cannot be opened.
    pub(crate) fn open(
        storage: &Arc<dyn Storage>,
        log: &LogId,
        destination: &str,
    ) -> io::Result<(Self, Option<Place>)> {
        let name = file_name(destination);
        let file = match storage.open(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            opened => Some(opened?),
        };
        let mut bytes = vec![0; SLOTS as usize * SLOT_BYTES];
        let read = file
            .as_ref()
            .map_or(0, |file| file.read_at(&mut bytes, 0).unwrap_or(0));
        bytes[read..].fill(0);
        let slots = (0..SLOTS).zip(bytes.chunks(SLOT_BYTES));
        let mut found: Vec<(u64, Turns, Place)> = slots
            .filter_map(|(slot, bytes)| {
                let (turns, place) = Place::decode(log, bytes)?;
                Some((slot, turns, place))
            })
            .collect();
        found.sort_by_key(|(_, turns, _)| turns.turn);
        let newest = found.last().map(|(slot, turns, _)| (*slot, *turns));
        // Written over, it was followed by one that is durable: the newest that is left.
        let kept = newest.and_then(|(_, newest)| {
            let mut sound = found.iter();
            sound.find(|(_, turns, _)| turns.turn == newest.durable || turns.turn == newest.turn)
        });
        let cursor = Self {
            storage: Arc::clone(storage),
            name,
            file,
            turn: newest.map_or(0, |(_, turns)| turns.turn + 1),
            newest: newest.map(|(slot, _)| slot),
            inherited: newest.map(|(slot, _)| slot),
            durable: kept.map(|(slot, turns, _)| (*slot, turns.turn)),
            is_dirty: false,
        };
        Ok((cursor, found.pop().map(|(_, _, place)| place)))
    }

    /// Writes the place into a slot that holds neither the newest nor the newest durable one.
    pub(crate) fn write(&mut self, log: &LogId, place: &Place) -> io::Result<()> {
        let durable = self.durable.map(|(slot, _)| slot);
        let taken = [self.newest, self.inherited, durable];
        let slots = if is_on(Mutant::TwoSlots) { 2 } else { SLOTS };
        let slot = (0..slots).find(|slot| !taken.contains(&Some(*slot)));
        // There is one but under the mutant: two slots are not enough.
        let slot = slot.unwrap_or(self.turn % 2);
        let turns = Turns {
            turn: self.turn,
            durable: self.durable.map_or(NO_TURN, |(_, turn)| turn),
        };
        let bytes = place.encode(log, turns);
        self.file()?.write_at(&[&bytes], slot * SLOT_BYTES as u64)?;
        self.newest = Some(slot);
        self.turn += 1;
        self.is_dirty = true;
        Ok(())
    }

    /// Makes the place durable, if this process has written it.
    ///
    /// # Errors
    /// The disk fails; the place has to be written again.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        if let Some(file) = &self.file
            && std::mem::take(&mut self.is_dirty)
        {
            file.sync()?;
            self.inherited = None;
            self.durable = self.newest.map(|slot| (slot, self.turn - 1));
        }
        Ok(())
    }

    fn file(&mut self) -> io::Result<&Arc<dyn File>> {
        if self.file.is_none() {
            self.file = Some(self.storage.create(&self.name)?);
        }
        self.file
            .as_ref()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}
