//! Questions to DNS for the name of an address, and what answers say (RFC 1035, RFC 3596).
//!
//! An answer is hostile: whoever holds the zone of an address writes it. What counts is one name of
//! letters, digits, `-`, `_` and dots, and for how long, within bounds.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};

use super::host::is_name;

/// Records of each kind in an answer that is read: an address has one name, and few have ten.
const RECORDS_MAX: u16 = 64;

/// Bytes of an answer over UDP that are read: what servers send without being asked for more is
/// 512 bytes at most.
pub(super) const ANSWER_BYTES_MAX: usize = 4096;

/// Bytes of the header, the counts of records included.
const HEADER_BYTES: usize = 12;

/// Least and most time that a name counts, whatever its TTL.
pub(super) const FOUND_FOR: (Duration, Duration) =
    (Duration::from_secs(60), Duration::from_secs(24 * 60 * 60));

/// The same of there being none.
pub(super) const NONE_FOR: (Duration, Duration) =
    (Duration::from_secs(30), Duration::from_secs(10 * 60));

/// Result that an answer gives for an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum DnsAnswer {
    /// The address has this name, for that long.
    Name(Box<str>, Duration),
    /// It has none, for that long.
    NoName(Duration),
    /// It has one that is no name for a host, for that long.
    BadName(Duration),
    /// The server does not know, or does not say.
    Failed,
}

/// The name under which DNS has the name of an address.
pub(super) fn reversed(ip: IpAddr) -> String {
    let mut name = String::new();
    // Writing to a text cannot fail.
    match ip {
        IpAddr::V4(ip) => {
            for octet in ip.octets().iter().rev() {
                let _ = write!(name, "{octet}.");
            }
            name.push_str("in-addr.arpa");
        }
        IpAddr::V6(ip) => {
            for octet in ip.octets().iter().rev() {
                let _ = write!(name, "{:x}.{:x}.", octet & 0xf, octet >> 4);
            }
            name.push_str("ip6.arpa");
        }
    }
    name
}

/// Asks for the name of an address. `None`: it cannot be written, which no address brings about.
pub(super) fn question(id: u16, ip: IpAddr) -> Option<Vec<u8>> {
    let name = reversed(ip);
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let (kind, class) = (QTYPE::TYPE(TYPE::PTR), QCLASS::CLASS(CLASS::IN));
    let name = Name::new(&name).ok()?;
    packet
        .questions
        .push(Question::new(name, kind, class, false));
    packet.build_bytes_vec().ok()
}

/// Reads `bytes` if they answer [`question`]; `None` if they do not, and the answer is still to
/// come. With `keep_fqdn` the whole name counts, else what stands before its first dot, if that is
/// a name.
pub(super) fn answer(bytes: &[u8], id: u16, ip: IpAddr, keep_fqdn: bool) -> Option<DnsAnswer> {
    let (head, _) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    // Before anything is set aside for them.
    let counts = head[4..].chunks_exact(2);
    let few = |count: &[u8]| u16::from_be_bytes([count[0], count[1]]) <= RECORDS_MAX;
    if head[..2] != id.to_be_bytes() || !counts.into_iter().all(few) {
        return None;
    }
    let packet = Packet::parse(bytes).ok()?;
    let asked = packet.questions.first()?;
    let about = text(&asked.qname)?;
    let ours = asked.qtype == QTYPE::TYPE(TYPE::PTR) && about.eq_ignore_ascii_case(&reversed(ip));
    if !packet.has_flags(PacketFlag::RESPONSE) || !ours {
        return None;
    }
    Some(said(&packet, keep_fqdn))
}

