//! File `positions`: a cache of what the frames of the log say of the streams of sources.
//!
//! It is replaced as a whole, and a segment is deleted only once a durable file has all that the
//! frames in it say. It says up to which position of the log it is complete: what the frames behind
//! it say is laid over it at a start.

use std::io;

use inrush_event::StreamPosition;

use crate::format::{FieldReader, FieldWriter, LogId, push_positions, take_positions};
use crate::position_table::PositionTable;
use crate::storage::{Storage, insist};

pub(crate) const NAME: &str = "positions";
const NEW_NAME: &str = "positions.new";
const MAGIC: [u8; 8] = *b"INRUSHP\n";
/// Version that is written. Bytes 0 to 31 mean the same in every version.
const VERSION: u16 = 1;
/// magic, checksum, version, length of the head, log, epoch, kind, complete to, number of sources
const HEAD_BYTES: usize = 8 + 4 + 2 + 2 + 16 + 4 + 4 + 8 + 8;
/// Offset of what the checksum covers.
const CHECKED_FROM: usize = 12;
/// Bytes that are written at once.
const WRITE_BYTES: usize = 4 * 1024 * 1024;
/// The longest file that is read: four times what is remembered at most.
const BYTES_MAX: u64 = 1 << 30;

/// Name of a log in memory where there is none on disk.
pub(crate) const IN_MEMORY: LogId = LogId(*b"a log in memory.");

/// Content of the file.
pub(crate) struct FoundPositions {
    pub(crate) table: PositionTable,
    /// Epoch of the process that wrote it.
    pub(crate) epoch: u32,
}

/// Result of a look at the file.
pub(crate) enum PositionRead {
    Absent,
    Found(FoundPositions),
    /// It is damaged, or of another log.
    Damaged,
}

/// The bytes of the file for this table.
pub(crate) fn encode(table: &PositionTable, log: &LogId, epoch: u32) -> Vec<u8> {
    let mut bytes = head(table, log, epoch, 0).to_vec();
    for (source, streams) in table.sources() {
        bytes.extend_from_slice(&(source.len() as u32).to_le_bytes());
        bytes.extend_from_slice(source.as_bytes());
        let ends = streams.values().map(|kept| kept.end.to_le_bytes());
        let states = streams.iter().map(|(stream, kept)| (*stream, &*kept.state));
        push_positions(states, &mut bytes);
        ends.for_each(|end| bytes.extend_from_slice(&end));
    }
    let sum = log.checksum(&bytes[CHECKED_FROM..]);
    bytes[..HEAD_BYTES].copy_from_slice(&head(table, log, epoch, sum));
    bytes
}

fn head(table: &PositionTable, log: &LogId, epoch: u32, sum: u32) -> [u8; HEAD_BYTES] {
    let mut head = FieldWriter::<HEAD_BYTES>::new();
    head.put(&MAGIC).put(&sum.to_le_bytes());
    head.u16(VERSION).u16(HEAD_BYTES as u16).put(&log.0);
    head.put(&epoch.to_le_bytes()).put(&[0; 4]);
    head.u64(table.complete_to)
        .u64(table.sources().len() as u64);
    head.done()
}

/// Reads the bytes of a file of this log, or of one in memory; `None` if they are damaged, or of
/// another log.
pub(crate) fn decode(bytes: &[u8], log: LogId) -> Option<FoundPositions> {
    let mut fields = FieldReader(bytes.get(..HEAD_BYTES)?);
    let (magic, sum) = (fields.bytes::<8>(), fields.u32());
    let (version, length, id) = (fields.u16(), fields.u16(), LogId(fields.bytes()));
    let (epoch, _, complete_to, sources) = (fields.u32(), fields.u32(), fields.u64(), fields.u64());
    let known = magic == MAGIC && version == VERSION && usize::from(length) == HEAD_BYTES;
    let is_ours = id == log || id == IN_MEMORY;
    if !known || !is_ours || id.checksum(&bytes[CHECKED_FROM..]) != sum {
        return None;
    }
    let mut table = PositionTable::default();
    let mut fields = FieldReader(&bytes[HEAD_BYTES..]);
    for _ in 0..sources {
        let length = fields.u32() as usize;
        let (name, rest) = fields.0.split_at_checked(length)?;
        fields.0 = rest;
        let name = std::str::from_utf8(name).ok()?;
        let mut found = Vec::new();
        take_positions(&mut fields, |stream, state| {
            let state = state.into();
            found.push(StreamPosition { stream, state });
        })?;
        for position in found {
            fields.0.first_chunk::<8>()?;
            table.note(name, &[position], fields.u64());
        }
    }
    (table.complete_to, table.changes) = (complete_to, 0);
    fields
        .0
        .is_empty()
        .then_some(FoundPositions { table, epoch })
}

