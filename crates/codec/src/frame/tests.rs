//! Streams with their frames, written out.
#![allow(clippy::unwrap_used)]

use super::*;

const LIMIT: usize = 40;

/// Frames of a stream given at once, as text with the names of their anomalies.
fn frames(framing: StreamFraming, stream: &[u8]) -> Vec<(String, String)> {
    let mut seen = Vec::new();
    let mut note = |frame: Frame| {
        let names = frame.anomalies.names().collect::<Vec<_>>().join(" ");
        seen.push((frame.span.of(stream).escape_ascii().to_string(), names));
    };
    let mut decoder = FrameDecoder::new(framing, LIMIT);
    let kept = decoder.decode(stream, 0, &mut note);
    decoder.finish(stream, kept, &mut note);
    seen
}

#[track_caller]
fn check(framing: StreamFraming, stream: &[u8], expected: &[(&str, &str)]) {
    let seen = frames(framing, stream);
    let seen: Vec<_> = seen
        .iter()
        .map(|(text, names)| (text.as_str(), names.as_str()))
        .collect();
    assert_eq!(seen, expected, "{framing:?}: {}", stream.escape_ascii());
}

#[test]
fn lines_end_with_lf_crlf_or_nul() {
    let newline = StreamFraming::Newline;
    check(
        newline,
        b"one\ntwo\r\nthree\0four\n",
        &[("one", ""), ("two", ""), ("three", ""), ("four", "")],
    );
    check(newline, b"\n\r\n\0\0\r\n", &[]);
    check(newline, b"one\r\r\n", &[("one\\r", "")]);
    check(
        newline,
        b"one\0\r\ntwo",
        &[("one", ""), ("two", "unterminated")],
    );
    check(newline, b"12 <34>x\n", &[("12 <34>x", "")]);
}

#[test]
fn a_nul_is_text_where_lines_end_with_lf() {
    for framing in [StreamFraming::Newline, StreamFraming::Auto] {
        let text = "<13>b\\x00c";
        check(
            framing,
            b"<13>a\n<13>b\0c\n<13>d\n",
            &[("<13>a", ""), (text, ""), ("<13>d", "")],
        );
        check(
            framing,
            b"<13>a\r\n<13>b\0c\r\n",
            &[("<13>a", ""), (text, "")],
        );
        check(
            framing,
            b"<13>a\n<13>b\0c",
            &[("<13>a", ""), (text, "unterminated")],
        );
        let three = [("<13>a", ""), ("<13>b\\x00\\xffc\\x00d", ""), ("<13>e", "")];
        check(framing, b"<13>a\n<13>b\0\xffc\0d\n<13>e\n", &three);
        check(
            framing,
            b"<13>a\n<13>b\x0012\n",
            &[("<13>a", ""), ("<13>b\\x0012", "")],
        );
        // Its end: before a PRI, before other ends, at the end of all, and as it was before.
        let two = [("<13>a", ""), ("<13>b", "")];
        check(framing, b"<13>a\n<13>b\0", &two);
        check(framing, b"<13>a\n<13>b\0\n", &two);
        check(framing, b"<13>a\n<13>b\0\0\r\n", &two);
        let three = [("<13>a", ""), ("<13>b", ""), ("<13>c", "")];
        check(framing, b"<13>a\n<13>b\0<13>c\0", &three);
        let four = [("<13>a", ""), ("<13>b", ""), ("<13>c", ""), ("d", "")];
        check(framing, b"<13>a\n<13>b\0<13>c\0d\n", &four);
        check(framing, b"<13>a\0b\n", &[("<13>a", ""), ("b", "")]);
        check(framing, b"a\nb\0c\n", &[("a", ""), ("b", ""), ("c", "")]);
    }
    let counted = [("<13>a", ""), ("<13>b", ""), ("<13>c", "")];
    check(StreamFraming::Auto, b"<13>a\n<13>b\x005 <13>c", &counted);
    // In what is too long, too.
    let long = [b"<13>a\n<13>", [b'x'; LIMIT].as_slice(), b"\0y\0z\n<13>b\n"].concat();
    let kept = format!("<13>{}", "x".repeat(LIMIT - 4));
    check(
        StreamFraming::Newline,
        &long,
        &[("<13>a", ""), (&kept, "oversize"), ("<13>b", "")],
    );
}

