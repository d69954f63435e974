//! Bytes that were read and are behind the request which is being taken.
//!
//! # What it guarantees
//! * A byte is kept once and looked at once, however many requests come at a time: what is given
//!   out and not used is not moved back.

use super::connection::IDLE_BYTES;

/// Bytes for the next requests.
#[derive(Debug, Default)]
pub(super) struct AheadBytes {
    bytes: Vec<u8>,
    /// Bytes that were given out.
    at: usize,
}

impl AheadBytes {
    /// True if all were given out.
    pub(super) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Memory that they take.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Those that were not given out.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    /// Counts the next bytes as given out.
    pub(super) fn advance(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// Gives out as many as the room takes; the number of them.
    pub(super) fn take(&mut self, room: &mut [u8]) -> usize {
        let count = self.rest().len().min(room.len());
        room[..count].copy_from_slice(&self.rest()[..count]);
        self.advance(count);
        count
    }

    /// Forgets those that were given out, before others are read.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.at = 0;
        if self.bytes.capacity() > IDLE_BYTES {
            self.bytes = Vec::new();
        }
    }

    /// Takes bytes back that were given out last, or keeps those that were read instead of them.
    pub(super) fn put_back(&mut self, bytes: &[u8]) {
        match self.at.checked_sub(bytes.len()).filter(|_| self.at > 0) {
            Some(at) => self.at = at,
            None => self.bytes.extend_from_slice(bytes),
        }
    }
}
