//! Board of a source's logs: what the reader has come to, for those who ask.
//!
//! # What it guarantees
//! * A listing waits for neither the reader nor the finder: both may wait for the queue, and that
//!   is when a listing is asked for.
//! * The reader pays a few stores a turn, and nothing a line.
//! * A listing never asks the server of a network file system, which may not answer.
//!
//! # States of a row
//! Live while something is added; silent once it is watched or polled. Failed, or held without a
//! name, beside that.
//!
//! # Limits
//! About 200 bytes a log. [`NAMES_MAX`] names that are not open. A listing asks the kernel for the
//! length of each log that is not silent. The length of a file of a network file system is that of
//! the reader's last turn.
//!
//! # After a crash
//! Nothing of it is kept.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use inrush_event::{Counter, Timestamp};
use inrush_transport::files::tail_file::{FileSystemKind, PathRefusal, TailFile};
use inrush_transport::files::watch::WatchRefusal;

use super::turn::{LineCosts, LogTurn};
use crate::listing::{FileListing, FileLosses, ListedFile, ListedState, PollReason, PollingCause};

/// Names that are not open and are remembered.
const NAMES_MAX: usize = 1024;

/// A name in so many of a listing may be one that is passed over: they need nobody.
const SKIPPED_SHARE: usize = 8;

/// Attention that a log gets: a [`PollReason`] and this are the silent ones.
const WATCHED: u8 = 1;

/// Codes of the reasons of polling, in the order of [`POLLED`].
const POLLED_FROM: u8 = 2;

/// Reasons of polling.
const POLLED: [PollReason; 5] = [
    PollReason::NoWatch,
    PollReason::NoInstance,
    PollReason::FileSystem,
    PollReason::Permission,
    PollReason::Other,
];

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ms(at: Timestamp) -> i64 {
    at.0 / 1_000_000
}

fn poll_reason(refusal: WatchRefusal) -> PollReason {
    match refusal {
        WatchRefusal::Full => PollReason::NoWatch,
        WatchRefusal::NoInstance => PollReason::NoInstance,
        WatchRefusal::Unnoticed => PollReason::FileSystem,
        WatchRefusal::Denied => PollReason::Permission,
        WatchRefusal::Gone | WatchRefusal::Failed(_) => PollReason::Other,
    }
}

/// A failure of a log, and the time of its first one.
#[derive(Debug)]
struct LogFailure {
    words: String,
    since_ms: i64,
}

/// Parts of a row that change at a rotation or a failure.
#[derive(Debug)]
struct RowFiles {
    /// The file that is read.
    front: Option<Arc<TailFile>>,
    /// Those that wait for it.
    waiting: Vec<Arc<TailFile>>,
    failure: Option<Box<LogFailure>>,
}

/// Row of a log. Its reader writes it, and its finder what the kernel notices.
#[derive(Debug)]
pub(super) struct LogRow {
    path: Arc<Path>,
    position: AtomicU64,
    read_bytes: Counter,
    generation: Counter,
    /// Time of the last read to the end; before the first, the time at which it was found.
    caught_up_ms: AtomicI64,
    /// 0 for a live log, [`WATCHED`], or the code of a reason of polling.
    attention: AtomicU8,
    is_held: AtomicBool,
    is_waiting: AtomicBool,
    is_failing: AtomicBool,
    /// True on a network file system: then the reader says the length.
    is_remote: bool,
    length: AtomicU64,
    /// Most logs have none.
    costs: OnceLock<Box<RowCosts>>,
    files: Mutex<RowFiles>,
}

/// Counts of what rotation and damage have cost a log.
#[derive(Default, Debug)]
struct RowCosts {
    joined: Counter,
    missed: Counter,
    losses: [Counter; 6],
}

impl LogRow {
    fn new(path: Arc<Path>, file: &Arc<TailFile>, position: u64, now: Timestamp) -> Self {
        Self {
            path,
            position: AtomicU64::new(position),
            read_bytes: Counter::default(),
            generation: Counter::default(),
            caught_up_ms: AtomicI64::new(ms(now)),
            attention: AtomicU8::new(0),
            is_held: AtomicBool::new(false),
            is_waiting: AtomicBool::new(false),
            is_failing: AtomicBool::new(false),
            is_remote: FileSystemKind::of(file.as_file()).is_ok_and(FileSystemKind::needs_polling),
            length: AtomicU64::new(position),
            costs: OnceLock::new(),
            files: Mutex::new(RowFiles {
                front: Some(Arc::clone(file)),
                waiting: Vec::new(),
                failure: None,
            }),
        }
    }

