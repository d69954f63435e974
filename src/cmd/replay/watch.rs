//! Looks on from a thread of its own: ends the work at a signal, says how far it is on a terminal,
//! and says what a destination that gets nowhere complains of.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use inrush_inspect::replay::DeliveryView;
use signal_hook::consts::{SIGINT, SIGTERM};

/// Time between two looks at the work.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Time between two complaints.
const COMPLAIN_EVERY: Duration = Duration::from_secs(10);

/// Progress of the work: records read, files done, and the number of files.
#[derive(Default)]
struct ReplayProgress {
    read: AtomicU64,
    files: AtomicU64,
    files_of: AtomicU64,
}

/// The thread; it ends with [`WatchThread::finish`].
pub(crate) struct WatchThread {
    over: Arc<AtomicBool>,
    known: Arc<ReplayProgress>,
    end: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl WatchThread {
    /// From now on SIGINT and SIGTERM end the work, and what `delivery` waits for.
    pub(super) fn start(delivery: Option<DeliveryView>) -> anyhow::Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // The second one ends the process.
            signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&over))
                .context("cannot take signals")?;
            signal_hook::flag::register(signal, Arc::clone(&over))
                .context("cannot take signals")?;
        }
        let known = Arc::new(ReplayProgress::default());
        let (end, ended) = mpsc::channel();
        let looker = ReplayWatcher {
            over: Arc::clone(&over),
            known: Arc::clone(&known),
            delivery,
            interactive: std::io::stderr().is_terminal(),
            complained: Instant::now(),
        };
        let thread = std::thread::Builder::new()
            .name("watch".into())
            .spawn(move || looker.run(&ended))
            .context("no thread")?;
        Ok(Self {
            over,
            known,
            end,
            thread,
        })
    }

    /// True if a signal came.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// So many records were read.
    pub(super) fn counted(&self, read: u64) {
        self.known.read.store(read, Relaxed);
    }

    /// So many files are done, of so many.
    pub(super) fn files(&self, done: u64, of: u64) {
        self.known.files.store(done, Relaxed);
        self.known.files_of.store(of, Relaxed);
    }

    /// Ends the thread; says whether a signal came.
    pub(super) fn finish(self) -> bool {
        drop(self.end);
        // It does nothing that could panic; if it did, the report matters more.
        let _ = self.thread.join();
        self.over.load(Relaxed)
    }
}

struct ReplayWatcher {
    over: Arc<AtomicBool>,
    known: Arc<ReplayProgress>,
    delivery: Option<DeliveryView>,
    interactive: bool,
    complained: Instant,
}

impl ReplayWatcher {
    fn run(mut self, ended: &mpsc::Receiver<()>) {
        while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            if self.over.load(Relaxed)
                && let Some(delivery) = &self.delivery
            {
                delivery.stop();
            }
            self.complain();
            if self.interactive {
                self.say();
            }
        }
        if self.interactive {
            eprint!("\r\x1b[K");
        }
    }

    fn say(&self) {
        let (read, of) = (
            self.known.read.load(Relaxed),
            self.known.files_of.load(Relaxed),
        );
        let files = self.known.files.load(Relaxed);
        eprint!("\r{read} records read");
        if of > 0 {
            eprint!(", {files} of {of} files");
        }
        if let Some(delivery) = &self.delivery {
            let ledger = delivery.ledger();
            for (name, one) in &ledger.destinations {
                eprint!(
                    ", {name}: {} delivered, {} pending",
                    one.delivered, one.pending
                );
            }
        }
        eprint!("\x1b[K");
    }

    fn complain(&mut self) {
        if self.complained.elapsed() < COMPLAIN_EVERY {
            return;
        }
        self.complained = Instant::now();
        if let Some((name, text)) = self.delivery.as_ref().and_then(DeliveryView::trouble) {
            let plain = |c: char| {
                if inrush_event::is_unprintable(c) {
                    ' '
                } else {
                    c
                }
            };
            let text: String = text.chars().map(plain).collect();
            let end = if self.interactive { "\r\x1b[K" } else { "" };
            eprintln!("{end}inrush: {name} takes nothing just now, still trying: {text}");
        }
    }
}
