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

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use inrush_event::{StreamPosition, Timestamp, instant_now};
use inrush_transport::files::glob::GlobSet;
use inrush_transport::files::tail_file::TailFile;
use inrush_transport::files::tree::{FileChange, FileWatch, TreeEvent, TreeOptions, TreeWatcher};
use mio::{Events, Interest, Poll, Token, Waker};

use super::counts::SharedCounts;
use super::form::FormMaker;
use super::known::KnownFiles;
use super::options::FileSource;
use super::position::LogPosition;
use super::tail::{ReaderHandle, TailOrder, TailReport};
use super::workload::{SourceDesk, WakeCallback, WorkloadBoard};

const TREE: Token = Token(0);
const WAKE: Token = Token(1);
const VOLUMES: Token = Token(2);

/// Longest rest.
const REST_MAX: Duration = Duration::from_secs(1);

/// Time between two looks at the containers of all logs: a node has many, and pods change often.
const WORKLOADS_REST: Duration = Duration::from_millis(50);

/// Stream of the time of the first start of a source, in place of a log.
pub(super) const FIRST_START: u64 = 0;

/// Watches of the kernel that a source takes at most; others need some too.
const WATCHES_MAX: usize = 1 << 19;

/// Orders to the finder.
#[derive(Default)]
struct FinderOrders {
    stops: AtomicBool,
    options: Mutex<Option<(FileSource, Arc<SourceDesk>)>>,
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

    /// The same for those who know of changes of metadata.
    pub(super) fn wake_callback(&self) -> WakeCallback {
        let handle = self.clone();
        Arc::new(move || handle.wake())
    }

    /// True if it was told to end.
    pub(super) fn is_stopped(&self) -> bool {
        self.orders.stops.load(Ordering::Acquire)
    }

    /// Has it follow other options.
    pub(super) fn replace(&self, options: FileSource, desk: Arc<SourceDesk>) {
        *lock(&self.orders.options) = Some((options, desk));
        self.wake();
    }
}