#[test]
fn counted_messages_follow_their_counts() {
    let octets = StreamFraming::OctetCounting;
    check(octets, b"5 hello3 you", &[("hello", ""), ("you", "")]);
    check(
        octets,
        b"6 hello\n3 you\n\r\n2 hi",
        &[("hello", ""), ("you", ""), ("hi", "")],
    );
    check(octets, b"7 a\nb\0c\r\n", &[("a\\nb\\x00c", "")]);
    check(octets, b"2 \r\n2 hi", &[("hi", "")]);
    check(octets, b"9 hello", &[("hello", "unterminated")]);
    check(octets, b"9 ", &[]);
    check(octets, b"9", &[("9", "unterminated bad_frame")]);
}

#[test]
fn a_broken_count_costs_the_bytes_up_to_the_next_frame() {
    let octets = StreamFraming::OctetCounting;
    let bad = "bad_frame";
    check(
        octets,
        b"garbage\n5 hello",
        &[("garbage", bad), ("hello", "")],
    );
    check(
        octets,
        b"-1 <34>x\n5 hello",
        &[("-1 <34>x", bad), ("hello", "")],
    );
    check(
        octets,
        b"0 <34>x\n5 hello",
        &[("0 <34>x", bad), ("hello", "")],
    );
    check(
        octets,
        b"12345678901234567890 <34>x5 <34>y",
        &[("12345678901234567890 <34>x", bad), ("<34>y", "")],
    );
    check(
        octets,
        b"10737418240 <34>x\n5 hello",
        &[("10737418240 <34>x", bad), ("hello", "")],
    );
    check(
        octets,
        b"99999999 x\n5 hello",
        &[("99999999 x", bad), ("hello", "")],
    );
    // A count that is too small, and one that is too large.
    check(
        octets,
        b"4 <34>rest6 <34>hi",
        &[("<34>", ""), ("rest", bad), ("<34>hi", "")],
    );
    check(
        octets,
        b"8 <34>a5 <34>b5 <34>c",
        &[("<34>a5 <", ""), ("34>b", bad), ("<34>c", "")],
    );
    check(
        octets,
        b"junk12 <3",
        &[("junk12 <3", "unterminated bad_frame")],
    );
}

#[test]
fn auto_decides_message_by_message() {
    let auto = StreamFraming::Auto;
    check(
        auto,
        b"<34>a\n5 <34>b<34>c\n",
        &[("<34>a", ""), ("<34>b", ""), ("<34>c", "")],
    );
    check(
        auto,
        b"2026-11-21T19:00:00 x\n12 monkeys\n",
        &[("2026-11-21T19:00:00 x", ""), ("12 monkeys", "")],
    );
    check(
        auto,
        b"5 <34>b2 hi7",
        &[("<34>b", ""), ("hi", ""), ("7", "unterminated")],
    );
    // A connection that sends lines too has no counts without a `<`: `12 monkeys` is a line.
    check(
        auto,
        b"12 monkeys\n5 <34>b\n12 monkeys\n",
        &[("12 monkeys", ""), ("<34>b", ""), ("12 monkeys", "")],
    );
    check(
        auto,
        b"99999999999 <34>x\n0 <34>\n",
        &[("99999999999 <34>x", ""), ("0 <34>", "")],
    );
    check(auto, b"5 <34>b5 <34>c", &[("<34>b", ""), ("<34>c", "")]);
    check(
        auto,
        b"5 <34>b\n\n5 <34>c\n",
        &[("<34>b", ""), ("<34>c", "")],
    );
    check(auto, b"12", &[("12", "unterminated")]);
    check(auto, b"12 ", &[("12 ", "unterminated")]);
}

#[test]
fn auto_recovers_after_a_count_that_lied() {
    let auto = StreamFraming::Auto;
    check(
        auto,
        b"4 <34>rest of it\n5 <34>b",
        &[("<34>", ""), ("rest of it", ""), ("<34>b", "")],
    );
    check(
        auto,
        b"4 <34>rest of it5 <34>b",
        &[("<34>", ""), ("rest of it", "bad_frame"), ("<34>b", "")],
    );
}

