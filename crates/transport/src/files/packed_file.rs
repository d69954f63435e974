//! Reading a compressed file as the text that is in it: gzip (RFC 1952) and Zstandard (RFC 8878).
//!
//! # What it guarantees
//! * Offsets are those of the text. A reader that begins anew at an offset is shown the text from
//!   there on: all before it is decompressed again, in pieces.
//! * Members and frames that follow each other are one text (RFC 1952 section 2.2).
//! * What is damaged, cut or followed by other bytes has a name; the text before that is given,
//!   whatever the reads are.
//! * A file that is still being written is read on when it has grown.
//!
//! # States
//! Between members → within one → between members. It ends at what is no further member.
//!
//! # Limits
//! Memory: [`PACKED_BYTES`] for a file, whatever it says of itself; a window of Zstandard above
//! 8 MiB, which a decoder need not have (RFC 8878 section 3.1.1.1.2), is damage. A read
//! decompresses [`SKIP_BYTES`] at most that are not wanted.
//!
//! # After a crash
//! The offset in the text is all that a new process needs.

use std::io;

use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Decoder, Operation};
use zstd::zstd_safe;

use super::tail_file::TailFile;

/// Bytes of memory of a reader, at most: its input, and the window of Zstandard with its buffers.
pub const PACKED_BYTES: usize = INPUT_BYTES + (1 << WINDOW_LOG_MAX) + (1 << 20);

/// Bytes of text before the offset that is asked for which one read decompresses, at most.
pub const SKIP_BYTES: usize = 4 << 20;

/// Compressed bytes that are read at once.
const INPUT_BYTES: usize = 64 * 1024;

/// Largest window of Zstandard: 8 MiB.
const WINDOW_LOG_MAX: u32 = 23;

/// Bytes that the text before the wanted one is decompressed into, at once.
const SKIP_STEP_BYTES: usize = 64 * 1024;

/// Longest header of a frame of Zstandard.
const FRAME_HEADER_BYTES: usize = 18;

/// Shortest one, its magic number among it (RFC 8878 section 3.1.1), but for its window.
const FRAME_HEADER_BYTES_MIN: usize = 5;

/// Header of a block of Zstandard (RFC 8878 section 3.1.1.2).
const BLOCK_HEADER_BYTES: usize = 3;

/// Compression of a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FilePacking {
    /// gzip: `.gz`.
    Gzip,
    /// Zstandard: `.zst`.
    Zstandard,
}

impl FilePacking {
    /// The compression of a file by its name, and the name without its ending.
    pub fn of_name(name: &[u8]) -> Option<(Self, &[u8])> {
        let gzip = name.strip_suffix(b".gz").map(|name| (Self::Gzip, name));
        gzip.or_else(|| Some((Self::Zstandard, name.strip_suffix(b".zst")?)))
    }

    fn unpacker(self) -> io::Result<Unpacker> {
        const WINDOW_BITS: u8 = 15;
        Ok(match self {
            Self::Gzip => Unpacker::Gzip(Decompress::new_gzip(WINDOW_BITS)),
            Self::Zstandard => Unpacker::Zstandard(FrameUnpacker::new()?),
        })
    }

    /// Bytes of the text of a file as far as they are written in it: gzip has the lowest 32 bits of
    /// them (`ISIZE`), Zstandard all. They are right if the file was compressed at once.
    ///
    /// # Errors
    /// `fstat(2)`, `pread(2)`.
    pub fn text_bytes(self, file: &TailFile) -> io::Result<Option<u64>> {
        match self {
            Self::Gzip => {
                let mut size = [0; 4];
                let Some(at) = file.len()?.checked_sub(size.len() as u64) else {
                    return Ok(None);
                };
                let read = file.read_at(&mut size, at)?;
                Ok((read == size.len()).then(|| u64::from(u32::from_le_bytes(size))))
            }
            Self::Zstandard => {
                let mut header = [0; FRAME_HEADER_BYTES];
                let read = file.read_at(&mut header, 0)?;
                let header = header.get(..read).unwrap_or_default();
                Ok(zstd_safe::get_frame_content_size(header).unwrap_or_default())
            }
        }
    }

