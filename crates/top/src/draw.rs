//! A frame: what stands where, for any size of terminal.

use std::time::Instant;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::widgets::{Block, Clear, Paragraph, Widget};

use crate::app::App;
use crate::panes::{Pair, Pane};
use crate::snapshot::Queue;
use crate::table::{Line, Tone};
use crate::text::{bytes, plain, time, wrap};

/// Lines above the panes: the process, and the queue.
const TOP_ROWS: u16 = 2;

/// From this width on, edges and threads stand side by side.
const TWO_COLUMNS: u16 = 70;

/// Between the two.
const GUTTER: u16 = 3;

/// What stands at the bottom.
const KEYS: &str = "q quit  p pause  Tab pane  ↑↓ scroll  ? help";

const HELP: &[&str] = &[
    "q, Esc     quit",
    "p, Space   pause: ask no more until it is pressed again",
    "Tab, → ←   next pane, the one before",
    "↑ ↓ k j    scroll; PgUp PgDn Home End too",
    "?          this",
    "",
    "The pane that is marked shows what its rows mean.",
    "EVENTS/S is the mean of the last second. ! is a warning,",
    "!! needs somebody now. Loss of the whole host is not only",
    "ours. REQUEST is what a request or a write takes.",
];

/// Draws all of it.
pub(crate) fn frame(app: &App, at: Instant, buffer: &mut Buffer) {
    let area = *buffer.area();
    let canvas = &mut Canvas {
        buffer,
        colour: app.colour,
    };
    header(app, at, area, canvas);
    let bottom = u16::from(!app.whole);
    if let Some(pair) = app.pair() {
        canvas.text(
            area.x,
            area.y + 1,
            area.width,
            &queue_line(&pair.now.queue),
            Tone::Plain,
        );
        let rows = area.height.saturating_sub(TOP_ROWS + bottom);
        panes(
            app,
            &pair,
            Rect::new(area.x, area.y + TOP_ROWS, area.width, rows),
            canvas,
        );
    } else {
        nothing_yet(app, area, canvas);
    }
    if bottom > 0 && area.height > 1 {
        let y = area.bottom() - 1;
        canvas.text(area.x, y, area.width, KEYS, Tone::Faint);
    }
    if app.help {
        help(area, canvas.buffer);
    }
}

/// How many rows show everything.
pub(crate) fn height(app: &App, width: u16) -> u16 {
    let Some(pair) = app.pair() else {
        return TOP_ROWS + 1;
    };
    let blocks = blocks(app, &pair, width);
    let wanted: usize = blocks.iter().map(|block| block.wants).sum();
    u16::try_from(wanted)
        .unwrap_or(u16::MAX / 2)
        .saturating_add(TOP_ROWS)
}

/// Writes text with a tone.
struct Canvas<'a> {
    buffer: &'a mut Buffer,
    colour: bool,
}

impl Canvas<'_> {
    fn style(&self, tone: Tone) -> Style {
        let style = Style::new();
        match (tone, self.colour) {
            (Tone::Plain, _) => style,
            (Tone::Faint, true) => style.fg(Color::DarkGray),
            (Tone::Faint, false) => style.add_modifier(Modifier::DIM),
            (Tone::Warn, true) => style.fg(Color::Yellow),
            (Tone::Warn, false) => style.add_modifier(Modifier::BOLD),
            (Tone::Bad, true) => style.fg(Color::Red).add_modifier(Modifier::BOLD),
            (Tone::Bad, false) => style.add_modifier(Modifier::BOLD | Modifier::REVERSED),
        }
    }

    /// Text from here on, at most so wide. What lies outside is not drawn.
    fn styled(&mut self, x: u16, y: u16, width: u16, text: &str, style: Style) {
        let area = self.buffer.area();
        if y < area.bottom() && x < area.right() {
            self.buffer.set_stringn(x, y, text, width.into(), style);
        }
    }

    fn text(&mut self, x: u16, y: u16, width: u16, text: &str, tone: Tone) {
        let style = self.style(tone);
        self.styled(x, y, width, text, style);
    }
}

