//! Whole files, for those who merge, rebuild or export: readers of searches are in
//! [`read`](crate::read).

use std::io;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow_array::RecordBatch;
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};

use crate::home::DurableStorage;
use crate::read::ReadError;
use crate::snapshot::FileEntry;

const BATCH_ROWS: usize = 8192;
/// A file of ours has so many bytes at most; what is larger is none.
pub(crate) const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// The bytes of a committed file that lies at `place`, as they were written.
///
/// # Errors
/// [`ReadError::Damaged`]: they are not, or it is not there.
pub(crate) fn bytes(
    home: &DurableStorage,
    place: &str,
    entry: &FileEntry,
) -> Result<Bytes, ReadError> {
    let bytes = insist(|| home.get(place, entry.bytes.max(1)));
    let bytes = bytes.map_err(|error| ReadError::local(&error))?;
    if bytes.len() as u64 != entry.bytes {
        let (found, committed) = (bytes.len(), entry.bytes);
        return Err(ReadError::Damaged(format!(
            "it has {found} bytes and was committed with {committed}"
        )));
    }
    match entry.sums.broken(0, &bytes) {
        None => Ok(bytes),
        Some(at) => Err(ReadError::Damaged(format!(
            "its bytes from {at} on are not what was written: their checksum is not right"
        ))),
    }
}

/// Asks again a few times where a disk says that it cannot read: one that stumbles once must not
/// make a file look damaged.
pub(crate) fn insist<T>(mut ask: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    const TRIES: usize = 3;
    const EIO: i32 = 5;
    for _ in 1..TRIES {
        match ask() {
            Err(error) if error.raw_os_error() == Some(EIO) => {}
            answer => return answer,
        }
    }
    ask()
}

/// All rows of a file.
///
/// # Errors
/// [`ReadError::Damaged`]: it is no Parquet file, or cannot be decoded.
pub(crate) fn rows(bytes: Bytes) -> Result<Vec<RecordBatch>, ReadError> {
    #[cfg(feature = "simulation")]
    if let Some(rows) = crate::plain::decoded(&bytes) {
        return rows;
    }
    guarded(move || {
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes)?.with_batch_size(BATCH_ROWS);
        Ok(reader.build()?.collect::<Result<Vec<_>, _>>()?)
    })
}

/// A row group.
pub(crate) struct RowGroup {
    /// Byte range of its columns in the file.
    pub(crate) bytes: Range<u64>,
    /// Rows that its footer speaks of.
    pub(crate) count: u64,
    pub(crate) rows: Result<Vec<RecordBatch>, ReadError>,
}

/// Each row group, as far as it can be decoded.
///
/// # Errors
/// There is no footer, so nothing is known of them.
pub(crate) fn groups(bytes: &Bytes) -> Result<Vec<RowGroup>, ReadError> {
    let whole = bytes.clone();
    let metadata = guarded(move || {
        let reader = ParquetRecordBatchReaderBuilder::try_new(whole)?;
        Ok(Arc::clone(reader.metadata()))
    })?;
    let group = |(number, group): (usize, &RowGroupMetaData)| {
        let bytes = bytes.clone();
        let rows = guarded(move || {
            let reader = ParquetRecordBatchReaderBuilder::try_new(bytes)?
                .with_row_groups(vec![number])
                .with_batch_size(BATCH_ROWS);
            Ok(reader.build()?.collect::<Result<Vec<_>, _>>()?)
        });
        let places = || group.columns().iter().map(ColumnChunkMetaData::byte_range);
        let begin = places().map(|(begin, _)| begin).min().unwrap_or(0);
        let end = places()
            .map(|(begin, length)| begin.saturating_add(length))
            .max();
        RowGroup {
            bytes: begin..end.unwrap_or(begin),
            count: u64::try_from(group.num_rows()).unwrap_or(0),
            rows,
        }
    };
    // A footer that lies about places makes the parts of it panic.
    guarded(|| {
        Ok(metadata
            .row_groups()
            .iter()
            .enumerate()
            .map(group)
            .collect())
    })
}

/// Runs a decoder, and returns its panic as a fault. Bytes on a disk may be anything: a decoder
/// that trusts them too far must cost a file, not the process.
fn guarded<T>(decode: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ReadError> {
    match std::panic::catch_unwind(AssertUnwindSafe(decode)) {
        Ok(decoded) => decoded.map_err(ReadError::from),
        Err(payload) => Err(ReadError::panic(payload.as_ref())),
    }
}

impl From<ReadError> for io::Error {
    fn from(fault: ReadError) -> Self {
        let kind = match fault {
            ReadError::Damaged(_) => io::ErrorKind::InvalidData,
            ReadError::Unreachable(_) => io::ErrorKind::Other,
        };
        Self::new(kind, fault)
    }
}
