//! Pruning of pieces that cannot have what is wanted. Entries in commits rule out files. Least and
//! greatest values and bloom filters rule out row groups, and filters of raw text blocks of rows.

use std::ops::Range;
use std::sync::Arc;

use parquet::bloom_filter::Sbbf;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::statistics::Statistics;

use super::footers::{Footer, FooterDetail};
use super::handle::FileHandle;
use super::{DataFileReader, PruningFilter, ReadError, Selection};
use crate::grams::{BLOCK_ROWS, GramProbe};
use crate::snapshot::{Chunk, DataFile, FarChunk, Snapshot};
use inrush_query::EventColumn;

/// Columns of the file: `time` is the first.
const TIME: usize = 0;

/// Bytes of a filter that are looked at for a needle: by then the chance that none is missing is
/// nothing.
const PROBED_BYTES_MAX: usize = 48;

/// Bytes of a bloom filter at most; a longer one is not worth reading.
const BLOOM_BYTES_MAX: u64 = 1 << 20;

/// Rows that are read together.
#[derive(Debug, Clone)]
pub struct SearchPiece {
    /// No event in it is earlier, in nanoseconds since 1970.
    pub from_ns: i64,
    /// No event in it is later.
    pub to_ns: i64,
    /// Rows in it.
    pub rows: usize,
    /// Those of them that can have what is wanted but for the time; none for all.
    pub(super) some: Option<Arc<Selection>>,
    pub(super) place: PieceSource,
}

#[derive(Debug, Clone)]
pub(super) enum PieceSource {
    Group {
        file: Arc<DataFile>,
        footer: Arc<Footer>,
        group: usize,
    },
    Tail(Arc<Chunk>),
    Far(Arc<FarChunk>),
}

impl SearchPiece {
    /// The file that it is in, if it is in one.
    pub const fn file(&self) -> Option<&Arc<DataFile>> {
        match &self.place {
            PieceSource::Group { file, .. } => Some(file),
            PieceSource::Tail(_) | PieceSource::Far(_) => None,
        }
    }

    /// Rows of it that have to be looked at.
    pub fn rows_wanted(&self) -> usize {
        self.some.as_ref().map_or(self.rows, |some| some.rows())
    }

    /// The numbers of the rows that have to be looked at, in order.
    pub fn rows_to_read(&self) -> impl Iterator<Item = usize> + '_ {
        let some = self.some.as_deref().map(Selection::iter);
        let all = self.some.is_none().then_some(0..self.rows);
        some.into_iter().flatten().chain(all.into_iter().flatten())
    }

    /// A chunk of a tail in another process.
    fn of_far(chunk: &Arc<FarChunk>) -> Self {
        Self {
            from_ns: chunk.from_ns,
            to_ns: chunk.to_ns,
            rows: chunk.rows,
            some: None,
            place: PieceSource::Far(Arc::clone(chunk)),
        }
    }

    /// A chunk of the tail.
    fn of_tail(chunk: &Arc<Chunk>) -> Self {
        Self {
            from_ns: chunk.from_ns,
            to_ns: chunk.to_ns,
            rows: chunk.rows.num_rows(),
            some: None,
            place: PieceSource::Tail(Arc::clone(chunk)),
        }
    }
}

/// The files that can have what is wanted, going by their commits alone, and the pieces of the
/// tail.
pub fn candidates(
    snapshot: &Snapshot,
    wanted: &PruningFilter,
) -> (Vec<Arc<DataFile>>, Vec<SearchPiece>) {
    let can = |file: &&Arc<DataFile>| {
        let entry = &file.entry;
        !file.is_bad()
            && wanted.overlaps(entry.from_ns, entry.to_ns)
            && wanted.allows(EventColumn::Index, &entry.index)
    };
    let files = snapshot.files.iter().filter(can).cloned().collect();
    let tail = snapshot
        .tail
        .iter()
        .filter(|chunk| chunk.rows.num_rows() > 0 && wanted.overlaps(chunk.from_ns, chunk.to_ns))
        .map(SearchPiece::of_tail);
    let far = snapshot
        .far
        .iter()
        .filter(|chunk| chunk.rows > 0 && wanted.overlaps(chunk.from_ns, chunk.to_ns))
        .map(SearchPiece::of_far);
    let tail = tail.chain(far).collect();
    (files, tail)
}

impl DataFileReader {
    /// The pieces of a file that can have what is wanted.
    pub async fn pieces(
        &self,
        file: &Arc<DataFile>,
        wanted: &PruningFilter,
    ) -> Result<Vec<SearchPiece>, ReadError> {
        let footer = self.footer(file, FooterDetail::Groups).await?;
        let mut handle = None;
        let mut pieces = Vec::new();
        let probes = wanted.probes();
        for group in 0..footer.metadata().num_row_groups() {
            let Some(mut piece) = by_statistics(file, &footer, group, wanted) else {
                continue;
            };
            // Filters cost a read each: only where nothing cheaper has ruled the group out.
            if !wanted.is_time_only() {
                let handle = match &mut handle {
                    Some(handle) => handle,
                    none => none.insert(self.open(file).await?),
                };
                if !by_bloom_filters(handle, &footer, group, wanted).await? {
                    continue;
                }
                piece.some = by_grams(handle, &footer, group, &probes).await?;
                if piece.rows_wanted() == 0 {
                    continue;
                }
            }
            pieces.push(piece);
        }
        Ok(pieces)
    }
}

