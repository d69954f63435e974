//! Events as they are shown.

use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampNanosecondType, UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, MapArray, RecordBatch};
use serde::{Deserialize, Serialize};

use super::Keys;
use crate::query::Column;
use crate::schema::{EPOCH, FIELDS, LOG, SEQ};

/// An event as it is shown. What it does not have is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Event {
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
    /// Texts that have no column of their own, by key.
    #[serde(skip_serializing_if = "Keys::is_empty")]
    pub fields: Keys,
}

/// The columns that an [`Event`] is made of; any order will do, and others may be beside them.
pub const EVENT_COLUMNS: [&str; 19] = [
    Column::Time.name(),
    Column::Received.name(),
    Column::Host.name(),
    Column::Source.name(),
    Column::Sourcetype.name(),
    Column::Index.name(),
    Column::Severity.name(),
    Column::Facility.name(),
    Column::Vendor.name(),
    Column::Product.name(),
    Column::App.name(),
    Column::ProcId.name(),
    Column::MsgId.name(),
    Column::Raw.name(),
    Column::Message.name(),
    FIELDS,
    LOG,
    EPOCH,
    SEQ,
];

/// The rows of a batch as events. What has no column in it, or one of another type than
/// [`STORED`](crate::schema::STORED) says, is left out.
pub fn events(batch: &RecordBatch) -> impl Iterator<Item = Event> + '_ {
    (0..batch.num_rows()).map(|row| event(batch, row))
}

fn event(batch: &RecordBatch, row: usize) -> Event {
    let at = Row { batch, row };
    let time = |column: Column| at.time(column.name()).unwrap_or_default().to_string();
    let number = |name| at.number(name).unwrap_or_default();
    Event {
        id: format!("{:x}-{:x}-{:x}", number(LOG), number(EPOCH), number(SEQ)),
        time_ns: time(Column::Time),
        received_ns: time(Column::Received),
        host: at.text(Column::Host),
        source: at.text(Column::Source),
        sourcetype: at.text(Column::Sourcetype),
        index: at.text(Column::Index),
        severity: at.code(Column::Severity),
        facility: at.code(Column::Facility),
        vendor: at.text(Column::Vendor),
        product: at.text(Column::Product),
        app: at.text(Column::App),
        proc_id: at.text(Column::ProcId),
        msg_id: at.text(Column::MsgId),
        raw: at.text(Column::Raw),
        message: at.text(Column::Message),
        fields: at.fields(),
    }
}

struct Row<'a> {
    batch: &'a RecordBatch,
    row: usize,
}

impl Row<'_> {
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

    fn code(&self, column: Column) -> Option<u8> {
        let column = self.column(column.name())?;
        Some(column.as_primitive_opt::<UInt8Type>()?.value(self.row))
    }

    fn text(&self, column: Column) -> Option<String> {
        let column = self.column(column.name())?;
        Some(column.as_string_view_opt()?.value(self.row).to_owned())
    }

    fn fields(&self) -> Keys {
        let column = self.column(FIELDS).and_then(|column| column.as_map_opt());
        column.map_or_else(Keys::new, |map| entries(map, self.row))
    }
}

/// Texts that a row has in a map, by key; of a key that is there twice, the first.
fn entries(map: &MapArray, row: usize) -> Keys {
    let entries = map.value(row);
    let keys = entries.column(0).as_string_opt::<i32>();
    let values = entries.column(1).as_string_opt::<i32>();
    let mut found = Keys::new();
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
