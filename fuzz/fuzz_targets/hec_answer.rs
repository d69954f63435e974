//! Any bytes as the answer of a collector: what is taken, refused and confirmed by it, and the
//! cookies that come with it.
//!
//! The modules are compiled by themselves: their crate brings the store, which has no part in this
//! and takes long to build.
#![no_main]

#[allow(dead_code, reason = "most of it is for its crate alone")]
#[path = "../../crates/sink/src/reason.rs"]
mod reason;

#[allow(dead_code, reason = "some of it is for its crate alone")]
#[path = "../../crates/sink/src/splunk_hec/answer.rs"]
mod answer;

#[path = "../../crates/sink/src/http/cookie.rs"]
mod cookie;

#[path = "../../crates/sink/tests/support/hec_answer.rs"]
mod laws;

use libfuzzer_sys::fuzz_target;
use reason::ErrorReason;

fuzz_target!(|input: &[u8]| laws::check(input));
