//! Columns.

use inrush_event::Span;

use crate::event::Event;

/// How columns are written, and what they are called.
#[derive(Clone, Debug)]
pub struct Csv {
    /// Names in order; an empty one is skipped.
    pub columns: Vec<String>,
    /// Between columns.
    pub delimiter: Vec<u8>,
    /// The character that a column may stand in; written twice, it stands for itself.
    pub quote: Option<u8>,
    /// Whether the last column takes the rest.
    pub greedy: bool,
}

impl Csv {
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
    }

    /// Reads as many columns as there are; there must be two, or as many as there are names.
    pub(super) fn read(&self, bytes: &[u8], span: Span, keep: bool, event: &mut Event<'_>) -> bool {
        let mut at = 0;
        let mut read = 0;
        for (index, name) in self.columns.iter().enumerate() {
            let last = index + 1 == self.columns.len();
            let (from, to, next) = if last && self.greedy {
                (at, bytes.len(), None)
            } else {
                self.column(bytes, at)
            };
            read += 1;
            if !name.is_empty() {
                let text = Span::new(span.start() + from, span.start() + to);
                // What nothing asks for was taken out before.
                event.add_wanted(name.as_bytes(), text, keep, false);
            }
            match next {
                Some(next) => at = next,
                None => break,
            }
        }
        read >= self.columns.len().min(2)
    }

    /// Where the column that begins at `at` lies, and where the next one begins.
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
