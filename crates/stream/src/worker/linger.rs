//! Lingering close (RFC 9112 section 9.6): after the last answer, what the peer still sends is read
//! and discarded for a while.
//!
//! To close with bytes that nobody has read resets the connection. A peer that is still sending
//! then sees a failed write, and may never read the answer that says why.

use std::time::{Duration, Instant};

use inrush_event::instant_now;
use inrush_transport::stream::{EndReason, StreamRead};

use super::StreamLoop;

/// Longest time to wait for the peer to close.
const LINGER_MAX: Duration = Duration::from_secs(5);

/// Bytes that are discarded at most.
const LINGER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Reads of one turn, at most.
const LINGER_READS: usize = 16;

/// A connection whose last answer is sent.
pub(super) struct LingeringClose {
    until: Instant,
    bytes_left: usize,
}

impl StreamLoop {
    /// Ends a connection whose last answer is sent: at once if the peer has closed too.
    pub(super) fn linger(&mut self, key: usize, reason: Option<EndReason>) {
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        slot.connection.finish();
        if slot.peer_closed {
            return self.close(key, reason);
        }
        if let Some(reason) = reason {
            slot.source.ended(&mut slot.connection, reason);
        }
        slot.lingering = Some(LingeringClose {
            until: instant_now() + LINGER_MAX,
            bytes_left: LINGER_BYTES_MAX,
        });
        // What has come already is told of no more.
        self.mark_ready(key, false);
    }

    /// Discards what has come; closes once the peer has, or has sent too much.
    pub(super) fn discard(&mut self, key: usize) {
        for _ in 0..LINGER_READS {
            let Some(slot) = self.slots.get_mut(key) else {
                return;
            };
            let Some(lingering) = &mut slot.lingering else {
                return;
            };
            match slot.connection.discard(&mut self.cipher) {
                StreamRead::Data(bytes) | StreamRead::Drained(bytes) => {
                    lingering.bytes_left = lingering.bytes_left.saturating_sub(bytes);
                    if lingering.bytes_left == 0 {
                        return self.close(key, None);
                    }
                }
                StreamRead::Blocked => return,
                StreamRead::Closed | StreamRead::Failed(_) => return self.close(key, None),
            }
        }
        self.mark_ready(key, false);
    }

    /// Closes the connections whose peers take too long.
    pub(super) fn end_lingering(&mut self, now: Instant) {
        let late = self.slots.iter().filter_map(|(key, slot)| {
            let lingering = slot.lingering.as_ref()?;
            (now >= lingering.until).then_some(key)
        });
        let late: Vec<usize> = late.collect();
        late.into_iter().for_each(|key| self.close(key, None));
    }

    /// Discards what all peers have sent, before the process closes their connections.
    pub(super) fn discard_last(&mut self) {
        for (_, slot) in &mut self.slots {
            for _ in 0..LINGER_READS {
                match slot.connection.discard(&mut self.cipher) {
                    StreamRead::Data(_) | StreamRead::Drained(_) => {}
                    _ => break,
                }
            }
        }
    }
}