/// Reads the file.
///
/// # Errors
/// It is there and cannot be opened, or a newer version wrote it
/// ([`io::ErrorKind::Unsupported`]).
pub(crate) fn read(storage: &dyn Storage, log: LogId) -> io::Result<PositionRead> {
    let file = match insist(|| storage.open(NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(PositionRead::Absent),
        opened => opened?,
    };
    let look = || {
        let length = insist(|| file.len())?.min(BYTES_MAX) as usize;
        let mut bytes = vec![0; length];
        let read = insist(|| file.read_at(&mut bytes, 0))?;
        bytes.truncate(read);
        io::Result::Ok(bytes)
    };
    // What looks damaged is looked at again: it may have been the way here.
    for _ in 0..2 {
        let Ok(bytes) = look() else { continue };
        if let Some(version) = newer_version(&bytes) {
            let text = format!(
                "{NAME}: its format {version} is newer than {VERSION}, the newest that this \
                 version of Inrush reads: start the version that wrote it, or delete the file: \
                 then what files were read before may be read again"
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        if let Some(found) = decode(&bytes, log) {
            return Ok(PositionRead::Found(found));
        }
    }
    Ok(PositionRead::Damaged)
}

/// The version of a sound file that a newer Inrush wrote.
fn newer_version(bytes: &[u8]) -> Option<u16> {
    let mut fields = FieldReader(bytes.get(..HEAD_BYTES)?);
    let (magic, sum) = (fields.bytes::<8>(), fields.u32());
    let (version, _) = (fields.u16(), fields.u16());
    let id = LogId(fields.bytes());
    let is_sound = magic == MAGIC && id.checksum(&bytes[CHECKED_FROM..]) == sum;
    (is_sound && version > VERSION).then_some(version)
}

/// Replaces the file, durably. `clean`: the last write of this process went well.
///
/// # Errors
/// The disk fails; the file is as it was, or the new one.
pub(crate) fn write(storage: &dyn Storage, bytes: &[u8], clean: bool) -> io::Result<()> {
    match storage.remove(NEW_NAME) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    if !clean {
        // A leftover, which may be torn, must not get the file's name in a power cut.
        storage.sync_names()?;
    }
    let file = storage.create(NEW_NAME)?;
    for (at, part) in bytes.chunks(WRITE_BYTES).enumerate() {
        file.write_at(&[part], (at * WRITE_BYTES) as u64)?;
    }
    file.flush()?;
    file.sync()?;
    storage.rename(NEW_NAME, NAME)?;
    storage.sync_names()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    const LOG: LogId = LogId([3; 16]);

    fn filled(notes: &[(String, u64, Vec<u8>, u64)], complete_to: u64) -> PositionTable {
        let mut table = PositionTable::default();
        for (source, stream, state, end) in notes {
            let (stream, state) = (*stream, state.as_slice().into());
            table.note(source, &[StreamPosition { stream, state }], *end);
        }
        table.complete_to = complete_to;
        table
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_nothing_else(
            notes in prop::collection::vec(
                (".{0,9}", 0u64..20, prop::collection::vec(any::<u8>(), 0..40), any::<u64>()),
                0..30,
            ),
            complete_to: u64,
            (at, cut) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        ) {
            let table = filled(&notes, complete_to);
            let mut bytes = encode(&table, &LOG, 7);
            let found = decode(&bytes, LOG).unwrap();
            prop_assert_eq!(found.epoch, 7);
            prop_assert_eq!(found.table.complete_to, complete_to);
            let known = |table: &PositionTable| {
                let all = table.sources().clone().into_iter();
                all.filter(|(_, streams)| !streams.is_empty()).collect::<Vec<_>>()
            };
            prop_assert_eq!(known(&found.table), known(&table));
            prop_assert!(decode(&bytes[..cut.index(bytes.len())], LOG).is_none());
            prop_assert!(decode(&bytes, LogId([4; 16])).is_none());
            let at = at.index(bytes.len());
            bytes[at] ^= 1;
            prop_assert!(decode(&bytes, LOG).is_none());
        }

        /// Whatever stands in a file whose checksum is right: it is read, or it is not.
        #[test]
        fn no_bytes_do_harm(mut bytes in prop::collection::vec(any::<u8>(), 0..200), count: u8) {
            let table = PositionTable::default();
            let mut file = head(&table, &LOG, 1, 0).to_vec();
            file[HEAD_BYTES - 8] = count;
            file.append(&mut bytes);
            let sum = LOG.checksum(&file[CHECKED_FROM..]);
            file[8..12].copy_from_slice(&sum.to_le_bytes());
            let _ = decode(&file, LOG);
        }
    }

    #[test]
    fn a_file_of_a_newer_version_is_told_from_a_damaged_one() {
        let mut bytes = encode(&PositionTable::default(), &LOG, 7);
        assert_eq!(newer_version(&bytes), None);
        bytes[12] = 2;
        assert_eq!(newer_version(&bytes), None, "its checksum is wrong");
        let sum = LOG.checksum(&bytes[CHECKED_FROM..]);
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(newer_version(&bytes), Some(2));
        assert!(decode(&bytes, LOG).is_none());
    }
}
