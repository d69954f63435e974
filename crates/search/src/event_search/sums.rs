//! Sums of the fields of some of the events: the values that most of them have.

use std::collections::{BTreeMap, HashMap};

use datafusion::arrow::array::cast::AsArray;
use datafusion::arrow::array::types::UInt8Type;
use datafusion::arrow::array::{Array, ArrayRef};
use inrush_query::{EventColumn, QueryField};
use inrush_store::read::{ColumnProjection, ReadError, SearchPiece, Selection};
use inrush_store::reply::{FieldFacets, FieldSummary, TableCell};
use inrush_store::schema::FIELDS;

use crate::work::PieceQueue;

/// The columns that are summed up; the others are different in each event.
const COLUMNS: [EventColumn; 11] = [
    EventColumn::Host,
    EventColumn::Source,
    EventColumn::Sourcetype,
    EventColumn::Index,
    EventColumn::Severity,
    EventColumn::Facility,
    EventColumn::Vendor,
    EventColumn::Product,
    EventColumn::App,
    EventColumn::Sender,
    EventColumn::Anomalies,
];

/// Values of a field that are shown.
const TOP: usize = 10;
/// Fields at most, and values of each: senders choose both.
const NAMES_MAX: usize = 200;
const VALUES_MAX: usize = 2000;
/// Bytes of a value at most that is counted.
const VALUE_BYTES_MAX: usize = 256;

/// Number of events by field and value.
#[derive(Debug, Default)]
pub(super) struct FacetCounts {
    events: u64,
    by_name: BTreeMap<String, HashMap<String, u64>>,
}

/// The sums of some rows of a piece.
pub(super) async fn of(
    work: &PieceQueue,
    piece: &SearchPiece,
    rows: &[usize],
) -> Result<FacetCounts, ReadError> {
    let names = COLUMNS.iter().map(|column| column.name()).chain([FIELDS]);
    let columns = ColumnProjection::named(names);
    let selection = Selection::of(rows.iter().copied());
    let mut batches = work.files.read(piece, &columns, Some(&selection)).await?;
    let mut sums = FacetCounts::default();
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        sums.events += batch.num_rows() as u64;
        for (column, name) in batch.columns().iter().zip(COLUMNS) {
            sums.add_column(name.name(), column);
        }
        sums.add_fields(batch.column(COLUMNS.len()));
    }
    Ok(sums)
}

impl FacetCounts {
    fn add(&mut self, name: &str, value: &str, count: u64) {
        if value.len() > VALUE_BYTES_MAX {
            return;
        }
        if !self.by_name.contains_key(name) {
            if self.by_name.len() == NAMES_MAX {
                return;
            }
            self.by_name.insert(name.to_owned(), HashMap::new());
        }
        let Some(values) = self.by_name.get_mut(name) else {
            return;
        };
        if let Some(sum) = values.get_mut(value) {
            *sum += count;
        } else if values.len() < VALUES_MAX {
            values.insert(value.to_owned(), count);
        }
    }

    fn add_column(&mut self, name: &str, column: &ArrayRef) {
        if let Some(codes) = column.as_primitive_opt::<UInt8Type>() {
            for code in codes.iter().flatten() {
                self.add(name, &code.to_string(), 1);
            }
        } else if let Some(texts) = column.as_string_view_opt() {
            for text in texts.iter().flatten() {
                self.add(name, text, 1);
            }
        }
    }

    fn add_fields(&mut self, column: &ArrayRef) {
        let Some(maps) = column.as_map_opt() else {
            return;
        };
        for row in (0..maps.len()).filter(|row| maps.is_valid(*row)) {
            let entries = maps.value(row);
            let keys = entries.column(0).as_string_opt::<i32>();
            let values = entries.column(1).as_string_opt::<i32>();
            let (Some(keys), Some(values)) = (keys, values) else {
                return;
            };
            for (key, value) in keys.iter().zip(values) {
                if let (Some(key), Some(value)) = (key, value) {
                    // As a query writes it: a key may be called like a column.
                    let name = QueryField::Key(key.to_owned()).label();
                    self.add(&name, value, 1);
                }
            }
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.events += other.events;
        for (name, values) in other.by_name {
            for (value, count) in values {
                self.add(&name, &value, count);
            }
        }
    }

    /// The most frequent values of each field; none if no events were looked at. `matched` events
    /// were found in all.
    pub(super) fn summary(self, matched: u64) -> Option<FieldFacets> {
        if self.events == 0 {
            return None;
        }
        let rank = |name: &str| COLUMNS.iter().position(|column| column.name() == name);
        let mut fields: Vec<FieldSummary> = self.by_name.into_iter().map(summary).collect();
        fields.sort_by_key(|field| rank(&field.name).unwrap_or(usize::MAX));
        Some(FieldFacets {
            fields,
            sampled: self.events < matched,
        })
    }
}

fn summary((name, values): (String, HashMap<String, u64>)) -> FieldSummary {
    let codes = [EventColumn::Severity, EventColumn::Facility];
    let codes = codes.into_iter().find(|column| column.name() == name);
    let distinct = values.len() as u64;
    let mut top: Vec<(String, u64)> = values.into_iter().collect();
    top.sort_unstable_by(|(a, m), (b, n)| n.cmp(m).then_with(|| a.cmp(b)));
    top.truncate(TOP);
    let cell = |(value, count): (String, u64)| match (codes, value.parse()) {
        (Some(column), Ok(code)) => (TableCell::Text(column.code_name(code).to_owned()), count),
        _ => (TableCell::Text(value), count),
    };
    FieldSummary {
        name,
        distinct,
        top: top.into_iter().map(cell).collect(),
    }
}
