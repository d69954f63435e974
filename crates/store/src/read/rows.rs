//! Row reader: record batches of one piece, from a file, the tail, or another process.
//!
//! # What it guarantees
//! * A panic of a file's decoder is [`ReadError::Damaged`], so a bad file costs only itself.
//! * Rows of another process are checked by number and types, and wrong ones are refused.
//! * The column `message` is made from `raw` while reading, because no file stores it.
//!
//! # States
//! [`Batches`] ends with the last row or the first error. [`Batches::next`] then returns `None`.
//!
//! # Limits
//! A batch has at most [`BATCH_ROWS`] rows.
//! `part_of` ends at the caller's bytes of raw text, but gives the first row in any case.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::filter::filter_record_batch;
use futures::{FutureExt, StreamExt};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::arrow::async_reader::{ParquetRecordBatchStream, ParquetRecordBatchStreamBuilder};

use super::footers::{Footer, FooterDetail};
use super::handle::FileHandle;
use super::message::messages;
use super::prune::PieceSource;
use super::{DataFileReader, PruningFilter, ReadError, SearchPiece, Selection};
use crate::schema::{MESSAGE_AT, STORED};
use crate::snapshot::{Chunk, DataFile, FarChunk};
use inrush_query::EventColumn;

/// Rows of a batch at most.
pub const BATCH_ROWS: usize = 8192;

/// The columns of the table `events`: what is stored, and last `message`.
pub fn table() -> SchemaRef {
    static TABLE: LazyLock<SchemaRef> = LazyLock::new(|| {
        let mut fields: Vec<Arc<Field>> = STORED.fields().iter().cloned().collect();
        let message = Field::new(EventColumn::Message.name(), DataType::Utf8View, true);
        fields.push(Arc::new(message));
        Arc::new(Schema::new(fields))
    });
    TABLE.clone()
}

/// Form in which texts are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextEncoding {
    /// As views.
    Views,
    /// As numbers of a dictionary, where that is how the file has them: for what is only grouped.
    /// Not `raw` and `message`.
    Dictionaries,
}

/// Selection of the columns that are read.
#[derive(Debug, Clone)]
pub struct ColumnProjection {
    /// Of [`STORED`], in order.
    stored: Vec<usize>,
    /// Columns that come out, in order.
    shown: Vec<OutputColumn>,
    schema: SchemaRef,
    texts: TextEncoding,
}

#[derive(Debug, Clone, Copy)]
enum OutputColumn {
    /// The column that is at this place among those read.
    Stored(usize),
    /// Made of the columns that are at these places.
    Message { raw: usize, at: usize },
}

