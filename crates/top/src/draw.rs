//! Terminal view of `inrush top`: one frame, drawn for any size of terminal.
//!
//! # What it guarantees
//! * A frame depends on `App`, the moment and the buffer's size; drawing does no I/O.
//! * Nothing is drawn outside the buffer; text that does not fit is cut.
//! * With too few rows the last panes go first, and the pane in focus stays.
//! * Without colour, warnings are bold, and losses are bold and reversed.
//!
//! # States
//! Before the first answer the frame names the address and the wait. A silent process shows
//! `NO ANSWER` and its last counts; a pause shows `PAUSED`; the help covers the middle.
//!
//! # Limits
//! Below `TWO_COLUMNS` a screen has edges or threads; below `IN_ROWS_MIN` it has no intake line.

use std::time::Instant;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::widgets::{Block, Clear, Paragraph, Widget};

use crate::app::App;
use crate::panes::{Pane, SnapshotPair, marks};
use crate::snapshot::QueueStatus;
use crate::table::{Tone, TonedLine};
use crate::text::{bars, bytes, plain, rate, time, wrap};

/// Lines above the panes: the process, what comes in, and the queue.
const TOP_ROWS: u16 = 3;

/// With fewer rows than this there is no line about what comes in: the sources say it too.
const IN_ROWS_MIN: u16 = 16;

/// With so many rows for the panes there is a line between them, if all fit. With fewer it would
/// come and go with each key.
const AIRY_ROWS_MIN: u16 = 28;

/// From this width on, edges and threads stand side by side.
const TWO_COLUMNS: u16 = 70;

/// Between the two.
const GUTTER: u16 = 3;

/// Line of keys at the bottom.
const KEYS: &str = "q quit  p pause  Tab pane  ↑↓ scroll  ? help";

