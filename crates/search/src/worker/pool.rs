//! Worker pool: processes that search, their turns, and idle processes kept for the next search.
//!
//! # What it guarantees
//! * A waiting search holds no snapshot and no worker. A full pool answers with an error at once.
//!
//! # States
//! A worker searches (`PoolShared::runs`), idles (`PoolShared::rests`) or is dead (`kill`, `end`).
//!
//! # Limits
//! `searches_max` run, fewer with less than `WORKER_BYTES_MIN` of memory each; `WAITING_MAX` wait.
//! Below `WORKER_BYTES_LEAST` none starts. `IDLE_WORKERS_MAX` small workers idle for `IDLE_MAX`.
//!
//! # After a crash
//! A worker ends with its stdin, so no worker outlives this process.

use std::cell::LazyCell;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use inrush_query::{self as query, QueryError};
use inrush_store::StorageLocation;
use inrush_store::reply::{SearchError, SearchReply};
use inrush_store::snapshot::Snapshot;
use rustix::fs::{MemfdFlags, memfd_create};
use tokio::sync::mpsc::WeakSender;

use super::ask::{SearchDispatch, TakeSnapshot};
use super::wire::{TaskBounds, WireQuery};
use super::{COMMAND, watch};
use crate::answer::SearchAnswer;
use crate::engine::{SearchOptions, WAITING_MAX};
use crate::request::{ROWS_MAX, SearchRequest};

/// Longest time that a worker without a search is kept.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// Workers without a search that are kept at most, and the memory of each: one that has more ends.
const IDLE_WORKERS_MAX: usize = 2;
const IDLE_BYTES_PART: usize = 8;

/// Bytes of memory that a worker must be able to have, or fewer search at a time: a scan of texts
/// takes 23 MiB.
const WORKER_BYTES_MIN: usize = 24 << 20;

/// Bytes below which a worker ends before it has found anything: 10 MiB are its own.
const WORKER_BYTES_LEAST: usize = 16 << 20;

/// Bytes of a statement at most.
const STATEMENT_BYTES_MAX: usize = 64 << 10;

/// `nice` of the searches that run beside as many others as there are threads. Others have that of
/// [`SearchOptions::nice`], which a worker inherits from the thread that starts it.
const NICE_MANY: i32 = 19;

/// Bytes of what a worker wrote before it died that are looked at.
const LAST_WORDS_MAX: u64 = 4096;

/// Variables of the service manager that are for us alone.
const OURS_ALONE: [&str; 6] = [
    "NOTIFY_SOCKET",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
];

/// Answers questions about stores in processes of their own.
#[derive(Debug)]
pub struct WorkerPool {
    shared: Arc<PoolShared>,
}

