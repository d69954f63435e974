//! Body of a request: its bytes, without what frames them (RFC 9112 sections 6 and 7.1).
//!
//! # What it guarantees
//! * The bytes of a body are given as ranges of what the caller shows; nothing is copied but the
//!   line of a chunk's length that is cut between two reads.
//! * Bytes behind the body are left alone: they are the next request's.
//!
//! # Limits
//! A line that frames chunks has at most [`LINE_BYTES_MAX`] bytes, all trailer lines together
//! [`TRAILER_BYTES_MAX`].

use std::ops::Range;

use httparse::Status;

use super::head::BodyLength;

/// Bytes of the line before a chunk, its extensions included.
pub const LINE_BYTES_MAX: usize = 4096;

/// Bytes of all trailer lines together. They are read and forgotten.
pub const TRAILER_BYTES_MAX: usize = 16 * 1024;

/// Next part of a body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BodyPart {
    /// Bytes of the body, as a range of those shown. The next part begins behind it.
    Data(Range<usize>),
    /// All bytes shown are used, and the body goes on.
    NeedMore,
    /// The body has ended; what is behind this offset is not its own.
    End(usize),
    /// Its framing is broken: the connection cannot be read on.
    Bad,
}

/// State of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FramingPlace {
    /// So many bytes are to come, and they are all.
    Counted(u64),
    /// Bytes of a stream, until its end is told.
    Streamed,
    /// The line with a chunk's length.
    Length,
    /// So many bytes of a chunk are to come.
    Chunk(u64),
    /// The line end behind a chunk.
    ChunkEnd,
    /// Lines behind the last chunk.
    Trailer,
    /// Nothing is to come.
    Over,
}

/// Takes the framing off a body.
#[derive(Clone, Debug)]
pub struct BodyDecoder {
    place: FramingPlace,
    /// A line that is not complete.
    line: Vec<u8>,
    trailer_bytes: usize,
}

impl BodyDecoder {
    /// Of a body of that length.
    pub const fn new(length: BodyLength) -> Self {
        Self {
            place: match length {
                BodyLength::Bytes(bytes) => FramingPlace::Counted(bytes),
                BodyLength::Chunked => FramingPlace::Length,
                BodyLength::Streamed(_) => FramingPlace::Streamed,
            },
            line: Vec::new(),
            trailer_bytes: 0,
        }
    }

    /// Bytes that may still come before anything else does: what a read may be as long as. 0 where
    /// only the next bytes will tell.
    pub const fn pending_bytes(&self) -> u64 {
        match self.place {
            FramingPlace::Counted(bytes) | FramingPlace::Chunk(bytes) => bytes,
            FramingPlace::Streamed
            | FramingPlace::Length
            | FramingPlace::ChunkEnd
            | FramingPlace::Trailer
            | FramingPlace::Over => 0,
        }
    }

    /// The body of a stream ends behind so many more bytes.
    pub const fn end_behind(&mut self, bytes: u64) {
        self.place = FramingPlace::Counted(bytes);
    }

    /// The part that begins at `at`. Call it until it needs more, has ended or is bad.
    pub fn next(&mut self, bytes: &[u8], at: usize) -> BodyPart {
        let mut at = at;
        loop {
            match self.place {
                FramingPlace::Over | FramingPlace::Counted(0) => return BodyPart::End(at),
                FramingPlace::Chunk(0) => self.place = FramingPlace::ChunkEnd,
                _ if at == bytes.len() => return BodyPart::NeedMore,
                FramingPlace::Streamed => return BodyPart::Data(at..bytes.len()),
                FramingPlace::Counted(left) | FramingPlace::Chunk(left) => {
                    let there = u64::try_from(bytes.len() - at).unwrap_or(u64::MAX);
                    let used = left.min(there);
                    self.place = match self.place {
                        FramingPlace::Counted(_) => FramingPlace::Counted(left - used),
                        _ => FramingPlace::Chunk(left - used),
                    };
                    // No longer than what is there.
                    return BodyPart::Data(at..at + used as usize);
                }
                FramingPlace::Length | FramingPlace::ChunkEnd | FramingPlace::Trailer => {
                    let Some(used) = self.take_line(&bytes[at..]) else {
                        return match self.line.len() > LINE_BYTES_MAX {
                            true => BodyPart::Bad,
                            false => BodyPart::NeedMore,
                        };
                    };
                    at += used;
                    if !self.end_line() {
                        return BodyPart::Bad;
                    }
                }
            }
        }
    }

    /// Adds to the line what there is of it; the bytes that it took if it is complete.
    fn take_line(&mut self, bytes: &[u8]) -> Option<usize> {
        let shown = &bytes[..bytes.len().min(LINE_BYTES_MAX + 1)];
        let end = shown.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(shown.len(), |end| end + 1);
        self.line.extend_from_slice(&shown[..used]);
        end.map(|_| used)
    }

