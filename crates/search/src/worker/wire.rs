//! Frames between a process and its workers: each a head and a body.
//!
//! ```text
//! u32 bytes of the head │ u32 bytes of the body │ head: JSON │ body: Arrow IPC, or nothing
//! ```
//! Numbers are little-endian. Both ends are the same program, so there are no versions.

use std::io::{self, Read, Write};
use std::ops::Range;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::ipc::reader::StreamReader;
use datafusion::arrow::ipc::writer::StreamWriter;
use inrush_store::StorageLocation;
use inrush_store::read::ReadError;
use inrush_store::reply::{SearchHit, SearchReply, TableCell, TableRow};
use inrush_store::snapshot::{DataFile, FileEntry};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Bytes of a head or a body at most: one that says more is none.
const PART_BYTES_MAX: u32 = 1 << 30;

/// Message to a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToWorker {
    /// A search.
    Task(Box<WorkerTask>),
    /// The rows that it asked for, in the body; or why there are none.
    Rows { id: u64, failed: Option<String> },
}

/// A search.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WorkerTask {
    pub(super) question: WireQuery,
    pub(super) reader: StorageLocation,
    pub(super) files: Vec<PlacedFile>,
    pub(super) tail: Vec<TailChunk>,
    pub(super) bounds: TaskBounds,
}

/// A file of the store.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PlacedFile {
    pub(super) entry: FileEntry,
    /// Place of the file, if not its path: its name could not be given to it.
    pub(super) place: Option<String>,
}

impl PlacedFile {
    pub(super) fn of(file: &DataFile) -> Self {
        let place = file.location.as_ref();
        Self {
            entry: file.entry.clone(),
            place: (place != file.entry.path).then(|| place.to_owned()),
        }
    }

    /// Its place below the store's folder.
    pub(super) fn place(&self) -> &str {
        self.place.as_ref().unwrap_or(&self.entry.path)
    }
}

/// Question of a search: a query, or an SQL statement.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum WireQuery {
    Search {
        query: String,
        from_ns: i64,
        to_ns: i64,
        limit: Option<u64>,
        buckets: u32,
        fields: bool,
        future: bool,
    },
    Sql {
        statement: String,
        limit: u64,
    },
}

/// Rows in the memory of the process that asks.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TailChunk {
    pub(super) rows: usize,
    pub(super) from_ns: i64,
    pub(super) to_ns: i64,
}

/// Bounds of a search: threads, priority, memory and time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct TaskBounds {
    pub(super) threads: usize,
    /// Distance of its priority below that of the worker.
    pub(super) nice: i32,
    /// Of the whole worker.
    pub(super) memory_bytes: usize,
    pub(super) time_ms: u64,
}

/// Message from a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromWorker {
    Event(Box<SearchHit>),
    Row(Vec<WireCell>),
    Reply(SearchReply),
    /// Rows of the tail are to be sent.
    Tail {
        id: u64,
        chunk: usize,
        columns: Vec<usize>,
        rows: Vec<Range<usize>>,
    },
    /// The last reply was sent, and nothing of the search runs any more.
    Done,
}

impl From<SearchReply> for FromWorker {
    fn from(reply: SearchReply) -> Self {
        match reply {
            SearchReply::Event(event) => Self::Event(event),
            SearchReply::Row(row) => {
                Self::Row(row.values.into_iter().map(WireCell::from).collect())
            }
            reply => Self::Reply(reply),
        }
    }
}

/// A value whose kind and last digit survive the way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum WireCell {
    N,
    B(bool),
    U(u64),
    S(i64),
    /// The bits of a number with a fraction.
    D(u64),
    T(String),
}

impl From<TableCell> for WireCell {
    fn from(cell: TableCell) -> Self {
        match cell {
            TableCell::Null => Self::N,
            TableCell::Bool(value) => Self::B(value),
            TableCell::Unsigned(value) => Self::U(value),
            TableCell::Signed(value) => Self::S(value),
            TableCell::Double(value) => Self::D(value.to_bits()),
            TableCell::Text(value) => Self::T(value),
        }
    }
}