/// The first line: which process, and whether all is well with it and with us.
fn header(app: &App, at: Instant, area: Rect, canvas: &mut Canvas<'_>) {
    let mut parts = Vec::new();
    if let Some(Pair { now, .. }) = app.pair() {
        parts.push((format!("inrush {}", plain(&now.version)), Tone::Plain));
        parts.push((
            format!("up {}", time(now.at_ms - now.started_ms)),
            Tone::Plain,
        ));
        parts.extend(now.resident_bytes.map(|n| (bytes(n as f64), Tone::Plain)));
        parts.push(match now.balanced {
            true => ("ledger balanced".to_owned(), Tone::Plain),
            false => ("LEDGER NOT BALANCED".to_owned(), Tone::Bad),
        });
    } else {
        parts.push(("inrush top".to_owned(), Tone::Plain));
    }
    parts.push((plain(&app.address), Tone::Faint));
    if let Some(silence) = &app.silence {
        let waited = match at.saturating_duration_since(silence.since).as_secs() {
            s @ 0..100 => format!("{s} s"),
            s => time(s as f64 * 1000.0),
        };
        parts.insert(0, (format!("NO ANSWER for {waited}"), Tone::Bad));
    }
    if app.paused {
        parts.insert(0, ("PAUSED".to_owned(), Tone::Warn));
    }
    let mut x = area.x;
    for (text, tone) in parts {
        let left = area.right().saturating_sub(x);
        canvas.text(x, area.y, left, &text, tone);
        x = x.saturating_add(text.chars().count() as u16 + 3);
    }
}

fn nothing_yet(app: &App, area: Rect, canvas: &mut Canvas<'_>) {
    let words = match &app.silence {
        Some(silence) => format!("{}; trying again every second", plain(&silence.words)),
        None => "waiting for the first answer".to_owned(),
    };
    for (line, y) in wrap(&words, area.width.into()).iter().zip(area.y + 1..) {
        canvas.text(area.x, y, area.width, line, Tone::Plain);
    }
}

fn queue_line(queue: &Queue) -> String {
    let of = |used: u64, max: u64| {
        let percent = used as f64 * 100.0 / max.max(1) as f64;
        format!(
            "{} of {} ({percent:.0} %)",
            bytes(used as f64),
            bytes(max as f64)
        )
    };
    let mut parts = Vec::new();
    parts.extend(
        queue
            .stall
            .as_ref()
            .map(|_| "NOTHING IS WRITTEN".to_owned()),
    );
    parts.extend(match queue.full_in_s {
        Some(s) if s < 1.0 => Some("FULL".to_owned()),
        Some(s) => Some(format!("full in {}", time(s * 1000.0))),
        None => None,
    });
    parts.push(format!("memory {}", of(queue.bytes, queue.bytes_max)));
    if queue.disk_bytes_max > 0 {
        parts.push(format!(
            "disk {}",
            of(queue.disk_bytes, queue.disk_bytes_max)
        ));
        parts.push(match queue.segments {
            1 => "1 segment".to_owned(),
            n => format!("{n} segments"),
        });
    }
    format!("QUEUE  {}", parts.join(" · "))
}

/// One pane, or two side by side.
struct Group<'a> {
    panes: Vec<Drawn<'a>>,
    least: usize,
    wants: usize,
}

/// A pane as lines.
struct Drawn<'a> {
    pane: Pane,
    head: String,
    lines: Vec<Line>,
    width: u16,
    app: &'a App,
}

fn drawn<'a>(app: &'a App, pair: &Pair<'_>, pane: Pane, width: u16) -> Drawn<'a> {
    let details = app.whole || app.focus == pane;
    let (heads, mut lines) = pane.table(pair).lines(width.into(), details);
    let head = pane.summary(pair).unwrap_or_else(|| heads.clone());
    if lines.is_empty() {
        lines.push((format!("  {}", pane.nothing()), Tone::Faint));
    } else if pane == Pane::Loss {
        lines.insert(0, (heads, Tone::Faint));
    }
    Drawn {
        pane,
        head,
        lines,
        width,
        app,
    }
}