#[test]
fn a_count_beyond_the_limit_costs_one_line_unless_the_connection_has_only_counted() {
    let (auto, bad) = (StreamFraming::Auto, "bad_frame");
    check(
        auto,
        b"<13>a\n9000 <13>x\n<13>b\n<13>c\n",
        &[
            ("<13>a", ""),
            ("9000 <13>x", bad),
            ("<13>b", ""),
            ("<13>c", ""),
        ],
    );
    check(
        auto,
        b"9000 <13>x\n<13>b\n",
        &[("9000 <13>x", bad), ("<13>b", "")],
    );
    // One counted message makes no counting connection of one that sends lines.
    check(
        auto,
        b"<13>a\n5 <13>y\n9000 <13>x\n<13>b\n",
        &[
            ("<13>a", ""),
            ("<13>y", ""),
            ("9000 <13>x", bad),
            ("<13>b", ""),
        ],
    );
    check(
        auto,
        b"5 <13>y\n<13>a\n9000 <13>x\n<13>b\n",
        &[
            ("<13>y", ""),
            ("<13>a", ""),
            ("9000 <13>x", bad),
            ("<13>b", ""),
        ],
    );
    // A number before a tag is text.
    check(
        auto,
        b"9000 <b>x\n<13>b\n",
        &[("9000 <b>x", ""), ("<13>b", "")],
    );
    // Where messages are counted, the next one is found.
    let long = "x".repeat(60);
    let first = format!("64 <13>{long}8 <13>next6 <13>hi");
    check(
        auto,
        first.as_bytes(),
        &[
            (&first[..LIMIT], "oversize bad_frame"),
            ("<13>next", ""),
            ("<13>hi", ""),
        ],
    );
    let later = format!("5 <13>a64 <13>{long}8 <13>next");
    check(
        auto,
        later.as_bytes(),
        &[
            ("<13>a", ""),
            (&later[10..10 + LIMIT], "oversize"),
            ("<13>next", ""),
        ],
    );
}

#[test]
fn a_count_within_the_limit_takes_no_lines_of_others() {
    let (auto, bad) = (StreamFraming::Auto, "bad_frame");
    check(
        auto,
        b"<13>a\n30 <13>x\n<13>b\n<13>c\n<13>d\n<13>e\n<13>f\n",
        &[
            ("<13>a", ""),
            ("30 <13>x", bad),
            ("<13>b", ""),
            ("<13>c", ""),
            ("<13>d", ""),
            ("<13>e", ""),
            ("<13>f", ""),
        ],
    );
    // Not one byte of the next line.
    for count in 7..=10 {
        let stream = format!("<13>a\n{count} <13>x\n<13>b\n<13>c\n");
        let forged = format!("{count} <13>x");
        check(
            auto,
            stream.as_bytes(),
            &[("<13>a", ""), (&forged, bad), ("<13>b", ""), ("<13>c", "")],
        );
    }
    // Lines without a PRI, where there were such before, and NUL as their end.
    check(
        auto,
        b"line one\n20 <13>x\nline two\nline three\n",
        &[
            ("line one", ""),
            ("20 <13>x", bad),
            ("line two", ""),
            ("line three", ""),
        ],
    );
    check(
        auto,
        b"<13>a\x0020 <13>x\0<13>b\0<13>c\0",
        &[
            ("<13>a", ""),
            ("20 <13>x", bad),
            ("<13>b", ""),
            ("<13>c", ""),
        ],
    );
    // Forged counts one after the other are seen through one by one.
    check(
        auto,
        b"<13>a\n38 <13>x\n30 <13>y\n20 <13>z\n<13>b\n<13>c\n",
        &[
            ("<13>a", ""),
            ("38 <13>x", bad),
            ("30 <13>y", bad),
            ("20 <13>z", bad),
            ("<13>b", ""),
            ("<13>c", ""),
        ],
    );
}

#[test]
fn what_looks_like_a_line_inside_a_counted_message_is_no_event_where_all_are_counted() {
    check(
        StreamFraming::Auto,
        b"12 <13>a\n<14>bc5 <13>d11 <13>e\n<14>f",
        &[("<13>a\\n<14>bc", ""), ("<13>d", ""), ("<13>e\\n<14>f", "")],
    );
}

#[test]
fn a_counted_message_of_several_lines_is_one_where_lines_have_a_pri() {
    check(
        StreamFraming::Auto,
        b"<13>a\n23 <13>one\n two\nthree\n12 4\n<13>b\n",
        &[
            ("<13>a", ""),
            ("<13>one\\n two\\nthree\\n12 4", ""),
            ("<13>b", ""),
        ],
    );
}

