//! Recovery of the log from its folder at the start, whatever happened to it.
//!
//! # What it guarantees
//! * A start fails only where the folder cannot be read or a newer version wrote it.
//! * No number of an event that was given out is given out again.
//!
//! # Limits
//! It reads the heads of all segments, the last segment, and those whose positions of streams are
//! not in their file.
//!
//! # After a crash
//! It can be run again: nothing is written but what is put aside.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use inrush_event::Timestamp;

use crate::cursor_file::{CursorFile, CursorPosition, destination_in, file_name};
use crate::format::{LogId, SEGMENT_HEADER_BYTES, SEGMENT_VERSION, SegmentHeader};
use crate::meta::{CursorEntry, Meta};
use crate::mutant::{Mutant, is_on};
use crate::position_file::{self, PositionRead};
use crate::position_overlay::overlaid;
use crate::position_store::RecoveredPositions;
use crate::scan::{ScanItem, SegmentScan};
use crate::segments::{Segment, Segments, read_header, serial_in};
use crate::storage::{Storage, insist};

/// Ranges of numbers that `log.json` names as not durable: older ones count as corrupt.
const NOT_DURABLE_MAX: usize = 100;

/// A destination that an earlier process served.
pub(crate) struct RecoveredCursor {
    pub(crate) known: CursorEntry,
    pub(crate) file: CursorFile,
    /// `None` if its file is lost: then it begins with the oldest event.
    pub(crate) place: Option<CursorPosition>,
}

/// A log as it was found.
pub(crate) struct RecoveredLog {
    pub(crate) meta: Meta,
    pub(crate) segments: Segments,
    pub(crate) cursors: Vec<RecoveredCursor>,
    /// Serial of the next segment.
    pub(crate) serial: u64,
    /// Position of the next batch.
    pub(crate) position: u64,
    /// Number of the next event.
    pub(crate) event: u64,
    /// Positions of sources' streams.
    pub(crate) positions: RecoveredPositions,
    /// True if there are events but nothing tells whose they are: then they are everybody's.
    pub(crate) orphaned: bool,
    /// Files that were put aside.
    pub(crate) aside: Vec<String>,
}

/// Reads the folder; a new log is called `fresh`. Damaged files are put aside or read as far as
/// they go.
///
/// # Errors
/// The folder cannot be listed, or a newer version wrote to it: then nothing in it was changed.
pub(crate) fn recover(storage: &Arc<dyn Storage>, fresh: LogId) -> io::Result<RecoveredLog> {
    let names = storage.list()?;
    let meta = Meta::read(&**storage);
    let heads = heads(&**storage, &names)?;
    let id = log_id(meta.as_ref(), &heads).unwrap_or(fresh);
    let is_kept = names.iter().any(|name| name == position_file::NAME);
    let kept = match is_kept {
        true => position_file::read(&**storage, id)?,
        false => PositionRead::Absent,
    };
    let epochs = heads.iter().filter_map(|(_, head)| head.map(|h| h.epoch));
    let epoch = epochs.chain(meta.as_ref().map(|m| m.epoch)).max();
    let serials = names.iter().filter_map(|name| serial_in(name));
    let serials = serials.chain(heads.iter().filter_map(|(_, head)| head.map(|h| h.serial)));
    let serial = serials.max().map_or(0, |serial| serial + 1);
    let mut aside = Vec::new();
    let segments = segments(&**storage, id, heads, &mut aside);
    let tail = tail(&**storage, id, &segments);
    let (mut position, mut event) = tail.end;
    let is_told = meta.is_some();
    let orphaned = !is_told && !segments.0.is_empty();
    let told = meta.map(|meta| (meta.cursors, meta.not_durable));
    let (known, not_durable) = told.unwrap_or_default();
    let mut meta = Meta {
        id,
        epoch: epoch.map_or(0, |epoch| epoch + 1),
        cursors: known,
        not_durable,
    };
    let leftovers = unnamed(storage, &names, is_told, &mut meta)?;
    let cursors = cursors(storage, &meta, &segments)?;
    // Where neither `log.json` nor a segment tells of the last process, a place may.
    let epochs = cursors.iter().filter_map(|found| found.file.epoch());
    let next = epochs.map(|epoch| epoch.saturating_add(1)).max();
    meta.epoch = meta.epoch.max(next.unwrap_or(0));
    let places = cursors.iter().filter_map(|found| found.place.as_ref());
    for place in places.chain(&leftovers) {
        // A tail that was lost had been delivered here: its numbers are not given out again.
        if !is_on(Mutant::ReuseNumbers) {
            event = event.max(place.next_event);
        }
    }
    let positions_damaged = matches!(kept, PositionRead::Damaged);
    let mut positions = overlaid(&**storage, id, &segments, kept);
    // What was settled and never written has numbers too.
    position = position.max(positions.table.complete_to).max(1);
    positions.table.complete_to = position;
    let sound_to = tail.sound_to.filter(|_| aside.is_empty());
    note_not_durable(&mut meta, &cursors, sound_to.unwrap_or(event)..event);
    if positions_damaged {
        tracing::warn!(
            "queue: the file `positions` is damaged, and put aside: what the segments do not tell \
             of, sources read again"
        );
        aside.push(position_file::NAME.to_owned());
    }
    put_aside(&**storage, &aside, meta.epoch);
    Ok(RecoveredLog {
        meta,
        segments,
        cursors,
        serial,
        position,
        event,
        positions,
        orphaned,
        aside,
    })
}

