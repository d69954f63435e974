//! Errors of opening a sink. The operator is at fault in all of them.

use std::path::PathBuf;

use crate::SinkProblem;

/// Error of opening a destination. All of them are the operator's to mend; nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The options cannot work.
    #[error("{0}")]
    Config(SinkProblem),
    /// A file that the options name cannot be read.
    #[error("cannot read {path}: {cause}")]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        cause: std::io::Error,
    },
    /// A certificate or key file does not hold what it should.
    #[error("{path}: {what}")]
    BadCertificate {
        /// Path of the file.
        path: PathBuf,
        /// Description of the fault.
        what: String,
    },
    /// The system did not give what any sink of this kind needs.
    #[error("cannot start: {0}")]
    Unstartable(std::io::Error),
}
