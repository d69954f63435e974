//! Drives a frame decoder as a connection would and checks what must hold for any input. Shared
//! by the property tests and the fuzz targets.

use inrush_codec::{FrameDecoder, StreamFraming};
use inrush_event::Anomalies;

/// What came out of a stream: offsets are those of the stream, not of any arena.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) frames: Vec<Seen>,
    pub(crate) cut_bytes: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) offset: usize,
    pub(crate) bytes: Vec<u8>,
    pub(crate) anomalies: Anomalies,
}

/// Feeds `stream` in pieces of the given sizes (the last one is repeated), each time in a new
/// arena at another offset, and ends it.
pub(crate) fn decode(
    framing: StreamFraming,
    limit: usize,
    stream: &[u8],
    pieces: &[usize],
) -> Outcome {
    let mut decoder = FrameDecoder::new(framing, limit);
    let mut outcome = Outcome::default();
    let mut kept: Vec<u8> = Vec::new();
    let mut taken = 0;
    let mut turn = 0;
    while taken < stream.len() {
        let piece = pieces
            .get(turn)
            .or(pieces.last())
            .copied()
            .unwrap_or(stream.len())
            .max(1);
        let next = stream.len().min(taken + piece);
        let pad = turn % 3;
        let arena = [&[b'\n'; 3][..pad], &kept[..], &stream[taken..next]].concat();
        let origin = taken - kept.len();
        let keep = decoder.decode(&arena, pad, |frame| {
            outcome.frames.push(Seen {
                offset: origin + frame.span.start() - pad,
                bytes: frame.span.of(&arena).to_vec(),
                anomalies: frame.anomalies,
            });
        });
        kept = arena[keep..].to_vec();
        assert!(
            kept.len() <= limit + 32,
            "kept {} bytes, limit {limit}",
            kept.len()
        );
        taken = next;
        turn += 1;
    }
    let origin = taken - kept.len();
    decoder.finish(&kept, 0, |frame| {
        outcome.frames.push(Seen {
            offset: origin + frame.span.start(),
            bytes: frame.span.of(&kept).to_vec(),
            anomalies: frame.anomalies,
        });
    });
    outcome.cut_bytes = decoder.cut_bytes();
    outcome
}

/// Every byte of the stream is in a frame, or is framing, or was cut and counted.
pub(crate) fn account(framing: StreamFraming, limit: usize, stream: &[u8], outcome: &Outcome) {
    let mut at = 0;
    let mut oversize = false;
    let (mut cut_least, mut cut_most) = (0, 0);
    let mut gap = |from: usize, to: usize, oversize: bool| {
        let bytes = &stream[from..to];
        let framing_at_end = bytes.len() - start_of_framing(framing, bytes);
        if oversize {
            cut_least += bytes.len() - framing_at_end;
            cut_most += bytes.len();
        } else {
            assert_eq!(
                framing_at_end,
                bytes.len(),
                "lost: {}",
                bytes.escape_ascii()
            );
        }
    };
    for frame in &outcome.frames {
        assert!(!frame.bytes.is_empty() && frame.bytes.len() <= limit);
        assert!(frame.offset >= at, "frames overlap at {at}");
        gap(at, frame.offset, oversize);
        at = frame.offset + frame.bytes.len();
        assert_eq!(frame.bytes, stream[frame.offset..at]);
        oversize = frame.anomalies.contains(Anomalies::OVERSIZE);
        assert!(!oversize || frame.bytes.len() == limit);
    }
    gap(at, stream.len(), oversize);
    let cut = outcome.cut_bytes as usize;
    assert!(
        (cut_least..=cut_most).contains(&cut),
        "{cut} cut, not {cut_least} to {cut_most}"
    );
}

/// Where the framing begins at the end of `bytes`: terminators, and counts with their space.
fn start_of_framing(framing: StreamFraming, bytes: &[u8]) -> usize {
    let is_terminator = |byte: &u8| matches!(byte, b'\n' | b'\r' | 0);
    let mut start = bytes.len();
    loop {
        let before = &bytes[..start];
        if before.last().is_some_and(is_terminator) {
            start -= 1;
            continue;
        }
        let Some(count) = before.strip_suffix(b" ") else {
            return start;
        };
        let digits = count.iter().rev().take_while(|b| b.is_ascii_digit());
        match digits.take(8).count() {
            0 => return start,
            _ if framing == StreamFraming::Newline => return start,
            digits => start = count.len() - digits,
        }
    }
}

/// In auto framing a line that begins with a PRI is an event of its own, whatever was written
/// before it: no count has taken it, unless the connection has only ever counted.
#[allow(
    dead_code,
    reason = "only auto framing promises it; the other targets do not ask"
)]
pub(crate) fn check_honest(limit: usize, before: &[u8], lines: &[&[u8]], pieces: &[usize]) {
    let stream = [before, &lines.concat()].concat();
    let outcome = decode(StreamFraming::Auto, limit, &stream, pieces);
    account(StreamFraming::Auto, limit, &stream, &outcome);
    let seen = outcome.frames.iter().rev().take(lines.len());
    let seen: Vec<_> = seen.map(|frame| &frame.bytes[..]).collect();
    let sent: Vec<_> = lines.iter().rev().map(|l| l.trim_ascii_end()).collect();
    assert_eq!(seen, sent, "after {}", before.escape_ascii());
}

/// All of it for one stream and one way to cut it.
pub(crate) fn check(framing: StreamFraming, limit: usize, stream: &[u8], pieces: &[usize]) {
    let whole = decode(framing, limit, stream, &[stream.len()]);
    account(framing, limit, stream, &whole);
    assert_eq!(
        decode(framing, limit, stream, pieces),
        whole,
        "pieces {pieces:?}"
    );
    assert_eq!(decode(framing, limit, stream, &[1]), whole, "byte by byte");
}
