//! Frames do not depend on how the stream was cut, and account for every byte of it.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "support/frames.rs"]
mod frames;

use inrush_codec::StreamFraming;
use proptest::prelude::*;

/// Pieces of which streams that try all paths are made.
fn token() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => prop::collection::vec(any::<u8>(), 0..8),
        3 => "[a-c<>0-9 .-]{0,12}".prop_map(String::into_bytes),
        3 => (1usize..60).prop_flat_map(|n| {
            prop::collection::vec(prop_oneof![Just(b'x'), Just(b'<'), Just(b'\n')], n)
                .prop_map(|body| [format!("{} ", body.len()).as_bytes(), &body].concat())
        }),
        4 => (1usize..40).prop_map(|n| {
            format!("{} <34>{}", n + 4, "y".repeat(n)).into_bytes()
        }),
        2 => (0usize..300, 1usize..60).prop_map(|(count, n)| {
            format!("{count} <13>{}", "z".repeat(n)).into_bytes()
        }),
        3 => Just(b"\n".to_vec()),
        1 => Just(b"\r\n".to_vec()),
        1 => Just(b"\0".to_vec()),
        1 => Just(b"-1 <34>x".to_vec()),
        1 => Just(b"12345678901234567890 <34>x".to_vec()),
        1 => Just(b"10737418240 ".to_vec()),
        1 => (20usize..80).prop_map(|n| vec![b'w'; n]),
    ]
}

fn framing() -> impl Strategy<Value = StreamFraming> {
    prop_oneof![
        Just(StreamFraming::Auto),
        Just(StreamFraming::Newline),
        Just(StreamFraming::OctetCounting)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]
    #[test]
    fn frames_are_independent_of_the_cuts_and_nothing_is_lost(
        framing in framing(),
        limit in 1usize..48,
        tokens in prop::collection::vec(token(), 0..24),
        pieces in prop::collection::vec(1usize..20, 1..12),
    ) {
        frames::check(framing, limit, &tokens.concat(), &pieces);
    }

    #[test]
    fn what_is_written_at_the_start_of_a_line_takes_no_other_line(
        forged in prop::collection::vec(token(), 0..6),
        count in 1usize..2000,
        honest in 2usize..20,
        pieces in prop::collection::vec(1usize..200, 1..5),
    ) {
        let forged = forged.concat().into_iter().filter(|b| !matches!(b, b'\n' | b'\r' | 0));
        let forged: Vec<u8> = forged.collect();
        let lines: Vec<String> = (0..honest).map(|n| format!("<13>line number {n}\n")).collect();
        let lines: Vec<&[u8]> = lines.iter().map(String::as_bytes).collect();
        for start in [format!("{count} <13>"), format!("{count} "), String::new()] {
            let before = [b"<13>first\n", start.as_bytes(), &forged, b"\n"].concat();
            frames::check_honest(600, &before, &lines, &pieces);
        }
    }

    #[test]
    fn lines_come_out_as_they_went_in(
        lines in prop::collection::vec("[^\n\r\0]{1,40}", 0..20),
        pieces in prop::collection::vec(1usize..50, 1..5),
    ) {
        let stream = lines.iter().flat_map(|line| [line.as_bytes(), b"\r\n"].concat());
        let outcome =
            frames::decode(StreamFraming::Newline, 1000, &stream.collect::<Vec<_>>(), &pieces);
        let seen = outcome.frames.iter().map(|frame| frame.bytes.clone());
        let sent = lines.iter().map(|l| l.clone().into_bytes());
        prop_assert_eq!(seen.collect::<Vec<_>>(), sent.collect::<Vec<_>>());
        prop_assert!(outcome.frames.iter().all(|frame| frame.anomalies.is_empty()));
    }

    /// A NUL is text in lines that end with LF, wherever the reads are cut.
    #[test]
    fn lines_with_nul_come_out_as_they_went_in(
        lines in prop::collection::vec("<13>[^\n\r\0]{0,20}(\0[a-z ][^\n\r\0]{0,9}){0,3}", 0..20),
        pieces in prop::collection::vec(1usize..50, 1..5),
        auto in any::<bool>(),
    ) {
        let framing = if auto { StreamFraming::Auto } else { StreamFraming::Newline };
        let lines = [vec!["<13>first".to_owned()], lines].concat();
        let stream = lines.iter().flat_map(|line| [line.as_bytes(), b"\n"].concat());
        let outcome = frames::decode(framing, 1000, &stream.collect::<Vec<_>>(), &pieces);
        let seen = outcome.frames.iter().map(|frame| frame.bytes.clone());
        let sent = lines.iter().map(|line| line.clone().into_bytes());
        prop_assert_eq!(seen.collect::<Vec<_>>(), sent.collect::<Vec<_>>());
        prop_assert!(outcome.frames.iter().all(|frame| frame.anomalies.is_empty()));
    }

    #[test]
    fn counted_messages_come_out_as_they_went_in(
        auto in any::<bool>(),
        bodies in prop::collection::vec("(?s)<[0-9]{1,3}>.{0,40}[^\n\r\0]", 0..20),
        pieces in prop::collection::vec(1usize..50, 1..5),
    ) {
        let stream = bodies.iter().map(|body| format!("{} {body}", body.len()));
        let framing = if auto { StreamFraming::Auto } else { StreamFraming::OctetCounting };
        let outcome =
            frames::decode(framing, 1000, stream.collect::<String>().as_bytes(), &pieces);
        let seen = outcome.frames.iter().map(|frame| frame.bytes.clone());
        let sent = bodies.iter().map(|b| b.clone().into_bytes());
        prop_assert_eq!(seen.collect::<Vec<_>>(), sent.collect::<Vec<_>>());
        prop_assert!(outcome.frames.iter().all(|frame| frame.anomalies.is_empty()));
    }
}
