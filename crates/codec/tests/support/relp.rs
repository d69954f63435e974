//! Drives a RELP session as a connection would and checks what must hold for any input. Shared by
//! the property tests and the fuzz target.

use inrush_codec::relp::{FRAME_SLACK, REFUSALS_MAX, RelpSession, SessionEnd, SessionTask};

/// Outcome of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Outcome {
    pub(crate) seen: Vec<Seen>,
    pub(crate) replies: Vec<u8>,
    pub(crate) end: Option<SessionEnd>,
    /// Bytes cut off messages, and bytes in no message.
    pub(crate) cut: (u64, u64),
    /// Whether the last byte ended a frame.
    pub(crate) whole: bool,
}

/// One [`SessionTask`], with the bytes in place of where they lay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Seen {
    Message(u32, Vec<u8>),
    Cut(Vec<u8>),
    CutEnd(u32),
    Other(SessionTask),
}

/// Feeds `stream` in pieces of the given sizes (the last one is repeated), each time in a new
/// arena at another offset.
pub(crate) fn decode(limit: usize, stream: &[u8], pieces: &[usize]) -> Outcome {
    let mut session = RelpSession::new(limit);
    let (mut seen, mut replies) = (Vec::new(), Vec::new());
    let mut kept: Vec<u8> = Vec::new();
    let (mut taken, mut turn) = (0, 0);
    while taken < stream.len() {
        let piece = pieces.get(turn).or(pieces.last()).copied();
        let next = stream
            .len()
            .min(taken + piece.unwrap_or(stream.len()).max(1));
        let pad = turn % 3;
        let arena = [&[b'1'; 3][..pad], &kept[..], &stream[taken..next]].concat();
        let keep = session.decode(&arena, pad, &mut replies, |one| {
            seen.push(match one {
                SessionTask::Message { txnr, data } => {
                    Seen::Message(txnr, data.of(&arena).to_vec())
                }
                SessionTask::Cut { data } => Seen::Cut(data.of(&arena).to_vec()),
                SessionTask::CutEnd { txnr } => Seen::CutEnd(txnr),
                other => Seen::Other(other),
            });
        });
        kept = arena[keep..].to_vec();
        assert!(kept.len() <= limit + FRAME_SLACK, "kept {}", kept.len());
        (taken, turn) = (next, turn + 1);
    }
    Outcome {
        cut: (session.cut_bytes(), session.unframed_bytes()),
        whole: session.is_between_frames(kept.len()),
        end: session.end(),
        seen,
        replies,
    }
}

/// All of it for one stream and one way to cut it.
pub(crate) fn check(limit: usize, stream: &[u8], pieces: &[usize]) -> Outcome {
    let whole = decode(limit, stream, &[stream.len()]);
    let mut cut_open = false;
    for one in &whole.seen {
        match one {
            Seen::Message(txnr, data) => {
                assert!(*txnr > 0 && !data.is_empty() && data.len() <= limit);
                assert!(!cut_open, "a message inside a message");
            }
            Seen::Cut(data) => {
                assert!(!cut_open && data.len() == limit);
                cut_open = true;
            }
            Seen::CutEnd(txnr) => {
                assert!(cut_open && *txnr > 0);
                cut_open = false;
            }
            Seen::Other(_) => assert!(!cut_open),
        }
    }
    let refusals = whole
        .seen
        .iter()
        .filter(|one| matches!(one, Seen::Other(SessionTask::Answer { .. })));
    assert!(refusals.count() as u32 <= REFUSALS_MAX + 2);
    assert!(whole.replies.len() < 200, "a session opens once");
    assert_eq!(decode(limit, stream, pieces), whole, "pieces {pieces:?}");
    assert_eq!(decode(limit, stream, &[1]), whole, "byte by byte");
    whole
}
