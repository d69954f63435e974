//! Stores for tests: events as the naive telling has them, in real Parquet files and in a tail.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::builder::{
    MapBuilder, MapFieldNames, StringBuilder, StringViewBuilder, TimestampNanosecondBuilder,
    UInt8Builder, UInt32Builder,
};
use arrow_array::{ArrayRef, RecordBatch, UInt32Array, UInt64Array};
use inrush_query::EventColumn;
use inrush_store::grams::{self, BLOCK_ROWS, FilterLayout};
use inrush_store::schema::{STORED, time_type};
use inrush_store::snapshot::{Chunk, DataFile, FileEntry, Snapshot};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use super::naive::{Cell, Event};

/// Gives an event what the store's columns need: places that are there, and a message that is the
/// end of its raw text.
pub(crate) fn settle(mut event: Event) -> Event {
    for column in [
        EventColumn::Source,
        EventColumn::Sourcetype,
        EventColumn::Index,
    ] {
        let place = Cell::Text("a".to_owned());
        event.columns.entry(column).or_insert(place);
    }
    if event.columns.contains_key(&EventColumn::Message) {
        let raw = event.raw();
        let message = raw[message_at(raw)..].to_owned();
        event
            .columns
            .insert(EventColumn::Message, Cell::Text(message));
    }
    event
}

/// Where a message begins: at a character in the middle.
fn message_at(raw: &str) -> usize {
    let mut at = raw.len() / 2;
    while !raw.is_char_boundary(at) {
        at -= 1;
    }
    at
}

pub(crate) fn time_of(event: &Event) -> i64 {
    match event.columns.get(&EventColumn::Time) {
        Some(Cell::Time(ns)) => *ns,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn text_of(event: &Event, column: EventColumn) -> Option<&str> {
    match event.columns.get(&column) {
        None => None,
        Some(Cell::Text(text)) => Some(text),
        other => panic!("{other:?}"),
    }
}

/// Events with their numbers as rows with the columns of the store.
pub(crate) fn batch(events: &[(u64, Event)]) -> RecordBatch {
    let column = |name: &str| -> ArrayRef {
        match name {
            "time" => times(events, EventColumn::Time),
            "received" => times(events, EventColumn::Received),
            "severity" => codes(events, EventColumn::Severity),
            "facility" => codes(events, EventColumn::Facility),
            "message_at" => {
                let mut at = UInt32Builder::new();
                for (_, event) in events {
                    let there = event.columns.contains_key(&EventColumn::Message);
                    at.append_option(there.then(|| message_at(event.raw()) as u32));
                }
                Arc::new(at.finish())
            }
            "format" => texts(events, |_| Some("rfc5424")),
            "protocol" => texts(events, |_| None),
            "fields" => fields(events),
            "log" => Arc::new(UInt64Array::from(vec![7; events.len()])),
            "epoch" => Arc::new(UInt32Array::from(vec![1; events.len()])),
            "seq" => Arc::new(UInt64Array::from_iter_values(events.iter().map(|e| e.0))),
            text => {
                let mut all = EventColumn::ALL.into_iter();
                let column = all.find(|column| column.name() == text).unwrap();
                texts(events, |event| text_of(event, column))
            }
        }
    };
    let columns = STORED.fields().iter().map(|f| column(f.name())).collect();
    RecordBatch::try_new(STORED.clone(), columns).unwrap()
}

fn times(events: &[(u64, Event)], column: EventColumn) -> ArrayRef {
    let mut times = TimestampNanosecondBuilder::new();
    for (_, event) in events {
        match event.columns.get(&column) {
            Some(Cell::Time(ns)) => times.append_value(*ns),
            other => panic!("{other:?}"),
        }
    }
    Arc::new(times.finish().with_data_type(time_type()))
}

fn codes(events: &[(u64, Event)], column: EventColumn) -> ArrayRef {
    let mut codes = UInt8Builder::new();
    for (_, event) in events {
        codes.append_option(match event.columns.get(&column) {
            Some(Cell::Code(code)) => Some(*code),
            _ => None,
        });
    }
    Arc::new(codes.finish())
}

fn texts<'a>(events: &'a [(u64, Event)], text: impl Fn(&'a Event) -> Option<&'a str>) -> ArrayRef {
    let mut texts = StringViewBuilder::new();
    for (_, event) in events {
        texts.append_option(text(event));
    }
    Arc::new(texts.finish())
}

fn fields(events: &[(u64, Event)]) -> ArrayRef {
    let names = MapFieldNames {
        entry: "entries".to_owned(),
        key: "key".to_owned(),
        value: "value".to_owned(),
    };
    let mut maps = MapBuilder::new(Some(names), StringBuilder::new(), StringBuilder::new());
    for (_, event) in events {
        for (key, value) in &event.fields {
            maps.keys().append_value(key);
            maps.values().append_value(value);
        }
        maps.append(!event.fields.is_empty()).unwrap();
    }
    Arc::new(maps.finish())
}

/// A Parquet file of events with row groups of `group_rows` at most, as the store writes them:
/// sorted by time, with filters.
pub(crate) fn parquet(events: &[(u64, Event)], group_rows: usize) -> Vec<u8> {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1).unwrap()))
        .set_max_row_group_row_count(Some(group_rows))
        .set_data_page_row_count_limit(group_rows.div_ceil(3).max(1))
        .set_write_batch_size(group_rows.div_ceil(6).max(1))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_column_statistics_enabled(ColumnPath::from("raw"), EnabledStatistics::None);
    for column in ["host", "sourcetype", "source"] {
        let column = ColumnPath::from(column);
        properties = properties
            .set_column_bloom_filter_enabled(column.clone(), true)
            .set_column_bloom_filter_max_ndv(column, 64);
    }
    let mut writer =
        ArrowWriter::try_new(Vec::new(), STORED.clone(), Some(properties.build())).unwrap();
    let mut layout = FilterLayout::default();
    for group in events.chunks(group_rows) {
        writer.write(&batch(group)).unwrap();
        writer.flush().unwrap();
        let mut blocks = Vec::new();
        for block in group.chunks(BLOCK_ROWS) {
            let mut builder = grams::FilterBuilder::default();
            block.iter().for_each(|(_, event)| builder.add(event.raw()));
            let mut filter = Vec::new();
            let length = builder.finish(&mut filter);
            blocks.push((writer.bytes_written() as u64, length));
            writer.write_all(&filter).unwrap();
        }
        layout.groups.push(blocks);
    }
    let layout = serde_json::to_string(&layout).unwrap();
    let pair = KeyValue::new(grams::METADATA_KEY.to_owned(), layout);
    writer.append_key_value_metadata(pair);
    writer.into_inner().unwrap()
}

