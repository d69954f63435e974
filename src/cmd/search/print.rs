//! Answers on a terminal, or as JSON lines. What senders wrote reaches a terminal without its
//! control characters.

use std::io::{self, IsTerminal, StdoutLock, Write};

use inrush_event::{is_unprintable, json_printable};
use inrush_store::reply::{SearchHit, SearchProgress, SearchReply, TableCell, TableHeader};
use jiff::Timestamp;

/// Characters of a column of a table at most.
const COLUMN_CHARS_MAX: usize = 80;

/// Prints replies.
pub(super) trait ReplyPrinter {
    /// Prints a reply, or keeps it until the end.
    fn show(&mut self, reply: SearchReply) -> io::Result<()>;

    /// Prints what was kept.
    fn finish(&mut self) -> io::Result<()>;
}

/// A text for a terminal: lines stay, other control characters do not.
pub(super) fn plain(text: &str) -> String {
    let plain = |c: char| {
        if is_unprintable(c) && c != '\n' {
            '\u{fffd}'
        } else {
            c
        }
    };
    text.chars().map(plain).collect()
}

/// A character for a terminal, within a line.
pub(super) fn one_line(c: char) -> char {
    match c {
        '\t' | '\n' | '\r' => ' ',
        c if is_unprintable(c) => '\u{fffd}',
        c => c,
    }
}

/// Says how far a search is, in a line that is written over.
pub(super) fn progress(progress: &SearchProgress) {
    let SearchProgress {
        files_done,
        files_total,
        events_scanned,
        ..
    } = progress;
    eprint!("\r{files_done} of {files_total} files, {events_scanned} events\x1b[K");
}

/// Takes that line away.
pub(super) fn no_progress(interactive: bool) {
    if interactive {
        eprint!("\r\x1b[K");
    }
}

/// One JSON object a line: an event, or a row by the names of its columns.
pub(super) struct JsonPrinter<'a> {
    out: StdoutLock<'a>,
    columns: Vec<String>,
}

impl<'a> JsonPrinter<'a> {
    pub(super) fn new(out: StdoutLock<'a>) -> Self {
        let columns = Vec::new();
        Self { out, columns }
    }
}

impl ReplyPrinter for JsonPrinter<'_> {
    fn show(&mut self, reply: SearchReply) -> io::Result<()> {
        let line = match reply {
            SearchReply::Event(event) => serde_json::to_string(&event)?,
            SearchReply::Table(table) => {
                self.columns = table.columns.into_iter().map(|c| c.name).collect();
                return Ok(());
            }
            SearchReply::Row(row) => {
                let mut object = serde_json::Map::new();
                for (name, value) in self.columns.iter().zip(row.values) {
                    object.insert(name.clone(), serde_json::to_value(value)?);
                }
                serde_json::to_string(&object)?
            }
            _ => return Ok(()),
        };
        writeln!(self.out, "{}", json_printable(&line))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Lines for people: events as they come, tables once they are whole.
pub(super) struct TextPrinter<'a> {
    out: StdoutLock<'a>,
    colour: bool,
    table: Option<TableHeader>,
    rows: Vec<Vec<String>>,
}

impl<'a> TextPrinter<'a> {
    pub(super) fn new(out: StdoutLock<'a>) -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self {
            colour: wanted && out.is_terminal(),
            out,
            table: None,
            rows: Vec::new(),
        }
    }

    fn event(&mut self, event: &SearchHit) -> io::Result<()> {
        let (dim, bold, reset) = if self.colour {
            ("\x1b[2m", "\x1b[1m", "\x1b[0m")
        } else {
            ("", "", "")
        };
        let text = |text: &Option<String>| -> String {
            let text = text.as_deref().unwrap_or("-");
            text.chars().map(one_line).collect()
        };
        let (host, sourcetype, raw) =
            (text(&event.host), text(&event.sourcetype), text(&event.raw));
        let time = time(&event.time_ns);
        writeln!(
            self.out,
            "{dim}{time}{reset} {bold}{host}{reset} {dim}{sourcetype}{reset} {raw}"
        )
    }
}

impl ReplyPrinter for TextPrinter<'_> {
    fn show(&mut self, reply: SearchReply) -> io::Result<()> {
        match reply {
            SearchReply::Event(event) => self.event(&event)?,
            SearchReply::Table(table) => self.table = Some(table),
            SearchReply::Row(row) => {
                let columns = self.table.as_ref().map_or(&[][..], |t| &t.columns);
                let kinds = columns.iter().map(|column| column.kind.as_str());
                let cells = row.values.iter().zip(kinds);
                self.rows
                    .push(cells.map(|(cell, kind)| shown(cell, kind)).collect());
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        if let Some(table) = self.table.take() {
            let rows = std::mem::take(&mut self.rows);
            write_table(&table, &rows, &mut self.out)?;
        }
        self.out.flush()
    }
}

/// Numbers to the right, all else to the left.
fn write_table(table: &TableHeader, rows: &[Vec<String>], out: &mut impl Write) -> io::Result<()> {
    let head: Vec<String> = table
        .columns
        .iter()
        .map(|column| column.name.chars().map(one_line).collect())
        .collect();
    let mut widths = vec![0; head.len()];
    for row in std::iter::once(&head).chain(rows) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().min(COLUMN_CHARS_MAX).max(*width);
        }
    }
    for row in std::iter::once(&head).chain(rows) {
        let mut line = String::new();
        for (at, cell) in row.iter().enumerate() {
            let width = widths[at];
            if table.columns[at].kind == "number" {
                line.push_str(&format!("{cell:>width$}  "));
            } else {
                line.push_str(&format!("{cell:<width$}  "));
            }
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn shown(cell: &TableCell, kind: &str) -> String {
    match cell {
        TableCell::Null => "-".to_owned(),
        TableCell::Bool(value) => value.to_string(),
        TableCell::Unsigned(number) => number.to_string(),
        TableCell::Signed(number) => number.to_string(),
        TableCell::Double(number) => number.to_string(),
        TableCell::Text(ns) if kind == "time" => time(ns),
        TableCell::Text(text) => text.chars().map(one_line).collect(),
    }
}

/// A time of nanoseconds in digits, to the millisecond.
fn time(ns: &str) -> String {
    let time = ns.parse::<i128>().ok();
    let time = time.and_then(|ns| Timestamp::from_nanosecond(ns).ok());
    time.map_or_else(
        || ns.to_owned(),
        |time| time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use inrush_store::reply::TableColumn;

    #[test]
    fn a_table_is_aligned_and_harmless() {
        let column = |name: &str, kind: &str| TableColumn {
            name: name.to_owned(),
            kind: kind.to_owned(),
        };
        let table = TableHeader {
            columns: vec![column("host", "text"), column("count", "number")],
        };
        let row = |host: &str, count: u64| {
            let host = TableCell::Text(host.to_owned());
            vec![
                shown(&host, "text"),
                shown(&TableCell::Unsigned(count), "number"),
            ]
        };
        let rows = [row("fw-1", 12_345), row("\x1b[31mred\nx", 7)];
        let mut out = Vec::new();
        write_table(&table, &rows, &mut out).unwrap();
        let expected = "host        count\n\
                        fw-1        12345\n\
                        \u{fffd}[31mred x      7\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn times_are_shown_to_the_millisecond() {
        assert_eq!(time("1795287605123456789"), "2026-11-21T19:00:05.123Z");
        assert_eq!(time("what"), "what");
    }
}
