//! Looking through a piece: which of its rows meet the condition.

use datafusion::arrow::array::cast::AsArray;
use datafusion::arrow::array::types::TimestampNanosecondType;
use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::error::DataFusionError;
use inrush_store::read::{ReadError, SearchPiece, Selection};

use super::condition::{FilterStage, StagedFilter};
use crate::stop::SearchStop;
use crate::turn::TimeSlice;
use crate::work::PieceQueue;

/// Rows of a piece that meet the condition.
#[derive(Debug, Default)]
pub(crate) struct MatchedRows {
    /// Number of rows that meet the condition.
    pub(crate) count: u64,
    /// Their numbers, in order, if they were asked for or had to be found out.
    pub(crate) rows: Vec<usize>,
    /// Their times, if those were asked for.
    pub(crate) times: Vec<i64>,
}

/// Reason for which a piece was not looked through to its end.
#[derive(Debug)]
pub(crate) enum PieceError {
    /// It could not be read.
    Fault(ReadError),
    /// The search is over.
    Stop(SearchStop),
}

impl From<ReadError> for PieceError {
    fn from(fault: ReadError) -> Self {
        Self::Fault(fault)
    }
}

impl From<DataFusionError> for PieceError {
    fn from(error: DataFusionError) -> Self {
        Self::Stop(error.into())
    }
}

/// The rows of a piece that meet the condition: how many, and if asked for their times and numbers.
pub(crate) async fn look(
    work: &PieceQueue,
    condition: &StagedFilter,
    piece: &SearchPiece,
    times: bool,
    rows: bool,
    turn: &mut TimeSlice,
) -> Result<MatchedRows, PieceError> {
    let covered = work.wanted.covers(piece.from_ns, piece.to_ns);
    if condition.is_empty() && covered && !times {
        // Nothing has to be read.
        return Ok(MatchedRows {
            count: piece.rows as u64,
            rows: if rows {
                (0..piece.rows).collect()
            } else {
                Vec::new()
            },
            times: Vec::new(),
        });
    }
    let mut looking = PieceMatcher {
        work,
        piece,
        check_time: !covered,
        times,
        turn,
        found: MatchedRows::default(),
    };
    for (number, stage) in condition.stages.iter().enumerate() {
        if number == 0 {
            looking.first(stage).await?;
        } else {
            looking.narrow(stage).await?;
        }
    }
    work.meter.add_rows(piece.rows_wanted() as u64);
    let mut found = looking.found;
    found.count = found.rows.len() as u64;
    Ok(found)
}

struct PieceMatcher<'a> {
    work: &'a PieceQueue,
    piece: &'a SearchPiece,
    /// True if some of the rows may be outside of the time.
    check_time: bool,
    times: bool,
    turn: &'a mut TimeSlice,
    found: MatchedRows,
}

impl PieceMatcher<'_> {
    /// All rows that can have what is wanted.
    async fn first(&mut self, stage: &FilterStage) -> Result<(), PieceError> {
        let mut rows = self.piece.rows_to_read();
        if !self.check_time && !self.times && stage.is_empty() {
            self.found.rows = rows.collect();
            return Ok(());
        }
        let read = self.work.files.read(self.piece, &stage.columns, None);
        let mut batches = read.await?;
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            let met = stage.met_by(&batch)?;
            let times = times_of(&batch)?;
            for (at, time) in times.iter().enumerate() {
                let row = rows.next().ok_or_else(too_many)?;
                let within = !self.check_time || self.work.wanted.has(*time);
                if within && met.as_ref().is_none_or(|met| met.value(at)) {
                    self.found.rows.push(row);
                    if self.times {
                        self.found.times.push(*time);
                    }
                }
            }
            self.turn.end_if_due().await;
        }
        whole(rows.next())
    }

    /// Of the rows that are left, those that meet the stage.
    async fn narrow(&mut self, stage: &FilterStage) -> Result<(), PieceError> {
        if self.found.rows.is_empty() {
            return Ok(());
        }
        let selection = Selection::of(self.found.rows.iter().copied());
        let read = self
            .work
            .files
            .read(self.piece, &stage.columns, Some(&selection));
        let mut batches = read.await?;
        // Those that are kept move to the front.
        let (mut at, mut kept) = (0, 0);
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            if at + batch.num_rows() > self.found.rows.len() {
                return Err(too_many().into());
            }
            let met = stage.met_by(&batch)?;
            for row in 0..batch.num_rows() {
                if met.as_ref().is_none_or(|met| met.value(row)) {
                    self.found.rows[kept] = self.found.rows[at + row];
                    if self.times {
                        self.found.times[kept] = self.found.times[at + row];
                    }
                    kept += 1;
                }
            }
            at += batch.num_rows();
            self.turn.end_if_due().await;
        }
        whole((at < self.found.rows.len()).then_some(at))?;
        self.found.rows.truncate(kept);
        self.found.times.truncate(kept);
        Ok(())
    }
}

/// The first column, in nanoseconds since 1970.
fn times_of(batch: &RecordBatch) -> Result<&[i64], ReadError> {
    let times = batch
        .column(0)
        .as_primitive_opt::<TimestampNanosecondType>();
    let times = times.filter(|times| times.null_count() == 0);
    let damaged = || ReadError::Damaged("its times are none".to_owned());
    Ok(times.ok_or_else(damaged)?.values())
}

fn too_many() -> ReadError {
    ReadError::Damaged("it has more rows than it says".to_owned())
}

/// Checks that no row is missing.
fn whole(missing: Option<usize>) -> Result<(), PieceError> {
    match missing {
        None => Ok(()),
        Some(row) => Err(ReadError::Damaged(format!("row {row} of a row group is missing")).into()),
    }
}