    /// Another generation waits.
    pub(super) fn push(&self, file: &Arc<TailFile>) {
        let mut files = lock(&self.files);
        match files.front {
            None => files.front = Some(Arc::clone(file)),
            Some(_) => files.waiting.push(Arc::clone(file)),
        }
        drop(files);
        self.attention.store(0, Relaxed);
    }

    /// Copies of what it had come before the file that was cut.
    pub(super) fn push_front(&self, file: &Arc<TailFile>) {
        let mut files = lock(&self.files);
        if let Some(front) = files.front.replace(Arc::clone(file)) {
            files.waiting.insert(0, front);
        }
    }

    /// The first generation is closed.
    pub(super) fn pop(&self) {
        let mut files = lock(&self.files);
        let next = (!files.waiting.is_empty()).then(|| files.waiting.remove(0));
        files.front = next;
        drop(files);
        self.generation.add(1);
    }

    fn costs(&self) -> &RowCosts {
        self.costs.get_or_init(Box::default)
    }

    /// So many bytes could not be read.
    pub(super) fn lost(&self, bytes: u64) {
        self.costs().losses[0].add(bytes);
    }

    /// The log has come to `position`.
    pub(super) fn moved(&self, position: u64, is_held: bool, costs: LineCosts) {
        self.position.store(position, Relaxed);
        self.is_held.store(is_held, Relaxed);
        if self.is_remote {
            let length = lock(&self.files).front.as_ref().map(|file| file.len());
            self.length
                .store(length.and_then(Result::ok).unwrap_or(0), Relaxed);
        }
        if costs == LineCosts::default() {
            return;
        }
        let sums = self.costs();
        sums.joined.add(costs.joined);
        let costs = [
            costs.cut,
            costs.flushed,
            costs.malformed,
            costs.holes,
            costs.truncated,
        ];
        for (sum, more) in sums.losses[1..].iter().zip(costs) {
            sum.add(more);
        }
    }

    /// Its lines wait for the metadata of their pod, or not any more.
    pub(super) fn waits(&self, does: bool) {
        self.is_waiting.store(does, Relaxed);
    }

    fn caught_up(&self, now: Timestamp) {
        self.caught_up_ms.store(ms(now), Relaxed);
    }

    /// It cannot be read.
    pub(super) fn failed(&self, words: &dyn std::fmt::Display, now: Timestamp) {
        let mut files = lock(&self.files);
        let since_ms = files.failure.as_ref().map_or(ms(now), |one| one.since_ms);
        let words = words.to_string();
        files.failure = Some(Box::new(LogFailure { words, since_ms }));
        self.is_failing.store(true, Relaxed);
    }

    /// It was read.
    pub(super) fn succeeded(&self, turn: LogTurn, now: Timestamp) {
        match turn {
            LogTurn::Read(bytes) | LogTurn::Drained(bytes) if bytes > 0 => {
                self.read_bytes.add(bytes as u64);
                self.attention.store(0, Relaxed);
            }
            _ => {}
        }
        if matches!(turn, LogTurn::Drained(_) | LogTurn::AtEnd) {
            self.caught_up(now);
        }
        if self.is_failing.load(Relaxed) {
            lock(&self.files).failure = None;
            self.is_failing.store(false, Relaxed);
        }
    }

    /// The kernel reports its changes from now on, or it is polled.
    fn silent(&self, polled: Option<PollReason>) {
        let at = POLLED.iter().position(|one| Some(*one) == polled);
        let code = at.map_or(WATCHED, |at| POLLED_FROM + at as u8);
        self.attention.store(code, Relaxed);
    }

    /// Something was added to a silent log: all before is read.
    fn noticed(&self, now: Timestamp) {
        if self.attention.swap(0, Relaxed) != 0 {
            self.caught_up(now);
        }
    }

    fn polled(&self) -> Option<PollReason> {
        let code = self.attention.load(Relaxed).checked_sub(POLLED_FROM)?;
        POLLED.get(usize::from(code)).copied()
    }

    /// Length of the present file, and bytes that are unread in it and in those that wait.
    fn lengths(&self) -> (u64, u64) {
        let position = self.position.load(Relaxed);
        if self.attention.load(Relaxed) != 0 && !self.is_failing.load(Relaxed) {
            return (position, 0);
        }
        if self.is_remote {
            let size = self.length.load(Relaxed).max(position);
            return (size, size - position);
        }
        let files = lock(&self.files);
        let length = |file: &Arc<TailFile>| file.len().unwrap_or(0);
        let size = files.front.as_ref().map_or(0, length);
        let waiting: u64 = files.waiting.iter().map(length).sum();
        (size, size.saturating_sub(position) + waiting)
    }

