//! Joins by example, and against a model that keeps everything.

use std::time::{Duration, Instant};

use inrush_event::Timestamp;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Content of a line, its text owned.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Said {
    text: Vec<u8>,
    time: i64,
    origin: u64,
    pieces: u32,
    cut_bytes: u64,
    end: JoinEnd,
}

fn said(line: JoinedLine<'_>) -> Said {
    let mut text = Vec::new();
    line.text.push(&mut text);
    Said {
        text,
        time: line.time.0,
        origin: line.origin,
        pieces: line.pieces,
        cut_bytes: line.cut_bytes,
        end: line.end,
    }
}

fn bounds(bytes_max: usize) -> JoinBounds {
    JoinBounds {
        bytes_max,
        age_max: Duration::from_secs(5),
    }
}

/// The piece of that number.
fn piece(text: PieceText<'_>, partial: bool, number: u64) -> LinePiece<'_> {
    LinePiece {
        text,
        partial,
        time: Timestamp(number as i64 * 10),
        origin: number,
    }
}

fn raw(text: &[u8], partial: bool, number: u64) -> LinePiece<'_> {
    piece(PieceText::Raw(text), partial, number)
}

#[test]
fn a_single_piece_is_handed_on_as_it_stands() {
    let mut joiner = PieceJoiner::new(bounds(10));
    let text = b"0123456789";
    joiner.push(raw(text, false, 3), Instant::now(), |line| {
        assert!(std::ptr::eq(line.text.written(), text));
        assert_eq!((line.pieces, line.end), (1, JoinEnd::Complete));
        assert_eq!((line.time, line.origin), (Timestamp(30), 3));
    });
    assert_eq!((joiner.open(), joiner.memory_bytes()), (None, 0));
}

#[test]
fn pieces_make_one_line_with_the_first_ones_time() {
    let mut joiner = PieceJoiner::new(bounds(100));
    let (now, mut lines) = (Instant::now(), Vec::new());
    let pieces = [
        raw(b"a ", true, 1),
        piece(PieceText::Escaped(br"\u003cb\"), true, 2),
        raw(b"", true, 3),
        raw(b"\xffc", false, 4),
        raw(b"next", false, 5),
    ];
    for one in pieces {
        joiner.push(one, now, |line| lines.push(said(line)));
        if one.origin < 4 {
            let open = joiner.open().unwrap();
            assert_eq!((open.origin, open.pieces), (1, one.origin as u32));
            assert!(joiner.memory_bytes() > 0);
        }
    }
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0].text, b"a <b\\\xffc");
    assert_eq!(
        (lines[0].time, lines[0].origin, lines[0].pieces),
        (10, 1, 4)
    );
    assert_eq!(lines[1].text, b"next");
    assert_eq!(joiner.memory_bytes(), 0);
}

#[test]
fn an_open_line_ends_by_age_end_or_want_of_memory() {
    let begin = Instant::now();
    let mut lines = Vec::new();
    let mut joiner = PieceJoiner::new(bounds(100));
    joiner.push(raw(b"a", true, 1), begin, |_| panic!("not yet"));
    let late = begin + Duration::from_secs(4);
    joiner.push(raw(b"b", true, 2), late, |_| panic!("not yet"));
    joiner.expire(late, |_| panic!("not yet"));
    assert_eq!(joiner.due(), Some(begin + Duration::from_secs(5)));
    joiner.expire(begin + Duration::from_secs(5), |line| {
        lines.push(said(line))
    });
    assert_eq!((joiner.open(), joiner.due()), (None, None));
    joiner.finish(|_| panic!("nothing is open"));
    joiner.push(raw(b"c", true, 3), late, |_| panic!("not yet"));
    joiner.finish(|line| lines.push(said(line)));
    joiner.push(raw(b"d", true, 4), late, |_| panic!("not yet"));
    joiner.give_up(|line| lines.push(said(line)));
    let ends: Vec<_> = lines
        .iter()
        .map(|line| (&line.text[..], line.end))
        .collect();
    assert_eq!(
        ends,
        [
            (&b"ab"[..], JoinEnd::Age),
            (b"c", JoinEnd::Ended),
            (b"d", JoinEnd::Memory)
        ]
    );
}

#[test]
fn what_is_too_long_is_cut_between_characters_and_counted() {
    let now = Instant::now();
    let cut = |pieces: &[LinePiece<'_>]| {
        let mut joiner = PieceJoiner::new(bounds(4));
        let mut lines = Vec::new();
        for one in pieces {
            joiner.push(*one, now, |line| lines.push(said(line)));
            assert!(joiner.memory_bytes() <= size_of::<PieceJoiner>() + 100);
        }
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].end, JoinEnd::Size);
        (lines[0].text.clone(), lines[0].cut_bytes)
    };
    assert_eq!(cut(&[raw(b"12345", false, 0)]), (b"1234".to_vec(), 1));
    let wide = "a€b€".as_bytes();
    assert_eq!(cut(&[raw(&wide[..6], false, 0)]), ("a€".into(), 2));
    let parts = [raw(&wide[1..3], true, 0), raw(&wide[3..7], true, 1)];
    let last = raw(&wide[7..], false, 2);
    assert_eq!(cut(&[parts[0], parts[1], last]), ("€b".into(), 3));
    assert_eq!(cut(&[raw(&[0x80; 9], false, 0)]), (vec![0x80; 4], 5));
    let escaped = PieceText::Escaped(br"\u20ac\u20ac\n");
    assert_eq!(cut(&[piece(escaped, false, 0)]), ("€".into(), 4));
}

