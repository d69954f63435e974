//! A session for each statement: what SQL may do here, and what it may not.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SQLOptions, SessionConfig, SessionContext};
use inrush_store::read::{BATCH_ROWS, FooterCache};
use inrush_store::snapshot::Snapshot;

use crate::has::has;
use crate::table::{CountByText, EventsTable, StatementScans};

/// The table's name.
pub(crate) const EVENTS: &str = "events";

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

/// A session over the snapshot, in which nothing but its events can be read.
pub(crate) fn session(
    snapshot: &Snapshot,
    footers: &Arc<FooterCache>,
    scans: &Arc<StatementScans>,
    memory: Arc<dyn MemoryPool>,
    threads: usize,
) -> Result<SessionContext> {
    let mut config = SessionConfig::new()
        .with_target_partitions(threads)
        .with_batch_size(BATCH_ROWS)
        .with_information_schema(true)
        .with_create_default_catalog_and_schema(true);
    let options = config.options_mut();
    // What is recursive has no end that can be seen beforehand.
    options.execution.enable_recursive_ctes = false;
    options.explain.format = datafusion::common::format::ExplainFormat::Indent;
    let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    let runtime = RuntimeEnvBuilder::new()
        .with_disk_manager_builder(disk)
        .with_memory_pool(memory)
        .build_arc()?;
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_default_features()
        .with_physical_optimizer_rule(Arc::new(CountByText))
        .build();
    let context = SessionContext::new_with_state(state);
    for name in UNBOUNDED {
        context.deregister_udf(name);
        context.deregister_udtf(name);
    }
    context.register_udf(has());
    let events = EventsTable::new(snapshot.clone(), Arc::clone(footers), Arc::clone(scans));
    context.register_table(EVENTS, Arc::new(events))?;
    Ok(context)
}

/// SELECT, EXPLAIN, SHOW and DESCRIBE, and nothing that changes anything.
pub(crate) fn read_only() -> SQLOptions {
    SQLOptions::new()
        .with_allow_ddl(false)
        .with_allow_dml(false)
        .with_allow_statements(false)
}
