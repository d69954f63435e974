//! Files of the sources, as the page shows them.
//!
//! # What it guarantees
//! * Counters are totals since the start of the process; whoever shows rates takes differences.
//!
//! # Limits
//! [`FILES_LISTED`] files of a source: those that cannot be read, then those with the most unread
//! bytes.

use std::sync::Arc;

use inrush_event::Timestamp;
use inrush_source::Source;
use inrush_tail::workload::WorkloadState;
use serde::Serialize;

pub use inrush_tail::listing::FileListing;

/// Files of a source that are listed.
pub const FILES_LISTED: usize = 1000;

/// The answer of `GET /api/v1/files`.
#[derive(Clone, Debug, Serialize)]
pub struct FileList {
    /// Time of the answer, in milliseconds since 1970.
    pub at_ms: i64,
    /// The sources that read files, in the order of the configuration.
    pub sources: Vec<SourceFiles>,
}

/// Files of a source.
#[derive(Clone, Debug, Serialize)]
pub struct SourceFiles {
    /// The source.
    pub source: String,
    /// Its files.
    #[serde(flatten)]
    pub listing: FileListing,
    /// Containers whose logs it reads; none of a source without metadata of containers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<WorkloadState>,
}

/// The files of these sources.
pub(crate) fn list(sources: &[Arc<dyn Source>]) -> FileList {
    let of = |source: &Arc<dyn Source>| {
        Some(SourceFiles {
            source: source.ingest().name.clone(),
            listing: source.files(FILES_LISTED)?,
            workloads: source.workloads(),
        })
    };
    FileList {
        at_ms: Timestamp::now().0 / 1_000_000,
        sources: sources.iter().filter_map(of).collect(),
    }
}
