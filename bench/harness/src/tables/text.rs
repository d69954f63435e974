//! Tables as text.

use std::fmt::Write;

use super::{FigureColumn, FigureRow, ProductTable};

/// A number with so many digits behind the point, and a comma before each three of the others.
pub(super) fn number(value: f64, digits: usize) -> String {
    let text = format!("{:.digits$}", value.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut out = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out.push_str(rest);
    let zero = out.chars().all(|c| matches!(c, '0' | '.' | ','));
    if value < 0.0 && !zero {
        out.insert(0, '-');
    }
    out
}

/// A figure of a row, or what stands where there is none.
pub(super) fn figure(row: &FigureRow, at: usize, column: &FigureColumn) -> String {
    let value = row.values.get(at).copied().flatten();
    value.map_or("–".to_owned(), |value| number(value, column.digits))
}

/// The table for a terminal. Writing to a string cannot fail.
pub(super) fn table(table: &ProductTable) -> String {
    let mut out = format!("\n{}: {}\n", table.name, table.shows);
    for line in
        std::iter::once(format!("Published: {}", table.published)).chain(table.notes.clone())
    {
        let _ = writeln!(out, "{}", folded(&line));
    }
    let head = |column: &FigureColumn| format!("{}, {}", column.name, column.unit);
    let widths: Vec<usize> = table
        .columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let figures = table.rows.iter().map(|row| figure(row, at, column));
            let widest = figures.map(|text| text.chars().count()).max();
            widest.unwrap_or(0).max(head(column).chars().count())
        })
        .collect();
    let subject = table.rows.iter().map(|row| row.subject.len()).max();
    let subject = subject.unwrap_or(0).max(12);
    let _ = write!(out, "\n  {:subject$}", "");
    for (column, width) in table.columns.iter().zip(&widths) {
        let _ = write!(out, "  {:>width$}", head(column));
    }
    let mut load = "";
    for row in &table.rows {
        if row.load != load {
            load = &row.load;
            let _ = write!(out, "\n{load}");
        }
        let _ = write!(out, "\n  {:subject$}", row.subject);
        for (at, (column, width)) in table.columns.iter().zip(&widths).enumerate() {
            let _ = write!(out, "  {:>width$}", figure(row, at, column));
        }
        if let Some(wrong) = &row.wrong {
            let _ = write!(out, "  ! {}", wrong.lines().next().unwrap_or_default());
        }
    }
    out.push('\n');
    out
}

/// Lines of some eighty characters.
fn folded(text: &str) -> String {
    let mut out = String::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        let word_length = word.chars().count();
        if length > 0 && length + 1 + word_length > 88 {
            out.push_str("\n  ");
            length = 2;
        } else if length > 0 {
            out.push(' ');
            length += 1;
        }
        out.push_str(word);
        length += word_length;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas_and_as_many_digits_as_asked_for() {
        assert_eq!(number(0.0, 0), "0");
        assert_eq!(number(999.4, 0), "999");
        assert_eq!(number(1_234_567.891, 2), "1,234,567.89");
        assert_eq!(number(-1234.0, 0), "-1,234");
        assert_eq!(number(-0.0001, 2), "0.00");
    }

    #[test]
    fn long_texts_are_folded_between_words() {
        let text = "word ".repeat(40);
        let folded = folded(&text);
        assert!(folded.lines().all(|line| line.len() <= 88), "{folded}");
        assert_eq!(folded.split_whitespace().count(), 40);
    }
}
