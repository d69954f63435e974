//! Finder of a source's files: it has the reader open what matches, and watches what is silent.
//!
//! # What it guarantees
//! * A file is opened as soon as its name is seen: what is renamed or deleted after that is read
//!   all the same, whatever the reader is doing.
//! * A watched log to which something is added is read again; one more read after each watch sees
//!   what came before it.
//!
//! # After a crash
//! Logs go on at the positions in the queue, before any folder is listed.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use inrush_event::{StreamPosition, Timestamp};
use inrush_transport::files::glob::GlobSet;
use inrush_transport::files::tail_file::TailFile;
use inrush_transport::files::tree::{FileChange, FileWatch, TreeEvent, TreeOptions, TreeWatcher};
use mio::{Events, Interest, Poll, Token, Waker};

use super::counts::SharedCounts;
use super::form::FormMaker;
use super::known::KnownFiles;
use super::options::FileSource;
use super::position::LogPosition;
use super::running::ReaderHandle;
use super::tail::{TailOrder, TailReport};

const TREE: Token = Token(0);
const WAKE: Token = Token(1);

/// Longest rest.
const REST_MAX: Duration = Duration::from_secs(1);

/// Stream of the time of the first start of a source, in place of a log.
const FIRST_START: u64 = 0;

/// Watches of the kernel that a source takes at most; others need some too.
const WATCHES_MAX: usize = 1 << 19;

/// Orders to the finder.
#[derive(Default)]
struct FinderOrders {
    stops: AtomicBool,
    options: Mutex<Option<FileSource>>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Handle to a finder.
#[derive(Clone)]
pub(super) struct FinderHandle {
    orders: Arc<FinderOrders>,
    waker: Arc<Waker>,
}

impl FinderHandle {
    /// Ends its rest.
    pub(super) fn wake(&self) {
        if let Err(error) = self.waker.wake() {
            tracing::error!(%error, "cannot wake the finder of files");
        }
    }

    /// Has it end.
    pub(super) fn stop(&self) {
        self.orders.stops.store(true, Ordering::Release);
        self.wake();
    }

    /// True if it was told to end.
    pub(super) fn is_stopped(&self) -> bool {
        self.orders.stops.load(Ordering::Acquire)
    }

    /// Has it follow other options.
    pub(super) fn replace(&self, options: FileSource) {
        *lock(&self.orders.options) = Some(options);
        self.wake();
    }
}

/// A log that is watched.
struct WatchedLog {
    watch: FileWatch,
    file: Arc<TailFile>,
}

/// Finder of the files of one source.
pub(super) struct FileFinder {
    poll: Poll,
    handle: FinderHandle,
    tree: TreeWatcher,
    known: KnownFiles,
    counts: SharedCounts,
    reports: Receiver<TailReport>,
    watched: HashMap<u64, WatchedLog>,
    by_watch: HashMap<FileWatch, u64>,
    options: FileSource,
    /// Positions that are to be gone on from.
    positions: Vec<(u64, LogPosition)>,
    /// Time of the first start, if this is it.
    first_start: Option<Timestamp>,
}

fn tree_of(options: &FileSource) -> Result<TreeWatcher, String> {
    let tree = TreeWatcher::new(&TreeOptions {
        include: options.include.clone(),
        exclude: options.exclude.clone(),
        allowed_roots: Vec::new(),
        follow_outside: options.follow_outside,
        poll_interval: options.poll_interval.0,
        watches_max: WATCHES_MAX,
    });
    tree.map_err(|(pattern, fault)| format!("`{pattern}`: {fault}"))
}

/// The time of the first start among the positions.
fn first_start(positions: &[StreamPosition]) -> Option<i64> {
    let found = positions.iter().find(|one| one.stream == FIRST_START)?;
    let bytes = found.state.as_ref().try_into().ok()?;
    Some(i64::from_le_bytes(bytes))
}

impl FileFinder {
    /// The finder of a source. It begins with the positions that the queue has.
    ///
    /// # Errors
    /// In words: a pattern is none, or there is no descriptor to be had.
    pub(super) fn new(
        options: &FileSource,
        counts: &SharedCounts,
        positions: &[StreamPosition],
        reports: Receiver<TailReport>,
    ) -> Result<Self, String> {
        let no_poll = |error: io::Error| format!("files cannot be watched: {error}");
        let poll = Poll::new().map_err(no_poll)?;
        let waker = Waker::new(poll.registry(), WAKE).map_err(no_poll)?;
        let tree = tree_of(options)?;
        let known_start = first_start(positions);
        let now = Timestamp::now();
        let logs = positions.iter().filter(|one| one.stream != FIRST_START);
        let logs = logs.filter_map(|one| {
            let decoded = LogPosition::decode(&one.state);
            if decoded.is_none() {
                tracing::warn!(stream = one.stream, "a position of a file cannot be read");
            }
            Some((one.stream, decoded?))
        });
        let next = positions
            .iter()
            .map(|one| one.stream)
            .max()
            .unwrap_or(FIRST_START)
            + 1;
        let known = KnownFiles::new(
            FormMaker::new(options),
            Arc::clone(tree.allowed_roots()),
            Arc::clone(counts),
            known_start.unwrap_or(now.0),
            next,
        );
        let mut finder = Self {
            poll,
            handle: FinderHandle {
                orders: Arc::default(),
                waker: Arc::new(waker),
            },
            tree,
            known,
            counts: Arc::clone(counts),
            reports,
            watched: HashMap::new(),
            by_watch: HashMap::new(),
            options: options.clone(),
            positions: logs.collect(),
            first_start: known_start.is_none().then_some(now),
        };
        finder.register().map_err(no_poll)?;
        Ok(finder)
    }