/// A file of the store that is to be written.
pub(crate) struct Written {
    pub(crate) file: Arc<DataFile>,
    pub(crate) bytes: Vec<u8>,
}

/// Sorts events into files of `file_rows` by their index, and those by time.
pub(crate) fn files(events: &[(u64, Event)], file_rows: usize, group_rows: usize) -> Vec<Written> {
    let mut by_index: BTreeMap<String, Vec<(u64, Event)>> = BTreeMap::new();
    for (seq, event) in events {
        let index = text_of(event, EventColumn::Index).unwrap().to_owned();
        let list = by_index.entry(index).or_default();
        list.push((*seq, event.clone()));
    }
    let mut files = Vec::new();
    for (index, events) in &mut by_index {
        for events in events.chunks_mut(file_rows) {
            events.sort_by_key(|(_, event)| time_of(event));
            let bytes = parquet(events, group_rows);
            let path = format!("index/{}.parquet", files.len());
            let times = || events.iter().map(|(_, event)| time_of(event));
            let entry = FileEntry {
                path: path.clone(),
                index: index.clone(),
                rows: events.len() as u64,
                bytes: bytes.len() as u64,
                text_bytes: events.iter().map(|(_, e)| e.raw().len() as u64).sum(),
                from_ns: times().min().unwrap(),
                to_ns: times().max().unwrap(),
                received_ns: 0,
                sums: Default::default(),
            };
            let file = Arc::new(DataFile::new(entry, Path::from(path)));
            files.push(Written { file, bytes });
        }
    }
    files
}

/// A chunk of the tail.
pub(crate) fn chunk(events: &[(u64, Event)]) -> Arc<Chunk> {
    let times = || events.iter().map(|(_, event)| time_of(event));
    Arc::new(Chunk {
        rows: batch(events),
        from_ns: times().min().unwrap(),
        to_ns: times().max().unwrap(),
    })
}

/// A store in memory: reads go the way that they go to S3.
pub(crate) fn in_memory(files: &[Written], tail: Vec<Arc<Chunk>>) -> Snapshot {
    store_in(Arc::new(InMemory::new()), files, tail)
}

/// The store of these files and this tail in `storage`.
pub(crate) fn store_in(
    storage: Arc<dyn ObjectStore>,
    files: &[Written],
    tail: Vec<Arc<Chunk>>,
) -> Snapshot {
    for Written { file, bytes } in files {
        let put = storage.put(&file.location, bytes.clone().into());
        futures::executor::block_on(put).unwrap();
    }
    Snapshot {
        storage,
        files: files.iter().map(|w| Arc::clone(&w.file)).collect(),
        tail: tail.into(),
        far: Arc::new([]),
    }
}