#[test]
fn a_line_without_end_takes_no_more_memory_than_its_bound() {
    let mut joiner = PieceJoiner::new(bounds(50_000));
    let now = Instant::now();
    for number in 0..1000 {
        joiner.push(raw(&[b'x'; 16_384], true, number), now, |_| panic!("open"));
        assert!(joiner.memory_bytes() <= 50_001 + 200);
    }
    let mut lines = Vec::new();
    joiner.finish(|line| lines.push(said(line)));
    assert_eq!(lines[0].text.len(), 50_000);
    assert_eq!(lines[0].cut_bytes, 1000 * 16_384 - 50_000);
    assert_eq!((lines[0].pieces, lines[0].end), (1000, JoinEnd::Ended));
}

/// One thing that happens to a joiner.
#[derive(Clone, Debug)]
enum Step {
    Push(Vec<u8>, bool),
    /// So many seconds pass, with nothing to read.
    Wait(u64),
    Finish,
    /// The process is killed, and reads again from the origin of the open line on.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let text = prop_oneof![
        vec(any::<u8>(), 0..12),
        "[aß€🙂]{0,6}".prop_map(String::into_bytes),
    ];
    let push = (text, any::<bool>()).prop_map(|(text, partial)| Step::Push(text, partial));
    let step = prop_oneof![
        12 => push,
        2 => (0..9_u64).prop_map(Step::Wait),
        1 => Just(Step::Finish),
        2 => Just(Step::Restart),
    ];
    vec(step, 0..60)
}

proptest! {
    /// The lines are those of a model that keeps all pieces; a restart at any place changes
    /// nothing but the age of the open line.
    #[test]
    fn lines_are_those_of_a_model(steps in steps(), bytes_max in 0..40_usize) {
        let mut now = Instant::now();
        let mut joiner = PieceJoiner::new(bounds(bytes_max));
        let mut lines = Vec::new();
        let mut file: Vec<(Vec<u8>, bool)> = Vec::new();
        let (mut model, mut open, mut since) = (Vec::new(), Vec::new(), now);
        for step in steps {
            let end = match step {
                Step::Push(text, partial) => {
                    let number = file.len() as u64;
                    joiner.push(raw(&text, partial, number), now, |line| lines.push(said(line)));
                    if open.is_empty() {
                        since = now;
                    }
                    open.push(number);
                    file.push((text, partial));
                    (!partial).then_some(JoinEnd::Complete)
                }
                Step::Wait(seconds) => {
                    now += Duration::from_secs(seconds);
                    joiner.expire(now, |line| lines.push(said(line)));
                    (now >= since + Duration::from_secs(5)).then_some(JoinEnd::Age)
                }
                Step::Finish => {
                    joiner.finish(|line| lines.push(said(line)));
                    Some(JoinEnd::Ended)
                }
                Step::Restart => {
                    let from = joiner.open().map_or(file.len() as u64, |open| open.origin);
                    joiner = PieceJoiner::new(bounds(bytes_max));
                    for (number, (text, partial)) in file.iter().enumerate().skip(from as usize) {
                        joiner.push(raw(text, *partial, number as u64), now, |_| panic!("open"));
                    }
                    since = now;
                    None
                }
            };
            if let Some(end) = end && !open.is_empty() {
                model.push((std::mem::take(&mut open), end));
            }
            prop_assert_eq!(joiner.open().map(|open| open.origin), open.first().copied());
            prop_assert!(joiner.memory_bytes() <= bytes_max + 201);
        }
        prop_assert_eq!(lines.len(), model.len());
        for (line, (pieces, end)) in lines.iter().zip(&model) {
            let texts: Vec<_> = pieces.iter().map(|number| &file[*number as usize].0[..]).collect();
            let whole = texts.concat();
            prop_assert_eq!(line.text.len() as u64 + line.cut_bytes, whole.len() as u64);
            prop_assert!(whole.starts_with(&line.text));
            prop_assert!(line.text.len() <= bytes_max);
            prop_assert_eq!(line.cut_bytes > 0, whole.len() > bytes_max);
            prop_assert!(line.cut_bytes == 0 || line.text.len() + 4 > bytes_max);
            if let Ok(text) = str::from_utf8(&whole) {
                prop_assert!(text.is_char_boundary(line.text.len()));
            }
            let size = *end == JoinEnd::Complete && line.cut_bytes > 0;
            prop_assert_eq!(line.end, if size { JoinEnd::Size } else { *end });
            prop_assert_eq!(line.pieces as usize, pieces.len());
            prop_assert_eq!((line.origin, line.time), (pieces[0], pieces[0] as i64 * 10));
        }
    }
}
