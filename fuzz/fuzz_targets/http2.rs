//! A session of HTTP/2: whatever frames come, it keeps no more than its windows have room for, and
//! a body is given up to its end once. Of the first byte, the bits say whether the bytes behind are
//! frames as they stand, or the parts of frames that are made of them.
//!
//! The modules are compiled by themselves: their crate brings TLS, which has no part in this.
#![no_main]

#[allow(
    dead_code,
    unreachable_pub,
    reason = "some of it is for its crate alone"
)]
#[path = "../../crates/transport/src/http/mod.rs"]
mod http;
#[allow(
    dead_code,
    unreachable_pub,
    reason = "some of it is for its crate alone"
)]
#[path = "../../crates/transport/src/http2/mod.rs"]
mod http2;

use http2::{HEADS_BYTES_MAX, Http2, OUTPUT_BYTES_MAX, STREAM_WINDOW_BYTES, STREAMS_MAX};
use libfuzzer_sys::fuzz_target;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// The client's word that it knows our settings.
const ACK: &[u8] = b"\0\0\0\x04\x01\0\0\0\0";

/// Memory that a session may keep: bodies, each with what its memory grows by, heads, what is to be
/// sent, and a frame that is not complete.
const MEMORY_MAX: usize = STREAMS_MAX as usize * (STREAM_WINDOW_BYTES as usize + 4096)
    + HEADS_BYTES_MAX
    + 4 * OUTPUT_BYTES_MAX
    + (1 << 18);

/// The frame that four bytes begin: kind, flags, stream and length of the payload, which is short,
/// or a long one of spaces.
fn frame(parts: &[u8; 4], rest: &mut &[u8]) -> Vec<u8> {
    let [kind, flags, stream, length] = *parts;
    let payload = match length {
        0..=199 => {
            let (payload, behind) = rest.split_at(rest.len().min(length.into()));
            *rest = behind;
            payload.to_vec()
        }
        _ => vec![b' '; usize::from(length - 199) * 290],
    };
    let bytes = (payload.len() as u32).to_be_bytes();
    let head = [
        bytes[1],
        bytes[2],
        bytes[3],
        kind % 11,
        flags,
        0,
        0,
        0,
        stream,
    ];
    [&head, &payload[..]].concat()
}

/// Takes what there is, as a connection of the collector does. The number of the current request.
fn serve(session: &mut Http2, current: &mut Option<u64>, number: &mut u64, room: &mut [u8]) {
    session.drive();
    session.note_brief(|head| head.path.len() > 1);
    if current.is_none()
        && let Some(request) = session.next_ready()
    {
        assert_eq!(session.end(), None);
        let _ = request.head();
        *number += 1;
        session.begin(request, *number);
        *current = Some(*number);
    }
    let Some(open) = *current else {
        return;
    };
    let (count, end) = session.read(room);
    assert!(count <= room.len());
    if end.is_some() {
        session.answer(open, 200, "Vary: x\r\n", vec![b'y'; room.len()]);
        *current = None;
    }
}

fuzz_target!(|input: &[u8]| {
    let [choice, room, bytes @ ..] = input else {
        return;
    };
    let mut session = Http2::default();
    let (mut current, mut number, mut out) = (None, 0, Vec::new());
    let mut room = vec![0; usize::from(*room) * 16 + 1];
    session.feed(PREFACE);
    session.drive();
    session.feed(ACK);
    let mut rest = bytes;
    while session.end().is_none() && !rest.is_empty() {
        let fed = match rest {
            [kind, flags, stream, length, behind @ ..] if choice & 1 == 0 => {
                rest = behind;
                frame(&[*kind, *flags, *stream, *length], &mut rest)
            }
            _ => {
                let (piece, behind) = rest.split_at(rest.len().min(64));
                rest = behind;
                piece.to_vec()
            }
        };
        session.feed(&fed);
        serve(&mut session, &mut current, &mut number, &mut room);
        assert!(session.memory_bytes() <= MEMORY_MAX);
        if choice & 2 == 0 {
            out.clear();
            session.take_output(&mut out);
        }
    }
    session.close_input();
    session.drive();
    session.leave_now();
    assert!(session.is_idle() || session.end().is_none());
});
