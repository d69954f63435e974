//! A table as lines of text: which columns fit, how wide each is, and what is cut.

use ratatui::text::Span;

use crate::text::wrap;

/// Between two columns.
const GAP: usize = 2;

/// A growing column is cut down to the first before another column goes, and to the second before
/// anything runs over the edge.
const GROWING_MIN: [usize; 2] = [16, 8];

/// Before a line that explains the one above.
const INDENT: usize = 4;

/// Meaning of a line, which decides its style.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Tone {
    #[default]
    Plain,
    /// Names the columns below.
    Head,
    /// Beside the point.
    Faint,
    /// As it should be.
    Good,
    /// Put aside, or about to go wrong.
    Warn,
    /// Lost, or at a stop.
    Bad,
}

/// One column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PaneColumn {
    pub(crate) head: &'static str,
    pub(crate) right: bool,
    /// Takes the room that is left over, and gives way first.
    pub(crate) grows: bool,
    /// Order in which columns go where there is no room: the highest rank first. Those of rank 0
    /// stay.
    pub(crate) rank: u8,
}

/// Text, from the left.
pub(crate) const fn left(head: &'static str, rank: u8) -> PaneColumn {
    PaneColumn {
        head,
        right: false,
        grows: false,
        rank,
    }
}

/// A number, from the right.
pub(crate) const fn right(head: &'static str, rank: u8) -> PaneColumn {
    PaneColumn {
        head,
        right: true,
        grows: false,
        rank,
    }
}

/// Text that takes what is left over.
pub(crate) const fn growing(head: &'static str) -> PaneColumn {
    PaneColumn {
        head,
        right: false,
        grows: true,
        rank: 0,
    }
}

/// One row.
#[derive(Clone, Debug, Default)]
pub(crate) struct PaneRow {
    pub(crate) cells: Vec<String>,
    pub(crate) tone: Tone,
    /// Shown below it on request.
    pub(crate) details: Vec<String>,
}

/// Rows under heads.
#[derive(Clone, Debug, Default)]
pub(crate) struct PaneTable {
    pub(crate) columns: Vec<PaneColumn>,
    pub(crate) rows: Vec<PaneRow>,
}

/// A line, and how it is meant.
pub(crate) type TonedLine = (String, Tone);

fn width_of(text: &str) -> usize {
    Span::raw(text).width()
}

impl PaneTable {
    /// The heads and the rows, each a line of at most `width`, and with the details where they are
    /// wanted.
    pub(crate) fn lines(&self, width: usize, details: bool) -> (String, Vec<TonedLine>) {
        let widths = self.widths(width);
        let heads = self.columns.iter().map(|column| column.head.to_owned());
        let head = self.line(&heads.collect::<Vec<_>>(), &widths);
        let mut lines = Vec::with_capacity(self.rows.len());
        for row in &self.rows {
            let cut = self.cut_cell(row, &widths);
            match cut.filter(|_| details && self.ends_growing()) {
                Some(i) => lines.extend(self.wrapped(row, i, &widths)),
                None => lines.push((self.line(&row.cells, &widths), row.tone)),
            }
            if !details {
                continue;
            }
            let cut = cut.filter(|_| !self.ends_growing());
            let cut = cut.and_then(|i| row.cells.get(i));
            for detail in cut.into_iter().chain(&row.details) {
                let wrapped = wrap(detail, width.saturating_sub(INDENT));
                let indented = wrapped
                    .into_iter()
                    .map(|text| (format!("{:INDENT$}{text}", ""), Tone::Plain));
                lines.extend(indented);
            }
        }
        (head, lines)
    }

    /// True if nothing stands behind the growing column, so that a cell of it may go on in the
    /// lines below.
    fn ends_growing(&self) -> bool {
        self.columns.last().is_some_and(|column| column.grows)
    }

    /// A row over several lines, for the sake of the whole of its last cell, which is cell `i`.
    fn wrapped(&self, row: &PaneRow, i: usize, widths: &[Option<usize>]) -> Vec<TonedLine> {
        let width = widths[i].unwrap_or_default();
        let parts = wrap(&row.cells[i], width);
        let line = |(n, part): (usize, String)| {
            let others = row.cells[..i].iter().map(|cell| match n {
                0 => cell.clone(),
                _ => String::new(),
            });
            let cells: Vec<String> = others.chain([part]).collect();
            (self.line(&cells, widths), row.tone)
        };
        parts.into_iter().enumerate().map(line).collect()
    }

    /// Width of each column in cells of the terminal; `None` for one that is not shown.
    fn widths(&self, width: usize) -> Vec<Option<usize>> {
        let natural = |(i, column): (usize, &PaneColumn)| {
            let cells = self.rows.iter().filter_map(|row| row.cells.get(i));
            let widest = cells.map(|cell| width_of(cell)).max().unwrap_or(0);
            Some(widest.max(width_of(column.head)))
        };
        let mut widths: Vec<_> = self.columns.iter().enumerate().map(natural).collect();
        loop {
            let total = total(&widths);
            if total <= width {
                self.grow(&mut widths, width - total);
                return widths;
            }
            let less = total - width;
            if self.shrink(&mut widths, less, GROWING_MIN[0]) {
                return widths;
            }
            let shown = |i: &usize| widths[*i].is_some() && self.columns[*i].rank > 0;
            let last = (0..widths.len()).filter(shown);
            let Some(last) = last.max_by_key(|i| self.columns[*i].rank) else {
                self.shrink(&mut widths, less, GROWING_MIN[1]);
                return widths;
            };
            widths[last] = None;
        }
    }

