//! Arithmetic on sorted lists of ranges that do not touch.

use std::ops::Range;

/// Numbers that can be counted.
pub(crate) trait Number: Copy + Ord {
    fn distance(from: Self, to: Self) -> u64;
}

impl Number for u32 {
    fn distance(from: Self, to: Self) -> u64 {
        u64::from(to - from)
    }
}

impl Number for u64 {
    fn distance(from: Self, to: Self) -> u64 {
        to - from
    }
}

/// Count of the numbers in the ranges.
pub(crate) fn total<N: Number>(ranges: &[Range<N>]) -> u64 {
    ranges.iter().map(|r| N::distance(r.start, r.end)).sum()
}

/// Removes `taken` from the ranges; returns how many numbers that removed.
pub(crate) fn subtract<N: Number>(ranges: &mut Vec<Range<N>>, taken: &Range<N>) -> u64 {
    let before = total(ranges);
    let mut left = Vec::with_capacity(ranges.len() + 1);
    for range in ranges.iter() {
        let below = range.start..range.end.min(taken.start);
        let above = range.start.max(taken.end)..range.end;
        left.extend([below, above].into_iter().filter(|r| r.start < r.end));
    }
    *ranges = left;
    before - total(ranges)
}

/// Count of the ranges' numbers that lie in `within`.
pub(crate) fn overlap<N: Number>(ranges: &[Range<N>], within: &Range<N>) -> u64 {
    let common = |r: &Range<N>| (r.start.max(within.start), r.end.min(within.end));
    ranges
        .iter()
        .map(common)
        .filter(|(start, end)| start < end)
        .map(|(start, end)| N::distance(start, end))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_subtracted_once() {
        let mut ranges: Vec<Range<u32>> = std::iter::once(0..10).collect();
        assert_eq!(subtract(&mut ranges, &(3..5)), 2);
        assert_eq!(ranges, [0..3, 5..10]);
        assert_eq!(
            subtract(&mut ranges, &(2..6)),
            2,
            "3 and 4 were taken before"
        );
        assert_eq!(ranges, [0..2, 6..10]);
        assert_eq!(overlap(&ranges, &(1..8)), 3);
        assert_eq!(subtract(&mut ranges, &(0..10)), 6);
        assert!(ranges.is_empty());
    }
}
