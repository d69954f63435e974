//! Position of a log: up to where each of its generations was taken, as the commit log keeps it.
//!
//! # What it guarantees
//! * A position is durable with the batch of the last event before it, so no event is lost or read
//!   twice within one commit log.
//! * What is damaged, or comes from a later version, is no position; it never panics.
//!
//! # Limits
//! `GENERATIONS_MAX` generations, a path of `PATH_BYTES_MAX`.

use inrush_transport::files::identity::{FileIdentity, IDENTITY_BYTES};

/// Version of the form; it is the first byte.
const VERSION: u8 = 1;

/// Generations of a position, at most: the one that is read, and those in which an unfinished
/// event began.
pub(super) const GENERATIONS_MAX: usize = 16;

/// Longest path (`PATH_MAX` of Linux).
const PATH_BYTES_MAX: usize = 4096;

/// Generation of a log: one file, under any name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct GenerationPosition {
    /// Identity of the file.
    pub(super) identity: FileIdentity,
    /// Bytes up to which its lines were taken.
    pub(super) taken: u64,
    /// Its length when that was written down, in bytes.
    pub(super) length: u64,
}

/// Place at which an unfinished event of a stream begins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct OpenEvent {
    /// Number of the generation in its position.
    pub(super) generation: u8,
    /// Offset of its first line, in bytes.
    pub(super) offset: u64,
}

/// Position of a log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct LogPosition {
    /// Name under which the log was found.
    pub(super) path: Vec<u8>,
    /// Generations, the oldest first.
    pub(super) generations: Vec<GenerationPosition>,
    /// Unfinished events of standard output, or of a file without streams, and standard error.
    pub(super) open: [Option<OpenEvent>; 2],
    /// True if the rest of a line that is too long is to be skipped.
    pub(super) skips: bool,
    /// True if nothing more of the log is read: of a compressed file.
    pub(super) is_complete: bool,
}

/// Bits of the last byte.
const SKIPS: u8 = 1;
const COMPLETE: u8 = 2;

/// Reader of fields.
struct PositionFields<'a>(&'a [u8]);

impl<'a> PositionFields<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn short(&mut self) -> Option<usize> {
        let bytes = self.take(2)?.try_into().ok()?;
        Some(usize::from(u16::from_le_bytes(bytes)))
    }

    fn long(&mut self) -> Option<u64> {
        let bytes = self.take(8)?.try_into().ok()?;
        Some(u64::from_le_bytes(bytes))
    }
}

fn push_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    let length = bytes.len().min(usize::from(u16::MAX));
    out.extend_from_slice(&(length as u16).to_le_bytes());
    out.extend_from_slice(&bytes[..length]);
}

impl LogPosition {
    /// The position as bytes: version, path, generations, unfinished events.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.path.len() + 64 * self.generations.len());
        out.push(VERSION);
        push_bytes(&self.path[..self.path.len().min(PATH_BYTES_MAX)], &mut out);
        let kept = self.generations.len().min(GENERATIONS_MAX);
        out.push(kept as u8);
        for generation in &self.generations[..kept] {
            generation.identity.push_to(&mut out);
            out.extend_from_slice(&generation.taken.to_le_bytes());
            out.extend_from_slice(&generation.length.to_le_bytes());
        }
        for open in self.open {
            out.push(open.map_or(u8::MAX, |open| open.generation));
            let offset = open.map_or(0, |open| open.offset);
            out.extend_from_slice(&offset.to_le_bytes());
        }
        let complete = if self.is_complete { COMPLETE } else { 0 };
        out.push(u8::from(self.skips) | complete);
        out
    }

    /// The position in these bytes; `None` if they are none.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = PositionFields(bytes);
        if fields.byte()? != VERSION {
            return None;
        }
        let length = fields.short()?;
        let path = fields.take(length)?.to_vec();
        let count = usize::from(fields.byte()?);
        if count == 0 || count > GENERATIONS_MAX || path.len() > PATH_BYTES_MAX {
            return None;
        }
        let mut generation = || {
            let identity = fields.take(IDENTITY_BYTES)?;
            Some(GenerationPosition {
                identity: FileIdentity::decode(identity).ok()?,
                taken: fields.long()?,
                length: fields.long()?,
            })
        };
        let generations: Vec<_> = (0..count).map(|_| generation()).collect::<Option<_>>()?;
        let mut open = || {
            let (generation, offset) = (fields.byte()?, fields.long()?);
            let known = usize::from(generation) < count;
            Some(known.then_some(OpenEvent { generation, offset }))
        };
        let open = [open()?, open()?];
        let flags = fields.byte()?;
        fields.0.is_empty().then_some(Self {
            path,
            generations,
            open,
            skips: flags & SKIPS != 0,
            is_complete: flags & COMPLETE != 0,
        })
    }
}
