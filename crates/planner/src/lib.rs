//! Planner: SQL text to execution plans, in a session that can only read.
//!
//! # What it guarantees
//! * A session reads the tables that it was given, and nothing else: no file, no host, no change.
//! * Functions that make a long value of a short one are not there.
//!
//! # Why it is a room of its own
//! A future and a destructor are compiled in the crate that uses them. Those of DataFusion's
//! planner bring the syntax tree of all SQL with them: 40,000 functions in a crate of 6,000 lines.
//! Here they are compiled once, and without optimisation, because a statement is planned once. So
//! all that leaves this room is behind a trait object.
#![forbid(unsafe_code)]

mod session;

use std::sync::Arc;

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::PhysicalExpr;
use futures::future::BoxFuture;

pub use session::{SessionParts, planner};

/// Planner of the statements of one session.
pub trait Planner: Send + Sync {
    /// Plans a condition on the rows of `schema`.
    ///
    /// # Errors
    /// It is no SQL, or names what is not there.
    fn condition(&self, sql: &str, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>>;

    /// Plans a statement: SELECT, EXPLAIN, SHOW or DESCRIBE.
    ///
    /// # Errors
    /// It is no SQL, names what is not there, or would change something.
    fn statement<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<Box<dyn Statement>>>;
}

/// A planned statement.
pub trait Statement: Send {
    /// Columns of its result.
    fn schema(&self) -> SchemaRef;

    /// Starts it.
    ///
    /// # Errors
    /// There is no plan for it, or no memory.
    fn stream(self: Box<Self>) -> BoxFuture<'static, Result<SendableRecordBatchStream>>;
}