fn blocks<'a>(app: &'a App, pair: &Pair<'_>, width: u16) -> Vec<Group<'a>> {
    let one = |pane| vec![drawn(app, pair, pane, width)];
    let middle = if width >= TWO_COLUMNS {
        let left = (width - GUTTER) * 3 / 5;
        let right = width - GUTTER - left;
        vec![
            drawn(app, pair, Pane::Edges, left),
            drawn(app, pair, Pane::Threads, right),
        ]
    } else if app.whole {
        return Pane::ALL.map(|pane| block(one(pane))).into();
    } else if app.focus == Pane::Threads {
        one(Pane::Threads)
    } else {
        one(Pane::Edges)
    };
    let before = [Pane::Alarms, Pane::Sources, Pane::Destinations].map(one);
    let after = [Pane::Loss].map(one);
    let all = before.into_iter().chain([middle]).chain(after);
    all.map(block).collect()
}

fn block(panes: Vec<Drawn<'_>>) -> Group<'_> {
    let rows = panes.iter().map(|drawn| drawn.lines.len()).max();
    Group {
        least: 2,
        wants: 1 + rows.unwrap_or(0),
        panes,
    }
}

fn panes(app: &App, pair: &Pair<'_>, area: Rect, canvas: &mut Canvas<'_>) {
    let blocks = blocks(app, pair, area.width);
    let has_focus = |block: &Group<'_>| block.panes.iter().any(|one| one.pane == app.focus);
    let focus = blocks.iter().position(has_focus).unwrap_or(0);
    let wishes: Vec<_> = blocks.iter().map(|one| (one.least, one.wants)).collect();
    let heights = allot(area.height.into(), &wishes, focus);
    let mut y = area.y;
    for (block, height) in blocks.iter().zip(heights) {
        let mut x = area.x;
        for one in &block.panes {
            one.draw(x, y, height, canvas);
            x += one.width + GUTTER;
        }
        y += height as u16;
    }
}

impl Drawn<'_> {
    fn draw(&self, x: u16, y: u16, height: usize, canvas: &mut Canvas<'_>) {
        if height == 0 {
            return;
        }
        let focused = self.app.focus == self.pane && !self.app.whole;
        let mut style = Style::new().add_modifier(Modifier::BOLD);
        if focused {
            style = style.add_modifier(Modifier::REVERSED);
        }
        let room = height - 1;
        let most = self.lines.len().saturating_sub(room);
        let first = self.app.offsets[self.pane.index()].min(most);
        let head = match most > 0 && room > 0 {
            true => {
                let (from, to, of) = (first + 1, first + room, self.lines.len());
                with_range(
                    &self.head,
                    &format!("[{from}–{to} of {of}]"),
                    self.width.into(),
                )
            }
            false => self.head.clone(),
        };
        canvas.styled(x, y, self.width, &head, style);
        let shown = self.lines.iter().skip(first).take(room);
        for ((line, tone), y) in shown.zip(y + 1..) {
            canvas.text(x, y, self.width, line, *tone);
        }
    }
}

/// A head that says which rows are shown: in the gap behind its first word if there is room, else
/// at its end.
fn with_range(head: &str, range: &str, width: usize) -> String {
    let word = head.find(' ').unwrap_or(head.len());
    let rest = head[word..].trim_start();
    let gap = head[word..].len() - rest.len();
    let wanted = range.chars().count() + 2;
    if gap > wanted {
        let left = " ".repeat(gap - wanted + 1);
        return format!("{} {range}{left}{rest}", &head[..word]);
    }
    let room = width.saturating_sub(wanted - 1);
    let head: String = head.trim_end().chars().take(room).collect();
    format!("{head} {range}")
}