impl WorkerPool {
    /// Gets ready; processes are started when somebody asks.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(options: &SearchOptions) -> io::Result<Self> {
        let shared = Arc::new(PoolShared {
            options: options.clone(),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let watched = Arc::downgrade(&shared);
        thread::Builder::new()
            .name("search-watch".into())
            .spawn(move || watch::watch(&watched))?;
        Ok(Self { shared })
    }

    /// Answers a question in the query language about a store; `reader` says where its files lie,
    /// and `snapshot` what is in it, once the search has its turn: one that waits holds nothing.
    ///
    /// # Errors
    /// If the query cannot be read.
    pub fn search(
        &self,
        reader: StorageLocation,
        snapshot: impl FnOnce() -> Snapshot + Send + 'static,
        request: SearchRequest,
    ) -> Result<SearchAnswer, QueryError> {
        query::parse(&request.query)?;
        let time_max = request.time_max.unwrap_or(self.shared.options.time_max);
        let question = WireQuery::Search {
            query: request.query,
            from_ns: request.from_ns,
            to_ns: request.to_ns,
            limit: request.limit,
            buckets: request.buckets,
            fields: request.fields,
            future: request.future,
        };
        Ok(self.answer(reader, Box::new(snapshot), time_max, question))
    }

    /// Answers a statement in SQL over the table `events`: at most `limit` rows. Whatever is wrong
    /// with it is in the answer. As for the rest, see [`Self::search`].
    pub fn sql(
        &self,
        reader: StorageLocation,
        snapshot: impl FnOnce() -> Snapshot + Send + 'static,
        statement: impl Into<String>,
        limit: u64,
    ) -> SearchAnswer {
        let (statement, limit) = (statement.into(), limit.min(ROWS_MAX));
        if statement.len() > STATEMENT_BYTES_MAX {
            let bytes = statement.len();
            return SearchAnswer::failed(failure(format!(
                "the statement has {bytes} bytes, of {STATEMENT_BYTES_MAX} at most"
            )));
        }
        let question = WireQuery::Sql { statement, limit };
        let time_max = self.shared.options.time_max;
        self.answer(reader, Box::new(snapshot), time_max, question)
    }

    fn answer(
        &self,
        reader: StorageLocation,
        snapshot: TakeSnapshot,
        time_max: Duration,
        question: WireQuery,
    ) -> SearchAnswer {
        if self.shared.memory_bytes() < WORKER_BYTES_LEAST {
            return SearchAnswer::failed(no_memory(self.shared.memory_bytes()));
        }
        let (replies, answer) = SearchAnswer::new();
        let Some(present) = PoolAdmission::enter(&self.shared) else {
            return SearchAnswer::failed(busy());
        };
        let ask = SearchDispatch {
            shared: Arc::clone(&self.shared),
            reader,
            snapshot: LazyCell::new(snapshot),
            question,
            time_max: time_max.min(self.shared.options.time_max),
            replies: Some(replies),
        };
        let spawned = thread::Builder::new().name("search-ask".into());
        match spawned.spawn(move || ask.run(present)) {
            Ok(_) => answer,
            Err(error) => {
                SearchAnswer::failed(failure(format!("no thread for the search: {error}")))
            }
        }
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.closed = true;
        let (running, idle) = (state.running.clone(), std::mem::take(&mut state.idle));
        drop(state);
        running
            .iter()
            .for_each(|worker| worker.kill(KillReason::Gone));
        idle.iter().for_each(|idle| idle.worker.end());
        self.shared.changed.notify_all();
    }
}

pub(super) fn failure(message: String) -> SearchError {
    SearchError {
        message,
        ..SearchError::default()
    }
}

fn no_memory(bytes: usize) -> SearchError {
    let (have, least) = (bytes >> 20, WORKER_BYTES_LEAST >> 20);
    SearchError {
        message: format!(
            "there is no memory to search with: {have} MiB of the limit of this process are left \
             for searches, and one takes {least} MiB at least"
        ),
        hint: Some("give the process 128 MiB or more".to_owned()),
        ..SearchError::default()
    }
}

pub(super) fn busy() -> SearchError {
    failure("too many searches are waiting: try again in a while".to_owned())
}

/// Options, turns and workers that the searches share.
#[derive(Debug)]
pub(super) struct PoolShared {
    pub(super) options: SearchOptions,
    /// Taken for a moment, never while something is read, written or waited for.
    state: Mutex<PoolState>,
    /// A turn is free, or all is over.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct PoolState {
    /// Searches that run and those that wait.
    present: usize,
    /// Of these, those that have a turn.
    turns: usize,
    running: Vec<Arc<WorkerProcess>>,
    idle: Vec<Idle>,
    closed: bool,
}

#[derive(Debug)]
struct Idle {
    worker: Arc<WorkerProcess>,
    since: Instant,
    bytes: usize,
}

impl PoolShared {
    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) const fn memory_bytes(&self) -> usize {
        self.options.memory_bytes
    }

    pub(super) fn running(&self) -> Vec<Arc<WorkerProcess>> {
        self.state().running.clone()
    }

    /// Waits, but not for longer than `wait`; a new search ends it.
    pub(super) fn pause(&self, wait: Duration) {
        let state = self.state();
        let searching = !state.running.is_empty();
        let idles = |state: &mut PoolState| !searching && state.running.is_empty();
        if searching {
            drop(state);
            thread::sleep(wait);
        } else {
            drop(self.changed.wait_timeout_while(state, wait, idles));
        }
    }

    /// Searches at a time.
    fn turns_max(&self) -> usize {
        let by_memory = self.options.memory_bytes / WORKER_BYTES_MIN;
        self.options.searches_max.min(by_memory).max(1)
    }

    pub(super) fn idle_bytes(&self) -> usize {
        self.state().idle.iter().map(|idle| idle.bytes).sum()
    }

    pub(super) fn end_all_idle(&self) {
        let idle = std::mem::take(&mut self.state().idle);
        idle.iter().for_each(|idle| idle.worker.end());
    }

    pub(super) fn end_idle(&self, now: Instant) {
        let old = |idle: &mut Idle| now.duration_since(idle.since) >= IDLE_MAX;
        let ended: Vec<Idle> = self.state().idle.extract_if(.., old).collect();
        ended.iter().for_each(|idle| idle.worker.end());
    }

    /// A worker without a search, or a new one.
    pub(super) fn worker(&self) -> io::Result<Arc<WorkerProcess>> {
        if let Some(idle) = self.state().idle.pop() {
            return Ok(idle.worker);
        }
        WorkerProcess::spawn().map(Arc::new)
    }

