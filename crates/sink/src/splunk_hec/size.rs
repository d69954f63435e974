//! How large a body may be.
//!
//! Large bodies cost less, on both sides: there are fewer requests. But a collector, or what stands
//! before it, may refuse them (old releases of Splunk take 1 MB, Splunk Cloud some 5), and over a
//! thin line one takes longer than a request may. So bodies begin with what everybody takes, and
//! double while they are taken, up to what is configured. One that fails is sent again in smaller
//! ones, and so are those behind it; it is tried again after a while, each time after a longer one.
//! What a collector itself calls too large (413) is not tried again.
//!
//! It knows no clock and no thread.

use std::time::{Duration, Instant};

/// Bytes that every collector takes: `max_content_length` of old releases of Splunk.
const BASE: usize = 1_000_000;

/// Bytes below which a body is not made smaller. What is still too large then is halved each time.
const LEAST: usize = 64 * 1024;

/// Full bodies that are taken before they grow.
const TAKEN_ENOUGH: u32 = 8;

/// Full bodies of the largest size that are taken before what failed earlier is forgotten.
const TAKEN_MANY: u32 = 1000;

/// The time beyond which a request is long enough: larger ones would bring nothing, and a thin line
/// would make them last longer than a request may.
const LONG: Duration = Duration::from_secs(2);

/// The time until larger ones are tried again: at first, and at most.
const PAUSE: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(3600)];

/// Bytes of bodies in flight at most, where the number of requests is not pinned. At 50 ms there and
/// back they are 2.5 GB/s.
const IN_FLIGHT_BYTES_MAX: usize = 128_000_000;

/// Finds the size.
pub(super) struct BodySize {
    now: usize,
    /// What is configured, or less where the collector called that too large.
    most: usize,
    /// Full bodies of this size that were taken.
    taken: u32,
    /// Larger ones are not tried before.
    not_before: Option<Instant>,
    pause: Duration,
}

impl BodySize {
    /// For bodies of at most so many bytes.
    pub(super) fn new(most: usize) -> Self {
        Self {
            now: BASE.min(most),
            most,
            taken: 0,
            not_before: None,
            pause: PAUSE[0],
        }
    }

    /// Bytes of the next body at most.
    pub(super) fn bytes(&self) -> usize {
        self.now
    }

    /// Requests that may be in flight with bodies of this size.
    pub(super) fn requests_max(&self) -> u32 {
        u32::try_from(IN_FLIGHT_BYTES_MAX / self.now.max(1)).map_or(u32::MAX, |n| n.max(1))
    }

    /// A body of so many bytes was taken after `took`; whether they grow by it.
    pub(super) fn taken(&mut self, bytes: usize, took: Duration, now: Instant) -> bool {
        let is_early = self.not_before.is_some_and(|at| now < at);
        if is_early || took > LONG || 2 * bytes < self.now {
            return false;
        }
        self.taken = self.taken.saturating_add(1);
        if self.now >= self.most {
            if self.taken >= TAKEN_MANY {
                self.pause = PAUSE[0];
            }
            return false;
        }
        let grows = self.taken >= TAKEN_ENOUGH;
        if grows {
            (self.now, self.taken) = ((2 * self.now).min(self.most), 0);
        }
        grows
    }

    /// A request of so many bytes failed, and nobody knows whether that is why; `true` if it is to
    /// be sent in smaller ones.
    pub(super) fn failed(&mut self, bytes: usize, now: Instant) -> bool {
        if bytes <= BASE {
            return false;
        }
        // Those that were under way with it say the same.
        if self.now > BASE {
            self.now = BASE;
            self.not_before = Some(now + self.pause);
            self.pause = (2 * self.pause).min(PAUSE[1]);
            self.taken = 0;
        }
        true
    }

    /// The collector said that so many bytes, of several events, are too many; whether they are
    /// fewer from now on.
    pub(super) fn too_large(&mut self, bytes: usize) -> bool {
        let most = (bytes / 2).max(LEAST.min(self.most));
        if most >= self.most {
            return false;
        }
        let shrinks = most < self.now;
        (self.most, self.taken, self.now) = (most, 0, self.now.min(most));
        shrinks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(5);

    /// So many full bodies are taken.
    fn take(size: &mut BodySize, bodies: u32, now: Instant) {
        for _ in 0..bodies {
            size.taken(size.bytes(), SHORT, now);
        }
    }

    #[test]
    fn bodies_grow_while_full_ones_are_taken() {
        let now = Instant::now();
        let mut size = BodySize::new(4_000_000);
        take(&mut size, TAKEN_ENOUGH - 1, now);
        size.taken(10_000, SHORT, now);
        size.taken(BASE, 2 * LONG, now);
        assert_eq!(
            size.bytes(),
            BASE,
            "one that was hardly filled says nothing, nor one over a thin line"
        );
        assert!(size.taken(BASE - 500, SHORT, now));
        assert_eq!((size.bytes(), size.requests_max()), (2_000_000, 64));
        take(&mut size, 10 * TAKEN_ENOUGH, now);
        assert_eq!((size.bytes(), size.requests_max()), (4_000_000, 32));
        let mut small = BodySize::new(10_000);
        take(&mut small, 10 * TAKEN_ENOUGH, now);
        assert_eq!(small.bytes(), 10_000);
    }

    #[test]
    fn what_fails_is_sent_in_smaller_ones_and_tried_again_later() {
        let mut now = Instant::now();
        let mut size = BodySize::new(4_000_000);
        assert!(!size.failed(BASE, now), "it is not its size");
        let mut pauses = Vec::new();
        for _ in 0..10 {
            take(&mut size, 3 * TAKEN_ENOUGH, now);
            assert_eq!(size.bytes(), 4_000_000);
            let failed = now;
            // Two were under way.
            assert!(size.failed(3_900_000, now) && size.failed(3_900_000, now));
            assert_eq!(size.bytes(), BASE);
            while size.bytes() == BASE {
                now += Duration::from_secs(1);
                take(&mut size, TAKEN_ENOUGH, now);
            }
            pauses.push(now - failed);
        }
        assert_eq!(pauses[..2], [PAUSE[0], 2 * PAUSE[0]]);
        assert_eq!(pauses.last(), Some(&PAUSE[1]));
        take(&mut size, 2 * TAKEN_ENOUGH + TAKEN_MANY, now);
        assert!(size.failed(3_900_000, now));
        take(&mut size, TAKEN_ENOUGH, now + PAUSE[0]);
        assert_eq!(size.bytes(), 2_000_000, "long ago");
    }

    #[test]
    fn what_is_called_too_large_is_not_tried_again() {
        let mut now = Instant::now();
        let mut size = BodySize::new(4_000_000);
        take(&mut size, 3 * TAKEN_ENOUGH, now);
        // Three were under way.
        assert!(size.too_large(3_999_000));
        assert!(!size.too_large(3_999_500) && !size.too_large(3_999_000));
        assert_eq!(size.bytes(), 1_999_500);
        assert!(size.too_large(1_999_000));
        now += 2 * PAUSE[1];
        take(&mut size, 100, now);
        assert_eq!(size.bytes(), 999_500);
        for _ in 0..20 {
            size.too_large(size.bytes());
        }
        assert_eq!(size.bytes(), LEAST);
        let mut small = BodySize::new(10_000);
        assert!(!small.too_large(9_000));
        assert_eq!(small.bytes(), 10_000, "each one is halved");
    }
}
