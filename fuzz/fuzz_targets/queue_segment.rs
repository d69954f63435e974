//! Bytes from anywhere as a segment of the queue. With an odd first byte the checksums are put
//! right first: no fuzzer guesses them, and the reader must not rely on them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| inrush_queue::fuzz::segment(input));
