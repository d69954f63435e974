//! Lines against a plain split of the whole file, whatever the cuts between reads.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// The unit that ends a line.
fn line_feed(encoding: LineEncoding) -> &'static [u8] {
    match encoding {
        LineEncoding::Bytes => b"\n",
        LineEncoding::Utf16Le => b"\n\0",
        LineEncoding::Utf16Be => b"\0\n",
    }
}

/// Bytes of a line, whether it was cut, and whether its LF is there.
type FileLine = (Vec<u8>, bool, bool);

/// Lines of a file that comes in pieces of these lengths, and the bytes that were cut. With
/// `restart` each piece meets a new splitter at the place where the last line ended.
fn split(
    encoding: LineEncoding,
    max: usize,
    file: &[u8],
    pieces: &[usize],
    restart: bool,
) -> (Vec<FileLine>, u64) {
    let mut splitter = LineSplitter::new(encoding, max);
    let (mut arena, mut found) = (vec![b'\n'; 3], Vec::new());
    let (mut start, mut cut, mut rest) = (3, 0, file);
    let mut pieces = pieces.iter().cycle();
    while !rest.is_empty() {
        let piece = pieces.next().copied().unwrap_or(1).clamp(1, rest.len());
        arena.extend_from_slice(&rest[..piece]);
        rest = &rest[piece..];
        let mut end = start;
        let keep = splitter.decode(&arena, start, |line| {
            assert!(line.end >= line.span.end() && line.span.start() >= end);
            end = line.end;
            assert_eq!(line.open, !arena[..end].ends_with(line_feed(encoding)));
            found.push((line.span.of(&arena).to_vec(), line.cut, !line.open));
        });
        assert!(keep >= end && arena.len() - keep <= max.max(2) + 1);
        assert!(!splitter.is_skipping() || arena.len() - keep <= 1);
        // The place of the last line and that flag are all that a position needs.
        if restart {
            cut += splitter.cut_bytes();
            splitter = LineSplitter::resume(encoding, max, splitter.is_skipping());
        }
        arena.drain(..keep - keep % 2);
        start = keep % 2;
    }
    splitter.finish(&arena, start, |line| {
        assert!(line.open);
        found.push((line.span.of(&arena).to_vec(), line.cut, false));
    });
    assert!(!splitter.is_skipping());
    (found, cut + splitter.cut_bytes())
}

fn bytes(max: usize, file: &[u8]) -> Vec<FileLine> {
    split(LineEncoding::Bytes, max, file, &[usize::MAX], false).0
}

#[test]
fn lines_end_with_lf_and_nothing_else() {
    let line = |text: &[u8]| (text.to_vec(), false, true);
    let file = b"a\r\n\n\0b\0\r\xff\nrest";
    let rest = (b"rest".to_vec(), false, false);
    let wanted = [line(b"a\r"), line(b""), line(b"\0b\0\r\xff"), rest];
    assert_eq!(bytes(100, file), wanted);
    assert_eq!(without_carriage_return(b"a\r"), b"a");
    assert_eq!(without_carriage_return(b"a"), b"a");
    assert_eq!(bytes(100, b""), []);
}

#[test]
fn a_line_that_is_too_long_keeps_its_start() {
    let file = b"12345\n123456\n\nab";
    let found = bytes(5, file);
    assert_eq!(found[1], (b"12345".to_vec(), true, true));
    assert_eq!(found.len(), 4);
    let euro = "1234€\n".as_bytes();
    assert_eq!(bytes(5, euro), [(b"1234".to_vec(), true, true)]);
    // Its LF has not come when it is cut.
    let (found, cut) = split(LineEncoding::Bytes, 2, b"abcdefg\nh\n", &[3], false);
    let wanted = [(b"ab".to_vec(), true, false), (b"h".to_vec(), false, true)];
    assert_eq!((&found[..], cut), (&wanted[..], 5));
}

