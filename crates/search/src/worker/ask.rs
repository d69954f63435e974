//! One search in the asking process: its turn, its worker, its replies.
//!
//! # What it guarantees
//! * The last reply is one end or one error, sent once the worker is free or dead.
//! * A restart needs the worker's death before its first reply, so no row comes twice.
//! * A file is set aside only if the worker's memory peak stayed below half of the budget.
//!
//! # States
//! `Turn::wait` gives the turn, `Shared::worker` a worker, `exchange` the replies.
//! `Shared::rests` takes the worker back.
//!
//! # Limits
//! A part of the tail has `1 / TAIL_PART` of the memory, `TAIL_BYTES_MAX` at most.
//! A worker that is not ready `REST_MAX` after its last reply is killed.

use std::cell::LazyCell;
use std::io::{self, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use inrush_store::Reader;
use inrush_store::read::{Fault, Selection, part_of};
use inrush_store::reply::{Cost, End, Failure, Progress, Reply, Stopped};
use inrush_store::schema::STORED;
use inrush_store::snapshot::Snapshot;

use super::pool::{Death, Present, Search, Shared, Turn, Worker, busy, failure};
use super::wire::{self, FromWorker, Placed, Question, TailChunk, Task, TaskBounds, ToWorker};
use crate::answer::Replies;

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
pub(super) struct Ask {
    pub(super) shared: Arc<Shared>,
    pub(super) reader: Reader,
    /// Taken when the search has its turn.
    pub(super) snapshot: LazyCell<Snapshot, TakeSnapshot>,
    pub(super) question: Question,
    pub(super) time_max: Duration,
    /// Whoever waits for the answer, until it has come.
    pub(super) replies: Option<Replies>,
}

/// Progress of a search so far, and its last reply.
struct Course {
    since: Instant,
    progress: Progress,
    /// Rows and events that were handed on.
    shown: u64,
    /// Events in the last histogram.
    counted: u64,
    /// The last reply. It is handed on when the worker is free again: whoever asks one question
    /// after the other has the same worker answer, and all threads.
    last: Option<Reply>,
    /// The worker can search again.
    again: bool,
}

impl Ask {
    /// Runs until the last reply is handed on, or nobody wants any.
    pub(super) fn run(mut self, present: Present) {
        // Rows of the tail are made for a search, not for those who send events.
        let _ = rustix::process::nice(self.shared.options.nice);
        let wanted = || self.replies.as_ref().is_some_and(|to| !to.is_closed());
        let last = match Turn::wait(&self.shared, wanted) {
            None => Some(Reply::Error(busy())),
            Some(turn) => self.search(&turn),
        };
        if let (Some(last), Some(replies)) = (last, self.replies) {
            // Whoever has gone wants no end.
            let _ = replies.blocking_send(last);
        }
        drop(present);
    }

    /// Searches; what it returns is left to be said.
    fn search(&mut self, turn: &Turn) -> Option<Reply> {
        loop {
            let worker = match self.shared.worker() {
                Ok(worker) => worker,
                Err(error) => {
                    let message = format!("no process for the search could be started: {error}");
                    return Some(Reply::Error(failure(message)));
                }
            };
            let mut course = Course::new();
            worker.searches(Some(Search {
                deadline: course.since + self.time_max,
                asker: self.replies.as_ref().map(Replies::downgrade),
            }));
            self.shared.runs(&worker);
            let heard = self.exchange(&worker, turn.bounds, &mut course);
            let peak = worker.peak.load(Relaxed);
            let unused = worker.kept.load(Relaxed) && !worker.is_killed();
            let last = match heard {
                _ if course.last.is_some() => course.last.take().map(Unfinished::last),
                Ok(false) if unused => self.again_or(worker.death(), peak, &course),
                Ok(heard) => self.unfinished(worker.death(), heard, peak, &course),
                Err(_) => self.unfinished(worker.death(), true, peak, &course),
            };
            worker.searches(None);
            self.shared.rests(worker, course.again);
            match last {
                Some(Unfinished::Again) => {}
                Some(Unfinished::Last(last)) => return Some(*last),
                None => return None,
            }
        }
    }

    /// Asks and hands on what comes, until the worker is done or gone. Says whether anything came.
    fn exchange(
        &mut self,
        worker: &Worker,
        bounds: TaskBounds,
        course: &mut Course,
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
                FromWorker::Event(event) => Reply::Event(event),
                FromWorker::Row(values) => wire::row(values),
                FromWorker::Reply(reply) => reply,
            };
            self.hand_on(reply, worker, course)?;
        }
        Ok(heard)
    }

    fn hand_on(
        &mut self,
        mut reply: Reply,
        worker: &Worker,
        course: &mut Course,
    ) -> io::Result<()> {
        course.note(&reply);
        if let Reply::End(end) = &mut reply {
            let peak = worker.peak.load(Relaxed);
            // A decoder that gets no memory calls a good file broken.
            let sure = peak < self.shared.memory_bytes() / 2;
            course.again = sure && matches!(end.stopped, None | Some(Stopped::Limit));
            end.cost.memory_bytes = end.cost.memory_bytes.max(peak as u64);
            if sure {
                self.set_aside(end);
            }
        }
        if matches!(reply, Reply::End(_) | Reply::Error(_)) {
            course.last = Some(reply);
            // What is left in the worker must end soon.
            worker.searches(Some(Search {
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
    fn set_aside(&self, end: &End) {
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

    fn task(&self, bounds: TaskBounds) -> Task {
        let (from_ns, to_ns) = match &self.question {
            Question::Search { from_ns, to_ns, .. } => (*from_ns, *to_ns),
            Question::Sql { .. } => (i64::MIN, i64::MAX),
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
        Task {
            question: self.question.clone(),
            reader: self.reader.clone(),
            files: files.map(|file| Placed::of(file)).collect(),
            tail: tail.collect(),
            bounds,
        }
    }

    /// Sends rows of the tail.
    fn send_rows(
        &self,
        worker: &Worker,
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
            .ok_or_else(|| Fault::Unreachable("there are no such rows".to_owned()))
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
    fn again_or(&self, death: Death, peak: usize, course: &Course) -> Option<Unfinished> {
        match course.since.elapsed() < self.time_max / TIME_PART {
            true => Some(Unfinished::Again),
            false => self.unfinished(death, false, peak, course),
        }
    }

    /// The last reply of a search whose worker has died.
    fn unfinished(
        &self,
        death: Death,
        heard: bool,
        peak: usize,
        course: &Course,
    ) -> Option<Unfinished> {
        let last = match death {
            Death::Gone => return None,
            Death::Time => course.stopped(Stopped::Time, peak),
            Death::Memory => course.stopped(Stopped::Memory, peak),
            Death::Depth => Reply::Error(Failure {
                message: "the statement is nested too deeply".to_owned(),
                hint: Some("write it with fewer levels of parentheses and calls".to_owned()),
                ..Failure::default()
            }),
            // One that was kept may have died since.
            Death::Fault(_) if !heard => {
                if course.since.elapsed() < self.time_max / TIME_PART {
                    return Some(Unfinished::Again);
                }
                Reply::Error(failure("the process of the search ended".to_owned()))
            }
            Death::Fault(why) => {
                tracing::error!(%why, "the process of a search ended by a fault");
                Reply::Error(failure(format!(
                    "the search failed by a mistake of the program: its process ended ({why})"
                )))
            }
        };
        Some(Unfinished::last(last))
    }
}

/// Consequence of a worker's death for its search.
enum Unfinished {
    /// The last reply.
    Last(Box<Reply>),
    /// Another try.
    Again,
}

impl Unfinished {
    fn last(reply: Reply) -> Self {
        Self::Last(Box::new(reply))
    }
}

fn tell(worker: &Worker, what: &ToWorker, body: &[u8]) -> io::Result<()> {
    let mut stdin = worker.stdin.lock().unwrap_or_else(PoisonError::into_inner);
    wire::write(&mut *stdin, what, body)?;
    stdin.flush()
}

impl Course {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            progress: Progress::default(),
            shown: 0,
            counted: 0,
            last: None,
            again: false,
        }
    }

    fn note(&mut self, reply: &Reply) {
        match reply {
            Reply::Progress(progress) => self.progress = *progress,
            Reply::Histogram(histogram) => self.counted = histogram.counts.iter().sum(),
            Reply::Event(_) | Reply::Row(_) => self.shown += 1,
            Reply::Error(_) => self.again = true,
            Reply::End(_) | Reply::Plan(_) | Reply::Fields(_) | Reply::Table(_) => {}
        }
    }

    /// Last reply of a search that was stopped, as far as its counts are known.
    fn stopped(&self, stopped: Stopped, peak: usize) -> Reply {
        let elapsed = self.since.elapsed().as_millis();
        Reply::End(End {
            matched: self.shown.max(self.counted),
            elapsed_ms: u64::try_from(elapsed).unwrap_or(u64::MAX),
            stopped: Some(stopped),
            cost: Cost {
                events_scanned: self.progress.events_scanned,
                bytes_scanned: self.progress.bytes_scanned,
                memory_bytes: peak as u64,
            },
            set_aside: Vec::new(),
        })
    }
}
