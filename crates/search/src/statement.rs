//! SQL: statements of one's own, and those that a query becomes.

use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use inrush_store::reply::{SearchHit, SearchReply, events};

use crate::cells::{rows_of, table_of};
use crate::run::RunningSearch;
use crate::stop::SearchStop;
use crate::table_form::TableForm;

/// Interval between two progress reports to the asker.
pub(crate) const PROGRESS_EVERY: Duration = Duration::from_millis(250);

/// Rows of a result at most: those that are sent, and those that are counted, which are as many or
/// more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowLimits {
    pub(crate) shown: u64,
    pub(crate) counted: u64,
}

impl RowLimits {
    /// Limits of a result of which nothing is known beyond the rows that are sent.
    pub(crate) const fn shown(limit: u64) -> Self {
        Self {
            shown: limit,
            counted: limit,
        }
    }
}

/// Rows of a result, as far as they were sent and counted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ResultRows {
    /// Rows that were sent.
    pub(crate) shown: u64,
    /// Rows that were counted.
    pub(crate) counted: u64,
    /// True if there are more rows than were counted.
    pub(crate) more: bool,
}

impl ResultRows {
    /// True if not all rows were sent.
    pub(crate) const fn is_cut(&self) -> bool {
        self.more || self.counted > self.shown
    }

    /// Counts a row. True if it is to be sent.
    fn count(&mut self, limits: RowLimits) -> bool {
        if self.counted >= limits.counted {
            self.more = true;
            return false;
        }
        self.counted += 1;
        let shown = self.shown < limits.shown;
        self.shown += u64::from(shown);
        shown
    }
}

impl RunningSearch {
    /// Runs a statement and sends its result as a table.
    pub(crate) async fn table(
        &self,
        sql: &str,
        mut form: TableForm,
        limits: RowLimits,
    ) -> Result<ResultRows, SearchStop> {
        let planner = self.planner()?;
        let statement = planner.statement(sql).await?;
        let header = form.header(table_of(&statement.schema()));
        self.send(SearchReply::Table(header)).await?;
        let mut batches = statement.stream().await?;
        let mut rows = ResultRows::default();
        while let Some(batch) = self.next(&mut batches).await? {
            for row in rows_of(&batch)?.into_iter().flat_map(|row| form.rows(row)) {
                if rows.count(limits) {
                    self.send(SearchReply::Row(row)).await?;
                }
            }
            if rows.more {
                return Ok(rows);
            }
        }
        for row in form.rest() {
            if rows.count(limits) {
                self.send(SearchReply::Row(row)).await?;
            }
        }
        Ok(rows)
    }

    /// Runs a statement whose rows are events, and sends `limit` of them at most, in their order.
    pub(crate) async fn sorted(&self, sql: &str, limit: u64) -> Result<ResultRows, SearchStop> {
        let planner = self.planner()?;
        let mut batches = planner.statement(sql).await?.stream().await?;
        let mut rows = ResultRows::default();
        while let Some(batch) = self.next(&mut batches).await? {
            let found: Vec<SearchHit> = events(&batch).collect();
            for event in found {
                if rows.count(RowLimits::shown(limit)) {
                    self.send(SearchReply::Event(Box::new(event))).await?;
                }
            }
            if rows.more {
                break;
            }
        }
        Ok(rows)
    }

    /// The next batch. While it is awaited, the asker is told how far it is.
    async fn next(
        &self,
        batches: &mut SendableRecordBatchStream,
    ) -> Result<Option<RecordBatch>, SearchStop> {
        loop {
            match tokio::time::timeout(PROGRESS_EVERY, batches.next()).await {
                Ok(None) => return Ok(None),
                Ok(Some(batch)) => return Ok(Some(batch?)),
                Err(_) => {
                    let progress = self.scans.progress();
                    self.send(SearchReply::Progress(progress)).await?;
                }
            }
        }
    }
}
