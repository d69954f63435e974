//! The condition of a query, in stages: what is cheap to read rules events out before what is dear
//! is read.

use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::DataType;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use inrush_planner::{Planner, SessionParts, planner};
use inrush_query::EventColumn;
use inrush_store::read::{BATCH_ROWS, ColumnProjection, table};
use inrush_store::schema::FIELDS;

use crate::field_is::field_is;
use crate::has::has;

/// A condition, in stages. The first is always there, and its first column is the time.
#[derive(Debug)]
pub(crate) struct StagedFilter {
    pub(crate) stages: Vec<FilterStage>,
}

/// Expressions that need the same columns.
#[derive(Debug)]
pub(crate) struct FilterStage {
    pub(crate) columns: ColumnProjection,
    expressions: Vec<Arc<dyn PhysicalExpr>>,
}

/// Cost of reading a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ColumnCost {
    /// A dictionary or a few bytes a row.
    Little,
    /// The map.
    More,
    /// The raw text.
    Most,
}

impl ColumnCost {
    fn of(expression: &Arc<dyn PhysicalExpr>) -> Self {
        let of_column = |name: &str| match name {
            name if name == EventColumn::Raw.name() || name == EventColumn::Message.name() => {
                Self::Most
            }
            FIELDS => Self::More,
            _ => Self::Little,
        };
        let columns = collect_columns(expression);
        let costs = columns.iter().map(|column| of_column(column.name()));
        costs.max().unwrap_or(Self::Little)
    }
}

/// The planner of all conditions: they name no table, and each session registers 300 functions.
fn conditions() -> Result<&'static dyn Planner> {
    static CONDITIONS: OnceLock<Box<dyn Planner>> = OnceLock::new();
    if let Some(planner) = CONDITIONS.get() {
        return Ok(&**planner);
    }
    let planner = planner(SessionParts {
        threads: 1,
        batch_rows: BATCH_ROWS,
        memory: Arc::new(GreedyMemoryPool::new(0)),
        tables: Vec::new(),
        functions: vec![has(), field_is()],
        rules: Vec::new(),
    })?;
    Ok(&**CONDITIONS.get_or_init(|| planner))
}

impl StagedFilter {
    /// The condition that `predicate` writes in SQL.
    pub(crate) fn new(predicate: &str) -> Result<Self> {
        let expression = conditions()?.condition(predicate, &table())?;
        let mut parts: Vec<Arc<dyn PhysicalExpr>> = split_conjunction(&expression)
            .into_iter()
            .filter(|part| part.to_string() != "true")
            .cloned()
            .collect();
        parts.sort_by_key(ColumnCost::of);
        let mut stages = Vec::new();
        for cost in [ColumnCost::Little, ColumnCost::More, ColumnCost::Most] {
            let some = parts.iter().filter(|part| ColumnCost::of(part) == cost);
            let stage = FilterStage::new(some.cloned().collect(), cost == ColumnCost::Little)?;
            if cost == ColumnCost::Little || !stage.is_empty() {
                stages.push(stage);
            }
        }
        Ok(Self { stages })
    }

    /// True if every event meets it.
    pub(crate) fn is_empty(&self) -> bool {
        self.stages.iter().all(FilterStage::is_empty)
    }
}

impl FilterStage {
    fn new(expressions: Vec<Arc<dyn PhysicalExpr>>, with_time: bool) -> Result<Self> {
        let mut names: Vec<String> = Vec::new();
        if with_time {
            names.push(EventColumn::Time.name().to_owned());
        }
        for column in expressions.iter().flat_map(collect_columns) {
            if !names.iter().any(|name| name == column.name()) {
                names.push(column.name().to_owned());
            }
        }
        let columns = ColumnProjection::named(names.iter().map(String::as_str));
        let schema = columns.schema();
        let expressions: Result<Vec<_>> = expressions
            .into_iter()
            .map(|expression| reassign_expr_columns(expression, schema))
            .collect();
        Ok(Self {
            expressions: expressions?,
            columns,
        })
    }

    /// True if it rules nothing out.
    pub(crate) fn is_empty(&self) -> bool {
        self.expressions.is_empty()
    }

    /// Mask of the rows that meet it; none if all do.
    pub(crate) fn met_by(&self, batch: &RecordBatch) -> Result<Option<BooleanBuffer>> {
        let mut met: Option<BooleanBuffer> = None;
        for expression in &self.expressions {
            let value = expression.evaluate(batch)?.into_array(batch.num_rows())?;
            if value.data_type() != &DataType::Boolean {
                let what = format!("{expression} is no condition");
                return Err(DataFusionError::Plan(what));
            }
            let value = value.as_boolean();
            // What is unknown is not met.
            let mut one = value.values().clone();
            if let Some(known) = value.nulls() {
                one = &one & known.inner();
            }
            met = Some(match met {
                Some(before) => &before & &one,
                None => one,
            });
        }
        Ok(met)
    }
}
