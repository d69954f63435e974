//! From rows to Parquet files: sorted by time, one file for each index and hour.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{Array, RecordBatch, StringViewArray};
use arrow_select::interleave::interleave_record_batch;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;

use crate::grams::{self, BLOCK_ROWS, FilterBuilder, FilterLayout};
use crate::place::{self, Hour};
use crate::schema::{EPOCH, FIELDS, LOG, MESSAGE_AT, SEQ, STORED};
use crate::snapshot::FileEntry;
use crate::sums::FileChecksums;

/// Rows of a row group: sixteen blocks. Some 40 MB of text are decoded for a row group at most.
pub(crate) const GROUP_ROWS: usize = 16 * BLOCK_ROWS;

/// Distinct values that a bloom filter is made for: 2.5 KiB and 640 B a row group.
const HOSTS: u64 = 2048;
const SOURCES: u64 = 512;

/// A file before it has a name.
pub(crate) struct Encoded {
    /// All but its name: the path is its folder yet.
    pub(crate) entry: FileEntry,
    pub(crate) bytes: Bytes,
}

/// Rows from which on a file's short columns are compressed. The writer makes a compressor and a
/// decompressor for each column, and a reader does; below, that costs more than the rows do. Such a
/// file is compressed when it is merged.
const COMPRESSED_ROWS: usize = BLOCK_ROWS;

/// Measured: 1.8 µs and 81 B an event; level 3 takes 3.2 µs and saves nothing.
static ZSTD: LazyLock<Compression> = LazyLock::new(|| Compression::ZSTD(ZstdLevel::default()));
static PROPERTIES: LazyLock<WriterProperties> = LazyLock::new(|| properties(*ZSTD));
static SMALL: LazyLock<WriterProperties> = LazyLock::new(|| properties(Compression::UNCOMPRESSED));

/// Properties of a file whose columns of short values are so compressed.
fn properties(short_columns: Compression) -> WriterProperties {
    let column = ColumnPath::from;
    let field = |part: &str| ColumnPath::new(vec![FIELDS.into(), "entries".into(), part.into()]);
    let mut made = WriterProperties::builder()
        .set_created_by(format!("inrush {}", env!("CARGO_PKG_VERSION")))
        .set_compression(short_columns)
        .set_column_compression(column("raw"), *ZSTD)
        .set_column_compression(field("value"), *ZSTD)
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_data_page_row_count_limit(BLOCK_ROWS)
        .set_data_page_size_limit(16 * 1024 * 1024)
        .set_column_dictionary_enabled(column("raw"), false)
        .set_column_encoding(column("raw"), Encoding::PLAIN)
        .set_column_statistics_enabled(column("raw"), EnabledStatistics::None)
        .set_sorting_columns(Some(vec![SortingColumn {
            column_idx: 0,
            descending: false,
            nulls_first: false,
        }]));
    for ascending in ["time", "received", SEQ] {
        made = made
            .set_column_dictionary_enabled(column(ascending), false)
            .set_column_encoding(column(ascending), Encoding::DELTA_BINARY_PACKED);
    }
    for (name, values) in [
        ("host", HOSTS),
        ("source", SOURCES),
        ("sourcetype", SOURCES),
    ] {
        made = made
            .set_column_bloom_filter_enabled(column(name), true)
            .set_column_bloom_filter_max_ndv(column(name), values);
    }
    for name in [
        MESSAGE_AT,
        "app",
        "proc_id",
        "msg_id",
        "anomalies",
        LOG,
        EPOCH,
    ] {
        made = made.set_column_statistics_enabled(column(name), EnabledStatistics::Chunk);
    }
    for part in ["key", "value"] {
        made = made.set_column_statistics_enabled(field(part), EnabledStatistics::None);
    }
    made.build()
}

