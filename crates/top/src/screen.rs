//! The loop on the terminal, and the two ways without one.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event};
use ratatui::layout::Rect;

use crate::app::{App, KeyAction};
use inrush_client::AdminTarget;

use crate::client::{SnapshotClient, TopError};
use crate::draw;
use crate::snapshot::Snapshot;

/// Between two questions.
const EVERY: Duration = Duration::from_secs(1);

/// Longest wait for a key before an answer is looked for.
const PATIENCE: Duration = Duration::from_millis(100);

/// Between the two snapshots of [`once`]: a process answers with the same one for a second.
const APART: Duration = Duration::from_millis(1100);

/// Fewest rows of a frame on paper.
const PAPER_ROWS: u16 = 24;

/// One snapshot of a process, as it was sent.
///
/// # Errors
/// All of [`TopError`] but the last.
pub fn json(target: &AdminTarget) -> Result<String, TopError> {
    SnapshotClient::new(target)?.text()
}

/// One frame of `width` columns as text, of two snapshots a second apart, with as many rows as it
/// takes to show everything.
///
/// # Errors
/// All of [`TopError`] but the last.
pub fn once(target: &AdminTarget, width: u16) -> Result<String, TopError> {
    let client = SnapshotClient::new(target)?;
    let first = client.snapshot()?;
    thread::sleep(APART);
    let second = client.snapshot()?;
    Ok(paper(client.base(), [first, second], width))
}

/// A frame without a terminal.
pub(crate) fn paper(address: &str, snapshots: [Snapshot; 2], width: u16) -> String {
    let at = Instant::now();
    let mut app = App::new(address, false);
    app.whole = true;
    for snapshot in snapshots {
        app.take(Ok(snapshot), at);
    }
    let rows = draw::height(&app, width).max(PAPER_ROWS);
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, rows));
    draw::frame(&app, at, &mut buffer);
    let lines = buffer.content().chunks(usize::from(width).max(1));
    let text: Vec<String> = lines
        .map(|cells| {
            let line: String = cells.iter().map(|cell| cell.symbol()).collect();
            line.trim_end().to_owned()
        })
        .collect();
    format!("{}\n", text.join("\n").trim_end())
}

/// Shows a process until a key, or `stop`, ends it.
///
/// # Errors
/// All of [`TopError`] but [`TopError::Answer`]: a process that does not answer is waited for.
pub fn run(target: &AdminTarget, colour: bool, stop: &AtomicBool) -> Result<(), TopError> {
    let client = SnapshotClient::new(target)?;
    let mut app = App::new(client.base(), colour);
    let (orders, obeyed) = channel();
    let (answered, answers) = channel();
    thread::Builder::new()
        .name("ask".to_owned())
        .spawn(move || ask(&client, &obeyed, &answered))?;
    // Restores the terminal in a panic too.
    let terminal = ratatui::try_init();
    let shown = terminal.and_then(|terminal| show(terminal, &mut app, &orders, &answers, stop));
    ratatui::restore();
    Ok(shown?)
}

/// Asks once a second until nobody wants answers any more. While `true` was the last order, it
/// rests.
fn ask(
    client: &SnapshotClient,
    orders: &Receiver<bool>,
    answers: &Sender<Result<Snapshot, String>>,
) {
    let mut resting = false;
    loop {
        if !resting {
            let answer = client.snapshot().map_err(|error| error.to_string());
            if answers.send(answer).is_err() {
                return;
            }
        }
        match orders.recv_timeout(EVERY) {
            Ok(rest) => resting = rest,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn show(
    mut terminal: DefaultTerminal,
    app: &mut App,
    orders: &Sender<bool>,
    answers: &Receiver<Result<Snapshot, String>>,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut stale = true;
    while !stop.load(Relaxed) {
        if stale {
            let at = Instant::now();
            terminal.draw(|frame| draw::frame(app, at, frame.buffer_mut()))?;
        }
        // Without an answer the header counts the seconds.
        stale = app.silence.is_some();
        if event::poll(PATIENCE)? {
            stale = true;
            let Event::Key(key) = event::read()? else {
                continue;
            };
            match app.key(key) {
                Some(KeyAction::Quit) => return Ok(()),
                Some(KeyAction::Pause) => {
                    // If the thread is gone, there is nobody to tell.
                    let _ = orders.send(app.paused);
                }
                Some(KeyAction::Draw) | None => {}
            }
        }
        for answer in answers.try_iter() {
            app.take(answer, Instant::now());
            stale = true;
        }
    }
    Ok(())
}