/// Cursors whose files are there and that `log.json` does not name: without it (`is_told`), they
/// are taken on; else they were left behind, and their places are returned.
///
/// # Errors
/// A file can neither be opened nor deleted.
fn unnamed(
    storage: &Arc<dyn Storage>,
    names: &[String],
    is_told: bool,
    meta: &mut Meta,
) -> io::Result<Vec<CursorPosition>> {
    let mut leftovers = Vec::new();
    for name in names.iter().filter_map(|name| destination_in(name)) {
        if meta.cursors.iter().any(|known| known.name == name) {
            continue;
        }
        if is_told {
            leftovers.extend(leftover(storage, &meta.id, &name)?);
            continue;
        }
        meta.cursors.push(CursorEntry {
            name,
            abandoned_since: None,
        });
    }
    Ok(leftovers)
}

/// Puts bad files aside, into the folder `bad`.
fn put_aside(storage: &dyn Storage, aside: &[String], epoch: u32) {
    for name in aside {
        let to = format!("bad/{name}.{epoch}");
        if let Err(error) = storage.rename(name, &to) {
            tracing::warn!(file = name, %error, "queue: a bad file cannot be put aside");
        }
    }
}

/// Takes note of the numbers that a crash took before they were durable; forgets those that every
/// destination has passed.
fn note_not_durable(meta: &mut Meta, cursors: &[RecoveredCursor], gap: Range<u64>) {
    let floor = |found: &RecoveredCursor| found.place.as_ref().map_or(0, CursorPosition::floor);
    let floor = cursors.iter().map(floor).min().unwrap_or(gap.end);
    meta.not_durable.retain(|known| known.end > floor);
    add_gap(&mut meta.not_durable, gap);
    let too_many = meta.not_durable.len().saturating_sub(NOT_DURABLE_MAX);
    meta.not_durable.drain(..too_many);
}

/// Adds the last gap. After several crashes in a row it has the numbers of the earlier ones too,
/// and each is lost once.
fn add_gap(gaps: &mut Vec<Range<u64>>, gap: Range<u64>) {
    for known in gaps.iter_mut() {
        known.end = known.end.min(gap.start);
    }
    gaps.retain(|known| !known.is_empty());
    gaps.extend(Some(gap).filter(|gap| !gap.is_empty()));
}

/// Identity of the log, from `log.json` or else from the head of a segment.
pub(crate) fn log_id(meta: Option<&Meta>, heads: &SegmentHeads) -> Option<LogId> {
    let from_heads = || heads.iter().find_map(|(_, head)| head.map(|head| head.log));
    meta.map(|meta| meta.id).or_else(from_heads)
}

pub(crate) type SegmentHeads = Vec<(String, Option<SegmentHeader>)>;

/// The heads of all segments; `None` for one that is damaged.
///
/// # Errors
/// A newer version wrote one of them ([`io::ErrorKind::Unsupported`]).
pub(crate) fn heads(storage: &dyn Storage, names: &[String]) -> io::Result<SegmentHeads> {
    let is_segment = |name: &&String| name.ends_with(".seg");
    let head = |name: &String| {
        let read = || insist(|| read_header(&storage.open(name)?));
        // What looks damaged is looked at again: it may have been the way here.
        let found = match read() {
            Ok(Some(head)) => Ok(Some(head)),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Err(error),
            _ => read(),
        };
        match found {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                Err(io::Error::new(error.kind(), format!("{name}: {error}")))
            }
            found => Ok((name.clone(), found.ok().flatten())),
        }
    };
    names.iter().filter(is_segment).map(head).collect()
}

