//! Any datagram as the answer of a DNS server, and any records behind a question that was asked:
//! what it says is a name for a host, for a time within bounds, about the address that was asked
//! for and no other.
//!
//! The first byte chooses the address and whether the question is put in front, which no fuzzer
//! would guess. The modules are compiled by themselves: their crate brings the store, which has no
//! part in this and takes long to build.
#![no_main]

#[allow(dead_code, reason = "most of it is for its crate alone")]
#[path = "../../crates/ingest/src/hostname/host.rs"]
mod host;

#[path = "../../crates/ingest/src/hostname/dns_message.rs"]
mod dns_message;

#[path = "../../crates/ingest/tests/support/answers.rs"]
mod answers;

use std::net::IpAddr;

use libfuzzer_sys::fuzz_target;

/// The addresses that are asked for.
const ADDRESSES: [IpAddr; 2] = [
    IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7)),
    IpAddr::V6(std::net::Ipv6Addr::new(
        0x2001, 0xdb8, 0, 0, 0, 0, 0x567, 0x89ab,
    )),
];

// Of eight bytes before the records the header has two flags and the counts of three kinds; its
// number and the count of questions are those that were asked.
fuzz_target!(|input: &[u8]| {
    let Some((first, data)) = input.split_first() else {
        return;
    };
    let ip = ADDRESSES[usize::from(first & 1)];
    let asked = first & 2 != 0;
    let data = &data[..data.len().min(dns_message::ANSWER_BYTES_MAX)];
    let Some((head, records)) = data.split_first_chunk::<8>().filter(|_| asked) else {
        return answers::check(data, ip);
    };
    let mut bytes = dns_message::question(7, ip).expect("a question");
    bytes[2..4].copy_from_slice(&head[..2]);
    bytes[6..12].copy_from_slice(&head[2..]);
    // What is no answer at all is tried without a question in front.
    bytes[2] |= 0x80;
    bytes.extend_from_slice(records);
    answers::check(&bytes, ip);
});