fn said(packet: &Packet<'_>, keep_fqdn: bool) -> DnsAnswer {
    if !matches!(packet.rcode(), RCODE::NoError | RCODE::NameError) {
        return DnsAnswer::Failed;
    }
    let found = packet
        .answers
        .iter()
        .find_map(|record| match &record.rdata {
            RData::PTR(name) => Some((text(name), record.ttl)),
            _ => None,
        });
    let Some((name, ttl)) = found else {
        // What was cut may have had it.
        return match packet.has_flags(PacketFlag::TRUNCATION) {
            true => DnsAnswer::Failed,
            false => DnsAnswer::NoName(none_for(packet)),
        };
    };
    let ttl = Duration::from_secs(ttl.into());
    match name.as_deref().map(|name| host(name, keep_fqdn)) {
        Some(host) if is_name(host.as_bytes()) => {
            DnsAnswer::Name(host.into(), ttl.clamp(FOUND_FOR.0, FOUND_FOR.1))
        }
        _ => DnsAnswer::BadName(ttl.clamp(NONE_FOR.0, NONE_FOR.1)),
    }
}

/// The first label, if that is a name and wanted; else the whole name.
fn host(name: &str, keep_fqdn: bool) -> &str {
    let short = name.split('.').next().unwrap_or_default();
    match !keep_fqdn && is_name(short.as_bytes()) {
        true => short,
        false => name,
    }
}

/// For how long there is no name (RFC 2308 section 5).
fn none_for(packet: &Packet<'_>) -> Duration {
    let soa = packet
        .name_servers
        .iter()
        .find_map(|record| match &record.rdata {
            RData::SOA(soa) => Some(Duration::from_secs(record.ttl.min(soa.minimum).into())),
            _ => None,
        });
    soa.unwrap_or(NONE_FOR.1).clamp(NONE_FOR.0, NONE_FOR.1)
}

