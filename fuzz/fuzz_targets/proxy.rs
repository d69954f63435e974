//! Any first bytes of a connection as a PROXY header: the answer does not depend on how they were
//! cut, a header lies inside of them, and what is not decided is short.
//!
//! The module is compiled by itself: its crate brings TLS, which has no part in this.
#![no_main]

#[allow(
    dead_code,
    unreachable_pub,
    reason = "some of it is for its crate alone"
)]
#[path = "../../crates/transport/src/proxy.rs"]
mod proxy;

use libfuzzer_sys::fuzz_target;
use proxy::{HEADER_BYTES_MAX, ProxyParse, parse};

fuzz_target!(|data: &[u8]| {
    let whole = parse(data);
    match whole {
        ProxyParse::Header { consumed, .. } => {
            assert!(consumed <= data.len() && consumed <= HEADER_BYTES_MAX);
            assert_eq!(parse(&data[..consumed]), whole);
        }
        ProxyParse::NeedMore => assert!(data.len() < HEADER_BYTES_MAX),
        ProxyParse::NotProxy | ProxyParse::Bad => {}
    }
    for cut in 0..data.len().min(256) {
        let begun = parse(&data[..cut]);
        assert!(
            begun == ProxyParse::NeedMore || begun == whole,
            "{cut}: {begun:?}, {whole:?}"
        );
    }
});
