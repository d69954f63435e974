//! Files of the simulation: the events that they hold and a checksum, in place of Parquet, which a
//! million runs have no time for. Rows have the few columns that writing and mending look at.

use std::io;
use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampNanosecondType, UInt32Type, UInt64Type};
use arrow_array::{
    ArrayRef, RecordBatch, StringViewArray, TimestampNanosecondArray, UInt32Array, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use inrush_event::crc32c;

use crate::read::ReadError;
use crate::schema::{EPOCH, LOG, SEQ, time_type};
use crate::snapshot::Chunk;

const MAGIC: &[u8] = b"PLAIN\n";
/// Log, epoch, number, time of receipt.
const ROW_BYTES: usize = 8 + 4 + 8 + 8;

static COLUMNS: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        Field::new("time", time_type(), false),
        Field::new("received", time_type(), false),
        Field::new("index", DataType::Utf8View, false),
        Field::new("raw", DataType::Utf8View, false),
        Field::new(LOG, DataType::UInt64, false),
        Field::new(EPOCH, DataType::UInt32, false),
        Field::new(SEQ, DataType::UInt64, false),
    ]))
});

/// An event's log, epoch and number, and when it was received.
pub type PlainRow = (u64, u32, u64, i64);

/// The index of an event.
fn index(seq: u64) -> &'static str {
    ["main", "netfw"][(seq / 3 % 2) as usize]
}

fn batch(rows: &[PlainRow]) -> io::Result<RecordBatch> {
    let times = || {
        let times: Vec<i64> = rows.iter().map(|row| row.3).collect();
        Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC")) as ArrayRef
    };
    let text = |text: fn(&PlainRow) -> &'static str| {
        Arc::new(StringViewArray::from_iter_values(rows.iter().map(text))) as ArrayRef
    };
    let columns: Vec<ArrayRef> = vec![
        times(),
        times(),
        text(|row| index(row.2)),
        text(|_| "event"),
        Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.0))),
        Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.1))),
        Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.2))),
    ];
    RecordBatch::try_new(Arc::clone(&COLUMNS), columns).map_err(io::Error::other)
}

/// The rows of a batch of the simulation; nothing if it is of another kind.
pub fn rows_of(batch: &RecordBatch) -> Option<Vec<PlainRow>> {
    if batch.num_columns() != COLUMNS.fields().len() {
        return None;
    }
    let received = batch
        .column(1)
        .as_primitive_opt::<TimestampNanosecondType>()?;
    let log = batch.column(4).as_primitive_opt::<UInt64Type>()?;
    let epoch = batch.column(5).as_primitive_opt::<UInt32Type>()?;
    let seq = batch.column(6).as_primitive_opt::<UInt64Type>()?;
    let row = |at| {
        (
            log.value(at),
            epoch.value(at),
            seq.value(at),
            received.value(at),
        )
    };
    Some((0..batch.num_rows()).map(row).collect())
}

/// A chunk of these events.
pub(crate) fn chunk(rows: &[PlainRow]) -> io::Result<Chunk> {
    let times = || rows.iter().map(|row| row.3);
    Ok(Chunk {
        rows: batch(rows)?,
        from_ns: times().min().unwrap_or(0),
        to_ns: times().max().unwrap_or(0),
    })
}

/// The bytes of a file of these rows; nothing if they are of another kind.
pub(crate) fn encoded(batch: &RecordBatch) -> Option<Bytes> {
    let rows = rows_of(batch)?;
    let mut bytes = MAGIC.to_vec();
    for (log, epoch, seq, received) in rows {
        bytes.extend(log.to_le_bytes());
        bytes.extend(epoch.to_le_bytes());
        bytes.extend(seq.to_le_bytes());
        bytes.extend(received.to_le_bytes());
    }
    let sum = crc32c(&bytes);
    bytes.extend(sum.to_le_bytes());
    Some(bytes.into())
}

/// The events of a file; nothing if it is damaged or of another kind.
pub fn parse(bytes: &[u8]) -> Option<Vec<PlainRow>> {
    let (body, sum) = bytes.split_last_chunk::<4>()?;
    let rows = body.strip_prefix(MAGIC)?;
    if u32::from_le_bytes(*sum) != crc32c(body) || rows.len() % ROW_BYTES != 0 {
        return None;
    }
    let row = |row: &[u8]| {
        let (log, row) = row.split_first_chunk::<8>()?;
        let (epoch, row) = row.split_first_chunk::<4>()?;
        let (seq, row) = row.split_first_chunk::<8>()?;
        let (received, _) = row.split_first_chunk::<8>()?;
        Some((
            u64::from_le_bytes(*log),
            u32::from_le_bytes(*epoch),
            u64::from_le_bytes(*seq),
            i64::from_le_bytes(*received),
        ))
    };
    rows.chunks(ROW_BYTES).map(row).collect()
}

/// The rows of a file; nothing if it is Parquet.
pub(crate) fn decoded(bytes: &Bytes) -> Option<Result<Vec<RecordBatch>, ReadError>> {
    (!bytes.starts_with(b"PAR1")).then(|| {
        let rows =
            parse(bytes).ok_or_else(|| ReadError::Damaged("its checksum is wrong".to_owned()))?;
        batch(&rows)
            .map(|batch| vec![batch])
            .map_err(ReadError::damaged)
    })
}
