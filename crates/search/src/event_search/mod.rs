//! Events that meet a condition, newest first, in one pass over the pieces.
//!
//! Several workers look through pieces (`look`), which come newest first; one that leads puts what
//! they find together: how many events in which bar, which of them are the newest (`newest`), what
//! their fields hold (`sums`). An event is sent as soon as nothing unfinished can be newer, and
//! only then are the columns read that the condition did not need. When enough events are shown,
//! the rest is only counted: without a condition from the files' metadata alone.

pub(crate) mod condition;
pub(crate) mod look;
mod newest;
mod sums;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use datafusion::execution::memory_pool::MemoryConsumer;
use inrush_query::Query;
use inrush_query::sql::{self, QueryRange};
use inrush_store::read::{PruningFilter, ReadError};
use inrush_store::reply::{Histogram, SearchReply};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::request::{HistogramSpan, SearchRequest};
use crate::run::RunningSearch;
use crate::statement::PROGRESS_EVERY;
use crate::stop::SearchStop;
use crate::turn::TimeSlice;
use crate::work::{PieceJob, PieceQueue};
use condition::StagedFilter;
use look::{MatchedRows, PieceError, look};
use newest::{Candidate, NewestEvents};
use sums::FacetCounts;

/// Interval between two replies with a histogram that grows.
const HISTOGRAM_EVERY: Duration = Duration::from_millis(500);

/// Events whose fields are summed up at most: enough to see what is frequent.
const SUMMED_MAX: i64 = 5000;

/// State that the workers of a search share.
#[derive(Debug)]
struct EventSearch {
    work: Arc<PieceQueue>,
    condition: StagedFilter,
    span: HistogramSpan,
    /// Events to show at most.
    limit: usize,
    /// Events before this time are not among those to show.
    floor: AtomicI64,
    /// Number of events whose fields are still to be summed up.
    to_sum: AtomicI64,
}

/// Result of a worker for one piece.
#[derive(Debug, Default)]
struct PieceResult {
    number: u64,
    /// Events that meet the condition.
    count: u64,
    /// Those of each bar, by its number.
    bars: Vec<(usize, u64)>,
    newest: Vec<Candidate>,
    sums: FacetCounts,
}

impl RunningSearch {
    /// Sends the newest `limit` events, their histogram and their fields. Says whether there were
    /// more events.
    pub(crate) async fn event_search(
        &self,
        query: &Query,
        request: &SearchRequest,
        span: HistogramSpan,
        limit: u64,
    ) -> Result<bool, SearchStop> {
        let range = QueryRange {
            from_ns: request.from_ns,
            to_ns: request.to_ns,
            limit,
        };
        let to_sum = if request.fields { SUMMED_MAX } else { 0 };
        let search = self.prepared(query, &range, span, to_sum)?;
        let mut lead = ResultMerger::new(self, &search);
        lead.go().await?;
        lead.finish().await
    }

    /// Number of the events from a time on that the query finds.
    pub(crate) async fn count_from(&self, query: &Query, from_ns: i64) -> Result<u64, SearchStop> {
        let range = QueryRange {
            from_ns,
            to_ns: i64::MAX,
            limit: 0,
        };
        let search = self.prepared(query, &range, HistogramSpan::default(), 0)?;
        let mut lead = ResultMerger::new(self, &search);
        lead.beside = true;
        lead.go().await?;
        Ok(lead.matched)
    }

    fn prepared(
        &self,
        query: &Query,
        range: &QueryRange,
        span: HistogramSpan,
        to_sum: i64,
    ) -> Result<Arc<EventSearch>, SearchStop> {
        let limit = range.limit;
        let timeless = QueryRange {
            from_ns: i64::MIN,
            to_ns: i64::MAX,
            ..*range
        };
        // The time is not a part of the condition: it is known of most pieces as a whole.
        let translation = sql::translate(query, &timeless);
        let wanted = PruningFilter::of(&translation, range);
        let work = PieceQueue::new(&self.snapshot, wanted, &self.bounds.footers);
        self.scans.add(&work);
        Ok(Arc::new(EventSearch {
            condition: StagedFilter::new(&translation.predicate)?,
            work,
            span,
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            floor: AtomicI64::new(if limit == 0 { i64::MAX } else { i64::MIN }),
            to_sum: AtomicI64::new(to_sum),
        }))
    }
}

