//! Growth of counters since each was first seen.

use std::collections::HashMap;

use crate::Cause;

/// Counters remembered before those are forgotten that are gone: a host that makes and removes
/// interfaces all day must not fill our memory with their names.
const COUNTERS_MAX: usize = 4096;

/// One counter of the host.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct CounterKey {
    pub(crate) what: CounterKind,
    /// The interface, or the CPU's number.
    pub(crate) device: String,
}

/// Kind of counter. Beside those that mean loss there are the sums that contain them, the parts of
/// IPv6, and used-up budgets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum CounterKind {
    Loss(Cause),
    TimeSqueeze,
    UdpErrors,
    Udp6Errors,
    Udp6ReceiveBuffer,
    Udp6NoPorts,
    ListenDrops,
}

impl CounterKind {
    /// True if the kernel keeps it in 32 bits, so that it begins at 0 again after 2³².
    const fn wraps(self) -> bool {
        matches!(self, Self::TimeSqueeze | Self::Loss(Cause::SoftnetDropped))
    }
}

struct CounterState {
    last: u64,
    grown: u64,
    /// The round of reading in which it was last there.
    round: u64,
}

/// Last value and growth of each counter.
#[derive(Default)]
pub(crate) struct Growth {
    seen: HashMap<CounterKey, CounterState>,
    round: u64,
}

impl Growth {
    /// Begins a round of reading.
    pub(crate) fn begin(&mut self) {
        if self.seen.len() > COUNTERS_MAX {
            let round = self.round;
            self.seen.retain(|_, seen| seen.round == round);
        }
        self.round += 1;
    }

    /// Takes note of a value; returns how far the counter has grown since it was first seen.
    pub(crate) fn note(&mut self, key: CounterKey, value: u64) -> u64 {
        let wraps = key.what.wraps();
        let seen = self.seen.entry(key).or_insert(CounterState {
            last: value,
            grown: 0,
            round: 0,
        });
        seen.grown += match value.checked_sub(seen.last) {
            Some(more) => more,
            None if wraps => u64::from((value as u32).wrapping_sub(seen.last as u32)),
            // It began again at 0.
            None => value,
        };
        (seen.last, seen.round) = (value, self.round);
        seen.grown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(what: CounterKind, device: &str) -> CounterKey {
        CounterKey {
            what,
            device: device.to_owned(),
        }
    }

    #[test]
    fn what_was_there_before_us_is_not_counted() {
        let mut growth = Growth::default();
        let mut note = |value| growth.note(key(CounterKind::UdpErrors, ""), value);
        assert_eq!([note(1000), note(1000), note(1003)], [0, 0, 3]);
    }

    #[test]
    fn a_counter_that_begins_again_goes_on() {
        let mut growth = Growth::default();
        let mut note = |value| growth.note(key(CounterKind::Loss(Cause::NicMissed), "eth0"), value);
        assert_eq!([note(10), note(15), note(2), note(3)], [0, 5, 7, 8]);
    }

    #[test]
    fn a_counter_of_32_bits_wraps() {
        let mut growth = Growth::default();
        let mut note = |value| growth.note(key(CounterKind::TimeSqueeze, "0"), value);
        assert_eq!([note(u64::from(u32::MAX)), note(4)], [0, 5]);
    }

    #[test]
    fn names_that_come_and_go_do_not_fill_the_memory() {
        let mut growth = Growth::default();
        for round in 0..3 * COUNTERS_MAX {
            growth.begin();
            let device = format!("veth{round}");
            growth.note(key(CounterKind::Loss(Cause::NicDropped), &device), 7);
            growth.note(key(CounterKind::UdpErrors, ""), round as u64);
        }
        assert!(
            growth.seen.len() <= COUNTERS_MAX + 2,
            "{}",
            growth.seen.len()
        );
        let kept = growth.note(key(CounterKind::UdpErrors, ""), 3 * COUNTERS_MAX as u64);
        assert_eq!(kept, 3 * COUNTERS_MAX as u64, "what stays is not forgotten");
    }
}
