//! A search that runs: for whom, over what, and what it has cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use datafusion::execution::memory_pool::MemoryPool;
use inrush_event::Timestamp;
use inrush_planner::{Planner, SessionParts, planner};
use inrush_query::Query;
use inrush_query::ast::QueryStage;
use inrush_query::sql::{self, QueryRange};
use inrush_store::read::BATCH_ROWS;
use inrush_store::reply::{SearchCost, SearchPlan, SearchReply, SearchSummary, StopReason};
use inrush_store::snapshot::Snapshot;

use crate::answer::ReplySender;
use crate::engine::SearchResources;
use crate::field_is::field_is;
use crate::has::has;
use crate::memory::SearchMemoryPool;
use crate::request::{HistogramSpan, ROWS_MAX, SearchRequest};
use crate::statement::RowKind;
use crate::stop::SearchStop;
use crate::table::{CountByText, EVENTS, EventsTable, StatementScans};

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
}

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
        let limit = request.limit.min(ROWS_MAX);
        let range = QueryRange {
            from_ns: request.from_ns,
            to_ns: request.to_ns,
            limit,
        };
        let translation = sql::translate(query, &range);
        let span = HistogramSpan::of(request, &self.snapshot, Timestamp::now().0);
        self.send(SearchReply::Plan(SearchPlan {
            sql: translation.sql,
            from_ms: span.from_ms,
            to_ms: span.to_ms,
            bucket_ms: span.bucket_ms,
        }))
        .await?;
        let sorted = query
            .stages
            .iter()
            .any(|s| matches!(s, QueryStage::Sort(_)));
        if !translation.is_table && !sorted {
            let limit = limit.min(head(query).unwrap_or(u64::MAX));
            let more = self.event_search(query, request, span, limit).await?;
            return Ok((more && limit == request.limit).then_some(StopReason::Limit));
        }
        // One row more than is shown says whether there is more.
        let wider = QueryRange {
            limit: limit + 1,
            ..range
        };
        let sql = sql::translate(query, &wider).sql;
        let (rows, more) = if translation.is_table {
            self.result(&sql, RowKind::Table, limit).await?
        } else {
            let sql = with_names(&sql);
            self.result(&sql, RowKind::Events, limit).await?
        };
        if request.buckets > 0 || request.fields && !translation.is_table {
            self.event_search(query, request, span, 0).await?;
        } else {
            self.matched(rows);
        }
        Ok(more.then_some(StopReason::Limit))
    }
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
