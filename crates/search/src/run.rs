//! A search that runs: for whom, over what, and what it has cost.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use datafusion::execution::memory_pool::MemoryPool;
use inrush_event::Timestamp;
use inrush_planner::{Planner, SessionParts, planner};
use inrush_query::Query;
use inrush_query::ast::{GroupKey, QueryStage};
use inrush_query::habit::habits;
use inrush_query::sql::{self, QueryRange};
use inrush_store::read::BATCH_ROWS;
use inrush_store::reply::{SearchCost, SearchPlan, SearchReply, SearchSummary, StopReason};
use inrush_store::snapshot::Snapshot;

use crate::answer::ReplySender;
use crate::engine::SearchResources;
use crate::field_is::field_is;
use crate::has::has;
use crate::memory::SearchMemoryPool;
use crate::request::{FUTURE_NS, HistogramSpan, SearchRequest};
use crate::statement::{ResultRows, RowLimits};
use crate::stop::SearchStop;
use crate::table::{CountByText, EVENTS, EventsTable, StatementScans};
use crate::table_form::TableForm;

/// A search that runs.
#[derive(Debug)]
pub(crate) struct RunningSearch {
    pub(crate) bounds: Arc<SearchResources>,
    pub(crate) snapshot: Snapshot,
    pub(crate) scans: Arc<StatementScans>,
    replies: ReplySender,
    memory: Arc<SearchMemoryPool>,
    began: Instant,
    matched: AtomicU64,
    rows: OnceLock<ResultRows>,
    future: OnceLock<u64>,
}

/// Rows of a table that are counted at most, if fewer are shown: more take the engine's memory.
const COUNTED_MAX: u64 = 100_000;

impl RunningSearch {
    pub(crate) fn new(
        bounds: Arc<SearchResources>,
        snapshot: Snapshot,
        replies: ReplySender,
    ) -> Self {
        Self {
            memory: SearchMemoryPool::of(&bounds.memory),
            bounds,
            snapshot,
            scans: Arc::default(),
            replies,
            began: Instant::now(),
            matched: AtomicU64::new(0),
            rows: OnceLock::new(),
            future: OnceLock::new(),
        }
    }

    pub(crate) async fn send(&self, reply: SearchReply) -> Result<(), SearchStop> {
        let sent = self.replies.send(reply).await;
        sent.map_err(|_| SearchStop::Bound(StopReason::Cancelled))
    }

    /// Waits until nobody listens any more.
    pub(crate) async fn gone(&self) {
        self.replies.closed().await;
    }

    /// Adds events that were found.
    pub(crate) fn matched(&self, events: u64) {
        self.matched.fetch_add(events, Relaxed);
    }

    /// Keeps the number of a table's rows for the summary.
    pub(crate) fn counted(&self, rows: ResultRows) {
        // A search has one table.
        let _ = self.rows.set(rows);
    }

    pub(crate) fn matched_so_far(&self) -> u64 {
        self.matched.load(Relaxed)
    }

    pub(crate) fn memory(&self) -> Arc<dyn MemoryPool> {
        Arc::clone(&self.memory) as Arc<dyn MemoryPool>
    }

    /// A planner over the snapshot, whose statements can read nothing but its events.
    pub(crate) fn planner(&self) -> Result<Box<dyn Planner>, SearchStop> {
        let events = EventsTable::new(
            self.snapshot.clone(),
            Arc::clone(&self.bounds.footers),
            Arc::clone(&self.scans),
        );
        Ok(planner(SessionParts {
            threads: self.bounds.threads,
            batch_rows: BATCH_ROWS,
            memory: self.memory(),
            tables: vec![(EVENTS, Arc::new(events))],
            functions: vec![has(), field_is()],
            rules: vec![Arc::new(CountByText)],
        })?)
    }

    /// Last object of an answer: events found, cost, and files set aside.
    pub(crate) fn summary(&self, stopped: Option<StopReason>) -> SearchSummary {
        let progress = self.scans.progress();
        let elapsed = self.began.elapsed().as_millis();
        SearchSummary {
            matched: self.matched_so_far(),
            elapsed_ms: u64::try_from(elapsed).unwrap_or(u64::MAX),
            stopped,
            rows: self.rows.get().map(|rows| rows.counted),
            rows_more: self.rows.get().is_some_and(|rows| rows.more),
            future: self.future.get().copied(),
            cost: SearchCost {
                events_scanned: progress.events_scanned,
                bytes_scanned: progress.bytes_scanned,
                memory_bytes: self.memory.peak(),
            },
            set_aside: self.scans.named(),
        }
    }

