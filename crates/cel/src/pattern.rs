//! A pattern that many threads look for at the same time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use regex::Regex;

/// Copies for each core: there are more threads than cores, and which of them have expressions to
/// run nobody knows.
const COPIES_PER_CORE: usize = 4;

/// Copies, at most: a copy takes a kilobyte.
const COPIES_MAX: usize = 128;

/// The number of the next thread.
static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
}

/// A pattern, and a copy of it for each thread that runs. A search writes to what the pattern
/// keeps for searches: shared by two cores it would be fetched from the other one each time, which
/// costs more than the search of a short text.
pub(crate) struct RegexPool(Box<[Regex]>);

impl RegexPool {
    pub(crate) fn new(regex: &Regex) -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        let copies = (COPIES_PER_CORE * cores).min(COPIES_MAX);
        Self(vec![regex.clone(); copies].into())
    }

    /// The copy of this thread.
    pub(crate) fn here(&self) -> &Regex {
        &self.0[NUMBER.with(|number| *number) % self.0.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_copies_of_their_own_as_far_as_there_are_some() {
        let regex = Regex::new("a+").expect("a pattern");
        let pattern = RegexPool(vec![regex; 2].into());
        let place = |pattern: &RegexPool| std::ptr::from_ref(pattern.here()).addr();
        assert_eq!(place(&pattern), place(&pattern), "the same each time");
        let begin = NEXT.load(Ordering::Relaxed);
        let places: Vec<usize> = (0..16)
            .map(|_| {
                let there = || std::thread::scope(|s| s.spawn(|| place(&pattern)).join());
                there().expect("a thread")
            })
            .collect();
        assert!(NEXT.load(Ordering::Relaxed) >= begin + 16);
        let mut known = places;
        known.sort_unstable();
        known.dedup();
        assert_eq!(known.len(), 2);
    }
}