    /// True if a text of that length may have these [`text_bytes`](Self::text_bytes).
    pub const fn fits(self, text_bytes: u64, length: u64) -> bool {
        match self {
            Self::Gzip => text_bytes == length & 0xffff_ffff,
            Self::Zstandard => text_bytes == length,
        }
    }
}

/// The end of a compressed file, as far as it is there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PackedEnd {
    /// All its members are whole.
    Whole,
    /// It ends within a member: it was cut, or is still being written.
    Cut,
    /// Other bytes follow its last member.
    Garbage,
    /// It is not what its name says, or does not fit its checksum.
    Damaged,
}

impl PackedEnd {
    /// A word for counters and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Cut => "cut",
            Self::Garbage => "garbage",
            Self::Damaged => "damaged",
        }
    }
}

/// Result of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PackedRead {
    /// So many bytes of text, at least one.
    Text(usize),
    /// The offset is not reached yet: to be asked again.
    Skipped,
    /// There is no more now.
    End(PackedEnd),
}

enum Unpacker {
    Gzip(Decompress),
    Zstandard(FrameUnpacker),
}

/// Progress of a step of an unpacker.
struct UnpackStep {
    used: usize,
    /// Bytes of text, those before a fault among them.
    made: usize,
    state: MemberState,
}

/// State of a member behind a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum MemberState {
    Within,
    Ended,
    /// It is damaged there: no step may follow.
    Faulty,
}

impl Unpacker {
    fn step(&mut self, input: &[u8], room: &mut [u8]) -> UnpackStep {
        match self {
            Self::Gzip(stream) => {
                let before = (stream.total_in(), stream.total_out());
                let status = stream.decompress(input, room, FlushDecompress::None);
                UnpackStep {
                    used: (stream.total_in() - before.0) as usize,
                    made: (stream.total_out() - before.1) as usize,
                    state: match status {
                        Ok(Status::StreamEnd) => MemberState::Ended,
                        Ok(_) => MemberState::Within,
                        Err(_) => MemberState::Faulty,
                    },
                }
            }
            Self::Zstandard(frame) => frame.step(input, room),
        }
    }
}

/// Decompressor of a frame of Zstandard. The library does not tell of the text that it made before
/// a fault in the same call, so that each call decompresses one block at most, and its text is
/// taken out before the next bytes are shown.
struct FrameUnpacker {
    decoder: Decoder<'static>,
    /// Bytes that the library asks for: those of the present part, and often the header of a block
    /// behind it.
    hint: usize,
    /// True if text may be left in the decoder: the last room was filled.
    is_full: bool,
}

impl FrameUnpacker {
    fn new() -> io::Result<Self> {
        let mut decoder = Decoder::new()?;
        decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX))?;
        Ok(Self {
            decoder,
            hint: FRAME_HEADER_BYTES_MIN,
            is_full: false,
        })
    }

    fn step(&mut self, input: &[u8], room: &mut [u8]) -> UnpackStep {
        if self.is_full {
            let rest = self.call(&[], room);
            if rest.made > 0 || rest.state != MemberState::Within {
                return rest;
            }
        }
        let header = match self.hint > BLOCK_HEADER_BYTES {
            true => BLOCK_HEADER_BYTES,
            false => 0,
        };
        let part = input.get(..self.hint - header).unwrap_or(input);
        if part.is_empty() {
            // The library takes repeated calls without input for a fault.
            return UnpackStep {
                used: 0,
                made: 0,
                state: MemberState::Within,
            };
        }
        self.call(part, room)
    }

    fn call(&mut self, input: &[u8], room: &mut [u8]) -> UnpackStep {
        match self.decoder.run_on_buffers(input, room) {
            Ok(status) => {
                self.hint = status.remaining;
                self.is_full = status.bytes_written == room.len();
                UnpackStep {
                    used: status.bytes_read,
                    made: status.bytes_written,
                    state: match status.remaining {
                        0 => MemberState::Ended,
                        _ => MemberState::Within,
                    },
                }
            }
            Err(_) => UnpackStep {
                used: 0,
                made: 0,
                state: MemberState::Faulty,
            },
        }
    }
}

