//! Bytes of one stream, a connection or a file, that its decoder cuts into frames.
//!
//! # What it guarantees
//! * Bytes that no frame has taken are kept and shown to the decoder again, with more behind them.
//! * Bytes that are in no event are counted once, by reason.
//!
//! # Limits
//! The [`BufferAccount`] knows the bytes kept; the worker's quota says which streams have to go.

use std::time::Instant;

use inrush_event::{CutReason, SourceCounters, limits};

use super::acks::PendingAcks;
use super::intake::FrameIntake;
use crate::buffer_quota::BufferAccount;

/// Decoder of one stream: it cuts bytes into frames, and keeps none of them.
pub trait StreamDecoder {
    /// Takes the frames that end in `arena`, from `start` on, and notes the answers that are owed
    /// for them. Returns the offset of the first byte that must be shown again.
    fn decode(
        &mut self,
        arena: &[u8],
        start: usize,
        frames: &mut FrameIntake<'_>,
        acks: &mut PendingAcks,
    ) -> usize;

    /// Ends the stream, with the unfinished frame from `start` on: it becomes an event unless its
    /// sender has it and sends it again.
    fn finish(&mut self, arena: &[u8], start: usize, frames: &mut FrameIntake<'_>);

    /// Gives up the unfinished frame from `start` on, for want of memory: what there is of it
    /// becomes an event.
    fn give_up(&mut self, arena: &[u8], start: usize, frames: &mut FrameIntake<'_>);

    /// Bytes so far that are in no event: too long, beside all frames, unfinished.
    fn cut_bytes(&self) -> [u64; 3];

    /// Bytes to read at once, at most.
    fn window_bytes(&self) -> usize {
        limits::READ_BYTES
    }

    /// True if the peer waits for answers: its batches then stay with this worker.
    fn answers(&self) -> bool {
        false
    }

    /// True if it has something to take in or to note though no more bytes came.
    fn is_due(&self) -> bool {
        false
    }

    /// Number of the stream and state from which a new process goes on
    /// ([`BatchWriter::note_position`](super::BatchWriter::note_position)), for a source that reads
    /// again what is in no durable batch. Asked after each step: what was taken lies before it.
    fn position(&self) -> Option<(u64, Vec<u8>)> {
        None
    }

    /// Bytes of memory that answers take which the peer has not read.
    fn buffered_bytes(&self) -> usize {
        0
    }
}

/// Reasons that bytes of a stream are in no event, in the order of [`StreamDecoder::cut_bytes`].
const CUT_REASONS: [CutReason; 3] = [
    CutReason::Oversize,
    CutReason::Unframed,
    CutReason::Unfinished,
];

/// Bytes of a stream that no frame has taken yet, and its decoder.
pub struct StreamBuffer<D> {
    /// Decoder of the stream; sources reach the RELP answers of a connection through it.
    pub decoder: D,
    pub(super) carry: Vec<u8>,
    account: BufferAccount,
    /// The rest of a message is cut that was given up for want of memory.
    pub(super) given_up: bool,
    /// Bytes cut that the ledger has been told of, by [`CUT_REASONS`].
    cut_told: [u64; 3],
}

impl<D: StreamDecoder> StreamBuffer<D> {
    /// An empty one.
    pub fn new(decoder: D, account: BufferAccount) -> Self {
        Self {
            decoder,
            carry: Vec::new(),
            account,
            given_up: false,
            cut_told: [0; 3],
        }
    }

    /// Tells the ledger what has been cut since the last time.
    pub(super) fn tell_cut(&mut self, counters: &SourceCounters) {
        let cut = self.decoder.cut_bytes();
        for ((reason, cut), told) in CUT_REASONS.iter().zip(cut).zip(&mut self.cut_told) {
            if cut > *told {
                let reason = match self.given_up {
                    true => &CutReason::Memory,
                    false => reason,
                };
                counters.cut_bytes(*reason).add(cut - *told);
                *told = cut;
            }
        }
    }

    /// Keeps `rest` for the next read, of a frame that is `new` if frames ended before it; gives
    /// memory back that is not needed.
    pub(super) fn keep(&mut self, rest: &[u8], new: Option<Instant>) {
        const IDLE_BYTES: usize = 4096;
        self.carry.clear();
        if self.carry.capacity() > 2 * rest.len() + IDLE_BYTES {
            self.carry = Vec::new();
        }
        // Grown by a little, not to the double: there may be thousands of these.
        self.carry.reserve_exact(rest.len().next_multiple_of(64));
        self.carry.extend_from_slice(rest);
        self.note_held(new);
    }

    /// Gives back the memory that is needed only while something comes.
    pub fn rest(&mut self) {
        self.carry.shrink_to_fit();
        self.note_held(None);
    }

    /// Takes note of how much is kept for the stream.
    pub fn note_held(&mut self, new: Option<Instant>) {
        let answers = self.decoder.buffered_bytes();
        self.account.set(self.carry.capacity() + answers, new);
    }

    /// Account of the bytes that are kept for the stream, and since when.
    pub fn account(&self) -> &BufferAccount {
        &self.account
    }
}
