//! Decompression of a body (RFC 1952): at once where it is short, else as it comes.
//!
//! A decompressor that may not stop between two bytes takes half of the CPU time. It needs all of
//! its input, so a short body waits until it is whole.

use std::cell::RefCell;
use std::ptr::NonNull;

use flate2::{Decompress, DecompressError, FlushDecompress, Status};
use libdeflate_sys::{
    libdeflate_alloc_decompressor, libdeflate_decompressor, libdeflate_free_decompressor,
    libdeflate_gzip_decompress_ex,
};

/// Compressed bytes of a body that wait to be whole: no more than the memory of a decompressor
/// that takes them as they come.
const WHOLE_BYTES_MAX: usize = 48 * 1024;

/// Bytes of a member's header and trailer.
const MEMBER_BYTES_MIN: usize = 18;

/// A gzip stream, of one member or several.
#[derive(Default)]
pub(super) struct GzipStream {
    /// Decompressor of a body that is taken as it comes.
    stream: Option<Decompress>,
    /// Compressed bytes that are not used yet.
    input: Vec<u8>,
    /// Bytes of it that are used.
    used: usize,
    /// True within a member.
    within: bool,
    /// True once a member has ended.
    complete: bool,
    /// True if the room was used up: the stream may have more without further input.
    full: bool,
    /// True once all compressed bytes have come.
    ended: bool,
    in_bytes: u64,
}

impl GzipStream {
    /// Takes compressed bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.in_bytes += bytes.len() as u64;
        self.input.extend_from_slice(bytes);
    }

    /// No more bytes come.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// Compressed bytes so far.
    pub(super) fn in_bytes(&self) -> u64 {
        self.in_bytes
    }

    /// Bytes of memory that it keeps, without those of the decompressor.
    pub(super) fn memory_bytes(&self) -> usize {
        self.input.capacity()
    }

    /// True if all members that began have ended; an empty body has none.
    pub(super) fn is_whole(&self) -> bool {
        !self.within && (self.complete || self.in_bytes == 0)
    }

    /// True if bytes that came wait for room.
    pub(super) fn is_waiting(&self) -> bool {
        !self.gathers() && (self.used < self.input.len() || self.full)
    }

    /// True if it waits for the rest of a short body.
    fn gathers(&self) -> bool {
        !self.ended && self.stream.is_none() && self.input.len() <= WHOLE_BYTES_MAX
    }

    /// Decompresses into the room; the bytes that it filled. An error is one of the peer's.
    pub(super) fn fill(&mut self, room: &mut [u8]) -> Result<usize, DecompressError> {
        if self.gathers() {
            return Ok(0);
        }
        if self.ended
            && self.stream.is_none()
            && let Some(filled) = whole_member(&self.input, room)
        {
            self.complete = true;
            self.input = Vec::new();
            return Ok(filled);
        }
        let mut filled = 0;
        while self.is_waiting() && filled < room.len() {
            if !self.within && self.used == self.input.len() {
                self.full = false;
                break;
            }
            let stream = match self.within {
                true => self.stream.get_or_insert_with(gzip_stream),
                false => self.stream.insert(gzip_stream()),
            };
            self.within = true;
            let before = (stream.total_in(), stream.total_out());
            let (input, output) = (&self.input[self.used..], &mut room[filled..]);
            let status = stream.decompress(input, output, FlushDecompress::None)?;
            let used = stream.total_in() - before.0;
            self.used += used as usize;
            let new = (stream.total_out() - before.1) as usize;
            filled += new;
            self.full = filled == room.len();
            match status {
                Status::StreamEnd => (self.within, self.complete) = (false, true),
                Status::Ok | Status::BufError if used == 0 && new == 0 => break,
                Status::Ok | Status::BufError => {}
            }
        }
        if self.used == self.input.len() {
            self.input.clear();
            self.used = 0;
        }
        Ok(filled)
    }
}