    /// Answers a question in the query language.
    pub(crate) async fn search(
        &self,
        query: &Query,
        request: &SearchRequest,
    ) -> Result<Option<StopReason>, SearchStop> {
        let now_ns = Timestamp::now().0;
        let request = &SearchRequest {
            // Later than the snapshot: what came before it is not of the future.
            to_ns: if request.future {
                now_ns
            } else {
                request.to_ns
            },
            ..request.clone()
        };
        let limit = request.limit_of(query);
        let range = QueryRange {
            from_ns: request.from_ns,
            to_ns: request.to_ns,
            limit,
        };
        let translation = sql::translate(query, &range);
        let span = HistogramSpan::of(request, &self.snapshot, now_ns);
        self.send(SearchReply::Plan(SearchPlan {
            sql: translation.sql,
            from_ms: span.from_ms,
            to_ms: span.to_ms,
            bucket_ms: span.bucket_ms,
            step_ms: step_ms(query),
            hints: habits(query, &request.query),
        }))
        .await?;
        let stopped = if translation.is_table {
            self.table_search(query, request, span, range).await?
        } else {
            self.list_search(query, request, span, range).await?
        };
        if request.future {
            let future = self
                .count_from(query, now_ns.saturating_add(FUTURE_NS))
                .await?;
            // A search is answered once.
            let _ = self.future.set(future);
        }
        Ok(stopped)
    }

    /// Sends events, newest first or in an order of their own.
    async fn list_search(
        &self,
        query: &Query,
        request: &SearchRequest,
        span: HistogramSpan,
        range: QueryRange,
    ) -> Result<Option<StopReason>, SearchStop> {
        let limit = range.limit;
        let sorted = query
            .stages
            .iter()
            .any(|s| matches!(s, QueryStage::Sort(_)));
        if !sorted {
            let head = head(query).unwrap_or(u64::MAX);
            let more = self.event_search(query, request, span, limit.min(head));
            return Ok((more.await? && limit <= head).then_some(StopReason::Limit));
        }
        // One row more than is shown says whether there is more.
        let wider = QueryRange {
            limit: limit + 1,
            ..range
        };
        let sql = with_names(&sql::translate(query, &wider).sql);
        let rows = self.sorted(&sql, limit).await?;
        if request.buckets > 0 || request.fields || rows.is_cut() {
            self.event_search(query, request, span, 0).await?;
        } else {
            self.matched(rows.shown);
        }
        Ok(rows.is_cut().then_some(StopReason::Limit))
    }

    /// Sends a table.
    async fn table_search(
        &self,
        query: &Query,
        request: &SearchRequest,
        span: HistogramSpan,
        range: QueryRange,
    ) -> Result<Option<StopReason>, SearchStop> {
        // What the query itself asks for is never cut.
        let head = head(query).filter(|head| *head <= range.limit);
        let limits = head.map_or(
            RowLimits {
                shown: range.limit,
                counted: range.limit.max(COUNTED_MAX),
            },
            RowLimits::shown,
        );
        // One row more than is counted says whether there is more.
        let wider = QueryRange {
            limit: limits.counted + 1,
            ..range
        };
        let sql = sql::translate(query, &wider).sql;
        let form = TableForm::of(query, (range.from_ns, range.to_ns), span, range.limit);
        let mut rows = self.table(&sql, form, limits).await?;
        rows.more &= head.is_none();
        self.counted(rows);
        if request.buckets > 0 {
            self.event_search(query, request, span, 0).await?;
        } else {
            self.matched(rows.shown);
        }
        Ok(rows.is_cut().then_some(StopReason::Limit))
    }
}

/// Width of the stretches of time that a query's table is grouped by, in milliseconds.
fn step_ms(query: &Query) -> Option<u64> {
    let Some(QueryStage::Aggregate(table)) = query.stages.first() else {
        return None;
    };
    table.by.iter().find_map(|by| match by {
        GroupKey::Width(width) => Some(width.seconds().saturating_mul(1000)),
        GroupKey::Field(_) => None,
    })
}

/// The rows that a query itself asks for at most.
fn head(query: &Query) -> Option<u64> {
    query.stages.iter().find_map(|stage| match stage {
        QueryStage::Head(rows) => Some(u64::from(*rows)),
        _ => None,
    })
}

/// The statement of a query whose rows are events, with the columns that name an event for ever.
/// The list of columns is the translation's own: the first `FROM` in it is the one behind the list.
fn with_names(sql: &str) -> String {
    sql.replacen(" FROM ", ", \"log\", \"epoch\", \"seq\" FROM ", 1)
}
