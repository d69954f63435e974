//! The threads that search, and their bounds.

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::thread::{available_parallelism, sleep};
use std::time::{Duration, Instant};

use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use futures::FutureExt;
use inrush_query::{self as query, Query, QueryError};
use inrush_store::read::FooterCache;
use inrush_store::reply::{SearchReply, StopReason};
use inrush_store::snapshot::Snapshot;
use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::answer::SearchAnswer;
use crate::request::{ROWS_MAX, SearchRequest};
use crate::run::RunningSearch;
use crate::statement::RowLimits;
use crate::stop::SearchStop;
use crate::table_form::TableForm;

/// Searches that wait for their turn at most; more are refused.
pub(crate) const WAITING_MAX: usize = 32;

/// Followers of what comes in at most.
const FOLLOWERS_MAX: usize = 16;

/// Threads at most, if nobody says: a search is for one person, ingestion for all.
const THREADS_MAX: usize = 4;

/// Bytes of stack of a thread: deep conditions make DataFusion recurse deeply where nothing is
/// optimised.
pub(crate) const STACK_BYTES: usize = 8 << 20;

/// Bounds of searching.
#[derive(Debug, Clone)]
pub struct SearchOptions {
    /// Threads, named `search-N`.
    pub threads: usize,
    /// Distance of their priority below that of others: the `nice` of setpriority(2), 0 to 19.
    pub nice: i32,
    /// Searches that run at a time; others wait for their turn.
    pub searches_max: usize,
    /// Bytes of memory of all searches together, of those that grow with what is searched.
    pub memory_bytes: usize,
    /// Bytes of footers that are kept from search to search.
    pub footers_bytes: usize,
    /// Longest time of a search.
    pub time_max: Duration,
}

impl Default for SearchOptions {
    fn default() -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        Self {
            threads: cores.min(THREADS_MAX),
            nice: 10,
            // Many, for they share the threads fairly: what takes milliseconds must not wait until
            // one of those ends that take a minute.
            searches_max: 16,
            memory_bytes: 256 << 20,
            footers_bytes: 64 << 20,
            time_max: Duration::from_secs(60),
        }
    }
}

/// Answers questions about snapshots of the store, on threads of its own.
#[derive(Debug)]
pub struct Engine {
    /// There until it is dropped.
    runtime: Option<Runtime>,
    bounds: Arc<SearchResources>,
    followers: Arc<Semaphore>,
}

/// Bounds, memory and footers that all searches share.
#[derive(Debug)]
pub(crate) struct SearchResources {
    pub(crate) footers: Arc<FooterCache>,
    pub(crate) memory: Arc<dyn MemoryPool>,
    pub(crate) threads: usize,
    pub(crate) time_max: Duration,
    running: Semaphore,
    /// Those that run and those that wait.
    present: Arc<Semaphore>,
}

impl Engine {
    /// Starts the threads.
    ///
    /// # Errors
    /// If the system gives no threads.
    pub fn start(options: &SearchOptions) -> io::Result<Self> {
        Self::start_with(options, Arc::new(FooterCache::new(options.footers_bytes)))
    }

    /// [`Self::start`] with footers that were read before.
    pub(crate) fn start_with(
        options: &SearchOptions,
        footers: Arc<FooterCache>,
    ) -> io::Result<Self> {
        let threads = options.threads.max(1);
        let nice = options.nice;
        let number = std::sync::atomic::AtomicUsize::new(0);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name_fn(move || {
                let number = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                format!("search-{number}")
            })
            .thread_stack_size(STACK_BYTES)
            .on_thread_start(move || {
                // Linux lowers the calling thread alone. Where it may not, searches are as
                // important as all else, which is no reason not to search.
                let _ = rustix::process::nice(nice);
            })
            // A turn takes milliseconds, where tokio expects microseconds: new searches and timers
            // are looked for after every few.
            .global_queue_interval(2)
            .event_interval(4)
            .enable_all()
            .build()?;
        Ok(Self {
            followers: Arc::new(Semaphore::new(FOLLOWERS_MAX)),
            runtime: Some(runtime),
            bounds: Arc::new(SearchResources {
                footers,
                memory: Arc::new(GreedyMemoryPool::new(options.memory_bytes)),
                threads,
                time_max: options.time_max,
                running: Semaphore::new(options.searches_max.max(1)),
                present: Arc::new(Semaphore::new(options.searches_max.max(1) + WAITING_MAX)),
            }),
        })
    }

