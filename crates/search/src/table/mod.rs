//! The table `events` of SQL, over a snapshot.
//!
//! Of a condition the table takes what it can use to leave files, row groups and blocks out
//! (`filters`). Bounds of time it answers itself, exactly: where a piece lies within them, its
//! times are not even read. How many rows there are it knows without reading any, and how many
//! there are of each text it counts itself (`count`).

mod count;
mod filters;
mod scan;

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use inrush_store::read::{ColumnProjection, FooterCache, TextEncoding, candidates, table};
use inrush_store::reply::{SearchProgress, SetAside};
use inrush_store::snapshot::Snapshot;

use crate::work::PieceQueue;
pub(crate) use count::CountByText;
use filters::{FilterUse, facts};
use scan::EventsExec;

/// The name of the table in SQL.
pub(crate) const EVENTS: &str = "events";

/// The table of all events.
#[derive(Debug)]
pub(crate) struct EventsTable {
    snapshot: Snapshot,
    footers: Arc<FooterCache>,
    scans: Arc<StatementScans>,
}

/// Scans of a statement, with what they have done so far.
#[derive(Debug, Default)]
pub(crate) struct StatementScans {
    /// Taken when a scan begins, and when the asker is told how far it is.
    works: Mutex<Vec<Arc<PieceQueue>>>,
}

impl StatementScans {
    pub(crate) fn add(&self, work: &Arc<PieceQueue>) {
        let mut works = self.works.lock().unwrap_or_else(PoisonError::into_inner);
        works.push(Arc::clone(work));
    }

    fn works(&self) -> Vec<Arc<PieceQueue>> {
        let works = self.works.lock();
        works.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn progress(&self) -> SearchProgress {
        let add = |sum: SearchProgress, work: Arc<PieceQueue>| {
            let one = work.progress();
            SearchProgress {
                files_done: sum.files_done + one.files_done,
                files_total: sum.files_total + one.files_total,
                events_scanned: sum.events_scanned + one.events_scanned,
                bytes_scanned: sum.bytes_scanned + one.bytes_scanned,
            }
        };
        self.works()
            .into_iter()
            .fold(SearchProgress::default(), add)
    }

    pub(crate) fn named(&self) -> Vec<SetAside> {
        let mut named: Vec<SetAside> = Vec::new();
        for aside in self.works().iter().flat_map(|work| work.named()) {
            if named.iter().all(|other| other.path != aside.path) {
                named.push(aside);
            }
        }
        named
    }
}

impl EventsTable {
    pub(crate) fn new(
        snapshot: Snapshot,
        footers: Arc<FooterCache>,
        scans: Arc<StatementScans>,
    ) -> Self {
        Self {
            snapshot,
            footers,
            scans,
        }
    }
}

#[async_trait]
impl TableProvider for EventsTable {
    fn schema(&self) -> SchemaRef {
        table()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let answer = |filter: &&Expr| match facts(filter) {
            FilterUse::Exact(_) => TableProviderFilterPushDown::Exact,
            FilterUse::Some(_) => TableProviderFilterPushDown::Inexact,
            FilterUse::None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(answer).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let wanted = filters::all_of(filters);
        let all: Vec<usize> = (0..table().fields().len()).collect();
        let columns = ColumnProjection::new(projection.unwrap_or(&all), TextEncoding::Views);
        let (files, tail) = candidates(&self.snapshot, &wanted);
        let rows = files.iter().map(|file| file.entry.rows as usize);
        let rows = rows.chain(tail.iter().map(|piece| piece.rows)).sum();
        let within = |from, to| wanted.covers(from, to);
        // A file's rows are all wanted, or it has to be read to know how many are.
        let exact = wanted.is_time_only()
            && files.iter().all(|f| within(f.entry.from_ns, f.entry.to_ns))
            && tail.iter().all(|piece| within(piece.from_ns, piece.to_ns));
        let mut statistics = Statistics::new_unknown(columns.schema());
        statistics.num_rows = match exact {
            true => Precision::Exact(limit.map_or(rows, |limit| limit.min(rows))),
            false => Precision::Inexact(rows),
        };
        Ok(Arc::new(EventsExec::new(
            self.snapshot.clone(),
            Arc::clone(&self.footers),
            Arc::clone(&self.scans),
            scan::ScanSpec {
                wanted,
                columns,
                limit,
                partitions: state.config().target_partitions(),
            },
            statistics,
        )))
    }
}
