//! Looks at a log's folder without changing anything, also beside the process that uses it: files
//! may grow and vanish meanwhile.

mod events;
mod verify;

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

pub use events::{EventQuery, QuerySummary};
pub(crate) use verify::read;
pub use verify::{EventGap, SegmentReport, VerifiedLog};

use crate::cursor_file::{CursorFile, CursorPosition, destination_in};
use crate::format::{FRAME_HEADER_BYTES, FrameHeader, LogId, SEGMENT_HEADER_BYTES};
use crate::meta::{CursorEntry, Meta};
use crate::quarantine::{QuarantineFilter, QuarantineReader};
use crate::ranges::total;
use crate::recover::{heads, log_id, segments};
use crate::segments::{Segment, Segments};
use crate::storage::{BLOCK_BYTES, DiskStorage, Storage, StorageFile};

/// A write that is under way is over after so many looks, this far apart.
const LOOKS: u32 = 20;
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A log's folder at one moment.
pub struct Inspector {
    storage: Arc<dyn Storage>,
    id: LogId,
    known: Vec<CursorEntry>,
    segments: Segments,
    /// True if a process uses it.
    live: bool,
    /// Segments that are none of this log's, or cannot be told.
    strange: Vec<String>,
}

/// A segment, as far as the heads of its frames tell.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SegmentInfo {
    /// Its file.
    pub file: String,
    /// Its number.
    pub serial: u64,
    /// Time at which it was begun, in nanoseconds since 1970.
    pub created_ns: i64,
    /// Positions of its batches.
    pub positions: Range<u64>,
    /// Numbers of its events.
    pub events: Range<u64>,
    /// Batches in it.
    pub batches: u64,
    /// Its length.
    pub bytes: u64,
    /// True if every frame follows the one before; what is in them was not looked at.
    pub sound: bool,
}

/// A destination's place in the log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CursorInfo {
    /// The destination.
    pub destination: String,
    /// Number of the first event that it was never given.
    pub next_event: u64,
    /// Events below that are not settled.
    pub unsettled: u64,
    /// Events without a fate.
    pub pending: u64,
    /// Since when it is not configured, in seconds since 1970.
    pub abandoned_since: Option<i64>,
    /// True if its file can be read; if not, it begins with the oldest event.
    pub sound: bool,
}

/// A file that was put aside because it, or a part of a segment, could not be read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CorruptFile {
    /// Its name in the folder `bad`.
    pub file: String,
    /// Its length.
    pub bytes: u64,
}

impl Inspector {
    /// Looks into the folder; `None` if there is no log in it. `live` says whether a process uses
    /// it: then the end may be half written, and events may be settled that are not written yet.
    ///
    /// # Errors
    /// The folder cannot be read, or a newer version wrote the log.
    pub fn open(folder: &Path, live: bool) -> io::Result<Option<Self>> {
        let storage: Arc<dyn Storage> = Arc::new(DiskStorage::look_at(folder)?);
        let names = storage.list()?;
        let meta = Meta::read(&*storage);
        let heads = heads(&*storage, &names)?;
        let Some(id) = log_id(meta.as_ref(), &heads) else {
            return Ok(None);
        };
        let mut strange = Vec::new();
        let segments = segments(&*storage, id, heads, &mut strange);
        // What vanished meanwhile was not needed any more.
        strange.retain(|name| storage.open(name).is_ok());
        let is_told = meta.is_some();
        let mut known = meta.map(|meta| meta.cursors).unwrap_or_default();
        for name in names.iter().filter_map(|name| destination_in(name)) {
            if !is_told && !known.iter().any(|known| known.name == name) {
                let abandoned_since = None;
                known.push(CursorEntry {
                    name,
                    abandoned_since,
                });
            }
        }
        Ok(Some(Self {
            storage,
            id,
            known,
            segments,
            live,
            strange,
        }))
    }

    /// The segments, the oldest first.
    ///
    /// # Errors
    /// The disk does not answer.
    pub fn segments(&self) -> io::Result<Vec<SegmentInfo>> {
        let mut infos = Vec::new();
        for (index, segment) in self.segments.0.iter().enumerate() {
            let is_last = index + 1 == self.segments.0.len();
            if let Some(file) = self.open_segment(segment)? {
                infos.push(self.walk(segment, &file, is_last)?);
            }
        }
        Ok(infos)
    }

    /// Bytes of all segments, as they were at the beginning.
    pub fn bytes(&self) -> u64 {
        self.segments.bytes()
    }

