//! State of the view between two frames, and the effect of keys on it.

use std::collections::VecDeque;
use std::time::Instant;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::panes::{Pane, SnapshotPair};
use crate::snapshot::Snapshot;

/// Rows of a page, for the keys that go by pages.
const PAGE_ROWS: usize = 10;

/// Seconds of which the rate is remembered.
const HISTORY_MAX: usize = 120;

/// Snapshots before the latest that are remembered: ten seconds of them.
const PAST_MAX: usize = 10;

/// Effect that a key asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeyAction {
    /// Draw again.
    Draw,
    /// Ask no more, or go on asking: see [`App::paused`].
    Pause,
    Quit,
}

/// Since when there is no answer, and why.
pub(crate) struct PollFailure {
    pub(crate) since: Instant,
    pub(crate) words: String,
}

/// Everything that a frame shows.
pub(crate) struct App {
    pub(crate) address: String,
    pub(crate) colour: bool,
    now: Option<Snapshot>,
    /// Those before, the latest first.
    past: VecDeque<Snapshot>,
    /// Events a second that came in, the latest first.
    pub(crate) history: VecDeque<f64>,
    pub(crate) silence: Option<PollFailure>,
    pub(crate) paused: bool,
    pub(crate) help: bool,
    pub(crate) focus: Pane,
    /// The first row shown, of each pane.
    pub(crate) offsets: [usize; Pane::ALL.len()],
    /// Every pane with its details, and no line about keys: for paper.
    pub(crate) whole: bool,
}

impl App {
    pub(crate) fn new(address: &str, colour: bool) -> Self {
        Self {
            address: address.to_owned(),
            colour,
            now: None,
            past: VecDeque::new(),
            history: VecDeque::new(),
            silence: None,
            paused: false,
            help: false,
            focus: Pane::Sources,
            offsets: [0; Pane::ALL.len()],
            whole: false,
        }
    }

    /// Takes note of an answer, or of why there is none.
    pub(crate) fn take(&mut self, answer: Result<Snapshot, String>, at: Instant) {
        let snapshot = match answer {
            Ok(snapshot) => snapshot,
            Err(words) => {
                let since = self.silence.as_ref().map_or(at, |silence| silence.since);
                self.silence = Some(PollFailure { since, words });
                return;
            }
        };
        self.silence = None;
        let Some(now) = self.now.take() else {
            self.now = Some(snapshot);
            return;
        };
        // Else it is the same one again: others may be asking too.
        let is_new = now.at_ms < snapshot.at_ms;
        if now.started_ms != snapshot.started_ms {
            // Another process: its counters began anew.
            self.past.clear();
            self.history.clear();
        } else if is_new {
            self.past.truncate(PAST_MAX - 1);
            self.past.push_front(now);
        }
        self.now = Some(snapshot);
        let rate = self.pair().and_then(|pair| pair.came_in());
        if let Some(rate) = rate.filter(|_| is_new) {
            self.history.truncate(HISTORY_MAX - 1);
            self.history.push_front(rate);
        }
    }

    /// Latest snapshot to show, and earlier ones for the rates, once there was an answer. Without
    /// an answer now there are no rates.
    pub(crate) fn pair(&self) -> Option<SnapshotPair<'_>> {
        let answered = |_: &&Snapshot| self.silence.is_none();
        Some(SnapshotPair {
            now: self.now.as_ref()?,
            before: self.past.front().filter(answered),
            older: self.past.back().filter(answered),
        })
    }

    /// Does what a key means; `None` if it means nothing.
    pub(crate) fn key(&mut self, key: KeyEvent) -> Option<KeyAction> {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if self.help && !(control && key.code == KeyCode::Char('c')) {
            self.help = false;
            return Some(KeyAction::Draw);
        }
        let offset = &mut self.offsets[self.focus.index()];
        match key.code {
            KeyCode::Char('c') if control => return Some(KeyAction::Quit),
            KeyCode::Char('q') | KeyCode::Esc => return Some(KeyAction::Quit),
            KeyCode::Char('p' | ' ') => {
                self.paused = !self.paused;
                return Some(KeyAction::Pause);
            }
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.help = true,
            KeyCode::Tab | KeyCode::Right => self.focus = self.focus.step(1),
            KeyCode::BackTab | KeyCode::Left => {
                self.focus = self.focus.step(Pane::ALL.len() - 1);
            }
            KeyCode::Up | KeyCode::Char('k') => *offset = offset.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => *offset = offset.saturating_add(1),
            KeyCode::PageUp => *offset = offset.saturating_sub(PAGE_ROWS),
            KeyCode::PageDown => *offset = offset.saturating_add(PAGE_ROWS),
            KeyCode::Home => *offset = 0,
            KeyCode::End => *offset = usize::MAX,
            _ => return None,
        }
        Some(KeyAction::Draw)
    }
}
