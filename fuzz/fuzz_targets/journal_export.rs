//! Any bytes as journal export: what is read does not depend on the cuts, a length that lies is
//! never waited for, and every byte is accounted for. The first two bytes choose the limit of a
//! value and the pieces.
#![no_main]

#[path = "../../crates/codec/tests/support/journal.rs"]
mod journal;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [limit, piece, bytes @ ..] = input else {
        return;
    };
    let limit = usize::from(*limit) % 96 + 1;
    let piece = usize::from(*piece);
    journal::check(limit, bytes, &[piece % 7 + 1, piece % 31 + 1, piece + 1]);
});
