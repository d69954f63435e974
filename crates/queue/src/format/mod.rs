//! The bytes of the log on disk. `docs/specs/queue.md` is normative; this is its implementation.
//!
//! All numbers are little-endian. A segment file is a [`SegmentHeader`] and frames behind it; a
//! frame is a header, a payload (source, senders, rows, arena) and a trailer. Every checksum is a
//! CRC-32C that starts with the log's secret [`LogId`], so that bytes that a sender smuggled into a
//! message never pass for a frame.

use inrush_event::{crc32c, crc32c_append};

mod classes;
mod frame;
mod note;
mod payload;
mod positions;
mod segment;

pub(crate) use frame::{
    FrameHeader, FrameTrailer, HEADER_BYTES as FRAME_HEADER_BYTES, MAGIC as FRAME_MAGIC,
    TRAILER_BYTES, TRAILER_MAGIC,
};
pub use note::RefusalNote;
pub(crate) use payload::{
    PEER_BYTES, ROW_BYTES, SourceCache, decode as decode_payload, decode_note, decode_parts,
    encode_head, is_padded, payload_sum,
};
pub(crate) use positions::{
    decode_positions, position_bytes, push as push_positions, take as take_positions,
};
pub(crate) use segment::{
    HEADER_BYTES as SEGMENT_HEADER_BYTES, PLAIN_VERSION, SegmentHeader, VERSION as SEGMENT_VERSION,
};

/// Positions and numbers of events lie below: at a billion a second they last for a century, and
/// nothing that is counted from one can overflow.
const NUMBERS_END: u64 = 1 << 62;

/// Names a log for its whole life, and keys its checksums. Random; not shown to anyone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LogId(pub(crate) [u8; 16]);

impl LogId {
    /// A new one, from the randomness that the system gives every process for its hash tables.
    pub fn random() -> Self {
        let half = || std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0_u64);
        Self((u128::from(half()) << 64 | u128::from(half())).to_be_bytes())
    }

    /// One that the caller chose.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Public name of the log: 48 bits. The key that it is mixed from stays secret, since every
    /// value of the checksum's start is as likely after it as before.
    pub(crate) fn public_name(&self) -> u64 {
        let key = u128::from_be_bytes(self.0);
        let mixed = mix(mix(key as u64) ^ (key >> 64) as u64);
        mixed >> 16
    }

    /// The checksum of `bytes` in this log.
    pub(crate) fn checksum(&self, bytes: &[u8]) -> u32 {
        crc32c_append(crc32c(&self.0), bytes)
    }
}

/// The finaliser of SplitMix64: every bit of the input changes about half of the output's.
fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Reads the numbers of a fixed layout one behind the other; zero beyond the end.
pub(crate) struct FieldReader<'a>(pub(crate) &'a [u8]);

impl FieldReader<'_> {
    pub(crate) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let Some((head, tail)) = self.0.split_first_chunk::<N>() else {
            self.0 = &[];
            return [0; N];
        };
        self.0 = tail;
        *head
    }

    pub(crate) fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.bytes())
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.bytes())
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }
}

/// Writes the numbers of a fixed layout one behind the other.
pub(crate) struct FieldWriter<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> FieldWriter<N> {
    pub(crate) fn new() -> Self {
        Self {
            bytes: [0; N],
            at: 0,
        }
    }

    /// Appends `part`.
    ///
    /// # Panics
    /// If the layout is full: its length is wrong, which the first test shows.
    pub(crate) fn put(&mut self, part: &[u8]) -> &mut Self {
        self.bytes[self.at..self.at + part.len()].copy_from_slice(part);
        self.at += part.len();
        self
    }

    pub(crate) fn u16(&mut self, value: u16) -> &mut Self {
        self.put(&value.to_le_bytes())
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.put(&value.to_le_bytes())
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.put(&value.to_le_bytes())
    }

    pub(crate) fn done(&self) -> [u8; N] {
        self.bytes
    }

    /// Puts the checksum of everything behind `at + 4` at `at`.
    pub(crate) fn seal(&mut self, log: &LogId, at: usize) -> [u8; N] {
        let sum = log.checksum(&self.bytes[at + 4..]);
        self.bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
        self.bytes
    }
}