#[test]
fn utf_16_is_split_between_units() {
    // U+0A0A and U+0A00 have the byte of LF in them, U+000A alone is one.
    let text = "a\u{a0a}\n\u{a00}\u{100}\n🙂\r\nend";
    for (encoding, mark) in [
        (LineEncoding::Utf16Le, [0xff, 0xfe]),
        (LineEncoding::Utf16Be, [0xfe, 0xff]),
    ] {
        let unit = |unit: u16| match encoding {
            LineEncoding::Utf16Le => unit.to_le_bytes(),
            _ => unit.to_be_bytes(),
        };
        let file: Vec<u8> = text.encode_utf16().flat_map(unit).collect();
        let head = [&mark[..], &file].concat();
        assert_eq!(LineEncoding::of_head(&head), Some((encoding, 2)));
        assert_eq!(LineEncoding::of_head(&head[..1]), None);
        for piece in 1..file.len() {
            let (found, _) = split(encoding, 100, &file, &[piece], false);
            let texts = found.iter().map(|line| encoding.text(&line.0));
            let texts: Vec<_> = texts
                .map(|text| String::from_utf8(text.into()).unwrap())
                .collect();
            assert_eq!(texts, ["a\u{a0a}", "\u{a00}\u{100}", "🙂\r", "end"]);
        }
        let high: Vec<u8> = "a🙂b\n".encode_utf16().flat_map(unit).collect();
        let (found, cut) = split(encoding, 2, &high, &[99], false);
        assert_eq!((encoding.text(&found[0].0).as_ref(), cut), (&b"a"[..], 6));
        // A pair is not cut, a half at the end of the file is shown.
        let pair: Vec<u8> = "a🙂b\n".encode_utf16().flat_map(unit).collect();
        let (found, cut) = split(encoding, 5, &pair, &[99], false);
        assert_eq!((encoding.text(&found[0].0).as_ref(), cut), (&b"a"[..], 6));
        let mut out = Vec::new();
        assert!(!encoding.push_text(&pair[..4], &mut out));
        assert!(!encoding.push_text(&pair[..1], &mut out));
        assert!(encoding.push_text(&pair[..6], &mut out));
        assert_eq!(out, "a\u{fffd}\u{fffd}a🙂".as_bytes());
    }
    assert_eq!(
        LineEncoding::of_head(b"\xef\xbb\xbfa"),
        Some((LineEncoding::Bytes, 3))
    );
    assert_eq!(LineEncoding::of_head(b"\xef\xbb"), None);
    assert_eq!(
        LineEncoding::of_head(b"\xffa"),
        Some((LineEncoding::Bytes, 0))
    );
}

/// Lines of a file as a plain split finds them: texts are cut where they must be.
fn model(encoding: LineEncoding, max: usize, file: &[u8]) -> (Vec<(Vec<u8>, bool)>, u64) {
    let unit = encoding.unit_bytes();
    let max = (max / unit * unit).max(unit);
    let mut cut = 0;
    let units: Vec<_> = file.chunks(unit).collect();
    let mut lines: Vec<_> = units
        .split(|unit| *unit == line_feed(encoding))
        .map(<[&[u8]]>::concat)
        .collect();
    if lines.last().is_some_and(Vec::is_empty) {
        lines.pop();
    }
    let lines = lines.into_iter().map(|mut line| {
        let whole = line.len();
        if whole > max {
            line.truncate(encoding.border(&line, max));
        }
        cut += (whole - line.len()) as u64;
        let is_cut = line.len() < whole;
        (line, is_cut)
    });
    (lines.collect(), cut)
}

proptest! {
    #[test]
    fn lines_do_not_depend_on_reads_and_restarts(
        encoding in prop::sample::select(&[
            LineEncoding::Bytes,
            LineEncoding::Utf16Le,
            LineEncoding::Utf16Be,
        ][..]),
        file in vec(prop::sample::select(&b"\n\n\0\0aa\r\x0a\xe2\x82\xac\xd8\xdc"[..]), 0..200),
        pieces in vec(1..40_usize, 1..8),
        max in 0..30_usize,
        restart in any::<bool>(),
    ) {
        let (found, cut) = split(encoding, max, &file, &pieces, restart);
        let (lines, model_cut) = model(encoding, max, &file);
        let plain: Vec<_> = found.iter().map(|line| (line.0.clone(), line.1)).collect();
        prop_assert_eq!(plain, lines);
        prop_assert_eq!(cut, model_cut);
    }
}