/// The files of these rows, which are in any order.
///
/// # Errors
/// Arrow or Parquet refuses what this process made: a fault of ours.
pub(crate) fn files(chunks: &[RecordBatch]) -> io::Result<Vec<Encoded>> {
    let parts = partition(chunks);
    parts.iter().map(|part| file(chunks, part)).collect()
}

struct PartitionRows {
    index: String,
    hour: Hour,
    /// The rows, each by its chunk and its place in it, in the order of their times.
    rows: Vec<(u32, u32)>,
}

fn times<'a>(rows: &'a RecordBatch, column: &str) -> &'a [i64] {
    match rows.column_by_name(column) {
        Some(column) => column.as_primitive::<TimestampNanosecondType>().values(),
        None => &[],
    }
}

fn texts<'a>(rows: &'a RecordBatch, column: &str) -> Option<&'a StringViewArray> {
    rows.column_by_name(column)?.as_string_view_opt()
}

fn partition(chunks: &[RecordBatch]) -> Vec<PartitionRows> {
    let mut parts: Vec<PartitionRows> = Vec::new();
    let mut known: HashMap<(&str, Hour), usize> = HashMap::new();
    let mut last: Option<((&str, Hour), usize)> = None;
    for (number, chunk) in chunks.iter().enumerate() {
        let (time, received) = (times(chunk, "time"), times(chunk, "received"));
        let Some(index) = texts(chunk, "index") else {
            continue;
        };
        for (row, (time, received)) in time.iter().zip(received).enumerate() {
            let key = (index.value(row), Hour::of(*time, *received));
            let at = match last {
                Some((same, at)) if same == key => at,
                _ => *known.entry(key).or_insert_with(|| {
                    parts.push(PartitionRows {
                        index: key.0.to_owned(),
                        hour: key.1,
                        rows: Vec::new(),
                    });
                    parts.len() - 1
                }),
            };
            last = Some((key, at));
            parts[at].rows.push((number as u32, row as u32));
        }
    }
    let times: Vec<&[i64]> = chunks.iter().map(|chunk| times(chunk, "time")).collect();
    for part in &mut parts {
        // Stable: events of one time stay in the order of their arrival.
        part.rows
            .sort_by_key(|(chunk, row)| times[*chunk as usize][*row as usize]);
    }
    parts
}

fn file(chunks: &[RecordBatch], part: &PartitionRows) -> io::Result<Encoded> {
    #[cfg(feature = "simulation")]
    if let Some(file) = plain_file(chunks, part)? {
        return Ok(file);
    }
    let broken = |error: ParquetError| io::Error::other(error);
    let properties = match part.rows.len() < COMPRESSED_ROWS {
        true => &*SMALL,
        false => &*PROPERTIES,
    };
    let (mut writer, columns) =
        ArrowWriter::try_new(Vec::new(), Arc::clone(&STORED), Some(properties.clone()))
            .and_then(ArrowWriter::into_serialized_writer)
            .map_err(broken)?;
    let mut layout = FilterLayout::default();
    let mut entry = begun(part);
    let mut grams = FilterBuilder::default();
    let mut filters = Vec::new();
    let chunks: Vec<&RecordBatch> = chunks.iter().collect();
    for rows in part.rows.chunks(GROUP_ROWS) {
        let place = |(chunk, row): &(u32, u32)| (*chunk as usize, *row as usize);
        let places: Vec<_> = rows.iter().map(place).collect();
        let group = interleave_record_batch(&chunks, &places).map_err(io::Error::other)?;
        write_group(&mut writer, &columns, layout.groups.len(), &group).map_err(broken)?;
        measure(&mut entry, &group);
        layout.groups.push(filter(&group, &mut grams, &mut filters));
    }
    let begin = writer.bytes_written() as u64;
    writer.write_all(&filters)?;
    for (offset, _) in layout.groups.iter_mut().flatten() {
        *offset += begin;
    }
    let layout = serde_json::to_string(&layout)?;
    writer.append_key_value_metadata(KeyValue::new(grams::METADATA_KEY.to_owned(), layout));
    let bytes = writer.into_inner().map_err(broken)?;
    entry.bytes = bytes.len() as u64;
    entry.sums = FileChecksums::of(&bytes);
    Ok(Encoded {
        entry,
        bytes: bytes.into(),
    })
}

