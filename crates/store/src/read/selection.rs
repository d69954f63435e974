//! Some of the rows of a piece.

use std::ops::Range;

use arrow_array::BooleanArray;
use arrow_buffer::BooleanBufferBuilder;
use parquet::arrow::arrow_reader::RowSelection;

/// Some of the rows of a piece, by their numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// In order; neither empty nor touching each other.
    ranges: Vec<Range<usize>>,
    rows: usize,
}

impl Selection {
    /// Adds rows; all of them come behind those that are in it.
    pub fn push(&mut self, rows: Range<usize>) {
        debug_assert!(self.ranges.last().is_none_or(|last| last.end <= rows.start));
        if rows.is_empty() {
            return;
        }
        self.rows += rows.len();
        match self.ranges.last_mut() {
            Some(last) if last.end == rows.start => last.end = rows.end,
            _ => self.ranges.push(rows),
        }
    }

    /// The rows with these numbers, which are in order.
    pub fn of(rows: impl IntoIterator<Item = usize>) -> Self {
        let mut selection = Self::default();
        rows.into_iter()
            .for_each(|row| selection.push(row..row + 1));
        selection
    }

    /// The rows of the range.
    pub fn all(rows: usize) -> Self {
        let mut selection = Self::default();
        selection.push(0..rows);
        selection
    }

    /// Number of rows in it.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// True if no row is in it.
    pub const fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Its rows as ranges, in order.
    pub fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }

    /// The first rows of it, so many at most.
    pub(super) fn first(&self, rows: usize) -> Self {
        let mut first = Self::default();
        for range in &self.ranges {
            let left = rows - first.rows;
            if left == 0 {
                break;
            }
            first.push(range.start..range.end.min(range.start.saturating_add(left)));
        }
        first
    }

    /// Takes the first rows out.
    pub(super) fn pass(&mut self, rows: usize) {
        let mut left = rows;
        let mut done = 0;
        for range in &mut self.ranges {
            let out = range.len().min(left);
            range.start += out;
            left -= out;
            self.rows -= out;
            if range.start < range.end {
                break;
            }
            done += 1;
        }
        self.ranges.drain(..done);
    }

    /// The numbers of its rows, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.ranges.iter().cloned().flatten()
    }

    /// For Parquet, out of `total` rows.
    pub(super) fn for_parquet(&self, total: usize) -> RowSelection {
        RowSelection::from_consecutive_ranges(self.ranges.iter().cloned(), total)
    }

    /// As a mask over `total` rows.
    pub(super) fn mask(&self, total: usize) -> BooleanArray {
        let mut mask = BooleanBufferBuilder::new(total);
        for range in &self.ranges {
            mask.append_n(range.start.saturating_sub(mask.len()), false);
            mask.append_n(range.len(), true);
        }
        mask.append_n(total.saturating_sub(mask.len()), false);
        BooleanArray::new(mask.finish(), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_touch_are_one_range() {
        let selection = Selection::of([0, 1, 2, 5, 7, 8]);
        assert_eq!(selection.ranges, [0..3, 5..6, 7..9]);
        assert_eq!(selection.rows(), 6);
        assert_eq!(selection.iter().collect::<Vec<_>>(), [0, 1, 2, 5, 7, 8]);
        let mask = selection.mask(10);
        let set: Vec<usize> = (0..10).filter(|&row| mask.value(row)).collect();
        assert_eq!(set, [0, 1, 2, 5, 7, 8]);
        assert_eq!(selection.for_parquet(10).row_count(), 6);
        assert!(Selection::all(0).is_empty());
    }

    #[test]
    fn the_first_rows_are_taken_out() {
        let whole = Selection::of([0, 1, 2, 5, 7, 8]);
        for rows in 0..=7 {
            let mut left = whole.clone();
            let mut all: Vec<usize> = left.first(rows).iter().collect();
            assert_eq!(all.len(), rows.min(6));
            left.pass(rows);
            assert_eq!(left.rows(), left.iter().count());
            all.extend(left.iter());
            assert_eq!(all, [0, 1, 2, 5, 7, 8]);
        }
    }
}