/// The one that puts together what the workers find.
struct ResultMerger<'a> {
    run: &'a RunningSearch,
    search: &'a Arc<EventSearch>,
    newest: NewestEvents,
    bars: Vec<u64>,
    sums: FacetCounts,
    matched: u64,
    /// True if these events are none of the answer.
    beside: bool,
    told: Instant,
    drawn: Instant,
}

impl<'a> ResultMerger<'a> {
    fn new(run: &'a RunningSearch, search: &'a Arc<EventSearch>) -> Self {
        let memory = MemoryConsumer::new("newest events").register(&run.memory());
        let now = Instant::now();
        Self {
            run,
            search,
            newest: NewestEvents::new(search.limit, memory),
            bars: vec![0; search.span.buckets],
            sums: FacetCounts::default(),
            matched: 0,
            beside: false,
            told: now,
            drawn: now,
        }
    }

    async fn go(&mut self) -> Result<(), SearchStop> {
        let threads = self.run.bounds.threads;
        let (sender, mut outcomes) = mpsc::channel(2 * threads);
        // Dropped with this future, they end.
        let mut workers = JoinSet::new();
        for _ in 0..threads {
            let (search, sender) = (Arc::clone(self.search), sender.clone());
            workers.spawn(async move { search.work_on(&sender).await });
        }
        drop(sender);
        loop {
            match tokio::time::timeout(PROGRESS_EVERY, outcomes.recv()).await {
                Ok(Some(outcome)) => self.take(outcome).await?,
                Ok(None) => break,
                Err(_) => {}
            }
            self.tell().await?;
        }
        while let Some(ended) = workers.join_next().await {
            ended.map_err(|_| SearchStop::failed("a part of the search failed"))??;
        }
        Ok(())
    }

    async fn take(&mut self, outcome: PieceResult) -> Result<(), SearchStop> {
        self.matched += outcome.count;
        if !self.beside {
            self.run.matched(outcome.count);
        }
        for (bar, count) in outcome.bars {
            if let Some(sum) = self.bars.get_mut(bar) {
                *sum += count;
            }
        }
        self.sums.merge(outcome.sums);
        self.newest.merge(outcome.newest)?;
        self.search.work.finish(outcome.number);
        if let Some(floor) = self.newest.floor() {
            self.search.floor.store(floor, Relaxed);
        }
        self.show().await
    }

    /// Sends the events than which nothing unfinished can be newer.
    async fn show(&mut self) -> Result<(), SearchStop> {
        let frontier = self.search.work.frontier();
        loop {
            let settled = self.newest.settled(frontier);
            if settled.is_empty() {
                return Ok(());
            }
            for event in newest::fetch(&self.search.work, &settled).await? {
                self.run.send(SearchReply::Event(Box::new(event))).await?;
            }
        }
    }

    async fn tell(&mut self) -> Result<(), SearchStop> {
        if self.told.elapsed() >= PROGRESS_EVERY {
            self.told = Instant::now();
            let progress = self.run.scans.progress();
            self.run.send(SearchReply::Progress(progress)).await?;
        }
        if self.drawn.elapsed() >= HISTOGRAM_EVERY {
            self.drawn = Instant::now();
            self.draw().await?;
        }
        Ok(())
    }

    async fn draw(&self) -> Result<(), SearchStop> {
        if self.search.span.bucket_ms == 0 {
            return Ok(());
        }
        let histogram = Histogram {
            from_ms: self.search.span.first_ms(),
            bucket_ms: self.search.span.bucket_ms,
            counts: self.bars.clone(),
        };
        self.run.send(SearchReply::Histogram(histogram)).await
    }

