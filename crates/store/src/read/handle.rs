//! The bytes of a file. On a local disk they are read where the query runs, by `pread`; from any
//! other store through `object_store`.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::path::Path;
use object_store::{GetResultPayload, ObjectStore, ObjectStoreExt};
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;

use super::{DataFileReader, ReadError};
use crate::decode::insist;
use crate::snapshot::DataFile;

/// Counters of bytes and events that reading has cost so far.
#[derive(Debug, Default)]
pub struct ReadMeter {
    bytes: AtomicU64,
    rows: AtomicU64,
}

impl ReadMeter {
    /// Bytes that were read from files, as they lie there.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Events that were looked at.
    pub fn rows(&self) -> u64 {
        self.rows.load(Relaxed)
    }

    /// Adds events that were looked at.
    pub fn add_rows(&self, rows: u64) {
        self.rows.fetch_add(rows, Relaxed);
    }

    fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }
}

/// An open file.
#[derive(Debug, Clone)]
pub(super) struct FileHandle {
    place: FileBackend,
    /// Its size in bytes, as the commit has it.
    size: u64,
    /// File of the store, with the checksums of its bytes from the commit.
    file: Arc<DataFile>,
    /// The block that single bytes were last read from, and where it begins.
    block: Option<(u64, Bytes)>,
    meter: Arc<ReadMeter>,
}

#[derive(Debug, Clone)]
enum FileBackend {
    Local(Arc<File>),
    Remote(Arc<dyn ObjectStore>, Path),
}

impl DataFileReader {
    /// Opens a file.
    pub(super) async fn open(&self, file: &Arc<DataFile>) -> Result<FileHandle, ReadError> {
        let place = match self.folder.get() {
            Some(Some(folder)) => {
                let path = folder.join(file.location.as_ref());
                let opened =
                    insist(|| File::open(&path)).map_err(|error| ReadError::local(&error))?;
                FileBackend::Local(Arc::new(opened))
            }
            Some(None) => self.remote(file),
            None => self.first(file).await?,
        };
        Ok(FileHandle {
            place,
            size: file.entry.bytes,
            file: Arc::clone(file),
            block: None,
            meter: Arc::clone(&self.meter),
        })
    }

    fn remote(&self, file: &DataFile) -> FileBackend {
        FileBackend::Remote(Arc::clone(&self.objects), file.location.clone())
    }

    /// The first file is asked for through the store: a local one answers with an open file and
    /// its path, which says where all the others are.
    async fn first(&self, file: &DataFile) -> Result<FileBackend, ReadError> {
        let got = self.objects.get(&file.location).await?;
        let GetResultPayload::File(opened, path) = got.payload else {
            self.folder.get_or_init(|| None);
            return Ok(self.remote(file));
        };
        if let Some(folder) = folder_of(path, file.location.as_ref()) {
            self.folder.get_or_init(|| Some(folder));
        }
        Ok(FileBackend::Local(Arc::new(opened)))
    }
}

/// The folder below which `path` is `location`.
fn folder_of(mut path: PathBuf, location: &str) -> Option<PathBuf> {
    if !path.ends_with(location) {
        return None;
    }
    for _ in location.split('/') {
        path.pop();
    }
    Some(path)
}

impl FileHandle {
    /// Its size in bytes.
    pub(super) const fn size(&self) -> u64 {
        self.size
    }

    /// True if single bytes are cheap to read.
    pub(super) const fn is_local(&self) -> bool {
        matches!(self.place, FileBackend::Local(_))
    }

    /// One byte of a local file.
    pub(super) fn byte(&mut self, at: u64) -> Result<u8, ReadError> {
        if let Some((begin, block)) = &self.block
            && let Some(byte) = at.checked_sub(*begin).and_then(|at| block.get(at as usize))
        {
            return Ok(*byte);
        }
        let FileBackend::Local(file) = &self.place else {
            return Err(ReadError::Unreachable(
                "bytes are read from local files".into(),
            ));
        };
        let around = self.file.entry.sums.around(&(at..at + 1), self.size);
        let block = self.local(file, around.clone())?;
        let byte = block.get((at - around.start) as usize).copied();
        self.block = Some((around.start, block));
        byte.ok_or_else(|| ReadError::damaged("it points outside of itself"))
    }

