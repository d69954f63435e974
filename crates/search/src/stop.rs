//! Why a search stops before its end.

use datafusion::error::DataFusionError;
use inrush_store::read::Fault;
use inrush_store::reply::{Failure, Stopped};

/// Why a search stops before its end.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A bound was reached, or nobody listens.
    Bound(Stopped),
    /// It cannot be answered.
    Failed(Failure),
}

impl Stop {
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::Failed(Failure {
            message: message.into(),
            ..Failure::default()
        })
    }
}

impl From<DataFusionError> for Stop {
    fn from(error: DataFusionError) -> Self {
        if let DataFusionError::ResourcesExhausted(_) = error.find_root() {
            return Self::Bound(Stopped::Memory);
        }
        // What follows the first line is DataFusion's own backtrace.
        let message = error.strip_backtrace();
        Self::failed(message.lines().next().unwrap_or("no reason is known"))
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::failed(fault.to_string())
    }
}
