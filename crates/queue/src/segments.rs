//! The segment files that the log holds, oldest first.

use std::io;
use std::sync::Arc;

use crate::format::{SEGMENT_HEADER_BYTES, SEGMENT_VERSION, SegmentHeader};
use crate::storage::StorageFile;

/// One segment file.
#[derive(Clone)]
pub(crate) struct Segment {
    pub(crate) name: String,
    pub(crate) header: SegmentHeader,
    /// Its length.
    pub(crate) bytes: u64,
}

/// The name of the segment with this serial.
pub(crate) fn segment_name(serial: u64) -> String {
    format!("{serial:010}.seg")
}

/// The serial in a segment's name.
pub(crate) fn serial_in(name: &str) -> Option<u64> {
    name.strip_suffix(".seg")?.parse().ok()
}

/// Position and event behind all there can be: the end of a segment that has no next one.
pub(crate) const NO_END: (u64, u64) = (u64::MAX, u64::MAX);

/// True if the file begins with a sound head.
pub(crate) fn is_sound(file: &dyn StorageFile) -> bool {
    matches!(head_of(file), Ok(Some(_)))
}

fn head_of(file: &dyn StorageFile) -> io::Result<Option<SegmentHeader>> {
    let mut bytes = [0; SEGMENT_HEADER_BYTES];
    let read = file.read_at(&mut bytes, 0)?;
    if let Some(version) = SegmentHeader::newer_version(&bytes[..read]) {
        let text = format!(
            "its format {version} is newer than {SEGMENT_VERSION}, the newest that this version of \
             Inrush reads: start the version that wrote it, or set `data_dir` to another folder"
        );
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    Ok(SegmentHeader::decode(&bytes[..read]))
}

/// The head of the file; `None` if it is not one of ours, or damaged.
///
/// # Errors
/// It cannot be read, or a newer version wrote it ([`io::ErrorKind::Unsupported`]).
pub(crate) fn read_header(file: &Arc<dyn StorageFile>) -> io::Result<Option<SegmentHeader>> {
    head_of(&**file)
}

/// All of them, by serial.
#[derive(Default)]
pub(crate) struct Segments(pub(crate) Vec<Segment>);

impl Segments {
    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.iter().map(|segment| segment.bytes).sum()
    }

    /// Number of the oldest event here that a process after this one accepted.
    pub(crate) fn base_after(&self, epoch: u32) -> Option<u64> {
        let later = self.0.iter().filter(|s| s.header.epoch > epoch);
        later.map(|segment| segment.header.base_event).min()
    }

    /// Number of the oldest event that may still be here; `None` if there is no segment.
    pub(crate) fn first_event(&self) -> Option<u64> {
        self.0.first().map(|segment| segment.header.base_event)
    }

    /// Index of the segment in which to look for this event.
    pub(crate) fn index_of_event(&self, event: u64) -> usize {
        let behind = self.0.partition_point(|s| s.header.base_event <= event);
        behind.saturating_sub(1)
    }

    /// Index of the first segment behind the one of this serial.
    pub(crate) fn index_after(&self, serial: u64) -> usize {
        self.0.partition_point(|s| s.header.serial <= serial)
    }

    /// Base position of the oldest segment here that a process after this one began.
    pub(crate) fn position_after(&self, epoch: u32) -> Option<u64> {
        let later = self.0.iter().filter(|s| s.header.epoch > epoch);
        later.map(|segment| segment.header.base_position).min()
    }

    /// True if the segment ends at or before this position.
    pub(crate) fn is_before(&self, serial: u64, position: u64) -> bool {
        let next = self.0.get(self.index_after(serial));
        next.is_some_and(|next| next.header.base_position <= position)
    }

    /// True if a frame may have positions of streams.
    pub(crate) fn have_positions(&self) -> bool {
        self.0.iter().any(|segment| segment.header.has_positions())
    }

    /// Takes the segments with these serials.
    pub(crate) fn take(&mut self, serials: &[u64]) -> Vec<Segment> {
        let taken = |segment: &mut Segment| serials.contains(&segment.header.serial);
        self.0.extract_if(.., taken).collect()
    }
}
