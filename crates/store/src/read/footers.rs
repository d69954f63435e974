//! Footers of files: what columns and row groups they have, and where. They are read when a query
//! first needs them, and kept.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures::FutureExt;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};

use super::handle::FileHandle;
use super::{DataFileReader, ReadError};
use crate::grams::{FilterLayout, METADATA_KEY};
use crate::schema::STORED;
use crate::snapshot::DataFile;

/// Bytes at the end of a file that are read at once: most footers are in them.
const END_BYTES: usize = 64 * 1024;

/// Bytes that a footer takes beside what Parquet knows of: the schema, the map's entry.
const FOOTER_BYTES: usize = 8 * 1024;

/// Footer of a file: its Parquet metadata, and the layout of its filters.
#[derive(Debug)]
pub(super) struct Footer {
    pub(super) parquet: ArrowReaderMetadata,
    /// Layout of the filters of its raw text; empty where it has none.
    pub(super) grams: FilterLayout,
}

impl Footer {
    pub(super) fn metadata(&self) -> &ParquetMetaData {
        self.parquet.metadata()
    }

    /// Rows of a row group.
    pub(super) fn rows(&self, group: usize) -> usize {
        let rows = self.metadata().row_group(group).num_rows();
        usize::try_from(rows).unwrap_or(0)
    }

    fn bytes(&self) -> usize {
        let blocks: usize = self.grams.groups.iter().map(Vec::len).sum();
        self.metadata().memory_size() + blocks * size_of::<(u64, u32)>() + FOOTER_BYTES
    }
}

/// Part of a footer that is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum FooterDetail {
    /// Row groups and columns.
    Groups,
    /// Also where each page lies, so that single rows can be read.
    Pages,
}

/// Footers that were read before. Those that were not needed for longest go first.
#[derive(Debug)]
pub struct FooterCache {
    bytes_max: usize,
    /// Taken for a look-up or an entry, never while something is read.
    kept: Mutex<FooterCacheState>,
}

#[derive(Debug, Default)]
struct FooterCacheState {
    /// By the address of the file's entry, which stays taken for as long as the weak link is here.
    footers: HashMap<(usize, FooterDetail), CachedFooter>,
    bytes: usize,
    /// Counts look-ups.
    clock: u64,
}

#[derive(Debug)]
struct CachedFooter {
    file: Weak<DataFile>,
    footer: Arc<Footer>,
    bytes: usize,
    used: u64,
}

impl FooterCache {
    /// Keeps footers of `bytes_max` bytes in all.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            kept: Mutex::default(),
        }
    }

    fn get(&self, file: &Arc<DataFile>, detail: FooterDetail) -> Option<Arc<Footer>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clock += 1;
        let clock = kept.clock;
        let entry = kept.footers.get_mut(&(address(file), detail))?;
        entry.used = clock;
        Some(Arc::clone(&entry.footer))
    }

    fn put(&self, file: &Arc<DataFile>, detail: FooterDetail, footer: &Arc<Footer>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = footer.bytes();
        let entry = CachedFooter {
            file: Arc::downgrade(file),
            footer: Arc::clone(footer),
            bytes,
            used: kept.clock,
        };
        let before = kept.footers.insert((address(file), detail), entry);
        kept.bytes += bytes;
        kept.bytes -= before.map_or(0, |entry| entry.bytes);
        if kept.bytes > self.bytes_max {
            kept.make_room(self.bytes_max / 4 * 3);
        }
    }
}

fn address(file: &Arc<DataFile>) -> usize {
    Arc::as_ptr(file).addr()
}

impl FooterCacheState {
    /// Lets go of files that are gone, then of what was not used for longest.
    fn make_room(&mut self, bytes_max: usize) {
        self.footers
            .retain(|_, entry| entry.file.strong_count() > 0);
        self.bytes = self.footers.values().map(|entry| entry.bytes).sum();
        let mut by_age: Vec<_> = self.footers.iter().map(|(k, e)| (e.used, *k)).collect();
        by_age.sort_unstable_by_key(|(used, _)| *used);
        for (_, key) in by_age {
            if self.bytes <= bytes_max {
                return;
            }
            let gone = self.footers.remove(&key);
            self.bytes -= gone.map_or(0, |entry| entry.bytes);
        }
    }
}

impl DataFileReader {
    /// The footer of a file, kept or read. With the handle that it took to read it.
    pub(super) async fn footer(
        &self,
        file: &Arc<DataFile>,
        detail: FooterDetail,
    ) -> Result<Arc<Footer>, ReadError> {
        if let Some(footer) = self.footers.get(file, detail) {
            return Ok(footer);
        }
        let handle = self.open(file).await?;
        // A decoder that panics is the file's doing.
        let read = AssertUnwindSafe(read(handle, detail)).catch_unwind().await;
        let footer = read.unwrap_or_else(|payload| Err(ReadError::panic(payload.as_ref())))?;
        check(&footer, file)?;
        let footer = Arc::new(footer);
        self.footers.put(file, detail, &footer);
        Ok(footer)
    }
}

async fn read(mut handle: FileHandle, detail: FooterDetail) -> Result<Footer, ReadError> {
    let pages = match detail {
        FooterDetail::Groups => PageIndexPolicy::Skip,
        FooterDetail::Pages => PageIndexPolicy::Optional,
    };
    let size = handle.size();
    let metadata = ParquetMetaDataReader::new()
        .with_prefetch_hint(Some(END_BYTES))
        .with_column_index_policy(PageIndexPolicy::Skip)
        .with_offset_index_policy(pages)
        .load_and_finish(&mut handle, size)
        .await?;
    // A layout that cannot be read rules nothing out.
    let grams = layout(&metadata).unwrap_or_default();
    let options = ArrowReaderOptions::new().with_schema(STORED.clone());
    let parquet = ArrowReaderMetadata::try_new(Arc::new(metadata), options)?;
    Ok(Footer { parquet, grams })
}

fn layout(metadata: &ParquetMetaData) -> Option<FilterLayout> {
    let pairs = metadata.file_metadata().key_value_metadata()?;
    let pair = pairs.iter().find(|pair| pair.key == METADATA_KEY)?;
    serde_json::from_str(pair.value.as_deref()?).ok()
}

/// A file that has not the rows that its commit speaks of is not the one that was committed.
fn check(footer: &Footer, file: &DataFile) -> Result<(), ReadError> {
    let groups = footer.metadata().row_groups();
    let mut rows = 0_u64;
    for group in groups {
        let count = u64::try_from(group.num_rows()).unwrap_or(u64::MAX);
        rows = rows.saturating_add(count);
    }
    if rows != file.entry.rows {
        let expected = file.entry.rows;
        return Err(ReadError::damaged(format!(
            "it has {rows} rows and was committed with {expected}"
        )));
    }
    Ok(())
}