    /// The bytes of a range of blocks of a local file, checked.
    fn local(&self, file: &File, range: Range<u64>) -> Result<Bytes, ReadError> {
        let length = usize::try_from(range.end - range.start).map_err(ReadError::damaged)?;
        self.meter.add_bytes(range.end - range.start);
        let mut bytes = vec![0; length];
        insist(|| file.read_exact_at(&mut bytes, range.start))
            .map_err(|error| ReadError::local(&error))?;
        self.check(range.start, &bytes)?;
        Ok(bytes.into())
    }

    fn check(&self, begin: u64, bytes: &[u8]) -> Result<(), ReadError> {
        match self.file.entry.sums.broken(begin, bytes) {
            None => Ok(()),
            Some(at) => Err(ReadError::damaged(format!(
                "its bytes from {at} on are not what was written: their checksum is not right"
            ))),
        }
    }

    /// The bytes of a range, all of them, as they were written.
    pub(super) async fn read(&self, range: Range<u64>) -> Result<Bytes, ReadError> {
        let mut all = self.read_all(vec![range]).await?;
        all.pop()
            .ok_or_else(|| ReadError::damaged("it points outside of itself"))
    }

    /// Stores say of a file that is too short the same as of a connection that broke.
    async fn remote_fault(&self, error: object_store::Error) -> ReadError {
        let FileBackend::Remote(objects, location) = &self.place else {
            return error.into();
        };
        match objects.head(location).await {
            Ok(meta) if meta.size != self.size => {
                let (size, expected) = (meta.size, self.size);
                ReadError::damaged(format!(
                    "it has {size} bytes and was committed with {expected}"
                ))
            }
            _ => error.into(),
        }
    }

    async fn read_all(&self, ranges: Vec<Range<u64>>) -> Result<Vec<Bytes>, ReadError> {
        let outside = |range: &Range<u64>| range.start > range.end || range.end > self.size;
        if ranges.iter().any(outside) {
            return Err(ReadError::damaged("it points outside of itself"));
        }
        let sums = &self.file.entry.sums;
        let around = ranges.iter().map(|range| sums.around(range, self.size));
        let spans = joined(around.collect());
        let read = match &self.place {
            FileBackend::Local(file) => {
                let read = spans.iter().map(|blocks| self.local(file, blocks.clone()));
                read.collect::<Result<Vec<_>, _>>()?
            }
            FileBackend::Remote(objects, location) => {
                let bytes = spans.iter().map(|range| range.end - range.start).sum();
                self.meter.add_bytes(bytes);
                let read = match objects.get_ranges(location, &spans).await {
                    Ok(all) => all,
                    Err(error) => return Err(self.remote_fault(error).await),
                };
                for (range, bytes) in spans.iter().zip(&read) {
                    self.check(range.start, bytes)?;
                }
                read
            }
        };
        let cut = |wanted: &Range<u64>| {
            let at = spans.partition_point(|span| span.end < wanted.end);
            let (Some(span), Some(bytes)) = (spans.get(at), read.get(at)) else {
                return Err(ReadError::damaged("it is shorter than it was"));
            };
            let begin = usize::try_from(wanted.start - span.start).map_err(ReadError::damaged)?;
            let end = usize::try_from(wanted.end - span.start).map_err(ReadError::damaged)?;
            match end <= bytes.len() {
                true => Ok(bytes.slice(begin..end)),
                false => Err(ReadError::damaged("it is shorter than it was")),
            }
        };
        ranges.iter().map(cut).collect()
    }
}

/// The ranges in order, those that share bytes as one: columns side by side end and begin in the
/// same block, which is then read and checked once.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, last| {
        let shared = next.start < last.end;
        if shared {
            last.end = last.end.max(next.end);
        }
        shared
    });
    ranges
}

impl AsyncFileReader for FileHandle {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes, ParquetError>> {
        async move { Ok(self.read(range).await?) }.boxed()
    }

    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, Result<Vec<Bytes>, ParquetError>> {
        async move { Ok(self.read_all(ranges).await?) }.boxed()
    }

    /// Footers come from [`FooterCache`](super::Footers).
    fn get_metadata<'a>(
        &'a mut self,
        _: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>, ParquetError>> {
        let known = "the footer is read beforehand".to_owned();
        async move { Err(ParquetError::General(known)) }.boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_share_a_block_are_read_once() {
        let ranges = vec![64..96, 0..32, 32..64, 0..64, 96..96, 200..300, 250..260];
        assert_eq!(joined(ranges), [0..64, 64..96, 96..96, 200..300]);
        assert_eq!(joined(Vec::new()), []);
    }
}
