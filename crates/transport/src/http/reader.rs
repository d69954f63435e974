//! Body of a request: its bytes without their framing and compression (RFC 1952), in front of the
//! room of the caller.
//!
//! # What it guarantees
//! * What is decompressed goes straight into the room; what has no room yet waits compressed.
//! * A body that grows more than it may is broken, however long it is.
//!
//! # Limits
//! [`GZIP_READ_BYTES`] of compressed bytes are read at once.

use super::body::{BodyDecoder, BodyPart};
use super::gunzip::GzipStream;
use super::head::BodyLength;

/// Compressed bytes that are read at once: what waits for room is kept.
pub const GZIP_READ_BYTES: usize = 64 * 1024;

/// Bytes that are taken at once where only they tell whether they are the body's.
const FRAMED_READ_BYTES: usize = 4096;

/// Bytes that a compressed body may have grown to before its ratio counts.
const RATIO_FREE_BYTES: u64 = 1024 * 1024;

/// Fault of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyFault {
    /// Its framing is broken: the connection cannot be read on.
    Framing,
    /// Its compression is broken, or grows more than it may.
    Compression,
    /// It is longer than it may be.
    TooLong,
}

/// Takes framing and compression off a body.
pub struct BodyReader {
    framing: BodyDecoder,
    gunzip: Option<Box<GzipStream>>,
    /// Bytes of the body so far, decompressed.
    bytes: u64,
    bytes_max: u64,
    ratio_max: u64,
    /// True once all compressed bytes have come.
    framing_ended: bool,
    /// True once the body has ended.
    ended: bool,
}

/// Bytes that were taken of those shown.
pub struct BodyTaken {
    /// Bytes of the body, which stand in front of the room now.
    pub filled: usize,
    /// Offset of the bytes behind the body, if it has ended in what was shown.
    pub behind: Option<usize>,
}

impl BodyReader {
    /// Of a body of that length. It has at most `bytes_max` bytes, decompressed, and grows to at
    /// most `ratio_max` times as many as came.
    pub fn new(length: BodyLength, gzip: bool, bytes_max: u64, ratio_max: u64) -> Self {
        Self {
            framing: BodyDecoder::new(length),
            gunzip: gzip.then(Box::<GzipStream>::default),
            bytes: 0,
            bytes_max,
            ratio_max,
            framing_ended: false,
            ended: false,
        }
    }

    /// The body of a stream ends behind so many more bytes.
    pub fn end_behind(&mut self, bytes: u64) {
        self.framing.end_behind(bytes);
    }

    /// True once the body has ended and all of it was given.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// True if bytes that came wait for room.
    pub fn is_waiting(&self) -> bool {
        self.gunzip
            .as_ref()
            .is_some_and(|gunzip| gunzip.is_waiting())
    }

    /// Bytes to take at once, at most, of those that came with others: no more than are its own,
    /// as far as that is known.
    pub fn own_bytes(&self, room: usize) -> usize {
        let own = match self.framing.pending_bytes() {
            0 => FRAMED_READ_BYTES,
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
        };
        self.read_bytes(room).min(own)
    }

    /// Bytes to read at once, at most.
    pub fn read_bytes(&self, room: usize) -> usize {
        match self.gunzip {
            Some(_) => room.min(GZIP_READ_BYTES),
            None => room,
        }
    }

    /// Bytes of memory that it keeps.
    pub fn memory_bytes(&self) -> usize {
        self.gunzip
            .as_ref()
            .map_or(0, |gunzip| gunzip.memory_bytes())
    }

    /// Takes the first `shown` bytes of the room, which came from the peer. What is compressed is
    /// kept until [`Self::inflate`]; bytes behind the body are the caller's to save before.
    ///
    /// # Errors
    /// The fault of the body, which is of no more use.
    pub fn take(&mut self, room: &mut [u8], shown: usize) -> Result<BodyTaken, BodyFault> {
        let mut filled = 0;
        let mut behind = None;
        let mut at = 0;
        while !self.framing_ended {
            match self.framing.next(&room[..shown], at) {
                BodyPart::Data(range) => {
                    at = range.end;
                    match &mut self.gunzip {
                        Some(gunzip) => {
                            gunzip.push(&room[range]);
                        }
                        None => {
                            let length = range.len();
                            if range.start != filled {
                                room.copy_within(range, filled);
                            }
                            filled += length;
                        }
                    }
                }
                BodyPart::NeedMore => break,
                BodyPart::End(end) => {
                    self.framing_ended = true;
                    self.gunzip.iter_mut().for_each(|gunzip| gunzip.end());
                    behind = Some(end);
                }
                BodyPart::Bad => return Err(BodyFault::Framing),
            }
        }
        // What is behind the body is saved by the caller before the room is written to.
        if self.gunzip.is_some() {
            return Ok(BodyTaken { filled: 0, behind });
        }
        self.ended = self.framing_ended;
        self.bytes += filled as u64;
        Ok(BodyTaken { filled, behind })
    }

    /// Decompresses what waits into the room; the bytes that it filled. A body that is too long is
    /// found here, once the caller has saved what is behind it.
    ///
    /// # Errors
    /// The fault of the body, which is of no more use.
    pub fn inflate(&mut self, room: &mut [u8]) -> Result<usize, BodyFault> {
        let Some(gunzip) = &mut self.gunzip else {
            return match self.bytes > self.bytes_max {
                true => Err(BodyFault::TooLong),
                false => Ok(0),
            };
        };
        let filled = gunzip.fill(room).map_err(|_| BodyFault::Compression)?;
        self.bytes += filled as u64;
        let grown =
            self.bytes > RATIO_FREE_BYTES.max(gunzip.in_bytes().saturating_mul(self.ratio_max));
        if grown {
            return Err(BodyFault::Compression);
        }
        if self.bytes > self.bytes_max {
            return Err(BodyFault::TooLong);
        }
        if self.framing_ended && !gunzip.is_waiting() && filled < room.len() {
            if !gunzip.is_whole() {
                return Err(BodyFault::Compression);
            }
            self.ended = true;
        }
        Ok(filled)
    }

    /// Forgets what waits: the body is of no more use.
    pub fn give_up(&mut self) {
        self.gunzip = None;
        self.bytes_max = u64::MAX;
        self.ended = self.framing_ended;
    }
}
