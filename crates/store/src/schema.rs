//! The columns of an event, in the Parquet files and in memory.
//!
//! Texts are views (`Utf8View`) in memory and byte arrays in the files, so any engine reads them as
//! strings. `message` is not stored, for it is a part of `raw`: [`MESSAGE_AT`] says where it
//! begins, in bytes from 0; in other engines it is `substr(raw, message_at + 1)`.

use std::sync::{Arc, LazyLock};

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

/// The offset in bytes of the message within `raw`; absent where the message is not a part of it.
pub const MESSAGE_AT: &str = "message_at";
/// Number of the event within the log that took it in. With [`LOG`] and [`EPOCH`] it names the
/// event for ever; by itself it does so as long as the queue's folder is not thrown away.
pub const SEQ: &str = "seq";
/// Number of the log that took the event in.
pub const LOG: &str = "log";
/// Number of the process that took the event in, among those that had the log.
pub const EPOCH: &str = "epoch";
/// Map of the texts that have no column of their own, by key.
pub const FIELDS: &str = "fields";
/// The entry of [`FIELDS`] with the name in the client's certificate. No sender can make one: the
/// key of a parameter of structured data has a dot in it.
pub const TLS_CLIENT: &str = "tls_client";
/// The entry of [`FIELDS`] with the bytes of a record that is not UTF-8, in base64; no sender can
/// make one either.
pub const RAW_BASE64: &str = "raw_base64";

/// Key in `fields` of the source that a client of an HTTP Event Collector gave.
pub const EVENT_SOURCE: &str = "event_source";

/// A time in nanoseconds since 1970, UTC.
pub fn time_type() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
}

/// The entries of [`FIELDS`].
pub fn entry_fields() -> Fields {
    Fields::from(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("value", DataType::Utf8, true),
    ])
}

/// The type of [`FIELDS`]: a map of text to text.
pub fn fields_type() -> DataType {
    let entries = Field::new("entries", DataType::Struct(entry_fields()), false);
    DataType::Map(Arc::new(entries), false)
}

/// The columns as they are stored. `time` is the sender's, or `received` where it gave none.
pub static STORED: LazyLock<SchemaRef> = LazyLock::new(|| {
    let text = |name: &str, nullable| Field::new(name, DataType::Utf8View, nullable);
    Arc::new(Schema::new(vec![
        Field::new("time", time_type(), false),
        Field::new("received", time_type(), false),
        text("host", true),
        text("source", false),
        text("sourcetype", false),
        text("index", false),
        Field::new("severity", DataType::UInt8, true),
        Field::new("facility", DataType::UInt8, true),
        text("vendor", true),
        text("product", true),
        text("app", true),
        text("proc_id", true),
        text("msg_id", true),
        text("raw", false),
        Field::new(MESSAGE_AT, DataType::UInt32, true),
        text("sender", true),
        text("protocol", true),
        text("format", false),
        text("anomalies", true),
        Field::new(FIELDS, fields_type(), true),
        Field::new(LOG, DataType::UInt64, false),
        Field::new(EPOCH, DataType::UInt32, false),
        Field::new(SEQ, DataType::UInt64, false),
    ]))
});
