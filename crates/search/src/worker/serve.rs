//! The worker's side: one search at a time, until stdin ends.

use std::collections::HashMap;
use std::fs;
use std::io::{self, BufReader, BufWriter, Stdout, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use futures::FutureExt;
use futures::future::BoxFuture;
use inrush_store::read::{FooterCache, ReadError, Selection};
use inrush_store::reply::{SearchError, SearchReply};
use inrush_store::snapshot::{DataFile, FarChunk, FarRows, Snapshot};
use inrush_store::{ReadOnlyStorage, StorageLocation};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::oneshot;

use super::wire::{self, FromWorker, TaskBounds, ToWorker, WireQuery, WorkerTask};
use crate::answer::SearchAnswer;
use crate::engine::{Engine, STACK_BYTES, SearchOptions};
use crate::request::SearchRequest;

/// Longest time for the rest of a search to end. A worker in which it takes longer ends too.
const REST_MAX: Duration = Duration::from_millis(500);

/// Bytes of what a worker has beside its search at most: the program's own data, buffers, and what
/// the allocator has set aside. Where a search has less memory than that, as much again.
const BESIDE_BYTES_MAX: usize = 64 << 20;

/// Answers searches until stdin ends, which it does when the process that asks does.
pub fn serve() -> ExitCode {
    prepare();
    let out: SharedStdout = Arc::new(Mutex::new(BufWriter::new(io::stdout())));
    let tail = Arc::new(RemoteTail {
        out: Arc::clone(&out),
        next: AtomicU64::new(0),
        waiting: Mutex::default(),
    });
    let mut stdin = BufReader::new(io::stdin().lock());
    let known = Arc::new(Mutex::new(WorkerCache::default()));
    loop {
        match wire::read(&mut stdin) {
            Ok(Some((ToWorker::Task(task), _))) => {
                let (known, tail, out) = (Arc::clone(&known), Arc::clone(&tail), Arc::clone(&out));
                let work = move || answer(&known, &tail, &out, *task);
                let spawned = std::thread::Builder::new().name("search-task".into());
                if spawned.spawn(work).is_err() {
                    return ExitCode::FAILURE;
                }
            }
            Ok(Some((ToWorker::Rows { id, failed }, body))) => tail.came(id, failed, &body),
            Ok(None) => return ExitCode::SUCCESS,
            Err(_) => return ExitCode::FAILURE,
        }
    }
}

/// The first to go where memory is short, and no dump of events in a core.
fn prepare() {
    // Without /proc, or where it may not, it is one of many.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    limit(Resource::Core, 0);
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.payload_as_str().unwrap_or("no message");
        eprintln!("panic: {message}");
    }));
}

/// Lowers a limit of this process, or raises it as far as it may.
fn limit(resource: Resource, bytes: u64) {
    let before = getrlimit(resource);
    let bytes = before.maximum.map_or(bytes, |maximum| bytes.min(maximum));
    let limit = Rlimit {
        current: Some(bytes),
        maximum: before.maximum,
    };
    // Whoever measures from outside is there all the same.
    let _ = setrlimit(resource, limit);
}

type SharedStdout = Arc<Mutex<BufWriter<Stdout>>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whoever cannot be told anything has gone.
fn say(out: &SharedStdout, what: &FromWorker, flush: bool) {
    let mut out = lock(out);
    let said = wire::write(&mut *out, what, &[]);
    let said = said.and_then(|()| if flush { out.flush() } else { Ok(()) });
    if said.is_err() {
        std::process::exit(1);
    }
}

/// State that a worker keeps from search to search.
#[derive(Default)]
struct WorkerCache {
    place: Option<(StorageLocation, ReadOnlyStorage)>,
    /// By their places. Footers belong to these.
    files: HashMap<String, Arc<DataFile>>,
    footers: Option<Arc<FooterCache>>,
    /// Its threads, for searches of the same bounds.
    engine: Option<(TaskBounds, Arc<Engine>)>,
}

impl WorkerCache {
    /// The snapshot that a task speaks of.
    fn snapshot(&mut self, task: &mut WorkerTask, tail: &Arc<RemoteTail>) -> io::Result<Snapshot> {
        if self
            .place
            .as_ref()
            .is_none_or(|(known, _)| *known != task.reader)
        {
            self.place = None;
            self.files.clear();
            self.place = Some((task.reader.clone(), task.reader.open()?));
        }
        let Some((_, reading)) = &self.place else {
            return Err(io::Error::other("there is no store"));
        };
        if self.files.len() > 2 * task.files.len() {
            self.files.clear();
        }
        let files = task.files.drain(..).map(|file| {
            let known = self.files.entry(file.place().to_owned());
            let location = file.place().into();
            Arc::clone(known.or_insert_with(|| Arc::new(DataFile::new(file.entry, location))))
        });
        let far = |(number, chunk): (usize, super::wire::TailChunk)| {
            Arc::new(FarChunk {
                number,
                rows: chunk.rows,
                from_ns: chunk.from_ns,
                to_ns: chunk.to_ns,
                source: Arc::clone(tail) as Arc<dyn FarRows>,
            })
        };
        Ok(Snapshot {
            files: files.collect(),
            storage: reading.storage(),
            tail: Arc::new([]),
            far: task.tail.drain(..).enumerate().map(far).collect(),
        })
    }