impl ColumnProjection {
    /// The columns of [`table`] with these numbers, in this order.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn new(numbers: &[usize], texts: TextEncoding) -> Self {
        let [raw, at] = [EventColumn::Raw.name(), MESSAGE_AT].map(number_of);
        let message = STORED.fields().len();
        let parts = |number: &usize| match *number {
            number if number == message => vec![raw, at],
            number => vec![number],
        };
        let mut stored: Vec<usize> = numbers.iter().flat_map(parts).collect();
        stored.sort_unstable();
        stored.dedup();
        let place = |number| stored.iter().position(|s| *s == number).unwrap_or(0);
        let shown = |number: &usize| match *number {
            number if number == message => OutputColumn::Message {
                raw: place(raw),
                at: place(at),
            },
            number => OutputColumn::Stored(place(number)),
        };
        let table = typed(&table(), texts);
        let fields: Vec<Arc<Field>> = numbers
            .iter()
            .map(|number| Arc::clone(&table.fields()[*number]))
            .collect();
        Self {
            shown: numbers.iter().map(shown).collect(),
            schema: Arc::new(Schema::new(fields)),
            stored,
            texts,
        }
    }

    /// Those with these names; what is no column of [`table`] is left out.
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let table = table();
        let numbers: Vec<usize> = names
            .into_iter()
            .filter_map(|name| table.index_of(name).ok())
            .collect();
        Self::new(&numbers, TextEncoding::Views)
    }

    /// Schema of the batches.
    pub const fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// From what was read to what is shown.
    fn show(&self, read: &RecordBatch) -> Result<RecordBatch, ReadError> {
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.shown.len());
        for shown in &self.shown {
            columns.push(match *shown {
                OutputColumn::Stored(place) => Arc::clone(read.column(place)),
                OutputColumn::Message { raw, at } => {
                    let (raw, at) = (read.column(raw), read.column(at));
                    let messages = messages(raw.as_string_view(), at.as_primitive());
                    Arc::new(messages.map_err(ReadError::damaged)?)
                }
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(read.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(ReadError::damaged)
    }
}

/// The number of a stored column, by a name that there is.
fn number_of(name: &str) -> usize {
    STORED.index_of(name).unwrap_or(usize::MAX)
}

/// The schema with its texts as they are to be read.
fn typed(schema: &SchemaRef, texts: TextEncoding) -> SchemaRef {
    if texts == TextEncoding::Views {
        return Arc::clone(schema);
    }
    let kept = [EventColumn::Raw.name(), EventColumn::Message.name()];
    let fields: Vec<Arc<Field>> = schema
        .fields()
        .iter()
        .map(|field| match field.data_type() {
            DataType::Utf8View if !kept.contains(&field.name().as_str()) => {
                let (key, value) = (DataType::Int32, DataType::Utf8);
                let kind = DataType::Dictionary(Box::new(key), Box::new(value));
                Arc::new(field.as_ref().clone().with_data_type(kind))
            }
            _ => Arc::clone(field),
        })
        .collect();
    Arc::new(Schema::new(fields))
}

/// Rows of a piece, batch by batch.
pub struct Batches {
    source: BatchSource,
    columns: ColumnProjection,
}

enum BatchSource {
    File(Box<ParquetRecordBatchStream<FileHandle>>),
    /// Rows that are left of a chunk.
    Tail(RecordBatch),
    /// Chunk in another process, and the rows that are left of it.
    Far(Arc<FarChunk>, Selection),
    Done,
}

impl Batches {
    /// The next rows, [`BATCH_ROWS`] at most; none after the last, and after an error.
    pub async fn next(&mut self) -> Option<Result<RecordBatch, ReadError>> {
        let read = match &mut self.source {
            BatchSource::Done => return None,
            BatchSource::Tail(rest) => {
                let rows = rest.num_rows().min(BATCH_ROWS);
                if rows == 0 {
                    return None;
                }
                let batch = rest.slice(0, rows);
                *rest = rest.slice(rows, rest.num_rows() - rows);
                Ok(batch)
            }
            BatchSource::Far(chunk, left) => {
                if left.is_empty() {
                    return None;
                }
                far(chunk, left, &self.columns.stored).await
            }
            BatchSource::File(stream) => {
                // A decoder that panics is the file's doing. It is not asked again.
                let next = AssertUnwindSafe(stream.next()).catch_unwind().await;
                match next {
                    Ok(None) => {
                        self.source = BatchSource::Done;
                        return None;
                    }
                    Ok(Some(batch)) => batch.map_err(ReadError::from),
                    Err(payload) => Err(ReadError::panic(payload.as_ref())),
                }
            }
        };
        let shown = read.and_then(|batch| self.columns.show(&batch));
        if shown.is_err() {
            self.source = BatchSource::Done;
        }
        Some(shown)
    }
}

impl DataFileReader {
    /// Reads the columns of those rows of a piece that `selection` names; without one, of those
    /// that can have what was wanted but for the time.
    ///
    /// The tail has texts as views whatever `columns` says of them: then its batches have not the
    /// schema of `columns`.
    pub async fn read(
        &self,
        piece: &SearchPiece,
        columns: &ColumnProjection,
        selection: Option<&Selection>,
    ) -> Result<Batches, ReadError> {
        let selection = selection.or(piece.some.as_deref());
        let (source, texts) = match &piece.place {
            PieceSource::Tail(chunk) => (
                of_tail(&chunk.rows, columns, selection)?,
                TextEncoding::Views,
            ),
            PieceSource::Far(chunk) => {
                let left = selection.cloned();
                let left = left.unwrap_or_else(|| Selection::all(chunk.rows));
                (
                    BatchSource::Far(Arc::clone(chunk), left),
                    TextEncoding::Views,
                )
            }
            PieceSource::Group {
                file,
                footer,
                group,
            } => {
                let opened = self.stream(file, footer, *group, columns, selection);
                (opened.await?, columns.texts)
            }
        };
        let mut columns = columns.clone();
        if columns.texts != texts {
            columns = columns.as_views();
        }
        Ok(Batches { source, columns })
    }

    async fn stream(
        &self,
        file: &Arc<DataFile>,
        footer: &Arc<Footer>,
        group: usize,
        columns: &ColumnProjection,
        selection: Option<&Selection>,
    ) -> Result<BatchSource, ReadError> {
        let rows = footer.rows(group);
        // Where pages lie is only worth knowing where many can be left out.
        let few = selection.is_some_and(|selection| selection.rows() < rows / 2);
        let footer = match few {
            true => self.footer(file, FooterDetail::Pages).await?,
            false => Arc::clone(footer),
        };
        let parquet = match columns.texts {
            TextEncoding::Views => footer.parquet.clone(),
            TextEncoding::Dictionaries => {
                let schema = typed(&STORED, columns.texts);
                let options = ArrowReaderOptions::new().with_schema(schema);
                ArrowReaderMetadata::try_new(Arc::clone(footer.parquet.metadata()), options)?
            }
        };
        let mask = ProjectionMask::roots(parquet.parquet_schema(), columns.stored.iter().copied());
        let mut builder =
            ParquetRecordBatchStreamBuilder::new_with_metadata(self.open(file).await?, parquet)
                .with_row_groups(vec![group])
                .with_projection(mask)
                .with_batch_size(BATCH_ROWS);
        if let Some(selection) = selection {
            builder = builder.with_row_selection(selection.for_parquet(rows));
        }
        Ok(BatchSource::File(Box::new(builder.build()?)))
    }

    /// The rows of a piece whose time is wanted, where that is not known of all of them.
    pub async fn in_time(
        &self,
        piece: &SearchPiece,
        wanted: &PruningFilter,
    ) -> Result<Option<Selection>, ReadError> {
        if wanted.covers(piece.from_ns, piece.to_ns) {
            return Ok(None);
        }
        let time = ColumnProjection::named([EventColumn::Time.name()]);
        let mut batches = self.read(piece, &time, None).await?;
        let mut rows = piece.rows_to_read();
        let mut within = Selection::default();
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            for time in times(&batch, 0)? {
                let row = rows.next();
                if let Some(row) = row
                    && wanted.has(*time)
                {
                    within.push(row..row + 1);
                }
            }
        }
        Ok(Some(within))
    }
}

/// The column of times at `place`, in nanoseconds since 1970.
pub(super) fn times(batch: &RecordBatch, place: usize) -> Result<&[i64], ReadError> {
    let column = batch.column(place);
    let times = column.as_primitive_opt::<TimestampNanosecondType>();
    let times = times.ok_or_else(|| ReadError::damaged("its times are none"))?;
    Ok(times.values())
}

fn of_tail(
    chunk: &RecordBatch,
    columns: &ColumnProjection,
    selection: Option<&Selection>,
) -> Result<BatchSource, ReadError> {
    let mut rows = chunk.project(&columns.stored).map_err(ReadError::damaged)?;
    if let Some(selection) = selection {
        let mask = selection.mask(chunk.num_rows());
        rows = filter_record_batch(&rows, &mask).map_err(ReadError::damaged)?;
    }
    Ok(BatchSource::Tail(rows))
}

/// The next rows of a chunk in another process.
async fn far(
    chunk: &FarChunk,
    left: &mut Selection,
    stored: &[usize],
) -> Result<RecordBatch, ReadError> {
    let wanted = left.first(BATCH_ROWS);
    let batch = if stored.is_empty() {
        // Only how many there are is asked for.
        let options = RecordBatchOptions::new().with_row_count(Some(wanted.rows()));
        let schema = Arc::new(Schema::empty());
        RecordBatch::try_new_with_options(schema, Vec::new(), &options)
            .map_err(ReadError::damaged)?
    } else {
        chunk.source.ask(chunk.number, stored, &wanted).await?
    };
    let rows = batch.num_rows();
    let columns = batch.columns().iter().map(|column| column.data_type());
    let kinds = stored
        .iter()
        .map(|number| STORED.field(*number).data_type());
    if rows == 0 || rows > wanted.rows() || !columns.eq(kinds) {
        return Err(ReadError::Unreachable(
            "other rows came than asked for".to_owned(),
        ));
    }
    left.pass(rows);
    Ok(batch)
}

/// The `stored` columns of those rows of a chunk that `selection` names: as many of the first as
/// have `bytes_max` bytes of raw text, one at least. Their texts are copied, so that nothing else
/// of the chunk is with them.
///
/// # Errors
/// There are no such columns.
pub fn part_of(
    chunk: &Chunk,
    stored: &[usize],
    selection: &Selection,
    bytes_max: usize,
) -> Result<RecordBatch, ReadError> {
    let all = chunk.rows.num_rows();
    let raw = chunk.rows.column_by_name(EventColumn::Raw.name());
    let raw = raw.and_then(|raw| raw.as_string_view_opt());
    let mut bytes = 0;
    let rows = selection.iter().take_while(|row| {
        let before = bytes;
        bytes += raw
            .filter(|_| *row < all)
            .map_or(0, |raw| raw.value(*row).len());
        *row < all && (before == 0 || bytes <= bytes_max)
    });
    let some = Selection::of(rows);
    let columns = chunk.rows.project(stored).map_err(ReadError::damaged)?;
    let rows = filter_record_batch(&columns, &some.mask(all)).map_err(ReadError::damaged)?;
    let compact = |column: &ArrayRef| match column.as_string_view_opt() {
        Some(texts) => Arc::new(texts.gc()) as ArrayRef,
        None => Arc::clone(column),
    };
    let columns = rows.columns().iter().map(compact).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(rows.schema(), columns, &options).map_err(ReadError::damaged)
}

impl ColumnProjection {
    /// The same with texts as views.
    fn as_views(&self) -> Self {
        let table = table();
        let fields: Vec<Arc<Field>> = self
            .schema
            .fields()
            .iter()
            .map(|field| match table.field_with_name(field.name()) {
                Ok(plain) => Arc::new(plain.clone()),
                Err(_) => Arc::clone(field),
            })
            .collect();
        Self {
            schema: Arc::new(Schema::new(fields)),
            texts: TextEncoding::Views,
            ..self.clone()
        }
    }
}
