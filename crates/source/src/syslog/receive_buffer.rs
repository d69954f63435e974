//! Size of a socket's receive buffer: small while more comes than can be taken.
//!
//! A large buffer bridges a pause of the reader and a burst of senders. While a reader has had no
//! rest for a second and datagrams are lost all the time, it bridges nothing: it is full, whatever
//! its size. What waits in it is then old, and so much that no cache holds it, and reading it from
//! memory takes a fifth more time for each. So it is made small until the reader has rest again.

use std::time::{Duration, Instant};

use inrush_ingest::busy_time::{BusyTimer, BusyWindow};

/// A reader that has been busy for this share of the window cannot keep up, if something was lost.
const BUSY: f64 = 0.95;

/// Once the buffer is small: below this share the reader has caught up.
const CALM: f64 = 0.8;

/// Windows on end with losses and without rest until the buffer is made small.
const WINDOWS: u32 = 10;

/// The small buffer: a second-level cache, and more than a thread is off its core for.
const SMALL_BYTES: u64 = 1 << 20;

/// Watches the reader of one socket.
pub(crate) struct ReceiveBufferTuner {
    /// Bytes of receive buffer that the kernel granted at first.
    granted_bytes: u64,
    small: bool,
    busy: BusyTimer,
    /// Losses of the socket when they were last looked at.
    drops: u32,
    /// Windows on end with losses and without rest.
    losing: u32,
}

impl ReceiveBufferTuner {
    /// Of a socket with a receive buffer of so many bytes.
    pub(crate) fn new(granted_bytes: u64) -> Self {
        Self {
            granted_bytes,
            small: false,
            busy: BusyTimer::new(),
            drops: 0,
            losing: 0,
        }
    }

    /// The reader has slept.
    pub(crate) fn rested(&mut self, time: Duration) {
        self.busy.rested(time);
    }

    /// The size of the buffer from now on, if it is to change. `drops`, the losses of the socket so
    /// far, is asked for once in a window in which that matters.
    pub(crate) fn judge(
        &mut self,
        now: Instant,
        drops: impl FnOnce() -> Option<u32>,
    ) -> Option<u64> {
        let BusyWindow { busy, .. } = self.busy.window(now)?;
        if self.granted_bytes <= SMALL_BYTES {
            return None;
        }
        if self.small {
            self.small = busy >= CALM;
            return (!self.small).then_some(self.granted_bytes);
        }
        if busy < BUSY {
            self.losing = 0;
            return None;
        }
        let drops = drops()?;
        let lost = drops != std::mem::replace(&mut self.drops, drops);
        self.losing = if lost { self.losing + 1 } else { 0 };
        if self.losing <= WINDOWS {
            return None;
        }
        (self.small, self.losing) = (true, 0);
        Some(SMALL_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inrush_ingest::busy_time::WINDOW;

    const LARGE: u64 = 64 << 20;

    /// A reader, and the windows of its life so far.
    struct Life(ReceiveBufferTuner, u32);

    impl Life {
        /// A window with so much rest, in per cent, and so many losses.
        fn window(&mut self, rest: u32, lost: u32) -> Option<u64> {
            self.1 += lost;
            self.0.rested(WINDOW * rest / 100);
            let (end, drops) = (self.0.busy.end(), self.1);
            self.0.judge(end, || Some(drops))
        }
    }

    #[test]
    fn a_second_of_losses_without_rest_makes_it_small_and_rest_makes_it_large() {
        let mut life = Life(ReceiveBufferTuner::new(LARGE), 0);
        for _ in 0..WINDOWS {
            assert_eq!(life.window(0, 9), None);
        }
        assert_eq!(life.window(2, 9), Some(SMALL_BYTES));
        for _ in 0..50 {
            assert_eq!(life.window(10, 9), None, "as long as it has no rest");
        }
        assert_eq!(life.window(30, 0), Some(LARGE));
        assert_eq!(life.window(0, 9), None, "from the beginning");
    }

    #[test]
    fn a_burst_leaves_it_large() {
        let mut life = Life(ReceiveBufferTuner::new(LARGE), 0);
        for _ in 0..20 {
            for _ in 0..WINDOWS {
                assert_eq!(life.window(0, 9), None);
            }
            // The backlog of a burst is read without rest, and without a loss.
            assert_eq!(life.window(0, 0), None);
        }
        for _ in 0..20 {
            for _ in 0..WINDOWS {
                assert_eq!(life.window(0, 9), None);
            }
            assert_eq!(life.window(50, 9), None, "there was rest");
        }
    }

    #[test]
    fn a_buffer_that_is_small_anyway_is_left_alone() {
        let mut life = Life(ReceiveBufferTuner::new(212_992), 0);
        for _ in 0..50 {
            assert_eq!(life.window(0, 9), None);
        }
    }
}
