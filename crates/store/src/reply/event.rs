//! Events as they are shown.

use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampNanosecondType, UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, MapArray, RecordBatch};
use serde::{Deserialize, Serialize};

use super::FieldValues;
use crate::schema::{EPOCH, FIELDS, LOG, SEQ};
use inrush_query::EventColumn;

/// An event as it is shown. What it does not have is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SearchHit {
    /// Names it for ever.
    pub id: String,
    /// Nanoseconds since 1970, in decimal digits.
    pub time_ns: String,
    /// The same of its arrival.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub received_ns: String,
    /// The host that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Splunk's `source`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Splunk's `sourcetype`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sourcetype: Option<String>,
    /// The index that it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// 0 (emergency) to 7 (debug).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<u8>,
    /// 0 to 23.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub facility: Option<u8>,
    /// Maker of the product.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// The product that sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    /// APP-NAME.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// PROCID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proc_id: Option<String>,
    /// MSGID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub msg_id: Option<String>,
    /// The record as it came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// Rest of the record behind its header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Address of the sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// Names of what was odd about the record, joined by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anomalies: Option<String>,
    /// Texts that have no column of their own, by key.
    #[serde(skip_serializing_if = "FieldValues::is_empty")]
    pub fields: FieldValues,
}

/// The columns that a [`SearchHit`] is made of; any order will do, and others may be beside them.
pub const EVENT_COLUMNS: [&str; 21] = [
    EventColumn::Time.name(),
    EventColumn::Received.name(),
    EventColumn::Host.name(),
    EventColumn::Source.name(),
    EventColumn::Sourcetype.name(),
    EventColumn::Index.name(),
    EventColumn::Severity.name(),
    EventColumn::Facility.name(),
    EventColumn::Vendor.name(),
    EventColumn::Product.name(),
    EventColumn::App.name(),
    EventColumn::ProcId.name(),
    EventColumn::MsgId.name(),
    EventColumn::Raw.name(),
    EventColumn::Message.name(),
    EventColumn::Sender.name(),
    EventColumn::Anomalies.name(),
    FIELDS,
    LOG,
    EPOCH,
    SEQ,
];

/// The rows of a batch as events. What has no column in it, or one of another type than
/// [`STORED`](crate::schema::STORED) says, is left out.
pub fn events(batch: &RecordBatch) -> impl Iterator<Item = SearchHit> + '_ {
    (0..batch.num_rows()).map(|row| event(batch, row))
}

fn event(batch: &RecordBatch, row: usize) -> SearchHit {
    let at = BatchRow { batch, row };
    let time = |column: EventColumn| at.time(column.name()).unwrap_or_default().to_string();
    let number = |name| at.number(name).unwrap_or_default();
    SearchHit {
        id: format!("{:x}-{:x}-{:x}", number(LOG), number(EPOCH), number(SEQ)),
        time_ns: time(EventColumn::Time),
        received_ns: time(EventColumn::Received),
        host: at.text(EventColumn::Host),
        source: at.text(EventColumn::Source),
        sourcetype: at.text(EventColumn::Sourcetype),
        index: at.text(EventColumn::Index),
        severity: at.code(EventColumn::Severity),
        facility: at.code(EventColumn::Facility),
        vendor: at.text(EventColumn::Vendor),
        product: at.text(EventColumn::Product),
        app: at.text(EventColumn::App),
        proc_id: at.text(EventColumn::ProcId),
        msg_id: at.text(EventColumn::MsgId),
        raw: at.text(EventColumn::Raw),
        message: at.text(EventColumn::Message),
        sender: at.text(EventColumn::Sender),
        anomalies: at.text(EventColumn::Anomalies),
        fields: at.fields(),
    }
}

struct BatchRow<'a> {
    batch: &'a RecordBatch,
    row: usize,
}

impl BatchRow<'_> {
    /// The column, if the row has something in it.
    fn column(&self, name: &str) -> Option<&ArrayRef> {
        let column = self.batch.column_by_name(name)?;
        column.is_valid(self.row).then_some(column)
    }

    fn time(&self, name: &str) -> Option<i64> {
        let column = self.column(name)?;
        let times = column.as_primitive_opt::<TimestampNanosecondType>()?;
        Some(times.value(self.row))
    }

    fn number(&self, name: &str) -> Option<u64> {
        let column = self.column(name)?;
        let long = column.as_primitive_opt::<UInt64Type>();
        let short = || column.as_primitive_opt::<UInt32Type>();
        long.map(|long| long.value(self.row))
            .or_else(|| short().map(|short| u64::from(short.value(self.row))))
    }

    fn code(&self, column: EventColumn) -> Option<u8> {
        let column = self.column(column.name())?;
        Some(column.as_primitive_opt::<UInt8Type>()?.value(self.row))
    }

    fn text(&self, column: EventColumn) -> Option<String> {
        let column = self.column(column.name())?;
        Some(column.as_string_view_opt()?.value(self.row).to_owned())
    }

    fn fields(&self) -> FieldValues {
        let column = self.column(FIELDS).and_then(|column| column.as_map_opt());
        column.map_or_else(FieldValues::new, |map| entries(map, self.row))
    }
}

/// Texts that a row has in a map, by key; of a key that is there twice, the first.
fn entries(map: &MapArray, row: usize) -> FieldValues {
    let entries = map.value(row);
    let keys = entries.column(0).as_string_opt::<i32>();
    let values = entries.column(1).as_string_opt::<i32>();
    let mut found = FieldValues::new();
    let (Some(keys), Some(values)) = (keys, values) else {
        return found;
    };
    for at in 0..entries.len() {
        if values.is_valid(at) {
            let value = || values.value(at).to_owned();
            found.entry(keys.value(at).to_owned()).or_insert_with(value);
        }
    }
    found
}
