//! Any bytes as a line of Docker's json-file driver, beside `serde_json`.
#![no_main]

#[allow(dead_code, reason = "the rest is for the other format")]
#[path = "../../crates/codec/tests/support/container.rs"]
mod laws;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &[u8]| laws::check_docker(line));
