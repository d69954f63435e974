//! SQL: statements of one's own, and those that a query becomes.

use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use inrush_store::reply::{Event, Reply, events};

use crate::cells::{rows_of, table_of};
use crate::run::Run;
use crate::session::read_only;
use crate::stop::Stop;

/// Interval between two progress reports to the asker.
pub(crate) const PROGRESS_EVERY: Duration = Duration::from_millis(250);

/// Kind of a result's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// Rows of a table.
    Table,
    /// Events, in an order of their own.
    Events,
}

impl Run {
    /// Runs a statement and sends its result, `limit` rows at most. Says how many those were, and
    /// whether there were more.
    pub(crate) async fn result(
        &self,
        sql: &str,
        rows: Rows,
        limit: u64,
    ) -> Result<(u64, bool), Stop> {
        let frame = self.session()?.sql_with_options(sql, read_only()).await?;
        if rows == Rows::Table {
            let table = table_of(frame.schema().as_arrow());
            self.send(Reply::Table(table)).await?;
        }
        let mut batches = frame.execute_stream().await?;
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
    ) -> Result<Option<RecordBatch>, Stop> {
        loop {
            match tokio::time::timeout(PROGRESS_EVERY, batches.next()).await {
                Ok(None) => return Ok(None),
                Ok(Some(batch)) => return Ok(Some(batch?)),
                Err(_) => {
                    let progress = self.scans.progress();
                    self.send(Reply::Progress(progress)).await?;
                }
            }
        }
    }

    async fn has_more(&self, batches: &mut SendableRecordBatchStream) -> Result<bool, Stop> {
        while let Some(batch) = self.next(batches).await? {
            if batch.num_rows() > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn show(&self, batch: &RecordBatch, rows: Rows) -> Result<(), Stop> {
        match rows {
            Rows::Table => {
                for row in rows_of(batch)? {
                    self.send(Reply::Row(row)).await?;
                }
            }
            Rows::Events => {
                let found: Vec<Event> = events(batch).collect();
                for event in found {
                    self.send(Reply::Event(Box::new(event))).await?;
                }
            }
        }
        Ok(())
    }
}
