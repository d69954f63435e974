//! Options of the source that makes up records.

use std::any::Any;
use std::sync::Arc;

use inrush_ingest::enrichment::Enrichment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RecordMaker;
use crate::options::SourceOptions;
use crate::polled::PolledSource;
use crate::{SourceServices, StartedSource};

/// A source that makes up records.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MadeUpSource {
    /// Records that it makes up, since it was started.
    pub records: u64,
}

impl SourceOptions for MadeUpSource {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn type_name(&self) -> &'static str {
        "made_up"
    }

    fn index(&self) -> &str {
        "main"
    }

    fn sourcetype(&self) -> &str {
        "made_up"
    }

    fn start(
        &self,
        name: &str,
        services: &Arc<SourceServices>,
        known: &Enrichment,
    ) -> Result<StartedSource, String> {
        PolledSource::start(name, self, RecordMaker::default(), services, known)
    }
}