/// How many rows each block gets: first what it needs at least, then one after the other up to what
/// it wants, the one in focus twice as fast. Where there is too little, those at the end get none.
fn allot(rows: usize, blocks: &[(usize, usize)], focus: usize) -> Vec<usize> {
    let mut given: Vec<usize> = blocks
        .iter()
        .map(|(least, wants)| *least.min(wants))
        .collect();
    let others = (0..blocks.len()).rev().filter(|i| *i != focus);
    for i in others.chain([focus]) {
        let over = given.iter().sum::<usize>().saturating_sub(rows);
        given[i] = match over {
            0 => break,
            over if i == focus => given[i].saturating_sub(over),
            _ => 0,
        };
    }
    let mut left = rows.saturating_sub(given.iter().sum());
    loop {
        let before = left;
        let others = (0..blocks.len()).filter(|i| *i != focus);
        for i in [focus].into_iter().chain(others) {
            let Some((_, wants)) = blocks.get(i) else {
                continue;
            };
            // What was left out altogether stays so: a head without rows helps nobody.
            let step = match given[i] {
                0 => 0,
                _ => 1 + usize::from(i == focus),
            };
            let more = step.min(left).min(wants.saturating_sub(given[i]));
            given[i] += more;
            left -= more;
        }
        if left == before {
            return given;
        }
    }
}

fn help(area: Rect, buffer: &mut Buffer) {
    let width = HELP
        .iter()
        .map(|line| line.chars().count())
        .max()
        .unwrap_or(0) as u16
        + 4;
    let (width, height) = (
        width.min(area.width),
        (HELP.len() as u16 + 2).min(area.height),
    );
    let place = Rect::new(
        area.x + (area.width - width) / 2,
        area.y + (area.height - height) / 2,
        width,
        height,
    );
    Clear.render(place, buffer);
    let text = HELP
        .iter()
        .map(|line| format!(" {line}"))
        .collect::<Vec<_>>();
    Paragraph::new(text.join("\n"))
        .block(Block::bordered().title(" inrush top "))
        .render(place, buffer);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_of_rows_stands_where_there_is_room() {
        let range = "[1–9 of 20]";
        assert_eq!(
            with_range("THREAD              CPU", range, 23),
            "THREAD [1–9 of 20]  CPU"
        );
        assert_eq!(
            with_range("LOSS  nic 0  socket 0", range, 40),
            "LOSS  nic 0  socket 0 [1–9 of 20]"
        );
        assert_eq!(
            with_range("THREAD           CPU", range, 20),
            "THREAD   [1–9 of 20]"
        );
        assert_eq!(
            with_range("", range, 3),
            " [1–9 of 20]",
            "cut by who draws it"
        );
    }

    #[test]
    fn rows_go_to_those_who_want_them() {
        let wants = [(2, 3), (2, 10), (2, 4)];
        assert_eq!(allot(30, &wants, 0), [3, 10, 4], "as many as they want");
        assert_eq!(allot(6, &wants, 0), [2, 2, 2], "as few as they need");
        assert_eq!(allot(12, &wants, 0), [3, 5, 4]);
        assert_eq!(allot(12, &wants, 1), [3, 6, 3], "the one in focus has more");
    }

    #[test]
    fn where_there_is_too_little_the_one_in_focus_stays() {
        let wants = [(2, 5), (2, 5), (2, 5)];
        assert_eq!(allot(4, &wants, 2), [2, 0, 2]);
        assert_eq!(allot(5, &wants, 2), [2, 0, 3]);
        assert_eq!(allot(2, &wants, 1), [0, 2, 0]);
        assert_eq!(allot(1, &wants, 0), [1, 0, 0]);
        assert_eq!(allot(0, &wants, 0), [0, 0, 0]);
        assert_eq!(
            allot(3, &[(2, 2), (2, 2)], 0),
            [2, 0],
            "no head without rows"
        );
        assert_eq!(allot(5, &[], 0), [0; 0]);
    }
}