/// The row group, unless its least and greatest values rule it out.
fn by_statistics(
    file: &Arc<DataFile>,
    footer: &Arc<Footer>,
    group: usize,
    wanted: &PruningFilter,
) -> Option<SearchPiece> {
    let metadata = footer.metadata().row_group(group);
    let rows = footer.rows(group);
    let (from_ns, to_ns) = times(metadata).unwrap_or((file.entry.from_ns, file.entry.to_ns));
    if rows == 0 || !wanted.overlaps(from_ns, to_ns) || !values_allow(metadata, wanted) {
        return None;
    }
    Some(SearchPiece {
        from_ns,
        to_ns,
        rows,
        some: None,
        place: PieceSource::Group {
            file: Arc::clone(file),
            footer: Arc::clone(footer),
            group,
        },
    })
}

fn times(group: &RowGroupMetaData) -> Option<(i64, i64)> {
    match group.columns().get(TIME)?.statistics()? {
        Statistics::Int64(time) => Some((*time.min_opt()?, *time.max_opt()?)),
        _ => None,
    }
}

/// True if, for each wanted column, one of its values lies between the least and the greatest of
/// the row group.
fn values_allow(group: &RowGroupMetaData, wanted: &PruningFilter) -> bool {
    wanted.equals.iter().all(|(column, values)| {
        let statistics = column_of(group, *column).and_then(ColumnChunkMetaData::statistics);
        let Some(Statistics::ByteArray(known)) = statistics else {
            return !values.is_empty();
        };
        // Cut short, the least is less still and the greatest greater.
        let least = known.min_bytes_opt();
        let greatest = known.max_bytes_opt();
        values.iter().any(|value| {
            let value = value.as_bytes();
            least.is_none_or(|least| least <= value)
                && greatest.is_none_or(|greatest| value <= greatest)
        })
    })
}

fn column_of(group: &RowGroupMetaData, column: EventColumn) -> Option<&ColumnChunkMetaData> {
    let named = |chunk: &&ColumnChunkMetaData| {
        let parts = chunk.column_path().parts();
        parts.len() == 1 && parts[0] == column.name()
    };
    group.columns().iter().find(named)
}

/// True if no column's bloom filter rules out all of its wanted values.
async fn by_bloom_filters(
    handle: &FileHandle,
    footer: &Footer,
    group: usize,
    wanted: &PruningFilter,
) -> Result<bool, ReadError> {
    let group = footer.metadata().row_group(group);
    for (column, values) in &wanted.equals {
        let Some(range) = column_of(group, *column).and_then(bloom_range) else {
            continue;
        };
        let bytes = handle.read(range).await?;
        // One that cannot be read rules nothing out.
        let Ok(filter) = Sbbf::from_bytes(&bytes) else {
            continue;
        };
        if filter.num_blocks() > 0 && !values.iter().any(|v| filter.check(v.as_str())) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn bloom_range(chunk: &ColumnChunkMetaData) -> Option<Range<u64>> {
    let offset = u64::try_from(chunk.bloom_filter_offset()?).ok()?;
    let length = u64::try_from(chunk.bloom_filter_length()?).ok()?;
    let end = offset.checked_add(length)?;
    (length <= BLOOM_BYTES_MAX).then_some(offset..end)
}

/// The rows of those blocks that can contain all needles; none where that is all of them.
async fn by_grams(
    handle: &mut FileHandle,
    footer: &Footer,
    group: usize,
    probes: &[GramProbe],
) -> Result<Option<Arc<Selection>>, ReadError> {
    let (rows, Some(blocks)) = (footer.rows(group), footer.grams.groups.get(group)) else {
        return Ok(None);
    };
    if probes.is_empty() || blocks.len() != rows.div_ceil(BLOCK_ROWS) {
        return Ok(None);
    }
    let mut some = Selection::default();
    for (block, &(offset, length)) in blocks.iter().enumerate() {
        if may_contain(handle, offset, length, probes).await? {
            let first = block * BLOCK_ROWS;
            some.push(first..rows.min(first + BLOCK_ROWS));
        }
    }
    Ok((some.rows() < rows).then(|| Arc::new(some)))
}

async fn may_contain(
    handle: &mut FileHandle,
    offset: u64,
    length: u32,
    probes: &[GramProbe],
) -> Result<bool, ReadError> {
    let end = offset.saturating_add(u64::from(length));
    if end > handle.size() {
        return Ok(true);
    }
    if !handle.is_local() {
        let filter = handle.read(offset..end).await?;
        return Ok(probes.iter().all(|probe| probe.may_be_in(&filter)));
    }
    for probe in probes {
        for (at, bits) in probe.bytes(length).take(PROBED_BYTES_MAX) {
            if handle.byte(offset + u64::from(at))? & bits != bits {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
