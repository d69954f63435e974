//! Any text as a search query: an error that points into it, or a query that prints as itself and
//! whose SQL holds nothing of it outside of quotes.
//!
//! The module is compiled by itself, not as a part of its crate: that one brings DataFusion, which
//! has no part in this and takes long to build.
#![no_main]

#[allow(dead_code, unused_imports, reason = "parts of it are for its crate alone")]
#[path = "../../crates/store/src/query/mod.rs"]
mod query;

#[path = "../../crates/store/tests/support/query.rs"]
mod sound;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    sound::check(&String::from_utf8_lossy(input));
});
