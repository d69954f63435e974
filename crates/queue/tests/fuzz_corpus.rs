//! Every seed of the fuzzer, and what it found, through the reader.
#![cfg(feature = "simulation")]
#![allow(clippy::unwrap_used)]

#[test]
fn the_corpus_is_read_without_a_fault() {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fuzz/corpus/queue_segment"
    );
    let mut seeds = 0;
    for seed in std::fs::read_dir(folder).unwrap() {
        inrush_queue::fuzz::segment(&std::fs::read(seed.unwrap().path()).unwrap());
        seeds += 1;
    }
    assert!(seeds >= 7);
}
