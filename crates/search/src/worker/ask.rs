//! One search in the asking process: its turn, its worker, its replies.
//!
//! # What it guarantees
//! * The last reply is one end or one error, sent once the worker is free or dead.
//! * A restart needs the worker's death before its first reply, so no row comes twice.
//! * A file is set aside only if the worker's memory peak stayed below half of the budget.
//!
//! # States
//! `RunPermit::wait` gives the turn, `PoolShared::worker` a worker, `exchange` the replies.
//! `PoolShared::rests` takes the worker back.
//!
//! # Limits
//! A part of the tail has `1 / TAIL_PART` of the memory, `TAIL_BYTES_MAX` at most.
//! A worker that is not ready `REST_MAX` after its last reply is killed.

use std::cell::LazyCell;
use std::io::{self, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use inrush_store::StorageLocation;
use inrush_store::read::{ReadError, Selection, part_of};
use inrush_store::reply::{
    SearchCost, SearchError, SearchProgress, SearchReply, SearchSummary, StopReason,
};
use inrush_store::schema::STORED;
use inrush_store::snapshot::Snapshot;

use super::pool::{
    ActiveSearch, PoolAdmission, PoolShared, RunPermit, WorkerDeath, WorkerProcess, busy, failure,
};
use super::wire::{
    self, FromWorker, PlacedFile, TailChunk, TaskBounds, ToWorker, WireQuery, WorkerTask,
};
use crate::answer::ReplySender;

/// Bytes of raw text of the tail that are sent at once: this part of the memory of searches, for
/// they are in the memory of both processes then, and at most so many.
const TAIL_PART: usize = 64;
const TAIL_BYTES_MAX: usize = 4 << 20;

/// A worker ends a search by itself a little before it is killed: then its answer says more.
const TIME_PART: u32 = 60;

/// Longest time from a worker's last reply until it is ready for the next search.
const REST_MAX: Duration = Duration::from_secs(2);

/// Takes a snapshot of the store.
pub(super) type TakeSnapshot = Box<dyn FnOnce() -> Snapshot + Send>;

/// A search.
pub(super) struct SearchDispatch {
    pub(super) shared: Arc<PoolShared>,
    pub(super) reader: StorageLocation,
    /// Taken when the search has its turn.
    pub(super) snapshot: LazyCell<Snapshot, TakeSnapshot>,
    pub(super) question: WireQuery,
    pub(super) time_max: Duration,
    /// Whoever waits for the answer, until it has come.
    pub(super) replies: Option<ReplySender>,
}

/// Progress of a search so far, and its last reply.
struct ReplyProgress {
    since: Instant,
    progress: SearchProgress,
    /// Rows and events that were handed on.
    shown: u64,
    /// Events in the last histogram.
    counted: u64,
    /// The last reply. It is handed on when the worker is free again: whoever asks one question
    /// after the other has the same worker answer, and all threads.
    last: Option<SearchReply>,
    /// The worker can search again.
    again: bool,
}

impl SearchDispatch {
    /// Runs until the last reply is handed on, or nobody wants any.
    pub(super) fn run(mut self, present: PoolAdmission) {
        // Rows of the tail are made for a search, not for those who send events.
        let _ = rustix::process::nice(self.shared.options.nice);
        let wanted = || self.replies.as_ref().is_some_and(|to| !to.is_closed());
        let last = match RunPermit::wait(&self.shared, wanted) {
            None => Some(SearchReply::Error(busy())),
            Some(turn) => self.search(&turn),
        };
        if let (Some(last), Some(replies)) = (last, self.replies) {
            // Whoever has gone wants no end.
            let _ = replies.blocking_send(last);
        }
        drop(present);
    }

    /// Searches; what it returns is left to be said.
    fn search(&mut self, turn: &RunPermit) -> Option<SearchReply> {
        loop {
            let worker = match self.shared.worker() {
                Ok(worker) => worker,
                Err(error) => {
                    let message = format!("no process for the search could be started: {error}");
                    return Some(SearchReply::Error(failure(message)));
                }
            };
            let mut course = ReplyProgress::new();
            worker.searches(Some(ActiveSearch {
                deadline: course.since + self.time_max,
                asker: self.replies.as_ref().map(ReplySender::downgrade),
            }));
            self.shared.runs(&worker);
            let heard = self.exchange(&worker, turn.bounds, &mut course);
            let peak = worker.peak.load(Relaxed);
            let unused = worker.kept.load(Relaxed) && !worker.is_killed();
            let last = match heard {
                _ if course.last.is_some() => course.last.take().map(RetryDecision::last),
                Ok(false) if unused => self.again_or(worker.death(), peak, &course),
                Ok(heard) => self.unfinished(worker.death(), heard, peak, &course),
                Err(_) => self.unfinished(worker.death(), true, peak, &course),
            };
            worker.searches(None);
            self.shared.rests(worker, course.again);
            match last {
                Some(RetryDecision::Again) => {}
                Some(RetryDecision::Last(last)) => return Some(*last),
                None => return None,
            }
        }
    }

    /// Asks and hands on what comes, until the worker is done or gone. Says whether anything came.
    fn exchange(
        &mut self,
        worker: &WorkerProcess,
        bounds: TaskBounds,
        course: &mut ReplyProgress,
    ) -> io::Result<bool> {
        let own = self.time_max - self.time_max / TIME_PART;
        let bounds = TaskBounds {
            time_ms: u64::try_from(own.as_millis()).unwrap_or(u64::MAX),
            ..bounds
        };
        let task = ToWorker::Task(Box::new(self.task(bounds)));
        if tell(worker, &task, &[]).is_err() {
            return Ok(false);
        }
        let mut heard = false;
        let mut stdout = worker.stdout.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((said, _)) = wire::read::<FromWorker>(&mut *stdout)? {
            heard = true;
            let reply = match said {
                FromWorker::Done => {
                    course.again = course.last.is_some() && course.again;
                    return Ok(true);
                }
                FromWorker::Tail {
                    id,
                    chunk,
                    columns,
                    rows,
                } => {
                    self.send_rows(worker, id, chunk, &columns, rows)?;
                    continue;
                }
                FromWorker::Event(event) => SearchReply::Event(event),
                FromWorker::Row(values) => wire::row(values),
                FromWorker::Reply(reply) => reply,
            };
            self.hand_on(reply, worker, course)?;
        }
        Ok(heard)
    }

    fn hand_on(
        &mut self,
        mut reply: SearchReply,
        worker: &WorkerProcess,
        course: &mut ReplyProgress,
    ) -> io::Result<()> {
        course.note(&reply);
        if let SearchReply::End(end) = &mut reply {
            let peak = worker.peak.load(Relaxed);
            // A decoder that gets no memory calls a good file broken.
            let sure = peak < self.shared.memory_bytes() / 2;
            course.again = sure && matches!(end.stopped, None | Some(StopReason::Limit));
            end.cost.memory_bytes = end.cost.memory_bytes.max(peak as u64);
            if sure {
                self.set_aside(end);
            }
        }
        if matches!(reply, SearchReply::End(_) | SearchReply::Error(_)) {
            course.last = Some(reply);
            // What is left in the worker must end soon.
            worker.searches(Some(ActiveSearch {
                deadline: Instant::now() + REST_MAX,
                asker: None,
            }));
            return Ok(());
        }
        let Some(replies) = &self.replies else {
            return Ok(());
        };
        let sent = replies.blocking_send(reply);
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Takes note of files that cannot be read: nobody reads them again.
    fn set_aside(&self, end: &SearchSummary) {
        for aside in &end.set_aside {
            let mut files = self.snapshot.files.iter();
            if let Some(file) = files.find(|file| file.entry.path == aside.path)
                && file.set_bad()
            {
                tracing::error!(
                    file = %aside.path,
                    reason = %aside.reason,
                    "a file of the store cannot be read and is set aside"
                );
            }
        }
    }

    fn task(&self, bounds: TaskBounds) -> WorkerTask {
        let (from_ns, to_ns) = match &self.question {
            WireQuery::Search { from_ns, to_ns, .. } => (*from_ns, *to_ns),
            WireQuery::Sql { .. } => (i64::MIN, i64::MAX),
        };
        let files = self.snapshot.files.iter().filter(|file| {
            let entry = &file.entry;
            !file.is_bad() && entry.to_ns >= from_ns && entry.from_ns < to_ns
        });
        let tail = self.snapshot.tail.iter().map(|chunk| TailChunk {
            rows: chunk.rows.num_rows(),
            from_ns: chunk.from_ns,
            to_ns: chunk.to_ns,
        });
        WorkerTask {
            question: self.question.clone(),
            reader: self.reader.clone(),
            files: files.map(|file| PlacedFile::of(file)).collect(),
            tail: tail.collect(),
            bounds,
        }
    }

    /// Sends rows of the tail.
    fn send_rows(
        &self,
        worker: &WorkerProcess,
        id: u64,
        chunk: usize,
        columns: &[usize],
        rows: Vec<std::ops::Range<usize>>,
    ) -> io::Result<()> {
        let mut selection = Selection::default();
        rows.into_iter().for_each(|rows| selection.push(rows));
        let known = columns.iter().all(|c| *c < STORED.fields().len());
        let most = (self.shared.memory_bytes() / TAIL_PART).min(TAIL_BYTES_MAX);
        let chunk = self.snapshot.tail.get(chunk).filter(|_| known);
        let bytes = chunk
            .ok_or_else(|| ReadError::Unreachable("there are no such rows".to_owned()))
            .and_then(|chunk| part_of(chunk, columns, &selection, most))
            .and_then(|rows| wire::ipc(&rows));
        let (failed, bytes) = match bytes {
            Ok(bytes) => (None, bytes),
            Err(fault) => (Some(fault.to_string()), Vec::new()),
        };
        tell(worker, &ToWorker::Rows { id, failed }, &bytes)
    }

    /// Tries again if a kept worker had died before it was asked, or ends the search. Whatever
    /// killed the worker, it was not this search.
    fn again_or(
        &self,
        death: WorkerDeath,
        peak: usize,
        course: &ReplyProgress,
    ) -> Option<RetryDecision> {
        match course.since.elapsed() < self.time_max / TIME_PART {
            true => Some(RetryDecision::Again),
            false => self.unfinished(death, false, peak, course),
        }
    }

    /// The last reply of a search whose worker has died.
    fn unfinished(
        &self,
        death: WorkerDeath,
        heard: bool,
        peak: usize,
        course: &ReplyProgress,
    ) -> Option<RetryDecision> {
        let last = match death {
            WorkerDeath::Gone => return None,
            WorkerDeath::Time => course.stopped(StopReason::Time, peak),
            WorkerDeath::Memory => course.stopped(StopReason::Memory, peak),
            WorkerDeath::Depth => SearchReply::Error(SearchError {
                message: "the statement is nested too deeply".to_owned(),
                hint: Some("write it with fewer levels of parentheses and calls".to_owned()),
                ..SearchError::default()
            }),
            // One that was kept may have died since.
            WorkerDeath::Fault(_) if !heard => {
                if course.since.elapsed() < self.time_max / TIME_PART {
                    return Some(RetryDecision::Again);
                }
                SearchReply::Error(failure("the process of the search ended".to_owned()))
            }
            WorkerDeath::Fault(why) => {
                tracing::error!(%why, "the process of a search ended by a fault");
                SearchReply::Error(failure(format!(
                    "the search failed by a mistake of the program: its process ended ({why})"
                )))
            }
        };
        Some(RetryDecision::last(last))
    }
}

/// Consequence of a worker's death for its search.
enum RetryDecision {
    /// The last reply.
    Last(Box<SearchReply>),
    /// Another try.
    Again,
}

impl RetryDecision {
    fn last(reply: SearchReply) -> Self {
        Self::Last(Box::new(reply))
    }
}

fn tell(worker: &WorkerProcess, what: &ToWorker, body: &[u8]) -> io::Result<()> {
    let mut stdin = worker.stdin.lock().unwrap_or_else(PoisonError::into_inner);
    wire::write(&mut *stdin, what, body)?;
    stdin.flush()
}

impl ReplyProgress {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            progress: SearchProgress::default(),
            shown: 0,
            counted: 0,
            last: None,
            again: false,
        }
    }

    fn note(&mut self, reply: &SearchReply) {
        match reply {
            SearchReply::Progress(progress) => self.progress = *progress,
            SearchReply::Histogram(histogram) => self.counted = histogram.counts.iter().sum(),
            SearchReply::Event(_) | SearchReply::Row(_) => self.shown += 1,
            SearchReply::Error(_) => self.again = true,
            SearchReply::End(_)
            | SearchReply::Plan(_)
            | SearchReply::Fields(_)
            | SearchReply::Table(_) => {}
        }
    }

    /// Last reply of a search that was stopped, as far as its counts are known.
    fn stopped(&self, stopped: StopReason, peak: usize) -> SearchReply {
        let elapsed = self.since.elapsed().as_millis();
        SearchReply::End(SearchSummary {
            matched: self.shown.max(self.counted),
            elapsed_ms: u64::try_from(elapsed).unwrap_or(u64::MAX),
            stopped: Some(stopped),
            cost: SearchCost {
                events_scanned: self.progress.events_scanned,
                bytes_scanned: self.progress.bytes_scanned,
                memory_bytes: peak as u64,
            },
            ..SearchSummary::default()
        })
    }
}
