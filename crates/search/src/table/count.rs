//! `SELECT sourcetype, count(*) … GROUP BY 1`: the commonest of all questions, answered from the
//! dictionaries of the files.
//!
//! A text column of a row group is a dictionary and a number for each row. Where nothing but the
//! rows of each value is asked for, the numbers are counted, and DataFusion gets a row a value in
//! place of a row an event: a fraction of the time, for it would hash every one of them. This is a
//! rule of its optimiser that puts [`CountExec`] in the place of the first half of such an
//! aggregation; the second half, which sums up what the threads found, stays.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::cast::AsArray;
use datafusion::arrow::array::types::Int32Type;
use datafusion::arrow::array::{
    Array, ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringViewArray,
};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    PlanProperties, ReplaceChildrenOptions,
};
use futures::stream;
use inrush_query as query;
use inrush_store::read::{ColumnProjection, ReadError, TextEncoding, table};

use super::scan::{EventsExec, begin, external, pass_over};
use crate::turn::TimeSlice;
use crate::work::{PieceJob, PieceQueue};

/// Values that are counted before they are handed on: what is different in every event must not
/// pile up here.
const VALUES_MAX: usize = 1 << 16;

/// Puts [`CountExec`] into plans.
#[derive(Debug)]
pub(crate) struct CountByText;