/// Writes row group `number`, one column after the other: each has a compressor and pages of its
/// own, and those of all columns at once took 10 MiB.
fn write_group(
    writer: &mut SerializedFileWriter<Vec<u8>>,
    columns: &ArrowRowGroupWriterFactory,
    number: usize,
    group: &RecordBatch,
) -> Result<(), ParquetError> {
    let mut encoders = columns.create_column_writers(number)?.into_iter();
    let mut row_group = writer.next_row_group()?;
    for (field, array) in group.schema().fields().iter().zip(group.columns()) {
        for (leaf, mut encoder) in compute_leaves(field, array)?.iter().zip(&mut encoders) {
            encoder.write(leaf)?;
            encoder.close()?.append_to_row_group(&mut row_group)?;
        }
    }
    row_group.close()?;
    Ok(())
}

/// The entry of a file before its rows are looked at.
fn begun(part: &PartitionRows) -> FileEntry {
    FileEntry {
        path: place::folder(&part.index, part.hour),
        index: part.index.clone(),
        rows: part.rows.len() as u64,
        bytes: 0,
        text_bytes: 0,
        from_ns: i64::MAX,
        to_ns: i64::MIN,
        received_ns: i64::MIN,
        sums: FileChecksums::default(),
    }
}

/// A file of the simulation's rows; nothing if they are of another kind.
#[cfg(feature = "simulation")]
fn plain_file(chunks: &[RecordBatch], part: &PartitionRows) -> io::Result<Option<Encoded>> {
    let chunks: Vec<&RecordBatch> = chunks.iter().collect();
    if chunks
        .iter()
        .any(|chunk| chunk.num_columns() == STORED.fields().len())
    {
        return Ok(None);
    }
    let place = |(chunk, row): &(u32, u32)| (*chunk as usize, *row as usize);
    let places: Vec<_> = part.rows.iter().map(place).collect();
    let rows = interleave_record_batch(&chunks, &places).map_err(io::Error::other)?;
    let mut entry = begun(part);
    measure(&mut entry, &rows);
    Ok(crate::plain::encoded(&rows).map(|bytes| {
        entry.bytes = bytes.len() as u64;
        entry.sums = FileChecksums::of(&bytes);
        Encoded { entry, bytes }
    }))
}

/// Takes the rows of a group into what is said of the file.
fn measure(entry: &mut FileEntry, group: &RecordBatch) {
    let time = times(group, "time");
    entry.from_ns = entry.from_ns.min(time.first().copied().unwrap_or(i64::MAX));
    entry.to_ns = entry.to_ns.max(time.last().copied().unwrap_or(i64::MIN));
    let received = times(group, "received").iter().max();
    entry.received_ns = entry.received_ns.max(received.copied().unwrap_or(i64::MIN));
    if let Some(raw) = texts(group, "raw") {
        entry.text_bytes += raw.lengths().map(u64::from).sum::<u64>();
    }
}

/// Appends the filters of a row group's blocks; returns their places, from 0 where `filters`
/// begins.
fn filter(
    group: &RecordBatch,
    grams: &mut FilterBuilder,
    filters: &mut Vec<u8>,
) -> Vec<(u64, u32)> {
    let Some(raw) = texts(group, "raw") else {
        return Vec::new();
    };
    let mut blocks = Vec::new();
    for block in (0..raw.len()).step_by(BLOCK_ROWS) {
        for row in block..raw.len().min(block + BLOCK_ROWS) {
            grams.add(raw.value(row));
        }
        let offset = filters.len() as u64;
        blocks.push((offset, grams.finish(filters)));
    }
    blocks
}