    fn register(&mut self) -> io::Result<()> {
        let registry = self.poll.registry();
        registry.register(&mut self.tree, TREE, Interest::READABLE)
    }

    /// Handle to it.
    pub(super) fn handle(&self) -> FinderHandle {
        self.handle.clone()
    }

    /// Finds files until it is told to end.
    pub(super) fn run(mut self, reader: &ReaderHandle) {
        reader.order(TailOrder::Hold(self.options.rotate_hold.0));
        if let Some(at) = self.first_start {
            reader.order(TailOrder::Note(FIRST_START, at.0.to_le_bytes().to_vec()));
        }
        for gone in self.known.resume(&std::mem::take(&mut self.positions)) {
            reader.order(TailOrder::ForgetPosition(gone));
        }
        let mut events = Events::with_capacity(16);
        let mut found = Vec::new();
        while !self.handle.is_stopped() {
            let options = lock(&self.handle.orders.options).take();
            if let Some(options) = options {
                self.follow(options, reader);
            }
            if let Err(error) = self.tree.poll(Duration::ZERO, &mut found) {
                tracing::error!(%error, "notices of files cannot be read");
                self.tree.rescan();
            }
            self.take_reports(reader);
            self.known.look_again();
            for event in found.drain(..) {
                self.take(event, reader);
            }
            for order in self.known.take_orders() {
                reader.order(order);
            }
            let counts = self.tree.counts();
            self.counts.polled_files.set(counts.files_polled as u64);
            let rest = self.tree.due_in(Instant::now()).min(REST_MAX);
            match self.poll.poll(&mut events, Some(rest)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::error!(%error, "waiting for files failed");
                    std::thread::sleep(REST_MAX);
                }
            }
        }
    }

    /// Follows other options: files that still match stay open.
    fn follow(&mut self, options: FileSource, reader: &ReaderHandle) {
        let tree = match tree_of(&options) {
            Ok(tree) => tree,
            Err(words) => {
                tracing::error!("files: {words}");
                return;
            }
        };
        reader.order(TailOrder::Hold(options.rotate_hold.0));
        for (_, log) in self.watched.drain() {
            self.tree.forget_file(log.watch);
        }
        self.by_watch.clear();
        if let Err(error) = self.poll.registry().deregister(&mut self.tree) {
            tracing::warn!(%error, "files: the last watches cannot be given back");
        }
        self.tree = tree;
        if let Err(error) = self.register() {
            tracing::error!(%error, "files cannot be watched");
        }
        let roots = Arc::clone(self.tree.allowed_roots());
        let globs = GlobSet::new(&options.include, &options.exclude);
        let matches = |path: &Path| globs.as_ref().is_ok_and(|globs| globs.matches(path));
        let gone = self
            .known
            .follow_options(FormMaker::new(&options), roots, matches);
        for stream in gone {
            reader.order(TailOrder::Forget(stream));
        }
        // Watches are asked for again by those who need them.
        for stream in self.known.streams() {
            reader.order(TailOrder::Changed(stream));
        }
        self.options = options;
    }

    fn take(&mut self, event: TreeEvent, reader: &ReaderHandle) {
        match event {
            TreeEvent::Found { path } => self.known.found(&path),
            TreeEvent::Vanished { path } => self.known.vanished(&path),
            TreeEvent::Moved {
                from,
                to,
                to_matches,
            } => {
                self.known.vanished(&from);
                if to_matches {
                    self.known.found(&to);
                }
            }
            TreeEvent::Changed { file, change } => {
                let Some(stream) = self.by_watch.get(&file).copied() else {
                    return;
                };
                if matches!(change, FileChange::Content | FileChange::Ended) {
                    self.tree.pause_file(file);
                    reader.order(TailOrder::Changed(stream));
                }
            }
            TreeEvent::Refused { path, reason } => {
                self.counts.failed_files.add(1);
                tracing::warn!(file = %path.display(), "not read: {reason}");
            }
            TreeEvent::Polling { path, reason } => {
                tracing::warn!(folder = %path.display(), "polled, not watched: {reason}");
            }
            TreeEvent::Overflow => tracing::info!("notices of files were lost: all are looked at"),
        }
    }

    fn take_reports(&mut self, reader: &ReaderHandle) {
        while let Ok(report) = self.reports.try_recv() {
            match report {
                TailReport::Watch(stream, file) => {
                    self.watch(stream, file);
                    reader.order(TailOrder::Watched(stream));
                }
                TailReport::Learnt(identity) => self.known.learn(identity),
                TailReport::Ended {
                    stream,
                    taken,
                    is_deleted,
                } => {
                    self.known.ended(stream, taken, is_deleted);
                    if let Some(log) = self.watched.remove(&stream) {
                        self.by_watch.remove(&log.watch);
                        self.tree.forget_file(log.watch);
                    }
                }
            }
        }
    }

    /// Has the kernel say when something is added to a log.
    fn watch(&mut self, stream: u64, file: Arc<TailFile>) {
        match self.watched.get(&stream) {
            Some(log) if Arc::ptr_eq(&log.file, &file) => {
                self.tree.resume_file(log.watch);
            }
            _ => {
                let (watch, _) = self.tree.watch_file(&file);
                if let Some(old) = self.watched.insert(stream, WatchedLog { watch, file }) {
                    self.by_watch.remove(&old.watch);
                    self.tree.forget_file(old.watch);
                }
                self.by_watch.insert(watch, stream);
            }
        }
    }
}
