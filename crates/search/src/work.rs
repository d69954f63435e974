//! The pieces of a search, newest first, shared by the threads that search them.
//!
//! Files are opened when their turn comes, so a search that ends early opens few; each then gives
//! its pieces to the same heap. The [frontier](Work::frontier) is the latest time that anything
//! unfinished can have: whatever was found at it or later is final.

use std::collections::{BTreeMap, BinaryHeap};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use inrush_store::read::{
    DataFileReader, FooterCache, PruningFilter, ReadError, ReadMeter, SearchPiece, candidates,
};
use inrush_store::reply::{SearchProgress, SetAside};
use inrush_store::snapshot::{DataFile, Snapshot};
use tokio::sync::Notify;

/// Files that are named in an answer at most; more are counted by the log.
const NAMED_MAX: usize = 20;

/// Files and pieces of a search that are left, shared by its threads.
#[derive(Debug)]
pub(crate) struct PieceQueue {
    pub(crate) files: DataFileReader,
    pub(crate) wanted: PruningFilter,
    pub(crate) meter: Arc<ReadMeter>,
    /// Taken for a moment, never while something is read.
    state: Mutex<PieceQueueState>,
    /// Something was put in, or nothing is left.
    changed: Notify,
    files_total: u64,
    files_done: Arc<AtomicU64>,
    set_aside: Mutex<Vec<SetAside>>,
}

#[derive(Debug, Default)]
struct PieceQueueState {
    todo: BinaryHeap<QueuedWork>,
    /// Latest time of each file or piece that was taken and is not finished, by its number.
    running: BTreeMap<u64, i64>,
    /// Of these, the files that are being opened.
    opening: usize,
    taken: u64,
}

impl PieceQueueState {
    /// The newest, files that cannot be read passed over.
    fn pop(&mut self) -> Option<QueuedWork> {
        loop {
            let todo = self.todo.pop()?;
            let file = match &todo.what {
                WorkItem::File(file) => Some(file),
                WorkItem::Piece(piece, _) => piece.file(),
            };
            if file.is_none_or(|file| !file.is_bad()) {
                return Some(todo);
            }
        }
    }
}

#[derive(Debug)]
struct QueuedWork {
    to_ns: i64,
    what: WorkItem,
}

#[derive(Debug)]
enum WorkItem {
    File(Arc<DataFile>),
    Piece(SearchPiece, Option<Arc<Ticket>>),
}

/// Counts a file as done when the last of its pieces is.
#[derive(Debug)]
struct Ticket(Arc<AtomicU64>);

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

