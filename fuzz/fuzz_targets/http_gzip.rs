//! Compressed bodies: they are inflated alike however they come and wherever they go, and as by a
//! reader of whole streams. The first byte chooses the pieces, the second one the room.
//!
//! The module is compiled by itself: its crate brings TLS, which has no part in this.
#![no_main]

#[allow(
    dead_code,
    unreachable_pub,
    reason = "some of it is for its crate alone"
)]
#[path = "../../crates/transport/src/http/mod.rs"]
mod http;

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use http::head::BodyLength;
use http::reader::{BodyFault, BodyReader};
use libfuzzer_sys::fuzz_target;

/// Bytes of a body that a reader accepts here.
const BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Times that a body may grow here.
const RATIO_MAX: u64 = 50;

/// A body that comes in pieces of that length and is inflated into rooms of that length; what is
/// behind it belongs to nobody.
fn inflate(bytes: &[u8], piece: usize, room_bytes: usize) -> Result<Vec<u8>, BodyFault> {
    let length = BodyLength::Bytes(bytes.len() as u64);
    let mut reader = BodyReader::new(length, true, BYTES_MAX, RATIO_MAX);
    let mut room = vec![0; room_bytes.max(piece)];
    let mut body = Vec::new();
    let mut rest = bytes;
    loop {
        let (shown, later) = rest.split_at(piece.min(rest.len()));
        room[..shown.len()].copy_from_slice(shown);
        rest = later;
        let taken = reader.take(&mut room, shown.len())?;
        assert_eq!(taken.filled, 0);
        assert!(taken.behind.is_none_or(|behind| behind == shown.len()));
        loop {
            let filled = reader.inflate(&mut room[..room_bytes])?;
            body.extend_from_slice(&room[..filled]);
            assert!(filled > 0 || !reader.is_waiting());
            if !reader.is_waiting() {
                break;
            }
        }
        if reader.is_ended() {
            return Ok(body);
        }
        assert!(!rest.is_empty(), "it neither ends nor is at fault");
    }
}

fuzz_target!(|input: &[u8]| {
    let [piece, room, bytes @ ..] = input else {
        return;
    };
    let (piece, room) = (usize::from(*piece) + 1, usize::from(*room) + 1);
    let whole = inflate(bytes, bytes.len(), 64 * 1024);
    let cut = inflate(bytes, piece, room);
    match &whole {
        Ok(body) => {
            // In pieces its ratio is looked at earlier, while the end is not known.
            assert!(cut.as_ref().is_ok_and(|cut| cut == body) || body.len() > 1024 * 1024);
            let mut reference = Vec::new();
            let read = MultiGzDecoder::new(bytes).read_to_end(&mut reference);
            assert!(bytes.is_empty() || read.is_ok(), "{read:?}");
            assert_eq!(body, &reference);
        }
        Err(_) => assert!(cut.is_err()),
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    let packed = written.expect("a vector takes it");
    assert_eq!(inflate(&packed, piece, room).as_deref(), Ok(bytes));
    // Cut short it is at fault, wherever the cut is.
    let end = usize::from(input[0]) * packed.len() / 256;
    assert!(end == 0 || inflate(&packed[..end], piece, room).is_err());
});
