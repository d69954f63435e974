//! From a batch as it came off the wire to rows of the table.
//!
//! The text is copied once, as a whole: rows wait for seconds to be written, and an arena, which
//! is larger than the text in it, can go back to the pool meanwhile.
//! Text that is not UTF-8 is copied with U+FFFD for each broken part, as everything that takes
//! Parquet or SQL demands: the event is flagged `not_utf8`, and its `fields` have `raw_base64`.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::{
    MapBuilder, MapFieldNames, PrimitiveBuilder, StringBuilder, StringViewBuilder, UInt8Builder,
    UInt32Builder,
};
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{ArrayRef, RecordBatch, UInt32Array, UInt64Array};
use arrow_buffer::Buffer;
use arrow_schema::ArrowError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use inrush_event::{Anomalies, Batch, BatchOrigin, ExtraKey, Format, Record};

use crate::dictionary::DictionaryBuilder;
use crate::schema::{EVENT_SOURCE, RAW_BASE64, STORED, TLS_CLIENT, time_type};
use crate::sdata;
use crate::snapshot::Chunk;

/// The events `events` (indexes into the batch's records) as rows.
///
/// # Errors
/// Never for a batch that this process made; Arrow checks what it is given.
pub(crate) fn of_batch(
    batch: &Batch,
    events: Range<u32>,
    origin: BatchOrigin,
) -> Result<Chunk, ArrowError> {
    let records = batch.records();
    let end = records.len().min(events.end as usize);
    let start = end.min(events.start as usize);
    let mut rows = RowBuilder::new(batch, &records[start..end]);
    for record in &records[start..end] {
        rows.push(record);
    }
    let first = origin.first_event + start as u64;
    rows.finish(first, origin)
}

type TimeBuilder = PrimitiveBuilder<TimestampNanosecondType>;

struct RowBuilder<'a> {
    batch: &'a Batch,
    /// The addresses of the batch's senders, as far as they were needed.
    senders: Vec<Option<String>>,
    from_ns: i64,
    to_ns: i64,
    time: TimeBuilder,
    received: TimeBuilder,
    host: StringViewBuilder,
    source: DictionaryBuilder<'a>,
    sourcetype: DictionaryBuilder<'a>,
    index: DictionaryBuilder<'a>,
    severity: UInt8Builder,
    facility: UInt8Builder,
    vendor: DictionaryBuilder<'a>,
    product: DictionaryBuilder<'a>,
    app: StringViewBuilder,
    proc_id: StringViewBuilder,
    msg_id: StringViewBuilder,
    raw: StringViewBuilder,
    /// The block of `raw` that holds the text, and where that begins in the arena.
    block: u32,
    begin: u32,
    message_at: UInt32Builder,
    sender: StringViewBuilder,
    protocol: DictionaryBuilder<'a>,
    format: DictionaryBuilder<'a>,
    anomalies: StringViewBuilder,
    fields: MapBuilder<StringBuilder, StringBuilder>,
    names: String,
}

impl<'a> RowBuilder<'a> {
    fn new(batch: &'a Batch, records: &[Record]) -> Self {
        let rows = records.len();
        let text = || StringViewBuilder::with_capacity(rows);
        let few = || DictionaryBuilder::with_capacity(rows);
        let time = || TimeBuilder::with_capacity(rows).with_data_type(time_type());
        let mut raw = text();
        let begin = records.iter().map(|r| r.raw.start).min().unwrap_or(0);
        let end = records.iter().map(|r| r.raw.end()).max().unwrap_or(0);
        let copied = batch.bytes().get(begin as usize..end);
        let block = raw.append_block(Buffer::from(copied.unwrap_or_default()));
        let names = MapFieldNames {
            entry: "entries".to_owned(),
            key: "key".to_owned(),
            value: "value".to_owned(),
        };
        let fields = MapBuilder::new(Some(names), StringBuilder::new(), StringBuilder::new());
        Self {
            batch,
            senders: vec![None; batch.origins().len()],
            from_ns: i64::MAX,
            to_ns: i64::MIN,
            time: time(),
            received: time(),
            host: text(),
            source: few(),
            sourcetype: few(),
            index: few(),
            severity: UInt8Builder::with_capacity(rows),
            facility: UInt8Builder::with_capacity(rows),
            vendor: few(),
            product: few(),
            app: text(),
            proc_id: text(),
            msg_id: text(),
            raw,
            block,
            begin,
            message_at: UInt32Builder::with_capacity(rows),
            sender: text(),
            protocol: few(),
            format: few(),
            anomalies: text(),
            fields,
            names: String::new(),
        }
    }

    fn push(&mut self, record: &Record) {
        let batch = self.batch;
        let time = batch.time(record).0;
        self.from_ns = self.from_ns.min(time);
        self.to_ns = self.to_ns.max(time);
        self.time.append_value(time);
        self.received.append_value(record.received.0);
        self.push_sender(record);
        let source = batch.source();
        self.source.push(source.name.as_bytes());
        let names = batch.names(record);
        self.sourcetype.push(names.sourcetype);
        self.index.push(names.index);
        self.severity.append_option(record.severity());
        self.facility.append_option(record.facility());
        self.vendor.push_option(names.vendor);
        self.product.push_option(names.product);
        push_text(&mut self.app, batch.get(record.app));
        let is_hec = record.format == Format::Hec;
        // What stands in these of an event of a collector is no part of a header.
        let header = |span| match is_hec {
            true => &b""[..],
            false => batch.get(span),
        };
        push_text(&mut self.proc_id, header(record.proc_id));
        push_text(&mut self.msg_id, header(record.msg_id));
        let mut anomalies = record.anomalies;
        if !self.push_raw(record) {
            anomalies.insert(Anomalies::NOT_UTF8);
        }
        self.format.push(record.format.name().as_bytes());
        self.push_anomalies(anomalies);
        let raw = anomalies
            .contains(Anomalies::NOT_UTF8)
            .then(|| batch.get(record.raw));
        let client = batch.peer(record).and_then(|peer| peer.client.as_deref());
        self.push_fields(record, raw, client);
    }

