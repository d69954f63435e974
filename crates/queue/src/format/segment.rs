//! The head of a segment file.

use inrush_event::Timestamp;

use super::{FieldReader, FieldWriter, LogId, NUMBERS_END};

pub(crate) const HEADER_BYTES: usize = 72;
const MAGIC: [u8; 8] = *b"INRUSHQ\n";
/// Newest version; those before are read as well. Version 1 had peers for the only origins, version
/// 2 had no HTTP, version 3 no positions.
pub(crate) const VERSION: u16 = 4;
/// Version of a segment in which no frame has positions: older versions of Inrush read it.
pub(crate) const PLAIN_VERSION: u16 = 3;
/// Bytes that mean the same in every version: magic, checksum, version, length, identity.
const COMMON_BYTES: usize = 32;

/// Header of a segment file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    /// Version of the format that its frames are of.
    pub(crate) version: u16,
    pub(crate) log: LogId,
    /// Counts the segments of the log; decides over the order, whatever the file is called.
    pub(crate) serial: u64,
    /// Position of the first batch. Frames of earlier segments at or behind it do not count: they
    /// were written again here.
    pub(crate) base_position: u64,
    /// Number of the first event.
    pub(crate) base_event: u64,
    /// Counts the processes that wrote to this log.
    pub(crate) epoch: u32,
    pub(crate) created: Timestamp,
}

impl SegmentHeader {
    /// True if frames of it may have positions.
    pub(crate) fn has_positions(&self) -> bool {
        self.version > PLAIN_VERSION
    }

    /// Position and event with which it begins.
    pub(crate) fn base(&self) -> (u64, u64) {
        (self.base_position, self.base_event)
    }

    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        FieldWriter::<HEADER_BYTES>::new()
            .put(&MAGIC)
            .u32(0)
            .u16(self.version)
            .u16(HEADER_BYTES as u16)
            .put(&self.log.0)
            .u64(self.serial)
            .u64(self.base_position)
            .u64(self.base_event)
            .u64(self.created.0 as u64)
            .u32(self.epoch)
            .u32(0)
            .seal(&self.log, MAGIC.len())
    }

    /// The version of a sound head that a newer Inrush wrote.
    pub(crate) fn newer_version(bytes: &[u8]) -> Option<u16> {
        let mut fields = FieldReader(bytes.get(..COMMON_BYTES)?);
        let magic = fields.bytes::<8>();
        let sum = fields.u32();
        let (version, length) = (fields.u16(), fields.u16());
        let log = LogId(fields.bytes());
        let checked = bytes.get(MAGIC.len() + 4..usize::from(length))?;
        let is_newer = magic == MAGIC && version > VERSION;
        (is_newer && log.checksum(checked) == sum).then_some(version)
    }

    /// `None` where this is not the head of a segment, or it is damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEADER_BYTES)?;
        let mut fields = FieldReader(bytes);
        let magic = fields.bytes::<8>();
        let sum = fields.u32();
        let (version, length) = (fields.u16(), fields.u16());
        let header = Self {
            version,
            log: LogId(fields.bytes()),
            serial: fields.u64(),
            base_position: fields.u64(),
            base_event: fields.u64(),
            created: Timestamp(fields.u64() as i64),
            epoch: fields.u32(),
        };
        let is_known = (1..=VERSION).contains(&version) && usize::from(length) == HEADER_BYTES;
        let known = magic == MAGIC && is_known;
        let sane = header.base_position < NUMBERS_END && header.base_event < NUMBERS_END;
        (known && sane && header.log.checksum(&bytes[MAGIC.len() + 4..]) == sum).then_some(header)
    }
}
