//! Budget of bytes that a log may read, where its rate is bounded.

use std::time::{Duration, Instant};

/// Bytes that are read at once at the least: a lower rate rests longer between two reads.
const READ_BYTES_MIN: u64 = 4096;

/// Bytes that may be read: those of a second at most, and those of the time since.
#[derive(Debug, Default)]
pub(super) struct ReadBudget {
    /// `None` until a rate was asked for: most logs have none.
    given: Option<Box<GivenBytes>>,
}

#[derive(Debug, Default)]
struct GivenBytes {
    bytes: u64,
    /// Time up to which they were given.
    to: Option<Instant>,
}

impl ReadBudget {
    /// Bytes that may be read at `rate` bytes a second.
    ///
    /// # Errors
    /// None now: the time at which some may.
    pub(super) fn room(&mut self, rate: u64, now: Instant) -> Result<usize, Instant> {
        let most = rate.max(READ_BYTES_MIN);
        let given = self.given.get_or_insert_default();
        let since = given.to.map(|to| now.saturating_duration_since(to));
        let earned = match since {
            None => most,
            Some(since) => (since.as_secs_f64() * rate as f64) as u64,
        };
        // What is less than a byte goes on growing.
        if earned > 0 || given.to.is_none() {
            given.to = Some(now);
            given.bytes = given.bytes.saturating_add(earned).min(most);
        }
        let least = READ_BYTES_MIN.min(most);
        match given.bytes.checked_sub(least) {
            Some(_) => Ok(usize::try_from(given.bytes).unwrap_or(usize::MAX)),
            None => {
                let lacks = (least - given.bytes) as f64 / rate.max(1) as f64;
                // At least a tick, so that rounding is no loop.
                let wait = Duration::from_secs_f64(lacks.min(3600.0)).max(Duration::from_millis(5));
                Err(now + wait)
            }
        }
    }

    /// So many bytes were read.
    pub(super) fn take(&mut self, bytes: usize) {
        if let Some(given) = &mut self.given {
            given.bytes = given.bytes.saturating_sub(bytes as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_at_the_rate() {
        for rate in [1_u64, 100, 10_000, 1_000_000] {
            let start = Instant::now();
            let (mut budget, mut now, mut read) = (ReadBudget::default(), start, 0);
            while now < start + Duration::from_secs(20_000) && read < 100 * rate {
                match budget.room(rate, now) {
                    Ok(bytes) => {
                        budget.take(bytes);
                        read += bytes as u64;
                    }
                    Err(at) => {
                        assert!(at > now);
                        now = at;
                    }
                }
            }
            let seconds = now.duration_since(start).as_secs_f64();
            let first = rate.max(READ_BYTES_MIN) as f64;
            let most = first + seconds * rate as f64;
            assert!(read as f64 <= most + 1.0, "{rate}: {read} in {seconds} s");
            assert!(
                read as f64 >= most * 0.9 - first,
                "{rate}: {read} in {seconds} s"
            );
        }
    }
}