fn gzip_stream() -> Decompress {
    const WINDOW_BITS: u8 = 15;
    Decompress::new_gzip(WINDOW_BITS)
}

/// Decompresses input that is one whole member into the room; the bytes that it filled. `None` if
/// it is no such member, or has no room.
fn whole_member(input: &[u8], room: &mut [u8]) -> Option<usize> {
    thread_local! {
        static GUNZIP: RefCell<Option<MemberGunzip>> = RefCell::new(MemberGunzip::new());
    }
    let tail = input.last_chunk::<4>()?;
    let says = usize::try_from(u32::from_le_bytes(*tail)).ok()?;
    // What is larger than it says may still fit, but is not decompressed for nothing.
    if input.len() < MEMBER_BYTES_MIN || says >= room.len() {
        return None;
    }
    GUNZIP.with_borrow_mut(|gunzip| gunzip.as_mut()?.member(input, &mut room[..says]))
}

/// Decompressor of whole members.
struct MemberGunzip(NonNull<libdeflate_decompressor>);

impl MemberGunzip {
    /// `None` if there is no memory for it.
    fn new() -> Option<Self> {
        // SAFETY: it takes no argument, and null is what says that there is no memory.
        NonNull::new(unsafe { libdeflate_alloc_decompressor() }).map(Self)
    }

    /// Decompresses input that is one member and nothing else; the bytes of room that it filled.
    fn member(&mut self, input: &[u8], room: &mut [u8]) -> Option<usize> {
        let (mut used, mut filled) = (0, 0);
        // SAFETY: both ranges are whole slices, and the counters live as long as the call. The
        // decompressor is our own, and `&mut self` lets nobody else use it.
        let result = unsafe {
            libdeflate_gzip_decompress_ex(
                self.0.as_ptr(),
                input.as_ptr().cast(),
                input.len(),
                room.as_mut_ptr().cast(),
                room.len(),
                &raw mut used,
                &raw mut filled,
            )
        };
        (result == 0 && used == input.len()).then_some(filled)
    }
}

impl Drop for MemberGunzip {
    fn drop(&mut self) {
        // SAFETY: it was allocated in `new`, and nobody has it but us.
        unsafe { libdeflate_free_decompressor(self.0.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_short_body_waits_to_be_whole_and_a_long_one_does_not() {
        let mut room = vec![0; 1 << 20];
        let short = packed(b"of few words");
        let mut stream = GzipStream::default();
        stream.push(&short[..10]);
        assert_eq!(stream.fill(&mut room).unwrap(), 0);
        assert!(!stream.is_waiting());
        stream.push(&short[10..]);
        stream.end();
        assert!(stream.is_waiting());
        assert_eq!(stream.fill(&mut room).unwrap(), 12);
        assert!(stream.is_whole() && stream.stream.is_none());
        let noise: Vec<u8> = (0..100_000_u32)
            .flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes())
            .collect();
        let long = packed(&noise);
        let mut stream = GzipStream::default();
        stream.push(&long[..WHOLE_BYTES_MAX + 1]);
        assert!(stream.fill(&mut room).unwrap() > 0);
        assert!(stream.stream.is_some());
    }

    #[test]
    fn one_member_that_fits_is_taken_at_once_and_nothing_else_is() {
        let text = b"twice, and twice".as_slice();
        let one = packed(text);
        let whole = |input: &[u8], bytes: usize| whole_member(input, &mut vec![0; bytes]);
        assert_eq!(whole(&one, 64), Some(text.len()));
        // The same member again: its trailer says what the first one's says.
        assert_eq!(whole(&[&one[..], &one].concat(), 64), None);
        assert_eq!(whole(&one[..one.len() - 1], 64), None);
        assert_eq!(whole(&[&one[..], b"\0"].concat(), 64), None);
        assert_eq!(whole(&one, text.len()), None);
        assert_eq!(whole(b"", 64), None);
        assert_eq!(whole(&packed(b""), 64), Some(0));
    }
}
