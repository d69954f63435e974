//! The bare loops: the least a receiver can do. They run as processes of their own so that their
//! CPU is metered in the same way as that of any peer.
//!
//! Both speak the same small language with the runner: `ready PORT` on stdout when they listen,
//! one line of JSON (`{"events":N,"bytes":N}`) for every line read from stdin, a last one when
//! stdin ends, which ends the process.

pub mod relay;
pub mod tail;
pub mod tcp;
pub mod udp;

use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// Events and bytes that a bare loop has received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoopCount {
    pub events: u64,
    pub bytes: u64,
}

/// Written by the loop once a read, read by the threads that answer for it.
#[derive(Debug, Default)]
pub struct LoopCounters {
    events: AtomicU64,
    bytes: AtomicU64,
}

impl LoopCounters {
    /// The loop is the only writer: plain stores, no locked instruction in what is measured.
    pub fn add(&self, events: u64, bytes: u64) {
        self.events
            .store(self.events.load(Relaxed) + events, Relaxed);
        self.bytes.store(self.bytes.load(Relaxed) + bytes, Relaxed);
    }

    fn count(&self) -> LoopCount {
        LoopCount {
            events: self.events.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
        }
    }

    fn say(&self) -> Result<()> {
        say(&serde_json::to_string(&self.count())?)
    }
}

/// One line on stdout, at once.
pub fn say(line: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush().context("stdout")
}

/// Runs `receive` on a thread of its own and answers questions on stdin until it ends.
pub fn answer(
    tally: &Arc<LoopCounters>,
    receive: impl FnOnce(&LoopCounters) -> Result<()> + Send + 'static,
) -> Result<()> {
    let of_loop = Arc::clone(tally);
    thread::spawn(move || {
        if let Err(error) = receive(&of_loop) {
            // Where a count is expected: whoever asks for one learns why there is none.
            let _ = say(&format!("{error:#}"));
        }
    });
    for line in io::stdin().lock().lines() {
        line.context("stdin")?;
        tally.say()?;
    }
    tally.say()
}
