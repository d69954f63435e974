//! What an event becomes.

use arrow_array::types::{TimestampNanosecondType, UInt32Type};
use arrow_array::{Array, StringViewArray};
use inrush_event::{ClassInfo, Extra, ExtraKey, Format};
use parquet::basic::Compression;

use super::*;

fn text<'a>(rows: &'a RecordBatch, column: &str) -> &'a StringViewArray {
    rows.column_by_name(column).unwrap().as_string_view()
}

#[test]
fn every_column_of_an_event_comes_back_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::default();
    let plain = b"<166>Nov 22 fw1 %ASA-6-302013: Built";
    let broken = b"caf\xe9 \xff: Gr\xfc\xdfe";
    queue.push(batch("netfw", &[(NOW + 1, plain), (NOW, broken)]));
    let queue = Arc::new(queue);
    take_all(&store(folder.path()), &queue);
    let files = parquet_files(folder.path());
    assert_eq!(files.len(), 1);
    let below = files[0].strip_prefix(folder.path()).unwrap();
    assert!(
        below.starts_with("netfw/2100-01-01/12"),
        "{}",
        below.display()
    );
    let rows = &read_file(&files[0])[0];
    let time = rows.column_by_name("time").unwrap();
    let time = time.as_primitive::<TimestampNanosecondType>().values();
    assert_eq!(time.to_vec(), [NOW, NOW + 1], "in the order of time");
    assert_eq!(numbers(rows), [1, 0]);
    let raw = text(rows, "raw");
    assert_eq!(raw.value(0), "caf\u{fffd} \u{fffd}: Gr\u{fffd}\u{fffd}e");
    assert_eq!(raw.value(1).as_bytes(), plain);
    for (column, value) in [
        ("host", "10.1.2.3"),
        ("source", "syslog"),
        ("sourcetype", "cisco:asa"),
        ("index", "netfw"),
        ("sender", "10.1.2.3"),
        ("protocol", "tcp"),
        ("format", "unparsed"),
    ] {
        assert_eq!(text(rows, column).value(0), value, "{column}");
    }
    for absent in ["vendor", "app", "msg_id"] {
        assert!(text(rows, absent).is_null(0), "{absent}");
    }
    let anomalies = text(rows, "anomalies");
    assert_eq!(anomalies.value(0), "not_utf8");
    assert!(anomalies.is_null(1));
    assert!(rows.column_by_name("severity").unwrap().is_null(0));
}

#[test]
fn the_message_begins_where_the_header_ends_also_in_text_that_had_to_be_mended() {
    let header = b"<13>Nov 22 h\xff a: ";
    let raw = [header.as_slice(), b"said \xffthis"].concat();
    let made = batch("main", &[(NOW, &raw)]);
    let mut builder = BatchPool::new().lend(made.source(), limits::MESSAGE_BYTES_DEFAULT);
    builder.extend(&raw);
    let span = Span::new(0, raw.len());
    let mut record = Record::unparsed(span, Timestamp(NOW), 0, Anomalies::NONE);
    record.message = Span::new(header.len(), raw.len());
    record.format = Format::Rfc3164;
    builder.parts().1.push(record);
    let made = Arc::new(builder.freeze(0));
    let chunk = crate::rows::of_batch(&made, 0..1, BatchOrigin::default()).unwrap();
    let at = chunk.rows.column_by_name("message_at").unwrap();
    let at = at.as_primitive::<UInt32Type>().value(0) as usize;
    assert_eq!(
        &text(&chunk.rows, "raw").value(0)[at..],
        "said \u{fffd}this"
    );
}

#[test]
fn fields_of_class_and_event_are_rows_of_fields_and_come_before_those_of_the_sender() {
    let raw = b"hello";
    let made = batch("main", &[(NOW, raw)]);
    let mut builder = BatchPool::new().lend(made.source(), limits::MESSAGE_BYTES_DEFAULT);
    builder.extend(raw);
    let sdata = br#"[k8s.pod name="forged" uid="u-1"]"#;
    let at = builder.filled();
    builder.extend(sdata);
    let extra_at = builder.filled();
    let mut extra = Vec::new();
    Extra::push(ExtraKey::Fields, br#","site":"lab","n":7"#, &mut extra);
    builder.extend(&extra);
    let class = ClassInfo {
        fields: [
            ("k8s.pod.name", "web-1"),
            ("site", "class"),
            ("tls_client", "forged"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .to_vec(),
        ..ClassInfo::default()
    };
    let class = builder.class(&Arc::new(class));
    let plain = Record::unparsed(Span::new(0, raw.len()), Timestamp(NOW), 0, Anomalies::NONE);
    let mut record = plain;
    record.class = class;
    record.sdata = Span::new(at, at + sdata.len());
    record.extra = Span::new(extra_at, extra_at + extra.len());
    builder.parts().1.extend([record, plain]);
    let made = Arc::new(builder.freeze(0));
    let chunk = crate::rows::of_batch(&made, 0..2, BatchOrigin::default()).unwrap();
    let shown: Vec<_> = crate::reply::events(&chunk.rows).collect();
    let found: Vec<_> = shown[0].fields.iter().collect();
    let wanted = [
        ("fields.tls_client", "forged"),
        ("k8s.pod.name", "web-1"),
        ("k8s.pod.uid", "u-1"),
        ("n", "7"),
        ("site", "lab"),
    ];
    let wanted = wanted.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let wanted: Vec<_> = wanted.iter().map(|(key, value)| (key, value)).collect();
    assert_eq!(found, wanted);
    assert!(shown[1].fields.is_empty());
}

#[test]
fn an_index_with_a_hostile_name_stays_below_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("store");
    let mut queue = Queue::default();
    let long = "i".repeat(3000);
    let hostile = ["../../out", "_log", "", ".", "a/../../b", "\0", &long];
    for index in hostile {
        queue.push(batch(index, &[(NOW, b"text")]));
    }
    let queue = Arc::new(queue);
    take_all(&store(&inner), &queue);
    assert_eq!(parquet_files(folder.path()), parquet_files(&inner));
    let found: BTreeSet<String> = parquet_files(&inner)
        .iter()
        .flat_map(|path| read_file(path))
        .map(|rows| text(&rows, "index").value(0).to_owned())
        .collect();
    assert_eq!(
        found,
        hostile.map(str::to_owned).into(),
        "the names are kept"
    );
    let again = store(&inner);
    assert_eq!(again.levels().events, hostile.len() as u64);
}

#[test]
fn short_columns_are_compressed_where_there_are_many_rows() {
    for (rows, small) in [(20, true), (9_000, false)] {
        let events: Vec<(i64, &[u8])> = (0..rows).map(|n| (NOW + n, b"text".as_slice())).collect();
        let made = batch("main", &events);
        let chunk = crate::rows::of_batch(&made, 0..u32::MAX, BatchOrigin::default()).unwrap();
        let files = crate::encode::files(&[chunk.rows]).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(files[0].bytes.clone()).unwrap();
        for column in reader.metadata().row_group(0).columns() {
            let plain = column.compression() == Compression::UNCOMPRESSED;
            let name = column.column_path().string();
            let long = ["raw", "fields.entries.value"].contains(&name.as_str());
            assert_eq!(plain, small && !long, "{name} of {rows} rows");
        }
    }
}