impl From<WireCell> for TableCell {
    fn from(cell: WireCell) -> Self {
        match cell {
            WireCell::N => Self::Null,
            WireCell::B(value) => Self::Bool(value),
            WireCell::U(value) => Self::Unsigned(value),
            WireCell::S(value) => Self::Signed(value),
            WireCell::D(bits) => Self::Double(f64::from_bits(bits)),
            WireCell::T(value) => Self::Text(value),
        }
    }
}

/// The row of an answer.
pub(super) fn row(values: Vec<WireCell>) -> SearchReply {
    let values = values.into_iter().map(TableCell::from).collect();
    SearchReply::Row(TableRow { values })
}

/// Writes a frame.
pub(super) fn write(to: &mut impl Write, head: &impl Serialize, body: &[u8]) -> io::Result<()> {
    let head = serde_json::to_vec(head)?;
    for part in [head.len(), body.len()] {
        let length = u32::try_from(part).ok().filter(|n| *n <= PART_BYTES_MAX);
        let length = length.ok_or_else(|| io::Error::other("a frame is too long"))?;
        to.write_all(&length.to_le_bytes())?;
    }
    to.write_all(&head)?;
    to.write_all(body)
}

/// Reads a frame; none at the end.
pub(super) fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<(T, Vec<u8>)>> {
    let mut lengths = [0; 8];
    match from.read_exact(&mut lengths) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let [a, b, c, d, e, f, g, h] = lengths;
    let mut part = |length: u32| {
        if length > PART_BYTES_MAX {
            return Err(io::Error::other("a frame is too long"));
        }
        let mut bytes = vec![0; length as usize];
        from.read_exact(&mut bytes)?;
        Ok(bytes)
    };
    let head = part(u32::from_le_bytes([a, b, c, d]))?;
    let body = part(u32::from_le_bytes([e, f, g, h]))?;
    Ok(Some((serde_json::from_slice(&head)?, body)))
}

/// Rows as they go over the pipe.
pub(super) fn ipc(batch: &RecordBatch) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    let written = StreamWriter::try_new(&mut bytes, &batch.schema()).and_then(|mut writer| {
        writer.write(batch)?;
        writer.finish()
    });
    written.map_err(unreachable)?;
    Ok(bytes)
}

/// Rows as they came over the pipe.
pub(super) fn of_ipc(bytes: &[u8]) -> Result<RecordBatch, ReadError> {
    let mut batches = StreamReader::try_new(bytes, None).map_err(unreachable)?;
    let first = batches.next().ok_or_else(|| unreachable("no rows came"))?;
    first.map_err(unreachable)
}

fn unreachable(error: impl std::fmt::Display) -> ReadError {
    ReadError::Unreachable(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_to_the_last_digit() {
        let cells = [
            TableCell::Null,
            TableCell::Bool(true),
            TableCell::Unsigned(u64::MAX),
            TableCell::Signed(-1),
            TableCell::Double(0.1 + 0.2),
            TableCell::Double(100.0 / 3.0),
            TableCell::Text("a\nß".to_owned()),
        ];
        let values = cells.to_vec();
        let mut bytes = Vec::new();
        let said = FromWorker::from(SearchReply::Row(TableRow { values }));
        write(&mut bytes, &said, b"body").unwrap();
        let (read, body): (FromWorker, _) = read(&mut &bytes[..]).unwrap().unwrap();
        assert_eq!(body, b"body");
        let FromWorker::Row(read) = read else {
            panic!("{read:?}")
        };
        assert_eq!(row(read), row(cells.map(WireCell::from).to_vec()));
    }

    #[test]
    fn a_frame_that_is_none_is_an_error() {
        let long = [0xff; 16];
        assert!(read::<FromWorker>(&mut &long[..]).is_err());
        let cut = [9, 0, 0, 0, 0, 0, 0, 0, b'"'];
        assert!(read::<FromWorker>(&mut &cut[..]).is_err());
        assert!(read::<FromWorker>(&mut &[][..]).unwrap().is_none());
    }
}
