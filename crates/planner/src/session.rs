//! A session: what SQL may do here, and what it may not.

use std::sync::Arc;

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::DFSchema;
use datafusion::dataframe::DataFrame;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::ScalarUDF;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::prelude::{SQLOptions, SessionConfig, SessionContext};
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::{Planner, Statement};

/// Functions that make a long value of a short one, for which nobody asks the memory pool: a
/// single call of one could take all memory there is. (Expressions that are nested for that purpose
/// still can: whoever may send SQL is trusted that far.)
const UNBOUNDED: [&str; 9] = [
    "repeat",
    "lpad",
    "rpad",
    "array_repeat",
    "list_repeat",
    "array_resize",
    "list_resize",
    "range",
    "generate_series",
];

/// Parts of a session that its caller has.
pub struct SessionParts {
    /// Threads that a plan is divided among.
    pub threads: usize,
    /// Rows of a batch.
    pub batch_rows: usize,
    /// Memory that plans may use.
    pub memory: Arc<dyn MemoryPool>,
    /// The tables, by name.
    pub tables: Vec<(&'static str, Arc<dyn TableProvider>)>,
    /// Functions beside those of DataFusion.
    pub functions: Vec<ScalarUDF>,
    /// Rules that come after those of DataFusion.
    pub rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
}

/// A planner whose statements can read the tables of `parts`, and nothing else.
///
/// # Errors
/// A table has no place in the catalogue.
pub fn planner(parts: SessionParts) -> Result<Box<dyn Planner>> {
    let mut config = SessionConfig::new()
        .with_target_partitions(parts.threads)
        .with_batch_size(parts.batch_rows)
        .with_information_schema(true)
        .with_create_default_catalog_and_schema(true);
    let options = config.options_mut();
    // What is recursive has no end that can be seen beforehand.
    options.execution.enable_recursive_ctes = false;
    options.explain.format = datafusion::common::format::ExplainFormat::Indent;
    let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    let runtime = RuntimeEnvBuilder::new()
        .with_disk_manager_builder(disk)
        .with_memory_pool(parts.memory)
        .build_arc()?;
    let mut state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_default_features();
    for rule in parts.rules {
        state = state.with_physical_optimizer_rule(rule);
    }
    let context = SessionContext::new_with_state(state.build());
    for name in UNBOUNDED {
        context.deregister_udf(name);
        context.deregister_udtf(name);
    }
    for function in parts.functions {
        context.register_udf(function);
    }
    for (name, table) in parts.tables {
        context.register_table(name, table)?;
    }
    Ok(Box::new(SessionPlanner(context)))
}

/// SELECT, EXPLAIN, SHOW and DESCRIBE, and nothing that changes anything.
fn read_only() -> SQLOptions {
    SQLOptions::new()
        .with_allow_ddl(false)
        .with_allow_dml(false)
        .with_allow_statements(false)
}

struct SessionPlanner(SessionContext);

impl Planner for SessionPlanner {
    fn condition(&self, sql: &str, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
        let schema = DFSchema::try_from(schema.clone())?;
        let expression = self.0.parse_sql_expr(sql, &schema)?;
        self.0.create_physical_expr(expression, &schema)
    }

    fn statement<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<Box<dyn Statement>>> {
        let planned = async move {
            let frame = self.0.sql_with_options(sql, read_only()).await?;
            Ok(Box::new(PlannedFrame(frame)) as Box<dyn Statement>)
        };
        planned.boxed()
    }
}

struct PlannedFrame(DataFrame);

impl Statement for PlannedFrame {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.0.schema().inner())
    }

    fn stream(self: Box<Self>) -> BoxFuture<'static, Result<SendableRecordBatchStream>> {
        self.0.execute_stream().boxed()
    }
}
