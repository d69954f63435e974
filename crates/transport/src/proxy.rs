//! The PROXY protocol, versions 1 and 2, as a function over bytes.
//!
//! # What it guarantees
//! * Nothing is read from anywhere and nothing is kept: the caller hands over what has arrived
//!   since the connection was accepted, from its first byte, again with more until it is enough.
//! * The answer for a cut header is [`ProxyParse::NeedMore`] and never a guess.
//!
//! # Limits
//! A header is at most [`HEADER_BYTES_MAX`]; the one who sends more is answered
//! [`ProxyParse::Bad`].
//!
//! The text this follows is "The PROXY protocol, versions 1 & 2", HAProxy's `proxy-protocol.txt`,
//! sections 2.1 and 2.2.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// Bytes of the longest header that is taken: a caller needs no larger buffer.
pub const HEADER_BYTES_MAX: usize = V2_FIXED_BYTES + V2_REST_BYTES_MAX;

/// Bytes of the longest v1 header, its CRLF included (section 2.1).
const V1_BYTES_MAX: usize = 107;

const V1_START: &[u8] = b"PROXY ";

const V2_SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// Bytes of a v2 header before its addresses: signature, version and command, family, length.
const V2_FIXED_BYTES: usize = 16;

/// Bytes: the longest rest of a v2 header that is taken. The field could say 65535; addresses
/// take 216 and the extensions in use (a certificate's names, checksums, cloud endpoint ids) a
/// few hundred.
const V2_REST_BYTES_MAX: usize = 4096;

/// Result of reading the first bytes of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProxyParse {
    /// So far they could be the beginning of a header.
    NeedMore,
    /// They begin otherwise than any header does.
    NotProxy,
    /// A whole header.
    Header {
        /// Bytes it takes; the sender's own bytes follow.
        consumed: usize,
        /// Sender that the proxy speaks for; IPv4-mapped IPv6 is already unmapped. None where the
        /// proxy speaks for itself (its health checks), does not know, or names a Unix socket.
        source: Option<SocketAddr>,
    },
    /// They begin as a header does, and it is broken; the connection cannot be trusted.
    Bad,
}

/// Reads the header at the start of `bytes`, which are all that has arrived so far.
pub fn parse(bytes: &[u8]) -> ProxyParse {
    if begins(bytes, V1_START) {
        parse_v1(bytes)
    } else if begins(bytes, V2_SIGNATURE) {
        parse_v2(bytes)
    } else {
        ProxyParse::NotProxy
    }
}

/// True if `bytes` begin as a header does: with a signature that no syslog message begins with.
pub(crate) fn is_header(bytes: &[u8]) -> bool {
    bytes.starts_with(V1_START) || bytes.starts_with(V2_SIGNATURE)
}

/// True if `bytes`, as far as they go, are `start`.
fn begins(bytes: &[u8], start: &[u8]) -> bool {
    let n = bytes.len().min(start.len());
    bytes[..n] == start[..n]
}

/// `PROXY TCP4 192.0.2.1 198.51.100.1 56324 514\r\n`
fn parse_v1(bytes: &[u8]) -> ProxyParse {
    let window = &bytes[..bytes.len().min(V1_BYTES_MAX)];
    let Some(end) = window.iter().position(|b| *b == b'\n') else {
        return if window.len() < V1_BYTES_MAX {
            ProxyParse::NeedMore
        } else {
            ProxyParse::Bad
        };
    };
    let line = window[..end]
        .strip_suffix(b"\r")
        .and_then(|l| l.strip_prefix(V1_START));
    match line
        .and_then(|l| std::str::from_utf8(l).ok())
        .and_then(v1_source)
    {
        Some(source) => ProxyParse::Header {
            consumed: end + 1,
            source,
        },
        None => ProxyParse::Bad,
    }
}

/// The outer option is whether the line is right, the inner whether it names a source.
fn v1_source(line: &str) -> Option<Option<SocketAddr>> {
    let mut words = line.split(' ');
    let family = words.next()?;
    if family == "UNKNOWN" {
        return Some(None);
    }
    let mut ip = || match family {
        "TCP4" => words.next()?.parse().ok().map(IpAddr::V4),
        "TCP6" => words.next()?.parse().ok().map(IpAddr::V6),
        _ => None,
    };
    let (source, _destination) = (ip()?, ip()?);
    let (port, _) = (v1_port(words.next()?)?, v1_port(words.next()?)?);
    words
        .next()
        .is_none()
        .then(|| Some(SocketAddr::new(source.to_canonical(), port)))
}

fn v1_port(word: &str) -> Option<u16> {
    let digits = word.bytes().all(|b| b.is_ascii_digit());
    if digits {
        u16::from_str(word).ok()
    } else {
        None
    }
}