/// The segments that can be read, in order; the names of the others go to `aside`.
pub(crate) fn segments(
    storage: &dyn Storage,
    id: LogId,
    heads: SegmentHeads,
    aside: &mut Vec<String>,
) -> Segments {
    let mut found: Vec<Segment> = Vec::new();
    for (name, head) in heads {
        let Some(header) = head.or_else(|| rebuilt(storage, id, &name)) else {
            aside.push(name);
            continue;
        };
        let bytes = insist(|| storage.open(&name)?.len());
        if header.log != id {
            aside.push(name);
            continue;
        }
        found.push(Segment {
            name,
            header,
            bytes: bytes.unwrap_or(0),
        });
    }
    found.sort_by_key(|segment| segment.header.serial);
    let mut kept: Vec<Segment> = Vec::new();
    for segment in found {
        let header = segment.header;
        if kept
            .last()
            .is_some_and(|before| before.header.serial == header.serial)
        {
            aside.push(segment.name);
            continue;
        }
        // Bases only grow. One that seems to begin behind a later one was given up, and its head,
        // which was lost, made up from what is left of it: the later one has it all again.
        let is_again = |before: &Segment| {
            before.header.base_position > header.base_position
                || before.header.base_event > header.base_event
        };
        while let Some(before) = kept.pop_if(|before| is_again(before)) {
            aside.push(before.name);
        }
        kept.push(segment);
    }
    Segments(kept)
}

/// The head of a segment whose own is damaged, from its first sound frame and its name. Frames
/// before that one count from the first whose header is sound: what is missing is counted then.
fn rebuilt(storage: &dyn Storage, log: LogId, name: &str) -> Option<SegmentHeader> {
    let serial = serial_in(name)?;
    let file = insist(|| storage.open(name)).ok()?;
    let mut scan = SegmentScan::new(file, log, SEGMENT_HEADER_BYTES as u64, u64::MAX);
    loop {
        match scan.next().ok()? {
            ScanItem::End => return None,
            ScanItem::Bad(_) => {}
            ScanItem::Frame(frame) => {
                let own = (frame.position, frame.first_event);
                let (base_position, base_event) = scan.seen_first.unwrap_or(own);
                return Some(SegmentHeader {
                    version: SEGMENT_VERSION,
                    log,
                    serial,
                    base_position,
                    base_event,
                    epoch: frame.epoch,
                    created: Timestamp::now(),
                });
            }
        }
    }
}

/// The end of the log.
struct LogTail {
    /// Position and event behind the last batch.
    end: (u64, u64),
    /// The event behind the last sound batch, unless what follows was written and is damaged.
    sound_to: Option<u64>,
}

fn tail(storage: &dyn Storage, log: LogId, segments: &Segments) -> LogTail {
    let last = segments.0.last();
    let end = last.map_or((0, 0), |last| last.header.base());
    let Some(file) = last.and_then(|last| insist(|| storage.open(&last.name)).ok()) else {
        let sound_to = None;
        return LogTail { end, sound_to };
    };
    let mut scan = SegmentScan::new(file, log, SEGMENT_HEADER_BYTES as u64, u64::MAX);
    let mut sound_event = end.1;
    let is_whole = loop {
        match scan.next() {
            Ok(ScanItem::Frame(frame)) => sound_event = sound_event.max(frame.end_event()),
            Ok(ScanItem::Bad(_)) => {}
            Ok(ScanItem::End) => break true,
            Err(_) => break false,
        }
    };
    let (position, event) = scan.seen_end.unwrap_or(end);
    // A trailer behind the last sound frame, or a frame of full length, was written and damaged.
    let is_damaged = event > sound_event && !scan.is_cut;
    LogTail {
        end: (position.max(end.0), event.max(end.1)),
        sound_to: (is_whole && !is_damaged).then_some(sound_event),
    }
}

/// Deletes a cursor's file that was left behind: its destination was removed, or came and was never
/// named. Returns the place in it: if the disk does not delete it, the next destination of that
/// name may have to begin there, and would miss new events under numbers that are settled there.
///
/// # Errors
/// The file can neither be opened nor deleted.
fn leftover(
    storage: &Arc<dyn Storage>,
    id: &LogId,
    name: &str,
) -> io::Result<Option<CursorPosition>> {
    let opened = CursorFile::open(storage, id, name, |_| None);
    let removed = storage.remove(&file_name(name));
    match opened {
        Ok((_, place)) => Ok(place),
        Err(_) => removed.map(|()| None),
    }
}

fn cursors(
    storage: &Arc<dyn Storage>,
    meta: &Meta,
    segments: &Segments,
) -> io::Result<Vec<RecoveredCursor>> {
    let base_after = |epoch| segments.base_after(epoch);
    let find = |known: &CursorEntry| {
        let (file, place) = CursorFile::open(storage, &meta.id, &known.name, base_after)?;
        Ok(RecoveredCursor {
            known: known.clone(),
            file,
            place,
        })
    };
    meta.cursors.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crashes_in_a_row_lose_the_same_numbers_once() {
        let mut gaps = vec![2..4, 8..10];
        for (gap, expected) in [
            (10..10, vec![2..4, 8..10]),
            (8..12, vec![2..4, 8..12]),
            (10..14, vec![2..4, 8..10, 10..14]),
        ] {
            add_gap(&mut gaps, gap);
            assert_eq!(gaps, expected);
        }
    }
}
