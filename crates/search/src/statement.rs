//! SQL: statements of one's own, and those that a query becomes.

use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use inrush_store::reply::{SearchHit, SearchReply, events};

use crate::cells::{rows_of, table_of};
use crate::run::RunningSearch;
use crate::stop::SearchStop;

/// Interval between two progress reports to the asker.
pub(crate) const PROGRESS_EVERY: Duration = Duration::from_millis(250);

/// Kind of a result's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowKind {
    /// Rows of a table.
    Table,
    /// Events, in an order of their own.
    Events,
}

impl RunningSearch {
    /// Runs a statement and sends its result, `limit` rows at most. Says how many those were, and
    /// whether there were more.
    pub(crate) async fn result(
        &self,
        sql: &str,
        rows: RowKind,
        limit: u64,
    ) -> Result<(u64, bool), SearchStop> {
        let planner = self.planner()?;
        let statement = planner.statement(sql).await?;
        if rows == RowKind::Table {
            let table = table_of(&statement.schema());
            self.send(SearchReply::Table(table)).await?;
        }
        let mut batches = statement.stream().await?;
        let mut left = limit;
        while let Some(batch) = self.next(&mut batches).await? {
            let count = batch.num_rows();
            let shown = batch.slice(0, count.min(usize::try_from(left).unwrap_or(usize::MAX)));
            let cut = shown.num_rows() < count;
            left -= shown.num_rows() as u64;
            self.show(&shown, rows).await?;
            if left == 0 {
                let more = cut || self.has_more(&mut batches).await?;
                return Ok((limit, more));
            }
        }
        Ok((limit - left, false))
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

    async fn has_more(&self, batches: &mut SendableRecordBatchStream) -> Result<bool, SearchStop> {
        while let Some(batch) = self.next(batches).await? {
            if batch.num_rows() > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn show(&self, batch: &RecordBatch, rows: RowKind) -> Result<(), SearchStop> {
        match rows {
            RowKind::Table => {
                for row in rows_of(batch)? {
                    self.send(SearchReply::Row(row)).await?;
                }
            }
            RowKind::Events => {
                let found: Vec<SearchHit> = events(batch).collect();
                for event in found {
                    self.send(SearchReply::Event(Box::new(event))).await?;
                }
            }
        }
        Ok(())
    }
}