    /// Appends the sender's address, the protocol, and the host that the event is about. The host
    /// is the sender where none was named.
    fn push_sender(&mut self, record: &Record) {
        let Some(peer) = self.batch.peer(record) else {
            push_text(&mut self.host, self.batch.get(record.host));
            self.sender.append_null();
            self.protocol.push_option(b"");
            return;
        };
        let sender = self.senders[record.peer as usize].get_or_insert_with(|| peer.ip.to_string());
        let host = match self.batch.get(record.host) {
            [] => sender.as_bytes(),
            host => host,
        };
        push_text(&mut self.host, host);
        self.sender.append_value(sender.as_str());
        self.protocol.push_option(peer.protocol.name().as_bytes());
    }

    /// Appends the raw text, and the offset of the message in it. True if the record is UTF-8.
    fn push_raw(&mut self, record: &Record) -> bool {
        let (raw, message) = (record.raw, record.message);
        let mut before = message.start.saturating_sub(raw.start);
        let at = raw.start - self.begin;
        let in_block = self.raw.try_append_view(self.block, at, raw.len);
        if in_block.is_err() {
            let bytes = self.batch.get(raw);
            let header = bytes.get(..before as usize).unwrap_or_default();
            before = String::from_utf8_lossy(header).len() as u32;
            self.raw.append_value(String::from_utf8_lossy(bytes));
        }
        let inside = message.start >= raw.start && message.end() <= raw.end();
        let at = (inside && !message.is_empty()).then_some(before);
        self.message_at.append_option(at);
        in_block.is_ok()
    }

    fn push_anomalies(&mut self, anomalies: Anomalies) {
        if anomalies.is_empty() {
            return self.anomalies.append_null();
        }
        self.names.clear();
        for name in anomalies.names() {
            if !self.names.is_empty() {
                self.names.push(',');
            }
            self.names.push_str(name);
        }
        self.anomalies.append_value(&self.names);
    }

    fn push_fields(&mut self, record: &Record, raw: Option<&[u8]>, client: Option<&str>) {
        let sdata = self.batch.get(record.sdata);
        let mut any = false;
        if let Some(client) = client {
            let (keys, values) = self.fields.entries();
            keys.append_value(TLS_CLIENT);
            values.append_value(client);
            any = true;
        }
        if let Some(raw) = raw {
            let (keys, values) = self.fields.entries();
            keys.append_value(RAW_BASE64);
            values.append_value(STANDARD.encode(raw));
            any = true;
        }
        let source = self.batch.event_source(record);
        if !source.is_empty() {
            let (keys, values) = self.fields.entries();
            keys.append_value(EVENT_SOURCE);
            values.append_value(String::from_utf8_lossy(source));
            any = true;
        }
        let (keys, values) = self.fields.entries();
        let mut append = |key: &str, value: &str| {
            keys.append_value(key);
            values.append_value(value);
            any = true;
        };
        // What rules and sources say of the event comes before what its sender says of it: of a
        // key that is there twice the first counts.
        if let Some(own) = self.batch.extra(record).get(ExtraKey::Fields) {
            let own = own.strip_prefix(b",").unwrap_or(own);
            let object = format!("{{{}}}", String::from_utf8_lossy(own));
            sdata::each_field(&object, &mut append);
        }
        let class = self.batch.class(record);
        for (key, value) in class.map_or(&[][..], |class| &class.fields) {
            sdata::one_field(key, value, &mut append);
        }
        if !sdata.is_empty() {
            let text = String::from_utf8_lossy(sdata);
            match record.format.has_json_fields() {
                true => sdata::each_field(&text, &mut append),
                false => sdata::each_param(&text, &mut append),
            }
        }
        // Keys and values are of one length: the only error that this knows.
        let _ = self.fields.append(any);
    }

    fn finish(mut self, first: u64, origin: BatchOrigin) -> Result<Chunk, ArrowError> {
        let rows = self.message_at.values_slice().len();
        let seq: UInt64Array = (first..first + rows as u64).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.time.finish()),
            Arc::new(self.received.finish()),
            Arc::new(self.host.finish()),
            self.source.finish()?,
            self.sourcetype.finish()?,
            self.index.finish()?,
            Arc::new(self.severity.finish()),
            Arc::new(self.facility.finish()),
            self.vendor.finish()?,
            self.product.finish()?,
            Arc::new(self.app.finish()),
            Arc::new(self.proc_id.finish()),
            Arc::new(self.msg_id.finish()),
            Arc::new(self.raw.finish()),
            Arc::new(self.message_at.finish()),
            Arc::new(self.sender.finish()),
            self.protocol.finish()?,
            self.format.finish()?,
            Arc::new(self.anomalies.finish()),
            Arc::new(self.fields.finish()),
            Arc::new(UInt64Array::from_value(origin.log, rows)),
            Arc::new(UInt32Array::from_value(origin.epoch, rows)),
            Arc::new(seq),
        ];
        Ok(Chunk {
            rows: RecordBatch::try_new(Arc::clone(&STORED), columns)?,
            from_ns: self.from_ns,
            to_ns: self.to_ns,
        })
    }
}

/// Appends a text, or nothing where there is none.
fn push_text(column: &mut StringViewBuilder, bytes: &[u8]) {
    match bytes {
        [] => column.append_null(),
        bytes => column.append_value(String::from_utf8_lossy(bytes)),
    }
}
