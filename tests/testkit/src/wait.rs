//! Waiting for a condition, with a deadline.

use std::time::{Duration, Instant};

/// Longest wait for a condition. Generous: a machine may be slow, and a passing test never waits.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Polls until `probe` gives something.
///
/// # Panics
/// After [`DEADLINE`], with `what`.
pub fn eventually<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(
            Instant::now() < end,
            "waited {DEADLINE:?} in vain for: {what}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}
