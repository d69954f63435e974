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

use super::{Fault, Files};
use crate::snapshot::DataFile;

/// What reading has cost so far.
#[derive(Debug, Default)]
pub struct Meter {
    bytes: AtomicU64,
    rows: AtomicU64,
}

impl Meter {
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
pub(super) struct Handle {
    place: Place,
    /// Its size in bytes, as the commit has it.
    size: u64,
    meter: Arc<Meter>,
}

#[derive(Debug, Clone)]
enum Place {
    Local(Arc<File>),
    Remote(Arc<dyn ObjectStore>, Path),
}

impl Files {
    /// Opens a file.
    pub(super) async fn open(&self, file: &DataFile) -> Result<Handle, Fault> {
        let place = match self.folder.get() {
            Some(Some(folder)) => {
                let path = folder.join(file.location.as_ref());
                let opened = File::open(path).map_err(|error| Fault::local(&error))?;
                Place::Local(Arc::new(opened))
            }
            Some(None) => self.remote(file),
            None => self.first(file).await?,
        };
        Ok(Handle {
            place,
            size: file.entry.bytes,
            meter: Arc::clone(&self.meter),
        })
    }

    fn remote(&self, file: &DataFile) -> Place {
        Place::Remote(Arc::clone(&self.objects), file.location.clone())
    }

    /// The first file is asked for through the store: a local one answers with an open file and
    /// its path, which says where all the others are.
    async fn first(&self, file: &DataFile) -> Result<Place, Fault> {
        let got = self.objects.get(&file.location).await?;
        let GetResultPayload::File(opened, path) = got.payload else {
            self.folder.get_or_init(|| None);
            return Ok(self.remote(file));
        };
        if let Some(folder) = folder_of(path, file.location.as_ref()) {
            self.folder.get_or_init(|| Some(folder));
        }
        Ok(Place::Local(Arc::new(opened)))
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

impl Handle {
    /// Its size in bytes.
    pub(super) const fn size(&self) -> u64 {
        self.size
    }

    /// Whether single bytes are cheap to read.
    pub(super) const fn is_local(&self) -> bool {
        matches!(self.place, Place::Local(_))
    }

    /// One byte of a local file.
    pub(super) fn byte(&self, at: u64) -> Result<u8, Fault> {
        let Place::Local(file) = &self.place else {
            return Err(Fault::Unreachable("bytes are read from local files".into()));
        };
        let mut byte = [0];
        file.read_exact_at(&mut byte, at)
            .map_err(|error| Fault::local(&error))?;
        self.meter.add_bytes(1);
        Ok(byte[0])
    }

    /// The bytes of a range, all of them.
    pub(super) async fn read(&self, range: Range<u64>) -> Result<Bytes, Fault> {
        if range.start > range.end || range.end > self.size {
            return Err(Fault::damaged("it points outside of itself"));
        }
        self.meter.add_bytes(range.end - range.start);
        match &self.place {
            Place::Local(file) => {
                let length = usize::try_from(range.end - range.start).map_err(Fault::damaged)?;
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, range.start)
                    .map_err(|error| Fault::local(&error))?;
                Ok(bytes.into())
            }
            Place::Remote(objects, location) => match objects.get_range(location, range).await {
                Ok(bytes) => Ok(bytes),
                Err(error) => Err(self.remote_fault(error).await),
            },
        }
    }

    /// Stores say of a file that is too short the same as of a connection that broke.
    async fn remote_fault(&self, error: object_store::Error) -> Fault {
        let Place::Remote(objects, location) = &self.place else {
            return error.into();
        };
        match objects.head(location).await {
            Ok(meta) if meta.size != self.size => {
                let (size, expected) = (meta.size, self.size);
                Fault::damaged(format!(
                    "it has {size} bytes and was committed with {expected}"
                ))
            }
            _ => error.into(),
        }
    }

    async fn read_all(&self, ranges: Vec<Range<u64>>) -> Result<Vec<Bytes>, Fault> {
        if let Place::Remote(objects, location) = &self.place {
            if ranges.iter().any(|range| range.end > self.size) {
                return Err(Fault::damaged("it points outside of itself"));
            }
            let bytes = ranges.iter().map(|range| range.end - range.start).sum();
            self.meter.add_bytes(bytes);
            return match objects.get_ranges(location, &ranges).await {
                Ok(all) => Ok(all),
                Err(error) => Err(self.remote_fault(error).await),
            };
        }
        let mut all = Vec::with_capacity(ranges.len());
        for range in ranges {
            all.push(self.read(range).await?);
        }
        Ok(all)
    }
}

impl AsyncFileReader for Handle {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes, ParquetError>> {
        async move { Ok(self.read(range).await?) }.boxed()
    }

    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, Result<Vec<Bytes>, ParquetError>> {
        async move { Ok(self.read_all(ranges).await?) }.boxed()
    }

    /// Footers come from [`Footers`](super::Footers).
    fn get_metadata<'a>(
        &'a mut self,
        _: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>, ParquetError>> {
        let known = "the footer is read beforehand".to_owned();
        async move { Err(ParquetError::General(known)) }.boxed()
    }
}