    pub(super) fn runs(&self, worker: &Arc<WorkerProcess>) {
        self.state().running.push(Arc::clone(worker));
        self.changed.notify_all();
    }

    /// The worker does not search any more. It is kept if `again`, and if there is room.
    pub(super) fn rests(&self, worker: Arc<WorkerProcess>, again: bool) {
        let bytes = watch::memory_of(worker.pid);
        let small = bytes <= self.options.memory_bytes / IDLE_BYTES_PART;
        let mut state = self.state();
        state.running.retain(|one| !Arc::ptr_eq(one, &worker));
        let room = state.idle.len() < IDLE_WORKERS_MAX && !state.closed;
        if again && small && room && !worker.is_killed() {
            worker.kept.store(true, Relaxed);
            let since = Instant::now();
            state.idle.push(Idle {
                worker,
                since,
                bytes,
            });
        } else {
            drop(state);
            worker.end();
        }
    }
}

/// A search that runs or waits.
pub(super) struct PoolAdmission(Arc<PoolShared>);

impl PoolAdmission {
    fn enter(shared: &Arc<PoolShared>) -> Option<Self> {
        let mut state = shared.state();
        if state.closed || state.present >= shared.turns_max() + WAITING_MAX {
            return None;
        }
        state.present += 1;
        Some(Self(Arc::clone(shared)))
    }
}

impl Drop for PoolAdmission {
    fn drop(&mut self) {
        self.0.state().present -= 1;
    }
}

/// The right to run.
pub(super) struct RunPermit {
    shared: Arc<PoolShared>,
    /// Bounds of the search beside those that run now.
    pub(super) bounds: TaskBounds,
}

impl RunPermit {
    /// Waits for a turn as long as a search may run; none if there is none, or nobody wants it.
    pub(super) fn wait(shared: &Arc<PoolShared>, wanted: impl Fn() -> bool) -> Option<Self> {
        const LOOK_EVERY: Duration = Duration::from_millis(100);
        let since = Instant::now();
        let mut state = shared.state();
        while state.turns >= shared.turns_max() {
            if state.closed || since.elapsed() >= shared.options.time_max || !wanted() {
                return None;
            }
            let waited = shared.changed.wait_timeout(state, LOOK_EVERY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.turns += 1;
        let (turns, options) = (state.turns, &shared.options);
        drop(state);
        let many = turns > options.threads;
        let bounds = TaskBounds {
            threads: (options.threads / turns).max(1),
            nice: if many { NICE_MANY - options.nice } else { 0 },
            memory_bytes: options.memory_bytes,
            time_ms: 0,
        };
        Some(Self {
            shared: Arc::clone(shared),
            bounds,
        })
    }
}

impl Drop for RunPermit {
    fn drop(&mut self) {
        self.shared.state().turns -= 1;
        self.shared.changed.notify_all();
    }
}

/// Reason for which a worker was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KillReason {
    /// Its time was over.
    Time,
    /// All of them together had more memory than they may, and it had most.
    Memory,
    /// Nobody wants the answer.
    Gone,
}

/// Search that a worker does: its deadline and its asker.
#[derive(Debug)]
pub(super) struct ActiveSearch {
    pub(super) deadline: Instant,
    /// Whoever waits for the answer, until it has come.
    pub(super) asker: Option<WeakSender<SearchReply>>,
}

impl ActiveSearch {
    /// True if nobody wants the answer any more.
    fn gone(&self) -> bool {
        self.asker.as_ref().is_some_and(|asker| {
            let asker = asker.upgrade();
            asker.is_none_or(|asker| asker.is_closed())
        })
    }
}

/// A process that searches.
#[derive(Debug)]
pub(super) struct WorkerProcess {
    pub(super) pid: u32,
    /// Bytes that it was seen to have at most.
    pub(super) peak: AtomicUsize,
    /// True if it has answered before and was kept: it may have died since, whoever killed it.
    pub(super) kept: AtomicBool,
    pub(super) stdin: Mutex<BufWriter<ChildStdin>>,
    pub(super) stdout: Mutex<BufReader<ChildStdout>>,
    child: Mutex<Child>,
    search: Mutex<Option<ActiveSearch>>,
    killed: Mutex<Option<KillReason>>,
    /// Memory file of its stderr.
    words: Option<File>,
}

impl WorkerProcess {
    fn spawn() -> io::Result<Self> {
        let words = memfd_create("search-worker", MemfdFlags::CLOEXEC);
        let words = words.ok().map(File::from);
        let stderr = match &words {
            Some(words) => Stdio::from(words.try_clone()?),
            None => Stdio::null(),
        };
        let mut command = Command::new(program());
        command
            .arg(COMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            // The first words say why it died, and must not be pushed out by what follows.
            .env("RUST_BACKTRACE", "0")
            // An interrupt at the terminal is for us.
            .process_group(0);
        for name in OURS_ALONE {
            command.env_remove(name);
        }
        let mut child = command.spawn()?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
            return Err(io::Error::other("a process without pipes"));
        };
        Ok(Self {
            pid: child.id(),
            peak: AtomicUsize::new(0),
            kept: AtomicBool::new(false),
            stdin: Mutex::new(BufWriter::new(stdin)),
            stdout: Mutex::new(BufReader::new(stdout)),
            child: Mutex::new(child),
            search: Mutex::new(None),
            killed: Mutex::new(None),
            words,
        })
    }

