//! Frames of an earlier process that may not be durable, on their way to the disk.
//!
//! A sync that fails may take from the page cache what it could not write. Sources were told at the
//! start that these frames are in the log, and do not read them again. So a copy stays in memory
//! until a sync has succeeded: of one segment at a time.

use std::io;
use std::sync::Arc;

use crate::format::SEGMENT_HEADER_BYTES;
use crate::scan::{ScanItem, SegmentScan};
use crate::segments::Segment;
use crate::storage::{StorageFile, insist};

/// Bytes that are read and written at once.
const PIECE_BYTES: u64 = 1024 * 1024;

/// Copy of the part of a segment that may not be durable.
pub(crate) struct UnsyncedCopy {
    /// Serial of the segment.
    serial: u64,
    /// Offsets in the file, and what is there.
    pieces: Vec<(u64, Vec<u8>)>,
}

impl UnsyncedCopy {
    /// Copies a segment but for the frames before position `from`, which are durable.
    ///
    /// # Errors
    /// The length of the file cannot be told.
    pub(crate) fn of(
        segment: &Segment,
        file: &Arc<dyn StorageFile>,
        from: u64,
    ) -> io::Result<Self> {
        let mut at = durable_bytes(segment, file, from)?;
        let length = insist(|| file.len())?;
        let mut pieces = Vec::new();
        while at < length {
            let count = (length - at).min(PIECE_BYTES);
            let mut bytes = vec![0; count as usize];
            // What cannot be read is no frame either.
            if let Ok(read) = insist(|| file.read_at(&mut bytes, at)) {
                bytes.truncate(read);
                pieces.push((at, bytes));
            }
            at += count;
        }
        let serial = segment.header.serial;
        Ok(Self { serial, pieces })
    }

    /// True if it is of the segment with this serial.
    pub(crate) fn is_of(&self, serial: u64) -> bool {
        self.serial == serial
    }

    /// Writes it over the file and syncs that: an earlier sync that failed may have left the frames
    /// in the page cache alone, where no later sync finds them.
    ///
    /// # Errors
    /// The disk fails: the file may lack what is in the copy.
    pub(crate) fn sync(&self, file: &dyn StorageFile) -> io::Result<()> {
        self.write(file)?;
        file.sync()
    }

    /// Puts it back into the page cache after that has failed; `false`: a part is still missing.
    pub(crate) fn put_back(&self, file: &dyn StorageFile) -> bool {
        // What a failed write has left is seen below.
        let _ = self.write(file);
        self.pieces.iter().all(|(at, bytes)| {
            let mut found = vec![0; bytes.len()];
            let read = insist(|| file.read_at(&mut found, *at));
            read.is_ok_and(|read| read == bytes.len()) && found == *bytes
        })
    }

    fn write(&self, file: &dyn StorageFile) -> io::Result<()> {
        let mut pieces = self.pieces.iter();
        pieces.try_for_each(|(at, bytes)| file.write_at(&[bytes], *at))
    }
}

/// Length of the frames at the front of a segment that are before position `from`.
fn durable_bytes(segment: &Segment, file: &Arc<dyn StorageFile>, from: u64) -> io::Result<u64> {
    let mut bytes = 0;
    if from <= segment.header.base_position {
        return Ok(bytes);
    }
    let (log, front) = (segment.header.log, SEGMENT_HEADER_BYTES as u64);
    let mut scan = SegmentScan::new(Arc::clone(file), log, front, u64::MAX);
    while let ScanItem::Frame(frame) = scan.next()?
        && frame.position < from
    {
        bytes = scan.offset();
    }
    Ok(bytes)
}