    fn state(&self) -> ListedState {
        match self.attention.load(Relaxed) {
            _ if self.is_failing.load(Relaxed) => ListedState::Failed,
            _ if self.is_waiting.load(Relaxed) => ListedState::WaitingForMetadata,
            _ if self.is_held.load(Relaxed) => ListedState::Held,
            0 => ListedState::Live,
            WATCHED => ListedState::Watched,
            _ => ListedState::Polled,
        }
    }

    fn listed(&self, (size, lag_bytes): (u64, u64), now: Timestamp) -> ListedFile {
        let files = lock(&self.files);
        let waiting = files.waiting.len() as u64;
        let failure = files.failure.as_ref();
        let (reason, since_ms) = (
            failure.map(|one| one.words.clone()),
            failure.map(|one| one.since_ms),
        );
        drop(files);
        let behind_ms = ms(now).saturating_sub(self.caught_up_ms.load(Relaxed));
        let costs = self.costs.get();
        let [rotated, cut, flushed, malformed, holes, truncated] =
            std::array::from_fn(|at| costs.map_or(0, |costs| costs.losses[at].get()));
        ListedFile {
            path: self.path.to_string_lossy().into_owned(),
            state: self.state(),
            reason,
            since_ms,
            generation: self.generation.get(),
            waiting,
            position: self.position.load(Relaxed),
            size,
            lag_bytes,
            lag_s: match lag_bytes {
                0 => 0.0,
                _ => behind_ms.max(0) as f64 / 1000.0,
            },
            read_bytes: self.read_bytes.get(),
            joined: costs.map_or(0, |costs| costs.joined.get()),
            losses: FileLosses {
                rotated_away_unread_bytes: rotated,
                missed_generations: costs.map_or(0, |costs| costs.missed.get()),
                lines_cut: cut,
                partial_flushed: flushed,
                malformed_lines: malformed,
                holes_skipped: holes,
                truncated,
            },
        }
    }
}

/// A name that matches and is not open.
#[derive(Debug)]
struct UnopenedName {
    reason: PathRefusal,
    since_ms: i64,
}

impl UnopenedName {
    fn listed(&self, path: &Path) -> ListedFile {
        use PathRefusal::{Denied, Failed, NoDescriptor, TooMany};
        let fails = matches!(self.reason, Denied | Failed(_) | NoDescriptor | TooMany);
        ListedFile {
            path: path.to_string_lossy().into_owned(),
            state: match fails {
                true => ListedState::Unopened,
                false => ListedState::Skipped,
            },
            reason: Some(self.reason.to_string()),
            since_ms: Some(self.since_ms),
            generation: 0,
            waiting: 0,
            position: 0,
            size: 0,
            lag_bytes: 0,
            lag_s: 0.0,
            read_bytes: 0,
            joined: 0,
            losses: FileLosses::default(),
        }
    }
}

/// Board of the logs of a source.
#[derive(Default, Debug)]
pub(super) struct LogBoard {
    rows: Mutex<HashMap<u64, Arc<LogRow>>>,
    unopened: Mutex<BTreeMap<PathBuf, UnopenedName>>,
    polling: Mutex<BTreeMap<PollReason, PollingCause>>,
}

impl LogBoard {
    /// A log is read from now on, from `position` of its first file.
    pub(super) fn open(
        &self,
        stream: u64,
        path: &Arc<Path>,
        file: &Arc<TailFile>,
        position: u64,
    ) -> Arc<LogRow> {
        let now = Timestamp::now();
        let row = Arc::new(LogRow::new(Arc::clone(path), file, position, now));
        lock(&self.rows).insert(stream, Arc::clone(&row));
        row
    }

    /// A log is closed.
    pub(super) fn close(&self, stream: u64) {
        lock(&self.rows).remove(&stream);
    }

    /// The kernel reports the changes of a log from now on, or it is polled.
    pub(super) fn silent(&self, stream: u64, refusal: Option<WatchRefusal>) {
        let row = lock(&self.rows).get(&stream).map(Arc::clone);
        if let Some(row) = row {
            row.silent(refusal.map(poll_reason));
        }
        if let Some(refusal) = refusal {
            self.polls(None, refusal);
        }
    }

    /// Something was added to a silent log.
    pub(super) fn noticed(&self, stream: u64) {
        if let Some(row) = lock(&self.rows).get(&stream) {
            row.noticed(Timestamp::now());
        }
    }

    /// So many files of a log's name were deleted before they could be opened.
    pub(super) fn missed(&self, stream: u64, files: u64) {
        if let Some(row) = lock(&self.rows).get(&stream) {
            row.costs().missed.add(files);
        }
    }