    fn search(&self) -> MutexGuard<'_, Option<ActiveSearch>> {
        self.search.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reason to end its search now, if there is one.
    pub(super) fn is_over(&self, now: Instant) -> Option<KillReason> {
        match self.search().as_ref()? {
            search if search.gone() => Some(KillReason::Gone),
            search if now >= search.deadline => Some(KillReason::Time),
            _ => None,
        }
    }

    /// Begins or ends a search.
    pub(super) fn searches(&self, search: Option<ActiveSearch>) {
        self.peak.store(0, Relaxed);
        *self.search() = search;
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn killed(&self) -> MutexGuard<'_, Option<KillReason>> {
        self.killed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_killed(&self) -> bool {
        self.killed().is_some()
    }

    /// Kills it, unless its search is over.
    pub(super) fn kill(&self, why: KillReason) {
        // Held until it is done: a search that ends meanwhile is not the next one.
        let search = self.search();
        if search.is_some() {
            self.killed().get_or_insert(why);
            let _ = self.child().kill();
        }
    }

    /// Ends it without a reason.
    pub(super) fn end(&self) {
        let mut child = self.child();
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Cause of its death, once nothing comes from it any more.
    pub(super) fn death(&self) -> WorkerDeath {
        let mut child = self.child();
        // It may only have closed its end.
        let status = match child.try_wait() {
            Ok(Some(status)) => Ok(status),
            _ => patient(&mut child),
        };
        drop(child);
        let killed = *self.killed();
        let words = self.last_words();
        match (killed, status) {
            (Some(KillReason::Time), _) => WorkerDeath::Time,
            (Some(KillReason::Gone), _) => WorkerDeath::Gone,
            (Some(KillReason::Memory), _) => WorkerDeath::Memory,
            (None, Ok(_)) if words.contains("memory allocation of") => WorkerDeath::Memory,
            (None, Ok(_)) if words.contains("overflowed its stack") => WorkerDeath::Depth,
            // Nobody else kills it but the kernel, for want of memory.
            (None, Ok(status)) if status.signal() == Some(9) => WorkerDeath::Memory,
            (None, Ok(status)) => {
                let words = words.lines().next_back().unwrap_or("no word").to_owned();
                WorkerDeath::Fault(format!("{status}; {words}"))
            }
            (None, Err(error)) => WorkerDeath::Fault(error.to_string()),
        }
    }

    fn last_words(&self) -> String {
        let mut text = Vec::new();
        if let Some(mut words) = self.words.as_ref() {
            let length = words.metadata().map_or(0, |metadata| metadata.len());
            let from = length.saturating_sub(LAST_WORDS_MAX);
            let seen = words.seek(io::SeekFrom::Start(from));
            let _ = seen.and_then(|_| words.take(LAST_WORDS_MAX).read_to_end(&mut text));
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// Waits a moment for a process that is about to end, and ends it then.
fn patient(child: &mut Child) -> io::Result<ExitStatus> {
    const MOMENT: Duration = Duration::from_millis(500);
    let since = Instant::now();
    while since.elapsed() < MOMENT {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.kill()?;
    child.wait()
}

/// Cause of a worker's end before that of its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WorkerDeath {
    /// It took too long.
    Time,
    /// It took too much memory.
    Memory,
    /// Nobody wants to know.
    Gone,
    /// Its stack was too small.
    Depth,
    /// A mistake of the program.
    Fault(String),
}

/// This program: by its name as long as that is it, or by what the kernel knows of it.
fn program() -> PathBuf {
    let running = PathBuf::from("/proc/self/exe");
    let Ok(named) = std::env::current_exe() else {
        return std::env::args_os().next().map_or(running, PathBuf::from);
    };
    let id = |path: &PathBuf| fs::metadata(path).map(|file| (file.dev(), file.ino()));
    match (id(&named), id(&running)) {
        (Ok(one), Ok(other)) if one == other => named,
        _ => running,
    }
}
