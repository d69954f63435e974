//! Rows of DataFusion as rows of an answer.

use datafusion::arrow::array::cast::AsArray;
use datafusion::arrow::array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampNanosecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::arrow::array::{Array, ArrayRef, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Schema, TimeUnit};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::Result;
use inrush_query::ColumnType;
use inrush_store::reply::{TableCell, TableColumn, TableHeader, TableRow};

/// Characters of a value that is shown as text though it is none.
const SHOWN_CHARS_MAX: usize = 10_000;

/// The columns of a result.
pub(crate) fn table_of(schema: &Schema) -> TableHeader {
    let column = |(name, kind): (&String, ColumnType)| TableColumn {
        name: name.clone(),
        kind: kind.name().to_owned(),
    };
    let fields = schema.fields().iter();
    TableHeader {
        columns: fields
            .map(|field| column((field.name(), kind_of(field.data_type()))))
            .collect(),
    }
}

fn kind_of(kind: &DataType) -> ColumnType {
    match kind {
        DataType::Timestamp(_, _) => ColumnType::Time,
        kind if kind.is_numeric() => ColumnType::Number,
        _ => ColumnType::Text,
    }
}

/// The rows of a batch.
pub(crate) fn rows_of(batch: &RecordBatch) -> Result<Vec<TableRow>> {
    let columns: Result<Vec<Vec<TableCell>>> = batch.columns().iter().map(cells).collect();
    let mut columns: Vec<_> = columns?.into_iter().map(Vec::into_iter).collect();
    let row = |_| TableRow {
        values: columns.iter_mut().filter_map(Iterator::next).collect(),
    };
    Ok((0..batch.num_rows()).map(row).collect())
}

/// The values of a column.
fn cells(column: &ArrayRef) -> Result<Vec<TableCell>> {
    macro_rules! numbers {
        ($kind:ty, $cell:expr) => {{
            let values = column.as_primitive::<$kind>();
            Ok(values
                .iter()
                .map(|v| v.map_or(TableCell::Null, $cell))
                .collect())
        }};
    }
    match column.data_type() {
        DataType::Null => Ok(vec![TableCell::Null; column.len()]),
        DataType::Boolean => {
            let values = column.as_boolean().iter();
            Ok(values
                .map(|v| v.map_or(TableCell::Null, TableCell::Bool))
                .collect())
        }
        DataType::Int8 => numbers!(Int8Type, |v| signed(v.into())),
        DataType::Int16 => numbers!(Int16Type, |v| signed(v.into())),
        DataType::Int32 => numbers!(Int32Type, |v| signed(v.into())),
        DataType::Int64 => numbers!(Int64Type, signed),
        DataType::UInt8 => numbers!(UInt8Type, |v| TableCell::Unsigned(v.into())),
        DataType::UInt16 => numbers!(UInt16Type, |v| TableCell::Unsigned(v.into())),
        DataType::UInt32 => numbers!(UInt32Type, |v| TableCell::Unsigned(v.into())),
        DataType::UInt64 => numbers!(UInt64Type, TableCell::Unsigned),
        DataType::Float32 => numbers!(Float32Type, |v| double(v.into())),
        DataType::Float64 => numbers!(Float64Type, double),
        DataType::Timestamp(_, zone) => {
            let kind = DataType::Timestamp(TimeUnit::Nanosecond, zone.clone());
            let times = cast(column, &kind)?;
            let times = times.as_primitive::<TimestampNanosecondType>();
            let text = |ns: i64| TableCell::Text(ns.to_string());
            Ok(times
                .iter()
                .map(|v| v.map_or(TableCell::Null, text))
                .collect())
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let texts = cast(column, &DataType::Utf8View)?;
            let text = |text: &str| TableCell::Text(text.to_owned());
            let texts = texts.as_string_view().iter();
            Ok(texts.map(|v| v.map_or(TableCell::Null, text)).collect())
        }
        DataType::Dictionary(_, kind) => cells(&cast(column, kind)?),
        _ => shown(column),
    }
}

/// Numbers that are not below zero look alike, whatever type they had.
fn signed(number: i64) -> TableCell {
    u64::try_from(number).map_or(TableCell::Signed(number), TableCell::Unsigned)
}

/// JSON has no NaN and no infinities.
fn double(number: f64) -> TableCell {
    if number.is_finite() {
        TableCell::Double(number)
    } else {
        TableCell::Text(number.to_string())
    }
}

/// Lists, maps and what else there is, as text.
fn shown(column: &ArrayRef) -> Result<Vec<TableCell>> {
    let options = FormatOptions::default().with_display_error(true);
    let formatter = ArrayFormatter::try_new(column.as_ref(), &options)?;
    let cell = |row: usize| {
        if column.is_null(row) {
            return TableCell::Null;
        }
        let text = formatter.value(row).to_string();
        TableCell::Text(text.chars().take(SHOWN_CHARS_MAX).collect())
    };
    Ok((0..column.len()).map(cell).collect())
}