/// 12 B signature, 4 bits version, 4 bits command, 4 bits family, 4 bits transport, 16 bits
/// length of the rest; the rest is source and destination address, then their ports, then TLVs.
fn parse_v2(bytes: &[u8]) -> ProxyParse {
    let Some(fixed) = bytes.first_chunk::<V2_FIXED_BYTES>() else {
        return ProxyParse::NeedMore;
    };
    let (version, command) = (fixed[12] >> 4, fixed[12] & 0x0f);
    let (family, transport) = (fixed[13] >> 4, fixed[13] & 0x0f);
    let rest_bytes = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if version != 2 || command > 1 || rest_bytes > V2_REST_BYTES_MAX {
        return ProxyParse::Bad;
    }
    let consumed = V2_FIXED_BYTES + rest_bytes;
    let Some(rest) = bytes.get(V2_FIXED_BYTES..consumed) else {
        return ProxyParse::NeedMore;
    };
    if command == V2_LOCAL {
        return ProxyParse::Header {
            consumed,
            source: None,
        };
    }
    if family > 3 || transport > 2 {
        return ProxyParse::Bad;
    }
    match v2_source(family, rest) {
        Some(source) => ProxyParse::Header { consumed, source },
        None => ProxyParse::Bad,
    }
}

/// The proxy speaks for itself; whatever addresses follow are to be ignored.
const V2_LOCAL: u8 = 0;

