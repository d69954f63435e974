//! Snapshot of the store at one moment: files, and the tail that is in no file yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use arrow_array::RecordBatch;
use futures::future::BoxFuture;
use object_store::ObjectStore;
use object_store::path::Path;
use serde::{Deserialize, Serialize};

use crate::read::{ReadError, Selection};
use crate::sums::FileChecksums;

/// A Parquet file that a commit has made part of the store.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileEntry {
    /// Its place below the store's folder, `/` between parts.
    pub path: String,
    /// The index that all its events are in.
    pub index: String,
    /// Events in it.
    pub rows: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// Bytes of raw text in it, before compression.
    pub text_bytes: u64,
    /// The least `time` in it, in nanoseconds since 1970.
    pub from_ns: i64,
    /// The greatest `time` in it, in nanoseconds since 1970.
    pub to_ns: i64,
    /// The greatest `received` in it, in nanoseconds since 1970: what retention by age goes by.
    pub received_ns: i64,
    /// Checksums of its bytes.
    #[serde(default, skip_serializing_if = "FileChecksums::is_empty")]
    pub sums: FileChecksums,
}

/// A file of the store. While somebody holds it, it is not deleted.
#[derive(Debug)]
pub struct DataFile {
    /// Entry of the file in its commit.
    pub entry: FileEntry,
    /// Path of the file in the object store.
    pub location: Path,
    bad: AtomicBool,
}

impl DataFile {
    /// A file that was committed.
    pub fn new(entry: FileEntry, location: Path) -> Self {
        Self {
            entry,
            location,
            bad: AtomicBool::new(false),
        }
    }

    /// True if it could not be read before: it is passed over.
    pub fn is_bad(&self) -> bool {
        self.bad.load(Relaxed)
    }

    /// Takes note that it cannot be read; says whether that is news.
    pub fn set_bad(&self) -> bool {
        !self.bad.swap(true, Relaxed)
    }
}

/// Events that are in no file yet.
#[derive(Debug)]
pub struct Chunk {
    /// The events, with the columns of [`STORED`](crate::schema::STORED), in the order of arrival.
    pub rows: RecordBatch,
    /// The least `time` in it, in nanoseconds since 1970.
    pub from_ns: i64,
    /// The greatest `time` in it, in nanoseconds since 1970.
    pub to_ns: i64,
}

/// Events of a tail that lie in the memory of another process: rows are asked for when they are
/// read.
#[derive(Clone, Debug)]
pub struct FarChunk {
    /// Its number among those of its snapshot.
    pub number: usize,
    /// Events in it.
    pub rows: usize,
    /// The least `time` in it, in nanoseconds since 1970.
    pub from_ns: i64,
    /// The greatest `time` in it, in nanoseconds since 1970.
    pub to_ns: i64,
    /// Process that has the rows.
    pub source: Arc<dyn FarRows>,
}

/// A process that has the rows of [`FarChunk`]s.
pub trait FarRows: std::fmt::Debug + Send + Sync {
    /// Asks for `columns` (numbers in [`STORED`](crate::schema::STORED), in order) of `rows` of a
    /// chunk. At least the first of the rows comes, as far as a reply has room.
    fn ask(
        &self,
        chunk: usize,
        columns: &[usize],
        rows: &Selection,
    ) -> BoxFuture<'static, Result<RecordBatch, ReadError>>;
}

/// Files and tail of the store at one moment. Every event that the store had is in it once.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Object store that holds the files.
    pub storage: Arc<dyn ObjectStore>,
    /// The files, in no order.
    pub files: Arc<[Arc<DataFile>]>,
    /// Chunks of events that are in no file yet, the oldest first.
    pub tail: Arc<[Arc<Chunk>]>,
    /// Chunks of events that are in no file yet and in another process. A snapshot has these or a
    /// tail.
    pub far: Arc<[Arc<FarChunk>]>,
}
