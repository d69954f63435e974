//! Columns.

use inrush_event::{SimdBlock, Span};

use crate::event::Event;

/// Format of columns, and their names.
#[derive(Clone, Debug)]
pub struct Csv {
    /// Names in order; an empty one is skipped.
    columns: Vec<String>,
    /// Between columns.
    delimiter: Vec<u8>,
    /// The character that a column may stand in; written twice, it stands for itself.
    quote: Option<u8>,
    /// True if the last column takes the rest.
    greedy: bool,
    /// Places of the columns that have a name.
    wanted: Vec<u32>,
}

impl Csv {
    /// Columns between these bytes.
    pub fn new(columns: Vec<String>, delimiter: Vec<u8>, quote: Option<u8>, greedy: bool) -> Self {
        let mut csv = Self {
            columns,
            delimiter,
            quote,
            greedy,
            wanted: Vec::new(),
        };
        csv.retain(|_| true);
        csv
    }

    /// Leaves out the columns that nothing asks for.
    pub(crate) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        for column in &mut self.columns {
            if !keep(column) {
                column.clear();
            }
        }
        if !self.greedy {
            let last = self.columns.iter().rposition(|column| !column.is_empty());
            // Two columns tell that it is a list at all.
            self.columns
                .truncate(last.map_or(0, |last| last + 1).max(2));
        }
        let columns = (0..).zip(&self.columns);
        let wanted = columns.filter(|(_, column)| !column.is_empty());
        self.wanted = wanted.map(|(at, _)| at).collect();
    }

    /// Reads as many columns as there are; there must be two, or as many as there are names.
    pub(super) fn read(&self, bytes: &[u8], span: Span, keep: bool, event: &mut Event<'_>) -> bool {
        // What nothing asks for was taken out before.
        let add = |column: usize, from: usize, to: usize| {
            let text = Span::new(span.start() + from, span.start() + to);
            event.add_wanted(self.columns[column].as_bytes(), text, keep, false);
        };
        let read = match (self.delimiter.as_slice(), self.greedy) {
            ([delimiter], false) => self.by_blocks(*delimiter, bytes, add),
            _ => self.by_columns(bytes, add),
        };
        read >= self.columns.len().min(2)
    }

    /// Hands columns that have a name to `add`, with where they begin and end; how many there are.
    fn by_columns(&self, bytes: &[u8], mut add: impl FnMut(usize, usize, usize)) -> usize {
        let mut at = 0;
        for (index, name) in self.columns.iter().enumerate() {
            let last = index + 1 == self.columns.len();
            let (from, to, next) = if last && self.greedy {
                (at, bytes.len(), None)
            } else {
                self.column(bytes, at)
            };
            if !name.is_empty() {
                add(index, from, to);
            }
            match next {
                Some(next) => at = next,
                None => return index + 1,
            }
        }
        self.columns.len()
    }

    /// The same where one byte stands between columns: those without a name are counted, by blocks
    /// of bytes, rather than looked for.
    fn by_blocks(
        &self,
        delimiter: u8,
        bytes: &[u8],
        mut add: impl FnMut(usize, usize, usize),
    ) -> usize {
        let count = self.columns.len();
        let mut wanted = self.wanted.iter().map(|at| *at as usize).peekable();
        // The column that begins at `start`, and the block at `at`, which is not before it.
        let (mut column, mut start, mut at) = (0, 0, 0);
        loop {
            let block = SimdBlock::at(bytes, at);
            let delimiters = block.equal(delimiter);
            let begins = delimiters << 1 | u64::from(at == start);
            let quoted = self.quote.map_or(0, |quote| block.equal(quote)) & begins;
            let before = quoted
                .checked_sub(1)
                .map_or(u64::MAX, |less| less & !quoted);
            let mut ends = delimiters & before;
            while let Some(next) = wanted.next_if(|at| *at < column + ends.count_ones() as usize) {
                for _ in column..next {
                    start = at + ends.trailing_zeros() as usize + 1;
                    ends &= ends - 1;
                }
                let end = at + ends.trailing_zeros() as usize;
                add(next, start, end);
                ends &= ends - 1;
                (column, start) = (next + 1, end + 1);
            }
            column += ends.count_ones() as usize;
            if column >= count {
                return count;
            }
            if ends != 0 {
                start = at + SimdBlock::BYTES - ends.leading_zeros() as usize;
            }
            if quoted != 0 {
                let (from, to, next) = self.column(bytes, start);
                if wanted.next_if_eq(&column).is_some() {
                    add(column, from, to);
                }
                column += 1;
                match next {
                    Some(next) if column < count => (start, at) = (next, next),
                    _ => return column,
                }
                continue;
            }
            at += SimdBlock::BYTES;
            if at >= bytes.len() {
                if wanted.next_if_eq(&column).is_some() {
                    add(column, start, bytes.len());
                }
                return column + 1;
            }
        }
    }

    /// Start and end of the column that begins at `at`, and start of the next one.
    fn column(&self, bytes: &[u8], at: usize) -> (usize, usize, Option<usize>) {
        let rest = &bytes[at..];
        let mut end = 0;
        let quoted = self.quote.filter(|quote| rest.first() == Some(quote));
        if let Some(quote) = quoted {
            let mut from = 1;
            while let Some(found) = rest.get(from..).and_then(|r| memchr::memchr(quote, r)) {
                end = from + found + 1;
                if rest.get(end) != Some(&quote) {
                    break;
                }
                from = end + 1;
            }
        }
        let found = match self.delimiter.as_slice() {
            [one] => memchr::memchr(*one, &rest[end..]),
            more => memchr::memmem::find(&rest[end..], more),
        };
        let stop = found.map_or(rest.len(), |found| end + found);
        let next = found.map(|_| at + stop + self.delimiter.len());
        if end > 1 && end == stop {
            return (at + 1, at + end - 1, next);
        }
        (at, at + stop, next)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The columns as one way finds them.
    type Found = (Vec<(usize, usize, usize)>, usize);

    fn both(csv: &Csv, text: &[u8]) -> (Found, Found) {
        let (mut one, mut other) = (Vec::new(), Vec::new());
        let by_blocks = csv.by_blocks(b',', text, |at, from, to| one.push((at, from, to)));
        let by_columns = csv.by_columns(text, |at, from, to| other.push((at, from, to)));
        ((one, by_blocks), (other, by_columns))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn blocks_find_what_one_column_after_the_other_does(
            names in proptest::collection::vec(proptest::bool::ANY, 0..90),
            text in r#"([a,"]{0,90}|(a{0,40},){0,9}|(("[a,]{0,40}"|a{0,9}),){0,30}"?)"#,
            quoted in proptest::bool::ANY,
        ) {
            let name = |is_named: &bool| if *is_named { "x" } else { "" };
            let columns = names.iter().map(|is_named| name(is_named).to_owned()).collect();
            let csv = Csv::new(columns, b",".to_vec(), quoted.then_some(b'"'), false);
            let (blocks, columns) = both(&csv, text.as_bytes());
            prop_assert_eq!(blocks, columns);
        }
    }
}
