//! A text column with few values, built by number: a value is copied and checked once a batch, and
//! each row takes a view of it.

use arrow_array::builder::{ArrayBuilder, StringViewBuilder};
use arrow_array::{ArrayRef, UInt32Array};
use arrow_schema::ArrowError;
use arrow_select::take::take;

/// Values that are found again, by where they lie in memory: a power of two.
const SLOTS: usize = 64;

/// Builds the column.
pub(crate) struct DictionaryBuilder<'a> {
    values: StringViewBuilder,
    /// The number of each row's value.
    rows: Vec<u32>,
    /// Values and their numbers, each in the slot of its address.
    known: [Option<(&'a [u8], u32)>; SLOTS],
}

impl<'a> DictionaryBuilder<'a> {
    /// A column for so many rows.
    pub(crate) fn with_capacity(rows: usize) -> Self {
        Self {
            values: StringViewBuilder::new(),
            rows: Vec::with_capacity(rows),
            known: [None; SLOTS],
        }
    }

    /// Appends a text, or nothing where it is empty.
    pub(crate) fn push_option(&mut self, text: &'a [u8]) {
        self.push_by(text, |values, text| match text {
            [] => values.append_null(),
            text => values.append_value(String::from_utf8_lossy(text)),
        });
    }

    /// Appends a text, the empty one too.
    pub(crate) fn push(&mut self, text: &'a [u8]) {
        self.push_by(text, |values, text| {
            values.append_value(String::from_utf8_lossy(text));
        });
    }

    fn push_by(&mut self, text: &'a [u8], append: impl FnOnce(&mut StringViewBuilder, &[u8])) {
        // Texts of classes are allocated apart from each other, those of code are not.
        let address = text.as_ptr().addr() ^ (text.as_ptr().addr() >> 6);
        let slot = &mut self.known[address % SLOTS];
        let number = match slot {
            // What lies there is the same text: it is lent until the column is finished.
            Some((known, number)) if std::ptr::eq(*known, text) => *number,
            _ => {
                let number = self.values.len() as u32;
                append(&mut self.values, text);
                *slot = Some((text, number));
                number
            }
        };
        self.rows.push(number);
    }

    /// The column.
    ///
    /// # Errors
    /// Never for what was built here; Arrow checks what it is given.
    pub(crate) fn finish(mut self) -> Result<ArrayRef, ArrowError> {
        take(&self.values.finish(), &UInt32Array::from(self.rows), None)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_row_has_its_text(
            texts in prop::collection::vec("[a-c]{0,16}", 1..200),
            picks in prop::collection::vec(any::<prop::sample::Index>(), 0..400),
        ) {
            let (mut optional, mut column) = (
                DictionaryBuilder::with_capacity(picks.len()),
                DictionaryBuilder::with_capacity(picks.len()),
            );
            for pick in &picks {
                optional.push_option(pick.get(&texts).as_bytes());
                column.push(pick.get(&texts).as_bytes());
            }
            let (optional, column) = (optional.finish().unwrap(), column.finish().unwrap());
            let (optional, column) = (optional.as_string_view(), column.as_string_view());
            prop_assert_eq!(column.len(), picks.len());
            for (row, pick) in picks.iter().enumerate() {
                let text = pick.get(&texts).as_str();
                prop_assert_eq!(column.value(row), text);
                prop_assert!(!column.is_null(row));
                prop_assert_eq!(optional.is_null(row), text.is_empty());
                prop_assert!(text.is_empty() || optional.value(row) == text);
            }
        }
    }
}