    /// Something is polled: a folder, or files alone.
    pub(super) fn polls(&self, folder: Option<&Path>, refusal: WatchRefusal) {
        let reason = poll_reason(refusal);
        let mut polling = lock(&self.polling);
        let cause = polling.entry(reason).or_insert_with(|| PollingCause {
            reason,
            words: refusal.to_string(),
            since_ms: ms(Timestamp::now()),
            folder: None,
            files: 0,
        });
        if let Some(folder) = folder {
            cause.folder = Some(folder.to_string_lossy().into_owned());
        }
    }

    /// No folder is polled any more.
    pub(super) fn folders_watched(&self) {
        for cause in lock(&self.polling).values_mut() {
            cause.folder = None;
        }
    }

    /// A name that matches is not opened.
    pub(super) fn refused(&self, path: &Path, reason: &PathRefusal) {
        let mut unopened = lock(&self.unopened);
        if let Some(known) = unopened.get_mut(path) {
            known.reason = reason.clone();
        } else if unopened.len() < NAMES_MAX {
            let name = UnopenedName {
                reason: reason.clone(),
                since_ms: ms(Timestamp::now()),
            };
            unopened.insert(path.to_owned(), name);
        }
    }

    /// A name is open, or gone.
    pub(super) fn settled(&self, path: &Path) {
        lock(&self.unopened).remove(path);
    }

    /// The files now, with `most` rows at most.
    pub(super) fn list(&self, most: usize, rotated_away_unread_bytes: u64) -> FileListing {
        let now = Timestamp::now();
        let rows: Vec<Arc<LogRow>> = lock(&self.rows).values().map(Arc::clone).collect();
        let mut listing = FileListing {
            logs: rows.len() as u64,
            rotated_away_unread_bytes,
            ..FileListing::default()
        };
        let mut polled: BTreeMap<PollReason, u64> = BTreeMap::new();
        let mut measured: Vec<(&LogRow, (u64, u64))> = Vec::with_capacity(rows.len());
        for row in &rows {
            let lengths = row.lengths();
            listing.lag_bytes += lengths.1;
            listing.failed += u64::from(row.is_failing.load(Relaxed));
            if let Some(reason) = row.polled() {
                *polled.entry(reason).or_default() += 1;
                listing.polled += 1;
            }
            measured.push((row, lengths));
        }
        listing.polling = self.polling_now(&polled);
        let unopened = self.unopened_now();
        listing.refused = unopened.len() as u64;
        let is_skipped = |one: &ListedFile| one.state == ListedState::Skipped;
        let (mut skipped, unopened): (Vec<_>, Vec<_>) = unopened.into_iter().partition(is_skipped);
        skipped.truncate(most.div_ceil(SKIPPED_SHARE));
        let fails = |row: &LogRow| row.is_failing.load(Relaxed);
        let (mut ill, mut well): (Vec<_>, Vec<_>) =
            measured.into_iter().partition(|(row, _)| fails(row));
        ill.truncate(most);
        listing.files = ill.iter().map(|(row, at)| row.listed(*at, now)).collect();
        let room = most.saturating_sub(listing.files.len());
        listing.files.extend(unopened.into_iter().take(room));
        let room = most.saturating_sub(listing.files.len() + skipped.len());
        well.sort_by_cached_key(|(row, (_, lag))| {
            (Reverse((*lag, row.read_bytes.get())), Arc::clone(&row.path))
        });
        well.truncate(room);
        listing
            .files
            .extend(well.iter().map(|(row, at)| row.listed(*at, now)));
        listing.files.extend(skipped);
        listing
    }

    fn polling_now(&self, polled: &BTreeMap<PollReason, u64>) -> Vec<PollingCause> {
        let mut polling = lock(&self.polling);
        polling.retain(|reason, cause| {
            cause.files = polled.get(reason).copied().unwrap_or(0);
            cause.files > 0 || cause.folder.is_some()
        });
        polling.values().cloned().collect()
    }

    /// Names that are not open, the oldest first.
    fn unopened_now(&self) -> Vec<ListedFile> {
        let unopened = lock(&self.unopened);
        let names = unopened.iter().map(|(path, name)| name.listed(path));
        let mut names: Vec<ListedFile> = names.collect();
        names.sort_by_key(|one| one.since_ms);
        names
    }

    /// Forgets names that are gone. The finder calls it, which asks file servers anyway.
    pub(super) fn forget_gone(&self) {
        let names: Vec<PathBuf> = lock(&self.unopened).keys().cloned().collect();
        let gone = names
            .into_iter()
            .filter(|path| fs::symlink_metadata(path).is_err());
        gone.for_each(|path| self.settled(&path));
    }
}