/// As [`v1_source`]: the outer option is whether the addresses are all there.
fn v2_source(family: u8, rest: &[u8]) -> Option<Option<SocketAddr>> {
    match family {
        1 => {
            let block = rest.first_chunk::<12>()?;
            let ip = Ipv4Addr::new(block[0], block[1], block[2], block[3]);
            let port = u16::from_be_bytes([block[8], block[9]]);
            Some(Some(SocketAddr::new(ip.into(), port)))
        }
        2 => {
            let block = rest.first_chunk::<36>()?;
            let ip = Ipv6Addr::from(*block.first_chunk::<16>()?);
            let port = u16::from_be_bytes([block[32], block[33]]);
            Some(Some(SocketAddr::new(IpAddr::V6(ip).to_canonical(), port)))
        }
        _ => Some(None),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(text: &str, source: Option<&str>) -> (Vec<u8>, ProxyParse) {
        let source = source.map(|s| s.parse().unwrap());
        (
            text.as_bytes().to_vec(),
            ProxyParse::Header {
                consumed: text.len(),
                source,
            },
        )
    }

    /// A v2 header: version and command, family and transport, then the rest after its length.
    fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let mut bytes = V2_SIGNATURE.to_vec();
        bytes.extend([command, family]);
        bytes.extend(u16::try_from(rest.len()).unwrap().to_be_bytes());
        bytes.extend(rest);
        bytes
    }

    fn v2_header(bytes: Vec<u8>, source: Option<&str>) -> (Vec<u8>, ProxyParse) {
        let consumed = bytes.len();
        (
            bytes,
            ProxyParse::Header {
                consumed,
                source: source.map(|s| s.parse().unwrap()),
            },
        )
    }

    fn inet() -> Vec<u8> {
        vec![192, 0, 2, 1, 198, 51, 100, 1, 0xdc, 0x04, 0x02, 0x02]
    }

    fn inet6(source: Ipv6Addr) -> Vec<u8> {
        let mut rest = source.octets().to_vec();
        rest.extend(Ipv6Addr::LOCALHOST.octets());
        rest.extend([0x30, 0x39, 0x02, 0x02]);
        rest
    }

    fn good() -> Vec<(Vec<u8>, ProxyParse)> {
        let mut with_tlv = inet();
        with_tlv.extend([0x04, 0x00, 0x02, 0xff, 0xff]);
        vec![
            header(
                "PROXY TCP4 192.0.2.1 198.51.100.1 56324 514\r\n",
                Some("192.0.2.1:56324"),
            ),
            header(
                "PROXY TCP6 2001:db8::1 ::1 12345 514\r\n",
                Some("[2001:db8::1]:12345"),
            ),
            header(
                "PROXY TCP6 ::ffff:192.0.2.1 ::1 1 514\r\n",
                Some("192.0.2.1:1"),
            ),
            header("PROXY UNKNOWN\r\n", None),
            header("PROXY UNKNOWN ff::1 ff::2 65535 65535\r\n", None),
            v2_header(v2(0x21, 0x11, &inet()), Some("192.0.2.1:56324")),
            v2_header(v2(0x21, 0x11, &with_tlv), Some("192.0.2.1:56324")),
            v2_header(v2(0x21, 0x12, &inet()), Some("192.0.2.1:56324")),
            v2_header(
                v2(0x21, 0x21, &inet6("2001:db8::1".parse().unwrap())),
                Some("[2001:db8::1]:12345"),
            ),
            v2_header(
                v2(0x21, 0x21, &inet6("::ffff:192.0.2.1".parse().unwrap())),
                Some("192.0.2.1:12345"),
            ),
            v2_header(v2(0x21, 0x31, &[b'/'; 216]), None),
            v2_header(v2(0x21, 0x00, b""), None),
            v2_header(v2(0x20, 0x00, b""), None),
            v2_header(v2(0x20, 0xff, &[0; V2_REST_BYTES_MAX]), None),
        ]
    }

    #[test]
    fn good_headers_give_the_source_and_leave_what_follows() {
        for (mut bytes, parsed) in good() {
            assert_eq!(
                parse(&bytes),
                parsed,
                "{:?}",
                bytes.escape_ascii().to_string()
            );
            bytes.extend(b"<13>hello\n");
            assert_eq!(parse(&bytes), parsed);
        }
    }

    #[test]
    fn a_header_cut_anywhere_needs_more() {
        for (bytes, _) in good() {
            for n in 0..bytes.len() {
                assert_eq!(
                    parse(&bytes[..n]),
                    ProxyParse::NeedMore,
                    "{n} of {}",
                    bytes.len()
                );
            }
        }
    }

    #[test]
    fn broken_headers_are_bad() {
        let long = format!("PROXY UNKNOWN {}", "x".repeat(V1_BYTES_MAX));
        for line in [
            "PROXY TCP4 192.0.2.1 198.51.100.1 56324 514\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 56324\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 56324 514 \r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 65536 514\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 +80 514\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1  514\r\n",
            "PROXY TCP4 ::1 ::1 1 2\r\n",
            "PROXY TCP6 192.0.2.1 198.51.100.1 1 2\r\n",
            "PROXY UDP4 192.0.2.1 198.51.100.1 1 2\r\n",
            "PROXY \r\n",
            "PROXY TCP4 \u{e9} 198.51.100.1 1 2\r\n",
            long.as_str(),
        ] {
            assert_eq!(parse(line.as_bytes()), ProxyParse::Bad, "{line:?}");
        }
        for bytes in [
            v2(0x11, 0x11, &inet()),
            v2(0x22, 0x11, &inet()),
            v2(0x21, 0x41, &inet()),
            v2(0x21, 0x13, &inet()),
            v2(0x21, 0x11, &inet()[..11]),
            v2(0x21, 0x21, &[0; 35]),
            v2(0x21, 0x11, &[0; V2_REST_BYTES_MAX + 1]),
        ] {
            assert_eq!(
                parse(&bytes),
                ProxyParse::Bad,
                "{:?}",
                bytes.escape_ascii().to_string()
            );
        }
        assert_eq!(parse(b"<13>hello"), ProxyParse::NotProxy);
        assert_eq!(parse(b"PROXIMA"), ProxyParse::NotProxy);
        assert_eq!(parse(b"\r\n<13>hello"), ProxyParse::NotProxy);
    }

    #[test]
    fn the_longest_v1_header_is_taken_and_one_byte_more_is_not() {
        let fill = V1_BYTES_MAX - "PROXY UNKNOWN \r\n".len();
        let exact = format!("PROXY UNKNOWN {}\r\n", "x".repeat(fill));
        assert_eq!(
            parse(exact.as_bytes()),
            ProxyParse::Header {
                consumed: V1_BYTES_MAX,
                source: None
            }
        );
        let longer = format!("PROXY UNKNOWN {}\r\n", "x".repeat(fill + 1));
        assert_eq!(parse(longer.as_bytes()), ProxyParse::Bad);
    }

    proptest! {
        /// Whatever is decided about some bytes stays decided when more arrive, and a header
        /// lies within what was given.
        #[test]
        fn more_bytes_never_change_a_verdict(
            start in prop_oneof![Just(&b""[..]), Just(V1_START), Just(&V2_SIGNATURE[..])],
            noise in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..300),
                "(TCP[46]|UNKNOWN)?[ 0-9a-f.:\r\n]{0,120}".prop_map(String::into_bytes),
            ],
        ) {
            let bytes = [start, &noise].concat();
            let mut verdict = ProxyParse::NeedMore;
            for n in 0..=bytes.len() {
                let now = parse(&bytes[..n]);
                if let ProxyParse::Header { consumed, .. } = now {
                    prop_assert!(consumed <= n && consumed <= HEADER_BYTES_MAX);
                }
                prop_assert!(verdict == ProxyParse::NeedMore || verdict == now);
                verdict = now;
            }
        }
    }
}
