//! Frames of a stream do not depend on how it was cut, account for every byte of it, and keep the
//! limits; the first two bytes choose the limit and the pieces.
#![no_main]

#[path = "../../crates/codec/tests/support/frames.rs"]
mod frames;

use inrush_codec::StreamFraming;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [limit, piece, stream @ ..] = input else {
        return;
    };
    let limit = usize::from(*limit) % 96 + 1;
    let piece = usize::from(*piece);
    let pieces = [piece % 7 + 1, piece % 31 + 1, piece + 1];
    frames::check(StreamFraming::Auto, limit, stream, &pieces);
    let line: Vec<u8> = stream
        .iter()
        .copied()
        .filter(|byte| !matches!(byte, b'\n' | b'\r' | 0))
        .collect();
    let before = [b"<13>first\n", &line[..], b"\n"].concat();
    let honest: [&[u8]; 3] = [b"<13>one\n", b"<14>two\n", b"<15>three\n"];
    frames::check_honest(limit + 16, &before, &honest, &pieces);
});
