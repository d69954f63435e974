//! Tests of the session, by frames as bytes.

use super::frame_place::FRAME_HEAD_BYTES;
use super::stream::GROWTH_BYTES;
use super::*;
use crate::http::head::{BodyLength, HEADERS_MAX, HeadFault};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

/// Flags: nothing more of the stream, and of its fields.
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Fields of `POST https:///`, by their places in the static table (RFC 7541 appendix A).
const POST: &[u8] = &[0x83, 0x84, 0x87];

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let head = [length[1], length[2], length[3], kind, flags];
    [&head, &stream.to_be_bytes()[..], payload].concat()
}

/// A field that no table has: its name and value, of fewer than 127 bytes each.
fn literal(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
    [&[0][..], &text(name), &text(value)].concat()
}

/// A connection whose client knows our settings and has sent these frames.
fn fed(frames: &[Vec<u8>]) -> Http2 {
    let mut http = Http2::default();
    http.feed(PREFACE);
    http.drive();
    const ACK: u8 = 1;
    http.feed(&[frame(SETTINGS, ACK, 0, b""), frames.concat()].concat());
    http.drive();
    http
}

/// The frames that are to be sent: kind, stream and payload.
fn sent(http: &mut Http2) -> Vec<(u8, u8, Vec<u8>)> {
    let mut out = Vec::new();
    http.take_output(&mut out);
    let (mut frames, mut rest) = (Vec::new(), &out[..]);
    while let [a, b, c, kind, ..] = *rest {
        let end = FRAME_HEAD_BYTES + u32::from_be_bytes([0, a, b, c]) as usize;
        frames.push((kind, rest[8], rest[FRAME_HEAD_BYTES..end].to_vec()));
        rest = &rest[end..];
    }
    frames
}

fn open(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, POST)
}

/// A body of so many bytes, in frames of 16 KiB.
fn body(stream: u32, bytes: usize) -> Vec<u8> {
    let whole = vec![b'x'; bytes];
    let frames = whole.chunks(1 << 14);
    frames
        .flat_map(|piece| frame(DATA, 0, stream, piece))
        .collect()
}

#[test]
fn a_stream_has_its_turn_with_its_body_and_is_answered_by_number() {
    let early = frame(HEADERS, END_HEADERS | END_STREAM, 3, POST);
    let mut http = fed(&[open(1), frame(DATA, 0, 1, b"ab"), early]);
    let request = http.next_ready().unwrap();
    assert_eq!(request.head().unwrap().body, BodyLength::Bytes(0));
    http.begin(request, 7);
    assert!(
        http.next_ready().is_none(),
        "the first stream is not complete"
    );
    http.feed(&frame(DATA, END_STREAM, 1, b"c"));
    http.drive();
    assert!(http.answer(7, 200, "Vary: x\r\n", b"yes".to_vec()));
    let request = http.next_ready().unwrap();
    assert_eq!(request.head().unwrap().path, "/");
    http.begin(request, 8);
    let mut room = [0; 8];
    assert_eq!(http.read(&mut room[..2]), (2, None));
    assert_eq!(http.read(&mut room[2..]), (1, Some(StreamEnd::Complete)));
    assert_eq!(&room[..3], b"abc");
    http.drive();
    let answers = sent(&mut http)
        .into_iter()
        .filter(|(_, stream, _)| *stream == 3);
    let kinds: Vec<u8> = answers.map(|(kind, ..)| kind).collect();
    assert_eq!(kinds, [HEADERS, DATA]);
    assert!(!http.answer(9, 200, "", Vec::new()), "no such request");
}

#[test]
fn what_comes_is_bounded_by_the_windows() {
    let window = STREAM_WINDOW_BYTES as usize;
    let streams = || (0..STREAMS_MAX).map(|n| 2 * n + 1);
    let frames: Vec<_> = streams()
        .map(|n| [open(n), body(n, window)].concat())
        .collect();
    let mut http = fed(&frames);
    assert_eq!(http.end(), None);
    let most = STREAMS_MAX as usize * (window + GROWTH_BYTES);
    assert!(
        http.memory_bytes() <= most + (1 << 17),
        "{}",
        http.memory_bytes()
    );
    // The current one goes on though all others have used their windows up.
    let request = http.next_ready().unwrap();
    http.begin(request, 1);
    let mut room = vec![0; window];
    assert_eq!(http.read(&mut room), (window, None));
    http.drive();
    http.feed(&body(1, window));
    http.drive();
    assert_eq!(http.read(&mut room), (window, None));
    http.drive();
    http.feed(&body(3, 1));
    http.drive();
    assert!(http.next_slow(Instant::now(), Duration::ZERO).is_none());
    assert_eq!(http.waiting.len(), STREAMS_MAX as usize - 2, "3 is reset");
    http.feed(&[open(201), open(203), open(205)].concat());
    http.drive();
    let refused = sent(&mut http)
        .into_iter()
        .filter(|(kind, ..)| *kind == RESET);
    let refused: Vec<u8> = refused.map(|(_, stream, _)| stream).collect();
    assert_eq!(refused, [3, 203, 205]);
}

