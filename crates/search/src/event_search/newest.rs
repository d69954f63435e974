//! The newest of the events that were found, until they are shown.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use inrush_store::read::{ColumnProjection, ReadError, SearchPiece, Selection};
use inrush_store::reply::{EVENT_COLUMNS, SearchHit, events};

use super::look::MatchedRows;
use crate::stop::SearchStop;
use crate::work::{PieceJob, PieceQueue};

/// Events that are read together to be shown.
const FETCHED_MAX: usize = 256;

/// An event that may be among the newest.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    time_ns: i64,
    row: usize,
    piece: Arc<(u64, SearchPiece)>,
}

/// The newest `limit` of what was found in a piece, the newest first.
pub(super) fn candidates(
    job: &PieceJob,
    found: &MatchedRows,
    floor: i64,
    limit: usize,
) -> Vec<Candidate> {
    let piece = Arc::new((job.number, job.piece.clone()));
    let times = found.times.iter().copied().zip(found.rows.iter().copied());
    let mut newest: Vec<(i64, usize)> = times.filter(|(time, _)| *time >= floor).collect();
    if !newest.is_sorted() {
        newest.sort_unstable();
    }
    let candidate = |(time_ns, row)| Candidate {
        time_ns,
        row,
        piece: Arc::clone(&piece),
    };
    newest
        .into_iter()
        .rev()
        .take(limit)
        .map(candidate)
        .collect()
}

/// The newest events that are not shown yet.
#[derive(Debug)]
pub(super) struct NewestEvents {
    /// The newest first.
    waiting: Vec<Candidate>,
    /// Events that are to be shown, those that wait included.
    left: usize,
    memory: MemoryReservation,
}

impl NewestEvents {
    pub(super) fn new(limit: usize, memory: MemoryReservation) -> Self {
        Self {
            waiting: Vec::new(),
            left: limit,
            memory,
        }
    }

    /// Adds what was found in a piece.
    pub(super) fn merge(&mut self, found: Vec<Candidate>) -> Result<()> {
        if found.is_empty() || self.left == 0 {
            return Ok(());
        }
        let both = self.waiting.len() + found.len();
        self.memory.try_resize(both * size_of::<Candidate>())?;
        let mut merged = Vec::with_capacity(both.min(self.left));
        let mut one = std::mem::take(&mut self.waiting).into_iter().peekable();
        let mut other = found.into_iter().peekable();
        while merged.len() < self.left {
            let first = match (one.peek(), other.peek()) {
                (Some(a), Some(b)) => a.time_ns >= b.time_ns,
                (Some(_), None) => true,
                (None, _) => false,
            };
            let next = if first { one.next() } else { other.next() };
            match next {
                Some(candidate) => merged.push(candidate),
                None => break,
            }
        }
        self.waiting = merged;
        Ok(())
    }

    /// The time before which nothing is needed any more; none while there is room.
    pub(super) fn floor(&self) -> Option<i64> {
        match self.waiting.last() {
            _ if self.left == 0 => Some(i64::MAX),
            Some(last) if self.waiting.len() == self.left => Some(last.time_ns),
            _ => None,
        }
    }

    /// Takes some of those out than which nothing unfinished can be newer, the newest first.
    pub(super) fn settled(&mut self, frontier: Option<i64>) -> Vec<Candidate> {
        let settled = |one: &&Candidate| frontier.is_none_or(|frontier| one.time_ns >= frontier);
        let count = self.waiting.iter().take_while(settled).count();
        let count = count.min(FETCHED_MAX);
        self.left -= count;
        self.waiting.drain(..count).collect()
    }
}

/// The events, in the order of the candidates.
pub(super) async fn fetch(
    work: &PieceQueue,
    candidates: &[Candidate],
) -> Result<Vec<SearchHit>, SearchStop> {
    let mut by_piece: BTreeMap<u64, Vec<(usize, usize)>> = BTreeMap::new();
    for (place, candidate) in candidates.iter().enumerate() {
        let rows = by_piece.entry(candidate.piece.0).or_default();
        rows.push((candidate.row, place));
    }
    let mut shown: Vec<Option<SearchHit>> = vec![None; candidates.len()];
    for mut rows in by_piece.into_values() {
        rows.sort_unstable();
        let piece = &candidates[rows[0].1].piece.1;
        match read(work, piece, &rows).await {
            Ok(found) => {
                for (event, (_, place)) in found.into_iter().zip(&rows) {
                    shown[*place] = Some(event);
                }
            }
            Err(ReadError::Damaged(why)) if piece.file().is_some() => {
                if let Some(file) = piece.file() {
                    work.set_aside(file, why);
                }
            }
            Err(fault) => return Err(fault.into()),
        }
    }
    Ok(shown.into_iter().flatten().collect())
}

async fn read(
    work: &PieceQueue,
    piece: &SearchPiece,
    rows: &[(usize, usize)],
) -> Result<Vec<SearchHit>, ReadError> {
    let selection = Selection::of(rows.iter().map(|(row, _)| *row));
    let columns = ColumnProjection::named(EVENT_COLUMNS);
    let mut batches = work.files.read(piece, &columns, Some(&selection)).await?;
    let mut found = Vec::with_capacity(rows.len());
    while let Some(batch) = batches.next().await {
        found.extend(events(&batch?));
    }
    Ok(found)
}