#[test]
fn a_broken_count_does_not_wait_for_the_bytes_that_it_claims() {
    for stream in [
        &b"<13>a\n38 <13>x\n<13>b\n"[..],
        b"<13>a\n9000 <13>x\n<13>b\n",
    ] {
        let mut decoder = FrameDecoder::new(StreamFraming::Auto, LIMIT);
        let mut frames = 0;
        let kept = decoder.decode(stream, 0, |_| frames += 1);
        assert_eq!((frames, kept), (3, stream.len()));
    }
}

#[test]
fn every_framing_path_cuts_at_the_limit() {
    let kept = "x".repeat(LIMIT);
    let long = "x".repeat(LIMIT + 25);
    let whole = format!("{kept}\r\nafter\n");
    check(
        StreamFraming::Newline,
        whole.as_bytes(),
        &[(&kept, ""), ("after", "")],
    );
    let line = format!("{long}\nafter\n");
    check(
        StreamFraming::Newline,
        line.as_bytes(),
        &[(&kept, "oversize"), ("after", "")],
    );
    check(
        StreamFraming::Auto,
        line.as_bytes(),
        &[(&kept, "oversize"), ("after", "")],
    );
    check(
        StreamFraming::Newline,
        long.as_bytes(),
        &[(&kept, "oversize")],
    );
    let counted = format!("{} {long}5 after", long.len());
    check(
        StreamFraming::OctetCounting,
        counted.as_bytes(),
        &[(&kept, "oversize"), ("after", "")],
    );
    let crlf = format!("{} {kept}\r\n5 after", LIMIT + 2);
    check(
        StreamFraming::OctetCounting,
        crlf.as_bytes(),
        &[(&kept, ""), ("after", "")],
    );
    let garbage = format!("{long}5 <34>b");
    check(
        StreamFraming::OctetCounting,
        garbage.as_bytes(),
        &[(&kept, "oversize bad_frame"), ("<34>b", "")],
    );
    let after_count = format!("5 <34>a{long}5 <34>b");
    check(
        StreamFraming::Auto,
        after_count.as_bytes(),
        &[("<34>a", ""), (&kept, "oversize bad_frame"), ("<34>b", "")],
    );
}

#[test]
fn an_oversize_message_comes_out_before_its_end() {
    for (framing, stream) in [
        (StreamFraming::Newline, "x".repeat(LIMIT + 2)),
        (
            StreamFraming::OctetCounting,
            format!("1000000 {}", "x".repeat(LIMIT)),
        ),
        (
            StreamFraming::OctetCounting,
            "x".repeat(LIMIT + GARBAGE_SLACK + 1),
        ),
    ] {
        let mut decoder = FrameDecoder::new(framing, LIMIT);
        let mut lengths = Vec::new();
        decoder.decode(stream.as_bytes(), 0, |frame| lengths.push(frame.span.len()));
        assert_eq!(lengths, [LIMIT], "{framing:?}");
    }
}

#[test]
fn bytes_cut_are_counted() {
    for (framing, stream, cut) in [
        (
            StreamFraming::Newline,
            format!("{}\nnext\n", "x".repeat(LIMIT + 25)),
            25,
        ),
        (
            StreamFraming::OctetCounting,
            format!("{} {}", LIMIT + 25, "x".repeat(LIMIT + 25)),
            25,
        ),
        (
            StreamFraming::OctetCounting,
            format!("{}\n4 next", "x".repeat(LIMIT + 25)),
            25,
        ),
        (StreamFraming::Newline, "x".repeat(LIMIT), 0),
    ] {
        let mut decoder = FrameDecoder::new(framing, LIMIT);
        let kept = decoder.decode(stream.as_bytes(), 0, |_| {});
        decoder.finish(stream.as_bytes(), kept, |_| {});
        assert_eq!(decoder.cut_bytes(), cut, "{framing:?} {stream}");
    }
}

#[test]
fn a_datagram_is_one_message() {
    for (bytes, expected) in [
        (&b"hello"[..], Some(&b"hello"[..])),
        (b"hello\r\n\0", Some(b"hello")),
        (b"a\nb\n", Some(b"a\nb")),
        (b"\n\0\r", None),
        (b"", None),
    ] {
        let span = datagram(bytes, Span::new(0, bytes.len()));
        assert_eq!(
            span.map(|span| span.of(bytes)),
            expected,
            "{}",
            bytes.escape_ascii()
        );
    }
}