impl PhysicalOptimizerRule for CountByText {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let replace = |plan: Arc<dyn ExecutionPlan>| {
            let count = plan.downcast_ref::<AggregateExec>().and_then(count_of);
            Ok(match count {
                Some(count) => Transformed::yes(Arc::new(count) as Arc<dyn ExecutionPlan>),
                None => Transformed::no(plan),
            })
        };
        plan.transform_up(replace).data()
    }

    fn name(&self) -> &str {
        "count_by_text"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Plan that counts as the aggregation does, if it counts nothing but the rows of each text.
fn count_of(plan: &AggregateExec) -> Option<CountExec> {
    let group = plan.group_expr();
    let [(by, _)] = group.expr() else {
        return None;
    };
    let by = by.downcast_ref::<Column>()?.name().to_owned();
    let plain = *plan.mode() == AggregateMode::Partial
        && group.is_single()
        && plan.filter_expr().iter().all(Option::is_none)
        && plan.schema().fields().len() == 2;
    let [count] = plan.aggr_expr() else {
        return None;
    };
    let arguments = count.expressions();
    let [argument] = arguments.as_slice() else {
        return None;
    };
    let of_rows = count.fun().name() == "count"
        && !count.is_distinct()
        && argument
            .downcast_ref::<Literal>()
            .is_some_and(|literal| !literal.value().is_null());
    // The raw text has no dictionary.
    let known = table();
    let field = known.field_with_name(&by).ok()?;
    let texts = *field.data_type() == DataType::Utf8View
        && by != query::EventColumn::Raw.name()
        && by != query::EventColumn::Message.name();
    let schema = plan.schema();
    let kinds = *schema.field(0).data_type() == DataType::Utf8View
        && *schema.field(1).data_type() == DataType::Int64;
    if !(plain && of_rows && texts && kinds) {
        return None;
    }
    CountExec::new(plan.input(), schema, &by)
}

/// Counts the rows of each text of a column.
#[derive(Debug)]
struct CountExec {
    /// Scan that this plan takes the place of.
    events: Arc<dyn ExecutionPlan>,
    by: String,
    columns: ColumnProjection,
    properties: Arc<PlanProperties>,
}

impl CountExec {
    /// Nothing if `input` is no plain scan of the table.
    fn new(input: &Arc<dyn ExecutionPlan>, schema: SchemaRef, by: &str) -> Option<Self> {
        let events = scan_below(input)?;
        let number = table().index_of(by).ok()?;
        let partitions = input.output_partitioning().partition_count();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Some(Self {
            events,
            by: by.to_owned(),
            columns: ColumnProjection::new(&[number], TextEncoding::Dictionaries),
            properties: Arc::new(properties),
        })
    }
}

/// The scan that `plan` is, or that it only hands on.
fn scan_below(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    if let Some(events) = plan.downcast_ref::<EventsExec>() {
        return events.is_unlimited().then(|| Arc::clone(plan));
    }
    match plan.children().as_slice() {
        [input] if plan.name() == "CooperativeExec" => scan_below(input),
        _ => None,
    }
}

impl DisplayAs for CountExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CountExec: by={} ", self.by)?;
        match self.events.downcast_ref::<EventsExec>() {
            Some(events) => events.fmt_as(kind, f),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for CountExec {
    fn name(&self) -> &str {
        "CountExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(events) = self.events.downcast_ref::<EventsExec>() else {
            return Err(DataFusionError::Internal("there is no scan".to_owned()));
        };
        let schema = self.schema();
        let counting = CountStream {
            work: events.work(partition)?,
            columns: self.columns.clone(),
            schema: Arc::clone(&schema),
            counts: TextCounts::default(),
            turn: TimeSlice::new(),
            ended: false,
        };
        let batches = stream::try_unfold(counting, |mut counting| async move {
            let batch = counting.next().await?;
            Ok(batch.map(|batch| (batch, counting)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}

/// One of the streams of a count.
struct CountStream {
    work: Arc<PieceQueue>,
    columns: ColumnProjection,
    schema: SchemaRef,
    counts: TextCounts,
    turn: TimeSlice,
    ended: bool,
}

impl CountStream {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while !self.ended {
            match self.work.next().await.map_err(external)? {
                None => self.ended = true,
                Some(job) => {
                    // What of a piece was counted before it turned out to be damaged stays, as
                    // with every other way of reading it.
                    if let Err(fault) = self.count(&job).await {
                        pass_over(&self.work, &job, fault)?;
                    }
                    self.work.finish(job.number);
                    self.turn.end_if_due().await;
                }
            }
            if self.counts.by_text.len() >= VALUES_MAX {
                break;
            }
        }
        self.counts.take(&self.schema)
    }

    async fn count(&mut self, job: &PieceJob) -> Result<(), ReadError> {
        let begun = begin(&self.work, &self.columns, &job.piece).await?;
        let Some(mut batches) = begun else {
            return Ok(());
        };
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            self.work.meter.add_rows(batch.num_rows() as u64);
            self.counts.add(batch.column(0))?;
            self.turn.end_if_due().await;
        }
        Ok(())
    }
}

/// Number of rows of each text.
#[derive(Debug, Default)]
struct TextCounts {
    by_text: HashMap<Box<str>, i64>,
    /// Rows that have none.
    absent: i64,
    /// For each number of a dictionary, its rows.
    by_number: Vec<i64>,
}

impl TextCounts {
    fn add(&mut self, column: &ArrayRef) -> Result<(), ReadError> {
        if let Some(texts) = column.as_string_view_opt() {
            for text in texts {
                self.add_text(text, 1);
            }
            return Ok(());
        }
        let numbers = column.as_dictionary_opt::<Int32Type>();
        let numbers = numbers.ok_or_else(|| ReadError::Damaged("its texts are none".to_owned()))?;
        self.add_numbers(numbers)
    }

    fn add_text(&mut self, text: Option<&str>, rows: i64) {
        let Some(text) = text else {
            self.absent += rows;
            return;
        };
        match self.by_text.get_mut(text) {
            Some(count) => *count += rows,
            None => {
                self.by_text.insert(text.into(), rows);
            }
        }
    }

    fn add_numbers(&mut self, numbers: &DictionaryArray<Int32Type>) -> Result<(), ReadError> {
        let texts = numbers.values().as_string_opt::<i32>();
        let texts = texts.ok_or_else(|| ReadError::Damaged("its texts are none".to_owned()))?;
        let mut by_number = std::mem::take(&mut self.by_number);
        by_number.clear();
        by_number.resize(texts.len(), 0);
        let keys = numbers.keys();
        self.absent += keys.null_count() as i64;
        for (row, key) in keys.values().iter().enumerate() {
            if keys.is_valid(row) {
                let count = usize::try_from(*key)
                    .ok()
                    .and_then(|key| by_number.get_mut(key));
                *count.ok_or_else(|| ReadError::Damaged("a text is missing".to_owned()))? += 1;
            }
        }
        for (number, rows) in by_number.iter().enumerate().filter(|(_, rows)| **rows > 0) {
            let text = texts.is_valid(number).then(|| texts.value(number));
            self.add_text(text, *rows);
        }
        self.by_number = by_number;
        Ok(())
    }

    /// Takes the counts as the aggregation hands them on; none if nothing was counted.
    fn take(&mut self, schema: &SchemaRef) -> Result<Option<RecordBatch>> {
        let by_text = std::mem::take(&mut self.by_text);
        let absent = std::mem::take(&mut self.absent);
        if by_text.is_empty() && absent == 0 {
            return Ok(None);
        }
        let nothing = (absent > 0).then_some((None, absent));
        let rows = by_text.iter().map(|(text, rows)| (Some(&**text), *rows));
        let (texts, counts): (Vec<_>, Vec<_>) = rows.chain(nothing).unzip();
        let texts: ArrayRef = Arc::new(StringViewArray::from(texts));
        let counts: ArrayRef = Arc::new(Int64Array::from(counts));
        let batch = RecordBatch::try_new(Arc::clone(schema), vec![texts, counts])?;
        Ok(Some(batch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_are_counted_alike() {
        let texts = [Some("a"), None, Some("b"), Some("a"), Some("")];
        let numbers: DictionaryArray<Int32Type> = texts.into_iter().collect();
        let mut one = TextCounts::default();
        one.add(&(Arc::new(numbers) as ArrayRef)).unwrap();
        let mut other = TextCounts::default();
        let views = StringViewArray::from(texts.to_vec());
        other.add(&(Arc::new(views) as ArrayRef)).unwrap();
        assert_eq!(one.by_text, other.by_text);
        assert_eq!((one.absent, other.absent), (1, 1));
        assert_eq!(one.by_text["a"], 2);
    }
}