#[test]
fn a_stream_that_is_reset_tells_it_behind_its_bytes() {
    let reset = |stream| frame(RESET, 0, stream, &[0, 0, 0, 8]);
    let mut http = fed(&[open(1), body(1, 40_000), open(3), body(3, 10)]);
    let request = http.next_ready().unwrap();
    http.begin(request, 1);
    http.feed(&[reset(1), reset(3)].concat());
    http.drive();
    assert!(http.is_idle(), "the other one had no turn yet");
    let mut room = vec![0; 50_000];
    assert_eq!(http.read(&mut room), (40_000, Some(StreamEnd::Reset)));
    assert!(!http.answer(1, 200, "", b"x".to_vec()));
    assert_eq!(http.end(), None);
}

#[test]
fn nothing_is_read_while_the_peer_reads_nothing() {
    let pings = |count| frame(PING, 0, 0, &[7; 8]).repeat(count);
    let mut http = fed(&[pings(100_000)]);
    assert!(!http.wants_input());
    let mut out = Vec::new();
    http.take_output(&mut out);
    assert!(out.len() <= 2 * OUTPUT_BYTES_MAX, "{}", out.len());
    while !http.wants_input() {
        out.clear();
        http.take_output(&mut out);
        http.drive();
    }
    assert_eq!(http.end(), None);
}

#[test]
fn answers_wait_for_the_window_of_the_client() {
    // SETTINGS_INITIAL_WINDOW_SIZE of 10 bytes.
    let settings = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 10]);
    let mut http = fed(&[settings, frame(HEADERS, END_HEADERS | END_STREAM, 1, POST)]);
    let request = http.next_ready().unwrap();
    http.begin(request, 1);
    assert!(http.answer(1, 200, "", vec![b'y'; 25]));
    http.drive();
    assert_eq!((http.unsent_bytes(), http.is_flushed()), (15, false));
    http.feed(&frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 100]));
    http.drive();
    assert_eq!(http.unsent_bytes(), 0);
    let data = sent(&mut http)
        .into_iter()
        .filter(|(kind, ..)| *kind == DATA);
    assert_eq!(data.map(|(_, _, bytes)| bytes.len()).sum::<usize>(), 25);
    assert!(http.is_flushed());
}

#[test]
fn heads_are_bounded() {
    let field = |n: usize| literal(&format!("name-{n}"), &"v".repeat(100));
    let head = |count| [POST.to_vec(), (0..count).flat_map(field).collect()].concat();
    let mut http = fed(&[frame(HEADERS, END_HEADERS, 1, &head(HEADERS_MAX + 1))]);
    http.note_brief(|_| false);
    let request = http.next_ready().unwrap();
    assert_eq!(
        request.head().map(|head| head.path.len()),
        Err(HeadFault::TooLong)
    );
    let one = head(90);
    let streams = (0..STREAMS_MAX).map(|n| frame(HEADERS, END_HEADERS, 2 * n + 1, &one));
    let http = fed(&Vec::from_iter(streams));
    let kept = http.waiting.iter().map(|one| one.head_bytes).sum::<usize>();
    assert!(
        (HEADS_BYTES_MAX - 20_000..=HEADS_BYTES_MAX).contains(&kept),
        "{kept}"
    );
}

#[test]
fn an_unfinished_head_is_counted_and_has_its_time() {
    let (later, head_max) = (
        Instant::now() + Duration::from_secs(60),
        Duration::from_secs(30),
    );
    let is_late = |http: &Http2| http.is_slow(later, head_max, head_max * 9);
    let mut http = Http2::default();
    assert!(!is_late(&http), "nothing has come yet");
    http.feed(&PREFACE[..1]);
    assert!(is_late(&http));
    for byte in [&PREFACE[1..], &open(1), &body(1, 1)].concat() {
        http.feed(&[byte]);
    }
    assert!(!is_late(&http));
    http.feed(&frame(HEADERS, 0, 3, &POST[..1]));
    http.feed(&frame(CONTINUATION, 0, 3, &POST[1..2]));
    http.drive();
    assert_eq!(http.place.bytes, 20);
    assert!(is_late(&http) && http.memory_bytes() >= 20);
    http.feed(&frame(CONTINUATION, END_HEADERS, 3, &POST[2..]));
    http.drive();
    assert!(!is_late(&http));
    assert_eq!((http.place.bytes, http.waiting.len()), (0, 2));
}

#[test]
fn a_stream_of_which_nothing_comes_is_slow() {
    let mut http = fed(&[open(1), body(1, 1)]);
    let (now, most) = (Instant::now(), Duration::from_secs(60));
    assert!(!http.is_slow(now, most, most) && http.is_slow(now + most, most, most));
    http.feed(&frame(DATA, END_STREAM, 1, b"x"));
    http.drive();
    assert!(
        http.next_slow(now + most * 2, most).is_none(),
        "it is complete"
    );
}

#[test]
fn the_peer_is_told_that_we_go() {
    let mut http = fed(&[open(1)]);
    sent(&mut http);
    http.leave();
    http.drive();
    assert_eq!(sent(&mut http)[0].0, GO_AWAY);
    assert_eq!(http.end(), None, "its stream goes on");
    http.leave_now();
    assert_eq!((sent(&mut http)[0].0, http.end()), (GO_AWAY, Some(false)));
}