const HELP: &[&str] = &[
    "q, Esc     quit",
    "p, Space   pause: ask no more until it is pressed again",
    "Tab, → ←   next pane, the one before",
    "↑ ↓ k j    scroll; PgUp PgDn Home End too",
    "?          this",
    "",
    "The pane that is marked shows what its rows mean.",
    "EVENTS/S is the mean of the last second, of destinations",
    "of the last ten. ! is a warning, !! needs somebody now.",
    "Loss of the whole host is not only ours. REQUEST is what",
    "a request or a write takes.",
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
        let top = match area.height < IN_ROWS_MIN {
            true => TOP_ROWS - 1,
            false => {
                in_line(app, &pair, area, canvas);
                TOP_ROWS
            }
        };
        let queue = queue_line(&pair.now.queue, area.width.into());
        canvas.text(area.x, area.y + top - 1, area.width, &queue, Tone::Plain);
        let rows = area.height.saturating_sub(top + bottom);
        panes(
            app,
            &pair,
            Rect::new(area.x, area.y + top, area.width, rows),
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

/// Number of rows that show everything.
pub(crate) fn height(app: &App, width: u16) -> u16 {
    let Some(pair) = app.pair() else {
        return TOP_ROWS + 1;
    };
    let blocks = blocks(app, &pair, width);
    let wanted: usize = blocks.iter().map(|block| block.wants + 1).sum();
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
            (Tone::Head, true) => style.fg(Color::Cyan).add_modifier(Modifier::BOLD),
            (Tone::Head, false) => style.add_modifier(Modifier::BOLD),
            (Tone::Good, true) => style.fg(Color::Green),
            (Tone::Good, false) => style,
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
    if let Some(SnapshotPair { now, .. }) = app.pair() {
        parts.push((format!("inrush {}", plain(&now.version)), Tone::Plain));
        parts.push((
            format!("up {}", time(now.at_ms - now.started_ms)),
            Tone::Plain,
        ));
        parts.extend(now.resident_bytes.map(|n| (bytes(n as f64), Tone::Plain)));
        parts.push(match now.balanced {
            true => ("ledger balanced".to_owned(), Tone::Good),
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

/// Draws the rate at which events come in now, and its course in the last minutes.
fn in_line(app: &App, pair: &SnapshotPair<'_>, area: Rect, canvas: &mut Canvas<'_>) {
    let (Some(events), Some(size)) = (pair.came_in(), pair.bytes_came_in()) else {
        return canvas.text(area.x, area.y + 1, area.width, "IN     –", Tone::Plain);
    };
    let mut text = format!("IN     {} events/s · {}/s", rate(events), bytes(size));
    if app.history.len() > 1 {
        let highest = app.history.iter().copied().fold(0.0, f64::max);
        text.push_str(&format!(" · at most {}", rate(highest)));
    }
    canvas.text(area.x, area.y + 1, area.width, &text, Tone::Plain);
    let taken = text.chars().count() as u16 + GUTTER;
    let room = area.width.saturating_sub(taken);
    let shown = app.history.len().min(room.into());
    if shown > 1 {
        let bars = bars(app.history.iter().take(shown).rev().copied());
        canvas.text(area.x + taken, area.y + 1, room, &bars, Tone::Good);
    }
}

/// The queue, in as many words as fit.
fn queue_line(queue: &QueueStatus, width: usize) -> String {
    let forms = [(true, true), (true, false), (false, false)];
    let mut lines = forms.map(|(percent, segments)| queue_words(queue, percent, segments));
    let fits = |line: &String| line.chars().count() <= width;
    let at = lines.iter().position(fits).unwrap_or(lines.len() - 1);
    std::mem::take(&mut lines[at])
}

fn queue_words(queue: &QueueStatus, percent: bool, segments: bool) -> String {
    let of = |what: &str, used: u64, max: u64| {
        let share = used as f64 * 100.0 / max.max(1) as f64;
        let (used, max) = (bytes(used as f64), bytes(max as f64));
        match percent {
            true => format!("{what} {used} of {max} ({share:.0} %)"),
            false => format!("{what} {used} of {max}"),
        }
    };
    let stalled = queue.stall.as_ref();
    let mut parts = Vec::new();
    parts.extend(stalled.map(|_| "NOTHING IS WRITTEN".to_owned()));
    parts.extend(queue.full_in_s.map(|left| match left < 1.0 {
        true => "FULL".to_owned(),
        false => format!("full in {}", time(left * 1000.0)),
    }));
    parts.push(of("memory", queue.bytes, queue.bytes_max));
    if queue.disk_bytes_max > 0 {
        parts.push(of("disk", queue.disk_bytes, queue.disk_bytes_max));
        parts.extend(segments.then(|| match queue.segments {
            1 => "1 segment".to_owned(),
            n => format!("{n} segments"),
        }));
    }
    format!("QUEUE  {}", parts.join(" · "))
}

/// One pane, or two side by side.
struct PaneGroup<'a> {
    panes: Vec<DrawnPane<'a>>,
    least: usize,
    wants: usize,
}

/// A pane as lines.
struct DrawnPane<'a> {
    pane: Pane,
    head: String,
    /// Parts of the head with a tone of their own.
    marks: Vec<(String, Tone)>,
    lines: Vec<TonedLine>,
    width: u16,
    app: &'a App,
}

fn drawn<'a>(app: &'a App, pair: &SnapshotPair<'_>, pane: Pane, width: u16) -> DrawnPane<'a> {
    let details = app.whole || app.focus == pane;
    let (heads, mut lines) = pane.table(pair).lines(width.into(), details);
    let head = pane.summary(pair).unwrap_or_else(|| heads.clone());
    if lines.is_empty() {
        lines.push((format!("  {}", pane.nothing()), Tone::Faint));
    } else if pane == Pane::Loss {
        lines.insert(0, (heads, Tone::Faint));
    }
    DrawnPane {
        pane,
        head,
        marks: marks(pane, pair),
        lines,
        width,
        app,
    }
}

fn blocks<'a>(app: &'a App, pair: &SnapshotPair<'_>, width: u16) -> Vec<PaneGroup<'a>> {
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

fn block(panes: Vec<DrawnPane<'_>>) -> PaneGroup<'_> {
    let rows = panes.iter().map(|drawn| drawn.lines.len()).max();
    PaneGroup {
        least: 2,
        wants: 1 + rows.unwrap_or(0),
        panes,
    }
}

fn panes(app: &App, pair: &SnapshotPair<'_>, area: Rect, canvas: &mut Canvas<'_>) {
    let blocks = blocks(app, pair, area.width);
    let has_focus = |block: &PaneGroup<'_>| block.panes.iter().any(|one| one.pane == app.focus);
    let focus = blocks.iter().position(has_focus).unwrap_or(0);
    let wishes: Vec<_> = blocks.iter().map(|one| (one.least, one.wants)).collect();
    let heights = allot(area.height.into(), &wishes, focus);
    let spare = usize::from(area.height).saturating_sub(heights.iter().sum());
    let airy = spare >= blocks.len() && area.height >= AIRY_ROWS_MIN;
    let gap = u16::from(airy);
    let mut y = area.y;
    for (block, height) in blocks.iter().zip(heights) {
        let mut x = area.x;
        y += gap;
        for one in &block.panes {
            one.draw(x, y, height, canvas);
            x += one.width + GUTTER;
        }
        y += height as u16;
    }
}

impl DrawnPane<'_> {
    fn draw(&self, x: u16, y: u16, height: usize, canvas: &mut Canvas<'_>) {
        if height == 0 {
            return;
        }
        let focused = self.app.focus == self.pane && !self.app.whole;
        let mut style = canvas.style(Tone::Head);
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
        for (part, tone) in &self.marks {
            // The parts are plain ASCII, and so is what stands before them.
            if let Some(at) = head.find(part) {
                let left = self.width.saturating_sub(at as u16);
                let style = style.patch(canvas.style(*tone));
                canvas.styled(x + at as u16, y, left, part, style);
            }
        }
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

/// Number of rows of each block: first what it needs at least, then one after the other up to what
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
