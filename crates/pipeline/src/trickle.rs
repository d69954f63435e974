//! Trickles: little enough comes that it may gather before it is read.

use std::time::Instant;

use crate::busy::WINDOW;

/// Bytes of a window, and of the one before, up to which it is a trickle. A rest of 25 ms gathers a
/// quarter of it, which a core's cache holds until it was read.
const BYTES_MAX: usize = 1 << 20;

/// Bytes that one worker reads, window by window.
pub(crate) struct Trickle {
    since: Instant,
    bytes: usize,
    before: usize,
}

impl Trickle {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            since: now,
            bytes: 0,
            before: 0,
        }
    }

    /// So many bytes were read.
    pub(crate) fn read(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// True if little came of late.
    pub(crate) fn holds(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) >= WINDOW {
            (self.since, self.before, self.bytes) = (now, self.bytes, 0);
        }
        self.before.max(self.bytes) <= BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_surge_of_small_reads_is_no_trickle() {
        let begin = Instant::now();
        let mut trickle = Trickle::new(begin);
        let mut now = begin;
        let mut at = |pieces: usize, bytes: usize| {
            let held = (0..pieces)
                .filter(|_| {
                    now += Duration::from_millis(1);
                    trickle.read(bytes);
                    trickle.holds(now)
                })
                .count();
            held * 100 / pieces
        };
        // 5,000 events of 800 bytes a second.
        assert_eq!(at(1_000, 4_000), 100);
        // Four times as many, each piece by itself no more than a little.
        assert!(at(1_000, 16_000) < 10);
        // The next window is quiet, and the one after it follows a quiet one.
        at(200, 4_000);
        assert_eq!(at(1_000, 4_000), 100);
    }
}
