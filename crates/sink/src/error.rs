//! Who is at fault when a sink cannot be opened or an attempt fails, and what happens next.

use std::path::PathBuf;

use crate::Problem;

/// Why a destination could not be opened. All of them are the operator's to mend; nothing was
/// started.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The options cannot work.
    #[error("{0}")]
    Config(Problem),
    /// A file that the options name cannot be read.
    #[error("cannot read {path}: {cause}")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// A certificate or key file does not hold what it should.
    #[error("{path}: {what}")]
    BadCertificate {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The system did not give what any sink of this kind needs.
    #[error("cannot start: {0}")]
    Unstartable(std::io::Error),
}
