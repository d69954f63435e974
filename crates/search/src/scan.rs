//! Every event that meets a query, with all that is kept of how it came: for those who read the
//! store to its end, such as a replay.
//!
//! There is no limit of time or rows, and nothing is sorted: files come one by one, the oldest
//! first, and within a file events as they lie. Memory holds a few batches of rows.

use std::sync::Arc;

use datafusion::arrow::array::cast::AsArray;
use datafusion::arrow::array::types::TimestampNanosecondType;
use datafusion::arrow::array::{Array, ArrayRef, RecordBatch};
use inrush_query::sql::{self, QueryRange};
use inrush_query::{self as query, Query};
use inrush_store::read::{
    ColumnProjection, PruningFilter, ReadError, SearchPiece, Selection, candidates,
};
use inrush_store::reply::{SearchError, SetAside};
use inrush_store::schema::{FIELDS, RAW_BASE64, TLS_CLIENT};
use inrush_store::snapshot::{DataFile, Snapshot};
use tokio::sync::mpsc;

use crate::answer::SearchAnswer;
use crate::engine::Engine;
use crate::event_search::condition::StagedFilter;
use crate::event_search::look::{PieceError, look};
use crate::run::RunningSearch;
use crate::stop::SearchStop;
use crate::turn::TimeSlice;
use crate::work::PieceQueue;

/// Batches of rows that were read and not yet taken.
const WAITING_MAX: usize = 2;

/// The columns that are read, in the order of [`StoredEvent`].
const COLUMNS: [&str; 13] = [
    "time",
    "received",
    "host",
    "source",
    "sourcetype",
    "index",
    "vendor",
    "product",
    "raw",
    "sender",
    "protocol",
    "anomalies",
    FIELDS,
];

/// An event as it is kept. What it does not have is empty.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StoredEvent {
    /// Its own time, in nanoseconds since 1970.
    pub time_ns: i64,
    /// Time of receipt, in nanoseconds since 1970.
    pub received_ns: i64,
    /// The host that it is about.
    pub host: String,
    /// The source that received it, by name.
    pub source: String,
    /// Its sourcetype.
    pub sourcetype: String,
    /// Its index.
    pub index: String,
    /// Maker of the product.
    pub vendor: String,
    /// The product.
    pub product: String,
    /// The record; where it was not UTF-8 it has U+FFFD.
    pub raw: String,
    /// The record as it was received, in base64, where it was not UTF-8.
    pub raw_base64: String,
    /// The sender's address.
    pub sender: String,
    /// Protocol by which it came.
    pub protocol: String,
    /// Anomalies of it, joined by commas.
    pub anomalies: String,
    /// The name in the client's certificate.
    pub tls_client: String,
}

/// Item of a scan: events, a file that is done or missing, or an early end.
#[derive(Debug)]
pub enum ScanOutput {
    /// Some events.
    Rows(Vec<StoredEvent>),
    /// A file is done with: how many are, and of how many.
    File(u64, u64),
    /// A file could not be read, or is gone: what it had left is missing.
    Missing(SetAside),
    /// It ended early.
    Failed(String),
}

/// A scan that runs; dropped, it ends.
#[derive(Debug)]
pub struct EventScan(mpsc::Receiver<ScanOutput>);

impl Iterator for EventScan {
    type Item = ScanOutput;

    fn next(&mut self) -> Option<ScanOutput> {
        self.0.blocking_recv()
    }
}

impl Engine {
    /// Reads every event of `snapshot` that meets `question` and is of `from_ns` to before `to_ns`,
    /// in nanoseconds since 1970. Not for asynchronous callers: [`EventScan`] blocks.
    ///
    /// # Errors
    /// The query cannot be read, or has functions.
    pub fn scan(
        &self,
        snapshot: Snapshot,
        question: &str,
        from_ns: i64,
        to_ns: i64,
    ) -> Result<EventScan, SearchError> {
        let query = query::parse(question)?;
        if !query.stages.is_empty() {
            let message = "events are wanted, not a table: leave out what follows |";
            return Err(SearchError {
                message: message.to_owned(),
                ..SearchError::default()
            });
        }
        let range = QueryRange {
            from_ns,
            to_ns,
            limit: u64::MAX,
        };
        let (replies, _nobody) = SearchAnswer::new();
        let run = RunningSearch::new(self.bounds(), snapshot, replies);
        let (out, rows) = mpsc::channel(WAITING_MAX);
        self.spawn(async move {
            let scanned = RunningScan::new(&run, &query, &range, &out);
            let ended = match scanned {
                Ok(scanning) => scanning.go().await,
                Err(stop) => Err(stop),
            };
            if let Err(SearchStop::Failed(failure)) = ended {
                // Whoever has gone wants no end.
                let _ = out.send(ScanOutput::Failed(failure.message)).await;
            }
        });
        Ok(EventScan(rows))
    }
}

