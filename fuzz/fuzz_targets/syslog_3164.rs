//! Lines of any bytes through one parser, so that what it remembers of one line meets the next;
//! every record must be sound and as a fresh parser reads it.
#![no_main]

#[path = "../../crates/codec/tests/support/records.rs"]
mod records;

use inrush_codec::{SyslogParser, Zone};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut parser = SyslogParser::new(Zone::utc());
    for line in input.split(|&byte| byte == b'\n').take(64) {
        records::check(&mut parser, line);
    }
});
