//! Positions of sources' streams at a start: those of the file, and over them what frames say.
//!
//! A power cut may leave a frame behind one that it took. The positions of such a frame do not
//! count: the missing frame may have had a part of the same stream. So what a process wrote counts
//! up to the first position of the log that is missing; the next process went on from there, and
//! what it wrote counts again. The frame itself is delivered, and what it has is read a second
//! time.

use crate::format::{LogId, SEGMENT_HEADER_BYTES, decode_positions};
use crate::mutant::{Mutant, is_on};
use crate::position_file::PositionRead;
use crate::position_store::RecoveredPositions;
use crate::position_table::PositionTable;
use crate::scan::{ScanItem, SegmentScan};
use crate::segments::{NO_END, Segment, Segments};
use crate::storage::{Storage, insist};

/// The newest positions, and up to where the file had them.
pub(crate) fn overlaid(
    storage: &dyn Storage,
    id: LogId,
    segments: &Segments,
    kept: PositionRead,
) -> RecoveredPositions {
    let mut found = RecoveredPositions::default();
    // Process, and position of the next frame of it that must be there.
    let mut expected = None;
    if let PositionRead::Found(file) = kept {
        found.table = file.table;
        // A file that an earlier start did not find says nothing of what came after it.
        if let Some(position) = segments.position_after(file.epoch) {
            found.table.end_at(position);
        }
        expected = Some((file.epoch, Some(found.table.complete_to)));
        found.exists = true;
    }
    found.synced_to = found.table.complete_to;
    if is_on(Mutant::ForgetOverlay) && expected.is_some() {
        return found;
    }
    for (index, segment) in segments.0.iter().enumerate() {
        let (header, next) = (segment.header, segments.0.get(index + 1));
        if next.is_some_and(|next| next.header.base_position <= found.synced_to) {
            continue;
        }
        if !header.has_positions() {
            // It is not read, and has nothing to miss.
            expected = None;
            continue;
        }
        let known = expected.filter(|(epoch, _)| *epoch == header.epoch);
        let from = match known {
            Some((_, None)) => continue,
            Some((_, Some(position))) => position,
            None => header.base_position.max(found.synced_to),
        };
        let end = next.map_or(NO_END, |next| next.header.base());
        let next = overlay(storage, id, segment, (from, end), &mut found.table);
        expected = Some((header.epoch, next));
    }
    found
}

/// Takes the positions of the frames of a segment that count, from a position on. Returns the
/// position behind them; `None`: one is missing.
fn overlay(
    storage: &dyn Storage,
    id: LogId,
    segment: &Segment,
    (from, end): (u64, (u64, u64)),
    table: &mut PositionTable,
) -> Option<u64> {
    let goes_on = is_on(Mutant::PositionGaps);
    if segment.header.base_position > from && !goes_on {
        return None;
    }
    let file = insist(|| storage.open(&segment.name)).ok()?;
    let mut scan = SegmentScan::new(file, id, SEGMENT_HEADER_BYTES as u64, u64::MAX);
    let mut expected = from;
    loop {
        let frame = match scan.next().ok()? {
            ScanItem::End => return Some(expected),
            ScanItem::Bad(_) => continue,
            ScanItem::Frame(frame) => frame,
        };
        if !frame.is_before(end) {
            return Some(expected);
        }
        if frame.position < expected {
            continue;
        }
        if frame.position > expected && !goes_on {
            return None;
        }
        expected = frame.position + 1;
        if let Some((source, positions)) = decode_positions(&frame, scan.payload()) {
            table.note(&source, &positions, expected);
        }
    }
}
