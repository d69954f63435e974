//! Trickles: little enough comes that it may gather before it is read.

use std::time::{Duration, Instant};

use inrush_event::first_instant;

use crate::busy_time::WINDOW;

/// Bytes of a window, and of the one before, up to which it is a trickle. A rest of 40 ms gathers
/// less than half of it, which a core's cache holds until it was read.
const BYTES_MAX: usize = 1 << 20;

/// Interval at which what trickles in is handed on. With the queue's round that makes at most 50 ms
/// until it is written.
const TICK: Duration = Duration::from_millis(40);

/// Workers hand on one after the other, so that none waits for the queue's lock; so many, and the
/// others with them.
const TURN: Duration = Duration::from_micros(500);
const TURNS: u32 = 8;

/// The next time that a worker hands on what trickles in: all at about the same time, so that the
/// queue writes it in one round and destinations are woken once.
pub fn tick_after(at: Instant, worker: usize) -> Instant {
    let first = first_instant() + TURN * (worker as u32 % TURNS);
    let into = at.saturating_duration_since(first).as_nanos() % TICK.as_nanos();
    at + TICK - Duration::from_nanos(into as u64)
}

/// Bytes that one worker reads, window by window.
pub struct CoalescingMeter {
    since: Instant,
    bytes: usize,
    before: usize,
}

impl CoalescingMeter {
    /// Meter without a byte read; its first window begins at `now` and lasts [`WINDOW`] at least.
    pub fn new(now: Instant) -> Self {
        Self {
            since: now,
            bytes: 0,
            before: 0,
        }
    }

    /// So many bytes were read.
    pub fn read(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// True if little came of late.
    pub fn holds(&mut self, now: Instant) -> bool {
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
    fn all_hand_on_at_about_the_same_time() {
        let begin = Instant::now();
        for ms in 0..100 {
            let at = begin + Duration::from_millis(ms);
            let first = tick_after(at, 0);
            assert!(at < first && first <= at + TICK);
            assert_eq!(tick_after(first, 0), first + TICK);
            for worker in 0..20 {
                let other = tick_after(first, worker);
                assert!(other == first + TICK || other < first + TURN * TURNS);
            }
        }
    }

    #[test]
    fn a_surge_of_small_reads_is_no_trickle() {
        let begin = Instant::now();
        let mut trickle = CoalescingMeter::new(begin);
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