    /// Reads the line, which is complete, and goes on behind it; false if it is broken.
    fn end_line(&mut self) -> bool {
        let line = std::mem::take(&mut self.line);
        let Some(text) = line.strip_suffix(b"\r\n") else {
            return false;
        };
        self.place = match self.place {
            FramingPlace::Length => match httparse::parse_chunk_size(&line) {
                Ok(Status::Complete((_, 0))) => FramingPlace::Trailer,
                Ok(Status::Complete((_, bytes))) => FramingPlace::Chunk(bytes),
                Ok(Status::Partial) | Err(_) => return false,
            },
            FramingPlace::ChunkEnd if text.is_empty() => FramingPlace::Length,
            FramingPlace::Trailer if text.is_empty() => FramingPlace::Over,
            FramingPlace::Trailer => {
                self.trailer_bytes += line.len();
                if self.trailer_bytes > TRAILER_BYTES_MAX {
                    return false;
                }
                FramingPlace::Trailer
            }
            _ => return false,
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// The body and what is left behind it; `None` if it is bad. The bytes come in `pieces`.
    fn decode(length: BodyLength, bytes: &[u8], pieces: &[usize]) -> Option<(Vec<u8>, Vec<u8>)> {
        let mut decoder = BodyDecoder::new(length);
        let mut body = Vec::new();
        let mut rest = bytes;
        let mut pieces = pieces.iter().cycle();
        loop {
            let piece = pieces
                .next()
                .copied()
                .unwrap_or(1)
                .clamp(1, rest.len().max(1));
            let (shown, later) = rest.split_at(piece.min(rest.len()));
            let mut at = 0;
            loop {
                match decoder.next(shown, at) {
                    BodyPart::Data(range) => {
                        body.extend_from_slice(&shown[range.clone()]);
                        at = range.end;
                    }
                    BodyPart::NeedMore if later.is_empty() => return None,
                    BodyPart::NeedMore => break,
                    BodyPart::End(end) => {
                        return Some((body, [&shown[end..], later].concat()));
                    }
                    BodyPart::Bad => return None,
                }
            }
            rest = later;
        }
    }

    fn chunked(bytes: &str) -> Option<(String, String)> {
        let (body, rest) = decode(BodyLength::Chunked, bytes.as_bytes(), &[usize::MAX])?;
        let text = |bytes| String::from_utf8(bytes).unwrap_or_default();
        Some((text(body), text(rest)))
    }

    #[test]
    fn chunks_are_joined_and_extensions_and_trailers_left_out() {
        let good = "3;a=b\r\nabc\r\n2 \r\nde\r\n0\r\nX: y\r\n\r\nGET";
        assert_eq!(chunked(good), Some(("abcde".to_owned(), "GET".to_owned())));
    }

    #[test]
    fn broken_chunks_are_bad() {
        for bad in [
            "x\r\n",
            "-1\r\n",
            "3\nabc\r\n0\r\n\r\n",
            "3\r\nabcd\r\n0\r\n\r\n",
            "3\r\nabc0\r\n\r\n",
            "ffffffffffffffffff\r\n",
            "\r\n",
            "0\r\n\n",
        ] {
            assert_eq!(chunked(bad), None, "{bad:?}");
        }
        let long = format!("1;{}", "x".repeat(LINE_BYTES_MAX));
        assert_eq!(chunked(&(long + "\r\na\r\n0\r\n\r\n")), None);
        let trailer = "X: y\r\n".repeat(TRAILER_BYTES_MAX / 6 + 1);
        assert_eq!(chunked(&format!("0\r\n{trailer}\r\n")), None);
    }

    proptest! {
        #[test]
        fn cuts_between_reads_change_nothing(chunks in vec(vec(any::<u8>(), 1..40), 0..6),
                                             rest in vec(any::<u8>(), 0..9),
                                             pieces in vec(1_usize..30, 1..4)) {
            let mut bytes = Vec::new();
            for chunk in &chunks {
                bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                bytes.extend_from_slice(chunk);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(b"0\r\n\r\n");
            bytes.extend_from_slice(&rest);
            let wanted = Some((chunks.concat(), rest.clone()));
            prop_assert_eq!(decode(BodyLength::Chunked, &bytes, &pieces), wanted);
            let counted = [chunks.concat(), rest.clone()].concat();
            let length = BodyLength::Bytes(chunks.concat().len() as u64);
            let wanted = Some((chunks.concat(), rest));
            prop_assert_eq!(decode(length, &counted, &pieces), wanted);
        }

        #[test]
        fn anything_is_read_alike_whatever_the_cuts(bytes in vec(any::<u8>(), 0..120),
                                                    pieces in vec(1_usize..30, 1..4)) {
            let whole = decode(BodyLength::Chunked, &bytes, &[usize::MAX]);
            prop_assert_eq!(decode(BodyLength::Chunked, &bytes, &pieces), whole);
        }
    }
}
