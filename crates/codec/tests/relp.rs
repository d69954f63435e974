//! RELP sessions do not depend on how the stream was cut, and every message that was framed comes
//! out as it went in.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "support/relp.rs"]
mod relp;

use inrush_codec::relp::{SessionEnd, TXNR_MAX};
use proptest::prelude::*;
use relp::Seen;

const OPEN: &[u8] = b"1 open 14 relp_version=0\n";

/// Pieces of which streams that try all paths are made.
fn token() -> impl Strategy<Value = Vec<u8>> {
    let txnr = prop_oneof![4 => 1u32..99, 1 => 0..=TXNR_MAX, 1 => Just(TXNR_MAX)];
    let data = prop::collection::vec(any::<u8>(), 0..60);
    let command = prop_oneof![
        20 => Just("syslog"), 2 => Just("dance"), 1 => Just("close"), 1 => Just("open"),
    ];
    prop_oneof![
        20 => (txnr, command, data).prop_map(|(txnr, command, data)| frame(txnr, command, &data)),
        1 => prop::collection::vec(any::<u8>(), 0..8),
        1 => "[0-9a-z \n]{0,12}".prop_map(String::into_bytes),
        1 => (0u64..1 << 40).prop_map(|n| format!("1 syslog {n} ").into_bytes()),
        1 => Just(OPEN.to_vec()),
    ]
}

fn frame(txnr: u32, command: &str, data: &[u8]) -> Vec<u8> {
    let head = match data.len() {
        0 => format!("{txnr} {command} 0"),
        n => format!("{txnr} {command} {n} "),
    };
    [head.as_bytes(), data, b"\n"].concat()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]
    #[test]
    fn sessions_are_independent_of_the_cuts(
        limit in 1usize..48,
        opened in prop::bool::weighted(0.95),
        tokens in prop::collection::vec(token(), 0..24),
        pieces in prop::collection::vec(1usize..40, 1..12),
    ) {
        let open = if opened { OPEN } else { b"" };
        relp::check(limit, &[open, &tokens.concat()].concat(), &pieces);
    }

    #[test]
    fn messages_come_out_as_they_went_in(
        bodies in prop::collection::vec("(?s).{0,40}[^\n\r\0]", 0..20),
        first in 1u32..=TXNR_MAX - 20,
        pieces in prop::collection::vec(1usize..50, 1..5),
    ) {
        let mut stream = OPEN.to_vec();
        let mut expected = Vec::new();
        for (txnr, body) in (first..).zip(&bodies) {
            stream.extend(frame(txnr, "syslog", body.as_bytes()));
            expected.push(Seen::Message(txnr, body.clone().into_bytes()));
        }
        let outcome = relp::check(1000, &stream, &pieces);
        prop_assert_eq!(outcome.seen, expected);
        prop_assert_eq!((outcome.end, outcome.whole), (None, true));
        stream.extend(b"7 close 0\nand more");
        prop_assert_eq!(relp::check(1000, &stream, &pieces).end, Some(SessionEnd::Closed));
    }

    #[test]
    fn a_stream_that_stops_inside_a_frame_is_not_whole(
        body in "[a-z]{1,40}",
        limit in 10usize..60,
        stop in any::<prop::sample::Index>(),
    ) {
        let last = frame(2, "syslog", body.as_bytes());
        let stop = 1 + stop.index(last.len() - 1);
        let outcome = relp::check(limit, &[OPEN, &last[..stop]].concat(), &[7]);
        prop_assert!(!outcome.whole && outcome.end.is_none());
    }
}
