//! The head and the tail of a frame.

use inrush_event::Timestamp;

use super::{FieldReader, FieldWriter, LogId, NUMBERS_END};

pub(crate) const HEADER_BYTES: usize = 64;
pub(crate) const TRAILER_BYTES: usize = 24;
pub(crate) const MAGIC: [u8; 4] = *b"\xf1IRB";
pub(crate) const TRAILER_MAGIC: [u8; 4] = *b"\xf2IRE";

/// No frame is longer: an arena of the longest messages and its rows take a tenth of it.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The batch is for one destination, which the names block names.
pub(crate) const FLAG_ONLY: u16 = 2;
/// The names block says why the destination refused the events.
pub(crate) const FLAG_NOTE: u16 = 4;
/// The names block lists classes, and rows are longer by a span.
pub(crate) const FLAG_CLASSES: u16 = 8;
/// The names block lists the destinations that the batch is for.
pub(crate) const FLAG_ROUTED: u16 = 16;
/// The names block says what the senders are called by their certificates.
pub(crate) const FLAG_CLIENTS: u16 = 32;
/// The names block lists origins that are no peers.
pub(crate) const FLAG_ORIGINS: u16 = 64;
/// The names block lists positions of the source's streams. Only in segments of version 4.
pub(crate) const FLAG_POSITIONS: u16 = 128;
/// Flags that this version understands; a frame with others is sound, but not for us to read.
pub(crate) const FLAGS_KNOWN: u16 = FLAG_ONLY
    | FLAG_NOTE
    | FLAG_CLASSES
    | FLAG_ROUTED
    | FLAG_CLIENTS
    | FLAG_ORIGINS
    | FLAG_POSITIONS;

/// Header of a frame, with the numbers of its batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FrameHeader {
    pub(crate) position: u64,
    /// Number of the first event.
    pub(crate) first_event: u64,
    pub(crate) received: Timestamp,
    pub(crate) events: u32,
    /// Epoch of the process that accepted the batch.
    pub(crate) epoch: u32,
    /// Bytes of the payload as it is stored.
    pub(crate) stored_bytes: u32,
    /// The same: room for a payload that is stored in another way.
    pub(crate) plain_bytes: u32,
    pub(crate) payload_sum: u32,
    /// Bytes of the source and the senders at the start of the payload.
    pub(crate) names_bytes: u32,
    pub(crate) flags: u16,
}

impl FrameHeader {
    /// Number of the event after the last.
    pub(crate) fn end_event(&self) -> u64 {
        self.first_event.saturating_add(u64::from(self.events))
    }

    /// True if its names block lists positions of streams.
    pub(crate) fn has_positions(&self) -> bool {
        self.flags & FLAG_POSITIONS != 0
    }

    /// True if all of it lies before a place, told as position and event. A frame of a segment that
    /// does not lie before the next one's base was given up: its position was given out again or,
    /// where a power cut took the segment that did so, some of its numbers.
    pub(crate) fn is_before(&self, (position, event): (u64, u64)) -> bool {
        self.position < position && self.end_event() <= event
    }

    /// Bytes of the whole frame.
    pub(crate) fn frame_bytes(&self) -> u64 {
        (HEADER_BYTES + TRAILER_BYTES) as u64 + u64::from(self.stored_bytes)
    }

    pub(crate) fn encode(&self, log: &LogId) -> [u8; HEADER_BYTES] {
        FieldWriter::<HEADER_BYTES>::new()
            .put(&MAGIC)
            .u32(0)
            .u64(self.position)
            .u64(self.first_event)
            .u64(self.received.0 as u64)
            .u32(self.events)
            .u32(self.epoch)
            .u32(self.stored_bytes)
            .u32(self.plain_bytes)
            .u32(self.payload_sum)
            .u32(self.names_bytes)
            .u16(self.flags)
            .put(&[0; 6])
            .seal(log, MAGIC.len())
    }

    /// `None` where there is no sound header.
    pub(crate) fn decode(log: &LogId, bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEADER_BYTES)?;
        let mut fields = FieldReader(bytes);
        let (magic, sum) = (fields.bytes::<4>(), fields.u32());
        if magic != MAGIC || log.checksum(&bytes[MAGIC.len() + 4..]) != sum {
            return None;
        }
        let header = Self {
            position: fields.u64(),
            first_event: fields.u64(),
            received: Timestamp(fields.u64() as i64),
            events: fields.u32(),
            epoch: fields.u32(),
            stored_bytes: fields.u32(),
            plain_bytes: fields.u32(),
            payload_sum: fields.u32(),
            names_bytes: fields.u32(),
            flags: fields.u16(),
        };
        let sane = header.stored_bytes as usize <= PAYLOAD_BYTES_MAX
            && header.plain_bytes as usize <= PAYLOAD_BYTES_MAX
            && header.position < NUMBERS_END
            && header.first_event < NUMBERS_END
            && header.events > 0;
        sane.then_some(header)
    }

    /// The tail of this frame.
    pub(crate) fn trailer(&self, log: &LogId) -> [u8; TRAILER_BYTES] {
        let trailer = FrameTrailer {
            end_position: self.position + 1,
            end_event: self.end_event(),
        };
        trailer.encode(log)
    }
}

/// The tail of a frame: it tells how far the log went where the head of the last frame is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FrameTrailer {
    pub(crate) end_position: u64,
    pub(crate) end_event: u64,
}

impl FrameTrailer {
    fn encode(&self, log: &LogId) -> [u8; TRAILER_BYTES] {
        FieldWriter::<TRAILER_BYTES>::new()
            .put(&TRAILER_MAGIC)
            .u32(0)
            .u64(self.end_position)
            .u64(self.end_event)
            .seal(log, TRAILER_MAGIC.len())
    }

    pub(crate) fn decode(log: &LogId, bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..TRAILER_BYTES)?;
        let mut fields = FieldReader(bytes);
        let (magic, sum) = (fields.bytes::<4>(), fields.u32());
        let trailer = Self {
            end_position: fields.u64(),
            end_event: fields.u64(),
        };
        let sound = magic == TRAILER_MAGIC
            && trailer.end_position <= NUMBERS_END
            && trailer.end_event <= NUMBERS_END + u64::from(u32::MAX)
            && log.checksum(&bytes[TRAILER_MAGIC.len() + 4..]) == sum;
        sound.then_some(trailer)
    }
}