    /// Answers a question in the query language about the events of `snapshot`.
    ///
    /// # Errors
    /// If the query cannot be read.
    pub fn search(
        &self,
        snapshot: Snapshot,
        request: SearchRequest,
    ) -> Result<SearchAnswer, QueryError> {
        let query = query::parse(&request.query)?;
        let time_max = request.time_max.unwrap_or(self.bounds.time_max);
        let question = ParsedQuery::Search(query, request);
        Ok(self.answer(snapshot, time_max, question))
    }

    /// Waits until nothing runs any more, but not for longer than `wait`. Says whether it is so.
    pub(crate) fn rests(&self, wait: Duration) -> bool {
        const LOOK_EVERY: Duration = Duration::from_micros(200);
        let Some(runtime) = &self.runtime else {
            return true;
        };
        let (metrics, since) = (runtime.metrics(), Instant::now());
        while metrics.num_alive_tasks() > 0 {
            if since.elapsed() >= wait {
                return false;
            }
            sleep(LOOK_EVERY);
        }
        true
    }

    /// Room for one more who follows what comes in.
    pub(crate) fn follower(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.followers).try_acquire_owned().ok()
    }

    /// Answers a statement in SQL over the table `events`: at most `limit` rows. Whatever is wrong
    /// with it is in the answer.
    pub fn sql(
        &self,
        snapshot: Snapshot,
        statement: impl Into<String>,
        limit: u64,
    ) -> SearchAnswer {
        let question = ParsedQuery::Sql(statement.into(), limit.min(ROWS_MAX));
        self.answer(snapshot, self.bounds.time_max, question)
    }

    /// Bounds, memory and footers that all searches share.
    pub(crate) fn bounds(&self) -> Arc<SearchResources> {
        Arc::clone(&self.bounds)
    }

    /// Has the threads do something.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(work);
        }
    }

    fn answer(
        &self,
        snapshot: Snapshot,
        time_max: Duration,
        question: ParsedQuery,
    ) -> SearchAnswer {
        let (replies, answer) = SearchAnswer::new();
        let run = RunningSearch::new(Arc::clone(&self.bounds), snapshot, replies);
        if let Some(runtime) = &self.runtime {
            let time_max = time_max.min(self.bounds.time_max);
            runtime.spawn(async move {
                tokio::select! {
                    () = run.gone() => {}
                    () = drive(&run, time_max, &question) => {}
                }
            });
        }
        answer
    }
}

/// Question of a search: a parsed query, or an SQL statement with its limit of rows.
#[derive(Debug)]
enum ParsedQuery {
    Search(Query, SearchRequest),
    Sql(String, u64),
}

impl ParsedQuery {
    async fn answer(&self, run: &RunningSearch) -> Result<Option<StopReason>, SearchStop> {
        match self {
            Self::Search(query, request) => run.search(query, request).await,
            Self::Sql(statement, limit) => {
                let limits = RowLimits::shown(*limit);
                let rows = run.table(statement, TableForm::default(), limits).await?;
                run.matched(rows.shown);
                run.counted(rows);
                Ok(rows.is_cut().then_some(StopReason::Limit))
            }
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Without waiting: what still runs is for nobody.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Waits for its turn, answers, and says how it ended.
async fn drive(run: &RunningSearch, time_max: Duration, question: &ParsedQuery) {
    let bounds = &run.bounds;
    let Ok(_present) = Arc::clone(&bounds.present).try_acquire_owned() else {
        run.end(Err(busy())).await;
        return;
    };
    let Ok(Ok(_turn)) = timeout(bounds.time_max, bounds.running.acquire()).await else {
        run.end(Err(busy())).await;
        return;
    };
    // A mistake of ours, or of DataFusion, costs the one search.
    let question = AssertUnwindSafe(question.answer(run)).catch_unwind();
    let ended = match timeout(time_max, question).await {
        Err(_) => Err(SearchStop::Bound(StopReason::Time)),
        Ok(Ok(ended)) => ended,
        Ok(Err(_)) => Err(SearchStop::failed(
            "the search failed by a mistake of the program",
        )),
    };
    run.end(ended).await;
}

fn busy() -> SearchStop {
    SearchStop::failed("too many searches are waiting: try again in a while")
}

impl RunningSearch {
    /// Sends what an answer ends with.
    async fn end(&self, ended: Result<Option<StopReason>, SearchStop>) {
        let last = match ended {
            Ok(stopped) => SearchReply::End(self.summary(stopped)),
            Err(SearchStop::Bound(stopped)) => SearchReply::End(self.summary(Some(stopped))),
            Err(SearchStop::Failed(failure)) => SearchReply::Error(failure),
        };
        // Whoever has gone wants no end.
        let _ = self.send(last).await;
    }
}