struct RunningScan<'a> {
    work: Arc<PieceQueue>,
    condition: StagedFilter,
    columns: ColumnProjection,
    files: Vec<Arc<DataFile>>,
    tail: Vec<SearchPiece>,
    out: &'a mpsc::Sender<ScanOutput>,
}

impl<'a> RunningScan<'a> {
    fn new(
        run: &RunningSearch,
        query: &Query,
        range: &QueryRange,
        out: &'a mpsc::Sender<ScanOutput>,
    ) -> Result<Self, SearchStop> {
        let timeless = QueryRange {
            from_ns: i64::MIN,
            to_ns: i64::MAX,
            ..*range
        };
        let translation = sql::translate(query, &timeless);
        let wanted = PruningFilter::of(&translation, range);
        let (mut files, tail) = candidates(&run.snapshot, &wanted);
        files.sort_by_key(|file| (file.entry.from_ns, file.entry.to_ns));
        Ok(Self {
            condition: StagedFilter::new(&translation.predicate)?,
            work: PieceQueue::new(&run.snapshot, wanted, &run.bounds.footers),
            columns: ColumnProjection::named(COLUMNS),
            files,
            tail,
            out,
        })
    }

    async fn go(&self) -> Result<(), SearchStop> {
        let total = self.files.len() as u64;
        for (done, file) in (1..).zip(&self.files) {
            match self.file(file).await {
                Ok(()) => {}
                Err(PieceError::Fault(ReadError::Damaged(reason))) => {
                    file.set_bad();
                    let path = file.entry.path.clone();
                    self.say(ScanOutput::Missing(SetAside { path, reason }))
                        .await?;
                }
                Err(PieceError::Fault(fault)) => return Err(fault.into()),
                Err(PieceError::Stop(stop)) => return Err(stop),
            }
            self.say(ScanOutput::File(done, total)).await?;
        }
        for piece in &self.tail {
            match self.piece(piece).await {
                Ok(()) => {}
                Err(PieceError::Fault(fault)) => return Err(fault.into()),
                Err(PieceError::Stop(stop)) => return Err(stop),
            }
        }
        Ok(())
    }

    async fn file(&self, file: &Arc<DataFile>) -> Result<(), PieceError> {
        let mut pieces = self.work.files.pieces(file, &self.work.wanted).await?;
        pieces.sort_by_key(|piece| piece.from_ns);
        for piece in &pieces {
            self.piece(piece).await?;
        }
        Ok(())
    }

    async fn piece(&self, piece: &SearchPiece) -> Result<(), PieceError> {
        let mut turn = TimeSlice::new();
        let found = look(&self.work, &self.condition, piece, false, true, &mut turn).await?;
        if found.rows.is_empty() {
            return Ok(());
        }
        let selection = Selection::of(found.rows);
        let files = &self.work.files;
        let mut batches = files.read(piece, &self.columns, Some(&selection)).await?;
        while let Some(batch) = batches.next().await {
            let rows = rows_of(&batch?);
            self.say(ScanOutput::Rows(rows))
                .await
                .map_err(PieceError::Stop)?;
            turn.end_if_due().await;
        }
        Ok(())
    }

    async fn say(&self, what: ScanOutput) -> Result<(), SearchStop> {
        let said = self.out.send(what).await;
        said.map_err(|_| SearchStop::Bound(inrush_store::reply::StopReason::Cancelled))
    }
}

/// The value of a key in a map; empty if the row has none. Keys of senders have a dot, and those of
/// the store have none.
fn entry(column: &ArrayRef, key: &str, row: usize) -> String {
    let maps = column.as_map_opt().filter(|maps| maps.is_valid(row));
    let found = maps.and_then(|maps| {
        let entries = maps.value(row);
        let keys = entries.column(0).as_string_opt::<i32>()?;
        let values = entries.column(1).as_string_opt::<i32>()?;
        let at = keys.iter().position(|known| known == Some(key))?;
        Some(values.value(at).to_owned())
    });
    found.unwrap_or_default()
}

fn rows_of(batch: &RecordBatch) -> Vec<StoredEvent> {
    let text = |at: usize, row: usize| {
        let column = batch.column(at);
        let texts = column.as_string_view_opt().filter(|_| column.is_valid(row));
        texts.map_or_else(String::new, |texts| texts.value(row).to_owned())
    };
    let time = |at: usize, row: usize| {
        let times = batch
            .column(at)
            .as_primitive_opt::<TimestampNanosecondType>();
        times.map_or(0, |times| times.value(row))
    };
    let row = |row| StoredEvent {
        time_ns: time(0, row),
        received_ns: time(1, row),
        host: text(2, row),
        source: text(3, row),
        sourcetype: text(4, row),
        index: text(5, row),
        vendor: text(6, row),
        product: text(7, row),
        raw: text(8, row),
        sender: text(9, row),
        protocol: text(10, row),
        raw_base64: entry(batch.column(12), RAW_BASE64, row),
        anomalies: text(11, row),
        tls_client: entry(batch.column(12), TLS_CLIENT, row),
    };
    (0..batch.num_rows()).map(row).collect()
}