    /// `None` if it is not there any more.
    fn open_segment(&self, segment: &Segment) -> io::Result<Option<Arc<dyn StorageFile>>> {
        match self.storage.open(&segment.name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    }

    fn walk(
        &self,
        segment: &Segment,
        file: &Arc<dyn StorageFile>,
        is_last: bool,
    ) -> io::Result<SegmentInfo> {
        let header = segment.header;
        let mut info = SegmentInfo {
            file: segment.name.clone(),
            serial: header.serial,
            created_ns: header.created.0,
            positions: header.base_position..header.base_position,
            events: header.base_event..header.base_event,
            batches: 0,
            bytes: file.len()?,
            sound: crate::segments::is_sound(&**file),
        };
        let mut at = SEGMENT_HEADER_BYTES as u64;
        let mut looks = if is_last && self.live { LOOKS } else { 0 };
        while at < info.bytes {
            let mut bytes = [0; FRAME_HEADER_BYTES];
            file.read_at(&mut bytes, at)?;
            let frame = FrameHeader::decode(&self.id, &bytes);
            let frame = frame.filter(|frame| at + frame.frame_bytes() <= info.bytes);
            let Some(frame) = frame else {
                if is_padding(&**file, at, info.bytes)? {
                    break;
                }
                if looks == 0 {
                    info.sound = false;
                    break;
                }
                looks -= 1;
                std::thread::sleep(LOOK_EVERY);
                info.bytes = file.len()?;
                continue;
            };
            info.batches += 1;
            info.positions.end = info.positions.end.max(frame.position + 1);
            info.events.end = info.events.end.max(frame.end_event());
            at += frame.frame_bytes();
        }
        Ok(info)
    }

    /// Number of the first event that was not there yet, as far as the heads of frames tell.
    fn end(&self) -> io::Result<u64> {
        let Some(last) = self.segments.0.last() else {
            return Ok(0);
        };
        let file = self.open_segment(last)?;
        let info = file.map(|file| self.walk(last, &file, true)).transpose()?;
        Ok(info.map_or(last.header.base_event, |info| info.events.end))
    }

    /// The destinations that have a cursor. What is pending counts the events on disk.
    ///
    /// # Errors
    /// The disk does not answer.
    pub fn cursors(&self) -> io::Result<Vec<CursorInfo>> {
        let end = self.end()?;
        let info = |known: &CursorEntry| {
            let place = self.place(&known.name)?;
            let sound = place.is_some();
            let mut place = place.unwrap_or_default();
            if !sound {
                place.next_event = self.segments.first_event().unwrap_or(end);
            }
            let unsettled = total(&place.unsettled);
            Ok(CursorInfo {
                destination: known.name.clone(),
                next_event: place.next_event,
                unsettled,
                pending: unsettled + end.saturating_sub(place.next_event),
                abandoned_since: known.abandoned_since,
                sound,
            })
        };
        self.known.iter().map(info).collect()
    }

    /// Place of a destination; `None` if that is lost.
    fn place(&self, destination: &str) -> io::Result<Option<CursorPosition>> {
        let base_after = |epoch| self.segments.base_after(epoch);
        let opened = CursorFile::open(&self.storage, &self.id, destination, base_after);
        opened.map(|(_, place)| place)
    }

    /// Segments in the folder that are none of this log's, or cannot be told.
    pub fn strange(&self) -> &[String] {
        &self.strange
    }

    /// Reads the entries in quarantine, where this is the folder of one.
    pub fn entries(&self, filter: &QuarantineFilter) -> QuarantineReader {
        let (storage, segments) = (Arc::clone(&self.storage), self.segments.0.clone());
        QuarantineReader::new(storage, self.id, segments, u64::MAX, filter.clone())
    }
}

/// True if nothing but the rest of a block is there, as a writer past the page cache leaves it.
fn is_padding(file: &dyn StorageFile, from: u64, len: u64) -> io::Result<bool> {
    let count = (len - from) as usize;
    if count >= BLOCK_BYTES {
        return Ok(false);
    }
    let mut rest = [0; BLOCK_BYTES];
    file.read_at(&mut rest[..count], from)?;
    Ok(rest.iter().all(|byte| *byte == 0))
}

/// The files that were put aside in a log's folder, by name.
///
/// # Errors
/// The folder is there and cannot be read.
pub fn aside(folder: &Path) -> io::Result<Vec<CorruptFile>> {
    let listed = match std::fs::read_dir(folder.join("bad")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed?,
    };
    let mut files = Vec::new();
    for entry in listed {
        let entry = entry?;
        files.push(CorruptFile {
            file: entry.file_name().to_string_lossy().into_owned(),
            bytes: entry.metadata()?.len(),
        });
    }
    files.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(files)
}