/// A name as text, without the dot of the root; `None` if a label has a dot of its own, or bytes
/// that are no ASCII.
fn text(name: &Name<'_>) -> Option<String> {
    let mut text = String::new();
    for label in name.as_bytes() {
        let label = std::str::from_utf8(label).ok()?;
        if label.contains('.') || !label.is_ascii() {
            return None;
        }
        if !text.is_empty() {
            text.push('.');
        }
        text.push_str(label);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use simple_dns::ResourceRecord;
    use simple_dns::rdata::{PTR, SOA};

    use super::super::answers;
    use super::*;

    const IP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));

    /// An answer of the server with these records.
    fn reply(rcode: RCODE, names: &[(&str, u32)], soa: Option<u32>) -> Vec<u8> {
        let question = question(7, IP).unwrap();
        let mut packet = Packet::parse(&question).unwrap();
        packet.set_flags(PacketFlag::RESPONSE);
        *packet.rcode_mut() = rcode;
        let own = packet.questions[0].qname.clone();
        for (name, ttl) in names {
            let data = RData::PTR(PTR(Name::new_unchecked(name)));
            packet
                .answers
                .push(ResourceRecord::new(own.clone(), CLASS::IN, *ttl, data));
        }
        if let Some(minimum) = soa {
            let (mname, rname) = (own.clone(), own.clone());
            let (serial, refresh, retry, expire) = (1, 1, 1, 1);
            let soa = SOA {
                mname,
                rname,
                serial,
                refresh,
                retry,
                expire,
                minimum,
            };
            let data = RData::SOA(soa);
            packet
                .name_servers
                .push(ResourceRecord::new(own, CLASS::IN, 3600, data));
        }
        packet.build_bytes_vec().unwrap()
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn named(name: &str, keep_fqdn: bool) -> DnsAnswer {
        answer(
            &reply(RCODE::NoError, &[(name, 300)], None),
            7,
            IP,
            keep_fqdn,
        )
        .unwrap()
    }

    #[test]
    fn an_address_is_asked_for_backwards() {
        assert_eq!(reversed(IP), "7.2.0.192.in-addr.arpa");
        let six = reversed("2001:db8::567:89ab".parse().unwrap());
        // RFC 3596 section 2.5 has one like it.
        let start = "b.a.9.8.7.6.5.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.";
        assert_eq!(six, format!("{start}ip6.arpa"));
        let bytes = question(0x1234, IP).unwrap();
        let header = [0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        let name = b"\x017\x012\x010\x03192\x07in-addr\x04arpa\0\0\x0c\0\x01";
        assert_eq!(bytes, [&header[..], name].concat());
    }

    #[test]
    fn a_name_counts_short_or_whole_for_as_long_as_dns_says() {
        let short = DnsAnswer::Name("fw1".into(), seconds(300));
        assert_eq!(named("fw1.example.com", false), short);
        let whole = DnsAnswer::Name("fw1.example.com".into(), seconds(300));
        assert_eq!(named("fw1.example.com", true), whole);
        let digits = DnsAnswer::Name("7.dyn.example.com".into(), seconds(300));
        assert_eq!(named("7.dyn.example.com", false), digits);
        for (ttl, counts) in [(0, 60), (u32::MAX, 86_400)] {
            let bytes = reply(RCODE::NoError, &[("a", ttl), ("b", 300)], None);
            let said = answer(&bytes, 7, IP, false);
            assert_eq!(said, Some(DnsAnswer::Name("a".into(), seconds(counts))));
        }
    }

    #[test]
    fn what_is_no_name_for_a_host_is_not_taken() {
        for odd in ["a b", "a\"b", "a\n", "\u{fc}", "12", "localhost", "a\\.b"] {
            assert!(
                matches!(named(odd, true), DnsAnswer::BadName(_)),
                "{odd:?}: {:?}",
                named(odd, true)
            );
        }
    }

    #[test]
    fn no_name_and_no_answer_are_two_things() {
        let said = |rcode, soa| answer(&reply(rcode, &[], soa), 7, IP, false);
        assert_eq!(
            said(RCODE::NameError, Some(90)),
            Some(DnsAnswer::NoName(seconds(90)))
        );
        assert_eq!(
            said(RCODE::NameError, Some(1)),
            Some(DnsAnswer::NoName(seconds(30)))
        );
        assert_eq!(
            said(RCODE::NoError, None),
            Some(DnsAnswer::NoName(seconds(600)))
        );
        assert_eq!(said(RCODE::ServerFailure, None), Some(DnsAnswer::Failed));
        assert_eq!(said(RCODE::Refused, None), Some(DnsAnswer::Failed));
        let mut cut = reply(RCODE::NoError, &[], None);
        cut[2] |= 0x02;
        assert_eq!(answer(&cut, 7, IP, false), Some(DnsAnswer::Failed));
    }

    #[test]
    fn what_answers_another_question_is_passed_over() {
        let good = reply(RCODE::NoError, &[("a", 300)], None);
        assert!(answer(&good, 7, IP, false).is_some());
        assert_eq!(answer(&good, 8, IP, false), None, "another number");
        assert_eq!(
            answer(&good, 7, "192.0.2.8".parse().unwrap(), false),
            None,
            "another address"
        );
        assert_eq!(
            answer(&question(7, IP).unwrap(), 7, IP, false),
            None,
            "no answer"
        );
        let mut many = good.clone();
        many[6..8].copy_from_slice(&u16::MAX.to_be_bytes());
        assert_eq!(
            answer(&many, 7, IP, false),
            None,
            "more records than anyone has"
        );
        assert_eq!(answer(&good[..good.len() - 1], 7, IP, false), None, "cut");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

        #[test]
        fn whatever_comes_what_it_says_is_sound(
            flips in proptest::collection::vec((0..120_usize, any::<u8>()), 0..12),
            tail in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let mut bytes = reply(RCODE::NoError, &[("fw1.example.com", 300)], Some(60));
            for (at, byte) in flips {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            bytes.extend(tail);
            bytes[..2].copy_from_slice(&7_u16.to_be_bytes());
            answers::check(&bytes, IP);
        }
    }
}