/// Reader of a compressed file.
pub struct PackedFile {
    packing: FilePacking,
    /// Decompressor of the member that is read.
    within: Option<Unpacker>,
    input: Vec<u8>,
    used: usize,
    /// Bytes of the file that were read.
    read: u64,
    /// Bytes of text that were decompressed.
    offset: u64,
    /// Members that have ended.
    members: u64,
    /// Text of the present member.
    member_bytes: u64,
    /// End that nothing changes any more.
    ended: Option<PackedEnd>,
}

impl PackedFile {
    /// A reader at the beginning of a file.
    pub const fn new(packing: FilePacking) -> Self {
        Self {
            packing,
            within: None,
            input: Vec::new(),
            used: 0,
            read: 0,
            offset: 0,
            members: 0,
            member_bytes: 0,
            ended: None,
        }
    }

    /// Reads text from an offset on. `file` is the same at each call.
    ///
    /// # Errors
    /// `pread(2)`; no memory.
    pub fn read_at(
        &mut self,
        file: &TailFile,
        room: &mut [u8],
        offset: u64,
    ) -> io::Result<PackedRead> {
        if offset < self.offset {
            *self = Self::new(self.packing);
        }
        let (mut budget, mut skipped) = (SKIP_BYTES, Vec::new());
        while self.offset < offset {
            let step = (offset - self.offset).min(SKIP_STEP_BYTES as u64) as usize;
            skipped.resize(step, 0);
            match self.fill(file, &mut skipped)? {
                0 => return Ok(PackedRead::End(self.end())),
                made => budget = budget.saturating_sub(made),
            }
            if budget == 0 {
                return Ok(PackedRead::Skipped);
            }
        }
        Ok(match self.fill(file, room)? {
            0 => PackedRead::End(self.end()),
            made => PackedRead::Text(made),
        })
    }

    /// Compressed bytes that were read.
    pub fn packed_bytes(&self) -> u64 {
        self.read
    }

    fn end(&self) -> PackedEnd {
        self.ended
            .unwrap_or(match self.within.is_none() && self.members > 0 {
                true => PackedEnd::Whole,
                false => PackedEnd::Cut,
            })
    }

    /// Reads more of the file. False if there is none.
    fn refill(&mut self, file: &TailFile) -> io::Result<bool> {
        self.input.resize(INPUT_BYTES, 0);
        self.used = 0;
        let read = file.read_at(&mut self.input, self.read);
        self.input.truncate(*read.as_ref().unwrap_or(&0));
        self.read += self.input.len() as u64;
        Ok(read? > 0)
    }

    /// Decompresses into the room: at least a byte, unless there is no more.
    fn fill(&mut self, file: &TailFile, room: &mut [u8]) -> io::Result<usize> {
        let mut made = 0;
        while made < room.len() && self.ended.is_none() {
            // What an unpacker keeps comes out without input; only then more is read.
            let is_empty = self.used >= self.input.len();
            let wants = is_empty && (self.within.is_none() || made == 0);
            if wants && !self.refill(file)? && self.within.is_none() {
                break;
            }
            let input = self.input.get(self.used..).unwrap_or_default();
            let unpacker = match &mut self.within {
                Some(unpacker) => unpacker,
                empty => empty.insert(self.packing.unpacker()?),
            };
            let space = room.get_mut(made..).unwrap_or_default();
            let step = unpacker.step(input, space);
            (self.used, made) = (self.used + step.used, made + step.made);
            self.offset += step.made as u64;
            self.member_bytes += step.made as u64;
            match step.state {
                MemberState::Ended => {
                    (self.within, self.member_bytes) = (None, 0);
                    self.members += 1;
                }
                MemberState::Faulty => self.fail(),
                MemberState::Within if step.used == 0 && step.made == 0 => break,
                MemberState::Within => {}
            }
        }
        Ok(made)
    }

    /// Something follows that is no member, or is damaged.
    fn fail(&mut self) {
        self.within = None;
        self.ended = Some(match self.members > 0 && self.member_bytes == 0 {
            true => PackedEnd::Garbage,
            false => PackedEnd::Damaged,
        });
    }
}

#[cfg(test)]
mod tests;