impl PartialEq for QueuedWork {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for QueuedWork {}

impl PartialOrd for QueuedWork {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for QueuedWork {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.to_ns.cmp(&other.to_ns)
    }
}

/// A piece to search.
#[derive(Debug)]
pub(crate) struct PieceJob {
    pub(crate) number: u64,
    pub(crate) piece: SearchPiece,
    _ticket: Option<Arc<Ticket>>,
}

impl PieceQueue {
    pub(crate) fn new(
        snapshot: &Snapshot,
        wanted: PruningFilter,
        footers: &Arc<FooterCache>,
    ) -> Arc<Self> {
        let meter = Arc::new(ReadMeter::default());
        let files = DataFileReader::of(snapshot, Arc::clone(footers), Arc::clone(&meter));
        let (found, tail) = candidates(snapshot, &wanted);
        let files_total = found.len() as u64;
        let found = found.into_iter().map(|file| QueuedWork {
            to_ns: file.entry.to_ns,
            what: WorkItem::File(file),
        });
        let tail = tail.into_iter().map(|piece| QueuedWork {
            to_ns: piece.to_ns,
            what: WorkItem::Piece(piece, None),
        });
        let state = PieceQueueState {
            todo: found.chain(tail).collect(),
            ..PieceQueueState::default()
        };
        Arc::new(Self {
            files,
            wanted,
            meter,
            state: Mutex::new(state),
            changed: Notify::new(),
            files_total,
            files_done: Arc::default(),
            set_aside: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, PieceQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest piece that nobody has; none when all are given away.
    pub(crate) async fn next(&self) -> Result<Option<PieceJob>, ReadError> {
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            // From here on a change is seen, or one between the look and the wait would be missed.
            changed.as_mut().enable();
            match self.take() {
                NextWork::Piece(job) => return Ok(Some(job)),
                NextWork::File(number, file) => self.open(number, &file).await?,
                NextWork::Nothing => return Ok(None),
                NextWork::Wait => changed.await,
            }
        }
    }

    fn take(&self) -> NextWork {
        let mut state = self.state();
        let Some(todo) = state.pop() else {
            return match state.opening {
                0 => NextWork::Nothing,
                _ => NextWork::Wait,
            };
        };
        state.taken += 1;
        let number = state.taken;
        state.running.insert(number, todo.to_ns);
        match todo.what {
            WorkItem::File(file) => {
                state.opening += 1;
                NextWork::File(number, file)
            }
            WorkItem::Piece(piece, ticket) => NextWork::Piece(PieceJob {
                number,
                piece,
                _ticket: ticket,
            }),
        }
    }

    /// Puts the pieces of a file in.
    async fn open(&self, number: u64, file: &Arc<DataFile>) -> Result<(), ReadError> {
        // However it ends, those who wait for the pieces must not wait for ever.
        let opening = Opening { work: self, number };
        let pieces = match self.files.pieces(file, &self.wanted).await {
            Ok(pieces) => pieces,
            Err(ReadError::Damaged(why)) => {
                self.set_aside(file, why);
                Vec::new()
            }
            Err(fault) => return Err(fault),
        };
        let ticket = Arc::new(Ticket(Arc::clone(&self.files_done)));
        let mut state = self.state();
        state
            .todo
            .extend(pieces.into_iter().map(|piece| QueuedWork {
                to_ns: piece.to_ns,
                what: WorkItem::Piece(piece, Some(Arc::clone(&ticket))),
            }));
        drop(state);
        drop(opening);
        Ok(())
    }

    /// The piece is searched, and what was in it is known.
    pub(crate) fn finish(&self, number: u64) {
        self.state().running.remove(&number);
    }

    /// The latest time that anything unfinished can have; none if all is finished.
    pub(crate) fn frontier(&self) -> Option<i64> {
        let state = self.state();
        let todo = state.todo.peek().map(|todo| todo.to_ns);
        let running = state.running.values().max().copied();
        todo.max(running)
    }

    /// Takes note of a file that cannot be read: nobody reads it again.
    pub(crate) fn set_aside(&self, file: &DataFile, reason: String) {
        let path = &file.entry.path;
        if file.set_bad() {
            tracing::error!(
                file = %path,
                %reason,
                "a file of the store cannot be read and is set aside"
            );
        }
        let mut named = self
            .set_aside
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if named.len() < NAMED_MAX && named.iter().all(|aside| aside.path != *path) {
            let path = path.clone();
            named.push(SetAside { path, reason });
        }
    }

    /// The files that could not be read.
    pub(crate) fn named(&self) -> Vec<SetAside> {
        let named = self.set_aside.lock();
        named.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn progress(&self) -> SearchProgress {
        SearchProgress {
            files_done: self.files_done.load(Relaxed),
            files_total: self.files_total,
            events_scanned: self.meter.rows(),
            bytes_scanned: self.meter.bytes(),
        }
    }
}

enum NextWork {
    Piece(PieceJob),
    File(u64, Arc<DataFile>),
    Wait,
    Nothing,
}

/// A file that is being opened.
struct Opening<'a> {
    work: &'a PieceQueue,
    number: u64,
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        let mut state = self.work.state();
        state.opening -= 1;
        state.running.remove(&self.number);
        drop(state);
        self.work.changed.notify_waiters();
    }
}