/// Finder of the files of one source.
pub(super) struct FileFinder {
    poll: Poll,
    handle: FinderHandle,
    tree: TreeWatcher,
    known: KnownFiles,
    counts: SharedCounts,
    reports: Receiver<TailReport>,
    options: FileSource,
    /// Positions that are to be gone on from.
    positions: Vec<(u64, LogPosition)>,
    /// Watcher of the files in volumes that annotations name, and their patterns.
    volumes: Option<TreeWatcher>,
    volume_patterns: BTreeSet<String>,
    /// Desk that is asked about containers.
    desk: Arc<SourceDesk>,
    /// Number of its last change that was looked at.
    seen_change: u64,
    /// Time at which the containers of all logs were last looked at.
    looked_at: Instant,
    /// Time at which names that are not open are looked at again.
    next_prune: Instant,
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

/// The time of the first start among the positions, in nanoseconds since 1970.
pub(super) fn first_start(positions: &[StreamPosition]) -> Option<Timestamp> {
    let found = positions.iter().find(|one| one.stream == FIRST_START)?;
    let bytes = found.state.as_ref().try_into().ok()?;
    Some(Timestamp(i64::from_le_bytes(bytes)))
}

impl FileFinder {
    /// The finder of a source, which was first started then. It begins with the positions that the
    /// queue has. `open_desk` makes the desk that is asked about containers, which wakes it.
    ///
    /// # Errors
    /// In words: a pattern is none, there is no descriptor to be had, or no desk.
    pub(super) fn new(
        options: &FileSource,
        (counts, board): (&SharedCounts, &Arc<WorkloadBoard>),
        (first_start, positions): (Timestamp, &[StreamPosition]),
        reports: Receiver<TailReport>,
        open_desk: impl FnOnce(WakeCallback) -> Result<SourceDesk, String>,
    ) -> Result<Self, String> {
        let no_poll = |error: io::Error| format!("files cannot be watched: {error}");
        let poll = Poll::new().map_err(no_poll)?;
        let waker = Waker::new(poll.registry(), WAKE).map_err(no_poll)?;
        let handle = FinderHandle {
            orders: Arc::default(),
            waker: Arc::new(waker),
        };
        let tree = tree_of(options)?;
        let desk = Arc::new(open_desk(handle.wake_callback())?);
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
            (
                FormMaker::new(options, Arc::clone(&desk)),
                Arc::clone(board),
            ),
            Arc::clone(tree.allowed_roots()),
            Arc::clone(counts),
            first_start.0,
            next,
        );
        let mut finder = Self {
            poll,
            handle,
            tree,
            known,
            counts: Arc::clone(counts),
            reports,
            options: options.clone(),
            positions: logs.collect(),
            volumes: None,
            volume_patterns: BTreeSet::new(),
            desk,
            seen_change: 0,
            looked_at: instant_now(),
            next_prune: Instant::now(),
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
        self.begin(reader);
        let mut events = Events::with_capacity(16);
        while !self.handle.is_stopped() {
            let options = lock(&self.handle.orders.options).take();
            if let Some((options, desk)) = options {
                self.desk = desk;
                self.follow(options, reader);
            }
            let workloads_due = self.step(reader, Instant::now());
            let trees = [Some(&self.tree), self.volumes.as_ref()];
            let due = trees.into_iter().flatten();
            let due = due.map(|tree| tree.due_in(Instant::now()));
            // Looked at once more: if nothing has come by then, the names are quiet.
            let quiet = match self.is_settled() && !self.known.accounts.is_empty() {
                true => Duration::ZERO,
                false => REST_MAX,
            };
            let rest = due.chain([workloads_due, quiet]).min().unwrap_or(REST_MAX);
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

    /// Has logs follow what has changed of their containers. Returns the time until it is to be
    /// called again.
    fn look_at_workloads(&mut self, now: Instant, reader: &ReaderHandle) -> Duration {
        if !self.desk.is_live() {
            return REST_MAX;
        }
        self.known.end_waits(now);
        let change = self.desk.generation();
        let since = now.saturating_duration_since(self.looked_at);
        let has_changed = change != self.seen_change;
        if has_changed && since < WORKLOADS_REST {
            return WORKLOADS_REST - since;
        }
        if has_changed || self.desk.has_docker() && since >= REST_MAX {
            (self.seen_change, self.looked_at) = (change, now);
            self.known.look_at_workloads();
            let patterns = self.desk.volume_patterns();
            if patterns != self.volume_patterns {
                self.volume_patterns = patterns;
                self.follow_volumes(reader);
            }
        }
        REST_MAX
    }

    /// Watches the files in volumes that annotations name now.
    fn follow_volumes(&mut self, reader: &ReaderHandle) {
        if let Some(mut old) = self.volumes.take()
            && let Err(error) = self.poll.registry().deregister(&mut old)
        {
            tracing::warn!(%error, "volumes: the last watches cannot be given back");
        }
        let include: Vec<String> = self.volume_patterns.iter().cloned().collect();
        if !include.is_empty() {
            let options = FileSource {
                include: include.clone(),
                // Their files are written by others than who reads them.
                follow_outside: false,
                ..self.options.clone()
            };
            match tree_of(&options) {
                Ok(mut tree) => {
                    let registry = self.poll.registry();
                    if let Err(error) = registry.register(&mut tree, VOLUMES, Interest::READABLE) {
                        tracing::error!(%error, "files in volumes cannot be watched");
                    }
                    self.volumes = Some(tree);
                }
                Err(words) => tracing::error!("files in volumes: {words}"),
            }
        }
        let globs = GlobSet::new(&include, &self.options.exclude);
        let is_named = |path: &Path| globs.as_ref().is_ok_and(|globs| globs.matches(path));
        for stream in self.known.follow_volumes(is_named) {
            reader.order(TailOrder::Forget(stream));
        }
    }

    /// Goes on with the logs of an earlier process, before any folder is listed.
    pub(super) fn begin(&mut self, reader: &ReaderHandle) {
        reader.order(TailOrder::Hold(self.options.rotate_hold.0));
        self.known.resume(&std::mem::take(&mut self.positions));
    }

    /// Takes in what has happened. Returns the time until containers are to be looked at.
    pub(super) fn step(&mut self, reader: &ReaderHandle, now: Instant) -> Duration {
        let mut found = Vec::new();
        if let Err(error) = self.tree.poll(Duration::ZERO, &mut found) {
            tracing::error!(%error, "notices of files cannot be read");
            self.tree.rescan();
        }
        if let Some(volumes) = &mut self.volumes
            && let Err(error) = volumes.poll(Duration::ZERO, &mut found)
        {
            tracing::error!(%error, "notices of files in volumes cannot be read");
            volumes.rescan();
        }
        self.take_reports(reader);
        for (path, files) in self.take_made() {
            self.known.made(&path, files);
        }
        // A file is found under its new name before the notice says which one it had.
        for event in &found {
            self.known.accounts.told(event);
        }
        for event in found {
            self.take(event, reader);
        }
        self.known.look_again(now);
        if self.tree.is_listed() {
            self.known.give_up_orphans();
        }
        if self.next_prune <= now {
            self.counts.board.forget_gone();
            self.next_prune = now + REST_MAX;
        }
        self.known.settle_names(self.is_settled(), now);
        self.known.accounts.rest();
        let workloads_due = self.look_at_workloads(instant_now(), reader);
        for order in self.known.take_orders() {
            reader.order(order);
        }
        let counts = self.tree.counts();
        self.counts.polled_files.set(counts.files_polled as u64);
        self.counts.watched_files.set(counts.files_watched as u64);
        let mut trees = [Some(&self.tree), self.volumes.as_ref()]
            .into_iter()
            .flatten();
        if trees.all(|tree| tree.counts().folders_polled == 0) {
            self.counts.board.folders_watched();
        }
        workloads_due
    }

    /// True if all notices so far are taken in.
    fn is_settled(&self) -> bool {
        let trees = [Some(&self.tree), self.volumes.as_ref()];
        trees.into_iter().flatten().all(TreeWatcher::is_settled)
    }

    /// Files that were made since the last step, by their paths.
    fn take_made(&mut self) -> Vec<(PathBuf, u64)> {
        let trees = [Some(&mut self.tree), self.volumes.as_mut()];
        let made = trees.into_iter().flatten().flat_map(TreeWatcher::take_made);
        made.collect()
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
        if let Err(error) = self.poll.registry().deregister(&mut self.tree) {
            tracing::warn!(%error, "files: the last watches cannot be given back");
        }
        self.tree = tree;
        if let Err(error) = self.register() {
            tracing::error!(%error, "files cannot be watched");
        }
        let roots = Arc::clone(self.tree.allowed_roots());
        // So that what was found in volumes is known to the new desk, too.
        let patterns = self.desk.volume_patterns();
        let maker = FormMaker::new(&options, Arc::clone(&self.desk));
        let gone = self.known.follow_options(maker, roots);
        for stream in gone {
            reader.order(TailOrder::Forget(stream));
        }
        // Watches are asked for again by those who need them.
        for stream in self.known.streams() {
            self.counts.board.noticed(stream);
            reader.order(TailOrder::Changed(stream));
        }
        self.options = options;
        self.volume_patterns = patterns;
        self.follow_volumes(reader);
    }

    fn take(&mut self, event: TreeEvent, reader: &ReaderHandle) {
        match event {
            TreeEvent::Found { path } => self.known.found(&path),
            TreeEvent::Vanished { path } => self.known.vanished(&path),
            TreeEvent::Moved {
                from,
                to,
                to_matches,
            } => self.known.moved(&from, &to, to_matches),
            TreeEvent::Missed { from, to } => self.known.missed_name(&from, &to),
            TreeEvent::Changed { file, change } => {
                let FileWatch(stream) = file;
                if matches!(change, FileChange::Content | FileChange::Ended) {
                    self.tree.pause_file(file);
                    self.counts.board.noticed(stream);
                    reader.order(TailOrder::Changed(stream));
                }
            }
            TreeEvent::Refused { path, reason } => {
                self.counts.failed_files.add(1);
                tracing::warn!(file = %path.display(), "not read: {reason}");
                self.counts.board.refused(&path, &reason);
            }
            TreeEvent::Polling { path, reason } => {
                tracing::warn!(folder = %path.display(), "polled, not watched: {reason}");
                self.counts.board.polls(Some(&path), reason);
            }
            TreeEvent::Overflow => tracing::info!("notices of files were lost: all are looked at"),
        }
    }

    fn take_reports(&mut self, reader: &ReaderHandle) {
        while let Ok(report) = self.reports.try_recv() {
            match report {
                TailReport::Watch(stream, file) => {
                    self.watch(stream, &file);
                    reader.order(TailOrder::Watched(stream));
                }
                TailReport::Learnt(identity) => self.known.learn(identity),
                TailReport::Shortened(stream, file) => self.known.shortened(stream, &file),
                TailReport::Looked(stream, number, read) => {
                    self.known.looked(stream, number, read);
                }
                TailReport::Left(key, taken) => self.known.left(key, taken),
                TailReport::Ended(ended) => {
                    self.known.ended(&ended);
                    self.tree.forget_file(FileWatch(ended.stream));
                }
            }
        }
    }

    /// Has the kernel say when something is added to a log.
    fn watch(&mut self, stream: u64, file: &Arc<TailFile>) {
        let refusal = self.tree.watch_file(FileWatch(stream), file);
        self.counts.board.silent(stream, refusal);
    }
}
