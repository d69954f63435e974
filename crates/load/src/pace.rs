//! Pacing: how many messages are due, and how long to sleep, as pure arithmetic.
//!
//! The sender asks once a tick. A tick is as short as it takes to keep bursts at 64 messages, but
//! within 200 µs (below that a sleep costs more than it smooths) and 1 ms. At rates below one
//! message a tick the sleep lasts until the next message is due. What is behind after a stall
//! is caught up at twice the rate at most, so a stall of the sender is not turned into a burst
//! that overruns a receiver which could well take the rate asked for.

const SECOND_NS: u128 = 1_000_000_000;

/// Messages that a tick should hold at most.
const BURST: u64 = 64;

/// Nanoseconds: the shortest tick.
const TICK_MIN_NS: u64 = 200_000;

/// Nanoseconds: the longest tick.
const TICK_MAX_NS: u64 = 1_000_000;

/// The schedule of one thread: its share of a rate over all threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacer {
    /// Messages in `period_ns`.
    messages: u128,
    period_ns: u128,
    /// Messages that are handed out together: the datagrams of one super-datagram, or 1.
    quantum: u64,
    tick_ns: u64,
    /// Messages handed out in one tick at most.
    per_tick_max: u64,
}

impl Pacer {
    /// The share `part / whole` of `rate` messages a second, in multiples of `quantum`. All four
    /// are above 0.
    pub(crate) fn new(rate: u64, part: u64, whole: u64, quantum: u64) -> Self {
        let messages = u128::from(rate) * u128::from(part);
        let period_ns = SECOND_NS * u128::from(whole);
        let tick = u128::from(BURST.max(quantum)) * period_ns / messages;
        let tick_ns = tick.clamp(TICK_MIN_NS.into(), TICK_MAX_NS.into()) as u64;
        let share = (messages * u128::from(tick_ns)).div_ceil(period_ns) as u64;
        let per_tick_max = (2 * share).next_multiple_of(quantum);
        Self {
            messages,
            period_ns,
            quantum,
            tick_ns,
            per_tick_max,
        }
    }

    /// Messages to hand out now, `elapsed_ns` after the start, when `handed` went before. The
    /// first quantum is due at once.
    pub(crate) fn allowance(&self, elapsed_ns: u64, handed: u64) -> u64 {
        let due = (u128::from(elapsed_ns) * self.messages / self.period_ns) as u64 + self.quantum;
        let behind = due.saturating_sub(handed);
        (behind - behind % self.quantum).min(self.per_tick_max)
    }

    /// Nanoseconds to sleep at `elapsed_ns` in the tick that began at `tick_ns`: until the next
    /// quantum is due and the tick is over; 0 if both have passed.
    pub(crate) fn sleep_ns(&self, elapsed_ns: u64, tick_ns: u64, handed: u64) -> u64 {
        let due_ns = (u128::from(handed) * self.period_ns).div_ceil(self.messages) as u64;
        due_ns
            .max(tick_ns + self.tick_ns)
            .saturating_sub(elapsed_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Runs the schedule on a clock that never oversleeps; what each tick handed out.
    fn simulate(pacer: Pacer, until_ns: u64) -> Vec<(u64, u64)> {
        let (mut now, mut handed, mut ticks) = (0, 0, Vec::new());
        while now < until_ns {
            let allowance = pacer.allowance(now, handed);
            handed += allowance;
            ticks.push((now, allowance));
            now += pacer.sleep_ns(now, now, handed);
        }
        ticks
    }

    #[test]
    fn a_slow_rate_sleeps_until_the_next_message() {
        let ticks = simulate(Pacer::new(10, 1, 1, 1), 1_000_000_000);
        let expected: Vec<_> = (0..10).map(|i| (i * 100_000_000, 1)).collect();
        assert_eq!(ticks, expected);
    }

    #[test]
    fn a_high_rate_goes_in_small_even_bursts() {
        let ticks = simulate(Pacer::new(150_000, 1, 1, 1), 1_000_000_000);
        let total: u64 = ticks.iter().map(|(_, n)| n).sum();
        assert!((149_900..=150_000).contains(&total), "{total}");
        assert!(ticks.iter().all(|(_, n)| *n <= 66), "smooth");
    }

    #[test]
    fn after_a_stall_it_catches_up_at_twice_the_rate_at_most() {
        let pacer = Pacer::new(100_000, 1, 1, 1);
        assert_eq!(pacer.allowance(3_000_000_000, 0), 128);
    }

    #[test]
    fn super_datagrams_are_not_split() {
        let ticks = simulate(Pacer::new(150_000, 1, 1, 60), 100_000_000);
        assert!(ticks.iter().all(|(_, n)| n % 60 == 0 && *n <= 120));
    }

    proptest! {
        #[test]
        fn shares_add_up_and_nothing_is_early(
            rate in 1u64..5_000_000, part in 1u64..50, more in 0u64..50, quantum in 1u64..65,
        ) {
            let whole = part + more;
            let pacer = Pacer::new(rate, part, whole, quantum);
            let ticks = simulate(pacer, 20_000_000);
            let mut handed = 0;
            for (now, n) in ticks {
                handed += n;
                let due = u128::from(now) * u128::from(rate) * u128::from(part)
                    / (u128::from(whole) * SECOND_NS) + u128::from(quantum);
                prop_assert!(u128::from(handed) <= due, "early");
                prop_assert!(due - u128::from(handed) < 2 * u128::from(quantum) + 1, "late");
            }
        }
    }
}