    fn footers(&mut self, bounds: &TaskBounds) -> Arc<FooterCache> {
        let make = || Arc::new(FooterCache::new(bounds.memory_bytes / 8));
        Arc::clone(self.footers.get_or_insert_with(make))
    }

    /// The threads that search within these bounds.
    fn engine(&mut self, bounds: TaskBounds) -> io::Result<Arc<Engine>> {
        if let Some((of, engine)) = self.engine.take()
            && of == bounds
        {
            return Ok(engine);
        }
        let options = SearchOptions {
            threads: bounds.threads,
            nice: bounds.nice,
            searches_max: 1,
            // The engine counts what grows; texts of expressions, buffers and what the allocator
            // keeps are the other half.
            memory_bytes: bounds.memory_bytes / 2,
            footers_bytes: 0,
            time_max: Duration::from_millis(bounds.time_ms),
        };
        Engine::start_with(&options, self.footers(&bounds)).map(Arc::new)
    }
}

/// Answers, and says when nothing of it runs any more.
fn answer(
    known: &Mutex<WorkerCache>,
    tail: &Arc<RemoteTail>,
    out: &SharedStdout,
    mut task: WorkerTask,
) {
    let bounds = task.bounds;
    let stacks = (bounds.threads + 4) * STACK_BYTES;
    let memory = bounds.memory_bytes;
    let beside = stacks + memory.min(BESIDE_BYTES_MAX);
    limit(Resource::Data, memory.saturating_add(beside) as u64);
    let begun = begin(&mut lock(known), tail, &mut task);
    match begun {
        Err(failure) => say(out, &FromWorker::Reply(SearchReply::Error(failure)), true),
        Ok((engine, mut answer)) => {
            while let Some((reply, more)) = answer.next_and_more() {
                say(out, &reply.into(), !more);
            }
            drop(answer);
            if !engine.rests(REST_MAX) {
                std::process::exit(0);
            }
            lock(known).engine = Some((bounds, engine));
        }
    }
    say(out, &FromWorker::Done, true);
}

fn begin(
    known: &mut WorkerCache,
    tail: &Arc<RemoteTail>,
    task: &mut WorkerTask,
) -> Result<(Arc<Engine>, SearchAnswer), SearchError> {
    let failed = |error: io::Error| SearchError {
        message: format!("the search cannot begin: {error}"),
        ..SearchError::default()
    };
    let snapshot = known.snapshot(task, tail).map_err(failed)?;
    let engine = known.engine(task.bounds).map_err(failed)?;
    let answer = match task.question.clone() {
        WireQuery::Sql { statement, limit } => engine.sql(snapshot, statement, limit),
        WireQuery::Search {
            query,
            from_ns,
            to_ns,
            limit,
            buckets,
            fields,
            future,
        } => {
            let request = SearchRequest {
                from_ns,
                to_ns,
                limit,
                buckets,
                fields,
                future,
                ..SearchRequest::new(query)
            };
            engine.search(snapshot, request)?
        }
    };
    Ok((engine, answer))
}

type TailResult = Result<RecordBatch, ReadError>;

/// Rows that lie in the process that asks.
struct RemoteTail {
    out: SharedStdout,
    next: AtomicU64,
    /// Those who wait for rows, by the number of what they said.
    waiting: Mutex<HashMap<u64, oneshot::Sender<TailResult>>>,
}

impl std::fmt::Debug for RemoteTail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tail")
    }
}

impl RemoteTail {
    fn came(&self, id: u64, failed: Option<String>, body: &[u8]) {
        let Some(waiting) = lock(&self.waiting).remove(&id) else {
            return;
        };
        let rows = match failed {
            Some(why) => Err(ReadError::Unreachable(why)),
            None => wire::of_ipc(body),
        };
        // Whoever waited may have ended.
        let _ = waiting.send(rows);
    }
}

impl FarRows for RemoteTail {
    fn ask(
        &self,
        chunk: usize,
        columns: &[usize],
        rows: &Selection,
    ) -> BoxFuture<'static, Result<RecordBatch, ReadError>> {
        let id = self.next.fetch_add(1, Relaxed);
        let (sender, came) = oneshot::channel();
        lock(&self.waiting).insert(id, sender);
        let asked = FromWorker::Tail {
            id,
            chunk,
            columns: columns.to_vec(),
            rows: rows.ranges().to_vec(),
        };
        say(&self.out, &asked, true);
        let gone = |_| ReadError::Unreachable("the process that has the rows has gone".to_owned());
        came.map(move |came| came.map_err(gone)?).boxed()
    }
}
