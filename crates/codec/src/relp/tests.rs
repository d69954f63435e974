//! Frames and sessions, one table a rule.
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;

use super::*;

fn decode(limit: usize, stream: &[u8]) -> (Vec<RelpItem>, Result<usize, FrameError>) {
    let mut items = Vec::new();
    let outcome = RelpDecoder::new(limit).decode(stream, 0, |item| {
        items.push(item);
        ControlFlow::Continue(())
    });
    (items, outcome)
}

/// The error of the first frame, if it is none.
fn broken(stream: &[u8]) -> Option<FrameError> {
    let (items, outcome) = decode(1000, stream);
    assert!(items.is_empty(), "{}", stream.escape_ascii());
    outcome.err()
}

#[test]
fn headers_that_are_good_and_headers_that_are_not() {
    use FrameError::{Command, Length, NoEnd, TooLong, Txnr};
    for (stream, error) in [
        (&b"999999999 syslog 16777216 "[..], None),
        (b"1", None),
        (b"123456789", None),
        (b"1 ", None),
        (b"1 sysl", None),
        (b"1 syslog ", None),
        (b"1 syslog 3", None),
        (b"1 syslog 3 ab", None),
        (b"1 syslog 3 abc", None),
        (b" 1 syslog 3 abc\n", Some(Txnr)),
        (b"-1 syslog 0\n", Some(Txnr)),
        (b"1234567890", Some(Txnr)),
        (b"12345678901234567890 syslog 0\n", Some(Txnr)),
        (b"<13>hello", Some(Txnr)),
        (b"1\n", Some(Txnr)),
        (b"1  0\n", Some(Command)),
        (b"1 sys1og 0\n", Some(Command)),
        (b"1 abcdefghijklmnopqrstuvwxyzabcdefg", Some(Command)),
        (b"1 syslog -1 ", Some(Length)),
        (b"1 syslog \n", Some(Length)),
        (b"1 syslog 3\nabc\n", Some(Length)),
        (b"1 syslog 1234567890 ", Some(Length)),
        (b"1 syslog 999999999 ", Some(TooLong)),
        (b"1 syslog 16777217 ", Some(TooLong)),
        (b"1 open 4097 ", Some(TooLong)),
        (b"1 syslog 3 abcd\n", Some(NoEnd)),
        (b"1 syslog 0 x", Some(NoEnd)),
    ] {
        assert_eq!(broken(stream), error, "{}", stream.escape_ascii());
    }
}

