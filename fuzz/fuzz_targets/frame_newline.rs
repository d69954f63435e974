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
    frames::check(
        StreamFraming::Newline,
        limit,
        stream,
        &[piece % 7 + 1, piece % 31 + 1, piece + 1],
    );
});