    fn grow(&self, widths: &mut [Option<usize>], more: usize) {
        let grows = |(column, _): &(&PaneColumn, &mut Option<usize>)| column.grows;
        let mut pairs = self.columns.iter().zip(widths);
        if let Some((_, Some(width))) = pairs.find(grows) {
            *width += more;
        }
    }

    /// Takes so much of the growing column; false if less than `least` would be left.
    fn shrink(&self, widths: &mut [Option<usize>], less: usize, least: usize) -> bool {
        let grows = |(column, _): &(&PaneColumn, &mut Option<usize>)| column.grows;
        let mut pairs = self.columns.iter().zip(widths);
        match pairs.find(grows) {
            Some((_, Some(width))) if *width >= less + least => {
                *width -= less;
                true
            }
            _ => false,
        }
    }

    /// Index of the growing column's cell, if it is not shown whole.
    fn cut_cell(&self, row: &PaneRow, widths: &[Option<usize>]) -> Option<usize> {
        let i = self.columns.iter().position(|column| column.grows)?;
        let (cell, width) = (row.cells.get(i)?, (*widths.get(i)?)?);
        (width_of(cell) > width).then_some(i)
    }

    fn line(&self, cells: &[String], widths: &[Option<usize>]) -> String {
        let mut line = String::new();
        for ((column, cell), width) in self.columns.iter().zip(cells).zip(widths) {
            let Some(width) = *width else {
                continue;
            };
            if !line.is_empty() {
                line.push_str(&" ".repeat(GAP));
            }
            let cell = cut(cell, width);
            let pad = " ".repeat(width.saturating_sub(width_of(&cell)));
            match column.right {
                true => line.extend([pad.as_str(), &cell]),
                false => line.extend([cell.as_str(), &pad]),
            }
        }
        line
    }
}

fn total(widths: &[Option<usize>]) -> usize {
    let shown = widths.iter().flatten();
    let gaps = GAP * shown.clone().count().saturating_sub(1);
    shown.sum::<usize>() + gaps
}

/// At most so wide, with an ellipsis where something is missing.
fn cut(text: &str, width: usize) -> String {
    if width_of(text) <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars() {
        kept.push(c);
        if width_of(&kept) >= width {
            kept.pop();
            break;
        }
    }
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[[&str; 3]]) -> PaneTable {
        let row = |cells: &[&str; 3]| PaneRow {
            cells: cells.iter().map(|cell| (*cell).to_owned()).collect(),
            tone: Tone::Plain,
            details: vec!["why it is so".to_owned()],
        };
        PaneTable {
            columns: vec![growing("NAME"), left("TYPE", 1), right("COUNT", 0)],
            rows: rows.iter().map(row).collect(),
        }
    }

    fn texts(table: &PaneTable, width: usize, details: bool) -> Vec<String> {
        let (head, lines) = table.lines(width, details);
        let texts = lines.into_iter().map(|(text, _)| text);
        [head].into_iter().chain(texts).collect()
    }

    #[test]
    fn what_is_left_over_goes_to_the_growing_column() {
        let table = table(&[["a", "t", "1"], ["bcd", "", "1,234"]]);
        assert_eq!(
            texts(&table, 22, false),
            [
                "NAME       TYPE  COUNT",
                "a          t         1",
                "bcd              1,234",
            ]
        );
    }

    #[test]
    fn what_has_no_room_is_cut_and_then_left_out() {
        let table = table(&[["a long name that is cut", "type", "1"]]);
        assert_eq!(
            texts(&table, 30, false)[1],
            "a long name that…  type      1"
        );
        assert_eq!(
            texts(&table, 28, false)[1],
            "a long name that is …      1",
            "the type goes before more of the name does"
        );
        assert_eq!(
            texts(&table, 16, false),
            ["NAME       COUNT", "a long n…      1"]
        );
        let tiny = texts(&table, 5, false);
        assert!(
            tiny[1].starts_with("a long"),
            "it runs over the edge: {tiny:?}"
        );
    }

    #[test]
    fn details_hold_what_was_cut_and_why() {
        let table = table(&[["a long name that is cut", "type", "1"]]);
        assert_eq!(
            texts(&table, 16, true)[2..],
            ["    a long name", "    that is cut", "    why it is so"]
        );
    }

    #[test]
    fn a_last_cell_that_is_cut_goes_on_below_itself() {
        let row = PaneRow {
            cells: vec!["!!".to_owned(), "one two three".to_owned()],
            tone: Tone::Bad,
            details: vec!["why it is so".to_owned()],
        };
        let table = PaneTable {
            columns: vec![left("", 0), growing("")],
            rows: vec![row],
        };
        assert_eq!(texts(&table, 12, false)[1], "!!  one two…");
        assert_eq!(
            texts(&table, 12, true)[1..],
            ["!!  one two ", "    three   ", "    why it", "    is so"]
        );
    }

    #[test]
    fn wide_characters_count_as_wide() {
        assert_eq!(cut("日本語", 6), "日本語");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
    }
}
