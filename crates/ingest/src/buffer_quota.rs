//! The account of what connections make a worker keep: frames that are not complete, and answers
//! that their peers do not read.
//!
//! Each worker has its share of the budget, so that the connections of one starve no other's. When
//! a share is used up, the connections whose frame has stood longest are relieved of it
//! ([`BufferQuota::excess`]): whoever makes progress has a new frame every time and is not
//! concerned.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use inrush_event::instant_now;

/// Part of the share, in percent, that is left in use once it was used up: so that not every read
/// looks for who has to go.
const LEFT_PERCENT: u64 = 75;

/// One worker's share of the memory for what connections keep.
#[derive(Clone)]
pub struct BufferQuota {
    used: Arc<AtomicU64>,
    bytes_max: u64,
}

impl BufferQuota {
    /// Share of `bytes_max` bytes for one worker's connections, none of them in use yet.
    pub fn of(bytes_max: u64) -> Self {
        Self {
            used: Arc::default(),
            bytes_max,
        }
    }

    /// An account of one connection.
    pub fn hold(&self) -> BufferAccount {
        BufferAccount {
            used: Arc::clone(&self.used),
            bytes: 0,
            since: instant_now(),
        }
    }

    /// True if more bytes are kept than the share has.
    pub fn is_over(&self) -> bool {
        self.used.load(Relaxed) > self.bytes_max
    }

    /// The keys of those that have to go, those first that have stood longest.
    pub fn excess(&self, mut held: Vec<(Instant, u64, usize)>) -> Vec<usize> {
        held.sort_unstable();
        let left = self.bytes_max / 100 * LEFT_PERCENT;
        let mut over = self.used.load(Relaxed).saturating_sub(left);
        let goes = |(_, bytes, key): (Instant, u64, usize)| {
            let goes = over > 0;
            over = over.saturating_sub(bytes);
            goes.then_some(key)
        };
        held.into_iter().map_while(goes).collect()
    }
}

/// Account of the bytes that one connection makes its worker keep.
pub struct BufferAccount {
    used: Arc<AtomicU64>,
    bytes: u64,
    since: Instant,
}

impl BufferAccount {
    /// It is so much now; since this moment, if it is something new.
    pub fn set(&mut self, bytes: usize, new: Option<Instant>) {
        let bytes = bytes as u64;
        if let Some(now) = new {
            self.since = now;
        }
        if bytes > self.bytes {
            self.used.fetch_add(bytes - self.bytes, Relaxed);
        } else if bytes < self.bytes {
            self.used.fetch_sub(self.bytes - bytes, Relaxed);
        }
        self.bytes = bytes;
    }

    /// Bytes kept for the connection: memory of its unfinished frame, and answers not yet read.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Time at which the present frame began to stand; a new frame renews it.
    pub fn since(&self) -> Instant {
        self.since
    }
}

impl Drop for BufferAccount {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn those_that_stand_longest_go_until_there_is_room() {
        let share = BufferQuota::of(1000);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut held: Vec<BufferAccount> = (0..11).map(|_| share.hold()).collect();
        for (n, one) in held.iter_mut().enumerate() {
            one.set(100, Some(at(n as u64)));
        }
        assert!(share.is_over());
        // The oldest makes progress.
        held[0].set(100, Some(at(50)));
        held[1].set(100, None);
        let rows = |held: &[BufferAccount]| {
            let row = |(key, one): (usize, &BufferAccount)| (one.since(), one.bytes(), key);
            held.iter().enumerate().map(row).collect()
        };
        assert_eq!(share.excess(rows(&held)), [1, 2, 3, 4]);
        held.drain(1..5);
        assert!(!share.is_over());
        assert!(share.excess(rows(&held)).is_empty());
        drop(held);
        assert_eq!(share.used.load(Relaxed), 0);
    }
}