    /// Sends what is only known at the end. Says whether more was found than shown.
    async fn finish(mut self) -> Result<bool, SearchStop> {
        self.show().await?;
        self.draw().await?;
        if let Some(fields) = self.sums.summary(self.matched) {
            self.run.send(SearchReply::Fields(fields)).await?;
        }
        let progress = self.run.scans.progress();
        self.run.send(SearchReply::Progress(progress)).await?;
        Ok(self.matched > self.search.limit as u64)
    }
}

impl EventSearch {
    /// Looks through pieces until none is left.
    async fn work_on(&self, outcomes: &mpsc::Sender<PieceResult>) -> Result<(), SearchStop> {
        let mut turn = TimeSlice::new();
        while let Some(job) = self.work.next().await? {
            let outcome = match self.look_at(&job, &mut turn).await {
                Ok(outcome) => outcome,
                Err(PieceError::Stop(stop)) => return Err(stop),
                Err(PieceError::Fault(fault)) => self.pass_over(&job, fault)?,
            };
            if outcomes.send(outcome).await.is_err() {
                return Ok(());
            }
            turn.end_if_due().await;
        }
        Ok(())
    }

    /// A damaged file costs itself.
    fn pass_over(&self, job: &PieceJob, fault: ReadError) -> Result<PieceResult, SearchStop> {
        match (fault, job.piece.file()) {
            (ReadError::Damaged(why), Some(file)) => {
                self.work.set_aside(file, why);
                Ok(PieceResult {
                    number: job.number,
                    ..PieceResult::default()
                })
            }
            (fault, _) => Err(fault.into()),
        }
    }

    async fn look_at(
        &self,
        job: &PieceJob,
        turn: &mut TimeSlice,
    ) -> Result<PieceResult, PieceError> {
        let piece = &job.piece;
        let floor = self.floor.load(Relaxed);
        let to_show = self.limit > 0 && floor < i64::MAX && piece.to_ns >= floor;
        let (first, last) = (self.span.bar(piece.from_ns), self.span.bar(piece.to_ns));
        let several_bars = self.span.bucket_ms > 0 && first != last;
        let to_sum = self.to_sum.load(Relaxed) > 0;
        let found = look(
            &self.work,
            &self.condition,
            piece,
            to_show || several_bars,
            to_show || to_sum,
            turn,
        )
        .await?;
        let bars = match several_bars {
            true => self.bars(&found),
            false => vec![(first, found.count)],
        };
        Ok(PieceResult {
            number: job.number,
            count: found.count,
            bars,
            sums: self.sum(job, &found).await?,
            newest: match to_show {
                true => newest::candidates(job, &found, floor, self.limit),
                false => Vec::new(),
            },
        })
    }

    fn bars(&self, found: &MatchedRows) -> Vec<(usize, u64)> {
        let mut bars: Vec<(usize, u64)> = Vec::new();
        for time in &found.times {
            let bar = self.span.bar(*time);
            match bars.last_mut() {
                Some((last, count)) if *last == bar => *count += 1,
                _ => bars.push((bar, 1)),
            }
        }
        bars
    }

    /// Sums up the fields of the newest events of the piece, as long as there are not enough.
    async fn sum(&self, job: &PieceJob, found: &MatchedRows) -> Result<FacetCounts, PieceError> {
        let rows = found.rows.len() as i64;
        if rows == 0 {
            return Ok(FacetCounts::default());
        }
        let left = self.to_sum.fetch_sub(rows, Relaxed);
        let count = usize::try_from(left.clamp(0, rows)).unwrap_or(0);
        if count == 0 {
            return Ok(FacetCounts::default());
        }
        Ok(sums::of(
            &self.work,
            &job.piece,
            &found.rows[found.rows.len() - count..],
        )
        .await?)
    }
}
