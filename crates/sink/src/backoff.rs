//! Pauses between attempts: doubling, capped, jittered.

use std::time::Duration;

use inrush_event::Feed;

/// Interval at which a waiting sink polls for the stop of the process. Each poll wakes a processor
/// up: at 50 ms, the workers of one dead destination took 1 % of what 100,000 events a second take.
const STOP_POLL: Duration = Duration::from_millis(200);

/// The pause after the `failures`-th failure in a row: `first` doubled each time up to `cap`,
/// then shortened by up to half, so that many clients of a revived server do not come at once.
pub(crate) fn pause(failures: u32, first: Duration, cap: Duration) -> Duration {
    let doubled = first.saturating_mul(1 << failures.saturating_sub(1).min(20));
    doubled.min(cap).mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// Waits, but not beyond the moment when the process stops.
pub(crate) fn wait(feed: &dyn Feed, how_long: Duration) {
    let mut left = how_long;
    while !left.is_zero() && !feed.stopping() {
        let step = left.min(STOP_POLL);
        std::thread::sleep(step);
        left -= step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_cap_and_keep_at_least_half() {
        let (first, cap) = (Duration::from_millis(100), Duration::from_secs(30));
        for (failures, full_ms) in [(0, 100), (1, 100), (2, 200), (5, 1600), (40, 30_000)] {
            for _ in 0..100 {
                let ms = pause(failures, first, cap).as_millis();
                assert!(ms >= full_ms / 2 && ms <= full_ms, "{failures}: {ms}");
            }
        }
    }
}
