//! A destination's place on disk: one small file with two slots that are written by turns, so
//! that a write that is torn leaves the other slot whole. A place that is too old costs
//! duplicates, never an event.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::format::{Fields, LogId};
use crate::storage::{File, Storage};

/// Bytes of a slot. Places with more ranges than fit forget the gaps between the last ones.
const SLOT_BYTES: usize = 16 * 1024;
const MAGIC: [u8; 4] = *b"IRCU";
/// magic, checksum, turn, next event, number of ranges
const HEAD_BYTES: usize = 4 + 4 + 8 + 8 + 4;
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
        let mut fields = Fields(slot);
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

/// The file, open.
pub(crate) struct CursorFile {
    file: Arc<dyn File>,
    turn: u64,
    /// Whether something was written since the last sync.
    pub(crate) unsynced: bool,
}

impl CursorFile {
    /// Opens the file of a destination, and reads its place: `None` if it has none that is sound.
    pub(crate) fn open(
        storage: &dyn Storage,
        log: &LogId,
        destination: &str,
    ) -> io::Result<(Self, Option<Place>)> {
        let name = file_name(destination);
        let file = match storage.open(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => storage.create(&name)?,
            opened => opened?,
        };
        let mut bytes = vec![0; 2 * SLOT_BYTES];
        let read = file.read_at(&mut bytes, 0).unwrap_or(0);
        bytes[read..].fill(0);
        let slots = bytes.chunks(SLOT_BYTES);
        let newest = slots
            .filter_map(|slot| Place::decode(log, slot))
            .max_by_key(|(turn, _)| *turn);
        let turn = newest.as_ref().map_or(0, |(turn, _)| turn + 1);
        let cursor = Self {
            file,
            turn,
            unsynced: true,
        };
        Ok((cursor, newest.map(|(_, place)| place)))
    }

    /// Writes the place into the older slot.
    pub(crate) fn write(&mut self, log: &LogId, place: &Place) -> io::Result<()> {
        let offset = (self.turn % 2) * SLOT_BYTES as u64;
        self.unsynced = true;
        self.file
            .write_at(&[&place.encode(log, self.turn)], offset)?;
        self.turn += 1;
        Ok(())
    }

    /// Makes the place durable.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        if self.unsynced {
            self.file.sync()?;
            self.unsynced = false;
        }
        Ok(())
    }
}
