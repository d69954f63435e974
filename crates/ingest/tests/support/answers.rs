//! What must hold of every datagram that comes as an answer of DNS. Shared by the property test and
//! the fuzz target, in both of which the modules `host` and `dns_message` are beside this one.

use std::net::IpAddr;
use std::time::Duration;

use super::dns_message::{DnsAnswer, FOUND_FOR, NONE_FOR, answer};
use super::host::is_name;

/// Reads the datagram as an answer to the question that it has the number of.
pub(crate) fn check(bytes: &[u8], ip: IpAddr) {
    let Some((number, _)) = bytes.split_first_chunk() else {
        assert_eq!(answer(bytes, 0, ip, true), None);
        return;
    };
    let id = u16::from_be_bytes(*number);
    let said = |keep_fqdn| answer(bytes, id, ip, keep_fqdn);
    let (short, whole) = (said(false), said(true));
    assert_eq!(answer(bytes, id ^ 1, ip, true), None, "of another number");
    assert_eq!(short.is_some(), whole.is_some());
    let (Some(short), Some(whole)) = (short, whole) else {
        return;
    };
    let other = match ip {
        IpAddr::V4(ip) => IpAddr::from((u32::from(ip) ^ 1).to_be_bytes()),
        IpAddr::V6(ip) => IpAddr::from((u128::from(ip) ^ 1).to_be_bytes()),
    };
    assert_eq!(answer(bytes, id, other, true), None, "of another address");
    assert!(bytes.len() > 12 && bytes[2] & 0x80 != 0, "a question");
    sound(&short);
    sound(&whole);
    match (short, whole) {
        (DnsAnswer::Name(short, one), DnsAnswer::Name(whole, other)) => {
            let rest = whole.strip_prefix(&*short);
            let begins = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
            assert!(begins && one == other, "{short} of {whole}");
        }
        // The first part of what is too long or odd as a whole can be a name.
        (DnsAnswer::Name(..), DnsAnswer::BadName(_)) => {}
        (short, whole) => assert_eq!(short, whole),
    }
}

fn sound(said: &DnsAnswer) {
    let within = |counts: &Duration, (from, to)| (from..=to).contains(counts);
    match said {
        DnsAnswer::Name(name, counts) => {
            assert!(is_name(name.as_bytes()), "{name:?}");
            assert!(within(counts, FOUND_FOR), "{counts:?}");
        }
        DnsAnswer::NoName(counts) | DnsAnswer::BadName(counts) => {
            assert!(within(counts, NONE_FOR), "{counts:?}");
        }
        DnsAnswer::Failed => {}
    }
}
