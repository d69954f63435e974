//! Any bytes as a log file, up to its events: they do not depend on how it is read, no character is
//! lost, and what is kept is bounded; the first two bytes choose the form and the pieces.
#![no_main]

#[path = "../../crates/codec/tests/support/joins.rs"]
mod laws;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [options, piece, file @ ..] = input else {
        return;
    };
    let piece = usize::from(*piece);
    laws::check(*options, file, &[piece % 7 + 1, piece % 31 + 1, piece + 1]);
});