#[test]
fn data_may_hold_anything_and_be_nothing() {
    let stream = b"1 syslog 5 a\n\0 b\n2 close 0\n3 close 0 \n4 whatever 2 hi\n5 rsp 6 200 OK\n";
    let (items, outcome) = decode(1000, stream);
    assert_eq!(outcome, Ok(stream.len()));
    let seen: Vec<_> = items
        .iter()
        .map(|item| match item {
            RelpItem::Frame {
                txnr,
                command,
                data,
            } => (*txnr, *command, data.of(stream)),
            RelpItem::Cut { .. } | RelpItem::CutEnd { .. } => panic!("{item:?}"),
        })
        .collect();
    let expected: [(u32, RelpCommand, &[u8]); 5] = [
        (1, RelpCommand::Syslog, b"a\n\0 b"),
        (2, RelpCommand::Close, b""),
        (3, RelpCommand::Close, b""),
        (4, RelpCommand::Unknown, b"hi"),
        (5, RelpCommand::Rsp, b"200 OK"),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn what_is_too_long_keeps_its_start_and_is_done_at_its_end() {
    let stream = b"7 syslog 10 0123456789\n8 syslog 4 abcd\n";
    let mut decoder = RelpDecoder::new(4);
    let mut items = Vec::new();
    let outcome = decoder.decode(stream, 0, |item| {
        items.push(item);
        ControlFlow::Continue(())
    });
    assert_eq!(outcome, Ok(stream.len()));
    let [
        RelpItem::Cut { txnr: 7, data },
        RelpItem::CutEnd { txnr: 7 },
        RelpItem::Frame { txnr: 8, .. },
    ] = items[..]
    else {
        panic!("{items:?}");
    };
    assert_eq!(data.of(stream), b"0123");
    assert_eq!(decoder.cut_bytes(), 6);
    let (_, outcome) = decode(4, b"7 syslog 10 0123456789x");
    assert_eq!(outcome, Err(FrameError::NoEnd));
}

/// What a session takes and answers at once, and how it ends.
fn session(stream: &str) -> (Vec<SessionTask>, String, Option<SessionEnd>) {
    let mut session = RelpSession::new(480);
    let (mut replies, mut taken) = (Vec::new(), Vec::new());
    session.decode(stream.as_bytes(), 0, &mut replies, |one| taken.push(one));
    (taken, String::from_utf8(replies).unwrap(), session.end())
}

const OPEN: &str = "1 open 32 relp_version=0\ncommands=syslog,x\n";

#[test]
fn a_session_opens_takes_messages_and_closes() {
    let (taken, replies, end) =
        session(&format!("{OPEN}2 syslog 3 abc\n3 close 0\n4 syslog 1 x\n"));
    let [
        SessionTask::Message { txnr: 2, data },
        SessionTask::Answer {
            txnr: 3,
            answer: AnswerStatus::Closed,
        },
    ] = taken[..]
    else {
        panic!("{taken:?}");
    };
    assert_eq!((data.len(), end), (3, Some(SessionEnd::Closed)));
    let data = replies.strip_prefix("1 rsp ").unwrap();
    let (length, data) = data.split_once(' ').unwrap();
    assert_eq!(length.parse::<usize>().unwrap() + 1, data.len());
    assert!(
        data.starts_with("200 OK\nrelp_version=0\nrelp_software=inrush,")
            && data.ends_with("\ncommands=syslog\n"),
        "{data}"
    );
}

#[test]
fn offers_are_met_or_refused() {
    for (offers, good) in [
        ("relp_version=0", true),
        ("relp_version=1\nrelp_software=x,1\ncommands=syslog", true),
        ("commands=other, syslog\nrelp_version=0\nfuture=1", true),
        ("relp_version=0\ncommands=other", false),
        ("relp_version=x", false),
        ("relp_version", false),
        ("commands=syslog", false),
    ] {
        let (taken, _, end) = session(&format!("1 open {} {offers}\n", offers.len()));
        let answer = AnswerStatus::BadOffers;
        let refused = [SessionTask::Answer { txnr: 1, answer }];
        assert_eq!(end, (!good).then_some(SessionEnd::Protocol), "{offers}");
        assert_eq!(taken == refused, !good, "{offers}: {taken:?}");
    }
    assert_eq!(session("1 open 0\n").2, Some(SessionEnd::Protocol));
}

#[test]
fn what_has_no_place_in_a_session_ends_it() {
    for (stream, last) in [
        ("1 syslog 3 abc\n".to_owned(), Some(AnswerStatus::NotOpen)),
        (
            format!("1 syslog 500 {}\n", "x".repeat(500)),
            Some(AnswerStatus::NotOpen),
        ),
        (format!("{OPEN}{OPEN}"), Some(AnswerStatus::Unknown)),
        (format!("{OPEN}0 syslog 3 abc\n"), None),
        (format!("{OPEN}0 close 0\n"), None),
    ] {
        let (taken, _, end) = session(&stream);
        assert_eq!(end, Some(SessionEnd::Protocol), "{stream}");
        let answered = match taken.last() {
            Some(SessionTask::Answer { answer, .. }) => Some(*answer),
            _ => None,
        };
        assert_eq!(answered, last, "{stream}: {taken:?}");
    }
}

#[test]
fn unknown_commands_are_answered_a_while() {
    let one = session(&format!("{OPEN}2 dance 0\n3 syslog 1 x\n"));
    assert_eq!((one.0.len(), one.2), (2, None));
    let many = session(&format!("{OPEN}{}", "2 dance 0\n".repeat(1000)));
    assert_eq!(many.0.len() as u32, REFUSALS_MAX + 1);
    assert_eq!(many.2, Some(SessionEnd::Protocol));
}

#[test]
fn terminators_at_the_end_are_framing_and_nothing_else_is_no_message() {
    let (taken, ..) = session(&format!(
        "{OPEN}2 syslog 3 ab\n\n3 syslog 1 \n\n4 syslog 0\n"
    ));
    let [
        SessionTask::Message { txnr: 2, data },
        SessionTask::Empty { txnr: 3 },
        SessionTask::Empty { txnr: 4 },
    ] = taken[..]
    else {
        panic!("{taken:?}");
    };
    assert_eq!(data.len(), 2);
}

#[test]
fn answers_are_frames() {
    let mut out = Vec::new();
    for answer in [AnswerStatus::Ok, AnswerStatus::Full, AnswerStatus::Closed] {
        write_answer(&mut out, TXNR_MAX, answer);
    }
    assert_eq!(
        out,
        b"999999999 rsp 6 200 OK\n999999999 rsp 21 500 the queue is full\n999999999 rsp 0\n"
    );
}
