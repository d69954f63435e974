//! Any text as a search query: an error that points into it, or a query that prints as itself and
//! whose SQL holds nothing of it outside of quotes.
//!
#![no_main]

#[path = "../../crates/query/tests/support/query.rs"]
mod sound;

use inrush_query as query;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    sound::check(&String::from_utf8_lossy(input));
});
